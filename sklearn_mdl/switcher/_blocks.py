"""Codes of blocks of features, each by its own readouts, and of their mixture."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching import (
    BayesMixture,
    PriorLike,
    as_prior,
    forward,
    group_columns,
)

Floats = NDArray[np.float64]


class BlockTrace(NamedTuple):
    """Codelength of labels by the best of several blocks, as far as it is known.

    Each block is coded by switching between its own readouts, and the codes of the
    blocks are mixed by Bayes' rule, with equal prior probabilities.

    Attributes
    ----------
    codelength : float
        Of all labels, in nats: at most the logarithm of the number of blocks longer
        than the shortest of ``block_codelengths``.
    codelengths : ndarray of shape (N,)
        Of every example, in nats.
    posterior : ndarray of shape (N, n_blocks)
        Probability of each block before each label.
    block_names : list of n_blocks str or None
        None is the name of readouts that look at all columns.
    block_codelengths : ndarray of shape (n_blocks,)
        Code of each block alone, in nats. Once all its readouts have retired it costs
        what the mixture of the others costs.
    block_losses : ndarray of shape (N, n_blocks)
        The same by example.
    known : ndarray of shape (N,)
        How many labels were known when each row was predicted.
    """

    codelength: float
    codelengths: Floats
    posterior: Floats
    block_names: list[Hashable]
    block_codelengths: Floats
    block_losses: Floats
    known: NDArray[np.intp]


def block_trace(
    switching: PriorLike,
    losses: Floats,
    blocks: list[Hashable],
    weights: Floats | None,
    known: NDArray[np.intp] | None = None,
) -> BlockTrace:
    """Mix readouts within blocks by a switching prior, and blocks by Bayes' rule.

    Parameters
    ----------
    switching : PriorLike
    losses : ndarray of shape (N, K)
        In nats; NaN where a readout has retired.
    blocks : list of K names
        The block of each readout.
    weights : ndarray of shape (K,) or None
        Prior weights of the readouts, of which those within a block count.
    known : ndarray of shape (N + 1,), optional
        Of how many rows the labels are known at each row, and at the end; by default
        of all before it.
    """
    names, members = group_columns(blocks)
    costs = np.full((len(losses), len(names)), np.nan)
    for number in range(len(names)):
        own = np.flatnonzero(members == number)
        part = losses[:, own]
        part = part[: np.flatnonzero(~np.isnan(part).all(1))[-1] + 1]  # then asleep
        found = forward(
            as_prior(switching),
            part,
            None if weights is None else weights[own],
            known=None if known is None else known[: len(part) + 1],
        )
        costs[: len(part), number] = found.codelengths
    mixed = forward(BayesMixture(), costs, known=known)
    filled = np.where(np.isnan(costs), mixed.codelengths[:, np.newaxis], costs)
    in_time = np.arange(len(losses))
    return BlockTrace(
        mixed.codelength,
        mixed.codelengths,
        mixed.posterior,
        list(names),
        filled.sum(0),
        filled,
        in_time if known is None else known[:-1],
    )
