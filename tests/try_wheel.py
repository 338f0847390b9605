"""Check that the archives hold what they should, and that the installed package works.

``make check-dist`` runs this in an empty environment that holds the wheel and what it
requires, with the folder of the archives as its argument. That environment has no
pytest.
"""

import importlib.util
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.datasets import load_wine

import sklearn_mdl


def check_wheel(path: Path) -> None:
    """Check that the wheel holds package, types and licence, and no data."""
    names = zipfile.ZipFile(path).namelist()
    info = f"sklearn_mdl-{sklearn_mdl.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"sklearn_mdl", info}, names
    code = [name for name in names if name.startswith("sklearn_mdl/")]
    others = [name for name in code if not name.endswith(".py")]
    templates = [
        *("citation.html", "macros.html", "page.html", "page.js"),
        *("style.css", "uPlot.LICENSE", "uPlot.min.css", "uPlot.min.js"),
    ]
    places = [f"sklearn_mdl/report/templates/{name}" for name in templates]
    expected = ["__init__.pyi", "py.typed", "datasets/_vtab/tasks.toml"]
    places += [f"sklearn_mdl/{name}" for name in expected]
    assert sorted(others) == sorted(places), others
    assert f"{info}/licenses/LICENSE" in names, names
    licence = f"{info}/licenses/sklearn_mdl/report/templates/uPlot.LICENSE"
    assert licence in names, names
    assert path.stat().st_size < 1_000_000, path.stat().st_size


def check_source(path: Path) -> None:
    """Check that the source archive holds all that `make test` and `make docs` need."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "CITATION.cff", "CHANGELOG.md", "Makefile", "pyproject.toml"}
    wanted |= {"tests/data/vtab_codelengths.csv", "docs/conf.py", "docs/index.md"}
    wanted |= {"examples/codelength/plot_codelength.py", "sklearn_mdl/py.typed"}
    assert wanted <= names, wanted - names
    built = ("docs/_build", "docs/generated", "docs/auto_examples", ".venv")
    assert not [name for name in names if name.startswith(built)]


def check_package() -> None:
    """Check that the package is the installed one, fits, and has its command line."""
    home = Path(sklearn_mdl.__file__).parent
    assert home.is_relative_to(sys.prefix), home
    for extra in ("pytest", "matplotlib", "timm", "constriction"):
        assert importlib.util.find_spec(extra) is None, f"{extra} is installed"
    for name in sklearn_mdl.__all__:
        getattr(sklearn_mdl, name)

    X, y = load_wine(return_X_y=True)
    switcher = sklearn_mdl.MDLReadoutSwitcher(shuffle=True, random_state=0).fit(X, y)
    uniform = sklearn_mdl.uniform_codelength(len(y), n_classes=3)
    assert switcher.codelength_ < 0.6 * uniform, switcher.codelength_
    with tempfile.TemporaryDirectory() as folder:
        features, labels = Path(folder, "features.npy"), Path(folder, "labels.npy")
        np.save(features, X)
        np.save(labels, y)
        program = shutil.which("sklearn-mdl", path=Path(sys.executable).parent)
        subprocess.run([program, "--version"], check=True)
        printed = subprocess.run(
            [program, "score", features, labels],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    assert "nats" in printed, printed


def print_import_times() -> None:
    """Print how long imports take: medians of nine processes.

    A class imports torch and scikit-learn. One process times them and then the rest, so
    that its ratio does not depend on how busy the machine is at that time.
    """
    timed = (
        "from time import perf_counter as now; times = [now()]; import sklearn_mdl; "
        "times += [now()]; import torch, sklearn; times += [now()]; "
        "sklearn_mdl.MDLReadoutSwitcher; print(*times, now())"
    )
    measured = []
    for _ in range(9):
        command = [sys.executable, "-I", "-c", timed]
        printed = subprocess.run(command, check=True, capture_output=True, text=True)
        times = [float(time) for time in printed.stdout.split()]
        package, libraries, rest = (b - a for a, b in pairwise(times))
        measured.append((package, libraries, 1 + (package + rest) / libraries))
    package, libraries, ratio = map(median, zip(*measured, strict=True))
    print(f"import sklearn_mdl: {package:.3f} s")
    print(f"import torch, sklearn: {libraries:.3f} s")
    print(f"from sklearn_mdl import MDLReadoutSwitcher: {ratio:.3f} times as long")


def main() -> None:
    """Check both archives and the package."""
    folder = Path(sys.argv[1])
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_wheel(wheel)
    check_source(source)
    check_package()
    print_import_times()
    print(f"{wheel.name} and {source.name}: complete, installed, working")


if __name__ == "__main__":
    main()
