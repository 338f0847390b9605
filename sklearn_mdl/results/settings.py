"""The parameters of a ranking that its numbers depend on."""

from __future__ import annotations

from typing import Any

from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.representation.identity import settings_of_cells
from sklearn_mdl.switcher import MDLReadoutSwitcher

CHANGE_NOTHING = {"results", "n_jobs", "verbose"}


def settings_as_text(scorer: RepresentationScorer) -> dict[str, str]:
    """Return them as text, by name."""
    return {
        name: repr(value)
        for name, value in scorer.get_params(deep=False).items()
        if name not in CHANGE_NOTHING
    }


def switcher_as_json(scorer: RepresentationScorer) -> dict[str, Any]:
    """Return the settings of the walk in full, where they can be written down."""
    switcher = MDLReadoutSwitcher() if scorer.switcher is None else scorer.switcher
    try:
        return settings_of_cells(switcher)
    except TypeError as error:  # not needed for a ranking, only to keep its cells
        return {"not written down": str(error)}
