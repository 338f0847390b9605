"""A ``.npz`` file with embeddings of several encoders and labels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from sklearn_mdl.datasets._files import check_member
from sklearn_mdl.datasets._readers.parts import (
    ID_NAMES,
    Part,
    Wanted,
    groups_of,
    label_column,
)


def read_npz(path: Path, wanted: Wanted) -> list[Part]:
    """Read arrays with two axes as encoders, and one with one axis as labels."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                check_member(archive.zip, name)
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} must be a .npz file of plain arrays, since a pickle could run "
            f"code, got: {error}; write labels of text as y.astype(str)"
        ) from error
    encoders = [name for name, array in arrays.items() if array.ndim == 2]
    rows = [name for name, array in arrays.items() if array.ndim == 1]
    if not encoders:
        raise ValueError(
            f"{path} must hold an array (n_samples, width) for each encoder, got "
            f"{ {name: array.shape for name, array in arrays.items()} }; store them"
        )
    key = next((name for name in ID_NAMES if name in rows), None)
    column = label_column([name for name in rows if name != key], wanted, path)
    ids = None if key is None else arrays[key].astype(str)
    groups = None
    if wanted.groups is not None:
        groups = groups_of(arrays[wanted.groups].tolist(), path)
    labels = arrays[column]
    known = ~np.isnan(labels) if labels.dtype.kind == "f" else None
    note = f"labels are array {column!r}"
    return [
        Part(path.stem, name, arrays[name], labels, known, ids, note, groups)
        for name in encoders
    ]
