"""Readouts that ignore features and predict labels from earlier labels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils import Tags
from torch import Tensor

from sklearn_mdl._core.base.regressor import OnlineRegressor
from sklearn_mdl._core.sklearn_compat import Constraints, StrOptions
from sklearn_mdl._core.stream.learner import LabelLearner, Learned, Learner
from sklearn_mdl._core.stream.outcomes import FIRST_DEGREES_OF_FREEDOM
from sklearn_mdl._core.stream.scaling import ScaledRows
from sklearn_mdl._core.stream.units import TargetScaling
from sklearn_mdl.metrics import LabelCounts, LabelTransitions
from sklearn_mdl.readouts._base import BaseReadout, Readout, last_restart
from sklearn_mdl.readouts._build import Context, Members


class DummyLearner(LabelLearner):
    """Learner for readouts that ignore features.

    Parameters
    ----------
    members : mapping of int to DummySettings
        The readouts, keyed by column.
    context : Context
    """

    def __init__(self, members: Mapping[int, DummySettings], context: Context) -> None:
        self.members = members
        self.n_classes = context.n_classes
        self.codes = {c: s.code(self.n_classes) for c, s in members.items()}
        self.columns = list(members)
        self.view = context.view
        self.device = context.device
        self.n_observed = 0

    def attach(self, rows: ScaledRows) -> None:
        """Store the rows of the run."""
        self.stream = rows

    def predict(self, x: Tensor) -> Tensor:
        """Return the prediction of the next label, repeated for each row, (K, n, P)."""
        predictions = torch.from_numpy(np.array(self._predictions()))
        return predictions[:, None].expand(-1, x.shape[1], -1).to(self.device)

    def follow(self, labels: Tensor) -> Tensor:
        """Predict each of the next labels (n,) from earlier ones, and observe it."""
        predictions = []
        for label in labels.tolist():
            predictions.append(self._predictions())
            self._observe(label)
        return torch.from_numpy(np.array(predictions)).swapaxes(0, 1).to(self.device)

    def _predictions(self) -> list[Any]:
        return [code.log_proba() for code in self.codes.values()]

    def observe(self, labels: Tensor) -> None:
        """Update the codes of all readouts label by label."""
        for label in labels.tolist():
            self._observe(label)

    def _observe(self, label: Any) -> None:
        for code in self.codes.values():
            code.observe(label)
        self.n_observed += 1
        for column in self.columns:
            if self.members[column].begins_at(self.n_observed):
                self.codes[column] = self.members[column].code(self.n_classes)

    def add_classes(self, n: int) -> None:
        """Add classes to every code."""
        self.n_classes += n
        for code in self.codes.values():
            code.add_classes(n)

    def retire(self, columns: Collection[int]) -> None:
        """Drop some readouts."""
        self.columns = [column for column in self.columns if column not in columns]
        self.codes = {column: self.codes[column] for column in self.columns}

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return only the number of labels observed, since the run keeps the labels."""
        state = {"n_observed": torch.tensor(self.n_observed)}
        return dict.fromkeys(self.columns, state)

    def load_state_dict(self, learned: Learned) -> None:
        """Observe the run's labels again. The codes must not have observed any."""
        self.observe(self.stream.labels[: int(learned[self.columns[0]]["n_observed"])])


@dataclass(eq=False, repr=False, kw_only=True)
class DummySettings(Readout):
    """Base class of readouts that ignore features."""

    strategy: str
    half_life: float = 100.0
    restart: int | None = None
    batch_size: int = 32
    device: str = "auto"

    scaling = None
    random_state = 0  # uses no random numbers
    pool_kind = "labels alone"  # all these readouts form one kind
    learner: ClassVar[type[DummyLearner]] = DummyLearner

    @classmethod
    def learners_of(cls, members: Members[Self], context: Context) -> list[Learner]:
        """Make one learner for all readouts."""
        return [cls.learner(dict(members), context)]

    def __sklearn_tags__(self) -> Tags:
        """Return tags that tell scikit-learn to expect poor scores."""
        tags = super().__sklearn_tags__()
        for part in (tags.classifier_tags, tags.regressor_tags):
            if part is not None:
                part.poor_score = True
        return tags

    @property
    def architecture(self) -> str:
        """Short name, such as "label frequency"."""
        return f"label {self.strategy}"

    @abstractmethod
    def code(self, n_numbers: int) -> Any:
        """Return a code that has not observed any labels."""

    def begins_at(self, n_rows: int) -> bool:
        """Return True if the readout restarts after ``n_rows`` rows."""
        restart = self.restart
        return restart is not None and 0 < n_rows == last_restart(n_rows, int(restart))


