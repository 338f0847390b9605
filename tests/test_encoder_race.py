"""A race of encoders: any cut into calls, resumed anywhere, and nothing lost."""

import json
import re
import threading
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from each_case import for_each
from image_cases import network, pixels
from numpy.testing import assert_array_equal
from PIL import Image
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
)
from sklearn_mdl._core.io.safetensors_io import read_archive, write_archive
from sklearn_mdl._core.io.whole_files import exclusive
from sklearn_mdl.encoders import TorchEncoder
from sklearn_mdl.model_selection import EncoderRace, _race_folder
from sklearn_mdl.model_selection._race_folder import RaceFolder

N_LABELS = 60
SWITCHER = MDLReadoutSwitcher([KernelReadout("linear")])


def data():
    X, y = make_blobs(N_LABELS, 4, centers=3, cluster_std=2.0, random_state=0)
    noise = np.random.default_rng(0).normal(size=(N_LABELS, 5))
    features = {"whole": X, "half": X[:, :2], "noise": noise}
    return features, np.array(["red", "green", "blue"])[y]


FEATURES, LABELS = data()


def race_of(**options):
    given = {"n_classes": 3, "start": 5, "switcher": SWITCHER} | options
    return EncoderRace(list(FEATURES), **given)


def add(race, *ends):
    """Add labels up to each of these numbers, in a call each."""
    for end in ends:
        start = race.resume().n_labels_
        rows = {name: FEATURES[name][start:end] for name in race.alive_}
        race.update(rows, LABELS[start:end])
    return race


def state(race):
    """What a user can read of a race."""
    names = sorted(name for name in vars(race) if name.endswith("_"))
    return {name: getattr(race, name) for name in names}


def assert_same(one, other):
    found, expected = state(one), state(other)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert_array_equal(value, expected[name], err_msg=name)


def test_any_cut_into_calls_gives_the_same_race():
    whole = add(race_of(), N_LABELS)
    assert len(whole.alive_) < 3
    assert_same(add(race_of(), *range(1, N_LABELS + 1)), whole)
    assert_same(add(race_of(), 3, 40, N_LABELS), whole)


def test_losses_are_the_codelengths_of_each_encoder_alone():
    race = add(race_of(), N_LABELS)
    codes = np.searchsorted(np.unique(LABELS), LABELS)
    for i, name in enumerate(race.encoder_names_):
        alone = MDLReadoutSwitcher([KernelReadout("linear")], random_state=0)
        alone.fit(FEATURES[name], codes)
        n = race.eliminated_at_.get(name, N_LABELS)
        assert_array_equal(np.isnan(race.losses_[:, i]), np.arange(N_LABELS) >= n)
        np.testing.assert_allclose(
            race.losses_[:n, i], alone.codelengths_[:n], rtol=1e-5, atol=1e-6
        )
    assert_array_equal(race.labels_, LABELS)


class Counting(TransformerMixin, BaseEstimator):
    """Some columns, and how often rows were asked for."""

    def __init__(self, columns):
        self.columns = columns
        self.n_rows = 0

    def fit(self, X, y=None):
        raise AssertionError("encoders of a race are fitted before")

    def __sklearn_is_fitted__(self):
        return True

    def transform(self, X):
        self.n_rows += len(X)
        return X[:, self.columns]


def test_encoders_that_are_out_are_not_run_any_more():
    X = np.hstack([FEATURES["whole"], FEATURES["noise"]])
    encoders = {"whole": Counting(slice(0, 4)), "noise": Counting(slice(4, None))}
    race = EncoderRace(encoders, 3, start=5, switcher=SWITCHER)
    for i in range(N_LABELS):
        race.update(X[i : i + 1], LABELS[i : i + 1])
    assert race.alive_ == ["whole"]
    assert encoders["noise"].n_rows == race.eliminated_at_["noise"] < N_LABELS
    assert encoders["whole"].n_rows == N_LABELS
    assert race.should_stop_
    by_name = EncoderRace(["whole", "noise"], 3, start=5, switcher=SWITCHER)
    by_name.update({name: FEATURES[name] for name in ("whole", "noise")}, LABELS)
    assert_same(race, by_name)


