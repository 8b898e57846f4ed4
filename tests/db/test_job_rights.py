"""Jobs and rights: only a session that has logged in as the owner runs one, with that login's rights and no others."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.db.nights import add, compute, find_day, list_periods, make_source, take_step
from tests.facts import expect_refusal
from tests.golden import reference
from tests.reading import collect_notices, read_value

Login = Callable[[str], str]
RUN = "CALL dbanon.run_jobs(wait => false)"
PLAN = "SELECT since FROM dbanon.plan_job('taxi', 1)"
# A view whose function takes back, while it is read, what role the session has taken, and notes as a lock who it is.
TRAP = """
CREATE FUNCTION public.escape(lat float8) RETURNS float8 LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    BEGIN
        {};
    EXCEPTION WHEN others THEN
        NULL;
    END;
    PERFORM pg_advisory_lock_shared(4242, oid::bigint::integer) FROM pg_roles WHERE rolname = current_user;
    RETURN lat;
END $$;
CREATE VIEW public.trap AS SELECT cab, ts, lon, public.escape(lat) AS lat FROM public.gps;
GRANT SELECT ON public.trap TO PUBLIC;
"""


@pytest.fixture
def own(connection: psycopg.Connection) -> psycopg.Connection:
    make_source(connection)
    return connection


@pytest.fixture
def nina(own: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    """An operator who owns a job."""
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        yield opened


@pytest.fixture
def other(own: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    """Another operator."""
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        yield opened


def list_caught(connection: psycopg.Connection[Any]) -> list[tuple[str, int]]:
    """As whom, and in which sessions that are still open, the trap was read."""
    return connection.execute(
        "SELECT DISTINCT rol.rolname::text, loc.pid FROM pg_locks loc JOIN pg_roles rol ON rol.oid = loc.objid"
        " JOIN pg_database dat ON dat.oid = loc.database AND dat.datname = current_database()"
        " WHERE loc.locktype = 'advisory' AND loc.classid = 4242"
    ).fetchall()


def find_name(connection: psycopg.Connection[Any]) -> str:
    return str(read_value(connection, "SELECT session_user"))


def test_an_operator_runs_jobs_of_its_own_through_to_a_part(own, nina):
    add(nina)
    assert nina.execute(RUN).fetchone() == (2, 0)
    compute(own)
    assert nina.execute(RUN).fetchone() == (5, 0)
    assert read_value(own, "SELECT published_by FROM dbanon.release") == find_name(nina)
    assert read_value(own, "SELECT loaded_by FROM dbanon.load LIMIT 1") == find_name(nina)


def test_jobs_of_others_are_left_alone(own, nina, other):
    add(nina)
    assert other.execute(RUN).fetchone() == (0, 0)
    assert own.execute(RUN).fetchone() == (0, 0)
    assert list_periods(own) == []
    with expect_refusal("DA014"):
        other.execute("CALL dbanon.run_jobs('taxi')")


@pytest.mark.parametrize(
    "call",
    [
        "SELECT dbanon_internal.advance_job(1)",
        "SELECT dbanon_internal.claim_job(1)",
        "SELECT dbanon_internal.leave_job(1)",
        "SELECT dbanon_internal.open_period(1)",
        "SELECT dbanon_internal.drop_part_rows(1)",
        "SELECT dbanon_internal.set_period(1, '[2008-06-01Z,2008-06-02Z)', '{\"state\": \"done\"}')",
    ],
)
def test_no_step_of_a_job_can_be_taken_by_another_login(own, nina, other, call):
    add(nina)
    assert read_value(own, "SELECT job_id FROM dbanon.job") == 1
    take_step(nina)
    before = list_periods(own, "state, changed_at")
    with expect_refusal("DA014"):
        other.execute(call)
    assert list_periods(own, "state, changed_at") == before


def test_another_operator_pauses_and_decides_but_neither_changes_nor_removes(own, nina, other):
    add(nina)
    with expect_refusal("DA014"):
        add(other, ", replace => true")
    with expect_refusal("DA014"):
        other.execute("SELECT dbanon.steer_job('taxi', 'remove')")
    with expect_refusal("DA014"):
        add(other, f", owner => '{find_name(nina)}'", name="hers")
    other.execute("SELECT dbanon.steer_job('taxi', 'pause'), dbanon.steer_job('taxi', 'resume')")
    other.execute("SELECT dbanon.steer_job('taxi', 'skip', %s, 'the receivers were broken')", [find_day(0)])
    assert read_value(own, "SELECT owner FROM dbanon.jobs") == find_name(nina)


def test_a_job_is_added_for_a_role_that_the_login_may_become(own, nina, other):
    own.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(find_name(nina)), sql.Identifier(find_name(other))))
    add(other, f", owner => '{find_name(nina)}'")
    assert nina.execute(RUN).fetchone() == (2, 0)


def test_nobody_writes_the_tables_of_jobs(own, nina):
    add(nina)
    for statement in (
        "UPDATE dbanon.job SET source = 'public.trap'",
        "UPDATE dbanon.job_period SET state = 'done'",
        "DELETE FROM dbanon.job",
        "INSERT INTO dbanon.job_period (job_id, period) VALUES (1, '[2008-06-01Z,2008-06-02Z)')",
    ):
        with expect_refusal("42501"):
            nina.execute(statement)


@pytest.mark.parametrize(
    "escape", ["RESET ROLE", "SET ROLE NONE", "RESET SESSION AUTHORIZATION", "SET ROLE dbanon_admin"]
)
def test_a_source_that_takes_back_the_role_of_the_session_gains_nothing(own, nina, escape):
    own.execute(TRAP.format(escape))
    add(nina, source="public.trap")
    nina.execute(RUN)
    assert list_caught(own) in ([(find_name(nina), nina.info.backend_pid)], [])


@pytest.mark.parametrize("become", ["SET ROLE {}", "SET SESSION AUTHORIZATION {}"])
def test_a_session_that_has_become_the_owner_runs_and_plans_no_job(own, nina, become):
    own.execute(TRAP.format("RESET SESSION AUTHORIZATION"))
    add(nina, source="public.trap")
    caught = list_caught(own)
    own.execute(sql.SQL(become).format(sql.Identifier(find_name(nina))))  # type: ignore[arg-type]
    for statement in (RUN, PLAN):
        with expect_refusal("DA014"):
            own.execute(statement)
    own.execute("RESET SESSION AUTHORIZATION")
    own.execute("RESET ROLE")
    assert list_caught(own) == caught == [(find_name(nina), nina.info.backend_pid)]


def test_nothing_of_a_job_s_source_or_filter_runs_as_whoever_else_plans_it(own, nina, other):
    own.execute(TRAP.format("RESET ROLE"))
    add(nina, source="public.trap")
    caught = list_caught(own)
    for planner in (other, own):
        with expect_refusal("DA014"):
            planner.execute(PLAN)
    assert list_caught(own) == caught == [(find_name(nina), nina.info.backend_pid)]
    assert nina.execute(PLAN).fetchall() == [(find_day(0),)]
    assert list_caught(own) == caught


def test_a_job_of_a_superuser_is_pointed_out(own):
    said = collect_notices(own)
    add(own)
    assert any("superuser" in line for line in said)


def test_a_source_that_may_not_be_read_is_refused_and_stops_no_other_job(own, nina):
    own.execute("CREATE TABLE public.other AS SELECT 'o' || cab AS cab, ts, lon, lat FROM public.gps")
    with expect_refusal("DA014"):
        add(nina, name="other", source="public.other")
    own.execute("GRANT SELECT ON public.other TO PUBLIC")
    add(nina, name="other", source="public.other")
    add(nina)
    own.execute("REVOKE SELECT ON public.other FROM PUBLIC")
    nina.execute(RUN)
    assert list_periods(own, "state, sqlstate", "other") == [("load", "DA014")]
    assert list_periods(own, "state") == ["compute"]


def test_a_job_whose_owner_is_gone_is_orphaned_and_stops_no_other(own, nina):
    own.execute("CREATE ROLE gone_soon LOGIN IN ROLE dbanon_operator")
    add(own, ", owner => 'gone_soon'", name="behind")
    own.execute("DROP ROLE gone_soon")
    add(nina)
    nina.execute(RUN)
    assert list_periods(own, "state") == ["compute"]
    assert read_value(own, "SELECT state FROM dbanon.jobs WHERE name = 'behind'") == "orphaned"
    assert read_value(own, "SELECT level FROM dbanon.health WHERE about = 'job behind' AND what LIKE '%%owner%%'") == 2
    # It stays of its owner until it is given another, who reads its source from then on.
    with expect_refusal("DA014", "gone_soon"):
        nina.execute("SELECT dbanon.add_job('behind', wait => '2 hours', replace => true)")
    nina.execute("SELECT dbanon.add_job('behind', owner => session_user, replace => true)")
    assert read_value(own, "SELECT owner FROM dbanon.jobs WHERE name = 'behind'") == find_name(nina)


def test_neither_a_filter_nor_a_source_is_in_the_audit_or_in_what_workers_see(own, nina, login):
    nina.execute(
        "SELECT dbanon.add_job('taxi', 'public.gps', load => %s, method => 'tp-aware', params => '{\"k\": 3}')",
        ['{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat", "filter": "cab <> \'zoe\'"}'],
    )
    with psycopg.connect(login("dbanon_worker"), autocommit=True) as worker:
        seen = str(
            worker.execute(
                "SELECT j::text FROM dbanon.jobs j UNION ALL SELECT r::text FROM dbanon.job_runs r"
            ).fetchall()
        )
        seen += str(worker.execute("SELECT h::text FROM dbanon.health h").fetchall())
        seen += str(worker.execute("SELECT v::text FROM dbanon_internal.list_vitals() v").fetchall())
        named = worker.execute("SELECT DISTINCT name FROM dbanon_internal.list_vitals()").fetchall()
        with expect_refusal("42501"):
            worker.execute("SELECT * FROM dbanon.job")
    seen += str(own.execute("SELECT a::text FROM dbanon.audit a").fetchall())
    assert "job_lag_seconds" in seen
    listed = (reference.FOLDER / "settings.md").read_text()
    assert [name for (name,) in named if f"| `dbanon_{name}` |" not in listed] == []
    assert "zoe" not in seen
    assert "gps" not in seen
