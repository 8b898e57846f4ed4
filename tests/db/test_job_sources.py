"""What a job's source does wrong, by will or by mistake, stays with that job, and none of its words go anywhere."""

from typing import Any

import psycopg
import pytest

from dbanon.base.errors import DbanonError
from dbanon.runs.jobs import OWN_LINE, run_jobs
from dbanon.worker.events import Log
from dbanon.worker.schedule import Schedule, _explain_failure
from tests.db.nights import add, list_periods, make_source
from tests.facts import demand_named
from tests.reading import read_value

RUN = "CALL dbanon.run_jobs(wait => false)"
WORDS = "Anna Miller of 3 Elm Street was at 13.4,52.5"
SOURCE = """
CREATE FUNCTION public.spite(lat float8) RETURNS float8 LANGUAGE sql AS 'SELECT lat';
CREATE VIEW public.spiteful AS SELECT cab, ts, lon, public.spite(lat) AS lat FROM public.gps;
CREATE TABLE public.other AS SELECT 'o' || cab AS cab, ts, lon, lat FROM public.gps;
CREATE TABLE public.noted (number int);
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {fail}; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON public.noted DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION public.fail();
"""
SPITE = """
CREATE OR REPLACE FUNCTION public.spite(lat float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN {}; RETURN lat; END $$
"""
RAISE = f"RAISE EXCEPTION '{WORDS}' USING ERRCODE = '{{}}', DETAIL = '{WORDS}', HINT = '{WORDS}'"
INSERT = "INSERT INTO public.noted VALUES (1)"
QUIET = "PERFORM 1"

# What the function of the source does, what the trigger does that it defers, and what the period shows.
RECORDED = {
    **{
        state: (RAISE.format(state), QUIET, "DA012") for state in ("DA020", "DA013", "DA005", "DA010", "DA018", "P0001")
    },
    **{state: (RAISE.format(state), QUIET, state) for state in ("40P01", "40001", "55P03", "57014", "53100")},
    "assertion": (f"ASSERT false, '{WORDS}'", QUIET, "P0004"),
    "long": (f"RAISE EXCEPTION '%', repeat('{WORDS}', 100000)", QUIET, "DA012"),
    "our words": (f"PERFORM dbanon_internal.raise_refusal('DA020', '{WORDS}', '', '')", QUIET, "DA012"),
    "our refusal": (f"PERFORM dbanon_internal.demand_zone('{WORDS}')", QUIET, "DA012"),
    "deferred": (INSERT, RAISE.format("DA020"), "DA012"),
    "deferred, our words": (INSERT, f"PERFORM dbanon_internal.raise_refusal('DA020', '{WORDS}', '', '')", "DA012"),
    "deferred, lock": (INSERT, RAISE.format("55P03"), "DA012"),
    "deferred, cancelled": (INSERT, RAISE.format("57014"), "57014"),
    "deferred, asserted": (INSERT, f"ASSERT false, '{WORDS}'", "P0004"),
}
# These end the session's work.
ENDING = {
    "cancelled": ("PERFORM pg_cancel_backend(pg_backend_pid()), pg_sleep(10)", QUIET),
    "deferred again": (
        INSERT,
        "IF NEW.number = 1 THEN SET CONSTRAINTS ALL DEFERRED; INSERT INTO public.noted VALUES (2);"
        f" ELSE {RAISE.format('DA020')}; END IF",
    ),
}


@pytest.fixture
def own(connection: psycopg.Connection) -> psycopg.Connection:
    make_source(connection, days=2)
    return connection


def make_job(connection: psycopg.Connection[Any], does: str, defers: str) -> None:
    """Make a job whose source turns bad after it was added, and one behind it."""
    connection.execute(SOURCE.replace("{fail}", defers))  # type: ignore[arg-type]
    add(connection, source="public.spiteful")
    add(connection, name="other", source="public.other")
    connection.execute(SPITE.replace("{}", does))  # type: ignore[arg-type]


def read_everything(connection: psycopg.Connection[Any]) -> str:
    """All that others see of jobs."""
    queries = ("dbanon.job_runs", "dbanon.jobs", "dbanon.audit", "dbanon.health", "dbanon_internal.list_vitals()")
    return str([connection.execute(f"SELECT x::text FROM {query} x").fetchall() for query in queries])  # type: ignore[arg-type]


