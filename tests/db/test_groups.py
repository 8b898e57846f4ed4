"""Who is hidden with whom where people are in a record for a part of its time, against each minute of records."""

import random
from itertools import pairwise

import psycopg

from tests.db.methods import change_methods
from tests.facts import expect_refusal
from tests.reading import read_value

MINUTES, RUNS = 8, 100
PEOPLE = 6  # of whom the first two have two trajectories each
RUN = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics)
SELECT dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics FROM dbanon.run WHERE run_id = 1
RETURNING run_id
"""
ROW = """
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects)
VALUES (%s, %s, %s, %s, ST_MakeEnvelope(0, 0, 10, 10, 32610), 5, 5)
"""
GROUPS = """
SELECT extract(minute FROM lower(period))::integer, extract(minute FROM upper(period))::integer, people
FROM dbanon_internal.find_run_groups(%s)
"""
Stay = tuple[int, int, int]
"""A person, and the minutes from which and before which the person is in a record."""


def test_groups_are_those_of_each_minute(scratch: psycopg.Connection) -> None:
    scratch.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)"
        " SELECT trajectory_id + 100, dataset_id, subject, path FROM dbanon.trajectory WHERE trajectory_id < 102"
    )
    change_methods(scratch, "UPDATE dbanon.method SET traits = traits - 'guests' WHERE name = 'tp-aware'")
    codes = [
        read_value(scratch, "SELECT dbanon_internal.hash_person(dbanon_internal.find_dataset_key(1), %s)", f"p{person}")
        for person in range(PEOPLE)
    ]
    for seed in range(RUNS):
        draw = random.Random(seed)
        run_id = read_value(scratch, RUN)
        expected, is_refused = set(), False
        for record_id in range(1, draw.randint(2, 4)):
            minutes = sorted(draw.sample(range(MINUTES), draw.randint(1, 4)))
            for seq, minute in enumerate(minutes, start=1):
                scratch.execute(ROW, [run_id, record_id, seq, format_period(minute, minute + 1)])
            for person, since, until in (stays := draw_stays(draw)):
                trajectory = 100 + person + (100 if person < 2 and draw.random() < 0.5 else 0)
                period = None if (since, until) == (0, MINUTES) else format_period(since, until)
                scratch.execute(
                    "INSERT INTO dbanon.membership VALUES (%s, %s, %s, %s)", [run_id, record_id, trajectory, period]
                )
            for since, until, people in find_groups(minutes[0], minutes[-1] + 1, stays):
                if people:
                    expected.add((since, until, people))
                elif any(since <= minute < until for minute in minutes):
                    is_refused = True  # a row of nobody
        if is_refused:
            with expect_refusal("DA005"), scratch.transaction():
                scratch.execute(GROUPS, [run_id])
            continue
        found = scratch.execute(GROUPS, [run_id]).fetchall()
        told = [(since, until, tuple(people)) for since, until, people in found]
        assert sorted(told) == sorted(
            (since, until, tuple(sorted(codes[person] for person in people))) for since, until, people in expected
        ), f"seed {seed}"


def draw_stays(draw: random.Random) -> list[Stay]:
    """Draw who is in a record and when: for all its time, for a part of it, or for several."""
    stays = []
    for _ in range(draw.randint(1, 6)):
        since, until = (0, MINUTES) if draw.random() < 0.6 else sorted(draw.sample(range(MINUTES + 1), 2))
        stays.append((draw.randrange(PEOPLE), since, until))
    return stays


def find_groups(first: int, last: int, stays: list[Stay]) -> set[tuple[int, int, frozenset[int]]]:
    """Who is in a record between any two times at which it begins or ends, or at which a person joins or leaves it."""
    joins = {at for _, since, until in stays if (since, until) != (0, MINUTES) for at in (since, until)}
    cuts = sorted({first, last} | {at for at in joins if first < at < last})
    return {
        (start, end, frozenset(person for person, since, until in stays if since <= start and end <= until))
        for start, end in pairwise(cuts)
    }


def format_period(since: int, until: int) -> str:
    return f"[2008-06-04 08:{since:02d}Z, 2008-06-04 08:{until:02d}Z)"
