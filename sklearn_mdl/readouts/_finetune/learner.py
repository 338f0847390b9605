"""Learner for a network that is trained online on images."""

from __future__ import annotations

from itertools import chain
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from sklearn_mdl._core.images.rows import Shape, pixels_of
from sklearn_mdl._core.nets.adamw import LogitScale
from sklearn_mdl._core.stream.coder import by_number, under
from sklearn_mdl._core.stream.learner import (
    Batches,
    Learned,
    Learner,
    Replay,
    copy_learned,
)
from sklearn_mdl.encoders import EncoderTrunk
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._finetune.base import NetworkReadout
from sklearn_mdl.readouts._finetune.networks import (
    AveragedNetwork,
    HeadedNetwork,
    PixelTrunk,
    augment_of,
    augmented,
    make_net,
)
from sklearn_mdl.readouts._isolation import net_draws

NETWORK, AVERAGE, OPTIMIZER, SCALE = "network", "average", "optimizer", "logit_scale"


class NetworkLearner(Learner):
    """Learner that trains one network online.

    Random numbers in training (dropout, augmentation) depend only on the seed and the
    number of steps. So copies and unpickled learners give bitwise identical results.

    Parameters
    ----------
    column : int
        Position among all readouts of the run.
    expert : FineTunedReadout or ScratchReadout
        Readout with the settings of the network.
    trunk : EncoderTrunk or PixelTrunk
        The network without its head. The learner takes ownership of it.
    shape : (H, W, C)
        Shape of the images.
    context : Context
    """

    def __init__(
        self,
        column: int,
        expert: NetworkReadout,
        trunk: EncoderTrunk | PixelTrunk,
        shape: Shape,
        context: Context,
    ) -> None:
        self.columns = [column]
        self.view = context.view
        self.place = context.view.scalings.index(None)
        self.replay = Replay.requested(expert.n_replay_streams, expert.recency)
        self.shape = shape
        self.seed = expert.seed_or(context.seed)
        self.augment = augment_of(expert.augmentation, shape)
        with net_draws(True, self.seed):
            n_classes, device = context.n_classes, context.device
            self.net = make_net(expert, trunk, shape, n_classes, device)
        self.average, step_size = None, expert.ema_step_size
        if step_size < 1:
            self.average = AveragedNetwork(self.network, step_size, expert.ema_warmup)
        self.calibration = LogitScale() if expert.calibration else None
        self.n_steps = 0
        self._last: tuple[Tensor, Tensor] | None = None  # rows and logits

    @property
    def network(self) -> HeadedNetwork:
        """The network that is trained."""
        return cast(HeadedNetwork, self.net.module_)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the last logits, which can be recomputed."""
        return {**self.__dict__, "_last": None}

    def predict(self, x: Tensor) -> Tensor:
        """Return log-probabilities (1, n, C), float64, of rows (n_scalings, n, d).

        Log-probabilities are NaN in rows whose logits are not finite.
        """
        logits = self._logits(x[self.place])
        usable = logits.isfinite().all(-1, keepdim=True)
        factor = 1.0 if self.calibration is None else self.calibration.factor
        scaled = torch.where(usable, factor * logits, torch.nan)
        return torch.log_softmax(scaled, -1)[None]

    @torch.no_grad()
    def _logits(self, rows: Tensor) -> Tensor:
        """Return float64 logits (n, C), computed with averaged weights if any."""
        if self._last is None or not torch.equal(self._last[0], rows):
            batch = self.network.trunk.prepare(pixels_of(rows, self.shape))
            network = self.network if self.average is None else self.average.network
            logits = network.eval()(batch.to(rows.device)).double()
            self._last = rows, logits
        return self._last[1]

    def update(self, x: Tensor, y: Tensor, replayed: Batches) -> None:
        """Learn from a new minibatch, then from replayed minibatches.

        End this update once a loss is not finite, since the weights are then useless.
        """
        for some_x, some_y in chain([(x, y)], replayed):
            if not self._step(some_x[self.place], some_y):
                break

    def add_classes(self, n: int) -> None:
        """Add outputs to the head, with zero moments in the optimiser."""
        head = self.network.head
        self.network.add_classes(n)
        if self.average is not None:
            cast(HeadedNetwork, self.average.network).add_classes(n)
        for parameter in (head.weight, head.bias):
            parameter.grad = None
            state = self.net.optimizer_.state[parameter]
            for name, moment in state.items():
                if isinstance(moment, Tensor) and moment.ndim:
                    room = parameter.new_zeros(n, *moment.shape[1:])
                    state[name] = torch.cat([moment, room])
        self._last = None

    def calibrate(self, x: Tensor, y: Tensor) -> None:
        """Update the logit scale by one step on the loss of new rows."""
        if self.calibration is not None:
            logits = self._logits(x[self.place])
            proba = torch.softmax(self.calibration.factor * logits, 1)
            gaps = (proba * logits).sum(1) - logits.gather(1, y[:, None])[:, 0]
            self.calibration.learn_factor(float(gaps.mean()))

    def _step(self, rows: Tensor, y: Tensor) -> bool:
        """Take one step on a minibatch; return True if its loss was finite."""
        self.n_steps += 1
        self._last = None
        images = pixels_of(rows, self.shape)
        with net_draws(True, drawn_seed(self.seed, self.n_steps)):
            if self.augment is not None:
                images = augmented(images, self.augment)
            batch = self.network.trunk.prepare(images).to(rows.device)
            # Copy the labels, since other threads write to the same tensor.
            loss = self.net.train_step((batch, y.clone()))["loss"]
        self.net.optimizer_.zero_grad()  # to save memory
        if self.average is not None:
            self.average.update(self.network)
        return bool(loss.isfinite())

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return everything learned, keyed by the column and by name."""
        tensors = {"n_steps": torch.tensor(self.n_steps), **self._tensors()}
        for i, moments in self.net.optimizer_.state_dict()["state"].items():
            for name, value in moments.items():
                if value is not None:
                    tensors[f"{OPTIMIZER}.{i}.{name}"] = torch.as_tensor(value)
        if self.calibration is not None:
            learned = self.calibration.state_dict()
            tensors.update({f"{SCALE}.{name}": t for name, t in learned.items()})
        return {self.columns[0]: tensors}

    def _tensors(self) -> dict[str, Tensor]:
        """Return the current weights and statistics, keyed by name."""
        networks: dict[str, nn.Module] = {NETWORK: self.network}
        if self.average is not None:
            networks[AVERAGE] = self.average.network
        return {
            f"{kind}.{name}": tensor
            for kind, network in networks.items()
            for name, tensor in network.state_dict().items()
        }

    @torch.no_grad()
    def load_state_dict(self, learned: Learned) -> None:
        """Load the state of a network with the same settings.

        Raises
        ------
        ValueError
            If weights or statistics of the network are missing or have the wrong shape.
            The state of the optimiser is not checked.
        KeyError
            If the number of steps or the logit scale is missing.
        """
        (column,) = self.columns
        given = learned.get(column, {})
        copy_learned(column, self._tensors(), given)
        self.n_steps = int(given["n_steps"])
        if self.average is not None:
            self.average.n_steps = self.n_steps
        optimizer, state = self.net.optimizer_, by_number(under(given, f"{OPTIMIZER}."))
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        if self.calibration is not None:
            self.calibration.load_state_dict(under(given, f"{SCALE}."))
        self._last = None


def drawn_seed(seed: int, step: int) -> int:
    """Return the seed for a step. Step 0 is for the weights of a new network."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0])
