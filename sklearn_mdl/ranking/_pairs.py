"""Checks of score tables and of pairs of encoders, average ranks, wins, log ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from reprlib import repr as shortened

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from sklearn_mdl.ranking._results import NamedResult, Pairs

Floats = NDArray[np.float64]

# For more encoders, the user chooses pairs. All pairs of 40 encoders are 780 tests.
MOST_ENCODERS = 40


@dataclass(frozen=True, eq=False, repr=False)
class WinTable(NamedResult):
    """Wins, ties and losses of every encoder against every other encoder.

    Attributes
    ----------
    wins : ndarray of int of shape (n_encoders, n_encoders)
        Number of datasets on which the encoder of the row has a shorter code than the
        encoder of the column.
    ties : ndarray of int of shape (n_encoders, n_encoders)
        Number of datasets on which neither code counts as shorter. On the diagonal,
        this is the number of all datasets.
    """

    wins: NDArray[np.intp]
    ties: NDArray[np.intp]

    @property
    def losses(self) -> NDArray[np.intp]:
        """Number of datasets on which the column's encoder has the shorter code."""
        return self.wins.T

    def _columns(self) -> Mapping[str, Sequence[object]]:
        first, second = np.triu_indices(len(self.wins), k=1)
        counts = {"wins": self.wins, "ties": self.ties, "losses": self.losses}
        return {
            **self._by_pair(np.stack([first, second], axis=1)),
            **{name: table[first, second].tolist() for name, table in counts.items()},
        }


def win_table(codelengths: ArrayLike, *, rope: float = 0.0) -> WinTable:
    """Count the datasets on which one encoder's code is shorter than another's.

    Parameters
    ----------
    codelengths : array-like of shape (n_datasets, n_encoders)
        Positive codelengths, in the same unit within each row.
    rope : float, default=0
        Codelengths tie if the longer one is at most ``1 + rope`` times the shorter one.
        For example, with 0.01 codelengths tie if they differ by at most 1 %.

    Returns
    -------
    table : WinTable
        Wins, ties and losses add up to the number of datasets for every pair.

    Raises
    ------
    ValueError
        If `codelengths` is not a table of positive finite numbers, or `rope` is
        negative.

    Examples
    --------
    >>> win_table([[0.8, 1.1, 0.9], [0.5, 0.7, 0.5]]).wins
    array([[0, 2, 1],
           [0, 0, 0],
           [0, 2, 0]])
    """
    table, margin = checked_codelengths(codelengths), log_margin(rope)
    n_datasets, n_encoders = table.shape
    wins = np.zeros((n_encoders, n_encoders), dtype=np.intp)
    # Without a margin, compare codelengths, since rounding may make their logs equal.
    for row in np.log(table) if margin > 0 else table:
        wins += row[:, None] < row - margin
    return WinTable(wins=wins, ties=n_datasets - wins - wins.T)


def checked_pairs(table: Floats, pairs: ArrayLike | None, top_k: int | None) -> Pairs:
    """Return the column indices (n_pairs, 2) of the pairs to compare."""
    n_encoders = table.shape[1]
    if n_encoders < 2:
        raise ValueError(
            "Pairs need at least 2 encoders to compare, got 1; add another encoder"
        )
    if pairs is not None and top_k is not None:
        raise ValueError(
            f"Pass either `pairs` or `top_k`, got both; omit top_k={top_k!r}"
        )
    if pairs is not None:
        return _valid_pairs(pairs, n_encoders)
    if top_k is not None:
        return _all_pairs(_best_columns(table, top_k))
    if n_encoders > MOST_ENCODERS:
        raise ValueError(
            f"Without `pairs` there must be at most {MOST_ENCODERS} encoders, got "
            f"{n_encoders}; pass top_k={MOST_ENCODERS}, or only the `pairs` to compare"
        )
    return _all_pairs(np.arange(n_encoders))


def _all_pairs(encoders: NDArray[np.intp]) -> Pairs:
    return encoders[np.stack(np.triu_indices(len(encoders), k=1), axis=1)]


def _best_columns(table: Floats, top_k: int) -> NDArray[np.intp]:
    """Return the ``top_k`` columns with the best average ranks, in table order."""
    check_count("top_k", top_k, 2, "pass top_k=2 to compare the best two")
    if top_k > table.shape[1]:
        limit = f"at most the number of encoders, {table.shape[1]}"
        raise invalid("top_k", limit, top_k, "omit top_k to compare all pairs")
    return np.sort(np.argsort(average_ranks(table), kind="stable")[:top_k])


