"""The log-linear pool, and the online passes of pools over a stream."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from sklearn_mdl.pooling._groups import Floats, Members, newton_step, without
from sklearn_mdl.switching import are_numbers_in, check_integer, invalid, is_number_in

_CURE = "for sorted classes, pass np.searchsorted(classes, y) of all rows"


class PoolTrace(NamedTuple):
    """Result of a pass of a pool over labels.

    Attributes
    ----------
    codelength : float
        Cost of all labels of this pass, in nats: the sum of `codelengths`.
    codelengths : ndarray of shape (N,)
        Cost of each label given the labels before it, in nats.
    weights : ndarray of shape (N, G)
        Weights of the kinds just before each label.
    """

    codelength: float
    codelengths: Floats
    weights: Floats


@dataclass(eq=False, repr=False)
class LogLinearPool(BaseEstimator):
    r"""Log-linear pool of several kinds of experts, learned online.

    The prediction for a row is

    .. math::

        p_t(y) \propto \prod_g q_{gt}(y)^{w_g},

    where :math:`q_g` is the prediction of kind ``g``. Weights start at ``1 / G``, may
    be negative and need not sum to one. Once a label is coded, the weights take one
    online Newton step. With :math:`F_{gc} = \log q_g(c) - \sum_k p(k) \log q_g(k)`,

    .. math::

        H \leftarrow H + F \operatorname{diag}(p) F^\top, \qquad
        w \leftarrow w + H^{-1} F_{\cdot y}, \qquad H_0 = \lambda I .

    Parameters
    ----------
    kinds : array-like of shape (n_readouts,), default=None
        Kind of each readout in a switcher's list. If None, readouts are of the same
        kind if they agree in view, architecture, scaling, averaging, kernel (with its
        depth, width or degree) and, for classification, kernel noise. Readouts that
        ignore features are of one kind. Ignored if you call the pool with predictions
        of kinds.
    prior_precision : float, default=15.0
        Precision :math:`\lambda`, which keeps the weights near ``1 / G`` at first.
    floor : float, default=1e-4
        Weight of the uniform distribution that is mixed into the predictions of every
        kind and of the pool. Without a floor, a single kind that is both certain and
        wrong can make the regret grow linearly. Real-valued labels have no floor.
    half_life : float, default=None
        Number of labels after which the weight of a label in :math:`H` has halved. If
        None, all labels weigh the same. For streams that drift, pass 100, for example.
        :math:`H` then decays towards :math:`H_0`, so steps stay large enough to follow
        new labels.
    rates : sequence of float, default=None
        Constant rates of the fixed share with which a switcher mixes the readouts of a
        kind. Each kind has its own Bayesian mixture over the rates. If None, the rate
        is ``1 / t`` at row ``t``. Ignored if you call the pool with predictions of
        kinds.

    See Also
    --------
    sklearn_mdl.forward : The switching mixture, which uses one expert at a time.

    References
    ----------
    Neyman and Roughgarden, 2023, "No-regret learning with unbounded losses: the case of
    logarithmic pooling"; Mattern, 2013, "Linear and geometric mixtures" (arXiv
    1302.2820).

    Examples
    --------
    Two kinds, each confident and correct on half of the rows:

    >>> import numpy as np
    >>> from sklearn_mdl.pooling import LogLinearPool
    >>> q = np.array([[[0.9, 0.1], [0.6, 0.4]], [[0.6, 0.4], [0.9, 0.1]]] * 50)
    >>> trace = LogLinearPool()(np.log(q), np.zeros(100, dtype=int))
    >>> alone = -np.log(q[:, :, 0]).sum(0)
    >>> bool(trace.codelength < 0.5 * alone.min())
    True
    >>> bool((trace.weights[-1] > trace.weights[0]).all())
    True
    """

    kinds: ArrayLike | None = None
    _: KW_ONLY
    prior_precision: float = 15.0
    floor: float = 1e-4
    half_life: float | None = None
    rates: Sequence[float] | None = None

    def check_params(self) -> None:
        """Check the ranges of the parameters.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        precision, floor = self.prior_precision, self.floor
        if not is_number_in(precision, 0, math.inf) or precision == 0:
            required, cure = "a positive finite number", "pass prior_precision=15"
            raise invalid("prior_precision", required, precision, cure)
        if not is_number_in(floor, 0, 1) or floor == 1:
            raise invalid("floor", "a number in [0, 1)", floor, "pass floor=1e-4")
        half_life, rates = self.half_life, self.rates
        fades = isinstance(half_life, Real) and half_life > 0
        if half_life is not None and not fades:
            cure = "for example, pass half_life=100"
            raise invalid("half_life", "a positive number or None", half_life, cure)
        if rates is not None and not are_numbers_in(rates, 0, 1):
            cure = "for example, pass rates=[1 / 16, 1 / 64]"
            required = "a list of 1 to 1000 numbers in [0, 1], or None"
            raise invalid("rates", required, rates, cure)

    def __call__(self, log_proba: ArrayLike, labels: ArrayLike) -> PoolTrace:
        """Pool the predictions of kinds in one online pass over labels.

        Parameters
        ----------
        log_proba : array-like of shape (N, G, C)
            Log-probability of every class for each kind and row, in nats.
        labels : array-like of shape (N,)
            Classes as integers in ``[0, C)``.

        Returns
        -------
        trace : PoolTrace

        Raises
        ------
        ValueError
            If a parameter is out of range, or for the reasons given in
            :meth:`PoolPass.extend`.
        """
        array = np.asarray(log_proba)
        if array.ndim != 3:
            required = "of shape (n_samples, n_kinds, n_classes)"
            cure = "pass np.stack(predictions_of_kinds, axis=1)"
            raise invalid("log_proba", required, array.shape, cure)
        return PoolPass(self, *array.shape[1:]).extend(array, labels)


