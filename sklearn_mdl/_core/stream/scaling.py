r"""Feature scaling learned online, by a running standardiser or whitener.

A scaling maps a row ``x`` to ``(x - m) T``. It is computed from all rows so far, and
refreshed whenever their number has doubled. Readouts with the same scaling share it. At
a refresh, the first layer of a readout is re-expressed,

.. math::

    W' = T_{new}^{-1} T_{old} W, \qquad b' = b + (m_{new} - m_{old}) T_{old} W,

so that the function of the readout does not jump. Without a scaling, encoders could be
penalised for differences that an affine map can undo.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.kernels.whitening import MAX_VALUES, oas_share
from sklearn_mdl._core.numerics import flushed_denormals
from sklearn_mdl._core.stream.samples import SampleStore, SomeFeatures
from sklearn_mdl._core.stream.schedule import Schedule

ReExpression = Callable[[Tensor, Tensor], None]  # changes weight and bias in place
Features = tuple[int, ...] | None  # columns of X; None means all of them

MAX_WHITENED_FEATURES = MAX_VALUES
BLOCK = 1024  # largest number of rows scaled and predicted together
GROWTH = 32  # number of parts before their size first doubles
TAKEN_AT_ONCE = 2**21  # number of values whose moments are computed together
# Size of the cache of scaled minibatches. For example, a segment with 16 streams and
# 768 features in two scalings reads 110 MB.
KEPT_BYTES = {"cpu": 128 * 2**20, "cuda": 8 * 2**30}
LARGEST_FACTOR = 1e30  # if larger, float32 features are nearly denormal
_EIGENVALUE_FLOOR = 1e-6  # relative to the mean, close to the precision of float32


@dataclass(frozen=True)
class Scaling:
    """The affine map ``x -> (x - mean) T``, with a diagonal or a symmetric ``T``.

    Parameters
    ----------
    mean : Tensor of shape (d,), float64
    transform, inverse : Tensor of shape (d,) or (d, d), float64
        ``T`` and its inverse, one-dimensional if diagonal.
    """

    mean: Tensor
    transform: Tensor
    inverse: Tensor
    is_extreme: bool = field(init=False)  # features may be denormal numbers

    def __post_init__(self) -> None:
        """Look for extreme factors now, since reading them in a run stalls a GPU."""
        extreme = bool(self.transform.abs().max() > LARGEST_FACTOR)
        object.__setattr__(self, "is_extreme", extreme)

    def apply(self, x: Tensor) -> Tensor:
        """Scale float32 minibatches, (n, B, d) to (n, B, d)."""
        if x.dtype == torch.float32 and self.is_extreme:
            with flushed_denormals(False):
                return self.apply(x.double()).float()
        centred = x - self.mean.to(x)
        transform = self.transform.to(x)
        if transform.ndim == 1:
            return centred * transform
        # One product per minibatch, since the shape of a product affects its last bits.
        return torch.bmm(centred, transform.expand(len(x), -1, -1))

    def re_expression(self, old: Scaling) -> ReExpression:
        """Return a function that adapts first layers to this scaling.

        Parameters
        ----------
        old : Scaling
            Scaling to which the layers are adapted so far.

        Returns
        -------
        re_express : callable
            Changes ``weight`` (K, h, d) and ``bias`` (K, 1, h) in place.
        """
        diagonal = old.transform.ndim == 1
        if diagonal:
            change = self.inverse * old.transform
            shift = (self.mean - old.mean) * old.transform
        else:
            change = old.transform @ self.inverse  # both are symmetric
            shift = (self.mean - old.mean) @ old.transform

        def re_express(weight: Tensor, bias: Tensor) -> None:
            # Use bmm, since @ has different algorithms for one and several readouts.
            some_shift = shift.to(weight).expand(len(weight), 1, -1)
            bias.add_(torch.bmm(some_shift, weight.mT))
            factor = change.to(weight)
            if diagonal:
                weight.mul_(factor)
            else:
                weight.copy_(torch.bmm(weight, factor.expand(len(weight), -1, -1)))

        return re_express


class RunningStandardizer:
    """Running mean and regularised running variance of every feature.

    The (lower) median of the positive variances is added to the variance of each
    feature. Otherwise the noise of nearly constant features, such as many pixels of the
    digits data, would be scaled up. The median is used instead of the mean so that one
    feature on a large scale, as in the wine data, does not suppress the others.

    Parameters
    ----------
    n_features : int
        Width ``d``.
    """

    def __init__(self, n_features: int) -> None:
        self.n_rows = 0
        self.mean = torch.zeros(n_features, dtype=torch.float64)
        self.scatter = torch.zeros(n_features, dtype=torch.float64)

    def update(self, X: np.ndarray) -> None:
        """Update with a block of rows (n, d) (Chan, Golub and LeVeque, 1983)."""
        # Sum by rows in a fixed order, for any memory layout of X.
        with flushed_denormals(False):  # all features may be denormal
            x = torch.from_numpy(np.array(X, dtype=np.float64, order="C"))
        centre = x.mean(0)
        gap = centre - self.mean
        total = self.n_rows + len(x)
        between = self._scatter(gap[None]) * (self.n_rows * len(x) / total)
        self.scatter += self._scatter(x - centre) + between
        self.mean = self.mean + gap * (len(x) / total)
        self.n_rows = total

    def _scatter(self, centred: Tensor) -> Tensor:
        return centred.square().sum(0)

    @property
    def varies(self) -> bool:
        """True once some feature has a positive variance, which defines a unit."""
        return bool((self.scatter > 0).any())

    def scaling(self) -> Scaling:
        """Return the scaling computed from the rows observed so far."""
        variance = self.scatter / self.n_rows
        positive = variance[variance > 0]
        usual = positive.median() if len(positive) else torch.ones(())
        deviation = (variance + usual).sqrt()
        return Scaling(self.mean, 1 / deviation, deviation)


class RunningWhitener(RunningStandardizer):
    """Running mean and shrunk covariance, for symmetric (ZCA) whitening.

    The covariance is shrunk towards a multiple of the identity by the oracle
    approximating rule (Chen, Wiesel, Eldar and Hero, 2010), which shrinks less as the
    number of rows grows. The symmetric inverse root does not rotate axes, so weights
    keep their meaning at a refresh.

    Parameters
    ----------
    n_features : int
        Width ``d``, at most ``MAX_WHITENED_FEATURES``, since the time of the
        eigendecomposition grows as ``d ** 3``.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.scatter = torch.zeros(n_features, n_features, dtype=torch.float64)

    def _scatter(self, centred: Tensor) -> Tensor:
        return centred.T @ centred

    def scaling(self) -> Scaling:
        """Return the scaling computed from the rows observed so far."""
        covariance = shrunk_covariance(self.scatter / self.n_rows, self.n_rows)
        values, vectors = torch.linalg.eigh(covariance)
        values = values.clamp_min(_EIGENVALUE_FLOOR * values.mean())
        values = torch.where(values > 0, values, 1.0).sqrt()  # (d,) standard deviations
        transform = (vectors / values) @ vectors.T
        return Scaling(self.mean, transform, (vectors * values) @ vectors.T)


