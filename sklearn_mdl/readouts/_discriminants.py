"""Linear discriminants and nearest class means that learn row by row."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl.readouts._base import POSITIVE, BaseReadout
from sklearn_mdl.readouts._build import Context, Members, grouped
from sklearn_mdl.readouts._class_means import MeansLearner, Reference
from sklearn_mdl.readouts._kernel_rows import WITHIN, Memory


@dataclass(eq=False, repr=False, kw_only=True)
class MeansReadout(BaseReadout):
    """Base class of readouts that compare a row with the mean of every class."""

    batch_size: int = 32
    device: str = "auto"
    window: int | None = None
    restart: int | None = None

    random_state = 0  # uses no random numbers
    takes_raw_rows = True
    is_cosine: ClassVar[bool] = True

    _parameter_constraints: ClassVar[Constraints] = {
        **BaseReadout._parameter_constraints,
        "shrinkage": [POSITIVE],
        "window": [Interval(Integral, 64, None, closed="left"), None],
        "restart": [Interval(Integral, 8, None, closed="left"), None],
        "scaling": [StrOptions({"centered", WITHIN}), None],
    }

    @classmethod
    def learners_of(cls, members: Members[Any], context: Context) -> list[MeansLearner]:
        """Make one learner for each set of readouts that use the same rows."""
        alike = grouped(
            (
                Memory(None, readout.window, readout.restart),
                Reference(
                    column, readout.scaling, float(readout.shrinkage), readout.is_cosine
                ),
            )
            for column, readout in members
        )
        return [MeansLearner(own, memory, context) for memory, own in alike.items()]


@dataclass(eq=False, repr=False)
class DiscriminantReadout(MeansReadout):
    r"""Calibrated linear discriminant analysis, updated at every row.

    At rows 8, 16, 32 and so on, the whitening is recomputed from the within-class
    covariance of the earlier rows,

    .. math::

        S = (D^T D + d\, h\, T) / (f + d\, h)

    plus 1e-3 times the mean eigenvalue of ``S`` on the diagonal. Here ``D`` holds these
    rows minus their class means. ``f`` is the number of these rows minus the number of
    classes seen, and at least 1. ``T`` is the covariance of these rows with oracle
    approximating shrinkage, and ``h`` is `shrinkage`. Class means are updated after
    every label. In whitened, centred coordinates, a class of :math:`n_c` rows with sum
    :math:`s_c` has the mean :math:`m_c = s_c / (n_c + 1)` and the score
    :math:`(m_c^T x - m_c^T m_c / 2) / \|x\|`. Scores become probabilities as in
    :class:`~sklearn_mdl.KernelReadout`, but only with the terms of ``b`` and ``a``.
    Until the whitening is first computed from rows that differ, rows are only divided
    by their length. The whitening is fixed after 8,192 rows, or after 2,048 rows with
    more than 2,048 features.

    Each row takes ``O(d * (d + C))`` time. Rows are whitened in blocks of at most 32.
    After 4,096 rows, labels are also learned block by block, unless the readout forgets
    rows. The readout works best with many classes and few rows per class.

    Parameters
    ----------
    shrinkage : float, default=0.1
        Weight ``h`` of the total covariance ``T``, which counts as ``d * h`` rows.
    batch_size : int, default=32
        Has no effect, since this readout does not learn by minibatches.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    window, restart : int, default=None
        When to forget old rows, as in :class:`~sklearn_mdl.KernelReadout`. `window`
        limits the number of rows in the means and the covariance, and `restart` resets
        both.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    References
    ----------
    Friedman, 1989, Regularized discriminant analysis, Journal of the American
    Statistical Association 84. Chen, Wiesel, Eldar and Hero, 2010, Shrinkage algorithms
    for MMSE covariance estimation, IEEE Transactions on Signal Processing 58.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl.readouts import DiscriminantReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = DiscriminantReadout().fit(X[:128], y[:128])
    >>> readout.codelength_ < 128  # nats; guessing costs log(3) per label
    True
    """

    shrinkage: float = 0.1

    scaling = WITHIN  # not a parameter
    is_cosine = False
    architecture = "discriminant"


@dataclass(eq=False, repr=False)
class CentroidReadout(MeansReadout):
    """Calibrated nearest-class-mean classifier with cosine scores.

    The score of a class is the cosine between the row and the class mean so far.
    If the class has no rows yet, its score is 0. Scores become probabilities as in
    :class:`~sklearn_mdl.KernelReadout`, but only with the terms of ``b`` and ``a``.

    Parameters
    ----------
    scaling : {"centered", "within-class"} or None, default="centered"
        "centered" first subtracts the mean of earlier rows, which is refreshed at rows
        8, 16, 32 and so on up to 8,192 (up to 2,048 with more than 2,048 features).
        "within-class" also whitens rows as :class:`DiscriminantReadout` does. If None,
        rows are unchanged.
    shrinkage : float, default=0.1
        Shrinkage of the within-class covariance, only used with "within-class".
    batch_size : int, default=32
        Has no effect, since this readout does not learn by minibatches.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    window, restart : int, default=None
        When to forget old rows, as in :class:`~sklearn_mdl.KernelReadout`. `window`
        limits the number of rows in the means, and `restart` resets the means.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    References
    ----------
    Mensink, Verbeek, Perronnin and Csurka, 2013, Distance-based image classification:
    generalizing to new classes at near-zero cost, IEEE TPAMI 35.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl.readouts import CentroidReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = CentroidReadout().fit(X[:128], y[:128])
    >>> readout.codelength_ < 128  # nats; guessing costs log(3) per label
    True
    """

    scaling: str | None = "centered"
    shrinkage: float = 0.1

    architecture = "class mean"


MeansReadout.family = MeansReadout
