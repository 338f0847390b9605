"""Peak memory of a call, measured in a separate process.

This is a separate module because other processes cannot import functions from
``__main__``.
"""

import multiprocessing
import re
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def apart(function, *arguments):
    """Call a function in a new process; return CPU seconds and peak bytes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(_costs, function, arguments).result()


def _costs(function, arguments):
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start, _peak()


def peak_memory(benchmark, name, row):
    """Return the largest resident memory of this process after a call, in bytes."""
    getattr(benchmark, name)(*row)
    return _peak()


def _peak():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])
