"""How much memory this process has used at most."""

import resource
from pathlib import Path


def peak_mb() -> float:
    """Peak resident set size in MB.

    Linux counts in ``getrusage`` what the parent had when it started this process; ``/proc`` does not.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(kilobytes / 1024, 1)
