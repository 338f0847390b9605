"""Every message has its entry in docs/errors.md, with a cause and a cure."""

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

MAKE = Path(__file__).parents[1] / "docs" / "make_errors.py"


@pytest.fixture(scope="module")
def catalogue():
    spec = importlib.util.spec_from_file_location("make_errors", MAKE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def entries(catalogue):
    return catalogue.read_page(catalogue.PAGE.read_text(encoding="utf-8"))


def messages_of(catalogue, tmp_path, source):
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    return [(m.kind, m.text) for m in catalogue.file_messages(path)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("raise ValueError('a')", [("ValueError", "a")]),
        ("raise ValueError(f'a {b!r}{c} d')", [("ValueError", "a … d")]),
        ("raise E.TypeError('a' + b'c'.decode())", []),
        ("raise ValueError('a' if b else 'c')", [("ValueError", x) for x in "ac"]),
        ("T = 'a'\nraise ValueError(T)", [("ValueError", "a")]),
        ("def f():\n  return 'a'\nraise ValueError(f())", [("ValueError", "a")]),
        ("return_ = OSError('a')", [("OSError", "a")]),
        ("raise _damaged(path, f'a {b}')", [("part", "a …")]),
        ("warnings.warn('a', UserWarning, stacklevel=2)", [("UserWarning", "a")]),
        ("print('a')\nraise\n", []),
    ],
)
def test_messages_are_read_off_the_source(catalogue, tmp_path, source, found):
    assert messages_of(catalogue, tmp_path, source) == found


def test_entries_are_read_off_the_page(catalogue):
    page = "# A\n\n> `OSError` a …; **b**\n\nThe cause\ngoes on.\n\n> `part` c\n\nD.\n"
    assert catalogue.read_page(page) == [
        ("OSError", "a …; **b**", "The cause goes on."),
        ("part", "c", "D."),
    ]


def test_every_message_can_be_read(catalogue):
    assert catalogue.unreadable() == []


def test_every_message_has_its_entry_and_every_entry_its_message(catalogue, entries):
    made = {(m.kind, m.text) for m in catalogue.package_messages()}
    written = Counter((e.kind, catalogue.plain(e.text)) for e in entries)
    assert sorted(made - set(written)) == [], "see python docs/make_errors.py"
    assert sorted(set(written) - made) == [], "see python docs/make_errors.py"
    assert [entry for entry, n in written.items() if n > 1] == []


def test_every_entry_tells_cause_and_cure(entries):
    assert [e.text for e in entries if not e.cause] == []
    assert [e.text for e in entries if "**" not in e.text + e.cause] == []
