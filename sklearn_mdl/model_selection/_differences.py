"""Results of a ranking: spread, paired differences, readouts and extrapolations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.metrics import extrapolate, is_narrow
from sklearn_mdl.model_selection._cell_arrays import paired_means
from sklearn_mdl.model_selection._certainty import Sample
from sklearn_mdl.model_selection._verdict import names_of
from sklearn_mdl.ranking import Floats, NamedResult, Pairs, check_fraction


@dataclass(frozen=True, eq=False, repr=False)
class OrderSpread(NamedResult):
    """Mean and standard deviation of codelengths over orders.

    Attributes
    ----------
    mean : ndarray of shape (n_datasets, n_encoders)
        Mean codelength, in nats.
    std : ndarray of shape (n_datasets, n_encoders)
        Standard deviation of the codelength over orders, in nats. NaN if the encoder
        was scored in a single order.
    n_orders : int
        Largest number of orders in which an encoder was scored.
    """

    mean: Floats
    std: Floats
    n_orders: int

    @property
    def relative(self) -> Floats:
        """Standard deviation relative to ``abs(mean)``, (n_datasets, n_encoders)."""
        return self.std / np.abs(self.mean)

    def _columns(self) -> Mapping[str, Sequence[object]]:
        return self._by_cell("mean", "std", "relative")


@dataclass(frozen=True, eq=False, repr=False)
class PairedDifferences(NamedResult):
    """Differences between the codelengths of two encoders, for several pairs.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Indices of the first and second encoder of each pair.
    mean : ndarray of shape (n_pairs, n_datasets)
        Mean over orders of first minus second, in nats. Negative if the first encoder
        has the shorter code.
    std : ndarray of shape (n_pairs, n_datasets)
        Standard deviation of the difference over the orders that all encoders share, in
        nats. NaN for a single order.
    error : ndarray of shape (n_pairs, n_datasets)
        Standard error of `mean` in nats, over draws of rows and orders. NaN if losses
        of single examples are missing or all rows are in one group.
    lower, upper : ndarray of shape (n_pairs, n_datasets)
        Bounds of a confidence interval for the mean difference over fresh draws of the
        same number of rows.
    level : float
        Confidence level of each interval.
    n_orders : int
        Number of orders that all encoders share, on the dataset with the most.
    """

    pairs: Pairs
    mean: Floats
    std: Floats
    error: Floats
    lower: Floats
    upper: Floats
    level: float
    n_orders: int

    def _columns(self) -> Mapping[str, Sequence[object]]:
        datasets, pairs = np.indices(self.mean.T.shape).reshape(2, -1)
        names = ("mean", "std", "error", "lower", "upper")
        return {
            "dataset": self._datasets(datasets),
            **self._by_pair(self.pairs[pairs]),
            **{name: getattr(self, name).T.ravel().tolist() for name in names},
        }


@dataclass(frozen=True, repr=False)
class PreferredReadouts(NamedResult, Sequence[list[str]]):
    """The architecture with the largest mean posterior for each dataset and encoder.

    This is a sequence with one list for each dataset.

    Attributes
    ----------
    readouts : list of list of str
        Architecture for each dataset and encoder.
    """

    readouts: list[list[str]]

    @overload
    def __getitem__(self, place: int) -> list[str]: ...
    @overload
    def __getitem__(self, place: slice) -> list[list[str]]: ...
    def __getitem__(self, place: int | slice) -> list[str] | list[list[str]]:
        """Return the architecture for each encoder on a dataset."""
        return self.readouts[place]

    def __len__(self) -> int:
        """Return the number of datasets."""
        return len(self.readouts)

    def _columns(self) -> Mapping[str, Sequence[object]]:
        columns = self._by_cell("readouts")
        return {name.removesuffix("s"): column for name, column in columns.items()}


FORESEEABLE = 2  # predictions for more than this multiple of the labels are guesses


@dataclass(frozen=True, eq=False, repr=False)
class Extrapolations(NamedResult):
    """Predicted codelengths with more labels, for each dataset and encoder.

    Attributes
    ----------
    n : int
        Number of labels for which codelengths are predicted, including those given.
    values, lower, upper : ndarray of shape (n_datasets, n_encoders)
        Codelengths of `n` labels in nats, and the bounds of their intervals.
    margins, margins_lower, margins_upper : ndarray of shape (n_datasets, n_encoders)
        Predicted codelengths minus the predicted codelength of `best`, and the bounds
        of their intervals. A negative margin means that the encoder is predicted to
        overtake `best`.
    best : ndarray of int of shape (n_datasets,)
        Index of the encoder with the shortest code for the given labels.
    level : float
        Confidence level of each interval.
    n_given : ndarray of int of shape (n_datasets,)
        Number of labels given.
    """

    n: int
    values: Floats
    lower: Floats
    upper: Floats
    margins: Floats
    margins_lower: Floats
    margins_upper: Floats
    best: NDArray[np.intp]
    level: float
    n_given: NDArray[np.intp]

    @property
    def is_precise(self) -> NDArray[np.bool_]:
        """True where half the interval's width is at most 10 % of the codelength."""
        return is_narrow(self.values, self.lower, self.upper)

    def sentences(self) -> list[str]:
        """Return a sentence for each dataset on whether `best` would be overtaken.

        If `n` is more than twice the number of given labels, the sentence ends in "(a
        guess)", since flat curves may start to fall and falling curves may flatten.
        """
        return [
            self._sentence(d) + " (a guess)" * bool(self.n > FORESEEABLE * n_given)
            for d, n_given in enumerate(self.n_given)
        ]

    def _sentence(self, d: int) -> str:
        (dataset,), (first,) = self._datasets([d]), self._encoders([self.best[d]])
        start = f"{dataset}: with {self.n:,} labels,"
        lower, upper = self.margins_lower[d], self.margins_upper[d]
        overtaking = np.flatnonzero(upper < 0)
        unclear = np.flatnonzero((lower < 0) & (upper >= 0))
        if len(overtaking):
            e = overtaking[np.argmin(self.margins[d, overtaking])]
            return (
                f"{start} {self._encoders([e])[0]} would overtake {first} by "
                f"{-upper[e]:.3g} to {-lower[e]:.3g} nats"
            )
        if len(unclear):
            names = names_of([str(name) for name in self._encoders(unclear)])
            return f"{start} it is unclear whether {names} would overtake {first}"
        return f"{start} {first} would still have the shortest code"

    def _columns(self) -> Mapping[str, Sequence[object]]:
        margins = ("margins", "margins_lower", "margins_upper")
        return self._by_cell("values", "lower", "upper", *margins, "is_precise")


