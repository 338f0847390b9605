"""A ranking that is run: each cell once, whole or not there, never one for another."""

import csv
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from each_case import for_each
from hypothesis import HealthCheck, given, settings, strategies as st
from joblib import Parallel, parallel_config, register_parallel_backend
from joblib._parallel_backends import ThreadingBackend
from memory_limit import two_gigabytes
from numpy.testing import assert_allclose, assert_array_equal
from ranking_cases import Deadly, Hungry
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import FunctionTransformer

from sklearn_mdl import (
    IncrementalReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RefitReadout,
    RepresentationScorer,
)
from sklearn_mdl._core import side_by_side
from sklearn_mdl._core.side_by_side import CLAIMED, Devices
from sklearn_mdl._core.tables import duration_text
from sklearn_mdl.model_selection import (
    _cells as cells,
    _forecast as forecast,
    _running as running,
    _store as records,
    _tasks as tasks,
)
from sklearn_mdl.model_selection._cells import kept_steps, score_cell
from sklearn_mdl.model_selection._encoding import Failure
from sklearn_mdl.model_selection._store import CellStore, cell_of, text_of
from sklearn_mdl.model_selection._tasks import Task, digest_of, draw_order
from sklearn_mdl.switcher import load_losses


def small(**options):
    readouts = [LinearReadout(lr=0.01), MLPReadout((4,), lr=0.01)]
    return RepresentationScorer(MDLReadoutSwitcher(readouts), **options)


def study(n_datasets=2, encoders=("a", "b")):
    found = {}
    for d in range(n_datasets):
        X, y = make_blobs(40, 3, centers=2 + d % 2, random_state=d)
        features = {name: X[:, : 3 - e % 3] for e, name in enumerate(encoders)}
        found[f"data {d}"] = features, y
    return found


