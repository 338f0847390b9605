"""Readouts as estimators: fitted by themselves, or together by a switcher."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

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
from sklearn_mdl.readouts._build import Context, grouped
from sklearn_mdl.readouts._stack import NetStack
from sklearn_mdl.switching import BayesMixture

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="left")


class Readout(OnlineEstimator):
    """Base of all readouts: settings, from which ``learners_of`` makes learners."""

    stack: ClassVar[type[NetStack] | None] = None  # of networks: their kind of stack
    family: ClassVar[type | None] = None  # of kinds that share learners: their base
    takes_raw_rows: ClassVar[bool] = False  # its learner scales them itself
    view: ClassVar[str | None] = None  # name of its columns of X, if not all
    scaling: str | None = "standard"
    batch_size: int = 32
    first_batch_size: int | None = None
    device: str = "cpu"
    random_state: RandomState

    # What parameters of these names must be, in all readouts that have them.
    _parameter_constraints: ClassVar[Constraints] = {
        "lr": [POSITIVE],
        "beta1": [SHARE],
        "beta2": [SHARE],
        "eps": [NOT_NEGATIVE],
        "weight_decay": [NOT_NEGATIVE],
        "n_replay_streams": [
            Interval(Integral, 0, MOST_STREAMS, closed="both"),
            tuple,
            list,
        ],
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
        """Kind of the readout: those of one kind switch, and kinds are pooled."""
        return f"{self.architecture}, {self.scaling or 'raw'}"

    @property
    def computation(self) -> str:
        """What it computes: readouts of one name share the work."""
        return self.pool_kind

    @property
    def forgets(self) -> bool:
        """True if it forgets rows, so that it may win later."""
        names = "window", "restart"
        return any(getattr(self.inner, name, None) is not None for name in names)

    @property
    def inner(self) -> Any:
        """The readout itself, or the one inside, to which the settings belong."""
        return self

    @property
    def row_scaling(self) -> str | None:
        """Scaling of the rows that its learner is given."""
        return None if self.takes_raw_rows else self.scaling

    def check_width(self, n_features: int) -> None:
        """Raise a ValueError if it cannot scale so many features.

        Parameters
        ----------
        n_features : int
        """
        check_width(self.scaling, n_features)

    @classmethod
    @abstractmethod
    def learners_of(
        cls, members: Sequence[tuple[int, Any]], context: Context
    ) -> Sequence[Learner]:
        """Make learners for readouts of this class, or stack, each with its column."""

    def seed_or(self, seed: int) -> int:
        """Return a seed from its own random state, or the given one if it has none."""
        if self.random_state is None:
            return seed
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _make_run(self, n_features: int, outcome: Outcome, seed: int) -> PrequentialRun:
        device = resolve_device(self.device)
        learners = build_learners(
            [self],
            n_features,
            outcome.n_numbers,
            seed=seed,
            device=device,
            may_grow=outcome.escape is not None,
        )
        settings = PassSettings(
            outcome, n_features, self.batch_size, seed, device, self.first_batch_size
        )
        return PrequentialRun(learners, Mixing(BayesMixture()), settings)


def build_learners(
    readouts: Sequence[Readout] | Mapping[int, Readout],
    n_features: int,
    n_classes: int,
    **settings: Any,
) -> list[Learner]:
    """Make the learners of a list of readouts, of classes or of real numbers.

    Parameters
    ----------
    readouts : sequence of readouts, or mapping of int to readout
        In any order; a learner's ``columns`` remember the places: those in the
        sequence, or the keys, for some of the readouts of a run.
    n_features, n_classes : int
    **settings
        As in :class:`Context`.

    Returns
    -------
    learners : list of Learner
        Stacks of networks, the most expensive first, then the learners of others.
        Networks of one shape share a stack, except that on a CPU a stack is cut where
        its state would not stay in cache, or where one job would wait for another. A
        stack equals its parts: numbers of a readout depend neither on its neighbours
        nor on their order.

    Raises
    ------
    ValueError
        If a readout asks to whiten more than ``MAX_WHITENED_FEATURES`` features.
    MemoryError
        If the readouts together need more memory than the device has.
    """
    by_place = readouts if isinstance(readouts, Mapping) else dict(enumerate(readouts))
    return learners_in(Context(n_features, n_classes, **settings), by_place)


def learners_in(context: Context, by_place: Mapping[int, Readout]) -> list[Learner]:
    """Make the learners of readouts in a context, in the scalings that they need."""
    for readout in by_place.values():
        readout.check_width(context.n_features)
    scalings = list(dict.fromkeys(readout.row_scaling for readout in by_place.values()))
    context = context._replace(view=context.view._replace(scalings=scalings))
    families = grouped(
        (r.stack or r.family or type(r), (k, r)) for k, r in by_place.items()
    )
    stacks_first = sorted(families.values(), key=lambda own: own[0][1].stack is None)
    learners: list[Learner] = []
    for members in stacks_first:
        learners += members[0][1].learners_of(members, context)
    return learners


class BaseReadout(Readout, OnlineClassifier):
    """Base of the classifiers that are no stacks of networks."""


def last_restart(n_rows: int, period: int) -> int:
    """Return the last start of a readout that restarts at odd multiples of a period.

    So with periods 32, 64, 128, ... exactly one readout restarts at every multiple of
    32, and runs for twice its period, as in Hazan and Seshadhri (2009).
    """
    return max(0, (n_rows + period) // (2 * period) * 2 * period - period)


def check_readout(readout: object) -> None:
    """Refuse anything but a readout of classes, and say how to make one of it.

    Raises
    ------
    TypeError
        If it is no readout, or one of real numbers.
    """
    if isinstance(readout, Readout) and isinstance(readout, OnlineClassifier):
        readout._validate_params()
        return
    advice = "build them with readout_grid(...)"
    given = isinstance(readout, BaseEstimator)  # and no class
    if given and is_classifier(readout):
        incremental = hasattr(readout, "partial_fit")
        wrapper = "IncrementalReadout" if incremental else "RefitReadout"
        advice = f"wrap it: {wrapper}({readout!r})"
    raise TypeError(
        "readouts must hold LinearReadout, MLPReadout, KernelReadout, "
        "DiscriminantReadout, CentroidReadout, KNeighborsReadout, IncrementalReadout, "
        "RefitReadout, DummyReadout or ViewReadout objects, or readouts of images "
        f"(FineTunedReadout, ScratchReadout, FrozenReadout), got {readout!r}; {advice}"
    )
