"""How many cores kernels may use; what they compute does not depend on it."""

from numba import config


def count() -> int:
    """Give the number of threads Numba was told to use (``NUMBA_NUM_THREADS``), by default one a core."""
    return int(vars(config)["NUMBA_NUM_THREADS"])
