"""Tables of the benchmark ``text``: the ranking, its variants, rivals and certainty."""

from itertools import chain
from typing import NamedTuple

import numpy as np

from benchmarks import _agreement as agreement
from benchmarks._choice_tables import LINEAR_LABELS, WIDTH

MEASURES = {
    "tau": agreement.tau,
    "regret in accuracy": agreement.regret,
    "probability that the better of two is picked": agreement.better_named,
}
OURS, LATE, PRIOR = "ranking", "ranking, last half", "ranking and RankMe"
BOTH = "ranking and probe"
PRIOR_SHARE = 0.5  # best on the images of the benchmark choice
BANDS = ((0.5, 0.7), (0.7, 0.85), (0.85, 0.95), (0.95, 1.01))


def with_rules(kept):
    """Put the ranking and its variants first, and omit single lists of readouts."""
    few = kept.scores["linear x 4, last half"]
    many = kept.scores["closed-form x 4, last half"]
    late = {key: few[key] for key in few if key[1] <= LINEAR_LABELS}
    late |= {key: many[key] for key in many if key[1] > LINEAR_LABELS}
    ours, rank = kept.scores[OURS], kept.scores["RankMe"]
    prior = {
        key: _standard(codes)
        + PRIOR_SHARE * np.sqrt(50 / key[1]) * _standard(rank[key])
        for key, codes in ours.items()
    }
    added = {OURS: ours, BOTH: kept.scores[BOTH], LATE: late, PRIOR: prior}
    lists = ("linear x 4", "closed-form x 4")
    others = {n: t for n, t in kept.scores.items() if not n.startswith(lists)}
    return kept._replace(scores={**added, **others})


def _standard(scores):
    deviation = scores.std()
    return (scores - scores.mean()) / (deviation if deviation > 0 else 1.0)


class Values(NamedTuple):
    """Values of one measure for every criterion on the datasets of a part.

    Attributes
    ----------
    labels : list of int
    found : dict of str to ndarray of shape (n_datasets, n_labels)
        Keyed by criterion; NaN if the criterion has not been run.
    """

    labels: list
    found: dict

    @classmethod
    def of(cls, kept, measure, datasets, labels):
        """Compute the measure for all criteria on the first draw."""
        tables = {
            name: np.array(
                [
                    [
                        measure(table[d, n, 0], kept.accuracy[d, n])
                        if (d, n, 0) in table
                        else np.nan
                        for n in labels
                    ]
                    for d in datasets
                ]
            )
            for name, table in kept.scores.items()
        }
        return cls(labels, tables)

    def columns(self, rows):
        """Return values at each number of labels, and the means of complete rows."""
        whole = rows[~np.isnan(rows).any(1)]
        every = [rows[:, k] for k in range(len(self.labels))]
        return [*(one[~np.isnan(one)] for one in every), whole.mean(1)]


def print_parts(kept, parts):
    """Print every measure on every part, and paired differences of tau and regret."""
    labels = sorted({n for _, n in kept.accuracy})
    there = {name for name, _ in kept.accuracy}
    own = {title: [n for n in names if n in there] for title, names in parts.items()}
    own = {title: names for title, names in own.items() if names}
    for part, names in {**own, "all": [*chain(*own.values())]}.items():
        counts = [sum((d, n) in kept.accuracy for d in names) for n in labels]
        print(f"\n{part}: {'/'.join(map(str, counts))} datasets at {labels} labels")
        for title, measure in MEASURES.items():
            values = Values.of(kept, measure, names, labels)
            _print_means(title, values, part)
            if not title.startswith("prob"):
                _print_differences(title, values, part)


def _print_heads(title, labels):
    heads = [*map(str, labels), "mean"]
    print(f"\n{title:{WIDTH}}" + "".join(f"{head:>17}" for head in heads))


def _print_means(title, values, part):
    _print_heads(f"{part}: {title}", values.labels)
    for name, rows in values.found.items():
        cells = "".join(f"{own.mean():17.4f}" for own in values.columns(rows))
        print(f"{name:{WIDTH}}{cells}")


