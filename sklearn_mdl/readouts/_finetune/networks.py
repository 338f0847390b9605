"""Parts of networks that are trained on images: trunks, augmentation, averages."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from sklearn_mdl._core.extras import needed
from sklearn_mdl._core.images.rows import Shape
from sklearn_mdl._core.numerics import evaluation_mode
from sklearn_mdl.encoders import EncoderTrunk, check_name, check_options

if TYPE_CHECKING:
    from sklearn_mdl.readouts._skorch_nets import LearningNet

Augment = Callable[[Tensor], Tensor]
AUGMENTATIONS = ("crop", "crop-flip", "randaugment")
OPTIMIZERS = ("sgd", "adamw")
# What to do if a network's output is not a tensor (0), or has another number of axes.
_CURES = {
    0: "return only the features, for example output[0] or output['out']",
    3: "return a vector for each image, for example output.mean(1)",
    4: "end it with nn.AdaptiveAvgPool2d(1) and nn.Flatten()",
}


def augment_of(augmentation: str | Augment | None, shape: Shape) -> Augment | None:
    """Return a function that augments a uint8 image (C, H, W), or None.

    Parameters
    ----------
    augmentation : {"crop", "crop-flip", "randaugment"}, callable or None
        "crop" takes random crops and resizes them to the full size. "crop-flip" also
        mirrors half of the images. "randaugment" applies two operations of magnitude 9
        (Cubuk et al., 2020).
    shape : (H, W, C)

    Raises
    ------
    ImportError
        If torchvision is missing.
    """
    if not isinstance(augmentation, str):
        return augmentation
    transforms = needed("torchvision.transforms", "augmentation", "images")
    if augmentation == "randaugment":
        return cast(Augment, transforms.RandAugment(num_ops=2, magnitude=9))
    steps = [transforms.RandomResizedCrop(shape[:2], antialias=True)]
    if augmentation == "crop-flip":
        steps.append(transforms.RandomHorizontalFlip())
    return cast(Augment, transforms.Compose(steps))


def augmented(images: Tensor, augment: Augment) -> Tensor:
    """Augment uint8 images (n, H, W, C) one by one.

    Raises
    ------
    ValueError
        If the type or shape of an image changes.
    """
    planes = images.permute(0, 3, 1, 2)
    changed = [augment(image) for image in planes]
    for image, result in zip(planes, changed, strict=True):
        if _described(result) != _described(image):
            raise ValueError(
                "An augmentation must keep the type and shape of images, but it "
                f"returned {_described(result)} for {_described(image)}; "
                f"{_augmentation_cure(result, image)}"
            )
    return torch.stack(changed).permute(0, 2, 3, 1)


def _augmentation_cure(result: object, image: Tensor) -> str:
    """Return what to do if an augmentation changes the type or shape of an image."""
    if not isinstance(result, Tensor):
        return "end it with torchvision.transforms.v2.ToImage()"
    if result.shape[:-2] != image.shape[:1]:
        grey = "Grayscale()(image)" if result.ndim == 3 else "image"
        return f"return {grey}.expand({len(image)}, -1, -1)"
    if result.shape != image.shape:
        return f"end it with Resize({[*image.shape[1:]]})"
    if result.is_floating_point() and result.max() <= 1:
        return "end it with ConvertImageDtype(torch.uint8), without Normalize"
    return "return values from 0 to 255 as image.to(torch.uint8)"


def _described(image: object) -> str:
    if not isinstance(image, Tensor):
        return type(image).__name__
    return f"{image.dtype} {tuple(image.shape)}"


class AveragedNetwork:
    """Exponential moving average of the weights of a network.

    Statistics of layers, such as the running means of batch normalisation, must match
    the weights, so they are averaged in the same way. Counters are copied.

    Parameters
    ----------
    network : torch.nn.Module
        The network to copy.
    step_size : float
        ``average <- (1 - step) average + step weights`` after every optimiser step.
    warmup : bool
        Make the ``n``-th step at least ``1 / (n + 1)``, so that the average begins as a
        plain mean.
    """

    def __init__(self, network: nn.Module, step_size: float, warmup: bool) -> None:
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.step_size = step_size
        self.warmup = warmup
        self.n_steps = 0

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Update the averages after an optimiser step."""
        self.n_steps += 1
        step = self.step_size
        if self.warmup:
            step = max(step, 1 / (self.n_steps + 1))
        for mean, new in zip(_numbers(self.network), _numbers(network), strict=True):
            if mean.is_floating_point():
                mean.lerp_(new, step)
            else:
                mean.copy_(new)


def _numbers(network: nn.Module) -> Iterator[Tensor]:
    return chain(network.parameters(), network.buffers())


