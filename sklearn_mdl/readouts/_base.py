"""Readouts as estimators: they are fitted alone, or together by a switcher."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.base.estimator import OnlineEstimator, RandomState
from sklearn_mdl._core.numerics import resolve_device
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl._core.stream.run import Mixing, PrequentialRun
from sklearn_mdl._core.stream.threads import PassSettings
from sklearn_mdl.readouts._build import Context, build_learners
from sklearn_mdl.readouts._stack import NetStack
from sklearn_mdl.switching import BayesMixture


class Readout(OnlineEstimator):
    """Base of all readouts: settings, from which learners are built.

    Networks name the kind of stack that serves them; other subclasses make learners in
    ``learners_of``.
    """

    stack: ClassVar[type[NetStack] | None] = None
    takes_raw_rows: ClassVar[bool] = False  # its learner scales them itself
    block: ClassVar[str | None] = None  # name of the columns of X it looks at, if some
    scaling: str | None = "standard"
    batch_size: int = 32
    first_batch_size: int | None = None
    device: str = "cpu"
    random_state: RandomState

    @property
    @abstractmethod
    def architecture(self) -> str:
        """Short name of the predictor."""

    @property
    def pool_group(self) -> str:
        """Kind of the readout: those of one kind switch, and kinds are pooled."""
        return f"{self.architecture}, {self.scaling or 'raw'}"

    @property
    def forgets(self) -> bool:
        """True if it forgets rows at some time: whoever loses now may win later."""
        names = "window", "restart"
        return any(getattr(self.inner, name, None) is not None for name in names)

    @property
    def inner(self) -> Any:
        """The readout itself, or the one inside, to which the settings belong."""
        return self

    @classmethod
    def learners_of(
        cls, members: Sequence[tuple[int, Any]], context: Context
    ) -> Sequence[Learner]:
        """Make learners for readouts of this class, each with its column."""
        raise TypeError(
            f"A readout must name its stack or define learners_of, but {cls.__name__} "
            "does neither; define one of them"
        )

    def seed_or(self, seed: int) -> int:
        """Return a seed by its own random state, or the one given if it has none."""
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


class BaseReadout(Readout, OnlineClassifier):
    """Base of the classifiers that are no stacks of networks."""


def last_restart(n_rows: int, period: int) -> int:
    """Return where a readout began that restarts at odd multiples of a period.

    So every multiple of 32 is where exactly one of the periods 32, 64, 128, ... begins,
    and lasts for twice the period: copies of Hazan and Seshadhri (2009).
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
        "KNeighborsReadout, IncrementalReadout and RefitReadout objects, or those of "
        f"images, got {readout!r}; {advice}"
    )
