"""Features of an encoder on a dataset: computed once, kept whole or not at all."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from sklearn_mdl.archives import read_archive, write_archive
from sklearn_mdl.representation.identity import versions
from sklearn_mdl.representation.naming import stem_of

NAME, SUFFIX = "features", ".safetensors"


def keeps_data(encoder: Any) -> bool:
    """Whether an encoder gives the data as they are."""
    return encoder is None or (isinstance(encoder, str) and encoder == "passthrough")


def encode(encoder: Any, X: Any) -> np.ndarray:
    """Fit a copy of an encoder on X alone; None and "passthrough" keep X."""
    if keeps_data(encoder):
        return np.asarray(X)
    if isinstance(encoder, FrozenEstimator):
        return np.asarray(encoder.transform(X))
    return np.asarray(clone(encoder).fit(X).transform(X))


class FeatureStore:
    """Features of encoders in a directory, as float32, by what they follow from.

    That is the encoder with all that it has learned, if it is frozen, the data, and the
    versions of the libraries. Of files whose paths are the data, sizes and times of
    change count.

    Parameters
    ----------
    folder : Path
        Made with the first features.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place_of(self, names: tuple[str, str], encoder: Any, X: Any) -> Path:
        """Return where the features of an encoder on a dataset are, or will be.

        Parameters
        ----------
        names : (dataset, encoder)
        encoder : transformer
        X : array-like

        Raises
        ------
        TypeError
            If encoder or data cannot be pickled, and so not be told from others.
        """
        return self.folder / f"{stem_of(*names, key=_key(names, encoder, X))}{SUFFIX}"

    def get(self, path: Path, make: Callable[[], Any]) -> np.ndarray:
        """Return the features that are there, or make and keep them.

        Parameters
        ----------
        path : Path
            As :meth:`place_of` returns it.
        make : callable
            Returns the features, checked.
        """
        if path.exists():
            try:
                arrays, about = read_archive(path)
                if about == {"name": path.name} and list(arrays) == [NAME]:
                    return arrays[NAME]
                problem = f"{path} holds others"
            except (ValueError, FileNotFoundError) as error:
                problem = str(error)
            warnings.warn(
                f"an encoder runs anew, whose features were kept: {problem}",
                UserWarning,
                stacklevel=2,
            )
        features = np.asarray(make(), dtype=np.float32)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_archive(path, {NAME: features}, {"name": path.name})
        return read_archive(path)[0][NAME]


def _key(names: tuple[str, str], encoder: Any, X: Any) -> str:
    known = encoder, X, _files_of(X)
    kind = f"{type(encoder).__module__}.{type(encoder).__qualname__}"
    try:
        found = joblib.hash((kind, *known), hash_name="sha1", coerce_mmap=True)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(
            "Encoders and data must be picklable for features to be kept, but encoder "
            f"{names[1]!r} on dataset {names[0]!r} is not; give features in its place, "
            "or leave out results"
        ) from error
    return hashlib.sha256(repr((*names, found, versions())).encode()).hexdigest()


def _files_of(X: Any) -> list[tuple[int, int]] | None:
    """Return sizes and times of change, if data are paths of files."""
    if not isinstance(X, list | tuple) or not all(
        isinstance(item, str | PathLike) for item in X
    ):
        return None
    try:
        found = [os.stat(path) for path in X]
    except OSError:  # text, or a file that the encoder will complain of
        return None
    return [(stat.st_size, stat.st_mtime_ns) for stat in found]
