"""A moving average of a network's weights, for prediction alone."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import chain

import torch
from torch import Tensor, nn


class AveragedNetwork:
    """An exponential moving average of the weights of a network.

    Statistics that layers keep, such as the running means of batch normalisation, are
    averaged by the same rule: they belong to the weights with which they came about.
    Counters are copied.

    Parameters
    ----------
    network : torch.nn.Module
        It is copied.
    step_size : float
        ``average <- (1 - step) average + step weights`` after every optimiser step.
    warmup : bool
        Let the ``n``-th step be at least ``1 / (n + 1)``, a plain mean at first.
    """

    def __init__(self, network: nn.Module, step_size: float, warmup: bool) -> None:
        self.network = deepcopy(network).eval().requires_grad_(False)
        self.step_size = step_size
        self.warmup = warmup
        self.n_steps = 0

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Follow the weights after an optimiser step."""
        self.n_steps += 1
        step = self.step_size
        if self.warmup:
            step = max(step, 1 / (self.n_steps + 1))
        for own, other in zip(_numbers(self.network), _numbers(network), strict=True):
            if own.is_floating_point():
                own.lerp_(other, step)
            else:
                own.copy_(other)


def _numbers(network: nn.Module) -> Iterator[Tensor]:
    return chain(network.parameters(), network.buffers())
