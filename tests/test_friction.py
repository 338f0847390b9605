"""What a new user gives at first: taken if it is clear, or refused with the cure."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
)
from sklearn_mdl.readouts import LinearReadoutRegressor

X, Y = load_wine(return_X_y=True)
X, Y = X[::3], Y[::3]


def switcher(readouts=None):
    readouts = [LinearReadout()] if readouts is None else readouts
    return MDLReadoutSwitcher(readouts, shuffle=True, random_state=0)


def test_a_single_readout_is_a_list_of_one():
    alone = switcher(LinearReadout()).fit(X, Y)
    assert_array_equal(alone.codelengths_, switcher().fit(X, Y).codelengths_)
    numbers = [
        MDLReadoutSwitcherRegressor(given, random_state=0).fit(X, X[:, 0]).codelength_
        for given in (LinearReadoutRegressor(), [LinearReadoutRegressor()])
    ]
    assert numbers[0] == numbers[1]
    with pytest.raises(TypeError, match="RefitReadout"):
        switcher(LogisticRegression()).fit(X, Y)


@pytest.mark.parametrize("estimator", [switcher(), LinearReadout()])
@pytest.mark.parametrize("name", ["sample_weight", "class_weight"])
def test_weights_are_refused_with_the_cure(estimator, name):
    with pytest.raises(TypeError, match=f"got {name}; .* repeat or drop rows"):
        estimator.fit(X, Y, **{name: np.ones(len(Y))})


@pytest.mark.parametrize("estimator", [switcher(), LinearReadout()])
def test_one_hot_labels_are_refused_with_the_cure(estimator):
    with pytest.raises(ValueError, match=r"argmax\(1\) .* MultiOutputSwitcher"):
        estimator.fit(X, np.eye(3)[Y])


def test_sparse_features_are_refused_with_the_cure():
    with pytest.raises(TypeError, match="toarray"):
        switcher().fit(csr_matrix(X), Y)
