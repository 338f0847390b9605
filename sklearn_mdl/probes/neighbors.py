"""Nearest-neighbour evaluation: no training, and one number chosen."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from sklearn_mdl._sklearn import Interval
from sklearn_mdl.probes.base import Array, Probe

VOTES_AT_ONCE = 2**20  # numbers: rows x neighbours x classes


class KNeighborsProbe(Probe):
    """Nearest-neighbour evaluation: votes weighted by the cosine, k chosen.

    A neighbour at cosine distance ``d`` has weight ``exp(-d / temperature)``. The
    classifier behind it is scikit-learn's, whose zero probabilities it keeps: it has an
    accuracy, and no codelength. For that there is
    :class:`~sklearn_mdl.NeighborsReadout`.

    Parameters
    ----------
    n_neighbors : int or sequence of int, default=(1, 5, 20, 100)
        Numbers of neighbours to be tried; those beyond the rows learned from are left
        out, except that one neighbour is always tried.
    temperature : float, default=0.07
        Smaller values give the nearest more weight.
    validation_fraction : float, default=0.1
        Share of the rows, drawn at random, on which numbers of neighbours are compared.
    random_state : int, RandomState instance or None, default=None
        Held-out rows.

    Attributes
    ----------
    best_params_ : dict
        The number of neighbours of the greatest accuracy, the smallest of equal ones.
    settings_ : list of dict, n_settings
        All that were tried.
    validation_scores_ : ndarray of shape (n_settings,)
        Accuracy on the held-out rows.
    estimator_ : KNeighborsClassifier
        Fitted on all rows.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    References
    ----------
    Wu, Xiong, Yu and Lin, 2018, Unsupervised Feature Learning via Non-Parametric
    Instance Discrimination, CVPR, section 3.4 (the vote and its temperature).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl import KNeighborsProbe
    >>> X, y = load_digits(return_X_y=True)
    >>> probe = KNeighborsProbe(random_state=0).fit(X[:1000], y[:1000])
    >>> probe.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": ["array-like", Interval(Integral, 1, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_neighbors: Any = (1, 5, 20, 100),
        *,
        temperature: float = 0.07,
        validation_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.temperature = temperature
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def _fit(self, X: Array, labels: Array) -> None:
        learned, held_out, _ = self._split(len(X))
        counts = [k for k in _counts(self.n_neighbors) if k <= len(learned)] or [1]
        trial = self._classifier(counts[-1]).fit(X[learned], labels[learned])
        distances, places = trial.kneighbors(X[held_out])
        weights = _weights(distances, temperature=self.temperature)
        neighbors = labels[learned][places]
        predicted = _voted(neighbors, weights, counts, len(self.classes_))
        scores = (predicted == labels[held_out][:, None]).mean(0)
        best = counts[int(scores.argmax())]
        self.settings_ = [{"n_neighbors": k} for k in counts]
        self.validation_scores_ = scores
        self.best_params_ = {"n_neighbors": best}
        self.estimator_ = self._classifier(best).fit(X, labels)

    def _classifier(self, n_neighbors: int) -> KNeighborsClassifier:
        weights = partial(_weights, temperature=self.temperature)
        return KNeighborsClassifier(n_neighbors, weights=weights, metric="cosine")

    def _proba(self, X: Array) -> NDArray[np.float64]:
        proba: NDArray[np.float64] = self.estimator_.predict_proba(X)
        return proba


def _weights(distances: Array, temperature: float) -> NDArray[np.float64]:
    """Weights (n, k), the nearest of each row with weight 1: nothing underflows."""
    gaps = distances - distances.min(1, keepdims=True)
    found: NDArray[np.float64] = np.exp(-gaps.astype(np.float64) / temperature)
    return found


def _voted(
    neighbors: Array, weights: Array, counts: list[int], n_classes: int
) -> Array:
    """Classes that win (n, n_counts), when so many neighbours vote.

    Labels of neighbours and their weights are (n, k), the nearest first.
    """
    n_rows, n_neighbors = neighbors.shape
    step = max(1, VOTES_AT_ONCE // (n_neighbors * n_classes))
    single = np.eye(n_classes)
    blocks = []
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        votes = (single[neighbors[rows]] * weights[rows, :, None]).cumsum(1)
        blocks.append(votes[:, np.array(counts) - 1].argmax(2))
    return np.concatenate(blocks)


def _counts(values: Any) -> list[int]:
    """Return numbers of neighbours in ascending order, each once."""
    found = np.atleast_1d(np.asarray(values, dtype=object)).tolist()
    if not found or not all(isinstance(k, Integral) and int(k) > 0 for k in found):
        raise ValueError(
            f"n_neighbors must hold positive integers, got {values!r}; give one or "
            "several of them"
        )
    return sorted({int(k) for k in found})
