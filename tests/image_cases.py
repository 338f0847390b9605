"""Images and modules for the tests of what encodes images."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

SHARED = Path(__file__).parents[2] / "shared" / "data"


def pixels(n=7, height=40, width=52, seed=0):
    """Images that are not noise: gradients, and a box somewhere."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    images = np.empty((n, height, width, 3), np.uint8)
    for image in images:
        slopes = rng.uniform(0, 2, (3, 2))
        image[:] = np.stack([a * rows + b * columns for a, b in slopes], axis=-1)
        y, x = rng.integers(0, height - 9), rng.integers(0, width - 9)
        image[y : y + 9, x : x + 9] = rng.integers(0, 256, 3)
    return images


def network(seed=0):
    """Two convolutions; the second rectifier writes over what came before it."""
    generator = torch.Generator().manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(3, 4, 5, stride=3),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
    )
    for parameter in module.parameters():
        nn.init.normal_(parameter, generator=generator)
    return module


class Tokens(nn.Module):
    """Gives tokens: the class token first, then one for each patch."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 5, 8, 8)
        nn.init.ones_(self.patches.weight)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        return torch.cat([-torch.ones_like(tokens[:, :1]), tokens], dim=1)
