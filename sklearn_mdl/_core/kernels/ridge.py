r"""Kernel ridge regression, refitted at every row, from one Cholesky factor.

With ``K`` the kernel matrix of the rows in their order, ``Y`` (N, P) their targets and
:math:`R R^T = K + \alpha I`, the forward substitution :math:`E = R^{-1} Y` holds the
standardised errors of all refits (the innovations; Zhdanov and Kalnishkan, 2013, "An
identity for kernel ridge regression", Theoretical Computer Science 473):

.. math::

    \mathrm{mean}_t = Y_t - R_{tt} E_t, \qquad \mathrm{var}_t = R_{tt}^2 ,

the prediction of row ``t`` from the rows before it alone, and its variance, noise
included. The factor grows by blocks of rows; within a block targets enter row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

PANEL = 512  # rows of the factor that lie in one tensor

Gram = Callable[[slice, slice], Tensor]  # rows and columns to their kernel values


class Block(NamedTuple):
    """What is known of a block of ``B`` rows before any of its targets.

    Attributes
    ----------
    factor : Tensor of shape (A, B, B)
        Lower triangular ``L``: the part of the factor that is the block's own.
    base : Tensor of shape (A, B, P)
        Predictions from the rows before the block; that of row ``t`` given those
        before it in the block as well is ``base[t] + L[t, :t] @ E[:t]``.
    cross : Tensor of shape (A, n, B)
        What joins it to the rows before.
    """

    factor: Tensor
    base: Tensor
    cross: Tensor


class Pending(NamedTuple):
    """The first ``n`` rows of an open block, whose targets are known.

    Attributes
    ----------
    block : Block
    errors : Tensor of shape (A, n, P)
    near : Tensor of shape (n, m)
        Kernel of these rows with those that are predicted.
    """

    block: Block
    errors: Tensor
    near: Tensor

    def completed(
        self, means: Tensor, variances: Tensor, remaining: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Take these rows into account, with their remaining covariance (A, n, m)."""
        n_own = self.errors.shape[1]
        factor = self.block.factor[:, :n_own, :n_own]
        joined = torch.linalg.solve_triangular(factor, remaining, upper=False)
        means = torch.baddbmm(means, joined.mT, self.errors)
        return means, variances - joined.square().sum(1)


class _Panel(NamedTuple):
    """Some rows of the factor, the identity where rows are still to be added."""

    left: Tensor  # (A, PANEL, start)
    own: Tensor  # (A, PANEL, PANEL)
    errors: Tensor  # (A, PANEL, P)


