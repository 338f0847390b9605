"""Save and load estimators as settings in JSON and numbers, without pickle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.io.environment import LIBRARIES, SHOWN, cut_short, version_of
from sklearn_mdl._core.io.parameters import (
    Json,
    Sources,
    as_json,
    class_name,
    estimators_in,
    from_json,
)
from sklearn_mdl._core.io.safetensors_io import is_archive, read_archive, write_archive
from sklearn_mdl._core.io.whole_files import refuse_foreign
from sklearn_mdl._core.numerics import fixed_arithmetic, granted_memory
from sklearn_mdl._core.stream.checkpoint import progress_of, resume
from sklearn_mdl._core.stream.learner import Replay
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.samples import SampleStore
from sklearn_mdl._core.validation import check_finite, damaged, invalid

# Fields of a file, and their types.
FIELDS: dict[str, type] = {
    "estimator": dict,
    "classes": dict,
    "n_features": int,
    "seed": int,
    "versions": dict,
}
# Arrays in every file, and their numbers of dimensions.
ARRAYS = {
    **dict.fromkeys(("labels", "diverged_at", "retired_at"), 1),
    **dict.fromkeys(("summaries", "codes", "shares", "pool_weights"), 2),
    **dict.fromkeys(("losses", "rows"), 2),
}
# Memory that loading may use in addition to twice the size of the file.
SPARE_BYTES = 2**26
STREAM_BYTES = 64  # size of a replay stream: position and generator


NUMBERS = "_numbers"  # in a pickled state, the arrays that replace the run


class FileMixin:
    """Mixin for estimators that can be saved to one file, or pickled as arrays."""

    def __getstate__(self) -> dict[str, Any]:
        """Return settings and NumPy arrays, if a run can be recreated from them.

        Formats that do not run code, such as skops, then need to trust only this
        package's classes. Otherwise the state contains the run itself, for example if
        the trace is on disk, a readout wraps a classifier or an encoder, or the last
        call was stopped by an error.
        """
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        run = state.get("_run")
        if run is not None and run.is_numbers:
            del state["_run"]
            rows = run.samples.rows(0, len(run.samples))
            with fixed_arithmetic():
                state[NUMBERS] = {**_numbers_of(run), "rows": rows}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Recreate the run on a device of this machine."""
        state = dict(state)
        arrays = state.pop(NUMBERS, None)
        if arrays is not None:
            blank = clone(state["_settings"])
            width, classes = state["n_features_in_"], state.get("classes_")
            with fixed_arithmetic():
                _restore_run(arrays, blank, width, classes, state["_seed"])
            state["_run"] = blank._run
        super().__setstate__(state)  # type: ignore[misc]

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Copy the run itself, which is faster than recreating it."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

    def save(self, path: str | PathLike[str]) -> None:
        """Save the estimator to one file for :meth:`load`.

        Settings are written as JSON and everything else as numbers, in the safetensors
        format. So loading never runs code from the file. The file is written
        atomically.

        Parameters
        ----------
        path : path-like
            A path that ends in ``.safetensors``.

        Raises
        ------
        ValueError
            If the last call was stopped by an error or by pressing Ctrl-C twice, or if
            the path has another suffix. Also if the file exists and was not written by
            this package.
        TypeError
            If a parameter or the state of a readout cannot be written in this format.
            Use pickle instead.
        OSError
            If the file cannot be written. An existing file is then kept.
        """
        check_is_fitted(self)
        place = archive_path(path)
        refuse_foreign(place, is_archive)
        with fixed_arithmetic():
            save_estimator(self, place)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        store: str | PathLike[str] = "memory",
        allow_network: bool = False,
        trusted: Collection[str | PathLike[str]] = (),
    ) -> Self:
        """Load an estimator written by :meth:`save`.

        If you continue its stream, results are bitwise identical to those of the saved
        estimator. You can load files that you do not trust: no code in a file is run,
        and only estimators of this package are created. Loading takes about as much
        memory as fitting the rows, classes and readouts in the file did, plus the
        memory of the timm networks that it names. No other file is read and nothing is
        downloaded unless you allow it.

        Parameters
        ----------
        path : path-like
            The file. Do not change it afterwards, since rows are read from it later.
        store : "memory" or path-like, default="memory"
            Where to keep the trace from now on, since the old folder belongs to the
            saved estimator.
        allow_network : bool, default=False
            Allow encoders to download pretrained weights by the names in the file.
        trusted : collection of path-like, default=()
            Files and folders that encoders in the file may read and write, named as in
            the file. Examples are a ``checkpoint_path``, the folder of a cache and the
            path after ``local-dir:``.

        Returns
        -------
        estimator : object

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is damaged, or comes from another program, version or class.
            Also if its settings are invalid, or need files or downloads that you did
            not allow. Also if you pass `store` for a file of a single readout.
        """
        allowed = TrustedSources(allow_network, frozenset(fspath(p) for p in trusted))
        with fixed_arithmetic():
            estimator: Self = load_estimator(cls, archive_path(path), store, allowed)
        return estimator