def test_transformers_keep_what_they_have_learned():
    X = FEATURES["whole"]
    pca = PCA(2).fit(X)
    race = EncoderRace({"pca": pca, "raw": None}, 3, start=5, switcher=SWITCHER)
    race.update(X[:20], LABELS[:20]).update(X[20:], LABELS[20:])
    arrays = {"pca": pca.transform(X), "raw": X}
    by_name = EncoderRace(list(arrays), 3, start=5, switcher=SWITCHER)
    for rows in (slice(20), slice(20, None)):
        by_name.update({n: A[rows] for n, A in arrays.items()}, LABELS[rows])
    assert race.alive_ == by_name.alive_
    np.testing.assert_allclose(race.losses_, by_name.losses_, rtol=1e-4, atol=1e-5)


@for_each("method", ["asymptotic", "exact"])
def test_a_resumed_race_is_the_one_that_went_on(method, tmp_path):
    options = {"method": method, "folder": tmp_path / "race", "within": 0.5}
    for ends in ((1, 2, 10), (44,), (45, N_LABELS)):
        race = add(race_of(**options), *ends)
    whole = add(race_of(method=method, within=0.5), N_LABELS)
    assert_same(race, whole)
    assert_same(race_of(**options).resume(), whole)
    assert race.forecast(50) == whole.forecast(50)
    assert race.verdict() == whole.verdict()


def refused(race, X, y, message, kind=ValueError):
    """Check that labels are refused in a sentence, and nothing was added."""
    before = state(race)
    with pytest.raises(kind, match=message) as error:
        race.update(X, y)
    assert "\n" not in str(error.value)
    for name, value in state(race).items():
        assert_array_equal(value, before[name])


def test_what_is_no_row_or_label_is_refused_and_nothing_is_lost():
    race = add(race_of(), 20)
    good = {name: X[20:22] for name, X in FEATURES.items()}
    two = LABELS[20:22]
    bad = np.full((2, 2), np.nan)
    without = {name: good[name] for name in ("whole", "half")}
    refused(race, without, two, "X must be a mapping with every encoder.*'noise'")
    refused(race, good | {"other": bad}, two, "remove 'other'")
    refused(race, good | {"half": good["half"][:1]}, two, "'half' gives shape")
    refused(race, good | {"half": bad}, two, "'half' gives NaN")
    refused(race, good | {"half": good["whole"]}, two, "'half' must be 2 columns wide")
    refused(race, good["whole"], two, "mapping {encoder: rows}", TypeError)
    refused(
        race,
        good,
        ["red", "pink"],
        r"3 classes .* correct labels, or start a race with n_classes=4",
    )
    refused(race, good, [0, 1], "like the known ones")
    refused(race, good, ["red", None], "row 1")
    refused(race, good, [], "at least one label")
    refused(race, good, "red", "at least one label")
    assert_same(add(race, N_LABELS), add(race_of(), N_LABELS))


def test_columns_of_data_frames_keep_their_names_and_order():
    frames = {name: pd.DataFrame(X).add_prefix("x") for name, X in FEATURES.items()}
    race = race_of().update({n: t[:20] for n, t in frames.items()}, LABELS[:20])
    good = {name: table[20:22] for name, table in frames.items()}
    other = good | {"half": good["half"][["x1", "x0"]]}
    message = (
        r"^Columns of X\['half'\] must be as in the first call, got \['x1', 'x0'\]; "
        r"pass X\['half'\]\[\['x0', 'x1'\]\]$"
    )
    refused(race, other, LABELS[20:22], message)
    race.update(good, LABELS[20:22])
    race.update({name: X[22:] for name, X in FEATURES.items()}, LABELS[22:])
    assert_same(race, add(race_of(), N_LABELS))


