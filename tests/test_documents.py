"""Code in documents and docstrings runs, and the names and links in them exist.

Blocks fenced as ``python`` run, file by file, each in the namespace that the blocks
above it have left; a block that needs a network, an accelerator or hours is fenced as
``python no-run``. Blocks of ``>>>`` examples are run by pytest's own doctest.
"""

import ast
import builtins
import doctest
import importlib
import re
import runpy
import shutil
import subprocess
import textwrap
from functools import wraps
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import sklearn.datasets
from each_case import for_each
from public_names import PATHS, public
from sklearn.datasets import load_digits

import sklearn_mdl

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    p for p in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if p.is_file()
]

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)``` *$",
    re.MULTILINE | re.DOTALL,
)

# Lines of the site, as `cat docs/*.md | wc -l` counts them.
MOST_LINES = 4_500

# The first digits are enough to see that a document runs, but for those that name more.
FEW_DIGITS = 300
MORE_DIGITS = {
    "docs/displays.md": 1500,
    "docs/vtab.md": 1797,
    "docs/readouts.md": 600,
}

# Pages whose code takes many seconds: `make test-slow` runs it.
LONG = {
    *("docs/compare.md", "docs/displays.md", "docs/embeddings-on-disk.md"),
    *("docs/get-started.md", "docs/index.md", "docs/pooling.md", "docs/protocols.md"),
    *("docs/ranking.md", "docs/readouts.md", "docs/regression.md", "docs/report.md"),
    *("docs/stop-labelling.md", "docs/streams.md", "docs/text.md"),
    *("docs/user-guide.md", "docs/which-layer.md"),
}
LONG_PACKAGES = {
    f"sklearn_mdl.{name}" for name in ("model_selection", "readouts", "report")
}

# Places that mean nothing on other machines; written so as not to match themselves.
LOCAL = re.compile(
    r"(?<![\w.])/(?:work|root)/|pypi[.]org|pythonhosted[.]org"
    r"|--(?:extra-)?index-url"
)


def blocks(text):
    """List the blocks fenced as python, each at its line in the text."""
    return [
        "\n" * (text.count("\n", 0, found.start()) + 1) + textwrap.dedent(found["body"])
        for found in FENCE.finditer(text)
        if found["info"].strip() == "python" and ">>>" not in found["body"]
    ]


def relative(path):
    return path.relative_to(ROOT).as_posix()


def top(module):
    return (module or "").partition(".")[0]


def text_files():
    """Everything that is committed or about to be, and reads as text."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    command = [git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        path = ROOT / name
        if path.is_file():
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


# How the documents are read


def test_blocks_are_found_with_their_lines_and_without_their_indents():
    text = "a\n```python\nx = 1\n```\n- b\n\n  ```python\n  if x:\n      y = 2\n  ```\n"
    first, second = blocks(text)
    assert first == "\n\nx = 1\n"
    assert second == "\n" * 7 + "if x:\n    y = 2\n"


@for_each(
    "text",
    [
        "```python no-run\n1\n```",
        "```sh\nls\n```",
        "```python\n>>> 1\n1\n```",
        "`python`",
    ],
)
def test_other_blocks_are_left_alone(text):
    assert blocks(text) == []


@for_each("place", ["work", "root"])
def test_places_of_one_machine_are_found(place):
    assert LOCAL.search(f"see /{place}/notes")
    assert not LOCAL.search(f"see https://example.com/{place}/notes and {place}/a")


# The documents


def first_digits(n_rows):
    @wraps(load_digits)
    def few_digits(**options):
        found = load_digits(**options)
        if options.get("return_X_y"):
            return tuple(part[:n_rows] for part in found)
        return found

    return few_digits


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if relative(path) in LONG else ())
        for path in DOCUMENTS
    ],
    ids=relative,
)
def test_python_in_documents_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits = first_digits(MORE_DIGITS.get(relative(path), FEW_DIGITS))
    monkeypatch.setattr(sklearn.datasets, "load_digits", digits)
    namespace = {"__name__": "__main__"}
    for block in blocks(path.read_text(encoding="utf-8")):
        exec(compile(block, relative(path), "exec"), namespace)
    plt.close("all")


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_blocks_that_do_not_run_here_are_complete(path):
    """Pasted by themselves: every name in them is defined there."""
    faults = []
    for found in FENCE.finditer(path.read_text(encoding="utf-8")):
        if found["info"].strip() != "python no-run":
            continue
        tree = ast.parse(textwrap.dedent(found["body"]))
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        imported = (a for n in ast.walk(tree) for a in getattr(n, "names", []))
        known = {alias.asname or alias.name.partition(".")[0] for alias in imported}
        known |= {n.id for n in names if isinstance(n.ctx, ast.Store)} | vars(
            builtins
        ).keys()
        faults += [node.id for node in names if node.id not in known]
    assert faults == []


def imports_of_ours(text):
    """Yield package and name of what the blocks of a document import of ours."""
    for found in FENCE.finditer(text):
        if not found["info"].startswith("python") or ">>>" in found["body"]:
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(found["body"]))):
            if isinstance(node, ast.ImportFrom) and top(node.module) == "sklearn_mdl":
                yield from ((node.module, alias.name) for alias in node.names)


def test_what_documents_import_of_ours_is_public():
    faults = [
        f"{relative(path)}: {package}.{name}"
        for path in DOCUMENTS
        for package, name in imports_of_ours(path.read_text(encoding="utf-8"))
        if name not in importlib.import_module(package).__all__
    ]
    assert faults == []


def test_links_between_documents_lead_somewhere():
    faults = [
        f"{relative(path)}: {target}"
        for path in DOCUMENTS
        for target in re.findall(
            r"\]\((?!https?:|mailto:|#)([^)\s#]+)",
            FENCE.sub("", path.read_text(encoding="utf-8")),
        )
        if not (path.parent / target).exists()
    ]
    assert faults == []


def test_links_of_the_readme_are_absolute_in_a_release():
    """A package index shows the README without the files that its links name."""
    metadata = runpy.run_path(ROOT / "setup.py")["metadata"]
    text = (ROOT / "README.md").read_text("utf-8")
    found = metadata(text, "https://host.example/us/it", "0.1.0")["long_description"]
    own, released = (re.findall(r"\]\(([^)\s]+)\)", each) for each in (text, found))
    for link, absolute in zip(own, released, strict=True):
        if "://" in link:
            assert absolute == link
        else:
            place = "raw" if link.endswith(".png") else "blob"
            assert absolute == f"https://host.example/us/it/{place}/v0.1.0/{link}"


def anchors(path):
    """Return the anchors of a page's headings, as the site and GitHub make them."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    titles = (title.lower() for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def test_links_to_headings_lead_to_one():
    faults = [
        f"{relative(path)}: {page}#{anchor}"
        for path in DOCUMENTS
        for page, anchor in re.findall(
            r"\]\((?!https?:)([^)\s#]*)#([^)\s]+)\)",
            FENCE.sub("", path.read_text(encoding="utf-8")),
        )
        if anchor not in anchors(path.parent / page if page else path)
    ]
    assert faults == []


# What users type into the search of the site, and the page that must answer.
SEARCHES = {
    "codelength": "what is a codelength nats trust",
    "compare": "which encoder embedding pretrained model best compare",
    "embeddings-on-disk": "embeddings already computed npy parquet h5ad mteb",
    "text": "text embedding model 100 labels sentence-transformers",
    "images": "image model timm torch pretrained",
    "which-layer": "which layer token position probe language model",
    "stop-labelling": "how many labels stop labelling",
    "report": "which number report tie paper",
    "choosing": "linear probe few labels better when not to use",
    "groups": "groups patients scenes documents leak",
    "model-selection": "GridSearchCV cross-validation scikit-learn score",
    "machines": "how long time large data memory GPU cluster",
}


@pytest.mark.parametrize("page", SEARCHES)
def test_pages_open_with_the_words_of_their_question(page):
    """A search counts words of the title, the headings and the first lines most."""
    text = FENCE.sub("", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))
    prose = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
    headings = [part for part in prose if part.lstrip().startswith("#")]
    first = next(part for part in prose if not re.match(r"\s*[#|!*]", part))
    opening = " ".join([*headings, first]).lower()
    assert [w for w in SEARCHES[page].lower().split() if w not in opening] == []
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert f"({page}.md)" in index.partition("## Your question")[2]


def test_pages_are_short_enough_to_be_read():
    """All lines of all pages count: code, tables, blank lines, and the benchmarks."""
    pages = [p for p in DOCUMENTS if p.parent.name == "docs"]
    lengths = [p.read_text(encoding="utf-8").count("\n") for p in pages]
    assert sum(lengths) <= MOST_LINES


def test_no_guide_is_longer_than_150_lines():
    text = (ROOT / "docs/how-to.md").read_text(encoding="utf-8")
    pages = re.findall(r"^.+ <([\w-]+)>$", text, re.MULTILINE)
    texts = {p: (ROOT / f"docs/{p}.md").read_text(encoding="utf-8") for p in pages}
    assert len(pages) > 15
    assert [page for page, text in texts.items() if text.count("\n") > 150] == []


def test_no_file_names_a_place_of_one_machine():
    faults = [
        f"{relative(path)}: {line.strip()[:80]}"
        for path, text in text_files()
        for line in text.splitlines()
        if LOCAL.search(line)
    ]
    assert faults == []


# Docstrings

# Constants have none.
DOCUMENTED = {}
for public_name, place in PATHS.items():
    if callable(public(public_name)):
        DOCUMENTED.setdefault(place.rpartition(".")[0], []).append(public_name)


def test_public_names_are_sorted_and_there():
    assert sorted(sklearn_mdl.__all__) == sklearn_mdl.__all__
    assert all(hasattr(sklearn_mdl, name) for name in sklearn_mdl.__all__)


@pytest.mark.parametrize(
    "package",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LONG_PACKAGES else ())
        for name in DOCUMENTED
    ],
)
def test_examples_in_docstrings_run(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    printed = []
    for name in DOCUMENTED[package]:
        thing = public(name)
        module = importlib.import_module(thing.__module__)
        for test in doctest.DocTestFinder().find(thing, name, module=module):
            runner.run(test, out=printed.append)
    assert printed == [], "".join(printed)
