"""Boards of readouts at the door, by name."""

from __future__ import annotations

import argparse

BOARDS = ("default", "mixed")


def add_readouts(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the board of a walk."""
    parser.add_argument(
        "--readouts",
        choices=BOARDS,
        default=BOARDS[0],
        help="board of readouts: the default one, or mixed, which has nearest "
        "neighbours and refitted classifiers beside it (default: default)",
    )


def board_of(options: argparse.Namespace) -> str | None:
    """Return the ``readouts`` of a switcher that the option stands for."""
    name: str = options.readouts
    return None if name == BOARDS[0] else name
