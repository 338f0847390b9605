"""The ranking of ``sklearn-mdl demo``: its datasets and its encoders."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_mdl.model_selection import RepresentationScorer


@dataclass(eq=False, repr=False)
class MaskedReconstruction(TransformerMixin, BaseEstimator):
    """Hidden layer of an MLP that is trained to reconstruct masked features.

    This pretext task needs no labels. In every copy of a row, each feature is set to
    zero with probability 1/2, and the network predicts all features.

    Parameters
    ----------
    n_components : int, default=64
        Width of the hidden layer.
    n_copies : int, default=4
        Number of differently masked copies of every row.
    random_state : int, RandomState instance or None, default=None
    """

    n_components: int = 64
    _: KW_ONLY
    n_copies: int = 4
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Train the network on X, (n_samples, n_features). Ignore y."""
        least = -(-11 // self.n_copies)  # of 11 rows, MLPRegressor holds out 2
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=max(2, least))
        rng = check_random_state(self.random_state)
        targets = np.tile(X, (self.n_copies, 1))
        masked = targets * (rng.uniform(size=targets.shape) < 0.5)
        self.network_ = MLPRegressor(
            hidden_layer_sizes=(self.n_components,),
            early_stopping=True,
            max_iter=200,
            random_state=rng.randint(2**31 - 1),
        )
        self.network_.fit(masked, targets)
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Return hidden activations of unmasked rows, (n_samples, n_components)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        weights, bias = self.network_.coefs_[0], self.network_.intercepts_[0]
        return np.maximum(X @ weights + bias, 0)


def demo_datasets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return three datasets of scikit-learn as ``{name: (X, y)}``."""
    return {
        "digits": load_digits(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "breast-cancer": load_breast_cancer(return_X_y=True),
    }


def demo_encoders() -> dict[str, str | Pipeline]:
    """Return encoders by name. All except "raw" standardise the features first."""
    encoders = {
        "PCA to 8": PCA(8, random_state=0),
        "random projection to 8": GaussianRandomProjection(8, random_state=0),
        "RBF features": RBFSampler(gamma="scale", n_components=256, random_state=0),
        "masked reconstruction": MaskedReconstruction(random_state=0),
    }
    scaled = {name: make_pipeline(StandardScaler(), e) for name, e in encoders.items()}
    return {"raw": "passthrough", **scaled}


def run_demo(*, n_orders: int = 3, n_jobs: int | None = 2) -> RepresentationScorer:
    """Rank the demo's encoders on its datasets, with a progress bar."""
    scorer = RepresentationScorer(n_orders=n_orders, n_jobs=n_jobs, verbose=1)
    return scorer.fit(demo_datasets(), demo_encoders())
