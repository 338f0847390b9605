"""Texts and labels of a CSV file, encoded for ``sklearn-mdl rank``."""

from __future__ import annotations

import argparse
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

import sklearn_mdl

if TYPE_CHECKING:
    from sklearn_mdl.datasets import Representations

WIDTH = 128


def is_table(options: argparse.Namespace) -> bool:
    """Return True for a CSV file. Raise if --splits or --text cannot apply."""
    is_csv: bool = options.features.suffix.lower() == ".csv"
    if is_csv and options.splits is not None:
        raise ValueError(
            f"--splits must be left out for a .csv file, got {options.splits}; save "
            "the rows of these splits in another file"
        )
    if options.text is not None and not is_csv:
        raise ValueError(
            "--text applies only if FEATURES is a .csv file, got "
            f"{str(options.features)!r}; leave out --text"
        )
    return is_csv


def encoded_table(options: argparse.Namespace) -> Representations:
    """Encode the texts of a CSV file with encoders that need no pre-trained model.

    Raises
    ------
    ValueError
        If a column or group is missing, if there is a column "groups" but no
        ``--groups``, if a label is missing and ``--missing`` is "raise", if labels are
        not numbers and ``--targets`` is "real", or if the texts have too few words.
    """
    from sklearn_mdl._core.io.reading import readable  # imports scikit-learn

    path = options.features
    table, notes = _labelled(options)
    if options.targets == "real":
        cure = "leave out --targets real, or pass another --label"
        with readable(path, "numbers as labels", cure, ValueError):
            number_of = sklearn_mdl.datasets.number_of
            by_row = [np.array([number_of(str(label)) for label in table["label"]])]
    else:
        by_row = [sklearn_mdl.datasets.labels_of(table["label"])[0]]
    if options.groups:
        by_row.append(sklearn_mdl.datasets.groups_of(table["groups"], path))
    with readable(path, "texts of several words", "pass another --text", ValueError):
        features = _encoded(table["text"])
    datasets = {path.stem: (features, *by_row)}
    kind = "a CSV file of texts"
    return sklearn_mdl.datasets.Representations(kind, datasets, {}, notes)


def _labelled(options: argparse.Namespace) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the columns of the rows with a label, and notes on dropped rows.

    The keys of the columns are the names of the options.
    """
    path = options.features
    columns: dict[str, list[Any]] = sklearn_mdl.datasets.read_csv(path)
    names = {name: getattr(options, name) or name for name in ("text", "label")}
    if options.groups:
        names["groups"] = options.groups
    elif "groups" in set(columns) - set(names.values()):
        raise ValueError(
            f"--groups must name a column, since {path} has 'groups'; pass --groups "
            "groups, or rename the column"
        )
    for option, name in names.items():
        if name not in columns:
            raise ValueError(
                f"--{option} must name one of the columns of {path}, {list(columns)}, "
                f"got {name!r}; pass --{option} "
                f"{next((c for c in columns if c not in names.values()), 'COLUMN')}"
            )
    texts = columns[names["label"]]
    labels = sklearn_mdl.datasets.parsed(texts, path, options.targets != "auto")
    known = [label not in (None, "") for label in labels]
    columns[names["label"]] = texts if options.targets == "classes" else labels
    n_lost = known.count(False)
    if n_lost and (options.missing == "raise" or not any(known)):
        drop = " or pass --missing drop" if any(known) else ""
        raise ValueError(
            f"{path} must have a label in every row, but row {known.index(False) + 2} "
            f"has none; fill it in{drop}"
        )
    table = {key: list(compress(columns[name], known)) for key, name in names.items()}
    return table, [f"{n_lost} rows without a label were dropped"] * bool(n_lost)


def _encoded(texts: list[str]) -> dict[str, np.ndarray]:
    words, characters, _ = sklearn_mdl.encoders.text_baselines().values()
    n_terms = [len(e[0].fit(texts).vocabulary_) for e in (words, characters)]
    # Few texts, or few different n-grams, allow few components.
    width = max(2, min(WIDTH, len(texts) // 2, *n_terms))
    return {
        name: np.asarray(sklearn_mdl.encoders.encode(encoder, texts), np.float32)
        for name, encoder in sklearn_mdl.encoders.text_baselines(width).items()
    }
