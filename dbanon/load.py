"""From files and tables to trajectories, requests and sites: stage, sort out, reproject, store; in one transaction.

Invariants: a row of a source is either part of what is stored or in ``dbanon.quarantine`` with a reason, never neither
and never both; fixes of a subject that contradict each other are decided by their order in the source; lines are made
and reprojected in PostGIS, so M and SRID are right by construction. No message holds a coordinate or a subject.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from dbanon import _arrow, _utm, binary_copy, store
from dbanon._progress import Progress, silent
from dbanon.errors import ParameterError
from dbanon.loading import _boxes, _cells, _copies, _crs, _datasets, _files, _from_files, _making, _staging, _survey
from dbanon.loading._boxes import Box
from dbanon.loading._datasets import Mode
from dbanon.loading._from_files import Columns, Files
from dbanon.loading._from_table import Table, TableColumns
from dbanon.loading._sites import SiteColumns, load_sites
from dbanon.loading._staging import LoadReport

__all__ = [
    "Columns",
    "LoadReport",
    "Options",
    "SiteColumns",
    "TableColumns",
    "import_trajectories",
    "load_requests",
    "load_sites",
    "load_trajectories",
]

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How trajectories are loaded.

    Attributes
    ----------
    dataset : str
    crs : str, optional
        Reference system of x and y in the source; EPSG:4326 for files, the table's own for tables.
    srid : int, optional
        Projected metric reference system of the dataset; the UTM zone of the data's median by default.
    grid_m, grid_s
        The dataset's grid in metres and seconds; with ``append`` anything but the defaults must match.
    mode : {"create", "append", "replace"}
    tz : str, optional
        Zone of times that name none.
    split_gap_s : float, optional
        A subject's fixes are cut into trajectories where more seconds lie between two of them.
    bbox : tuple of float, optional
        Least x, least y, greatest x, greatest y, in units of the source; what lies outside is left out.
    drop_outliers : bool
        Leave out what lies far outside the rest, in place or time, and not only count it.
    """

    dataset: str
    crs: str | None = None
    srid: int | None = None
    grid_m: float = 1.0
    grid_s: int = 1
    mode: Mode = "create"
    tz: str | None = None
    split_gap_s: float | None = None
    bbox: Box | None = None
    drop_outliers: bool = False

    def __post_init__(self) -> None:
        _cells.check_zone(self.tz)
        _datasets.check(self.dataset, self.mode, grid_m=self.grid_m, grid_s=self.grid_s)
        if self.split_gap_s is not None and not self.split_gap_s > 0:
            raise ParameterError(
                f"The gap that splits must be seconds above 0. Got {self.split_gap_s!r}; change --split-gap-s."
            )
        _boxes.check(self.bbox)


# ---- trajectories ----------------------------------------------------------------------------------------------------


