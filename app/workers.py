"""The threads that simulate for all sessions of a server, and the compiling that they wait for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import workbench
from workbench.compiled import is_cold
from workbench.serving import kernels

_EACH = 2  # threads of each kind; the compiled loop lets go of the interpreter
_NICE = 10


class Workers:
    """``prompt`` threads for what a visitor waits for, ``patient`` ones for what sharpens it."""

    def __init__(self):
        self.prompt = ThreadPoolExecutor(_EACH, "prompt")
        self.patient = ThreadPoolExecutor(_EACH, "patient", initializer=_give_way)


def _give_way() -> None:
    """Let other threads and the browser, often on this machine too, go before this thread."""
    if sys.platform == "linux":  # elsewhere a priority is the whole process's
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


_compiling = threading.Lock()


def compile_loops() -> None:
    """Fill the cache of machine code in a process of its own, lest this one stand still.

    Once on a machine. Where it fails, this process compiles for itself.
    """
    with _compiling:
        if not is_cold(kernels.commit_rounds):
            return
        # in a checkout, -m would find the package there, and this server may run the installed one
        here = [str(Path(workbench.__file__).parents[1]), os.environ.get("PYTHONPATH")]
        same = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, here))}
        arguments = ["simulate", "--trace", "chat", "--concurrency", "2", "--requests", "4"]
        subprocess.run(
            [sys.executable, "-m", "workbench.cli.main", *arguments],
            env=os.environ | same,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
