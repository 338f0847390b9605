"""Linear and MLP probes, which the paper uses to measure accuracy.

Networks of the same shape are trained together. The network with the lowest log-loss
on held-out rows is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sklearn_mdl._core.nets.mlp import StackedMLP
from sklearn_mdl._core.numerics import default_torch, flushed_denormals, resolve_device
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl.baselines._base import (
    Array,
    Floats,
    Integers,
    Labelled,
    Seed,
    scaled_tensor,
    scaler_of,
)
from sklearn_mdl.baselines._probes import Probe
from sklearn_mdl.readouts import (
    LinearReadout,
    MLPReadout,
    ReadoutStack,
    build_learners,
    grouped,
    hidden_widths,
    readout_grid,
)

# Appendix A.4 of the paper, which omits the width of its MLPs with 1 to 7 layers.
LEARNING_RATES = (1e-4, 3e-4, 1e-3, 3e-3)
WEIGHT_DECAYS = (0.0, 1e-6, 1e-4, 1e-2)
EMA_STEP_SIZES = (1e-4, 1e-2, 1.0)
DEPTHS = tuple((512,) * depth for depth in range(1, 8))
GRID = ("lr", "weight_decay", "ema_step_size")
Values = float | Sequence[float]


@dataclass(eq=False, repr=False, kw_only=True)
class LinearProbe(Probe):
    """Softmax classifier with settings chosen on held-out rows ("linear evaluation").

    Parameters
    ----------
    lr : float or sequence of float, default=(1e-4, 3e-4, 1e-3, 3e-3)
        Learning rates of AdamW to try.
    weight_decay : float or sequence of float, default=(0, 1e-6, 1e-4, 1e-2)
        Decoupled weight decays to try.
    ema_step_size : float or sequence of float, default=(1e-4, 1e-2, 1)
        Step sizes of weight averaging to try: ``average <- (1 - step) average + step
        weights``. With 1 there is no averaging.
    ema_warmup : bool, default=True
        Make the ``n``-th averaging step at least ``1 / (n + 1)``. Otherwise, with a
        step of 1e-4, averages stay close to the initial weights for 1,000 steps.
    label_smoothing : float, default=0.0
        Share of each training target that is spread over all classes.
    batch_size : int, default=1024
        Largest number of rows in a minibatch.
    max_steps : int, default=1000
        Largest number of optimiser steps. Weights are evaluated on the held-out rows
        after all steps, half of them, a quarter and so on, down to at least 8. So the
        number of steps is also chosen on these rows.
    validation_fraction : float, default=0.1
        Share of the rows that is held out, at random, to compare settings.
    scaling : {"standard"} or None, default="standard"
        Standardise features with the training rows.
    device : str, default="auto"
        Torch device, to which features are moved. "auto" uses a GPU if one is
        available.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of held-out rows, of initial weights and of minibatches.

    Attributes
    ----------
    best_params_ : dict
        The setting with the lowest mean log-loss on the held-out rows, and ``n_steps``.
    settings_ : list of dict
        All combinations of `lr`, `weight_decay`, `ema_step_size` and hidden layers that
        were tried.
    steps_ : ndarray of shape (n_checkpoints,)
        Numbers of steps after which settings were evaluated.
    validation_scores_ : ndarray of shape (n_settings, n_checkpoints)
        Accuracy on the held-out rows, or NaN where a setting diverged.
    validation_losses_ : ndarray of shape (n_settings, n_checkpoints)
        Mean log-loss on the held-out rows, in nats (infinite where a setting diverged).
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    Notes
    -----
    Networks of one shape are trained together as stacks. Settings that differ only in
    their averaging step share trained weights. As in the paper (appendix
    "Accuracy-based evaluations"), the best setting is not retrained on all rows.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
    Switching, ICLR, appendix A.4 and its table of hyper-parameters.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_mdl.baselines import LinearProbe
    >>> X, X_test, y, y_test = train_test_split(
    ...     *load_wine(return_X_y=True), random_state=0
    ... )
    >>> probe = LinearProbe(max_steps=200, random_state=0).fit(X, y)
    >>> probe.score(X_test, y_test) > 0.9
    True
    """

    lr: Values = LEARNING_RATES
    weight_decay: Values = WEIGHT_DECAYS
    ema_step_size: Values = EMA_STEP_SIZES
    ema_warmup: bool = True
    label_smoothing: float = 0.0
    batch_size: int = 1024
    max_steps: int = 1000
    validation_fraction: float = 0.1
    scaling: str | None = "standard"
    device: str = "auto"
    random_state: Seed = None

    _parameter_constraints: ClassVar[Constraints] = {
        "lr": ["array-like", Real],
        "weight_decay": ["array-like", Real],
        "ema_step_size": ["array-like", Real],
        "ema_warmup": ["boolean"],
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "scaling": [StrOptions({"standard"}), None],
        "device": [str],
        "random_state": ["random_state"],
    }

    @property
    def hidden_layer_sizes(self) -> int | Sequence[int | Sequence[int]]:
        """Hidden layers of the nets to try; a linear probe has none."""
        return ((),)

    def _fit(self, data: Labelled) -> None:
        nets = readout_grid(hidden_layer_sizes=self.hidden_layer_sizes)
        readouts = readout_grid(
            hidden_layer_sizes=[hidden_widths(net.hidden_layer_sizes) for net in nets],
            **{name: getattr(self, name) for name in GRID},
            ema_warmup=self.ema_warmup,
            label_smoothing=self.label_smoothing,
            n_replay_streams=0,
            calibration=False,
            scaling=None,
        )
        for readout in readouts:
            try:
                readout._validate_params()
            except ValueError as error:  # name the probe instead of its readouts
                names = type(readout).__name__, type(self).__name__
                raise type(error)(str(error).replace(*names)) from error
        device = resolve_device(self.device)
        learned, held_out, seed = self._split(len(data.X))
        scaler = scaler_of(data.X[learned]) if self.scaling else None

        def rows(places: Array) -> Rows:
            y = torch.from_numpy(data.labels[places])
            return Rows(scaled_tensor(data.X[places], scaler, device), y.to(device))

        self.settings_ = [
            {name: getattr(readout, name) for name in ("hidden_layer_sizes", *GRID)}
            for readout in readouts
        ]
        parts = rows(learned), rows(held_out)
        net = self._best_net(readouts, *parts, seed)
        self._net, self._scaler = net.cpu(), scaler  # loads without a GPU

    def _best_net(
        self, readouts: Sequence[NetReadout], learned: Rows, held_out: Rows, seed: int
    ) -> StackedMLP:
        """Train every readout, and return the best one on held-out rows.

        Readouts of one shape are trained as stacks with the same minibatches, so the
        results of a readout do not depend on the others. Shapes are trained in turn, so
        only stacks of one shape are in memory at a time.

        Raises
        ------
        ValueError
            If all readouts diverged.
        MemoryError
            If the readouts of one shape do not fit into the device's memory.
        """
        steps, n_classes = checkpoints(self.max_steps), len(self.classes_)
        losses = np.full((len(readouts), len(steps)), np.nan)
        scores = losses.copy()
        net, least = None, np.inf
        for columns, stack in _stacks(readouts, learned.x, n_classes, seed):
            batches = _minibatches(len(learned.y), self.batch_size, seed)
            for i, _ in enumerate(_train(stack, learned, batches, steps)):
                losses[columns, i], scores[columns, i] = _evaluate(stack, held_out)
                k = int(np.argmin(losses[columns, i]))
                if losses[columns[k], i] < least:
                    least, net = float(losses[columns[k], i]), _member(stack, k)
                    best = self.settings_[columns[k]]
                    self.best_params_ = {**best, "n_steps": int(steps[i])}
        if net is None:
            cure = f"pass lr={min(1e-5, np.min(self.lr) / 10):g}"
            cure += " and scaling='standard'" * (self.scaling is None)
            raise ValueError(
                f"At least one setting must converge, but none did; {cure}"
            )
        self.steps_ = np.array(steps)
        self.validation_losses_, self.validation_scores_ = losses, scores
        return net

    def __getstate__(self) -> dict[str, Any]:
        """Return the state, with the net replaced by its NumPy arrays."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_net" in state:
            state["_net"] = state["_net"].arrays()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and rebuild the net from its arrays."""
        if "_net" in state:
            state = {**state, "_net": StackedMLP.of_arrays(state["_net"])}
        super().__setstate__(state)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return probabilities (n_samples, n_classes) in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return log-probabilities (n_samples, n_classes), ordered as ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        rows, step = self._checked_rows(X), _rows_at_once(self._net, 1)
        with default_torch(), torch.no_grad():
            x = scaled_tensor(rows, self._scaler, torch.device("cpu"))
            logits = [self._net(part)[0].double() for part in torch.split(x, step)]
            return torch.cat([part.log_softmax(1) for part in logits]).numpy()


@dataclass(eq=False, repr=False)
class MLPProbe(LinearProbe):
    """MLP with depth and settings chosen on held-out rows ("MLP evaluation").

    The default is the paper's grid of 7 depths with 48 settings each, for which 16
    networks are trained per depth. The paper does not state the width, which is 512
    here. This grid is meant for a GPU. On a CPU, pass only a few settings and depths.

    Parameters
    ----------
    hidden_layer_sizes : sequence of tuple of int, default=((512,), ..., 7 * (512,))
        Widths of the hidden layers of each network to try. You can also pass a single
        tuple, or an int for a single hidden layer.
    lr : float or sequence of float, default=(1e-4, 3e-4, 1e-3, 3e-3)
    weight_decay : float or sequence of float, default=(0, 1e-6, 1e-4, 1e-2)
    ema_step_size : float or sequence of float, default=(1e-4, 1e-2, 1)
    ema_warmup : bool, default=True
    label_smoothing : float, default=0.0
    batch_size : int, default=1024
    max_steps : int, default=1000
    validation_fraction : float, default=0.1
    scaling : {"standard"} or None, default="standard"
    device : str, default="auto"
    random_state : int, RandomState instance or None, default=None
        `lr` and all later parameters are as in :class:`LinearProbe`.

    Attributes
    ----------
    best_params_, settings_, steps_, validation_scores_, validation_losses_
        As in :class:`LinearProbe`.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_mdl.baselines import MLPProbe
    >>> X, X_test, y, y_test = train_test_split(
    ...     *load_wine(return_X_y=True), random_state=0
    ... )
    >>> probe = MLPProbe([(32,), (32, 32)], lr=3e-3, max_steps=100, random_state=0)
    >>> probe.fit(X, y).score(X_test, y_test) > 0.9
    True
    """

    hidden_layer_sizes: int | Sequence[int | Sequence[int]] = DEPTHS

    _parameter_constraints: ClassVar[Constraints] = {
        "hidden_layer_sizes": ["array-like", Sequence, Integral],
        **LinearProbe._parameter_constraints,
    }


NetReadout = LinearReadout | MLPReadout
EVALUATED_AT_ONCE = 2**23  # largest number of outputs of a layer, over all members
FEWEST_STEPS = 8  # weights are not evaluated earlier, unless training is shorter


class Rows(NamedTuple):
    """Rows and labels on a device."""

    x: Tensor  # (n, d), float32
    y: Tensor  # (n,), int64


def checkpoints(max_steps: int) -> list[int]:
    """Return increasing numbers of steps: ..., a quarter, a half and all steps."""
    steps = [max_steps]
    while steps[-1] // 2 >= FEWEST_STEPS:
        steps.append(steps[-1] // 2)
    return steps[::-1]


def _stacks(
    readouts: Sequence[NetReadout], x: Tensor, n_classes: int, seed: int
) -> Iterator[tuple[list[int], ReadoutStack]]:
    """Yield stacks, each with the positions of its members among the readouts."""
    shapes = grouped((r.hidden_layer_sizes, i) for i, r in enumerate(readouts))
    for places in shapes.values():
        members, width = [readouts[i] for i in places], x.shape[1]
        options: dict[str, Any] = {"seed": seed, "device": x.device}
        for stack in build_learners(members, width, n_classes, **options):
            positions = [places[column] for column in stack.columns]
            yield positions, cast(ReadoutStack, stack)


def _train(
    stack: ReadoutStack, rows: Rows, batches: Iterator[Integers], stops: Sequence[int]
) -> Iterator[None]:
    """Train on minibatches, and yield after each number of steps in ``stops``."""
    for n_steps, batch in enumerate(islice(batches, stops[-1]), start=1):
        places = torch.from_numpy(batch).to(rows.y.device)
        with flushed_denormals():
            stack.update(rows.x[places][None], rows.y[places], iter(()))
        if n_steps in stops:
            yield


def _minibatches(n_rows: int, batch_size: int, seed: int) -> Iterator[Integers]:
    """Yield minibatches forever, by cutting permutations into nearly equal parts."""
    rng = np.random.default_rng(seed)
    n_parts = -(-n_rows // int(batch_size))
    while True:
        yield from np.array_split(rng.permutation(n_rows), n_parts)


def _evaluate(stack: ReadoutStack, rows: Rows) -> tuple[Floats, Floats]:
    """Return the mean log-loss and accuracy of each member, (K,) each.

    Members that diverged have an infinite loss and an accuracy of NaN.
    """
    n_members = len(stack.columns)
    step = _rows_at_once(stack.net.module_, n_members)
    loss, hits = torch.zeros(2, n_members, dtype=torch.float64)
    for x, y in zip(torch.split(rows.x, step), torch.split(rows.y, step), strict=True):
        log_proba = stack.predict(x[None])
        index = y.expand(n_members, -1)[..., None]
        loss -= log_proba.gather(2, index)[..., 0].sum(1).cpu()
        hits += (log_proba.argmax(2) == y).sum(1).cpu()
    usable = loss.isfinite()
    mean = torch.where(usable, loss / len(rows.y), torch.inf)
    return mean.numpy(), torch.where(usable, hits / len(rows.y), torch.nan).numpy()


def _rows_at_once(net: StackedMLP, n_members: int) -> int:
    """Return how many rows to evaluate together, which the widest layer limits."""
    widest = max(weight.shape[1] for weight, _ in net.pairs)
    return max(1, EVALUATED_AT_ONCE // (n_members * widest))


def _member(stack: ReadoutStack, member: int) -> StackedMLP:
    """Return a copy of a member's network, with averaged weights if it has any."""
    modules: list[StackedMLP] = [stack.net.module_, *stack.averages.copies]
    nets = [(module, i) for module in modules for i in range(module.n_members)]
    module, i = nets[int(stack.averages.places[member])]
    return module.pick([i])
