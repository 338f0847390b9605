"""Networks as readouts: fine-tuned encoders, and networks from scratch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import ClassVar, Self

from torch import nn

from sklearn_mdl._core.images.rows import image_shape_of
from sklearn_mdl._core.io.parameters import Sources
from sklearn_mdl._core.sklearn_compat import Constraints, Interval
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl.encoders import (
    AnyEncoder,
    CachedEncoder,
    EncoderTrunk,
    ImageEncoder,
    distinct_encoders,
    image_encoder_of,
    sources_of_name,
)
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._finetune.base import NetworkReadout
from sklearn_mdl.readouts._finetune.learner import NetworkLearner, drawn_seed
from sklearn_mdl.readouts._finetune.networks import PixelTrunk, module_of
from sklearn_mdl.readouts._isolation import net_draws


@dataclass(eq=False, repr=False)
class FineTunedReadout(NetworkReadout):
    """A linear readout on an encoder whose own weights are trained as well, online.

    The network starts from the encoder, with a linear layer of zeros on its features,
    and all parameters are trained (Li, Bornschein and Hutter, 2023, appendix,
    "Fine-tuning"). It is a complete classifier of images, and a readout of
    :class:`~sklearn_mdl.MDLReadoutSwitcher`. Next to frozen readouts, the posterior
    shows from which example on it pays to train the encoder.

    Parameters
    ----------
    encoder : TimmEncoder, TorchEncoder or CachedEncoder
        Layers and pooling are kept, and its own preprocessing. Its network is copied
        and never changed. Of a cached encoder, the encoder inside is taken.
    image_shape : (int, int, int) or (int, int), default=None
        Height, width and channels of the images whose pixels are the rows of X; None
        takes squares of three channels or of one.
    batch_size : int, default=32
        Rows learned at once. A switcher's value overrides those of its readouts.
    device : str, default="auto"
        Torch device; "auto" takes a GPU if there is one. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights and all random numbers of training; torch's own generators
        are left as they were. None takes the switcher's.
    optimizer : {"sgd", "adamw"}, default="sgd"
        Gradient descent with Nesterov's momentum, as in the paper on VTAB, or AdamW, as
        on ImageNet.
    lr : float, default=0.01
        Learning rate.
    momentum : float, default=0.9
        Of "sgd".
    beta1, beta2 : float, default=0.9, 0.999
        Decay of the moments of "adamw".
    eps : float, default=1e-8
        Added to the root of the second moment of "adamw".
    weight_decay : float, default=0.0
        Decoupled in "adamw"; in "sgd" added to the gradient.
    n_replay_streams : int or (int, int), default=10
        Replay streams ``S``: each new minibatch is followed by one step on each. Of a
        pair, the first number serves the first 1,000 rows; after ``n`` rows it has
        fallen by a factor of ``sqrt(1000 / n)``, to the last number at least.
    ema_step_size : float, default=1.0
        Predict with averaged weights: ``average <- (1 - step) average + step weights``
        after every optimiser step. Statistics of batch normalisation are averaged by
        the same rule. At 1 the weights themselves predict.
    ema_warmup : bool, default=True
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``.
    label_smoothing : float, default=0.01
        Share of each training target spread over all classes; only in training.
    calibration : bool, default=True
        Forward calibration: multiply logits by ``softplus(b)``, where the scalar ``b``
        is learned on each minibatch before the weights see its labels.
    augmentation : {"crop", "crop-flip", "randaugment"}, callable or None, default=None
        Random changes of training images: random crops resized to the whole, these
        mirrored half of the time, or RandAugment. A callable maps an image, a tensor
        (C, H, W), uint8, to one like it, and draws only from torch's generator.
        Predictions are made on unchanged images.
    recency : float, default=1.0
        With ``t`` minibatches seen, a replay stream jumps back to the first with
        probability ``recency / t``; 1 is uniform replay.

    Attributes
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
        Order in which ``fit`` evaluated the rows.

    Notes
    -----
    In training, batch normalisation uses the statistics of the minibatch, which holds
    only past rows; in prediction its running statistics. A minibatch of one
    row is learned with the running statistics. A network whose loss stops being finite
    predicts uniformly from then on.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl.encoders import TimmEncoder, image_rows
    >>> from sklearn_mdl.readouts import FineTunedReadout
    >>> digits = load_digits()
    >>> X, y = image_rows(digits.images / 16, mode="L")[:96], digits.target[:96]
    >>> encoder = TimmEncoder(
    ...     "test_resnet", pretrained=False, data_options={"input_size": (3, 16, 16)}
    ... )
    >>> readout = FineTunedReadout(encoder, n_replay_streams=1, random_state=0)
    >>> readout.fit(X, y).codelengths_.shape
    (96,)
    """

    encoder: AnyEncoder

    _parameter_constraints: ClassVar[Constraints] = {
        **NetworkReadout._parameter_constraints,
        "encoder": [ImageEncoder, CachedEncoder],
    }

    @property
    def architecture(self) -> str:
        """Short name: "fine-tuned"."""
        return "fine-tuned"

    @classmethod
    def learners_of(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[Learner]:
        """One learner each; encoders that are alike are loaded once."""
        shapes = [image_shape_of(context.n_features, r.image_shape) for _, r in members]
        encoders = distinct_encoders([r.encoder for _, r in members], shapes)
        return [
            NetworkLearner(
                column, readout, EncoderTrunk(image_encoder_of(own)), shape, context
            )
            for (column, readout), own, shape in zip(
                members, encoders, shapes, strict=True
            )
        ]


@dataclass(eq=False, repr=False)
class ScratchReadout(NetworkReadout):
    """A network with random weights that is trained online, from scratch.

    The paper compares pre-trained encoders with it (Li, Bornschein and Hutter, 2023,
    section 4 and appendix, "Train from Scratch"). A linear layer of zeros stands on
    the network. It is a complete classifier of images, and a readout of
    :class:`~sklearn_mdl.MDLReadoutSwitcher`.

    Parameters
    ----------
    model : str or callable, default="resnet50"
        As ``timm.list_models()`` gives it, such as "resnet50"; or a class or function
        that makes a ``torch.nn.Module`` from (n, C, H, W) to vectors (n, width), whose
        weights are drawn when it is called, from ``random_state``.
    image_shape : (int, int, int) or (int, int), default=None
        Height, width and channels of the images whose pixels are the rows of X; None
        takes squares of three channels or of one.
    batch_size : int, default=32
        Rows learned at once. A switcher's value overrides those of its readouts.
    device : str, default="auto"
        Torch device; "auto" takes a GPU if there is one. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights and all random numbers of training; torch's own generators
        are left as they were. None takes the switcher's.
    optimizer : {"sgd", "adamw"}, default="sgd"
        Gradient descent with Nesterov's momentum, as in the paper on VTAB, or AdamW, as
        on ImageNet.
    lr : float, default=0.03
        Learning rate.
    momentum : float, default=0.9
        Of "sgd".
    beta1, beta2 : float, default=0.9, 0.999
        Decay of the moments of "adamw".
    eps : float, default=1e-8
        Added to the root of the second moment of "adamw".
    weight_decay : float, default=0.0
        Decoupled in "adamw"; in "sgd" added to the gradient.
    n_replay_streams : int or (int, int), default=10
        Replay streams ``S``: each new minibatch is followed by one step on each. Of a
        pair, the first number serves the first 1,000 rows; after ``n`` rows it has
        fallen by a factor of ``sqrt(1000 / n)``, to the last number at least.
    ema_step_size : float, default=1.0
        Predict with averaged weights: ``average <- (1 - step) average + step weights``
        after every optimiser step. Statistics of batch normalisation are averaged by
        the same rule. At 1 the weights themselves predict.
    ema_warmup : bool, default=True
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``.
    label_smoothing : float, default=0.01
        Share of each training target spread over all classes; only in training.
    calibration : bool, default=True
        Forward calibration: multiply logits by ``softplus(b)``, where the scalar ``b``
        is learned on each minibatch before the weights see its labels.
    augmentation : {"crop", "crop-flip", "randaugment"}, callable or None, default=None
        Random changes of training images: random crops resized to the whole, these
        mirrored half of the time, or RandAugment. A callable maps an image, a tensor
        (C, H, W), uint8, to one like it, and draws only from torch's generator.
        Predictions are made on unchanged images.
    recency : float, default=1.0
        With ``t`` minibatches seen, a replay stream jumps back to the first with
        probability ``recency / t``; 1 is uniform replay.
    model_options : mapping, default=None
        Arguments of ``timm.create_model``, or of the callable.
    input_size : int, default=None
        Images are cropped to the square at their centre and resized to this size; None
        leaves them as they are. Pixels go from -1 to 1.

    Attributes
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
        Order in which ``fit`` evaluated the rows.

    Notes
    -----
    As in :class:`~sklearn_mdl.readouts.FineTunedReadout`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl.encoders import image_rows
    >>> from sklearn_mdl.readouts import ScratchReadout
    >>> digits = load_digits()
    >>> X, y = image_rows(digits.images / 16, mode="L")[:96], digits.target[:96]
    >>> readout = ScratchReadout(
    ...     "test_resnet", input_size=16, n_replay_streams=1, random_state=0
    ... )
    >>> readout.fit(X, y).codelengths_.shape
    (96,)
    """

    model: str | Callable[..., nn.Module] = "resnet50"
    _: KW_ONLY
    model_options: Mapping[str, object] | None = None
    input_size: int | None = None
    lr: float = 0.03

    _parameter_constraints: ClassVar[Constraints] = {
        **NetworkReadout._parameter_constraints,
        "model": [str, callable],
        "model_options": [Mapping, None],
        "input_size": [Interval(Integral, 1, None, closed="left"), None],
    }

    def _sources(self) -> Sources:
        """Say what ``fit`` reads besides images."""
        return sources_of_name(self.model) if isinstance(self.model, str) else Sources()

    @property
    def architecture(self) -> str:
        """Short name: "resnet50 from scratch"."""
        name = self.model
        if not isinstance(name, str):
            name = getattr(name, "__name__", type(name).__name__)
        return f"{name} from scratch"

    @classmethod
    def learners_of(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[Learner]:
        """Make a learner for each readout, from random weights."""
        return [readout._learner(column, context) for column, readout in members]

    def _learner(self, column: int, context: Context) -> NetworkLearner:
        shape = image_shape_of(context.n_features, self.image_shape)
        with net_draws(True, drawn_seed(self.seed_or(context.seed), 0)):
            module = module_of(self.model, self.model_options, shape[2])
        trunk = PixelTrunk(module, self.input_size)
        return NetworkLearner(column, self, trunk, shape, context)
