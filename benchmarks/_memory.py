"""Peak memory of a call, in a process of its own.

Apart from the command line, whose functions no other process can import.
"""

import re
from pathlib import Path


def peak_memory(benchmark, name, row):
    """Return the largest resident memory of this process after a call, in bytes."""
    getattr(benchmark, name)(*row)
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])
