"""Guests in stored rows: groups, and bounds for analysts against all placements of people who may be absent."""

import random
from itertools import pairwise, product
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon.runs import stored
from tests.db import nights
from tests.reading import COUNT_INSIDE, read_value

WINDOWS, FULL, GUESTS = 60, 3, 2
STARTS = 1_212_566_400  # 8:00, unix seconds
SETUP = """
INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('five', 32610, 1, 60);
INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)
SELECT i, d.dataset_id, 'p' || i, ST_SetSRID(ST_MakeLine(ST_MakePointM(5, 5, 1212566400),
                                                         ST_MakePointM(105, 5, 1212567060)), 32610)
FROM dbanon.dataset d, generate_series(1, 5) i WHERE d.name = 'five';
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics)
SELECT dataset_id, revision, 'tp-aware', 'traj-anon', '{"k": 3, "step_s": 60, "instants": 3}', 1, 'verified',
    '{"guest_presence": 0.52, "guests": 120}' FROM dbanon.dataset WHERE name = 'five';
"""
ROW = """
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects, extra)
VALUES (1, %s, %s, tstzrange(to_timestamp(%s), to_timestamp(%s)), ST_MakeEnvelope(%s, 0, %s, 10, 32610), 3, 5, %s)
"""
MEMBER = """
INSERT INTO dbanon.membership VALUES (1, %s, %s, CASE WHEN %s THEN tstzrange(to_timestamp(%s), to_timestamp(%s)) END)
"""
VERIFY = """
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
SELECT 1, 'tp-aware', true, dbanon_internal.compute_run_digest(1);
"""
ZONES = """
CREATE TEMPORARY TABLE zones AS SELECT * FROM (VALUES ('west', ST_MakeEnvelope(-1, -1, 20, 50, 32610)),
    ('east', ST_MakeEnvelope(20, -1, 99, 50, 32610))) z (zone, shape);
"""
WEST = "ST_MakeEnvelope(-1, -1, 20, 50, 32610)"
LINE = "ST_SetSRID(ST_MakeLine(ST_MakePoint(20, -99), ST_MakePoint(20, 99)), 32610)"  # west is left of it
Region = tuple[int, int]
Track = list[tuple[int, float]]


def draw_regions(rng: random.Random) -> list[Region]:
    """Draw the sides of three regions in the south: west of 20, east of it, or across."""
    lows = [rng.choice([4, 12, 19, 21, 27]) for _ in range(3)]
    return [(low, low + rng.choice([2, 4])) for low in lows]


def list_tracks(regions: list[Region], instants: int, *, whole: bool) -> list[Track]:
    """List the ways of a person in some of the first instants: of a guest at any, or at none."""
    places = [(low + 0.5, high - 0.5) for low, high in regions[:instants]]
    choices = [options if whole else (*options, None) for options in places]
    return [[(i, x) for i, x in enumerate(way) if x is not None] for way in product(*choices)]


@pytest.fixture
def five(connection: psycopg.Connection) -> list[list[Region]]:
    """Publish five people in a record a window, two of them guests, who are at one instant by what is stored."""
    rng, drawn = random.Random(11), []
    connection.execute(SETUP)
    for record in range(1, WINDOWS + 1):
        start = STARTS + 180 * (record - 1)
        drawn.append(draw_regions(rng))
        for seq, (low, high) in enumerate(drawn[-1], start=1):
            sent = Jsonb({"requests": [{"poi": seq}]}) if seq < 3 else None
            connection.execute(ROW, [record, seq, start + 60 * (seq - 1), start + 60 * seq, low, high, sent])
        for person in range(1, FULL + GUESTS + 1):
            connection.execute(MEMBER, [record, person, person > FULL, start + 60, start + 120])
    connection.execute(VERIFY)
    connection.execute("SELECT dbanon.publish(1, 'five')")
    connection.execute(ZONES)
    return drawn


def bound(regions: list[Region], instants: int, measure: Any) -> tuple[float, float]:
    """Give the least and the greatest sum of what is measured of each person."""
    full, guest = ([measure(track) for track in list_tracks(regions, instants, whole=whole)] for whole in (True, False))
    return FULL * min(full) + GUESTS * min(guest), FULL * max(full) + GUESTS * max(guest)


def test_groups_are_of_full_members_and_have_their_guests_behind_them(
    connection: psycopg.Connection, five: list[list[Region]]
) -> None:
    query = "SELECT hash_person(find_dataset_key(1), 'p' || n) FROM generate_series(%s::int, %s) n ORDER BY 1"
    connection.execute("SET search_path = public, dbanon_internal")
    full, guests = ([row[0] for row in connection.execute(query, ends)] for ends in ((1, 3), (4, 5)))
    rows = connection.execute("SELECT people, members, upper(period) - lower(period) FROM dbanon.grouping").fetchall()
    assert len(rows) == WINDOWS
    assert {(tuple(people), members, span.total_seconds()) for people, members, span in rows} == {
        ((*full, *guests), 3, 180.0)
    }
    assert read_value(connection, "SELECT guest_presence FROM published.releases WHERE name = 'five'") == 0.5


