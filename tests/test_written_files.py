"""Every place that writes files is in one table, with its rule.

Where a user names the file, one of other origin is never replaced.
"""

import ast
import contextlib
import functools
import io
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.datasets import load_iris
from written_files import WRITERS

import sklearn_mdl
from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    RepresentationScorer,
    write_results,
)
from sklearn_mdl.cli._main import main
from sklearn_mdl.datasets import stage_rows
from sklearn_mdl.encoders import image_rows, views_of
from sklearn_mdl.model_selection import EncoderRace, export_probe
from sklearn_mdl.report import Comparison
from sklearn_mdl.switcher import save_losses

PACKAGE = Path(sklearn_mdl.__file__).parent
# Methods and functions that write, whatever they belong to.
WRITE = {
    "FileLock",
    "GrowingArray",
    "NamedTemporaryFile",
    "SpooledTemporaryFile",
    "TemporaryDirectory",
    "copy2",
    "copyfile",
    "copytree",
    "exclusive",
    "hardlink_to",
    "makedirs",
    "mkdir",
    "mkdtemp",
    "mkstemp",
    "removedirs",
    "replaced",
    "rmdir",
    "rmtree",
    "save_file",
    "savefig",
    "savetxt",
    "savez",
    "savez_compressed",
    "symlink_to",
    "to_csv",
    "to_excel",
    "to_feather",
    "to_hdf",
    "to_parquet",
    "to_pickle",
    "tofile",
    "touch",
    "truncate",
    "unlink",
    "write_archive",
    "write_bytes",
    "write_text",
}
# Those of modules, whose names are also those of harmless methods.
OF_MODULES = {
    "joblib.dump",
    "json.dump",
    "np.save",
    "os.open",
    "os.remove",
    "os.rename",
    "os.replace",
    "pickle.dump",
    "shutil.copy",
    "shutil.move",
    "torch.save",
}


