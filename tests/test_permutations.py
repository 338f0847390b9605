"""Permutations of labels: one factor codes them as refits would, and a p-value."""

import csv

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.preprocessing import FunctionTransformer

from sklearn_mdl import (
    KernelReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    RepresentationScorer,
    write_results,
)
from sklearn_mdl._core.stream.learner import BY_BLOCKS, RowsAhead
from sklearn_mdl.cli._main import main
from sklearn_mdl.readouts import KernelReadoutRegressor, _row_learners

# Kernels whose scaling or width follows the rows, or none; units that follow labels.
RAW = {"kernel": "rbf", "gamma": 0.01, "scaling": None}
CLASSES = [
    KernelReadout("rbf", width=0.3),
    KernelReadout(scaling="centered-unit", alpha=0.3),
    KernelReadout(**RAW),
]
NUMBERS = [
    KernelReadoutRegressor(likelihood="gaussian"),
    KernelReadoutRegressor("rbf", scaling="unit"),
    KernelReadoutRegressor(**RAW, standardize_targets=False),
    KernelReadoutRegressor(scaling="unit", alpha=0.5),
]

NO_KERNEL = (
    "^A permutation test needs a kernel that keeps all rows and does not whiten by "
    'class, got none; add one or, for example, pass readouts="closed-form"$'
)


def digits(n):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    return X[order], y[order]


@pytest.mark.quick("classes-64-block", "numbers-None-row")
@pytest.mark.parametrize("ahead", [BY_BLOCKS, RowsAhead(32, 16)], ids=["row", "block"])
@pytest.mark.parametrize("bound", [64, None])
@pytest.mark.parametrize("numeric", [False, True], ids=["classes", "numbers"])
def test_codes_of_many_labellings_are_those_of_each_alone(
    numeric, bound, ahead, monkeypatch
):
    monkeypatch.setattr(_row_learners, "BY_BLOCKS", ahead)
    X, y = digits(110)
    y = X[:, 48:].sum(1) + 0.5 * y if numeric else y
    readouts = [
        clone(readout).set_params(max_exact=bound)
        for readout in (NUMBERS if numeric else CLASSES)
    ]
    kind = MDLReadoutSwitcherRegressor if numeric else MDLReadoutSwitcher
    switcher = kind(readouts, shuffle=True, random_state=0).fit(X, y)
    test = switcher.permutation_test(3)
    rng = np.random.default_rng([switcher._seed, 1])
    X, y = X[switcher.order_], y[switcher.order_]
    sets = [y, *(rng.permutation(y) for _ in range(3))]
    fits = [kind(readouts, switching="fixed-share").fit(X, own) for own in sets]
    found = [test.codelength, *test.null_codelengths]
    assert_allclose(found, [fit.codelength_ for fit in fits], rtol=1e-9)
    assert test.p_value == 1 / 4
    again = fits[0].permutation_test(1, shuffled=True)
    assert again.codelength == pytest.approx(found[0], rel=1e-9)
    assert_allclose(switcher.null_codelengths(3), test.null_codelengths, rtol=1e-12)


def test_p_values_of_labels_without_features_are_not_small():
    rng = np.random.default_rng(0)
    values = []
    for seed in range(12):
        X, y = rng.normal(size=(40, 3)), rng.integers(2, size=40)
        readouts = [KernelReadout(scaling="unit")]
        switcher = MDLReadoutSwitcher(readouts, shuffle=True, random_state=seed)
        values.append(switcher.fit(X, y).permutation_test(19).p_value)
    assert np.mean(values) > 0.35
    assert min(values) >= 0.05

    # All codes are equally long, but for rounding.
    narrow = KernelReadoutRegressor(
        "rbf", gamma=1e3, scaling=None, standardize_targets=False
    )
    switcher = MDLReadoutSwitcherRegressor([narrow], shuffle=True, random_state=0)
    test = switcher.fit(X, rng.normal(size=40)).permutation_test(19)
    assert test.p_value == 1


def test_permutations_need_random_order_and_kernels():
    X, y = digits(60)
    readouts = [KernelReadout()]
    with pytest.raises(ValueError, match="needs rows in random order"):
        MDLReadoutSwitcher(readouts).fit(X, y).permutation_test()
    part = MDLReadoutSwitcher(readouts, shuffle=True).fit(X[:40], y[:40])
    assert part.permutation_test(1).p_value <= 1
    part.partial_fit(X[40:], y[40:])  # in the order given
    with pytest.raises(ValueError, match="needs rows in random order"):
        part.permutation_test(1)
    assert part.permutation_test(1, shuffled=True).p_value <= 1
    shuffled = MDLReadoutSwitcher([LinearReadout()], shuffle=True, random_state=0).fit(
        X, y
    )
    with pytest.raises(ValueError, match=NO_KERNEL):
        shuffled.permutation_test()
    with pytest.raises(ValueError, match="n_permutations must be a positive integer"):
        shuffled.null_codelengths(0)


# Rankings


