"""A release as its readers see it: what it says of itself, and the query of its rows, with an analyst's rights.

Nothing here asks for the schema ``dbanon``, in which an analyst has no rights: the catalogues say all that is needed. A
lock holds from the first look at a release to its last row, so both are of one and the same release.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from dbanon.base.errors import ParameterError, choose_one
from dbanon.postgres.connection import Connection, fetch_value, find_postgis_schema, make_sql, translate_errors
from dbanon.results.described import ClauseFound, Described, LeftOut, Part

Params = Sequence[Any] | Mapping[str, Any]
Form = Literal["Arrow", "CSV", "GeoJSON"]
"""How rows are selected: as columns that Arrow has types for, as texts of CSV, or each as a feature of GeoJSON."""

_MAY_BECOME_QUERY = (
    "SELECT pg_catalog.pg_has_role(r.oid, CASE WHEN pg_catalog.current_setting('server_version_num')::integer < 160000"
    " THEN 'MEMBER' ELSE 'SET' END) AND pg_catalog.has_table_privilege(r.oid, c.oid, 'SELECT')"
    " FROM pg_catalog.pg_roles r, pg_catalog.pg_class c"
    " WHERE r.rolname = %s AND c.relname = %s AND c.relnamespace = 'published'::pg_catalog.regnamespace"
)
_KNOWS_ROLES_QUERY = (
    "SELECT pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace('dbanon_internal')::oid, 'USAGE')"
)
# Every release has a plain name and a cloak_id; the views that list the releases have none.
_READABLE_QUERY = (
    "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'cloak_id'"
    " WHERE n.nspname = 'published' AND c.relkind = 'v' AND c.relname ~ '^[a-z][a-z0-9_]*$'"
    " AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT')"
)
# Ranges are left out, which older releases have: files have no type for them, and their ends are beside them.
_COLUMNS_QUERY = (
    "SELECT a.attname, pg_catalog.format_type(a.atttypid, NULL) FROM pg_catalog.pg_attribute a"
    " WHERE a.attrelid = {view}::pg_catalog.regclass AND a.attnum > 0"
    " AND a.atttypid <> 'pg_catalog.tstzrange'::pg_catalog.regtype ORDER BY a.attnum"
)
_ABOUT_QUERY = (
    "SELECT pg_catalog.obj_description(a.attrelid, 'pg_class'), {postgis}.postgis_typmod_type(a.atttypmod),"
    " s.auth_name, s.auth_srid, s.srtext FROM pg_catalog.pg_attribute a"
    " JOIN {postgis}.spatial_ref_sys s ON s.srid = {postgis}.postgis_typmod_srid(a.atttypmod)"
    " WHERE a.attrelid = {view}::pg_catalog.regclass AND a.attname = 'region'"
)
_HOLDS_QUERY = (
    "SELECT pg_catalog.to_jsonb(r) FROM (SELECT holds, step_s, guest_presence, srid FROM published.releases"
    " WHERE name = %s) r"
)
_LINE_QUERY = (
    "SELECT r.*, {postgis}.ST_AsText({postgis}.ST_Transform({postgis}.ST_MakeEnvelope(extent[1], extent[2], extent[3],"
    " extent[4], srid), 4326), 5) AS box FROM published.releases r WHERE name = %s"
)
_NATIVE_TYPES = {"bigint", "integer", "boolean", "timestamp with time zone"}  # all others are read as text
_TIME_TEXT = "pg_catalog.to_char(pg_catalog.timezone('UTC', {own}), 'YYYY-MM-DD HH24:MI:SS.US\"Z\"')"
_TIME_JSON = _TIME_TEXT.replace(" HH24", '"T"HH24')
_TEXT_CLASS, _VALUE_CLASS = "42", "22"  # classes of SQLSTATEs: syntax, names and rights; divisions by zero and the like
_GONE_STATES = {"42P01", "42501", "3F000"}


@dataclass(frozen=True)
class Rows:
    """Rows of a release, in the order of their keys, which `query` selects."""

    name: str  # of the release
    promise: str  # what it says of itself: the comment of its view
    geometry_type: str  # {"Polygon", "MultiPolygon"}
    crs: tuple[str, int, str]  # of `region`: authority, code there, WKT
    holds: dict[str, Any]  # when rows are true, from published.releases: holds, step_s, guest_presence; and srid
    connection: Connection  # in the transaction that keeps the release
    postgis: str  # schema, quoted
    # The columns of the view but ranges. In GeoJSON one column.
    query: str
    texts: tuple[str, ...]  # the columns that are read as text


@contextmanager
def open_rows(
    connection: Connection, name: str, form: Form, *, where: str | None = None, params: Params | None = None
) -> Iterator[Rows]:
    """Have the rows of a release, or those that meet a condition, for the length of the block.

    Parameters
    ----------
    form : {"Arrow", "CSV", "GeoJSON"}
    where : str, optional
        A condition in SQL on the release's columns; it runs as part of a query of the login itself, where names of
        PostGIS and of the schema ``published`` need no schema.
    params : sequence or mapping, optional
        Values for the ``%s`` or ``%(name)s`` in `where`. Without them a ``%`` means itself.

    Raises `ParameterError` if there is no such release that the login may read, or the server refuses the condition;
    `StoreError` if the server fails, or an administrator withdraws the release and ends this session.
    """
    with translate_errors(), _lock_view(connection, name) as view, _translate_refusals():
        own = sql.Identifier(find_postgis_schema(connection)).as_string(connection)
        named = {"postgis": make_sql(own), "view": sql.Literal(view.as_string())}
        about = connection.execute(sql.SQL(_ABOUT_QUERY).format(**named)).fetchone()
        promise, kind, *crs = cast("tuple[Any, ...]", about)
        columns = connection.execute(sql.SQL(_COLUMNS_QUERY).format(**named)).fetchall()
        condition = _make_condition(connection, own, where, params)
        selected = _select_feature(columns, own) if form == "GeoJSON" else _select_values(columns, own, form)
        query = sql.SQL("SELECT {} FROM {} {} ORDER BY cloak_id").format(selected, view, condition)
        texts = tuple(column for column, sql_type in columns if sql_type not in _NATIVE_TYPES)
        text, holds = query.as_string(connection), fetch_value(connection, _HOLDS_QUERY, [name]) or {}
        yield Rows(name, promise, kind, cast("Any", tuple(crs)), holds, connection, own, text, texts)


def become_analyst(connection: Connection, name: str) -> None:
    """Take the analysts' role until the transaction ends, where the login may and that role may read the release.

    From version 16 of the server on, not every member may. An analyst's login has that role's rights anyway.
    """
    if not fetch_value(connection, _KNOWS_ROLES_QUERY):
        return
    analyst = fetch_value(connection, "SELECT dbanon_internal.name_role('analyst')")
    if fetch_value(connection, _MAY_BECOME_QUERY, [analyst, name]):
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(analyst)))


def lock(connection: Connection, name: str) -> sql.Identifier:
    """Keep a release from being replaced or withdrawn until the transaction ends; returns its view.

    Raises `ParameterError` if there is no such release that the login may read.
    """
    view = sql.Identifier("published", name)
    readable = {row[0] for row in connection.execute(sql.SQL(_READABLE_QUERY)).fetchall()}
    if name not in readable:
        raise _make_absent_error(name, readable)
    try:
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(view))
    except psycopg.Error as error:
        if error.sqlstate in _GONE_STATES:  # withdrawn in this moment
            raise _make_absent_error(name, readable - {name}) from error
        raise
    return view


def describe(connection: Connection, name: str) -> tuple[Described, dict[str, Any], list[dict[str, Any]]] | None:
    """Make the record of a release as its readers know it; returns its lines in published.releases and parts, too."""
    from dbanon.attacks import import_attacker, overlapping_records
    from dbanon.methods import METHODS  # with NumPy

    own = find_postgis_schema(connection)
    with connection.cursor(row_factory=dict_row) as cursor:
        view = cursor.execute(sql.SQL(_LINE_QUERY).format(postgis=sql.Identifier(own)), [name]).fetchone()
        if view is None or view["method"] not in METHODS:
            return None
        parts = cursor.execute("SELECT * FROM published.parts WHERE name = %s ORDER BY since", [name]).fetchall()
        hours = cursor.execute("SELECT * FROM published.left_out WHERE name = %s ORDER BY since", [name]).fetchall()
        columns = cursor.execute("SELECT * FROM published.columns WHERE name = %s ORDER BY place", [name]).fetchall()
    method = METHODS[view["method"]]
    attack = import_attacker(method.attack).attack
    record = Described(
        name=f"published.{name}",
        release=name,
        method=view["method"],
        promise=view["promise"],
        adversary=method.adversary,
        rows_are=method.row_meaning,
        k=view["k"],
        holds=view["holds"],
        rows=view["rows"],
        since=view["since"],
        until=view["until"],
        srid=view["srid"],
        box=view["box"],
        # Nothing is published of which a clause is broken; the view says neither of which algorithm it is, nor in which
        # clauses there was nothing to test.
        clauses=tuple(
            ClauseFound(name=c.name, passed=True, violations=0, sentence="", plain=c.plain, test=c.test, tested=None)
            for c in (*attack.of_all, *overlapping_records.CLAUSES)
        ),
        left_open=attack.left_open,
        left_out=LeftOut(meaning=method.left_out, hours=tuple((h["since"], h["until"], h["percent"]) for h in hours)),
        paper=method.paper or None,
        percent_left_out=parts[-1]["percent_left_out"] if parts else None,
        window_s=view["window_s"],
        parts=tuple(
            Part(since=p["since"], until=p["until"], k=p["k"], rows=p["rows"], percent_left_out=p["percent_left_out"])
            for p in parts
        ),
        columns=tuple((c["column_name"], c["meaning"]) for c in columns),
    )
    return record, view, parts


@contextmanager
def _lock_view(connection: Connection, name: str) -> Iterator[sql.Identifier]:
    """Have a transaction in which a release is neither replaced nor withdrawn; yields its view."""
    with connection.transaction():
        # Read committed: a snapshot older than the lock would not see the rows of a release that has just replaced one.
        connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY")
        become_analyst(connection, name)
        yield lock(connection, name)


def _make_absent_error(name: str, readable: set[str]) -> ParameterError:
    choice = choose_one(readable) or "Ask an administrator for one."
    return ParameterError(
        f"The release must be live, and this login must be allowed to read it. Got {name!r} instead. {choice}"
    )


def _select_values(columns: Sequence[tuple[str, str]], postgis: str, form: Form) -> sql.Composable:
    """Select columns as what a form has a type for: else as text."""
    forms = {
        ("Arrow", "geometry"): "{postgis}.ST_AsBinary({own}, 'NDR')",
        ("CSV", "geometry"): "{postgis}.ST_AsText({own})",
        ("CSV", "timestamp with time zone"): _TIME_TEXT,
        ("CSV", "boolean"): "{own}::pg_catalog.text",
    }
    selected = []
    for column, sql_type in columns:
        as_it_is = "{own}" if sql_type in _NATIVE_TYPES else "{own}::pg_catalog.text"
        kind = "geometry" if column == "region" else sql_type
        value = make_sql(f"{forms.get((form, kind), as_it_is)} AS {{own}}")
        selected.append(value.format(own=sql.Identifier(column), postgis=make_sql(postgis)))
    return sql.SQL(", ").join(selected)


def _select_feature(columns: Sequence[tuple[str, str]], postgis: str) -> sql.Composable:
    """Select a row as a feature of GeoJSON (RFC 7946), after a comma: WGS 84 to 1 cm, shells counterclockwise."""
    shown = []
    for column, sql_type in columns:
        value = _TIME_JSON if sql_type == "timestamp with time zone" else "{own}"
        if column != "region":
            shown += [sql.Literal(column), make_sql(value).format(own=sql.Identifier(column))]
    return sql.SQL(
        "',' || pg_catalog.jsonb_build_object('type', 'Feature', 'geometry', {postgis}.ST_AsGeoJSON("
        "{postgis}.ST_ForcePolygonCCW({postgis}.ST_Transform(region, 4326)), 7)::pg_catalog.jsonb,"
        " 'properties', pg_catalog.jsonb_build_object({shown}))::pg_catalog.text"
    ).format(postgis=make_sql(postgis), shown=sql.SQL(", ").join(shown))


def _make_condition(connection: Connection, postgis: str, where: str | None, params: Params | None) -> sql.Composable:
    """Write a condition with its values in it: a COPY takes none beside it."""
    if where is None:
        if params is not None:
            raise ParameterError("Values must come with the condition they are for. Got none. Give 'where'.")
        return sql.SQL("")
    connection.execute(make_sql(f"SET LOCAL search_path = pg_catalog, published, {postgis}, pg_temp"))
    try:
        text = psycopg.ClientCursor(connection).mogrify(make_sql(where), params)
    except (psycopg.ProgrammingError, TypeError) as error:  # as many values as places for them, by name or by order
        raise _make_refusal(str(error)) from error
    return sql.SQL("WHERE (\n{}\n)").format(make_sql(text))  # the condition may end in a comment


@contextmanager
def _translate_refusals() -> Iterator[None]:
    """Report what the server finds wrong with a condition, where that is about the caller's own text in its words."""
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if state.startswith(_TEXT_CLASS):
            raise _make_refusal(error.diag.message_primary or "") from error
        if state.startswith(_VALUE_CLASS):  # what the server says of these may quote one
            raise _make_refusal(f"SQLSTATE {state}") from error
        raise


def _make_refusal(message: str) -> ParameterError:
    return ParameterError(
        f"The condition must be SQL on columns of the release. Got one that is refused: {message}. Correct it."
    )
