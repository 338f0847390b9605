"""The house stands: imports go down the storeys, and modules and functions stay small.

Each law is a function from the root of a package to a list of faults. The package
itself must have none, and small broken packages show that each law can find one.
"""

import ast
import graphlib
import importlib
import inspect
import io
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "sklearn_mdl"
ROOT = Path(__file__).parents[1] / PACKAGE

# Lowest first. A module imports from strictly lower storeys alone.
STOREYS = [
    {
        "_sklearn",
        "arithmetic",
        "switching",
        "replay",
        "growing",
        "archives",
        "settings",
        "interrupts",
        "conditions",
        "checks",
        "guards",
        "codelength",
        "ranking",
    },
    {"stacked", "stored_losses", "trace", "samples", "measures", "splits"},
    {"scaling", "images", "shift"},
    {"prequential", "vtab"},
    {"lockstep", "persistence"},
    {"leading", "readings"},
    {"online"},
    {"readouts", "experts"},
    {"board", "mixing", "probes"},
    {"finetune"},
    {"presets"},
    {"switcher", "regression", "datasets"},
    {"coding", "multioutput"},
    {"scorers", "representation", "display"},
    {"protocols"},
    {"results"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
FACADE = "__init__"
LEVEL = {name: level for level, names in enumerate(STOREYS) for name in names}
LEVEL[FACADE] = len(STOREYS)

WITHOUT_IMPORTS_OF_OURS = {"datasets"}
WITHOUT_TORCH = STOREYS[0] - {"arithmetic", "conditions"} | STOREYS[1] - {"stacked"}
ONLY_INSIDE_FUNCTIONS = {
    "constriction",
    "h5py",
    "matplotlib",
    "pandas",
    "PIL",
    "timm",
    "torchvision",
}
SHIM = "_sklearn"
FOR_TYPING = {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
LEFTOVERS = {"utils", "helpers"}

MAX_BODY_LINES = 45
MAX_MODULE_LINES = 400
MAX_ARGUMENTS = 7

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Faults = list[str]


class Source(NamedTuple):
    """One file of the package."""

    path: Path
    module: str  # its name in the table: "switching", also for switching/priors.py
    dotted: str  # its full name: "sklearn_mdl.switching.priors"
    text: str
    tree: ast.Module

    def at(self, node: ast.AST, fault: str) -> str:
        return f"{self.dotted}:{getattr(node, 'lineno', 1)} {fault}"


class Import(NamedTuple):
    """One imported name."""

    node: ast.stmt
    target: str  # "sklearn.utils"
    name: str  # "sklearn.utils.validation", if that was imported from "sklearn.utils"
    relative: bool
    executed: bool  # at import: neither inside a function nor for typing alone


# Reading the sources


def read(root: Path) -> list[Source]:
    sources = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        inner = parts[:-1] if parts[-1] == FACADE else parts
        text = path.read_text(encoding="utf-8")
        dotted = ".".join((PACKAGE, *inner))
        sources.append(Source(path, parts[0], dotted, text, ast.parse(text)))
    return sources


def imports(source: Source) -> Iterator[Import]:
    for node, executed in _statements(source.tree, executed=True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node, alias.name, alias.name, False, executed)
        elif isinstance(node, ast.ImportFrom):
            target = node.module or ""
            for alias in node.names:
                name = f"{target}.{alias.name}"
                yield Import(node, target, name, node.level > 0, executed)


def _statements(node: ast.AST, executed: bool) -> Iterator[tuple[ast.AST, bool]]:
    yield node, executed
    for field, value in ast.iter_fields(node):
        inside = executed and not isinstance(node, FunctionNode | ast.Lambda)
        if field == "body" and isinstance(node, ast.If):
            inside = inside and ast.unparse(node.test) not in FOR_TYPING
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _statements(child, inside)


def top(dotted: str) -> str:
    return dotted.partition(".")[0]


def imported_module(item: Import) -> str | None:
    """Name in the table of one of our modules, the facade among them."""
    if item.relative or top(item.target) != PACKAGE:
        return None
    return [*item.target.split("."), FACADE][1]


def functions(source: Source) -> Iterator[tuple[FunctionNode, bool]]:
    """Every function, and whether it is called with an instance or a class first."""
    for parent in ast.walk(source.tree):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, FunctionNode):
                decorators = {ast.unparse(d) for d in node.decorator_list}
                bound = isinstance(parent, ast.ClassDef)
                yield node, bound and "staticmethod" not in decorators


def code_lines(source: Source) -> set[int]:
    """Lines that hold more than a comment, a docstring or nothing."""
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | FunctionNode) and ast.get_docstring(node):
            lines.difference_update(_span(node.body[0]))
    return lines


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


# The laws


def modules_without_a_storey(root: Path) -> Faults:
    return [
        s.at(s.tree, f"{s.module!r} stands in no storey")
        for s in read(root)
        if s.module not in LEVEL
    ]


def names_without_a_module(root: Path) -> Faults:
    return sorted(LEVEL.keys() - {s.module for s in read(root)})


def imports_not_from_below(root: Path) -> Faults:
    return [
        s.at(item.node, f"{s.module!r} imports {target!r}")
        for s in read(root)
        for item in imports(s)
        if (target := imported_module(item)) is not None
        and target != s.module
        and (target == FACADE or LEVEL.get(target, 99) >= LEVEL.get(s.module, 99))
    ]


def relative_imports(root: Path) -> Faults:
    return [
        s.at(item.node, "imports relatively")
        for s in read(root)
        for item in imports(s)
        if item.relative
    ]


def cycles(root: Path) -> Faults:
    """The storeys forbid cycles between modules; this also sees those inside one."""
    sources = read(root)
    known = {s.dotted for s in sources if s.module != FACADE}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for s in sources:
        for item in imports(s):
            target = item.name if item.name in known else item.target
            if s.dotted in known and target in known:
                graph[s.dotted].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def imports_of_ours_where_none_may_be(root: Path) -> Faults:
    return [
        s.at(item.node, f"{s.module!r} imports {item.target!r}")
        for s in read(root)
        for item in imports(s)
        if s.module in WITHOUT_IMPORTS_OF_OURS
        and imported_module(item) not in {None, s.module}
    ]


def torch_in_the_lowest_storey(root: Path) -> Faults:
    return [
        s.at(item.node, f"{s.module!r} imports {item.target!r}")
        for s in read(root)
        for item in imports(s)
        if s.module in WITHOUT_TORCH and top(item.target) in {"torch", "skorch"}
    ]


def optional_imports_outside_functions(root: Path) -> Faults:
    return [
        s.at(item.node, f"imports {item.target!r} outside a function")
        for s in read(root)
        for item in imports(s)
        if item.executed and top(item.target) in ONLY_INSIDE_FUNCTIONS
    ]


def private_names_of_sklearn(root: Path) -> Faults:
    return [
        s.at(item.node, f"imports {item.name!r}")
        for s in read(root)
        for item in imports(s)
        if s.module != SHIM
        and top(item.name) == "sklearn"
        and any(p.startswith("_") and p[:2] != "__" for p in item.name.split("."))
    ]


def long_modules(root: Path) -> Faults:
    return [
        s.at(s.tree, f"has {n} lines")
        for s in read(root)
        if (n := len(s.text.splitlines())) > MAX_MODULE_LINES
    ]


def long_functions(root: Path) -> Faults:
    faults = []
    for s in read(root):
        code = code_lines(s)
        for node, _ in functions(s):
            body = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
            if (n := len(code.intersection(body))) > MAX_BODY_LINES:
                faults.append(s.at(node, f"{node.name} has {n} lines of code"))
    return faults


def functions_of_many_arguments(root: Path) -> Faults:
    """Constructors may have many; those of dataclasses are never written out."""
    faults = []
    for s in read(root):
        for node, bound in functions(s):
            a = node.args
            named = [*a.posonlyargs, *a.args, *a.kwonlyargs]
            n = len(named) - bound + (a.vararg is not None) + (a.kwarg is not None)
            if node.name != "__init__" and n > MAX_ARGUMENTS:
                faults.append(s.at(node, f"{node.name} has {n} arguments"))
    return faults


def modules_of_leftovers(root: Path) -> Faults:
    return [str(p) for name in LEFTOVERS for p in sorted(root.rglob(f"{name}*"))]


def version_that_is_no_literal(root: Path) -> Faults:
    """The build reads the version without importing anything."""
    facade = ast.parse((root / f"{FACADE}.py").read_text(encoding="utf-8"))
    for node in facade.body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__version__"
        ):
            literal = isinstance(node.value, ast.Constant)
            return [] if literal else ["__version__ is computed"]
    return ["__version__ is missing"]


