"""Stacks of readouts with the same shape, trained and scored together.

A stack trains ``T`` networks for ``K >= T`` readouts. Readouts that differ only in
averaging or calibration share a network, because both affect only predictions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import chain
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sklearn_mdl._core.nets.adamw import (
    IDENTITY,
    SETTINGS,
    ForwardCalibration,
    StackedAdamW,
)
from sklearn_mdl._core.nets.losses import (
    FARTHEST,
    LEAST_LOG_SCALE,
    StackedCrossEntropy,
    StackedStudentT,
    log_softmax,
    pull,
    softmax,
)
from sklearn_mdl._core.nets.mlp import OF_PRECISION, StackedAverages
from sklearn_mdl._core.numerics import in_lanes
from sklearn_mdl._core.stream.learner import (
    Batches,
    FeatureView,
    Learned,
    Learner,
    Replay,
    copy_learned,
)
from sklearn_mdl._core.stream.scaling import ReExpression
from sklearn_mdl._core.stream.units import TargetScaling

Options = dict[str, object]  # options of a skorch net


class Shape(NamedTuple):
    """Settings shared by the readouts of a stack."""

    hidden_layer_sizes: tuple[int, ...]
    replay: Replay
    precision: str = "float32"


class Training(NamedTuple):
    """Settings with which a network is trained, shared by its readouts."""

    scaling: str | None
    seed: int
    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    label_smoothing: float = 0.0  # only for classifiers
    tails: float = math.inf  # degrees of freedom of a density
    heteroscedastic: float = 1.0


class Averaging(NamedTuple):
    """Settings that determine how a readout predicts with a trained network."""

    ema_step_size: float
    ema_warmup: bool
    calibration: bool


class Member(NamedTuple):
    """Position and settings of a readout."""

    column: int
    training: Training
    averaging: Averaging


class NetStack(Learner):
    """Base class of learners that train several readouts of one shape together.

    Subclasses choose the criterion and the kind of net. They define what the outputs
    mean, and the derivative of the loss for forward calibration.

    Parameters
    ----------
    shape : Shape
    members : sequence of Member
        The ``K`` readouts.
    view : FeatureView
    n_features, n_outputs : int
    device : torch.device

    Attributes
    ----------
    net : StackNet
        The trained networks.
    averages : StackedAverages
        Averages of the weights of these networks.
    calibration : ForwardCalibration
        Raw values (K, 1), whose softplus is the calibration factor.
    """

    n_outputs: ClassVar[int | None] = None  # if None, one per class

    is_numbers = True

    def __init__(
        self,
        shape: Shape,
        members: Sequence[Member],
        view: FeatureView,
        n_features: int,
        n_outputs: int,
        device: torch.device,
    ) -> None:
        from sklearn_mdl.readouts._skorch_nets import StackNet

        self.members = members
        self.columns = [member.column for member in members]
        self.view = view
        self.shape = shape
        self.replay = shape.replay
        # Networks with averages come first, so a slice selects them without a copy.
        of_average = [m.training for m in members if m.averaging.ema_step_size < 1]
        trainings = list(dict.fromkeys([*of_average, *(m.training for m in members)]))
        sizes = (n_features, *shape.hidden_layer_sizes, n_outputs)
        self.net = StackNet(
            OF_PRECISION[shape.precision],
            module__layer_sizes=sizes,
            module__seeds=[training.seed for training in trainings],
            **self._criterion(trainings, n_outputs),
            optimizer=StackedAdamW,
            **{f"optimizer__{n}": [getattr(t, n) for t in trainings] for n in SETTINGS},
            train_split=None,
            callbacks="disable",
            device=str(device),
            verbose=0,
        )
        self.net.initialize()
        # Index of each network's scaling.
        views = [view.scalings.index(training.scaling) for training in trainings]
        self.views = torch.tensor(views, device=device)
        self.only_view = views[0] if len(set(views)) == 1 else None
        self.sources = [trainings.index(member.training) for member in members]
        steps, warmups, calibrated = zip(*(m.averaging for m in members), strict=True)
        self.averages = StackedAverages(self.net.module_, self.sources, steps, warmups)
        self.calibrated = torch.tensor(calibrated, device=device)
        self.any_calibrated = any(calibrated)
        start = torch.full((len(members), 1), IDENTITY, device=device)
        self.calibration = ForwardCalibration(start)

    @abstractmethod
    def _criterion(self, trainings: Sequence[Training], n_outputs: int) -> Options:
        """Return the criterion and its parameters as skorch options."""

    @abstractmethod
    def _slope(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Differentiate the mean loss (K,) with respect to the calibration factor.

        Outputs (K, n, P) are zero for members that are not calibrated, and the
        derivatives for these members are ignored.
        """

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Return uncalibrated outputs (K, n, P) of rows (n_scalings, n, d)."""
        return self.averages.logits(self.net.module_, self._viewed(x))

    def _viewed(self, x: Tensor) -> Tensor:
        """Return rows (T, n, d) for every network, copied only if scalings differ."""
        if self.only_view is None:
            return x.index_select(0, self.views)
        return x[self.only_view].expand(len(self.views), -1, -1)

    def _logit_scale(self) -> Tensor:
        """Return the calibration factor (K, 1, 1) as float64."""
        return in_lanes(softplus, self.calibration.values.double())[..., None]

    def update(self, x: Tensor, y: Tensor, replayed: Batches) -> None:
        """Learn from a new minibatch, then from replayed minibatches."""
        for batch in chain([(x, y)], replayed):
            self._step(*batch)

    def _step(self, x: Tensor, y: Tensor) -> None:
        self.net.train_step((self._viewed(x), y))
        self.averages.update(self.net.module_)

    @torch.no_grad()
    def calibrate(self, x: Tensor, y: Tensor) -> None:
        """Take one calibration step, before the weights learn ``y``.

        Logits are recomputed for the full minibatch, since logits computed as rows
        arrived would depend on how the stream was divided into calls.
        """
        if not self.any_calibrated:
            return
        logits = self.logits(x).double()
        chosen = self.calibrated & logits.isfinite().flatten(1).all(1)
        logits = torch.where(chosen[:, None, None], logits, 0.0)
        slope = torch.where(chosen, self._slope(logits, y), 0.0)
        raw = self.calibration.values.double()
        self.calibration.learn(slope[:, None] * in_lanes(torch.sigmoid, raw))

    @torch.no_grad()
    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Adapt the first layers to rescaled rows."""
        for view, change in enumerate(changes):
            if change is not None:
                followed = [torch.arange(len(self.views)), *self.averages.followed]
                modules = (self.net.module_, *self.averages.copies)
                for members, module in zip(followed, modules, strict=True):
                    chosen = self.views[members] == view
                    (weight, bias), *_ = module.pairs
                    some_weight, some_bias = weight[chosen], bias[chosen]  # copies
                    change(some_weight, some_bias)
                    weight[chosen], bias[chosen] = some_weight, some_bias

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return everything learned, keyed by column and by name.

        Shared tensors are stored under the first readout that uses them, so the state
        does not depend on how networks are distributed over stacks.
        """
        parts = self._parts()
        counts = torch.tensor([part.n_steps for part in self._counting])
        for source in dict.fromkeys(self.sources):
            parts[self.columns[self.sources.index(source)]]["n_steps"] = counts
        return parts

    @torch.no_grad()
    def load_state_dict(self, learned: Learned) -> None:
        """Load the state of the same readouts, regardless of how they were stacked.

        Raises
        ------
        ValueError
            If a tensor is missing or has the wrong shape.
        """
        for column, tensors in self._parts().items():
            copy_learned(column, tensors, learned.get(column, {}))
        first = self.columns[self.sources.index(0)]
        self._set_counts(learned[first]["n_steps"].tolist())

    def retire(self, columns: Collection[int]) -> None:
        """Drop some readouts without changing the others."""
        self._rebuild([m for m in self.members if m.column not in columns], 0)

    @torch.no_grad()
    def _rebuild(self, members: Sequence[Member], n_added: int) -> None:
        """Rebuild the stack from some readouts; weights of new outputs are zero."""
        parts, counts = self._parts(repeated=True), [c.n_steps for c in self._counting]
        pairs, target = self.net.module_.pairs, self.target
        sizes = pairs[0][0].shape[-1], pairs[-1][0].shape[-2] + n_added
        rebuilt = type(self)(self.shape, members, self.view, *sizes, self.views.device)
        self.__dict__ = rebuilt.__dict__ | {"target": target}
        for column, tensors in self._parts(repeated=True).items():
            for name, tensor in tensors.items():
                known = parts[column][name]
                tensor[tuple(map(slice, known.shape))].copy_(known)
        self._set_counts(counts)

    def _parts(self, *, repeated: bool = False) -> dict[int, dict[str, Tensor]]:
        """Return views of the tensors, keyed by column and by name.

        A tensor that several readouts share appears under the first of these readouts,
        or under all of them if ``repeated``.
        """
        parts: dict[int, dict[str, Tensor]] = {column: {} for column in self.columns}
        calibration = [self.calibration.values, *self.calibration.optimizer.moments()]
        trained = [*chain(*self.net.module_.pairs), *self.net.optimizer_.moments()]
        averages = [
            [p[member] for p in chain(*module.pairs)]
            for module in self.averages.copies
            for member in range(module.n_members)
        ]
        places = self.averages.places.tolist()  # logits of networks, then of averages
        n_trained = self.net.module_.n_members
        for i, (column, source) in enumerate(zip(parts, self.sources, strict=True)):
            tensors = {"logit_scale": [part[i] for part in calibration]}
            if repeated or self.sources.index(source) == i:
                tensors["trained"] = [p[source] for p in trained]
            is_averaged = places[i] >= n_trained
            if is_averaged and (repeated or places.index(places[i]) == i):
                tensors["average"] = averages[places[i] - n_trained]
            for kind, group in tensors.items():
                parts[column].update({f"{kind}.{j}": p for j, p in enumerate(group)})
        return parts

    def _set_counts(self, counts: Sequence[int]) -> None:
        for part, n_steps in zip(self._counting, counts, strict=True):
            part.n_steps = n_steps

    @property
    def _counting(self) -> list[StackedAdamW | StackedAverages]:
        return [self.net.optimizer_, self.averages, self.calibration.optimizer]


class ReadoutStack(NetStack):
    """A stack of classifiers. The outputs are logits, before calibration."""

    def _criterion(self, trainings: Sequence[Training], n_outputs: int) -> Options:
        return {
            "criterion": StackedCrossEntropy,
            "criterion__label_smoothing": [t.label_smoothing for t in trainings],
            "criterion__n_classes": n_outputs,
        }

    def add_classes(self, n: int) -> None:
        """Add outputs with zero weights, zero moments and the biases of new classes."""
        self._rebuild(self.members, n)
        for module in (self.net.module_, *self.averages.copies):
            module.bias_outputs(n)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return log-probabilities (K, n, C), float64, of rows (n_scalings, n, d).

        Log-probabilities are NaN in rows whose logits are not finite.
        """
        logits = self.logits(x).double() * self._logit_scale()
        usable = logits.isfinite().all(-1, keepdim=True)
        return log_softmax(torch.where(usable, logits, torch.nan))

    def _slope(self, outputs: Tensor, y: Tensor) -> Tensor:
        proba = softmax(outputs * self._logit_scale())
        labels = y.view(1, -1, 1).expand(len(proba), -1, 1)
        gaps = proba.scatter(2, labels, proba.gather(2, labels).sub_(1))
        return (gaps * outputs).sum(-1).mean(-1)


