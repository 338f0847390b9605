"""Cache of features on disk, keyed by the encoder and its input."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.images.lazy import LazyImages
from sklearn_mdl._core.images.reading import FilePart, item_at
from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.content_hash import content_hash
from sklearn_mdl._core.io.environment import LIBRARIES, version_of
from sklearn_mdl._core.io.formats import NewerFormat
from sklearn_mdl._core.io.parameters import Sources
from sklearn_mdl._core.io.safetensors_io import read_archive, write_archive
from sklearn_mdl._core.io.whole_files import make_folder
from sklearn_mdl._core.numerics import dense
from sklearn_mdl._core.sklearn_compat import Constraints, fit_context
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.encoders._hidden_states import HiddenStatesEncoder
from sklearn_mdl.encoders._protection import protected
from sklearn_mdl.encoders._timm import TimmEncoder
from sklearn_mdl.encoders._torch import TorchEncoder
from sklearn_mdl.encoders._view_encoder import ViewEncoder

FEATURES = "features"  # name of the array in a file, which load_features expects
MARGIN = 0.05  # devices, versions and half precision change features by less
IMAGE_LIBRARIES = ("sklearn_mdl", "torch", "torchvision", "timm", "pillow", "numpy")


def encode(encoder: Any, X: object) -> np.ndarray:
    """Fit a copy of a transformer on X without labels, and return the features of X.

    A FrozenEstimator is neither copied nor fitted. With None or "passthrough", X is
    returned as a dense array.
    """
    if keeps_data(encoder):
        return np.asarray(dense(X))
    if not isinstance(encoder, FrozenEstimator):
        encoder = clone(encoder).fit(protected(X, encoder))
    # A new copy, since `fit` may have changed the first one.
    return np.asarray(dense(encoder.transform(protected(X, encoder))))


def keeps_data(encoder: object) -> bool:
    """Return True if the encoder is None or "passthrough"."""
    return encoder is None or (isinstance(encoder, str) and encoder == "passthrough")


class FeatureCache:
    """A folder of cached features.

    Each feature set has a key. For network encoders (TimmEncoder, TorchEncoder and
    HiddenStatesEncoder), the key contains the weights, the preprocessing, the layers,
    the pooling and the content of the input. Except for TimmEncoder, it also includes
    the public attributes of the network's modules. For a TorchEncoder's `preprocess`,
    the key contains what this function makes of 16 test images, which differ in shape,
    range of values and EXIF orientation. If two such functions only differ on other
    images, use a folder for each.

    For other transformers, the key contains their settings and learned state, the data
    and the library versions, and the size and modification time of each file whose path
    is text or a Path in a list, in an array of text or objects, or in a column of a
    frame of pandas or polars. For any other path, as in a row that is a list or a dict,
    in an index or in an Arrow table, use another folder when the files change. The key
    also contains the file name of an opened image. From an opened image of several
    frames, keys only contain the current frame, and not what you change in its EXIF
    data, so pass paths instead.

    **After a change of code that an encoder runs, use another folder.** As a safeguard,
    keys also contain the code of your own classes and functions, and the functions and
    variables of the same Python file that this code names, as far as they can be read.
    Keys do not contain private constants, functions that are called as
    ``module.function``, or the code of libraries.

    A feature set is written completely or not at all. A damaged set is recomputed with
    a warning. So is a set of a network encoder if its last row is not what the encoder
    computes, as after a change of a hook or of a function that ``forward`` calls.
    Network encoders collect rows in a temporary file, so an interrupted extraction
    resumes from its last complete minibatch. If several processes need the same set
    from a network encoder, one process computes it and the others wait. With other
    transformers, each process computes the set itself. In joblib's workers, pickle does
    not find classes and functions of the main script or notebook, so a transformer that
    uses them is refused there; define them in a module.

    Parameters
    ----------
    folder : path-like
        Created if missing. You can delete its files while no process uses the cache.
        Each set is a ``.safetensors`` file with an array "features" and a checksum.
        :func:`~sklearn_mdl.datasets.load_features` can also read these files.

    Notes
    -----
    Computing a network encoder's key reads the whole input, which is fast compared with
    encoding. This key ignores the device and the library versions, which normally only
    affect rounding. If your code changes a global variable while it encodes, the key
    changes, too. So load a model on first use in a function with ``functools.cache``,
    and not into a global variable.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from sklearn_mdl.encoders import FeatureCache, TorchEncoder
    >>> encoder = TorchEncoder(nn.Conv2d(3, 4, 3), pool="avg")
    >>> images = np.zeros((5, 8, 8, 3), np.uint8)
    >>> features = FeatureCache("features").features(encoder, images)
    >>> features.shape
    (5, 4)
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)

    def features(
        self,
        encoder: BaseEstimator,
        X: object,
        *,
        name: Sequence[str] = (),
        check: Callable[[np.ndarray], object] = len,
    ) -> np.ndarray:
        """Read the features of X from the folder, or compute and store them.

        Parameters
        ----------
        encoder : TimmEncoder, TorchEncoder or any other transformer
            A network encoder is fitted if necessary. A copy of any other transformer is
            fitted, except for a FrozenEstimator, which is used directly.
        X : images, or other input of the transformer
        name : sequence of str, default=()
            Words at the beginning of the file name, such as a dataset and an encoder.
        check : callable, default=len
            Called with new features. If it raises, the features are not stored.

        Returns
        -------
        features : ndarray of shape (N, width), float32
            A read-only memory map of the file.

        Raises
        ------
        TypeError
            If `encoder` is not a transformer, or if it or its data cannot be pickled to
            compute the key.
        ValueError
            If an image cannot be read, or if the folder is a file.
        OSError
            If the disk is full.
        """
        key = _key(encoder, X, name)
        path = self._path(key, name)
        features, problem = _read(path, key, encoder, X)
        if features is not None:
            return features
        if problem:
            warn_caller(f"Recomputing features, because {problem}")
        from filelock import FileLock  # slow to import

        make_folder(self.folder)
        if not isinstance(encoder, ViewEncoder):
            new = np.asarray(encode(encoder, X), dtype=np.float32)
            check(new)
            write_archive(path, "features", {FEATURES: new}, {"key": key})
            return read_archive(path, "features")[0][FEATURES]
        with FileLock(path.with_suffix(".lock")):
            features, _ = _read(path, key, encoder, X)
            if features is None:  # else another process has written the file meanwhile
                part = path.with_suffix(".part.npy")
                new = _extract(encoder, encoder._items(protected(X, encoder)), part)
                check(new)
                environment = {name: version_of(name) for name in IMAGE_LIBRARIES}
                environment["device"] = encoder._device().type
                about = {"key": key, "environment": environment}
                write_archive(path, "features", {FEATURES: new}, about)
                with suppress(OSError):  # a leftover file is harmless
                    part.unlink()
        return read_archive(path, "features")[0][FEATURES]

    def path(
        self, encoder: BaseEstimator, X: object, *, name: Sequence[str] = ()
    ) -> Path:
        """Return the path of a feature set, which need not exist.

        Parameters
        ----------
        encoder, X, name : as for :meth:`features`
        """
        return self._path(_key(encoder, X, name), name)

    def _path(self, key: dict[str, object], name: Sequence[str]) -> Path:
        words = [re.sub(r"[^\w.-]+", "_", word, flags=re.ASCII)[:40] for word in name]
        text = json.dumps(key, sort_keys=True)
        stem = "-".join([*words, hashlib.sha256(text.encode()).hexdigest()])
        return self.folder / f"{stem.lstrip('.')}.safetensors"


