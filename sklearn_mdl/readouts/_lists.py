"""Named lists of readouts, which were chosen in benchmarks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from sklearn_mdl._core.nets.mlp import count_parameters
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.readouts._class_means import CentroidReadout, DiscriminantReadout
from sklearn_mdl.readouts._dummy import DummyReadout, DummyReadoutRegressor
from sklearn_mdl.readouts._grid import build_grid
from sklearn_mdl.readouts._kernels import KernelReadout, KernelReadoutRegressor
from sklearn_mdl.readouts._neighbors import KNeighborsReadout
from sklearn_mdl.readouts._nets import MLPReadout, MLPReadoutRegressor
from sklearn_mdl.readouts._stack import N_OUTPUTS
from sklearn_mdl.readouts._wrappers import RefitReadout

# Wide networks with strong weight decay, in all lists with networks that replay.
REGULARISED: dict[str, object] = {
    "hidden_layer_sizes": (512,),
    "lr": [3e-4, 1e-3],
    "label_smoothing": 0.1,
    "weight_decay": 1.0,
}
# Networks of the lists "nets" and "drift", chosen by measurement. Strong weight decay
# with small steps suits noisy tasks; no weight decay with large steps suits digits.
# MLPs need more label smoothing than linear readouts. Regressors with a constant scale
# and strong weight decay suit few or noisy rows. Regressors with a second hidden layer
# and scales that depend on features suit many rows.
DEFAULTS: dict[type, list[dict[str, object]]] = {
    MLPReadout: [
        {"lr": [3e-3, 1e-2], "label_smoothing": 0.03},
        {"lr": [1e-3, 3e-3], "label_smoothing": 0.03, "weight_decay": 3.0},
        {"hidden_layer_sizes": (512,), "lr": 3e-3, "label_smoothing": 0.1},
        REGULARISED,
        {"hidden_layer_sizes": (256, 256), "lr": [1e-3, 3e-3], "label_smoothing": 0.1},
        {"hidden_layer_sizes": (128, 128, 128), "lr": 1e-3, "label_smoothing": 0.1},
    ],
    MLPReadoutRegressor: [
        {"heteroscedastic": False, "lr": [3e-3, 1e-2]},
        {"heteroscedastic": False, "lr": 3e-3, "weight_decay": 3.0},
        {"likelihood": "student-t", "lr": 1e-2},
        {
            "hidden_layer_sizes": [(128,), (64, 64)],
            "heteroscedastic": False,
            "lr": 1e-3,
            "weight_decay": 1.0,
        },
        {"hidden_layer_sizes": (128, 128), "lr": 3e-3},
        {"hidden_layer_sizes": (128, 128), "likelihood": "student-t", "lr": 1e-3},
    ],
}


class DefaultGrid(list[Any]):
    """Built-in list of readouts, as opposed to a list that the user passes."""


# Numbers of replay streams of the built-in lists. One limit on the number of parameters
# that are updated per example applies at first, another one after many rows. More than
# three streams after many rows shorten codes of classes, but not of real labels.
STREAMS = (30, 10, 3)
UPDATES_PER_EXAMPLE = 150_000_000
LATE_UPDATES_PER_EXAMPLE = 6_000_000
MAX_WHITENED_BY_DEFAULT = 1024
BOTH = ["standard", "whiten"]
KERNEL_PARTS: dict[str, list[dict[str, Any]]] = {
    # Kernels to compare encoders with few labels, chosen on three datasets of ``python
    # -m benchmarks choice``.
    "linear": [
        {"kernel": "linear", "scaling": "standard"},
        {"kernel": "linear", "scaling": "centered-unit"},
    ],
    # Kernels chosen by measurement on two orders of digits and seven sets of deep
    # features.
    "kernels": [
        {"scaling": "unit"},
        {"scaling": "centered-unit"},
        {"kernel": "rbf", "width": 0.3, "scaling": "unit"},
        {"kernel": "rbf", "width": 1.0, "scaling": "unit"},
        {"kernel": "rbf", "width": 0.3, "scaling": "standard"},
        {"kernel": "rbf", "width": 1.0, "scaling": "standard"},
    ],
    # Kernels to combine with discriminants and class means, chosen on digits and on
    # deep features of Caltech 101, GTSRB and pneumonia.
    "few kernels": [
        {"kernel": "rbf", "width": 0.3, "scaling": "unit"},
        {"kernel": "rbf", "scaling": "unit"},
        {"kernel": "rbf", "alpha": [0.003, 0.03, 0.3]},
        {"kernel": "rbf", "width": 0.3, "scaling": "within-class"},
        {"kernel": "rbf", "scaling": "whiten"},
        {"kernel": "linear"},
        {"kernel": "linear", "scaling": "within-class"},
    ],
    "straight": [{"kernel": "linear"}],
}
# Networks of the default lists and of "mixed". More networks gain nothing up to 2,000
# rows. Unlike kernels, these regressors have scales that depend on features.
FEW_NETS: dict[type, list[dict[str, object]]] = {
    MLPReadout: [
        {"lr": 3e-3, "label_smoothing": 0.03, "weight_decay": 3.0},
        REGULARISED,
    ],
    MLPReadoutRegressor: [
        {"hidden_layer_sizes": (128, 128), "lr": 3e-3, "scaling": BOTH},
        {"likelihood": "student-t", "lr": 1e-2, "scaling": BOTH},
    ],
}
# Networks of the list "stream". They learn every row once, so their time per row is
# constant, and the step size sets how fast they follow changes. Without replay they are
# not overconfident, so calibration takes time but does not shorten the code.
LEARNING_ONCE: list[dict[str, object]] = [
    {"lr": [1e-3, 1e-2, 1e-1], "calibration": False},
    {"hidden_layer_sizes": (128,), "lr": [1e-4, 1e-3, 1e-2], "calibration": False},
]
NAMES = ("linear", "closed-form", "nets", "mixed", "drift", "stream")
PARTS = {
    "linear": ("linear",),
    "closed-form": ("few kernels", "means"),
    "nets": ("nets",),
    None: ("few nets", "few kernels", "means"),
    "mixed": ("few nets", "few kernels", "means", "others"),
    "drift": ("nets", "kernels", "forgetful", "labels"),
    "stream": ("nets that learn once", "centred means", "labels"),
}
REAL_PARTS = {
    "closed-form": ("kernels", "straight"),
    "nets": ("nets",),
    None: ("few nets", "kernels", "straight"),
    "drift": ("nets", "kernels", "forgetful", "labels"),
    "stream": ("nets that learn once", "labels"),
}
# Settings with which kernels in the list "drift" forget. A full window forgets half of
# its rows. So from 64 to 2,048 rows after a change, one window holds at least a quarter
# of the rows since the change, and no earlier rows. At each multiple of 16 rows, except
# multiples of 1,024, the kernels with one of the ``restart`` values start again.
FORGETFUL: list[dict[str, Any]] = [
    *({"window": window} for window in (64, 128, 256, 512, 1024)),
    *({"restart": period} for period in (16, 32, 64, 128, 256, 512)),
]


class Kinds(NamedTuple):
    """Readout classes for classification or regression, with settings for the lists.

    Attributes
    ----------
    nets, kernels, labels : type
        MLPs, kernels, and readouts that ignore features.
    alphas : tuple of float
        Noise variances of kernels whose settings do not include ``alpha``.
    strategies : tuple of str
        Strategies of readouts that ignore features.
    most_late : int
        Largest number of replay streams after many rows.
    """

    nets: type
    kernels: type
    labels: type
    alphas: tuple[float, ...]
    strategies: tuple[str, ...]
    most_late: int


CLASSES = Kinds(
    *(MLPReadout, KernelReadout, DummyReadout),
    alphas=(0.003, 0.3),
    strategies=("frequency", "decayed", "transition"),
    most_late=20,
)
REALS = Kinds(
    *(MLPReadoutRegressor, KernelReadoutRegressor, DummyReadoutRegressor),
    alphas=(0.003, 0.03, 1.0),
    strategies=("mean", "decayed", "last"),
    most_late=STREAMS[-1],
)


def named_readouts(
    name: str | None, n_features: int, n_classes: int
) -> list[BaseEstimator]:
    """Return the list of readouts with this name (the default list if None)."""
    return _listed(CLASSES, _parts_of(PARTS, name), n_features, n_classes)


def named_regressors(name: str | None, n_features: int) -> list[BaseEstimator]:
    """Return the list of regressors with this name (the default list if None)."""
    return _listed(REALS, _parts_of(REAL_PARTS, name), n_features, N_OUTPUTS)


def _parts_of(lists: dict[Any, tuple[str, ...]], name: str | None) -> Collection[str]:
    """Return the parts of the list with this name, or raise if there is none."""
    if name not in lists:
        required = f"one of {sorted(filter(None, lists))}, or None for the default list"
        raise invalid("The name of a list of readouts", required, name, "pass None")
    return lists[name]


def _listed(
    kinds: Kinds, parts: Collection[str], n_features: int, n_outputs: int
) -> DefaultGrid:
    readouts = DefaultGrid(_nets_in(parts, kinds, n_features, n_outputs))
    for part, kernels in KERNEL_PARTS.items():
        if part in parts:
            readouts += _kernels(kinds, kernels)
    if "means" in parts:
        readouts += [DiscriminantReadout(0.1), DiscriminantReadout(0.5)]
        readouts += [CentroidReadout(own) for own in ("centered", "within-class", None)]
        readouts.append(DummyReadout())
    if "centred means" in parts:
        readouts.append(CentroidReadout("centered"))
    if "others" in parts:
        readouts += _others(n_features)
    if "forgetful" in parts:
        for memory in FORGETFUL:
            readouts += _kernels(kinds, KERNEL_PARTS["kernels"], **memory)
    if "labels" in parts:
        readouts += [kinds.labels(strategy) for strategy in kinds.strategies]
    return readouts


def _nets_in(
    parts: Collection[str], kinds: Kinds, n_features: int, n_outputs: int
) -> list[BaseEstimator]:
    """Return the networks in these parts of a list."""
    kind, nets = kinds.nets, list[BaseEstimator]()
    if "nets" in parts:
        grid = [{**entry, "scaling": BOTH} for entry in DEFAULTS[kind]]
        nets += _nets(grid, kinds, n_features, n_outputs)
    if "few nets" in parts:
        nets += _nets(FEW_NETS[kind], kinds, n_features, n_outputs)
    if "nets that learn once" in parts:
        for entry in LEARNING_ONCE:
            nets += build_grid(kind, {**entry, "n_replay_streams": 0})
    return nets


def _kernels(
    kinds: Kinds, kernels: Sequence[dict[str, Any]], **memory: int
) -> list[BaseEstimator]:
    alpha = {"alpha": list(kinds.alphas)}
    grids = [build_grid(kinds.kernels, {**alpha, **e, **memory}) for e in kernels]
    return [readout for grid in grids for readout in grid]


def default_readouts(n_features: int, n_classes: int) -> list[BaseEstimator]:
    """Return the default readouts for these numbers of features and classes.

    The default is the list "closed-form" (kernels, discriminants, class means and class
    frequencies) with a few networks. The networks are linear readouts and MLPs
    with one hidden layer, on standardised features, with and without averaged weights.
    All readouts were chosen by measurement on digits and on deep features
    (``python -m benchmarks lists``).

    To limit the cost of an example, the number of replay streams is the largest of 30,
    10 and 3 for which ``(streams + 1) * parameters`` is at most 1.5e8, where
    ``parameters`` counts the weights of all trained networks. If none is small
    enough, the number is 3. After 1,000 rows, it gradually decreases to a final number
    between 3 and 20 (but at most the initial number), the largest for which
    ``(streams + 1) * parameters`` is at most 6e6. The list does not depend on the
    number of rows, which is not known in advance.

    Parameters
    ----------
    n_features, n_classes : int

    Returns
    -------
    readouts : list of readouts
        As with any list that you pass, a switcher by default neither pools these
        readouts nor lets them race.

    Examples
    --------
    >>> from sklearn_mdl.readouts import default_readouts
    >>> readouts = default_readouts(64, 10)
    >>> len(readouts), readouts[0].architecture, readouts[-1].architecture
    (27, 'linear', 'label frequency')
    """
    return list(named_readouts(None, n_features, n_classes))


def default_regressors(n_features: int) -> list[BaseEstimator]:
    """Return the default regressors for this number of features.

    The list consists of kernels, MLPs with Gaussian densities whose scale depends on
    the features, and linear regressors with Student-t densities. The networks use
    standardised features and, up to 1,024 features, whitened features, with and without
    averaged weights. All readouts were chosen by measurement (``python -m benchmarks
    regression lists``). The initial number of replay streams follows the rule of
    :func:`~sklearn_mdl.readouts.default_readouts`, and the final number is 3.

    Parameters
    ----------
    n_features : int

    Returns
    -------
    readouts : list of regressors
        A list that depends only on the number of features. As with any list that you
        pass, a switcher by default neither pools these readouts nor lets them race.

    Examples
    --------
    >>> from sklearn_mdl.readouts import default_regressors
    >>> {readout.likelihood for readout in default_regressors(8)} == {
    ...     "gaussian", "student-t"
    ... }
    True
    """
    return list(named_regressors(None, n_features))


def _nets(
    grid: list[dict[str, object]], kinds: Kinds, n_features: int, n_outputs: int
) -> list[BaseEstimator]:
    """Return networks with the given settings, with and without averaged weights."""
    nets = []
    for entry in grid:
        settings = dict(entry)
        scalings = settings.pop("scaling", ["standard"])
        if n_features > MAX_WHITENED_BY_DEFAULT:
            scalings = ["standard"]
        shared = {"ema_step_size": [1.0, 0.03], "scaling": scalings}
        nets += build_grid(kinds.nets, {**settings, **shared})
    n_trained = sum(
        count_parameters((n_features, *readout.hidden_layer_sizes, n_outputs))
        for readout in nets
        if readout.ema_step_size == 1
    )
    most = UPDATES_PER_EXAMPLE // n_trained - 1
    late = LATE_UPDATES_PER_EXAMPLE // n_trained - 1
    first = next((s for s in STREAMS if s <= most), STREAMS[-1])
    n_streams = first, max(STREAMS[-1], min(first, late, kinds.most_late))
    return [readout.set_params(n_replay_streams=n_streams) for readout in nets]


GROWTH = 1.2  # factor by which the number of rows grows between two fits


def _others(n_features: int) -> list[Any]:
    """Return the neighbours and refitted classifiers that the list "mixed" adds.

    Four readouts use 30 nearest neighbours: by distance on standardised and on raw
    features, and by angle on standardised and on whitened features. A linear
    discriminant analysis with a shrunk covariance and a logistic regression are
    refitted whenever the number of rows has grown by a fifth. All were chosen by
    measurement on digits and on deep features (``python -m benchmarks codelength``).

    With more than 1,024 features, the neighbours on whitened features and the linear
    discriminant analysis are left out, since their cost is cubic in the number of
    features.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression

    others: list[Any] = [KNeighborsReadout(), KNeighborsReadout(scaling=None)]
    others.append(KNeighborsReadout(metric="cosine"))
    if n_features <= MAX_WHITENED_BY_DEFAULT:
        others.append(KNeighborsReadout(metric="cosine", scaling="whiten"))
        discriminant = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        others.append(RefitReadout(discriminant, schedule=GROWTH))
    return [*others, RefitReadout(LogisticRegression(C=3.0), schedule=GROWTH)]
