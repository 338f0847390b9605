"""``sklearn-mdl rank``: rank encoders by their features on disk."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sklearn_mdl
from sklearn_mdl.cli import _options, _text

if TYPE_CHECKING:
    from sklearn_mdl.baselines import ProtocolComparison


HELP = "Rank encoders from their precomputed features."
EXAMPLE = "sklearn-mdl rank features --out ranking --n-orders 3"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    help = (
        "folder with DATASET/ENCODER.npy, DATASET/labels.npy and, for rows in groups, "
        "DATASET/groups.npy; or one such DATASET; or an .h5ad, .parquet, .npz or .h5 "
        "file, or a folder of them; or a folder of Hugging Face datasets, eva or HEAR; "
        "or a .csv file of labelled texts, which are encoded by n-grams"
    )
    _options.add(parser, "features", help, "FEATURES", type=Path)
    help = "column to use as labels, if a file has several columns of labels"
    _options.add(parser, "--label", help, "COLUMN")
    help = "column of texts in a .csv file (default: text)"
    _options.add(parser, "--text", help, "COLUMN")
    help = "use only rows of these splits, named in the files (default: all rows)"
    _options.add(parser, "--splits", help, "NAME", nargs="+")
    help = "column with each row's group, such as a patient (default: groups.npy)"
    _options.add(parser, "--groups", help, "COLUMN")
    _options.add_results(parser, default=Path("ranking"))
    _options.add_selection(parser)
    help = "what to do if a dataset lacks features of an encoder, or a row its label"
    _options.add_choice(parser, "--missing", ("raise", "drop"), help)
    help = "also rank the encoders on only this group of datasets; may be repeated"
    _options.add(parser, "--dataset-group", help, "NAME=DATASET,...", action="append")
    help = "score at most --n-orders orders, and start no run after this time"
    _options.add(parser, "--time-budget", help, "SECONDS", type=float)
    help = (
        "race the encoders on each dataset first, and do not score those that lose to "
        "the same encoder on every dataset; N, such as 0.05, limits approximately the "
        "probability of eliminating the best encoder on a dataset (default: no race)"
    )
    _options.add(parser, "--eliminate", help, "N", type=float)
    help = "also score the N best encoders in pairs, concatenated (default: no pairs)"
    _options.add(parser, "--pairs", help, "N", type=int)
    help = "only list the runs, with their memory and the estimated time"
    parser.add_argument("--dry-run", action="store_true", help=help)
    help = "also report the accuracy of a linear probe on a held-out fifth of the rows"
    parser.add_argument("--accuracy", action="store_true", help=help)
    few = "linear for at most 500 class labels, closed-form for at most 2,048 labels"
    others = "the list named default for more labels, or with --device or --precision"
    _options.add_readouts(parser, f"{few}; {others}")
    _options.add_targets(parser)
    _options.add_permutations(parser)
    _options.add_device(parser)
    help = "significance level of tests; intervals have level 1 - alpha"
    _options.add(parser, "--alpha", help, "N", 0.1)
    _options.add_seed(parser)
    _options.add_orders(parser, default=None)


def run(options: argparse.Namespace) -> None:
    """Rank the encoders at a path and write the results, or only list the runs."""
    # This import takes long, so it is not at the top.
    from sklearn_mdl._core.io.whole_files import make_folder, refuse_foreign_in

    _options.check_outside(options.features, options.out)
    _check_pairs(options)
    if _text.is_table(options):
        representations = _text.encoded_table(options)
    else:
        _check_datasets(options.features, options.datasets or [])
        representations = sklearn_mdl.datasets.load_representations(
            options.features,
            label=options.label,
            splits=options.splits,
            groups=options.groups,
            missing=options.missing,
        )
    datasets = _options.selected(representations.datasets, options)
    representations = representations._replace(datasets=datasets)
    grouped = [name for name, parts in datasets.items() if len(parts) == 3]
    if options.accuracy and grouped:
        raise ValueError(
            "--accuracy needs datasets without groups, since held-out rows would split "
            f"groups, but {grouped[0]!r} has groups; leave out --accuracy"
        )
    scorer = sklearn_mdl.RepresentationScorer(
        _switcher(options, datasets),
        targets=options.targets,
        n_orders="auto" if options.n_orders is None else options.n_orders,
        time_budget=options.time_budget,
        alpha=options.alpha,
        dataset_groups=_groups(options.dataset_group or []),
        missing=options.missing,
        results=options.out,
        n_permutations=options.permutations,
        eliminate=options.eliminate,
        n_jobs=options.n_jobs,
        random_state=options.seed,
        verbose=1,
    )
    if options.dry_run:
        # dry_run may raise, so print nothing before.
        print(representations, scorer.dry_run(datasets), sep="\n\n")
        return
    make_folder(options.out)
    written = {*sklearn_mdl.report.RESULTS}
    refuse_foreign_in(
        options.out, written if options.accuracy else written - {"protocols.csv"}
    )
    scorer.fit(datasets)
    pairs = sklearn_mdl.report.side_by_side(scorer, datasets, options.pairs or 0)
    comparison = _accuracies(scorer, datasets) if options.accuracy else None
    print_results(scorer, options.out, comparison, pairs)
    print(f"\n{representations}")
    print(f"saved cells in {options.out / 'cells'}, which another run reuses")


def _switcher(options: argparse.Namespace, datasets: _options.Features) -> Any:
    """Return the switcher that the options describe, or None for the default one."""
    where = {"device": options.device, "precision": options.precision}
    if options.readouts is None and where == {"device": "auto", "precision": "float32"}:
        return None
    labels = {f"dataset {name!r}": parts[1] for name, parts in datasets.items()}
    return _options.kind_of(options, labels)(_options.readouts_of(options), **where)


def _accuracies(
    scorer: sklearn_mdl.RepresentationScorer, datasets: _options.Features
) -> ProtocolComparison:
    """Return the held-out accuracies of linear probes on the ranked datasets."""
    return sklearn_mdl.compare_protocols(
        None,
        {name: datasets[name] for name in scorer.dataset_names_},
        protocols=["linear"],
        random_state=scorer.random_state,
        n_jobs=scorer.n_jobs,
    )


def _check_pairs(options: argparse.Namespace) -> None:
    """Raise if --pairs is below 2 or is combined with --time-budget."""
    pairs = options.pairs
    if pairs is not None and pairs < 2:
        raise ValueError(f"--pairs must be at least 2, got {pairs}; pass --pairs 3")
    if pairs is not None and options.time_budget is not None:
        raise ValueError(
            "--pairs cannot be combined with --time-budget, because a pair needs the "
            "same orders as its encoders; leave out --pairs or --time-budget"
        )


def _check_datasets(features: Path, names: Sequence[str]) -> None:
    """Raise for an unknown dataset before any features are loaded."""
    folders = [path for path in features.glob("*") if path.is_dir()]
    inner = (path for folder in folders for path in folder.glob("*"))
    files = [features.resolve(), *features.glob("*"), *filter(Path.is_dir, inner)]
    known = {path.stem for path in files} | {path.name for path in files}
    unknown = [name for name in names if name not in known]
    if folders:
        _options.named({path.name: path for path in folders}, unknown, "--datasets")


def _groups(texts: Sequence[str]) -> dict[str, list[str]] | None:
    """Parse groups of datasets, such as ``natural=cifar100,svhn``."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        name, equals, members = text.partition("=")
        if not (name and equals and members) or name in groups:
            raise ValueError(
                "--dataset-group must be NAME=DATASET,..., with each NAME once, got "
                f"{text!r}; for example, pass --dataset-group natural=cifar100,svhn"
            )
        groups[name] = members.split(",")
    return groups or None


def print_results(
    scorer: sklearn_mdl.RepresentationScorer,
    out: Path,
    comparison: ProtocolComparison | None = None,
    pairs: tuple[Any, Any] = ({}, None),
) -> None:
    """Print a ranking, write its tables and page, and print the paths of the files."""
    print(scorer.summary())
    result = sklearn_mdl.report.Comparison(scorer, {}, *pairs)
    if pairs[0]:
        print(f"\n{result.lines()[-1]}")
    for name, ranking in scorer.dataset_groups_.items():
        title = f"Average ranks on {name}"
        print(f"\n{sklearn_mdl.model_selection.ranking_text(ranking, title)}")
    if comparison is not None:
        print(f"\n{comparison.summary()}")
    seconds = sum(cell.seconds for cell in scorer.cells_)
    print(f"\n{len(scorer.cells_)} cells, {seconds / len(scorer.cells_):.1f} s each")
    for path in sklearn_mdl.write_results(result, out, comparison):
        print(f"wrote {path}")
