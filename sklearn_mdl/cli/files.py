"""Files at the door: features with their labels, and places for what is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sklearn_mdl.datasets import load_features, load_labels
from sklearn_mdl.representation.encoding import check_features, check_labels

FEATURES_HELP = ".npy, .npz or .safetensors: a row of numbers for each example"
LABELS_HELP = "the same kinds of files: a class for each row"


def load_rows(features: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    """Load features and their labels; errors name the file that is at fault."""
    X, y = load_features(features), np.asarray(load_labels(labels))
    check_labels(y, str(labels))
    check_features(X, y, str(features))
    return X, y


def make_folder(path: Path) -> None:
    """Make a folder for results, which fails before the walk and not after."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FileExistsError(
            f"Results must go to a folder, got {str(path)!r}, where a file is in the "
            "way; choose another"
        ) from error


def check_output(path: Path) -> None:
    """Refuse an output that could not be written after the walk."""
    if not path.parent.is_dir() or path.is_dir():
        raise FileNotFoundError(
            f"Output must be a file in a folder that is there, got {str(path)!r}; make "
            "the folder first"
        )
