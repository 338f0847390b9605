"""What losses on disk are: numbers, whose they are, and the text that says it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

FORMAT = "sklearn_mdl losses"
VERSION = 1

_BLOCK_BYTES = 2**24


@dataclass(frozen=True, eq=False, repr=False)
class StoredLosses:
    """Losses of all readouts at all examples, and what is known of the readouts.

    Parameters
    ----------
    losses : array-like of shape (N, K)
        ``-log p_k(y_t | past)`` in nats, of a floating type. A memory map is kept as it
        is. Values are not looked at here; :func:`~sklearn_mdl.forward` does.
    readouts : sequence of str of length K, optional
        Names of the readouts; "readout 0" and so on if not given.
    architectures : sequence of str of length K, optional
        The architecture of each readout; None if it is not known.
    weights : array-like of shape (K,), optional
        Prior weights of the readouts, as they were given to the walk; None is uniform.
    switching : str, optional
        The prior under which the walk mixed; for information.
    n_classes : int, optional
        Number of classes of the labels.

    Raises
    ------
    ValueError
        If ``losses`` has not two dimensions, at least one column and a floating type,
        if names or weights do not number K, if weights are not finite and non-negative
        with a positive sum, or if ``n_classes`` is no positive integer.
    TypeError
        If a name is not a string.

    See Also
    --------
    save_losses, load_losses : To and from a file.
    MDLReadoutSwitcher.save_losses : The same for a walk.

    References
    ----------
    Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
    Switching, ICLR, Appendix A.3 (second stage).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl import StoredLosses
    >>> stored = StoredLosses(np.log([[2.0, 4.0], [2.0, 1.0]]), ["linear", "mlp 1x8"])
    >>> stored
    StoredLosses(n_samples=2, n_readouts=2, dtype='float64')
    >>> stored.readout_codelengths.round(2)
    array([1.39, 1.39])
    """

    losses: np.ndarray
    readouts: Sequence[str] = ()
    architectures: Sequence[str] | None = None
    weights: np.ndarray | None = None
    switching: str | None = None
    n_classes: int | None = None

    def __post_init__(self) -> None:
        """Check the fields, and give them the types they are documented to have."""
        losses = np.asanyarray(self.losses)
        if losses.ndim != 2 or losses.shape[1] == 0 or losses.dtype.kind != "f":
            raise ValueError(
                "losses must be a floating array of shape (n_samples, n_readouts) with "
                f"at least one column, got shape {losses.shape} and {losses.dtype}; "
                "give one row per example and one column per readout"
            )
        n_readouts = losses.shape[1]
        readouts = self.readouts
        if readouts is None or len(readouts) == 0:
            readouts = [f"readout {column}" for column in range(n_readouts)]
        fields = {
            "losses": losses,
            "readouts": _checked_names("readouts", readouts, n_readouts),
            "weights": _checked_weights(self.weights, n_readouts),
            "n_classes": _checked_n_classes(self.n_classes),
        }
        if self.architectures is not None:
            fields["architectures"] = _checked_names(
                "architectures", self.architectures, n_readouts
            )
        if not isinstance(self.switching, str | None):
            raise TypeError(
                f"switching must be a string or None, got {self.switching!r}; give "
                "repr(prior)"
            )
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # the way past `frozen`

    def __repr__(self) -> str:
        """Show sizes rather than numbers: there may be thousands of readouts."""
        known = {
            "n_samples": self.n_samples,
            "n_readouts": self.n_readouts,
            "dtype": self.losses.dtype.name,
            "switching": self.switching,
            "n_classes": self.n_classes,
        }
        shown = [f"{name}={v!r}" for name, v in known.items() if v is not None]
        return f"StoredLosses({', '.join(shown)})"

    @property
    def n_samples(self) -> int:
        """Number ``N`` of examples."""
        return int(self.losses.shape[0])

    @property
    def n_readouts(self) -> int:
        """Number ``K`` of readouts."""
        return int(self.losses.shape[1])

    @property
    def groups(self) -> list[str]:
        """The architecture of each readout, a list of length K, to group columns by.

        Raises
        ------
        ValueError
            If the architectures are not known.
        """
        if self.architectures is None:
            raise ValueError(
                "Grouping readouts needs the architecture of each, but these losses "
                "came without; give StoredLosses the architectures and save it anew"
            )
        return list(self.architectures)

    @property
    def readout_codelengths(self) -> np.ndarray:
        """Codelength of every readout alone, (K,), in nats, summed block by block."""
        totals = np.zeros(self.n_readouts)
        with np.errstate(invalid="ignore"):  # infinities of both signs make a NaN
            for block in self.blocks():
                totals += block.sum(0, dtype=np.float64)
        return totals

    def blocks(self, n_rows: int | None = None) -> Iterator[np.ndarray]:
        """Iterate over the losses from the first example to the last.

        Parameters
        ----------
        n_rows : int, optional
            Rows at a time; by default as many as fill about 16 MiB.

        Yields
        ------
        block : ndarray of shape (n, K)
            The next ``n_rows`` rows, or what is left of them; a view where it can be.

        Raises
        ------
        ValueError
            If ``n_rows`` is no positive integer.
        """
        if n_rows is None:
            n_rows = max(1, _BLOCK_BYTES // (self.n_readouts * self.losses.itemsize))
        if not isinstance(n_rows, Integral) or n_rows < 1:
            raise ValueError(
                f"n_rows must be a positive integer or None, got {n_rows!r}; give the "
                "number of rows to read at a time"
            )
        starts = range(0, self.n_samples, int(n_rows))
        return (np.asarray(self.losses[i : i + int(n_rows)]) for i in starts)


def description(stored: StoredLosses, dtype: str, *, growing: bool = False) -> str:
    """Return the JSON text that goes with losses.

    Parameters
    ----------
    stored : StoredLosses
    dtype : {"float64", "float32"}
        The type that is stored.
    growing : bool, default=False
        Whether rows are still to come, so that their number is left open.

    Returns
    -------
    text : str
    """
    weights = stored.weights
    found = {
        "format": FORMAT,
        "version": VERSION,
        "unit": "nats",
        "dtype": dtype,
        "n_samples": None if growing else stored.n_samples,
        "n_readouts": stored.n_readouts,
        "n_classes": stored.n_classes,
        "switching": stored.switching,
        "weights": None if weights is None else weights.tolist(),
        "architectures": stored.architectures,
        "readouts": stored.readouts,
    }
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def described(losses: np.ndarray, text: str | None) -> StoredLosses:
    """Return losses with what a `description` says of them, if there is one.

    Raises
    ------
    ValueError, TypeError
        If the text is no description, is of another version, or not of these losses.
    """
    stored = StoredLosses(losses)
    if text is None:
        return stored
    about = json.loads(text)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError("a description of something else")
    version = about.get("version")
    if version != VERSION:
        raise ValueError(
            f"a description in version {version!r} of the format, of which this "
            f"sklearn_mdl reads version {VERSION} alone: update it"
        )
    sizes = (stored.n_samples, stored.n_readouts, losses.dtype.name)
    for name, found in zip(("n_samples", "n_readouts", "dtype"), sizes, strict=True):
        if about.get(name) not in (None, found):
            raise ValueError(
                f"losses with {name}={found!r} and a description of losses with "
                f"{name}={about[name]!r}"
            )
    names = ("readouts", "architectures", "weights", "switching", "n_classes")
    known: dict[str, Any] = {name: about.get(name) for name in names}
    return StoredLosses(losses, **known)


# Checks


def _checked_names(field: str, names: Sequence[str], n_readouts: int) -> list[str]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"{field} must be a sequence of strings, got {names!r}; name each readout"
        )
    if len(names) != n_readouts:
        raise ValueError(
            f"{field} must name each of the {n_readouts} readouts, got {len(names)} "
            "names; give one for every column of losses"
        )
    return [str(name) for name in names]


def _checked_weights(weights: Any, n_readouts: int) -> np.ndarray | None:
    if weights is None:
        return None
    w = np.array(weights, dtype=np.float64)  # a copy, which nobody can write to
    if w.shape != (n_readouts,):
        raise ValueError(
            f"weights must have shape ({n_readouts},), got {w.shape}; give one weight "
            "for every column of losses"
        )
    if not np.isfinite(w).all() or w.min() < 0 or w.sum() <= 0:
        raise ValueError(
            "weights must be finite and non-negative with a positive sum, got "
            f"{w.tolist()!r}; give a positive weight to each readout that may speak"
        )
    w.flags.writeable = False
    return w


def _checked_n_classes(n_classes: Any) -> int | None:
    if n_classes is None:
        return None
    if not isinstance(n_classes, Integral) or n_classes < 1:
        raise ValueError(
            f"n_classes must be a positive integer or None, got {n_classes!r}; give "
            "the number of classes of the labels"
        )
    return int(n_classes)
