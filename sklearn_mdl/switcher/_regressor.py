"""Meta-estimator for real-valued labels that mixes regressors under a prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import ClassVar, Literal, get_args

from sklearn.base import BaseEstimator, clone

from sklearn_mdl._core.base.regressor import OnlineRegressor
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl.readouts import (
    DummyReadoutRegressor,
    KernelReadoutRegressor,
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    Readout,
    ViewReadoutRegressor,
    expanded,
    named_regressors,
)
from sklearn_mdl.switcher._base import BaseSwitcher

Named = Literal["closed-form", "nets", "drift", "stream"]


@dataclass(eq=False, repr=False)
class MDLReadoutSwitcherRegressor(OnlineRegressor, BaseSwitcher):
    r"""Meta-estimator that codes real-valued labels by switching between regressors.

    This is the counterpart of :class:`~sklearn_mdl.MDLReadoutSwitcher` for labels that
    are real numbers. All readouts predict every example before its label is seen, and a
    prior over sequences of readouts mixes their densities. The codelength is the sum of

    .. math::

        -\log p(y_t \mid x_t, \mathrm{past})

    with densities in the units of the labels. The sum is a codelength up to a constant:
    if labels are rounded to a grid of width :math:`\delta`, each label costs
    :math:`\log 1 / \delta` nats more. Codelengths may be negative. Only their
    differences matter, either between encoders or relative to
    ``reference_codelengths_``.

    Networks and kernels learn labels standardised by the mean and scale of earlier
    labels. For networks, both are updated whenever the number of rows has doubled. For
    kernels, they are updated after 8, 16, 32, ... rows, up to their ``max_exact``
    (2,048 by default). Densities are mapped back to the units of the labels, which adds
    the logarithm of the scale to each loss. Until the first minibatch is full, networks
    predict a fixed Student-t distribution with one degree of freedom.

    Parameters
    ----------
    readouts : list, readout, or the name of a list, default=None
        ``LinearReadoutRegressor`` and ``MLPReadoutRegressor`` objects (see
        :func:`~sklearn_mdl.readouts.regressor_grid`), ``KernelReadoutRegressor``,
        ``DummyReadoutRegressor`` and ``ViewReadoutRegressor`` objects. If None,
        networks and Gaussian processes are used. "nets" contains only networks, whose
        number and settings depend on the number of features. "closed-form" contains
        only Gaussian processes and needs no seed. "drift" contains networks, Gaussian
        processes, Gaussian processes that forget old rows, and readouts that ignore
        features. "stream", for long streams, contains networks that learn every row
        once, and readouts that ignore features.
    switching : str or SwitchingPrior, default="learned-share"
        Prior over sequences of readouts, as in ``MDLReadoutSwitcher``.
    readout_weights : "architecture" or array-like of shape (n_readouts,), default=None
        Prior weights of the readouts, as in ``MDLReadoutSwitcher``.
    pooling : "auto", None, LogLinearPool or array-like, default="auto"
        How to combine the densities of kinds of readouts in addition to switching, as
        in ``MDLReadoutSwitcher``. Kernels that differ only in noise are of one kind.
    race : "auto", None or Race, default="auto"
        Rule that retires readouts that are far behind
        (:class:`~sklearn_mdl.switching.Race`). The rule is applied each time the number
        of examples doubles, from about 1,024 examples on. Retired readouts are no
        longer trained. Instead, they are assumed to predict like the mixture of the
        readouts that still run. "auto" is `Race()` for built-in lists except "drift"
        and "stream". For these it is None, since a readout that loses now may win
        later. For your own lists it is also None, as in the paper.
    batch_size : int, (int, int) or "auto", default="auto"
        Number of rows in a minibatch. Overrides the batch size of the readouts. An int
        is a constant size, as in the paper. With a pair, minibatches grow along the
        stream from the first size to the second, so readouts begin to learn after fewer
        labels. "auto" is 8 for "stream", ``(8, 32)`` for other built-in lists, and 32
        for your own lists.
    label_delay : int, default=0
        Number of further rows that are predicted before the label of a row arrives.
        Readouts, calibration, posterior, pool and race see the label of row ``t`` only
        after row ``t + label_delay`` is coded, and after all rows of its group.
    shuffle : bool, default=False
        Permute the rows once in ``fit``, and store the order in ``order_``.
    device : str, default="auto"
        Torch device. Overrides the device of the readouts. "auto" uses a GPU if one is
        available.
    precision : {"float32", "bfloat16", "tf32"}, default="float32"
        Precision to which the factors of matrix products are rounded when networks are
        trained. "float32" does not round them, unless you allowed it with
        ``torch.set_float32_matmul_precision``. "bfloat16" rounds only the factors of
        hidden layers. It needs a GPU of compute capability 8.0 or higher, or a CPU with
        AVX-512 BF16. "tf32" needs such a GPU and a single thread. Sums, parameters,
        moments and predictions stay float32, except that a CPU rounds finished sums to
        bfloat16.
    store : "memory", path-like or tuple, default="memory"
        Where to keep the trace: the loss and posterior probability of each of K
        readouts at each of N examples. "memory" keeps it in memory. Pass a directory to
        use memory-mapped files if these ``2 x N x K`` numbers do not fit into memory.
        Each stream gets its own folder there, whose path is ``store_``. You can open
        its ``losses.npy`` with :func:`~sklearn_mdl.switcher.load_losses`, even during
        the run. A pair such as ``("memory", "mixtures")`` also keeps the labels and the
        predictions of each kind of readout for :meth:`repool`.
    checkpoint : path-like, default=None
        A directory from which an interrupted ``fit`` resumes, as in
        ``MDLReadoutSwitcher``.
    n_jobs : int, "processes" or None, default=None
        How to evaluate readouts in parallel. Results do not depend on `n_jobs`. An int
        is a number of threads (all CPUs if -1). None means 1, or the number set by
        ``joblib.parallel_config``. "processes" evaluates the readouts in parts, each in
        a process with its own device. There are as many processes as the active joblib
        backend has jobs (``joblib.parallel_config(n_jobs=8)``), possibly on a cluster
        (see :doc:`/machines`). The fitted estimator then predicts on the CPU.
    verbose : int, default=0
        If above 0, show a progress bar.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, the replay streams and the permutation of rows.
    prior_location, prior_scale : float, default=0.0, 1.0
        Location and scale of the fixed Student-t distribution, in the units of the
        labels. Choose both without looking at the labels to be coded. They change the
        codelengths of all encoders by about the same amount, and also that of the
        reference unless ``label_delay`` is above 0. They override the values of the
        readouts.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example in order of evaluation, in nats.
    switching_codelength_ : float
        Codelength of the switching mixture of all readouts, in nats.
    switching_codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example under the switching mixture, in nats.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the same labels without features, in nats, under a Gaussian whose mean
        and variance are learned online
        (:func:`~sklearn_mdl.metrics.gaussian_codelengths`). The fixed Student-t
        distribution codes the first two labels if a readout learns row by row, as
        kernels do, and otherwise the first minibatch. ``label_delay`` is ignored.
    posterior_ : ndarray of shape (n_samples_seen_, n_readouts)
        ``p(readout at t | labels before t)``.
    pool_kinds_ : list of n_kinds names
        Kinds of readouts in the pool (empty without a pool).
    pool_weights_ : ndarray of shape (n_samples_seen_, n_kinds)
        Weights of the kinds in the pool before each label.
    pool_posterior_ : ndarray of shape (n_samples_seen_, 2)
        Probabilities of the switching mixture and the pool before each label.
    readout_losses_ : ndarray of shape (n_samples_seen_, n_readouts)
        Minus log density of every example under every readout, in nats, or NaN once the
        readout has retired.
    store_ : Path or None
        Folder with the files of this stream, or None if the trace is in memory.
    readout_codelengths_ : ndarray of shape (n_readouts,)
        Sums of ``readout_losses_``. Once retired, a readout costs as much as the
        mixture of the readouts that still run.
    retired_at_ : ndarray of shape (n_readouts,)
        Number of examples after which each readout retired, or -1 if it has not.
    readout_names_ : list of str
    readout_weights_ : ndarray of shape (n_readouts,) or None
        Prior weights of the mixture (uniform if None). They need not sum to one.
    readouts_ : list of readouts
        Unfitted copies of the readouts used.
    diverged_readouts_ : list of str
        Names of readouts whose predictions stopped being finite. These readouts then
        predict from the labels only, and ``fit`` warns about them.
    diverged_at_ : ndarray of shape (n_readouts,)
        Index of each readout's first prediction that was not finite, in order of
        evaluation, or -1 if none.
    grid_edges_ : dict of str to (float, {"lowest", "highest"})
        Settings of the best readout that are the lowest or highest of the values tried.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_mdl import MDLReadoutSwitcherRegressor
    >>> from sklearn_mdl.readouts import regressor_grid
    >>> X, y = load_diabetes(return_X_y=True)
    >>> readouts = regressor_grid(heteroscedastic=False, lr=[3e-3, 1e-2])
    >>> switcher = MDLReadoutSwitcherRegressor(readouts, random_state=0).fit(X, y)
    >>> saved = switcher.reference_codelengths_.sum() - switcher.codelength_
    >>> bool(saved > 50)  # nats
    True
    """

    readouts: Sequence[object] | BaseEstimator | Named | None = None
    _: KW_ONLY
    prior_location: float = 0.0
    prior_scale: float = 1.0

    _parameter_constraints: ClassVar[Constraints] = {
        "readouts": [list, tuple, BaseEstimator, StrOptions({*get_args(Named)}), None],
        "prior_location": [Interval(Real, None, None, closed="neither")],
        "prior_scale": [Interval(Real, 0, None, closed="neither")],
        **BaseSwitcher._parameter_constraints,
    }

    def _pool(self, n_features: int, outcome: Outcome) -> list[Readout]:
        if self.readouts is None or isinstance(self.readouts, str):
            readouts = named_regressors(self.readouts, n_features)
        else:
            regressors = expanded(self._given, n_features, named_regressors)
            readouts = [clone(_checked(readout)) for readout in regressors]
        units = {"prior_location": self.prior_location, "prior_scale": self.prior_scale}
        kinds = KernelReadoutRegressor, DummyReadoutRegressor
        for readout in readouts:
            if isinstance(readout.inner, kinds):
                readout.inner.set_params(**units)
        return readouts


def _checked(readout: object) -> Readout:
    """Validate the settings of a readout for regression, and return the readout.

    Raises
    ------
    TypeError
        If the readout is not for regression.
    """
    kinds = LinearReadoutRegressor, MLPReadoutRegressor, KernelReadoutRegressor
    if not isinstance(readout, (*kinds, DummyReadoutRegressor, ViewReadoutRegressor)):
        raise TypeError(
            "readouts must hold Linear-, MLP-, Kernel-, Dummy- or ViewReadoutRegressor "
            f"objects, got {readout!r}; for example, pass readouts=regressor_grid()"
        )
    readout._validate_params()
    return readout
