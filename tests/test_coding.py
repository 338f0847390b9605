"""Labels decode, at the length of their code, or an error says why not."""

import copy
import json
import math
import pickle
import re
import struct
import subprocess
import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from constriction import stream
from each_case import for_each
from hypothesis import HealthCheck, example, given, settings, strategies as st
from memory_limit import two_gigabytes
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.utils import shuffle

from sklearn_mdl import (
    FixedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    decode_labels,
    encode_labels,
    readout_grid,
)
from sklearn_mdl.datasets import load_features, load_labels
from sklearn_mdl.switcher import LabelMessage
from sklearn_mdl.switcher._coding import encode
from sklearn_mdl.switcher._message import MAGIC, PREFIX
from sklearn_mdl.switcher._range_coder import (
    UNIT,
    LabelDecoderStream,
    LabelEncoderStream,
)
from sklearn_mdl.switching import RunLength

SHARED = Path(__file__).parents[2] / "shared" / "data" / "features"
BITS = 1 / math.log(2)
LOADERS = {
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
    "cancer": load_breast_cancer,
}
GRID = [
    *readout_grid(scaling=["standard", "whiten"], ema_step_size=[1.0, 0.03]),
    MLPReadout((16,), n_replay_streams=3),
]
X, y = shuffle(*load_iris(return_X_y=True), random_state=0, n_samples=50)


def small(**params):
    return MDLReadoutSwitcher(**{"readouts": GRID[::4], "random_state": 0, **params})


@cache
def message_of_iris():
    return encode_labels(small(), X, y)


def rewritten(message, change):
    """Change a header in place, and give the message a checksum that fits."""
    read = LabelMessage.from_bytes(message)
    header = copy.deepcopy(read.header)
    change(header)
    return LabelMessage(header, read.payload).to_bytes()


def assert_decodes(switcher, X, y):
    """Labels decode, in as many bits as the codelength of a plain fit."""
    fitted = clone(switcher).fit(X, y)
    message = encode_labels(switcher, X, y)
    found = decode_labels(switcher, X, message)
    np.testing.assert_array_equal(found, y)
    assert found.dtype == np.asarray(y).dtype
    bits = fitted.codelength_ * BITS
    payload = LabelMessage.from_bytes(message).payload_bits
    assert abs(payload - bits) <= 0.001 * bits + 64


# The coder


def units_of(probabilities):
    """What every label gets of 2^24 units, read off the coder's interval."""
    whole = (2**64 - 1) >> 24
    found = []
    for label in range(len(probabilities)):
        encoder = stream.queue.RangeEncoder()
        encoder.encode(
            label, stream.model.Categorical(probabilities, perfect=False, lazy=True)
        )
        units, rest = divmod(encoder.pos()[1][1], whole)
        assert rest == 0
        found.append(units)
    return np.array(found)


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=30).filter(lambda p: sum(p) > 1e-3)
)
@example([1.0, 0.0])
@example([1.0, *[0.0] * 999])
def test_every_label_gets_its_share_rounded_up_and_at_least_a_unit(weights):
    p = np.array(weights) / sum(weights)
    units = units_of(p)
    assert units.sum() <= 2**24
    assert units.min() >= 1
    assert (units >= np.floor(p * (2**24 - len(p)))).all()


@given(st.integers(2, 50), st.floats(0.01, 3), st.integers(0, 200), st.integers(0, 99))
@settings(deadline=None)
def test_labels_come_back_at_the_cost_of_their_probabilities(C, spread, n, seed):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(C, spread), size=n)
    labels = [int(rng.choice(C, p=p)) for p in proba]
    encoder = LabelEncoderStream()
    for label, p in zip(labels, proba, strict=True):
        encoder.put(label, p)
    decoder = LabelDecoderStream(encoder.payload)
    assert [decoder.take(p) for p in proba] == labels
    decoder.finish()
    ideal = -np.log2(proba[np.arange(n), labels]).sum() if n else 0
    assert ideal - 1 <= 8 * len(encoder.payload) <= ideal + 64


def test_an_impossible_label_costs_24_bits():
    encoder = LabelEncoderStream()
    for _ in range(1000):
        encoder.put(2, np.array([1.0, 0.0, 0.0]))
    assert abs(8 * len(encoder.payload) - 24 * 1000) <= 64
    assert UNIT == 2.0**-24