class PixelTrunk(nn.Module):
    """Module with preprocessing that scales pixels to the range from -1 to 1.

    Parameters
    ----------
    module : torch.nn.Module
        Maps (n, C, H, W) to vectors (n, width).
    input_size : int or None
        Size to which the central square of each image is resized. If None, images
        are neither cropped nor resized.
    """

    def __init__(self, module: nn.Module, input_size: int | None) -> None:
        super().__init__()
        self.module = module
        self.input_size = input_size

    def prepare(self, images: Tensor) -> Tensor:
        """Scale and resize uint8 images (n, H, W, C)."""
        # Use the same memory layout for all inputs, since random draws depend on it.
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
        """Return vectors (n, width) of a minibatch."""
        return cast(Tensor, self.module(batch))


Trunk = EncoderTrunk | PixelTrunk


def module_of(
    architecture: str | Callable[[], nn.Module],
    model_options: Mapping[str, object] | None,
    n_channels: int,
) -> nn.Module:
    """Make a module whose random weights are drawn from torch's generator.

    Raises
    ------
    ValueError
        If timm has no model with that name.
    TypeError
        If the callable does not return a module.
    ImportError
        If timm is missing.
    """
    options = dict(model_options or {})
    if not isinstance(architecture, str):
        module, problem = None, "is itself a module"
        if not isinstance(architecture, nn.Module):
            module = architecture(**options)
            problem = f"returned {type(module).__name__}"
        if not isinstance(module, nn.Module):
            raise TypeError(
                "model must be a name, or a class or function that returns a "
                f"torch.nn.Module, but it {problem}; pass a function that returns one"
            )
        return copy.deepcopy(module)  # a callable may return the same module every time
    timm = needed("timm", "ScratchReadout", "images")
    check_name(timm, architecture, "model")
    check_options(options)
    given = {"in_chans": n_channels, **options, "num_classes": 0}
    return cast(nn.Module, timm.create_model(architecture, pretrained=False, **given))


class HeadedNetwork(nn.Module):
    """Trunk with a linear head whose weights start at zero.

    All classes are equally likely at first. A minibatch of one row is learned with the
    running statistics of batch normalisation, since the statistics of a single image
    are unreliable, or undefined for vectors.

    Parameters
    ----------
    trunk : EncoderTrunk or PixelTrunk
    width : int
        Width of the trunk's output.
    n_classes : int
    """

    def __init__(self, trunk: Trunk, width: int, n_classes: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(width, n_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @torch.no_grad()
    def add_classes(self, n: int) -> None:
        """Add ``n`` classes with zero weights.

        At zero input, each has probability ``1 / (C + n)``, where C is the number of
        classes before.
        """
        weight, bias = self.head.weight, self.head.bias
        known = torch.logsumexp(bias.double(), 0) - math.log(len(bias))
        weight.data = torch.nn.functional.pad(weight, (0, 0, 0, n))
        bias.data = torch.cat([bias, known.to(bias).expand(n)])
        self.head.out_features += n

    def forward(self, batch: Tensor) -> Tensor:
        """Return logits (n, C) of a minibatch."""
        is_single = self.training and len(batch) == 1
        with ExitStack() as stack:
            for layer in self.modules():
                if is_single and isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    stack.enter_context(evaluation_mode(layer))
            logits: Tensor = self.head(self.trunk(batch))
        return logits


def width_of(trunk: Trunk, shape: Shape, device: torch.device) -> int:
    """Return the width of a trunk's output.

    Raises
    ------
    ValueError
        If the trunk does not return vectors.
    """
    batch = trunk.prepare(torch.zeros(1, *shape, dtype=torch.uint8))
    with torch.no_grad():
        output = trunk.eval()(batch.to(device))
    if not isinstance(output, Tensor) or output.ndim != 2:
        got, n_axes = type(output).__name__, 0
        if isinstance(output, Tensor):
            got, n_axes = str(tuple(output.shape)), output.ndim
        required = "The network must return vectors (n, width)"
        cure = _CURES.get(n_axes, "return output.reshape(len(output), -1)")
        raise ValueError(f"{required}, but it returned {got}; {cure}")
    return int(output.shape[1])


def make_net(
    readout: Any, trunk: Trunk, shape: Shape, n_classes: int, device: torch.device
) -> LearningNet:
    """Build a net with the loss and the optimiser that a readout specifies."""
    from sklearn_mdl.readouts._skorch_nets import LearningNet

    width = width_of(trunk.to(device), shape, device)
    options: dict[str, object]
    options = {"lr": readout.lr, "weight_decay": readout.weight_decay}
    if readout.optimizer == "sgd":
        kind: type[torch.optim.Optimizer] = torch.optim.SGD
        options |= {"momentum": readout.momentum, "nesterov": readout.momentum > 0}
    else:
        kind = torch.optim.AdamW
        options |= {"betas": (readout.beta1, readout.beta2), "eps": readout.eps}
    net = LearningNet(
        HeadedNetwork,
        module__trunk=trunk,
        module__width=width,
        module__n_classes=n_classes,
        criterion=nn.CrossEntropyLoss,
        criterion__label_smoothing=readout.label_smoothing,
        optimizer=kind,
        **{f"optimizer__{name}": value for name, value in options.items()},
        train_split=None,
        callbacks="disable",
        device=str(device),
        verbose=0,
    )
    net.initialize()
    return net
