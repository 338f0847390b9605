"""A network that walks: it predicts images, is told their labels, and learns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from sklearn_mdl.experts import Context
from sklearn_mdl.experts.draws import net_draws
from sklearn_mdl.finetune.augmenting import augment_of, augmented
from sklearn_mdl.finetune.averaging import AveragedNetwork
from sklearn_mdl.finetune.networks import HeadedNetwork, make_net
from sklearn_mdl.images import Shape, pixels_of
from sklearn_mdl.scaling import ReExpression
from sklearn_mdl.stacked import ForwardCalibration, heat_of
from sklearn_mdl.stacked.calibration import IDENTITY

NETWORK, AVERAGE, OPTIMIZER, HEAT = "network", "average", "optimizer", "heat"


class NetworkLearner:
    """One network that learns on the walk.

    What it draws in training - dropout, augmentations - depends on its seed and on the
    number of steps alone, so that copies and pickles go on as it would.

    Parameters
    ----------
    column : int
        Its place among all readouts of the walk.
    expert : FineTunedReadout or ScratchReadout
        The settings.
    trunk : torch.nn.Module
        With ``prepare``; it is its own from now on.
    shape : (H, W, C)
        Of the images.
    context : Context
    """

    def __init__(
        self, column: int, expert: Any, trunk: Any, shape: Shape, context: Context
    ) -> None:
        self.columns = [column]
        self.scalings = context.scalings
        self.view = context.scalings.index(None)
        self.n_replay_streams = int(expert.n_replay_streams)
        self.recency = float(expert.recency)
        self.shape = shape
        self.seed = expert.seed_or(context.seed)
        self.augment = augment_of(expert.augmentation, shape)
        with net_draws(True, self.seed):
            n_classes, device = context.n_classes, context.device
            self.net = make_net(expert, trunk, shape, n_classes, device)
        self.average = None
        if expert.ema_step_size < 1:
            self.average = AveragedNetwork(
                self.network, expert.ema_step_size, expert.ema_warmup
            )
        self.calibration = (
            ForwardCalibration([[IDENTITY]]) if expert.calibration else None
        )
        self.n_steps = 0
        self._last: tuple[Tensor, Tensor] | None = None  # rows, and their logits

    @property
    def network(self) -> HeadedNetwork:
        """The network that is trained."""
        return cast(HeadedNetwork, self.net.module_)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the last logits, which can be computed again."""
        return {**self.__dict__, "_last": None}

    def log_proba(self, x: Tensor) -> Tensor:
        """Log-probabilities (1, n, C), float64, of rows (n_scalings, n, d).

        NaN in rows whose logits are not finite.
        """
        logits = self._logits(x[self.view])
        usable = logits.isfinite().all(-1, keepdim=True)
        heated = torch.where(usable, self._heat()[0] * logits, torch.nan)
        return torch.log_softmax(heated, -1)[None]

    def _heat(self) -> tuple[float, float]:
        if self.calibration is None:
            return 1.0, 0.0
        return heat_of(*self.calibration.member(0))

    @torch.no_grad()
    def _logits(self, rows: Tensor) -> Tensor:
        """Logits (n, C), float64, by the averaged weights, where there are any."""
        if self._last is None or not torch.equal(self._last[0], rows):
            batch = self.network.prepare(pixels_of(rows, self.shape))
            network = self.network if self.average is None else self.average.network
            logits = network.eval()(batch.to(rows.device)).double()
            self._last = rows, logits
        return self._last[1]

    def update(
        self, x: Tensor, y: Tensor, replayed: Iterator[tuple[Tensor, Tensor]]
    ) -> None:
        """Calibrate on a new minibatch, learn from it, then from the replayed ones.

        Where a loss is not finite the weights are lost, and the replay is left out.
        """
        if self.calibration is not None:
            self._calibrate(x[self.view], y)
        for some_x, some_y in chain([(x, y)], replayed):
            if not self._step(some_x[self.view], some_y):
                break

    def _calibrate(self, rows: Tensor, y: Tensor) -> None:
        logits = self._logits(rows)
        heat, slope = self._heat()
        expected = (torch.softmax(heat * logits, 1) * logits).sum(1)
        own = logits.gather(1, y[:, None])[:, 0]
        error = float((expected - own).mean()) * slope
        cast(ForwardCalibration, self.calibration).learn([[error]])

    def _step(self, rows: Tensor, y: Tensor) -> bool:
        """Take one step on a minibatch, and say whether its loss was finite."""
        self.n_steps += 1
        self._last = None
        images = pixels_of(rows, self.shape)
        with net_draws(True, drawn_seed(self.seed, self.n_steps)):
            if self.augment is not None:
                images = augmented(images, self.augment)
            batch = self.network.prepare(images).to(rows.device)
            loss = self.net.train_step((batch, y))["loss"]
        self.net.optimizer_.zero_grad()  # gradients take as much room as weights
        if self.average is not None:
            self.average.update(self.network)
        return bool(loss.isfinite())

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Do nothing: pixels come as they are."""

    def learned(self) -> dict[int, dict[str, Tensor]]:
        """All that it has learned, under its column."""
        found = {"n_steps": torch.tensor(self.n_steps)}
        for name, tensor in self._tensors().items():
            found[name] = tensor
        state = self.net.optimizer_.state_dict()["state"]
        for i, own in state.items():
            for name, value in own.items():
                if value is not None:
                    found[f"{OPTIMIZER}.{i}.{name}"] = torch.as_tensor(value)
        if self.calibration is not None:
            learned = self.calibration.learned()
            found.update({f"{HEAT}.{name}": t for name, t in learned.items()})
        return {self.columns[0]: found}

    def _tensors(self) -> dict[str, Tensor]:
        """Weights and statistics, by name, as they stand."""
        networks: dict[str, nn.Module] = {NETWORK: self.network}
        if self.average is not None:
            networks[AVERAGE] = self.average.network
        return {
            f"{kind}.{name}": tensor
            for kind, network in networks.items()
            for name, tensor in network.state_dict().items()
        }

    @torch.no_grad()
    def relearn(self, learned: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Take over what such a network has learned.

        Raises
        ------
        ValueError
            If a tensor is missing or has another shape.
        """
        given = learned.get(self.columns[0], {})
        for name, own in self._tensors().items():
            if name not in given or given[name].shape != own.shape:
                raise ValueError(
                    f"Readout {self.columns[0]} needs {name} of shape "
                    f"{tuple(own.shape)} to go on, but it is missing or has another "
                    "shape; it was learned by another network"
                )
            own.copy_(given[name])
        self._relearn_steps(given)
        if self.calibration is not None:
            self.calibration.relearn(_under(HEAT, given))
        self._last = None

    def _relearn_steps(self, given: Mapping[str, Tensor]) -> None:
        self.n_steps = int(given["n_steps"])
        if self.average is not None:
            self.average.n_steps = self.n_steps
        optimizer = self.net.optimizer_
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under(OPTIMIZER, given).items():
            place, _, key = name.partition(".")
            state.setdefault(int(place), {})[key] = tensor
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def drawn_seed(seed: int, step: int) -> int:
    """Return a seed for one step: 0 draws initial weights."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0])


def _under(head: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{head}."): tensor
        for name, tensor in given.items()
        if name.startswith(f"{head}.")
    }
