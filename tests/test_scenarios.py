"""Every law against every scenario; every pair of features runs or is refused."""

import copy
import pickle
import tempfile
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scenarios import (
    FURTHER,
    LISTS,
    REAL_LISTS,
    SCENARIOS,
    SIZE,
    C,
    N,
    Scenario,
    drawn,
    pairs,
)
from sklearn.base import clone

from sklearn_mdl import (
    RepresentationScorer,
    decode_labels,
    encode_labels,
    heldout_codelength_scorer,
)
from sklearn_mdl._core.numerics import check_precision
from sklearn_mdl._core.stream import checkpoint as checkpoint_module
from sklearn_mdl._core.stream.run import PrequentialRun
from sklearn_mdl._core.unsupported import UNSUPPORTED, unsupported
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import FineTunedReadout, ViewReadout
from sklearn_mdl.switcher import load_losses

TRACES = [
    *("codelengths_", "switching_codelengths_", "posterior_", "readout_losses_"),
    *("pool_weights_", "pool_posterior_"),
]

pytestmark = [
    pytest.mark.filterwarnings("ignore:y should be in random order"),
    pytest.mark.filterwarnings("ignore:The number of unique classes"),
    pytest.mark.filterwarnings("ignore:The best readout should lie inside"),
]


@cache
def whole(scenario):
    """The scenario, evaluated in one call."""
    return scenario.fitted()


def equal_of(model, rtol=1e-9):
    """Return what compares numbers of a model: a GPU sums in orders that vary."""
    if model.device == "cpu":
        return assert_array_equal
    return partial(assert_allclose, rtol=rtol, atol=1e-12)


def assert_same(found, expected, rows=slice(None), rtol=1e-9):
    equal = equal_of(expected, rtol)
    for name in TRACES:
        one, other = getattr(found, name)[rows], getattr(expected, name)[rows]
        equal(one, other, err_msg=name)


def assert_same_future(found, expected, rtol=1e-9):
    """Two fitted switchers are in one state: they predict and continue alike."""
    assert_same(found, expected, rtol=rtol)
    equal = equal_of(expected, rtol)
    assert_array_equal(found.retired_at_, expected.retired_at_)
    equal(found._run.trace.summaries, expected._run.trace.summaries)
    equal(found.readout_codelengths_, expected.readout_codelengths_)
    real, grouped = not hasattr(found, "classes_"), bool(found._run.schedule.ends)
    X, y, groups = Scenario("nets", real=real, grouped=grouped).rows(FURTHER, N)
    (equal if real else assert_array_equal)(found.predict(X), expected.predict(X))
    equal(
        found.heldout_codelengths(X, y, **groups),
        expected.heldout_codelengths(X, y, **groups),
    )


def is_wrapped(scenario):
    return scenario.readouts == "wrapped"


# The laws, each of which holds for every scenario unless UNSUPPORTED says otherwise


def law_nothing_looks_ahead(scenario):
    """Other labels from some row on change nothing that was coded before it."""
    equal = equal_of(whole(scenario))
    X, y, groups = scenario.rows()
    n = 7 * SIZE
    expected, other = whole(scenario), y.copy()
    order = expected.order_
    later = order[n:]
    if scenario.grouped:
        assert not set(groups["groups"][order[:n]]) & set(groups["groups"][later])
    other[later] = other[later] + 0.5 if scenario.real else (other[later] + 1) % C
    found = scenario.switcher().fit(X, other, **groups)
    assert_same(found, expected, slice(n))
    n_known = n + 1 + (0 if scenario.grouped else scenario.delay)
    posteriors = found.posterior_, expected.posterior_
    equal(posteriors[0][:n_known], posteriors[1][:n_known])
    equal(found._run.trace.summaries[:n], expected._run.trace.summaries[:n])


def law_calls_mean_nothing(scenario):
    """However a stream is cut into calls, the numbers have the same bits."""
    expected, (X, y, groups) = whole(scenario), scenario.rows()
    order = expected.order_
    found = scenario.switcher()
    cuts = [0, SIZE, 2 * SIZE, 9 * SIZE, N] if scenario.grouped else [0, 3, 4, 37, N]
    for start, stop in pairwise(cuts):
        part = order[start:stop]
        own = {name: keys[part] for name, keys in groups.items()}
        first = scenario.classes() if not start else {}
        found.partial_fit(X[part], y[part], **first, **own)
        found.predict(X[:2])  # leaves no trace
    assert_same_future(found, expected)


