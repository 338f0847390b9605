"""Codelengths of labels and of batches, given embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.validation import as_labels, invalid
from sklearn_mdl.display import TwoAxesDisplay
from sklearn_mdl.metrics import frequency_codelength
from sklearn_mdl.model_selection._given import opened
from sklearn_mdl.model_selection._representation_scorer import RepresentationScorer
from sklearn_mdl.switcher import MDLReadoutSwitcher


def two_axes(
    features: Mapping[str, ArrayLike] | Any,
    label: str | ArrayLike,
    batch: str | ArrayLike,
    switcher: MDLReadoutSwitcher | None = None,
    **options: Any,
) -> TwoAxesDisplay:
    """Compute codelengths of labels and of batches, given each encoder's embeddings.

    Integrated embeddings of biological cells should predict a cell's type, but not its
    batch. So the code of the labels should be short and the code of the batches long.
    Both codelengths are in nats per row. You need not choose a neighbourhood size, or
    weights for the two criteria.

    Parameters
    ----------
    features : AnnData, or mapping of str to array-like of shape (n_samples, width)
        Embeddings from each encoder. For an AnnData, these are the arrays in ``obsm``.
    label, batch : str or array-like of shape (n_samples,)
        Label and batch of each row. For an AnnData, pass names of columns in ``obs``.
    switcher : MDLReadoutSwitcher, default=None
        Switcher to copy. If None, ``MDLReadoutSwitcher("closed-form")``.
    **options : optional
        Parameters of :class:`RepresentationScorer`, such as ``n_orders``, ``results``,
        ``n_jobs`` or ``random_state``, but not ``eliminate``.

    Returns
    -------
    display : TwoAxesDisplay
        ``display.plot()`` draws a figure, and ``display.frame()`` returns its numbers.

    Notes
    -----
    Reference codes do not use the embeddings. Labels are compared with the
    Krichevsky-Trofimov code of their frequencies, and batches with the same code within
    each label. If the code of the batches is shorter than this reference, the
    embeddings are more informative about the batch than the label is.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.model_selection import two_axes
    >>> rng = np.random.default_rng(0)
    >>> kind, batch = rng.integers(0, 2, (2, 200))
    >>> noise = rng.normal(size=(200, 2))
    >>> raw = noise + 4 * np.column_stack([kind, batch])
    >>> mixed = noise + 4 * np.column_stack([kind, kind])
    >>> nats = two_axes({"raw": raw, "mixed": mixed}, kind, batch).frame()
    >>> bool(nats.loc["raw", "batch"] < 0.3 < 0.6 < nats.loc["mixed", "batch"])
    True
    """
    are_names = {isinstance(label, str), isinstance(batch, str)}
    has_names = hasattr(features, "obsm")
    if are_names != {has_names} or not (has_names or isinstance(features, Mapping)):
        kinds = [type(value).__name__ for value in (features, label, batch)]
        raise TypeError(
            "features, label and batch must be an AnnData and two column names, or a "
            f"mapping and arrays, got {', '.join(kinds)}; write {{'raw': X}}, y, z"
        )
    if level := options.get("eliminate"):
        raise invalid("eliminate", "None (long batch codes are good)", level, "omit it")
    given = {"label": (features, label), "batch": (features, batch)}
    datasets = cast(Mapping[str, Any], opened(given))
    used = switcher or MDLReadoutSwitcher("closed-form")
    scorer = RepresentationScorer(used, **options).fit(datasets)
    labels, batches = (np.asarray(as_labels(y)) for _, y in datasets.values())
    n, n_batches = len(labels), len(np.unique(batches))
    within = sum(
        frequency_codelength(batches[labels == label], n_batches)
        for label in np.unique(labels)
    )
    nulls = {
        "label": frequency_codelength(labels) / n,
        "batch": frequency_codelength(batches) / n,
        "batch given label": within / n,
    }
    nats = dict(zip(scorer.dataset_names_, scorer.codelengths_ / n, strict=True))
    return TwoAxesDisplay(scorer.encoder_names_, nats["label"], nats["batch"], nulls)