def _print_differences(title, values, part):
    _print_heads(f"{part}: {title}, {OURS} minus", values.labels)
    for name, rows in values.found.items():
        if name != OURS:
            own = values.columns(values.found[OURS] - rows)
            cells = [f"{d.mean():+.4f} ±{agreement.interval(d):.4f}" for d in own]
            print(f"{name:{WIDTH}}" + "".join(f"{cell:>17}" for cell in cells))


def print_disagreements(kept):
    """Print where the whole code and its last half pick different winners."""
    print("\nDatasets where the whole code and its last half pick different winners")
    for n in sorted({n for _, n in kept.accuracy}):
        keys = [key for key in kept.scores[OURS] if key[1] == n]
        gains = []
        for key in keys:
            whole, late = (kept.scores[name][key].argmax() for name in (OURS, LATE))
            if whole != late:
                truth = kept.accuracy[key[:2]]
                gains.append(truth[late] - truth[whole])
        if gains:
            better, worse = (np.array(gains) > 0).sum(), (np.array(gains) < 0).sum()
            print(
                f"{n:>5} labels: {len(gains)} of {len(keys)} datasets; more accurate "
                f"{better}, less {worse}; accuracy {np.mean(gains):+.4f} "
                f"±{agreement.interval(gains):.4f}"
            )


def choices_of(shares_of, fresh, truth, rng, n_subsets=12):
    """Return choices among all encoders and random subsets, and whether each is right.

    Parameters
    ----------
    shares_of : callable
        Maps the columns of some encoders to the probability that each is best.
    fresh : ndarray of shape (n_encoders,) or None
        Nats per label on other draws with as many labels, or None if there are none.
    truth : ndarray of shape (n_encoders,)
        Reference scores.

    Returns
    -------
    rows : list of [said, right, lost]
        Stated probability of the choice; whether it has the shortest fresh code (1 or
        0, and -1 if unknown); accuracy lost.
    """
    n = len(truth)
    subsets = [rng.choice(n, 2 + k % 4, replace=False) for k in range(n_subsets)]
    rows = []
    for columns in [np.arange(n), *map(np.sort, subsets)]:
        shares = shares_of(columns)
        best = int(shares.argmax())
        right = -1 if fresh is None else int(fresh[columns].argmin() == best)
        lost = float(truth[columns].max() - truth[columns[best]])
        rows.append([float(shares[best]), right, lost])
    return rows


def print_certainty(choices):
    """Print how many choices are right, by their stated probability.

    Parameters
    ----------
    choices : dict of (str, int) to list of [said, right, lost]
        Results of :func:`choices_of`, keyed by dataset and number of labels.
    """
    print("\nChoices among all encoders and random subsets, by stated probability")
    for n in [*sorted({n for _, n in choices}), 0]:
        groups = [np.array(own) for (_, m), own in choices.items() if n in (0, m)]
        for low, high in BANDS:
            inside = [g[(g[:, 0] >= low) & (g[:, 0] < high)] for g in groups]
            rows = np.concatenate(inside)
            if len(rows) == 0:
                continue
            line = f"{n or 'all':>5} labels, {low} to {min(high, 1)}: {len(rows):4} "
            line += f"stated {rows[:, 0].mean():.3f}"
            judged = [own[own[:, 1] >= 0] for own in inside]
            if sum(map(len, judged)):
                line += f", right on fresh labels {_share(judged)}"
            later = (rows[:, 2] == 0).mean()
            line += f", most accurate later {later:.3f}, lost {rows[:, 2].mean():.4f}"
            print(line)


def _share(groups):
    """Return the share of right choices, with a 90 % interval over datasets."""
    counts = np.array([[own[:, 1].sum(), len(own)] for own in groups])
    rng = np.random.default_rng(0)
    totals = counts[rng.integers(0, len(counts), (1000, len(counts)))].sum(1)
    low, high = np.quantile(totals[:, 0] / np.maximum(totals[:, 1], 1), [0.05, 0.95])
    right, n = counts.sum(0)
    return f"{right / n:.3f} [{low:.3f}, {high:.3f}] of {n:.0f}"
