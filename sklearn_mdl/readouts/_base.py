"""Base classes of readouts. You can fit a readout by itself or in a switcher."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.base.estimator import OnlineEstimator, RandomState
from sklearn_mdl._core.numerics import resolve_device
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.stream.learner import MOST_STREAMS, Learner
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.run import Mixing, PrequentialRun
from sklearn_mdl._core.stream.scaling import check_width
from sklearn_mdl._core.stream.threads import PassSettings
from sklearn_mdl.readouts._build import Context, Members, grouped
from sklearn_mdl.readouts._stack import NetStack
from sklearn_mdl.switching import BayesMixture

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="left")
STREAMS = Interval(Integral, 0, MOST_STREAMS, closed="both")


class Readout(OnlineEstimator):
    """Base class of readouts, which hold the settings of learners."""

    stack: ClassVar[type[NetStack] | None] = None  # set in linear and MLP readouts
    family: ClassVar[type | None] = None  # readouts of a family may share learners
    takes_raw_rows: ClassVar[bool] = False  # if True, ``row_scaling`` is None
    view: ClassVar[str | None] = None  # name of the view, if only some columns are used
    scaling: str | None = "standard"
    batch_size: int = 32
    first_batch_size: int | None = None
    device: str = "cpu"
    random_state: RandomState

    # Constraints on parameters that several readouts have.
    _parameter_constraints: ClassVar[Constraints] = {
        "lr": [POSITIVE],
        "beta1": [SHARE],
        "beta2": [SHARE],
        "eps": [NOT_NEGATIVE],
        "weight_decay": [NOT_NEGATIVE],
        "n_replay_streams": [STREAMS, tuple, list],
        "recency": [POSITIVE],
        "ema_step_size": [Interval(Real, 0, 1, closed="right")],
        "ema_warmup": ["boolean"],
        "label_smoothing": [SHARE],
        "calibration": ["boolean"],
        "scaling": [StrOptions({"standard", "whiten"}), None],
        "prior_location": [Interval(Real, None, None, closed="neither")],
        "prior_scale": [POSITIVE],
        "half_life": [POSITIVE],
        "window": [COUNT, None],
        "restart": [COUNT, None],
        "batch_size": [COUNT],
        "first_batch_size": [COUNT, None],
        "device": [str],
        "random_state": ["random_state"],
    }

    @property
    @abstractmethod
    def architecture(self) -> str:
        """Short name of the predictor."""

    @property
    def pool_kind(self) -> str:
        """Name of the readout's kind, for a switcher that pools kinds."""
        return f"{self.architecture}, {self.scaling or 'raw'}"

    @property
    def computation(self) -> str:
        """Name of the main computation, the same for all readouts that may share it."""
        return self.pool_kind

    @property
    def forgets(self) -> bool:
        """True if the readout forgets old rows, or learns each minibatch only once."""
        limits = [getattr(self.inner, name, None) for name in ("window", "restart")]
        return limits != [None, None] or self.learns_once

    @property
    def learns_once(self) -> bool:
        """True if the readout learns from minibatches but never replays them."""
        n_streams = getattr(self.inner, "n_replay_streams", None)
        return n_streams is not None and not np.any(n_streams)

    @property
    def inner(self) -> Any:
        """The readout itself, or the readout of a view."""
        return self

    def places(self, n_features: int) -> Sequence[int]:
        """Return the columns of X that the readout uses."""
        return range(n_features)

    @property
    def row_scaling(self) -> str | None:
        """Scaling that the run applies to all columns for this readout, or None."""
        return None if self.takes_raw_rows else self.scaling

    def check_width(self, n_features: int) -> None:
        """Raise ValueError if the readout cannot scale this number of features.

        Parameters
        ----------
        n_features : int
        """
        check_width(self.scaling, n_features)

    @classmethod
    @abstractmethod
    def learners_of(cls, members: Members[Any], context: Context) -> Sequence[Learner]:
        """Make learners, each for one or more of the given (column, readout) pairs."""

    def seed_or(self, seed: int) -> int:
        """Return ``seed`` if ``random_state`` is None, or else draw a seed from it."""
        if self.random_state is None:
            return seed
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _make_run(
        self, n_features: int, outcome: Outcome, seed: int, retired: Collection[int]
    ) -> PrequentialRun:
        device = resolve_device(self.device)
        last = int(self.batch_size)  # an integer of NumPy could overflow
        first = min(int(self.first_batch_size or last), last)
        settings = PassSettings(outcome, n_features, last, seed, device, first)
        learners = learners_for([self], settings, retired=retired)
        return PrequentialRun(learners, Mixing(BayesMixture()), settings)


