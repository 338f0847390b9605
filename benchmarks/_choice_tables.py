"""Tables of the benchmark ``choice``: the saved values, and the printed summaries."""

from typing import NamedTuple

import numpy as np

from benchmarks import _agreement as agreement
from sklearn_mdl.model_selection._representation_scorer import LINEAR_LABELS

WIDTH = 37  # characters of the column of criteria
PROBE_LABELS = 1000  # labels at which accuracy has the same weight as nats per label
# We chose settings on these datasets, and report the others separately.
CHOSEN_ON = ("caltech101", "gtsrb", "pneumonia")


class Kept(NamedTuple):
    """Values that the tables need.

    Attributes
    ----------
    encoders : list of str
    accuracy, log_loss : dict of (str, int) to ndarray of shape (n_encoders,)
        Reference scores keyed by dataset and number of labels; greater is better.
    ceiling : dict of (str, int) to float
        Tau of the reference scores on two halves of the held-out rows.
    scores : dict of str to dict of (str, int, int) to ndarray of shape (n_encoders,)
        Keyed by criterion, then by dataset, number of labels and draw.
    seconds : dict of str to dict of int to float
        Mean CPU seconds per encoder, keyed by criterion and number of labels.
    """

    encoders: list
    accuracy: dict
    log_loss: dict
    ceiling: dict
    scores: dict
    seconds: dict

    def to_json(self):
        """Return values that ``json`` can write, rounded to five digits."""
        return {
            "encoders": self.encoders,
            **{name: _written(getattr(self, name)) for name in self._fields[1:4]},
            "scores": {name: _written(table) for name, table in self.scores.items()},
            "seconds": {name: _written(table) for name, table in self.seconds.items()},
        }

    @classmethod
    def from_json(cls, values):
        """Rebuild the values from the result of :meth:`to_json`."""
        return cls(
            values["encoders"],
            *(_read(values[name]) for name in cls._fields[1:4]),
            {name: _read(table) for name, table in values["scores"].items()},
            {name: _read(table) for name, table in values["seconds"].items()},
        )

    def beside(self, scores):
        """Return a copy with more scores, and with new criteria first."""
        added = [name for name in scores if name not in self.scores]
        both = {
            name: {**self.scores.get(name, {}), **scores.get(name, {})}
            for name in [*added, *self.scores]
        }
        return self._replace(scores=both)

    def with_ranking(self):
        """Return a copy with the criteria "ranking" and "ranking and probe"."""
        try:
            few, many = self.scores["linear x 4"], self.scores["closed-form x 4"]
        except KeyError:  # these lists have not been run
            return self
        tables = {n: few if n <= LINEAR_LABELS else many for _, n, _ in [*few, *many]}
        ours = {
            key: scores
            for n, table in tables.items()
            for key, scores in table.items()
            if key[1] == n
        }
        right = self.scores.get("logistic accuracy", {})
        both = {
            key: ours[key] + key[1] / PROBE_LABELS * right[key]
            for key in ours.keys() & right.keys()
        }
        added = {"ranking": ours, "ranking and probe": both}
        return self._replace(scores={**added, **self.scores})


def _written(table):
    return {
        " ".join(map(str, key if isinstance(key, tuple) else (key,))): _rounded(value)
        for key, value in table.items()
    }


def _rounded(value):
    if isinstance(value, np.ndarray):
        return [_rounded(float(one)) for one in value]
    return float(f"{value:.5g}")


def _read(table):
    nested = {}
    for text, value in table.items():
        key = tuple(int(part) if part.isdigit() else part for part in text.split())
        nested[key if len(key) > 1 else key[0]] = (
            np.array(value) if isinstance(value, list) else value
        )
    return nested


class Summary(NamedTuple):
    """Means of one criterion over datasets, for each draw and number of labels.

    Attributes
    ----------
    tau, regret, better : ndarray of shape (n_draws, n_labels)
    """

    tau: np.ndarray
    regret: np.ndarray
    better: np.ndarray


