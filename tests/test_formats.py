"""Files that any release wrote open in this version; those of later ones are refused.

The table of writers in ``written_files.py`` names the kinds of files.
"""

import json
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from each_case import for_each
from format_cases import CASES, CORPUS, VALUES, name_of
from written_files import WRITERS

import sklearn_mdl
from sklearn_mdl._core.io import formats
from sklearn_mdl._core.io.formats import FORMATS, check_format, format_of, kind_of
from sklearn_mdl.switcher._message import PREFIX

RELEASES = sorted(folder.name for folder in CORPUS.iterdir())
EACH = [(release, kinds) for release in RELEASES for kinds in CASES]
READ = ".npy"  # the format of others that this package also reads
OWN = [(kind, kinds) for kinds in CASES for kind in kinds if kind in FORMATS]


def kinds_of_writers():
    """Kinds of files by module, as the table says."""
    return {module: set(kinds) for module, (_, kinds, _) in WRITERS.items()}


def formats_in(path):
    """Kinds and numbers that a file names."""
    content = path.read_bytes()
    if path.suffix == ".mdl":
        return {f"message {PREFIX.unpack_from(content)[1]}"}
    if path.suffix == ".npy":
        return {READ}
    if path.name == ".sklearn_mdl":
        return {content.decode().splitlines()[0]}
    return {m.decode() for m in re.findall(rb'"sklearn_mdl": ?"(\w+ \d+)"', content)}


def read(release, kinds, place):
    shutil.copytree(CORPUS / release / name_of(kinds), place, dirs_exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*so the last digits may differ")
        return CASES[kinds][1](place)


@pytest.mark.parametrize(("release", "kinds"), EACH, ids=str)
def test_files_of_every_release_open(release, kinds, tmp_path):
    expected = json.loads((CORPUS / release / VALUES).read_bytes())[name_of(kinds)]
    assert read(release, kinds, tmp_path) == pytest.approx(expected, rel=1e-4)


def test_the_corpus_holds_every_kind_that_the_table_names():
    named = set().union(*kinds_of_writers().values())
    own = {kind for kind in named if not kind.startswith(".")}
    assert own == set(FORMATS)
    assert {kind for kinds in CASES for kind in kinds} == own | {READ}
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    found = set().union(*map(formats_in, files))
    assert {READ, *map(format_of, FORMATS)} <= found, (
        "Formats have changed: write their files by python tests/format_cases.py"
    )
    assert sum(path.stat().st_size for path in files) < 120_000 * len(RELEASES)


@pytest.mark.parametrize(("kind", "kinds"), OWN, ids=str)
def test_newer_formats_are_refused_in_a_sentence(kind, kinds, tmp_path, monkeypatch):
    """Everything is newer to a version that only knows the number 0."""
    monkeypatch.setitem(formats.FORMATS, kind, 0)
    with pytest.raises(formats.NewerFormat) as found:
        read(RELEASES[-1], kinds, tmp_path)
    where, _, sentence = str(found.value).partition(" must hold ")
    assert where == "A message" if kind == "message" else Path(where).is_file()
    assert sentence == (
        f"format '{kind} 0', which sklearn_mdl {sklearn_mdl.__version__} reads, but it "
        f"holds format '{kind} 1'; run pip install -U sklearn-mdl, or pass another path"
    )


def test_a_newer_array_is_refused_in_a_sentence(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((2, 2)))
    content = bytearray((tmp_path / "X.npy").read_bytes())
    content[6] = 9  # the number of numpy's format
    (tmp_path / "X.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"X\.npy must .*format version.*; "):
        sklearn_mdl.datasets.load_features(tmp_path / "X.npy")


@for_each(
    "content",
    [
        *({}, [], None, "losses 1", {"sklearn_mdl": 1}, {"sklearn_mdl": "losses"}),
        *(
            {"sklearn_mdl": f"losses {n}"}
            for n in ("", "-1", "x", "1.0", "²", "9" * 10, "9" * 99)
        ),
        *({"sklearn_mdl": "other 1"}, {"sklearn_mdl": {"losses": 1}}),
    ],
)
def test_what_names_no_format_is_refused(content):
    assert kind_of(content) == ("", 0)
    match = r"a\.json must hold format 'losses 1', .*, but it names no format; pass "
    with pytest.raises(ValueError, match=match + "another path$"):
        check_format("a.json", "losses", content)


def test_another_kind_is_refused_by_its_name():
    match = "but it holds format 'probe 7'; pass another path$"
    with pytest.raises(ValueError, match=match):
        check_format("a.json", "losses", {"sklearn_mdl": "probe 7"})
