"""Ranking of encoders by codelength over datasets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone

from sklearn_mdl._core.numerics import as_array, dense
from sklearn_mdl._core.sklearn_compat import (
    Constraints,
    Interval,
    Seed,
    StrOptions,
    fit_context,
)
from sklearn_mdl._core.unsupported import DELAY, GROUPS, PERMUTATIONS, unsupported
from sklearn_mdl._core.validation import (
    as_labels,
    may_be_real,
    refuse_labelled,
    warn_caller,
)
from sklearn_mdl.encoders import FeatureCache
from sklearn_mdl.model_selection._budget import warn_of_environments, with_all_encoders
from sklearn_mdl.model_selection._cells import Cell
from sklearn_mdl.model_selection._eliminate import Out, eliminated, out_text
from sklearn_mdl.model_selection._encoding import (
    Dataset,
    Failure,
    check_features,
    checked_targets,
    gather,
    listed,
)
from sklearn_mdl.model_selection._forecast import Forecast, forecast
from sklearn_mdl.model_selection._given import opened, refuse_new_classes
from sklearn_mdl.model_selection._ranking import PrintedRanking, Ranking
from sklearn_mdl.model_selection._running import run_tasks
from sklearn_mdl.model_selection._store import CellStore
from sklearn_mdl.model_selection._tables import settings_text
from sklearn_mdl.model_selection._tasks import (
    LINEAR_LABELS,
    Switcher,
    Task,
    default_switcher,
    fingerprints,
    on_equal_terms,
)
from sklearn_mdl.switcher import (
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    kernels_of,
)

Datasets = Mapping[str, tuple[object, ArrayLike]]
Encoders = Mapping[str, object]

SEVERAL_ORDERS = 4  # number of orders if n_orders is "auto" and labels are few


@dataclass(eq=False, repr=False)
class RepresentationScorer(PrintedRanking, BaseEstimator):
    """Ranking of encoders by the codelength of labels given their features.

    ``fit`` runs the switcher over the features from every encoder on every dataset. On
    a dataset, all encoders get the same readouts. Since default lists of readouts
    depend on the number of features, all encoders get the list for the encoder with the
    most features. An instance is also a scorer for model selection. Called with
    ``(transformer, X, y)``, it returns minus the codelength per example of the labels,
    given the transformed X.

    For up to 2,048 labels, the default readouts differ from those of
    :class:`~sklearn_mdl.MDLReadoutSwitcher`. The switcher's defaults give shorter codes
    on average. With up to 500 labels, however, linear kernels find the better encoder
    more often and in a fraction of the time. With 501 to 2,048 labels, the
    ``"closed-form"`` readouts find the better encoder about as often as the switcher's
    defaults (``python -m benchmarks choice``).

    Parameters
    ----------
    switcher : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor, default=None
        A cell is one encoder on one dataset in one order. The switcher is copied for
        every cell. A regressor treats all labels as real numbers. If None, `targets`
        decides between a classifier and a regressor, and the readouts depend on the
        number of labels. With up to 500 labels, a classifier has ``"linear"`` readouts.
        Otherwise, readouts are ``"closed-form"`` for up to 2,048 labels, and the
        switcher's default for more labels. Linear readouts are least-squares fits. With
        fewer features than classes, they miss classes that lie between others; then
        pass ``MDLReadoutSwitcher("closed-form")``.
    targets : {"auto", "classes", "real"}, default="auto"
        Kind of labels, if no switcher is given. "auto" treats floats as real numbers
        unless all are whole, and integers and text as classes. It raises ValueError for
        whole floats such as ages or prices, with more than 20 distinct values or more
        than a quarter of the number of rows.
    n_orders : int or "auto", default="auto"
        Number of random orders of each dataset. All encoders are run in the same
        orders unless `time_budget` is given, and codelengths are averaged over orders.
        "auto" is 4 if no switcher is given and no dataset has more than 500 labels, and
        1 otherwise. With one order and few labels per class, the verdict may call an
        encoder worse by chance with a probability above `alpha`. It then tells you to
        pass 4. With `time_budget`, this is the maximum number of orders.
    time_budget : float, default=None
        Seconds after which no cell is started. The time that encoders and races take
        does not count. If None, time is unlimited. Each round scores one order of every
        encoder on every dataset. If the mean codelength of an encoder on a dataset is
        more than 1.1 times the shortest, the encoder is skipped on this dataset, except
        in rounds 1, 2, 4, 8, .... The clock decides when to stop, but not which cells
        are next. Datasets on which some encoder was not scored in time are left out.
    alpha : float, default=0.1
        Significance level of tests. Intervals have confidence level ``1 - alpha``.
    dataset_groups : mapping of str to list of str, default=None
        Names of datasets for each group that is also ranked separately. A dataset may
        be in several groups.
    missing : {"raise", "drop"}, default="raise"
        What to do with a dataset for which the features from an encoder are missing or
        invalid, or a cell failed. "raise" raises ValueError, since ranks over different
        sets of datasets are not comparable. "drop" warns and leaves out the dataset.
    results : path-like, default=None
        A directory for every cell, saved as soon as it is scored, and for the features
        from transformers. Another ``fit`` only runs missing cells. Cells with other
        settings, data or library versions are never reused.
    n_permutations : int, default=None
        Number of label permutations in a test of every cell. See
        :meth:`MDLReadoutSwitcher.permutation_test`. The test only uses the kernel
        readouts in the list. If you call the instance as a scorer, there is no test.
    eliminate : float, default=None
        If given, the encoders first race on each dataset, with this level as the
        ``alpha`` of :class:`EncoderRace`. An encoder is not scored if a single other
        encoder beats it in every race. The probability that a race eliminates the best
        encoder on its dataset is approximately at most this level. If a dataset has
        groups, all encoders are scored. If None, there is no race.
    n_jobs : int, default=None
        Number of cells scored in parallel by joblib, possibly on its Dask backend. On a
        machine with several GPUs, each process uses one of them, unless the switcher's
        ``device`` is "cpu" or names one GPU. If all cells are small and no readout
        wraps another estimator or network, a short trial estimates the total time. If
        this is less than 3 s, which is about the time that starting processes takes, no
        process is started.
    verbose : int, default=0
        If above 0, show progress bars for network encoders and for cells.
    random_state : int, default=0
        Seed of the orders, initial weights and replay. The default is fixed, so that
        all calls of the scorer in a search use the same orders.

    Attributes
    ----------
    codelengths_ : ndarray of shape (n_datasets, n_encoders)
        Mean codelength over orders, in nats. If an encoder was scored in fewer orders
        than others, its mean difference from the encoders scored in the most orders is
        added to their mean. This difference is taken over the orders in which the
        encoder was scored.
    order_codelengths_ : ndarray of shape (n_datasets, n_encoders, n_orders)
        Codelength in each order, in nats. NaN for an order in which the encoder was
        skipped, or for which `time_budget` left no time.
    n_orders_ : ndarray of shape (n_datasets, n_encoders), int
        Number of orders in which each encoder was scored.
    average_ranks_ : ndarray of shape (n_encoders,)
        Mean over datasets of the rank by codelength. 1 is best.
    critical_difference_ : float
        Smallest difference between two average ranks that is significant at level
        ``alpha`` (Nemenyi test). NaN for a single encoder.
    dataset_groups_ : dict of str to Ranking
        The ranking on each group of datasets, except groups without ranked datasets.
    encoder_names_, dataset_names_ : list of str
    common_settings_notes_ : dict of str to str
        For some datasets, a note on encoders that would have other readouts, replay
        streams or scalings if they were scored separately. All encoders get the
        settings for the encoder with the most features.
    cells_ : list of Cell
        Results on the ranked datasets, grouped by dataset and encoder, and sorted by
        order.
    eliminated_ : dict of str to dict of str to int
        For each eliminated encoder, a mapping from datasets to the number of labels
        after which the encoder left the race. All other attributes leave out these
        encoders.
    failures_ : list of Failure
        Cells and encoders that failed. With ``missing="drop"``, their datasets are left
        out of the ranking.
    settings_ : RepresentationScorer
        Unfitted copy, with the parameters of this run.

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

    switcher: Switcher | None = None
    _: KW_ONLY
    targets: str = "auto"
    n_orders: int | Literal["auto"] = "auto"
    time_budget: float | None = None
    alpha: float = 0.1
    dataset_groups: Mapping[str, Collection[str]] | None = None
    missing: str = "raise"
    results: str | PathLike[str] | None = None
    n_permutations: int | None = None
    eliminate: float | None = None
    n_jobs: int | None = None
    verbose: int = 0
    random_state: int = 0

    _bar_title: ClassVar = "cells"
    _parameter_constraints: ClassVar[Constraints] = {
        "switcher": [MDLReadoutSwitcher, MDLReadoutSwitcherRegressor, None],
        "targets": [StrOptions({"auto", "classes", "real"})],
        "n_orders": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "dataset_groups": [Mapping, None],
        "missing": [StrOptions({"raise", "drop"})],
        "results": [str, PathLike, None],
        "n_permutations": [Interval(Integral, 1, None, closed="left"), None],
        "eliminate": [Interval(Real, 0, 1, closed="neither"), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": [Seed(Integral, 0, None, closed="left")],
    }

    @fit_context
    def fit(self, datasets: Datasets, encoders: Encoders | None = None) -> Self:
        """Score every encoder on every dataset, and rank the encoders.

        Parameters
        ----------
        datasets : mapping
            ``{name: (X, y)}`` with ``encoders``, or ``{name: ({encoder: features},
            y)}`` with precomputed features of shape (n_samples, width). If rows have
            groups, such as patients, add the group of each row: ``{name: (X, y,
            groups)}``. The labels of a group are only learned once all of its rows are
            coded. Pass an AnnData, or ``{name: (adata, column)}``, to use the arrays in
            its ``obsm`` as features and a column of ``obs`` as labels.
        encoders : mapping of str to transformer, default=None
            Transformers to fit on each X without labels. ``FrozenEstimator(...)`` is
            not fitted again. None or "passthrough" instead of a transformer keeps X.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If an encoder requires labels or has no features for a dataset, or if labels
            are invalid. Also if features and labels have different lengths, or the same
            pandas index in another order. Also if `n_permutations` is given for a list
            without kernel readouts, or if `time_budget` does not suffice for a cell of
            every encoder on at least one dataset. Also if a cell or an encoder failed
            and `missing` is "raise". All other cells are then in `results`, if given.
        TypeError
            If ``datasets`` or ``encoders`` are not mappings of these forms, or if a
            group in `dataset_groups` is not a list of names. Also if `results` is given
            and a setting of the switcher cannot be written to JSON.
        """
        queue, out = self._tasks(datasets, encoders), Out()
        if self.eliminate is not None:
            out = eliminated(queue, self.eliminate)
            queue = [task for task in queue if task.encoder not in out]
        tasks = [task for task in queue if isinstance(task, Task)]
        outcomes = self._run(tasks)
        failed = [item for item in [*queue, *outcomes] if isinstance(item, Failure)]
        kept = self._without_failures([task.dataset for task in queue], failed)
        kept = with_all_encoders(kept, tasks, outcomes)
        self.settings_ = clone(self)
        self.failures_, self.eliminated_ = failed, out
        self.cells_ = [
            replace(cell, groups=task.groups)
            for task, cell in zip(tasks, outcomes, strict=True)
            if isinstance(cell, Cell) and cell.dataset in kept
        ]
        self.dataset_groups_ = {
            name: Ranking([c for c in self.cells_ if c.dataset in members], self.alpha)
            for name, members in (self.dataset_groups or {}).items()
            if not set(members).isdisjoint(kept)
        }
        warn_of_environments(self.cells_)
        return self

    def summary(self) -> str:
        """Return the verdict, results, eliminated encoders and settings as text."""
        parts = [super().summary(), out_text(self.eliminated_)]
        settings = f"Settings: {settings_text(self, self.settings_.switcher)}"
        return "\n\n".join(filter(None, [*parts, settings]))

    def dry_run(self, datasets: Datasets, encoders: Encoders | None = None) -> Forecast:
        """Forecast the cells that ``fit`` would run, with their memory and time.

        This method runs the encoders, or reads their features from `results`. It then
        times switchers on a few minibatches. The forecast ignores `eliminate` and
        `time_budget`.

        Parameters
        ----------
        datasets, encoders : mapping
            As for ``fit``.

        Returns
        -------
        forecast : Forecast
            Use ``print(forecast)`` to show it as a table.
        """
        self._validate_params()
        queue = self._tasks(datasets, encoders)
        self._without_failures([], [t for t in queue if isinstance(t, Failure)])
        tasks = [task for task in queue if isinstance(task, Task)]
        return forecast(tasks, n_jobs=self.n_jobs, store=self._store())

    def __call__(self, transformer: TransformerMixin, X: object, y: ArrayLike) -> float:
        """Return minus the codelength per example, in nats, for a fitted transformer.

        Parameters
        ----------
        transformer : object with ``transform``
        X : array-like of shape (n_samples, ...)
        y : array-like of shape (n_samples,)

        Returns
        -------
        score : float
            Greater is better. Only compare scores for equal ``n_samples``.

        Raises
        ------
        ValueError
            If the switcher fails in some order. Also if the transformer requires y and
            is not frozen, since it has then seen the labels to be coded.
        """
        self._validate_params()
        name = type(transformer).__name__
        refuse_labelled(transformer, "the transformer")
        features = np.asarray(dense(as_array(transformer.transform(X))))
        labels = np.asarray(as_labels(y))
        is_real = checked_targets(labels, "y", self._targets)
        check_features(features, labels, name)
        given = {"": Dataset({name: features}, labels, is_real=is_real)}
        tasks = [task for task in self._cells_of(given) if isinstance(task, Task)]
        # The score needs no p-values.
        outcomes = self._run([task._replace(n_permutations=None) for task in tasks])
        failed = [item for item in outcomes if isinstance(item, Failure)]
        if failed:
            raise ValueError(
                f"The score is a mean over all orders, but {listed(failed)} failed; "
                "fix these errors and call the scorer again"
            )
        cells = [cell for cell in outcomes if isinstance(cell, Cell)]
        return -float(np.mean([cell.per_example for cell in cells]))

    @property
    def _targets(self) -> str:
        """Kind of labels, which depends on the switcher if one is given."""
        if self.switcher is None:
            return self.targets
        is_real = isinstance(self.switcher, MDLReadoutSwitcherRegressor)
        return "real" if is_real else "classes"

    def _orders_for(self, n_labels: int) -> int:
        """Return the number of orders if the largest dataset has this many labels."""
        if self.n_orders != "auto":
            return self.n_orders
        few = self.switcher is None and n_labels <= LINEAR_LABELS
        return SEVERAL_ORDERS if few else 1

    def _store(self) -> CellStore | None:
        if self.results is None:
            return None
        kinds: list[Switcher] = [MDLReadoutSwitcher(), MDLReadoutSwitcherRegressor()]
        given = kinds if self.switcher is None else [self.switcher]
        return CellStore(Path(self.results) / "cells", *given)

    def _tasks(
        self, datasets: Datasets, encoders: Encoders | None
    ) -> list[Task | Failure]:
        """Check the arguments, run the encoders, and return the tasks and failures."""
        self._store()  # raises TypeError for settings that cannot be written to JSON
        refuse_new_classes(self.switcher)
        if self.n_permutations is not None:
            _check_permutable(self.switcher or MDLReadoutSwitcher())
        datasets = cast(Datasets, opened(datasets))
        if isinstance(datasets, Mapping):  # otherwise an error is raised below
            _check_groups(self.dataset_groups or {}, datasets)
        store = self.results
        cache = None if store is None else FeatureCache(Path(store) / "features")
        given = datasets, encoders, self.missing, cache
        gathered = gather(
            *given, grouped=True, targets=self._targets, verbose=self.verbose
        )
        return [*self._cells_of(gathered)]

    def _cells_of(self, datasets: Mapping[str, Dataset]) -> Iterator[Task | Failure]:
        """Yield tasks and failures. All tasks on a dataset have the same readouts."""
        largest = max((len(data.labels) for data in datasets.values()), default=0)
        n_orders, seed = self._orders_for(largest), int(self.random_state)
        for name, dataset in datasets.items():
            if self.n_permutations is not None and dataset.groups is not None:
                cure = "omit n_permutations (--permutations)"
                raise unsupported(PERMUTATIONS, GROUPS, cure)
            n_labels = len(dataset.labels)
            switcher = self.switcher or default_switcher(n_labels, dataset.is_real)
            readouts = _equal_readouts(switcher, dataset)
            for encoder, X in dataset.features.items():
                if isinstance(X, Failure):  # yielded once, not in every order
                    yield X
                    continue
                y, groups, is_real = dataset[1:]
                if self.targets == "classes" and may_be_real(y):
                    y = y.astype(np.int64)  # whole floats become class labels
                data = fingerprints(X, y, groups, is_real=is_real)
                given = X, y, data, readouts, groups, self.n_permutations
                first = Task(name, encoder, 0, seed, switcher, *given)
                yield from (first._replace(order=order) for order in range(n_orders))

    def _run(self, tasks: Sequence[Task]) -> Sequence[Cell | Failure | None]:
        return run_tasks(
            tasks,
            n_jobs=self.n_jobs,
            store=self._store(),
            verbose=self.verbose,
            budget=self.time_budget,
            desc=self._bar_title,
        )

    def _without_failures(
        self, names: Iterable[str], failed: Sequence[Failure]
    ) -> list[str]:
        """Return the datasets without failures, after a warning about the others.

        If there are failures and `missing` is "raise", raise ValueError.
        """
        names = list(dict.fromkeys(names))
        if not failed:
            return names
        failures = f"{len(failed)} failed: {listed(failed)}"
        if self.missing == "raise":
            raise ValueError(
                f"Every encoder must be scored on every dataset, but {failures}; fix "
                "these errors, or pass missing='drop' to rank on the other datasets"
            )
        lost = list(dict.fromkeys(failure.dataset for failure in failed))
        warn_caller(f"Dropped datasets {lost}, because {failures}")
        kept = [name for name in names if name not in lost]
        if names and not kept:
            raise ValueError(
                "Ranking needs at least one dataset with all encoders, got none, since "
                f"{failures}; fix these errors, or leave out these encoders"
            )
        return kept


def _equal_readouts(
    switcher: Switcher, dataset: Dataset
) -> tuple[str | None, int, int] | None:
    """Return the default list's name, number of features and number of classes.

    All encoders share this list of readouts. Return None if the user gave a list of
    readouts, or if no encoder has features.
    """
    name = switcher.readouts
    usable = [X for X in dataset.features.values() if isinstance(X, np.ndarray)]
    if not usable or not isinstance(name, str | None):
        return None
    width = max(X.shape[1] for X in usable)
    return name, width, 0 if dataset.is_real else len(np.unique(dataset.labels))


def _check_permutable(switcher: Switcher) -> None:
    """Raise before the run for settings that the permutation test would reject."""
    if switcher.label_delay:
        raise unsupported(PERMUTATIONS, DELAY, "pass n_permutations=None")
    readouts: object = on_equal_terms(switcher, 1, 2).readouts
    kernels_of(readouts if isinstance(readouts, list | tuple) else [readouts])


def _check_groups(groups: Mapping[str, object], datasets: Datasets) -> None:
    for name, members in groups.items():
        if isinstance(members, str) or not isinstance(members, Collection):
            right = [members] if isinstance(members, str) else list(datasets)[:2]
            raise TypeError(
                "dataset_groups must be a mapping {group: [datasets]}, but group "
                f"{name!r} is {members!r}; write {{{name!r}: {right}}}"
            )
        unknown = [member for member in members if member not in datasets]
        if unknown:
            raise ValueError(
                f"dataset_groups must only name datasets in {list(datasets)}, but "
                f"{name!r} holds {unknown[0]!r}; correct or remove {unknown[0]!r}"
            )
