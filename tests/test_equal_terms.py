"""Within a dataset of a ranking all encoders have the same readouts, and it is said."""

import csv
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.datasets import load_iris, load_wine

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    RepresentationScorer,
    write_results,
)
from sklearn_mdl.baselines import _compare
from sklearn_mdl.model_selection import _tasks
from sklearn_mdl.readouts import MLPReadout, _lists as grid, default_readouts, terms_of


@pytest.fixture
def small_grid(monkeypatch):
    """A default grid of few readouts, whose rules bind at widths of a test."""
    monkeypatch.setattr(_tasks, "default_terms", _tasks.default_terms.__wrapped__)
    monkeypatch.setattr(
        grid,
        "FEW_NETS",
        {MLPReadout: [{"lr": [1e-3, 3e-3, 1e-2]}]},
    )
    monkeypatch.setattr(grid, "STREAMS", (3, 1, 0))
    monkeypatch.setattr(grid, "UPDATES_PER_EXAMPLE", 4 * 3 * 2 * 3 * (8 + 1))
    monkeypatch.setattr(grid, "MAX_WHITENED_BY_DEFAULT", 8)


def study(*widths, n=40):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 40)) + y[:, None]
    return {"d": ({f"w{width}": X[:, :width] for width in widths}, y)}


def terms(scorer):
    return {cell.encoder: cell.terms for cell in scorer.cells_}


