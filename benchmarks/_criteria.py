"""Criteria that score an encoder from a few labels, and the encoder's reference score.

Rivals of our codelengths take the features and labels of one encoder on one task. They
return scores, of which greater ones are better. So the score of the block-wise code is
minus its nats.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler, normalize

from benchmarks.logistic import STRENGTHS as BLOCKWISE_STRENGTHS, blockwise_codelength
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.baselines import log_evidence, rank_me

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)
NEIGHBORS = (1, 3, 5, 10, 20)
FLOOR = 1e-4  # lower bound of scored probabilities
TEST_SHARE = 0.3

# Numbers of parameters without those of the last layer, counted in the weights or, if
# only features are available, in the published architecture.
PARAMETERS = {
    "conv-burgess_betavae-celeba": 247_938,
    "conv-burgess_btcvae-celeba": 247_938,
    "conv-burgess_vae-celeba": 247_938,
    "conv-burgess_vae-dsprites": 246_914,
    "conv4_relation-miniimagenet": 112_578,
    "conv_cpc-mnist": 295_232,
    "mobilenetv1-025_sup-imagenet": 210_338,
    "mobilenetv1-050_sup-imagenet": 813_176,
    "mobilenetv1-075_sup-imagenet": 1_806_000,
    "resnet20_sup-cifar10": 268_386,
    "resnet56_sup-cifar10": 851_000,
}


# The task


def frequent_rows(y, n_classes):
    """Return the rows of the most frequent classes. Ties go to smaller labels."""
    classes, counts = np.unique(y, return_counts=True)
    kept = classes[np.argsort(-counts, kind="stable")[:n_classes]]
    return np.flatnonzero(np.isin(y, kept))


def class_count(y, n_labels):
    """Return the number of classes of a task: at most ``max(2, n_labels // 5)``."""
    return min(len(np.unique(y)), max(2, n_labels // 5))


def split(y, n_classes):
    """Return the rows for criteria, and the held-out rows for the reference score."""
    rows = np.random.default_rng(0).permutation(frequent_rows(y, n_classes))
    n_test = round(TEST_SHARE * len(rows))
    return rows[n_test:], rows[:n_test]


def drawn(y, n_labels, draw):
    """Return the rows of one draw of labels, used for all encoders and criteria."""
    rows, _ = split(y, class_count(y, n_labels))
    if n_labels > len(rows):
        raise ValueError(
            f"--labels must be at most {len(rows)} on this dataset, got {n_labels}; "
            "pass smaller numbers"
        )
    return np.random.default_rng([n_labels, draw]).choice(rows, n_labels, False)


# Codelengths


def codes(X, y, order, **settings):
    """Return the nats of every row in one order, and accuracies of the predictions.

    Returns
    -------
    table : dict of str to ndarray of shape (n,)
        In the order of the given rows: "pooled" and "switching" nats, "readouts" (nats
        of shape (n, K), NaN after retirement), and "place", the position in the pass.
    values : dict of str to float
        Accuracy on all rows and on the last half, and seconds.
    """
    rows = np.random.default_rng([len(y), order]).permutation(len(y))
    half = len(rows) // 2
    start = time.process_time()
    switcher = MDLReadoutSwitcher(random_state=order, **settings)
    switcher.partial_fit(X[rows[:half]], y[rows[:half]], classes=np.unique(y))
    first = switcher.measures().accuracy * half
    switcher.partial_fit(X[rows[half:]], y[rows[half:]])
    seconds = time.process_time() - start
    right = switcher.measures().accuracy * len(rows)
    place = np.argsort(rows)
    table = {
        "pooled": switcher.codelengths_[place],
        "switching": switcher.switching_codelengths_[place],
        "readouts": switcher.readout_losses_[place],
        "place": place,
    }
    values = {
        "accuracy": right / len(rows),
        "last accuracy": (right - first) / (len(rows) - half),
        "seconds": seconds,
    }
    return table, values


# Rivals


def scored(proba, classes, y):
    """Return an array (2, n): hits (1 or 0), and finite log-probabilities.

    Probabilities below ``FLOOR``, including those of classes that were not learned, are
    raised to ``FLOOR`` before normalisation.
    """
    full = np.full((len(y), max(int(max(y)), int(max(classes))) + 1), FLOOR)
    full[:, classes] = np.maximum(proba, FLOOR)
    full /= full.sum(1, keepdims=True)
    at = np.arange(len(y))
    return np.array([full.argmax(1) == y, np.log(full[at, y])], dtype=float)


def _ignore():
    """Ignore warnings about few labels and about optimisers that stop too early."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "The least populated class")
    warnings.filterwarnings("ignore", "The number of unique classes")


def folds(X, y):
    """Yield training rows, their labels, test rows and test row numbers, five times."""
    with warnings.catch_warnings():
        _ignore()
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            scaler = StandardScaler().fit(X[train])
            yield scaler.transform(X[train]), y[train], scaler.transform(X[test]), test


def cross_validated(X, y, fits):
    """Return the best accuracy and the best mean log-probability over all fits.

    Both are means over the test rows of five folds.

    Parameters
    ----------
    fits : callable
        Maps training rows, their labels and test rows to an iterable of pairs of
        probabilities and classes, one for each setting.
    """
    parts = [
        [scored(proba, classes, y[test]) for proba, classes in fits(*train, rows)]
        for *train, rows, test in folds(X, y)
    ]
    table = np.concatenate([np.array(fold) for fold in parts], axis=-1)
    accuracy, log_proba = table.mean(-1).max(0)
    return {"accuracy": accuracy, "log-loss": log_proba}


def logistic_fits(X, y, others):
    """Yield the predictions of a logistic regression for each value of ``C``.

    Each fit starts from the previous one.
    """
    model = LogisticRegression(warm_start=True, max_iter=300)
    for C in STRENGTHS:
        model.set_params(C=C).fit(X, y)
        yield model.predict_proba(others), model.classes_


def neighbor_fits(X, y, others):
    """Yield predictions of k nearest neighbours by cosine similarity, for each k."""
    X, others = normalize(X), normalize(others)
    for k in NEIGHBORS:
        if k <= len(y):
            model = KNeighborsClassifier(k, weights="distance").fit(X, y)
            yield model.predict_proba(others), model.classes_


def mlp_fits(X, y, others):
    """Yield the predictions of an MLP for each of two regularisation strengths."""
    for alpha in (0.01, 1.0):
        model = MLPClassifier((256,), alpha=alpha, max_iter=60, random_state=0)
        model.fit(X, y)
        yield model.predict_proba(others), model.classes_


def blockwise(X, y):
    """Return minus the nats of the best of four block-wise logistic regressions."""
    return -min(blockwise_codelength(X, y, C) for C in BLOCKWISE_STRENGTHS)


def log_me(X, y):
    """Return LogME.

    If features predict a class exactly, LogME is unbounded. Then add a little noise.
    """
    try:
        return log_evidence(X, y).value
    except ValueError:
        noise = np.random.default_rng(0).normal(size=X.shape)
        return log_evidence(X + 1e-3 * X.std() * noise, y).value


def probes(X, y):
    """Return the criteria from tuned regressions and neighbours over five folds.

    Returns
    -------
    values : dict of str to float
        Best accuracy and mean log-probability of regressions and of neighbours, and
        "AUC", the best mean one-against-rest ROC AUC over both. The AUC ignores folds
        whose test rows lack a class, and is 0.5 if there are no other folds.
    """
    kinds = {"logistic": logistic_fits, "neighbors": neighbor_fits}
    tables: dict[str, list] = {kind: [] for kind in kinds}
    areas = []
    for *train, rows, test in folds(X, y):
        fitted = {kind: list(fits(*train, rows)) for kind, fits in kinds.items()}
        for kind, pairs in fitted.items():
            tables[kind].append([scored(*one, y[test]) for one in pairs])
        if len(np.unique(y[test])) == len(np.unique(y)):
            every = [one for pairs in fitted.values() for one in pairs]
            areas.append([_auc(*one, y[test]) for one in every])
    values = {"AUC": float(np.mean(areas, axis=0).max()) if areas else 0.5}
    for kind, table in tables.items():
        means = np.concatenate(table, axis=-1).mean(-1).max(0)
        values |= {f"{kind} accuracy": means[0], f"{kind} log-loss": means[1]}
    return values


def _auc(proba, classes, y):
    """Return the mean over classes of the ROC AUC against all other classes."""
    is_class = y[:, None] == classes
    n = is_class.sum(0)
    above = (rankdata(proba, axis=0) * is_class).sum(0) - n * (n + 1) / 2
    return float((above / (n * (len(y) - n))).mean())


RIVALS: dict[str, Callable] = {
    "logistic": lambda X, y: cross_validated(X, y, logistic_fits),
    "neighbors": lambda X, y: cross_validated(X, y, neighbor_fits),
    "LogME": lambda X, y: {"": log_me(X, y)},
    "RankMe": lambda X, y: {"": rank_me(X)},
    "probes": probes,
    "block-wise": lambda X, y: {"": blockwise(X, y)},
    "mlp": lambda X, y: cross_validated(X, y, mlp_fits),
}


def rival(name, X, y):
    """Return the values of one rival keyed by criterion, and CPU seconds."""
    y = np.unique(y, return_inverse=True)[1]
    start = time.process_time()
    with warnings.catch_warnings():
        _ignore()
        values = RIVALS[name](X, y)
    seconds = time.process_time() - start
    return {" ".join([name, key]).strip(): v for key, v in values.items()}, seconds


# Reference scores


def truth(X, y, n_classes):
    """Return which predictions of three classifiers are right, and log-probabilities.

    The classifiers are a logistic regression, an MLP and neighbours, tested on the
    held-out rows. Their settings are chosen on a fifth of all other rows (for the MLP,
    on the tenth used for early stopping). Logistic regression and neighbours are then
    refitted on all other rows.

    Returns
    -------
    table : ndarray of shape (3, 2, n_test)
    """
    rows, test = split(y, n_classes)
    names = np.unique(y[rows])
    at, truth = np.searchsorted(names, y[rows]), np.searchsorted(names, y[test])
    scaler = StandardScaler().fit(X[rows])
    X, others = scaler.transform(X[rows]), scaler.transform(X[test])
    with warnings.catch_warnings():
        _ignore()
        fitted = [
            _best_logistic(X, at, others),
            _best_mlp(X, at, others),
            _best_neighbors(X, at, others),
        ]
    return np.array([scored(proba, classes, truth) for proba, classes in fitted])


def _best_logistic(X, y, others):
    train, valid = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    fits = logistic_fits(X[train], y[train], X[valid])
    rights = [scored(*pair, y[valid])[0].mean() for pair in fits]
    model = LogisticRegression(C=STRENGTHS[int(np.argmax(rights))], max_iter=300)
    model.fit(X, y)
    return model.predict_proba(others), model.classes_


def _best_neighbors(X, y, others):
    train, valid = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    fits = neighbor_fits(X[train], y[train], X[valid])
    rights = [scored(*pair, y[valid])[0].mean() for pair in fits]
    model = KNeighborsClassifier(NEIGHBORS[int(np.argmax(rights))], weights="distance")
    model.fit(normalize(X), y)
    return model.predict_proba(normalize(others)), model.classes_


def _best_mlp(X, y, others):
    models = [
        MLPClassifier(
            (256,), alpha=alpha, max_iter=60, early_stopping=True, random_state=0
        ).fit(X, y)
        for alpha in (0.01, 1.0)
    ]
    best = max(models, key=lambda model: model.best_validation_score_)
    return best.predict_proba(others), best.classes_
