"""Codelengths of views (sets of columns of X) and of a mixture of views."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_mdl.switching import BayesMixture, PriorLike, forward, group_columns

Floats = NDArray[np.float64]


class ViewTrace(NamedTuple):
    """Codelength of labels under a Bayesian mixture of views.

    Each view is coded by switching between its own readouts. The codes of the views are
    then mixed by Bayes' rule, with equal prior probabilities.

    Attributes
    ----------
    codelength : float
        Codelength of all labels, in nats. This exceeds the shortest of
        ``view_codelengths`` by at most ``log(n_views)`` nats.
    codelengths : ndarray of shape (N,)
        Codelength of every example, in nats.
    posterior : ndarray of shape (N, n_views)
        Probability of each view before each label.
    view_names : list of n_views str or None
        Names of the views, or None for the view of all columns.
    view_codelengths : ndarray of shape (n_views,)
        Codelength of each view, in nats. Once all readouts of a view have retired, the
        view costs as much as the mixture of the other views.
    view_losses : ndarray of shape (N, n_views)
        Codelength of every example under each view, in nats.
    known : ndarray of shape (N,)
        Number of labels known when each row was predicted.
    """

    codelength: float
    codelengths: Floats
    posterior: Floats
    view_names: list[Hashable]
    view_codelengths: Floats
    view_losses: Floats
    known: NDArray[np.intp]


def view_trace(
    switching: PriorLike,
    losses: Floats,
    views: list[Hashable],
    weights: Floats | None,
    known: NDArray[np.intp],
) -> ViewTrace:
    """Mix readouts within views by a switching prior, and views by Bayes' rule.

    Parameters
    ----------
    switching : PriorLike
    losses : ndarray of shape (N, K)
        Losses in nats, or NaN once a readout has retired.
    views : list of K names
        The view of each readout.
    weights : ndarray of shape (K,) or None
        Prior weights of the readouts. Only ratios within a view matter.
    known : ndarray of shape (N + 1,)
        Number of labels known at each row and at the end.
    """
    names, members = group_columns(views)
    costs = np.full((len(losses), len(names)), np.nan)
    for number in range(len(names)):
        columns = np.flatnonzero(members == number)
        part = losses[:, columns]
        # Drop the rows after all readouts of the view have retired.
        part = part[: np.flatnonzero(~np.isnan(part).all(1))[-1] + 1]
        own = None if weights is None else weights[columns]
        trace = forward(switching, part, own, known=known[: len(part) + 1])
        costs[: len(part), number] = trace.codelengths
    mixed = forward(BayesMixture(), costs, known=known)
    filled = np.where(np.isnan(costs), mixed.codelengths[:, np.newaxis], costs)
    mixture = mixed.codelength, mixed.codelengths, mixed.posterior
    return ViewTrace(*mixture, list(names), filled.sum(0), filled, known[:-1])
