"""Meta-estimator for classification that mixes readouts under a switching prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.base.classifier import OnlineClassifier
from sklearn_mdl._core.sklearn_compat import Constraints, StrOptions
from sklearn_mdl._core.stream.outcomes import Outcome
from sklearn_mdl.metrics import blind_codelengths, costs_without_features
from sklearn_mdl.readouts import (
    Readout,
    as_readout,
    check_images,
    check_readout,
    expanded,
    named_readouts,
    preset_settings,
    readout_grid,
)
from sklearn_mdl.switcher._base import BaseSwitcher
from sklearn_mdl.switching import FixedShare, forward

Named = Literal["linear", "closed-form", "nets", "mixed", "drift", "stream"]


@dataclass(eq=False, repr=False)
class MDLReadoutSwitcher(OnlineClassifier, BaseSwitcher):
    """Meta-estimator that codes labels given features, by switching between readouts.

    All readouts predict every example before its label is seen, and a prior over
    sequences of readouts mixes their predictions. The codelength is the sum of the
    mixture's log-losses (Li, Bornschein and Hutter, 2023, sections 3.1 to 3.3). Shorter
    is better. A codelength combines the accuracy, complexity and data efficiency of
    readouts in one number.

    Parameters
    ----------
    readouts : list, readout, or the name of a list, default=None
        The readouts to mix, as a list or a single readout. Use ``LinearReadout`` and
        ``MLPReadout`` (see :func:`~sklearn_mdl.readout_grid`), ``KernelReadout``,
        ``KNeighborsReadout``, or any classifier wrapped in ``IncrementalReadout`` or
        ``RefitReadout``. If rows are images (see
        :func:`~sklearn_mdl.encoders.image_rows`), you can also use
        ``FineTunedReadout``, ``ScratchReadout`` and pairs ``(encoder, readout)``. If
        None, the list "closed-form" and six networks are used. "closed-form" contains
        kernels, discriminants, class means and class frequencies, and needs no seed.
        "linear" contains four linear kernels, which rank encoders best when there are
        few labels. "nets" contains only networks, whose number and settings depend on
        the numbers of features and classes. "mixed" adds nearest neighbours, a linear
        discriminant analysis with shrinkage (up to 1,024 features) and a logistic
        regression to the default list. "drift" contains networks, kernels, kernels that
        forget old rows, and readouts that ignore features. "stream", for long streams,
        contains networks that learn every row once, class means, and readouts that
        ignore features. A ``RepresentationScorer`` without a switcher uses "linear" for
        at most 500 labels and "closed-form" for at most 2,048.
    switching : str or SwitchingPrior, default="learned-share"
        Prior over sequences of readouts: "learned-share", "fixed-share" (with rate
        ``1 / t``), "switch-distribution", "run-length", "universal-share", "bayes",
        "elementwise", or an object such as ``FixedShare(m=11)``. In a search, the
        parameter ``m`` of this object is ``switching__m``.
    readout_weights : "architecture" or array-like of shape (n_readouts,), default=None
        Prior weights of the readouts. If None, weights are uniform within each view (a
        subset of the columns, see :func:`~sklearn_mdl.readouts.view_readouts`), and all
        views have the same total weight. "architecture" first divides the weight of a
        view equally among architectures, and then the weight of an architecture equally
        among its settings. So an architecture with many settings does not outweigh an
        architecture with few settings.
    pooling : "auto", None, LogLinearPool or array-like, default="auto"
        How to combine kinds of readouts in addition to switching. A fixed share with
        rate ``1 / t`` mixes the readouts within a kind, and a
        :class:`~sklearn_mdl.pooling.LogLinearPool` combines kinds. "auto" pools
        built-in lists (`readouts` is None or a name, also within ``view_readouts``),
        but not your own lists. An array-like of shape (n_readouts,) names the kind of
        each readout. Otherwise, two readouts are of the same kind if they agree in
        view, architecture, scaling, averaging, kernel (with its depth, width or degree)
        and kernel noise. Readouts that ignore features are of one kind. If None, or
        with fewer than two kinds, there is no pool, as in the paper. Readouts with zero
        prior weight are left out.
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
        predictions of each kind of readout for :meth:`repool`. With G kinds and C
        classes, the predictions are ``N x G x C`` numbers.
    checkpoint : path-like, default=None
        A directory in which ``fit`` saves its progress from time to time. If you call
        ``fit`` again with the same settings and data, even in another process, ``fit``
        resumes and gives the same results. Each combination of settings and data gets
        its own folder there. The trace is also stored there, unless ``store`` is
        another directory.
    n_jobs : int, "processes" or None, default=None
        How to evaluate readouts in parallel. Results do not depend on `n_jobs`. An int
        is a number of threads (all CPUs if -1). None means 1, or the number set by
        ``joblib.parallel_config``. Wrapped classifiers all use the same thread, since
        they may share state. "processes" evaluates the readouts in parts, each in a
        process with its own device. There are as many processes as the active joblib
        backend has jobs (``joblib.parallel_config(n_jobs=8)``), possibly on a cluster
        (see :doc:`/machines`). The fitted estimator then predicts on the CPU.
    verbose : int, default=0
        If above 0, show a progress bar.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, the replay streams and the permutation of rows.
    new_classes : {"refuse", "escape"}, default="refuse"
        What to do with labels that are missing from the `classes` of ``partial_fit``.
        "refuse" raises ValueError. "escape" codes the first appearance of a class with
        an escape (:func:`~sklearn_mdl.metrics.escape_codelengths`), after which all
        readouts predict the class. With "escape", you may omit `classes`, and ``fit``
        begins without any known class.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats. With a pool, the code mixes the
        switching mixture and the pool by a fixed share with rate ``1 / t``. Without a
        pool, this is the codelength of the switching mixture.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example in order of evaluation, in nats.
    switching_codelength_ : float
        Codelength of the switching mixture of all readouts (Li et al., 2023), in nats.
        With a pool, ``codelength_`` is longer by at most ``0.5 log(pi (n + 1/2))`` nats
        after ``n`` examples, without groups and delays. So a pool that does not help
        costs only a few nats.
    switching_codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example under the switching mixture, in nats.
    posterior_ : ndarray of shape (n_samples_seen_, n_readouts)
        ``p(readout at t | labels before t)`` of the switching mixture, as in the
        paper's algorithm 1.
    pool_kinds_ : list of n_kinds names
        Kinds of readouts in the pool (empty without a pool).
    pool_weights_ : ndarray of shape (n_samples_seen_, n_kinds)
        Weights of the kinds in the pool before each label.
    pool_posterior_ : ndarray of shape (n_samples_seen_, 2)
        Probabilities of the switching mixture and the pool before each label.
    readout_losses_ : ndarray of shape (n_samples_seen_, n_readouts)
        Log-loss of every readout at every example, in nats, or NaN once the readout has
        retired.
    reference_codelengths_ : ndarray of shape (n_samples_seen_,)
        Cost of every label given only the earlier labels, in nats. The code switches
        between class frequencies, recent frequencies and transitions between classes.
    store_ : Path or None
        Folder with the files of this stream, or None if the trace is in memory.
    readout_codelengths_ : ndarray of shape (n_readouts,)
        Cost of all examples under each readout. Once retired, a readout costs as much
        as the mixture of the readouts that still run.
    retired_at_ : ndarray of shape (n_readouts,)
        Number of examples after which each readout retired, or -1 if it has not.
    readout_names_ : list of str
    readout_weights_ : ndarray of shape (n_readouts,) or None
        Prior weights of the mixture (uniform if None). They need not sum to one.
    readouts_ : list of readouts
        Unfitted copies of the readouts used.
    readout_notes_ : dict of str to list of str
        Distinct exceptions and warnings of wrapped classifiers, keyed by readout name.
    diverged_readouts_ : list of str
        Names of readouts whose predictions stopped being finite. These readouts then
        predict uniformly, and ``fit`` warns about them.
    diverged_at_ : ndarray of shape (n_readouts,)
        Index of each readout's first prediction that was not finite, in order of
        evaluation, or -1 if none.
    grid_edges_ : dict of str to (float, {"lowest", "highest"})
        Settings of the best readout that are at the edge of the grid: the lowest or
        highest of at least three values tried for the readout's architecture. A wider
        grid may contain a better readout. ``fit`` warns about such settings unless
        ``readouts`` is a built-in list.
    classes_ : ndarray of shape (n_classes,)
        Sorted classes. With ``new_classes="escape"``, the given classes come first,
        followed by new ones in order of appearance.
    n_features_in_ : int
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_mdl import MDLReadoutSwitcher
    >>> X, y = load_iris(return_X_y=True)
    >>> switcher = MDLReadoutSwitcher(shuffle=True, random_state=0).fit(X, y)
    >>> uniform = len(y) * 1.0986  # nats, log 3 per example
    >>> bool(switcher.codelength_ < 0.5 * uniform)
    True
    """

    readouts: Sequence[object] | BaseEstimator | Named | None = None
    _: KW_ONLY
    new_classes: Literal["refuse", "escape"] = "refuse"

    _parameter_constraints: ClassVar[Constraints] = {
        "new_classes": [StrOptions({"refuse", "escape"})],
        "readouts": [list, tuple, BaseEstimator, StrOptions({*get_args(Named)}), None],
        **BaseSwitcher._parameter_constraints,
    }

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Self:
        """Create a switcher with the paper's grid, prior and batch size.

        Parameters
        ----------
        name : str
            Name of a grid, as for :func:`~sklearn_mdl.readout_grid`. If settings are
            drawn from the grid, the switcher's ``random_state`` is the seed. For a
            fine-tuning grid, also pass ``readouts=readout_grid(name, encoder=...)``.
        **overrides
            Parameters of the switcher that override the preset.

        Returns
        -------
        switcher : MDLReadoutSwitcher
        """
        preset = preset_settings(name)
        if "readouts" not in overrides:
            seed = overrides.get("random_state")
            overrides["readouts"] = readout_grid(name, random_state=seed)
        prior, size = FixedShare(m=preset.m), preset.batch_size
        own = {"switching": prior, "pooling": None, "race": None, "batch_size": size}
        return cls(**{**own, **overrides})

    def _validated(self, X: ArrayLike, *y: ArrayLike, reset: bool) -> Any:
        validated = super()._validated(X, *y, reset=reset)
        if not isinstance(self.readouts, str | None):
            check_images(validated[0] if y else validated, self._given)
        return validated

    def _pool(self, n_features: int, outcome: Outcome) -> list[Readout]:
        if self.readouts is None or isinstance(self.readouts, str):
            return named_readouts(self.readouts, n_features, outcome.n_numbers)
        listed = partial(named_readouts, n_classes=outcome.n_numbers)
        readouts = expanded([as_readout(r) for r in self._given], n_features, listed)
        for readout in readouts:
            check_readout(readout)
        return [clone(readout) for readout in readouts]

    @property
    def reference_codelengths_(self) -> np.ndarray:
        """Cost of every label given only the earlier labels, (n_samples_seen_,).

        Costs are in nats. The code mixes class frequencies, recent frequencies and
        transitions between classes by a fixed share with rate ``1 / t``. Like the
        readouts, it learns the labels of a group once all rows of the group are coded,
        but it ignores ``label_delay``. Compare ``codelengths_`` with this reference to
        see how much features save, since labels that tend to repeat are cheap even
        without features.
        """
        check_is_fitted(self)
        labels, n_named = self._run.labels.cpu().numpy(), self._run.outcome.n_named
        known = self._run.schedule.groups(0, len(labels) + 1)  # at rows and the end
        if n_named is not None:  # new classes may appear
            losses = blind_codelengths(labels, n_named)
        else:
            given = labels.tolist(), len(self.classes_), known.tolist()
            losses = costs_without_features(*given)
        return forward(FixedShare(), losses, known=known).codelengths

    def _as_given(self, labels: np.ndarray) -> dict[str, np.ndarray | None]:
        n_named = self._run.outcome.n_named
        classes = self.classes_[:n_named] if n_named != 0 else None
        return {"y": self.classes_[labels], "classes": classes}

    @property
    def readout_notes_(self) -> dict[str, list[str]]:
        """Exceptions and warnings of wrapped classifiers, keyed by readout name."""
        names = self.readout_names_
        notes = self._run.threads.notes
        return {names[column]: notes[column] for column in sorted(notes)}
