"""A fitted ranking as figures in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sklearn_mdl.display import (
    CodelengthDisplay,
    CriticalDifferenceDisplay,
    PosteriorDisplay,
    PreferredReadoutDisplay,
    RankBySizeDisplay,
    RankIntervalDisplay,
    SavingsDisplay,
)
from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.representation.cells import Cell
from sklearn_mdl.representation.naming import file_stems
from sklearn_mdl.representation.statistics import RankStatistics
from sklearn_mdl.representation.table import has_tests
from sklearn_mdl.results.page import DPI


class Figure(NamedTuple):
    """A figure in a file.

    Attributes
    ----------
    path : Path
    text : str
        What it shows, for those who do not see it.
    about : str or None
        The dataset that it is about; None is all.
    group : str or None
        The group of datasets that it is about.
    """

    path: Path
    text: str
    about: str | None
    group: str | None


def can_draw() -> bool:
    """Whether matplotlib is there; it comes with the extra ``plot``."""
    return find_spec("matplotlib") is not None


def draw(scorer: RepresentationScorer, folder: Path) -> list[Figure]:
    """Draw all figures of a ranking."""
    import matplotlib.pyplot as plt

    figures = []
    for name, text, show, *about in _plan(scorer):
        path = folder / f"{name}.png"
        display = show()
        display.figure_.savefig(path, dpi=DPI, bbox_inches="tight")
        plt.close(display.figure_)
        figures.append(Figure(path, text, *about))
    return figures


class Planned(NamedTuple):
    """A figure that is drawn when its turn comes."""

    stem: str
    text: str
    show: Callable[[], Any]
    about: str | None = None
    group: str | None = None


def _plan(scorer: RepresentationScorer) -> Iterator[Planned]:
    yield from _ranks(scorer)
    yield Planned(
        "saved",
        "Nats per example saved against the uniform code, encoders by datasets",
        partial(SavingsDisplay.from_scorer, scorer),
    )
    yield Planned(
        "preferred_readouts",
        "The readout that every encoder prefers on every dataset",
        partial(PreferredReadoutDisplay.from_scorer, scorer),
    )
    if len(scorer.encoder_names_) > 1:
        yield Planned(
            "ranks_by_size",
            "Average ranks if the datasets had ended after so many labels",
            partial(RankBySizeDisplay.from_scorer, scorer),
        )
    for stem, name in zip(file_stems(scorer.groups_), scorer.groups_, strict=True):
        yield from _ranks(scorer.groups_[name], f"group-{stem}-", name)
    stems = file_stems(scorer.dataset_names_)
    for index, (stem, name) in enumerate(
        zip(stems, scorer.dataset_names_, strict=True)
    ):
        cells = [
            cell for cell in scorer.cells_ if cell.dataset == name and cell.order == 0
        ]
        best = cells[int(np.argmin(scorer.codelengths_[index]))]
        yield Planned(
            f"{stem}-codelength",
            f"What each encoder costs more than the best one on {name}",
            partial(_regrets, cells, best),
            about=name,
        )
        yield Planned(
            f"{stem}-posterior",
            f"Posterior over readouts of {best.encoder} on {name}",
            partial(_posterior, best),
            about=name,
        )


def _ranks(
    ranking: RankStatistics, head: str = "", group: str | None = None
) -> Iterator[Planned]:
    place = "all datasets" if group is None else group
    if len(ranking.encoder_names_) > 1:
        yield Planned(
            f"{head}average_ranks",
            f"Average ranks on {place}, with bars over those not told apart",
            partial(CriticalDifferenceDisplay.from_scorer, ranking),
            group=group,
        )
    if has_tests(ranking):
        yield Planned(
            f"{head}rank_intervals",
            f"Average ranks on {place} with intervals over datasets",
            partial(RankIntervalDisplay.from_scorer, ranking),
            group=group,
        )


def _regrets(cells: list[Cell], best: Cell) -> CodelengthDisplay:
    """Draw what each encoder costs more than the best one, as examples come."""
    curves = {cell.encoder: cell.codelengths for cell in cells}
    display = CodelengthDisplay.from_codelengths(curves, reference=best.encoder)
    display.ax_.set_title(f"{best.dataset}: regret of encoders", parse_math=False)
    return display


def _posterior(cell: Cell) -> PosteriorDisplay:
    trace = cell.source.read()
    display = PosteriorDisplay(trace.posterior, cell.architectures, trace.steps).plot()
    display.ax_.set_title(
        f"{cell.dataset}: readouts on {cell.encoder}", parse_math=False
    )
    return display
