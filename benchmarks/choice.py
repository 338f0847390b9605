"""How often does a criterion choose the better encoder from a few labels?

``FEATURES`` contains ``DATASET/ENCODER.npy`` and ``DATASET/labels.npy``. With ``n``
labels, a task has at most the ``n / 5`` most frequent classes. Three tenths of its rows
are held out for the reference score, which is the best held-out accuracy among a tuned
logistic regression, an MLP and tuned neighbours fitted on all other rows. All criteria
receive the same random draw of ``n`` of these other rows. Our codelengths also depend
on the order of the rows, which is random. A criterion with "x 4" is the mean over four
orders with up to 500 labels, and uses one order with more. "ranking" is the default of
``RepresentationScorer``: "linear x 4" with up to 500 labels and "closed-form" with
more. "ranking and probe" is the accuracy of "logistic", multiplied by n / 1,000, minus
the nats per label of "ranking".

All values are saved in the folder of results, so you can resume an interrupted run or
extend a finished one. The report includes all values in the folder for the chosen
datasets, numbers of labels and draws. Without ``FEATURES``, the report shows
``choice.json``, which ``--keep`` writes next to this file. With ``--methods``, which
needs ``FEATURES``, only these methods are run. The report compares them with the other
methods in ``choice.json``, except for seconds, which are not comparable. Seconds are
printed separately if the folder contains those of "logistic". ``--fresh`` uses draws of
labels on which we compared no lists or settings, and reports only the methods that are
run on these draws.
"""

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import _agreement as agreement, _criteria as criteria
from benchmarks._choice_tables import Kept, print_seconds, print_tables
from benchmarks._data import check_names
from sklearn_mdl.datasets import load_feature_directory

KEPT = Path(__file__).with_suffix(".json")
N_DRAWS = 5  # draws on which we compared lists and settings
CHEAP = ["linear", "closed-form", "logistic", "neighbors", "LogME", "RankMe"]
LISTS = {
    "linear": {"readouts": "linear"},
    "closed-form": {"readouts": "closed-form"},
    "default": {},
    "default, no race": {"race": None},
}
# Methods in the order in which they run, with draws. Costly methods have fewer draws.
STAGES = [
    (CHEAP, [0]),
    (CHEAP, [1]),
    (["block-wise"], [0]),
    (CHEAP, [2]),
    (["default", "mlp"], [0]),
    (CHEAP, [3, 4]),
    (["block-wise"], [1, 2, 3, 4]),
    (["default", "mlp"], [1]),
    (["default, no race"], [0, 1]),
]
METHODS = list(dict.fromkeys(name for methods, _ in STAGES for name in methods))


def n_orders(method, n_labels):
    """Return 4 for "linear" and "closed-form" with up to 500 labels, otherwise 1."""
    return 4 if method in ("linear", "closed-form") and n_labels <= 500 else 1


class _Store:
    """A folder of values keyed by method, dataset, labels, draw, encoder and name.

    Parameters
    ----------
    folder : Path
        Values are appended to ``values.csv``. Files in ``codes`` contain the nats of
        each row. Files in ``truth`` contain hits and log-probabilities on the held-out
        rows.
    """

    def __init__(self, folder):
        self.folder = folder
        for name in ("codes", "truth"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.path = folder / "values.csv"
        self.path.touch()
        lines = self.path.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) < len(lines):
            self.path.write_text("".join(whole))
        self.values = {tuple(row[:-1]): float(row[-1]) for row in csv.reader(whole)}
        # The seconds of a method are written after its other values.
        self.done = {key[:-1] for key in self.values if key[-1] == "seconds"}

    def add(self, key, values):
        """Append the values of one method on one task."""
        key = tuple(map(str, key))
        with self.path.open("a", newline="") as file:
            for name, value in values.items():
                csv.writer(file, lineterminator="\n").writerow([*key, name, value])
                self.values[*key, name] = float(value)
        self.done.add(key)

    def value(self, method, name, *task):
        """Return a value; raise KeyError if it has not been computed."""
        return self.values[method, *map(str, task), name]

    def codes_path(self, key):
        """Return the file of the codes of one order."""
        name = "-".join(map(str, key)).replace("/", "-")
        return self.folder / "codes" / f"{name}.npz"

    def truth_path(self, dataset, n_classes, encoder):
        """Return the file of the predictions on the held-out rows."""
        return self.folder / "truth" / f"{dataset}-{n_classes}-{encoder}.npy"


# Criteria: functions of a store, dataset, number of labels, draw and encoder


