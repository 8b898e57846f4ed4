"""Measures the peak memory of this process, and returns what it no longer uses to the system."""

import ctypes
import math
import resource
import sys
from contextlib import suppress
from pathlib import Path


def measure_peak_mb() -> float:
    """Peak resident set size in MB.

    Linux counts in ``getrusage`` what the parent had when it started this process; ``/proc`` does not.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(kilobytes / 1024, 1)


def measure_free_mb() -> float:
    """Memory that is free or can be made so, in MB; a container's limit counts whole. Infinite where nothing says."""
    free = math.inf
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable:"))
    with suppress(OSError, ValueError):  # no limit is the word max
        free = min(free, int(Path("/sys/fs/cgroup/memory.max").read_text()) / 2**20)
    return free


def forget_peak() -> None:
    """Reset the peak: a worker's process does one run after another."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def free_memory() -> None:
    """Return freed memory to the system: the C library and Arrow keep it, each for its own.

    It takes some milliseconds, so call it between the phases of a run.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with suppress(AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)
