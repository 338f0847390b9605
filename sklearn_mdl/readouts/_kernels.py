"""Kernel ridge regression, as readouts that are refitted at every row."""

from __future__ import annotations

from collections.abc import Callable
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
from sklearn_mdl.readouts._base import NOT_NEGATIVE, POSITIVE, BaseReadout, Readout
from sklearn_mdl.readouts._build import Context, Members, grouped
from sklearn_mdl.readouts._kernel_groups import Member
from sklearn_mdl.readouts._kernel_labellings import Labellings
from sklearn_mdl.readouts._kernel_outcomes import (
    KernelClassifierLearner,
    KernelRegressorLearner,
    Units,
)
from sklearn_mdl.readouts._kernel_rows import SCALINGS, WITHIN, Memory

NAMES = {"arc-cosine", "rbf", "linear", "polynomial"}
MOST_LAYERS = 100  # with more layers, an arc-cosine kernel makes all rows alike


@dataclass(eq=False, repr=False)
class KernelSettings(Readout):
    """Settings shared by kernel readouts for classification and for regression."""

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

    random_state = 0  # uses no random numbers
    takes_raw_rows = True  # the learner scales rows

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
        """Short name, such as "rbf kernel", or with the name of a callable."""
        name = getattr(self.kernel, "__name__", type(self.kernel).__name__)
        return f"{self.kernel if isinstance(self.kernel, str) else name} kernel"

    @property
    def reads_labels(self) -> bool:
        """True if the factor depends on labels and cannot be used for other labels."""
        return self.scaling == WITHIN

    @property
    def computation(self) -> str:
        """Name of the kernel with its main setting, and the scaling."""
        settings = {
            "arc-cosine": self.depth,
            "rbf": self.width if self.gamma is None else f"gamma {self.gamma}",
            "polynomial": self.degree,
        }
        value = settings.get(self.kernel, "") if isinstance(self.kernel, str) else ""
        return f"{f'{self.architecture} {value}'.strip()}, {self.scaling or 'raw'}"

    @property
    def pool_kind(self) -> str:
        """Kernel and scaling, so readouts that differ only in noise are of one kind."""
        return self.computation

    @property
    def memory(self) -> Memory:
        """Settings that determine which rows the factor keeps."""
        return Memory(self.max_exact, self.window, self.restart)

    def check_width(self, n_features: int) -> None:
        """Raise ValueError if there are too many rows and features to whiten.

        Parameters
        ----------
        n_features : int
        """
        self.memory.check_width(self.scaling, n_features)

    def member(self, column: int) -> Member:
        """Return the column and the settings that a learner needs."""
        names = Kernel._fields[1:]
        kernel = Kernel(self.kernel, *(getattr(self, name) for name in names))
        return Member(column, self.scaling, kernel, float(self.alpha))


def factor_bytes(readout: Readout, n_rows: int) -> int:
    """Return the size in bytes of a kernel readout's factor, or 0 for other readouts.

    Readouts on a frozen encoder count as other readouts.
    """
    if not isinstance(readout.inner, KernelSettings):
        return 0
    return 4 * readout.inner.memory.most_rows(n_rows) ** 2  # one triangle of float64


def by_memory(members: Members[KernelSettings]) -> dict[Memory, list[Member]]:
    """Return the members of (column, readout) pairs, keyed by ``memory``."""
    return grouped((readout.memory, readout.member(c)) for c, readout in members)


