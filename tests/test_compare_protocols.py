"""One call sets protocols side by side, and leaves nothing out in silence."""

import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_iris, make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import FunctionTransformer

from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    RepresentationScorer,
    compare_protocols,
    readout_grid,
    uniform_codelength,
    write_results,
)
from sklearn_mdl.baselines import (
    BlockwiseCode,
    KNeighborsProbe,
    LinearProbe,
    MLPProbe,
    ProtocolComparison,
    VariationalCode,
    log_evidence,
    rank_me,
    usable_information,
)
from sklearn_mdl.baselines._comparison import number
from sklearn_mdl.baselines._protocols import PROTOCOLS, Measurement, Protocol
from sklearn_mdl.metrics import sample_complexity, surplus_description_length
from sklearn_mdl.readouts._isolation import seeded
from sklearn_mdl.report import RESULTS, read_rows

LINEAR = LinearProbe(lr=0.01, weight_decay=0.0, max_steps=60)
SWITCHER = MDLReadoutSwitcher(readout_grid(lr=[3e-3, 1e-2]), random_state=5)
QUICK = {
    "linear": LINEAR,
    "mlp": MLPProbe((16,), lr=0.01, weight_decay=0.0, max_steps=40),
    "knn": None,
    "selectivity": None,
    "logme": None,
    "rankme": None,
    "vinfo": None,
    "permutation": None,
    "blockwise": None,
    "variational": VariationalCode(n_steps=60, n_draws=4),
    "sdl": None,
    "esc": None,
    "edl": None,
    "epiplexity": None,
    "mdl": SWITCHER,
}
CHEAP = {"knn": None, "logme": None, "blockwise": GaussianNB()}


