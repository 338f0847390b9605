"""Settings of the whole test run."""

import os

import numpy as np
import pytest
import torch

os.environ["MPLBACKEND"] = "Agg"  # read when matplotlib is first imported: no window

torch.set_num_threads(1)  # bitwise laws hold on one thread


@pytest.fixture(autouse=True)
def _global_seeds() -> None:
    """Keep a failure reproducible, should a test touch global state after all."""
    np.random.seed(0)  # noqa: NPY002, the global state is what is meant
    torch.manual_seed(0)
