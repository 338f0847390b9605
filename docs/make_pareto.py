"""Draw ``images/pareto.png`` from what ``python -m benchmarks pareto`` has kept.

    python docs/make_pareto.py

One panel for all short cells, contenders in sums over those that all of them have, and
one for each long stream; the line is the lower left edge, and hollow points are
dominated.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from benchmarks.pareto import CONTENDERS, RESULTS, front  # noqa: E402

LONG = 10_000  # rows of a stream that has a panel of its own
Points = dict[str, tuple[float, float]]


def panels() -> dict[str, Points]:
    """Nats and seconds of contenders in sum, by the title of a panel."""
    found: dict[tuple[int, str], dict[str, dict[str, tuple[float, float]]]] = {}
    for line in RESULTS.read_text("utf-8").splitlines():
        row = json.loads(line)
        cell, n_rows, name = row["key"]
        pair = row["found"]["nats"], row["found"]["seconds"]
        encoder = re.split("[-_]", cell.rpartition("/")[2])[0]
        panel = n_rows, encoder if n_rows >= LONG else ""
        found.setdefault(panel, {}).setdefault(name, {})[cell] = pair
    titles: dict[str, Points] = {}
    for (n_rows, encoder), contenders in sorted(found.items()):
        most = max(map(len, contenders.values()))
        whole = {n: c for n, c in contenders.items() if len(c) == most}
        titles[f"{encoder or f'{most} cells'}, {n_rows:,} rows"] = {
            name: (
                sum(nats for nats, _ in whole[name].values()),
                sum(seconds for _, seconds in whole[name].values()),
            )
            for name in CONTENDERS
            if name in whole
        }
    return titles


def main() -> None:
    """Print the table and draw the figure."""
    titles = panels()
    figure, axes = plt.subplots(
        1, len(titles), figsize=(4.4 * len(titles) + 2, 3.8), squeeze=False
    )
    colours = dict(zip(CONTENDERS, plt.colormaps["tab10"].colors, strict=True))
    for axis, (title, points) in zip(axes[0], titles.items(), strict=True):
        edge = sorted(front(points), key=lambda name: points[name][1])
        print(f"\n{title}")
        for name, (nats, seconds) in sorted(points.items(), key=lambda p: p[1][1]):
            mark = "  on the edge" if name in edge else ""
            print(f"{name:24s}{nats:10.1f} nats{seconds:9.1f} s{mark}")
            inside = colours[name] if name in edge else "white"
            axis.plot(seconds, nats, "o", c=colours[name], mfc=inside, label=name)
        line = [(points[name][1], points[name][0]) for name in edge]
        axis.plot(*zip(*line, strict=True), "-", color="0.7", lw=0.8, zorder=1)
        axis.set(xscale="log", title=title, xlabel="CPU seconds", ylabel="nats")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    axes[0, -1].legend(bbox_to_anchor=(1, 1), loc="upper left", frameon=False)
    figure.tight_layout()
    figure.savefig(DOCS / "images/pareto.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
