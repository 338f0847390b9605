"""Nats that one task saves on the next, with frozen features or fine-tuning."""

from pathlib import Path

import numpy as np

from benchmarks._data import feature_cells
from benchmarks.pretrained import images_of
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.encoders import TimmEncoder, image_rows
from sklearn_mdl.model_selection import TaskSequence
from sklearn_mdl.readouts import FineTunedReadout

OPTIONS = {
    "data": {"type": Path, "help": "folder of features, images and weights"},
    "--rows": {"type": int, "default": 300, "help": "rows per task (300)"},
    "--orders": {"type": int, "default": 3, "help": "number of row orders (3)"},
    "--figure": {"type": Path, "help": "PNG to write"},
}


class _Tasks:
    """Codelengths of all pairs of tasks, in a table and a figure."""

    def print_pairs(self, switcher, tasks):
        sequence = TaskSequence(switcher, n_orders=self.orders, random_state=0)
        sequence.fit(tasks)
        print(sequence.to_frame().round(1).to_string())
        print("sequence:", ", ".join(sequence.sequence_))
        print("alone   ", *sequence.codelengths_.mean(0).round(1))
        print("in turn ", *sequence.sequence_codelengths_.mean(0).round(1))
        if self.figure:
            sequence.plot().figure_.savefig(
                self.figure, dpi=100, metadata={"Software": None}
            )


class Frozen(_Tasks):
    """Frozen features of one encoder on several datasets, with "closed-form"."""

    options = {
        **OPTIONS,
        "--encoder": {
            "default": "mobilenetv1-025_sup-imagenet",
            "help": "name of the encoder (%(default)s)",
        },
        "--datasets": {"nargs": "*", "default": ["mnist", "gtsrb", "cifar10"]},
    }

    def report(self, table):
        cells = feature_cells(self.data / "features", self.datasets, [self.encoder])
        tasks = {
            name: tuple(a[: self.rows] for a in cells[f"{name}/{self.encoder}"])
            for name in self.datasets
        }
        self.print_pairs(MDLReadoutSwitcher("closed-form", random_state=0), tasks)


class FineTuned(_Tasks):
    """A MobileNetV2 (0.35), fine-tuned on images enlarged to 64 by 64 pixels.

    ``--choose`` compares learning rates by the codelengths of two other tasks, vehicles
    and animals of cifar10, on images that the reported tasks do not use.
    """

    options = {
        **OPTIONS,
        "--lr": {"type": float, "default": 0.003, "help": "learning rate"},
        "--choose": {
            "nargs": "*",
            "type": float,
            "default": [],
            "help": "learning rates to compare, instead of transfer",
        },
    }

    def report(self, table):
        data = {
            name: (pixels, labels)
            for name, pixels, labels in images_of(self.data / "images", 4000)
        }
        if self.choose:
            self.compare(*data["cifar10"])
            return
        digits = data["mnist"][1]
        parts = {
            "cifar10": ("cifar10", slice(None)),
            "pneumonia": ("pneumonia", slice(None)),
            "mnist 0-4": ("mnist", digits < 5),
            "mnist 5-9": ("mnist", digits >= 5),
        }
        tasks = {}
        for name, (source, own) in parts.items():
            pixels, labels = data[source]
            X = image_rows(pixels[own][: self.rows], 32)
            tasks[name] = X, labels[own][: self.rows]
        self.print_pairs(self.tuned(self.lr), tasks)

    def compare(self, pixels, labels):
        """Print codelengths of vehicles and of animals at several learning rates."""
        pixels, labels = pixels[2000:], labels[2000:]
        vehicles = np.isin(labels, [0, 1, 8, 9])
        for own, name in ((vehicles, "vehicles"), (~vehicles, "animals")):
            X, y = image_rows(pixels[own][: self.rows], 32), labels[own][: self.rows]
            for lr in self.choose:
                nats = [
                    self.tuned(lr).fit(X[order], y[order]).codelength_
                    for seed in range(self.orders)
                    for order in [np.random.default_rng(seed).permutation(len(y))]
                ]
                print(f"{name}, lr {lr}: {np.mean(nats):.1f} nats")

    def tuned(self, lr):
        """Return a readout that fine-tunes the network at a learning rate."""
        encoder = TimmEncoder(
            "mobilenetv2_035",
            pretrained=False,
            checkpoint_path=self.data / "weights" / "mobilenetv2_035.safetensors",
            model_options={"pad_type": "same", "bn_eps": 1e-3},
            data_options={
                "input_size": (3, 64, 64),
                "mean": (0.5,) * 3,
                "std": (0.5,) * 3,
            },
        )
        return FineTunedReadout(
            encoder, lr=lr, n_replay_streams=2, batch_size=16, random_state=0
        )
