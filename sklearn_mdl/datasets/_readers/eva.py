"""Embeddings written by kaiko's eva: ``manifest.csv`` and a ``.pt`` file per sample.

The manifest has the columns ``origin``, ``embeddings`` (path of a ``.pt`` file),
``target`` and ``split``, followed by optional metadata. A ``.pt`` file contains a
tensor of shape (d,) or (1, d), or a list with one such tensor. These files are written
by ``eva.core.callbacks.writers.embeddings``.
"""

from __future__ import annotations

import pickletools
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.validation import damaged
from sklearn_mdl.datasets._readers import parts
from sklearn_mdl.datasets._readers.text_tables import read_csv

MANIFEST = "manifest.csv"
_OWN = ("origin", "embeddings", "split")
_MODULES = ("torch", "torch._utils", "collections")


def read_manifest(folder: Path, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Return one part with the rows of the requested splits of a manifest."""
    path = folder / MANIFEST
    table = read_csv(path)
    if not {"origin", "embeddings"} <= set(table):
        cure = "predict with eva's ClassificationEmbeddingsWriter"
        fault = f"it holds {list(table)}"
        raise damaged(path, "the columns origin and embeddings", fault, cure)
    candidates = [name for name in table if name not in _OWN]
    column = parts.label_column(candidates, wanted, path)
    if "split" not in table:
        wanted.refuse(path, "splits")
    splits = table.get("split", [""] * len(table["origin"]))
    chosen = parts.chosen_splits(list(dict.fromkeys(splits)), wanted, path)
    rows = [row for row, split in enumerate(splits) if split in chosen]
    table = {name: [cells[row] for row in rows] for name, cells in table.items()}
    files = [parts.named_in(folder, file, path) for file in table["embeddings"]]
    for name, cells in (("origin", table["origin"]), ("embeddings", map(str, files))):
        found = Counter(cells)
        if len(found) < len(rows):
            fault = f"{found.most_common(1)[0][0]!r} occurs several times"
            cure = f"save df.drop_duplicates({name!r})"
            raise damaged(path, f"each value of {name} once", fault, cure)
    labels, known = parts.labels_of(parts.parsed(table[column], path))
    features = _read_vectors(files)
    ids = parts.texts_of(table["origin"], "origins")
    groups = parts.groups_in(table, wanted, path)
    counts = ", ".join(f"{name or 'no name'} {splits.count(name)}" for name in chosen)
    names, note = (folder.name, folder.parent.name), f"splits: {counts}"
    return [parts.Part(*names, features, labels, known, ids, note, groups)]


def _read_vectors(files: list[Path]) -> np.ndarray:
    first = _read_vector(files[0])
    features = np.empty((len(files), len(first)), dtype=first.dtype)
    for row, path in enumerate(files):
        vector = _read_vector(path)
        parts.check_vector(vector, features.shape[1], path.name, path.parent)
        features = features.astype(np.result_type(features, vector), copy=False)
        features[row] = vector
    return features


def _check_archive(path: Path) -> None:
    """Raise ValueError for an archive that torch cannot read safely.

    A compressed archive could expand and fill the memory. If an archive does not begin
    at the first byte, zipfile and torch might read different archives in the same file.
    """
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        kinds = {entry.compress_type for entry in entries}
        n_bytes = sum(entry.file_size for entry in entries)
        is_plain = kinds <= {zipfile.ZIP_STORED} and n_bytes <= path.stat().st_size
        if not is_plain or min(entry.header_offset for entry in entries):
            raise ValueError(f"its {n_bytes} bytes are not stored as by torch.save")
        for name in archive.namelist():
            if name.lower().endswith("data.pkl"):  # torch ignores the case
                _check_pickle(archive.read(name))


def _check_pickle(content: bytes) -> None:
    """Raise ValueError if a pickle names objects that plain tensors do not need."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("GLOBAL", "INST", "STACK_GLOBAL"):
            module, _, name = str(argument).partition(" ")
            if module not in _MODULES or name == "_rebuild_wrapper_subclass":
                raise ValueError(f"its pickle names {argument or 'another object'}")


def _read_vector(path: Path) -> np.ndarray:
    """Read the vector of one sample from a ``.pt`` file."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} must exist, since manifest.csv names it; copy the missing files"
        )
    cure = "call torch.save(tensor, path), since other pickles could run code"
    # torch raises many kinds of errors for damaged files and unusual tensors.
    with readable(path, "only tensors", cure, Exception), warnings.catch_warnings():
        _check_archive(path)
        warnings.simplefilter("ignore")  # torch's warnings; the tensor is checked below
        content = torch.load(path, map_location="cpu", weights_only=True)
    tensors = content if isinstance(content, list) else [content]
    if len(tensors) != 1 or not isinstance(tensors[0], torch.Tensor):
        fault = f"it holds {sorted({type(tensor).__name__ for tensor in tensors})}"
        raise damaged(path, "one tensor", fault, "call torch.save(tensor, path)")
    with readable(path, "a plain tensor", "save tensor.contiguous()", Exception):
        tensor = tensors[0].detach()
        if tensor.numel() * tensor.element_size() > path.stat().st_size:
            raise ValueError(f"it is too small for {tensor.numel()} numbers")
        tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        array: np.ndarray = tensor.numpy()
    array = array[0] if array.ndim == 2 and len(array) == 1 else array
    if array.ndim != 1:
        fault = f"its shape is {array.shape}"
        raise damaged(path, "one vector", fault, "save tensor.mean(0)")
    return array
