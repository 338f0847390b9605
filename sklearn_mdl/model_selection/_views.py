"""Comparison of views, such as a network's layers, and the gain from all views."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.stream.schedule import group_starts
from sklearn_mdl._core.tables import Table
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.model_selection._certainty import SURE, Floats, Losses, sample_of
from sklearn_mdl.model_selection._tasks import Switcher
from sklearn_mdl.model_selection._verdict import chance_text, names_of, outlook
from sklearn_mdl.ranking import shares_best

MOST_ROWS = 10  # maximum number of rows of the printed table


@dataclass(frozen=True, eq=False)
class ViewComparison:
    """The best of several views, and the gain from all views together.

    Use ``print(comparison)`` to show a table and three lines of text.

    Attributes
    ----------
    names : list of str
        Names of the views, such as ``layer 3|last``.
    codelengths : ndarray of shape (n_views,)
        Codelength of each view on its own in nats, by switching between its readouts.
    probabilities : ndarray of shape (n_views,)
        Probability that each view has the shortest expected code over fresh draws of
        equal size. NaN if there are too few labels.
    posterior : ndarray of shape (n_views,)
        Posterior of each view given all labels, by Bayes' rule with equal priors. It
        measures which view predicted *these* labels best, so it is usually closer to 0
        or 1 than ``probabilities``.
    codelength : float
        Codelength of all views together in nats, using the pool if there is one.
    switching_codelength : float
        Codelength of all views together without the pool, in nats.
    reference_codelength : float
        Codelength of the labels without features, in nats.
    more_labels : float
        Estimated number of further labels that would settle the choice with a
        probability of 0.95. The number is 0 if the choice is settled, and infinite if a
        hundred times as many labels would hardly suffice. NaN if it is too early to
        tell.
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
        """Probability that each layer (a name's first part) has the best view."""
        return self._sums_by(0)

    @property
    def positions(self) -> dict[str, float]:
        """Probability that each position (a name's last part) has the best view."""
        return self._sums_by(-1)

    @property
    def gain(self) -> float:
        """Nats that all views together save relative to the best view."""
        return float(self.codelengths.min()) - self.codelength

    def _sums_by(self, part: int) -> dict[str, float]:
        sums: dict[str, float] = {}
        for name, share in zip(self.names, self.probabilities.tolist(), strict=True):
            key = name.split("|")[part]
            sums[key] = sums.get(key, 0.0) + share
        return sums

    def __str__(self) -> str:
        """Return a table of the best views, followed by the sentences."""
        order = np.argsort(self.codelengths, kind="stable")[:MOST_ROWS]
        nats, shares = self.codelengths, self.probabilities
        saved = self.reference_codelength - nats
        rows = [
            [self.names[i], f"{nats[i]:.1f}", f"{saved[i]:.1f}", chance_text(shares[i])]
            for i in order
        ]
        table = Table(["view", "nats", "saved", "probability"], rows).to_text()
        return "\n".join([table, "", *self.sentences()])

    def sentences(self) -> list[str]:
        """Return sentences on the labels alone, on the best view and on all views."""
        change = "fewer" if self.gain >= 0 else "more"
        least = min(self.codelength, float(self.codelengths.min()))
        alone = f"Labels alone: {self.reference_codelength:.1f} nats."
        if least >= self.reference_codelength:
            alone += " No view is informative about the labels so far."
        return [
            alone,
            f"Best of {len(self.names)} views: {self.best}{self._certainty()}",
            f"All views together: {self.codelength:.1f} nats, {abs(self.gain):.1f} "
            f"{change} than {self.best} by itself. Without the pool: "
            f"{self.switching_codelength:.1f} nats.",
        ]

    def _certainty(self) -> str:
        if np.isnan(self.probabilities).any():
            return ". There are too few labels to estimate its probability."
        chance = self.probabilities[self.names.index(self.best)]
        if chance >= SURE:
            return f", settled (probability {chance_text(chance)})."
        order = np.argsort(-self.probabilities, kind="stable")
        n_needed = int(np.searchsorted(np.cumsum(self.probabilities[order]), SURE)) + 1
        others = [self.names[i] for i in order[:n_needed] if self.names[i] != self.best]
        more = f"may be better: {names_of(others)}. {outlook(self.more_labels)}"
        return f" (probability {chance:.2f}). Another {more}"


def compare_views(switcher: Switcher) -> ViewComparison:
    """Find the best view, its probability, and the gain from all views together.

    A view is a set of columns, such as the features from one layer of a network.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor
        A switcher fitted with readouts from :func:`~sklearn_mdl.readouts.view_readouts`
        on two or more views. The rows must be in random order.

    Returns
    -------
    comparison : ViewComparison
        Results in nats, from the losses of the fit. After all readouts of a view have
        retired in a race, that view costs as much as the mixture of the other views.

    Raises
    ------
    ValueError
        If readouts use fewer than two views.

    See Also
    --------
    sklearn_mdl.display.ViewPosteriorDisplay : Draws results by layer and position.

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
        cure = 'for example, fit with view_readouts({"first": [0, 1], "last": [2, 3]})'
        raise invalid("readouts", "on at least two views", names, cure)
    # Rows that were predicted from the same labels are not independent.
    starts = group_starts(trace.known)
    sample = sample_of([[Losses(column, starts)] for column in trace.view_losses.T])
    shares = shares_best(sample.draws(np.random.default_rng(0)))
    best = int(np.argmin(sample.codelengths))
    weights = np.exp(sample.codelengths.min() - sample.codelengths)
    return ViewComparison(
        names,
        sample.codelengths,
        shares,
        weights / weights.sum(),
        float(switcher.codelength_),
        float(switcher.switching_codelength_),
        float(switcher.reference_codelengths_.sum()),
        sample.settled_last(best, shares)[0],
        len(trace.codelengths),
    )
