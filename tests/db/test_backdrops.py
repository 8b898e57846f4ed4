"""Backdrops of pages: none runs code of another login with the rights of the caller, or takes the server too long."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg import sql

from dbanon.base.errors import ParameterError
from dbanon.pages.maps import UNITS_ACROSS, Window
from dbanon.postgres.connection import Connection, connect
from dbanon.releases import backdrops, pictured
from tests.hints import tries

Login = Callable[[str], str]
STREET = "ST_GeomFromText('LINESTRING(100 100, 900 800)', 32632)"
WINDOW = Window(x0=0, y0=0, x1=1000, y1=1000)
# What another login owns: functions that count their calls, and for what makes tables a plain one of a street.
OTHERS = """
CREATE SCHEMA src AUTHORIZATION {mallory};
GRANT USAGE ON SCHEMA src TO PUBLIC;
SET SESSION AUTHORIZATION {mallory};
CREATE SEQUENCE src.calls;
GRANT ALL ON SEQUENCE src.calls TO PUBLIC;
CREATE FUNCTION src.f(n integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    BEGIN
        PERFORM set_config('role', 'none', false);
    EXCEPTION WHEN others THEN
        NULL;  -- not while an index is made
    END;
    PERFORM nextval('src.calls');
    RETURN n;
END $$;
CREATE FUNCTION src.same(a integer, b integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT src.f(a) = b';
CREATE OPERATOR src.=== (LEFTARG = integer, RIGHTARG = integer, FUNCTION = src.same);
CREATE TABLE src.streets AS SELECT 1 AS id, {street} AS geom;
GRANT SELECT ON src.streets TO PUBLIC;
RESET SESSION AUTHORIZATION;
CREATE TABLE public.streets AS TABLE src.streets;
CREATE TABLE public.parts (id integer, geom geometry) PARTITION BY LIST (id);
CREATE TABLE public.part PARTITION OF public.parts DEFAULT;
INSERT INTO public.parts TABLE src.streets;
GRANT SELECT ON public.streets, public.parts, public.part TO PUBLIC;
"""
AS_MALLORY = "SET SESSION AUTHORIZATION {mallory}; "
# The table; what is made; whether PostgreSQL calls the function when the table is read or planned.
TRAPS = {
    "a view": ("src.v", AS_MALLORY + "CREATE VIEW src.v AS SELECT geom FROM src.streets WHERE src.f(id) = 1"),
    "a policy of a plain table": (
        "src.streets",
        AS_MALLORY + "ALTER TABLE src.streets ENABLE ROW LEVEL SECURITY;"
        " CREATE POLICY p ON src.streets USING (src.f(id) = 1)",
    ),
    "an index of a plain table": ("src.streets", AS_MALLORY + "CREATE INDEX ON src.streets ((src.f(1) + id))"),
    "an index of a materialized view": (
        "src.m",
        AS_MALLORY + "CREATE MATERIALIZED VIEW src.m AS TABLE src.streets; CREATE INDEX ON src.m ((src.f(1) + id))",
    ),
    "an index of a trusted owner": ("public.streets", "CREATE INDEX ON public.streets ((src.f(1) + id))"),
    "the predicate of an index": ("public.streets", "CREATE INDEX ON public.streets (id) WHERE src.f(1) = id"),
    "an operator in an index": ("public.streets", "CREATE INDEX ON public.streets ((1 OPERATOR(src.===) 1))"),
    "statistics": ("public.streets", "CREATE STATISTICS public.s ON (src.f(1) + id), id FROM public.streets"),
    "a constraint of a partition": ("public.parts", "ALTER TABLE public.part ADD CHECK (src.f(1) = id)"),
    "the key of partitions": (
        "public.keyed",
        "CREATE TABLE public.keyed (id integer, geom geometry) PARTITION BY LIST ((src.f(1) + id));"
        "CREATE TABLE public.key PARTITION OF public.keyed DEFAULT; INSERT INTO public.keyed TABLE src.streets",
    ),
    "a partition": ("public.parts", "DELETE FROM src.streets;"
        "ALTER TABLE public.parts ATTACH PARTITION src.streets FOR VALUES IN (7);"
        + AS_MALLORY + "CREATE INDEX ON src.streets ((src.f(1) + id))"),
    "a partition of a partition": (
        "public.parts",
        "CREATE TABLE public.more PARTITION OF public.parts FOR VALUES IN (8, 9) PARTITION BY LIST (id);"
        "DELETE FROM src.streets; ALTER TABLE public.more ATTACH PARTITION src.streets FOR VALUES IN (8);"
        + AS_MALLORY + "CREATE INDEX ON src.streets ((src.f(1) + id))",
    ),
    "a child": ("public.streets", "ALTER TABLE src.streets INHERIT public.streets;"
        + AS_MALLORY + "CREATE INDEX ON src.streets ((src.f(1) + id))"),
}  # fmt: skip
# What is refused although it runs nothing now: its owner may make it run something at any time.
SUSPECTS = {
    "a plain table of another login": ("src.streets", "SELECT"),
    "a table in a schema of another login": ("src.mine", "CREATE TABLE src.mine AS TABLE src.streets"),
    "a trusted owner's view": ("public.v", "CREATE VIEW public.v AS TABLE public.streets"),
    "a trusted owner's table with row security": (
        "public.streets",
        "ALTER TABLE public.streets ENABLE ROW LEVEL SECURITY",
    ),
    "a foreign table": (
        "public.far",
        "CREATE EXTENSION IF NOT EXISTS file_fdw; CREATE SERVER far FOREIGN DATA WRAPPER file_fdw;"
        "CREATE FOREIGN TABLE public.far (geom geometry) SERVER far OPTIONS (filename '/dev/null')",
    ),
    "a foreign partition": (
        "public.parts",
        "CREATE EXTENSION IF NOT EXISTS file_fdw; CREATE SERVER far FOREIGN DATA WRAPPER file_fdw;"
        "CREATE FOREIGN TABLE public.far PARTITION OF public.parts FOR VALUES IN (7) SERVER far"
        " OPTIONS (filename '/dev/null')",
    ),
}


@pytest.fixture
def mallory(connection: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    """A login without a role of dbanon, with a schema of its own."""
    with psycopg.connect(login("pg_monitor"), autocommit=True) as opened:
        name = opened.info.user
        connection.execute(OTHERS.format(mallory=name, street=STREET))  # type: ignore[arg-type]
        yield opened


@pytest.fixture
def wanda(login: Login) -> Iterator[Connection]:
    """An operator, who makes pages."""
    opened = connect(login("dbanon_operator"))
    yield opened
    opened.close()


def set_up(owner: psycopg.Connection, mallory: psycopg.Connection, table: str, made: str) -> None:
    owner.execute(made.format(mallory=mallory.info.user))  # type: ignore[arg-type]
    owner.execute("RESET SESSION AUTHORIZATION")
    owner.execute(f"GRANT SELECT ON {table} TO PUBLIC")  # type: ignore[arg-type]
    owner.execute("SELECT setval('src.calls', 1, false)")


def draw(connection: Connection, table: str) -> tuple[str, str]:
    """Draw as pages for analysts do: in a transaction with the analysts' role, where the login may take it."""
    with connection.transaction():
        connection.execute("SAVEPOINT here")
        try:
            connection.execute("SET LOCAL ROLE dbanon_analyst")
        except psycopg.errors.InsufficientPrivilege:
            connection.execute("ROLLBACK TO here")
        return backdrops.draw(connection, pictured.scale_to_window(WINDOW), 32632, table)


def count_calls(owner: psycopg.Connection) -> int:
    called, value = owner.execute("SELECT is_called, last_value FROM src.calls").fetchone() or (None, 0)
    return int(value) if called else 0


def refuse(connection: Connection, table: str) -> str:
    with pytest.raises(ParameterError) as refused:
        draw(connection, table)
    return str(refused.value)


@pytest.mark.parametrize("trap", TRAPS)
def test_nothing_of_another_login_runs_as_whoever_makes_a_page(connection, mallory, wanda, trap):
    table, made = TRAPS[trap]
    set_up(connection, mallory, table, made)
    said = refuse(wanda, table)
    assert mallory.info.user in said
    assert count_calls(connection) == 0
    # It is a trap: whoever reads the table otherwise runs the function.
    wanda.execute(f"SELECT geom FROM {table} WHERE public.st_npoints(geom) > 0 AND id <> 5".encode()
                  if table != "src.v" else b"SELECT geom FROM src.v")  # fmt: skip
    assert count_calls(connection) > 0


@pytest.mark.parametrize("suspect", SUSPECTS)
def test_a_table_whose_owner_may_make_it_run_something_is_refused(connection, mallory, wanda, suspect):
    table, made = SUSPECTS[suspect]
    set_up(connection, mallory, table, made)
    refuse(wanda, table)


def test_a_session_that_has_taken_a_login_s_name_does_not_trust_that_login(connection, mallory, database):
    superuser = connect(database)
    superuser.execute(f"SET SESSION AUTHORIZATION {mallory.info.user}".encode())
    refuse(superuser, "src.streets")
    superuser.close()


@tries("A backdrop must be a table without row level security")
@pytest.mark.parametrize("trap", ["a view", "a policy of a plain table", "an index of a trusted owner", "a partition"])
def test_a_refused_backdrop_is_copied_as_the_sentence_says_and_runs_nothing_as_the_caller(
    connection, mallory, database, trap
):
    table, made = TRAPS[trap]
    set_up(connection, mallory, table, made)
    caller = connect(database)
    [(mine, owner, theirs)] = re.findall(r"(CREATE TABLE .*); and as (\S+): (INSERT .*)\.$", refuse(caller, table))
    assert owner == mallory.info.user
    caller.execute(mine.encode())
    assert count_calls(connection) == 0
    mallory.execute(theirs)
    calls = count_calls(connection)
    assert draw(caller, "public.backdrop")[0]
    assert count_calls(connection) == calls
    caller.close()


@pytest.mark.parametrize(
    "made",
    [
        "CREATE INDEX ON public.streets USING gist (ST_Transform(geom, 3857)) WHERE ST_NPoints(geom) > 1;"
        " ALTER TABLE public.streets ADD CHECK (ST_SRID(geom) = 32632)",
        "ALTER TABLE public.streets OWNER TO dbanon_admin",
        "ALTER TABLE public.streets OWNER TO {wanda}",
        "DROP TABLE public.streets; ALTER TABLE public.parts RENAME TO streets",
        "ALTER TABLE public.streets RENAME TO base; CREATE MATERIALIZED VIEW public.streets AS TABLE public.base;"
        " GRANT SELECT ON public.streets TO PUBLIC",
        # A type of another login in a column that is not read, and a default, run nothing.
        "CREATE TYPE src.kind AS ENUM ('main'); ALTER TYPE src.kind OWNER TO {mallory};"
        " ALTER TABLE public.streets ADD COLUMN kind src.kind, ADD COLUMN n integer;"
        " ALTER TABLE public.streets ALTER n SET DEFAULT src.f(1)",
    ],
)
def test_tables_of_trusted_owners_are_drawn(connection, mallory, wanda, made):
    connection.execute(made.format(wanda=wanda.info.user, mallory=mallory.info.user))
    path = draw(wanda, "public.streets")[0]
    assert [abs(int(n)) for n in re.findall(r"-?\d+", path)] == pytest.approx(
        [UNITS_ACROSS * n / 1000 for n in (100, 900, 800, 700)], abs=6
    )


def test_an_analyst_draws_as_others_do(connection, mallory, login):
    analyst = connect(login("dbanon_analyst"))
    assert draw(analyst, "public.streets")[0]
    assert mallory.info.user in refuse(analyst, "src.streets")
    analyst.close()


@pytest.mark.parametrize("name", [
    "src.streets; drop table x", "", ".", "a.b.c.d", "other.public.streets", "public.", '"', "pg_temp.x", "no.such",
    "public.streets(geom)", "a\x00b", "12", "pg_catalog.pg_class", "public.none", "x" * 5000, "dbanon.trajectory",
])  # fmt: skip
def test_a_name_of_no_table_gets_the_sentence_of_backdrops(wanda, name):
    assert "Name one such as" in refuse(wanda, name)


def test_a_type_that_is_only_called_geometry_is_no_geometry(connection, mallory, wanda):
    connection.execute("CREATE DOMAIN src.geometry AS text; CREATE TABLE public.fake (geom src.geometry)")
    connection.execute("GRANT SELECT ON public.fake TO PUBLIC")
    assert "Name one such as" in refuse(wanda, "public.fake")


def test_names_are_quoted(connection, mallory, wanda):
    name = sql.Identifier("public", '50%s of "streets"')
    connection.execute(sql.SQL("CREATE TABLE {} AS SELECT geom AS {} FROM src.streets").format(
        name, sql.Identifier('the %(geom)s "')))  # fmt: skip
    connection.execute(sql.SQL("GRANT SELECT ON {} TO PUBLIC").format(name))
    assert draw(wanda, name.as_string())[0]


@pytest.mark.parametrize("kind", ["TABLE", "MATERIALIZED VIEW"])
def test_between_check_and_read_a_table_gets_no_other_name(connection, mallory, wanda, monkeypatch, kind):
    connection.execute(f"CREATE {kind} public.way AS TABLE src.streets; GRANT SELECT ON public.way TO PUBLIC")
    demand, tried = backdrops._demand_harmless, []

    def swap(*given: Any) -> None:
        demand(*given)
        connection.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute(f"ALTER {kind} public.way RENAME TO other")
        tried.append(given)

    monkeypatch.setattr(backdrops, "_demand_harmless", swap)
    assert draw(wanda, "public.way")[0]
    assert tried


# ---- shapes and size


def make_table(owner: psycopg.Connection, shape: str, rows: str = "") -> None:
    owner.execute("DROP TABLE IF EXISTS public.bed")
    owner.execute(f"CREATE TABLE public.bed AS SELECT {shape} AS geom {rows}")  # type: ignore[arg-type]
    owner.execute("GRANT SELECT ON public.bed TO PUBLIC")


def read_numbers(path: str) -> list[int]:
    return [int(n) for n in re.findall(r"-?\d+", path)]


def test_areas_and_lines_are_cut_at_the_edges_of_the_map(connection, wanda):
    make_table(connection, "ST_GeomFromText('POLYGON((-9e5 -9e5, 9e5 -9e5, 9e5 9e5, -9e5 9e5, -9e5 -9e5),"
               "(200 200, 200 9000, 400 9000, 400 200, 200 200))', 32632)")  # fmt: skip
    lines, areas = draw(wanda, "public.bed")
    assert not lines
    assert areas.count("M") == 2
    assert {abs(n) for n in read_numbers(areas)} == {UNITS_ACROSS * n // 5 for n in (0, 1, 4, 5)}
    make_table(connection, "ST_GeomFromText('MULTILINESTRING((-9000 500, 9000 500), (7000 7000, 8000 8000))', 32632)")
    lines, areas = draw(wanda, "public.bed")
    assert not areas
    assert max(map(abs, read_numbers(lines))) <= UNITS_ACROSS


def test_pieces_of_a_street_are_joined_before_they_are_simplified(connection, wanda):
    make_table(
        connection,
        "ST_SetSRID(ST_MakeLine(ST_MakePoint(n, n % 2 * 0.1), ST_MakePoint(n + 1, (n + 1) % 2 * 0.1)), 32632)",
        "FROM generate_series(0, 999) n",
    )
    lines, _ = draw(wanda, "public.bed")
    assert lines.count("M") == 1
    assert len(read_numbers(lines)) <= 8


def test_shapes_that_are_no_lines_or_areas_are_refused_in_a_sentence(connection, wanda):
    make_table(connection, "ST_GeomFromText('CURVEPOLYGON(CIRCULARSTRING(0 0, 400 0, 400 400, 0 400, 0 0))', 32632)")
    assert "other shapes" in refuse(wanda, "public.bed")
    make_table(connection, "ST_GeomFromText('POINT(5 5)', 32632)")
    assert draw(wanda, "public.bed") == ("", "")


@pytest.mark.parametrize("more", [0, 1])
def test_a_backdrop_has_at_most_so_many_points_in_the_map(connection, wanda, more):
    make_table(
        connection,
        "ST_SetSRID(ST_MakeLine(ST_MakePoint(n::float / 1000, 500) ORDER BY n), 32632)",
        f"FROM generate_series(1, {backdrops.MAX_POINTS + more}) n",
    )
    if more:
        assert f"{backdrops.MAX_POINTS + more:,}" in refuse(wanda, "public.bed")
    else:
        assert draw(wanda, "public.bed")[0].count("M") == 1


@pytest.mark.parametrize("region", ["POLYGON((5 5,5 5,5 5,5 5))", "POLYGON((5 5,9 5,5 5,5 5))"])
def test_a_page_shows_rows_whose_regions_have_no_area(scratch: psycopg.Connection, region: str) -> None:
    since, until = datetime(2008, 6, 4, 8, 0, tzinfo=UTC), datetime(2008, 6, 4, 8, 2, tzinfo=UTC)
    scratch.execute("SELECT dbanon_internal.begin_asking()")
    scratch.execute("SELECT dbanon_internal.copy_run_rows(1, '{(,)}')")
    scratch.execute("UPDATE pg_temp.asked_rows SET region = ST_GeomFromText(%s, 32610)", [region])
    about = sql.SQL("(SELECT a FROM dbanon_internal.describe_as_release(1) a)")
    rows = pictured.Rows(
        about=about, relation=sql.SQL("pg_temp.asked_rows"), since=since, until=until, srid=32610, k=5, holds="instant"
    )
    found = pictured.collect_shown(scratch, rows, ZoneInfo("UTC"), shows_questions=True)
    assert [share for *_, share in found.sizes] == [1]
