"""Segments of a stream: sums, intervals, restarted readouts, what ends a segment."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_regression

from sklearn_mdl import KernelReadout, MDLReadoutSwitcher, MDLReadoutSwitcherRegressor
from sklearn_mdl.readouts import DummyReadout, KernelReadoutRegressor
from sklearn_mdl.switcher._segments import block_bootstrap

CHANGE = 100


def permuted_once(n=200):
    """Digits whose labels are renamed at ``CHANGE``."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    X, y = X[order], y[order]
    return X, np.where(np.arange(n) < CHANGE, y, (y + 5) % 10)


@pytest.fixture(scope="module")
def switcher():
    X, y = permuted_once()
    readouts = [KernelReadout(), DummyReadout("transition")]
    return MDLReadoutSwitcher(readouts, random_state=0).partial_fit(
        X, y, classes=range(10)
    )


def test_segments_are_what_each_code_costs_there(switcher):
    found = switcher.score_segments([CHANGE, 150])
    assert_array_equal(found.starts, [0, CHANGE, 150])
    assert_array_equal(found.ends, [CHANGE, 150, 200])
    assert_allclose(found.codelengths.sum(), switcher.codelength_)
    expected = switcher.codelengths_[CHANGE:150].sum()
    assert_allclose(found.codelengths[1], expected)
    assert_allclose(found.per_example[1], expected / 50)
    reference = switcher.reference_codelengths_
    assert_allclose(found.reference_codelengths[2], reference[150:].sum())
    assert (found.intervals[:, 0] < found.per_example).all()
    assert (found.per_example < found.intervals[:, 1]).all()


def test_readouts_blank_know_nothing_of_the_rows_before(switcher):
    X, y = permuted_once()
    found = switcher.score_segments([CHANGE])
    alone = MDLReadoutSwitcher(switcher.readouts, random_state=switcher._seed)
    alone.partial_fit(X[CHANGE:], y[CHANGE:], classes=range(10))
    assert found.restarted_codelengths[1] == alone.codelength_
    assert_allclose(found.restarted_codelengths[0], found.codelengths[0])
    assert abs(found.adaptation[0]) < 1e-9
    assert found.adaptation[1] > 50  # old labels stand in the way


def test_segments_are_of_the_run_whatever_was_set_since():
    X, y = permuted_once()
    switcher = MDLReadoutSwitcher(KernelReadout(), random_state=0).fit(X, y)
    expected = switcher.score_segments([CHANGE]).to_frame()
    later = {"switching": "bayes", "new_classes": "escape", "label_delay": 3}
    switcher.set_params(readouts="linear", **later)
    assert switcher.score_segments([CHANGE]).to_frame().equals(expected)


def test_ends_may_be_a_number_or_timestamps_or_changes_of_the_readout(switcher):
    assert_array_equal(
        switcher.score_segments(4, restart=False).ends, [50, 100, 150, 200]
    )
    times = np.arange("2026-01-01", "2026-07-20", dtype="datetime64[D]")
    months = np.array(["2026-01-31", "2026-06-30"], dtype="datetime64[D]")
    by_month = switcher.score_segments(months, times=times, restart=False)
    assert_array_equal(by_month.ends, [31, 181, 200])
    assert np.isnan(by_month.restarted_codelengths).all()
    rng = np.random.default_rng(0)
    y = np.r_[np.arange(150) % 4, rng.integers(4, size=150)]  # in turns, then at random
    X = rng.normal(size=(300, 4)) + 5 * np.eye(4)[y] * (np.arange(300) >= 150)[:, None]
    changing = MDLReadoutSwitcher(switcher.readouts).partial_fit(X, y, classes=range(4))
    ends = changing.score_segments("posterior", restart=False).ends
    assert len(ends) > 1
    assert abs(ends[0] - 150) < 10


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"level": 95}, r"level must be between 0 and 1, got 95; pass level=0\.9"),
        ({"n_resamples": 0}, "n_resamples must be a positive integer, got 0"),
    ],
)
def test_intervals_have_a_level_and_resamples(switcher, given, words):
    with pytest.raises(ValueError, match=words):
        switcher.score_segments(2, restart=False, **given)


def test_real_labels_have_segments_too():
    X, y = make_regression(120, 4, random_state=0)
    readouts = [KernelReadoutRegressor()]
    switcher = MDLReadoutSwitcherRegressor(readouts, random_state=0).fit(X, y / 100)
    found = switcher.score_segments(3)
    assert_allclose(found.codelengths.sum(), switcher.codelength_)
    expected = switcher.reference_codelengths_.sum()
    assert_allclose(found.reference_codelengths.sum(), expected)
    assert_allclose(found.restarted_codelengths[0], found.codelengths[0])


def test_a_table_has_a_row_per_segment(switcher):
    frame = switcher.score_segments(3, restart=False).to_frame()
    assert list(frame.index) == [0, 1, 2]
    assert {"starts", "codelengths", "low", "high", "adaptation"} <= {*frame}


def test_blocks_keep_the_spread_of_a_mean_of_dependent_values():
    """Of a moving average of five, whose mean has a known variance."""
    rng, widths = np.random.default_rng(0), []
    for _ in range(40):
        values = np.convolve(rng.normal(size=2004), np.ones(5), "valid")
        low, high = block_bootstrap(values, 0.9, 400, 0)
        widths.append(high - low)
    assert_allclose(np.mean(widths), 2 * 1.645 * 5 / np.sqrt(2000), rtol=0.1)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (0, "from 1 to"),
        (201, "from 1 to 200"),
        ([300], "row numbers up to 200"),
        ("posteriors", "ends must be a number of segments"),
        ([0.5], r"; pass ends=8, or timestamps with times$"),
    ],
)
def test_ends_that_are_none_are_refused(switcher, given, match):
    with pytest.raises(ValueError, match=match):
        switcher.score_segments(given)


def test_times_must_be_sorted_and_as_many(switcher):
    for times in (np.arange(5), -np.arange(200)):
        for ends in (3, [3], "posterior"):
            with pytest.raises(ValueError, match="times must be 200 sorted timestamps"):
                switcher.score_segments(ends, times=times)
