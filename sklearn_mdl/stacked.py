"""Many readouts of one shape as one module: the leading axis is the readout.

A stack of ``K`` multilayer perceptrons is one module whose weights have shape
``(K, n_out, n_in)``; one batched matrix product serves them all, and every member has
its own learning rate, weight decay, betas, label smoothing and averaging step. Members
never mix: the loss is the *sum* over members of each member's mean loss, so a stack
equals its parts, bitwise, on one machine and one thread.

Logits are computed as ``(K, C, B)``, classes before rows: products whose last axis is a
few classes long are four times slower, forwards and backwards, than those in which it
is the minibatch or the features.

Gradients are written out by hand instead of recorded by autograd: at minibatches of 32
the recording costs as much as the arithmetic. The tests hold them against autograd.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

# Intel's library of products may otherwise sum in an order that depends on where in
# memory a member lies (it does on processors of other makers), and a stack would not
# equal its parts. It is read at the first product of a process, and costs no time.
os.environ.setdefault("MKL_CBWR", "AUTO")


class StackedLinear(nn.Module):
    """``K`` linear layers side by side.

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
        """Draw one member's weights and bias as ``nn.Linear`` does."""
        bound = self.weight.shape[-1] ** -0.5
        for tensor in (self.weight[member].T, self.bias[member]):
            values = torch.empty(tensor.shape).uniform_(
                -bound, bound, generator=generator
            )
            tensor.copy_(values)


class StackedMLP(nn.Module):
    """``K`` perceptrons of one shape: linear layers with ReLU between them.

    Parameters
    ----------
    layer_sizes : sequence of int
        Widths from the input to the output; two widths make linear readouts.
    seeds : sequence of int
        One seed per member, for its hidden weights. The output layer starts at zero, so
        that a code is uniform before any label is seen.
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
        # Looking a parameter up through modules costs as much as using it.
        self.pairs = [(layer.weight, layer.bias) for layer in layers]
        self.n_members = len(layers[0].weight)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        # Moving to another device may replace the parameters.
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._set_layers([cast(StackedLinear, layer) for layer in self.layers])
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Logits (K, B, C) of rows (B, d), seen by every member, or (K, B, d)."""
        return self.activations(x)[-1]

    def activations(self, x: Tensor) -> list[Tensor]:
        """Input, hidden activations and logits, as :meth:`backward` wants them."""
        h = x.expand(self.n_members, *x.shape[-2:])  # (K, B, d), a view
        found = [h]
        for weight, bias in self.pairs[:-1]:
            h = torch.baddbmm(bias, h, weight.mT).relu_()
            found.append(h)
        weight, bias = self.pairs[-1]
        found.append(torch.baddbmm(bias.mT, weight, h.mT).mT)
        return found

    @torch.no_grad()
    def backward(self, activations: list[Tensor], grad: Tensor) -> None:
        """Write ``.grad`` of every parameter.

        Parameters
        ----------
        activations : list of Tensor
            What :meth:`activations` returned.
        grad : Tensor of shape (K, B, C)
            Derivative of the loss by the logits.
        """
        for i in range(len(self.pairs) - 1, -1, -1):
            (weight, bias), h = self.pairs[i], activations[i]
            torch.bmm(grad.mT, h, out=gradient_of(weight))
            torch.sum(grad, 1, keepdim=True, out=gradient_of(bias))
            if i:
                grad = torch.bmm(grad, weight)
                grad = torch.ops.aten.threshold_backward(grad, h, 0.0)

    def pick(self, members: Sequence[int]) -> StackedMLP:
        """Return a copy of some members, not to be trained."""
        other = copy.deepcopy(self)
        layers = [cast(StackedLinear, layer) for layer in other.layers]
        index = list(members)
        for layer in layers:
            layer.weight = nn.Parameter(layer.weight[index], requires_grad=False)
            layer.bias = nn.Parameter(layer.bias[index], requires_grad=False)
        other._set_layers(layers)
        return other


