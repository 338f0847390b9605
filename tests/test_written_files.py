"""Every place that writes files is in one table of the documents, with its rule."""

import ast
import re
from pathlib import Path

import pytest

import sklearn_mdl

PACKAGE = Path(sklearn_mdl.__file__).parent
TABLE = PACKAGE.parent / "docs" / "contributing.md"
# Methods and functions that write, whatever they belong to.
WRITE = {
    "FileLock",
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


def test_every_place_that_writes_files_has_its_rule():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if names := writers(path.read_text(encoding="utf-8")):
            found[path.relative_to(PACKAGE).as_posix()] = sorted(names)
    text = TABLE.read_text(encoding="utf-8").partition("## Files that the package")[2]
    rows = re.findall(r"^\| `(\S+\.py)` \| (.+?) \| (.+) \|$", text, re.MULTILINE)
    listed = {module: re.findall(r"`(\S+)`", calls) for module, calls, _ in rows}
    assert found == listed
    assert list(listed) == sorted(listed)
