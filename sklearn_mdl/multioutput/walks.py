"""Several labels to a row: one walk for each column of them, and what they cost in all.

The columns are coded one after the other, each given the features alone,

    L(Y | X) = sum_j sum_t -log p_j(y_tj | x_t, y_1j, ..., y_(t-1)j)    nats,

which is the length of one message that holds all of them.
"""

from __future__ import annotations

from copy import deepcopy
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._sklearn import fit_context
from sklearn_mdl.guards import refuse_weights
from sklearn_mdl.multioutput.columns import (
    check_first,
    check_labels,
    classes_of_columns,
    in_column,
    split_columns,
)
from sklearn_mdl.multioutput.readings import OutputReadings
from sklearn_mdl.online import OnlineClassifier
from sklearn_mdl.switcher import MDLReadoutSwitcher


class MultiOutputSwitcher(OutputReadings, ClassifierMixin, BaseEstimator):
    """Codelength of several labels to a row, by one switcher for each of them.

    Every column of y, a label of a multi-label task or any other set of classes, is
    walked by a switcher of its own over the same rows in the same order, and the
    codelengths are summed. It is what scikit-learn's ``MultiOutputClassifier`` would
    make of a switcher, with a code for the whole of y.

    The sum is the length of a code that treats the columns as independent given the
    features: no column is told of another. Two equal columns cost twice what one costs,
    and the order of the columns means nothing.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher, LinearReadout or MLPReadout, default=None
        Copied for every column; None takes the default switcher. All copies have the
        same seed, and with ``shuffle=True`` one order. Where it has a ``store`` or a
        ``checkpoint``, column ``j`` gets the folder ``output-j`` in it.
    n_jobs : int, default=None
        Columns that are walked side by side, as joblib understands it; the numbers are
        the same.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels in all columns, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, a sum over the columns, in nats.
    output_codelengths_ : ndarray of shape (n_outputs,)
        Codelength of every column, in nats.
    uniform_codelength_ : float
        What uniform codes of all columns cost, in nats.
    frequency_codelength_ : float
        What it costs to learn how often each class comes in each column, and to look at
        no feature (:func:`~sklearn_mdl.frequency_codelength`), in nats.
    estimators_ : list of n_outputs fitted switchers
        One for each column; ``posterior_``, ``switch`` and all else is theirs.
    classes_ : list of n_outputs ndarrays of shape (n_classes,)
    n_outputs_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the features came with names.
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` walked the rows.

    See Also
    --------
    MDLReadoutSwitcher : For one label to a row.

    Notes
    -----
    A Ctrl-C during ``fit`` leaves the estimator as it was, since some columns would
    not have begun.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MultiOutputSwitcher
    >>> X, y = make_multilabel_classification(n_classes=3, random_state=0)
    >>> switcher = MDLReadoutSwitcher([LinearReadout(lr=0.01)], random_state=0)
    >>> found = MultiOutputSwitcher(switcher).fit(X, y)
    >>> bool(found.codelength_ < found.frequency_codelength_)
    True
    >>> found.predict(X[:2]).shape
    (2, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "switcher": [OnlineClassifier, None],
        "n_jobs": [Integral, None],
    }

    def __init__(self, switcher=None, *, n_jobs=None):
        self.switcher = switcher
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **weights) -> Self:
        """Forget everything, then walk through the rows once for each column of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, taken as float32.
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs)
            Labels, of at least two classes in every column: an indicator matrix, or
            any classes.
        **weights
            Nothing: every label counts once, since a weighted sum is no codelength.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If y has one dimension, or a column of one class only, and as in
            :meth:`MDLReadoutSwitcher.fit`.
        TypeError
            If ``sample_weight``, ``class_weight`` or anything else comes along.
        """
        refuse_weights(weights, f"{type(self).__name__}.fit")
        columns = split_columns(y)
        check_labels(columns)
        switchers = self._switchers(len(columns))
        self.estimators_ = self._side_by_side(
            delayed(_fitted)(switcher, X, column)
            for switcher, column in zip(switchers, columns, strict=True)
        )
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y, classes=None, **weights) -> Self:
        """Walk on over more rows of the same stream.

        How a stream is cut into calls changes nothing: codelengths are those of one
        ``fit`` on all rows, bit for bit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs)
        classes : list of n_outputs array-likes of shape (n_classes,), default=None
            All labels that can occur in each column; required at the first call,
            optional afterwards.
        **weights
            Nothing, as in :meth:`fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If ``classes`` is missing at the first call, is no list of the classes of
            each column, or differs later, if y holds a label outside them or has
            another number of columns, and as in :meth:`fit`.
        TypeError
            As in :meth:`fit`.
        """
        refuse_weights(weights, f"{type(self).__name__}.partial_fit")
        columns = split_columns(y)
        known = classes_of_columns(classes, len(columns))
        if self.__sklearn_is_fitted__():
            self._check_further(columns, known)
            switchers = self.estimators_
        else:
            check_first(columns, known)
            switchers = self._switchers(len(columns))
        self.estimators_ = self._side_by_side(
            delayed(_further)(*each, X)
            for each in zip(switchers, columns, known, strict=True)
        )
        return self

    def _switchers(self, n_outputs: int) -> list[OnlineClassifier]:
        """Copy the switcher, with one seed for all and a folder for each."""
        pattern = MDLReadoutSwitcher() if self.switcher is None else self.switcher
        seed = pattern.random_state
        if not isinstance(seed, Integral):
            generator = check_random_state(seed)
            seed = deepcopy(generator)
            generator.randint(2**31 - 1)  # as a switcher draws: another fit is another
        switchers = [clone(pattern) for _ in range(n_outputs)]
        for j, switcher in enumerate(switchers):
            switcher.set_params(random_state=deepcopy(seed), **_folders(pattern, j))
        return switchers

    def _side_by_side(self, calls: Any) -> list[OnlineClassifier]:
        # Arrays that joblib maps into memory are gone when all have come back, but a
        # walk reads rows again where they are mapped.
        found: list[OnlineClassifier] = Parallel(n_jobs=self.n_jobs, max_nbytes=None)(
            calls
        )
        return found

    def _check_further(
        self, columns: list[np.ndarray], classes: list[np.ndarray | None]
    ) -> None:
        """Refuse what would stop the walk of some column after those of others."""
        self._check_width(columns)
        seen = [switcher.n_samples_seen_ for switcher in self.estimators_]
        if len(set(seen)) > 1:
            raise ValueError(
                "All columns must have been walked over the same rows, but a call was "
                f"broken off and they have seen {seen}; fit anew"
            )
        each = zip(self.estimators_, columns, classes, strict=True)
        for j, (switcher, column, known) in enumerate(each):
            with in_column(j):
                switcher._check_classes(known)
                switcher._encoded(column)

    def _check_width(self, columns: list[np.ndarray]) -> None:
        if len(columns) != self.n_outputs_:
            raise ValueError(
                f"y must have {self.n_outputs_} columns as it was fitted, got "
                f"{len(columns)}; fit anew for others"
            )

    def _columns(self, y: Any) -> list[np.ndarray]:
        """Columns of y for the switchers that have walked."""
        columns = split_columns(y)
        self._check_width(columns)
        return columns

    def predict(self, X) -> np.ndarray:
        """Most probable class of every row in every column, (n_samples, n_outputs)."""
        check_is_fitted(self)
        found = [switcher.predict(X) for switcher in self.estimators_]
        if len({column.dtype.kind for column in found}) > 1:  # words beside numbers
            found = [column.astype(object) for column in found]
        return np.column_stack(found)

    def predict_proba(self, X) -> list[np.ndarray]:
        """Probabilities of the mixtures, for each column (n_samples, n_classes)."""
        check_is_fitted(self)
        return [switcher.predict_proba(X) for switcher in self.estimators_]

    def predict_log_proba(self, X) -> list[np.ndarray]:
        """Log-probabilities of the mixtures, for each column (n_samples, n_classes)."""
        check_is_fitted(self)
        return [switcher.predict_log_proba(X) for switcher in self.estimators_]

    def score(self, X, y) -> float:
        """Share of rows that are predicted rightly in all columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs)

        Returns
        -------
        score : float
            Subset accuracy, as scikit-learn's ``MultiOutputClassifier`` has it.

        Raises
        ------
        ValueError
            If y has another number of columns.
        """
        check_is_fitted(self)
        each = zip(self._columns(y), self.estimators_, strict=True)
        right = [switcher.predict(X) == column for column, switcher in each]
        return float(np.all(right, axis=0).mean())

    def heldout_codelengths(self, X, y) -> np.ndarray:
        """Codelengths of rows that come after the stream; they leave no trace in it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs)

        Returns
        -------
        codelengths : ndarray of shape (n_samples,)
            Sums over the columns, in nats.

        Raises
        ------
        ValueError
            As :meth:`MDLReadoutSwitcher.heldout_codelengths`, and if y has another
            number of columns.
        """
        check_is_fitted(self)
        each = zip(self.estimators_, self._columns(y), strict=True)
        return np.sum([s.heldout_codelengths(X, column) for s, column in each], axis=0)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a stream has begun."""
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Tags:
        """Say that y has columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags


def _fitted(switcher: OnlineClassifier, X: Any, y: np.ndarray) -> OnlineClassifier:
    return switcher.fit(X, y)


def _further(
    switcher: OnlineClassifier, y: np.ndarray, classes: np.ndarray | None, X: Any
) -> OnlineClassifier:
    return switcher.partial_fit(X, y, classes=classes)


def _folders(switcher: OnlineClassifier, j: int) -> dict[str, Path]:
    """Name the folders of column j where the switcher writes to disk."""
    params = switcher.get_params(deep=False)
    given = {name: params.get(name) for name in ("store", "checkpoint")}
    return {
        name: Path(folder) / f"output-{j}"
        for name, folder in given.items()
        if folder not in (None, "memory")
    }
