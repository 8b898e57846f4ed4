"""The number of threads for kernels; results do not depend on it."""

from numba import config


def count() -> int:
    """Give the number of threads Numba is configured to use (``NUMBA_NUM_THREADS``), by default one a core."""
    return int(vars(config)["NUMBA_NUM_THREADS"])
