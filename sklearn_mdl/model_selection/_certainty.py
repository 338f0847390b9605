"""Variation of codelengths over fresh draws of the same number of rows.

Both rows and orders are treated as samples. Encoders are compared by their differences
in loss on the same rows. Prequential losses are dependent in two ways:

* Neighbouring rows share training rows and lie on the same learning curve. So the
  stream is cut into blocks, without splitting groups. The variance is estimated from
  differences between neighbouring blocks, which slow trends do not affect (von Neumann,
  1941).
* All losses of a draw depend on which rows were learned. Resampling losses cannot
  reveal this variation, but disjoint draws can. So standard deviations are multiplied
  by ``TRAINING``, a cautious factor (``python -m benchmarks certainty spread``).

With several orders, the variance over rows is estimated in each order and averaged.
Then the variance of the mean over orders is added. Averaging each example's losses over
orders first would make the estimate too small, because more orders do not reduce the
variation between disjoint draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t

from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.ranking import Floats as Floats

Columns = int | slice | list[int] | NDArray[np.intp]

N_BLOCKS = 50  # least number of blocks, unless a stream has fewer rows or groups
TRAINING = 1.35  # measured on draws of caltech101, cifar10 and gtsrb
N_DRAWS = 1000
SURE = 0.95  # a choice is settled if its probability is at least this
MOST_TIMES = 100  # if this multiple of the labels does not suffice, report infinity
# Differences of fewer nats are taken for rounding errors, and so for equal codes.
ROUNDING = 1e-3
# With fewer pairs of blocks, there are fewer than 40 rows or groups. These are too few
# to estimate how a difference between encoders grows with more labels.
MIN_PAIRS = 20


@dataclass(frozen=True, eq=False)
class Sample:
    """Codelengths of all encoders on a dataset, and how much they vary.

    Attributes
    ----------
    codelengths : ndarray of shape (n_encoders,)
        Codelengths in nats, averaged over orders.
    contrasts : ndarray of shape (n_orders, n_pairs, n_encoders)
        Scaled differences between neighbouring blocks of rows in each order. The sum of
        their squares estimates the variance of a codelength over draws of rows. NaN if
        traces are missing or all rows are in one group.
    by_order : ndarray of shape (n_orders, n_encoders)
        Codelength in each order minus the mean over orders, in nats.
    rates : ndarray of shape (n_encoders,)
        Mean nats per label in the second half of the stream, or NaN if traces are
        missing.
    n_samples : int
    """

    codelengths: Floats
    contrasts: Floats
    by_order: Floats
    rates: Floats
    n_samples: int

    def variance(self, first: Columns, second: Columns) -> tuple[Floats, Floats]:
        """Return variances of differences between encoders, and degrees of freedom.

        Each difference is the codelength of an encoder in ``first`` minus that of the
        encoder in ``second``.
        """
        contrasts = self.contrasts[..., first] - self.contrasts[..., second]
        rows = (contrasts**2).sum((0, 1))
        n_pairs, n_orders = contrasts.shape[1], len(self.by_order)
        by_order = self.by_order[:, first] - self.by_order[:, second]
        orders = (by_order**2).sum(0) / (n_orders * max(n_orders - 1, 1))
        return total_variance(rows, n_pairs, orders, n_orders)

    def half_width(self, first: Columns, second: Columns, alpha: ArrayLike) -> Floats:
        """Return half-widths of Student intervals for differences between encoders.

        The intervals have level ``1 - alpha``. See `variance` for the differences.
        """
        variance, freedom = self.variance(first, second)
        return np.asarray(t.isf(np.asarray(alpha) / 2, freedom) * np.sqrt(variance))

    def least_significant(self, alpha: float) -> Floats:
        """Return each pair's smallest significant difference, (n_encoders, n_encoders).

        Each pair is compared by Student's test, at its level in Holm's procedure over
        all pairs. So the probability of any false claim is at most `alpha`.
        """
        least = np.zeros((len(self.codelengths),) * 2)
        first, second = np.triu_indices_from(least, 1)
        variance, freedom = self.variance(first, second)
        sizes = np.abs(self.codelengths[first] - self.codelengths[second])
        with np.errstate(divide="ignore", invalid="ignore"):
            p_values = 2 * t.sf(sizes / np.sqrt(variance), freedom)
        order = np.argsort(p_values)
        n_left = np.arange(len(order), 0, -1)
        is_over = np.logical_or.accumulate(~(p_values[order] * n_left <= alpha))
        n_left[is_over] = n_left[is_over].max(initial=1)
        pairs = first[order], second[order]
        least[pairs] = least[pairs[::-1]] = self.half_width(*pairs, alpha / n_left)
        return least

    def is_longer(self, alpha: float) -> NDArray[np.bool_]:
        """Return a matrix that shows which codes are significantly longer.

        Entry ``[i, j]`` is True if the code of encoder ``j`` is significantly longer
        than that of encoder ``i``.
        """
        differences = self.codelengths - self.codelengths[:, None]
        return np.asarray(differences > self.least_significant(alpha))

    def draws(self, rng: np.random.Generator) -> Floats:
        """Draw plausible expected codelengths of all encoders, (n_draws, n_encoders).

        Student distributions are sampled jointly for all encoders, so the variation
        that two encoders share cancels in their difference.
        """
        n_orders, n_pairs = self.contrasts.shape[:2]
        contrasts = np.concatenate(self.contrasts)
        draws: Floats = self.codelengths + _student(rng, contrasts, n_pairs)
        if n_orders > 1:
            by_order = self.by_order / math.sqrt(n_orders * (n_orders - 1))
            draws += _student(rng, by_order, n_orders - 1)
        return tied(draws)

    def settled_last(self, winner: int, shares: Floats) -> tuple[float, int]:
        """Return the largest forecast of `more_labels`, and the rival that it is for.

        Other encoders only count if they are best with a probability above their equal
        part of ``1 - SURE``. Infinity is largest, then NaN.
        """
        others = [e for e in np.argsort(-shares).tolist() if e != winner]
        rivals = [e for e in others if not shares[e] * len(others) <= 1 - SURE]
        more = [self.more_labels(winner, e, shares) for e in rivals or others]
        last = int(np.argmax(np.nan_to_num(more, nan=1e300, posinf=np.inf)))
        return more[last], others[last]

    def more_labels(self, winner: int, rival: int, shares: Floats) -> float:
        """Estimate how many further labels would settle a choice between two encoders.

        The choice is settled once the winner is the best encoder with probability
        `SURE`. ``shares`` are the present probabilities that each encoder is best.
        Those of all encoders except the winner are assumed to shrink by the same
        factor. So the probability that the rival is better must fall to the rival's
        part of ``1 - SURE``. A Student variable exceeds ``z`` with this probability.
        The winner's margin ``D`` is assumed to grow by ``r``
        nats per label, as in the second half of the stream. The standard deviation
        ``s`` of the margin is assumed to grow as the square root of the number of
        labels. So ``x`` times the ``n`` given labels suffice if
        ``D + r n (x - 1) >= z s sqrt(x)``. If ``D >= z s`` although the choice is not
        settled, ``s`` is replaced by the value with which a Student variable would
        exceed ``D / s`` with probability ``shares[rival]``.

        Returns
        -------
        more : float
            0 if the given labels suffice. Infinity if, with probability `SURE`, even
            `MOST_TIMES` times as many labels would not settle the choice in favour of
            either encoder. NaN if an estimate is impossible, but this is uncertain, or
            if there are too few rows.
        """
        if shares[winner] >= SURE:
            return 0.0
        tail = (1 - SURE) * shares[rival] / (1 - shares[winner])
        variance, freedom = self.variance(winner, rival)
        doubt = float(t.isf(tail, freedom)) * math.sqrt(variance)
        margin = float(self.codelengths[rival] - self.codelengths[winner])
        gain = self.n_samples * float(self.rates[rival] - self.rates[winner])
        if margin > doubt:  # `shares` allow more doubt about the variance over orders
            doubt = margin * float(t.isf(tail, freedom) / t.isf(shares[rival], freedom))
        if math.isnan(doubt) or self.contrasts.shape[1] < MIN_PAIRS:
            return math.nan
        if margin == 0 == gain:
            return math.inf
        most, required = MOST_TIMES - 1, math.sqrt(MOST_TIMES) * doubt
        if gain > 0 and margin + most * gain >= required:
            # At x = 1 the margin is smaller than required, so both roots are real.
            root = doubt + math.sqrt(doubt**2 - 4 * gain * (margin - gain))
            return math.ceil(self.n_samples * ((root / (2 * gain)) ** 2 - 1))
        late = self.contrasts[:, self.contrasts.shape[1] // 2 :, [winner, rival]]
        # Twice the error of a sum over half of the rows, since `gain` is for all rows.
        error = 2 * t.isf(1 - SURE, late.shape[1]) * np.linalg.norm(np.diff(late))
        can_settle = abs(margin) + most * (abs(gain) + error) > required
        return math.nan if can_settle else math.inf


def total_variance(
    rows: Floats, n_pairs: Floats | int, orders: Floats, n_orders: int
) -> tuple[Floats, Floats]:
    """Return the sum of the variances over rows and orders, and degrees of freedom.

    Degrees of freedom are those of Welch and Satterthwaite.
    """
    if n_orders == 1:
        return rows, np.ones_like(rows) * n_pairs
    parts = rows**2 / n_pairs + orders**2 / (n_orders - 1)
    ones, total = np.ones_like(parts), rows + orders
    return total, np.divide(total**2, parts, out=ones, where=parts > 0)


def _student(rng: np.random.Generator, rows: Floats, freedom: int) -> Floats:
    """Draw random combinations of rows (n, K) that follow Student's distribution."""
    scale = np.sqrt(rng.chisquare(freedom, (N_DRAWS, 1)) / freedom)
    return rng.standard_normal((N_DRAWS, len(rows))) / scale @ rows