def cells_in(folder):
    """Bytes of all files of a ranking, but for what differs by the clock."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        content = path.read_bytes()
        if path.suffix == ".csv":
            head, *rows = csv.reader(content.decode().splitlines())
            kept = [i for i, name in enumerate(head) if name != "seconds"]
            content = repr([[row[i] for i in kept] for row in [head, *rows]]).encode()
        elif path.suffix == ".json":
            record = json.loads(content)
            record.pop("sha256", None)
            for cell in [record.get("cell", {}), *record.get("cells", [])]:
                cell.pop("seconds", None)
            content = json.dumps(record).encode()
        elif path.suffix == ".html":  # mean seconds, among other numbers
            content = re.sub(rb'data-value="[^"]*"[^<]*<', b"", content)
        found[str(path.relative_to(folder))] = content
    return found


def count_cells(monkeypatch):
    """List cells as they are scored."""
    scored, whole = [], score_cell

    def count(task, device=None):
        scored.append((task.dataset, task.encoder, task.order))
        return whole(task, device)

    monkeypatch.setattr(running, "score_cell", count)
    return scored


# Cells on disk


def test_a_ranking_from_the_disk_is_the_one_that_was_scored(tmp_path):
    plain = small(n_orders=2).fit(study())
    for _ in range(2):
        kept = small(n_orders=2, results=tmp_path).fit(study())
        assert_array_equal(kept.order_codelengths_, plain.order_codelengths_)
        for one, other in zip(kept.cells_, plain.cells_, strict=True):
            for name, value in other.kept().items():
                assert name == "seconds" or getattr(one, name) == value
            for name in ("codelengths", "steps", "posterior"):
                assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_cell_is_a_json_and_its_trace(tmp_path):
    scorer = small(n_orders=2, results=tmp_path).fit(study())
    files = sorted(path.name for path in (tmp_path / "cells").iterdir())
    assert len(files) == 2 * 2 * 2 * 2
    assert {name.rpartition(".")[2] for name in files} == {"json", "safetensors"}
    assert files[0].startswith("data 0-a-0-")
    records = [json.loads(p.read_text()) for p in (tmp_path / "cells").glob("*.json")]
    by_name = {
        (r["cell"]["dataset"], r["cell"]["encoder"], r["cell"]["order"]): r
        for r in records
    }
    for cell in scorer.cells_:
        record = by_name[cell.dataset, cell.encoder, cell.order]
        assert record["cell"]["codelength"] == cell.codelength
        assert record["cell"]["readouts"] == cell.readouts
        assert record["cell"]["seed"] == 0
        assert record["cell"]["seconds"] > 0
        assert set(record["cell"]["data"]) == {"features", "labels"}
        environment = record["cell"]["environment"]
        assert environment["device"] == "cpu"
        assert environment["dtype"] == "torch.float32"
        assert "torch" in environment["versions"]
        readouts = record["identity"]["settings"]["readouts"]
        assert [readout["class"] for readout in readouts] == [
            *("LinearReadout", "MLPReadout")
        ]


def test_a_restart_scores_what_is_missing_and_nothing_else(tmp_path, monkeypatch):
    whole = small(n_orders=2, results=tmp_path).fit(study())
    before = cells_in(tmp_path)
    lost = sorted((tmp_path / "cells").glob("data 1-b-*.json"))[1]
    lost.unlink()
    scored = count_cells(monkeypatch)
    again = small(n_orders=2, results=str(tmp_path)).fit(study())
    assert scored == [("data 1", "b", 1)]
    assert_array_equal(again.order_codelengths_, whole.order_codelengths_)
    assert cells_in(tmp_path) == before
    scored.clear()
    small(n_orders=2, results=tmp_path).fit(study())
    assert scored == []
    small(n_orders=3, results=tmp_path).fit(study())
    assert [order for _, _, order in scored] == [2] * 4


def changed(study, name="data 0", at=7):
    features, y = study[name]
    X = features["a"].copy()
    X[at, 0] += 1e-3
    return {**study, name: ({**features, "a": X}, y)}


def relabelled(study, name="data 0"):
    features, y = study[name]
    y = y.copy()
    y[[0, 1]] = 1 - y[[0, 1]]
    return {**study, name: (features, y)}


OTHERS = {
    "seed": ({"random_state": 1}, lambda data: data, 4),
    "readouts": ({"switcher__readouts": [LinearReadout()]}, lambda data: data, 4),
    "prior": ({"switcher__switching": "bayes"}, lambda data: data, 4),
    "batch": ({"switcher__batch_size": 16}, lambda data: data, 4),
    "device": ({"switcher__device": "cpu"}, lambda data: data, 4),
    "weights": ({"switcher__readout_weights": [1, 2]}, lambda data: data, 4),
    "feature": ({}, changed, 1),
    "label": ({}, relabelled, 2),
    "name": ({}, lambda data: {"new" + name: data[name] for name in data}, 4),
}


@pytest.fixture(scope="module")
def study_cells(tmp_path_factory):
    """Results of a study that has been scored."""
    folder = tmp_path_factory.mktemp("cells")
    small(results=folder).fit(study())
    return folder


@pytest.mark.parametrize("case", OTHERS)
def test_no_cell_serves_other_settings_or_data(
    study_cells, tmp_path, monkeypatch, case
):
    options, change, n_scored = OTHERS[case]
    shutil.copytree(study_cells, tmp_path, dirs_exist_ok=True)
    scored = count_cells(monkeypatch)
    scorer = small().set_params(**options)
    found = clone(scorer).set_params(results=tmp_path).fit(change(study()))
    assert len(scored) == n_scored
    expected = scorer.fit(change(study()))
    assert_array_equal(found.codelengths_, expected.codelengths_)


def test_no_cell_serves_other_versions(tmp_path, monkeypatch):
    small(results=tmp_path).fit(study())
    scored = count_cells(monkeypatch)
    monkeypatch.setattr(tasks, "version_of", lambda name: "0.0")
    small(results=tmp_path).fit(study())
    assert len(scored) == 4


@pytest.mark.slow
@for_each(
    "options",
    [
        {"alpha": 0.05},
        {"n_jobs": 1},
        {"verbose": 1},
        {"dataset_groups": {"one": ["data 1"]}},
        {"switcher__n_jobs": 2},
        {"switcher__random_state": 5},
    ],
)
def test_what_changes_no_number_scores_nothing(tmp_path, monkeypatch, options):
    small(results=tmp_path).fit(study())
    scored = count_cells(monkeypatch)
    small(results=tmp_path).set_params(**options).fit(study())
    assert scored == []


def test_names_and_kinds_of_labels_are_no_part_of_a_cell(tmp_path, monkeypatch):
    small(results=tmp_path).fit(study())
    scored = count_cells(monkeypatch)
    words = {
        name: (features, np.array(["cat", "dog", "emu"])[y])
        for name, (features, y) in study().items()
    }
    small(results=tmp_path).fit(words)
    assert scored == []


def test_settings_that_cannot_be_written_down_are_refused_before_a_run(tmp_path):
    rng = np.random.RandomState(0)
    switcher = MDLReadoutSwitcher([LinearReadout(random_state=rng)])
    scorer = RepresentationScorer(switcher, results=tmp_path)
    with pytest.raises(TypeError, match=r"switcher\.readouts\[0\]\.random_state must"):
        scorer.fit(study())
    assert list(tmp_path.iterdir()) == []
    clone(scorer).set_params(results=None).fit(study(1))


def test_wrapped_classifiers_keep_their_cells(tmp_path, monkeypatch):
    readouts = [IncrementalReadout(GaussianNB(var_smoothing=0.1)), LinearReadout()]
    scorer = RepresentationScorer(MDLReadoutSwitcher(readouts), results=tmp_path)
    scorer.fit(study(1))
    scored = count_cells(monkeypatch)
    again = clone(scorer).fit(study(1))
    assert scored == []
    assert_array_equal(again.codelengths_, scorer.codelengths_)
    readouts[0].estimator.set_params(var_smoothing=0.2)
    RepresentationScorer(MDLReadoutSwitcher(readouts), results=tmp_path).fit(study(1))
    assert len(scored) == 2


def test_traces_of_the_switcher_go_to_folders_of_their_own(tmp_path):
    scorer = small().set_params(switcher__store=tmp_path / "store")
    scorer.fit(study())
    folders = sorted((tmp_path / "store").iterdir())
    assert len(folders) == 4
    for folder, cell in zip(folders, scorer.cells_, strict=True):
        (path,) = folder.glob("*/losses.npy")
        stored = load_losses(path)
        assert_allclose(stored.readout_codelengths, list(cell.readouts.values()))


def test_checkpoints_of_the_switcher_go_to_folders_of_their_own(tmp_path):
    plain = small().fit(study())
    scorer = small().set_params(switcher__checkpoint=tmp_path)
    assert_array_equal(scorer.fit(study()).codelengths_, plain.codelengths_)
    assert len(list(tmp_path.glob("*/*/progress.safetensors"))) == 4


def test_a_score_may_keep_its_cells(tmp_path, monkeypatch):
    (X, y) = make_blobs(40, 3, centers=2, random_state=0)
    pca = PCA(2).fit(X)
    score = small(n_orders=2, results=tmp_path)(pca, X, y)
    scored = count_cells(monkeypatch)
    assert small(n_orders=2, results=tmp_path)(pca, X, y) == score
    assert scored == []
    assert small(results=tmp_path)(PCA(1).fit(X), X, y) != score
    assert len(scored) == 1


@pytest.mark.slow
def test_long_posteriors_keep_some_rows_and_their_whole_mean():
    assert_array_equal(kept_steps(2000), np.arange(2000))
    steps = kept_steps(50_000)
    assert len(steps) <= 2000
    assert steps[0] == 0
    assert steps[-1] == 49_999
    assert (np.diff(steps) > 0).all()
    assert_array_equal(steps[:5], np.arange(5))
    X, y = make_blobs(2100, 1, centers=2, random_state=0)
    cell = small().fit({"long": ({"a": X}, y)}).cells_[0]
    assert len(cell.codelengths) == 2100
    assert cell.posterior.shape == (len(cell.steps), 2)
    switcher = small().switcher.set_params(random_state=0)
    rows = draw_order(0, 0, 2100)
    whole = switcher.fit(X[rows], y[rows]).posterior_
    assert_array_equal(cell.posterior, whole[cell.steps])
    assert_allclose(list(cell.mean_posterior.values()), whole.mean(0))


def test_an_infinite_codelength_is_no_cell(written, monkeypatch):
    class Endless:
        codelength_ = np.inf

        def fit(self, X, y):
            return self

    monkeypatch.setattr(cells, "_switcher_of", lambda task, device: Endless())
    cure = "add DummyReadout() (DummyReadoutRegressor() for reals) to the readouts"
    text = re.escape(f"A codelength must be finite, got inf; {cure}")
    with pytest.raises(ValueError, match=f"^{text}$"):
        score_cell(written[1])


# Damage


def one_cell(folder):
    (path,) = (folder / "cells").glob("*.json")
    return path


def single():
    return {"one": ({"a": make_blobs(40, 2, centers=2, random_state=0)[0]}, PAIR)}


PAIR = np.tile([0, 1], 20)


@for_each(
    "damage",
    [
        lambda text: text[:50],
        lambda text: text[:-4],
        lambda text: b"",
        lambda text: b"null",
        lambda text: b"\xff\xfe" + text,
        lambda text: b"[" * 100_000,
        lambda text: text.replace(b'"n_classes": 2', b'"n_classes": 3'),
        lambda text: b"9" * 10_000,
    ],
)
def test_a_damaged_cell_is_reported_and_scored_again(tmp_path, monkeypatch, damage):
    small(results=tmp_path).fit(single())
    path = one_cell(tmp_path)
    before = cells_in(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    scored = count_cells(monkeypatch)
    text = f"Running cell {path} again, since it is damaged: "
    with pytest.warns(UserWarning, match=f"^{re.escape(text)}"):
        small(results=tmp_path).fit(single())
    assert len(scored) == 1
    assert cells_in(tmp_path) == before


@for_each(
    "change, message",
    [
        (lambda whole: whole["identity"].update(seed=7), "it describes another cell"),
        (lambda whole: whole["cell"].pop("seed"), "its entries differ from those of a"),
        (
            lambda whole: whole["cell"].update(n_samples=3),
            "its trace has 40 ",
        ),
        (lambda whole: whole["cell"].update(seconds="1 s"), "its seconds is '1 s'"),
        (lambda whole: whole["cell"]["readouts"].update(a=[]), r"'a' has \[\] nats"),
    ],
)
def test_a_cell_that_was_changed_and_sealed_again_is_reported(
    tmp_path, change, message
):
    small(results=tmp_path).fit(single())
    path, before = one_cell(tmp_path), cells_in(tmp_path)
    path.write_bytes(resealed(path.read_bytes(), change))
    with pytest.warns(UserWarning, match=f"since it is damaged: .*{message}"):
        small(results=tmp_path).fit(single())
    assert cells_in(tmp_path) == before


def test_a_file_much_longer_than_a_cell_is_not_parsed(written, monkeypatch):
    store, task, cell, text = written
    monkeypatch.setattr(records, "MOST_BYTES", len(text) - 1)
    with pytest.raises(ValueError, match=f"longer than {len(text) - 1} bytes"):
        cell_of(text, store.entry(task)[0], cell.source)


@for_each("damage", ["cut", "gone", "another"])
def test_a_cell_without_its_trace_is_reported_and_scored_again(tmp_path, damage):
    small(results=tmp_path, n_orders=2).fit(single())
    before = cells_in(tmp_path)
    first, second = sorted((tmp_path / "cells").glob("*.safetensors"))
    if damage == "gone":
        first.unlink()
    else:
        content = first.read_bytes()[:-8] if damage == "cut" else second.read_bytes()
        first.write_bytes(content)
    reason = "is missing" if damage == "gone" else "must hold "
    path = first.with_suffix(".json")
    text = f"Running cell {path} again, since it is damaged: {first} "
    with pytest.warns(UserWarning, match=re.escape(text + reason)):
        small(results=tmp_path, n_orders=2).fit(single())
    assert cells_in(tmp_path) == before


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A store, a task, its cell and its text."""
    folder = tmp_path_factory.mktemp("cell")
    (features, y) = single()["one"]
    data = tasks.fingerprints(features["a"], y)
    switcher = small().switcher
    task = Task("one", "a", 0, 0, switcher, features["a"], y, data)
    store = CellStore(folder, switcher)
    cell = store.save(task, score_cell(task))
    return store, task, cell, store.entry(task)[1].read_bytes()


