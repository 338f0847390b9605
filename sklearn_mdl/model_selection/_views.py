"""Comparison of views, such as layers and positions, and the gain from all views."""

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
from sklearn_mdl.model_selection._verdict import SURE, names_of, outlook

MOST_ROWS = 10  # rows of the printed table


class _View(NamedTuple):
    """Losses of a view, in the form of an encoder's losses in a ranking."""

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
    """The best of several views, its certainty, and the gain from all views together.

    Prints as a few lines.

    Attributes
    ----------
    names : list of str
        Views, such as ``layer 3|last``.
    codelengths : ndarray of shape (n_views,)
        Codelength of each view on its own, by switching between its readouts, in nats.
    probabilities : ndarray of shape (n_views,)
        Probability that each view has the shortest expected code over fresh draws of
        equal size. NaN with too few labels.
    posterior : ndarray of shape (n_views,)
        Posterior of each view given all labels, by Bayes' rule with equal priors. It is
        about which view predicted *these* labels best, so it is more certain than
        ``probabilities``.
    codelength : float
        Codelength of all views together, in nats, with the pool if there is one.
    switching_codelength : float
        `codelength` without the pool.
    reference_codelength : float
        Codelength of the labels without features, in nats.
    more_labels : float
        Number of further labels that would settle the choice with a probability of
        0.95. It is 0 if the choice is settled, and infinite if a hundred times as many
        labels would not suffice. NaN with fewer than 40 labels.
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
        """The view with the shortest code."""
        return self.names[int(np.argmin(self.codelengths))]

    @property
    def layers(self) -> dict[str, float]:
        """Probability that each layer (the first part of names) has the best view."""
        return self._summed(0)

    @property
    def positions(self) -> dict[str, float]:
        """Probability that each position (the last part of names) has the best view."""
        return self._summed(-1)

    @property
    def gain(self) -> float:
        """Nats by which the code of all views is shorter than that of the best view."""
        return float(self.codelengths.min()) - self.codelength

    def _summed(self, part: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, share in zip(self.names, self.probabilities.tolist(), strict=True):
            key = name.split("|")[part]
            found[key] = found.get(key, 0.0) + share
        return found

    def __str__(self) -> str:
        """Return a table of the best views, and the answers line by line."""
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
        """Describe the best view, its certainty, and the gain from all views."""
        change = "fewer" if self.gain >= 0 else "more"
        least = min(self.codelength, float(self.codelengths.min()))
        alone = f"labels alone: {self.reference_codelength:.1f} nats"
        if least >= self.reference_codelength:
            alone += "; no view is informative about the labels so far"
        return [
            alone,
            f"best view: {self.best} of {len(self.names)}{self._certainty()}",
            f"all views together: {self.codelength:.1f} nats, {abs(self.gain):.1f} "
            f"{change} than {self.best} by itself; without the pool "
            f"{self.switching_codelength:.1f} nats",
        ]

    def _certainty(self) -> str:
        if np.isnan(self.probabilities).any():
            return "; too few labels to tell how certain that is"
        chance = self.probabilities[self.names.index(self.best)]
        if chance >= SURE:
            return f"; certain, with probability {min(chance, 0.99):.2f}"
        order = np.argsort(-self.probabilities, kind="stable")
        total = np.cumsum(self.probabilities[order])
        n_needed = int(np.searchsorted(total, SURE)) + 1
        others = [self.names[i] for i in order[:n_needed] if self.names[i] != self.best]
        words = f"; uncertain, with probability {chance:.2f}: may be {names_of(others)}"
        return f"{words}; {outlook(self.more_labels)}"


def compare_views(switcher: Switcher) -> ViewComparison:
    """Find the best layer and position, its certainty, and the gain from all views.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor
        A switcher fitted with readouts from :func:`~sklearn_mdl.readouts.view_readouts`
        on two or more views, with rows in random order.

    Returns
    -------
    comparison : ViewComparison
        Results in nats. Readouts are not retrained. Once all readouts of a view have
        retired in a race, the view costs as much as the mixture of the others.

    Raises
    ------
    ValueError
        If readouts use fewer than two views.

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
    # Rows of a group count as one row, since they were predicted from the same labels.
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
