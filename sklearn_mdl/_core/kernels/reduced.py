r"""Kernel ridge regression refitted at every row, in bounded memory.

The first ``M`` rows of a stream are treated exactly, and become landmarks. Let
:math:`L L^T` be the kernel of the landmarks. A row whose kernel values with the
landmarks are ``k`` has ``M`` features :math:`f = L^{-1} k`. If one of two rows is a
landmark, the inner product of their features equals the kernel, so predictions do not
jump when features come into use. At first, later rows are added to the Cholesky
factors, with the kernel of their features. Later the posterior over the features'
weights replaces the factors. For a block of rows with features ``F`` and targets ``Y``,
the mean ``W`` and covariance ``A`` of the weights are updated by Woodbury's identity,

.. math::

    G = F A, \qquad R R^T = G F^T + \mathrm{noise}, \qquad
    E = R^{-1} (Y - F W), \\
    V = R^{-1} G, \qquad W \leftarrow W + V^T E, \qquad A \leftarrow A - V^T V .

Within a block the forward substitution is exact, row by row. The part of a row's kernel
that landmarks do not explain is added only to the variance of its prediction. Adding it
to the noise of the row as well would lengthen codes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from scipy.linalg.lapack import dpstrf
from torch import Tensor

from sklearn_mdl._core.kernels.ridge import (
    PANEL,
    Block,
    ForwardRidge,
    Gram,
    Pending,
    added_products,
    cholesky,
)
from sklearn_mdl._core.numerics import one_blas_thread

LEFT_OUT = 0.01  # share of the trace that chosen landmarks may leave unexplained
TIE = 1e-12  # relative advantage of a landmark over the next one, to break ties
JITTERS = (1e-13, 1e-11, 1e-9, 1e-7)  # multiples of the mean diagonal, tried in turn


class ExtendedRidge(ForwardRidge):
    """Factors of the landmarks' kernel, extended by the features of later rows.

    Until about ``M / 2`` rows have been added, factors cost less than a posterior.

    Parameters
    ----------
    exact : ForwardRidge
        The factors of the landmarks.
    root : Tensor of shape (M, M)
        Root of the landmarks' kernel.
    """

    def __init__(self, exact: ForwardRidge, root: Tensor) -> None:
        super().__init__(exact.alphas.tolist(), exact.n_outputs, root.device)
        vars(self).update(vars(exact))  # continue with its panels
        self._root = root
        self._later = root.new_empty(0, len(root))  # features of later rows

    def open(self, cross: Tensor, own: Tensor) -> Block:
        """Prepare a block of rows for prediction from the earlier rows."""
        features, beyond = landmark_features(self._root, cross, own.diagonal())
        known = torch.cat([cross, features @ self._later.mT], 1)
        block = super().open(known, features @ features.mT)
        return block._replace(beyond=beyond, features=features)

    def close(self, block: Block, errors: Tensor) -> None:
        """Add the rows of a block with their errors (A, B, P)."""
        super().close(block, errors)
        self._later = torch.cat([self._later, block.features])

    def predict(
        self, cross: Tensor, own: Tensor, pending: Pending | None = None
    ) -> tuple[Tensor, Tensor]:
        """Predict other rows, as means (A, m, P) and variances (A, m)."""
        features, beyond = landmark_features(self._root, cross, own)
        if pending is not None:
            near = pending.block.features[: pending.errors.shape[1]] @ features.mT
            pending = pending._replace(near=near)
        known = torch.cat([cross, features @ self._later.mT], 1)
        means, variances = super().predict(known, features.square().sum(1), pending)
        return means, variances + beyond

    def condensed(self, kernel: Tensor, targets: Tensor) -> ReducedRidge:
        """Return the posterior over the features' weights.

        Parameters
        ----------
        kernel : Tensor of shape (M, M)
            Kernel of the landmarks.
        targets : Tensor of shape (N, P)
            Targets of all rows.
        """
        leading = places, root = with_root(leading_landmarks(kernel), kernel)
        left_out = torch.ones(len(targets), dtype=torch.bool, device=root.device)
        left_out[places] = False
        others = kernel[left_out[: len(kernel)]][:, places]
        others = torch.cat([others, self._later @ self._root[places].mT]).mT
        others = torch.linalg.solve_triangular(root, others, upper=False).mT
        products = add_lower_products(torch.zeros_like(root), others)
        for start, own in panels(len(root)):  # features of the chosen landmarks
            products[own, : own.stop] += root[start:, own].mT @ root[start:, : own.stop]
        known = root.mT @ targets[places] + others.mT @ targets[left_out]
        shape = len(self.alphas), *root.shape
        covariance, weights = root.new_empty(shape), []
        for alpha, own in zip(self.alphas, covariance, strict=True):
            noisy = products.clone()
            noisy.diagonal().add_(alpha)
            inverse = torch.cholesky_inverse(cholesky(noisy[None])[0]).mT
            weights.append(inverse @ known)  # symmetric
            torch.mul(inverse, alpha, out=own)
        stacked = torch.stack(weights)
        return ReducedRidge(leading, self.alphas, covariance, stacked, self.n_rows)


@dataclass(eq=False)
class ReducedRidge:
    """Posterior over the weights of landmark features, for several noise levels.

    Parameters
    ----------
    leading : Tensor of shape (m,), Tensor of shape (m, m)
        The chosen landmarks, and the root of their kernel.
    alphas : Tensor of shape (A,)
    covariance : Tensor of shape (A, m, m)
        Symmetric matrices. Only their lower triangles are kept up to date.
    weights : Tensor of shape (A, m, P)
    n_rows : int
        Number of rows evaluated so far.
    """

    leading: tuple[Tensor, Tensor]
    alphas: Tensor
    covariance: Tensor
    weights: Tensor
    n_rows: int
    _is_shared: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Unpack the chosen landmarks and their root."""
        self.places, self._root = self.leading

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Share all tensors until one of the copies modifies them."""
        self._is_shared = True
        return copy.copy(self)

    def open(self, cross: Tensor, own: Tensor) -> Block:
        """Prepare a block of rows for prediction, like a `ForwardRidge`.

        Parameters
        ----------
        cross : Tensor of shape (B, M)
            Kernel values of the block's rows and the landmarks.
        own : Tensor of shape (B, B)
            Kernel matrix of the block.
        """
        features, beyond = self._features(cross, own.diagonal())
        joined = self._times_covariance(features)
        noise = torch.diag_embed(self.alphas[:, None].expand(-1, len(own)))
        remaining = torch.baddbmm(noise, joined, features.mT)
        base = added_products(None, features, self.weights)
        return Block(cholesky(remaining), base, joined, beyond, cross[:, :0])

    def close(self, block: Block, errors: Tensor) -> None:
        """Learn the rows of a block with their errors (A, B, P)."""
        solved = torch.linalg.solve_triangular(block.factor, block.cross, upper=False)
        if self._is_shared:
            self.covariance = self.covariance.clone()
            self.weights = self.weights.clone()
            self._is_shared = False
        self.weights.baddbmm_(solved.mT, errors)
        for start, columns in panels(len(self._root)):
            own = self.covariance[:, start:, columns]
            own.baddbmm_(solved[:, :, start:].mT, solved[:, :, columns], alpha=-1)
        self.n_rows += errors.shape[1]

    def predict(
        self, cross: Tensor, own: Tensor, pending: Pending | None = None
    ) -> tuple[Tensor, Tensor]:
        """Predict other rows, as means (A, n, P) and variances (A, n)."""
        features, beyond = self._features(cross, own)
        joined = self._times_covariance(features)
        means = added_products(None, features, self.weights)
        variances = (joined * features).sum(2) + beyond + self.alphas[:, None]
        if pending is None:
            return means, variances
        n_own = pending.errors.shape[1]
        near = torch.bmm(pending.block.cross[:, :n_own], features.mT)
        return pending.completed(means, variances, near)

    def add_outputs(self, n: int) -> None:
        """Add columns of targets, which are zero in all rows so far."""
        self.weights = torch.nn.functional.pad(self.weights, (0, n))

    def retire(self, kept: list[int]) -> None:
        """Keep only some noise levels, without changing their results."""
        self.alphas = self.alphas[kept]
        self.covariance, self.weights = self.covariance[kept], self.weights[kept]

    def _features(self, cross: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (A, n, m) of rows, and the unexplained part (n,)."""
        features, beyond = landmark_features(self._root, cross[:, self.places], own)
        return features.expand(len(self.alphas), -1, -1), beyond

    def _times_covariance(self, features: Tensor) -> Tensor:
        """Return the products (A, n, m) of features with the covariance."""
        joined = torch.zeros_like(features, memory_format=torch.contiguous_format)
        for start, columns in panels(len(self._root)):
            own, below = self.covariance[:, start:, columns], slice(columns.stop, None)
            joined[:, :, columns].baddbmm_(features[:, :, start:], own)
            across = own[:, PANEL:].mT
            joined[:, :, below].baddbmm_(features[:, :, columns], across)
        return joined


