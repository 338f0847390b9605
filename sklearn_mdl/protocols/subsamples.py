"""The classic loss-data curve: fits on subsamples, and their loss on other rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state, check_X_y

from sklearn_mdl.arithmetic import as_array
from sklearn_mdl.checks import check_class_labels
from sklearn_mdl.protocols.labelled import PRECISIONS
from sklearn_mdl.protocols.refits import Floats, Integers, Refits, check_classifier

N_SIZES = 12


class SubsampledLosses(NamedTuple):
    """Mean loss on test rows after so many labels.

    Attributes
    ----------
    sizes : ndarray of shape (M,)
        Labels learned.
    losses : ndarray of shape (M,)
        Mean log-loss of a test row, in nats, over repeats.
    by_repeat : ndarray of shape (n_repeats, M)
    """

    sizes: Integers
    losses: Floats
    by_repeat: Floats


def subsampled_losses(
    estimator: Any,
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    *,
    sizes: ArrayLike | None = None,
    n_repeats: int = 5,
    random_state: Any = None,
) -> SubsampledLosses:
    """Measure a classifier's loss on test rows against the number of train rows.

    This is what :func:`~sklearn_mdl.surplus_description_length` and
    :func:`~sklearn_mdl.sample_complexity` take as ``losses`` and ``sizes``. A walk
    gives such a curve for nothing, and for the mixture of its readouts; this one is for
    any one classifier, and costs a fit for every size and repeat.

    Parameters
    ----------
    estimator : classifier
        With ``fit`` and ``predict_proba``; it is copied. Features are standardised by
        the rows of each fit, and no label is impossible, as in
        :class:`~sklearn_mdl.BlockwiseCode`.
    train, test : (X, y)
        Features of shape (n, d) and labels of shape (n,). Subsamples are drawn from the
        train part without replacement, those of one repeat within each other.
    sizes : array-like of int of shape (M,), default=None
        Increasing; None takes 12 that grow in proportion, from 1 to all train rows.
    n_repeats : int, default=5
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    losses : SubsampledLosses

    Raises
    ------
    TypeError
        If the estimator has no ``fit`` or no ``predict_proba``.
    ValueError
        If sizes do not increase within the train rows, if `n_repeats` is below 1, or if
        the parts have not the same features.

    Warns
    -----
    UserWarning
        If the last fit of a repeat or its predictions raised, so that an earlier one or
        the class frequencies predicted in its place.

    References
    ----------
    Whitney et al., 2020, Evaluating representations by the complexity of learning
    low-loss predictors, arXiv:2009.07368, algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_mdl import sample_complexity, subsampled_losses
    >>> X, y = load_digits(return_X_y=True)
    >>> parts = (X[:1000], y[:1000]), (X[1000:], y[1000:])
    >>> curve = subsampled_losses(GaussianNB(), *parts, random_state=0)
    >>> sample_complexity(curve.losses, 2.5, sizes=curve.sizes).is_bound
    False
    """
    check_classifier(estimator, "subsampled_losses")
    (X, y), (X_test, y_test) = _checked_part(*train), _checked_part(*test)
    if X.shape[1] != X_test.shape[1]:
        raise ValueError(
            "Both parts must have the same features, got a width of "
            f"{X.shape[1]} in the train part and {X_test.shape[1]} in the test part; "
            "compute both with the same encoder"
        )
    check_class_labels(y)
    classes, places = np.unique(np.concatenate([y, y_test]), return_inverse=True)
    labels, test_labels = places[: len(y)], places[len(y) :]
    at = _checked_sizes(sizes, len(y))
    if n_repeats < 1:
        raise ValueError(
            f"n_repeats must be at least 1, got {n_repeats!r}; 5 steady the curve"
        )
    rng = check_random_state(random_state)
    found, failed = np.empty((n_repeats, len(at))), None
    for repeat in range(n_repeats):
        order = rng.permutation(len(y))
        refits = Refits(
            estimator,
            len(classes),
            standardise=True,
            calibrate=False,
            seed=int(rng.randint(2**31 - 1)),
        )
        for i, size in enumerate(at):
            refits.refit(X[order[:size]], labels[order[:size]])
            log_proba = refits.log_proba(X_test)
            found[repeat, i] = -log_proba[np.arange(len(y_test)), test_labels].mean()
        failed = refits if refits.failure else failed
    if failed is not None:
        failed.warn_of_failure(stacklevel=3)
    return SubsampledLosses(at, found.mean(0), found)


def _checked_part(X: Any, y: Any) -> tuple[Any, Any]:
    found: tuple[Any, Any] = check_X_y(as_array(X), as_array(y), dtype=PRECISIONS)
    return found


def _checked_sizes(sizes: ArrayLike | None, n_rows: int) -> NDArray[np.int64]:
    if sizes is None:
        return np.unique(np.rint(np.geomspace(1, n_rows, N_SIZES)).astype(np.int64))
    found = np.asarray(sizes)
    whole = found.ndim == 1 and found.dtype.kind in "iu" and found.size > 0
    if not whole or np.any(np.diff(found, prepend=0) <= 0) or found[-1] > n_rows:
        raise ValueError(
            f"sizes must be increasing integers from 1 to the {n_rows} train rows, got "
            f"{sizes!r}; leave them out to have them chosen"
        )
    return found.astype(np.int64)
