"""Laws of files: what was saved goes on as if nothing had happened, or is refused."""

import json
import os
import pickle
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
from each_case import for_each
from hypothesis import HealthCheck, given, settings, strategies as st
from memory_limit import two_gigabytes
from sklearn.base import clone
from sklearn.datasets import load_digits

from sklearn_mdl import (
    FixedShare,
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LearnedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    MultiOutputSwitcher,
)
from sklearn_mdl._core.base import saving
from sklearn_mdl._core.io import safetensors_io as archives
from sklearn_mdl._core.io.parameters import (
    BYTES_A_LETTER,
    PLAIN_BYTES,
    array_of,
    as_json,
    class_name,
    estimators_in,
    from_json,
    settings_of,
)
from sklearn_mdl._core.io.safetensors_io import read_archive, storable, write_archive
from sklearn_mdl.baselines import LinearProbe
from sklearn_mdl.encoders import CachedEncoder, TimmEncoder
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import (
    DummyReadout,
    FineTunedReadout,
    LinearReadoutRegressor,
    ScratchReadout,
    ViewReadout,
)
from sklearn_mdl.switching import Race, RunLength

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

X, Y = load_digits(return_X_y=True)
PRIORS = [
    None,
    "bayes",
    "elementwise",
    "universal-share",
    FixedShare(m=11),
    RunLength(),
]
CLASSES = {c.__name__: c for c in (LinearReadout, MLPReadout, FixedShare, LearnedShare)}


def pool(**options):
    readouts = [
        LinearReadout(lr=0.01, scaling="whiten", ema_step_size=1.0, n_replay_streams=3),
        MLPReadout((7, 5), lr=0.01, scaling="standard", ema_step_size=0.1),
        MLPReadout((7, 5), lr=0.01, scaling="standard", ema_step_size=0.03),
        MLPReadout((7, 5), lr=1e20, scaling=None, ema_step_size=1.0),  # it diverges
    ]
    options = {"batch_size": 16, "random_state": 0, "device": "cpu", **options}
    return MDLReadoutSwitcher(readouts, **options)


def assert_same(found, expected):
    for name in ("readout_losses_", "codelengths_", "posterior_", "classes_"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_array_equal(one, other, err_msg=name)
        assert one.dtype == other.dtype
    np.testing.assert_array_equal(
        found.predict_log_proba(X[-30:]), expected.predict_log_proba(X[-30:])
    )
    assert found.measures() == expected.measures()
    assert found.n_features_in_ == expected.n_features_in_


# Estimators


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("archives")


@pytest.mark.parametrize(
    ("switching", "n_rows"),
    list(zip(PRIORS, [1, 9, 16, 70, 1, 16], strict=True)),
    ids=repr,
)
def test_a_saved_stream_goes_on_to_the_same_bits(tmp_path, switching, n_rows):
    whole = pool(switching=switching)
    whole.partial_fit(X[:n_rows], Y[:n_rows], classes=range(10))
    whole.save(tmp_path / "stream.safetensors")
    found = MDLReadoutSwitcher.load(tmp_path / "stream.safetensors")
    assert_same(found, whole)
    for each in (found, whole):
        each.partial_fit(X[n_rows:130], Y[n_rows:130])
    assert_same(found, whole)
    assert found.diverged_readouts_ == whole.diverged_readouts_
    np.testing.assert_array_equal(found.diverged_at_, whole.diverged_at_)


def test_settings_come_back_as_they_were(tmp_path):
    path = str(tmp_path / "a.safetensors")
    weights = [0.1, 0.2, 0.3, 0.4]
    whole = pool(switching=FixedShare(m=3), readout_weights=weights, shuffle=True)
    whole.fit(X[:60], Y[:60]).save(path)
    found = MDLReadoutSwitcher.load(path)
    assert repr(found) == repr(whole)
    assert found.readouts[1].hidden_layer_sizes == (7, 5)
    np.testing.assert_array_equal(found.order_, whole.order_)
    assert_same(found.fit(X[:60], Y[:60]), whole)


LABELS = {
    "text": np.array(["naïve", "b"]),
    "objects": np.array(["b", "a"], dtype=object),
    "negative": np.array([-3, 5]),
    "booleans": np.array([True, False]),
    "small": np.array([1, 2], dtype=np.int8),
}


@for_each("kind", LABELS)
def test_labels_of_any_kind_come_back(tmp_path, kind):
    y = LABELS[kind][Y[:80] % 2]
    whole = pool().fit(X[:80], y)
    whole.save(tmp_path / "a.safetensors")
    found = MDLReadoutSwitcher.load(tmp_path / "a.safetensors")
    assert_same(found, whole)
    assert found.predict(X[:9]).dtype == whole.predict(X[:9]).dtype


def test_feature_names_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:60], columns=[f"pixel {i}" for i in range(64)])
    whole = pool().fit(frame, Y[:60])
    whole.save(tmp_path / "a.safetensors")
    found = MDLReadoutSwitcher.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(found.feature_names_in_, whole.feature_names_in_)
    found.predict(frame)


