"""The door: ``sklearn-mdl demo``, ``rank``, ``score``, ``switch``, ``encode`` ..."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sklearn_mdl.cli.boards import add_readouts, board_of
from sklearn_mdl.cli.files import FEATURES_HELP, LABELS_HELP, load_rows
from sklearn_mdl.cli.messages import decode, encode
from sklearn_mdl.cli.rankings import demo, rank
from sklearn_mdl.cli.second_stage import parse_prior, switch
from sklearn_mdl.cli.shift import add_shift_arguments, shift
from sklearn_mdl.codelength import frequency_codelength, uniform_codelength
from sklearn_mdl.stored_losses import check_losses_path
from sklearn_mdl.switcher import MDLReadoutSwitcher

EXAMPLES = """examples:
  sklearn-mdl demo --out demo-results
      rank five encoders on data that scikit-learn brings along
  sklearn-mdl rank FEATURES_DIR --out ranking
      FEATURES_DIR holds DATASET/ENCODER.npy and DATASET/labels.npy
      (.npz and .safetensors too)
  sklearn-mdl score features.npy labels.npy
      codelength of one set of labels given one set of features
  sklearn-mdl switch losses.npy --prior bayes --prior fixed-share:m=11
      the same walk under other priors, from the losses that it has left
  sklearn-mdl encode features.npy labels.npy --out labels.mdl
  sklearn-mdl decode features.npy labels.mdl --out decoded.npy
      labels to bytes and back: the proof that the codelength is one
  sklearn-mdl shift train.npy train-labels.npy test.npy test-labels.npy
      whether train and test part are draws from one distribution
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the status: 2 for bad input, 130 for Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"sklearn-mdl {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        more = "; called again, it walks what is missing"
        kept = more if options.command == "rank" else ""
        print(f"\nsklearn-mdl {options.command}: interrupted{kept}", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sklearn-mdl",
        description="Say how good a representation is: codelengths of labels given it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_rank(commands)
    _add_score(commands)
    _add_switch(commands)
    _add_encode(commands)
    _add_decode(commands)
    _add_shift(commands)
    return parser


def _add_command(commands, name, run, help, example) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=help,
        description=help,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _add_demo(commands) -> None:
    parser = _add_command(
        commands,
        "demo",
        demo,
        "Rank encoders on scikit-learn's digits, wine and breast cancer.",
        "sklearn-mdl demo --out demo-results",
    )
    _add_results(parser, default=Path("demo-results"))
    _add_orders(parser, default=3)


def _add_rank(commands) -> None:
    parser = _add_command(
        commands,
        "rank",
        rank,
        "Rank encoders by precomputed features.",
        "sklearn-mdl rank features --out ranking --n-orders 3",
    )
    parser.add_argument(
        "features",
        type=Path,
        metavar="FEATURES_DIR",
        help="directory of DATASET/ENCODER.npy with DATASET/labels.npy",
    )
    _add_results(parser)
    parser.add_argument(
        "--missing",
        choices=("raise", "drop"),
        default="raise",
        help="what to do with a dataset that lacks an encoder (default: raise)",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=DATASET,...",
        help="datasets that are also ranked apart; may be given again",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list cells, memory and an estimate of the time, and walk nothing",
    )
    add_readouts(parser)
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.1,
        help="level of tests; intervals have 1 - alpha (default: 0.1)",
    )
    _add_seed(parser)
    _add_orders(parser, default=1)


def _add_results(parser: argparse.ArgumentParser, default: Path | None = None) -> None:
    place = "" if default is None else f" (default: {default})"
    parser.add_argument(
        "--out",
        type=Path,
        default=default,
        required=default is None,
        metavar="DIR",
        help=f"folder for tables, figures and a page{place}",
    )


