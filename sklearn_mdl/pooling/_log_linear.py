"""The log-linear pool of class probabilities, and one online pass of it."""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

Floats = NDArray[np.float64]


class PoolTrace(NamedTuple):
    """Result of a pass of a pool over labels.

    Attributes
    ----------
    codelength : float
        Cost of all labels of this pass, in nats; the sum of `codelengths`.
    codelengths : ndarray of shape (N,)
        Cost of each label given the labels before it, in nats.
    weights : ndarray of shape (N, G)
        Weights of the groups before each label.
    """

    codelength: float
    codelengths: Floats
    weights: Floats


class LogLinearPool(BaseEstimator):
    r"""Log-linear pool of the predictions of expert groups, learned online.

    The prediction for a row is

    .. math::

        p_t(y) \propto \prod_g q_{gt}(y)^{w_g},

    where :math:`q_g` is the prediction of group ``g``. Weights may be negative and need
    not sum to one. They begin at ``1 / G``, and every label, after it was coded, moves
    them by one Newton step of its log-loss: with :math:`F_{gc} = \log q_g(c) - \sum_k
    p(k) \log q_g(k)`,

    .. math::

        H \leftarrow H + F \operatorname{diag}(p) F^\top, \qquad
        w \leftarrow w + H^{-1} F_{\cdot y}, \qquad H_0 = \lambda I .

    Parameters
    ----------
    prior_precision : float, default=30.0
        :math:`\lambda`: how firmly the weights begin at ``1 / G``.
    floor : float, default=1e-4
        Share of the uniform distribution that is mixed into every group's prediction
        before it is pooled, and into the pool's before it is coded. Without it a
        single group that is certain and wrong makes the regret grow linearly.

    See Also
    --------
    sklearn_mdl.forward : The switching mixture, which follows one expert at a time.

    References
    ----------
    Neyman and Roughgarden, 2023, "No-regret learning with unbounded losses: the case of
    logarithmic pooling"; Mattern, 2013, "Linear and geometric mixtures" (arXiv
    1302.2820).

    Examples
    --------
    Two groups that are each sure of half of the rows, and right:

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

    def __init__(self, *, prior_precision: float = 30.0, floor: float = 1e-4) -> None:
        self.prior_precision = prior_precision
        self.floor = floor

    def check_params(self) -> None:
        """Check the parameters.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        precision, floor = self.prior_precision, self.floor
        if not (isinstance(precision, Real) and 0 < precision < np.inf):
            raise ValueError(
                f"`prior_precision` must be a positive finite number, got {precision!r}"
            )
        if not (isinstance(floor, Real) and 0 <= floor < 1):
            raise ValueError(f"`floor` must lie in [0, 1), got {floor!r}")

    def __call__(self, log_proba: ArrayLike, labels: ArrayLike) -> PoolTrace:
        """Pool predictions of groups in one online pass over labels.

        Parameters
        ----------
        log_proba : array-like of shape (N, G, C)
            Log-probability of every class for each group and row, in nats.
        labels : array-like of shape (N,)
            Classes as integers in ``[0, C)``.

        Returns
        -------
        trace : PoolTrace

        Raises
        ------
        ValueError
            If a parameter is out of range, or as in :meth:`PoolPass.extend`.
        """
        array = np.asarray(log_proba, dtype=np.float64)
        if array.ndim != 3:
            raise ValueError(
                "`log_proba` must have shape (n_samples, n_groups, n_classes), got "
                f"{array.shape}"
            )
        return PoolPass(self, *array.shape[1:]).extend(array, labels)


