"""How often does a criterion choose the better text encoder from a few labels?

This is ``choice`` on real texts and labels from the installed package ``sae-probes``
(0.4.2, MIT). There are ten encoders: latent semantic analysis of words with three
widths and of characters with two, hashed words, static embeddings from ``wordllama``,
and three layers of a byte transformer trained on other texts. ``text_datasets.json``
divides the datasets into held-out ones and others. Datasets whose names begin with the
same two words are a family, and every second family is held out. We chose no setting on
any of these datasets. "probe AUC" is the best cross-validated ROC AUC of logistic
regressions and neighbours. "ranking and RankMe" adds RankMe, which needs no labels, to
the codelengths, with a weight that falls as labels are added. The report also shows how
often a choice has the shortest code on other labels.

    pip install --no-deps sae-probes==0.4.2; pip install zstandard wordllama
    python -m benchmarks text --results text

All values are saved in the folder of results, so an interrupted run resumes. At each
number of labels, the report includes the datasets that are complete. Held-out datasets
are reported separately.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import (
    _agreement as agreement,
    _criteria as criteria,
    _text_data as data,
)
from benchmarks._choice_tables import LINEAR_LABELS, Kept
from benchmarks._text_tables import (
    choices_of,
    print_certainty,
    print_disagreements,
    print_parts,
    with_rules,
)
from benchmarks.choice import (
    CRITERIA as IMAGE_CRITERIA,
    Choice,
    _Store,
    as_text,
    n_orders,
    valued,
)
from sklearn_mdl.model_selection._certainty import Losses, sample_of
from sklearn_mdl.ranking import shares_best

KEPT = Path(__file__).with_suffix(".json")
METHODS = ["linear", "closed-form", "probes", "LogME", "RankMe"]
PROBES = {
    "logistic accuracy": "probes logistic accuracy",
    "logistic log-loss": "probes logistic log-loss",
    "neighbours accuracy": "probes neighbors accuracy",
    "probe AUC": "probes AUC",
}
CRITERIA = {
    name: IMAGE_CRITERIA[name]
    for name in (
        *("linear x 4", "linear x 4, last half"),
        *("closed-form x 4", "closed-form x 4, last half"),
        *("LogME", "RankMe"),
    )
} | {
    title: partial(valued, method="probes", name=name) for title, name in PROBES.items()
}


class Text(Choice):
    """All criteria on text datasets."""

    options = {
        "--results": {
            "type": Path,
            "default": Path("text"),
            "help": "folder in which values are saved (%(default)s)",
        },
        "--datasets": {"nargs": "*", "default": [], "help": "names (default: all)"},
        "--labels": {"nargs": "*", "type": int, "default": [50, 100, 300, 1000]},
        "--rows": {
            "type": int,
            "default": 1430,
            "help": "largest number of rows per dataset",
        },
        "--draws": {"type": int, "default": 1, "help": "draws of labels (1)"},
        "--limit": {
            "type": int,
            "default": 1000,
            "help": "largest number of datasets per part",
        },
        "--no-run": {"action": "store_true", "help": "only report saved values"},
        "--keep": {"action": "store_true", "help": "write text.json"},
        "--kept": {"action": "store_true", "help": "only report text.json"},
    }
    methods, fresh = METHODS, False

    def prepare(self):
        if self.kept:
            return
        self.store = _Store(self.results)
        (self.results / "features").mkdir(exist_ok=True)
        parts = data.parts()
        # Alternate between parts and mix families, so that a short run has both.
        order = np.random.default_rng(0)
        mixed = [order.permutation(parts[part])[: self.limit] for part in parts]
        names = [name for pair in zip(*mixed, strict=False) for name in pair]
        self.data, self.tasks, model = {}, set(), None
        for name in map(str, self.datasets or names):
            path = self.results / "features" / f"{name}.npz"
            if not path.exists():
                if self.no_run:
                    continue
                if model is None:
                    aside = self.results / "model.pt"
                    model = data.byte_model(aside, parts["others"][-12:])
                texts, y = data.load(name, self.rows)
                np.savez(path, labels=y, **data.features(texts, model))
            with np.load(path) as saved:
                arrays = {key: saved[key] for key in saved.files}
            y = arrays.pop("labels")
            self.run_dataset(name, arrays, y)

    def run_dataset(self, name, arrays, y):
        """Run all criteria on a dataset."""
        every, self.data = self.data, {name: (arrays, y)}
        if not self.no_run:
            self.run_truths()
            for draw in range(self.draws):
                self.run_stage(METHODS, draw)
        self.data = every
        last = list(arrays)[-1]
        done = [
            n
            for n in self.labels
            if (METHODS[-1], name, *map(str, (n, self.draws - 1)), last)
            in self.store.done
        ]
        if done:
            self.data[name] = arrays, y
            self.tasks |= {(name, n) for n in done}

    def run_method(self, method, key, X, y):
        # As in a ranking: the list "linear" with few labels, "closed-form" with many.
        skipped = "closed-form" if len(y) <= LINEAR_LABELS else "linear"
        if method != skipped:
            super().run_method(method, key, X, y)

    def report(self, table):
        if self.kept:
            values = json.loads(KEPT.read_text())
        else:
            values = self.collect().to_json()
            choices = {f"{d} {n}": self.choices(d, n) for d, n in sorted(self.tasks)}
            values["choices"] = choices
        if self.keep:
            KEPT.write_text(as_text(values))
        kept = with_rules(Kept.from_json(values).with_ranking())
        print_parts(kept, data.parts())
        print_disagreements(kept)
        rows = {key.rpartition(" "): own for key, own in values["choices"].items()}
        print_certainty({(d, int(n)): own for (d, _, n), own in rows.items()})

    def truths(self, encoders):
        """Return accuracy, log-loss and ceiling of the completed tasks."""
        tables = super().truths(encoders)
        return [{k: own[k] for k in own if k in self.tasks} for own in tables]

    def scored(self, criterion, encoders):
        tables = super().scored(criterion, encoders)
        return {key: rows for key, rows in tables.items() if key[:2] in self.tasks}

    def choices(self, name, n):
        """Return choices by the code of the first draw, and whether they are right."""
        arrays, y = self.data[name]
        method = "linear" if n <= LINEAR_LABELS else "closed-form"
        rows = np.arange(n)
        losses = [
            [
                Losses(self.stream((f"{method}/{order}", name, n, 0, one)), rows)
                for order in range(n_orders(method, n))
            ]
            for one in arrays
        ]

        def shares(columns):
            sample = sample_of([losses[e] for e in columns])
            return shares_best(sample.draws(np.random.default_rng(0)))

        answers = [
            np.load(self.store.truth_path(name, criteria.class_count(y, n), one))
            for one in arrays
        ]
        truth = agreement.best_of(np.stack(answers)[:, :, 0])
        rng = np.random.default_rng(n)
        return choices_of(shares, self.later(name, n), truth, rng)

    def later(self, name, n):
        """Return nats per label in the first ``n`` rows of longer streams, or None."""
        arrays, y = self.data[name]
        longer = [
            m
            for m in (100, 300)
            if n < m
            and (name, m) in self.tasks
            and criteria.class_count(y, m) == criteria.class_count(y, n)
        ]
        if not longer:
            return None
        return np.array(
            [
                np.mean(
                    [
                        self.stream((f"linear/{order}", name, m, 0, one))[:n].mean()
                        for m in longer
                        for order in range(n_orders("linear", m))
                    ]
                )
                for one in arrays
            ]
        )

    def stream(self, key):
        """Return the nats of every label, in coding order."""
        with np.load(self.store.codes_path(key)) as saved:
            return saved["pooled"].astype(float)[np.argsort(saved["place"])]

    def collect(self):
        """Return the values for the report from the results computed so far."""
        encoders = list(next(iter(self.data.values()))[0])
        scores, seconds = {}, {}
        for title, criterion in CRITERIA.items():
            tables = self.scored(criterion, encoders)
            if not tables:
                continue
            scores[title] = {key: rows[0] for key, rows in tables.items()}
            seconds[title] = {
                n: np.mean(
                    [rows[1].mean() for key, rows in tables.items() if key[1] == n]
                )
                for n in sorted({key[1] for key in tables})
            }
        return Kept(encoders, *self.truths(encoders), scores, seconds)