# The package and the broken packages

# A law, and files that break it: one fault for each.
BREACHES: list[tuple[Callable[[Path], Faults], dict[str, str]]] = [
    (modules_without_a_storey, {"attic.py": ""}),
    (modules_without_a_storey, {"attic/__init__.py": ""}),
    (imports_not_from_below, {"stacked.py": "from sklearn_mdl.cli import main"}),
    (imports_not_from_below, {"stacked.py": "import sklearn_mdl.scaling"}),
    (imports_not_from_below, {"stacked.py": "from sklearn_mdl import switching"}),
    (imports_not_from_below, {"cli.py": "def f():\n    import sklearn_mdl"}),
    (imports_not_from_below, {"stacked/a.py": "from sklearn_mdl.scaling.b import f"}),
    (imports_not_from_below, {"cli.py": "from sklearn_mdl.attic import f"}),
    (relative_imports, {"cli.py": "from . import demo"}),
    (relative_imports, {"stacked/__init__.py": "from .linear import f"}),
    (cycles, {"cli.py": "from sklearn_mdl.cli import main"}),
    (
        cycles,
        {
            "stacked/__init__.py": "from sklearn_mdl.stacked.a import f",
            "stacked/a.py": "from sklearn_mdl.stacked import b",
            "stacked/b.py": "from sklearn_mdl.stacked.a import f",
        },
    ),
    (
        cycles,
        {
            "stacked/__init__.py": "from sklearn_mdl.stacked.a import f",
            "stacked/a.py": "def f():\n    from sklearn_mdl.stacked import g",
        },
    ),
    (
        imports_of_ours_where_none_may_be,
        {"datasets.py": "from sklearn_mdl.samples import SampleStore"},
    ),
    (torch_in_the_lowest_storey, {"replay.py": "import torch.nn"}),
    (torch_in_the_lowest_storey, {"ranking/a.py": "def f():\n    import skorch"}),
    (optional_imports_outside_functions, {"display.py": "import matplotlib.pyplot"}),
    (optional_imports_outside_functions, {"display.py": "class A:\n    import pandas"}),
    (private_names_of_sklearn, {"cli.py": "import sklearn.utils._tags"}),
    (private_names_of_sklearn, {"cli.py": "from sklearn.utils import _tags"}),
    (private_names_of_sklearn, {"cli.py": "from sklearn.base import _fit_context"}),
    (long_modules, {"cli.py": "x = 1\n" * 401}),
    (long_functions, {"cli.py": "def f():\n" + "    x = 1\n" * 46}),
    (
        long_functions,
        {"cli.py": "def f():\n    x = (\n" + "        1,\n" * 44 + "    )"},
    ),
    (
        functions_of_many_arguments,
        {"cli.py": "def f(a, b, c, d, /, e, f, *, g, h): ..."},
    ),
    (functions_of_many_arguments, {"cli.py": "def f(a, b, c, d, e, f, *g, **h): ..."}),
    (
        functions_of_many_arguments,
        {"cli.py": "class A:\n    def f(self, a, b, c, d, e, f, g, h): ..."},
    ),
    (modules_of_leftovers, {"utils.py": ""}),
    (modules_of_leftovers, {"stacked/helpers.py": ""}),
    (version_that_is_no_literal, {"__init__.py": "__version__ = str(1)"}),
    (version_that_is_no_literal, {"__init__.py": ""}),
]
LAWS = list(dict.fromkeys(law for law, _ in BREACHES))

