"""Codelengths of labels against codelengths of batches."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base


class TwoAxesDisplay(base.Display):
    """Nats for labels against nats for batches, with a point for each encoder.

    Batches are groups of rows that were measured together, such as cells of one
    laboratory. Good embeddings, at the lower right, have a short code for labels and a
    long code for batches. Lines mark reference codes, which use frequencies instead of
    embeddings. The dotted line marks the code that predicts batches by their
    frequencies within each label. Embeddings that only reveal the label would lie near
    this line.

    Parameters
    ----------
    names : sequence of length n_encoders
    label_nats, batch_nats : array-like of shape (n_encoders,)
        Nats per row.
    nulls : mapping
        Nats per row without embeddings, keyed by "label", "batch" and "batch given
        label".

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.

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
        nats = {"label_nats": label_nats, "batch_nats": batch_nats}
        self.label_nats, self.batch_nats = base.vectors(self.names, **nats)
        self.nulls = dict(nulls)
        if set(nulls) != {"label", "batch", "batch given label"}:
            required = "a dict of 'label', 'batch' and 'batch given label'"
            raise invalid("nulls", required, self.nulls, "pass two_axes(...).nulls")

    def plot(self, ax: base.Axes | None = None) -> Self:
        """Draw a point for each encoder, and reference codes as lines.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure.

        Returns
        -------
        display : TwoAxesDisplay
            The display itself.
        """
        ax = self._use_axes(ax, 6.0, 4.5)
        ax.scatter(self.batch_nats, self.label_nats, color="C0", zorder=3)
        points = zip(self.batch_nats, self.label_nats, strict=True)
        for name, point in zip(self.names, points, strict=True):
            ax.annotate(name, point, (4, 4), textcoords="offset points")
        null: base.Style = {"color": "0.5", "linestyle": "--"}
        ax.axhline(self.nulls["label"], label="no features", **null)
        ax.axvline(self.nulls["batch"], **null)
        within = self.nulls["batch given label"]
        ax.axvline(within, color="0.5", linestyle=":", label="batch given label")
        ax.set(xlim=(0.0, None), ylim=(0.0, None))
        ax.set_xlabel("nats per row for the batch (more is better)")
        ax.set_ylabel("nats per row for the label (less is better)")
        ax.margins(0.1)
        ax.legend(loc="best", frameon=False)
        return self

    def frame(self) -> base.DataFrame:
        """Return nats per row as a DataFrame: encoders, and then reference codes."""
        nats = {"label": self.label_nats, "batch": self.batch_nats}
        table = base.data_frame({"encoder": self.names, **nats}, "encoder")
        table.loc["no features"] = [self.nulls["label"], self.nulls["batch"]]
        table.loc["batch given label"] = [np.nan, self.nulls["batch given label"]]
        return table