def test_a_single_readout_can_be_saved(tmp_path):
    whole = MLPReadout((9,), lr=0.01, random_state=3, device="cpu").fit(X[:60], Y[:60])
    whole.save(tmp_path / "a.safetensors")
    found = MLPReadout.load(tmp_path / "a.safetensors")
    for each in (found, whole):
        each.partial_fit(X[60:99], Y[60:99])
    np.testing.assert_array_equal(found.codelengths_, whole.codelengths_)
    with pytest.raises(ValueError, match="store must be 'memory' for MLPReadout,"):
        MLPReadout.load(tmp_path / "a.safetensors", store=tmp_path / "b")


def test_a_trace_on_disk_is_saved_and_may_go_on_elsewhere(tmp_path):
    whole = pool(store=tmp_path / "store").fit(X[:60], Y[:60])
    whole.save(tmp_path / "a.safetensors")
    found = MDLReadoutSwitcher.load(tmp_path / "a.safetensors", store=tmp_path / "b")
    assert found.store == tmp_path / "b"
    assert found.store_.parent == tmp_path / "b"
    assert len(np.load(found.store_ / "losses.npy")) == 60
    for each in (found, whole):
        each.partial_fit(X[60:99], Y[60:99])
    assert_same(found, whole)


def test_without_a_seed_the_stream_still_goes_on_to_the_same_bits(tmp_path):
    whole = pool(random_state=None).fit(X[:60], Y[:60])
    whole.save(tmp_path / "a.safetensors")
    found = MDLReadoutSwitcher.load(tmp_path / "a.safetensors")
    for each in (found, whole):
        each.partial_fit(X[60:99], Y[60:99])
    assert_same(found, whole)


def test_saving_over_the_file_that_a_stream_is_read_from(tmp_path):
    path = tmp_path / "a.safetensors"
    whole = pool().fit(X[:60], Y[:60])
    whole.save(path)
    for _ in range(3):
        found = MDLReadoutSwitcher.load(path)
        found.partial_fit(X[60:70], Y[60:70]).save(path)
        whole.partial_fit(X[60:70], Y[60:70])
    assert_same(MDLReadoutSwitcher.load(path), whole)
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_other_programs_can_read_the_file(tmp_path):
    pool().fit(X[:60], Y[:60]).save(tmp_path / "a.safetensors")
    tensors = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(tensors["rows"], X[:60].astype(np.float32))
    np.testing.assert_array_equal(tensors["labels"], Y[:60])


def test_nothing_is_saved_of_what_has_not_begun(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        pool().save(tmp_path / "a.safetensors")


def test_what_json_cannot_hold_is_refused_by_name_and_pickled(tmp_path):
    switcher = pool(random_state=np.random.RandomState(0)).fit(X[:60], Y[:60])
    with pytest.raises(
        TypeError,
        match=r"random_state must .* instead of save, call pickle.* def",
    ):
        switcher.save(tmp_path / "a.safetensors")
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match=r"^width must consist of None"):
        as_json(slice(0, object()), "width")
    inner = IncrementalReadout(linear := LinearReadout())
    outer = IncrementalReadout(inner)
    assert list(map(id, estimators_in([outer]))) == [id(outer), id(inner), id(linear)]
    assert_same(pickle.loads(pickle.dumps(switcher)), switcher)
    said = (
        r"^Only pickle .*, since it holds a .*; call pickle\.dump\(estimator, file\)$"
    )
    with pytest.raises(TypeError, match=said):
        switcher._run.__reduce__()


@for_each("name", ["a", "a.npy", "a.safetensors.gz"])
def test_a_path_of_another_kind_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"must be a name that ends in \.safetensors"):
        pool().fit(X[:60], Y[:60]).save(tmp_path / name)
    with pytest.raises(ValueError, match=r"must be a name that ends in \.safetensors"):
        MDLReadoutSwitcher.load(tmp_path / name)


def test_a_file_of_another_class_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    LinearReadout(random_state=0, device="cpu").fit(X[:40], Y[:40]).save(path)
    with pytest.raises(
        ValueError,
        match=r"of class MDLReadoutSwitcher, but its class is LinearReadout; call "
        r"LinearReadout\.load",
    ):
        MDLReadoutSwitcher.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError,
        match=r"b\.safetensors must exist, but does not; check the path$",
    ):
        MDLReadoutSwitcher.load(tmp_path / "b.safetensors")


def rewritten(path, change):
    """Write a file that is whole, but says something else."""
    arrays, about = read_archive(path, "estimator")
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(about)
    write_archive(path, "estimator", arrays, about)


CHANGES = {
    "it lacks classes": lambda about: about.pop("classes"),
    "it lacks seed": lambda about: about.update(seed="0"),
    "Parameters must consist of": lambda about: about["estimator"].update(
        {"class": "X"}
    ),
    "version can create": lambda about: about["estimator"]["params"].update(a=1),
}


@for_each("message", CHANGES)
def test_a_file_that_says_something_else_is_refused(tmp_path, message):
    path = tmp_path / "a.safetensors"
    pool().fit(X[:40], Y[:40]).save(path)
    rewritten(path, CHANGES[message])
    with pytest.raises(ValueError, match=message):
        MDLReadoutSwitcher.load(path)


