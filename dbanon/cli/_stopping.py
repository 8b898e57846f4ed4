"""Turns the first SIGINT, SIGTERM or SIGHUP into one KeyboardInterrupt; later signals are ignored.

The first signal interrupts the work, which is undone: a run is cancelled, a load rolled back. Nothing interrupts that:
a second Ctrl-C, or a closed terminal after it, changes nothing.
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """Makes the first signal in its ``with`` block a `KeyboardInterrupt`; all others do nothing, also after it.

    `number`: the signal that came first.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._active = False

    def __enter__(self) -> Self:
        self._active = True
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup has it ignored
                    signal.signal(number, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._active = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._active:  # not SIG_IGN from now on: Python complains of a signal that is on its way then
            self._active = False
            self.number = number
            raise KeyboardInterrupt
