"""Kernel readouts: refits at every row from one factor, and its golden numbers."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch
from each_case import for_each
from numpy.testing import assert_array_equal
from scipy.stats import multivariate_t
from sklearn.base import clone
from sklearn.covariance import oas
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import euclidean_distances, pairwise_kernels

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    decode_labels,
    encode_labels,
)
from sklearn_mdl._core.kernels import calibration as calibrations, reduced
from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.kernels.functions import Kernel, Pairs, median_distance
from sklearn_mdl._core.kernels.ridge import ForwardRidge
from sklearn_mdl.readouts import (
    CentroidReadout,
    KernelReadoutRegressor,
    _kernel_learners,
    _kernel_rows,
)
from sklearn_mdl.readouts._kernel_rows import WHITENED
from sklearn_mdl.readouts._lists import named_readouts, named_regressors

# Lists hold a readout that diverges on purpose.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Predictions of readouts should be finite:UserWarning"
)

KINDS = {
    "arc-cosine": {},
    "deep": {"depth": 3, "scaling": "unit"},
    "centred": {"scaling": "centered-unit", "alpha": 0.3},
    "rbf": {"kernel": "rbf", "width": 0.3},
    "rbf of unit rows": {"kernel": "rbf", "scaling": "unit"},
    "raw": {"kernel": "rbf", "gamma": 0.01, "scaling": None},
    "linear": {"kernel": "linear", "scaling": "centered-unit"},
    "whitened": {"kernel": "rbf", "scaling": "whiten"},
    "within classes": {"kernel": "rbf", "scaling": "within-class"},
    "polynomial": {"kernel": "polynomial", "degree": 2, "scaling": "unit"},
    "of scikit-learn": {"kernel": ConstantKernel(0.5) * RBF(2.0) + DotProduct(0.1)},
}


WRITTEN = [name for name in KINDS if name != "of scikit-learn"]  # by files
SHORT = 64  # rows of factors, in tests of what comes after them
BOUNDS = (SHORT, None)


def kind(name, **options):
    return KernelReadout(**{**KINDS[name], "device": "cpu", **options})


def digits(n=150, seed=0):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))[:n]
    return X[order], y[order]


def fitted(readouts, X, y, cut=None):
    switcher = MDLReadoutSwitcher(readouts, random_state=0, device="cpu")
    for start in range(0, len(X), cut or len(X)):
        rows = slice(start, start + (cut or len(X)))
        switcher.partial_fit(X[rows], y[rows], classes=np.arange(10))
    return switcher


@cache
def whole_run():
    """Every kernel, exact and by landmarks, on all rows."""
    readouts = [kind(name, max_exact=bound) for name in KINDS for bound in BOUNDS]
    return fitted(readouts, *digits())


# Golden numbers

PLACES = np.array([0, 1, 2, 0.5, 1.5])[:, None]
CLASSES = np.array([0, 1, 2, 0, 1])
SCORES = [
    [0.1664556279, 0.2453667983, -0.4118224262],
    [-0.3802427891, 0.2088319385, 0.1714108505],
]
VARIANCES = [1.1, 0.7655641444, 0.7137839791, 0.1823952363, 0.1816682584]
# Log-probabilities of the labels, by the calibration's prior: with slope and counts
# alone, and with four numbers and two curvatures of the third.
FIRM, LOOSE = (1, 3, 30, 10), (1, 3, 10, 10)
LOG_PROBA = {
    None: [-1.0986122887, -3.8954811244, -4.1251777734, -0.9010619731, -0.7056844684],
    LOOSE: [-1.0986122887, -3.8954811244, -3.6667718224, -0.9350113041, -0.7932640839],
    FIRM: [-1.0986122887, -3.8954811244, -3.7809369920, -0.9079398295, -0.7356718317],
}
NATS = {None: 10.72601762797511, LOOSE: 10.389140623482, FIRM: 10.418642066174}
FACTORS = [3.8738093614, 0.7872352274]


def factor_of(kernel, targets, alphas):
    matrix = torch.as_tensor(np.asarray(kernel, np.float64))
    ridge = ForwardRidge(alphas, targets.shape[1], torch.device("cpu"))
    ridge.refactor(len(matrix), lambda one, other: matrix[one, other], targets)
    return ridge


def test_golden_numbers_of_the_arithmetic(monkeypatch):
    kernel = np.exp(-((PLACES - PLACES.T) ** 2) / 2)
    onehot = torch.eye(3, dtype=torch.float64)[CLASSES] - 1 / 3
    ridge = factor_of(kernel, onehot, [0.1])
    deviations = ridge.matrices()[0].diagonal()
    errors = torch.linalg.solve_triangular(
        torch.linalg.cholesky(torch.as_tensor(kernel + 0.1 * np.eye(5))),
        onehot,
        upper=False,
    )
    scores = (onehot - deviations[:, None] * errors).numpy()
    np.testing.assert_allclose(deviations**2, VARIANCES, rtol=1e-9)
    np.testing.assert_allclose(scores[3:], SCORES, atol=1e-10)
    ratios = deviations.numpy() ** 2 / 0.1
    for prior, expected in LOG_PROBA.items():
        monkeypatch.setattr(calibrations, "FIRST", 99 if prior is None else 0)
        calibration = ForwardSoftmax(1, 3)
        if prior is not None:
            calibration.curvature = np.diag(np.array(prior, float))[np.newaxis]
        found = -calibrated(calibration, scores, CLASSES, ratios)
        np.testing.assert_allclose(found, expected, atol=1e-10)
        assert -found.sum() == pytest.approx(NATS[prior], abs=1e-12)
        if prior is None:
            found = calibration.factors[0, [0, 3]]
            np.testing.assert_allclose(found, FACTORS, atol=1e-10)


def test_golden_numbers_of_the_readout():
    readout = KernelReadout("rbf", 0.1, gamma=0.5, scaling=None).fit(PLACES, CLASSES)
    expected = np.negative(LOG_PROBA[None])  # as few as these teach no more
    np.testing.assert_allclose(readout.codelengths_, expected, atol=1e-10)
    assert readout.codelength_ == pytest.approx(NATS[None], abs=1e-12)


# Refits


def calibrated(calibration, scores, y, ratios):
    found = []
    for score, label, ratio in zip(scores, y, ratios, strict=True):
        row = score[None, None], np.full((1, 1), ratio)
        found.append(-calibration.log_proba(*row)[0, 0, label])
        calibration.observe(row[0], np.array([label]), row[1])
    return np.array(found)


def variance_of(rows, alpha, kernel, **options):
    """Variance of the last row's prediction from those before, noise included."""
    matrix = pairwise_kernels(rows, metric=kernel, **options)
    past, cross, own = matrix[:-1, :-1], matrix[-1, :-1], matrix[-1, -1]
    return (
        own + alpha - cross @ np.linalg.solve(past + alpha * np.eye(len(past)), cross)
    )


