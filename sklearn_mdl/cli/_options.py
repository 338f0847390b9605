"""Options shared by several commands, and the objects made from them."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import sklearn_mdl

T = TypeVar("T")
Features = dict[str, tuple[Any, ...]]  # {name: ({encoder: X}, labels[, groups])}
FEATURES_HELP = ".npy, .npz or .safetensors file with a row of numbers for each example"
LABELS_HELP = "file in one of the same formats, with a label for each row"
PRECISIONS = ("float32", "bfloat16", "tf32")  # values of a switcher's `precision`
READOUTS = ("default", "linear", "closed-form", "nets", "mixed", "drift", "stream")


def add(
    parser: argparse.ArgumentParser,
    name: str,
    help: str,
    metavar: str | None = None,
    default: Any = None,
    **settings: Any,
) -> None:
    """Add an argument. A default also sets the type and is shown in the help."""
    if default is not None:
        help = f"{help} (default: {default})"
        settings = {"type": type(default), **settings}
    parser.add_argument(name, help=help, metavar=metavar, default=default, **settings)


def add_choice(
    parser: argparse.ArgumentParser, name: str, choices: Sequence[str], help: str
) -> None:
    """Add an option that takes one of the choices. The default is the first choice."""
    add(parser, name, help, default=choices[0], choices=choices)


def add_features(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the argument FEATURES."""
    add(parser, "features", FEATURES_HELP + more, "FEATURES", type=Path)


def add_labels(
    parser: argparse.ArgumentParser, more: str = "", **settings: Any
) -> None:
    """Add the argument LABELS."""
    add(parser, "labels", LABELS_HELP + more, "LABELS", type=Path, **settings)


