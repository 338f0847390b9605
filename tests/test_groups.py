"""Laws of groups: none of their labels is learned before all their rows are coded."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import (
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    PrequentialSplit,
    RefitReadout,
    RepresentationScorer,
    codelength_scorer,
    compare,
)
from sklearn_mdl._core.stream.schedule import grouped_order, keys_of
from sklearn_mdl.cli import main
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.model_selection import refit_codelength_scorer
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import (
    DummyReadout,
    DummyReadoutRegressor,
    IncrementalReadout,
    KernelReadoutRegressor,
    LinearReadoutRegressor,
    ViewReadout,
)
from sklearn_mdl.readouts._kernel_outcomes import KernelRegressorLearner
from sklearn_mdl.switcher import load_losses
from sklearn_mdl.switching import FixedShare, Race

READOUTS = [
    LinearReadout(lr=0.03, n_replay_streams=2),
    MLPReadout((4,), lr=0.03, ema_step_size=0.1, n_replay_streams=2),
    KernelReadout(),
    KernelReadout("rbf", gamma=0.1, scaling=None, max_exact=32),
    KernelReadout(scaling="unit", window=64),
    KNeighborsReadout(3, window=30),
    KernelReadout(restart=16),
    IncrementalReadout(GaussianNB()),
    RefitReadout(GaussianNB()),
    *(ViewReadout(r, slice(1, 4)) for r in (KernelReadout(), KNeighborsReadout(3))),
]
REGRESSORS = [
    LinearReadoutRegressor(lr=0.03),
    KernelReadoutRegressor(),
    KernelReadoutRegressor(restart=16),
    DummyReadoutRegressor("decayed"),
]
SIZES = [1, 5, 1, 40, 2, 9, 1, 1, 20, 3, 17]  # beyond minibatches of 8 rows
GROUPS = np.repeat([f"p{i:02}" for i in range(len(SIZES))], SIZES)
N, D, C = len(GROUPS), 4, 3
TRACES = ["codelengths_", "readout_losses_", "posterior_", "pool_weights_"]


def stream(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(C, size=N)
    return rng.normal(size=(N, D)) + 2 * np.eye(C, D)[y], y


def switcher(kind="classes", **options):
    options = {
        "batch_size": (4, 8),
        "pooling": LogLinearPool(),
        "race": Race(slack=0.5, min_readouts=2, min_samples=16),
        "random_state": 0,
        **options,
    }
    if kind == "classes":
        return MDLReadoutSwitcher(READOUTS, **options)
    return MDLReadoutSwitcherRegressor(REGRESSORS, **{**options, "race": None})


def as_reals(y):
    return y + np.linspace(0, 0.1, len(y))


def assert_same(one, other, rows=slice(None)):
    for name in TRACES:
        found, wanted = getattr(one, name)[rows], getattr(other, name)[rows]
        np.testing.assert_array_equal(found, wanted, err_msg=name)


@pytest.mark.quick("3-reals", "1-classes")
@pytest.mark.parametrize("kind", ["classes", "reals"])
@pytest.mark.parametrize("group", [1, 3])
def test_no_label_of_a_group_changes_a_code_in_it(kind, group):
    X, y = stream()
    other, own = y.copy(), np.flatnonzero(f"p{group:02}" == GROUPS)
    other[own] = (other[own] + 1) % C
    later = other.copy()
    later[own[-1] + 1 :] = (later[own[-1] + 1 :] + 1) % C
    of = (lambda y: y) if kind == "classes" else as_reals
    one, two, three = (
        switcher(kind).fit(X, of(labels), groups=GROUPS) for labels in (y, other, later)
    )
    assert_same(one, two, slice(own[0]))
    assert_same(two, three, slice(own[-1] + 1))
    for name in ("posterior_", "pool_weights_", "pool_posterior_"):
        found = getattr(one, name)[own]
        np.testing.assert_array_equal(found, getattr(two, name)[own])
    pool = one.pool_weights_[own]  # a pool has no transitions: its weights stand still
    np.testing.assert_array_equal(pool, np.tile(pool[0], (len(own), 1)))
    # The same predictions, so the codes of rows whose labels are equal in both.
    same = own[y[own] == other[own]]
    np.testing.assert_array_equal(one.codelengths_[same], two.codelengths_[same])


def test_a_label_of_a_group_leaves_the_codes_of_its_others_alone():
    X, y = stream()
    own = np.flatnonzero(GROUPS == "p03")
    other = y.copy()
    other[own[2]] = (other[own[2]] + 1) % C
    one, two = (switcher().fit(X, labels, groups=GROUPS) for labels in (y, other))
    kept = np.delete(np.arange(own[-1] + 1), own[2])
    assert_same(one, two, kept)
    assert (one.codelengths_[own[-1] + 1 :] != two.codelengths_[own[-1] + 1 :]).any()


@pytest.mark.parametrize("kind", ["classes", "reals"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_groups_of_one_row_are_none(kind, shuffle):
    X, y = stream()
    y = y if kind == "classes" else as_reals(y)
    alone, plain = (switcher(kind, shuffle=shuffle) for _ in range(2))
    assert_same(alone.fit(X, y, groups=np.arange(N)), plain.fit(X, y))
    np.testing.assert_array_equal(alone.order_, plain.order_)


def test_a_kernel_learns_from_what_it_predicted_when_units_change_in_a_group(
    monkeypatch,
):
    predicted, learned = [], []

    def predict(self, raw):
        found = plain_predict(self, raw)
        means, variances = found
        predicted.extend((self.location + self.scale * means)[0, :, 0].tolist())
        predicted.extend((self.scale**2 * variances)[0].tolist())
        return found

    def learn(self, means, variances, label):
        learned.append(float(self.location + self.scale * means[0, 0]))
        learned.append(float(self.scale**2 * variances[0]))
        plain_learn(self, means, variances, label)

    plain_predict = KernelRegressorLearner.predict_others
    plain_learn = KernelRegressorLearner.learn
    monkeypatch.setattr(KernelRegressorLearner, "predict_others", predict)
    monkeypatch.setattr(KernelRegressorLearner, "learn", learn)
    X, y = stream()
    fitted = MDLReadoutSwitcherRegressor([KernelReadoutRegressor()], device="cpu")
    fitted.fit(X[:20], as_reals(y)[:20], groups=np.repeat([0, 1], [3, 17]))
    units = np.array(learned).reshape(20, 2)  # rows 8 and 16 lie in the second group
    np.testing.assert_allclose(units[:3].T.ravel(), predicted[:6], rtol=1e-12)
    np.testing.assert_allclose(units[3:].T.ravel(), predicted[6:], rtol=1e-12)


def test_an_order_keeps_groups_together_and_draws_them_alike():
    scattered = np.random.default_rng(0).permutation(N)
    firsts = []
    for seed in range(200):
        order = MDLReadoutSwitcher([KernelReadout()], shuffle=True, random_state=seed)
        order._begin(D, np.arange(C), n_rows=N, keys=keys_of(GROUPS[scattered], N))
        names = GROUPS[scattered][order.order_]
        assert (names[1:] != names[:-1]).sum() == len(SIZES) - 1
        assert sorted(order.order_) == list(range(N))
        firsts.append(names[0])
    # A group of 40 rows is first no more often than one of a single row.
    assert 5 <= firsts.count("p03") <= 40


def test_the_order_of_groups_is_checked_and_not_of_their_rows():
    groups = np.repeat(np.arange(60), 5)
    y = np.random.default_rng(0).integers(0, 2, 60)[groups]  # one label per patient
    X, order = (
        y[:, None] + np.linspace(0, 1, 300)[:, None],
        np.argsort(y, kind="stable"),
    )
    switcher = MDLReadoutSwitcher([KernelReadout()])
    switcher.fit(X, y, groups=groups)  # warnings are errors here
    compare({"a": X}, y=y, groups=groups, switcher=switcher, verbose=0)
    with pytest.warns(UserWarning, match="grouped by class.*or whole groups"):
        switcher.fit(X[order], y[order], groups=groups[order])


def test_groups_that_cannot_be_kept_apart_are_refused():
    X, y = stream()
    with pytest.raises(ValueError, match="Rows of a group must be adjacent"):
        switcher().fit(X, y, groups=np.arange(N) % 7)
    with pytest.raises(ValueError, match="the group of each of the 100 rows, got"):
        switcher().fit(X, y, groups=[1, 2])
    model = switcher().partial_fit(X[:3], y[:3], range(C), groups=GROUPS[:3])
    with pytest.raises(ValueError, match="or in a later call"):
        model.partial_fit(X[3:9], y[3:9], groups=GROUPS[3:9])
    assert model.n_samples_seen_ == 3


def test_a_search_without_routing_refuses_groups_that_no_fit_would_get():
    X, y = stream()
    search = GridSearchCV(
        MDLReadoutSwitcher([KernelReadout()]),
        {"switching": ["bayes"]},
        scoring=codelength_scorer,
        cv=PrequentialSplit(),
    )
    with pytest.raises(ValueError, match="groups must reach the estimator's fit, but"):
        search.fit(X, y, groups=GROUPS)


def test_a_search_hands_groups_to_the_fit_and_scores_that_stream():
    X, y = stream()
    with sklearn.config_context(enable_metadata_routing=True):
        model = MDLReadoutSwitcher([KernelReadout()]).set_fit_request(groups=True)
        search = GridSearchCV(
            model,
            {"switching": ["bayes", "fixed-share"]},
            scoring=codelength_scorer,
            cv=PrequentialSplit(),
        )
        search.fit(X, y, groups=GROUPS)
    own = MDLReadoutSwitcher([KernelReadout()], switching="bayes")
    wanted = -own.fit(X, y, groups=GROUPS).codelength_ / N
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(wanted)
    with pytest.raises(ValueError, match="scorers are given no groups"):
        refit_codelength_scorer(own, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing was scored, so nothing is claimed
        with pytest.raises(ValueError, match="scorers are given no groups"):
            codelength_scorer(own, X + 1, y)
    with pytest.raises(ValueError, match="across groups"):
        own.permutation_test(shuffled=True)
    assert np.isfinite(own.score_segments(2).restarted_codelengths).all()
    assert own.score_segments(2, restart=False).codelengths.sum() == pytest.approx(
        own.codelength_
    )
    later = own.heldout_codelengths(X[:9] + 1, y[:9], groups=["new"] * 9)
    log_proba = own.predict_log_proba(X[:9] + 1)[np.arange(9), y[:9]]
    np.testing.assert_allclose(later, -log_proba, rtol=1e-9)


@pytest.mark.slow
def test_rankings_and_the_command_line_take_groups(tmp_path, capsys):
    X, y = stream()
    scattered = np.random.default_rng(0).permutation(N)
    X, y, groups = X[scattered], y[scattered], GROUPS[scattered]
    features = {"all": X, "some": X[:, :2]}
    model = MDLReadoutSwitcher([KernelReadout()])
    scorer = RepresentationScorer(model, n_orders=2, results=tmp_path / "results")
    scorer.fit({"patients": (features, y, groups)})
    rows = grouped_order(
        np.random.default_rng([0, 1]).permutation(N), keys_of(groups, N)
    )
    own = model.set_params(random_state=0)
    own.fit(X[rows], y[rows], groups=groups[rows])
    assert scorer.order_codelengths_[0, 0, 1] == own.codelength_
    assert scorer.verdict().datasets[0].half_width > 0
    plain = RepresentationScorer(model, n_orders=2, results=tmp_path / "results")
    assert (
        plain.fit({"patients": (features, y)}).codelengths_[0, 0]
        != (scorer.codelengths_[0, 0])
    )
    folder = tmp_path / "features" / "patients"
    folder.mkdir(parents=True)
    for name, array in {**features, "labels": y, "groups": groups}.items():
        np.save(folder / f"{name}.npy", array)
    datasets = load_feature_directory(folder.parent)
    np.testing.assert_array_equal(datasets["patients"][2], groups)
    paths = [str(folder / f"{name}.npy") for name in ("all", "labels", "groups")]
    main(["score", *paths[:2], "--groups", paths[2], "--readouts", "closed-form"])
    own = MDLReadoutSwitcher("closed-form", shuffle=True, random_state=0)
    nats = own.fit(X, y, groups=groups).codelength_
    assert f"{nats:.1f} nats" in capsys.readouterr().out


def test_the_command_line_encodes_and_decodes_in_groups(tmp_path, capsys):
    pytest.importorskip("constriction")
    X, y = stream()
    paths = [str(tmp_path / f"{name}.npy") for name in ("X", "y", "groups")]
    for path, array in zip(paths, (X, y, GROUPS), strict=True):
        np.save(path, array)
    message, out = str(tmp_path / "y.mdl"), str(tmp_path / "again.npy")
    options = ["--groups", paths[2], "--readouts", "closed-form"]
    main(["encode", *paths[:2], "--out", message, *options])
    own = MDLReadoutSwitcher("closed-form", shuffle=True, random_state=0)
    nats = own.fit(X, y, groups=GROUPS).codelength_
    assert f"({nats:.1f} nats)" in capsys.readouterr().out
    main(["decode", paths[0], message, "--out", out, *options])
    np.testing.assert_array_equal(np.load(out), y)
    assert main(["decode", paths[0], message, "--out", f"{out}.npy", *options[2:]]) == 2
    assert "features.groups" in capsys.readouterr().err


def test_files_of_losses_in_groups_are_mixed_again(tmp_path):
    """Also if only later rows are in groups."""
    X, y = stream()
    late = switcher(store=tmp_path, race=None)
    late.partial_fit(X[:30], y[:30], classes=range(C))
    assert load_losses(late.store_ / "losses.npy").known is None
    late.partial_fit(X[30:], y[30:], groups=GROUPS[30:])
    found = load_losses(late.store_ / "losses.npy")
    assert (found.known[:31] == np.arange(31)).all()
    codelengths = found.remix(None).codelengths
    np.testing.assert_array_equal(codelengths, late.switching_codelengths_)
    again = switcher(race=None).partial_fit(X[:30], y[:30], classes=range(C))
    assert_same(again.partial_fit(X[30:], y[30:], groups=GROUPS[30:]), late)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_kernels_learn_whatever_the_minibatches(batch_size):
    X, y = stream()
    one, other = (
        MDLReadoutSwitcher([KernelReadout()], batch_size=(1, size))
        for size in (batch_size, 32)
    )
    assert one.fit(X, y).codelength_ == other.fit(X, y).codelength_


@pytest.mark.slow
def test_near_duplicates_are_not_learned_from_each_other():
    # Labels are noise, but each row comes ten times with the same label.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 5)), rng.integers(2, size=30)
    X = np.repeat(X, 10, axis=0) + 0.01 * rng.normal(size=(300, 5))
    y, groups = np.repeat(y, 10), np.repeat(np.arange(30), 10)
    model = MDLReadoutSwitcher("closed-form", shuffle=True, random_state=0)
    uniform = 300 * np.log(2)
    assert model.fit(X, y).codelength_ < 0.5 * uniform
    assert model.fit(X, y, groups=groups).codelength_ > 0.95 * uniform
    assert model.codelength_ < 1.3 * uniform


@pytest.mark.filterwarnings("ignore:y should be in random order")
@pytest.mark.parametrize("options", [{}, {"groups": GROUPS}])
def test_the_code_of_the_labels_alone_learns_them_when_readouts_do(options):
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(N, 2)), ("frequency", "decayed", "transition")
    labels = np.repeat(rng.integers(0, C, len(SIZES)), SIZES)
    mixture = {"switching": FixedShare(), "pooling": None, "race": None}
    switcher = MDLReadoutSwitcher([DummyReadout(name) for name in names], **mixture)
    switcher.set_params(random_state=0).fit(X, labels, **options)
    found = switcher.reference_codelengths_
    np.testing.assert_allclose(found, switcher.codelengths_, rtol=1e-9)
    regressor = MDLReadoutSwitcherRegressor([DummyReadoutRegressor()], random_state=0)
    regressor.fit(X, labels + 0.1 * X[:, 0], **options)
    found = regressor.reference_codelengths_
    np.testing.assert_allclose(found, regressor.codelengths_, rtol=1e-9)