class Broken(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        raise RuntimeError("no weights")


@pytest.fixture(scope="module")
def data():
    return make_classification(300, 8, n_informative=5, random_state=0)


@pytest.fixture(scope="module")
def full(data):
    X, y = data
    encoders = {"raw": None, "two axes": PCA(2), "given": X[:, ::2]}
    return compare_protocols(
        encoders, X, y, protocols=QUICK, references=["random", "shuffled"]
    )


def split_of(n, seed):
    """Repeat the split that a comparison draws."""
    seed = np.random.RandomState(seed).randint(2**31 - 1)
    order = np.random.default_rng(seed).permutation(n)
    n_train = n - int(np.ceil(0.2 * n))
    return order[:n_train], order[n_train:]


# What it says


def test_every_protocol_says_something_of_every_encoder(full):
    assert full.encoder_names == (
        "raw",
        "two axes",
        "given",
        "(random encoder)",
        "(shuffled features)",
    )
    assert [p.name for p in full.protocols] == list(QUICK) == list(PROTOCOLS)
    assert np.isfinite(full.values).all()
    assert full.reasons == {}
    assert (full.seconds > 0).all()
    assert full.n_train == (240,)
    assert full.n_test == (60,)
    assert full.n_classes == (2,)


def test_values_are_those_of_the_protocols_one_by_one(data, full):
    X, y = data
    train, test = split_of(300, 0)
    rows, labels = X[train], y[train]
    seed = np.random.RandomState(0).randint(2**31 - 1)
    found = full.frame().loc["raw"]
    for name, probe in [
        ("linear", LINEAR),
        ("mlp", QUICK["mlp"]),
        ("knn", KNeighborsProbe()),
    ]:
        fitted = seeded(probe, seed).fit(rows, labels)
        assert found[name] == fitted.score(X[test], y[test])
    for name, code in [
        ("blockwise", BlockwiseCode()),
        ("variational", QUICK["variational"]),
        ("mdl", SWITCHER),
    ]:
        assert found[name] == seeded(code, seed).fit(rows, labels).codelength_
    costs = clone(SWITCHER).fit(rows, labels).codelengths_
    shares = np.bincount(labels) / 240
    entropy = -np.sum(shares * np.log(shares))
    assert_allclose(full.epsilons, entropy / 2)
    assert found["sdl"] == surplus_description_length(costs, entropy / 2).value
    assert found["esc"] == sample_complexity(costs, entropy / 2).value
    assert found["logme"] == log_evidence(rows, labels).value
    assert found["rankme"] == rank_me(rows)
    tested = X[test], y[test]
    assert found["vinfo"] == usable_information((rows, labels), tested).value
    switcher = seeded(MDLReadoutSwitcher(readouts="closed-form", shuffle=True), seed)
    nulls = switcher.fit(rows, labels).permutation_test(20)
    assert found["permutation"] == nulls.null_codelengths.mean() - nulls.codelength
    proba = clone(SWITCHER).fit(rows, labels).predict_proba(X[test])
    loss = log_loss(y[test], proba)
    assert found["edl"] == pytest.approx(costs.sum() - 240 * loss)
    assert found["epiplexity"] == pytest.approx(costs.sum() - 240 * costs[-24:].mean())


def test_information_of_an_estimator_without_a_seed_is_repeatable(data):
    X, y = data
    protocols = {"vinfo": RandomForestClassifier(5)}
    first, again = (
        compare_protocols({"raw": X}, X, y, protocols=protocols, random_state=0)
        for _ in range(2)
    )
    assert_array_equal(first.values, again.values)


def test_rows_that_lost_their_labels_are_not_compressed(full):
    nothing = full.frame().loc["(shuffled features)"]
    uniform = uniform_codelength(240, 2)
    for name in ("blockwise", "variational", "mdl"):
        assert nothing[name] > uniform - 20
    assert abs(nothing["selectivity"]) < 0.25
    assert nothing["vinfo"] < 0.01
    assert nothing["permutation"] < 5
    assert full.frame().loc["raw", "permutation"] > 20
    assert full.is_bound[0, -1, list(QUICK).index("sdl")]


def test_numbers_do_not_depend_on_which_others_are_asked_for(data, full):
    X, y = data
    alone = compare_protocols({"two axes": PCA(2)}, X, y, protocols=["logme", "knn"])
    wanted = full.frame().loc["two axes"]
    assert_array_equal(alone.frame()["logme"], wanted["logme"])
    assert_array_equal(alone.frame()["knn"], wanted["knn"])


def test_jobs_change_no_number(data):
    X, y = data
    args = {"a": None, "b": PCA(2)}, X, y
    one = compare_protocols(*args, protocols=CHEAP)
    with parallel_config(backend="threading"):
        two = compare_protocols(*args, protocols=CHEAP, n_jobs=2)
    assert_array_equal(one.values, two.values)


def test_a_seed_decides_the_split(data):
    X, y = data
    a, b, c = (
        compare_protocols({"a": X}, None, y, protocols=CHEAP, random_state=seed)
        for seed in (0, 0, 1)
    )
    assert_array_equal(a.values, b.values)
    assert not np.array_equal(a.values, c.values)


def test_a_classifier_may_stand_for_a_protocol(data):
    X, y = data
    model = LogisticRegression(C=0.1)
    protocols = {"blockwise": model, "sdl": model, "esc": model, "ridge": model}
    found = compare_protocols(
        {"raw": X}, X, y, protocols=protocols, epsilon=0.6
    ).frame()
    train, test = split_of(300, 0)
    fitted = model.fit(X[train], y[train])
    assert found.loc["raw", "ridge"] == fitted.score(X[test], y[test])
    assert 1 <= found.loc["raw", "esc"] <= 240
    assert found.loc["raw", "sdl"] > 0


def test_types_may_be_given(data):
    X, y = data
    types = np.arange(300) % 3
    probe = {"selectivity": LINEAR}
    found = compare_protocols({"raw": X}, None, y, protocols=probe, types=types)
    assert found.reasons == {}
    assert -1 <= found.values.item() <= 1


# What it does not


def test_what_fails_is_nan_with_a_reason_and_the_rest_goes_on(data):
    X, y = data
    found = compare_protocols(
        {"raw": X, "broken": Broken(), "axis": PCA(1)},
        X,
        y,
        protocols={**CHEAP, "sure": LogisticRegression(C=-1.0)},
        references=["random"],
    )
    assert np.isnan(found.values[0, 1]).all()
    assert np.isnan(found.values[0, :, 3]).all()
    assert np.isfinite(found.values[0, [0, 2, 3]][:, :3]).all()
    assert found.reasons["", "broken", "knn"] == "RuntimeError: no weights"
    assert "InvalidParameterError" in found.reasons["", "raw", "sure"]
    assert np.isnan(found.ranks[0]).all()  # one encoder is missing everywhere
    assert "broken, knn: RuntimeError: no weights" in str(found)


def test_without_data_there_are_no_control_tasks_and_no_random_encoder(data):
    X, y = data
    found = compare_protocols(
        {"given": X},
        None,
        y,
        protocols=["selectivity", "knn"],
        references=["random", "shuffled"],
    )
    assert (
        "finite numbers, but there are neither; pass types, one for each row"
        in found.reasons["", "given", "selectivity"]
    )
    assert "needs X" in found.reasons["", "(random encoder)", "knn"]
    assert found.values[0, 0, 1] > found.values[0, 2, 1]


def test_warnings_are_kept_as_notes(data):
    X, y = data
    short = {"short": LogisticRegression(max_iter=1)}
    found = compare_protocols({"raw": X}, None, y, protocols=short)
    (notes,) = found.notes.values()
    assert "ConvergenceWarning" in notes[0]


class TerminatedWorkerError(Exception):
    """Has the name of joblib's."""


def test_a_process_that_dies_leaves_a_reason(data, monkeypatch):
    def pool(**options):
        def run(calls):
            for function, args, named in calls:
                if "selectivity" in args[2].protocols:
                    raise TerminatedWorkerError
                yield function(*args, **named)

        return run

    monkeypatch.setattr("sklearn_mdl.model_selection._running.Parallel", pool)
    X, y = data
    protocols = ["selectivity", "knn", "logme"]
    found = compare_protocols({"raw": X}, None, y, protocols=protocols)
    assert list(found.reasons) == [("", "raw", "selectivity")]
    assert "process died" in found.reasons["", "raw", "selectivity"]
    assert np.isfinite(found.values[0, 0, 1:]).all()


@pytest.mark.parametrize("verbose", [0, 1])
def test_the_bar_shows_only_if_asked(data, capsys, verbose, monkeypatch):
    monkeypatch.setattr("sklearn_mdl.model_selection._running.LATE", 0.0)
    X, y = data
    compare_protocols({"raw": X}, None, y, protocols=["logme"], verbose=verbose)
    assert ("measurements: 100%" in capsys.readouterr().err) == bool(verbose)


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_probes_that_ask_for_any_gpu_get_the_one_of_their_process(device):
    probe = LinearProbe(device=device)
    assert Measurement("", "", ("linear",), probe, None, None).device == device
    assert Measurement("", "", ("logme",), None, None, None).device == "cpu"


# Ranks, tables


def by_hand(values, protocols=("linear", "mdl"), n_references=0):
    values = np.array(values, dtype=float)
    n_datasets, n_encoders = values.shape[:2]
    return ProtocolComparison(
        tuple(f"data {d}" for d in range(n_datasets)),
        tuple(f"encoder {e}" for e in range(n_encoders)),
        tuple(PROTOCOLS[name] for name in protocols),
        values,
        np.zeros(values.shape, bool),
        np.ones(values.shape),
        np.zeros((n_datasets, n_encoders)),
        {},
        {},
        (100,) * n_datasets,
        (25,) * n_datasets,
        (2,) * n_datasets,
        (0.3,) * n_datasets,
        n_references,
    )


TABLE = [
    [[0.90, 50.0], [0.80, 60.0], [0.85, 60.0]],
    [[0.20, 90.0], [0.60, 80.0], [0.30, 95.0]],
    [[0.70, 10.0], [0.70, 20.0], [0.50, 30.0]],
]


def test_greater_accuracies_and_shorter_codes_rank_first():
    found = by_hand(TABLE)
    linear = [[1, 3, 2], [3, 1, 2], [1.5, 1.5, 3]]
    mdl = [[1, 2.5, 2.5], [2, 1, 3], [1, 2, 3]]
    assert_array_equal(found.ranks[..., 0], linear)
    assert_array_equal(found.ranks[..., 1], mdl)
    assert_allclose(found.average_ranks[:, 0], np.mean(linear, 0))
    assert_array_equal(found.average_places, [[1, 1], [1, 2], [3, 3]])


def test_mean_accuracies_and_average_ranks_may_disagree():
    frame = by_hand(TABLE).average_frame()
    assert list(frame) == ["linear mean", "linear", "linear #", "mdl", "mdl #"]
    assert frame["linear mean"].idxmax() == "encoder 1"
    assert frame["mdl"].idxmin() == "encoder 0"
    assert_allclose(frame["linear mean"], [0.6, 0.7, 0.55])


def test_references_have_values_and_no_ranks():
    found = by_hand(TABLE, n_references=1)
    assert np.isnan(found.ranks[:, 2]).all()
    assert found.ranks[1, :2, 0].tolist() == [2, 1]
    assert np.isnan(found.average_places[2]).all()


def test_where_a_value_is_missing_nobody_is_ranked():
    values = np.array(TABLE)
    values[1, 0, 1] = np.nan
    found = by_hand(values)
    assert np.isnan(found.ranks[1, :, 1]).all()
    assert np.isnan(found.average_ranks[:, 1]).all()
    assert np.isfinite(found.average_ranks[:, 0]).all()


def test_frames_have_a_row_for_each_encoder(full):
    frame, seconds = full.frame(), full.seconds_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame)[:4] == ["linear", "linear rank", "mlp", "mlp rank"]
    assert frame.index.tolist() == list(full.encoder_names)
    assert list(seconds) == ["encoding", *QUICK]
    assert "<table" in full._repr_html_()
    assert "<table" in by_hand(TABLE)._repr_html_()
    with pytest.raises(ValueError, match="dataset must be one of"):
        by_hand(TABLE).frame()
    assert by_hand(TABLE).frame("data 1").loc["encoder 1", "mdl rank"] == 1


