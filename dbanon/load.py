"""From files to trajectories and requests: stage, sort out, reproject, store; all in one transaction or nothing.

Invariants: a row of a file is either part of what is stored or in ``dbanon.quarantine`` with a reason, never neither
and never both; fixes of a subject that contradict each other are decided by their order in the files; lines are made
and reprojected in PostGIS, so M and SRID are right by construction. No message holds a coordinate or a subject.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from dbanon import _arrow, _files, _making, _staging, binary_copy, store
from dbanon.errors import ParameterError

Mode = Literal["create", "append", "replace"]
Progress = Callable[[str, int, int | None], None]
Connection = psycopg.Connection[Any]

ITS_OWN = "-"
"""As the name of the subject column: every row is a subject of its own."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column of a file holds what; `trip` cuts a subject's fixes into trajectories."""

    subject: str = "subject"
    time: str = "time"
    x: str = "x"
    y: str = "y"
    trip: str | None = None

    def names(self) -> list[str]:
        """The columns to read from a file, each once."""
        named = [self.subject, self.time, self.x, self.y, self.trip]
        return list(dict.fromkeys(n for n in named if n is not None and n != ITS_OWN))

    def staged(self) -> dict[str, str]:
        """Name the column of the staging table for each column of a file."""
        named = {self.trip: "trip", self.subject: "subject", self.time: "t", self.x: "x", self.y: "y"}
        return {name: staged for name, staged in named.items() if name is not None and name != ITS_OWN}


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What a load read, kept, and left out by reason."""

    dataset: str
    kind: str
    source: list[str]
    read: int
    kept: int
    quarantined: dict[str, int]
    trajectories: int
    subjects: int
    srid: int


# ---- trajectories ----------------------------------------------------------------------------------------------------


def load_trajectories(
    connection: Connection,
    files: Sequence[Path],
    *,
    dataset: str,
    columns: Columns | None = None,
    crs: str = "EPSG:4326",
    srid: int | None = None,
    grid_m: float = 1.0,
    grid_s: int = 1,
    mode: Mode = "create",
    tz: str | None = None,
    split_gap_s: float | None = None,
    progress: Progress | None = None,
) -> LoadReport:
    """Load one fix a row from CSV (also gzipped) or Parquet files.

    Parameters
    ----------
    connection : psycopg.Connection
    files : sequence of Path
        In the order that decides between contradicting fixes.
    dataset : str
    columns : Columns, optional
        Subject ``-`` makes every row a subject of its own.
    crs : str
        Reference system of x and y in the files.
    srid : int, optional
        Projected metric reference system of the dataset; the UTM zone of the data's median by default.
    grid_m, grid_s
        The dataset's grid in metres and seconds; with ``append`` anything but the defaults must match.
    mode : {"create", "append", "replace"}
    tz : str, optional
        Zone of times that name none.
    split_gap_s : float, optional
        A subject's fixes are cut into trajectories where more seconds lie between two of them.
    progress : callable, optional
        Called with a stage, what is done and the total or None.

    Returns
    -------
    LoadReport

    Raises
    ------
    ParameterError
        For names, modes and reference systems that cannot be used.
    DataError
        If a file is no table or no row is usable; nothing is stored then.
    """
    columns = columns or Columns()
    progress = progress or _silent
    _check_options(files, dataset, mode, grid_m=grid_m, grid_s=grid_s, split_gap_s=split_gap_s)
    _files.check_zone(tz)
    with store.errors_translated(), connection.transaction():
        connection.execute(_arrow.POSTGIS_PATH)
        old = _claim(connection, dataset, mode, grid_m=grid_m, grid_s=grid_s, srid=srid)
        source = _making.crs(connection, crs)
        if srid is not None:
            _making.check_metric(_making.crs(connection, f"EPSG:{srid}"))
        staging = _staging.Staging(connection, "file, line, subject, trip, t, x, y")
        # "C" compares bytes: the fastest order there is, and any will do.
        staging.create(
            'file int, line bigint, subject text COLLATE "C", trip text COLLATE "C", t float8, x float8, y float8'
        )
        for path in files:
            first = _rows_before(connection, old) + sum(staging.read) + 1
            staging.read.append(_stage_fixes(staging, path, columns, source, tz=tz, first=first, progress=progress))
        _staging.demand_some(staging)
        target = old.srid if old is not None and mode == "append" else srid or _making.utm_zone(connection, source)
        dataset_id = _write_dataset(connection, dataset, old, mode, srid=target, grid_m=grid_m, grid_s=grid_s)
        progress("making trajectories", 0, None)
        made = _making.Maker(connection, dataset_id, columns.staged(), source.srid, target, split_gap_s).make()
        _staging.demand_some(staging)
        quarantined, kept = _staging.write_load(staging, dataset_id, "trajectories", files)
        progress("making trajectories", made[0], made[0])
    return LoadReport(
        dataset=dataset,
        kind="trajectories",
        source=[str(path) for path in files],
        read=sum(staging.read),
        kept=kept,
        quarantined=quarantined,
        trajectories=made[0],
        subjects=made[1],
        srid=target,
    )


def _silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


def _check_options(
    files: Sequence[Path], dataset: str, mode: str, *, grid_m: float, grid_s: int, split_gap_s: float | None
) -> None:
    if not files:
        raise ParameterError("At least one file must be named. Got none; name a CSV or Parquet file.")
    if not dataset.strip() or len(dataset) > 200:
        raise ParameterError("A dataset must have a name of 1 to 200 characters. Got another; choose one such as cabs.")
    if mode not in ("create", "append", "replace"):
        raise ParameterError(f"The mode of a load must be create, append or replace. Got {mode!r}.")
    if not (math.isfinite(grid_m) and grid_m > 0):
        raise ParameterError(f"The space grid must be a number of metres above 0. Got {grid_m!r}; change --grid-m.")
    if not (isinstance(grid_s, int) and grid_s > 0):
        raise ParameterError(
            f"The time grid must be a whole number of seconds above 0. Got {grid_s!r}; change --grid-s."
        )
    if split_gap_s is not None and not split_gap_s > 0:
        raise ParameterError(f"The gap that splits must be seconds above 0. Got {split_gap_s!r}; change --split-gap-s.")


def _claim(
    connection: Connection, name: str, mode: Mode, *, grid_m: float, grid_s: int, srid: int | None
) -> store.DatasetRow | None:
    """Keep others from loading into the dataset until the transaction ends, and check that the mode fits it."""
    _lock(connection, name)
    exists = connection.execute("SELECT 1 FROM dbanon.dataset WHERE name = %s", [name]).fetchone()
    if mode == "create":
        if exists:
            raise ParameterError(
                f"A new dataset must have a new name. There is a '{name}' already; add to it with --append or replace "
                "its trajectories with --replace."
            )
        return None
    old = store.dataset_row(connection, name)
    if mode == "append":
        _check_matches(old, grid_m, grid_s, srid)
    else:
        _check_unreleased(connection, old)
    return old


def _lock(connection: Connection, name: str) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('dbanon.load ' || %s, 0))", [name])


def _check_matches(old: store.DatasetRow, grid_m: float, grid_s: int, srid: int | None) -> None:
    pairs = [("SRID", srid, None, old.srid), ("grid_m", grid_m, 1.0, old.grid_m), ("grid_s", grid_s, 1, old.grid_s)]
    for word, given, default, has in pairs:
        if given not in (default, has):
            raise ParameterError(
                f"What is added must be on the dataset's grid. '{old.name}' has {word} {has:g}. Got {given:g}; "
                "leave it out."
            )


def _check_unreleased(connection: Connection, old: store.DatasetRow) -> None:
    released = connection.execute(
        "SELECT count(*) FROM dbanon.release l JOIN dbanon.run r USING (run_id) WHERE r.dataset_id = %s",
        [old.dataset_id],
    ).fetchone()
    if released and released[0]:
        raise ParameterError(
            f"A dataset to replace must have no releases, since what was published stays known. '{old.name}' has "
            f"{released[0]}, withdrawn ones included; load into a new dataset."
        )


def _rows_before(connection: Connection, old: store.DatasetRow | None) -> int:
    """Rows ever read for a dataset: rows that are subjects of their own go on from there."""
    if old is None:
        return 0
    query = "SELECT coalesce(sum(rows_read), 0)::bigint FROM dbanon.load WHERE dataset_id = %s"
    return int((connection.execute(query, [old.dataset_id]).fetchone() or [0])[0])


def _stage_fixes(
    staging: _staging.Staging,
    path: Path,
    columns: Columns,
    source: _making.Crs,
    *,
    tz: str | None,
    first: int,
    progress: Progress,
) -> int:
    """Copy the usable rows of a file into the staging table; returns how many rows it has."""
    rows = 0
    for batch in _tracked(path, columns.names(), progress):
        line = batch.line.to_numpy()
        if columns.subject == ITS_OWN:
            subject = pc.utf8_lpad(pa.array(first + rows + np.arange(len(batch))).cast(pa.string()), 12, "0")
        else:
            subject = _files.texts(batch.columns[columns.subject])
        t = _files.unix_seconds(batch.columns[columns.time], tz)
        x, y = _files.numbers(batch.columns[columns.x]), _files.numbers(batch.columns[columns.y])
        reasons = _judge(subject, t, x, y, source)
        keep = pa.array(reasons.kept)
        trip = pa.nulls(len(batch), pa.string()) if columns.trip is None else _files.texts(batch.columns[columns.trip])
        staging.reject(batch, reasons)
        staging.stage(
            [
                np.full(int(reasons.kept.sum()), len(staging.read), np.int32),
                line[reasons.kept].astype(np.int64),
                subject.filter(keep),
                trip.filter(keep),
                *(_staging.floats(column.filter(keep)) for column in (t, x, y)),
            ]
        )
        rows += len(batch)
    return rows


def _tracked(path: Path, names: list[str], progress: Progress) -> Iterator[_files.Batch]:
    stage = f"reading {path.name}"
    progress(stage, 0, None)
    for batch in _files.batches(path, names):
        progress(stage, batch.done_bytes, path.stat().st_size)
        yield batch


def _judge(subject: pa.Array, t: pa.Array, x: pa.Array, y: pa.Array, source: _making.Crs) -> _staging.Reasons:
    reasons = _staging.Reasons(len(subject))
    time, east, north = _staging.floats(t), _staging.floats(x), _staging.floats(y)
    reasons.mark("missing-subject", _staging.is_null(subject))
    reasons.mark("unparsable-time", _staging.is_null(t))
    reasons.mark("non-finite-time", ~np.isfinite(time))
    reasons.mark("unparsable-position", _staging.is_null(x) | _staging.is_null(y))
    reasons.mark("non-finite-position", ~(np.isfinite(east) & np.isfinite(north)))
    if source.geographic:
        with np.errstate(invalid="ignore"):
            reasons.mark("position-out-of-range", (np.abs(east) > 180) | (np.abs(north) > 90))
    return reasons


def _write_dataset(
    connection: Connection,
    name: str,
    old: store.DatasetRow | None,
    mode: Mode,
    *,
    srid: int,
    grid_m: float,
    grid_s: int,
) -> int:
    if old is None:
        made = connection.execute(
            "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, %s, %s, %s) RETURNING dataset_id",
            [name, srid, grid_m, grid_s],
        ).fetchone()
        return int(cast("tuple[int]", made)[0])
    if mode == "replace":
        connection.execute("DELETE FROM dbanon.run WHERE dataset_id = %s", [old.dataset_id])
        connection.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = %s", [old.dataset_id])
        if (srid, grid_m, grid_s) != (old.srid, old.grid_m, old.grid_s):
            connection.execute(
                "UPDATE dbanon.dataset SET srid = %s, grid_m = %s, grid_s = %s WHERE dataset_id = %s",
                [srid, grid_m, grid_s, old.dataset_id],
            )
    return old.dataset_id


# ---- requests --------------------------------------------------------------------------------------------------------


def load_requests(
    connection: Connection,
    file: Path,
    *,
    dataset: str,
    subject: str = "subject",
    time: str = "time",
    columns: tuple[str, ...],
    tz: str | None = None,
    progress: Progress | None = None,
) -> LoadReport:
    """Load LBS requests; the named columns become a JSON object of name-value texts, without empty cells.

    Requests are kept whenever they were sent and whoever sent them: a run counts those it cannot use.

    Parameters
    ----------
    connection : psycopg.Connection
    file : Path
    dataset : str
        One that exists.
    subject, time : str
        Column names.
    columns : tuple of str
    tz : str, optional
        Zone of times that name none.
    progress : callable, optional

    Returns
    -------
    LoadReport
        `trajectories` is 0, `subjects` counts the senders.
    """
    progress = progress or _silent
    columns = tuple(dict.fromkeys(columns))
    if not columns:
        raise ParameterError("A request must have at least one column. Got none; name them with --columns a,b.")
    _files.check_zone(tz)
    with store.errors_translated(), connection.transaction():
        _lock(connection, dataset)
        known = store.dataset_row(connection, dataset)
        staging = _staging.Staging(connection, "subject, sent_at, " + _cells(columns))
        staging.create(f"subject text, sent_at timestamptz, {_cells(columns, ' text')}")
        rows = 0
        for batch in _tracked(file, [subject, time, *columns], progress):
            _stage_requests(staging, batch, subject, time, columns=columns, tz=tz)
            rows += len(batch)
        staging.read.append(rows)
        _staging.demand_some(staging)
        progress("storing requests", 0, None)
        subjects = _insert_requests(connection, known.dataset_id, columns)
        quarantined, kept = _staging.write_load(staging, known.dataset_id, "requests", [file])
        progress("storing requests", kept, kept)
    return LoadReport(
        dataset=dataset,
        kind="requests",
        source=[str(file)],
        read=rows,
        kept=kept,
        quarantined=quarantined,
        trajectories=0,
        subjects=subjects,
        srid=known.srid,
    )


def _cells(columns: Sequence[str], suffix: str = "") -> str:
    """Names of the staging table's text columns: numbered, since a file may call its columns anything."""
    return ", ".join(f"cell_{i}{suffix}" for i in range(len(columns)))


