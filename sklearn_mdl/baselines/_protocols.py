"""Protocols, and their measurement on one encoder's features."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.baselines._base import Array
from sklearn_mdl.baselines._blockwise import BlockwiseCode
from sklearn_mdl.baselines._control_tasks import selectivity
from sklearn_mdl.baselines._evidence import log_evidence, rank_me
from sklearn_mdl.baselines._net_probes import LinearProbe, MLPProbe
from sklearn_mdl.baselines._probes import KNeighborsProbe
from sklearn_mdl.baselines._refits import subsampled_losses
from sklearn_mdl.baselines._usable_information import usable_information
from sklearn_mdl.baselines._variational import VariationalCode
from sklearn_mdl.metrics import (
    excess_description_length,
    sample_complexity,
    surplus_description_length,
)
from sklearn_mdl.model_selection import Failure
from sklearn_mdl.readouts import Notes, collected, seeded
from sklearn_mdl.switcher import MDLReadoutSwitcher

ACCURACY, EVIDENCE, NATS = "accuracy", "nats per example", "nats"
LABELS, DIMENSIONS = "labels", "dimensions"
Rows = tuple[Array, Array]  # rows and their labels
OF_LOSSES = ("mdl", "sdl", "esc", "edl", "epiplexity")  # of the same run
# Protocols that use the estimator of another protocol by default, and the other.
SOURCES = {**dict.fromkeys(OF_LOSSES[1:], "mdl"), "selectivity": "linear"}
N_PERMUTATIONS = 20


class Protocol(NamedTuple):
    """A measure of features.

    Attributes
    ----------
    name, title : str
    unit : {"accuracy", "nats per example", "nats", "labels", "dimensions"}
    greater_is_better : bool
    """

    name: str
    title: str
    unit: str
    greater_is_better: bool


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("linear", "linear probe", ACCURACY, True),
        Protocol("mlp", "MLP probe", ACCURACY, True),
        Protocol("knn", "nearest neighbours", ACCURACY, True),
        Protocol("selectivity", "selectivity of a linear probe", ACCURACY, True),
        Protocol("logme", "LogME", EVIDENCE, True),
        Protocol("rankme", "RankMe, without labels", DIMENSIONS, True),
        Protocol("vinfo", "linear V-information", EVIDENCE, True),
        Protocol("permutation", "saved relative to permuted labels", NATS, True),
        Protocol("blockwise", "block-wise code", NATS, False),
        Protocol("variational", "variational code", NATS, False),
        Protocol("sdl", "surplus description length", NATS, False),
        Protocol("esc", "sample complexity", LABELS, False),
        Protocol("edl", "excess description length", NATS, False),
        Protocol("epiplexity", "loss above its final value", NATS, False),
        Protocol("mdl", "readout model switching", NATS, False),
    )
}


def _small_mlp_probe() -> MLPProbe:
    """Return a probe that a CPU trains in seconds, unlike the paper's grid."""
    widths = [(128,), (128, 128)]
    return MLPProbe(widths, lr=(1e-3, 3e-3), weight_decay=(0, 1e-2), max_steps=500)


DEFAULTS: dict[str, Callable[[], BaseEstimator]] = {
    "linear": LinearProbe,
    "mlp": _small_mlp_probe,
    "knn": KNeighborsProbe,
    "selectivity": LinearProbe,
    "blockwise": BlockwiseCode,
    "variational": VariationalCode,
    "permutation": lambda: MDLReadoutSwitcher(readouts="closed-form"),
    "mdl": MDLReadoutSwitcher,
}


class Split(NamedTuple):
    """Train and test rows of a dataset, shared by all encoders.

    Attributes
    ----------
    y : ndarray of shape (n_samples,)
    types : ndarray of shape (n_samples,) or None
        Types for control tasks.
    order : ndarray of shape (n_samples,)
        A permutation of the row indices. The first ``n_train`` are train rows.
    n_train : int
    epsilon : float
        Target loss, in nats per label.
    seed : int
    """

    y: Array
    types: Array | None
    order: Array
    n_train: int
    epsilon: float
    seed: int

    def cut(self, values: Array) -> tuple[Array, Array]:
        """Return the train and the test rows of an array."""
        return values[self.order[: self.n_train]], values[self.order[self.n_train :]]


