r"""Kernel ridge regression on very long streams, fitted only occasionally.

Once there are many times more rows than landmarks, a row hardly changes the weights of
landmark features. So the weights are no longer updated with every block. They are
fitted again whenever the number of rows has grown by an eighth or, if that is less,
by 8,192. Let ``F`` and ``Y`` be the features and targets of all rows learned before the
last fit. Let ``Z`` be the root of the landmarks' kernel, and :math:`R R^T = F^T F +
\alpha I`. The prediction of a row whose kernel values with the landmarks are ``k`` has

.. math::

    \mathrm{mean} = k^T Z^{-T} R^{-T} R^{-1} F^T Y, \qquad
    \mathrm{var} = \alpha + \overline{\alpha \lVert R^{-1} f \rVert^2
        + k(x, x) - \lVert f \rVert^2} .

The overlined terms are the uncertainty of the weights and the part of the kernel that
the landmarks do not explain. They are averaged over the last rows before the fit, so
only rows that are learned need features, ``f = Z^{-1} k``.

Sums over the rows before the first fit are computed from the posterior that this class
replaces. Features are in single precision, which is twice as fast. Their products are
summed in double precision, and each fit starts from these sums, so rounding errors do
not accumulate.
"""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor

from sklearn_mdl._core.kernels.reduced import ReducedRidge, add_lower_products
from sklearn_mdl._core.kernels.ridge import Block, Pending, added_products, cholesky

RECENT = 128  # rows over which the uncertainty of the weights is averaged


class SettledRidge:
    """Ridge regression on landmark features for several noise levels.

    Parameters
    ----------
    leading : Tensor of shape (m,), Tensor of shape (m, m)
        The chosen landmarks, and the root of their kernel.
    alphas : Tensor of shape (A,)
    sums : Tensor of shape (m, m), Tensor of shape (m, P)
        Products of the features with each other and with targets, summed over all
        learned rows. Numbers above the diagonal are not kept up to date.

    Attributes
    ----------
    weights : Tensor of shape (A, m, P)
        Weights of the kernel values of a row and the landmarks.
    variances : Tensor of shape (A,)
        Variance of a prediction, which is the same for all rows.
    """

    weights: Tensor
    variances: Tensor

    def __init__(
        self,
        leading: tuple[Tensor, Tensor],
        alphas: Tensor,
        sums: tuple[Tensor, Tensor],
    ) -> None:
        self.places, self._root = leading
        self.alphas = alphas
        self.products, self.known = sums
        # Kernel values of later rows with the landmarks and, last, with themselves.
        self._later: tuple[Tensor, ...] = ()
        # Features of the last learned rows, and the unexplained part of their kernel.
        self._recent: tuple[Tensor, Tensor] | None = None

    @classmethod
    def following(cls, posterior: ReducedRidge, cross: Tensor, own: Tensor) -> Self:
        """Create a regression that continues from a posterior.

        Parameters
        ----------
        posterior : ReducedRidge
        cross : Tensor of shape (n, M)
            Kernel values of the last rows and the landmarks.
        own : Tensor of shape (n,)
            Kernel value of each of these rows with itself.
        """
        # Rounding errors are smallest with the largest noise.
        place = int(posterior.alphas.argmax())
        alpha, covariance = posterior.alphas[place], posterior.covariance[place]
        noisy = torch.cholesky_inverse(cholesky(covariance[None])[0]).mul_(alpha)
        known = noisy @ posterior.weights[place]
        noisy.diagonal().sub_(alpha)
        ridge = cls(posterior.leading, posterior.alphas, (noisy, known))
        ridge._set_weights(posterior.weights)
        _, variances = posterior.predict(cross, own)
        ridge.variances = variances.mean(1)
        return ridge

    def _set_weights(self, weights: Tensor) -> None:
        """Store weights (A, m, P) of features as weights of kernel values."""
        solved = torch.linalg.solve_triangular(self._root.mT, weights, upper=True)
        # Use the layout of weights from a file, since it affects the last bits.
        self.weights = solved.contiguous()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Share all tensors, which are replaced rather than modified."""
        return copy.copy(self)

    def learn(self, targets: Tensor) -> None:
        """Add the rows stored since the last call, with their targets (n, P)."""
        kernel = torch.cat(self._later)
        # In single precision, it is faster to solve from the right with a root stored
        # by rows, and ten times as fast to multiply with the few targets on the left.
        root = self._root.float().contiguous().mT
        cross, variances = kernel[:, :-1], kernel[:, -1]
        features = torch.linalg.solve_triangular(root, cross, upper=True, left=False)
        beyond = (variances - features.square().sum(1)).clamp_min_(0)
        self.products = add_lower_products(self.products.clone(), features)
        self.known = self.known + (targets.to(features.dtype).mT @ features).mT
        self._later, self._recent = (), (features[-RECENT:], beyond[-RECENT:])

    def fit(self) -> None:
        """Compute weights and variances from all rows learned."""
        assert self._recent is not None
        noisy = self.products.repeat(len(self.alphas), 1, 1)
        noisy.diagonal(dim1=1, dim2=2).add_(self.alphas[:, None])
        factors = cholesky(noisy)
        known = self.known.expand(len(self.alphas), -1, -1)
        self._set_weights(torch.cholesky_solve(known, factors))
        features, beyond = (recent.double() for recent in self._recent)
        solved = torch.linalg.solve_triangular(factors, features.mT, upper=False)
        doubt = solved.square().sum(1).mean(1)
        self.variances = self.alphas * (1 + doubt) + beyond.mean()
        self._recent = None

    def open(self, cross: Tensor, own: Tensor) -> Block:
        """Prepare a block of rows for prediction from the last fit.

        Parameters
        ----------
        cross : Tensor of shape (B, M)
            Kernel values of the block's rows and the landmarks.
        own : Tensor of shape (B, B)
            Kernel matrix of the block.
        """
        diagonal = own.diagonal()
        deviations = self.variances.sqrt()[:, None].expand(-1, len(own))
        factor, base = torch.diag_embed(deviations), self._means(cross)
        kept = torch.cat([cross[:, self.places], diagonal[:, None]], 1).float()
        return Block(factor, base, factor[:, :, :0], 0 * diagonal, kept)

    def close(self, block: Block, errors: Tensor) -> None:
        """Store the kernel values of a block for :meth:`learn`."""
        self._later = *self._later, block.features

    def predict(
        self, cross: Tensor, own: Tensor, pending: Pending | None = None
    ) -> tuple[Tensor, Tensor]:
        """Predict other rows, as means (A, n, P) and variances (A, n)."""
        return self._means(cross), self.variances[:, None].expand(-1, len(own))

    def add_outputs(self, n: int) -> None:
        """Add columns of targets, which are zero in all rows so far."""
        self.known = torch.nn.functional.pad(self.known, (0, n))
        self.weights = torch.nn.functional.pad(self.weights, (0, n))

    def retire(self, kept: list[int]) -> None:
        """Keep only some noise levels, without changing their results."""
        self.alphas, self.variances = self.alphas[kept], self.variances[kept]
        self.weights = self.weights[kept]

    def _means(self, cross: Tensor) -> Tensor:
        chosen = cross[:, self.places].expand(len(self.alphas), -1, -1)
        return added_products(None, chosen, self.weights)
