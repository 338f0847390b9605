"""How each protocol is measured on the features of one encoder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from sklearn_mdl.codelength import sample_complexity, surplus_description_length
from sklearn_mdl.experts.draws import seeded
from sklearn_mdl.experts.notes import Notes, collected
from sklearn_mdl.probes import KNeighborsProbe, LinearProbe, MLPProbe
from sklearn_mdl.protocols.blockwise import BlockwiseCode
from sklearn_mdl.protocols.controls import selectivity
from sklearn_mdl.protocols.evidence import log_evidence
from sklearn_mdl.protocols.subsamples import subsampled_losses
from sklearn_mdl.protocols.variational import VariationalCode
from sklearn_mdl.switcher import MDLReadoutSwitcher

Array = NDArray[Any]

ACCURACY, EVIDENCE, NATS, LABELS = "accuracy", "nats per example", "nats", "labels"


class Protocol(NamedTuple):
    """A measure of features.

    Attributes
    ----------
    name, title : str
    unit : {"accuracy", "nats per example", "nats", "labels"}
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
        Protocol("blockwise", "block-wise code", NATS, False),
        Protocol("variational", "variational code", NATS, False),
        Protocol("sdl", "surplus description length", NATS, False),
        Protocol("esc", "sample complexity", LABELS, False),
        Protocol("mdl", "readout model switching", NATS, False),
    )
}


class Part(NamedTuple):
    """Features of one encoder on one dataset, split.

    Attributes
    ----------
    train, test : (X, y)
    types : (ndarray, ndarray) or None
        Of train and test rows, for control tasks.
    epsilon : float
        Loss that is good enough, in nats a label.
    """

    train: tuple[Array, Array]
    test: tuple[Array, Array]
    types: tuple[Array, Array] | None
    epsilon: float


class Measured(NamedTuple):
    """What a protocol says.

    Attributes
    ----------
    value : float
        NaN if it could not be computed.
    is_bound : bool
        Whether the truth is at least `value`.
    """

    value: float
    is_bound: bool = False


class Job(NamedTuple):
    """Protocols that one computation serves.

    Attributes
    ----------
    names : tuple of str
        Of the protocols.
    estimator : estimator or None
    """

    names: tuple[str, ...]
    estimator: Any


class Outcome(NamedTuple):
    """What came of a job.

    Attributes
    ----------
    measured : dict of str to Measured
        By protocol.
    seconds : float
    reason : str
        Why there is no number; empty if there is one.
    notes : list of str
        Warnings on the way.
    """

    measured: dict[str, Measured]
    seconds: float
    reason: str
    notes: list[str]


def list_jobs(protocols: Mapping[str, Any]) -> list[Job]:
    """Say what is to be computed for protocols, each with its estimator or None.

    The walk of "mdl" serves "sdl" and "esc" as well, unless these have estimators of
    their own; "selectivity" is that of the linear probe.

    Raises
    ------
    ValueError
        If a name is unknown and has no classifier.
    TypeError
        If what stands with a name is no estimator, or with "mdl" no switcher.
    """
    groups: dict[tuple[str, int], list[str]] = {}
    estimators: dict[tuple[str, int], Any] = {}
    for name, given in protocols.items():
        _check_protocol(name, given)
        estimator = given
        if given is None and name in ("sdl", "esc"):
            estimator = protocols.get("mdl")
        if given is None and name == "selectivity":
            estimator = protocols.get("linear")
        kind = "walk" if name in ("mdl", "sdl", "esc") else name
        key = (kind, id(estimator))
        groups.setdefault(key, []).append(name)
        estimators[key] = estimator
    return [Job(tuple(names), estimators[key]) for key, names in groups.items()]


def _check_protocol(name: Any, estimator: Any) -> None:
    if not isinstance(name, str) or (name not in PROTOCOLS and estimator is None):
        raise ValueError(
            f"protocols must be among {sorted(PROTOCOLS)}, got {name!r}; or give a "
            "classifier with the name, {name: classifier}, whose accuracy is taken"
        )
    if isinstance(estimator, type) or (
        estimator is not None and not hasattr(estimator, "fit")
    ):
        raise TypeError(
            f"A protocol takes an estimator or None, but {name!r} has {estimator!r}; "
            "pass an instance with fit"
        )
    if name == "mdl" and not isinstance(estimator, MDLReadoutSwitcher | None):
        raise TypeError(
            f"'mdl' needs an MDLReadoutSwitcher, got {estimator!r}; wrap a classifier: "
            "MDLReadoutSwitcher([RefittedExpert(...)])"
        )


