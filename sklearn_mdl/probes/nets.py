"""Linear and MLP probes: the accuracy protocols of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.arithmetic import resolve_device
from sklearn_mdl.probes.base import Array, Probe
from sklearn_mdl.probes.standardising import scaled_tensor, scaler_of
from sklearn_mdl.probes.trials import Rows, Schedule, log_probabilities, try_readouts
from sklearn_mdl.readouts import LinearReadout, net_grid

# The paper, appendix A.4; it leaves open the width of its perceptrons of 1 to 7 layers.
LEARNING_RATES = (1e-4, 3e-4, 1e-3, 3e-3)
WEIGHT_DECAYS = (0.0, 1e-6, 1e-4, 1e-2)
EMA_STEP_SIZES = (1e-4, 1e-2, 1.0)
DEPTHS = tuple((512,) * depth for depth in range(1, 8))
GRID = ("lr", "weight_decay", "ema_step_size")

_SETTINGS = """lr : float or sequence of float, default=(1e-4, 3e-4, 1e-3, 3e-3)
        Learning rates of AdamW to be tried.
    weight_decay : float or sequence of float, default=(0, 1e-6, 1e-4, 1e-2)
        Decoupled weight decays to be tried.
    ema_step_size : float or sequence of float, default=(1e-4, 1e-2, 1)
        Steps of the averaged weights to be tried: ``average <- (1 - step) average +
        step weights``; at 1 the weights themselves predict.
    ema_warmup : bool, default=True
        Let the ``n``-th averaging step be at least ``1 / (n + 1)``; without it a step
        of 1e-4 hardly leaves the initial weights within 1,000 steps.
    label_smoothing : float, default=0.0
        Share of each training target spread over all classes.
    batch_size : int, default=1024
        Rows of a minibatch, at most.
    max_steps : int, default=1000
        Steps of the optimiser. Weights are tried on the held-out rows after the last,
        after half as many, a quarter and so on: their number is a setting like others.
    validation_fraction : float, default=0.1
        Share of the rows, drawn at random, on which settings are compared.
    scaling : {"standard"} or None, default="standard"
        Standardise features by the rows learned from.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. Features are held there.
    random_state : int, RandomState instance or None, default=None
        Held-out rows, initial weights and minibatches."""

_ATTRIBUTES = """Attributes
    ----------
    best_params_ : dict
        The setting of the smallest mean log-loss on the held-out rows, and ``n_steps``.
    settings_ : list of dict, n_settings
        All that were tried.
    steps_ : ndarray of shape (n_checkpoints,)
        Numbers of steps after which they were.
    validation_scores_ : ndarray of shape (n_settings, n_checkpoints)
        Accuracy on the held-out rows; NaN where a setting diverged.
    validation_losses_ : ndarray of shape (n_settings, n_checkpoints)
        Mean log-loss there in nats; infinite where a setting diverged.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    Notes
    -----
    Settings of one shape are trained as stacks, and settings that differ in their
    averaging step alone share one training. The winner is not trained again on all
    rows, as in the paper, appendix "Accuracy-based evaluations".

    References
    ----------
    Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
    Switching, ICLR, appendix A.4 and its table of hyper-parameters."""


def _document(cls: type) -> type:
    """Fill in what the docstrings of both probes share."""
    text = str(cls.__doc__).replace("{settings}", _SETTINGS)
    cls.__doc__ = text.replace("{attributes}", _ATTRIBUTES)
    return cls


class NetProbe(Probe):
    """What linear and MLP probes share."""

    lr: Any
    weight_decay: Any
    ema_step_size: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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

    def __init__(
        self,
        *,
        lr: Any = LEARNING_RATES,
        weight_decay: Any = WEIGHT_DECAYS,
        ema_step_size: Any = EMA_STEP_SIZES,
        ema_warmup: bool = True,
        label_smoothing: float = 0.0,
        batch_size: int = 1024,
        max_steps: int = 1000,
        validation_fraction: float = 0.1,
        scaling: str | None = "standard",
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.lr = lr
        self.weight_decay = weight_decay
        self.ema_step_size = ema_step_size
        self.ema_warmup = ema_warmup
        self.label_smoothing = label_smoothing
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.validation_fraction = validation_fraction
        self.scaling = scaling
        self.device = device
        self.random_state = random_state

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        """Hidden layers to be tried."""
        return [()]

    def _fit(self, X: Array, labels: Array) -> None:
        values: dict[str, Any] = {
            name: _numbers(name, getattr(self, name)) for name in GRID
        }
        board = net_grid(
            hidden_layer_sizes=self._shapes,
            **values,
            ema_warmup=self.ema_warmup,
            label_smoothing=self.label_smoothing,
            n_replay_streams=0,
            calibration=False,
            scaling=None,
        )
        device = resolve_device(self.device)
        learned, held_out, seed = self._split(len(X))
        scaler = scaler_of(X[learned]) if self.scaling else None

        def rows(places: Array) -> Rows:
            y = torch.from_numpy(labels[places].astype(np.int64))
            return Rows(scaled_tensor(X[places], scaler, device), y.to(device))

        schedule = Schedule(self.max_steps, self.batch_size, seed)
        trials = try_readouts(
            board, rows(learned), rows(held_out), len(self.classes_), schedule
        )
        self.settings_ = [
            {name: getattr(readout, name) for name in ("hidden_layer_sizes", *GRID)}
            for readout in board
        ]
        self.steps_ = trials.steps
        self.validation_losses_, self.validation_scores_ = trials.losses, trials.scores
        setting, checkpoint = trials.best
        self.best_params_ = {
            **self.settings_[setting],
            "n_steps": int(trials.steps[checkpoint]),
        }
        self._net, self._scaler = trials.net.cpu(), scaler  # to be loaded anywhere

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log-probabilities (n_samples, n_classes) in nats, as ``classes_`` go."""
        return self._log_proba(self._checked_rows(X))

    def _proba(self, X: Array) -> NDArray[np.float64]:
        return np.exp(self._log_proba(X))

    def _log_proba(self, X: Array) -> NDArray[np.float64]:
        x = scaled_tensor(X, self._scaler, torch.device("cpu"))
        return log_probabilities(self._net, x)


