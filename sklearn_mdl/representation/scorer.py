"""Which encoder serves: codelengths over datasets, their ranks, what separates them."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from sklearn_mdl._sklearn import Interval, StrOptions, fit_context
from sklearn_mdl.guards import refuse_labelled
from sklearn_mdl.ranking import average_ranks, nemenyi_critical_difference
from sklearn_mdl.representation.cells import Cell, score_cell
from sklearn_mdl.representation.encoding import check_features, gather
from sklearn_mdl.representation.table import as_frame, as_text
from sklearn_mdl.switcher import MDLReadoutSwitcher


class RepresentationScorer(BaseEstimator):
    """Rank encoders by the codelength of labels given their features.

    ``fit`` walks over every encoder on every dataset. An instance is also a scorer for
    model selection: called with ``(transformer, X, y)`` it returns minus the codelength
    per example of the transformed X.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher, default=None
        Copied for every cell; None takes the default one.
    n_orders : int, default=1
        Random orders of each dataset, the same for every encoder; codelengths are means
        over them.
    alpha : float, default=0.1
        Level of the critical difference.
    missing : {"raise", "drop"}, default="raise"
        What to do with a dataset that lacks an encoder: refuse, since ranks over
        unequal sets of datasets mean nothing, or drop the dataset and say so.
    n_jobs : int, default=None
        Cells scored side by side, through joblib.
    verbose : int, default=0
        Show a progress bar over cells.
    random_state : int, default=0
        Seeds orders, initial weights and replay. A fixed number by default, so that
        separate calls of a scorer in a search see the same orders.

    Attributes
    ----------
    codelengths_ : ndarray of shape (n_datasets, n_encoders)
        Mean codelength over orders, in nats.
    order_codelengths_ : ndarray of shape (n_datasets, n_encoders, n_orders)
    average_ranks_ : ndarray of shape (n_encoders,)
        Mean over datasets of the rank by codelength, 1 is best.
    critical_difference_ : float
        Average ranks closer than this are not told apart at level ``alpha`` (Nemenyi);
        NaN for a single encoder.
    encoder_names_, dataset_names_ : list of str
    cells_ : list of Cell
        All results, dataset by dataset, encoder by encoder, order by order.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, RepresentationScorer
    >>> switcher = MDLReadoutSwitcher([LinearReadout(lr=0.01)])
    >>> scorer = RepresentationScorer(switcher)
    >>> encoders = {"raw": None, "first axis": PCA(1)}
    >>> scorer.fit({"iris": load_iris(return_X_y=True)}, encoders).average_ranks_
    array([1., 2.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "switcher": [MDLReadoutSwitcher, None],
        "n_orders": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "missing": [StrOptions({"raise", "drop"})],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        switcher=None,
        *,
        n_orders=1,
        alpha=0.1,
        missing="raise",
        n_jobs=None,
        verbose=0,
        random_state=0,
    ):
        self.switcher = switcher
        self.n_orders = n_orders
        self.alpha = alpha
        self.missing = missing
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, datasets, encoders=None) -> Self:
        """Score every encoder on every dataset, and rank.

        Parameters
        ----------
        datasets : mapping
            ``{name: (X, y)}`` to be run through ``encoders``, or
            ``{name: ({encoder: features}, y)}`` with precomputed features of shape
            (n_samples, width).
        encoders : mapping of str to transformer, default=None
            Fitted here on each X without labels; ``FrozenEstimator(...)`` is used as it
            is; None or "passthrough" as a value keeps X.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If an encoder requires labels, is missing for a dataset, if lengths differ
            or if a dataset has one class only.
        TypeError
            If ``datasets`` or ``encoders`` are not mappings.
        """
        data = gather(datasets, encoders, self.missing)
        self.dataset_names_ = list(data)
        self.encoder_names_ = list(next(iter(data.values())).features)
        jobs = [
            self._job(X, dataset.labels, (name, encoder), order)
            for name, dataset in data.items()
            for encoder, X in dataset.features.items()
            for order in range(self.n_orders)
        ]
        self.cells_ = self._run(jobs)
        shape = (len(data), len(self.encoder_names_), self.n_orders)
        totals = np.array([cell.codelength for cell in self.cells_])
        self.order_codelengths_ = totals.reshape(shape)
        self.codelengths_ = self.order_codelengths_.mean(-1)
        self.average_ranks_ = average_ranks(self.codelengths_)
        self.critical_difference_ = float("nan")
        if len(self.encoder_names_) > 1:
            self.critical_difference_ = nemenyi_critical_difference(
                len(self.encoder_names_), len(data), self.alpha
            )
        return self

    def __call__(self, transformer, X, y) -> float:
        """Score a fitted transformer: minus the codelength per example, in nats.

        Parameters
        ----------
        transformer : object with ``transform``
        X : array-like of shape (n_samples, ...)
        y : array-like of shape (n_samples,)

        Returns
        -------
        score : float
            Greater is better. Compare scores at equal ``n_samples`` only.

        Raises
        ------
        ValueError
            If the transformer requires y and is not frozen: it has seen the labels that
            are coded.
        """
        self._validate_params()
        name = type(transformer).__name__
        refuse_labelled(transformer, name)
        features, y = np.asarray(transformer.transform(X)), np.asarray(y)
        check_features(features, y, name)
        names = ("", name)
        jobs = [self._job(features, y, names, order) for order in range(self.n_orders)]
        return -float(np.mean([cell.per_example for cell in self._run(jobs)]))

    def _job(
        self, X: np.ndarray, y: np.ndarray, names: tuple[str, str], order: int
    ) -> Callable[[], Cell]:
        switcher = MDLReadoutSwitcher() if self.switcher is None else self.switcher
        seed = int(self.random_state)
        return delayed(score_cell)(switcher, X, y, names=names, order=order, seed=seed)

    def _run(self, jobs: list[Any]) -> list[Cell]:
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        bar = tqdm(
            parallel(jobs), total=len(jobs), desc="cells", disable=not self.verbose
        )
        return list(bar)

    def to_frame(self):
        """Return one row per cell as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            Columns dataset, encoder, order, n_samples, n_features, n_classes,
            codelength, per_example and saved_per_example (nats), rank within the
            dataset, best readout and seconds.

        Raises
        ------
        ImportError
            If pandas is not installed: it comes with the extra ``plot``.
        """
        check_is_fitted(self)
        return as_frame(self)

    def summary(self) -> str:
        """Return the ranking as text: by dataset, then average ranks."""
        check_is_fitted(self)
        return as_text(self)