def written_by(call):
    """Return what a call is named in the table, None if it does not write."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if last in WRITE:
        return last
    if name in OF_MODULES:
        return name
    if last in ("memmap", "open_memmap", "open"):
        # `open(path, mode)`, `path.open(mode)`, and a map's mode wherever it stands.
        given = [*call.args, *(k.value for k in call.keywords if k.arg == "mode")]
        modes = [a.value for a in given if isinstance(a, ast.Constant)]
        if any(isinstance(m, str) and re.fullmatch("[rwxabt+c]+", m) for m in modes):
            return last if set("wxa+") & set("".join(map(str, modes))) else None
        named = any(k.arg == "mode" for k in call.keywords)
        return last if named or (name == "open" and len(call.args) > 1) else None
    return None


def writers(source):
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    return {name for call in calls if (name := written_by(call)) is not None}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("open(p)", None),
        ("open(p, 'rb')", None),
        ("open(p, 'w')", "open"),
        ("open(p, mode)", "open"),
        ("p.open(mode='x')", "open"),
        ("p.open('r+b')", "open"),
        ("checkpoint.open(trace)", None),
        ("np.memmap(p, 'f4', 'r')", None),
        ("np.memmap(p, 'f4', 'w+')", "memmap"),
        ("np.load(p, mmap_mode='r')", None),
        ("np.save(p, x)", "np.save"),
        ("estimator.save(p)", None),
        ("text.replace('a', 'b')", None),
        ("os.replace(a, b)", "os.replace"),
    ],
)
def test_a_call_that_writes_is_recognised(source, found):
    assert writers(source) == ({found} - {None})


WORDS = "is not; move it|of another kind|Output must not|other origin"


def modules_that_write():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if names := writers(path.read_text(encoding="utf-8")):
            found[path.relative_to(PACKAGE).as_posix()] = sorted(names)
    return found


def test_every_place_that_writes_files_has_its_rule():
    found = modules_that_write()
    listed = {module: calls for module, (calls, *_) in WRITERS.items()}
    assert found == listed
    assert list(listed) == sorted(listed)


# No writer replaces a file of other origin

X, Y = load_iris(return_X_y=True)
SWITCHER = MDLReadoutSwitcher([KernelReadout("linear")], shuffle=True, random_state=0)


def saves(folder):
    SWITCHER.fit(X, Y).save(folder / "a.safetensors")


@functools.cache
def scorer():
    return RepresentationScorer(SWITCHER).fit({"iris": ({"raw": X}, Y)})


def writes_results(folder):
    write_results(scorer(), folder)


def writes_a_page(folder):
    Comparison(scorer()).to_html(folder / "page.html")


def exports_a_probe(folder):
    export_probe(SWITCHER.fit(X, Y), X, Y).save(folder / "probe.safetensors")


def races(folder):
    race = EncoderRace(["a", "b"], 3, switcher=SWITCHER, start=5, folder=folder)
    if race.resume().n_labels_ == 0:
        race.update({"a": X[:6], "b": X[:6, :2]}, Y[::25])


def makes_views(folder):
    views_of(np.ones((3, 2, 4, 2)), path=folder / "views.npy")


def stages(folder):
    save_file({"X": X, "y": Y}, folder.parent / "shard.safetensors")
    stage_rows([folder.parent / "shard.safetensors"], folder)


def saves_losses(folder):
    save_losses(folder / "losses.npy", np.ones((3, 2)))


def makes_rows(folder):
    image_rows(np.zeros((2, 3, 3, 3), np.uint8), path=folder / "rows.npy")


def called(folder, command, *options):
    """Run the command line on the features and labels of a folder."""
    np.save(folder.parent / "X.npy", X)
    np.save(folder.parent / "y.npy", Y)
    words = [str(folder.parent / w) if "." in w else w for w in (command, *options)]
    run(words)


def run(words):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = main(words)
    if status:
        raise ValueError(said.getvalue())


def encodes(folder):
    name = f"{folder.name}/labels.mdl"
    called(folder, "encode", "X.npy", "y.npy", "--out", name, "--readouts", "linear")


def decodes(folder):
    own = folder.parent / "message.mdl"
    if not own.exists():
        with contextlib.redirect_stdout(io.StringIO()):
            options = ["--out", "message.mdl", "--readouts", "linear"]
            called(folder, "encode", "X.npy", "y.npy", *options)
    name = f"{folder.name}/y.npy"
    options = ["--out", name, "--readouts", "linear"]
    called(folder, "decode", "X.npy", "message.mdl", *options)


def remixes(folder):
    losses = folder.parent / "losses.npy"
    save_losses(losses, np.random.default_rng(0).exponential(size=(9, 2)))
    run(["remix", str(losses), "--out", str(folder)])


# Modules that write under names that a user has chosen, with a call of each that takes
# a folder; those that write again what they wrote before come first.
AGAIN = {
    "_core/base/saving.py": saves,
    "cli/_encode.py": encodes,
    "cli/_remix.py": remixes,
    "datasets/_readers/shards.py": stages,
    "model_selection/_export.py": exports_a_probe,
    "model_selection/_race_folder.py": races,
    "report/_comparison.py": writes_a_page,
    "report/_report.py": writes_results,
    "report/_tables.py": writes_results,
    "switcher/_loss_files.py": saves_losses,
}
ONCE = {
    "_core/images/rows.py": makes_rows,
    "cli/_decode.py": decodes,
    "encoders/_views.py": makes_views,
}
# Modules that write under names of their own: digests, folders of streams, temporary.
OWN_NAMES = {
    "_core/io/append_array.py",
    "_core/io/safetensors_io.py",
    "_core/io/stream_folder.py",
    "_core/io/whole_files.py",
    "_core/base/estimator.py",
    "_core/side_by_side.py",
    "_core/stream/checkpoint.py",
    "_core/stream/part.py",
    "_core/stream/samples.py",
    "_core/stream/trace.py",
    "encoders/_cache.py",
    "model_selection/_store.py",
    "switcher/_split.py",
    "switcher/_split_parts.py",
}


REFUSED = (
    "is not; move it|is a file of another kind"
    "|must hold (arrays saved by sklearn_mdl|the settings of a race), but"
    "|must be free for the description of losses.npy, but belongs to a store or another"
)


def test_every_module_that_writes_is_asked_whether_it_replaces_files_of_others():
    assert {*AGAIN, *ONCE, *OWN_NAMES} == set(modules_that_write())
    assert not OWN_NAMES & {*AGAIN, *ONCE}


@pytest.mark.parametrize(
    "write", dict.fromkeys([*AGAIN.values(), *ONCE.values()]), ids=lambda w: w.__name__
)
def test_a_file_of_other_origin_is_never_replaced(write, tmp_path, capsys):
    ours = tmp_path / "ours"
    ours.mkdir()
    write(ours)
    written = {p.relative_to(ours): p.read_bytes() for p in files_in(ours)}
    first = min(written)
    if write in AGAIN.values():
        write(ours)
    for name in written:
        theirs = tmp_path / f"theirs-{name}"
        theirs.mkdir()
        for content in (b"mine", np_bytes(np.arange(6.0)))[: 1 + (name == first)]:
            (theirs / name).write_bytes(content)
            with pytest.raises(ValueError, match=REFUSED):
                write(theirs)
            assert [(p.name, p.read_bytes()) for p in files_in(theirs)] == [
                (name.name, content)
            ]


def files_in(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name[0] != ".")


def np_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
