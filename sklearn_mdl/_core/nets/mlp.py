"""Stacks of perceptrons, with gradients and moving averages of weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor, nn

from sklearn_mdl._core.numerics import rounded_product, tensor_floats


class StackedLinear(nn.Module):
    """A stack of ``K`` linear layers.

    Parameters
    ----------
    n_members : int
        Number of layers ``K``.
    in_features, out_features : int
        Width of the input and of the output.

    Attributes
    ----------
    weight : Parameter of shape (n_members, out_features, in_features)
    bias : Parameter of shape (n_members, 1, out_features)
        Both start at zero.
    """

    def __init__(self, n_members: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_members, out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(n_members, 1, out_features))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` of shape (K, B, in_features) to (K, B, out_features)."""
        return torch.baddbmm(self.bias, x, self.weight.mT)

    @torch.no_grad()
    def draw_weights(self, member: int, generator: torch.Generator) -> None:
        """Draw the weights and bias of a member as in ``nn.Linear``."""
        bound = self.weight.shape[-1] ** -0.5
        for tensor in (self.weight[member].T, self.bias[member]):
            values = torch.empty(tensor.shape)
            tensor.copy_(values.uniform_(-bound, bound, generator=generator))


class StackedMLP(nn.Module):
    """``K`` perceptrons of one shape, with ReLU between linear layers.

    Parameters
    ----------
    layer_sizes : sequence of int
        Widths from the input to the output. Two widths give linear readouts.
    seeds : sequence of int
        Seed of the hidden weights of each member. The output layer starts at zero, so
        predictions are uniform before any label is seen.
    """

    pairs: list[tuple[nn.Parameter, nn.Parameter]]  # weight and bias, layer by layer
    n_members: int

    def __init__(self, layer_sizes: Sequence[int], seeds: Sequence[int]) -> None:
        super().__init__()
        layers = [StackedLinear(len(seeds), i, o) for i, o in pairwise(layer_sizes)]
        for member, seed in enumerate(seeds):
            generator = torch.Generator().manual_seed(seed)
            for layer in layers[:-1]:
                layer.draw_weights(member, generator)
        self._set_layers(layers)

    def _set_layers(self, layers: Sequence[StackedLinear]) -> None:
        self.layers = nn.ModuleList(layers)
        # Looking up parameters in modules again and again would be slow.
        self.pairs = [(layer.weight, layer.bias) for layer in layers]
        self.n_members = len(layers[0].weight)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        # Moving to another device may replace the parameters.
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._set_layers([cast(StackedLinear, layer) for layer in self.layers])
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (K, B, C) of shared rows (B, d) or separate rows (K, B, d)."""
        # Do not call the method of a subclass, which rounds for training.
        return StackedMLP.activations(self, x)[-1]

    def activations(self, x: Tensor) -> list[Tensor]:
        """Return the input, hidden activations and logits, as `backward` needs them."""
        h = x.expand(self.n_members, *x.shape[-2:])  # (K, B, d), a view
        outputs = [h]
        for weight, bias in self.pairs[:-1]:
            h = torch.baddbmm(bias, h, weight.mT).relu_()
            outputs.append(h)
        return [*outputs, self._logits(h)]

    def _logits(self, h: Tensor) -> Tensor:
        weight, bias = self.pairs[-1]
        return torch.baddbmm(bias.mT, weight, h.mT).mT

    @torch.no_grad()
    def backward(self, activations: list[Tensor], grad: Tensor) -> None:
        """Compute the gradient of every parameter, and store it in ``.grad``.

        Parameters
        ----------
        activations : list of Tensor
            As returned by :meth:`activations`.
        grad : Tensor of shape (K, B, C)
            Derivative of the loss with respect to the logits.
        """
        for i in range(len(self.pairs) - 1, -1, -1):
            (weight, bias), h = self.pairs[i], activations[i]
            torch.bmm(grad.mT, h, out=gradient_of(weight))
            torch.sum(grad, 1, keepdim=True, out=gradient_of(bias))
            if i:
                grad = torch.bmm(grad, weight)
                grad = torch.ops.aten.threshold_backward(grad, h, 0.0)

    @torch.no_grad()
    def bias_outputs(self, n: int) -> None:
        """Set the output biases of the last ``n`` of ``C`` classes.

        If the input of the output layer is zero, each of these classes then has
        probability ``1 / C``. The biases of the other classes do not change.
        """
        # One member at a time, so that results do not depend on the stack.
        for bias in self.pairs[-1][1]:
            known = bias[0, :-n].cpu().double().numpy()
            bias[0, -n:] = float(logsumexp(known)) - math.log(len(known))

    def arrays(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return weights and biases, layer by layer."""
        return [
            (weight.detach().cpu().numpy(), bias.detach().cpu().numpy())
            for weight, bias in self.pairs
        ]

    @classmethod
    def of_arrays(cls, arrays: Sequence[tuple[np.ndarray, np.ndarray]]) -> Self:
        """Create perceptrons from :meth:`arrays`, for prediction only."""
        weights = [weight for weight, _ in arrays]
        sizes = [weights[0].shape[2], *(weight.shape[1] for weight in weights)]
        stack = cls(sizes, [0] * len(weights[0]))
        for pair, given in zip(stack.pairs, arrays, strict=True):
            for parameter, array in zip(pair, given, strict=True):
                parameter.data = torch.tensor(array)
                parameter.requires_grad_(False)
        return stack

    def pick(self, members: list[int]) -> StackedMLP:
        """Return a copy of some members, for prediction only."""
        picked = copy.deepcopy(self)
        layers = [cast(StackedLinear, layer) for layer in picked.layers]
        for layer in layers:
            layer.weight = nn.Parameter(layer.weight[members], requires_grad=False)
            layer.bias = nn.Parameter(layer.bias[members], requires_grad=False)
        picked._set_layers(layers)
        return picked


