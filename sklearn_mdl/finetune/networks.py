"""Networks that learn on a walk: a trunk that makes features, a linear head on it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from skorch import NeuralNet
from torch import Tensor, nn
from torch.nn.functional import interpolate

from sklearn_mdl.images import Shape, needed
from sklearn_mdl.images.timm_models import check_name

OPTIMIZERS = ("sgd", "adamw")


class PixelTrunk(nn.Module):
    """A module that is given pixels from -1 to 1.

    Parameters
    ----------
    module : torch.nn.Module
        From (n, C, H, W) to vectors (n, width).
    input_size : int or None
        Images are cropped to the square at their centre and resized to this size; None
        leaves them as they are.
    """

    def __init__(self, module: nn.Module, input_size: int | None) -> None:
        super().__init__()
        self.module = module
        self.input_size = input_size

    def prepare(self, images: Tensor) -> Tensor:
        """Scale images (n, H, W, C), uint8, and bring them to size."""
        # One layout in memory, whatever came before: it decides the order of draws.
        planes = images.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
        batch = planes.float() / 127.5 - 1
        if self.input_size is None:
            return batch
        height, width = batch.shape[2:]
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        square = batch[..., top : top + side, left : left + side]
        size = (self.input_size, self.input_size)
        return interpolate(
            square, size, mode="bilinear", antialias=True, align_corners=False
        )

    def forward(self, batch: Tensor) -> Tensor:
        """Vectors (n, width) of a minibatch."""
        found: Tensor = self.module(batch)
        return found


def module_of(
    architecture: str | Callable[[], nn.Module],
    model_options: Mapping[str, Any] | None,
    n_channels: int,
) -> nn.Module:
    """Make a module with random weights, drawn from torch's generator.

    Raises
    ------
    ValueError
        If timm knows no such name.
    TypeError
        If something else than a module is made.
    ImportError
        If timm is missing.
    """
    options = dict(model_options or {})
    if not isinstance(architecture, str):
        module = architecture(**options)
        if not isinstance(module, nn.Module):
            raise TypeError(
                "model must make a torch.nn.Module, but it made "
                f"{type(module).__name__}; return the module"
            )
        return module
    timm = needed("timm", "ScratchReadout", "images")
    check_name(timm, architecture)
    given = {"in_chans": n_channels, **options, "num_classes": 0}
    found: nn.Module = timm.create_model(architecture, pretrained=False, **given)
    return found


class HeadedNetwork(nn.Module):
    """A trunk, and a linear head on it that starts at zero.

    So all labels are equally likely at first. A minibatch of one row is learned with
    the running statistics of batch normalisation, since it has none of its own.

    Parameters
    ----------
    trunk : torch.nn.Module
    width : int
        Of what it returns.
    n_classes : int
    """

    def __init__(self, trunk: nn.Module, width: int, n_classes: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(width, n_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def prepare(self, images: Tensor) -> Tensor:
        """Preprocess images (n, H, W, C), uint8, as the trunk wants them."""
        found: Tensor = self.trunk.prepare(images)  # type: ignore[operator]
        return found

    def forward(self, batch: Tensor) -> Tensor:
        """Logits (n, C) of a minibatch."""
        with _running_statistics(self, self.training and len(batch) == 1):
            found: Tensor = self.head(self.trunk(batch))
        return found


@contextmanager
def _running_statistics(network: nn.Module, wanted: bool) -> Iterator[None]:
    layers = [
        layer
        for layer in network.modules()
        if wanted and isinstance(layer, nn.modules.batchnorm._BatchNorm)
    ]
    for layer in layers:
        layer.eval()
    try:
        yield
    finally:
        for layer in layers:
            layer.train()


def width_of(trunk: Any, shape: Shape, device: torch.device) -> int:
    """Return how many numbers a trunk, which is on a device, makes of an image.

    Raises
    ------
    ValueError
        If it makes no vectors.
    """
    batch = trunk.prepare(torch.zeros(1, *shape, dtype=torch.uint8))
    with torch.no_grad():
        found = trunk.eval()(batch.to(device))
    if not isinstance(found, Tensor) or found.ndim != 2:
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"The network must return vectors (n, width), but it returned {got}; pool "
            "its last layer"
        )
    return int(found.shape[1])


class LearningNet(NeuralNet):
    """The skorch net of an expert, which owns network, criterion and optimiser."""

    def __deepcopy__(self, memo: dict[int, Any]) -> LearningNet:
        """Copy networks also of classes that cannot be pickled."""
        other = object.__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other


def make_net(
    expert: Any, trunk: Any, shape: Shape, n_classes: int, device: torch.device
) -> LearningNet:
    """Build a net with an expert's loss and optimiser."""
    width = width_of(trunk.to(device), shape, device)
    options: dict[str, Any] = {"lr": expert.lr, "weight_decay": expert.weight_decay}
    if expert.optimizer == "sgd":
        kind: type[torch.optim.Optimizer] = torch.optim.SGD
        options |= {"momentum": expert.momentum, "nesterov": expert.momentum > 0}
    else:
        kind = torch.optim.AdamW
        options |= {"betas": (expert.beta1, expert.beta2), "eps": expert.eps}
    net = LearningNet(
        HeadedNetwork,
        module__trunk=trunk,
        module__width=width,
        module__n_classes=n_classes,
        criterion=nn.CrossEntropyLoss,
        criterion__label_smoothing=expert.label_smoothing,
        optimizer=kind,
        **{f"optimizer__{name}": value for name, value in options.items()},
        train_split=None,
        callbacks="disable",
        device=str(device),
        verbose=0,
    )
    net.initialize()
    return net