def _add_orders(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument(
        "--n-orders",
        type=int,
        default=default,
        metavar="N",
        help=f"random orders of each dataset (default: {default})",
    )
    parser.add_argument(
        "--n-jobs",
        type=int,
        default=2,
        metavar="N",
        help="cells scored side by side (default: 2)",
    )


def _add_features(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument(
        "features", type=Path, metavar="FEATURES", help=FEATURES_HELP + more
    )


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of orders, initial weights and replay (default: 0)",
    )


def _add_score(commands) -> None:
    parser = _add_command(
        commands,
        "score",
        score,
        "Codelength of labels given features.",
        "sklearn-mdl score features.npy labels.npy --switching bayes",
    )
    _add_features(parser)
    parser.add_argument("labels", type=Path, metavar="LABELS", help=LABELS_HELP)
    _add_walk(parser)
    parser.add_argument(
        "--losses",
        type=Path,
        metavar="PATH",
        help="save the losses as .npy or .safetensors, to be mixed by switch",
    )
    parser.add_argument(
        "--n-jobs",
        type=int,
        default=1,
        metavar="N",
        help="readouts walked side by side (default: 1)",
    )


def _add_walk(parser: argparse.ArgumentParser) -> None:
    add_readouts(parser)
    parser.add_argument(
        "--switching",
        default="learned-share",
        metavar="PRIOR",
        help="prior by name, as in switch (default: learned-share)",
    )
    parser.add_argument(
        "--keep-order",
        action="store_true",
        help="walk the rows as they stand, unshuffled",
    )
    _add_seed(parser)


def _add_encode(commands) -> None:
    parser = _add_command(
        commands,
        "encode",
        encode,
        "Compress labels for someone who has the features.",
        "sklearn-mdl encode features.npy labels.npy --out labels.mdl",
    )
    _add_features(parser)
    parser.add_argument(
        "labels",
        type=Path,
        metavar="LABELS",
        nargs="?",
        help=f"{LABELS_HELP} (default: FEATURES, if it holds them as well)",
    )
    parser.add_argument(
        "--out",
        "-o",
        type=Path,
        required=True,
        metavar="MESSAGE",
        help="where to write the message",
    )
    _add_walk(parser)


def _add_decode(commands) -> None:
    parser = _add_command(
        commands,
        "decode",
        decode,
        "Decompress labels, given the features and the settings of encode.",
        "sklearn-mdl decode features.npy labels.mdl --out decoded.npy",
    )
    _add_features(parser, "; labels that it may hold are not read")
    parser.add_argument(
        "message", type=Path, metavar="MESSAGE", help="what encode has written"
    )
    parser.add_argument(
        "--out",
        "-o",
        type=Path,
        required=True,
        metavar="LABELS",
        help=".npy, or .txt with one label a line",
    )
    _add_walk(parser)


def _add_switch(commands) -> None:
    parser = _add_command(
        commands,
        "switch",
        switch,
        "Mix the losses of a walk under other priors, without training again.",
        "sklearn-mdl switch losses.npy --prior learned-share --weights architecture",
    )
    parser.add_argument(
        "losses",
        type=Path,
        metavar="LOSSES",
        help=".npy or .safetensors, as score --losses writes it",
    )
    parser.add_argument(
        "--prior",
        action="append",
        metavar="NAME[:PARAM=VALUE,...]",
        help="prior, as in bayes or fixed-share:m=11; may be given again "
        "(default: learned-share)",
    )
    parser.add_argument(
        "--weights",
        choices=("uniform", "architecture", "stored"),
        default="stored",
        help="prior weights: uniform over readouts, uniform over architectures, or "
        "those of the walk (default: stored)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where to write codelengths and posteriors",
    )


def _add_shift(commands) -> None:
    parser = _add_command(
        commands,
        "shift",
        shift,
        "Test whether train and test part of a dataset differ.",
        "sklearn-mdl shift train.npy train-labels.npy test.npy test-labels.npy",
    )
    add_shift_arguments(parser)


def score(options: argparse.Namespace) -> None:
    """Print the codelength of one set of labels given one set of features."""
    if options.losses is not None:
        check_losses_path(options.losses)  # fails before the walk, not after
    prior = parse_prior(options.switching)
    X, y = load_rows(options.features, options.labels)
    switcher = MDLReadoutSwitcher(
        board_of(options),
        switching=prior,
        shuffle=not options.keep_order,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=1,
    ).fit(X, y)
    for line in _score_lines(switcher, y):
        print(line)
    if options.losses is not None:
        for path in switcher.save_losses(options.losses):
            print(f"wrote {path}")


def _score_lines(switcher: MDLReadoutSwitcher, y: np.ndarray) -> list[str]:
    n, n_classes = len(y), len(switcher.classes_)
    nats, uniform = switcher.codelength_, uniform_codelength(n, n_classes)
    labels = np.searchsorted(switcher.classes_, y[switcher.order_])
    best = int(np.argmin(switcher.readout_codelengths_))
    return [
        f"{n} examples, {switcher.n_features_in_} features, {n_classes} classes",
        f"codelength        {nats:12.1f} nats  {nats / n:8.4f} per example",
        f"uniform code      {uniform:12.1f} nats  {uniform / n:8.4f} per example",
        f"label frequencies {frequency_codelength(labels, n_classes):12.1f} nats",
        f"saved             {uniform - nats:12.1f} nats  {(uniform - nats) / n:8.4f} "
        f"per example, compression {uniform / nats:.2f}",
        f"best readout      {switcher.readout_codelengths_[best]:12.1f} nats  "
        f"{switcher.readout_names_[best]}",
    ]
