"""The oldest versions that are tested are the oldest that are allowed."""

import configparser
import re
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = ("plot", "images", "vtab", "coding", "dask")
BOUND = re.compile(r"^([\w-]+)(?:\[\w+\])?>=([\d.]+)", re.MULTILINE)
PIN = re.compile(r"^([\w-]+)==([\d.]+)", re.MULTILINE)
OF_TESTS = {"pytest", "polars"}  # others of the test extra are tools


def lower_bounds():
    """What setup.cfg allows, by name: the package's own, and those of its extras."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = setup["options.extras_require"]
    texts = [setup["options"]["install_requires"], *(extras[name] for name in EXTRAS)]
    found = [bound for text in texts for bound in BOUND.findall(text)]
    return found + [b for b in BOUND.findall(extras["test"]) if b[0] in OF_TESTS]


def pins():
    return dict(PIN.findall((ROOT / "constraints-oldest.txt").read_text("utf-8")))


def numbers(text):
    """Numbers of a version, without zeros at its end."""
    return re.sub(r"(\.0)+$", "", text)


def test_the_oldest_versions_are_the_lower_bounds():
    bounds = lower_bounds()
    assert len(dict(bounds)) > 15
    assert {name for name, _ in bounds} == set(pins())
    wrong = [(n, low) for n, low in bounds if numbers(pins()[n]) != numbers(low)]
    assert wrong == []


def test_the_oldest_python_is_the_one_that_the_linter_and_types_are_told():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert setup["options"]["python_requires"] == ">=3.11"
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'target-version = "py311"' in project
    assert 'python_version = "3.11"' in project
    assert "OLDEST_PYTHON ?= python3.11" in (ROOT / "Makefile").read_text("utf-8")


def test_the_tests_on_the_oldest_versions_are_there():
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    (names,) = re.findall(r"^OLDEST_TESTS := (.*)$", makefile, re.MULTILINE)
    missing = [n for n in names.split() if not (ROOT / f"tests/test_{n}.py").is_file()]
    assert missing == []


@pytest.mark.parametrize("name", ["scikit-learn", "torch", "skorch", "joblib", "numpy"])
def test_what_is_installed_is_not_older(name):
    def key(text):
        return [int(number) for number in re.findall(r"\d+", text)[:3]]

    assert key(version(name)) >= key(dict(lower_bounds())[name])
