"""Settings of the whole test run."""

import os

# Workers of pytest-xdist share the cores: with a thread of BLAS for every core in each
# of them, a fit of scikit-learn took nine times its seconds. Read when libraries load,
# here and in processes that tests start; below, for those that a plugin has loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

os.environ["MPLBACKEND"] = "Agg"  # read when matplotlib is first imported: no window


def pytest_configure(config):
    """Hide GPUs from all but ``pytest -m gpu``: the bitwise laws are those of a CPU."""
    if "gpu" not in config.option.markexpr.replace("not gpu", ""):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # read when CUDA is first used


# mutmut runs methods of test classes again and again, each time on another instance.
settings.register_profile(
    "mutants",
    settings.get_profile("ci"),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)

torch.set_num_threads(1)  # bitwise laws hold on one thread
threadpool_limits(1)


@pytest.fixture(autouse=True)
def _global_seeds() -> None:
    """Keep a failure reproducible, should a test touch global state after all."""
    np.random.seed(0)  # noqa: NPY002, the global state is what is meant
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave the cases that a ``quick`` mark does not name to `make test-slow`."""
    for item in items:
        mark = item.get_closest_marker("quick")
        if mark and item.callspec.id not in mark.args:
            item.add_marker(pytest.mark.slow)


def pytest_make_parametrize_id(config, val, argname):
    """Name a case by what it holds, so that the list of tests reads as a specification.

    Only what every process writes alike may stand there, or the workers of pytest-xdist
    would collect different tests.
    """
    if isinstance(val, np.ndarray):
        return f"{val.dtype}{list(val.shape)}"
    if isinstance(val, list | tuple | dict | BaseEstimator) and _is_ordered(val):
        text = " ".join(repr(val).split())
        if len(text) <= 60 and " at 0x" not in text:
            return text
    return None


def _is_ordered(val) -> bool:
    if isinstance(val, dict):
        return all(map(_is_ordered, val.values()))
    if isinstance(val, list | tuple):
        return all(map(_is_ordered, val))
    return not isinstance(val, set | frozenset)
