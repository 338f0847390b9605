"""Inventories of other libraries' documentation, for builds without a network.

Intersphinx downloads inventories from the sites of scikit-learn, numpy and torch. If a
download fails, it uses the file written here, which lists the public names of the
installed version and the addresses of their pages.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

HEADER = """\
# Sphinx inventory version 2
# Project: {0}
# Version:
# The remainder of this file is compressed using zlib.
"""
SITES = {
    "numpy": "https://numpy.org/doc/stable/",
    "sklearn": "https://scikit-learn.org/stable/",
    "torch": "https://docs.pytorch.org/docs/stable/",
}
TERMS = {
    "numpy": {"array_like": "glossary.html#term-array_like"},
    "sklearn": {"estimator": "glossary.html#term-estimator"},
    "torch": {},
}
TORCH = ("", ".nn", ".optim")


def sources(folder: Path) -> dict[str, tuple[str, tuple[None, str]]]:
    """Write inventories into a folder, and return the mapping for intersphinx."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for library, site in SITES.items():
        path = folder / f"{library}.inv"
        path.write_bytes(inventory(library))
        mapping[library] = site, (None, str(path))
    return mapping


def inventory(library: str) -> bytes:
    """Return the content of an inventory of a library's public names."""
    lines = [
        f"{name} py:{'class' if inspect.isclass(thing) else 'function'} 1 {page} -"
        for name, thing, page in pages(library)
    ]
    lines += [f"{name} std:term -1 {page} -" for name, page in TERMS[library].items()]
    body = "\n".join(sorted(set(lines))) + "\n"
    return HEADER.format(library).encode() + zlib.compress(body.encode())


def pages(library: str) -> Iterator[tuple[str, object, str]]:
    """Yield the name, the object and the page of each public name."""
    folder = {"sklearn": "modules/generated/", "torch": "generated/"}.get(
        library, "reference/generated/"
    )
    for module in modules(library):
        for name in getattr(module, "__all__", None) or dir(module):
            thing = vars(module).get(name)
            if callable(thing) and not name.startswith("_"):
                path = f"{module.__name__}.{name}"
                yield path, thing, f"{folder}{path}.html"
    if library == "torch":
        yield "torch.Tensor", type, "tensors.html#torch.Tensor"


def modules(library: str) -> Iterator[ModuleType]:
    """Yield the modules of a library whose public names have pages."""
    root = importlib.import_module(library)
    if library == "torch":
        yield from (importlib.import_module(f"torch{part}") for part in TORCH)
        return
    yield root
    if library == "sklearn":
        for info in pkgutil.iter_modules(root.__path__, "sklearn."):
            if not info.name.rpartition(".")[2].startswith(("_", "tests", "conftest")):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield importlib.import_module(info.name)
