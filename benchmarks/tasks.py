"""What one task saves the next: frozen features, and a network that is trained."""

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
    "--rows": {"type": int, "default": 300, "help": "of each task (default: 300)"},
    "--orders": {"type": int, "default": 3, "help": "of the rows (default: 3)"},
    "--figure": {"type": Path, "help": "PNG to write"},
}


class _Tasks:
    """A table of all pairs, the matrix, and its picture."""

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
    """Features of one encoder on several datasets; kernels, separate heads."""

    options = {
        **OPTIONS,
        "--encoder": {"default": "mobilenetv1-025_sup-imagenet", "help": "of features"},
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
    """Images; MobileNetV2 0.35 at 64 pixels, whose trunk is trained."""

    options = OPTIONS

    def report(self, table):
        tasks = {}
        for name, pixels, labels in images_of(self.data / "images"):
            halves = {name: np.ones(len(labels), dtype=bool)}
            if name == "mnist":
                halves = {"mnist 0-4": labels < 5, "mnist 5-9": labels >= 5}
            for part, own in halves.items():
                X = image_rows(pixels[own][: self.rows], 32)
                tasks[part] = X, labels[own][: self.rows]
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
        tuned = FineTunedReadout(
            encoder, lr=0.01, n_replay_streams=2, batch_size=16, random_state=0
        )
        self.print_pairs(tuned, tasks)