def resealed(text, change):
    """Change the content of a cell, and make the checksum right again."""
    content = json.loads(text)
    del content["sha256"]
    change(content)
    try:
        checksum = digest_of(content)
    except ValueError:
        checksum = ""
    return json.dumps({"sha256": checksum, **content}).encode()


PLACES = st.sampled_from(
    [
        *("dataset", "order", "seed", "n_samples", "codelength", "readouts"),
        *("diverged", "notes", "mean_posterior", "data", "environment", "seconds"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSONS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def damaged_texts(draw):
    """Return a function from a whole text to a damaged one."""
    kind = draw(st.sampled_from(["bytes", "flip", "cut", "splice", "reseal", "json"]))
    at, noise = draw(st.floats(0, 1, exclude_max=True)), draw(st.binary(max_size=8))
    place, value = draw(PLACES), draw(JSONS)
    bit = draw(st.integers(0, 7))

    def damage(text):
        i = int(at * len(text))
        match kind:
            case "bytes":
                return noise
            case "flip":
                return text[:i] + bytes([text[i] ^ (1 << bit)]) + text[i + 1 :]
            case "cut":
                return text[:i]
            case "splice":
                return text[:i] + noise + text[i + len(noise) :]
            case "json":
                return json.dumps(value).encode()
        return resealed(text, lambda content: content["cell"].update({place: value}))

    return damage


def refused_or_equal(written, damage):
    _, task, cell, text = written
    store = written[0]
    spoiled = damage(text)
    same = store.entry(task)[0]
    try:
        found = cell_of(spoiled, same, cell.source)
    except ValueError:  # anything else would be a crash
        return
    if spoiled == text:
        assert found.kept() == cell.kept()
        return
    # What is whole and of the right kinds is a cell, whatever its numbers are, and it
    # can be written down again.
    assert cell_of(text_of(found, same), same, cell.source).kept() == found.kept()


@pytest.mark.slow
@given(damage=damaged_texts())
@settings(max_examples=100, deadline=None)
def test_no_damage_to_the_text_of_a_cell_does_more_than_have_it_refused(
    written, damage
):
    with two_gigabytes():
        refused_or_equal(written, damage)


@pytest.mark.slow
def test_a_hundred_thousand_damaged_cells_are_refused(written):
    @given(damage=damaged_texts())
    @settings(
        max_examples=100_000,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    def run(damage):
        refused_or_equal(written, damage)

    with two_gigabytes():
        run()


# Failures


class Touchy(TransformerMixin, BaseEstimator):
    """Counts its calls, and fails on data that begin with a zero."""

    _fits = 0

    def fit(self, X, y=None):
        type(self)._fits += 1
        self.fitted_ = True
        return self

    def transform(self, X):
        if X[0, 0] == 0:
            raise RuntimeError("an image\n  could not be read")
        return X * 2


def raw_study(n_datasets=3):
    return {name: (X["a"], y) for name, (X, y) in study(n_datasets).items()}


def with_a_zero(data, name):
    X, y = data[name]
    return {**data, name: (np.where(np.arange(len(X))[:, None] == 0, 0.0, X), y)}


def failing(monkeypatch, bad):
    """Let one cell fail."""
    whole = score_cell

    def fail(task, device=None):
        if (task.dataset, task.encoder, task.order) == bad:
            raise MemoryError("no room")
        return whole(task, device)

    monkeypatch.setattr(running, "score_cell", fail)


def test_a_failed_cell_is_reported_and_the_rest_is_kept(tmp_path, monkeypatch):
    failing(monkeypatch, ("data 0", "b", 1))
    message = r"1 failed: 'b' on 'data 0', order 1 \(MemoryError: no room\); fix these"
    scorer = small(n_orders=2, results=tmp_path)
    with pytest.raises(ValueError, match=message):
        scorer.fit(study())
    assert not hasattr(scorer, "cells_")
    assert len(list((tmp_path / "cells").glob("*.json"))) == 7
    monkeypatch.undo()
    scored = count_cells(monkeypatch)
    scorer.fit(study())
    assert scored == [("data 0", "b", 1)]
    assert scorer.failures_ == []


def test_a_failed_cell_drops_its_dataset_if_asked_to(monkeypatch):
    failing(monkeypatch, ("data 0", "b", 1))
    scorer = small(
        n_orders=2, missing="drop", dataset_groups={"g": ["data 0", "data 1"]}
    )
    with pytest.warns(UserWarning, match=r"Dropped datasets \['data 0'\].*no room"):
        scorer.fit(study(3))
    assert scorer.dataset_names_ == ["data 1", "data 2"]
    assert scorer.dataset_groups_["g"].dataset_names_ == ["data 1"]
    (failure,) = scorer.failures_
    assert (failure.dataset, failure.encoder, failure.order) == ("data 0", "b", 1)
    assert "Traceback" in failure.details
    alone = small(n_orders=2).fit({k: study(3)[k] for k in ("data 1", "data 2")})
    assert_array_equal(scorer.order_codelengths_, alone.order_codelengths_)


def test_a_long_message_of_a_failure_is_cut_in_the_line_and_whole_in_the_details():
    try:
        raise ValueError("x" * 1000)
    except ValueError as error:
        failure = Failure.of(error, "data", "encoder")
    assert failure.error.endswith("xxx ...")
    assert len(str(failure)) < 400
    assert "x" * 1000 in failure.details


def test_failures_show_the_notes_of_an_error():
    error = ValueError("wrong\nshape")
    error.add_note("Images must be square")
    failure = Failure.of(error, "data", "encoder")
    assert failure.error == "ValueError: wrong shape; Images must be square"
    with pytest.raises(SyntaxError) as caught:
        compile("x = = 1", "encoder.py", "exec")
    failure = Failure.of(caught.value, "data", "encoder")
    assert failure.error == "SyntaxError: invalid syntax"


def test_nothing_left_is_no_ranking(monkeypatch):
    failing(monkeypatch, ("data 0", "b", 0))
    with (
        pytest.warns(UserWarning, match="Dropped"),
        pytest.raises(ValueError, match=r"got none, .*no room"),
    ):
        small(missing="drop").fit(study(1))


def test_an_encoder_that_fails_on_a_dataset_does_not_stop_the_others(tmp_path):
    data = with_a_zero(raw_study(), "data 1")
    encoders = {"raw": None, "touchy": Touchy()}
    scorer = small(results=tmp_path)
    message = r"'touchy' on 'data 1' \(RuntimeError: an image could not be read\)"
    with pytest.raises(ValueError, match=message) as caught:
        scorer.fit(data, encoders)
    assert "\n" not in str(caught.value)
    assert len(list((tmp_path / "cells").glob("*.json"))) == 5
    with pytest.warns(UserWarning, match="Dropped"):
        scorer.set_params(missing="drop").fit(data, encoders)
    assert scorer.dataset_names_ == ["data 0", "data 2"]
    assert scorer.failures_[0].order is None


def test_a_failed_score_says_why(monkeypatch):
    failing(monkeypatch, ("", "PCA", 0))
    X, y = raw_study()["data 0"]
    words = r"^The score is a mean over all orders, but 'PCA', order 0 \(.*no room"
    with pytest.raises(ValueError, match=words):
        small()(PCA(1).fit(X), X, y)


def test_many_failures_are_named_by_the_first_few():
    data = raw_study(8)
    for name in list(data):
        data = with_a_zero(data, name)
    with pytest.raises(ValueError, match=r"8 failed.*'data 4'.*; and 3 more; fix"):
        small().fit(data, {"touchy": Touchy()})


class TerminatedWorkerError(Exception):
    """Has the name of joblib's."""


class Pool:
    """Stands for two processes: while some tasks run, one dies, and the other stops."""

    def __init__(self, dies):
        self.dies = dies  # called with the tasks that run

    def __call__(self, **options):
        return self.run

    def run(self, calls):
        calls = iter(calls)
        while pair := list(itertools.islice(calls, 2)):
            if self.dies([args[2] for _, args, _ in pair]):
                raise TerminatedWorkerError
            for function, args, options in pair:
                yield function(*args, **options)


def test_cells_of_a_process_that_died_are_scored_again(monkeypatch):
    expected = small().fit(study())
    tries = iter([True] + 9 * [False])
    monkeypatch.setattr(running, "Parallel", Pool(lambda tasks: next(tries)))
    scored = count_cells(monkeypatch)
    found = small().fit(study())
    assert_array_equal(found.codelengths_, expected.codelengths_)
    assert len(scored) == len(set(scored)) == 4


@for_each("budget", [None, 99.0])
def test_only_the_cell_whose_process_always_dies_has_failed(monkeypatch, budget):
    ran = []

    def dies(tasks):
        names = [(task.dataset, task.encoder) for task in tasks]
        ran.extend(names)
        return ("data 1", "b") in names

    expected = small().fit(study(5))
    monkeypatch.setattr(running, "Parallel", Pool(dies))
    scored = count_cells(monkeypatch)
    scorer = small(missing="drop", time_budget=budget)
    with pytest.warns(UserWarning, match=r"1 failed: 'b' on 'data 1'.*process died"):
        found = scorer.fit(study(5))
    rest = found.dataset_names_
    assert rest == [name for name in expected.dataset_names_ if name != "data 1"]
    kept = [expected.dataset_names_.index(name) for name in rest]
    assert_array_equal(found.codelengths_, expected.codelengths_[kept])
    assert len(scored) == len(set(scored)) == 9
    assert ran.count(("data 1", "b")) == 3
    assert max(map(ran.count, ran)) == 3  # in company twice, and alone
    with pytest.raises(ValueError, match=r"1 failed: 'b' on 'data 1'.*process died"):
        small().fit(study())


def test_cells_that_started_in_time_are_scored_again_after_it(monkeypatch):
    clock = iter([0.0] * 5)  # then the budget is spent
    times = SimpleNamespace(monotonic=lambda: next(clock, 99.0))
    monkeypatch.setattr(running, "time", times)
    tries = iter([True] + 9 * [False])
    monkeypatch.setattr(running, "Parallel", Pool(lambda tasks: next(tries)))
    X, y = raw_study(1)["data 0"]
    cells = [Task("d", "e", i, 0, small().switcher, X, y, {}, {}) for i in range(9)]
    found = dict(
        running.run_side_by_side(
            lambda task, device: task.order, dict(enumerate(cells)), n_jobs=1, end=1.0
        )
    )
    assert sorted(found) == sorted(found.values())
    assert 2 <= len(found) < 9


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path):
    X, y = make_blobs(40, 3, centers=2, random_state=0)
    marker = tmp_path / "killed"
    readouts = [IncrementalReadout(Deadly(str(marker))), LinearReadout()]
    scorer = RepresentationScorer(MDLReadoutSwitcher(readouts), n_orders=4, n_jobs=2)
    found = scorer.fit({"d": ({"a": X}, y)})
    assert marker.exists()
    expected = clone(scorer).set_params(n_jobs=1).fit({"d": ({"a": X}, y)})
    assert_array_equal(found.codelengths_, expected.codelengths_)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 99.0])
def test_a_cell_that_kills_each_process_is_the_only_one_missing(budget):
    X, y = make_blobs(40, 3, centers=2, random_state=0)
    data = {f"d{i}": ({"a": X, "b": X[:, :2]}, y) for i in range(7)}
    data["d0"] = {"a": X, "b": X[:, :1]}, y
    switcher = MDLReadoutSwitcher([RefitReadout(Hungry()), LinearReadout()])
    options = {"n_orders": 1, "n_jobs": 2, "missing": "drop", "time_budget": budget}
    with pytest.warns(UserWarning, match=r"1 failed: 'b' on 'd0'.*process died"):
        found = RepresentationScorer(switcher, **options).fit(data)
    assert [(f.dataset, f.encoder) for f in found.failures_] == [("d0", "b")]
    assert found.dataset_names_ == [f"d{i}" for i in range(1, 7)]


# Encoders


@pytest.fixture
def touchy():
    Touchy._fits = 0
    return {"raw": None, "touchy": Touchy()}


def test_features_are_computed_once_and_kept(tmp_path, touchy, monkeypatch):
    plain = small().fit(raw_study(), touchy)
    Touchy._fits = 0
    scored = count_cells(monkeypatch)
    for _ in range(2):
        kept = small(results=tmp_path).fit(raw_study(), touchy)
        assert_array_equal(kept.codelengths_, plain.codelengths_)
    assert Touchy._fits == 3
    assert len(scored) == 6
    assert len(list((tmp_path / "features").iterdir())) == 3


def test_encoders_of_other_settings_or_data_are_run(tmp_path):
    data, pca = raw_study(2), {"pca": PCA(1)}
    n_files = []
    for encoders, X in (
        (pca, data),
        ({"pca": PCA(2)}, data),
        (pca, {**data, "data 0": (data["data 0"][0] + 1e-9, data["data 0"][1])}),
        ({"pca": FunctionTransformer()}, data),
        (pca, data),
    ):
        small(results=tmp_path).fit(X, encoders)
        n_files.append(len(list((tmp_path / "features").iterdir())))
    assert n_files == [2, 4, 5, 7, 7]


def test_frozen_encoders_are_distinguished_by_what_they_have_learned(tmp_path):
    data = raw_study(1)
    X, _ = data["data 0"]
    for rows in (slice(20), slice(20, 40)):
        frozen = {"pca": FrozenEstimator(PCA(1).fit(X[rows]))}
        found = small(results=tmp_path).fit(data, frozen).codelengths_
        assert_array_equal(found, small().fit(data, frozen).codelengths_)
    assert len(list((tmp_path / "features").iterdir())) == 2


class Lengths(TransformerMixin, BaseEstimator):
    """Reads files."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.array([[float(Path(path).read_text())] for path in X])


def test_files_that_have_changed_are_read_again(tmp_path):
    paths = [tmp_path / f"{i}.txt" for i in range(40)]
    for i, path in enumerate(paths):
        path.write_text(str(i % 2))
    data, encoders = {"files": (paths, PAIR)}, {"lengths": Lengths()}
    first = small(results=tmp_path / "r").fit(data, encoders).codelengths_
    paths[0].write_text("1.0")
    again = small(results=tmp_path / "r").fit(data, encoders).codelengths_
    assert again != first
    assert again == small().fit(data, encoders).codelengths_


def test_damaged_features_are_reported_and_made_again(tmp_path):
    small(results=tmp_path).fit(raw_study(1), {"pca": PCA(1)})
    (path,) = (tmp_path / "features").iterdir()
    before = path.read_bytes()
    path.write_bytes(before[:-3])
    with pytest.warns(
        UserWarning, match="^Recomputing features, because the cached file"
    ):
        small(results=tmp_path).fit(raw_study(1), {"pca": PCA(1)})
    assert path.read_bytes() == before


def test_an_encoder_that_cannot_be_pickled_cannot_be_kept(tmp_path):
    encoders = {"odd": FunctionTransformer(lambda X: X)}
    with pytest.raises(ValueError, match=r"1 failed: 'odd' on 'data 0' .* picklable"):
        small(results=tmp_path).fit(raw_study(1), {"raw": None, **encoders})
    assert len(list((tmp_path / "cells").glob("*.json"))) == 1  # of the other one
    small().fit(raw_study(1), encoders)


def test_unlike_machines_are_reported(tmp_path, monkeypatch):
    small(results=tmp_path).fit(study(1))
    real = running.score_cell
    monkeypatch.setattr(
        "sklearn_mdl.model_selection._cells.environment",
        lambda device: {"machine": "another"},
    )
    assert running.score_cell is real
    with pytest.warns(
        UserWarning, match=r"different environments .*, so their results"
    ):
        small(results=tmp_path).fit(study(2))


# A dry run


def test_a_dry_run_scored_nothing_and_lists_all(tmp_path, monkeypatch):
    small(results=tmp_path, n_orders=2).fit(study(1))
    scored = count_cells(monkeypatch)
    found = small(results=tmp_path, n_orders=3).dry_run(study(2))
    assert scored == []
    rows = [(r.dataset, r.encoder, r.n_cells, r.n_done) for r in found.rows]
    assert rows == [
        *(("data 0", "a", 3, 2), ("data 0", "b", 3, 2)),
        *(("data 1", "a", 3, 0), ("data 1", "b", 3, 0)),
    ]
    assert found.n_missing == 8
    assert found.n_jobs == 1
    assert found.seconds == pytest.approx(
        sum((r.n_cells - r.n_done) * r.seconds for r in found.rows)
    )
    assert found.seconds > 0
    assert found.bytes == max(r.bytes for r in found.rows)
    text = str(found)
    assert len(text.splitlines()) == 6
    assert "8 cells to run, 1 in parallel: about" in text
    assert "40 x 3" in text


def test_a_dry_run_of_what_is_there_takes_nothing(tmp_path):
    scorer = small(results=tmp_path).fit(study(1))
    found = scorer.dry_run(study(1))
    assert found.seconds == 0
    assert found.bytes == 0
    assert "All cells are scored." in str(found)


def test_a_dry_run_reckons_with_jobs_rows_and_readouts():
    X, y = make_blobs(400, 3, centers=2, random_state=0)
    data = {"d": ({"a": X, "wide": np.repeat(X, 100, 1)}, y)}
    one, two = (small(n_jobs=n).dry_run(data) for n in (1, 2))
    assert two.n_jobs == 2
    assert two.bytes == sum(row.bytes for row in two.rows)
    narrow, wide = one.rows
    # Features as float32; a loss and a probability for each of two readouts; weights,
    # gradients, two moments and averages of 3 x 2 + 2 and (3 x 4 + 4) + (4 x 2 + 2).
    assert narrow.bytes == 400 * (4 * 3 + 2 * 8 * 2) + 20 * (8 + 26)
    assert wide.bytes > 400 * 4 * 300


def test_a_dry_run_spreads_time_over_no_more_cpus_than_there_are(monkeypatch):
    monkeypatch.setattr(side_by_side, "cpu_count", lambda: 3)
    data = study(3)  # of two encoders
    for n_jobs, n_at_once in ((1, 1), (2, 2), (6, 3)):
        found = small(n_jobs=n_jobs).dry_run(data)
        assert found.n_jobs == n_jobs
        total = sum(row.seconds for row in found.rows)
        assert found.seconds == pytest.approx(total / n_at_once)
        assert found.bytes == sum(sorted(row.bytes for row in found.rows)[-n_jobs:])


def test_the_estimate_goes_by_the_time_of_a_few_minibatches(monkeypatch):
    ticks = iter([0.0, 1.28])  # around four minibatches of 32 rows
    monkeypatch.setattr(forecast.time, "perf_counter", lambda: next(ticks))
    X, y = make_blobs(3000, 3, centers=2, random_state=0)
    (row,) = small().dry_run({"d": ({"a": X}, y)}).rows
    assert row.seconds == pytest.approx(30.0)


# Devices and the bar


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)


def claimed_by_processes(devices, n_processes, device="auto"):
    found = []
    for _ in range(n_processes):
        CLAIMED.clear()
        found.append(devices.claim(device))
        assert devices.claim(device) == found[-1]  # it keeps its own
    return found


def test_each_process_takes_a_gpu(four_gpus):
    with Devices() as devices:
        found = claimed_by_processes(devices, 6)
    assert found == [f"cuda:{i}" for i in (0, 1, 2, 3, 0, 1)]
    with Devices() as devices:
        assert claimed_by_processes(devices, 1, "cuda") == ["cuda:0"]


def test_a_device_that_is_named_is_kept(four_gpus):
    with Devices() as devices:
        assert claimed_by_processes(devices, 2, "cuda:3") == [None, None]
        assert claimed_by_processes(devices, 1, "cpu") == [None]


@pytest.mark.parametrize("n_devices", [0, 1])
def test_one_device_leaves_no_choice(monkeypatch, n_devices):
    monkeypatch.setattr("torch.cuda.device_count", lambda: n_devices)
    with Devices() as devices:
        assert devices.claim("auto") is None


def test_places_are_gone_after_a_run(four_gpus, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with Devices() as devices:
        claimed_by_processes(devices, 3)
        assert len(list(tmp_path.rglob("[0-9]"))) == 3
    assert list(tmp_path.iterdir()) == []


def test_the_bar_counts_what_was_there(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sklearn_mdl.model_selection._running.LATE", 0.0)
    small(results=tmp_path).fit(study(1))
    small(results=tmp_path, verbose=1).fit(study(2))
    err = capsys.readouterr().err
    assert "2/4" in err
    assert "4/4" in err


# Many machines, and processes that are killed


def test_cells_may_run_in_threads(tmp_path):
    expected = small(n_orders=2).fit(study())
    with parallel_config(backend="threading", n_jobs=2):
        found = small(n_orders=2, results=tmp_path).fit(study())
    assert_array_equal(found.order_codelengths_, expected.order_codelengths_)


class AllAtTheEnd(ThreadingBackend):
    """A backend like that of Ray, which gives nothing back before the last."""

    supports_retrieve_callback = False


def test_backends_that_give_all_back_at_the_end_get_portions(tmp_path, monkeypatch):
    register_parallel_backend("all at the end", AllAtTheEnd)
    expected = small(n_orders=5).fit(study())
    monkeypatch.setattr(running, "PORTION", 3)
    portions = []

    class Counting(Parallel):
        def __call__(self, calls):
            portions.append(len(calls))
            return super().__call__(calls)

    monkeypatch.setattr(running, "Parallel", Counting)
    with parallel_config(backend="all at the end", n_jobs=2):
        found = small(n_orders=5, results=tmp_path).fit(study())
    assert portions == [6, 6, 6, 2]
    assert_array_equal(found.order_codelengths_, expected.order_codelengths_)


DASK = """
import os, signal, sys, threading, time
from joblib import parallel_config
from dask.distributed import Client, LocalCluster
import numpy as np
from sklearn.datasets import make_blobs
from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RepresentationScorer,
)

