r"""Feature scaling learned on the walk: running standardiser and whitener.

A scaling maps a row ``x`` to ``(x - m) T``. It is computed from full minibatches that
have already been scored, refreshed when their number doubles, and shared by all
readouts that ask for it. At a refresh the first layer of a readout is re-expressed,

.. math::

    W' = T_{new}^{-1} T_{old} W, \qquad b' = b + (m_{new} - m_{old}) T_{old} W,

so that the function it computes does not jump: a code should not punish a
representation for what an affine map undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.replay import SampleStore

ReExpression = Callable[[Tensor, Tensor], None]  # changes weight and bias in place

MAX_WHITENED_FEATURES = 2048
_EIGENVALUE_FLOOR = 1e-6  # of the mean eigenvalue: what float32 rows can carry


@dataclass(frozen=True)
class Scaling:
    """The affine map ``x -> (x - mean) T``, with a diagonal or a symmetric ``T``.

    Parameters
    ----------
    mean : Tensor of shape (d,), float64
    transform, inverse : Tensor of shape (d,) or (d, d), float64
        ``T`` and its inverse; one-dimensional where they are diagonal.
    """

    mean: Tensor
    transform: Tensor
    inverse: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Scale float32 minibatches, (n, B, d) to (n, B, d)."""
        centred = x - self.mean.to(x)
        transform = self.transform.to(x)
        if transform.ndim == 1:
            return centred * transform
        # One product a minibatch: the last bits of a row depend on the product's shape.
        return torch.bmm(centred, transform.expand(len(x), -1, -1))

    def re_expression(self, old: Scaling) -> ReExpression:
        """Make what keeps a first layer's function when ``old`` gives way to this one.

        Returns
        -------
        re_express : callable
            Changes ``weight`` (K, h, d) and ``bias`` (K, 1, h) in place.
        """
        diagonal = old.transform.ndim == 1
        if diagonal:
            change = self.inverse * old.transform
            shift = (self.mean - old.mean) * old.transform
        else:
            change = old.transform @ self.inverse  # both are symmetric
            shift = (self.mean - old.mean) @ old.transform

        def re_express(weight: Tensor, bias: Tensor) -> None:
            # Not @, which picks another kernel for one member than for several.
            some_shift = shift.to(weight).expand(len(weight), 1, -1)
            bias.add_(torch.bmm(some_shift, weight.mT))
            factor = change.to(weight)
            weight.copy_(
                weight * factor
                if diagonal
                else torch.bmm(weight, factor.expand(len(weight), -1, -1))
            )

        return re_express


class RunningStandardizer:
    """Running mean and regularised running variance of every feature.

    The variance of a feature is taken as its own plus the (lower) median of the
    positive ones. Without the second term nearly constant features (digits has many)
    would be blown up to noise. The median, not the mean: one feature on a large scale
    (wine has one) must not silence the others.

    Parameters
    ----------
    n_features : int
        Width ``d``.
    """

    def __init__(self, n_features: int) -> None:
        self.n_rows = 0
        self.mean = torch.zeros(n_features, dtype=torch.float64)
        self.scatter = torch.zeros(n_features, dtype=torch.float64)

    def update(self, X: np.ndarray) -> None:
        """Take in a block of rows, (n, d) (Chan, Golub and LeVeque, 1983)."""
        x = torch.as_tensor(X, dtype=torch.float64)
        centre = x.mean(0)
        gap = centre - self.mean
        total = self.n_rows + len(x)
        between = self._scatter(gap[None]) * (self.n_rows * len(x) / total)
        self.scatter += self._scatter(x - centre) + between
        self.mean = self.mean + gap * (len(x) / total)
        self.n_rows = total

    def _scatter(self, centred: Tensor) -> Tensor:
        return centred.square().sum(0)

    def scaling(self) -> Scaling:
        """Return the scaling by the rows taken in so far."""
        variance = self.scatter / self.n_rows
        positive = variance[variance > 0]
        usual = positive.median() if len(positive) else torch.ones(())
        deviation = (variance + usual).sqrt()
        return Scaling(self.mean, 1 / deviation, deviation)