class TrustedSources(NamedTuple):
    """Downloads and files that the estimators in a loaded file may read."""

    network: bool
    paths: frozenset[str]

    def check(self, estimator: BaseEstimator, path: Path) -> None:
        """Raise ValueError if an estimator would read anything else."""
        sources = estimator._sources() if hasattr(estimator, "_sources") else Sources()
        kind, trust = type(estimator).__name__, " if you trust this file"
        where = f"{path} may use only sources that you allow, but its {kind}"
        for name in () if self.network else sources.network:
            cure = f"pass allow_network=True{trust}"
            raise ValueError(f"{where} fetches {name!r}; {cure}")
        for name in set(sources.paths) - self.paths:
            raise ValueError(f"{where} reads {name!r}; pass trusted=[{name!r}]{trust}")


def save_estimator(estimator: BaseEstimator, path: Path) -> None:
    """Write a fitted estimator (see :meth:`FileMixin.save`)."""
    run = estimator._run
    if not run.can_go_on:
        raise ValueError(
            "A stream must be complete to be saved, but the last call was stopped by "
            "an error or by pressing Ctrl-C twice; call fit with all rows"
        )
    names = getattr(estimator, "feature_names_in_", None)
    settings = as_json(estimator._settings, type(estimator).__name__)
    known = _known_classes()
    for kind in map(type, estimators_in(estimator._settings)):
        if (name := class_name(kind)) not in known:
            raise TypeError(
                f"A file may only contain settings of this package's estimators, got "
                f"{name}; call pickle.dump(estimator, file) instead"
            )
    about = {
        "estimator": settings,
        "classes": as_json(getattr(estimator, "classes_", np.empty(0)), "classes"),
        "n_features": estimator.n_features_in_,
        "feature_names": None if names is None else as_json(names, "feature names"),
        "seed": estimator._seed,
        "versions": {name: version_of(name) for name in LIBRARIES},
    }
    arrays: dict[str, Any] = {**_numbers_of(run), "rows": _Rows(run.samples)}
    if hasattr(estimator, "order_"):
        arrays["order"] = np.asarray(estimator.order_, dtype=np.int64)
    write_archive(path, "estimator", arrays, about)


def _numbers_of(run: PrequentialRun) -> dict[str, np.ndarray]:
    """Return all arrays needed to recreate a run, except its rows."""
    arrays = {**progress_of(run), "losses": run.trace.losses}
    if run.trace.keeps_mixtures:
        arrays["mixtures"] = run.trace.file("mixtures")
    return arrays


def _restore_run(
    arrays: Mapping[str, np.ndarray],
    estimator: BaseEstimator,
    n_features: int,
    classes: np.ndarray | None,
    seed: int,
) -> None:
    """Create the run of an unfitted estimator from saved arrays."""
    named = classes
    if classes is not None and "n_named" in arrays:
        named = classes[: int(arrays["n_named"][0])]
    retired = set(np.flatnonzero(arrays["retired_at"] >= 0).tolist())
    estimator._begin(n_features, named, seed=seed, retired=retired)
    run: PrequentialRun = estimator._run
    if classes is not None:
        _check_labels(arrays["labels"], run, len(classes))
    run.begin(arrays["rows"])
    resume(run, arrays, arrays["losses"])
    run.end()
    if classes is not None:
        estimator.classes_ = classes


class _Rows:
    """The rows of a store, with the attributes that `write_archive` needs."""

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
    kind: type[BaseEstimator],
    path: Path,
    store: str | PathLike[str],
    allowed: TrustedSources,
) -> BaseEstimator:
    """Read an estimator of a given class (see :meth:`FileMixin.load`)."""
    arrays, about = read_archive(path, "estimator")
    _check_fields(about, path)
    try:
        estimator: BaseEstimator = from_json(about["estimator"], _known_classes())
    except Exception as error:  # invalid parameters may raise anything
        required = "an estimator that this version can create"
        cure = f"install {_writer(about)}"
        raise damaged(path, required, _reason(error), cure) from error
    if not isinstance(estimator, kind):
        name = type(estimator).__name__
        held, cure = f"its class is {name}", f"call {name}.load(path)"
        raise damaged(path, f"an estimator of class {kind.__name__}", held, cure)
    for part in estimators_in(estimator):
        allowed.check(part, path)
        # The saved estimator owns its folder.
        if "store" in part.get_params(deep=False):
            part.set_params(store=_with_place(part.store, "memory"), checkpoint=None)
    if "store" in estimator.get_params(deep=False):
        estimator.set_params(store=_with_place(estimator.store, store))
    elif store != "memory":
        required = f"'memory' for {type(estimator).__name__}, which keeps no files"
        raise invalid("store", required, str(store), "omit store")
    try:
        granted = SPARE_BYTES + 2 * path.stat().st_size
        with granted_memory(granted):
            _check_params(estimator, granted)
            _restore(estimator, arrays, about)
    except (OSError, ImportError):
        raise
    except Exception as error:  # a forged file may contain anything
        required = "settings and numbers that were saved together"
        cure = f"call save(path) again with {_writer(about)}, which wrote the file"
        raise damaged(path, required, _reason(error), cure) from error
    return estimator