# What looks like a breach and is none.
SOUND = {
    "__init__.py": "from sklearn_mdl.cli import main\n__version__ = '0.1.0'",
    "stacked/__init__.py": "from sklearn_mdl.stacked.a import f",
    "stacked/a.py": (
        "import torch\nimport sklearn_mdl.stacked.b\nfrom sklearn_mdl.replay import f"
    ),
    "stacked/b.py": "from __future__ import annotations",
    "_sklearn.py": "from sklearn.utils._tags import Tags",
    "datasets.py": "import numpy",
    "display.py": (
        "from sklearn import __version__\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pandas\n"
        "def f():\n    from matplotlib import pyplot"
    ),
    "cli.py": (
        "def main():\n    '''Summary.\n" + "\n    More.\n" * 30 + "    '''\n"
        "    # why\n\n" + "    x = 1\n" * 45 + "class A:\n"
        "    def __init__(self, a, b, c, d, e, f, g, h): ...\n"
        "    def f(self, a, b, c, d, e, f, g): ..."
    ),
}


def build(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def name_of(value: object) -> str | None:
    return value.__name__ if inspect.isfunction(value) else None


@pytest.mark.parametrize("law", [*LAWS, names_without_a_module], ids=name_of)
def test_package_has_no(law):
    assert sorted(set(law(ROOT))) == []


@pytest.mark.parametrize(("law", "files"), BREACHES, ids=name_of)
def test_law_finds(law, files, tmp_path):
    assert len(law(build(tmp_path, files))) == 1


@pytest.mark.parametrize("law", LAWS, ids=name_of)
def test_law_spares_what_is_sound(law, tmp_path):
    assert law(build(tmp_path, SOUND)) == []


def test_law_finds_names_without_a_module(tmp_path):
    missing = names_without_a_module(build(tmp_path, {"switching.py": ""}))
    assert missing == sorted(LEVEL.keys() - {"switching"})


def test_the_four_lowest_storeys_are_typed_strictly():
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))
    overrides = project["tool"]["mypy"]["overrides"]
    (strict,) = (one for one in overrides if one.get("disallow_untyped_defs"))
    typed = {
        name.removesuffix(".*").removeprefix(f"{PACKAGE}.") for name in strict["module"]
    }
    assert set().union(*STOREYS[:4]) <= typed


def test_public_names_have_a_docstring():
    package = importlib.import_module(PACKAGE)
    public = {name: getattr(package, name) for name in package.__all__}
    assert [name for name, value in public.items() if is_silent(name, value)] == []


def is_silent(name: str, value: object) -> bool:
    # Dataclasses and named tuples show their signature where a docstring is missing.
    documented = value.__doc__ and not value.__doc__.startswith(f"{name}(")
    return (inspect.isclass(value) or inspect.isroutine(value)) and not documented
