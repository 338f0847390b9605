"""What experts that look at images share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, cast

from sklearn.base import clone

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.experts import Expert
from sklearn_mdl.finetune.augmenting import AUGMENTATIONS
from sklearn_mdl.finetune.learner import NetworkLearner
from sklearn_mdl.finetune.networks import OPTIMIZERS, LearningNet
from sklearn_mdl.images import check_pixels

SETTINGS = """image_shape : (int, int, int) or (int, int), default=None
        Height, width and channels of the images whose pixels are the rows of X; None
        takes squares of three channels or of one.
    optimizer : {"sgd", "adamw"}, default="sgd"
        Gradient descent with Nesterov's momentum, as the paper has it on VTAB, or
        AdamW, as on ImageNet.
    lr : float, default={lr}
        Learning rate.
    momentum : float, default=0.9
        Of "sgd".
    beta1, beta2 : float, default=0.9, 0.999
        Decay of the moments of "adamw".
    eps : float, default=1e-8
        Added to the root of the second moment of "adamw".
    weight_decay : float, default=0.0
        Decoupled in "adamw"; in "sgd" added to the gradient.
    n_replay_streams : int, default=10
        Replay streams ``S``: each new minibatch is followed by one step on each.
    ema_step_size : float, default=1.0
        Predict with averaged weights: ``average <- (1 - step) average + step weights``
        after every optimiser step. Statistics of batch normalisation are averaged by
        the same rule. At 1 the weights themselves predict.
    ema_warmup : bool, default=True
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``.
    label_smoothing : float, default=0.01
        Share of each training target spread over all classes; in training alone.
    calibration : bool, default=True
        Forward calibration: multiply logits by ``softplus(b)``, where the scalar ``b``
        is learned on each minibatch before the weights see its labels.
    augmentation : {"crop", "crop-flip", "randaugment"}, callable or None, default=None
        What training sees of an image: random crops resized to the whole, these
        mirrored half of the time, or RandAugment. A callable takes an image as a tensor
        (C, H, W), uint8, to one like it, and draws from torch's generator alone.
        Predictions are made on images as they are.
    recency : float, default=1.0
        With ``t`` minibatches seen, a replay stream jumps back to the first with
        probability ``recency / t``; 1 is uniform replay.
    batch_size : int, default=32
        Rows learned at once. A switcher's own value wins over its readouts'.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. A switcher's own wins.
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights and all that training draws; torch's own generators are
        left as they were. None takes the switcher's."""

ATTRIBUTES = """Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        The same by example.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
        Numbers of an image.
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` walked the rows."""


def clone_beside(expert: Any, **shared: Any) -> Any:
    """Copy an unfitted expert as scikit-learn does, but for the parameters given."""
    params = expert.get_params(deep=False)
    others = {k: clone(v, safe=False) for k, v in params.items() if k not in shared}
    return type(expert)(**others, **shared)


def document(cls: type, **values: str) -> None:
    """Fill in what docstrings share."""
    text = str(cls.__doc__).replace("{settings}", SETTINGS)
    text = text.replace("{attributes}", ATTRIBUTES)
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    cls.__doc__ = text


class ImageExpert(Expert):
    """Base of the experts that are given rows of pixels, as ``image_rows`` makes them.

    They take them unscaled.
    """

    scaling: str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "image_shape": [tuple, list, None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "random_state": ["random_state"],
    }

    def _validated(self, X: Any, *y: Any, reset: bool) -> Any:
        found = super()._validated(X, *y, reset=reset)
        check_pixels(found[0] if y else found)
        return found


class LearningExpert(ImageExpert):
    """Base of the experts that are networks, trained as a whole."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ImageExpert._parameter_constraints,
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "beta1": [Interval(Real, 0, 1, closed="left")],
        "beta2": [Interval(Real, 0, 1, closed="left")],
        "eps": [Interval(Real, 0, None, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "n_replay_streams": [Interval(Integral, 0, None, closed="left")],
        "ema_step_size": [Interval(Real, 0, 1, closed="right")],
        "ema_warmup": ["boolean"],
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "calibration": ["boolean"],
        "augmentation": [StrOptions(set(AUGMENTATIONS)), callable, None],
        "recency": [Interval(Real, 0, None, closed="neither")],
    }

    @property
    def net_(self) -> LearningNet:
        """The skorch net that holds network, criterion and optimiser."""
        (learner,) = self._course.learners
        return cast(NetworkLearner, learner).net
