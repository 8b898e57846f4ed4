"""What a driver's error means to the user, by its SQLSTATE: the one place where they are translated.

The server's own words reach nobody, since they may quote data. Those of our SQL functions (class DA) do: they do not.
"""

import re
import shlex

import psycopg

from dbanon.errors import DataError, DbanonError, ParameterError, SchemaMismatch, StoreError, VerificationFailed

CANCELLED = "57014"
_OWN = {  # errors our SQL functions raise (sql/10_guard.sql lists them); others of class DA are StoreErrors
    "DA001": ParameterError,
    "DA002": ParameterError,
    "DA003": ParameterError,
    "DA004": VerificationFailed,
    "DA005": VerificationFailed,
    "DA008": DataError,
    "DA011": ParameterError,
    "DA010": VerificationFailed,
    "DA012": DataError,
}
_NO_SCHEMA = (
    "The database must hold dbanon's schema. Got one without it, or of an older program; run `dbanon db upgrade`."
)
_LOST = (
    "The server must stay up until the work is done. The connection was lost, and what was not finished is undone; "
    "run it again."
)
_NOT_READY = "The server must be ready. It is starting, stopping or recovering; run it again in a moment."
_NOT_TEXT = "Texts must be UTF-8 without NUL characters. Got others; clean the file."
_DATA = {
    "22021": _NOT_TEXT,
    "22P05": _NOT_TEXT,
    "54000": "A subject must have at most some 2,000 bytes. Got a longer text; check which columns are named.",
}
_SENTENCES = {
    "53100": "The server must have room on its disk. It ran out, and what was not finished is undone; free "
    "some and run it again.",
    "53200": "The server must have enough memory. It ran out, and what was not finished is undone; lower work_mem "
    "or free some.",
    "53300": "The server must have a connection left. It has none; close some or raise max_connections.",
    "42501": "The login must have the rights for this. It has not; have dbanon_operator (load, publish), dbanon_worker "
    "(run, verify) or dbanon_admin granted to it.",
    "57014": "The statement must be left to end. It was cancelled, and what was not finished is undone; run it again.",
    "55P03": "The rows must be free. Another session holds them; try again when it is done.",
    "40001": "Nobody else may change the same rows meanwhile. Somebody did and nothing was kept; run it again.",
    "40P01": "Nobody else may change the same rows meanwhile. Somebody did and nothing was kept; run it again.",
    "25006": "The server must accept writing. It is read-only; connect to the primary.",
    "28P01": "The password must be right. The server refused it; check --dsn, PGPASSWORD or ~/.pgpass.",
    "28000": "The login must be allowed in. The server refused it; check --dsn and the server's pg_hba.conf.",
    "3D000": "The database must exist. The server has none of that name; create it or check --dsn.",
    "2BP01": "Nothing may be built on the own table of a release that goes. Somebody has, such as a view on "
    "dbanon.release_<n>; drop that first.",
}


def no_rights() -> StoreError:
    """Make the error of a login without the rights it needs."""
    return StoreError(_SENTENCES["42501"], "42501")


def is_passing(error: StoreError) -> bool:
    """Whether the connection or the server went away, or another transaction was in the way: worth another try."""
    return str(error) in (_LOST, _NOT_READY) or error.sqlstate in ("40001", "40P01")


def translated(error: psycopg.Error) -> DbanonError:
    """Make an error of dbanon from a driver's, by its SQLSTATE; quotes no value the server reported."""
    state = error.sqlstate
    if state is not None and state.startswith("DA"):
        return _translate_own(error, state)
    if state in ("3F000", "42P01", "42883", "42703"):
        return SchemaMismatch(_NO_SCHEMA)
    if state is None and isinstance(error, psycopg.DataError):  # psycopg's own check, before anything is sent
        return DataError(_DATA["22021"])
    if state in _DATA:
        return DataError(_DATA[state])
    if state in _SENTENCES:
        return StoreError(_SENTENCES[state], state)
    return StoreError(_other(error, state), state)


