"""Some readouts of a pass, evaluated where the others are not.

Their learners need nothing of other readouts. What the mixture of all needs of them are
their losses and, where groups are pooled, the predictions of each group's own mixture.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.io.safetensors_io import read_archive, write_archive
from sklearn_mdl._core.stream.checkpoint import Checkpoint, learned_of, restore
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.stream.outcomes import Prediction
from sklearn_mdl._core.stream.pooled import GroupMixer
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.storage import PrequentialTrace
from sklearn_mdl.switching import FixedShare

MIXER = "mixer."


class PartRun(PrequentialRun):
    """Some readouts of a pass, and what they leave of the rows of one round.

    Parameters
    ----------
    learners : list of Learner
    mixer : GroupMixer or None
        Of the groups of these readouts; None where nothing is pooled.
    **options
        As of :class:`PrequentialRun`.

    Attributes
    ----------
    start : int
        First row of the round.
    """

    def __init__(
        self, learners: Sequence[Learner], mixer: GroupMixer | None, **options: Any
    ) -> None:
        # Its prior is asked nothing: what is coded is mixed elsewhere.
        super().__init__(learners, FixedShare(), None, **options)
        self.mixer = mixer
        self.start = self._n_scored = 0
        self._losses = [np.empty((0, self.n_readouts))]
        self._mixtures = [np.empty((0, 0, 0))]

    @property
    def n_scored(self) -> int:
        """Number of rows evaluated so far."""
        return self._n_scored

    def check_length(self, n_rows: int) -> None:
        """Take streams of any length: a round is all that is kept."""

    def _mix(
        self, found: Sequence[tuple[np.ndarray, Prediction]], labels: Tensor
    ) -> None:
        """Keep losses of the readouts, and mixtures of their groups, on a segment."""
        losses = np.full((len(labels), self.n_readouts), np.nan)
        for learner, (columns, _) in zip(self.learners, found, strict=True):
            losses[:, learner.columns] = columns
        self._losses.append(losses)
        if self.mixer is not None:
            values = torch.cat([predicted.values for _, predicted in found])
            rows = values[np.argsort(self.columns)].swapaxes(0, 1).cpu().numpy()
            self._mixtures.append(self.mixer.mixtures(rows, losses))
        due = self.rows.next_refresh(self.n_scored)
        self._n_scored += len(labels)
        self.refresh(due)

    def drop(self, columns: list[int]) -> None:
        """Free what readouts have learned that have retired, and their groups."""
        super().drop(columns)
        if self.mixer is not None:
            self.mixer.retire(self.retirement.awake)

    def begin_round(self, start: int, retired: Sequence[int]) -> None:
        """Begin a round at a row, or go on in it; readouts retire before its first."""
        new = [k for k in retired if self.retirement.retired_at[k] < 0]
        if self.start < start == self.n_scored:
            self.start = start
            del self._losses[1:], self._mixtures[1:]
        if self.start != start or (new and self.n_scored != start):
            raise ValueError(
                f"A part must be in the round that begins at row {start}, but its file "
                f"is at row {self.n_scored} of the one from {self.start}; delete it"
            )
        if new:
            self.retirement.retired_at[new] = start
            self.drop(new)

    def progress(self) -> dict[str, np.ndarray]:
        """Everything that the others need of the round, and the next one of it."""
        state = {} if self.mixer is None else self.mixer.state_dict()
        return {
            **learned_of(self),
            "losses": np.concatenate(self._losses),
            "mixtures": np.concatenate(self._mixtures[1:] or self._mixtures),
            **{MIXER + name: array for name, array in state.items()},
            "retired_at": self.retirement.retired_at,
            "start": np.array([self.start]),
        }

    def resume(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go to where another run has written its progress."""
        self._n_scored = restore(self, arrays)
        self.start = int(arrays["start"][0])
        self._losses.append(np.array(arrays["losses"]))
        if self.mixer is None:
            return
        self._mixtures.append(np.array(arrays["mixtures"]))
        names = [name for name in arrays if name.startswith(MIXER)]
        self.mixer.load_state_dict({n.removeprefix(MIXER): arrays[n] for n in names})


class PartFile(Checkpoint):
    """The one file of a part: what it leaves, and from what it goes on.

    Parameters
    ----------
    file : Path
    about : mapping
        As of :class:`Checkpoint`.
    start : int
        First row of the round.
    retired : sequence of int
        Readouts that retire before it, among those of the part.

    Attributes
    ----------
    seconds : float
        CPU seconds of the round so far, but for reading and writing.
    """

    def __init__(
        self,
        file: Path,
        about: Mapping[str, object],
        start: int,
        retired: Sequence[int],
    ) -> None:
        super().__init__(file.parent, about)
        self.file = file
        self._round = start, retired
        self.seconds = 0.0
        self._since = time.process_time()

    def open(self, trace: PrequentialTrace) -> None:
        """Read the file, if there is one."""
        if self.file.exists():
            self._arrays, about = read_archive(self.file)
            self._compare(about)

    def resume(self, run: PrequentialRun) -> int:
        """Bring a part to where the file says, and into the round."""
        assert isinstance(run, PartRun)
        if self._arrays is not None:
            run.resume(self._arrays)
        self._arrays = None
        run.begin_round(*self._round)
        self._wait(0.0)
        self._since = time.process_time()
        return run.n_scored

    def save(self, run: PrequentialRun) -> None:
        """Write the state after a segment; whoever reads meanwhile finds the old."""
        assert isinstance(run, PartRun)
        begin = time.monotonic()
        self.seconds += time.process_time() - self._since
        write_archive(self.file, run.progress(), self.about)
        self._wait(time.monotonic() - begin)
        self._since = time.process_time()
