"""When labels of a stream become known: immediately, after a delay or after a group.

Labels of a group, such as the images of one patient, become known only after all rows
of the group are coded. So no row is predicted with a label of its own group. With a
delay, each label becomes known that many rows late. With groups and a delay, a label
becomes known at the later of the two times.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.validation import named_groups

Keys = NDArray[np.int64]


class Schedule:
    """Schedule of when the labels of a stream become known, with optional groups.

    Parameters
    ----------
    delay : int, default=0
        Number of rows by which labels are delayed.

    Attributes
    ----------
    starts, ends : list of int
        First row of each given group, and the row after its last row.
    keys : list of int
        Key of each given group, see :func:`keys_of`.
    """

    def __init__(self, delay: int = 0) -> None:
        self.delay = delay
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.keys: list[int] = []
        self._names: set[int] = set()

    def check(self, keys: Keys) -> None:
        """Raise if the group keys (n,) of further rows are invalid.

        Raises
        ------
        ValueError
            If rows of one group are not adjacent, or not passed in one call.
        """
        names = keys[group_starts(keys)].tolist()
        if len(set(names)) < len(names) or not self._names.isdisjoint(names):
            raise ValueError(
                "Rows of a group must be adjacent and passed in one call, but a group "
                "occurs again after another group, or in a later call; pass X[i], y[i] "
                "and groups[i] in one call, with i = np.argsort(groups, kind='stable')"
            )

    def append(self, start: int, keys: Keys) -> None:
        """Add the group keys (n,), already checked, of rows that begin at ``start``."""
        places = group_starts(keys)
        names = keys[places].tolist()
        self._names.update(names)
        self.starts += (start + places).tolist()
        self.ends += (start + np.r_[places[1:], len(keys)]).tolist()
        self.keys += names

    def cut(self, n_rows: int) -> None:
        """Forget all groups that do not end within the first ``n_rows`` rows."""
        n_left = bisect_right(self.ends, n_rows)
        self._names.difference_update(self.keys[n_left:])
        for column in (self.starts, self.ends, self.keys):
            del column[n_left:]

    def closing(self, row: int) -> int:
        """Return the end of a row's group, or ``row + 1`` if the row has no group."""
        place = bisect_right(self.starts, row) - 1
        return self.ends[place] if place >= 0 and row < self.ends[place] else row + 1

    def known(self, n_rows: int) -> int:
        """Return the number of known labels, given the number of predicted rows."""
        late = max(0, n_rows - self.delay)
        if n_rows and self.closing(n_rows - 1) > n_rows:
            late = min(late, self.starts[bisect_right(self.starts, n_rows - 1) - 1])
        return late

    def when(self, n_known: int) -> int:
        """Return how many rows are predicted before ``n_known`` labels are known."""
        return max(n_known + self.delay, self.closing(n_known - 1)) if n_known else 0

    def known_by_row(self, start: int, stop: int) -> NDArray[np.intp]:
        """Return how many labels are known before each row, and before row ``stop``.

        The result has shape (stop - start + 1,).
        """
        n_known = np.maximum(np.arange(start, stop + 1) - self.delay, 0)
        return np.minimum(n_known, self.groups(start, stop + 1))

    def groups(self, start: int, stop: int) -> NDArray[np.intp]:
        """Return the first row of the group of each row of a range."""
        numbers = np.arange(start, stop)
        place = bisect_right(self.ends, start)
        for first, end in zip(self.starts[place:], self.ends[place:], strict=True):
            if first >= stop:
                break
            numbers[max(first - start, 0) : end - start] = first
        return numbers

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the arrays of the groups so far (none without groups)."""
        if not self.starts:
            return {}
        columns = np.array([self.starts, self.ends], dtype=np.int64)
        return {"row_groups": columns, "group_keys": np.array(self.keys, np.int64)}

    def load_state_dict(self, arrays: Mapping[str, np.ndarray], n_rows: int) -> None:
        """Load the groups of the first ``n_rows`` rows, unless groups were given.

        Raises
        ------
        ValueError
            If the arrays are not valid groups.
        """
        if self.ends or "row_groups" not in arrays:
            return
        columns, keys = arrays["row_groups"], arrays["group_keys"]
        starts, ends = np.reshape(columns, (2, -1))
        follow = (starts[1:] >= ends[:-1]).all() and (starts[:1] >= 0).all()
        if len(keys) != len(starts) or not (follow and (starts < ends).all()):
            raise ValueError("row_groups must be ascending row ranges; call fit again")
        if ends[-1] > n_rows:
            raise ValueError(f"row_groups must end by row {n_rows}; call fit again")
        self.starts, self.ends = starts.tolist(), ends.tolist()
        self.keys = np.asarray(keys, dtype=np.int64).tolist()
        self._names = set(self.keys)


def group_starts(keys: NDArray[Any]) -> NDArray[np.intp]:
    """Return the positions (G,) at which groups of equal adjacent keys (n,) begin."""
    return np.flatnonzero(np.r_[np.ones(len(keys[:1]), bool), keys[1:] != keys[:-1]])


def keys_of(groups: ArrayLike | None, n_rows: int) -> Keys | None:
    """Return a number for each row (n,), the same for all rows of a group.

    Group names of any type are hashed as text, so that files never contain the names
    of patients. Without groups, return None.

    Raises
    ------
    ValueError
        If there is not one name for each row, or if a name is missing.
    """
    if groups is None:
        return None
    names = named_groups(groups if isinstance(groups, np.ndarray) else as_array(groups))
    if names.ndim == 2 and names.shape[1] == 1:
        names = names[:, 0]
    if names.shape != (n_rows,):
        raise ValueError(
            f"groups must name the group of each of the {n_rows} rows, got shape "
            f"{names.shape}; pass groups of shape ({n_rows},)"
        )
    distinct, places = np.unique(names.astype(str), return_inverse=True)
    hashed = [hashlib.sha256(name.encode()).digest()[:8] for name in distinct.tolist()]
    return np.frombuffer(b"".join(hashed), dtype="<i8")[places.reshape(-1)]


def grouped_order(order: NDArray[np.intp], keys: Keys | None) -> NDArray[np.intp]:
    """Rearrange an order (n,) so that the rows of each group are adjacent.

    Groups are sorted by the position in ``order`` of the first row of each group in the
    data. So if ``order`` is random, all orders of groups are equally likely, regardless
    of group sizes. Without groups, or if every group has one row, the order does not
    change.
    """
    if keys is None:
        return order
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return np.lexsort([place, place[first][inverse.reshape(-1)]])
