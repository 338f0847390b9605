"""Nearest neighbours as a readout: nothing to train, strong when labels are few."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.experts.base import Expert
from sklearn_mdl.experts.voting import NeighborsLearner, Voters
from sklearn_mdl.experts.wrapped import Context
from sklearn_mdl.prequential import Learner


class NeighborsReadout(Expert):
    r"""The nearest of all rows learned so far vote, weighted by their distance.

    Distances are exact, to every row that was learned and in the scaling as it is now.
    With :math:`e_i` the excess of the ``i``-th nearest row's squared distance over the
    nearest one's, in units of the mean squared distance of all ``n_neighbors``,

    .. math::

        p_c \propto \Bigl(s + \sum_{i : y_i = c} w_i\Bigr)^\beta, \qquad
        w_i \propto e^{-e_i / h}, \qquad \sum_i w_i = 1.

    The bandwidth ``h`` and the heat :math:`\beta` are calibrated forwards. Smoothing
    ``s`` keeps every label possible. All readouts of one switcher with the same metric
    and scaling share their distances. Time is quadratic in the rows; rows are read
    where the walk keeps them, and may be more than memory holds.

    Parameters
    ----------
    n_neighbors : int, default=30
        Rows ``k`` that vote, or all where there are fewer. The earlier of two equally
        near ones comes first.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" divides scaled rows by their norms first.
    bandwidth : float, default=0.1
        ``h`` before calibration.
    smoothing : float, default=0.01
        ``s``, added to each class's share of the votes.
    calibration : bool, default=True
        Move ``log h`` and ``b``, with :math:`\beta = \log(1 + e^b)`, by one AdamW step
        on each minibatch before its rows join the others. Otherwise :math:`\beta = 1`.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned from full minibatches already scored: regularised
        standardising, or symmetric whitening with a shrunk covariance.
    batch_size : int, default=32
        Rows learned at once. A switcher's own value wins over its readouts'.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. A switcher's own wins.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        The same by example.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` walked the rows.

    References
    ----------
    Cover and Hart, 1967, Nearest neighbor pattern classification, IEEE Transactions on
    Information Theory 13. Wu, Xiong, Yu and Lin, 2018, Unsupervised feature learning
    via non-parametric instance discrimination, CVPR, section 3.4, whose weights fall
    exponentially, too.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import NeighborsReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = NeighborsReadout(10).fit(X[:128], y[:128])
    >>> readout.score(X[128:], y[128:]) > 0.9
    True
    """

    random_state = 0  # nothing is drawn

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions({"euclidean", "cosine"})],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "calibration": ["boolean"],
        "scaling": [StrOptions({"standard", "whiten"}), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
    }

    def __init__(
        self,
        n_neighbors: int = 30,
        *,
        metric: str = "euclidean",
        bandwidth: float = 0.1,
        smoothing: float = 0.01,
        calibration: bool = True,
        scaling: str | None = "standard",
        batch_size: int = 32,
        device: str = "auto",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.bandwidth = bandwidth
        self.smoothing = smoothing
        self.calibration = calibration
        self.scaling = scaling
        self.batch_size = batch_size
        self.device = device

    @property
    def architecture(self) -> str:
        """Short name: "neighbors"."""
        return "neighbors"

    @classmethod
    def _learners(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[Learner]:
        """One learner for all that look at the same distances."""
        groups: dict[tuple[str, str | None], list[Voters]] = {}
        for column, readout in members:
            settings = (getattr(readout, name) for name in Voters._fields[1:])
            voters = groups.setdefault((readout.metric, readout.scaling), [])
            voters.append(Voters(column, *settings))
        return [
            NeighborsLearner(
                voters,
                metric,
                scaling,
                context.scalings,
                context.n_classes,
                context.device,
            )
            for (metric, scaling), voters in groups.items()
        ]
