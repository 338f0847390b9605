"""Codes that predict labels from counts of all labels, recent labels or label pairs.

If a stream tends to repeat labels, a code that only uses recent labels is short,
whatever the features are. So only savings relative to such codes are due to the
representation (Zhang et al., 2023, Rapid adaptation in online continual learning: are
we evaluating it right?, ICCV).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl.metrics._references import Floats, encoded, invalid


class LabelCounts:
    """Adaptive code from label counts, which halve every ``half_life`` labels.

    Parameters
    ----------
    n_classes : int
    half_life : float, default=inf
    """

    def __init__(self, n_classes: int, half_life: float = np.inf) -> None:
        self.decay = 2.0 ** (-1.0 / half_life)
        self.counts = np.full(n_classes, 0.5)  # 1/2 plus decayed counts

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.counts)

    def log_proba(self) -> Floats:
        """Return the log-probabilities (C,) of the next label."""
        return np.asarray(np.log(self.counts / np.add.reduce(self.counts)))

    def add_classes(self, n: int) -> None:
        """Add classes that have not occurred yet."""
        self.counts = np.append(self.counts, np.full(n, 0.5))

    def observe(self, label: int) -> None:
        """Count a label."""
        if self.decay < 1:
            self.counts = 0.5 + self.decay * (self.counts - 0.5)
        self.counts[label] += 1


class LabelTransitions:
    """Adaptive code from label counts, kept separately for each previous label.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.after: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.last = -1  # no label yet

    def log_proba(self) -> Floats:
        """Return the log-probabilities (C,) of the next label."""
        counts = np.full(self.n_classes, 0.5)
        if seen := self.after.get(self.last):
            counts[list(seen)] += list(seen.values())
        return np.asarray(np.log(counts / np.add.reduce(counts)))

    def add_classes(self, n: int) -> None:
        """Add classes that have not occurred yet."""
        self.n_classes += n

    def observe(self, label: int) -> None:
        """Count the transition from the previous label to this one."""
        if self.last >= 0:
            self.after[self.last][label] += 1
        self.last = label


def decayed_frequency_codelengths(
    y: ArrayLike, n_classes: int | None = None, *, half_life: float = 100.0
) -> Floats:
    """Return the cost of each label under decaying label counts, in nats.

    Label ``t`` is predicted from counts of past labels. The weight of a past label
    halves every ``half_life`` labels. The probability of class ``c`` is proportional
    to ::

        1/2 + sum_{i < t, y_i = c} 2^{-(t - 1 - i) / half_life} .

    Parameters
    ----------
    y : array-like of shape (N,)
        Labels of any sortable type, in the order in which they are coded.
    n_classes : int, optional
        As for :func:`frequency_codelength`.
    half_life : float, default=100
        Number of labels after which a label's weight halves. Infinity gives the
        Krichevsky-Trofimov code.

    Returns
    -------
    codelengths : ndarray of shape (N,)
        ``-log p(y_t | y_{<t})`` of each label, in nats.

    Raises
    ------
    ValueError
        If `half_life` is not positive, or for the reasons given in
        :func:`frequency_codelength`.

    Examples
    --------
    >>> decayed_frequency_codelengths(["dog", "dog", "cat"], half_life=1)
    array([0.693..., 0.287..., 1.609...])
    """
    if not isinstance(half_life, Real) or not half_life > 0:
        raise invalid("half_life", "a positive number", half_life, "pass half_life=100")
    labels, n_classes = encoded(y, n_classes)
    return costs_of(labels, LabelCounts(n_classes, float(half_life)))


def transition_codelengths(y: ArrayLike, n_classes: int | None = None) -> Floats:
    """Return the cost of each label given the previous label, in nats.

    The code is a first-order Markov chain. It predicts label ``t`` by the
    Krichevsky-Trofimov estimate from the labels that followed earlier occurrences of
    ``y_{t-1}``. The first label has uniform probabilities. If labels repeat much more
    often than their frequencies imply, this code is far shorter than the frequency
    code.

    Parameters
    ----------
    y : array-like of shape (N,)
        Labels of any sortable type, in the order in which they are coded.
    n_classes : int, optional
        As for :func:`frequency_codelength`.

    Returns
    -------
    codelengths : ndarray of shape (N,)
        ``-log p(y_t | y_{<t})`` of each label, in nats.

    Raises
    ------
    ValueError
        For the reasons given in :func:`frequency_codelength`.

    Examples
    --------
    >>> transition_codelengths(["dog", "dog", "cat", "dog", "dog"])
    array([0.693..., 0.693..., 1.386..., 0.693..., 0.693...])
    """
    labels, n_classes = encoded(y, n_classes)
    return costs_of(labels, LabelTransitions(n_classes))


def costs_of(
    labels: Sequence[int],
    code: LabelCounts | LabelTransitions,
    known: Iterable[int] | None = None,
) -> Floats:
    """Return the cost of each label (N,) in nats, which is 0 if its class is new.

    Label ``t`` is predicted from the first ``known[t]`` labels, by default from all
    earlier labels.
    """
    costs, n_learned = np.zeros(len(labels)), 0
    for t, n_known in zip(range(len(labels)), known or count(), strict=False):
        for label in labels[n_learned:n_known]:
            code.observe(label)
        n_learned = n_known
        if labels[t] < code.n_classes:
            costs[t] = -code.log_proba()[labels[t]]
        else:
            code.add_classes(1)
    return costs


def costs_without_features(
    labels: Sequence[int], n_classes: int, known: Sequence[int] | None = None
) -> Floats:
    """Return each label's cost under three codes (N, 3), as for `costs_of`.

    The codes use label frequencies, recent label frequencies and label transitions.
    """
    counts, recent = LabelCounts(n_classes), LabelCounts(n_classes, 100.0)
    codes = counts, recent, LabelTransitions(n_classes)
    return np.stack([costs_of(labels, code, known) for code in codes], 1)
