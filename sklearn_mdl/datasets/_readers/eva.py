"""Embeddings written by kaiko's eva: ``manifest.csv`` and a ``.pt`` file per sample.

The table has the columns ``origin``, ``embeddings`` (path of a file), ``target`` and
``split``, then what was asked for; a file holds one tensor of shape (d,) or (1, d), or
a list of one (``eva.core.callbacks.writers.embeddings``).
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import torch

from sklearn_mdl.datasets._readers.parts import (
    Part,
    Wanted,
    check_vector,
    chosen_splits,
    groups_of,
    label_column,
    labels_of,
    parsed,
)
from sklearn_mdl.datasets._readers.text_tables import read_csv

MANIFEST = "manifest.csv"
_OWN = ("origin", "embeddings", "split")


def read_manifest(folder: Path, wanted: Wanted) -> Part:
    """Read the samples of one manifest: an encoder on a dataset."""
    path = folder / MANIFEST
    table = read_csv(path)
    lacking = [name for name in ("origin", "embeddings") if name not in table]
    if lacking:
        raise ValueError(
            f"{path} must have the columns origin and embeddings, as eva writes them, "
            f"got {list(table)}; predict with eva's ClassificationEmbeddingsWriter"
        )
    candidates = [name for name in table if name not in _OWN]
    column = label_column(candidates, wanted, path)
    splits = table.get("split", [""] * len(table["origin"]))
    chosen = chosen_splits(list(dict.fromkeys(splits)), wanted, path)
    rows = [row for row, split in enumerate(splits) if split in chosen]
    labels, known = labels_of(parsed([table[column][row] for row in rows]))
    files = [folder / table["embeddings"][row] for row in rows]
    features = _read_vectors(files)
    ids = np.array([table["origin"][row] for row in rows])
    groups = None
    if wanted.groups is not None:
        groups = groups_of([table[wanted.groups][row] for row in rows], path)
    counts = ", ".join(f"{name or 'no name'} {splits.count(name)}" for name in chosen)
    dataset, encoder = folder.name, folder.parent.name
    note = f"splits: {counts}"
    return Part(dataset, encoder, features, labels, known, ids, note, groups)


def _read_vectors(files: list[Path]) -> np.ndarray:
    first = _read_vector(files[0])
    features = np.empty((len(files), len(first)), dtype=first.dtype)
    for row, path in enumerate(files):
        vector = _read_vector(path)
        check_vector(vector, features.shape[1], path.name, path.parent)
        features[row] = vector
    return features


def _read_vector(path: Path) -> np.ndarray:
    """Read the vector of a sample; its pickle may hold tensors and lists alone."""
    if not path.is_file():
        raise FileNotFoundError(
            f"Embeddings must be where the manifest says, got no file {str(path)!r}; "
            "move the .pt files together with manifest.csv"
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise ValueError(
            f"{path} must hold tensors alone, since a pickle of anything else could "
            f"run code, got: {str(error).splitlines()[0]}; save the tensor itself"
        ) from error
    tensors = content if isinstance(content, list) else [content]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise ValueError(
            f"{path} must hold a tensor or a list of one, got "
            f"{type(tensors[0]).__name__}; save the tensor itself"
        )
    if len(tensors) != 1:
        raise ValueError(
            f"A sample must have one embedding, got {len(tensors)} in {path}; average "
            "over the patches of a slide first"
        )
    tensor = tensors[0].detach()
    tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    array: np.ndarray = tensor.numpy()
    array = array[0] if array.ndim == 2 and len(array) == 1 else array
    if array.ndim != 1:
        raise ValueError(
            f"An embedding must be of shape (d,) or (1, d), got {array.shape} in "
            f"{path}; average over patches first"
        )
    return array
