"""Networks as readouts: fine-tuned encoders and networks from scratch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from sklearn_mdl.readouts._build import Context, Members
from sklearn_mdl.readouts._finetune.base import NetworkReadout
from sklearn_mdl.readouts._finetune.learner import NetworkLearner, drawn_seed
from sklearn_mdl.readouts._finetune.networks import PixelTrunk, module_of
from sklearn_mdl.readouts._isolation import net_draws


@dataclass(eq=False, repr=False)
class FineTunedReadout(NetworkReadout):
    """Linear readout on an encoder, trained online together with the encoder.

    The network is the encoder followed by a linear layer that starts at zero. All
    parameters of the network are trained (Li, Bornschein and Hutter, 2023, appendix,
    "Fine-tuning"). Use this readout by itself, as a classifier of images, or in a
    :class:`~sklearn_mdl.MDLReadoutSwitcher`. In a list with frozen readouts, the
    posterior shows after how many examples it pays off to train the encoder.

    Parameters
    ----------
    encoder : TimmEncoder, TorchEncoder or CachedEncoder
        Encoder that determines layers, pooling and preprocessing. A copy of its network
        is trained. For a cached encoder, the inner encoder is used.
    image_shape : (int, int, int) or (int, int), default=None
        Height, width and channels of the images whose pixels are the rows of X. If
        None, images are assumed to be square, with one or three channels.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed of random numbers in training (dropout, augmentation) and, outside a
        switcher, of replay. Torch's global generators do not change. In a switcher,
        None means the switcher's seed.
    optimizer : {"sgd", "adamw"}, default="sgd"
        "sgd" is gradient descent with Nesterov's momentum, which the paper uses on
        VTAB. "adamw" is AdamW, which the paper uses on ImageNet.
    lr : float, default=0.01
        Learning rate.
    momentum : float, default=0.9
        Momentum of "sgd".
    beta1, beta2 : float, default=0.9, 0.999
        Decay rates of the moments of "adamw".
    eps : float, default=1e-8
        Term added to the square root of the second moment of "adamw".
    weight_decay : float, default=0.0
        Weight decay, decoupled in "adamw" and added to the gradient in "sgd".
    n_replay_streams : int or (int, int), default=10
        Number of replay streams, each of which runs through the minibatches so far in
        order. After a new minibatch, the readout takes a step on the next minibatch of
        each stream. With ``(first, least)``, the number is ``first`` up to 1,000 rows,
        then ``first * sqrt(1000 / n)`` at row ``n`` (rounded up, at least ``least``).
    ema_step_size : float, default=1.0
        Step size of the averaged weights with which the readout predicts: ``average <-
        (1 - step) average + step weights`` after every optimiser step. Batch
        normalisation statistics are averaged in the same way. With 1 there is no
        averaging.
    ema_warmup : bool, default=True
        Whether to make the ``n``-th averaging step at least ``1 / (n + 1)``.
    label_smoothing : float, default=0.01
        Share of each training target that is spread over all classes.
    calibration : bool, default=True
        Whether to multiply logits by ``softplus(b)`` (forward calibration). The scalar
        ``b`` is updated on each minibatch, before the weights learn from it.
    augmentation : {"crop", "crop-flip", "randaugment"}, callable or None, default=None
        Random changes to training images. "crop" takes random crops and resizes them to
        the full size. "crop-flip" also mirrors half of the images. "randaugment" is
        RandAugment. A callable must map a uint8 image tensor (C, H, W) to a tensor of
        the same shape and type, and must draw only from torch's random generator.
        Predictions use unchanged images.
    recency : float, default=1.0
        After ``t`` minibatches, a replay stream returns to the first with probability
        ``min(1, recency / t)``. With 1, all minibatches so far are equally likely.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
        Number of values in an image.
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.
    net_ : skorch.NeuralNet
        Network, criterion and optimiser.

    Notes
    -----
    In training, batch normalisation uses the statistics of the minibatch, which
    contains only past rows. Predictions and minibatches of one row use the running
    statistics. If predictions of a network stop being finite, they are uniform
    from then on.

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

    architecture = "fine-tuned"

    _parameter_constraints: ClassVar[Constraints] = {
        **NetworkReadout._parameter_constraints,
        "encoder": [ImageEncoder, CachedEncoder],
    }

    @classmethod
    def learners_of(cls, members: Members[Self], context: Context) -> list[Learner]:
        """Make one learner for each readout, and load equal encoders only once."""
        shapes = [image_shape_of(context.n_features, r.image_shape) for _, r in members]
        encoders = distinct_encoders([r.encoder for _, r in members], shapes)
        trunks = [EncoderTrunk(image_encoder_of(encoder)) for encoder in encoders]
        parts = zip(members, trunks, shapes, strict=True)
        return [
            NetworkLearner(column, readout, trunk, shape, context)
            for (column, readout), trunk, shape in parts
        ]


