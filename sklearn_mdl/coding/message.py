"""What a message is: magic, version, header in JSON, payload, checksum.

========  ===========================================================
bytes     what
========  ===========================================================
8         :data:`MAGIC`
2         version of this format, little-endian as all numbers
4         length of the header
...       header, JSON in UTF-8
...       payload of the range coder, in words of 32 bits
32        SHA-256 of all the bytes before
========  ===========================================================

Nothing in a message is ever executed, and nothing but the checksum is believed before
it was checked.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAGIC = b"\x89MDLY\r\n\x1a"  # not text, and damaged by whatever changes line ends
VERSION = 1
PREFIX = struct.Struct("<8sHI")
WORD_BYTES = 4
DIGEST_BYTES = hashlib.sha256().digest_size

# The fields of a header, and the types of those that are read from it. What is merely
# compared with what is here may hold anything.
FIELDS: dict[str, dict[str, type] | None] = {
    "environment": None,
    "settings": None,
    "features": {"n_samples": int, "n_features": int, "sha256": str},
    "labels": {"dtype": str, "classes": list, "sha256": str},
}


@dataclass(frozen=True)
class LabelMessage:
    """Labels as :func:`encode_labels` sends them: a header and a payload.

    Parameters
    ----------
    header : dict
        ``environment`` and ``settings``, what decoding depends on; ``features``, the
        shape and checksum of the features; ``labels``, the side information: classes,
        their dtype and a checksum of the labels.
    payload : bytes
        The labels, entropy-coded.

    See Also
    --------
    encode_labels, decode_labels : From labels to a message and back.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_mdl import LabelMessage, MDLReadoutSwitcher, encode_labels
    >>> from sklearn_mdl import readout_grid
    >>> switcher = MDLReadoutSwitcher(readout_grid(), shuffle=True, random_state=0)
    >>> message = encode_labels(switcher, *load_iris(return_X_y=True))
    >>> read = LabelMessage.from_bytes(message)
    >>> read.header["labels"]["classes"]
    [0, 1, 2]
    >>> read.payload_bits + read.header_bits == 8 * len(message)
    True
    """

    header: dict[str, Any]
    payload: bytes

    @property
    def payload_bits(self) -> int:
        """Size of the payload: what the codelength, ``/ log 2``, promises."""
        return 8 * len(self.payload)

    @property
    def header_bits(self) -> int:
        """Size of all the rest: header, its frame and the checksum."""
        frame = PREFIX.size + DIGEST_BYTES
        return 8 * (frame + len(_encoded(self.header)))

    def to_bytes(self) -> bytes:
        """Return the message as it is sent."""
        header = _encoded(self.header)
        body = PREFIX.pack(MAGIC, VERSION, len(header)) + header + self.payload
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, message: bytes) -> LabelMessage:
        """Take a message apart, without decoding it.

        Parameters
        ----------
        message : bytes

        Returns
        -------
        message : LabelMessage

        Raises
        ------
        ValueError
            If that is no message, one of another version, or a damaged one: cut,
            lengthened or changed in any bit.
        TypeError
            If it is not bytes.
        """
        if not isinstance(message, bytes | bytearray | memoryview):
            raise TypeError(
                "A message must be bytes, as encode_labels returns them, got "
                f"{type(message).__name__}; read the file with Path.read_bytes"
            )
        message = bytes(message)
        header, payload = _parts(message)
        return cls(_decoded(header), payload)


def _parts(message: bytes) -> tuple[bytes, bytes]:
    """Header and payload of a message that is whole."""
    if not message.startswith(MAGIC):
        raise ValueError(
            f"A message must begin with {MAGIC!r}, got {message[: len(MAGIC)]!r}; give "
            "what encode_labels returned"
        )
    if len(message) < PREFIX.size + DIGEST_BYTES:
        raise _damaged(f"{len(message)} bytes, less than the frame of a message")
    _, version, length = PREFIX.unpack_from(message)
    if version != VERSION:
        raise ValueError(
            f"A message must be of version {VERSION} to be read here, got version "
            f"{version}; decode it with the sklearn_mdl that encoded it"
        )
    body, digest = message[:-DIGEST_BYTES], message[-DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise _damaged("one whose checksum is that of other bytes")
    start = PREFIX.size + length
    if start > len(body) or (len(body) - start) % WORD_BYTES:
        raise _damaged(f"a header of {length} bytes in a message of {len(message)}")
    return body[PREFIX.size : start], body[start:]


def _damaged(what: str) -> ValueError:
    return ValueError(
        f"A message must be whole and unchanged, got {what}; fetch it anew or encode "
        "the labels again"
    )


def _encoded(header: dict[str, Any]) -> bytes:
    text = json.dumps(
        header, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.encode("utf-8", "surrogatepass")


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8", "surrogatepass"))
        if _encoded(header) != text:  # doubled names, numbers that JSON lacks, spaces
            raise ValueError("as encode_labels writes it")
    except (ValueError, RecursionError) as error:
        raise _damaged(f"a header that is no JSON ({error})") from error
    for name, kind in _types_of_fields():
        found = field(header, name)
        if type(found) is not kind:  # a bool is no number of rows
            raise _damaged(f"{name} that is {found!r} instead of {kind.__name__}")
    return dict(header)


def _types_of_fields() -> Iterator[tuple[str, type]]:
    for group, fields in FIELDS.items():
        yield group, dict
        for name, kind in (fields or {}).items():
            yield f"{group}.{name}", kind


def field(header: Any, name: str) -> Any:
    """Return what stands in a header under a dotted name; None if nothing does."""
    for part in name.split("."):
        header = header.get(part) if isinstance(header, dict) else None
    return header