def load_trajectories(
    connection: Connection,
    files: Sequence[Path],
    *,
    columns: Columns | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> LoadReport:
    """Load one fix a row from CSV (also gzipped) or Parquet files.

    Parameters
    ----------
    connection : psycopg.Connection
    files : sequence of Path
        In the order that decides between contradicting fixes.
    columns : Columns, optional
        Subject ``-`` makes every row a subject of its own.
    progress : callable, optional
        Called with a stage, what is done and the total or None.
    **options
        See `Options`.

    Returns
    -------
    LoadReport

    Raises
    ------
    ParameterError
        For names, modes and reference systems that cannot be used, and for x and y that are the wrong way round.
    DataError
        If a file is no table or no row is usable; nothing is stored then.
    """
    chosen, columns = Options(**options), columns or Columns()
    _from_files.check_files(files)
    columns.check()
    source = Files(tuple(files), columns, chosen.tz, chosen.bbox)
    if _survey.mean_each_other(columns.x, columns.y):
        raise _survey.swapped_axes(source.remedy)
    with store.errors_translated(), connection.transaction():
        return _load(connection, source, chosen, chosen.crs or "EPSG:4326", progress or silent)


def import_trajectories(
    connection: Connection, table: str, *, columns: TableColumns, progress: Progress | None = None, **options: Any
) -> LoadReport:
    """Load one fix a row from a table or view of the same database, without leaving the server.

    Parameters
    ----------
    connection : psycopg.Connection
    table : str
        As in SQL, with its schema where the search path does not lead to it.
    columns : TableColumns
        Subject ``-`` makes every row a subject of its own.
    progress : callable, optional
    **options
        See `Options`.

    Returns
    -------
    LoadReport

    Raises
    ------
    ParameterError, DataError
        As for `load_trajectories`, and for columns of the wrong type.
    StoreError
        If the login may not read the table.
    """
    chosen = Options(**options)
    columns.check()
    source = Table(table, columns, chosen.tz, chosen.bbox)
    with store.errors_translated(), connection.transaction():
        source.find(connection)
        connection.execute(_arrow.POSTGIS_PATH)
        return _load(connection, source, chosen, chosen.crs or source.crs(connection), progress or silent)


def _load(connection: Connection, source: Files | Table, options: Options, crs: str, progress: Progress) -> LoadReport:
    """Load from either kind of source, in the caller's transaction."""
    connection.execute(_arrow.POSTGIS_PATH)
    old = _datasets.claim(
        connection, options.dataset, options.mode, grid_m=options.grid_m, grid_s=options.grid_s, srid=options.srid
    )
    meant = _crs.named(connection, crs)
    _boxes.check_crossing(options.bbox, meant)
    wanted = old.srid if old is not None and options.mode == "append" else options.srid
    if wanted is not None:
        _crs.check_metric(_crs.named(connection, f"EPSG:{wanted}"))
    staging = _stage(connection, source, meant, _datasets.rows_before(connection, old) + 1, progress)
    if staging.shapes:
        _check_uncut(source, options)
    progress("looking for wild positions", 0, None)
    found = _survey.take(connection, meant, staging.usable(), source.remedy)
    target = wanted or _utm.zone(found.lon, found.lat)
    reference = _crs.named(connection, f"EPSG:{target}")
    _survey.check_axes(found, reference, source.remedy)
    _survey.sort_out(staging, found, drop=options.drop_outliers)
    _survey.refuse_swapped(staging, source.remedy)
    dataset_id = _datasets.write(
        connection, options.dataset, old, options.mode, srid=target, grid_m=options.grid_m, grid_s=options.grid_s
    )
    progress("making trajectories", 0, None)
    kind = _making.ShapeMaker if staging.shapes else _making.Maker
    append = old is not None and options.mode == "append"
    newest = _copies.newest(connection)
    maker = kind(staging, dataset_id, meant.srid, target, options.split_gap_s, append=append)
    made = maker.make()
    staging.demand_some()
    alone = source.columns.subject == _from_files.ITS_OWN
    copies = _copies.notices(connection, dataset_id, newest) if alone else ()
    quarantined, kept = _staging.write_load(staging, dataset_id, "trajectories", source.sources)
    far = _survey.kept_far(connection, found)
    first, last = maker.span()
    progress("making trajectories", made[0], made[0])
    return LoadReport(
        dataset=options.dataset,
        kind="trajectories",
        source=source.sources,
        read=sum(staging.read),
        kept=kept,
        quarantined=quarantined,
        trajectories=made[0],
        subjects=made[1],
        srid=target,
        far=far,
        first_time=first,
        last_time=last,
        notices=(*_survey.notices(found, reference, far), *_shape_notices(staging), *copies),
    )


def _check_uncut(source: Files | Table, options: Options) -> None:
    """Raise `ParameterError` if trajectories are to be cut although each of them is a single fix."""
    cut = "--trip" if source.columns.trip is not None else "--split-gap-s"
    if source.columns.trip is not None or options.split_gap_s is not None:
        raise ParameterError(
            f"Where a table holds lines or areas, each row is a trajectory of one fix, which cannot be cut. Got {cut}; "
            "leave it out, or take lines apart with ST_DumpPoints in a view and import that."
        )


def _shape_notices(staging: _staging.Staging) -> tuple[str, ...]:
    """Say what became of lines and areas: somebody's lines may have been meant as trajectories."""
    if not staging.shapes:
        return ()
    rows = (
        "1 row holds a line or an area; it"
        if staging.shapes == 1
        else f"{staging.shapes:,} rows hold lines or areas; each"
    )
    return (
        f"Notice: {rows} became the rectangle around it, at one time. Take "
        "lines of positions apart with ST_DumpPoints in a view and import that.",
    )


def _stage(
    connection: Connection, source: Files | Table, crs: _crs.Crs, first: int, progress: Progress
) -> _staging.Staging:
    """Read the source into the staging tables, and see that there is something to go on with."""
    staging = _staging.Staging(connection, "file, line, subject, trip, t, x, y", source.cells)
    # "C" compares bytes: the fastest order there is, and any will do.
    staging.create(
        'file int, line bigint, subject text COLLATE "C", trip text COLLATE "C", t float8, x float8, y float8'
    )
    source.stage(staging, crs, first, progress)
    _survey.refuse_swapped(staging, source.remedy)
    staging.demand_some()
    return staging


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
    progress = progress or silent
    columns = tuple(dict.fromkeys(columns))
    if not columns:
        raise ParameterError("A request must have at least one column. Got none; name them with --columns a,b.")
    telling = [name for name in columns if name in (subject, time)]
    if telling:
        raise ParameterError(
            f"The content of a request must not name who sent it or when. Got column '{telling[0]}'; leave it out of "
            "--columns."
        )
    _cells.check_zone(tz)
    with store.errors_translated(), connection.transaction():
        _datasets.lock(connection, dataset)
        known = store.dataset_row(connection, dataset)
        told = {subject: "subject", time: "sent_at", **{name: f"cell_{i}" for i, name in enumerate(columns)}}
        staging = _staging.Staging(connection, "file, line, subject, sent_at, " + _cell_columns(columns), told)
        staging.remedy = "check which columns are named, and the times"
        types = "file int, line bigint, subject text, sent_at timestamptz, "
        staging.create(types + _cell_columns(columns, " text"))
        rows = 0
        times = _cells.Times(tz)
        wanted, options = [subject, time, *columns], "--subject, --time or --columns"
        for batch in _from_files.tracked(file, wanted, progress, options=options, may_break=columns):
            _stage_requests(staging, batch, subject, times.seconds(batch.columns[time]), columns=columns)
            rows += len(batch)
        staging.read.append(rows)
        staging.demand_some()
        progress("storing requests", 0, None)
        subjects = _insert_requests(staging, known.dataset_id, columns)
        staging.demand_some()
        quarantined, kept = _staging.write_load(staging, known.dataset_id, "requests", [str(file)])
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
        far={},
    )


