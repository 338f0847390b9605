"""The site takes in every page, and docstrings say what numpydoc asks of them."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
from public_names import PATHS, public

import sklearn_mdl

validate = pytest.importorskip("numpydoc.validate").validate
NumpyDocString = pytest.importorskip("numpydoc.docscrape").NumpyDocString

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
TOCTREE = re.compile(r"```\{toctree\}\n(?P<body>.*?)```", re.DOTALL)

# Sections and their order, summaries in the imperative and on one line, and all
# parameters of the signature, in its order, each with a type. Not required: a text for
# parameters that name and type explain, See Also, and an example everywhere; nor a form
# of words, which the linter's rules D check.
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
    "PR01",  # all parameters are documented
    "PR02",  # no parameter that is not there
    "PR03",  # in the order of the signature
    "PR04",  # each has a type
    "PR05",  # a type that does not end in a full stop
    "PR06",  # in the words of Python
    "PR10",  # with a blank before its colon
    "YD01",  # a generator says what it yields
}
PUBLIC = [name for name in PATHS if callable(public(name))]

# Methods that the package calls itself, whose summary describes their parameters. The
# set may only shrink.
DESCRIBED = {
    *("add_classes", "begins_at", "check_length", "check_params", "code"),
    *("components", "cost", "learners_of", "load_state_dict", "member", "mix"),
    *("next_count", "places", "retire", "seed_or", "to_html", "transition", "wrapped"),
}


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


def fields_of_records(name):
    """Name the fields of a record, all of which its attributes document."""
    thing = public(name)
    names = getattr(thing, "_fields", None)
    if names is None and dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing) if field.init]
    documented = NumpyDocString(inspect.getdoc(thing))["Attributes"]
    attributes = {n for entry in documented for n in entry.name.split(", ")}
    inherited = {"encoder_names", "dataset_names"}  # of all ``NamedResult`` records
    return names and attributes and set(names) <= attributes | inherited


def is_complete(name, method):
    """Return True where PR01 asks for more than readers need."""
    return method in DESCRIBED if method else fields_of_records(name)


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
        faults += [
            f"{documented}: {code} {text}"
            for code, text in errors
            if code in CHECKS and not (code == "PR01" and is_complete(thing, method))
        ]
    assert faults == []


def test_citation_names_this_version():
    citation = (DOCS.parent / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {sklearn_mdl.__version__}\n" in citation
