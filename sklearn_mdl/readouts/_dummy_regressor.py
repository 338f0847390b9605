"""Regressors that ignore features and predict labels from earlier labels."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from sklearn_mdl._core.base.regressor import OnlineRegressor
from sklearn_mdl._core.sklearn_compat import Constraints, StrOptions
from sklearn_mdl._core.stream.outcomes import FIRST_DEGREES_OF_FREEDOM
from sklearn_mdl._core.stream.units import TargetScaling
from sklearn_mdl.readouts._dummy import DummyLearner, DummySettings

Density = tuple[float, float, float]  # location, log scale, degrees of freedom


class RecentMean:
    """Model of Gaussian labels with unknown mean and variance, under Jeffreys' prior.

    Parameters
    ----------
    location, scale : float
        Parameters of the Student-t with one degree of freedom that is predicted until
        two labels differ.
    decay : float
        Factor by which every later label multiplies the weight of a label.
    """

    def __init__(self, location: float, scale: float, decay: float) -> None:
        self.first: Density = location, math.log(scale), FIRST_DEGREES_OF_FREEDOM
        self.decay = decay
        self.mean = self.count = self.squares = 0.0

    def density(self) -> Density:
        """Return the density of the next label."""
        if not self.squares > 0:
            return self.first
        n = self.count
        variance = self.squares / (n - 1) * (1 + 1 / n)
        return self.mean, 0.5 * math.log(variance), n - 1

    def observe(self, label: float) -> None:
        """Update the statistics with a label."""
        self.count = self.decay * self.count + 1
        gap = label - self.mean
        self.mean = label if self.count == 1 else self.mean + gap / self.count
        self.squares = self.decay * self.squares + gap * (label - self.mean)


class RandomWalk:
    """Model of labels as a random walk with Gaussian steps of unknown variance.

    Parameters
    ----------
    location, scale : float
        As for :class:`RecentMean`, but the location is the last label if there is one.
    """

    def __init__(self, location: float, scale: float) -> None:
        self.last, self.log_scale = location, math.log(scale)
        self.n_labels, self.squares = 0, 0.0

    def density(self) -> Density:
        """Return the density of the next label."""
        if not self.squares > 0:
            return self.last, self.log_scale, FIRST_DEGREES_OF_FREEDOM
        n_steps = self.n_labels - 1
        return self.last, 0.5 * math.log(self.squares / n_steps), float(n_steps)

    def observe(self, label: float) -> None:
        """Update the statistics with a label."""
        if self.n_labels:
            self.squares += (label - self.last) ** 2
        self.last, self.n_labels = label, self.n_labels + 1


class DummyRegressorLearner(DummyLearner):
    """Learner of regressors that ignore features."""

    target = TargetScaling(0, 0.0, 1.0)  # predicts at once, in the units of labels

    def retarget(self, target: TargetScaling) -> None:
        """Ignore the change, since densities are in the units of the labels."""

    def _prediction(self, code: RecentMean | RandomWalk) -> Density:
        return code.density()


@dataclass(eq=False, repr=False)
class DummyReadoutRegressor(DummySettings, OnlineRegressor):
    """Regressor that ignores features and predicts labels from earlier labels.

    Add it to a list to see whether features help, like
    :class:`~sklearn_mdl.readouts.DummyReadout` for classes. It learns label by label.

    Parameters
    ----------
    strategy : {"mean", "decayed", "last"}, default="mean"
        "mean" is a Gaussian with unknown mean and variance under Jeffreys' prior, as in
        :func:`~sklearn_mdl.metrics.gaussian_codelengths`. "decayed" does the same with
        decaying weights. "last" is a random walk with Gaussian steps of unknown
        variance.
    half_life : float, default=100
        Number of labels after which a weight halves, for "decayed".
    restart : int, default=None
        Restart at odd multiples of this number of rows. None never does.
    batch_size : int, default=32
        Has no effect on results, since this readout learns label by label.
    device : str, default="auto"
        Torch device. A switcher overrides this.
    prior_location, prior_scale : float, default=0.0, 1.0
        Parameters of the Student-t with one degree of freedom that is predicted at
        first, in the units of the labels. Choose them without looking at the labels to
        be coded. A switcher overrides them.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the same labels under a Gaussian that learns online, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    See Also
    --------
    sklearn.dummy.DummyRegressor : The same idea for a training and a test set.

    References
    ----------
    Bernardo and Smith, 1994, Bayesian Theory, appendix A.2 (univariate normal,
    reference analysis).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.readouts import DummyReadoutRegressor
    >>> y = np.cumsum(np.random.default_rng(0).normal(size=300))
    >>> X = np.zeros((300, 1))
    >>> mean, last = (
    ...     DummyReadoutRegressor(strategy).partial_fit(X, y).codelength_
    ...     for strategy in ("mean", "last")
    ... )
    >>> bool(last < mean - 100)  # nats
    True
    """

    learner = DummyRegressorLearner

    strategy: str = "mean"
    _: KW_ONLY
    prior_location: float = 0.0
    prior_scale: float = 1.0

    _parameter_constraints: ClassVar[Constraints] = {
        **DummySettings._parameter_constraints,
        "strategy": [StrOptions({"mean", "decayed", "last"})],
    }

    def code(self, n_numbers: int) -> RecentMean | RandomWalk:
        """Return a new code for labels."""
        location, scale = float(self.prior_location), float(self.prior_scale)
        if self.strategy == "last":
            return RandomWalk(location, scale)
        decayed = self.strategy == "decayed"
        decay = 2.0 ** (-1.0 / self.half_life) if decayed else 1.0
        return RecentMean(location, scale, decay)
