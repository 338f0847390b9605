"""Networks as experts: encoders that learn on the walk, and networks from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

from sklearn_mdl._sklearn import Interval
from sklearn_mdl.experts import Context
from sklearn_mdl.experts.draws import net_draws
from sklearn_mdl.finetune.base import LearningExpert, clone_beside, document
from sklearn_mdl.finetune.learner import NetworkLearner, drawn_seed
from sklearn_mdl.finetune.networks import PixelTrunk, module_of
from sklearn_mdl.images import (
    CachedEncoder,
    EncoderTrunk,
    ImageEncoder,
    Shape,
    distinct_encoders,
    fresh_encoder,
    image_encoder_of,
    image_shape_of,
)
from sklearn_mdl.prequential import Learner


class FineTunedReadout(LearningExpert):
    """A linear readout on an encoder whose own weights learn as well, on the walk.

    The network begins where the encoder stands, with a linear layer of zeros on its
    features, and all parameters are trained (Li, Bornschein and Hutter, 2023,
    appendix, "Fine-tuning"). It is a complete classifier of images, and an expert of
    :class:`~sklearn_mdl.MDLReadoutSwitcher`, beside frozen readouts: the posterior
    then says from which example on it pays to train the encoder.

    Parameters
    ----------
    encoder : TimmEncoder, TorchEncoder or CachedEncoder
        Layers and pooling are kept, and its own preprocessing. Its network is copied
        and never changed. Of a cache its encoder is taken.
    {settings}

    {attributes}

    Notes
    -----
    In training, batch normalisation uses the statistics of the minibatch, which holds
    rows of the past alone; in prediction its running statistics. A minibatch of one
    row is learned with the running statistics. A network whose loss stops being finite
    predicts uniformly from then on.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl import FineTunedReadout, TimmEncoder, image_rows
    >>> digits = load_digits()
    >>> X, y = image_rows(digits.images / 16, mode="L")[:96], digits.target[:96]
    >>> encoder = TimmEncoder(
    ...     "test_resnet", pretrained=False, data_options={"input_size": (3, 16, 16)}
    ... )
    >>> readout = FineTunedReadout(encoder, n_replay_streams=1, random_state=0)
    >>> readout.fit(X, y).codelengths_.shape
    (96,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LearningExpert._parameter_constraints,
        "encoder": [ImageEncoder, CachedEncoder],
    }

    def __init__(
        self,
        encoder: Any,
        *,
        image_shape: Any = None,
        optimizer: str = "sgd",
        lr: float = 0.01,
        momentum: float = 0.9,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        n_replay_streams: int = 10,
        ema_step_size: float = 1.0,
        ema_warmup: bool = True,
        label_smoothing: float = 0.01,
        calibration: bool = True,
        augmentation: Any = None,
        recency: float = 1.0,
        batch_size: int = 32,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.encoder = encoder
        self.image_shape = image_shape
        self.optimizer = optimizer
        self.lr = lr
        self.momentum = momentum
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps
        self.weight_decay = weight_decay
        self.n_replay_streams = n_replay_streams
        self.ema_step_size = ema_step_size
        self.ema_warmup = ema_warmup
        self.label_smoothing = label_smoothing
        self.calibration = calibration
        self.augmentation = augmentation
        self.recency = recency
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state

    @property
    def architecture(self) -> str:
        """Short name: "fine-tuned"."""
        return "fine-tuned"

    def __sklearn_clone__(self) -> Self:
        """Copy settings; a module in the encoder, which is never changed, is shared."""
        found: Self = clone_beside(self, encoder=fresh_encoder(self.encoder))
        return found

    @classmethod
    def _learners(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[Learner]:
        """One learner each; encoders that are alike are loaded once."""
        by_shape: dict[Shape, list[tuple[int, Self]]] = {}
        for column, expert in members:
            shape = image_shape_of(context.n_features, expert.image_shape)
            by_shape.setdefault(shape, []).append((column, expert))
        learners: list[Learner] = []
        for shape, alike in by_shape.items():
            encoders = distinct_encoders([e.encoder for _, e in alike], shape)
            for (column, expert), encoder in zip(alike, encoders, strict=True):
                trunk = EncoderTrunk(image_encoder_of(encoder))
                learners.append(NetworkLearner(column, expert, trunk, shape, context))
        return learners


class ScratchReadout(LearningExpert):
    """A network with random weights that learns on the walk: training from scratch.

    What the paper compares pre-trained encoders with (Li, Bornschein and Hutter, 2023,
    section 4 and appendix, "Train from Scratch"). A linear layer of zeros stands on
    the network. It is a complete classifier of images, and an expert of
    :class:`~sklearn_mdl.MDLReadoutSwitcher`.

    Parameters
    ----------
    model : str or callable, default="resnet50"
        As ``timm.list_models()`` gives it, such as "resnet50"; or what makes a
        ``torch.nn.Module`` from (n, C, H, W) to vectors (n, width) when it is called:
        a class, a function. Its weights are drawn then, from ``random_state``.
    model_options : mapping, default=None
        Arguments of ``timm.create_model``, or of the callable.
    input_size : int, default=None
        Images are cropped to the square at their centre and resized to this size; None
        leaves them as they are. Pixels go from -1 to 1.
    {settings}

    {attributes}

    Notes
    -----
    As in :class:`~sklearn_mdl.FineTunedReadout`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl import ScratchReadout, image_rows
    >>> digits = load_digits()
    >>> X, y = image_rows(digits.images / 16, mode="L")[:96], digits.target[:96]
    >>> readout = ScratchReadout(
    ...     "test_resnet", input_size=16, n_replay_streams=1, random_state=0
    ... )
    >>> readout.fit(X, y).codelengths_.shape
    (96,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LearningExpert._parameter_constraints,
        "model": [str, callable],
        "model_options": [Mapping, None],
        "input_size": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        model: Any = "resnet50",
        *,
        model_options: Mapping[str, Any] | None = None,
        input_size: int | None = None,
        image_shape: Any = None,
        optimizer: str = "sgd",
        lr: float = 0.03,
        momentum: float = 0.9,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        n_replay_streams: int = 10,
        ema_step_size: float = 1.0,
        ema_warmup: bool = True,
        label_smoothing: float = 0.01,
        calibration: bool = True,
        augmentation: Any = None,
        recency: float = 1.0,
        batch_size: int = 32,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.model_options = model_options
        self.input_size = input_size
        self.image_shape = image_shape
        self.optimizer = optimizer
        self.lr = lr
        self.momentum = momentum
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps
        self.weight_decay = weight_decay
        self.n_replay_streams = n_replay_streams
        self.ema_step_size = ema_step_size
        self.ema_warmup = ema_warmup
        self.label_smoothing = label_smoothing
        self.calibration = calibration
        self.augmentation = augmentation
        self.recency = recency
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state

    @property
    def architecture(self) -> str:
        """Short name: "resnet50 from scratch"."""
        name = self.model
        if not isinstance(name, str):
            name = getattr(name, "__name__", type(name).__name__)
        return f"{name} from scratch"

    @classmethod
    def _learners(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[Learner]:
        return [expert._learner(column, context) for column, expert in members]

    def _learner(self, column: int, context: Context) -> NetworkLearner:
        shape = image_shape_of(context.n_features, self.image_shape)
        with net_draws(True, drawn_seed(self.seed_or(context.seed), 0)):
            module = module_of(self.model, self.model_options, shape[2])
        trunk = PixelTrunk(module, self.input_size)
        return NetworkLearner(column, self, trunk, shape, context)


document(FineTunedReadout, lr="0.01")
document(ScratchReadout, lr="0.03")
