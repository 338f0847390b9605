"""An AdamW optimiser for stacked networks, and forward calibration based on it."""

from __future__ import annotations

import importlib.util
import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn

from sklearn_mdl._core.nets.mlp import gradient_of

Group = dict[str, Any]  # a group of parameters, as in torch.optim
State = dict[Tensor, Any]
SETTINGS = ("lr", "beta1", "beta2", "eps", "weight_decay")


class StackedAdamW(torch.optim.Optimizer):
    """AdamW (Loshchilov and Hutter, 2019) with separate settings for each member.

    A member is one of the networks that are stacked in the same tensors.

    Parameters
    ----------
    params : iterable of Parameter
        Parameters whose leading axis is that of the members.
    lr, beta1, beta2, eps, weight_decay : sequence of float, one per member
        As in ``torch.optim.AdamW``.

    Notes
    -----
    On a CPU, each member is updated by one call of torch's fused kernel. This takes a
    single pass over memory, while a broadcast formula takes ten. On a GPU, one call per
    member would cost more than ten passes, so the formula updates all members together.
    If Triton is available, a kernel computes the formula in one pass.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: Sequence[float],
        beta1: Sequence[float],
        beta2: Sequence[float],
        eps: Sequence[float],
        weight_decay: Sequence[float],
    ) -> None:
        settings = zip(lr, beta1, beta2, eps, weight_decay, strict=True)
        members = [dict(zip(SETTINGS, values, strict=True)) for values in settings]
        super().__init__(params, {"members": members, "n_steps": 0})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["exp_avg"] = torch.zeros_like(p)
                self.state[p]["exp_avg_sq"] = torch.zeros_like(p)
        self._calls: dict[int, _FusedCalls | _Formula | _Kernels] = {}

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters as torch does, but without importing torch's compiler."""
        add = torch.optim.Optimizer.add_param_group
        getattr(add, "__wrapped__", add)(self, param_group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state without cached views, which belong to other tensors."""
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
        """Return first and second moments of all parameters, to read or overwrite."""
        params = [p for group in self.param_groups for p in group["params"]]
        names = ("exp_avg", "exp_avg_sq")
        return [self.state[p][name] for p in params for name in names]

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None
    ) -> float | None:
        """Take one step for every member, after calling ``closure`` if given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.update()
        return loss

    @torch.no_grad()
    def update(self) -> None:
        """Take one step with the current gradients, without hooks."""
        for i, group in enumerate(self.param_groups):
            calls = self._calls.get(i)
            if calls is None or not calls.hold(group["params"]):
                make = _way_of(group["params"][0].device)
                calls = self._calls[i] = make(group, self.state)
            group["n_steps"] += 1
            calls.run(group["n_steps"])


class _Update:
    """The update of one group of parameters, whose tensors are looked up once."""

    def __init__(self, group: Group, state: State) -> None:
        self.tensors = [
            (p, p.grad, state[p]["exp_avg"], state[p]["exp_avg_sq"])
            for p in group["params"]
        ]

    def hold(self, params: list[nn.Parameter]) -> bool:
        """Return True if the gradients of the parameters have not been replaced."""
        pairs = zip(params, self.tensors, strict=True)
        return all(p.grad is grad for p, (_, grad, *_) in pairs)


class _FusedCalls(_Update):
    """Fused updates, one call per member, with views that are created only once."""

    def __init__(self, group: Group, state: State) -> None:
        super().__init__(group, state)
        self.step = torch.zeros((), device=group["params"][0].device)
        self.steps = [self.step] * len(self.tensors)
        alike = list(zip(*self.tensors, strict=True))  # parameters, gradients, ...
        self.members = [
            ([[tensor[k] for tensor in tensors] for tensors in alike], settings)
            for k, settings in enumerate(group["members"])
        ]

    def run(self, n_steps: int) -> None:
        self.step.fill_(n_steps)
        for (p, g, m, v), settings in self.members:
            torch._fused_adamw_(
                p, g, m, v, [], self.steps, amsgrad=False, maximize=False, **settings
            )


class _Formula(_Update):
    """The update of all members together, tensor by tensor."""

    def __init__(self, group: Group, state: State) -> None:
        super().__init__(group, state)
        device = group["params"][0].device
        table = [[settings[name] for settings in group["members"]] for name in SETTINGS]
        self.settings = torch.tensor(table, dtype=torch.float64, device=device)

    def run(self, n_steps: int) -> None:
        rates = adamw_rates(self.settings, n_steps)
        for p, g, m, v in self.tensors:
            per_member = (-1, *[1] * (p.ndim - 1))
            adamw_update(p, g, m, v, *(r.to(p.dtype).view(per_member) for r in rates))


class _Kernels(_Formula):
    """The formula in Triton kernels, with one pass over the memory of each tensor."""

    def __init__(self, group: Group, state: State) -> None:
        # Triton is only available on some systems, and slow to import.
        from sklearn_mdl._core.nets import adamw_kernel

        super().__init__(group, state)
        self.kernel = adamw_kernel
        self.rates = torch.empty_like(self.settings)

    def run(self, n_steps: int) -> None:
        with torch.cuda.device_of(self.rates):  # type: ignore[no-untyped-call]
            self.kernel.launch_rates(self.settings, self.rates, n_steps)
            for tensors in self.tensors:
                self.kernel.launch_update(*tensors, self.rates)


def _way_of(device: torch.device) -> type[_FusedCalls | _Formula]:
    if device.type == "cpu":
        return _FusedCalls
    return _Kernels if has_triton(device) else _Formula


def has_triton(device: torch.device) -> bool:
    """Return True if Triton, which needs a C compiler, can be used on a device."""
    compilers = ("gcc", "cc", "clang")
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and any(shutil.which(name) for name in compilers)
    )


