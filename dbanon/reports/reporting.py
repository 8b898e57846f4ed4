"""Makes pages of releases and runs: reads record and rows with the rights of the audience, and writes files.

The page for analysts is made of what their login reads, also where an administrator asks for it: the analysts' role is
taken for the whole of it. The audit has a private page before it is written.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from dbanon.base.errors import ParameterError, StoreError, format_count
from dbanon.methods import METHODS, describe
from dbanon.options.reporting import Reporting, Showing
from dbanon.pages import compare as comparing
from dbanon.pages import release as pages
from dbanon.pages.disclosure import Shown, Truth
from dbanon.pages.maps import UNITS_ACROSS
from dbanon.pages.svg import FIGURE_WIDTH
from dbanon.postgres.connection import Connection, fetch_value, find_postgis_schema, make_sql, translate_errors
from dbanon.releases import export, published
from dbanon.reports import release_maps
from dbanon.results.described import Described, Part
from dbanon.results.figures import Evaluation


@dataclass(frozen=True, kw_only=True)
class Private:
    """Reads what only a page with truth shows."""

    # chooses the part of a live release whose data are there: its run, sentences that name the others, and what was
    # measured of the parts before, by run
    choose_part: Callable[[str], tuple[int, Sequence[str], Mapping[int, Evaluation]]]
    # finds where people were at a time, given the run, the time and some trajectories: x, y, and whether one of these
    # is the person's
    find_positions: Callable[[int, float, Collection[int]], Iterable[tuple[float, float, bool]]]
    evaluate: Callable[[int], Evaluation | None]  # measures a run


def report(connection: Connection, what: str | int, options: Reporting, private: Private | None = None) -> str:
    """Make the page of a live release or of a run with rows; `private` is for the page with truth, which is noted.

    Raises `ParameterError` if there is no such thing that this login may read, or a run that is not verified is to have
    a page for others.
    """
    options.demand_compatible()
    zone = find_zone(options.tz)
    if options.audience == "analysts":
        if not isinstance(what, str):
            raise ParameterError(f"A page for analysts must be of a release. Got run {what}. Publish it first.")
        with _lock_for_reading(connection, what):
            record, rows = describe_by_view(connection, what)
            shown = _collect_shown(connection, rows, zone, shows_hours=True, shows_questions=True)
        return pages.make_page(record, _add_streets(connection, record, shown, options), "analysts", zone)
    if not options.with_truth or private is None:
        record, shown = _read_known(connection, what, zone)
        return pages.make_page(record, _add_streets(connection, record, shown, options), "file", zone)
    with translate_errors():
        run_id, parts, before = private.choose_part(what) if isinstance(what, str) else (what, (), {})
    record, shown = _read_known(connection, what, zone, of_run=run_id, shows_hours=True, verified=False)
    truth, shown = _read_truth(connection, record, _add_streets(connection, record, shown, options), private)
    measured, unmeasured = None, ""
    try:
        measured = private.evaluate(run_id)
    except (ParameterError, StoreError) as error:  # its data are gone, or this login may not read the run's rows
        unmeasured = str(error)
    known = before if measured is None else {**before, run_id: measured}
    record = replace(record, parts=[_add_figures(part, known) for part in record.parts])
    html = pages.make_page(
        record, shown, "operators", zone, truth=truth, evaluation=measured, unmeasured=unmeasured, parts=parts
    )
    _note_page(connection, record, html)
    return html


def _add_streets(connection: Connection, record: Described, shown: Shown, options: Reporting) -> Shown:
    """Add the lines of a table, read with the rights of this login."""
    if options.streets is None or shown.window is None:
        return shown
    try:
        with translate_errors():
            lines = release_maps.draw_streets(connection, options.streets, shown.window, record.srid or 0)
    except StoreError as error:
        if isinstance(error.__cause__, psycopg.errors.InvalidName | psycopg.errors.InternalError_):  # from PostGIS
            raise ParameterError(f"Streets must be a table of lines with an SRID. Got {options.streets}.") from error
        raise
    return replace(shown, streets=lines)


def _add_figures(part: Part, known: Mapping[int, Evaluation]) -> Part:
    measured = known.get(part.run_id or 0)
    return part if measured is None else replace(part, figures=measured.figures)


def compare(connection: Connection, one: str | int, other: str | int, options: Showing) -> str:
    """Make the page of two side by side; arguments and errors as those of `report`."""
    zone = find_zone(options.tz)
    sides = []
    for what in (one, other):
        record, shown = _read_known(connection, what, zone)
        names = [about["name"] for about in describe(METHODS[record.method]) if about["promises"]]
        promise = {name: record.parameters.get(name) for name in names}
        sides.append(comparing.Side(record=record, shown=shown, promise=promise))
    return comparing.make_page(sides[0], sides[1], zone)


def _read_known(
    connection: Connection,
    what: str | int,
    zone: ZoneInfo,
    *,
    of_run: int | None = None,
    shows_hours: bool = False,
    verified: bool = True,
) -> tuple[Described, Shown]:
    """Read all that is known of a release or run, and what is drawn of its rows with the rights of their readers.

    Of a release that grows it is the newest part, or that `of_run`.
    """
    known = describe_release_or_run(connection, what, of_run)
    if verified and not isinstance(what, str):
        _demand_verified(known)
    with _lock_for_reading(connection, what) if isinstance(what, str) else _use_own_rows(connection, known.run_id):
        seen, rows = (
            describe_by_view(connection, what, known.since)
            if isinstance(what, str)
            else _find_run_rows(connection, known)
        )
        shown = _collect_shown(connection, rows, zone, shows_hours=shows_hours)
    if isinstance(what, str):
        _demand_unchanged(connection, what, of_run, known)
    # A card speaks of the newest part of a release that grows, its view of all.
    names = ("columns", "window_s", "rows", "since", "until")
    return replace(known, **{name: getattr(seen, name) for name in names}), shown


def _demand_unchanged(connection: Connection, name: str, of_run: int | None, record: Described) -> None:
    """Raise `StoreError` if a release is another than when its record was read.

    The rows are read under a lock, with the rights of analysts, who may not read the record.
    """
    if describe_release_or_run(connection, name, of_run) != record or of_run not in (None, record.run_id):
        raise StoreError(f"Release {name} changed while its page was made. Nothing was written. Make the page again.")


def _demand_verified(record: Described) -> None:
    """Raise `ParameterError` unless every clause holds of a run's rows as they are."""
    if not record.clauses:
        reason = "was not attacked"
    elif record.outdated:
        reason = "was attacked by an earlier version of dbanon"
    elif record.changed:
        reason = "has rows or data that changed since its attack"
    elif record.held < len(record.clauses):
        reason = f"keeps {record.held} of {format_count(len(record.clauses), 'clause')}"
    else:
        return
    raise ParameterError(
        f"A page that shows no truth must be of a run that is verified and unchanged since. Run {record.run_id} "
        f"{reason}. `dbanon verify {record.run_id}` attacks it again, and `dbanon run` makes another."
    )


