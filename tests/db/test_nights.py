"""What many nights tell together, and what a night lacks that the one before had: counted, and said in a sentence."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.db.parts import VERDICT, find_day, publish_part, run_of
from tests.facts import expect_refusal

FEW = "SELECT (overlap ->> 'requests_of_few_over_parts')::int FROM dbanon.release ORDER BY release_id DESC LIMIT 1"


def read_value(connection: psycopg.Connection[Any], query: str, *params: object) -> Any:
    row = connection.execute(query, params).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return row[0]


@pytest.fixture
def own(connection: psycopg.Connection, run: int) -> psycopg.Connection:
    return connection


@pytest.fixture
def said(own: psycopg.Connection) -> list[str]:
    heard: list[str] = []
    own.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    return heard


def write_mixed(connection: psycopg.Connection[Any], number: int, *others: int, asked: bool = True) -> int:
    """Write a run of a day in which some of the first five people are in the other bundle, which does not ask."""
    run = run_of(connection, number)
    for person in others:
        connection.execute(
            "UPDATE dbanon.membership SET record_id = 3 - record_id WHERE run_id = %s AND trajectory_id IN (%s, %s)",
            [run, 100 + person, 105 + person],
        )
    if not asked:
        connection.execute("UPDATE dbanon.region SET extra = NULL WHERE run_id = %s", [run])
    connection.execute(VERDICT, {"run": run, "figures": Jsonb({"seen": 10})})
    return run


def test_contents_that_leave_few_people_over_parts_are_counted_and_said(
    own: psycopg.Connection, said: list[str]
) -> None:
    counts = []
    for number, others in enumerate([(), (), (0,), (1, 2), (3, 4, 0)]):
        said.clear()
        publish_part(own, write_mixed(own, number, *others))
        counts.append((read_value(own, FEW), sum("over the last" in sentence for sentence in said)))
    # The same five, and again; then four are left, then two; then nobody, so no one person sent all of them.
    assert counts == [(0, 0), (0, 0), (1, 1), (1, 1), (0, 0)]


def test_a_part_without_a_content_neither_narrows_nor_counts(own: psycopg.Connection) -> None:
    publish_part(own, write_mixed(own, 0))
    publish_part(own, write_mixed(own, 1, 0, 1, 2, asked=False))
    assert read_value(own, FEW) == 0
    publish_part(own, write_mixed(own, 2, 0))
    assert read_value(own, FEW) == 1


def test_a_part_that_was_withdrawn_is_still_known(own: psycopg.Connection) -> None:
    publish_part(own, write_mixed(own, 0))
    own.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(0)])
    publish_part(own, write_mixed(own, 1, 0))
    assert read_value(own, FEW) == 1


def test_a_release_that_was_withdrawn_and_one_of_another_name_are_still_known(own: psycopg.Connection) -> None:
    publish_part(own, write_mixed(own, 0))
    own.execute("SELECT dbanon.unpublish('ten')")
    publish_part(own, write_mixed(own, 1, 0))
    assert read_value(own, FEW) == 1
    publish_part(own, write_mixed(own, 2, 1), name="other")
    assert read_value(own, FEW) == 1


def test_parts_of_another_release_in_which_others_sent_it_hide_nothing(own: psycopg.Connection) -> None:
    publish_part(own, write_mixed(own, 0, 0, 1, 2, 3, 4), name="other")
    publish_part(own, write_mixed(own, 1))
    assert read_value(own, FEW) == 0
    publish_part(own, write_mixed(own, 2, 0))
    assert read_value(own, FEW) == 1


def test_only_thirty_parts_count(own: psycopg.Connection) -> None:
    publish_part(own, write_mixed(own, 0, 0))
    for number in range(1, 31):
        publish_part(own, write_mixed(own, number))
        assert read_value(own, FEW) == (number < 30), number


def test_who_is_forgotten_is_forgotten_there_too_and_nothing_else_changes_it(own: psycopg.Connection) -> None:
    publish_part(own, write_mixed(own, 0))
    before = read_value(own, "SELECT people FROM dbanon.asked")
    assert len(before) == 5
    for change in (
        "UPDATE dbanon.asked SET people = '{1}'",
        "DELETE FROM dbanon.asked",
        "TRUNCATE dbanon.asked",
        "INSERT INTO dbanon.asked SELECT * FROM dbanon.asked",
    ):
        with expect_refusal("DA006"):
            own.execute(change)  # type: ignore[arg-type]
    own.execute("SELECT dbanon.forget_subject('ten', 'p0')")
    after = read_value(own, "SELECT people FROM dbanon.asked")
    assert len(after) == 5
    assert len({*before} & {*after}) == 4
    assert (
        read_value(own, "SELECT groups_sum = dbanon_internal.compute_groups_sum(release_id, 1) FROM dbanon.release")
        is True
    )


def test_a_first_window_without_history_is_foretold_and_said(own: psycopg.Connection) -> None:
    """The data begin at 8:00, and positions count for five minutes: at 8:05 nobody lacks an earlier one."""
    planned = "SELECT value, note FROM dbanon.plan_run('ten', 'tp-aware', %s) WHERE item = 'history_s'"
    eight = find_day(0) + timedelta(hours=8)
    for begin in (-120, 0, 60, 240):
        params = {"k": 5, "step_s": 60, "since": (eight + timedelta(seconds=begin)).timestamp()}
        [found] = own.execute(planned, [Jsonb(params)]).fetchall() or [(None, "")]
        assert found[0] == max(begin, 0)
        assert "start = 2008-06-04T08:05:00Z" in found[1]
    for since in (None, (eight + timedelta(minutes=5)).timestamp()):
        params = {"k": 5, "step_s": 60, **({"since": since} if since else {})}
        assert own.execute(planned, [Jsonb(params)]).fetchall() == []
    late = {"align": "last", "max_gap_s": 300}
    notices = "SELECT n FROM dbanon_internal.list_run_notices(%s) n WHERE n LIKE '%%publishes no person%%'"
    run = run_of(own, 0, since=(eight - timedelta(minutes=2)).timestamp(), **late)
    [(sentence,)] = own.execute(notices, [run]).fetchall()
    assert "start = 2008-06-04T08:05:00Z" in sentence
    assert f"Run {run}" in sentence
    assert own.execute(notices, [run_of(own, 0, since=eight.timestamp(), **late)]).fetchall() == []
    gone_before = run_of(own, 1, since=(find_day(1) + timedelta(hours=7)).timestamp(), **late)
    assert own.execute(notices, [gone_before]).fetchall() == []