def build_learners(
    readouts: Sequence[Readout] | Mapping[int, Readout],
    n_features: int,
    n_classes: int,
    **settings: Any,
) -> list[Learner]:
    """Make the learners of readouts for classification or regression.

    Parameters
    ----------
    readouts : sequence of readouts, or mapping of int to readout
        A learner's ``columns`` are positions in the sequence or keys of the mapping. To
        make learners for only some readouts of a run, pass a mapping.
    n_features, n_classes : int
    **settings
        As in :class:`Context`.

    Returns
    -------
    learners : list of Learner
        Stacks of networks, the most expensive first, followed by the other learners,
        which include the learners of views. On a CPU, networks of the same shape are
        distributed over several stacks if their state is large, or to balance jobs. A
        readout's results depend neither on the other readouts nor on their order.

    Raises
    ------
    ValueError
        If a readout cannot be used with these features, for example because it
        whitens more than ``MAX_WHITENED_FEATURES`` of them.
    MemoryError
        If the networks need more memory than the device has.
    """
    by_place = readouts if isinstance(readouts, Mapping) else dict(enumerate(readouts))
    return learners_in(Context(n_features, n_classes, built=[], **settings), by_place)


def learners_for(
    readouts: Sequence[Readout], settings: PassSettings, **options: Any
) -> list[Learner]:
    """Make the learners of a pass, with further ``options`` as in :class:`Context`."""
    outcome = settings.outcome
    options |= {"seed": settings.seed, "device": settings.device}
    options["may_grow"] = outcome.n_named is not None
    return build_learners(readouts, settings.n_features, outcome.n_numbers, **options)


def learners_in(context: Context, by_place: Mapping[int, Readout]) -> list[Learner]:
    """Make the learners of readouts. Their scalings replace those of the context."""
    for readout in by_place.values():
        readout.check_width(context.n_features)
    scalings = list(dict.fromkeys(readout.row_scaling for readout in by_place.values()))
    context = context._replace(view=context.view._replace(scalings=scalings))
    pairs = ((r.stack or r.family or type(r), (k, r)) for k, r in by_place.items())
    families = grouped(pairs)
    stacks_first = sorted(families.values(), key=lambda own: own[0][1].stack is None)
    learners: list[Learner] = []
    for members in stacks_first:
        learners += members[0][1].learners_of(members, context)
    return learners


class BaseReadout(Readout, OnlineClassifier):
    """Base class of classification readouts that are not stacks of networks."""


def last_restart(n_rows: int, period: int) -> int:
    """Return the largest odd multiple of ``period`` up to ``n_rows``, or 0.

    Among readouts that restart at odd multiples of 32, 64, 128, ... rows, exactly one
    restarts at every multiple of 32, as in Hazan and Seshadhri (2009). Each runs for
    twice its period before it restarts again.
    """
    return max(0, (n_rows + period) // (2 * period) * 2 * period - period)


def check_readout(readout: object) -> None:
    """Check that an object is a valid readout for classification.

    Raises
    ------
    TypeError
        If the object is not a readout, or if it is a readout for regression.
    ValueError
        If a parameter of the readout is invalid.
    """
    if isinstance(readout, Readout) and isinstance(readout, OnlineClassifier):
        readout._validate_params()
        return
    advice = "for example, pass readouts=readout_grid()"
    if isinstance(readout, Readout):
        advice = f"for real numbers, use MDLReadoutSwitcherRegressor([{readout!r}])"
    elif isinstance(readout, str):
        advice = f"pass readouts={readout!r}, without a list"
    elif isinstance(readout, type):
        advice = f"pass an instance of {readout.__name__}"
    elif isinstance(readout, BaseEstimator) and is_classifier(readout):
        wrapper, wrapped = "RefitReadout", repr(readout)
        if not hasattr(readout, "predict_proba"):
            wrapped = f"CalibratedClassifierCV({wrapped}, ensemble=False)"
        elif hasattr(readout, "partial_fit"):
            wrapper = "IncrementalReadout"
        advice = f"wrap it: {wrapper}({wrapped})"
    raise TypeError(
        "Readouts must be LinearReadout, KernelReadout or other classifiers of "
        f"sklearn_mdl.readouts, got {readout!r}; {advice}"
    )
