"""Verdicts in words, with winners, margins, ties and clearly worse encoders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, compress

import numpy as np
from scipy.stats import rankdata

from sklearn_mdl.model_selection._cell_arrays import CellArrays
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._certainty import ROUNDING, Floats, Sample
from sklearn_mdl.ranking import pairwise_wilcoxon, shares_best

MOST_NAMES = 4  # maximum number of names in a sentence
# With one order and fewer than FEW_LABELS labels per class, false alarms can exceed
# alpha (python -m benchmarks certainty nulls --separated) if there are MANY_CLASSES, or
# if labels cost at most RARE times as much as with equally frequent classes.
MANY_CLASSES, RARE, FEW_LABELS = 5, 0.5, 50
ONE_ORDER = (
    "With one order and few labels or groups per class, false alarms can be more "
    "frequent than alpha if classes are well separated; pass n_orders=4 (--n-orders 4) "
    "and, if time ran out, a larger time_budget (--time-budget)."
)
NO_GAIN = " No code is shorter than both the uniform code and that of the labels alone."
MISSING = (
    "The difference cannot be tested. If losses of single examples are missing, fit "
    "again; otherwise, all rows are in one group, so add rows of other groups."
)


@dataclass(frozen=True)
class Best:
    """The best of the given encoders, and the probability that it is best.

    The best encoder on a dataset has the shortest expected code over fresh draws of
    equal size from the same source. The best encoder over several datasets has the best
    average rank by expected codelength. The probability of being best only refers to
    the given datasets. For conclusions about other datasets, see the tests over
    datasets.

    Attributes
    ----------
    encoder : str
        The encoder with the shortest code or the best average rank.
    probability : float
        Probability that this encoder is best, or NaN if losses of single examples are
        missing or all rows are in one group.
    probabilities : dict of str to float
        Probability that each encoder is best. These probabilities sum to one, or are
        all NaN.
    ties : list of str
        Encoders that are not significantly worse than `encoder`.
    rival : str or None
        The most probable other encoder, or None for a single encoder.
    more_labels : float or None
        Estimated number of further labels that would settle the choice with a
        probability of 0.95. This assumes that the differences from all other encoders
        continue to grow as in the second half of the stream, and that the probabilities
        of these encoders shrink by the same factor. 0 if the choice is settled.
        Infinite if a hundred times as many labels would hardly suffice, as for encoders
        with equal losses. NaN if it is too early to tell, as with fewer than 40 rows
        (or groups of rows). None for several datasets or a single encoder.
    last_rival : str or None
        The other encoder against which most labels are needed, or None as above.
    dataset : str or None
        Name of the dataset, or None for several datasets.
    may_exceed_alpha : bool
        True if `DatasetVerdict.may_exceed_alpha` is True on this dataset or, over
        several datasets, on any of them.
    """

    encoder: str
    probability: float
    probabilities: dict[str, float]
    ties: list[str]
    rival: str | None
    more_labels: float | None = None
    last_rival: str | None = None
    dataset: str | None = None
    may_exceed_alpha: bool = False

    def certainty(self) -> str:
        """Return a clause about the probability, or "" if it is unknown."""
        if self.rival is None or math.isnan(self.probability):
            return ""
        where = "" if self.dataset else "on these datasets "
        return f"; {where}it is best with probability {chance_text(self.probability)}"

    def forecast(self) -> str:
        """Return a sentence on how many more labels are needed.

        If the choice is settled or nothing is known about it, return "".
        """
        if not self.more_labels or math.isnan(self.probability):
            return ""
        rival = self.last_rival if self.ties[1:] else None
        return f" {outlook(self.more_labels, rival)}"

    def __str__(self) -> str:
        """Return a line on the choice, and a line on ties, labels and orders."""
        what = "the shortest code" if self.dataset else "the best average rank"
        first = f"{self.encoder} has {what}{self.certainty()}."
        if self.rival is not None and math.isnan(self.probability):
            return f"{first}\n{MISSING}"
        ties = f"Not significantly worse: {names_of(self.ties)}." if self.ties else ""
        caution = f" {ONE_ORDER}" * self.may_exceed_alpha
        second = f"{ties}{self.forecast()}{caution}".strip()
        return f"{first}\n{second}".strip()


@dataclass(frozen=True)
class DatasetVerdict:
    """The encoder with the shortest code on a dataset.

    Attributes
    ----------
    dataset, winner : str
    runner_up : str or None
        The encoder with the next shortest code, or None for a single encoder.
    codelength, margin, half_width : float
        Codelength of the winner, its margin over the runner-up, and half the width of
        the margin's confidence interval, in nats. The interval has the level at which
        Holm's procedure compares this pair. `half_width` is NaN if losses of single
        examples are missing or all rows are in one group.
    share : float
        Margin as a share of the runner-up's codelength, or NaN for real-valued labels.
    ties, worse : list of str
        Other encoders that are not significantly worse than the winner, and encoders
        that are. Both lists are sorted by codelength.
    best : Best
        The winner, with the probability that it is best.
    may_exceed_alpha : bool
        True if encoders are called worse, but false alarms can be more frequent than
        `Verdict.alpha`. This is so with one order, fewer than 50 labels (or groups) per
        class, and either five or more classes or very unequal class frequencies. The
        more unequal the frequencies, the less each label counts.
    has_gain : bool
        True if the winner's code is shorter than the uniform code and the code of the
        labels alone.
    """

    dataset: str
    winner: str
    runner_up: str | None
    codelength: float
    margin: float
    half_width: float
    share: float
    ties: list[str]
    worse: list[str]
    best: Best
    may_exceed_alpha: bool = False
    has_gain: bool = True

    def sentences(self) -> list[str]:
        """Return sentences on the winner and its margin, then on ties with it."""
        gain = "" if self.has_gain else NO_GAIN
        if self.runner_up is None:
            code = f"{self.codelength:.0f} nats"
            return [f"{self.winner}, the only encoder ranked: {code}.{gain}"]
        share = "" if math.isnan(self.share) else f" ({self.share:.0%})"
        by = f"{rounded(self.margin, self.half_width)} nats{share}"
        start = f"{self.winner} has the shortest code, {by} shorter than that of "
        start += f"{self.runner_up}{self.best.certainty()}.{gain}"
        if math.isnan(self.half_width):
            return [start, MISSING]
        if not self.ties:
            return [start, "All other codes are significantly longer."]
        ties = f"Not significantly longer: {names_of(self.ties)}."
        return [start, ties + self.best.forecast()]

    def __str__(self) -> str:
        """Return the dataset's name, the sentences and any caution in one line."""
        caution = f" {ONE_ORDER}" * self.may_exceed_alpha
        return f"{self.dataset}: {' '.join(self.sentences())}{caution}"


