"""A default fit beside a grid search over scikit-learn's perceptrons, on digits."""

import time
import warnings

import numpy as np
from floors import THREADS, Machine, ratios
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from sklearn_mdl import MDLReadoutSwitcher

SEARCH = {
    "hidden_layer_sizes": [(100,), (256,)],
    "alpha": [1e-4, 1e-2],
    "learning_rate_init": [1e-3, 3e-3],
}


def digits():
    """Digits between 0 and 1, in one order."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return (X[order] / 16).astype(np.float32), y[order]


def bench_search(options):
    """A default fit beside a grid search over scikit-learn's perceptrons."""
    X, y = digits()
    print(Machine().describe(THREADS), flush=True)
    perceptron = MLPClassifier(max_iter=200, random_state=0)
    warnings.simplefilter("ignore", ConvergenceWarning)  # 200 epochs are few
    times = {n: _seconds(perceptron.fit, X, y, n_threads=n) for n in THREADS}
    n_threads = min(times, key=times.get)
    seconds = {"ours": [], "search": []}
    for _ in range(options.repeats):
        switcher = MDLReadoutSwitcher(random_state=0, device="cpu", n_jobs=1)
        seconds["ours"].append(_seconds(switcher.fit, X, y))
        search = GridSearchCV(perceptron, SEARCH, cv=5, n_jobs=1)
        seconds["search"].append(_seconds(search.fit, X, y, n_threads=n_threads))
    ours, theirs = (np.array(times) for times in seconds.values())
    print(
        f"\ndefault fit of {len(switcher.readouts_)} readouts, one thread: "
        f"{np.median(ours):.1f} s; {switcher.codelength_:.1f} nats, "
        f"{switcher.codelength_ / len(y):.4f} an example"
    )
    print(
        f"grid search over {len(search.cv_results_['params'])} settings, 5 folds, "
        f"BLAS with {n_threads} thread(s): {np.median(theirs):.1f} s; accuracy "
        f"{search.best_score_:.4f}"
    )
    print(f"ratio {ratios(ours, theirs).strip()}")


def _seconds(run, *data, n_threads=None):
    with threadpool_limits(n_threads):
        start = time.perf_counter()
        run(*data)
        return time.perf_counter() - start
