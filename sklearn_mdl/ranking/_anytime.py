"""Tests of loss differences that you may check after every label.

Two processes test all pairs of encoders. The exact process needs bounded losses and
makes no assumption about the labels (Choe and Ramdas, 2021, Comparing Sequential
Forecasters, arXiv 2110.00115). Its bound is from Howard, Ramdas, McAuliffe and Sekhon,
2021, Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of
Statistics 49. The asymptotic process accepts any losses and typically needs half as
many labels, but its error probabilities are approximate (Waudby-Smith, Arbour, Sinha,
Kennedy and Ramdas, 2021, Time-uniform central limit theory, arXiv 2103.06476).
:class:`LossRace` removes encoders with either process.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp, softmax

from sklearn_mdl.ranking._pairs import Floats, as_floats, invalid

CLIPPING = 0.1  # weight of the uniform prediction in clipped losses
LAMBDAS = 0.9 * 0.5 ** np.arange(9)
COSTS = -np.log1p(-LAMBDAS) - LAMBDAS
# The asymptotic process is tuned to be tightest after TUNED_FOR labels. It gives no
# evidence before LEAST labels, where the normal approximation is poor.
TUNED_FOR, LEAST = 200, 30
# If it is given labels, it also gives no evidence before RARE of them are outside the
# most common class. Until then, losses may vary much less than later.
RARE = 10
EQUAL = 1e-24  # a smaller variance, relative to the squared mean, is a rounding error
ROUNDING = 1e-5  # differences that vary by fewer nats may be rounding errors
# Encoders become more similar as they learn, so a race on real features needs SLOWER
# times as many labels as a simulation from past losses.
SLOWER = 2.0


def clipped_losses(losses: Floats, n_classes: int) -> Floats:
    """Return the losses after mixing the predictions with the uniform prediction.

    Parameters
    ----------
    losses : ndarray
        In nats.
    n_classes : int

    Returns
    -------
    clipped : ndarray
        In nats, at most ``log(10 n_classes)``.
    """
    return -np.log((1 - CLIPPING) * np.exp(-losses) + CLIPPING / n_classes)


def exact_log_values(totals: Floats, squares: Floats) -> Floats:
    """Return the logs of exact e-values.

    Parameters
    ----------
    totals : ndarray
        Sums of loss differences, each scaled to between -1/2 and 1/2.
    squares : ndarray
        Sums of squared distances between each scaled difference and the mean of the
        previous differences.
    """
    exponents = LAMBDAS * totals[..., None] - COSTS * squares[..., None]
    return np.asarray(logsumexp(exponents, axis=-1) - np.log(len(LAMBDAS)))


def exact_half_widths(squares: Floats, level: float) -> Floats:
    """Return how far totals may exceed their expectations at a one-sided level.

    At the returned totals the e-value is ``1 / level``. The log of the e-value is
    convex in the total, so Newton's method converges if it starts above the root.
    """
    wanted = -np.log(level)
    ends = (wanted + np.log(len(LAMBDAS)) + COSTS * squares[..., None]) / LAMBDAS
    totals: Floats = ends.min(-1)
    for _ in range(30):
        exponents = LAMBDAS * totals[..., None] - COSTS * squares[..., None]
        slopes = softmax(exponents, axis=-1) @ LAMBDAS
        steps = (exact_log_values(totals, squares) - wanted) / slopes
        totals = totals - steps
        if np.all(np.abs(steps) <= 1e-12 * (1 + np.abs(totals))):
            break
    return totals


def asymptotic_log_values(n: Floats, totals: Floats, variances: Floats) -> Floats:
    """Return the logs of asymptotic e-values.

    The log is minus infinity for fewer than 30 differences or zero variance, where the
    normal approximation gives no evidence.

    Parameters
    ----------
    n : ndarray
        Numbers of differences.
    totals : ndarray
        Sums of the differences.
    variances : ndarray
        Variances of the differences (``ddof=0``).
    """
    ratio = n / TUNED_FOR
    known = (n >= LEAST) & (variances > 0)
    scale = np.where(known, n * variances * (1 + ratio), 1.0)
    z = totals * np.sqrt(ratio / scale)
    logs = np.log(2) + log_ndtr(z) + z**2 / 2 - np.log1p(ratio) / 2
    return np.where(known, logs, -np.inf)


def asymptotic_half_widths(n: Floats, variances: Floats, level: float) -> Floats:
    """Return how far means may exceed their expectations at a one-sided level.

    This is infinite for fewer than 30 differences.
    """
    counted = np.maximum(n, 1)
    ratio = counted / TUNED_FOR
    log = np.log1p(np.sqrt(1 + ratio) / (2 * level))
    widths = np.sqrt(2 * variances * (1 + ratio) / (counted * ratio) * log)
    return np.where(n >= LEAST, widths, np.inf)


class PairSums:
    """Running sums of loss differences between all pairs of encoders.

    Parameters
    ----------
    shape : tuple of int
        Shape of the losses at a label. The last axis has one index per encoder.

    Attributes
    ----------
    n, totals : ndarray of shape (*shape, n_encoders)
        Number and sum of the differences between each encoder's loss and each rival's
        loss. The last axis has one index per rival.
    squares : ndarray of shape (*shape, n_encoders)
        Sums of squared distances between each difference and the mean of the previous
        differences.
    moments : ndarray of shape (*shape, n_encoders)
        Sums of squared distances between each difference and the mean of all
        differences.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        zeros = np.zeros((*shape, shape[-1]))
        self.n, self.totals = zeros, zeros.copy()
        self.squares, self.moments = zeros.copy(), zeros.copy()

    def add(self, losses: Floats) -> None:
        """Add losses (*shape,) at the next label, with NaN for removed encoders."""
        differences = losses[..., :, None] - losses[..., None, :]
        counts = np.isfinite(differences)
        differences = np.where(counts, differences, 0.0)
        before = differences - self.totals / np.maximum(self.n, 1)
        self.n = self.n + counts
        self.totals = self.totals + differences
        after = differences - self.totals / np.maximum(self.n, 1)
        self.squares = self.squares + np.where(counts, before**2, 0.0)
        self.moments = self.moments + np.where(counts, before * after, 0.0)

    @property
    def means(self) -> Floats:
        """Mean differences (zero if there are none)."""
        return self.totals / np.maximum(self.n, 1)

    @property
    def variances(self) -> Floats:
        """Variances of differences (zero if there are none or all are equal)."""
        variances = self.moments / np.maximum(self.n, 1)
        floored = np.maximum(variances, ROUNDING**2)
        return np.where(variances > EQUAL * self.means**2, floored, 0.0)


