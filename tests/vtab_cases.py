"""The paper's tables of codelengths and ranks on VTAB, for the tests of statistics.

Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
Switching, ICLR. ``data/vtab_codelengths.csv`` is printed to two decimals, which makes
ties that the authors' own numbers did not have.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.stats import rankdata

DATA = Path(__file__).parent / "data"

# The paper's MDL ranks; the encoders are those of the table named.
OBJECTIVES = {
    "ViT/B16 DINO": 1.89,
    "ResNet-50 BYOL": 2.53,
    "ViT/B16 MAE": 3.79,
    "ViT/B16 SUP": 4.16,
    "ResNet-50 SimCLR": 4.21,
    "ResNet-50 SUP": 4.42,
}
SIZES = {
    "ResNet-101 BYOL": 3.05,
    "ResNet-152 BYOL": 3.26,
    "ViT/L16 MAE": 3.74,
    "ResNet-50 BYOL": 4.05,
    "ViT/B16 SUP": 6.00,
    "ViT/B16 MAE": 6.21,
    "ResNet-50 SUP": 7.11,
    "ResNet-101 SUP": 7.21,
    "ResNet-152 SUP": 7.47,
    "ViT/L16 SUP": 9.11,
    "ViT/S16 SUP": 10.37,
    "ViT/S16 MAE": 10.42,
}
_BY_GROUP = {
    "ViT/B16 DINO": (1.57, 1.00, 2.63),
    "ResNet-50 BYOL": (2.71, 3.00, 2.13),
    "ViT/B16 MAE": (5.71, 3.25, 2.38),
    "ViT/B16 SUP": (2.86, 3.25, 5.75),
    "ResNet-50 SimCLR": (4.29, 5.75, 3.38),
    "ResNet-50 SUP": (3.86, 4.75, 4.75),
}
NATURAL, SPECIALIZED, STRUCTURED = slice(0, 7), slice(7, 11), slice(11, 19)

# Name of a table of ranks: the ranks printed, and the datasets ranked.
PUBLISHED = {
    "objectives": (OBJECTIVES, slice(None)),
    "sizes": (SIZES, slice(None)),
    "natural": ({name: r[0] for name, r in _BY_GROUP.items()}, NATURAL),
    "specialized": ({name: r[1] for name, r in _BY_GROUP.items()}, SPECIALIZED),
    "structured": ({name: r[2] for name, r in _BY_GROUP.items()}, STRUCTURED),
}


def read(name="vtab_codelengths.csv"):
    """Return the rows of a table by encoder: all cells but the encoder's own."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    table = csv.reader(line for line in lines if not line.startswith("#"))
    _, *rows = table
    return {f"{row[0]} {row[1]}": [float(cell) for cell in row[2:]] for row in rows}


def scores_of(encoders, datasets=slice(None)):
    """Codelengths per example in nats, of shape (n_datasets, n_encoders)."""
    rows = read()
    return np.array([rows[name][datasets] for name in encoders]).T


def ties_broken(scores, average_ranks):
    """Break the ties so that the ranks, now integers, have the given averages.

    An integer programme: each encoder of a tie takes one of the ranks that the tie
    covers, each rank is taken once, and the sums are those of the averages.
    """
    lowest = rankdata(scores, axis=1, method="min").astype(int)
    highest = rankdata(scores, axis=1, method="max").astype(int)
    n_datasets, n_encoders = scores.shape
    places = [
        (i, j, rank)
        for i, j in np.ndindex(scores.shape)
        for rank in range(lowest[i, j], highest[i, j] + 1)
    ]
    encoder_once = np.zeros((n_datasets * n_encoders, len(places)))
    rank_once = np.zeros((n_datasets * n_encoders, len(places)))
    sums = np.zeros((n_encoders, len(places)))
    for column, (i, j, rank) in enumerate(places):
        encoder_once[i * n_encoders + j, column] = 1
        rank_once[i * n_encoders + rank - 1, column] = 1
        sums[j, column] = rank
    targets = np.rint(np.asarray(average_ranks) * n_datasets)
    solution = milp(
        np.zeros(len(places)),
        integrality=1,
        bounds=(0, 1),
        constraints=[
            LinearConstraint(encoder_once, 1, 1),
            LinearConstraint(rank_once, 1, 1),
            LinearConstraint(sums, targets, targets),
        ],
    )
    assert solution.success, solution.message
    ranks = np.zeros(scores.shape)
    for (i, j, rank), taken in zip(places, np.rint(solution.x), strict=True):
        ranks[i, j] += taken * rank
    return ranks
