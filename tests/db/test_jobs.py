"""Jobs: what becomes of a period, step by step; what is tried again, held, skipped; what is kept."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon.testing import cloned_database
from dbanon.worker.events import Log
from dbanon.worker.schedule import Schedule
from tests import here
from tests.acceptance.workers import FIELDS, wait_until
from tests.db.nights import (
    VERDICT,
    add,
    compute,
    compute_period,
    find_day,
    insert_rows,
    let_try_again,
    list_periods,
    make_source,
    read_value,
    run_night,
    take_step,
)
from tests.db.ten_people import CONFIRM
from tests.facts import expect_refusal
from tests.reading import collect_notices

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

RUN = "CALL dbanon.run_jobs(wait => false)"
FORGER = """
CREATE FUNCTION public.forge(t timestamptz) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE NOTICE 'Job x' USING DETAIL = '{"job": "x", "period": "y", "step": "z", "state": "Ann", "error": "Ann"}';
    RETURN t;
END $$
"""
LOCKS = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND {here.LOCKS}"
ADDED = """
SELECT dbanon.add_job('{name}', 'public.gps', dataset => '{dataset}', method => '{method}',
    load => '{{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}}', params => '{{"k": 3}}'{rest})
"""


@pytest.fixture
def own(connection: psycopg.Connection) -> psycopg.Connection:
    """Connection to a database with a source of three days and the day before them."""
    make_source(connection)
    return connection


@pytest.fixture
def job(own: psycopg.Connection) -> psycopg.Connection:
    """Connection to a database with that source and a job for it."""
    add(own)
    return own


def list_held(connection: psycopg.Connection[Any]) -> list[Any]:
    return list_periods(connection, "sqlstate", "taxi")


def test_a_period_is_loaded_computed_and_published_as_a_part(job):
    assert [take_step(job) for _ in range(3)] == ["run", "compute", "waiting"]
    compute(job)
    assert [take_step(job) for _ in range(3)] == ["publish", "retain", "done"]
    assert job.execute("SELECT name, lower(bounds), upper(bounds) FROM dbanon.releases").fetchall() == [
        ("taxi", find_day(0), find_day(1))
    ]
    assert list_periods(job, "at_source, rows_new, known, late, forgotten, error") == [(144, 288, 0, 0, 0, None)]


def test_periods_that_have_passed_are_caught_up_in_order(job):
    assert [run_night(job) for _ in range(3)] == ["done", "done", "idle"]
    assert list_periods(job) == [(find_day(0), "done"), (find_day(1), "done"), (find_day(2), "load")]
    assert read_value(job, "SELECT count(*) FROM published.parts WHERE name = 'taxi'") == 2


def test_a_period_waits_until_the_source_has_a_row_from_after_it(job):
    assert [run_night(job), run_night(job)] == ["done", "done"]
    assert take_step(job) == "load"
    assert list_periods(job, "error IS NULL, sqlstate, tries")[2] == (False, None, 0)
    insert_rows(job, 3, 3.1)
    let_try_again(job)
    assert run_night(job) == "done"


def test_a_period_is_due_only_when_its_wait_is_over(own):
    today = read_value(own, "SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'")
    add(own, f", starts => '{today - timedelta(days=1)}', wait => '30 days'")
    assert take_step(own) == "idle"
    assert list_periods(own) == []


def test_a_period_without_rows_is_skipped_and_opened_again_when_rows_come(own):
    own.execute("DELETE FROM public.gps WHERE ts >= %s AND ts < %s", [find_day(1), find_day(2)])
    insert_rows(own, 3, 4)
    add(own)
    assert [run_night(own), run_night(own)] == ["done", "skipped"]
    insert_rows(own, 1, 2)
    assert take_step(own) == "run"
    assert list_periods(own) == [(find_day(0), "done"), (find_day(1), "load"), (find_day(2), "run")]
    assert [run_night(own), run_night(own)] == ["done", "done"]
    assert list_periods(own, "state") == ["done"] * 3


def test_rows_that_come_after_publication_are_left_out_and_counted(job):
    assert run_night(job) == "done"
    job.execute("INSERT INTO public.gps VALUES ('late', %s, 8.2, 53.1)", [find_day(0.5)])
    assert run_night(job) == "done"
    assert list_periods(job, "late") == [0, 1]
    assert "omitted them" in read_value(job, "SELECT string_agg(what, ' ') FROM dbanon.health WHERE about = 'job taxi'")


def test_rows_that_the_source_deleted_after_publication_are_counted_and_change_nothing(job):
    insert_rows(job, 3, 4)
    assert [run_night(job), run_night(job)] == ["done", "done"]
    job.execute(
        "DELETE FROM public.gps WHERE ts >= %s AND ts < %s AND cab IN ('c1', 'c2')", [find_day(0), find_day(0.25)]
    )
    # What comes late of another day hides nothing.
    job.execute(
        "INSERT INTO public.gps SELECT 'late', %s + i * interval '1 minute', 8.2, 53.1 FROM generate_series(1, 20) i",
        [find_day(1)],
    )
    kept = read_value(job, "SELECT count(*) FROM dbanon.fix")
    assert run_night(job) == "done"
    assert list_periods(job, "gone, late") == [(0, 0), (0, 0), (12, 20)]
    assert read_value(job, "SELECT count(*) FROM dbanon.fix") == kept + 144
    said = job.execute("SELECT level, what FROM dbanon.health WHERE about = 'job taxi' ORDER BY what").fetchall()
    assert [level for level, what in said if "fewer rows" in what or "omitted" in what] == [1, 1]


def test_deleted_rows_are_looked_for_as_far_back_as_rows_may_be_late(own):
    add(own, ", lateness => '1 day'")
    insert_rows(own, 3, 4)
    assert [run_night(own), run_night(own)] == ["done", "done"]
    own.execute("DELETE FROM public.gps WHERE ts < %s", [find_day(1)])
    assert run_night(own) == "done"
    assert list_periods(own, "gone") == [0, 0, 0]


def test_a_period_of_too_few_people_is_skipped(job):
    compute_period(job, "failed", "Too few.", "infeasible")
    assert take_step(job) == "skipped"
    assert list_periods(job, "skipped_as") == ["infeasible"]
    assert run_night(job) == "done"


def test_a_thin_period_waits_then_is_held_and_is_taken_as_it_is_when_asked(own):
    own.execute("DELETE FROM public.gps WHERE ts >= %s AND ts < %s AND cab <> 'c1'", [find_day(1), find_day(2)])
    add(own, ", max_tries => 2")
    assert run_night(own) == "done"
    assert take_step(own) == "load"
    assert list_periods(own, "sqlstate, tries, rows_new")[1] == ("DA012", 1, None)
    let_try_again(own)
    assert take_step(own) == "held"
    assert read_value(own, "SELECT dbanon.steer_job('taxi', 'retry')") == 1
    assert take_step(own) == "run"


def test_a_run_that_the_attack_refuses_is_held_and_the_next_period_goes_on(job):
    compute_period(job, "refused")
    assert take_step(job) == "held"
    assert run_night(job) == "done"
    assert list_periods(job, "state, sqlstate") == [("held", "DA004"), ("done", None)]


def test_no_later_period_is_begun_where_the_job_is_to_stop(own):
    add(own, ", on_held => 'stop'")
    compute_period(own, "refused")
    assert [take_step(own), take_step(own)] == ["held", "idle"]
    assert read_value(own, "SELECT dbanon.steer_job('taxi', 'skip', reason => 'the receivers were broken')") == 1
    assert run_night(own) == "done"


def test_what_breaks_an_earlier_promise_is_held_and_never_overridden(job):
    first = compute_period(job)
    job.execute("SELECT dbanon.publish(%s, 'by_hand')", [first])
    # One person more in the same hour: beside the first release that person is alone.
    job.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) "
        "SELECT dataset_id, 'new', ST_SetSRID(ST_MakePointM(0, 0, %s), srid) FROM dbanon.dataset",
        [find_day(0).timestamp()],
    )
    job.execute("UPDATE dbanon.job_period SET state = 'run'")
    assert take_step(job) == "compute"
    compute(job)
    assert [take_step(job), take_step(job)] == ["publish", "held"]
    assert list_periods(job, "sqlstate") == ["DA010"]
    assert read_value(job, "SELECT count(*) FROM dbanon.release WHERE name = 'taxi'") == 0


@pytest.fixture
def outlier(own: psycopg.Connection) -> psycopg.Connection:
    """Connection to a database with a job whose source has one row of 1970, and then none for 38 years."""
    own.execute("INSERT INTO public.gps VALUES ('c1', '1970-01-01 12:00Z', 8.2, 53.1)")
    add(own, ", starts => '1970-01-01Z'")
    return own


def test_a_gap_of_a_source_is_one_period_but_for_what_may_come_late(outlier):
    compute_period(outlier, "failed", "Too few.", "infeasible")
    assert [run_night(outlier) for _ in range(6)] == ["skipped"] * 5 + ["done"]
    first = datetime(1970, 1, 1, tzinfo=UTC)
    wanted = [first, first + timedelta(days=1), *(find_day(number) for number in range(-4, 1))]
    assert list_periods(outlier, "since") == [*wanted[:2], *wanted[2:6]]
    assert list_periods(outlier, "until")[1] == find_day(-4)
    # A row of the gap that comes late opens its period, as ever.
    insert_rows(outlier, -3, -2)
    assert take_step(outlier) == "run"
    assert (find_day(-3), "load") in list_periods(outlier)


def test_a_plan_passes_over_a_gap_as_the_job_does(outlier):
    found = outlier.execute("SELECT since, until, at_source FROM dbanon.plan_job('taxi', 4)").fetchall()
    assert [row[2] for row in found] == [1, 0, 0, 0]
    assert found[1][1] == find_day(-4)
    assert found[2][:2] == (find_day(-4), find_day(-3))


def test_a_gap_that_is_looked_at_again_is_divided_where_its_rows_are(outlier):
    compute_period(outlier, "failed", "Too few.", "infeasible")
    assert [run_night(outlier), run_night(outlier)] == ["skipped", "skipped"]
    insert_rows(outlier, -100, -98)
    outlier.execute("SELECT dbanon.steer_job('taxi', 'retry', '1970-01-02Z')")
    for _ in range(20):
        if take_step(outlier) == "waiting":
            compute(outlier)
    found = list_periods(outlier, "since, until, state, at_source")
    assert found[1][1:] == (find_day(-100), "skipped", 0)
    assert [row[2:] for row in found[2:4]] == [("done", 144), ("done", 144)]
    assert found[4] == (find_day(-98), find_day(-4), "skipped", 0)


def test_a_figure_above_its_limit_holds_the_period(own):
    add(own, """, limits => '{"seen": 5}'""")
    logged = collect_notices(own)
    own.execute("SET client_min_messages = log")
    compute_period(own)
    assert [take_step(own), take_step(own)] == ["publish", "held"]
    assert "seen" in list_periods(own, "error")[0]
    assert read_value(own, "SELECT count(*) FROM dbanon.release") == 0
    # An administrator enters each line of the log after a restore.
    assert not [said for said in logged if "dbanon: published" in said]


def ask(connection: psycopg.Connection[Any], run: int, people: list[str]) -> None:
    """Let a computed run have a request that one of these people sent, and put the others into groups of their own."""
    connection.execute(
        """UPDATE dbanon.region SET extra = '{"requests": [{"poi": "clinic"}]}' WHERE run_id = %s""", [run]
    )
    connection.execute(
        "INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects)"
        " SELECT run_id, record_id + 1000, seq, period, region, crowd, subjects FROM dbanon.cloak WHERE run_id = %s",
        [run],
    )
    connection.execute(
        "UPDATE dbanon.membership m SET record_id = m.record_id + 1000 FROM dbanon.trajectory t "
        "WHERE t.trajectory_id = m.trajectory_id AND m.run_id = %s AND t.subject <> ALL (%s)",
        [run, people],
    )
    connection.execute(VERDICT, {"run": run})


def test_a_night_over_the_limit_of_what_all_parts_tell_is_held_and_others_go_on(own):
    own.execute("TRUNCATE public.gps")
    insert_rows(own, -1, 4.1, cabs=60)
    add(own, """, limits => '{"requests_of_few_over_parts": 0}'""")
    ends = []
    # Of 60 people one is in all groups of three nights. A night that is held is not known, and the last has others.
    for people in (["c1", "c2", "c3"], ["c1", "c4", "c5"], ["c1", "c6", "c7"], ["c8", "c9", "c10"]):
        ask(own, compute_period(own), people)
        ends.append(run_night(own))
    assert ends == ["done", "done", "held", "done"]
    assert [state for state in list_held(own) if state] == ["DA004"]
    assert "requests_of_few_over_parts" in list_periods(own, "error")[2]
    parts = own.execute("SELECT since FROM published.parts ORDER BY since").fetchall()
    assert parts == [(find_day(0),), (find_day(1),), (find_day(3),)]


def test_a_step_that_fails_is_tried_again_later_and_later_then_held(own):
    add(own, ", max_tries => 4, retry => '1 minute'")
    own.execute("ALTER TABLE public.gps RENAME TO away")
    waits = []
    for tries in (1, 2, 3):
        assert take_step(own) == "load"
        assert list_periods(own, "tries, sqlstate") == [(tries, "DA012")]
        assert take_step(own) == "idle"
        waits.append(read_value(own, "SELECT extract(epoch FROM next_at - changed_at)::float8 FROM dbanon.job_runs"))
        let_try_again(own)
    assert all(later > sooner for sooner, later in itertools.pairwise(waits))
    assert take_step(own) == "held"
    own.execute("ALTER TABLE public.away RENAME TO gps")
    own.execute("SELECT dbanon.steer_job('taxi', 'retry')")
    assert run_night(own) == "done"


def test_a_run_that_failed_or_was_cancelled_is_queued_anew(job):
    assert take_step(job) == "run"
    for status in ("failed", "cancelled"):
        assert take_step(job) == "compute"
        compute(job, status, "It failed.", "other" if status == "failed" else None)
        assert take_step(job) == "run"
        let_try_again(job)
    assert take_step(job) == "compute"
    compute(job)
    assert [take_step(job) for _ in range(3)] == ["publish", "retain", "done"]


def test_data_that_changed_after_the_run_lead_to_another_run(job):
    compute_period(job)
    assert take_step(job) == "publish"
    job.execute("DELETE FROM dbanon.trajectory WHERE subject = 'c6'")
    assert take_step(job) == "run"
    assert list_periods(job, "sqlstate, tries") == [("DA005", 1)]


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_job_goes_on_when_a_person_is_forgotten_before_any_step(own, steps):
    add(own)
    for _ in range(steps):
        if take_step(own) == "waiting":
            compute(own)
    own.execute("SELECT dbanon.forget_subject('taxi', 'c6')")
    assert run_night(own) == "done"
    assert list_periods(own, "state, sqlstate, error, tries") == [("done", None, None, 0)]
    assert read_value(own, "SELECT count(*) FROM published.parts") == 1
    assert read_value(own, "SELECT count(*) FROM dbanon.trajectory WHERE subject = 'c6'") == 0
    # Of a part that was published before, the notice says what can be done.
    assert read_value(own, "SELECT max(subjects) FROM published.taxi") == (6 if steps > 4 else 5)


def test_another_run_is_queued_where_somebody_dropped_the_one_that_waits(job):
    compute_period(job)
    assert take_step(job) == "publish"
    job.execute("SELECT dbanon.drop_run(run_id) FROM dbanon.run")
    assert take_step(job) == "run"
    assert list_periods(job, "run_id, tries, sqlstate, next_at <= now()") == [(None, 0, None, True)]
    assert run_night(job) == "done"


def test_a_name_that_a_release_has_which_does_not_grow_holds_the_period_at_once(job):
    job.execute("SELECT dbanon.publish(%s, 'taxi')", [compute_period(job)])
    assert [take_step(job), take_step(job)] == ["publish", "held"]
    assert list_periods(job, "sqlstate, tries, finished_at IS NULL") == [("DA003", 1, False)]
    assert "replace => true" not in list_periods(job, "error")[0]
    for call in ("dbanon.unpublish('taxi')", "dbanon.steer_job('taxi', 'retry')"):
        assert call in list_periods(job, "error")[0]
        job.execute(f"SELECT {call}")
    assert run_night(job) == "done"
    assert read_value(job, "SELECT count(*) FROM published.parts") == 1


def test_what_is_busy_is_tried_again_without_end(job, database):
    job.execute("ALTER FUNCTION dbanon_internal.lock_releases() SET lock_timeout = '10ms'")
    compute_period(job)
    assert take_step(job) == "publish"
    with psycopg.connect(database) as other:
        other.execute("SELECT dbanon_internal.lock_releases()")
        assert take_step(job) == "publish"
        assert list_periods(job, "sqlstate, tries") == [("DA013", 0)]
    let_try_again(job)
    assert take_step(job) == "retain"


def test_a_period_that_was_published_by_hand_is_done(job):
    run = compute_period(job)
    job.execute("SELECT dbanon.publish(%s, 'taxi', grow => true)", [run])
    assert [take_step(job) for _ in range(3)] == ["publish", "retain", "done"]
    assert read_value(job, "SELECT count(*) FROM dbanon.release") == 1


def test_a_period_whose_part_was_withdrawn_is_published_again_when_asked(job):
    assert [run_night(job), run_night(job)] == ["done", "done"]
    parts = "SELECT array_agg(since ORDER BY since) FROM published.parts"
    job.execute("SELECT dbanon.unpublish_part('taxi', %s)", [find_day(0)])
    with expect_refusal("DA013"):
        job.execute("SELECT dbanon.steer_job('taxi', 'skip', %s, 'the clocks were wrong')", [find_day(0)])
    assert read_value(job, "SELECT dbanon.steer_job('taxi', 'retry', %s)", find_day(0)) == 1
    assert run_night(job) == "done"
    assert read_value(job, parts) == [find_day(0), find_day(1)]
    with expect_refusal("DA013"):
        job.execute("SELECT dbanon.steer_job('taxi', 'retry', %s)", [find_day(0)])


def test_a_job_that_is_added_again_goes_on_where_its_release_ends(job):
    assert run_night(job) == "done"
    job.execute("SELECT dbanon.steer_job('taxi', 'remove')")
    assert read_value(job, "SELECT count(*) FROM dbanon.jobs") == 0
    add(job, ", starts => NULL")
    assert run_night(job) == "done"
    assert list_periods(job) == [(find_day(0), "done"), (find_day(1), "done")]


def test_a_job_that_is_changed_keeps_its_periods(job):
    assert run_night(job) == "done"
    add(job, ", every => '12 hours', replace => true")
    assert run_night(job) == "done"
    assert list_periods(job, "since, until") == [(find_day(0), find_day(1)), (find_day(1), find_day(1.5))]
    wanted = read_value(job, "SELECT array_agg(action ORDER BY audit_id) FROM dbanon.audit WHERE action ~ 'job'")
    assert wanted == ["add_job", "change_job"]


def test_a_paused_job_begins_nothing(job):
    job.execute("SELECT dbanon.steer_job('taxi', 'pause')")
    assert take_step(job) == "idle"
    assert read_value(job, "SELECT state FROM dbanon.jobs") == "paused"
    job.execute("SELECT dbanon.steer_job('taxi', 'resume')")
    assert take_step(job) == "run"


def test_what_steers_a_job_is_audited_with_its_reason(job):
    job.execute("SELECT dbanon.steer_job('taxi', 'skip', %s, 'the clocks were wrong')", [find_day(0)])
    assert run_night(job) == "done"
    assert list_periods(job) == [(find_day(0), "skipped"), (find_day(1), "done")]
    found = job.execute("SELECT release, detail ->> 'reason' FROM dbanon.audit WHERE action = 'skip_period'").fetchall()
    assert found == [("taxi", "the clocks were wrong")]


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("SELECT dbanon.steer_job('taxi', 'skip', reason => 'because')", "DA002"),
        ("SELECT dbanon.steer_job('taxi', 'retry')", "DA013"),
        ("SELECT dbanon.steer_job('taxi', 'retry', '2030-01-01Z')", "DA013"),
        ("SELECT dbanon.steer_job('taxi', 'dance')", "DA011"),
        ("SELECT dbanon.steer_job('none', 'pause')", "DA001"),
        ("SELECT * FROM dbanon.plan_job('none')", "DA001"),
        ("SELECT * FROM dbanon.plan_job('taxi', 0)", "DA011"),
        ("CALL dbanon.run_jobs('none')", "DA001"),
    ],
)
def test_a_job_or_period_that_cannot_be_steered_is_refused(job, statement, state):
    with expect_refusal(state):
        job.execute(statement)


def test_a_plan_says_what_would_become_of_each_period_and_writes_nothing(job):
    job.execute("DELETE FROM public.gps WHERE ts >= %s AND ts < %s", [find_day(1), find_day(2)])
    found = job.execute("SELECT since, at_source, note FROM dbanon.plan_job('taxi', 4)").fetchall()
    assert [row[:2] for row in found] == [(find_day(0), 144), (find_day(1), 0), (find_day(2), 144), (find_day(3), 0)]
    assert [word in note for (_, _, note), word in zip(found, ["", "skipped", "waits", "waits"], strict=True)] == [
        True
    ] * 4
    assert list_periods(job) == []


# ---- a database that went back in time


@pytest.fixture
def restored(job: psycopg.Connection, dbanon_server: "Target") -> Iterator[psycopg.Connection]:
    """Connection to a copy of a database whose job has published a night; the next is computed, and waits."""
    assert run_night(job) == "done"
    name = job.info.dbname
    job.close()
    with cloned_database(dbanon_server, name) as url, psycopg.connect(url, autocommit=True) as copy:
        compute_period(copy)
        assert [take_step(copy), take_step(copy), take_step(copy)] == ["publish", "publish", "idle"]
        yield copy


@pytest.mark.parametrize("by", ["itself", "retry"])
def test_a_job_of_a_restored_database_waits_without_end_and_publishes_once_its_history_is_confirmed(restored, by):
    for _ in range(12):
        let_try_again(restored)
        assert take_step(restored) == "publish"
    assert list_periods(restored, "state, sqlstate, tries")[1] == ("publish", "DA020", 0)
    assert "confirm_history" in list_periods(restored, "error")[1]
    restored.execute(CONFIRM)
    if by == "retry":
        restored.execute("SELECT dbanon.steer_job('taxi', 'retry', %s)", [find_day(1)])
    else:
        let_try_again(restored)
    assert run_night(restored) == "done"
    assert read_value(restored, "SELECT count(*) FROM published.parts") == 2


def test_a_night_that_was_published_after_the_dump_is_held_and_the_next_goes_on(restored):
    lost = [{"since": find_day(1).isoformat(), "until": find_day(2).isoformat(), "reach_s": 0}]
    restored.execute("SELECT dbanon.confirm_history(%s, 'as the log has it')", [json.dumps(lost)])
    let_try_again(restored)
    assert take_step(restored) == "held"
    assert list_held(restored) == [None, "DA010"]
    insert_rows(restored, 3, 3.1)
    assert run_night(restored) == "done"
    assert restored.execute("SELECT since FROM published.parts ORDER BY since").fetchall() == [
        (find_day(0),),
        (find_day(2),),
    ]


# ---- retention


def test_retention_forgets_old_data_but_spares_the_history_of_the_next_period(own):
    add(own, ", keep_data => '1 day', lateness => '0'")
    assert [run_night(own), run_night(own)] == ["done", "done"]
    first = read_value(own, "SELECT to_timestamp(min(first_s)) FROM dbanon.trajectory")
    assert first == find_day(1)
    assert read_value(own, "SELECT kept_since FROM dbanon.dataset") == find_day(1)


def test_retention_never_forgets_what_a_held_period_needs(own):
    add(own, ", keep_data => '1 day'")
    compute_period(own, "refused")
    assert take_step(own) == "held"
    assert run_night(own) == "done"
    assert read_value(own, "SELECT kept_since FROM dbanon.dataset") == find_day(0) - timedelta(seconds=900)


def test_retention_never_forgets_what_another_job_of_the_dataset_needs(own):
    insert_rows(own, 3, 3.1)
    add(own, ", dataset => 'd'", "slow")
    add(own, ", dataset => 'd', keep_data => '1 day', lateness => '0'", "quick")
    assert [take_step(own, "slow"), take_step(own, "slow")] == ["run", "compute"]
    compute(own, "refused")
    assert take_step(own, "slow") == "held"
    for done in range(2):
        assert take_step(own, "quick") == "run"
        assert take_step(own, "quick") == "compute"
        compute(own)
        own.execute("UPDATE dbanon.job_period SET state = 'retain' WHERE state = 'compute'")
        assert take_step(own, "quick") == "done"
        assert read_value(own, "SELECT kept_since FROM dbanon.dataset") == find_day(0) - timedelta(seconds=900), done
    # The next night of the other job begins a day later.
    own.execute("SELECT dbanon.steer_job('slow', 'skip', reason => 'the receivers were broken')")
    own.execute("UPDATE dbanon.job_period SET state = 'retain' WHERE lower(period) = %s", [find_day(1)])
    assert take_step(own, "quick") == "done"
    assert read_value(own, "SELECT kept_since FROM dbanon.dataset") == find_day(1) - timedelta(seconds=900)
    own.execute("SELECT dbanon.steer_job('slow', 'remove')")
    own.execute("UPDATE dbanon.job_period SET state = 'retain' WHERE lower(period) = %s", [find_day(1)])
    assert take_step(own, "quick") == "done"
    assert read_value(own, "SELECT kept_since FROM dbanon.dataset") == find_day(1)


def test_retention_never_forgets_what_may_open_a_skipped_period_again(own):
    own.execute("DELETE FROM public.gps WHERE ts >= %s AND ts < %s", [find_day(1), find_day(2)])
    insert_rows(own, 3, 6)
    add(own, ", keep_data => '1 day', lateness => '2 days'")
    assert [run_night(own) for _ in range(3)] == ["done", "skipped", "done"]
    assert read_value(own, "SELECT kept_since FROM dbanon.dataset") == find_day(1) - timedelta(seconds=900)
    insert_rows(own, 1, 2)
    assert take_step(own) == "run"
    assert [run_night(own), run_night(own)] == ["done", "done"]
    assert list_periods(own, "state") == ["done"] * 4
    assert list_periods(own, "at_source")[1] == 144


def test_a_period_whose_data_were_forgotten_is_held_at_once(own):
    add(own, ", keep_data => '1 day', lateness => '0'")
    assert [run_night(own), run_night(own)] == ["done", "done"]
    own.execute("SELECT dbanon.unpublish_part('taxi', %s)", [find_day(0)])
    own.execute("SELECT dbanon.steer_job('taxi', 'retry', %s)", [find_day(0)])
    assert take_step(own) == "held"
    assert "'skip'" in list_periods(own, "error")[0]
    assert "forgotten" in list_periods(own, "error")[0]


def test_a_skipped_period_that_no_row_opens_any_more_is_forgotten(own):
    own.execute("DELETE FROM public.gps WHERE ts >= %s AND ts < %s", [find_day(1), find_day(2)])
    insert_rows(own, 3, 6)
    add(own, ", keep_data => '1 day', lateness => '1 day'")
    assert [run_night(own) for _ in range(4)] == ["done", "skipped", "done", "done"]
    assert read_value(own, "SELECT kept_since FROM dbanon.dataset") == find_day(3)


def test_old_parts_are_withdrawn(own):
    today = read_value(own, "SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'")
    own.execute("UPDATE public.gps SET ts = ts + (%s - %s::timestamptz)", [today - timedelta(days=3), find_day(0)])
    insert_rows(own, (today - find_day(0)).days, (today - find_day(0)).days + 0.05)
    add(own, f", starts => '{today - timedelta(days=3)}', keep_parts => '1 day', wait => '0'")
    assert [run_night(own) for _ in range(3)] == ["done"] * 3
    parts = own.execute("SELECT until FROM published.parts").fetchall()
    assert parts
    assert all(until > today - timedelta(days=1) for (until,) in parts)
    # What the runs of withdrawn parts wrote is gone; what later ones are compared with stays.
    live = "SELECT array_agg(run_id ORDER BY run_id) FROM dbanon.release WHERE withdrawn_at IS NULL"
    for written in ("region", "period", "record", "membership"):
        assert read_value(
            own, f"SELECT array_agg(DISTINCT run_id ORDER BY run_id) FROM dbanon.{written}"
        ) == read_value(own, live)
    assert read_value(own, "SELECT count(DISTINCT release_id) FROM dbanon.grouping") == 3
    assert read_value(own, "SELECT count(*) FROM dbanon.run") == 3
    [dropped] = own.execute(
        "SELECT sum((detail ->> 'runs')::int) FROM dbanon.audit WHERE action = 'drop_rows'"
    ).fetchall()
    assert dropped[0] == 3 - len(parts)
    # One person more at that time would be alone beside the part that was withdrawn.
    params, since = own.execute(
        "SELECT params, (params ->> 'since')::float8 FROM dbanon.run ORDER BY run_id LIMIT 1"
    ).fetchone()
    own.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) "
        "SELECT dataset_id, 'new', ST_SetSRID(ST_MakePointM(0, 0, %s), srid) FROM dbanon.dataset",
        [since],
    )
    own.execute("SELECT dbanon.submit_run('taxi', 'tp-aware', %s)", [Jsonb(params)])
    other = compute(own)
    with expect_refusal("DA010"):
        own.execute("SELECT dbanon.publish(%s, 'other')", [other])


def test_the_rows_of_a_part_that_was_withdrawn_early_or_is_published_elsewhere_stay(own):
    add(own, ", keep_parts => '100 years'")
    assert run_night(own) == "done"
    written = "SELECT count(*) FROM dbanon.region"
    drop = "SELECT dbanon_internal.drop_part_rows(job_id) FROM dbanon.job"
    own.execute("SELECT dbanon.unpublish_part('taxi', %s)", [find_day(0)])
    # It can be published again.
    assert read_value(own, drop) == 0
    own.execute("SELECT dbanon.publish(run_id, 'elsewhere') FROM dbanon.release")
    own.execute("UPDATE dbanon.job SET keep_parts = '1 day'")
    assert read_value(own, drop) == 0
    assert read_value(own, written) == 1


def test_rows_of_a_part_can_be_deleted_only_when_it_is_withdrawn(own):
    add(own)
    assert run_night(own) == "done"
    with expect_refusal("DA007"):
        own.execute("DELETE FROM dbanon.membership")
    own.execute("SELECT dbanon.unpublish_part('taxi', %s)", [find_day(0)])
    for change in ("UPDATE dbanon.region SET crowd = 9", "TRUNCATE dbanon.region"):
        with expect_refusal("DA007"):
            own.execute(change)
    own.execute("DELETE FROM dbanon.region")
    with expect_refusal("DA005"):
        own.execute("SELECT dbanon.publish(run_id, 'taxi', grow => true) FROM dbanon.release")


def test_what_cannot_be_tidied_up_is_noted_and_tried_after_the_next_period(own):
    add(own, ", keep_data => '1 day'")
    compute_period(own)
    assert [take_step(own), take_step(own)] == ["publish", "retain"]
    busy = read_value(own, "SELECT dbanon.submit_run('taxi', 'tp-aware', '{\"k\": 3}')")
    own.execute("UPDATE dbanon.run SET worker = 'w', held_by = dbanon_internal.hold_lock() WHERE run_id = %s", [busy])
    assert take_step(own) == "done"
    assert "being worked on" in list_periods(own, "error")[0]
    own.execute("UPDATE dbanon.run SET worker = NULL, todo = NULL, status = 'failed' WHERE run_id = %s", [busy])
    assert run_night(own) == "done"
    assert list_periods(own, "error")[1] is None


def test_the_parts_of_a_month_are_put_into_one_table_when_it_is_over(own):
    insert_rows(own, -3, -1)
    add(own, ", starts => '2008-05-30Z'")
    tables = "SELECT count(*) FROM dbanon_internal.list_series_tables(1)"
    assert [run_night(own), run_night(own)] == ["done", "done"]
    assert read_value(own, tables) == 2
    assert run_night(own) == "done"
    assert read_value(own, tables) == 2
    assert read_value(own, "SELECT count(*) FROM published.parts") == 3


def test_requests_of_each_period_are_loaded_beside_it(own):
    own.execute(
        "CREATE TABLE public.asked AS "
        "SELECT cab AS subject, ts AS time, 'pharmacy' AS poi FROM public.gps WHERE cab < 'c3'"
    )
    add(own, """, further => '[{"columns": ["poi"], "source": "public.asked", "kind": "requests"}]'""")
    assert [run_night(own), run_night(own)] == ["done", "done"]
    assert list_periods(own, "cardinality(load_ids)")[:2] == [2, 2]
    assert read_value(own, "SELECT count(*) FROM dbanon.request") == 2 * 24 * 3


# ---- periods


@pytest.mark.parametrize(
    ("zone", "starts", "every", "bounds"),
    [
        ("Europe/Berlin", "2026-03-28", "1 day", ["03-28 00", "03-29 00", "03-30 00", "03-31 00"]),
        ("Europe/Berlin", "2026-10-24", "1 day", ["10-24 00", "10-25 00", "10-26 00", "10-27 00"]),
        ("Africa/Cairo", "2026-04-23", "1 day", ["04-23 00", "04-24 01", "04-25 00", "04-26 00"]),
        ("Africa/Cairo", "2026-04-24", "1 day", ["04-24 01", "04-25 00", "04-26 00", "04-27 00"]),
        ("UTC", "2026-01-31", "1 month", ["01-31 00", "02-28 00", "03-31 00", "04-30 00"]),
        ("Europe/Berlin", "2026-03-29", "6 hours", ["03-29 00", "03-29 07", "03-29 13", "03-29 19"]),
    ],
)
def test_periods_are_counted_from_their_anchor(scratch, zone, starts, every, bounds):
    since = read_value(scratch, "SELECT %s::timestamp AT TIME ZONE %s", starts, zone)
    found, at = [], since
    for _ in range(4):
        found.append(read_value(scratch, "SELECT to_char(%s AT TIME ZONE %s, 'MM-DD HH24')", at, zone))
        at = read_value(
            scratch, "SELECT upper(dbanon_internal.find_period_from(%s, %s::interval, %s, %s))", since, every, zone, at
        )
    assert found == bounds


@pytest.mark.parametrize(("start", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_days_of_23_and_25_hours_are_days(scratch, start, hours):
    asked = "SELECT upper(p) - lower(p) FROM dbanon_internal.find_period_from(s, '1 day', 'Europe/Berlin', s) p"
    length = read_value(
        scratch, f"SELECT ({asked}) FROM (SELECT %s::timestamp AT TIME ZONE 'Europe/Berlin' AS s) a", start
    )
    assert length == timedelta(hours=hours)


def test_a_job_begins_at_the_first_midnight_of_its_source(own):
    own.execute("UPDATE public.gps SET ts = ts + interval '90 minutes'")
    add(own, ", tz => 'Europe/Berlin', starts => NULL")
    assert read_value(own, "SELECT starts FROM dbanon.job") == datetime(2008, 6, 1, 22, tzinfo=UTC) - timedelta(days=1)


# ---- bad input: one sentence each, nothing half done


@pytest.mark.parametrize(
    ("rest", "state", "said"),
    [
        (", every => '0'", "DA011", "every"),
        (", every => '1 month -30 days'", "DA011", "every"),
        (", wait => '-1 hour'", "DA011", "wait"),
        (", tz => 'Europe/Atlantis'", "DA011", "zone"),
        (", at_least => 2", "DA011", "at_least"),
        (", max_tries => 0", "DA011", "max_tries"),
        (", on_held => 'shrug'", "DA011", "on_held"),
        (', limits => \'{"seen": "few"}\'', "DA011", "limits"),
        (', further => \'[{"kind": "sites", "source": "gps"}]\'', "DA011", "further"),
        (", readers => ARRAY['nobody_at_all']", "DA011", "readers"),
        (", owner => 'nobody_at_all'", "DA014", "nobody_at_all"),
        (", algorithm => 'magic'", "DA011", "magic"),
    ],
)
def test_a_job_that_cannot_be_one_is_refused(own, rest, state, said):
    with expect_refusal(state) as refused:
        add(own, rest)
    assert said in str(refused.value)
    assert read_value(own, "SELECT count(*) FROM dbanon.job") == 0


@pytest.mark.parametrize(
    ("load", "state"),
    [
        ('{"subject": "cab", "time_column": "ts", "x": "lon", "y": "gone"}', "DA012"),
        ('{"subject": "cab", "time_column": "ts", "x": "lon"}', "DA011"),
        ('{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat", "filter": "cab ="}', "DA011"),
        ('{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat", "filter": "random() < 0.5"}', "DA011"),
        ('{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat", "since": "2008-06-01Z"}', "DA011"),
        ('{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat", "grid_m": "wide"}', "DA011"),
        ('{"subject": "-", "time_column": "ts", "x": "lon", "y": "lat"}', "DA011"),
        ('["cab"]', "DA011"),
    ],
)
def test_a_load_that_cannot_be_one_is_refused_without_its_text(own, load, state):
    with expect_refusal(state) as refused:
        own.execute("SELECT dbanon.add_job('taxi', 'public.gps', load => %s, method => 'tp-aware')", [load])
    assert "cab =" not in str(refused.value)
    assert read_value(own, "SELECT count(*) FROM dbanon.job") == 0


SITES = """
SELECT dbanon.add_job(
    'sites', 'public.gps', load => %s, method => 'sensitive-sites', params => %s, starts => %s, every => %s)
