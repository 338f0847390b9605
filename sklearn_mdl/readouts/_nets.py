"""Linear and MLP classifiers that learn online."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl._core.sklearn_compat import Constraints
from sklearn_mdl._core.stream.learner import Replay
from sklearn_mdl.readouts._base import COUNT, Readout
from sklearn_mdl.readouts._build import (
    FLOAT,
    Context,
    architecture_of,
    build_stacks,
    hidden_widths,
)
from sklearn_mdl.readouts._stack import (
    Averaging,
    Member,
    NetStack,
    ReadoutStack,
    Shape,
    StackNet,
    Training,
)


@dataclass(eq=False, repr=False, kw_only=True)
class NetReadout(Readout):
    """Base of linear readouts and MLPs, of classes and of real numbers."""

    stack: ClassVar[type[NetStack]]
    lr: float = 0.003
    n_replay_streams: int | Sequence[int] = 10
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.0
    eps: float = 1e-8
    ema_step_size: float = 1.0
    ema_warmup: bool = True
    calibration: bool = True
    scaling: str | None = "standard"
    recency: float = 1.0
    batch_size: int = 32
    first_batch_size: int | None = None
    device: str = "auto"
    random_state: RandomState = None

    _parameter_constraints: ClassVar[Constraints] = {
        **Readout._parameter_constraints,
        "hidden_layer_sizes": ["array-like", COUNT],  # of MLPs
    }

    @property
    def hidden_layer_sizes(self) -> int | Sequence[int]:
        """Widths of the hidden layers: a linear readout has none."""
        return ()

    @property
    def architecture(self) -> str:
        """Short name of the shape: "linear", "mlp 2x256", "mlp 256-64"."""
        return architecture_of(self.hidden_layer_sizes)

    @property
    def pool_kind(self) -> str:
        """Kind of the readout; those that predict with averaged weights are another."""
        averaged = ", averaged" if self.ema_step_size < 1 else ""
        return super().pool_kind + averaged

    @classmethod
    def learners_of(
        cls, members: Sequence[tuple[int, Any]], context: Context
    ) -> list[NetStack]:
        """Stacks of all networks, the most expensive first."""
        stacked = [
            (_shape(readout, context.precision), _member(readout, column, context.seed))
            for column, readout in members
        ]
        return build_stacks(stacked, context, cls.stack)

    @property
    def net_(self) -> StackNet:
        """The skorch net that holds module, criterion and optimiser."""
        (stack,) = self._run.learners
        return cast(NetStack, stack).net


def _shape(readout: NetReadout, precision: str) -> Shape:
    replay = Replay.requested(readout.n_replay_streams, readout.recency)
    return Shape(hidden_widths(readout.hidden_layer_sizes), replay, precision)


def _member(readout: NetReadout, column: int, seed: int) -> Member:
    names = [name for name in Training._fields[2:] if hasattr(readout, name)]
    settings = {name: float(getattr(readout, name)) for name in names}
    averaging = Averaging(*(getattr(readout, name) for name in Averaging._fields))
    training = Training(readout.scaling, readout.seed_or(seed), **settings)
    return Member(column, training, averaging)


def shared_work(readout: Readout, seed: int) -> Hashable:
    """Name what a readout trains or computes: equal names are worked out once.

    Networks that differ only in averaging are one training, and kernels that differ
    only in their noise have one kernel matrix.
    """
    if not isinstance(readout, NetReadout):
        return readout.computation
    return _shape(readout, "float32"), _member(readout, 0, seed).training


def state_bytes(readout: Readout, n_features: int, n_outputs: int) -> int:
    """Bytes of weights, gradients, moments and averages; 0 for other readouts."""
    if not isinstance(readout, NetReadout):
        return 0
    widths = (n_features, *hidden_widths(readout.hidden_layer_sizes), n_outputs)
    return 5 * FLOAT * count_parameters(widths)


@dataclass(eq=False, repr=False, kw_only=True)
class _Readout(NetReadout, OnlineClassifier):
    """Base of linear and MLP classifiers."""

    label_smoothing: float = 0.03

    stack = ReadoutStack


class LinearReadout(_Readout):
    """Linear softmax readout, learned online with replay.

    A complete classifier, and a readout of
    :class:`~sklearn_mdl.MDLReadoutSwitcher` (Li, Bornschein and Hutter, 2023, sec. 3).

    Parameters
    ----------
    lr : float, default=0.003
        Learning rate of AdamW.
    n_replay_streams : int or (int, int), default=10
        Replay streams ``S``: each new minibatch is followed by one step on each. Of a
        pair, the first number serves the first 1,000 rows; after ``n`` rows it has
        fallen by a factor of ``sqrt(1000 / n)``, to the last number at least.
    beta1, beta2 : float, default=0.9, 0.999
        Decay of AdamW's moments.
    weight_decay : float, default=0.0
        AdamW's decoupled weight decay.
    eps : float, default=1e-8
        Added to the root of AdamW's second moment.
    ema_step_size : float, default=1.0
        Predict with averaged weights: ``average <- (1 - step) average + step weights``
        after every optimiser step. At 1 the weights themselves predict.
    ema_warmup : bool, default=True
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``; without it a small
        step never leaves the initial weights on a short stream.
    calibration : bool, default=True
        Forward calibration: multiply logits by ``softplus(b)``, where the scalar ``b``
        is learned on each minibatch before the weights see its labels.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned from full minibatches already scored: regularised
        standardising, or symmetric whitening with a shrunk covariance.
    recency : float, default=1.0
        With ``t`` minibatches seen, a replay stream jumps back to the first with
        probability ``recency / t``; 1 is uniform replay.
    batch_size : int, default=32
        Rows learned at once. A switcher's value overrides those of its readouts.
    first_batch_size : int or None, default=None
        Rows learned at once at the beginning of a stream: minibatches have so many
        until there are 32 times as many rows, then twice as many until these have
        doubled, and so on up to `batch_size`. None learns whole minibatches from the
        start, as the paper. A switcher's own value overrides this.
    device : str, default="auto"
        Torch device; "auto" takes a GPU if there is one. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Initial weights, and, outside a switcher, the replay. None takes the switcher's.
    label_smoothing : float, default=0.03
        Share of each training target spread over all classes. It affects only training:
        the code is that of the true labels.

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
        Order in which ``fit`` took the rows.
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import LinearReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = LinearReadout(lr=0.03, random_state=0).fit(X[:128], y[:128])
    >>> readout.score(X[128:], y[128:]) > 0.9
    True
    """


@dataclass(eq=False, repr=False)
class MLPReadout(_Readout):
    """Multilayer perceptron readout with ReLU, learned online with replay.

    A complete classifier, and a readout of
    :class:`~sklearn_mdl.MDLReadoutSwitcher` (Li, Bornschein and Hutter, 2023, sec. 3).

    Parameters
    ----------
    hidden_layer_sizes : int or tuple of int, default=(512,)
        Widths of the hidden layers.
    lr : float, default=0.003
        Learning rate of AdamW.
    n_replay_streams : int or (int, int), default=10
        Replay streams ``S``: each new minibatch is followed by one step on each. Of a
        pair, the first number serves the first 1,000 rows; after ``n`` rows it has
        fallen by a factor of ``sqrt(1000 / n)``, to the last number at least.
    beta1, beta2 : float, default=0.9, 0.999
        Decay of AdamW's moments.
    weight_decay : float, default=0.0
        AdamW's decoupled weight decay.
    eps : float, default=1e-8
        Added to the root of AdamW's second moment.
    ema_step_size : float, default=1.0
        Predict with averaged weights: ``average <- (1 - step) average + step weights``
        after every optimiser step. At 1 the weights themselves predict.
    ema_warmup : bool, default=True
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``; without it a small
        step never leaves the initial weights on a short stream.
    calibration : bool, default=True
        Forward calibration: multiply logits by ``softplus(b)``, where the scalar ``b``
        is learned on each minibatch before the weights see its labels.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned from full minibatches already scored: regularised
        standardising, or symmetric whitening with a shrunk covariance.
    recency : float, default=1.0
        With ``t`` minibatches seen, a replay stream jumps back to the first with
        probability ``recency / t``; 1 is uniform replay.
    batch_size : int, default=32
        Rows learned at once. A switcher's value overrides those of its readouts.
    first_batch_size : int or None, default=None
        Rows learned at once at the beginning of a stream: minibatches have so many
        until there are 32 times as many rows, then twice as many until these have
        doubled, and so on up to `batch_size`. None learns whole minibatches from the
        start, as the paper. A switcher's own value overrides this.
    device : str, default="auto"
        Torch device; "auto" takes a GPU if there is one. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Initial weights, and, outside a switcher, the replay. None takes the switcher's.
    label_smoothing : float, default=0.03
        Share of each training target spread over all classes. It affects only training:
        the code is that of the true labels.

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
        Order in which ``fit`` took the rows.
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.
    """

    hidden_layer_sizes: int | Sequence[int] = (512,)