class Losses(NamedTuple):
    """Losses of a run that is not a cell, with the attributes that `sample_of` reads.

    Attributes
    ----------
    codelengths : ndarray of shape (n_samples,)
        Codelength of each row in nats, in the order of the run.
    starts : ndarray of shape (n_groups,)
        Position of each group's first row in the run.
    """

    codelengths: Floats
    starts: NDArray[np.intp]

    @property
    def codelength(self) -> float:
        return float(self.codelengths.sum())

    @property
    def n_samples(self) -> int:
        return len(self.codelengths)


def tied(nats: Floats) -> Floats:
    """Return codelengths (..., n_encoders), equal if they only differ by rounding.

    Codes are grouped from the shortest on. A group contains all codes that are less
    than `ROUNDING` nats longer than its shortest code, and become equal to it.
    """
    order = np.argsort(nats, -1)
    ordered, result = np.take_along_axis(nats, order, -1), np.empty_like(nats)
    for e in range(1, nats.shape[-1]):
        shorter, own = ordered[..., e - 1], ordered[..., e]
        with np.errstate(invalid="ignore"):  # infinite codes
            np.copyto(own, shorter, where=own - shorter < ROUNDING)
    np.put_along_axis(result, order, ordered, -1)
    return result


def sample_of(
    encoders: Sequence[Sequence[Cell | Losses]], nats: ArrayLike | None = None
) -> Sample:
    """Return a dataset's codelengths and their variation, from each encoder's cells.

    Codelengths are means over the cells unless they are given in ``nats``.
    """
    totals = np.array([[cell.codelength for cell in cells] for cells in encoders]).T
    mean = tied(totals.mean(0) if nats is None else np.asarray(nats))
    n, rates = encoders[0][0].n_samples, np.full_like(mean, np.nan)
    contrasts = np.full((len(totals), 1, len(encoders)), np.nan)
    with suppress(FileNotFoundError):  # traces or groups are missing
        tables = [[_contrasts(cell, len(totals)) for cell in c] for c in encoders]
        contrasts = np.ascontiguousarray(np.moveaxis(np.array(tables), 0, -1))
        for e, cells in enumerate(encoders):
            rates[e] = np.mean([cell.codelengths[n // 2 :].mean() for cell in cells])
    return Sample(mean, contrasts, totals - totals.mean(0), tied(rates * n) / n, n)


def _contrasts(cell: Cell | Losses, n_orders: int) -> Floats:
    """Return scaled differences between neighbouring blocks, or NaN for one group."""
    starts = cell.starts
    n_units = len(starts)
    length = max(1, n_units // N_BLOCKS)
    n_pairs = n_units // (2 * length)
    n_used = 2 * length * n_pairs
    if not n_pairs:
        return np.array([np.nan])
    units = np.add.reduceat(cell.codelengths, starts)[:n_used]
    blocks = units.reshape(n_pairs, 2, length).sum(-1)
    scale = TRAINING * math.sqrt(n_units / n_used / n_orders)
    return np.asarray(scale * (blocks[:, 0] - blocks[:, 1]))
