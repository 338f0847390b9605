"""Codelengths with delayed labels, for digits whose classes keep or change names."""

import numpy as np
from sklearn.datasets import load_digits

from benchmarks._data import permuted
from sklearn_mdl import KernelReadout, LinearReadout, MDLReadoutSwitcher


class Delays:
    """Nats of 1,797 digits, by the number of rows by which labels are delayed."""

    params = [[0, 1, 10, 100, 400]]
    param_names = ["label_delay"]
    unit = "nats"
    formats = {"track_stationary": ".0f", "track_drifting": ".0f"}

    def prepare(self):
        """Permute the rows, and rename classes at random in each of four segments."""
        self.X, self.y = permuted(*load_digits(return_X_y=True), seed=0)
        rng = np.random.default_rng(1)
        ends = [0, *sorted(rng.integers(200, 1600, size=3)), len(self.y)]
        names = [np.tile(rng.permutation(10), (n, 1)) for n in np.diff(ends)]
        self.renamed = np.concatenate(names)[np.arange(len(self.y)), self.y]
        print("labels renamed at rows", *ends[1:-1])

    def track_stationary(self, label_delay):
        return self._codelength(self.y, label_delay)

    def track_drifting(self, label_delay):
        return self._codelength(self.renamed, label_delay)

    def _codelength(self, y, label_delay):
        fast = LinearReadout(lr=0.03, recency=0.3, n_replay_streams=10)
        model = MDLReadoutSwitcher(
            [KernelReadout(), KernelReadout(alpha=0.3), fast],
            label_delay=label_delay,
            batch_size=(8, 32),
            random_state=0,
        )
        return model.fit(self.X, y).codelength_
