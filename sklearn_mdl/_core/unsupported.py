"""All pairs of options and functions that cannot be combined, and the reasons.

No other code may refuse a pair whose parts are supported separately. Pairs may be
removed from the table, but not added. Tests draw pairs and compare them with the table.
"""

from __future__ import annotations

ESCAPE = 'new_classes="escape"'
DELAY = "label_delay"
GROUPS = "groups"
PERMUTATIONS = "a permutation test"
WRAPPED = "readouts that wrap models"

UNSUPPORTED: dict[tuple[str, str], str] = {
    (ESCAPE, GROUPS): "a new class must be known by the next row",
    (ESCAPE, DELAY): "a new class must be known by the next row",
    (ESCAPE, "stored mixtures"): "their files have one column per class",
    (ESCAPE, PERMUTATIONS): "permuting labels changes where classes first appear",
    (ESCAPE, "a comparison of streams"): "all streams must code the same classes",
    (PERMUTATIONS, GROUPS): "labels are permuted across groups",
    (PERMUTATIONS, DELAY): "permuted labels must be known immediately",
    (WRAPPED, 'n_jobs="processes"'): "processes exchange only numbers, not code",
    (WRAPPED, "files"): "an estimator's file contains only numbers, not code",
    (GROUPS, "scorers that code rows"): "scikit-learn's scorers are given no groups",
    ("real labels", "messages"): "a real number has a density, but no probability",
    ('precision="tf32"', "n_jobs"): "torch has one precision for all threads",
    ("images", "views"): "columns of an image are not features",
}


def unsupported(
    one: str, other: str, cure: str, kind: type[Exception] = ValueError
) -> Exception:
    """Return the error for two options or functions that cannot be combined.

    Parameters
    ----------
    one, other : str
        Names of the two, which together are a key of `UNSUPPORTED`.
    cure : str
        What to write instead.
    kind : type
        Type of the error.
    """
    reason = UNSUPPORTED[one, other]
    return kind(f"{one} cannot be combined with {other}, because {reason}; {cure}")
