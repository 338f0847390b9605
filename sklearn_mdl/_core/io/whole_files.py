"""Files that are written atomically, and folders with one writer at a time.

Files of other programs are never replaced. Files of this package are recognised by
their content or, in a user-given folder, by the list of names in ``.sklearn_mdl``.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path

from sklearn_mdl._core.io.formats import KEY, check_format, format_of, kind_of
from sklearn_mdl._core.validation import warn_caller

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
LIST = ".sklearn_mdl"  # format, and names of this package's files, one per line
_PART = re.compile(r"\..+\.[0-9a-f]{8}\.mdl-part")
_STARTED = {os.getpid(): time.time()}


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary file next to `path`, which replaces `path` at the end.

    The temporary file is empty at first and locked until the end. Files that killed
    processes have left are not locked. They are removed before a process first writes
    to a folder. If an error is raised, `path` does not change.

    Yields
    ------
    aside : Path
    """
    aside = _part_in(path.parent, path.name)
    with naming(path):
        aside.touch(exist_ok=False)
        with _locked(aside):
            try:
                yield aside
                os.replace(aside, path)
            finally:
                aside.unlink(missing_ok=True)


def _part_in(folder: Path, name: str) -> Path:
    """Return a new name for a partial file, after removing files of killed processes.

    Files are removed only if this process has not yet written to the folder.
    """
    process = os.getpid()  # a forked process sweeps again
    _sweep_once(folder.absolute(), process)
    return folder / f".{name}.{secrets.token_hex(4)}.mdl-part"


@cache
def _sweep_once(folder: Path, process: int) -> None:
    sweep(folder, before=_STARTED.setdefault(process, time.time()))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path and a fix to disk errors that do not name the user's file.

    Raises
    ------
    OSError
        In place of an error that names no file, as for a full disk, or only a temporary
        file.
    """
    try:
        yield
    except OSError as error:
        named = Path(str(error.filename or "")).name
        if error.errno is None or (named and not _PART.fullmatch(named)):
            raise
        cure = "free disk space, make the folder writable, or pass another path"
        if not path.parent.is_dir():
            cure = f"create the folder {str(path.parent)!r}"
        raise OSError(error.errno, f"{error.strerror}; {cure}", str(path)) from error


@contextmanager
def _locked(path: Path, *, required: bool = False) -> Iterator[None]:
    """Lock a file or folder until the context ends or the process is killed."""
    if sys.platform == "win32":  # locks open files anyway, and cannot rename them
        yield
        return
    # Some file systems only lock files that are open for writing.
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:  # in a file system without locks, no process sweeps
        with nullcontext() if required else suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def refuse_foreign(path: Path, is_ours: Callable[[Path], object] | None = None) -> None:
    """Raise if a file exists, unless this package wrote it.

    Parameters
    ----------
    path : Path
    is_ours : callable or None
        Returns True if this package wrote an existing file. If None, every existing
        file is refused.

    Raises
    ------
    ValueError
        If a file exists that this package did not write.
    """
    if path.exists() and not (is_ours and path.is_file() and is_ours(path)):
        required = "new or written by sklearn_mdl" if is_ours else "new"
        raise ValueError(
            f"The file to write must be {required}, but {path} is not; move it, or "
            "pass another path"
        )


def refuse_foreign_in(folder: Path, names: Collection[str]) -> None:
    """Raise if the folder has a file with one of the names, unless it is listed.

    :func:`note_ours` lists the files of this package.
    """
    listed = _listed_in(folder)
    for name in sorted(names):
        refuse_foreign(folder / name, lambda path: path.name in listed)


def note_ours(folder: Path, names: Collection[str]) -> None:
    """Add names to the list of this package's files in a folder."""
    with replaced(folder / LIST) as aside:
        lines = [format_of("list"), *sorted({*_listed_in(folder), *names})]
        aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _listed_in(folder: Path) -> set[str]:
    path = folder / LIST
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    head, *names = text.splitlines() or [""]
    if not kind_of({KEY: head})[0]:
        return set()
    check_format(path, "list", {KEY: head})
    return set(names)


@contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """Yield a new folder whose files are moved to `folder` at the end.

    No file is moved if any would replace a file of another program.

    Yields
    ------
    aside : Path
    """
    make_folder(folder)
    aside = _part_in(folder, "files")
    aside.mkdir()
    with _locked(aside):
        try:
            yield aside
            names = sorted(path.name for path in aside.iterdir())
            refuse_foreign_in(folder, names)
            for name in names:
                os.replace(aside / name, folder / name)
            note_ours(folder, names)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path, *, before: float = math.inf) -> None:
    """Remove partial files and folders that killed processes left in a folder.

    On Windows, which cannot lock folders, only files are removed.

    Parameters
    ----------
    folder : Path
    before : float
        Seconds since the epoch. Files and folders changed later are kept.
    """
    for path in folder.glob(".*.mdl-part"):
        with suppress(OSError):  # gone, locked by its writer, or of another user
            if _PART.fullmatch(path.name) and path.stat().st_mtime < before:
                with _locked(path, required=True):
                    if path.is_dir() and sys.platform != "win32":
                        shutil.rmtree(path)
                    else:
                        path.unlink()


def make_folder(folder: Path) -> None:
    """Create a folder and its parents unless they exist.

    Raises
    ------
    ValueError
        If the path or one of its parents is a file.
    OSError
        If the folder cannot be created, or is not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # os.access may be wrong, for example about users and network drives.
        (probe := folder / f".probe.{secrets.token_hex(4)}.mdl-part").touch()
        probe.unlink(missing_ok=True)  # another process may have swept it
    except (FileExistsError, NotADirectoryError) as error:
        file = next(p for p in (folder, *folder.parents) if os.path.lexists(p))
        raise ValueError(
            f"{folder} must be a folder, but {file} is a file; pass another folder"
        ) from error
    except OSError as error:
        text = f"the folder must be writable ({error.strerror}); pass another folder"
        raise OSError(error.errno, text, str(folder)) from error


@contextmanager
def exclusive(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Create a folder and lock it for this process and thread.

    Other calls wait for the lock, with a warning. A killed process releases its lock.

    Raises
    ------
    ValueError
        If the path is a file, or if another call holds the lock and ``wait`` is False.
    OSError
        If the folder cannot be created.
    """
    from filelock import FileLock, Timeout  # slow to import

    make_folder(folder)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        if not wait:
            raise ValueError(
                f"{folder} must have one writer, but another call writes to it; wait "
                "until that call ends, or pass another folder"
            ) from error
        warn_caller(f"waiting for another call that writes to {folder}")
        lock.acquire()
    try:
        sweep(folder)
        yield
    finally:
        lock.release()
