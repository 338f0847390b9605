"""``sklearn-mdl race``: compare encoders while you label, until the best is clear."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import sklearn_mdl
from sklearn_mdl.cli import _options

HELP = "Compare encoders while you label, and stop when the best one is clear."
EXAMPLE = "sklearn-mdl race FEATURES --labels labels.txt --classes 10 --within 0.1"
POLL_SECONDS = 0.5
FORECAST_EVERY = 10  # number of labels between two forecasts


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    help = "folder with ENCODER.npy (.npz, .safetensors); rows in order of labelling"
    _options.add(parser, "features", help, "FEATURES", type=Path)
    help = (
        "text file to which you append labels, one per line, in the order of the rows; "
        "the race reads new lines until it stops (default: standard input, beginning "
        "with the label of the first row without one)"
    )
    _options.add(parser, "--labels", help, "PATH", type=Path)
    help = "stop at the end of the file of labels"
    parser.add_argument("--once", action="store_true", help=help)
    help = "number of classes that can occur (default: labels are real numbers)"
    _options.add(parser, "--classes", help, "N", type=int)
    help = "also stop if no encoder can beat the leader by more than NATS per label"
    _options.add(parser, "--within", help, "NATS", type=float)
    help = "largest probability that the race is ever wrong, however often you look"
    _options.add(parser, "--alpha", help, "N", 0.05)
    help = "exact is valid for any label count, but needs about twice as many labels"
    _options.add_choice(parser, "--method", ("asymptotic", "exact"), help)
    help = "number of labels at the start that are learned but not compared"
    _options.add(parser, "--start", help, "N", 32)
    _options.add_readouts(parser, "linear, or closed-form for real numbers")
    help = "folder to save the race in whenever labels are added; run again to resume"
    _options.add(parser, "--out", help, "DIR", default=Path("race"), type=Path)
    _options.add_seed(parser)


def run(options: argparse.Namespace) -> None:
    """Race the encoders of a folder while labels arrive."""
    _options.check_outside(options.features, options.out)
    features = sklearn_mdl.datasets.load_encoders(options.features)
    _options.check_names(features)
    n_rows = len(next(iter(features.values())))
    race = sklearn_mdl.model_selection.EncoderRace(
        list(features),
        options.classes,
        alpha=options.alpha,
        within=options.within,
        method=options.method,
        start=options.start,
        switcher=_switcher(options),
        folder=options.out,
        random_state=options.seed,
    ).resume()
    if race.n_labels_:
        print(f"continuing after {race.n_labels_} labels from {options.out}")
    _check_former_rows(options, features, race.features_)
    if not _is_over(race, n_rows):
        row, place = race.n_labels_ + 1, options.labels or "standard input"
        print(f"waiting for the label of row {row} in {place}", flush=True)
    for texts in _steps(options, race, n_rows):
        start, end = race.n_labels_, race.n_labels_ + len(texts)
        if end > n_rows:
            raise ValueError(
                f"{options.features} must hold a row for each of {end} labels, but it "
                f"has {n_rows} rows; extract features of more rows, or remove labels"
            )
        alive = race.alive_
        rows = {name: features[name][start:end] for name in alive}
        try:
            race.update(rows, _labels(texts, start, options.classes is None))
        except ValueError as error:
            if options.labels is not None or not sys.stdin.isatty():
                raise
            print(error, file=sys.stderr)  # the user can type another label
            continue
        print(_line(race, start, alive), flush=True)
        if _is_over(race, n_rows):
            break
    print(race.verdict())


def _is_over(race: sklearn_mdl.model_selection.EncoderRace, n_rows: int) -> bool:
    """Return True if the race has stopped or every row has a label."""
    return race.should_stop_ or race.n_labels_ == n_rows


def _check_former_rows(
    options: argparse.Namespace, features: Mapping[str, Any], seen: Mapping[str, Any]
) -> None:
    """Raise if features were changed after the race learned from them."""
    for name, rows in seen.items():
        if not np.array_equal(features[name][: len(rows)], rows):
            raise ValueError(
                f"{options.features} must hold the features from which the race in "
                f"{options.out} learned, but those of {name!r} differ; restore them, "
                "or start a new race with another --out"
            )


def _switcher(options: argparse.Namespace) -> sklearn_mdl.model_selection.Switcher:
    """Return the switcher with the chosen list of readouts."""
    kind, usual = sklearn_mdl.MDLReadoutSwitcher, "linear"
    if options.classes is None:
        kind, usual = sklearn_mdl.MDLReadoutSwitcherRegressor, "closed-form"
    return kind(_options.readouts_of(options) if options.readouts else usual)


def _steps(options: argparse.Namespace, race: Any, n_rows: int) -> Iterator[list[str]]:
    """Yield new labels as text, from standard input or from lines added to a file.

    The labels of a race that is over are checked, but no new ones are yielded.
    """
    is_over = _is_over(race, n_rows)
    if options.labels is None:
        for line in () if is_over or sys.stdin is None else sys.stdin:
            yield [line.strip()]
        return
    seen = [str(label) for label in race.labels_]
    while True:
        lines = _lines_of(options.labels, whole=not options.once, n_seen=len(seen))
        _check_former(options.labels, lines, seen, options.classes is None)
        new = [] if race.should_stop_ else lines[len(seen) :]
        if new:
            seen += new
            yield new
        elif options.once or is_over:
            return
        else:
            time.sleep(POLL_SECONDS)


def _lines_of(path: Path, *, whole: bool, n_seen: int) -> list[str]:
    """Return the lines of a file.

    If ``whole``, a last line without an end is left out, since it may still be written,
    unless it was already seen. If ``whole`` and none was seen, the file may be missing.
    """
    if whole and not n_seen and not path.exists():
        return []
    text = path.read_bytes()
    if whole and text.count(b"\n") >= n_seen:
        text = text[: text.rfind(b"\n") + 1]
    try:
        lines = text.decode().removeprefix("\ufeff").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} must be a text file in UTF-8, but {error}; save it as UTF-8"
        ) from error
    return [*map(str.strip, lines if lines[-1].strip() else lines[:-1])]


def _check_former(
    path: Path, lines: Sequence[str], seen: Sequence[str], is_real: bool
) -> None:
    """Raise if a label was changed after the race learned it."""
    for i, label in enumerate(seen):
        line = lines[i] if i < len(lines) else None
        if line != label and not (is_real and _same_number(line, label)):
            state = "the line is missing" if line is None else f"now it holds {line!r}"
            raise ValueError(
                f"{path} must hold {label!r} in line {i + 1}, as before, but {state}; "
                "restore the line, or start a new race with another --out"
            )


def _same_number(line: str | None, label: str) -> bool:
    with suppress(ValueError):
        return float(line or "nan") == float(label)
    return False


def _labels(texts: Sequence[str], start: int, is_real: bool) -> list[str] | list[float]:
    """Return the labels as text or, for real-valued labels, as numbers."""
    for i, text in enumerate(texts, start + 1):
        if not text:
            raise ValueError(
                f"Line {i} must hold a label, but it is empty; add the label of row {i}"
            )
    if not is_real:
        return list(texts)
    numbers = [_number(text, i) for i, text in enumerate(texts, start + 1)]
    if not start and all(number.is_integer() for number in numbers):
        print(
            "Without --classes, labels are real numbers, but all are whole so far; if "
            "they are classes, start again with --classes N and another --out",
            file=sys.stderr,
        )
    return numbers


def _number(text: str, line: int) -> float:
    with suppress(ValueError):
        if math.isfinite(number := sklearn_mdl.datasets.number_of(text)):
            return number
    raise ValueError(
        "Labels must be numbers if --classes is not given, but line "
        f"{line} holds {text!r}; correct it or, for example, pass --classes 10"
    )


def _line(
    race: sklearn_mdl.model_selection.EncoderRace, before: int, alive: Sequence[str]
) -> str:
    """Return a line on the race, newly dropped encoders and, at times, a forecast."""
    n, n_left = race.n_labels_, len(race.alive_)
    text = f"{n} labels: {n_left} of {len(race.encoder_names_)} encoders left"
    if n <= race.start:
        return f"{text}, comparison starts with label {race.start + 1}"
    text += f", {race.leader_} leads"
    if n_left < len(alive):
        text += f", dropped {', '.join(e for e in alive if e not in race.alive_)}"
    if n // FORECAST_EVERY > before // FORECAST_EVERY and n >= race.start + 10:
        text += f"; {race.forecast(1000)}" if not race.should_stop_ else ""
    return text