RUNNING = {"standard": RunningStandardizer, "whiten": RunningWhitener}


def check_width(scaling: str | None, n_features: int) -> None:
    """Raise ValueError if there are too many features to whiten."""
    if scaling == "whiten" and n_features > MAX_WHITENED_FEATURES:
        raise ValueError(
            f"scaling='whiten' needs at most {MAX_WHITENED_FEATURES} features, got "
            f"{n_features}; pass scaling='standard', or reduce X with PCA(256)"
        )


def shrunk_covariance(covariance: Tensor, n_rows: int) -> Tensor:
    """Shrink the covariance (d, d) of ``n_rows`` rows by the rule of Chen et al."""
    d = len(covariance)
    spread = float(covariance.square().mean())
    level = float(covariance.diagonal().mean())
    share = oas_share(spread, level, d, n_rows)
    identity = torch.eye(d, dtype=covariance.dtype)
    return (1 - share) * covariance + share * level * identity


class ScaledRows:
    """A stream as readouts see it: scaled minibatches of rows, and revealed labels.

    A minibatch is scaled when it is read, in blocks of at most ``BLOCK`` rows. Scaled
    blocks are cached for other learners and replay streams until the scaling changes or
    space is needed. So a stream whose rows are on disk may be larger than memory. Rows
    of a block that have not arrived yet are zero.

    Parameters
    ----------
    store : SampleStore
        The raw rows.
    scalings : sequence of {"standard", "whiten", None}
        Every minibatch is available in each scaling. None means unscaled rows.
    batch_size : int
    device : torch.device
    reach : float
        Distance from the mean at which scaled features are clipped.
    label_dtype : torch.dtype
    first : int or None
        Number ``f`` of rows in the first parts of minibatches (see :meth:`part`). If
        None, parts are whole minibatches.

    Attributes
    ----------
    labels : Tensor
        Labels in the order of the rows; entries after the revealed labels are unused.
        Each learner reads only labels of rows that it has scored.
    schedule : Schedule
        Schedule of when labels become known, by default immediately.
    n_refreshed : int
        Number of rows used by the last refresh. In a scaling that has no statistics
        yet, all rows are zero: before the first refresh, and until some feature varies.
    sees : tuple of int or None
        Columns of the stream that these rows contain. None means all.
    views : dict of ScaledRows
        These rows, and views of some columns, keyed by the columns. A view uses only
        statistics of its columns, so a learner learns the same as from a stream with
        only these columns. Views share the labels and the schedule.
    """

    sees: Features = None

    def __init__(
        self,
        store: SampleStore,
        scalings: Sequence[str | None],
        batch_size: int,
        device: torch.device,
        reach: float = math.inf,
        label_dtype: torch.dtype = torch.long,
        first: int | None = None,
    ) -> None:
        self.store = store
        self.batch_size = batch_size
        self.first = min(first or batch_size, batch_size)
        self.block_size = min(batch_size, BLOCK)
        self.device = device
        self.reach = reach
        self.running = [
            None if scaling is None else RUNNING[scaling](store.n_features)
            for scaling in scalings
        ]
        self.current: list[Scaling | None] = [None] * len(scalings)
        self.n_refreshed = 0
        self.schedule = Schedule()
        self.labels = torch.empty(0, dtype=label_dtype, device=device)
        self._n_rows = 0
        n_numbers = len(scalings) * self.block_size * max(1, store.n_features)
        self._kept = _Kept(KEPT_BYTES.get(device.type, KEPT_BYTES["cuda"]), n_numbers)
        self.views: dict[Features, ScaledRows] = {self.sees: self}

    def of(self, sees: Features, scalings: Sequence[str | None] = ()) -> ScaledRows:
        """Return the rows as a learner sees them, adding a view if needed."""
        if sees is not None and sees not in self.views:
            store, first = SomeFeatures(self.store, sees), self.first
            settings = self.batch_size, self.device, self.reach, self.labels.dtype
            view = ScaledRows(store, scalings, *settings, first)
            view.schedule = self.schedule
            view.sees, view.views = sees, {sees: view}
            view.labels = self.labels
            self.views[sees] = view
        return self.views[sees]

    def between(self, start: int, stop: int) -> Tensor:
        """Return rows ``start`` to ``stop`` (n_scalings, n, d) in every scaling.

        Rows that have not arrived are zero.
        """
        pieces = []
        while start < stop:
            index, place = divmod(start, self.batch_size)
            number, skipped = divmod(place, self.block_size)
            room = min(self.block_size - skipped, self.batch_size - place)
            n_rows = min(room, stop - start)
            pieces.append(self._block(index, number)[:, skipped : skipped + n_rows])
            start += n_rows
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1)

    def _block(self, index: int, number: int) -> Tensor:
        block = self._kept.get((index, number))
        if block is None:
            start = index * self.batch_size + number * self.block_size
            end = min(start + self.block_size, (index + 1) * self.batch_size)
            block = self.scaled(self.store.rows(start, min(end, self._n_rows)))
            if start < self._n_rows:
                self._kept.put((index, number), block)
        return block

    def scaled(self, X: np.ndarray) -> Tensor:
        """Scale raw rows, at most a block, and pad the block with zeros.

        The result has shape (n_scalings, block_size, d).
        """
        padded = np.zeros((1, self.block_size, self.store.n_features), np.float32)
        padded[0, : len(X)] = X
        x = torch.from_numpy(padded).to(self.device)
        rows = torch.zeros(len(self.running), *x.shape[1:], device=self.device)
        pairs = zip(self.running, self.current, strict=True)
        for i, (running, scaling) in enumerate(pairs):
            if running is None:
                rows[i] = x[0]
            elif scaling is not None:
                rows[i] = scaling.apply(x)[0]
                if self.reach < math.inf:
                    rows[i].clamp_(-self.reach, self.reach)
        rows[:, len(X) :] = 0
        return rows

    def labelled(self, index: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return rows and labels of a minibatch up to row ``stop``."""
        start = index * self.batch_size
        end = min(start + self.batch_size, stop)
        return self.between(start, end), self.labels[start:end]

    def parts(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the first row and the end of each complete part up to a row."""
        start, end = self.part(0)
        while end <= stop:
            yield start, end
            start, end = self.part(end)

    def reveal(self, start: int, labels: Tensor) -> None:
        """Write labels from row ``start`` on. All learners write the same labels."""
        self.labels[start : start + len(labels)] = labels

    def extend(self, stop: int) -> None:
        """Make the store's rows up to ``stop`` readable, with space for labels."""
        if stop > self._n_rows:
            index, place = divmod(self._n_rows, self.batch_size)
            self._kept.pop((index, place // self.block_size), None)  # was not full
            self._n_rows = stop
        if stop > len(self.labels):
            room = self.labels.new_empty(max(stop, 2 * len(self.labels)))
            room[: len(self.labels)] = self.labels
            self.labels = room
        for view in self.views.values():
            if view is not self:
                view.labels = self.labels
                view.extend(stop)

    def next_refresh(self, n_rows: int) -> int:
        """Return the next number of rows, f, 2f, 4f, ..., at which a refresh is due.

        ``f`` is the number of rows in the first parts of minibatches.
        """
        return self.first << (n_rows // self.first).bit_length()

    def refreshes(self, n_rows: int) -> Iterator[int]:
        """Yield the numbers of rows, up to ``n_rows``, at which scalings are refreshed.

        The first refresh uses the first rows before they are scored. If a refresh is
        due within a group, scalings are refreshed at the end of the group.
        """
        if n_rows >= self.first:
            yield self.first
        due = self.schedule.closing(self.first - 1)
        while due <= n_rows:
            if due > self.first:
                yield due
            due = self.schedule.closing(self.next_refresh(due) - 1)

    def part(self, row: int) -> tuple[int, int]:
        """Return the first row and the end of the minibatch part that contains a row.

        A part has ``f`` rows in minibatches that begin before row ``32 f``, ``2 f``
        rows in those that begin before row ``64 f``, and so on, until parts are whole
        minibatches. So after the first ``16 f`` rows, a part has at most a sixteenth as
        many rows as precede it.
        """
        begin = row - row % self.batch_size
        doublings = (begin // (GROWTH * self.first)).bit_length()
        size = min(self.first << doublings, self.batch_size)
        start = row - (row - begin) % size
        return start, min(start + size, begin + self.batch_size)

    def keep_views(self, used: Collection[Features]) -> None:
        """Drop views that no learner uses any more."""
        views = self.views.items()
        self.views = {k: v for k, v in views if v is self or k in used}

    def refresh_all(self, n_rows: int) -> dict[Features, list[ReExpression | None]]:
        """Refresh these rows and their views, and return the changes of each view."""
        return {sees: view.refresh(n_rows) for sees, view in self.views.items()}

    def refresh(self, n_rows: int) -> list[ReExpression | None]:
        """Update scalings with the rows up to ``n_rows``, and rescale all rows.

        Returns
        -------
        changes : list of callable or None, one per scaling
            Functions that adapt first layers (:meth:`Scaling.re_expression`). None
            without scaling, while no feature varies, and at the first refresh, before
            which nothing was learned.
        """
        # The size of blocks must not depend on how rows arrive.
        step = max(self.batch_size, TAKEN_AT_ONCE // max(1, self.store.n_features))
        for start in range(self.n_refreshed, n_rows, step):
            rows = self.store.rows(start, min(start + step, n_rows))
            for running in self.running:
                if running is not None:
                    running.update(rows)
        is_first, self.n_refreshed = not self.n_refreshed, n_rows
        self._kept.clear()
        changes: list[ReExpression | None] = []
        for i, running in enumerate(self.running):
            old = self.current[i]
            new = None if running is None or not running.varies else running.scaling()
            self.current[i] = new
            if new is None or is_first:
                changes.append(None)
            else:
                changes.append(_unchanged if old is None else new.re_expression(old))
        return changes


def _unchanged(weight: Tensor, bias: Tensor) -> None:
    """Leave a first layer unchanged, since all rows it has learned were zero."""


class _Kept(dict[tuple[int, int], Tensor]):
    """Cache of blocks with a limit in bytes, which drops the oldest blocks first.

    Learners in several threads share the cache.
    """

    def __init__(self, n_bytes: int, n_numbers: int) -> None:
        super().__init__()
        self.n_places = max(1, n_bytes // (4 * n_numbers))
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_Kept], tuple[int, int]]:
        """Copy only the size, since blocks can be scaled again."""
        return _Kept, (4 * self.n_places, 1)

    def put(self, place: tuple[int, int], block: Tensor) -> None:
        with self._lock:
            self[place] = block
            while len(self) > self.n_places:
                del self[next(iter(self))]
