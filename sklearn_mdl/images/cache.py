"""Features on disk: computed once, for the same weights, preprocessing and images."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from filelock import FileLock
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._sklearn import fit_context
from sklearn_mdl.archives import read_archive, write_archive
from sklearn_mdl.conditions import version_of
from sklearn_mdl.growing import GrowingArray
from sklearn_mdl.images.encoder import ImageEncoder
from sklearn_mdl.images.fingerprints import images_fingerprint
from sklearn_mdl.images.reading import as_images

FORMAT = 1
FEATURES = "features"  # the name of the array in a file, as load_features expects it
LIBRARIES = ("sklearn_mdl", "torch", "torchvision", "timm", "pillow", "numpy")


class FeatureCache:
    """A folder of features, each set computed once.

    A set is known by what it depends on: the encoder's weights, preprocessing, layers
    and pooling, and the content of the images. It is there whole or not at all: rows
    are collected in a file of another name until the last one is there, and an
    extraction that was killed goes on from its last whole minibatch. Processes that
    want the same set wait for the one that computes it.

    Parameters
    ----------
    folder : path-like
        Made if it is not there. Files in it can be deleted at any time. They are
        ``.safetensors`` files with one array "features" and a checksum, which
        :func:`~sklearn_mdl.load_features` reads as well.

    Notes
    -----
    Images are read each time to know them by their content, which is quick beside
    encoding them. Versions of libraries and the device, which move the last digits of
    features, are written into the file but do not tell sets apart; nor is the code of a
    module's ``forward`` seen, in a :class:`~sklearn_mdl.TorchEncoder`.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from sklearn_mdl import FeatureCache, TorchEncoder
    >>> encoder = TorchEncoder(nn.Conv2d(3, 4, 3), pool="avg")
    >>> images = np.zeros((5, 8, 8, 3), np.uint8)
    >>> features = FeatureCache("features").features(encoder, images)
    >>> features.shape
    (5, 4)
    """

    def __init__(self, folder: Any) -> None:
        self.folder = Path(folder)

    def features(self, encoder: ImageEncoder, images: Any) -> np.ndarray:
        """Return the features of images, computed if they are not yet there.

        Parameters
        ----------
        encoder : TimmEncoder or TorchEncoder
            Fitted, if it is not yet.
        images : as the encoder takes them

        Returns
        -------
        features : ndarray of shape (N, width), float32
            A read-only map of the file.

        Raises
        ------
        TypeError
            If the encoder cannot say what its features depend on.
        ValueError
            If a file is damaged, or an image cannot be read.
        OSError
            If the disk is full.
        """
        images, about = self._about(encoder, images)
        path = self._path(about)
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_suffix(".lock")):
                if not path.exists():  # another process may have been here
                    self._extract(encoder, images, path, about)
        return _read(path)

    def path(self, encoder: ImageEncoder, images: Any) -> Path:
        """Name the file of a set of features, whether or not it is there."""
        return self._path(self._about(encoder, images)[1])

    def _about(self, encoder: Any, images: Any) -> tuple[Any, dict[str, Any]]:
        if not isinstance(encoder, ImageEncoder):
            raise TypeError(
                "A cache needs an encoder that says what its features depend on, as "
                f"TimmEncoder and TorchEncoder do, got {type(encoder).__name__}; save "
                "the features with numpy.save"
            )
        images = as_images(images)
        if not hasattr(encoder, "block_names_"):
            encoder.fit(images)
        return images, {
            "format": FORMAT,
            "encoder": encoder.fingerprint(),
            "images": [len(images), images_fingerprint(images)],
        }

    def _path(self, about: dict[str, Any]) -> Path:
        text = json.dumps(about, sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.safetensors"

    def _extract(
        self, encoder: ImageEncoder, images: Any, path: Path, about: dict[str, Any]
    ) -> None:
        width = sum(encoder.block_widths_)
        rows = GrowingArray(width, path.with_suffix(".part.npy"), dtype="<f4")
        n_rows = rows.count_left() or 0  # of an extraction that was broken off
        # Minibatches are cut where they would be, or the last bits could differ.
        n_rows -= n_rows % encoder.batch_size
        if n_rows:
            rows.adopt(min(n_rows, len(images)))
        for batch in encoder.batches(images, start=rows.n_rows):
            rows.append(batch)
        environment = {name: version_of(name) for name in LIBRARIES}
        device = encoder._frozen.device.type
        about = {**about, "environment": {**environment, "device": device}}
        write_archive(path, {FEATURES: rows.rows}, about)
        with suppress(OSError):  # the set is there; a left-over file does no harm
            path.with_suffix(".part.npy").unlink()


def _read(path: Path) -> np.ndarray:
    try:
        arrays, _ = read_archive(path)
    except ValueError as error:
        raise ValueError(
            f"Features in a cache must be as they were computed, but {path} is damaged;"
            " delete it to compute them again"
        ) from error
    return arrays[FEATURES]


class CachedEncoder(TransformerMixin, BaseEstimator):
    """An image encoder that looks into a cache first, as a transformer.

    Parameters
    ----------
    encoder : TimmEncoder or TorchEncoder
    folder : path-like
        Of the :class:`~sklearn_mdl.FeatureCache`.

    Attributes
    ----------
    encoder_ : TimmEncoder or TorchEncoder
        The fitted copy.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "encoder": [ImageEncoder],
        "folder": [str, PathLike],
    }

    def __init__(self, encoder: Any, folder: Any) -> None:
        self.encoder = encoder
        self.folder = folder

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Load the model.

        Parameters
        ----------
        X : images
        y : ignored

        Returns
        -------
        self : object
        """
        self.encoder_ = clone(self.encoder).fit(X)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of images, computed if they are not yet there.

        Parameters
        ----------
        X : images

        Returns
        -------
        features : ndarray of shape (N, width), float32
            A read-only map of a file.
        """
        if not hasattr(self, "encoder_"):
            self.fit(X)
        return FeatureCache(self.folder).features(self.encoder_, X)

    def transform_blocks(self, X: Any) -> dict[str, np.ndarray]:
        """Return the features of each layer and pooling, as maps of one file.

        Parameters
        ----------
        X : images

        Returns
        -------
        features : dict of str to ndarray of shape (N, width)
        """
        features = self.transform(X)
        blocks: dict[str, np.ndarray] = self.encoder_.split_blocks(features)
        return blocks

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the features, as the encoder does."""
        check_is_fitted(self, "encoder_")
        names: np.ndarray = self.encoder_.get_feature_names_out(input_features)
        return names

    def __sklearn_tags__(self) -> Any:
        """Take images, as the encoder does."""
        tags = super().__sklearn_tags__()
        of_encoder = self.encoder.__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        tags.input_tags = of_encoder.input_tags
        return tags
