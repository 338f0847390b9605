"""Encoded labels: the size of the message, and a check that decoding is correct.

The labels of digits, wine, breast cancer and iris are encoded with the readouts "nets",
without a pool or a race, and then decoded. If you pass a folder of features, its
datasets are encoded too, with all encoders or with those that you name. Every run on
the same machine gives the same sizes.
"""

import math
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from benchmarks._data import NETS, feature_cells
from sklearn_mdl import (
    MDLReadoutSwitcher,
    decode_labels,
    encode_labels,
    uniform_codelength,
)
from sklearn_mdl.switcher import LabelMessage

LOADERS = {
    "digits": load_digits,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "iris": load_iris,
}


def timed(function, *arguments):
    """Return the result of a function, and its seconds."""
    start = time.perf_counter()
    return function(*arguments), time.perf_counter() - start


class Coding:
    """Sizes in bits, and seconds. A wrongly decoded label raises an error."""

    options = {
        "features": {
            "type": Path,
            "nargs": "?",
            "help": "folder of DATASET/ENCODER.npy and DATASET/labels.npy",
        },
        "encoders": {"nargs": "*", "help": "names of encoders (default: all)"},
    }
    param_names = ["cell"]
    unit = "bits and seconds"
    formats = {
        **{f"track_{name}": ".0f" for name in ("n", "c", "payload", "header")},
        "track_uniform": ".0f",
        "track_codelength": ".1f",
        **{f"track_{name}_seconds": ".1f" for name in ("fit", "encode", "decode")},
    }

    def prepare(self):
        self.cells = {name: load(return_X_y=True) for name, load in LOADERS.items()}
        if self.features is not None:
            self.cells |= feature_cells(self.features, encoders=self.encoders)

    @property
    def params(self):
        return list(self.cells)

    def setup(self, name):
        X, self.y = self.cells[name]
        self.switcher = MDLReadoutSwitcher(**NETS, shuffle=True, random_state=0)
        encoded, self.encoding = timed(encode_labels, self.switcher, X, self.y)
        labels, self.decoding = timed(decode_labels, self.switcher, X, encoded)
        np.testing.assert_array_equal(labels, self.y)
        self.message = LabelMessage.from_bytes(encoded)
        _, self.fitting = timed(self.switcher.fit, X, self.y)

    def track_n(self, name):
        return len(self.y)

    def track_c(self, name):
        return len(self.switcher.classes_)

    def track_uniform(self, name):
        nats = uniform_codelength(len(self.y), len(self.switcher.classes_))
        return nats / math.log(2)

    def track_codelength(self, name):
        return self.switcher.codelength_ / math.log(2)

    def track_payload(self, name):
        return self.message.payload_bits

    def track_header(self, name):
        return self.message.header_bits

    def track_fit_seconds(self, name):
        return self.fitting

    def track_encode_seconds(self, name):
        return self.encoding

    def track_decode_seconds(self, name):
        return self.decoding

    def report(self, table):
        bits, payload = (
            np.array([row[f"track_{name}"][0] for row in table.values()])
            for name in ("codelength", "payload")
        )
        worst = (np.abs(payload - bits) - 0.001 * bits).max()
        print(
            "All labels were decoded. Payloads differ from codelengths by at most "
            f"0.1 % + {max(0, worst):.1f} bits."
        )