def extrapolations(
    curves: Sequence[Floats],
    groups: Sequence[ArrayLike],
    n: int,
    level: float,
    best: NDArray[np.intp],
) -> Extrapolations:
    """Predict codelengths of ``n`` labels on each dataset.

    Each array in ``curves`` holds the losses on a dataset, (n_encoders, n_orders, N).
    Each array in ``groups`` holds the group of each row in each order, (n_orders, N).
    """
    n_given = np.array([losses.shape[-1] for losses in curves])
    predicted = [
        extrapolate(losses, n, level=level, groups=units)
        for losses, units in zip(curves, groups, strict=True)
    ]
    differences = [
        [dataset.difference(e, int(first)) for e in range(len(dataset.values))]
        for dataset, first in zip(predicted, best, strict=True)
    ]
    bounds = [(dataset.values, dataset.lower, dataset.upper) for dataset in predicted]
    values, lower, upper = map(np.array, zip(*bounds, strict=True))
    margins, below, above = np.moveaxis(np.array(differences), -1, 0)
    return Extrapolations(
        n, values, lower, upper, margins, below, above, best, level, n_given
    )


def order_spread(codelengths: ArrayLike) -> OrderSpread:
    """Return means and standard deviations over orders.

    Parameters
    ----------
    codelengths : array-like of shape (n_datasets, n_encoders, n_orders)
        Codelengths in nats, in at least two orders. NaN for orders that were not
        scored.

    Raises
    ------
    ValueError
        If there is only one order.
    """
    table = np.asarray(codelengths, dtype=np.float64)
    n_orders = table.shape[2] if table.ndim == 3 else 1
    if n_orders < 2:
        cure = "fit with n_orders=4 and, if time ran out, a larger time_budget"
        raise invalid("The number of orders", "at least 2", n_orders, cure)
    return OrderSpread(paired_means(table), _deviations(table), n_orders)


def _deviations(table: Floats) -> Floats:
    """Return standard deviations over the scored orders, or NaN for a single order."""
    deviations: Floats = table.std(-1, ddof=1)
    for cell in zip(*np.nonzero(np.isnan(deviations)), strict=True):
        scored = table[cell][~np.isnan(table[cell])]
        deviations[cell] = scored.std(ddof=1) if len(scored) > 1 else np.nan
    return deviations


def paired_differences(
    samples: Sequence[Sample], pairs: Pairs, level: float
) -> PairedDifferences:
    """Compare pairs of encoders on the same rows in the same orders.

    If a row or an order affects both encoders equally, this effect cancels in their
    difference. Intervals are Student intervals with Welch-Satterthwaite degrees of
    freedom.

    Parameters
    ----------
    samples : sequence of Sample
        One sample for each dataset.
    pairs : ndarray of int of shape (n_pairs, 2)
    level : float
        Level of the intervals, between 0 and 1 exclusive.
    """
    check_fraction("level", level, "for example, pass level=0.9")
    first, second = pairs.T
    mean = np.stack([s.codelengths[first] - s.codelengths[second] for s in samples], 1)
    by_order = [s.by_order[:, first] - s.by_order[:, second] for s in samples]
    n_orders = max(map(len, by_order))
    std = np.full(mean.shape, np.nan)
    for d, table in enumerate(by_order):
        if len(table) > 1:
            std[:, d] = table.std(0, ddof=1)
    error = np.stack([np.sqrt(s.variance(first, second)[0]) for s in samples], 1)
    half = np.stack([s.half_width(first, second, 1 - level) for s in samples], 1)
    bounds = mean - half, mean + half
    return PairedDifferences(pairs, mean, std, error, *bounds, float(level), n_orders)
