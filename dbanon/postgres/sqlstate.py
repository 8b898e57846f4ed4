"""Translates a driver's error, by its SQLSTATE, into what it means to the user; no other module does.

The server's own words are never shown, since they may quote data. The sentences of our SQL functions (class DA) and
the reasons for which a connection is refused are shown: they quote none.
"""

import re
import shlex

import psycopg

from dbanon.base.errors import DataError, DbanonError, ParameterError, SchemaMismatch, StoreError, VerificationFailed

CANCELLED, READ_ONLY, TOO_MANY, CHANGED = "57014", "25006", "53300", "40001"
OWN_NOTICE = "DA018"
"""Of the notices by which functions of dbanon, and the text of an upgrade, speak to the user."""
# Errors that our SQL functions raise (sql/10_core/10_guard.sql lists them); others of class DA are StoreErrors.
_OWN_ERRORS = {
    "DA001": ParameterError,
    "DA002": ParameterError,
    "DA003": ParameterError,
    "DA004": VerificationFailed,
    "DA005": VerificationFailed,
    "DA008": DataError,
    "DA011": ParameterError,
    "DA010": VerificationFailed,
    "DA012": DataError,
    "DA021": ParameterError,
    "DA022": SchemaMismatch,
    "DA024": DataError,
    "DA025": VerificationFailed,
}
_NO_SCHEMA_SENTENCE = (
    "The database must hold dbanon's schema. Got one without it, or of an older program. Run `dbanon db upgrade`."
)
_LOST_SENTENCE = "The connection to the server was lost. Unfinished work was undone. Run it again."
_NOT_TEXT_SENTENCE = "Texts must be UTF-8 without NUL characters. Got others. Clean the file."
_DATA_SENTENCES = {
    "22021": _NOT_TEXT_SENTENCE,
    "22P05": _NOT_TEXT_SENTENCE,
    "54000": "A person's name must have at most some 2,000 bytes. Got a longer text. Check which columns are named.",
}
_SENTENCES = {
    "53100": "The server has no room left on its disk. Unfinished work was undone. Free some space and run it again.",
    "53200": (
        "The server ran out of memory, or of room for locks. Unfinished work was undone. Lower work_mem, free some "
        "memory, or raise max_locks_per_transaction."
    ),
    "42501": (
        "The login must have the rights for this. It does not. Have dbanon_operator (load, publish), dbanon_worker "
        "(run, verify) or dbanon_admin granted to it, or this database's roles of another prefix."
    ),
    CANCELLED: "The statement was cancelled and its work rolled back. Run it again.",
    "57P03": "The server is starting, stopping or recovering. Nothing was done. Run it again in a moment.",
    "55P03": "Another session holds the rows. Nothing was done. Try again when it has finished.",
    CHANGED: "Another session changed the same rows meanwhile, so nothing was kept. Run it again.",
    "40P01": "Another session changed the same rows meanwhile, so nothing was kept. Run it again.",
    READ_ONLY: "The server is read-only. Nothing was written. Connect to the primary.",
}

_REFUSED_STATE = "08004"  # by the server, for another reason
_REMEDIES = {  # by what the server refused a connection; its words name at most the login, the database and the address
    "3D000": "Create it, or check --dsn and the PG* variables.",
    "28000": "Check --dsn and the PG* variables. Or have the login made, and let in by the server's pg_hba.conf (of a "
    "managed server, by its network rules).",
    "28P01": "Check --dsn, PGPASSWORD or ~/.pgpass.",
    TOO_MANY: "Close connections, or raise max_connections or the limit of the login or database.",
    _REFUSED_STATE: "Check --dsn and the PG* variables, or ask the server's administrator.",
}
# psycopg gives no SQLSTATE of a refused connection. A server that speaks another language is quoted all the same.
_REASON_STATES = (
    (re.compile(r"^the database system is "), "57P03"),
    (re.compile(r'^database ".*" does not exist|^no such database'), "3D000"),
    (re.compile(r"password authentication failed"), "28P01"),
    (re.compile(r'^role ".*" |pg_hba\.conf|authentication failed'), "28000"),
    (re.compile(r"^sorry, too many clients|^too many connections|connection slots are reserved"), TOO_MANY),
)
# Two blanks are the server's, one is libpq's.
_REFUSAL = re.compile(r"connection to server [^\n]* failed: \S+:  ([^\n]+)")
_LOSS_WORDS = (
    "server closed",
    "terminat",
    "consuming input",
    "the connection is",
    "no connection to the server",
    "reset by peer",
    "Broken pipe",
    "EOF detected",
    "connection has been closed",
)


