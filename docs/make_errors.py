"""Which messages of the package ``errors.md`` lacks, and which it has too many.

    python docs/make_errors.py
    python docs/make_errors.py coverage.json

Messages are read from the source: the first argument of every exception and warning
that is made anywhere in ``sklearn_mdl``. What is filled in when one is raised stands as
``…``. For each that the page lacks an entry is printed, to be put under its heading and
completed by the cause; the exit status is 1 until both agree. A test holds the same.

With a report of coverage, as ``make coverage`` writes it: the messages that no test has
raised.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sklearn_mdl"
PAGE = ROOT / "docs" / "errors.md"

FILLED = "…"
ENTRY = re.compile(
    r"^> `(?P<kind>\w+)` (?P<text>.+)\n\n(?P<cause>(?:(?!> |#).+\n?)*)", re.MULTILINE
)
PART = "part"  # a text that stands inside another message


class Message(NamedTuple):
    """One message: what raises it, its text with gaps, and where it is made."""

    kind: str
    text: str
    path: Path
    line: int


class Entry(NamedTuple):
    """One message of the page; the cure is the bold part of its text."""

    kind: str
    text: str
    cause: str


def main() -> int:
    """Print what the page, or the tests, lack; return the exit status."""
    return compare_tests(Path(sys.argv[1])) if len(sys.argv) > 1 else compare_page()


def compare_page() -> int:
    """Print what the page lacks and what it has too many."""
    entries = read_page(PAGE.read_text(encoding="utf-8"))
    written = {(entry.kind, plain(entry.text)) for entry in entries}
    made = package_messages()
    lacking = [m for m in made if (m.kind, m.text) not in written]
    for message in lacking:
        print(f"{message.path.relative_to(ROOT)}:{message.line}\n{template(message)}\n")
    stale = sorted(written - {(m.kind, m.text) for m in made})
    for kind, text in stale:
        print(f"raised nowhere any more:\n> `{kind}` {text}\n")
    print(f"{len(made)} messages, {len(lacking)} lacking, {len(stale)} too many")
    return int(bool(lacking or stale))


def compare_tests(report: Path) -> int:
    """Print the messages on lines that no test has run."""
    files = json.loads(report.read_text(encoding="utf-8"))["files"]
    missing = {ROOT / name: set(file["missing_lines"]) for name, file in files.items()}
    made = package_messages()
    unraised = [m for m in made if m.line in missing.get(m.path, ())]
    for message in unraised:
        print(f"{message.path.relative_to(ROOT)}:{message.line} {message.text}")
    print(f"{len(made)} messages, {len(unraised)} raised by no test")
    return int(bool(unraised))


def template(message: Message) -> str:
    """Return an entry without its cause, the cure in bold if the message has one."""
    head, found, cure = message.text.rpartition("; ")
    if not found:
        head, found, cure = message.text.rpartition(": ")
    text = f"{head}{found}**{cure}**" if found else message.text
    return f"> `{message.kind}` {text}\n\n"


# The page


def read_page(text: str) -> list[Entry]:
    """List the entries of the page."""
    return [
        Entry(found["kind"], found["text"], " ".join(found["cause"].split()))
        for found in ENTRY.finditer(text)
    ]


def plain(text: str) -> str:
    """Return a text of the page without the marks of its cure."""
    return text.replace("**", "")


# The package


def package_messages() -> list[Message]:
    """List the messages of the package, each once, in the order of its files."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for message in file_messages(path):
            found.setdefault((message.kind, message.text), message)
    return list(found.values())


def file_messages(path: Path) -> Iterator[Message]:
    """Yield the messages that a file makes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    raised = {id(n.exc) for n in ast.walk(tree) if isinstance(n, ast.Raise)}
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    for call in sorted(calls, key=lambda n: n.lineno):
        kind = kind_of(call, raised=id(call) in raised)
        if kind is None or not call.args:
            continue
        for argument in call.args if kind == PART else call.args[:1]:
            for text in texts(argument, tree):
                text = re.sub(f"{FILLED}+", FILLED, text)
                yield Message(kind, text, path, call.lineno)


def kind_of(call: ast.Call, *, raised: bool) -> str | None:
    """Return what a call makes: an exception, a warning, part of one, or neither."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "warn":
        return ast.unparse(call.args[1]) if len(call.args) > 1 else "UserWarning"
    if re.fullmatch(r"[A-Z]\w*(Error|Warning)", name):
        return name
    return PART if raised and name[0] in "_abcdefghijklmnopqrstuvwxyz" else None


def texts(node: ast.expr, tree: ast.Module) -> list[str]:
    """Return the texts that an expression can be, with gaps where it is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(gapped(value) for value in values)]
        case ast.BinOp(left=left, right=right):
            return [a + b for a in texts(left, tree) for b in texts(right, tree)]
        case ast.IfExp(body=body, orelse=orelse):
            return texts(body, tree) + texts(orelse, tree)
        case ast.Name(id=name):
            return [t for value in assigned(name, tree) for t in texts(value, tree)]
        case ast.Attribute(attr=name):
            return [t for value in kept(name) for t in texts(value, tree)]
        case ast.Call(func=ast.Name(id=name)):
            return [t for value in returned(name, tree) for t in texts(value, tree)]
    return []


def gapped(value: ast.expr) -> str:
    """Return a constant piece of an f-string as it is, and a gap for a filled one."""
    return value.value if isinstance(value, ast.Constant) else FILLED


def assigned(name: str, tree: ast.Module) -> list[ast.expr]:
    """Return what a file assigns to a name, or the file that it imports it from."""
    found = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in {a.name for a in node.names}:
            path = ROOT.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            if path.is_file():
                found += assigned(name, ast.parse(path.read_text(encoding="utf-8")))
    return found


def kept(name: str) -> list[ast.expr]:
    """Return what any class of the package assigns to an attribute."""
    return [
        node.value
        for path in sorted(PACKAGE.rglob("*.py"))
        for owner in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and ast.unparse(
            node.targets[0] if isinstance(node, ast.Assign) else node.target
        )
        == name
    ]


def returned(name: str, tree: ast.Module) -> list[ast.expr]:
    """Return what a function of a file returns."""
    return [
        node.value
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name == name
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None
    ]


def unreadable() -> list[str]:
    """List the places that make an exception out of a text that cannot be read here."""
    places = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        raised = {id(n.exc) for n in ast.walk(tree) if isinstance(n, ast.Raise)}
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            kind = kind_of(call, raised=id(call) in raised)
            if kind not in (None, PART) and not texts(call.args[0], tree):
                places.append(f"{path.relative_to(ROOT)}:{call.lineno}")
    return places


if __name__ == "__main__":
    sys.exit(main())
