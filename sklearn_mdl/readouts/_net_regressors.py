"""Linear and MLP regressors that learn online."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from sklearn_mdl._core.base.regressor import OnlineRegressor
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl.readouts._nets import NetReadout
from sklearn_mdl.readouts._stack import DensityStack


@dataclass(eq=False, repr=False, kw_only=True)
class _RegressorReadout(NetReadout, OnlineRegressor):
    """Base of linear and MLP regressors."""

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

    A complete regressor, and a readout of
    :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`. Labels are standardised by the
    minibatches before, and coded in their own units.

    Parameters
    ----------
    lr : float, default=0.01
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
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``.
    calibration : bool, default=True
        Forward calibration: divide the scale by ``softplus(b)``, where the scalar ``b``
        is learned on each minibatch before the weights see its labels.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned from full minibatches already scored.
    recency : float, default=1.0
        With ``t`` minibatches seen, a replay stream jumps back to the first with
        probability ``recency / t``; 1 is uniform replay.
    batch_size : int, default=32
        Rows learned at once. A switcher overrides this.
    first_batch_size : int or None, default=None
        Rows learned at once at the beginning of a stream: minibatches have so many
        until there are 32 times as many rows, then twice as many until these have
        doubled, and so on up to `batch_size`. None learns whole minibatches from the
        start, as the paper. A switcher's own value overrides this.
    device : str, default="auto"
        Torch device; "auto" takes a GPU if there is one. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Initial weights, and, outside a switcher, the replay. None takes the switcher's.
    likelihood : {"gaussian", "student-t"}, default="gaussian"
        Density of the label: the net gives its location and the logarithm of its scale.
    degrees_of_freedom : float, default=4.0
        Of the Student-t, at most 1e6; a Gaussian has none.
    heteroscedastic : bool, default=True
        Let the scale depend on the features; otherwise one scale is learned for all.
    prior_location, prior_scale : float, default=0.0, 1.0
        Of the fixed Student-t with one degree of freedom that predicts the first
        minibatch, in the units of the labels. A switcher's own win.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        The same by example.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the same labels under a Gaussian that learns online and uses no
        feature, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` took the rows.
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

    A complete regressor, and a readout of
    :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`. Labels are standardised by the
    minibatches before, and coded in their own units.

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
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``.
    calibration : bool, default=True
        Forward calibration: divide the scale by ``softplus(b)``, where the scalar ``b``
        is learned on each minibatch before the weights see its labels.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned from full minibatches already scored.
    recency : float, default=1.0
        With ``t`` minibatches seen, a replay stream jumps back to the first with
        probability ``recency / t``; 1 is uniform replay.
    batch_size : int, default=32
        Rows learned at once. A switcher overrides this.
    first_batch_size : int or None, default=None
        Rows learned at once at the beginning of a stream: minibatches have so many
        until there are 32 times as many rows, then twice as many until these have
        doubled, and so on up to `batch_size`. None learns whole minibatches from the
        start, as the paper. A switcher's own value overrides this.
    device : str, default="auto"
        Torch device; "auto" takes a GPU if there is one. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Initial weights, and, outside a switcher, the replay. None takes the switcher's.
    likelihood : {"gaussian", "student-t"}, default="gaussian"
        Density of the label: the net gives its location and the logarithm of its scale.
    degrees_of_freedom : float, default=4.0
        Of the Student-t, at most 1e6; a Gaussian has none.
    heteroscedastic : bool, default=True
        Let the scale depend on the features; otherwise one scale is learned for all.
    prior_location, prior_scale : float, default=0.0, 1.0
        Of the fixed Student-t with one degree of freedom that predicts the first
        minibatch, in the units of the labels. A switcher's own win.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        The same by example.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the same labels under a Gaussian that learns online and uses no
        feature, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` took the rows.
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.
    """

    hidden_layer_sizes: int | Sequence[int] = (512,)
