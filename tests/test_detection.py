"""Measures of detectors, and probes exported to scikit-learn."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import average_precision_score, roc_auc_score

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
)
from sklearn_mdl._core.io.safetensors_io import write_archive
from sklearn_mdl.metrics import detection_measures, positive_probabilities
from sklearn_mdl.model_selection import ExportedProbe, export_probe
from sklearn_mdl.readouts import KernelReadoutRegressor, view_readouts

CANCER = load_breast_cancer(return_X_y=True)
WINE = load_wine(return_X_y=True)


def by_hand(y, scores, most):
    """Recall at the lowest threshold that flags few enough negatives."""
    best = 0.0
    for threshold in [*scores, np.inf]:
        flagged = scores >= threshold
        if flagged[~y].mean() <= most:
            best = max(best, flagged[y].mean())
    return best


@for_each("most", [0.01, 0.1, 0.5])
def test_measures_are_their_definitions(most):
    rng = np.random.default_rng(0)
    y = rng.random(60) < 0.3
    scores = np.round(rng.normal(size=60) + y, 1)  # with ties
    found = detection_measures(y, scores, max_fpr=most, n_resamples=20)
    assert_allclose(found.roc_auc, roc_auc_score(y, scores))
    assert_allclose(found.average_precision, average_precision_score(y, scores))
    assert_allclose(found.recall, by_hand(y, scores, most))
    flagged = scores >= found.threshold
    assert_allclose(flagged[y].mean(), found.recall)
    assert flagged[~y].mean() <= most
    low, high = found.roc_auc_interval
    assert 0 <= low < found.roc_auc < high <= 1
    assert (found.n_positive, found.n_negative) == (y.sum(), (~y).sum())
    assert ("too few negatives" in str(found)) == (most == 0.01)


def test_intervals_are_quantiles_over_resamples_of_each_kind():
    rng = np.random.default_rng(0)
    y = rng.random(60) < 0.3
    scores = np.round(rng.normal(size=60) + y, 1)
    options = {"max_fpr": 0.1, "level": 0.8, "n_resamples": 30}
    found = detection_measures(y, scores, **options, random_state=3)
    rng, times = np.random.default_rng(3), np.zeros((30, 60), dtype=int)
    for kind in (y, ~y):
        n = kind.sum()
        times[:, kind] = rng.multinomial(n, np.full(n, 1 / n), 30)
    draws = []
    for own in times:
        drawn = np.repeat(np.arange(60), own)
        labels, values = y[drawn], scores[drawn]
        areas = roc_auc_score(labels, values), average_precision_score(labels, values)
        draws.append([*areas, by_hand(labels, values, 0.1)])
    points, intervals = found[2:8:2], found[3:8:2]
    assert_allclose(intervals, np.quantile(draws, [0.1, 0.9], axis=0).T)
    title, *lines = str(found).splitlines()
    assert title == f"{y.sum()} positive, {(~y).sum()} negative; 80% intervals"
    names = ["ROC AUC", "average precision", "recall at 0.1 false positives"]
    wanted = zip(names, points, intervals, strict=True)
    assert lines == [
        f"{name:34}{value:.3f}  ({low:.3f} to {high:.3f})"
        for name, value, (low, high) in wanted
    ]


def test_by_default_there_are_a_thousand_resamples_from_seed_0():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    scores = rng.normal(size=40) + y
    found = detection_measures(y, scores, n_resamples=1000, random_state=0)
    assert found == detection_measures(y, scores)


def test_one_resample_is_an_interval_of_one_number():
    rng = np.random.default_rng(0)
    found = detection_measures([0, 1] * 20, rng.normal(size=40), n_resamples=1)
    assert found.roc_auc_interval[0] == found.roc_auc_interval[1]


def test_intervals_cover():
    """Of Gaussian scores ROC AUC is known."""
    rng = np.random.default_rng(0)
    truth, hits = 0.7602499, 0  # Phi(1 / sqrt(2))
    for _ in range(200):
        y = np.arange(80) < 40
        found = detection_measures(y, rng.normal(size=80) + y, n_resamples=100)
        low, high = found.roc_auc_interval
        hits += low <= truth <= high
    assert 168 <= hits <= 192  # of 180


def test_two_examples_of_each_class_are_enough_and_a_share_may_be_met_exactly():
    found = detection_measures([1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], max_fpr=0.5)
    assert (found.recall, found.threshold) == (1.0, 2.0)
    assert "too few" not in str(found)
    few = str(detection_measures([1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], max_fpr=0.4))
    title = "2 positive, 2 negative; 90% intervals; too few negatives for one false"
    assert few.startswith(f"{title} positive\n")


def test_numbers_of_any_width_are_scored_as_64_bits():
    rng = np.random.default_rng(0)
    y, scores = np.arange(40) < 20, rng.normal(size=40).astype(np.float32)
    whole = detection_measures(y, scores.astype(np.float64), n_resamples=5)
    assert detection_measures(y, scores, n_resamples=5) == whole
    counts = rng.integers(200, size=40)
    whole = detection_measures(y, counts.astype(np.float64), n_resamples=5)
    assert detection_measures(y, counts.astype(np.uint8), n_resamples=5) == whole
    costs = np.abs(scores)
    found = positive_probabilities(costs, y)
    assert_array_equal(found, positive_probabilities(costs.astype(np.float64), y))
    assert found.dtype == np.float64


def test_perfect_and_useless_scores():
    y = np.arange(10) < 3
    perfect = detection_measures(y, -np.arange(10.0))
    assert perfect[2] == perfect.average_precision == perfect.recall == 1.0
    useless = detection_measures(y, np.zeros(10))
    assert (useless.roc_auc, useless.recall, useless.threshold) == (0.5, 0.0, np.inf)


def test_prequential_probabilities_are_those_of_the_labels():
    X, y = CANCER[0][:60], CANCER[1][:60]
    switcher = MDLReadoutSwitcher("linear", shuffle=True, random_state=0).fit(X, y)
    seen = y[switcher.order_]
    found = positive_probabilities(switcher.codelengths_, seen)
    proba = np.where(seen == 1, found, 1 - found)
    assert_allclose(-np.log(proba), switcher.codelengths_)
    # The first ones were made one by one.
    once = MDLReadoutSwitcher("linear", random_state=0)
    once.partial_fit(X[switcher.order_][:20], seen[:20], classes=[0, 1])
    wanted = once.predict_proba(X[switcher.order_][20:21])[0, 1]
    assert_allclose(found[20], wanted, rtol=1e-6)


@for_each(
    "call, words",
    [
        (lambda: detection_measures([1, 0], [1.0, 0.0]), "at least 2 examples of each"),
        (
            lambda: detection_measures([1, 0], [1.0]),
            r"is_positive and scores must be finite and have the same shape \(N,\), "
            r"got shapes \(2,\) and \(1,\) with 0 NaN or infinite scores; "
            r"pass one finite score for each row$",
        ),
        (
            lambda: detection_measures([1, 0], [1.0, np.nan]),
            r"must be finite .* \(2,\) and \(2,\) with 1 NaN or infinite scores; ",
        ),
        (
            lambda: detection_measures([1, 0] * 2, np.ones(4), level=2),
            r"level must lie in \(0, 1\), got 2; pass level=0.9$",
        ),
        (lambda: detection_measures([1, 0] * 2, np.ones(4), level=1), "level must lie"),
        (lambda: detection_measures([1, 0] * 2, np.ones(4), level=0), "level must lie"),
        (
            lambda: detection_measures([1, 0] * 2, np.ones(4), max_fpr=0),
            r"pass max_fpr=0.01$",
        ),
        (
            lambda: detection_measures([1, 0] * 2, np.ones(4), n_resamples=0),
            "`n_resamples` must be an integer of at least 1",
        ),
        (lambda: positive_probabilities([0.1], [1, 0]), "must have the same shape"),
        (lambda: positive_probabilities([0.1] * 3, [0, 1, 2]), "have two classes"),
        (
            lambda: positive_probabilities([0.1] * 2, [0, 2], 1),
            "one of them pos_label=1",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.quick("64-cancer-standard", "150-wine-centered-unit")
@pytest.mark.parametrize("scaling", ["standard", "centered-unit"])
@pytest.mark.parametrize("data", [CANCER, WINE], ids=["cancer", "wine"])
@pytest.mark.parametrize("n_rows", [64, 150])
def test_a_pipeline_predicts_what_its_readout_does(scaling, data, n_rows):
    order = np.random.default_rng(0).permutation(len(data[1]))
    X, y = data[0][order], data[1][order]
    readouts = [KernelReadout("linear", alpha, scaling=scaling) for alpha in (0.3, 3.0)]
    switcher = MDLReadoutSwitcher(readouts).fit(X[:n_rows], y[:n_rows])
    exported = export_probe(switcher, X[:n_rows], y[:n_rows])
    best = int(np.argmin(switcher.readout_codelengths_))
    assert exported.name == switcher.readout_names_[best]
    alone = readouts[best].fit(X[:n_rows], y[:n_rows])
    found, wanted = exported.pipeline().predict_proba(X), alone.predict_proba(X)
    # But for what the readout's calibration reads from variances.
    assert np.abs(found - wanted).mean() < 0.02
    assert (exported.pipeline().predict(X) == alone.predict(X)).mean() > 0.97
    scores, prior = alone.uncalibrated_scores(X)
    margins = np.log(found[:, 1:] / found[:, :1]) - (prior[1:] - prior[0])
    differences = scores[:, 1:] - scores[:, :1]
    slope = (margins * differences).sum() / np.square(differences).sum()
    assert_allclose(margins, slope * differences, atol=1e-4)


def stream(n=90, n_classes=3):
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, 5)) + 5 + 3 * np.eye(5)[y], y


def exported(switcher, X, y):
    """Export a probe: the same as the only readout predicts, but for slopes."""
    found = export_probe(switcher, X, y).pipeline()
    assert_array_equal(found.classes_, np.sort(switcher.classes_))
    assert (found.predict(X) == switcher.predict(X)).mean() > 0.98
    return found.predict_proba(X)


def test_a_probe_names_classes_that_appeared_in_another_order():
    X, y = stream()
    y = np.array(["b", "c", "a"])[y]
    settings = {"new_classes": "escape", "pooling": None}
    switcher = MDLReadoutSwitcher([KernelReadout("linear")], **settings)
    exported(switcher.partial_fit(X, y), X, y)


def test_a_probe_is_of_all_rows_where_a_fit_was_continued():
    X, y = stream()
    readouts = [KernelReadout("linear", scaling="centered-unit")]
    switcher = MDLReadoutSwitcher(readouts, shuffle=True, random_state=0)
    switcher.fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    order = np.concatenate([switcher.order_, np.arange(50, 90)])
    whole = MDLReadoutSwitcher(readouts).partial_fit(
        X[order], y[order], classes=range(3)
    )
    wanted = export_probe(whole, X[order], y[order]).pipeline().predict_proba(X)
    assert_allclose(exported(switcher, X, y), wanted, rtol=1e-9)


def test_a_probe_takes_the_statistics_that_landmarks_keep():
    X, y = stream(150)
    X[64:] += 20
    readout = KernelReadout("linear", scaling="centered-unit", max_exact=64)
    alone = readout.fit(X, y)
    found = export_probe(MDLReadoutSwitcher([readout]).fit(X, y), X, y)
    scores, prior = alone.uncalibrated_scores(X)
    logits = np.log(found.pipeline().predict_proba(X)) - prior
    logits, scores = (a - a.mean(1, keepdims=True) for a in (logits, scores))
    slope = (logits * scores).sum() / np.square(scores).sum()
    assert_allclose(logits, slope * scores, atol=1e-6)


@pytest.mark.parametrize("scaling", ["standard", "centered-unit"])
def test_probes_do_not_depend_on_the_container_of_other_transformers(scaling):
    X, y = stream()
    readout = KernelReadout("linear", scaling=scaling)
    switcher = MDLReadoutSwitcher([readout]).fit(X, y)
    expected = export_probe(switcher, X, y).pipeline().predict_proba(X)
    with sklearn.config_context(transform_output="pandas"):
        found = export_probe(switcher, X, y).pipeline().predict_proba(X)
    assert_array_equal(found, expected)


@pytest.mark.slow
def test_a_probe_of_a_view_is_saved_and_runs_without_this_package(tmp_path):
    X, y = CANCER[0][:150], np.where(CANCER[1][:150] == 1, "good", "bad")
    views = {"a": slice(0, 10), "b": slice(10, 30)}
    readouts = view_readouts(views, "linear")
    switcher = MDLReadoutSwitcher(readouts, shuffle=True, random_state=0).fit(X, y)
    exported = export_probe(switcher, X, y, threshold=0.8)
    assert exported.columns.tolist() in (list(range(10)), list(range(10, 30)))
    path = exported.save(tmp_path / "probe.safetensors")
    again = ExportedProbe.load(path).pipeline()
    wanted = np.where(again.predict_proba(X)[:, 1] >= 0.8, "good", "bad")
    assert_array_equal(exported.pipeline().predict(X), wanted)
    assert_array_equal(again.predict(X), wanted)
    (tmp_path / "probe.pickle").write_bytes(pickle.dumps(exported.pipeline()))
    np.save(tmp_path / "X.npy", X)
    code = (
        "import pickle, sys, numpy as np\n"
        "probe = pickle.load(open('probe.pickle', 'rb'))\n"
        "print(*probe.predict(np.load('X.npy')))\n"
        "assert not {'sklearn_mdl', 'torch'} & set(sys.modules)"
    )
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == wanted.tolist(), done.stderr


def test_probes_that_cannot_be_exported_are_refused(tmp_path):
    X, y = WINE
    linear = MDLReadoutSwitcher("linear", shuffle=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X and y must be the 178 rows"):
        export_probe(linear, X[1:], y[1:])
    with pytest.raises(ValueError, match=r"learned, .* but row \d+ differs"):
        export_probe(linear, X[::-1], y[::-1])
    other = np.where(np.arange(len(y)) == 7, (y + 1) % 3, y)
    with pytest.raises(ValueError, match="but row 7 differs"):
        export_probe(linear, X, other)
    forgetful = MDLReadoutSwitcher([KernelReadout("linear", window=64)]).fit(*stream())
    with pytest.raises(ValueError, match="keeps all rows"):
        export_probe(forgetful, *stream())
    with pytest.raises(ValueError, match="threshold must be None for 3 classes"):
        export_probe(linear, X, y, threshold=0.5)
    curved = MDLReadoutSwitcher([KernelReadout()], shuffle=True).fit(X, y)
    cure = (
        r'fit MDLReadoutSwitcher\("linear"\) \(or view_readouts\(columns, "linear"\)\)$'
    )
    with pytest.raises(ValueError, match=cure):
        export_probe(curved, X, y)
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "datetime64[D]")[y]
    dated = MDLReadoutSwitcher("linear", shuffle=True, random_state=0).fit(X, days)
    probe = export_probe(dated, X, days)
    with pytest.raises(ValueError, match=r"classes must be numbers or text, got"):
        probe.save(tmp_path / "dated.safetensors")
    path = tmp_path / "other.safetensors"
    path.write_bytes(b"other")
    with pytest.raises(ValueError, match=r"other\.safetensors"):
        ExportedProbe.load(path)
    path.unlink()
    write_archive(path, "probe", {"weights": np.zeros((2, 3))}, {"probe": "linear"})
    with pytest.raises(ValueError, match="must hold an exported probe"):
        ExportedProbe.load(path)
    real = MDLReadoutSwitcherRegressor([KernelReadoutRegressor()]).fit(X, y + 0.5)
    with pytest.raises(
        ValueError, match="switcher must be a fitted MDLReadoutSwitcher, got"
    ):
        export_probe(real, X, y)
