"""Rows of kernel readouts: scalings, blocks, and when to refresh, fit and forget."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.kernels.whitening import MAX_VALUES, Whitening, whitening
from sklearn_mdl._core.numerics import as_doubles
from sklearn_mdl._core.stream.scaling import RunningStandardizer, Scaling
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.readouts._base import last_restart

WITHIN = "within-class"
WHITENED = ("whiten", WITHIN)
SCALINGS = ("standard", "centered-unit", "unit", *WHITENED)
FIRST = 8  # rows before the first scaling
BLOCK = 32  # rows added to a factor at a time
REDUCED = 128  # rows added to a posterior at a time
MANY = 4  # rows per landmark after which occasional fits are enough
SHARE = 8  # a fit is due when the number of rows has grown by an eighth
MOST_NEW = 8_192  # new rows after which a fit is due in any case
MOST_KEPT = 2_048  # most rows whose kernels are kept before they are summed
SPARSER = 16  # with this many times more rows, half as many blocks are learned
NEVER = sys.maxsize  # a row that no stream reaches
REACH = 6.0  # deviations at which standardised features are clipped
OFFSET = 0.3  # value of the constant feature
TINY = 1e-150
ROUNDING = 1e-14  # relative length below which centred rows are rounding errors


def condensed_at(n_landmarks: int) -> int:
    """Return the row at which a posterior replaces the factors.

    There are then 1.5 times as many rows as landmarks, rounded up to a block. With
    fewer rows, a posterior would cost more than the factors.
    """
    return n_landmarks + -(-n_landmarks // (2 * BLOCK)) * BLOCK


def settled_at(n_landmarks: int) -> int:
    """Return the row at which occasional fits replace a posterior.

    This row is the end of a block, after at least ``MANY`` times as many rows as
    landmarks. A block is then at most an eighth of the rows.
    """
    start, least = condensed_at(n_landmarks), max(MANY * n_landmarks, SHARE * REDUCED)
    return start + -(-(least - start) // REDUCED) * REDUCED


def last_fit(n_rows: int, n_settled: int) -> int:
    """Return the number of rows at the last fit, given at least ``n_settled`` rows."""
    fitted = following = n_settled
    while following <= n_rows:
        n_blocks = min(following // SHARE, MOST_NEW) // REDUCED
        fitted, following = following, following + n_blocks * REDUCED
    return fitted


def last_sum(n_rows: int, n_settled: int) -> int:
    """Return the row up to which features are summed, given ``n_rows`` rows."""
    return n_rows - (n_rows - last_fit(n_rows, n_settled)) % MOST_KEPT


def learns(start: int, n_settled: int) -> bool:
    """Return True if the block that begins with row ``start`` is learned.

    Learning a row costs more than predicting it, and a late row adds little. So once
    there are 16 times as many rows as at the first fit, only every second block is
    learned. At 256 times as many rows, only every fourth block is learned, and so on.
    """
    share, following = 1, n_settled * SPARSER
    while start >= following:
        share, following = 2 * share, following * SPARSER
    return (start - last_sum(start, n_settled)) // REDUCED % share == 0


def blocks_to_sum(n_rows: int, n_settled: int) -> list[slice]:
    """Return the blocks whose features are added to the sums at ``n_rows``."""
    starts = range(last_sum(n_rows - 1, n_settled), n_rows, REDUCED)
    return [slice(s, s + REDUCED) for s in starts if learns(s, n_settled)]


def block_of(n_rows: int, n_condensed: int = NEVER) -> tuple[int, int]:
    """Return the first row and the end of the block that contains row ``n_rows``.

    After ``n_condensed`` rows, blocks are longer, since a posterior replaces factors.
    """
    if n_rows >= n_condensed:
        start = n_rows - (n_rows - n_condensed) % REDUCED
        return start, start + REDUCED
    if n_rows >= BLOCK:
        start = n_rows - n_rows % BLOCK
        return start, start + BLOCK
    return next((s, e) for s, e in pairwise((0, FIRST, 16, BLOCK)) if n_rows < e)


def is_refresh(n_rows: int) -> bool:
    """Return True at 8, 16, 32, ... rows."""
    return n_rows >= FIRST and n_rows & (n_rows - 1) == 0


def last_refresh(n_rows: int) -> int:
    """Return the largest of 8, 16, 32, ... that is at most ``n_rows``, or 0."""
    return 1 << (int(n_rows).bit_length() - 1) if n_rows >= FIRST else 0


class Memory(NamedTuple):
    """Settings that determine which rows a factor holds.

    Attributes
    ----------
    max_exact : int or None
        Number of rows that become landmarks. If None, there are no landmarks.
    window : int or None
        Largest number of recent rows in the factor. Overrides `max_exact`.
    restart : int or None
        Restart at odd multiples of this number of rows. Overrides `max_exact`.
    """

    max_exact: int | None
    window: int | None = None
    restart: int | None = None

    @property
    def forgets(self) -> bool:
        """True if rows are ever forgotten."""
        return self.window is not None or self.restart is not None

    def check_width(self, scaling: str | None, n_features: int) -> None:
        """Raise if there are too many features and rows to whiten.

        Raises
        ------
        ValueError
            If the rows and the features to whiten may both exceed ``MAX_VALUES``.
        """
        name = "window" if self.window else "restart" if self.restart else "max_exact"
        given = getattr(self, name)
        limit = MAX_VALUES // 2 if name == "restart" else MAX_VALUES
        is_many = n_features > MAX_VALUES and (given is None or given > limit)
        if scaling in WHITENED and is_many:
            required = f"at most {limit} to whiten {n_features} features"
            cure = f'pass {name}={limit} or scaling="standard"'
            raise invalid(name, required, given, cure)

    def most_rows(self, n_rows: int) -> int:
        """Return the largest number of rows in the factor, in a stream of ``n_rows``.

        A factor that restarts grows to at most twice ``restart`` rows.
        """
        halves = [self.window and self.window // 2, self.restart]
        limits = [2 * whole(half) for half in halves if half is not None]
        if self.max_exact is not None and not limits:
            limits = [condensed_at(whole(self.max_exact))]
        return min([n_rows, *limits])

    def first_known(self, n_rows: int) -> int:
        """Return the first row that is still used after ``n_rows`` rows.

        A full window forgets its older half.
        """
        first = 0
        if self.window is not None:
            half = whole(self.window // 2)
            first = max(0, n_rows // half - 1) * half
        if self.restart is not None:
            first = max(first, last_restart(n_rows, whole(self.restart)))
        return first


def whole(n_rows: int) -> int:
    """Return how many of ``n_rows`` rows (at least 8) are in whole blocks."""
    return block_of(int(n_rows))[0]


class RowScaler:
    """Scaler of a stream's rows, which uses statistics of earlier rows.

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int) -> None:
        self._running = RunningStandardizer(n_features)
        self._current: Scaling | None = None
        self._whitened: dict[str, Whitening] = {}

    def refresh(self, rows: np.ndarray) -> None:
        """Observe the rows evaluated since the last refresh."""
        self._running.update(rows)
        self._current = self._running.scaling() if self._running.varies else None

    def whiten(self, scaling: str, rows: Tensor, labels: Tensor) -> None:
        """Compute a whitening from rows (n, d), and from labels if within classes."""
        by = labels if scaling == WITHIN else None
        self._whitened[scaling] = whitening(rows, by)

    def scaled(self, rows: np.ndarray, scaling: str | None, device: object) -> Tensor:
        """Scale raw rows (n, d), and return them as float64.

        "standard" rows are standardised, clipped and divided by the root of their
        width. "centered-unit" rows are centred and divided by their length. Whitened
        rows are centred, whitened and divided by their length. In all these cases, a
        constant is appended, and rows are only divided by their length until the first
        refresh after a feature has varied. "unit" rows are divided by their length.
        With None, rows stay raw.
        """
        x = as_doubles(rows, device)
        if scaling is None:
            return x
        if scaling == "unit":
            return unit_rows(x)
        if self._current is None:
            x = unit_rows(x)
        elif scaling == "standard":
            mean, transform = self._current.mean.to(x), self._current.transform.to(x)
            x = ((x - mean) * transform).clamp_(-REACH, REACH).div_(x.shape[1] ** 0.5)
        elif scaling in WHITENED:
            x = unit_rows(self._whitened[scaling].apply(x))
        else:
            mean = self._current.mean.to(x)
            x = unit_rows(x - mean, ROUNDING * float(mean.norm()))
        return torch.cat([x, x.new_full((len(x), 1), OFFSET)], 1)


def unit_rows(x: Tensor, least: float = TINY) -> Tensor:
    """Return rows (n, d) divided by their lengths, or by ``least`` if it is larger."""
    return cast(Tensor, x / x.norm(dim=1, keepdim=True).clamp_min(max(least, TINY)))
