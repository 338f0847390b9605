"""Learner that evaluates all kernel readouts that keep the same rows together.

Blocks of rows begin at rows 0, 8, 16, 32 and then every 32 rows, or every 128 rows once
a posterior has replaced the factor. A block is computed as a whole, with zeros in place
of rows that have not arrived. So results are bitwise the same, however you split a
stream into calls. Within a block, targets are added row by row or, in long streams,
together for all rows that were predicted together. At fixed positions, a learner with a
window restarts from the second half of its window, and counts blocks from the first row
of that half.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain

import torch
from torch import Tensor

from sklearn_mdl._core.kernels.functions import FIRST_DISTANCE, Pairs, median_distance
from sklearn_mdl._core.kernels.ridge import ForwardRidge, Pending
from sklearn_mdl._core.kernels.settled import RECENT, SettledRidge
from sklearn_mdl._core.numerics import as_doubles, memory_of
from sklearn_mdl._core.stream.learner import Report, State
from sklearn_mdl.readouts._build import Context, grouped
from sklearn_mdl.readouts._kernel_groups import (
    KernelGroup,
    Member,
    OpenBlock,
    View,
    places_of,
)
from sklearn_mdl.readouts._kernel_rows import (
    BLOCK,
    FIRST,
    NEVER,
    WHITENED,
    Memory,
    RowScaler,
    block_of,
    blocks_to_sum,
    condensed_at,
    is_refresh,
    last_fit,
    last_refresh,
    last_sum,
    learns,
    settled_at,
    whole,
)
from sklearn_mdl.readouts._row_learners import RowBlock, RowLearner

PIECE = 512  # rows that are scaled at a time when a view is filled again


class KernelLearner(RowLearner):
    """Base class of learners for kernel readouts.

    Parameters
    ----------
    members : list of Member
    n_outputs : int
        Number ``P`` of columns of the targets.
    memory : Memory
    context : Context

    Attributes
    ----------
    n_landmarks, n_condensed, n_settled : int
        The first ``n_landmarks`` rows become landmarks. After ``n_condensed`` rows, a
        posterior replaces the factor. After ``n_settled`` rows, occasional fits replace
        the posterior. All are `NEVER` if the memory forgets rows or has no `max_exact`.
    """

    def __init__(
        self, members: list[Member], n_outputs: int, memory: Memory, context: Context
    ) -> None:
        super().__init__(memory, context)
        self.n_landmarks = self.n_condensed = self.n_settled = NEVER
        if memory.max_exact is not None and not memory.forgets:
            self.n_landmarks = whole(memory.max_exact)
            self.n_condensed = condensed_at(self.n_landmarks)
            self.n_settled = settled_at(self.n_landmarks)
        self.n_added = 0  # columns added to the targets
        self._block: OpenBlock | None = None
        self._scaler = RowScaler(context.n_features)
        self.views = {m.scaling: View(m.scaling) for m in members}
        alike = grouped((member.group, member) for member in members)
        self.groups = [
            KernelGroup(self.views[own[0].scaling], own, n_outputs, context.device)
            for own in alike.values()
        ]
        self.columns = [m.column for own in alike.values() for m in own]

    @property
    def reports(self) -> dict[int, Report]:  # type: ignore[override]
        """First exception of each user-defined kernel, keyed by column."""
        return {
            column: Report([group.note])
            for group, places in places_of(self.groups)
            for column in self.columns[places]
            if group.note
        }

    def _begin_again(self) -> None:
        self._scaler = RowScaler(self.rows.store.n_features)
        for view in self.views.values():
            view.forget()
            view.distance = FIRST_DISTANCE
        for group in self.groups:
            group.forget()
        self._recompute()
        self._learn_again()

    @property
    def _ridges(self) -> list[ForwardRidge]:
        """Factors of the groups, unless posteriors have replaced them."""
        return [g.ridge for g in self.groups if isinstance(g.ridge, ForwardRidge)]

    def _ends(self, row: int) -> tuple[int, int]:
        """Return the first row and the end of the block that contains ``row``."""
        return block_of(row, self.n_condensed)

    def _open(self, number: int) -> OpenBlock:
        self._check_memory(self._n_arrived)
        return self._new_block(self._ends(number)[0], self.groups, number)

    def _check_memory(self, n_rows: int) -> None:
        """Raise if unlimited factors of ``n_rows`` rows would not fit into memory.

        Raises
        ------
        MemoryError
            If no setting limits the growth of factors, and there are too many rows.
        """
        available = memory_of(self.device)
        is_bounded = self.n_landmarks < NEVER or self.memory.forgets
        if is_bounded or available is None:
            return
        n_factors = len(self.columns)
        needed = 4 * n_rows**2 * n_factors  # one triangle each, 8 bytes per number
        if needed > available:
            # A factor grows to about 1.5 * max_exact rows; max_exact is at least 32.
            most = min(max(int((available / n_factors) ** 0.5 / 3), 32), 2048)
            raise MemoryError(
                f"Exact kernels of {n_rows} rows need {needed / 1e9:.3g} GB (readouts: "
                f"{n_factors}), but {self.device} has {available / 1e9:.3g} GB; for "
                f"example, pass max_exact={most} to every kernel readout"
            )

    def _new_block(
        self, start: int, groups: Sequence[KernelGroup], stop: int | None = None
    ) -> OpenBlock:
        """Open a block, and observe the labels of its rows up to row ``stop``."""
        raw, padded = self._read(start)
        scaled: dict[View, Tensor] = {}
        pairs: dict[View, tuple[Pairs, Pairs]] = {}
        for view in dict.fromkeys(group.view for group in groups):
            rows = self._scaler.scaled(padded, view.scaling, self.device)
            rows[len(raw) :] = 0
            scaled[view] = rows
            pairs[view] = view.pairs(rows), Pairs(rows, rows, view.distance)
        parts = []
        for group in groups:
            cross, among = group.join(scaled[group.view], pairs[group.view], len(raw))
            cross[len(raw) :] = 0
            among[len(raw) :] = among[:, len(raw) :] = 0
            among.diagonal()[len(raw) :] = 1
            parts.append(group.ridge.open(cross, among))
        block = OpenBlock(start, raw, scaled, parts)
        if stop is not None:
            targets = self.targets(self._labels[start:stop]).cpu()
            for first, end in self.rows_ahead.blocks(start, stop):
                block.observe(targets[first - start : end - start])
        return block

    def _close(self, block: RowBlock) -> None:
        """Add a complete block, and then refresh or replace factors if this is due."""
        assert isinstance(block, OpenBlock)
        self._append(block, self.groups)
        n_rows = self.n_observed
        if n_rows <= self.n_landmarks and is_refresh(n_rows):
            self._refresh(n_rows)
        if n_rows == self.n_landmarks:
            for group in self.groups:
                group.extend()
        labels = self._labels
        self._condense_or_fit(n_rows, lambda rows: self.targets(labels[rows]))

    def _append(self, block: OpenBlock, groups: Sequence[KernelGroup]) -> None:
        parts = zip(places_of(groups), block.parts, strict=True)
        for (group, places), part in parts:
            if learns(block.start, self.n_settled):
                group.ridge.close(part, block.errors[places].to(self.device))
        for view, rows in block.scaled.items():
            if view.n_rows != self.n_landmarks:
                view.append(rows)

    def _refresh(self, n_rows: int) -> None:
        """Refresh statistics, factors and the units of targets with the first rows."""
        changed = self._rescale_targets(n_rows)
        if any(group.is_refreshed for group in self.groups):
            self._take_in(n_rows)
            self._factor(n_rows)
        if changed:
            self._retarget(n_rows)

    def _condense_or_fit(self, n_rows: int, targets: Callable[[slice], Tensor]) -> None:
        """Replace factors by posteriors, or posteriors by occasional fits, if due.

        After the first fit, sum new features, and refit if a fit is due.

        Parameters
        ----------
        n_rows : int
            The end of a block.
        targets : callable
            Maps a slice of rows to their targets (n, P).
        """
        if n_rows == self.n_condensed:
            known = targets(slice(n_rows))
            for group in self.groups:
                group.condense(known)
        elif n_rows == self.n_settled:
            recent = self._raw(n_rows - RECENT, n_rows)
            for group in self.groups:
                scaling = group.view.scaling
                group.settle(self._scaler.scaled(recent, scaling, self.device))
        elif n_rows > self.n_settled and last_sum(n_rows, self.n_settled) == n_rows:
            new = torch.cat([*map(targets, blocks_to_sum(n_rows, self.n_settled))])
            for group in self.groups:
                assert isinstance(group.ridge, SettledRidge)
                group.ridge.learn(new)
                if last_fit(n_rows, self.n_settled) == n_rows:
                    group.ridge.fit()

    def _rescale_targets(self, n_rows: int) -> bool:
        """Update target units from the first labels; return False if they are fixed."""
        return False

    def _retarget(self, n_rows: int) -> None:
        """Learn targets in new units in groups whose factors were not recomputed."""
        targets = self.targets(self._labels[:n_rows])
        for group in self.groups:
            if not group.is_refreshed:
                assert isinstance(group.ridge, ForwardRidge)
                group.ridge.retarget(targets)

    def _take_in(self, n_rows: int) -> None:
        """Update statistics with the rows from the last refresh to row ``n_rows``.

        Whitenings are computed again, from the first ``n_rows`` rows and their labels.
        """
        start = n_rows // 2 if n_rows > FIRST else 0
        self._scaler.refresh(self._raw(start, n_rows))
        whitened = [s for s in self.views if s in WHITENED]
        if whitened:
            x = as_doubles(self._raw(0, n_rows), self.device)
            for scaling in whitened:
                self._scaler.whiten(scaling, x, self._labels[:n_rows])

    def _factor(self, n_rows: int) -> None:
        """Recompute the factors of kernels that depend on statistics."""
        for view in self.views.values():
            if view.has_statistics:
                self._fill(view, n_rows)
        self._measure_distances()
        targets = self.targets(self._labels[:n_rows])
        for group in self.groups:
            if group.is_refreshed:
                group.refresh(targets)

    def _measure_distances(self) -> None:
        """Set the unit of relative kernels to the median squared distance of rows."""
        for view in {group.view for group in self.groups if group.kernel.is_relative}:
            view.distance = median_distance(view.rows)

    def _fill(self, view: View, n_rows: int, first: int = 0) -> None:
        if not first:
            view.forget()
        step = BLOCK if first else PIECE  # to round as in blocks
        for start in range(first, n_rows, step):
            raw = self._raw(start, min(start + step, n_rows))
            view.append(self._scaler.scaled(raw, view.scaling, self.device))

    def predict_others(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        rows, (start, _) = raw.cpu().numpy(), self._ends(self.n_observed)
        block = None
        if self.n_observed > start:
            block = self._block or self._new_block(start, self.groups, self.n_observed)
        means, variances = [], []
        for number, (group, places) in enumerate(places_of(self.groups)):
            view = group.view
            x = self._scaler.scaled(rows, view.scaling, self.device)
            cross, pending = group.values(view.pairs(x)), None
            if block is not None:
                errors = block.errors[places, : block.n_observed].to(self.device)
                observed = block.scaled[view][: block.n_observed]
                near = group.values(Pairs(observed, x, view.distance))
                pending = Pending(block.parts[number], errors, near)
            mean, variance = group.ridge.predict(cross, group.diagonal(x), pending)
            means.append(mean)
            variances.append(variance)
        return torch.cat(means).cpu(), torch.cat(variances).cpu()

    def _keep(self, kept: list[int]) -> None:
        super()._keep(kept)
        for group, places in list(places_of(self.groups)):
            own = range(places.start, places.stop)
            group.ridge.retire([i - places.start for i in kept if i in own])
        self.groups = [group for group in self.groups if len(group.ridge.alphas)]

    @abstractmethod
    def _learn_again(self) -> None:
        """Learn everything except the factors again from the known rows."""

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return the numbers that a copy needs in addition to rows and labels.

        Factors are left out, since they can be recomputed.
        """
        states = super().state_dict()
        parts = chain(*(group.state_dict(self.n_added > 0) for group in self.groups))
        for column, part in zip(self.columns, parts, strict=True):
            states[column] |= part
        return states

    def _restore(self, learned: list[State]) -> None:
        if self.n_observed >= self.n_condensed:
            self._restore_posteriors(learned)
            return
        self._recompute()
        if self.n_added:  # recomputed errors might differ in their last bits
            for group, places in places_of(self.groups):
                errors = torch.stack([state["errors"] for state in learned[places]])
                assert isinstance(group.ridge, ForwardRidge)
                group.ridge.restore(errors.to(self.device))

    def _recompute(self) -> None:
        """Recompute all factors, in the same steps as before."""
        steady = [group for group in self.groups if not group.is_refreshed]
        complete, _ = self._ends(self.n_observed)
        exact = min(complete, self.n_landmarks)
        refreshed = last_refresh(exact)
        changed = bool(refreshed) and self._rescale_targets(refreshed)
        self._replay(0, refreshed, steady)
        replayed = {group.view for group in steady}
        for view in self.views.values():
            if not view.has_statistics and view not in replayed:
                self._fill(view, refreshed)
        self._measure(refreshed)
        if refreshed:
            self._factor(refreshed)
        if changed:
            self._retarget(refreshed)
        self._replay(refreshed, exact, self.groups)
        if self.n_observed >= self.n_landmarks:
            for group in self.groups:
                group.extend()
            self._replay(exact, complete, self.groups)

    def _replay(self, start: int, stop: int, groups: Sequence[KernelGroup]) -> None:
        if groups:
            for first, end in self._blocks(start, stop):
                self._append(self._new_block(first, groups, end), groups)

    def _measure(self, n_rows: int) -> None:
        """Repeat all updates of statistics up to row ``n_rows``."""
        for power in range(3, n_rows.bit_length()):
            self._take_in(1 << power)

    def _restore_posteriors(self, learned: list[State]) -> None:
        """Recompute the landmarks, and load the posteriors or the last fits."""
        refreshed = last_refresh(self.n_landmarks)
        self._rescale_targets(refreshed)
        self._measure(refreshed)
        self._fill_views(refreshed, self.n_landmarks)
        complete, _ = self._ends(self.n_observed)
        for group, places in places_of(self.groups):
            group.restore(complete, learned[places])
        if self.n_observed >= self.n_settled:
            summed = last_sum(self.n_observed, self.n_settled)
            self._replay(summed, complete, self.groups)

    def _fill_views(self, refreshed: int, n_rows: int) -> None:
        """Fill views with rows, of which the first ``refreshed`` set the scaling."""
        for view in self.views.values():
            self._fill(view, refreshed)
        if refreshed:
            self._measure_distances()
            for group in self.groups:
                group.rescale()
        for view in self.views.values():
            self._fill(view, n_rows, refreshed)
