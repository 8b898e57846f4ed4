"""Writes a worker's log, a line for each event: as text, or as JSON for programs that collect it.

Invariant: a line of JSON names runs by number and errors by SQLSTATE. It quotes a sentence only where one of our own
SQL functions wrote it (class DA), so nothing of people, places, files or sources is in it.
"""

import json
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from dbanon.base.console import stderr_line
from dbanon.base.errors import DbanonError
from dbanon.runs import queue

Form = Literal["text", "json"]
Level = Literal["info", "warning", "error"]


class Log:
    """A log on stderr.

    Parameters
    ----------
    form : str
        ``text`` or ``json``.
    """

    def __init__(self, form: Form) -> None:
        self._form = form

    def event(self, event: str, text: str, *, level: Level = "info", **fields: Any) -> None:
        """Write an event: `text` for people; otherwise its name, level and those of the fields that are not None.

        Fields are job, period, step, state, run_id, seconds, tries, sqlstate and sentence.
        """
        worker = queue.process_name()
        if self._form == "text":
            stderr_line(f"worker {worker}: {text}")
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        known = {name: value for name, value in fields.items() if value is not None}
        # One write, since several processes have the same stream.
        sys.stderr.write(json.dumps({"at": at, "level": level, "event": event, "worker": worker, **known}) + "\n")
        sys.stderr.flush()

    def failure(self, event: str, text: str, error: DbanonError, **fields: Any) -> None:
        """Write an event that an error is."""
        state = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None)
        own = str(error) if state is not None and state.startswith("DA") else None
        self.event(event, text, level="error", sqlstate=state, sentence=own, **fields)
