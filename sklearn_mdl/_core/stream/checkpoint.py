"""State of a run on disk, so that it can go on in another process.

Little has to be kept: labels, losses and what the learners have learned. The rest
follows from them, bit by bit, and is computed again: scaling and replay from the rows
and their number, the mixture from the losses.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl._core.io.environment import cut_short, first_difference
from sklearn_mdl._core.io.safetensors_io import read_archive, write_archive
from sklearn_mdl._core.stream.late_classes import recall_classes
from sklearn_mdl._core.stream.row_groups import held
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.stream.storage import PrequentialTrace, StoredMixtures
from sklearn_mdl._core.validation import warn_caller

BLOCK = 4096  # rows of losses that are mixed at once
READOUT = "readout"  # what the names of arrays that belong to one begin with
POOL = "pool"


def progress_of(run: PrequentialRun) -> dict[str, np.ndarray]:
    """Everything but rows and losses that a run needs in order to go on.

    Raises
    ------
    TypeError
        If a learner cannot write down what it has learned.
    """
    return {**learned_of(run), **mixed_of(run)}


def learned_of(run: PrequentialRun) -> dict[str, np.ndarray]:
    """Everything that learners need in order to go on; raises as progress_of."""
    arrays = {
        "labels": run.labels.cpu().numpy(),
        "diverged": run.diverged,
        **run.rows.groups.state_dict(),
    }
    for learner in run.learners:
        for column, parts in learner.state_dict().items():
            for name, tensor in parts.items():
                arrays[f"{READOUT}.{column}.{name}"] = tensor.detach().cpu().numpy()
    if run.outcome.escape is not None:
        arrays["n_named"] = np.array([run.outcome.escape.n_named])
    return arrays


def mixed_of(run: PrequentialRun) -> dict[str, np.ndarray]:
    """Everything that the mixture needs, beside losses, in order to go on."""
    arrays = {
        "summaries": run.trace.summaries,
        "retired_at": run.retirement.retired_at,
    }
    if run.pooled is not None:
        state = run.pooled.state_dict().items()
        arrays |= {f"{POOL}.{name}": array for name, array in state}
    return arrays


def resume(
    run: PrequentialRun,
    arrays: Mapping[str, np.ndarray],
    losses: np.ndarray | None = None,
) -> int:
    """Bring a new run to where another one was.

    Parameters
    ----------
    run : PrequentialRun
        With its rows taken in, none of them evaluated.
    arrays : mapping
        Arrays of :func:`progress_of`.
    losses : ndarray of shape (n, K) or None
        None where its trace has adopted them already.

    Returns
    -------
    n_rows : int
        Number of rows that count as evaluated.

    Raises
    ------
    ValueError
        If the arrays are not those of such a run.
    """
    n_rows = restore(run, arrays)
    mix_again(run, arrays, n_rows, losses)
    retired = np.flatnonzero(~run.retirement.awake).tolist()
    if retired:
        run.forward.retire(retired)
    return n_rows


def restore(run: PrequentialRun, arrays: Mapping[str, np.ndarray]) -> int:
    """Bring rows and learners of a run to where another one was; see :func:`resume`."""
    labels = torch.from_numpy(np.array(arrays["labels"])).to(run.outcome.dtype)
    n_rows, rows = len(labels), run.rows
    if n_rows > len(run.samples):
        raise ValueError(
            f"The stream must hold the {n_rows} rows that were evaluated, got "
            f"{len(run.samples)}; give them all, in the same order"
        )
    if "row_groups" in arrays and not rows.groups.ends:  # of a file, not of a fit
        rows.groups.load_state_dict(arrays["row_groups"], arrays["group_keys"])
        if rows.groups.ends[-1] > n_rows:
            raise ValueError(f"row_groups must end by row {n_rows}")
    with run.arithmetic():
        for count in rows.refreshes(n_rows):
            rows.refresh_all(count)
        rows.extend(n_rows)
        rows.reveal(0, labels)
        if rows.n_refreshed:
            # No learner has units of its own yet, so that none is re-expressed.
            known = labels[: rows.groups.known(rows.n_refreshed)]
            run.outcome.refresh(known, run.learners)
        for learner, state in zip(run.learners, run.states, strict=True):
            failed = np.asarray(arrays["diverged"])[list(learner.columns)]
            state.resume(rows, n_rows, torch.from_numpy(failed))
        retired_at = _retired_at(arrays, run, n_rows)
        run.retirement.retired_at = retired_at
        retired = np.flatnonzero(retired_at >= 0).tolist()
        if retired:
            run.drop(retired)
        recall_classes(run, labels)
        learned = _learned(arrays)
        for learner in run.learners:
            learner.load_state_dict(learned)
    return n_rows


def _retired_at(
    arrays: Mapping[str, np.ndarray], run: PrequentialRun, n_rows: int
) -> np.ndarray:
    """Return after how many rows readouts had retired, -1 for those awake."""
    found = np.array(arrays["retired_at"])
    if found.shape != (run.n_readouts,) or found.dtype.kind != "i":
        raise ValueError(f"retired_at must be {run.n_readouts} integers, got {found!r}")
    if found.max() > n_rows or (found >= 0).all():
        raise ValueError(
            f"retired_at must leave a readout of {n_rows} rows, got {found.tolist()}"
        )
    return found


def _learned(arrays: Mapping[str, np.ndarray]) -> dict[int, dict[str, Tensor]]:
    """Return what the readouts had learned, by column and name."""
    learned: dict[int, dict[str, Tensor]] = {}
    for key, array in arrays.items():
        head, _, rest = key.partition(".")
        if head == READOUT:
            column, _, name = rest.partition(".")
            tensor = torch.from_numpy(np.array(array))
            learned.setdefault(int(column), {})[name] = tensor
    return learned


def mix_again(
    run: PrequentialRun,
    arrays: Mapping[str, np.ndarray],
    n_rows: int,
    losses: np.ndarray | None,
) -> None:
    """Mix the losses of rows that were evaluated, as they were mixed then."""
    trace, summaries = run.trace, np.asarray(arrays["summaries"])
    head = f"{POOL}."
    pool = {k.removeprefix(head): v for k, v in arrays.items() if k.startswith(head)}
    if run.pooled is not None:
        run.pooled.load_state_dict(pool)
    adopted = losses is None
    if losses is None:
        losses = trace.losses
    stop, groups = 0, run.rows.groups
    while stop < n_rows:
        start, stop = stop, groups.closing(min(stop + BLOCK, n_rows) - 1)
        part, firsts = slice(start, stop), groups.firsts(start, stop)
        block = np.asarray(losses[part])
        run.retirement.check(block)
        reading = held(run.forward.extend(block), block, firsts)
        run.retirement.observe(block)
        codelengths = reading.codelengths
        if run.pooled is not None:
            own = pool["codelengths"][part], pool["history"][part]
            codelengths = run.pooled.retrace(block, codelengths, *own, firsts)
        if adopted:
            trace.account(codelengths, summaries[part])
        else:
            kept = _mixtures(run, arrays, part)
            posterior = reading.posterior
            trace.append(block, codelengths, posterior, summaries[part], kept)


def _mixtures(
    run: PrequentialRun, arrays: Mapping[str, np.ndarray], part: slice
) -> StoredMixtures | None:
    """Return some rows of what groups had predicted, if that is kept."""
    empty = None if run.pooled is None else run.pooled.stored
    if empty is None:
        return None
    found = StoredMixtures(arrays["labels"][part], arrays["mixtures"][part])
    if found.mixtures.shape != (len(found.labels), *empty.mixtures.shape[1:]):
        raise ValueError(f"its mixtures are of shape {arrays['mixtures'].shape}")
    return found


NAME = "progress.safetensors"
TRACE = "trace"  # what the files of the trace must hold
ENVIRONMENT = "environment"  # it may change between two calls, with a warning
SECONDS = 30.0  # between two times, at least
SHARE = 0.05  # of the time that may go into writing


class Checkpoint:
    """A file to which a run is written from time to time.

    Losses lie in the folder of the stream, which grows with every segment; this file
    says how many of them count, their digests, and what the readouts had learned by
    then. It is replaced whole, so that a killed process leaves one that is whole.

    Parameters
    ----------
    root : Path
        Every run has a folder of its own in it, so that those of a search or a loop
        may share the root.
    about : mapping
        All that determines the numbers, as JSON: a run goes on only as it began. If
        the "environment" differs, there is a warning.

    Attributes
    ----------
    name : str
        Of the folder: a digest of all that determines the numbers.
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
        """Read the file, if there is one, and let a trace adopt the losses of its rows.

        Raises
        ------
        ValueError
            If a file is damaged, or of another run. Nothing was written then.
        """
        if self.file.exists():
            arrays, about = read_archive(self.file)
            self._compare(about)
            trace.adopt(len(arrays["labels"]), about[TRACE])
            self._arrays = arrays

    def resume(self, run: PrequentialRun) -> int:
        """Bring a run, whose rows are taken in, to where the file says.

        Returns
        -------
        n_rows : int
            Number of rows that count as evaluated; 0 if there is no file yet.
        """
        if self._arrays is None:
            return 0
        n_rows = resume(run, self._arrays)
        self._arrays = None
        self._wait(0.0)
        return n_rows

    def _compare(self, about: Mapping[str, object]) -> None:
        names = [k for k in {**self.about, **about} if k not in (ENVIRONMENT, TRACE)]
        was, now = ({k: a.get(k) for k in names} for a in (about, self.about))
        if difference := first_difference(was, now):
            name, then, here = difference
            raise ValueError(
                f"A checkpoint must go on as it began, but {name} was "
                f"{cut_short(then)} in {self.file}, and is {cut_short(here)}; name "
                "another folder, or delete this one to begin again"
            )
        elsewhere = first_difference(about.get(ENVIRONMENT), self.about[ENVIRONMENT])
        if elsewhere is not None:
            name, then, here = elsewhere
            warn_caller(
                f"the run began where {name} was {then!r}, and goes on where it is "
                f"{here!r}, so that the last digits may differ"
            )

    def save_if_due(self, run: PrequentialRun) -> None:
        """Write the state after a segment, if the last time is long enough ago."""
        if time.monotonic() >= self._next:
            self.save(run)

    def save(self, run: PrequentialRun) -> None:
        """Write the state after a segment.

        Raises
        ------
        OSError
            If the disk is full; the file before is then still there.
        """
        start = time.monotonic()
        about = {**self.about, TRACE: run.trace.record()}
        write_archive(self.file, progress_of(run), about)
        self._wait(time.monotonic() - start)

    def _wait(self, seconds: float) -> None:
        self._next = time.monotonic() + max(SECONDS, seconds / SHARE)
