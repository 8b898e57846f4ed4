"""Releases together: what publish says to runs that leave, beside earlier releases, too few candidates or enough."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.db import written
from tests.db.methods import change_methods
from tests.db.oracle import Rule
from tests.db.ten_people import make_ten_people
from tests.facts import demand_named
from tests.hints import accept_overlap, tries
from tests.reading import read_row, read_value

START = datetime(2008, 6, 4, 8, tzinfo=UTC)
ALLOWED = "allow_overlap => true, reason => 'never in the same hands'"


class Group(NamedTuple):
    """People hidden in each other, or each published as they are, from one minute to another."""

    first: float
    last: float
    people: frozenset[int]
    alone: bool = False


class Release(NamedTuple):
    """Some groups, the k that is promised, and whether they are bundles or around sites."""

    k: int
    groups: tuple[Group, ...]
    around_sites: bool = False

    @property
    def method(self) -> tuple[str, str]:
        return ("sensitive-sites", "bk") if self.around_sites else ("tp-aware", "traj-anon")


@pytest.fixture
def connection(scratch: psycopg.Connection) -> psycopg.Connection:
    """Nothing here commits."""
    return scratch


# --- writing runs -----------------------------------------------------------------------------------------------------


def find_period(group: Group) -> tuple[datetime, datetime]:
    first, last = (timedelta(seconds=round(60 * minute)) for minute in (group.first, group.last))
    return START + first, START + last


def write_run(connection: psycopg.Connection, release: Release, dataset: int = 1) -> int:
    """Write a computed run, without a verdict; returns its id."""
    run = read_value(
        connection,
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, params, status)"
        " VALUES (%s, %s, %s, jsonb_build_object('k', %s::int), 'verified') RETURNING run_id",
        *(dataset, *release.method, release.k),
    )
    rows = [
        row for place, group in enumerate(release.groups) for row in make_records(place, group, release.around_sites)
    ]
    for record, (place, group, people) in enumerate(rows, start=1):
        connection.execute(
            "INSERT INTO dbanon.cloak SELECT %s, %s, s, tstzrange(%s + (s - 1) * width, %s + s * width),"
            " ST_Reverse(ST_MakeEnvelope(%s, 0, %s, 90, 32610)), %s, %s, %s"
            " FROM generate_series(1, %s) s, LATERAL (SELECT (%s - %s) / %s AS width) w",
            [
                *(run, record, find_period(group)[0], find_period(group)[0], 100 * place, 100 * place + 90),
                *(1 if group.alone else max(len(group.people), 2), 1, None),
                *(
                    (steps := 1 if release.around_sites else group.last - group.first),
                    *reversed(find_period(group)),
                    steps,
                ),
            ],
        )
        connection.execute(
            "INSERT INTO dbanon.membership SELECT %s, %s, t.trajectory_id, NULL FROM dbanon.trajectory t"
            " WHERE t.dataset_id = %s AND t.subject = ANY (%s)",
            [run, record, dataset, [f"p{person}" for person in people]],
        )
    return run  # type: ignore[return-value]


def make_records(place: int, group: Group, each: bool) -> list[tuple[int, Group, frozenset[int]]]:
    """Records of a group: one of all, or one of each with the same region."""
    return [(place, group, frozenset({p})) for p in group.people] if each else [(place, group, group.people)]


TEN = frozenset(range(10))
FIVES = (Group(0, 2, frozenset(range(5))), Group(0, 2, frozenset(range(5, 10))))
HALVES = (Group(0, 2, frozenset({0, 2, 4, 6, 8})), Group(0, 2, frozenset({1, 3, 5, 7, 9})))


def measure_run(connection: psycopg.Connection, run: int) -> tuple[str, int | None, int | None, int]:
    """How a run is related to what there is, the fewest candidates, how many were promised there, and people below."""
    row = connection.execute("SELECT relation, smallest_crowd, k, people FROM dbanon.measure_overlap(%s)", [run])
    return row.fetchone()  # type: ignore[return-value]


def write_people(connection: psycopg.Connection, dataset: str, first: int = 0) -> int:
    """Write ten people from p`first` on into a dataset, made where there is none; returns its id."""
    connection.execute(
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, 32610, 1, 60) ON CONFLICT DO NOTHING",
        [dataset],
    )
    number = read_value(connection, "SELECT dataset_id FROM dbanon.dataset WHERE name = %s", dataset)
    connection.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT %s, 'p' || i, ST_SetSRID(ST_MakePointM(i, i, 1212566400), 32610) FROM generate_series(%s::int, %s) i",
        [number, first, first + 9],
    )
    return number  # type: ignore[return-value]


# --- what publish makes of it -----------------------------------------------------------------------------------------


def write_verified(connection: psycopg.Connection, release: Release, dataset: int = 1, **params: int) -> int:
    run = write_run(connection, release, dataset)
    connection.execute("UPDATE dbanon.run SET params = params || %s WHERE run_id = %s", [Jsonb(params), run])
    connection.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " SELECT run_id, method, true, dbanon_internal.compute_run_digest(run_id) FROM dbanon.run WHERE run_id = %s",
        [run],
    )
    return run


def publish(connection: psycopg.Connection, run: int, name: str, options: str = "") -> list[str]:
    """Publish a run; returns the notices."""
    notices: list[str] = []

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(notice.message_primary or "")

    connection.add_notice_handler(keep)
    try:
        connection.execute(f"SELECT dbanon.publish(%s, %s{options})", [run, name])  # type: ignore[arg-type]
    finally:
        connection.remove_notice_handler(keep)
    return notices


def catch_refusal(connection: psycopg.Connection, run: int, name: str, options: str = "") -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        publish(connection, run, name, options)
    assert caught.value.diag.message_detail
    assert caught.value.diag.message_hint
    return caught.value


def read_recorded(connection: psycopg.Connection, name: str) -> tuple[Any, object]:
    return read_row(connection, "SELECT overlap, overlap_reason FROM dbanon.release WHERE name = %s", name)


def test_the_first_release_stores_its_groups_and_meets_nothing(connection: psycopg.Connection) -> None:
    assert publish(connection, 1, "first") == []
    assert read_recorded(connection, "first") == (None, None)
    rows = connection.execute(
        "SELECT lower(period), upper(period), cardinality(people) FROM dbanon.grouping"
    ).fetchall()
    assert rows == [(START, START + timedelta(minutes=2), 5)] * 2


def test_the_very_same_groups_again_are_fine_and_a_notice_says_so(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    (notice,) = publish(own, write_verified(own, Release(5, FIVES)), "again")
    demand_named(notice, "same", "first")
    found, reason = read_recorded(own, "again")
    assert reason is None
    assert found["relation"] == "same"
    assert found["below"] == 0
    assert found["releases"] == ["first"]


def test_one_group_of_all_keeps_no_more_than_what_is_left_of_it(own: psycopg.Connection) -> None:
    """A coarser grouping hurts no earlier promise; its own is kept only if it is no greater."""
    publish(own, 1, "first")
    error = catch_refusal(own, ten := write_verified(own, Release(10, (Group(0, 2, TEN),))), "ten")
    assert error.sqlstate == "DA010"
    demand_named(str(error.diag.message_primary), f"run {ten}", "first", 5, 10)
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", f"run {ten}", "10 people")
    (notice,) = publish(own, write_verified(own, Release(5, (Group(0, 2, TEN),))), "five")
    demand_named(notice, "first", 5)


def test_groups_that_cross_are_refused_in_the_name_of_whose_promise_breaks(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    error = catch_refusal(own, run := write_verified(own, Release(2, HALVES)), "halves")
    assert error.sqlstate == "DA010"
    demand_named(str(error.diag.message_primary), f"run {run}", "first", 2, 5)
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", "first", "10 people")
    assert measure_run(own, run)[1:] == (2, 5, 10)


def test_a_withdrawn_release_counts_and_is_named_so(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    own.execute("SELECT dbanon.unpublish('first')")
    error = catch_refusal(own, write_verified(own, Release(5, HALVES)), "halves")
    demand_named(str(error.diag.message_primary), "first (withdrawn)", 2)


def test_an_override_is_recorded_with_its_reason_and_said(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    run = write_verified(own, Release(5, HALVES))
    (notice,) = publish(own, run, "halves", f", {ALLOWED}")
    demand_named(notice, "overridden", "first", 2, 5, "10 people")
    found, reason = read_recorded(own, "halves")
    assert reason == "never in the same hands"
    assert (found["smallest_crowd"], found["k"], found["people"]) == (2, 5, 10)


def test_what_needs_no_override_records_no_reason(connection: psycopg.Connection) -> None:
    (notice,) = publish(connection, 1, "first", f", {ALLOWED}")
    demand_named(notice, "reason", "not recorded")
    told = publish(connection, 1, "again", f", {ALLOWED}")
    demand_named(told[-1], "reason", "not recorded")
    assert read_recorded(connection, "first") == (None, None)
    assert read_recorded(connection, "again")[1] is None


def test_other_times_meet_nothing(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    assert publish(own, write_verified(own, Release(5, (Group(2, 4, TEN - {0}),))), "later") == []
    assert read_recorded(own, "later") == (None, None)


def test_candidates_that_stay_enough_are_told(own: psycopg.Connection) -> None:
    publish(own, write_verified(own, Release(2, FIVES)), "first")
    (notice,) = publish(own, write_verified(own, Release(2, HALVES)), "halves")
    demand_named(notice, "first", 2)


def test_who_is_left_out_on_one_side_only_is_known(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    without = (FIVES[0], FIVES[1]._replace(people=FIVES[1].people - {9}))
    assert measure_run(own, write_run(own, Release(4, without)))[1:] == (1, 5, 5)


def test_a_grouping_outlives_the_trajectories(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    own.execute("CREATE TEMP TABLE kept AS SELECT subject, path FROM dbanon.trajectory WHERE dataset_id = 1")
    own.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = 1")
    own.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)"
        " SELECT 200 + substr(subject, 2)::int, 1, subject, path FROM kept"
    )
    run = write_run(own, Release(5, HALVES))
    assert measure_run(own, run)[1:] == (2, 5, 10)


def test_what_was_allowed_hides_no_overlap_with_either(own: psycopg.Connection) -> None:
    """Rows, columns and diagonals of a square: all three leave one, and so does any pair."""

    def lines(number: Callable[[int, int], int]) -> Release:
        people = [frozenset(3 * a + b for a in range(3) for b in range(3) if number(a, b) % 3 == n) for n in range(3)]
        return Release(3, tuple(Group(0, 2, p) for p in people))

    publish(own, write_verified(own, lines(lambda a, b: a)), "rows")
    publish(own, write_verified(own, lines(lambda a, b: b)), "files", f", {ALLOWED}")
    diagonal = write_verified(own, lines(lambda a, b: a + b))
    assert measure_run(own, diagonal)[1:] == (1, 3, 9)
    assert catch_refusal(own, diagonal, "diagonals").sqlstate == "DA010"


def test_what_was_allowed_needs_its_reason_again_and_what_it_met_does_not(own: psycopg.Connection) -> None:
    """Those who have not read what was allowed would learn of it now."""
    publish(own, 1, "fives")
    halves = write_verified(own, Release(5, HALVES))
    publish(own, halves, "halves", f", {ALLOWED}")
    assert publish(own, 1, "fives", ", replace => true")
    demand_named(str(catch_refusal(own, halves, "halves", ", replace => true").diag.message_primary), "fives", 2)
    publish(own, halves, "halves", f", replace => true, {ALLOWED}")


# --- snapshots and exact places ---------------------------------------------------------------------------------------


def write_snapshot(
    connection: psycopg.Connection,
    *hidden: frozenset[int],
    at_s: float = 0,
    k: int = 5,
    max_gap_s: int = 300,
    dataset: int = 1,
) -> int:
    """Write a verified run that hides some around a site each at an instant, for a second, and shows the others."""
    first, last = at_s / 60, (at_s + 1) / 60
    others = TEN.difference(*hidden)
    groups = [Group(first, last, people) for people in hidden] + ([Group(first, last, others, True)] if others else [])
    release = Release(k, tuple(groups), around_sites=True)
    return write_verified(connection, release, dataset, at=int(START.timestamp()) + int(at_s), max_gap_s=max_gap_s)


LOW, HIGH = FIVES[0].people, FIVES[1].people


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_second_site_cannot_follow_a_snapshot_that_showed_its_people(
    own: psycopg.Connection, withdrawn: bool
) -> None:
    publish(own, write_snapshot(own, LOW), "one_site")
    if withdrawn:
        own.execute("SELECT dbanon.unpublish('one_site')")
    error = catch_refusal(own, run := write_snapshot(own, LOW, HIGH), "two_sites")
    assert error.sqlstate == "DA010"
    demand_named(
        str(error.diag.message_primary), f"run {run}", "one_site (withdrawn)" if withdrawn else "one_site", 1, 5
    )
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", f"run {run}", "5 people")


def test_a_larger_crowd_cannot_follow_at_the_same_site(own: psycopg.Connection) -> None:
    publish(own, write_snapshot(own, LOW), "five")
    error = catch_refusal(own, write_snapshot(own, TEN, k=10), "ten")
    demand_named(str(error.diag.message_primary), "five", 1, 10)
    assert publish(own, write_snapshot(own, LOW), "again")


def test_all_sites_in_one_run_may_be_published_again_and_again(own: psycopg.Connection) -> None:
    publish(own, write_snapshot(own, LOW, HIGH), "first")
    (notice,) = publish(own, write_snapshot(own, LOW, HIGH), "again")
    demand_named(notice, "same", "first")


def test_snapshots_within_seconds_are_compared_however_small_max_gap_s_is(own: psycopg.Connection) -> None:
    publish(own, write_snapshot(own, LOW, max_gap_s=1), "first")
    others = (HIGH, frozenset({0, 1, 2, 3, 5}), frozenset({0, 1, 2, 8, 9}), frozenset({3, 4, 5, 6, 7}), TEN - {0})
    for number, hidden in enumerate(others, start=1):
        error = catch_refusal(own, write_snapshot(own, hidden, at_s=2 * number, max_gap_s=1), f"after_{2 * number}_s")
        assert error.sqlstate == "DA010"
        demand_named(str(error.diag.message_primary), "first", 1, 5)


@pytest.mark.many
@pytest.mark.parametrize(
    ("later_s", "max_gap_s", "met"),
    [(301, 300, True), (900, 300, True), (901, 300, False), (901, 1000, True), (1001, 1000, False)],
)
def test_snapshots_are_compared_within_settle_s_and_max_gap_s_whichever_is_greater(
    own: psycopg.Connection, later_s: int, max_gap_s: int, met: bool
) -> None:
    publish(own, write_snapshot(own, LOW), "at_eight")
    run = write_snapshot(own, HIGH, at_s=later_s, max_gap_s=max_gap_s)
    if met:
        demand_named(str(catch_refusal(own, run, "later").diag.message_primary), "at_eight", 1, 5)
    else:
        assert publish(own, run, "later") == []


def settle_datasets(connection: psycopg.Connection, **settle_s: int) -> None:
    """Write the settle times of datasets, as an operator may where there is no release yet."""
    for name, seconds in settle_s.items():
        connection.execute("UPDATE dbanon.dataset SET settle_s = %s WHERE name = %s", [seconds, name])


def test_the_greatest_settle_time_of_a_population_counts_in_all_its_datasets(own: psycopg.Connection) -> None:
    other = write_people(own, "other")
    settle_datasets(own, other=0, ten=1000)
    publish(own, write_snapshot(own, LOW, max_gap_s=1, dataset=other), "at_eight")
    run = write_snapshot(own, HIGH, at_s=4, max_gap_s=1, dataset=other)
    demand_named(str(catch_refusal(own, run, "later").diag.message_primary), "at_eight", 1, 5)
    card = read_value(own, "SELECT dbanon.release_card('at_eight')")
    assert isinstance(card, dict)
    assert card["reach_s"] == 1000
    publish(own, 1, "bundles", f", {ALLOWED}")
    own.execute("SELECT dbanon.unpublish('bundles')")
    own.execute("SELECT dbanon.drop_dataset('ten')")  # what it said of its people stays said
    run = write_snapshot(own, HIGH, at_s=950, max_gap_s=1, dataset=other)
    assert catch_refusal(own, run, "later").sqlstate == "DA010"
    assert publish(own, write_snapshot(own, HIGH, at_s=1001, max_gap_s=1, dataset=other), "later") != []


def test_people_who_are_said_to_stay_less_than_a_minute_need_a_reason(own: psycopg.Connection) -> None:
    write_people(own, "other")
    settle_datasets(own, ten=0, other=59)
    for run in (write_snapshot(own, LOW, max_gap_s=300), write_snapshot(own, TEN, at_s=3600)):
        error = catch_refusal(own, run, "places")
        assert error.sqlstate == "DA010"
        demand_named(str(error.diag.message_primary), f"run {run}", "'default'", 59, 60)
    publish(own, run, "places", f", {ALLOWED}")
    assert read_recorded(own, "places")[1] == "never in the same hands"
    card = read_value(own, "SELECT dbanon.release_card('places')")
    assert isinstance(card, dict)
    assert (card["reach_s"], card["overlap"]) == (300, {"settle_s": 59})
    publish(own, 1, "bundles")  # they reach no further than their rows
    assert read_recorded(own, "bundles") == (None, None)
    settle_datasets(own, ten=60)
    publish(own, write_snapshot(own, TEN, at_s=7200), "later")
    assert read_recorded(own, "later")[1] is None


@pytest.mark.parametrize(
    ("last", "exact", "since"),
    [(40, True, "2008-06-04T08:17:00Z"), (40, False, "2008-06-04T08:02:00Z"), (17, True, None)],
)
def test_what_must_stand_alone_is_told_from_when_on_it_would(
    own: psycopg.Connection, last: int, exact: bool, since: str | None
) -> None:
    publish(own, 1, "first")
    groups = [Group(1, last, LOW), *(Group(1, last, frozenset({p}), exact) for p in HIGH)]
    run = write_run(own, Release(2, tuple(groups)))
    own.execute("UPDATE dbanon.run SET method = 'mob', algorithm = 'symmetric' WHERE run_id = %s", [run])
    own.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " VALUES (%s, 'mob', true, dbanon_internal.compute_run_digest(%s))",
        [run, run],
    )
    error = catch_refusal(own, run, "alone")
    demand_named(str(error.diag.message_primary), "first", "10 people")
    hint = str(error.diag.message_hint)
    assert ("since" in hint) == (since is not None)
    demand_named(hint, *([since] if since else []))


def test_groups_that_an_earlier_version_published_are_said_not_to_be_known_for_the_same(
    own: psycopg.Connection,
) -> None:
    made = []
    for number in (2, 3):
        made.append(run := write_run(own, Release(number, (Group(1, 40, LOW), Group(1, 40, HIGH)))))
        own.execute("UPDATE dbanon.run SET method = 'mob', algorithm = 'symmetric' WHERE run_id = %s", [run])
        own.execute(
            "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
            " VALUES (%s, 'mob', true, dbanon_internal.compute_run_digest(%s))",
            [run, run],
        )
    publish(own, made[0], "alone")
    own.execute("ALTER TABLE dbanon.release DISABLE TRIGGER USER")
    for longest_s, is_said in (("60", False), ("NULL", True)):
        own.execute(f"UPDATE dbanon.release SET content = NULL, longest_s = {longest_s}")
        own.execute(
            "UPDATE dbanon.release rel SET promise_hash = dbanon_internal.hash_promise(pop.key, rel)"
            " FROM dbanon.population pop"
        )
        hint = str(catch_refusal(own, made[1], "again").diag.message_hint)
        assert ("earlier version of dbanon" in hint) == is_said


def test_whom_one_release_hides_and_another_shows_within_a_day_is_counted(own: psycopg.Connection) -> None:
    publish(own, write_snapshot(own, LOW), "at_eight")
    (notice,) = publish(own, write_snapshot(own, at_s=3600), "at_nine")  # all exact, where the five were hidden
    demand_named(notice, "0 people", "this one shows exactly 5 people")
    assert read_recorded(own, "at_nine")[0] == {"within_a_day": {"hidden_here": 0, "shown_here": 5}}
    (notice,) = publish(own, write_snapshot(own, LOW, at_s=7200), "at_ten")
    demand_named(notice, "5 people", "this one shows exactly 0 people")
    assert publish(own, write_snapshot(own, HIGH, at_s=10800), "elsewhere") != []  # hidden where the others were shown
    assert publish(own, write_snapshot(own, LOW, at_s=3 * 86400), "another_day") == []
    card = read_value(own, "SELECT dbanon.release_card('at_ten')")
    assert isinstance(card, dict)
    assert card["overlap"]["within_a_day"] == {"hidden_here": 5, "shown_here": 0}


def test_whom_one_that_stands_alone_hides_is_counted_though_others_have_groups(own: psycopg.Connection) -> None:
    run = write_run(own, Release(5, (Group(1, 2, LOW, alone=True), Group(0, 1, LOW))))
    own.execute("UPDATE dbanon.run SET method = 'mob', algorithm = 'symmetric' WHERE run_id = %s", [run])
    own.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " VALUES (%s, 'mob', true, dbanon_internal.compute_run_digest(%s))",
        [run, run],
    )
    publish(own, write_snapshot(own, HIGH, at_s=9 * 86400), "with_groups")
    publish(own, run, "alone")
    publish(own, write_snapshot(own, HIGH, at_s=3600), "at_nine")  # it shows the five
    assert read_recorded(own, "at_nine")[0] == {"within_a_day": {"hidden_here": 0, "shown_here": 5}}


def test_where_nothing_breaks_the_greatest_promise_is_said(own: psycopg.Connection) -> None:
    publish(own, write_verified(own, Release(3, (Group(0, 2, LOW),))), "lows")
    _, smallest, k, people = measure_run(own, write_verified(own, Release(5, (Group(0, 2, HIGH),))))
    assert (smallest, k, people) == (5, 5, 0)


def test_only_releases_that_hid_the_person_are_said_to_have_promised_it(own: psycopg.Connection) -> None:
    publish(own, write_verified(own, Release(5, (Group(0, 2, LOW),))), "lows")
    publish(own, write_verified(own, Release(5, (Group(0, 2, HIGH),))), "highs")
    some, others = sorted(LOW)[:3], sorted(LOW)[3:]
    run = write_verified(own, Release(2, (Group(0, 2, frozenset(some)), Group(0, 2, frozenset(others)))))
    _, promise = str(catch_refusal(own, run, "split").diag.message_primary).rsplit("promise", 1)
    demand_named(promise, "lows")
    assert "highs" not in promise


def test_exact_places_tell_nothing_of_senders(own: psycopg.Connection) -> None:
    publish(own, write_snapshot(own), "places")
    publish(own, 1, "fives")
    error = catch_refusal(own, write_verified(own, Release(5, HALVES)), "halves")
    demand_named(str(error.diag.message_primary), "fives", 2, 5)


def test_bundles_may_not_take_apart_the_crowd_of_a_snapshot(own: psycopg.Connection) -> None:
    publish(own, write_snapshot(own, LOW), "places")
    crossing = write_verified(own, Release(2, HALVES))
    error = catch_refusal(own, crossing, "halves")
    demand_named(str(error.diag.message_primary), f"run {crossing}", "places", 2, 5)
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", "places", "5 people")
    assert f"run {crossing}" not in f"{error.diag.message_primary} {error.diag.message_detail}"
    publish(own, 1, "fives")


def test_a_snapshot_may_not_show_or_part_whom_its_own_crowds_were_bundled_with(own: psycopg.Connection) -> None:
    publish(own, write_verified(own, Release(2, HALVES)), "halves")
    run = write_snapshot(own, LOW)
    error = catch_refusal(own, run, "places")
    demand_named(str(error.diag.message_primary), f"run {run}", "halves", 2, 5)
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", f"run {run}", "5 people")


def test_whom_another_release_leaves_out_of_a_crowd_is_not_left_alone_at_the_site(own: psycopg.Connection) -> None:
    publish(own, write_snapshot(own, LOW, k=4), "first")
    four = write_verified(own, Release(4, (Group(0, 2, LOW - {4}),)))
    demand_named(str(catch_refusal(own, four, "elsewhere").diag.message_primary), "first", 1, 4)
    publish(own, write_verified(own, Release(4, (Group(0, 2, LOW),))), "all_of_it")


def test_a_copy_of_a_dataset_is_no_way_round(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    copy = write_people(own, "copy")
    six = write_verified(own, Release(6, (Group(0, 2, frozenset(range(6))),)), dataset=copy)
    error = catch_refusal(own, six, "six")
    assert error.sqlstate == "DA010"
    demand_named(str(error.diag.message_primary), f"run {six}", "first of dataset ten", 1)
    demand_named(str(error.diag.message_hint), "populations")


def test_the_ten_people_of_the_contracts_are_judged_as_the_page_says(own: psycopg.Connection) -> None:
    """Each family after each other one: what the database measures is what the oracle does."""
    families = make_ten_people()
    runs = dict(zip(families, [written.write(own, c) for c in written.CONTRACTS.values()], strict=True))
    for first, run in runs.items():
        with own.transaction(force_rollback=True):
            publish(own, run, "first")
            for then, second in runs.items():
                row = own.execute(
                    "SELECT below > 0, smallest_crowd FROM dbanon.measure_overlap(%s)", [second]
                ).fetchone()
                assert row == Rule().judge(families[then], [families[first]])[:2], (first, then)


def test_days_of_one_person_are_one_candidate(own: psycopg.Connection) -> None:
    own.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT 1, t.subject, t.path FROM dbanon.trajectory t, generate_series(1, 3) WHERE t.subject IN ('p0', 'p2')"
    )
    publish(own, write_verified(own, Release(5, FIVES)), "first")
    assert own.execute("SELECT DISTINCT cardinality(people) FROM dbanon.grouping").fetchall() == [(5,)]
    demand_named(
        str(catch_refusal(own, write_verified(own, Release(2, HALVES)), "halves").diag.message_primary), "first", 2, 5
    )


# --- what is taken out between two releases ---------------------------------------------------------------------------


@pytest.mark.parametrize("sites", [False, True])
def test_releases_without_a_person_in_common_are_both_let_through(own: psycopg.Connection, sites: bool) -> None:
    publish(own, write_snapshot(own, LOW) if sites else 1, "ten")
    fives = tuple(Group(0, 2, frozenset(range(n, n + 5)), alone=sites and n > 10) for n in (10, 15))
    run = write_verified(
        own, Release(5, fives, sites), dataset=write_people(own, "others", first=10), at=0, max_gap_s=300
    )
    assert measure_run(own, run) == ("disjoint", 5, 5, 0)
    assert publish(own, run, "others") == []


@pytest.mark.many
@pytest.mark.parametrize(
    ("statements", "dataset"),
    [
        (("SELECT dbanon.forget_before('ten', now())",), "ten"),
        (("SELECT dbanon.forget_before('ten', now())",), "other"),
        (("SELECT dbanon.unpublish('first')", "SELECT dbanon.drop_dataset('ten')"), "ten"),
        (("SELECT dbanon.unpublish('first')", "SELECT dbanon.drop_dataset('ten')"), "other"),
    ],
)
def test_people_who_return_after_their_data_went_are_measured_as_before(
    own: psycopg.Connection, statements: tuple[str, ...], dataset: str
) -> None:
    publish(own, 1, "first")
    for statement in statements:
        own.execute(statement)
    assert read_value(own, "SELECT count(*) FROM dbanon.trajectory") == 0
    number = write_people(own, dataset)
    error = catch_refusal(own, write_verified(own, Release(5, HALVES), number), "halves")
    assert error.sqlstate == "DA010"
    demand_named(str(error.diag.message_primary), "first", 2, 5)
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", "10 people")
    (notice,) = publish(own, write_verified(own, Release(5, FIVES), number), "again")
    demand_named(notice, "same", "first")


def test_a_subject_forgotten_between_releases_is_missed_and_returns_as_another_person(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    own.execute("SELECT dbanon.forget_subject('ten', 'p0')")
    halves = write_verified(own, Release(2, (HALVES[0]._replace(people=HALVES[0].people - {0}), HALVES[1])))
    demand_named(str(catch_refusal(own, halves, "halves").diag.message_primary), "first", 2, 5)
    without = write_verified(own, Release(4, (FIVES[0]._replace(people=LOW - {0}), FIVES[1])))
    error = catch_refusal(own, without, "without")  # what p0 asked for is in the first release alone
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", "first", 1, 5, "5 people")
    own.execute("SELECT dbanon.remember_subject('default', 'p0')")
    own.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT 1, 'p0', path FROM dbanon.trajectory WHERE subject = 'p1'"
    )
    error = catch_refusal(own, write_verified(own, Release(5, FIVES)), "again")
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", "first", 1, 5, "6 people")


@tries("Append to the other dataset instead")
@pytest.mark.parametrize("dropped", [False, True])
def test_a_copy_under_other_names_is_published_for_a_recorded_reason_alone(
    own: psycopg.Connection, dropped: bool
) -> None:
    publish(own, 1, "first")
    copy = write_people(own, "copy", first=10)
    own.execute("ALTER TABLE dbanon.fix_code DISABLE TRIGGER USER; TRUNCATE dbanon.fix_code")
    own.execute(
        "INSERT INTO dbanon.fix_code SELECT d, 10 * d + i %% 10, i FROM generate_series(1, 50) i, unnest(%s) d",
        [[1, copy]],
    )
    if dropped:
        own.execute("SELECT dbanon.unpublish('first')")
        own.execute("SELECT dbanon.drop_dataset('ten')")
    name = "ten (dropped 1)" if dropped else "ten"
    run = write_verified(own, Release(5, (Group(0, 2, frozenset(range(10, 20))),)), copy)
    error = catch_refusal(own, run, "copied")
    assert error.sqlstate == "DA010"
    demand_named(str(error.diag.message_primary), f"run {run}", name)
    accept_overlap(own, f"SELECT dbanon.publish({run}, 'copied')")
    publish(own, run, "copied", f", {ALLOWED}")
    assert read_recorded(own, "copied")[1] == "never in the same hands"
    assert read_recorded(own, "copied")[0]["copies"] == [name]


@tries("Load it without the copies")
def test_a_dataset_with_two_names_a_person_is_published_for_a_recorded_reason_alone(own: psycopg.Connection) -> None:
    own.execute("TRUNCATE dbanon.fix_code")
    own.execute(
        "INSERT INTO dbanon.fix_code SELECT 1, i % 5 + n, i FROM generate_series(1, 50) i, unnest('{0,5}'::int[]) n"
    )
    error = catch_refusal(own, 1, "doubled")
    assert error.sqlstate == "DA010"
    demand_named(str(error.diag.message_primary), "run 1", "ten", "several names")
    accept_overlap(own, "SELECT dbanon.publish(1, 'doubled')")
    publish(own, 1, "doubled", f", {ALLOWED}")
    assert read_recorded(own, "doubled") == ({"copies": ["ten"]}, "never in the same hands")


# --- what cannot be measured ------------------------------------------------------------------------------------------


def test_a_run_that_is_not_there_or_not_computed_is_not_measured(connection: psycopg.Connection) -> None:
    for statement, code in (
        ("SELECT dbanon.measure_overlap(99)", "DA001"),
        ("SELECT dbanon.measure_overlap(NULL)", "DA001"),
    ):
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            connection.execute(statement)
        assert caught.value.sqlstate == code
    connection.execute("UPDATE dbanon.run SET status = 'running'")
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute("SELECT dbanon.measure_overlap(1)")
    assert caught.value.sqlstate == "DA004"


def test_what_cannot_be_decided_is_refused(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    run = write_verified(own, Release(5, FIVES))
    own.execute("""UPDATE dbanon.run SET params = '{"k": "5"}' WHERE run_id = %s""", [run])
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.compute_run_digest(run_id)")
    assert catch_refusal(own, run, "again").sqlstate == "DA010"
    change_methods(
        own,
        "INSERT INTO dbanon.method SELECT 'newer', summary, guarantee, region_type, attack, algorithms, columns, paper,"
        " adversary, row_meaning, left_out, parameters FROM dbanon.method WHERE name = 'tp-aware'",
    )
    own.execute("""UPDATE dbanon.run SET method = 'newer', params = '{"k": 5}' WHERE run_id = %s""", [run])
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.compute_run_digest(run_id)")
    assert catch_refusal(own, run, "again").sqlstate == "DA004"


@pytest.mark.many
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (", allow_overlap => true", ("reason", "three words", "0 words")),
        (", allow_overlap => true, reason => 'because - !'", ("reason", "three words", "1 word")),
        (
            ", allow_overlap => true, reason => repeat('so it is ', 120)",
            ("reason", "1,000", "360 words", "1,080 characters"),
        ),
        (", reason => 'one team reads both'", ("reason", "allow_overlap")),
        (", allow_overlap => NULL, reason => 'one team reads both'", ("reason", "allow_overlap")),
    ],
)
def test_an_override_needs_a_reason_and_a_reason_an_override(
    connection: psycopg.Connection, options: str, facts: tuple[str, ...]
) -> None:
    error = catch_refusal(connection, 1, "first", options)
    assert error.sqlstate == "DA002"
    demand_named(f"{error.diag.message_primary} {error.diag.message_detail}", *facts)
    assert "team" not in str(error)


# --- in the place of another ------------------------------------------------------------------------------------------


def test_a_release_takes_the_place_of_another(own: psycopg.Connection) -> None:
    publish(own, 1, "ten")
    own.execute("CREATE VIEW public.mine AS SELECT sum(subjects) AS people FROM published.ten")
    own.execute("GRANT SELECT ON published.ten TO dbanon_worker")
    run = write_verified(own, Release(5, (Group(10, 13, TEN),)))
    assert publish(own, run, "ten", ", replace => true") == []
    assert read_value(own, "SELECT people FROM public.mine") == 3
    assert read_value(own, "SELECT has_table_privilege('dbanon_worker', 'published.ten', 'SELECT')") is True
    assert read_value(own, "SELECT has_table_privilege('dbanon_analyst', 'published.ten', 'SELECT')") is True
    rows = own.execute(
        "SELECT run_id, withdrawn_at IS NULL, withdrawn_by,"
        " to_regclass(format('dbanon.release_%s', release_id)) IS NULL FROM dbanon.release ORDER BY release_id"
    ).fetchall()
    assert rows == [(1, False, read_value(own, "SELECT session_user"), True), (run, True, None, False)]
    comment = read_value(own, "SELECT obj_description('published.ten'::regclass, 'pg_class')")
    assert "k is 5" in str(comment)


def test_a_replaced_release_counts_and_is_measured_against(own: psycopg.Connection) -> None:
    publish(own, 1, "ten")
    error = catch_refusal(own, write_verified(own, Release(5, HALVES)), "ten", ", replace => true")
    assert error.sqlstate == "DA010"
    assert read_value(own, "SELECT count(*) FROM published.ten") == 4


def test_where_columns_differ_views_on_it_go_and_a_notice_says_so(own: psycopg.Connection) -> None:
    publish(own, 1, "ten")
    own.execute("CREATE VIEW public.mine AS SELECT * FROM published.ten")
    sites = write_verified(
        own, Release(5, (Group(10, 12, FIVES[0].people), Group(10, 12, FIVES[1].people, True)), around_sites=True)
    )
    notices = publish(own, sites, "ten", ", replace => true")
    assert "drop cascades to view public.mine" in notices
    assert any("columns of ten" in n for n in notices)
    assert read_value(own, "SELECT count(*) FILTER (WHERE cloaked IS NOT NULL) FROM published.ten") == 10


def test_without_a_live_release_of_the_name_replace_just_publishes(connection: psycopg.Connection) -> None:
    assert publish(connection, 1, "ten", ", replace => true") == []
    connection.execute("SELECT dbanon.unpublish('ten')")
    publish(connection, 1, "ten", ", replace => true")
    assert read_value(connection, "SELECT count(*) FROM dbanon.release WHERE withdrawn_at IS NULL") == 1


def test_replace_takes_no_name_of_something_else(connection: psycopg.Connection) -> None:
    connection.execute("CREATE VIEW published.ten AS SELECT 1 AS a")
    assert catch_refusal(connection, 1, "ten", ", replace => true").sqlstate == "DA003"
    connection.execute("DROP VIEW published.ten")
    publish(connection, 1, "ten")
    connection.execute("DROP VIEW published.ten")  # by hand: the release is live all the same
    publish(connection, 1, "ten", ", replace => true")
    assert read_value(connection, "SELECT count(*) FROM published.ten") == 4
