"""Long streams: from some row on, labels are learned by blocks of rows."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits

from sklearn_mdl import (
    KernelReadout,
    MDLReadoutSwitcher,
    decode_labels,
    encode_labels,
)
from sklearn_mdl._core.kernels import calibration
from sklearn_mdl._core.kernels.calibration import ForwardSoftmax
from sklearn_mdl._core.stream import checkpoint, threads
from sklearn_mdl._core.stream.learner import BY_BLOCKS, RowsAhead
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl.readouts import (
    CentroidReadout,
    DiscriminantReadout,
    KernelReadoutRegressor,
    _kernel_rows,
    _row_learners,
)

N = 290
READOUTS = {
    "fits": KernelReadout("rbf", max_exact=64, device="cpu"),
    "posterior": KernelReadout("rbf", max_exact=128, device="cpu"),
    "longer factor": KernelReadout(max_exact=160, alpha=0.3, device="cpu"),
    "exact": KernelReadout("rbf", scaling="within-class", max_exact=None, device="cpu"),
    "discriminant": DiscriminantReadout(device="cpu"),
    "means": CentroidReadout(device="cpu"),
}
REAL = KernelReadoutRegressor("rbf", max_exact=64, device="cpu")


@pytest.fixture(autouse=True)
def early(monkeypatch):
    """Learn by blocks from row 64 on. After 64 landmarks, fit at 128, 192 and 288.

    From row 160 on, fits only learn every second block.
    """
    monkeypatch.setattr(_row_learners, "BY_BLOCKS", RowsAhead(64, 32))
    numbers = {"REDUCED": 32, "MANY": 2, "SHARE": 2, "MOST_KEPT": 64, "SPARSER": 1.25}
    for name, number in numbers.items():
        monkeypatch.setattr(_kernel_rows, name, number)


def digits(n=N):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:n]
    return X[order], y[order]


def test_fits_are_an_eighth_of_the_rows_apart(monkeypatch):
    monkeypatch.undo()
    assert _kernel_rows.settled_at(2048) == 8_192
    assert _kernel_rows.settled_at(32) == 1_088  # an eighth is a whole block
    fits = sorted({_kernel_rows.last_fit(n, 8_192) for n in range(8_192, 400_000, 64)})
    gaps = np.diff(fits)
    assert not (gaps % 128).any()
    assert gaps[:3].tolist() == [1024, 1152, 1280]
    assert (gaps <= np.array(fits[:-1]) / 8).all()
    assert set(gaps[-20:]) == {8192}


def test_fits_learn_fewer_and_fewer_of_the_rows(monkeypatch):
    monkeypatch.undo()
    starts = np.arange(0, 5_000_000, 128)
    learned = np.array([_kernel_rows.learns(n, 8_192) for n in starts.tolist()])
    shares = [
        np.mean(learned[(starts >= first) & (starts < end)])
        for first, end in pairwise([0, 131_072, 2_097_152, 5_000_000])
    ]
    assert shares == pytest.approx([1, 1 / 2, 1 / 4], rel=0.01)
    for n_rows in (8_192, 131_072, 999_936):
        assert _kernel_rows.blocks_to_sum(n_rows + 128, 8_192)


def switcher(**options):
    readouts = [*map(clone, READOUTS.values()), KernelReadout("rbf", window=64)]
    return MDLReadoutSwitcher(readouts, random_state=0, device="cpu", **options)


def fitted(cuts=(), groups=None, **options):
    X, y = digits()
    found = switcher(**options)
    for start, stop in zip([0, *cuts], [*cuts, N], strict=True):
        rows = slice(start, stop)
        own = {} if groups is None else {"groups": groups[rows]}
        found.partial_fit(X[rows], y[rows], classes=np.arange(10), **own)
    return found


def test_blocks_are_counted_from_the_first_row():
    ahead = RowsAhead(64, 32)
    assert [ahead.block(row) for row in (0, 63)] == [(0, 1), (63, 64)]
    assert [ahead.block(row) for row in (64, 95, 96)] == [(64, 96), (64, 96), (96, 128)]
    assert list(ahead.blocks(62, 100)) == [(62, 63), (63, 64), (64, 96), (96, 100)]
    assert ahead.known(62, 98).tolist() == [62, 63, *[64] * 32, 96, 96]
    assert BY_BLOCKS.first % BY_BLOCKS.size == 0


@pytest.mark.parametrize("name", READOUTS)
def test_rows_of_a_block_are_predicted_by_the_rows_before_it(name):
    X, y = digits()
    whole = clone(READOUTS[name]).partial_fit(X, y, classes=range(10))
    part = clone(READOUTS[name])
    for start, stop in ((0, 63), (63, 64), (64, 96), (96, 128), (128, 160), (160, N)):
        if start:
            n = stop if start < 64 else min(start + 32, N)
            found = -np.log(part.predict_proba(X[start:n]))
            own = found[np.arange(n - start), y[start:n]]
            assert_allclose(own, whole.codelengths_[start:n], rtol=1e-9)
        part.partial_fit(X[start:stop], y[start:stop], classes=range(10))


def test_real_numbers_of_a_block_are_predicted_by_the_rows_before_it():
    X, y = digits()
    z = X[:, 20] + 0.1 * y
    whole = clone(REAL).partial_fit(X, z)
    part = clone(REAL).partial_fit(X[:160], z[:160])
    found = part.heldout_codelengths(X[160:161], z[160:161])
    assert_allclose(found, whole.codelengths_[160:161], rtol=1e-12)
    location = part.predict(X[160:192])
    before = clone(REAL).partial_fit(X[:192], z[:192]).codelengths_[160:192]
    assert_array_equal(before, whole.codelengths_[160:192])
    others = clone(REAL).partial_fit(X[:192], np.r_[z[:191], location[31]])
    assert others.codelengths_[191] < whole.codelengths_[191]  # the density's mode


def test_rows_predicted_at_once_make_one_newton_step(monkeypatch):
    monkeypatch.setattr(calibration, "FIRST", 0)
    rng = np.random.default_rng(0)
    before = ForwardSoftmax(2, 3)
    before.counts += 5
    before.curvature *= 50  # so that no factor reaches its bound
    scores, labels = rng.normal(size=(2, 4, 3)), rng.integers(3, size=4)
    ratios = 1 + rng.random((2, 4))
    together = copy.deepcopy(before)
    together.observe(scores, labels, ratios)
    added, gradient = 0, 0
    for i in range(4):
        one = copy.deepcopy(before)
        rows = slice(i, i + 1)
        one.observe(scores[:, rows], labels[rows], ratios[:, rows])
        step = one.factors - before.factors
        gradient = gradient + one.curvature @ step[..., None]
        added = added + one.curvature - before.curvature
    assert_allclose(together.curvature, before.curvature + added, rtol=1e-12)
    step = np.linalg.solve(together.curvature, gradient)[..., 0]
    assert_allclose(together.factors, before.factors + step, rtol=1e-10)
    assert_array_equal(together.counts, before.counts + np.bincount(labels))


@pytest.mark.quick("41-5")
@pytest.mark.parametrize("delay", [0, 5, 40])
@pytest.mark.parametrize("cut", [1, 41])
def test_any_cutting_gives_the_same_bits(cut, delay):
    whole = fitted(label_delay=delay)
    pieces = fitted(range(cut, N, cut), label_delay=delay)
    assert_array_equal(pieces.readout_losses_, whole.readout_losses_)
    X, _ = digits()
    assert_array_equal(pieces.predict_proba(X[:20]), whole.predict_proba(X[:20]))


@pytest.mark.slow
def test_groups_across_blocks_mean_nothing_to_how_a_stream_is_cut():
    sizes = [*range(1, 13), 40, 3, 5, 9, 30, 2, 50]
    groups = np.repeat(np.arange(len(sizes)), sizes)
    groups = np.r_[groups, len(sizes) + np.arange(N - len(groups))]
    whole = fitted(groups=groups)
    ends = np.cumsum(sizes)[4:].tolist()
    assert_array_equal(fitted(ends, groups).readout_losses_, whole.readout_losses_)


def test_a_stream_is_continued_and_decoded_to_the_same_bits(tmp_path):
    X, y = digits()
    whole = fitted()
    part = switcher().partial_fit(X[:137], y[:137], classes=np.arange(10))
    proba = part.predict_proba(X[137:])
    part.save(tmp_path / "part.safetensors")
    loaded = MDLReadoutSwitcher.load(tmp_path / "part.safetensors")
    for other in (loaded, copy.deepcopy(part), pickle.loads(pickle.dumps(part)), part):
        assert_array_equal(other.predict_proba(X[137:]), proba)
        other.partial_fit(X[137:], y[137:])
        assert_array_equal(other.readout_losses_, whole.readout_losses_)
    code = encode_labels(switcher(), X[:140], y[:140])
    assert_array_equal(decode_labels(switcher(), X[:140], code), y[:140])


def test_a_stream_killed_within_a_block_resumes_to_the_same_bits(tmp_path, monkeypatch):
    X, y = digits()
    monkeypatch.setattr(threads, "SEGMENT", 40)
    whole, close, n_left = switcher().fit(X, y), PrequentialRun.close_segment, [5]

    def killed(run, *given):
        n_left[0] -= 1
        if not n_left[0]:
            raise KeyboardInterrupt
        close(run, *given)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "SECONDS", 0.0)
        patch.setattr(checkpoint, "SHARE", np.inf)
        patch.setattr(PrequentialRun, "close_segment", killed)
        with pytest.raises(KeyboardInterrupt):
            switcher(checkpoint=tmp_path).fit(X, y)
    found = switcher(checkpoint=tmp_path).fit(X, y)
    assert_array_equal(found.readout_losses_, whole.readout_losses_)
    assert_array_equal(found.codelengths_, whole.codelengths_)
    assert_array_equal(found.predict_proba(X), whole.predict_proba(X))


def test_predictions_after_a_stream_are_from_all_of_its_labels():
    X, y = digits(100)
    other = y.copy()
    other[-1] = (y[-1] + 1) % 10  # in the middle of a block
    found, expected = (
        switcher().partial_fit(X, own, classes=np.arange(10)).predict_proba(X[-1:])[0]
        for own in (other, y)
    )
    assert found[other[-1]] > expected[other[-1]]


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_within_a_learner_give_the_same_bits(n_jobs):
    found, whole = fitted(n_jobs=n_jobs), fitted()
    assert_array_equal(found.readout_losses_, whole.readout_losses_)
    X, _ = digits()
    assert_array_equal(found.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("row", [120, 150, 200])
def test_a_class_may_arrive_at_any_time(row, tmp_path):
    X, y = digits()
    y = y % 9
    y[row] = y[row + 5] = 9
    readouts = [clone(READOUTS["fits"]), clone(READOUTS["posterior"])]
    whole, part = (
        MDLReadoutSwitcher(readouts, new_classes="escape", device="cpu")
        for _ in range(2)
    )
    whole.partial_fit(X, y, classes=range(9))
    part.partial_fit(X[:215], y[:215], classes=range(9))
    part.save(tmp_path / "part.safetensors")
    loaded = MDLReadoutSwitcher.load(tmp_path / "part.safetensors")
    for other in (part, loaded):
        other.partial_fit(X[215:], y[215:])
        assert_array_equal(other.readout_losses_, whole.readout_losses_)


def test_a_fit_does_not_depend_on_noises_that_retire():
    X, y = digits()
    alphas = (0.003, 0.1, 1.0)
    together = MDLReadoutSwitcher(
        [clone(READOUTS["fits"]).set_params(alpha=a) for a in alphas], device="cpu"
    )
    together.partial_fit(X[:170], y[:170], classes=np.arange(10))
    together._run.retire([0, 2])
    together.partial_fit(X[170:], y[170:])
    alone = MDLReadoutSwitcher(together.readouts[1:2], device="cpu").fit(X, y)
    found, expected = together.readout_losses_[:, 1], alone.readout_losses_[:, 0]
    assert_array_equal(found[:160], expected[:160])
    # All noises then share sums, which were computed from the posterior of one of them.
    assert_allclose(found[160:], expected[160:], rtol=1e-11)


def test_many_labellings_are_fitted_like_one():
    X, y = digits()
    found = MDLReadoutSwitcher([clone(READOUTS["fits"])], switching="fixed-share")
    found.fit(X, y)
    again = found.permutation_test(1, shuffled=True)
    assert again.codelength == pytest.approx(found.codelength_, rel=1e-6)


def test_readouts_that_forget_learn_row_by_row():
    learners = switcher().partial_fit(*digits(), classes=np.arange(10))._run.learners
    ahead = {learner.memory.forgets: learner.rows_ahead.size for learner in learners}
    assert ahead == {True: 1, False: 32}
