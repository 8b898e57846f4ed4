"""What an analyst could learn besides the releases: each attack fails, and works once its protection is taken away.

`docs/administrators/analyst-threats.md` has the same list in words.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors

from dbanon import schema
from dbanon.base.errors import StoreError
from dbanon.postgres.connection import translate_errors
from dbanon.postgres.server import parse
from dbanon.testing import cloned_database
from tests.clients import find_client
from tests.facts import expect_refusal
from tests.reading import collect_notices

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

Login = Callable[[str], str]

# Run 1 again, under an id, a seed and parameters that can be looked for.
_TELLTALE = """
INSERT INTO dbanon.run (run_id, dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics)
OVERRIDING SYSTEM VALUE
SELECT 70077, dataset_id, dataset_revision, method, algorithm,
    params || '{"max_gap_s": 86411, "since": 1212566400, "until": 1212566520}', seed, status, metrics
FROM dbanon.run WHERE run_id = 1;
INSERT INTO dbanon.cloak SELECT 70077, record_id, seq, period, region, crowd, subjects, extra FROM dbanon.cloak;
INSERT INTO dbanon.membership SELECT 70077, record_id, trajectory_id, period FROM dbanon.membership;
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
SELECT 70077, 'tp-aware', true, dbanon_internal.compute_run_digest(70077);
COMMIT;
ALTER TABLE dbanon.release ALTER release_id RESTART;
SELECT dbanon.publish(70077, 'ten');
SELECT dbanon.publish(70077, 'grown', grow => true);
CREATE STATISTICS dbanon.subjects (ndistinct) ON dataset_id, subject FROM dbanon.trajectory;
ANALYZE dbanon.trajectory, dbanon.site;
"""

_OPEN_STATISTICS = """
DO $$ DECLARE f regprocedure; v regclass; BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE proname ~ '^(pg_stat_get_|_postgis_|st_estimatedextent$|lo_|lowrite)' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f);
    END LOOP;
    FOR v IN SELECT oid FROM pg_class WHERE relname ~ '^pg_stat(io|_xact)?_' AND relkind = 'v' LOOP
        EXECUTE format('GRANT SELECT ON %s TO PUBLIC', v);
    END LOOP;
