"""A page of its own for every name that ``api.md`` lists.

``api.md`` stays a list that anyone can read and that a test holds against ``__all__``.
The build makes links of its names, and writes the pages that they lead to into
``generated/``.
"""

from __future__ import annotations

import builtins
import inspect
import re
import shutil
from pathlib import Path
from typing import Any

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autosummary.generate import generate_autosummary_docs

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGE = "sklearn_mdl"
LISTED = "api"
PAGES = "generated"
SHAPE = re.compile(r"(?<!`)\([\w ,]+\)")
NAME_ = re.compile(r"(\w)_(?!\w)")
ITEM = re.compile(r"^\* `(?P<name>\w+)`:", re.MULTILINE)
EXAMPLE = re.compile(r"\]\(\.\./examples/(?P<name>\w+)\.py\)")


def write_pages(app: Sphinx) -> None:
    """Write one page for each name, anew, so that none of a lost name stays."""
    folder = Path(app.srcdir) / PAGES
    for old in folder.glob("sklearn_mdl.*.rst"):
        old.unlink()
    folder.mkdir(exist_ok=True)
    listing = Path(app.doctreedir) / "names.rst"
    listing.parent.mkdir(parents=True, exist_ok=True)
    lines = [".. autosummary::", f"   :toctree: {folder}", ""]
    lines += [f"   sklearn_mdl.{name}" for name in names(app)]
    listing.write_text("\n".join(lines) + "\n", encoding="utf-8")
    generate_autosummary_docs([str(listing)], app=app, overwrite=True)


def names(app: Sphinx) -> list[str]:
    """List the names of ``api.md`` in their order."""
    text = (Path(app.srcdir) / f"{LISTED}.md").read_text(encoding="utf-8")
    return [found["name"] for found in ITEM.finditer(text)]


def link_names(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make the names of the list links, and put their pages behind it."""
    if docname != LISTED:
        return
    linked = ITEM.sub(r"* {py:obj}`~sklearn_mdl.\g<name>`:", source[0])
    pages = [f"{name} <{PAGES}/sklearn_mdl.{name}>" for name in names(app)]
    toctree = ["", "```{toctree}", ":hidden:", ":maxdepth: 1", "", *pages, "```", ""]
    source[0] = linked + "\n".join(toctree)


def link_examples(app: Sphinx, docname: str, source: list[str]) -> None:
    """Lead to the page of an example in the gallery, where a page links to its file."""
    source[0] = EXAMPLE.sub(r"](auto_examples/\g<name>.rst)", source[0])


def is_not_ours(
    app: Sphinx, kind: str, name: str, thing: Any, skip: bool, options: Any
) -> bool | None:
    """Skip methods of other packages, and fitted attributes, which are listed above."""
    if isinstance(thing, property):
        return True if name.endswith("_") else None
    home = getattr(thing, "__module__", None) or PACKAGE
    routine = inspect.isroutine(thing) or name.endswith(("_request", "_output"))
    return True if routine and not home.startswith(PACKAGE) else None


def keep_underscores(
    app: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Read ``shape (n_samples_seen_,)`` as the name it is, not as a link's."""
    for i, line in enumerate(lines):
        lines[i] = SHAPE.sub(lambda shape: NAME_.sub(r"\1\\_", shape[0]), line)


def find_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: Element
) -> Element | None:
    """Look for a name in backticks among the public ones, wherever it is used."""
    target = node.get("reftarget", "").removeprefix(f"{PACKAGE}.")
    if node.get("refdomain") != "py" or not target:
        return None
    page, name = node["refdoc"], f"{PACKAGE}.{target}"
    python = env.domains["py"]
    return python.resolve_xref(env, page, app.builder, "obj", name, node, shown)


def forget_gallery(app: Sphinx) -> None:
    """Drop backreferences of an earlier build, whose examples may be gone."""
    shutil.rmtree(Path(app.srcdir) / PAGES / "backreferences", ignore_errors=True)


def name_file(settings: dict[str, Any], path: str) -> None:
    """Let an example know where it lies, as Python would: the gallery does not."""
    builtins.__dict__["__file__"] = str(EXAMPLES / Path(path or "none").name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect with the build, before the gallery and autosummary look for files."""
    app.connect("builder-inited", forget_gallery, priority=100)
    app.connect("builder-inited", write_pages, priority=200)
    app.connect("source-read", link_names)
    app.connect("source-read", link_examples)
    app.connect("missing-reference", find_name)
    app.connect("autodoc-skip-member", is_not_ours)
    app.connect("autodoc-process-docstring", keep_underscores, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
