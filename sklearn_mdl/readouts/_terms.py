"""Properties of readout lists that may depend on the number of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Terms(NamedTuple):
    """Properties of a list of readouts that may depend on the number of features.

    Attributes
    ----------
    n_readouts : int
    streams : tuple of int
        Distinct initial and final numbers of replay streams, in ascending order.
    scalings : tuple of str
        Distinct scalings of features, possibly "none", in the order of the readouts.
    """

    n_readouts: int
    streams: tuple[int, ...]
    scalings: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return the terms as a dictionary that can be written as JSON."""
        return self._asdict()

    @classmethod
    def from_json(cls, terms: dict[str, Any]) -> Terms:
        """Read the output of :meth:`as_json`."""
        streams, scalings = tuple(terms["streams"]), tuple(terms["scalings"])
        return cls(terms["n_readouts"], streams, scalings)

    def __str__(self) -> str:
        """Return the terms in words."""
        ends = dict.fromkeys(self.streams[:1] + self.streams[-1:])
        streams = " to ".join(map(str, ends)) or "no"
        scalings = " and ".join(self.scalings) or "none"
        replay = f"{self.n_readouts} readouts, {streams} replay streams"
        return f"{replay}, scaling {scalings}"


def terms_of(readouts: Sequence[Any]) -> Terms:
    """Return the terms of a list of readouts."""
    inner = [getattr(r, "inner", r) for r in readouts]
    numbers = [np.ravel(getattr(r, "n_replay_streams", ())) for r in inner]
    streams = np.unique(np.concatenate([[], *numbers])).astype(int).tolist()
    scalings = [str(r.scaling or "none") for r in inner if hasattr(r, "scaling")]
    return Terms(len(readouts), tuple(streams), tuple(dict.fromkeys(scalings)))
