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
    """Change images (n, H, W, C), uint8, one after the other."""
    changed = [augment(image) for image in images.permute(0, 3, 1, 2)]
    found = torch.stack(changed)
    if found.dtype != torch.uint8 or found.shape[2:] != images.shape[1:3]:
        raise ValueError(
            "An augmentation must keep images uint8 and of one size, but it made "
            f"{found.dtype} and {tuple(found.shape[2:])} of {tuple(images.shape[1:3])};"
            " resize at its end"
        )
    return found.permute(0, 2, 3, 1)
