"""Base classes of readouts of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.images.rows import check_pixels
from sklearn_mdl._core.sklearn_compat import Constraints, StrOptions
from sklearn_mdl.readouts._base import SHARE, BaseReadout
from sklearn_mdl.readouts._finetune.networks import AUGMENTATIONS, OPTIMIZERS

if TYPE_CHECKING:
    from sklearn_mdl.readouts._skorch_nets import LearningNet


@dataclass(eq=False, repr=False, kw_only=True)
class ImageReadout(BaseReadout):
    """Base class of readouts of images. Rows are pixels, as from ``image_rows``."""

    image_shape: Sequence[int] | None = None
    batch_size: int = 32
    device: str = "auto"
    random_state: RandomState = None

    scaling = None  # not a parameter, since pixels are not scaled

    _parameter_constraints: ClassVar[Constraints] = {
        **BaseReadout._parameter_constraints,
        "image_shape": [tuple, list, None],
    }

    def _validated(self, X: Any, *y: Any, reset: bool) -> Any:
        validated = super()._validated(X, *y, reset=reset)
        check_pixels(validated[0] if y else validated)
        return validated


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkReadout(ImageReadout):
    """Base class of readouts that train a whole network."""

    optimizer: str = "sgd"
    lr: float = 0.01
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    n_replay_streams: int | Sequence[int] = 10
    ema_step_size: float = 1.0
    ema_warmup: bool = True
    label_smoothing: float = 0.01
    calibration: bool = True
    augmentation: str | Callable[[Tensor], Tensor] | None = None
    recency: float = 1.0

    _parameter_constraints: ClassVar[Constraints] = {
        **ImageReadout._parameter_constraints,
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "momentum": [SHARE],
        "augmentation": [StrOptions(set(AUGMENTATIONS)), callable, None],
    }

    @property
    def net_(self) -> LearningNet:
        """The skorch net, with its network, criterion and optimiser."""
        (learner,) = self._run.learners
        net: LearningNet = learner.net  # type: ignore[attr-defined]
        return net
