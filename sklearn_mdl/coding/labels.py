"""Labels to bytes and back, driven by the very walk that scores."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_mdl.arithmetic import one_thread, resolve_device
from sklearn_mdl.checks import GROUPED, is_grouped
from sklearn_mdl.coding.coder import LabelDecoderStream, LabelEncoderStream
from sklearn_mdl.coding.message import LabelMessage
from sklearn_mdl.coding.settings import settings_of
from sklearn_mdl.conditions import (
    cut_short,
    environment_of,
    fingerprint,
    first_difference,
    version_of,
)
from sklearn_mdl.lockstep import lockstep
from sklearn_mdl.online import OnlineClassifier, OnlineRegressor

# Booleans, integers, floats that stand for integers, text; objects are text too.
DTYPES = re.compile(r"\|(b1|O|[iu]1)|[<>]([iu][248]|f[248]|U[0-9]{1,5})")


def encode_labels(switcher: OnlineClassifier, X: Any, y: Any) -> bytes:
    """Compress labels to about ``codelength_ / log 2`` bits, for one who has X.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or readout
        Its parameters say how the labels are predicted; it is cloned, and so stays as
        it is. ``random_state`` must be an integer.
    X : array-like of shape (n_samples, n_features)
        Features, taken as float32.
    y : array-like of shape (n_samples,)
        Labels of at least two classes: integers, booleans or text.

    Returns
    -------
    message : bytes
        Header and payload; :class:`LabelMessage` takes them apart. The payload is a few
        bits longer than the codelength: at most 0.006 bits a label by rounding, and up
        to 64 in all by whole words. It may be shorter where a label was all but
        impossible, since none costs more than 24.

    Raises
    ------
    ValueError
        If ``random_state`` is no integer, if labels are objects other than text, and as
        in ``fit``.
    TypeError
        If `switcher` does not walk, or has a parameter that cannot be written down.
    ImportError
        If constriction is missing.

    See Also
    --------
    decode_labels : The way back.

    References
    ----------
    Rissanen, 1984, Universal coding, information, prediction, and estimation, IEEE
    Transactions on Information Theory 30 (a predictor is a code).
    Martin, 1979, Range encoding, Video and Data Recording Conference.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_mdl import MDLReadoutSwitcher, decode_labels, encode_labels
    >>> from sklearn_mdl import readout_grid
    >>> X, y = load_iris(return_X_y=True)
    >>> switcher = MDLReadoutSwitcher(readout_grid(), shuffle=True, random_state=0)
    >>> message = encode_labels(switcher, X, y)
    >>> bool((decode_labels(switcher, X, message) == y).all())
    True
    """
    message, _ = encode(switcher, X, y)
    return message.to_bytes()


def encode(
    switcher: OnlineClassifier, X: Any, y: Any
) -> tuple[LabelMessage, OnlineClassifier]:
    """Encode labels; returns the message and a switcher that is fitted by it.

    Parameters and errors are those of :func:`encode_labels`.
    """
    walker = _walker(switcher)
    X, y = walker._checked(X, y, reset=True)
    classes, labels = np.unique(y, return_inverse=True)
    about = {"dtype": y.dtype.str, "classes": _listed(classes)}
    stream = LabelEncoderStream()
    with _same_arithmetic():
        walker._set_out(len(X), X.shape[1], classes)
        if not walker.shuffle and is_grouped(labels):
            warnings.warn(GROUPED, UserWarning, stacklevel=3)
        header = _conditions(walker, X)
        header["labels"] = about | {"sha256": _digest(about, labels)}
        told = iter(labels[walker.order_].tolist())

        def tell(probabilities: np.ndarray) -> int:
            label: int = next(told)
            stream.put(label, probabilities)
            return label

        _drive(walker, X, tell)
    return LabelMessage(header, stream.payload), walker


def decode_labels(switcher: OnlineClassifier, X: Any, message: bytes) -> np.ndarray:
    """Return the labels of a message, given the features and the settings.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or readout
        With the parameters of the one that encoded; it is cloned, and so stays as it
        is.
    X : array-like of shape (n_samples, n_features)
        The features, in the same order.
    message : bytes
        Of :func:`encode_labels`.

    Returns
    -------
    y : ndarray of shape (n_samples,)
        The labels in the order of the rows, of the dtype that they had.

    Raises
    ------
    ValueError
        If the message is damaged or foreign; if it was encoded with other features or
        settings, or where numbers may come out otherwise (libraries, instructions,
        device): the first such field is named; if the labels do not have the checksum
        that the message promises.
    TypeError
        If `switcher` does not walk, or `message` is not bytes.
    ImportError
        If constriction is missing.

    See Also
    --------
    encode_labels : The way there, with an example.
    """
    read = LabelMessage.from_bytes(message)
    walker = _walker(switcher)
    X = walker._checked_rows(X, reset=True)
    about = dict(read.header["labels"])
    promised = about.pop("sha256")
    classes = _classes(about)
    told: list[int] = []
    with _same_arithmetic():
        _check_conditions(read.header, _conditions(walker, X))
        walker._set_out(len(X), X.shape[1], classes)
        stream = LabelDecoderStream(read.payload)

        def tell(probabilities: np.ndarray) -> int:
            told.append(stream.take(probabilities))
            return told[-1]

        _drive(walker, X, tell)
        stream.finish()
    labels = np.empty(len(X), dtype=np.intp)
    labels[walker.order_] = told
    if _digest(about, labels) != promised:
        raise ValueError(
            "The labels must have the checksum that the message says in labels.sha256, "
            "but those decoded here have another, so numbers come out otherwise here "
            "than where it was encoded; decode it there"
        )
    decoded: np.ndarray = classes[labels]
    return decoded


# The walk


def _walker(switcher: OnlineClassifier) -> OnlineClassifier:
    """Return an unfitted copy that leaves nothing behind."""
    if isinstance(switcher, OnlineRegressor):
        raise TypeError(
            "Entropy coding needs classes, since a real number has a density but no "
            f"probability, got {switcher!r}; cut the labels into classes first"
        )
    if not isinstance(switcher, OnlineClassifier):
        raise TypeError(
            "Labels are coded by an MDLReadoutSwitcher or a single readout, got "
            f"{switcher!r}; pass an unfitted one"
        )
    walker: OnlineClassifier = clone(switcher)
    # Files would be written twice; and stacks must not be cut by the number of jobs.
    aside = {"store": "memory", "checkpoint": None, "n_jobs": None}
    names = walker.get_params(deep=False)
    walker.set_params(**{name: v for name, v in aside.items() if name in names})
    walker._validate_params()
    return walker


def _drive(
    walker: OnlineClassifier, X: np.ndarray, tell: Callable[[np.ndarray], int]
) -> None:
    """Lead the walker through the rows in its order, telling it every label."""
    name, silent = type(walker).__name__, not walker.verbose
    with tqdm(total=len(X), desc=name, unit="row", disable=silent) as bar:
        order = walker.order_ if walker.shuffle else None
        steps = lockstep(walker._course, X, order)
        probabilities = next(steps)
        try:
            while True:
                probabilities = steps.send(tell(probabilities))
                bar.update()
        except StopIteration:
            bar.update()


@contextmanager
def _same_arithmetic() -> Iterator[None]:
    """Let sums have one order on either side: one thread, in torch and in BLAS."""
    with one_thread(), threadpool_limits(limits=1, user_api="blas"):
        yield


# What both sides must have in common


def _conditions(walker: OnlineClassifier, X: np.ndarray) -> dict[str, Any]:
    """Say what decoding depends on: arithmetic to the last bit, settings, features.

    A decoder repeats every prediction of the encoder. One bit of one number that comes
    out otherwise moves a probability, and every label from there on is lost.
    """
    environment = environment_of(resolve_device(walker.device))
    environment["versions"]["constriction"] = version_of("constriction")
    return {
        "environment": environment,
        "settings": settings_of(walker),
        "features": {
            "n_samples": X.shape[0],
            "n_features": X.shape[1],
            "sha256": fingerprint(X, "<f4"),
        },
    }


def _check_conditions(said: dict[str, Any], here: dict[str, Any]) -> None:
    for group, expected in here.items():
        if found := first_difference(said[group], expected, group):
            name, there, mine = found
            raise ValueError(
                f"A message must be decoded with what it was encoded with, got {name} "
                f"that is {cut_short(mine)} here and {cut_short(there)} in the message;"
                " make them the same"
            )


# Side information


def _listed(classes: np.ndarray) -> list[Any]:
    """Return the classes as JSON."""
    listed: list[Any] = classes.tolist()
    objects = classes.dtype == object and not all(isinstance(c, str) for c in listed)
    if objects or not DTYPES.fullmatch(classes.dtype.str):
        raise ValueError(
            "y must hold integers, booleans or text to be coded, got labels of dtype "
            f"{classes.dtype}; convert them with astype"
        )
    return listed


def _classes(about: dict[str, Any]) -> np.ndarray:
    """Return the classes (C,) that a message says."""
    dtype, listed = about["dtype"], about["classes"]
    if DTYPES.fullmatch(dtype):
        try:
            classes = np.array(listed, dtype=dtype)
            if classes.ndim == 1 and _listed(np.unique(classes)) == listed:
                return classes
        except (ValueError, TypeError, OverflowError, MemoryError):
            pass
    raise ValueError(
        "A message must hold its classes, different and in order, in labels.classes, "
        f"got {cut_short(listed)} of dtype {dtype!r}; encode the labels again"
    )


def _digest(about: dict[str, Any], labels: np.ndarray) -> str:
    """Checksum of encoded labels (n,), in the order of the rows, and their meaning."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    digest.update(labels.astype("<u4").tobytes())
    return digest.hexdigest()
