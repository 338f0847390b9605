"""``sklearn-mdl score``: the codelength of labels given features."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import sklearn_mdl
from sklearn_mdl._core.unsupported import GROUPS, PERMUTATIONS, unsupported
from sklearn_mdl.cli import _options

HELP = "Compute the codelength of labels given features."
EXAMPLE = "sklearn-mdl score features.npy labels.npy --switching bayes"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    _options.add_features(parser)
    _options.add_labels(parser)
    _options.add_groups(parser)
    _options.add_switcher(parser)
    _options.add_targets(parser)
    help = "save the losses as .npy, for remix"
    _options.add(parser, "--losses", help, "PATH", type=Path)
    _options.add_permutations(parser)
    help = "number of threads that evaluate readouts in parallel"
    _options.add(parser, "--n-jobs", help, "N", 1)


def run(options: argparse.Namespace) -> None:
    """Print the codelength of one set of labels given one set of features."""
    from sklearn_mdl._core.validation import may_be_real  # imports scikit-learn

    if options.losses is not None:
        written = (options.losses, options.losses.with_suffix(".json"))
        _options.check_apart(written, (options.features, options.labels))
        sklearn_mdl.switcher.check_losses_path(options.losses)
    _check_permutations(options)
    X, y = _options.load_rows(options.features, options.labels, options.targets)
    kind = _options.kind_of(options, {str(options.labels): y})
    if options.targets == "classes" and may_be_real(y):
        y = y.astype(int)  # integers are always treated as classes
    switcher = _options.switcher_of(options, options.n_jobs, kind)
    groups = _options.groups_of(options)
    print(*_lines(switcher.fit(X, y, groups=groups), y), sep="\n")
    if options.permutations is not None:
        print(_permuted(switcher.permutation_test(options.permutations)))
    if options.losses is not None:
        for path in switcher.save_losses(options.losses):
            print(f"wrote {path}")


def _check_permutations(options: argparse.Namespace) -> None:
    """Raise before the run for options that the permutation test would reject."""
    if options.permutations is None:
        return
    from sklearn_mdl._core.validation import check_positive  # imports scikit-learn

    check_positive("--permutations", options.permutations, 99)
    if options.groups is not None:
        raise unsupported(PERMUTATIONS, GROUPS, "leave out --permutations or --groups")
    if options.keep_order:
        raise ValueError(
            "--permutations cannot be combined with --keep-order, because the test "
            "assumes rows in random order; leave out --keep-order"
        )
    if options.readouts in ("nets", "stream"):
        raise ValueError(
            "--permutations needs kernel readouts, which --readouts "
            f"{options.readouts} does not contain; pass --readouts closed-form"
        )


def _permuted(test: sklearn_mdl.switcher.PermutationTest) -> str:
    nulls = test.null_codelengths
    return (
        f"p = {test.p_value:.3g}: kernel readouts need {test.codelength:.1f} nats for "
        f"the labels, and {nulls.min():.1f} to {nulls.max():.1f} for {len(nulls)} "
        "permutations of them"
    )


def _lines(switcher: Any, y: np.ndarray) -> list[str]:
    n, nats = len(y), switcher.codelength_
    if isinstance(switcher, sklearn_mdl.MDLReadoutSwitcherRegressor):
        uniform, blind = float(switcher.reference_codelengths_.sum()), "Gaussian code"
        head, others = "real labels", {}
    else:
        n_classes, blind = len(switcher.classes_), "uniform code"
        uniform = sklearn_mdl.uniform_codelength(n, n_classes)
        labels = np.searchsorted(switcher.classes_, y[switcher.order_])
        frequencies = sklearn_mdl.frequency_codelength(labels, n_classes)
        labels_only = float(switcher.reference_codelengths_.sum())
        others = {"label frequencies": frequencies, "labels alone": labels_only}
        accuracy = switcher.measures().accuracy
        head = f"{n_classes} classes, {accuracy:.1%} of labels predicted correctly"
    ratio = f", compression {uniform / nats:.2f}" if others else ""
    best = int(np.argmin(switcher.readout_codelengths_))
    names = sklearn_mdl.model_selection
    codes = {"codelength": nats}
    if switcher.pool_kinds_:
        codes = {names.POOLED: nats, names.SWITCHING: switcher.switching_codelength_}
    codes[blind] = uniform
    width = max(map(len, ["label frequencies", *codes]))
    return [
        f"{n} examples, {switcher.n_features_in_} features, {head}",
        *(_options.nats_line(name, width, code, n) for name, code in codes.items()),
        *(f"{name:<{width}} {code:12.1f} nats" for name, code in others.items()),
        f"{_options.nats_line('saved', width, uniform - nats, n)}{ratio}",
        f"{'best readout':<{width}} {switcher.readout_codelengths_[best]:12.1f} nats  "
        f"{switcher.readout_names_[best]}",
    ]
