"""Scenarios: small streams, and settings of switchers in many combinations.

``test_scenarios.py`` holds every law against every scenario. A feature is a setting
that may be combined with others; each pair of them runs or is a row of `UNSUPPORTED`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_mdl import (
    FixedShare,
    IncrementalReadout,
    KernelReadout,
    KNeighborsReadout,
    LearnedShare,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    RefitReadout,
    SwitchDistribution,
)
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import (
    CentroidReadout,
    DiscriminantReadout,
    DummyReadout,
    DummyReadoutRegressor,
    KernelReadoutRegressor,
    LinearReadoutRegressor,
    MLPReadoutRegressor,
    ViewReadout,
)
from sklearn_mdl.switching import Race

N, D, C, SIZE = 72, 4, 3, 4  # rows, features, classes, rows of a group
FURTHER = 12  # rows that follow

NETS = [
    LinearReadout(lr=0.03, n_replay_streams=2),
    MLPReadout((4,), lr=0.03, ema_step_size=0.1, n_replay_streams=2),
    LinearReadout(lr=0.1, n_replay_streams=1, recency=0.5, scaling="whiten"),
]
LISTS = {
    "nets": NETS,
    "kernels": [
        KernelReadout(),
        KernelReadout("rbf", gamma=0.1, scaling=None, max_exact=32),
        KernelReadout(alpha=0.1),
        DiscriminantReadout(),
        DummyReadout("transition"),
    ],
    "forgetting": [
        KernelReadout(scaling="unit", restart=16),
        KernelReadout("rbf", scaling="within-class", window=64),
        CentroidReadout(restart=16),
        KNeighborsReadout(3, restart=12),
        KNeighborsReadout(3),
    ],
    "views": [
        ViewReadout(KernelReadout(), columns=slice(0, 2), name="left"),
        ViewReadout(NETS[0], columns=slice(2, 4), name="right"),
        NETS[0],
    ],
    "wrapped": [
        IncrementalReadout(GaussianNB()),
        RefitReadout(LogisticRegression()),
        KNeighborsReadout(3),
        NETS[0],
    ],
}
REAL_LISTS = {
    "nets": [
        LinearReadoutRegressor(lr=0.03, n_replay_streams=2),
        MLPReadoutRegressor((4,), lr=0.03, n_replay_streams=2),
        LinearReadoutRegressor(lr=0.01, n_replay_streams=2),
    ],
    "kernels": [
        KernelReadoutRegressor(),
        KernelReadoutRegressor(restart=16),
        DummyReadoutRegressor("last"),
        LinearReadoutRegressor(lr=0.03, n_replay_streams=2),
    ],
}
POOLS = {
    None: None,
    "pool": LogLinearPool(),
    "forgets": LogLinearPool(half_life=30, rates=[0.1, 0.01]),
}
RACES = {
    None: None,
    "race": Race(min_samples=16, min_readouts=2, slack=0.5, tolerance=0.01),
}
PRIORS = {
    "learned": LearnedShare(ms=(2, 6)),
    "fixed": FixedShare(m=3),
    "bayes": "bayes",
    "elementwise": "elementwise",
    "distribution": SwitchDistribution(),
    "others": FixedShare(alpha=0.1, redraw=False),
}


@dataclass(frozen=True)
class Scenario:
    """Settings of a switcher, and when the labels of its stream are known."""

    readouts: str
    pool: str | None = None
    race: str | None = None
    prior: str = "learned"
    grouped: bool = False
    delay: int = 0
    escape: bool = False
    real: bool = False
    first: int | None = None
    shuffle: bool = False
    device: str = "cpu"

    def __str__(self):
        kind = "real " if self.real else ""
        flags = [self.pool, self.race, self.prior if self.prior != "learned" else None]
        flags += [
            "grouped" if self.grouped else None,
            "escape" if self.escape else None,
        ]
        flags += [f"delay {self.delay}" if self.delay else None]
        flags += ["shuffled" if self.shuffle else None]
        return ", ".join([kind + self.readouts, *filter(None, flags)])

    def switcher(self, **options):
        lists, kind = LISTS, MDLReadoutSwitcher
        if self.real:
            lists, kind = REAL_LISTS, MDLReadoutSwitcherRegressor
        settings = {
            "switching": PRIORS[self.prior],
            "pooling": POOLS[self.pool],
            "race": RACES[self.race],
            "label_delay": self.delay,
            "shuffle": self.shuffle,
            "batch_size": 8 if self.first is None else (self.first, 8),
            "device": self.device,
            "random_state": 0,
        }
        if self.escape:
            settings["new_classes"] = "escape"
        readouts = options.pop("readouts", lists[self.readouts])
        return kind(readouts, **{**settings, **options})

    def rows(self, n=N, start=0):
        """Rows, labels and keywords for ``fit``."""
        rng = np.random.default_rng(3)
        y = (
            np.arange(N + FURTHER) % C
            if self.real
            else rng.integers(C, size=N + FURTHER)
        )
        X = rng.normal(size=(N + FURTHER, D)) + 2 * np.eye(C, D)[y]
        if self.real:
            y = y + np.linspace(0, 1, len(y))
        groups = np.arange(N + FURTHER) // SIZE
        part = slice(start, start + n)
        return X[part], y[part], {"groups": groups[part]} if self.grouped else {}

    def fitted(self, **options):
        X, y, groups = self.rows()
        return self.switcher(**options).fit(X, y, **groups)

    def classes(self):
        """Keywords of the first ``partial_fit``."""
        return {} if self.real or self.escape else {"classes": np.arange(C)}


SCENARIOS = [
    Scenario("nets"),
    Scenario("nets", "pool", "race", delay=5, first=4),
    Scenario("nets", prior="bayes", grouped=True, delay=6),
    Scenario("nets", "forgets", prior="others", escape=True, first=4),
    Scenario("kernels", "pool", "race", first=4),
    Scenario("kernels", "pool", "race", prior="fixed", grouped=True, first=4),
    Scenario("kernels", "forgets", prior="elementwise", delay=11),
    Scenario("kernels", "pool", "race", prior="fixed", escape=True),
    Scenario("forgetting", "forgets", grouped=True, delay=3, first=4),
    Scenario("forgetting", prior="distribution", escape=True),
    Scenario("views", "pool", "race", delay=2, shuffle=True),
    Scenario("views", prior="others", grouped=True, first=4),
    Scenario("wrapped", "pool", "race", delay=3),
    Scenario("wrapped", "forgets", grouped=True, prior="distribution"),
    Scenario("nets", "pool", "race", real=True, grouped=True, delay=2, first=4),
    Scenario("kernels", "forgets", "race", prior="fixed", real=True, delay=7),
    Scenario("kernels", "pool", real=True, grouped=True, shuffle=True),
]


def drawn(seed):
    """Draw a scenario of any combination that is supported."""
    rng = np.random.default_rng(seed)

    def pick(values):
        values = list(values)
        return values[rng.integers(len(values))]

    real = bool(rng.random() < 0.3)
    escape = bool(not real and rng.random() < 0.3)
    return Scenario(
        pick(REAL_LISTS if real else LISTS),
        pick(POOLS),
        pick(RACES),
        pick(PRIORS),
        grouped=bool(not escape and rng.random() < 0.5),
        delay=0 if escape else pick([0, 1, 5, 13]),
        escape=escape,
        real=real,
        first=pick([None, 1, 4]),
        shuffle=bool(rng.random() < 0.3),
    )


def pairs(names):
    return list(itertools.combinations(sorted(names), 2))
