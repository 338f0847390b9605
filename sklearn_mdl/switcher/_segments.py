"""Codelengths of the segments of a stream, to find hard parts and slow adaptation."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.extras import data_frame
from sklearn_mdl._core.validation import invalid

if TYPE_CHECKING:
    from pandas import DataFrame

Floats = NDArray[np.float64]
Ends = ArrayLike | int | Literal["posterior"]


@dataclass(frozen=True, eq=False)
class StreamSegments:
    """Codelengths of the segments of a stream under several codes, in nats.

    Attributes
    ----------
    starts, ends : ndarray of shape (n_segments,)
        First row of each segment, and the row after its last row.
    codelengths : ndarray of shape (n_segments,)
        Cost of each segment as part of the whole stream.
    per_example : ndarray of shape (n_segments,)
        ``codelengths`` divided by the number of rows in each segment.
    intervals : ndarray of shape (n_segments, 2)
        Confidence intervals of ``per_example``. The bootstrap resamples blocks of rows,
        since the costs of successive rows are dependent. NaN for segments of one row.
    reference_codelengths : ndarray of shape (n_segments,)
        Cost under the code without features (``reference_codelengths_`` of the
        switcher). This code also learns from earlier segments.
    restarted_codelengths : ndarray of shape (n_segments,)
        Cost of a segment for a copy of the switcher that is fitted to this segment
        only, or NaN with ``restart=False``.
    """

    starts: NDArray[np.intp]
    ends: NDArray[np.intp]
    codelengths: Floats
    per_example: Floats
    intervals: Floats
    reference_codelengths: Floats
    restarted_codelengths: Floats

    @property
    def adaptation(self) -> Floats:
        """Nats lost because of earlier segments (negative where they helped).

        This is ``codelengths - restarted_codelengths``. If both codelengths are high,
        the segment is hard. If only ``codelengths`` is high, the readouts were slow to
        adapt.
        """
        return self.codelengths - self.restarted_codelengths

    def to_frame(self) -> DataFrame:
        """Return a DataFrame with a row per segment."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        low, high = columns.pop("intervals").T
        columns |= {"low": low, "high": high, "adaptation": self.adaptation}
        return data_frame({"segment": range(len(self.starts)), **columns}, "segment")


def segment_ends(
    ends: Ends, n_rows: int, changes: NDArray[np.intp], times: ArrayLike | None
) -> NDArray[np.intp]:
    """Return the row after the last row of each segment.

    Parameters
    ----------
    ends : array-like, int or "posterior"
    n_rows : int
        Number of rows in the stream.
    changes : ndarray
        First rows of the blocks of the most probable sequence of readouts.
    times : array-like of shape (n_rows,) or None
        Timestamps, if `ends` are given as times.

    Raises
    ------
    ValueError
        If `ends` or `times` are invalid.
    """
    stamps = None if times is None else _checked_times(times, n_rows)
    if isinstance(ends, str) and ends == "posterior":
        return np.append(changes[changes > 0], n_rows)
    if isinstance(ends, Integral) and not isinstance(ends, bool):
        if not 1 <= ends <= n_rows:
            required = f"from 1 to {n_rows} (all examples) if it is an integer"
            raise invalid("ends", required, ends, f"pass ends={min(8, n_rows)}")
        return np.linspace(0, n_rows, int(ends) + 1).round().astype(np.intp)[1:]
    stops = np.atleast_1d(np.asarray(ends))
    if stamps is not None:
        stops = np.searchsorted(stamps, stops, side="right")
    is_rows = stops.ndim == 1 and stops.dtype.kind in "iu"
    if not is_rows or ((stops < 0) | (stops > n_rows)).any():
        required = f'a number of segments, "posterior", or row numbers up to {n_rows}'
        raise invalid("ends", required, ends, "pass ends=8, or timestamps with times")
    return np.unique(np.append(stops[stops > 0], n_rows)).astype(np.intp)


def _checked_times(times: ArrayLike, n_rows: int) -> NDArray[Any]:
    stamps = np.asarray(times)
    if stamps.shape != (n_rows,) or (stamps[1:] < stamps[:-1]).any():
        required = f"{n_rows} sorted timestamps, one for each example seen"
        raise invalid("times", required, stamps, "fit sorted rows, and pass all times")
    return stamps


def block_bootstrap(
    values: Floats, level: float, n_resamples: int, random_state: RandomState
) -> tuple[float, float]:
    """Return a block bootstrap interval for the mean of dependent values.

    Blocks of ``n^(1/3)`` values, rounded up, wrap around at the end (Hall, Horowitz and
    Jing, 1995).
    """
    n = len(values)
    if n < 2:
        return math.nan, math.nan
    size = math.ceil(n ** (1 / 3))
    n_blocks = -(-n // size)
    cumulated = np.concatenate([[0.0], np.cumsum(np.resize(values, n + size))])
    sums = cumulated[size : size + n] - cumulated[:n]
    draws = check_random_state(random_state).randint(n, size=(n_resamples, n_blocks))
    means = sums[draws].sum(1) / (n_blocks * size)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
