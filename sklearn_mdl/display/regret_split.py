"""What switching strategies pay for learning, and what for switching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.display import canvas
from sklearn_mdl.display.strategies import Strategies, best_blocks, mix, prior_costs


class RegretSplitDisplay:
    """Codelengths of switching strategies, split into learning and switching.

    Learning is what the best sequence of a few blocks of one readout each costs, chosen
    with hindsight: even who knows which readout to follow when must pay it. Switching
    is what a strategy pays beyond, for not knowing. It is never more than minus the log
    probability of this sequence under the prior of the strategy. It is below zero where
    a strategy has beaten the sequence, as it may if that has few blocks.

    Parameters
    ----------
    codelengths : mapping of str to float
        Codelength of each strategy, in nats.
    learning : float
        What the best sequence costs, in nats.
    at_most : mapping of str to float, optional
        What the prior of each strategy asks for this sequence, in nats; infinity where
        it excludes the sequence. By default unknown.
    sequence_name : str, default="best sequence"
        What the sequence is called.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the bars were drawn last.
    bars_ : dict of {"learning", "switching"} to matplotlib BarContainer
        The drawn bars, the shortest code first.
    texts_ : list of matplotlib Text
        What switching costs, and costs at most, beside each bar.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Section 3, Theorem 1: its two terms, of which the
    second is taken here with what no learning could save.

    Examples
    --------
    >>> from sklearn_mdl.display import RegretSplitDisplay
    >>> RegretSplitDisplay({"a": 110.0, "b": 104.0}, 100.0).frame()
              codelength  learning  switching  at_most
    strategy
    b              104.0     100.0        4.0      NaN
    a              110.0     100.0       10.0      NaN
    """

    def __init__(
        self,
        codelengths: Mapping[str, float],
        learning: float,
        at_most: Mapping[str, float] | None = None,
        *,
        sequence_name: str = "best sequence",
    ) -> None:
        self.names = list(codelengths)
        self.codelengths = canvas.vector(list(codelengths.values()), "`codelengths`")
        self.learning = float(learning)
        if not (np.isfinite(self.learning) and np.isfinite(self.codelengths).all()):
            raise ValueError(
                "`learning` and all codelengths must be finite, got "
                f"{learning!r} and {self.codelengths.tolist()}: give nats."
            )
        bounds = dict.fromkeys(self.names, np.nan) if at_most is None else at_most
        if set(bounds) != set(self.names):
            raise ValueError(
                f"`at_most` must name the strategies {self.names}, got {list(bounds)}: "
                "give one bound for each."
            )
        self.at_most = np.array([bounds[name] for name in self.names], dtype=np.float64)
        self.sequence_name = sequence_name

    @classmethod
    def from_losses(
        cls,
        losses: ArrayLike,
        strategies: Strategies | None = None,
        *,
        n_blocks: int = 3,
        weights: ArrayLike | None = None,
        ax: Any = None,
    ) -> RegretSplitDisplay:
        """Draw strategies that read the same losses.

        Parameters
        ----------
        losses : array-like of shape (n_samples, n_readouts)
            In nats: ``readout_losses_`` of a switcher, or losses out of a file.
        strategies : mapping of str to SwitchingPrior, optional
            Priors, or their names, under the names that the axis shows; by default
            those of the paper, the learned share and the run-length prior.
        n_blocks : int, default=3
            Largest number of blocks of the sequence to compare with.
        weights : array-like of shape (n_readouts,), optional
            Prior weights of the readouts; uniform if not given.
        ax : matplotlib Axes, optional
            Passed to `plot`.
        """
        curves = mix(losses, strategies, weights)
        blocks = best_blocks(losses, n_blocks)
        n_readouts = np.shape(losses)[1]
        name = f"best {n_blocks} blocks" if n_blocks > 1 else "best readout"
        display = cls(
            {name: float(curve.sum()) for name, curve in curves.items()},
            float(blocks.losses.sum()),
            prior_costs(strategies, blocks.readouts, n_readouts, weights),
            sequence_name=name,
        )
        return display.plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, strategies: Strategies | None = None, **options: Any
    ) -> RegretSplitDisplay:
        """Draw strategies that read the losses of a switcher, with its prior weights.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher
            A fitted one.
        strategies, **options : optional
            Passed to `from_losses`.
        """
        losses = canvas.fitted(estimator, "readout_losses_")
        weights = estimator.expert_weights_
        return cls.from_losses(losses, strategies, weights=weights, **options)

    def plot(self, ax: Any = None) -> RegretSplitDisplay:
        """Draw a bar for each strategy, the shortest code on top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        display : RegretSplitDisplay
            The display itself.
        """
        n_strategies = len(self.names)
        if ax is None:
            width = 5.0 + 0.075 * max(map(len, self.names))
            ax = canvas.new_axes(width, 1.4 + 0.3 * n_strategies)
        self.ax_, self.figure_ = ax, ax.figure
        order, rows = self._order(), np.arange(n_strategies)
        learning = np.full(n_strategies, self.learning)
        switching = self.codelengths[order] - learning
        colours = canvas.COLOURS[5], canvas.COLOURS[1]
        self.bars_ = {
            "learning": ax.barh(rows, learning, color=colours[0]),
            "switching": ax.barh(rows, switching, left=learning, color=colours[1]),
        }
        self.texts_ = [
            self._beside(row, _words(nats, self.at_most[i]))
            for row, nats, i in zip(rows, switching, order, strict=True)
        ]
        self._beside(-1, "switching")
        canvas.name_ticks(ax.yaxis, [self.names[i] for i in order])
        ax.set_ylim(n_strategies - 0.4, -0.6)
        ax.set_xlabel("codelength (nats)")
        ax.tick_params("y", length=0)
        ax.spines[["right", "top"]].set_visible(False)
        labels = [f"learning ({self.sequence_name})", "switching"]
        canvas.put_legend(ax, list(self.bars_.values()), labels, below=True)
        return self

    def _beside(self, row: Any, words: str) -> Any:
        """Write words to the right of the axes in the given row."""
        return self.ax_.annotate(
            words,
            (1.0, row),
            xycoords=self.ax_.get_yaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )

    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self.codelengths, kind="stable")

    def frame(self) -> Any:
        """Return the parts in nats as a DataFrame, the shortest code first."""
        order = self._order()
        table = {
            "strategy": [self.names[i] for i in order],
            "codelength": self.codelengths[order],
            "learning": np.full(len(order), self.learning),
            "switching": self.codelengths[order] - self.learning,
            "at_most": self.at_most[order],
        }
        return canvas.plot_extra("pandas").DataFrame(table).set_index("strategy")


def _words(nats: float, at_most: float) -> str:
    bound = f" (≤ {at_most:.1f})" if np.isfinite(at_most) else ""
    return f"{nats:+z.1f}{bound}"