def test_a_guest_counts_as_a_sender_of_what_was_sent_while_it_was_there(
    connection: psycopg.Connection, five: list[list[Region]]
) -> None:
    query = "SELECT windows, present, met, cardinality(people) FROM dbanon.asked ORDER BY 4"
    found = connection.execute(query).fetchall()
    times = WINDOWS, (FULL + GUESTS) * WINDOWS  # both contents were sent in each window, and the guests met one
    assert found == [(*times, 0, 0), (*times, 0, 0), (*times, WINDOWS, GUESTS)]
    sent = "(SELECT array_agg(DISTINCT content) FROM dbanon.asked)"
    query = f"SELECT DISTINCT members, contents = {sent} FROM dbanon.grouping"
    assert connection.execute(query).fetchall() == [(FULL, True)]


@pytest.mark.parametrize("instants", [1, 2, 3])
def test_no_placement_of_guests_is_beyond_the_bounds(
    connection: psycopg.Connection, five: list[list[Region]], instants: int
) -> None:
    ways = [(a, b) for a in ("west", "east") for b in ("west", "east")]
    for number, regions in enumerate(five):
        start = STARTS + 180 * number
        span = f"tstzrange(to_timestamp({start}), to_timestamp({start + 60 * instants}))"

        def is_west(x: float) -> bool:
            return x < 20

        def check(query: str, measure: Any, *, exact: bool = True, regions: list[Region] = regions) -> None:
            least, most = bound(regions, instants, measure)
            found = connection.execute(f"SELECT * FROM ({query}) q").fetchone()
            low, high = (0, 0) if found is None else found
            assert low == pytest.approx(least, abs=1e-5) if exact else low <= least, query
            assert high >= most - 1e-5, query

        asked = "at_least, at_most FROM published"
        check(
            f"SELECT {asked}.count_inside('published.five', {WEST}, during => {span})",
            lambda track: any(is_west(x) for _, x in track),
        )
        check(
            f"SELECT {asked}.density('published.five', 20, {span}) WHERE ST_XMin(cell) = 0",
            lambda track: sum(is_west(x) for _, x in track) / instants,
        )
        for origin, end in ways:
            check(
                f"SELECT {asked}.flows('published.five', 'zones', 'zone', {span})"
                f" WHERE (origin, destination) = ('{origin}', '{end}')",
                lambda track, way=(origin, end): (
                    bool(track) and tuple("west" if is_west(x) else "east" for _, x in (track[0], track[-1])) == way
                ),
            )
        for direction, sign in (("left to right", 1), ("right to left", -1)):
            check(
                f"SELECT {asked}.crossings('published.five', {LINE}, {span}) WHERE direction = '{direction}'",
                lambda track, sign=sign: any(
                    sign * (a - 20) < 0 < sign * (b - 20) for (_, a), (_, b) in pairwise(track)
                ),
                exact=False,  # moves are looked at one by one
            )


def test_answers_at_a_moment_and_of_stays_tell_guests_from_others(
    connection: psycopg.Connection, five: list[list[Region]]
) -> None:
    for number, regions in enumerate(five):
        start = STARTS + 180 * number
        low, high = regions[0]
        query = f"{COUNT_INSIDE}('published.five', {WEST}, at => to_timestamp({start}))"
        share = max(0.0, min(1.0, (20 - low) / (high - low)))
        expected = ((3 if high <= 20 else 0), 4 * share, (5 if low <= 20 else 0))
        assert connection.execute(query).fetchone() == pytest.approx(expected, abs=1e-6)
        span = f"tstzrange(to_timestamp({start}), to_timestamp({start + 180}))"
        stays = [sum(x < 20 for _, x in track) for track in list_tracks(regions, 3, whole=True)]
        told = connection.execute(f"SELECT * FROM published.dwell('published.five', {WEST}, {span})").fetchall()
        assert [(subjects, surely) for _, subjects, _, surely, *_ in told] in ([], [(FULL, min(stays)), (GUESTS, 0)])
        assert all(possibly >= max(stays) for *_, possibly in told)
        assert all(guests[4] == pytest.approx(full[4] / 2) for full, guests in zip(told[::2], told[1::2], strict=True))


def test_a_job_keeps_what_its_first_night_found_and_so_does_a_live_series(connection: psycopg.Connection) -> None:
    nights.make_source(connection, days=4)
    nights.add(connection)
    found = []
    for decided in ("unknown", "asked", "on"):
        while nights.take_step(connection) != "compute":
            assert not read_value(connection, "SELECT bool_or(error IS NOT NULL) FROM dbanon.job_period")
        waiting = read_value(connection, "SELECT max(run_id) FROM dbanon.run")
        found.append(stored.find_kept_guests(connection, waiting))
        connection.execute(
            "UPDATE dbanon.run SET suppressed = %s WHERE run_id = %s", [Jsonb({"guests": decided}), waiting]
        )
        nights.compute(connection)
        while nights.take_step(connection) != "done":
            assert not read_value(connection, "SELECT bool_or(error IS NOT NULL) FROM dbanon.job_period")
    # A night without evidence is not kept.
    assert found == [None, None, "asked"]
    by_hand = read_value(
        connection,
        "INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status)"
        " SELECT dataset_id, dataset_revision, method, algorithm, params, 1, 'queued' FROM dbanon.run"
        " ORDER BY run_id DESC LIMIT 1 RETURNING run_id",
    )
    assert stored.find_kept_guests(connection, by_hand) == "asked"
    assert stored.find_kept_guests(connection, 1) is None
