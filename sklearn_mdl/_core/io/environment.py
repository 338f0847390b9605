"""Descriptions of the environment and data that determine a run's exact results."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import torch

from sklearn_mdl._core.io.parameters import Json

LIBRARIES = ("sklearn_mdl", "torch", "numpy", "scipy", "scikit-learn", "skorch")
HASH_BYTES = 2**24
SHOWN = 200  # most characters of a value in a message


def environment_of(device: torch.device) -> Json:
    """Describe the environment, including the current settings of torch.

    Returns
    -------
    environment : dict
        Versions of libraries, machine, CPU instructions, device, dtype and threads.
    """
    simd = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return {
        "versions": {name: version_of(name) for name in LIBRARIES},
        "python": "{}.{}".format(*sys.version_info),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu_torch": torch.backends.cpu.get_cpu_capability(),
        "cpu_numpy": " ".join(simd.get("found", [])),
        "device": _name_of(device),
        "dtype": str(torch.get_default_dtype()),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "mkl_cbwr": os.environ.get("MKL_CBWR"),
        "threads": torch.get_num_threads(),
    }


def _name_of(device: torch.device) -> str:
    """Describe a device without its index."""
    if device.type != "cuda":
        return device.type
    return f"cuda: {torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"


@cache  # every file that is read or written asks for versions
def version_of(name: str) -> str:
    """Return the version of an installed library."""
    if name == "torch":
        return str(torch.__version__)  # also contains the device it was built for
    try:
        return version(name)
    except PackageNotFoundError:  # a checkout that is not installed
        return "not installed"


def fingerprint(X: np.ndarray, dtype: str) -> str:
    """Return the SHA-256 of an array's numbers, row by row, converted to a dtype."""
    digest = hashlib.sha256()
    step = max(1, HASH_BYTES // max(1, X[:1].nbytes))
    for start in range(0, len(X), step):
        digest.update(np.ascontiguousarray(X[start : start + step], dtype=dtype).data)
    return digest.hexdigest()


def first_difference(
    was: object, now: object, name: str = ""
) -> tuple[str, object, object] | None:
    """Find the first place at which two pieces of JSON differ.

    Returns
    -------
    difference : (name, was, now) or None
        The dotted name of the place and both values, or None if they are equal.
    """
    if isinstance(was, dict) and isinstance(now, dict):
        dot = f"{name}." if name else ""
        inner = [
            (was.get(key, _NOT_GIVEN), now.get(key, _NOT_GIVEN), f"{dot}{key}")
            for key in {**now, **was}
        ]
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        inner = [(was[i], now[i], f"{name}[{i}]") for i in range(len(was))]
    else:
        # == is not enough, since True == 1.
        same = isinstance(was, bool) == isinstance(now, bool) and bool(was == now)
        return None if same else (name, was, now)
    return next(filter(None, (first_difference(*items) for items in inner)), None)


def cut_short(value: object) -> str:
    """Return a value as text for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


class _NotGiven:
    def __repr__(self) -> str:
        return "not given"


_NOT_GIVEN = _NotGiven()