class Measurement(NamedTuple):
    """A computation that serves one or more protocols.

    Attributes
    ----------
    dataset, encoder : str
    protocols : tuple of str
    estimator : estimator or None
        None if the protocols need no estimator.
    X : ndarray of shape (n_samples, width)
        Features of the encoder.
    split : Split
    order : None
        Always None. A `Failure` of this measurement copies it.
    """

    dataset: str
    encoder: str
    protocols: tuple[str, ...]
    estimator: BaseEstimator | None
    X: Array
    split: Split
    order: None = None

    @property
    def device(self) -> str:
        """The estimator's ``device``, or "cpu" if it has none."""
        return str(getattr(self.estimator, "device", "cpu"))


class Measured(NamedTuple):
    """Values of protocols from one computation.

    Attributes
    ----------
    values : dict of str to (float, bool)
        For each protocol, the value and whether it is a lower bound. Empty if the
        computation failed.
    seconds : float
    reason : str
        Why values are missing (empty if there are values).
    notes : list of str
        Warnings of the computation.
    """

    values: Mapping[str, tuple[float, bool]]
    seconds: float
    reason: str
    notes: list[str]


def list_estimators(
    protocols: Mapping[str, BaseEstimator | None],
) -> list[tuple[tuple[str, ...], BaseEstimator | None]]:
    """Group the protocols that share a computation, each group with its estimator.

    Unless they have their own estimators, "sdl", "esc", "edl" and "epiplexity" use the
    run of "mdl", and "selectivity" uses the estimator of "linear".

    Raises
    ------
    ValueError
        If there are no protocols, or if a name is unknown and has no estimator. Also if
        "logme" or "rankme", which need no estimator, get one.
    TypeError
        If the value of a name is not an estimator. Also if a protocol that needs a
        switcher ("mdl", "permutation", "edl" and "epiplexity") or a VariationalCode
        ("variational") gets another estimator.
    """
    if not protocols:
        required, cure = f"at least one of {list(PROTOCOLS)}", "omit protocols for all"
        raise ValueError(f"protocols must contain {required}, got none; {cure}")
    built = {name: build() for name, build in DEFAULTS.items()}
    groups: dict[tuple[str, int], tuple[list[str], BaseEstimator | None]] = {}
    for name, given in protocols.items():
        _check_protocol(name, given)
        source = SOURCES.get(name, name)
        choices = (given, protocols.get(source), built.get(source))
        estimator = next((choice for choice in choices if choice is not None), None)
        kind = "mdl" if name in OF_LOSSES else name
        groups.setdefault((kind, id(estimator)), ([], estimator))[0].append(name)
    return [(tuple(names), estimator) for names, estimator in groups.values()]


def _check_protocol(name: object, estimator: object) -> None:
    if not isinstance(name, str) or (name not in PROTOCOLS and estimator is None):
        cure = f"for a classifier's accuracy, pass {{{str(name)!r}: classifier}}"
        raise invalid("protocols", f"among {sorted(PROTOCOLS)}", name, cure)
    can_fit = hasattr(estimator, "fit") and not isinstance(estimator, type)
    if estimator is not None and not can_fit:
        raise TypeError(
            f"{name!r} needs an estimator, got {estimator!r}; pass an instance"
        )
    if estimator is not None and name in ("logme", "rankme"):
        cure = f"pass {{{name!r}: None}}, or choose another name for its accuracy"
        raise invalid(f"The estimator of {name!r}", "None", estimator, cure)
    if name == "variational" and not isinstance(estimator, VariationalCode | None):
        raise TypeError(f"{name!r} needs a VariationalCode, got {estimator}; pass None")
    needs_run = name in ("mdl", "permutation", "edl", "epiplexity")
    if needs_run and not isinstance(estimator, MDLReadoutSwitcher | None):
        raise TypeError(
            f"{name!r} needs an MDLReadoutSwitcher, got {estimator!r}; to wrap a "
            "classifier, pass MDLReadoutSwitcher([RefitReadout(...)])"
        )


