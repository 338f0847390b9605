"""Figures of a race, against the numbers of the race."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_mdl import KernelReadout, MDLReadoutSwitcher
from sklearn_mdl.display import RaceDisplay
from sklearn_mdl.model_selection import EncoderRace

NAMES = ["good", "alike", "noise"]


@pytest.fixture(scope="module")
def race():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), rng.integers(2, size=120)
    X[:, 0] += 3 * y
    rows = [X, X + rng.normal(size=X.shape) / 5, rng.normal(size=X.shape)]
    switcher = MDLReadoutSwitcher([KernelReadout("linear")])
    race = EncoderRace(NAMES, 2, start=10, switcher=switcher)
    return race.update(dict(zip(NAMES, rows, strict=True)), y)


def test_evidence_is_drawn_until_an_encoder_is_out(race):
    display = RaceDisplay.from_race(race)
    assert display.ax_.get_yscale() == "log"
    end = race.eliminated_at_["noise"]
    x, y = display.lines_["noise"].get_data()
    assert len(x) == end < 120
    assert y[-1] >= race.threshold_ > np.nanmax(y[:-1])
    assert_allclose(display.lines_["good"].get_ydata()[-1], race.e_values_[0].max())
    heights = [list(line.get_ydata()) for line in display.ax_.lines]
    assert [race.threshold_] * 2 in heights
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert f"noise: out at {end}" in texts
    assert f"{race.leader_} (leads)" in texts
    plt.close("all")


def test_bounds_hold_the_mean_difference(race):
    display = RaceDisplay.from_race(race, quantity="bounds", ax=plt.subplots()[1])
    leader = NAMES.index(race.leader_)
    losses = race.losses_[10:]
    means = np.cumsum(losses - losses[:, [leader]], axis=0)
    means /= np.arange(1, 111)[:, None]
    for i, name in enumerate(NAMES):
        x, y = display.lines_[name].get_data()
        drawn = np.isfinite(y) & (x > 10)
        assert drawn.any()
        assert_allclose(y[drawn], means[x[drawn] - 11, i], atol=1e-12)
    plt.close("all")


def test_the_frame_has_the_history(race):
    frame = RaceDisplay.from_race(race, max_named=1).frame()
    plt.close("all")
    history = race.history()
    assert list(frame["encoder"][:3]) == NAMES
    assert_array_equal(frame["n_labels"], np.repeat(np.arange(1, 121), 3))
    assert_array_equal(frame["log_e_value"], history.log_e_values.ravel())
    assert_array_equal(frame["upper"], history.upper.ravel())


def test_what_is_no_race_is_refused(race):
    said = "EncoderRace must have the attribute 'encoder_names_'; "
    with pytest.raises(AttributeError, match=f"^{said}call race.update(.X, y.) first$"):
        RaceDisplay.from_race(EncoderRace(NAMES, 2))
    table = np.zeros((4, 2))
    options = {"threshold": 20.0, "eliminated_at": {}, "leader": "a"}
    said = "log_e_values, lower, upper must be of shape (n_labels, 2), n_labels > 0, "
    said += "got (0, 2); call race.update(X, y), or pass *race.history()"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        RaceDisplay(["a", "b"], table, table, table[:0], **options)
    with pytest.raises(ValueError, match="leader must be one of"):
        RaceDisplay(["a", "b"], table, table, table, **options | {"leader": "c"})
    with pytest.raises(ValueError, match="quantity must be one of"):
        RaceDisplay(["a", "b"], table, table, table, **options).plot(quantity="x")
