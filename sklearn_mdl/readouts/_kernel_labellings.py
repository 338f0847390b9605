"""Kernel readouts for several labellings of one stream, with the same factors.

A labelling assigns a label to every row. Unless rows are whitened within classes, the
factors do not depend on labels, so each labelling only adds columns of targets.
Permutation tests and control tasks use these learners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sklearn_mdl.readouts._kernel_groups import Stretch
from sklearn_mdl.readouts._kernel_learners import KernelLearner
from sklearn_mdl.readouts._kernel_rows import FIRST, is_refresh, last_refresh, learns


class Labellings(NamedTuple):
    """Several labellings of the rows of a stream.

    Attributes
    ----------
    labels : ndarray of shape (S, N)
    n_numbers : int
        Number of values in a prediction (the number of classes in classification).
    """

    labels: np.ndarray
    n_numbers: int

    def targets(self) -> Tensor:
        """Return centred one-hot labels, (N, S, C)."""
        labels = torch.from_numpy(self.labels.T)
        onehot = torch.nn.functional.one_hot(labels, self.n_numbers)
        return onehot.double() - 1 / self.n_numbers

    def scores(self, means: Tensor) -> np.ndarray:
        """Reshape predicted targets (K, n, S C) to (K, n, S, C)."""
        return means.numpy().reshape(*means.shape[:2], len(self.labels), self.n_numbers)


class LabellingsLearner(KernelLearner):
    """Learner for kernel readouts that can code a whole stream with other targets."""

    def evaluated(
        self, targets: Callable[[int], Tensor], n_rows: int, *, squares: bool = False
    ) -> Iterator[Stretch]:
        """Predict the first rows of the stream for many columns of targets.

        The learner must be new. Afterwards, it can only be used for
        :meth:`predict_beyond`.

        Parameters
        ----------
        targets : callable
            Returns the targets (N, P) given the number of rows at the last refresh.
        n_rows : int
        squares : bool
            Whether to also yield the squared errors of the landmarks, in a stretch
            without predictions. This takes another factorisation, and is only done if
            rows follow and if statistics are refreshed at the last landmark.
        """
        if self.memory.forgets:
            raise ValueError(
                "predict_relabelled needs a readout that keeps all rows, got window="
                f"{self.memory.window}, restart={self.memory.restart}; set both to None"
            )
        start = 0
        exact = min(n_rows, self.n_landmarks)
        while start < exact:
            if start:
                self._take_in(start)
            end = min(exact, 2 * start if start else FIRST)
            self._fill_views(start, end)
            known = targets(start)
            yield self._stretch(start, known)
            start = end
        if exact == n_rows:
            return
        if is_refresh(exact):
            self._take_in(exact)
        refreshed = last_refresh(exact)
        self._fill_views(refreshed, exact)
        known = targets(refreshed)
        if squares and refreshed == exact:
            yield self._stretch(exact, known)
        for group in self.groups:
            group.ridge = group.refitted(known)
            group.extend()
        for start, end in self._blocks(exact, n_rows):
            yield self._reduced_stretch(start, known[start:end])
            if end <= n_rows:
                self._condense_or_fit(end, known.__getitem__)

    def _stretch(self, start: int, targets: Tensor) -> Stretch:
        """Predict the rows of the views, beginning at ``start``."""
        ahead = self.rows_ahead
        parts = [group.stretch(start, targets, ahead) for group in self.groups]
        return Stretch.joined(parts)

    def _reduced_stretch(self, start: int, targets: Tensor) -> Stretch:
        """Predict the rows of a block after the landmarks, and learn them if due."""
        stretches, n_own = [], len(targets)
        known = torch.from_numpy(self.rows_ahead.known(start, start + n_own) - start)
        block = self._new_block(start, self.groups)
        for group, part in zip(self.groups, block.parts, strict=True):
            first_rows = part.first(n_own)
            predicted, errors = first_rows.learned(targets, known)
            stretches.append(Stretch(start, *predicted, None))
            if learns(start, self.n_settled):
                group.ridge.close(first_rows, errors)
        return Stretch.joined(stretches)

    def predict_beyond(self, targets: Tensor, raw: np.ndarray) -> tuple[Tensor, Tensor]:
        """Predict other rows (m, d) from all ``N`` evaluated rows.

        Parameters
        ----------
        targets : Tensor of shape (N, P)
            The targets that :meth:`evaluated` used last.
        raw : ndarray of shape (m, d)

        Returns
        -------
        means : Tensor of shape (K, m, P)
        variances : Tensor of shape (K, m)
        """
        n_rows = len(targets)
        if n_rows <= self.n_landmarks:
            if is_refresh(n_rows):
                self._take_in(n_rows)
            self._fill_views(last_refresh(n_rows), n_rows)
            for group in self.groups:
                group.ridge = group.refitted(targets)
        return self.predict_others(torch.tensor(raw))
