"""One page for a ranking: tables, figures, settings, and how to cite. No network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_mdl.conditions import version_of
from sklearn_mdl.protocols import ProtocolComparison
from sklearn_mdl.representation import RepresentationScorer
from sklearn_mdl.representation.readouts import most_often
from sklearn_mdl.representation.statistics import RankStatistics
from sklearn_mdl.representation.table import friedman_text, has_tests, spread_text
from sklearn_mdl.results.comparisons import side_by_side
from sklearn_mdl.results.figures import Figure
from sklearn_mdl.results.page import (
    Bold,
    Words,
    folded,
    heading,
    page,
    paragraph,
    picture,
    preformatted,
    table,
)
from sklearn_mdl.results.particulars import CITATION, particulars

Section = tuple[str, str]


def write_report(
    scorer: RepresentationScorer,
    path: Path,
    figures: Sequence[Figure],
    statistics: dict[str, Any],
    comparison: ProtocolComparison | None = None,
) -> Path:
    """Write the page, and return its path.

    Parameters
    ----------
    scorer : RepresentationScorer
        Fitted.
    path : Path
    figures : sequence of Figure
        Figures of the ranking, which become part of the page.
    statistics : dict
        As ``statistics_of`` returns them.
    comparison : ProtocolComparison or None
        Other measures, for a section of their own.
    """
    n_encoders, n_datasets = len(scorer.encoder_names_), len(scorer.dataset_names_)
    pictures = {figure.path.stem: picture(*figure[:2]) for figure in figures}
    sections = [_ranks(scorer, pictures)]
    if scorer.groups_:
        sections.append(_groups(scorer, figures))
    sections.append(_codelengths(scorer, pictures))
    if has_tests(scorer):
        sections.append(_pairs(statistics))
    sections.append(_readouts(scorer, pictures))
    if scorer.n_orders > 1:
        sections.append(_orders(scorer))
    if comparison is not None:
        sections.append(side_by_side(comparison))
    sections += [
        *([_failures(scorer)] if scorer.failures_ else []),
        *([_datasets(figures)] if figures else []),
        particulars(scorer),
        ("How to cite", _citation()),
    ]
    title = (
        f"{n_encoders} encoder{'s' * (n_encoders > 1)} on {n_datasets} "
        f"dataset{'s' * (n_datasets > 1)}"
    )
    text = page(title, sections, _lead(scorer))
    path.write_text(text, encoding="utf-8")
    return path


def _lead(scorer: RepresentationScorer) -> str:
    best = scorer.encoder_names_[int(np.argmin(scorer.average_ranks_))]
    found = paragraph(
        "Codelengths of labels given features, by readout model switching: every label "
        "is predicted before it is seen, by many readouts, and the log-losses of their "
        "mixture add up. Shorter is better. All numbers are in nats."
    )
    if len(scorer.encoder_names_) > 1:
        found += paragraph(
            f"The best average rank is that of {best}, "
            f"{scorer.average_ranks_.min():.2f}."
        )
    if has_tests(scorer):
        text = friedman_text(scorer)
        found += paragraph(
            f"Average ranks closer than {scorer.critical_difference_:.2f} are not told "
            f"apart (Nemenyi, alpha = {scorer.alpha:g}); bars join them in the figure. "
            f"{text[0].upper()}{text[1:]}."
        )
    return found


def _rank_table(ranking: RankStatistics) -> str:
    head, tested = ["encoder", "average rank"], has_tests(ranking)
    if tested:
        found = ranking.rank_intervals()
        head += [f"{found.level:.0%} interval", "best in resamples"]
    rows = []
    for e in np.argsort(ranking.average_ranks_, kind="stable"):
        row = [ranking.encoder_names_[e], f"{ranking.average_ranks_[e]:.2f}"]
        if tested:
            row.append(f"{found.lower[e]:.2f} to {found.upper[e]:.2f}")
            row.append(f"{found.p_best[e]:.2f}")
        rows.append(row)
    return table(head, rows)


def _ranks(scorer: RepresentationScorer, pictures: dict[str, str]) -> Section:
    html = _rank_table(scorer)
    html += pictures.get("average_ranks", "") + pictures.get("rank_intervals", "")
    if has_tests(scorer):
        html += paragraph(
            "Intervals come from resampled datasets, as if one had drawn other tasks "
            "of the same kind; they are too short where datasets are few.",
            note=True,
        )
    if "ranks_by_size" in pictures:
        html += paragraph(
            "The ranks with fewer labels, by the codelengths of the first of them on "
            "every dataset, up to the length of the shortest."
        )
        html += pictures["ranks_by_size"]
    return "Average ranks", html


def _groups(scorer: RepresentationScorer, figures: Sequence[Figure]) -> Section:
    html = ""
    for name, ranking in scorer.groups_.items():
        html += heading(name) + paragraph(", ".join(ranking.dataset_names_), note=True)
        html += _rank_table(ranking)
        if has_tests(ranking):
            text = friedman_text(ranking)
            html += paragraph(text[0].upper() + text[1:] + ".")
        html += "".join(
            picture(figure.path, figure.text)
            for figure in figures
            if figure.group == name
        )
    return "Groups of datasets", html


def _codelengths(scorer: RepresentationScorer, pictures: dict[str, str]) -> Section:
    sizes = [cell.n_samples for cell in scorer.first_cells_]
    nats = scorer.codelengths_ / np.array(sizes)[:, None]
    best = nats.argmin(axis=1)
    rows = [
        [
            name,
            *(
                Bold(f"{x:.4f}") if e == best[d] else f"{x:.4f}"
                for d, x in enumerate(nats[:, e])
            ),
        ]
        for e, name in enumerate(scorer.encoder_names_)
    ]
    for title in ("uniform", "frequency"):
        codes = [getattr(c, title) / c.n_samples for c in scorer.first_cells_]
        names = {"uniform": "uniform code", "frequency": "label frequencies"}
        rows.append([names[title], *(f"{x:.4f}" for x in codes)])
    html = paragraph("Nats per example, means over orders; the shortest code is bold.")
    html += table(["encoder", *scorer.dataset_names_], rows)
    return "Codelengths", html + pictures.get("saved", "")


def _pairs(statistics: dict[str, Any]) -> Section:
    """Tabulate tests of pairs, those with the smallest p-values first."""
    wilcoxon, bayesian = statistics["wilcoxon"], statistics["bayesian_signed_rank"]
    places = {name: i for i, name in enumerate(statistics["encoders"])}
    wins, ties = statistics["wins"], statistics["ties"]
    rows = []
    for k in np.argsort(wilcoxon["p_values"], kind="stable"):
        first, second = wilcoxon["pairs"][k]
        i, j = places[first], places[second]
        rows.append(
            [
                first,
                Words(second),
                f"{np.exp(wilcoxon['median_log_ratios'][k]):.3f}",
                f"{wins[i][j]} - {ties[i][j]} - {wins[j][i]}",
                f"{wilcoxon['p_values'][k]:.2g}",
                f"{wilcoxon['adjusted_p_values'][k]:.2g}",
                f"{bayesian['p_first'][k]:.2f}",
                f"{bayesian['p_equivalent'][k]:.2f}",
                f"{bayesian['p_second'][k]:.2f}",
            ]
        )
    head = [
        *("first", "second", "median ratio", "won - tied - lost", "p", "p (Holm)"),
        *("P(first)", "P(equivalent)", "P(second)"),
    ]
    html = paragraph(
        "By the log ratios of codelengths: Wilcoxon's signed-rank test, with Holm's "
        "correction for all pairs here, and posterior probabilities that the first "
        "code is practically shorter, that they are equivalent "
        f"(within {bayesian['rope']:.0%}), or that the second is."
    )
    return "Pairs of encoders", html + table(head, rows)


def _readouts(scorer: RepresentationScorer, pictures: dict[str, str]) -> Section:
    by_encoder = zip(*scorer.preferred_readouts(), strict=True)
    rows = [
        [name, *names, most_often(list(names))]
        for name, names in zip(scorer.encoder_names_, by_encoder, strict=True)
    ]
    html = paragraph(
        "The architecture with the largest posterior probability, a mean over examples "
        "and orders."
    )
    head = ["encoder", *scorer.dataset_names_, "most often"]
    html += table(head, rows, words=True) + pictures.get("preferred_readouts", "")
    return "Preferred readouts", html


def _orders(scorer: RepresentationScorer) -> Section:
    text = spread_text(scorer)
    html = paragraph(f"{text[0].upper()}{text[1:]}.")
    relative = scorer.order_spread().relative
    rows = [
        [name, *(f"{share:.2%}" for share in relative[:, e])]
        for e, name in enumerate(scorer.encoder_names_)
    ]
    html += table(["encoder", *scorer.dataset_names_], rows)
    if len(scorer.encoder_names_) > 1:
        html += _differences(scorer)
    return f"{scorer.n_orders} orders", html


def _differences(scorer: RepresentationScorer) -> str:
    """Tabulate what every encoder costs more than the one of the best average rank."""
    names = scorer.encoder_names_
    best = names[int(np.argmin(scorer.average_ranks_))]
    others = [name for name in names if name != best]
    found = scorer.paired_differences([(name, best) for name in others])
    rows = [
        [
            name,
            *(
                f"{mean:+.1f} ({lower:+.1f} to {upper:+.1f})"
                for mean, lower, upper in zip(*columns, strict=True)
            ),
        ]
        for name, *columns in zip(
            others, found.mean, found.lower, found.upper, strict=True
        )
    ]
    return paragraph(
        f"What each encoder costs more than {best}, in nats: means over the orders "
        f"that they share, with {found.level:.0%} intervals (Student)."
    ) + table(["encoder", *scorer.dataset_names_], rows)


def _failures(scorer: RepresentationScorer) -> Section:
    lost = dict.fromkeys(failure.dataset for failure in scorer.failures_)
    html = paragraph(f"Left out, since cells failed on them: {', '.join(lost)}.")
    for failure in scorer.failures_:
        html += folded(str(failure), preformatted(failure.details or failure.error))
    return "What failed", html


def _datasets(figures: Sequence[Figure]) -> Section:
    names = dict.fromkeys(f.about for f in figures if f.about is not None)
    html = ""
    for name in names:
        drawn = [picture(f.path, f.text) for f in figures if f.about == name]
        html += folded(name, "".join(drawn))
    return "Dataset by dataset", html


def _citation() -> str:
    return paragraph(
        "The method is that of Li, Bornschein and Hutter (2023); average ranks and the "
        "critical difference follow Demšar (2006), tests of pairs Benavoli et al. "
        f"(2017). Computed with sklearn_mdl {version_of('sklearn_mdl')}."
    ) + preformatted(CITATION)
