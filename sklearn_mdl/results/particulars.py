"""What a reader needs in order to compute the same again, and to cite it."""

from __future__ import annotations

import json
from typing import Any

from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.results.page import Wrapped, folded, paragraph, preformatted, table
from sklearn_mdl.results.settings import settings_as_text

CITATION = """@inproceedings{li2023evaluating,
  title     = {Evaluating Representations with Readout Model Switching},
  author    = {Li, Yazhe and Bornschein, Jorg and Hutter, Marcus},
  booktitle = {International Conference on Learning Representations},
  year      = {2023},
  url       = {https://arxiv.org/abs/2302.09579}
}

@article{demsar2006statistical,
  title   = {Statistical Comparisons of Classifiers over Multiple Data Sets},
  author  = {Dem{\\v{s}}ar, Janez},
  journal = {Journal of Machine Learning Research},
  volume  = {7},
  pages   = {1--30},
  year    = {2006}
}

@article{benavoli2017time,
  title   = {Time for a Change: a Tutorial for Comparing Multiple Classifiers Through
             {Bayesian} Analysis},
  author  = {Benavoli, Alessio and Corani, Giorgio and Dem{\\v{s}}ar, Janez and
             Zaffalon, Marco},
  journal = {Journal of Machine Learning Research},
  volume  = {18},
  pages   = {1--36},
  year    = {2017}
}
"""


def particulars(scorer: RepresentationScorer) -> tuple[str, str]:
    """Return data, settings and surroundings as a section."""
    rows = [
        [
            cell.dataset,
            f"{cell.n_samples}",
            f"{cell.n_classes}",
            f"{cell.uniform / cell.n_samples:.4f}",
            cell.data["labels"][:16],
        ]
        for cell in scorer.first_cells_
    ]
    html = table(["dataset", "examples", "classes", "uniform code", "labels"], rows)
    html += paragraph(
        "The uniform code is in nats per example; of the SHA-256 of the labels these "
        "are the first digits. Those of features stand in cells.json.",
        note=True,
    )
    given = settings_as_text(scorer)
    html += table(
        ["setting", "value"], [[name, Wrapped(text)] for name, text in given.items()]
    )
    first = scorer.cells_[0]
    html += folded("readouts of the first cell", _lines(list(first.readouts)))
    html += folded("surroundings of the first cell", _json(first.environment))
    return "Data and settings", html


def _lines(names: list[str]) -> str:
    return preformatted("\n".join(names))


def _json(content: Any) -> str:
    return preformatted(json.dumps(content, indent=1))
