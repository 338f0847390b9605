"""Labels as messages: promised bits, bits sent, and whether they come back.

    python benchmarks/bench_coding.py
    python benchmarks/bench_coding.py FEATURES_DIR resnet56_sup-cifar10

For digits, wine, breast cancer and iris it encodes the labels with the default board,
decodes them, and prints the codelength beside the size of payload and header. With a
directory of features it does so for its datasets, too, by every encoder or by those
that are named. Sizes are the same at every run on one machine.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from sklearn_mdl import (
    LabelMessage,
    MDLReadoutSwitcher,
    decode_labels,
    encode_labels,
    load_feature_directory,
    uniform_codelength,
)

LOADERS = {
    "digits": load_digits,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "iris": load_iris,
}
TITLES = (
    *("N", "C", "uniform", "codelength", "payload", "header"),
    *("fit s", "encode s", "decode s"),
)


def cells(folder, chosen):
    """Yield the name, features and labels of every cell."""
    for name, load in LOADERS.items():
        yield name, *load(return_X_y=True)
    if folder is not None:
        for dataset, (encoders, y) in load_feature_directory(folder).items():
            for encoder in chosen or encoders:
                yield f"{dataset}/{encoder}", encoders[encoder], np.asarray(y)


def timed(function, *arguments):
    start = time.perf_counter()
    return function(*arguments), time.perf_counter() - start


def row_of(X, y):
    """Sizes in bits and seconds of one cell; raises if a label does not come back."""
    switcher = MDLReadoutSwitcher(shuffle=True, random_state=0)
    message, encoding = timed(encode_labels, switcher, X, y)
    found, decoding = timed(decode_labels, switcher, X, message)
    np.testing.assert_array_equal(found, y)
    read = LabelMessage.from_bytes(message)
    _, fitting = timed(switcher.fit, X, y)
    n_classes = len(switcher.classes_)
    return [
        len(y),
        n_classes,
        round(uniform_codelength(len(y), n_classes) / math.log(2)),
        switcher.codelength_ / math.log(2),
        read.payload_bits,
        read.header_bits,
        fitting,
        encoding,
        decoding,
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("features", type=Path, nargs="?")
    parser.add_argument("encoders", nargs="*")
    options = parser.parse_args()
    print(" " * 40 + "".join(title.rjust(12) for title in TITLES))
    worst = 0.0
    for name, X, y in cells(options.features, options.encoders):
        row = row_of(X, y)
        shown = (f"{v:12.1f}" if isinstance(v, float) else f"{v:12d}" for v in row)
        print(f"{name:40}" + "".join(shown), flush=True)
        bits, payload = row[3:5]
        worst = max(worst, abs(payload - bits) - 0.001 * bits)
    print(f"\nbits; all labels came back; payload within 0.1 % + {worst:.1f} bits")


if __name__ == "__main__":
    main()