def law_labels_are_decoded(scenario):
    """Labels come back from their message, whose length is the codelength."""
    X, y, groups = scenario.rows()
    model = scenario.switcher()
    message = encode_labels(model, X, y, **groups)
    assert_array_equal(decode_labels(model, X, message, **groups), y)
    bits = whole(scenario).codelength_ / np.log(2)
    assert abs(8 * len(message) - bits) < 8 * 5000  # with its header


def law_a_killed_fit_continues(scenario, folder):
    """A fit that was killed continues from its checkpoint."""
    X, y, groups = scenario.rows()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint_module, "SECONDS", 0.0)
        patch.setattr(checkpoint_module, "SHARE", np.inf)
        close, n_left = PrequentialRun.close_segment, [3]

        def killed(run, *given):
            n_left[0] -= 1
            if not n_left[0]:
                raise KeyboardInterrupt
            close(run, *given)

        patch.setattr(PrequentialRun, "close_segment", killed)
        with pytest.raises(KeyboardInterrupt):
            scenario.switcher(checkpoint=folder).fit(X, y, **groups)
    found = scenario.switcher(checkpoint=folder).fit(X, y, **groups)
    assert_same_future(found, whole(scenario))


def law_a_file_holds_everything(scenario, folder):
    """An estimator that was saved continues where it was."""
    expected, path = whole(scenario), folder / "model.safetensors"
    expected.save(path)
    assert_same_future(type(expected).load(path), expected)


def law_a_pickle_holds_everything(scenario):
    expected = whole(scenario)
    assert_same_future(pickle.loads(pickle.dumps(expected)), expected)


def law_heldout_rows_leave_no_trace(scenario):
    """Rows that follow cost the same whether they are held out or learned."""
    equal = equal_of(whole(scenario))
    (X, y, groups), found = scenario.rows(FURTHER, N), copy.deepcopy(whole(scenario))
    nats = found.heldout_codelengths(X, y, **groups)
    assert_same_future(found, whole(scenario))
    found.partial_fit(X, y, **groups)
    equal(found.codelengths_[N:], nats)


def law_parts_give_the_whole(scenario):
    """Readouts that are evaluated in other processes give the same bits."""
    rtol = 1e-4  # on a GPU the steps of a network depend on the width of its stack
    equal = equal_of(whole(scenario), rtol)
    X, y, groups = scenario.rows(FURTHER, N)
    expected = copy.deepcopy(whole(scenario))
    with parallel_config(backend="threading", n_jobs=2):
        found = scenario.fitted(n_jobs="processes")
        assert_same_future(found, expected, rtol)
        for model in (found, expected):
            model.partial_fit(X, y, **groups)
    measures = [list(model.measures()) for model in (found, expected)]
    equal(*np.array(measures, dtype=float))
    assert_same(found, expected, rtol=rtol)


def law_readouts_ignore_each_other(scenario):
    """What a readout predicts does not depend on the list it is in."""
    equal = equal_of(whole(scenario))
    lists = REAL_LISTS if scenario.real else LISTS
    some = lists[scenario.readouts][::2]
    alone = scenario.fitted(readouts=some, race=None)
    together = whole(replace(scenario, race=None))
    equal(alone.readout_losses_, together.readout_losses_[:, ::2])


def law_stored_losses_give_the_code_again(scenario, folder):
    """Prior and pool of the run, over what it stored, give the bits of the run."""
    equal = equal_of(whole(scenario))
    pooled = scenario.pool is not None
    kept = pooled and not scenario.escape
    found = scenario.fitted(store=(folder, "mixtures") if kept else folder)
    assert_same(found, whole(scenario))
    prior = found.switching
    found.save_losses(folder / "saved.npy")
    for stored in (found, load_losses(folder / "saved.npy")):
        again = stored.remix(prior)
        equal(again.codelengths, found.switching_codelengths_)
        equal(again.posterior, found.posterior_)
    stored = load_losses(found.store_ / "losses.npy")
    equal(stored.readout_codelengths, found.readout_codelengths_)
    if kept:
        for source in (found, stored):
            again = source.repool(prior, found.pooling)
            equal(again.codelengths, found.codelengths_)
            equal(again.pool_weights, found.pool_weights_)


