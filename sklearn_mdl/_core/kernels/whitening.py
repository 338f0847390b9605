r"""Whitening by a shrunk covariance, either of all rows or within classes.

Both covariances have the form :math:`S = E^T E + c I`:

* the covariance of all rows, with oracle approximating shrinkage (OAS),
  :math:`T = (1 - \rho) R^T R / n + \rho \mu I` with ``R`` the centred rows;
* the covariance within classes, :math:`(D^T D + d h T) / (f + d h)`, where ``D`` holds
  ``n`` rows minus the means of their ``C`` classes, :math:`f = \max(n - C, 1)`, and
  ``h`` is the strength. A thousandth of the mean eigenvalue of this covariance is
  added to its diagonal.
  ``D`` is a projection of the centred rows, so a root of the sum :math:`\alpha D^T D +
  \beta R^T R` is known: :math:`E = \sqrt\beta R + (\sqrt{\alpha + \beta} - \sqrt\beta)
  D`.

:math:`S^{-1/2}` is applied with the singular vectors of ``E``. They are computed from
the smaller of :math:`E^T E` and :math:`E E^T`, so there may be any number of features.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MAX_VALUES = 2048  # callers' limit on singular values; the cost grows as its cube
LEAST = 1e-3  # share of the mean eigenvalue added to the diagonal within classes


class Whitening(NamedTuple):
    """The map ``(x - mean) S^(-1/2)``, in terms of ``r`` directions.

    ``S^(-1/2)`` is ``base`` times the identity plus ``vectors.T diag(gains) vectors``.

    Attributes
    ----------
    mean : Tensor of shape (d,)
    base : float
    vectors : Tensor of shape (r, d)
    gains : Tensor of shape (r,)
    """

    mean: Tensor
    base: float
    vectors: Tensor
    gains: Tensor

    def apply(self, rows: Tensor) -> Tensor:
        """Whiten rows (n, d)."""
        centred = rows - self.mean
        changed = (centred @ self.vectors.mT).mul_(self.gains) @ self.vectors
        return changed.add_(centred, alpha=self.base)


def whitening(
    rows: Tensor, labels: Tensor | None = None, strength: float = 0.25
) -> Whitening:
    """Return the whitening for some rows (n, d).

    Parameters
    ----------
    rows : Tensor of shape (n, d), float64
    labels : Tensor of shape (n,) or None
        Labels, for a covariance within classes.
    strength : float
        Weight ``h`` of the covariance of all rows, which counts as ``d h`` rows.
    """
    n_rows, d = rows.shape
    centred = centring(rows)
    mean, rows = centred.mean, rows - centred.mean
    products = rows.mT @ rows if d <= n_rows else rows @ rows.mT
    level = float(products.trace()) / (n_rows * d)
    spread = float(products.square().sum()) / (n_rows * d) ** 2
    share = oas_share(spread, level, d, n_rows)
    if labels is None:
        of_all = (1 - share) / n_rows
        base, root = share * level, rows * of_all**0.5
    else:
        counts = torch.bincount(labels).to(rows)
        means = rows.new_zeros(len(counts), d).index_add_(0, labels, rows)
        means /= counts.clamp_min(1)[:, None]
        freedom = max(1, n_rows - int((counts > 0).sum()))
        total = freedom + d * strength
        of_all = d * strength / total * (1 - share) / n_rows
        within = (of_all + 1 / total) ** 0.5
        root = within * rows - (within - of_all**0.5) * means[labels]
        base = d * strength / total * share * level
        base += LEAST * (float(root.square().sum()) / d + base)
    if base <= 0:  # all rows are equal
        return centred
    by_features = d <= n_rows
    products = root.mT @ root if by_features else root @ root.mT
    values, vectors = torch.linalg.eigh(products)
    values = values.clamp_min_(0)
    deviations, least = (values + base).sqrt(), base**0.5
    gains = -1 / (least * deviations * (least + deviations))
    if by_features:
        return Whitening(mean, 1 / least, vectors.mT.contiguous(), gains * values)
    return Whitening(mean, 1 / least, vectors.mT @ root, gains)


def centring(rows: Tensor) -> Whitening:
    """Return the map that only subtracts the mean of rows (n, d)."""
    return Whitening(rows.mean(0), 1.0, rows[:0], rows[:0, 0])


def oas_share(spread: float, level: float, d: int, n_rows: int) -> float:
    """Return the share of the identity in a shrunk covariance of ``n_rows`` rows.

    The formula is that of :func:`sklearn.covariance.oas`, which omits the terms with
    ``2 / d`` of Eq. (23) in Chen, Wiesel, Eldar and Hero (2010).

    Parameters
    ----------
    spread : float
        Mean square of the entries of the covariance (d, d).
    level : float
        Mean of the diagonal of the covariance.
    """
    denominator = (n_rows + 1) * (spread - level**2 / d)
    return min((spread + level**2) / denominator, 1.0) if denominator > 0 else 1.0
