"""Feature files, embeddings from other programs, train-test splits, and VTAB."""

from sklearn_mdl.datasets._files import (
    load_encoders as load_encoders,
    load_feature_directory,
    load_features,
    load_groups,
    load_labels,
)
from sklearn_mdl.datasets._readers.loading import load_representations
from sklearn_mdl.datasets._readers.parts import (
    Representations,
    groups_of as groups_of,
    labels_of as labels_of,
    number_of as number_of,
    parsed as parsed,
)
from sklearn_mdl.datasets._readers.shards import stage_rows
from sklearn_mdl.datasets._readers.text_tables import read_csv as read_csv
from sklearn_mdl.datasets._shift import TrainTestShift, train_test_shift
from sklearn_mdl.datasets._splits import prequential_order, reshuffle
from sklearn_mdl.datasets._vtab.data import VTAB_TASKS, VtabData, VtabTask
from sklearn_mdl.datasets._vtab.loading import load_vtab

__all__ = [
    "VTAB_TASKS",
    "Representations",
    "TrainTestShift",
    "VtabData",
    "VtabTask",
    "load_feature_directory",
    "load_features",
    "load_groups",
    "load_labels",
    "load_representations",
    "load_vtab",
    "prequential_order",
    "reshuffle",
    "stage_rows",
    "train_test_shift",
]
