"""Base classes of encoders of images and text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.encoders._views import slices_of


class ImageOrTextTransformer(TransformerMixin, BaseEstimator):
    """Base class of transformers that take images or text and need no fitting."""

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of a transformer of images or text that needs no fitting."""
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _copy_sharing(self, *names: str) -> Self:
        """Return an unfitted copy that shares the named parameters."""
        params = self.get_params(deep=False)
        others = {n: clone(params[n], safe=False) for n in params.keys() - set(names)}
        copied = type(self)(**params | others)
        for name in ("_sklearn_output_config", "_metadata_request"):  # scikit-learn's
            if name in vars(self):
                setattr(copied, name, deepcopy(vars(self)[name]))
        return copied


class ViewEncoder(ImageOrTextTransformer):
    """Base class of transformers whose features consist of views, such as layers.

    Subclasses set ``view_names_`` and ``view_widths_`` in ``fit``.
    """

    batch_size: int
    verbose: int
    unit: ClassVar[str]  # what a row of features encodes, such as "image"

    @abstractmethod
    def _items(self, X: object) -> Any:
        """Return the items to encode, one per row, as an object with a length."""

    @abstractmethod
    def _content(self, items: Any) -> object:
        """Return a digest of the items, as JSON data."""

    @abstractmethod
    def _encode(self, items: Any, start: int) -> Iterator[np.ndarray]:
        """Yield float32 features (B, width) per minibatch, beginning at row `start`."""

    @abstractmethod
    def fingerprint(self) -> dict[str, object]:
        """Return a description of the encoder, as JSON data."""

    @abstractmethod
    def _device(self) -> torch.device:
        """Return the device of the encoder."""

    def transform(self, X: object) -> np.ndarray:
        """Encode all rows.

        Parameters
        ----------
        X : images, text or other input of the encoder
            The same kind of input as for ``fit``.

        Returns
        -------
        features : ndarray of shape (N, width), float32
            Features of all views side by side, in the order of ``view_names_``.

        Raises
        ------
        ValueError
            If a row cannot be read, or if its features are not finite or differ in
            number from those of the first row in ``fit``.
        """
        self._fit_once(X)
        n_rows, start = len(self._items(X)), 0
        features = np.empty((n_rows, sum(self.view_widths_)), np.float32)
        for batch in self.batches(X):
            features[start : start + len(batch)] = batch
            start += len(batch)
        return features

    def transform_views(self, X: object) -> dict[str, np.ndarray]:
        """Encode all rows once and return the features of each view.

        Parameters
        ----------
        X : images, text or other input of the encoder

        Returns
        -------
        features : dict of str to ndarray of shape (N, width)
            Features keyed by view name.
        """
        return self.split_views(self.transform(X))

    @property
    def view_slices_(self) -> dict[str, slice]:
        """Columns of each view in the features, keyed by view name."""
        check_is_fitted(self, "view_names_")
        return slices_of(self.view_names_, self.view_widths_)

    def split_views(self, features: np.ndarray) -> dict[str, np.ndarray]:
        """Split features returned by `transform` into views.

        Parameters
        ----------
        features : ndarray of shape (N, width)
        """
        rows = np.asanyarray(features)  # of a frame, after set_output
        return {name: rows[:, view] for name, view in self.view_slices_.items()}

    def batches(self, X: object, start: int = 0) -> Iterator[np.ndarray]:
        """Encode rows in minibatches.

        Parameters
        ----------
        X : images, text or other input of the encoder
        start : int, default=0
            Index of the first row to encode.

        Yields
        ------
        features : ndarray of shape (B, width), float32
        """
        self._fit_once(X)
        items = self._items(X)
        shown = nullcontext()  # even a disabled bar would acquire tqdm's lock
        if self.verbose:
            name, n_items = type(self).__name__, len(items)
            shown = tqdm(desc=name, unit=self.unit, total=n_items, initial=start)
        with shown as bar:
            for features in self._encode(items, start):
                start += len(features)
                if start > len(items):
                    break
                if (n := features.shape[1]) != (width := sum(self.view_widths_)):
                    required = f"{width}, as for the first {self.unit} in fit"
                    cure = f"preprocess all {self.unit}s to the same shape"
                    raise invalid("The number of features", required, n, cure)
                if bar is not None:
                    bar.update(len(features))
                yield features
        if start != len(items):
            required = f"{len(items)}, one for each {self.unit}"
            cure = f"make the model return one vector per {self.unit} of a minibatch"
            raise invalid("The number of feature vectors", required, start, cure)

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return feature names, such as ``layer2|avg|0``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of str objects
        """
        check_is_fitted(self, "view_names_")
        views = zip(self.view_names_, self.view_widths_, strict=True)
        names = [f"{name}|{i}" for name, width in views for i in range(width)]
        return np.array(names, dtype=object)

    def _fit_once(self, X: object) -> None:
        if not hasattr(self, "view_names_"):
            self.fit(X)
