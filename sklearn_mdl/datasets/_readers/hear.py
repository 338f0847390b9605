"""Embeddings written by HEAR's evaluation kit, in folders MODEL/TASK.

``heareval.embeddings.task_embeddings`` writes a file ``task_metadata.json`` for each
task, and three files for each split. ``SPLIT.embeddings.npy`` is raw float32 data,
despite its name. ``SPLIT.embedding-dimensions.json`` has the shape of this data, and
``SPLIT.target-labels.pkl`` has the labels.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.validation import damaged
from sklearn_mdl.datasets._files import load_features
from sklearn_mdl.datasets._readers import parts

METADATA = "task_metadata.json"
_EMBEDDINGS = ".embeddings.npy"
_CURE = "run heareval.embeddings.runner again"


class _PlainUnpickler(pickle.Unpickler):
    """Unpickler that accepts only built-in types, such as lists, text and numbers."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _check_places(content: bytes) -> None:
    """Raise UnpicklingError for a large memo index, which could fill the memory."""
    for code, place, _ in pickletools.genops(content):
        if "PUT" in code.name and int(place or 0) > len(content):
            raise pickle.UnpicklingError(f"its memo index {place} is too large")


def read_task(folder: Path, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Return one part with the rows of the requested splits of a task."""
    wanted.refuse("HEAR files", "label", "groups")
    metadata = _read_json(folder / METADATA)
    kind = metadata.get("embedding_type") if isinstance(metadata, dict) else None
    if kind != "scene":
        cure = "save X.mean(1) in DATASET/ENCODER.npy"
        fault = f"its embeddings are of type {kind!r}"
        raise damaged(folder, "one embedding per sound ('scene')", fault, cure)
    files = folder.glob("*" + _EMBEDDINGS)
    saved = [file.name.removesuffix(_EMBEDDINGS) for file in files]
    listed = {name: None for name in metadata.get("splits") or [] if name in saved}
    splits = parts.chosen_splits([*listed] or sorted(saved), wanted, folder)
    if not splits:
        raise damaged(folder, f"a file SPLIT{_EMBEDDINGS}", "it has none", _CURE)
    blocks = [_read_block(folder, split) for split in splits]
    split_labels = [_read_labels(folder, split) for split in splits]
    for split, block, rows in zip(splits, blocks, split_labels, strict=True):
        if len(block) != len(rows) or block.shape[1] != blocks[0].shape[1]:
            fault = f"{split!r} has shape {block.shape} for {len(rows)} labels"
            required = "embeddings of equal length, each with a label"
            raise damaged(folder, required, fault, _CURE)
    features = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    labels, known = parts.labels_of([label for rows in split_labels for label in rows])
    sizes = zip(splits, split_labels, strict=True)
    counts = ", ".join(f"{split} {len(rows)}" for split, rows in sizes)
    names = folder.name, folder.parent.name
    return [parts.Part(*names, features, labels, known, note=f"splits: {counts}")]


def _read_json(path: Path) -> Any:
    with readable(path, "JSON, as HEAR's kit writes it", _CURE, OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))


def _read_block(folder: Path, split: str) -> np.ndarray:
    """Memory-map the embeddings of a split."""
    path = folder / f"{split}{_EMBEDDINGS}"
    with path.open("rb") as file:
        is_npy = file.read(6) == b"\x93NUMPY"
    if is_npy:  # rewritten by np.save
        return load_features(path)
    shape = _read_json(folder / f"{split}.embedding-dimensions.json")
    is_shape = isinstance(shape, list) and len(shape) == 2
    is_shape = is_shape and all(type(n) is int and n > 0 for n in shape)
    if not is_shape or 4 * math.prod(shape) != path.stat().st_size:
        fault = f"it has {path.stat().st_size} bytes"
        raise damaged(path, f"float32 numbers of shape {shape}", fault, _CURE)
    return np.memmap(path, np.float32, "r", shape=tuple(shape))


def _read_labels(folder: Path, split: str) -> list[object]:
    """Read the label of each sound from a pickle, without running code from it."""
    path = folder / f"{split}.target-labels.pkl"
    required, cure = "only lists, text and numbers", "call pickle.dump(y.tolist(), f)"
    content = path.read_bytes()
    with readable(path, required, cure, Exception):  # damage may cause any error
        _check_places(content)
        rows = _PlainUnpickler(io.BytesIO(content)).load()
    if not isinstance(rows, list):
        fault = f"it holds a {type(rows).__name__}"
        raise damaged(path, "a list with an entry for each sound", fault, _CURE)
    labels = [row if isinstance(row, list) else [row] for row in rows]
    if several := [len(row) for row in labels if len(row) != 1]:
        fault = f"{len(several)} sounds have more or fewer (the first: {several[0]})"
        raise damaged(path, "one label per sound", fault, "use a MultiOutputSwitcher")
    return [row[0] for row in labels]