def count_parameters(layer_sizes: Sequence[int]) -> int:
    """Count weights and biases of one perceptron, widths from input to output."""
    return sum((i + 1) * o for i, o in pairwise(layer_sizes))


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """Return the parameter's gradient to write into.

    One buffer for life: :class:`StackedAdamW` keeps views of it.
    """
    if parameter.grad is None:
        parameter.grad = torch.empty_like(parameter)
    return parameter.grad


class StackedCrossEntropy(nn.Module):
    """Mean cross-entropy of each member, summed over members, with label smoothing.

    Parameters
    ----------
    label_smoothing : sequence of float, one per member
        Share of the target spread evenly over all classes. It serves training alone.
    n_classes : int
        Number of classes ``C``.
    """

    targets: Tensor

    def __init__(self, label_smoothing: Sequence[float], n_classes: int) -> None:
        super().__init__()
        # One table of smoothed targets by label, shared where the smoothing is.
        distinct = sorted(set(label_smoothing))
        shares = torch.tensor(label_smoothing if len(distinct) > 1 else distinct)
        shares = shares.view(-1, 1, 1)
        self.register_buffer(
            "targets", torch.eye(n_classes) * (1 - shares) + shares / n_classes
        )

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Loss in nats, a scalar, for (K, B, C) logits and (B,) labels."""
        losses = self._targets(labels) * log_softmax(logits)
        return -losses.sum(-1).mean(-1).sum()

    def gradient(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the derivative of :meth:`forward` by the logits, (K, B, C)."""
        return softmax(logits).sub_(self._targets(labels)).div_(len(labels))

    def _targets(self, labels: Tensor) -> Tensor:
        """Smoothed targets (1 or K, B, C), laid out as logits are."""
        return self.targets.index_select(2, labels).mT  # a symmetric table


def softmax(logits: Tensor) -> Tensor:
    """Softmax over the classes, the last axis of (K, B, C), laid out as (K, C, B)."""
    return logits.mT.softmax(1).mT


def log_softmax(logits: Tensor) -> Tensor:
    """Log-softmax over the classes, as `softmax`."""
    return logits.mT.log_softmax(1).mT


class StackedAdamW(torch.optim.Optimizer):
    """AdamW (Loshchilov and Hutter, 2019) with one setting per member.

    Parameters
    ----------
    params : iterable of Parameter
        Each with the member as its leading axis.
    lr, beta1, beta2, eps, weight_decay : sequence of float, one per member
        As in ``torch.optim.AdamW``.

    Notes
    -----
    Each member's update is one call of torch's fused kernel over views of the stacked
    tensors: a single pass through memory, where a broadcast formula would make nine.
    """

    def __init__(
        self,
        params: Any,
        lr: Sequence[float],
        beta1: Sequence[float],
        beta2: Sequence[float],
        eps: Sequence[float],
        weight_decay: Sequence[float],
    ) -> None:
        names = ("lr", "beta1", "beta2", "eps", "weight_decay")
        settings = zip(lr, beta1, beta2, eps, weight_decay, strict=True)
        members = [dict(zip(names, values, strict=True)) for values in settings]
        super().__init__(params, {"members": members, "n_steps": 0})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["exp_avg"] = torch.zeros_like(p)
                self.state[p]["exp_avg_sq"] = torch.zeros_like(p)
        self._calls: dict[int, _FusedCalls] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Drop the views, which belong to the tensors of another life."""
        super().__setstate__(state)
        self._calls = {}

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take one step for every member; ``closure`` may compute the gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.update()
        return loss

    @torch.no_grad()
    def update(self) -> None:
        """Take one step by the gradients as they stand, without hooks."""
        for i, group in enumerate(self.param_groups):
            calls = self._calls.get(i)
            if calls is None or not calls.hold(group["params"]):
                calls = self._calls[i] = _FusedCalls(group, self.state)
            group["n_steps"] += 1
            calls.run(group["n_steps"])


class _FusedCalls:
    """The arguments of one fused update per member: views that are made once."""

    def __init__(self, group: dict[str, Any], state: dict[Tensor, Any]) -> None:
        params = group["params"]
        self.grads = [p.grad for p in params]
        tensors = (
            params,
            self.grads,
            [state[p]["exp_avg"] for p in params],
            [state[p]["exp_avg_sq"] for p in params],
        )
        self.step = torch.zeros((), device=params[0].device)
        self.steps = [self.step] * len(params)
        self.members = [
            ([list(column) for column in columns], settings)
            for *columns, settings in zip(
                *(
                    zip(*(t.unbind(0) for t in group_), strict=True)
                    for group_ in tensors
                ),
                group["members"],
                strict=True,
            )
        ]

    def hold(self, params: list[nn.Parameter]) -> bool:
        """Whether the views still look at these parameters' gradients."""
        return all(p.grad is g for p, g in zip(params, self.grads, strict=True))

    def run(self, n_steps: int) -> None:
        self.step.fill_(n_steps)
        for (p, g, m, v), settings in self.members:
            torch._fused_adamw_(
                p, g, m, v, [], self.steps, amsgrad=False, maximize=False, **settings
            )


