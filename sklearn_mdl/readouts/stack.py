"""Readouts of one shape, trained and scored together.

A stack holds ``T`` trainings and serves ``K >= T`` readouts: those that differ in their
averaging step alone share one training, since averaged weights serve prediction only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from skorch import NeuralNet
from torch import Tensor
from torch.nn.functional import softplus

from sklearn_mdl.arithmetic import in_lanes
from sklearn_mdl.scaling import ReExpression
from sklearn_mdl.stacked import (
    StackedAdamW,
    StackedAverages,
    StackedCrossEntropy,
    StackedMLP,
    gradient_of,
    log_softmax,
    softmax,
)
from sklearn_mdl.stacked.calibration import CALIBRATION, IDENTITY, MAX_SLOPE


class Shape(NamedTuple):
    """What readouts of one stack have in common."""

    hidden_layer_sizes: tuple[int, ...]
    n_replay_streams: int
    recency: float


class Training(NamedTuple):
    """What classifiers that share one training run have in common."""

    scaling: str | None
    seed: int
    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    label_smoothing: float


class DensityTraining(NamedTuple):
    """What regressors that share one training run have in common."""

    scaling: str | None
    seed: int
    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    tails: float  # degrees of freedom, infinite for a Gaussian
    heteroscedastic: float


class Averaging(NamedTuple):
    """How a readout predicts from its training run."""

    ema_step_size: float
    ema_warmup: bool
    calibration: bool


class Member(NamedTuple):
    """A readout as a stack sees it."""

    column: int
    training: Training | DensityTraining
    averaging: Averaging


class StackNet(NeuralNet):
    """The skorch net behind a stack: it owns module, criterion and optimiser.

    ``train_step`` keeps its meaning - gradients, then one optimiser step - without the
    recording of gradients and callbacks that cost more than the arithmetic of a
    minibatch.
    """

    @torch.no_grad()
    def train_step(
        self, batch: tuple[Tensor, Tensor], **fit_params: Any
    ) -> dict[str, Tensor]:
        """Take one step on a minibatch (x, y); returns its logits as ``y_pred``."""
        x, y = batch
        activations = self.module_.activations(x)
        gradient = self.criterion_.gradient(activations[-1], y)
        self.module_.backward(activations, gradient)
        self.optimizer_.update()
        return {"y_pred": activations[-1]}


def make_net(
    layer_sizes: Sequence[int], trainings: Sequence[Training], device: torch.device
) -> StackNet:
    """Build the net of ``T`` trainings; ``layer_sizes`` from features to classes."""
    columns = {name: [getattr(t, name) for t in trainings] for name in Training._fields}
    names = ("lr", "beta1", "beta2", "eps", "weight_decay")
    net: StackNet = StackNet(
        StackedMLP,
        module__layer_sizes=tuple(layer_sizes),
        module__seeds=columns["seed"],
        criterion=StackedCrossEntropy,
        criterion__label_smoothing=columns["label_smoothing"],
        criterion__n_classes=layer_sizes[-1],
        optimizer=StackedAdamW,
        **{f"optimizer__{name}": columns[name] for name in names},
        train_split=None,
        callbacks="disable",
        device=str(device),
        verbose=0,
    )
    net.initialize()
    return net


class NetStack(ABC):
    """A learner for the walk: all readouts of one shape, whatever they predict.

    Subclasses make the net, say what its outputs mean, and along which slope the
    factor of forward calibration moves.

    Parameters
    ----------
    shape : Shape
    members : sequence of Member
        Its ``K`` readouts.
    scalings : sequence of {"standard", "whiten", None}
        How rows will be handed to it.
    n_features, n_outputs : int
    device : torch.device

    Attributes
    ----------
    net : StackNet
        The trainings.
    averages : StackedAverages
        Averaged copies of their weights.
    temperature : Tensor of shape (K,)
        Raw forward calibration, whose softplus is a factor of the prediction.
    """

    def __init__(
        self,
        shape: Shape,
        members: Sequence[Member],
        scalings: Sequence[str | None],
        n_features: int,
        n_outputs: int,
        device: torch.device,
    ) -> None:
        self.columns = [member.column for member in members]
        self.scalings = scalings
        self.n_replay_streams = shape.n_replay_streams
        self.recency = shape.recency
        trainings = list(dict.fromkeys(member.training for member in members))
        sizes = (n_features, *shape.hidden_layer_sizes, n_outputs)
        self.net = self._make_net(sizes, trainings, device)
        # The scaling that each training looks at.
        views = [scalings.index(training.scaling) for training in trainings]
        self.views = torch.tensor(views, device=device)
        self.only_view = views[0] if len(set(views)) == 1 else None
        self.sources = [trainings.index(member.training) for member in members]
        self.averages = StackedAverages(
            self.net.module_,
            self.sources,
            [member.averaging.ema_step_size for member in members],
            [member.averaging.ema_warmup for member in members],
        )
        n = len(members)
        calibrated = [member.averaging.calibration for member in members]
        self.calibrated = torch.tensor(calibrated, device=device)
        self.any_calibrated = any(calibrated)
        self.temperature = torch.nn.Parameter(torch.full((n,), IDENTITY, device=device))
        self.thermostat = StackedAdamW(
            [self.temperature],
            *([setting] * n for setting in CALIBRATION),
        )

    @abstractmethod
    def _make_net(
        self, sizes: Sequence[int], trainings: Sequence[Any], device: torch.device
    ) -> StackNet:
        """Build the net of the trainings, of layers of these sizes."""

    @abstractmethod
    def _slope(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the derivative of the mean loss by the calibrating factor, (K,).

        Outputs (K, n, P) are zero where a member is not calibrated, and its derivative
        does not matter.
        """

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Return outputs (K, n, P), uncalibrated, of rows (n_scalings, n, d)."""
        return self.averages.logits(self.net.module_, self._viewed(x))

    def _viewed(self, x: Tensor) -> Tensor:
        """Rows (T, n, d) of every training, copied only where scalings differ."""
        if self.only_view is None:
            return x.index_select(0, self.views)
        return x[self.only_view].expand(len(self.views), -1, -1)

    def _heat(self) -> Tensor:
        """Return the calibrating factor, (K, 1, 1), float64."""
        return in_lanes(softplus, self.temperature.double())[:, None, None]

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Calibrate on a new minibatch, learn from it, then from the replayed ones."""
        self._calibrate(x, y)
        self._step(x, y)
        for batch in replayed:
            self._step(*batch)

    def _step(self, x: Tensor, y: Tensor) -> None:
        self.net.train_step((self._viewed(x), y))
        self.averages.update(self.net.module_)

    @torch.no_grad()
    def _calibrate(self, x: Tensor, y: Tensor) -> None:
        """Take one step on the temperatures, by the loss before the weights saw ``y``.

        Logits are computed anew on the full minibatch: those of arrival would depend on
        the pieces in which its rows came.
        """
        if not self.any_calibrated:
            return
        logits = self.logits(x).double()
        finite = logits.isfinite().flatten(1).all(1)
        chosen = self.calibrated & finite
        logits = torch.where(chosen[:, None, None], logits, 0.0)
        slope = torch.where(chosen, self._slope(logits, y), 0.0)
        slope = slope * in_lanes(torch.sigmoid, self.temperature.double())
        # Logits of a diverging readout must not overflow the optimiser's squares.
        gradient_of(self.temperature).copy_(slope.clamp(-MAX_SLOPE, MAX_SLOPE))
        self.thermostat.update()

    @torch.no_grad()
    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Adapt the first layers to rows that are scaled anew."""
        for view, change in enumerate(changes):
            if change is not None:
                followed = [torch.arange(len(self.views)), *self.averages.followed]
                modules = (self.net.module_, *self.averages.copies)
                for members, module in zip(followed, modules, strict=True):
                    _change_some(module, self.views[members] == view, change)

    def learned(self) -> dict[int, dict[str, Tensor]]:
        """All that it has learned, by the column of a readout and by name.

        What readouts share stands under the first of them, so that nothing depends on
        how trainings are dealt out to stacks.
        """
        parts = self._parts()
        counts = torch.tensor([one.n_steps for one in self._counting])
        for source in dict.fromkeys(self.sources):
            parts[self._first(self.sources, source)]["n_steps"] = counts
        return parts

    @torch.no_grad()
    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Take over what the same readouts have learned, in whatever stacks.

        Raises
        ------
        ValueError
            If a tensor is missing or has another shape.
        """
        for column, own in self._parts().items():
            given = learned.get(column, {})
            for name, tensor in own.items():
                if name not in given or given[name].shape != tensor.shape:
                    raise ValueError(
                        f"Readout {column} needs {name} of shape {tuple(tensor.shape)} "
                        f"to go on, but it is {_shape_in(given, name)}; it was learned "
                        "by other readouts"
                    )
                tensor.copy_(given[name])
        counts = learned[self._first(self.sources, 0)]["n_steps"].tolist()
        for one, n_steps in zip(self._counting, counts, strict=True):
            one.n_steps = n_steps

    def _parts(self) -> dict[int, dict[str, Tensor]]:
        """Cut its own tensors by readouts, as views."""
        parts: dict[int, dict[str, Tensor]] = {column: {} for column in self.columns}
        heat = [self.temperature, *self.thermostat.moments()]
        for i, column in enumerate(self.columns):
            parts[column].update({f"heat.{j}": h[i] for j, h in enumerate(heat)})
        trained = [*chain(*self.net.module_.pairs), *self.net.optimizer_.moments()]
        for source in dict.fromkeys(self.sources):
            own = parts[self._first(self.sources, source)]
            own.update({f"trained.{j}": p[source] for j, p in enumerate(trained)})
        row = self.net.module_.n_members  # of the trainings' and the copies' logits
        for module in self.averages.copies:
            for member in range(module.n_members):
                own = parts[self._first(self.averages.places.tolist(), row + member)]
                pairs = enumerate(chain(*module.pairs))
                own.update({f"average.{j}": p[member] for j, p in pairs})
            row += module.n_members
        return parts

    def _first(self, shared: Sequence[int], value: int) -> int:
        """Return the column of the first readout that has this value."""
        return self.columns[list(shared).index(value)]

    @property
    def _counting(self) -> list[StackedAdamW | StackedAverages]:
        return [self.net.optimizer_, self.averages, self.thermostat]