"""
LOAD = '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"'


@pytest.mark.parametrize(
    ("load", "params", "every"),
    [
        ("", "", "15 minutes"),
        (', "settle_s": 7200', "", "2 hours"),
        ("", ', "max_gap_s": 3600', "1 hour"),
    ],
)
def test_snapshots_must_be_further_apart_than_they_reach(own, load, params, every):
    asked = [LOAD + load + "}", '{"k": 3' + params + "}", find_day(0)]
    with expect_refusal("DA011") as refused:
        own.execute(SITES, [*asked, every])
    assert "every" in str(refused.value)
    own.execute("SELECT set_config('client_min_messages', 'warning', false)")
    own.execute(SITES.replace("%s)", "%s::interval + '1 minute')"), [*asked, every])
    assert read_value(own, "SELECT count(*) FROM dbanon.job") == 1


def test_what_shows_nobody_exactly_may_follow_at_once(own):
    add(own, ", every => '15 minutes'")


def test_exact_rows_must_be_further_apart_than_they_reach(own):
    asked = "SELECT dbanon.add_job('mob', 'public.gps', %s, 'mob', %s, starts => %s, every => '15 minutes')"
    with expect_refusal("DA011"):
        own.execute(asked, [LOAD + "}", '{"k": 3, "qid_only": false, "step_s": 60}', find_day(0)])
    own.execute(asked, [LOAD + "}", '{"k": 3, "step_s": 60}', find_day(0)])


def list_rivals(connection: psycopg.Connection[Any], query: str) -> str | None:
    """Add a job; what it says of others that publish its people, if anything."""
    heard = collect_notices(connection)
    connection.execute(query)
    found = [said for said in heard if "also published" in said]
    assert len(found) < 2
    return found[0] if found else None


def test_a_job_is_told_of_others_that_publish_its_people(job):
    same = ADDED.format(name="two", dataset="taxi", method="tp-aware", rest="")
    assert (said := list_rivals(job, same)) is not None
    assert "job taxi" in said
    assert "too few" in said
    # Another dataset of the same source; and a method that stands alone.
    alone = ADDED.format(name="three", dataset="three", method="kte", rest="")
    assert (said := list_rivals(job, alone)) is not None
    assert "job taxi, job two" in said
    assert "stands alone" in said


def test_a_job_is_told_of_releases_of_its_times_and_of_no_others(job):
    assert run_night(job) == "done"
    job.execute("SELECT dbanon.steer_job('taxi', 'remove')")
    # Read from another source, into another dataset of the population.
    job.execute("CREATE TABLE public.later AS SELECT * FROM public.gps")
    job.execute(
        "SELECT dbanon.import_trajectories('public.later', 'other', 'cab', 'ts', x => 'lon', y => 'lat', until => %s)",
        [find_day(0)],
    )
    asked = ADDED.replace("public.gps", "public.later")
    about = {"name": "other", "dataset": "other", "method": "tp-aware"}
    assert (said := list_rivals(job, asked.format(**about, rest=f", starts => '{find_day(0)}'"))) is not None
    assert "release taxi" in said
    job.execute("SELECT dbanon.steer_job('other', 'remove')")
    assert list_rivals(job, asked.format(**about, rest=f", starts => '{find_day(1)}'")) is None


def test_a_login_without_a_role_that_takes_a_jobs_lock_delays_it_for_a_while_only(own, database, login):
    with psycopg.connect(login("pg_read_all_settings"), autocommit=True) as nobody:
        nobody.execute("SELECT pg_advisory_lock(hashtextextended('dbanon.job taxi', 0))")
        own.execute("ALTER FUNCTION dbanon_internal.fill_job(jsonb, boolean) SET lock_timeout = '50ms'")
        with expect_refusal("DA013", "taxi"):
            add(own)
    add(own)


def test_two_jobs_cannot_have_one_name(job):
    with expect_refusal("DA003"):
        add(job)


def test_the_times_of_runs_are_those_of_periods(own):
    with expect_refusal("DA011"):
        own.execute("SELECT dbanon.add_job('taxi', 'public.gps', '{}', 'tp-aware', '{\"k\": 3, \"since\": 0}')")


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ("ALTER TABLE public.gps DROP COLUMN lat", "DA012"),
        ("ALTER TABLE public.gps RENAME COLUMN cab TO taxi", "DA012"),
        ("DROP TABLE public.gps", "DA012"),
        ("ALTER TABLE public.gps ALTER COLUMN ts TYPE jsonb USING '1'", "DA012"),
    ],
)
def test_a_source_that_is_lost_or_changed_stops_no_other_job(job, change, state):
    job.execute("CREATE TABLE public.other AS SELECT 'o' || cab AS cab, ts, lon, lat FROM public.gps")
    add(job, "", "other", "public.other")
    job.execute(change)
    job.execute(RUN)
    assert list_periods(job, "state, sqlstate, tries") == [("load", state, 1)]
    assert list_periods(job, "state", "other") == ["compute"]


def test_a_row_of_the_future_does_not_show_that_the_source_has_gone_on(own):
    own.execute("DELETE FROM public.gps WHERE ts >= %s", [find_day(0.5)])
    own.execute("INSERT INTO public.gps VALUES ('c1', now() + interval '3 days', 8.2, 53.1)")
    add(own)
    assert take_step(own) == "load"
    assert read_value(own, "SELECT note FROM dbanon.plan_job('taxi', 1)").startswith("waits")
    insert_rows(own, 0.5, 2)
    let_try_again(own)
    assert run_night(own) == "done"
    assert list_periods(own, "at_source, late") == [(144, 0)]
    assert read_value(own, "SELECT to_timestamp(max(last_s)) FROM dbanon.trajectory") < find_day(1)


# ---- the log of who runs them


def test_the_log_says_what_becomes_of_periods_and_nothing_of_their_data(own, capsys):
    """Sentences that quote columns or count people stay in dbanon.job_runs."""
    own.execute("CREATE TABLE public.other AS SELECT 'o' || cab AS cab, ts, lon, lat FROM public.gps")
    own.execute("CREATE TABLE public.third AS SELECT 't' || cab AS cab, ts, lon, lat FROM public.gps")
    add(own, """, limits => '{"seen": 5}'""")
    add(own, "", "second", "public.other")
    add(own, "", "last", "public.third")
    own.execute("ALTER TABLE public.other DROP COLUMN lat")
    own.execute("DELETE FROM public.third WHERE ts >= %s", [find_day(1)])
    own.execute(FORGER)
    own.execute("CREATE VIEW public.forged AS SELECT cab, public.forge(ts) AS ts, lon, lat FROM public.third")
    add(own, "", "forging", "public.forged")
    own.execute("SET search_path = public")  # without dbanon, which is also the name of the login
    own.add_notice_handler(Schedule(None, Log("json"), grace_s=1)._tell)
    own.execute(RUN)
    compute(own)
    own.execute(RUN)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert all(line.keys() <= FIELDS and line["seconds"] >= 0 for line in lines)
    assert [(line["job"], line["step"], line["state"], line.get("sqlstate"), line["level"]) for line in lines] == [
        ("taxi", "load", "run", None, "info"),
        ("taxi", "run", "compute", None, "info"),
        ("second", "load", "load", "DA012", "warning"),
        ("last", "load", "load", None, "info"),
        ("forging", "load", "load", None, "info"),
        ("taxi", "compute", "publish", None, "info"),
        ("taxi", "publish", "held", "DA004", "error"),
        ("taxi", "load", "run", None, "info"),
        ("taxi", "run", "compute", None, "info"),
    ]
    waits = list_periods(own, "error", "last")[0]
    assert [said for line in lines if (said := line.get("sentence"))] == [waits, waits]


def test_no_period_of_a_source_that_stops_is_skipped(own):
    own.execute("INSERT INTO public.gps VALUES ('c1', now() + interval '3 days', 8.2, 53.1)")
    add(own)
    assert [run_night(own), run_night(own), run_night(own)] == ["done", "done", "idle"]
    assert list_periods(own, "state") == ["done", "done", "load"]


def test_a_job_whose_zone_is_unknown_is_said_and_stops_no_other(job):
    """As after a move to a server with other time zones."""
    add(job, ", dataset => 'taxi'", "other")
    job.execute("UPDATE dbanon.job SET tz = 'Europe/Atlantis' WHERE name = 'taxi'")
    assert job.execute(RUN).fetchone() == (2, 0)
    assert list_periods(job, "state", "other") == ["compute"]
    found = job.execute("SELECT name, next_at IS NULL FROM dbanon.jobs ORDER BY name").fetchall()
    assert found == [("other", False), ("taxi", True)]
    assert 2 in [row[0] for row in job.execute("SELECT level FROM dbanon.health WHERE about = 'job taxi'")]
    assert job.execute("SELECT FROM dbanon.plan_job('taxi')").fetchall() == []


def list_unattended(connection: psycopg.Connection[Any]) -> list[str]:
    query = "SELECT about FROM dbanon.health WHERE level = 2 AND remedy LIKE '%run_jobs%' ORDER BY about"
    return [about for (about,) in connection.execute(query)]


def test_a_job_that_waits_for_another_of_its_owner_is_attended(job, database):
    add(job, ", dataset => 'taxi'", "other")
    assert list_unattended(job) == []  # they were added a moment ago, although their first periods have passed
    job.execute("UPDATE dbanon.job SET created_at = now() - interval '10 min'")
    assert list_unattended(job) == ["job other", "job taxi"]
    with psycopg.connect(database, autocommit=True) as busy:
        assert read_value(busy, "SELECT dbanon_internal.claim_job(job_id) FROM dbanon.job WHERE name = 'taxi'")
        job.execute("UPDATE dbanon.job SET looked_at = now() - interval '10 min' WHERE name = 'taxi'")
        assert list_unattended(job) == []
    wait_until(lambda: list_unattended(job) == ["job other", "job taxi"])
    job.execute("SELECT dbanon.steer_job('taxi', 'pause')")
    assert list_unattended(job) == ["job other"]
    job.execute("SELECT dbanon.steer_job('taxi', 'resume')")
    assert list_unattended(job) == ["job other"]


def test_a_source_that_is_awaited_is_no_error_until_the_job_is_late(own):
    today = read_value(own, "SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'")
    own.execute("UPDATE public.gps SET ts = ts + (%s - %s::timestamptz)", [today, find_day(3)])
    add(own, f", starts => '{today - timedelta(days=1)}', wait => '0'")
    assert take_step(own) == "load"
    assert list_periods(own, "sqlstate, error IS NULL") == [(None, False)]
    assert read_value(own, "SELECT last_error FROM dbanon.jobs") is None
    # Not more than an hour after midnight, when the job is late.
    own.execute("UPDATE dbanon.job SET wait = '1 day'")
    assert own.execute("SELECT level, what FROM dbanon.health WHERE about = 'job taxi'").fetchall() == []
    own.execute("UPDATE dbanon.job SET every = '1 minute', wait = '0'")
    found = own.execute("SELECT level, what FROM dbanon.health WHERE about = 'job taxi'").fetchall()
    assert [(level, "late" in what) for level, what in found] == [(1, True)]


# ---- calls


def test_run_jobs_takes_all_steps_and_says_how_many(job):
    assert job.execute(RUN).fetchone() == (2, 0)
    compute(job)
    assert job.execute(RUN).fetchone() == (5, 0)


def test_run_jobs_is_refused_within_a_transaction(job):
    with expect_refusal("DA015"), job.transaction():
        job.execute(RUN)


def test_strict_is_an_error_after_all_work_is_committed(job):
    job.execute(RUN)
    compute(job, "refused")
    with expect_refusal("DA019"):
        job.execute("CALL dbanon.run_jobs(wait => false, strict => true)")
    assert list_periods(job, "state") == ["held", "compute"]


@pytest.mark.parametrize(
    "setting",
    ["default_transaction_read_only = on", "statement_timeout = 1", "lock_timeout = 1", "search_path = nowhere"],
)
def test_what_a_function_of_a_source_sets_ends_with_the_step(own, setting):
    own.execute("CREATE TABLE public.other AS SELECT 'o' || cab AS cab, ts, lon, lat FROM public.gps")
    own.execute(
        f"CREATE FUNCTION public.spoil(lat float8) RETURNS float8 LANGUAGE plpgsql AS "
        f"$$ BEGIN IF current_setting('spoil.now', true) = 'yes' THEN SET {setting}; END IF; RETURN lat; END $$"
    )
    own.execute("CREATE VIEW public.trap AS SELECT cab, ts, lon, public.spoil(lat) AS lat FROM public.gps")
    add(own, "", "bad", "public.trap")
    add(own, "", "good", "public.other")
    name = setting.split()[0]
    before = read_value(own, f"SHOW {name}")
    own.execute("SET spoil.now = 'yes'")
    assert own.execute(RUN).fetchone() == (4, 0)
    assert read_value(own, f"SHOW {name}") == before
    assert [list_periods(own, "state", job) for job in ("bad", "good")] == [["compute"], ["compute"]]


def test_a_job_that_another_session_runs_is_left_to_it(job, database):
    with psycopg.connect(database, autocommit=True) as other:
        assert read_value(other, "SELECT dbanon_internal.claim_job(job_id) FROM dbanon.job")
        assert job.execute(RUN).fetchone() == (0, 0)
        # Its own claim, of a call that was interrupted, is no obstacle.
        assert other.execute(RUN).fetchone() == (2, 0)
    assert read_value(job, LOCKS) == 0


def test_a_job_whose_session_has_ended_is_taken_over(job, database):
    with psycopg.connect(database, autocommit=True) as other:
        assert read_value(other, "SELECT dbanon_internal.claim_job(job_id) FROM dbanon.job")
    wait_until(lambda: read_value(job, LOCKS) == 0)
    assert job.execute(RUN).fetchone() == (2, 0)
