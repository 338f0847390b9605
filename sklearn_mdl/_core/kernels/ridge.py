r"""Kernel ridge regression refitted at every row, from one Cholesky factor.

Let ``K`` be the kernel matrix of the rows in order, ``Y`` (N, P) their targets and
:math:`R R^T = K + \alpha I`. Forward substitution :math:`E = R^{-1} Y` gives the
standardised errors of all refits (the innovations; Zhdanov and Kalnishkan, 2013, "An
identity for kernel ridge regression", Theoretical Computer Science 473):

.. math::

    \mathrm{mean}_t = Y_t - R_{tt} E_t, \qquad \mathrm{var}_t = R_{tt}^2 .

Here the mean is the prediction of row ``t`` from only the rows before it, and the
variance includes the noise. Rows are added to the factor in blocks, and the targets of
a block are used row by row.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

PANEL = 256  # number of rows of the factor that one tensor holds

Gram = Callable[[slice, slice], Tensor]  # maps rows and columns to kernel values


class Block(NamedTuple):
    """Results for a block of ``B`` rows that do not depend on its targets.

    Attributes
    ----------
    factor : Tensor of shape (A, B, B)
        Diagonal block ``L`` of the factor, lower triangular.
    base : Tensor of shape (A, B, P)
        Predictions from the rows before the block. With the earlier rows of the block,
        the prediction of row ``t`` is ``base[t] + L[t, :t] @ E[:t]``.
    cross : Tensor of shape (A, B, n)
        The rest of the factor's rows, in the columns of earlier rows. For a
        `ReducedRidge`, products of landmark features and the covariance.
    beyond : Tensor of shape (B,)
        Additional variances of predictions.
    features : Tensor of shape (B, M)
        Landmark features or kernel values if they are needed; otherwise ``M`` is 0.
    """

    factor: Tensor
    base: Tensor
    cross: Tensor
    beyond: Tensor
    features: Tensor

    def first(self, n_rows: int) -> Block:
        """Return the block of only the first ``n_rows`` rows."""
        rows = slice(n_rows)
        factor = self.factor[:, rows, rows]
        base, cross = self.base[:, rows], self.cross[:, rows]
        return Block(factor, base, cross, self.beyond[rows], self.features[rows])

    def learned(
        self, targets: Tensor, known: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Return predictions and errors (A, B, P), given all targets (B, P).

        Predictions are means (A, B, P) and variances (A, B). Row ``t`` is predicted
        from all rows before the block and from the block's first ``known[t]`` rows.
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
        Kernel values of the pending rows and the rows to predict.
    """

    block: Block
    errors: Tensor
    near: Tensor

    def completed(
        self, means: Tensor, variances: Tensor, remaining: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return means and variances of other rows, updated with the pending rows.

        ``remaining`` (A, n, m) is the covariance of pending and other rows, given all
        rows before the block.
        """
        n_own = self.errors.shape[1]
        factor = self.block.factor[:, :n_own, :n_own]
        joined = torch.linalg.solve_triangular(factor, remaining, upper=False)
        means = added_products(means, joined.mT, self.errors)
        return means, variances - joined.square().sum(1)


def predicted(
    targets: Tensor, factor: Tensor, errors: Tensor, known: Tensor
) -> tuple[Tensor, Tensor]:
    """Return means (A, B, P) and variances (A, B) of the rows of a block.

    Parameters
    ----------
    targets : Tensor of shape (B, P)
    factor : Tensor of shape (A, B, B)
    errors : Tensor of shape (A, B, P)
    known : Tensor of shape (B,)
        For each row, how many of the block's first rows it is predicted from.
    """
    places = torch.arange(len(known))
    if torch.equal(known, places):
        deviations = factor.diagonal(dim1=1, dim2=2)
        return targets - deviations[..., None] * errors, deviations.square()
    unknown = factor * (places >= known[:, None]).to(factor)
    return targets - torch.bmm(unknown, errors), unknown.square().sum(2)


def added_products(to: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    """Return ``left @ right`` (A, m, P), plus ``to`` unless it is None.

    If ``right`` has one column, torch uses different algorithms for one matrix and
    for a stack of them. Products are then computed one by one, so that the result for
    one noise level does not depend on the others.
    """
    n_alphas = len(right)
    parts = [slice(n_alphas)]
    if right.shape[2] == 1:
        parts = [slice(i, i + 1) for i in range(n_alphas)]
    if to is None:
        return torch.cat([torch.bmm(left[part], right[part]) for part in parts])
    sums = [torch.baddbmm(to[part], left[part], right[part]) for part in parts]
    return torch.cat(sums)


class _Panel(NamedTuple):
    """Some rows of the factor, with space for more."""

    left: Tensor  # (A, PANEL, start)
    own: Tensor  # (A, PANEL, PANEL)
    errors: Tensor  # (A, PANEL, P)


class ForwardRidge:
    """Cholesky factors of a kernel matrix for several noise levels, and errors ``E``.

    Copies share all panels except the last.

    Parameters
    ----------
    alphas : sequence of float
        The ``A`` noise variances, which are added to the diagonal.
    n_outputs : int
        Number ``P`` of columns of the targets.
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
        """Copy the last panel, and share the others, which do not change again."""
        copied = copy.copy(self)
        last = [_Panel(*(part.clone() for part in p)) for p in self._panels[-1:]]
        vars(copied)["_panels"] = [*self._panels[:-1], *last]
        return copied

    def open(self, cross: Tensor, own: Tensor) -> Block:
        """Prepare a block of rows for prediction from the earlier rows.

        Parameters
        ----------
        cross : Tensor of shape (B, n_rows)
            Kernel values of the block's rows and earlier rows, zero for unknown rows.
        own : Tensor of shape (B, B)
            Kernel matrix of the block, the identity for unknown rows.
        """
        joined = self.solve(cross)
        noise = torch.diag_embed(self.alphas[:, None].expand(-1, len(own)))
        factor = cholesky(torch.baddbmm(own + noise, joined, joined.mT, alpha=-1))
        beyond, features = own.new_zeros(len(own)), own[:, :0]
        return Block(factor, self._base(joined), joined, beyond, features)

    def close(self, block: Block, errors: Tensor) -> None:
        """Add the rows of a block with their errors (A, B, P)."""
        size = errors.shape[1]
        number, place = divmod(self.n_rows, PANEL)
        start, rows = number * PANEL, slice(place, place + size)
        if not place:
            widths = start, PANEL, self.n_outputs
            shapes = [(len(self.alphas), PANEL, width) for width in widths]
            self._panels.append(_Panel(*map(self.alphas.new_zeros, shapes)))
        panel = self._panels[number]
        panel.left[:, rows] = block.cross[:, :, :start]
        panel.own[:, rows, :place] = block.cross[:, :, start:]
        panel.own[:, rows, rows] = block.factor
        panel.errors[:, rows] = errors
        self.n_rows += size

    def refactor(self, n_rows: int, gram: Gram, targets: Tensor) -> None:
        """Refit to the first ``n_rows`` rows, with other kernels and targets (n, P)."""
        self.n_rows, self._panels = 0, []
        for start in range(0, n_rows, PANEL):
            rows = slice(start, min(start + PANEL, n_rows))
            block = self.open(gram(rows, slice(0, start)), gram(rows, rows))
            known = targets[rows] - block.base
            errors = torch.linalg.solve_triangular(block.factor, known, upper=False)
            self.close(block, errors)

    def retarget(self, targets: Tensor) -> None:
        """Replace the targets of all rows by ``targets`` (n_rows, P)."""
        self.restore(self.solve(targets.mT).mT)

    def restore(self, errors: Tensor) -> None:
        """Replace the errors of all rows by ``errors`` (A, n_rows, P)."""
        panels = []
        for start, rows, panel in self._filled():
            own = torch.zeros_like(panel.errors)  # not in place, since copies share it
            own[:, :rows] = errors[:, start : start + rows]
            panels.append(panel._replace(errors=own))
        self._panels = panels

    def add_outputs(self, n: int) -> None:
        """Add columns of targets, which are zero in all rows so far."""
        self.n_outputs += n
        self._panels = [
            panel._replace(errors=torch.nn.functional.pad(panel.errors, (0, n)))
            for panel in self._panels
        ]

    @property
    def errors(self) -> Tensor:
        """Errors (A, n_rows, P) of all rows."""
        parts = [panel.errors[:, :rows] for _, rows, panel in self._filled()]
        return torch.cat(parts or [self.alphas.new_zeros(len(self.alphas), 0, 0)], 1)

    def predicted(self, targets: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return means (A, n_rows, P) and variances (A, n_rows) of all rows.

        Row ``t`` is predicted from the first ``known[t]`` rows, which must include all
        rows before the panel of row ``t``.
        """
        parts = []
        for start, rows, panel in self._filled():
            own, errors = panel.own[:, :rows, :rows], panel.errors[:, :rows]
            places = slice(start, start + rows)
            parts.append(predicted(targets[places], own, errors, known[places] - start))
        means, variances = zip(*parts, strict=True)
        return torch.cat(means, 1), torch.cat(variances, 1)

    def squares(self, n_rows: int | None = None) -> Tensor:
        """Return sums (A, P) of squared errors over the first ``n_rows`` rows.

        If ``n_rows`` is None, the sums are over all rows.
        """
        sums = self.alphas.new_zeros(len(self.alphas), self.n_outputs)
        last = self.n_rows if n_rows is None else n_rows
        for start, rows, panel in self._filled():
            some = max(min(rows, last - start), 0)
            sums += panel.errors[:, :some].square().sum(1)
        return sums

    def predict(
        self, cross: Tensor, own: Tensor, pending: Pending | None = None
    ) -> tuple[Tensor, Tensor]:
        """Predict other rows, as means (A, m, P) and variances (A, m).

        Parameters
        ----------
        cross : Tensor of shape (m, n_rows)
            Kernel values of the other rows and the factor's rows.
        own : Tensor of shape (m,)
            Kernel value of each other row with itself.
        pending : Pending or None
            Rows of a block that is still open.
        """
        joined = self.solve(cross)
        means = self._base(joined)
        variances = own + self.alphas[:, None] - joined.square().sum(2)
        if pending is None:
            return means, variances
        near = torch.bmm(pending.block.cross[:, : pending.errors.shape[1]], joined.mT)
        return pending.completed(means, variances, pending.near - near)

    def solve(self, known: Tensor) -> Tensor:
        """Return ``known`` (m, n_rows) or (A, m, n_rows) times ``R^{-T}``.

        The result has shape (A, m, n_rows).
        """
        known = known.expand(len(self.alphas), -1, -1)
        solved = torch.empty_like(known, memory_format=torch.contiguous_format)
        for start, rows, panel in self._filled():
            part = known[:, :, start : start + rows]
            if start:
                left = panel.left[:, :rows].mT
                part = torch.baddbmm(part, solved[:, :, :start], left, alpha=-1)
            # Torch solves for columns twice as fast as for rows.
            own = panel.own[:, :rows, :rows]
            added = torch.linalg.solve_triangular(own, part.mT, upper=False)
            solved[:, :, start : start + rows] = added.mT
        return solved

    def _filled(self) -> Iterator[tuple[int, int, _Panel]]:
        """Yield the first row and the number of rows of every panel."""
        for number, panel in enumerate(self._panels):
            start = number * PANEL
            yield start, min(PANEL, self.n_rows - start), panel

    def matrices(self) -> Tensor:
        """Return the factors (A, n_rows, n_rows) as dense matrices."""
        n_alphas, n_rows = len(self.alphas), self.n_rows
        factors = self.alphas.new_zeros(n_alphas, n_rows, n_rows)
        for start, rows, panel in self._filled():
            own = factors[:, start : start + rows]
            own[:, :, :start] = panel.left[:, :rows]
            own[:, :, start : start + rows] = panel.own[:, :rows, :rows]
        return factors

    def retire(self, kept: list[int]) -> None:
        """Keep only some noise levels, without changing their results."""
        self.alphas = self.alphas[kept]
        self._panels = [_Panel(*(part[kept] for part in p)) for p in self._panels]

    def _base(self, joined: Tensor) -> Tensor:
        base = joined.new_zeros(len(self.alphas), joined.shape[1], self.n_outputs)
        for start, rows, panel in self._filled():
            part = joined[:, :, start : start + rows]
            base = added_products(base, part, panel.errors[:, :rows])
        return base


def cholesky(matrices: Tensor) -> Tensor:
    """Factor matrices (A, B, B) as far as they are positive definite.

    In each factor, the first row that cannot be computed and all later rows are NaN, as
    are predictions that use them. All other rows are bitwise the same as if no row had
    failed.
    """
    factors, failed = torch.linalg.cholesky_ex(matrices)
    # A non-finite number makes the diagonal of its row non-finite, too.
    finite = factors.diagonal(dim1=1, dim2=2).isfinite()
    if not failed.any() and finite.all():
        return torch.as_tensor(factors)
    places = torch.arange(matrices.shape[1], device=matrices.device)
    sound = (finite | (failed > 0)[:, None]).cumprod(1).bool()
    sound &= (failed == 0)[:, None] | (places < (failed - 1)[:, None])
    # Replace the other rows by rows of the identity, like unknown rows.
    pairs = sound[:, :, None] & sound[:, None]
    identity = torch.eye(len(places), dtype=matrices.dtype, device=matrices.device)
    factors, _ = torch.linalg.cholesky_ex(torch.where(pairs, matrices, identity))
    return torch.where(sound[..., None], factors, torch.nan)
