"""Variants of linear discriminants: heavier tails, and covariances by cluster.

``tails`` compares `DiscriminantReadout`, by itself and in "closed-form", with a variant
whose scores come from a Student-t density with as many degrees of freedom as features.
``clusters`` refits Gaussian discriminants at every 64th row, with one shrunk covariance
for all classes, for each class, or for each of two or four clusters of classes (found
by k-means on the class means). The covariances of classes and clusters are shrunk
towards the common covariance. Each discriminant multiplies its logits by a factor that
minimises the loss of the earlier rows.
"""

from pathlib import Path
from unittest import mock

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax
from sklearn.cluster import KMeans

from benchmarks._data import feature_cells
from benchmarks._kept import OPTION, kept
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.readouts import DiscriminantReadout, _class_means

STEP = 64  # rows between two fits
WEIGHT = 64  # rows for which the common covariance counts in each cluster
FACTORS = np.geomspace(0.01, 2, 24)


class _Cells:
    """Cells and options of all tables."""

    options = {
        "features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"},
        "--datasets": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--encoders": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--rows": {"type": int, "default": 1000, "help": "number of rows (1000)"},
        **OPTION,
    }
    unit = "nats"

    def prepare(self):
        self.cells = feature_cells(self.features, self.datasets, self.encoders)

    def setup(self, cell, name):
        key = [type(self).__name__, cell, name, self.rows]
        self.found = kept(self.results, key, lambda: self.measure(cell, name))

    def track_codelength(self, *row):
        return self.found["codelength"]

    def report(self, table):
        """Print the ratios of codelengths between the variants in ``compared``."""
        for base, names in self.compared.items():
            for name in names:
                ratios = np.array(
                    [
                        row["track_codelength"][0]
                        / table[cell, base]["track_codelength"][0]
                        for (cell, own), row in table.items()
                        if own == name
                    ]
                )
                print(
                    f"{name}: {ratios.mean():.4f} of {base} on average, from "
                    f"{ratios.min():.4f} to {ratios.max():.4f}, shorter in "
                    f"{(ratios < 1).sum()} of {len(ratios)}"
                )


class Tails(_Cells):
    """Nats with Gaussian and with Student-t scores."""

    param_names = ["cell", "list"]
    formats = {"track_codelength": ".1f"}
    compared = {"alone": ["alone, tails"], "closed-form": ["closed-form, tails"]}

    @property
    def params(self):
        names = ["alone", "alone, tails", "closed-form", "closed-form, tails"]
        return [list(self.cells), names]

    def measure(self, cell, name):
        X, y = (part[: self.rows] for part in self.cells[cell])
        alone = [DiscriminantReadout(0.1), DiscriminantReadout(0.5)]
        readouts = alone if name.startswith("alone") else "closed-form"
        switcher = MDLReadoutSwitcher(readouts, random_state=0, device="cpu")
        form = with_tails(X.shape[1]) if "tails" in name else _class_means.scores_of
        with mock.patch.object(_class_means, "scores_of", form):
            return {"codelength": switcher.fit(X, y).codelength_}


def with_tails(dof):
    """Return a variant of `scores_of`: Student-t log-densities, divided by ``|x|``."""
    plain = _class_means.scores_of

    def scores_of(products, squares, sums, counts, is_cosine):
        shrunk = counts + 1.0
        distances = squares[..., None] - 2 * products / shrunk
        distances += sums[:, None] / shrunk**2
        logits = -(2 * dof) / 2 * np.log1p(np.maximum(distances, 0) / dof)
        logits /= np.sqrt(np.maximum(squares, 1e-300))[..., None]
        # Subtract the mean over classes, as in linear scores.
        logits -= logits.mean(-1, keepdims=True)
        tails = torch.from_numpy(np.where(counts > 0, logits, 0.0))
        scores, variances = plain(products, squares, sums, counts, is_cosine)
        return torch.where(torch.from_numpy(is_cosine), scores, tails), variances

    return scores_of


class Clusters(_Cells):
    """Nats of discriminants, by the number of covariances."""

    param_names = ["cell", "covariances"]
    formats = {"track_codelength": ".1f"}
    compared = {"1": ["2", "4", "all"]}

    @property
    def params(self):
        return [list(self.cells), ["1", "2", "4", "all"]]

    def measure(self, cell, name):
        X, y = (part[: self.rows] for part in self.cells[cell])
        n_classes = int(y.max()) + 1
        scores, nats = np.zeros((len(y), n_classes)), np.log(n_classes) * STEP
        for start in range(STEP, len(y), STEP):
            rows = slice(start, start + STEP)
            scores[rows] = discriminants(X[:start], y[:start], X[rows], n_classes, name)
            past = slice(STEP, start)
            losses = [
                -log_softmax(f * scores[past], 1)[
                    np.arange(start - STEP), y[past]
                ].sum()
                for f in FACTORS
            ]
            factor = FACTORS[int(np.argmin(losses))] if start > STEP else 0.1
            log_p = log_softmax(factor * scores[rows], 1)
            nats -= log_p[np.arange(len(log_p)), y[rows]].sum()
        return {"codelength": float(nats)}


def discriminants(X, y, new, n_classes, name):
    """Return the scores (n, C) of new rows under Gaussian densities of the classes."""
    scale = np.maximum(X.std(0), 1e-3 * X.std())
    X, new = (X / scale).astype(float), (new / scale).astype(float)
    counts = np.bincount(y, minlength=n_classes)
    means = np.stack([X[y == c].sum(0) / (counts[c] + 1) for c in range(n_classes)])
    centred, d = X - means[y], X.shape[1]
    tied = centred.T @ centred + 0.1 * d * np.eye(d) * (centred**2).mean()
    tied /= len(X) + 0.1 * d
    if name == "all":
        group = np.arange(n_classes)
    else:
        k = min(int(name), n_classes)
        group = KMeans(k, n_init=3, random_state=0).fit_predict(means)
    scores = np.empty((len(new), n_classes))
    for g in np.unique(group):
        own = np.isin(y, np.flatnonzero(group == g))
        part, n = centred[own], own.sum()
        covariance = (part.T @ part + WEIGHT * tied) / (n + WEIGHT)
        if name == "1":
            covariance = tied
        root = cho_factor(covariance, lower=True)
        log_det = np.log(np.diag(root[0])).sum()
        for c in np.flatnonzero(group == g):
            apart = new - means[c]
            squares = (apart * cho_solve(root, apart.T).T).sum(1)
            scores[:, c] = -squares / 2 - log_det
    return scores + np.log(counts + 1)
