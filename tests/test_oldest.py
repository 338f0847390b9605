"""The oldest versions that are tested are the oldest that are allowed."""

import configparser
import re
from importlib.metadata import version
from pathlib import Path

import pytest

import sklearn_mdl

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipe" / "recipe.yaml"
EXTRAS = ("plot", "images", "vtab", "readers", "report", "coding", "dask")
BOUND = re.compile(r"^([\w-]+)(?:\[\w+\])?>=([\d.]+)", re.MULTILINE)
PIN = re.compile(r"^([\w-]+)==([\d.]+)", re.MULTILINE)
# Others of the test extra are tools.
OF_TESTS = {"pytest", "polars", "hypothesis", "scikit-posthocs", "autorank", "rich"}


def read_setup():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    return setup


def lower_bounds():
    """What setup.cfg allows, by name: the package's own, and those of its extras."""
    setup = read_setup()
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


def test_the_tests_on_the_oldest_versions_are_there():
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    (names,) = re.findall(r"^OLDEST_TESTS := (.*)$", makefile, re.MULTILINE)
    missing = [n for n in names.split() if not (ROOT / f"tests/test_{n}.py").is_file()]
    assert missing == []


def test_what_is_installed_is_not_older():
    def key(text):
        return [int(number) for number in re.findall(r"\d+", text)[:3]]

    for name in ("scikit-learn", "torch", "skorch", "joblib", "numpy"):
        assert key(version(name)) >= key(dict(lower_bounds())[name])


@pytest.mark.skipif(not RECIPE.exists(), reason="the source archive has no recipe")
def test_the_recipe_of_conda_requires_what_the_wheel_requires():
    text, setup = RECIPE.read_text("utf-8"), read_setup()
    run = text.partition("\n  run:\n")[2].partition("\n\n")[0]
    bounds = dict(re.findall(r"^ +- (\S+) >=([\d.]+)$", run, re.MULTILINE))
    own = dict(BOUND.findall(setup["options"]["install_requires"]))
    assert bounds == {("pytorch" if n == "torch" else n): v for n, v in own.items()}
    least = setup["options"]["python_requires"].removeprefix(">=")
    assert f'version: "{sklearn_mdl.__version__}"\n  python_min: "{least}"' in text
    assert f"license: {setup['metadata']['license_expression']}\n" in text
    files = setup["metadata"]["license_files"].split()
    assert text.rpartition("license_file:")[2].split() == [
        w for f in files for w in ("-", f)
    ]
    (script,) = setup["options.entry_points"]["console_scripts"].strip().splitlines()
    assert f"- {script}\n" in text