@dataclass(frozen=True)
class Verdict:
    """The winner of a ranking, ties with the winner, and clearly worse encoders.

    Use ``print(verdict)`` to show sentences.

    Attributes
    ----------
    best : str
        The encoder with the best average rank.
    equivalent : list of str
        Other encoders that are not in `out`.
    out : list of str
        Encoders that are significantly worse than `best`, in Wilcoxon's test over
        datasets or, if there are too few datasets for it, on every dataset.
    datasets : list of DatasetVerdict
    alpha : float
        Largest probability that any encoder is called worse although it is as good as
        the winner. This bound holds separately on each dataset and over datasets, and
        takes all pairs of encoders into account, since the winner is chosen from the
        same labels. With few labels, one order may exceed it (see
        `DatasetVerdict.may_exceed_alpha`).
    n_needed : int
        Smallest number of datasets for which Wilcoxon's test can find a difference,
        after Holm's correction for all pairs.
    answer : Best
        The best encoder on these datasets, with the probability that it is best.
    ranks : dict of str to float
        Average rank of every encoder.
    n_shortest : int
        Number of datasets on which no code is shorter than that of `best`.
    eliminated : list of str
        Encoders that were eliminated before the ranking, and so are not ranked.
    """

    best: str
    equivalent: list[str]
    out: list[str]
    datasets: list[DatasetVerdict]
    alpha: float
    n_needed: int
    answer: Best
    ranks: dict[str, float]
    n_shortest: int
    eliminated: list[str]

    @property
    def has_test(self) -> bool:
        """True if there are enough datasets for a test over datasets."""
        return len(self.datasets) >= self.n_needed

    def overall(self) -> list[str]:
        """Return the answer as one or two lines of text."""
        n_datasets, n_encoders = len(self.datasets), len(self.ranks)
        if n_datasets == 1:
            lines = self.datasets[0].sentences()
        elif n_encoders == 1:
            lines = [f"{self.best}, the only encoder ranked, on {n_datasets} datasets."]
        else:
            lines = [self._by_rank(), self._others()]
        if self.answer.may_exceed_alpha:
            lines[-1] += f" {ONE_ORDER}"
        if self.eliminated:
            lines[0] += f" Eliminated before ranking: {names_of(self.eliminated)}."
        return lines

    def _by_rank(self) -> str:
        wins = f"{self.n_shortest} of {len(self.datasets)} datasets"
        best_rank = self.ranks[self.best]
        tied = [name for name, rank in self.ranks.items() if rank == best_rank][1:]
        shared = f", tied with {names_of(tied)}," if tied else ","
        start = f"{self.best} has the best average rank, {best_rank:.1f} of "
        start += f"{len(self.ranks)}{shared} and the shortest code on {wins}"
        return f"{start}{self.answer.certainty()}."

    def _others(self) -> str:
        if not self.has_test:
            out = names_of(self.out) or "no encoder"
            few = f"{len(self.datasets)} datasets are too few to generalise to others"
            return (
                f"Significantly worse than the winner on every dataset: {out}. "
                f"{few}; use at least {self.n_needed}."
            )
        how = f"Wilcoxon's test, Holm's correction, alpha = {self.alpha:g}"
        if not self.equivalent:
            return f"All other encoders are significantly worse ({how})."
        return f"Not significantly worse: {names_of(self.equivalent)} ({how})."

    def sentences(self) -> list[str]:
        """Return the lines of `overall`, then a line for each of several datasets."""
        # `overall` has the caution of all datasets.
        parts = [replace(part, may_exceed_alpha=False) for part in self.datasets]
        return self.overall() + [str(part) for part in parts if parts[1:]]

    def __str__(self) -> str:
        """Return the sentences, one in each line."""
        return "\n".join(["Verdict", *(f"  {line}" for line in self.sentences())])

    def record(self) -> dict[str, object]:
        """Return a dictionary of all attributes and the sentences, for JSON."""
        return {**asdict(self), "sentences": self.sentences()}