END $$;
"""
_OPEN_POSTGIS = _OPEN_STATISTICS + (
    "GRANT USAGE ON SCHEMA dbanon TO PUBLIC;"  # which protects too from PostGIS 3.5 on, where a table is named
    "ALTER TABLE dbanon.trajectory ALTER path SET STATISTICS 100; ANALYZE dbanon.trajectory;"
    "CREATE INDEX ON dbanon.trajectory USING gist (path)"
)
_COUNT = "ANALYZE dbanon.trajectory"
_READABLE = "GRANT USAGE ON SCHEMA dbanon TO PUBLIC; GRANT SELECT ON dbanon.trajectory, dbanon.release_1 TO PUBLIC"
_READABLE_PARTS = (
    "GRANT USAGE ON SCHEMA dbanon TO PUBLIC;"
    " GRANT SELECT ON dbanon.series, dbanon.release, dbanon.series_1, dbanon.release_2 TO PUBLIC"
)
_CALLABLE = "GRANT USAGE ON SCHEMA dbanon TO PUBLIC; GRANT EXECUTE ON FUNCTION dbanon."
_SEQUENCES = "GRANT USAGE ON SCHEMA dbanon TO PUBLIC; GRANT SELECT ON ALL SEQUENCES IN SCHEMA dbanon TO PUBLIC"
_MONITOR = "GRANT pg_read_all_stats TO dbanon_analyst"
_TRAJECTORY = "(SELECT oid FROM pg_class WHERE relname = 'trajectory')"

# Everything that the catalogs show every login as text.
_ALL_TEXT = """
SELECT string_agg(shown.said, E'\\n') FROM (
    SELECT pg_get_viewdef(cla.oid) FROM pg_class cla JOIN pg_namespace nsp ON nsp.oid = cla.relnamespace
        WHERE cla.relkind = 'v' AND nsp.nspname IN ('dbanon', 'published')
    UNION ALL SELECT description FROM pg_description
    UNION ALL SELECT description FROM pg_shdescription
    UNION ALL SELECT concat_ws(' ', relname, reloptions, relacl) FROM pg_class
    UNION ALL SELECT concat_ws(' ', attname, attoptions, attacl, attmissingval) FROM pg_attribute
    UNION ALL SELECT concat_ws(' ', conname, pg_get_constraintdef(oid)) FROM pg_constraint
    UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
    UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index
    UNION ALL SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relispartition
    UNION ALL SELECT concat_ws(' ', proname, prosrc, proconfig) FROM pg_proc
        WHERE pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^(dbanon|published)')
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger
    UNION ALL SELECT concat_ws(' ', seqstart, seqmin, seqincrement) FROM pg_sequence
    UNION ALL SELECT array_to_string(setconfig, ' ') FROM pg_db_role_setting
    UNION ALL SELECT label FROM pg_seclabel
) shown (said)
"""


@dataclass(frozen=True)
class Threat:
    """An attack learns something if its query gives a row whose first value is true."""

    attack: str
    unprotect: str


THREATS = {
    "rows of a private table": Threat("SELECT true FROM dbanon.trajectory", _READABLE),
    "a release's own table, with the order and time of its rows": Threat(
        "SELECT xmin::text <> '' FROM dbanon.release_1", _READABLE
    ),
    "the table of all parts of a release": Threat("SELECT xmin::text <> '' FROM dbanon.series_1", _READABLE_PARTS),
    "the table of a part": Threat("SELECT xmin::text <> '' FROM dbanon.release_2", _READABLE_PARTS),
    "which run a part is of": Threat("SELECT run_id > 0 FROM dbanon.release WHERE bounds IS NOT NULL", _READABLE_PARTS),
    "what parts have in common": Threat("SELECT true FROM dbanon.series", _READABLE_PARTS),
    "a part withdrawn": Threat(
        "SELECT dbanon.unpublish_part('grown', '2008-06-04 08:00Z') = 70077", f"{_CALLABLE}unpublish_part TO PUBLIC"
    ),
    "parts put together": Threat(
        "SELECT dbanon.fold_release('grown', '2008-07-01Z') = 0", f"{_CALLABLE}fold_release TO PUBLIC"
    ),
    "rows of a private table as XML": Threat(
        f"SELECT table_to_xml({_TRAJECTORY}::regclass, true, false, '')::text LIKE '%p3%'", _READABLE
    ),
    "a row by its place": Threat(
        f"SELECT currtid2(format('%s', {_TRAJECTORY}::regclass), '(0,1)') IS NOT NULL", _READABLE
    ),
    "long values, where they are kept": Threat(
        f"SELECT query_to_xml(format('SELECT count(*) AS n FROM pg_toast.pg_toast_%s', {_TRAJECTORY}), true, false, '')"
        "::text LIKE '%<n>%'",
        "GRANT USAGE ON SCHEMA pg_toast TO PUBLIC; DO $$ BEGIN EXECUTE format("
        "'GRANT SELECT ON pg_toast.pg_toast_%s TO PUBLIC', 'dbanon.trajectory'::regclass::oid); END $$",
    ),
    "the information schema": Threat(
        "SELECT true FROM information_schema.columns WHERE table_schema = 'dbanon'", _READABLE
    ),
    "most common values": Threat(
        "SELECT true FROM pg_stats WHERE tablename = 'trajectory' AND attname = 'subject'", _READABLE
    ),
    "the number of combinations": Threat(
        "SELECT n_distinct IS NOT NULL FROM pg_stats_ext WHERE statistics_name = 'subjects'",
        "GRANT USAGE ON SCHEMA dbanon TO PUBLIC; ALTER TABLE dbanon.trajectory OWNER TO dbanon_analyst",
    ),
    "the table of statistics itself": Threat("SELECT true FROM pg_statistic", "GRANT SELECT ON pg_statistic TO PUBLIC"),
    "the table of statistics of combinations itself": Threat(
        "SELECT true FROM pg_statistic_ext_data", "GRANT SELECT ON pg_statistic_ext_data TO PUBLIC"
    ),
    "the number of rows": Threat(
        "SELECT n_live_tup = 10 FROM pg_stat_all_tables WHERE relname = 'trajectory'", _OPEN_STATISTICS + _COUNT
    ),
    "the number of rows, by the function beneath": Threat(
        f"SELECT pg_stat_get_live_tuples({_TRAJECTORY}) = 10", _OPEN_STATISTICS + _COUNT
    ),
    "blocks read": Threat("SELECT true FROM pg_statio_all_tables WHERE relname = 'trajectory'", _OPEN_STATISTICS),
    "the use of indexes": Threat("SELECT true FROM pg_stat_all_indexes WHERE schemaname = 'dbanon'", _OPEN_STATISTICS),
    "calls of functions": Threat(
        "SELECT coalesce(pg_stat_get_function_calls(oid), 0) >= 0 FROM pg_proc WHERE proname = 'compute_run_digest'",
        _OPEN_STATISTICS,
    ),
    "rows written to all tables": Threat(
        "SELECT tup_inserted IS NOT NULL FROM pg_stat_database WHERE datname = current_database()", _OPEN_STATISTICS
    ),
    "the true extent": Threat("SELECT ST_EstimatedExtent('dbanon', 'trajectory', 'path') IS NOT NULL", _OPEN_POSTGIS),
    "the true extent, by an index": Threat(
        f"SELECT _postgis_index_extent({_TRAJECTORY}::regclass, 'path') IS NOT NULL", _OPEN_POSTGIS
    ),
    "a map of where people are": Threat(f"SELECT _postgis_stats({_TRAJECTORY}::regclass, 'path') <> ''", _OPEN_POSTGIS),
    "how many people are in a box": Threat(
        f"SELECT _postgis_selectivity({_TRAJECTORY}::regclass, 'path', "
        "'SRID=32610;POLYGON((0 0,0 50,50 50,50 0,0 0))'::geometry) IS NOT NULL",
        _OPEN_POSTGIS,
    ),
    "a large object that fills the disk": Threat("SELECT lo_from_bytea(0, 'x') > 0", _OPEN_STATISTICS),
    "any way to write a large object": Threat(
        "SELECT bool_or(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc"
        " WHERE proname IN ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_import', 'lo_put', 'lowrite')",
        _OPEN_STATISTICS,
    ),
    "the last key of a sequence": Threat(
        "SELECT last_value > 0 FROM pg_sequences WHERE sequencename = 'trajectory_trajectory_id_seq'",
        _SEQUENCES + "; SELECT nextval('dbanon.trajectory_trajectory_id_seq')",
    ),
    "the last key of a sequence, read from it": Threat("SELECT true FROM dbanon.run_run_id_seq", _SEQUENCES),
    "somebody else's statement": Threat(
        "SELECT query LIKE '%trajectory%' FROM pg_stat_activity WHERE query LIKE '%p3%' AND pid <> pg_backend_pid()",
        _MONITOR + "; SELECT 'trajectory of p3'",
    ),
    "a function in the place of somebody else's": Threat(
        "CREATE FUNCTION public.st_area(geometry, integer DEFAULT 0) RETURNS float8 LANGUAGE sql AS 'SELECT 0::float8';"
        " SELECT true",
        "GRANT CREATE ON SCHEMA public TO PUBLIC",
    ),
    "a function beside the releases": Threat(
        "CREATE FUNCTION published.st_area(geometry) RETURNS float8 LANGUAGE sql AS 'SELECT 0::float8'; SELECT true",
        "GRANT CREATE ON SCHEMA published TO PUBLIC",
    ),
}


@pytest.fixture(scope="module", params=[True, False], ids=["restricted", "open"])
def restricted(request: pytest.FixtureRequest) -> bool:
    """Whether PUBLIC has lost its rights on counters, locks and estimates, or whether nothing was taken from it."""
    return bool(request.param)


@pytest.fixture(scope="module")
def released(dbanon_server: "Target", verified: str, restricted: bool) -> Iterator[str]:
    """Name of a database with a live release of a telltale run."""
    with cloned_database(dbanon_server, parse(verified)["dbname"]) as url:
        schema.upgrade(url, share_roles=True, restrict_public=restricted)
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(_TELLTALE)
        yield parse(url)["dbname"]


@pytest.fixture
def database(dbanon_server: "Target", released: str) -> Iterator[str]:
    """A copy of it for each test."""
    with cloned_database(dbanon_server, released) as url:
        yield url


@pytest.fixture
def analyst(login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as opened:
        yield opened


def is_learned(analyst: psycopg.Connection, attack: str) -> bool:
    try:
        cursor = analyst.execute(attack)
        while cursor.nextset():
            pass
        row = cursor.fetchone()
    except errors.InsufficientPrivilege:
        return False
    except errors.InternalError_:  # PostGIS, of a table without statistics
        return False
    return row is not None and row[0] is True


@pytest.mark.many
@pytest.mark.parametrize("threat", THREATS.values(), ids=THREATS)
def test_an_analyst_learns_it_only_where_the_protection_is_gone(
    connection: psycopg.Connection, analyst: psycopg.Connection, threat: Threat, restricted: bool
) -> None:
    """Where nothing was taken from PUBLIC, counters are open; where people are is not, by a second protection."""
    counted = threat.unprotect.startswith(_OPEN_STATISTICS) and threat.unprotect != _OPEN_POSTGIS
    if restricted or not counted:
        assert not is_learned(analyst, threat.attack)
    connection.execute(threat.unprotect)
    try:
        assert is_learned(analyst, threat.attack)
    finally:
        if threat.unprotect.startswith(_MONITOR):  # roles belong to all databases of the server
            connection.execute(_MONITOR.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))


def test_nothing_in_the_catalogs_tells_of_the_run_behind_a_release(
    connection: psycopg.Connection, analyst: psycopg.Connection
) -> None:
    def found() -> set[str]:
        row = analyst.execute(_ALL_TEXT).fetchone()
        assert row
        assert "release_1" in row[0]
        return {
            secret for secret in ("70077", "424242", "86411", "p3", "pharmacy") if re.search(rf"\b{secret}\b", row[0])
        }

    assert found() == set()
    connection.execute(
        "DO $$ BEGIN EXECUTE (SELECT format('COMMENT ON VIEW published.ten IS %L', concat(run_id, ' ', seed, params))"
        " FROM dbanon.run WHERE run_id = 70077); END $$; COMMENT ON COLUMN published.ten.crowd IS 'p3 in a pharmacy'"
    )
    assert found() == {"70077", "424242", "86411", "p3", "pharmacy"}


_LEAK = """
CREATE FUNCTION pg_temp.leak(integer) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS
$$BEGIN RAISE NOTICE '%', $1; RETURN true; END$$
"""
_HALF = "CREATE OR REPLACE VIEW published.ten AS SELECT * FROM dbanon.release_1 WHERE ST_Area(region) < 0"


def test_no_function_and_no_error_of_an_analyst_sees_more_than_the_view_gives(
    connection: psycopg.Connection, analyst: psycopg.Connection
) -> None:
    """The view gives all of its table. Were rows kept back by a condition, both would see them."""
    heard = collect_notices(analyst)
    analyst.execute(_LEAK)
    visible = "SELECT count(*) FROM published.ten"
    through, divided = "SELECT FROM published.ten WHERE pg_temp.leak(crowd)", visible + " WHERE 1 / (crowd - 5) > 0"
    for definition, shown in ((None, 4), (_HALF, 0)):
        if definition:
            connection.execute(definition)
        heard.clear()
        analyst.execute(through)
        assert analyst.execute(visible).fetchone() == (shown,)
        assert len(heard) == 4
        with pytest.raises(errors.DivisionByZero):
            analyst.execute(divided)
    connection.execute("ALTER VIEW published.ten SET (security_barrier)")
    heard.clear()
    analyst.execute(through)
    assert heard == []


def test_the_servers_own_words_about_a_row_reach_nobody(connection: psycopg.Connection) -> None:
    statements = (
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (1, 'p3', 'SRID=32610;POINT(7 7)')",
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (1, 'p3', now(), '7')",
        "SELECT subject::integer FROM dbanon.trajectory WHERE subject = 'p3'",
        "INSERT INTO dbanon.site (dataset_id, geom) SELECT 1, ('POINT(' || subject || ')')::geometry"
        " FROM dbanon.trajectory WHERE subject = 'p3'",
    )
    for statement in statements:
        with pytest.raises(StoreError) as caught, translate_errors():
            connection.execute(statement)
        assert "p3" in str(caught.value.__cause__)  # what is kept back
        assert "p3" not in str(caught.value)


def test_a_submission_is_heard_by_nobody_who_only_guesses(
    connection: psycopg.Connection, analyst: psycopg.Connection
) -> None:
    """No function notifies a channel of a fixed name: any login could listen on it."""

    def channels() -> list[str]:
        sources = connection.execute(
            "SELECT prosrc FROM pg_proc WHERE pronamespace::regnamespace::text ~ '^dbanon'"
        ).fetchall()
        pattern = r"(?i)^\s*NOTIFY\s+(\w+)|pg_notify\(\s*'([^']*)'\s*,"
        return [a or b for (source,) in sources for a, b in re.findall(pattern, source, re.MULTILINE)]

    def heard() -> int:
        for channel in {"dbanon", "dbanon_run", "run", "runs", *channels()}:
            analyst.execute(f"LISTEN {channel}")
        connection.execute("INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'traj-anon')")
        return len(list(analyst.notifies(timeout=0.05)))

    assert channels() == []
    assert heard() == 0
    connection.execute(
        "CREATE FUNCTION dbanon_internal.notify_all() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN PERFORM pg_notify('dbanon_work', ''); RETURN NULL; END$$;"
        "CREATE TRIGGER notify_all AFTER INSERT ON dbanon.run EXECUTE FUNCTION dbanon_internal.notify_all()"
    )
    assert channels() == ["dbanon_work"]
    assert heard() == 1


def test_how_far_a_load_is_can_be_seen_by_its_login_alone(
    database: str, connection: psycopg.Connection, analyst: psycopg.Connection
) -> None:
    attack = "SELECT relid IS NOT NULL FROM pg_stat_progress_copy"
    with psycopg.connect(database) as loader:
        for unprotect, learnt in (("SELECT", False), (_MONITOR, True)):
            connection.execute(unprotect)
            try:
                with loader.cursor().copy("COPY dbanon.quarantine (load_id, reason) FROM STDIN"):
                    assert is_learned(analyst, attack) is learnt
            finally:
                if learnt:
                    connection.execute(_MONITOR.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))


def test_nothing_shows_where_people_are_without_a_right_on_the_table(connection: psycopg.Connection) -> None:
    """PostGIS's functions read indexes and histograms for every login: the private positions have neither."""
    rows = connection.execute(
        """
        SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind = 'r' AND c.relname !~ '^release_'
            AND a.atttypid = 'geometry'::regtype AND a.attnum > 0 AND (
                coalesce(a.attstattarget, -1) <> 0
                OR c.relname IN ('trajectory', 'cloak') AND EXISTS (
                    SELECT FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey)))
        """
    ).fetchall()
    assert rows == []


