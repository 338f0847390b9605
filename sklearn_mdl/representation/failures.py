"""What went wrong in a cell, kept while the others go on."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import NamedTuple, Self

LONGEST = 300  # characters of a message that are shown


class Failure(NamedTuple):
    """A cell, or an encoder on a dataset, that came to no end.

    Attributes
    ----------
    dataset, encoder : str
    order : int or None
        None if the encoder failed, and so all orders.
    error : str
        What was raised, in one line.
    details : str
        The traceback.
    """

    dataset: str
    encoder: str
    order: int | None
    error: str
    details: str

    @classmethod
    def of(
        cls, error: BaseException, dataset: str, encoder: str, order: int | None = None
    ) -> Self:
        """Write down an exception."""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]} ..."
        details = "".join(traceback.format_exception(error))
        return cls(dataset, encoder, order, text, details)

    def __str__(self) -> str:
        """Name the cell and the error."""
        order = "" if self.order is None else f", order {self.order}"
        return f"{self.encoder!r} on {self.dataset!r}{order} ({self.error})"


def told(failures: Sequence[Failure], n_shown: int = 5) -> str:
    """Name the first failures, and how many more there are."""
    text = "; ".join(map(str, failures[:n_shown]))
    more = len(failures) - n_shown
    return f"{text}; and {more} more" if more > 0 else text