def code(store, *task, method, orders=1, kind="pooled", part=1.0):
    """Return minus the nats per row, and seconds.

    Only the last ``part`` of each order counts.
    """
    nats, seconds = [], 0.0
    for order in range(min(orders, n_orders(method, task[1]))):
        name = f"{method}/{order}"
        seconds += store.value(name, "seconds", *task)
        with np.load(store.codes_path((name, *task))) as saved:
            late = saved["place"] >= (1 - part) * task[1]
            nats.append(saved[kind][late].mean(dtype=float))
    return -np.mean(nats), seconds


def foreseen(store, *task, method, orders=1, name="accuracy"):
    """Return the mean accuracy of the passes over their orders, and seconds."""
    names = [f"{method}/{k}" for k in range(min(orders, n_orders(method, task[1])))]
    shares = [store.value(one, name, *task) for one in names]
    return np.mean(shares), sum(store.value(one, "seconds", *task) for one in names)


def valued(store, *task, method, name=None):
    """Return a saved value of a rival method, and seconds."""
    value = store.value(method, name or method, *task)
    return value, store.value(method, "seconds", *task)


def size(store, *task):
    """Return the number of parameters, and zero seconds."""
    return float(criteria.PARAMETERS[task[-1]]), 0.0


def _ours():
    lists = {
        "linear": {"method": "linear"},
        "closed-form": {"method": "closed-form"},
        "default": {"method": "default"},
        "default, no race": {"method": "default, no race"},
    }
    for title, own in lists.items():
        counts = (1,) if title.startswith("default") else (1, 4)
        for orders in counts:
            many = " x 4" if orders > 1 else ""
            for kind in ("pooled", "switching"):
                unpooled = "" if kind == "pooled" else " switching"
                for part in (1.0, 0.5):
                    late = "" if part == 1 else ", last half"
                    name = f"{title}{unpooled}{many}{late}"
                    yield (
                        name,
                        partial(code, **own, orders=orders, kind=kind, part=part),
                    )
            yield (
                f"{title}{many}, its accuracy",
                partial(foreseen, **own, orders=orders),
            )


CRITERIA = {
    **dict(_ours()),
    "logistic accuracy": partial(valued, method="logistic", name="logistic accuracy"),
    "logistic log-loss": partial(valued, method="logistic", name="logistic log-loss"),
    "MLP accuracy": partial(valued, method="mlp", name="mlp accuracy"),
    "MLP log-loss": partial(valued, method="mlp", name="mlp log-loss"),
    "neighbours accuracy": partial(
        valued, method="neighbors", name="neighbors accuracy"
    ),
    "neighbours log-loss": partial(
        valued, method="neighbors", name="neighbors log-loss"
    ),
    "block-wise code": partial(valued, method="block-wise"),
    "LogME": partial(valued, method="LogME"),
    "RankMe": partial(valued, method="RankMe"),
    "size": size,
}


