"""Rows of every kind that real features hold now and then, drawn from a seed."""

import numpy as np

MOST = np.finfo(np.float16).max


def _sparse(rng, n, d):
    return (rng.random((n, d)) < rng.choice([0.02, 0.05])) * 1.0


def _poisson(rng, n, d):
    return rng.poisson(rng.choice([0.02, 0.2]), (n, d))


def _repeated(rng, n, d):
    return rng.normal(size=(4, d))[rng.integers(rng.integers(2, 5), size=n)]


def _seldom_different(rng, n, d):
    usual = rng.choice([0.0, 1.0, 0.1]) * np.ones(d)
    return np.where(rng.random((n, 1)) < 0.05, rng.normal(size=(n, d)), usual)


def _zeros(rng, n, d):
    return rng.normal(size=(n, d)) * (rng.random((n, 1)) < 0.1)


def _mixed_scales(rng, n, d):
    return rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-30, 30, d)


def _row_scales(rng, n, d):
    return rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-15, 15, (n, 1))


def _tiny(rng, n, d):
    return rng.normal(size=(n, d)) * 1e-30


def _half_precision(rng, n, d):
    ends = np.array([MOST, -MOST, 6e-8, 6e-5, 0.0, 1.0])
    return ends[rng.integers(len(ends), size=(n, d))]


def _few_values(rng, n, d):
    return rng.integers(0, 2, (n, d)) * 0.1


def _sorted(rng, n, d):
    return np.sort(rng.integers(0, 3, n))[:, np.newaxis] * np.ones(d)


def _wide(rng, n, d):
    return rng.normal(size=(n, 5 * n))


def _constant(rng, n, d):
    return np.full((n, d), rng.choice([0.0, 0.1, -1e30]))


def _far(rng, n, d):
    return 1e4 + 1e-3 * rng.normal(size=(n, d))


def _outliers(rng, n, d):
    return rng.normal(size=(n, d)) * np.where(rng.random((n, 1)) < 0.05, 1e15, 1.0)


KINDS = {
    name.removeprefix("_"): kind
    for name, kind in list(globals().items())
    if name.startswith("_") and callable(kind) and not name.startswith("__")
}


def odd_rows(seed):
    """Return the name of a kind of rows, rows, classes of them and real labels."""
    rng = np.random.default_rng(seed)
    names = list(KINDS)
    name = names[seed % len(names)]
    n, d = int(rng.integers(34, 80)), int(rng.integers(1, 9))
    X = np.asarray(KINDS[name](rng, n, d), np.float32)
    told = X[:, 0] > np.median(X[:, 0])
    classes = np.where(rng.random(n) < 0.7, told, rng.integers(3, size=n)).astype(int)
    classes[:3] = [0, 1, 2]
    reals = told + rng.normal(size=n)
    kinds = [reals, np.round(reals), reals * (rng.random(n) < 0.1), 1e12 * reals]
    return name, X, classes, kinds[rng.integers(len(kinds))]
