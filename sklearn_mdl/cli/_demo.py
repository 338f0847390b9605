"""``sklearn-mdl demo``: rank encoders on datasets of scikit-learn."""

from __future__ import annotations

import argparse
from pathlib import Path

from sklearn_mdl.cli import _options
from sklearn_mdl.cli._rank import print_results

HELP = "Rank encoders on scikit-learn's digits, wine and breast cancer."
EXAMPLE = "sklearn-mdl demo --out demo-results"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    _options.add_results(parser, default=Path("demo-results"))
    _options.add_orders(parser, default=3)


def run(options: argparse.Namespace) -> None:
    """Run the demo and write its results."""
    from sklearn_mdl._core.io.whole_files import make_folder
    from sklearn_mdl.cli._demo_ranking import run_demo

    make_folder(options.out)
    scorer = run_demo(n_orders=options.n_orders, n_jobs=options.n_jobs)
    print_results(scorer, options.out)