def test_the_locks_of_others_are_seen_only_where_the_protection_is_gone(
    connection: psycopg.Connection, analyst: psycopg.Connection, restricted: bool
) -> None:
    """Those of runs tell how many are being worked on, and since when."""
    connection.execute("SELECT dbanon_internal.hold_lock()")  # as who works on a run does
    condition = "locktype = 'advisory' AND objsubid = 1"
    view, function = (f"SELECT objid IS NOT NULL FROM {x} WHERE {condition}" for x in ("pg_locks", "pg_lock_status()"))
    assert (is_learned(analyst, view), is_learned(analyst, function)) == (not restricted, not restricted)
    connection.execute("REVOKE SELECT ON pg_locks FROM PUBLIC")
    connection.execute("GRANT EXECUTE ON FUNCTION pg_lock_status() TO PUBLIC")
    assert (is_learned(analyst, view), is_learned(analyst, function)) == (False, True)
    connection.execute("GRANT SELECT ON pg_locks TO PUBLIC")
    assert (is_learned(analyst, view), is_learned(analyst, function)) == (True, True)


def test_a_function_of_the_callers_own_is_not_called_by_ours(
    connection: psycopg.Connection, analyst: psycopg.Connection
) -> None:
    """Every function pins its path: without that the caller's would decide which quote_ident is meant."""
    connection.execute(
        "CREATE SCHEMA evil; SET search_path = evil, pg_catalog; CREATE FUNCTION evil.quote_ident(text) RETURNS text"
        " LANGUAGE sql AS 'SELECT $1'"
    )
    with expect_refusal("DA002", "'select'"):
        connection.execute("SELECT dbanon_internal.demand_release_name('select')")
    connection.execute("ALTER FUNCTION dbanon_internal.demand_release_name(text) RESET search_path")
    connection.execute("SELECT dbanon_internal.demand_release_name('select')")


