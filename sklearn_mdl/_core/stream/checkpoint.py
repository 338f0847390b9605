"""State of a run on disk, from which another process can resume it.

The file contains labels, codes, learned states and the state of the pool. Everything
else is recomputed, with bitwise the same result in the same environment: scaling and
replay from the rows, and the switching weights from the losses, which are in the trace.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from sklearn_mdl._core.io.environment import cut_short, first_difference
from sklearn_mdl._core.io.safetensors_io import read_archive, write_archive
from sklearn_mdl._core.stream.coder import Arrays, Block, by_number, joined, under
from sklearn_mdl._core.stream.events import Event
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.steps import NEVER
from sklearn_mdl._core.stream.threads import Threads
from sklearn_mdl._core.stream.trace import PrequentialTrace
from sklearn_mdl._core.validation import warn_caller

BLOCK = 4096  # how many rows of losses are recoded at a time
READOUT = "readout."  # prefix of the names of a readout's arrays
MIXER, CODER = "mixer.", "coder."


def progress_of(run: PrequentialRun) -> dict[str, np.ndarray]:
    """Return everything needed to resume a run except rows and losses.

    Raises
    ------
    TypeError
        If the state of a learner cannot be written.
    """
    return {**learned_of(run.threads), **coded_of(run)}


def learned_of(threads: Threads) -> dict[str, np.ndarray]:
    """Return everything needed to resume learners (see :func:`progress_of`)."""
    arrays = {
        "labels": threads.labels.cpu().numpy(),
        "diverged_at": threads.diverged_at,
        **threads.rows.schedule.state_dict(),
        **threads.outcome.state_dict(),
    }
    for learner in threads.learners:
        for column, parts in learner.state_dict().items():
            for name, tensor in parts.items():
                arrays[f"{READOUT}{column}.{name}"] = tensor.detach().cpu().numpy()
    return arrays


def coded_of(run: PrequentialRun) -> dict[str, np.ndarray]:
    """Return everything needed to resume the mixture except losses."""
    arrays = joined({MIXER: run.mixer.state_dict(), CODER: run.coder.state_dict()})
    return {**run.trace.numbers(), "retired_at": run.retired_at, **arrays}


def resume(
    run: PrequentialRun, arrays: Arrays, losses: np.ndarray | None = None
) -> None:
    """Restore the state of another run in a new run.

    Parameters
    ----------
    run : PrequentialRun
        A run whose rows were added but not evaluated.
    arrays : mapping
        Arrays of :func:`progress_of`.
    losses : ndarray of shape (n, K) or None
        Losses of the evaluated rows. None if the trace has already adopted them.

    Raises
    ------
    ValueError
        If the arrays do not belong to such a run.
    """
    restore(run.threads, arrays)
    recode(run, arrays, losses)


def restore(threads: Threads, arrays: Arrays) -> None:
    """Restore only the rows and learners (see :func:`resume`)."""
    rows, outcome = threads.rows, threads.outcome
    retired = checked_retirement(arrays, threads.n_readouts) >= 0
    labels = torch.from_numpy(np.array(arrays["labels"])).to(outcome.dtype)
    n_rows, n_given = len(labels), len(rows.store)
    if n_rows > n_given:
        raise ValueError(
            f"The stream must hold the {n_rows} rows that were evaluated, got "
            f"{n_given}; pass them all in the same order"
        )
    rows.schedule.load_state_dict(arrays, n_rows)
    with threads.arithmetic():
        for count in rows.refreshes(n_rows):
            rows.refresh_all(count)
        rows.extend(n_rows)
        rows.reveal(0, labels)
        if rows.n_refreshed:
            # Learners have no units yet, so nothing is re-expressed.
            known = labels[: rows.schedule.known(rows.n_refreshed)]
            outcome.refresh(known, threads.learners)
        for learner, state in zip(threads.learners, threads.states, strict=True):
            failed_at = np.asarray(arrays["diverged_at"])[list(learner.columns)]
            failed_at = np.where(failed_at < 0, NEVER, failed_at)
            state.resume(n_rows, torch.from_numpy(failed_at))
        if retired.any():
            threads.retire(np.flatnonzero(retired).tolist())
        outcome.recall(labels.numpy())
        if n_new := outcome.n_numbers - threads.n_numbers:
            threads.add_classes(n_new)
        stored = under(arrays, READOUT).items()
        learned = by_number({k: torch.from_numpy(np.array(v)) for k, v in stored})
        for learner in threads.learners:
            learner.load_state_dict(learned)
    threads.n_scored = n_rows


def recode(run: PrequentialRun, arrays: Arrays, losses: np.ndarray | None) -> None:
    """Restore mixer, coder, events and trace of a run.

    The weights of readouts are recomputed from their losses.
    """
    trace, n_rows = run.trace, len(arrays["labels"])
    retired_at = checked_retirement(arrays, run.threads.n_readouts)
    awake = retired_at < 0
    run.retired_at = retired_at
    run.mixer.retire(awake)
    adopted = losses is None
    source = trace.losses if losses is None else losses
    stop = 0
    while stop < n_rows:
        start = stop
        stop = run.schedule.closing(min(start + BLOCK, n_rows) - 1)
        part, known = slice(start, stop), run.schedule.known_by_row(start, stop)
        block = Block(np.asarray(source[part]), _NONE, _NONE, known)
        asleep = (retired_at >= 0) & (np.arange(start, stop)[:, None] >= retired_at)
        if (np.isnan(block.losses) != asleep).any():
            raise ValueError("Losses must be NaN only after readouts retire; fit again")
        posterior = run.coder.recode(block.losses, known)
        for event in run.events:
            event.observe(block)
        if not adopted:
            files = {"losses": block.losses, "posterior": posterior}
            kept = {k: arrays[k][part] for k in ("mixtures", "labels") if k in arrays}
            trace.append_files({**kept, **files, "known": known[:-1]})
    for event in run.events:
        event.resumed()
    if not awake.all():
        run.coder.retire(np.flatnonzero(~awake).tolist())
    run.mixer.load_state_dict(under(arrays, MIXER))
    run.coder.load_state_dict(under(arrays, CODER))
    trace.account({name: arrays[name][:n_rows] for name in trace.numbers()})
    run.reveal()


_NONE = np.empty(0)


def checked_retirement(arrays: Arrays, n_readouts: int) -> np.ndarray:
    """Check and return the rows at which readouts retired (-1 for awake ones)."""
    retired, n_rows = np.array(arrays["retired_at"]), len(arrays["labels"])
    if retired.shape != (n_readouts,) or retired.dtype.kind != "i":
        raise ValueError(f"retired_at must be {n_readouts} integers, got {retired!r}")
    if retired.max() > n_rows or (retired >= 0).all():
        raise ValueError(
            "retired_at must leave a readout awake, and be at most the number of rows, "
            f"{n_rows}, got {retired.tolist()}; refit without this file"
        )
    return retired


NAME = "progress.safetensors"
TRACE = "trace"  # key of the digests of the trace's files
ENVIRONMENT = "environment"  # key of settings whose change only causes a warning
SECONDS = 30.0  # minimum seconds between two writes
SHARE = 0.05  # largest fraction of time spent on writing


class Checkpoint(Event):
    """File to which a run is saved from time to time.

    Losses are in the folder of the stream and grow with every segment. The checkpoint
    contains their number and digests, and the learned states of readouts. The file is
    replaced atomically, so it is complete even if the process is killed.

    Parameters
    ----------
    root : Path
        Every run has its own folder in the root, so runs of a search or a loop may
        share a root.
    about : mapping
        Everything on which results depend, as JSON. A run is resumed only if this
        description equals the one in the file. If only "environment" differs, the run
        is resumed with a warning.

    Attributes
    ----------
    name : str
        Name of the folder, a digest of ``about`` without the environment.
    path : Path
        The folder.
    """

    def __init__(self, root: Path, about: Mapping[str, object]) -> None:
        kept = {key: about[key] for key in about if key != ENVIRONMENT}
        text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
        self.name = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.path = root / self.name
        self.file = self.path / NAME
        self.about = about
        self._next = 0.0
        self._arrays: dict[str, np.ndarray] | None = None

    def open(self, trace: PrequentialTrace) -> None:
        """Read the file if there is one, and let a trace adopt the losses of its rows.

        Raises
        ------
        ValueError
            If a file is damaged or belongs to another run. Nothing is then written.
        """
        if self.file.exists():
            arrays, about = read_archive(self.file, "checkpoint")
            self._compare(about)
            trace.adopt(len(arrays["labels"]), about[TRACE])
            self._arrays = arrays

    def restore(self, run: PrequentialRun) -> None:
        """Restore the state from the file in a run whose rows were added."""
        if self._arrays is not None:
            resume(run, self._arrays)
            self._wait(0.0)
        self._arrays = None

    def _compare(self, about: Mapping[str, object]) -> None:
        names = [k for k in {**self.about, **about} if k not in (ENVIRONMENT, TRACE)]
        was, now = ({k: a.get(k) for k in names} for a in (about, self.about))
        if difference := first_difference(was, now):
            name, then, here = difference
            raise ValueError(
                "A run must be resumed with the settings and data it began with, but "
                f"{name} was {cut_short(then)} in {self.file}, and is "
                f"{cut_short(here)}; pass another folder, or delete this file"
            )
        here = self.about[ENVIRONMENT]
        elsewhere = first_difference(about.get(ENVIRONMENT, here), here)
        if elsewhere is not None:
            name, then, here = elsewhere
            warn_caller(
                f"the run began with {name} {then!r} and is resumed with {here!r}, so "
                "the last digits may differ"
            )

    def act(self, run: PrequentialRun) -> None:
        """Write the state after a segment, if it is time and the trace is written."""
        if time.monotonic() >= self._next and run.trace.refusal is None:
            self.save(run)

    def end(self, run: PrequentialRun) -> None:
        """Write the state at the end."""
        self.save(run)

    def save(self, run: PrequentialRun) -> None:
        """Write the state after a segment.

        Raises
        ------
        OSError
            If writing fails, for example since the disk is full. The previous file is
            kept.
        """
        start = time.monotonic()
        about = {**self.about, TRACE: run.trace.record()}
        write_archive(self.file, "checkpoint", progress_of(run), about)
        self._wait(time.monotonic() - start)

    def _wait(self, seconds: float) -> None:
        self._next = time.monotonic() + max(SECONDS, seconds / SHARE)
