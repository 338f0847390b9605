"""The trace of a run, example by example, in memory or on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.stream_folder import StreamFolder
from sklearn_mdl._core.stream.coder import Block, Coded


class TraceShape(NamedTuple):
    """Sizes of a trace.

    Attributes
    ----------
    n_readouts : int
        Number ``K`` of readouts.
    n_groups : int
        Number ``G`` of pooled groups, or 0 without a pool.
    n_kept : int
        Length of the stored summary of a prediction of the mixture.
    n_numbers : int
        Size ``Q`` of a group's prediction, or 0 if such predictions are not stored.
    label_dtype : str
        Dtype of the labels, which are stored only with predictions of groups.
    """

    n_readouts: int
    n_groups: int = 0
    n_kept: int = 3
    n_numbers: int = 0
    label_dtype: str = "<i8"


class PrequentialTrace:
    """Losses and codelengths of a run's examples in nats, and its posterior.

    Parameters
    ----------
    shape : TraceShape
    folder : StreamFolder or None
        Folder of the files, such as ``losses.npy``. If None, rows stay in memory.

    Attributes
    ----------
    losses : ndarray of shape (N, K)
        ``-log p_k(y_t | past)``.
    posterior : ndarray of shape (N, K)
        ``p(readout at t | labels known at t)``.
    known : ndarray of shape (N + 1,)
        Number of known labels when each row was predicted, and after the last row.
    codes, shares, pool_weights : ndarray
        As in :class:`Coded`; always in memory, like `summaries`.
    summaries : ndarray of shape (N, n_kept)
        Summaries of the mixture's predictions for measures. For classes, the most
        probable class, its probability and the sum of squared probabilities. For real
        labels, mean and standard deviation.
    refusal : OSError or None
        Error of the last attempt to write rows, which are then still in memory. None
        if the attempt succeeded.
    """

    def __init__(self, shape: TraceShape, folder: StreamFolder | None = None) -> None:
        self.shape = shape
        self.folder = folder
        self.refusal: OSError | None = None
        # Files are written in this order, so rows with losses also have mixtures.
        columns: dict[str, tuple[int | tuple[int, ...] | None, str]] = {}
        if shape.n_numbers:
            columns["mixtures"] = (shape.n_groups, shape.n_numbers), "<f8"
            columns["labels"] = None, shape.label_dtype
        columns["known"] = None, "<i8"
        columns["losses"] = columns["posterior"] = (shape.n_readouts,), "<f8"
        self._files: dict[str, GrowingArray] = {}
        for name, (width, dtype) in columns.items():
            path = None if folder is None else Path(f"{name}.npy")
            self._files[name] = GrowingArray(width, path, dtype=dtype, folder=folder)
        self._waiting: list[dict[str, np.ndarray]] = []
        self._numbers = {
            "codes": GrowingArray(3),
            "shares": GrowingArray(2),
            "pool_weights": GrowingArray(shape.n_groups),
            "summaries": GrowingArray(shape.n_kept),
        }
        self._n_before = 0

    def __len__(self) -> int:
        """Return the number of examples."""
        return self._n_before + self._numbers["codes"].n_rows

    def branch(self) -> PrequentialTrace:
        """Return a trace in memory for later rows. Its length includes earlier rows."""
        branch = PrequentialTrace(self.shape._replace(n_numbers=0))
        branch._n_before = len(self)
        return branch

    def append(self, block: Block, coded: Coded, summaries: np.ndarray) -> None:
        """Add a block of n rows with their codes and summaries (n, n_kept).

        Rows that cannot be written stay in memory, since learners have learned them.

        Raises
        ------
        ValueError
            If another stream has written to the files.
        """
        columns = {**block._asdict(), **coded._asdict(), "summaries": summaries}
        self.account(columns)
        self.append_files({**columns, "known": block.known[:-1]})

    def append_files(self, given: Mapping[str, np.ndarray]) -> None:
        """Add rows to the files, without the numbers that :meth:`account` adds."""
        self._waiting.append({name: given[name] for name in self._files})
        try:
            self.write_waiting()
        except OSError as error:
            self.refusal = error

    def account(self, numbers: Mapping[str, np.ndarray]) -> None:
        """Append, for further rows, the numbers that are always kept in memory."""
        for name, kept in self._numbers.items():
            kept.append(numbers[name])

    def numbers(self) -> dict[str, np.ndarray]:
        """Return the numbers that :meth:`account` has added."""
        return {name: kept.rows for name, kept in self._numbers.items()}

    def write_waiting(self) -> None:
        """Write the rows that are still waiting to be written.

        Raises
        ------
        OSError
            If they cannot be written.
        """
        while self._waiting:
            n_rows = self._files["losses"].n_rows
            try:
                for name, rows in self._waiting[0].items():
                    self._files[name].append(rows)
            except BaseException:
                for file in self._files.values():
                    file.cut(min(n_rows, file.n_rows))
                raise
            self._waiting.pop(0)
        self.refusal = None

    def check_room(self, n_rows: int, available: int | None) -> None:
        """Raise if the trace with ``n_rows`` more rows would not fit into memory.

        Raises
        ------
        MemoryError
            If the trace is in memory and needs more bytes than are ``available``. There
            is no limit if ``available`` is None.
        """
        n_own = self._files["losses"].n_rows + n_rows
        needed = n_own * sum(file.row_bytes for file in self._files.values())
        if self.folder is None and available is not None and needed > available:
            raise MemoryError(
                f"Losses and posterior of {n_own} examples (readouts: "
                f"{self.shape.n_readouts}) need {needed / 1e9:.3g} GB, but there are "
                f"{available / 1e9:.3g} GB of memory; pass store=path to a switcher to "
                "keep them on disk"
            )

    def record(self) -> Json:
        """Flush the files to disk, and return the record that :meth:`adopt` checks."""
        self.write_waiting()
        for file in self._files.values():
            file.secure()
        digests = {name: file.digest() for name, file in self._files.items()}
        return {"stream": None if self.folder is None else self.folder.stream} | digests

    def adopt(self, n_rows: int, record: Json) -> None:
        """Adopt the first rows in the files.

        Call :meth:`account` afterwards to add codelengths and summaries. No file is
        written.

        Raises
        ------
        ValueError
            If the folder belongs to another stream, or a file is too short, has another
            number of readouts, or is damaged.
        """
        if missing := sorted(self._files.keys() - record.keys()):
            raise ValueError(
                f"A checkpoint must contain {missing[0]} of earlier rows to continue "
                'their trace, but it does not; omit "mixtures" from store, or pass '
                "another folder"
            )
        if self.folder is not None:
            self.folder.adopt(record["stream"])
        for name, file in self._files.items():
            file.adopt(n_rows, record[name])

    @property
    def losses(self) -> np.ndarray:
        """Losses (N, K) of all readouts at all examples, in nats."""
        return self.file("losses")

    @property
    def posterior(self) -> np.ndarray:
        """Posterior (N, K) over readouts before each label."""
        return self.file("posterior")

    @property
    def known(self) -> np.ndarray:
        """Number (N + 1,) of known labels at each example and at the end."""
        return np.append(self.file("known"), len(self))

    @property
    def keeps_mixtures(self) -> bool:
        """True if predictions of groups are kept."""
        return "mixtures" in self._files

    def file(self, name: str) -> np.ndarray:
        """Return the rows of a file, such as "losses"."""
        self.write_waiting()
        return self._files[name].rows

    @property
    def codelengths(self) -> np.ndarray:
        """Codelengths (N,) of all examples as they were coded, in nats."""
        return self.codes[:, 0]

    @property
    def codes(self) -> np.ndarray:
        """Codelengths (N, 3) in nats: as coded, under switching and under the pool."""
        return self._numbers["codes"].rows

    @property
    def summaries(self) -> np.ndarray:
        """Summaries (N, n_kept) of the mixture's predictions."""
        return self._numbers["summaries"].rows
