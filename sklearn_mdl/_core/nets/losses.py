"""Losses and gradients of stacked networks, for classes and real labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sklearn_mdl._core.nets.mlp import gradient_of
from sklearn_mdl._core.numerics import in_lanes


class StackedCrossEntropy(nn.Module):
    """Mean cross-entropy of each member, summed over members, with label smoothing.

    Parameters
    ----------
    label_smoothing : sequence of float, one per member
        Share of each label's target that is spread evenly over all classes.
    n_classes : int
        Number of classes ``C``.
    """

    evenly: Tensor
    label: Tensor

    def __init__(self, label_smoothing: Sequence[float], n_classes: int) -> None:
        super().__init__()
        # Keep a single share if it is the same for all members.
        distinct = sorted(set(label_smoothing))
        shares = torch.tensor(label_smoothing if len(distinct) > 1 else distinct)
        shares = shares.view(-1, 1, 1)
        # Keep one target for the label's class and one for every other class, since a
        # table of the targets for all labels would have C x C numbers.
        self.register_buffer("evenly", shares / n_classes)
        self.register_buffer("label", 1 - shares + shares / n_classes)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss in nats, a scalar, for (K, B, C) logits and (B,) labels."""
        log_proba = log_softmax(logits)
        targets = self.evenly.expand_as(log_proba).mT.contiguous().mT
        own = labels.view(1, -1, 1).expand(len(logits), -1, 1)
        targets.scatter_(2, own, self.label.expand(own.shape))
        return -(targets * log_proba).sum(-1).mean(-1).sum()

    def gradient(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient of :meth:`forward` with respect to the logits."""
        proba = softmax(logits)
        own = labels.view(1, -1, 1).expand(len(logits), -1, 1)
        gaps = proba.gather(2, own).sub_(self.label)
        return proba.sub_(self.evenly).scatter_(2, own, gaps).div_(len(labels))

    def mask_gradient(self, weight: nn.Parameter) -> None:
        """Leave the gradient of the last layer as it is: all its weights learn."""


def softmax(logits: Tensor) -> Tensor:
    """Return the softmax (K, B, C) over classes, in the memory layout (K, C, B)."""
    return logits.mT.softmax(1).mT


def log_softmax(logits: Tensor) -> Tensor:
    """Return the log-softmax over classes, like `softmax`."""
    return logits.mT.log_softmax(1).mT


# In gradients, residuals are clipped to this size, in units of the scale.
# Otherwise one outlier would dominate AdamW's second moment for a thousand steps.
MAX_RESIDUAL = 5.0
# The smallest log scale of standardised labels. Without this limit, equal labels would
# shrink the scale until it underflows.
LEAST_LOG_SCALE = -28.0
FARTHEST = 1e150  # residuals, in scales, are clipped here to avoid overflow


def student_t_loss(z: Tensor, log_scale: Tensor, degrees_of_freedom: Tensor) -> Tensor:
    """Return minus the log density of labels, in nats.

    Parameters
    ----------
    z : Tensor
        Residuals divided by the scale.
    log_scale : Tensor
        Logarithm of the scale.
    degrees_of_freedom : Tensor
        Infinity means a Gaussian. All three arguments broadcast.
    """
    gaussian = degrees_of_freedom.isinf()
    dof = torch.where(gaussian, 1.0, degrees_of_freedom)
    squares = z.square()
    normaliser = (
        in_lanes(torch.lgamma, dof / 2)
        - in_lanes(torch.lgamma, (dof + 1) / 2)
        + in_lanes(torch.log, dof * math.pi) / 2
    )
    tail = normaliser + (dof + 1) / 2 * in_lanes(torch.log1p, squares / dof)
    normal = squares / 2 + math.log(2 * math.pi) / 2
    return log_scale + torch.where(gaussian, normal, tail)


def density_losses(values: Tensor, labels: Tensor) -> Tensor:
    """Return minus the log densities (K, n) of labels, in nats.

    Parameters
    ----------
    values : Tensor of shape (K, n, 3)
        Location, logarithm of the scale, degrees of freedom.
    labels : Tensor of shape (n,)
        In the units of the location.
    """
    location, log_scale, dof = values.unbind(-1)
    z = (labels - location) * in_lanes(torch.exp, -log_scale)
    z = z.clamp(-FARTHEST, FARTHEST)
    # A readout has the same degrees of freedom in all rows unless it failed in some.
    # Check this only on a CPU, since the check would stall a GPU.
    if not dof.is_cuda and (dof == dof[:, :1]).all():
        dof = dof[:, :1]
    return student_t_loss(z, log_scale, dof)


def pull(z: Tensor, degrees_of_freedom: Tensor) -> Tensor:
    """Return the derivative of the loss with respect to ``z``, divided by ``z``."""
    gaussian = degrees_of_freedom.isinf()
    dof = torch.where(gaussian, 1.0, degrees_of_freedom)
    return torch.where(gaussian, 1.0, (dof + 1) / (dof + z.square()))


class StackedStudentT(nn.Module):
    """Mean Student-t loss of each member, summed over members.

    Parameters
    ----------
    degrees_of_freedom : sequence of float, one per member
        Infinity means a Gaussian.
    heteroscedastic : sequence of float, one per member
        1 if the scale may depend on the features, otherwise 0.
    """

    degrees_of_freedom: Tensor
    heteroscedastic: Tensor

    def __init__(
        self, degrees_of_freedom: Sequence[float], heteroscedastic: Sequence[float]
    ) -> None:
        super().__init__()
        dof, free = torch.tensor(degrees_of_freedom), torch.tensor(heteroscedastic)
        self.register_buffer("degrees_of_freedom", dof.view(-1, 1))
        self.register_buffer("heteroscedastic", free.view(-1, 1))

    def forward(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the loss in nats for (K, B, 2) outputs and (B,) standardised y."""
        location, log_scale = outputs.unbind(-1)
        z = (y - location) * (-log_scale).exp()
        dof = self.degrees_of_freedom.to(z)
        return student_t_loss(z, log_scale, dof).mean(-1).sum()

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the gradient of :meth:`forward` with respect to the outputs.

        Residuals are limited to ``MAX_RESIDUAL`` scales, and scales below
        ``LEAST_LOG_SCALE`` can only grow.
        """
        location, log_scale = outputs.unbind(-1)
        precision = in_lanes(torch.exp, -log_scale.clamp_min(LEAST_LOG_SCALE))
        z = ((y - location) * precision).clamp_(-MAX_RESIDUAL, MAX_RESIDUAL)
        wz = pull(z, self.degrees_of_freedom) * z
        widening = 1 - wz * z
        free = (log_scale > LEAST_LOG_SCALE) | (widening < 0)
        slope = torch.where(free, widening, 0.0)
        return torch.stack([-wz * precision, slope], -1).div_(len(y))

    def mask_gradient(self, weight: nn.Parameter) -> None:
        """Keep the last layer's weights of constant scales at zero, where they start.

        Its weight is (T, 2, n_inputs).
        """
        gradient_of(weight)[:, 1].mul_(self.heteroscedastic)
