"""Laws of stepwise: asked label by label, a run becomes what it becomes at once."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

import sklearn_mdl._core.stream.threads
from sklearn_mdl import BayesMixture, FixedShare, MDLReadoutSwitcher, readout_grid
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.outcomes import ClassLabels
from sklearn_mdl._core.stream.run import Mixing, PrequentialRun
from sklearn_mdl._core.stream.stepwise import stepwise
from sklearn_mdl._core.stream.threads import PassSettings
from sklearn_mdl.switching import RunLength

X, y = shuffle(*load_digits(return_X_y=True), random_state=0, n_samples=230)
POOL = [
    *readout_grid(scaling=["standard", "whiten", None], ema_step_size=[1.0, 0.03]),
    *readout_grid(hidden_layer_sizes=[(8,), (4, 4)], n_replay_streams=[1, 3]),
]


def told(run, rows, labels, order=None):
    """Lead a run by known labels; returns what the mixture said, (n, C)."""
    steps = stepwise(run, rows, order)
    said = [next(steps)]
    for label in labels[:-1]:
        said.append(steps.send(label))
    with pytest.raises(StopIteration):
        steps.send(labels[-1])
    return np.array(said)


def fresh(**params):
    return MDLReadoutSwitcher(POOL, random_state=0, **params)


def begun(switcher):
    switcher._begin(X.shape[1], np.unique(y), n_rows=len(X))
    return switcher._run


@pytest.mark.quick("7", "32")
@pytest.mark.parametrize("batch_size", [1, 7, 32, 500])
def test_stepwise_leaves_bitwise_the_trace_of_fit(batch_size, monkeypatch):
    # Cuts minibatches, too.
    monkeypatch.setattr(sklearn_mdl._core.stream.threads, "SEGMENT", 50)
    n = 60 if batch_size == 1 else len(X)
    fitted = fresh(batch_size=batch_size).fit(X[:n], y[:n])
    run = begun(fresh(batch_size=batch_size))
    labels = np.searchsorted(fitted.classes_, y[:n])
    said = told(run, X[:n], labels.tolist())
    assert (run.trace.losses == fitted.readout_losses_).all()
    assert (run.trace.posterior == fitted.posterior_).all()
    assert (run.trace.codelengths == fitted.codelengths_).all()
    # What a label was predicted with is what it costs.
    np.testing.assert_allclose(
        -np.log(said[np.arange(n), labels]), fitted.codelengths_, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(said.sum(1), 1, rtol=1e-12)


def test_a_stream_goes_on_after_stepwise_as_after_fit():
    whole = fresh().fit(X, y)
    begin = fresh()
    begin._checked(X, y, reset=True)
    told(begun(begin), X[:100].astype(np.float32), y[:100].tolist())
    begin.partial_fit(X[100:], y[100:])
    assert (begin.codelengths_ == whole.codelengths_).all()
    assert (begin.predict_proba(X) == whole.predict_proba(X)).all()


def test_rows_are_taken_in_an_order():
    order = np.random.default_rng(1).permutation(len(X))
    one, other = begun(fresh()), begun(fresh())
    told(one, X, y[order].tolist(), order)
    told(other, X[order], y[order].tolist())
    assert (one.trace.codelengths == other.trace.codelengths).all()


@pytest.mark.parametrize("flush", [False, True])
def test_whoever_tells_the_labels_has_threads_and_denormals_as_they_were(flush):
    n_threads = torch.get_num_threads()
    run = begun(fresh())
    torch.set_flush_denormal(flush)
    torch.set_num_threads(2)
    try:
        steps = stepwise(run, X)
        next(steps)
        for label in y[:70].tolist():
            steps.send(label)
            assert torch.get_num_threads() == 2
            assert bool(torch.tensor(1e-40) * 1.0) is not flush
    finally:
        torch.set_num_threads(n_threads)
        torch.set_flush_denormal(False)


class Certain(Learner):
    """A learner of two readouts, each certain of a label of its own."""

    columns = (1, 0)

    def predict(self, x):
        proba = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
        return proba.log()[:, None].expand(-1, x.shape[1], -1)

    def update(self, x, y, replayed):
        pass


@pytest.mark.parametrize("prior", [BayesMixture(), FixedShare(alpha=0.5)])
def test_labels_that_all_hold_impossible_cost_40_nats_more_and_teach_nothing(prior):
    settings = PassSettings(ClassLabels(3), 1, 2, 0, torch.device("cpu"))
    mixing = Mixing(prior, np.array([0.75, 0.25]))
    run = PrequentialRun([Certain()], mixing, settings)
    said = told(run, np.zeros((4, 1), np.float32), [1, 1, 0, 0])
    least = np.exp(-40) / 3
    np.testing.assert_allclose(said[:3], [[0.75, least, 0.25]] * 3)
    np.testing.assert_allclose(run.trace.codelengths[:2], 40 + np.log(3))
    # The third label is as good as impossible for one of the readouts.
    odds = 0.25 * least / 0.75
    expected = [1, least, odds + least]
    if not isinstance(prior, BayesMixture):
        expected = [0.875, least, 0.125]
    np.testing.assert_allclose(said[3], expected)


def test_a_stream_that_the_prior_refuses_is_refused_before_the_first_prediction():
    run = begun(fresh(switching=RunLength(n_rates=None, max_steps=len(X))))
    with pytest.raises(ValueError, match="max_steps"):
        next(stepwise(run, np.concatenate([X, X])))
    assert run.n_scored == len(run.samples) == 0
