"""The shape of the package; the linters' rules in pyproject.toml hold the rest."""

import ast
import inspect
import re
from pathlib import Path

import grimp
from count_code import counted

import sklearn_mdl
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl._core.stream.learner import Learner

PACKAGE = Path(sklearn_mdl.__file__).parent
FLAT_FILES = {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}
# Parts of a run that may be absent; a road without them should have no branch for them.
ABSENT = {
    *("race", "pool", "groups", "escape", "n_named", "checkpoint", "tasks"),
    *("evaluator", "mixer", "coder", "schedule", "events", "folder_of_run"),
}


def graph():
    return grimp.build_graph("sklearn_mdl", cache_dir=None)


def test_the_package_has_few_folders_and_no_flat_modules():
    folders = [p for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"]
    assert len(folders) <= 14
    assert {p.name for p in PACKAGE.iterdir() if p.is_file()} == FLAT_FILES


def test_the_root_has_few_names_and_the_switcher_few_parameters():
    assert len(sklearn_mdl.__all__) <= 30
    assert len(MDLReadoutSwitcher().get_params(deep=False)) <= 16


def test_files_are_short():
    lines = {p: p.read_text("utf-8").count("\n") for p in PACKAGE.rglob("*.py")}
    assert [path.name for path, n in lines.items() if n > 500] == []


def test_the_package_is_small():
    assert counted().total() <= 30_470


def test_modules_are_private_to_their_package():
    """Names of other packages come from their ``__init__``; the engine has none."""
    faults = []
    imports = graph()
    for importer in imports.modules:
        for imported in imports.find_modules_directly_imported_by(importer):
            parts = imported.split(".")
            free = parts[1:2] == ["_core"] or parts[:2] == importer.split(".")[:2]
            if not free and any(part.startswith("_") for part in parts[2:]):
                faults.append(f"{importer} imports {imported}")
    assert faults == []


def test_one_module_imports_private_names_of_scikit_learn():
    users = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = getattr(node, "module", "")
                names = [f"{module}.{alias.name}".strip(".") for alias in node.names]
                users |= {path.name for n in names if re.match(r"sklearn\..*\b_", n)}
    assert users == {"sklearn_compat.py"}


def test_imports_go_round_in_few_circles():
    """At most two pairs of modules, each for type checkers alone."""
    imports = graph()
    runtime = grimp.build_graph(
        "sklearn_mdl", cache_dir=None, exclude_type_checking_imports=True
    )
    circles = {
        frozenset({importer, imported})
        for importer in imports.modules
        for imported in imports.find_modules_directly_imported_by(importer)
        if imports.chain_exists(importer=imported, imported=importer)
    }
    assert len(circles) <= 2, circles
    for one, other in map(sorted, circles):
        both = [(one, other), (other, one)]
        assert not all(runtime.chain_exists(importer=a, imported=b) for a, b in both)


def test_the_contract_of_a_learner_is_small_and_documented():
    names = {name for name, value in vars(Learner).items() if callable(value)}
    names |= set(Learner.__annotations__)
    members = {name for name in names if not name.startswith("_")}
    assert len(members) <= 19
    attributes = inspect.getdoc(Learner).partition("Attributes\n")[2]
    described = set(re.findall(r"^(\w.*?) : ", attributes, re.MULTILINE))
    named = {name for names in described for name in names.split(", ")}
    methods = {name for name in members if callable(getattr(Learner, name, None))}
    assert named | methods == members
    assert all(getattr(Learner, name).__doc__ for name in methods)


def test_a_run_asks_seldom_whether_a_part_of_it_is_there():
    found = []
    for path in sorted((PACKAGE / "_core" / "stream").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Compare):
                continue
            asks = any(getattr(c, "value", node) is None for c in node.comparators)
            asked = getattr(node.left, "attr", getattr(node.left, "id", ""))
            if asks and asked.strip("_") in ABSENT:
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert len(found) <= 10, found
