"""Nearest rows among those that a walk has learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sklearn_mdl.scaling import ScaledRows

BLOCK = 2048  # rows whose distances are computed at once
KEPT_BYTES = {"cpu": 2**29, "cuda": 2**33}  # of scaled rows that need not be read again
PLACE_BITS = 32  # of a key; the distance is in the higher ones

Block = tuple[Tensor, Tensor]  # rows (n, d) and their squared norms (n,)


class SeenRows:
    """The rows of a walk, as points between which distances are taken.

    Rows are read from the walk's own store, by blocks, in the scaling as it is now.
    Full blocks are kept until the scaling changes, as many as ``KEPT_BYTES`` hold; the
    others are read anew each time, so that a stream may be larger than memory.

    Parameters
    ----------
    rows : ScaledRows
        Of the walk.
    view : int
        Which of its scalings.
    metric : {"euclidean", "cosine"}
    """

    def __init__(self, rows: ScaledRows, view: int, metric: str) -> None:
        self.rows = rows
        self.view = view
        self.metric = metric
        n_numbers = BLOCK * max(1, rows.store.n_features)
        kept = KEPT_BYTES.get(rows.device.type, KEPT_BYTES["cuda"])
        self._n_kept = max(1, kept // (4 * n_numbers))
        self.forget()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be read anew."""
        return {**self.__dict__, "_blocks": {}, "_origin": None}

    def forget(self) -> None:
        """Read all rows anew: they are scaled otherwise from now on."""
        self._blocks: dict[int, Block] = {}
        self._origin: Tensor | None = None

    def nearest(
        self, x: Tensor, n_rows: int, n_neighbors: int
    ) -> tuple[Tensor, Tensor]:
        """Find the nearest of the first ``n_rows`` rows.

        Parameters
        ----------
        x : Tensor of shape (B, d)
            Scaled rows.
        n_rows : int
        n_neighbors : int

        Returns
        -------
        distances : Tensor of shape (B, k), float64
            Squared Euclidean distances, of rows divided by their norms if the metric is
            "cosine" (twice the cosine distance); nearest first.
        places : Tensor of shape (B, k)
            Of the rows; the earlier of two equally near ones comes first. ``k`` is the
            smaller of ``n_neighbors`` and ``n_rows``.
        """
        query, norms = self._as_points(x)
        best = torch.empty((len(x), 0), dtype=torch.int64, device=x.device)
        for start in range(0, n_rows, BLOCK):
            points, squares = self._block(start, min(start + BLOCK, n_rows))
            found = torch.addmm(squares, query, points.T, alpha=-2)
            best = torch.cat([best, _keys(found + norms[:, None], start)], 1)
            k = min(n_neighbors, best.shape[1])
            best = best.topk(k, largest=False, sorted=True).values
        distances = (best >> PLACE_BITS).to(torch.int32).view(torch.float32)
        return distances.double(), best & (2**PLACE_BITS - 1)

    def _block(self, start: int, stop: int) -> Block:
        kept = self._blocks.get(start)
        if kept is None:
            kept = self._as_points(self._scaled(start, stop))
            if stop - start == BLOCK and len(self._blocks) < self._n_kept:
                self._blocks[start] = kept
        return kept

    def _scaled(self, start: int, stop: int) -> Tensor:
        raw = torch.tensor(self.rows.store.rows(start, stop), device=self.rows.device)
        scaling = self.rows.current[self.view]
        return raw if scaling is None else scaling.apply(raw[None])[0]

    def _as_points(self, x: Tensor) -> Block:
        """Centre or normalise rows (n, d), and square their norms."""
        if self.metric == "cosine":
            points = torch.nn.functional.normalize(x, dim=1)
        else:
            points = x - self._first()
        return points, points.square().sum(1)

    def _first(self) -> Tensor:
        """Return the first row, from which others are seen.

        Without it the squares of features far from zero would drown their distances;
        differences of whole numbers stay whole, and equal distances equal.
        """
        if self._origin is None:
            self._origin = self._scaled(0, 1)
        return self._origin


def _keys(distances: Tensor, start: int) -> Tensor:
    """Numbers (B, n) that are ordered as distances are, and then as places are."""
    # Non-negative floats are ordered as their bits are; adding zero takes the sign of
    # a negative one off.
    bits = distances.clamp_min(0).add(0.0).view(torch.int32).long()
    places = torch.arange(start, start + bits.shape[1], device=bits.device)
    return (bits << PLACE_BITS) | places