def test_each_of_two_protections_keeps_the_map_of_people_by_itself(
    database: str, connection: psycopg.Connection, analyst: psycopg.Connection
) -> None:
    attacks = [threat.attack for threat in THREATS.values() if threat.unprotect == _OPEN_POSTGIS]
    assert len(attacks) == 4
    connection.execute(_OPEN_STATISTICS)  # as on a server where the upgrade may not take the functions
    assert [attack for attack in attacks if is_learned(analyst, attack)] == []
    schema.upgrade(database, share_roles=True, restrict_public=True)
    connection.execute(_OPEN_POSTGIS.removeprefix(_OPEN_STATISTICS))
    assert [attack for attack in attacks if is_learned(analyst, attack)] == []


def test_no_counter_of_a_relation_or_function_is_left_to_everybody(
    connection: psycopg.Connection, analyst: psycopg.Connection, restricted: bool
) -> None:
    """Found by their shape, so that those of a later version are not overlooked."""
    query = """
        SELECT p.oid::regprocedure::text FROM pg_proc p
        WHERE p.proname ~ '^pg_stat_get_' AND oidvectortypes(p.proargtypes) = 'oid'
            AND has_function_privilege(p.oid, 'EXECUTE')
        UNION ALL
        SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname IN ('relid', 'funcid')
        WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind = 'v' AND c.relname ~ '^pg_stat'
            AND has_table_privilege(c.oid, 'SELECT') AND c.relname !~ '^pg_stat_progress_'
    """
    left = {name for (name,) in analyst.execute(query)}
    if not restricted:
        assert len(left) > 50
        return
    assert left <= {"pg_stat_get_subscription(oid)", "pg_stat_get_subscription_stats(oid)", "pg_stat_subscription"}
    connection.execute(_OPEN_STATISTICS)
    assert len(list(analyst.execute(query))) > 50