class StackedAverages:
    """Exponential moving averages of trained weights, for prediction alone.

    Parameters
    ----------
    trained : StackedMLP
        The ``T`` perceptrons that are being trained.
    sources : sequence of int
        For each of ``K`` readouts the training that it follows.
    step_sizes : sequence of float
        ``average <- (1 - step) average + step weights`` after every optimiser step; at
        1 the readout is its training and owns no weights.
    warmup : sequence of bool
        Where true, the ``n``-th step is at least ``1 / (n + 1)``, a plain mean at
        first.
    """

    def __init__(
        self,
        trained: StackedMLP,
        sources: Sequence[int],
        step_sizes: Sequence[float],
        warmup: Sequence[bool],
    ) -> None:
        rules = list(zip(step_sizes, warmup, strict=True))
        self.n_steps = 0
        self.rules = list(dict.fromkeys(rule for rule in rules if rule[0] < 1))
        followed = [
            sorted({s for s, r in zip(sources, rules, strict=True) if r == rule})
            for rule in self.rules
        ]
        self.copies = [trained.pick(members) for members in followed]
        # Where each readout's logits stand among those of the trainings and the copies.
        table: list[tuple[int, tuple[float, bool] | None]]
        table = [(s, None) for s in range(trained.n_members)]
        for rule, members in zip(self.rules, followed, strict=True):
            table += [(s, rule) for s in members]
        wanted = [
            (s, r if r[0] < 1 else None) for s, r in zip(sources, rules, strict=True)
        ]
        device = trained.pairs[0][0].device
        self.places = torch.tensor([table.index(w) for w in wanted], device=device)
        self.followed = [torch.tensor(members, device=device) for members in followed]

    def logits(self, trained: StackedMLP, x: Tensor) -> Tensor:
        """Logits (K, n, C) of rows (T, n, d)."""
        logits = [trained.forward(x).mT]
        for members, own in zip(self.followed, self.copies, strict=True):
            logits.append(own.forward(x.index_select(0, members)).mT)
        return torch.cat(logits).index_select(0, self.places).mT

    @torch.no_grad()
    def update(self, trained: StackedMLP) -> None:
        """Follow the weights after an optimiser step."""
        self.n_steps += 1
        for (step, warm), members, own in zip(
            self.rules, self.followed, self.copies, strict=True
        ):
            weight = max(step, 1 / (self.n_steps + 1)) if warm else step
            whole = len(members) == trained.n_members
            for mine, theirs in zip(own.pairs, trained.pairs, strict=True):
                for average, p in zip(mine, theirs, strict=True):
                    average.lerp_(p if whole else p.index_select(0, members), weight)