class GroupPass(ABC):
    """One online pass of a pool over the mixtures of ``G`` groups, row by row.

    Parameters
    ----------
    pool : LogLinearPool
    n_groups : int

    Attributes
    ----------
    weights : ndarray of shape (G,)
        Weights of the groups for the next row.
    hessian : ndarray of shape (G, G)
        Prior precision plus the Hessians (or expected Hessians) of the log-losses so
        far. If the pool has a half-life, older losses weigh less.
    rates : sequence of float or None
        Rates of the fixed share within groups.

    Raises
    ------
    ValueError
        If a parameter of the pool is out of range.
    """

    def __init__(self, pool: LogLinearPool, n_groups: int) -> None:
        pool.check_params()
        self.rates = pool.rates
        self.weights = np.full(n_groups, 1 / n_groups)
        self._precision = float(pool.prior_precision)
        self._kept = 1.0 if pool.half_life is None else 0.5 ** (1 / pool.half_life)
        self.hessian = self._precision * np.eye(n_groups)

    def _fade(self) -> None:
        """Discount past losses before the loss of a row is added."""
        self.hessian = self._kept * self.hessian
        np.einsum("ii->i", self.hessian)[:] += (1 - self._kept) * self._precision

    @abstractmethod
    def mix(self, values: Floats, weights: Floats, members: Members) -> Floats:
        """Mix the experts of each group, for one or more rows.

        Parameters
        ----------
        values : ndarray of shape (K, ..., P)
            Predictions of the experts, in ``members.order``. May be overwritten.
        weights : ndarray of shape (K, ...)
            Weights of the experts within their groups, in ``members.order``.
        members : Members

        Returns
        -------
        mixed : ndarray of shape (G, ..., Q)
            Mixtures of the groups. :meth:`predict` and :meth:`observe` take the
            mixtures (G, Q) of one row.
        """

    @abstractmethod
    def predict(self, mixed: Floats) -> Floats:
        """Predict one row."""

    @abstractmethod
    def observe(self, mixed: Floats, label: float) -> tuple[Floats, float]:
        """Predict a row, then update the weights with its label.

        Returns
        -------
        predicted : ndarray
            As returned by :meth:`predict`.
        cost : float
            As returned by :meth:`cost`.
        """

    @abstractmethod
    def cost(self, predicted: Floats, label: float) -> float:
        """Return the cost of a label in nats, or NaN if the prediction is NaN."""

    def retire(self, groups: Sequence[int]) -> None:
        """Drop some groups, and transfer their weights to the remaining groups."""
        weights, self.hessian = without(self.weights, self.hessian, groups)
        self.weights = self._project(weights)

    def _project(self, weights: Floats) -> Floats:
        """Return valid weights near the given weights."""
        return weights

    def state_dict(self) -> dict[str, Floats]:
        """Return the weights and the Hessian after the labels so far."""
        return {"weights": self.weights.copy(), "hessian": self.hessian.copy()}

    def load_state_dict(self, state: Mapping[str, Floats]) -> None:
        """Continue from the state of another pass."""
        self.weights = np.array(state["weights"])
        self.hessian = np.array(state["hessian"])


