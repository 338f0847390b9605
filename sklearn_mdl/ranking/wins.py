"""On how many datasets one encoder's code is shorter than another's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.ranking.tables import checked_codelengths, log_margin


@dataclass(frozen=True, eq=False)
class WinTable:
    """Wins, ties and losses of every encoder against every other.

    Attributes
    ----------
    wins : ndarray of int of shape (n_encoders, n_encoders)
        Number of datasets on which the encoder of the row has the shorter code than
        that of the column.
    ties : ndarray of int of shape (n_encoders, n_encoders)
        Number of datasets on which neither has; on the diagonal all.
    """

    wins: NDArray[np.intp]
    ties: NDArray[np.intp]

    @property
    def losses(self) -> NDArray[np.intp]:
        """Number of datasets on which the encoder of the column wins."""
        return self.wins.T


def win_table(codelengths: ArrayLike, *, rope: float = 0.0) -> WinTable:
    """Count the datasets on which one encoder's code is shorter than another's.

    Parameters
    ----------
    codelengths : array-like of shape (n_datasets, n_encoders)
        Positive codelengths, in one unit within each row.
    rope : float, default=0
        Codelengths whose ratio is at most ``1 + rope`` tie: 0.01 for one per cent.

    Returns
    -------
    table : WinTable
        Wins, ties and losses add up to the number of datasets for every pair.

    Raises
    ------
    ValueError
        If `codelengths` is not a table of positive finite numbers, or `rope` is
        negative.

    Examples
    --------
    >>> win_table([[0.8, 1.1, 0.9], [0.5, 0.7, 0.5]]).wins
    array([[0, 2, 1],
           [0, 0, 0],
           [0, 2, 0]])
    """
    table, margin = checked_codelengths(codelengths), log_margin(rope)
    n_datasets, n_encoders = table.shape
    wins = np.zeros((n_encoders, n_encoders), dtype=np.intp)
    # Without a margin the codelengths themselves decide: logarithms can tie them.
    for row in np.log(table) if margin > 0 else table:
        wins += row[:, None] < row - margin
    return WinTable(wins=wins, ties=n_datasets - wins - wins.T)
