"""Checks of a race's settings, labels and features, before anything is learned."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.classifier import joined
from sklearn_mdl._core.io.content_hash import content_hash
from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.validation import as_labels, invalid
from sklearn_mdl.encoders import CachedEncoder, ImageEncoder, keeps_data
from sklearn_mdl.model_selection._encoding import checked_targets
from sklearn_mdl.model_selection._given import checked_encoders, refuse_new_classes
from sklearn_mdl.model_selection._tasks import Switcher
from sklearn_mdl.switcher import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor

LEARN_NOTHING = (ImageEncoder, CachedEncoder)  # the race itself fits these encoders


def base_switcher(
    given: Switcher | None, n_classes: int | None, method: str
) -> Switcher:
    """Return a copy of a switcher, after checking that it suits the labels and method.

    Raises
    ------
    ValueError
        If the switcher does not suit ``n_classes`` or ``method``, or accepts new
        classes during the stream.
    """
    is_real = isinstance(given, MDLReadoutSwitcherRegressor)
    if is_real != (n_classes is None):
        required = "an integer of at least 2 unless switcher is a regressor"
        cure = "pass n_classes or switcher=MDLReadoutSwitcherRegressor()"
        if is_real:
            required, cure = "None if switcher is a regressor", "pass n_classes=None"
        raise invalid("n_classes", required, n_classes, cure)
    if is_real and method == "exact":
        required = "'asymptotic' for a regressor, whose losses are unbounded"
        raise invalid("method", required, method, "pass method='asymptotic'")
    refuse_new_classes(given)
    copied: Switcher = clone(given or MDLReadoutSwitcher("linear"))
    return copied.set_params(store="memory", checkpoint=None, shuffle=False)


def checked_labels(
    y: ArrayLike, known: np.ndarray, n_classes: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels (as indices of classes, or as floats) and all classes so far.

    Parameters
    ----------
    y : array-like of shape (n_labels,)
    known : ndarray
        Classes of all earlier labels.
    n_classes : int or None
        None for real-valued labels.

    Raises
    ------
    ValueError
        If `y` is empty, has missing or invalid labels, or has too many classes.
    """
    labels = np.asarray(as_labels(as_array(y)))
    if labels.ndim != 1 or not len(labels):
        required, cure = "at least one label, of shape (n_labels,)", "pass [label]"
        raise invalid("y", required, labels.shape, f"{cure}, or np.ravel(y)")
    with warnings.catch_warnings():  # the labels of a few rows may all differ
        warnings.filterwarnings("ignore", "The number of unique classes")
        checked_targets(labels, "y", "real" if n_classes is None else "classes")
    if n_classes is None:
        return labels.astype(np.float64), known
    classes = joined(known, labels)
    if len(classes) > n_classes:
        required, n = f"of at most {n_classes} classes in total", len(classes)
        cure = f"correct labels, or start a race with n_classes={n} (--classes {n})"
        raise invalid("Labels", required, classes.tolist(), cure)
    return (labels[:, None] == classes).argmax(1), classes


def checked_columns(
    X: Any, before: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
    """Return the column names of data frames, or raise if they differ between calls.

    Parameters
    ----------
    X : images or array-like, or mapping of str to array-like
    before : mapping of str to sequence
        Column names in earlier calls, keyed by encoder.

    Raises
    ------
    ValueError
        If the columns of a data frame have other names than in earlier calls, or the
        same names in another order.
    """
    tables = X if isinstance(X, Mapping) else {"": X}
    given = {n: list(t.columns) for n, t in tables.items() if hasattr(t, "columns")}
    for name, columns in given.items():
        if columns != (required := before.get(name, columns)):
            where = f"X[{name!r}]" if name else "X"
            cure = f"pass {where}[{required!r}]"
            raise invalid(f"Columns of {where}", "as in the first call", columns, cure)
    return given


def rows_by_name(
    X: Mapping[str, Any], known: Sequence[str], alive: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return the features from each encoder still in the race.

    Raises
    ------
    ValueError
        If features of such an encoder are missing, or if an encoder is unknown.
    """
    wrong = [name for name in X if name not in known]
    wrong += [name for name in alive if name not in X]
    if wrong:
        required = f"a mapping with every encoder still in the race, {list(alive)!r}"
        cure = f"{'remove' if wrong[0] in X else 'add'} {wrong[0]!r}"
        raise invalid("X", required, list(X), cure)
    return {name: np.array(as_array(X[name])) for name in alive}


def encoders_by_name(
    given: Mapping[str, object] | Sequence[str],
) -> Mapping[str, object]:
    """Return a mapping from names to encoders, or to None if only names are given.

    Raises
    ------
    ValueError
        If there are fewer than two encoders or two have the same name. Also if an
        encoder is not fitted or requires labels.
    TypeError
        If an encoder is not a transformer.
    """
    others = [type(name).__name__ for name in given if not isinstance(name, str)]
    if others and not isinstance(given, Mapping):
        raise TypeError(
            f"encoders must be names, or a mapping from names, got a list of {others}; "
            "for example, write {'clip': encoder, 'raw': None}"
        )
    encoders = given if isinstance(given, Mapping) else dict.fromkeys(given)
    if len(encoders) < 2 or len(encoders) < len(given):
        required = "at least two different names, or a mapping from such names"
        cure = "for example, pass {'clip': encoder, 'raw': None}, or ['clip', 'dino']"
        raise invalid("encoders", required, list(given), cure)
    for name, encoder in checked_encoders(encoders).items():
        if keeps_data(encoder) or isinstance(encoder, LEARN_NOTHING):
            continue
        try:
            check_is_fitted(encoder)
        except NotFittedError as error:
            raise ValueError(
                f"Encoders must be fitted before a race, but {name!r} is not; call "
                "encoder.fit(X) without labels"
            ) from error
    return encoders


def digest_of_encoder(name: str, encoder: object) -> str | None:
    """Return a hash of a fitted encoder, or None for one that returns X unchanged.

    Raises
    ------
    TypeError
        If the encoder cannot be pickled.
    """
    if keeps_data(encoder):
        return None
    hashed = clone(encoder) if isinstance(encoder, LEARN_NOTHING) else encoder
    try:
        return content_hash([type(encoder).__qualname__, hashed])
    except TypeError as error:
        raise TypeError(
            f"Encoders must be picklable if folder is given, but {name!r} is not "
            f"({error}); pass folder=None, or create EncoderRace([{name!r}, ...]) "
            "and call update({name: features}, y)"
        ) from error
