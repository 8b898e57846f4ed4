"""Turns the first SIGINT, SIGTERM or SIGHUP into one KeyboardInterrupt; later signals are ignored.

The first signal interrupts the work, which is undone: a run is cancelled, a load rolled back. Nothing interrupts that:
a second Ctrl-C, or a closed terminal after it, changes nothing.
"""

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.01  # until an interrupt that was lost is raised once more


class Stopping:
    """Makes the first signal in its ``with`` block a `KeyboardInterrupt`; all others do nothing, also after it.

    `number`: the signal that came first.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._active = False
        self._interrupt = KeyboardInterrupt()
        self._hooks = (sys.excepthook, sys.unraisablehook)

    def __enter__(self) -> Self:
        self._active = True
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup has it ignored
                    signal.signal(number, self._stop)
        self._hooks = (sys.excepthook, sys.unraisablehook)
        sys.excepthook, sys.unraisablehook = self._print_others, self._raise_again
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._active = False
        sys.excepthook, sys.unraisablehook = self._hooks

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._active:  # not SIG_IGN from now on: Python complains of a signal that is on its way then
            self._active = False
            self.number = number
            raise self._interrupt

    # A library in C that calls Python, as psycopg does for a notice, prints what is raised there and goes on.

    def _print_others(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if error is not self._interrupt:
            self._hooks[0](kind, error, trace)

    def _raise_again(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_value is not self._interrupt or self.number is None:
            self._hooks[1](unraisable)
            return
        self._active = True
        main = threading.main_thread().ident or 0
        threading.Timer(AGAIN_S, signal.pthread_kill, (main, self.number)).start()
