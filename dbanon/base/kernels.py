"""Compiles loops in one way, and keeps on disk what was compiled, safely among processes.

Numba numbers its files of machine code and keeps an index of them without a lock. Two processes that compile one
function for different types at once may both write file 1. A process that reads the index of one and the file of the
other runs code for other types, and gets wrong results in silence. Numba also takes a file as fresh while the source of
the function itself is unchanged, whatever has changed in modules that the function uses. Here each file is named for
its types, and begins with a digest of all that it was made from.
"""

# mypy: disable-error-code="no-untyped-call"

import ast
import hashlib
import itertools
import os
import pickle
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import bytecode, caching, registry, types

F = TypeVar("F", bound=Callable[..., Any])


def _draw_first_number() -> None:
    """Have this process number the functions that it compiles from a number that no other process has.

    Numba counts from 1, and in machine code the names of functions may differ only by their number: NumPy's `sort` and
    `argsort` have a function of one name each. Where a process reads files that two others wrote, the linker takes the
    first function of a name for all of them, and results are wrong in silence.
    """
    next(bytecode.FunctionIdentity._unique_ids)  # an AttributeError where Numba counts in another way
    bytecode.FunctionIdentity._unique_ids = itertools.count(secrets.randbits(60))


_draw_first_number()
os.register_at_fork(after_in_child=_draw_first_number)  # a child would count on from its parent's number


def compile_kernel(function: F) -> F:
    """Compile a function without Python objects, when it is first called with some types, and keep what was compiled.

    It runs without the interpreter's lock. Numbers divided by zero are infinite or NaN, as NumPy's are. Take arrays out
    of a tuple before a loop: a loop that reads them through the tuple can take twice as long.
    """
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    compiled._cache = _Cache(function)  # a version of Numba that ignores this attribute keeps nothing
    if (type_call := getattr(compiled, "get_call_template", None)) is None:
        return cast(F, compiled)  # with NUMBA_DISABLE_JIT it is the function itself

    def type_call_of_any_number(args: Any, kws: dict[str, Any]) -> Any:
        # Otherwise a call with 0 would be compiled for 0, beside the calls with any other integer.
        return type_call(tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()})

    compiled.get_call_template = type_call_of_any_number
    return cast(F, compiled)


def locate_stamp(of: Iterable[Path]) -> Path:
    """Name a file among what is kept: another one for other sources, another Numba or another processor."""
    made_from = repr((numba.__version__, registry.cpu_target.target_context.codegen().magic_tuple()))
    digest = hashlib.sha256(b"\0".join([made_from.encode(), *(source.read_bytes() for source in sorted(of))]))
    return Path(_Cache(locate_stamp).cache_path) / f"dbanon-{digest.hexdigest()[:16]}.compiled"


class _Cache(caching.FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, function.__module__)


class _Files(caching.IndexDataCacheFile):
    """One file for each set of types that a function was compiled for, and no index.

    Invariant: a file is used only if it begins with the digest of the sources, of the types that are asked for and of
    the code that follows. It comes into place whole, so that processes may write one file at once.
    """

    def save(self, key: Any, data: Any) -> None:
        code = self._dump(data)
        # What was compiled serves its process as well if the disk is full.
        with suppress(OSError), self._open_for_write(self._locate_file(key)) as file:
            file.write(self._digest(key, code) + code)

    def load(self, key: Any) -> Any:
        with suppress(OSError):
            content = Path(self._locate_file(key)).read_bytes()
            digest, code = content[:32], content[32:]
            if digest == self._digest(key, code):
                return pickle.loads(code)  # noqa: S301 - from a directory that only its owner writes to
        return None

    def _locate_file(self, key: Any) -> str:
        return self._index_path.removesuffix("nbi") + hashlib.sha256(repr(key).encode()).hexdigest()[:16] + ".nbc"

    def _digest(self, key: Any, code: bytes) -> bytes:
        return hashlib.sha256(
            b"\0".join([_digest_sources(self._source_stamp), repr((self._version, key)).encode(), code])
        ).digest()


@cache
def _digest_sources(module: str) -> bytes:
    """Digest the sources of a module and of all that it imports, directly or not, from its project and dbanon."""
    projects = {"dbanon", module.partition(".")[0]}
    todo, met = [module], {module}
    while todo:
        new = {
            name for name in _list_imports(todo.pop()) if name.partition(".")[0] in projects and _locate_module(name)
        }
        todo += new - met
        met |= new
    return hashlib.sha256(b"\0".join(_read_source(name) for name in sorted(met))).digest()


@cache
def _read_source(module: str) -> bytes:
    return Path(str(_locate_module(module))).read_bytes()


def _locate_module(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


def _list_imports(module: str) -> Iterator[str]:
    """Name what a module imports when it is imported itself: modules, and what may be a module."""
    for node in ast.parse(_read_source(module)).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names))
