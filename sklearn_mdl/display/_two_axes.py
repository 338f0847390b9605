"""Labels that embeddings should reveal, and batches that they should not."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl.display import _base as base

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


class TwoAxesDisplay(base.Display):
    """Nats of labels against nats of batches, for each encoder.

    Good embeddings have a short code of the labels and a long code of the batches: they
    lie at the lower right. Nulls are drawn as lines: codes of the frequencies alone,
    and for batches that of their frequencies within each label, which is as long as a
    code can be if embeddings reveal labels and nothing else.

    Parameters
    ----------
    names : sequence of length n_encoders
    label_nats, batch_nats : array-like of shape (n_encoders,)
        Nats per row.
    nulls : mapping
        Nats per row of codes that see no embeddings: "label", "batch" and "batch given
        label".

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the points were drawn last.

    Examples
    --------
    >>> from sklearn_mdl.display import TwoAxesDisplay
    >>> nulls = {"label": 1.1, "batch": 0.7, "batch given label": 0.6}
    >>> display = TwoAxesDisplay(["raw", "mixed"], [0.2, 0.3], [0.1, 0.6], nulls)
    >>> float(display.frame().loc["mixed", "batch"])
    0.6
    """

    def __init__(
        self,
        names: Sequence[Hashable],
        label_nats: ArrayLike,
        batch_nats: ArrayLike,
        nulls: Mapping[str, float],
    ) -> None:
        self.names = [str(name) for name in names]
        self.label_nats = base.vector(label_nats, "label_nats")
        self.batch_nats = base.vector(batch_nats, "batch_nats")
        self.nulls = dict(nulls)
        lengths = {len(self.names), len(self.label_nats), len(self.batch_nats)}
        if len(lengths) > 1 or set(nulls) != {"label", "batch", "batch given label"}:
            raise ValueError(
                "`names`, `label_nats` and `batch_nats` must be of one length, with "
                "nulls for 'label', 'batch' and 'batch given label', got lengths "
                f"{sorted(lengths)} and nulls {sorted(nulls)}: give all of them."
            )

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw a point for each encoder, and the nulls as lines.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        display : TwoAxesDisplay
            The display itself.
        """
        ax = self._use_axes(ax, 6.0, 4.5)
        ax.scatter(self.batch_nats, self.label_nats, color="C0", zorder=3)
        for name, x, y in zip(
            self.names, self.batch_nats, self.label_nats, strict=True
        ):
            ax.annotate(name, (x, y), (4, 4), textcoords="offset points")
        ax.axhline(
            self.nulls["label"], color="0.5", linestyle="--", label="no features"
        )
        ax.axvline(self.nulls["batch"], color="0.5", linestyle="--")
        within = self.nulls["batch given label"]
        ax.axvline(within, color="0.5", linestyle=":", label="batch given label")
        ax.set(
            xlabel="nats per row of the batch (more is better)",
            ylabel="nats per row of the label (less is better)",
            xlim=(0.0, None),
            ylim=(0.0, None),
        )
        ax.margins(0.1)
        ax.legend(loc="best", frameon=False)
        return self

    def frame(self) -> DataFrame:
        """Return nats per row: one line for each encoder, then the nulls."""
        table = {"label": self.label_nats, "batch": self.batch_nats}
        found = base.data_frame({"encoder": self.names, **table}, "encoder")
        for name in ("no features", "batch given label"):
            batch = self.nulls["batch" if name == "no features" else name]
            label = self.nulls["label"] if name == "no features" else np.nan
            found.loc[name] = [label, batch]
        return found
