"""Everything read from and written to the tables of runs: data in, cloaks out, run rows, releases.

Arrays cross this module in bulk, by binary COPY both ways. Driver errors leave it as
the errors of `dbanon.errors`; their texts never reach a user, because they may quote data.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from dbanon import _arrow, _connection, _reading, _sqlstate, binary_copy
from dbanon._progress import Progress, silent
from dbanon.attacks import Clause, Evidence, Verdict
from dbanon.errors import DbanonError, ParameterError, StoreError
from dbanon.trajectory import Cloaks, Places, Requests, Trajectories

Connection = psycopg.Connection[Any]

LARGEST_RUN_BYTES = 50 * 1024**3
"""A run that would write more than this is refused before it writes."""

_MAY_BECOME = (
    "SELECT pg_catalog.pg_has_role(r.oid, CASE WHEN pg_catalog.current_setting('server_version_num')::integer < 160000"
    " THEN 'MEMBER' ELSE 'SET' END) FROM pg_catalog.pg_roles r WHERE r.rolname = %s"
)
_CLOAK_BYTES = 260  # a row of dbanon.cloak without extra, and its place in the primary key
_MEMBER_BYTES = 90


# ---- connections and errors ------------------------------------------------------------------------------------------


def connect(url: str) -> _connection.Session:
    """Open an autocommit connection with the settings pinned (`_connection`).

    Raises
    ------
    StoreError
        If there is no answer, or no entry.
    """
    with errors_translated():
        return _connection.connect(url)


def connect_to_hold(url: str) -> _connection.Session:
    """Open an autocommit connection to hold advisory locks: dead or frozen, its process holds none for long.

    Raises
    ------
    ParameterError
        If there is a pooler in between, which may give every transaction another session.
    StoreError
        If there is no answer, or no entry.
    """
    connection = connect(url)
    if connection.pooled:
        connection.close()
        raise ParameterError(
            "The connection that holds a worker's locks must go straight to the server. This one goes through a "
            "pooler; name the server itself with --lock-dsn or DBANON_LOCK_DSN."
        )
    with errors_translated():
        # It is used every second, unless its process is frozen.
        connection.execute("SET idle_session_timeout = '120s'")
    return connection


@contextmanager
def errors_translated() -> Iterator[None]:
    """Let driver errors leave the block as errors of dbanon, with the original as their cause."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


def translate(error: psycopg.Error) -> DbanonError:
    """Make an error of dbanon from a driver's; it quotes no value that the server reported."""
    return _sqlstate.translated(error)


@contextmanager
def heard(connection: Connection) -> Iterator[list[str]]:
    """Keep what the server has to say in the block, as the command line would say it."""
    notices: list[str] = []

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(_sqlstate.for_command_line(notice.message_primary or ""))

    connection.add_notice_handler(keep)
    try:
        yield notices
    finally:
        connection.remove_notice_handler(keep)


# ---- datasets and runs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DatasetRow:
    """A row of ``dbanon.dataset``."""

    dataset_id: int
    name: str
    srid: int
    grid_m: float
    grid_s: int
    revision: int


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A row of ``dbanon.run``, with the name of its dataset."""

    run_id: int
    dataset_id: int
    dataset: str
    dataset_revision: int | None
    method: str
    algorithm: str
    params: Mapping[str, Any]
    seed: int | None
    status: str
    metrics: Mapping[str, Any]
    suppressed: Mapping[str, Any]
    timings: Mapping[str, Any]
    error: str | None
    error_kind: str | None
    peak_rss_mb: float | None


def dataset_row(connection: Connection, name: str) -> DatasetRow:
    """Look up a dataset by name.

    Raises
    ------
    ParameterError
        If there is none, naming the nearest.
    """
    with connection.cursor(row_factory=class_row(DatasetRow)) as cursor:
        found = cursor.execute(
            "SELECT dataset_id, name, srid, grid_m, grid_s, revision FROM dbanon.dataset WHERE name = %s", [name]
        ).fetchone()
    if found is not None:
        return found
    known = [row[0] for row in connection.execute("SELECT name FROM dbanon.dataset ORDER BY name")]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else "Load one with `dbanon load trajectories`."
    raise ParameterError(f"The dataset must exist. There is none named '{name[:60]}'. {hint}")


def demand_unchanged(connection: Connection, dataset: DatasetRow) -> None:
    """Raise `StoreError` if the dataset changed since `dataset` was read; the digest notices what changes later."""
    revision = one(connection, "SELECT revision FROM dbanon.dataset WHERE dataset_id = %s", [dataset.dataset_id])
    if revision != dataset.revision:
        raise StoreError("Nobody may change a dataset during a run. Somebody did and nothing was kept; run it again.")


def run_row(connection: Connection, run_id: int) -> RunRow:
    """Look up a run.

    Raises
    ------
    ParameterError
        If there is none.
    """
    with connection.cursor(row_factory=class_row(RunRow)) as cursor:
        found = cursor.execute(
            "SELECT r.run_id, r.dataset_id, d.name AS dataset, r.dataset_revision, r.method, r.algorithm, r.params, "
            "r.seed, r.status, r.metrics, r.suppressed, r.timings, r.error, r.error_kind, r.peak_rss_mb "
            "FROM dbanon.run r JOIN dbanon.dataset d USING (dataset_id) "
            "WHERE r.run_id = %s",
            [run_id],
        ).fetchone()
    if found is None:
        raise _reading.no_run(run_id)
    return found


def live_releases(connection: Connection, run_id: int) -> list[str]:
    """Name the live releases of a run."""
    query = "SELECT name FROM dbanon.release WHERE run_id = %s AND withdrawn_at IS NULL ORDER BY name"
    return [row[0] for row in connection.execute(query, [run_id])]


def list_runs(connection: Connection) -> list[dict[str, Any]]:
    """List all runs, newest last, each with the names of its live releases."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            "SELECT v.run_id, v.dataset, v.method, v.algorithm, v.params, r.seed, v.status, v.progress, v.rows, "
            "r.metrics, v.releases, v.submitted_by, r.created_at, v.started_at, v.finished_at, v.duration, v.worker, "
            "v.error, v.publish_error FROM dbanon.runs v JOIN dbanon.run r USING (run_id) ORDER BY v.run_id"
        ).fetchall()


