"""A best readout at the edge of its grid is named; one inside, or a tie, is not."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MLPReadout, readout_grid
from sklearn_mdl.readouts._edges import grid_edges

RATES = [1e-4, 1e-3, 1e-2, 1e-1]


def edges_of(readouts, best):
    """Edges, if one readout is better than all others."""
    codelengths = np.full(len(readouts), 100.0)
    codelengths[best] = 90
    return grid_edges(readouts, codelengths)


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        (0, {"lr": (1e-4, "lowest")}),
        (1, {}),
        (2, {}),
        (3, {"lr": (1e-1, "highest")}),
    ],
)
def test_edge_is_the_lowest_or_the_highest(best, expected):
    assert edges_of(readout_grid(lr=RATES), best) == expected
    backwards = readout_grid(lr=RATES[::-1])
    assert edges_of(backwards, 3 - best) == expected


def test_every_setting_at_an_edge_is_named():
    grid = readout_grid(lr=RATES, weight_decay=[0.0, 1.0, 10.0])
    assert edges_of(grid, 2) == {
        "lr": (1e-4, "lowest"),
        "weight_decay": (10.0, "highest"),
    }
    assert edges_of(grid, 5) == {"weight_decay": (10.0, "highest")}


def test_two_values_have_no_inside():
    assert edges_of(readout_grid(lr=RATES[:2]), 0) == {}
    assert edges_of([LinearReadout()], 0) == {}


@pytest.mark.parametrize(
    ("name", "values", "end"),
    [
        ("weight_decay", [0.0, 1.0, 3.0], 0),
        ("n_replay_streams", [0, 3, 10], 0),
        ("label_smoothing", [0.0, 0.03, 0.1], 0),
        ("ema_step_size", [0.01, 0.1, 1.0], 2),
    ],
)
def test_where_a_range_ends_is_no_edge(name, values, end):
    grid = readout_grid(**{name: values})
    assert edges_of(grid, end) == {}
    other = 2 - end
    side = "lowest" if other == 0 else "highest"
    assert edges_of(grid, other) == {name: (values[other], side)}


def test_readouts_are_compared_with_those_of_their_architecture():
    grid = [*readout_grid(lr=RATES), *(MLPReadout((8,), lr=lr) for lr in RATES[:3])]
    assert edges_of(grid, 6) == {"lr": (1e-2, "highest")}
    assert edges_of(grid, 2) == {}
    assert edges_of([*readout_grid(lr=RATES), MLPReadout((8,), lr=9.0)], 4) == {}


def test_a_tie_with_another_value_is_no_edge():
    grid = readout_grid(lr=RATES, ema_step_size=[1.0, 0.1])
    assert grid_edges(grid, np.full(8, 50.0)) == {}
    codelengths = np.array([9.0, 8, 8, 9, 9, 9, 9, 9])
    assert grid_edges(grid, codelengths) == {}
    # Two readouts of the same lr may tie.
    codelengths = np.array([8.0, 8, 9, 9, 9, 9, 9, 9])
    assert grid_edges(grid, codelengths) == {"lr": (1e-4, "lowest")}


def test_what_is_no_number_has_no_order():
    grid = readout_grid(
        scaling=["standard", "whiten", None],
        calibration=[True, False],
        random_state=[1, 2, 3],
        batch_size=[8, 16, 32],
    )
    assert edges_of(grid, 0) == {}


def test_any_estimator_with_parameters_has_edges():
    grid = [SGDClassifier(alpha=alpha) for alpha in (1e-5, 1e-4, 1e-3)]
    grid.append(SGDClassifier(alpha=1e-4, eta0=5.0))
    assert edges_of(grid, 2) == {"alpha": (1e-3, "highest")}


# What `fit` says of it


def digits(n=150):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    return X[order], y[order]


def too_low():
    grid = readout_grid(lr=[1e-5, 1e-4, 3e-3], n_replay_streams=2)
    return MDLReadoutSwitcher(grid, random_state=0)


def test_fit_warns_of_the_edge_in_one_sentence_where_it_was_called():
    words = r"for 'linear lr=0.003' lr=0.003 is the highest .*with lr > 0.003"
    with pytest.warns(UserWarning, match=words) as record:
        switcher = too_low().fit(*digits())
    (warning,) = record
    assert warning.filename == __file__
    assert "\n" not in str(warning.message)
    assert switcher.grid_edges_ == {"lr": (3e-3, "highest")}


def test_no_warning_during_a_stream_or_without_an_edge():
    X, y = digits()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = too_low()
        for start in range(0, len(X), 50):
            part = slice(start, start + 50)
            stream.partial_fit(X[part], y[part], classes=range(10))
        inside = readout_grid(lr=[1e-4, 3e-2, 1e2], n_replay_streams=2)
        switcher = MDLReadoutSwitcher(inside, random_state=0).fit(X, y)
        assert switcher.grid_edges_ == {}
        # A stream too short to tell readouts apart: all predict uniformly.
        with pytest.warns(UserWarning, match="should learn before its last") as caught:
            too_low().fit(X[:30], y[:30])
        assert len(caught) == 1
    assert stream.grid_edges_ == {"lr": (3e-3, "highest")}


def test_default_grids_have_no_edges_to_report():
    X, y = digits(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        switcher = MDLReadoutSwitcher(random_state=0).fit(X, y % 2)
    assert isinstance(switcher.grid_edges_, dict)
