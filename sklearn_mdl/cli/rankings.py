"""Rankings at the door: of the demo, or of features in a directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from sklearn_mdl.cli.boards import board_of
from sklearn_mdl.cli.files import make_folder
from sklearn_mdl.cli.second_stage import NO_FIGURES
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.demo import run_demo
from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.representation.table import ranking_text
from sklearn_mdl.results import can_draw, write_results
from sklearn_mdl.switcher import MDLReadoutSwitcher


def demo(options: argparse.Namespace) -> None:
    """Run the demo and write its results."""
    make_folder(options.out)
    _report(run_demo(n_orders=options.n_orders, n_jobs=options.n_jobs), options.out)


def rank(options: argparse.Namespace) -> None:
    """Rank a directory of features and write the results."""
    scorer = RepresentationScorer(
        MDLReadoutSwitcher(board_of(options)),
        n_orders=options.n_orders,
        alpha=options.alpha,
        groups=_groups(options.group),
        missing=options.missing,
        results=options.out,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=1,
    )
    datasets = load_feature_directory(options.features)
    if options.dry_run:
        print(scorer.dry_run(datasets))
        return
    make_folder(options.out)
    _report(scorer.fit(datasets), options.out)
    print(f"kept in {options.out / 'cells'}, so that another run walks what is missing")


def _groups(texts: Sequence[str]) -> dict[str, list[str]] | None:
    """Read groups of datasets, as in natural=cifar100,svhn."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        name, equals, members = text.partition("=")
        if not (name and equals and members) or name in groups:
            raise ValueError(
                f"A group must be given once, as NAME=DATASET,..., got {text!r}; write "
                "for example natural=cifar100,svhn"
            )
        groups[name] = members.split(",")
    return groups or None


def _report(scorer: RepresentationScorer, out: Path) -> None:
    print(scorer.summary())
    for name, ranking in scorer.groups_.items():
        print(f"\n{ranking_text(ranking, f'Average ranks on {name}')}")
    seconds = sum(cell.seconds for cell in scorer.cells_)
    print(f"\n{len(scorer.cells_)} cells, {seconds / len(scorer.cells_):.1f} s each")
    for path in write_results(scorer, out):
        print(f"wrote {path}")
    if not can_draw():
        print(NO_FIGURES)
