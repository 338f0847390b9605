"""What processes of their own must be able to import."""

import os
from pathlib import Path

from sklearn.naive_bayes import GaussianNB


class Deadly(GaussianNB):
    """Kills its process, once."""

    def __init__(self, marker="", *, priors=None, var_smoothing=1e-9):
        super().__init__(priors=priors, var_smoothing=var_smoothing)
        self.marker = marker

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return super().partial_fit(X, y, classes)
        os._exit(1)


class Hungry(GaussianNB):
    """Kills its process whenever it is fitted to a single column."""

    def fit(self, X, y):
        if X.shape[1] == 1:
            os._exit(1)
        return super().fit(X, y)
