"""Texts and labels of a CSV file, encoded for ``sklearn-mdl rank``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

import sklearn_mdl

if TYPE_CHECKING:
    from sklearn_mdl.datasets import Representations

TEXT, LABEL = "text", "label"
WIDTH = 128


def is_table(options: argparse.Namespace) -> bool:
    """Return True if the path is a CSV file; raise for --text with anything else."""
    found: bool = options.features.suffix.lower() == ".csv"
    if options.text is not None and not found:
        raise ValueError(
            f"--text names a column of a .csv file, but got {str(options.features)!r}; "
            "leave it out"
        )
    return found


def encoded_table(options: argparse.Namespace) -> Representations:
    """Encode the texts of a CSV file by encoders that need no pre-trained model.

    Raises
    ------
    ValueError
        If a column or labels are missing.
    """
    path = options.features
    columns = sklearn_mdl.datasets.read_csv(path)
    names = {"text": options.text or TEXT, "label": options.label or LABEL}
    if options.groups:
        names["groups"] = options.groups
    for option, name in names.items():
        if name not in columns:
            raise ValueError(
                f"--{option} must name one of the columns of {path}, {list(columns)}, "
                f"got {name!r}; write --{option} COLUMN"
            )
    table = {option: np.array(columns[name]) for option, name in names.items()}
    is_labelled = table["label"] != ""
    notes = []
    if not is_labelled.all():
        if options.missing == "raise":
            raise ValueError(
                f"{path} must have a label in every row, but row "
                f"{int(np.argmin(is_labelled)) + 2} has none; fill it in or pass "
                "--missing drop"
            )
        notes = [f"{int((~is_labelled).sum())} rows without a label were dropped"]
        table = {option: column[is_labelled] for option, column in table.items()}
    texts = table.pop("text").tolist()
    if options.targets == "real":
        table["label"] = table["label"].astype(np.float64)
    width = max(2, min(WIDTH, len(texts) // 2))  # a decomposition has no more to say
    features = {
        name: np.asarray(sklearn_mdl.encoders.encode(encoder, texts), np.float32)
        for name, encoder in sklearn_mdl.encoders.text_baselines(width).items()
    }
    datasets = {path.stem: (features, *table.values())}
    kind = "a CSV file of texts"
    return sklearn_mdl.datasets.Representations(kind, datasets, {}, notes)