def measure(job: Job, part: Part, seed: int) -> Outcome:
    """Run a job: what fails has a reason in the place of a number."""
    notes, started, reason = Notes(), time.perf_counter(), ""
    measured = dict.fromkeys(job.names, Measured(float("nan")))
    try:
        with collected(notes, len(part.train[1])):
            measured = _measurer(job)(job, part, seed)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    seconds = time.perf_counter() - started
    return Outcome(measured, seconds, reason, notes.lines())


Measurer = Callable[[Job, Part, int], dict[str, Measured]]


def _measurer(job: Job) -> Measurer:
    name = job.names[0]
    if name in ("mdl", "sdl", "esc"):
        own = job.estimator is None or isinstance(job.estimator, MDLReadoutSwitcher)
        return _of_walk if own else _of_subsamples
    return _MEASURERS.get(name, _of_probe)


def _seeded(estimator: Any, seed: int) -> Any:
    return seeded(clone(estimator), seed)


def _of_probe(job: Job, part: Part, seed: int) -> dict[str, Measured]:
    (name,) = job.names
    probe = _default(name) if job.estimator is None else job.estimator
    if not is_classifier(probe):
        raise TypeError(f"An accuracy needs a classifier, got {probe!r}; pass one")
    X, y = part.test
    fitted = _seeded(probe, seed).fit(*part.train)
    return {name: Measured(float(np.mean(fitted.predict(X) == y)))}


def _default(name: str) -> Any:
    """Return probes that a CPU trains in seconds: the paper's perceptrons do not."""
    if name == "knn":
        return KNeighborsProbe()
    if name == "mlp":
        return MLPProbe(
            [(128,), (128, 128)], lr=(1e-3, 3e-3), weight_decay=(0, 1e-2), max_steps=500
        )
    return LinearProbe()


def _of_control(job: Job, part: Part, seed: int) -> dict[str, Measured]:
    if part.types is None:
        raise ValueError(
            "Control tasks need types of rows, or X as finite numbers to be clustered, "
            "but there is neither; pass types"
        )
    probe = LinearProbe() if job.estimator is None else job.estimator
    found = selectivity(
        _seeded(probe, seed), part.train, part.test, part.types, random_state=seed
    )
    return {job.names[0]: Measured(found.value)}


def _of_evidence(job: Job, part: Part, seed: int) -> dict[str, Measured]:
    return {job.names[0]: Measured(log_evidence(*part.train).value)}


def _of_code(job: Job, part: Part, seed: int) -> dict[str, Measured]:
    """Code by an estimator that leaves a codelength."""
    (name,) = job.names
    codes = {"blockwise": BlockwiseCode, "variational": VariationalCode}
    code = codes[name]() if job.estimator is None else job.estimator
    if name == "blockwise" and is_classifier(code):
        code = BlockwiseCode(code)
    fitted = _seeded(code, seed).fit(*part.train)
    return {name: Measured(float(fitted.codelength_))}


def _of_walk(job: Job, part: Part, seed: int) -> dict[str, Measured]:
    make: Any = MDLReadoutSwitcher
    switcher = make() if job.estimator is None else job.estimator
    if switcher.random_state is None:
        switcher = clone(switcher).set_params(random_state=seed)
    # One folder would serve all encoders, one after the other or side by side.
    fitted = clone(switcher).set_params(store="memory", checkpoint=None)
    fitted.fit(*part.train)
    costs = np.maximum(0.0, fitted.codelengths_)
    found = {
        "mdl": Measured(float(fitted.codelength_)),
        "sdl": Measured(*surplus_description_length(costs, part.epsilon)),
        "esc": Measured(*sample_complexity(costs, part.epsilon)),
    }
    return {name: found[name] for name in job.names}


def _of_subsamples(job: Job, part: Part, seed: int) -> dict[str, Measured]:
    """Read off the loss of a classifier on test rows, fitted on subsamples."""
    curve = subsampled_losses(job.estimator, part.train, part.test, random_state=seed)
    losses, sizes = curve.losses, curve.sizes
    found = {
        "sdl": surplus_description_length(losses, part.epsilon, sizes=sizes),
        "esc": sample_complexity(losses, part.epsilon, sizes=sizes),
    }
    return {name: Measured(*found[name]) for name in job.names}


_MEASURERS: dict[str, Measurer] = {
    "selectivity": _of_control,
    "logme": _of_evidence,
    "blockwise": _of_code,
    "variational": _of_code,
}
