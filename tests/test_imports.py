"""Imports happen on first use; extras are imported by what needs them alone.

Every test looks at ``sys.modules`` of a fresh process.
"""

import subprocess
import sys

import pytest
from public_names import PACKAGES

import sklearn_mdl

HEAVY = {"torch", "skorch", "sklearn", "scipy"}
EXTRAS = {
    *("matplotlib", "pandas", "timm", "torchvision", "PIL", "h5py", "constriction"),
    *("dask", "distributed", "jinja2", "polars", "rich"),
}
COMMANDS = ["demo", "rank", "score", "remix", "encode", "decode", "shift"]
FIT = """
import sklearn_mdl
X, y = [[float(i % 2)] for i in range(40)], [i % 2 for i in range(40)]
readouts = [sklearn_mdl.LinearReadout(lr=0.1)]
print(sklearn_mdl.MDLReadoutSwitcher(readouts, random_state=0).fit(X, y).codelength_)
"""


def run(code):
    """Run code in a fresh process, with warnings as errors; return what it prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules(code):
    """Modules that a fresh process has imported after some code."""
    names = run(f"{code}\nimport sys; print('imported:', *sys.modules)")
    return set(names.rpartition("imported:")[2].split())


def imported(code):
    """Their top-level packages."""
    return {name.partition(".")[0] for name in modules(code)}


def test_the_root_imports_nothing_before_a_name_is_used():
    found = imported("import sklearn_mdl; dir(sklearn_mdl)")
    assert "sklearn_mdl" in found
    assert not found & {"numpy", *HEAVY, *EXTRAS}


def test_names_import_only_what_they_need():
    """A class does not import what a few fits need: that takes a tenth of a second."""
    names = "ranking.win_table", "switching.FixedShare", "metrics.regret", "forward"
    code = "".join(f"sklearn_mdl.{name}\n" for name in names)
    assert not imported(f"import sklearn_mdl\n{code}") & {"torch", "skorch"}
    found = modules("import sklearn_mdl; sklearn_mdl.MDLReadoutSwitcher")
    late = "compose", "decomposition", "feature_extraction", "linear_model", "neighbors"
    later = "metrics", "model_selection", "pipeline", "preprocessing"
    assert "sklearn_mdl.switcher" in found
    assert not found & {f"sklearn.{name}" for name in (*late, *later)}
    assert not found & {"skorch", "sklearn_mdl.display"}


@pytest.mark.parametrize(
    "arguments",
    [["--help"], *([command, "--help"] for command in COMMANDS), ["unknown"], []],
    ids=" ".join,
)
def test_parsing_imports_neither_torch_nor_scikit_learn(arguments):
    code = f"""
import runpy, sys
sys.argv[1:] = {arguments}
try:
    runpy.run_module("sklearn_mdl", run_name="__main__", alter_sys=True)
except SystemExit as exit:
    assert exit.code == (0 if "--help" in {arguments} else 2)
"""
    found = imported(code)
    assert "argparse" in found
    assert not found & {*HEAVY, *EXTRAS}


@pytest.mark.slow
def test_public_names_and_a_fit_need_no_extra():
    """And packages are attributes of the root, before anything imports them."""
    names = [f"sklearn_mdl.{name}" for name in PACKAGES]
    code = f"""
import importlib, sys
from importlib.machinery import PathFinder

class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, *args):
        known = name.partition(".")[0] not in {EXTRAS}
        return super().find_spec(name, *args) if known else None

sys.meta_path = [WithoutExtras if f is PathFinder else f for f in sys.meta_path]
import sklearn_mdl
print({", ".join(f"{name}.__name__" for name in names)})
{FIT}
for name in {["sklearn_mdl", *names]}:
    package = importlib.import_module(name)
    for public in package.__all__:
        getattr(package, public)
"""
    *found, codelength = run(code).split()
    assert found == names
    assert set(PACKAGES) <= set(dir(sklearn_mdl))
    assert not set(PACKAGES) & set(sklearn_mdl.__all__)
    assert 0 < float(codelength) < 40


@pytest.mark.slow
def test_a_fit_imports_neither_extras_nor_the_compiler_of_torch():
    """No extra, that is, but those that come with what it builds on."""
    code = f"""
import sys
import skorch, sklearn.linear_model
by_others = set(sys.modules)
{FIT}
assert "torch._dynamo" not in sys.modules
print("imported:", *(set(sys.modules) - by_others))
"""
    names = run(code).rpartition("imported:")[2].split()
    assert not {name.partition(".")[0] for name in names} & EXTRAS


@pytest.mark.parametrize("name", ["no_such_name", "_core_", "__path"])
def test_unknown_names_of_the_root_are_attribute_errors(name):
    with pytest.raises(AttributeError, match=name):
        getattr(sklearn_mdl, name)
