"""Augmentations of images: what training sees of them, by draws from torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sklearn_mdl.images import Shape, needed

Augment = Callable[[Tensor], Tensor]
AUGMENTATIONS = ("crop", "crop-flip", "randaugment")


def augment_of(augmentation: Any, shape: Shape) -> Augment | None:
    """Make what changes one image, (C, H, W) and uint8, into another of its size.

    Parameters
    ----------
    augmentation : {"crop", "crop-flip", "randaugment"}, callable or None
        Random crops resized to the whole; these, and half of them mirrored; RandAugment
        (Cubuk et al., 2020) with two operations of magnitude 9.
    shape : (H, W, C)

    Raises
    ------
    ImportError
        If torchvision is missing.
    """
    if not isinstance(augmentation, str):
        return augmentation  # type: ignore[no-any-return]
    transforms = needed("torchvision.transforms", "augmentation", "images")
    if augmentation == "randaugment":
        found: Augment = transforms.RandAugment(num_ops=2, magnitude=9)
        return found
    steps = [transforms.RandomResizedCrop(shape[:2], antialias=True)]
    if augmentation == "crop-flip":
        steps.append(transforms.RandomHorizontalFlip())
    composed: Augment = transforms.Compose(steps)
    return composed


def augmented(images: Tensor, augment: Augment) -> Tensor:
    """Change images (n, H, W, C), uint8, one after the other.

    Raises
    ------
    ValueError
        If anything else is made of one than an image of the same type and shape.
    """
    planes = images.permute(0, 3, 1, 2)
    changed = [augment(image) for image in planes]
    for image, found in zip(planes, changed, strict=True):
        if _described(found) != _described(image):
            raise ValueError(
                "An augmentation must keep the type and shape of images, but it made "
                f"{_described(found)} of {_described(image)}; convert and resize at "
                "its end"
            )
    return torch.stack(changed).permute(0, 2, 3, 1)


def _described(image: Any) -> str:
    if not isinstance(image, Tensor):
        return type(image).__name__
    return f"{image.dtype} {tuple(image.shape)}"