def make_error(sqlstate: str) -> StoreError:
    """Make the error of a login without the rights it needs (42501), or of a server that does not accept writing."""
    return StoreError(_SENTENCES[sqlstate], sqlstate)


def is_passing(error: StoreError) -> bool:
    """Whether a connection was lost or not to be had, or another transaction was in the way: worth another try.

    A worker has connected before, so it tries again whatever a further connection was refused for.
    """
    state = error.sqlstate or ""
    return state[:2] in ("08", "28") or state[:3] == "57P" or state in ("3D000", TOO_MANY, CHANGED, "40P01")


def translate(error: psycopg.Error) -> DbanonError:
    """Make an error of dbanon from a driver's, by its SQLSTATE; quotes no value the server reported."""
    state = error.sqlstate
    if state is not None and state.startswith("DA"):
        return _translate_own(error, state)
    if state in ("3F000", "42P01", "42883", "42703", "42704"):
        return SchemaMismatch(_NO_SCHEMA_SENTENCE)
    if state is None and isinstance(error, psycopg.DataError):  # psycopg's own check, before anything is sent
        state = "22021"
    if state in _DATA_SENTENCES:
        return DataError(_DATA_SENTENCES[state])
    if state is None and isinstance(error, psycopg.OperationalError):
        return _make_connection_error(str(error))
    return StoreError(_choose_sentence(error, state), state)


def _choose_sentence(error: psycopg.Error, state: str | None) -> str:
    if state in _SENTENCES:
        return _SENTENCES[state]
    if state in _REMEDIES:  # from a pooler, which connects when something is to be done
        return _describe_refusal(str(error), state)
    if state is not None and state[:3] in ("080", "57P"):
        return _LOST_SENTENCE
    constraint = getattr(getattr(error, "diag", None), "constraint_name", None)
    about = f"SQLSTATE {state or 'unknown'}" + (f", constraint {constraint}" if constraint else "")
    return f"The server refused the statement ({about}). See its log, or --debug of the command line."


_ARGUMENT = re.compile(r"""(?<![\w'])"?([a-z_]+)"? => (E?'(?:[^']|'')*'|ARRAY\[[^]]*\]|\.\.\.|\w+(?:\.\w+)*)""")

# Quotes may hold commas and brackets: those of SQL, and what they have become for a shell.
_STATEMENT = re.compile(
    r"""(?:SELECT \* FROM|SELECT|CALL) dbanon\.(\w+)(?:\(((?:'[^']*'|"[^"]*"|[^)'"])*)\))?(?: WHERE run_id = \d+)?"""
)
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^,'"])+""")
_BACKSLASH = "\\"
LOADS = ("trajectories", "requests", "quasi_identifiers", "sites", "cells", "pois")
_COMMAND_NAMES = {  # command lines of SQL functions and views
    "anonymize": "run",
    "submit_run": "submit",
    "cancel_run": "cancel",
    "verify_run": "verify",
    "drop_run": "drop",
    "publish": "publish",
    "unpublish": "unpublish",
    "forget_subject": "forget",
    "remember_subject": "remember",
    "drop_load": "drop-load",
    "drop_dataset": "drop-dataset",
    "datasets": "datasets",
    "release_card": "card",
    "plan_run": "plan",
    **{f"import_{what}": f"load {what.replace('_', '-')}" for what in LOADS},
    "runs": "runs",
    "releases": "releases",
    "methods": "methods",
    "add_job": "job add",
    "plan_job": "job plan",
    "run_jobs": "job run",
    "jobs": "job list",
    "job_runs": "job list",
}


