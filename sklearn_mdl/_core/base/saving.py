"""Estimators to and from one file: settings as JSON, the rest as numbers, no pickle."""

from __future__ import annotations

from collections.abc import Container, Iterator
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.io.environment import LIBRARIES, version_of
from sklearn_mdl._core.io.parameters import as_json, from_json
from sklearn_mdl._core.io.safetensors_io import read_archive, write_archive
from sklearn_mdl._core.numerics import fixed_arithmetic
from sklearn_mdl._core.stream.checkpoint import progress_of, resume
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.storage import SampleStore

FORMAT = 1
# Fields of a file, and their types.
FIELDS: dict[str, type] = {
    "format": int,
    "estimator": dict,
    "classes": dict,
    "n_features": int,
    "seed": int,
    "versions": dict,
}


class FileMixin:
    """Mixin of estimators that can be saved to one file."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, from which :meth:`load` makes it again.

        Settings are written as JSON and all else as numbers, in the format of
        safetensors: nothing in the file is ever run. The file is whole or not there.

        Parameters
        ----------
        path : path-like
            Ends in ``.safetensors``.

        Raises
        ------
        ValueError
            If the stream was interrupted within a segment, or the path ends otherwise.
        TypeError
            If a parameter, or what a readout has learned, cannot be written so; pickle
            keeps those.
        OSError
            If the file cannot be written; what stood there still does.
        """
        check_is_fitted(self)
        with fixed_arithmetic():
            save_estimator(self, archive_path(path))

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, store: str | PathLike[str] = "memory"
    ) -> Self:
        """Make the estimator that :meth:`save` wrote; it goes on, bit by bit.

        Parameters
        ----------
        path : path-like
            Rows are read from this file, which must keep its content.
        store : "memory" or path-like, default="memory"
            Where the trace is kept from now on, since what was there belongs to the
            estimator that was saved.

        Returns
        -------
        estimator : object

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is damaged, of another program, version or class, or if it holds
            a single readout, which takes no ``store``.
        """
        with fixed_arithmetic():
            found: Self = load_estimator(cls, archive_path(path), store)
        return found


def save_estimator(estimator: BaseEstimator, path: Path) -> None:
    """Write a fitted estimator; see :meth:`FileMixin.save`."""
    run = estimator._run
    if not run.can_go_on:
        raise ValueError(
            "A stream must be whole to be saved, but its last call was interrupted "
            "within a segment; call fit again"
        )
    names = getattr(estimator, "feature_names_in_", None)
    settings = as_json(estimator, type(estimator).__name__)
    _check_classes(settings, _known_classes())
    about = {
        "format": FORMAT,
        "estimator": settings,
        "classes": as_json(getattr(estimator, "classes_", np.empty(0)), "classes"),
        "n_features": estimator.n_features_in_,
        "feature_names": None if names is None else as_json(names, "feature names"),
        "seed": estimator._seed,
        "versions": {name: version_of(name) for name in LIBRARIES},
    }
    arrays = {
        **progress_of(run),
        "losses": run.trace.losses,
        "rows": _Rows(run.samples),
    }
    if hasattr(estimator, "order_"):
        arrays["order"] = np.asarray(estimator.order_, dtype=np.int64)
    write_archive(path, arrays, about)


def _check_classes(settings: object, known: Container[str]) -> None:
    """Refuse settings that name estimators which no file may make."""
    match settings:
        case {"class": str(name), "params": dict()} if name not in known:
            raise TypeError(
                "A file may hold settings of this package's estimators alone, got "
                f"{name}; pickle can keep it"
            )
        case dict():
            parts = list(settings.values())
        case list():
            parts = settings
        case _:
            return
    for part in parts:
        _check_classes(part, known)


class _Rows:
    """The rows of a store, as much of an array as is needed to write them."""

    dtype = np.dtype("<f4")
    ndim = 2

    def __init__(self, store: SampleStore) -> None:
        self.store = store
        self.shape = (len(store), store.n_features)
        self.nbytes = self.dtype.itemsize * len(store) * store.n_features

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self.store))
        return self.store.rows(start, stop)


def load_estimator(
    kind: type[BaseEstimator], path: Path, store: str | PathLike[str]
) -> BaseEstimator:
    """Read an estimator of a class; see :meth:`FileMixin.load`."""
    arrays, about = read_archive(path)
    _check_fields(about, path)
    try:
        estimator: BaseEstimator = from_json(about["estimator"], _known_classes())
        classes = from_json(about["classes"], {})
        names = from_json(about.get("feature_names"), {})
    except TypeError as error:  # a parameter that this version does not know
        raise ValueError(
            f"{path} must be made by a version with the same parameters, but {error}; "
            f"it was written by {about['versions'].get('sklearn_mdl')}"
        ) from error
    if not isinstance(estimator, kind):
        raise ValueError(
            f"{path} must hold a {kind.__name__}, got a {type(estimator).__name__}; "
            "call load of that class"
        )
    if "store" in estimator.get_params(deep=False):
        estimator.set_params(store=store, checkpoint=None)
    elif store != "memory":
        raise ValueError(
            f"A {type(estimator).__name__} keeps its trace in memory alone, got "
            f"store={str(store)!r}; leave it out, or take a switcher"
        )
    estimator.n_features_in_ = about["n_features"]
    if names is not None:
        estimator.feature_names_in_ = names
    estimator._begin(about["n_features"], classes, seed=about["seed"])
    if "order" in arrays:
        estimator.order_ = np.array(arrays["order"])
    run: PrequentialRun = estimator._run
    run.begin(arrays["rows"])
    resume(run, arrays, arrays["losses"])
    run.end()
    return estimator


def _check_fields(about: object, path: Path) -> None:
    found = about if isinstance(about, dict) else {}
    missing = [k for k, kind in FIELDS.items() if not isinstance(found.get(k), kind)]
    if missing:
        raise ValueError(
            f"{path} must be a saved estimator, but it says nothing of "
            f"{', '.join(missing)}; it may be a checkpoint, which fit reads"
        )
    if found["format"] != FORMAT:
        raise ValueError(
            f"{path} must be of format {FORMAT}, got {found['format']}; read it with "
            f"sklearn_mdl {found['versions'].get('sklearn_mdl')}"
        )


def _known_classes() -> dict[str, type]:
    """Estimators that a file may name: ours, and none of which nothing is known."""
    package = __name__.partition(".")[0]
    return {
        kind.__name__: kind
        for kind in _subclasses(BaseEstimator)
        if kind.__module__.partition(".")[0] == package
    }


def _subclasses(kind: type) -> Iterator[type]:
    child: type
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def archive_path(path: str | PathLike[str]) -> Path:
    """Return the path of a saved estimator, checked for its ending."""
    found = Path(path)
    if found.suffix != ".safetensors":
        raise ValueError(
            f"The path of a saved estimator must end in .safetensors, got {path}; name "
            f"it {found.stem or 'estimator'}.safetensors"
        )
    return found
