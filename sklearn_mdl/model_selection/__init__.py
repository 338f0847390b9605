"""Rank representations and select models by codelength."""

from sklearn_mdl.model_selection._cells import Cell as Cell
from sklearn_mdl.model_selection._certainty import (
    TRAINING as TRAINING,
    total_variance as total_variance,
)
from sklearn_mdl.model_selection._eliminate import out_rows as out_rows
from sklearn_mdl.model_selection._encoding import (
    Failure as Failure,
    check_features as check_features,
    checked_targets as checked_targets,
    gather as gather,
    owned as owned,
)
from sklearn_mdl.model_selection._export import ExportedProbe, export_probe
from sklearn_mdl.model_selection._file_names import file_stems as file_stems
from sklearn_mdl.model_selection._given import checked_datasets as checked_datasets
from sklearn_mdl.model_selection._mteb import with_codelength
from sklearn_mdl.model_selection._race import EncoderRace
from sklearn_mdl.model_selection._ranking import Ranking
from sklearn_mdl.model_selection._representation_scorer import RepresentationScorer
from sklearn_mdl.model_selection._running import (
    LATE as LATE,
    run_side_by_side as run_side_by_side,
)
from sklearn_mdl.model_selection._scorers import (
    PrequentialSplit,
    codelength_scorer,
    heldout_codelength_scorer,
    refit_codelength_scorer,
)
from sklearn_mdl.model_selection._statistics import RankStatistics as RankStatistics
from sklearn_mdl.model_selection._tables import (
    POOLED as POOLED,
    SWITCHING as SWITCHING,
    as_rows as as_rows,
    cell_table as cell_table,
    codelength_table as codelength_table,
    columns_of as columns_of,
    friedman_text as friedman_text,
    has_tests as has_tests,
    permutation_text as permutation_text,
    rank_table as rank_table,
    ranking_text as ranking_text,
    readout_table as readout_table,
    settings_text as settings_text,
    spread_text as spread_text,
)
from sklearn_mdl.model_selection._task_sequence import TaskSequence
from sklearn_mdl.model_selection._tasks import (
    Switcher as Switcher,
    default_switcher as default_switcher,
    on_equal_terms as on_equal_terms,
    settings_of_cells as settings_of_cells,
    versions as versions,
)
from sklearn_mdl.model_selection._two_axes import two_axes
from sklearn_mdl.model_selection._verdict import Verdict as Verdict, rounded as rounded
from sklearn_mdl.model_selection._views import ViewComparison, compare_views

__all__ = [
    "EncoderRace",
    "ExportedProbe",
    "PrequentialSplit",
    "Ranking",
    "RepresentationScorer",
    "TaskSequence",
    "ViewComparison",
    "codelength_scorer",
    "compare_views",
    "export_probe",
    "heldout_codelength_scorer",
    "refit_codelength_scorer",
    "two_axes",
    "with_codelength",
]
