"""Linear discriminants and nearest class means, updated label by label.

A block of rows needs only two matrix products: rows with class sums, and rows with each
other. When a label arrives, its row is added to the sum of its class. The products of
later rows with this sum are then updated by their products with the added row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.kernels.whitening import MAX_VALUES, centring, whitening
from sklearn_mdl._core.numerics import as_doubles
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl.readouts._base import POSITIVE, BaseReadout
from sklearn_mdl.readouts._build import Context, Members
from sklearn_mdl.readouts._kernel_rows import WITHIN, Memory, last_refresh, unit_rows
from sklearn_mdl.readouts._row_learners import CalibratedLearner, RowBlock

Mapping = Callable[[Tensor], Tensor]  # transforms rows (n, d)

LAST = 8192  # rows after which statistics are fixed; a quarter of this for wide rows
TINY = 1e-150
ROUNDING = 1e-6  # sums shorter than this share of a row are rounding errors


class Reference(NamedTuple):
    """Settings by which rows are transformed and compared with class means.

    Attributes
    ----------
    column : int
    scaling : {"within-class", "centered", None}
    shrinkage : float
        Shrinkage of the within-class covariance.
    is_cosine : bool
        True to compare a row ``x`` with a class mean ``m`` by their cosine, False to
        use ``(m' x - m' m / 2) / |x|``.
    """

    column: int
    scaling: str | None
    shrinkage: float
    is_cosine: bool

    def mapping(self, rows: Tensor, labels: Tensor) -> Mapping:
        """Return the transformation with statistics of rows (n, d) and their labels."""
        if self.scaling == WITHIN:
            if bool((rows == rows[0]).all()):  # no variance yet
                return unit_rows
            return whitening(rows, labels, self.shrinkage).apply
        return _as_is if self.scaling is None else centring(rows).apply


def scores_of(
    products: np.ndarray,
    squares: np.ndarray,
    sums: np.ndarray,
    counts: np.ndarray,
    is_cosine: np.ndarray,
) -> tuple[Tensor, Tensor]:
    """Return scores (K, n, C), zero for classes without rows, and ones as variances.

    Parameters
    ----------
    products : ndarray of shape (K, n, C)
        Products of rows with class sums.
    squares, sums : ndarray of shape (K, n) and (K, C)
        Squared lengths of the rows and of the sums.
    counts : ndarray of shape (C,)
    is_cosine : ndarray of shape (K, 1, 1)
    """
    lengths = np.maximum(np.sqrt(squares), TINY)[..., np.newaxis]
    sums, shrunk = sums[:, np.newaxis], counts + 1.0
    straight = (products - sums / (2 * shrunk)) / shrunk
    # If the rows of a class cancel, their sum consists of rounding errors.
    cosine = products / np.maximum(np.sqrt(np.maximum(sums, 0)), ROUNDING * lengths)
    scores = torch.from_numpy(np.where(is_cosine, cosine, straight) / lengths)
    return scores, torch.ones(scores.shape[:2]).double()


class OpenMeans(RowBlock):
    """Block of rows whose labels are observed after the rows are transformed.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        The known rows of the block.
    rows : Tensor of shape (K, B, d)
        The transformed rows.
    sums : Tensor of shape (K, C, d)
        Sums of earlier rows by class.
    counts : ndarray of shape (C,)
    is_cosine : ndarray of shape (K, 1, 1)
    """

    def __init__(
        self,
        raw: np.ndarray,
        rows: Tensor,
        sums: Tensor,
        counts: np.ndarray,
        is_cosine: np.ndarray,
    ) -> None:
        super().__init__(raw, rows.shape[1])
        self.rows = rows
        self.products = torch.bmm(rows, sums.mT).cpu().numpy()
        self.among = torch.bmm(rows, rows.mT).cpu().numpy()
        self.squares = np.diagonal(self.among, axis1=1, axis2=2)
        self.sums = sums.square().sum(2).cpu().numpy()
        self.counts, self.is_cosine = counts.copy(), is_cosine

    def ahead(self, n_rows: int) -> tuple[Tensor, Tensor]:
        """Return scores (K, n, C) of the next rows, and ones (K, n) as variances."""
        rows = slice(self.n_observed, self.n_observed + n_rows)
        of_rows = self.products[:, rows], self.squares[:, rows]
        return scores_of(*of_rows, self.sums, self.counts, self.is_cosine)

    def observe(self, targets: Tensor) -> None:
        """Observe the labels (n,) of the next rows."""
        is_read = self.n_observed + len(targets) < self.size  # if products are needed
        for label in targets.tolist():
            t = self.n_observed
            if is_read:
                added = 2 * self.products[:, t, label] + self.squares[:, t]
                self.sums[:, label] += added
                self.products[:, :, label] += self.among[:, :, t]
            self.counts[label] += 1
            self.n_observed += 1


class MeansLearner(CalibratedLearner):
    """Learner for discriminants and class means that use the same rows.

    Parameters
    ----------
    members : sequence of Reference
    memory : Memory
    context : Context
    """

    def __init__(
        self, members: Sequence[Reference], memory: Memory, context: Context
    ) -> None:
        super().__init__(memory, context)
        self.members = list(members)
        self.columns = [member.column for member in members]
        self.n_features = context.n_features
        self.calibration = self._calibration(context.n_classes)
        self._block: OpenMeans | None = None
        self._forget()

    def _calibration(self, n_classes: int) -> ForwardSoftmax:
        return ForwardSoftmax(len(self.columns), n_classes, has_variances=False)

    def _forget(self) -> None:
        """Reset sums and transformations to their state before the first row."""
        counts, d = self.calibration.counts, self.n_features
        shape = len(self.members), len(counts), d
        self._sums = torch.zeros(shape, dtype=torch.float64, device=self.device)
        self._counts = np.zeros(len(counts))  # number of rows in each sum
        self._maps: list[Mapping] = [
            unit_rows if member.scaling == WITHIN else _as_is for member in self.members
        ]

    @property
    def _is_cosine(self) -> np.ndarray:
        return np.array([member.is_cosine for member in self.members])[:, None, None]

    def targets(self, labels: Tensor) -> Tensor:
        """Return the labels unchanged."""
        return labels

    def _mapped(self, raw: np.ndarray) -> Tensor:
        """Return transformed rows (K, n, d)."""
        x = as_doubles(raw, self.device)
        return torch.stack([mapping(x) for mapping in self._maps])

    def _open(self, number: int) -> OpenMeans:
        start, _ = self._ends(number)
        block = self._new_block(start)
        block.observe(self._labels[start:number].cpu())
        return block

    def _new_block(self, start: int) -> OpenMeans:
        raw, padded = self._read(start)
        rows = self._mapped(padded)
        rows[:, len(raw) :] = 0
        return OpenMeans(raw, rows, self._sums, self._counts, self._is_cosine)

    def _close(self, block: RowBlock) -> None:
        assert isinstance(block, OpenMeans)
        n_rows = self.n_observed
        if n_rows == self._refreshed(n_rows):
            self._refresh(n_rows)
        else:
            self._add(block.rows, n_rows - block.rows.shape[1])

    def _refreshed(self, n_rows: int) -> int:
        """Return how many of the first ``n_rows`` rows determine the statistics."""
        is_wide = self.n_features > MAX_VALUES
        return last_refresh(min(n_rows, LAST // 4 if is_wide else LAST))

    def _refresh(self, n_rows: int) -> None:
        """Compute statistics of the first rows, and sum these rows by class."""
        raw, labels = self._raw(0, n_rows), self._labels[:n_rows]
        x = as_doubles(raw, self.device)
        self._maps = [member.mapping(x, labels) for member in self.members]
        self._sums.zero_()
        self._counts = np.zeros_like(self._counts)
        self._add(self._mapped(raw), 0)

    def _add(self, rows: Tensor, start: int) -> None:
        """Add rows (K, n, d) to the sums of their classes."""
        labels = self._labels[start : start + rows.shape[1]]
        self._sums = self._sums.index_add(1, labels, rows)
        np.add.at(self._counts, labels.cpu().numpy(), 1)

    def predict_others(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        start, _ = self._ends(self.n_observed)
        sums, counts = self._sums, self._counts
        if self.n_observed > start:
            block = self._block or self._open(self.n_observed)
            known, counts = block.rows[:, : block.n_observed], block.counts
            sums = sums.index_add(1, self._labels[start : self.n_observed], known)
        rows = self._mapped(raw.cpu().numpy())
        of_rows = torch.bmm(rows, sums.mT), rows.square().sum(2), sums.square().sum(2)
        products, squares, sum_squares = (each.cpu().numpy() for each in of_rows)
        return scores_of(products, squares, sum_squares, counts, self._is_cosine)

    def _recompute(self) -> None:
        """Recompute the sums over complete blocks, in the same steps as before."""
        self._forget()
        complete, _ = self._ends(self.n_observed)
        start = self._refreshed(complete)
        if start:
            self._refresh(start)
        for first, _ in self._blocks(start, complete):
            self._add(self._new_block(first).rows, first)

    def _begin_again(self) -> None:
        """Learn the known rows again, if any, starting from the last calibration."""
        self._recompute()
        labels, before = self._labels[: self.n_observed].cpu(), self.calibration
        self.calibration = self._calibration(len(before.counts))
        if len(labels):
            self.calibration.factors = before.factors.copy()
            sums, counts = self._sums, self._counts
            self._sums, self._counts = torch.zeros_like(sums), np.zeros_like(counts)
            for start, end in self._blocks(0, len(labels)):
                block = self._new_block(start)
                for label in labels[start:end, None]:
                    self.learn(*block.ahead(1), label)
                    block.observe(label)
                self._add(block.rows, start)
            self._sums, self._counts = sums, counts

    def add_classes(self, n: int) -> None:
        """Add classes that no row has yet."""
        self.calibration.add_classes(n)
        self._sums = torch.nn.functional.pad(self._sums, (0, 0, 0, n))
        self._counts = np.append(self._counts, np.zeros(n))
        self._block = None  # reopened when needed

    def _keep(self, kept: list[int]) -> None:
        super()._keep(kept)
        self.members = [self.members[i] for i in kept]
        self._maps = [self._maps[i] for i in kept]
        self._sums = self._sums[kept]


def _as_is(rows: Tensor) -> Tensor:
    return rows


@dataclass(eq=False, repr=False, kw_only=True)
class MeansReadout(BaseReadout):
    """Base class of readouts that compare a row with the mean of every class."""

    batch_size: int = 32
    device: str = "auto"
    window: int | None = None
    restart: int | None = None

    random_state = 0  # uses no random numbers
    takes_raw_rows = True
    is_cosine: ClassVar[bool] = True

    _parameter_constraints: ClassVar[Constraints] = {
        **BaseReadout._parameter_constraints,
        "shrinkage": [POSITIVE],
        "window": [Interval(Integral, 64, None, closed="left"), None],
        "restart": [Interval(Integral, 8, None, closed="left"), None],
        "scaling": [StrOptions({"centered", WITHIN}), None],
    }

    @classmethod
    def learners_of(cls, members: Members[Any], context: Context) -> list[MeansLearner]:
        """Make one learner for each set of readouts that use the same rows."""
        alike: dict[Memory, list[Reference]] = {}
        for column, r in members:
            own = Reference(column, r.scaling, float(r.shrinkage), r.is_cosine)
            alike.setdefault(Memory(None, r.window, r.restart), []).append(own)
        return [MeansLearner(group, memory, context) for memory, group in alike.items()]


@dataclass(eq=False, repr=False)
class DiscriminantReadout(MeansReadout):
    r"""Calibrated linear discriminant analysis, updated at every row.

    After 8, 16, 32, ... rows, the whitening is recomputed from the within-class
    covariance of these rows,

    .. math::

        S = (D^T D + d\, h\, T) / (f + d\, h)

    plus 1e-3 times the mean eigenvalue of ``S`` on the diagonal. Here ``D`` holds the
    rows minus their class means. ``f`` is the number of these rows minus the number of
    classes seen, and at least 1. ``T`` is the covariance of these rows with oracle
    approximating shrinkage, and ``h`` is `shrinkage`. Class means are updated after
    every label. In whitened, centred coordinates, a class of :math:`n_c` rows with sum
    :math:`s_c` has the mean :math:`m_c = s_c / (n_c + 1)` and the score
    :math:`(m_c^T x - m_c^T m_c / 2) / \|x\|`. Scores become probabilities as in
    :class:`~sklearn_mdl.KernelReadout`, but only with the terms of ``b`` and ``a``.
    Until the whitening is first computed from rows that differ, rows are only divided
    by their length. The whitening is fixed after 8,192 rows, or after 2,048 rows with
    more than 2,048 features.

    Each row takes ``O(d * (d + C))`` time. Rows are whitened in blocks of at most 32.
    After 4,096 rows, labels are also learned block by block, unless `window` or
    `restart` is set. The readout works best with many classes and few rows per class.

    Parameters
    ----------
    shrinkage : float, default=0.1
        Weight ``h`` of the total covariance ``T``, which counts as ``d * h`` rows.
    batch_size : int, default=32
        Has no effect, since this readout does not learn in minibatches.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    window, restart : int, default=None
        When to forget old rows, as in :class:`~sklearn_mdl.KernelReadout`. `window`
        limits the number of rows in the means and the covariance, and `restart` resets
        both.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    References
    ----------
    Friedman, 1989, Regularized discriminant analysis, Journal of the American
    Statistical Association 84. Chen, Wiesel, Eldar and Hero, 2010, Shrinkage algorithms
    for MMSE covariance estimation, IEEE Transactions on Signal Processing 58.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl.readouts import DiscriminantReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = DiscriminantReadout().fit(X[:128], y[:128])
    >>> readout.codelength_ < 128  # nats; guessing costs log(3) per label
    True
    """

    shrinkage: float = 0.1

    scaling = WITHIN  # not a parameter
    is_cosine = False
    architecture = "discriminant"


@dataclass(eq=False, repr=False)
class CentroidReadout(MeansReadout):
    """Calibrated nearest-class-mean classifier with cosine scores.

    The score of a class is the cosine between the row and the class mean so far.
    If the class has no rows yet, its score is 0. Scores become probabilities as in
    :class:`~sklearn_mdl.KernelReadout`, but only with the terms of ``b`` and ``a``.

    Parameters
    ----------
    scaling : {"centered", "within-class"} or None, default="centered"
        "centered" first subtracts the mean of earlier rows, which is refreshed after 8,
        16, 32, ... rows, up to 8,192 (up to 2,048 with more than 2,048 features).
        "within-class" also whitens rows as :class:`DiscriminantReadout` does. If None,
        rows are unchanged.
    shrinkage : float, default=0.1
        Shrinkage of the within-class covariance, only used with "within-class".
    batch_size : int, default=32
        Has no effect, since this readout does not learn in minibatches.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    window, restart : int, default=None
        When to forget old rows, as in :class:`~sklearn_mdl.KernelReadout`. `window`
        limits the number of rows in the means, and `restart` resets the means.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    References
    ----------
    Mensink, Verbeek, Perronnin and Csurka, 2013, Distance-based image classification:
    generalizing to new classes at near-zero cost, IEEE TPAMI 35.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl.readouts import CentroidReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = CentroidReadout().fit(X[:128], y[:128])
    >>> readout.codelength_ < 128  # nats; guessing costs log(3) per label
    True
    """

    scaling: str | None = "centered"
    shrinkage: float = 0.1

    architecture = "class mean"


MeansReadout.family = MeansReadout
