"""Any classifier of scikit-learn's kind as an expert: incremental, or refitted."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.experts.base import Expert
from sklearn_mdl.experts.wrapped import (
    Context,
    IncrementalLearner,
    RefittedLearner,
    WrappedLearner,
)
from sklearn_mdl.prequential import Learner

DOUBLING = 2.0

_SETTINGS = """calibration : bool, default=True
        Forward calibration: the classifier's log-probabilities are multiplied by
        ``softplus(b)``, where the scalar ``b`` is learned on each minibatch before the
        classifier sees its labels. Many classifiers are surer than they should be.
    batch_size : int, default=32
        Rows learned at once. A switcher's own value wins over its experts'.
    random_state : int, RandomState instance or None, default=None
        Stands in wherever a ``random_state`` of the estimator is None, and seeds what a
        skorch net draws from torch's generators, which are left as they were. None
        takes the switcher's.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        The same by example.
    notes_ : list of str
        Exceptions and warnings of the estimator, each once, with the number of rows
        learned when it first came and with how often it did.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` walked the rows."""


class WrappingExpert(Expert):
    """What wrappers of a classifier share."""

    needed: ClassVar[tuple[str, ...]]
    advice: ClassVar[str]
    learner: ClassVar[type[WrappedLearner]]
    estimator: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": "no_validation",  # type: ignore[dict-item]
        "scaling": [StrOptions({"standard", "whiten"}), None],
        "calibration": ["boolean"],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _validate_params(self) -> None:
        super()._validate_params()
        name, estimator = type(self).__name__, self.estimator
        missing = [m for m in self.needed if not hasattr(estimator, m)]
        if isinstance(estimator, type) or missing:
            raise TypeError(
                f"{name} needs a classifier with {' and '.join(self.needed)}, got "
                f"{estimator!r}; {self.advice}"
            )
        if hasattr(estimator, "_parameter_constraints"):
            estimator._validate_params()

    @property
    def architecture(self) -> str:
        """Short name of the classifier: "GaussianNB", "CalibratedClassifierCV(SVC)"."""
        return _name_of(self.estimator)

    @classmethod
    def _learners(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[Learner]:
        return [cls.learner(column, expert, context) for column, expert in members]

    @property
    def notes_(self) -> list[str]:
        """Exceptions and warnings of the estimator, each once."""
        check_is_fitted(self)
        (learner,) = self._course.learners
        return cast(WrappedLearner, learner).notes.lines()

    def _after_fit(self) -> None:
        warn_of_failures(self._course.learners, [self.architecture])


def _document(cls: type) -> type:
    cls.__doc__ = str(cls.__doc__).replace("{settings}", _SETTINGS)
    return cls


@_document
class IncrementalExpert(WrappingExpert):
    """A classifier with ``partial_fit`` as an expert, told minibatch by minibatch.

    It is told each minibatch once, and then those of the replay streams. A classifier
    that counts, as naive Bayes does, needs none; one that takes gradient steps
    (``SGDClassifier``, ``MLPClassifier``, a skorch net with ``max_epochs=1`` and
    ``train_split=None``) learns more from several.

    No label is impossible: classes not seen so far get the Krichevsky-Trofimov
    estimate, and all probabilities are mixed with it by a share of ``1 / (n + 2)``
    after ``n`` labels. That costs at most ``1 + log(N / batch_size)`` nats more than
    the classifier's own probabilities over a stream of ``N``, where it has seen all
    classes; in return a label costs at most ``log(n + 2)`` nats more than its
    Krichevsky-Trofimov estimate. If ``partial_fit`` raises, the expert predicts by that
    estimate until it comes through again; see ``notes_``.

    When the walk refreshes the scaling, at 2, 4, 8, ... minibatches, a new copy of the
    classifier learns all minibatches and replays from the first on, scaled anew: so
    the scaling is the same for all that it knows, and learning takes at most three
    times as long. With ``scaling=None`` that is not needed.

    Parameters
    ----------
    estimator : classifier
        With ``partial_fit`` and ``predict_proba``; it is copied and stays as it is. Its
        labels are 0, ..., C - 1, which it is told as ``classes`` with the first
        minibatch. Features are float32 for skorch nets, float64 for all others.
    n_replay_streams : int, default=0
        Replay streams ``S``: each new minibatch is followed by one of each stream.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned from full minibatches already scored.
    {settings}

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import IncrementalExpert
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> expert = IncrementalExpert(GaussianNB()).fit(X[:128], y[:128])
    >>> expert.score(X[128:], y[128:]) > 0.9
    True
    """

    needed = ("partial_fit", "predict_proba")
    advice = (
        "pass an instance that has both, or wrap any other classifier in RefittedExpert"
    )
    learner = IncrementalLearner

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **WrappingExpert._parameter_constraints,
        "n_replay_streams": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        n_replay_streams: int = 0,
        scaling: str | None = "standard",
        calibration: bool = True,
        batch_size: int = 32,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_replay_streams = n_replay_streams
        self.scaling = scaling
        self.calibration = calibration
        self.batch_size = batch_size
        self.random_state = random_state


@_document
class RefittedExpert(WrappingExpert):
    """Any classifier as an expert: fitted anew on all rows learned, at block ends.

    It predicts with its last fit, and before the first by the frequencies of the
    labels. Walked alone without calibration this is the block-wise code of Voita and
    Titov (2020); a smaller growth factor predicts with fresher fits. Since a fit sees
    past rows and labels only, pipelines may hold steps that use labels
    (``SelectKBest``, ``LinearDiscriminantAnalysis``).

    No label is impossible: classes that the last fit has not seen get the
    Krichevsky-Trofimov estimate from all labels so far, and all probabilities are mixed
    with it by a share of ``1 / (n + 2)`` after ``n`` labels. That costs at most ``1 +
    log(N / batch_size)`` nats more than the classifier's own probabilities over a
    stream of ``N``, where it has seen all classes; in return a label costs at most
    ``log(n + 2)`` nats more than its Krichevsky-Trofimov estimate. If a fit raises (one
    class only, too few examples for a calibration), the one before it stays, and the
    next block end tries again; see ``notes_``.

    Parameters
    ----------
    estimator : classifier
        With ``fit`` and ``predict_proba``; it is copied and stays as it is. A
        classifier without probabilities gets them from
        ``CalibratedClassifierCV(SVC(), ensemble=False)``. Its labels are 0, ..., C - 1.
        Features are float32 for skorch nets, float64 for all others.
    schedule : "doubling" or float >= 1, default="doubling"
        By which factor the rows must have grown for the next fit; 1 fits anew after
        every minibatch. Blocks end with full minibatches, so that they depend on the
        number of rows alone. All fits together take about ``factor / (factor - 1)``
        times as long as the last, if its time is linear in the rows.
    scaling : {"standard", "whiten"} or None, default="standard"
        Feature scaling, learned at every fit from the rows of that fit.
    {settings}

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
    >>> from sklearn_mdl import RefittedExpert
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> expert = RefittedExpert(LogisticRegression(), schedule=1.5).fit(X, y)
    >>> expert.codelength_ < 0.5 * len(y) * 1.0986  # nats, log 3 an example
    True
    """

    needed = ("fit", "predict_proba")
    advice = (
        "pass an instance that has both, for example "
        "CalibratedClassifierCV(SVC(), ensemble=False)"
    )
    learner = RefittedLearner

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **WrappingExpert._parameter_constraints,
        "schedule": [StrOptions({"doubling"}), Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        schedule: Any = "doubling",
        scaling: str | None = "standard",
        calibration: bool = True,
        batch_size: int = 32,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.schedule = schedule
        self.scaling = scaling
        self.calibration = calibration
        self.batch_size = batch_size
        self.random_state = random_state

    @property
    def seen_scaling(self) -> None:
        """None: rows come as they are, and are scaled as those of the last fit."""
        return None

    @property
    def growth(self) -> float:
        """The schedule as a factor."""
        return DOUBLING if isinstance(self.schedule, str) else float(self.schedule)

    @property
    def architecture(self) -> str:
        """Short name of the classifier: "SVC refitted"."""
        return f"{_name_of(self.estimator)} refitted"


def _name_of(estimator: Any) -> str:
    """Name a classifier by its class, a pipeline by its last step."""
    if isinstance(estimator, Pipeline):
        return _name_of(estimator.steps[-1][1])
    name = type(estimator).__name__
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        return getattr(estimator, "__name__", name)  # inside a net: what it is made of
    params = estimator.get_params(deep=False)
    inner = params.get("module", params.get("estimator"))
    return name if inner is None else f"{name}({_name_of(inner)})"


def warn_of_failures(learners: Iterable[Learner], names: Sequence[str]) -> None:
    """Warn of experts whose last fit raised; ``names`` by the columns of learners."""
    for learner in learners:
        if isinstance(learner, WrappedLearner) and learner.failing:
            name = names[learner.columns[0]]
            instead = (
                "class frequencies" if learner.fitted is None else "the fit before"
            )
            warnings.warn(
                f"The last fit of {name!r} should have come through, but it raised "
                f"({learner.notes.lines()[-1]}), so that it predicts by {instead}; "
                "change its settings or leave it out",
                UserWarning,
                stacklevel=5,
            )
