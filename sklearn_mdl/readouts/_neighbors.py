"""Exact nearest neighbours as an online readout."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from sklearn_mdl._core.nets.adamw import IDENTITY, ForwardCalibration, logit_scale_of
from sklearn_mdl._core.sklearn_compat import Constraints, StrOptions
from sklearn_mdl._core.stream.learner import Batches, Learned, Learner
from sklearn_mdl._core.stream.scaling import ReExpression, ScaledRows
from sklearn_mdl.readouts._base import COUNT, POSITIVE, BaseReadout, last_restart
from sklearn_mdl.readouts._build import Context, Members, grouped

BLOCK = 2048  # rows whose distances are computed together
KEPT_BYTES = {"cpu": 2**29, "cuda": 2**33}  # maximum size of scaled rows in memory
PLACE_BITS = 32  # low bits of a key, for the position; high bits hold the distance

Block = tuple[Tensor, Tensor]  # rows (n, d) and their squared norms (n,)


class SeenRows:
    """The rows of a run, among which nearest neighbours are found.

    Rows are read block by block from the run's store, in the current scaling. Full
    blocks are kept until the scaling changes, up to ``KEPT_BYTES``. Other blocks are
    read again every time, so a stream may be larger than memory.

    Parameters
    ----------
    rows : ScaledRows
        Rows of the run.
    view : int
        Index of the scaling.
    metric : {"euclidean", "cosine"}
    """

    def __init__(self, rows: ScaledRows, view: int, metric: str) -> None:
        self.rows = rows
        self.view = view
        self.metric = metric
        n_numbers = BLOCK * max(1, rows.store.n_features)
        kept = KEPT_BYTES.get(rows.device.type, KEPT_BYTES["cuda"])
        self._n_kept = max(1, kept // (4 * n_numbers))
        self.forget()

    def __getstate__(self) -> dict[str, object]:
        """Leave out the rows, which can be read again."""
        return {**self.__dict__, "_blocks": {}, "_origin": None}

    def forget(self) -> None:
        """Drop all kept rows, so that they are read again in a new scaling."""
        self._blocks: dict[int, Block] = {}
        self._origin: Tensor | None = None

    def nearest(
        self, x: Tensor, rows: tuple[int, int], n_neighbors: int
    ) -> tuple[Tensor, Tensor]:
        """Find the nearest neighbours of ``x`` among some rows of the run.

        Parameters
        ----------
        x : Tensor of shape (B, d)
            Scaled rows whose neighbours are found.
        rows : (int, int)
            The first row to search, and the row after the last row to search.
        n_neighbors : int

        Returns
        -------
        distances : Tensor of shape (B, k), float64
            Squared Euclidean distances, nearest first. With the metric "cosine", rows
            are first divided by their norms, which gives twice the cosine distance.
        places : Tensor of shape (B, k)
            Positions of the neighbours. The earlier of two equally near rows comes
            first. ``k`` is ``n_neighbors``, or the number of rows if that is smaller.
        """
        (first, last), (query, norms) = rows, self._as_points(x)
        best = torch.empty((len(x), 0), dtype=torch.int64, device=x.device)
        for start in range(first - first % BLOCK, last, BLOCK):
            offset = max(start, first)
            block = self._block(start, min(start + BLOCK, last))
            points, squares = (part[offset - start :] for part in block)
            shifted = torch.addmm(squares, query, points.T, alpha=-2)
            best = torch.cat([best, _keys(shifted + norms[:, None], offset)], 1)
            k = min(n_neighbors, best.shape[1])
            best = best.topk(k, largest=False, sorted=True).values
        distances = (best >> PLACE_BITS).to(torch.int32).view(torch.float32)
        return distances.double(), best & (2**PLACE_BITS - 1)

    def _block(self, start: int, stop: int) -> Block:
        kept = self._blocks.get(start)
        if kept is None:
            kept = self._as_points(self._scaled(start, stop))
            if stop - start == BLOCK and len(self._blocks) < self._n_kept:
                self._blocks[start] = kept
        return kept

    def _scaled(self, start: int, stop: int) -> Tensor:
        raw = torch.tensor(self.rows.store.rows(start, stop), device=self.rows.device)
        scaling = self.rows.current[self.view]
        if scaling is not None:
            return scaling.apply(raw[None])[0]
        return raw if self.rows.running[self.view] is None else torch.zeros_like(raw)

    def _as_points(self, x: Tensor) -> Block:
        """Return rows (n, d), normalised or minus the first row, and squared norms.

        If features are far from zero, squared norms about zero are large, and their
        rounding errors would hide small distances. With the first row as the origin,
        features that are whole numbers remain whole, and equal distances remain equal.
        """
        if self.metric == "cosine":
            points = torch.nn.functional.normalize(x, dim=1)
        else:
            if self._origin is None:
                self._origin = self._scaled(0, 1)
            points = x - self._origin
        return points, points.square().sum(1)


def _keys(distances: Tensor, start: int) -> Tensor:
    """Return sort keys (B, n), by distance and then by position."""
    # Non-negative floats sort like their bits. Adding zero turns -0.0 into 0.0.
    bits = distances.clamp_min(0).add(0.0).view(torch.int32).long()
    places = torch.arange(start, start + bits.shape[1], device=bits.device)
    return (bits << PLACE_BITS) | places


TINY = 1e-300
BANDWIDTHS = (1e-4, 1e4)  # bounds for calibration


class NeighborSettings(NamedTuple):
    """Position and settings of one readout."""

    column: int
    n_neighbors: int
    bandwidth: float
    smoothing: float
    calibration: bool


class Points(NamedTuple):
    """Settings that determine which distances are computed.

    Attributes
    ----------
    metric : {"euclidean", "cosine"}
    scaling : {"standard", "whiten"} or None
    window : int or None
        Number of most recent rows to compare (all rows if None).
    restart : int or None
        If given, only rows after the last odd multiple of this number are compared.
    """

    metric: str
    scaling: str | None
    window: int | None = None
    restart: int | None = None

    def rows(self, n_learned: int) -> tuple[int, int]:
        """Return the first row to compare, and the row after the last one."""
        first = 0 if self.window is None else max(0, n_learned - int(self.window))
        if self.restart is not None:
            first = max(first, last_restart(n_learned, int(self.restart)))
        return first, n_learned


class NeighborsLearner(Learner):
    """Learner for nearest-neighbour readouts that use the same distances.

    Parameters
    ----------
    members : sequence of NeighborSettings
    points : Points
    context : Context
    """

    is_numbers = True

    def __init__(
        self, members: Sequence[NeighborSettings], points: Points, context: Context
    ) -> None:
        self.columns = [member.column for member in members]
        self.members = list(members)
        self.points = points
        self.view = context.view
        self.place = context.view.scalings.index(points.scaling)
        self.classes = torch.arange(context.n_classes, device=context.device)
        self.n_learned = 0
        start = [[IDENTITY, math.log(member.bandwidth)] for member in members]
        self.calibration = ForwardCalibration(torch.tensor(start, dtype=torch.float64))

    def attach(self, rows: ScaledRows) -> None:
        """Store the rows of the run."""
        self.rows = rows
        self.seen = SeenRows(rows, self.place, self.points.metric)

    def predict(self, x: Tensor) -> Tensor:
        """Return log-probabilities (K, n, C), float64, of rows (n_scalings, n, d)."""
        if not self._knows_any:
            shape = (len(self.members), x.shape[1], len(self.classes))
            return x.new_full(shape, -math.log(shape[2]), dtype=torch.float64)
        votes = [self._vote(i, *excess) for i, excess in enumerate(self._excesses(x))]
        return torch.stack([log_proba for log_proba, _ in votes])

    @property
    def _knows_any(self) -> bool:
        first, last = self.points.rows(self.n_learned)
        return first < last

    def _excesses(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield ``e_i`` of `KNeighborsReadout` (n, k) and votes (n, k, C)."""
        most = max(member.n_neighbors for member in self.members)
        compared = self.points.rows(self.n_learned)
        distances, places = self.seen.nearest(x[self.place], compared, most)
        votes = (self.rows.labels[places][..., None] == self.classes).double()
        for member in self.members:
            near = distances[:, : member.n_neighbors]
            unit = near.mean(1, keepdim=True).clamp_min(TINY)
            yield (near - near[:, :1]) / unit, votes[:, : member.n_neighbors]

    def _vote(
        self, index: int, excess: Tensor, votes: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], list[float]]]:
        """Return log-probabilities (n, C), and a function for `calibrate`.

        The function differentiates the loss of labels (n,) with respect to the raw
        logit scale and the log bandwidth.
        """
        raw, log_bandwidth = self.calibration.member(index)
        logit_scale, slope = logit_scale_of(raw)
        scaled = excess / math.exp(log_bandwidth)
        weights = torch.softmax(-scaled, 1)
        shares = torch.bmm(weights[:, None], votes)[:, 0]
        smoothed = shares + self.members[index].smoothing
        logits = smoothed.log()
        log_proba = torch.log_softmax(logit_scale * logits, 1)

        def slopes(y: Tensor) -> list[float]:
            onehot = (y[:, None] == self.classes).double()
            error = log_proba.exp() - onehot  # derivative by scaled logits, (n, C)
            by_scale = (error * logits).sum(1).mean()
            mean = (weights * scaled).sum(1, keepdim=True)
            change = weights * (scaled - mean)  # derivative of weights, (n, k)
            moved = torch.bmm(change[:, None], votes)[:, 0]  # of shares, (n, C)
            by_width = (error * moved / smoothed).sum(1).mean()
            return [float(by_scale) * slope, logit_scale * float(by_width)]

        return log_proba, slopes

    def update(self, x: Tensor, y: Tensor, replayed: Batches) -> None:
        """Let the rows of a new minibatch vote from now on."""
        self.n_learned += len(y)

    def calibrate(self, x: Tensor, y: Tensor) -> None:
        """Update logit scales and bandwidths by one step on the loss of new rows."""
        calibrated = any(member.calibration for member in self.members)
        if not (calibrated and self._knows_any):
            return
        slopes = [
            self._vote(i, *excess)[1](y) if self.members[i].calibration else [0.0, 0.0]
            for i, excess in enumerate(self._excesses(x))
        ]
        self.calibration.learn(torch.tensor(slopes, dtype=torch.float64))
        low, high = map(math.log, BANDWIDTHS)
        self.calibration.values.data[:, 1].clamp_(low, high)

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Compute distances in the new scaling from now on."""
        if changes[self.place] is not None:
            self.seen.forget()

    def add_classes(self, n: int) -> None:
        """Add classes that no row has yet."""
        self.classes = torch.arange(len(self.classes) + n, device=self.classes.device)

    def retire(self, columns: Collection[int]) -> None:
        """Drop some readouts without changing the others."""
        kept = [i for i, column in enumerate(self.columns) if column not in columns]
        self.columns = [self.columns[i] for i in kept]
        self.members = [self.members[i] for i in kept]
        self.calibration = self.calibration.pick(kept)

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return the state under the first column, without rows and labels."""
        n_learned = torch.tensor(self.n_learned)
        state = {"n_learned": n_learned, **self.calibration.state_dict()}
        return {self.columns[0]: state}

    def load_state_dict(self, learned: Learned) -> None:
        """Load the state of a learner with the same readouts."""
        state = learned[self.columns[0]]
        self.n_learned = int(state["n_learned"])
        self.calibration.load_state_dict(state)


