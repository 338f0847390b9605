"""Invariants of classifiers by others: known rows only, in turn, with one thread."""

import os
import subprocess
import sys
import textwrap
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PowerTransformer
from sklearn.utils import shuffle

from sklearn_mdl import (
    IncrementalReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    RefitReadout,
)
from sklearn_mdl.switcher._coding import encode

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

N = 160


def wine():
    X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    return X[:N].astype(np.float32), y[:N]


def digits_of_three():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=N)
    X = (y[:, None] + rng.integers(2, size=(N, 4))) % 3 + 1.0
    return X.astype(np.float32), y


REFUSE_ZEROS = {
    "box-cox": (PowerTransformer(method="box-cox"), wine),
    "logarithm": (FunctionTransformer(np.log), wine),
    "one-hot": (OneHotEncoder(), digits_of_three),
}


def evaluated(readouts, X, y, at=(), **options):
    switcher = MDLReadoutSwitcher(readouts, random_state=0, **options)
    for start, stop in pairwise([0, *at, len(X)]):
        switcher.partial_fit(X[start:stop], y[start:stop], classes=range(3))
    return switcher


@pytest.mark.parametrize("name", REFUSE_ZEROS)
def test_classifiers_that_refuse_zeros_are_shown_none(name):
    transformer, data = REFUSE_ZEROS[name]
    X, y = data()
    classifier = make_pipeline(transformer, LogisticRegression(max_iter=1000))
    readouts = [RefitReadout(classifier, scaling=None), LinearReadout()]
    whole = evaluated(readouts, X, y)
    assert whole.codelength_ < 0.7 * N * np.log(3)
    pieces = evaluated(readouts, X, y, at=[1, 33, 50, 70, 71])
    np.testing.assert_array_equal(pieces.readout_losses_, whole.readout_losses_)
    assert pieces.diverged_readouts_ == []
    assert pieces.readout_notes_ == {}
    few = np.concatenate([whole.predict_proba(X[i : i + 5]) for i in range(0, 40, 5)])
    np.testing.assert_array_equal(few, whole.predict_proba(X[:40]))


class Witness(GaussianNB):
    """Notes all rows that it is shown."""

    shown: ClassVar[list[np.ndarray]] = []

    def predict_proba(self, X):
        self.shown.append(X)
        return super().predict_proba(X)


@pytest.mark.parametrize("kind", [RefitReadout, IncrementalReadout])
def test_every_row_that_a_classifier_is_shown_is_one_of_the_data(kind):
    X, y = wine()
    Witness.shown.clear()
    readout = kind(Witness(), scaling=None)
    found = evaluated([readout], X[:150], y[:150], at=[3, 40, 97])
    found.predict_proba(X[150:])
    given = {row.tobytes() for row in X.astype(np.float64)}
    assert {row.tobytes() for rows in Witness.shown for row in rows} == given - {
        row.tobytes() for row in X[:32].astype(np.float64)
    }


class Touchy(GaussianNB):
    """Raises if any row begins with a number that it does not like."""

    def predict_proba(self, X):
        if np.any(X[:, 0] == 1000):
            raise ValueError("no such rows")
        return super().predict_proba(X)


def test_a_row_at_which_a_classifier_raises_spoils_none_before_or_beside_it():
    X, y = wine()
    X[77, 0] = 1000
    readouts = [RefitReadout(Touchy(), scaling=None), LinearReadout()]
    whole = evaluated(readouts, X, y)
    pieces = evaluated(readouts, X, y, at=[66, 70, 75])
    np.testing.assert_array_equal(whole.readout_losses_, pieces.readout_losses_)
    assert (whole.readout_losses_[77:, 0] == np.log(3)).all()
    assert (whole.readout_losses_[64:77, 0] != np.log(3)).all()
    alone = RefitReadout(Touchy(), scaling=None).fit(X[:64], y[:64])
    np.testing.assert_array_equal(
        alone.predict_proba(X[70:80])[[0, 9]], alone.predict_proba(X[[70, 79]])
    )


class Gossip(ClassifierMixin, BaseEstimator):
    """Learns labels where all its like can read them."""

    known: ClassVar[dict[bytes, int]] = {}

    def partial_fit(self, X, y, classes=None):
        if classes is not None:
            self.classes_ = classes
        self.known.update((row.tobytes(), c) for row, c in zip(X, y, strict=True))
        return self

    def predict_proba(self, X):
        labels = [self.known.get(row.tobytes()) for row in X]
        return np.array(
            [[1 if c is None else c == k for k in range(4)] for c in labels]
        )


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_classifiers_that_share_state_pay_what_a_decoder_needs(n_jobs):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(640, 2)), rng.integers(4, size=640)
    gossips = [IncrementalReadout(Gossip(), scaling=None) for _ in range(2)]
    readouts = [gossips[0], KNeighborsReadout(3), LinearReadout(), gossips[1]]
    switcher = MDLReadoutSwitcher(readouts, random_state=0, n_jobs=n_jobs)
    Gossip.known.clear()
    _, encoded = encode(switcher, X, y)
    Gossip.known.clear()
    fitted = switcher.fit(X, y)
    np.testing.assert_array_equal(fitted.readout_losses_, encoded.readout_losses_)
    assert fitted.codelength_ > 0.98 * len(y) * np.log(4)


@pytest.mark.slow
def test_fit_and_encoding_agree_to_the_bit_with_any_number_of_threads():
    code = """
        import numpy as np
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
        from sklearn_mdl import RefitReadout
        from sklearn_mdl.switcher._coding import encode

        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 300))
        y = (X[:, :5].sum(1) > 0).astype(int)
        readout = RefitReadout(LinearDiscriminantAnalysis(), random_state=0)
        _, encoded = encode(readout, X, y)
        assert (readout.fit(X, y).codelengths_ == encoded.codelengths_).all()
    """
    threads = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "2")
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **threads},
        check=True,
    )