@dataclass(eq=False, repr=False)
class ScratchReadout(NetworkReadout):
    """Network with random weights that is trained online from scratch.

    The paper compares pre-trained encoders with such networks (Li, Bornschein and
    Hutter, 2023, section 4 and appendix, "Train from Scratch"). The network ends in a
    linear layer that starts at zero. Use this readout by itself, as a classifier of
    images, or in a :class:`~sklearn_mdl.MDLReadoutSwitcher`.

    Parameters
    ----------
    model : str or callable, default="resnet50"
        Either a name from ``timm.list_models()``, such as "resnet50", or a class or
        function that returns a ``torch.nn.Module``. The module maps (n, C, H, W) to
        vectors (n, width). Its weights are drawn during the call, with ``random_state``
        as the seed.
    image_shape : (int, int, int) or (int, int), default=None
        Height, width and channels of the images whose pixels are the rows of X. If
        None, images are assumed to be square, with one or three channels.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, of random numbers in training (dropout, augmentation)
        and, outside a switcher, of replay. Torch's global generators do not change. In
        a switcher, None means the switcher's seed.
    optimizer : {"sgd", "adamw"}, default="sgd"
        "sgd" is gradient descent with Nesterov's momentum, which the paper uses on
        VTAB. "adamw" is AdamW, which the paper uses on ImageNet.
    lr : float, default=0.03
        Learning rate.
    momentum : float, default=0.9
        Momentum of "sgd".
    beta1, beta2 : float, default=0.9, 0.999
        Decay rates of the moments of "adamw".
    eps : float, default=1e-8
        Term added to the square root of the second moment of "adamw".
    weight_decay : float, default=0.0
        Weight decay, decoupled in "adamw" and added to the gradient in "sgd".
    n_replay_streams : int or (int, int), default=10
        Number of replay streams, each of which runs through the minibatches so far in
        order. After a new minibatch, the readout takes a step on the next minibatch of
        each stream. With ``(first, least)``, the number is ``first`` up to 1,000 rows,
        then ``first * sqrt(1000 / n)`` at row ``n`` (rounded up, at least ``least``).
    ema_step_size : float, default=1.0
        Step size of the averaged weights with which the readout predicts: ``average <-
        (1 - step) average + step weights`` after every optimiser step. Batch
        normalisation statistics are averaged in the same way. With 1 there is no
        averaging.
    ema_warmup : bool, default=True
        Whether to make the ``n``-th averaging step at least ``1 / (n + 1)``.
    label_smoothing : float, default=0.01
        Share of each training target that is spread over all classes.
    calibration : bool, default=True
        Whether to multiply logits by ``softplus(b)`` (forward calibration). The scalar
        ``b`` is updated on each minibatch, before the weights learn from it.
    augmentation : {"crop", "crop-flip", "randaugment"}, callable or None, default=None
        Random changes to training images. "crop" takes random crops and resizes them to
        the full size. "crop-flip" also mirrors half of the images. "randaugment" is
        RandAugment. A callable must map a uint8 image tensor (C, H, W) to a tensor of
        the same shape and type, and must draw only from torch's random generator.
        Predictions use unchanged images.
    recency : float, default=1.0
        After ``t`` minibatches, a replay stream returns to the first with probability
        ``min(1, recency / t)``. With 1, all minibatches so far are equally likely.
    model_options : mapping, default=None
        Arguments of the callable, or further arguments of ``timm.create_model``. The
        readout sets ``pretrained`` and ``num_classes`` itself.
    input_size : int, default=None
        Size to which the central square of each image is resized. If None, images
        are neither cropped nor resized. Pixels are always scaled to the range from -1
        to 1.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
        Number of values in an image.
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.
    net_ : skorch.NeuralNet
        Network, criterion and optimiser.

    Notes
    -----
    See the notes of :class:`~sklearn_mdl.readouts.FineTunedReadout`.

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
        """Return the sources that ``fit`` reads in addition to images."""
        return sources_of_name(self.model) if isinstance(self.model, str) else Sources()

    @property
    def architecture(self) -> str:
        """Short name: "resnet50 from scratch"."""
        name = self.model
        if not isinstance(name, str):
            name = getattr(name, "__name__", type(name).__name__)
        return f"{name} from scratch"

    @classmethod
    def learners_of(cls, members: Members[Self], context: Context) -> list[Learner]:
        """Make a learner with random weights for each readout."""
        return [readout._learner(column, context) for column, readout in members]

    def _learner(self, column: int, context: Context) -> NetworkLearner:
        shape = image_shape_of(context.n_features, self.image_shape)
        with net_draws(True, drawn_seed(self.seed_or(context.seed), 0)):
            module = module_of(self.model, self.model_options, shape[2])
        trunk = PixelTrunk(module, self.input_size)
        return NetworkLearner(column, self, trunk, shape, context)
