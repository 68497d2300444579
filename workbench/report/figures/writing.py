"""Files of the figures: a picture each, one file of numbers, tables in a page of text."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from matplotlib.figure import Figure
from PIL import Image

from workbench.errors import InputError
from workbench.files import atomic_write, not_a_file
from workbench.report.figures.made import Made, markdown

NUMBERS = "numbers.json"
FORMAT = "workbench.figures/1"
_DPI = 110
_BLOCK = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write_figures(folder: str, made: Sequence[Made], inputs: Mapping[str, Any]) -> list[str]:
    """Write a PNG per figure and ``numbers.json`` into an existing folder; returns their paths."""
    paths = []
    for one in made:
        paths.append(str(Path(folder) / f"{one.name}.png"))
        with atomic_write(paths[-1]) as file:
            file.write(small_png(one.figure))
    paths.append(str(Path(folder) / NUMBERS))
    figures = {one.name: {"numbers": rounded(one.numbers), "table": one.table} for one in made}
    document = {"format": FORMAT, "inputs": rounded(dict(inputs)), "figures": figures}
    with atomic_write(paths[-1]) as file:
        file.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    return paths


def small_png(figure: Figure) -> bytes:
    """The figure as PNG with 256 colours, a third of the size; the same figure, the same bytes."""
    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI)
    picture = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(packed, format="png", optimize=True)
    return packed.getvalue()


def rounded(value: Any) -> Any:
    """The same with every float to six digits, NaN as None: what other machines give too."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return value


def read_page(path: str, names: Sequence[str]) -> str:
    """The text of a page that has a block for each of ``names``. Raises InputError else.

    A block is ``<!-- numbers: NAME -->``, lines that are replaced, ``<!-- end -->``.
    """
    if (problem := not_a_file(path)) is not None:
        raise InputError(problem, file=path, place="--page", mend="name a Markdown page")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError("is no text", file=path, place="--page", mend="use UTF-8") from error
    there = {match[2] for match in _BLOCK.finditer(text)}
    if missing := [name for name in names if name not in there]:
        mend = f"add <!-- numbers: {missing[0]} --> and <!-- end --> on lines of their own"
        raise InputError(f"has no block for {missing[0]}", file=path, place="--page", mend=mend)
    return text


def with_tables(text: str, tables: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """The page's text with the blocks of ``tables`` filled anew."""

    def fill(match: re.Match) -> str:
        if match[2] not in tables:
            return match[0]
        return f"{match[1]}{markdown(tables[match[2]])}{match[3]}"

    return _BLOCK.sub(fill, text)
