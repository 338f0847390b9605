"""The site takes in every page, and docstrings say what numpydoc asks of them."""

import inspect
import re
from pathlib import Path

import pytest
from public_names import PATHS, public

import sklearn_mdl

validate = pytest.importorskip("numpydoc.validate").validate

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
TOCTREE = re.compile(r"```\{toctree\}\n(?P<body>.*?)```", re.DOTALL)

# Sections and their order, summaries in the imperative and on one line, and parameters
# that are those of the signature, in its order, each with a type. Not asked: a text for
# every parameter that its name and type tell whole, See Also, and an example
# everywhere; nor a form of words, which the linter's rules D hold.
CHECKS = {
    "GL05",  # no tabs
    "GL06",  # no unknown section
    "GL07",  # sections in order
    "GL08",  # there is a docstring
    "GL10",  # directives are well formed
    "SS01",  # there is a summary
    "SS02",  # it begins with a capital
    "SS03",  # and ends with a full stop
    "SS04",  # no leading blanks
    "SS06",  # on one line
    "PR02",  # no parameter that is not there
    "PR03",  # in the order of the signature
    "PR04",  # each has a type
    "PR05",  # a type that does not end in a full stop
    "PR06",  # in the words of Python
    "PR10",  # with a blank before its colon
    "YD01",  # a generator says what it yields
}
PUBLIC = [name for name in PATHS if callable(public(name))]


def own_methods(name):
    """Name the public methods that are written in this package."""
    thing = public(name)
    if not inspect.isclass(thing):
        return []
    return [
        f"{name}.{method}"
        for method, value in inspect.getmembers(thing, inspect.isroutine)
        if not method.startswith("_")
        and getattr(value, "__module__", "").startswith("sklearn_mdl.")
    ]


def listed():
    """Yield the lines of all toctrees."""
    for path in DOCS.glob("*.md"):
        for found in TOCTREE.finditer(path.read_text(encoding="utf-8")):
            lines = filter(None, found["body"].splitlines())
            yield from (line for line in lines if not line.startswith(":"))


def page_of(line):
    """Return the page of a line of a toctree, with or without a title."""
    return line.partition("<")[2].rstrip(">") or line


def test_every_page_stands_in_one_toctree():
    pages = [page for page in PAGES if page != "index"]
    assert sorted(page for page in map(page_of, listed()) if "/" not in page) == pages


def test_docstrings_of_public_names_and_their_methods_are_valid_numpydoc():
    faults = []
    for documented in [own for name in PUBLIC for own in (name, *own_methods(name))]:
        thing, _, method = documented.partition(".")
        errors = validate(".".join(filter(None, [PATHS[thing], method])))["errors"]
        faults += [f"{documented}: {c} {text}" for c, text in errors if c in CHECKS]
    assert faults == []


def test_citation_names_this_version():
    citation = (DOCS.parent / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {sklearn_mdl.__version__}\n" in citation
