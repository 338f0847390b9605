"""The scikit-learn chores of an estimator that walks, whatever it predicts."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from sklearn_mdl._sklearn import CallbackSupportMixin, FitTasks, with_callbacks
from sklearn_mdl.arithmetic import as_array
from sklearn_mdl.checks import check_finite
from sklearn_mdl.conditions import environment_of, fingerprint
from sklearn_mdl.leading import lead
from sklearn_mdl.persistence import ENVIRONMENT, Checkpoint, FileMixin
from sklearn_mdl.readings import StreamReadings
from sklearn_mdl.samples import is_mapped
from sklearn_mdl.settings import WITHOUT_EFFECT, settings_of


class OnlineEstimator(CallbackSupportMixin, StreamReadings, FileMixin, BaseEstimator):
    """Base of estimators that predict each example before they learn it."""

    shuffle = False
    verbose = 0
    checkpoint: Any = None
    _all_diverged: str  # what is told when no readout predicts any more
    _seed: int

    @abstractmethod
    def _begin(self, n_features: int, classes: Any, seed: int | None = None) -> int:
        """Make the course of a new stream; returns its seed."""

    @abstractmethod
    def _decoded(self, labels: np.ndarray) -> np.ndarray:
        """Return labels of the walk as the user gave them."""

    @abstractmethod
    def _fingerprint_of(self, labels: np.ndarray) -> str:
        """Return a digest of the labels as the user gave them."""

    def _drawn(self, seed: int | None) -> int:
        """Draw the seed of a stream, if none is given."""
        if seed is not None:
            return seed
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _after_fit(self) -> None:
        """Say what is to be said of a stream that `fit` has walked."""

    def _forget(self) -> None:
        """Drop all that was fitted."""
        for name in vars(self).keys() - self.get_params(deep=False).keys():
            if not name.startswith("_skl"):  # callbacks, which are scikit-learn's
                delattr(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a stream has begun."""
        return hasattr(self, "_course")

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if what it is given is refused."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException as error:
            if not (isinstance(error, KeyboardInterrupt) and self._has_new(before)):
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    def _has_new(self, before: dict[str, Any]) -> bool:
        """Whether a new stream was left where it can go on."""
        course = self.__dict__.get("_course")
        if course is None or course is before.get("_course"):
            return False
        return bool(course.can_go_on and course.n_scored)

    def _validated(self, X: Any, *y: Any, reset: bool) -> Any:
        """Check features, and labels where they come along.

        Memory maps are not converted, which would copy them whole.
        """
        X, *labels = map(as_array, (X, *y))
        left_alone = is_mapped(X) and X.dtype.kind in "fiu"
        with np.errstate(over="ignore"):  # refused below, with its place
            found = validate_data(
                self,
                X,
                *labels,
                dtype=X.dtype if left_alone else np.float32,
                ensure_all_finite=False,
                reset=reset,
            )
        names = getattr(self, "feature_names_in_", None)
        check_finite(found[0] if y else found, names)
        return found

    def _checked_rows(self, X: Any, *, reset: bool) -> np.ndarray:
        found: np.ndarray = self._validated(X, reset=reset)
        return found

    def _set_out(self, n_rows: int, n_features: int, classes: Any) -> None:
        """Begin anew, and settle the order in which all rows will be walked."""
        seed = self._begin(n_features, classes)
        self.order_ = np.arange(n_rows)
        if self.shuffle:
            self.order_ = np.random.default_rng(seed).permutation(n_rows)

    def _walk(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        order: np.ndarray | None = None,
        checkpoint: Checkpoint | None = None,
        told: tuple[Any, Any] | None = None,
    ) -> None:
        course = self._course
        begin = course.begin(X, order)
        if checkpoint is not None:
            checkpoint.resume(course)
        try:
            self._lead(
                labels if order is None else labels[order], begin, checkpoint, told
            )
        finally:
            if hasattr(self, "order_"):
                self.order_ = self.order_[: course.n_scored]
        if course.diverged.all():
            warnings.warn(self._all_diverged, UserWarning, stacklevel=4)

    @with_callbacks
    def _lead(
        self,
        labels: np.ndarray,
        begin: int,
        checkpoint: Checkpoint | None,
        told: tuple[Any, Any] | None,
    ) -> None:
        course = self._course
        lead(
            course,
            torch.from_numpy(labels),
            begin,
            checkpoint=checkpoint,
            tasks=told and FitTasks(self, course.count_segments(), *told),
            desc=type(self).__name__,
            disable=not self.verbose,
        )

    def _checkpoint_of(self, X: np.ndarray, labels: np.ndarray) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                "checkpoint needs a random_state that is an integer, got "
                f"{self.random_state!r}, with which a resumed walk would draw other "
                "numbers; pass for example random_state=0"
            )
        about = {
            # The device is part of the environment: another one warns.
            "settings": settings_of(self, WITHOUT_EFFECT | {"device"}),
            "X": {"shape": list(X.shape), "sha256": fingerprint(X, "<f4")},
            "y": self._fingerprint_of(labels),
            ENVIRONMENT: environment_of(self._course.device),
        }
        return Checkpoint(Path(self.checkpoint), about)


def pairs_of(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield the blocks of a stream, each of them looked at.

    Raises
    ------
    ValueError
        If there is none.
    TypeError
        If one is no pair.
    """
    number = -1
    for number, block in enumerate(blocks):
        if not isinstance(block, (tuple, list)) or len(block) != 2:
            raise TypeError(
                "blocks must yield pairs (X, y), of features and their labels, but "
                f"block {number} is {type(block).__name__}; yield both together"
            )
        yield block
    if number < 0:
        raise ValueError(
            "blocks must yield at least one pair (X, y), got none; a generator "
            "that was read before yields nothing more"
        )
