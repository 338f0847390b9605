"""``sklearn-mdl encode``: compress labels, given the features."""

from __future__ import annotations

import argparse
import math

import sklearn_mdl
from sklearn_mdl.cli import _options

HELP = "Compress labels for a receiver who has the same features."
EXAMPLE = "sklearn-mdl encode features.npy labels.npy --out labels.mdl"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    _options.add_features(parser)
    default = " (default: FEATURES, if it also contains labels)"
    _options.add_labels(parser, default, nargs="?")
    _options.add_groups(parser, "; the receiver needs the same file")
    _options.add_output(parser, "MESSAGE", "where to write the message")
    _options.add_switcher(parser)


def run(options: argparse.Namespace) -> None:
    """Compress labels into a message, and print its size and the codelength."""
    inputs = options.features, options.labels, options.groups
    _options.check_output(options.out, inputs, sklearn_mdl.switcher.is_message)
    switcher = _options.switcher_of(options)
    if options.labels is None and options.features.suffix == ".npy":
        raise ValueError("LABELS must be given for a .npy file, got none; add y.npy")
    X, y = _options.load_rows(options.features, options.labels or options.features)
    groups = _options.groups_of(options)
    message, fitted = sklearn_mdl.switcher.encode(switcher, X, y, groups)
    options.out.write_bytes(message.to_bytes())
    print(*_lines(message, fitted.codelength_), f"wrote {options.out}", sep="\n")


def _lines(message: sklearn_mdl.switcher.LabelMessage, codelength: float) -> list[str]:
    features, labels = message.header["features"], message.header["labels"]
    n, n_classes = features["n_samples"], len(labels["classes"])
    bits = codelength / math.log(2)
    uniform = sklearn_mdl.uniform_codelength(n, n_classes) / math.log(2)
    return [
        f"{n} examples, {features['n_features']} features, {n_classes} classes",
        f"codelength    {bits:12.1f} bits  ({codelength:.1f} nats)",
        f"payload       {message.payload_bits:12d} bits  "
        f"({message.payload_bits - bits:+.1f})",
        f"header        {message.header_bits:12d} bits  (classes, checksums and other "
        "facts for decoding)",
        f"uniform code  {uniform:12.1f} bits",
    ]