def _valid_pairs(pairs: ArrayLike, n_encoders: int) -> Pairs:
    """Return the pairs as an array, or raise if they are invalid or repeated."""
    array = np.asarray(pairs)
    shaped = array.ndim == 2 and array.shape[1] == 2 and len(array) > 0
    if not shaped or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            "`pairs` must be integers of shape (n_pairs, 2), n_pairs > 0, got "
            f"{array.dtype} in shape {array.shape}; for example, pass pairs=[(0, 1)]"
        )
    array = array.astype(np.intp)
    if array.min() < 0 or array.max() >= n_encoders:
        raise ValueError(
            f"`pairs` must hold columns from 0 to {n_encoders - 1}, got "
            f"{array.min()} to {array.max()}; for example, pass pairs=[(0, 1)]"
        )
    distinct = np.unique(np.sort(array), axis=0)
    if len(distinct) < len(array) or (array[:, 0] == array[:, 1]).any():
        raise ValueError(
            "`pairs` must be different pairs of two columns, got "
            f"{array.tolist()!r}; list each pair once, and no column with itself"
        )
    return array


def log_ratios(table: Floats, pairs: Pairs) -> Floats:
    """Return log(first / second) for each pair, of shape (n_pairs, n_datasets)."""
    logs = np.log(table).T
    return logs[pairs[:, 0]] - logs[pairs[:, 1]]


def as_floats(name: str, values: ArrayLike) -> Floats:
    """Return a float64 array, or raise if values cannot form an array of numbers."""
    try:
        return np.asarray(np.ma.filled(values, np.nan), dtype=np.float64)
    except (TypeError, ValueError) as error:
        required = f"`{name}` must be numbers, in rows of equal length"
        cure = "drop text, and fill or drop incomplete rows"
        raise ValueError(f"{required}, got {shortened(values)}; {cure}") from error


def checked_scores(scores: ArrayLike, name: str = "scores") -> Floats:
    """Return a non-empty table of finite scores, one row per dataset."""
    table = as_floats(name, scores)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(
            f"`{name}` must have shape (n_datasets, n_encoders) and not be empty, got "
            f"{table.shape}; pass one row per dataset, with several orders their mean"
        )
    cure = "omit this dataset (row) or this encoder (column)"
    _check_entries(name, "finite", table, np.isfinite(table), cure)
    return table


def checked_codelengths(codelengths: ArrayLike) -> Floats:
    """Return a table of positive codelengths."""
    table = checked_scores(codelengths, "codelengths")
    cure = "do not round codelengths; if some are negative, use friedman_test"
    _check_entries("codelengths", "positive", table, table > 0, cure)
    return table


def _check_entries(
    name: str, required: str, table: Floats, are_valid: NDArray[np.bool_], cure: str
) -> None:
    """Raise ValueError for a table's first entry that is not valid."""
    if not are_valid.all():
        row, column = np.argwhere(~are_valid)[0].tolist()
        where = f"{table[row, column]} in row {row}, column {column}"
        raise ValueError(f"`{name}` must be {required}, got {where}; {cure}")


def check_repeats(table: Floats, purpose: str) -> None:
    """Raise ValueError for a table with a single dataset or encoder."""
    if min(table.shape) < 2:
        raise ValueError(
            f"{purpose} needs at least 2 datasets and 2 encoders, got {table.shape[0]} "
            f"and {table.shape[1]}; add datasets (rows) or encoders (columns)"
        )


def invalid(name: str, required: str, given: object, cure: str) -> ValueError:
    """Return the error for an argument that is out of range."""
    return ValueError(f"`{name}` must be {required}, got {name}={given!r}; {cure}")


def check_count(name: str, value: int, least: int, advice: str) -> None:
    """Raise ValueError unless a value is an integer of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        raise invalid(name, f"an integer of at least {least}", value, advice)


def check_fraction(name: str, value: float, advice: str) -> None:
    """Raise ValueError unless a value is a number strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise invalid(name, "a number between 0 and 1 exclusive", value, advice)


def log_margin(rope: float) -> float:
    """Return ``log(1 + rope)``, the log ratio at which practical equivalence ends."""
    if not isinstance(rope, Real) or not 0 <= float(rope) < np.inf:
        required = "a finite number of at least 0"
        raise invalid("rope", required, rope, "pass rope=0.01 for one per cent")
    return float(np.log1p(rope))


def average_ranks(scores: ArrayLike) -> NDArray[np.float64]:
    """Average each encoder's rank over datasets. Lower scores rank first.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_encoders)
        One finite score per dataset and encoder, such as a codelength. Lower is better.
        Scores in different rows may have different units.

    Returns
    -------
    ranks : ndarray of shape (n_encoders,)
        Average ranks between 1 and n_encoders. On a dataset, tied encoders all get the
        mean of their ranks.

    Raises
    ------
    ValueError
        If `scores` is not a non-empty table of finite numbers.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 4 (average rank over VTAB).

    Examples
    --------
    >>> average_ranks([[0.8, 1.1, 0.9], [0.5, 0.7, 0.5]])
    array([1.25, 3.  , 1.75])
    """
    return np.asarray(rankdata(checked_scores(scores), axis=1).mean(axis=0))
