"""Loops that train one net after the other, with the same steps as a stack.

Every loop below predicts the labels of a minibatch, trains on it, and then trains on
the minibatches of its replay streams. Initial weights, minibatches, replay and AdamW
are the same as for the readouts of a stack. We made every loop fast: minibatches are
tensors created in advance, callbacks are off, AdamW is torch's fused version, and one
``torch._foreach_lerp_`` updates the averages. A net makes all its steps before the next
net starts, so its weights stay in the cache. The nets are created before the clock
starts. preqtorch uses its own loader, replay streams and averages, unchanged.
"""

import copy
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from benchmarks._floors import threads_of_torch
from sklearn_mdl._core.nets.mlp import StackedMLP
from sklearn_mdl._core.stream.steps import ReplayStreams

try:
    import preqtorch
except ImportError:
    preqtorch = None

WITHOUT_PREQTORCH = (
    "preqtorch is not installed, so its rows are omitted; to add them, run "
    "pip install --no-deps preqtorch==0.2.0"
)


@dataclass(frozen=True)
class Setting:
    """Settings of one net."""

    lr: float
    weight_decay: float
    label_smoothing: float = 0.0


class Stream:
    """The complete minibatches of some rows, and the order in which they are replayed.

    Parameters
    ----------
    X, y : ndarray of shape (n, d) and (n,)
    seed : int
        Seed of the replay streams and of the initial weights.
    n_streams, batch_size : int
    """

    def __init__(self, X, y, seed, n_streams=10, batch_size=32):
        self.seed = seed
        self.n_streams = n_streams
        self.batch_size = batch_size
        self.n_minibatches = len(X) // batch_size
        n_rows = self.n_minibatches * batch_size
        self.x = torch.as_tensor(X[:n_rows], dtype=torch.float32)
        self.y = torch.as_tensor(y[:n_rows], dtype=torch.long)
        pairs = zip(self.x.split(batch_size), self.y.split(batch_size), strict=True)
        self.batches = list(pairs)
        streams = ReplayStreams(n_streams, seed=seed)
        self.positions = [streams.advance().tolist() for _ in self.batches]

    @property
    def n_steps(self):
        return self.n_minibatches * (1 + self.n_streams)

    def __iter__(self):
        """Yield new minibatches, each with the minibatches replayed after it."""
        for new, positions in zip(self.batches, self.positions, strict=True):
            yield new, [self.batches[position] for position in positions]


def sequential(sizes, seed):
    """Build one net with the initial weights of a readout."""
    layers = []
    for weight, bias in StackedMLP(sizes, [seed]).pairs:
        linear = nn.Linear(*weight.shape[:0:-1])
        with torch.no_grad():
            linear.weight.copy_(weight[0])
            linear.bias.copy_(bias[0, 0])
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Averaged:
    """Moving average of a module's weights, or the module itself for step size 1."""

    def __init__(self, module, step_size):
        self.module = copy.deepcopy(module) if step_size < 1 else module
        self.pairs = (list(self.module.parameters()), list(module.parameters()))
        self.step_size = step_size

    def update(self):
        if self.step_size < 1:
            with torch.no_grad():
                torch._foreach_lerp_(*self.pairs, self.step_size)


def train_skorch(sizes, setting, stream, step_size):
    """Train one skorch net. Return losses in nats, and the time after each minibatch.

    The first time is taken before the first minibatch.
    """
    net = NeuralNetClassifier(
        sequential,
        module__sizes=sizes,
        module__seed=stream.seed,
        criterion=nn.CrossEntropyLoss,
        criterion__label_smoothing=setting.label_smoothing,
        optimizer=torch.optim.AdamW,
        optimizer__lr=setting.lr,
        optimizer__weight_decay=setting.weight_decay,
        optimizer__fused=True,
        train_split=None,
        callbacks="disable",
        verbose=0,
        device="cpu",
    ).initialize()
    predictor = copy.copy(net)
    averaged = Averaged(net.module_, step_size)
    predictor.module_ = averaged.module
    losses, ticks = [], [time.perf_counter()]
    for new, replayed in stream:
        losses.append(_losses(predictor.evaluation_step(new), new[1]))
        for batch in (new, *replayed):
            net.train_step(batch)
            averaged.update()
        ticks.append(time.perf_counter())
    return torch.cat(losses), np.array(ticks)


