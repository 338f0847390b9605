"""What would make a codelength lie: labels inside the features, weights on the labels.

A codelength is what it costs to send labels to someone who has the features. If the
features were made with these very labels, the receiver has them already; if labels
count by weights, the sum is the length of no message. Both are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

WEIGHTS = ("sample_weight", "class_weight")


def labelled_step(transformer: Any) -> str | None:
    """Name of the first step that would fit on the labels, None if there is none.

    Features may depend on no label that is coded: selecting the best of 1,000 random
    features by the labels "compresses" random labels. What is frozen was fitted before.
    """
    if transformer is None or isinstance(transformer, (FrozenEstimator, str)):
        return None
    steps = _steps(transformer)
    for step in steps:
        name = labelled_step(step)
        if name is not None:
            return name
    return type(transformer).__name__ if not steps and _learns_y(transformer) else None


def _steps(transformer: Any) -> list[Any]:
    """List the estimators that a composed transformer fits on its X and y."""
    match transformer:
        case Pipeline():
            return [step for _, step in transformer.steps]
        case FeatureUnion():
            return [step for _, step in transformer.transformer_list]
        case ColumnTransformer():
            steps = [step for _, step, _ in transformer.transformers]
            return [*steps, transformer.remainder]
        case SelectorMixin(estimator=estimator) | object(estimator=estimator, cv=_):
            return [estimator]  # a selector by a model, a search
    return []


def _learns_y(transformer: Any) -> bool:
    """Tags tell, but for selectors by a score of y and, in PLS, the mere signature."""
    y = signature(transformer.fit).parameters.get("y")
    return (
        get_tags(transformer).target_tags.required
        or (y is not None and y.default is y.empty)
        or (
            isinstance(transformer, SelectorMixin)
            and hasattr(transformer, "score_func")
        )
    )


def refuse_labelled(transformer: Any, name: str) -> None:
    """Raise ValueError if a transformer would see the labels that are coded."""
    step = labelled_step(transformer)
    if step is not None:
        raise ValueError(
            f"An encoder must be fitted without the labels that are coded, but {name} "
            f"holds {step}, which requires y; fit it on other data and pass "
            "FrozenEstimator(...) around it"
        )


def refuse_weights(given: Mapping[str, Any], caller: str) -> None:
    """Raise TypeError for what a caller was given beside X and y, weights by name."""
    for name in given:
        if name in WEIGHTS:
            raise TypeError(
                f"{caller} needs labels that all count once, since a weighted sum is "
                f"the length of no code, but got {name}; leave it out, and repeat or "
                "drop rows to weigh them"
            )
        raise TypeError(f"{caller} takes X and y, but got {name}; leave it out")
