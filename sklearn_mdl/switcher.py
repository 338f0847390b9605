"""The meta-estimator: readouts walk, a switching prior mixes, a codelength results."""

from __future__ import annotations

from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Self

import torch
from sklearn.base import clone

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.board import check_readout, gather_learners, mixed_readouts
from sklearn_mdl.experts import WrappedLearner, warn_of_failures
from sklearn_mdl.finetune import as_readout, check_images, single_learners
from sklearn_mdl.mixing import MixedWalk
from sklearn_mdl.online import OnlineClassifier
from sklearn_mdl.prequential import Course, Learner
from sklearn_mdl.presets import preset_settings, readout_grid
from sklearn_mdl.readouts import default_readouts
from sklearn_mdl.switching import FixedShare, SwitchingPrior


class MDLReadoutSwitcher(OnlineClassifier, MixedWalk):
    """Codelength of labels given features, by switching between readouts.

    Every example is predicted by all readouts before its label is seen; a prior over
    sequences of readouts mixes the predictions; the sum of the mixture's log-losses is
    the codelength (Li, Bornschein and Hutter, 2023, sections 3.1 to 3.3). Shorter is
    better: it accounts for accuracy, complexity of the readout and data efficiency
    together.

    Parameters
    ----------
    readouts : list of readouts and experts, or "mixed", default=None
        The experts, in one list: ``LinearReadout`` and ``MLPReadout`` (see
        :func:`~sklearn_mdl.readout_grid`), ``NeighborsReadout``, and any classifier in
        ``IncrementalExpert`` or ``RefittedExpert``; or, where rows are images (see
        :func:`~sklearn_mdl.image_rows`), ``FineTunedReadout``, ``ScratchReadout`` and
        pairs ``(encoder, readout)``. None takes a default board of nets,
        chosen by measurement, that depends on the number of features and classes alone;
        "mixed" adds nearest neighbours, a shrunk linear discriminant analysis and a
        logistic regression to it.
    switching : str or SwitchingPrior, default=None
        Prior over sequences of readouts: "learned-share" (the default), "fixed-share"
        (with rate ``1 / t``), "switch-distribution", "run-length", "universal-share",
        "bayes", "elementwise", or an object such as ``FixedShare(m=11)``, whose
        parameters can then be searched as ``switching__m``.
    expert_weights : "architecture" or array-like of shape (n_readouts,), default=None
        Prior weights of the readouts; None is uniform. "architecture" is uniform over
        architectures and then over the readouts of each, so that an architecture with
        many settings does not drown one with few.
    batch_size : int, default=32
        Rows learned at once; wins over the readouts' own.
    shuffle : bool, default=False
        Permute the rows once in ``fit``; the order is kept in ``order_``.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. Wins over the readouts'
        own.
    store : "memory" or path-like, default="memory"
        A directory for the trace (``losses.npy``, ``posterior.npy``), which is then
        memory-mapped, for streams whose ``N x K`` numbers do not fit. The losses can be
        opened with :func:`~sklearn_mdl.load_losses`, also while the walk goes on.
    checkpoint : path-like, default=None
        A directory in which ``fit`` writes down, from time to time, where it is. Called
        again with the same settings and data, in another process too, it goes on from
        there, to the same numbers. The trace lies there as well, unless ``store`` names
        another place.
    n_jobs : int, default=None
        Stacks of readouts that walk side by side, as threads; the numbers are the same.
    verbose : int, default=0
        Show a progress bar.
    random_state : int, RandomState instance or None, default=None
        Seeds initial weights, replay and the permutation.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    posterior_ : ndarray of shape (n_samples_seen_, n_readouts)
        ``p(readout at t | labels before t)``: before label ``t`` is seen, as in the
        paper's algorithm 1.
    readout_losses_ : ndarray of shape (n_samples_seen_, n_readouts)
        Log-loss of every readout at every example, in nats.
    readout_codelengths_ : ndarray of shape (n_readouts,)
        Their sums.
    readout_names_ : list of str
    expert_weights_ : ndarray of shape (n_readouts,) or None
        Prior weights as the mixture takes them; None is uniform.
    readouts_ : list of readouts and experts
        The readouts used, as settings; their weights live in the walk.
    readout_notes_ : dict of str to list of str
        Exceptions and warnings of wrapped classifiers, by the names of those that had
        any; each text once.
    diverged_readouts_ : list of str
        Names of readouts whose predictions stopped being finite; they predict
        uniformly.
    grid_edges_ : dict of str to (float, {"lowest", "highest"})
        Settings in which the best readout of all is the lowest or highest of at least
        three tried for its architecture: a wider grid may hold a better one. ``fit``
        warns of them if ``readouts`` was given.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` walked the rows.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "readouts": [list, tuple, StrOptions({"mixed"}), None],
        "switching": [str, SwitchingPrior, None],
        "expert_weights": ["array-like", StrOptions({"architecture"}), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "device": [str],
        "store": [str, PathLike],
        "checkpoint": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        readouts=None,
        *,
        switching=None,
        expert_weights=None,
        batch_size=32,
        shuffle=False,
        device="auto",
        store="memory",
        checkpoint=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.readouts = readouts
        self.switching = switching
        self.expert_weights = expert_weights
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.device = device
        self.store = store
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

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
        return cls(**{"switching": prior, "batch_size": size, **overrides})

    def _start(self, n_features: int, n_classes: int, seed: int) -> Course:
        readouts = self._board(n_features, n_classes)

        def gather(device: torch.device, n_jobs: int) -> list[Learner]:
            return gather_learners(
                readouts, n_features, n_classes, seed=seed, device=device, n_jobs=n_jobs
            )

        return self._mix(readouts, gather, n_features, seed, n_classes=n_classes)

    def _after_fit(self) -> None:
        warn_of_failures(single_learners(self._course.learners), self.readout_names_)
        if self.readouts is None or isinstance(self.readouts, str):
            return  # a board of ours is not the user's to widen
        self._warn_of_edges()

    def _validated(self, X: Any, *y: Any, reset: bool) -> Any:
        found = super()._validated(X, *y, reset=reset)
        check_images(found[0] if y else found, self.readouts)
        return found

    def _board(self, n_features: int, n_classes: int) -> list[Any]:
        if self.readouts is None:
            return default_readouts(n_features, n_classes)
        if isinstance(self.readouts, str):  # "mixed", as was checked
            return mixed_readouts(n_features, n_classes)
        if not len(self.readouts):
            raise ValueError(
                "readouts must hold at least one readout, got an empty list; pass None "
                "for the default board"
            )
        board = [as_readout(given) for given in self.readouts]
        for readout in board:
            check_readout(readout)
        return [clone(readout) for readout in board]

    @property
    def readout_notes_(self) -> dict[str, list[str]]:
        """What wrapped classifiers complained of, by the names of those that did."""
        learners = single_learners(self._course.learners)
        wrapped = [lr for lr in learners if isinstance(lr, WrappedLearner)]
        wrapped.sort(key=lambda learner: learner.columns[0])
        names = self.readout_names_
        return {
            names[learner.columns[0]]: learner.notes.lines()
            for learner in wrapped
            if learner.notes.lines()
        }
