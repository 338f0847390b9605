"""The user's readouts: linear and MLP classifiers that learn online."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, cast

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.arithmetic import resolve_device
from sklearn_mdl.online import OnlineClassifier
from sklearn_mdl.prequential import Course
from sklearn_mdl.readouts.gather import architecture_of, stack_readouts
from sklearn_mdl.readouts.stack import ReadoutStack, StackNet
from sklearn_mdl.switching import BayesMixture

_SETTINGS = """lr : float, default=0.003
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
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``; without it a small
        step never leaves the initial weights on a short stream.
    label_smoothing : float, default=0.03
        Share of each training target spread over all classes. It serves training alone:
        the code is that of the true labels.
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
        Rows learned at once. A switcher's own value wins over its readouts'.
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
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` walked the rows.
    net_ : skorch.NeuralNet
        Module, criterion and optimiser.
    """


def _document(cls: type) -> type:
    """Fill in what the docstrings of both readouts share."""
    text = str(cls.__doc__)
    text = text.replace("{settings}", _SETTINGS.strip())
    cls.__doc__ = text.replace("{attributes}", _ATTRIBUTES.strip())
    return cls


class _Readout(OnlineClassifier):
    """What linear and MLP readouts share."""

    hidden_layer_sizes: tuple[int, ...] = ()

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lr": [Interval(Real, 0, None, closed="neither")],
        "n_replay_streams": [Interval(Integral, 0, None, closed="left")],
        "beta1": [Interval(Real, 0, 1, closed="left")],
        "beta2": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "eps": [Interval(Real, 0, None, closed="left")],
        "ema_step_size": [Interval(Real, 0, 1, closed="right")],
        "ema_warmup": ["boolean"],
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "calibration": ["boolean"],
        "scaling": [StrOptions({"standard", "whiten"}), None],
        "recency": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "random_state": ["random_state"],
    }

    def _start(self, n_features: int, n_classes: int, seed: int) -> Course:
        device = resolve_device(self.device)
        return Course(
            stack_readouts([self], n_features, n_classes, seed=seed, device=device),
            BayesMixture(),
            None,
            n_features=n_features,
            batch_size=self.batch_size,
            seed=seed,
            device=device,
        )

    @property
    def architecture(self) -> str:
        """Short name of the shape: "linear", "mlp 2x256", "mlp 256-64"."""
        return architecture_of(self.hidden_layer_sizes)

    @property
    def net_(self) -> StackNet:
        """The skorch net that holds module, criterion and optimiser."""
        (stack,) = self._course.learners
        return cast(ReadoutStack, stack).net


@_document
class LinearReadout(_Readout):
    """Linear softmax readout, learned online with replay.

    A complete classifier, and an expert of
    :class:`~sklearn_mdl.MDLReadoutSwitcher` (Li, Bornschein and Hutter, 2023, sec. 3).

    Parameters
    ----------
    {settings}

    {attributes}

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

    def __init__(
        self,
        *,
        lr: float = 0.003,
        n_replay_streams: int = 10,
        beta1: float = 0.9,
        beta2: float = 0.999,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        ema_step_size: float = 1.0,
        ema_warmup: bool = True,
        label_smoothing: float = 0.03,
        calibration: bool = True,
        scaling: str | None = "standard",
        recency: float = 1.0,
        batch_size: int = 32,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.lr = lr
        self.n_replay_streams = n_replay_streams
        self.beta1 = beta1
        self.beta2 = beta2
        self.weight_decay = weight_decay
        self.eps = eps
        self.ema_step_size = ema_step_size
        self.ema_warmup = ema_warmup
        self.label_smoothing = label_smoothing
        self.calibration = calibration
        self.scaling = scaling
        self.recency = recency
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state


@_document
class MLPReadout(_Readout):
    """Multilayer perceptron readout with ReLU, learned online with replay.

    A complete classifier, and an expert of
    :class:`~sklearn_mdl.MDLReadoutSwitcher` (Li, Bornschein and Hutter, 2023, sec. 3).

    Parameters
    ----------
    hidden_layer_sizes : int or tuple of int, default=(512,)
        Widths of the hidden layers.
    {settings}

    {attributes}
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_Readout._parameter_constraints,
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
        ],
    }

    def __init__(
        self,
        hidden_layer_sizes: Any = (512,),
        *,
        lr: float = 0.003,
        n_replay_streams: int = 10,
        beta1: float = 0.9,
        beta2: float = 0.999,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        ema_step_size: float = 1.0,
        ema_warmup: bool = True,
        label_smoothing: float = 0.03,
        calibration: bool = True,
        scaling: str | None = "standard",
        recency: float = 1.0,
        batch_size: int = 32,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.lr = lr
        self.n_replay_streams = n_replay_streams
        self.beta1 = beta1
        self.beta2 = beta2
        self.weight_decay = weight_decay
        self.eps = eps
        self.ema_step_size = ema_step_size
        self.ema_warmup = ema_warmup
        self.label_smoothing = label_smoothing
        self.calibration = calibration
        self.scaling = scaling
        self.recency = recency
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state
