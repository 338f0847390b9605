"""Which encoder serves: codelengths over datasets, their ranks, what separates them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._sklearn import Interval, StrOptions, fit_context
from sklearn_mdl.conditions import first_difference
from sklearn_mdl.guards import refuse_labelled
from sklearn_mdl.regression import MDLReadoutSwitcherRegressor
from sklearn_mdl.representation.cells import Cell, Task
from sklearn_mdl.representation.encoding import check_features, check_labels, gather
from sklearn_mdl.representation.failures import Failure, told
from sklearn_mdl.representation.features import FeatureStore
from sklearn_mdl.representation.forecast import Forecast, forecast
from sklearn_mdl.representation.identity import fingerprints
from sklearn_mdl.representation.running import Outcome, list_tasks, run_tasks
from sklearn_mdl.representation.statistics import Ranking, RankStatistics
from sklearn_mdl.representation.store import CellStore
from sklearn_mdl.switcher import MDLReadoutSwitcher


class RepresentationScorer(RankStatistics, BaseEstimator):
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
        Level of the critical difference; intervals have level ``1 - alpha``.
    groups : mapping of str to list of str, default=None
        Datasets that are also ranked apart, by the name of the group; a dataset may be
        in several.
    missing : {"raise", "drop"}, default="raise"
        What to do with a dataset that lacks an encoder, or on which a cell failed:
        refuse, since ranks over unequal sets of datasets mean nothing, or drop the
        dataset and say so.
    results : path-like, default=None
        A directory in which every cell is kept as it comes, and features of
        transformers too. A second ``fit`` walks what is missing and nothing else; cells
        of other settings, data or library versions are never taken for these.
    n_jobs : int, default=None
        Cells scored side by side, through joblib, whose backend may be that of Dask. On
        a machine with several GPUs each process takes one.
    verbose : int, default=0
        Show a progress bar over cells, with the time left.
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
    groups_ : dict of str to Ranking
        The ranking on each of the groups.
    encoder_names_, dataset_names_ : list of str
    cells_ : list of Cell
        All results, dataset by dataset, encoder by encoder, order by order.
    failures_ : list of Failure
        Cells and encoders that came to no end; with ``missing="drop"`` their datasets
        are not in the ranking.

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
        "groups": [Mapping, None],
        "missing": [StrOptions({"raise", "drop"})],
        "results": [str, PathLike, None],
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
        groups=None,
        missing="raise",
        results=None,
        n_jobs=None,
        verbose=0,
        random_state=0,
    ):
        self.switcher = switcher
        self.n_orders = n_orders
        self.alpha = alpha
        self.groups = groups
        self.missing = missing
        self.results = results
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
            If an encoder requires labels, is missing for a dataset, if lengths differ,
            if labels are no classes, or of one class only, or if a cell failed and
            ``missing`` is "raise"; all others have then run, and are kept in
            ``results``.
        TypeError
            If ``datasets``, ``encoders`` or ``groups`` are not mappings of that form,
            or if ``switcher`` is a regressor.
        """
        tasks, store = self._listed(datasets, encoders)
        failed = [task for task in tasks if isinstance(task, Failure)]
        walks = [task for task in tasks if isinstance(task, Task)]
        outcomes = self._run(walks, store)
        failed += [found for found in outcomes if isinstance(found, Failure)]
        names = dict.fromkeys(task.dataset for task in tasks)
        kept = self._without_failures(list(names), failed)
        cells = [
            cell for cell in outcomes if isinstance(cell, Cell) and cell.dataset in kept
        ]
        self.failures_ = failed
        self.cells_ = cells
        self.dataset_names_ = kept
        self.encoder_names_ = list(dict.fromkeys(cell.encoder for cell in cells))
        shape = (len(kept), len(self.encoder_names_), self.n_orders)
        totals = np.array([cell.codelength for cell in cells])
        self.order_codelengths_ = totals.reshape(shape)
        self.groups_ = {
            name: Ranking.of(self, members)
            for name, members in (self.groups or {}).items()
            if not set(members).isdisjoint(kept)
        }
        _tell_environments(cells)
        return self

    def dry_run(self, datasets, encoders=None) -> Forecast:
        """List the cells that ``fit`` would walk, their memory and time.

        Encoders run, or come from ``results``; walks are tried on their first
        minibatches.

        Parameters
        ----------
        datasets, encoders : dict
            As for ``fit``.

        Returns
        -------
        forecast : Forecast
            Prints as a table.
        """
        self._validate_params()
        tasks, store = self._listed(datasets, encoders)
        self._without_failures([], [t for t in tasks if isinstance(t, Failure)])
        walks = [task for task in tasks if isinstance(task, Task)]
        return forecast(walks, n_jobs=self.n_jobs, store=store)

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
            are coded. Also if a cell failed.
        """
        self._validate_params()
        name = type(transformer).__name__
        refuse_labelled(transformer, name)
        features, y = np.asarray(transformer.transform(X)), np.asarray(y)
        check_labels(y, "y")
        check_features(features, y, name)
        data, seed = fingerprints(features, y), int(self.random_state)
        tasks = [
            Task("", name, order, seed, self._walker, features, y, data)
            for order in range(self.n_orders)
        ]
        outcomes = self._run(tasks, self._store())
        failed = [found for found in outcomes if isinstance(found, Failure)]
        if failed:
            raise ValueError(f"A score takes all its cells, but {told(failed)} failed")
        return -float(
            np.mean([cell.per_example for cell in outcomes if isinstance(cell, Cell)])
        )

    def _validate_params(self) -> None:
        if isinstance(self.switcher, MDLReadoutSwitcherRegressor):
            raise TypeError(
                "switcher must be an MDLReadoutSwitcher, since labels must be classes "
                "here, got MDLReadoutSwitcherRegressor; fit that on the features of "
                "each encoder and compare codelength_"
            )
        super()._validate_params()

    @property
    def _walker(self) -> MDLReadoutSwitcher:
        return MDLReadoutSwitcher() if self.switcher is None else self.switcher

    def _store(self) -> CellStore | None:
        if self.results is None:
            return None
        return CellStore(Path(self.results) / "cells", self._walker)

    def _listed(
        self, datasets: Any, encoders: Any
    ) -> tuple[list[Task | Failure], CellStore | None]:
        """Check all there is to check, run the encoders, and list the cells."""
        store = self._store()
        cache = None
        if self.results is not None:
            cache = FeatureStore(Path(self.results) / "features")
        if isinstance(datasets, Mapping):  # or it is refused below
            _check_groups(self.groups, datasets)
        data = gather(datasets, encoders, self.missing, cache)
        seed = int(self.random_state)
        return list_tasks(data, self._walker, self.n_orders, seed), store

    def _run(self, tasks: Sequence[Task], store: CellStore | None) -> list[Outcome]:
        return run_tasks(tasks, n_jobs=self.n_jobs, store=store, verbose=self.verbose)

    def _without_failures(
        self, names: list[str], failed: Sequence[Failure]
    ) -> list[str]:
        """Return the datasets that stay, or refuse, as ``missing`` says."""
        if not failed:
            return names
        if self.missing == "raise":
            raise ValueError(
                "Every dataset must hold every encoder, since ranks over unequal sets "
                f"mean nothing, but {len(failed)} failed: {told(failed)}; mend what "
                "failed and fit again, or pass missing='drop'"
            )
        lost = dict.fromkeys(failure.dataset for failure in failed)
        warnings.warn(
            f"Dropped datasets {list(lost)}, on which {len(failed)} failed: "
            f"{told(failed)}",
            UserWarning,
            stacklevel=4,
        )
        kept = [name for name in names if name not in lost]
        if names and not kept:
            raise ValueError(
                "Ranking needs at least one dataset with all encoders, got none: "
                f"{told(failed)} failed; mend what failed and fit again"
            )
        return kept

    def _check_ranked(self) -> None:
        check_is_fitted(self)


def _check_groups(groups: Any, datasets: Any) -> None:
    for name, members in (groups or {}).items():
        if isinstance(members, str) or not isinstance(members, Sequence | set):
            raise TypeError(
                "groups must be a mapping {group: [datasets]}, but group "
                f"{name!r} is {members!r}; give a list of names"
            )
        strange = [member for member in members if member not in datasets]
        if strange:
            raise ValueError(
                f"groups must name datasets, but {name!r} holds {strange[0]!r}; there "
                f"are {list(datasets)}"
            )


def _tell_environments(cells: Sequence[Cell]) -> None:
    """Warn if cells were walked on unlike machines."""
    for cell in cells:
        found = first_difference(cells[0].environment, cell.environment)
        if found is not None:
            name, one, other = found
            warnings.warn(
                f"cells were walked on unlike machines ({name} is {one!r} and "
                f"{other!r}), so that their numbers may differ a little",
                UserWarning,
                stacklevel=4,
            )
            return
