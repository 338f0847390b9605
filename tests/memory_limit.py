"""A limit of memory for tests that read what an adversary wrote."""

import sys
from contextlib import contextmanager
from pathlib import Path

LIMIT = 2 * 2**30


@contextmanager
def two_gigabytes(limit=LIMIT):
    """Let this process map so many bytes more than it has mapped so far.

    Libraries alone map gigabytes that they never touch (3.3 GiB once torch and this
    package are imported), so that the limit counts what is mapped from here on.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + limit, hard)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