def _key(encoder: BaseEstimator, X: object, name: Sequence[str]) -> dict[str, object]:
    """Return the key of a feature set, as JSON data."""
    X = protected(X, encoder)
    if isinstance(encoder, ViewEncoder):
        items = encoder._items(X)
        if not hasattr(encoder, "view_names_"):
            encoder.fit(protected(items, encoder))
        about = encoder.fingerprint()
        return {"encoder": about, f"{encoder.unit}s": encoder._content(items)}
    is_transformer = keeps_data(encoder) or hasattr(encoder, "transform")
    if isinstance(encoder, type) or not is_transformer:
        raise TypeError(
            f"encoder must be a transformer, got {encoder!r}; for example, pass "
            "TimmEncoder('resnet18') or TorchEncoder(module)"
        )
    kind = f"{type(encoder).__module__}.{type(encoder).__qualname__}"
    try:
        digest = content_hash([kind, encoder, X, _files_of(X)])
    except TypeError as error:
        where = f" of {' and '.join(map(repr, name))}" if name else ""
        raise TypeError(
            f"{encoder!r} and its data must be picklable to cache features{where}; "
            "pass its features, use def in a module, or omit the cache or results"
        ) from error
    versions = {name: version_of(name) for name in LIBRARIES}
    return {"encoder": kind, "content": digest, "versions": versions}


def _files_of(X: object) -> list[tuple[int, int] | None] | None:
    """Return the size and modification time of each file whose path is in the data.

    Paths may be in a list, an array, a series, the columns of a frame or lazy images.
    The entry for other text is None. If no item is the path of a file, return None
    instead of a list.
    """
    stats = [_stat_of(path) for path in _paths_in(X)]
    return stats if any(stats) else None


def _paths_in(X: object) -> Iterator[str | PathLike[str]]:
    if isinstance(X, LazyImages):
        X = [item_at(X.items, row) for row in range(len(X))]
    elif hasattr(X, "to_numpy"):  # a series, or a frame with columns of any types
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        X = X.ravel() if X.dtype.kind in "OUT" else ()
    for item in X if isinstance(X, list | tuple | np.ndarray) else ():
        path = item.path if isinstance(item, FilePart) else item
        if isinstance(path, str | PathLike):
            yield path


