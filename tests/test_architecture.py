"""The shape of the package; the linters' rules in pyproject.toml hold the rest."""

import re
import sys
from pathlib import Path

import grimp
import pytest
from sklearn.datasets import load_digits

import sklearn_mdl
from sklearn_mdl._core.stream.learner import Learner

PACKAGE = Path(sklearn_mdl.__file__).parent
FLAT_FILES = {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}


def test_the_package_has_few_folders_and_no_flat_modules():
    folders = [p for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"]
    assert len(folders) <= 14
    assert {p.name for p in PACKAGE.iterdir() if p.is_file()} == FLAT_FILES


def test_the_root_has_few_names():
    assert len(sklearn_mdl.__all__) <= 30


def test_files_are_short():
    lines = {p: p.read_text("utf-8").count("\n") for p in PACKAGE.rglob("*.py")}
    assert [path.name for path, n in lines.items() if n > 500] == []


def test_modules_are_private_to_their_package():
    """Names of other packages come from their ``__init__``; the engine has none."""
    faults = []
    graph = grimp.build_graph("sklearn_mdl", cache_dir=None)
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            parts = imported.split(".")
            free = parts[1:2] == ["_core"] or parts[:2] == importer.split(".")[:2]
            if not free and any(part.startswith("_") for part in parts[2:]):
                faults.append(f"{importer} imports {imported}")
    assert faults == []


def test_the_contract_of_a_learner_is_small_and_documented():
    names = {name for name, value in vars(Learner).items() if callable(value)}
    names |= set(Learner.__annotations__)
    members = {name for name in names if not name.startswith("_")}
    assert len(members) <= 19
    page = (PACKAGE.parent / "docs" / "contributing.md").read_text("utf-8")
    table = page.split("## The contract of a learner")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line[:3] == "| `"]
    assert set(re.findall(r"`(\w+)", " ".join(cells))) == members


@pytest.mark.parametrize(
    "package", ["cli", "metrics", "model_selection", "ranking", "readouts", "report"]
)
def test_imports_go_round_in_no_circle(package):
    """Not even those for type checkers alone."""
    graph = grimp.build_graph("sklearn_mdl", cache_dir=None)
    own = graph.find_descendants(f"sklearn_mdl.{package}")
    circles = [
        f"{importer} imports {imported}, which imports it"
        for importer in own
        for imported in graph.find_modules_directly_imported_by(importer) & own
        if graph.chain_exists(importer=imported, imported=importer)
    ]
    assert circles == []


@pytest.mark.parametrize(
    ("options", "n_functions", "n_files"),
    [
        ({"readouts": "nets", "pooling": None, "race": None}, 241, 33),
        ({}, 362, 45),  # with kernels, a pool and a race
    ],
)
def test_the_road_through_fit_is_short(options, n_functions, n_files):
    """Frames, files and functions of ours between ``fit`` and the optimiser step."""
    X, y = load_digits(return_X_y=True)
    entered, road = set(), []

    def follow(frame, event, arg):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        if not code.co_name.startswith("<"):  # neither comprehension nor lambda
            entered.add((code.co_filename, code.co_qualname))
        if code.co_name == "train_step" and not road:
            while frame is not None:
                if frame.f_code.co_filename.startswith(str(PACKAGE)):
                    road.append(frame.f_code)
                frame = frame.f_back

    switcher = sklearn_mdl.MDLReadoutSwitcher(**options, random_state=0)
    sys.setprofile(follow)
    try:
        switcher.fit(X[:100], y[:100])
    finally:
        sys.setprofile(None)
    assert road[-1].co_name == "fit"
    assert len(road) <= 9
    assert len({code.co_filename for code in road}) <= 5
    assert len(entered) <= n_functions
    assert len({file for file, _ in entered}) <= n_files
