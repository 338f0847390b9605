"""``sklearn-mdl decode``: decode the labels of a message, given the features."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import sklearn_mdl
from sklearn_mdl.cli import _options

SUFFIXES = (".npy", ".txt")


HELP = "Decompress labels, given the features and settings passed to encode."
EXAMPLE = "sklearn-mdl decode features.npy labels.mdl --out decoded.npy"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    _options.add_features(parser, "; labels in this file are ignored")
    _options.add(parser, "message", "a message written by encode", "MESSAGE", type=Path)
    _options.add_groups(parser, "; pass the same file as to encode")
    _options.add_output(parser, "LABELS", ".npy, or .txt with one label per line")
    _options.add_switcher(parser)


def run(options: argparse.Namespace) -> None:
    """Decode a message, and write its labels to a file."""
    inputs = options.features, options.message, options.groups
    _options.check_output(options.out, inputs)
    if options.out.suffix not in SUFFIXES:
        raise ValueError(
            f"--out must end in {' or '.join(SUFFIXES)}, got {str(options.out)!r}; "
            "for example, pass --out labels.npy"
        )
    switcher = _options.switcher_of(options)
    if not options.message.is_file():
        raise FileNotFoundError(
            f"MESSAGE must be a file, got {str(options.message)!r}; run encode first"
        )
    message = options.message.read_bytes()
    is_text = options.out.suffix == ".txt"
    if is_text:
        header = sklearn_mdl.switcher.LabelMessage.from_bytes(message).header
        for label in map(str, header["labels"]["classes"]):
            if label.splitlines() != [label]:
                raise ValueError(
                    f"Labels in .txt must be single lines, got {label!r}; pass --out "
                    "y.npy"
                )
    X = sklearn_mdl.datasets.load_features(options.features)
    y = sklearn_mdl.decode_labels(switcher, X, message, _options.groups_of(options))
    if is_text:
        text = "".join(f"{label}\n" for label in y.tolist())
        options.out.write_text(text, encoding="utf-8")
    else:  # decoded text has dtype object, which NumPy would pickle
        np.save(options.out, y.astype(str) if y.dtype == object else y)
    print(f"{len(y)} labels, {len(np.unique(y))} classes\nwrote {options.out}")
