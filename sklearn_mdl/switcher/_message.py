"""Messages with encoded labels, and the settings on which decoding depends."""

from __future__ import annotations

import hashlib
import inspect
import json
import struct
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.io.formats import FORMATS, KEY, check_format
from sklearn_mdl._core.io.parameters import WITHOUT_EFFECT, as_json
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.switching import as_prior

MAGIC = b"\x89MDLY\r\n\x1a"  # reveals if line endings were changed
PREFIX = struct.Struct("<8sHI")
WORD_BYTES = 4
DIGEST_BYTES = hashlib.sha256().digest_size

# Types of the header fields that decoding uses. Other fields may hold any JSON, since
# the decoder only compares them with its own values.
Header = dict[str, Any]
FIELDS: dict[str, type] = {
    **dict.fromkeys(("environment", "settings", "features", "labels"), dict),
    **dict.fromkeys(("features.n_samples", "features.n_features"), int),
    **dict.fromkeys(("features.sha256", "labels.dtype", "labels.sha256"), str),
    "labels.classes": list,
}


@dataclass(frozen=True)
class LabelMessage:
    """Header and payload of a message that :func:`encode_labels` returned.

    Parameters
    ----------
    header : dict
        ``environment`` and ``settings`` must be the same for encoding and decoding.
        ``features`` holds the shape and checksum of the features. ``labels`` holds the
        classes, their dtype and a checksum of the labels.
    payload : bytes
        The entropy-coded labels.

    See Also
    --------
    encode_labels, decode_labels : Convert labels to a message and back.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_mdl import MDLReadoutSwitcher, encode_labels
    >>> from sklearn_mdl.switcher import LabelMessage
    >>> from sklearn_mdl import readout_grid
    >>> switcher = MDLReadoutSwitcher(readout_grid(), shuffle=True, random_state=0)
    >>> message = encode_labels(switcher, *load_iris(return_X_y=True))
    >>> read = LabelMessage.from_bytes(message)
    >>> read.header["labels"]["classes"]
    [0, 1, 2]
    >>> read.payload_bits + read.header_bits == 8 * len(message)
    True
    """

    header: Header
    payload: bytes

    @property
    def payload_bits(self) -> int:
        """Size of the payload in bits, which is about ``codelength_ / log 2``."""
        return 8 * len(self.payload)

    @property
    def header_bits(self) -> int:
        """Size in bits of everything in the message except the payload."""
        return 8 * len(self.to_bytes()) - self.payload_bits

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        header = _encoded(self.header)
        prefix = PREFIX.pack(MAGIC, FORMATS["message"], len(header))
        body = prefix + header + self.payload
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, message: bytes) -> LabelMessage:
        """Separate the header and payload of a message without decoding it.

        Parameters
        ----------
        message : bytes

        Returns
        -------
        message : LabelMessage

        Raises
        ------
        ValueError
            If the bytes are not a message, have another version or are damaged
            (truncated, extended or with any bit changed).
        TypeError
            If ``message`` is not bytes.
        """
        if not isinstance(message, bytes | bytearray | memoryview):
            raise TypeError(
                f"message must be bytes, got {type(message).__name__}; pass "
                "message.to_bytes() for a LabelMessage, or read_bytes() for a Path"
            )
        message = bytes(message)
        header, payload = _parts(message)
        return cls(_decoded(header), payload)


