"""The paper's boards: its tables of settings, and readouts out of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, log, prod
from numbers import Integral
from typing import Any, NamedTuple

from sklearn.model_selection import ParameterSampler
from sklearn.utils import check_random_state

from sklearn_mdl.finetune import FineTunedReadout, ScratchReadout
from sklearn_mdl.readouts import (
    MLPReadout,
    as_values,
    check_settings,
    grid_of,
    linear_or_mlp,
)


@dataclass(frozen=True)
class LogUniform:
    """A setting that is drawn from an interval, evenly in its logarithm.

    Parameters
    ----------
    low, high : float
    whole : bool, default=False
        Draw whole numbers, both ends among them.
    """

    low: float
    high: float
    whole: bool = False

    def rvs(self, random_state: Any = None) -> float:
        """Draw one value."""
        margin = 0.5 if self.whole else 0.0
        ends = log(self.low - margin), log(self.high + margin)
        value = exp(check_random_state(random_state).uniform(*ends))
        return round(value) if self.whole else value


class Preset(NamedTuple):
    """A table of the paper.

    Attributes
    ----------
    kind : {"frozen", "fine-tuned", "scratch"}
        What learns: a readout on features, the encoder with it, or a whole network.
    settings : dict of str to list or LogUniform
        The values of the table.
    others : dict of str to object
        What the paper says elsewhere or, for label smoothing and the width of MLPs
        (512), leaves open.
    batch_size : int
        Rows learned at once.
    m : int
        Of the fixed share: its rate is ``(m - 1) / t``.
    n_samples : int or None
        Configurations that the paper draws; None where it walks them all.
    """

    kind: str
    settings: dict[str, Any]
    others: dict[str, Any]
    batch_size: int
    m: int
    n_samples: int | None


_PLAIN = {"calibration": False, "ema_warmup": False, "label_smoothing": 0.01}
_FROZEN = {**_PLAIN, "scaling": None}
_SGD = {**_PLAIN, "optimizer": "sgd", "momentum": 0.9}
_IMAGENET = {
    "n_replay_streams": [10, 30, 50],
    "lr": [3e-5, 1e-4, 3e-4, 1e-3],
    "beta1": [0.5, 0.7],
    "weight_decay": [1e-2, 1.0],
    "ema_step_size": [1e-2, 1.0],
}
_PRESETS = {
    "vtab-frozen": Preset(
        "frozen",
        {
            "hidden_layer_sizes": [(512,) * depth for depth in range(8)],
            "n_replay_streams": [3, 10, 30, 100],
            "lr": [1e-4, 3e-4, 1e-3, 3e-3],
            "beta1": [0.5, 0.7, 0.9],
            "weight_decay": [0.0, 1e-6, 1e-4, 1e-2],
            "ema_step_size": [1e-4, 1e-2, 1.0],
        },
        _FROZEN,
        batch_size=32,
        m=11,
        n_samples=None,
    ),
    "vtab-finetune": Preset(
        "fine-tuned",
        {
            "n_replay_streams": [10, 30, 50],
            "lr": [1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0],
            "weight_decay": [0.0, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3],
            "ema_step_size": [1e-3, 1e-2, 1e-1, 1.0],
        },
        _SGD,
        batch_size=32,
        m=11,
        n_samples=300,
    ),
    "vtab-scratch": Preset(
        "scratch",
        {
            "n_replay_streams": [50, 100, 150, 200],
            "lr": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
            "weight_decay": [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2],
            "ema_step_size": [1e-3, 1e-2, 1e-1, 1.0],
        },
        {**_SGD, "input_size": 224},
        batch_size=32,
        m=11,
        n_samples=300,
    ),
    "imagenet-frozen": Preset(
        "frozen",
        {"hidden_layer_sizes": [(512,) * depth for depth in range(4)], **_IMAGENET},
        _FROZEN,
        batch_size=512,
        m=2,
        n_samples=None,
    ),
    "imagenet-finetune": Preset(
        "fine-tuned",
        _IMAGENET,
        {**_PLAIN, "optimizer": "adamw", "augmentation": "crop"},
        batch_size=512,
        m=2,
        n_samples=None,
    ),
    "imagenet-scratch": Preset(
        "scratch",
        {
            "n_replay_streams": LogUniform(25, 100, whole=True),
            "lr": LogUniform(1e-4, 3e-3),
            "eps": LogUniform(1e-4, 1.0),
            "ema_step_size": LogUniform(1e-3, 1e-2),
            "weight_decay": LogUniform(1e-4, 1.0),
        },
        {
            "label_smoothing": 0.01,
            "optimizer": "adamw",
            "augmentation": "randaugment",
            "calibration": True,
            "ema_warmup": False,
            "input_size": 224,
        },
        batch_size=512,
        m=2,
        n_samples=50,
    ),
}


def preset_settings(name: str) -> Preset:
    """Return a table of settings of the paper, with its batch size and prior.

    Parameters
    ----------
    name : {"vtab-frozen", "vtab-finetune", "vtab-scratch", "imagenet-frozen", \
"imagenet-finetune", "imagenet-scratch"}
        Of Li, Bornschein and Hutter (2023), appendix "Implementation Details".
        "imagenet-finetune" has the values of "imagenet-frozen", as the paper says.

    Returns
    -------
    preset : Preset
        The settings, ``batch_size``, ``m`` of the fixed share and the number of
        configurations that the paper draws, ``n_samples``.

    Raises
    ------
    ValueError
        If there is no such preset.

    Examples
    --------
    >>> from sklearn_mdl import preset_settings
    >>> preset = preset_settings("vtab-finetune")
    >>> preset.settings["n_replay_streams"], preset.batch_size, preset.m
    ([10, 30, 50], 32, 11)
    """
    if name not in _PRESETS:
        raise ValueError(
            f"preset must be one of {sorted(_PRESETS)}, got {name!r}; or name settings"
        )
    found = _PRESETS[name]
    settings = {
        key: list(values) if isinstance(values, list) else values
        for key, values in found.settings.items()
    }
    return found._replace(settings=settings, others=dict(found.others))


def readout_grid(
    preset: str | None = None,
    *,
    n_samples: int | None = None,
    random_state: Any = None,
    **settings: Any,
) -> list[Any]:
    """Build every combination of the given settings as a list of readouts, or some.

    Parameters
    ----------
    preset : str or None
        Settings to start from, of the paper: "vtab-frozen" (8 x 576 readouts),
        "imagenet-frozen" (4 x 96), "imagenet-finetune" (96), and by random draws
        "vtab-finetune" (300 of 756), "vtab-scratch" (300 of 896) and
        "imagenet-scratch" (50 from intervals); see :func:`preset_settings`.
    n_samples : int, default=None
        Draw so many combinations, none twice where their number is finite. None takes
        as many as the paper: all, where it draws none.
    random_state : int, RandomState instance or None, default=None
        Seeds the draws.
    **settings : scalar, list or distribution
        Parameters of :class:`~sklearn_mdl.MLPReadout`; a list is a dimension of the
        grid. ``hidden_layer_sizes`` is a list of tuples, where ``()`` is a linear
        readout, or the widths of one readout. With ``encoder`` they are those of
        :class:`~sklearn_mdl.FineTunedReadout`, with ``model`` those of
        :class:`~sklearn_mdl.ScratchReadout`. What has ``rvs``, as distributions of
        scipy, can be drawn from.

    Returns
    -------
    readouts : list of readouts
        Of all combinations, the first setting named varies slowest.

    Raises
    ------
    ValueError
        If the preset is unknown or lacks its encoder, a list is empty, or more
        combinations are asked for than there are.
    TypeError
        If a setting is not a parameter of the readouts.

    Examples
    --------
    >>> from sklearn_mdl import readout_grid
    >>> board = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[1e-3, 3e-3])
    >>> [(readout.architecture, readout.lr) for readout in board]
    [('linear', 0.001), ('linear', 0.003), ('mlp 1x64', 0.001), ('mlp 1x64', 0.003)]
    >>> len(readout_grid("vtab-frozen", n_samples=20, random_state=0))
    20
    """
    if preset is not None:
        table = preset_settings(preset)
        settings = _with_defaults(preset, table, settings)
        n_samples = table.n_samples if n_samples is None else n_samples
    kind: type[Any] = MLPReadout
    if "encoder" in settings:
        kind = FineTunedReadout
    elif "model" in settings:
        kind = ScratchReadout
    else:
        settings = {"hidden_layer_sizes": [()], **settings}
    check_settings(kind, settings)
    make: Callable[..., Any] = linear_or_mlp if kind is MLPReadout else kind
    columns = {name: as_values(name, values) for name, values in settings.items()}
    if n_samples is None:
        return [make(**chosen) for chosen in grid_of(columns)]
    return [make(**chosen) for chosen in _drawn(columns, n_samples, random_state)]


def _with_defaults(
    name: str, preset: Preset, settings: Mapping[str, Any]
) -> dict[str, Any]:
    if preset.kind == "fine-tuned" and "encoder" not in settings:
        raise ValueError(
            f"{name!r} needs the encoder that is to be tuned, got none; pass "
            f"readout_grid({name!r}, encoder=TimmEncoder(...))"
        )
    model = {"model": "resnet50"} if preset.kind == "scratch" else {}
    size = {"batch_size": preset.batch_size}
    return {**preset.settings, **preset.others, **size, **model, **settings}


def _drawn(
    columns: dict[str, Any], n_samples: int, random_state: Any
) -> list[dict[str, Any]]:
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(
            f"n_samples must be a positive integer, got {n_samples!r}; None takes all"
        )
    if all(isinstance(values, list) for values in columns.values()):
        n_all = prod(len(values) for values in columns.values())
        if n_samples > n_all:
            raise ValueError(
                f"n_samples must be at most the {n_all} combinations there are, got "
                f"{n_samples}; name more values or draw fewer"
            )
    return list(ParameterSampler(columns, int(n_samples), random_state=random_state))