def describe_release_or_run(connection: Connection, what: str | int, of_run: int | None = None) -> Described:
    """Look up all that is known of a release, live or withdrawn, or of a run; of the part `of_run` where it grows."""
    release = """SELECT dbanon.release_card(%(what)s, (SELECT l.release_id FROM dbanon.release l
        WHERE l.name = %(what)s AND l.run_id = %(run)s AND l.withdrawn_at IS NULL))"""
    query = release if isinstance(what, str) else "SELECT dbanon.run_card(%(what)s)"
    with translate_errors():
        row = connection.execute(make_sql(query), {"what": what, "run": of_run}).fetchone()
    return Described.from_card(cast("tuple[dict[str, Any]]", row)[0])


def describe_by_view(
    connection: Connection, name: str, part: datetime | None = None
) -> tuple[Described, release_maps.Rows | None]:
    """Look up what a view says of itself, as its readers see it, and its rows; within `_lock_for_reading`.

    `part` is when the part begins that is drawn, instead of the newest.
    """
    known = published.describe(connection, name)
    if known is None:
        raise ParameterError(
            f"The release must be live, and this login must be allowed to read it. Got {name!r} instead."
        )
    record, view, parts = known
    if not view["rows"]:
        return record, None
    return record, _choose_rows(view, parts, part)


