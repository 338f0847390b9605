"""The codes that curves are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl.codelength import uniform_codelength

Reference = str | ArrayLike | Mapping[str, ArrayLike] | None


def featureless_code(estimator: Any, n_samples: int) -> dict[str, ArrayLike]:
    """Return the code without features that goes with the labels of a switcher."""
    if hasattr(estimator, "classes_"):
        return uniform_code(n_samples, len(estimator.classes_))
    return {"gaussian": estimator.reference_codelengths_}


def uniform_code(n_samples: int, n_classes: int | None) -> dict[str, ArrayLike]:
    """Return the uniform code, in nats per example, if the classes are counted."""
    if n_classes is None:
        return {}
    return {"uniform": np.full(n_samples, uniform_codelength(1, n_classes))}


def reference_code(
    reference: Reference, codes: Mapping[str, ArrayLike]
) -> tuple[ArrayLike | None, str | None]:
    """Return the code to compare with, in nats per example, and its name."""
    if isinstance(reference, Mapping):
        if len(reference) != 1:
            raise ValueError(
                "`reference` must map one name to one code, got "
                f"{list(reference)}: compare with one of them."
            )
        ((name, code),) = reference.items()
        return code, str(name)
    if not isinstance(reference, str):
        return reference, None
    if reference not in codes:
        counted = {"uniform", "gaussian"} & set(codes)
        hint = "" if counted else " ('uniform' needs `n_classes`)"
        raise ValueError(
            f"`reference` must be an array or one of {list(codes)}, got {reference!r}: "
            f"name one of these{hint}."
        )
    return codes[reference], reference