class PoolPass:
    """One pass of a pool over a stream that arrives in blocks.

    Any way of cutting the stream into blocks gives bitwise the same numbers, and so do
    :meth:`predict` and :meth:`observe` row by row, as a decoder needs them.

    Parameters
    ----------
    pool : LogLinearPool
    n_groups : int
        Number of groups ``G``, at least 1.
    n_classes : int
        Number of classes ``C``, at least 1.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, pool: LogLinearPool, n_groups: int, n_classes: int) -> None:
        pool.check_params()
        for name, value in {"n_groups": n_groups, "n_classes": n_classes}.items():
            if not (isinstance(value, Integral) and value >= 1):
                raise ValueError(f"`{name}` must be at least 1, got {value!r}")
        self._floor = float(pool.floor)
        self._shape = int(n_groups), int(n_classes)
        self._weights = np.full(n_groups, 1 / n_groups)
        self._hessian = float(pool.prior_precision) * np.eye(n_groups)

    @property
    def weights(self) -> Floats:
        """Weights of the groups for the incoming row, (G,)."""
        return self._weights.copy()

    def predict(self, log_proba: Floats) -> Floats:
        """Log-probabilities (C,) of the pool for one row, in nats.

        Parameters
        ----------
        log_proba : ndarray of shape (G, C)
            Log-probabilities of the groups.
        """
        return self._floored(self._pooled(self._floored(log_proba)))

    def observe(self, log_proba: Floats, label: int) -> None:
        """Move the weights by the label of a row that was predicted.

        Parameters
        ----------
        log_proba : ndarray of shape (G, C)
            As given to :meth:`predict`.
        label : int
        """
        floored = self._floored(log_proba)
        self._step(floored, np.exp(self._pooled(floored)), label)

    def extend(self, log_proba: ArrayLike, labels: ArrayLike) -> PoolTrace:
        """Go on over more rows.

        Parameters
        ----------
        log_proba : array-like of shape (n, G, C)
            Log-probability of every class for each group and row, in nats.
        labels : array-like of shape (n,)
            Classes as integers in ``[0, C)``.

        Returns
        -------
        trace : PoolTrace
            Of these rows.

        Raises
        ------
        ValueError
            If shapes differ, a label is no class, or a log-probability is NaN, positive
            or, without a floor, infinite.
        """
        rows, classes = self._checked(log_proba, labels)
        codelengths = np.empty(len(rows))
        weights = np.empty((len(rows), self._shape[0]))
        for i, (row, label) in enumerate(zip(rows, classes, strict=True)):
            weights[i] = self._weights
            floored = self._floored(row)
            pooled = self._pooled(floored)
            codelengths[i] = -self._floored(pooled)[label]
            self._step(floored, np.exp(pooled), label)
        return PoolTrace(float(codelengths.sum()), codelengths, weights)

    def _floored(self, log_proba: Floats) -> Floats:
        """Mix log-probabilities (..., C) with the uniform distribution."""
        if not self._floor:
            return log_proba
        share = self._floor / self._shape[1]
        mixed: Floats = np.exp(log_proba)
        mixed *= 1 - self._floor
        mixed += share
        return np.log(mixed, out=mixed)

    def _pooled(self, log_proba: Floats) -> Floats:
        """Log-probabilities (C,) of the pool, without its own floor."""
        scores = self._weights @ log_proba
        scores -= scores.max()
        scores -= np.log(np.exp(scores).sum())
        return scores

    def _step(self, log_proba: Floats, proba: Floats, label: int) -> None:
        gaps = log_proba - (log_proba @ proba)[:, np.newaxis]
        self._hessian += (gaps * proba) @ gaps.T
        self._weights += np.linalg.solve(self._hessian, gaps[:, label])

    def _checked(
        self, log_proba: ArrayLike, labels: ArrayLike
    ) -> tuple[Floats, NDArray[np.intp]]:
        rows = np.asarray(log_proba, dtype=np.float64)
        given = np.asarray(labels)
        if rows.ndim != 3 or rows.shape[1:] != self._shape:
            raise ValueError(
                f"`log_proba` must have shape (n_samples, {self._shape[0]}, "
                f"{self._shape[1]}), got {rows.shape}"
            )
        if given.shape != rows.shape[:1] or given.dtype.kind not in "iu":
            raise ValueError(
                f"`labels` must be {len(rows)} integers, one for each row of "
                f"`log_proba`, got {given.dtype} of shape {given.shape}"
            )
        if ((given < 0) | (given >= self._shape[1])).any():
            raise ValueError(
                f"`labels` must lie in [0, {self._shape[1]}), got values from "
                f"{given.min()} to {given.max()}"
            )
        if np.isnan(rows).any() or (rows > 1e-6).any():
            raise ValueError(
                "`log_proba` must hold logarithms of probabilities, none of them "
                "positive, but it holds NaN or a positive number"
            )
        if not self._floor and np.isneginf(rows).any():
            raise ValueError(
                "`log_proba` must be finite where `floor` is 0, but it holds a "
                "probability of zero; raise `floor`"
            )
        return rows, given.astype(np.intp)