def measure(task: Measurement, device: str | None = None) -> Measured:
    """Measure the protocols of a task, or record why they fail.

    Parameters
    ----------
    task : Measurement
    device : str or None
        Overrides the estimator's device unless None.
    """
    estimator, split = task.estimator, task.split
    if device is not None and estimator is not None:
        estimator = clone(estimator).set_params(device=device)
    notes, start, reason = Notes(), time.perf_counter(), ""
    values: dict[str, tuple[float, bool]] = {}
    name = task.protocols[0]
    try:
        with collected(notes, split.n_train):
            train, test = zip(split.cut(task.X), split.cut(split.y), strict=True)
            if name in OF_LOSSES:
                values = _of_losses(estimator, train, test, split)
            else:
                values = {name: (_value(name, estimator, train, test, split), False)}
    except Exception as error:
        reason = Failure.of(error, task.dataset, task.encoder).error
    return Measured(values, time.perf_counter() - start, reason, notes.lines())


def _value(
    name: str, estimator: BaseEstimator | None, train: Rows, test: Rows, split: Split
) -> float:
    if name == "logme":
        return log_evidence(*train).value
    if name == "rankme":
        return rank_me(train[0])
    if name == "vinfo":
        own = None if estimator is None else seeded(estimator, split.seed)
        return usable_information(train, test, own).value
    if name == "blockwise" and not isinstance(estimator, BlockwiseCode):
        estimator = BlockwiseCode(estimator)
    estimator = seeded(estimator, split.seed)
    if name in ("blockwise", "variational"):
        return float(estimator.fit(*train).codelength_)
    if name == "permutation":
        return _saved_by_order(estimator, train)
    if name == "selectivity":
        if split.types is None:
            raise ValueError(
                "Control tasks need types or X of finite numbers, but there are "
                "neither; pass types, one for each row"
            )
        types = split.cut(split.types)
        return selectivity(estimator, train, test, types, random_state=split.seed).value
    if not is_classifier(estimator):
        raise TypeError(
            f"Accuracy needs a classifier, got {estimator!r}; pass LogisticRegression()"
        )
    X, y = test
    return float(np.mean(estimator.fit(*train).predict(X) == y))


def _of_losses(
    estimator: BaseEstimator | None, train: Rows, test: Rows, split: Split
) -> dict[str, tuple[float, bool]]:
    """Compute measures from the losses of a switcher, or of fits on subsamples."""
    if not isinstance(estimator, MDLReadoutSwitcher):
        curve = subsampled_losses(estimator, train, test, random_state=split.seed)
        losses, sizes = curve.losses, curve.sizes
        values = {"mdl": (float("nan"), False)}
    else:
        switcher = clone(estimator)
        if switcher.random_state is None:
            switcher.set_params(random_state=split.seed)
        # With a store, all encoders would write to the same folder.
        switcher.set_params(store="memory", checkpoint=None)
        switcher.fit(*train)
        losses, sizes = np.maximum(0.0, switcher.codelengths_), None
        edl = excess_description_length(losses, _final_loss(switcher, test))
        values = {"mdl": (float(switcher.codelength_), False), "edl": (edl, False)}
        values["epiplexity"] = excess_description_length(losses), False
    values["sdl"] = surplus_description_length(losses, split.epsilon, sizes=sizes)
    values["esc"] = sample_complexity(losses, split.epsilon, sizes=sizes)
    return values


def _final_loss(switcher: MDLReadoutSwitcher, test: Rows) -> float:
    """Return a fitted switcher's mean loss on test rows whose classes it knows."""
    X, y = test
    known = np.isin(y, switcher.classes_)
    if not known.all():
        text = f"'edl' leaves out {(~known).sum()} test rows of classes not learned"
        warnings.warn(text, stacklevel=2)
    proba = switcher.predict_proba(X[known])
    places = (y[known][:, np.newaxis] == switcher.classes_).argmax(1)
    return -float(np.log(proba[np.arange(len(places)), places]).mean())


def _saved_by_order(estimator: MDLReadoutSwitcher, train: Rows) -> float:
    """Return the mean codelength of permuted labels minus that of the labels."""
    settings = {"shuffle": True, "store": "memory", "checkpoint": None}
    switcher = clone(estimator).set_params(**settings).fit(*train)
    test = switcher.permutation_test(N_PERMUTATIONS)
    return float(np.mean(test.null_codelengths)) - float(test.codelength)
