"""The meta-estimator: readouts evaluated online, mixed by a switching prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.sklearn_compat import Constraints, StrOptions
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl.readouts import (
    Readout,
    as_readout,
    check_images,
    check_readout,
    expanded,
    named_readouts,
    preset_settings,
    readout_grid,
    warn_of_failures,
)
from sklearn_mdl.switcher._base import BaseSwitcher
from sklearn_mdl.switcher._segments import codelengths_of_labels
from sklearn_mdl.switching import FixedShare


@dataclass(eq=False, repr=False)
class MDLReadoutSwitcher(OnlineClassifier, BaseSwitcher):
    """Codelength of labels given features, by switching between readouts.

    Every example is predicted by all readouts before its label is seen; a prior over
    sequences of readouts mixes the predictions; the sum of the mixture's log-losses is
    the codelength (Li, Bornschein and Hutter, 2023, sections 3.1 to 3.3). Shorter is
    better: it accounts for accuracy, complexity of the readout and data efficiency
    together.

    Parameters
    ----------
    readouts : list, readout, or a name of one of our lists, default=None
        The experts, in one list, or a single one: ``LinearReadout`` and
        ``MLPReadout`` (see :func:`~sklearn_mdl.readout_grid`), ``KernelReadout``,
        ``KNeighborsReadout``, and any classifier in ``IncrementalReadout`` or
        ``RefitReadout``; or, where rows are images (see
        :func:`~sklearn_mdl.encoders.image_rows`), ``FineTunedReadout``,
        ``ScratchReadout`` and pairs ``(encoder, readout)``. None takes
        networks and kernels, chosen by measurement; "nets" takes the networks alone,
        which depend on the number of features and classes; "closed-form" the kernels
        alone, which need no seed; "linear" four linear kernels, by which encoders are
        best compared with few labels; "mixed" adds nearest neighbours, a shrunk linear
        discriminant analysis (up to 1,024 features) and a logistic regression to
        networks and kernels; "drift" adds kernels that forget, and labels alone. A
        ``RepresentationScorer`` without a switcher takes "linear" for at most 500
        labels and "closed-form" for at most 2,048.
    switching : str or SwitchingPrior, default="learned-share"
        Prior over sequences of readouts: "learned-share", "fixed-share" (with rate
        ``1 / t``), "switch-distribution", "run-length", "universal-share", "bayes",
        "elementwise", or an object such as ``FixedShare(m=11)``, whose parameters can
        then be searched as ``switching__m``.
    readout_weights : "architecture" or array-like of shape (n_readouts,), default=None
        Prior weights of the readouts; None is uniform. "architecture" is uniform over
        architectures and then over the readouts of each, so that an architecture with
        many settings does not drown one with few.
    pooling : "auto", None, LogLinearPool or array-like, default="auto"
        How the predictions of groups of readouts are combined beyond switching. Inside
        a group readouts are mixed by a fixed share with rate ``1 / t``; across groups
        by a :class:`~sklearn_mdl.pooling.LogLinearPool`. "auto" pools where `readouts`
        is None or a name, and not where it is a list; an array-like of shape
        (n_readouts,) names the group of each readout, otherwise groups are kinds
        (architecture, scaling, averaging). None codes by switching alone, as in the
        paper; so do fewer than two groups. Groups without prior weight are left out.
    race : "auto", None or Race, default="auto"
        By which rule readouts retire that cannot win, at doubling numbers of examples
        (:class:`~sklearn_mdl.switching.Race`): they are trained no more, and count as
        asleep, predicting what the mixture of the others does. "auto" is a `Race()`
        where `readouts` is None or a name, and None, as in the paper, where it is a
        list; and for "drift", where a readout that loses now may win later.
    batch_size : int, (int, int) or "auto", default="auto"
        Rows learned at once; overrides the readouts' own. A pair is the size at first
        and in the end: minibatches grow from the first to the last as rows come, so
        that short streams learn from their first labels. An int is the size throughout,
        as in the paper. "auto" is ``(8, 32)`` where `readouts` is None or a name, and
        32 where it is a list.
    label_delay : int, default=0
        Rows that are predicted between a row and its label: the label of row ``t`` is
        known to readouts, calibration, posterior, pool and race once row
        ``t + label_delay`` is coded, and not before. Not together with ``groups``.
    shuffle : bool, default=False
        Permute the rows once in ``fit``; the order is kept in ``order_``.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. Wins over the readouts'
        own.
    precision : {"float32", "bfloat16", "tf32"}, default="float32"
        To what the factors of products are rounded where stacks of networks learn, on a
        device that multiplies such factors itself; float32 leaves them. "bfloat16" is
        for GPUs and CPUs with AVX-512 BF16, and rounds those of hidden layers alone;
        "tf32" is for GPUs, and needs ``n_jobs=None``. Sums, parameters, moments and
        predictions are float32, but that a CPU rounds sums to bfloat16 at the end.
    store : "memory", path-like, or a pair of it and "mixtures", default="memory"
        Where the trace is kept. A directory keeps it in files that are memory-mapped,
        for streams whose ``N x K`` numbers do not fit into memory. Each stream has a
        folder of its own in it, ``store_``, and its ``losses.npy`` can be opened with
        :func:`~sklearn_mdl.switcher.load_losses`, also during the run. A pair such as
        ``("memory", "mixtures")`` also keeps what each group of readouts has predicted,
        N x G x C numbers, and the labels, for :meth:`repool`.
    checkpoint : path-like, default=None
        A directory in which ``fit`` saves its progress from time to time. Called again
        with the same settings and data, also in another process, it continues from
        there to the same numbers; other settings or data have another folder in it. The
        trace lies there as well, unless ``store`` names another place.
    n_jobs : int, "processes" or None, default=None
        What evaluates the readouts; the numbers are the same. An int is a number of
        threads; wrapped classifiers take turns in one of them, since they may share
        state. "processes" evaluates the readouts in parts, each in a process with a
        device of its own, as many side by side as the active joblib backend has jobs
        (``joblib.parallel_config(n_jobs=8)``), also on a cluster; see
        :doc:`/machines`. The fitted estimator then predicts on the CPU.
    verbose : int, default=0
        Show a progress bar.
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights, replay and the permutation.
    new_classes : {"refuse", "escape"}, default="refuse"
        What becomes of labels that `classes` of ``partial_fit`` did not name. "refuse"
        raises ValueError. "escape" codes their first appearance by an escape
        (:func:`~sklearn_mdl.metrics.escape_codelengths`), from which on all readouts
        predict the class; `classes` may then be left out, and ``fit`` names none.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats: of the fixed share, with rate ``1 / t``,
        over the switching mixture and the pool, or of the switching mixture alone where
        nothing is pooled.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    switching_codelength_ : float
        Codelength of the switching mixture of all readouts (Li et al., 2023), in nats.
        With a pool ``codelength_`` exceeds it by ``0.5 log(pi (n + 1/2))`` at most.
    switching_codelengths_ : ndarray of shape (n_samples_seen_,)
        The same for every example, in nats.
    posterior_ : ndarray of shape (n_samples_seen_, n_readouts)
        ``p(readout at t | labels before t)`` of the switching mixture: before label
        ``t`` is seen, as in the paper's algorithm 1.
    pool_groups_ : list of n_groups names
        Groups of readouts that are pooled; empty where nothing is.
    pool_weights_ : ndarray of shape (n_samples_seen_, n_groups)
        Their weights in the pool before each label.
    pool_posterior_ : ndarray of shape (n_samples_seen_, 2)
        Probability of the switching mixture, and of the pool, before each label.
    readout_losses_ : ndarray of shape (n_samples_seen_, n_readouts)
        Log-loss of every readout at every example, in nats; NaN once it has retired.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of every label given the labels before it alone, in nats: frequencies,
        recent frequencies and transitions, switched between.
    store_ : Path or None
        Folder of the files of this stream; None in memory.
    readout_codelengths_ : ndarray of shape (n_readouts,)
        Their sums; a readout that has retired costs what the mixture of those awake
        costs.
    retired_at_ : ndarray of shape (n_readouts,)
        Number of examples after which each readout retired; -1 while it has not.
    readout_names_ : list of str
    readout_weights_ : ndarray of shape (n_readouts,) or None
        Prior weights as the mixture takes them; None is uniform.
    readouts_ : list of readouts
        The readouts used, as settings; their weights live in the run.
    readout_notes_ : dict of str to list of str
        Exceptions and warnings of wrapped classifiers, by the names of those that had
        any; each text once.
    diverged_readouts_ : list of str
        Names of readouts whose predictions stopped being finite; they predict
        uniformly, and ``fit`` warns of them.
    diverged_at_ : ndarray of shape (n_readouts,)
        Number of examples before each of these; -1 for the others.
    grid_edges_ : dict of str to (float, {"lowest", "highest"})
        Settings in which the best readout of all is the lowest or highest of at least
        three tried for its architecture: a wider grid may hold a better one. ``fit``
        warns of them if ``readouts`` was given.
    classes_ : ndarray of shape (n_classes,)
        Sorted; with ``new_classes="escape"`` those that were named, and then new ones
        in order of appearance.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` took the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_mdl import MDLReadoutSwitcher
    >>> X, y = load_iris(return_X_y=True)
    >>> switcher = MDLReadoutSwitcher(shuffle=True, random_state=0).fit(X, y)
    >>> uniform = len(y) * 1.0986  # nats, log 3 an example
    >>> bool(switcher.codelength_ < 0.5 * uniform)
    True
    """

    readouts: (
        Sequence[object]
        | BaseEstimator
        | Literal["linear", "closed-form", "nets", "mixed", "drift"]
        | None
    ) = None
    _: KW_ONLY
    new_classes: Literal["refuse", "escape"] = "refuse"

    _parameter_constraints: ClassVar[Constraints] = {
        "new_classes": [StrOptions({"refuse", "escape"})],
        "readouts": [
            *(list, tuple, BaseEstimator),
            *(StrOptions({"linear", "closed-form", "nets", "mixed", "drift"}), None),
        ],
        **BaseSwitcher._parameter_constraints,
    }

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Self:
        """Make a switcher with a grid of the paper, its prior and its batch size.

        Parameters
        ----------
        name : str
            As for :func:`~sklearn_mdl.readout_grid`, whose draws the switcher's
            ``random_state`` seeds. Fine-tuning needs ``readouts`` that name an encoder.
        **overrides
            Parameters of the switcher that replace the preset's.

        Returns
        -------
        switcher : MDLReadoutSwitcher
        """
        preset = preset_settings(name)
        if "readouts" not in overrides:
            seed = overrides.get("random_state")
            overrides["readouts"] = readout_grid(name, random_state=seed)
        prior, size = FixedShare(m=preset.m), preset.batch_size
        settings = {
            "switching": prior,
            "pooling": None,
            "race": None,
            "batch_size": size,
        }
        return cls(**{**settings, **overrides})

    def _after_fit(self) -> None:
        for learner in self._run.learners:
            if learner.reports:
                warn_of_failures(learner.reports, self.readout_names_)
        if not self._is_by_name:  # a grid of ours is not the user's
            self._warn_of_edges()

    def _validated(self, X: ArrayLike, *y: ArrayLike, reset: bool) -> Any:
        found = super()._validated(X, *y, reset=reset)
        if not isinstance(self.readouts, str | None):
            check_images(found[0] if y else found, self._given)
        return found

    def _pool(self, n_features: int, outcome: Outcome) -> list[Readout]:
        if self.readouts is None or isinstance(self.readouts, str):
            return named_readouts(self.readouts, n_features, outcome.n_numbers)
        readouts = expanded(
            [as_readout(given) for given in self._given],
            n_features,
            lambda name, width: named_readouts(name, width, outcome.n_numbers),
        )
        for readout in readouts:
            check_readout(readout)
        return [clone(readout) for readout in readouts]

    @property
    def reference_codelengths_(self) -> np.ndarray:
        """Cost of every label given the labels before it alone, (n_samples_seen_,).

        In nats: frequencies, recent frequencies and transitions, mixed by a fixed share
        of rate ``1 / t``. What features save is measured against it, since labels that
        follow one another are cheap for whoever sees no feature at all.
        """
        check_is_fitted(self)
        labels = self._run.labels.cpu().numpy()
        escape = self._run.outcome.escape
        return codelengths_of_labels(labels, len(self.classes_), escape)

    def _learn_alone(
        self, X: np.ndarray, labels: np.ndarray, groups: np.ndarray | None
    ) -> Self:
        escape = self._run.outcome.escape
        named = None if escape is None else escape.n_named
        classes = self.classes_[:named] if named != 0 else None
        y = self.classes_[labels]
        return self._blank().partial_fit(X, y, classes=classes, groups=groups)

    @property
    def readout_notes_(self) -> dict[str, list[str]]:
        """Exceptions and warnings of wrapped classifiers, by their names."""
        names = self.readout_names_
        notes = self._run.threads.notes
        return {names[column]: notes[column] for column in sorted(notes)}
