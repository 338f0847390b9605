"""Encoding labels as bytes and decoding them by repeating the prequential pass."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from tqdm import tqdm

from sklearn_mdl._core.base.classifier import NONE_NAMED, OnlineClassifier
from sklearn_mdl._core.base.regressor import OnlineRegressor
from sklearn_mdl._core.io.environment import (
    SHOWN,
    cut_short,
    environment_of,
    fingerprint,
    first_difference,
    version_of,
)
from sklearn_mdl._core.io.parameters import array_of
from sklearn_mdl._core.numerics import fixed_arithmetic, one_blas_thread, resolve_device
from sklearn_mdl._core.stream.schedule import keys_of
from sklearn_mdl._core.stream.stepwise import stepwise
from sklearn_mdl._core.unsupported import unsupported
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.switcher._message import Header, LabelMessage, settings_of
from sklearn_mdl.switcher._range_coder import LabelDecoderStream, LabelEncoderStream

# Dtypes of labels: booleans, objects that hold text, integers, floats and text.
DTYPES = re.compile(r"\|(b1|O|[iu]1)|[<>]([iu][248]|f[248]|U[0-9]{1,5})")

PLAIN_ROW = 2**10  # text dtypes of at most this many bytes are always accepted


def encode_labels(
    switcher: OnlineClassifier,
    X: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None = None,
) -> bytes:
    """Compress labels given features to about ``codelength_ / log 2`` bits.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or readout
        The estimator, which is cloned. Its parameters determine how labels are
        predicted. ``random_state`` must be an integer.
    X : array-like of shape (n_samples, n_features)
        Features, converted to float32.
    y : array-like of shape (n_samples,)
        Labels of at least two classes: whole numbers, booleans or text. The header of
        the message lists the classes. With ``new_classes="escape"``, a single class is
        allowed, classes are listed in order of appearance, and the payload encodes
        where each class first appears.
    groups : array-like of shape (n_samples,), default=None
        As for ``fit``. The decoder needs the same groups.

    Returns
    -------
    message : bytes
        Header and payload, which :class:`LabelMessage` separates. With up to 65,536
        classes, rounding adds at most 0.006 bits per label to the codelength. Since the
        payload consists of whole words, it may be another 64 bits longer. It may be
        shorter than the codelength if a label was nearly impossible, since a label
        costs at most 24 bits in the payload.

    Raises
    ------
    ValueError
        If ``random_state`` is not an integer, if labels are objects other than text, or
        for the reasons given in ``fit``.
    TypeError
        If `switcher` is another kind of estimator, or has a parameter that cannot be
        written to a message.
    ImportError
        If the package constriction is not installed.

    See Also
    --------
    decode_labels : The inverse.

    References
    ----------
    Rissanen, 1984, Universal coding, information, prediction, and estimation, IEEE
    Transactions on Information Theory 30 (every predictor defines a code).
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
    message, _ = encode(switcher, X, y, groups)
    return message.to_bytes()


def encode(
    switcher: OnlineClassifier,
    X: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None = None,
) -> tuple[LabelMessage, OnlineClassifier]:
    """Return the message with encoded labels, and the switcher that was fitted.

    Parameters and errors are as in :func:`encode_labels`.
    """
    estimator = _fresh_copy(switcher)
    X, y = estimator._checked(X, y, reset=True)
    keys = keys_of(groups, len(X))
    stream = LabelEncoderStream()
    # With one thread in torch and BLAS, encoder and decoder sum in the same order.
    with fixed_arithmetic(), one_blas_thread():
        estimator._begin(X.shape[1], estimator._classes_of(y), n_rows=len(X), keys=keys)
        labels = estimator._encoded(y, estimator.order_)
        classes = _listed(estimator.classes_)
        about: Header = {"dtype": y.dtype.str, "classes": classes}
        estimator._check_labels(labels, keys)
        header = _requirements(estimator, X, keys)
        header["labels"] = about | {"sha256": _checksum(about, labels)}
        remaining = iter(labels[estimator.order_].tolist())

        def reveal(probabilities: np.ndarray) -> int:
            label: int = next(remaining)
            stream.put(label, probabilities)
            return label

        _run(estimator, X, keys, reveal)
    return LabelMessage(header, stream.payload), estimator