def test_a_payload_that_no_label_can_have_left_is_refused():
    decoder = LabelDecoderStream(b"\xff" * 20)
    with pytest.raises(ValueError, match=r"^A payload must be decoded as it was enc"):
        [decoder.take(np.array([0.2, 0.3, 0.5])) for _ in range(50)]


def test_without_constriction_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "constriction", None)
    with pytest.raises(ImportError, match=r'pip install "sklearn-mdl\[coding\]"$'):
        encode_labels(small(), X, y)
    with pytest.raises(ImportError, match="Coding labels needs constriction"):
        decode_labels(small(), X, message_of_iris())


# Real data


@pytest.mark.parametrize("name", LOADERS)
def test_real_labels_come_back_at_their_codelength(name):
    switcher = MDLReadoutSwitcher(GRID, shuffle=True, random_state=0)
    X, y = LOADERS[name](return_X_y=True)
    assert_decodes(switcher, X[:300], y[:300])


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADERS)
def test_labels_are_decoded_with_the_default_grid(name):
    switcher = MDLReadoutSwitcher(shuffle=True, random_state=0)
    assert_decodes(switcher, *LOADERS[name](return_X_y=True))


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="no deep features here")
@pytest.mark.parametrize(
    "name", ["caltech101/mobilenetv1-050_sup-imagenet", "pneumonia/conv_cpc-mnist"]
)
def test_labels_of_deep_features_come_back_at_their_codelength(name):
    path = SHARED / f"{name}.npy"
    features = load_features(path)
    labels = load_labels(path.with_name("labels.npy"))
    switcher = MDLReadoutSwitcher(GRID, random_state=0)
    assert_decodes(switcher, features, labels)


@pytest.mark.slow
def test_a_decoder_in_another_process_needs_the_features_alone(tmp_path):
    np.save(tmp_path / "features.npy", X)
    (tmp_path / "message").write_bytes(message_of_iris())
    code = (
        "import numpy as np; from pathlib import Path; import sklearn_mdl as s;"
        "grid = [s.LinearReadout(), s.MLPReadout((16,), n_replay_streams=3)];"
        "switcher = s.MDLReadoutSwitcher(grid, random_state=0);"
        "message = Path('message').read_bytes();"
        "print(*s.decode_labels(switcher, np.load('features.npy'), message))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True
    )
    assert found.stdout.split() == [b"%d" % label for label in y]


# Settings


@pytest.mark.parametrize(
    "prior",
    [
        "learned-share",
        "fixed-share",
        "switch-distribution",
        "run-length",
        "universal-share",
        "bayes",
        "elementwise",
        RunLength(n_rates=None),
    ],
    ids=str,
)
def test_every_prior_decodes(prior):
    assert_decodes(small(switching=prior), X, y)


@pytest.mark.parametrize(
    ("batch_size", "shuffle"), [(1, True), (3, False), (32, True), (1000, False)]
)
def test_every_batch_size_and_order_decodes(batch_size, shuffle):
    assert_decodes(small(batch_size=batch_size, shuffle=shuffle), X, y)


@pytest.mark.parametrize("weights", ["architecture", [0, 2.5]])
def test_weights_of_readouts_decode(weights):
    assert_decodes(small(readout_weights=weights), X, y)


def test_a_readout_alone_decodes():
    assert_decodes(LinearReadout(lr=0.03, batch_size=8, random_state=3), X, y)


def test_two_examples_are_enough():
    assert_decodes(small(), X[:2], np.array([5, -5]))


def test_grouped_labels_are_warned_of_as_in_fit():
    order = np.argsort(y, kind="stable")
    with pytest.warns(UserWarning, match="grouped by class") as caught:
        encode_labels(small(), X[order], y[order])
    assert caught[0].filename == __file__


# Labels


@for_each(
    "names",
    [
        np.array(["a", "ein längeres Wort", "\U0001f600\n\t\x00x"]),
        np.array(["same width", "as if padd", "ed"], dtype="<U40"),
        np.array(["setosa", "", "virginica"], dtype=object),
        np.array(["\ud83d\ude00", "\U0001f600", "\ud83d"], dtype=object),
        np.array([-3, 0, 2**62]),
        np.array([-3, 0, 2], dtype=np.int8),
        np.array([250, 0, 2], dtype=np.uint8),
        np.array([2**63 + 1, 0, 2], dtype=np.uint64),
        np.array([-3, 0, 2], dtype=">i4"),
        np.array([1.0, -2.0, 7.0], dtype=np.float32),
        np.array([True, False, True]),
    ],
)
def test_labels_come_back_as_what_they_were(names):
    rows, labels = X[:20], names[y[:20]]
    found = decode_labels(small(), rows, encode_labels(small(), rows, labels))
    assert found.dtype == labels.dtype
    assert found.tolist() == labels.tolist()


