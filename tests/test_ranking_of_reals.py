"""Laws of rankings by codelengths of real labels, which may be negative."""

import json

import numpy as np
import pytest

from sklearn_mdl import (
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    RepresentationScorer,
    write_results,
)
from sklearn_mdl.cli._main import main
from sklearn_mdl.readouts import KernelReadoutRegressor

N = 60
SMALL = MDLReadoutSwitcherRegressor([KernelReadoutRegressor("linear")])


def study(scale=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = scale * (X @ [1.0, 2.0, 0.0] + 0.1 * rng.normal(size=N))
    return {"all": X, "some": X[:, :1], "none": rng.normal(size=(N, 2))}, y


def ranked(datasets, switcher=SMALL, **options):
    return RepresentationScorer(switcher, n_orders=2, **options).fit(datasets)


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    units = {"metres": study(), "parts": study(1e-4)}
    return ranked(units, results=tmp_path_factory.mktemp("results"))


def test_encoders_are_ranked_by_the_nats_of_the_regressor(scorer):
    features, y = study(1e-4)
    order = np.random.default_rng([0, 1]).permutation(N)
    one = SMALL.set_params(random_state=0).fit(features["some"][order], y[order])
    assert scorer.order_codelengths_[1, 1, 1] == one.codelength_
    assert (scorer.codelengths_[1] < 0).all()  # densities beyond one
    np.testing.assert_array_equal(scorer.average_ranks_, [1, 2, 3])
    gaussian = [cell.frequency for cell in scorer.cells_ if cell.dataset == "parts"]
    saved = (np.mean(gaussian[:2]) - scorer.codelengths_[1]) / N
    np.testing.assert_allclose(scorer.savings_per_example()[1], saved)
    assert one.reference_codelengths_.sum() == gaussian[1]


def test_deviations_relative_to_negative_codelengths_are_positive(scorer):
    spread = scorer.order_spread()
    assert (spread.relative > 0).all()
    np.testing.assert_allclose(spread.relative * np.abs(spread.mean), spread.std)


def test_statistics_of_ratios_are_those_of_densities(scorer):
    features, y = study()
    own = MDLReadoutSwitcherRegressor([KernelReadoutRegressor("linear")])
    wide, narrow = (
        own.set_params(prior_scale=scale, random_state=0)
        .fit(features["all"], scale * y)
        .codelength_
        for scale in (1.0, 1e-4)
    )
    # Other units move all codes alike, so that no comparison changes.
    assert wide - narrow == pytest.approx(-N * np.log(1e-4))
    wins = scorer.win_table(rope=0.01)
    assert wins.wins[0, 1] == 2
    assert scorer.pairwise_wilcoxon().p_values.shape == (3,)
    shares = scorer.bayesian_signed_rank([("all", "none")])
    assert shares.p_first[0] > 0.9
    assert scorer.verdict().best == "all"
    assert scorer.verdict().datasets[1].worse == ["some", "none"]


def test_cells_of_reals_are_kept_and_reported(scorer, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("a cell was run again")

    monkeypatch.setattr("sklearn_mdl.model_selection._running.score_cell", never)
    units = {"metres": study(), "parts": study(1e-4)}
    again = ranked(units, results=scorer.results)
    np.testing.assert_array_equal(again.codelengths_, scorer.codelengths_)
    assert np.isnan(again.accuracies_).all()
    text = again.summary()
    assert "real labels, Gaussian code of labels alone" in text
    assert "nan" not in text
    write_results(again, tmp_path)
    assert json.loads((tmp_path / "statistics.json").read_text())
    assert "Gaussian" in (tmp_path / "report.html").read_text()


def test_labels_say_what_they_are_unless_they_are_told():
    features, y = study()
    some = {"all": features["all"][:, :2]}
    datasets = {"real": (some, y), "whole": (some, np.rint(y) % 3)}
    with pytest.raises(ValueError, match=r"must hold classes, .* use MDLRead"):
        ranked(datasets, MDLReadoutSwitcher("closed-form"))
    found = RepresentationScorer().fit({n: datasets[n] for n in ("real", "whole")})
    assert [cell.is_real for cell in found.first_cells_] == [True, False]
    both = RepresentationScorer(SMALL).fit({"whole": datasets["whole"]})
    assert both.cells_[0].is_real
    with pytest.raises(ValueError, match=r"two or more values, got \[0.*'d'"):
        ranked({"d": (some, 0.5 + 1e-14 * y)})
    wide = np.where(np.arange(len(y)) % 2, 120, -120).astype(np.int8)
    assert ranked({"d": (some, wide)}).codelengths_.shape == (1, 1)
    with pytest.raises(ValueError, match="Dataset 'd' must hold a label for every row"):
        ranked({"d": (some, np.r_[np.nan, y[1:]])})
    with pytest.raises(ValueError, match="must be real numbers of shape"):
        ranked({"d": (some, y.astype(str))})


def test_the_command_line_codes_and_ranks_reals(tmp_path, capsys):
    features, y = study(1e-4)
    folder = tmp_path / "features" / "parts"
    folder.mkdir(parents=True)
    for name, array in {**features, "labels": y}.items():
        np.save(folder / f"{name}.npy", array)
    quick = ["--readouts", "closed-form"]
    files = [str(folder / "all.npy"), str(folder / "labels.npy")]
    assert main(["score", *files, *quick]) == 0
    own = MDLReadoutSwitcherRegressor("closed-form", shuffle=True, random_state=0)
    printed = capsys.readouterr().out
    assert f"{own.fit(features['all'], y).codelength_:.1f} nats" in printed
    assert "Gaussian code" in printed
    out = ["--out", str(tmp_path / "out"), "--n-jobs", "1"]
    assert main(["rank", str(folder.parent), *quick, *out]) == 0
    assert "all has the shortest code" in capsys.readouterr().out