def panels(size: int) -> Iterator[tuple[int, slice]]:
    """Yield the first column and the columns of each panel of a lower triangle."""
    for start in range(0, size, PANEL):
        yield start, slice(start, min(start + PANEL, size))


def add_lower_products(to: Tensor, features: Tensor) -> Tensor:
    """Add the products of the columns of ``features`` (n, m) to ``to`` (m, m) in place.

    Numbers above the diagonal are not computed, except within panels.
    """
    for _, rows in panels(len(to)):
        to[rows, : rows.stop] += features[:, rows].mT @ features[:, : rows.stop]
    return to


def leading_landmarks(kernel: Tensor) -> Tensor:
    """Choose landmarks until all but ``LEFT_OUT`` of the kernel's trace is explained.

    A pivoted Cholesky factorisation (Fine and Scheinberg, 2001, Efficient SVM Training
    Using Low-Rank Kernel Representations) always chooses next the landmark that is
    least explained so far. If the input has few features, most landmarks are redundant
    and would only enlarge the matrices. If the kernel contains NaN, all landmarks are
    chosen.

    Parameters
    ----------
    kernel : Tensor of shape (M, M)
        Kernel of all landmarks.

    Returns
    -------
    places : Tensor of shape (m,)
    """
    if kernel.isnan().any():
        return torch.arange(len(kernel), device=kernel.device)
    # Choose the earlier of two equal rows, despite rounding errors.
    ordered = kernel.cpu().clone()
    ordered.diagonal().mul_(1 - TIE * torch.arange(len(kernel)).to(ordered))
    with one_blas_thread():
        factor, order, rank, _ = dpstrf(ordered.numpy(), lower=1)
    explained = np.cumsum(np.square(np.tril(factor)[:, :rank]).sum(0))
    n_leading = 1 + int(np.searchsorted(explained, (1 - LEFT_OUT) * explained[-1]))
    return torch.from_numpy(order[:n_leading].astype(np.int64) - 1).to(kernel.device)


