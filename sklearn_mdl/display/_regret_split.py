"""Codelengths of switching strategies, split into learning and switching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl import switching
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base
from sklearn_mdl.display._base import Floats


class RegretSplitDisplay(base.Display):
    """Codelengths of switching strategies, split into learning and switching.

    Learning is the codelength of the best sequence of a few blocks with one readout
    each, chosen in hindsight. Switching is a strategy's regret relative to this
    sequence. This regret is at most ``-log p``, where ``p`` is the sequence's
    probability under the strategy's prior. A negative regret means that the strategy
    beats the sequence, for example because the sequence has too few blocks.

    Parameters
    ----------
    codelengths : mapping of str to float
        Codelength of each strategy, in nats.
    learning : float
        Codelength of the best sequence, in nats.
    upper_bounds : mapping of str to float, optional
        ``-log p`` for each strategy, in nats, or infinity if its prior excludes the
        sequence. By default the bounds are unknown.
    sequence_name : str, default="best sequence"
        Name of the sequence in the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    bars_ : dict of {"learning", "switching"} to matplotlib BarContainer
        The drawn bars, shortest code first.
    texts_ : list of matplotlib Text
        The switching regret and its upper bound, to the right of each bar.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Theorem 1, which bounds both terms.

    Examples
    --------
    >>> from sklearn_mdl.display import RegretSplitDisplay
    >>> RegretSplitDisplay({"a": 110.0, "b": 104.0}, 100.0).frame()
              codelength  learning  switching  upper_bound
    strategy
    b              104.0     100.0        4.0      NaN
    a              110.0     100.0       10.0      NaN
    """

    def __init__(
        self,
        codelengths: Mapping[str, float],
        learning: float,
        upper_bounds: Mapping[str, float] | None = None,
        *,
        sequence_name: str = "best sequence",
    ) -> None:
        self.names = list(codelengths)
        own = list(codelengths.values())
        (self.codelengths,) = base.vectors(self.names, codelengths=own)
        self.learning = float(learning)
        nats = [self.learning, *self.codelengths.tolist()]
        if not np.isfinite(nats).all():
            cure = "for infinite losses, pass np.minimum(losses, 50)"
            raise invalid("learning and codelengths", "finite", nats, cure)
        if upper_bounds is None:
            upper_bounds = dict.fromkeys(self.names, np.nan)
        if set(upper_bounds) != set(self.names):
            required, given = f"one bound for each of {self.names}", dict(upper_bounds)
            raise invalid("upper_bounds", required, given, "pass np.nan if unknown")
        bounds = [upper_bounds[name] for name in self.names]
        self.upper_bounds = np.array(bounds, dtype=np.float64)
        self.sequence_name = sequence_name
        self._order = np.argsort(self.codelengths, kind="stable")

    @classmethod
    def from_losses(
        cls,
        losses: ArrayLike,
        strategies: Strategies | None = None,
        *,
        n_blocks: int = 3,
        weights: ArrayLike | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the codelengths of strategies on the same losses.

        Parameters
        ----------
        losses : array-like of shape (n_samples, n_readouts)
            In nats: ``readout_losses_`` of a switcher, or losses from a file.
        strategies : mapping of str to SwitchingPrior, optional
            Priors, or names of priors, keyed by the names on the axis. By default the
            paper's priors, the learned share and the run-length prior.
        n_blocks : int, default=3
            Largest number of blocks in the sequence to compare with.
        weights : array-like of shape (n_readouts,), optional
            Prior weights of the readouts (uniform if not given).
        **plot_options : optional
            Passed to `plot`.
        """
        curves = mix(losses, strategies, weights)
        readouts, block_losses = best_blocks(losses, n_blocks)
        upper_bounds = {
            name: switching.sequence_cost(prior, readouts, np.shape(losses)[1], weights)
            for name, prior in _or_default(strategies).items()
        }
        codelengths = {name: float(curve.sum()) for name, curve in curves.items()}
        name = f"best {n_blocks} blocks" if n_blocks > 1 else "best readout"
        display = cls(codelengths, block_losses.sum(), upper_bounds, sequence_name=name)
        return display.plot(**plot_options)

    @classmethod
    def from_estimator(
        cls,
        estimator: base.Switcher,
        strategies: Strategies | None = None,
        **options: Any,
    ) -> Self:
        """Draw the codelengths of strategies on a switcher's losses.

        The prior weights of the readouts are those of the switcher.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher
            A fitted switcher.
        strategies, **options : optional
            Passed to `from_losses`.
        """
        base.check_fitted(estimator, "readout_losses_")
        losses, weights = estimator.readout_losses_, estimator.readout_weights_
        return cls.from_losses(losses, strategies, weights=weights, **options)

    def plot(self, ax: base.Axes | None = None) -> Self:
        """Draw a bar for each strategy, with the shortest code on top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure.

        Returns
        -------
        display : RegretSplitDisplay
            The display itself.
        """
        n_strategies = len(self.names)
        width = 5.0 + base.CHARACTER * base.longest(self.names)
        ax = self._use_axes(ax, width, 1.4 + 0.3 * n_strategies)
        order, rows = self._order, np.arange(n_strategies)
        switching = self.codelengths[order] - self.learning
        left = ax.barh(rows, self.learning, color=base.COLOURS[5])
        right = ax.barh(rows, switching, left=self.learning, color=base.COLOURS[1])
        self.bars_ = {"learning": left, "switching": right}
        words = map(_words, switching, self.upper_bounds[order])
        self.texts_ = [self._beside(row, text) for row, text in enumerate(words)]
        self._beside(-1, "switching")
        base.name_ticks(ax.yaxis, [self.names[i] for i in order])
        ax.set_ylim(n_strategies - 0.4, -0.6)
        ax.set_xlabel("codelength (nats)")
        ax.tick_params("y", length=0)
        ax.spines[["right", "top"]].set_visible(False)
        labels = [f"learning ({self.sequence_name})", "switching"]
        base.put_legend(ax, self.bars_.values(), labels, below=True)
        return self

    def _beside(self, row: float, words: str) -> base.Annotation:
        """Write words to the right of the axes in the given row."""
        edge = self.ax_.get_yaxis_transform()
        return base.note(self.ax_, words, (1.0, row), (4, 0), xycoords=edge)

    def frame(self) -> base.DataFrame:
        """Return the parts in nats as a DataFrame, shortest code first."""
        order = self._order
        table = {
            "strategy": [self.names[i] for i in order],
            "codelength": self.codelengths[order],
            "learning": np.full(len(order), self.learning),
            "switching": self.codelengths[order] - self.learning,
            "upper_bound": self.upper_bounds[order],
        }
        return base.data_frame(table, "strategy")