def main():
    folder = sys.argv[1]
    X, y = make_blobs(600, 5, centers=3, random_state=0)
    data = {f"d{d}": ({"a": X, "b": X[:, :2]}, np.roll(y, d)) for d in range(3)}
    readouts = [LinearReadout(lr=0.01), MLPReadout((4,), lr=0.01)]
    options = {"switcher": MDLReadoutSwitcher(readouts), "n_orders": 6}
    killed = []

    def kill(client):
        cells = os.path.join(folder, "cells")
        while not (os.path.isdir(cells) and len(os.listdir(cells)) > 4):
            time.sleep(0.01)
        busy = client.processing()
        address = max(busy, key=lambda a: len(busy[a]))
        pid = client.run(os.getpid, workers=[address])[address]
        os.kill(pid, signal.SIGKILL)
        killed.append(len(os.listdir(cells)) // 2)

    with LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None
    ) as cluster, Client(cluster) as client:
        thread = threading.Thread(target=kill, args=(client,))
        thread.start()
        with parallel_config(backend="dask"):
            found = RepresentationScorer(results=folder, **options).fit(data)
        thread.join()
    expected = RepresentationScorer(**options).fit(data)
    np.testing.assert_array_equal(
        found.order_codelengths_, expected.order_codelengths_
    )
    print("killed after", *killed, "of", len(found.cells_))

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_gives_the_same_ranking(tmp_path):
    pytest.importorskip("distributed")
    script = tmp_path / "study.py"
    script.write_text(DASK)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "results")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert not done.returncode, done.stderr
    *_, n_before, _, n_cells = done.stdout.split()
    assert 2 <= int(n_before) < int(n_cells) == 36