@for_each("name", ["SGDClassifier", "os.system", "BaseEstimator"])
def test_a_file_can_name_no_class_but_ours(tmp_path, name):
    path = tmp_path / "a.safetensors"
    pool(switching=FixedShare()).fit(X[:40], Y[:40]).save(path)

    def change(about):
        about["estimator"]["params"]["switching"] = {"class": name, "params": {}}

    rewritten(path, change)
    with pytest.raises(ValueError, match="Parameters must consist of"):
        MDLReadoutSwitcher.load(path)


PLAIN = [
    pool(),
    pool(shuffle=True, pooling=[0, 0, 1, 1]),
    MDLReadoutSwitcher(
        [KernelReadout(window=64), KNeighborsReadout(restart=9), DummyReadout()],
        switching="bayes",
        random_state=0,
    ),
    MultiOutputSwitcher(pool()),
    MDLReadoutSwitcherRegressor([LinearReadoutRegressor()], random_state=0),
    LinearProbe(lr=0.03, weight_decay=0.0, max_steps=5, random_state=0),
]


@pytest.mark.parametrize("estimator", PLAIN)
def test_what_is_pickled_is_settings_and_numpy_arrays(estimator):
    y = np.c_[Y > 4, Y > 6] if isinstance(estimator, MultiOutputSwitcher) else Y
    fitted = clone(estimator).fit(X[:70], y[:70])
    pickled = pickle.dumps(fitted, protocol=4)
    assert b"torch" not in pickled
    assert b"skorch" not in pickled
    found = pickle.loads(pickled)
    np.testing.assert_array_equal(found.predict(X), fitted.predict(X))
    if hasattr(estimator, "partial_fit"):
        for each in (found, fitted):
            each.partial_fit(X[70:99], y[70:99])
        np.testing.assert_array_equal(found.codelengths_, fitted.codelengths_)


def test_a_pickle_goes_on_as_it_was_fitted_whatever_was_set_since():
    fitted = pool().fit(X[:70], Y[:70])
    fitted.readouts[0].lr = 1.0
    fitted.set_params(batch_size=7, switching="bayes", readouts=fitted.readouts[:2])
    found = pickle.loads(pickle.dumps(fitted))
    assert repr(found) == repr(fitted)
    for each in (found, fitted):
        each.partial_fit(X[70:99], Y[70:99])
    assert_same(found, fitted)


@pytest.mark.parametrize(
    "later",
    [
        {"readouts": "linear"},
        {"readouts__lr": 1.0},
        {"switching": "bayes", "pooling": None},
        {"label_delay": 20, "batch_size": 7},
        {"new_classes": "escape", "precision": "bfloat16"},
    ],
    ids=str,
)
def test_a_file_goes_on_as_it_was_fitted_whatever_was_set_since(tmp_path, later):
    readout = LinearReadout(lr=0.01)
    fitted = MDLReadoutSwitcher(readout, batch_size=16, random_state=0, device="cpu")
    fitted.fit(X[:70], Y[:70]).set_params(**later)
    fitted.save(tmp_path / "a.safetensors")
    found = MDLReadoutSwitcher.load(tmp_path / "a.safetensors")
    assert found.get_params()["readouts__lr"] == 0.01
    for each in (found, fitted):
        each.partial_fit(X[70:99], Y[70:99])
    assert_same(found, fitted)
    assert len(fitted.classes_) == 10


@pytest.mark.parametrize(
    "later", [{"race__slack": 0.0}, {"pooling__half_life": 3.0}], ids=str
)
def test_parts_of_a_mixture_that_are_set_later_do_not_change_the_stream(later):
    readouts = [LinearReadout(lr=10.0**-k) for k in range(1, 7)]
    readouts += [KernelReadout(), KernelReadout("linear")]
    race = Race(min_samples=16, min_readouts=2, slack=1e6)
    options = {"race": race, "pooling": LogLinearPool(), "random_state": 0}
    fitted, other = (
        MDLReadoutSwitcher(readouts, **options).fit(X[:50], Y[:50]) for _ in range(2)
    )
    settings = str(fitted.settings_)
    unchanged = pickle.loads(pickle.dumps(fitted))
    fitted.set_params(**later)  # also changes the objects of the other switcher
    assert str(fitted.settings_) == settings
    for each in (fitted, other, unchanged):
        each.partial_fit(X[50:], Y[50:])
    assert fitted.codelength_ == other.codelength_ == unchanged.codelength_


# Encoders that a file may name, and what they would read.
READERS = {
    "allow_network=True": [
        TimmEncoder("resnet50.a1_in1k"),
        TimmEncoder("hf-hub:somebody/model"),
        TimmEncoder("hf-hub:somebody/model", pretrained=False),
        FineTunedReadout(TimmEncoder("resnet18")),
        (TimmEncoder("resnet18"), LinearReadout()),
        ScratchReadout("hf-hub:somebody/model"),
    ],
    r"trusted=\['w.pth'\]": [
        TimmEncoder("resnet50", checkpoint_path="w.pth"),
        ScratchReadout("local-dir:w.pth"),
        TimmEncoder("local-dir:w.pth", pretrained=False),
        CachedEncoder(TimmEncoder("resnet18", pretrained=False), "w.pth"),
    ],
}


