"""The verdict of a ranking in words: who wins where, by how much, and who is out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from sklearn_mdl.model_selection._cells import Cell, draw_order
from sklearn_mdl.ranking import pairwise_wilcoxon

if TYPE_CHECKING:
    from sklearn_mdl.model_selection._ranking import RankStatistics

MOST_NAMES = 4  # in a sentence


@dataclass(frozen=True)
class DatasetVerdict:
    """Who has the shortest code on a dataset.

    Attributes
    ----------
    dataset, winner : str
    runner_up : str or None
        The next shortest code; None for a single encoder.
    codelength, margin, half_width : float
        Nats of the winner, those by which it is shorter than the runner-up, and half
        the width of the interval of that margin; NaN if traces are gone.
    not_told_apart, told_apart : list of str
        The other encoders, the shortest code first.
    """

    dataset: str
    winner: str
    runner_up: str | None
    codelength: float
    margin: float
    half_width: float
    not_told_apart: list[str]
    told_apart: list[str]

    def __str__(self) -> str:
        """Return a sentence, with nats rounded to what is known."""
        start = f"{self.dataset}: {self.winner}"
        if self.runner_up is None:
            return f"{start} alone, {self.codelength:.0f} nats"
        share = f"{self.margin / (self.codelength + self.margin):.0%}"
        if math.isnan(self.half_width):
            return (
                f"{start} has the shortest code, by {self.margin:.2g} nats "
                f"({share}) before {self.runner_up}; whether that is chance cannot "
                "be said, since traces of its cells are gone: fit again"
            )
        by = f"{rounded(self.margin, self.half_width)} nats ({share})"
        if not self.not_told_apart:
            return f"{start} wins, by {by} before {self.runner_up}"
        others = f"not told apart from it: {names_of(self.not_told_apart)}"
        if self.runner_up in self.not_told_apart:
            return f"{start} has the shortest code, by {by}, but {others}"
        return (
            f"{start} has the shortest code, by {by} before {self.runner_up}; {others}"
        )


@dataclass(frozen=True)
class Verdict:
    """What a ranking says, in words.

    Attributes
    ----------
    best : str
        The encoder of the best average rank.
    equivalent : list of str
        Encoders that are not told apart from it over all datasets.
    out : list of str
        The others, which are clearly worse.
    datasets : list of DatasetVerdict
    alpha : float
        Probability of a false alarm in each comparison of all others with the best.
    n_needed : int
        Datasets from which on Wilcoxon's test with Holm's correction can tell any
        encoder apart from the best one.
    """

    best: str
    equivalent: list[str]
    out: list[str]
    datasets: list[DatasetVerdict]
    alpha: float
    n_needed: int

    @property
    def has_test(self) -> bool:
        """Whether datasets are enough for a test over them."""
        return len(self.datasets) >= self.n_needed

    def overall(self) -> list[str]:
        """Return sentences on all datasets together; none for one encoder."""
        n_datasets, others = len(self.datasets), [*self.equivalent, *self.out]
        if not others:
            return []
        lines = []
        level = "not told apart from it"
        if self.has_test:
            how = f"Wilcoxon's test, Holm's correction, alpha = {self.alpha:g}"
        else:
            how = "by the rows of these datasets alone"
            level = "shortest, or not told apart from the winner, on some dataset"
            lines.append(self._too_few(n_datasets, len(others)))
        words = [f"overall best by average rank: {self.best}"]
        if self.equivalent:
            words.append(f"{level}: {names_of(self.equivalent)}")
        words.append(f"clearly out: {names_of(self.out) if self.out else 'nobody'}")
        return [f"{'; '.join(words)} ({how})", *lines]

    def _too_few(self, n_datasets: int, n_others: int) -> str:
        least = 2.0 ** (1 - n_datasets)
        text = (
            f"{n_datasets} dataset{'s' * (n_datasets > 1)} cannot show what holds on "
            f"others: Wilcoxon's p cannot fall below {least:.3g}"
        )
        if n_others > 1:
            text += f", {min(1.0, n_others * least):.3g} for {n_others} comparisons"
        return f"{text}; it takes {self.n_needed} datasets"

    def sentences(self) -> list[str]:
        """Return the verdict on all datasets, then that on each of them."""
        return [*self.overall(), *map(str, self.datasets)]

    def __str__(self) -> str:
        """Return the sentences, one to a line."""
        return "\n".join(["Verdict", *(f"  {line}" for line in self.sentences())])

    def record(self) -> dict[str, object]:
        """Return everything as JSON holds it."""
        datasets = [dict(vars(found)) for found in self.datasets]
        return {**vars(self), "datasets": datasets, "sentences": self.sentences()}


def names_of(names: Sequence[str]) -> str:
    """List names, of many only the first ones."""
    names = [repr(name) if "," in name else name for name in names]
    more = len(names) - MOST_NAMES
    if more > 1:
        return f"{', '.join(names[:MOST_NAMES])} and {more} others"
    return ", ".join(names)


def rounded(value: float, error: float) -> str:
    """Return a number and its error, to the digit where the error is 3 to 29.

    >>> rounded(123.456, 7.89), rounded(0.1234, 0.0156), rounded(1234.5, 678.9)
    ('123 ± 8', '0.123 ± 0.016', '1200 ± 700')
    """
    if not error > 0:
        return f"{value:.3g} ± {error:.3g}"
    places = -math.floor(math.log10(error / 3))
    shown = max(0, places)
    return f"{round(value, places):.{shown}f} ± {round(error, places):.{shown}f}"


def verdict_of(ranking: RankStatistics) -> Verdict:
    """Judge a ranking; see ``RankStatistics.verdict``."""
    n_datasets, n_encoders = ranking.codelengths_.shape
    order = np.argsort(ranking.average_ranks_, kind="stable").tolist()
    names = [ranking.encoder_names_[e] for e in order]
    datasets = [_on_dataset(ranking, d) for d in range(n_datasets)]
    n_others = n_encoders - 1
    needed = 1 + math.ceil(math.log2(n_others / ranking.alpha)) if n_others else 1
    if n_others and n_datasets >= needed:
        pairs = [(order[0], e) for e in order[1:]]
        found = pairwise_wilcoxon(ranking.codelengths_, pairs=pairs)
        is_out = (found.adjusted_p_values <= ranking.alpha).tolist()
    else:
        is_out = [all(name in d.told_apart for d in datasets) for name in names[1:]]
    return Verdict(
        best=names[0],
        equivalent=[n for n, o in zip(names[1:], is_out, strict=True) if not o],
        out=[n for n, o in zip(names[1:], is_out, strict=True) if o],
        datasets=datasets,
        alpha=ranking.alpha,
        n_needed=needed,
    )


def _on_dataset(ranking: RankStatistics, d: int) -> DatasetVerdict:
    totals, dataset = ranking.codelengths_[d], ranking.dataset_names_[d]
    order = np.argsort(totals, kind="stable").tolist()
    names = [ranking.encoder_names_[e] for e in order]
    margins = (totals[order] - totals[order[0]]).tolist()
    groups: dict[str, list[Cell]] = {name: [] for name in names}
    for cell in ranking.cells_:
        if cell.dataset == dataset:
            groups[cell.encoder].append(cell)
    halves = _half_widths([groups[name] for name in names], ranking.alpha)
    apart = [margin > half for margin, half in zip(margins, halves, strict=True)]
    others = list(zip(names, apart, strict=True))[1:]
    return DatasetVerdict(
        dataset=dataset,
        winner=names[0],
        runner_up=names[1] if others else None,
        codelength=float(totals[order[0]]),
        margin=margins[1] if others else 0.0,
        half_width=halves[1] if others else 0.0,
        not_told_apart=[name for name, is_apart in others if not is_apart],
        told_apart=[name for name, is_apart in others if is_apart],
    )


def _half_widths(encoders: list[list[Cell]], alpha: float) -> list[float]:
    """Return half widths of the intervals of all margins to the first, which is 0.

    Rows count as a sample: the variance of a sum of paired differences, to which that
    of the mean over orders is added. Bonferroni's correction is for the others, since
    the winner is the best of all of them.
    """
    winner, n_others = encoders[0], len(encoders) - 1
    found, known = [0.0], {}
    for cells in encoders[1:]:
        n_orders = min(len(winner), len(cells))  # that they share
        one, other = winner[:n_orders], cells[:n_orders]
        try:
            if n_orders not in known:
                known[n_orders] = _by_row(one)
            gaps = _by_row(other) - known[n_orders]
        except FileNotFoundError:  # their traces are gone
            return [0.0, *[math.nan] * n_others]
        variance = len(gaps) * float(np.var(gaps, ddof=1))
        if n_orders > 1:
            pairs = zip(other, one, strict=True)
            by_order = [a.codelength - b.codelength for a, b in pairs]
            variance += float(np.var(by_order, ddof=1)) / n_orders
        quantile = float(norm.isf(alpha / (2 * n_others)))
        found.append(quantile * math.sqrt(variance))
    return found


def _by_row(cells: list[Cell]) -> np.ndarray:
    """Return mean codelengths over orders, row by row of the dataset."""
    total = np.zeros(cells[0].n_samples)
    for cell in cells:
        rows = draw_order(cell.seed, cell.order, cell.n_samples)
        total[rows] += cell.codelengths
    mean: np.ndarray = total / len(cells)
    return mean