@for_each(
    "given", [y.tolist(), pd.Series(y, index=y[::-1]), pd.Series(y).astype("category")]
)
def test_labels_in_containers_come_back_as_arrays(given):
    found = decode_labels(small(), X, encode_labels(small(), X, given))
    np.testing.assert_array_equal(found, y)


def test_a_class_that_comes_last_and_once_costs_and_comes():
    labels = np.where(np.arange(len(y)) == len(y) - 1, 7, y)
    assert_decodes(small(), X, labels)


@for_each(
    "labels, message",
    [
        (y.astype(np.longdouble), "integers, booleans or text.*got labels of dtype f"),
        (y.astype(object) + 1.5, "Unknown label type"),
        (np.zeros(len(y)), "at least two classes"),
        (y[:-1], "inconsistent numbers"),
    ],
)
def test_labels_that_cannot_be_coded_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(small(), X, labels)


# Features


def mapped(rows, path, order):
    np.save(path, np.array(rows, order=order))
    return np.load(path, mmap_mode="r")


def test_features_that_lie_in_memory_otherwise_cost_the_same_to_the_bit(tmp_path):
    X, y = shuffle(*load_digits(return_X_y=True), random_state=0, n_samples=300)
    message = encode_labels(small(), X, y)
    for form in (np.asfortranarray(X), mapped(X, tmp_path / "f.npy", "F")):
        assert encode_labels(small(), form, y) == message


def test_the_same_features_in_another_form_decode(tmp_path):
    message = message_of_iris()
    forms = [
        X.astype(np.float32),
        np.asfortranarray(X),
        X.tolist(),
        pd.DataFrame(X, columns=list("abcd")),
        np.repeat(X, 2, axis=1)[:, ::2],
        mapped(X, tmp_path / "c.npy", "C"),
        mapped(X, tmp_path / "f.npy", "F"),
    ]
    for form in forms:
        np.testing.assert_array_equal(decode_labels(small(), form, message), y)


def with_one_ulp_more(X):
    changed = X.astype(np.float32)
    changed[-1, -1] = np.nextafter(changed[-1, -1], np.float32(np.inf))
    return changed


@for_each(
    "change, field",
    [
        (with_one_ulp_more, "features.sha256"),
        (lambda X: X[::-1], "features.sha256"),
        (lambda X: X[:-1], "features.n_samples is 49 here and 50 in the message"),
        (lambda X: X[:, 1:], "features.n_features is 3 here and 4 in the messag"),
    ],
)
def test_other_features_are_refused(change, field):
    with pytest.raises(ValueError, match=f"but {field}"):
        decode_labels(small(), change(X), message_of_iris())


def test_features_are_checked_as_in_fit():
    with pytest.raises(ValueError, match="NaN"):
        decode_labels(small(), np.where(X > 5, np.nan, X), message_of_iris())


# What decoding depends on


SETTINGS = {
    "batch_size": 31,
    "shuffle": True,
    "random_state": 1,
    "readout_weights": [1.0, 2.0],
    "switching.class": FixedShare(),
    "readouts": GRID[:1],
    "readouts[0].lr": [LinearReadout(lr=0.1), GRID[4]],
    "readouts[0].scaling": [LinearReadout(scaling=None), GRID[4]],
    "readouts[0].random_state": [LinearReadout(random_state=0), GRID[4]],
    "readouts[1].hidden_layer_sizes[0]": [GRID[0], MLPReadout((17,))],
    "readouts[1].class": [GRID[0], GRID[0]],
}


@for_each("name", [*SETTINGS, "switching.ms", "readouts: none"])
def test_other_settings_are_refused_by_name(name):
    field = name.split(":")[0]
    message, switcher = message_of_iris(), small(readouts=None)
    if field == "switching.ms":
        message = rewritten(
            message, lambda h: h["settings"]["switching"].update(ms=[2, 3])
        )
        switcher = small()
    elif name in SETTINGS:
        switcher = small(**{re.match(r"\w+", name)[0]: SETTINGS[name]})
    with pytest.raises(ValueError, match=f"but settings.{re.escape(field)} is "):
        decode_labels(switcher, X, message)