@pytest.mark.parametrize("advice", READERS, ids=["network", "files"])
def test_a_file_reads_no_others_and_no_network_unless_it_may(
    tmp_path, monkeypatch, advice
):
    path, fitted = tmp_path / "a.safetensors", pool().fit(X[:40], Y[:40])

    def read(*args, **kwargs):
        raise AssertionError("it was read")

    for named in READERS[advice]:
        fitted.save(path)
        given = named if isinstance(named, tuple) else [named]
        rewritten(
            path,
            lambda about, given=given: about["estimator"]["params"].update(
                readouts=as_json([given], "readouts")
            ),
        )
        with monkeypatch.context() as patched:
            patched.setattr("timm.create_model", read)
            patched.setattr("timm.models.load_state_dict", read)
            with pytest.raises(
                ValueError, match=f"may use only sources .* pass {advice}"
            ):
                MDLReadoutSwitcher.load(path)
            with pytest.raises((ValueError, OSError, AssertionError)) as found:
                MDLReadoutSwitcher.load(path, allow_network=True, trusted=["w.pth"])
            assert "must read nothing" not in str(found.value)


def test_a_network_may_be_read_where_it_is_trusted(tmp_path):
    timm = pytest.importorskip("timm")
    weights, path = tmp_path / "w.safetensors", tmp_path / "a.safetensors"
    model = timm.create_model("test_resnet")
    safetensors.torch.save_model(model, weights)
    options = {"data_options": {"input_size": (3, 16, 16)}, "pretrained": False}
    encoder = TimmEncoder("test_resnet", checkpoint_path=weights, **options)
    images = np.floor(X[:9] * 15)
    fitted = FineTunedReadout(encoder, n_replay_streams=0, random_state=0, device="cpu")
    fitted.fit(images, Y[:9]).set_params(lr=9.0, n_replay_streams=2).save(path)
    with pytest.raises(ValueError, match=r"reads .*w\.safetensors'; pass trusted="):
        FineTunedReadout.load(path)
    found = FineTunedReadout.load(path, trusted=[weights])
    assert found.n_replay_streams == 0  # as it was fitted
    np.testing.assert_array_equal(found.codelengths_, fitted.codelengths_)


def test_a_nested_estimator_writes_no_files_of_its_own(tmp_path):
    path, elsewhere = tmp_path / "a.safetensors", tmp_path / "b"
    pool().fit(X[:40], Y[:40]).save(path)
    inner = MDLReadoutSwitcher(store=elsewhere, checkpoint=elsewhere)
    rewritten(
        path,
        lambda about: about["estimator"]["params"].update(
            readouts=as_json([IncrementalReadout(inner)], "readouts")
        ),
    )
    with pytest.raises(ValueError, match="retired_at must be 1 integers"):
        MDLReadoutSwitcher.load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


# Forged files: whole by their checksums, with fields that say anything.


@cache
def small_stream(folder):
    """A file with readouts of several kinds; its description and its arrays."""
    readouts = [
        LinearReadout(lr=0.01, scaling="whiten", ema_step_size=0.1),
        MLPReadout((2,), n_replay_streams=1),
        KNeighborsReadout(n_neighbors=2),
    ]
    switcher = MDLReadoutSwitcher(
        readouts, switching=RunLength(), batch_size=3, device="cpu", random_state=0
    )
    classes = np.array(["a", "b"])
    path = folder / "small.safetensors"
    switcher.partial_fit(X[:8, 2:5], classes[Y[:8] % 2], classes=classes).save(path)
    arrays, about = read_archive(path, "estimator")
    return {name: np.array(array) for name, array in arrays.items()}, about


def places(content, at=()):
    """List the places of all parts of a piece of JSON."""
    found = [at] if at else []
    inner = content if isinstance(content, dict | list) else ()
    keys = inner if isinstance(inner, dict) else range(len(inner))
    return found + [place for key in keys for place in places(inner[key], (*at, key))]


def forge(folder, data):
    """Load a file of which one field, or one array, says anything."""
    arrays, about = small_stream(folder)
    arrays, about = dict(arrays), json.loads(json.dumps(about))
    if data.draw(st.booleans()):
        place = data.draw(st.sampled_from(places(about)))
        inner = about
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = data.draw(FORGED)
    else:
        name = data.draw(st.sampled_from(sorted(arrays)))
        shape = data.draw(st.lists(st.integers(0, 9), max_size=3))
        kind = data.draw(st.sampled_from(["<f8", "<f4", "<i8", "<i4", "|b1", "|u1"]))
        value = data.draw(st.sampled_from([0, 1, -1, 2**31, 1e300, np.nan]))
        with np.errstate(all="ignore"):
            forged = np.full(shape or arrays[name].shape, value).astype(kind)
        arrays[name] = forged
        if data.draw(st.booleans()):
            del arrays[name]
    path = folder / "forged.safetensors"
    write_archive(path, "estimator", arrays, about)
    try:
        found = MDLReadoutSwitcher.load(path)
    except ValueError as error:
        text = str(error)
        assert str(path) in text
        assert "\n" not in text
    else:
        assert found.n_samples_seen_ == 8


