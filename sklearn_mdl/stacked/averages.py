"""Moving averages of the weights of some members."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sklearn_mdl.stacked.perceptrons import StackedMLP


class StackedAverages:
    """Exponential moving averages of trained weights, for prediction alone.

    Parameters
    ----------
    trained : StackedMLP
        The ``T`` perceptrons that are being trained.
    sources : sequence of int
        For each of ``K`` readouts the training that it follows.
    step_sizes : sequence of float
        ``average <- (1 - step) average + step weights`` after every optimiser step; at
        1 the readout is its training and owns no weights.
    warmup : sequence of bool
        Where true, the ``n``-th step is at least ``1 / (n + 1)``, a plain mean at
        first.
    """

    def __init__(
        self,
        trained: StackedMLP,
        sources: Sequence[int],
        step_sizes: Sequence[float],
        warmup: Sequence[bool],
    ) -> None:
        rules = list(zip(step_sizes, warmup, strict=True))
        self.n_steps = 0
        self.rules = list(dict.fromkeys(rule for rule in rules if rule[0] < 1))
        followed = [
            sorted({s for s, r in zip(sources, rules, strict=True) if r == rule})
            for rule in self.rules
        ]
        self.copies = [trained.pick(members) for members in followed]
        # Where each readout's logits stand among those of the trainings and the copies.
        table: list[tuple[int, tuple[float, bool] | None]]
        table = [(s, None) for s in range(trained.n_members)]
        for rule, members in zip(self.rules, followed, strict=True):
            table += [(s, rule) for s in members]
        wanted = [
            (s, r if r[0] < 1 else None) for s, r in zip(sources, rules, strict=True)
        ]
        device = trained.pairs[0][0].device
        self.places = torch.tensor([table.index(w) for w in wanted], device=device)
        self.followed = [torch.tensor(members, device=device) for members in followed]

    def logits(self, trained: StackedMLP, x: Tensor) -> Tensor:
        """Logits (K, n, C) of rows (T, n, d)."""
        logits = [trained.forward(x).mT]
        for members, own in zip(self.followed, self.copies, strict=True):
            logits.append(own.forward(x.index_select(0, members)).mT)
        return torch.cat(logits).index_select(0, self.places).mT

    @torch.no_grad()
    def update(self, trained: StackedMLP) -> None:
        """Follow the weights after an optimiser step."""
        self.n_steps += 1
        for (step, warm), members, own in zip(
            self.rules, self.followed, self.copies, strict=True
        ):
            weight = max(step, 1 / (self.n_steps + 1)) if warm else step
            whole = len(members) == trained.n_members
            for mine, theirs in zip(own.pairs, trained.pairs, strict=True):
                for average, p in zip(mine, theirs, strict=True):
                    average.lerp_(p if whole else p.index_select(0, members), weight)
