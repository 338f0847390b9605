"""Forward calibration: numbers of a prediction that are learned as the stream goes on.

A few numbers that shape predictions, such as what logits are multiplied by, are moved
by one step on each minibatch, along the loss of predictions that had not yet seen its
labels (Bornschein, Li and Hutter, 2022).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from sklearn_mdl.stacked.adamw import StackedAdamW
from sklearn_mdl.stacked.perceptrons import gradient_of

IDENTITY = math.log(math.e - 1)  # softplus of it is one
MAX_SLOPE = 1e6  # what overflows no square
# Of the optimiser. One step a minibatch must follow an expert that overfits: so fast.
CALIBRATION = (0.1, 0.9, 0.99, 1e-8, 0.0)


class ForwardCalibration:
    """Numbers of several members, each with an optimiser's state of its own.

    Parameters
    ----------
    start : sequence of sequence of float
        Values of every member before anything is learned, (K, P).
    """

    def __init__(self, start: Sequence[Sequence[float]]) -> None:
        self.values = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
        self.optimizer = StackedAdamW(
            [self.values], *([setting] * len(start) for setting in CALIBRATION)
        )

    def member(self, index: int) -> list[float]:
        """Return the values of one member, (P,)."""
        found: list[float] = self.values[index].tolist()
        return found

    @torch.no_grad()
    def learn(self, slopes: Sequence[Sequence[float]]) -> None:
        """Take one step against the derivatives (K, P) of the mean loss.

        NaN counts as zero, and what is too large to be squared is cut.
        """
        slope = torch.tensor(slopes, dtype=torch.float64).clamp(-MAX_SLOPE, MAX_SLOPE)
        gradient_of(self.values).copy_(slope.nan_to_num(nan=0.0))
        self.optimizer.update()

    def learned(self) -> dict[str, Tensor]:
        """All that was learned, by name."""
        first, second = self.optimizer.moments()
        n_steps = torch.tensor(self.optimizer.n_steps)
        return {
            "values": self.values,
            "first": first,
            "second": second,
            "n_steps": n_steps,
        }

    @torch.no_grad()
    def relearn(self, learned: Mapping[str, Tensor]) -> None:
        """Take over what another one with as many values has learned."""
        own = self.learned()
        for name in ("values", "first", "second"):
            own[name].copy_(learned[name])
        self.optimizer.n_steps = int(learned["n_steps"])


def heat_of(raw: float) -> tuple[float, float]:
    """Return what logits are multiplied by, softplus of a raw value, and its slope."""
    return float(np.logaddexp(0.0, raw)), float(expit(raw))
