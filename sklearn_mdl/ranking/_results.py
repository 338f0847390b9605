"""Results that print as tables with the names of encoders and datasets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pandas import DataFrame

Pairs = NDArray[np.intp]

MOST_ROWS = 20  # largest number of rows in a printed table


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedResult(ABC):
    """A result about encoders that prints as a table.

    Attributes
    ----------
    encoder_names, dataset_names : sequence of str
        Names of the columns and rows of the table of scores. If empty, results show
        indices.
    """

    encoder_names: Sequence[str] = ()
    dataset_names: Sequence[str] = ()

    @abstractmethod
    def _columns(self) -> Mapping[str, Sequence[object]]:
        """Return the columns of the table, all of the same length."""

    def named(self, encoders: Sequence[str], datasets: Sequence[str]) -> Self:
        """Return a copy with the names of encoders and datasets.

        Parameters
        ----------
        encoders, datasets : sequence of str
        """
        return replace(self, encoder_names=list(encoders), dataset_names=list(datasets))

    def to_frame(self) -> DataFrame:
        """Return the table as a pandas DataFrame.

        Raises
        ------
        ImportError
            If pandas is not installed. The extra ``plot`` includes it.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise ImportError(
                "to_frame requires pandas, which is not installed; run pip "
                'install "sklearn-mdl[plot]"'
            ) from error
        return DataFrame(dict(self._columns()))

    def __repr__(self) -> str:
        """Return the settings and the first rows of the table."""
        columns = self._columns()
        rows = list(zip(*columns.values(), strict=True))
        texts = [list(columns), *([_text(x) for x in row] for row in rows[:MOST_ROWS])]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        settings = [f"{n}={x:g}" for n, x in values.items() if isinstance(x, Real)]
        lines = [f"{type(self).__name__}({', '.join(settings)})"]
        lines += ["  ".join(["", *map(_pad, row, widths)]).rstrip() for row in texts]
        if len(rows) > MOST_ROWS:
            lines.append(f"  {MOST_ROWS} of {len(rows)} rows: call to_frame() for all")
        return "\n".join(lines)

    def _encoders(self, places: Sequence[int] | Pairs) -> list[object]:
        return [self.encoder_names[i] if self.encoder_names else int(i) for i in places]

    def _datasets(self, places: Sequence[int] | Pairs) -> list[object]:
        return [self.dataset_names[i] if self.dataset_names else int(i) for i in places]

    def _values(self, *names: str) -> dict[str, list[object]]:
        """Return attributes as columns, flattening tables row by row."""
        return {name: np.ravel(getattr(self, name)).tolist() for name in names}

    def _by_pair(self, pairs: Pairs, *names: str) -> dict[str, list[object]]:
        """Return the two encoders of each pair and per-pair attributes as columns."""
        ends = {"first": pairs[:, 0], "second": pairs[:, 1]}
        columns = {name: self._encoders(places) for name, places in ends.items()}
        return {**columns, **self._values(*names)}

    def _by_cell(self, *names: str) -> dict[str, list[object]]:
        """Return the dataset, encoder and attributes of each table cell as columns."""
        shape = np.shape(getattr(self, names[0]))
        datasets, encoders = np.indices(shape).reshape(2, -1)
        return {
            "dataset": self._datasets(datasets),
            "encoder": self._encoders(encoders),
            **self._values(*names),
        }


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _pad(text: str, width: int) -> str:
    number = text.lstrip("-")
    is_number = number[:1].isdigit() or number in ("nan", "inf")
    return text.rjust(width) if is_number else text.ljust(width)
