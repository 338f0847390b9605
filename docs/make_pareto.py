"""Draw ``images/pareto.png`` from the saved results of ``python -m benchmarks pareto``.

    python docs/make_pareto.py

Each long stream has its own panel. Short cells with the same number of rows share a
panel. It shows totals over these cells, for each contender that was run on all of them.
The line is the Pareto front. Hollow points are not on the front.
"""

from __future__ import annotations

import json
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
    """Return each panel's points (nats, CPU seconds), keyed by title and by contender.

    Contenders that were not run on all cells of a panel are left out.
    """
    results: dict[tuple[int, str], dict[str, dict[str, tuple[float, float]]]] = {}
    for line in RESULTS.read_text("utf-8").splitlines():
        row = json.loads(line)
        cell, n_rows, name = row["key"]
        pair = row["found"]["nats"], row["found"]["seconds"]
        panel = n_rows, cell if n_rows >= LONG else ""
        results.setdefault(panel, {}).setdefault(name, {})[cell] = pair
    points: dict[str, Points] = {}
    for (n_rows, stream), contenders in sorted(results.items()):
        n_cells = max(map(len, contenders.values()))
        complete = {n: c for n, c in contenders.items() if len(c) == n_cells}
        points[f"{stream or f'{n_cells} cells'}\n{n_rows:,} rows"] = {
            name: (
                sum(nats for nats, _ in complete[name].values()),
                sum(seconds for _, seconds in complete[name].values()),
            )
            for name in CONTENDERS
            if name in complete
        }
    return points


def main() -> None:
    """Print a table for each panel and draw the figure."""
    by_title = panels()
    figure, axes = plt.subplots(
        1, len(by_title), figsize=(4.4 * len(by_title) + 2, 3.8), squeeze=False
    )
    colours = dict(zip(CONTENDERS, plt.colormaps["tab10"].colors, strict=True))
    for axis, (title, points) in zip(axes[0], by_title.items(), strict=True):
        best = sorted(front(points), key=lambda name: points[name][1])
        print("\n" + title.replace("\n", ", "))
        for name, (nats, seconds) in sorted(points.items(), key=lambda p: p[1][1]):
            mark = "  on the front" if name in best else ""
            print(f"{name:24s}{nats:10.1f} nats{seconds:9.1f} s{mark}")
            fill = colours[name] if name in best else "white"
            axis.plot(seconds, nats, "o", c=colours[name], mfc=fill)
        line = [(points[name][1], points[name][0]) for name in best]
        axis.plot(*zip(*line, strict=True), "-", color="0.7", lw=0.8, zorder=1)
        axis.set(xscale="log", xlabel="CPU seconds", ylabel="nats")
        axis.set_title(title, fontsize="medium")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    shown = [name for name in CONTENDERS if any(name in p for p in by_title.values())]
    handles = [plt.Line2D([], [], c=colours[n], marker="o", ls="") for n in shown]
    place = {"bbox_to_anchor": (1, 1), "loc": "upper left", "frameon": False}
    axes[0, -1].legend(handles, shown, **place)
    figure.tight_layout()
    figure.savefig(DOCS / "images/pareto.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