def summarise(table, truth, datasets, labels):
    """Summarise the draws that have scores for all datasets and numbers of labels."""
    draws = sorted({draw for _, _, draw in table})
    whole = [
        draw
        for draw in draws
        if all((name, n, draw) in table for name in datasets for n in labels)
    ]
    measures = (agreement.tau, agreement.regret, agreement.better_named)
    return Summary(
        *(
            np.array(
                [
                    [
                        np.mean(
                            [
                                measure(table[name, n, draw], truth[name, n])
                                for name in datasets
                            ]
                        )
                        for n in labels
                    ]
                    for draw in whole
                ]
            ).reshape(len(whole), len(labels))
            for measure in measures
        )
    )


def print_agreement(kept, title, datasets, labels, truth):
    """Print a line per criterion: tau at each number of labels, means, and draws.

    The means are over all numbers of labels, and only use draws with scores for all of
    them. The draws are counted at each number of labels.

    Returns
    -------
    summaries : dict of str to list of Summary
        Keyed by criterion, one for each number of labels.
    """
    print(f"\n{title}: {', '.join(datasets)}")
    heads = [*map(str, labels), "mean", "regret", "better"]
    titles = "".join(f"{head:>16}" for head in heads)
    print(f"{'tau at labels':{WIDTH}}{titles}  draws")
    if truth is kept.accuracy:
        tops = [np.mean([kept.ceiling[name, n] for name in datasets]) for n in labels]
        cells = [f"{top:.3f}" for top in [*tops, np.mean(tops)]]
        print(f"{'ceiling':{WIDTH}}" + "".join(f"{cell:>16}" for cell in cells))
    summaries = {}
    for name, table in kept.scores.items():
        ones = [summarise(table, truth, datasets, [n]) for n in labels]
        cells = [_with_interval(one.tau.mean(1)) for one in ones]
        whole = summarise(table, truth, datasets, labels)
        cells.append(_with_interval(whole.tau.mean(1)))
        cells.append(_with_interval(whole.regret.mean(1), 4))
        cells.append(_with_interval(whole.better.mean(1)))
        draws = "/".join(str(len(one.tau)) for one in ones)
        print(f"{name:{WIDTH}}{''.join(f'{cell:>16}' for cell in cells)}  {draws}")
        summaries[name] = ones
    return summaries


def _with_interval(values, digits=3):
    if len(values) == 0:
        return "-"
    half = agreement.interval(values)
    text = f"{np.mean(values):.{digits}f}"
    return text if np.isnan(half) else f"{text} ±{half:.{digits}f}"


def print_by_labels(summaries, title, field, labels):
    """Print one measure at each number of labels: means over datasets and draws."""
    print(f"\n{title}, at labels")
    print(" " * WIDTH + "".join(f"{n:>16}" for n in labels))
    for name, ones in summaries.items():
        cells = [_with_interval(getattr(one, field).mean(1), 4) for one in ones]
        print(f"{name:{WIDTH}}" + "".join(f"{cell:>16}" for cell in cells))


def print_seconds(kept, labels):
    """Print CPU seconds per encoder, and their ratio to those of the tuned probe."""
    print("\nCPU seconds per encoder, and as a share of the linear probe's")
    print(" " * WIDTH + "".join(f"{n:>15}" for n in labels))
    base = kept.seconds["logistic accuracy"]
    for name, table in kept.seconds.items():
        cells = [
            f"{table[n]:7.2f} ({table[n] / base[n]:5.2f})" if n in table else ""
            for n in labels
        ]
        print(f"{name:{WIDTH}}" + "".join(f"{cell:>15}" for cell in cells).rstrip())


def print_tables(kept):
    """Print all tables."""
    kept = kept.with_ranking()
    labels = sorted({n for _, n in kept.accuracy})
    datasets = sorted({name for name, _ in kept.accuracy})
    others = [name for name in datasets if name not in CHOSEN_ON]
    chosen = [name for name in datasets if name in CHOSEN_ON]
    parts = {"all": datasets}
    if chosen and others:
        parts |= {"settings chosen on": chosen, "apart from these": others}
    for title, names in parts.items():
        summaries = print_agreement(kept, title, names, labels, kept.accuracy)
        if names is datasets:
            print_by_labels(summaries, "regret in accuracy", "regret", labels)
            title = "probability that the better of two is picked"
            print_by_labels(summaries, title, "better", labels)
    title = "all, reference score by log-loss"
    print_agreement(kept, title, datasets, labels, kept.log_loss)
    print_seconds(kept, labels)
