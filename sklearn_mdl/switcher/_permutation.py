"""Codelengths of permuted labels: what features would save by chance."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np

from sklearn_mdl._core.numerics import flushed_denormals, one_thread
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl.readouts import KernelReadout, Readout, build_learners

AT_ONCE = 2**26  # scores that are held together


class PermutationTest(NamedTuple):
    """Codelengths of labels and of permuted ones, both under kernel readouts alone.

    Attributes
    ----------
    codelength : float
        Of the labels, in nats.
    null_codelengths : ndarray of shape (n_permutations,)
        Of permuted labels, in nats.
    p_value : float
        ``(1 + nulls not longer) / (1 + n_permutations)``: the probability of so short a
        code, or less, if features and labels are independent.
    """

    codelength: float
    null_codelengths: np.ndarray
    p_value: float


def check_permutations(n_permutations: object) -> None:
    """Refuse anything but a positive integer."""
    if not isinstance(n_permutations, Integral) or n_permutations < 1:
        raise ValueError(
            f"n_permutations must be a positive integer, got {n_permutations!r}; 99 "
            "allow a p-value of 0.01"
        )


def permutation_test(
    run: PrequentialRun, readouts: list[Readout], n_permutations: int, seed: int
) -> PermutationTest:
    """Code the labels of a run and permutations of them by its kernel readouts.

    One factor serves all labellings. Readouts are mixed by a fixed share of rate
    ``1 / t``, whatever the prior of the run.

    Raises
    ------
    ValueError
        If there is no kernel readout.
    """
    kernels = [readout for readout in readouts if isinstance(readout, KernelReadout)]
    if not kernels:
        raise ValueError(
            "A permutation test needs kernel readouts, whose one factor serves all "
            'labellings, got none; pass readouts="closed-form" or add KernelReadout()'
        )
    labels = run.labels.cpu().numpy()
    rng = np.random.default_rng([seed, 1])  # not the draws of the order
    sets = np.stack([labels, *(rng.permutation(labels) for _ in range(n_permutations))])
    n_numbers = len(kernels) * max(len(labels) // 2, 1) * run.outcome.n_numbers
    step = max(1, AT_ONCE // n_numbers)
    with one_thread(), flushed_denormals():
        parts = [
            _codelengths(run, kernels, sets[start : start + step])
            for start in range(0, len(sets), step)
        ]
    own, *nulls = np.concatenate(parts).tolist()
    count = sum(null <= own for null in nulls)
    return PermutationTest(own, np.array(nulls), (1 + count) / (1 + len(nulls)))


def _codelengths(
    run: PrequentialRun, kernels: list[KernelReadout], labels: np.ndarray
) -> np.ndarray:
    """Codelengths (S,) of labellings (S, N)."""
    n_numbers = run.outcome.n_numbers
    learners = build_learners(
        kernels, run.samples.n_features, n_numbers, seed=0, device=run.device
    )
    losses = []
    for learner in learners:
        learner.attach(run.rows)
        losses.append(learner.null_losses(labels))  # type: ignore[attr-defined]
    return shared(np.concatenate(losses, 2))


def shared(losses: np.ndarray) -> np.ndarray:
    """Codelengths (S,) of losses (N, S, K), mixed by a share of rate ``1 / t``."""
    n_readouts = losses.shape[2]
    weights = np.full(losses.shape[1:], 1 / n_readouts)
    total = np.zeros(losses.shape[1])
    for t, row in enumerate(losses, 2):
        least = row.min(1, keepdims=True)
        joint = weights * np.exp(least - row)
        mass = joint.sum(1, keepdims=True)
        total += least[:, 0] - np.log(mass[:, 0])
        rate = 1 / t
        weights = (1 - rate) * joint / mass + rate / n_readouts
    return total
