"""Replay streams that run over what a walk has seen.

A replay stream reads the seen minibatches in their original order, one after each new
minibatch, and now and then jumps back to the first (Bornschein, Li and Hutter, 2022).
When ``t`` minibatches exist, a jump with probability ``1 / t`` keeps the position
exactly uniform on ``{1, ..., t}``: if it was uniform on ``t - 1`` places, then the
first place has probability ``1 / t`` and every other one ``(1 - 1 / t) / (t - 1) = 1 /
t``. A jump with probability ``c / t`` makes ``position / t`` Beta(1, c) distributed.
"""

from __future__ import annotations

import numpy as np


class ReplayStreams:
    """Positions of ``S`` replay streams over a growing list of minibatches.

    Parameters
    ----------
    n_streams : int
        Number of streams ``S``.
    recency : float, default=1.0
        ``c`` in the jump probability ``min(1, c / t)``; 1 is uniform replay, smaller
        values favour recent minibatches, larger ones the first.
    seed : int, default=0
        Streams ``1, ..., S`` of one seed and recency are the first ``S`` of one family,
        whatever ``S``: readouts with different numbers of streams replay alike.

    Attributes
    ----------
    positions : ndarray of shape (n_streams,)
        Index (from 0) of the minibatch that each stream reads next.
    n_records : int
        Number of minibatches ``t`` that the streams run over.
    """

    def __init__(self, n_streams: int, *, recency: float = 1.0, seed: int = 0) -> None:
        self.n_streams = n_streams
        self.recency = recency
        self.seed = seed
        self.n_records = 0
        self.positions = np.full(n_streams, -1)

    def advance(self) -> np.ndarray:
        """One more minibatch has come: move every stream, and return the positions."""
        self.n_records += 1
        jump = self._uniforms() < min(1.0, self.recency / self.n_records)
        # The very first minibatch is the only place there is, whatever the recency.
        jump |= self.n_records == 1
        self.positions = np.where(jump, 0, self.positions + 1)
        return self.positions

    def _uniforms(self) -> np.ndarray:
        # A counter-based generator: the draws of step t are a fixed sequence of which
        # each family takes its first S, and nothing but t needs to be remembered.
        bits = np.random.Philox(key=self.seed, counter=[0, self.n_records, 0, 0])
        return np.random.Generator(bits).random(self.n_streams)
