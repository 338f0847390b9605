"""Which view is best: layers, positions, and what all of them save together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.tables import Table
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._certainty import Floats, chances_of_best, sample_of
from sklearn_mdl.model_selection._tasks import Switcher
from sklearn_mdl.model_selection._verdict import SURE, names_of

MOST_ROWS = 10  # of the printed table


class _View(NamedTuple):
    """Losses of a view, as those of an encoder in a ranking."""

    codelengths: Floats
    seed: int = 0
    order: int = 0
    groups: None = None
    data: None = None

    @property
    def codelength(self) -> float:
        return float(self.codelengths.sum())

    @property
    def n_samples(self) -> int:
        return len(self.codelengths)


@dataclass(frozen=True, eq=False)
class ViewComparison:
    """Which of several views is best, how sure that is, and what the pool gains.

    Prints as a few lines.

    Attributes
    ----------
    names : list of str
        Views, such as ``layer 3|last``.
    codelengths : ndarray of shape (n_views,)
        Code of each view by itself, switching between its readouts; in nats.
    probabilities : ndarray of shape (n_views,)
        That each has the shortest code in the mean over fresh draws of as many labels;
        NaN where there are too few labels to say.
    posterior : ndarray of shape (n_views,)
        Posterior of each view given all labels, by Bayes' rule with equal priors: which
        view predicted *these* labels best. It is more sure than ``probabilities``.
    codelength : float
        Code of all views together, with the pool if there is one; in nats.
    switching_codelength : float
        The same without the pool.
    reference_codelength : float
        Code of the labels without features, in nats.
    more_labels : float
        Labels beyond those given that would settle the choice with a probability of
        0.95; 0 if it is settled, infinity if a hundred times as many would not do.
    n_samples : int
    """

    names: list[str]
    codelengths: Floats
    probabilities: Floats
    posterior: Floats
    codelength: float
    switching_codelength: float
    reference_codelength: float
    more_labels: float
    n_samples: int

    @property
    def best(self) -> str:
        """The view of the shortest code."""
        return self.names[int(np.argmin(self.codelengths))]

    @property
    def layers(self) -> dict[str, float]:
        """Probability that the best view is of each layer, the first part of names."""
        return self._summed(0)

    @property
    def positions(self) -> dict[str, float]:
        """Probability that the best view is at each position, the last part."""
        return self._summed(-1)

    @property
    def gain(self) -> float:
        """Nats by which all views together are shorter than the best one by itself."""
        return float(self.codelengths.min()) - self.codelength

    def _summed(self, part: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, share in zip(self.names, self.probabilities.tolist(), strict=True):
            key = name.split("|")[part]
            found[key] = found.get(key, 0.0) + share
        return found

    def __str__(self) -> str:
        """Return a table of the best views and the answers, one to a line."""
        order = np.argsort(self.codelengths, kind="stable")[:MOST_ROWS]
        rows = [
            [
                self.names[i],
                f"{self.codelengths[i]:.1f}",
                f"{self.reference_codelength - self.codelengths[i]:.1f}",
                f"{self.probabilities[i]:.2f}",
            ]
            for i in order
        ]
        table = Table(["view", "nats", "saved", "probability"], rows).to_text()
        return "\n".join([table, "", *self.sentences()])

    def sentences(self) -> list[str]:
        """Return which view, how sure that is, and what all views gain, in words."""
        change = "fewer" if self.gain >= 0 else "more"
        least = min(self.codelength, float(self.codelengths.min()))
        alone = f"labels alone: {self.reference_codelength:.1f} nats"
        if least >= self.reference_codelength:
            alone += "; no view shows anything about the labels so far"
        return [
            alone,
            f"best view: {self.best} of {len(self.names)}{self._certainty()}",
            f"all views together: {self.codelength:.1f} nats, {abs(self.gain):.1f} "
            f"{change} than {self.best} by itself; without the pool "
            f"{self.switching_codelength:.1f} nats",
        ]

    def _certainty(self) -> str:
        if np.isnan(self.probabilities).any():
            return "; too few labels to say how sure that is"
        chance = self.probabilities[self.names.index(self.best)]
        if chance >= SURE:
            return f"; sure, with probability {min(chance, 0.99):.2f}"
        order = np.argsort(-self.probabilities, kind="stable")
        total = np.cumsum(self.probabilities[order])
        n_needed = int(np.searchsorted(total, SURE)) + 1
        others = [self.names[i] for i in order[:n_needed] if self.names[i] != self.best]
        words = f"; not sure, with probability {chance:.2f}: may be {names_of(others)}"
        if math.isinf(self.more_labels):
            return f"{words}; 100 times as many labels would not settle it"
        more = max(1.0, float(f"{self.more_labels:.1g}"))
        return f"{words}; about {more:.0f} more labels would settle it"


def compare_views(switcher: Switcher) -> ViewComparison:
    """Say which layer and position is best, how sure that is, and what a pool gains.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor
        Fitted with readouts of :func:`~sklearn_mdl.readouts.view_readouts`, on two
        views or more, on rows in random order.

    Returns
    -------
    comparison : ViewComparison
        In nats. Readouts are not trained again. A view whose readouts have all retired
        in a race costs, from then on, what the mixture of the others costs.

    Raises
    ------
    ValueError
        If readouts look at fewer than two views.

    See Also
    --------
    sklearn_mdl.display.ViewPosteriorDisplay : Draws it as layers by positions.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_mdl import MDLReadoutSwitcher
    >>> from sklearn_mdl.model_selection import compare_views
    >>> from sklearn_mdl.readouts import view_readouts
    >>> X, y = load_wine(return_X_y=True)
    >>> readouts = view_readouts({"first": slice(0, 6), "second": slice(6, 13)})
    >>> switcher = MDLReadoutSwitcher(readouts, shuffle=True, random_state=0).fit(X, y)
    >>> compare_views(switcher).best
    'second'
    """
    check_is_fitted(switcher)
    trace = switcher.remix_by_view()
    names = [str(name or "all columns") for name in trace.view_names]
    if len(names) < 2:
        cure = "pass view_readouts(views.columns)"
        raise invalid("readouts", "of two views or more", names, cure)
    # Rows of a group were predicted with the same labels known: they count as one.
    starts = np.flatnonzero(np.diff(trace.known, prepend=-1))
    losses = np.add.reduceat(trace.view_losses, starts, axis=0)
    sample = sample_of([[cast(Cell, _View(own))] for own in losses.T])
    shares = chances_of_best(sample.draws(np.random.default_rng(0)))
    order = np.argsort(sample.codelengths, kind="stable")
    more = math.nan
    if not np.isnan(shares).any():
        others = np.delete(shares, order[0])
        rival = int(np.delete(np.arange(len(names)), order[0])[np.argmax(others)])
        left = max(float(others.sum()), 1e-12)
        tail = (1 - SURE) * (shares[rival] / left if shares[rival] > 0 else 1.0)
        more = sample.more_labels(int(order[0]), rival, float(tail))
    weights = np.exp(sample.codelengths.min() - sample.codelengths)
    return ViewComparison(
        names,
        sample.codelengths,
        shares,
        weights / weights.sum(),
        float(switcher.codelength_),
        float(switcher.switching_codelength_),
        float(switcher.reference_codelengths_.sum()),
        more,
        len(trace.codelengths),
    )
