"""``python -m dbanon``, and the command `dbanon`."""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # ignored, for one in the background, it stays so
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it is still importing there is nothing to undo or to say


def main() -> NoReturn:
    """Run the command line and end at once.

    All is closed and said by then; a thread may still be compiling for a run that was interrupted, and a signal to a
    dismantled interpreter would change the exit code.
    """
    from dbanon.cli.main import main as run_command_line  # here: each process of a worker imports this module

    code: object = 1
    try:
        run_command_line()
    except SystemExit as ended:
        code = ended.code
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader may have gone
            print(end="", file=stream, flush=True)
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main()
