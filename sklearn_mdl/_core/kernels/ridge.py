r"""Kernel ridge regression, refitted at every row, from one Cholesky factor.

With ``K`` the kernel matrix of the rows in their order, ``Y`` (N, P) their targets and
:math:`R R^T = K + \alpha I`, the forward substitution :math:`E = R^{-1} Y` holds the
standardised errors of all refits (the innovations; Zhdanov and Kalnishkan, 2013, "An
identity for kernel ridge regression", Theoretical Computer Science 473):

.. math::

    \mathrm{mean}_t = Y_t - R_{tt} E_t, \qquad \mathrm{var}_t = R_{tt}^2 ,

the prediction of row ``t`` from only the rows before it, and its variance, noise
included. The factor grows by blocks of rows; within a block targets enter row by row.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

PANEL = 256  # rows of the factor that lie in one tensor

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
    cross : Tensor of shape (A, B, n)
        Its rows of the factor, in the columns of the rows before.
    beyond : Tensor of shape (B,)
        What must be added to the variances of predictions.
    features : Tensor of shape (B, M)
        Those of landmarks, as far as they are needed: ``M`` is 0 before.
    """

    factor: Tensor
    base: Tensor
    cross: Tensor
    beyond: Tensor
    features: Tensor

    def first(self, n_rows: int) -> Block:
        """Return what is known of only the first rows."""
        rows = slice(n_rows)
        factor = self.factor[:, rows, rows]
        base, cross = self.base[:, rows], self.cross[:, rows]
        return Block(factor, base, cross, self.beyond[rows], self.features[rows])

    def learned(
        self, targets: Tensor, known: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Return predictions and errors (A, B, P), given all targets (B, P).

        Predictions are means (A, B, P) and variances (A, B), each from as many rows of
        the block as ``known`` (B,) has, which are rows before it.
        """
        remaining = targets - self.base
        errors = torch.linalg.solve_triangular(self.factor, remaining, upper=False)
        means, variances = predicted(targets, self.factor, errors, known)
        return (means, variances + self.beyond), errors


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
        means = added_products(means, joined.mT, self.errors)
        return means, variances - joined.square().sum(1)


def predicted(
    targets: Tensor, factor: Tensor, errors: Tensor, known: Tensor
) -> tuple[Tensor, Tensor]:
    """Means (A, B, P) and variances (A, B) of rows, given their errors (A, B, P).

    Parameters
    ----------
    targets : Tensor of shape (B, P)
    factor : Tensor of shape (A, B, B)
    errors : Tensor of shape (A, B, P)
    known : Tensor of shape (B,)
        From how many of the rows each is predicted, with all rows before these.
    """
    places = torch.arange(len(known))
    if torch.equal(known, places):
        deviations = factor.diagonal(dim1=1, dim2=2)
        return targets - deviations[..., None] * errors, deviations.square()
    unknown = factor * (places >= known[:, None]).to(factor)
    return targets - torch.bmm(unknown, errors), unknown.square().sum(2)


def added_products(to: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    """Products (A, m, P) of matrices, added to others if there are any.

    With one column, the library multiplies a single matrix by another algorithm than
    several. So each is a product by itself, and no noise depends on the others.
    """
    n_alphas = len(right)
    parts = [slice(n_alphas)]
    if right.shape[2] == 1:
        parts = [slice(i, i + 1) for i in range(n_alphas)]
    if to is None:
        return torch.cat([torch.bmm(left[part], right[part]) for part in parts])
    found = [torch.baddbmm(to[part], left[part], right[part]) for part in parts]
    return torch.cat(found)


class _Panel(NamedTuple):
    """Some rows of the factor, with room for more."""

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
        """Share what will not change again."""
        other = copy.copy(self)
        last = [_Panel(*(part.clone() for part in p)) for p in self._panels[-1:]]
        vars(other)["_panels"] = [*self._panels[:-1], *last]
        return other

    def open(self, cross: Tensor, own: Tensor) -> Block:
        """Join a block of rows to those before.

        Parameters
        ----------
        cross : Tensor of shape (B, n_rows)
            Kernel of the block's rows with those before; zero for rows that are not
            known yet.
        own : Tensor of shape (B, B)
            Kernel of the block; the identity for rows that are not known yet.
        """
        joined = self.solve(cross)
        noise = torch.diag_embed(self.alphas[:, None].expand(-1, len(own)))
        remaining = torch.baddbmm(own + noise, joined, joined.mT, alpha=-1)
        factor = cholesky(remaining)
        beyond, features = own.new_zeros(len(own)), own[:, :0]
        return Block(factor, self._base(joined), joined, beyond, features)

    def close(self, block: Block, errors: Tensor) -> None:
        """Add the rows of a block with their errors (A, B, P)."""
        size = errors.shape[1]
        number, place = divmod(self.n_rows, PANEL)
        if not place:
            self._panels.append(self._empty_panel())
        start, rows = number * PANEL, slice(place, place + size)
        panel = self._panels[number]
        panel.left[:, rows] = block.cross[:, :, :start]
        panel.own[:, rows, :place] = block.cross[:, :, start:]
        panel.own[:, rows, rows] = block.factor
        panel.errors[:, rows] = errors
        self.n_rows += size

    def refactor(self, n_rows: int, gram: Gram, targets: Tensor) -> None:
        """Begin again with another kernel of the first rows, and targets (n, P)."""
        self.n_rows, self._panels = 0, []
        for start in range(0, n_rows, PANEL):
            rows = slice(start, min(start + PANEL, n_rows))
            block = self.open(gram(rows, slice(0, start)), gram(rows, rows))
            known = targets[rows] - block.base
            errors = torch.linalg.solve_triangular(block.factor, known, upper=False)
            self.close(block, errors)

    def retarget(self, targets: Tensor) -> None:
        """Learn other targets (n_rows, P) of the same rows; the factor stays."""
        errors = self.solve(targets.mT).mT
        panels = []
        for start, rows, panel in self._filled():
            own = torch.zeros_like(panel.errors)  # copies keep theirs
            own[:, :rows] = errors[:, start : start + rows]
            panels.append(panel._replace(errors=own))
        self._panels = panels

    def add_outputs(self, n: int) -> None:
        """Continue with more columns of targets, which were zero so far."""
        self.n_outputs += n
        self._panels = [
            panel._replace(errors=torch.nn.functional.pad(panel.errors, (0, n)))
            for panel in self._panels
        ]

    @property
    def errors(self) -> Tensor:
        """Errors of all rows, (A, n_rows, P)."""
        found = [panel.errors[:, :rows] for _, rows, panel in self._filled()]
        return torch.cat(found or [self.alphas.new_zeros(len(self.alphas), 0, 0)], 1)

    def restore(self, errors: Tensor) -> None:
        """Take over errors (A, n_rows, P)."""
        for start, rows, panel in self._filled():
            panel.errors[:, :rows] = errors[:, start : start + rows]

    def means(self, targets: Tensor) -> Tensor:
        """Predictions (A, n_rows, P) of all rows, each from only those before it."""
        return targets - self.diagonal()[..., None] * self.errors

    def predicted(self, targets: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Means (A, n_rows, P) and variances (A, n_rows) of all rows.

        Each from the first ``known`` (n_rows,) rows, with which its panel begins or
        which it holds.
        """
        parts = []
        for start, rows, panel in self._filled():
            own, errors = panel.own[:, :rows, :rows], panel.errors[:, :rows]
            places = slice(start, start + rows)
            parts.append(predicted(targets[places], own, errors, known[places] - start))
        means, variances = zip(*parts, strict=True)
        return torch.cat(means, 1), torch.cat(variances, 1)

    def squares(self, n_rows: int | None = None) -> Tensor:
        """Return sums of squared errors over all or the first rows, (A, P)."""
        found = self.alphas.new_zeros(len(self.alphas), self.n_outputs)
        last = self.n_rows if n_rows is None else n_rows
        for start, rows, panel in self._filled():
            some = max(min(rows, last - start), 0)
            found += panel.errors[:, :some].square().sum(1)
        return found

    def predict(
        self, cross: Tensor, own: Tensor, pending: Pending | None = None
    ) -> tuple[Tensor, Tensor]:
        """Means (A, m, P) and variances (A, m) of other rows.

        Parameters
        ----------
        cross : Tensor of shape (m, n_rows)
            Kernel of the others with the rows before.
        own : Tensor of shape (m,)
            Kernel of every other row with itself.
        pending : Pending or None
            Rows of a block that is not closed yet.
        """
        joined = self.solve(cross)
        means = self._base(joined)
        variances = own + self.alphas[:, None] - joined.square().sum(2)
        if pending is None:
            return means, variances
        n_own = pending.errors.shape[1]
        near = torch.bmm(pending.block.cross[:, :n_own], joined.mT)
        return pending.completed(means, variances, pending.near - near)

    def solve(self, known: Tensor) -> Tensor:
        """Forward substitution of rows (m, n_rows), or (A, m, n_rows)."""
        known = known.expand(len(self.alphas), -1, -1)
        solved = torch.empty_like(known, memory_format=torch.contiguous_format)
        for start, rows, panel in self._filled():
            part = known[:, :, start : start + rows]
            if start:
                left = panel.left[:, :rows].mT
                part = torch.baddbmm(part, solved[:, :, :start], left, alpha=-1)
            # By columns: the library is twice as fast as by rows.
            own = panel.own[:, :rows, :rows]
            found = torch.linalg.solve_triangular(own, part.mT, upper=False)
            solved[:, :, start : start + rows] = found.mT
        return solved

    def _filled(self) -> Iterator[tuple[int, int, _Panel]]:
        """Yield first row and number of rows of every panel."""
        for number, panel in enumerate(self._panels):
            start = number * PANEL
            yield start, min(PANEL, self.n_rows - start), panel

    def diagonal(self) -> Tensor:
        """Return standard deviations of all rows when predicted, (A, n_rows)."""
        parts = [panel.own.diagonal(dim1=1, dim2=2) for panel in self._panels]
        return torch.cat(parts, 1)[:, : self.n_rows]

    def matrices(self) -> Tensor:
        """Return the factors, (A, n_rows, n_rows)."""
        n_alphas, n_rows = len(self.alphas), self.n_rows
        found = self.alphas.new_zeros(n_alphas, n_rows, n_rows)
        for start, rows, panel in self._filled():
            own = found[:, start : start + rows]
            own[:, :, :start] = panel.left[:, :rows]
            own[:, :, start : start + rows] = panel.own[:, :rows, :rows]
        return found

    def retire(self, kept: Sequence[int]) -> None:
        """Keep some of the noises only; their numbers do not change."""
        self.alphas = self.alphas[list(kept)]
        self._panels = [
            _Panel(*(part[list(kept)] for part in panel)) for panel in self._panels
        ]

    def _base(self, joined: Tensor) -> Tensor:
        base = joined.new_zeros(len(self.alphas), joined.shape[1], self.n_outputs)
        for start, rows, panel in self._filled():
            part = joined[:, :, start : start + rows]
            base = added_products(base, part, panel.errors[:, :rows])
        return base

    def _empty_panel(self) -> _Panel:
        n_alphas, zeros = len(self.alphas), self.alphas.new_zeros
        return _Panel(
            zeros(n_alphas, PANEL, PANEL * len(self._panels)),
            zeros(n_alphas, PANEL, PANEL),
            zeros(n_alphas, PANEL, self.n_outputs),
        )


def cholesky(matrices: Tensor) -> Tensor:
    """Factor matrices (A, B, B), each as far as it is positive definite.

    From the first row that cannot be computed, rows of a factor are NaN, and so is
    everything predicted from them. Other rows and matrices keep their bits.
    """
    factors, failed = torch.linalg.cholesky_ex(matrices)
    finite = torch.isfinite(factors).all(2)
    if not failed.any() and finite.all():
        return torch.as_tensor(factors)
    places = torch.arange(matrices.shape[1], device=matrices.device)
    sound = (finite | (failed > 0)[:, None]).cumprod(1).bool()
    sound &= (failed == 0)[:, None] | (places < (failed - 1)[:, None])
    # The other rows are those of the identity, as for rows that are not known yet.
    pairs = sound[:, :, None] & sound[:, None]
    identity = torch.eye(len(places), dtype=matrices.dtype, device=matrices.device)
    factors, _ = torch.linalg.cholesky_ex(torch.where(pairs, matrices, identity))
    return torch.where(sound[..., None], factors, torch.nan)