class RoundedMLP(StackedMLP):
    """Perceptrons whose hidden layers multiply in bfloat16 during training.

    Parameters and gradients are float32. Predictions (:meth:`forward`) and the output
    layer, whose products are small, use float32 throughout.
    """

    _short: list[tuple[Tensor, Tensor]]  # rounded rows and weights, layer by layer

    def activations(self, x: Tensor) -> list[Tensor]:
        """Return the input, hidden activations and logits, as `backward` needs them."""
        h = x.expand(self.n_members, *x.shape[-2:])
        outputs, self._short = [h], []
        for weight, bias in self.pairs[:-1]:
            # If all members share the rows, round the rows only once.
            own = h[:1] if h.stride(0) == 0 else h
            short = own.bfloat16().expand_as(h), weight.bfloat16()
            h = rounded_product(short[0], short[1].mT).add_(bias).relu_()
            outputs.append(h)
            self._short.append(short)
        return [*outputs, self._logits(h)]

    @torch.no_grad()
    def backward(self, activations: list[Tensor], grad: Tensor) -> None:
        """Compute the gradient of every parameter, and store it in ``.grad``."""
        *hidden, (weight, bias) = self.pairs
        torch.bmm(grad.mT, activations[len(hidden)], out=gradient_of(weight))
        torch.sum(grad, 1, keepdim=True, out=gradient_of(bias))
        if not hidden:
            return
        grad = torch.bmm(grad, weight)
        for i in range(len(hidden) - 1, -1, -1):
            (weight, bias), (rows, weights) = hidden[i], self._short.pop()
            grad = torch.ops.aten.threshold_backward(grad, activations[i + 1], 0.0)
            short = grad.bfloat16()
            gradient_of(weight).copy_(rounded_product(short.mT, rows))
            torch.sum(grad, 1, keepdim=True, out=gradient_of(bias))
            if i:
                grad = rounded_product(short, weights)


