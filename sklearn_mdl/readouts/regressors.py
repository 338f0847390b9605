"""The user's regressors: linear ones and MLPs that learn online."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar, cast

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.arithmetic import resolve_device
from sklearn_mdl.online import OnlineRegressor
from sklearn_mdl.prequential import Course, RealTargets
from sklearn_mdl.readouts.density_stack import N_DENSITY, DensityStack
from sklearn_mdl.readouts.gather import architecture_of, stack_regressors
from sklearn_mdl.readouts.stack import StackNet
from sklearn_mdl.switching import BayesMixture

_SETTINGS = """likelihood : {"gaussian", "student-t"}, default="gaussian"
        Density of the label: the net gives its location and the logarithm of its scale.
    degrees_of_freedom : float, default=4.0
        Of the Student-t, at most 1e6; a Gaussian has none.
    heteroscedastic : bool, default=True
        Let the scale depend on the features; otherwise one scale is learned for all.
    lr : float, default={lr}
        Learning rate of AdamW.
    n_replay_streams : int, default=10
        Replay streams ``S``: each new minibatch is followed by one step on each.
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
    prior_location, prior_scale : float, default=0.0, 1.0
        Of the fixed Student-t with one degree of freedom that predicts the first
        minibatch, in the units of the labels. A switcher's own win.
    batch_size : int, default=32
        Rows learned at once. A switcher's own wins.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. A switcher's own wins.
    random_state : int, RandomState instance or None, default=None
        Initial weights, and, outside a switcher, the replay. None takes the switcher's.
    """

_ATTRIBUTES = """Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        The same by example.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the same labels under a Gaussian that learns online and looks at no
        feature, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` walked the rows.
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.
    """


def _document(cls: type) -> type:
    """Fill in what the docstrings of both regressors share."""
    settings = _SETTINGS.strip().replace("{lr}", str(cls().get_params()["lr"]))
    text = str(cls.__doc__).replace("{settings}", settings)
    cls.__doc__ = text.replace("{attributes}", _ATTRIBUTES.strip())
    return cls


class _RegressorReadout(OnlineRegressor):
    """What linear and MLP regressors share."""

    hidden_layer_sizes: tuple[int, ...] = ()
    likelihood: str
    degrees_of_freedom: float
    batch_size: int
    device: str

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "likelihood": [StrOptions({"gaussian", "student-t"})],
        "degrees_of_freedom": [Interval(Real, 0, 1e6, closed="right")],
        "heteroscedastic": ["boolean"],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "n_replay_streams": [Interval(Integral, 0, None, closed="left")],
        "beta1": [Interval(Real, 0, 1, closed="left")],
        "beta2": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "eps": [Interval(Real, 0, None, closed="left")],
        "ema_step_size": [Interval(Real, 0, 1, closed="right")],
        "ema_warmup": ["boolean"],
        "calibration": ["boolean"],
        "scaling": [StrOptions({"standard", "whiten"}), None],
        "recency": [Interval(Real, 0, None, closed="neither")],
        "prior_location": [Interval(Real, None, None, closed="neither")],
        "prior_scale": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "random_state": ["random_state"],
    }

    def _start(self, n_features: int, targets: RealTargets, seed: int) -> Course:
        device = resolve_device(self.device)
        course = Course(
            stack_regressors([self], n_features, seed=seed, device=device),
            BayesMixture(),
            None,
            n_features=n_features,
            batch_size=self.batch_size,
            seed=seed,
            device=device,
            outcome=targets,
        )
        course.expect(N_DENSITY)
        return course

    @property
    def tails(self) -> float:
        """Degrees of freedom of the density; infinite for a Gaussian."""
        gaussian = self.likelihood == "gaussian"
        return math.inf if gaussian else float(self.degrees_of_freedom)

    @property
    def architecture(self) -> str:
        """Short name of the shape: "linear", "mlp 2x256", "mlp 256-64"."""
        return architecture_of(self.hidden_layer_sizes)

    @property
    def net_(self) -> StackNet:
        """The skorch net that holds module, criterion and optimiser."""
        (stack,) = self._course.learners
        return cast(DensityStack, stack).net


@_document
class LinearReadoutRegressor(_RegressorReadout):
    """Linear readout with a Gaussian or Student-t density, learned online with replay.

    A complete regressor, and an expert of
    :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`. Labels are standardised by the
    minibatches before, and coded in their own units.

    Parameters
    ----------
    {settings}

    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_mdl import LinearReadoutRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> readout = LinearReadoutRegressor(prior_location=150, prior_scale=75)
    >>> readout = readout.set_params(heteroscedastic=False, random_state=0).fit(X, y)
    >>> bool(readout.codelength_ < readout.reference_codelengths_.sum())
    True
    """

    def __init__(
        self,
        *,
        likelihood: str = "gaussian",
        degrees_of_freedom: float = 4.0,
        heteroscedastic: bool = True,
        lr: float = 0.01,
        n_replay_streams: int = 10,
        beta1: float = 0.9,
        beta2: float = 0.999,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        ema_step_size: float = 1.0,
        ema_warmup: bool = True,
        calibration: bool = True,
        scaling: str | None = "standard",
        recency: float = 1.0,
        prior_location: float = 0.0,
        prior_scale: float = 1.0,
        batch_size: int = 32,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.likelihood = likelihood
        self.degrees_of_freedom = degrees_of_freedom
        self.heteroscedastic = heteroscedastic
        self.lr = lr
        self.n_replay_streams = n_replay_streams
        self.beta1 = beta1
        self.beta2 = beta2
        self.weight_decay = weight_decay
        self.eps = eps
        self.ema_step_size = ema_step_size
        self.ema_warmup = ema_warmup
        self.calibration = calibration
        self.scaling = scaling
        self.recency = recency
        self.prior_location = prior_location
        self.prior_scale = prior_scale
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state


@_document
class MLPReadoutRegressor(_RegressorReadout):
    """Multilayer perceptron with a Gaussian or Student-t density, learned online.

    A complete regressor, and an expert of
    :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`. Labels are standardised by the
    minibatches before, and coded in their own units.

    Parameters
    ----------
    hidden_layer_sizes : int or tuple of int, default=(512,)
        Widths of the hidden layers.
    {settings}

    {attributes}
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_RegressorReadout._parameter_constraints,
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
    }

    def __init__(
        self,
        hidden_layer_sizes: Any = (512,),
        *,
        likelihood: str = "gaussian",
        degrees_of_freedom: float = 4.0,
        heteroscedastic: bool = True,
        lr: float = 0.003,
        n_replay_streams: int = 10,
        beta1: float = 0.9,
        beta2: float = 0.999,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        ema_step_size: float = 1.0,
        ema_warmup: bool = True,
        calibration: bool = True,
        scaling: str | None = "standard",
        recency: float = 1.0,
        prior_location: float = 0.0,
        prior_scale: float = 1.0,
        batch_size: int = 32,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.likelihood = likelihood
        self.degrees_of_freedom = degrees_of_freedom
        self.heteroscedastic = heteroscedastic
        self.lr = lr
        self.n_replay_streams = n_replay_streams
        self.beta1 = beta1
        self.beta2 = beta2
        self.weight_decay = weight_decay
        self.eps = eps
        self.ema_step_size = ema_step_size
        self.ema_warmup = ema_warmup
        self.calibration = calibration
        self.scaling = scaling
        self.recency = recency
        self.prior_location = prior_location
        self.prior_scale = prior_scale
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state