class ForwardRidge:
    """The factors of one kernel matrix for several noises, and their errors ``E``.

    Rows are added, and never changed: copies share all panels but the last one.

    Parameters
    ----------
    alphas : sequence of float
        Noise added to the diagonal, ``A`` of them.
    n_outputs : int
        Columns ``P`` of the targets.
    device : torch.device
    """

    def __init__(
        self, alphas: Sequence[float], n_outputs: int, device: torch.device
    ) -> None:
        self.alphas = torch.tensor(alphas, dtype=torch.float64, device=device)
        self.n_outputs = n_outputs
        self.n_rows = 0
        self._panels: list[_Panel] = []

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Share what does not change any more."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._panels = list(self._panels)
        if other._panels:
            other._panels[-1] = _Panel(*(part.clone() for part in self._panels[-1]))
        return other

    def open(self, cross: Tensor, own: Tensor) -> Block:
        """Join a block of rows to those before.

        Parameters
        ----------
        cross : Tensor of shape (n_rows, B)
            Kernel of the rows before with those of the block; zero for rows that are
            not known yet.
        own : Tensor of shape (B, B)
            Kernel of the block; the identity for rows that are not known yet.

        Raises
        ------
        NotPositiveDefiniteError
            If the matrix is not positive definite.
        """
        joined = self.solve(cross)
        noise = torch.diag_embed(self.alphas[:, None].expand(-1, len(own)))
        remaining = torch.baddbmm(own + noise, joined.mT, joined, alpha=-1)
        factor = cholesky(remaining, self.n_rows)
        return Block(factor, self._base(joined), joined)

    def close(self, block: Block, errors: Tensor) -> None:
        """Add the rows of a block with their errors (A, B, P)."""
        size = errors.shape[1]
        number, place = divmod(self.n_rows, PANEL)
        if not place:
            self._panels.append(self._empty_panel())
        start, rows = number * PANEL, slice(place, place + size)
        panel = self._panels[number]
        panel.left[:, rows] = block.cross[:, :start].mT
        panel.own[:, rows, :place] = block.cross[:, start : self.n_rows].mT
        panel.own[:, rows, rows] = block.factor
        panel.errors[:, rows] = errors
        self.n_rows += size

    def refactor(self, n_rows: int, gram: Gram, targets: Tensor) -> None:
        """Begin again with another kernel of the first rows, and targets (n, P)."""
        self.n_rows, self._panels = 0, []
        for start in range(0, n_rows, PANEL):
            rows = slice(start, min(start + PANEL, n_rows))
            block = self.open(gram(slice(0, start), rows), gram(rows, rows))
            known = targets[rows] - block.base
            errors = torch.linalg.solve_triangular(block.factor, known, upper=False)
            self.close(block, errors)

    def predict(
        self, cross: Tensor, own: Tensor, pending: Pending | None = None
    ) -> tuple[Tensor, Tensor]:
        """Means (A, m, P) and variances (A, m) of other rows.

        Parameters
        ----------
        cross : Tensor of shape (n_rows, m)
            Kernel of the rows before with the others.
        own : Tensor of shape (m,)
            Kernel of every other row with itself.
        pending : Pending or None
            Rows of a block that is not closed yet.
        """
        joined = self.solve(cross)
        means = self._base(joined)
        variances = own + self.alphas[:, None] - joined.square().sum(1)
        if pending is None:
            return means, variances
        n_own = pending.errors.shape[1]
        near = torch.bmm(pending.block.cross[:, :, :n_own].mT, joined)
        return pending.completed(means, variances, pending.near - near)

    def solve(self, known: Tensor) -> Tensor:
        """Forward substitution of columns (n_rows, B), or (A, n_rows, B)."""
        known = known.expand(len(self.alphas), -1, -1)
        solved = known.new_zeros(
            len(self.alphas), PANEL * len(self._panels), known.shape[2]
        )
        for number, panel in enumerate(self._panels):
            rows = slice(number * PANEL, (number + 1) * PANEL)
            part = solved[:, rows]
            part[:, : min(PANEL, self.n_rows - rows.start)] = known[:, rows]
            if number:
                part.baddbmm_(panel.left, solved[:, : rows.start], alpha=-1)
            # Rows to be added are those of the identity: zero remains zero.
            part.copy_(torch.linalg.solve_triangular(panel.own, part, upper=False))
        return solved[:, : self.n_rows]

    def diagonal(self) -> Tensor:
        """Standard deviations of all rows when they were predicted, (A, n_rows)."""
        parts = [panel.own.diagonal(dim1=1, dim2=2) for panel in self._panels]
        return torch.cat(parts, 1)[:, : self.n_rows]

    def retire(self, kept: Sequence[int]) -> None:
        """Keep some of the noises only; their numbers do not change."""
        self.alphas = self.alphas[list(kept)]
        self._panels = [
            _Panel(*(part[list(kept)] for part in panel)) for panel in self._panels
        ]

    def _base(self, joined: Tensor) -> Tensor:
        base = joined.new_zeros(len(self.alphas), joined.shape[2], self.n_outputs)
        for number, panel in enumerate(self._panels):
            rows = slice(number * PANEL, min((number + 1) * PANEL, self.n_rows))
            errors = panel.errors[:, : rows.stop - rows.start]
            base.baddbmm_(joined[:, rows].mT, errors)
        return base

    def _empty_panel(self) -> _Panel:
        n_alphas, zeros = len(self.alphas), self.alphas.new_zeros
        eye = torch.eye(PANEL, dtype=self.alphas.dtype, device=self.alphas.device)
        return _Panel(
            zeros(n_alphas, PANEL, PANEL * len(self._panels)),
            eye.repeat(n_alphas, 1, 1),
            zeros(n_alphas, PANEL, self.n_outputs),
        )


class NotPositiveDefiniteError(ValueError):
    """A kernel matrix that has no Cholesky factor."""


def cholesky(matrices: Tensor, n_before: int) -> Tensor:
    """Factor matrices (A, B, B) whose first row is row ``n_before`` of a stream.

    Raises
    ------
    NotPositiveDefiniteError
        If one of them is not positive definite.
    """
    factors, failed = torch.linalg.cholesky_ex(matrices)
    if failed.any() or not torch.isfinite(factors).all():
        places = failed[failed > 0]
        row = n_before + (int(places.min()) - 1 if len(places) else 0)
        raise NotPositiveDefiniteError(
            "The kernel must be positive definite, but its matrix with alpha added to "
            f"the diagonal is not at row {row} (from 0); raise alpha, or take a "
            "positive definite kernel"
        )
    return factors
