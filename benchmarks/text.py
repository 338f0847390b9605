"""Does a number choose the text encoder that will serve best, from few labels?

Like ``choice``, on real texts and targets from the package ``sae-probes`` (0.4.2, MIT),
which is read where it is installed. Ten encoders: latent semantics of words in three
widths and of characters in two, hashed words, static embeddings that ``wordllama``
ships, and three layers of a byte transformer that was trained on other texts. The
datasets kept apart are named in ``text_datasets.json``, every other family of names;
nothing was chosen on either part. "probe AUC" is the best cross-validated ROC AUC of
logistic regressions and neighbours.

    pip install --no-deps sae-probes==0.4.2; pip install zstandard wordllama
    python -m benchmarks text --results text

All values are kept in the folder of results. A run that was ended goes on; the report
is of the datasets that are complete, those kept apart by themselves.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import _text_data as data
from benchmarks._choice_tables import (
    LINEAR_LABELS,
    Kept,
    print_agreement,
    print_by_labels,
)
from benchmarks.choice import (
    CRITERIA as IMAGE_CRITERIA,
    Choice,
    _Store,
    as_text,
    valued,
)

KEPT = Path(__file__).with_suffix(".json")
METHODS = ["linear", "closed-form", "logistic", "neighbors", "LogME", "RankMe", "AUC"]
CRITERIA = {
    name: IMAGE_CRITERIA[name]
    for name in (
        *("linear x 4", "linear x 4, last half", "closed-form x 4"),
        *("logistic accuracy", "logistic log-loss", "neighbours accuracy"),
        *("LogME", "RankMe"),
    )
} | {"probe AUC": partial(valued, method="AUC")}


class Text(Choice):
    """All criteria on datasets of text."""

    options = {
        "--results": {"type": Path, "default": Path("text"), "help": "folder"},
        "--datasets": {"nargs": "*", "default": [], "help": "some (default: all)"},
        "--labels": {"nargs": "*", "type": int, "default": [50, 100, 300]},
        "--rows": {"type": int, "default": 800, "help": "of a dataset, at most"},
        "--draws": {"type": int, "default": 1, "help": "of labels (default: 1)"},
        "--limit": {"type": int, "default": 1000, "help": "of datasets, of each part"},
        "--no-run": {"action": "store_true", "help": "report what is there"},
        "--keep": {"action": "store_true", "help": "write text.json"},
        "--kept": {"action": "store_true", "help": "report text.json, run nothing"},
    }
    methods = METHODS

    def prepare(self):
        if self.kept:
            return
        self.store = _Store(self.results)
        (self.results / "features").mkdir(exist_ok=True)
        parts = data.parts()
        # In turns from both parts, families mixed, so that a short run sees of each.
        order = np.random.default_rng(0)
        mixed = [order.permutation(parts[part])[: self.limit] for part in parts]
        names = [name for pair in zip(*mixed, strict=False) for name in pair]
        self.data, model = {}, None
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
            with np.load(path) as found:
                arrays = {key: found[key] for key in found.files}
            y = arrays.pop("labels")
            self.run_dataset(name, arrays, y)

    def run_dataset(self, name, arrays, y):
        """Run everything on a dataset; it is reported if it is complete."""
        last = METHODS[-1], name, max(self.labels), self.draws - 1, list(arrays)[-1]
        if self.no_run and tuple(map(str, last)) not in self.store.done:
            return
        self.data[name] = arrays, y
        every, self.data = self.data, {name: (arrays, y)}
        self.run_truths()
        for draw in range(0 if self.no_run else self.draws):
            self.run_stage(METHODS, draw)
        self.data = every

    def run_method(self, method, key, X, y):
        # What a ranking takes: linear kernels at few labels, all kernels at many.
        skipped = "closed-form" if len(y) <= LINEAR_LABELS else "linear"
        if method != skipped:
            super().run_method(method, key, X, y)

    def report(self, table):
        text = KEPT.read_text() if self.kept else as_text(self.collect().to_json())
        if self.keep:
            KEPT.write_text(text)
        kept = Kept.from_json(json.loads(text)).with_ranking()
        labels = sorted({n for _, n in kept.accuracy})
        there = {name for name, _ in kept.accuracy}
        for title, names in data.parts().items():
            found = [name for name in names if name in there]
            if found:
                ones = print_agreement(kept, title, found, labels, kept.accuracy)
                print_by_labels(ones, "regret in accuracy", "regret", labels)

    def collect(self):
        """Gather what the report needs from the results that are there."""
        encoders = list(next(iter(self.data.values()))[0])
        scores, seconds = {}, {}
        for title, criterion in CRITERIA.items():
            found = self.scored(criterion, encoders)
            if not found:
                continue
            scores[title] = {key: rows[0] for key, rows in found.items()}
            seconds[title] = {
                n: np.mean(
                    [rows[1].mean() for key, rows in found.items() if key[1] == n]
                )
                for n in sorted({key[1] for key in found})
            }
        return Kept(encoders, *self.truths(encoders), scores, seconds)