def with_root(places: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """Return chosen landmarks (m,) and the root (m, m) of their kernel.

    Rounding errors, which differ between machines, can change which landmarks are
    chosen. So a fitted readout stores the choice, and only the root is computed again.

    Parameters
    ----------
    places : Tensor of shape (m,)
    kernel : Tensor of shape (M, M)
        Kernel of all landmarks.
    """
    return places, cholesky(kernel[places][None, :, places])[0]


def landmark_features(
    root: Tensor, cross: Tensor, own: Tensor
) -> tuple[Tensor, Tensor]:
    """Return features (m, M) of rows, and the unexplained part (m,) of their kernel.

    Parameters
    ----------
    root : Tensor of shape (M, M)
        Root of the landmarks' kernel.
    cross : Tensor of shape (m, M)
        Kernel values of the rows and the landmarks.
    own : Tensor of shape (m,)
        Kernel value of each row with itself.
    """
    features = torch.linalg.solve_triangular(root, cross.mT, upper=False).mT
    return features, (own - features.square().sum(1)).clamp_min_(0)


def landmark_root(
    gram: Gram, n_landmarks: int, scale: float, device: torch.device
) -> Tensor:
    """Factor the kernel of the landmarks, even if some of these are equal rows.

    Parameters
    ----------
    gram : callable
        Maps slices of rows and columns to kernel values.
    n_landmarks : int
    scale : float
        Mean diagonal of the kernel.
    device : torch.device

    Returns
    -------
    root : Tensor of shape (M, M)
        If adding small multiples of the identity does not help, rows are NaN from the
        first row that cannot be computed.
    """
    for jitter in JITTERS:
        factor = ForwardRidge([jitter * scale], 0, device)
        factor.refactor(n_landmarks, gram, factor.alphas.new_empty(n_landmarks, 0))
        root = factor.matrices()[0]
        if not root.diagonal().isnan().any():
            break
    return root
