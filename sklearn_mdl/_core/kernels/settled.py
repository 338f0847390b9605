r"""Kernel ridge regression on very long streams, fitted from time to time.

Once the rows are many times the landmarks, a row hardly changes the weights of landmark
features. So these are no longer updated with every block, but fitted again whenever the
rows have grown by a sixteenth. With the features ``F`` and targets ``Y`` of all rows
before the last fit and :math:`R R^T = F^T F + \alpha I`, a row with features ``f`` has

.. math::

    W = R^{-T} R^{-1} F^T Y, \qquad \mathrm{mean} = f^T W, \qquad
    \mathrm{var} = \alpha + \alpha \, \overline{\lVert R^{-1} f \rVert^2}
        + k(x, x) - \lVert f \rVert^2 .

The uncertainty of the weights, which is small by then, is averaged over the last rows
before the fit.

The sums of the rows before the first fit follow from the posterior that it replaces.
Features are in single precision, which is twice as fast. Their products are summed in
double precision, and each fit starts from these sums, so rounding errors do not
accumulate.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from sklearn_mdl._core.kernels.reduced import ReducedRidge, add_lower_products
from sklearn_mdl._core.kernels.ridge import Block, Pending, added_products, cholesky

RECENT = 128  # rows over which the uncertainty of the weights is averaged


class SettledRidge:
    """Ridge regression on landmark features for several noises.

    Parameters
    ----------
    leading : Tensor of shape (m,), Tensor of shape (m, m)
        The chosen landmarks, and the root of their kernel.
    alphas : Tensor of shape (A,)
    sums : Tensor of shape (m, m), Tensor of shape (m, P)
        Products of the features with each other and with targets, summed over the rows
        of the last fit or more. Numbers above the diagonal are not kept up to date.

    Attributes
    ----------
    weights : Tensor of shape (A, m, P)
    variances : Tensor of shape (A,)
        Of all predictions, without the part of the kernel that landmarks leave out.
    """

    weights: Tensor
    variances: Tensor

    def __init__(
        self,
        leading: tuple[Tensor, Tensor],
        alphas: Tensor,
        sums: tuple[Tensor, Tensor],
    ) -> None:
        self.places, root = leading
        self._root = root.float().contiguous().mT
        self.alphas = alphas
        self.products, self.known = sums
        self._later: tuple[Tensor, ...] = ()  # features of the rows after these
        self._recent: Tensor | None = None  # features of the last rows learned

    @classmethod
    def following(cls, posterior: ReducedRidge, cross: Tensor) -> Self:
        """Continue from a posterior.

        Parameters
        ----------
        posterior : ReducedRidge
        cross : Tensor of shape (n, M)
            Kernel of the last rows with the landmarks.
        """
        place = int(posterior.alphas.argmax())  # the covariance with least rounding
        alpha, covariance = posterior.alphas[place], posterior.covariance[place]
        noisy = torch.cholesky_inverse(cholesky(covariance[None])[0]).mul_(alpha)
        known = noisy @ posterior.weights[place]
        noisy.diagonal().sub_(alpha)
        ridge = cls(posterior.leading, posterior.alphas, (noisy, known))
        ridge.weights = posterior.weights
        _, variances = posterior.predict(cross, cross.new_zeros(len(cross)))
        ridge.variances = variances.mean(1)
        return ridge

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Share everything, since tensors are replaced rather than modified."""
        return copy.copy(self)

    def learn(self, targets: Tensor) -> None:
        """Add the rows closed since the last call, with their targets (n, P)."""
        features = torch.cat([part.mT for part in self._later], 1).mT
        self.products = add_lower_products(self.products.clone(), features)
        # The library is ten times as fast with the few targets on the left.
        self.known = self.known + (targets.to(features.dtype).mT @ features).mT
        self._later, self._recent = (), features[-RECENT:]

    def fit(self) -> None:
        """Compute weights and variances from all rows learned."""
        assert self._recent is not None
        noisy = self.products.repeat(len(self.alphas), 1, 1)
        noisy.diagonal(dim1=1, dim2=2).add_(self.alphas[:, None])
        factors = cholesky(noisy)
        known = self.known.expand(len(self.alphas), -1, -1)
        # Contiguous as from a file, since the last bits of products depend on that.
        self.weights = torch.cholesky_solve(known, factors).contiguous()
        recent = self._recent.mT.double().expand(len(self.alphas), -1, -1)
        solved = torch.linalg.solve_triangular(factors, recent, upper=False)
        self.variances = self.alphas * (1 + solved.square().sum(1).mean(1))
        self._recent = None

    def open(self, cross: Tensor, own: Tensor) -> Block:
        """Prepare a block of rows, each predicted from the last fit.

        Parameters
        ----------
        cross : Tensor of shape (B, M)
            Kernel of the block's rows with the landmarks.
        own : Tensor of shape (B, B)
            Kernel of the block.
        """
        features, beyond = self._features(cross, own.diagonal())
        deviations = self.variances.sqrt()[:, None].expand(-1, len(own))
        factor, base = torch.diag_embed(deviations), self._means(features)
        return Block(factor, base, factor[:, :, :0], beyond, features)

    def close(self, block: Block, errors: Tensor) -> None:
        """Keep the features of a block for the next fit."""
        self._later = *self._later, block.features

    def predict(
        self, cross: Tensor, own: Tensor, pending: Pending | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return means (A, m, P) and variances (A, m) of other rows."""
        features, beyond = self._features(cross, own)
        return self._means(features), self.variances[:, None] + beyond

    def add_outputs(self, n: int) -> None:
        """Add columns of targets that were zero so far."""
        self.known = torch.nn.functional.pad(self.known, (0, n))
        self.weights = torch.nn.functional.pad(self.weights, (0, n))

    def retire(self, kept: Sequence[int]) -> None:
        """Keep only some noises, without changing their numbers."""
        index = list(kept)
        self.alphas, self.variances = self.alphas[index], self.variances[index]
        self.weights = self.weights[index]

    def _features(self, cross: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features (B, m) of rows, and the rest (B,) of their kernel."""
        cross = cross.float().index_select(1, self.places)
        # In single precision the library is faster by rows than by columns.
        found = torch.linalg.solve_triangular(self._root, cross, upper=True, left=False)
        beyond = own.float() - found.square().sum(1)
        return found, beyond.clamp_min_(0).double()

    def _means(self, features: Tensor) -> Tensor:
        known = features.double().expand(len(self.alphas), -1, -1)
        return added_products(None, known, self.weights)
