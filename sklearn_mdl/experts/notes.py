"""What estimators complain of, kept instead of printed block after block."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

KEPT_TEXTS = 20  # messages may hold numbers, so that no two are alike


class Notes:
    """Complaints of one expert: each text once, with when it came and how often."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, int]] = {}

    def add(self, kind: type[BaseException], message: object, n_rows: int) -> None:
        """Note an exception or a warning that came after so many rows."""
        words = " ".join(str(message).split())
        text = f"{kind.__name__}: {words}"
        if text in self._found or len(self._found) < KEPT_TEXTS:
            first, count = self._found.get(text, (n_rows, 0))
            self._found[text] = (first, count + 1)

    def lines(self) -> list[str]:
        """One line for each text, the first to come first."""
        return [
            f"{text} (first after {first} rows, {count} in all)"
            for text, (first, count) in self._found.items()
        ]


class _Collector:
    """Keeps the warnings of some threads, and lets those of others pass.

    Filters of warnings belong to the whole process, and threads that each save and
    restore them leave them in disorder. So the first thread that comes opens them, the
    last that goes puts them back as they were, and what is shown in between is dealt
    out by thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._own = threading.local()

    @contextmanager
    def __call__(self, notes: Notes, n_rows: int) -> Iterator[None]:
        outer = getattr(self._own, "into", None)
        self._enter()
        self._own.into = (notes, n_rows)
        try:
            yield
        finally:
            self._own.into = outer
            self._leave()

    def _enter(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                self._shown = warnings.showwarning
                warnings.simplefilter("always")
                warnings.showwarning = self._show
            self._n_inside += 1

    def _leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._before.__exit__(None, None, None)

    def _show(self, message: Any, category: Any, *place: Any, **others: Any) -> None:
        into = getattr(self._own, "into", None)
        if into is None:
            self._shown(message, category, *place, **others)
        else:
            notes, n_rows = into
            notes.add(category, message, n_rows)


collected = _Collector()
