"""The random encoder: what the shape of an encoder is worth without any training."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_mdl._sklearn import Interval


class RandomEncoder(TransformerMixin, BaseEstimator):
    """A reference: one layer of rectified units with random weights.

    Features are standardised, multiplied by a Gaussian matrix and rectified. An encoder
    that was trained should leave a shorter code than this one of the same width. For a
    network of one's own the better reference is the same network before training, for
    example ``TimmEncoder(..., pretrained=False)``.

    Parameters
    ----------
    n_components : int, default=None
        Units; None takes as many as there are features.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    biases_ : ndarray of shape (n_components,)
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl import RandomEncoder
    >>> X, _ = load_digits(return_X_y=True)
    >>> RandomEncoder(100, random_state=0).fit_transform(X).shape
    (1797, 100)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self, n_components: int | None = None, *, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        self._validate_params()
        X = validate_data(self, X, dtype=np.float64)
        rng = check_random_state(self.random_state)
        n_components = self.n_components or X.shape[1]
        self.components_ = rng.normal(size=(n_components, X.shape[1]))
        self.components_ /= np.sqrt(X.shape[1])
        self.biases_ = rng.normal(size=n_components)
        self._scaler = StandardScaler().fit(X)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Activations (n_samples, n_components)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        activations = self._scaler.transform(X) @ self.components_.T + self.biases_
        found: NDArray[np.float64] = np.maximum(0.0, activations)
        return found
