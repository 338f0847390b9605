"""Images and small networks for the tests of experts that look at images."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from sklearn_mdl import KNeighborsReadout, LinearReadout
from sklearn_mdl.encoders import TimmEncoder, TorchEncoder, image_rows
from sklearn_mdl.readouts import FineTunedReadout, ScratchReadout


class Net(nn.Module):
    """A small network with all that behaves otherwise in training."""

    def __init__(self, width=6, dropout=0.1):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(dropout)
        self.second = nn.Conv2d(4, width, 3, stride=2)

    def forward(self, x):
        x = self.dropout(torch.relu(self.norm(self.first(x))))
        return torch.relu(self.second(x)).flatten(1)


def seeded_net(seed=0, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Net(**options)


def encoder(seed=0, **options):
    return TorchEncoder(seeded_net(seed), mode="L", batch_size=16, **options)


def timm_encoder():
    return TimmEncoder(
        "test_resnet", pretrained=False, data_options={"input_size": (3, 16, 16)}
    )


FAST = {"batch_size": 16, "device": "cpu"}
LEARNS = {**FAST, "n_replay_streams": 1}


def pool():
    """One of every kind, in an order in which kinds are mixed."""
    one = encoder()
    return [
        FineTunedReadout(one, **LEARNS, ema_step_size=0.3, augmentation="crop-flip"),
        (one, LinearReadout(lr=0.01, n_replay_streams=2)),
        ScratchReadout(Net, **LEARNS, optimizer="adamw", lr=0.003),
        KNeighborsReadout(5),
        (encoder(seed=1), LinearReadout(scaling="whiten")),
        FineTunedReadout(one, **LEARNS, calibration=False),
        (one, KNeighborsReadout(5)),
        ScratchReadout(Net, **LEARNS, model_options={"width": 3}, random_state=7),
    ]


@cache
def digits(n=90):
    """Rows of pixels of 8 by 8 grey images, and labels."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))[:n]
    return image_rows(images[order].reshape(-1, 8, 8) / 16, mode="L"), labels[order]
