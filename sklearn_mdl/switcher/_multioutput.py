"""Meta-estimator for several labels per row, with one switcher per column of y."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import ClassVar, Self, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from scipy.sparse import spmatrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags, check_random_state

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.base.estimator import UnfittedRun
from sklearn_mdl._core.side_by_side import watched
from sklearn_mdl._core.sklearn_compat import Constraints, fit_context
from sklearn_mdl._core.validation import check_class_labels, invalid
from sklearn_mdl.metrics import PrequentialMeasures
from sklearn_mdl.readouts import grouped
from sklearn_mdl.switcher._classifier import MDLReadoutSwitcher
from sklearn_mdl.switcher._columns import (
    check_first,
    check_labels,
    classes_of_columns,
    in_column,
    split_columns,
)
from sklearn_mdl.switcher._permutation import PermutationTest, permutation_tests
from sklearn_mdl.switcher._resolved import folders_below

Labels: TypeAlias = ArrayLike | spmatrix


@dataclass(eq=False, repr=False)
class MultiOutputSwitcher(ClassifierMixin, BaseEstimator):
    """Meta-estimator for several labels per row, with one switcher per column of y.

    A column of y holds binary indicators, as in multi-label tasks, or other classes.
    Each column gets its own switcher, as in scikit-learn's ``MultiOutputClassifier``.
    All switchers see the same rows in the same order. The sum of their codelengths is a
    codelength of y.

    This code treats columns as independent given the features: no column is predicted
    from another column. So two equal columns cost twice as much as a single column. The
    order of columns does not matter.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or readout for classification, default=None
        The estimator to copy (``MDLReadoutSwitcher()`` if None). All copies use the
        same seed and, with ``shuffle=True``, the same order. If the copies write to a
        ``store`` or ``checkpoint``, column ``j`` uses the subfolder ``output-j``.
    n_jobs : int, default=None
        Number of columns to evaluate in parallel, as in joblib. Results do not depend
        on `n_jobs`.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels in all columns, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example in order of evaluation, summed over columns, in
        nats.
    output_codelengths_ : ndarray of shape (n_outputs,)
        Codelength of every column, in nats.
    switching_codelength_ : float
        Codelength of the switching mixtures, as in the paper, in nats. Without a pool,
        it equals ``codelength_``.
    switching_codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelengths under the switching mixtures, summed over columns, in nats.
    uniform_codelength_ : float
        Cost of coding all columns uniformly, in nats.
    frequency_codelength_ : float
        Cost of coding each column by the class frequencies of earlier labels
        (:func:`~sklearn_mdl.frequency_codelength`), in nats.
    estimators_ : list of n_outputs fitted estimators
        The fitted copy of ``switcher`` for each column.
    classes_ : list of n_outputs ndarrays of shape (n_classes,)
    n_outputs_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only defined if the features have names.
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    See Also
    --------
    MDLReadoutSwitcher : For one label per row.

    Notes
    -----
    If you press Ctrl-C during ``fit``, the estimator keeps its previous state, since
    some columns may not have started yet. After an interrupted ``partial_fit``, columns
    may have different numbers of rows: call ``fit``, or load a saved copy.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MultiOutputSwitcher
    >>> X, y = make_multilabel_classification(n_classes=3, random_state=0)
    >>> switcher = MDLReadoutSwitcher([LinearReadout(lr=0.01)], random_state=0)
    >>> fitted = MultiOutputSwitcher(switcher).fit(X, y)
    >>> bool(fitted.codelength_ < fitted.frequency_codelength_)
    True
    >>> fitted.predict(X[:2]).shape
    (2, 3)
    """

    switcher: OnlineClassifier | None = None
    _: KW_ONLY
    n_jobs: int | None = None
    estimators_ = UnfittedRun("Fitted switchers, one for each column of y.")

    _parameter_constraints: ClassVar[Constraints] = {
        "switcher": [OnlineClassifier, None],
        "n_jobs": [Integral, None],
    }

    @fit_context
    def fit(self, X: ArrayLike, y: Labels, *, groups: ArrayLike | None = None) -> Self:
        """Fit from scratch, with one prequential pass for each column of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, converted to float32.
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs)
            An indicator matrix, or class labels. Every column needs at least two
            classes.
        groups : array-like of shape (n_samples,), default=None
            As for :meth:`MDLReadoutSwitcher.fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If y is one-dimensional or has a column with a single class, or for the
            reasons given in :meth:`MDLReadoutSwitcher.fit`.
        """
        columns = split_columns(y)
        check_labels(columns)
        switchers = self._switchers(len(columns))
        self.estimators_ = self._side_by_side(
            delayed(switcher.fit)(X, column, groups=groups)
            for switcher, column in zip(switchers, columns, strict=True)
        )
        return self

    @fit_context
    def partial_fit(
        self,
        X: ArrayLike,
        y: Labels,
        classes: Sequence[ArrayLike] | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Evaluate more rows of the same stream.

        With an integer ``random_state``, the codelengths do not depend on how you split
        a stream into calls. They are bitwise those of a single ``fit`` on all rows in
        that order, without shuffling.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs)
        classes : list of n_outputs array-likes of shape (n_classes,), default=None
            All labels that can occur in each column. Required at the first call,
            optional afterwards.
        groups : array-like of shape (n_samples,), default=None
            As for :meth:`MDLReadoutSwitcher.partial_fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If ``classes`` is missing at the first call, is not a list of the classes of
            each column, or differs later. Also if y contains labels that are not in
            ``classes``, or has more or fewer columns than at the first call, or for the
            reasons given in :meth:`MDLReadoutSwitcher.partial_fit`.
        """
        columns = split_columns(y)
        known = classes_of_columns(classes, len(columns))
        if self.__sklearn_is_fitted__():
            self._check_further(columns, known)
            switchers = self.estimators_
        else:
            check_first(columns, known)
            switchers = self._switchers(len(columns))
        self.estimators_ = self._side_by_side(
            delayed(switcher.partial_fit)(X, column, classes, groups=groups)
            for switcher, column, classes in zip(switchers, columns, known, strict=True)
        )
        return self

    def _switchers(self, n_outputs: int) -> list[OnlineClassifier]:
        """Return copies of the switcher with the same seed and separate folders."""
        pattern = MDLReadoutSwitcher() if self.switcher is None else self.switcher
        seed = pattern.random_state
        if not isinstance(seed, Integral):
            generator = check_random_state(seed)
            seed = deepcopy(generator)
            generator.randint(2**31 - 1)  # gives the next fit another seed
        switchers = [clone(pattern) for _ in range(n_outputs)]
        for j, switcher in enumerate(switchers):
            params = folders_below(pattern, f"output-{j}")
            if "random_state" in switcher.get_params(deep=False):
                params["random_state"] = deepcopy(seed)
            switcher.set_params(**params)
        return switchers

    def _side_by_side(self, calls: Iterable[object]) -> list[OnlineClassifier]:
        # joblib would map X to a temporary file, but runs read X again later.
        return list(Parallel(self.n_jobs, max_nbytes=None, **watched())(calls))

    def _check_further(
        self, columns: list[np.ndarray], classes: list[np.ndarray | None]
    ) -> None:
        """Check labels and classes of all columns before any column is evaluated."""
        self._check_width(columns)
        n_rows = [switcher.n_samples_seen_ for switcher in self.estimators_]
        if len(set(n_rows)) > 1:
            raise ValueError(
                "All columns must have been evaluated on the same rows, but a call was "
                f"interrupted after {n_rows} rows; load a saved copy, or call fit(X, y)"
            )
        pairs = zip(self.estimators_, columns, classes, strict=True)
        for j, (switcher, column, known) in enumerate(pairs):
            with in_column(j):
                switcher._check_classes(known)
                check_class_labels(column)
                switcher._encoded(column)
                switcher._forget_classes()  # those that only this check has seen

    def _check_width(self, columns: list[np.ndarray]) -> None:
        if len(columns) != self.n_outputs_:
            required, shape = f"of shape (n, {self.n_outputs_})", columns[0].shape
            cure = "pass the same columns of y as in the first call"
            raise invalid("y", required, (*shape, len(columns)), cure)

    def _columns(self, y: Labels) -> list[np.ndarray]:
        """Return the columns of y; raise unless ``fit`` had as many columns."""
        columns = split_columns(y)
        self._check_width(columns)
        return columns

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the most probable class in each column, (n_samples, n_outputs).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        predictions = [switcher.predict(X) for switcher in self.estimators_]
        # Text and numbers stay as they are, and so do numbers that floats would round.
        table = np.column_stack([column.astype(object) for column in predictions])
        kinds = {column.dtype.kind for column in predictions}
        is_plain = len(kinds) == 1 or kinds <= set("biuf")
        plain = np.column_stack(predictions) if is_plain else table
        return plain if np.array_equal(plain, table) else table

    def predict_proba(self, X: ArrayLike) -> list[np.ndarray]:
        """Predict probabilities for each column, (n_samples, n_classes) each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        return [switcher.predict_proba(X) for switcher in self.estimators_]

    def predict_log_proba(self, X: ArrayLike) -> list[np.ndarray]:
        """Predict log-probabilities for each column, (n_samples, n_classes) each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        return [switcher.predict_log_proba(X) for switcher in self.estimators_]

    def score(self, X: ArrayLike, y: Labels) -> float:
        """Return the share of rows predicted correctly in all columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : {array-like, sparse matrix} of shape (n_samples, n_outputs)

        Returns
        -------
        score : float
            Subset accuracy, as in scikit-learn's ``MultiOutputClassifier``.

        Raises
        ------
        ValueError
            If y has more or fewer columns than in ``fit``.
        """
        pairs = zip(self.estimators_, self._columns(y), strict=True)
        right = [switcher.predict(X) == column for switcher, column in pairs]
        return float(np.all(right, axis=0).mean())

    def heldout_codelengths(self, X: ArrayLike, y: Labels) -> np.ndarray:
        """Return codelengths of further rows without changing the estimator.

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
            If y has more or fewer columns than in ``fit``, or for the reasons given in
            :meth:`MDLReadoutSwitcher.heldout_codelengths`.
        """
        pairs = zip(self.estimators_, self._columns(y), strict=True)
        return np.sum([s.heldout_codelengths(X, column) for s, column in pairs], axis=0)

    def permutation_test(
        self, n_permutations: int = 100, *, shuffled: bool = False
    ) -> list[PermutationTest]:
        """Test whether features are informative about each column of y.

        The test permutes the rows of y. Columns whose switchers have the same kernels
        share the factorisations of these kernels. All columns are permuted in the same
        way, so sums over columns are codelengths of y and of its permutations.

        Parameters
        ----------
        n_permutations, shuffled : int and bool
            As for :meth:`MDLReadoutSwitcher.permutation_test`.

        Returns
        -------
        tests : list of n_outputs PermutationTest

        Raises
        ------
        ValueError
            If the estimators are not switchers, or for the reasons given in
            :meth:`MDLReadoutSwitcher.permutation_test`.
        """
        switchers = [s for s in self.estimators_ if isinstance(s, MDLReadoutSwitcher)]
        if len(switchers) < self.n_outputs_:
            raise ValueError(
                "A permutation test needs switcher=MDLReadoutSwitcher(...), got "
                f"{type(self.estimators_[0]).__name__}; fit with this switcher"
            )
        permutable = [s._permutable(n_permutations, shuffled) for s in switchers]
        keys = (repr(kernels) for _, kernels, _ in permutable)
        by_kernels = grouped((key, j) for j, key in enumerate(keys))
        tests: dict[int, PermutationTest] = {}
        for columns in by_kernels.values():
            runs = [permutable[j][0] for j in columns]
            _, kernels, seed = permutable[columns[0]]
            column_tests = permutation_tests(runs, kernels, n_permutations, seed)
            tests |= zip(columns, column_tests, strict=True)
        return [tests[j] for j in range(self.n_outputs_)]

    def null_codelengths(
        self, n_permutations: int = 100, *, shuffled: bool = False
    ) -> np.ndarray:
        """Compute codelengths of y with permuted rows, under the kernel readouts.

        Parameters
        ----------
        n_permutations, shuffled : int and bool
            As for :meth:`permutation_test`.

        Returns
        -------
        codelengths : ndarray of shape (n_permutations, n_outputs)
            In nats. Sums over the columns are codelengths of permutations of y.
        """
        tests = self.permutation_test(n_permutations, shuffled=shuffled)
        return np.stack([test.null_codelengths for test in tests], 1)

    def measures(self, *, n_bins: int = 15) -> list[PrequentialMeasures]:
        """Return the accuracy, Brier score and calibration of each column.

        Parameters
        ----------
        n_bins : int, default=15
            Number of bins of the expected calibration error.

        Returns
        -------
        measures : list of n_outputs PrequentialMeasures
            See :meth:`MDLReadoutSwitcher.measures`.
        """
        return [switcher.measures(n_bins=n_bins) for switcher in self.estimators_]

    @property
    def codelength_(self) -> float:
        """Codelength of all labels in all columns, in nats."""
        return float(sum(self.output_codelengths_.tolist()))

    @property
    def codelengths_(self) -> np.ndarray:
        """Codelength of every example in order of evaluation, (n_samples_seen_,)."""
        n_rows = self.n_samples_seen_
        return np.sum([s.codelengths_[:n_rows] for s in self.estimators_], axis=0)

    @property
    def switching_codelengths_(self) -> np.ndarray:
        """Codelengths under the switching mixtures, in nats, (n_samples_seen_,)."""
        n_rows = self.n_samples_seen_
        return np.sum([_switching(s)[:n_rows] for s in self.estimators_], axis=0)

    @property
    def switching_codelength_(self) -> float:
        """Codelength of the switching mixtures, as in the paper, in nats."""
        return float(sum(_switching(switcher).sum() for switcher in self.estimators_))

    @property
    def output_codelengths_(self) -> np.ndarray:
        """Codelength of every column, (n_outputs,), in nats."""
        return np.array([switcher.codelength_ for switcher in self.estimators_])

    @property
    def uniform_codelength_(self) -> float:
        """Cost of coding all columns uniformly, in nats."""
        return float(sum(column.uniform_codelength for column in self.measures()))

    @property
    def frequency_codelength_(self) -> float:
        """Cost of codes that learn the frequencies of the classes, in nats."""
        return float(sum(column.frequency_codelength for column in self.measures()))

    @property
    def classes_(self) -> list[np.ndarray]:
        """Classes of every column."""
        return [switcher.classes_ for switcher in self.estimators_]

    @property
    def n_outputs_(self) -> int:
        """Number of columns."""
        return len(self.estimators_)

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return int(self.estimators_[0].n_features_in_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, (n_features_in_,), if they have names."""
        return np.asarray(self.estimators_[0].feature_names_in_)

    @property
    def n_samples_seen_(self) -> int:
        """Number of examples that have been evaluated in every column."""
        return min(switcher.n_samples_seen_ for switcher in self.estimators_)

    @property
    def order_(self) -> np.ndarray:
        """Order in which ``fit`` evaluated the rows, (n_samples,)."""
        return np.asarray(self.estimators_[0].order_)

    def __sklearn_is_fitted__(self) -> bool:
        """Return True after the first call of ``fit`` or ``partial_fit``."""
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of an estimator whose y has several columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags


def _switching(switcher: OnlineClassifier) -> np.ndarray:
    """Return codelengths under a switcher's mixture, or those of a single readout."""
    if isinstance(switcher, MDLReadoutSwitcher):
        return switcher.switching_codelengths_
    return switcher.codelengths_