class PoolPass(GroupPass):
    """One pass of a pool over a stream that arrives in blocks.

    Results are bitwise the same, however you divide the stream into blocks. You may
    also call :meth:`observe` row by row, as a decoder does.

    Parameters
    ----------
    pool : LogLinearPool
    n_kinds : int
        Number of kinds ``G``, at least 1.
    n_classes : int
        Number of classes ``C``, at least 1.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, pool: LogLinearPool, n_kinds: int, n_classes: int) -> None:
        for name, value in {"n_kinds": n_kinds, "n_classes": n_classes}.items():
            check_integer(name, value, 1, "pass PoolPass(pool, *log_proba.shape[1:])")
        super().__init__(pool, n_kinds)
        self._floor = float(pool.floor)
        self._shape = int(n_kinds), int(n_classes)

    def mix(self, values: Floats, weights: Floats, members: Members) -> Floats:
        """Mix log-probabilities (K, ..., C) into probabilities (G, ..., C) of kinds."""
        np.exp(values, out=values)
        values *= weights[..., np.newaxis]
        return members.sums(values)

    def add_classes(self, n: int) -> None:
        """Add classes without changing the weights."""
        n_kinds, n_classes = self._shape
        self._shape = n_kinds, n_classes + n

    def predict(self, proba: Floats) -> Floats:
        """Return the pool's probabilities (C,) for one row.

        Parameters
        ----------
        proba : ndarray of shape (G, C)
            Probabilities of the kinds.
        """
        return self._with_floor(self._pooled(np.log(self._with_floor(proba))))

    def observe(self, proba: Floats, label: float) -> tuple[Floats, float]:
        """Predict a row, then update the weights with its label.

        Parameters
        ----------
        proba : ndarray of shape (G, C)
            Probabilities of the kinds.
        label : int
            ``C`` stands for a new class, which leaves the weights unchanged. From then
            on, the pool also predicts this class.

        Returns
        -------
        proba : ndarray of shape (C,)
            Prediction before the label is seen, as returned by :meth:`predict`.
        cost : float
            Minus the log-probability of the label, in nats, or zero for a new class,
            which the pool does not code.
        """
        right = int(label)
        if right >= self._shape[1]:
            predicted = self.predict(proba)
            self.add_classes(right + 1 - self._shape[1])
            return predicted, 0.0
        scores = np.log(self._with_floor(proba))
        pooled = self._pooled(scores)
        gaps = scores - (scores @ pooled)[:, np.newaxis]
        self._fade()
        self.hessian += (gaps * pooled) @ gaps.T
        # Create a new array, since callers may still use the old one.
        self.weights = self.weights + newton_step(self.hessian, gaps[:, right])
        coded = self._with_floor(pooled)
        return coded, self.cost(coded, right)

    def cost(self, predicted: Floats, label: float) -> float:
        """Return minus the logarithm of a class's probability, in nats."""
        return -math.log(predicted[int(label)])

    def state_dict(self) -> dict[str, Floats]:
        """Return weights, Hessian and the number of classes."""
        return {**super().state_dict(), "n_classes": np.array(self._shape[1:])}

    def load_state_dict(self, state: Mapping[str, Floats]) -> None:
        """Continue from the state of another pass."""
        super().load_state_dict(state)
        self._shape = self._shape[0], int(state["n_classes"][0])

    def extend(self, log_proba: ArrayLike, labels: ArrayLike) -> PoolTrace:
        """Code the labels of more rows.

        Parameters
        ----------
        log_proba : array-like of shape (n, G, C)
            Log-probability of every class for each kind and row, in nats.
        labels : array-like of shape (n,)
            Classes as integers in ``[0, C)``.

        Returns
        -------
        trace : PoolTrace
            Results for these rows.

        Raises
        ------
        ValueError
            If a shape is wrong, a label is not a class, or a log-probability is NaN,
            positive or, without a floor, so low that its probability underflows to 0.
        """
        rows, classes = self._checked(log_proba, labels)
        codelengths = np.empty(len(rows))
        weights = np.empty((len(rows), self._shape[0]))
        for i, row in enumerate(rows):
            weights[i] = self.weights
            _, codelengths[i] = self.observe(np.exp(row), classes[i])
        return PoolTrace(float(codelengths.sum()), codelengths, weights)

    def _with_floor(self, proba: Floats) -> Floats:
        """Mix probabilities (..., C) with the uniform distribution."""
        return np.asarray(proba * (1 - self._floor) + self._floor / self._shape[1])

    def _pooled(self, scores: Floats) -> Floats:
        """Return the pool's probabilities (C,) before the floor is mixed in."""
        pooled: Floats = self.weights @ scores
        pooled -= np.maximum.reduce(pooled)  # faster than the method
        np.exp(pooled, out=pooled)
        pooled /= np.add.reduce(pooled)
        return pooled

    def _checked(
        self, log_proba: ArrayLike, labels: ArrayLike
    ) -> tuple[Floats, NDArray[np.intp]]:
        rows = np.asarray(log_proba, dtype=np.float64)
        given = np.asarray(labels)
        if rows.ndim != 3 or rows.shape[1:] != self._shape:
            required = "of shape (n_samples, {}, {})".format(*self._shape)
            cure = "pass predictions of {} kinds for {} classes".format(*self._shape)
            raise invalid("log_proba", required, rows.shape, cure)
        if given.shape != rows.shape[:1] or given.dtype.kind not in "iu":
            required = f"integers of shape ({len(rows)},), one for each row"
            raise invalid("labels", required, f"{given.dtype} {given.shape}", _CURE)
        if ((given < 0) | (given >= self._shape[1])).any():
            values = [int(given.min()), int(given.max())]
            required = f"from 0 to {self._shape[1] - 1}"
            raise invalid("labels", required, values, _CURE)
        if len(wrong := rows[~(rows <= 1e-6)]):
            required, cure = "log-probabilities, at most 0", "pass np.log(proba)"
            raise invalid("log_proba", required, float(wrong[0]), cure)
        if not self._floor and (np.exp(rows) == 0).any():
            required, cure = "above -745 if `floor` is 0", "pass floor=1e-4"
            raise invalid("log_proba", required, float(rows.min()), cure)
        return rows, given.astype(np.intp)
