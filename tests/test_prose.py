"""Idioms that native readers of this field stop at, and the places where they occur.

Run ``python tests/test_prose.py`` to list all places, each with what to write instead.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
MODULES = sorted((ROOT / "sklearn_mdl").rglob("*.py"))
CODE_IN_PAGES = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)

# Rare in plain English about this subject, so that almost every match is a sentence to
# rewrite. "Alone" may follow labels and frequencies, whose code has that name.
IDIOMS = {
    r"who(?:m|se)?ever": "you",
    r"nobody|somebody|someone": "you, or the name of the thing",
    r"told apart|not be told": "differ significantly, unclear",
    r"(?:go|goes|going|went|gone) on(?! the| a)": "continue, resume",
    r"(?:win|wins|won|winning) over": "override",
    r"of (?:ours|theirs)": "built in, our, their",
    r"likewise|lest|thereof|therein|whence|anew": "also, to avoid, again",
    r"(?:say|says|said|saying) nothing": "does not depend on, ignores",
    r"as of(?! version)": "as for, as returned by",
    r"beside": "besides, next to",
    r"mend|mends|mended|mending": "fix",
    r"stands? (?:beside|still|in (?:its|the) way)": "is next to, is fixed, hurts",
    r"(?:come|comes|came|coming) back": "reappear, is returned",
    r"none of (?:its|ours|theirs)": "no",
    r"(?:is|has|have|had) no bound": "is unlimited",
    r"hoped for": "(leave it out)",
    r"knows? nothing|ask(?:s|ed)? nothing": "does not depend on, is not used",
    r"(?<!else )(?<!labels )(?<!frequencies )(?<!left )alone(?! :|,? nats)": "only",
}
WORDS = {re.compile(rf"\b(?:{k})\b", re.IGNORECASE): v for k, v in IDIOMS.items()}


def passages(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and words of all texts, docstrings and comments of a module."""
    tree = ast.parse(text)
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in joined for part in ast.walk(node)} - set(
        map(id, joined)
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in parts:
            texts = [getattr(part, "value", None) for part in node.values]
            yield node.lineno, " ".join(text for text in texts if isinstance(text, str))
        words = getattr(node, "value", None)
        if isinstance(words, str) and " " in words and id(node) not in parts:
            yield node.lineno, re.sub(r"``.*?``|>>>.*|\.\.\. .*", "", words)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def idioms_in(words: str) -> Iterator[tuple[str, str]]:
    """Yield each idiom, with some words around it, and what to write instead."""
    words = " ".join(words.split())
    for pattern, cure in WORDS.items():
        for match in pattern.finditer(words):
            yield words[max(match.start() - 40, 0) : match.end() + 30], cure


def of_module(path: Path) -> list[str]:
    """List the idioms of a module."""
    texts = passages(path.read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(ROOT)}:{line}: ...{found}... ({cure})"
        for line, text in texts
        for found, cure in idioms_in(text)
    ]


def of_page(path: Path) -> list[str]:
    """List the idioms of a page, outside its code."""
    text = CODE_IN_PAGES.sub(" ", path.read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(ROOT)}: ...{found}... ({cure})"
        for found, cure in idioms_in(text)
    ]


# Places that are left, by package. Every number may only fall.
MODULES_LEFT = {"report": 1}


def test_idioms_are_found_in_docstrings_messages_and_comments():
    text = '"""Fix it, lest it fail."""\nraise OSError(f"{1} of ours")  # goes on\n'
    found = [cure for _, words in passages(text) for _, cure in idioms_in(words)]
    assert sorted(found) == [
        "also, to avoid, again",
        "built in, our, their",
        "continue, resume",
    ]


def test_docstrings_and_messages_have_few_idioms():
    places: dict[str, list[str]] = {}
    for path in MODULES:
        package = "/".join(path.relative_to(ROOT / "sklearn_mdl").parts[:-1])
        places.setdefault(package, []).extend(of_module(path))
    more = [
        some for name, some in places.items() if len(some) > MODULES_LEFT.get(name, 0)
    ]
    assert more == []


def test_pages_have_no_idioms():
    assert [place for path in PAGES for place in of_page(path)] == []


if __name__ == "__main__":
    places = {
        path: (of_module if path.suffix == ".py" else of_page)(path)
        for path in [*MODULES, *PAGES]
    }
    for path, some in places.items():
        print(
            *some, f"{len(some):4}  {path.relative_to(ROOT)}", sep="\n"
        ) if some else None
    print(sum(map(len, places.values())), "places")