@dataclass(frozen=True, kw_only=True)
class PlanItem:
    """A row of ``dbanon.plan_run``; what is not `exact` is an estimate."""

    item: str
    value: int | float
    exact: bool
    note: str


def plan_run(
    connection: Connection, dataset: str, method: str, algorithm: str | None, params: Mapping[str, Any]
) -> tuple[PlanItem, ...]:
    """Ask the database what a run would meet; nothing is written.

    Raises
    ------
    ParameterError
        If there is no such dataset, method, algorithm or parameter, or a value is outside its limits.
    """
    rows = connection.execute(
        "SELECT item, value, exact, note FROM dbanon.plan_run(%s, %s, %s, %s)",
        [dataset, method, jsonb(params), algorithm],
    ).fetchall()
    return tuple(
        PlanItem(item=item, value=int(value) if value == int(value) else float(value), exact=exact, note=note)
        for item, value, exact, note in rows
    )


def delete_rows(connection: Connection, run_id: int) -> None:
    """Delete the cloaks and members of a run that did not come to its end."""
    connection.execute("SELECT dbanon.delete_rows(%s)", [run_id])


def run_digest(connection: Connection, run_id: int) -> bytes:
    """Hash the run's stored rows, parameters and the dataset's revision as they are now."""
    return bytes(one(connection, "SELECT dbanon.run_digest(%s)", [run_id]))


def add_verification(connection: Connection, run_id: int, verdict: Verdict, digest: bytes) -> None:
    """Record what an attack found on the rows of `digest`."""
    connection.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, figures, clauses, digest) "
        "VALUES (%s, %s, %s, %s, %s, %s)",
        [
            run_id,
            verdict.attack,
            verdict.passed,
            jsonb(verdict.figures),
            Jsonb([asdict(clause) for clause in verdict.clauses]),
            digest,
        ],
    )


def last_verification(connection: Connection, run_id: int) -> int:
    """Number the last attack on a run; 0 if there was none."""
    query = "SELECT coalesce(max(verification_id), 0) FROM dbanon.verification WHERE run_id = %s"
    return cast("int", one(connection, query, [run_id]))


def latest_verdict(connection: Connection, run_id: int) -> Verdict:
    """Look up what the last attack on a run found.

    Raises
    ------
    ParameterError
        If there was none.
    """
    found = connection.execute(
        "SELECT attack, passed, figures, clauses FROM dbanon.verification WHERE run_id = %s "
        "ORDER BY verification_id DESC LIMIT 1",
        [run_id],
    ).fetchone()
    if found is None:
        raise _reading.no_run(run_id)
    attack, passed, figures, clauses = found
    return Verdict(attack=attack, passed=passed, figures=figures, clauses=tuple(Clause(**told) for told in clauses))


# ---- releases --------------------------------------------------------------------------------------------------------


