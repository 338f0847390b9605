"""``sklearn-mdl remix``: the codelength of stored losses under other priors."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import sklearn_mdl
from sklearn_mdl.cli import _options

if TYPE_CHECKING:
    from sklearn_mdl.switcher import StoredLosses
    from sklearn_mdl.switching import ForwardTrace

POOLED = ", pooled"  # only if predictions of kinds were stored
MAX_ROWS = 1000  # largest number of rows in the table of a posterior


HELP = "Mix stored losses under other priors without training again."
EXAMPLE = "sklearn-mdl remix losses.npy --prior learned-share --weights architecture"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    help = ".npy file written by score --losses"
    _options.add(parser, "losses", help, "LOSSES", type=Path)
    help = "prior, as in bayes or fixed-share:m=11; repeatable (default: learned-share)"
    _options.add(parser, "--prior", help, "NAME[:PARAM=VALUE,...]", action="append")
    help = "prior weights: uniform over readouts or over architectures, or as stored"
    choices = ("uniform", "architecture", "stored")
    _options.add(parser, "--weights", help, default="stored", choices=choices)
    help = "folder for codelengths and posteriors (default: none are written)"
    _options.add(parser, "--out", help, "DIR", type=Path)


def run(options: argparse.Namespace) -> None:
    """Print the codelength of stored losses under each of the priors."""
    # This import takes long, so it is not at the top.
    from sklearn_mdl._core.io.whole_files import filled, make_folder, refuse_foreign_in

    texts = options.prior or ["learned-share"]
    priors = {text: _options.parse_prior(text) for text in texts}
    stored = sklearn_mdl.switcher.load_losses(options.losses)
    for prior in priors.values():
        prior.check_length(stored.n_samples)  # before any losses are mixed
    stored = replace(stored, weights=_weights(stored, options.weights))
    stems = sklearn_mdl.model_selection.file_stems(priors)
    if options.out is not None:
        outputs = [path for stem in stems for path in _files(options.out / stem)]
        sidecar = options.losses.with_suffix(".json")
        _options.check_apart(outputs, (options.losses, sidecar))
        make_folder(options.out)
        refuse_foreign_in(options.out, [path.name for path in outputs])
    titles = [text + (POOLED if stored.mixtures else "") for text in priors]
    width = max(len("best readout"), *map(len, titles))
    print(*_lines_before(stored, width), sep="\n")
    # Without kinds, a posterior may have thousands of columns, so keep fewer rows.
    kinds = stored.architectures
    kept = MAX_ROWS if kinds is None else None
    for stem, (text, prior) in zip(stems, priors.items(), strict=True):
        trace = stored.remix(prior, kinds=kinds, max_rows=kept)
        print(_line_of(text, trace, stored, width))
        if stored.mixtures is not None:
            pooled = stored.repool(prior, sklearn_mdl.pooling.LogLinearPool())
            title, nats = f"{text}{POOLED}", pooled.codelength
            print(_options.nats_line(title, width, nats, stored.n_samples))
        if options.out is not None:
            with filled(options.out) as aside:
                written = _write(aside / stem, trace, stored)
            print(*(f"wrote {options.out / name}" for name in written), sep="\n")
    if options.out is not None and stored.architectures is None:
        print("no figures: these losses do not name the architectures of the readouts")
    elif options.out is not None and not _options.can_draw():
        print('no figures: matplotlib is missing; pip install "sklearn-mdl[plot]"')


def _weights(stored: StoredLosses, which: str) -> np.ndarray | None:
    if which == "architecture":
        return sklearn_mdl.switching.kind_weights(stored.kinds)
    return stored.weights if which == "stored" else None


def _lines_before(stored: StoredLosses, width: int) -> Iterator[str]:
    if not stored.n_samples:
        raise ValueError(
            "Losses must cover at least one example, got 0; run score --losses"
        )
    totals = stored.readout_codelengths
    for name, nats in zip(stored.readouts, totals.tolist(), strict=True):
        if not nats > -np.inf:  # also True for NaN
            raise ValueError(
                f"Losses must be nats or infinity, got {nats} in {name!r}; fit without "
                "this readout, and call switcher.save_losses(path) again"
            )
    kinds = stored.architectures
    n_kinds = "unknown" if kinds is None else len(set(kinds))
    prior = "" if stored.switching is None else f", evaluated under {stored.switching}"
    yield (
        f"{stored.n_samples} examples, {stored.n_readouts} readouts, {n_kinds} "
        f"architecture{'s' * (n_kinds != 1)}, {stored.losses.dtype.name}{prior}"
    )
    if stored.n_classes is not None:
        nats = sklearn_mdl.uniform_codelength(stored.n_samples, stored.n_classes)
        yield _options.nats_line("uniform code", width, nats, stored.n_samples)
    best = int(np.argmin(totals))
    line = _options.nats_line("best readout", width, totals[best], stored.n_samples)
    yield f"{line}  {stored.readouts[best]}"


def _columns(trace: ForwardTrace, stored: StoredLosses) -> list[str]:
    return [str(name) for name in trace.kinds or stored.readouts]


def _line_of(text: str, trace: ForwardTrace, stored: StoredLosses, width: int) -> str:
    mean = trace.posterior.mean(0)
    top = int(np.argmax(mean))
    line = _options.nats_line(text, width, trace.codelength, stored.n_samples)
    return f"{line}  mostly {_columns(trace, stored)[top]} ({mean[top]:.0%})"


def _files(stem: Path) -> list[Path]:
    ends = ("codelengths.npy", "posterior.csv", "posterior.png")
    return [stem.with_name(f"{stem.name}-{end}") for end in ends]


def _write(stem: Path, trace: ForwardTrace, stored: StoredLosses) -> list[str]:
    """Write codelengths, a posterior and, if possible, a figure. Return file names."""
    codelengths, table, figure = _files(stem)
    np.save(codelengths, trace.codelengths)
    names = _columns(trace, stored)
    step = 1
    while -(-len(trace.posterior) // step) > MAX_ROWS:
        step *= 2
    kept = zip(trace.steps[::step], trace.posterior[::step].tolist(), strict=True)
    rows = ([t, *row] for t, row in kept)
    sklearn_mdl.report.write_rows(table, ["examples seen", *names], rows)
    written = [codelengths.name, table.name]
    if trace.kinds is not None and _options.can_draw():
        import matplotlib.pyplot as plt

        display = sklearn_mdl.PosteriorDisplay(trace.posterior, names).plot()
        display.figure_.savefig(figure, dpi=150, bbox_inches="tight")
        plt.close(display.figure_)
        written.append(figure.name)
    return written
