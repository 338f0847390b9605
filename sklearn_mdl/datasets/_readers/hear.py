"""Embeddings written by HEAR's kit: a folder for each model and, in it, each task.

A task has ``task_metadata.json`` and for every split ``SPLIT.embeddings.npy``, which is
a bare array of float32 whatever its name says, its shape in
``SPLIT.embedding-dimensions.json``, and labels in ``SPLIT.target-labels.pkl``
(``heareval.embeddings.task_embeddings``).
"""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sklearn_mdl.datasets._readers.parts import Part, Wanted, chosen_splits, labels_of

METADATA = "task_metadata.json"
_EMBEDDINGS = ".embeddings.npy"


class _PlainUnpickler(pickle.Unpickler):
    """Reads lists, dicts, text and numbers; a name of a class or function fails."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def read_task(folder: Path, wanted: Wanted) -> Part:
    """Read all splits of one task: an encoder on a dataset."""
    if wanted.groups is not None:
        raise ValueError(
            "Groups must be named in the files, but those of HEAR hold labels alone, "
            f"got groups={wanted.groups!r} for {folder}; write DATASET/ENCODER.npy "
            "with DATASET/labels.npy and DATASET/groups.npy"
        )
    metadata = _read_json(folder / METADATA)
    kind = metadata.get("embedding_type") if isinstance(metadata, dict) else None
    if kind != "scene":
        raise ValueError(
            f"A task of HEAR must have one embedding per sound (scene), but {folder} "
            f"says {kind!r}; rank the other tasks, or average over time and write .npy"
        )
    there = [
        path.name.removesuffix(_EMBEDDINGS) for path in folder.glob("*" + _EMBEDDINGS)
    ]
    listed = [name for name in metadata.get("splits") or [] if name in there]
    splits = chosen_splits(listed or sorted(there), wanted, folder)
    if not splits:
        raise ValueError(
            f"A task of HEAR must have a file SPLIT{_EMBEDDINGS}, got none in "
            f"{folder}; run heareval.embeddings.runner"
        )
    blocks = [_read_block(folder, split) for split in splits]
    found = [_read_labels(folder, split) for split in splits]
    for split, block, own in zip(splits, blocks, found, strict=True):
        if len(block) != len(own) or block.shape[1] != blocks[0].shape[1]:
            raise ValueError(
                "Splits of a task must have a label a row and embeddings of one "
                f"length, but {split!r} in {folder} has embeddings of shape "
                f"{block.shape} for {len(own)} labels; run "
                "heareval.embeddings.runner again"
            )
    features = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    labels, known = labels_of([label for part in found for label in part])
    counts = ", ".join(f"{s} {len(x)}" for s, x in zip(splits, found, strict=True))
    names = folder.name, folder.parent.name
    return Part(*names, features, labels, known, note=f"splits: {counts}")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} must be JSON, as HEAR's kit writes it, got: {error}; write it "
            "again"
        ) from error


def _read_block(folder: Path, split: str) -> np.ndarray:
    """Map the embeddings of a split."""
    path = folder / f"{split}{_EMBEDDINGS}"
    with path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":  # rewritten by np.save
            return np.lib.format.open_memmap(path, mode="r")
    shape = _read_json(folder / f"{split}.embedding-dimensions.json")
    is_shape = isinstance(shape, list) and len(shape) == 2
    if not is_shape or 4 * math.prod(shape) != path.stat().st_size:
        raise ValueError(
            f"{path} must hold float32 numbers in the shape that its "
            f"embedding-dimensions.json gives, got {path.stat().st_size} bytes for "
            f"{shape}; run heareval.embeddings.runner again"
        )
    n_rows, width = map(int, shape)
    block: np.ndarray = np.memmap(path, np.float32, "r", shape=(n_rows, width))
    return block


def _read_labels(folder: Path, split: str) -> list[object]:
    """Read one label a row from a pickle that may hold nothing that runs."""
    path = folder / f"{split}.target-labels.pkl"
    try:
        with path.open("rb") as file:
            rows = _PlainUnpickler(file).load()
    except (pickle.UnpicklingError, EOFError, ValueError, MemoryError) as error:
        raise ValueError(
            f"{path} must hold lists, text and numbers alone, since a pickle of "
            f"anything else could run code, got: {error}; store the labels as lists"
        ) from error
    if not isinstance(rows, list):
        raise ValueError(
            f"{path} must hold a list with an entry for each sound, got "
            f"{type(rows).__name__}; run heareval.embeddings.runner again"
        )
    labels = [row if isinstance(row, list) else [row] for row in rows]
    several = [len(row) for row in labels if len(row) != 1]
    if several:
        raise ValueError(
            f"A sound must have one label, but {len(several)} have {several[0]} or "
            f"others in {path}; code tasks with several labels a row by a "
            "MultiOutputSwitcher"
        )
    return [row[0] for row in labels]
