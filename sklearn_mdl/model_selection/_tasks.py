"""Tasks of a ranking: what is to be scored, and all that determines its numbers.

A task is one prequential run to be made, for an encoder, a dataset and an order. Files
are named by its identity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sklearn_mdl._core.io.environment import LIBRARIES, fingerprint, version_of
from sklearn_mdl._core.io.parameters import WITHOUT_EFFECT, as_json, settings_of
from sklearn_mdl._core.stream.schedule import grouped_order, keys_of
from sklearn_mdl.readouts import Terms, named_readouts, named_regressors, terms_of
from sklearn_mdl.switcher import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor

Switcher = MDLReadoutSwitcher | MDLReadoutSwitcherRegressor
OVERRULED = frozenset({"random_state", "shuffle"})  # a cell has a seed of its own


class Task(NamedTuple):
    """One cell to be scored.

    Attributes
    ----------
    dataset, encoder : str
    order, seed : int
        Number of the random order; seed of orders, initial weights and replay.
    switcher : MDLReadoutSwitcher
        Copied for the run.
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    data : dict of str to str
        SHA-256 of X and y as the run reads them.
    readouts : (name, n_features, n_classes) or None
        Where the switcher has a default list, the one that all encoders have on this
        dataset: that for the widest of them.
    groups : ndarray of shape (n_samples,) or None
        Of the rows: no label of one is learned before all its rows are coded.
    n_permutations : int or None
        Labellings of a permutation test of the kernel readouts.
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
        """Whether labels are real numbers."""
        return isinstance(self.switcher, MDLReadoutSwitcherRegressor)

    @property
    def device(self) -> str:
        """The device that the switcher asks for."""
        return str(self.switcher.device)

    def identity(self, shared: Mapping[str, object]) -> dict[str, object]:
        """Name everything that determines the numbers of the cell.

        Parameters
        ----------
        shared : mapping
            Settings of the switcher and versions of the libraries, the same for all
            cells of a ranking.
        """
        n = self.n_permutations
        return {
            **{name: getattr(self, name) for name in self._fields[:4]},
            **({} if n is None else {"n_permutations": n}),
            "shape": list(self.X.shape),
            "data": dict(self.data),
            "terms": self._terms(),
            **shared,
        }

    def _terms(self) -> dict[str, object] | None:
        if self.readouts is None:  # they are among the settings
            return None
        terms, digest = default_terms(*self.readouts)
        return {**terms.as_json(), "sha256": digest}

    def terms_alone(self, terms: Terms) -> dict[str, object]:
        """Return the terms that the encoder would have alone, if they are others."""
        if self.readouts is None:
            return {}
        name, _, n_classes = self.readouts
        own = default_terms(name, self.X.shape[1], n_classes)[0]
        return {} if own == terms else own.as_json()

    def check_content(self) -> None:
        """Refuse features or labels that were changed since they were digested.

        Raises
        ------
        ValueError
            If their digests are others.
        """
        found = fingerprints(self.X, self.y, self.groups, is_real=self.is_real)
        changed = [name for name in found if found[name] != self.data[name]]
        if changed:
            raise ValueError(
                "Features and labels must not change during a ranking, but the "
                f"{' and '.join(changed)} were changed; fit again"
            )


def draw_order(
    seed: int, order: int, n_samples: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """Return permutation number ``order``, the same for all encoders: cells pair."""
    rows = np.random.default_rng([seed, order]).permutation(n_samples)
    keys = keys_of(groups, n_samples)
    return rows if keys is None else grouped_order(rows, keys)


def switcher_of(task: Task) -> Switcher:
    """Return a copy of the switcher with the readouts that all encoders have."""
    switcher: Switcher = clone(task.switcher)
    if task.readouts is not None:
        switcher = on_equal_terms(switcher, *task.readouts[1:])
    return switcher.set_params(random_state=task.seed, shuffle=False)


def on_equal_terms(switcher: Switcher, n_features: int, n_classes: int) -> Switcher:
    """Return a switcher whose default list is that for a width; a user's list stays."""
    name = switcher.readouts
    if not isinstance(name, str | None):
        return switcher
    readouts = _named(name, n_features, n_classes)
    changed: Switcher = clone(switcher).set_params(readouts=readouts)
    return changed


@lru_cache(maxsize=1024)
def default_terms(
    name: str | None, n_features: int, n_classes: int
) -> tuple[Terms, str]:
    """Return the terms of a default list of readouts, and a digest of the list."""
    readouts = _named(name, n_features, n_classes)
    return terms_of(readouts), digest_of(as_json(readouts, "readouts"))


def _named(name: str | None, n_features: int, n_classes: int) -> list[Any]:
    """Return a default list; without classes that of real labels."""
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
    """SHA-256 of features, labels and groups, as the run reads them.

    Features count as float32, labels by their places among the sorted classes: names of
    classes are no part of a code. Real labels count as float64.
    """
    kind = "<f8" if is_real else "<i8"
    labels = y if is_real else np.unique(y, return_inverse=True)[1]
    labels = labels.reshape(-1, 1)
    found = {"features": fingerprint(X, "<f4"), "labels": fingerprint(labels, kind)}
    keys = keys_of(groups, len(y))
    if keys is not None:
        found["groups"] = fingerprint(keys[:, np.newaxis], "<i8")
    return found


def settings_of_cells(switcher: Switcher) -> dict[str, object]:
    """Write down the parameters of a switcher on which the numbers of cells depend.

    Raises
    ------
    TypeError
        If one of them cannot be written down.
    """
    return settings_of(switcher, WITHOUT_EFFECT | OVERRULED, "switcher.")


def versions() -> dict[str, str]:
    """Return the versions of the libraries that compute."""
    return {name: version_of(name) for name in LIBRARIES}


def canonical(content: object) -> bytes:
    """Return the one text of a piece of JSON.

    Raises
    ------
    ValueError
        If it holds NaN or an infinity, which JSON does not know.
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return text.encode()


def digest_of(content: object) -> str:
    """SHA-256 of the one text of a piece of JSON."""
    return hashlib.sha256(canonical(content)).hexdigest()