def is_message(path: Path) -> bool:
    """Return True if a file begins like a message, even if the message is damaged."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _parts(message: bytes) -> tuple[bytes, bytes]:
    """Return header and payload of a message; raise if it is incomplete."""
    if not message.startswith(MAGIC):
        raise _damaged(f"one that begins with {message[: len(MAGIC)]!r}")
    if len(message) < PREFIX.size + DIGEST_BYTES:
        raise _damaged(f"{len(message)} bytes, less than the frame of a message")
    _, number, length = PREFIX.unpack_from(message)
    check_format("A message", "message", {KEY: f"message {number}"})
    body, digest = message[:-DIGEST_BYTES], message[-DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise _damaged("one whose checksum does not match")
    start = PREFIX.size + length
    if start > len(body) or (len(body) - start) % WORD_BYTES:
        raise _damaged(f"a header of {length} bytes in a message of {len(message)}")
    return body[PREFIX.size : start], body[start:]


def _damaged(what: str) -> ValueError:
    return ValueError(
        f"A message must be complete and unchanged, got {what}; copy the file "
        "again, or call encode_labels(switcher, X, y)"
    )


def _encoded(header: Header) -> bytes:
    compact = (",", ":")
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=compact)
    return text.encode("utf-8", "surrogatepass")


def _decoded(text: bytes) -> Header:
    try:
        header = json.loads(text.decode("utf-8", "surrogatepass"))
        if _encoded(header) != text:  # due to repeated names, NaN or spaces
            raise ValueError("as encode_labels writes it")
    except (ValueError, RecursionError) as error:
        raise _damaged(f"a header that is not JSON ({error})") from error
    for name, kind in FIELDS.items():
        value = header
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if type(value) is not kind:  # isinstance would accept a bool as an int
            raise _damaged(f"{name}={value!r}, which must be of type {kind.__name__}")
    return dict(header)


OVERRULED = ("batch_size", "device")  # the switcher's values replace the readouts'


def settings_of(switcher: OnlineClassifier) -> dict[str, object]:
    """Return the parameters on which predictions depend, as JSON.

    Parameters
    ----------
    switcher : OnlineClassifier

    Returns
    -------
    settings : dict
        All parameters that have an effect. Since there may be thousands of readouts,
        parameters of a readout are only included if they differ from the defaults.

    Raises
    ------
    ValueError
        If the ``random_state`` of the switcher is not an integer, or that of a readout
        is neither an integer nor None.
    TypeError
        If a parameter cannot be written as JSON and compared.
    """
    _check_seed("random_state", switcher.random_state)
    params = switcher.get_params(deep=False)
    if "switching" in params:
        params["switching"] = as_prior(params["switching"])
    if isinstance(params.get("readouts"), (list, tuple)):  # not the name of a list
        params["readouts"] = [_of_readout(readout) for readout in params["readouts"]]
    return {"class": type(switcher).__name__} | {
        name: _comparable(params[name], name)
        # The environment already contains the resolved device.
        for name in sorted(params.keys() - WITHOUT_EFFECT - {"device"})
    }


def _of_readout(readout: object) -> object:
    if not isinstance(readout, BaseEstimator):
        return readout  # rejected when the estimator is fitted
    params = readout.get_params(deep=False)
    if params.get("random_state") is not None:
        _check_seed("random_state of a readout", params["random_state"])
    defaults = inspect.signature(type(readout)).parameters
    changed = {}
    for name in sorted(params.keys() - set(OVERRULED)):
        value = _comparable(params[name], f"{name} of a readout")
        default = defaults[name].default
        if default is inspect.Parameter.empty or value != _comparable(default, name):
            changed[name] = value
    return {"class": type(readout).__name__} | changed


def _check_seed(name: str, value: object) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        cure = "for a decoder that draws the same numbers, pass random_state=0"
        raise invalid(name, "an integer", value, cure)


def _comparable(value: object, name: str) -> object:
    try:
        return _flat(as_json(value, name))
    except TypeError as error:
        raise TypeError(
            f"A message must hold all settings, but {str(error).partition('; ')[0]}; "
            "use such a value for this setting"
        ) from error


def _flat(value: Any) -> Any:
    """Replace tuples and arrays by lists, which give the same predictions."""
    if isinstance(value, list):
        return [_flat(item) for item in value]
    match value:
        case {"tuple": inner} | {"array": inner} | {"dict": inner}:
            return _flat(inner)
        case {"class": str(name), "params": dict(params)}:
            return {"class": name} | _flat(params)
        case dict():
            return {key: _flat(item) for key, item in value.items()}
    return value