def test_the_text_has_values_ranks_bounds_and_times(full):
    text = str(full)
    assert text == full.summary()
    assert "240 rows learned and coded, 60 tested, 2 classes" in text
    assert "uniform code 166.4 nats" in text
    assert "  seconds\n" in text
    assert ">= " in text
    assert "Average ranks over" not in text
    line = next(x for x in text.splitlines() if x.startswith("  raw  "))
    assert f"{full.frame().loc['raw', 'mdl']:.1f}" in line


def test_the_text_of_several_datasets_ends_with_average_ranks():
    text = str(by_hand(TABLE))
    block = text[text.index("Average ranks over 3 datasets") :].splitlines()
    assert block[1].split() == ["encoder", "linear", "mean", "linear", "#", "mdl", "#"]
    assert block[2].split()[2:] == ["0.6000", "1.83", "1", "1.33", "1"]


def test_a_report_sets_them_beside_the_ranking(full, tmp_path):
    X, y = load_iris(return_X_y=True)
    features = {"raw": X, "axis": X[:, :1]}
    scorer = RepresentationScorer(SWITCHER).fit({"iris": (features, y)})
    plain = write_results(scorer, tmp_path / "plain")
    assert "Other measures" not in plain[-1].read_text(encoding="utf-8")
    paths = write_results(scorer, tmp_path / "both", full)
    page = paths[-1].read_text(encoding="utf-8")
    assert {path.name for path in paths} == {*RESULTS}
    assert "Other measures" in page
    assert "(shuffled features)" in page
    path = tmp_path / "both" / "protocols.csv"
    head, *rows = read_rows(path)
    table = [dict(zip(head, row, strict=True)) for row in rows]
    assert len(table) == full.values.size
    (value,) = (
        float(row["value"])
        for row in table
        if (row["protocol"], row["encoder"]) == ("mdl", "raw")
    )
    assert value == full.frame().loc["raw", "mdl"]
    broken = compare_protocols({"raw": X}, None, y, protocols={"axes": PCA()})
    page = write_results(scorer, tmp_path / "broken", broken)[-1].read_text("utf-8")
    assert "Not computed for raw, axes: " in page
    several = by_hand(TABLE)
    page = write_results(scorer, tmp_path / "both", several)[-1].read_text("utf-8")
    assert "data 2" in page


