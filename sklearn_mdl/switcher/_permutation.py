"""Permutation tests, which show how much features save by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sklearn_mdl._core.numerics import flushed_denormals, one_thread
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl.readouts import (
    KernelReadout,
    KernelReadoutRegressor,
    Labellings,
    Readout,
    learners_for,
)
from sklearn_mdl.switching import GroupedShare

AT_ONCE = 2**26  # approximate number of scores that are computed together


class PermutationTest(NamedTuple):
    """Codelengths of labels and of permuted labels under kernel readouts only.

    Unlike in a pass, no loss of a real label is limited. So a few outliers can hide
    what features say about the other labels, but p-values remain valid.

    Attributes
    ----------
    codelength : float
        Codelength of the labels, in nats.
    null_codelengths : ndarray of shape (n_permutations,)
        Codelengths of permuted labels, in nats.
    p_value : float
        ``(1 + k) / (1 + n_permutations)`` if, up to rounding, ``k`` null codelengths
        are at most ``codelength``. The p-value estimates the probability of a code this
        short if features and labels were independent.
    """

    codelength: float
    null_codelengths: np.ndarray
    p_value: float


def kernels_of(readouts: Sequence[Any]) -> list[Readout]:
    """Return the kernel readouts that neither forget rows nor use labels to whiten.

    Raises
    ------
    ValueError
        If there is no such readout.
    """
    kinds = KernelReadout, KernelReadoutRegressor
    lasting = [r for r in readouts if isinstance(r, Readout) and not r.forgets]
    found = [readout for readout in lasting if isinstance(readout.inner, kinds)]
    kernels = [readout for readout in found if not readout.inner.reads_labels]
    if not kernels:
        raise ValueError(
            "A permutation test needs a kernel that keeps all rows and does not whiten "
            'by class, got none; add one or, for example, pass readouts="closed-form"'
        )
    return kernels


def permutation_tests(
    runs: Sequence[PrequentialRun],
    kernels: list[Readout],
    n_permutations: int,
    seed: int,
) -> list[PermutationTest]:
    """Test each run by coding its labels and permutations of these labels.

    Each kernel matrix is factorised only once for all runs and permutations. A fixed
    share with rate ``1 / t`` mixes the readouts, regardless of the prior of the runs.

    Parameters
    ----------
    runs : sequence of PrequentialRun
        Runs over the same rows with the same kernels. All runs get the same
        permutations.
    kernels : list of KernelReadout, or of KernelReadoutRegressor
    n_permutations : int
    seed : int
    """
    rng = np.random.default_rng([seed, 1])  # not the generator that shuffles rows
    n_rows = len(runs[0].labels)
    places = [np.arange(n_rows)]
    places += [rng.permutation(n_rows) for _ in range(n_permutations)]
    n_numbers = sum(run.outcome.n_numbers for run in runs)
    step = max(1, AT_ONCE // (len(kernels) * max(n_rows // 2, 1) * n_numbers))
    with one_thread(), flushed_denormals():
        parts = [
            _codelengths(runs, kernels, np.stack(places[start : start + step]))
            for start in range(0, len(places), step)
        ]
    return [_test(*codelengths) for codelengths in np.concatenate(parts, 1).tolist()]


def _test(codelength: float, *nulls: float) -> PermutationTest:
    # Equally long codes may differ by rounding.
    count = sum(null <= codelength + 1e-9 * max(1, abs(codelength)) for null in nulls)
    return PermutationTest(codelength, np.array(nulls), (1 + count) / (1 + len(nulls)))


def _codelengths(
    runs: Sequence[PrequentialRun], kernels: list[Readout], places: np.ndarray
) -> np.ndarray:
    """Return codelengths (n_runs, S) of labels reordered by each row of `places`."""
    outputs = [
        Labellings(run.labels.cpu().numpy()[places], run.outcome.n_numbers)
        for run in runs
    ]
    losses = []
    for learner in learners_for(kernels, runs[0].settings):
        learner.attach(runs[0].rows.of(*learner.view))
        losses.append(learner.null_losses(outputs))  # type: ignore[attr-defined]
    by_run = [np.concatenate(parts, 2) for parts in zip(*losses, strict=True)]
    definite = ~np.isnan(by_run[0]).any((0, 1))  # the same for all labels
    if not definite.any():
        raise ValueError(
            "A permutation test needs kernels that are positive definite, but none is; "
            "pass a larger alpha to a kernel readout, for example alpha=1.0"
        )
    return np.stack([shared(run_losses[:, :, definite]) for run_losses in by_run])


def shared(losses: np.ndarray) -> np.ndarray:
    """Mix losses (N, S, K) by ``FixedShare()``; return codelengths (S,)."""
    _, n_labellings, n_readouts = losses.shape
    starts = np.arange(n_labellings) * n_readouts
    share = GroupedShare(np.ones(n_labellings * n_readouts), starts)
    return np.sum([share.observe(row.reshape(-1)) for row in losses], axis=0)
