"""No rows end a stream, whatever the readouts, and their units and order do not matter.

Kinds of readouts are those that the package names, with every choice that each of
their parameters allows; kinds of rows are those of ``odd_rows.py``.
"""

import inspect

from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor, readouts
from sklearn_mdl._core.sklearn_compat import StrOptions
from sklearn_mdl.readouts import Readout

N_QUICK, N_SLOW = 32, 320
LEFT_ALONE = {"device"}  # parameters that choose nothing of the predictor
OF_IMAGES = {"FineTunedReadout", "FrozenReadout", "ScratchReadout"}
GIVEN = {  # what a kind cannot be made without, or to be quick
    "BlockReadout": {"readout": readouts.KernelReadout(), "columns": [0], "name": "a"},
    "BlockReadoutRegressor": {
        **{"readout": readouts.KernelReadoutRegressor(), "columns": [0], "name": "a"},
    },
    "IncrementalReadout": {"estimator": GaussianNB()},
    "RefitReadout": {"estimator": LogisticRegression()},
    "MLPReadout": {"hidden_layer_sizes": (4,)},
    "MLPReadoutRegressor": {"hidden_layer_sizes": (4,)},
}


def choices(constraints):
    """Values that are named by what a parameter must be."""
    for constraint in constraints:
        if isinstance(constraint, StrOptions):
            yield from sorted(constraint.options)
        elif constraint == "boolean":
            yield from (True, False)
        elif constraint is None:
            yield None


def variants(kind):
    """Readouts of a kind: as it is, and with each choice of each parameter."""
    names, given = inspect.signature(kind).parameters, {**GIVEN.get(kind.__name__, {})}
    if "n_replay_streams" in names:
        given["n_replay_streams"] = 1
    return [kind(**given)] + [
        kind(**given, **{name: choice})
        for name, constraints in kind._parameter_constraints.items()
        if name in names and name not in {*given, *LEFT_ALONE}
        for choice in choices(constraints)
        if choice != names[name].default
    ]


def all_readouts(*, of_classes):
    """Readouts of all kinds, of classes or of real labels."""
    switcher = MDLReadoutSwitcher if of_classes else MDLReadoutSwitcherRegressor
    kinds = [getattr(readouts, name) for name in readouts.__all__]
    kinds = [
        kind
        for kind in kinds
        if inspect.isclass(kind)
        and issubclass(kind, Readout)
        and kind.__name__ not in OF_IMAGES
        and kind.__name__.endswith("Regressor") != of_classes
    ]
    assert len(kinds) >= 5
    return switcher, [readout for kind in kinds for readout in variants(kind)]