@_document
class LinearProbe(NetProbe):
    """Linear evaluation: a softmax classifier, its settings chosen on held-out rows.

    The accuracy on test rows of this classifier is what linear evaluation reports of a
    representation.

    Parameters
    ----------
    {settings}

    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_mdl import LinearProbe
    >>> X, X_test, y, y_test = train_test_split(
    ...     *load_wine(return_X_y=True), random_state=0
    ... )
    >>> probe = LinearProbe(max_steps=200, random_state=0).fit(X, y)
    >>> probe.score(X_test, y_test) > 0.9
    True
    """


@_document
class MLPProbe(NetProbe):
    """MLP evaluation: perceptrons of several depths, the best on held-out rows.

    The depth is a setting like the others. The paper's grid is the default, with the
    width of 512 that it leaves open: 7 x 48 settings in 7 x 16 trainings, for a GPU; a
    few settings and depths serve on a CPU.

    Parameters
    ----------
    hidden_layer_sizes : sequence of tuple of int, default=((512,), ..., 7 * (512,))
        Widths of hidden layers to be tried; the widths of one net stand for that net.
    {settings}

    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn_mdl import MLPProbe
    >>> X, X_test, y, y_test = train_test_split(
    ...     *load_wine(return_X_y=True), random_state=0
    ... )
    >>> probe = MLPProbe([(32,), (32, 32)], lr=3e-3, max_steps=100, random_state=0)
    >>> probe.fit(X, y).score(X_test, y_test) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hidden_layer_sizes": ["array-like", Sequence, Integral],
        **NetProbe._parameter_constraints,
    }

    def __init__(
        self,
        hidden_layer_sizes: Any = DEPTHS,
        *,
        lr: Any = LEARNING_RATES,
        weight_decay: Any = WEIGHT_DECAYS,
        ema_step_size: Any = EMA_STEP_SIZES,
        ema_warmup: bool = True,
        label_smoothing: float = 0.0,
        batch_size: int = 1024,
        max_steps: int = 1000,
        validation_fraction: float = 0.1,
        scaling: str | None = "standard",
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            lr=lr,
            weight_decay=weight_decay,
            ema_step_size=ema_step_size,
            ema_warmup=ema_warmup,
            label_smoothing=label_smoothing,
            batch_size=batch_size,
            max_steps=max_steps,
            validation_fraction=validation_fraction,
            scaling=scaling,
            device=device,
            random_state=random_state,
        )
        self.hidden_layer_sizes = hidden_layer_sizes

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        board = net_grid(hidden_layer_sizes=self.hidden_layer_sizes)
        return [tuple(readout.hidden_layer_sizes) for readout in board]


def _numbers(name: str, values: Any) -> list[float]:
    """Return the values of a setting, each within the range of the readouts' own."""
    allowed = LinearReadout._parameter_constraints[name][0]
    found = np.atleast_1d(np.asarray(values, dtype=object)).tolist()
    for value in found:
        if not isinstance(value, Real) or value not in allowed:
            raise ValueError(
                f"{name} must hold numbers within {allowed}, got {value!r}; give one "
                "or several of them"
            )
    if not found:
        raise ValueError(f"{name} must hold at least one number, got none; add one")
    return [float(value) for value in found]
