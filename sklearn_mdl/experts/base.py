"""What all experts share: they walk alone as classifiers, or in a switcher."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from sklearn.utils import check_random_state

from sklearn_mdl.arithmetic import resolve_device
from sklearn_mdl.experts.wrapped import Context
from sklearn_mdl.online import OnlineClassifier
from sklearn_mdl.prequential import Course, Learner
from sklearn_mdl.switching import BayesMixture


class Expert(OnlineClassifier):
    """Base of the experts that are no stack of nets.

    Subclasses say in ``_learners`` what walks for several of them.
    """

    scaling: str | None = "standard"
    batch_size = 32
    device = "cpu"
    random_state: Any

    @property
    @abstractmethod
    def architecture(self) -> str:
        """Short name of what predicts."""

    @property
    def seen_scaling(self) -> str | None:
        """The scaling in which the walk hands over rows."""
        return self.scaling

    @classmethod
    @abstractmethod
    def _learners(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[Learner]:
        """Make learners for experts of this class and their columns."""

    def seed_or(self, seed: int) -> int:
        """Return a seed by its own random state, or the one given if it has none."""
        if self.random_state is None:
            return seed
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _start(self, n_features: int, n_classes: int, seed: int) -> Course:
        device = resolve_device(self.device)
        context = Context([self.seen_scaling], n_features, n_classes, seed, device)
        return Course(
            self._learners([(0, self)], context),
            BayesMixture(),
            None,
            n_features=n_features,
            batch_size=self.batch_size,
            seed=seed,
            device=device,
        )


def learners_of(experts: Sequence[tuple[int, Any]], context: Context) -> list[Learner]:
    """Make the learners that walk for experts of any classes.

    Parameters
    ----------
    experts : sequence of (int, Expert)
        Each with its place among all readouts.
    context : Context

    Returns
    -------
    learners : list of Learner
    """
    kinds = dict.fromkeys(type(expert) for _, expert in experts)
    return [
        learner
        for kind in kinds
        for learner in kind._learners(
            [member for member in experts if type(member[1]) is kind], context
        )
    ]
