"""Groups of kernel readouts that share a kernel matrix, and blocks of new rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sklearn_mdl._core.kernels.functions import FIRST_DISTANCE, Kernel, Pairs
from sklearn_mdl._core.kernels.reduced import (
    ExtendedRidge,
    ReducedRidge,
    landmark_root,
    with_root,
)
from sklearn_mdl._core.kernels.ridge import Block, ForwardRidge
from sklearn_mdl._core.kernels.settled import SettledRidge
from sklearn_mdl._core.stream.learner import RowsAhead, State
from sklearn_mdl.readouts._row_learners import RowBlock


class Member(NamedTuple):
    """Position and settings of one readout."""

    column: int
    scaling: str | None
    kernel: Kernel
    alpha: float

    @property
    def group(self) -> object:
        """Settings shared by all readouts of a group."""
        name = self.kernel.name
        known = name if isinstance(name, str) else id(name)
        return self.scaling, known, self.kernel[1:]


class View:
    """Scaled rows (all known rows or the landmarks) that are compared with new rows.

    Parameters
    ----------
    scaling : str or None
        One of ``SCALINGS``, or None.
    """

    def __init__(self, scaling: str | None) -> None:
        self.scaling = scaling
        self.distance = FIRST_DISTANCE
        self.forget()

    def forget(self) -> None:
        """Drop all rows, but do not overwrite them, since copies may still use them."""
        self.n_rows = 0
        self._room = self._squares = torch.empty(0)

    @property
    def has_statistics(self) -> bool:
        """True if the scaling depends on statistics of the rows."""
        return self.scaling not in {"unit", None}

    @property
    def rows(self) -> Tensor:
        """The rows in order, (n_rows, d')."""
        return self._room[: self.n_rows]

    @property
    def squares(self) -> Tensor:
        """Squared lengths of the rows, (n_rows,)."""
        return self._squares[: self.n_rows]

    def append(self, rows: Tensor) -> None:
        """Add scaled rows."""
        stop = self.n_rows + len(rows)
        if not self.n_rows:
            self._room, self._squares = rows[:0], rows.new_zeros(0)
        if stop > len(self._room):
            n_free = max(stop, 2 * self.n_rows) - self.n_rows
            self._room = pad(self.rows, (0, 0, 0, n_free))
            self._squares = pad(self.squares, (0, n_free))
        self._room[self.n_rows : stop] = rows
        self._squares[self.n_rows : stop] = rows.square().sum(1)
        self.n_rows = stop

    def pairs(self, rows: Tensor, others: slice = slice(None)) -> Pairs:
        """Pair some rows (n, d') with all or some rows of the view."""
        if not self.n_rows:
            return Pairs(rows, rows[:0], self.distance)
        return Pairs(rows, self.rows[others], self.distance, self.squares[others])

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return a copy that shares the rows until it adds rows of its own."""
        copied = copy.copy(self)
        if self.n_rows:
            vars(copied).update(_room=self.rows, _squares=self.squares)
        return copied


class Stretch(NamedTuple):
    """Predictions of successive rows, each based only on earlier rows.

    Attributes
    ----------
    start : int
        Index of the first row.
    means : Tensor of shape (K, n, P)
    variances : Tensor of shape (K, n)
    squares : Tensor of shape (K, P) or None
        Squared errors, each divided by its variance and summed over the rows before
        ``start``. None in predictions of rows after the landmarks.
    """

    start: int
    means: Tensor
    variances: Tensor
    squares: Tensor | None

    @classmethod
    def joined(cls, parts: Sequence[Stretch]) -> Stretch:
        """Join the predictions of several groups."""
        squares = [part.squares for part in parts if part.squares is not None]
        means = torch.cat([part.means for part in parts])
        variances = torch.cat([part.variances for part in parts])
        total = torch.cat(squares) if squares else None
        return cls(parts[0].start, means, variances, total)


class KernelGroup:
    """Factors of all readouts with the same kernel and the same scaling.

    Parameters
    ----------
    view : View
    members : list of Member
    n_outputs : int
    device : torch.device
    """

    def __init__(
        self, view: View, members: list[Member], n_outputs: int, device: torch.device
    ) -> None:
        self.view = view
        self.kernel = members[0].kernel
        self.scale = 1.0  # by which the kernel is divided
        self.ridge: ForwardRidge | ReducedRidge | SettledRidge
        self.ridge = ForwardRidge([m.alpha for m in members], n_outputs, device)
        self.device = device
        self.note = ""  # first exception of a user's kernel
        self._has_worked = False

    @property
    def is_refreshed(self) -> bool:
        """True if the kernel changes after 8, 16, 32, ... rows, up to the landmarks."""
        return self.view.has_statistics or self.kernel.is_relative

    def values(self, pairs: Pairs) -> Tensor:
        """Return the kernel (n, m) of pairs of rows, divided by ``scale``."""
        shape = len(pairs.one), len(pairs.other)
        return self._attempt(self.kernel.values, pairs, shape) / self.scale

    def diagonal(self, rows: Tensor) -> Tensor:
        """Return the kernel (n,) of each row with itself, divided by ``scale``."""
        return self._attempt(self.kernel.diagonal, rows, (len(rows),)) / self.scale

    def _attempt(
        self, compute: Callable[[Any], Tensor], given: Any, shape: tuple[int, ...]
    ) -> Tensor:
        """Compute a kernel, or return NaN if a user's kernel raises."""
        if not callable(self.kernel.name):
            return compute(given)
        try:
            kernel = compute(given)
        except Exception as error:
            self.note = self.note or f"{type(error).__name__}: {error}"
            return torch.full(shape, torch.nan, dtype=torch.float64, device=self.device)
        self._has_worked = self._has_worked or kernel.numel() > 0
        return kernel

    def join(self, rows: Tensor, pairs: Sequence[Pairs], n_known: int) -> list[Tensor]:
        """Return the kernels of rows (B, d') with earlier rows and with each other.

        If a user's kernel raises, its values are NaN from the first known row at which
        it raises. If the kernel has never returned values, its exception is passed on.
        """
        kernels = [self.values(pair) for pair in pairs]
        n_sound, (_, among) = n_known, pairs
        while n_sound and callable(self.kernel.name):
            if not any(kernel.numel() and kernel.isnan().all() for kernel in kernels):
                break
            n_sound -= 1
            rows = rows.clone()
            rows[n_sound:] = 0  # as for unknown rows
            pairs = self.view.pairs(rows), Pairs(rows, rows, self.view.distance)
            kernels = [self.values(pair) for pair in pairs]
        if self.note and not self._has_worked:
            self.kernel.values(among)
        for kernel in kernels:
            kernel[n_sound:n_known] = torch.nan
        return kernels

    def rescale(self) -> None:
        """Set ``scale`` so that the mean diagonal is 1, if the view has statistics."""
        if self.view.has_statistics:
            self.scale = 1.0
            mean = float(self.diagonal(self.view.rows).mean())
            self.scale = mean if mean > 0 else 1.0

    def forget(self) -> None:
        """Start again without any rows."""
        assert isinstance(self.ridge, ForwardRidge)
        self.scale, self.ridge = 1.0, self._empty(self.ridge.n_outputs)

    def _empty(self, n_outputs: int) -> ForwardRidge:
        alphas = self.ridge.alphas
        return ForwardRidge(alphas.tolist(), n_outputs, alphas.device)

    def refresh(self, targets: Tensor) -> None:
        """Recompute the factors for the rows of the view and their targets (n, P)."""
        self.rescale()
        assert isinstance(self.ridge, ForwardRidge)
        self.ridge.refactor(self.view.n_rows, self._gram, targets)

    def refitted(self, targets: Tensor) -> ForwardRidge:
        """Return new factors for other targets (N, P), possibly with many columns."""
        ridge = self._empty(targets.shape[1])
        ridge.refactor(self.view.n_rows, self._gram, targets)
        return ridge

    def stretch(self, start: int, targets: Tensor, ahead: RowsAhead) -> Stretch:
        """Predict the view's rows, beginning at ``start``, with the current kernel."""
        ridge = self.refitted(targets)
        known = torch.from_numpy(ahead.known(0, ridge.n_rows))
        means, variances = ridge.predicted(targets[: ridge.n_rows], known)
        squares = ridge.squares(start)
        return Stretch(start, means[:, start:], variances[:, start:], squares)

    def extend(self) -> None:
        """Turn the rows of the view into landmarks."""
        assert isinstance(self.ridge, ForwardRidge)
        self.ridge = ExtendedRidge(self.ridge, self._root())

    def condense(self, targets: Tensor) -> None:
        """Replace the factors by a posterior given all targets (N, P)."""
        assert isinstance(self.ridge, ExtendedRidge)
        self.ridge = self.ridge.condensed(self._gram(), targets)

    def settle(self, rows: Tensor) -> None:
        """Refit occasionally from now on, instead of updating the posterior.

        The most recent rows (n, d') determine the variance of predictions.
        """
        assert isinstance(self.ridge, ReducedRidge)
        kernels = self.values(self.view.pairs(rows)), self.diagonal(rows)
        self.ridge = SettledRidge.following(self.ridge, *kernels)

    def restore(self, n_rows: int, learned: Sequence[State]) -> None:
        """Turn the rows of the view into landmarks, and load the rest from a state.

        Parameters
        ----------
        n_rows : int
            Number of rows in complete blocks.
        learned : sequence of mapping
            The posterior of every readout, or its last fit.
        """

        def stacked(name: str) -> Tensor:
            return torch.stack([state[name] for state in learned]).to(self.device)

        first = {name: value.to(self.device) for name, value in learned[0].items()}
        alphas, weights = self.ridge.alphas, stacked("weights")
        leading = with_root(first["places"], self._gram())
        if "covariance" in first:
            covariance = stacked("covariance")
            self.ridge = ReducedRidge(leading, alphas, covariance, weights, n_rows)
        else:
            sums = first["products"], first["known"]
            self.ridge = SettledRidge(leading, alphas, sums)
            self.ridge.weights, self.ridge.variances = weights, stacked("variance")

    def state_dict(self, with_errors: bool = False) -> list[dict[str, Tensor]]:
        """Return each readout's posterior or last fit.

        Before there is a posterior, return errors if ``with_errors``, else nothing.
        """
        ridge = self.ridge
        if isinstance(ridge, ForwardRidge):
            errors = ridge.errors if with_errors else ()
            return [{"errors": own} for own in errors] or [{} for _ in ridge.alphas]
        states = [{"weights": own, "places": ridge.places} for own in ridge.weights]
        if isinstance(ridge, SettledRidge):
            shared = {"products": ridge.products, "known": ridge.known}
            together = zip(states, ridge.variances, strict=True)
            return [{**state, **shared, "variance": own} for state, own in together]
        pairs = zip(states, ridge.covariance, strict=True)
        return [{**state, "covariance": covariance} for state, covariance in pairs]

    def _root(self) -> Tensor:
        """Return a root of the kernel matrix of the view's rows."""
        scale = float(self.diagonal(self.view.rows).mean())
        return landmark_root(self._gram, self.view.n_rows, scale, self.view.rows.device)

    def _gram(self, one: slice = slice(None), other: slice = slice(None)) -> Tensor:
        return self.values(self.view.pairs(self.view.rows[one], other))


def places_of(groups: Sequence[KernelGroup]) -> Iterator[tuple[KernelGroup, slice]]:
    """Yield groups, each with the positions of its readouts among all readouts."""
    first = 0
    for group in groups:
        last = first + len(group.ridge.alphas)
        yield group, slice(first, last)
        first = last


class OpenBlock(RowBlock):
    """Block of rows whose targets are observed one or several at a time.

    Parameters
    ----------
    start : int
        Index of the first row.
    raw : ndarray of shape (n, d)
        The known rows of the block.
    scaled : dict of View to Tensor of shape (B, d')
    parts : list of Block, by group
    """

    def __init__(
        self,
        start: int,
        raw: np.ndarray,
        scaled: dict[View, Tensor],
        parts: list[Block],
    ) -> None:
        super().__init__(raw, parts[0].factor.shape[1])
        self.start = start
        self.scaled = scaled
        self.parts = parts
        self.factor = torch.cat([part.factor for part in parts]).cpu()  # (K, B, B)
        self.base = torch.cat([part.base for part in parts]).cpu()  # (K, B, P)
        self.errors = torch.zeros_like(self.base)
        beyond = [p.beyond.expand(len(p.factor), -1) for p in parts]
        self._beyond = torch.cat(beyond).cpu()
        deviations = self.factor.diagonal(dim1=1, dim2=2)  # (K, B)
        self.base[deviations.isnan()] = torch.nan  # rows without predictions
        self._ahead: tuple[Tensor, Tensor] | None = None

    def ahead(self, n_rows: int) -> tuple[Tensor, Tensor]:
        """Return means (K, n, P) and variances (K, n) of the next rows."""
        if self._ahead is None or self._ahead[1].shape[1] != n_rows:
            t = self.n_observed
            rows = slice(t, t + n_rows)
            known = torch.bmm(self.factor[:, rows, :t], self.errors[:, :t])
            variances = self.factor[:, rows, rows].square().sum(2)
            self._ahead = self.base[:, rows] + known, variances + self._beyond[:, rows]
        return self._ahead

    def observe(self, targets: Tensor) -> None:
        """Observe the targets (n, P) of the next rows."""
        rows = slice(self.n_observed, self.n_observed + len(targets))
        remaining = targets - self.ahead(len(targets))[0]
        factor = self.factor[:, rows, rows]
        if len(targets) == 1:
            self.errors[:, rows] = remaining / factor
        else:
            solved = torch.linalg.solve_triangular(factor, remaining, upper=False)
            self.errors[:, rows] = solved
        self.n_observed = rows.stop
        self._ahead = None