class Choice:
    """All criteria on every dataset of a folder."""

    options = {
        "features": {"type": Path, "nargs": "?", "help": "folder of features"},
        "--results": {
            "type": Path,
            "default": Path("choice"),
            "help": "folder in which values are saved (%(default)s)",
        },
        "--datasets": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--labels": {"nargs": "*", "type": int, "default": [50, 100, 300, 1000]},
        "--methods": {
            "nargs": "*",
            "default": [],
            "choices": METHODS,
            "help": "names (default: all)",
        },
        "--draws": {"type": int, "default": 5, "help": "number of draws (5)"},
        "--fresh": {"action": "store_true", "help": "use other draws of labels"},
        "--no-run": {"action": "store_true", "help": "only report saved values"},
        "--keep": {"action": "store_true", "help": "write choice.json"},
    }

    def prepare(self):
        if self.features is None:
            return
        known = dict.fromkeys(name for methods, _ in STAGES for name in methods)
        check_names("The benchmark", self.methods or (), list(known))
        self.store = _Store(self.results)
        tables = load_feature_directory(self.features)
        check_names(self.features, self.datasets, list(tables))
        self.data = {
            name: ({k: np.asarray(X, np.float32) for k, X in features.items()}, y)
            for name, (features, y) in tables.items()
            if not self.datasets or name in self.datasets
        }
        if not self.methods:
            self.run_truths()
        for methods, draws in [] if self.no_run else STAGES:
            chosen = [one for one in methods if one in (self.methods or methods)]
            for draw in draws:
                if draw < self.draws:
                    self.run_stage(chosen, draw + self.first_draw)

    @property
    def first_draw(self):
        return N_DRAWS if self.fresh else 0

    def run_truths(self):
        for name, (features, y) in self.data.items():
            for count in sorted({criteria.class_count(y, n) for n in self.labels}):
                for encoder, X in features.items():
                    path = self.store.truth_path(name, count, encoder)
                    if not path.exists():
                        np.save(path, criteria.truth(X, y, count))

    def run_stage(self, methods, draw):
        for n in self.labels:
            for name, (features, y) in self.data.items():
                rows = criteria.drawn(y, n, draw)
                for encoder, X in features.items():
                    for method in methods:
                        key = name, n, draw, encoder
                        self.run_method(method, key, X[rows], y[rows])

    def run_method(self, method, key, X, y):
        if method in LISTS:
            for order in range(n_orders(method, len(y))):
                name = f"{method}/{order}"
                if (name, *map(str, key)) not in self.store.done:
                    self.run_list(method, order, (name, *key), X, y)
        elif (method, *map(str, key)) not in self.store.done:
            values, seconds = criteria.rival(method, X, y)
            self.store.add((method, *key), {**values, "seconds": seconds})

    def run_list(self, method, order, key, X, y):
        arrays, values = criteria.codes(X, y, order, **LISTS[method])
        if method != "closed-form":
            del arrays["readouts"]
        place = arrays.pop("place").astype(np.int16)
        small = {name: nats.astype(np.float32) for name, nats in arrays.items()}
        np.savez_compressed(self.store.codes_path(key), place=place, **small)
        self.store.add(key, values)

    def report(self, table):
        if self.features is None:
            text = KEPT.read_text()
        else:
            text = as_text(self.collect().to_json())
        if self.keep:
            KEPT.write_text(text)
        kept = Kept.from_json(json.loads(text))
        print_tables(kept)
        if self.features and self.methods and "logistic accuracy" in self.seconds:
            print("\nSeconds of the values in this folder")
            labels = sorted(self.seconds["logistic accuracy"])
            print_seconds(kept._replace(seconds=self.seconds), labels)

    def collect(self):
        """Return the values for the report from the results computed so far."""
        encoders = list(next(iter(self.data.values()))[0])
        scores, self.seconds = self.scores(encoders)
        if self.methods:
            kept = Kept.from_json(json.loads(KEPT.read_text()))
            return kept._replace(scores=scores) if self.fresh else kept.beside(scores)
        return Kept(encoders, *self.truths(encoders), scores, self.seconds)

    def truths(self, encoders):
        """Return accuracy, log-loss and ceiling, keyed by dataset and labels."""
        accuracy, log_loss, ceiling = {}, {}, {}
        for name, (_, y) in self.data.items():
            for n in self.labels:
                count = criteria.class_count(y, n)
                paths = [self.store.truth_path(name, count, key) for key in encoders]
                answers = np.stack([np.load(path) for path in paths])
                accuracy[name, n] = agreement.best_of(answers[:, :, 0])
                log_loss[name, n] = agreement.best_of(answers[:, :, 1])
                ceiling[name, n] = agreement.ceiling(answers[:, :, 0])
        return accuracy, log_loss, ceiling

    def scores(self, encoders):
        """Return scores and seconds, keyed by criterion."""
        scores, seconds = {}, {}
        for title, criterion in CRITERIA.items():
            cells = self.scored(criterion, encoders)
            if cells:
                scores[title] = {key: table[0] for key, table in cells.items()}
                seconds[title] = {
                    n: np.mean([t[1].mean() for key, t in cells.items() if key[1] == n])
                    for n in sorted({key[1] for key in cells})
                }
        return scores, seconds

    def scored(self, criterion, encoders):
        """Return scores and seconds (2, n_encoders), keyed by dataset, labels, draw."""
        tables = {}
        for name in self.data:
            for n in self.labels:
                for draw in range(self.first_draw, self.first_draw + self.draws):
                    tasks = [(name, n, draw, encoder) for encoder in encoders]
                    try:
                        rows = [criterion(self.store, *task) for task in tasks]
                    except KeyError:  # this draw has not been run
                        continue
                    tables[name, n, draw] = np.array(rows).T
        return tables


def as_text(values):
    """Return JSON with each list on one line, so that diffs are small."""
    text = json.dumps(values, indent=0)
    lines = text.replace("[\n", "[").replace("\n]", "]")
    parts, depth = [], 0
    for line in lines.splitlines():
        parts.append(line if depth == 0 else " " + line)
        depth += line.count("[") - line.count("]")
        if depth == 0:
            parts.append("\n")
    return "".join(parts)
