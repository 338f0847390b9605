"""Files that other libraries wrote, read back: all rows, columns and kinds."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_wine

from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer, write_results
from sklearn_mdl.datasets import load_representations

pd = pytest.importorskip("pandas")
X, Y = load_wine(return_X_y=True)
X = X.astype(np.float32)
NAMES = np.array(["barolo", "grignolino", "barbera"])[Y]
FEATURES = {"all": X, "few": X[:, :3]}


def assert_found(found, labels=NAMES, rows=slice(None)):
    ((features, y),) = found.datasets.values()
    assert_array_equal(y, labels[rows])
    for name, array in FEATURES.items():
        assert_array_equal(features[name], array[rows])


def adata_of(anndata, labels):
    obs = pd.DataFrame({"cell_type": labels, "n": np.arange(len(Y))})
    obs.index = [f"cell{i}" for i in range(len(Y))]
    return anndata.AnnData(X=X, obs=obs, obsm=dict(FEATURES))


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize(
    "kind", ["category", "str", "string", "Int64", "bool", "int64"]
)
def test_anndata(tmp_path, kind, compression):
    anndata = pytest.importorskip("anndata")
    given = NAMES if kind in ("category", "str", "string") else Y > 0
    labels = pd.Series(given).astype(kind)
    adata = adata_of(
        anndata, labels.to_numpy() if kind != "category" else labels.values
    )
    adata.obs["cell_type"] = labels.set_axis(adata.obs_names)
    adata.obs["patient"] = pd.Categorical(np.arange(len(labels)) // 2)
    with anndata.settings.override(allow_write_nullable_strings=True):
        adata.write_h5ad(tmp_path / "a.h5ad", compression=compression)
    found = load_representations(tmp_path / "a.h5ad", label="cell_type")
    assert_found(found, np.asarray(given))
    assert_found(load_representations(adata, label="cell_type"), np.asarray(given))
    for source in (tmp_path / "a.h5ad", adata):
        own = load_representations(source, label="cell_type", groups="patient")
        ((_, _, groups),) = own.datasets.values()
        np.testing.assert_array_equal(groups, adata.obs["patient"].astype(str))
    is_mapped = isinstance(found.datasets["a"][0]["all"], np.memmap)
    assert is_mapped == (compression is None)


def test_anndata_with_gaps(tmp_path):
    anndata = pytest.importorskip("anndata")
    labels = pd.Categorical([None, *NAMES[1:]])
    adata = adata_of(anndata, labels)
    adata.obsm["frame"] = pd.DataFrame(X[:, :2], adata.obs_names, ["a", "b"])
    adata.write_h5ad(tmp_path / "a.h5ad")
    for source in (tmp_path / "a.h5ad", adata):
        with pytest.raises(ValueError, match=r"1 of 178 .* have none"):
            load_representations(source)
        found = load_representations(source, missing="drop")
        assert_found(found, rows=slice(1, None))


def test_the_scorer_takes_an_anndata():
    anndata = pytest.importorskip("anndata")
    scorer = RepresentationScorer(MDLReadoutSwitcher("closed-form"))
    scorer.fit({"wine": (adata_of(anndata, NAMES), "cell_type")})
    assert scorer.encoder_names_ == ["all", "few"]
    assert scorer.average_ranks_[0] == 1


def frame():
    lists = {name: array.tolist() for name, array in FEATURES.items()}
    return {"label": NAMES.tolist(), **lists}


@pytest.mark.parametrize("as_array", [False, True])
def test_huggingface_datasets(tmp_path, as_array):
    datasets = pytest.importorskip("datasets")
    names = sorted(set(NAMES))
    kinds = {"label": datasets.ClassLabel(names=names)}
    for name, array in FEATURES.items():
        length = array.shape[1] if as_array else -1
        kinds[name] = datasets.Sequence(datasets.Value("float32"), length=length)
    table = {**frame(), "label": [names.index(name) for name in NAMES]}
    made = datasets.Dataset.from_dict(table, features=datasets.Features(kinds))
    made.save_to_disk(tmp_path / "one")
    assert_found(load_representations(tmp_path / "one"))
    parts = {"train": made.select(range(100)), "test": made.select(range(100, 178))}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "two")
    assert_found(load_representations(tmp_path / "two"))
    test = load_representations(tmp_path / "two", splits=["test"])
    assert_found(test, rows=slice(100, None))
    made.to_parquet(tmp_path / "a.parquet")
    assert_found(load_representations(tmp_path / "a.parquet"))
    made.shuffle(seed=0).save_to_disk(tmp_path / "shuffled")
    ((features, y),) = load_representations(tmp_path / "shuffled").datasets.values()
    order = np.array(made.shuffle(seed=0)["all"], dtype=np.float32)
    assert_array_equal(features["all"], order)
    assert_array_equal(np.sort(y), np.sort(NAMES))


def test_parquet_of_polars_and_pandas(tmp_path):
    pl = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    pl.DataFrame(frame()).write_parquet(tmp_path / "polars.parquet")
    pd.DataFrame(frame()).to_parquet(tmp_path / "pandas.parquet")
    for name in ("polars", "pandas"):
        found = load_representations(tmp_path / f"{name}.parquet")
        ((features, y),) = found.datasets.values()
        assert_array_equal(features["few"].astype(np.float32), FEATURES["few"])
        assert_array_equal(y, NAMES)


def test_evaluma_ranks_our_scores(tmp_path):
    evaluma = pytest.importorskip("evaluma")
    scorer = RepresentationScorer(MDLReadoutSwitcher("closed-form"))
    noise = np.random.default_rng(0).normal(size=X.shape)
    features = {**FEATURES, "noise": noise}
    scorer.fit({"one": (features, NAMES), "two": (features, Y > 0)})
    write_results(scorer, tmp_path)
    table = evaluma.load_csv(str(tmp_path / "scores.csv")).aggregate_ranking().table
    best_first = np.argsort(scorer.average_ranks_)
    assert list(table["model"]) == [scorer.encoder_names_[e] for e in best_first]
