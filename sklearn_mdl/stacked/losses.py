"""Cross-entropy of many classifiers at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


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