def test_all_encoders_are_alive_before_the_first_label():
    race, X = EncoderRace(["a", "b"], 2, start=0), np.eye(4)
    for i in range(4):
        race.update(dict.fromkeys(race.alive_, X[i : i + 1]), [i % 2])
    assert race.alive_ == ["a", "b"]


def test_parameters_are_refused_before_any_label():
    real = MDLReadoutSwitcherRegressor([])
    growing = MDLReadoutSwitcher(new_classes="escape")
    lda = LinearDiscriminantAnalysis()
    few = "encoders must be at least two different names, or a mapping from such names"
    cases = [
        (EncoderRace(["a"], 3), few),
        (EncoderRace(["a", "a"], 3), few),
        (EncoderRace(["a", "b"]), "n_classes must be an integer of at least 2"),
        (EncoderRace(["a", "b"], 3, switcher=real), "n_classes must be None"),
        (
            EncoderRace(["a", "b"], switcher=real, method="exact"),
            "losses are unbounded",
        ),
        (EncoderRace(["a", "b"], 3, switcher=growing), "cannot be combined"),
        (EncoderRace({"a": PCA(1), "b": None}, 3), "must be fitted before a race"),
        (EncoderRace({"a": lda, "b": None}, 3), "holds LinearDiscriminantAnalysis"),
        (EncoderRace(["a", "b"], 3, alpha=1.0), "alpha"),
        (EncoderRace(["a", "b"], 1), "n_classes"),
    ]
    for race, message in cases:
        with pytest.raises(ValueError, match=message):
            race.update({"a": [[1.0]], "b": [[1.0]]}, [0])
    with pytest.raises(TypeError, match=r"got a list of \['ndarray'\]; for example, w"):
        EncoderRace(["a", np.eye(3)], 3).resume()


def test_real_labels_race_by_the_asymptotic_process():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=200)
    features = {"all": X, "none": rng.normal(size=(200, 3))}
    switcher = MDLReadoutSwitcherRegressor("closed-form")
    race = EncoderRace(list(features), switcher=switcher).update(features, y)
    assert race.alive_ == ["all"]
    assert not race.certified_
    assert "not certified" in race.verdict()
    refused(race, features, y * np.nan, "label for every row, .* NaN in row 0; pass")
    refused(race, features, y * np.inf, "must be finite")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_update_that_breaks_off_adds_nothing(error, tmp_path, monkeypatch):
    race, calls = add(race_of(folder=tmp_path), 20), []
    learn = MDLReadoutSwitcher.partial_fit

    def broken(self, *args, **kwargs):
        calls.append(learn(self, *args, **kwargs))
        if len(calls) == 2:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(MDLReadoutSwitcher, "partial_fit", broken)
        before = state(race)
        with pytest.raises(error):
            add(race, 30)
    assert_array_equal(state(race)["losses_"], before["losses_"])
    assert_same(add(race, N_LABELS), add(race_of(), N_LABELS))
    assert_same(race_of(folder=tmp_path).resume(), race)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (_race_folder, "write_archive"),
        (EncoderRace, "_publish"),
        (RaceFolder, "append"),
    ],
)
def test_an_update_that_breaks_off_as_it_is_kept_adds_nothing_to_the_folder_either(
    owner, name, tmp_path, monkeypatch
):
    race, done = add(race_of(folder=tmp_path), 20), getattr(owner, name)

    def interrupted(*args, **kwargs):
        done(*args, **kwargs)
        raise KeyboardInterrupt

    before = state(race)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            add(race, 30)
    assert_array_equal(state(race)["losses_"], before["losses_"])
    assert race.n_labels_ == len(race.labels_) == 20
    assert_same(race_of(folder=tmp_path).resume(), race)
    assert_same(add(race, N_LABELS), add(race_of(), N_LABELS))
    assert_same(race_of(folder=tmp_path).resume(), race)


