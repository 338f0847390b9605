"""Model selection by codelength: a codelength needs no held-out data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._sklearn import num_samples
from sklearn_mdl.guards import refuse_labelled, refuse_weights
from sklearn_mdl.multioutput import MultiOutputSwitcher
from sklearn_mdl.online import OnlineEstimator
from sklearn_mdl.samples import SampleStore

COMPARED_AT_ONCE = 2**22  # numbers
NEAR = 0.1  # of the spread of the rows


def codelength_scorer(
    estimator: Any, X: Any, y: Any, *, sample_weight: Any = None
) -> float:
    """Score a fitted switcher by the code of the stream that it walked.

    It has the signature of a scikit-learn scorer, for searches and cross-validation
    with ``cv=PrequentialSplit()``. Compare scores at equal ``n_samples`` only: what was
    learned is spread over them, so that nats per example fall with their number.

    Parameters
    ----------
    estimator : MDLReadoutSwitcher, LinearReadout or MLPReadout, or what ends in one
        Fitted; or their regressors. A Pipeline, or a search by its ``best_estimator_``.
        Of a MultiOutputSwitcher the columns are summed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The very rows and labels that it was fitted on, in the order given there.
    sample_weight : None
        Nothing else: a weighted sum is the length of no code.

    Returns
    -------
    score : float
        Minus the codelength per example, in nats: greater is better.

    Raises
    ------
    ValueError
        If X and y are not the stream that was walked, or if a step of the pipeline
        requires y and is not frozen: it has seen the labels that are coded.
    TypeError
        If the estimator is none of those, or if there are weights.

    See Also
    --------
    heldout_code_scorer : For rows that were held out.
    RepresentationScorer : For a transformer by itself.

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
    for walk in _opened("codelength_scorer", estimator, X, y, sample_weight):
        n_seen = walk.switcher.n_samples_seen_
        difference = f"it had {n_seen} rows and X has {len(walk.X)}"
        if len(walk.X) == n_seen:
            difference = _difference(walk, n_seen)
        if difference:
            raise ValueError(
                "codelength_scorer reads the code of the stream that was fitted, which "
                f"X and y must be, but {difference}; pass cv=PrequentialSplit(), or "
                "score held-out rows by heldout_code_scorer"
            )
        total += float(walk.switcher.codelengths_.mean())
    return -total


def heldout_code_scorer(
    estimator: Any, X: Any, y: Any, *, sample_weight: Any = None
) -> float:
    """Score a fitted switcher by the code of rows that come after its stream.

    The walk goes on over these rows on a copy: each is predicted by what was learned
    from all before it, and then learned. The estimator stays as it was. Rows of the
    stream itself cost what they cost when they came, never less for having been
    learned: where X and y begin with the stream, as the training rows of
    ``learning_curve`` do, that part is read and not walked again. Other rows are walked
    in the order given, which should be no particular one. Compare scores at equal
    numbers of rows only, of those fitted and of those scored.

    Parameters
    ----------
    estimator : MDLReadoutSwitcher, LinearReadout or MLPReadout, or what ends in one
        Fitted; or their regressors. A Pipeline, or a search by its ``best_estimator_``.
        Of a MultiOutputSwitcher the columns are summed.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels among those that were fitted.
    sample_weight : None
        Nothing else: a weighted sum is the length of no code.

    Returns
    -------
    score : float
        Minus the mean codelength of these rows, in nats: greater is better.

    Raises
    ------
    ValueError
        If y holds a label that was not fitted, or if a step of the pipeline requires y
        and is not frozen: it has seen labels that are coded.
    TypeError
        If the estimator is none of those, or if there are weights.

    See Also
    --------
    codelength_scorer : For the rows that were fitted; it wastes none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import LinearReadout, heldout_code_scorer
    >>> X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    >>> readout = LinearReadout(lr=0.1, random_state=0)
    >>> scores = cross_val_score(readout, X, y, scoring=heldout_code_scorer, cv=3)
    >>> bool(scores.min() > -0.3)  # a uniform code has -1.1
    True
    """
    walks = _opened("heldout_code_scorer", estimator, X, y, sample_weight)
    return -sum(float(_heldout(walk).mean()) for walk in walks)


class _Walk(NamedTuple):
    """An estimator that has walked, rows and labels as it sees them, what is near."""

    switcher: OnlineEstimator
    X: np.ndarray
    y: np.ndarray
    near: float


