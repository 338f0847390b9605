"""Codelengths in the results of mteb.

mteb repeatedly fits a classifier on a few rows of the train split and scores it on the
evaluation split. A codelength needs no train split. The labels of the evaluation split
are coded once, given their embeddings. The result is added to the scores of every
experiment.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar, cast

import numpy as np
import torch
from sklearn.base import clone, is_regressor

from sklearn_mdl._core.base.estimator import OnlineEstimator
from sklearn_mdl._core.validation import as_labels
from sklearn_mdl.metrics import frequency_codelength
from sklearn_mdl.switcher import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor

TaskT = TypeVar("TaskT")


def with_codelength(
    task: TaskT,
    switcher: MDLReadoutSwitcher | MDLReadoutSwitcherRegressor | None = None,
) -> TaskT:
    """Return a copy of an mteb task whose scores include codelengths.

    ``mteb.evaluate(model, with_codelength(task))`` writes the usual result file with
    the same main score. It adds ``codelength`` (nats for all labels of the evaluation
    split) and ``nats_per_label``. For classification, it also adds
    ``frequency_nats_per_label``, the nats per label of a code that ignores embeddings.
    The task's ``evaluator_model`` still makes the predictions.

    Parameters
    ----------
    task : mteb.AbsTaskClassification or AbsTaskRegression
        The task, which is not modified.
    switcher : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor, default=None
        Switcher to copy. The default is a classifier or regressor, as the task
        requires, with ``"closed-form"`` readouts and ``shuffle=True``.

    Returns
    -------
    task : object
        A task of the same class and name. If mteb has cached results under this name,
        it reuses them without codelengths. To avoid this, pass another ``cache`` or
        ``overwrite_strategy="always"`` to ``mteb.evaluate``.

    Raises
    ------
    TypeError
        If the task is of another kind, or has several labels per row.
    """
    names = [cls.__name__ for cls in type(task).__mro__]
    several = "AbsTaskMultilabelClassification" in names
    if several or "AbsTaskClassification" not in names:
        cure = "for example, pass mteb.get_task('Banking77Classification')"
        if several:
            cure = "fit MultiOutputSwitcher() on the embeddings and labels instead"
        raise TypeError(
            "task must be an AbsTaskClassification or AbsTaskRegression of mteb, got "
            f"{type(task).__name__}; {cure}"
        )
    changed: Any = copy.copy(task)
    if switcher is None:
        is_real = is_regressor(changed.evaluator_model)
        kind = MDLReadoutSwitcherRegressor if is_real else MDLReadoutSwitcher
        switcher = kind("closed-form", shuffle=True, random_state=0)
    changed._run_experiment = _Experiment(changed, clone(switcher))
    return cast(TaskT, changed)


class _Experiment:
    """Replacement of a task's ``_run_experiment`` that adds codelengths."""

    def __init__(self, task: Any, switcher: OnlineEstimator) -> None:
        self.task, self.switcher = task, switcher
        self.coded: tuple[object, dict[str, float]] | None = None

    def __call__(
        self,
        train_split: Any,
        eval_split: Any,
        train_embeddings: Any,
        test_embeddings: Any,
        **options: Any,
    ) -> tuple[dict[str, Any], list[float]]:
        """Run the experiment and add codelengths to its scores."""
        rows = train_split, eval_split, train_embeddings, test_embeddings
        run = type(self.task)._run_experiment
        scores, predictions = run(self.task, *rows, **options)
        if self.coded is None or self.coded[0] is not test_embeddings:
            labels = eval_split[self.task.label_column_name]
            nats = nats_of(self.switcher, test_embeddings, labels)
            self.coded = test_embeddings, nats
        return {**scores, **self.coded[1]}, predictions


def nats_of(switcher: OnlineEstimator, X: Any, y: Any) -> dict[str, float]:
    """Fit a copy of the switcher, and return its codelengths keyed by name."""
    labels = np.asarray(as_labels(list(y)))
    if isinstance(X, torch.Tensor):
        X = X.detach().float().cpu()
    fitted: Any = clone(switcher).fit(np.asarray(X), labels)
    nats = float(fitted.codelength_)
    scores = {"codelength": nats, "nats_per_label": nats / len(labels)}
    if hasattr(fitted, "classes_"):
        reference = frequency_codelength(labels, len(fitted.classes_))
        scores["frequency_nats_per_label"] = reference / len(labels)
    return scores