class LossRace:
    """A race that removes encoders label by label.

    Each e-value measures the evidence that an encoder is worse than a rival. An encoder
    is removed once one of its e-values reaches ``(n_encoders - 1) / alpha``. With
    `within`, this threshold is doubled, which leaves half of `alpha` for the bounds
    that stop the race.

    Parameters
    ----------
    shape : tuple of int
        Shape of the losses at a label. The last axis has one index per encoder, and
        each index of the other axes is a separate race.
    n_classes : int or None
        None for real-valued labels, for which only the asymptotic process works.
    alpha : float
        Largest error probability of the race, which is approximate for "asymptotic".
    within : float or None
        The race may stop once the leader is shown to be at most this many nats per
        label worse than any remaining encoder. If None, it only stops when one
        encoder is left.
    method : {"asymptotic", "exact"}
        The process that removes encoders and stops the race.
    start : int
        Number of labels at the beginning that are ignored.

    Attributes
    ----------
    n_labels : int
        Number of labels so far, including ignored ones.
    alive : ndarray of shape (*shape,), bool
        True for the remaining encoders.
    out_at : ndarray of shape (*shape,), int
        Number of labels after which an encoder was removed, or 0 if it remains.
    certified : ndarray of shape (*shape,), bool
        True for encoders that the exact process has shown to be worse than a rival.
    stopped_at : ndarray of shape shape[:-1], int
        Number of labels after which the race could first stop, or 0 if none so far.
    leader_at_stop : ndarray of shape shape[:-1], int
        The leader after `stopped_at` labels.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        n_classes: int | None,
        *,
        alpha: float,
        within: float | None,
        method: str,
        start: int,
    ) -> None:
        self.n_classes, self.within, self.method = n_classes, within, method
        self.start, self.n_labels = start, 0
        self.level = alpha / (1 if within is None else 2) / (shape[-1] - 1)  # of a pair
        self.sums = PairSums(shape)
        self.clipped = None if n_classes is None else PairSums(shape)
        self.counts = np.zeros((*shape[:-1], n_classes or 1), dtype=np.intp)
        self.begin(shape)

    def begin(self, shape: tuple[int, ...]) -> None:
        """Let all encoders take part, but keep the sums so far."""
        self.alive = np.ones(shape, dtype=bool)
        self.certified = np.zeros(shape, dtype=bool)
        self.out_at = np.zeros(shape, dtype=np.intp)
        self.stopped_at = np.zeros(shape[:-1], dtype=np.intp)
        self.leader_at_stop = np.zeros(shape[:-1], dtype=np.intp)

    def add(self, losses: ArrayLike, labels: ArrayLike | None = None) -> None:
        """Add the losses at the next label, in nats.

        Parameters
        ----------
        losses : array-like of shape (*shape,)
            Removed encoders may have NaN.
        labels : array-like of shape shape[:-1], optional
            The class in each race, as an integer. The asymptotic process then gives no
            evidence until ``RARE`` labels were outside the most common class.
            Real-valued labels are ignored.
        """
        self.n_labels += 1
        if self.n_labels <= self.start:
            return
        if labels is not None and self.n_classes is not None:
            one_hot = np.asarray(labels)[..., None] == np.arange(self.n_classes)
            self.counts = self.counts + one_hot
        counted = np.where(self.alive, losses, np.nan)
        self.sums.add(counted)
        threshold = -np.log(self.level)
        if self.clipped is not None and self.n_classes is not None:
            self.clipped.add(clipped_losses(counted, self.n_classes))
            shown = self.log_values("exact").max(-1) >= threshold
            self.certified = self.certified | shown
        if self.method == "asymptotic":
            shown = self.log_values().max(-1) >= threshold
        behind = self.alive & shown
        self.out_at = np.where(behind, self.n_labels, self.out_at)
        self.alive = self.alive & ~behind
        now = self.could_stop() & (self.stopped_at == 0)
        self.stopped_at = np.where(now, self.n_labels, self.stopped_at)
        self.leader_at_stop = np.where(now, self.leader, self.leader_at_stop)

    def log_values(self, method: str | None = None) -> Floats:
        """Return the log e-value of each encoder and rival, (*shape, n_encoders)."""
        sums, scale = self._sums_of(method)
        if scale is None:
            n = sums.n * self._has_rare
            return asymptotic_log_values(n, sums.totals, sums.variances)
        return exact_log_values(sums.totals / scale, sums.squares / scale**2)

    def half_widths(self, method: str | None = None) -> Floats:
        """Return the half-widths of all pairs' bounds, in nats per label."""
        sums, scale = self._sums_of(method)
        if scale is None:
            # Constant differences show nothing about later differences.
            varies = (sums.variances > 0) | (sums.totals == 0)
            n = sums.n * (varies & self._has_rare)
            return asymptotic_half_widths(n, sums.variances, self.level)
        totals = exact_half_widths(sums.squares / scale**2, self.level) * scale
        with np.errstate(divide="ignore"):
            return np.asarray(totals / sums.n)

    @property
    def _has_rare(self) -> NDArray[np.bool_]:
        """True if ``RARE`` labels are outside the most common class.

        Also True without labels. Shaped like the races, with two axes for encoders.
        """
        n_rare = self.counts.sum(-1) - self.counts.max(-1)
        return np.asarray((n_rare >= RARE) | ~self.counts.any(-1))[..., None, None]

    @property
    def leader(self) -> NDArray[np.intp]:
        """The remaining encoder with the smallest mean loss."""
        # Every remaining encoder has been compared with the first remaining encoder.
        first = self.alive.argmax(-1)[..., None, None]
        means = np.take_along_axis(self._sums_of()[0].means, first, axis=-1)[..., 0]
        return np.asarray(np.where(self.alive, means, np.inf).argmin(-1))

    def bounds(
        self, method: str | None = None, *, leader: ArrayLike | None = None
    ) -> tuple[Floats, Floats]:
        """Return lower and upper bounds on mean differences from the leader's loss."""
        first = np.asarray(self.leader if leader is None else leader)[..., None]
        means, widths = (
            np.take_along_axis(table, first[..., None], axis=-1)[..., 0]
            for table in (self._sums_of(method)[0].means, self.half_widths(method))
        )
        widths = np.where(np.arange(self.alive.shape[-1]) == first, 0.0, widths)
        return means - widths, means + widths

    def could_stop(self, method: str | None = None) -> NDArray[np.bool_]:
        """Return True if one encoder is left or the leader is shown to be close enough.

        Close enough means at most ``within`` nats per label worse than any remaining
        encoder.
        """
        alone = self.alive.sum(-1) == 1
        if self.within is None:
            return np.asarray(alone)
        gaps = np.where(self.alive, -self.bounds(method)[0], -np.inf).max(-1)
        return np.asarray(alone | (gaps <= self.within))

    def is_certified(self) -> NDArray[np.bool_]:
        """Return True if the exact process by itself allows the race to stop."""
        if self.clipped is None:
            return np.zeros(self.alive.shape[:-1], dtype=bool)
        shown = (self.alive | self.certified).all(-1)
        return np.asarray(shown & self.could_stop("exact"))

    def _sums_of(self, method: str | None = None) -> tuple[PairSums, float | None]:
        """Return the sums of a process, and the exact process's scale or None."""
        if (method or self.method) != "exact":
            return self.sums, None
        assert self.clipped is not None  # the exact process requires it
        assert self.n_classes is not None
        return self.clipped, float(2 * np.log(self.n_classes / CLIPPING))

    def copy(self) -> LossRace:
        """Return an independent copy (arrays are replaced, never changed in place)."""
        race = copy.copy(self)
        race.sums, race.clipped = copy.copy(self.sums), copy.copy(self.clipped)
        return race

    def repeated(self, n_copies: int) -> LossRace:
        """Return copies of a single race, with only its remaining encoders.

        Copies keep the sums so far and the level of each pair. The exact process is
        dropped unless it decides the race.
        """
        kept, race = np.flatnonzero(self.alive), self.copy()
        if self.method == "asymptotic":
            race.clipped = None
        for sums in (race.sums, race.clipped):
            for name, table in ({} if sums is None else vars(sums)).items():
                square = table[np.ix_(kept, kept)]
                setattr(sums, name, np.repeat(square[None], n_copies, axis=0))
        race.counts = np.repeat(self.counts[None], n_copies, axis=0)
        race.begin((n_copies, len(kept)))
        return race


