"""Several measures of several encoders side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from sklearn_mdl.protocols.measuring import ACCURACY, Protocol
from sklearn_mdl.protocols.text import as_text

Floats = NDArray[np.float64]
Place = tuple[str, str, str]  # dataset, encoder, protocol


@dataclass(frozen=True)
class ProtocolComparison:
    """What protocols say of encoders, on one dataset or on several.

    Printed, it is a table; in a notebook, a data frame.

    Attributes
    ----------
    dataset_names, encoder_names : tuple of str
        References stand last among encoders; they have values and no ranks.
    protocols : tuple of Protocol
        Each with ``name``, ``title``, ``unit`` and ``greater_is_better``.
    values : ndarray of shape (n_datasets, n_encoders, n_protocols)
        NaN where a protocol could not be computed.
    is_bound : ndarray of shape (n_datasets, n_encoders, n_protocols), bool
        Whether a value is a lower bound, since the curve it is read off ends too early.
    seconds : ndarray of shape (n_datasets, n_encoders, n_protocols)
        Wall time. What is read off one walk has the time of that walk.
    encoding_seconds : ndarray of shape (n_datasets, n_encoders)
        Wall time of features; 0 where they were given.
    reasons : dict of (dataset, encoder, protocol) to str
        Why there is no value.
    notes : dict of (dataset, encoder, protocol) to list of str
        Warnings on the way.
    n_train, n_test, n_classes : tuple of int
        Rows learned and coded, rows on which accuracy is taken, and classes among the
        former, by dataset.
    epsilons : tuple of float
        The loss that is good enough for surplus description length and sample
        complexity, in nats a label, by dataset.
    n_references : int
        Rows that are no encoder.
    """

    dataset_names: tuple[str, ...]
    encoder_names: tuple[str, ...]
    protocols: tuple[Protocol, ...]
    values: Floats
    is_bound: NDArray[np.bool_]
    seconds: Floats
    encoding_seconds: Floats
    reasons: dict[Place, str]
    notes: dict[Place, list[str]]
    n_train: tuple[int, ...]
    n_test: tuple[int, ...]
    n_classes: tuple[int, ...]
    epsilons: tuple[float, ...]
    n_references: int = 0

    @property
    def ranks(self) -> Floats:
        """Ranks of encoders, 1 is best and ties share, of the shape of ``values``.

        NaN for references, and for all encoders where one of them has no value: ranks
        over unequal sets mean nothing.
        """
        found = np.full(self.values.shape, np.nan)
        n_ranked = len(self.encoder_names) - self.n_references
        for d, p in np.ndindex(len(self.dataset_names), len(self.protocols)):
            column = self.values[d, :n_ranked, p]
            if not np.isnan(column).any():
                sign = -1 if self.protocols[p].greater_is_better else 1
                found[d, :n_ranked, p] = rankdata(sign * column)
        return found

    @property
    def average_ranks(self) -> Floats:
        """Mean over datasets of the ranks, (n_encoders, n_protocols).

        NaN where a rank is on any dataset.
        """
        mean: Floats = self.ranks.mean(0)
        return mean

    @property
    def average_places(self) -> Floats:
        """Places by average ranks, (n_encoders, n_protocols); equals share the better.

        NaN where the average rank is.
        """
        found: Floats = rankdata(
            self.average_ranks, method="min", axis=0, nan_policy="omit"
        )
        return found

    def summary(self) -> str:
        """Return values, ranks, wall times and what was not computed, as text."""
        return as_text(self)

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary()

    def frame(self, dataset: str | None = None) -> Any:
        """Values and ranks of one dataset as a pandas DataFrame.

        Parameters
        ----------
        dataset : str, default=None
            May be left out if there is one only.

        Returns
        -------
        frame : DataFrame
            A row for each encoder; for each protocol a column of its name and one of
            its name and " rank".

        Raises
        ------
        ValueError
            If there are several datasets and none is named, or if it is not there.
        ImportError
            If pandas is not installed.
        """
        d = self._dataset(dataset)
        columns = {}
        for p, protocol in enumerate(self.protocols):
            columns[protocol.name] = self.values[d, :, p]
            columns[f"{protocol.name} rank"] = self.ranks[d, :, p]
        return self._as_frame(columns)

    def seconds_frame(self, dataset: str | None = None) -> Any:
        """Wall times of one dataset in seconds, as :meth:`frame` has its values."""
        d = self._dataset(dataset)
        columns = {"encoding": self.encoding_seconds[d]}
        for p, protocol in enumerate(self.protocols):
            columns[protocol.name] = self.seconds[d, :, p]
        return self._as_frame(columns)

    def average_frame(self) -> Any:
        """Average ranks over datasets, and their places, as a pandas DataFrame.

        Returns
        -------
        frame : DataFrame
            A row for each encoder; for each protocol the average rank and, under its
            name and " #", the place by it. Accuracies have their mean over datasets
            beside it, under " mean": accuracies of unlike tasks are not commensurable,
            and their order may be another.
        """
        columns = {}
        for p, protocol in enumerate(self.protocols):
            if protocol.unit == ACCURACY:
                columns[f"{protocol.name} mean"] = self.values[:, :, p].mean(0)
            columns[protocol.name] = self.average_ranks[:, p]
            columns[f"{protocol.name} #"] = self.average_places[:, p]
        return self._as_frame(columns)

    def _dataset(self, name: str | None) -> int:
        names = list(self.dataset_names)
        if name is None and len(names) == 1:
            return 0
        if name not in names:
            raise ValueError(
                f"dataset must be one of {names}, got {name!r}; or take average_frame()"
            )
        return names.index(name)

    def _as_frame(self, columns: dict[str, Any]) -> Any:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "A frame needs pandas, which is not installed; install it with "
                'pip install "sklearn_mdl[plot]"'
            ) from error
        index = pd.Index(self.encoder_names, name="encoder")
        return pd.DataFrame(columns, index=index)

    def _repr_html_(self) -> str:
        single = len(self.dataset_names) == 1
        html: str = (self.frame() if single else self.average_frame()).to_html()
        return html
