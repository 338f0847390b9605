"""No code is short for random labels: the mean of exp(uniform - code) is one at most.

For labels drawn from a distribution ``u``, and a code of lengths ``-log p``, the mean
of ``p / u`` is the sum of all probabilities ``p``. Print the means, and their standard
errors, of all cases, or some, over 200 seeds, or those that fit in some CPU minutes::

    python tests/test_random_labels.py [--minutes M] [name ...]
"""

import argparse
import time
import warnings
from math import comb

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import (
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    RefitReadout,
)
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import DummyReadout
from sklearn_mdl.switching import Race

N, D, C, N_SEEDS = 16, 2, 2, 200
SOME = [
    LinearReadout(lr=0.03, n_replay_streams=2),
    MLPReadout((4,), lr=0.1, n_replay_streams=2),
    KernelReadout(),
    KernelReadout(lambda a, b: a @ b.T - 1.0, scaling=None),  # not always definite
    KNeighborsReadout(3),
    DummyReadout("transition"),
    IncrementalReadout(GaussianNB()),
    RefitReadout(LogisticRegression()),
]
POOLED = {"pooling": LogLinearPool(), "race": Race(min_samples=8, min_readouts=2)}


def classes(readouts=SOME, *, n=N, grouped=False, permuted=False, **options):
    """Return the function from a seed to the log of p / u of classes."""

    def saved(seed):
        rng = np.random.default_rng([seed, 7])
        X, y = rng.normal(size=(n, D)), rng.integers(C, size=n)
        settings = {"batch_size": (2, 8), "random_state": seed, **options}
        switcher = MDLReadoutSwitcher(readouts, **settings)
        groups = np.arange(n) // 3 if grouped else None
        if permuted:
            y = np.resize(range(C), n)
            switcher.set_params(shuffle=True).fit(X, y)
            return np.log(comb(n, n // 2)) - switcher.null_codelengths(1)[0]
        known = None if "new_classes" in options else range(C)
        switcher.partial_fit(X, y, classes=known, groups=groups)
        return n * np.log(C) - switcher.codelength_

    return saved


def reals(readouts=None, *, grouped=False, **options):
    """Return the function from a seed to the log of p / u of standard normal labels."""

    def saved(seed):
        rng = np.random.default_rng([seed, 8])
        X, y = rng.normal(size=(N, D)), rng.normal(size=N)
        settings = {"batch_size": (2, 8), "random_state": seed, **options}
        switcher = MDLReadoutSwitcherRegressor(readouts, **settings)
        groups = np.arange(N) // 3 if grouped else None
        switcher.partial_fit(X, y, groups=groups)
        return -norm.logpdf(y).sum() - switcher.codelength_

    return saved


CASES = {
    **{str(n): classes(n) for n in ("linear", "closed-form", "nets", "mixed")},
    **{str(n): classes(n) for n in ("drift", "stream")},
    "default": classes(None),
    "some": classes(pooling=None, race=None),
    "pool and race": classes(**POOLED),
    "groups": classes(grouped=True, **POOLED),
    "delay": classes(label_delay=3, **POOLED),
    "escapes": classes(SOME[:3], new_classes="escape"),
    "elementwise": classes(switching="elementwise"),
    "null": classes("closed-form", permuted=True),
    **{f"reals, {n}": reals(n) for n in ("closed-form", "nets", "drift", "stream")},
    "reals, default": reals(),
    "reals, groups": reals("closed-form", grouped=True),
    "reals, delay": reals("closed-form", label_delay=3),
}


def mean_ratio(name, seconds=np.inf):
    """Return the mean of p / u over seeds, its standard error, and how many seeds."""
    stop, ratios = time.process_time() + seconds, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while len(ratios) < N_SEEDS and time.process_time() < stop:
            ratios.append(np.exp(CASES[name](len(ratios))))
    n = len(ratios)
    return np.mean(ratios), np.std(ratios, ddof=1) / np.sqrt(n), n


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_random_labels_are_not_compressed_by_any_list_or_feature(name):
    mean, error, _ = mean_ratio(name)
    assert mean <= 1 + 3 * error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=np.inf, help="of CPU, a case")
    parser.add_argument("names", nargs="*", metavar="name")
    given = parser.parse_args()
    for name in given.names or CASES:
        mean, error, n = mean_ratio(name, 60 * given.minutes)
        print(f"{name:20} {mean:7.3f} +- {error:.3f} ({n} seeds)", flush=True)
