"""Block-wise code, which refits a classifier at the end of each block."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.baselines._base import Labelled, LabelledEstimator, Seed
from sklearn_mdl.baselines._refits import Refits, check_classifier

# In per cent of the rows, as in the experiments of Voita and Titov.
FRACTIONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25.0, 50.0, 100.0)


@dataclass(eq=False, repr=False)
class BlockwiseCode(LabelledEstimator):
    """Online code of Voita and Titov, which refits a classifier block by block.

    The labels of the first block are coded uniformly. The labels of every later block
    are coded with the predictions of a classifier fitted from scratch on all earlier
    blocks. The codelength is the sum::

        t_1 log C - sum_i log p_i(y of block i + 1 | x of block i + 1) ,

    all in nats. This is only a code if you fix the settings of the classifier before
    seeing the labels, instead of choosing the best of several in hindsight.

    :class:`~sklearn_mdl.RefitReadout` is a readout of a switcher that works in the same
    way. There, blocks end with minibatches, so the number of rows need not be known in
    advance. Here, blocks end at fractions of the number of rows.

    Parameters
    ----------
    estimator : classifier, default=None
        A classifier with ``fit`` and ``predict_proba``, which is copied and not
        modified. If None, ``LogisticRegression(max_iter=1000)`` is used.
    schedule : {"fractions", "doubling"} or array-like, default="fractions"
        Where blocks end. With "fractions", they end at 0.1, 0.2, 0.4, 0.8, 1.6, 3.2,
        6.25, 12.5, 25, 50 and 100 per cent of the rows (Voita and Titov). With
        "doubling", they end after ``first_block`` rows, twice as many, four times as
        many and so on. You can also pass increasing percentages up to 100.
    first_block : int, default=32
        Number of rows in the first block of "doubling".
    calibration : bool, default=False
        Whether to hold out a tenth of the rows of each fit, and to multiply the
        log-probabilities by the factor with the smallest loss on these rows
        (Bornschein, Li and Hutter, 2022). Fits on fewer than ten rows stay
        uncalibrated.
    scaling : {"standard"} or None, default="standard"
        Standardise features with the rows of each fit.
    shuffle : bool, default=True
        Permute the rows before coding.
    random_state : int, RandomState instance or None, default=None
        Seed of the permutation, and of the estimator if its ``random_state`` is None.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels, in nats.
    codelengths_ : ndarray of shape (n_samples,)
        Codelength of each example in nats, in the order of coding.
    block_ends_ : ndarray of shape (n_blocks,)
        Number of rows up to the end of each block.
    block_codelengths_ : ndarray of shape (n_blocks,)
        Codelength of each block, in nats.
    uniform_codelength_ : float
        ``N log C`` nats.
    compression_ : float
        ``uniform_codelength_ / codelength_``, also reported by Voita and Titov.
    order_ : ndarray of shape (n_samples,)
        Indices of the rows, in the order in which their labels were coded.
    notes_ : list of str
        Distinct exceptions and warnings of the estimator, at most 20.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    Notes
    -----
    No label has probability zero. Classes that a fit has not seen get the
    Krichevsky-Trofimov estimate, a smoothed class frequency. After ``n`` labels, this
    estimate is mixed into all probabilities with weight ``1 / (n + 2)``, as in
    :class:`~sklearn_mdl.RefitReadout`. If blocks double, mixing costs at most about a
    nat per block. If a fit raises, as it does for many classifiers on a single class,
    the previous fit is used instead. If there is no previous fit, or if a fit gives no
    probabilities, predictions are class frequencies.

    References
    ----------
    Voita and Titov, 2020, Information-theoretic probing with minimum description
    length, EMNLP, section 3.2. Their published notebooks add bits of the first block to
    nats of the others. Here all terms are in nats.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_mdl.baselines import BlockwiseCode
    >>> code = BlockwiseCode(GaussianNB(), random_state=0)
    >>> code.fit(*load_digits(return_X_y=True)).compression_ > 1
    True
    """

    estimator: ClassifierMixin | None = None
    _: KW_ONLY
    schedule: str | ArrayLike = "fractions"
    first_block: int = 32
    calibration: bool = False
    scaling: str | None = "standard"
    shuffle: bool = True
    random_state: Seed = None

    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": "no_validation",  # type: ignore[dict-item]
        "schedule": [StrOptions({"fractions", "doubling"}), "array-like"],
        "first_block": [Interval(Integral, 1, None, closed="left")],
        "calibration": ["boolean"],
        "scaling": [StrOptions({"standard"}), None],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
    }

    def _fit(self, data: Labelled) -> None:
        estimator = self.estimator
        if estimator is None:
            estimator = LogisticRegression(max_iter=1000)
        check_classifier(estimator, "BlockwiseCode")
        n, n_classes = len(data.labels), len(data.classes)
        ends = self._ends(n)
        rng = check_random_state(self.random_state)
        order = rng.permutation(n) if self.shuffle else np.arange(n)
        seed, scaled = int(rng.randint(2**31 - 1)), self.scaling is not None
        refits = Refits(estimator, n_classes, seed, scaled, self.calibration)
        costs = [np.full(ends[0], np.log(n_classes))]
        for i, j in pairwise(ends):
            refits.refit(data.X[order[:i]], data.labels[order[:i]])
            costs.append(refits.losses(data.X[order[i:j]], data.labels[order[i:j]]))
        self.order_, self.codelengths_ = order, np.concatenate(costs)
        self.block_ends_ = np.array(ends)
        self.block_codelengths_ = np.add.reduceat(self.codelengths_, [0, *ends[:-1]])
        self.codelength_ = float(self.codelengths_.sum())
        self.uniform_codelength_ = data.uniform
        self.compression_ = data.uniform / self.codelength_
        self.notes_ = refits.complaints.lines()
        refits.warn_of_failure()

    def _ends(self, n_rows: int) -> list[int]:
        """Return the number of rows at the end of each block."""
        if isinstance(self.schedule, str) and self.schedule == "doubling":
            ends = [min(self.first_block, n_rows)]
            while ends[-1] < n_rows:
                ends.append(min(2 * ends[-1], n_rows))
            return ends
        given = FRACTIONS if isinstance(self.schedule, str) else self.schedule
        try:
            shares = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):  # text, or lists of unequal length
            shares = np.empty(0)
        increases = shares.ndim == 1 and np.all(np.diff(shares, prepend=0.0) > 0)
        if not increases or not shares.size or shares[-1] != 100:
            required = "percentages that increase from above 0 to 100"
            raise invalid("schedule", required, self.schedule, "pass [10, 50, 100]")
        ends_at = np.maximum(1, np.rint(shares / 100 * n_rows).astype(int))
        return [int(end) for end in np.unique(ends_at)]