def test_any_number_of_empty_rows_is_read_at_once(tmp_path):
    path = tmp_path / "empty.safetensors"
    write_archive(path, "estimator", {"rows": np.empty((10**18, 0))}, {})
    arrays, _ = read_archive(path, "estimator")
    assert arrays["rows"].shape == (10**18, 0)


HUGE = [-1, 0, 2**16, 2**31, 2**63, 10**12, 10**30, 10**4000]
SETTINGS = [
    "LinearReadout", "MLPReadout", "KNeighborsReadout", "RunLength", "FixedShare",
    "RepresentationScorer", "TimmEncoder", "StackNet",
]  # fmt: skip
FORGED = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(HUGE)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["bayes", "architecture", "mixed", "cuda:99", "meta", "<U99999"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(lambda v: {"tuple": [v]}, inner)
        | st.builds(
            lambda v, d: {"array": v, "dtype": d},
            st.lists(inner, max_size=3),
            st.sampled_from(["<f8", "<i8", "O", "<U99999", "<U999999999", "V9", "M8"]),
        )
        | st.builds(
            lambda name, params: {"class": name, "params": params},
            st.sampled_from(SETTINGS),
            st.dictionaries(
                st.sampled_from(["n_rates", "m", "lr", "n_neighbors", "scaling"]), inner
            ),
        )
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_no_forged_field_does_more_than_be_refused_or_taken(folder, data):
    with two_gigabytes():
        forge(folder, data)


@pytest.mark.slow
@settings(
    deadline=None, max_examples=100_000, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_a_hundred_thousand_forged_files_are_refused_or_taken(folder, data):
    with two_gigabytes():
        forge(folder, data)


KINDS = [1 + i / 1e4 for i in range(4000)]
BOMBS = {
    "deep": lambda about: about.update(classes=json.loads("[" * 900 + "]" * 900)),
    "wide labels": lambda about: about.update(
        classes={"array": ["a", "b"] * 5000, "dtype": "<U99999"}
    ),
    "a wide array": lambda about: about["estimator"]["params"].update(
        readout_weights={"array": ["a"], "dtype": "<U400000000"}
    ),
    "batch_size": lambda about: about["estimator"]["params"].update(batch_size=-1),
    "weights": lambda about: about["estimator"]["params"]["readouts"][1][
        "params"
    ].update(hidden_layer_sizes={"tuple": [10**5, 10**5]}),
    "narrow layers": lambda about: about["estimator"]["params"]["readouts"][1][
        "params"
    ].update(hidden_layer_sizes={"tuple": [1] * 10_000}),
    "kinds": lambda about: about["estimator"]["params"].update(
        readouts=[{"class": "KernelReadout", "params": {"alpha": k}} for k in KINDS],
        pooling={"class": "LogLinearPool", "params": {}},
    ),
    "streams": lambda about: about["estimator"]["params"]["readouts"][1][
        "params"
    ].update(n_replay_streams=10**10),
    "rates": lambda about: about["estimator"]["params"]["switching"]["params"].update(
        n_rates=10**10
    ),
    "shares": lambda about: about["estimator"]["params"].update(
        switching={"class": "LearnedShare", "params": {"ms": [2.5] * 10**5}}
    ),
    "rates of a pool": lambda about: about["estimator"]["params"].update(
        pooling={"class": "LogLinearPool", "params": {"rates": [0.5] * 10**5}}
    ),
    "seed": lambda about: about.update(seed=-1),
    "features": lambda about: about.update(n_features=10**9),
}
SAID = {
    "narrow layers": "The readouts need at least 0.164 GB for weights",
    "kinds": "The Hessian of 4000 pooled kinds of readouts",
}


@for_each("bomb", BOMBS)
def test_a_file_that_asks_for_more_than_it_holds_is_refused(folder, bomb):
    arrays, about = small_stream(folder)
    about = json.loads(json.dumps(about))
    BOMBS[bomb](about)
    path = folder / "bomb.safetensors"
    write_archive(path, "estimator", arrays, about)
    with two_gigabytes(), pytest.raises(ValueError, match="must ") as found:
        MDLReadoutSwitcher.load(path)
    assert len(str(found.value)) < 1000
    assert SAID.get(bomb, "") in str(found.value)


def test_networks_that_retired_are_not_built_again(folder):
    """A file does not hold them, so loading it may not need their memory."""
    wide = [
        MLPReadout((1000, 1000), lr=lr, n_replay_streams=0) for lr in (0.5, 0.6, 0.7)
    ]
    readouts = [*wide, *(ViewReadout(r, slice(9)) for r in wide), KernelReadout()]
    race = Race(min_samples=32, min_readouts=1)
    switcher = MDLReadoutSwitcher(readouts, race=race, random_state=0)
    switcher.fit(X[:64], Y[:64])
    assert switcher.retired_at_.tolist() == [32] * 6 + [-1]
    switcher.save(path := folder / "raced.safetensors")
    needed = 6 * 16 * 1000**2  # weights, gradients and moments
    assert needed > saving.SPARE_BYTES + 2 * path.stat().st_size
    loaded = MDLReadoutSwitcher.load(path)
    assert loaded.retired_at_.tolist() == switcher.retired_at_.tolist()
    for each in (loaded, switcher):
        each.partial_fit(X[64:128], Y[64:128])
    np.testing.assert_array_equal(loaded.codelengths_, switcher.codelengths_)


@pytest.mark.filterwarnings("ignore:The best readout should lie inside the grid")
def test_stacks_keep_their_order_if_networks_have_retired(folder):
    """Otherwise state that learners share would be sought in another place."""
    linear = [LinearReadout(lr=lr, n_replay_streams=5) for lr in (0.003, *range(4, 12))]
    race = Race(min_samples=32, min_readouts=1)
    switcher = MDLReadoutSwitcher(
        [*linear, MLPReadout((12,), lr=0.01, n_replay_streams=5)],
        race=race,
        random_state=0,
    )
    switcher.fit(X[:96], Y[:96])
    switcher.save(path := folder / "order.safetensors")
    loaded = MDLReadoutSwitcher.load(path)
    columns = [learner.columns for learner in switcher._run.learners]
    assert sorted(columns) == [[0], [9]]
    assert [learner.columns for learner in loaded._run.learners] == columns


def test_only_names_of_foreign_classes_include_their_module():
    assert class_name(KernelReadout) == "KernelReadout"
    assert class_name(json.JSONDecoder) == "json.decoder.JSONDecoder"


# Archives


def arrays_of(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(size=(3, 2)),
        "b": rng.integers(9, size=7),
        "scalar": np.array(2.5, dtype=np.float32),
        "none": np.empty((0, 4), dtype=np.float32),
        "flags": np.array([True, False, True]),
        "transposed": rng.normal(size=(4, 5)).T,
    }


def test_arrays_come_back_bit_by_bit_and_cannot_be_changed(tmp_path):
    for kind in ("<f4", ">f8", "i8", "?"):
        assert storable(given := np.ones(2, kind)) is given
    np.testing.assert_array_equal(storable(given := np.array([-3, 7], np.int8)), given)
    assert storable(given).dtype == np.float64
    write_archive(tmp_path / "a", "estimator", arrays_of(), {"x": [1, None, "ü"]})
    found, about = read_archive(tmp_path / "a", "estimator")
    assert about == {"x": [1, None, "ü"]}
    assert list(found) == list(arrays_of())
    for name, array in arrays_of().items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
    assert not found["a"].flags.writeable


def test_numbers_of_every_kind_come_back(tmp_path):
    arrays = {
        f"{kind} {shape}": np.arange(np.prod(shape)).reshape(shape).astype(kind)
        for kind in ("<f8", "<f4", "<f2", "<i8", "<i4", "|u1", "|b1", ">f8", ">i4")
        for shape in ((), (1,), (5,), (0,), (3, 0), (2, 3), (2, 1, 3))
    }
    write_archive(tmp_path / "a", "estimator", arrays, {})
    found, _ = read_archive(tmp_path / "a", "estimator")
    theirs = safetensors.numpy.load_file(tmp_path / "a")
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype.newbyteorder("<")
        assert found[name].shape == theirs[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(theirs[name], array)


def test_a_single_number_may_be_all_there_is(tmp_path):
    write_archive(tmp_path / "a", "estimator", {"x": np.array(2.5)}, {})
    found, _ = read_archive(tmp_path / "a", "estimator")
    assert found["x"].shape == ()
    assert found["x"] == 2.5


def test_a_file_does_not_depend_on_how_it_is_cut_into_blocks(tmp_path, monkeypatch):
    for size in (1, 16, 40, 41, 2**24):
        monkeypatch.setattr(archives, "BLOCK", size)
        write_archive(tmp_path / f"{size}", "estimator", arrays_of(), {"x": 1})
        read_archive(tmp_path / f"{size}", "estimator")
    contents = {path.read_bytes() for path in tmp_path.iterdir()}
    assert len(contents) == 1


def test_numbers_begin_where_they_can_be_mapped_and_follow_each_other(tmp_path):
    for n in range(9):
        write_archive(tmp_path / "a", "estimator", arrays_of(), {"x": "x" * n})
        content = (tmp_path / "a").read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        assert length % 8 == 0
        at = 0
        for name, array in arrays_of().items():
            assert header[name]["data_offsets"] == [at, at + array.nbytes]
            at += array.nbytes
        assert len(content) == 8 + length + at


def test_a_file_takes_its_place_once_it_is_on_the_disk(tmp_path, monkeypatch):
    path, done = tmp_path / "a", []
    write_archive(path, "estimator", arrays_of(), {"x": 1})
    before, size = path.read_bytes(), path.stat().st_size

    def fsync(at):
        done.append(os.fstat(at).st_size)
        (aside,) = set(tmp_path.iterdir()) - {path}
        assert aside.name.startswith(".a.")  # no reader takes it for a file of its own
        assert path.read_bytes() == before

    monkeypatch.setattr("os.fsync", fsync)
    write_archive(path, "estimator", arrays_of(1), {"x": 1})
    assert done == [size]
    assert path.read_bytes() != before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_numbers_that_are_not_ours_is_refused_by_their_types(tmp_path):
    tensors = {"w": np.ones(3, np.int16), "v": np.ones(3, np.uint32), "u": np.ones(3)}
    safetensors.numpy.save_file(tensors, tmp_path / "a", {"sklearn_mdl": "{}"})
    with pytest.raises(ValueError, match=r"unknown types I16, U32\); save it"):
        read_archive(tmp_path / "a", "estimator")


def with_header(content, change):
    """Return the content of a file with a changed header, in the layout of ours."""
    start = 8 + int.from_bytes(content[:8], "little")
    entries = json.loads(content[8:start])
    change(entries)
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[start:]


def test_a_description_that_is_replaced_is_no_whole_file(folder):
    # Each of the three checksums guards what the others do not.
    content = small_archive(folder)

    def check(changed, words="its checksum differs"):
        (folder / "b").write_bytes(changed)
        with pytest.raises(ValueError, match=words):
            read_archive(folder / "b", "estimator")

    assert with_header(content, lambda entries: None) == content
    end = len(content) - (8 + int.from_bytes(content[:8], "little"))
    new = {"dtype": "U8", "shape": [1], "data_offsets": [end, end + 1]}
    check(with_header(content, lambda entries: entries.update(new=new)) + b"\0")
    check(with_header(content, lambda entries: entries["a"].update(shape=[6])))
    check(content[:-1] + bytes([content[-1] ^ 1]))
    with safetensors.safe_open(folder / "a", framework="numpy") as archive:
        metadata = archive.metadata()
    for key in metadata:

        def add_space(entries, key=key):
            entries["__metadata__"][key] += " "

        words = r"checksum differs|names no format"
        check(with_header(content, add_space), words)
    tensors = safetensors.numpy.load_file(folder / "a")
    for change in ({}, {"a": tensors["a"] + 1}, {"c": np.ones(1)}):
        check(safetensors.numpy.save({**tensors, **change}, metadata))


@cache
def small_archive(folder):
    path = folder / "a"
    write_archive(path, "estimator", arrays_of(), {"x": 1})
    return path.read_bytes()


def refused(path, content):
    path.write_bytes(content)
    try:
        read_archive(path, "estimator")
    except ValueError as error:
        return " must " in str(error)
    return False


def test_every_flipped_bit_is_found(folder):
    content = small_archive(folder)
    for at in range(0, 8 * len(content), 13):  # each of eight bits in turn
        broken = bytearray(content)
        broken[at // 8] ^= 1 << (at % 8)
        assert refused(folder / "b", bytes(broken)), at


def test_every_change_of_layout_is_found(folder):
    content = small_archive(folder)
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    for at in (8 + i for i, byte in enumerate(header.rstrip(b" ")) if byte == 0x20):
        tabbed = content[:at] + b"\t" + content[at + 1 :]
        assert refused(folder / "b", tabbed), at


def test_every_cut_is_found(folder):
    content = small_archive(folder)
    for end in range(0, len(content), 5):
        assert refused(folder / "b", content[:end]), end
    assert refused(folder / "b", content + b"\0")


def fuzz(folder, data):
    content = bytearray(small_archive(folder))
    kind = data.draw(st.sampled_from(["bytes", "splice", "header"]))
    if kind == "bytes":
        content = data.draw(st.binary(max_size=300))
    elif kind == "splice":
        at = data.draw(st.integers(0, len(content)))
        piece = data.draw(st.binary(max_size=20))
        cut = data.draw(st.integers(0, 20))
        content[at : at + cut] = piece
    else:
        values = st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(HEADER_WORDS), inner, max_size=4)
            ),
            max_leaves=8,
        )
        header = json.dumps(data.draw(values)).encode()
        content = len(header).to_bytes(8, "little") + header + bytes(16)
    if bytes(content) != small_archive(folder):
        assert refused(folder / "c", bytes(content))


HEADER_WORDS = ["__metadata__", "a", "dtype", "shape", "data_offsets", "sklearn_mdl"]


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_no_file_whatsoever_does_more_than_be_refused(folder, data):
    with two_gigabytes():
        fuzz(folder, data)


@pytest.mark.slow
@settings(
    deadline=None, max_examples=100_000, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_a_hundred_thousand_files_are_refused(folder, data):
    with two_gigabytes():
        fuzz(folder, data)


@pytest.mark.parametrize(
    "key", ["sklearn_mdl", "sklearn_mdl.about", "sklearn_mdl.sha256"]
)
def test_a_file_with_one_entry_of_our_description_is_none_of_ours(tmp_path, key):
    safetensors.numpy.save_file({"w": np.ones(3)}, tmp_path / "a", {key: "{}"})
    with pytest.raises(ValueError, match="it holds other tensors"):
        read_archive(tmp_path / "a", "estimator")


def test_a_safetensors_file_of_others_is_refused(tmp_path):
    safetensors.numpy.save_file({"w": np.ones(3)}, tmp_path / "a")
    with pytest.raises(ValueError, match="it holds other tensors"):
        read_archive(tmp_path / "a", "estimator")


# Settings

numbers = st.integers() | st.floats() | st.booleans() | st.none() | st.text()
texts = st.text(max_size=5)
values = st.recursive(
    numbers | st.builds(FixedShare, m=st.integers(2, 9)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts, inner, max_size=3)
        | st.builds(LinearReadout, lr=inner)
    ),
    max_leaves=10,
)


def same(one, other):
    return repr(one) == repr(other) and type(one) is type(other)


@settings(deadline=None, max_examples=200)
@given(values)
def test_settings_survive_json(value):
    text = json.dumps(as_json(value, "x"), allow_nan=False)
    assert same(from_json(json.loads(text), CLASSES), value)


@for_each("value", [np.float32(0.5), np.int64(3), np.bool_(True)])
def test_numbers_of_numpy_become_plain(value):
    assert from_json(as_json(value, "x"), {}) == value


@for_each("kind", ["?", "<i2", "|u1", "<f4", ">f8", "<U3", "O"])
@for_each("shape", [(), (3,), (0,), (2, 1)])
def test_arrays_survive_json(kind, shape):
    value = np.ones(shape, dtype=kind)
    text = json.dumps(as_json(value, "x"), allow_nan=False)
    found = from_json(json.loads(text), CLASSES)
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value, strict=True)


