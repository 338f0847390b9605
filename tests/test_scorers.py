"""A codelength needs no held-out rows: one split, all rows on both sides."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, check_cv, cross_validate

from sklearn_mdl import PrequentialSplit

ROWS = np.random.default_rng(0).normal(size=(12, 3))
LABELS = np.arange(12) % 2


class Recorder:
    """A scorer that remembers how many rows it was given."""

    def __init__(self):
        self.sizes = []

    def __call__(self, estimator, X, y):
        self.sizes.append((len(X), len(y)))
        return float(estimator.n_components_)


@pytest.mark.parametrize("y", [None, LABELS, LABELS[:3]], ids=["none", "y", "short"])
@pytest.mark.parametrize(
    "X", [ROWS, ROWS.tolist(), range(12)], ids=lambda x: type(x).__name__
)
def test_the_one_split_has_all_rows_on_both_sides(X, y):
    ((train, test),) = PrequentialSplit().split(X, y, groups=None)
    assert_array_equal(train, np.arange(12))
    assert_array_equal(test, np.arange(12))


def test_every_call_splits_anew():
    split = PrequentialSplit()
    for _ in range(2):
        assert len(list(split.split(ROWS))) == 1
    assert len(next(split.split(ROWS[:5]))[0]) == 5


@pytest.mark.parametrize("words", [{}, {"X": ROWS, "y": LABELS, "groups": None}])
def test_there_is_one_split_whatever_is_asked(words):
    assert PrequentialSplit().get_n_splits(**words) == 1
    assert PrequentialSplit().get_n_splits(*words.values()) == 1


def test_scikit_learn_takes_it_as_cross_validation():
    split = PrequentialSplit()
    assert check_cv(split) is split


def test_grid_search_scores_and_refits_on_all_rows():
    scorer = Recorder()
    search = GridSearchCV(
        PCA(), {"n_components": [1, 3, 2]}, scoring=scorer, cv=PrequentialSplit()
    ).fit(ROWS, LABELS)
    assert scorer.sizes == [(12, 12)] * 3
    assert search.n_splits_ == 1
    assert search.best_params_ == {"n_components": 3}
    assert_allclose(search.best_estimator_.mean_, ROWS.mean(0))


def test_cross_validate_fits_on_the_rows_it_scores():
    found = cross_validate(
        PCA(2),
        ROWS,
        LABELS,
        scoring=lambda pca, X, y: float(np.abs(pca.mean_ - X.mean(0)).max()),
        cv=PrequentialSplit(),
        return_indices=True,
    )
    assert_allclose(found["test_score"], [0.0], atol=1e-12)
    assert_array_equal(found["indices"]["train"], found["indices"]["test"])


@pytest.mark.parametrize(
    "copy", [lambda s: pickle.loads(pickle.dumps(s)), lambda s: clone(s, safe=False)]
)
def test_a_copy_splits_alike(copy):
    ((train, test),) = copy(PrequentialSplit()).split(ROWS)
    assert_array_equal(train, test)


def test_a_search_that_holds_one_can_be_cloned():
    search = GridSearchCV(PCA(), {"n_components": [1]}, cv=PrequentialSplit())
    assert isinstance(clone(search).cv, PrequentialSplit)


def test_its_repr_makes_one():
    assert repr(PrequentialSplit()) == "PrequentialSplit()"
    assert "cv=PrequentialSplit()" in repr(
        GridSearchCV(PCA(), {}, cv=PrequentialSplit())
    )