def _choose_rows(view: dict[str, Any], parts: Sequence[dict[str, Any]], part: datetime | None) -> release_maps.Rows:
    """Say which rows of a view are drawn: those of its newest part, or of the one that begins at `part`."""
    newest = view["starts"].index(part if part in view["starts"] else max(view["starts"]))
    # The view's is the least of all parts; a part that promises more must not be drawn for fewer.
    ks = [view["k"], *(p["k"] for p in parts if p["since"] == view["starts"][newest])]
    relation = sql.Identifier("published", view["name"])
    return release_maps.Rows(
        about=sql.SQL("(SELECT a FROM published.about({}) a)").format(sql.Literal(relation.as_string())),
        relation=relation,
        since=view["starts"][newest],
        until=view["ends"][newest],
        srid=view["srid"],
        k=max([k for k in ks if k is not None], default=2),
        holds=view["holds"],
    )


def _find_run_rows(connection: Connection, record: Described) -> tuple[Described, release_maps.Rows | None]:
    """Look up a run and its rows, put together in the form of a release; within `_use_own_rows`."""
    run_id = record.run_id
    with connection.cursor(row_factory=dict_row) as cursor:
        about = cursor.execute("SELECT (dbanon_internal.describe_as_release(%s)).*", [run_id]).fetchone()
    if not record.rows or about is None:
        raise ParameterError(f"A page must be of a run with rows. Run {run_id} has none. See `dbanon runs`.")
    span = (about["since"], about["until"])
    fetch_value(
        connection, "SELECT dbanon_internal.copy_run_rows(%s, tstzmultirange(tstzrange(%s, %s)))", [run_id, *span]
    )
    fetch_value(connection, "SELECT dbanon_internal.finish_asked()")
    return replace(record, window_s=about["window_s"]), release_maps.Rows(
        about=sql.SQL("(SELECT a FROM dbanon_internal.describe_as_release({}) a)").format(sql.Literal(run_id)),
        relation=sql.SQL("pg_temp.asked_rows"),
        since=span[0],
        until=span[1],
        srid=record.srid,
        k=record.k or 2,
        holds=about["holds"],
    )


def _collect_shown(connection: Connection, rows: release_maps.Rows | None, zone: ZoneInfo, **more: bool) -> Shown:
    return Shown(k=2) if rows is None else release_maps.collect_shown(connection, rows, zone, **more)


@contextmanager
def _lock_for_reading(connection: Connection, name: str) -> Iterator[None]:
    """Have a transaction in which a release stays as it is, with an analyst's rights where they can be had."""
    with translate_errors(), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY")
        connection.execute("SET LOCAL timezone = 'UTC'")
        published.become_analyst(connection, name)
        published.lock(connection, name)
        yield


@contextmanager
def _use_own_rows(connection: Connection, run_id: int | None) -> Iterator[None]:
    """Have a transaction with a table for the rows of a run."""
    with translate_errors(), connection.transaction():
        connection.execute("SET LOCAL timezone = 'UTC'")
        fetch_value(connection, "SELECT dbanon_internal.begin_asking(%s)", [run_id])
        yield


