"""Writes a worker's log, a line for each event: as text, or as JSON for programs that collect it.

Invariant: a line of JSON names runs by number, jobs by name and errors by SQLSTATE. It quotes only sentences that hold
nothing of people, places, files, sources, columns, tables or logins, and count no rows or people.
"""

import json
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from dbanon.base.console import replace_stderr_line
from dbanon.base.errors import DbanonError
from dbanon.runs import queue

Form = Literal["text", "json"]
Level = Literal["info", "warning", "error"]
# Data or histories have changed; other sentences may quote columns or count people.
_QUOTABLE_STATES = "DA005", "DA020"


class Log:
    """A log on stderr.

    Parameters
    ----------
    form : str
        ``text`` or ``json``.
    """

    def __init__(self, form: Form) -> None:
        self._form = form

    def write_event(self, event: str, text: str, *, level: Level = "info", **fields: Any) -> None:
        """Write an event: `text` for people; otherwise its name, level and those of the fields that are not None.

        Fields are job, period, step, state, run_id, seconds, tries, sqlstate and sentence.
        """
        worker = queue.name_process()
        if self._form == "text":
            replace_stderr_line(f"worker {worker}: {text}")
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        known = {name: value for name, value in fields.items() if value is not None}
        # One write, since several processes have the same stream.
        sys.stderr.write(json.dumps({"at": at, "level": level, "event": event, "worker": worker, **known}) + "\n")
        sys.stderr.flush()

    def write_failure(self, event: str, text: str, error: DbanonError, **fields: Any) -> None:
        """Write an event for an error, with its SQLSTATE if it has one."""
        state = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None)
        self.write_event(
            event, text, level="error", sqlstate=state, sentence=choose_quotable(state, str(error)), **fields
        )


def choose_quotable(state: str | None, sentence: str) -> str | None:
    """Return a sentence of an error of that SQLSTATE for a line of JSON; None where it might say too much."""
    return sentence if state in _QUOTABLE_STATES else None
