"""Labels to bytes and back at the door."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl.cli.boards import board_of
from sklearn_mdl.cli.files import check_output, load_rows
from sklearn_mdl.cli.second_stage import parse_prior
from sklearn_mdl.codelength import uniform_codelength
from sklearn_mdl.coding import LabelMessage, decode_labels
from sklearn_mdl.coding import encode as encode_with_codelength
from sklearn_mdl.datasets import load_features
from sklearn_mdl.switcher import MDLReadoutSwitcher

SUFFIXES = (".npy", ".txt")


def encode(options: argparse.Namespace) -> None:
    """Write labels as a message, and print its size beside the codelength."""
    check_output(options.out)
    switcher = _switcher(options)
    X, y = load_rows(options.features, options.labels or options.features)
    message, fitted = encode_with_codelength(switcher, X, y)
    options.out.write_bytes(message.to_bytes())
    for line in _lines(message, fitted.codelength_):
        print(line)
    print(f"wrote {options.out}")


def decode(options: argparse.Namespace) -> None:
    """Write the labels of a message."""
    check_output(options.out)
    if options.out.suffix not in SUFFIXES:
        raise ValueError(
            f"Labels must be written to a file that ends in {' or '.join(SUFFIXES)}, "
            f"got {str(options.out)!r}; choose one of these"
        )
    switcher = _switcher(options)
    message = _message_in(options.message)
    if options.out.suffix == ".txt":
        _check_lines(LabelMessage.from_bytes(message).header["labels"]["classes"])
    y = decode_labels(switcher, load_features(options.features), message)
    if options.out.suffix == ".txt":
        text = "".join(f"{label}\n" for label in y.tolist())
        options.out.write_text(text, encoding="utf-8")
    else:  # text comes as objects, which would be pickled
        np.save(options.out, y.astype(str) if y.dtype == object else y)
    print(f"{len(y)} labels, {len(np.unique(y))} classes\nwrote {options.out}")


def _switcher(options: argparse.Namespace) -> MDLReadoutSwitcher:
    return MDLReadoutSwitcher(
        board_of(options),
        switching=parse_prior(options.switching),
        shuffle=not options.keep_order,
        random_state=options.seed,
        verbose=1,
    )


def _message_in(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(
            f"A message must be in a file that is there, got {str(path)!r}; check the "
            "path"
        )
    return path.read_bytes()


def _check_lines(classes: list[Any]) -> None:
    for label in map(str, classes):
        if label.splitlines() != [label]:
            raise ValueError(
                f"Labels must be of one line each to be written as text, got {label!r};"
                " write them as .npy"
            )


def _lines(message: LabelMessage, codelength: float) -> list[str]:
    features, labels = message.header["features"], message.header["labels"]
    n, n_classes = features["n_samples"], len(labels["classes"])
    bits = codelength / math.log(2)
    uniform = uniform_codelength(n, n_classes) / math.log(2)
    return [
        f"{n} examples, {features['n_features']} features, {n_classes} classes",
        f"codelength    {bits:12.1f} bits  ({codelength:.1f} nats)",
        f"payload       {message.payload_bits:12d} bits  "
        f"({message.payload_bits - bits:+.1f})",
        f"header        {message.header_bits:12d} bits  (classes, checksums, and what "
        "decoding depends on)",
        f"uniform code  {uniform:12.1f} bits",
    ]