N_OUTPUTS = 2  # location and logarithm of the scale


class DensityStack(NetStack):
    """A stack of regressors. The outputs are the location and log scale of a density.

    ``target`` standardises labels, but densities are in the units of the labels.
    Forward calibration divides the scale by the calibration factor.
    """

    n_outputs = N_OUTPUTS

    @cached_property
    def _degrees_of_freedom(self) -> Tensor:
        dof: Tensor = self.net.criterion_.degrees_of_freedom.double()
        return dof[self.sources]  # (K, 1)

    def _criterion(self, trainings: Sequence[Training], n_outputs: int) -> Options:
        return {
            "criterion": StackedStudentT,
            "criterion__degrees_of_freedom": [t.tails for t in trainings],
            "criterion__heteroscedastic": [t.heteroscedastic for t in trainings],
        }

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Return locations and log scales (K, n, 2) of standardised labels."""
        location, log_scale = super().logits(x).unbind(-1)
        return torch.stack([location, log_scale.clamp_min(LEAST_LOG_SCALE)], -1)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return densities (K, n, 3), float64, of rows (n_scalings, n, d).

        A density consists of location and log scale, in the units of the labels, and
        degrees of freedom. All three are NaN if the outputs are not finite.
        """
        units = self._units
        location, log_scale = self.logits(x).double().unbind(-1)
        log_scale = log_scale - in_lanes(torch.log, self._logit_scale()).squeeze(-1)
        location = units.mean + units.scale * location
        log_scale = math.log(units.scale) + log_scale
        tails = self._degrees_of_freedom.expand_as(location)
        densities = torch.stack([location, log_scale, tails], -1)
        usable = densities[..., :2].isfinite().all(-1, keepdim=True)
        return torch.where(usable, densities, torch.nan)

    @property
    def _units(self) -> TargetScaling:
        if self.target is None:
            raise RuntimeError(
                "A stack must have units before it predicts or learns, got none; call "
                "retarget(target) first"
            )
        return self.target

    def calibrate(self, x: Tensor, y: Tensor) -> None:
        """Take one calibration step, with standardised labels."""
        super().calibrate(x, self._standardised(y))

    def _step(self, x: Tensor, y: Tensor) -> None:
        super()._step(x, self._standardised(y).float())

    def _standardised(self, y: Tensor) -> Tensor:
        return (y - self._units.mean) / self._units.scale

    def _slope(self, outputs: Tensor, y: Tensor) -> Tensor:
        location, log_scale = outputs.unbind(-1)
        logit_scale = self._logit_scale().squeeze(-1)
        z = (y - location) * in_lanes(torch.exp, -log_scale) * logit_scale
        z = z.clamp(-FARTHEST, FARTHEST)
        slopes = pull(z, self._degrees_of_freedom) * z.square() - 1
        return slopes.mean(-1) / logit_scale[:, 0]

    @torch.no_grad()
    def retarget(self, target: TargetScaling) -> None:
        """Change the units, and adapt output layers to give the same predictions."""
        if self.target is not None:
            shrink = self.target.scale / target.scale
            shift = (self.target.mean - target.mean) / target.scale
            for module in (self.net.module_, *self.averages.copies):
                weight, bias = module.pairs[-1]
                weight[:, 0] *= shrink
                bias[..., 0] = bias[..., 0] * shrink + shift
                bias[..., 1] += math.log(shrink)
        self.target = target
