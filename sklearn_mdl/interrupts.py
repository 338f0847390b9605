"""Ctrl-C during a long computation that must not be left at just any place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """Hold a first Ctrl-C back; a second one acts at once.

    Yields
    ------
    asked : callable
        Whether a Ctrl-C has come, so that the computation stops at the next good place.
        Always False outside the main thread and where a program handles Ctrl-C itself:
        nothing is held back there.
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is not signal.default_int_handler:
        yield lambda: False
        return
    asked = threading.Event()

    def hold(signum: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, hold)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
