"""Streams of river, taken row by row, and its classifiers beside readouts."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from benchmarks.drift import RIVER, bundled, classifiers, progressive
from sklearn_mdl import KernelReadout, KNeighborsReadout, MDLReadoutSwitcher

N = 200


@pytest.fixture(scope="module", params=["Phishing", "SeattleWeather"])
def stream(request):
    pytest.importorskip("vega_datasets" if "Weather" in request.param else "river")
    X, y, n_classes = bundled(request.param)
    return X[:N], y[:N], n_classes


def test_rows_that_arrive_one_by_one_give_the_same_bits(stream):
    X, y, n_classes = stream
    readouts = [KernelReadout(window=64), KNeighborsReadout(5, window=50)]
    whole, single = (MDLReadoutSwitcher(readouts, random_state=0) for _ in range(2))
    whole.partial_fit(X, y, classes=range(n_classes))
    for row, label in zip(X, y, strict=True):
        single.partial_fit(row[None], [label], classes=range(n_classes))
    assert_array_equal(single.codelengths_, whole.codelengths_)


@pytest.mark.parametrize("name", RIVER)
def test_losses_of_its_classifiers_are_finite_and_better_than_nothing(stream, name):
    pytest.importorskip("river")
    X, y, n_classes = stream
    losses, hits = progressive(classifiers()[name], X, y, n_classes)
    assert np.isfinite(losses).all()
    assert hits.mean() > 1 / n_classes