def _stat_of(path: str | PathLike[str]) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except (OSError, ValueError):  # text, or a file that the encoder will report
        return None
    return stat.st_size, stat.st_mtime_ns


def _read(
    path: Path, key: dict[str, object], encoder: object, X: object
) -> tuple[np.ndarray | None, str]:
    """Return the features in a file, or None and the reason for not using the file.

    For a file that does not exist, the reason is empty.
    """
    if not path.exists():
        return None, ""
    try:
        arrays, about = read_archive(path, "features")
    except NewerFormat:
        raise
    except (ValueError, FileNotFoundError) as error:
        reason = str(error).partition(", but ")[2].rpartition(";")[0]
        return None, f"the cached file {path} is damaged ({reason})"
    if about.get("key") != key or list(arrays) != [FEATURES]:
        return None, f"the cached file {path} contains different features"
    if not _agrees(encoder, X, arrays[FEATURES]):
        return None, f"the cached file {path} contains features of another encoder"
    return arrays[FEATURES], ""


def _agrees(encoder: object, items: Any, features: np.ndarray) -> bool:
    """Return True unless a network encoder gives other features for the last item.

    This check is needed because keys do not contain all code that a network runs. The
    item is encoded with the rest of its minibatch, which affects the padding of texts.
    """
    if not isinstance(encoder, ViewEncoder):
        return True
    start = (len(features) - 1) // encoder.batch_size * encoder.batch_size
    rows = next(encoder._encode(encoder._items(protected(items, encoder)), start))
    if rows.shape != features[start:].shape:
        return False
    difference = np.abs(rows[-1] - features[-1]).max()
    return bool(difference <= MARGIN * np.abs(rows[-1]).max())


def _extract(encoder: ViewEncoder, items: Any, part: Path) -> np.ndarray:
    """Encode items into a file, and return the rows.

    An interrupted extraction continues after the last complete minibatch in the file,
    unless this encoder gives other features for the last row of that minibatch.
    """
    width = sum(encoder.view_widths_)
    rows = GrowingArray(width, part, dtype="<f4")
    n_rows = min(rows.count_left() or 0, len(items))
    # Continue after a complete minibatch, since minibatches affect the last bits.
    n_rows -= n_rows % encoder.batch_size
    if n_rows:
        rows.adopt(n_rows)
        if not _agrees(encoder, items, rows.rows):
            rows = GrowingArray(width, part, dtype="<f4")
    for batch in encoder.batches(items, start=rows.n_rows):
        rows.append(batch)
    return rows.rows


@dataclass(eq=False, repr=False)
class CachedEncoder(TransformerMixin, BaseEstimator):
    """A transformer that caches the features of a network encoder.

    Parameters
    ----------
    encoder : TimmEncoder, TorchEncoder or HiddenStatesEncoder
    folder : path-like
        Folder of the :class:`~sklearn_mdl.encoders.FeatureCache`.

    Attributes
    ----------
    encoder_ : TimmEncoder, TorchEncoder or HiddenStatesEncoder
        The fitted copy.
    """

    encoder: ViewEncoder
    folder: str | PathLike[str]

    _parameter_constraints: ClassVar[Constraints] = {
        "encoder": [TimmEncoder, TorchEncoder, HiddenStatesEncoder],
        "folder": [str, PathLike],
    }

    def _sources(self) -> Sources:
        """Return the folder of the cache."""
        return Sources(paths=[fspath(self.folder)])

    @fit_context
    def fit(self, X: object, y: object = None) -> Self:
        """Fit a copy of the encoder.

        Parameters
        ----------
        X : images, or other input of the encoder
        y : ignored

        Returns
        -------
        self : object
        """
        self.encoder_: ViewEncoder = clone(self.encoder).fit(X)
        return self

    def transform(self, X: object) -> np.ndarray:
        """Read the features of X from the folder, or compute and store them.

        Parameters
        ----------
        X : images, or other input of the encoder

        Returns
        -------
        features : ndarray of shape (N, width), float32
            A read-only memory map of a file.
        """
        if not hasattr(self, "encoder_"):
            self.fit(X)
        return FeatureCache(self.folder).features(self.encoder_, X)

    def transform_views(self, X: object) -> dict[str, np.ndarray]:
        """Return the features of each view, as memory maps of the same file.

        Parameters
        ----------
        X : images, or other input of the encoder

        Returns
        -------
        features : dict of str to ndarray of shape (N, width)
            Features keyed by view name.
        """
        features = self.transform(X)  # may fit the encoder
        return self.encoder_.split_views(features)

    @property
    def view_slices_(self) -> dict[str, slice]:
        """Columns of each view in the features, keyed by view name."""
        check_is_fitted(self, "encoder_")
        return self.encoder_.view_slices_

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the names of the encoder's features.

        Parameters
        ----------
        input_features : ignored
        """
        check_is_fitted(self, "encoder_")
        return self.encoder_.get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Tags:
        """Return the encoder's tags."""
        return self.encoder.__sklearn_tags__()