# Several datasets


def test_several_datasets_are_measured_each_as_alone(data):
    datasets = {"made": data, "iris": load_iris(return_X_y=True)}
    encoders = {"raw": None, "axis": PCA(1)}
    both = compare_protocols(encoders, datasets, protocols=CHEAP)
    alone = compare_protocols(encoders, *datasets["iris"], protocols=CHEAP)
    assert both.dataset_names == ("made", "iris")
    assert_array_equal(both.values[1], alone.values[0])
    assert both.n_classes == (2, 3)


class Counting(TransformerMixin, BaseEstimator):
    _fits = 0

    def fit(self, X, y=None):
        type(self)._fits += 1
        self.fitted_ = True
        return self

    def transform(self, X):
        return X[:, ::2]


def test_features_are_kept_where_asked_and_shared_with_a_ranking(data, tmp_path):
    encoders, datasets = {"half": Counting()}, {"made": data}
    RepresentationScorer(SWITCHER, results=tmp_path).fit(datasets, encoders)
    kept, again, plain = (
        compare_protocols(encoders, datasets, protocols=["knn"], results=results)
        for results in (tmp_path, str(tmp_path), None)
    )
    assert Counting._fits == 2  # for the ranking, and where nothing is kept
    assert_array_equal(kept.values, again.values)
    assert_array_equal(kept.values, plain.values)


