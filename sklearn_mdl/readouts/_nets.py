"""Linear and MLP classifiers and regressors that learn online."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, cast

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.base.regressor import OnlineRegressor
from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.stream.learner import Learner, Replay
from sklearn_mdl.readouts._base import COUNT, Readout
from sklearn_mdl.readouts._build import (
    FLOAT,
    Context,
    Members,
    build_stacks,
    hidden_widths,
)
from sklearn_mdl.readouts._stack import (
    Averaging,
    DensityStack,
    Member,
    NetStack,
    ReadoutStack,
    Shape,
    Training,
)

if TYPE_CHECKING:
    from sklearn_mdl.readouts._skorch_nets import StackNet


@dataclass(eq=False, repr=False, kw_only=True)
class NetReadout(Readout):
    """Base class of linear and MLP readouts, for classification and regression."""

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
        "hidden_layer_sizes": ["array-like", COUNT],  # only in MLPs
    }

    @property
    def hidden_layer_sizes(self) -> int | Sequence[int]:
        """Widths of the hidden layers; empty for a linear readout."""
        return ()

    @property
    def architecture(self) -> str:
        """Short name of the network: "linear", "mlp 2x256", "mlp 256-64"."""
        widths = hidden_widths(self.hidden_layer_sizes)
        if not widths:
            return "linear"
        if len(set(widths)) == 1:
            return f"mlp {len(widths)}x{widths[0]}"
        return "mlp " + "-".join(map(str, widths))

    @property
    def pool_kind(self) -> str:
        """Kind of the readout; readouts with averaged weights are a separate kind."""
        return super().pool_kind + (", averaged" if self.ema_step_size < 1 else "")

    @classmethod
    def learners_of(cls, members: Members[Any], context: Context) -> list[Learner]:
        """Make stacks of all networks, sorted from the most to the least expensive."""
        stacked = [
            (_shape(readout, context.precision), _member(readout, column, context.seed))
            for column, readout in members
        ]
        return build_stacks(stacked, context, cls.stack)

    @property
    def net_(self) -> StackNet:
        """The skorch net with module, criterion and optimiser."""
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
    """Return a key that is equal for readouts that may share computations.

    Networks that differ only in averaging share trained weights, and kernels that
    differ only in noise share a kernel matrix.
    """
    if not isinstance(readout, NetReadout):
        return readout.computation
    return _shape(readout, "float32"), _member(readout, 0, seed).training


def state_bytes(readout: Readout, n_features: int, n_outputs: int) -> int:
    """Return the size of a network's state in bytes, or 0 for other readouts.

    The size includes averaged weights. It is also 0 for readouts on a frozen encoder.
    """
    if not isinstance(readout.inner, NetReadout):
        return 0
    hidden = hidden_widths(readout.inner.hidden_layer_sizes)
    widths = (len(readout.places(n_features)), *hidden, n_outputs)
    return 5 * FLOAT * count_parameters(widths)


@dataclass(eq=False, repr=False, kw_only=True)
class _Readout(NetReadout, OnlineClassifier):
    """Base class of linear and MLP classifiers."""

    label_smoothing: float = 0.03

    stack = ReadoutStack


@dataclass(eq=False, repr=False, kw_only=True)
class LinearReadout(_Readout):
    """Linear softmax readout, learned online with replay.

    Use this readout by itself, as a classifier, or in a
    :class:`~sklearn_mdl.MDLReadoutSwitcher` (Li, Bornschein and Hutter, 2023, sec. 3).

    Parameters
    ----------
    lr : float, default=0.003
        Learning rate of AdamW.
    n_replay_streams : int or (int, int), default=10
        Number of replay streams, each of which runs through the minibatches so far in
        order. After a new minibatch, the readout takes a step on the next minibatch of
        each stream. With ``(first, least)``, the number is ``first`` up to 1,000 rows,
        then ``first * sqrt(1000 / n)`` at row ``n`` (rounded up, at least ``least``).
    beta1, beta2 : float, default=0.9, 0.999
        Decay rates of AdamW's moments.
    weight_decay : float, default=0.0
        AdamW's decoupled weight decay.
    eps : float, default=1e-8
        Term added to the square root of AdamW's second moment.
    ema_step_size : float, default=1.0
        Step size of averaged weights, which are used for prediction: ``average <- (1 -
        step) average + step weights`` after every optimiser step. 1 means no averaging.
    ema_warmup : bool, default=True
        Whether to make the ``n``-th averaging step at least ``1 / (n + 1)``. Otherwise,
        with a small step on a short stream, the average stays close to the initial
        weights.
    calibration : bool, default=True
        Whether to multiply logits by ``softplus(b)`` (forward calibration). The scalar
        ``b`` is updated on each minibatch, before the weights learn from it.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling: regularised standardisation, or symmetric whitening with a
        shrunk covariance. The scaling is computed from the features of the first
        minibatch, and again from all rows so far whenever their number has doubled.
    recency : float, default=1.0
        After ``t`` minibatches, a replay stream returns to the first with probability
        ``min(1, recency / t)``. With 1, all minibatches so far are equally likely.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    first_batch_size : int or None, default=None
        Number of rows in the first minibatches. It doubles after 32 minibatches, and
        again whenever the number of rows has doubled, until it reaches `batch_size`. If
        None, all minibatches have `batch_size` rows, as in the paper. A switcher
        overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed of replay outside a switcher. In a switcher, the switcher's `random_state`
        is used instead.
    label_smoothing : float, default=0.03
        Share of each training target that is spread over all classes. It only affects
        training: codelengths are computed from the true labels.

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

    Use this readout by itself, as a classifier, or in a
    :class:`~sklearn_mdl.MDLReadoutSwitcher` (Li, Bornschein and Hutter, 2023, sec. 3).

    Parameters
    ----------
    hidden_layer_sizes : int or tuple of int, default=(512,)
        Widths of the hidden layers.
    lr : float, default=0.003
        Learning rate of AdamW.
    n_replay_streams : int or (int, int), default=10
        Number of replay streams, each of which runs through the minibatches so far in
        order. After a new minibatch, the readout takes a step on the next minibatch of
        each stream. With ``(first, least)``, the number is ``first`` up to 1,000 rows,
        then ``first * sqrt(1000 / n)`` at row ``n`` (rounded up, at least ``least``).
    beta1, beta2 : float, default=0.9, 0.999
        Decay rates of AdamW's moments.
    weight_decay : float, default=0.0
        AdamW's decoupled weight decay.
    eps : float, default=1e-8
        Term added to the square root of AdamW's second moment.
    ema_step_size : float, default=1.0
        Step size of averaged weights, which are used for prediction: ``average <- (1 -
        step) average + step weights`` after every optimiser step. 1 means no averaging.
    ema_warmup : bool, default=True
        Whether to make the ``n``-th averaging step at least ``1 / (n + 1)``. Otherwise,
        with a small step on a short stream, the average stays close to the initial
        weights.
    calibration : bool, default=True
        Whether to multiply logits by ``softplus(b)`` (forward calibration). The scalar
        ``b`` is updated on each minibatch, before the weights learn from it.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling: regularised standardisation, or symmetric whitening with a
        shrunk covariance. The scaling is computed from the features of the first
        minibatch, and again from all rows so far whenever their number has doubled.
    recency : float, default=1.0
        After ``t`` minibatches, a replay stream returns to the first with probability
        ``min(1, recency / t)``. With 1, all minibatches so far are equally likely.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    first_batch_size : int or None, default=None
        Number of rows in the first minibatches. It doubles after 32 minibatches, and
        again whenever the number of rows has doubled, until it reaches `batch_size`. If
        None, all minibatches have `batch_size` rows, as in the paper. A switcher
        overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights and, outside a switcher, of replay. In a switcher, None
        means the switcher's seed.
    label_smoothing : float, default=0.03
        Share of each training target that is spread over all classes. It only affects
        training: codelengths are computed from the true labels.

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
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.
    """

    hidden_layer_sizes: int | Sequence[int] = (512,)


@dataclass(eq=False, repr=False, kw_only=True)
class _RegressorReadout(NetReadout, OnlineRegressor):
    """Base class of linear and MLP regressors."""

    likelihood: str = "gaussian"
    degrees_of_freedom: float = 4.0
    heteroscedastic: bool = True
    prior_location: float = 0.0
    prior_scale: float = 1.0

    stack = DensityStack

    _parameter_constraints: ClassVar[Constraints] = {
        **NetReadout._parameter_constraints,
        "likelihood": [StrOptions({"gaussian", "student-t"})],
        "degrees_of_freedom": [Interval(Real, 0, 1e6, closed="right")],
        "heteroscedastic": ["boolean"],
    }

    @property
    def tails(self) -> float:
        """Degrees of freedom of the density; infinite for a Gaussian."""
        gaussian = self.likelihood == "gaussian"
        return math.inf if gaussian else float(self.degrees_of_freedom)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearReadoutRegressor(_RegressorReadout):
    """Linear readout with a Gaussian or Student-t density, learned online with replay.

    Use this readout by itself, as a regressor, or in a
    :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`. Labels are standardised with
    statistics of known labels, but codelengths refer to the original units.

    Parameters
    ----------
    lr : float, default=0.01
        Learning rate of AdamW.
    n_replay_streams : int or (int, int), default=10
        Number of replay streams, each of which runs through the minibatches so far in
        order. After a new minibatch, the readout takes a step on the next minibatch of
        each stream. With ``(first, least)``, the number is ``first`` up to 1,000 rows,
        then ``first * sqrt(1000 / n)`` at row ``n`` (rounded up, at least ``least``).
    beta1, beta2 : float, default=0.9, 0.999
        Decay rates of AdamW's moments.
    weight_decay : float, default=0.0
        AdamW's decoupled weight decay.
    eps : float, default=1e-8
        Term added to the square root of AdamW's second moment.
    ema_step_size : float, default=1.0
        Step size of averaged weights, which are used for prediction: ``average <- (1 -
        step) average + step weights`` after every optimiser step. 1 means no averaging.
    ema_warmup : bool, default=True
        Whether to make the ``n``-th averaging step at least ``1 / (n + 1)``.
    calibration : bool, default=True
        Whether to divide the scale of the density by ``softplus(b)`` (forward
        calibration). The scalar ``b`` is updated on each minibatch, before the weights
        learn from it.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, as in :class:`~sklearn_mdl.LinearReadout`. Scaled features are
        clipped to the range from -50 to 50.
    recency : float, default=1.0
        After ``t`` minibatches, a replay stream returns to the first with probability
        ``min(1, recency / t)``. With 1, all minibatches so far are equally likely.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    first_batch_size : int or None, default=None
        Number of rows in the first minibatches. It doubles after 32 minibatches, and
        again whenever the number of rows has doubled, until it reaches `batch_size`. If
        None, all minibatches have `batch_size` rows, as in the paper. A switcher
        overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed of replay outside a switcher. In a switcher, the switcher's `random_state`
        is used instead.
    likelihood : {"gaussian", "student-t"}, default="gaussian"
        Density of the label. The net predicts the location and log scale of the
        density.
    degrees_of_freedom : float, default=4.0
        Degrees of freedom of the Student-t, at most 1e6.
    heteroscedastic : bool, default=True
        Whether the scale depends on the features. If False, all rows share one scale.
    prior_location, prior_scale : float, default=0.0, 1.0
        Location and scale, in the units of the labels, of the fixed Student-t with one
        degree of freedom that predicts the first minibatch. A switcher overrides them.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the labels without features, under a Gaussian whose mean and variance
        are learned online, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_mdl.readouts import LinearReadoutRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> readout = LinearReadoutRegressor(prior_location=150, prior_scale=75)
    >>> readout = readout.set_params(heteroscedastic=False, random_state=0).fit(X, y)
    >>> bool(readout.codelength_ < readout.reference_codelengths_.sum())
    True
    """

    lr: float = 0.01


@dataclass(eq=False, repr=False)
class MLPReadoutRegressor(_RegressorReadout):
    """Multilayer perceptron with a Gaussian or Student-t density, learned online.

    Use this readout by itself, as a regressor, or in a
    :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`. Labels are standardised with
    statistics of known labels, but codelengths refer to the original units.

    Parameters
    ----------
    hidden_layer_sizes : int or tuple of int, default=(512,)
        Widths of the hidden layers.
    lr : float, default=0.003
        Learning rate of AdamW.
    n_replay_streams : int or (int, int), default=10
        Number of replay streams, each of which runs through the minibatches so far in
        order. After a new minibatch, the readout takes a step on the next minibatch of
        each stream. With ``(first, least)``, the number is ``first`` up to 1,000 rows,
        then ``first * sqrt(1000 / n)`` at row ``n`` (rounded up, at least ``least``).
    beta1, beta2 : float, default=0.9, 0.999
        Decay rates of AdamW's moments.
    weight_decay : float, default=0.0
        AdamW's decoupled weight decay.
    eps : float, default=1e-8
        Term added to the square root of AdamW's second moment.
    ema_step_size : float, default=1.0
        Step size of averaged weights, which are used for prediction: ``average <- (1 -
        step) average + step weights`` after every optimiser step. 1 means no averaging.
    ema_warmup : bool, default=True
        Whether to make the ``n``-th averaging step at least ``1 / (n + 1)``.
    calibration : bool, default=True
        Whether to divide the scale of the density by ``softplus(b)`` (forward
        calibration). The scalar ``b`` is updated on each minibatch, before the weights
        learn from it.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, as in :class:`~sklearn_mdl.LinearReadout`. Scaled features are
        clipped to the range from -50 to 50.
    recency : float, default=1.0
        After ``t`` minibatches, a replay stream returns to the first with probability
        ``min(1, recency / t)``. With 1, all minibatches so far are equally likely.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    first_batch_size : int or None, default=None
        Number of rows in the first minibatches. It doubles after 32 minibatches, and
        again whenever the number of rows has doubled, until it reaches `batch_size`. If
        None, all minibatches have `batch_size` rows, as in the paper. A switcher
        overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights and, outside a switcher, of replay. In a switcher, None
        means the switcher's seed.
    likelihood : {"gaussian", "student-t"}, default="gaussian"
        Density of the label. The net predicts the location and log scale of the
        density.
    degrees_of_freedom : float, default=4.0
        Degrees of freedom of the Student-t, at most 1e6.
    heteroscedastic : bool, default=True
        Whether the scale depends on the features. If False, all rows share one scale.
    prior_location, prior_scale : float, default=0.0, 1.0
        Location and scale, in the units of the labels, of the fixed Student-t with one
        degree of freedom that predicts the first minibatch. A switcher overrides them.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the labels without features, under a Gaussian whose mean and variance
        are learned online, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.
    """

    hidden_layer_sizes: int | Sequence[int] = (512,)
