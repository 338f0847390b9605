"""Base of switchers, once fitted: attributes, other mixtures, segments, null codes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
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
from sklearn_mdl._core.unsupported import (
    DELAY,
    ESCAPE,
    GROUPS,
    PERMUTATIONS,
    unsupported,
)
from sklearn_mdl._core.validation import invalid, warn_caller
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import Readout, grid_edges, readout_names
from sklearn_mdl.switcher._blocks import BlockTrace, block_trace
from sklearn_mdl.switcher._loss_files import save_losses
from sklearn_mdl.switcher._permutation import (
    PermutationTest,
    check_permutations,
    kernels_of,
    permutation_tests,
)
from sklearn_mdl.switcher._repooling import GroupMixtures, PooledTrace
from sklearn_mdl.switcher._resolved import ResolvedSettings, Store
from sklearn_mdl.switcher._segments import (
    Ends,
    StreamSegments,
    block_bootstrap,
    by_segment,
    segment_ends,
)
from sklearn_mdl.switcher._split_parts import Common
from sklearn_mdl.switcher._stored_losses import StoredLosses
from sklearn_mdl.switching import (
    ForwardTrace,
    PriorLike,
    as_prior,
    best_sequence,
    group_columns,
)


class FittedSwitcher(OnlineEstimator):
    """Base of switchers that holds all that is read off a run and never changes it.

    How a run is made from parameters is said in ``BaseSwitcher``, which sets the
    attributes below.
    """

    switching: PriorLike
    device: str
    precision: str
    store: Store
    n_jobs: int | Literal["processes"] | None

    @property
    def settings_(self) -> ResolvedSettings:
        """What every "auto" and None of the parameters stood for; prints as lines."""
        found: ResolvedSettings = self._run.origin
        return found

    @property
    def readouts_(self) -> list[Readout]:
        """The readouts used, as settings; their weights live in the run."""
        return self.settings_.readouts

    @property
    def readout_weights_(self) -> np.ndarray | None:
        """Prior weights as the mixture takes them, (n_readouts,); None is uniform."""
        return self.settings_.mixing.weights

    @property
    def posterior_(self) -> np.ndarray:
        """Posterior over readouts before each label, (n_samples_seen_, n_readouts)."""
        return self._run.trace.posterior

    @property
    def switching_codelengths_(self) -> np.ndarray:
        """Codelength of every example by switching alone, (n_samples_seen_,), nats."""
        return self._run.trace.codes[:, 1]

    @property
    def switching_codelength_(self) -> float:
        """Their sum: the paper's codelength, in nats."""
        return float(np.sum(self.switching_codelengths_))

    @property
    def pool_groups_(self) -> list[Hashable]:
        """Names of the groups of readouts that are pooled; none if nothing is."""
        return list(self.settings_.mixing.group_names)

    @property
    def pool_weights_(self) -> np.ndarray:
        """Weights of the groups before each label, (n_samples_seen_, n_groups)."""
        return self._run.trace.pool_weights

    @property
    def pool_posterior_(self) -> np.ndarray:
        """Probability of switching and of the pool, (n_samples_seen_, 2)."""
        return self._run.trace.shares

    @property
    def readout_losses_(self) -> np.ndarray:
        """Log-losses in nats, (n_samples_seen_, n_readouts); NaN where retired."""
        return self._run.trace.losses

    @property
    def retired_at_(self) -> np.ndarray:
        """Examples after which each readout retired, (n_readouts,); -1 for never."""
        return self._run.retired_at.copy()

    @property
    def readout_codelengths_(self) -> np.ndarray:
        """Codelength of every readout alone, (n_readouts,), in nats.

        Once it has retired, it costs what the mixture of those awake costs.
        """
        return self._stored().totals(self.switching_codelengths_)

    @property
    def readout_names_(self) -> list[str]:
        """Architecture and differing settings of every readout."""
        return readout_names(self.readouts_)

    @property
    def block_names_(self) -> list[Hashable]:
        """Names of the blocks of columns that readouts look at; None is all of X."""
        return list(dict.fromkeys(readout.block for readout in self.readouts_))

    @property
    def block_posterior_(self) -> np.ndarray:
        """Posterior over blocks before each label, (n_samples_seen_, n_blocks)."""
        names, members = group_columns([readout.block for readout in self.readouts_])
        return np.asarray(self.posterior_ @ np.eye(len(names))[members])

    @property
    def diverged_readouts_(self) -> list[str]:
        """Names of the readouts whose predictions stopped being finite."""
        names = self.readout_names_
        return [names[column] for column in np.flatnonzero(self._run.diverged)]

    @property
    def diverged_at_(self) -> np.ndarray:
        """Row from which on each readout has no finite prediction; -1 for none."""
        return self._run.threads.diverged_at

    @property
    def grid_edges_(self) -> dict[str, tuple[float, str]]:
        """Settings at whose edge the best readout lies; see the class."""
        return grid_edges(self.readouts_, self.readout_codelengths_)

    def _warn_of_edges(self) -> None:
        """Warn if the best readout lies at the edge of the grid."""
        edges = [
            f"{name}={value:g} is the {side}"
            for name, (value, side) in self.grid_edges_.items()
        ]
        if edges:
            best = self.readout_names_[int(np.argmin(self.readout_codelengths_))]
            warn_caller(
                f"The best readout should lie inside the grid, but of {best!r} "
                f"{' and '.join(edges)} that was tried; add values beyond"
            )

    @property
    def store_(self) -> Path | None:
        """Folder of the files of this stream, below ``store``; None in memory."""
        folder = self._run.trace.folder
        return None if folder is None else folder.path

    def remix(self, switching: PriorLike) -> ForwardTrace:
        """Mix the same losses under another prior, without training again.

        Parameters
        ----------
        switching : str or SwitchingPrior
            As the parameter of that name.

        Returns
        -------
        trace : ForwardTrace
            ``codelength``, ``codelengths`` and ``posterior``, in nats, of the switching
            mixture alone; :meth:`repool` has pooled codelengths.
        """
        return self._stored().remix(switching)

    def remix_by_block(self, switching: PriorLike = "learned-share") -> BlockTrace:
        """Code each block of columns by its own readouts, and mix the blocks.

        Readouts are not trained again. The code is at most ``log(n_blocks)`` nats
        longer than that of the best block under the same prior, whatever the prior. The
        mixture of all readouts has no such bound, unless its prior is "bayes": each
        time a switching prior redraws the readout, the others' blocks cost it
        ``log(n_blocks)`` again. In return it may change the block.

        Parameters
        ----------
        switching : str or SwitchingPrior, default="learned-share"
            Prior within each block.

        Returns
        -------
        trace : BlockTrace
            In nats, of switching alone, without a pool.
        """
        losses = self.readout_losses_
        blocks: list[Hashable] = [readout.block for readout in self.readouts_]
        known = self._run.trace.known
        return block_trace(switching, losses, blocks, self.readout_weights_, known)

    def repool(
        self,
        switching: PriorLike,
        pooling: LogLinearPool,
        *,
        groups: Sequence[Hashable] | None = None,
    ) -> PooledTrace:
        """Pool the same groups by another pool, without training again.

        Needs a ``store`` with "mixtures" when the rows were evaluated. Readouts that
        retired in a
        race stays retired: that was settled by the pool of the run.

        Parameters
        ----------
        switching : str, SwitchingPrior or None
            As the parameter of that name.
        pooling : LogLinearPool
            Its ``groups`` are not used: groups are those of the run.
        groups : sequence of names, default=None
            Those of ``pool_groups_`` that are pooled; None pools all.

        Returns
        -------
        trace : PooledTrace
            In nats. Of prior and pool of the run it has the bits of the run.

        Raises
        ------
        ValueError
            If mixtures were not kept, or `groups` names fewer than two, or others.
        TypeError
            If `pooling` is no LogLinearPool.
        """
        return self._stored().repool(switching, pooling, groups=groups)

    def save_losses(
        self,
        path: str | PathLike[str],
        *,
        dtype: Literal["float64", "float32"] = "float64",
    ) -> list[Path]:
        """Write the losses of this run, to be mixed later without training again.

        Parameters
        ----------
        path : path-like
            Ends in ``.npy``; see :func:`~sklearn_mdl.switcher.save_losses`.
        dtype : {"float64", "float32"}, default="float64"
            Float64 keeps every bit, so that a prior costs what it costs here.

        Returns
        -------
        paths : list of Path
            The files written.

        Raises
        ------
        ValueError
            If the path is in the folder that the run itself writes to, and as in
            :func:`~sklearn_mdl.switcher.save_losses`.
        """
        folder = self._run.trace.folder
        if folder is not None and Path(path).resolve().parent == folder.path.resolve():
            required, cure = "apart from the store of the run", "name another folder"
            raise invalid("path", required, str(path), cure)
        return save_losses(Path(path), self._stored(), dtype=dtype)

    def _stored(self) -> StoredLosses:
        """Return losses as files hold them, with the names of the readouts."""
        trace, mixtures = self._run.trace, None
        if trace.keeps_mixtures:
            kept = trace.file("mixtures"), trace.file("labels")
            mixtures = GroupMixtures(self.pool_groups_, *kept)
        known = trace.known[:-1]
        in_time = (known == np.arange(len(known))).all()
        late = None if in_time else known
        return self._described(trace.losses, self.settings_, mixtures, late)

    def _described(
        self,
        losses: np.ndarray,
        settings: ResolvedSettings,
        mixtures: GroupMixtures | None = None,
        known: np.ndarray | None = None,
    ) -> StoredLosses:
        """Return losses with what is known of the readouts."""
        return StoredLosses(
            losses,
            readout_names(settings.readouts),
            [readout.architecture for readout in settings.readouts],
            settings.mixing.weights,
            settings.mixing.prior,
            len(getattr(self, "classes_", ())) or None,
            mixtures,
            known,
        )

    @property
    @abstractmethod
    def reference_codelengths_(self) -> np.ndarray:
        """Cost of every label given the labels before it alone, in nats."""

    def segments(
        self,
        ends: Ends = 8,
        *,
        times: ArrayLike | None = None,
        restart: bool = True,
        level: float = 0.9,
        n_resamples: int = 1000,
    ) -> StreamSegments:
        """Cut the stream into segments, and compare what each cost with other codes.

        Parameters
        ----------
        ends : int, array-like or "posterior", default=8
            A number of equal segments; the rows behind their last ones, or, with
            `times`, the last timestamps; or "posterior": segments end where the most
            probable readout, given all labels, changes.
        times : array-like of shape (n_samples_seen_,), optional
            Timestamps of the rows, sorted.
        restart : bool, default=True
            Whether to restart the readouts at the beginning of each segment, for which
            they learn all rows a second time.
        level : float, default=0.9
            Coverage of the intervals.
        n_resamples : int, default=1000
            Of the bootstrap, seeded by the seed of the run.

        Returns
        -------
        segments : StreamSegments
            In nats. A group that a segment cuts is restarted as two.

        Raises
        ------
        ValueError
            If segments do not lie within the stream, or if times are not sorted.
        """
        losses, weights = self.readout_losses_, self.readout_weights_
        changes = np.empty(0, np.intp)
        if isinstance(ends, str):
            changes = best_sequence(as_prior(self.switching), losses, weights).starts
        found = segment_ends(ends, len(losses), changes, times)
        starts = np.concatenate([[0], found[:-1]])
        total = by_segment(self.codelengths_, found)
        intervals = [
            block_bootstrap(self.codelengths_[a:b], level, n_resamples, self._seed)
            for a, b in zip(starts, found, strict=True)
        ]
        restarted = np.full(len(found), np.nan)
        if restart:
            restarted[:] = [
                self._restarted(a, b).codelength_
                for a, b in zip(starts.tolist(), found.tolist(), strict=True)
            ]
        return StreamSegments(
            starts,
            found,
            total,
            total / (found - starts),
            np.array(intervals),
            by_segment(self.reference_codelengths_, found),
            restarted,
        )

    def _restarted(self, start: int, stop: int) -> Self:
        """Return the same switcher after some rows of the stream alone."""
        run = self._run
        X, labels = run.samples.rows(start, stop), run.labels[start:stop].cpu().numpy()
        groups = run.schedule.groups(start, stop) if run.schedule.ends else None
        return self._learn_alone(X, labels, groups)

    @abstractmethod
    def _learn_alone(
        self, X: np.ndarray, labels: np.ndarray, groups: np.ndarray | None
    ) -> Self:
        """Return the same switcher after rows with encoded labels alone."""

    def _common(self, folder: str, about: Json) -> Common:
        """Return whatever all parts of a pass must know."""
        run = self._run
        return Common(
            self.readouts_,
            run.settings,
            self.device,
            folder,
            about,
            self.precision,
            run.schedule,
        )

    def _blank(self) -> Self:
        """Return an unfitted copy that leaves no file and draws the same numbers."""
        return clone(self).set_params(
            **{"store": "memory", "checkpoint": None, "verbose": 0, "n_jobs": 1},
            random_state=self._seed,
        )

    def permutation_test(
        self, n_permutations: int = 100, *, shuffled: bool = False
    ) -> PermutationTest:
        """Test if features say anything of the labels, by permutations of them.

        Both codes are those of the kernel readouts in the list alone, whose one factor
        serves all permutations, mixed by a fixed share of rate ``1 / t``.

        Parameters
        ----------
        n_permutations : int, default=100
            Seeded by ``random_state``.
        shuffled : bool, default=False
            True states that rows were given in random order; with ``shuffle=True``,
            ``fit`` has drawn one itself.

        Returns
        -------
        test : PermutationTest
            ``codelength`` and ``null_codelengths`` in nats, and ``p_value``,
            ``(1 + nulls not longer) / (1 + n_permutations)``.

        Raises
        ------
        ValueError
            If rows were taken in the order given, which may mean something, or if the
            list holds no kernel readout.
        """
        check_is_fitted(self)
        check_permutations(n_permutations)
        run, kernels, seed = self._permutable(shuffled)
        return permutation_tests([run], kernels, int(n_permutations), seed)[0]

    def null_codelengths(
        self, n_permutations: int = 100, *, shuffled: bool = False
    ) -> np.ndarray:
        """Codelengths of permuted labels under the kernel readouts in the list.

        Parameters
        ----------
        n_permutations, shuffled : int and bool
            As of :meth:`permutation_test`.

        Returns
        -------
        codelengths : ndarray of shape (n_permutations,)
            In nats, as in :meth:`permutation_test`.
        """
        test = self.permutation_test(n_permutations, shuffled=shuffled)
        return test.null_codelengths

    def _permutable(self, shuffled: bool) -> tuple[PrequentialRun, list[Readout], int]:
        """Return run, kernel readouts and seed, for rows in random order alone."""
        if not shuffled and not (self.shuffle and hasattr(self, "order_")):
            raise ValueError(
                "A permutation test needs rows in random order, but they were taken in "
                "the order given, which may mean something; fit with shuffle=True, or "
                "pass shuffled=True if you have shuffled them"
            )
        run, cure = self._run, "fit again without it"
        for feature, given in (
            (GROUPS, run.schedule.ends),
            (DELAY, run.schedule.delay),
        ):
            if given:
                raise unsupported(PERMUTATIONS, feature, cure)
        if run.outcome.escape is not None:
            raise unsupported(ESCAPE, PERMUTATIONS, cure)
        return run, kernels_of(self.readouts_), self._seed