@for_each(
    "value",
    [
        np.nan,
        np.inf,
        -np.inf,
        [1, (2.5, (True, None))],
        {"a": (1,), "b": {"tuple": [np.nan]}},
        [slice(None), slice(3), slice(1, 4), slice(1, 9, 2), slice(-3, None, -1)],
        [MLPReadout((7, 5)), LinearReadout(lr=FixedShare(m=3))],
    ],
)
def test_settings_of_each_kind_survive_json(value):
    text = json.dumps(as_json(value, "x"), allow_nan=False)
    assert same(from_json(json.loads(text), CLASSES), value)


def test_an_array_takes_little_more_memory_than_its_text():
    widest = f"<U{PLAIN_BYTES // 4}"  # four bytes a letter
    assert array_of(["a"], widest).nbytes == PLAIN_BYTES
    with pytest.raises(ValueError, match=f"2 items must not take {2 * PLAIN_BYTES} b"):
        array_of(["a", "b"], widest)
    word = "a" * (PLAIN_BYTES // 16)
    width = BYTES_A_LETTER * (1 + len(word)) // 4
    assert array_of([word], f"<U{width}").tolist() == [word]
    with pytest.raises(ValueError, match="1 items must not take"):
        array_of([word], f"<U{width + 1}")


def test_each_estimator_of_a_setting_is_found_once():
    inner = LinearReadout(lr=0.5)
    value = {"a": [IncrementalReadout(inner), (1, FixedShare(m=3))]}
    names = [type(one).__name__ for one in estimators_in(value)]
    assert names == ["IncrementalReadout", "LinearReadout", "FixedShare"]


def test_paths_become_text():
    assert as_json(Path("a") / "b", "x") == str(Path("a") / "b")


def test_settings_are_named_in_order_and_some_left_out():
    estimator = pool(switching=FixedShare(m=3), random_state=3)
    names = sorted(estimator.get_params(deep=False))
    assert list(settings_of(estimator, ())) == names
    left_out = {"readouts", "store"}
    found = settings_of(estimator, left_out)
    assert set(found) == set(names) - left_out
    assert found["random_state"] == 3


BAD = {
    "x[1]": [0, object()],
    "x[0]": (object(),),
    "x['k']": {"k": object()},
    "x.lr": LinearReadout(lr=object()),
    "x[0].lr[1]": [LinearReadout(lr=(0, object()))],
    "x[2]": np.array([0, 1, object()]),
    "x": np.array([1j]),
}


@for_each("place", BAD)
def test_the_place_of_what_cannot_be_written_down_is_named(place):
    with pytest.raises(TypeError, match=rf"^of\.{re.escape(place)} must consist of"):
        as_json(BAD[place], "of.x")
    named = LinearReadout(lr=BAD[place])
    place = place.replace("x", "lr", 1)
    for prefix in ("", "of."):
        message = rf"^{re.escape(prefix + place)} must consist of"
        with pytest.raises(TypeError, match=message):
            settings_of(named, (), *([prefix] if prefix else []))


@for_each(
    "text",
    [
        {},
        {"float": "1.0"},
        {"float": 1.0},
        {"tuple": "ab"},
        {"array": [1]},
        {"array": {}, "dtype": "<f8"},
        {"dict": [1]},
        {"class": "LinearReadout"},
        {"class": "MDLReadoutSwitcher", "params": {}},
    ],
)
def test_json_of_others_is_refused(text):
    with pytest.raises(ValueError, match="Parameters must consist of FixedShare, Lea"):
        from_json([text], CLASSES)


@for_each("value", [object(), {1: 2}, {1, 2}, print, 1j])
def test_what_cannot_be_written_down_is_named(value):
    with pytest.raises(TypeError, match=r"grid\[1\] must consist of"):
        as_json([0, value], "grid")
