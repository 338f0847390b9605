"""Sphinx extension that writes a page for every public name, and tables of names.

The build adds a section for each public package to ``api.md``, with a table of the
names in its ``__all__``. The names link to pages in ``generated/``.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import pkgutil
import re
import shutil
from pathlib import Path
from typing import Any

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autosummary.generate import generate_autosummary_docs

import sklearn_mdl
from sklearn_mdl.datasets import VTAB_TASKS

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGE = "sklearn_mdl"
PAGES = "generated"
SHAPE = re.compile(r"(?<!`)\([\w ,]+\)")
NAME_ = re.compile(r"(\w)_(?!\w)")
NAMES = "<!-- public names -->"  # replaced by the tables of ``api.md``
TASKS = "<!-- tasks of VTAB -->"  # replaced by the table of ``vtab.md``
EXAMPLE = re.compile(r"\]\(\.\./examples/(?P<name>\w+/\w+)\.py\)")
BACK = re.compile(
    r"(?P<page>sklearn_mdl\.(?:\w+\.)*(?P<name>\w+))\.html#[\w.]*?\b(?P=name)\b"
)


def write_pages(app: Sphinx) -> None:
    """Write one page for each public name, and delete all pages of earlier builds."""
    folder = Path(app.srcdir) / PAGES
    for old in folder.glob("sklearn_mdl.*.rst"):
        old.unlink()
    folder.mkdir(exist_ok=True)
    listing = Path(app.doctreedir) / "names.rst"
    listing.parent.mkdir(parents=True, exist_ok=True)
    lines = [".. autosummary::", f"   :toctree: {folder}", ""]
    lines += [f"   {path_of(name)}" for names in packages().values() for name in names]
    listing.write_text("\n".join(lines) + "\n", encoding="utf-8")
    generate_autosummary_docs([str(listing)], app=app, overwrite=True)


def packages() -> dict[str, list[str]]:
    """Return the public names of each package, beginning with ``switcher``."""
    found = {
        info.name: importlib.import_module(info.name).__all__
        for info in pkgutil.iter_modules(sklearn_mdl.__path__, f"{PACKAGE}.")
        if info.ispkg and not info.name.endswith((".cli", "._core"))
    }
    first = f"{PACKAGE}.switcher"
    order = sorted(found, key=lambda name: (name != first, name))
    return {name: list(found[name]) for name in order}


def path_of(name: str) -> str:
    """Return the dotted path from which a public name is imported."""
    if name in sklearn_mdl.__all__:
        return f"{PACKAGE}.{name}"
    for package, names in packages().items():
        if name in names:
            return f"{package}.{name}"
    raise LookupError(f"no public package has {name}")


def write_tables(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace placeholders in a page by tables of public names or of VTAB tasks."""
    if NAMES in source[0]:
        source[0] = source[0].replace(NAMES, "\n".join(map(section, packages())))
    if TASKS in source[0]:
        source[0] = source[0].replace(TASKS, table_of_tasks())


def table_of_tasks() -> str:
    """Return the table of the tasks of VTAB."""
    lines = ["| task | classes | train + test | label | licence (where it is stated) |"]
    lines.append("|---|---|---|---|---|")
    for task in VTAB_TASKS.values():
        sizes = f"{task.n_examples:,} + {task.n_test:,}"
        cells = [task.name, str(task.n_classes), sizes, task.labels, task.licence]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def section(package: str) -> str:
    """Return the section of a package: a description and a table of its names."""
    about = (importlib.import_module(package).__doc__ or "").partition("\n")[0]
    return f"## {package}\n\n{about}\n\n{table(packages()[package])}"


def table(listed: list[str]) -> str:
    """Return the table of some names, each with the first line of its docstring."""
    lines = [".. autosummary::", f"   :toctree: {PAGES}", "   :nosignatures:", ""]
    lines += [f"   ~{path_of(name)}" for name in listed]
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


def link_examples(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace links to the files of examples by links to their pages in the gallery."""
    source[0] = EXAMPLE.sub(r"](auto_examples/\g<name>.rst)", source[0])


def is_not_ours(
    app: Sphinx, kind: str, name: str, thing: Any, skip: bool, options: Any
) -> bool | None:
    """Skip methods of other packages, and fitted attributes, which docstrings list."""
    if isinstance(thing, property):
        return True if name.endswith("_") else None
    home = getattr(thing, "__module__", None) or PACKAGE
    routine = inspect.isroutine(thing) or name.endswith(("_request", "_output"))
    return True if routine and not home.startswith(PACKAGE) else None


def keep_underscores(
    app: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Escape trailing underscores in shapes, which would otherwise become links."""
    for i, line in enumerate(lines):
        lines[i] = SHAPE.sub(lambda shape: NAME_.sub(r"\1\\_", shape[0]), line)


def find_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: Element
) -> Element | None:
    """Resolve a name in backticks as a public name of this package."""
    target = node.get("reftarget", "").rpartition(".")[2]
    if node.get("refdomain") != "py" or not target:
        return None
    try:
        name = path_of(target)
    except LookupError:
        return None
    page = node["refdoc"]
    python = env.domains["py"]
    return python.resolve_xref(env, page, app.builder, "obj", name, node, shown)


def link_back(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Correct the links from source code to the pages of public names.

    viewcode assumes that all names of a file are imported from the same package.
    """
    if page.startswith("_modules/"):
        context["body"] = BACK.sub(r"\g<page>.html#\g<page>", context["body"])


def forget_gallery(app: Sphinx) -> None:
    """Delete the backreferences of earlier builds, whose examples may not exist."""
    shutil.rmtree(Path(app.srcdir) / PAGES / "backreferences", ignore_errors=True)


def name_file(settings: dict[str, Any], path: str) -> None:
    """Set ``__file__`` for an example, since the gallery does not set it."""
    found = EXAMPLES.rglob(Path(path or "none").name)
    builtins.__dict__["__file__"] = str(next(found, EXAMPLES))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the functions of this extension with the events of the build."""
    app.connect("builder-inited", forget_gallery, priority=100)
    app.connect("builder-inited", write_pages, priority=200)
    app.connect("source-read", write_tables)
    app.connect("source-read", link_examples)
    app.connect("missing-reference", find_name)
    app.connect("html-page-context", link_back)
    app.connect("autodoc-skip-member", is_not_ours)
    app.connect("autodoc-process-docstring", keep_underscores, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
