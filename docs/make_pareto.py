"""Draw ``images/pareto.png`` from the saved results of ``python -m benchmarks pareto``.

    python docs/make_pareto.py

Every long stream has its own panel. All short cells share one panel, with totals of the
contenders that were run on every short cell. The line is the Pareto front. Hollow
points are not on the front.
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

LONG = 10_000  # smallest number of rows of a stream with its own panel
Points = dict[str, tuple[float, float]]


def panels() -> dict[str, Points]:
    """Return the total nats and CPU seconds of each contender, keyed by panel title."""
    results: dict[tuple[int, str], dict[str, dict[str, tuple[float, float]]]] = {}
    for line in RESULTS.read_text("utf-8").splitlines():
        row = json.loads(line)
        cell, n_rows, name = row["key"]
        pair = row["found"]["nats"], row["found"]["seconds"]
        encoder = re.split("[-_]", cell.rpartition("/")[2])[0]
        panel = n_rows, encoder if n_rows >= LONG else ""
        results.setdefault(panel, {}).setdefault(name, {})[cell] = pair
    points: dict[str, Points] = {}
    for (n_rows, encoder), contenders in sorted(results.items()):
        n_cells = max(map(len, contenders.values()))
        complete = {n: c for n, c in contenders.items() if len(c) == n_cells}
        points[f"{encoder or f'{n_cells} cells'}, {n_rows:,} rows"] = {
            name: (
                sum(nats for nats, _ in complete[name].values()),
                sum(seconds for _, seconds in complete[name].values()),
            )
            for name in CONTENDERS
            if name in complete
        }
    return points


def main() -> None:
    """Print the table and draw the figure."""
    by_title = panels()
    figure, axes = plt.subplots(
        1, len(by_title), figsize=(4.4 * len(by_title) + 2, 3.8), squeeze=False
    )
    colours = dict(zip(CONTENDERS, plt.colormaps["tab10"].colors, strict=True))
    for axis, (title, points) in zip(axes[0], by_title.items(), strict=True):
        best = sorted(front(points), key=lambda name: points[name][1])
        print(f"\n{title}")
        for name, (nats, seconds) in sorted(points.items(), key=lambda p: p[1][1]):
            mark = "  on the front" if name in best else ""
            print(f"{name:24s}{nats:10.1f} nats{seconds:9.1f} s{mark}")
            fill = colours[name] if name in best else "white"
            axis.plot(seconds, nats, "o", c=colours[name], mfc=fill, label=name)
        line = [(points[name][1], points[name][0]) for name in best]
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
