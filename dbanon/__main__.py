"""``python -m dbanon``, and the command `dbanon`."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # ignored, for one in the background, it stays so
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it is still importing there is nothing to undo or to say

from dbanon.cli import main

if __name__ == "__main__":
    main()