def rank(n_permutations=9, readouts=None, **options):
    X, y = digits(60)
    noise = np.random.default_rng(0).normal(size=(60, 3))
    switcher = MDLReadoutSwitcher(readouts or [LinearReadout(lr=0.01), *CLASSES[:1]])
    scorer = RepresentationScorer(switcher, n_permutations=n_permutations, **options)
    return scorer.fit({"digits": ({"pixels": X, "noise": noise}, y % 2)})


def test_cells_have_p_values_of_their_kernels_alone(tmp_path):
    scorer = rank(np.int64(9), n_orders=2, results=tmp_path)
    X, y = digits(60)
    for cell in scorer.cells_[:2]:
        order = np.random.default_rng([0, cell.order]).permutation(60)
        kernels = MDLReadoutSwitcher(CLASSES[:1], random_state=0)
        kernels.fit(X[order], y[order] % 2)
        test = kernels.permutation_test(9, shuffled=True)
        assert cell.permutations == {
            "n": 9,
            "codelength": test.codelength,
            "mean_null_codelength": test.null_codelengths.mean(),
            "p_value": 0.1,
        }
        assert test.codelength == pytest.approx(kernels.codelength_)
    p_values = [cell.permutation_p_value for cell in scorer.cells_]
    assert min(p_values[2:]) > 0.1  # of noise
    write_results(scorer, tmp_path / "out")
    with (tmp_path / "out" / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["permutation_p_value"]) for row in rows] == p_values
    page = (tmp_path / "out" / "report.html").read_text()
    for text in (scorer.summary(), page):
        assert "p, kernels" in text
        assert "permutations; largest of 2 orders)" in text
        assert f"{max(p_values[2:]):.3g}" in text
    assert rank(n_orders=2, results=tmp_path).cells_[3].seconds == (
        scorer.cells_[3].seconds  # read, not run again
    )
    plain = rank(None, n_orders=2, results=tmp_path)
    assert plain.cells_[0].permutations == {}
    assert "p, kernels" not in plain.summary()
    assert "permutation_p_value" not in plain.to_frame()


def test_scores_from_calls_take_no_permutations(monkeypatch):
    X, y = digits(40)
    identity = FunctionTransformer().fit(X)
    plain = RepresentationScorer(MDLReadoutSwitcher(CLASSES[:1]), n_orders=1)
    scorer = clone(plain).set_params(n_permutations=4)
    monkeypatch.setattr(MDLReadoutSwitcher, "permutation_test", None)
    assert scorer(identity, X, y % 2) == plain(identity, X, y % 2)


@pytest.mark.parametrize("readouts", ["nets", [LinearReadout()], LinearReadout()])
def test_a_ranking_without_kernels_has_nothing_to_permute(readouts):
    with pytest.raises(ValueError, match=NO_KERNEL):
        rank(readouts=readouts)


def test_permutations_combine_with_groups_of_datasets_but_not_of_rows():
    X, y = digits(40)
    cells = {name: ({"pixels": X, "half": X[:, ::2]}, y % 2) for name in ("a", "b")}
    switcher = MDLReadoutSwitcher(CLASSES[:1])
    options = {"n_permutations": 4, "n_orders": 1}
    scorer = RepresentationScorer(switcher, dataset_groups={"all": ["a"]}, **options)
    p_values = [cell.permutation_p_value for cell in scorer.fit(cells).cells_]
    assert max(p_values) <= 1
    grouped = {"a": cells["a"], "b": (*cells["b"], np.arange(40) // 2)}
    with pytest.raises(ValueError, match="permutation test cannot be combined with"):
        RepresentationScorer(switcher, **options).fit(grouped)


def test_the_command_line_permutes_labels(tmp_path, capsys):
    X, y = digits(40)
    folder = tmp_path / "features" / "digits"
    folder.mkdir(parents=True)
    files = [str(folder / "pixels.npy"), str(folder / "labels.npy")]
    for path, array in zip(files, (X, y % 2), strict=True):
        np.save(path, array)
    quick = ["--readouts", "closed-form", "--permutations", "4"]
    assert main(["score", *files, *quick]) == 0
    switcher = MDLReadoutSwitcher("closed-form", shuffle=True, random_state=0)
    test = switcher.fit(X, y % 2).permutation_test(4)
    printed = capsys.readouterr().out
    p_value, nats = f"{test.p_value:.3g}", f"{test.codelength:.1f}"
    assert (
        f"p = {p_value}: kernel readouts need {nats} nats for the labels, " in printed
    )
    assert printed.endswith(" for 4 permutations of them\n")
    study = ["rank", str(tmp_path / "features"), "--out", str(tmp_path / "out")]
    assert main([*study, *quick, "--n-jobs", "1"]) == 0
    assert "p, kernels" in capsys.readouterr().out
    for more, words in (
        (["--keep-order"], "--permutations cannot be combined with --keep-order"),
        (["--readouts", "nets"], "--permutations needs kernel readouts, which"),
        (["--permutations", "0"], "--permutations must be a positive integer, got 0"),
    ):
        assert main(["score", *files, *quick, *more]) == 2
        assert words in capsys.readouterr().err
