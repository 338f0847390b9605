"""When labels of a stream are known: after a delay, or after the rows of a group.

No label of a group, such as the images of one patient, is learned before all its rows
are coded: every row of it is predicted, and the predictions mixed, by what was known
before its first one. With a delay every label is known so many rows late.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl._core.numerics import as_array
from sklearn_mdl.switching import ForwardTrace

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]


class RowGroups:
    """Where the groups of a stream end; a row that is in none is one by itself.

    Attributes
    ----------
    delay : int
        Rows that are predicted between a row and its label; there are no groups then.
    starts, ends : list of int
        First row of each group that was given, and the row after its last.
    keys : list of int
        What names them, see :func:`keys_of`.
    """

    def __init__(self) -> None:
        self.delay = 0
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.keys: list[int] = []
        self._known: set[int] = set()

    def check(self, keys: Keys) -> None:
        """Refuse groups of further rows, (n,), that cannot be kept apart.

        Raises
        ------
        ValueError
            If rows of one group do not follow each other, or labels come late.
        """
        if self.delay:
            raise ValueError(
                "Labels must be known either late or by group, got groups and "
                f"label_delay={self.delay}; leave one of them out"
            )
        found = keys[_beginnings(keys)].tolist()
        if len(set(found)) < len(found) or not self._known.isdisjoint(found):
            raise ValueError(
                "Rows of a group must follow each other, within one call, but one "
                "comes back after another group, or in a later call; sort rows by "
                "group, or fit all of them with shuffle=True"
            )

    def append(self, start: int, keys: Keys) -> None:
        """Take in the groups of the rows from ``start`` on, (n,), or refuse them."""
        self.check(keys)
        places = _beginnings(keys)
        found = keys[places].tolist()
        self._known.update(found)
        self.starts += (start + places).tolist()
        self.ends += (start + np.r_[places[1:], len(keys)]).tolist()
        self.keys += found

    def cut(self, n_rows: int) -> None:
        """Forget the groups of rows that were not evaluated."""
        n_left = bisect_right(self.ends, n_rows)
        self._known.difference_update(self.keys[n_left:])
        for column in (self.starts, self.ends, self.keys):
            del column[n_left:]

    def closing(self, row: int) -> int:
        """Return the end of the group that a row is in."""
        place = bisect_right(self.starts, row) - 1
        if place >= 0 and row < self.ends[place]:
            return self.ends[place]
        return row + 1

    def known(self, n_scored: int) -> int:
        """Return of how many rows the labels are known once so many are predicted."""
        if n_scored and self.closing(n_scored - 1) > n_scored:
            return self.starts[bisect_right(self.starts, n_scored - 1) - 1]
        return max(0, n_scored - self.delay)

    def firsts(self, start: int, stop: int) -> NDArray[np.intp] | None:
        """Return the first row of each row's group, from ``start`` on, (n,).

        ``stop`` is the end of a group. None if each row is one by itself.
        """
        found = np.arange(stop - start)
        place = bisect_right(self.ends, start)
        for first, end in zip(self.starts[place:], self.ends[place:], strict=True):
            if first >= stop:
                break
            found[first - start : end - start] = first - start
        return None if (found == np.arange(len(found))).all() else found

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that it has taken in."""
        if not self.starts:
            return {}
        columns = np.array([self.starts, self.ends], dtype=np.int64)
        return {"row_groups": columns, "group_keys": np.array(self.keys, np.int64)}

    def load_state_dict(self, columns: np.ndarray, keys: np.ndarray) -> None:
        """Take over what another one had taken in.

        Raises
        ------
        ValueError
            If these are no groups.
        """
        starts, ends = np.reshape(columns, (2, -1))
        follow = (starts[1:] >= ends[:-1]).all() and (starts[:1] >= 0).all()
        if len(keys) != len(starts) or not (follow and (starts < ends).all()):
            raise ValueError("row_groups must be first rows and ends, in order")
        self.starts, self.ends = starts.tolist(), ends.tolist()
        self.keys = np.asarray(keys, dtype=np.int64).tolist()
        self._known = set(self.keys)


def _beginnings(keys: Keys) -> NDArray[np.intp]:
    """Return the places (G,) of keys (n,) that differ from the one before."""
    return np.flatnonzero(np.r_[np.ones(len(keys[:1]), bool), keys[1:] != keys[:-1]])


def keys_of(groups: ArrayLike | None, n_rows: int) -> Keys | None:
    """Return a number for each row, the same for rows of one group, (n,).

    Names of groups, of whatever type, are hashed as text, so that a file needs hold
    nothing of a patient.

    Raises
    ------
    ValueError
        If there is not one name for each row.
    """
    if groups is None:
        return None
    names = np.asarray(as_array(groups))
    if names.ndim == 2 and names.shape[1] == 1:
        names = names[:, 0]
    if names.shape != (n_rows,):
        raise ValueError(
            f"groups must name the group of each of the {n_rows} rows, got shape "
            f"{names.shape}; give one name a row"
        )
    distinct, places = np.unique(names.astype(str), return_inverse=True)
    hashed = [hashlib.sha256(name.encode()).digest()[:8] for name in distinct.tolist()]
    return np.frombuffer(b"".join(hashed), dtype="<i8")[places.reshape(-1)]


def grouped_order(order: NDArray[np.intp], keys: Keys) -> NDArray[np.intp]:
    """Bring rows of a group together in a random order (n,).

    The place of a group is that of its first row as given, so that all orders of the
    groups are equally likely, whatever their sizes. Groups of one row change nothing.
    """
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return np.lexsort([place, place[first][inverse.reshape(-1)]])


def held(
    reading: ForwardTrace, losses: Floats, firsts: NDArray[np.intp] | None
) -> ForwardTrace:
    """Let the weights of a mixture stand still within groups.

    Parameters
    ----------
    reading : ForwardTrace
        Of a forward pass that moves its weights with every row.
    losses : ndarray of shape (n, K)
        In nats; NaN of experts asleep.
    firsts : ndarray of shape (n,) or None
        First row of each row's group; None leaves all as it is.
    """
    if firsts is None:
        return reading
    later = np.flatnonzero(firsts != np.arange(len(firsts)))
    posterior, codelengths = reading.posterior[firsts], reading.codelengths.copy()
    shares, own = posterior[later], losses[later]
    some = (shares > 0) & (own < np.inf)
    own = np.where(some, own, np.inf)
    least = own.min(axis=1, keepdims=True)
    shift = np.where(np.isfinite(least), least, 0.0)
    with np.errstate(divide="ignore"):
        joint = np.where(some, shares, 0.0) * np.exp(shift - own)
        codelengths[later] = shift[:, 0] - np.log(joint.sum(axis=1))
    total = float(codelengths.sum())
    return ForwardTrace(total, codelengths, posterior, reading.steps, reading.groups)
