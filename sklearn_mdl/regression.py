"""The meta-estimator for labels that are real numbers."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import torch
from sklearn.base import clone

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.mixing import MixedWalk
from sklearn_mdl.online import OnlineRegressor
from sklearn_mdl.prequential import Course, Learner, RealTargets
from sklearn_mdl.readouts import (
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    default_regressors,
    stack_regressors,
)
from sklearn_mdl.readouts.density_stack import N_DENSITY
from sklearn_mdl.switching import SwitchingPrior


class MDLReadoutSwitcherRegressor(OnlineRegressor, MixedWalk):
    r"""Codelength of real labels given features, by switching between regressors.

    As :class:`~sklearn_mdl.MDLReadoutSwitcher`, for labels that are real numbers: every
    example is predicted by all readouts before its label is seen, a prior over
    sequences of readouts mixes their densities, and the codelength is the sum of

    .. math::

        -\log p(y_t \mid x_t, \mathrm{past})

    with densities in the units of the labels. It is a codelength up to a constant: with
    labels rounded to a grid of width :math:`\delta` each costs :math:`\log 1 / \delta`
    nats more. So only differences mean anything, between encoders or against
    ``reference_codelengths_``; and codelengths may be negative.

    Readouts learn labels that are standardised by the full minibatches before; the map
    back is part of the density (its Jacobian adds the logarithm of the scale). Until
    the first minibatch is full, all readouts predict a fixed Student-t with one degree
    of freedom.

    Parameters
    ----------
    readouts : list of LinearReadoutRegressor and MLPReadoutRegressor, default=None
        See :func:`~sklearn_mdl.regressor_grid`. None takes a default board that depends
        on the number of features alone.
    prior_location, prior_scale : float, default=0.0, 1.0
        Of the fixed Student-t, in the units of the labels. They must be chosen without
        a look at the labels that are coded; what they cost, they cost every encoder and
        the reference alike. They win over the readouts' own.
    switching : str or SwitchingPrior, default=None
        Prior over sequences of readouts, as in ``MDLReadoutSwitcher``.
    expert_weights : "architecture" or array-like of shape (n_readouts,), default=None
        Prior weights of the readouts; None is uniform.
    batch_size : int, default=32
        Rows learned at once; wins over the readouts' own.
    shuffle : bool, default=False
        Permute the rows once in ``fit``; the order is kept in ``order_``.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. Wins over the readouts'
        own.
    store : "memory" or path-like, default="memory"
        A directory for the trace, as in ``MDLReadoutSwitcher``.
    checkpoint : path-like, default=None
        A directory from which a ``fit`` that was broken off goes on, likewise.
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
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the same labels under a Gaussian that learns online and looks at no
        feature (:func:`~sklearn_mdl.gaussian_codelengths`), in nats.
    posterior_ : ndarray of shape (n_samples_seen_, n_readouts)
        ``p(readout at t | labels before t)``.
    readout_losses_ : ndarray of shape (n_samples_seen_, n_readouts)
        Minus log density of every example under every readout, in nats.
    readout_codelengths_ : ndarray of shape (n_readouts,)
        Their sums.
    readout_names_ : list of str
    expert_weights_ : ndarray of shape (n_readouts,) or None
        Prior weights as the mixture takes them; None is uniform.
    readouts_ : list of LinearReadoutRegressor and MLPReadoutRegressor
        The readouts used, as settings; their weights live in the walk.
    diverged_readouts_ : list of str
        Names of readouts whose predictions stopped being finite; they predict what the
        labels alone suggest.
    grid_edges_ : dict of str to (float, {"lowest", "highest"})
        Settings in which the best readout lies at the edge of those tried.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` walked the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_mdl import MDLReadoutSwitcherRegressor, regressor_grid
    >>> X, y = load_diabetes(return_X_y=True)
    >>> board = regressor_grid(heteroscedastic=False, lr=[3e-3, 1e-2])
    >>> switcher = MDLReadoutSwitcherRegressor(board, random_state=0).fit(X, y)
    >>> saved = switcher.reference_codelengths_.sum() - switcher.codelength_
    >>> bool(saved > 50)  # nats
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "readouts": [list, tuple, None],
        "prior_location": [Interval(Real, None, None, closed="neither")],
        "prior_scale": [Interval(Real, 0, None, closed="neither")],
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
        prior_location=0.0,
        prior_scale=1.0,
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
        self.prior_location = prior_location
        self.prior_scale = prior_scale
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

    def _start(self, n_features: int, targets: RealTargets, seed: int) -> Course:
        readouts = self._board(n_features)

        def gather(device: torch.device, n_jobs: int) -> list[Learner]:
            stacks: list[Learner] = []
            stacks += stack_regressors(
                readouts, n_features, seed=seed, device=device, n_jobs=n_jobs
            )
            return stacks

        course = self._mix(readouts, gather, n_features, seed, outcome=targets)
        course.expect(N_DENSITY)
        return course

    def _after_fit(self) -> None:
        if self.readouts is not None:  # a board of ours is not the user's to widen
            self._warn_of_edges()

    def _board(self, n_features: int) -> list[Any]:
        if self.readouts is None:
            return default_regressors(n_features)
        if not len(self.readouts):
            raise ValueError(
                "readouts must hold at least one readout, got an empty list; pass None "
                "for the default board"
            )
        for readout in self.readouts:
            if not isinstance(readout, LinearReadoutRegressor | MLPReadoutRegressor):
                raise TypeError(
                    "readouts must hold LinearReadoutRegressor and MLPReadoutRegressor "
                    f"objects, got {readout!r}; build them with regressor_grid(...)"
                )
            readout._validate_params()
        return [clone(readout) for readout in self.readouts]
