"""Isolation of wrapped estimators: seeds, warnings and exceptions."""

from __future__ import annotations

import copy
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.random import default_rng
from sklearn.base import BaseEstimator, clone

from sklearn_mdl._core.numerics import SharedSetting, flushed_denormals
from sklearn_mdl._core.sklearn_compat import predict_proba
from sklearn_mdl.readouts._floor import Floats, spread

_GENERATORS_OF_TORCH = threading.RLock()


def seeded(estimator: BaseEstimator, seed: int) -> BaseEstimator:
    """Return a seeded copy of an unfitted estimator.

    Every ``random_state`` that is None becomes an integer, even in inner estimators, so
    the copy does not use NumPy's global state. If a callable creates the module of a
    skorch net, the callable is wrapped, since it may always return the same module.
    """
    params = estimator.get_params(deep=True)
    unset = [name for name, value in params.items() if value is None]
    names = sorted(n for n in unset if n.rpartition("__")[2] == "random_state")
    draws = default_rng(seed).integers(2**31 - 1, size=len(names)).tolist()
    changes: dict[str, object] = dict(zip(names, draws, strict=True))
    for prefix, part in {"": estimator, **params}.items():
        if _is_net(part) and inspect.isroutine(part.module):
            changes[f"{prefix}__module".lstrip("_")] = partial(_copied, part.module)
    copied = clone(estimator)
    copied.set_params(**changes)  # returns None if the estimator is frozen
    return copied


def _copied(make: Callable[..., object], *args: object, **options: object) -> object:
    """Return a copy of what a callable returns."""
    return copy.deepcopy(make(*args, **options))


def has_net(estimator: BaseEstimator) -> bool:
    """Return True if an estimator is or contains a skorch net."""
    return any(map(_is_net, [estimator, *estimator.get_params(deep=True).values()]))


def _is_net(part: object) -> bool:
    from skorch import NeuralNet

    return isinstance(part, NeuralNet)


@contextmanager
def net_draws(is_net: bool, seed: int) -> Iterator[None]:
    """Seed torch's global generators inside the ``with`` block, if ``is_net``.

    The generators are restored afterwards. Only one thread at a time may be in such a
    block.
    """
    if not is_net:
        yield
        return
    devices = range(torch.cuda.device_count())
    with _GENERATORS_OF_TORCH, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


KEPT_TEXTS = 20  # largest number of distinct texts


class Notes:
    """The first 20 distinct exceptions and warnings of an estimator, with counts."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, int]] = {}

    def add(self, kind: type[BaseException], message: object, n_rows: int) -> str:
        """Record an exception or warning after ``n_rows`` rows, and return its text."""
        text = f"{kind.__name__}: {' '.join(str(message).split())}"
        if text in self._found or len(self._found) < KEPT_TEXTS:
            first, count = self._found.get(text, (n_rows, 0))
            self._found[text] = (first, count + 1)
        return text

    def lines(self) -> list[str]:
        """Return one line for each text, in order of first occurrence."""
        return [
            f"{text} (first after {first} rows, {count} in all)"
            for text, (first, count) in self._found.items()
        ]


class _Collector:
    """Collector of the warnings that several threads raise in ``with`` blocks.

    Warning filters belong to the whole process, so threads share one setting that
    enables all warnings. Each warning is assigned to the thread that raised it.
    """

    def __init__(self) -> None:
        self._enabled = SharedSetting(self._enable)
        self._own = threading.local()

    def _enable(self) -> Callable[[], object]:
        stack = ExitStack()
        stack.enter_context(warnings.catch_warnings(action="always"))
        self._shown: Callable[..., None] = warnings.showwarning
        warnings.showwarning = self._show
        return stack.close

    @contextmanager
    def __call__(self, notes: Notes, n_rows: int) -> Iterator[None]:
        outer = getattr(self._own, "into", None)
        with self._enabled():
            self._own.into = (notes, n_rows)
            try:
                yield
            finally:
                self._own.into = outer

    def _show(
        self, message: object, category: type[Warning], *place: object, **rest: object
    ) -> None:
        into = getattr(self._own, "into", None)
        if into is None:
            self._shown(message, category, *place, **rest)
        else:
            notes, n_rows = into
            notes.add(category, message, n_rows)


collected = _Collector()


class IsolatedClassifier:
    """A classifier whose warnings and exceptions are recorded.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``predict_proba``, which is copied and not modified.
    n_classes : int
    seed : int
        Seed of the copies if their ``random_state`` is None, and of nets.

    Attributes
    ----------
    blank : classifier
        Seeded copy that is never fitted.
    fitted : classifier or None
        The last valid fit.
    known : ndarray of shape (n_classes,), bool
        True for classes in the data of the last valid fit.
    counts : ndarray of shape (n_classes,)
        Number of labels of each class learned so far.
    complaints : Notes
        Distinct exceptions and warnings of the copies.
    fault : str
        The exception that the last attempt to fit raised, or "".
    """

    def __init__(self, estimator: BaseEstimator, n_classes: int, seed: int) -> None:
        self.seed = seed
        self.blank = seeded(estimator, seed)
        self.has_net = has_net(self.blank)
        # Torch modules use float32; other estimators work best with float64.
        self.dtype = np.float32 if self.has_net else np.float64
        self.fitted: Any = None
        self.known = np.zeros(n_classes, dtype=bool)
        self.counts = np.zeros(n_classes, dtype=np.int64)
        self.complaints = Notes()
        self.fault = ""

    @contextmanager
    def isolated(self, draw: int = 0) -> Iterator[None]:
        """Record warnings, keep denormal numbers, and seed nets by ``seed + draw``."""
        warned = collected(self.complaints, int(self.counts.sum()))
        draws = net_draws(self.has_net, self.seed + draw)
        with warned, flushed_denormals(flush=False), draws:
            yield

    def complain(self, error: Exception) -> str:
        """Record an exception, and return its text without a final point."""
        n_rows = int(self.counts.sum())
        return self.complaints.add(type(error), error, n_rows).rstrip(".")

    def attempt(
        self,
        fit: Callable[..., object],
        *arguments: np.ndarray,
        draw: int = 0,
        **named: np.ndarray,
    ) -> bool:
        """Call a method that fits an estimator, and return False if it raised."""
        self.fault = ""
        try:
            with self.isolated(draw):
                fit(*arguments, **named)
        except Exception as error:
            self.fault = self.complain(error)
        return not self.fault

    def probabilities(self, features: np.ndarray) -> Floats:
        """Return what the fitted classifier predicts, with a column for each class."""
        with self.isolated():
            given, n_classes = predict_proba(self.fitted, features), len(self.counts)
            return spread(given, self.fitted, (len(features), n_classes))
