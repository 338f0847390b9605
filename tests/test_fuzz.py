"""Any bytes in a file give an array or an error that names the file."""

import io
import json
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings, strategies as st
from memory_limit import two_gigabytes

from sklearn_mdl.datasets import load_features, load_labels
from sklearn_mdl.switcher import load_losses

quick = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
long = settings(quick, max_examples=100_000)

SUFFIXES = (".npy", ".npz", ".safetensors")
HEADERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["__metadata__", "X", "dtype", "shape", "data_offsets", "descr", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def whole(suffix, array):
    if suffix == ".safetensors":
        return safetensors.numpy.save({"X": array})
    file = io.BytesIO()
    if suffix == ".npy":
        np.save(file, array)
    else:
        np.savez(file, X=array)
    return file.getvalue()


def with_header(suffix, header):
    """Make a file whose header says anything."""
    if suffix == ".safetensors":
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + bytes(24)
    text = repr(header).encode("latin1", "replace") + b"\n"
    npy = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(24)
    if suffix == ".npy":
        return npy
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("X.npy", npy)
    return file.getvalue()


@st.composite
def files(draw):
    """A suffix, and bytes: of no file, a damaged one, or one that says anything."""
    suffix = draw(st.sampled_from(SUFFIXES))
    kind = draw(st.sampled_from(["bytes", "spliced", "header"]))
    if kind == "bytes":
        return suffix, draw(st.binary(max_size=200))
    if kind == "header":
        return suffix, with_header(suffix, draw(HEADERS))
    dtype = draw(st.sampled_from(["f4", "f8", "i8", "U3", "?", "M8[s]", "c8", "V4"]))
    if suffix == ".safetensors" and dtype not in ("f4", "f8", "i8", "?"):
        dtype = "f4"
    content = bytearray(whole(suffix, np.zeros((3, 2), dtype=dtype)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        content[at : at + draw(st.integers(0, 9))] = draw(st.binary(max_size=9))
    return suffix, bytes(content)


# Readers, and the number of dimensions of what they return.
READERS = {load_features: 2, load_labels: 1, load_losses: 2}


def read(read_file, path, content):
    path.write_bytes(content)
    try:
        found = read_file(path)
    except ValueError as error:
        return path.name in str(error)
    array = np.array(getattr(found, "losses", found))  # can be read to its end
    return array.ndim == READERS[read_file]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def fuzz(folder, file):
    suffix, content = file
    for read_file in READERS:
        if suffix == ".npy" or read_file is not load_losses:
            with two_gigabytes():
                assert read(read_file, folder / f"a{suffix}", content)


@pytest.mark.filterwarnings("ignore")
@quick
@given(file=files())
def test_no_file_breaks_a_reader(folder, file):
    fuzz(folder, file)


def zeros_npz(n_bytes, promised):
    """Make a compressed file of zeros, whose header promises so many of them."""
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (promised // 8, 1)}
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, header)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", array.getvalue() + bytes(n_bytes))
    return file.getvalue()


@pytest.mark.parametrize(
    ("n_bytes", "promised", "message"),
    [
        (2**20, 8 * 10**12, "bytes instead of 8000000000"),
        (2**20, 0, "bytes instead of 128"),
        (2**27, 2**27, "Unable to allocate 128. MiB"),
    ],
)
def test_an_archive_that_promises_more_than_there_is_room_for_is_refused(
    folder, n_bytes, promised, message
):
    path = folder / "bomb.npz"
    path.write_bytes(zeros_npz(n_bytes, promised))
    with two_gigabytes(2**26), pytest.raises(ValueError, match=message):
        load_features(path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@long
@given(file=files())
def test_none_of_a_hundred_thousand_files_breaks_a_reader(folder, file):
    fuzz(folder, file)
