"""Damaged files of every format are read, or refused in a sentence, within bounds.

Reads happen in a process of their own, since libraries may loop or crash.
``FUZZ=10000 python -m pytest -m slow -s tests/test_fuzz_readers.py`` tries so many.
"""

import os
import random
import shutil
import signal
import warnings
from collections import Counter
from contextlib import redirect_stdout
from functools import partial

import numpy as np
import pytest
import test_readers
import vtab_files
from memory_limit import two_gigabytes
from safetensors.numpy import save_file

from sklearn_mdl.cli import _race
from sklearn_mdl.cli._main import make_parser
from sklearn_mdl.cli._text import encoded_table
from sklearn_mdl.datasets import (
    load_features,
    load_representations,
    load_vtab,
    stage_rows,
)

FUZZ = int(os.environ.get("FUZZ", "200"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
MEMORY = 2**29
SECONDS = 15
AT_ONCE = 500  # files that a process reads, unless one ends it
LARGE = [2**k + d for k in (7, 8, 15, 16, 31, 32, 62, 63) for d in (-1, 0)]
RNG = np.random.default_rng(0)


def npy(root):
    np.save(root / "a.npy", RNG.normal(size=(6, 3)))
    return root / "a.npy", load_features


def safetensors(root):
    save_file({"X": RNG.normal(size=(6, 3))}, root / "a.safetensors")
    return root / "a.safetensors", load_features


def staged(ending):
    def write(root):
        path = root / f"a{ending}"
        test_readers.shard(path, slice(0, 6))

        def read(path):
            shutil.rmtree(root / "rows", ignore_errors=True)
            return stage_rows([path], root / "rows")

        return path, read

    return write


def few_of_eva(root):
    path = test_readers.eva(root)
    shutil.rmtree(path / "flat")
    manifest = path / "deep" / "study" / "manifest.csv"
    manifest.write_text("".join(manifest.read_text().splitlines(True)[:4]))
    return path


def texts(root):
    words = [f"one two {'three' * (i % 2)} {i}" for i in range(12)]
    table = {"text": words, "label": [f"c{i % 3}" for i in range(12)]}
    test_readers.write_table(root / "texts.csv", table | {"who": list("aabbccddeeff")})
    parse = make_parser().parse_args
    command = ["--groups", "who", "--missing", "drop"]
    return root / "texts.csv", lambda path: encoded_table(
        parse(["rank", str(path), *command])
    )


def vtab(root):
    vtab_files.retinopathy(root)
    return root, partial(load_vtab, "Retinopathy")


def labels_of_a_race(root):
    (root / "features").mkdir()
    np.save(root / "features" / "X.npy", RNG.normal(size=(12, 2)))
    np.save(root / "features" / "Z.npy", RNG.normal(size=(12, 2)))
    (root / "labels.txt").write_text("cat\ndog\ncat\ncow\n" * 3)
    command = ["race", str(root / "features"), "--out", str(root / "race"), "--once"]
    command += ["--labels", str(root / "labels.txt"), "--classes", "4", "--start", "5"]

    def read(_):
        shutil.rmtree(root / "race", ignore_errors=True)
        with redirect_stdout(None):
            _race.run(make_parser().parse_args(command))

    return root, read


def one_of(write):
    return lambda root: (write(root), load_representations)


# A writer for each format, and the endings of the files that are damaged.
FORMATS = {
    "npz": (one_of(test_readers.npz), (".npz",)),
    "npy": (npy, (".npy",)),
    "safetensors": (safetensors, (".safetensors",)),
    "staged safetensors": (staged(".safetensors"), (".safetensors",)),
    "staged parquet": (staged(".parquet"), (".parquet",)),
    "staged arrow": (staged(".arrow"), (".arrow",)),
    "h5ad": (one_of(test_readers.h5ad), (".h5ad",)),
    "compressed h5ad": (one_of(test_readers.compressed_h5ad), (".h5ad",)),
    "h5": (one_of(test_readers.hdf5), (".h5",)),
    "parquet": (one_of(test_readers.parquet_file), (".parquet",)),
    "arrow": (one_of(test_readers.saved), (".arrow", ".json")),
    "eva": (one_of(few_of_eva), (".pt",)),
    "HEAR": (one_of(test_readers.hear), (".pkl", ".json", ".npy")),
    "CSV of eva": (one_of(few_of_eva), (".csv",)),
    "CSV of h5": (one_of(test_readers.hdf5), (".csv",)),
    "CSV of texts": (texts, (".csv",)),
    "CSV of VTAB": (vtab, (".csv",)),
    "labels of a race": (labels_of_a_race, (".txt",)),
}


def damaged(content, rng, other):
    """Return other bytes: some flipped, cut out, put in, repeated, or made large."""
    found = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(7):
            case 0 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(found):
                found[at] = rng.randrange(256)
            case 2:
                del found[at : at + rng.choice([1, 4, 8, 100])]
            case 3:
                found[at:at] = rng.randbytes(rng.choice([1, 4, 8, 100]))
            case 4:
                size = rng.choice([4, 8])
                large = (rng.choice(LARGE) % 2 ** (8 * size)).to_bytes(size, "little")
                found[at : at + size] = large
            case 5:
                start = rng.randrange(len(other))
                found[at : at + 64] = other[start : start + 64]
            case 6:
                del found[at:]
    return bytes(found)


def outcome(read, path):
    """Return why a file was refused, "" if it was read."""
    try:
        with two_gigabytes(MEMORY), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read(path)
    except (ValueError, FileNotFoundError) as error:
        text = str(error)
        is_sentence = len(text) < 1500 and "; " in text and text.count("\n") == 0
        assert is_sentence, text[:2000]
        return text
    datasets = getattr(found, "datasets", {})
    for features, *_ in datasets.values():  # can be read to the end
        for X in features.values():
            np.array(X)
    return ""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_read_or_refused_in_a_sentence(name, tmp_path):
    write, endings = FORMATS[name]
    path, read = write(tmp_path)
    assert outcome(read, path) == ""
    files = sorted(p for p in tmp_path.rglob("*") if p.suffix in endings)
    whole = {file: file.read_bytes() for file in files}

    def read_damaged(i):
        rng = random.Random(f"{SEED} {name} {i}")
        file, other = rng.choice(files), rng.choice(files)
        file.write_bytes(damaged(whole[file], rng, whole[other]))
        said = "refused" if outcome(read, path) else "read"
        file.write_bytes(whole[file])
        return said

    found, i = Counter(), 0
    while i < FUZZ:
        for ending in endings_of(read_damaged, i):
            found[ending] += 1
            if ending not in ("read", "refused"):
                kept = shutil.copytree(
                    tmp_path, tmp_path.parent / f"damaged-{name}-{i}"
                )
                pytest.fail(f"number {i}, kept as {kept}: {ending}")
            i += 1
        for file in files:
            file.write_bytes(whole[file])
    print(f"{name}: {FUZZ} damaged files, {dict(found)}")


def endings_of(read_damaged, first):
    """Yield how reads end, made by one child until it dies or takes too long."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        for i in range(first, min(first + AT_ONCE, FUZZ)):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of a processor
            signal.alarm(40 * SECONDS)  # of the clock, which others may take
            try:
                said = read_damaged(i)
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"[:3000].replace("\n", " ")
                os.write(sender, f"{said}\n".encode())
                break
            os.write(sender, f"{said}\n".encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status)
        is_late = ended in (signal.SIGALRM, signal.SIGPROF)
        yield "looped" if is_late else f"ended by signal {ended}"
