"""Says that kernels are compiled, which a first run on a machine waits for, and compiles them ahead.

Numba keeps what it has compiled, and compiles one function at a time in a process.
"""

import fcntl
import multiprocessing
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STAGE = "compiling for this machine, which takes 10 seconds to a minute and is done once"
"""How progress calls it; benchmarks/results/first_run.md has the seconds of each family."""
_NICENESS = 10


@contextmanager
def notify(say: Callable[[], None]) -> Iterator[None]:
    """Call `say` whenever a kernel is compiled meanwhile, in any thread; not where Numba's cache has it."""
    from numba.core import event  # with Numba, which is slow to import

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            del event
            say()

        def on_end(self, event: Any) -> None:
            del event

    with event.install_listener("numba:compile", Listener()):
        yield


def compile_ahead(families: Collection[str] = ()) -> None:
    """Compile what runs of some families, or of all, and the attacks on them need, so that no run waits for it.

    A method, and an attack, in a process of its own, as many at a time as there are cores; at low priority, unless
    families are named, for which somebody waits. Where all of it was compiled before, it ends at once.
    """
    from dbanon.base import kernels
    from dbanon.methods import METHODS

    stamp = kernels.locate_stamp(Path(__file__).parents[1].rglob("*.py"))
    with _lock_stamp(stamp):
        if families or not stamp.exists():
            _compile_all(families or METHODS, niceness=0 if families else _NICENESS)
        if not families:
            stamp.touch()


@contextmanager
def _lock_stamp(stamp: Path) -> Iterator[None]:
    """Let no two processes compile the same at a time: the second finds it done."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    with stamp.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile_all(families: Iterable[str], *, niceness: int) -> None:
    parts = [(name, is_attack) for name in families for is_attack in (False, True)]
    spawn = multiprocessing.get_context("spawn")  # a child that is forked has no threads of Numba's
    with ProcessPoolExecutor(None, spawn, initializer=os.nice, initargs=(niceness,), max_tasks_per_child=1) as pool:
        for done in [pool.submit(_compile, *part) for part in parts]:
            done.result()


def _compile(name: str, is_attack: bool) -> None:
    from dbanon.attacks import import_attacker, together
    from dbanon.methods import find_method

    family = find_method(name)
    if is_attack:
        getattr(import_attacker(family.attack), "prepare", lambda: None)()
        together.prepare()
        return
    for algorithm in family.algorithms:
        family.prepare(algorithm.name, family.parse({}, algorithm.name))
