"""Fitted switchers: attributes, remixing, segments and permutation tests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.estimator import OnlineEstimator
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.unsupported import DELAY, GROUPS, PERMUTATIONS, unsupported
from sklearn_mdl._core.validation import check_positive, invalid, warn_caller
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import Readout, grid_edges, readout_names
from sklearn_mdl.switcher._loss_files import save_losses
from sklearn_mdl.switcher._permutation import (
    PermutationTest,
    kernels_of,
    permutation_tests,
)
from sklearn_mdl.switcher._repooling import KindMixtures, PooledTrace
from sklearn_mdl.switcher._resolved import Parameters, ResolvedSettings
from sklearn_mdl.switcher._segments import (
    Ends,
    StreamSegments,
    block_bootstrap,
    segment_ends,
)
from sklearn_mdl.switcher._split_parts import Common
from sklearn_mdl.switcher._stored_losses import StoredLosses
from sklearn_mdl.switcher._views import ViewTrace, view_trace
from sklearn_mdl.switching import ForwardTrace, PriorLike, best_sequence, group_columns


class FittedSwitcher(OnlineEstimator, Parameters):
    """Base class of switchers, with the methods that read a run without changing it.

    The subclass ``BaseSwitcher`` creates the run.
    """

    @property
    def settings_(self) -> ResolvedSettings:
        """Settings with "auto" and None resolved; ``print`` shows one per line."""
        return self._run.origin

    @property
    def readouts_(self) -> list[Readout]:
        """Unfitted copies of the readouts used."""
        return self.settings_.readouts

    @property
    def readout_weights_(self) -> np.ndarray | None:
        """Prior weights (n_readouts,) of any positive sum, or None if uniform."""
        return self.settings_.mixing.weights

    @property
    def posterior_(self) -> np.ndarray:
        """Posterior over readouts before each label, (n_samples_seen_, n_readouts)."""
        return self._run.trace.posterior

    @property
    def switching_codelengths_(self) -> np.ndarray:
        """Codelengths under the switching mixture, in nats, (n_samples_seen_,)."""
        return self._run.trace.codes[:, 1]

    @property
    def switching_codelength_(self) -> float:
        """Sum of ``switching_codelengths_``: the paper's codelength, in nats."""
        return float(np.sum(self.switching_codelengths_))

    @property
    def pool_kinds_(self) -> list[Hashable]:
        """Names of the kinds of readouts in the pool (empty without a pool)."""
        return list(self.settings_.mixing.group_names)

    @property
    def pool_weights_(self) -> np.ndarray:
        """Weights of the kinds before each label, (n_samples_seen_, n_kinds)."""
        return self._run.trace.numbers()["pool_weights"]

    @property
    def pool_posterior_(self) -> np.ndarray:
        """Probabilities of the switching mixture and the pool, (n_samples_seen_, 2)."""
        return self._run.trace.numbers()["shares"]

    @property
    def readout_losses_(self) -> np.ndarray:
        """Log-losses in nats (NaN if retired), (n_samples_seen_, n_readouts)."""
        return self._run.trace.losses

    @property
    def retired_at_(self) -> np.ndarray:
        """Number of examples after which each readout retired, or -1 if it has not."""
        return self._run.retired_at.copy()

    @property
    def readout_codelengths_(self) -> np.ndarray:
        """Codelength of every readout, (n_readouts,), in nats.

        Once retired, a readout costs as much as the mixture of the readouts that still
        run.
        """
        return self._stored().totals(self.switching_codelengths_)

    @property
    def readout_names_(self) -> list[str]:
        """Names of the readouts: architectures and the settings that vary."""
        return readout_names(self.readouts_)

    @property
    def view_names_(self) -> list[Hashable]:
        """Names of the views (sets of columns) that readouts use, None for all of X."""
        return list(dict.fromkeys(readout.view for readout in self.readouts_))

    @property
    def view_posterior_(self) -> np.ndarray:
        """Posterior over views before each label, (n_samples_seen_, n_views)."""
        names, members = group_columns([readout.view for readout in self.readouts_])
        return np.asarray(self.posterior_ @ np.eye(len(names))[members])

    @property
    def diverged_readouts_(self) -> list[str]:
        """Names of the readouts whose predictions stopped being finite."""
        names = self.readout_names_
        return [names[column] for column in np.flatnonzero(self._run.diverged)]

    @property
    def diverged_at_(self) -> np.ndarray:
        """Index of each readout's first prediction that was not finite, or -1 if none.

        Indices are in order of evaluation.
        """
        return self._run.threads.diverged_at

    @property
    def grid_edges_(self) -> dict[str, tuple[float, str]]:
        """Settings of the best readout that are at the edge of the grid."""
        return grid_edges(self.readouts_, self.readout_codelengths_)

    def _warn_of_edges(self) -> None:
        """Warn if the best readout is at the edge of the grid."""
        edges, signs = self.grid_edges_.items(), {"lowest": "<", "highest": ">"}
        if edges:
            tried = [f"{name}={value:g} is the {side}" for name, (value, side) in edges]
            wider = [f"{name} {signs[side]} {value:g}" for name, (value, side) in edges]
            best = self.readout_names_[int(np.argmin(self.readout_codelengths_))]
            warn_caller(
                f"The best readout should lie inside the grid, but for {best!r} "
                f"{' and '.join(tried)} value tried; add readouts with "
                f"{' and '.join(wider)}"
            )

    @property
    def store_(self) -> Path | None:
        """Folder with the files of this stream, or None if the trace is in memory."""
        folder = self._run.trace.folder
        return None if folder is None else folder.path

    def remix(self, switching: PriorLike) -> ForwardTrace:
        """Mix the losses under another prior without retraining.

        Parameters
        ----------
        switching : str or SwitchingPrior
            Prior over sequences of readouts, as in the constructor.

        Returns
        -------
        trace : ForwardTrace
            ``codelength``, ``codelengths`` (in nats) and ``posterior`` of the switching
            mixture without a pool. Use :meth:`repool` for pooled codelengths.
        """
        return self._stored().remix(switching)

    def remix_by_view(self, switching: PriorLike = "learned-share") -> ViewTrace:
        """Mix the readouts of each view (set of columns), and then mix the views.

        Readouts are not trained again. For any prior, the codelength exceeds that of
        the best view under the same prior by at most ``log(n_views)`` nats, without
        groups and delays. A mixture of all readouts has no such guarantee unless its
        prior is "bayes". Under a switching prior, such a mixture can change the view
        along the stream, but each switch costs another ``log(n_views)`` nats to choose
        a view.

        Parameters
        ----------
        switching : str or SwitchingPrior, default="learned-share"
            Prior within each view.

        Returns
        -------
        trace : ViewTrace
            Results of switching without a pool, in nats.
        """
        losses = self.readout_losses_
        views: list[Hashable] = [readout.view for readout in self.readouts_]
        known = self._run.trace.known
        return view_trace(switching, losses, views, self.readout_weights_, known)

    def repool(
        self,
        switching: PriorLike,
        pooling: LogLinearPool,
        *,
        kinds: Sequence[Hashable] | None = None,
    ) -> PooledTrace:
        """Combine the kinds of readouts with another pool without retraining.

        The run must have been fitted with "mixtures" in ``store``. Readouts that
        retired in a race stay retired.

        Parameters
        ----------
        switching : str, SwitchingPrior or None
            Prior over sequences of readouts, as in :func:`~sklearn_mdl.forward`.
        pooling : LogLinearPool
            Its ``kinds`` are ignored in favour of the kinds of the run.
        kinds : sequence of names, default=None
            Names in ``pool_kinds_`` to pool. If None, all kinds are pooled.

        Returns
        -------
        trace : PooledTrace
            Results in nats. With the prior, pool and kinds of the run, these results
            are exactly the same as in the run.

        Raises
        ------
        ValueError
            If the run did not store mixtures, or if `kinds` contains fewer than two
            names, an unknown name or a name twice.
        TypeError
            If `pooling` is not a LogLinearPool.
        """
        return self._stored().repool(switching, pooling, kinds=kinds)

    def save_losses(
        self,
        path: str | PathLike[str],
        *,
        dtype: Literal["float64", "float32"] = "float64",
    ) -> list[Path]:
        """Write the losses of this run to a file, to mix them later without retraining.

        Parameters
        ----------
        path : path-like
            A path that ends in ``.npy`` (see
            :func:`~sklearn_mdl.switcher.save_losses`).
        dtype : {"float64", "float32"}, default="float64"
            With float64, remixing gives exactly the same codelengths as in memory.

        Returns
        -------
        paths : list of Path
            The files written.

        Raises
        ------
        ValueError
            If the path is in the folder to which the run itself writes, or for the
            reasons given in :func:`~sklearn_mdl.switcher.save_losses`.
        """
        folder = self._run.trace.folder
        if folder is not None and Path(path).resolve().parent == folder.path.resolve():
            required, cure = "outside the store of the run", "pass 'losses.npy'"
            raise invalid("path", required, str(path), cure)
        return save_losses(Path(path), self._stored(), dtype=dtype)

    def _stored(self) -> StoredLosses:
        """Return the losses with their description, label delays and mixtures."""
        trace, mixtures = self._run.trace, None
        if trace.keeps_mixtures:
            arrays = trace.file("mixtures"), trace.file("labels")
            mixtures = KindMixtures(self.pool_kinds_, *arrays)
        known = trace.known[:-1]
        delayed = None if (known == np.arange(len(known))).all() else known
        stored = self._described(trace.losses, self.settings_)
        return replace(stored, mixtures=mixtures, known=delayed)

    def _described(
        self, losses: np.ndarray, settings: ResolvedSettings
    ) -> StoredLosses:
        """Return losses with the description of the readouts that produced them."""
        names = readout_names(settings.readouts)
        kinds = [readout.architecture for readout in settings.readouts]
        prior, weights = settings.mixing.prior, settings.mixing.weights
        n_classes = len(getattr(self, "classes_", ())) or None
        return StoredLosses(losses, names, kinds, weights, prior, n_classes)

    @property
    @abstractmethod
    def reference_codelengths_(self) -> np.ndarray:
        """Cost of every label given only the earlier labels, in nats."""

    def score_segments(
        self,
        ends: Ends = 8,
        *,
        times: ArrayLike | None = None,
        restart: bool = True,
        level: float = 0.9,
        n_resamples: int = 1000,
    ) -> StreamSegments:
        """Cut the stream into segments and compare their costs under several codes.

        Parameters
        ----------
        ends : int, array-like or "posterior", default=8
            An int is a number of segments of about equal length. An array holds, for
            each segment, the row after its last row or, with `times`, its last
            timestamp. With "posterior", each segment is a block of one readout in the
            most probable sequence of readouts given all labels.
        times : array-like of shape (n_samples_seen_,), optional
            Sorted timestamps of the rows. Has no effect unless `ends` is an array.
        restart : bool, default=True
            If True, also fit a copy from scratch to each segment.
        level : float, default=0.9
            Coverage of the intervals.
        n_resamples : int, default=1000
            Number of bootstrap resamples, drawn with the seed of the run.

        Returns
        -------
        segments : StreamSegments
            Results in nats. If a group of rows spans two segments, the restarted
            readouts treat the two parts as two groups.

        Raises
        ------
        ValueError
            If segments do not lie within the stream, if `times` are not sorted, or if
            `level` or `n_resamples` is out of range.
        """
        check_positive("n_resamples", n_resamples, 1000)
        if not 0 < level < 1:
            raise invalid("level", "between 0 and 1", level, "pass level=0.9")
        losses, weights = self.readout_losses_, self.readout_weights_
        changes = np.empty(0, np.intp)
        if isinstance(ends, str):
            changes = best_sequence(self.settings_.mixing.prior, losses, weights).starts
        stops = segment_ends(ends, len(losses), changes, times)
        starts = np.concatenate([[0], stops[:-1]])
        total = np.add.reduceat(self.codelengths_, starts)
        segments = list(zip(starts.tolist(), stops.tolist(), strict=True))
        intervals = [
            block_bootstrap(self.codelengths_[a:b], level, n_resamples, self._seed)
            for a, b in segments
        ]
        restarted = np.full(len(stops), np.nan)
        if restart:
            restarted[:] = [self._restarted(a, b).codelength_ for a, b in segments]
        means, bounds = total / (stops - starts), np.array(intervals)
        reference = np.add.reduceat(self.reference_codelengths_, starts)
        return StreamSegments(starts, stops, total, means, bounds, reference, restarted)

    def _restarted(self, start: int, stop: int) -> Self:
        """Return a copy fitted only to rows ``start`` to ``stop - 1`` of the stream."""
        run = self._run
        X, labels = run.samples.rows(start, stop), run.labels[start:stop].cpu().numpy()
        groups = run.schedule.groups(start, stop) if run.schedule.ends else None
        plain = {"store": "memory", "checkpoint": None, "verbose": 0, "n_jobs": 1}
        blank = clone(self._settings).set_params(**plain, random_state=self._seed)
        return blank.partial_fit(X, groups=groups, **self._as_given(labels))

    def _as_given(self, labels: np.ndarray) -> dict[str, np.ndarray | None]:
        """Return the arguments of ``partial_fit`` that give encoded labels (n,)."""
        return {"y": labels}

    def _common(self, folder: str, about: Json) -> Common:
        """Return the data that all parts of a split pass share."""
        run, settings = self._run, self._settings
        given = settings.device, folder, about, settings.precision
        return Common(self.readouts_, run.settings, *given, run.schedule)

    def permutation_test(
        self, n_permutations: int = 100, *, shuffled: bool = False
    ) -> PermutationTest:
        """Test by permutation whether features are informative about labels.

        Only kernel readouts code the original and the permuted labels, since a kernel
        matrix is factorised only once for all permutations. Kernel readouts that forget
        rows or whiten within classes are left out. A fixed share with rate ``1 / t``
        mixes the remaining readouts.

        Parameters
        ----------
        n_permutations : int, default=100
            Number of permutations, drawn with the seed of the run.
        shuffled : bool, default=False
            Pass True if the rows were already in random order. Not needed with
            ``shuffle=True``.

        Returns
        -------
        test : PermutationTest
            ``codelength`` and ``null_codelengths`` in nats, and ``p_value``:
            ``(1 + k) / (1 + n_permutations)`` if ``k`` null codelengths are at most
            ``codelength``, up to rounding.

        Raises
        ------
        ValueError
            If rows were not in random order, or if no readout is such a kernel. Also
            with groups, delayed labels or ``new_classes="escape"``.
        """
        check_is_fitted(self)
        run, kernels, seed = self._permutable(n_permutations, shuffled)
        return permutation_tests([run], kernels, n_permutations, seed)[0]

    def null_codelengths(
        self, n_permutations: int = 100, *, shuffled: bool = False
    ) -> np.ndarray:
        """Compute codelengths of permuted labels under kernel readouts.

        Parameters
        ----------
        n_permutations, shuffled : int and bool
            As for :meth:`permutation_test`.

        Returns
        -------
        codelengths : ndarray of shape (n_permutations,)
            In nats, as in :meth:`permutation_test`.
        """
        return self.permutation_test(n_permutations, shuffled=shuffled).null_codelengths

    def _permutable(
        self, n_permutations: int, shuffled: bool
    ) -> tuple[PrequentialRun, list[Readout], int]:
        """Return the run, kernels and seed for a permutation test, or raise."""
        check_positive("n_permutations", n_permutations, 99)
        order = getattr(self, "order_", ()) if self._settings.shuffle else ()
        if not shuffled and len(order) < self.n_samples_seen_:  # or after partial_fit
            raise ValueError(
                "A permutation test needs rows in random order, but rows were "
                "evaluated in the order given; call fit (not partial_fit) with "
                "shuffle=True, or pass shuffled=True if you have shuffled the rows"
            )
        run = self._run
        if run.schedule.ends:
            raise unsupported(PERMUTATIONS, GROUPS, "call fit(X, y) without groups")
        if run.schedule.delay:
            raise unsupported(PERMUTATIONS, DELAY, "pass label_delay=0")
        run.outcome.check_option(PERMUTATIONS, 'pass new_classes="refuse"')
        return run, kernels_of(self.readouts_), self._seed
