"""Ctrl-C where it may come: a database that is interrupted half-way stays locked or hangs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


@contextmanager
def held_interrupts() -> Iterator[Callable[[], AbstractContextManager]]:
    """Ctrl-C waits for the end of the block, and raises KeyboardInterrupt there.

    Yields a function whose context lets it in sooner: at once if it came before. Outside the main
    thread, where no signal arrives, and where Ctrl-C is ignored, nothing changes.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield nullcontext
        return
    waiting = False

    def note(*_) -> None:
        nonlocal waiting
        waiting = True

    def deliver() -> None:
        nonlocal waiting
        if waiting:
            waiting = False
            raise KeyboardInterrupt

    @contextmanager
    def let_in() -> Iterator[None]:
        deliver()
        signal.signal(signal.SIGINT, usual)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, note)

    signal.signal(signal.SIGINT, note)
    try:
        yield let_in
        deliver()
    finally:
        signal.signal(signal.SIGINT, usual)