def recalibrated(scores, y, variances, alpha=0.1):
    return calibrated(ForwardSoftmax(1, 10), scores, y, variances / alpha)


@pytest.mark.parametrize("name", ["linear rows", "of scikit-learn"])
def test_a_pass_equals_scikit_learns_kernel_ridge_refitted_at_every_row(name):
    X, y = digits(75)
    X = X.astype(np.float32) / 16
    options = {
        "linear rows": {"kernel": "linear"},
        "of scikit-learn": {"kernel": RBF(2.0)},
    }[name]
    witness = {
        "linear rows": {"kernel": "linear"},
        "of scikit-learn": {"kernel": "rbf", "gamma": 0.125},
    }[name]
    readout = KernelReadout(alpha=0.1, scaling=None, **options)
    readout.partial_fit(X, y, classes=range(10))
    scores, variances = np.zeros((75, 10)), np.full(75, np.nan)
    onehot, rows = np.eye(10)[y] - 0.1, X.astype(np.float64)
    for t in range(75):
        variances[t] = variance_of(rows[: t + 1], 0.1, **witness)
        if t:
            model = KernelRidge(alpha=0.1, **witness)
            scores[t] = model.fit(rows[:t], onehot[:t]).predict(rows[t : t + 1])[0]
    expected = recalibrated(scores, y, variances)
    np.testing.assert_allclose(readout.codelengths_, expected, atol=1e-9)


def test_variances_equal_scikit_learns_gaussian_process_refitted_at_every_row():
    X, _ = digits(60)
    X = X / 16
    ridge = factor_of(RBF(1.5)(X), torch.zeros(60, 1, dtype=torch.float64), [0.1, 2.0])
    for t in (1, 7, 32, 59):
        process = GaussianProcessRegressor(RBF(1.5), alpha=0.1, optimizer=None)
        process.fit(X[:t], np.zeros(t))
        _, deviation = process.predict(X[t : t + 1], return_std=True)
        variance = float(ridge.matrices()[0, t, t]) ** 2
        assert variance == pytest.approx(float(deviation[0]) ** 2 + 0.1, abs=1e-9)


def whitened(past, y):
    """Inverse root of the covariance of rows, or of that within their classes."""
    n, d = past.shape
    covariance = oas(past - past.mean(0), assume_centered=True)[0]
    if y is not None:
        within = past - np.stack([past[y == label].mean(0) for label in y])
        freedom = max(1, n - len(set(y)))
        share = d / (d + 4 * freedom)
        covariance = (1 - share) * within.T @ within / freedom + share * covariance
        covariance += 1e-3 * np.trace(covariance) / d * np.eye(d)
    values, vectors = np.linalg.eigh(covariance)
    return (vectors / np.sqrt(values)) @ vectors.T


