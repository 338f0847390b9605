"""AdamW with settings of its own for each member."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


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
    On a CPU each member's update is one call of torch's fused kernel over views of the
    stacked tensors: a single pass through memory, where a broadcast formula makes ten.
    On a GPU, where hundreds of calls cost more than passes, it is the formula, compiled
    into one pass where :func:`can_compile` says so.
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
        self._calls: dict[int, _FusedCalls | _Formula] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Drop the views, which belong to the tensors of another life."""
        super().__setstate__(state)
        self._calls = {}

    @property
    def n_steps(self) -> int:
        """Number of steps taken."""
        return int(self.param_groups[0]["n_steps"])

    @n_steps.setter
    def n_steps(self, n_steps: int) -> None:
        for group in self.param_groups:
            group["n_steps"] = n_steps

    def moments(self) -> list[Tensor]:
        """First and second moments of all parameters, to be read or overwritten."""
        params = [p for group in self.param_groups for p in group["params"]]
        names = ("exp_avg", "exp_avg_sq")
        return [self.state[p][name] for p in params for name in names]

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
                on_cpu = group["params"][0].device.type == "cpu"
                make = _FusedCalls if on_cpu else _Formula
                calls = self._calls[i] = make(group, self.state)
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


class _Formula:
    """The update of all members at once, one tensor after the other."""

    def __init__(self, group: dict[str, Any], state: dict[Tensor, Any]) -> None:
        params = group["params"]
        self.grads = [p.grad for p in params]
        self.tensors = [
            (p, p.grad, state[p]["exp_avg"], state[p]["exp_avg_sq"]) for p in params
        ]
        names = ("lr", "beta1", "beta2", "eps", "weight_decay")
        table = [[settings[name] for name in names] for settings in group["members"]]
        device = params[0].device
        self.settings = torch.tensor(table, dtype=torch.float64, device=device).T
        self.n_steps = torch.zeros((), dtype=torch.float64, device=device)
        self.update = adamw_update
        if can_compile(device):
            self.update = torch.compile(adamw_update, dynamic=True)

    def hold(self, params: list[nn.Parameter]) -> bool:
        """Whether the tensors are still these parameters' own."""
        return all(p.grad is g for p, g in zip(params, self.grads, strict=True))

    def run(self, n_steps: int) -> None:
        self.n_steps.fill_(n_steps)
        rates = adamw_rates(self.settings, self.n_steps)
        for p, g, m, v in self.tensors:
            per_member = (-1, *[1] * (p.ndim - 1))
            self.update(p, g, m, v, *(r.to(p.dtype).view(per_member) for r in rates))


def can_compile(device: torch.device) -> bool:
    """Whether torch can compile for a device here: Triton, and a compiler for C."""
    compilers = ("gcc", "cc", "clang")
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and any(shutil.which(name) for name in compilers)
    )


def adamw_rates(settings: Tensor, n_steps: Tensor) -> tuple[Tensor, ...]:
    """Return what :func:`adamw_update` takes at the ``n_steps``-th step, (K,) each.

    Parameters
    ----------
    settings : Tensor of shape (5, K)
        Step size, two decay rates of moments, epsilon and weight decay.
    n_steps : Tensor
        A scalar: on a GPU it changes without a word to the host.
    """
    lr, beta1, beta2, eps, weight_decay = settings
    root = (1 - beta2**n_steps).sqrt()
    return (
        1 - beta1,
        1 - beta2,
        1 - lr * weight_decay,
        lr * root / (1 - beta1**n_steps),
        eps * root,
    )


def adamw_update(p: Tensor, grad: Tensor, m: Tensor, v: Tensor, *rates: Tensor) -> None:
    """Take a step of AdamW in place, by rates that broadcast to the tensors."""
    gain1, gain2, kept, step, eps = rates
    m.lerp_(grad, gain1)
    v.lerp_(grad * grad, gain2)
    p.mul_(kept).sub_(step * m / (v.sqrt() + eps))