def test_rows_may_be_overwritten_after_an_update(monkeypatch):
    """A loader reuses its buffers; what breaks off later is learned again from rows."""
    race, buffers = race_of(), {name: X[:10].copy() for name, X in FEATURES.items()}

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    for start in range(0, N_LABELS, 10):
        for name, rows in buffers.items():
            rows[:] = FEATURES[name][start : start + 10]
        given = {name: buffers[name] for name in race.resume().alive_}
        with monkeypatch.context() as patch:
            patch.setattr(MDLReadoutSwitcher, "partial_fit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                race.update(given, LABELS[start : start + 10])
        race.update(given, LABELS[start : start + 10])
    assert_same(race, add(race_of(), N_LABELS))


def test_settings_stay_as_they_were_when_the_race_began():
    race = add(race_of(), 20)
    race.set_params(alpha=race.alpha).verdict()
    race.set_params(alpha=0.5)
    for call in (race.verdict, race.history, lambda: add(race, 30)):
        with pytest.raises(ValueError, match="as when this race began, got"):
            call()


def test_encoders_stay_those_with_which_the_race_began():
    X, encoders = FEATURES["whole"], {"rows": None, "others": None}
    race = EncoderRace(encoders, 3).update(X[:5], LABELS[:5])
    encoders["others"] = FunctionTransformer()
    with pytest.raises(ValueError, match=r"^encoders must be .*, as when this race"):
        race.update(X[5:9], LABELS[5:9])


def test_a_race_is_resumed_as_it_was_begun_or_not_at_all(tmp_path):
    add(race_of(folder=tmp_path), 10)
    others = [
        ("alpha", race_of(folder=tmp_path, alpha=0.1)),
        ("within", race_of(folder=tmp_path, within=0.1)),
        ("method", race_of(folder=tmp_path, method="exact")),
        ("start", race_of(folder=tmp_path, start=6)),
        ("n_classes", race_of(folder=tmp_path, n_classes=4)),
        ("random_state", race_of(folder=tmp_path, random_state=1)),
        ("switcher", race_of(folder=tmp_path, switcher=None)),
        ("encoders", EncoderRace(["whole", "half"], 3, folder=tmp_path)),
        ("encoders", EncoderRace([*FEATURES][::-1], 3, folder=tmp_path)),
    ]
    for name, race in others:
        title = name + r" \(--readouts\)" * (name == "switcher")
        is_long = name in ("encoders", "switcher")
        required = "the same as" if is_long else "(?P<was>.*), as"
        text = f"^{title} must be {required} when the race in {tmp_path} began, got .*"
        cure = "the earlier value" if is_long else f"{name}=(?P=was)"
        with pytest.raises(
            ValueError, match=rf"{text}; pass {cure}, or another folder \(--out\)$"
        ):
            race.resume()


def test_a_race_with_other_settings_that_wrote_first_is_named(tmp_path):
    late, first = race_of(folder=tmp_path).resume(), race_of(folder=tmp_path, alpha=0.1)
    add(first, 10)
    rows = {name: X[:2] for name, X in FEATURES.items()}
    said = (
        f"alpha must be 0.1, as when the race in {tmp_path} began, got 0.05; pass "
        "alpha=0.1, or another folder (--out)"
    )
    refused(late, rows, LABELS[:2], f"^{re.escape(said)}$")


def test_a_race_takes_integers_and_floats_of_numpy(tmp_path):
    settings = {
        "n_classes": np.int64(3),
        "start": np.int64(5),
        "alpha": np.float64(0.1),
    }
    begun = add(race_of(folder=tmp_path, **settings), 10)
    plain = {name: value.item() for name, value in settings.items()}
    resumed = race_of(folder=tmp_path, **plain).resume()
    assert resumed.n_labels_ == begun.n_labels_ == 10


def test_other_transformers_of_the_same_names_are_refused(tmp_path):
    X = FEATURES["whole"]
    one, other = PCA(2).fit(X), PCA(2).fit(X[:30])
    options = {"n_classes": 3, "switcher": SWITCHER, "folder": tmp_path}
    EncoderRace({"pca": one, "raw": None}, **options).update(X[:5], LABELS[:5])
    EncoderRace({"pca": one, "raw": None}, **options).update(X[5:9], LABELS[5:9])
    frozen = {"pca": FrozenEstimator(other), "raw": None}
    for encoders in ({"pca": other, "raw": None}, frozen):
        with pytest.raises(ValueError, match="encoders must be"):
            EncoderRace(encoders, **options).resume()
    unknown = {"f": FunctionTransformer(lambda X: X), "raw": None}
    with pytest.raises(
        TypeError,
        match=r"must be picklable if folder is given, but 'f' is not \(Can't pickle "
        r"(local object )?<function .*<lambda> at \w+>(: .*)?\); pass folder=None, or "
        r"create EncoderRace\(\['f', \.\.\.\]\) and call "
        r"update\(\{name: features\}, y\)$",
    ):
        EncoderRace(unknown, 3, folder=tmp_path / "other").resume()


def test_a_folder_inside_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    race = race_of(folder=tmp_path / "file" / "r")
    with pytest.raises(ValueError, match=r"/file/r must be a .*/file is a file; pass"):
        add(race, 10)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_has_one_writer(tmp_path):
    first, second = race_of(folder=tmp_path), race_of(folder=tmp_path)
    add(first, 10)
    add(second, 20)  # which continues from the first 10
    refused(
        first,
        {name: X[10:12] for name, X in FEATURES.items()},
        LABELS[10:12],
        f"^{tmp_path} must hold the updates that this EncoderRace has read or written, "
        "but updates are new or missing; create the EncoderRace again, which resumes "
        "from the folder$",
    )
    again = add(race_of(folder=tmp_path), 30)
    assert_same(again, add(race_of(), 30))
    is_held, is_over = threading.Event(), threading.Event()

    def hold():
        with exclusive(tmp_path):
            is_held.set()
            is_over.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(20)
    rows = {name: FEATURES[name][30:31] for name in again.alive_}
    refused(again, rows, LABELS[30:31], "must have one writer")
    is_over.set()
    holder.join()
    assert_same(add(again, 31), add(race_of(), 31))


def test_damaged_folders_are_refused(tmp_path):
    folder = tmp_path / "race"
    add(race_of(folder=folder), 5, 10, 15)
    paths = sorted(folder.glob("labels-*"))
    middle = paths[1].read_bytes()
    paths[1].unlink()
    cure = "restore it, or delete the folder to begin again$"
    said = f"^{folder} must hold all updates of this race, but {paths[1].name} is "
    with pytest.raises(ValueError, match=f"{said}missing; {cure}"):
        race_of(folder=folder).resume()
    paths[1].write_bytes(middle[:-1] + b"x")
    said = f"^{paths[1]} must hold arrays saved by sklearn_mdl, but its checksum "
    with pytest.raises(ValueError, match=f"{said}differs; {cure}"):
        race_of(folder=folder).resume()
    paths[1].write_bytes(middle)
    assert_same(add(race_of(folder=folder), 20), add(race_of(), 20))
    arrays, about = read_archive(paths[1], "update")
    arrays = {name: np.array(array) for name, array in arrays.items()}
    forgeries = [
        ({**arrays, "labels": None}, about),
        (arrays, {**about, "encoders": 3}),
        (arrays, {**about, "classes": {"array": "?"}}),
    ]
    for tensors, facts in forgeries:  # with valid checksums
        kept = {name: array for name, array in tensors.items() if array is not None}
        write_archive(paths[1], "update", kept, facts)
        with pytest.raises(ValueError, match=f"{paths[1].name} must hold an update"):
            race_of(folder=folder).resume()
    paths[1].write_bytes(middle)
    for text in ("", "[1, 2]", "[" * 10**5, json.dumps({"alpha": 3})):
        (folder / "race.json").write_text(text)
        with pytest.raises(ValueError, match=r"race\.json must hold|must be"):
            race_of(folder=folder).resume()
    (folder / "race.json").unlink()  # as the message says
    assert race_of(folder=folder).resume().n_labels_ == 20
    said = (
        "must hold an update of this race, but it was saved with other settings; pass "
    )
    with pytest.raises(
        ValueError, match=rf"{said}those settings, or another folder \(--out\)$"
    ):
        race_of(folder=folder, alpha=0.1).resume()
    said = "race.json must hold the settings of a race, but it is damaged "
    (folder / "race.json").write_text("")
    with pytest.raises(
        ValueError,
        match=rf"{said}\(.*\); restore it, or delete it and pass the same settings$",
    ):
        race_of(folder=folder).resume()
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ValueError, match="must be a directory"):
        race_of(folder=file).resume()


