"""Random numbers of estimators: from a seed of their own, whatever else is running."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from numpy.random import default_rng
from sklearn.base import clone
from skorch import NeuralNet

_GENERATORS_OF_TORCH = threading.RLock()


def seeded(estimator: Any, seed: int) -> Any:
    """Copy an unfitted estimator; what would draw from numpy's global state is seeded.

    Every parameter ``random_state`` that is None, also of estimators inside, gets an
    integer.
    """
    params = estimator.get_params(deep=True)
    names = sorted(
        name
        for name, value in params.items()
        if name.rpartition("__")[2] == "random_state" and value is None
    )
    draws = default_rng(seed).integers(2**31 - 1, size=len(names)).tolist()
    return clone(estimator).set_params(**dict(zip(names, draws, strict=True)))


def has_net(estimator: Any) -> bool:
    """Whether an estimator is a skorch net or has one inside."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    return any(isinstance(part, NeuralNet) for part in parts)


@contextmanager
def net_draws(is_net: bool, seed: int) -> Iterator[None]:
    """Let a net draw its initial weights and dropout from a seed.

    Nets draw from torch's global generators, even the loaders by which they predict.
    These are left as they were, and nets in
    several threads wait for each other.
    """
    if not is_net:
        yield
        return
    devices = range(torch.cuda.device_count())
    with _GENERATORS_OF_TORCH, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
