"""Kernel ridge regression, refitted at every row, as a readout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from sklearn_mdl._core.kernels.functions import Kernel
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl.readouts._base import BaseReadout, Readout
from sklearn_mdl.readouts._build import Context
from sklearn_mdl.readouts._kernel_learners import (
    KernelClassifierLearner,
    Member,
)
from sklearn_mdl.readouts._kernel_rows import SCALINGS

NAMES = {"arc-cosine", "rbf", "linear", "polynomial"}


@dataclass(eq=False, repr=False)
class KernelSettings(Readout):
    """Settings that kernel readouts of classes and of real numbers share."""

    kernel: str | Callable[[Any, Any], Any] = "arc-cosine"
    alpha: float = 0.03
    _: KW_ONLY
    depth: int = 1
    width: float = 1.0
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    scaling: str | None = "standard"
    max_exact: int | None = 2048
    batch_size: int = 32
    device: str = "auto"

    random_state = 0  # nothing is drawn
    takes_raw_rows = True  # it scales them itself, by rows and not by minibatches

    _parameter_constraints: ClassVar[Constraints] = {
        "kernel": [StrOptions(NAMES), callable],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "depth": [Interval(Integral, 1, None, closed="left")],
        "width": [Interval(Real, 0, None, closed="neither")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "scaling": [StrOptions(set(SCALINGS)), None],
        "max_exact": [Interval(Integral, 32, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
    }

    @property
    def architecture(self) -> str:
        """Short name: "arc-cosine kernel", "rbf kernel"."""
        named = isinstance(self.kernel, str)
        return (
            f"{self.kernel} kernel" if named else f"{type(self.kernel).__name__} kernel"
        )

    def member(self, column: int) -> Member:
        """Return the settings as a learner takes them."""
        names = Kernel._fields[1:]
        kernel = Kernel(self.kernel, *(getattr(self, name) for name in names))
        return Member(column, self.scaling, kernel, float(self.alpha))


@dataclass(eq=False, repr=False)
class KernelReadout(KernelSettings, BaseReadout):
    """Kernel ridge regression of the labels, refitted at every row."""

    @classmethod
    def learners_of(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[KernelClassifierLearner]:
        """One learner for all: they share rows, inner products and factors."""
        own = [readout.member(column) for column, readout in members]
        return [KernelClassifierLearner(own, context)]