class RunningWhitener(RunningStandardizer):
    """Running mean and shrunk running covariance; symmetric (ZCA) whitening.

    The covariance is shrunk towards a multiple of the identity by the oracle
    approximating rule (Chen, Wiesel, Eldar and Hero, 2010), whose share falls with the
    number of rows. The symmetric inverse root keeps axes where they were, so weights
    keep their meaning from one refresh to the next.

    Parameters
    ----------
    n_features : int
        Width ``d``, at most ``MAX_WHITENED_FEATURES``: the eigendecomposition grows
        with the third power of it.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.scatter = torch.zeros(n_features, n_features, dtype=torch.float64)

    def _scatter(self, centred: Tensor) -> Tensor:
        return centred.T @ centred

    def scaling(self) -> Scaling:
        """Return the scaling by the rows taken in so far."""
        covariance = shrunk_covariance(self.scatter / self.n_rows, self.n_rows)
        values, vectors = torch.linalg.eigh(covariance)
        values = values.clamp_min(_EIGENVALUE_FLOOR * values.mean())
        values = torch.where(values > 0, values, 1.0).sqrt()  # (d,) standard deviations
        return Scaling(
            self.mean, (vectors / values) @ vectors.T, (vectors * values) @ vectors.T
        )


def shrunk_covariance(covariance: Tensor, n_rows: int) -> Tensor:
    """Shrink the covariance (d, d) of ``n_rows`` rows by the rule named above."""
    d = len(covariance)
    spread = covariance.square().mean()
    level = covariance.diagonal().mean()
    numerator = spread + level**2
    denominator = (n_rows + 1) * (spread - level**2 / d)
    share = (numerator / denominator).clamp(max=1.0) if denominator > 0 else 1.0
    return (1 - share) * covariance + share * level * torch.eye(
        d, dtype=covariance.dtype
    )


class ScaledRows:
    """The rows of a store as readouts see them: scaled, by minibatches, on a device.

    Rows still to come are zero.

    Parameters
    ----------
    store : SampleStore
        The raw rows.
    scalings : sequence of {"standard", "whiten", None}
        Every minibatch is kept in each of them; None hands rows on as they are.
    batch_size : int
    device : torch.device

    Attributes
    ----------
    n_refreshed : int
        Number of rows that the last refresh had taken in. Before the first, scaled rows
        are all zero, since nothing is known of them that a code may use.
    """

    def __init__(
        self,
        store: SampleStore,
        scalings: Sequence[str | None],
        batch_size: int,
        device: torch.device,
    ) -> None:
        makers = {"standard": RunningStandardizer, "whiten": RunningWhitener}
        self.store = store
        self.batch_size = batch_size
        self.device = device
        self.running = [
            None if scaling is None else makers[scaling](store.n_features)
            for scaling in scalings
        ]
        self.current: list[Scaling | None] = [None] * len(scalings)
        self.n_refreshed = 0
        shape = (0, len(scalings), batch_size, store.n_features)
        self._batches = torch.zeros(shape, device=device)
        self._n_rows = 0

    def batch(self, index: int, n_rows: int | None = None) -> Tensor:
        """First rows of a minibatch in every scaling, (n_scalings, n_rows, d)."""
        return self._batches[index, :, :n_rows]

    def scaled(self, X: np.ndarray) -> Tensor:
        """Scale raw rows (n, d) as they stand now, (n / B, n_scalings, B, d)."""
        n_batches = -(-len(X) // self.batch_size)
        x = torch.zeros(n_batches * self.batch_size, X.shape[1], device=self.device)
        x[: len(X)] = torch.as_tensor(X, dtype=torch.float32)
        x = x.view(n_batches, self.batch_size, -1)
        found = torch.zeros(
            n_batches, len(self.running), *x.shape[1:], device=self.device
        )
        for i, (running, scaling) in enumerate(
            zip(self.running, self.current, strict=True)
        ):
            if running is None:
                found[:, i] = x
            elif scaling is not None:
                found[:, i] = scaling.apply(x)
        found[-1:, :, len(X) - (n_batches - 1) * self.batch_size :] = 0
        return found

    def extend(self, stop: int) -> None:
        """Make the store's rows up to ``stop`` readable here."""
        if stop > self._n_rows:
            first = self._n_rows // self.batch_size
            self._n_rows = stop
            self._fill(first)

    def _fill(self, first: int) -> None:
        """Scale the rows from minibatch ``first`` on."""
        found = self.scaled(self.store.rows(first * self.batch_size, self._n_rows))
        stop = first + len(found)
        if stop > len(self._batches):  # double the room: appending stays linear
            shape = (max(stop, 2 * len(self._batches)), *found.shape[1:])
            room = torch.zeros(shape, device=self.device)
            room[:first] = self._batches[:first]
            self._batches = room
        self._batches[first:stop] = found

    def refresh(self, n_rows: int) -> list[ReExpression | None]:
        """Take in the store's rows up to ``n_rows`` and scale all rows anew.

        Returns
        -------
        changes : list of callable or None, one per scaling
            What first layers must undergo (:meth:`Scaling.re_expression`); None where
            nothing is scaled, and at the first refresh, before anything was learned.
        """
        new_rows = self.store.rows(self.n_refreshed, n_rows)
        self.n_refreshed = n_rows
        changes = [self._refresh_one(i, new_rows) for i in range(len(self.running))]
        if self._n_rows:
            self._fill(0)
        return changes

    def _refresh_one(self, index: int, new_rows: np.ndarray) -> ReExpression | None:
        running, old = self.running[index], self.current[index]
        if running is None:
            return None
        running.update(new_rows)
        new = self.current[index] = running.scaling()
        return None if old is None else new.re_expression(old)