@for_each(
    "params",
    [
        {"n_jobs": 2},
        {"verbose": 0},
        {"device": "cpu"},
        {"switching": "learned-share"},
        {"random_state": np.int64(0)},
        {
            "readouts": [
                LinearReadout(batch_size=7),
                MLPReadout([16], n_replay_streams=3),
            ]
        },
    ],
)
def test_settings_that_change_no_number_may_differ(params):
    switcher = small(**params)
    if "device" not in params:
        assert encode_labels(switcher, X, y) == message_of_iris()
    np.testing.assert_array_equal(decode_labels(switcher, X, message_of_iris()), y)


@pytest.mark.parametrize("name", ["store", "checkpoint"])
def test_a_switcher_that_writes_files_leaves_none_there(tmp_path, name):
    switcher = small(**{name: tmp_path / "there"})
    message = encode_labels(switcher, X, y)
    np.testing.assert_array_equal(decode_labels(switcher, X, message), y)
    assert not any(tmp_path.iterdir())


def test_the_switcher_that_codes_stays_as_it_was():
    switcher = small()
    decode_labels(switcher, X, encode_labels(switcher, X, y))
    assert not hasattr(switcher, "classes_")
    fitted = small().fit(X[:40], y[:40])
    before = pickle.dumps(fitted.codelengths_)
    assert encode_labels(fitted, X, y) == message_of_iris()
    assert pickle.dumps(fitted.codelengths_) == before


@for_each(
    "params",
    [
        {"random_state": None},
        {"random_state": np.random.RandomState(0)},
        {"readouts": [LinearReadout(random_state=np.random.RandomState(0))]},
    ],
)
def test_seeds_that_a_decoder_cannot_repeat_are_refused(params):
    with pytest.raises(ValueError, match=r"must be an integer.*random_state=0$"):
        encode_labels(small(**params), X, y)
    with pytest.raises(ValueError, match=r"must be an integer.*random_state=0$"):
        decode_labels(small(**params), X, message_of_iris())


class Tuned(FixedShare):
    """A prior with a parameter of no plain type."""

    def __init__(self, m=2, *, alpha=None, memory=None):
        super().__init__(m, alpha=alpha)
        self.memory = memory


def test_settings_that_cannot_be_written_down_are_refused():
    assert_decodes(small(switching=Tuned(3, memory={"a": (1, math.inf)})), X, y)
    with pytest.raises(
        TypeError,
        match=r"^A message must hold all settings, but switching.memory must "
        r"consist of .*, got <object .*; use such a value for this setting$",
    ):
        encode_labels(small(switching=Tuned(memory=object())), X, y)


def test_other_estimators_are_refused():
    for thing in (FixedShare(), None, MDLReadoutSwitcher):
        with pytest.raises(TypeError, match="must be an MDLReadoutSwitcher or a sing"):
            encode_labels(thing, X, y)
        with pytest.raises(TypeError, match="must be an MDLReadoutSwitcher or a sing"):
            decode_labels(thing, X, message_of_iris())


def test_bad_parameters_are_refused_as_in_fit():
    with pytest.raises(ValueError, match="'batch_size' parameter"):
        encode_labels(small(batch_size=0), X, y)
    with pytest.raises(TypeError, match="pass readouts='linear', without a list"):
        encode_labels(small(readouts=["linear"]), X, y)


@pytest.mark.parametrize("flush", [True, False])
def test_threads_and_denormals_around_it_are_no_matter(flush):
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.set_flush_denormal(flush)
    try:
        assert encode_labels(small(), X, y) == message_of_iris()
        np.testing.assert_array_equal(decode_labels(small(), X, message_of_iris()), y)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(n_threads)
        torch.set_flush_denormal(False)


# The message


def test_the_format_is_what_its_table_says():
    header = json.dumps(LabelMessage.from_bytes(message_of_iris()).header)
    header = header.replace('": ', '":').replace(", ", ",").encode()
    payload = LabelMessage.from_bytes(message_of_iris()).payload
    body = b"\x89MDLY\r\n\x1a" + struct.pack("<HI", 1, len(header)) + header + payload
    assert body + sha256(body).digest() == message_of_iris()