def test_datasets_may_hold_features(data):
    X, y = data
    features = {"raw": X, "half": X[:, :4]}
    several = compare_protocols(None, {"made": (features, y)}, protocols=CHEAP)
    single = compare_protocols(features, None, y, protocols=CHEAP)
    assert_array_equal(several.values, single.values)
    with pytest.raises(ValueError, match="'b' lacks"):
        compare_protocols(None, {"a": (features, y), "b": ({"raw": X}, y)})


def test_data_are_not_copied_where_features_stand_for_them():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (200, 20_000), np.uint8), np.arange(200) % 2
    features = rng.normal(size=(200, 3))
    tracemalloc.start()
    try:
        compare_protocols(
            {"a": features}, X, y, protocols=["knn"], references=["shuffled"]
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes


@pytest.mark.parametrize(
    ("value", "style", "text"),
    [(-4e-5, ".4f", "0.0000"), (-0.5, ".1f", "-0.5"), (2.0, "g", "2")],
)
def test_a_number_that_is_shown_as_zero_has_no_sign(value, style, text):
    assert number(value, style) == text


# Refusals


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"encoders": {}}, TypeError, "encoders must be a non-empty mapping"),
        ({"encoders": [PCA()]}, TypeError, "encoders must be a non-empty mapping"),
        ({"encoders": {3: None}}, TypeError, "encoders must be strings"),
        ({"encoders": {"a": PCA}}, TypeError, "pass an instance"),
        ({"encoders": {"a": SelectKBest()}}, ValueError, "without the labels"),
        ({"encoders": {"a": np.zeros((5, 2))}}, ValueError, "Features must be dense"),
        ({"X": None}, ValueError, "X must be the data"),
        ({"y": None}, ValueError, "y must be labels"),
        ({"y": np.zeros(300, int)}, ValueError, "at least two classes"),
        ({"y": np.arange(7) % 2}, ValueError, r"X and y .* got \[300, 7\]"),
        ({"X": {}, "y": None}, TypeError, "non-empty mapping"),
        ({"X": {"a": load_iris(return_X_y=True)}}, ValueError, "pass y=None"),
        ({"X": {"a": 3}, "y": None}, TypeError, "A dataset must be a pair"),
        ({"X": {"a": ({"e": 1}, 2)}, "y": None}, ValueError, "encoders=None"),
        ({"protocols": "mdl"}, TypeError, "'protocols' parameter of .*compare"),
        ({"protocols": []}, ValueError, "at least one"),
        ({"protocols": ["accuracy"]}, ValueError, "protocols must be among"),
        ({"protocols": {"mdl": 3}}, TypeError, "needs an estimator, got 3"),
        ({"references": "random"}, ValueError, "'references' parameter of"),
        ({"references": ["oracle"]}, ValueError, "references must be among"),
        ({"references": None}, ValueError, "'references' parameter of"),
        ({"test_size": 1.0}, ValueError, "'test_size' parameter"),
        ({"epsilon": -1.0}, ValueError, "'epsilon' parameter"),
        ({"types": [1, 2]}, ValueError, "types must be of shape.*of the data, got"),
        (
            {"X": {"a": load_iris(return_X_y=True)}, "y": None, "types": {"b": []}},
            ValueError,
            r"types must be keyed by \['a'\], got 'b'",
        ),
        ({"folds": 3}, TypeError, "folds"),
        (
            {"encoders": {"(random encoder)": None}},
            ValueError,
            "be different from .*, got",
        ),
        ({"test_size": 0.997}, ValueError, "at least two classes.* test_size"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(changes, error, words, data):
    X, y = data
    given = {"encoders": {"raw": None}, "X": X, "y": y, "protocols": ["knn"], **changes}
    with pytest.raises(error, match=words):
        compare_protocols(
            given.pop("encoders"), given.pop("X"), given.pop("y"), **given
        )


def test_a_codelength_by_mdl_needs_a_switcher(data):
    X, y = data
    wanted = r"'mdl' needs an MDLReadoutSwitcher, got GaussianNB\(\)"
    with pytest.raises(TypeError, match=wanted):
        compare_protocols({"raw": None}, X, y, protocols={"mdl": GaussianNB()})


def test_a_variational_code_is_needed_for_its_protocol(data):
    wanted = r"^'variational' needs a VariationalCode, got GaussianNB\(\); pass None$"
    with pytest.raises(TypeError, match=wanted):
        compare_protocols({"raw": None}, *data, protocols={"variational": GaussianNB()})


def test_the_estimator_of_blocks_must_predict_probabilities(data):
    protocols = {"blockwise": LinearRegression()}
    (reason,) = compare_protocols(
        {"raw": None}, *data, protocols=protocols
    ).reasons.values()
    assert reason == (
        "TypeError: BlockwiseCode needs a classifier with fit and predict_proba, got "
        "LinearRegression(); pass an instance, for example "
        "CalibratedClassifierCV(SVC()) for SVC()"
    )


@pytest.mark.parametrize("name", ["logme", "rankme"])
def test_measures_without_an_estimator_refuse_one(name, data):
    wanted = rf"The estimator of '{name}' must be None, got GaussianNB\(\)"
    with pytest.raises(ValueError, match=wanted):
        compare_protocols({"raw": None}, *data, protocols={name: GaussianNB()})


def test_messages_on_a_single_dataset_name_no_empty_text(data):
    X, y = data
    for encoders, labels in (({"raw": X}, y * 0), (None, y), ({"raw": X[:3]}, y)):
        with pytest.raises((TypeError, ValueError)) as caught:
            compare_protocols(encoders, X, labels, protocols=["knn"])
        assert "''" not in str(caught.value)
    comparison = compare_protocols({"raw": X}, X, y, protocols=["rankme"])
    with pytest.raises(ValueError, match=r"one of \[None\], got .*; pass dataset=None"):
        comparison.frame("x")


def test_a_frame_without_pandas_says_how_to_get_it(full, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas.*sklearn-mdl\[plot\]"):
        full.frame()


def test_a_random_encoder_needs_numbers(data):
    _, y = data
    words = [["word", "longer word"][label] for label in y]
    lengths = FunctionTransformer(lambda X: np.array([[float(len(x))] for x in X]))
    found = compare_protocols(
        {"length": lengths},
        words,
        y,
        protocols={"bayes": GaussianNB()},
        references=["random"],
    )
    assert found.frame().loc["length", "bayes"] == 1
    (reason,) = found.reasons.values()
    assert reason == "a random encoder needs X as an array of finite numbers"


def test_without_any_features_there_are_no_references(data):
    X, y = data
    found = compare_protocols(
        {"broken": Broken()}, X, y, protocols=["knn"], references=["shuffled"]
    )
    assert "no encoder has features" in found.reasons.values()


def test_a_switcher_with_a_store_serves_all_encoders(tmp_path, data):
    X, y = data
    encoders = {"raw": None, "first": X[:, :1]}
    plain = MDLReadoutSwitcher([LinearReadout()], random_state=0)
    kept = MDLReadoutSwitcher(
        [LinearReadout()], random_state=0, store=tmp_path, checkpoint=tmp_path
    )
    found, expected = (
        compare_protocols(encoders, X, y, protocols={"mdl": one}).frame()["mdl"]
        for one in (kept, plain)
    )
    np.testing.assert_array_equal(found, expected)
    assert list(tmp_path.iterdir()) == []


def test_a_regressor_has_no_accuracy(data):
    X, y = data
    found = compare_protocols({"raw": X}, None, y, protocols={"axes": PCA()})
    assert "needs a classifier" in found.reasons["", "raw", "axes"]
    assert found.protocols == (Protocol("axes", "axes", "accuracy", True),)