def names_of(names: Sequence[str]) -> str:
    """Return names as text. Of six or more, name the first four and count the rest."""
    names = [repr(name) if "," in name else name for name in names]
    more = len(names) - MOST_NAMES
    if more > 1:
        return f"{', '.join(names[:MOST_NAMES])} and {more} others"
    return ", ".join(names)


def rounded(value: float, error: float) -> str:
    """Return a number ± its error, rounded to one or two digits of the error.

    If the error is NaN, only return the number, rounded to two digits. Errors of less
    than 0.001 count as zero.

    >>> rounded(123.456, 7.89), rounded(0.1234, 0.0156), rounded(1234.5, 678.9)
    ('123 ± 8', '0.123 ± 0.016', '1200 ± 700')
    >>> rounded(183.5, math.nan)
    '180'
    """
    if math.isnan(error):
        return f"{float(f'{value:.2g}'):.12g}"
    if error < ROUNDING:
        return f"{round(value, 3) + 0.0:.12g} ± 0"
    places = -math.floor(math.log10(error / 3))
    shown = max(0, places)
    value = round(value, places) + 0.0  # adding zero makes -0 a 0
    return f"{value:.{shown}f} ± {round(error, places):.{shown}f}"


def outlook(more: float, rival: str | None = None) -> str:
    """Return a sentence on how many more labels would settle a choice."""
    if math.isnan(more):
        return "It is too early to tell how many more labels would settle it."
    if math.isinf(more):
        against = f" against {rival}" * bool(rival)
        return f"A hundred times as many labels would not settle it{against}."
    more = max(1.0, float(f"{more:.1g}"))
    return f"About {more:,.0f} more label{'s' * (more > 1)} would settle it."


def chance_text(probability: float) -> str:
    """Return a probability with two decimals, but never 1.00."""
    return "over 0.99" if probability >= 0.995 else f"{probability:.2f}"