def check_release(
    connection: Connection, name: str, *, replace: bool, end_readers: bool = False, method: str, algorithm: str | None
) -> None:
    """Raise `ParameterError` if a run could not be made a release of this name; spares the run."""
    given = [name, replace, end_readers, method, algorithm]
    one(connection, "SELECT dbanon.check_release(%s, %s, %s, %s, %s)", given)


def check_override(connection: Connection, allow_overlap: bool, reason: str | None) -> None:
    """Raise `ParameterError` if an overlap is allowed for no reason, or a reason given for nothing."""
    with errors_translated():
        one(connection, "SELECT dbanon.check_override(%s, %s)", [allow_overlap, reason])


def publish(
    connection: Connection,
    run_id: int,
    name: str,
    *,
    replace: bool = False,
    allow_overlap: bool = False,
    reason: str | None = None,
    end_readers: bool = False,
) -> tuple[int, tuple[str, ...]]:
    """Publish a verified run; returns the number of rows and what the server has to say about them.

    If the server refuses, a second statement records that in ``dbanon.runs`` and ``dbanon.audit``.

    Raises
    ------
    VerificationFailed
        If the run is not verified, its rows changed since, or its overlap with earlier releases leaves too few people.
    ParameterError
        If there is no such run, or the name or the reason cannot be used.
    """
    with heard(connection) as notices:
        given = [run_id, name, replace, allow_overlap, reason, end_readers]
        try:
            rows = cast("int", one(connection, "SELECT dbanon.publish(%s, %s, %s, %s, %s, %s)", given))
        except psycopg.Error as error:
            _note_refusal(connection, run_id, name, error)
            raise
    return rows, tuple(notices)


def _note_refusal(connection: Connection, run_id: int, name: str, error: psycopg.Error) -> None:
    """Record why a run was not published; not where the login may not publish, or the connection is lost."""
    with suppress(psycopg.Error):
        given = [run_id, name, error.sqlstate, error.diag.message_primary]
        connection.execute("SELECT dbanon.note_refusal(%s, %s, %s, %s)", given)


def unpublish(connection: Connection, name: str, *, end_readers: bool = False) -> tuple[str, ...]:
    """Withdraw a release; returns what the server has to say about it."""
    with heard(connection) as notices:
        connection.execute("SELECT dbanon.unpublish(%s, %s)", [name, end_readers])
    return tuple(notices)


