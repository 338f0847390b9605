"""Rivals of encoder races: other ways to choose an encoder while labelling."""

import numpy as np
from scipy.stats import t as student

MOST = 1000  # labels per stream
CHECKPOINTS = [12, 24, 25, 48, 50, 96, 100, 192, 200, 300, 384, 400, 600, 800, 1000]
FIRST_TEST = 50  # labels before the first test


def stream(y, order):
    """Return the row numbers of a stream, in order."""
    return np.random.default_rng([36, order]).permutation(len(y))[:MOST]


def probed(dataset, features, y, order, results):
    """Return which leave-one-out predictions of probes are right.

    The result has shape (n_checkpoints, n_encoders, MOST). If ``results`` is a folder,
    the result is saved there, and reused if the encoders are the same.
    """
    path = results and results / f"probes-{dataset}-{order}.npz"
    if path and path.exists():
        saved = np.load(path)
        if saved["encoders"].tolist() == list(features):
            return saved["hits"]
    rows = stream(y, order)
    if len(rows) < MOST:
        required = f"{dataset!r} must have at least {MOST} rows"
        raise ValueError(f"{required}, got {len(rows)}; remove it from the folder")
    hits = np.zeros((len(CHECKPOINTS), len(features), MOST), dtype=bool)
    for i, n in enumerate(CHECKPOINTS):
        for k, X in enumerate(features.values()):
            Z = np.asarray(X, dtype=np.float64)[rows[:n]]
            hits[i, k, :n] = _ridge(Z, y[rows[:n]])[0]
    if path:
        np.savez(path, hits=hits, encoders=list(features))
    return hits


def known_on_all(features, y, order, n):
    """Fit a probe for each encoder on the first ``n`` labels, and return its accuracy.

    The accuracy is measured on all other rows. Active model selection has to estimate
    it from the labels that it selects, and can do no better than knowing it.
    """
    rows = np.random.default_rng([36, order]).permutation(len(y))
    first, others = rows[:n], rows[n:]
    hits = []
    for X in features.values():
        Z = np.asarray(X, dtype=np.float64)
        predicted = _ridge(Z[first], y[first], Z[others])[1]
        hits.append((predicted == y[others]).mean())
    return np.array(hits)


def _ridge(X, y, others=None):
    """Return which leave-one-out predictions are right, and predictions for others.

    The strength of regularisation is chosen by the number of correct leave-one-out
    predictions.
    """
    mean, scale = X.mean(0), X.std(0) + 1e-6
    X, others = (X - mean) / scale, (X if others is None else others) - mean
    targets = (y[:, None] == np.unique(y)) * 1.0
    centred = targets - targets.mean(0)
    U, s, V = np.linalg.svd(X, full_matrices=False)
    best, scores = np.zeros(len(y), dtype=bool), None
    for strength in 10.0 ** np.arange(-1, 6):
        share = s**2 / (s**2 + strength)
        hat = np.einsum("ij,j,ij->i", U, share, U) + 1 / len(y)
        fitted = (U * share) @ (U.T @ centred) + targets.mean(0)
        fitted = (fitted - hat[:, None] * targets) / (1 - hat.clip(max=0.999))[:, None]
        right = fitted.argmax(1) == targets.argmax(1)
        if scores is None or right.mean() > best.mean():
            weights = V.T @ ((s / (s**2 + strength))[:, None] * (U.T @ centred))
            scores = (others / scale) @ weights + targets.mean(0)
            best = right
    return best, np.unique(y)[scores.argmax(1)]


def tested(right, level, within):
    """Return the number of labels at which tests of probes stop, and the best encoder.

    From ``FIRST_TEST`` labels on, probes that are significantly less accurate than the
    most accurate one are dropped. Tests stop if only one probe is left, if bounds show
    that no other probe is more accurate by over ``within``, or after all labels.

    Parameters
    ----------
    right : ndarray of shape (n_checkpoints, n_encoders, MOST)
        Result of :func:`probed`.
    level : float
        Significance level of all tests together. Each test against the best probe uses
        this level divided by the number of other probes.
    within : float
        Largest loss of accuracy that is negligible.
    """
    alive = np.arange(right.shape[1])
    if len(alive) < 2:
        raise ValueError(
            "Tests need at least two encoders, got one; add the features of another "
            "encoder to the folder"
        )
    for i, n in enumerate(CHECKPOINTS):
        if n < FIRST_TEST:
            continue
        own = right[i, alive, :n] * 1.0
        leader = own.mean(1).argmax()
        gaps = own[leader] - own
        errors = gaps.std(1, ddof=1) / np.sqrt(n) + 1e-12
        bound = student.ppf(1 - level / (right.shape[1] - 1), n - 1)
        stays = gaps.mean(1) <= bound * errors
        close = bound * errors - gaps.mean(1) <= within
        close[leader] = True
        best, alive = alive[leader], alive[stays]
        if len(alive) == 1 or close[stays].all():
            return n, best
    return n, best


def halved(right, first):
    """Run successive halving. Return the number of labels used, and the last encoder.

    Every round doubles the number of labels, starting from ``first``, and drops the
    worse half of the encoders.
    """
    alive, n = np.arange(right.shape[1]), first
    while True:
        i = CHECKPOINTS.index(n)
        order = np.argsort(-right[i, alive, :n].mean(1), kind="stable")
        alive = alive[order[: (len(alive) + 1) // 2]]
        if len(alive) == 1 or 2 * n not in CHECKPOINTS:
            return n, alive[0]
        n *= 2
