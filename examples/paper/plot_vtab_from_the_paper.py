"""
Critical differences of the paper's encoders
============================================

The paper ranks encoders on the 19 VTAB datasets by their codelengths. Two average ranks
differ significantly if their difference exceeds a critical value. This example reads
the paper's table of codelengths from ``tests/data`` and trains nothing.
"""

# %%
# Read the table: one row per encoder and one column per dataset, in nats per example.
import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_mdl import CriticalDifferenceDisplay
from sklearn_mdl.ranking import (
    average_ranks,
    friedman_test,
    nemenyi_critical_difference,
    pairwise_wilcoxon,
    rank_intervals,
)

path = Path(__file__).parents[2] / "tests" / "data" / "vtab_codelengths.csv"
with path.open(newline="", encoding="utf-8") as file:
    header, *rows = csv.reader(line for line in file if not line.startswith("#"))
codelengths = {f"{row[0]} {row[1]}": np.array(row[2:], dtype=float) for row in rows}

objectives = [
    *("ViT/B16 DINO", "ViT/B16 MAE", "ViT/B16 SUP"),
    *("ResNet-50 BYOL", "ResNet-50 SimCLR", "ResNet-50 SUP"),
]
others = {"ViT/B16 DINO", "ResNet-50 SimCLR"}
tables = {
    "training objectives": objectives,
    "model sizes": [name for name in codelengths if name not in others],
}

# %%
# Friedman's test shows whether the encoders differ at all, and the critical difference
# shows which pairs differ. The paper prints 1.894 for objectives and 3.65 for sizes,
# both with the constant for 14 encoders. Here the constant is for the number of
# encoders compared.
for title, names in tables.items():
    scores = np.transpose([codelengths[name] for name in names])
    n_datasets, n_encoders = scores.shape
    ranks = average_ranks(scores)
    threshold = nemenyi_critical_difference(n_encoders, n_datasets, alpha=0.1)
    test = friedman_test(scores)
    print(
        f"{title}: F = {test.f_statistic:.2f} (p = {test.f_p_value:.1e}), "
        f"critical difference {threshold:.3f}"
    )
    display = CriticalDifferenceDisplay(ranks, names, threshold, alpha=0.1).plot()
    display.figure_.suptitle(f"{title}, {n_datasets} datasets")

# %%
# Rank intervals show how much average ranks vary when the datasets are resampled.
heights = [len(names) for names in tables.values()]
figure, panels = plt.subplots(
    2, figsize=(6.4, 6.0), layout="constrained", height_ratios=heights
)
for ax, (title, names) in zip(panels, tables.items(), strict=True):
    scores = np.transpose([codelengths[name] for name in names])
    intervals = rank_intervals(scores, level=0.9)
    order = np.argsort(-intervals.average_ranks)
    ends = np.stack([intervals.lower, intervals.upper])[:, order]
    at = intervals.average_ranks[order]
    ax.errorbar(at, np.arange(len(names)), xerr=abs(ends - at), fmt="o", capsize=3)
    ax.set_yticks(np.arange(len(names)), [names[i] for i in order])
    ax.set(title=title, xlim=(0.8, len(names) + 0.2), ylim=(-0.7, len(names) - 0.3))
    ax.set_xticks(np.arange(1, len(names) + 1))
    ax.grid(axis="x", alpha=0.4)
panels[-1].set_xlabel("average rank, with the middle 90 % of 1,000 resamples")

# %%
# Wilcoxon's signed-rank test uses the log ratios of the codelengths of two encoders.
# Other encoders only matter for Holm's correction, which is for all pairs together.
# DINO and MAE are not among the pairs printed here, although the difference between
# their average ranks is significant.
scores = np.transpose([codelengths[name] for name in objectives])
result = pairwise_wilcoxon(scores)
print("\nPairs that differ (Wilcoxon, Holm-adjusted p < 0.1):")
for (i, j), p_value in zip(result.pairs, result.adjusted_p_values, strict=True):
    if p_value < 0.1:
        print(f"  {objectives[i]:16s} - {objectives[j]:16s} p = {p_value:.4f}")
plt.show()
