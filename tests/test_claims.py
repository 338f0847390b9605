"""Measured numbers on pages stand in a table of the benchmarks, under its command."""

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.__main__ import benchmark_names

ROOT = Path(__file__).parents[1]
CLAIMS = tomllib.loads((ROOT / "docs/claims.toml").read_text("utf-8"))["claim"]
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def text_of(page):
    """A page in one line."""
    return " ".join((ROOT / page).read_text("utf-8").split())


def sections():
    """Sections of the benchmarks by title."""
    text = (ROOT / "docs/benchmarks.md").read_text("utf-8")
    _, *found = re.split(r"^## ", text, flags=re.MULTILINE)
    return {part.partition("\n")[0]: part for part in found}


SECTIONS = sections()


def rounds_to(printed, said):
    """Whether a number is rounded to another: as it is, in per cent, or above 100 %."""
    digits = len(said.partition(".")[2])
    value = float(printed.rstrip("%").replace(",", ""))
    forms = (value, 100 * value, 100 * (value - 1))
    unit, target = 10.0**-digits, float(said.replace(",", ""))
    return any(abs(form - target) <= unit / 2 + 1e-9 for form in forms)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["says"][:40])
def test_a_claim_stands_on_its_page_and_in_its_table(claim):
    assert claim["says"] in text_of(claim["page"])
    section = SECTIONS[claim["section"]]
    commands = re.findall(r"python -m benchmarks (\w+)", section)
    assert commands
    assert set(commands) <= set(benchmark_names())
    said = NUMBER.findall(claim["says"])
    assert len(said) == len(claim["printed"])
    for number, printed in zip(said, claim["printed"], strict=True):
        assert re.search(rf"(?<![\d.]){re.escape(printed)}(?!\d)", section), printed
        assert rounds_to(printed, number), (printed, number)


def test_every_share_in_the_readme_is_a_claim_or_a_level():
    levels = {"90 % intervals", "at most 5 %"}  # chosen, not measured
    text = text_of("README.md")
    for known in (*levels, *(c["says"] for c in CLAIMS if c["page"] == "README.md")):
        text = text.replace(known, "")
    assert re.findall(r"\S+ \S+ \d+ %", text) == []