def _words(nats: float, upper_bound: float) -> str:
    bound = f" (≤ {upper_bound:.1f})" if np.isfinite(upper_bound) else ""
    return f"{nats:+z.1f}{bound}"


Strategies = Mapping[str, switching.SwitchingPrior | switching.PriorName]


def _or_default(strategies: Strategies | None) -> Strategies:
    """Return the strategies, or six default strategies if ``strategies`` is None."""
    if strategies is None:
        return {
            "learned share": switching.LearnedShare(),
            "fixed share, m = 2": switching.FixedShare(m=2),
            "switch distribution": switching.SwitchDistribution(),
            "run length": switching.RunLength(),
            "Bayesian mixture": switching.BayesMixture(),
            "elementwise mixture": switching.ElementwiseMixture(),
        }
    if not strategies:
        raise invalid("strategies", "non-empty", strategies, "pass strategies=None")
    return strategies


def mix(
    losses: ArrayLike, strategies: Strategies | None, weights: ArrayLike | None
) -> dict[str, Floats]:
    """Return each strategy's codelength of every example, in nats, keyed by name."""
    return {
        name: np.array(switching.forward(prior, losses, weights).codelengths)
        for name, prior in _or_default(strategies).items()
    }


def best_blocks(losses: ArrayLike, n_blocks: int) -> tuple[NDArray[np.intp], Floats]:
    """Find the best sequence of at most `n_blocks` blocks, each with one readout.

    Returns
    -------
    readouts : ndarray of shape (N,)
        Index of the sequence's readout at each example.
    losses : ndarray of shape (N,)
        Loss of this readout, in nats.
    """
    readouts = switching.best_segments(losses, n_blocks).experts
    chosen = np.take_along_axis(np.asarray(losses), readouts[:, None], axis=1)[:, 0]
    return readouts, chosen.astype(np.float64)