def _with_place(store: object, place: str | PathLike[str]) -> object:
    """Return the parameter ``store`` with another place."""
    return (place, *store[1:]) if isinstance(store, tuple) else place


def _reason(error: Exception) -> str:
    """Describe an error in one short line."""
    text = " ".join(str(error).split())
    if isinstance(error, KeyError):
        text = f"it lacks {text}"
    return f"{text[:SHOWN]} ({type(error).__name__})"


def _writer(about: Json) -> str:
    return f"sklearn_mdl {cut_short(about['versions'].get('sklearn_mdl'))}"


def _restore(
    estimator: BaseEstimator, arrays: Mapping[str, np.ndarray], about: Json
) -> None:
    """Restore the saved state in an unfitted estimator."""
    classes = from_json(about["classes"], {})
    names = from_json(about.get("feature_names"), {})
    n_features = about["n_features"]
    _check_arrays(arrays, n_features)
    if np.ndim(classes) != 1 or len(np.unique(classes)) != len(classes):
        raise ValueError("its classes are not distinct")
    estimator.n_features_in_ = n_features
    if names is not None:
        if np.shape(names) != (n_features,):
            raise ValueError(f"names of {n_features} features have another shape")
        estimator.feature_names_in_ = names
    _restore_run(arrays, estimator, n_features, classes, about["seed"])
    if "order" in arrays:
        estimator.order_ = np.array(arrays["order"])


def _check_params(estimator: BaseEstimator, granted: int) -> None:
    """Check parameters as ``fit`` does, and the memory for replay streams."""
    n_streams = 0
    for part in estimators_in(estimator):
        if hasattr(part, "_parameter_constraints"):
            part._validate_params()
        n_streams += Replay.requested(getattr(part, "n_replay_streams", 0)).n_streams
    if STREAM_BYTES * n_streams > granted:
        raise ValueError(f"it requests {n_streams} replay streams, which is too many")


def _check_arrays(arrays: Mapping[str, np.ndarray], n_features: int) -> None:
    """Raise ValueError unless the arrays of a run are consistent."""
    shapes = {name: arrays[name].shape for name in ARRAYS if name in arrays}
    missing = sorted(set(ARRAYS) - set(shapes))
    if missing:
        raise ValueError(f"it lacks {missing[0]}")
    n_rows = len(np.atleast_1d(arrays["labels"]))
    for name, shape in shapes.items():
        fits = name in ("diverged_at", "retired_at") or shape[:1] == (n_rows,)
        if len(shape) != ARRAYS[name] or not fits:
            raise ValueError(f"its {name} are of shape {shape} for {n_rows} rows")
    order = arrays.get("order", np.arange(n_rows))
    distinct = np.unique(order)  # without the rows of later calls
    if order.ndim != 1 or len(distinct) != len(order) or not len(order) <= n_rows:
        raise ValueError("its order is not a permutation")
    if distinct.dtype.kind != "i" or distinct[:1].min(initial=0) < 0:
        raise ValueError("its order contains invalid rows")
    rows = arrays["rows"]
    if not n_rows or n_features < 1 or rows.shape[1] != n_features:
        raise ValueError(f"its rows are of shape {rows.shape} for {n_features} columns")
    check_finite(rows, None)


def _check_labels(labels: np.ndarray, run: PrequentialRun, n_classes: int) -> None:
    if run.outcome.dtype.is_floating_point:
        valid = labels.dtype.kind == "f" and np.isfinite(labels).all()
    else:
        valid = labels.dtype.kind == "i" and 0 <= labels.min() <= labels.max()
        valid = valid and labels.max() < n_classes
    if not valid:
        raise ValueError("its labels contain values outside its classes")


def _check_fields(about: object, path: Path) -> None:
    fields = about if isinstance(about, dict) else {}
    missing = [k for k, kind in FIELDS.items() if not isinstance(fields.get(k), kind)]
    if missing:
        what = f"it lacks {', '.join(missing)}"
        raise damaged(path, "a saved estimator", what, "call save(path) again")


def _known_classes() -> dict[str, type]:
    """Return this package's estimators, the only ones that a file may create."""
    from skorch import NeuralNet

    package = __name__.partition(".")[0]
    return {
        kind.__name__: kind
        for kind in _subclasses(BaseEstimator)
        if kind.__module__.partition(".")[0] == package
        and not issubclass(kind, NeuralNet)
    }


def _subclasses(kind: type) -> Iterator[type]:
    child: type
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def archive_path(path: str | PathLike[str]) -> Path:
    """Return the path of a saved estimator; raise if its suffix is wrong."""
    place = Path(path)
    if place.suffix != ".safetensors":
        cure = f"name it {place.stem or 'estimator'}.safetensors"
        raise invalid("path", "a name that ends in .safetensors", str(path), cure)
    return place