def law_a_dry_run_says_what_a_fit_takes(scenario):
    X, y, groups = scenario.rows()
    said = scenario.switcher().dry_run(X, y, **groups)
    assert (said.n_rows, said.trial_rows, said.n_parts) == (N, N // 2, 1)
    assert said.cpu_seconds == said.seconds > 0


LAWS = [law for name, law in sorted(globals().items()) if name.startswith("law_")]


def refused(law, scenario):
    """The row of the table that says why a law cannot be asked of a scenario."""
    rows = {
        (law_labels_are_decoded, scenario.real): ("real labels", "messages"),
        (law_a_file_holds_everything, is_wrapped(scenario)): (
            "readouts that wrap models",
            "files",
        ),
        (law_parts_give_the_whole, is_wrapped(scenario)): (
            "readouts that wrap models",
            'n_jobs="processes"',
        ),
    }
    return rows.get((law, True))


def check(law, scenario, folder):
    row = refused(law, scenario)
    if "folder" in law.__code__.co_varnames[: law.__code__.co_argcount]:
        law = partial(law, folder=folder)
    if row is None:
        law(scenario)
    else:
        assert row in UNSUPPORTED
        with pytest.raises((TypeError, ValueError)):
            law(scenario)


def asked(at_once):
    """Laws of scenarios: every second one of each scenario and law, or the others."""
    return [
        pytest.param(
            law, scenario, id=f"{law.__name__.removeprefix('law_')}: {scenario}"
        )
        for i, scenario in enumerate(SCENARIOS)
        for j, law in enumerate(LAWS)
        if (i + j) % 2 == (not at_once)
    ]


@pytest.mark.parametrize(("law", "scenario"), asked(at_once=True))
def test_every_law_holds_in_scenarios(law, scenario, tmp_path):
    check(law, scenario, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "scenario"), asked(at_once=False))