def verdict_of(ranking: CellArrays) -> Verdict:
    """Return the verdict of a ranking (see ``RankStatistics.verdict``)."""
    n_datasets = len(nats := ranking.codelengths_)
    order = np.argsort(ranking.average_ranks_, kind="stable").tolist()
    names = [ranking.encoder_names_[e] for e in order]
    rng, samples = np.random.default_rng(0), list(ranking.codelength_samples_)
    draws = [sample.draws(rng) for sample in samples]
    shares = map(shares_best, draws)
    saved = np.minimum(*map(ranking.savings_per_example, ("uniform", "labels")))
    parts = zip(ranking.first_cells_, samples, shares, saved.max(1), strict=True)
    datasets = [_on_dataset(ranking, *part) for part in parts]
    ranks = np.sum([rankdata(draw, axis=1) for draw in draws], axis=0)
    # Correct for all pairs, since the best encoder is chosen on the same datasets. The
    # first pairs are those with the best encoder.
    pairs = list(combinations(order, 2))
    needed = 1 + math.ceil(math.log2(len(pairs) / ranking.alpha)) if pairs else 1
    if pairs and n_datasets >= needed:
        tests = pairwise_wilcoxon(ranking.positive_codelengths_, pairs=pairs)
        # The best encoder by rank may still be worse in this test, which uses ratios.
        is_longer = np.greater(*tests.rank_sums.T)
        is_out = (tests.adjusted_p_values <= ranking.alpha) & is_longer
    else:
        longer = [sample.is_longer(ranking.alpha)[order[0]] for sample in samples]
        is_out = np.all(longer, axis=0)[order[1:]]
    out = list(compress(names[1:], is_out))
    equivalent = [name for name in names[1:] if name not in out]
    unsure = any(dataset.may_exceed_alpha for dataset in datasets)
    overall = _best(names, shares_best(ranks)[order], equivalent, unsure)
    return Verdict(
        best=names[0],
        equivalent=equivalent,
        out=out,
        datasets=datasets,
        alpha=ranking.alpha,
        n_needed=needed,
        answer=datasets[0].best if n_datasets == 1 else overall,
        ranks=dict(zip(names, ranking.average_ranks_[order].tolist(), strict=True)),
        n_shortest=int((nats[:, order[0]] == nats.min(1)).sum()),
        eliminated=[*getattr(ranking, "eliminated_", ())],
    )


def _best(names: list[str], shares: Floats, ties: list[str], unsure: bool) -> Best:
    """Return the first of the names as the best encoder, with its probability."""
    return Best(
        encoder=names[0],
        probability=float(shares[0]),
        probabilities=dict(zip(names, shares.tolist(), strict=True)),
        ties=ties,
        rival=names[1 + int(np.argmax(shares[1:]))] if len(names) > 1 else None,
        may_exceed_alpha=unsure,
    )


def _on_dataset(
    ranking: CellArrays, first: Cell, sample: Sample, shares: Floats, saved: float
) -> DatasetVerdict:
    totals = sample.codelengths
    order = np.argsort(totals, kind="stable").tolist()
    names = [ranking.encoder_names_[e] for e in order]
    margins = (totals[order] - totals[order[0]]).tolist()
    # Correct for all pairs, since the winner is chosen from the same labels.
    halves = sample.least_significant(ranking.alpha)[order[0], order].tolist()
    worse = list(compress(names, sample.is_longer(ranking.alpha)[order[0], order]))
    ties = [name for name in names[1:] if name not in worse]
    unsure = bool(worse) and _has_few_labels(first, len(sample.by_order))
    best = replace(_best(names, shares[order], ties, unsure), dataset=first.dataset)
    if names[1:]:
        more, last = sample.settled_last(order[0], shares)
        best = replace(best, more_labels=more, last_rival=ranking.encoder_names_[last])
    # Codelengths of real labels depend on the unit and may be negative, so shares are
    # meaningless.
    has_share = names[1:] and not first.is_real
    return DatasetVerdict(
        dataset=first.dataset,
        winner=names[0],
        runner_up=names[1] if names[1:] else None,
        codelength=float(totals[order[0]]),
        margin=margins[1] if names[1:] else 0.0,
        half_width=halves[1] if names[1:] else 0.0,
        share=margins[1] / float(totals[order[1]]) if has_share else math.nan,
        ties=ties,
        worse=worse,
        best=best,
        may_exceed_alpha=unsure,
        has_gain=not saved <= 0,
    )


def _has_few_labels(cell: Cell, n_orders: int) -> bool:
    """Return True if there is one order, and few labels of many or rare classes."""
    if n_orders > 1 or cell.is_real:
        return False
    # Number of labels with equally frequent classes that would cost as many nats.
    n_balanced = cell.frequency / np.log(cell.n_classes)
    is_hard = cell.n_classes >= MANY_CLASSES or n_balanced <= RARE * cell.n_samples
    share = len(cell.starts) / cell.n_samples
    return bool(is_hard and n_balanced * share < FEW_LABELS * cell.n_classes)
