"""What a real login of role dbanon_analyst can do: read the releases, and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product

import numpy as np
import psycopg
import pytest
from psycopg import errors

from tests.reading import collect_notices


@pytest.fixture
def analyst(connection: psycopg.Connection, run: int, login: Callable[[str], str]) -> Iterator[psycopg.Connection]:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    connection.execute("ANALYZE")
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as opened:
        yield opened


def test_an_analyst_is_a_member_of_no_other_role(analyst: psycopg.Connection) -> None:
    names = "SELECT rolname FROM pg_roles WHERE rolname LIKE 'dbanon%' AND pg_has_role(oid, 'MEMBER') ORDER BY 1"
    assert analyst.execute(names).fetchall() == [("dbanon_analyst",), (analyst.info.user,)]


def test_an_analyst_reads_a_release(analyst: psycopg.Connection) -> None:
    row = analyst.execute("SELECT count(*), sum(ST_Area(region)), sum(subjects) FROM published.ten").fetchone()
    assert row == (4, 14400.0, 20)


def test_an_analyst_finds_the_release_and_its_promise(analyst: psycopg.Connection) -> None:
    assert analyst.execute(
        "SELECT f_table_name, type, srid FROM geometry_columns WHERE f_table_schema = 'published'"
        " AND f_table_name <> 'atoms'"
    ).fetchall() == [("ten", "POLYGON", 32610)]
    row = analyst.execute("SELECT obj_description('published.ten'::regclass, 'pg_class')").fetchone()
    assert row
    assert "k is 5" in row[0]


def test_an_analyst_finds_in_the_schema_the_release_and_the_lists_of_releases(analyst: psycopg.Connection) -> None:
    found = analyst.execute(
        "SELECT relname, has_table_privilege(oid, 'SELECT') FROM pg_class"
        " WHERE relnamespace = 'published'::regnamespace AND relkind <> 'c' ORDER BY 1"
    )
    assert found.fetchall() == [
        ("atoms", True),
        ("columns", True),
        ("left_out", True),
        ("parts", True),
        ("releases", True),
        ("surfaces", True),
        ("ten", True),
    ]
    assert analyst.execute("SELECT name, k, rows FROM published.releases").fetchall() == [("ten", 5, 4)]
    assert analyst.execute("SELECT FROM published.left_out").fetchall() == []


def test_an_analyst_reads_no_private_table(connection: psycopg.Connection, analyst: psycopg.Connection) -> None:
    names = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'dbanon'::regnamespace AND relkind IN ('r', 'v', 'S')"
    ).fetchall()
    assert len(names) > 12
    for (name,) in names:
        with pytest.raises(errors.InsufficientPrivilege):
            analyst.execute(f"SELECT * FROM dbanon.{name}")


def test_an_analyst_sees_no_statistics_of_private_tables(analyst: psycopg.Connection) -> None:
    for view in ("pg_stats", "pg_stats_ext"):
        assert analyst.execute(f"SELECT count(*) FROM {view} WHERE schemaname = 'dbanon'").fetchone() == (0,)


FORBIDDEN = (
    "SELECT dbanon.publish(1, 'more')",
    "SELECT dbanon.unpublish('ten')",
    "SELECT dbanon.unpublish('ten', end_readers => true)",
    "SELECT dbanon_internal.execute_exclusively('SELECT 1', 1, true)",
    "SELECT * FROM dbanon_internal.find_readers('ten')",
    "SELECT dbanon_internal.compute_run_digest(1)",
    "SELECT * FROM dbanon.region",
    "SELECT * FROM dbanon.record",
    "SELECT * FROM dbanon.hiding",
    "SELECT * FROM dbanon.atom",
    "SELECT * FROM dbanon.published_atom",
    "SELECT * FROM dbanon_internal.gather_region_evidence(1)",
    "SELECT * FROM dbanon_internal.read_region_blocks(1)",
    "SELECT * FROM dbanon_internal.read_membership_blocks(1)",
    "SELECT * FROM dbanon_internal.read_name_blocks(1)",
    "SELECT dbanon_internal.reap_runs()",
    "CREATE TABLE published.mine (a integer)",
    "CREATE TABLE dbanon.mine (a integer)",
    "CREATE VIEW published.mine AS SELECT 1",
    "CREATE FUNCTION published.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION dbanon.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE VIEW published.ten AS SELECT 1",
    "SELECT dbanon_internal.join_hours('[]', 5)",
    "SELECT dbanon_internal.choose_readers('ten', true, NULL)",
    "UPDATE published.ten SET crowd = 9",
    "DELETE FROM published.ten",
    "INSERT INTO published.ten SELECT * FROM published.ten",
    "DROP VIEW published.ten",
    "SET ROLE dbanon_admin",
    "SET ROLE dbanon_worker",
    "SET ROLE dbanon_operator",
)


def test_an_analyst_does_nothing_else(analyst: psycopg.Connection) -> None:
    for statement in FORBIDDEN:
        with pytest.raises((errors.InsufficientPrivilege, errors.UndefinedTable)):
            analyst.execute(statement)


def test_an_analyst_passes_nothing_on(analyst: psycopg.Connection) -> None:
    analyst.execute("GRANT SELECT ON published.ten TO PUBLIC")  # the server only warns that nothing was granted
    row = analyst.execute("SELECT has_table_privilege('pg_monitor', 'published.ten', 'SELECT')").fetchone()
    assert row == (False,)


def test_a_leaky_function_of_an_analyst_sees_only_published_values(analyst: psycopg.Connection) -> None:
    analyst.execute(
        "CREATE FUNCTION pg_temp.leak(integer) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS"
        " $$BEGIN RAISE NOTICE '%', $1; RETURN true; END$$"
    )
    heard = collect_notices(analyst)
    analyst.execute("SELECT FROM published.ten WHERE pg_temp.leak(crowd)")
    assert heard == ["5"] * 4


def test_a_login_without_a_role_sees_nothing(
    connection: psycopg.Connection, run: int, login: Callable[[str], str]
) -> None:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    connection.execute("DROP ROLE IF EXISTS dbanon_test_nobody")
    connection.execute("CREATE ROLE dbanon_test_nobody")
    try:
        with psycopg.connect(login("dbanon_test_nobody"), autocommit=True) as nobody:
            for name in ("published.ten", "dbanon.dataset"):
                with pytest.raises(errors.InsufficientPrivilege):
                    nobody.execute(f"SELECT * FROM {name}")
    finally:
        connection.execute("DROP ROLE dbanon_test_nobody")


_SHAPES = [
    *("POLYGON EMPTY", "POINT(0 0)", "POLYGON((0 0,0 50,50 50,50 0,0 0))", "POLYGON((0 0,0 1e308,1e308 1e308,0 0))"),
    *("POLYGON((NaN NaN,0 1,1 1,NaN NaN))", "CURVEPOLYGON(CIRCULARSTRING(0 0,1 1,2 0,1 -1,0 0))", "LINESTRING EMPTY"),
    *("TIN(((0 0,0 1,1 1,0 0)))", "POLYGON((0 0,1 1,0 1,1 0,0 0))", "LINESTRING(0 0,100 100)", "LINESTRING(1 1,1 1)"),
    *("POLYGON((-180 -90,-180 90,180 90,180 -90,-180 -90))", "POLYGON((-400 -400,-400 400,400 400,-400 -400))"),
    *("MULTIPOLYGON(((0 0,0 1,1 1,0 0)))", "POLYGON Z((0 0 0,0 1 5,1 1 5,0 0 0))", "GEOMETRYCOLLECTION(POINT(0 0))"),
]
# No system, unknown ones, degrees, poles, the earth's centre; another planet, and the other side of this one.
_SYSTEMS = [0, -1, 910001, 998999, 999999, 32610, 4326, 3857, 3031, 4978]
_FAR_SYSTEMS = [104932, 2442]
_DURING = "'[2008-06-04 08:00Z,2008-06-04 09:00Z)'"
_OF_ROWS = [
    "SELECT published.possibly_inside(region, {}) FROM published.ten",
    "SELECT published.definitely_inside(region, {}) FROM published.ten",
    "SELECT published.expected_inside(region, {}) FROM published.ten",
]
_OF_RELEASES = [
    "SELECT published.count_inside('published.ten', {}, at => '2008-06-04 08:00Z')",
    f"SELECT published.requests_inside('published.ten', {{}}, {_DURING})",
    "SELECT published.dwell('published.ten', {})",
    f"SELECT published.crossings('published.ten', {{}}, {_DURING})",
    f"SELECT published.flows_between('published.ten', ARRAY['a'], ARRAY[{{}}], {_DURING})",
    "SELECT published.stays('published.ten', {}, '1 minute')",
]


def test_any_geometry_in_any_system_is_answered_or_refused_in_a_sentence(
    analyst: psycopg.Connection, rng: np.random.Generator
) -> None:
    """Neither PROJ's nor PostGIS's own errors reach an analyst."""
    grid = [*product(_OF_ROWS + _OF_RELEASES, _SHAPES, _SYSTEMS), *product(_OF_RELEASES, _SHAPES, _FAR_SYSTEMS)]
    chosen = [grid[n] for n in rng.choice(len(grid), 150, replace=False)]
    square, line = _SHAPES[2], "LINESTRING(0 0,100 100)"
    chosen += [(query, line if "crossings" in query else square, 999999) for query in _OF_ROWS + _OF_RELEASES]
    chosen += [(query, line if "crossings" in query else square, 2442) for query in _OF_RELEASES]
    refused, wrong = [], []
    for query, shape, srid in chosen:
        try:
            analyst.execute(query.format(f"ST_SetSRID('{shape}'::geometry, {srid})"))
        except psycopg.Error as error:
            refused.append(srid)
            if error.sqlstate != "DA011":
                wrong.append(f"{query} {shape} {srid}: {error}")
    assert wrong == []
    assert refused.count(999999) >= len(_OF_ROWS + _OF_RELEASES)
    assert len(refused) < len(chosen)


_TIMES = ["NULL", "'infinity'", "'-infinity'", "'2008-06-04 08:00Z'", "'4713-01-01 BC'", "'294276-12-31Z'"]
_SPANS = [
    "NULL",
    "'empty'",
    "'(,)'",
    "'[-infinity,infinity]'",
    _DURING,
    "'[4713-01-01 BC,294276-12-31]'",
    "'[infinity,infinity]'",
]
_NUMBERS = ["NULL", "0", "-1", "'NaN'", "'Infinity'", "'-Infinity'", "1e-300", "1e308", "500", "0.001"]
_RELATIONS = [
    "NULL",
    "'published.ten'",
    "'published.releases'",
    "'pg_class'",
    "'pg_temp.zones'",
    "'pg_temp.odd'",
    "'pg_temp.asked_rows'",
    "0::regclass",
]
# Of a release of another form, of another one, and of none.
_CHANGES = [
    '{"holds": "some time", "step_s": null, "srid": 4326, "day_zone": "Europe/Berlin", "name": "two"}',
    '{"name": "releases", "extent": null}',
    '{"since": null, "until": null, "extent": null, "starts": [], "ends": [], "longest_s": null, "rows": 0}',
]
_HOSTILE = {
    "regclass": _RELATIONS,
    "geometry": [f"ST_SetSRID('{shape}'::geometry, {srid})" for shape in _SHAPES for srid in _SYSTEMS] + ["NULL"],
    "timestamp with time zone": _TIMES,
    "tstzrange": _SPANS,
    "double precision": _NUMBERS,
    "boolean": ["NULL", "true", "false"],
    "name": ["NULL", "''", "'id'", "'geom'", "'ctid'", "'Robert''); --'"],
    "integer": ["NULL", "0", "-1", "31", "32610", "2147483647", "-2147483648"],
    "published.releases": ["NULL", *(f"(SELECT {row} FROM published.about('published.ten') a)" for row in (
        "a", *(f"jsonb_populate_record(a, '{change}')" for change in _CHANGES)))],
    "text[]": ["NULL", "'{}'", "'{a}'", "'{a,b}'", "'{a,a}'", "'{a,NULL}'", "'{{a,b},{c,d}}'"],
    "geometry[]": ["NULL", "'{}'", "ARRAY[NULL]", *(f"array_fill(ST_SetSRID('{shape}'::geometry, {srid}), ARRAY[{n}])"
                                                  for shape in _SHAPES for srid in _SYSTEMS for n in (1, 2))],
    "interval": ["NULL", "'0'", "'-1 day'", "'1 microsecond'", "'10 minutes'", "'170000000 years'"],
    "text": ["NULL", "''", "'ten'", "'published.ten'", "'x; --'", "repeat('x', 5000)"],
    "json": ["NULL", "'[]'", "'1'", """'{"release": "ten"}'""", """'{"release": "ten", "at": "soon"}'""",
             """'{"release": "ten", "at": {"a": [1]}}'""", """'{"release": "ten", "at": "9999999-01-01"}'"""],
}  # fmt: skip
_CALLABLE = """
SELECT pro.oid::regproc::text, array(SELECT format_type(arg, NULL) FROM unnest(pro.proargtypes::oid[]) arg)
FROM pg_proc pro
WHERE pro.pronamespace::regnamespace::text ~ '^published' AND has_function_privilege(pro.oid, 'EXECUTE')
"""


def test_no_error_of_the_servers_own_answers_a_question(analyst: psycopg.Connection, rng: np.random.Generator) -> None:
    """Whatever the arguments are: what a function takes is answered, or refused in a sentence."""
    analyst.execute("CREATE TEMP TABLE zones AS SELECT 'a' AS id, ST_MakeEnvelope(0, 0, 50, 50, 32610) AS geom")
    analyst.execute(
        "CREATE TEMP TABLE odd AS SELECT 1 AS id, ST_SetSRID('LINESTRING(0 0,0 0)'::geometry, 4326) AS geom"
    )
    # In the place of a run's rows, which analysts have none of.
    analyst.execute("CREATE TEMP TABLE asked_rows AS TABLE zones")
    analyst.execute("SET statement_timeout = '60s'")  # an answer can have two million cells
    # Not what takes sums of a surface, which are arrays that inner functions give one another.
    asked = [(name, kinds) for name, kinds in analyst.execute(_CALLABLE).fetchall() if set(kinds) <= set(_HOSTILE)]
    assert len(asked) >= 30
    wrong = []
    for name, kinds in asked:
        right = ["'published.ten'" if kind == "regclass" else rng.choice(_HOSTILE[kind]) for kind in kinds]
        for number in range(240 if "geometry" in kinds else 40):
            given = [
                right[place] if kind == "regclass" and number % 4 else rng.choice(_HOSTILE[kind])
                for place, kind in enumerate(kinds)
            ]
            call = ", ".join(f"({value})::{kind}" for value, kind in zip(given, kinds, strict=True))
            try:
                analyst.execute(f"SELECT count(*) FROM {name}({call})")
            except psycopg.Error as error:
                if not (error.sqlstate or "").startswith("DA0"):
                    wrong.append(f"{name}({call}): {error.sqlstate} {error}")
    assert not wrong, "\n".join(wrong)


def test_a_refused_system_spoils_no_later_answer(analyst: psycopg.Connection) -> None:
    """PROJ remembers an error, and reports it with the next use of a transformation that was used before."""
    count = (
        "SELECT at_least, expected, at_most FROM published.count_inside('published.ten', {}, at => '2008-06-04 08:00Z')"
    )
    right = count.format("ST_Transform(ST_MakeEnvelope(0, 0, 50, 50, 32610), 3857)")
    answer = analyst.execute(right).fetchall()
    for srid in _FAR_SYSTEMS:
        with suppress(psycopg.Error):
            analyst.execute(count.format(f"ST_MakeEnvelope(0, 0, 1, 1, {srid})"))
        assert analyst.execute(right).fetchall() == answer
