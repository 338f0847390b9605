"""Readouts that wrap scikit-learn classifiers and update or refit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import ClassVar, Self

from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.stream.learner import Learner, Report
from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.readouts._base import BaseReadout
from sklearn_mdl.readouts._build import Context, Members
from sklearn_mdl.readouts._wrapped_learners import (
    IncrementalLearner,
    RefittedLearner,
    WrappedLearner,
)

DOUBLING = 2.0


@dataclass(eq=False, repr=False)
class WrappedReadout(BaseReadout):
    """Base class of readouts that wrap a classifier."""

    estimator: BaseEstimator
    _: KW_ONLY
    scaling: str | None = "standard"
    calibration: bool = True
    batch_size: int = 32
    random_state: RandomState = None

    needed: ClassVar[tuple[str, ...]]
    learner: ClassVar[type[WrappedLearner]]
    _all_diverged = (
        "predict_proba of the estimator stopped returning valid probabilities{}, so "
        "the readout has ignored the features since then; debug predict_proba"
    )

    def _validate_params(self) -> None:
        super()._validate_params()
        name, estimator = type(self).__name__, self.estimator
        missing = [m for m in self.needed if not hasattr(estimator, m)]
        if isinstance(estimator, type) or missing:
            cure = "pass an instance of a classifier"
            if isinstance(estimator, BaseEstimator) and is_classifier(estimator):
                calibrated = f"CalibratedClassifierCV({estimator!r}, ensemble=False)"
                inner = estimator if missing == ["partial_fit"] else calibrated
                cure = f"use RefitReadout({inner})"
                if type(estimator).__name__ == "SGDClassifier":
                    logistic = clone(estimator).set_params(loss="log_loss")
                    cure = f"use {name}({logistic!r})"
            required = f"{name} needs a classifier with {' and '.join(self.needed)}"
            raise TypeError(f"{required}, got {estimator!r}; {cure}")
        if hasattr(estimator, "_parameter_constraints"):
            estimator._validate_params()

    @property
    def architecture(self) -> str:
        """Short name of the classifier: "GaussianNB", "CalibratedClassifierCV(SVC)"."""
        return _name_of(self.estimator)

    @classmethod
    def learners_of(cls, members: Members[Self], context: Context) -> list[Learner]:
        """Make one learner per readout."""
        return [cls.learner(column, readout, context) for column, readout in members]

    @property
    def notes_(self) -> list[str]:
        """The first 20 distinct exceptions and warnings of the estimator."""
        check_is_fitted(self)
        return self._run.threads.notes.get(0, [])

    def _after_fit(self) -> None:
        warn_of_failures(self._run.learners[0].reports, [self.architecture])


@dataclass(eq=False, repr=False, kw_only=True)
class IncrementalReadout(WrappedReadout):
    """Readout that wraps a classifier with ``partial_fit`` and learns in minibatches.

    The classifier learns each minibatch once, followed by one minibatch of each replay
    stream. A classifier that counts, such as naive Bayes, needs no replay. A classifier
    that takes gradient steps (``SGDClassifier``, ``MLPClassifier``, a skorch net with
    ``max_epochs=1`` and ``train_split=None``) benefits from several streams.

    No label has probability zero. Classes not seen so far get the Krichevsky-Trofimov
    estimate, a smoothed class frequency. After ``n`` labels, all probabilities are
    mixed with this estimate, which gets a share of ``1 / (n + 2)``. Without calibration
    and once the classifier has seen all classes, mixing costs at most ``1 + log(N /
    batch_size)`` nats over a stream of ``N`` rows (5 nats for 1,500 rows). In return, a
    label costs at most ``log(n + 2)`` nats more than under the Krichevsky-Trofimov
    estimate. If ``partial_fit`` raises, the readout predicts with that estimate until a
    call succeeds (see ``notes_``).

    The scaling is refreshed whenever the number of rows has doubled. A new copy of the
    classifier then learns all minibatches again, new and replayed ones, so that all
    rows have the same scaling. Learning thus takes up to three times as long as with
    ``scaling=None``.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``partial_fit`` and ``predict_proba``, which is copied and not
        modified. The classifier gets labels 0, ..., C - 1. The first call of
        ``partial_fit`` also gets all of them as ``classes``. Features are float32 for
        skorch nets and float64 otherwise.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling: regularised standardisation, or symmetric whitening with a
        shrunk covariance. The scaling is computed from the features of the first
        minibatch, and again from all rows so far whenever their number has doubled.
    calibration : bool, default=True
        Whether to multiply the classifier's log-probabilities by ``softplus(b)``
        (forward calibration). The scalar ``b`` is updated on each minibatch, before the
        classifier learns from it. This helps because many classifiers are
        overconfident.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed for every ``random_state`` of the estimator that is not set, and for draws
        of a skorch net. Torch's global generators do not change. In a switcher, None
        means the switcher's seed.
    n_replay_streams : int or (int, int), default=0
        Number of replay streams, each of which runs through the minibatches so far in
        order. After a new minibatch, the classifier learns the next minibatch of each
        stream. With ``(first, least)``, the number is ``first`` up to 1,000 rows, then
        ``first * sqrt(1000 / n)`` at row ``n`` (rounded up, at least ``least``).

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    notes_ : list of str
        The first 20 distinct exceptions and warnings of the estimator, each with its
        count and the number of rows learned before its first occurrence.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import IncrementalReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = IncrementalReadout(GaussianNB()).fit(X[:128], y[:128])
    >>> readout.score(X[128:], y[128:]) > 0.9
    True
    """

    n_replay_streams: int | Sequence[int] = 0

    needed = ("partial_fit", "predict_proba")
    learner = IncrementalLearner


@dataclass(eq=False, repr=False, kw_only=True)
class RefitReadout(WrappedReadout):
    """Readout that refits a classifier on all earlier rows as their number grows.

    The readout predicts with its last fit, or with class frequencies before the first
    fit. Used by itself and without calibration, it computes an online code like that of
    Voita and Titov (2020). With a smaller factor in `schedule`, it refits more often. A
    fit uses only past rows and labels, so pipelines may contain steps that use labels
    (``SelectKBest``, ``LinearDiscriminantAnalysis``).

    No label has probability zero. Classes not seen in the last fit get the
    Krichevsky-Trofimov estimate, a smoothed class frequency, from all labels so far.
    After ``n`` labels, all probabilities are mixed with this estimate, which gets a
    share of ``1 / (n + 2)``. Without calibration and once the classifier has seen all
    classes, mixing costs at most ``1 + log(N / batch_size)`` nats over a stream of
    ``N`` rows (5 nats for 1,500 rows). In return, a label costs at most ``log(n + 2)``
    nats more than under the Krichevsky-Trofimov estimate. If a fit raises (for example,
    because there is only one class), the previous fit is kept until the next fit (see
    ``notes_``).

    Parameters
    ----------
    estimator : classifier
        A classifier with ``fit`` and ``predict_proba``, which is copied and not
        modified. Wrap a classifier without probabilities as in
        ``CalibratedClassifierCV(SVC(), ensemble=False)``. The classifier gets labels 0,
        ..., C - 1. Features are float32 for skorch nets and float64 otherwise.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, which each fit learns from its own rows.
    calibration : bool, default=True
        Whether to multiply the classifier's log-probabilities by ``softplus(b)``
        (forward calibration). The scalar ``b`` is updated on each minibatch, before the
        classifier learns from it. This helps because many classifiers are
        overconfident.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed for every ``random_state`` of the estimator that is not set, and for draws
        of a skorch net. Torch's global generators do not change. In a switcher, None
        means the switcher's seed.
    schedule : "doubling" or float >= 1, default="doubling"
        Factor by which the number of rows must grow before the next fit ("doubling"
        means 2). With 1, the readout refits after every minibatch. A fit always follows
        the end of a minibatch, so it does not depend on how you divide rows into calls.
        If the time of a fit is linear in the number of rows, all fits together take
        about ``factor / (factor - 1)`` times as long as the last fit.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    notes_ : list of str
        The first 20 distinct exceptions and warnings of the estimator, each with its
        count and the number of rows learned before its first occurrence.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    References
    ----------
    Voita and Titov, 2020, Information-theoretic probing with minimum description
    length, EMNLP, section 3.2. Krichevsky and Trofimov, 1981, The performance of
    universal encoding, IEEE Transactions on Information Theory 27.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import RefitReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = RefitReadout(LogisticRegression(), schedule=1.5).fit(X, y)
    >>> readout.codelength_ < 0.5 * len(y) * 1.0986  # nats, log 3 per example
    True
    """

    schedule: str | float = "doubling"

    needed = ("fit", "predict_proba")
    learner = RefittedLearner
    takes_raw_rows = True  # uses the scaling of the last fit

    _parameter_constraints: ClassVar[Constraints] = {
        **WrappedReadout._parameter_constraints,
        "schedule": [StrOptions({"doubling"}), Interval(Real, 1, None, closed="left")],
    }

    @property
    def growth(self) -> float:
        """Factor by which the number of rows must grow before the next fit."""
        return DOUBLING if isinstance(self.schedule, str) else float(self.schedule)

    @property
    def architecture(self) -> str:
        """Short name of the classifier: "LogisticRegression refitted"."""
        return f"{_name_of(self.estimator)} refitted"


def _name_of(estimator: BaseEstimator) -> str:
    """Name a classifier and the one that it wraps, or the last step of a pipeline."""
    from sklearn.pipeline import Pipeline  # slow to import

    if isinstance(estimator, Pipeline):
        return _name_of(estimator.steps[-1][1])
    name = type(estimator).__name__
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        return getattr(estimator, "__name__", name)  # such as the module of a net
    params = estimator.get_params(deep=False)
    inner = params.get("module", params.get("estimator"))
    return name if inner is None else f"{name}({_name_of(inner)})"


def warn_of_failures(reports: Mapping[int, Report], names: Sequence[str]) -> None:
    """Warn about readouts whose last fit raised, given the names of all readouts."""
    for column, report in reports.items():
        if report.failure is not None:
            warn_caller(f"The last fit of readout {names[column]!r} {report.failure}")