def decode_labels(
    switcher: OnlineClassifier,
    X: ArrayLike,
    message: bytes,
    groups: ArrayLike | None = None,
) -> np.ndarray:
    """Decode the labels of a message, given the features and the settings.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or readout
        The estimator, which is cloned. Its parameters must be the same as for encoding.
    X : array-like of shape (n_samples, n_features)
        The features, in the order in which they were encoded.
    message : bytes
        As returned by :func:`encode_labels`.
    groups : array-like of shape (n_samples,), default=None
        As given to the encoder.

    Returns
    -------
    y : ndarray of shape (n_samples,)
        The labels in the order of the rows, with their original dtype.

    Raises
    ------
    ValueError
        If the message is damaged or of another kind, or if the decoded labels do not
        match its checksum. Also if features, groups or settings differ from those of
        the encoder, or if the environment may compute different numbers (other
        libraries, CPU instructions or device). The error then names one difference.
    TypeError
        If `switcher` is another kind of estimator, or `message` is not bytes.
    ImportError
        If the package constriction is not installed.

    See Also
    --------
    encode_labels : The inverse, with an example.
    """
    read = LabelMessage.from_bytes(message)
    estimator = _fresh_copy(switcher)
    rows: np.ndarray = estimator._validated(X, reset=True)
    keys = keys_of(groups, len(rows))
    about = dict(read.header["labels"])
    promised = about.pop("sha256")
    classes = _classes(read, in_order=estimator.new_classes != "escape")
    decoded: list[int] = []
    with fixed_arithmetic(), one_blas_thread():
        for part, values in _requirements(estimator, rows, keys).items():
            if difference := first_difference(read.header[part], values, part):
                name, encoded, own = difference
                raise ValueError(
                    "A message must be decoded with the features, settings and "
                    f"environment of its encoder, but {name} is {cut_short(own)} here "
                    f"and {cut_short(encoded)} in the message; pass the encoder's "
                    "switcher, X and groups, on the same machine"
                )
        named = NONE_NAMED if estimator.new_classes == "escape" else classes
        estimator._begin(rows.shape[1], named, n_rows=len(rows), keys=keys)
        stream = LabelDecoderStream(read.payload)

        def reveal(probabilities: np.ndarray) -> int:
            decoded.append(stream.take(probabilities))
            if decoded[-1] >= len(classes):
                raise ValueError(
                    f"A payload must encode {len(classes)} classes, got class number "
                    f"{decoded[-1]}; pass the encoder's switcher, X and groups"
                )
            return decoded[-1]

        _run(estimator, rows, keys, reveal)
        stream.finish()
    labels = np.empty(len(rows), dtype=np.intp)
    labels[estimator.order_] = decoded
    if _checksum(about, labels) != promised:
        raise ValueError(
            "The labels must match the checksum labels.sha256 of their message, but "
            "differ; call decode_labels on the machine that encoded the message"
        )
    return classes[labels]


def _fresh_copy(switcher: OnlineClassifier) -> OnlineClassifier:
    """Return an unfitted copy that writes no files."""
    if isinstance(switcher, OnlineRegressor):
        cure = "pass MDLReadoutSwitcher(random_state=0) and np.digitize(y, bins)"
        raise unsupported("real labels", "messages", cure, TypeError)
    if not isinstance(switcher, OnlineClassifier):
        raise TypeError(
            "switcher must be an MDLReadoutSwitcher or a single readout, got "
            f"{switcher!r}; for example, pass MDLReadoutSwitcher(random_state=0)"
        )
    estimator: OnlineClassifier = clone(switcher)
    # With n_jobs=None, stacks of networks are the same for encoder and decoder.
    overrides = {"store": "memory", "checkpoint": None, "n_jobs": None}
    names = estimator.get_params(deep=False)
    estimator.set_params(**{name: v for name, v in overrides.items() if name in names})
    estimator._validate_params()
    return estimator