KILLS = """
import os, signal, sys, time
import numpy as np
import torch
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    RepresentationScorer,
    write_results,
)

folder, n_kills = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(os.getpid())
X, y = make_blobs(64, 3, centers=2, random_state=0)
data = {f"d{d}": (X * (d + 1), y) for d in range(3)}
encoders = {"raw": None, "pca": PCA(2, random_state=0)}


def run(place):
    readouts = [LinearReadout(lr=0.01), MLPReadout((4,), lr=0.01)]
    scorer = RepresentationScorer(
        MDLReadoutSwitcher(readouts), n_orders=8, results=place
    )
    write_results(scorer.fit(data, encoders), place)


torch.set_num_threads(1)  # forks go on with the thread that forks
time.perf_counter = lambda: 0.0  # the page shows the seconds of every cell
run(folder + "/warm")


def child(place):
    pid = os.fork()
    if not pid:
        try:
            run(place)
        finally:
            os._exit(0)
    return pid


def n_files(place):
    return sum(len(files) for _, _, files in os.walk(place))


start = time.monotonic()
os.waitpid(child(folder + "/whole"), 0)
seconds = time.monotonic() - start
n_hit, n_round, counts = 0, 0, []
while n_hit < n_kills:
    place = f"{folder}/resumed-{n_round}"
    pid = child(place)
    time.sleep(rng.uniform(0, 0.6) * seconds)
    gone, _ = os.waitpid(pid, os.WNOHANG)
    if gone:  # it came to its end: begin again
        n_round += 1
        continue
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    n_hit += 1
    counts.append(n_files(place))
for i in range(n_round + 1):
    os.waitpid(child(f"{folder}/resumed-{i}"), 0)
print(n_hit, n_round + 1, len(set(counts)))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_ranking_killed_at_random_points_ends_in_the_same_bytes(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(KILLS), str(tmp_path), "40"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    n_kills, n_runs, n_places = map(int, done.stdout.split())
    assert n_kills == 40
    assert n_places > 10  # they were killed in many places
    expected = cells_in(tmp_path / "whole")
    assert len(expected) == 3 * 2 * 8 * 2 + 3 + 10  # cells, features, tables
    for i in range(n_runs):
        assert cells_in(tmp_path / f"resumed-{i}") == expected


@for_each(
    "seconds, text",
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (90, "1.5 min"), (9000, "2.5 h")],
)
def test_durations_are_given_in_a_unit_that_suits_them(seconds, text):
    assert duration_text(seconds) == text


def test_features_under_the_name_of_others_are_made_again(tmp_path):
    study, encoders = raw_study(1), {"pca": PCA(1), "none": PCA(2)}
    small(results=tmp_path).fit(study, encoders)
    before = cells_in(tmp_path)
    one, other = (tmp_path / "features").iterdir()
    one.write_bytes(other.read_bytes())
    for cell in (tmp_path / "cells").iterdir():
        cell.unlink()
    with pytest.warns(UserWarning, match=r"because .* contains different feat"):
        small(results=tmp_path).fit(study, encoders)
    assert cells_in(tmp_path) == before