def forecast_stop(
    race: LossRace,
    losses: Floats,
    *,
    most: int,
    labels: NDArray[np.intp] | None = None,
    n_draws: int = 64,
    random_state: int = 0,
) -> Floats:
    """Simulate how many more labels a race takes if losses keep their distribution.

    Future losses are drawn from the second half of the labels that the race counted. To
    include the uncertainty of this half's means, each draw first resamples the half.

    Parameters
    ----------
    race : LossRace
        A single race, which is not modified.
    losses : ndarray of shape (n_labels, n_encoders)
        Losses so far, in nats.
    most : int
        Number of labels to look ahead.
    labels : ndarray of shape (n_labels,), optional
        The classes so far, if they were passed to the race.
    n_draws : int
    random_state : int

    Returns
    -------
    labels : ndarray of shape (n_draws,)
        Number of further labels in each draw, in ascending order. Infinite for draws in
        which the race takes more than `most` labels.
    """
    copies, rng = race.repeated(n_draws), np.random.default_rng(random_state)
    half = (race.start + len(losses)) // 2
    recent = losses[half:, race.alive]
    chosen = rng.integers(len(recent), size=(n_draws, len(recent)))
    for _ in range(most):
        if copies.stopped_at.all():
            break
        rows = chosen[np.arange(n_draws), rng.integers(len(recent), size=n_draws)]
        copies.add(recent[rows], None if labels is None else labels[half:][rows])
    labels = np.where(copies.stopped_at > 0, copies.stopped_at - race.n_labels, np.inf)
    return np.sort(labels)