@pytest.mark.many
@pytest.mark.parametrize("role", ["dbanon_operator", "dbanon_worker", "dbanon_admin", "pg_monitor"])
def test_who_runs_the_server_still_reads_its_counters(connection: psycopg.Connection, login: Login, role: str) -> None:
    with psycopg.connect(login(role)) as somebody:
        row = somebody.execute("SELECT count(n_live_tup) > 0 FROM pg_stat_all_tables").fetchone()
    assert row == (True,)


def test_what_stays_open_is_as_the_page_says(connection: psycopg.Connection, analyst: psycopg.Connection) -> None:
    """Counts that no right covers: docs/administrators/analyst-threats.md names them."""
    connection.execute("ANALYZE dbanon.trajectory, dbanon.membership")
    counted = "SELECT sum(reltuples) FROM pg_class WHERE relname IN ('trajectory', 'membership') AND relkind = 'r'"
    held = "SELECT (SELECT count(*) FROM dbanon.trajectory) + (SELECT count(*) FROM dbanon.membership)"
    assert analyst.execute(counted).fetchone() == connection.execute(held).fetchone()
    connection.execute("REVOKE SELECT ON published.ten, published.grown FROM dbanon_analyst")
    assert analyst.execute("SELECT count(*) FROM published.releases").fetchone() == (0,)
    explained = analyst.execute("EXPLAIN (ANALYZE, TIMING off, COSTS off) SELECT * FROM published.releases")
    assert re.search(r"on release rel\w* \(actual rows=1 ", str(explained.fetchall()))


