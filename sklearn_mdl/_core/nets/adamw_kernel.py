"""Triton kernels that take a step of AdamW in one pass over memory."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # number of parameters, or of members, per program


@triton.jit(do_not_specialize=["n_steps"])
def rates_kernel(settings, rates, n_steps, n_members, BLOCK: tl.constexpr):
    """Write the rates (5, K) that `adamw_rates` returns for the ``n_steps``-th step."""
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < n_members
    lr = tl.load(settings + k, mask=inside, other=0.0)
    beta1 = tl.load(settings + n_members + k, mask=inside, other=0.5)
    beta2 = tl.load(settings + 2 * n_members + k, mask=inside, other=0.5)
    eps = tl.load(settings + 3 * n_members + k, mask=inside, other=0.0)
    decay = tl.load(settings + 4 * n_members + k, mask=inside, other=0.0)
    n = n_steps.to(tl.float64)
    root = tl.sqrt(1.0 - tl.exp(n * tl.log(beta2)))
    tl.store(rates + k, 1.0 - beta1, mask=inside)
    tl.store(rates + n_members + k, 1.0 - beta2, mask=inside)
    tl.store(rates + 2 * n_members + k, 1.0 - lr * decay, mask=inside)
    step = lr * root / (1.0 - tl.exp(n * tl.log(beta1)))
    tl.store(rates + 3 * n_members + k, step, mask=inside)
    tl.store(rates + 4 * n_members + k, eps * root, mask=inside)


@triton.jit
def update_kernel(p, grad, m, v, rates, n, BLOCK: tl.constexpr):
    """Apply `adamw_update` to at most ``BLOCK`` of one member's ``n`` parameters."""
    member, n_members = tl.program_id(1).to(tl.int64), tl.num_programs(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    at = member * n + place
    kind = p.dtype.element_ty
    gain1 = tl.load(rates + member).to(kind)
    gain2 = tl.load(rates + n_members + member).to(kind)
    kept = tl.load(rates + 2 * n_members + member).to(kind)
    step = tl.load(rates + 3 * n_members + member).to(kind)
    eps = tl.load(rates + 4 * n_members + member).to(kind)
    g = tl.load(grad + at, mask=inside, other=0.0)
    first = tl.load(m + at, mask=inside, other=0.0)
    second = tl.load(v + at, mask=inside, other=0.0)
    own = tl.load(p + at, mask=inside, other=0.0)
    first += gain1 * (g - first)
    second += gain2 * (g * g - second)
    own = own * kept - step * first / (tl.sqrt(second) + eps)
    tl.store(m + at, first, mask=inside)
    tl.store(v + at, second, mask=inside)
    tl.store(p + at, own, mask=inside)


def launch_rates(settings: Tensor, rates: Tensor, n_steps: int) -> None:
    """Compute ``rates`` (5, K) of a step from ``settings`` (5, K), both float64."""
    n_members = settings.shape[1]
    grid = (triton.cdiv(n_members, BLOCK),)
    rates_kernel[grid](settings, rates, n_steps, n_members, BLOCK=BLOCK)


def launch_update(p: Tensor, grad: Tensor, m: Tensor, v: Tensor, rates: Tensor) -> None:
    """Update ``p``, ``m`` and ``v`` (K, ...) in place."""
    n = p[0].numel()
    grid = triton.cdiv(n, BLOCK), len(p)
    update_kernel[grid](p, grad, m, v, rates, n, BLOCK=BLOCK)
