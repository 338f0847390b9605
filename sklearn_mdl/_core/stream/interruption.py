"""Deferral of Ctrl-C to the next point at which a computation can stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Defer the first Ctrl-C; a second one acts immediately.

    Yields
    ------
    pressed : callable
        Returns True after a Ctrl-C, so that the computation can stop at a good point.
        It always returns False outside the main thread, or if the program handles
        Ctrl-C itself.
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is not signal.default_int_handler:
        yield lambda: False
        return
    pressed = threading.Event()

    def remember(signum: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, remember)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
