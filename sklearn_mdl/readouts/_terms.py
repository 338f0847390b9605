"""Properties of readout lists that may depend on the number of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sklearn_mdl._core.stream.learner import Replay


class Terms(NamedTuple):
    """Properties of a list of readouts that may depend on the number of features.

    Attributes
    ----------
    n_readouts : int
    streams : tuple of int
        Distinct initial numbers of replay streams, in ascending order.
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
        lists = (tuple(terms[name]) for name in cls._fields[1:])
        return cls(terms["n_readouts"], *lists)

    def __str__(self) -> str:
        """Return the terms in words."""
        streams = " or ".join(map(str, self.streams)) or "no"
        scalings = " and ".join(self.scalings) or "none"
        replay = f"{self.n_readouts} readouts, {streams} replay streams"
        return f"{replay}, scaling {scalings}"


def terms_of(readouts: Sequence[Any]) -> Terms:
    """Return the terms of a list of readouts."""
    inner = [getattr(r, "inner", r) for r in readouts]
    nets = [r for r in inner if hasattr(r, "n_replay_streams")]
    streams = {Replay.requested(r.n_replay_streams).n_streams for r in nets}
    scalings = [str(r.scaling or "none") for r in inner if hasattr(r, "scaling")]
    return Terms(len(readouts), tuple(sorted(streams)), tuple(dict.fromkeys(scalings)))
