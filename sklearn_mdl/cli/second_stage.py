"""The second stage at the door: losses of a walk, mixed under one prior or another."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sklearn_mdl.cli.files import make_folder
from sklearn_mdl.codelength import uniform_codelength
from sklearn_mdl.display import PosteriorDisplay
from sklearn_mdl.representation.naming import file_stems
from sklearn_mdl.results import can_draw, write_rows
from sklearn_mdl.stored_losses import StoredLosses, load_losses
from sklearn_mdl.switching import (
    ForwardTrace,
    SwitchingPrior,
    as_prior,
    forward,
    group_weights,
)

NO_FIGURES = 'no figures: matplotlib is missing; pip install "sklearn_mdl[plot]"'
MAX_ROWS = 1000  # of a posterior that is written as a table


def switch(options: argparse.Namespace) -> None:
    """Print the codelength of stored losses under each of the priors."""
    priors = {text: parse_prior(text) for text in options.prior or ["learned-share"]}
    stored = load_losses(options.losses)
    for prior in priors.values():
        prior.check_length(stored.n_samples)  # all fail before the first one is mixed
    weights = _weights(stored, options.weights)
    if options.out is not None:
        make_folder(options.out)
    width = max(len("best readout"), *map(len, priors))
    for line in _lines_before(stored, width):
        print(line)
    for stem, (text, prior) in zip(file_stems(priors), priors.items(), strict=True):
        trace = _mixed(prior, stored, weights)
        print(_line_of(text, trace, stored, width))
        if options.out is not None:
            _write(options.out / stem, trace, stored)
    if options.out is not None and stored.architectures is None:
        print("no figures: these losses came without the architectures of the readouts")
    elif options.out is not None and not can_draw():
        print(NO_FIGURES)


def parse_prior(text: str) -> SwitchingPrior:
    """Return the prior that ``name`` or ``name:param=value,...`` stands for.

    Values are Python literals, and plain text where they are none.
    """
    name, colon, rest = text.partition(":")
    prior = as_prior(name)
    known = prior.get_params()
    # A comma separates where a name and "=" follow; others belong to a tuple.
    for item in re.split(r",(?=\s*\w+\s*=)", rest) if colon else []:
        param, equals, value = (part.strip() for part in item.partition("="))
        if not equals or param not in known:
            raise ValueError(
                f"The parameters of {name} must be given as {name}:PARAM=VALUE,... "
                f"with PARAM among {sorted(known) or 'none'}, got {item!r}; give those "
                "alone"
            )
        prior.set_params(**{param: _literal(value)})
    prior.check_params()
    return prior


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return text


def _weights(stored: StoredLosses, which: str) -> np.ndarray | None:
    if which == "architecture":
        return group_weights(stored.groups)
    return stored.weights if which == "stored" else None


def _readout_codelengths(stored: StoredLosses) -> np.ndarray:
    if not stored.n_samples:
        raise ValueError(
            "Losses must be of at least one example, got none; let the walk go on"
        )
    totals = stored.readout_codelengths
    for name, nats in zip(stored.readouts, totals.tolist(), strict=True):
        if not nats > -np.inf:  # NaN too
            raise ValueError(
                f"Losses must be numbers in nats or plus infinity, got {nats} in "
                f"{name!r}; look for what is wrong with that readout"
            )
    return totals


def _lines_before(stored: StoredLosses, width: int) -> Iterator[str]:
    totals = _readout_codelengths(stored)
    kinds = stored.architectures
    n_kinds = "unknown" if kinds is None else len(set(kinds))
    walked = "" if stored.switching is None else f", walked under {stored.switching}"
    yield (
        f"{stored.n_samples} examples, {stored.n_readouts} readouts, {n_kinds} "
        f"architectures, {stored.losses.dtype.name}{walked}"
    )
    if stored.n_classes is not None:
        nats = uniform_codelength(stored.n_samples, stored.n_classes)
        yield _nats("uniform code", nats, stored, width)
    best = int(np.argmin(totals))
    line = _nats("best readout", float(totals[best]), stored, width)
    yield f"{line}  {stored.readouts[best]}"


def _nats(title: str, nats: float, stored: StoredLosses, width: int) -> str:
    per_example = nats / stored.n_samples
    return f"{title:<{width}} {nats:12.1f} nats  {per_example:8.4f} per example"


def _mixed(
    prior: SwitchingPrior, stored: StoredLosses, weights: np.ndarray | None
) -> ForwardTrace:
    # Without groups there may be thousands of columns: then not all rows are kept.
    groups = stored.architectures
    n_rows = MAX_ROWS if groups is None else None
    return forward(prior, stored.losses, weights, groups=groups, max_rows=n_rows)


def _columns(trace: ForwardTrace, stored: StoredLosses) -> list[str]:
    return [str(name) for name in trace.groups or stored.readouts]


def _line_of(text: str, trace: ForwardTrace, stored: StoredLosses, width: int) -> str:
    mean = trace.posterior.mean(0)
    top = int(np.argmax(mean))
    line = _nats(text, trace.codelength, stored, width)
    return f"{line}  mostly {_columns(trace, stored)[top]} ({mean[top]:.0%})"


def _write(stem: Path, trace: ForwardTrace, stored: StoredLosses) -> None:
    """Write codelengths and posterior under names that begin with `stem`."""
    codelengths, table, figure = (
        stem.with_name(f"{stem.name}-{end}")
        for end in ("codelengths.npy", "posterior.csv", "posterior.png")
    )
    np.save(codelengths, trace.codelengths)
    print(f"wrote {codelengths}")
    names = _columns(trace, stored)
    step = 1
    while -(-len(trace.posterior) // step) > MAX_ROWS:
        step *= 2
    rows = zip(trace.steps[::step], trace.posterior[::step].tolist(), strict=True)
    write_rows(table, ["examples seen", *names], ([t, *row] for t, row in rows))
    print(f"wrote {table}")
    if trace.groups is not None and can_draw():
        _draw(figure, trace.posterior, names)
        print(f"wrote {figure}")


def _draw(path: Path, posterior: np.ndarray, names: list[str]) -> None:
    import matplotlib.pyplot as plt

    display = PosteriorDisplay(posterior, names).plot()
    display.figure_.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(display.figure_)