def scaled_by(X, start, scaling, y=None):
    """Rows up to the block that begins at ``start``, as its kernels see them."""
    refresh = 1 << (start.bit_length() - 1) if start >= 8 else 0
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    if scaling == "unit":
        return unit
    if not refresh:
        scaled = unit
    else:
        past = X[:refresh]
        variance = past.var(0)
        positive = np.sort(variance[variance > 0])
        usual = positive[(len(positive) - 1) // 2]
        scaled = (X - past.mean(0)) / np.sqrt(variance + usual)
        scaled = scaled.clip(-6, 6) / np.sqrt(X.shape[1])
        if scaling != "standard":
            scaled = X - past.mean(0)
            if scaling in WHITENED:
                labels = y[:refresh] if scaling == "within-class" else None
                scaled = scaled @ whitened(past, labels)
            scaled = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.column_stack([scaled, np.full(len(X), 0.3)])


def arc_cosine_by_integration(a, b, n=200_000):
    """Arc-cosine kernel by its definition: twice the mean of rectified products."""
    angle = (np.arange(n) + 0.5) * 2 * math.pi / n
    radius2 = 2.0  # mean square of a Gaussian's length in the plane of both rows
    length, other = np.linalg.norm(a), np.linalg.norm(b)
    cosine = np.clip(a @ b / (length * other), -1, 1)
    between = math.acos(cosine)
    one = np.maximum(np.cos(angle), 0)
    two = np.maximum(np.cos(angle - between), 0)
    return 2 * length * other * radius2 * np.mean(one * two)


def test_arc_cosine_kernel_is_that_of_rectified_units():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5))
    pairs = Pairs(torch.tensor(a[None]), torch.tensor(b[None]), 1.0)
    found = float(Kernel("arc-cosine").values(pairs))
    assert found == pytest.approx(arc_cosine_by_integration(a, b), rel=1e-6)
    same = Kernel("arc-cosine", depth=3).values(Pairs(pairs.one, pairs.one, 1.0))
    assert float(same) == pytest.approx(a @ a)


@for_each("scaling", ["unit", *WHITENED, "standard", "centered-unit"])
def test_rows_are_scaled_by_those_before_row_8_16_32(scaling):
    X, y = digits(75)
    X = X.astype(np.float32).astype(np.float64)
    readout = KernelReadout("rbf", 0.1, width=0.5, scaling=scaling)
    readout.partial_fit(X, y, classes=range(10))
    onehot, scores = np.eye(10)[y] - 0.1, np.zeros((75, 10))
    variances = np.full(75, 1.1)
    for t in range(1, 75):
        rows = scaled_by(X, t, scaling, y)
        refresh = 1 << (t.bit_length() - 1) if t >= 8 else 0
        squares = euclidean_distances(rows[:refresh], squared=True) if refresh else None
        median = 1.0
        if refresh:
            above = np.sort(squares[np.triu_indices(refresh, 1)])
            median = above[(len(above) - 1) // 2]
        witness = {"kernel": "rbf", "gamma": 1 / (0.5 * median)}
        model = KernelRidge(alpha=0.1, **witness)
        scores[t] = model.fit(rows[:t], onehot[:t]).predict(rows[t : t + 1])[0]
        variances[t] = variance_of(rows[: t + 1], 0.1, **witness)
    expected = recalibrated(scores, y, variances)
    np.testing.assert_allclose(readout.codelengths_, expected, atol=1e-7)


def test_a_factor_is_that_of_the_whole_matrix_however_many_panels_it_has():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 4))
    kernel = RBF(1.0)(X)
    ridge = factor_of(kernel, torch.zeros(1100, 1, dtype=torch.float64), [0.1])
    whole = np.linalg.cholesky(kernel + 0.1 * np.eye(1100))
    deviations = ridge.matrices()[0].diagonal()
    np.testing.assert_allclose(deviations, np.diag(whole), rtol=1e-10)
    right = rng.normal(size=(2, 1100))
    solved = ridge.solve(torch.tensor(right))[0].T
    np.testing.assert_allclose(whole @ solved.numpy(), right.T, atol=1e-9)


# Long streams


def test_nothing_jumps_where_the_first_rows_become_landmarks():
    exact, reduced = (
        fitted([kind(n, max_exact=b, alpha=0.003) for n in KINDS], *digits(80))
        for b in (None, SHORT)
    )
    one, other = exact.readout_losses_, reduced.readout_losses_
    np.testing.assert_array_equal(one[:SHORT], other[:SHORT])
    np.testing.assert_allclose(one[SHORT], other[SHORT], atol=1e-8)
    assert (one[SHORT + 1 :] != other[SHORT + 1 :]).any(0).all()


@pytest.mark.quick("32-130")
@pytest.mark.parametrize(("n_landmarks", "n_rows"), [(32, 130), (320, 500)])
def test_landmark_features_equal_the_dual_form(n_landmarks, n_rows, monkeypatch):
    """Beyond the landmarks it is exact kernel ridge regression with another kernel.

    First by a longer factor, then by a posterior (from rows 64 and 480 on).
    """
    monkeypatch.setattr(reduced, "LEFT_OUT", 0.0)
    X, y = digits(n_rows)
    X = X.astype(np.float32) / 16
    options = {"gamma": 0.3, "scaling": None, "max_exact": n_landmarks + 8}
    readout = KernelReadout("rbf", 0.1, **options)  # whole blocks
    readout.partial_fit(X, y, classes=range(10))
    kernel = RBF(1 / math.sqrt(0.6))(X.astype(np.float64))
    landmarks = kernel[:, :n_landmarks]
    explained = landmarks @ np.linalg.solve(landmarks[:n_landmarks], landmarks.T)
    onehot, scores = np.eye(10)[y] - 0.1, np.zeros((n_rows, 10))
    variances = np.full(n_rows, 1.1)
    for t in range(1, n_rows):
        known = explained if t >= n_landmarks else kernel
        weights = np.linalg.solve(known[:t, :t] + 0.1 * np.eye(t), known[:t, t])
        scores[t] = weights @ onehot[:t]
        variances[t] -= weights @ known[:t, t]
    expected = recalibrated(scores, y, variances)
    np.testing.assert_allclose(readout.codelengths_, expected, atol=1e-7)