def forecast_interval(
    race: LossRace, losses: Floats, *, most: int, labels: NDArray[np.intp] | None = None
) -> tuple[float, float, float]:
    """Forecast how many more labels a race takes, as an 80 % interval and a median.

    The draws of :func:`forecast_stop` are too optimistic for real streams. So their
    median and their 90 % quantile are multiplied by ``SLOWER``.

    Parameters
    ----------
    race, losses, most, labels
        As for :func:`forecast_stop`.

    Returns
    -------
    low, median, high : float
        Numbers of labels. Values above `most` are replaced by infinity.
    """
    drawn = forecast_stop(race, losses, most=most, labels=labels)
    ends = np.quantile(drawn, (0.1, 0.5, 0.9), method="inverted_cdf")
    ends = ends * (1.0, SLOWER, SLOWER)
    low, median, high = np.where(ends > most, np.inf, ends).tolist()
    return low, median, high


def combined_e_values(e_values: ArrayLike, claim: str) -> Floats:
    """Combine exact e-values from several datasets.

    Parameters
    ----------
    e_values : array-like of shape (n_datasets, ...)
        One exact e-value for each dataset, each from a separate race over other rows.
        Do not pass values of the asymptotic process, which are not e-values.
    claim : {"on at least one", "on every one"}
        On how many datasets an encoder is claimed to be better. "on at least one"
        multiplies the e-values, so a single dataset can decide, and the claim may be
        true of both encoders of a pair. "on every one" takes the smallest. For "on
        average over all rows", run one race over all rows in an order fixed beforehand.

    Returns
    -------
    combined : ndarray
        Combined e-values. If the claim is false, the probability that such a value ever
        reaches ``1 / alpha`` is at most ``alpha``. So if you make claims only at values
        of 20 or more, each false claim has a probability of at most 5 %.

    Raises
    ------
    ValueError
        If the claim is unknown, or an e-value is negative or NaN.

    Examples
    --------
    >>> from sklearn_mdl.ranking import combined_e_values
    >>> print(combined_e_values([4.0, 10.0, 0.5], "on at least one"))
    20.0
    >>> print(combined_e_values([4.0, 10.0, 0.5], "on every one"))
    0.5
    """
    values = as_floats("e_values", e_values)
    claims: Sequence[str] = ("on at least one", "on every one")
    if claim not in claims:
        required, cure = " or ".join(map(repr, claims)), f"pass claim={claims[0]!r}"
        raise invalid("claim", required, claim, cure)
    if values.ndim == 0 or not len(values) or not (values >= 0).all():
        required = "one number of at least 0 for each dataset"
        cure = "for example, pass [4.0, 10.0] or np.exp(logs)"
        raise invalid("e_values", required, values.tolist(), cure)
    if claim == claims[1]:
        return np.asarray(values.min(0))
    product, powers = 1.0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        for part, power in zip(*np.frexp(values), strict=True):
            product, shift = np.frexp(product * part)  # partial products may overflow
            powers = np.clip(powers + power + shift, -(2**30), 2**30)  # fits a C int
        return np.where((values == 0).any(0), 0.0, np.ldexp(product, powers))
