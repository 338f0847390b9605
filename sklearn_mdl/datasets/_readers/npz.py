"""A ``.npz`` file with labels and the embeddings of several encoders."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.validation import damaged
from sklearn_mdl.datasets._files import UNREADABLE, check_member
from sklearn_mdl.datasets._readers import parts


def read_npz(path: Path, wanted: parts.ReadRequest) -> list[parts.Part]:
    """Read arrays with two axes as encoders and an array with one axis as labels."""
    wanted.refuse(path, "splits")
    cure = "call np.savez(path, X=X, y=y), with y.astype(str) for text labels"
    with (
        readable(path, "plain arrays", cure, *UNREADABLE, OSError),
        np.load(path, allow_pickle=False) as archive,
    ):
        for name in archive.files:
            check_member(archive.zip, name)
        arrays = {name: archive[name] for name in archive.files}
    encoders = [name for name, array in arrays.items() if array.ndim == 2]
    rows = {name: array for name, array in arrays.items() if array.ndim == 1}
    if not encoders:
        shapes = {name: array.shape for name, array in arrays.items()}
        required = "an array (n_samples, width) for each encoder"
        raise damaged(path, required, f"it holds {shapes}", "pass X=X, y=y to np.savez")
    key, column = parts.id_and_label(list(rows), wanted, path)
    ids = None if key is None else rows[key].astype(str)
    groups = parts.groups_in({n: r.tolist() for n, r in rows.items()}, wanted, path)
    labels = rows[column]
    kind = labels.dtype.kind
    known = ~np.isnan(labels) if kind == "f" else labels != "" if kind == "U" else None
    note = f"labels are array {column!r}"
    return [
        parts.Part(path.stem, name, arrays[name], labels, known, ids, note, groups)
        for name in encoders
    ]
