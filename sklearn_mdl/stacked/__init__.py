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

from sklearn_mdl.stacked.adamw import StackedAdamW
from sklearn_mdl.stacked.averages import StackedAverages
from sklearn_mdl.stacked.calibration import ForwardCalibration, heat_of
from sklearn_mdl.stacked.densities import StackedStudentT, pull, student_t_loss
from sklearn_mdl.stacked.losses import StackedCrossEntropy, log_softmax, softmax
from sklearn_mdl.stacked.perceptrons import (
    StackedLinear,
    StackedMLP,
    count_parameters,
    gradient_of,
)

__all__ = [
    "ForwardCalibration",
    "StackedAdamW",
    "StackedAverages",
    "StackedCrossEntropy",
    "StackedLinear",
    "StackedMLP",
    "StackedStudentT",
    "count_parameters",
    "gradient_of",
    "heat_of",
    "log_softmax",
    "pull",
    "softmax",
    "student_t_loss",
]
