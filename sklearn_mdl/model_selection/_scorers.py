"""Model selection by codelength, which needs no held-out data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.estimator import OnlineEstimator
from sklearn_mdl._core.sklearn_compat import num_samples
from sklearn_mdl._core.unsupported import GROUPS, unsupported
from sklearn_mdl._core.validation import refuse_labelled, refuse_weights, warn_caller
from sklearn_mdl.model_selection._returning import count_returning
from sklearn_mdl.switcher import MultiOutputSwitcher

COMPARED_AT_ONCE = 2**22  # number of values in a block of rows
FOLDS = (
    "codelength_scorer needs the training rows, but scored held-out rows as "
    "heldout_codelength_scorer does; in a search or cross-validation, pass "
    "cv=PrequentialSplit(), which holds out no rows; otherwise, call that scorer"
)
OTHER_ROWS = "X holds other rows, or the same rows in another order"


def codelength_scorer(
    estimator: object, X: ArrayLike, y: ArrayLike, *, sample_weight: object = None
) -> float:
    """Score a fitted switcher by the codelength of its training rows.

    Use this scorer in searches and cross-validation with ``cv=PrequentialSplit()``.
    With any other ``cv``, such as the default of a search, the scorer warns and scores
    held-out rows like :func:`heldout_codelength_scorer`. In a pipeline, folds must have
    fewer rows than the fit, so ``cv=2`` raises ValueError. Only compare scores for
    equal ``n_samples``. Nats per example decrease with more examples, since the cost of
    learning is spread over all of them.

    Rows and labels must equal those of the fit. In a pipeline, ``fit_transform`` and
    ``transform`` of a step such as a PCA may differ by rounding. So if the transformed
    rows differ from those of the fit, copies of all steps before the last are refitted
    on X, and their output is compared. For this to work, set the ``random_state`` of
    steps that draw random numbers.

    Parameters
    ----------
    estimator : MDLReadoutSwitcher, LinearReadout, MLPReadout, or a pipeline or search
        A fitted switcher or readout, for classes or real-valued labels. You can also
        pass a Pipeline that ends in one, or a search whose ``best_estimator_`` does.
        The codelengths of a MultiOutputSwitcher's columns are summed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The training rows and labels, in the same order, or a held-out fold.
    sample_weight : None
        Not supported: weights raise TypeError, since a weighted sum is not a
        codelength.

    Returns
    -------
    score : float
        Minus the codelength per example, in nats. Greater is better.

    Raises
    ------
    ValueError
        If X and y are neither the training rows nor held-out rows, or if they are
        held-out rows and the fit had groups. Also if a step of the pipeline requires y
        and is not frozen, since it has then seen the labels to be coded.
    TypeError
        If the estimator is of another kind, or if there are weights.

    Warns
    -----
    UserWarning
        If X and y are held-out rows.

    See Also
    --------
    heldout_codelength_scorer : For rows that were held out.
    RepresentationScorer : For a transformer on its own.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_mdl import LinearReadout, PrequentialSplit, codelength_scorer
    >>> from sklearn.utils import shuffle
    >>> search = GridSearchCV(
    ...     LinearReadout(random_state=0),
    ...     {"lr": [0.0001, 0.01]},
    ...     scoring=codelength_scorer,
    ...     cv=PrequentialSplit(),
    ... )
    >>> search.fit(*shuffle(*load_iris(return_X_y=True), random_state=0)).best_params_
    {'lr': 0.01}
    """
    total = 0.0
    for fitted in _unpack("codelength_scorer", estimator, X, y, sample_weight):
        difference = f"the fit had {fitted.n_rows} rows and X has {len(fitted.X)}"
        if len(fitted.X) == fitted.n_rows:
            difference = fitted.difference()
        # Training rows look new after pipeline steps that draw random numbers. So in a
        # pipeline, only fewer rows than in the fit count as a held-out fold.
        may_be_new = len(fitted.X) < fitted.n_rows or not fitted.steps
        if difference and may_be_new and not _count_returning(fitted):
            total += float(_later_codelengths("codelength_scorer", fitted).mean())
            warn_caller(FOLDS)
            continue
        if difference:
            raise ValueError(
                f"X and y must be the rows and labels of the fit, but {difference}; "
                "pass the X and y of fit (in a search, cv=PrequentialSplit()), "
                f"{'set random_state in steps that have it, ' * bool(fitted.steps)}or "
                "score new rows with heldout_codelength_scorer"
            )
        total += float(fitted.switcher.codelengths_.mean())
    return -total


def heldout_codelength_scorer(
    estimator: object, X: ArrayLike, y: ArrayLike, *, sample_weight: object = None
) -> float:
    """Score a fitted switcher by the codelength of rows that follow its training rows.

    A copy of the switcher predicts each row from the training rows and all given rows
    before it, and then learns the row. The estimator itself does not change. If X and y
    begin with the training rows, as in ``learning_curve``, the codelengths of these
    rows are taken from the fit. Other rows are evaluated in the order given, which
    should be random. Only compare scores with equal numbers of training rows and of
    scored rows.

    Parameters
    ----------
    estimator : MDLReadoutSwitcher, LinearReadout, MLPReadout, or a pipeline or search
        A fitted switcher or readout, for classes or real-valued labels. You can also
        pass a Pipeline that ends in one, or a search whose ``best_estimator_`` does.
        The codelengths of a MultiOutputSwitcher's columns are summed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels. The fitted estimator must know all of their classes.
    sample_weight : None
        Not supported: weights raise TypeError, since a weighted sum is not a
        codelength.

    Returns
    -------
    score : float
        Minus the mean codelength of these rows, in nats. Greater is better.

    Raises
    ------
    ValueError
        If y contains an unknown class, or if the fit had groups and there are new rows.
        Also if X reuses training rows, even with permuted columns, except for all of
        them at its beginning in their order. Also if a step of the pipeline requires y
        and is not frozen, since it has then seen labels to be coded.
    TypeError
        If the estimator is of another kind, or if there are weights.

    See Also
    --------
    codelength_scorer : For the training rows, without holding any out.
    refit_codelength_scorer : For permutation importances of features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import LinearReadout, heldout_codelength_scorer
    >>> X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    >>> readout = LinearReadout(lr=0.1, random_state=0)
    >>> scores = cross_val_score(readout, X, y, scoring=heldout_codelength_scorer, cv=3)
    >>> bool(scores.min() > -0.3)  # a uniform code scores -1.1
    True
    """
    total = 0.0
    for fitted in _unpack("heldout_codelength_scorer", estimator, X, y, sample_weight):
        switcher, n_rows, costs = fitted.switcher, fitted.n_rows, np.empty(0)
        if len(fitted.X) >= n_rows and not fitted.difference():
            costs = switcher.codelengths_
            fitted = fitted._replace(X=fitted.X[n_rows:], y=fitted.y[n_rows:])
        if count := _count_returning(fitted):
            raise ValueError(
                "X and y must be new rows, or begin with all training rows in their "
                f"order, but {count} of {len(fitted.X)} rows were already learned "
                "(perhaps with columns permuted); pass other rows, or for permutation "
                "importances use refit_codelength_scorer"
            )
        later = _later_codelengths("heldout_codelength_scorer", fitted)
        total += float(np.concatenate([costs, later]).mean())
    return -total


def _later_codelengths(caller: str, fitted: _Fitted) -> np.ndarray:
    """Return codelengths of the rows as if they followed the training rows."""
    _refuse_grouped(caller, fitted.switcher, len(fitted.X))
    return fitted.switcher._continued(fitted.X, fitted.y)


def refit_codelength_scorer(
    estimator: object, X: ArrayLike, y: ArrayLike, *, sample_weight: object = None
) -> float:
    """Score a copy of an estimator, refitted on the given rows, by its codelength.

    Use this scorer for :func:`sklearn.inspection.permutation_importance` on the
    training rows. A feature's importance is then the increase in codelength, in nats
    per example, when that feature is permuted. Other scorers would evaluate rows that
    the estimator has already learned.

    Parameters
    ----------
    estimator : MDLReadoutSwitcher, LinearReadout, MLPReadout, or a pipeline or search
        Fitted estimator to copy. The copy has the same settings, but it writes no files
        and shows no progress. All copies of a fitted estimator have the same seed, even
        if ``random_state`` is not an integer.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    sample_weight : None
        Not supported: weights raise TypeError, since a weighted sum is not a
        codelength.

    Returns
    -------
    score : float
        Minus the codelength per example, in nats. Greater is better.

    Raises
    ------
    ValueError
        If a step of the pipeline requires y and is not frozen, or if the fit had
        groups.
    TypeError
        If the estimator is of another kind, or if there are weights.

    See Also
    --------
    heldout_codelength_scorer : For importances on held-out rows, without refitting.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.inspection import permutation_importance
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import LinearReadout
    >>> from sklearn_mdl.model_selection import refit_codelength_scorer
    >>> X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    >>> readout = LinearReadout(lr=0.1, random_state=0).fit(X, y)
    >>> importance = permutation_importance(
    ...     readout, X, y, scoring=refit_codelength_scorer, random_state=0
    ... )
    >>> bool((importance.importances_mean[2:] > 0.05).all())  # petal length and width
    True
    """
    refuse_weights(sample_weight, "refit_codelength_scorer")
    copied = _unfitted_copy(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # already issued by the first fit
        copied.fit(X, y)
    return codelength_scorer(copied, X, y)


def _unfitted_copy(estimator: Any) -> Any:
    """Return a copy of a fitted estimator, with the best estimator of each search."""
    if hasattr(estimator, "best_estimator_"):
        return _unfitted_copy(estimator.best_estimator_)
    if isinstance(estimator, Pipeline):
        refuse_labelled(estimator[:-1], "the pipeline")
        last = {estimator.steps[-1][0]: _unfitted_copy(estimator[-1])}
        return clone(estimator).set_params(**last)
    if isinstance(estimator, MultiOutputSwitcher):
        switcher = _unfitted_copy(estimator.estimators_[0])
        return clone(estimator).set_params(switcher=switcher)
    if not isinstance(estimator, OnlineEstimator):
        raise _unfit("refit_codelength_scorer", estimator)
    check_is_fitted(estimator)
    _refuse_grouped("refit_codelength_scorer", estimator, len(estimator.codelengths_))
    copied = clone(estimator)
    _detach(copied, estimator._seed)
    return copied


def _detach(estimator: OnlineEstimator, seed: int) -> None:
    """Reset parameters that cause output, and set the seed unless it is an integer."""
    defaults = {"store": "memory", "checkpoint": None, "verbose": 0}
    names = estimator.get_params(deep=False)
    estimator.set_params(**{k: value for k, value in defaults.items() if k in names})
    if not isinstance(estimator.random_state, Integral):
        estimator.set_params(random_state=seed)


def _refuse_grouped(caller: str, fitted: OnlineEstimator, n_rows: int) -> None:
    """Raise ValueError if there are rows to score and the fit had groups."""
    if n_rows and fitted._run.schedule.ends:
        cure = f"pass groups=g to fit or heldout_codelengths, instead of {caller}"
        raise unsupported(GROUPS, "scorers that code rows", cure)


def _count_returning(fitted: _Fitted) -> int:
    """Count the rows that the switcher has learned before (see `count_returning`)."""
    X, samples = fitted.X, fitted.switcher._run.samples
    batches = gen_batches(len(samples), max(1, COMPARED_AT_ONCE // X.shape[1]))
    return count_returning(X, (samples.rows(b.start, b.stop) for b in batches))


class _Fitted(NamedTuple):
    """A fitted estimator, the pipeline steps before it, and the rows to score.

    ``X`` and ``y`` are the input of the estimator. ``given`` and ``labels`` are the
    input of the first step.
    """

    switcher: OnlineEstimator
    X: np.ndarray
    y: np.ndarray
    steps: list[Pipeline]
    given: np.ndarray
    labels: np.ndarray

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self.switcher.n_samples_seen_)

    def difference(self) -> str:
        """Describe how the first rows and labels differ from the fit; "" if equal.

        Copies of the steps are refitted to recognise rows that only differ by rounding.
        """
        n_rows, switcher = self.n_rows, self.switcher
        difference = _difference(switcher, self.X[:n_rows], self.y[:n_rows])
        if difference == OTHER_ROWS and self.steps:
            refitted, labels = self.given[:n_rows], self.labels[:n_rows]
            for step in self.steps:
                refitted = clone(step).fit_transform(refitted, labels)
            rows = switcher._validated(refitted, reset=False)
            difference = _difference(switcher, rows, self.y[:n_rows])
        return difference


def _unpack(
    caller: str, estimator: object, X: ArrayLike, y: ArrayLike, sample_weight: object
) -> list[_Fitted]:
    """Return the estimator within pipelines and searches, with its rows and labels.

    For a MultiOutputSwitcher, return one item for each column of y.
    """
    refuse_weights(sample_weight, caller)
    rows, steps = X, list[Pipeline]()
    while not isinstance(estimator, (OnlineEstimator, MultiOutputSwitcher)):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, Pipeline):
            if len(estimator) > 1:
                refuse_labelled(estimator[:-1], "the pipeline")
                check_is_fitted(estimator)
                steps.append(estimator[:-1])
                rows = estimator[:-1].transform(rows)
            estimator = estimator[-1]
        else:
            raise _unfit(caller, estimator)
    check_is_fitted(estimator)
    given, labels = cast(np.ndarray, X), cast(np.ndarray, y)  # both support slicing
    pairs: Iterable[tuple[OnlineEstimator, ArrayLike]] = [(estimator, y)]
    if isinstance(estimator, MultiOutputSwitcher):
        pairs = zip(estimator.estimators_, estimator._columns(y), strict=True)
    opened = []
    for switcher, column in pairs:
        checked, own = switcher._checked(rows, column, reset=False)
        opened.append(_Fitted(switcher, checked, own, steps, given, labels))
    return opened


def _unfit(caller: str, estimator: object) -> TypeError:
    """Return the error for an estimator that has no codelength."""
    return TypeError(
        f"{caller} needs a switcher or readout, or a Pipeline or fitted search that "
        f"ends in one, got {estimator!r}; wrap a classifier in RefitReadout, and score "
        "a transformer with RepresentationScorer()"
    )


def _difference(switcher: OnlineEstimator, X: np.ndarray, y: np.ndarray) -> str:
    """Describe how rows and labels differ from those of the fit; "" if equal."""
    order = np.arange(len(X))
    shuffled = getattr(switcher, "order_", order[:0])  # partial_fit may add more rows
    if np.any(shuffled >= len(X)):
        return "the fit was interrupted before the last row (call fit again)"
    order[: len(shuffled)] = shuffled
    run = switcher._run
    labels = run.labels[: len(X)].cpu().numpy()
    if not np.array_equal(y[order], switcher._decoded(labels)):
        return "y holds other labels, or the same labels in another order"
    for batch in gen_batches(len(X), max(1, COMPARED_AT_ONCE // X.shape[1])):
        rows = run.samples.rows(batch.start, batch.stop)
        if not np.array_equal(X[order[batch]].astype(np.float32, copy=False), rows):
            return OTHER_ROWS
    return ""


class PrequentialSplit:
    """A single split in which all rows are both training and test rows.

    A prequential code predicts each label before learning it. So every row is first a
    test row and then a training row, and holding out rows would only waste them. Use
    the split as ``GridSearchCV(..., cv=PrequentialSplit())``. It also suits rows with
    groups. With scikit-learn's metadata routing and ``set_fit_request(groups=True)``,
    ``GridSearchCV.fit(X, y, groups=...)`` passes the groups to the estimator's ``fit``.
    The labels of a group are then only learned once all of its rows are coded.

    Examples
    --------
    >>> from sklearn_mdl import PrequentialSplit
    >>> [(len(train), len(test)) for train, test in PrequentialSplit().split(range(5))]
    [(5, 5)]
    """

    def split(
        self, X: object, y: object = None, groups: object = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the single split, whose two parts both contain all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
        y : ignored
        groups : None

        Yields
        ------
        train, test : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If groups are given, since without metadata routing the estimator's ``fit``
            does not receive them.
        """
        if groups is not None:
            raise ValueError(
                "groups must reach the estimator's fit, but without metadata routing "
                "only cv receives them; call sklearn.set_config(enable_metadata_routing"
                "=True), then pass switcher.set_fit_request(groups=True) as estimator"
            )
        rows = np.arange(num_samples(X))
        yield rows, rows

    def get_n_splits(
        self, X: object = None, y: object = None, groups: object = None
    ) -> int:
        """Return 1, the number of splits.

        Parameters
        ----------
        X, y, groups : ignored
        """
        return 1

    def __repr__(self) -> str:
        """Return code that creates the split."""
        return "PrequentialSplit()"