def test_the_verdict_says_what_is_certified():
    race = race_of()
    assert race.resume().verdict().startswith("Not stopped. After 0 labels, 3 encoders")
    quick = add(race_of(alpha=0.4), N_LABELS)
    assert quick.should_stop_ == (len(quick.alive_) == 1)
    X = {"good": FEATURES["whole"], "noise": FEATURES["noise"]}
    for method, words in (("exact", "certified"), ("asymptotic", "not certified")):
        race = EncoderRace(list(X), 3, start=0, switcher=SWITCHER, method=method)
        for start in range(0, N_LABELS, 20):
            rows = slice(start, start + 20)
            now = {name: X[name][rows] for name in race.resume().alive_}
            race.update(now, LABELS[rows])
        verdict = race.verdict()
        assert race.should_stop_, verdict
        assert str(race.forecast()) == "about 0 more labels (0 to 0)"
        assert verdict.startswith(f"Stopped; {words}. 'good' leads after 60 labels.")
        assert "Out: 'noise'" in verdict
        assert "most 5 % of races err" in verdict
        assert ("By a normal approximation" in verdict) == (method == "asymptotic")
        stopped = 'A normal approximation stopped the race. method="exact" '
        assert (stopped in verdict) == (method == "asymptotic")


def test_notebooks_show_who_leads_and_names_are_texts():
    evil = "<script>alert(1)</script>"
    race = EncoderRace(["whole", evil], n_classes=3, start=5, switcher=SWITCHER)
    assert "EncoderRace" in race._repr_html_()  # not begun: its settings
    for rows in (slice(4), slice(4, None)):
        assert "leads" not in race._repr_html_()
        given = {"whole": FEATURES["whole"][rows], evil: FEATURES["noise"][rows]}
        race.update(given, LABELS[rows])
    shown = race._repr_mimebundle_()["text/html"]
    assert shown == race._repr_html_()
    assert "<script" not in shown
    page = ElementTree.fromstring(f"<div>{shown}</div>")
    lines = ["".join(line.itertext()) for line in page.findall("div")]
    assert lines == race.verdict().splitlines()
    texts = [[cell.text for cell in row] for row in page.findall("table/tbody/tr")]
    low, high = race.bounds_[1]
    (value,) = race.e_values_[1, :1]
    assert texts == [
        ["whole", "leads", "–", None, "–"],
        [
            evil,
            f"out after {race.eliminated_at_[evil]} labels",
            f"{low:.3g} to {high:.3g}",
            None,
            f"{value:.3g}",
        ],
    ]
    with config_context(display="text"):
        assert not hasattr(race, "_repr_html_")
    race = EncoderRace(["one", "same"], n_classes=3, start=5, switcher=SWITCHER)
    race.update(dict.fromkeys(["one", "same"], FEATURES["whole"]), LABELS)
    assert "0 to 0" in race._repr_html_()


