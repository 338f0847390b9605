"""What a ranking says first: both codes, the verdict in words, what stands beside."""

import csv
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs

import sklearn_mdl.report._figures
from sklearn_mdl import (
    LinearReadout,
    MDLReadoutSwitcher,
    MLPReadout,
    MultiOutputSwitcher,
    RepresentationScorer,
    write_results,
)
from sklearn_mdl.cli._main import main
from sklearn_mdl.model_selection._cells import digest_of

SWITCHING = "switching (Li et al. 2023)"


def readouts():
    return [LinearReadout(lr=0.01), MLPReadout((4,), lr=0.01)]


def blobs(seed=0, n=60):
    return make_blobs(n, 3, centers=2, random_state=seed, cluster_std=4)


def rank(pooling=None, n_datasets=2, **options):
    data = {}
    for d in range(n_datasets):
        X, y = blobs(d)
        data[f"d{d}"] = {"narrow": X[:, :1], "wide": X}, y
    switcher = MDLReadoutSwitcher(readouts(), pooling=pooling)
    return RepresentationScorer(switcher, **options).fit(data)


@pytest.fixture(scope="module")
def pooled():
    return rank(["linear", "mlp"], n_orders=2)


@pytest.fixture
def without_figures(monkeypatch):
    monkeypatch.setattr(sklearn_mdl.report._figures, "find_spec", lambda name: None)


# Both codes


def test_cells_hold_both_codes(pooled):
    for cell in pooled.cells_:
        X, y = blobs(int(cell.dataset[1]))
        X = X[:, : cell.n_features]
        order = np.random.default_rng([0, cell.order]).permutation(60)
        switcher = MDLReadoutSwitcher(
            readouts(), pooling=["linear", "mlp"], random_state=0
        ).fit(X[order], y[order])
        assert cell.codelength == pytest.approx(switcher.codelength_)
        assert cell.switching_codelength == pytest.approx(
            switcher.switching_codelength_
        )
        assert cell.switching_codelength != cell.codelength
        assert cell.pool_groups == switcher.pool_groups_ == ["linear", "mlp"]
        assert cell.accuracy == switcher.measures().accuracy


def test_tables_and_files_hold_both_codes(pooled, tmp_path, without_figures):
    write_results(pooled, tmp_path)
    record = json.loads((tmp_path / "cells.json").read_text())["cells"]
    with (tmp_path / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    for found in (record, rows):
        nats = [float(cell["switching_codelength"]) for cell in found]
        assert nats == [cell.switching_codelength for cell in pooled.cells_]
    with (tmp_path / "ranking.csv").open() as file:
        rows = {row["encoder"]: row for row in csv.DictReader(file)}
    for e, name in enumerate(pooled.encoder_names_):
        nats = [float(rows[name][f"{d}, {SWITCHING}"]) for d in ("d0", "d1")]
        assert_allclose(nats, pooled.switching_codelengths_[:, e] / 60)
    page = (tmp_path / "report.html").read_text()
    for text in (page, pooled.summary(), pooled.to_frame().to_string()):
        assert "switching" in text
    assert SWITCHING in page
    assert "pooled (nats)" in pooled.summary()
    assert pooled.to_latex("switching") != pooled.to_latex("codelengths")


def test_where_nothing_is_pooled_there_is_one_column(tmp_path, without_figures):
    scorer = rank(None)
    assert not scorer.is_pooled_
    assert_array_equal(scorer.switching_codelengths_, scorer.codelengths_)
    write_results(scorer, tmp_path)
    page = (tmp_path / "report.html").read_text()
    for text in (page, scorer.summary(), (tmp_path / "ranking.csv").read_text()):
        assert SWITCHING not in text
        assert "pooled" not in text
    assert "codelength (nats)" in scorer.summary()


@pytest.mark.parametrize("pooling", [None, ["linear", "mlp"]])
def test_score_prints_both_codes_if_there_are_two(
    tmp_path, capsys, monkeypatch, pooling
):
    X, y = blobs()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    switcher = MDLReadoutSwitcher(readouts(), pooling=pooling, random_state=0)
    monkeypatch.setattr(
        sklearn_mdl.cli._options, "switcher_of", lambda *given: switcher
    )
    assert main(["score", str(tmp_path / "X.npy"), str(tmp_path / "y.npy")]) == 0
    printed = capsys.readouterr().out
    assert (SWITCHING in printed) == ("pooled" in printed) == (pooling is not None)
    assert f"{switcher.codelength_:.1f} nats" in printed
    assert f"{switcher.switching_codelength_:.1f} nats" in printed


def test_codes_of_several_outputs_add_up():
    X, y = blobs()
    switcher = MDLReadoutSwitcher(readouts(), pooling=["linear", "mlp"])
    switcher.set_params(random_state=0)
    found = MultiOutputSwitcher(switcher).fit(X, np.stack([y, y[::-1]], axis=1))
    each = found.estimators_
    expected = sum(one.switching_codelengths_ for one in each)
    assert_array_equal(found.switching_codelengths_, expected)
    assert found.switching_codelength_ == pytest.approx(expected.sum())
    assert found.switching_codelength_ != found.codelength_
    alone = MultiOutputSwitcher(LinearReadout(random_state=0)).fit(X, y[:, None])
    assert alone.switching_codelength_ == alone.codelength_


def test_a_cell_kept_without_the_other_code_is_run_again(tmp_path):
    scorer = rank(None, 1, results=tmp_path)
    path = next((tmp_path / "cells").glob("*wide*.json"))
    content = json.loads(path.read_text())
    del content["sha256"], content["cell"]["switching_codelength"]
    content["format"] = 1
    path.write_text(json.dumps({"sha256": digest_of(content), **content}))
    with pytest.warns(UserWarning, match="format is 1, not 2; the cell is run again"):
        again = rank(None, 1, results=tmp_path)
    assert_array_equal(again.codelengths_, scorer.codelengths_)
