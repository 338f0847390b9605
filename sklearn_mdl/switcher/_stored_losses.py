"""Losses of readouts that can be mixed again without retraining."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.stream.coder import Block, Coded, PooledCoder
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.switcher._repooling import KindMixtures, PooledTrace
from sklearn_mdl.switching import (
    ForwardTrace,
    PriorLike,
    SwitchingPrior,
    forward,
    normalised_weights,
)

_BLOCK_BYTES = 2**24


@dataclass(frozen=True, eq=False, repr=False)
class StoredLosses:
    """Losses of all readouts at all examples, with a description of the readouts.

    Parameters
    ----------
    losses : array-like of shape (N, K)
        ``-log p_k(y_t | past)`` in nats, as a floating-point array. A memory map is not
        copied. The values are checked only when they are mixed.
    readouts : sequence of str of length K, optional
        Names of the readouts (by default "readout 0" and so on).
    architectures : sequence of str of length K, optional
        The architecture of each readout, or None if unknown.
    weights : array-like of shape (K,), optional
        Prior weights of the readouts, as given to the run (uniform if None).
    switching : SwitchingPrior, optional
        The prior of the run, or None if unknown.
    n_classes : int, optional
        Number of classes of the labels.
    mixtures : KindMixtures, optional
        Predictions of each kind of readout, from a store with "mixtures".
    known : ndarray of shape (N,), optional
        Number of labels that were known when each example was predicted, for groups or
        delayed labels. If None, all earlier labels were known.

    Raises
    ------
    ValueError
        If ``losses`` is not a floating-point array with two dimensions and at least one
        column. Also if there are not K names or weights, if weights are not finite and
        non-negative with a positive sum, if ``n_classes`` is not a positive integer, or
        if ``known`` does not consist of non-decreasing integers from 0 to ``t``.
    TypeError
        If a name is not a string, or ``switching`` is not a SwitchingPrior.

    See Also
    --------
    save_losses, load_losses : Write and read a file.
    MDLReadoutSwitcher.save_losses : Write the losses of a fitted estimator.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
    Switching, ICLR, Appendix A.3 (second stage).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.switcher import StoredLosses
    >>> stored = StoredLosses(np.log([[2.0, 4.0], [2.0, 1.0]]), ["linear", "mlp 1x8"])
    >>> stored
    StoredLosses(n_samples=2, n_readouts=2, dtype='float64')
    >>> stored.readout_codelengths.round(2)
    array([1.39, 1.39])
    """

    losses: np.ndarray
    readouts: Sequence[str] = ()
    architectures: Sequence[str] | None = None
    weights: np.ndarray | None = None
    switching: SwitchingPrior | None = None
    n_classes: int | None = None
    mixtures: KindMixtures | None = None
    known: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Check the fields and convert them to their documented types."""
        losses = np.asanyarray(self.losses)
        if losses.ndim != 2 or losses.shape[1] == 0 or losses.dtype.kind != "f":
            raise ValueError(
                "losses must be a floating array of shape (n_samples, n_readouts), got "
                f"{losses.dtype} of shape {losses.shape}; for example, pass "
                "np.asarray(losses, float).reshape(n_samples, -1)"
            )
        n_readouts = losses.shape[1]
        fields: dict[str, object] = {"losses": losses}
        names = self.readouts
        if len(names) == 0:
            names = [f"readout {column}" for column in range(n_readouts)]
        fields["readouts"] = _checked_names("readouts", names, n_readouts)
        if (kinds := self.architectures) is not None:
            fields["architectures"] = _checked_names("architectures", kinds, n_readouts)
        if self.weights is not None:
            normalised_weights(self.weights, n_readouts)  # raises for invalid weights
            weights = np.array(self.weights, dtype=np.float64)
            weights.flags.writeable = False
            fields["weights"] = weights
        if not isinstance(self.switching, SwitchingPrior | None):
            raise TypeError(
                f"switching must be a SwitchingPrior or None, got {self.switching!r}; "
                "for example, pass switching=FixedShare(m=2)"
            )
        if self.known is not None:
            fields["known"] = _checked_known(self.known, len(losses))
        if self.n_classes is not None:
            fields["n_classes"] = _positive("n_classes", self.n_classes)
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # the dataclass is frozen

    def __repr__(self) -> str:
        """Show sizes instead of values, since there may be thousands of readouts."""
        known = {
            "n_samples": self.n_samples,
            "n_readouts": self.n_readouts,
            "dtype": self.losses.dtype.name,
            "switching": self.switching,
            "n_classes": self.n_classes,
        }
        shown = [f"{name}={v!r}" for name, v in known.items() if v is not None]
        return f"StoredLosses({', '.join(shown)})"

    @property
    def n_samples(self) -> int:
        """Number ``N`` of examples."""
        return int(self.losses.shape[0])

    @property
    def n_readouts(self) -> int:
        """Number ``K`` of readouts."""
        return int(self.losses.shape[1])

    @property
    def kinds(self) -> list[str]:
        """Architectures of the readouts, which can serve as ``kinds`` in :meth:`remix`.

        Raises
        ------
        ValueError
            If the architectures are not known.
        """
        if self.architectures is None:
            raise ValueError(
                "Grouping readouts needs the architecture of each, but these are not "
                "known; pass architectures=['linear', ...] to StoredLosses"
            )
        return list(self.architectures)

    @property
    def readout_codelengths(self) -> np.ndarray:
        """Codelength of every readout, (K,), in nats.

        Once retired (NaN losses), a readout costs as much as the mixture of the
        remaining readouts under the prior of the run (the default prior if unknown).
        """
        mixed = None
        if np.isnan(self.losses[-1:]).any():  # some readout has retired
            mixed = self.remix(self.switching, max_rows=0).codelengths
        return self.totals(mixed)

    def totals(self, mixed: np.ndarray | None = None) -> np.ndarray:
        """Return the sums (K,) of the losses of every readout, in nats.

        Parameters
        ----------
        mixed : ndarray of shape (N,), optional
            Loss of each example for readouts that have retired.
        """
        totals, start = np.zeros(self.n_readouts), 0
        with np.errstate(invalid="ignore"):  # infinities of both signs sum to NaN
            for block in self.blocks():
                if mixed is not None:
                    costs = mixed[start : start + len(block), np.newaxis]
                    block = np.where(np.isnan(block), costs, block)
                totals += block.sum(0, dtype=np.float64)
                start += len(block)
        return totals

    def remix(
        self,
        switching: PriorLike,
        *,
        kinds: Sequence[Hashable] | None = None,
        max_rows: int | None = None,
    ) -> ForwardTrace:
        """Mix the readouts under a prior without retraining.

        Parameters
        ----------
        switching : str, SwitchingPrior or None
            The prior, as in :func:`~sklearn_mdl.forward`.
        kinds, max_rows : optional
            As in :func:`~sklearn_mdl.forward`.

        Returns
        -------
        trace : ForwardTrace
            Results of switching without a pool, in nats. Labels are delayed as in the
            run.
        """
        given = switching, self.blocks(), self.weights
        known = self._known_by_row()
        return forward(*given, kinds=kinds, max_rows=max_rows, known=known)

    def _known_by_row(self) -> np.ndarray:
        """Return the number of known labels at each row and at the end, (N + 1,)."""
        if self.known is None:
            return np.arange(self.n_samples + 1)
        return np.append(self.known, self.n_samples)

    def blocks(self, n_rows: int | None = None) -> Iterator[np.ndarray]:
        """Iterate over the losses from the first example to the last.

        Parameters
        ----------
        n_rows : int, optional
            Number of rows per block (by default enough to fill about 16 MiB).

        Yields
        ------
        block : ndarray of shape (n, K)
            The next ``n_rows`` rows, or fewer at the end, as a view of ``losses``.

        Raises
        ------
        ValueError
            If ``n_rows`` is not a positive integer.
        """
        if n_rows is None:
            n_rows = max(1, _BLOCK_BYTES // (self.n_readouts * self.losses.itemsize))
        step = _positive("n_rows", n_rows)
        starts = range(0, self.n_samples, step)
        return (np.asarray(self.losses[i : i + step]) for i in starts)

    def repool(
        self,
        switching: PriorLike,
        pooling: LogLinearPool,
        *,
        kinds: Sequence[Hashable] | None = None,
    ) -> PooledTrace:
        """Pool kinds of readouts without retraining.

        Parameters
        ----------
        switching : str, SwitchingPrior or None
            Prior of the switching mixture of all readouts, as in
            :func:`~sklearn_mdl.forward`.
        pooling : LogLinearPool
        kinds : sequence of names, default=None
            Names in ``mixtures.names`` to pool. If None, all kinds are pooled.

        Raises
        ------
        ValueError
            If there are no mixtures, or if `kinds` contains fewer than two names, an
            unknown name or a name twice.
        TypeError
            If `pooling` is not a LogLinearPool.
        """
        if self.mixtures is None:
            raise ValueError(
                "Another pool needs predictions of each kind, but none are stored; "
                "fit with pooling=LogLinearPool() and store=('memory', 'mixtures'), "
                "and call repool of that switcher, since save_losses omits them"
            )
        pool_pass, places = self.mixtures.pool_pass(pooling, kinds)
        coder = PooledCoder(switching, self.n_readouts, self.weights, pool_pass)
        known, start, parts = self._known_by_row(), 0, []
        for losses in self.blocks():
            rows = slice(start, start + len(losses))
            mixtures, labels = self.mixtures.mixtures[rows], self.mixtures.labels[rows]
            known_here = known[rows.start : rows.stop + 1]
            block = Block(losses, mixtures[:, places], labels, known_here)
            parts.append(coder.extend(block))
            start = rows.stop
        coded = Coded.joined(parts)
        mixed, switched, pooled = coded.codes.T
        weights, shares = coded.pool_weights, coded.shares
        return PooledTrace(float(mixed.sum()), mixed, switched, pooled, weights, shares)


def _checked_known(known: ArrayLike, n_samples: int) -> np.ndarray:
    """Return ``known`` as an integer array (N,); raise if it is invalid."""
    counts = np.asarray(known)
    rows = np.arange(n_samples)
    if (
        counts.shape != (n_samples,)
        or counts.dtype.kind not in "iu"
        or ((counts < 0) | (counts > rows)).any()
        or (np.diff(counts) < 0).any()
    ):
        required = f"{n_samples} non-decreasing integers with 0 <= known[t] <= t"
        raise invalid("known", required, counts, "pass (np.arange(N) - delay).clip(0)")
    return counts.astype(np.intp)


def _checked_names(field: str, names: Sequence[str], n_readouts: int) -> list[str]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"{field} must be a sequence of str, got {names!r}; pass {field}=['a', 'b']"
        )
    if len(names) != n_readouts:
        raise invalid(field, f"{n_readouts} names", names, "pass one name per column")
    return [str(name) for name in names]


def _positive(name: str, value: object) -> int:
    if not isinstance(value, Integral) or value < 1:
        raise invalid(name, "a positive integer or None", value, f"pass {name}=10")
    return int(value)