def test_forecasts_say_about_how_many_labels_are_missing():
    race = add(race_of(within=0.4, start=5), 14)
    few = "after the first 5 must be at least 10, got 9; call update until it is$"
    with pytest.raises(ValueError, match=few):
        race.forecast()
    for most in (0, 2.5):
        with pytest.raises(ValueError, match="max_labels must be a positive integer"):
            race.forecast(most)
    found = add(race, 20).forecast(100)
    assert 0 < found.low <= found.labels <= found.high
    assert "more label" in str(found)
    assert str(race.forecast(1)) == "more than 1 more labels"


def test_the_history_ends_where_the_race_is():
    race = add(race_of(within=0.4), 50)
    history = race.history()
    assert history.log_e_values.shape == (50, 3)
    with np.errstate(over="ignore"):
        last = np.exp(history.log_e_values[-1])
    np.testing.assert_allclose(last, race.e_values_.max(1))
    np.testing.assert_allclose(history.lower[-1], race.bounds_[:, 0])
    np.testing.assert_allclose(history.upper[-1], race.bounds_[:, 1])
    assert (history.lower <= history.upper).all()


def test_images_are_encoded_as_they_come_and_bad_ones_lose_nothing(tmp_path):
    images, paths = pixels(12, 24, 24), []
    for i, image in enumerate(images):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(image).save(paths[-1])
    labels = np.arange(12) % 2
    encoders = {str(seed): TorchEncoder(network(seed), device="cpu") for seed in (0, 1)}
    options = {"n_classes": 2, "start": 2, "switcher": SWITCHER}
    race = EncoderRace(encoders, **options, folder=tmp_path / "race")
    race.update(paths[:5], labels[:5])
    paths[6].write_bytes(b"no image")
    refused(race, paths[5:8], labels[5:8], r"6\.png")
    Image.fromarray(images[6]).save(paths[6])
    again = EncoderRace(encoders, **options, folder=tmp_path / "race")
    again.update(paths[5:], labels[5:])
    features = {name: one.fit_transform(images) for name, one in encoders.items()}
    by_name = EncoderRace(list(encoders), **options)
    for rows in (slice(5), slice(5, 12)):
        by_name.update({n: F[rows] for n, F in features.items()}, labels[rows])
    np.testing.assert_allclose(again.losses_, by_name.losses_, rtol=1e-4, atol=1e-5)