def add_groups(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the option --groups."""
    help = "file in one of the same formats with each row's group, such as a patient"
    add(parser, "--groups", help + more, "PATH", type=Path)


def groups_of(options: argparse.Namespace) -> np.ndarray | None:
    """Return the groups from the file given by --groups, or None if none is given."""
    if options.groups is None:
        return None
    return sklearn_mdl.datasets.load_groups(options.groups)


def add_output(parser: argparse.ArgumentParser, metavar: str, help: str) -> None:
    """Add the option --out for a file."""
    parser.add_argument(
        "--out", "-o", type=Path, required=True, metavar=metavar, help=help
    )


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add the option --seed."""
    add(parser, "--seed", "seed of orders, initial weights and replay", "N", 0)


def add_results(parser: argparse.ArgumentParser, default: Path) -> None:
    """Add the option --out for a folder of results."""
    add(parser, "--out", "folder for tables and the page", "DIR", default, type=Path)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options for :func:`selected`: datasets, encoders and rows."""
    for name in ("datasets", "encoders"):
        add(parser, f"--{name}", f"rank only these {name}", "NAME", nargs="+")
    help = "use at most this many rows of each dataset, drawn at random with --seed"
    add(parser, "--max-rows", help, "N", type=int)


def check_names(names: Iterable[str]) -> None:
    """Raise if a name of a dataset or encoder contains control characters."""
    for name in names:
        if re.search(r"[\x00-\x1f\x7f-\x9f]", name):
            raise ValueError(f"Names must be printable, got {name!r}; rename the file")


def selected(features: Features, options: argparse.Namespace) -> Features:
    """Return the datasets, encoders and rows selected by the options."""
    check_names(n for d, (arrays, *_) in features.items() for n in (d, *arrays))
    chosen = named(features, options.datasets, "--datasets")
    if options.encoders is not None:
        chosen = {
            name: (named(arrays, options.encoders, f"--encoders on {name}"), *rest)
            for name, (arrays, *rest) in chosen.items()
        }
    most = options.max_rows
    if most is None:
        return chosen
    if most < 1:
        raise ValueError(
            f"--max-rows must be at least 1, got {most}; pass --max-rows 1000"
        )
    drawn = {}
    for name, (arrays, *rest) in chosen.items():  # rest holds labels[, groups]
        order = np.random.default_rng(options.seed).permutation(len(rest[0]))
        rows = np.sort(order[:most])
        features = {encoder: X[rows] for encoder, X in arrays.items()}
        drawn[name] = features, *(column[rows] for column in rest)
    return drawn


def named(items: dict[str, T], names: Sequence[str] | None, what: str) -> dict[str, T]:
    """Return the items called ``names``, or all items if ``names`` is None."""
    if names is None:
        return items
    unknown = [name for name in names if name not in items]
    if unknown:
        raise ValueError(
            f"{what} must be among {sorted(items)}, got {unknown[0]!r}; "
            f"pass {what.split()[0]} {min(items)}"
        )
    return {name: items[name] for name in names}


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the options --device and --precision."""
    add(parser, "--device", "where to compute, such as cpu or cuda:0", "NAME", "auto")
    help = "number format of the inputs of matrix products in training, if supported"
    add_choice(parser, "--precision", PRECISIONS, help)


def add_orders(parser: argparse.ArgumentParser, default: int | None) -> None:
    """Add the options --n-orders and --n-jobs."""
    few = "4 up to 500 labels and without --readouts, --device and --precision"
    shown = default or f"{few}, otherwise 1"
    help = f"number of random orders of each dataset (default: {shown})"
    parser.add_argument("--n-orders", type=int, default=default, metavar="N", help=help)
    add(parser, "--n-jobs", "number of runs in parallel", "N", 2)


def add_permutations(parser: argparse.ArgumentParser) -> None:
    """Add the option --permutations."""
    help = "label permutations, such as 99, for a test with kernels (default: no test)"
    add(parser, "--permutations", help, "N", type=int)


def add_readouts(parser: argparse.ArgumentParser, automatic: str | None = None) -> None:
    """Add the option --readouts. ``automatic`` describes a default that varies."""
    help = (
        "list of readouts: default; linear (only linear kernels, for few labels); "
        "closed-form (no networks, which is faster); nets (only networks); mixed (adds "
        "nearest neighbours and refitted classifiers to the default); drift (adds "
        "kernels that forget); or stream (networks that learn each row once)"
    )
    if automatic is None:
        add_choice(parser, "--readouts", READOUTS, help)
    else:
        help = f"{help} (default: {automatic})"
        add(parser, "--readouts", help, choices=READOUTS)


def readouts_of(options: argparse.Namespace) -> str | None:
    """Return a switcher's parameter ``readouts``, or None for the default list."""
    return None if options.readouts in (None, READOUTS[0]) else options.readouts


def add_switcher(parser: argparse.ArgumentParser) -> None:
    """Add the options that :func:`switcher_of` uses."""
    add_readouts(parser)
    help = "prior over readouts, such as bayes or fixed-share:m=11"
    add(parser, "--switching", help, "PRIOR", "learned-share")
    help = "evaluate the rows in the order of the file, without shuffling"
    parser.add_argument("--keep-order", action="store_true", help=help)
    add_seed(parser)
    add_device(parser)


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add the option --targets, which :func:`kind_of` uses."""
    help = "kind of labels; auto treats floats as real numbers unless all are whole"
    add_choice(parser, "--targets", ("auto", "classes", "real"), help)


def kind_of(options: argparse.Namespace, labels: Mapping[str, np.ndarray]) -> type[Any]:
    """Return the switcher class for the labels, or raise if their kinds differ."""
    check = sklearn_mdl.model_selection.checked_targets
    real = [name for name, y in labels.items() if check(y, name, options.targets)]
    if 0 < len(real) < len(labels):
        raise ValueError(
            "Labels must be classes on all datasets or real numbers on all, but those "
            f"of {real[0]} are real numbers; rank one kind at a time with --datasets D"
        )
    if real:
        return sklearn_mdl.MDLReadoutSwitcherRegressor
    return sklearn_mdl.MDLReadoutSwitcher


def switcher_of(
    options: argparse.Namespace,
    n_jobs: int | None = None,
    kind: type[Any] | None = None,
) -> Any:
    """Return the switcher that the options describe."""
    return (kind or sklearn_mdl.MDLReadoutSwitcher)(
        readouts_of(options),
        switching=parse_prior(options.switching),
        device=options.device,
        precision=options.precision,
        shuffle=not options.keep_order,
        n_jobs=n_jobs,
        random_state=options.seed,
        verbose=1,
    )


def parse_prior(text: str) -> sklearn_mdl.switching.SwitchingPrior:
    """Return the prior for ``name`` or ``name:param=value,...``.

    Values that are not Python literals are read as plain text.
    """
    name, colon, rest = text.partition(":")
    prior = sklearn_mdl.switching.as_prior(name)
    known = prior.get_params()
    # Only a comma before a name and "=" separates items. Other commas are in tuples.
    for item in re.split(r",(?=\s*\w+\s*=)", rest) if colon else []:
        param, equals, value = (part.strip() for part in item.partition("="))
        if not equals or param not in known:
            form = f":PARAM=VALUE,... with PARAM among {sorted(known)}" * bool(known)
            right = f"{name}:{','.join(f'{k}={v}' for k, v in known.items())}"
            raise ValueError(
                f"A prior must be given as {name}{form}, got {item!r}; write "
                f"{right.rstrip(':')}"
            )
        prior.set_params(**{param: _literal(value)})
    prior.check_params()
    return prior


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def load_rows(
    features: Path, labels: Path, targets: str = "classes"
) -> tuple[np.ndarray, np.ndarray]:
    """Load features and their labels. Errors name the file."""
    X = sklearn_mdl.datasets.load_features(features)
    y = np.asarray(sklearn_mdl.datasets.load_labels(labels))
    sklearn_mdl.model_selection.checked_targets(y, str(labels), targets)
    sklearn_mdl.model_selection.check_features(X, y, str(features))
    return X, y


def check_apart(outputs: Iterable[Path], inputs: Iterable[Path | None]) -> None:
    """Raise if an output is the same file as an input, even by a link."""
    given = [path for path in inputs if path is not None and path.exists()]
    for output in outputs:
        same = [path for path in given if output.exists() and output.samefile(path)]
        if same:
            raise ValueError(
                f"Output must not replace the input {str(same[0])!r}, got "
                f"{str(output)!r}; pass another output path"
            )


def check_output(
    path: Path,
    inputs: Iterable[Path | None],
    is_ours: Callable[[Path], bool] | None = None,
) -> None:
    """Raise if the output is an input or if it cannot be written.

    An existing file is refused unless ``is_ours`` returns True for it.
    """
    check_apart([path], inputs)
    from sklearn_mdl._core.io.whole_files import make_folder, refuse_foreign  # slow

    if not path.parent.is_dir() or path.is_dir():
        raise FileNotFoundError(
            f"Output must be a file in an existing folder, got {str(path)!r}; run "
            f"mkdir -p {path.parent}, or add a file name"
        )
    make_folder(path.parent)  # raises if it is not writable
    refuse_foreign(path, is_ours)


def check_outside(features: Path, out: Path) -> None:
    """Raise if the results would be written into the folder of features."""
    features = features.resolve()
    for folder in (out.resolve(), (out / "cells").resolve()):
        if folder.is_relative_to(features):
            raise ValueError(
                f"Results must go to a folder outside {str(features)!r}, got "
                f"{str(out)!r}; pass --out {features}-results"
            )


def nats_line(title: str, width: int, nats: float, n_samples: int) -> str:
    """Return a line with a title, a codelength and the codelength per example."""
    return f"{title:<{width}} {nats:12.1f} nats  {nats / n_samples:8.4f} per example"


def can_draw() -> bool:
    """Return True if matplotlib, from the extra ``plot``, is installed."""
    return find_spec("matplotlib") is not None