class TensorFloatMLP(StackedMLP):
    """Perceptrons that multiply in TF32 during training, on a GPU."""

    def activations(self, x: Tensor) -> list[Tensor]:
        """Return the input, hidden activations and logits, as `backward` needs them."""
        with tensor_floats():
            return super().activations(x)

    def backward(self, activations: list[Tensor], grad: Tensor) -> None:
        """Compute the gradient of every parameter, and store it in ``.grad``."""
        with tensor_floats():
            super().backward(activations, grad)


OF_PRECISION: dict[str, type[StackedMLP]] = {
    "float32": StackedMLP,
    "bfloat16": RoundedMLP,
    "tf32": TensorFloatMLP,
}


def count_parameters(layer_sizes: Sequence[int]) -> int:
    """Count the weights and biases of a perceptron, given its layer sizes."""
    return sum((i + 1) * o for i, o in pairwise(layer_sizes))


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """Return the gradient of a parameter, to be written in place.

    The gradient is never replaced by another tensor, since :class:`StackedAdamW` keeps
    views of it.
    """
    if parameter.grad is None:
        parameter.grad = torch.empty_like(parameter)
    return parameter.grad


class StackedAverages:
    """Exponential moving averages of trained weights, for prediction only.

    Parameters
    ----------
    trained : StackedMLP
        The ``T`` perceptrons that are being trained.
    sources : sequence of int
        Index of the trained perceptron that each of ``K`` readouts follows.
    step_sizes : sequence of float
        ``average <- (1 - step) average + step weights`` after every optimiser step.
        A readout with step 1 uses the trained weights directly.
    warmup : sequence of bool
        If True, the step size of the ``n``-th update is at least ``1 / (n + 1)``, so
        the average begins as a plain mean.
    """

    def __init__(
        self,
        trained: StackedMLP,
        sources: Sequence[int],
        step_sizes: Sequence[float],
        warmup: Sequence[bool],
    ) -> None:
        self.n_steps = 0
        rules = zip(sources, step_sizes, warmup, strict=True)
        choices = [(s, (size, warm) if size < 1 else None) for s, size, warm in rules]
        self.rules = list(dict.fromkeys(rule for _, rule in choices if rule))
        followed = [sorted({s for s, r in choices if r == rule}) for rule in self.rules]
        self.copies = [trained.pick(members) for members in followed]
        # Index of each readout's logits among those of trained networks and copies.
        table: list[tuple[int, tuple[float, bool] | None]]
        table = [(s, None) for s in range(trained.n_members)]
        for rule, members in zip(self.rules, followed, strict=True):
            table += [(s, rule) for s in members]
        device = trained.pairs[0][0].device
        self.places = torch.tensor([table.index(w) for w in choices], device=device)
        self.followed = [torch.tensor(members, device=device) for members in followed]
        # If the followed members come first, a slice selects them without a copy.
        self._copied = [members[-1] >= len(members) for members in followed]

    def logits(self, trained: StackedMLP, x: Tensor) -> Tensor:
        """Return logits (K, n, C) of rows (T, n, d)."""
        logits = [trained.forward(x).mT]
        for members, own in zip(self.followed, self.copies, strict=True):
            logits.append(own.forward(x.index_select(0, members)).mT)
        return torch.cat(logits).index_select(0, self.places).mT

    @torch.no_grad()
    def update(self, trained: StackedMLP) -> None:
        """Update the averages after an optimiser step."""
        self.n_steps += 1
        parts = zip(self.rules, self.followed, self._copied, self.copies, strict=True)
        for (step, warm), members, copied, own in parts:
            weight = max(step, 1 / (self.n_steps + 1)) if warm else step
            n = len(members)
            for mine, theirs in zip(own.pairs, trained.pairs, strict=True):
                for average, p in zip(mine, theirs, strict=True):
                    followed = p.index_select(0, members) if copied else p[:n]
                    average.lerp_(followed, weight)
