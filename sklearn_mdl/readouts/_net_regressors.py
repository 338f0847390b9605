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
        """Degrees of freedom of the density (infinite for a Gaussian)."""
        gaussian = self.likelihood == "gaussian"
        return math.inf if gaussian else float(self.degrees_of_freedom)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearReadoutRegressor(_RegressorReadout):
    """Linear readout with a Gaussian or Student-t density, learned online with replay.

    Use it as a regressor by itself or as a readout of
    :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`. Labels are standardised by
    earlier minibatches, but codelengths refer to the original units.

    Parameters
    ----------
    lr : float, default=0.01
        Learning rate of AdamW.
    n_replay_streams : int or (int, int), default=10
        Number of replay streams. Each new minibatch is followed by one step on each. A
        pair ``(first, least)`` uses ``first`` streams for the first 1,000 rows. After
        ``n`` rows it uses ``first * sqrt(1000 / n)`` streams, but at least ``least``.
    beta1, beta2 : float, default=0.9, 0.999
        Decay of AdamW's moments.
    weight_decay : float, default=0.0
        AdamW's decoupled weight decay.
    eps : float, default=1e-8
        Added to the square root of AdamW's second moment.
    ema_step_size : float, default=1.0
        Predict with averaged weights: ``average <- (1 - step) average + step weights``
        after every optimiser step. With 1 there is no averaging.
    ema_warmup : bool, default=True
        Make the ``n``-th averaging step at least ``1 / (n + 1)``.
    calibration : bool, default=True
        Forward calibration: divide the scale by ``softplus(b)``. The scalar ``b`` takes
        a step on each minibatch before the weights learn its labels.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned from full minibatches already scored.
    recency : float, default=1.0
        After ``t`` minibatches, a replay stream returns to the first minibatch with
        probability ``recency / t``. 1 is uniform replay.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    first_batch_size : int or None, default=None
        Number of rows in the first minibatches of a stream. Minibatches double after 32
        times as many rows. They double again each time the number of rows has doubled,
        until they reach `batch_size`. None is `batch_size` from the start, as in the
        paper. A switcher overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights and, outside a switcher, of replay. None uses the seed
        of the switcher.
    likelihood : {"gaussian", "student-t"}, default="gaussian"
        Density of the label. The net predicts the location and log scale of the
        density.
    degrees_of_freedom : float, default=4.0
        Degrees of freedom of the Student-t, at most 1e6.
    heteroscedastic : bool, default=True
        Whether the scale depends on the features. If not, all rows share one scale.
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
        Cost of the labels under a Gaussian that learns online and uses no features, in
        nats.
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

    Use it as a regressor by itself or as a readout of
    :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`. Labels are standardised by
    earlier minibatches, but codelengths refer to the original units.

    Parameters
    ----------
    hidden_layer_sizes : int or tuple of int, default=(512,)
        Widths of the hidden layers.
    lr : float, default=0.003
        Learning rate of AdamW.
    n_replay_streams : int or (int, int), default=10
        Number of replay streams. Each new minibatch is followed by one step on each. A
        pair ``(first, least)`` uses ``first`` streams for the first 1,000 rows. After
        ``n`` rows it uses ``first * sqrt(1000 / n)`` streams, but at least ``least``.
    beta1, beta2 : float, default=0.9, 0.999
        Decay of AdamW's moments.
    weight_decay : float, default=0.0
        AdamW's decoupled weight decay.
    eps : float, default=1e-8
        Added to the square root of AdamW's second moment.
    ema_step_size : float, default=1.0
        Predict with averaged weights: ``average <- (1 - step) average + step weights``
        after every optimiser step. With 1 there is no averaging.
    ema_warmup : bool, default=True
        Make the ``n``-th averaging step at least ``1 / (n + 1)``.
    calibration : bool, default=True
        Forward calibration: divide the scale by ``softplus(b)``. The scalar ``b`` takes
        a step on each minibatch before the weights learn its labels.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned from full minibatches already scored.
    recency : float, default=1.0
        After ``t`` minibatches, a replay stream returns to the first minibatch with
        probability ``recency / t``. 1 is uniform replay.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    first_batch_size : int or None, default=None
        Number of rows in the first minibatches of a stream. Minibatches double after 32
        times as many rows. They double again each time the number of rows has doubled,
        until they reach `batch_size`. None is `batch_size` from the start, as in the
        paper. A switcher overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights and, outside a switcher, of replay. None uses the seed
        of the switcher.
    likelihood : {"gaussian", "student-t"}, default="gaussian"
        Density of the label. The net predicts the location and log scale of the
        density.
    degrees_of_freedom : float, default=4.0
        Degrees of freedom of the Student-t, at most 1e6.
    heteroscedastic : bool, default=True
        Whether the scale depends on the features. If not, all rows share one scale.
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
        Cost of the labels under a Gaussian that learns online and uses no features, in
        nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.
    """

    hidden_layer_sizes: int | Sequence[int] = (512,)
