"""Draw ``images/choosing.png`` from the results of ``python -m benchmarks choice``.

    python docs/make_choosing.py

The figure shows how often each criterion picks the better of two encoders, by the
number of labels. Points are means over datasets and draws of labels, with 90 %
intervals over draws.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullLocator, PercentFormatter, ScalarFormatter

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from benchmarks import _agreement as agreement  # noqa: E402
from benchmarks._choice_tables import Kept, summarise  # noqa: E402
from benchmarks.choice import KEPT  # noqa: E402

SHOWN = {
    "ranking": "sklearn_mdl",
    "logistic accuracy": "tuned linear probe",
    "neighbours accuracy": "tuned nearest neighbours",
    "LogME": "LogME",
}


def main() -> None:
    """Draw the figure."""
    kept = Kept.from_json(json.loads(KEPT.read_text())).with_ranking()
    labels = sorted({n for _, n in kept.accuracy})
    datasets = sorted({name for name, _ in kept.accuracy})
    figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for name, title in SHOWN.items():
        shares = [
            summarise(kept.scores[name], kept.accuracy, datasets, [n]).better.mean(1)
            for n in labels
        ]
        means = [values.mean() for values in shares]
        half_widths = [agreement.interval(values) for values in shares]
        is_ours = name == "ranking"
        style = {"lw": 2.5, "zorder": 3} if is_ours else {"lw": 1.2, "ls": "--"}
        axes.errorbar(
            labels, means, half_widths, marker="o", capsize=3, label=title, **style
        )
    axes.set(xscale="log", xlabel="labels", ylabel="picks the better of two encoders")
    axes.set_xticks(labels)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    path = DOCS / "images" / "choosing.png"
    figure.savefig(path, dpi=120, metadata={"Software": None})
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
