"""Export of the linear readout with the shortest code to a file or a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from sklearn_mdl._core.io.safetensors_io import is_archive, read_archive, write_archive
from sklearn_mdl._core.io.whole_files import refuse_foreign
from sklearn_mdl._core.numerics import as_array, dense
from sklearn_mdl._core.stream.scaling import RunningStandardizer
from sklearn_mdl._core.validation import as_labels, damaged, invalid
from sklearn_mdl.readouts import REACH, KernelReadout, last_refresh
from sklearn_mdl.switcher import MDLReadoutSwitcher

Floats = NDArray[np.float64]
SETTINGS = "n_features", "is_unit", "classes", "threshold"  # saved with the arrays
SCALINGS = ("standard", "centered-unit")
ARRAYS = "columns", "mean", "deviation", "weights", "intercepts"  # saved in a file
SLOPES = (-7.0, 7.0)  # bounds of the log of the probe's slope
SMALL = 0.25  # shrinks rows towards the mean, so that few features are clipped


@dataclass(frozen=True, eq=False)
class ExportedProbe:
    """A linear probe with its scaling, its weights and an optional threshold.

    The scores of a row ``x`` are ``weights @ scale(x[columns]) + intercepts``, where
    ``scale`` applies the mean, the deviation and the norm or the clipping described
    below. Probabilities are the softmax of the scores.

    Attributes
    ----------
    name : str
        Name of the readout.
    columns : ndarray of shape (d,), int
        Indices of the features that the probe uses.
    n_features : int
        Number of features of a row.
    mean, deviation : ndarray of shape (d,)
        The mean is subtracted from each column, and the result is divided by the
        deviation.
    is_unit : bool
        If True, each row is then divided by its Euclidean norm. If False, all values
        are clipped to the range from -6 to 6.
    weights : ndarray of shape (n_classes, d)
    intercepts : ndarray of shape (n_classes,)
    classes : ndarray of shape (n_classes,)
    threshold : float or None
        Smallest probability at which the second of two classes is predicted. If None,
        the most probable class is predicted.
    """

    name: str
    columns: NDArray[np.int64]
    n_features: int
    mean: Floats
    deviation: Floats
    is_unit: bool
    weights: Floats
    intercepts: Floats
    classes: NDArray[Any]
    threshold: float | None = None

    def pipeline(self) -> Any:
        """Return a fitted scikit-learn estimator that unpickles without this package.

        Returns
        -------
        classifier : Pipeline or FixedThresholdClassifier
            A FixedThresholdClassifier if there is a threshold.
        """
        d = len(self.columns)
        chosen = [("view", "passthrough", self.columns.tolist())]
        # Fitting on zeros sets the attributes that scikit-learn checks. The correct
        # values then replace the fitted ones.
        select = ColumnTransformer(chosen).fit(np.zeros((2, self.n_features)))
        scaler = StandardScaler().fit(np.zeros((2, d)))
        scaler.mean_, scaler.scale_ = self.mean, self.deviation
        scaler.var_ = np.square(self.deviation)
        clip = FunctionTransformer(np.clip, kw_args={"a_min": -REACH, "a_max": REACH})
        limit = Normalizer() if self.is_unit else clip
        linear = LogisticRegression()
        linear.classes_, linear.n_features_in_ = self.classes, d
        weights, intercepts = self.weights, self.intercepts
        if len(self.classes) == 2:
            weights, intercepts = np.diff(weights, axis=0), np.diff(intercepts)
        linear.coef_, linear.intercept_ = weights, intercepts
        steps = [("view", select), ("scale", scaler), ("limit", limit)]
        pipeline = Pipeline([*steps, ("linear", linear)])
        pipeline.set_output(transform="default")  # fitted without names of columns
        if self.threshold is None:
            return pipeline
        fixed = FixedThresholdClassifier(
            FrozenEstimator(pipeline),
            threshold=self.threshold,
            pos_label=self.classes[1],
            response_method="predict_proba",
        )
        return fixed.fit(np.zeros((2, self.n_features)), self.classes)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the probe to a ``.safetensors`` file, readable without this package.

        Parameters
        ----------
        path : path-like
            An existing file is replaced atomically if this package wrote it.

        Returns
        -------
        path : Path

        Raises
        ------
        ValueError
            If the file exists but this package did not write it, or if classes are not
            numbers, booleans or text.
        """
        refuse_foreign(Path(path), is_archive)
        classes = self.classes.tolist()
        if not all(isinstance(c, int | float | str) for c in classes):
            cure = "call switcher.fit(X, y.astype(str)), and export again"
            raise invalid("classes", "numbers or text", self.classes, cure)
        arrays = {name: np.asarray(getattr(self, name)) for name in ARRAYS}
        settings = {name: getattr(self, name) for name in SETTINGS}
        about = {"probe": self.name, **settings, "classes": classes}
        write_archive(Path(path), "probe", arrays, about)
        return Path(path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file written by :meth:`save`.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        probe : ExportedProbe

        Raises
        ------
        ValueError
            If the file is damaged or does not contain an exported probe.
        """
        arrays, about = read_archive(Path(path), "probe")
        if set(arrays) != set(ARRAYS) or not {"probe", *SETTINGS} <= set(about):
            cure = "call export_probe(switcher, X, y).save(path)"
            raise damaged(path, "an exported probe", "its entries differ", cure)
        fields = {name: cast(Any, about[name]) for name in SETTINGS}
        fields |= {name: np.array(values) for name, values in arrays.items()}
        fields["classes"] = np.array(fields["classes"])
        return cls(name=cast(str, about["probe"]), **fields)


def export_probe(
    switcher: MDLReadoutSwitcher,
    X: ArrayLike,
    y: ArrayLike,
    *,
    threshold: float | None = None,
) -> ExportedProbe:
    """Export the linear readout with the shortest code as plain weights.

    The readout is fitted once more on the same rows in the same order. Its weights are
    recovered from its scores, up to rounding. To calibrate probabilities, the readout
    also uses the variance of each prediction, which a linear probe cannot do. Instead,
    the probe multiplies all scores by one slope, with which its probabilities for the
    given rows are as close as possible to those of the readout.

    Parameters
    ----------
    switcher : MDLReadoutSwitcher
        A switcher fitted with linear kernels, such as those in the list "linear".
    X : array-like of shape (n_samples, n_features)
        The rows on which the switcher was fitted, in the same order.
    y : array-like of shape (n_samples,)
    threshold : float, default=None
        Smallest probability at which the second of two classes is predicted. For
        example, pass the ``threshold`` from
        :func:`~sklearn_mdl.metrics.detection_measures`.

    Returns
    -------
    probe : ExportedProbe

    Raises
    ------
    ValueError
        If `switcher` is another estimator, or has no linear kernel that keeps all rows
        and has not retired. Also if there are fewer than eight rows, or if `X`, `y` or
        `threshold` are invalid.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn_mdl import MDLReadoutSwitcher
    >>> from sklearn_mdl.model_selection import export_probe
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> switcher = MDLReadoutSwitcher("linear", shuffle=True, random_state=0).fit(X, y)
    >>> probe = export_probe(switcher, X, y, threshold=0.9)
    >>> probe.pipeline().predict(X[:3])
    array([0, 0, 0])
    """
    if not isinstance(switcher, MDLReadoutSwitcher):
        kind, cure = type(switcher).__name__, "pass MDLReadoutSwitcher().fit(X, y)"
        raise invalid("switcher", "a fitted MDLReadoutSwitcher", kind, cure)
    check_is_fitted(switcher)
    rows, labels = _rows_in_order(switcher, X, y)
    classes = np.sort(switcher.classes_)  # new classes are appended as they appear
    if threshold is not None and not (len(classes) == 2 and 0 <= threshold <= 1):
        required, cure = "a probability or None", "for example, pass threshold=0.9"
        if len(classes) != 2:
            required = f"None for {len(classes)} classes"
            cure = "pass threshold=None"
        raise invalid("threshold", required, threshold, cure)
    place = _best_linear(switcher)
    readout = switcher.readouts_[place]
    n_features = rows.shape[1]
    columns = np.array(readout.places(n_features))
    own = rows[:, columns]
    refitted = KernelReadout(**cast(KernelReadout, readout.inner).get_params())
    refitted.set_params(batch_size=len(own)).partial_fit(own, labels, classes=classes)
    is_unit = refitted.scaling == "centered-unit"
    mean, deviation = _statistics(own, is_unit, refitted.max_exact)
    weights, intercepts = _weights(refitted, own, mean, deviation, is_unit)
    probe = ExportedProbe(
        name=switcher.readout_names_[place],
        columns=columns,
        n_features=n_features,
        mean=mean,
        deviation=deviation,
        is_unit=is_unit,
        weights=weights,
        intercepts=intercepts,
        classes=classes,
        threshold=None if threshold is None else float(threshold),
    )
    return _calibrate(probe, refitted, rows)


def _rows_in_order(
    switcher: MDLReadoutSwitcher, X: ArrayLike, y: ArrayLike
) -> tuple[Floats, NDArray[Any]]:
    """Return the rows and labels in the order in which the switcher learned them."""
    rows, labels = np.asarray(dense(as_array(X)), np.float64), np.asarray(as_labels(y))
    n, n_features = switcher.n_samples_seen_, switcher.n_features_in_
    if rows.shape != (n, n_features) or labels.shape != (n,):
        required = f"the {n} rows with {n_features} features passed to fit"
        given = f"X of shape {rows.shape} and y of shape {labels.shape}"
        raise invalid("X and y", required, given, "pass the X and y of fit")
    first = getattr(switcher, "order_", np.arange(0))
    order = np.concatenate([first, np.arange(len(first), n)])
    rows, labels = rows[order], labels[order]
    run = switcher._run
    is_same = np.equal(rows.astype(np.float32), run.samples.rows(0, n)).all(1)
    is_same &= labels == switcher.classes_[run.labels[:n].cpu().numpy()]
    if not is_same.all():
        raise ValueError(
            "X and y must be the rows and labels that the switcher learned, in order, "
            f"but row {order[np.argmin(is_same)]} differs; pass the X and y of fit"
        )
    return rows, labels


def _calibrate(
    probe: ExportedProbe, readout: KernelReadout, rows: Floats
) -> ExportedProbe:
    """Return the probe, rescaled to approximate the readout's probabilities."""
    raw = replace(probe, threshold=None).pipeline()[:-1].transform(rows)
    scores = raw @ probe.weights.T + probe.intercepts
    own = rows[:, probe.columns]
    target, (_, prior) = readout.predict_proba(own), readout.uncalibrated_scores(own)

    def cost(log_slope: float) -> float:
        logits = log_softmax(np.exp(log_slope) * scores + prior, axis=1)
        return -float((target * logits).sum())

    slope = np.exp(minimize_scalar(cost, bounds=SLOPES, method="bounded").x)
    intercepts = slope * probe.intercepts + prior
    return replace(probe, weights=slope * probe.weights, intercepts=intercepts)


def _best_linear(switcher: MDLReadoutSwitcher) -> int:
    """Return the index of the exportable linear kernel with the shortest code."""
    candidates = [
        place
        for place, readout in enumerate(one.inner for one in switcher.readouts_)
        if getattr(readout, "kernel", None) == "linear"
        and readout.scaling in SCALINGS
        and not readout.memory.forgets
        and switcher.retired_at_[place] < 0
    ]
    if not candidates:
        required = "a list with a linear kernel that keeps all rows and has not retired"
        cure = 'fit MDLReadoutSwitcher("linear") (or view_readouts(columns, "linear"))'
        raise invalid("readouts", required, switcher.readouts_, cure)
    return min(candidates, key=switcher.readout_codelengths_.item)


def _statistics(
    rows: Floats, is_unit: bool, max_exact: int | None
) -> tuple[Floats, Floats]:
    """Return the means and deviations that the readout uses after the last row.

    If ``is_unit``, deviations are 1.
    """
    n_known = last_refresh(min(len(rows), max_exact or len(rows)))
    if not n_known:
        cure = "fit the switcher on more rows"
        raise invalid("The number of rows", "at least 8", len(rows), cure)
    running = RunningStandardizer(rows.shape[1])
    running.update(rows[:n_known])
    scaling = running.scaling()
    mean, deviation = scaling.mean.numpy(), scaling.inverse.numpy()
    return mean, np.ones_like(mean) if is_unit else deviation


def _weights(
    readout: KernelReadout, rows: Floats, mean: Floats, deviation: Floats, is_unit: bool
) -> tuple[Floats, Floats]:
    """Return weights (C, d) and intercepts (C,) for scaled rows.

    Scores are linear in the scaled rows, and the readout's weights are linear
    combinations of these rows. So the least-squares solution with the smallest norm is
    exact.
    """
    near = rows if is_unit else mean + SMALL * (rows - mean)
    scaled = (near - mean) / deviation
    if is_unit:
        lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
        scaled /= np.where(lengths > 0, lengths, 1.0)
    else:
        np.clip(scaled, -REACH, REACH, out=scaled)
    # Average scores of opposite rows, since a row at the mean cannot be normalised.
    both = near, 2 * mean - near
    (scores, _), (opposite, _) = map(readout.uncalibrated_scores, both)
    at_mean = (0.5 * (scores + opposite)).mean(0)
    weights, *_ = np.linalg.lstsq(scaled, scores - at_mean, rcond=1e-10)
    return weights.T, at_mean
