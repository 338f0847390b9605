"""Other measures of encoders: probes, codes, evidence, RankMe and control tasks."""

from sklearn_mdl.baselines._blockwise import BlockwiseCode
from sklearn_mdl.baselines._compare import compare_protocols
from sklearn_mdl.baselines._comparison import (
    ProtocolComparison,
    best_first as best_first,
    number as number,
    value_text as value_text,
)
from sklearn_mdl.baselines._control_tasks import (
    RandomEncoder,
    Selectivity,
    cluster_types,
    control_labels,
    selectivity,
)
from sklearn_mdl.baselines._evidence import LogEvidence, log_evidence, rank_me
from sklearn_mdl.baselines._net_probes import LinearProbe, MLPProbe
from sklearn_mdl.baselines._probes import KNeighborsProbe
from sklearn_mdl.baselines._refits import SubsampledLosses, subsampled_losses
from sklearn_mdl.baselines._usable_information import (
    UsableInformation,
    usable_information,
)
from sklearn_mdl.baselines._variational import VariationalCode

__all__ = [
    "BlockwiseCode",
    "KNeighborsProbe",
    "LinearProbe",
    "LogEvidence",
    "MLPProbe",
    "ProtocolComparison",
    "RandomEncoder",
    "Selectivity",
    "SubsampledLosses",
    "UsableInformation",
    "VariationalCode",
    "cluster_types",
    "compare_protocols",
    "control_labels",
    "log_evidence",
    "rank_me",
    "selectivity",
    "subsampled_losses",
    "usable_information",
]
