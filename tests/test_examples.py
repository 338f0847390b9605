"""Every example runs, without a warning, and draws what it says."""

import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from image_cases import SHARED

NEEDS = {
    "plot_encode_images": "timm",
    "plot_data_efficiency": "PIL",
    "plot_finetune_or_not": "PIL",
}
FROM_FOLDERS = {"plot_rank_pretrained_encoders": SHARED / "features"}
# Examples of many seconds even on few rows; the gallery of `make docs` has them all.
LONG = {
    *("plot_layers_and_positions", "plot_data_efficiency", "plot_layer_and_pooling"),
    *("plot_compare_protocols", "plot_accuracy_or_rank", "plot_finetune_or_not"),
    *("plot_permutation_importance", "plot_text_encoders", "plot_which_layer"),
    *("plot_equal_compute", "plot_rank_encoders", "plot_encode_images"),
    *("plot_train_test_shift", "plot_kernel_map", "plot_preferred_readouts"),
}
# How many digits are enough to see that an example runs; the whole of it is slow.
FEW_DIGITS = {
    "plot_accuracy_or_rank": 100,
    "plot_as_in_torchgeo_bench": 80,
    "plot_codelength": 200,
    "plot_compare_protocols": 100,
    "plot_data_efficiency": 64,
    "plot_equal_compute": 100,
    "plot_kernel_map": 400,
    "plot_late_classes": 150,
    "plot_layer_and_pooling": 100,
    "plot_order_variance": 100,
    "plot_posterior": 200,
    "plot_preferred_readouts": 100,
    "plot_switching_strategies": 200,
    "plot_which_layer": 40,
}
SLOW = LONG | set(FROM_FOLDERS)
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*/*.py"))
N_DIGITS = re.compile(r"^N_DIGITS = \d+", re.MULTILINE)


def run(path, n_digits=None):
    """Run an example, on fewer digits than it says if asked to."""
    if n_digits is None:
        runpy.run_path(str(path), run_name="__main__")
        return
    source, n_found = N_DIGITS.subn(f"N_DIGITS = {n_digits}", path.read_text("utf-8"))
    assert n_found == 1
    exec(compile(source, path, "exec"), {"__name__": "__main__", "__file__": str(path)})


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if path.stem in SLOW else ())
        for path in EXAMPLES
    ],
    ids=lambda path: path.stem,
)
def test_example_runs(path, monkeypatch, tmp_path, capsys):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    if path.stem in FROM_FOLDERS:
        folder = FROM_FOLDERS[path.stem]
        if not folder.is_dir():
            pytest.skip(f"needs {folder.name}")
        monkeypatch.setenv("SKLEARN_MDL_DATA", str(folder.parent))
    monkeypatch.chdir(tmp_path)
    plt.close("all")  # figures of other tests
    monkeypatch.setattr(plt, "show", lambda: None)
    run(path, FEW_DIGITS.get(path.stem))
    assert plt.get_fignums()
    assert not re.search(r"\bnan\b", capsys.readouterr().out)
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW_DIGITS)
def test_example_runs_on_all_of_its_digits(name, monkeypatch, tmp_path, capsys):
    (path,) = (path for path in EXAMPLES if path.stem == name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    run(path)
    assert plt.get_fignums()
    assert not re.search(r"\bnan\b", capsys.readouterr().out)
    plt.close("all")


@pytest.mark.parametrize("name", FROM_FOLDERS)
def test_example_without_its_data_says_in_a_sentence_what_it_lacks(
    name, monkeypatch, tmp_path, capsys
):
    (path,) = (path for path in EXAMPLES if path.stem == name)
    monkeypatch.setenv("SKLEARN_MDL_DATA", str(tmp_path))
    run(path)
    needed = tmp_path / "features" / "cifar10"
    assert capsys.readouterr().out == (
        f"This example found no labels.npy in {needed}; run `export "
        "SKLEARN_MDL_DATA=FOLDER`, where FOLDER contains features/.\n"
    )
    assert plt.get_fignums() == []
