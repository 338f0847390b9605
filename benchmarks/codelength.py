"""Codelengths of switching between readouts, on digits and on real deep features.

Except in ``mixed``, the readouts are the list "nets". There is no pool, no race and no
growth of minibatches (see ``lists.py`` for these). ``digits`` prints the codelength and
wall time of a fit on digits in ten orders, ``default_rng(s).permutation(N)`` for s =
100, ..., 109. It compares the codelengths with those of other switching priors on the
same losses and of a block-wise logistic regression (``logistic.py``). ``features``
prints nats per example of the networks and of the logistic regression, for every
encoder and dataset of a folder. ``choices`` changes settings of the networks, on
digits, wine and breast cancer, each in the orders for s = 0, 1 and 2. ``mixed`` runs
the mixed readouts without kernels, and computes the results of the networks and of the
best readout of each kind from the same losses. It uses digits in the ten orders, or the
datasets of a folder if you pass one.
"""

import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from benchmarks._data import SWITCHING, feature_cells, permuted
from benchmarks.logistic import best_codelength
from sklearn_mdl import LearnedShare, MDLReadoutSwitcher, forward, uniform_codelength
from sklearn_mdl.readouts import named_readouts

ORDERS = range(100, 110)
KINDS = {
    "nets": ("linear", "mlp"),
    "neighbours": ("neighbors",),
    "lda": ("LinearDiscriminantAnalysis",),
    "logistic": ("LogisticRegression",),
}


def timed_fit(X, y, readouts="nets"):
    """Return a switcher fitted without a pool, and the seconds of its fit."""
    start = time.perf_counter()
    switcher = MDLReadoutSwitcher(readouts, **SWITCHING, random_state=0).fit(X, y)
    return switcher, time.perf_counter() - start


def without_kernels(name, X, y):
    """Return a named list of readouts without its kernels."""
    readouts = named_readouts(name, X.shape[1], len(np.unique(y)))
    return [readout for readout in readouts if "kernel" not in readout.architecture]


class Digits:
    """Networks on digits in ten orders."""

    params = [list(ORDERS)]
    param_names = ["order"]
    unit = "nats"
    formats = {
        f"track_{name}": ".1f"
        for name in (
            *("learned_share", "bayes", "elementwise", "best_readout", "logistic"),
            "seconds",
        )
    }
    summarise = True

    def setup(self, order):
        self.X, self.y = permuted(*load_digits(return_X_y=True), order)
        self.switcher, self.seconds = timed_fit(self.X, self.y)

    def track_learned_share(self, order):
        return self.switcher.codelength_

    def track_bayes(self, order):
        return self.switcher.remix("bayes").codelength

    def track_elementwise(self, order):
        return self.switcher.remix("elementwise").codelength

    def track_best_readout(self, order):
        return self.switcher.readout_codelengths_.min()

    def track_logistic(self, order):
        return best_codelength(f"digits/{order}", self.X, self.y)

    def track_seconds(self, order):
        return self.seconds

    def report(self, table):
        X, y = load_digits(return_X_y=True)
        n_readouts = len(without_kernels("nets", X, y))
        uniform = uniform_codelength(len(y), 10)
        print(f"{n_readouts} readouts; uniform code {uniform:.1f}")


class Features:
    """Every cell of a folder, with rows in the order of the files."""

    options = {"features": {"type": Path, "help": "folder of DATASET/ENCODER.npy"}}
    param_names = ["cell"]
    unit = "nats per example"
    formats = {
        "track_features": ".0f",
        "track_logistic": ".4f",
        "track_ours": ".4f",
        "track_ratio": ".3f",
        "track_seconds": ".1f",
    }

    def prepare(self):
        self.cells = feature_cells(self.features)

    @property
    def params(self):
        return list(self.cells)

    def setup(self, name):
        self.X, self.y = self.cells[name]
        self.reference = best_codelength(name, self.X.astype(np.float64), self.y)
        self.switcher, self.seconds = timed_fit(self.X, self.y)

    def track_features(self, name):
        return self.X.shape[1]

    def track_logistic(self, name):
        return self.reference / len(self.y)

    def track_ours(self, name):
        return self.switcher.codelength_ / len(self.y)

    def track_ratio(self, name):
        return self.switcher.codelength_ / self.reference

    def track_seconds(self, name):
        return self.seconds

    def report(self, table):
        ratios = np.array([row["track_ratio"][0] for row in table.values()])
        datasets = np.array([name.split("/")[0] for (name,) in table])
        for dataset in dict.fromkeys(datasets):
            mean = ratios[datasets == dataset].mean()
            print(f"{dataset}: mean ratio {mean:.3f}")
        print(f"lowest ratio {ratios.min():.3f}, highest {ratios.max():.3f}")
        seconds = [row["track_seconds"] for row in table.values()]
        print(
            f"shorter than the logistic regression in {np.sum(ratios < 1)} of "
            f"{len(ratios)} cells; mean ratio {ratios.mean():.4f}; seconds per cell: "
            f"median {np.median(seconds):.1f}, longest {np.max(seconds):.1f}"
        )