def test_late_rows_are_predicted_by_ridge_regression_on_landmark_features(monkeypatch):
    """Fitted at rows 128, 160, 192 and so on; features are in single precision.

    From row 512 on, every second block of 32 rows after a fit is learned.
    """
    monkeypatch.setattr(reduced, "LEFT_OUT", 0.0)
    for name, number in {"REDUCED": 32, "MANY": 2, "SHARE": 4, "SPARSER": 4}.items():
        monkeypatch.setattr(_kernel_rows, name, number)
    X, y = digits(700)
    X = X.astype(np.float32) / 16
    readout = KernelReadout("rbf", 0.1, gamma=0.3, scaling=None, max_exact=64)
    readout.partial_fit(X, y, classes=range(10))
    kernel = RBF(1 / math.sqrt(0.6))(X.astype(np.float64))
    root = np.linalg.cholesky(kernel[:64, :64])
    features = np.linalg.solve(root, kernel[:64]).T
    onehot, scores = np.eye(10)[y] - 0.1, np.zeros((700, 10))
    variances = np.full(700, 1.1)
    fits, learned = [0, 128], np.ones(700, dtype=bool)
    for t in range(1, 700):
        if t == fits[-1] + max(32, fits[-1] // 4 // 32 * 32):
            fits.append(t)
        if t >= 512:
            learned[t] = (t - fits[-1]) // 32 % 2 == 0
        rows = np.arange(t if t < 128 else fits[-1])
        rows = rows[learned[rows]]
        F = features[rows] if t >= 64 else np.linalg.cholesky(kernel[:t, :t])
        f = features[t] if t >= 64 else np.linalg.solve(F, kernel[:t, t])
        covariance = 0.1 * np.linalg.inv(F.T @ F + 0.1 * np.eye(F.shape[1]))
        scores[t] = f @ covariance @ F.T @ onehot[rows] / 0.1
        recent = f[None] if t < 128 else F[rows >= fits[-2]][-128:]
        known = covariance - np.eye(len(f))
        variances[t] += np.einsum("ij,jk,ik->i", recent, known, recent).mean()
    expected = recalibrated(scores, y, variances)
    np.testing.assert_allclose(readout.codelengths_, expected, atol=1e-4)


def test_a_posterior_uses_as_many_landmarks_as_explain_the_others():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))[rng.integers(60, size=200)]
    kernel = RBF(2.0)(rows) + 1e-12 * np.eye(200)
    whole = torch.tensor(kernel)
    leading = reduced.with_root(reduced.leading_landmarks(whole), whole)
    places, root = (part.numpy() for part in leading)
    chosen = kernel[np.ix_(places, places)]
    np.testing.assert_allclose(root @ root.T, chosen, atol=1e-9)
    assert len(np.unique(rows[places], axis=0)) == len(places) < 60

    def left_out(some):
        cross = kernel[:, some]
        explained = cross @ np.linalg.solve(kernel[np.ix_(some, some)], cross.T)
        return 1 - explained.trace() / kernel.trace()

    assert left_out(places) <= reduced.LEFT_OUT < left_out(places[:-1])
    for n in range(1, len(places)):  # each is the one that those before explain least
        cross = kernel[:, places[:n]]
        gram = kernel[np.ix_(places[:n], places[:n])]
        rest = kernel.diagonal() - (cross.T * np.linalg.solve(gram, cross.T)).sum(0)
        assert rest[places[n]] == pytest.approx(rest.max(), abs=1e-9)


def test_the_choice_of_landmarks_is_part_of_a_file(tmp_path, monkeypatch):
    # It hangs on the last digits of a kernel, which another machine computes otherwise.
    X, y = digits(480)
    fitted = MDLReadoutSwitcher([kind("rbf", max_exact=SHORT)], random_state=0)
    fitted.fit(X[:320], y[:320]).save(tmp_path / "a.safetensors")

    def otherwise(kernel):
        raise AssertionError("the choice was made again")

    monkeypatch.setattr(reduced, "leading_landmarks", otherwise)
    loaded = MDLReadoutSwitcher.load(tmp_path / "a.safetensors")
    nats = fitted.heldout_codelengths(X[320:], y[320:])
    np.testing.assert_array_equal(loaded.heldout_codelengths(X[320:], y[320:]), nats)


def test_equal_rows_are_chosen_in_their_order():
    noise = 1e-15 * torch.randn(9, 9, dtype=torch.float64)
    found = reduced.leading_landmarks(torch.eye(9, dtype=torch.float64) + noise)
    assert found.tolist() == list(range(9))


def test_no_state_grows_beyond_the_landmarks():
    X, y = digits(480)
    readouts = [kind(name, max_exact=SHORT) for name in KINDS]
    switcher, sizes = MDLReadoutSwitcher(readouts, random_state=0), []
    for rows in (slice(0, 160), slice(160, 480)):
        switcher.partial_fit(X[rows], y[rows], classes=range(10))
        (learner,) = switcher._run.learners
        of_run = {"stream", "rows"}
        state = {name: v for name, v in vars(learner).items() if name not in of_run}
        sizes.append(len(pickle.dumps(state)))
    assert abs(sizes[1] - sizes[0]) < 100  # bytes, of 9 factors of 64 rows
    assert sizes[0] > 9 * 8 * SHORT**2