def train_plain(sizes, setting, stream, step_size=1.0):
    """Train one net in plain torch, like :func:`train_skorch`."""
    net = sequential(sizes, stream.seed)
    optimizer = torch.optim.AdamW(
        net.parameters(),
        lr=setting.lr,
        weight_decay=setting.weight_decay,
        fused=True,
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=setting.label_smoothing)
    averaged = Averaged(net, step_size)
    losses, ticks = [], [time.perf_counter()]
    for new, replayed in stream:
        with torch.no_grad():
            losses.append(_losses(averaged.module(new[0]), new[1]))
        for x, y in (new, *replayed):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            averaged.update()
        ticks.append(time.perf_counter())
    return torch.cat(losses), np.array(ticks)


def train_preqtorch(sizes, setting, stream, step_size):
    """Run preqtorch's encoder with replay streams, like :func:`train_skorch`.

    Predictions use averaged weights. The encoder then takes one step on the new
    minibatch and one on each stream's minibatch. preqtorch's streams follow the same
    rule as ours, with another random generator. preqtorch has no label smoothing.
    """
    made = []

    def adamw(parameters, lr):
        options = {"weight_decay": setting.weight_decay, "fused": True}
        made.append(torch.optim.AdamW(parameters, lr=lr, **options))
        return made[0]

    model = preqtorch.ModelClass(
        _OnBatches,
        device="cpu",
        kwargs={"net": sequential(sizes, stream.seed)},
        init_func=_keep,
    )
    encoder = _timed_encoder()(model, device="cpu", optimizer_fn=adamw)
    losses = []
    encoder.encode(
        torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(stream.x, stream.y), stream.batch_size
        ),
        "digits",
        n_replay_samples=stream.n_streams,
        loss_fn=partial(_summable_loss, losses),
        learning_rate=setting.lr,
        seed=stream.seed % 2**31,
        alpha=step_size,
        use_beta=False,
        use_ema=True,
        replay_type="streams",
    )
    (optimizer,) = made
    n_steps = {int(state["step"]) for state in optimizer.state.values()}
    if n_steps != {stream.n_steps}:
        raise RuntimeError(f"preqtorch took {n_steps} steps, not {stream.n_steps}")
    # The first loss of every minibatch comes from prediction, the others from training.
    return torch.cat(losses[:: stream.n_streams + 2]), np.array(encoder.ticks)


class _OnBatches(nn.Module):
    """A net that takes rows and labels, as preqtorch requires."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, batch):
        return self.net(batch[0])


def _keep(model):
    return model


def _summable_loss(losses, batch, output):
    loss = nn.functional.cross_entropy(output, batch[1], reduction="none")
    losses.append(loss.detach())
    return loss


def _timed_encoder():
    class Timed(preqtorch.MIREncoder):
        """Records the time before the first and after every minibatch."""

        def initialize(self, *args, **kwargs):
            net = super().initialize(*args, **kwargs)
            self.ticks = [time.perf_counter()]
            return net

        def step(self, *args, **kwargs):
            super().step(*args, **kwargs)
            self.ticks.append(time.perf_counter())

    return Timed


def _losses(logits, labels):
    return nn.functional.cross_entropy(logits, labels, reduction="none")


class Separate:
    """Many nets of one shape, trained one after the other.

    Parameters
    ----------
    train : callable
        `train_skorch`, `train_plain` or `train_preqtorch`.
    sizes : tuple of int
    settings : list of Setting
    stream : Stream
    step_size : float
        Step size of the weight averages.

    Attributes
    ----------
    losses : ndarray of shape (n_rows, n_settings)
        Losses of the last run, in nats.
    drift : list of float
        For each run, the time of the second half of the minibatches divided by the time
        of the first half. If this ratio is one, times can be scaled to more rows.
    """

    def __init__(self, train, sizes, settings, stream, step_size):
        self.train = train
        self.sizes = sizes
        self.settings = settings
        self.stream = stream
        self.step_size = step_size
        self.drift = []

    def run(self, n_threads):
        """Train all nets and return their seconds."""
        with threads_of_torch(n_threads):
            runs = [
                self.train(self.sizes, setting, self.stream, self.step_size)
                for setting in self.settings
            ]
        self.losses = np.stack([losses.numpy() for losses, _ in runs], axis=1)
        ticks = np.array([ticks for _, ticks in runs])
        half = self.stream.n_minibatches // 2
        spans = np.diff(ticks, axis=1).sum(0)
        if half:
            self.drift.append(spans[-half:].sum() / spans[:half].sum())
        return (ticks[:, -1] - ticks[:, 0]).sum()
