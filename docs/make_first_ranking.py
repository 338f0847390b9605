"""Draw the pictures of ``first-ranking.md``.

    sklearn-mdl rank FEATURES --out RANKING
    python docs/make_first_ranking.py FEATURES RANKING

The first command prints the tables and saves the cells that this script reads.
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
EXAMPLE = "gtsrb", "mobilenetv1-025_sup-imagenet"  # cell whose posterior is drawn


def main() -> None:
    """Rank again from the saved cells, and draw the pictures."""
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
    """Save the current figure and close it."""
    # Omit dates and versions, so that equal pictures give equal files.
    plt.gcf().savefig(IMAGES / name, dpi=150, metadata={"Software": None})
    plt.close("all")
    print(f"wrote docs/images/{name}")


if __name__ == "__main__":
    main()