# Invariants


@pytest.mark.parametrize("sizes", [1, 3, (1, 32)])
def test_kernels_learn_row_by_row_whatever_the_minibatch(sizes):
    X, y = digits(60)
    found, expected = (
        MDLReadoutSwitcher([KernelReadout()], batch_size=size).fit(X, y).readout_losses_
        for size in (sizes, 32)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.quick("13")
@pytest.mark.parametrize("cut", [1, 13])
def test_any_cutting_gives_the_same_bits(cut):
    X, y = digits(80)
    readouts = [kind(name, max_exact=SHORT) for name in KINDS]
    whole, pieces = fitted(readouts, X, y), fitted(readouts, X, y, cut)
    np.testing.assert_array_equal(whole.readout_losses_, pieces.readout_losses_)
    np.testing.assert_array_equal(whole.predict_proba(X), pieces.predict_proba(X))


def test_a_readout_depends_neither_on_its_neighbours_nor_on_their_order():
    X, y = digits(100)
    readouts = [kind(name, alpha=alpha) for name in KINDS for alpha in (0.01, 1.0)]
    together = fitted(readouts, X, y).readout_losses_
    np.testing.assert_array_equal(
        fitted(readouts[::-1], X, y).readout_losses_[:, ::-1], together
    )
    for i in range(0, len(readouts), 3):
        alone = clone(readouts[i]).partial_fit(X, y, classes=range(10))
        np.testing.assert_array_equal(alone.codelengths_, together[:, i])


def test_retired_readouts_leave_the_others_their_bits():
    X, y = digits()
    readouts = [kind(name, alpha=alpha) for name in KINDS for alpha in (0.01, 1.0)]
    whole = fitted(readouts, X, y)
    part = fitted(readouts, X[:77], y[:77])
    (learner,) = part._run.learners
    learner.retire({0, 1, 3, 5, 12})
    (state,) = part._run.threads.states
    state.failed_at = state.failed_at[:1]
    x = torch.tensor(X[77:], dtype=torch.float32)[None]
    run = part._run
    run.samples.append(X[77:])
    run.rows.extend(150)
    for t in range(77, 150):
        found = learner.predict(x[:, t - 77 : t - 76])
        label = torch.tensor(y[t : t + 1])
        run.rows.reveal(t, label)
        learner.observe(label)
        np.testing.assert_array_equal(
            -found[:, 0, y[t]], whole.readout_losses_[t, learner.columns]
        )


@pytest.mark.quick("77")
@pytest.mark.parametrize("n_rows", [3, 77])
def test_copies_and_pickles_go_on_with_the_same_bits(n_rows):
    X, y = digits()
    straight, readouts = whole_run(), whole_run().readouts
    part = fitted(readouts, X[:n_rows], y[:n_rows])
    proba = part.predict_proba(X)
    held_out = part.heldout_codelengths(X[n_rows:], y[n_rows:])
    np.testing.assert_array_equal(held_out, straight.codelengths_[n_rows:])
    for other in (copy.deepcopy(part), pickle.loads(pickle.dumps(part)), part):
        np.testing.assert_array_equal(other.predict_proba(X), proba)
        other.partial_fit(X[n_rows:], y[n_rows:])
        np.testing.assert_array_equal(other.codelengths_, straight.codelengths_)


@pytest.mark.quick("128")
@pytest.mark.parametrize("n_rows", [3, 128])
def test_a_saved_readout_goes_on_with_the_same_bits(n_rows, tmp_path):
    X, y = digits()
    readouts = [kind(name, max_exact=bound) for name in WRITTEN for bound in BOUNDS]
    part = fitted(readouts, X[:n_rows], y[:n_rows])
    part.save(tmp_path / "part.safetensors")
    other = MDLReadoutSwitcher.load(tmp_path / "part.safetensors")
    np.testing.assert_array_equal(other.predict_proba(X), part.predict_proba(X))
    for one in (part, other):
        one.partial_fit(X[n_rows:], y[n_rows:])
    np.testing.assert_array_equal(other.codelengths_, part.codelengths_)


def test_a_row_is_predicted_as_it_would_be_in_the_stream():
    X, y = digits()
    whole, readouts = whole_run(), whole_run().readouts
    for n_rows in (0, 5, 31, 64, 100):
        part = fitted(readouts, X[: n_rows + 1], y[: n_rows + 1])
        proba = part.predict_proba(X[n_rows + 1 : n_rows + 2])[0]
        expected = whole.codelengths_[n_rows + 1]
        assert -math.log(proba[y[n_rows + 1]]) == pytest.approx(expected, abs=1e-9)


# Real numbers

RAW = {"scaling": None, "standardize_targets": False}
REAL = {
    "gaussian": {"likelihood": "gaussian"},
    "student-t": {"kernel": "rbf", "scaling": "unit"},
    "raw": {"kernel": "rbf", "gamma": 0.05, **RAW},
    "steady": {"scaling": "unit", "alpha": 0.5},
}


def numbers(n=150):
    X, y = digits(n)
    return X[:, :48], X[:, 48:].sum(1) + 0.5 * y


def real(name, **options):
    return KernelReadoutRegressor(**{**REAL[name], "device": "cpu", **options})


def test_golden_numbers_of_a_gaussian_process():
    y = np.array([1, -0.5, 2, 0.3, 0.8])
    readout = KernelReadoutRegressor(
        "rbf", 0.1, gamma=0.5, likelihood="gaussian", **RAW
    ).fit(PLACES, y)
    means = [0, 0.5513915088, -0.6074664581, 0.0430799546, 0.6375780462]
    np.testing.assert_allclose(readout._run.trace.summaries[:, 0], means, atol=1e-10)
    deviations = readout._run.trace.summaries[:, 1]
    np.testing.assert_allclose(deviations**2, VARIANCES, rtol=1e-9)
    assert readout.codelength_ == pytest.approx(8.829242533114522, abs=1e-12)


def test_the_code_is_the_evidence_of_the_process():
    X, y = numbers(100)
    X = X.astype(np.float32).astype(np.float64) / 16
    location, scale = 100.0, 30.0
    units = {"prior_location": location, "prior_scale": scale}
    options = {"kernel": RBF(1.5), "alpha": 0.2, **RAW, **units}
    gaussian = KernelReadoutRegressor(likelihood="gaussian", **options).fit(X, y)
    process = GaussianProcessRegressor(RBF(1.5), alpha=0.2, optimizer=None)
    process.fit(X, (y - location) / scale)
    evidence = process.log_marginal_likelihood_value_ - len(y) * math.log(scale)
    assert gaussian.codelength_ == pytest.approx(-evidence, abs=1e-8)
    student = KernelReadoutRegressor(**options).fit(X, y)
    shape = scale**2 * (RBF(1.5)(X) + 0.2 * np.eye(len(y)))
    density = multivariate_t(np.full(len(y), location), shape, df=1)
    assert student.codelength_ == pytest.approx(-density.logpdf(y), abs=1e-8)


@pytest.mark.parametrize("n_rows", [3, 77])
def test_real_numbers_are_coded_alike_however_a_stream_is_cut(n_rows, tmp_path):
    X, y = numbers()
    bounds = (*BOUNDS, *BOUNDS)
    readouts = [real(n, max_exact=b) for n, b in zip(REAL, bounds, strict=True)]
    straight = MDLReadoutSwitcherRegressor(readouts, random_state=0).partial_fit(X, y)
    part = MDLReadoutSwitcherRegressor(readouts, random_state=0)
    part.partial_fit(X[:n_rows], y[:n_rows])
    part.save(tmp_path / "part.safetensors")
    loaded = MDLReadoutSwitcherRegressor.load(tmp_path / "part.safetensors")
    mean = part.predict(X)
    for other in (loaded, copy.deepcopy(part), part):
        np.testing.assert_array_equal(other.predict(X), mean)
        other.partial_fit(X[n_rows:], y[n_rows:])
        np.testing.assert_array_equal(other.readout_losses_, straight.readout_losses_)


def test_densities_do_not_jump_where_the_first_rows_become_landmarks():
    exact, reduced = (
        MDLReadoutSwitcherRegressor([real(n, max_exact=b) for n in REAL])
        .fit(*numbers(66))
        .readout_losses_[SHORT]
        for b in (None, SHORT)
    )
    np.testing.assert_allclose(exact, reduced, atol=1e-8)


@pytest.mark.parametrize("name", ["gaussian", "student-t", "steady"])
def test_units_of_targets_change_a_code_by_their_logarithm(name):
    X, y = numbers(100)
    one = real(name, prior_location=100.0, prior_scale=30.0).fit(X, y)
    other = real(name, prior_location=1000.0, prior_scale=300.0).fit(X, 10 * y)
    found = other.codelengths_ - one.codelengths_
    np.testing.assert_allclose(found, math.log(10), atol=1e-8)


def test_later_numbers_leave_earlier_codelengths_unchanged():
    X, y = numbers(80)
    other = np.where(np.arange(80) < 40, y, -3 * y)
    for name in REAL:
        one, two = (real(name).fit(X, labels) for labels in (y, other))
        np.testing.assert_array_equal(one.codelengths_[:40], two.codelengths_[:40])


def test_a_list_of_gaussian_processes_by_name():
    X, y = numbers()
    switcher = MDLReadoutSwitcherRegressor("closed-form").fit(X, y)
    assert {type(r) for r in switcher.readouts_} == {KernelReadoutRegressor}
    assert switcher.codelength_ < switcher.reference_codelengths_.sum() - 30


# Lists by name


def test_a_list_of_kernels_needs_no_seed():
    X, y = digits()
    one, other = (
        MDLReadoutSwitcher("closed-form", random_state=seed).fit(X, y)
        for seed in (0, 1)
    )
    np.testing.assert_array_equal(one.readout_losses_, other.readout_losses_)
    assert one.codelength_ < 0.6 * len(y) * math.log(10)


def test_lists_by_name_hold_what_they_say():
    kinds = {
        name: {type(readout).__name__ for readout in named_readouts(name, 64, 10)}
        for name in (None, "nets", "linear", "closed-form", "mixed", "drift", "stream")
    }
    nets = {"LinearReadout", "MLPReadout"}
    assert kinds["linear"] == {"KernelReadout"}
    means = {"DiscriminantReadout", "CentroidReadout", "DummyReadout"}
    assert kinds["closed-form"] == kinds["linear"] | means
    assert kinds["nets"] == nets
    assert kinds[None] == kinds["closed-form"] | nets
    assert kinds["mixed"] == kinds[None] | {"KNeighborsReadout", "RefitReadout"}
    assert kinds["drift"] == kinds["linear"] | nets | {"DummyReadout"}
    assert kinds["stream"] == nets | {"CentroidReadout", "DummyReadout"}
    regressors = {
        name: {type(readout).__name__ for readout in named_regressors(name, 64)}
        for name in (None, "nets", "drift", "stream")
    }
    assert regressors["drift"] == regressors[None] | {"DummyReadoutRegressor"}
    assert regressors["stream"] == regressors["nets"] | {"DummyReadoutRegressor"}


# Data and settings of every kind


def test_duplicates_and_constant_features_are_fine():
    X, y = digits(60)
    X = np.repeat(X, 3, axis=0)
    X[:, :40] = 7
    found = fitted([kind(name) for name in KINDS], X, np.repeat(y, 3))
    assert np.isfinite(found.readout_losses_).all()
    zeros = fitted([kind(name) for name in KINDS], np.zeros_like(X), np.repeat(y, 3))
    assert np.isfinite(zeros.readout_losses_).all()


def indefinite(a, b):
    """The linear kernel, but that it has no factor once a row is negative."""
    return a @ b.T - 1e6 * np.maximum(-a[:, :1], 0) * np.maximum(-b[:, 0], 0)


@pytest.mark.parametrize(
    ("row", "max_exact", "noisy"),
    # Landmarks have no root whatever the noise.
    [(0, 2048, -1), (1, 64, 64), (8, 2048, -1), (37, 2048, -1), (149, 2048, -1)],
)
def test_a_kernel_without_a_factor_fails_alone_from_that_row_on(row, max_exact, noisy):
    X, y = digits()
    X[row, 0] = -1.0
    options = {"scaling": None, "max_exact": max_exact}
    kernels = ["linear", indefinite, "rbf"]
    readouts = [KernelReadout(kernel, **options) for kernel in kernels]
    readouts += [KernelReadout(indefinite, alpha=1e9, **options)]
    alone = fitted([readouts[i] for i in (0, 2, 3)], X, y)
    switcher = MDLReadoutSwitcher(readouts, random_state=0, device="cpu")
    with pytest.warns(UserWarning, match=f"alpha=0.03' from row {row} on"):
        switcher.fit(X, y)
    assert switcher.diverged_at_.tolist() == [-1, row, -1, noisy]
    losses = switcher.readout_losses_
    np.testing.assert_array_equal(losses[row:, 1], math.log(10))
    assert (losses[:row, 1] != math.log(10)).all()
    np.testing.assert_array_equal(losses[:, [0, 2, 3]], alone.readout_losses_)
    pieces = MDLReadoutSwitcher(readouts, random_state=0, device="cpu")
    for part in (slice(0, 3), slice(3, 40), slice(40, 150)):
        pieces.partial_fit(X[part], y[part], classes=np.arange(10))
    np.testing.assert_array_equal(pieces.readout_losses_, losses)
    assert pieces.diverged_at_.tolist() == [-1, row, -1, noisy]


def test_a_kernel_of_two_rows_works_as_the_error_says():
    def kernel(a, b):
        return 1.0 + a @ b

    X, y = digits(60)
    with pytest.raises(ValueError, match="lambda A, B: pairwise_kernels"):
        KernelReadout(lambda a, b: 1.0).fit(X, y)
    cured = KernelReadout(lambda A, B: pairwise_kernels(A, B, metric=kernel)).fit(X, y)
    polynomial = KernelReadout("polynomial", degree=1).fit(X, y)
    assert cured.codelength_ == pytest.approx(polynomial.codelength_)


def test_factors_that_memory_cannot_hold_are_refused(monkeypatch):
    monkeypatch.setattr(_kernel_learners, "memory_of", lambda device: 4 * 60**2 - 1)
    with pytest.raises(
        MemoryError,
        match=r"Exact kernels of 60 rows .* max_exact=39 to every kernel readout$",
    ):
        KernelReadout(max_exact=None).fit(*digits(60))
    KernelReadout().fit(*digits(60))


MANY_ROWS = [
    *(("max_exact", None), ("max_exact", 4096)),
    *(("window", 4096), ("restart", 1025)),
]


def test_whitening_is_refused_where_both_rows_and_features_are_many():
    X, y = np.ones((8, 2049), np.float32), np.arange(8) % 2
    for scaling in WHITENED:
        for name, n_rows in MANY_ROWS:
            words = f"^{name} must be at most .* to whiten 2049 features, got {n_rows};"
            with pytest.raises(ValueError, match=words):
                KernelReadout(scaling=scaling, **{name: n_rows}).fit(X, y)
        KernelReadout(scaling=scaling).fit(X, y)
        KernelReadout(scaling=scaling, max_exact=None).fit(X[:, :2048], y)


def test_one_factor_serves_no_labellings_where_labels_whiten():
    X, y = digits(60)
    readout = kind("within classes").fit(X, y)
    said = r'pass scaling="whiten", or fit clone\(readout\) to each labelling$'
    with pytest.raises(ValueError, match=said):
        readout.predict_relabelled(y[None], X)
    readouts = [kind("within classes"), kind("whitened")]
    both, one = (
        fitted(some, X, y).null_codelengths(3, shuffled=True)
        for some in (readouts, readouts[1:])
    )
    np.testing.assert_array_equal(both, one)


@pytest.mark.parametrize("alpha", [0, -1.0])
def test_a_noise_must_be_positive(alpha):
    with pytest.raises(ValueError, match="alpha"):
        KernelReadout(alpha=alpha).fit(*digits(60))


def test_a_callable_is_refused_where_it_would_be_written_down(tmp_path):
    X, y = digits(60)
    for kernel in (lambda a, b: a @ b.T, RBF()):
        readout = KernelReadout(kernel).fit(X, y)
        with pytest.raises(TypeError, match=r"kernel must consist of"):
            readout.save(tmp_path / "readout.safetensors")


def test_median_distance_is_of_rows_spread_over_the_stream():
    rows = torch.tensor(np.random.default_rng(0).normal(size=(3000, 3)))
    some = rows[::6].numpy()
    squares = euclidean_distances(some, squared=True)[np.triu_indices(len(some), 1)]
    assert median_distance(rows) == pytest.approx(np.median(squares), rel=1e-2)


def easily_tired(a, b):
    """The linear kernel, but that it raises for negative rows."""
    if min(a.min(), b.min()) < 0:
        raise RuntimeError("no negative numbers")
    return a @ b.T


@pytest.mark.parametrize("row", [1, 8, 37])
@pytest.mark.parametrize("kind", [KernelReadout, KernelReadoutRegressor])
def test_a_kernel_that_raises_fails_alone_from_that_row_on(kind, row):
    X, y = digits(60)
    X[row, 0] = -1.0
    switcher = MDLReadoutSwitcher
    if kind is KernelReadoutRegressor:
        switcher, y = MDLReadoutSwitcherRegressor, y.astype(float)
    readouts = [kind(easily_tired, scaling=None), kind("linear", scaling=None)]
    once = switcher(readouts, random_state=0, device="cpu").fit(X, y)
    alone = switcher(readouts[1:], random_state=0, device="cpu").fit(X, y)
    assert once.diverged_at_.tolist() == [row, -1]
    losses = once.readout_losses_
    np.testing.assert_array_equal(losses[:, 1], alone.readout_losses_[:, 0])
    np.testing.assert_allclose(losses[:row, 0], losses[:row, 1], rtol=1e-10)
    assert once._run.threads.notes == {0: ["RuntimeError: no negative numbers"]}
    pieces = switcher(readouts, random_state=0, device="cpu")
    options = {} if kind is KernelReadoutRegressor else {"classes": np.arange(10)}
    for part in (slice(0, 5), slice(5, 40), slice(40, 60)):
        pieces.partial_fit(X[part], y[part], **options)
    np.testing.assert_array_equal(pieces.readout_losses_, losses)


def test_functions_are_kernels_of_different_names():
    readouts = [KernelReadout(easily_tired), KernelReadout(RBF()), KernelReadout("rbf")]
    names = ["easily_tired kernel", "RBF kernel", "rbf kernel"]
    assert [readout.architecture for readout in readouts] == names


@pytest.mark.parametrize("kind", [KernelReadout, KernelReadoutRegressor])
def test_a_warning_of_a_single_readout_names_the_error_of_its_kernel(kind):
    X, y = digits(60)
    X[8, 0] = -1.0
    words = r"^all readouts have diverged \(RuntimeError: no negative numbers\) and"
    words += r" .* or debug your own kernels or classifiers$"
    with pytest.warns(UserWarning, match=words):
        kind(easily_tired, scaling=None).fit(X, y)


@for_each(
    "kernel, error, match",
    [
        (
            lambda a, b: a[:, 0],
            ValueError,
            r"returns shape \(8, 8\) for 8 .* got shape \(8,\); if it compares two",
        ),
        (
            lambda a, b: None,
            ValueError,
            "kernel must be a callable that .* got NoneType; if it compares two single",
        ),
        (lambda a, b: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_a_kernel_that_never_works_is_refused(kernel, error, match):
    with pytest.raises(error, match=match):
        KernelReadout(kernel).fit(*digits(60))


def test_a_decoder_fails_where_the_code_did():
    X, y = digits(60)
    X[37, 0] = 1e30  # to the power of 20
    failing = KernelReadout("polynomial", degree=20, gamma=1e-3, scaling=None)
    switcher = MDLReadoutSwitcher([failing, KernelReadout()], random_state=0)
    assert clone(switcher).fit(X, y).diverged_at_.tolist() == [37, -1]
    np.testing.assert_array_equal(
        decode_labels(switcher, X, encode_labels(switcher, X, y)), y
    )


@pytest.mark.slow
def test_threads_may_predict_at_once():
    X, y = load_digits(return_X_y=True)
    X, y = X[:100], y[:100]
    switcher = MDLReadoutSwitcher([KernelReadout(), CentroidReadout()]).fit(X, y)
    expected = switcher.predict_proba(X)
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(switcher.predict_proba, [X] * 30):
            assert_array_equal(found, expected)