def test_header_and_payload_are_separated():
    message, switcher = encode(small(), X, y)
    assert message.to_bytes() == message_of_iris()
    assert message.payload_bits == 8 * len(message.payload)
    assert message.payload_bits + message.header_bits == 8 * len(message.to_bytes())
    assert switcher.codelength_ == small().fit(X, y).codelength_
    assert (switcher.predict(X) == small().fit(X, y).predict(X)).all()
    about = message.header
    assert about["features"]["n_samples"] == len(X)
    assert about["labels"]["classes"] == [0, 1, 2]
    assert about["environment"]["versions"]["torch"] == torch.__version__
    assert about["environment"]["threads"] == 1


@pytest.mark.slow
def test_any_flipped_bit_is_noticed():
    whole = message_of_iris()
    for place in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(ValueError, match=r"^A message must "):
            decode_labels(small(), X, bytes(flipped))


def test_any_cut_and_any_addition_is_noticed():
    whole = message_of_iris()
    cut = [whole[:stop] for stop in range(len(whole))]
    cut += [whole[start:] for start in range(1, len(whole))]
    for broken in [*cut, whole + b"\0", whole + bytes(4), whole + whole, b"\0" + whole]:
        with pytest.raises(ValueError, match=r"^A message must "):
            decode_labels(small(), X, broken)


def leaves(header, place=()):
    """Yield the way to everything in a header that holds nothing itself."""
    items = header.items() if isinstance(header, dict) else enumerate(header)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from leaves(value, (*place, key))
        else:
            yield (*place, key)


def changed(value):
    if isinstance(value, str):
        return value + "?"
    return "?" if value is None else not value if value in (True, False) else value + 1


def places_in_header():
    return list(leaves(LabelMessage.from_bytes(message_of_iris()).header))


def inner(header, place):
    for key in place[:-1]:
        header = header[key]
    return header


def refusal_of(message):
    with pytest.raises(
        ValueError, match=r"^(A message|A payload|The labels) "
    ) as found:
        decode_labels(small(), X, message)
    return str(found.value)


def test_every_field_of_the_header_is_looked_at():
    places = places_in_header()
    assert len(places) > 30
    for place in places:

        def change(header, place=place):
            held = inner(header, place)
            held[place[-1]] = changed(held[place[-1]])

        text = refusal_of(rewritten(message_of_iris(), change))
        if place[0] == "labels":  # nothing here to compare with, but for the checksum
            assert "labels.sha256" in text or "labels.classes" in text
            continue
        name = "".join(f".{k}" if isinstance(k, str) else f"[{k}]" for k in place)[1:]
        assert f"but {name} is " in text
        assert text.count(" here and ") == text.count(" in the message;") == 1


def test_no_field_of_the_header_may_be_missing():
    for place in places_in_header():

        def change(header, place=place):
            del inner(header, place)[place[-1]]

        assert refusal_of(rewritten(message_of_iris(), change))


@for_each(
    "change",
    [
        lambda h: h.update(settings=[]),
        lambda h: h.update(labels=None),
        lambda h: h["labels"].update(classes=[2, 1, 0]),
        lambda h: h["labels"].update(classes=[0, 0, 1]),
        lambda h: h["labels"].update(classes=[[0], [1], [2]]),
        lambda h: h["labels"].update(classes=["a", "b", "c"]),
        lambda h: h["labels"].update(classes=[0, 1, 2**70]),
        lambda h: h["labels"].update(dtype="O"),
        lambda h: h["labels"].update(dtype="i4,(100000000,)f8"),
        lambda h: h["labels"].update(dtype="<U99999", classes=["a", "b"] * 5000),
        lambda h: h["labels"].update(dtype="<U9999", classes=["a", "b", "c"]),
        lambda h: h["labels"].update(classes=list(range(10**6))),
        lambda h: h["labels"].update(more=1),
        lambda h: h["features"].update(n_samples=True),
        lambda h: h["environment"].update(more=1),
        lambda h: h["settings"]["readouts"].append({"class": "LinearReadout"}),
    ],
)
def test_a_header_with_invalid_fields_is_refused(change):
    with two_gigabytes():
        with pytest.raises(ValueError, match=r"^(A message|The labels) must ") as found:
            decode_labels(small(), X, rewritten(message_of_iris(), change))
        assert len(str(found.value)) < 1000


