"""Regressors of one shape, trained and scored together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sklearn_mdl.arithmetic import in_lanes
from sklearn_mdl.prequential import TargetScaling
from sklearn_mdl.readouts.stack import (
    DensityTraining,
    NetStack,
    StackNet,
)
from sklearn_mdl.stacked import (
    StackedAdamW,
    StackedMLP,
    StackedStudentT,
    gradient_of,
    pull,
)
from sklearn_mdl.stacked.densities import FARTHEST, LEAST_LOG_SCALE

N_OUTPUTS = 2  # location and logarithm of the scale
N_DENSITY = 3  # and degrees of freedom


class DensityNet(StackNet):
    """The net behind a stack of regressors."""

    @torch.no_grad()
    def train_step(
        self, batch: tuple[Tensor, Tensor], **fit_params: Any
    ) -> dict[str, Tensor]:
        """Take one step on a minibatch (x, y); returns its outputs as ``y_pred``."""
        x, y = batch
        activations = self.module_.activations(x)
        gradient = self.criterion_.gradient(activations[-1], y)
        self.module_.backward(activations, gradient)
        # Weights that started at zero and are not pulled stay there.
        slopes = gradient_of(self.module_.pairs[-1][0])[:, 1]  # (T, n_inputs)
        slopes.mul_(self.criterion_.heteroscedastic)
        self.optimizer_.update()
        return {"y_pred": activations[-1]}


class DensityStack(NetStack):
    """A stack of regressors: outputs are location and log scale of a density.

    Labels are standardised by ``target``; densities are given in the units of the
    labels. Forward calibration divides the scale by its factor.

    Its parameters are those of :class:`~sklearn_mdl.readouts.stack.NetStack`.
    """

    target: TargetScaling | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dof: Tensor = self.net.criterion_.degrees_of_freedom.double()
        self._degrees_of_freedom = dof[self.sources]  # (K, 1)

    def _make_net(
        self, sizes: Sequence[int], trainings: Sequence[Any], device: torch.device
    ) -> StackNet:
        names = DensityTraining._fields
        columns = {name: [getattr(t, name) for t in trainings] for name in names}
        settings = ("lr", "beta1", "beta2", "eps", "weight_decay")
        net: StackNet = DensityNet(
            StackedMLP,
            module__layer_sizes=tuple(sizes),
            module__seeds=columns["seed"],
            criterion=StackedStudentT,
            criterion__degrees_of_freedom=columns["tails"],
            criterion__heteroscedastic=columns["heteroscedastic"],
            optimizer=StackedAdamW,
            **{f"optimizer__{name}": columns[name] for name in settings},
            train_split=None,
            callbacks="disable",
            device=str(device),
            verbose=0,
        )
        net.initialize()
        return net

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Return location and log scale (K, n, 2), in units of the target."""
        location, log_scale = super().logits(x).unbind(-1)
        return torch.stack([location, log_scale.clamp_min(LEAST_LOG_SCALE)], -1)

    @torch.no_grad()
    def densities(self, x: Tensor) -> Tensor:
        """Densities (K, n, 3), float64, of rows (n_scalings, n, d).

        Location and logarithm of the scale in the units of the labels, and degrees of
        freedom; NaN where outputs are not finite.
        """
        units = self._units
        location, log_scale = self.logits(x).double().unbind(-1)
        log_scale = log_scale - in_lanes(torch.log, self._heat()).squeeze(-1)
        found = torch.stack(
            [
                units.mean + units.scale * location,
                math.log(units.scale) + log_scale,
                self._degrees_of_freedom.expand_as(location),
            ],
            -1,
        )
        usable = found[..., :2].isfinite().all(-1, keepdim=True)
        return torch.where(usable, found, torch.nan)

    @property
    def _units(self) -> TargetScaling:
        if self.target is None:
            raise RuntimeError(
                "A stack needs units before it predicts or learns, got none; call "
                "retarget first"
            )
        return self.target

    def _calibrate(self, x: Tensor, y: Tensor) -> None:
        super()._calibrate(x, self._standardised(y))

    def _step(self, x: Tensor, y: Tensor) -> None:
        super()._step(x, self._standardised(y).float())

    def _standardised(self, y: Tensor) -> Tensor:
        return (y - self._units.mean) / self._units.scale

    def _slope(self, outputs: Tensor, y: Tensor) -> Tensor:
        location, log_scale = outputs.unbind(-1)
        heat = self._heat().squeeze(-1)
        z = (y - location) * in_lanes(torch.exp, -log_scale) * heat
        z = z.clamp(-FARTHEST, FARTHEST)
        return (pull(z, self._degrees_of_freedom) * z.square() - 1).mean(-1) / heat[
            :, 0
        ]

    @torch.no_grad()
    def retarget(self, target: TargetScaling) -> None:
        """Go over to other units: the output layers predict what they predicted."""
        if self.target is not None:
            shrink = self.target.scale / target.scale
            shift = (self.target.mean - target.mean) / target.scale
            for module in (self.net.module_, *self.averages.copies):
                weight, bias = module.pairs[-1]
                weight[:, 0] *= shrink
                bias[..., 0] = bias[..., 0] * shrink + shift
                bias[..., 1] += math.log(shrink)
        self.target = target