def _other(error: psycopg.Error, state: str | None) -> str:
    if state == "57P03":
        return _NOT_READY
    if state is not None and state[:3] in ("080", "57P"):
        return _LOST
    if state is None and isinstance(error, psycopg.OperationalError):
        return _unreachable(error)
    constraint = getattr(getattr(error, "diag", None), "constraint_name", None)
    about = f"SQLSTATE {state or 'unknown'}" + (f", constraint {constraint}" if constraint else "")
    return f"The server must accept the statement. It refused ({about}); see its log, or --debug of the command line."


_ARGUMENT = re.compile(r"""(?<![\w'])"?([a-z_]+)"? => (E?'(?:[^']|'')*'|ARRAY\[[^]]*\]|\.\.\.|\w+(?:\.\w+)*)""")

# Quotes may hold commas and brackets: those of SQL, and what they have become for a shell.
_STATEMENT = re.compile(
    r"""(?:SELECT \* FROM|SELECT|CALL) dbanon\.(\w+)(?:\(((?:'[^']*'|"[^"]*"|[^)'"])*)\))?(?: WHERE run_id = \d+)?"""
)
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^,'"])+""")
_BACKSLASH = "\\"
_COMMANDS = {  # command lines of SQL functions and views
    "anonymize": "run",
    "submit_run": "submit",
    "cancel_run": "cancel",
    "verify_run": "verify",
    "drop_run": "drop",
    "publish": "publish",
    "unpublish": "unpublish",
    "forget_subject": "forget",
    "release_card": "card",
    "plan_run": "plan",
    "import_trajectories": "load trajectories",
    "runs": "runs",
    "releases": "releases",
    "methods": "methods",
}


def for_command_line(text: str) -> str:
    """Write SQL in a sentence as the command line does.

    An argument ``grid_m => 1`` is ``--grid-m 1``, a statement ``SELECT dbanon.cancel_run(1)`` is ```dbanon cancel 1```.
    """

    def command(found: re.Match[str]) -> str:
        if found[1] not in _COMMANDS:
            return found[0]
        words = [re.sub(r"^'([^']*)'$", r"\1", word.strip()) for word in _WORD.findall(found[2] or "")]
        return f"`{' '.join(['dbanon', _COMMANDS[found[1]], *(word for word in words if word not in ('', '...'))])}`"

    return _STATEMENT.sub(command, _with_options(text))


def _with_options(text: str) -> str:
    """Write the arguments of SQL functions as options; not where they begin a quoted text, which users have written."""

    def option(found: re.Match[str]) -> str:
        name, value = found[1].replace("_", "-"), found[2].strip("'")
        if name == "reason" and value != "...":
            escaped = found[2].startswith("E")  # as the server quotes a text with a backslash
            said = found[2][1 + escaped : -1].replace("''", "'")
            return f"--reason {shlex.quote(said.replace(_BACKSLASH * 2, _BACKSLASH) if escaped else said)}"
        if value.startswith("ARRAY["):
            value = ",".join(part.strip(" '") for part in value[6:-1].split(","))
        if name == "mode":
            return f"--{value}"
        return f"--{name}" if value in ("true", "...") else f"--{name} {value}"

    return _ARGUMENT.sub(option, text)


def _translate_own(error: psycopg.Error, state: str) -> DbanonError:
    diag = getattr(error, "diag", None)
    message = (diag.message_primary if diag else None) or "The database refused it."
    hint = for_command_line((diag.message_hint if diag else None) or "")
    sentence = f"{_with_options(message)} {hint}".rstrip()  # statements in a message are what users have written
    family = _OWN.get(state)
    return family(sentence) if family else StoreError(sentence, state)


def _unreachable(error: psycopg.Error) -> str:
    words = str(error)
    if any(sign in words for sign in ("server closed", "terminat", "consuming input", "the connection is")):
        return _LOST
    if "No space left" in words or "could not write init file" in words:  # before the session has a SQLSTATE to give
        return _SENTENCES["53100"]
    if any(sign in words for sign in ("starting up", "recovery mode", "shutting down", "not accepting")):
        return _NOT_READY
    if "authentication" in words or "password" in words:
        return _SENTENCES["28P01"]
    return "The server must answer. It does not; check that it is up, and --dsn or the PG* variables."
