"""Says that kernels are compiled, which a first run on a machine waits for: Numba keeps what it has compiled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STAGE = "compiling for this machine, which takes 10 seconds to a minute and is done once"
"""How progress calls it; benchmarks/RESULTS.md has the seconds of each family."""


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
