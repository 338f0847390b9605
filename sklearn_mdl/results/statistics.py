"""All that a ranking says of its encoders, as JSON can hold it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_mdl.ranking.pairs import MOST_ENCODERS
from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.representation.readouts import mean_posteriors
from sklearn_mdl.representation.statistics import RankStatistics
from sklearn_mdl.representation.table import has_tests


def statistics_of(scorer: RepresentationScorer) -> dict[str, Any]:
    """Return statistics of all datasets together, and of every group apart."""
    return {
        **_statistics(scorer),
        "n_orders": scorer.n_orders,
        "mean_posteriors": _by_name(scorer, mean_posteriors(scorer)),
        "groups": {name: _statistics(r) for name, r in scorer.groups_.items()},
        "failures": [failure._asdict() for failure in scorer.failures_],
    }


def compared(ranking: RankStatistics) -> int | None:
    """Return how many of the best encoders are compared in pairs: None is all."""
    n_encoders = len(ranking.encoder_names_)
    return None if n_encoders <= MOST_ENCODERS else MOST_ENCODERS


def _statistics(ranking: RankStatistics) -> dict[str, Any]:
    names = ranking.encoder_names_
    found: dict[str, Any] = {
        "datasets": ranking.dataset_names_,
        "encoders": names,
        "alpha": ranking.alpha,
        "codelengths": _by_name(ranking, ranking.codelengths_.tolist()),
        "saved_per_example": {
            reference: _by_name(ranking, ranking.saved_per_example(reference).tolist())
            for reference in ("uniform", "frequency")
        },
        "preferred_readouts": _by_name(ranking, ranking.preferred_readouts()),
        "average_ranks": dict(zip(names, ranking.average_ranks_.tolist(), strict=True)),
        "critical_difference": ranking.critical_difference_,
    }
    if ranking.order_codelengths_.shape[-1] > 1:
        found["orders"] = _orders(ranking)
    return {**found, **_tests(ranking)} if has_tests(ranking) else found


def _orders(ranking: RankStatistics) -> dict[str, Any]:
    spread = ranking.order_spread()
    found = {
        "standard_deviations": _by_name(ranking, spread.std.tolist()),
        "relative": _by_name(ranking, spread.relative.tolist()),
    }
    if len(ranking.encoder_names_) > 1:
        paired = ranking.paired_differences(top_k=compared(ranking))
        arrays = {
            name: getattr(paired, name).tolist()
            for name in ("mean", "std", "lower", "upper")
        }
        pairs = _names(ranking, paired.pairs)
        found["paired_differences"] = {"pairs": pairs, **arrays, "level": paired.level}
    return found


def _tests(ranking: RankStatistics) -> dict[str, Any]:
    top_k, friedman = compared(ranking), ranking.friedman_test()
    intervals = ranking.rank_intervals()
    wilcoxon = ranking.pairwise_wilcoxon(top_k=top_k)
    bayesian = ranking.bayesian_signed_rank(top_k=top_k)
    wins = ranking.win_table()
    return {
        "friedman": {
            "chi2": friedman.statistic,
            "p_value": friedman.p_value,
            "f": friedman.f_statistic,
            "f_p_value": friedman.f_p_value,
        },
        "rank_intervals": _listed(intervals, "lower", "upper", "p_best", "level"),
        "nemenyi_p_values": ranking.nemenyi_p_values().tolist(),
        "groups_not_told_apart": [
            [ranking.encoder_names_[i] for i in group]
            for group in ranking.rank_groups()
        ],
        "wilcoxon": {
            "pairs": _names(ranking, wilcoxon.pairs),
            **_listed(wilcoxon, "median_log_ratios", "p_values", "adjusted_p_values"),
        },
        "bayesian_signed_rank": {
            "pairs": _names(ranking, bayesian.pairs),
            **_listed(bayesian, "p_first", "p_equivalent", "p_second", "rope"),
        },
        "wins": wins.wins.tolist(),
        "ties": wins.ties.tolist(),
    }


def _listed(result: Any, *names: str) -> dict[str, Any]:
    return {name: np.asarray(getattr(result, name)).tolist() for name in names}


def _names(ranking: RankStatistics, pairs: np.ndarray) -> list[list[str]]:
    return [[ranking.encoder_names_[i] for i in pair] for pair in pairs.tolist()]


def _by_name(ranking: RankStatistics, table: list[list[Any]]) -> dict[str, Any]:
    """Give rows the names of datasets, and columns those of encoders."""
    return {
        dataset: dict(zip(ranking.encoder_names_, row, strict=True))
        for dataset, row in zip(ranking.dataset_names_, table, strict=True)
    }
