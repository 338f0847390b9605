"""What determines the numbers of a cell, as JSON and as a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from sklearn_mdl.conditions import LIBRARIES, fingerprint, version_of
from sklearn_mdl.representation.cells import Task
from sklearn_mdl.settings import WITHOUT_EFFECT, settings_of

OVERRULED = frozenset({"random_state", "shuffle"})  # a cell has a seed of its own


def fingerprints(X: np.ndarray, y: np.ndarray) -> dict[str, str]:
    """SHA-256 of features and labels, as the walk reads them.

    Features count as float32, labels by their places among the sorted classes: names of
    classes are no part of a code.
    """
    labels = np.unique(y, return_inverse=True)[1].reshape(-1, 1)
    return {"features": fingerprint(X, "<f4"), "labels": fingerprint(labels, "<i8")}


def settings_of_cells(switcher: Any) -> dict[str, Any]:
    """Write down the parameters of a switcher that the numbers of its cells hang on.

    Raises
    ------
    TypeError
        If one of them cannot be written down.
    """
    return settings_of(switcher, WITHOUT_EFFECT | OVERRULED, "switcher.")


def versions() -> dict[str, str]:
    """Return the versions of the libraries that compute."""
    return {name: version_of(name) for name in LIBRARIES}


def identity_of(
    task: Task, settings: Mapping[str, Any], libraries: Mapping[str, str]
) -> dict[str, Any]:
    """Name everything that determines the numbers of a cell.

    Parameters
    ----------
    task : Task
    settings : mapping
        As :func:`settings_of_cells` returns them.
    libraries : mapping
        As :func:`versions` returns them.
    """
    return {
        "dataset": task.dataset,
        "encoder": task.encoder,
        "order": task.order,
        "seed": task.seed,
        "settings": dict(settings),
        "shape": list(task.X.shape),
        "data": dict(task.data),
        "versions": dict(libraries),
    }


def canonical(content: Any) -> bytes:
    """Return the one text of a piece of JSON.

    Raises
    ------
    ValueError
        If it holds NaN or an infinity, which JSON does not know.
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return text.encode()


def digest_of(content: Any) -> str:
    """SHA-256 of the one text of a piece of JSON."""
    return hashlib.sha256(canonical(content)).hexdigest()