@dataclass(eq=False, repr=False)
class DummyReadout(DummySettings, BaseReadout):
    """Readout that ignores features and predicts labels from earlier labels.

    Compare other readouts with this one to see whether features help. If successive
    labels of a stream are dependent, even a readout that ignores features may predict
    well. This readout learns label by label.

    Parameters
    ----------
    strategy : {"frequency", "decayed", "transition"}, default="frequency"
        "frequency" predicts smoothed class frequencies (the Krichevsky-Trofimov
        estimate), as in :func:`~sklearn_mdl.metrics.frequency_codelengths`. "decayed"
        uses decaying counts, as in
        :func:`~sklearn_mdl.metrics.decayed_frequency_codelengths`. "transition" is a
        first-order Markov chain, as in
        :func:`~sklearn_mdl.metrics.transition_codelengths`.
    half_life : float, default=100
        With "decayed", the number of labels after which a count halves.
    restart : int, default=None
        The readout restarts at odd multiples of this number of rows (never if None).
    batch_size : int, default=32
        Has no effect on results, since this readout learns label by label.
    device : str, default="auto"
        Torch device. A switcher overrides this.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    See Also
    --------
    sklearn.dummy.DummyClassifier : The same baseline for a training and a test set.

    References
    ----------
    Krichevsky and Trofimov, 1981, The performance of universal encoding, IEEE
    Transactions on Information Theory 27.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.readouts import DummyReadout
    >>> y = np.tile(np.repeat([0, 1], 10), 10)  # each label repeats ten times
    >>> X = np.zeros((200, 1))
    >>> round(DummyReadout().partial_fit(X, y, classes=[0, 1]).codelength_)
    142
    >>> readout = DummyReadout("transition")
    >>> round(readout.partial_fit(X, y, classes=[0, 1]).codelength_)
    68
    """

    strategy: str = "frequency"

    _parameter_constraints: ClassVar[Constraints] = {
        **DummySettings._parameter_constraints,
        "strategy": [StrOptions({"frequency", "decayed", "transition"})],
    }

    def code(self, n_classes: int) -> LabelCounts | LabelTransitions:
        """Return a code that has not observed any labels."""
        if self.strategy == "transition":
            return LabelTransitions(n_classes)
        half_life = self.half_life if self.strategy == "decayed" else np.inf
        return LabelCounts(n_classes, half_life)


Density = tuple[float, float, float]  # location, log scale, degrees of freedom


class RecentMean:
    """Model of Gaussian labels with unknown mean and variance, under Jeffreys' prior.

    Parameters
    ----------
    location, scale : float
        Parameters of a Student-t with one degree of freedom, which is the prediction
        until two labels differ.
    decay : float
        Factor that multiplies the weights of earlier labels when a label arrives.
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
        return self.mean, 0.5 * math.log(self.squares / (n - 1) * (1 + 1 / n)), n - 1

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
        As in :class:`RecentMean`. The last label, if any, replaces the location.
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
    """Learner for regressors that ignore features."""

    target = TargetScaling(0, 0.0, 1.0)  # predictions are in the units of the labels

    def retarget(self, target: TargetScaling) -> None:
        """Do nothing, since densities are in the units of the labels."""

    def _predictions(self) -> list[Any]:
        return [code.density() for code in self.codes.values()]


@dataclass(eq=False, repr=False)
class DummyReadoutRegressor(DummySettings, OnlineRegressor):
    """Regressor that ignores features and predicts labels from earlier labels.

    Compare other regressors with this one to see whether features help. It learns label
    by label, like :class:`~sklearn_mdl.readouts.DummyReadout` for classes.

    Parameters
    ----------
    strategy : {"mean", "decayed", "last"}, default="mean"
        "mean" is a Gaussian with unknown mean and variance under Jeffreys' prior, as in
        :func:`~sklearn_mdl.metrics.gaussian_codelengths` with ``n_first=1``. "decayed"
        is the same with decaying weights. "last" is a random walk with Gaussian steps
        of unknown variance.
    half_life : float, default=100
        With "decayed", the number of labels after which a weight halves.
    restart : int, default=None
        The regressor restarts at odd multiples of this number of rows (never if None).
    batch_size : int, default=32
        Has no effect on results, since this readout learns label by label.
    device : str, default="auto"
        Torch device. A switcher overrides this.
    prior_location, prior_scale : float, default=0.0, 1.0
        Location and scale of the first prediction, a Student-t with one degree of
        freedom, in the units of the labels. Choose them without looking at the labels
        to be coded. A switcher overrides them.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the same labels under a Gaussian whose mean and variance are learned
        online, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    See Also
    --------
    sklearn.dummy.DummyRegressor : The same baseline for a training and a test set.

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
        """Return a code that has not observed any labels."""
        location, scale = float(self.prior_location), float(self.prior_scale)
        if self.strategy == "last":
            return RandomWalk(location, scale)
        decay = 2.0 ** (-1.0 / self.half_life) if self.strategy == "decayed" else 1.0
        return RecentMean(location, scale, decay)