def test_a_race_waits_for_ten_labels_of_rare_classes():
    rng = np.random.default_rng(0)
    y = np.zeros(150, dtype=int)
    y[::10] = 1  # ten of them after the first 5 labels and up to label 101
    features = {
        "a": rng.normal(size=(150, 2)) + y[:, None],
        "b": rng.normal(size=(150, 2)),
    }
    race = EncoderRace(list(features), n_classes=2, start=5, switcher=SWITCHER)
    for end in (100, 101):
        start = race.resume().n_labels_
        race.update({name: X[start:end] for name, X in features.items()}, y[start:end])
        has_evidence = race.e_values_.max() > 0
        assert has_evidence == (end == 101)
        assert np.isfinite(race.bounds_[race.bounds_.any(1)]).all() == has_evidence
    assert race.history().log_e_values[99].max() == -np.inf
    exact = EncoderRace(
        list(features), n_classes=2, start=5, switcher=SWITCHER, method="exact"
    )
    exact.update({name: X[:50] for name, X in features.items()}, y[:50])
    assert exact.e_values_.max() > 0


@pytest.mark.slow
def test_rare_classes_do_not_drop_the_better_encoder():
    n_dropped = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = (rng.random(300) < 0.02).astype(int)
        noise = rng.normal(size=(2, 300, 2))
        features = {"informed": noise[0] + 1.5 * y[:, None], "noise": noise[1]}
        race = EncoderRace(list(features), n_classes=2).update(features, y)
        n_dropped += "informed" in race.eliminated_at_
    assert n_dropped <= 4  # without a wait, a quarter
