"""Codes, evidence and control tasks of others, each against an independent witness."""

import math
import tracemalloc
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from each_case import for_each
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import BayesianRidge, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from sklearn_mdl import KernelReadout, RefitReadout
from sklearn_mdl.baselines import (
    BlockwiseCode,
    RandomEncoder,
    VariationalCode,
    _base as standardising,
    cluster_types,
    control_labels,
    log_evidence,
    rank_me,
    selectivity,
    subsampled_losses,
    usable_information,
)
from sklearn_mdl.baselines._variational import (
    GaussianLayer,
    NormalJeffreysLayer,
    gaussian_kl,
    log_uniform_kl,
)
from sklearn_mdl.metrics import (
    excess_description_length,
    sample_complexity,
    surplus_description_length,
)


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def noise(n=600, d=5, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(n_classes, size=n)


# Rows as they come


def test_rows_of_single_precision_are_read_where_they_lie(tmp_path):
    X, y = noise(50)
    np.save(tmp_path / "rows.npy", X.astype(np.float32))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert np.shares_memory(BlockwiseCode()._checked(rows, y).X, rows)


@pytest.mark.parametrize("scaling", ["standard", None])
def test_rows_of_single_precision_cost_what_the_same_numbers_in_double_do(scaling):
    X, y = make_classification(300, n_informative=5, random_state=0)
    single, double = X.astype(np.float32), X.astype(np.float32).astype(np.float64)
    block_wise = BlockwiseCode(LogisticRegression(), scaling=scaling, random_state=0)
    weights = VariationalCode(n_steps=20, scaling=scaling, random_state=0)
    for code in (block_wise, weights):
        found, expected = (code.fit(rows, y).codelength_ for rows in (single, double))
        assert found == expected
    curves = [
        subsampled_losses(
            LogisticRegression(),
            (rows[:200], y[:200]),
            (rows[200:], y[200:]),
            random_state=0,
        )
        for rows in (single, double)
    ]
    assert_array_equal(curves[0].by_repeat, curves[1].by_repeat)


def peak_of(call, *args):
    """Most memory that is taken at once, in bytes."""
    tracemalloc.start()
    try:
        call(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_rows_are_copied_in_double_precision_but_those_of_a_fit(monkeypatch):
    monkeypatch.setattr(standardising, "SCALED_AT_ONCE", 2**16)
    X = np.random.default_rng(0).normal(size=(4000, 1000)).astype(np.float32)
    y = np.arange(len(X)) % 2
    code = BlockwiseCode(DummyClassifier(), random_state=0)
    # The last fit has half of the rows: their own precision, and twice as much.
    assert peak_of(code.fit, X, y) < 1.8 * X.nbytes
    weights = VariationalCode(n_steps=1, n_draws=2, device="cpu", random_state=0)
    weights.fit(X[:9], y[:9])  # imports modules, which are not counted below
    assert peak_of(weights.fit, X, y) < 0.5 * X.nbytes  # tensors are not traced


# Block-wise code


def test_block_wise_code_is_what_a_loop_by_hand_says():
    X, y = make_classification(400, n_informative=5, random_state=0)
    ends = [4, 40, 100, 400]
    model = LogisticRegression(C=0.1)
    total = 4 * math.log(2)
    for start, stop in pairwise(ends):
        mean, std = X[:start].mean(0), X[:start].std(0)
        fitted = model.fit((X[:start] - mean) / std, y[:start])
        proba = fitted.predict_proba((X[start:stop] - mean) / std)
        frequency = (np.bincount(y[:start], minlength=2) + 0.5) / (start + 1)
        proba = proba + (frequency - proba) / (start + 2)
        total -= np.log(proba[np.arange(stop - start), y[start:stop]]).sum()
    code = BlockwiseCode(model, schedule=[1, 10, 25, 100], shuffle=False).fit(X, y)
    assert code.block_ends_.tolist() == ends
    assert_allclose(code.codelength_, total, rtol=1e-9)


def test_blocks_end_at_voita_and_titovs_fractions():
    X, y = noise(1000)
    code = BlockwiseCode(GaussianNB()).fit(X, y)
    ends = [1, 2, 4, 8, 16, 32, 62, 125, 250, 500, 1000]
    assert code.block_ends_.tolist() == ends
    code = BlockwiseCode(GaussianNB(), schedule="doubling", first_block=100).fit(X, y)
    assert code.block_ends_.tolist() == [100, 200, 400, 800, 1000]


def test_the_first_block_is_sent_by_the_uniform_code(digits):
    code = BlockwiseCode(schedule=[10, 100], random_state=0).fit(*digits)
    assert_allclose(code.codelengths_[:180], math.log(10))
    assert_allclose(code.block_codelengths_[0], 180 * math.log(10))
    assert_allclose(code.block_codelengths_.sum(), code.codelength_)
    assert_allclose(code.compression_, 1797 * math.log(10) / code.codelength_)


def test_minibatches_that_double_are_those_of_a_refitted_readout(digits):
    X, y = digits[0][:480], digits[1][:480]
    model = LogisticRegression(C=0.01)
    same = {"calibration": False, "scaling": None}
    expert = RefitReadout(model, batch_size=32, **same).fit(X, y)
    code = BlockwiseCode(
        model, schedule="doubling", first_block=32, shuffle=False, **same
    ).fit(X, y)
    assert_allclose(code.codelengths_[:64], expert.codelengths_[:64], rtol=1e-6)
    # Within a longer block the expert's floor follows the labels, and here it does not.
    assert abs(code.codelength_ / expert.codelength_ - 1) < 0.02


def test_labels_of_later_blocks_share_the_probability_of_the_first():
    """Probabilities of all that may come sum to one: nothing is counted twice."""
    X = np.random.default_rng(0).normal(size=(7, 2))
    total = 0.0
    for rest in product([0, 1], repeat=5):
        y = np.array([0, 1, *rest])
        code = BlockwiseCode(
            GaussianNB(), schedule="doubling", first_block=2, shuffle=False
        )
        total += math.exp(-code.fit(X, y).codelength_)
    assert_allclose(total, 0.25)


def test_a_classifier_that_knows_nothing_costs_what_the_uniform_code_does():
    X, y = noise(1000)
    dummy = DummyClassifier(strategy="uniform", random_state=0)
    code = BlockwiseCode(dummy, random_state=0).fit(X, y)
    n_blocks = len(code.block_ends_)
    assert code.codelength_ < code.uniform_codelength_ + 2 * n_blocks


@for_each("seed", range(3))
@for_each("calibration", [False, True])
def test_random_labels_are_not_compressed_by_blocks(seed, calibration):
    X, y = noise(seed=seed)
    code = BlockwiseCode(
        LogisticRegression(C=1e-3), calibration=calibration, random_state=seed
    ).fit(X, y)
    assert code.codelength_ > code.uniform_codelength_ - 20


def test_a_factor_learned_on_held_out_rows_mends_what_is_too_sure(digits):
    sure = BlockwiseCode(GaussianNB(var_smoothing=1e-3), random_state=0).fit(*digits)
    mended = BlockwiseCode(
        GaussianNB(var_smoothing=1e-3), calibration=True, random_state=0
    ).fit(*digits)
    assert mended.codelength_ < 0.8 * sure.codelength_


def test_labels_that_no_fit_has_seen_cost_no_infinity():
    X, y = noise(200)
    y[150:] = 7
    code = BlockwiseCode(GaussianNB(), schedule=[5, 75, 100], shuffle=False).fit(X, y)
    assert np.isfinite(code.codelengths_).all()
    # The first label of a new class costs no more than the rule of the floor allows.
    assert code.codelengths_.max() < math.log(152) + math.log(2 * 152)


def test_a_fit_that_raises_leaves_the_one_before_and_is_reported():
    class Picky(GaussianNB):
        def fit(self, X, y):
            if len(y) > 100:
                raise RuntimeError("too many rows")
            return super().fit(X, y)

    X, y = noise(400)
    with pytest.warns(
        UserWarning, match="failed .*too many rows.* earlier fit"
    ) as record:
        code = BlockwiseCode(Picky(), schedule=[10, 25, 50, 100], shuffle=False).fit(
            X, y
        )
    assert [warning.filename for warning in record] == [__file__]
    assert "too many rows" in code.notes_[0]
    steady = BlockwiseCode(GaussianNB(), schedule=[10, 25, 100], shuffle=False)
    same = slice(40, 200)
    assert_allclose(code.codelengths_[40:100], steady.fit(X, y).codelengths_[40:100])
    assert np.isfinite(code.codelengths_[same]).all()


def test_predictions_that_raise_are_reported():
    class Mute(GaussianNB):
        def predict_proba(self, X):
            raise ArithmeticError("no")

    with pytest.warns(UserWarning, match="Mute.*ArithmeticError: no.*frequencies"):
        code = BlockwiseCode(Mute(), random_state=0).fit(*noise(100))
    assert np.isfinite(code.codelengths_).all()


def test_rows_without_probabilities_get_class_frequencies():
    class Silent(GaussianNB):
        def predict_proba(self, X):
            proba = super().predict_proba(X)
            proba[::2] = np.nan
            return proba

    X, y = noise(100)
    code = BlockwiseCode(Silent(), schedule=[50, 100], shuffle=False).fit(X, y)
    frequency = (np.bincount(y[:50]) + 0.5) / 51.5
    assert_allclose(code.codelengths_[50::2], -np.log(frequency[y[50::2]]))
    assert "no probabilities" in code.notes_[0]


def test_a_classifier_without_probabilities_is_refused():
    with pytest.raises(
        TypeError, match="needs a classifier with fit and predict_proba"
    ):
        BlockwiseCode(LinearSVC()).fit(*noise())


@for_each("schedule", [[1, 50], [50, 10, 100], [0, 100], [], ["a", 100], [[1], 100]])
def test_percentages_must_increase_to_all(schedule):
    code = BlockwiseCode(schedule=schedule)
    with pytest.raises(ValueError, match="percentages that increase"):
        code.fit(*noise())
    assert not hasattr(code, "n_features_in_")


# Variational code


def test_divergence_of_normals_is_torchs():
    torch.manual_seed(0)
    mean, log_variance = torch.randn(3, 4), torch.randn(3, 4)
    q = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    p = torch.distributions.Normal(torch.tensor(0.0), torch.tensor(0.5))
    wanted = torch.distributions.kl_divergence(q, p).sum()
    found = gaussian_kl(mean, log_variance, math.log(0.5))
    assert_allclose(found.item(), wanted.item(), rtol=1e-5)


def test_the_layers_own_scales_make_the_divergence_least():
    layer = GaussianLayer(5, 3, 1.0, torch.Generator().manual_seed(0))
    groups = [
        (layer.weight, layer.weight_log_variance),
        (layer.bias, layer.bias_log_variance),
    ]
    grid = np.linspace(-6, 2, 801)
    least = sum(min(gaussian_kl(*g, x).item() for x in grid) for g in groups)
    assert_allclose(layer.kl().item(), least, atol=1e-3)
    paid = 2 * math.log(16)
    sent = [
        gaussian_kl(*g, math.log(s)).item()
        for g, s in zip(groups, layer.scales(), strict=True)
    ]
    assert_allclose(layer.cost(), sum(sent) + paid, rtol=1e-6)
    assert all(float(math.log2(s)).is_integer() for s in layer.scales())
    assert layer.cost() >= layer.kl().item() + paid - 1e-4


@for_each("log_alpha", [-4.0, -1.0, 0.0, 2.0, 5.0])
def test_divergence_from_a_log_uniform_prior_is_its_integral(log_alpha):
    """-KL = log(alpha) / 2 - E log|z|, z ~ N(1, alpha), up to a constant."""
    std = math.exp(log_alpha / 2)

    def integrand(z):
        density = math.exp(-0.5 * ((z - 1) / std) ** 2) / (std * math.sqrt(2 * math.pi))
        return density * math.log(abs(z))

    lower, upper = 1 - 12 * std, 1 + 12 * std
    inner = [0.0] if lower < 0 else None
    expected, _ = quad(integrand, lower, upper, points=inner, limit=500)
    euler = (np.euler_gamma + math.log(2)) / 2  # -E log|N(0, 1)|: the limit is zero
    exact = expected - log_alpha / 2 + euler
    assert_allclose(log_uniform_kl(torch.tensor(log_alpha)).item(), exact, atol=0.03)


@pytest.mark.parametrize("kind", [GaussianLayer, NormalJeffreysLayer])
def test_outputs_are_drawn_as_weights_would_have_them(kind):
    generator = torch.Generator().manual_seed(0)
    layer = kind(3, 2, 1.0, generator)
    with torch.no_grad():
        layer.weight_log_variance.fill_(-1.0)
        layer.bias_log_variance.fill_(-2.0)
    x = torch.tensor([[1.0, -2.0, 0.5]])
    drawn = layer(x.expand(200_000, -1), generator).detach()
    weights = layer.weight + math.exp(-0.5) * torch.randn(200_000, 2, 3)
    biases = layer.bias + math.exp(-1.0) * torch.randn(200_000, 2)
    gates = torch.ones(200_000, 3)
    if kind is NormalJeffreysLayer:
        std = (0.5 * layer.gate_log_variance).exp()
        gates = layer.gate + std * torch.randn(200_000, 3)
    wanted = ((weights @ (x * gates)[..., None])[..., 0] + biases).detach()
    assert_allclose(drawn.mean(0), wanted.mean(0), atol=0.02)
    assert_allclose(drawn.std(0), wanted.std(0), rtol=0.02)


def exact_minus_log_evidence(x, y, scales):
    """Integrate the likelihood of two classes over their differences of weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    slope, shift = (math.sqrt(2) * s * nodes for s in scales)
    logits = slope[:, None, None] * x + shift[None, :, None]
    sign = np.where(y == 1, 1.0, -1.0)
    log_likelihood = -np.logaddexp(0, -sign * logits).sum(-1)
    top = log_likelihood.max()
    return -(top + math.log(weights @ np.exp(log_likelihood - top) @ weights))


def test_the_variational_code_bounds_the_evidence_from_above_and_closely():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = (x + 0.7 * rng.normal(size=60) > 0.3).astype(int)
    code = VariationalCode(n_steps=500, n_draws=200, random_state=0)
    code.fit(x[:, None], y)
    (scales,) = code.prior_scales_
    exact = exact_minus_log_evidence(scale(x), y, scales)
    bound = code.codelength_ - 2 * math.log(16)  # without what the scales cost
    assert bound > exact - 3 * code.standard_error_
    assert bound < exact + 1.0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("widths", [(), (8,)])
def test_random_labels_are_not_compressed_by_weights(seed, widths):
    X, y = noise(300, seed=seed)
    code = VariationalCode(widths, n_steps=200, random_state=seed).fit(X, y)
    assert code.codelength_ > code.uniform_codelength_ - 20 - 3 * code.standard_error_


@pytest.mark.parametrize("prior", ["gaussian", "normal-jeffreys"])
def test_a_seed_decides_the_variational_code_and_its_parts_add_up(prior):
    X, y = make_classification(300, n_informative=5, class_sep=2.0, random_state=0)
    codes = [
        VariationalCode(prior=prior, n_steps=150, random_state=seed).fit(X, y)
        for seed in (0, 0, 1)
    ]
    assert codes[0].codelength_ == codes[1].codelength_ != codes[2].codelength_
    first = codes[0]
    parts = first.weights_codelength_ + first.labels_codelength_
    assert_allclose(first.codelength_, parts)
    assert first.compression_ > 1
    assert (first.prior_scales_ is None) == (prior != "gaussian")


def test_weights_that_diverge_are_refused():
    code = VariationalCode(lr=1e30, n_steps=20)
    with pytest.raises(ValueError, match="diverged"):
        code.fit(*noise(50))
    assert not hasattr(code, "n_features_in_")


# Evidence


def log_density(X, target, alpha, beta):
    cov = X @ X.T / alpha + np.eye(len(X)) / beta
    return multivariate_normal(np.zeros(len(X)), cov).logpdf(target)


@pytest.mark.parametrize("width", [4, 80])
def test_evidence_is_the_density_of_a_normal_and_no_precisions_give_more(width):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, width))
    y = (X[:, 0] + rng.normal(size=50) > 0).astype(int)
    found = log_evidence(X, y)
    for label in (0, 1):
        target = (y == label).astype(float)
        best = log_density(X, target, found.alphas[label], found.betas[label])
        assert_allclose(found.by_class[label], best / 50, rtol=1e-8)

        def minus(logs, target=target):
            return -log_density(X, target, *np.exp(np.clip(logs, -15, 15)))

        starts = ([0.0, 0.0], [3.0, 1.0], [-2.0, 2.0])
        others = [-minimize(minus, x0, method="Nelder-Mead").fun for x0 in starts]
        assert best > max(others) - 1e-6
    assert_allclose(found.value, found.by_class.mean())


def test_evidence_is_where_the_articles_fixed_point_is(digits):
    """You et al., 2021, algorithm 1, iterated long enough."""
    X, y = digits
    found = log_evidence(X, y)
    target = (y == 3).astype(float)
    u, s, _ = np.linalg.svd(X, full_matrices=False)
    z, n = u.T @ target, len(y)
    alpha = beta = 1.0
    for _ in range(2000):
        gamma = np.sum(beta * s**2 / (alpha + beta * s**2))
        m2 = np.sum((beta * s * z / (alpha + beta * s**2)) ** 2)
        residual = np.sum((z * alpha / (alpha + beta * s**2)) ** 2)
        residual += target @ target - z @ z
        alpha, beta = gamma / m2, (n - gamma) / residual
    assert_allclose([found.alphas[3], found.betas[3]], [alpha, beta], rtol=1e-3)


def test_evidence_is_that_of_bayesian_ridge(digits):
    X, y = digits[0][:500], digits[1][:500]
    flat = dict.fromkeys(["alpha_1", "alpha_2", "lambda_1", "lambda_2"], 0.0)
    model = BayesianRidge(
        fit_intercept=False, compute_score=True, max_iter=3000, tol=1e-9, **flat
    )
    model.fit(X, (y == 5).astype(float))
    found = log_evidence(X, y)
    assert_allclose(found.by_class[5], model.scores_[-1] / 500, rtol=1e-6)


def test_one_factor_for_all_features_changes_no_evidence(digits):
    X, y = digits[0][:300], digits[1][:300]
    assert_allclose(log_evidence(100 * X, y).value, log_evidence(X, y).value)


def test_evidence_without_a_maximum_is_refused():
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.arange(30) % 2
    X[:, 0], X[:, 1] = y == 0, y == 1
    with pytest.raises(ValueError, match="no maximum"):
        log_evidence(X, y)
    with pytest.raises(ValueError, match="must not be all zero"):
        log_evidence(0 * X, y)
    with pytest.raises(ValueError, match="at least two classes"):
        log_evidence(X, 0 * y)


# Control tasks, random encoders, subsamples


def test_control_labels_are_a_function_of_types_alone():
    rng = np.random.default_rng(0)
    types, y = (
        rng.integers(200, size=5000),
        rng.choice([0, 1, 2], 5000, p=[0.6, 0.3, 0.1]),
    )
    found = control_labels(types, y, random_state=0)
    for kind in range(200):
        assert len(np.unique(found[types == kind])) == 1
    of_types = [found[types == kind][0] for kind in range(200)]
    assert abs(np.mean(np.array(of_types) == 0) - 0.6) < 0.15
    assert not np.array_equal(found, control_labels(types, y, random_state=1))
    said = r"^types and y must be of equal shape \(n_samples,\), got \[.*\]; pass "
    with pytest.raises(ValueError, match=f"{said}one type for each label$"):
        control_labels(types[:-1], y)
    with pytest.raises(ValueError, match=rf"{said}types.ravel\(\) and y.ravel\(\)$"):
        control_labels(types, y[:, None])


def parts_of(X, y, types):
    return (X[:400], y[:400]), (X[400:], y[400:]), (types[:400], types[400:])


def test_features_that_carry_nothing_are_not_selective():
    X, y = noise(800)
    types = np.random.default_rng(1).integers(40, size=800)
    found = selectivity(RidgeClassifier(), *parts_of(X, y, types), random_state=0)
    assert abs(found.value) < 0.1
    assert found.value == found.accuracy - found.control_accuracy


def test_features_that_name_their_type_tell_a_control_task():
    rng = np.random.default_rng(0)
    types = rng.integers(20, size=800)
    y = rng.integers(3, size=20)[types]
    names = np.eye(20)[types]
    found = selectivity(RidgeClassifier(), *parts_of(names, y, types), random_state=0)
    assert found == (0.0, 1.0, 1.0)
    # A representation of the label alone does not.
    labels = np.eye(3)[y]
    found = selectivity(RidgeClassifier(), *parts_of(labels, y, types), random_state=0)
    assert found.accuracy == 1.0
    assert found.value > 0.2


@pytest.mark.parametrize(("n_train", "bound"), [(64, 64), (90, 64), (64, None)])
def test_one_factor_learns_all_control_tasks_as_refits_do(digits, n_train, bound):
    X, y = digits[0][:150], digits[1][:150] % 3
    types = np.arange(150) % 5  # few, so that some labellings lack a class
    probe = KernelReadout(max_exact=bound)
    train, test = (X[:n_train], y[:n_train]), (X[n_train:], y[n_train:])
    kinds = types[:n_train], types[n_train:]
    found = selectivity(probe, train, test, kinds, n_controls=4, random_state=0)
    rng = np.random.RandomState(0)
    controls = np.stack([control_labels(types, y, random_state=rng) for _ in range(4)])
    refits = [clone(probe).fit(X[:n_train], own[:n_train]) for own in controls]
    expected = [fit.predict(X[n_train:]) for fit in refits]
    fitted = clone(probe).fit(*train)
    predicted = fitted.predict_relabelled(controls[:, :n_train], X[n_train:])
    assert_array_equal(predicted, expected)
    assert found.control_accuracy == np.mean(predicted == controls[:, n_train:])
    assert len({len(fit.classes_) for fit in refits}) > 1


@pytest.mark.parametrize("forgetting", [{"window": 64}, {"restart": 64}])
def test_kernels_that_forget_are_refitted_to_control_tasks(digits, forgetting):
    X, y = digits[0][:150], digits[1][:150] % 3
    types, probe = np.arange(150) % 5, KernelReadout(**forgetting)
    parts = (X[:90], y[:90]), (X[90:], y[90:]), (types[:90], types[90:])
    found = selectivity(probe, *parts, random_state=0)
    control = control_labels(types, y, random_state=np.random.RandomState(0))
    refit = clone(probe).fit(X[:90], control[:90])
    assert found.control_accuracy == np.mean(refit.predict(X[90:]) == control[90:])


def test_control_tasks_are_counted_and_labels_stacked():
    X, y = noise(30)
    with pytest.raises(ValueError, match="n_controls must be a positive integer, got"):
        selectivity(RidgeClassifier(), (X, y), (X, y), (y, y), n_controls=0)
    with pytest.raises(
        ValueError, match=r"shape \(n_labellings, 30\), with one label for each"
    ):
        KernelReadout().fit(X, y).predict_relabelled(y, X)


def test_clusters_are_types_of_like_rows():
    rng = np.random.default_rng(0)
    centres = 100 * rng.normal(size=(4, 3))
    kinds = rng.integers(4, size=200)
    types = cluster_types(centres[kinds] + rng.normal(size=(200, 3)), 4, random_state=0)
    assert_array_equal([len(np.unique(types[kinds == k])) for k in range(4)], 1)


def test_a_random_encoder_rectifies_a_random_map():
    X, _ = noise()
    encoder = RandomEncoder(7, random_state=0).fit(X)
    wanted = scale(X) @ encoder.components_.T + encoder.biases_
    assert_allclose(encoder.transform(X), np.maximum(wanted, 0), atol=1e-12)
    assert RandomEncoder(random_state=0).fit_transform(X).shape == X.shape


def test_losses_on_subsamples_are_those_of_fits_on_them():
    X, y = make_classification(300, n_informative=5, random_state=0)
    train, test = (X[:200], y[:200]), (X[200:], y[200:])
    model = LogisticRegression(C=0.1)
    curve = subsampled_losses(model, train, test, sizes=[50, 200], n_repeats=3)
    mean, std = X[:200].mean(0), X[:200].std(0)
    fitted = model.fit((X[:200] - mean) / std, y[:200])
    log_proba = fitted.predict_log_proba((X[200:] - mean) / std)
    loss = -log_proba[np.arange(100), y[200:]].mean()
    assert_allclose(curve.by_repeat[:, 1], loss, atol=0.01)  # the floor
    assert curve.by_repeat.shape == (3, 2)
    assert_allclose(curve.losses, curve.by_repeat.mean(0))
    assert curve.losses[0] > curve.losses[1]


def test_subsamples_say_after_how_many_labels_a_loss_is_met(digits):
    X, y = digits
    parts = (X[:1000], y[:1000]), (X[1000:], y[1000:])
    curve = subsampled_losses(LogisticRegression(), *parts, n_repeats=2, random_state=0)
    assert curve.sizes[0] == 1
    assert curve.sizes[-1] == 1000
    assert not sample_complexity(curve.losses, 1.0, sizes=curve.sizes).is_bound
    assert sample_complexity(curve.losses, 0.01, sizes=curve.sizes).is_bound


@for_each("sizes", [[0, 5], [5, 5], [5, 1000], [1.5, 3], []])
def test_sizes_of_subsamples_are_checked(sizes):
    part = noise(100)
    with pytest.raises(ValueError, match="sizes must be increasing"):
        subsampled_losses(GaussianNB(), part, part, sizes=sizes)
    with pytest.raises(ValueError, match="n_repeats"):
        subsampled_losses(GaussianNB(), part, part, n_repeats=0)


def test_subsamples_are_not_lost_on_a_test_part_of_another_width():
    X, y = noise(100)
    with pytest.raises(ValueError, match=r"of equal width, got \[5, 3\]"):
        subsampled_losses(GaussianNB(), (X, y), (X[:, :3], y))


def test_fits_on_subsamples_that_raise_are_reported():
    class Picky(GaussianNB):
        def fit(self, X, y):
            if len(y) > 20:
                raise RuntimeError("too many rows")
            return super().fit(X, y)

    part = noise(100)
    with pytest.warns(UserWarning, match="Picky.*too many rows") as record:
        curve = subsampled_losses(Picky(), part, part, sizes=[20, 50], n_repeats=2)
    assert [warning.filename for warning in record] == [__file__]  # once for all
    assert np.isfinite(curve.by_repeat).all()


@pytest.mark.parametrize("estimator", [LinearSVC(), GaussianNB])
def test_a_classifier_that_no_subsample_fits_is_refused(estimator):
    part = noise(100)
    with pytest.raises(TypeError, match="subsampled_losses needs a classifier with"):
        subsampled_losses(estimator, part, part)


def test_functions_take_tensors_as_estimators_do():
    X, y = noise(100)
    rows, labels = torch.tensor(X, requires_grad=True), torch.tensor(y)
    assert log_evidence(rows, labels).value == log_evidence(X, y).value
    curves = [
        subsampled_losses(GaussianNB(), part, part, random_state=0).losses
        for part in ((rows, labels), (X, y))
    ]
    assert_array_equal(*curves)
    found, expected = (
        selectivity(RidgeClassifier(), part, part, (part[1],) * 2, random_state=0)
        for part in ((rows, labels), (X, y))
    )
    assert found == expected
    assert_array_equal(
        control_labels(labels, labels, random_state=0),
        control_labels(y, y, random_state=0),
    )


# Ranks, usable information, excess description length


def test_the_rank_is_the_entropy_of_the_spectrum_and_knows_no_labels():
    X = np.random.default_rng(0).normal(size=(50, 6)) * [9, 3, 1, 1, 0.1, 0]
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(X.T @ X), 0))
    shares = values[values > 1e-6] / values.sum()
    assert rank_me(X) == pytest.approx(np.exp(-shares @ np.log(shares)), rel=1e-4)
    turned = X @ np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    assert rank_me(7 * turned) == pytest.approx(rank_me(X), rel=1e-4)
    assert rank_me(np.diag([2.0, 1.0, 1.0])) == pytest.approx(
        math.exp(1.5 * math.log(2)), rel=1e-4
    )
    with pytest.raises(ValueError, match="X must not be all zero"):
        rank_me(np.zeros((3, 2)))


def test_usable_information_is_that_of_the_family():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    y = (X.prod(1) > 0).astype(int)  # nothing that a line could use
    train, test = (X[:2000], y[:2000]), (X[2000:], y[2000:])
    assert abs(usable_information(train, test).value) < 0.01
    product = [(x.prod(1, keepdims=True), labels) for x, labels in (train, test)]
    found = usable_information(*product)
    assert found.value > 0.5  # of log 2
    assert found.value == found.entropy - found.conditional_entropy
    # Of normal classes at -1 and 1 the linear family uses all of the information.
    y = rng.integers(0, 2, 6000)
    x = rng.normal(2 * y - 1.0)[:, None]
    found = usable_information((x[:3000], y[:3000]), (x[3000:], y[3000:]))
    entropy = quad(lambda t: norm.pdf(t, 1) * np.log1p(np.exp(-2 * t)), -8, 9)[0]
    assert found.value == pytest.approx(math.log(2) - entropy, abs=0.02)
    with pytest.raises(ValueError, match="among the train labels, got 2"):
        usable_information((X[:9], y[:9]), (X[9:12], [0, 1, 2]))
    changes = (lambda proba: 2 * proba, lambda proba: np.nan * proba)
    for change in (np.log, lambda proba: proba[1:], *changes):
        with pytest.raises(ValueError, match=r"must be \(3, 2\) probabilities"):
            usable_information((X[:9], y[:9]), (X[9:12], y[:3]), Changed(change))
    found = usable_information((X[:9], y[:9]), (X[9:12], y[:3]), Changed(np.float16))
    assert found.value == pytest.approx(0, abs=0.1)


class Changed(DummyClassifier):
    """Predicts probabilities that are changed by a function."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def predict_proba(self, X):
        return self.change(super().predict_proba(X))


def test_excess_is_the_code_less_what_it_would_cost_once_all_is_learned():
    losses = np.array([0.7, 0.5, 0.3, 0.1])
    assert excess_description_length(losses, 0.2) == pytest.approx(0.8)
    assert excess_description_length(losses, tail=0.5) == pytest.approx(1.6 - 0.8)
    assert excess_description_length(losses) == pytest.approx(1.6 - 0.4)
    assert excess_description_length(losses, tail=1) == pytest.approx(0)
    # A floor that no loss falls below: the same as the surplus over it.
    surplus = surplus_description_length(losses, 0.05, n_intervals=5).value
    assert excess_description_length(losses, 0.05) == pytest.approx(surplus)
    # Labels that nothing can be learned of, and labels that are known.
    assert excess_description_length(np.full(9, np.log(2)), np.log(2)) == pytest.approx(
        0
    )
    assert excess_description_length(np.zeros(9)) == 0
    with pytest.raises(ValueError, match=r"^`losses` must be of shape"):
        excess_description_length([])
    # A rule among k equally likely ones that the first label reveals: log k nats.
    rule = np.array([np.log(8), *np.zeros(99)])
    assert excess_description_length(rule) == pytest.approx(np.log(8))
    for options in ({"tail": 0}, {"tail": 1.5}, {"final_loss": -1}):
        with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be"):
            excess_description_length(losses, **options)
