"""Tasks of a ranking, and the settings on which their results depend.

A task is one prequential run over an encoder's features of a dataset in one order. The
names of the files with its results contain a digest of the task's identity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone

from sklearn_mdl._core.io.environment import LIBRARIES, fingerprint, version_of
from sklearn_mdl._core.io.parameters import WITHOUT_EFFECT, as_json, settings_of
from sklearn_mdl._core.stream.schedule import grouped_order, keys_of
from sklearn_mdl.readouts import Terms, named_readouts, named_regressors, terms_of
from sklearn_mdl.switcher import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor

Switcher = MDLReadoutSwitcher | MDLReadoutSwitcherRegressor
OVERRULED = frozenset({"random_state", "shuffle"})  # a cell has its own seed and order
# Largest numbers of labels for which default readouts are "linear" and "closed-form".
# The first lies between the 300 and 1,000 labels that ``python -m benchmarks choice``
# measures. With more labels than the second, kernels are no longer exact.
LINEAR_LABELS, FEW_LABELS = 500, 2048


class Task(NamedTuple):
    """One cell to be scored.

    Attributes
    ----------
    dataset, encoder : str
    order, seed : int
        Index of the random order, and seed of the orders, initial weights and replay.
    switcher : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor
        Switcher to copy for the run.
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    data : dict of str to str
        SHA-256 digests of the features, labels and groups, as from `fingerprints`.
    readouts : (name, n_features, n_classes) or None
        The default list that all encoders share on this dataset. It is the list for the
        encoder with the most features. ``n_classes`` is 0 for real labels. None if the
        user gave a list of readouts.
    groups : ndarray of shape (n_samples,) or None
        Group of each row. The labels of a group are only learned once all of its rows
        are coded.
    n_permutations : int or None
        Number of permutations in the permutation test. None for no test.
    """

    dataset: str
    encoder: str
    order: int
    seed: int
    switcher: Switcher
    X: np.ndarray
    y: np.ndarray
    data: Mapping[str, str]
    readouts: tuple[str | None, int, int] | None = None
    groups: np.ndarray | None = None
    n_permutations: int | None = None

    @property
    def is_real(self) -> bool:
        """True if labels are real numbers."""
        return isinstance(self.switcher, MDLReadoutSwitcherRegressor)

    @property
    def device(self) -> str:
        """The device requested by the switcher."""
        return str(self.switcher.device)

    def identity(self, shared: Mapping[str, object]) -> dict[str, object]:
        """Return the names, settings, data digests and versions that identify the cell.

        Parameters
        ----------
        shared : mapping
            Settings of the switcher and versions of libraries, common to all cells of a
            ranking.
        """
        n = self.n_permutations
        return {
            **{name: getattr(self, name) for name in self._fields[:4]},
            **({} if n is None else {"n_permutations": int(n)}),
            "shape": list(self.X.shape),
            "data": dict(self.data),
            "terms": self._terms(),
            **shared,
        }

    def _terms(self) -> dict[str, object] | None:
        if self.readouts is None:  # the switcher's settings include the readouts
            return None
        terms, digest = default_terms(*self.readouts)
        return {**terms.as_json(), "sha256": digest}

    def terms_alone(self, terms: Terms) -> dict[str, object]:
        """Return settings for only this encoder, or {} if they equal ``terms``."""
        if self.readouts is None:
            return {}
        name, _, n_classes = self.readouts
        own = default_terms(name, self.X.shape[1], n_classes)[0]
        return {} if own == terms else own.as_json()

    def check_content(self) -> None:
        """Raise if features, labels or groups have changed since the task was made.

        Raises
        ------
        ValueError
            If the digests differ from ``data``.
        """
        digests = fingerprints(self.X, self.y, self.groups, is_real=self.is_real)
        changed = [name for name in digests if digests[name] != self.data[name]]
        if changed:
            raise ValueError(
                "Features and labels must not change during a ranking, but the "
                f"{' and '.join(changed)} were changed; call fit again"
            )


def draw_order(
    seed: int, order: int, n_samples: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """Return random permutation number ``order`` of the rows.

    Rows of a group stay together.
    """
    rows = np.random.default_rng([seed, order]).permutation(n_samples)
    return grouped_order(rows, keys_of(groups, n_samples))


def default_switcher(n_labels: int, is_real: bool) -> Switcher:
    """Return the default switcher for a dataset with this number of labels."""
    if n_labels <= LINEAR_LABELS and not is_real:
        return MDLReadoutSwitcher("linear")
    kind = MDLReadoutSwitcherRegressor if is_real else MDLReadoutSwitcher
    return kind("closed-form" if n_labels <= FEW_LABELS else None)


def switcher_of(task: Task) -> Switcher:
    """Return a copy of a task's switcher with the task's readouts and seed."""
    switcher: Switcher = clone(task.switcher)
    if task.readouts is not None:
        switcher = on_equal_terms(switcher, *task.readouts[1:])
    return switcher.set_params(random_state=task.seed, shuffle=False)


def on_equal_terms(switcher: Switcher, n_features: int, n_classes: int) -> Switcher:
    """Return a copy of a switcher with the default list for this number of features.

    If the user gave a list of readouts, return the switcher itself. ``n_classes`` is 0
    for real labels.
    """
    name = switcher.readouts
    if not isinstance(name, str | None):
        return switcher
    readouts = _default_list(name, n_features, n_classes)
    return cast(Switcher, clone(switcher).set_params(readouts=readouts))


@lru_cache(maxsize=1024)
def default_terms(
    name: str | None, n_features: int, n_classes: int
) -> tuple[Terms, str]:
    """Return the settings of a default list of readouts, and a digest of the list."""
    readouts = _default_list(name, n_features, n_classes)
    return terms_of(readouts), digest_of(as_json(readouts, "readouts"))


def _default_list(name: str | None, n_features: int, n_classes: int) -> list[Any]:
    """Return a default list of readouts, for real labels if ``n_classes`` is 0."""
    if not n_classes:
        return named_regressors(name, n_features)
    return named_readouts(name, n_features, n_classes)


def fingerprints(
    X: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    is_real: bool = False,
) -> dict[str, str]:
    """Return SHA-256 digests of the features, the labels and any groups.

    Features are hashed as float32 and real labels as float64. Class labels are hashed
    as indices of sorted classes, since results do not depend on the names of classes.
    """
    kind = "<f8" if is_real else "<i8"
    labels = y if is_real else np.unique(y, return_inverse=True)[1]
    labels = labels.reshape(-1, 1)
    digests = {"features": fingerprint(X, "<f4"), "labels": fingerprint(labels, kind)}
    keys = keys_of(groups, len(y))
    if keys is not None:
        digests["groups"] = fingerprint(keys[:, np.newaxis], "<i8")
    return digests


def settings_of_cells(switcher: Switcher) -> dict[str, object]:
    """Return the parameters of a switcher that determine results, as JSON.

    Raises
    ------
    TypeError
        If a parameter cannot be written to JSON.
    """
    return settings_of(switcher, WITHOUT_EFFECT | OVERRULED, "switcher.")


def versions() -> dict[str, str]:
    """Return the versions of the libraries used for computation."""
    return {name: version_of(name) for name in LIBRARIES}


def canonical(content: object) -> bytes:
    """Return the canonical text of JSON data as bytes.

    Raises
    ------
    ValueError
        If the data contain NaN or an infinity, which are not JSON.
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return text.encode()


def digest_of(content: object) -> str:
    """Return the SHA-256 of the canonical text of JSON data."""
    return hashlib.sha256(canonical(content)).hexdigest()
