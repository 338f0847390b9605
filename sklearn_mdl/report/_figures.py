"""A fitted ranking as figures in files."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.display import (
    CodelengthDisplay,
    CostDisplay,
    CriticalDifferenceDisplay,
    Display,
    PosteriorDisplay,
    RankDisplay,
    RankingHeatmapDisplay,
    encoder_styles,
)
from sklearn_mdl.model_selection import (
    Cell,
    RankStatistics,
    RepresentationScorer,
    file_stems,
    has_tests,
)

DPI = 150
COSTS = {"seconds": "seconds of a cell", "features": "width of features"}
SQUASHED = 5  # times the median regret: curves beyond press the others flat


class Figure(NamedTuple):
    """A figure in a file.

    Attributes
    ----------
    path : Path
        Of a PNG file.
    text : str
        A description for readers who do not see it.
    dataset : str or None
        The dataset that it is about; None is all.
    group : str or None
        The group of datasets that it is about.
    """

    path: Path
    text: str
    dataset: str | None = None
    group: str | None = None

    def source(self) -> str:
        """Return the file as a URL that holds it."""
        data = base64.b64encode(self.path.read_bytes()).decode()
        return f"data:image/png;base64,{data}"

    def width(self) -> int:
        """Return the width on a page in pixels, by the header of the file."""
        return int.from_bytes(self.path.read_bytes()[16:20], "big") * 96 // DPI


Plan = Iterator[tuple[Figure, Callable[[], Display]]]


def can_draw() -> bool:
    """Return whether matplotlib, of the extra ``plot``, is installed."""
    return find_spec("matplotlib") is not None


def draw(scorer: RepresentationScorer, folder: Path) -> list[Figure]:
    """Draw all figures of a ranking, but for those whose traces are gone."""
    import matplotlib.pyplot as plt

    figures, lost = [], []
    for figure, show in _plan(scorer, folder):
        try:
            display = show()
        except FileNotFoundError:  # all other numbers are in memory
            lost.append(figure.path.name)
            continue
        display.figure_.savefig(figure.path, dpi=DPI, bbox_inches="tight")
        plt.close(display.figure_)
        figures.append(figure)
    if lost:
        warn_caller(
            "Figures of single labels need the traces of their cells in results, but "
            f"these are gone, so that {', '.join(lost)} are left out; fit again"
        )
    return figures


def _plan(scorer: RepresentationScorer, folder: Path) -> Plan:
    styles = encoder_styles(scorer)
    yield from _ranks(scorer, folder, "", styles)
    text = "Nats per example saved against the uniform code, encoders by datasets"
    show = partial(RankingHeatmapDisplay.from_scorer, scorer)
    yield Figure(folder / "saved.png", text), show
    text = "The readout that every encoder prefers on every dataset"
    show = partial(RankingHeatmapDisplay.from_scorer, scorer, kind="preferred-readout")
    yield Figure(folder / "preferred_readouts.png", text), show
    if len(scorer.encoder_names_) > 1:
        text = "Average ranks if the datasets had ended after so many labels"
        by_size = partial(RankDisplay.from_scorer, scorer, kind="by-size")
        yield Figure(folder / "ranks_by_size.png", text), by_size
        for cost in ("seconds", "features"):
            text = f"Nats per example against {COSTS[cost]}, a point for each encoder"
            by_cost = partial(CostDisplay.from_scorer, scorer, cost=cost)
            yield Figure(folder / f"nats_by_{cost}.png", text), by_cost
    for stem, name in zip(file_stems(scorer.groups_), scorer.groups_, strict=True):
        group = scorer.groups_[name]
        yield from _ranks(group, folder, f"group-{stem}-", styles, name)
    stems = file_stems(scorer.dataset_names_)
    for d, (stem, name) in enumerate(zip(stems, scorer.dataset_names_, strict=True)):
        cells = [c for c in scorer.cells_ if c.dataset == name and c.order == 0]
        best = cells[int(np.argmin(scorer.codelengths_[d]))]
        text = f"Regret of each encoder to the best one on {name}"
        path = folder / f"{stem}-codelength.png"
        show_regrets = partial(_regrets, cells, best, styles)
        yield Figure(path, text, dataset=name), show_regrets
        text = f"Posterior over readouts of {best.encoder} on {name}"
        path = folder / f"{stem}-posterior.png"
        yield Figure(path, text, dataset=name), partial(_posterior, best)


def _ranks(
    ranking: RankStatistics,
    folder: Path,
    start: str,
    styles: dict[str, int],
    group: str | None = None,
) -> Plan:
    """Plan the figures of ranks, in files whose names begin alike."""
    text = f"Average ranks on {'all datasets' if group is None else group}"
    if len(ranking.encoder_names_) > 1:
        path = folder / f"{start}average_ranks.png"
        about = f"{text}, with bars over those that do not differ significantly"
        show = partial(CriticalDifferenceDisplay.from_scorer, ranking)
        yield Figure(path, about, group=group), show
    if has_tests(ranking):
        path = folder / f"{start}rank_intervals.png"
        about = f"{text}, with intervals over datasets"
        draw_intervals = partial(RankDisplay.from_scorer, kind="intervals")
        intervals = partial(draw_intervals, ranking, styles=styles)
        yield Figure(path, about, group=group), intervals


def _regrets(
    cells: list[Cell], best: Cell, styles: dict[str, int]
) -> CodelengthDisplay:
    """Draw the regrets of encoders to the best one."""
    curves = {cell.encoder: cell.codelengths for cell in cells}
    ends = np.sort([cell.codelength - best.codelength for cell in cells])
    display = CodelengthDisplay.from_codelengths(
        curves,
        reference=best.encoder,
        styles=styles,
        symlog_y=bool(ends[-1] > SQUASHED * max(10.0, float(np.median(ends)))),
    )
    display.ax_.set_title(f"{best.dataset}: regret of encoders", parse_math=False)
    return display


def _posterior(cell: Cell) -> PosteriorDisplay:
    display = PosteriorDisplay.from_trace(cell.source.read(), cell.architectures)
    title = f"{cell.dataset}: readouts on {cell.encoder}"
    display.ax_.set_title(title, parse_math=False)
    return display