def _stage_requests(
    staging: _staging.Staging, batch: _files.Batch, subject: str, time: str, *, columns: Sequence[str], tz: str | None
) -> None:
    sender, t = _files.texts(batch.columns[subject]), _files.unix_seconds(batch.columns[time], tz)
    cells = [_files.texts(batch.columns[name]) for name in columns]
    seconds = _staging.floats(t)
    reasons = _staging.Reasons(len(batch))
    reasons.mark("missing-subject", _staging.is_null(sender))
    reasons.mark("unparsable-time", _staging.is_null(t))
    reasons.mark("non-finite-time", ~np.isfinite(seconds))
    reasons.mark("empty-request", np.logical_and.reduce([_staging.is_null(cell) for cell in cells]))
    staging.reject(batch, reasons)
    keep = pa.array(reasons.kept)
    sent_at = binary_copy.timestamps(seconds[reasons.kept])
    staging.stage([sender.filter(keep), sent_at, *(cell.filter(keep) for cell in cells)])


def _insert_requests(connection: Connection, dataset_id: int, columns: Sequence[str]) -> int:
    pairs = [
        sql.SQL("{}::text, {}").format(sql.Literal(name), sql.Identifier(f"cell_{i}")) for i, name in enumerate(columns)
    ]
    statement = sql.SQL(
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) "
        "SELECT {}, subject, sent_at, jsonb_strip_nulls(jsonb_build_object({})) FROM dbanon_staged"
    )
    connection.execute(statement.format(dataset_id, sql.SQL(", ").join(pairs)))
    return int((connection.execute("SELECT count(DISTINCT subject) FROM dbanon_staged").fetchone() or [0])[0])
