"""The meta-estimator: readouts walk, a switching prior mixes, a codelength results."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.arithmetic import resolve_device
from sklearn_mdl.board import check_readout, gather_learners, mixed_readouts
from sklearn_mdl.experts import WrappedLearner, warn_of_failures
from sklearn_mdl.online import OnlineClassifier
from sklearn_mdl.prequential import Course
from sklearn_mdl.readouts import default_readouts, preset_options, readout_names
from sklearn_mdl.readouts.edges import grid_edges
from sklearn_mdl.stored_losses import StoredLosses, description, save_losses
from sklearn_mdl.switching import (
    FixedShare,
    ForwardTrace,
    SwitchingPrior,
    as_prior,
    forward,
    group_weights,
)


class MDLReadoutSwitcher(OnlineClassifier):
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
        ``IncrementalExpert`` or ``RefittedExpert``. None takes a default board of nets,
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
        name : {"vtab-frozen", "imagenet-frozen"}
            8 x 576 readouts with m = 11, or 4 x 96 with m = 2.
        **overrides
            Parameters of the switcher that replace the preset's.

        Returns
        -------
        switcher : MDLReadoutSwitcher
        """
        options = preset_options(name)
        settings = {
            "readouts": options["readouts"],
            "switching": FixedShare(m=options["m"]),
            "batch_size": options["batch_size"],
        }
        return cls(**{**settings, **overrides})

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of a prior object as ``switching__<name>``."""
        prior = params.get("switching", self.switching)
        nested = [name for name in params if name.startswith("switching__")]
        if nested and not isinstance(prior, SwitchingPrior):
            raise ValueError(
                f"{nested[0]} needs switching to be a prior object that has it, "
                f"got switching={prior!r}; pass for example switching=FixedShare(m=2)"
            )
        return super().set_params(**params)

    def _start(self, n_features: int, n_classes: int, seed: int) -> Course:
        prior = clone(as_prior(self.switching))
        readouts = self._board(n_features, n_classes)
        weights = self._weights(readouts)
        device = resolve_device(self.device)
        course = Course(
            gather_learners(
                readouts,
                n_features,
                n_classes,
                seed=seed,
                device=device,
                n_jobs=effective_n_jobs(self.n_jobs),
            ),
            prior,
            weights,
            n_features=n_features,
            batch_size=self.batch_size,
            seed=seed,
            device=device,
            store=self._folder,
            n_jobs=self.n_jobs,
        )
        self.readouts_ = readouts
        self.expert_weights_ = weights
        self._about = StoredLosses(
            np.empty((0, len(readouts))),
            self.readout_names_,
            [readout.architecture for readout in readouts],
            weights,
            repr(prior),
            n_classes,
        )
        course.trace.description = description(self._about, "float64", growing=True)
        return course

    def _after_fit(self) -> None:
        warn_of_failures(self._course.learners, self.readout_names_)
        if self.readouts is None or isinstance(self.readouts, str):
            return  # a board of ours is not the user's to widen
        edges = [
            f"{name}={value:g} is the {side}"
            for name, (value, side) in self.grid_edges_.items()
        ]
        if edges:
            best = self.readout_names_[int(np.argmin(self.readout_codelengths_))]
            warnings.warn(
                f"The best readout should lie inside the grid, but of {best!r} "
                f"{' and '.join(edges)} that was tried; add values beyond",
                UserWarning,
                stacklevel=4,
            )

    @property
    def _folder(self) -> str | PathLike[str]:
        """Where the trace lies: losses on disk are part of a checkpoint."""
        kept = self.store != "memory" or self.checkpoint is None
        return self.store if kept else self.checkpoint

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
        for readout in self.readouts:
            check_readout(readout)
        return [clone(readout) for readout in self.readouts]

    def _weights(self, readouts: list[Any]) -> np.ndarray | None:
        if self.expert_weights is None:
            return None
        if isinstance(self.expert_weights, str):  # "architecture", as was checked
            return group_weights([readout.architecture for readout in readouts])
        return np.asarray(self.expert_weights, dtype=np.float64)

    def switch(self, switching: str | SwitchingPrior | None) -> ForwardTrace:
        """Read the same losses under another prior, without training again.

        Parameters
        ----------
        switching : str, SwitchingPrior or None
            As the parameter of that name.

        Returns
        -------
        trace : ForwardTrace
            ``codelength``, ``codelengths`` and ``posterior``, in nats.
        """
        check_is_fitted(self)
        return forward(as_prior(switching), self.readout_losses_, self.expert_weights_)

    def save_losses(
        self, path: str | PathLike[str], *, dtype: str = "float64"
    ) -> list[Path]:
        """Write the losses of this walk, to be mixed later without training again.

        Parameters
        ----------
        path : path-like
            Ends in ``.npy`` or ``.safetensors``; see :func:`~sklearn_mdl.save_losses`.
        dtype : {"float64", "float32"}, default="float64"
            Float64 keeps every bit, so that a prior costs what it costs here.

        Returns
        -------
        paths : list of Path
            The files written.

        Raises
        ------
        ValueError
            If the path is one that the walk itself writes to, and as in
            :func:`~sklearn_mdl.save_losses`.
        """
        check_is_fitted(self)
        target = Path(path).resolve()
        if target in [file.resolve() for file in self._course.trace.files]:
            raise ValueError(
                f"Losses must be saved apart from the store of the walk, got {path}, "
                "which it writes itself; open that with load_losses or name another"
            )
        stored = replace(self._about, losses=self.readout_losses_)
        return save_losses(Path(path), stored, dtype=dtype)

    @property
    def posterior_(self) -> np.ndarray:
        """Posterior over readouts before each label, (n_samples_seen_, n_readouts)."""
        return self._course.trace.posterior

    @property
    def readout_losses_(self) -> np.ndarray:
        """Log-losses in nats, (n_samples_seen_, n_readouts)."""
        return self._course.trace.losses

    @property
    def readout_codelengths_(self) -> np.ndarray:
        """Codelength of every readout alone, (n_readouts,), in nats."""
        return self.readout_losses_.sum(0)

    @property
    def grid_edges_(self) -> dict[str, tuple[float, str]]:
        """Settings at whose edge the best readout lies; see the class."""
        return grid_edges(self.readouts_, self.readout_codelengths_)

    @property
    def readout_names_(self) -> list[str]:
        """Architecture and differing settings of every readout."""
        return readout_names(self.readouts_)

    @property
    def readout_notes_(self) -> dict[str, list[str]]:
        """What wrapped classifiers complained of, by the names of those that did."""
        learners = self._course.learners
        wrapped = [lr for lr in learners if isinstance(lr, WrappedLearner)]
        wrapped.sort(key=lambda learner: learner.columns[0])
        names = self.readout_names_
        return {
            names[learner.columns[0]]: learner.notes.lines()
            for learner in wrapped
            if learner.notes.lines()
        }

    @property
    def diverged_readouts_(self) -> list[str]:
        """Names of the readouts whose predictions stopped being finite."""
        return [
            name
            for name, bad in zip(
                self.readout_names_, self._course.diverged, strict=True
            )
            if bad
        ]
