"""Every example runs, without a warning, and draws what it says."""

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NEEDS = {"encode_images": "timm"}
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, monkeypatch, tmp_path):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert bool(plt.get_fignums()) == path.stem.startswith("plot_")
    plt.close("all")
