"""Another pool of what groups of readouts had predicted, without training again."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl._core.stream.pooled import PooledRow, PooledRows
from sklearn_mdl.pooling import (
    DensityPoolPass,
    GroupedShare,
    GroupPass,
    LogLinearPool,
    PoolPass,
)

Floats = NDArray[np.float64]


class PooledTrace(NamedTuple):
    """Codelength of labels by switching and a pool, whichever is shorter.

    Attributes
    ----------
    codelength : float
        Of all labels, in nats: of the fixed share, with rate ``1 / t``, over switching
        mixture and pool.
    codelengths, switching_codelengths, pool_codelengths : ndarray of shape (N,)
        Of every example: of the share, and of the two that it follows, in nats.
    pool_weights : ndarray of shape (N, G)
        Weights of the groups before each label; zero where a group is asleep.
    pool_posterior : ndarray of shape (N, 2)
        Probability of switching mixture and pool before each label.
    """

    codelength: float
    codelengths: np.ndarray
    switching_codelengths: np.ndarray
    pool_codelengths: np.ndarray
    pool_weights: np.ndarray
    pool_posterior: np.ndarray


class GroupMixtures(NamedTuple):
    """What groups had predicted for ``N`` labels.

    Attributes
    ----------
    names : list of G names
    mixtures : ndarray of shape (N, G, Q)
        Probabilities of classes, ``Q = C``; of real labels mean, variance and degrees
        of freedom. NaN from where a group has been asleep.
    labels : ndarray of shape (N,)
        Classes as integers, or real numbers.
    """

    names: list[Hashable]
    mixtures: np.ndarray
    labels: np.ndarray

    def pooled(
        self,
        pooling: LogLinearPool,
        switching_codelengths: np.ndarray,
        groups: Sequence[Hashable] | None = None,
    ) -> PooledTrace:
        """Pool groups beside a mixture that switches between all readouts.

        Parameters
        ----------
        pooling : LogLinearPool
        switching_codelengths : ndarray of shape (N,)
            Codelengths of the mixture, in nats.
        groups : sequence of names, default=None
            Those that are pooled; None pools all.

        Returns
        -------
        trace : PooledTrace

        Raises
        ------
        ValueError
            If `groups` names fewer than two, or others.
        TypeError
            If `pooling` is no LogLinearPool.
        """
        if not isinstance(pooling, LogLinearPool):
            raise TypeError(
                f"`pooling` must be a LogLinearPool, got {pooling!r}; pass for example "
                "LogLinearPool(prior_precision=100)"
            )
        places = self._places(groups)
        begun: GroupPass
        if self.labels.dtype.kind == "f":
            begun = DensityPoolPass(pooling, len(places))
        else:
            begun = PoolPass(pooling, len(places), self.mixtures.shape[2])
        chosen = (row[places] for row in self.mixtures)
        found = pool_again(begun, chosen, self.labels, switching_codelengths)
        total = float(found.codelengths.sum())
        return PooledTrace(
            total,
            found.codelengths,
            switching_codelengths,
            found.pool,
            found.weights,
            found.shares,
        )

    def _places(self, groups: Sequence[Hashable] | None) -> list[int]:
        if groups is None:
            return list(range(len(self.names)))
        unknown = [name for name in groups if name not in self.names]
        if unknown or len(set(groups)) < max(2, len(groups)):
            raise ValueError(
                f"`groups` must name two or more of {self.names}, each once, got "
                f"{list(groups)}; leave it out to pool all of them"
            )
        return [self.names.index(name) for name in groups]


def pool_again(
    group_pass: GroupPass,
    mixtures: Iterable[Floats],
    labels: np.ndarray,
    switching: Floats,
) -> PooledRows:
    """Pool what groups had predicted for n rows, as if it were for the first time.

    Parameters
    ----------
    group_pass : GroupPass
        A new one.
    mixtures : iterable of n ndarrays of shape (G, Q)
        NaN from where a group has been asleep.
    labels : ndarray of shape (n,)
    switching : ndarray of shape (n,)
        What the labels cost the switching mixture, in nats.
    """
    choice = GroupedShare(np.ones(2), np.array([0]))
    awake = np.ones(len(group_pass.weights), dtype=bool)
    found = []
    for mixed, label, other in zip(
        mixtures, labels.tolist(), switching.tolist(), strict=True
    ):
        asleep = np.logical_and.reduce(np.isnan(mixed), axis=1)
        if asleep[awake].any():
            group_pass.retire(np.flatnonzero(asleep[awake]).tolist())
            awake &= ~asleep
        weights, shares = np.zeros(len(awake)), choice.weights
        weights[awake] = group_pass.weights
        predicted, cost = np.empty(0), math.nan
        if awake.any():
            predicted, cost = group_pass.observe(np.asarray(mixed[awake]), label)
        cost = other if math.isnan(cost) else cost
        (codelength,) = choice.observe(np.array([other, cost]))
        row = float(codelength), other, cost, shares, weights, predicted, None
        found.append(PooledRow(*row))
    return PooledRows.of(found)


def refuse_groups(path: Path, sidecar: Path) -> None:
    """Refuse a file of a stream in groups, by its description.

    Raises
    ------
    ValueError
        If it says so.
    """
    try:
        about = json.loads(sidecar.read_text("utf-8")) if sidecar.is_file() else None
    except (ValueError, RecursionError):  # said of what it is, by who reads it
        return
    if isinstance(about, dict) and about.get("grouped"):
        raise ValueError(
            "A file of losses must be of rows that are learned one by one, to be mixed "
            f"again, but {path} is of rows in groups, in which weights stand still; "
            "call remix of the switcher itself, or fit without groups"
        )


def mixtures_beside(path: Path, text: str | None, n_rows: int) -> GroupMixtures | None:
    """Open the predictions of groups in the folder of a stream, if it has them."""
    about = None if text is None else json.loads(text)
    if not (n_rows and isinstance(about, dict) and "pool_groups" in about):
        return None
    # Written before the losses, so that there are as many at least.
    mixtures, labels = (
        np.lib.format.open_memmap(path.with_name(name), mode="r")[:n_rows]
        for name in ("mixtures.npy", "labels.npy")
    )
    names = about["pool_groups"]
    if mixtures.shape[:2] != (n_rows, len(names)) or labels.shape != (n_rows,):
        raise ValueError(
            f"mixtures of shape {mixtures.shape} for {n_rows} rows of losses"
        )
    return GroupMixtures(names, mixtures, labels)
