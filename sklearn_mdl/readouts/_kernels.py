"""Kernel ridge regression, refitted at every row, as a readout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.regressor import OnlineRegressor
from sklearn_mdl._core.kernels.functions import Kernel
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.readouts._base import (
    NOT_NEGATIVE,
    POSITIVE,
    BaseReadout,
    Readout,
)
from sklearn_mdl.readouts._build import Context, grouped
from sklearn_mdl.readouts._kernel_groups import Member
from sklearn_mdl.readouts._kernel_labellings import Labellings
from sklearn_mdl.readouts._kernel_outcomes import (
    KernelClassifierLearner,
    KernelRegressorLearner,
    Units,
)
from sklearn_mdl.readouts._kernel_rows import SCALINGS, WITHIN, Memory

NAMES = {"arc-cosine", "rbf", "linear", "polynomial"}
MOST_LAYERS = 100  # of an arc-cosine kernel: with more, all rows are alike


@dataclass(eq=False, repr=False)
class KernelSettings(Readout):
    """Settings that kernel readouts of classes and of real numbers share."""

    kernel: str | Callable[[Any, Any], Any] = "arc-cosine"
    alpha: float = 0.03
    _: KW_ONLY
    depth: int = 1
    width: float = 1.0
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    scaling: str | None = "standard"
    max_exact: int | None = 2048
    batch_size: int = 32
    device: str = "auto"
    window: int | None = None
    restart: int | None = None

    random_state = 0  # nothing is drawn
    takes_raw_rows = True  # it scales them itself, by rows and not by minibatches

    _parameter_constraints: ClassVar[Constraints] = {
        **Readout._parameter_constraints,
        "kernel": [StrOptions(NAMES), callable],
        "alpha": [POSITIVE],
        "depth": [Interval(Integral, 1, MOST_LAYERS, closed="both")],
        "width": [POSITIVE],
        "gamma": [POSITIVE, None],
        "degree": [POSITIVE],
        "coef0": [NOT_NEGATIVE],
        "scaling": [StrOptions(set(SCALINGS)), None],
        "max_exact": [Interval(Integral, 32, None, closed="left"), None],
        "window": [Interval(Integral, 64, None, closed="left"), None],
        "restart": [Interval(Integral, 8, None, closed="left"), None],
    }

    @property
    def architecture(self) -> str:
        """Short name: "arc-cosine kernel", "rbf kernel"."""
        named = isinstance(self.kernel, str)
        return f"{self.kernel if named else type(self.kernel).__name__} kernel"

    @property
    def reads_labels(self) -> bool:
        """True if its factor depends on the labels, too: one serves no others."""
        return self.scaling == WITHIN

    @property
    def computation(self) -> str:
        """Kernel and scaling: other noises have the same kernel matrix."""
        settings = {
            "arc-cosine": self.depth,
            "rbf": self.width if self.gamma is None else f"gamma {self.gamma}",
            "polynomial": self.degree,
        }
        own = settings.get(self.kernel, "") if isinstance(self.kernel, str) else ""
        return f"{self.architecture} {own}, {self.scaling or 'raw'}"

    @property
    def pool_kind(self) -> str:
        """Kernel and scaling: those that differ only in their noise switch."""
        return self.computation

    @property
    def memory(self) -> Memory:
        """Rows that its factor holds."""
        return Memory(self.max_exact, self.window, self.restart)

    def check_width(self, n_features: int) -> None:
        """Raise a ValueError if rows and features are too many to be whitened.

        Parameters
        ----------
        n_features : int
        """
        self.memory.check_width(self.scaling, n_features)

    def member(self, column: int) -> Member:
        """Return the settings as a learner takes them."""
        names = Kernel._fields[1:]
        kernel = Kernel(self.kernel, *(getattr(self, name) for name in names))
        return Member(column, self.scaling, kernel, float(self.alpha))


def by_memory(
    members: Sequence[tuple[int, KernelSettings]],
) -> dict[Memory, list[Member]]:
    """Group readouts, given with their columns, by the rows that a factor holds."""
    return grouped((readout.memory, readout.member(c)) for c, readout in members)


@dataclass(eq=False, repr=False)
class KernelReadout(KernelSettings, BaseReadout):
    r"""Kernel ridge regression of the labels, refitted at every row, calibrated.

    One Cholesky factor holds all refits: with ``K`` the kernel of the rows in their
    order, ``Y`` the one-hot labels less ``1 / C`` and :math:`R R^T = K + \alpha I`, the
    scores of row ``t`` from the rows before it are
    :math:`Y_t - R_{tt} (R^{-1} Y)_t`. They become probabilities by

    .. math::

        \log p_c = b\, s_c + v\, s_c \log(v_t / 1.5) + u \log(\max(q_c, 0) + 0.02)
            + a \log(n_c + 1/2) - \mathrm{const},

    where ``(b, v, u, a)`` take one Newton step of the log-loss after each label, ``v``
    and ``u`` from label 64 on; :math:`v_t = R_{tt}^2 / \alpha` is the variance,
    :math:`q_c = s_c + 1 / C` the score as a probability, and :math:`n_c` counts the
    labels before. ``p`` is then mixed with a share of 1e-4 of the uniform
    distribution. Nothing is drawn, and nothing waits for a minibatch; but from row
    4,096 on, 32 rows are predicted at once and their labels learned together, unless
    rows are forgotten.

    All kernel readouts of one switcher make their pass together: those of one scaling
    share inner products and distances, those of one kernel its matrix.

    Parameters
    ----------
    kernel : str or callable, default="arc-cosine"
        "arc-cosine", "rbf", "linear" or "polynomial".
        "arc-cosine" is that of degree 1: a network of infinitely many rectified units.
        A kernel of ``sklearn.gaussian_process.kernels``, or any callable of two arrays
        of rows; neither can be written to a file.
    alpha : float, default=0.03
        Noise added to the diagonal.
    depth : int, default=1
        Hidden layers of the arc-cosine kernel, 100 at most.
    width : float, default=1.0
        Of "rbf", :math:`e^{-\|x - x'\|^2 / (\mathrm{width} \cdot m)}` with ``m`` the
        median squared distance between rows before the last refresh, or between those
        that differ if most are equal.
    gamma : float, default=None
        Factor of squared distances ("rbf"), which takes the place of the width, or of
        inner products ("polynomial", where None is 1).
    degree, coef0 : float, default=3, 1.0
        Of "polynomial", :math:`(\gamma x^T x' + \mathrm{coef0})^{\mathrm{degree}}`.
    scaling : {"standard", "centered-unit", "whiten", "within-class", "unit"} or None, \
            default="standard"
        Feature scaling by the rows before row 8, 16, 32, and so on: "standard" rows
        are standardised with regularised deviations, clipped at 6 of them and divided
        by :math:`\sqrt d`; "centered-unit" ones are centred and divided by their
        length. "whiten" ones are centred, multiplied by the inverse root of their
        shrunk covariance and divided by their length; so are "within-class" ones, with
        the covariance within classes, by the labels known then. All these have a
        constant 0.3 appended, are of unit length before row 8 and until a feature
        varies, and their kernel is divided by its mean diagonal. "unit" divides rows by
        their length; None changes neither rows nor kernel.
    max_exact : int, default=2048
        Rows after which kernels are approximated; None is unlimited. These rows are
        landmarks from then on, and statistics, such as the covariance that whitens,
        stay those of the last refresh before.
        Half as many rows later, memory grows no more. Whole blocks count, so that it is
        rounded down to a multiple of 32.
    batch_size : int, default=32
        Minibatches of a run; this readout learns row by row whatever it is.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. A switcher's own wins.
    window : int, default=None
        Rows of the last past that the factor holds at most, whatever `max_exact`; None
        is all of them. Rounded down to a multiple of 64. When it is full, the older
        half is forgotten, statistics of the rows too, and calibration goes over the
        other half again: for streams that drift.
    restart : int, default=None
        Restart at odd multiples of so many rows, whatever `max_exact`, as if the
        stream began there; None never does. Rounded down to 8, 16 or a multiple of 32.
        Readouts with 32, 64, 128 and so on begin at different rows, and each multiple
        of 32 is where one of them does (Hazan and Seshadhri, 2009, Efficient learning
        algorithms for changing environments, ICML).

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        The same by example.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` took the rows.

    Raises
    ------
    ValueError
        By ``fit`` and ``partial_fit``, if a callable returns something else than the
        kernel of all pairs of rows. From a row on where its matrix has no factor, or
        where it raises, it predicts without features, with a warning.
    MemoryError
        If ``max_exact`` is None and the factor does not fit into memory.

    References
    ----------
    Zhdanov and Kalnishkan, 2013, An identity for kernel ridge regression, Theoretical
    Computer Science 473. Cho and Saul, 2009, Kernel methods for deep learning, NeurIPS.
    Milios, Camoriano, Michiardi, Rosasco and Filippone, 2018, Dirichlet-based Gaussian
    processes for large-scale calibrated classification, NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import KernelReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = KernelReadout().fit(X[:128], y[:128])
    >>> readout.score(X[128:], y[128:]) > 0.9
    True
    """

    @property
    def pool_kind(self) -> str:
        """Kernel, scaling and noise: other noises are pooled, too."""
        return f"{self.computation}, noise {self.alpha:g}"

    def predict_relabelled(self, labels: ArrayLike, X: ArrayLike) -> np.ndarray:
        """Predict rows as after a fit on the same rows with other labels.

        One factor serves all labellings.

        Parameters
        ----------
        labels : array-like of shape (n_labellings, n_samples_seen_)
            Classes of the rows that were fitted, in their order.
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        predicted : ndarray of shape (n_labellings, n_samples)
            Most probable classes, each among those that occur in its labelling.

        Raises
        ------
        ValueError
            If labels have another shape, or rows are whitened within their classes.
        """
        check_is_fitted(self)
        if self.reads_labels:
            raise invalid(
                "scaling",
                "one that no labels enter, where one factor serves several labellings",
                self.scaling,
                'take "whiten", or fit a copy for each',
            )
        rows, labels = self._validated(X, reset=False), np.asarray(labels)
        if labels.ndim != 2 or labels.shape[1] != self.n_samples_seen_:
            raise ValueError(
                f"labels must have shape (n_labellings, {self.n_samples_seen_}), one "
                f"for each row that was fitted, got {labels.shape}; stack them"
            )
        coded = [np.unique(own, return_inverse=True) for own in labels]
        # Labellings by their number of classes.
        alike = grouped((len(classes), i) for i, (classes, _) in enumerate(coded))
        outputs = [
            Labellings(np.stack([coded[i][1] for i in some]), n_classes)
            for n_classes, some in alike.items()
        ]
        run, predicted = self._run, np.empty((len(labels), len(rows)), labels.dtype)
        with run.threads.arithmetic():
            (learner,) = self.learners_of(
                [(0, self)],
                Context(self.n_features_in_, 1, 0, run.rows.device),
            )
            learner.attach(run.rows)
            found = learner.predict_sets(outputs, rows)
        for some, log_proba in zip(alike.values(), found, strict=True):
            for i, places in zip(some, log_proba[:, 0].argmax(-1), strict=True):
                predicted[i] = coded[i][0][places]
        return predicted

    @classmethod
    def learners_of(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[KernelClassifierLearner]:
        """One learner for all whose factors grow alike: they share what they can."""
        return [
            KernelClassifierLearner(own, memory, context)
            for memory, own in by_memory(members).items()
        ]

    def uncalibrated_scores(self, X: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what calibration turns into probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            Means of the kernel regression on labels.
        prior : ndarray of shape (n_classes,)
            Logits that calibration adds for the frequencies of classes.
        """
        (learner,) = self._run.threads.learners
        assert isinstance(learner, KernelClassifierLearner)
        means, _ = learner.predict_others(torch.as_tensor(np.asarray(X)))
        calibration = learner.calibration
        prior = calibration.factors[0, -1] * np.log(calibration.counts + 0.5)
        return means[0].cpu().numpy(), prior


@dataclass(eq=False, repr=False)
class KernelReadoutRegressor(KernelSettings, OnlineRegressor):
    r"""Gaussian process regression, refitted at every row.

    One Cholesky factor holds all refits, as in :class:`~sklearn_mdl.KernelReadout`, and
    their variances: the prediction of row ``t`` is :math:`Y_t - R_{tt} E_t` with
    variance :math:`R_{tt}^2`, noise included, where :math:`R R^T = K + \alpha I` and
    :math:`E = R^{-1} Y`. With ``likelihood="gaussian"`` the codelength of a stream is
    minus the logarithm of the process's evidence. With "student-t" the scale of targets
    and noise is unknown, under an inverse gamma prior of one degree of freedom:
    densities have ``t + 1`` degrees of freedom and the scale of the errors so far.

    Parameters
    ----------
    kernel : str or callable, default="arc-cosine"
        "arc-cosine", "rbf", "linear" or "polynomial".
        "arc-cosine" is that of degree 1: a network of infinitely many rectified units.
        A kernel of ``sklearn.gaussian_process.kernels``, or any callable of two arrays
        of rows; neither can be written to a file.
    alpha : float, default=0.03
        Variance of the noise, in units of the targets' prior variance.
    depth : int, default=1
        Hidden layers of the arc-cosine kernel, 100 at most.
    width : float, default=1.0
        Of "rbf", :math:`e^{-\|x - x'\|^2 / (\mathrm{width} \cdot m)}` with ``m`` the
        median squared distance between rows before the last refresh, or between those
        that differ if most are equal.
    gamma : float, default=None
        Factor of squared distances ("rbf"), which takes the place of the width, or of
        inner products ("polynomial", where None is 1).
    degree, coef0 : float, default=3, 1.0
        Of "polynomial", :math:`(\gamma x^T x' + \mathrm{coef0})^{\mathrm{degree}}`.
    scaling : {"standard", "centered-unit", "whiten", "unit"} or None, \
            default="standard"
        Feature scaling by the rows before row 8, 16, 32, and so on: "standard" rows
        are standardised with regularised deviations, clipped at 6 of them and divided
        by :math:`\sqrt d`; "centered-unit" ones are centred and divided by their
        length. "whiten" ones are centred, multiplied by the inverse root of their
        shrunk covariance and divided by their length. All these have a
        constant 0.3 appended, are of unit length before row 8 and until a feature
        varies, and their kernel is divided by its mean diagonal. "unit" divides rows by
        their length; None changes neither rows nor kernel.
    max_exact : int, default=2048
        Rows after which kernels are approximated; None is unlimited. These rows are
        landmarks from then on, and statistics, such as the covariance that whitens,
        stay those of the last refresh before.
        Half as many rows later, memory grows no more. Whole blocks count, so that it is
        rounded down to a multiple of 32.
    batch_size : int, default=32
        Minibatches of a run; this readout learns row by row whatever it is.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one. A switcher's own wins.
    window, restart : int, default=None
        See :class:`~sklearn_mdl.KernelReadout`. Until row 8 after a restart targets
        are measured in the units of the rows known before.
    likelihood : {"student-t", "gaussian"}, default="student-t"
        Density of the label.
    standardize_targets : bool, default=True
        Measure targets from the mean of the labels before row 8, 16, 32, and so on, in
        units of their deviation, outlying ones winsorised. Otherwise, and before row 8,
        from ``prior_location`` in units of ``prior_scale``.
    prior_location, prior_scale : float, default=0.0, 1.0
        In the units of the labels, chosen without using those that are coded. A
        switcher's own win.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        The same by example.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the same labels under a Gaussian that uses no feature, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` took the rows.

    Raises
    ------
    ValueError
        By ``fit`` and ``partial_fit``, if a callable returns something else than the
        kernel of all pairs of rows. From a row on where its matrix has no factor, or
        where it raises, it predicts without features, with a warning.

    References
    ----------
    Rasmussen and Williams, 2006, Gaussian processes for machine learning, chapter 2.
    Shah, Wilson and Ghahramani, 2014, Student-t processes as alternatives to Gaussian
    processes, AISTATS.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_mdl.readouts import KernelReadoutRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> readout = KernelReadoutRegressor(alpha=1.0).fit(X, y)
    >>> saved = readout.reference_codelengths_.sum() - readout.codelength_
    >>> bool(saved > 50)  # nats
    True
    """

    likelihood: str = field(default="student-t", kw_only=True)
    standardize_targets: bool = field(default=True, kw_only=True)
    prior_location: float = field(default=0.0, kw_only=True)
    prior_scale: float = field(default=1.0, kw_only=True)

    _parameter_constraints: ClassVar[Constraints] = {
        **KernelSettings._parameter_constraints,
        "scaling": [StrOptions(set(SCALINGS) - {WITHIN}), None],
        "likelihood": [StrOptions({"gaussian", "student-t"})],
        "standardize_targets": ["boolean"],
    }

    @classmethod
    def learners_of(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[KernelRegressorLearner]:
        """One learner for all that have the same units and whose factors grow alike."""
        has_tails = {c: readout.likelihood == "student-t" for c, readout in members}
        alike = grouped((readout.units, (c, readout)) for c, readout in members)
        return [
            KernelRegressorLearner(own, memory, units, has_tails, context)
            for units, some in alike.items()
            for memory, own in by_memory(some).items()
        ]

    @property
    def units(self) -> Units:
        """Units of the targets."""
        location, scale = float(self.prior_location), float(self.prior_scale)
        return Units(location, scale, bool(self.standardize_targets))
