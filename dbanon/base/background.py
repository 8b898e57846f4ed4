"""Runs a call in a daemon thread; neither an interrupted caller nor an exiting program waits for it.

The threads of an executor are joined at the end of its block, and at the end of the program, whatever has happened.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def run_in_background(call: Callable[P, T], *arguments: P.args, **words: P.kwargs) -> Future[T]:
    """Make a call in another thread; its result is waited for, and its exception raised, by ``.result()``."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call(*arguments, **words))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