def test_all_encoders_have_the_readouts_that_the_widest_can_bear(small_grid, tmp_path):
    scorer = RepresentationScorer(MDLReadoutSwitcher(), results=tmp_path).fit(
        study(2, 40)
    )
    alone = RepresentationScorer(MDLReadoutSwitcher()).fit(study(2))
    wide = terms_of(default_readouts(40, 3))
    assert terms(scorer) == {"w2": wide, "w40": wide} != terms(alone)
    assert not alone.common_settings_notes_
    note = scorer.common_settings_notes_["d"]
    assert "most features, w40 (40 features): " in note
    assert "w2 (2 features)" in note
    assert str(wide) in note
    assert str(terms(alone)["w2"]) in note
    assert note in scorer.summary()
    write_results(scorer, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert note in page
    assert note in (tmp_path / "cells.json").read_text()
    with (tmp_path / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["streams"] for row in rows} == {" ".join(map(str, wide.streams))}
    assert {row["n_readouts"] for row in rows} == {str(wide.n_readouts)}
    assert {row["scalings"] for row in rows} == {" ".join(map(str, wide.scalings))}
    assert all(float(row["seconds"]) > 0 for row in rows)


def test_a_wide_encoder_that_comes_later_runs_the_others_again(small_grid, tmp_path):
    first = RepresentationScorer(MDLReadoutSwitcher(), results=tmp_path).fit(
        study(2, 4)
    )
    old, new = (str(terms_of(default_readouts(d, 3))) for d in (4, 40))
    text = f"On 'd', stored cells with other readouts ({old}) are run again (2 in all)"
    text += f", since all encoders must have {new}"
    with pytest.warns(UserWarning, match=f"^{re.escape(text)}$"):
        second = RepresentationScorer(MDLReadoutSwitcher(), results=tmp_path).fit(
            study(2, 4, 40)
        )
    assert len(set(terms(second).values())) == 1
    assert terms(second)["w2"] != terms(first)["w2"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the first ones are still there
        again = RepresentationScorer(MDLReadoutSwitcher(), results=tmp_path).fit(
            study(2, 4)
        )
    assert_array_equal(again.codelengths_, first.codelengths_)
    assert [c.seconds for c in again.cells_] == [c.seconds for c in first.cells_]
    assert not again.common_settings_notes_


def test_a_cell_without_its_trace_has_no_other_readouts(small_grid, tmp_path):
    RepresentationScorer(MDLReadoutSwitcher(), results=tmp_path).fit(study(2, 4))
    next((tmp_path / "cells").glob("*.safetensors")).unlink()
    with pytest.warns(
        UserWarning, match="^Running cell .* again, since it is damaged: "
    ) as caught:
        RepresentationScorer(MDLReadoutSwitcher(), results=tmp_path).fit(study(2, 4))
    assert len(caught) == 1


def test_readouts_that_the_user_names_are_everybodys(small_grid):
    readouts = [LinearReadout(n_replay_streams=2), LinearReadout(scaling="whiten")]
    scorer = RepresentationScorer(MDLReadoutSwitcher(readouts)).fit(study(2, 40))
    assert set(terms(scorer).values()) == {terms_of(readouts)}
    assert not scorer.common_settings_notes_


def test_protocols_are_compared_on_equal_terms(small_grid, monkeypatch):
    seen, whole = [], _compare.measure

    def measure(task, device=None):
        seen.append(terms_of(task.estimator.readouts))
        return whole(task, device)

    monkeypatch.setattr(_compare, "measure", measure)
    _compare.compare_protocols(None, study(2, 40), protocols=["mdl", "sdl"])
    assert seen == [terms_of(default_readouts(40, 3))] * 2


# Widths that say nothing: constant columns, and a column in two halves of its value


def padded(X):
    return np.column_stack([X, np.full((len(X), X.shape[1]), 0.1)])


def halved(X):
    return np.column_stack([X[:, :-1], X[:, -1:] / 2, X[:, -1:] / 2])


def check_law(readouts, change, tolerance, n_orders=1):
    """No rank changes, whichever encoder is changed, and codelengths hardly do."""
    datasets = {}
    for name, load in {"iris": load_iris, "wine": load_wine}.items():
        X, y = load(return_X_y=True)
        noise = np.random.default_rng(0).normal(size=(len(X), 3))
        found = {"raw": X, "half": X[:, ::2], "noise": noise}
        changed = {f"{e} changed": change(own) for e, own in found.items()}
        datasets[name] = {**found, **changed}, y
    scorer = RepresentationScorer(MDLReadoutSwitcher(readouts), n_orders=n_orders)
    for nats in scorer.fit(datasets).codelengths_:
        was, now = nats[:3], nats[3:]
        assert_allclose(now, was, rtol=tolerance)
        for e in range(3):
            mixed = np.where(np.arange(3) == e, now, was)
            assert_array_equal(rankdata(mixed), rankdata(was))


@pytest.mark.parametrize(("change", "tolerance"), [(padded, 1e-4), (halved, 0.1)])
def test_widths_that_say_nothing_change_no_rank_of_linear_readouts(change, tolerance):
    # A column in two halves is learned twice as fast.
    check_law([LinearReadout(lr=3e-3), LinearReadout(lr=1e-2)], change, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("change", [padded, halved])
def test_widths_that_say_nothing_change_no_rank_by_default(change):
    # Hidden layers begin with weights of the order of 1 / sqrt(width). Whitening and
    # discriminants shrink towards the mean variance of all columns, constant ones too,
    # and the direction of a row with a constant column shows its length. Another width
    # draws other initial weights, which four orders average out.
    check_law(None, change, 0.04, n_orders=4)


def test_the_list_of_all_kernels_finds_a_class_between_two_others():
    X, y = load_iris(return_X_y=True)
    for name, found in {"linear": False, "closed-form": True}.items():
        switcher = MDLReadoutSwitcher(name, shuffle=True, random_state=0)
        switcher.fit(X[:, [2]], y)  # along the length of petals, classes are in order
        # A logistic regression recognises more than 0.9 of the middle class.
        assert (switcher.correct_[y[switcher.order_] == 1][25:].mean() > 0.8) == found


def test_a_ranking_by_linear_kernels_names_the_list_for_few_features():
    X, y = load_iris(return_X_y=True)
    for readouts, width, n_classes, is_named in [
        ("linear", 2, 3, True),
        ("linear", 3, 3, False),
        ("linear", 1, 2, True),
        ("closed-form", 2, 3, False),
    ]:
        kept = y < n_classes
        features = {"first": X[kept, :width], "last": X[kept, -width:]}
        scorer = RepresentationScorer(MDLReadoutSwitcher(readouts))
        said = scorer.fit({"iris": (features, y[kept])}).summary()
        few = 'With fewer features than classes, also try the readouts "closed-form".'
        assert (few in said) == is_named