def _cell_columns(columns: Sequence[str], suffix: str = "") -> str:
    """Names of the staging table's text columns: numbered, since a file may call its columns anything."""
    return ", ".join(f"cell_{i}{suffix}" for i in range(len(columns)))


def _stage_requests(
    staging: _staging.Staging, batch: _files.Batch, subject: str, t: pa.Array, *, columns: Sequence[str]
) -> None:
    sender = _cells.texts(batch.columns[subject])
    cells = [_cells.texts(batch.columns[name]) for name in columns]
    seconds = _staging.floats(t)
    reasons = _staging.Reasons(len(batch))
    reasons.mark("missing-subject", _staging.is_null(sender))
    reasons.mark("subject-too-long", _cells.too_long(sender))
    reasons.mark("unparsable-time", _staging.is_null(t))
    reasons.mark("non-finite-time", ~np.isfinite(seconds))
    reasons.mark("time-out-of-range", _cells.out_of_range(seconds))
    reasons.mark("empty-request", np.logical_and.reduce([_staging.is_null(cell) for cell in cells]))
    staging.reject(batch, reasons)
    keep = pa.array(reasons.kept)
    sent_at = binary_copy.timestamps(seconds[reasons.kept])
    line = batch.line.to_numpy()[reasons.kept].astype(np.int64)
    file = np.zeros(len(line), np.int32)
    staging.stage([file, line, sender.filter(keep), sent_at, *(cell.filter(keep) for cell in cells)])


def _insert_requests(staging: _staging.Staging, dataset_id: int, columns: Sequence[str]) -> int:
    """Store the staged requests that the dataset has not got; returns how many subjects sent them."""
    connection = staging.connection
    pairs = [
        sql.SQL("{}::text, {}").format(sql.Literal(name), sql.Identifier(f"cell_{i}")) for i, name in enumerate(columns)
    ]
    content = sql.SQL("jsonb_strip_nulls(jsonb_build_object({}))").format(sql.SQL(", ").join(pairs))
    connection.execute(
        sql.SQL(
            "WITH there AS (SELECT DISTINCT subject, sent_at, content FROM dbanon.request "
            "               WHERE dataset_id = {dataset}), "
            "gone AS (DELETE FROM dbanon_staged s USING there t WHERE s.subject = t.subject "
            "         AND s.sent_at = t.sent_at AND {content} = t.content RETURNING s.*) "
            "INSERT INTO dbanon_rejected SELECT file, line, 'duplicate-request', {told} FROM gone"
        ).format(dataset=dataset_id, content=content, told=staging.content())
    )
    statement = sql.SQL(
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) SELECT {}, subject, sent_at, {} "
        "FROM dbanon_staged ORDER BY line"
    )
    connection.execute(statement.format(dataset_id, content))
    return int((connection.execute("SELECT count(DISTINCT subject) FROM dbanon_staged").fetchone() or [0])[0])