def release_rows(connection: Connection, name: str, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Read the first rows of a release as an analyst would; geometries as WKT.

    Where the login may become the analysts' role it does for this query: from version 16 on, not every member may.
    """
    with connection.transaction():
        analyst = one(connection, "SELECT dbanon.role_name('analyst')")
        if one(connection, _MAY_BECOME, [analyst]):
            connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(analyst)))
        view = sql.Identifier("published", name)
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(view))
            names = [column.name for column in cursor.description or ()]
            as_text = sql.SQL("{}.ST_AsText(region, 1)").format(sql.Identifier(_arrow.postgis(connection)))
            chosen = [as_text if name == "region" else sql.Identifier(name) for name in names]
            query = sql.SQL("SELECT {} FROM {} ORDER BY cloak_id LIMIT {}")
            rows = cursor.execute(query.format(sql.SQL(", ").join(chosen), view, limit)).fetchall()
    return names, rows


# ---- reading ---------------------------------------------------------------------------------------------------------


class Reader:
    """Reads all that one piece of work needs from one snapshot: whatever commits meanwhile is not seen, nor half of it.

    Parameters
    ----------
    snapshot : _arrow.Snapshot

    Notes
    -----
    Made by `reading`.
    """

    def __init__(self, snapshot: _arrow.Snapshot) -> None:
        self._snapshot = snapshot
        self._subjects: dict[int, _arrow.TextCodes] = {}

    def dataset(self, dataset_id: int) -> DatasetRow:
        """Look up a dataset as the snapshot has it; `demand_unchanged` compares its revision with what is there later.

        Raises
        ------
        ParameterError
            If there is none.
        """
        return DatasetRow(**_reading.dataset(self._snapshot, dataset_id))

    def trajectories(self, dataset_id: int) -> Trajectories:
        """Read all trajectories of a dataset; subject codes depend on the subjects' texts alone.

        Raises
        ------
        ParameterError
            If there is no such dataset.
        """
        data, self._subjects[dataset_id] = _reading.trajectories(self._snapshot, dataset_id)
        return data

    def requests(self, dataset_id: int) -> Requests:
        """Read all requests of a dataset, sorted by time, subject and content; senders in the trajectories' codes."""
        codes = self._subjects.get(dataset_id) or _reading.subject_codes(self._snapshot, dataset_id)
        return _reading.requests(self._snapshot, dataset_id, codes)

    def places(self, dataset_id: int) -> Places:
        """Read the sensitive sites of a dataset, and the shapes of its trajectories."""
        return _reading.places(self._snapshot, dataset_id)

    def evidence(self, run_id: int) -> Evidence:
        """Read what an attack is given: the stored rows of a run, and its dataset.

        Raises
        ------
        ParameterError
            If there is no such run.
        """
        return _reading.evidence(self._snapshot, run_id)


@contextmanager
def reading(url: str) -> Iterator[Reader]:
    """Open a snapshot of a database and read from it.

    Parameters
    ----------
    url : str
        A connection of its own is opened. While it is open the server keeps what the snapshot sees, so close it before
        a long computation.
    """
    with errors_translated(), _connection.connect(url) as connection, _arrow.snapshot(connection) as snapshot:
        yield Reader(snapshot)


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_cloaks(
    connection: Connection, run_id: int, dataset: DatasetRow, cloaks: Cloaks, progress: Progress = silent
) -> None:
    """Write a run's cloaks and members by binary COPY, in the caller's transaction.

    Raises
    ------
    StoreError
        If they would take more than `LARGEST_RUN_BYTES`; nothing is written then.
    """
    _check_size(cloaks)
    with errors_translated():
        columns = "run_id, record_id, seq, period, region, crowd, subjects, extra"
        with copying(connection, f"dbanon.cloak ({columns})") as copy:
            extras = pa.array([*cloaks.extras, None], pa.string())
            for part in binary_copy.batches(len(cloaks.record_id)):
                copy.write(memoryview(binary_copy.rows(_cloak_rows(run_id, dataset.srid, cloaks, extras, part))))
                progress("writing cloaks", part.stop, len(cloaks.record_id))
        with copying(connection, "dbanon.membership (run_id, record_id, trajectory_id)") as copy:
            for part in binary_copy.batches(len(cloaks.member_record)):
                record, trajectory = cloaks.member_record[part], cloaks.member_trajectory[part]
                copy.write(memoryview(binary_copy.rows([np.full(len(record), run_id, np.int64), record, trajectory])))


@contextmanager
def copying(connection: Connection, target: str) -> Iterator[psycopg.Copy]:
    """Open a binary COPY into a table and columns named by the program; header and trailer are written here."""
    statement = sql.SQL(cast("Any", f"COPY {target} FROM STDIN (FORMAT binary)"))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(binary_copy.HEADER)
        yield copy
        copy.write(binary_copy.TRAILER)


def _cloak_rows(run_id: int, srid: int, cloaks: Cloaks, extras: pa.Array, part: slice) -> list[binary_copy.Column]:
    record = np.asarray(cloaks.record_id[part], np.int64)
    none = len(extras) - 1
    extra = np.full(len(record), none)
    if cloaks.extra is not None:
        extra = np.where(cloaks.extra[part] < 0, none, cloaks.extra[part])
    return [
        np.full(len(record), run_id, np.int64),
        record,
        cloaks.seq[part].astype(np.int32),
        binary_copy.periods(cloaks.start[part], cloaks.end[part]),
        binary_copy.rectangles(cloaks.bounds[part], srid),
        cloaks.crowd[part].astype(np.int32),
        cloaks.subjects[part].astype(np.int32),
        binary_copy.jsonb(extras.take(pa.array(extra))),
    ]


def _check_size(cloaks: Cloaks) -> None:
    size = len(cloaks.record_id) * _CLOAK_BYTES + len(cloaks.member_record) * _MEMBER_BYTES
    if cloaks.extra is not None and cloaks.extras:
        length = np.array([len(text) for text in cloaks.extras], np.int64)
        size += int(length[cloaks.extra[cloaks.extra >= 0]].sum())
    if size > LARGEST_RUN_BYTES:
        raise StoreError(
            f"A run may write at most {LARGEST_RUN_BYTES / 1024**3:.0f} GB. This one would write "
            f"{size / 1024**3:.0f} GB in {len(cloaks.record_id)} cloaks; use fewer instants or a shorter time."
        )


# ---- small things ----------------------------------------------------------------------------------------------------


def one(connection: Connection, query: str, params: list[Any] | None = None) -> Any:
    """Run a query and return the first column of its first row, or None."""
    row = connection.execute(sql.SQL(cast("Any", query)), params).fetchone()
    return row[0] if row else None


def jsonb(value: Mapping[str, Any]) -> Jsonb:
    """Wrap a mapping of plain and NumPy values for a jsonb column."""
    return Jsonb(dict(value), dumps=lambda v: json.dumps(v, default=_plain))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else dict(value)
