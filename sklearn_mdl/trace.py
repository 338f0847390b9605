"""What a walk leaves behind: every readout's loss at every example, and their reading.

In memory or on disk, since ``N x K`` can be larger than memory.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from sklearn_mdl.growing import GrowingArray


class PrequentialTrace:
    """Losses, codelengths and posterior of a walk, all in nats and by example.

    Parameters
    ----------
    n_readouts : int
        Number ``K`` of readouts.
    store : "memory" or path-like
        A directory for ``losses.npy`` and ``posterior.npy``, or "memory".
    n_kept : int, default=3
        Numbers that are kept of every prediction of the mixture.

    Attributes
    ----------
    losses : ndarray of shape (N, K)
        ``-log p_k(y_t | past)``.
    codelengths : ndarray of shape (N,)
        ``-log p(y_t | past)`` of the mixture.
    posterior : ndarray of shape (N, K)
        ``p(readout at t | labels before t)``.
    digests : ndarray of shape (N, n_kept)
        What the measures need of the mixture's predictions; always in memory.
    description : str or None
        Text that says whose losses these are; it stands in ``losses.json`` from the
        first row on.
    """

    def __init__(
        self,
        n_readouts: int,
        store: str | PathLike[str] = "memory",
        n_kept: int = 3,
    ) -> None:
        self.description: str | None = None
        self._folder = folder = None if store == "memory" else Path(store)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._losses = GrowingArray(n_readouts, folder and folder / "losses.npy")
        self._posterior = GrowingArray(n_readouts, folder and folder / "posterior.npy")
        self._codelengths = GrowingArray(None)
        self._digests = GrowingArray(n_kept)
        self._n_readouts = n_readouts
        self._n_kept = n_kept
        self._n_before = 0

    def __len__(self) -> int:
        """Return the number of examples."""
        return self._n_before + self._codelengths.n_rows

    def branch(self) -> PrequentialTrace:
        """Return a trace in memory for what follows; it counts these examples too."""
        other = PrequentialTrace(self._n_readouts, n_kept=self._n_kept)
        other._n_before = len(self)
        return other

    def append(
        self,
        losses: np.ndarray,
        codelengths: np.ndarray,
        posterior: np.ndarray,
        digests: np.ndarray,
    ) -> None:
        """Add a segment of n rows, in the shapes of the attributes."""
        if self._folder is not None and not len(self):
            self._describe(self._folder)
        self._losses.append(losses)
        self._posterior.append(posterior)
        self._digests.append(digests)
        self._codelengths.append(codelengths)

    def check_room(self, n_rows: int, available: int | None) -> None:
        """Refuse so many rows more if they cannot be kept in memory.

        Raises
        ------
        MemoryError
            If losses and posterior would need more bytes than are ``available``; None
            is unknown.
        """
        n_own = self._losses.n_rows + n_rows
        needed = 2 * 8 * n_own * self._n_readouts
        if self._folder is None and available is not None and needed > available:
            raise MemoryError(
                f"Losses and posterior of {n_own} examples and "
                f"{self._n_readouts} readouts need {needed / 1e9:.3g} GB, but there "
                f"are {available / 1e9:.3g} GB of memory; pass store=path to keep them "
                "on disk"
            )

    def adopt(self, n_rows: int) -> None:
        """Take the first losses and posteriors in the store for those of this trace.

        Codelengths and digests must follow (:meth:`account`).

        Raises
        ------
        ValueError
            If the store does not hold so many rows of so many readouts.
        """
        self._losses.adopt(n_rows)
        self._posterior.adopt(n_rows)

    def account(self, codelengths: np.ndarray, digests: np.ndarray) -> None:
        """Add codelengths and digests of rows whose losses were adopted."""
        self._codelengths.append(codelengths)
        self._digests.append(digests)

    def secure(self) -> None:
        """See that all that was added is on the disk, if that is where it goes."""
        self._losses.secure()
        self._posterior.secure()

    def _describe(self, folder: Path) -> None:
        # Losses of an earlier stream go first: they never stand under another's names.
        (folder / "losses.npy").unlink(missing_ok=True)
        sidecar = folder / "losses.json"
        sidecar.unlink(missing_ok=True)
        if self.description is not None:
            sidecar.write_text(self.description, encoding="utf-8")

    @property
    def files(self) -> list[Path]:
        """The files that this trace writes; none in memory."""
        names = ("losses.npy", "losses.json", "posterior.npy")
        return [] if self._folder is None else [self._folder / name for name in names]

    @property
    def losses(self) -> np.ndarray:
        """Loss of every readout at every example, (N, K), in nats."""
        return self._losses.rows

    @property
    def codelengths(self) -> np.ndarray:
        """Codelength of every example under the mixture, (N,), in nats."""
        return self._codelengths.rows

    @property
    def posterior(self) -> np.ndarray:
        """Posterior over readouts before each label, (N, K)."""
        return self._posterior.rows

    @property
    def digests(self) -> np.ndarray:
        """Kept of the mixture, (N, n_kept).

        Of classes the most probable one, its probability and the sum of squared ones;
        of real numbers mean and standard deviation.
        """
        return self._digests.rows
