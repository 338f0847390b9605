"""Files with the losses of readouts: a plain ``.npy`` and a ``.json`` description.

A ``.npy`` file can grow in place during a run, be read by other programs and be
memory-mapped by NumPy.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import sklearn_mdl.switching
from sklearn_mdl._core.io.formats import NewerFormat, check_format, kind_of, with_format
from sklearn_mdl._core.io.parameters import Json, as_json, from_json
from sklearn_mdl._core.io.reading import DAMAGED_HEADER
from sklearn_mdl._core.io.whole_files import make_folder, refuse_foreign, replaced
from sklearn_mdl._core.validation import damaged, invalid
from sklearn_mdl.switcher._repooling import opened, stored_mixtures
from sklearn_mdl.switcher._stored_losses import StoredLosses
from sklearn_mdl.switching import SwitchingPrior

DTYPES = ("float64", "float32")

# Priors that a file may name.
_PRIORS = {
    name: kind
    for name, kind in vars(sklearn_mdl.switching).items()
    if isinstance(kind, type) and issubclass(kind, SwitchingPrior)
}


def description(stored: StoredLosses, dtype: str, *, growing: bool = False) -> Json:
    """Return the JSON description of losses.

    Parameters
    ----------
    stored : StoredLosses
    dtype : {"float64", "float32"}
        Type of the losses in the file.
    growing : bool, default=False
        True while a run is still appending rows. Their number is then left out.

    Returns
    -------
    about : dict
    """
    weights, prior = stored.weights, stored.switching
    is_built_in = _PRIORS.get(type(prior).__name__) is type(prior)
    content = {
        "unit": "nats",
        "dtype": dtype,
        "n_samples": None if growing else stored.n_samples,
        "n_readouts": stored.n_readouts,
        "n_classes": stored.n_classes,
        "switching": as_json(prior, "switching") if is_built_in else None,
        "known": None if stored.known is None else stored.known.tolist(),
        "weights": None if weights is None else weights.tolist(),
        "architectures": stored.architectures,
        "readouts": stored.readouts,
    }
    return with_format("losses", content)


def described(losses: np.ndarray, about: Json) -> StoredLosses:
    """Return stored losses with a JSON description, which may be empty.

    Raises
    ------
    ValueError
        If the description does not fit the losses.
    TypeError
        If an entry of the description has the wrong type.
    """
    stored = StoredLosses(losses)
    sizes = (stored.n_samples, stored.n_readouts, losses.dtype.name)
    for name, actual in zip(("n_samples", "n_readouts", "dtype"), sizes, strict=True):
        if about.get(name) not in (None, actual):
            described_as = f"their description has {name}={about[name]!r}"
            raise ValueError(f"losses have {name}={actual!r}, but {described_as}")
    optional = ("architectures", "weights", "n_classes", "known")
    fields = {name: about.get(name) for name in optional}
    prior = from_json(about.get("switching"), _PRIORS)
    return StoredLosses(losses, about.get("readouts") or (), switching=prior, **fields)


def save_losses(
    path: str | Path, losses: StoredLosses | ArrayLike, *, dtype: str = "float64"
) -> list[Path]:
    """Write losses to a file, to mix them later without retraining.

    Parameters
    ----------
    path : path-like
        A path that ends in ``.npy``. The description of the readouts is written to a
        ``.json`` file with the same stem. The folder must exist. Existing losses are
        replaced.
    losses : StoredLosses or array-like of shape (N, K)
        Losses in nats. They are read block by block, so you may pass a memory map that
        is larger than memory.
    dtype : {"float64", "float32"}, default="float64"
        Type to store. Float64 is exact. Float32 takes half the space.

    Returns
    -------
    paths : list of Path
        The files written.

    Raises
    ------
    FileNotFoundError
        If the folder is missing.
    ValueError
        If the path does not end in ``.npy``, or if the losses or their description
        would replace a file of another kind. Also if ``dtype`` is invalid, or if
        :class:`~sklearn_mdl.switcher.StoredLosses` rejects the array of losses.

    Notes
    -----
    Files are written under a temporary name and renamed when complete. The previous
    description is removed first and the new description added last. If writing is
    interrupted, losses may have no description, but never the description of other
    losses.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.switcher import StoredLosses, load_losses, save_losses
    >>> stored = StoredLosses(np.ones((5, 2)), ["linear", "mlp 1x8"])
    >>> [path.name for path in save_losses("losses.npy", stored)]
    ['losses.npy', 'losses.json']
    >>> load_losses("losses.npy").readouts
    ['linear', 'mlp 1x8']
    """
    path = check_losses_path(path)
    stored = losses
    if not isinstance(stored, StoredLosses):
        stored = StoredLosses(np.asanyarray(stored))
    if dtype not in DTYPES:
        raise invalid("dtype", f"one of {list(DTYPES)}", dtype, "pass dtype='float64'")
    sidecar, kind = path.with_suffix(".json"), np.dtype(dtype).newbyteorder("<")
    header = {"descr": kind.str, "fortran_order": False, "shape": stored.losses.shape}
    with replaced(sidecar) as new_sidecar, replaced(path) as new_losses:
        with new_losses.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in stored.blocks():
                file.write(np.ascontiguousarray(block, dtype=kind).data)
        indent = 1 if stored.known is None else None  # no line per row of `known`
        text = json.dumps(description(stored, dtype), indent=indent, allow_nan=False)
        new_sidecar.write_text(text + "\n", encoding="utf-8")
        sidecar.unlink(missing_ok=True)  # before the new losses are renamed
    return [path, sidecar]


def load_losses(path: str | Path) -> StoredLosses:
    """Open a file of losses to mix them under any switching prior.

    Parameters
    ----------
    path : path-like
        A file written by :func:`~sklearn_mdl.switcher.save_losses`, or the
        ``losses.npy`` of a switcher's ``store``. While the run continues, you get the
        rows written so far. If there is no description, readouts are named "readout 0"
        and so on, and architectures are None.

    Returns
    -------
    stored : StoredLosses
        Its ``losses``, in nats, are a read-only memory map of shape (N, K).

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is unreadable, of another kind or replaced while it is read, or if
        its description belongs to other losses or a later version.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl import forward
    >>> from sklearn_mdl.switcher import load_losses
    >>> np.save("bare.npy", np.log([[2.0, 4.0], [2.0, 1.0]]))
    >>> stored = load_losses("bare.npy")
    >>> stored.readouts, stored.architectures
    (['readout 0', 'readout 1'], None)
    >>> round(forward("bayes", stored.losses, stored.weights).codelength, 3)
    1.386
    """
    path = _checked_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"path must be an existing file of losses, got {str(path)!r}; to write it, "
            "call save_losses(path, losses)"
        )
    sidecar = path.with_suffix(".json")
    try:
        text = _text(sidecar)
        about: Json = {} if text is None else json.loads(text)
        if text is not None:
            check_format(sidecar, "losses", about)
        losses = np.lib.format.open_memmap(path, mode="r")
        fields = _stream_fields(path, about, len(losses))
        if _text(sidecar) == text:
            return replace(described(losses, about), **fields)
    except NewerFormat:
        raise
    except (*(ValueError, TypeError, EOFError), *DAMAGED_HEADER) as error:
        required = "losses with a matching description"
        cure = "write them with save_losses(path, losses)"
        problem = f"loading fails: {error}".partition(";")[0]  # it has another cure
        if any(part in problem for part in ("EOF", "greater than file size")):
            problem, cure = "it is truncated", f"{cure}, or call fit again"
        elif sidecar.is_file():
            cure += f", or move {sidecar.name} away"
        file = path.with_name(*getattr(error, "__notes__", [path.name]))
        raise damaged(file, required, problem, cure) from error
    required, cure = "the same losses during loading", "call load_losses(path) again"
    raise damaged(path, required, "another process replaced them", cure)


def _stream_fields(path: Path, about: Json, n_rows: int) -> dict[str, Any]:
    """Return the fields of StoredLosses that a stream keeps in separate files."""
    if not n_rows or "stream" not in about:
        return {}
    known = opened(path.with_name("known.npy"))[:n_rows]
    fields: dict[str, Any] = {"mixtures": stored_mixtures(path, about, n_rows)}
    if (known != np.arange(n_rows)).any():
        fields["known"] = known
    return fields


def check_losses_path(path: str | Path) -> Path:
    """Return the path if losses can be written there; otherwise raise."""
    path = _checked_suffix(path)
    sidecar = path.with_suffix(".json")
    if not path.parent.exists():
        raise FileNotFoundError(
            f"Losses must be written to a folder that exists, got {str(path)!r}; "
            f"call Path({str(path.parent)!r}).mkdir(parents=True)"
        )
    make_folder(path.parent)  # raises if it is a file or not writable
    for file in (path, sidecar):
        if file.is_dir():
            raise invalid("path", "a file, not a folder", str(file), "pass 'new.npy'")
    refuse_foreign(path, lambda _: sidecar.exists())
    if not _is_ours_or_free(sidecar):
        raise ValueError(
            f"{sidecar} must be free for the description of {path.name}, but belongs "
            "to a store or another program; for example, pass 'other.npy'"
        )
    return path


def _checked_suffix(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix != ".npy":
        cure = "for example, pass 'losses.npy'"
        raise invalid("path", "a name that ends in .npy", str(path), cure)
    return path


def _is_ours_or_free(sidecar: Path) -> bool:
    try:
        about = json.loads(_text(sidecar) or "")
    except (ValueError, RecursionError):
        return not sidecar.exists()
    # A stream's losses are never replaced.
    return kind_of(about)[0] == "losses" and "stream" not in about


def _text(sidecar: Path) -> str | None:
    return sidecar.read_text(encoding="utf-8") if sidecar.is_file() else None