def adamw_rates(settings: Tensor, n_steps: int) -> tuple[Tensor, ...]:
    """Return the rates of :func:`adamw_update` at the ``n_steps``-th step, (K,) each.

    Parameters
    ----------
    settings : Tensor of shape (5, K)
        Rows: step size, decay rates of both moments, epsilon and weight decay.
    n_steps : int
    """
    lr, beta1, beta2, eps, weight_decay = settings
    root = (1 - beta2**n_steps).sqrt()
    kept, step = 1 - lr * weight_decay, lr * root / (1 - beta1**n_steps)
    return 1 - beta1, 1 - beta2, kept, step, eps * root


def adamw_update(p: Tensor, grad: Tensor, m: Tensor, v: Tensor, *rates: Tensor) -> None:
    """Take a step of AdamW in place, with rates that broadcast to the tensors."""
    gain1, gain2, kept, step, eps = rates
    m.lerp_(grad, gain1)
    v.lerp_(grad * grad, gain2)
    p.mul_(kept).sub_(step * m / (v.sqrt() + eps))


# Forward calibration learns a few numbers that adjust predictions, such as a factor of
# the logits. After each minibatch, it takes one step to reduce the loss of the
# predictions that were made before the labels were seen (Bornschein, Li and Hutter,
# 2022).

IDENTITY = math.log(math.e - 1)  # softplus maps it to one
MAX_SLOPE = 1e6  # slopes are clipped at this size, so that squares do not overflow
# Settings of the optimiser. Its steps are large enough to follow a readout that
# overfits, although there is only one step per minibatch.
CALIBRATION = (0.1, 0.9, 0.99, 1e-8, 0.0)


class ForwardCalibration:
    """Calibration parameters of several members, with an optimiser state for each.

    Parameters
    ----------
    start : Tensor of shape (K, P)
        Initial values of every member, which determine dtype and device.
    """

    def __init__(self, start: Tensor) -> None:
        self.values = torch.nn.Parameter(start)
        settings = ([setting] * len(start) for setting in CALIBRATION)
        self.optimizer = StackedAdamW([self.values], *settings)

    def member(self, index: int) -> list[float]:
        """Return the values (P,) of one member."""
        return self.values[index].tolist()

    @torch.no_grad()
    def learn(self, slopes: Tensor) -> None:
        """Take one descent step, given the derivatives (K, P) of the mean loss.

        NaN is replaced by zero, and large derivatives are clipped, so that a diverging
        readout does not cause an overflow.
        """
        slopes = slopes.clamp(-MAX_SLOPE, MAX_SLOPE).nan_to_num(nan=0.0)
        gradient_of(self.values).copy_(slopes)
        self.optimizer.update()

    def pick(self, members: list[int]) -> ForwardCalibration:
        """Return a copy with only some members."""
        picked = ForwardCalibration(self.values.detach()[members])
        moments = zip(picked.optimizer.moments(), self.optimizer.moments(), strict=True)
        for own, theirs in moments:
            own.copy_(theirs[members])
        picked.optimizer.n_steps = self.optimizer.n_steps
        return picked

    def state_dict(self) -> dict[str, Tensor]:
        """Return the values, their moments and the number of steps, keyed by name."""
        first, second = self.optimizer.moments()
        numbers = {"values": self.values, "first": first, "second": second}
        return numbers | {"n_steps": torch.tensor(self.optimizer.n_steps)}

    @torch.no_grad()
    def load_state_dict(self, learned: Mapping[str, Tensor]) -> None:
        """Load the state of another instance of the same size."""
        own = self.state_dict()
        for name in ("values", "first", "second"):
            own[name].copy_(learned[name])
        self.optimizer.n_steps = int(learned["n_steps"])


class LogitScale(ForwardCalibration):
    """Factor of the logits of one readout, computed as the softplus of a raw value."""

    def __init__(self) -> None:
        super().__init__(torch.tensor([[IDENTITY]], dtype=torch.float64))

    @property
    def factor(self) -> float:
        """The current factor."""
        return logit_scale_of(*self.member(0))[0]

    def learn_factor(self, derivative: float) -> None:
        """Take one descent step, given a derivative of the mean loss.

        ``derivative`` is taken with respect to the factor: the mean over rows of the
        expected logit minus the label's logit.
        """
        _, slope = logit_scale_of(*self.member(0))
        self.learn(torch.tensor([[derivative * slope]], dtype=torch.float64))


def logit_scale_of(raw: float) -> tuple[float, float]:
    """Return a factor of logits, the softplus of ``raw``, and its derivative."""
    return float(np.logaddexp(0.0, raw)), float(expit(raw))