class ReadoutStack(NetStack):
    """A stack of classifiers: outputs are logits, and calibration multiplies them."""

    def _make_net(
        self, sizes: Sequence[int], trainings: Sequence[Any], device: torch.device
    ) -> StackNet:
        return make_net(sizes, trainings, device)

    @torch.no_grad()
    def log_proba(self, x: Tensor) -> Tensor:
        """Log-probabilities (K, n, C), float64, of rows (n_scalings, n, d).

        NaN in rows whose logits are not finite.
        """
        logits = self.logits(x).double() * self._heat()
        usable = logits.isfinite().all(-1, keepdim=True)
        return log_softmax(torch.where(usable, logits, torch.nan))

    def _slope(self, outputs: Tensor, y: Tensor) -> Tensor:
        proba = softmax(outputs * self._heat())
        onehot = torch.eye(outputs.shape[-1], device=y.device).index_select(0, y)
        return ((proba - onehot) * outputs).sum(-1).mean(-1)


def _shape_in(given: Mapping[str, Tensor], name: str) -> str:
    return f"of shape {tuple(given[name].shape)}" if name in given else "missing"


def _change_some(module: StackedMLP, chosen: Tensor, change: ReExpression) -> None:
    """Change the first layers of some members in place."""
    (weight, bias), *_ = module.pairs
    some_weight, some_bias = weight[chosen], bias[chosen]  # copies
    change(some_weight, some_bias)
    weight[chosen], bias[chosen] = some_weight, some_bias