def test_a_dtype_far_wider_than_its_words_is_refused_before_it_is_sent():
    words = np.array(["a", "b"], dtype="<U300")[y % 2]
    with pytest.raises(
        ValueError, match=r"text whose dtype has at most .* got '<U300'"
    ):
        encode_labels(small(), X, words)


def framed(header, payload=b"", number=1, length=None):
    length = len(header) if length is None else length
    body = PREFIX.pack(MAGIC, number, length) + header + payload
    return body + sha256(body).digest()


@for_each(
    "message, what",
    [
        (b"", "begins with"),
        (MAGIC, "less than the frame"),
        (framed(b"{}", number=0), "format 'message 1', which .* format 'message 0'; "),
        (framed(b"{}", length=3), "a header of 3 bytes"),
        (framed(b"{}", b"abc"), "a header of 2 bytes in a message of"),
        (framed(b"{}"), "settings|environment"),
        (framed(b"[]"), "environment=None"),
        (framed(b"\xff\xfe"), "not JSON"),
        (framed(b'{"a":1,"a":1}'), "not JSON"),
        (framed(b'{"a":NaN}'), "not JSON"),
        (framed(b'{"a":1e999}'), "not JSON"),
        (framed(b"[" * 100_000), "not JSON"),
        (framed(b"1" * 10_000), "not JSON"),
        (framed(b'{"a": 1}'), "not JSON"),
    ],
)
def test_what_is_no_message_is_refused_in_a_sentence(message, what):
    with pytest.raises(ValueError, match=what):
        decode_labels(small(), X, message)


def test_a_message_is_bytes():
    whole = message_of_iris()
    for kind in (bytearray, memoryview):
        np.testing.assert_array_equal(decode_labels(small(), X, kind(whole)), y)
    with pytest.raises(
        TypeError,
        match=r"^message must be bytes, got str; pass message.to_bytes\(\) for",
    ):
        decode_labels(small(), X, whole.decode("latin1"))


@for_each("word", [0, 1, -1])
def test_another_payload_under_the_right_checksum_never_gives_labels(word):
    read = LabelMessage.from_bytes(message_of_iris())
    words = np.frombuffer(read.payload, dtype="<u4").copy()
    words[word] ^= 1 << 20
    more = words.tobytes() + bytes(8)
    for payload in (words.tobytes(), words[:-2].tobytes(), b"", more):
        message = LabelMessage(read.header, payload).to_bytes()
        with pytest.raises(ValueError, match=r"^(The labels|A payload) must "):
            decode_labels(small(), X, message)


# Anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@st.composite
def mutated(draw):
    """Take a message, cut and splice it, and perhaps give it a checksum that fits."""
    data = bytearray(message_of_iris())
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = draw(st.integers(start, min(len(data), start + 40)))
        data[start:stop] = draw(st.binary(max_size=20))
    body = bytes(data[:-32])
    return body + sha256(body).digest() if draw(st.booleans()) else bytes(data)


@st.composite
def forged(draw):
    """Take a message, and let one field of its header say anything."""
    place = draw(st.sampled_from(places_in_header()))
    depth = draw(st.integers(1, len(place)))
    value = draw(JSON)

    read = LabelMessage.from_bytes(message_of_iris())
    header = copy.deepcopy(read.header)
    inner(header, place[:depth])[place[depth - 1]] = value
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    return framed(text.encode("utf-8", "surrogatepass"), read.payload)


def anything():
    frames = st.builds(framed, st.binary(max_size=60), st.binary(max_size=12))
    headers = st.builds(lambda h: framed(json.dumps(h).encode()), JSON)
    return st.binary(max_size=200) | frames | headers | mutated() | forged()


def assert_labels_or_a_sentence(message):
    with suppress(ValueError):
        np.testing.assert_array_equal(decode_labels(small(), X, message), y)


@settings(max_examples=100, deadline=None)
@given(anything())
def test_whatever_comes_as_a_message_gives_the_labels_or_a_sentence(message):
    with two_gigabytes():
        assert_labels_or_a_sentence(message)


@pytest.mark.slow
def test_a_hundred_thousand_messages_give_the_labels_or_a_sentence():
    n = 0

    @settings(
        max_examples=100_000,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(anything())
    def check(message):
        nonlocal n
        n += 1
        assert_labels_or_a_sentence(message)

    with two_gigabytes():
        check()
    assert n >= 100_000