def adapt_to_command_line(text: str) -> str:
    """Write SQL in a sentence as the command line does.

    An argument ``grid_m => 1`` is ``--grid-m 1``, a statement ``SELECT dbanon.cancel_run(1)`` is ```dbanon cancel 1```.
    """

    def write_command(match: re.Match[str]) -> str:
        words = [re.sub(r"^'([^']*)'$", r"\1", word.strip()) for word in _WORD.findall(match[2] or "")]
        if match[1] == "steer_job":
            name, action, *since = words
            return f"`{' '.join(['dbanon job', action, *map(shlex.quote, (name, *since))])}`"
        if match[1] not in _COMMAND_NAMES:
            return match[0]
        return (
            f"`{' '.join(['dbanon', _COMMAND_NAMES[match[1]], *(word for word in words if word not in ('', '...'))])}`"
        )

    return _STATEMENT.sub(write_command, _replace_options(text))


def _replace_options(text: str) -> str:
    """Write the arguments of SQL functions as options; not where they begin a quoted text, which users have written."""

    def write_option(match: re.Match[str]) -> str:
        name, value = match[1].replace("_", "-").replace("nulls", "null"), match[2].strip("'")
        if name == "reason" and value != "...":
            escaped = match[2].startswith("E")  # as the server quotes a text with a backslash
            reason = match[2][1 + escaped : -1].replace("''", "'")
            return f"--reason {shlex.quote(reason.replace(_BACKSLASH * 2, _BACKSLASH) if escaped else reason)}"
        if value.startswith("ARRAY["):
            parts = [part.strip(" '") for part in value[6:-1].split(",")]
            if name == "readers":
                return " ".join(f"--readers {shlex.quote(part)}" for part in parts)
            value = ",".join(parts)
        if name == "mode":
            return f"--{value}"
        if name == "time-format" and value != "...":  # with signs that a shell reads
            value = shlex.quote(value)
        return f"--{name}" if value in ("true", "...") else f"--{name} {value}"

    return _ARGUMENT.sub(write_option, text)


def _translate_own(error: psycopg.Error, state: str) -> DbanonError:
    diag = getattr(error, "diag", None)
    message = (diag.message_primary if diag else None) or "The database refused it."
    hint = adapt_to_command_line((diag.message_hint if diag else None) or "")
    sentence = f"{_replace_options(message)} {hint}".rstrip()  # statements in a message are what users have written
    family = _OWN_ERRORS.get(state)
    return family(sentence) if family else StoreError(sentence, state)


def _make_connection_error(words: str) -> StoreError:
    """Make the error of a connection that was lost or not to be had, of which the driver gives words alone."""
    if "No space left" in words or "could not write init file" in words:
        return StoreError(_SENTENCES["53100"], "53100")
    if refusals := _REFUSAL.findall(words):
        refusal = refusals[-1]
        state = next((state for reason, state in _REASON_STATES if reason.search(refusal)), _REFUSED_STATE)
        return StoreError(_SENTENCES.get(state) or _describe_refusal(refusal, state), state)
    if any(sign in words for sign in _LOSS_WORDS):
        return StoreError(_LOST_SENTENCE, "08006")
    if "no password supplied" in words:
        return StoreError(f"The login must give a password. Got none. {_REMEDIES['28P01']}", "28P01")
    return StoreError("The server does not answer. Check that it is up, and --dsn or the PG* variables.", "08001")


def _describe_refusal(refusal: str, state: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in refusal.strip().partition("\n")[0])
    return f"The server refused: {shown.rstrip('.')}. {_REMEDIES[state]}"
