r"""Kernel ridge regression refitted at every row of a long stream, in bounded memory.

The first ``M`` rows of a stream, which were exact so far, become landmarks: with
:math:`L L^T` their kernel, a row is the ``M`` features :math:`f = L^{-1} k`, whose
inner products are the kernel wherever one of two rows is a landmark. So nothing jumps.
Across blocks the posterior of the features' weights is carried on (Woodbury),

.. math::

    G = F A, \qquad R R^T = G F^T + \mathrm{noise}, \qquad
    E = R^{-1} (Y - F W), \\
    V = R^{-1} G, \qquad W \leftarrow W + V^T E, \qquad A \leftarrow A - V^T V ,

and within a block the forward substitution is exact, row by row. What the landmarks do
not explain of the kernel of a row is added to the variance of its prediction alone: as
a noise of the row it would make codes longer.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from sklearn_mdl._core.kernels.ridge import (
    PANEL,
    Block,
    Pending,
    added_products,
    cholesky,
)

JITTERS = (1e-13, 1e-11, 1e-9, 1e-7)  # of the mean diagonal; the first that will do


class ReducedRidge:
    """The posterior of weights of landmark features, for several noises.

    Parameters
    ----------
    alphas : Tensor of shape (A,)
    kernel : Tensor of shape (M, M)
        Of the landmarks.
    n_rows : int
        Rows evaluated so far.

    Attributes
    ----------
    covariance : Tensor of shape (A, M, M)
    weights : Tensor of shape (A, M, P)
    """

    covariance: Tensor
    weights: Tensor

    def __init__(self, alphas: Tensor, kernel: Tensor, n_rows: int) -> None:
        self.alphas = alphas
        self.n_rows = n_rows
        self._root = landmark_root(kernel)
        self._is_shared = False

    def begin(self, targets: Tensor) -> None:
        """Learn the landmarks with their targets (M, P)."""
        root, noises = self._root, self.alphas[:, None, None]
        products, eye = own_products(root), torch.eye(len(root)).to(root)
        # One by one: the library takes longer for several together.
        factors = [torch.linalg.cholesky(products + a * eye) for a in self.alphas]
        inverse = torch.stack([torch.cholesky_inverse(one) for one in factors])
        # As a file will have it: the last bits of products depend on the layout.
        self.covariance = (noises * inverse).mT.contiguous()  # symmetric
        known = (root.mT @ targets).expand(len(noises), -1, -1)
        self.weights = added_products(None, inverse, known).contiguous()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Share what will be replaced rather than changed."""
        self._is_shared = True
        return copy.copy(self)

    def open(self, cross: Tensor, own: Tensor) -> Block:
        """Join a block of rows to those before, as a factor does.

        Parameters
        ----------
        cross : Tensor of shape (B, M)
            Kernel of the block's rows with the landmarks.
        own : Tensor of shape (B, B)
            Kernel of the block.
        """
        features, beyond = self._features(cross, own.diagonal())
        joined = torch.bmm(features, self.covariance)
        noise = torch.diag_embed(self.alphas[:, None].expand(-1, len(own)))
        remaining = torch.baddbmm(noise, joined, features.mT)
        factor = cholesky(remaining, self.n_rows)
        return Block(factor, self._base(features), joined, beyond)

    def close(self, block: Block, errors: Tensor) -> None:
        """Learn the rows of a block with their errors (A, B, P)."""
        solved = torch.linalg.solve_triangular(block.factor, block.cross, upper=False)
        if self._is_shared:
            self.covariance, self.weights = (
                self.covariance.clone(),
                self.weights.clone(),
            )
            self._is_shared = False
        self.weights.baddbmm_(solved.mT, errors)
        self.covariance.baddbmm_(solved.mT, solved, alpha=-1)
        self.n_rows += errors.shape[1]

    def predict(
        self, cross: Tensor, own: Tensor, pending: Pending | None = None
    ) -> tuple[Tensor, Tensor]:
        """Means (A, m, P) and variances (A, m) of other rows, as of a factor."""
        features, beyond = self._features(cross, own)
        joined = torch.bmm(features, self.covariance)
        means = self._base(features)
        explained = (joined * features).sum(2)
        variances = explained + beyond + self.alphas[:, None]
        if pending is None:
            return means, variances
        n_own = pending.errors.shape[1]
        near = torch.bmm(pending.block.cross[:, :n_own], features.mT)
        return pending.completed(means, variances, near)

    def add_outputs(self, n: int) -> None:
        """Go on with more columns of targets, which were zero so far."""
        self.weights = torch.nn.functional.pad(self.weights, (0, n))

    def retire(self, kept: Sequence[int]) -> None:
        """Keep some of the noises only; their numbers do not change."""
        self.alphas = self.alphas[list(kept)]
        self.covariance, self.weights = (
            self.covariance[list(kept)],
            self.weights[list(kept)],
        )

    def _base(self, features: Tensor) -> Tensor:
        return added_products(None, features, self.weights)

    def _features(self, cross: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Features (A, m, M) of rows, all alike, and the kernel beyond them, (m,)."""
        found = torch.linalg.solve_triangular(self._root, cross.mT, upper=False).mT
        beyond = (own - found.square().sum(1)).clamp_min_(0)
        return found.expand(len(self.alphas), -1, -1), beyond


def own_products(root: Tensor) -> Tensor:
    """Lower triangle of ``root.T @ root`` for a lower triangular root (M, M)."""
    found = torch.zeros_like(root)
    for start in range(0, len(root), PANEL):
        columns = slice(start, start + PANEL)  # zero above
        found[start:, columns] = root[start:, start:].mT @ root[start:, columns]
    return found


def landmark_root(kernel: Tensor) -> Tensor:
    """Factor the kernel (M, M) of landmarks, some of which may be equal.

    Raises
    ------
    NotPositiveDefiniteError
        If it has no factor, even with a small multiple of the identity added.
    """
    eye = kernel.diagonal().mean() * torch.eye(len(kernel)).to(kernel)
    for jitter in JITTERS:
        root, failed = torch.linalg.cholesky_ex(kernel + jitter * eye)
        if not failed:
            found: Tensor = root
            return found
    return cholesky((kernel + JITTERS[-1] * eye)[None], 0)[0]
