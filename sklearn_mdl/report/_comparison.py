"""Results of a comparison: a verdict in words, a table, curves and a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from sklearn_mdl._core.extras import plot_extra
from sklearn_mdl._core.io.whole_files import refuse_foreign, replaced
from sklearn_mdl.display import CodelengthDisplay, LearningCurveDisplay, check_choice
from sklearn_mdl.model_selection import Ranking, RepresentationScorer, Verdict, rounded
from sklearn_mdl.ranking import average_ranks
from sklearn_mdl.report._curves import Curve, curve_of, labels_to_reach, level_of

if TYPE_CHECKING:
    from pandas import DataFrame

Place = tuple[str, str]  # (dataset, encoder)


class Row(NamedTuple):
    """One encoder's results on one dataset, or combined over several.

    Attributes
    ----------
    encoder : str
    rank : float
        Rank by codelength, averaged over datasets. 1 is best.
    nats, half : float
        Nats per label, and the half-width of an interval for new rows from the same
        source.
    saved : float
        Nats per label saved relative to coding the labels without features.
    accuracy : float
        Share of labels predicted correctly before they are seen, or NaN for real-valued
        labels.
    labels : float
        Number of labels after which the accuracy stays at or above the level in
        `Comparison.accuracy_levels`, or NaN if it never does or there is no level.
    encoding, seconds : float
        Seconds to encode (NaN for precomputed features), and seconds of a pass.
    megabytes : float
        Size of the features as float32.
    kept : float
        Megabytes of the arrays that a pass stores, or NaN if these arrays are missing.
    """

    encoder: str
    rank: float
    nats: float
    half: float
    saved: float
    accuracy: float
    labels: float
    encoding: float
    seconds: float
    megabytes: float
    kept: float


class Gain(NamedTuple):
    """Savings of a pair of encoders on some datasets, relative to one of the two.

    Attributes
    ----------
    dataset : str
        Name of the dataset, or "" for a total over several datasets.
    first, second : str
        Names of the two encoders. Savings are relative to ``first``, which is usually
        the better encoder.
    alone, other, both : float
        Codelengths of ``first``, ``second`` and both concatenated, in nats.
    saved, half : float
        Nats that the pair saves relative to ``first``, and the half-width of the
        interval of this difference, which is corrected for the number of pairs.
    """

    dataset: str
    first: str
    second: str
    alone: float
    other: float
    both: float
    saved: float
    half: float


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Comparison of encoders, as returned by :func:`~sklearn_mdl.compare`.

    Print a comparison to see the verdict and tables. Notebooks display a page if Jinja2
    is installed.

    Attributes
    ----------
    scorer : RepresentationScorer
        The fitted scorer, with all cells and statistics.
    encoding_seconds : dict of (str, str) to float
        Seconds to encode, keyed by (dataset, encoder).
    pairs : dict of str to (str, str)
        The two encoders of each pair, keyed by the pair's name.
    pair_ranking : Ranking or None
        Ranking of the best encoders and their pairs, or None if there are no pairs.
    """

    scorer: RepresentationScorer
    encoding_seconds: Mapping[Place, float] = field(default_factory=dict)
    pairs: Mapping[str, Place] = field(default_factory=dict)
    pair_ranking: Ranking | None = None

    def verdict(self) -> str:
        """Return the verdict, in at most three lines."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the verdict as a list of lines."""
        return [*self._answer.overall(), *self._pair_lines()]

    def rows(self, dataset: str | None = None) -> list[Row]:
        """Return one row of results for each encoder, sorted by rank.

        Parameters
        ----------
        dataset : str, default=None
            Name of the dataset. If None, combine all datasets.

        Raises
        ------
        ValueError
            If there is no such dataset.
        """
        names = self.scorer.dataset_names_
        if dataset is not None:
            check_choice(dataset, "dataset", names)
        chosen = names if dataset is None else [dataset]
        places = [names.index(name) for name in chosen]
        nats = (self.scorer.codelengths_ / self.scorer.sizes_)[places]
        halves = np.sqrt((self._halves[places] ** 2).sum(0)) / len(places)
        cells = self.scorer.cells_by_encoder().items()
        seconds = {k: float(np.mean([c.seconds for c in runs])) for k, runs in cells}
        size = {k: runs[0].n_samples * runs[0].n_features * 4e-6 for k, runs in cells}
        kept = {place: curve.kept for place, curve in self.curves_by_cell.items()}
        columns = {
            "encoder": self.scorer.encoder_names_,
            "rank": average_ranks(self.scorer.codelengths_[places]).tolist(),
            "nats": nats.mean(0).tolist(),
            "half": halves.tolist(),
            "saved": self.scorer.savings_per_example("labels")[places].mean(0).tolist(),
            "accuracy": self.scorer.accuracies_[places].mean(0).tolist(),
            "labels": self._labels(chosen),
            "encoding": self._sums(self.encoding_seconds, chosen, math.nan),
            "seconds": self._sums(seconds, chosen, 0.0),
            "megabytes": self._sums(size, chosen, 0.0),
            "kept": self._sums(kept, chosen, math.nan),
        }
        rows = [Row(*row) for row in zip(*columns.values(), strict=True)]
        return sorted(rows, key=lambda row: (row.rank, row.nats))

    @property
    def table(self) -> DataFrame:
        """A pandas DataFrame with one row for each encoder, the best first.

        * ``rank`` : rank by codelength, averaged over datasets
        * ``nats``, ``half`` : nats per label, and the half-width of their interval
        * ``saved`` : nats per label saved relative to coding without features
        * ``accuracy`` : share of labels predicted correctly before they are seen
        * ``labels`` : number of labels after which the accuracy stays at or above the
          level in ``accuracy_levels``
        * ``encoding``, ``seconds`` : seconds to encode, and seconds of a pass
        * ``megabytes``, ``kept`` : megabytes of the features, and of the results that
          a pass stores

        Nats, accuracies and labels are means over datasets. Seconds and megabytes are
        totals. Columns without any known value are left out.
        """
        frame = plot_extra("pandas").DataFrame(self.rows())
        return frame.set_index("encoder").dropna(axis=1, how="all")

    @property
    def curves(self) -> DataFrame:
        """A pandas DataFrame of learning curves with their bands.

        Each row is a point on one encoder's curve for one dataset. ``labels`` is the
        number of labels seen before the prediction, ``nats`` is the loss per label, and
        ``accuracy`` is the share of correct predictions. ``nats_half`` and
        ``accuracy_half`` are the half-widths of the bands, which account for sampling
        of rows (or groups) and for orders. Encoders whose losses are missing have no
        rows. If all are missing, a FileNotFoundError is raised.
        """
        pandas = plot_extra("pandas")
        names = ("labels", "nats", "nats_half", "accuracy", "accuracy_half")
        parts = []
        for (d, e), curve in self.curves_by_cell.items():
            known = {n: v for n in names if len(v := getattr(curve, n))}
            parts.append(pandas.DataFrame({"dataset": d, "encoder": e, **known}))
        if not parts:
            raise FileNotFoundError("All losses are missing; call compare or fit again")
        return pandas.concat(parts, ignore_index=True)

    def plot(self, dataset: str | None = None, **options: Any) -> Any:
        """Draw the learning curves on a dataset.

        Parameters
        ----------
        dataset : str, default=None
            Name of the dataset. Not needed if there is only one.
        **options
            Passed to the display's ``from_scorer``, such as ``ax``.

        Returns
        -------
        display : LearningCurveDisplay or CodelengthDisplay
            A CodelengthDisplay if labels are real-valued.
        """
        names, first = self.scorer.dataset_names_, self.scorer.first_cells_
        if first[names.index(dataset) if dataset in names else 0].is_real:
            return CodelengthDisplay.from_scorer(self.scorer, dataset, **options)
        return LearningCurveDisplay.from_scorer(self.scorer, dataset, **options)

    def to_html(self, path: str | PathLike[str]) -> Path:
        """Write a self-contained page that works offline, and return its path.

        Raises
        ------
        ValueError
            If the file exists and is not a page that sklearn_mdl wrote.
        OSError
            If the folder is missing, or the file cannot be written.
        ImportError
            If Jinja2, from the extra ``report``, is not installed.
        """
        from sklearn_mdl.report._page import is_page, page_of

        target = Path(path)
        refuse_foreign(target, is_page)
        with replaced(target) as aside:
            aside.write_text(page_of(self), encoding="utf-8")
        return target

    def _repr_html_(self) -> str | None:
        if find_spec("jinja2") is None:  # the notebook then displays the text
            return None
        from sklearn_mdl.report._page import notebook_of

        return notebook_of(self)

    def __repr__(self) -> str:
        """Return the verdict and the scorer's tables as text."""
        _, _, tables = self.scorer.summary().partition("\n\n")  # skip the verdict
        return f"{self.verdict()}\n\n{tables}"

    @cached_property
    def curves_by_cell(self) -> dict[Place, Curve]:
        """Curves keyed by (dataset, encoder), except where traces are missing."""
        curves: dict[Place, Curve] = {}
        for place, cells in self.scorer.cells_by_encoder().items():
            with suppress(FileNotFoundError):
                curves[place] = curve_of(cells, self.scorer.alpha)
        return curves

    @cached_property
    def accuracy_levels(self) -> dict[str, float]:
        """Level of accuracy for the column ``labels`` of the table, by dataset.

        It is 90 % of the best final accuracy, rounded down to a multiple of 5 %.
        Datasets with a level of 0, without accuracies or without some curves have none.
        """
        levels: dict[str, float] = {}
        for name in self.scorer.dataset_names_:
            own = [c for (d, _), c in self.curves_by_cell.items() if d == name]
            if len(own) == len(self.scorer.encoder_names_) and len(own[0].accuracy):
                levels[name] = level_of(own)
        return {name: level for name, level in levels.items() if level > 0}

    @cached_property
    def gains(self) -> list[Gain]:
        """Savings of each pair on each dataset, with the largest first."""
        gains = [self._gain(both, [d]) for d in self._paired for both in self.pairs]
        return sorted(gains, key=lambda gain: -gain.saved)

    @cached_property
    def total_gains(self) -> list[Gain]:
        """Savings of each pair in total over datasets, with the largest first."""
        gains = [self._gain(both, self._paired) for both in self.pairs]
        return sorted(gains, key=lambda gain: -gain.saved)

    @cached_property
    def _pair_halves(self) -> dict[Place, np.ndarray]:
        """Half-widths of intervals of savings, keyed by (encoder, pair)."""
        ranking = cast(Ranking, self.pair_ranking)
        compared = [(e, both) for both, pair in self.pairs.items() for e in pair]
        # Bonferroni's correction, since the best of several pairs is reported.
        level = 1 - ranking.alpha / len(self.pairs)
        paired = ranking.paired_differences(compared, level=level)
        return dict(zip(compared, paired.upper - paired.mean, strict=True))

    def _gain(self, both: str, chosen: Sequence[int], base: str | None = None) -> Gain:
        """Return a pair's savings on some datasets, relative to `base`.

        If `base` is None, savings are relative to the encoder with fewer nats.
        """
        ranking = cast(Ranking, self.pair_ranking)
        totals = ranking.codelengths_[list(chosen)].sum(0).tolist()
        nats = dict(zip(ranking.encoder_names_, totals, strict=True))
        first, second = sorted(self.pairs[both], key=lambda e: (e != base, nats[e]))
        half = math.hypot(*self._pair_halves[first, both][list(chosen)].tolist())
        dataset = ranking.dataset_names_[chosen[0]] if len(chosen) == 1 else ""
        codes = nats[first], nats[second], nats[both]
        return Gain(dataset, first, second, *codes, nats[first] - nats[both], half)

    @cached_property
    def _answer(self) -> Verdict:
        return self.scorer.verdict()

    @property
    def _paired(self) -> range:
        """Indices of the datasets in ``pair_ranking``."""
        ranking = self.pair_ranking
        return range(0 if ranking is None else len(ranking.dataset_names_))

    @cached_property
    def _halves(self) -> np.ndarray:
        """Half-width of each interval of nats per label, (n_datasets, n_encoders)."""
        tables = []
        for sample in self.scorer.codelength_samples_:
            # For intervals of codelengths, compare encoders with a code of length zero.
            contrasts = np.pad(sample.contrasts, ((0, 0), (0, 0), (0, 1)))
            by_order = np.pad(sample.by_order, ((0, 0), (0, 1)))
            base = replace(sample, contrasts=contrasts, by_order=by_order)
            halves = base.half_width(slice(-1), [-1], self.scorer.alpha)
            tables.append(halves / sample.n_samples)
        return np.array(tables)

    def _labels(self, chosen: Sequence[str]) -> list[float]:
        """Return each encoder's mean number of labels to reach the level, or NaN."""
        levels, names = self.accuracy_levels, self.scorer.encoder_names_
        if not levels.keys() >= set(chosen):
            return [math.nan] * len(names)
        labels = [
            [labels_to_reach(self.curves_by_cell[d, e], levels[d]) for d in chosen]
            for e in names
        ]
        return [float(np.mean(row)) for row in labels]

    def _sums(
        self, table: Mapping[Place, float], chosen: Sequence[str], default: float
    ) -> list[float]:
        return [
            math.fsum(table.get((d, e), default) for d in chosen)
            for e in self.scorer.encoder_names_
        ]

    def _pair_lines(self) -> list[str]:
        best, n = self._answer.best, len(self._paired)
        pairs = [both for both, pair in self.pairs.items() if best in pair]
        if not pairs:
            return []
        gains = [self._gain(both, self._paired, best) for both in pairs]
        if not (tested := [gain for gain in gains if not math.isnan(gain.half)]):
            return [f"What another encoder adds to {best} cannot be tested."]
        if not (gains := [gain for gain in tested if gain.saved > gain.half]):
            return [f"Adding another encoder to {best} saves no significant amount."]
        most = max(gains, key=lambda gain: gain.saved)
        nats = rounded(most.saved, most.half)
        where = f" in total on {n} datasets" if n > 1 else ""
        return [f"Adding {most.second} to {best} saves {nats} nats{where}."]
