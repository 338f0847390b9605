"""Measures that others take of representations, to be set beside the codelength."""

from sklearn_mdl.protocols.blockwise import BlockwiseCode
from sklearn_mdl.protocols.comparing import compare_protocols
from sklearn_mdl.protocols.comparison import ProtocolComparison
from sklearn_mdl.protocols.controls import (
    Selectivity,
    cluster_types,
    control_labels,
    selectivity,
)
from sklearn_mdl.protocols.evidence import LogEvidence, log_evidence
from sklearn_mdl.protocols.references import RandomEncoder
from sklearn_mdl.protocols.subsamples import SubsampledLosses, subsampled_losses
from sklearn_mdl.protocols.variational import VariationalCode

__all__ = [
    "BlockwiseCode",
    "LogEvidence",
    "ProtocolComparison",
    "RandomEncoder",
    "Selectivity",
    "SubsampledLosses",
    "VariationalCode",
    "cluster_types",
    "compare_protocols",
    "control_labels",
    "log_evidence",
    "selectivity",
    "subsampled_losses",
]
