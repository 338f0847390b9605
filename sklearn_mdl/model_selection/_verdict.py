"""The verdict of a ranking in words: who wins where, by how much, and who is out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.stats import rankdata

from sklearn_mdl.model_selection._cell_arrays import CellArrays
from sklearn_mdl.model_selection._certainty import Floats, Sample, chances_of_best
from sklearn_mdl.ranking import pairwise_wilcoxon

MOST_NAMES = 4  # in a sentence
SURE = 0.95  # the probability at which a choice is settled


@dataclass(frozen=True)
class Best:
    """Which encoder is the best of those given, and how sure that is.

    The best on a dataset is that of the shortest code in the mean over fresh draws of
    as many labels, from where these came. The best over datasets has the best average
    rank of such means, on these datasets: what holds on others, tests over datasets
    say.

    Attributes
    ----------
    encoder : str
        The choice: the shortest code, or the best average rank.
    probability : float
        That it is the best; NaN if traces of cells are gone.
    probabilities : dict of str to float
        Of every encoder; they add up to one.
    ties : list of str
        Encoders that are not told apart from it.
    rival : str or None
        The most probable of the others; None for a single encoder.
    more_labels : float or None
        Labels beyond those given that would settle it against the rival, so that a
        probability of 0.95 is left if the others keep their shares, and if the
        difference goes on growing as in the later half; 0 if it is settled, infinity
        if a hundred times as many labels would not do. None over several datasets.
    dataset : str or None
        None over several datasets.
    """

    encoder: str
    probability: float
    probabilities: dict[str, float]
    ties: list[str]
    rival: str | None
    more_labels: float | None
    dataset: str | None

    def certainty(self) -> list[str]:
        """Return how sure it is and what would settle it, in words; maybe nothing."""
        if self.rival is None or math.isnan(self.probability):
            return []
        n_encoders = len(self.probabilities)
        words = [f"best of {n_encoders} with probability {_chance(self.probability)}"]
        if self.dataset is not None and not self.probability >= SURE:
            words.append(self._outlook())
        return words

    def _outlook(self) -> str:
        if self.more_labels == math.inf:
            start = "a hundred times as many labels would not settle it"
            return f"{start} against {self.rival}"
        more = max(1.0, float(f"{self.more_labels:.1g}"))
        return f"about {more:.0f} more label{'s' * (more > 1)} would settle it"

    def sentences(self) -> list[str]:
        """Return the choice, its certainty and the ties, in words."""
        start = f"best on {self.dataset}" if self.dataset else "best average rank"
        lines = ["; ".join([f"{start}: {self.encoder}", *self.certainty()])]
        if self.ties:
            lines.append(f"not told apart from it: {names_of(self.ties)}")
        return lines

    def __str__(self) -> str:
        """Return the sentences, one to a line."""
        return "\n".join(self.sentences())


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
    best : Best
        How sure it is that the winner is best.
    """

    dataset: str
    winner: str
    runner_up: str | None
    codelength: float
    margin: float
    half_width: float
    not_told_apart: list[str]
    told_apart: list[str]
    best: Best

    def __str__(self) -> str:
        """Return a sentence, with nats rounded to what is known."""
        return "; ".join([self._margin(), *self.best.certainty()])

    def _margin(self) -> str:
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
        by = f"{by} before {self.runner_up}"
        return f"{start} has the shortest code, by {by}; {others}"


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
    answer : Best
        How sure it is that the best is best on these datasets.
    """

    best: str
    equivalent: list[str]
    out: list[str]
    datasets: list[DatasetVerdict]
    alpha: float
    n_needed: int
    answer: Best

    @property
    def has_test(self) -> bool:
        """Whether datasets are enough for a test over them."""
        return len(self.datasets) >= self.n_needed

    def overall(self) -> list[str]:
        """Return sentences on all datasets together; none for one of them."""
        n_datasets = len(self.datasets)
        if not (self.equivalent or self.out) or n_datasets == 1:
            return []
        lines = []
        level = "not told apart from it"
        if self.has_test:
            how = f"Wilcoxon's test, Holm's correction, alpha = {self.alpha:g}"
        else:
            how = "by the rows of these datasets alone"
            level = "shortest, or not told apart from the winner, on some dataset"
            lines.append(self.too_few())
        chance = f" ({', '.join(self.answer.certainty())} on these datasets)"
        known = self.answer.certainty()
        words = [f"overall best by average rank: {self.best}{chance if known else ''}"]
        if self.equivalent:
            words.append(f"{level}: {names_of(self.equivalent)}")
        words.append(f"clearly out: {names_of(self.out) if self.out else 'nobody'}")
        return [f"{'; '.join(words)} ({how})", *lines]

    def too_few(self) -> str:
        """Say in words why there is no test over datasets, if there is none."""
        few = f"{len(self.datasets)} datasets are too few to say what holds on others"
        return f"{few}; it takes {self.n_needed}"

    def sentences(self) -> list[str]:
        """Return the verdict on all datasets, then that on each of them."""
        return [*self.overall(), *map(str, self.datasets)]

    def __str__(self) -> str:
        """Return the sentences, one to a line."""
        return "\n".join(["Verdict", *(f"  {line}" for line in self.sentences())])

    def record(self) -> dict[str, object]:
        """Return everything as JSON holds it."""
        return {**asdict(self), "sentences": self.sentences()}


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


def _chance(probability: float) -> str:
    """Return a probability in two digits that never says that all is sure."""
    return "over 0.99" if probability >= 0.995 else f"{probability:.2f}"


def verdict_of(ranking: CellArrays) -> Verdict:
    """Judge a ranking; see ``RankStatistics.verdict``."""
    n_datasets, n_encoders = ranking.codelengths_.shape
    order = np.argsort(ranking.average_ranks_, kind="stable").tolist()
    names = [ranking.encoder_names_[e] for e in order]
    datasets, ranks = [], np.zeros(())
    rng = np.random.default_rng(0)
    for name, sample in zip(ranking.dataset_names_, ranking.samples_, strict=True):
        draws = sample.draws(rng)
        ranks = ranks + rankdata(draws, axis=1)
        datasets.append(_on_dataset(ranking, name, sample, chances_of_best(draws)))
    n_others = n_encoders - 1
    needed = 1 + math.ceil(math.log2(n_others / ranking.alpha)) if n_others else 1
    if n_others and n_datasets >= needed:
        pairs = [(order[0], e) for e in order[1:]]
        tests = pairwise_wilcoxon(ranking.comparable_, pairs=pairs)
        is_out = (tests.adjusted_p_values <= ranking.alpha).tolist()
    else:
        is_out = [all(name in d.told_apart for d in datasets) for name in names[1:]]
    out = [name for name, is_worse in zip(names[1:], is_out, strict=True) if is_worse]
    equivalent = [name for name in names[1:] if name not in out]
    overall = _best(names, chances_of_best(ranks)[order], equivalent)
    return Verdict(
        best=names[0],
        equivalent=equivalent,
        out=out,
        datasets=datasets,
        alpha=ranking.alpha,
        n_needed=needed,
        answer=datasets[0].best if n_datasets == 1 else overall,
    )


def _best(names: list[str], shares: Floats, ties: list[str]) -> Best:
    """Return the answer over datasets, of names of which the first is best."""
    return Best(
        encoder=names[0],
        probability=float(shares[0]),
        probabilities=dict(zip(names, shares.tolist(), strict=True)),
        ties=ties,
        rival=names[1 + int(np.argmax(shares[1:]))] if len(names) > 1 else None,
        more_labels=None,
        dataset=None,
    )


def _on_dataset(
    ranking: CellArrays, dataset: str, sample: Sample, shares: Floats
) -> DatasetVerdict:
    totals = sample.codelengths
    order = np.argsort(totals, kind="stable").tolist()
    names = [ranking.encoder_names_[e] for e in order]
    margins = (totals[order] - totals[order[0]]).tolist()
    # Bonferroni's correction is for the others: the winner is the best of all of them.
    tail = ranking.alpha / (2 * max(1, len(order) - 1))
    halves = [0.0, *(sample.half_width(order[0], e, tail) for e in order[1:])]
    apart = [margin > half for margin, half in zip(margins, halves, strict=True)]
    told_apart = [name for name, is_apart in zip(names, apart, strict=True) if is_apart]
    ties = [name for name in names[1:] if name not in told_apart]
    best = replace(_best(names, shares[order], ties), dataset=dataset)
    if best.rival is not None:
        share = best.probabilities[best.rival]
        tail = (1 - SURE) * (share / (1 - best.probability) if share > 0 else 1.0)
        places = order[0], order[names.index(best.rival)]
        best = replace(best, more_labels=sample.more_labels(*places, tail))
    return DatasetVerdict(
        dataset=dataset,
        winner=names[0],
        runner_up=names[1] if names[1:] else None,
        codelength=float(totals[order[0]]),
        margin=margins[1] if names[1:] else 0.0,
        half_width=halves[1] if names[1:] else 0.0,
        not_told_apart=ties,
        told_apart=told_apart,
        best=best,
    )