def _heldout(walk: _Walk) -> np.ndarray:
    """Codelengths of rows that come after the stream, or that begin with it."""
    switcher, X, y, _ = walk
    n_seen = switcher.n_samples_seen_
    if len(X) < n_seen or _difference(walk, n_seen):
        return switcher._continued(X, y)
    after = switcher._continued(X[n_seen:], y[n_seen:])
    return np.concatenate([switcher.codelengths_, after])


def _opened(
    caller: str, estimator: Any, X: Any, y: Any, sample_weight: Any
) -> list[_Walk]:
    """Find the estimators that walk, one for each column of y if it has columns.

    What ``fit_transform`` and ``transform`` make of the same rows may differ a little,
    in a PCA by rounding and in an NMF by its tolerance; what no step has transformed
    must be the same to the bit.
    """
    if sample_weight is not None:
        refuse_weights({"sample_weight": sample_weight}, caller)
    near = 0.0
    while not isinstance(estimator, (OnlineEstimator, MultiOutputSwitcher)):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, Pipeline) and len(estimator) > 1:
            refuse_labelled(estimator[:-1], "the pipeline")
            check_is_fitted(estimator)
            X, near = estimator[:-1].transform(X), NEAR
            estimator = estimator[-1]
        elif isinstance(estimator, Pipeline):
            estimator = estimator[-1]
        else:
            raise TypeError(
                f"{caller} needs an MDLReadoutSwitcher, or a Pipeline or a fitted "
                f"search that ends in one, got {estimator!r}; score a transformer by a "
                "RepresentationScorer()"
            )
    check_is_fitted(estimator)
    switchers, columns = [estimator], [y]
    if isinstance(estimator, MultiOutputSwitcher):
        switchers, columns = estimator.estimators_, estimator._columns(y)
    walks = []
    for switcher, column in zip(switchers, columns, strict=True):
        rows, labels = switcher._checked(X, column, reset=False)
        walks.append(_Walk(switcher, rows, labels, near))
    return walks


def _difference(walk: _Walk, n_rows: int) -> str:
    """Say how the first rows and labels differ from the stream's; "" if they do not."""
    switcher, X, y, near = walk.switcher, walk.X[:n_rows], walk.y[:n_rows], walk.near
    order = np.arange(len(X))
    shuffled = getattr(switcher, "order_", order[:0])  # rows of partial_fit follow
    if np.any(shuffled >= len(X)):
        return "its fit was interrupted, and had more rows to come"
    order[: len(shuffled)] = shuffled
    step = max(1, COMPARED_AT_ONCE // X.shape[1])
    starts = range(0, len(X), step)
    blocks = [slice(start, min(start + step, len(X))) for start in starts]
    course = switcher._course
    limit = near**2 * _variance(course.samples, blocks) if near else 0.0
    for block in blocks:
        rows = course.samples.rows(block.start, block.stop)
        labels = course.states[0].labels[block].cpu().numpy()
        if not np.array_equal(y[order[block]], switcher._decoded(labels)):
            return "y holds other labels, or the same in another order"
        gaps = X[order[block]].astype(np.float32, copy=False) - rows
        if np.any(np.square(gaps, dtype=np.float64).sum(1) > limit):
            return "X holds other rows, or the same in another order"
    return ""


def _variance(samples: SampleStore, blocks: list[slice]) -> float:
    """Mean squared distance of rows from their mean."""
    n_rows, centre, squares = blocks[-1].stop, np.zeros(samples.n_features), 0.0
    for block in blocks:
        rows = samples.rows(block.start, block.stop)
        centre += rows.sum(0, dtype=np.float64) / n_rows
    for block in blocks:
        squares += np.square(samples.rows(block.start, block.stop) - centre).sum()
    return float(squares / n_rows)


class PrequentialSplit:
    """One split whose train and test part are both all rows.

    A prequential code predicts each label before it learns it, so every row is test
    and training data in turn, and a held-out part would only waste rows. It is a
    cross-validation object: ``GridSearchCV(..., cv=PrequentialSplit())``.

    Examples
    --------
    >>> from sklearn_mdl import PrequentialSplit
    >>> [(len(train), len(test)) for train, test in PrequentialSplit().split(range(5))]
    [(5, 5)]
    """

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the one split: all rows, all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
        y, groups : ignored

        Yields
        ------
        train, test : ndarray of shape (n_samples,)
        """
        rows = np.arange(num_samples(X))
        yield rows, rows

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return 1, the number of splits."""
        return 1

    def __repr__(self) -> str:
        """Return the call that makes one."""
        return "PrequentialSplit()"
