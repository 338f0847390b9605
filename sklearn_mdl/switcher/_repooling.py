"""Pools of stored predictions, without retraining the readouts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.pooling import DensityPoolPass, GroupPass, LogLinearPool, PoolPass


class PooledTrace(NamedTuple):
    """Codelength of labels under a switching mixture and a pool.

    Attributes
    ----------
    codelength : float
        Codelength of all labels, in nats. A fixed share with rate ``1 / t`` mixes the
        switching mixture and the pool.
    codelengths, switching_codelengths, pool_codelengths : ndarray of shape (N,)
        Codelength of every example, in nats, under this fixed share, under the
        switching mixture and under the pool. If the pool predicts NaN, the
        codelength of the switching mixture is used instead.
    pool_weights : ndarray of shape (N, G)
        Weights of the kinds before each label (zero once a kind has retired).
    pool_posterior : ndarray of shape (N, 2)
        Probabilities of the switching mixture and the pool before each label.
    """

    codelength: float
    codelengths: np.ndarray
    switching_codelengths: np.ndarray
    pool_codelengths: np.ndarray
    pool_weights: np.ndarray
    pool_posterior: np.ndarray


class KindMixtures(NamedTuple):
    """Stored predictions of each kind of readout for ``N`` labels.

    Attributes
    ----------
    names : list of G names
    mixtures : ndarray of shape (N, G, Q)
        For classification, the ``Q = C`` class probabilities. For regression, the mean,
        variance and degrees of freedom. NaN once a kind has retired.
    labels : ndarray of shape (N,)
        Classes as integers, or real numbers.
    """

    names: list[Hashable]
    mixtures: np.ndarray
    labels: np.ndarray

    def pool_pass(
        self, pooling: LogLinearPool, kinds: Sequence[Hashable] | None = None
    ) -> tuple[GroupPass, list[int]]:
        """Begin a pass of a pool over some kinds.

        Parameters
        ----------
        pooling : LogLinearPool
        kinds : sequence of names, default=None
            Names of the kinds to pool. If None, all kinds are pooled.

        Returns
        -------
        pool_pass : GroupPass
        places : list of int
            Indices of these kinds.

        Raises
        ------
        ValueError
            If `kinds` names fewer than two kinds, an unknown kind or a kind twice.
        TypeError
            If `pooling` is not a LogLinearPool.
        """
        if not isinstance(pooling, LogLinearPool):
            raise TypeError(
                f"`pooling` must be a LogLinearPool, got {pooling!r}; for example, "
                "pass pooling=LogLinearPool()"
            )
        places = self._places(kinds)
        if self.labels.dtype.kind == "f":
            return DensityPoolPass(pooling, len(places)), places
        return PoolPass(pooling, len(places), self.mixtures.shape[2]), places

    def _places(self, kinds: Sequence[Hashable] | None) -> list[int]:
        if kinds is None:
            return list(range(len(self.names)))
        unknown = [name for name in kinds if name not in self.names]
        if unknown or len(set(kinds)) < max(2, len(kinds)):
            required = f"two or more of {self.names}, each once"
            raise invalid("kinds", required, [*kinds], f"pass kinds={self.names[:2]}")
        return [self.names.index(name) for name in kinds]


def stored_mixtures(path: Path, about: Json, n_rows: int) -> KindMixtures | None:
    """Return the predictions of each kind stored next to losses, or None if missing."""
    if "pool_kinds" not in about:
        return None
    # Predictions are written before losses, so no row is missing.
    names = ("mixtures.npy", "labels.npy")
    mixtures, labels = (opened(path.with_name(name))[:n_rows] for name in names)
    names = about["pool_kinds"]
    if mixtures.shape[:2] != (n_rows, len(names)) or labels.shape != (n_rows,):
        raise ValueError(f"mixtures of shape {mixtures.shape} for {n_rows} losses")
    return KindMixtures(names, mixtures, labels)


def opened(path: Path) -> np.ndarray:
    """Open an array for reading. Errors have the name of its file as a note."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:
        error.add_note(path.name)
        raise