@dataclass(eq=False, repr=False)
class KernelReadout(KernelSettings, BaseReadout):
    r"""Calibrated kernel ridge regression on one-hot labels, refitted at every row.

    Until kernels are approximated (see `max_exact`), a single Cholesky factor yields
    all refits. Let ``K`` be the kernel matrix of the rows in order, ``Y`` the one-hot
    labels minus ``1 / C``, and :math:`R R^T = K + \alpha I`. The scores of row ``t``
    given the rows before it are :math:`Y_t - R_{tt} (R^{-1} Y)_t`. The scores are
    turned into probabilities by

    .. math::

        \log p_c = b\, s_c + v\, s_c \log(v_t / 1.5) + u \log(\max(q_c, 0) + 0.02)
            + a \log(n_c + 1/2) - \mathrm{const},

    where :math:`v_t = R_{tt}^2 / \alpha` is the variance in units of the noise,
    :math:`q_c = s_c + 1 / C` the score as a probability, and :math:`n_c` the number of
    earlier labels of the class. After each label, one Newton step on the log-loss
    updates ``(b, v, u, a)``, except that ``v`` and ``u`` stay zero for the first 64
    labels. The probabilities are mixed with the uniform distribution, which gets a
    share of 1e-4. The readout uses neither random numbers nor minibatches. After 4,096
    rows, however, it predicts 32 rows at a time and then learns their labels together,
    unless `window` or `restart` is set.

    In a switcher, kernel readouts with the same `max_exact`, `window` and `restart` are
    computed together. Those with the same scaling share inner products and distances.
    If their kernels are the same, too, they share the kernel matrix.

    Parameters
    ----------
    kernel : str or callable, default="arc-cosine"
        "arc-cosine", "rbf", "linear" or "polynomial". "arc-cosine" is of degree 1 and
        corresponds to a ReLU network of infinite width. You can also pass a kernel of
        ``sklearn.gaussian_process.kernels`` or any callable that maps arrays of ``n``
        and ``m`` rows to an array of kernel values (n, m). A readout with such a kernel
        cannot be written with ``save``.
    alpha : float, default=0.03
        Variance of the noise, added to the diagonal of the kernel matrix.
    depth : int, default=1
        Number of hidden layers of the arc-cosine kernel, at most 100.
    width : float, default=1.0
        Width of "rbf", :math:`e^{-\|x - x'\|^2 / (\mathrm{width} \cdot m)}`, where
        ``m`` is the median squared distance between earlier rows (at most 512 of them),
        recomputed after 8, 16, 32, ... rows, up to `max_exact`. If most pairs consist
        of equal rows, only the other pairs count. For the first 8 rows, ``m`` is 1.
    gamma : float, default=None
        Factor of squared distances in "rbf", and of inner products in "polynomial". If
        None, `width` is used in "rbf", and 1 in "polynomial".
    degree, coef0 : float, default=3, 1.0
        Parameters of "polynomial", :math:`(\gamma x^T x' +
        \mathrm{coef0})^{\mathrm{degree}}`.
    scaling : str or None, default="standard"
        Feature scaling, recomputed after 8, 16, 32, ... rows, up to `max_exact`, from
        all rows so far. "standard" standardises rows with regularised standard
        deviations, clips them at 6 deviations and divides them by :math:`\sqrt d`.
        "centered-unit" centres rows and divides them by their length. "whiten" centres
        rows, multiplies them by the inverse root of their shrunk covariance and divides
        them by their length. "within-class" does the same with the within-class
        covariance, given the labels known at that time. All of these append a constant
        0.3 and divide the kernel by its mean diagonal. Until the scaling is first
        computed from rows that differ, rows are only divided by their length before the
        constant is appended. "unit" divides rows by their length. If None, rows and
        kernel are unchanged.
    max_exact : int, default=2048
        Number of rows after which kernels are approximated, rounded down to a multiple
        of 32. These rows then serve as landmarks, and statistics such as the whitening
        covariance are no longer refreshed. After about ``1.5 * max_exact`` rows, the
        state of the readout stops growing. After ``4 * max_exact`` rows, but not before
        1,024 rows, the readout is refitted only when the number of rows has grown by an
        eighth or, if that is less, by 8,192. When the number of rows has grown another
        16-fold, the readout learns only every second block of 128 rows, later only
        every fourth, and so on. If None, kernels stay exact.
    batch_size : int, default=32
        Has no effect, since this readout does not learn in minibatches.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    window : int, default=None
        Largest number of recent rows in the factor, rounded down to a multiple of 64.
        Use a window for streams that drift. Overrides `max_exact`. If None, there is no
        window. A full window forgets its older half, including the statistics of these
        rows. The readout then calibrates again on the newer half.
    restart : int, default=None
        The readout restarts at odd multiples of this number of rows, as if the stream
        began there. The number is rounded down to 8, 16 or a multiple of 32. Overrides
        `max_exact`. If None, there is no restart. Among readouts with `restart` 32, 64,
        128 and so on, exactly one restarts at each multiple of 32 (Hazan and Seshadhri,
        2009, Efficient learning algorithms for changing environments, ICML).

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

    Raises
    ------
    ValueError
        In ``fit`` and ``partial_fit``, if a callable kernel never returns one number
        for each pair of rows. The callable's own exception is raised if no call
        succeeds. If only some calls fail, or if the matrix has no Cholesky factor, you
        only get a warning, and the readout ignores features from then on.
    MemoryError
        If `max_exact`, `window` and `restart` are all None, and the factor does not fit
        into memory.

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
        """Kernel, scaling and noise, so readouts that differ in noise are pooled."""
        return f"{self.computation}, noise {self.alpha:g}"

    def predict_relabelled(self, labels: ArrayLike, X: ArrayLike) -> np.ndarray:
        """Predict rows as if the readout had been fitted with other labels.

        The factor is computed only once for all labellings.

        Parameters
        ----------
        labels : array-like of shape (n_labellings, n_samples_seen_)
            Alternative classes of the fitted rows, in the order of these rows.
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        predicted : ndarray of shape (n_labellings, n_samples)
            Most probable classes, chosen among the classes that occur in the labelling.

        Raises
        ------
        ValueError
            If labels have the wrong shape, if `scaling` is "within-class", or if the
            readout has a `window` or a `restart`.
        """
        check_is_fitted(self)
        if self.reads_labels:
            required = "independent of labels for predict_relabelled"
            cure = 'pass scaling="whiten", or fit clone(readout) to each labelling'
            raise invalid("scaling", required, self.scaling, cure)
        rows, labels = self._validated(X, reset=False), np.asarray(labels)
        if labels.ndim != 2 or labels.shape[1] != self.n_samples_seen_:
            raise ValueError(
                f"labels must have shape (n_labellings, {self.n_samples_seen_}), with "
                f"one label for each fitted row, got {labels.shape}; pass labels=[y]"
            )
        coded = [np.unique(labelling, return_inverse=True) for labelling in labels]
        alike = grouped((len(classes), i) for i, (classes, _) in enumerate(coded))
        outputs = [
            Labellings(np.stack([coded[i][1] for i in indices]), n_classes)
            for n_classes, indices in alike.items()
        ]
        run, predicted = self._run, np.empty((len(labels), len(rows)), labels.dtype)
        with run.threads.arithmetic():
            context = Context(self.n_features_in_, 1, 0, run.rows.device, [])
            (learner,) = self.learners_of([(0, self)], context)
            learner.attach(run.rows)
            log_probas = learner.predict_sets(outputs, rows)
        for indices, log_proba in zip(alike.values(), log_probas, strict=True):
            for i, places in zip(indices, log_proba[:, 0].argmax(-1), strict=True):
                predicted[i] = coded[i][0][places]
        return predicted

    @classmethod
    def learners_of(
        cls, members: Members[Self], context: Context
    ) -> list[KernelClassifierLearner]:
        """Make one learner for all readouts with the same ``memory``."""
        groups = by_memory(members).items()
        return [KernelClassifierLearner(own, memory, context) for memory, own in groups]

    def uncalibrated_scores(self, X: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the scores that calibration turns into probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            Means of the kernel regression.
        prior : ndarray of shape (n_classes,)
            Terms ``a log(n_c + 1/2)``, which calibration adds for class frequencies.
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

    As in :class:`~sklearn_mdl.KernelReadout`, a single Cholesky factor yields all
    refits and their variances. Let :math:`R R^T = K + \alpha I` and :math:`E = R^{-1}
    Y`. The prediction for row ``t`` has mean :math:`Y_t - R_{tt} E_t` and variance
    :math:`R_{tt}^2`, which includes noise. With ``likelihood="student-t"``, the common
    scale of targets and noise is unknown, and its square has a scaled inverse
    chi-squared prior with one degree of freedom. After ``t`` labels, densities have ``t
    + 1`` degrees of freedom, and their scale is estimated from the errors so far.

    Parameters
    ----------
    kernel : str or callable, default="arc-cosine"
        "arc-cosine", "rbf", "linear" or "polynomial". "arc-cosine" is of degree 1 and
        corresponds to a ReLU network of infinite width. You can also pass a kernel of
        ``sklearn.gaussian_process.kernels`` or any callable that maps arrays of ``n``
        and ``m`` rows to an array of kernel values (n, m). A readout with such a kernel
        cannot be written with ``save``.
    alpha : float, default=0.03
        Variance of the noise, added to the diagonal of the kernel matrix.
    depth : int, default=1
        Number of hidden layers of the arc-cosine kernel, at most 100.
    width : float, default=1.0
        Width of "rbf", :math:`e^{-\|x - x'\|^2 / (\mathrm{width} \cdot m)}`, where
        ``m`` is the median squared distance between earlier rows (at most 512 of them),
        recomputed after 8, 16, 32, ... rows, up to `max_exact`. If most pairs consist
        of equal rows, only the other pairs count. For the first 8 rows, ``m`` is 1.
    gamma : float, default=None
        Factor of squared distances in "rbf", and of inner products in "polynomial". If
        None, `width` is used in "rbf", and 1 in "polynomial".
    degree, coef0 : float, default=3, 1.0
        Parameters of "polynomial", :math:`(\gamma x^T x' +
        \mathrm{coef0})^{\mathrm{degree}}`.
    scaling : str or None, default="standard"
        Feature scaling, recomputed after 8, 16, 32, ... rows, up to `max_exact`, from
        all rows so far. "standard" standardises rows with regularised standard
        deviations, clips them at 6 deviations and divides them by :math:`\sqrt d`.
        "centered-unit" centres rows and divides them by their length. "whiten" centres
        rows, multiplies them by the inverse root of their shrunk covariance and divides
        them by their length. All of these append a constant 0.3 and divide the kernel
        by its mean diagonal. Until the scaling is first computed from rows that differ,
        rows are only divided by their length before the constant is appended. "unit"
        divides rows by their length. If None, rows and kernel are unchanged.
    max_exact : int, default=2048
        Number of rows after which kernels are approximated, rounded down to a multiple
        of 32. These rows then serve as landmarks, and statistics such as the whitening
        covariance are no longer refreshed. After about ``1.5 * max_exact`` rows, the
        state of the readout stops growing. After ``4 * max_exact`` rows, but not before
        1,024 rows, the readout is refitted only when the number of rows has grown by an
        eighth or, if that is less, by 8,192. When the number of rows has grown another
        16-fold, the readout learns only every second block of 128 rows, later only
        every fourth, and so on. If None, kernels stay exact.
    batch_size : int, default=32
        Has no effect, since this readout does not learn in minibatches.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    window, restart : int, default=None
        See :class:`~sklearn_mdl.KernelReadout`. For the first 8 rows after a restart,
        targets keep the units from before the restart.
    likelihood : {"student-t", "gaussian"}, default="student-t"
        Density of the label.
    standardize_targets : bool, default=True
        Whether to standardise targets by the mean and standard deviation of earlier
        labels, with outliers winsorised. Both are refreshed after 8, 16, 32, ...
        rows, up to `max_exact`. For the first 8 rows, the readout ignores the features
        and predicts from the labels, as ``DummyReadoutRegressor`` does. If False,
        ``prior_location`` and ``prior_scale`` are used throughout.
    prior_location, prior_scale : float, default=0.0, 1.0
        Location and scale in the units of the labels. Choose them without looking at
        the labels to be coded. A switcher overrides them.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of the labels without features, under a Gaussian whose mean and variance
        are learned online, in nats.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    Raises
    ------
    ValueError
        In ``fit`` and ``partial_fit``, if a callable kernel never returns one number
        for each pair of rows. The callable's own exception is raised if no call
        succeeds. If only some calls fail, or if the matrix has no Cholesky factor, you
        only get a warning, and the readout ignores features from then on.
    MemoryError
        If `max_exact`, `window` and `restart` are all None, and the factor does not fit
        into memory.

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
        cls, members: Members[Self], context: Context
    ) -> list[KernelRegressorLearner]:
        """Make one learner for all readouts with the same units and ``memory``."""
        has_tails = {c: readout.likelihood == "student-t" for c, readout in members}
        alike = grouped((readout.units, (c, readout)) for c, readout in members)
        return [
            KernelRegressorLearner(own, memory, units, has_tails, context)
            for units, pairs in alike.items()
            for memory, own in by_memory(pairs).items()
        ]

    @property
    def units(self) -> Units:
        """Units of the targets."""
        location, scale = float(self.prior_location), float(self.prior_scale)
        return Units(location, scale, bool(self.standardize_targets))