@dataclass(eq=False, repr=False)
class KNeighborsReadout(BaseReadout):
    r"""Nearest neighbours among the rows learned so far, weighted by distance.

    The search is exact. It uses the current scaling and covers all rows learned so far,
    unless `window` or `restart` is set. Let :math:`d_i` be the squared distance to the
    ``i``-th nearest row, and :math:`e_i = (d_i - d_1) / \bar d`, where :math:`\bar d`
    is the mean of :math:`d_i` over the ``n_neighbors`` nearest rows. Then

    .. math::

        p_c \propto \Bigl(s + \sum_{i : y_i = c} w_i\Bigr)^\beta, \qquad
        w_i \propto e^{-e_i / h}, \qquad \sum_i w_i = 1.

    Forward calibration learns the bandwidth ``h`` and the scale :math:`\beta`.
    Smoothing ``s`` gives every label a positive probability. Readouts of a switcher
    share distances if they have the same metric, scaling, `window` and `restart`.
    Unless `window` or `restart` is set, time is quadratic in the number of rows. The
    rows need not fit into memory.

    Parameters
    ----------
    n_neighbors : int, default=30
        Number of rows that vote. If there are fewer rows, all rows vote. Of two equally
        near rows, the earlier one comes first.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Metric of the distances. "cosine" first divides scaled rows by their norms.
    bandwidth : float, default=0.1
        Initial bandwidth ``h``, which calibration changes.
    smoothing : float, default=0.01
        Smoothing ``s``, which is added to each class's share of the votes.
    calibration : bool, default=True
        Whether to update ``log h`` and ``b``, with :math:`\beta = \log(1 + e^b)`, by
        one AdamW step on each minibatch before its rows may vote. If False,
        :math:`\beta = 1` and ``h`` is fixed.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling: regularised standardisation, or symmetric whitening with a
        shrunk covariance. The scaling is computed from the features of the first
        minibatch, and again from all rows so far whenever their number has doubled.
    window : int, default=None
        Number of most recent rows that may vote (all rows if None).
    restart : int, default=None
        If given, only rows after the last odd multiple of this number vote. Scaling and
        calibration do not restart.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.

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
    Cover and Hart, 1967, Nearest neighbor pattern classification, IEEE Transactions on
    Information Theory 13. Wu, Xiong, Yu and Lin, 2018, Unsupervised feature learning
    via non-parametric instance discrimination, CVPR, section 3.4 (which also uses
    exponential weights).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import KNeighborsReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = KNeighborsReadout(10).fit(X[:128], y[:128])
    >>> readout.score(X[128:], y[128:]) > 0.9
    True
    """

    n_neighbors: int = 30
    _: KW_ONLY
    metric: str = "euclidean"
    bandwidth: float = 0.1
    smoothing: float = 0.01
    calibration: bool = True
    scaling: str | None = "standard"
    window: int | None = None
    restart: int | None = None
    batch_size: int = 32
    device: str = "auto"

    architecture = "neighbors"
    random_state = 0  # uses no random numbers

    _parameter_constraints: ClassVar[Constraints] = {
        **BaseReadout._parameter_constraints,
        "n_neighbors": [COUNT],
        "metric": [StrOptions({"euclidean", "cosine"})],
        "bandwidth": [POSITIVE],
        "smoothing": [POSITIVE],
    }

    @classmethod
    def learners_of(cls, members: Members[Self], context: Context) -> list[Learner]:
        """Make one learner for all readouts that use the same distances."""
        points_of = attrgetter(*Points._fields)
        settings_of = attrgetter(*NeighborSettings._fields[1:])
        groups = grouped(
            (Points(*points_of(r)), NeighborSettings(column, *settings_of(r)))
            for column, r in members
        )
        return [NeighborsLearner(own, p, context) for p, own in groups.items()]
