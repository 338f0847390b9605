"""Grids of readouts, from the user's settings or from the tables of the paper."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any, NamedTuple

from numpy.random import RandomState
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.readouts._finetune.estimators import FineTunedReadout, ScratchReadout
from sklearn_mdl.readouts._grid import build_grid
from sklearn_mdl.readouts._nets import MLPReadout


@dataclass(frozen=True)
class LogUniform:
    """Log-uniform distribution of a setting over an interval.

    Parameters
    ----------
    low, high : float
    whole : bool, default=False
        Whether to round draws to whole numbers, from `low` to `high` inclusive.
    """

    low: float
    high: float
    whole: bool = False

    def rvs(self, random_state: int | RandomState | None = None) -> float:
        """Draw one value."""
        margin = 0.5 if self.whole else 0.0
        ends = log(self.low - margin), log(self.high + margin)
        value = exp(check_random_state(random_state).uniform(*ends))
        return round(value) if self.whole else value


class Preset(NamedTuple):
    """Settings from a table of the paper.

    Attributes
    ----------
    kind : {"frozen", "fine-tuned", "scratch"}
        Readouts on frozen features, encoders trained with a readout, or whole networks.
    settings : dict of str to list or LogUniform
        The values of the table, and the width of MLPs (512), which the paper omits.
    others : dict of str to object
        Settings that the paper gives elsewhere or does not specify, such as label
        smoothing.
    n_samples : int or None
        Number of configurations that the paper draws, or None if the paper uses all.
    batch_size : int
        Number of rows in a minibatch.
    m : int
        Parameter of the fixed share, whose rate is ``(m - 1) / t``.
    """

    kind: str
    settings: dict[str, Any]
    others: dict[str, Any]
    n_samples: int | None = None
    batch_size: int = 32
    m: int = 11


_PLAIN = {"calibration": False, "ema_warmup": False, "label_smoothing": 0.01}
_FROZEN = {**_PLAIN, "scaling": None}
_SGD = {**_PLAIN, "optimizer": "sgd", "momentum": 0.9}
_ADAMW = {**_PLAIN, "optimizer": "adamw"}
_SCRATCH = {"model": "resnet50", "input_size": 224}
_IMAGENET = {
    "n_replay_streams": [10, 30, 50],
    "lr": [3e-5, 1e-4, 3e-4, 1e-3],
    "beta1": [0.5, 0.7],
    "weight_decay": [1e-2, 1.0],
    "ema_step_size": [1e-2, 1.0],
}
_VTAB_PRESETS = {
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
        {**_SGD, **_SCRATCH},
        n_samples=300,
    ),
}
_IMAGENET_PRESETS = {
    "imagenet-frozen": Preset(
        "frozen",
        {"hidden_layer_sizes": [(512,) * depth for depth in range(4)], **_IMAGENET},
        _FROZEN,
    ),
    "imagenet-finetune": Preset(
        "fine-tuned", _IMAGENET, {**_ADAMW, "augmentation": "crop"}
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
        {**_ADAMW, **_SCRATCH, "augmentation": "randaugment", "calibration": True},
        n_samples=50,
    ),
}
_PRESETS = _VTAB_PRESETS | {
    name: preset._replace(batch_size=512, m=2)
    for name, preset in _IMAGENET_PRESETS.items()
}


def preset_settings(name: str) -> Preset:
    """Return the settings of a table in the paper, with the batch size and the prior.

    Parameters
    ----------
    name : {"vtab-frozen", "vtab-finetune", "vtab-scratch", "imagenet-frozen", \
"imagenet-finetune", "imagenet-scratch"}
        Name of a table in Li, Bornschein and Hutter (2023), appendix "Implementation
        Details". As in the paper, "imagenet-finetune" has the same values as
        "imagenet-frozen", apart from the hidden layers.

    Returns
    -------
    preset : Preset
        The settings, ``batch_size``, ``m`` of the fixed share, and ``n_samples``, the
        number of configurations that the paper draws (None if it uses all).

    Raises
    ------
    ValueError
        If there is no such preset.

    Examples
    --------
    >>> from sklearn_mdl.readouts import preset_settings
    >>> preset = preset_settings("vtab-finetune")
    >>> preset.settings["n_replay_streams"], preset.batch_size, preset.m
    ([10, 30, 50], 32, 11)
    """
    if name not in _PRESETS:
        required = f"one of {sorted(_PRESETS)}"
        raise invalid("preset", required, name, "pass 'vtab-frozen'")
    return deepcopy(_PRESETS[name])


def readout_grid(
    preset: str | None = None,
    *,
    n_samples: int | None = None,
    random_state: int | RandomState | None = None,
    **settings: object,
) -> list[BaseEstimator]:
    """Build readouts for all or some combinations of the given settings.

    Parameters
    ----------
    preset : str, default=None
        Settings of the paper, which `settings` override: "vtab-frozen" (8 x 576
        readouts), "imagenet-frozen" (4 x 96), "imagenet-finetune" (96), or the random
        draws "vtab-finetune" (300 of 756), "vtab-scratch" (300 of 896) and
        "imagenet-scratch" (50 from intervals). See also :func:`preset_settings`.
    n_samples : int, default=None
        Number of combinations to draw, without repetition if there are finitely many.
        If None, build all combinations, but at most as many as the paper draws for the
        preset.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.
    **settings : scalar, list or distribution
        Parameters of :class:`~sklearn_mdl.MLPReadout`. Each list is a dimension of the
        grid. ``hidden_layer_sizes`` is a list of tuples, or the widths of a single
        readout. ``()`` stands for a linear readout. With ``encoder``, pass parameters
        of :class:`~sklearn_mdl.readouts.FineTunedReadout`. With ``model``, pass
        parameters of :class:`~sklearn_mdl.readouts.ScratchReadout`. If you pass
        `n_samples`, a setting may also be an object with an ``rvs`` method, such as a
        SciPy distribution.

    Returns
    -------
    readouts : list of readouts
        If all combinations are built, ``hidden_layer_sizes`` varies slowest, followed
        by the settings of the preset, and then by other settings in their order.

    Raises
    ------
    ValueError
        If the preset is unknown, if it needs an encoder and none is given, if a list is
        empty, if a setting is a distribution but `n_samples` is None, or if `n_samples`
        is not positive or exceeds the number of combinations.
    TypeError
        If a setting is not a parameter of the readouts.

    Examples
    --------
    >>> from sklearn_mdl import readout_grid
    >>> readouts = readout_grid(hidden_layer_sizes=[(), (64,)], lr=[1e-3, 3e-3])
    >>> [(readout.architecture, readout.lr) for readout in readouts]
    [('linear', 0.001), ('linear', 0.003), ('mlp 1x64', 0.001), ('mlp 1x64', 0.003)]
    >>> len(readout_grid("vtab-frozen", n_samples=20, random_state=0))
    20
    """
    most: float = inf
    if preset is not None:
        table = preset_settings(preset)
        if table.kind == "fine-tuned" and "encoder" not in settings:
            raise ValueError(
                f"{preset!r} needs an encoder to fine-tune, got none; write "
                f"readouts=readout_grid({preset!r}, encoder=TimmEncoder('resnet50'))"
            )
        size = {"batch_size": table.batch_size}
        settings = {**table.settings, **table.others, **size, **settings}
        most = table.n_samples or inf
    kind: type = MLPReadout
    if "encoder" in settings:
        kind = FineTunedReadout
    elif "model" in settings:
        kind = ScratchReadout
    return build_grid(kind, settings, n_samples, random_state, most)
