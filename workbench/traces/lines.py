"""Lines of a plain, gzip or zstd file, recognised by their first bytes and read as a stream."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import zstandard

from workbench.errors import InputError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


class _ZstdFrames(io.RawIOBase):
    """All frames of a zstd file; unlike zstandard's own reader, a cut frame is an EOFError."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._ready:
            data = self._frame.unused_data if self._frame.eof else b""
            data = data or self._file.read(_CHUNK)
            if not data:
                if not self._frame.eof:
                    raise EOFError("the file ends inside a zstd frame")
                return 0
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._ready = memoryview(self._frame.decompress(data))
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the decompressed lines of ``path`` without their ends, nor a mark at the beginning.

    Raises InputError if the file cannot be read or its compressed data is damaged or cut short.
    """
    number = 0
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            if magic.startswith(_GZIP):
                stream: IO[bytes] = gzip.GzipFile(fileobj=file)
            elif magic == _ZSTD:
                stream = io.BufferedReader(_ZstdFrames(file), _CHUNK)
            else:
                stream = file
            for line in stream:
                number += 1
                if number == 1:  # some editors and spreadsheets begin UTF-8 with a mark
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield line.rstrip(b"\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise InputError(
            f"compressed data is damaged or cut short ({error})",
            file=path,
            place=f"after line {number}",
            mend="copy the file again",
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror or error})", file=path, mend="name a file that can be"
        ) from error
