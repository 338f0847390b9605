"""Draw the pictures of ``first-ranking.md``.

    sklearn-mdl rank FEATURES --out RANKING
    python docs/make_first_ranking.py FEATURES RANKING

Cells are read from the results of the first command, which prints the tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

from sklearn_mdl import (
    CriticalDifferenceDisplay,
    PosteriorDisplay,
    RepresentationScorer,
)
from sklearn_mdl.datasets import load_representations
from sklearn_mdl.display import RankingHeatmapDisplay

IMAGES = Path(__file__).parent / "images"
EXAMPLE = "gtsrb", "mobilenetv1-025_sup-imagenet"  # of a posterior


def main() -> None:
    """Rank again from the cells that are kept, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features", type=Path)
    parser.add_argument("ranking", type=Path)
    options = parser.parse_args()
    scorer = RepresentationScorer(results=options.ranking, random_state=0)
    scorer.fit(load_representations(options.features).datasets)
    CriticalDifferenceDisplay.from_scorer(scorer)
    save("first-ranking.png")
    RankingHeatmapDisplay.from_scorer(scorer)
    save("first-ranking-saved.png")
    (cell,) = (c for c in scorer.cells_ if (c.dataset, c.encoder) == EXAMPLE)
    display = PosteriorDisplay.from_trace(cell.source.read(), cell.architectures)
    display.ax_.set_title("{}: readouts on {}".format(*EXAMPLE))
    save("gtsrb-posterior.png")


def save(name: str) -> None:
    """Write the figure drawn last."""
    # No dates and versions in the file: it changes when the picture does.
    plt.gcf().savefig(IMAGES / name, dpi=150, metadata={"Software": None})
    plt.close("all")
    print(f"wrote docs/images/{name}")


if __name__ == "__main__":
    main()