@pytest.mark.many
@pytest.mark.parametrize(("does", "defers", "state"), RECORDED.values(), ids=RECORDED)
def test_an_error_of_a_source_is_counted_once_and_says_nothing_of_its_own(own, capsys, does, defers, state):
    make_job(own, does, defers)
    for form in ("json", "text"):
        own.add_notice_handler(Schedule(None, Log(form), grace_s=1)._tell)  # type: ignore[arg-type]
    own.execute(RUN)
    assert list_periods(own, "state, sqlstate, tries") == [("load", state, 1)]
    assert list_periods(own, "state", "other") == ["compute"]
    said = read_everything(own) + capsys.readouterr().err
    assert state in said
    for word in ("Anna", "Elm", "13.4,52.5"):
        assert word not in said


@pytest.mark.parametrize("level", ["NOTICE", "WARNING", "INFO", "LOG"])
def test_what_a_source_says_beside_reaches_no_log(own, capsys, level):
    make_job(own, f"RAISE {level} '{WORDS}' USING ERRCODE = 'DA018'", QUIET)
    own.add_notice_handler(Schedule(None, Log("text"), grace_s=1)._tell)
    own.execute(RUN)
    assert list_periods(own, "state") == ["compute"]
    assert "Anna" not in read_everything(own) + capsys.readouterr().err


@pytest.mark.parametrize(("does", "defers"), ENDING.values(), ids=ENDING)
def test_a_source_that_ends_the_session_stops_no_other_job_and_is_held_at_last(own, capsys, does, defers):
    make_job(own, does, defers)
    own.execute("UPDATE dbanon.job SET max_tries = 3")
    said = ""
    for _ in range(5):
        own.execute("UPDATE dbanon.job_period SET next_at = now() WHERE state = 'load'")
        try:
            run_jobs(own, None, wait=False, strict=False)
        except (DbanonError, psycopg.Error) as error:
            said += str(_explain_failure(error))
    assert list_periods(own, "state", "other") == ["compute"]
    assert list_periods(own, "state, tries")[0] == ("held", 3)
    assert "Anna" not in read_everything(own) + said + capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("PL/pgSQL function dbanon.run_jobs(text,boolean) line 43 at RAISE", True),
        ("PL/pgSQL-Funktion dbanon.run_jobs(text,boolean) Zeile 43 bei RAISE", True),
        ("fonction PL/pgSQL dbanon.run_jobs(text,boolean), ligne 43 à RAISE", True),
        ("PL/pgSQL関数dbanon.run_jobs(text,boolean)の43行目 - RAISE", True),
        ("PL/pgSQL function fail() line 1 at RAISE", False),
        ('PL/pgSQL function "PL/pgSQL function dbanon.run_jobs("() line 1 at RAISE', False),
        ("PL/pgSQL function x.dbanon.run_jobs(text) line 1 at RAISE", False),
        ('SQL statement "PL/pgSQL function dbanon.run_jobs("', False),
    ],
)
def test_the_words_of_run_jobs_are_known_in_every_language(line, own):
    assert bool(OWN_LINE.match(line)) == own


def test_what_a_source_says_beside_is_not_told_to_who_runs_its_job(own):
    make_job(own, f"RAISE WARNING '{WORDS}'", QUIET)
    own.execute("SET search_path = pg_catalog, pg_temp")  # as sessions of dbanon have it
    advanced, _, notices = run_jobs(own, None, wait=False, strict=False)
    assert advanced == len(notices) > 0
    assert "Anna" not in str(notices)


def test_a_cursor_that_a_source_holds_open_is_closed_before_it_is_read(own):
    called = "EXECUTE 'DECLARE late CURSOR WITH HOLD FOR SELECT dbanon_internal.demand_zone(''Anna Miller'')'"
    make_job(own, f"IF NOT EXISTS (SELECT FROM pg_cursors) THEN {called}; END IF", QUIET)
    own.execute(RUN)
    assert [*list_periods(own, "state"), *list_periods(own, "state", "other")] == ["compute", "compute"]


def test_a_column_that_another_server_renamed_is_named(own):
    """As a foreign table has it, whose columns are renamed on the other server."""
    make_job(own, RAISE.format("42703"), QUIET)
    own.execute("ALTER FUNCTION public.spite STABLE")  # else a reading of each column calls it
    own.execute(RUN)
    [(state, error)] = list_periods(own, "sqlstate, error")
    assert state == "DA012"
    demand_named(error, "public.spiteful", "42703", "lat")
    assert "Anna" not in error


def test_a_job_that_was_not_looked_at_for_longest_comes_first(own):
    make_job(own, QUIET, QUIET)
    own.execute("CALL dbanon.run_jobs('taxi', false)")
    row = own.execute("SELECT dbanon_internal.begin_jobs(NULL, false)").fetchone()
    assert row is not None
    ids = {name: read_value(own, "SELECT job_id FROM dbanon.job WHERE name = %s", name) for name in ("other", "taxi")}
    assert row[0] == list(ids.values())