CHOICES = {
    "default": {},
    "no calibration": {"calibration": False},
    "no label smoothing": {"label_smoothing": 0.0},
    "neither": {"calibration": False, "label_smoothing": 0.0},
    "no weight decay": {"weight_decay": 0.0},
    "no averaged weights": {"ema_step_size": 1.0},
    "standard scaling only": {"scaling": "standard"},
    "whitening only": {"scaling": "whiten"},
    "no scaling": {"scaling": None},
    "10 replay streams": {"n_replay_streams": 10},
    "3 replay streams": {"n_replay_streams": 3},
}


class Choices:
    """Networks with other settings."""

    params = [list(CHOICES)]
    param_names = ["choice"]
    unit = "nats, mean of 3 orders"
    formats = {f"track_{name}": ".1f" for name in ("digits", "wine", "cancer")}

    def track_digits(self, choice):
        return self._mean(load_digits, choice)

    def track_wine(self, choice):
        return self._mean(load_wine, choice)

    def track_cancer(self, choice):
        return self._mean(load_breast_cancer, choice)

    def _mean(self, load, choice):
        X, y = load(return_X_y=True)
        readouts = without_kernels("nets", X, y)
        readouts = [readout.set_params(**CHOICES[choice]) for readout in readouts]
        distinct = {(r.architecture, str(r.get_params())): r for r in readouts}
        fits = [
            timed_fit(*permuted(X, y, seed), list(distinct.values()))
            for seed in range(3)
        ]
        return np.mean([switcher.codelength_ for switcher, _ in fits])


class Mixed:
    """The mixed readouts on ten orders of digits, or on the datasets of a folder."""

    options = {
        "features": {
            "type": Path,
            "nargs": "?",
            "help": "folder of DATASET/ENCODER.npy and DATASET/labels.npy",
        },
        "datasets": {"nargs": "*", "help": "names of datasets (default: all)"},
    }
    param_names = ["cell"]
    unit = "nats"
    formats = {
        f"track_{name}": ".1f"
        for name in (
            *("mixed", "default", "best_net", "best_neighbours", "best_lda"),
            *("best_logistic", "seconds"),
        )
    }
    summarise = True

    def prepare(self):
        self.members = []  # only filled by rows measured in this process
        if self.features is not None:
            self.cells = feature_cells(self.features, self.datasets)
            return
        data = load_digits(return_X_y=True)
        self.cells = {f"digits {seed}": permuted(*data, seed) for seed in ORDERS}

    @property
    def params(self):
        return list(self.cells)

    def setup(self, name):
        X, y = self.cells[name]
        self.switcher, self.seconds = timed_fit(X, y, without_kernels("mixed", X, y))
        self.names = [readout.architecture for readout in self.switcher.readouts_]
        self.members.append(self.switcher.readout_codelengths_)

    def track_mixed(self, name):
        return self.switcher.codelength_

    def track_default(self, name):
        is_net = [name.startswith(KINDS["nets"]) for name in self.names]
        losses = self.switcher.readout_losses_[:, np.array(is_net)]
        return forward(LearnedShare(), losses).codelength

    def track_best_net(self, name):
        return self._best("nets")

    def track_best_neighbours(self, name):
        return self._best("neighbours")

    def track_best_lda(self, name):
        return self._best("lda")

    def track_best_logistic(self, name):
        return self._best("logistic")

    def track_seconds(self, name):
        return self.seconds

    def _best(self, kind):
        of_kind = [name.startswith(KINDS[kind]) for name in self.names]
        return self.switcher.readout_codelengths_[of_kind].min()

    def report(self, table):
        mixed, default = (
            np.array([row[f"track_{name}"][0] for row in table.values()])
            for name in ("mixed", "default")
        )
        ratios = mixed / default
        print(
            f"all readouts over networks: mean ratio {ratios.mean():.4f}, shorter in "
            f"{np.sum(ratios < 1)} of {len(ratios)} cells"
        )
        if self.features is None and self.members:
            means = np.mean(self.members, axis=0)
            print(
                f"the best of {len(means)} readouts on average over all orders: "
                f"{means.min():.1f} nats"
            )