def test_every_law_holds_in_all_other_scenarios(law, scenario, tmp_path):
    check(law, scenario, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Predictions of readouts should be finite")  # bayes
@pytest.mark.parametrize("number", range(10))
def test_every_law_holds_in_scenarios_that_are_drawn_afresh(number, tmp_path):
    seed = np.random.SeedSequence().entropy
    scenario = drawn(seed)
    print(f"scenario {number}: {scenario}, drawn({seed})")
    for law in LAWS:
        folder = tmp_path / law.__name__
        folder.mkdir()
        check(law, scenario, folder)
    whole.cache_clear()


# Features in pairs: each changes a scenario, or uses what was fitted


def with_options(**options):
    return lambda case: case.options.update(options)


def with_scenario(**changes):
    return lambda case: case.changes.update(changes)


def callbacks(case):
    case.callbacks = True


FEATURES = {
    'new_classes="escape"': with_scenario(escape=True),
    "groups": with_scenario(grouped=True),
    "label_delay": with_scenario(delay=3),
    "readouts that wrap models": with_scenario(readouts="wrapped"),
    "forgetting readouts": with_scenario(readouts="forgetting"),
    "views": with_scenario(readouts="views"),
    "real labels": with_scenario(real=True, readouts="kernels"),
    "pool": with_scenario(pool="forgets"),
    "race": with_scenario(race="race"),
    "shuffle": with_scenario(shuffle=True),
    "store": lambda case: case.options.update(store=case.folder / "store"),
    "stored mixtures": with_options(
        store=("memory", "mixtures"), pooling=LogLinearPool()
    ),
    'n_jobs="processes"': with_options(n_jobs="processes"),
    "n_jobs": with_options(n_jobs=2),
    "checkpoint": lambda case: case.options.update(checkpoint=case.folder / "c"),
    "measures": lambda case: case.uses.append(lambda m, *rows: m.measures()),
    "segments": lambda case: case.uses.append(lambda m, *rows: m.score_segments(3)),
    "remix": lambda case: case.uses.append(lambda m, *rows: m.remix("bayes")),
    "remix_by_view": lambda case: case.uses.append(lambda m, *rows: m.remix_by_view()),
    "a permutation test": lambda case: case.uses.append(
        lambda m, *rows: m.permutation_test(3, shuffled=True)
    ),
    "files": lambda case: case.uses.append(
        lambda m, *rows: m.save(case.folder / "m.safetensors")
    ),
    "saved losses": lambda case: case.uses.append(
        lambda m, *rows: m.save_losses(case.folder / "l.npy")
    ),
    "messages": lambda case: case.uses.append(
        lambda m, X, y, groups: encode_labels(m, X, y, **groups)
    ),
    "dry_run": lambda case: case.uses.append(
        lambda m, X, y, groups: m.dry_run(X, y, **groups)
    ),
    "partial_fit": lambda case: case.uses.append(lambda m, *rows: case.continued(m)),
    "scorers that code rows": lambda case: case.uses.append(
        lambda m, X, y, groups: heldout_codelength_scorer(m, X + 1, y)
    ),
    "a comparison of streams": lambda case: case.uses.append(
        lambda m, X, y, groups: RepresentationScorer(clone(m)).fit({"d": ({"e": X}, y)})
    ),
}


class Case:
    """Features that are combined in one fit."""

    def __init__(self, names, folder):
        self.names, self.options, self.changes, self.uses = names, {}, {}, []
        self.folder = folder
        for name in names:
            FEATURES[name](self)

    @property
    def conflict(self):
        """Two features that set the same thing are no combination."""
        changed = [set(_changes(FEATURES[name])) for name in self.names]
        return bool(changed[0] & changed[1])

    def continued(self, model):
        X, y, groups = self.scenario.rows(FURTHER, N)
        return model.partial_fit(X, y, **groups)

    def run(self):
        needs_kernels = "a permutation test" in self.names
        defaults = {"readouts": "kernels" if needs_kernels else "nets"}
        self.scenario = Scenario(**{**defaults, **self.changes})
        X, y, groups = self.scenario.rows()
        with parallel_config(backend="threading"):
            model = self.scenario.switcher(**self.options).fit(X, y, **groups)
            for use in self.uses:
                use(model, X, y, groups)


def _changes(feature):
    probe = type("Probe", (), {"options": {}, "changes": {}, "uses": []})()
    probe.folder = Path()
    feature(probe)
    return [*probe.options, *probe.changes]


def row_of(names):
    return [row for row in UNSUPPORTED if set(row) == set(names)]


NO_COMBINATIONS = [
    {"a permutation test", "readouts that wrap models"},  # lists without a kernel
    {"a permutation test", "forgetting readouts"},
    {'new_classes="escape"', "real labels"},  # which are no classes
]


def check_pair(names):
    # On Windows, files that are still mapped cannot be removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        case = Case(names, Path(folder))
        if case.conflict or set(names) in NO_COMBINATIONS:
            return
        if row := row_of(names):
            with pytest.raises((TypeError, ValueError)) as caught:
                case.run()
            if "files" not in row[0]:
                assert UNSUPPORTED[row[0]] in str(caught.value)
        else:
            case.run()


PAIRS = pairs(FEATURES)


@pytest.mark.quick("0", "1", "2", "3", "4", "5")
@pytest.mark.parametrize("number", range(12))
def test_every_pair_of_features_runs_or_is_in_the_table(number):
    for names in PAIRS[number::36]:
        check_pair(names)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12, 36))
def test_all_other_pairs_of_features_run_or_are_in_the_table(number):
    for names in PAIRS[number::36]:
        check_pair(names)


def test_rows_of_the_table_are_few_and_each_is_refused():
    """Those that need other data than the scenarios, too."""
    assert len(UNSUPPORTED) <= 13
    elsewhere = {('precision="tf32"', "n_jobs"), ("images", "views")}
    for row in set(UNSUPPORTED) - elsewhere:
        check_pair(row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn_mdl._core.numerics._multiplies", lambda *given: True)
        with pytest.raises(ValueError, match="torch has one precision"):
            check_precision("tf32", None, 2)
    block = ViewReadout(FineTunedReadout("resnet18"), columns=[0])
    with pytest.raises(TypeError, match="columns of an image are not features"):
        block._validate_params()
    with pytest.raises(KeyError):
        raise unsupported("race", "pool", "none")
