"""The skorch nets of stacks and of networks trained on images.

They have a module of their own, imported when a net is built, since importing skorch
takes long.
"""

from __future__ import annotations

import copy

import torch
from skorch import NeuralNet
from torch import Tensor


class StackNet(NeuralNet):
    """The skorch net of a stack, which owns module, criterion and optimiser.

    As in skorch, ``train_step`` computes gradients and takes one optimiser step. It
    uses neither autograd nor callbacks, which would take longer than the arithmetic.
    """

    @torch.no_grad()
    def train_step(
        self, batch: tuple[Tensor, Tensor], **fit_params: object
    ) -> dict[str, Tensor]:
        """Take one step on a minibatch (x, y), and return outputs as ``y_pred``."""
        x, y = batch
        activations = self.module_.activations(x)
        self.module_.backward(activations, self.criterion_.gradient(activations[-1], y))
        self.criterion_.mask_gradient(self.module_.pairs[-1][0])
        self.optimizer_.update()
        return {"y_pred": activations[-1]}


class LearningNet(NeuralNet):
    """The skorch net of a readout, with its network, criterion and optimiser."""

    def __deepcopy__(self, memo: dict[int, object]) -> LearningNet:
        """Return a deep copy without pickling, which some networks do not support."""
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied
