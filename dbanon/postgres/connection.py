"""Opens connections on which a statement means the same for every login: search path and settings are pinned first.

A function or an operator that another login put into a schema of the path would otherwise be called with the rights of
the one that connects. Nothing precedes the settings but one call without arguments by its full name, and psycopg itself
sends nothing. Through a pooler each transaction may be on another session, so there each begins with the settings.
Driver errors leave the modules above as the errors of `dbanon.base.errors`; their texts never reach a user, because
they may quote data.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Any, Self, cast

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

from dbanon.base.errors import ParameterError
from dbanon.postgres import sqlstate

Connection = psycopg.Connection[Any]

_SEARCH_PATH = "pg_catalog, pg_temp"
PIN_PATH = f"SET LOCAL search_path = {_SEARCH_PATH}"
"""Ends what ``SET LOCAL search_path`` began in the same transaction."""

_PINNED_SETTINGS = {
    # Names in records and hints look alike for every login. It comes first, because the path is made of names.
    "quote_all_identifiers": "off",
    # A login that creates in a schema of the path decides what a name means; only pg_catalog's come without a schema.
    "search_path": _SEARCH_PATH,
    # A limit that the login has for its own queries must not end those of dbanon.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    # Each statement sees what was committed before it, and a command that writes may write.
    "default_transaction_isolation": "'read committed'",
    "default_transaction_read_only": "off",
    # With off, a backslash in a text constant means something else.
    "standard_conforming_strings": "on",
    # With off, NULL in an array that is sent is the word NULL.
    "array_nulls": "on",
    # Numbers are written, and read back, to their last bit.
    "extra_float_digits": "1",
    # The driver reads times and intervals in these styles only, and rejected rows are quoted in them.
    "DateStyle": "'ISO, MDY'",
    "IntervalStyle": "postgres",
    # PostGIS's functions have high estimated costs, so the server would compile for seconds to save milliseconds.
    "jit": "off",
    # Functions of dbanon report by notices.
    "client_min_messages": "notice",
    # A killed process must not leave a long statement that keeps its locks.
    "client_connection_check_interval": "'2s'",
    # A client whose network is gone keeps no lock for long, neither of a run nor of rows that it was writing.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "'30s'",
}
_SETTINGS_SINCE_17 = {"transaction_timeout": "0"}


class Session(psycopg.Connection[Any]):
    """A connection whose settings are pinned.

    `pooled`: whether there is a pooler in between, which may give every transaction another session. Then each begins
    with the settings, also that of a statement outside of a transaction block.
    """

    pooled = False

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """Have a transaction or a savepoint for the length of the block."""
        begins = self.info.transaction_status == TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if begins and self.pooled:
                self.pin()
            yield transaction

    def pin(self) -> None:
        """Pin the settings: until the transaction ends where there is a pooler, else for good."""
        settings = {**_PINNED_SETTINGS, **(_SETTINGS_SINCE_17 if self.info.server_version >= 170000 else {})}
        kind = "SET LOCAL" if self.pooled else "SET"
        self.execute("; ".join(f"{kind} {name} = {value}" for name, value in settings.items()).encode())


class _PooledCursor(psycopg.Cursor[Any]):
    """A cursor that runs its statements in a transaction, always."""

    def _open_transaction(self) -> AbstractContextManager[Any]:
        idle = self.connection.info.transaction_status == TransactionStatus.IDLE
        return self.connection.transaction() if idle else nullcontext()

    def execute(self, *arguments: Any, **options: Any) -> Self:
        with self._open_transaction():
            return super().execute(*arguments, **options)

    @contextmanager
    def copy(self, *arguments: Any, **options: Any) -> Iterator[psycopg.Copy]:
        with self._open_transaction(), super().copy(*arguments, **options) as copy:
            yield copy


def connect(url: str) -> Session:
    """Open an autocommit connection with the settings pinned.

    Raises `StoreError` if the server does not answer, or refuses the login.
    """
    with translate_errors():
        return _connect(url)


def connect_to_hold(url: str) -> Session:
    """Open an autocommit connection to hold advisory locks: dead or frozen, its process holds none for long.

    Raises `ParameterError` if there is a pooler in between, which may give every transaction another session;
    `StoreError` if the server does not answer, or refuses the login.
    """
    connection = connect(url)
    if connection.pooled:
        connection.close()
        raise ParameterError(
            "The connection that holds a worker's locks must go straight to the server. This one goes through a "
            "pooler. Name the server itself with --lock-dsn or DBANON_LOCK_DSN."
        )
    with translate_errors():
        # It is used every second, unless its process is frozen.
        connection.execute("SET idle_session_timeout = '120s'")
    return connection


def _connect(url: str) -> Session:
    # Nothing prepared: behind a pooler the next transaction may be on another session of the server. Texts are UTF-8,
    # whatever PGCLIENTENCODING says.
    session = Session.connect(
        url, autocommit=True, application_name="dbanon", client_encoding="utf8", prepare_threshold=None
    )
    try:
        query = "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery()"
        backend, standby = session.execute(query).fetchone() or (None, None)
        session.pooled = backend != session.info.backend_pid  # a pooler makes up its own
        if session.pooled:
            session.cursor_factory = _PooledCursor
            # Defaults that are set within a transaction are those of the next.
            session.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            session.read_only = None if standby else False
        else:
            session.pin()
    except BaseException:
        session.close()
        raise
    return session


@contextmanager
def translate_errors() -> Iterator[None]:
    """Let driver errors leave the block as errors of dbanon, with the original as their cause."""
    try:
        yield
    except psycopg.Error as error:
        raise sqlstate.translate(error) from error


@contextmanager
def collect_notices(connection: Connection, of: re.Pattern[str] = re.compile("")) -> Iterator[list[str]]:
    """Collect the server's notices in the block whose contexts begin so; statements in them become command lines."""
    notices: list[str] = []

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        if of.match(notice.context or ""):
            notices.append(sqlstate.adapt_to_command_line(notice.message_primary or ""))

    connection.add_notice_handler(keep)
    try:
        yield notices
    finally:
        connection.remove_notice_handler(keep)


def fetch_value(connection: Connection, query: str, params: list[Any] | dict[str, Any] | None = None) -> Any:
    """Run a query and return the first column of its first row, or None."""
    row = connection.execute(make_sql(query), params).fetchone()
    return row[0] if row else None


def find_postgis_schema(connection: Connection) -> str:
    """Name the schema that PostGIS lives in, or is to live in: its functions are called by their full names."""
    query = (
        "SELECT n.nspname FROM pg_namespace n JOIN pg_extension e ON e.extnamespace = n.oid WHERE e.extname = 'postgis'"
    )
    row = connection.execute(query).fetchone()
    return str(row[0]) if row else "public"


def make_sql(text: str) -> sql.SQL:
    """Take a text as SQL: one of the program's own, or a condition that a user gave as SQL."""
    return sql.SQL(cast("Any", text))


def make_jsonb(value: Mapping[str, Any]) -> Jsonb:
    """Wrap a mapping of plain and NumPy values for a jsonb column; NaN and infinity, which JSON lacks, as texts."""
    return Jsonb(
        {name: _replace_infinite(one) for name, one in value.items()},
        dumps=lambda v: json.dumps(v, default=_make_plain),
    )


def _replace_infinite(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_replace_infinite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _make_plain(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ParameterError("A time must have a zone. Got one without. Give datetime's tzinfo, such as UTC.")
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else dict(value)  # of NumPy
