"""Text encoders: n-grams, and a wrapper for models with a method ``encode``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from sklearn.base import BaseEstimator

from sklearn_mdl._core.sklearn_compat import Constraints, HasMethods, fit_context
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.encoders._view_encoder import ImageOrTextTransformer


class Encodes(Protocol):
    """A model that turns texts into vectors."""

    def encode(self, texts: list[str], /) -> Any: ...


@dataclass(eq=False, repr=False)
class TextEncoder(ImageOrTextTransformer):
    """Scikit-learn transformer that encodes texts with a model.

    scikit-learn's vectorizers are already transformers and need no wrapper.

    Parameters
    ----------
    model : object with a method ``encode``
        ``encode`` takes a list of n texts and returns n vectors, as models of
        sentence-transformers and model2vec do. ``clone`` does not copy the model.

    Attributes
    ----------
    n_features_out_ : int
        Width of the embeddings.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.encoders import TextEncoder
    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[len(text), text.count(" ")] for text in texts])
    >>> TextEncoder(Lengths()).fit_transform(["a cat", "the dog sat"])
    array([[ 5.,  1.],
           [11.,  2.]], dtype=float32)
    """

    model: Encodes

    _parameter_constraints: ClassVar[Constraints] = {"model": [HasMethods(["encode"])]}

    def __sklearn_clone__(self) -> Self:
        """Return a new encoder that shares the model."""
        return self._copy_sharing("model")

    @fit_context
    def fit(self, X: object, y: object = None) -> Self:
        """Encode the first text to determine the width of the embeddings.

        Parameters
        ----------
        X : sequence of str
        y : ignored

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If X is not a sequence of texts, or the model does not return vectors.
        """
        self.n_features_out_ = self._vectors(_texts(X)[:1]).shape[1]
        return self

    def transform(self, X: object) -> np.ndarray:
        """Encode texts.

        Parameters
        ----------
        X : sequence of str

        Returns
        -------
        embeddings : ndarray of shape (n_texts, n_features_out_), float32

        Raises
        ------
        ValueError
            If X is not a sequence of texts, or the model does not return vectors.
        """
        if not hasattr(self, "n_features_out_"):
            self.fit(X)
        return self._vectors(_texts(X))

    def _vectors(self, texts: list[str]) -> np.ndarray:
        embeddings = self.model.encode(texts)
        if hasattr(embeddings, "detach"):  # a tensor, possibly on another device
            embeddings = embeddings.detach().cpu().float()
        n, vectors = len(texts), np.asarray(embeddings, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != n:
            name, cure = f"The shape of model.encode(X[:{n}])", "return a row per text"
            raise invalid(name, f"({n}, width)", vectors.shape, cure)
        return vectors


def _texts(X: object) -> list[str]:
    is_sequence = hasattr(X, "__len__") and not isinstance(X, str | bytes | Mapping)
    is_column = len(getattr(X, "shape", ())) < 2
    texts = list(cast(Sequence[str], X)) if is_sequence and is_column else []
    if not texts:
        cure = "pass a list such as ['a text'], or one column of a table"
        raise invalid("X", "a non-empty sequence of texts", X, cure)
    if wrong := [i for i, text in enumerate(texts) if not isinstance(text, str)]:
        name, cure = f"X[{wrong[0]}]", "replace it with a str, '' if a text is missing"
        raise invalid(name, "a str", texts[wrong[0]], cure)
    return texts


def text_baselines(width: int = 128) -> dict[str, BaseEstimator]:
    """Return three text encoders that need no pre-trained model.

    Use these encoders as baselines for pre-trained encoders.

    Parameters
    ----------
    width : int, default=128
        Number of features of "words" and "characters". It must not exceed the number of
        distinct n-grams in the texts. With fewer texts than `width`, these encoders
        return as many features as there are texts.

    Returns
    -------
    encoders : dict of str to Pipeline
        "words" and "characters" reduce the TF-IDF of n-grams with a singular value
        decomposition. "hashed words" hashes words into 1,024 features. No encoder uses
        labels.

    Examples
    --------
    >>> from sklearn_mdl.encoders import text_baselines
    >>> texts = ["the cat sat", "a dog ran", "the dog sat", "one cat ran"]
    >>> {k: e.fit_transform(texts).shape for k, e in text_baselines(2).items()}
    {'words': (4, 2), 'characters': (4, 2), 'hashed words': (4, 1024)}
    """
    from sklearn.decomposition import TruncatedSVD  # slow to import, like the next two
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    characters = TfidfVectorizer(
        sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 5)
    )
    hashed = HashingVectorizer(n_features=1024, alternate_sign=False)
    return {
        "words": make_pipeline(words, TruncatedSVD(width, random_state=0)),
        "characters": make_pipeline(characters, TruncatedSVD(width, random_state=0)),
        "hashed words": make_pipeline(hashed),
    }
