"""DMLab's TFRecord files of tf.train.Example messages, read without TensorFlow.

A record consists of the message's length (8 bytes, little endian), a checksum of the
length, the message, and a checksum of the message. The message is a protocol buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import cast

from sklearn_mdl._core.images.reading import FilePart
from sklearn_mdl.datasets._vtab import data

POLYNOMIAL = 0x82F63B78  # of CRC-32C, with its bits reversed
BYTES_LIST, INT64_LIST = 1, 3  # kinds of features; kind 2 holds floats
Span = tuple[int, int]
Value = int | Span


def dmlab(task: data.VtabTask, folder: Path) -> data.Parts:
    """Read DMLab's labels and the positions of its images in the files."""
    for part in (data.TRAIN, data.VALIDATION, data.TEST):
        paths = sorted((folder / "dmlab").glob(f"dmlab-{part}.tfrecord*"))
        if not paths:
            raise FileNotFoundError(
                f"DMLab needs {folder / 'dmlab' / f'dmlab-{part}.tfrecord*'}, which is "
                f"missing; download from {task.origin} to {folder}: {task.download}"
            )
        items, labels = zip(*chain(*map(examples, paths)), strict=True)
        yield part, list(items), labels


def examples(path: Path) -> Iterator[tuple[FilePart, int]]:
    """Yield the position of each image in a file, and the image's label.

    Raises
    ------
    ValueError
        If the file has another format or is truncated.
    """
    for offset, record in records(path):
        features = parse_example(record)
        if "image" not in features or "label" not in features:
            raise ValueError(f"a record of {path} holds only {sorted(features)}")
        start, stop = cast(Span, features["image"][0])
        label = cast(int, features["label"][0])
        yield FilePart(path, offset + start, stop - start), label


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each message of a TFRecord file, preceded by its position in the file.

    Raises
    ------
    ValueError
        If a length does not match its checksum, or the file ends inside a record.
    """
    with path.open("rb") as file:
        while head := file.read(12):
            offset, checksum = file.tell(), int.from_bytes(head[8:], "little")
            sound = len(head) == 12 and masked_crc(head[:8]) == checksum
            length = int.from_bytes(head[:8], "little") if sound else 0
            message = file.read(length)
            if not sound or len(message) < length or len(file.read(4)) < 4:
                raise ValueError(f"{path} is damaged at byte {offset}")
            yield offset, message


def masked_crc(content: bytes) -> int:
    """Return CRC-32C, rotated and with a constant added, as in TFRecord files."""
    crc = crc32c(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """Return Castagnoli's checksum, computed bit by bit."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def parse_example(message: bytes) -> dict[str, list[Value]]:
    """Parse a tf.train.Example.

    Returns
    -------
    features : dict of str to list
        Values keyed by feature name. A value is an integer, or a position (start, stop)
        of bytes in the message.

    Raises
    ------
    ValueError
        If the message is invalid.
    """
    features: dict[str, list[Value]] = {}
    for span in _spans(message, (0, len(message)), 1):
        for entry in _spans(message, span, 1):
            names, values = _spans(message, entry, 1), _spans(message, entry, 2)
            name = message[slice(*names[-1])].decode() if names else ""
            features[name] = _values(message, values[-1]) if values else []
    return features


def _spans(message: bytes, span: Span, wanted: int) -> list[Span]:
    """Return the positions of all fields in a span that have the wanted number."""
    fields = _fields(message, *span)
    return [f for number, f in fields if number == wanted and isinstance(f, tuple)]


def _values(message: bytes, span: Span) -> list[Value]:
    values: list[Value] = []
    for kind, part in _fields(message, *span):
        if isinstance(part, int) or kind not in (BYTES_LIST, INT64_LIST):
            continue
        for _, value in _fields(message, *part):
            if kind == BYTES_LIST or isinstance(value, int):
                values.append(value)
                continue
            at, stop = value  # packed integers
            while at < stop:
                number, at = _varint(message, at)
                values.append(_signed(number))
    return values


def _fields(message: bytes, at: int, stop: int) -> Iterator[tuple[int, int | Span]]:
    """Yield the number of each field, and its integer or the position of its bytes."""
    while at < stop:
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, _signed(value)
            continue
        length = {1: 8, 5: 4}.get(wire, 0)
        if wire == 2:
            length, at = _varint(message, at)
        if wire not in (1, 2, 5) or at + length > stop:
            raise ValueError(f"a record has an unreadable field at byte {at}")
        yield number, (at, at + length)
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError(f"a record has a number that does not end at byte {at}")
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
