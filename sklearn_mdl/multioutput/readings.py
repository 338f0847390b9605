"""What the walks of several columns have to say together."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl.measures import PrequentialMeasures
from sklearn_mdl.online import OnlineClassifier


class OutputReadings:
    """Mixin of an estimator with a walk for each column."""

    estimators_: list[OnlineClassifier]

    def measures(self, *, n_bins: int = 15) -> list[PrequentialMeasures]:
        """Accuracy, Brier score and calibration of the walk of every column.

        Parameters
        ----------
        n_bins : int, default=15
            Bins of the expected calibration error.

        Returns
        -------
        measures : list of n_outputs PrequentialMeasures
            See :meth:`MDLReadoutSwitcher.measures`.
        """
        check_is_fitted(self)
        return [switcher.measures(n_bins=n_bins) for switcher in self.estimators_]

    @property
    def codelength_(self) -> float:
        """Codelength of all labels in all columns, in nats."""
        return float(sum(self.output_codelengths_.tolist()))

    @property
    def codelengths_(self) -> np.ndarray:
        """Codelength of every example in the order walked, (n_samples_seen_,), nats."""
        n_rows = self.n_samples_seen_
        return np.sum([s.codelengths_[:n_rows] for s in self.estimators_], axis=0)

    @property
    def output_codelengths_(self) -> np.ndarray:
        """Codelength of every column, (n_outputs,), in nats."""
        return np.array([switcher.codelength_ for switcher in self.estimators_])

    @property
    def uniform_codelength_(self) -> float:
        """What uniform codes of all columns cost, in nats."""
        return float(sum(found.uniform_codelength for found in self.measures()))

    @property
    def frequency_codelength_(self) -> float:
        """What codes that learn the frequencies of the classes cost, in nats."""
        return float(sum(found.frequency_codelength for found in self.measures()))

    @property
    def classes_(self) -> list[np.ndarray]:
        """Classes of every column."""
        return [switcher.classes_ for switcher in self.estimators_]

    @property
    def n_outputs_(self) -> int:
        """Number of columns."""
        return len(self.estimators_)

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return int(self.estimators_[0].n_features_in_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, (n_features_in_,), if they came with names."""
        names: np.ndarray = self.estimators_[0].feature_names_in_
        return names

    @property
    def n_samples_seen_(self) -> int:
        """Number of examples walked so far, in all columns."""
        return min(switcher.n_samples_seen_ for switcher in self.estimators_)

    @property
    def order_(self) -> np.ndarray:
        """Order in which ``fit`` walked the rows, (n_samples,)."""
        order: np.ndarray = self.estimators_[0].order_
        return order
