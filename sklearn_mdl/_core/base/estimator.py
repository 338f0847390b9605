"""The scikit-learn interface of an estimator that is evaluated online.

``fit`` checks its data, creates a run and passes rows to it. Fitted attributes are read
from the run. Estimators are dataclasses, so each parameter is declared once, as a
field. As scikit-learn requires, ``__init__`` only stores parameters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.saving import FileMixin
from sklearn_mdl._core.io.environment import environment_of, fingerprint
from sklearn_mdl._core.io.parameters import WITHOUT_EFFECT, settings_of
from sklearn_mdl._core.io.whole_files import exclusive
from sklearn_mdl._core.numerics import as_array, dense, fixed_arithmetic
from sklearn_mdl._core.sklearn_compat import (
    CallbackSupportMixin,
    fit_context,
    with_callbacks,
)
from sklearn_mdl._core.stream.checkpoint import ENVIRONMENT, Checkpoint
from sklearn_mdl._core.stream.events import Event, Notify, Progress
from sklearn_mdl._core.stream.heldout import continued, predict_rows
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.run import Evaluator, PrequentialRun
from sklearn_mdl._core.stream.samples import is_mapped
from sklearn_mdl._core.stream.schedule import grouped_order, keys_of
from sklearn_mdl._core.validation import (
    invalid,
    validated,
    warn_caller,
    warn_if_rounded,
)

RandomState = int | np.random.RandomState | None


class UnfittedRun:
    """Placeholder for a fitted attribute, until a value is set on the instance.

    Parameters
    ----------
    doc : str
        Docstring of the attribute.
    """

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __get__(self, estimator: object, owner: type) -> Any:
        """Raise NotFittedError on an unfitted estimator."""
        if estimator is None:
            return self
        raise NotFittedError(
            f"This {owner.__name__} must have been evaluated on some rows, but it is "
            "not fitted yet; call fit(X, y) first"
        )


class OnlineEstimator(CallbackSupportMixin, FileMixin, BaseEstimator):
    """Base class of estimators that predict each example before they learn it.

    Subclasses create their run in ``_make_run``, and check and encode labels.
    """

    shuffle: bool = False
    verbose: int = 0
    checkpoint: str | PathLike[str] | None = None
    random_state: RandomState
    _run: PrequentialRun = UnfittedRun("The run.")  # type: ignore[assignment]
    _seed: int
    # Warning if all readouts have diverged, with the cause and what is predicted then.
    _all_diverged = (
        "all readouts have diverged{} and have predicted {} since then, so the "
        "codelength hardly depends on the features; for example, pass lr=1e-4 to "
        "networks or alpha=1.0 to kernels, or debug your own kernels or classifiers"
    )
    _once_diverged = "uniformly"

    @abstractmethod
    def _make_run(
        self, n_features: int, outcome: Outcome, seed: int, retired: Collection[int]
    ) -> PrequentialRun:
        """Create the run of a new stream."""

    @abstractmethod
    def _outcome(self, classes: np.ndarray | None) -> Outcome:
        """Return the outcome of a stream, and store its classes if there are any."""

    @abstractmethod
    def _checked(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Check features and labels."""

    @abstractmethod
    def _encoded(self, y: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
        """Encode labels for a run that evaluates rows in the given ``order``."""

    @abstractmethod
    def _decoded(self, labels: np.ndarray) -> np.ndarray:
        """Return encoded labels of a run in their original form."""

    @abstractmethod
    def _fingerprint_of(self, labels: np.ndarray) -> str:
        """Return a hash of the original form of encoded labels."""

    def _classes_of(self, y: np.ndarray) -> np.ndarray | None:
        """Return the classes of a whole stream, or None if labels are real numbers."""
        return None

    def _forget_classes(self) -> None:
        """Forget classes of rows that were not evaluated."""

    @contextmanager
    def _evaluating(
        self, checkpoint: Checkpoint | None
    ) -> Iterator[tuple[Evaluator | None, list[Event]]]:
        """Yield the evaluator of readouts (None for threads) and checkpoint events."""
        yield None, [] if checkpoint is None else [checkpoint]

    def _check_labels(self, labels: np.ndarray, keys: np.ndarray | None) -> None:
        """Warn if labels (of rows with these groups) make the codelength misleading."""

    def _after_fit(self) -> None:
        """Warn about problems of a stream after ``fit``."""

    @fit_context
    def fit(
        self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike | None = None
    ) -> Self:
        """Fit from scratch: one prequential pass over the rows in the given order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, converted to float32.
        y : array-like of shape (n_samples,)
            Labels of at least two classes or, for a regressor, real numbers. An
            ``MDLReadoutSwitcher`` with ``new_classes="escape"`` accepts a single class.
            There is no ``sample_weight``, since a weighted sum is not a codelength.
            Repeat or drop rows instead.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, such as a patient. The labels of a group are learned
            only once all its rows are coded. Rows of a group must be adjacent unless a
            switcher has ``shuffle=True``, which permutes groups, and rows within each
            group.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If X or real labels contain NaN or infinity, or if lengths differ. Also if a
            classifier gets too few classes, or if rows of a group are not adjacent.

        Warns
        -----
        UserWarning
            For example, if nothing was learned before the last label.
        """
        with fixed_arithmetic(), self._all_or_nothing():
            rows, given = self._checked(X, y, reset=True)
            keys = keys_of(groups, len(rows))
            classes = self._classes_of(given)
            self._begin(rows.shape[1], classes, n_rows=len(rows), keys=keys)
            labels = self._encoded(given, self.order_)
            self._check_labels(labels, keys)
            order = self.order_ if self.shuffle else None
            checkpoint = self._checkpoint_of(rows, labels, keys)
            self._drive(rows, labels, order, keys, checkpoint, given)
        run = self._run
        first, delay = 1 if run.learns_by_row else run.rows.first, run.schedule.delay
        if (delay or not run.learns_by_row) and run.n_scored <= first + delay:
            size = max(1, min(first // 4, run.n_scored - delay - 1))
            is_late = run.n_scored - 1 <= delay > 0
            cure = "lower label_delay" if is_late else f"set batch_size={size}"
            warn_caller(
                f"{type(self).__name__} should learn before its last label, but it "
                f"predicted all {self.n_samples_seen_} rows before it learned any, so "
                "the codelength does not depend on the features; fit more than "
                f"{first + delay} rows, or {cure}"
            )
        self._after_fit()
        return self

    def _continue(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: np.ndarray | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Evaluate more rows of the same stream, or the first rows of a new stream."""
        first = not hasattr(self, "_run")
        with fixed_arithmetic():
            with self._all_or_nothing():
                rows, given = self._checked(X, y, reset=first)
                if first:
                    self._begin(rows.shape[1], classes)
                labels = self._encoded(given)
                keys = keys_of(groups, len(rows))
                if keys is not None:
                    self._run.check_groups(keys)
                self._run.check_length(len(rows))
                self._run.samples.check_reuse(rows)
            self._drive(rows, labels, keys=keys)
        return self

    def _continue_by_blocks(self, blocks: Iterable[object], **classes: object) -> Self:
        """Fit from scratch, block by block."""
        pairs = pairs_of(blocks)
        X, y = next(pairs)
        with self._all_or_nothing():
            for name in vars(self).keys() - self.get_params(deep=False).keys():
                if not name.startswith("_skl"):  # scikit-learn's callbacks
                    delattr(self, name)
            self.partial_fit(X, y, **classes)
        for X, y in pairs:
            self.partial_fit(X, y)
        return self

    def _begin(
        self,
        n_features: int,
        classes: np.ndarray | None,
        *,
        n_rows: int | None = None,
        seed: int | None = None,
        keys: np.ndarray | None = None,
        retired: Collection[int] = (),
    ) -> None:
        """Begin a new stream, and set the order of its rows if ``n_rows`` is given.

        If the stream was begun before, some readouts may have ``retired`` since.
        """
        outcome = self._outcome(classes)
        if seed is None:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._run = self._make_run(n_features, outcome, seed, retired)
        self._seed = seed
        # Files recreate the run from these parameters, even if they are changed later.
        self._settings = clone(self)
        if n_rows is not None:
            self._run.check_length(n_rows)  # before anything is written
            self.order_ = np.arange(n_rows)
            if self.shuffle:
                order = np.random.default_rng(seed).permutation(n_rows)
                self.order_ = grouped_order(order, keys)

    @with_callbacks
    def _drive(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        order: np.ndarray | None = None,
        keys: np.ndarray | None = None,
        checkpoint: Checkpoint | None = None,
        given: np.ndarray | None = None,
    ) -> None:
        """Run over rows, and notify callbacks if the original labels are ``given``."""
        run, events, n_before = self._run, list[Event](), self._run.n_scored
        if self.verbose:
            events.append(Progress(type(self).__name__))
        if given is not None and hasattr(self, "_skl_callbacks"):
            events.append(Notify(self, X, given))
        places = (run.trace.folder, checkpoint)
        paths = {place.path.resolve() for place in places if place is not None}
        try:
            with ExitStack() as stack:
                for path in sorted(paths):  # sorted to avoid deadlock
                    stack.enter_context(exclusive(path))
                for event in events:
                    stack.callback(event.close)
                by, saving = stack.enter_context(self._evaluating(checkpoint))
                events = [*saving, *events]
                run.run(X, labels, order, groups=keys, events=events, evaluator=by)
        finally:
            if hasattr(self, "order_"):
                self.order_ = self.order_[: self._run.n_scored]
            self._forget_classes()
        self._warn_of_diverged(n_before)

    def _warn_of_diverged(self, start: int) -> None:
        """Warn if all readouts have diverged. Subclasses may use ``start``."""
        if self._run.diverged.all():
            notes = self._run.threads.notes.values()
            cause = next((f" ({lines[-1]})" for lines in notes), "")
            warn_caller(self._all_diverged.format(cause, self._once_diverged))

    def __sklearn_tags__(self) -> Tags:
        """Return tags, including support for sparse rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return True once a stream has begun."""
        return hasattr(self, "_run")

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the previous state of the estimator if an error is raised."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException as error:
            run: PrequentialRun | None = self.__dict__.get("_run")
            is_new = run is not before.get("_run")
            resumable = is_new and run is not None and run.can_go_on and run.n_scored
            # An interrupted stream is kept, so that it can be resumed.
            if not (isinstance(error, KeyboardInterrupt) and resumable):
                self.__dict__ = before
            raise

    def _validated(self, X: ArrayLike, *y: ArrayLike, reset: bool) -> Any:
        """Check features, and labels if given.

        Rows become dense float32 rows. Memory maps of numbers keep their dtype, since
        converting them would read them entirely into memory.
        """
        rows, *labels = map(as_array, (X, *y))
        rows = dense(rows)
        keeps_dtype = is_mapped(rows) and rows.dtype.kind in "fiu"
        dtype = rows.dtype if keeps_dtype else np.float32
        checked = validated(self, rows, *labels, dtype=dtype, reset=reset)
        if y:
            warn_if_rounded(rows, getattr(self, "feature_names_in_", None))
        return checked

    def _checkpoint_of(
        self, X: np.ndarray, labels: np.ndarray, keys: np.ndarray | None
    ) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not isinstance(seed := self.random_state, Integral):
            cure = "pass random_state=0, so that a resumed run draws the same numbers"
            raise invalid("random_state", "an integer with a checkpoint", seed, cure)
        kind = type(self)
        about = {
            "estimator": f"{kind.__module__}.{kind.__qualname__}",
            # Another device is another environment, which only causes a warning.
            "settings": settings_of(self, WITHOUT_EFFECT | {"device"}),
            "X": {"shape": list(X.shape), "sha256": fingerprint(X, "<f4")},
            "y": self._fingerprint_of(labels),
            ENVIRONMENT: environment_of(self._run.rows.device),
        }
        if keys is not None:
            about["groups"] = fingerprint(keys[:, np.newaxis], "<i8")
        checkpoint = Checkpoint(Path(self.checkpoint), about)
        folder = self._run.trace.folder
        if folder is not None:
            folder.name = checkpoint.name
        return checkpoint

    @property
    def codelength_(self) -> float:
        """Codelength of all labels seen so far, in nats."""
        return float(np.sum(self.codelengths_))

    @property
    def codelengths_(self) -> np.ndarray:
        """Codelengths (n_samples_seen_,) in nats, in the order of evaluation."""
        return self._run.trace.codelengths

    @property
    def n_samples_seen_(self) -> int:
        """Number of examples evaluated so far."""
        return self._run.n_scored

    def heldout_codelengths(
        self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike | None = None
    ) -> np.ndarray:
        """Return codelengths of further rows without changing the estimator.

        A copy of the run continues the stream with these rows, and predicts each row
        before learning it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            As for :meth:`fit`. Groups of the stream must not occur again.

        Returns
        -------
        codelengths : ndarray of shape (n_samples,)
            In nats.

        Raises
        ------
        ValueError
            If y contains an unknown class and ``new_classes`` is not "escape", if a
            group of the stream occurs again, or for the reasons given in :meth:`fit`.
        """
        check_is_fitted(self)
        rows, labels = self._checked(X, y, reset=False)
        return self._continued(rows, labels, keys_of(groups, len(rows)))

    def _continued(
        self, X: np.ndarray, y: np.ndarray, keys: np.ndarray | None = None
    ) -> np.ndarray:
        try:
            with fixed_arithmetic():
                return continued(self._run, X, self._encoded(y), keys)
        finally:
            self._forget_classes()

    def _predicted(self, X: ArrayLike) -> np.ndarray:
        """Predict rows after learning all labels that are known."""
        return predict_rows(self._run, self._validated(X, reset=False))

    def _labels_seen(self) -> np.ndarray:
        return np.asarray(self._run.labels.cpu().numpy())


def pairs_of(blocks: Iterable[object]) -> Iterator[tuple[Any, Any]]:
    """Check the blocks of a stream, and yield each as a pair (X, y).

    Raises
    ------
    ValueError
        If there is no block.
    TypeError
        If a block is not a pair.
    """
    number = -1
    for number, block in enumerate(blocks):
        if not isinstance(block, (tuple, list)) or len(block) != 2:
            raise TypeError(
                "blocks must yield pairs (X, y) of features and their labels, but "
                f"block {number} is {block!r:.40}...; write yield X, y"
            )
        yield block[0], block[1]
    if number < 0:
        raise ValueError(
            "blocks must yield at least one pair (X, y), got none; pass a new "
            "generator if this one was already read"
        )
