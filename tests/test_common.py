"""What scikit-learn asks of every estimator."""

import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_mdl import (
    FixedShare,
    IncrementalExpert,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    NeighborsReadout,
    RefittedExpert,
    RepresentationScorer,
)

SMALL_BOARD = [
    LinearReadout(lr=0.01),
    LinearReadout(lr=0.01, scaling="whiten", ema_step_size=0.1),
    MLPReadout((16,), lr=0.01),
]


# Some checks hand over labels sorted by class.
may_be_grouped = pytest.mark.filterwarnings("ignore:y should come in no particular")


@may_be_grouped
@parametrize_with_checks(
    [
        LinearReadout(),
        MLPReadout((16,)),
        NeighborsReadout(),
        IncrementalExpert(GaussianNB()),
        RefittedExpert(LogisticRegression()),
        MDLReadoutSwitcher(SMALL_BOARD),
    ]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@may_be_grouped
@parametrize_with_checks([MDLReadoutSwitcher()])
def test_scikit_learns_checks_of_the_default_board(estimator, check):
    check(estimator)


def test_representation_scorer_is_an_estimator_with_searchable_parameters():
    switcher = MDLReadoutSwitcher(SMALL_BOARD, switching=FixedShare(m=3))
    scorer = RepresentationScorer(
        switcher, n_orders=2, alpha=0.05, missing="drop", n_jobs=2, random_state=7
    )
    params = scorer.get_params()
    assert params["switcher__switching__m"] == 3
    assert RepresentationScorer().set_params(
        **scorer.get_params(deep=False)
    ).get_params(deep=False) == scorer.get_params(deep=False)
    copy = clone(scorer)
    assert copy is not scorer
    assert copy.switcher is not switcher
    assert str(copy.get_params()) == str(params)
    copy.set_params(switcher__switching__m=5)
    assert (copy.switcher.switching.m, switcher.switching.m) == (5, 3)


@pytest.mark.parametrize(
    "estimator", [LinearReadout, MLPReadout, MDLReadoutSwitcher, RepresentationScorer]
)
def test_constructors_keep_every_parameter_as_given(estimator):
    params = {name: object() for name in estimator().get_params(deep=False)}
    built = estimator(**params)
    assert all(getattr(built, name) is value for name, value in params.items())
