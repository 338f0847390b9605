"""Whole numbers as floats are classes or real numbers, and nobody guesses which."""

import warnings

import numpy as np
import pytest
from each_case import for_each
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    RepresentationScorer,
)
from sklearn_mdl._core.validation import may_be_real
from sklearn_mdl.cli._main import main
from sklearn_mdl.datasets import load_representations

X, Y = load_diabetes(return_X_y=True)
X, Y = X[:60], Y[:60]  # 54 whole numbers
SMALL = MDLReadoutSwitcher([KernelReadout("linear")])


def values(n, different):
    return np.arange(n) % different


@for_each(
    "labels, expected",
    [
        (values(400, 20) * 1.0, False),
        (values(400, 21) * 1.0, True),
        (values(40, 10) * 1.0, False),
        (values(40, 11) * 1.0, True),
        (values(4, 2) * 1.0, False),
        (values(8, 3) * 1.0, True),
        (values(400, 21), False),
        (values(400, 21).astype(str), False),
        (values(400, 21) + 0.5, False),  # clearly real
        (load_diabetes().target, True),
    ],
)
def test_the_rule_is_the_one_that_is_stated(labels, expected):
    assert may_be_real(labels) == expected


def test_a_ranking_refuses_to_guess():
    datasets = {"diabetes": (X, Y)}
    cure = 'targets="real".*targets="classes"'
    for use in (
        lambda scorer: scorer.fit(datasets, {"raw": None}),
        lambda scorer: scorer.dry_run(datasets, {"raw": None}),
        lambda scorer: scorer(StandardScaler().fit(X), X, Y),
    ):
        with pytest.raises(ValueError, match=f"54 different whole numbers.*{cure}"):
            use(RepresentationScorer())
    real = RepresentationScorer(targets="real", n_orders=1)
    assert real.fit(datasets, {"raw": None}).cells_[0].n_classes == 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")
        as_said = RepresentationScorer(targets="classes", n_orders=1)
        assert as_said.fit(datasets, {"raw": None}).cells_[0].n_classes == 54


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_a_classifier_takes_them_with_a_warning():
    with pytest.warns(UserWarning, match=r"Regressor .*asarray\(y, int\)") as caught:
        MDLReadoutSwitcher([KernelReadout("linear")]).fit(X, Y)
    assert [w.filename for w in caught if "asarray" in str(w.message)] == [__file__]
    with pytest.warns(UserWarning, match=r"asarray\(y, int\).*'diabetes'"):
        RepresentationScorer(SMALL).fit({"diabetes": ({"raw": X}, Y)})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*(astype|asarray)")
        MDLReadoutSwitcher([KernelReadout("linear")]).fit(X, Y.astype(int))
        MDLReadoutSwitcherRegressor("closed-form").fit(X, Y)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_the_command_line_asks(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study" / "ages").mkdir(parents=True)
    np.save("study/ages/raw.npy", X)
    np.save("study/ages/labels.npy", Y)
    files = ["study/ages/raw.npy", "study/ages/labels.npy"]
    for command in (["rank", "study"], ["score", *files]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "--targets real" in said
        assert "--targets classes" in said
    assert (
        main(["score", *files, "--targets", "real", "--readouts", "closed-form"]) == 0
    )
    assert "real labels" in capsys.readouterr().out
    assert main(["score", *files, "--targets", "classes", "--readouts", "linear"]) == 0
    assert "54 classes" in capsys.readouterr().out


def test_a_file_of_such_labels_is_not_said_to_hold_classes(tmp_path):
    np.savez(tmp_path / "ages.npz", raw=X, labels=Y)
    assert "classes" not in str(load_representations(tmp_path / "ages.npz"))
