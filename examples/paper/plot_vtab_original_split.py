"""
Codelengths on the original and on reshuffled splits
====================================================

In some VTAB tasks, the train and test parts have different distributions. So the paper
merges both parts and splits them at random, and then codes the labels of the new train
part. Its appendix also has a table of codelengths on the original train parts, after
the figure on distribution shift. This example reads both tables from ``tests/data`` and
trains nothing.

Result: on six tasks (Pets, PatchCamelyon, Retinopathy, DMLab, KittiDistance and
SmallNORBElevation) all six codes are shorter on the original train part. On these
tasks, the original train part is easier than a mixture of both parts. On Caltech101,
Cifar100, DTD and SVHN, five of the six codes are longer. A shift affects all encoders
in a similar way, so their ranking does not change, apart from two encoders that tie on
the reshuffled tasks.
"""

# %%
# Read both tables: one row per encoder, one column per task, in nats per example.
import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_mdl.ranking import average_ranks

here = Path(__file__).parents[2] / "tests" / "data"


def table(name, n_notes):
    """Read the codelengths of each encoder, skipping columns with notes."""
    with (here / name).open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(line for line in file if not line.startswith("#"))
    start = 2 + n_notes
    return header[start:], {
        f"{row[0]} {row[1]}": np.array(row[start:], dtype=float) for row in rows
    }


tasks, reshuffled = table("vtab_codelengths.csv", 0)
same_tasks, original = table("vtab_codelengths_original_split.csv", 2)
assert tasks == same_tasks
names = list(original)

# %%
# Print the difference on the original train part. Both tables are rounded to 0.01 nats,
# which is a large error for short codes: 7 % of 0.14 nats.
before = np.array([reshuffled[name] for name in names])
after = np.array([original[name] for name in names])
change = 100 * (after / before - 1)
print("original minus reshuffled, nats per example, mean over the encoders")
print(f"{'':22s}{'difference':>10s}  shorter  longer")
for task, column in zip(tasks, (after - before).T, strict=True):
    shorter, longer = (column < -0.005).sum(), (column > 0.005).sum()
    print(f"{task:22s}{column.mean():+10.3f}{shorter:9d}{longer:8d}")

# %%
# Compare average ranks from both tables.
print(f"\n{'average rank':18s}  reshuffled  original")
ranks = np.array([average_ranks(values.T) for values in (before, after)])
for name, (mixed, own) in zip(names, ranks.T, strict=True):
    print(f"{name:18s}{mixed:12.2f}{own:10.2f}")

# %%
# As in the paper's table, blue means that a code is longer on the original part, and
# red that it is shorter.
figure, ax = plt.subplots(figsize=(9.0, 3.6), layout="constrained")
largest = np.abs(change).max()
image = ax.imshow(change, cmap="RdBu", vmin=-largest, vmax=largest, aspect="auto")
ax.set_xticks(range(len(tasks)), tasks, rotation=45, ha="right")
ax.set_yticks(range(len(names)), names)
for (i, j), value in np.ndenumerate(after - before):
    if abs(value) > 0.005:
        shade = "white" if abs(change[i, j]) > 0.6 * largest else "black"
        ax.text(j, i, f"{value:+.2f}", ha="center", va="center", size=6, color=shade)
figure.colorbar(image, label="longer on the original part, %")
ax.set_title("numbers in the cells: nats per example")
plt.show()
