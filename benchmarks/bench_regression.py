"""The default board of regressors beside a reference and a refitted Bayesian ridge.

Run as ``python benchmarks/bench_regression.py``. Every code pays the same for the first
minibatch; afterwards the reference predicts by labels alone, and Bayesian ridge
regression, refitted after every minibatch, by its predictive Gaussian. Data come with
scikit-learn; rows are permuted once, or with ``--orders 5`` five times.

``python benchmarks/bench_regression.py --wild`` puts labels of a million deviations
into the first half, and prints what the others cost more for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import BayesianRidge
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import MDLReadoutSwitcherRegressor, gaussian_codelengths

B = 32


def tasks() -> Iterator[tuple[str, np.ndarray, np.ndarray, float, float]]:
    """Name, features, labels, and location and scale one would guess beforehand."""
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", X, y, 150, 75
    X, _ = load_wine(return_X_y=True)
    yield "wine: alcohol", X[:, 1:], X[:, 0], 13, 1
    X, _ = load_breast_cancer(return_X_y=True)
    yield "cancer: texture", np.delete(X[:, :10], 1, axis=1), X[:, 1], 20, 5
    yield "cancer: concave points", np.delete(X[:, :10], 7, axis=1), X[:, 7], 0.05, 0.05
    X, _ = load_digits(return_X_y=True)
    rest = np.delete(X, range(32, 40), axis=1)
    ink = X[:, 32:40]
    yield "digits: centre of a row", rest, ink @ np.arange(8) / ink.sum(1), 3.5, 1


def ridge_codelength(X: np.ndarray, y: np.ndarray) -> float:
    """Cost of the rows after the first minibatch, in nats."""
    total = 0.0
    for start in range(B, len(y), B):
        rows = slice(start, start + B)
        scaler = StandardScaler().fit(X[:start])
        model = BayesianRidge().fit(scaler.transform(X[:start]), y[:start])
        mean, std = model.predict(scaler.transform(X[rows]), return_std=True)
        total -= float(stats.norm(mean, std).logpdf(y[rows]).sum())
    return total


def walked(
    X: np.ndarray, y: np.ndarray, location: float, scale: float
) -> MDLReadoutSwitcherRegressor:
    return MDLReadoutSwitcherRegressor(
        prior_location=location, prior_scale=scale, random_state=0
    ).fit(X, y)


def compare(orders: range) -> None:
    print("nats after the first minibatch\n")
    print("| labels | rows | reference | Bayesian ridge | default board | R2 |")
    print("|---|---|---|---|---|---|")
    for seed in orders:
        for name, X, y, location, scale in tasks():
            order = np.random.default_rng(seed).permutation(len(y))
            X, y = X[order], y[order]
            board = walked(X, y, location, scale)
            reference = gaussian_codelengths(y, n_first=B)[B:].sum()
            print(
                f"| {name} | {len(y)} | {reference:.1f} | {ridge_codelength(X, y):.1f} "
                f"| {board.codelengths_[B:].sum():.1f} | {board.measures().r2:.2f} |",
                flush=True,
            )


def add_wild_labels(orders: range) -> None:
    print("nats that the other rows cost more, after the first minibatch\n")
    print("| labels | rows | wild | reference | default board | a row | a wild one |")
    print("|---|---|---|---|---|---|---|")
    for seed in orders:
        for name, X, y, location, scale in tasks():
            rng = np.random.default_rng(seed)
            order = rng.permutation(len(y))
            X, y = X[order], y[order]
            own = walked(X, y, location, scale).codelengths_
            for n_wild in (1, 5):
                places = rng.choice(len(y) // 2, n_wild, replace=False)
                wild = y.copy()
                wild[places] += rng.choice([-1e6, 1e6], n_wild) * y.std()
                others = np.setdiff1d(np.arange(B, len(y)), places)
                found = walked(X, wild, location, scale).codelengths_
                dearer = (found - own)[others]
                reference = [gaussian_codelengths(z, n_first=B) for z in (y, wild)]
                print(
                    f"| {name} | {len(y)} | {n_wild} "
                    f"| {np.subtract(*reference[::-1])[others].sum():.1f} "
                    f"| {dearer.sum():.1f} | {dearer.mean():.3f} "
                    f"| {found[places].mean():.1f} |",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--orders", type=int, default=1, help="of the rows, each walked"
    )
    parser.add_argument("--wild", action="store_true", help="put wild labels in")
    given = parser.parse_args()
    (add_wild_labels if given.wild else compare)(range(given.orders))


if __name__ == "__main__":
    main()
