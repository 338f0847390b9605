"""Public names of the package: those that its public packages list in ``__all__``."""

import importlib
import pkgutil

import sklearn_mdl

PACKAGES = [
    info.name
    for info in pkgutil.iter_modules(sklearn_mdl.__path__)
    if info.ispkg and not info.name.startswith("_") and info.name != "cli"
]


def _paths() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(f"sklearn_mdl.{package}")
        found |= {name: f"{module.__name__}.{name}" for name in module.__all__}
    return dict(sorted(found.items()))


PATHS = _paths()  # of every public name, where it is imported from


def public(name: str) -> object:
    """Return what a public name stands for."""
    package, _, name = PATHS[name].rpartition(".")
    return getattr(importlib.import_module(package), name)
