"""The one way in which loops are compiled, and what is compiled is kept on disk.

Numba numbers its files of machine code and keeps an index of them without a lock. Two processes that compile one
function for different types at once may both write file 1; whoever reads the index of one and the file of the other
then runs code for other types, and gets wrong results in silence. Here each file is named for its types, and says what
it is of.
"""

# mypy: disable-error-code="no-untyped-call"

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import caching

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function without Python objects, when it is first called with some types, and keep what was compiled.

    It runs without the interpreter's lock. Numbers divided by zero are infinite or NaN, as NumPy's are.
    """
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    compiled._cache = _Cache(function)
    return cast(F, compiled)


class _Cache(caching.FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())


class _Files(caching.IndexDataCacheFile):
    """One file for each set of types that a function was compiled for, and no index.

    Invariant: a file holds (what it is of, code), and is used only if it is of what is asked for. It comes into place
    whole, so that processes may write one file at once.
    """

    def save(self, key: Any, data: Any) -> None:
        # What was compiled serves its process as well if the disk is full.
        with suppress(OSError):
            self._save_data(self._name(key), (self._source_stamp, key, data))

    def load(self, key: Any) -> Any:
        # A file that a machine left damaged when it stopped is written anew.
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            stamp, of, data = self._load_data(self._name(key))
            if (stamp, of) == (self._source_stamp, key):
                return data
        return None

    def _name(self, key: Any) -> str:
        base = Path(self._index_path).name.removesuffix(".nbi")
        return f"{base}.{hashlib.sha256(repr((self._version, key)).encode()).hexdigest()[:16]}.nbc"