def _run(
    estimator: OnlineClassifier,
    X: np.ndarray,
    keys: np.ndarray | None,
    reveal: Callable[[np.ndarray], int],
) -> None:
    """Run a pass over X in which `reveal` maps predicted probabilities to labels."""
    order = estimator.order_ if estimator.shuffle else None
    steps = stepwise(estimator._run, X, order, keys)
    rows: Iterable[int] = range(len(X))
    if estimator.verbose:  # tqdm takes a lock even if it shows no bar
        rows = tqdm(rows, desc=type(estimator).__name__, unit="row")
    probabilities = next(steps)
    for _ in rows:
        with suppress(StopIteration):  # after the last row
            probabilities = steps.send(reveal(probabilities))


def _requirements(
    estimator: OnlineClassifier, X: np.ndarray, keys: np.ndarray | None
) -> dict[str, dict[str, object]]:
    """Return everything on which decoding depends: environment, settings, features.

    The decoder must repeat every prediction of the encoder exactly. Otherwise, labels
    would be decoded wrongly.
    """
    environment = environment_of(resolve_device(estimator.device))
    environment["versions"]["constriction"] = version_of("constriction")
    features: dict[str, object] = {
        "n_samples": X.shape[0],
        "n_features": X.shape[1],
        "sha256": fingerprint(X, "<f4"),
    }
    if keys is not None:
        features["groups"] = fingerprint(keys[:, np.newaxis], "<i8")
    settings = settings_of(estimator)
    return {"environment": environment, "settings": settings, "features": features}


def _listed(classes: np.ndarray) -> list[object]:
    """Return the classes as a list for JSON; raise if their dtype is unsupported."""
    listed: list[object] = classes.tolist()
    objects = classes.dtype == object and not all(isinstance(c, str) for c in listed)
    if objects or not DTYPES.fullmatch(classes.dtype.str):
        raise ValueError(
            "y must hold integers, booleans or text to be coded, got labels of dtype "
            f"{classes.dtype}; pass np.asarray(y).astype(str)"
        )
    longest = max((len(c) for c in listed if isinstance(c, str)), default=0)
    widest = max(PLAIN_ROW, 16 * longest)
    if classes.dtype.kind == "U" and classes.dtype.itemsize > widest:
        required = f"text whose dtype has at most {widest} bytes"
        cure = "pass y.astype(object).astype(str)"
        raise invalid("y", required, classes.dtype.str, cure)
    return listed


def _classes(read: LabelMessage, in_order: bool) -> np.ndarray:
    """Return the classes (C,) of a message; raise if they are invalid.

    If `in_order` is True, the classes must be sorted.
    """
    labels = read.header["labels"]
    dtype, listed = labels["dtype"], labels["classes"]
    n_samples = read.header["features"]["n_samples"]
    if DTYPES.fullmatch(dtype) and len(listed) <= n_samples:
        try:
            classes = array_of(listed, dtype)
            distinct = np.unique(classes)
            ordered = distinct if in_order else classes
            if classes.shape == distinct.shape and _listed(ordered) == listed:
                return classes
        except (ValueError, TypeError, OverflowError, Warning):
            pass
    raise ValueError(
        "A message must list its distinct classes, in order, as labels.classes, got "
        f"{len(listed)} classes for {n_samples} labels, {cut_short(listed)} of dtype "
        f"{dtype[:SHOWN]!r}; call encode_labels(switcher, X, y) again"
    )


def _checksum(about: Header, labels: np.ndarray) -> str:
    """Return the checksum of the classes and the encoded labels (n,) in row order."""
    text = json.dumps(about, sort_keys=True).encode()
    return hashlib.sha256(text + labels.astype("<u4").tobytes()).hexdigest()