def _read_truth(
    connection: Connection, record: Described, shown: Shown, private: Private
) -> tuple[Truth | None, Shown]:
    """Read where people were at the moment that is shown, and which are of one group where this login may."""
    window, moment = shown.window, shown.moment
    if window is None or moment is None:
        return None, shown
    assert record.run_id is not None  # noqa: S101 - the record of SQL has one
    with translate_errors():
        marked, group = _choose_group(connection, record, shown)
    people = [
        ((x - window.x0) / window.unit_m, (window.y1 - y) / window.unit_m, of_group)
        for x, y, of_group in private.find_positions(record.run_id, moment.at.timestamp(), group)
    ]
    high = window.height * UNITS_ACROSS / FIGURE_WIDTH
    inside = [(round(x), round(y), of_group) for x, y, of_group in people if 0 <= x <= UNITS_ACROSS and 0 <= y <= high]
    truth = Truth(
        places=[(x, y) for x, y, _ in inside],
        marked=[(x, y) for x, y, of_group in inside if of_group],
        people=len(people),
        align=record.parameters.get("align", "last"),
    )
    return truth, replace(shown, moment=replace(moment, marked=marked))


def _choose_group(connection: Connection, record: Described, shown: Shown) -> tuple[int | None, set[int]]:
    """Choose the group of the median region that lies in the map whole, and say who is in it: trajectories.

    Nothing is marked where this login may not read who is in which group.
    """
    window, moment = shown.window, shown.moment
    may = "has_table_privilege('dbanon.membership', 'SELECT') AND has_table_privilege('dbanon.cloak', 'SELECT')"
    if window is None or moment is None or not fetch_value(connection, f"SELECT {may}"):
        return None, set()
    names = {"p": sql.Identifier(find_postgis_schema(connection)), "path": release_maps.build_path_query(connection)}
    query = sql.SQL("""
        WITH held AS MATERIALIZED (
            SELECT clo.record_id, clo.region FROM dbanon.cloak clo
            WHERE clo.run_id = %(run)s AND clo.period @> %(at)s AND clo.crowd >= %(k)s
        ), whole AS (
            SELECT clo.region, row_number() OVER (ORDER BY {p}.ST_Area(clo.region), clo.region::text) AS place, count(*)
                OVER () AS number
            FROM (SELECT DISTINCT held.region FROM held) clo
            WHERE {p}.ST_Within(clo.region, {p}.ST_MakeEnvelope(%(x0)s, %(y0)s, %(x1)s, %(y1)s, %(srid)s))
        )
        SELECT {path}, (SELECT array_agg(mem.trajectory_id)
            FROM dbanon.membership mem JOIN held ON held.record_id = mem.record_id
            WHERE mem.run_id = %(run)s AND held.region OPERATOR({p}.=) clo.region
                AND (mem.period IS NULL OR mem.period @> %(at)s))
        FROM whole clo WHERE clo.place = (clo.number + 1) / 2
        """).format(**names)
    params = {
        **release_maps.scale_to_window(window),
        "run": record.run_id,
        "at": moment.at,
        "k": shown.k,
        "srid": record.srid,
    }
    row = connection.execute(query, params).fetchone()
    regions = list(moment.regions)
    if row is None or row[0] not in regions:
        return None, set()
    return regions.index(row[0]), set(row[1] or ())


def find_zone(name: str) -> ZoneInfo:
    """Look up a time zone; raises `ParameterError` if there is none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ParameterError(f"--tz must be the name of a time zone, such as Europe/Berlin. Got {name!r}.") from None


def write(file: Path, html: str, *, private: bool) -> Path:
    """Write a page whole, a private one for its owner alone and named so; returns the file.

    Raises `DataError` if it cannot be written.
    """
    file = name_private_file(file) if private else file
    export.write_text(file, html, private=private)
    return file


def _note_page(connection: Connection, record: Described, html: str) -> None:
    """Write into the audit that a private page was made of what it shows, with its digest."""
    sha256 = hashlib.sha256(html.encode()).hexdigest()
    with translate_errors():
        fetch_value(connection, "SELECT dbanon_internal.note_page(%s, %s, %s)", [record.run_id, record.release, sha256])


def name_private_file(file: Path) -> Path:
    """Put the mark of private pages into a file's name."""
    return file if "PRIVATE" in file.name else file.with_name(f"{file.stem}-PRIVATE{file.suffix}")