# What desktop programs and tile servers ask when they connect.
CATALOG_QUERIES = (
    "SELECT f_table_schema, f_table_name, f_geometry_column, upper(type), srid, coord_dimension FROM geometry_columns",
    "SELECT c.relname, c.relkind, c.reltuples, n.nspname, obj_description(c.oid) FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE has_table_privilege(c.oid, 'SELECT')",
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum) FROM pg_attribute a"
    " WHERE a.attrelid = 'published.ten'::regclass AND a.attnum > 0",
    "SELECT postgis_full_version(), pg_is_in_recovery(), has_schema_privilege('published', 'CREATE')",
    "SELECT ST_Extent(region) FROM published.ten",
    "SELECT datname, numbackends FROM (SELECT datname, 0 AS numbackends FROM pg_database) d",
    "SELECT pid, usename, state FROM pg_stat_activity",
    "SELECT pg_size_pretty(pg_database_size(current_database()))",
)


def test_the_queries_of_desktop_programs_still_work(analyst: psycopg.Connection) -> None:
    for query in CATALOG_QUERIES:
        assert analyst.execute(query).fetchall()


def test_psql_still_describes_what_there_is(login: Login) -> None:
    words = [r"\d+ published.ten", r"\dv+ published.*", r"\dt+ *.*", r"\df published.*", r"\dn+", r"\l", r"\du", r"\z"]
    commands = [part for word in words for part in ("-c", word)]
    url = login("dbanon_analyst")
    command = [*find_client("psql", url), "-X", "-v", "ON_ERROR_STOP=1", "-d", url, *commands]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "region" in done.stdout
