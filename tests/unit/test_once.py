"""Everybody once: the clauses of core against the same rule in sets and loops, time by time."""

import random
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from dbanon.attacks import Evidence, overlapping_records
from dbanon.base.trajectory import Trajectories

LAST = 8


@dataclass
class Run:
    """A small run: whose each trajectory is, and by record the rows (start, end, subjects) and members."""

    person: dict[int, int]
    rows: dict[int, list[tuple[int, int, int]]]
    members: dict[int, list[tuple[int, int | None, int | None]]]
    day: dict[int, int] = field(default_factory=dict)

    def make_evidence(self) -> Evidence:
        ids, records = sorted(self.person), list(self.rows)
        rows = [row for record in records for row in self.rows[record]]
        members = [(record, *member) for record, listed in self.members.items() for member in listed]
        sides = np.array([[np.nan if side is None else side for side in m[2:]] for m in members], float).reshape(-1, 2)
        count = len(rows)
        return Evidence(
            method="toy", algorithm="toy", params={}, suppressed={},
            trajectories=Trajectories(
                trajectory_id=np.array(ids, np.int64), subject=np.array([self.person[i] for i in ids], np.int64),
                offset=np.arange(len(ids) + 1), t=np.zeros(len(ids)), x=np.zeros(len(ids)), y=np.zeros(len(ids)),
                srid=32610, grid_m=1.0, grid_s=1,
                day=np.array([self.day[i] for i in ids], np.int64) if self.day else None,
            ),
            record_id=np.array(records, np.int64), offset=np.cumsum([0, *(len(self.rows[r]) for r in records)]),
            region=np.arange(count), period=np.arange(count), place=None,
            region_no=np.arange(count), region_bounds=np.zeros((count, 4)), region_rectangle=np.ones(count, bool),
            region_srid=np.zeros(count, int), region_crowd=np.array([r[2] for r in rows], int),
            region_subjects=np.array([r[2] for r in rows], int), region_other_keys=np.zeros(count, int),
            period_start_s=np.array([r[0] for r in rows], float), period_end_s=np.array([r[1] for r in rows], float),
            member_record=np.array([m[0] for m in members], np.int64),
            member_trajectory=np.array([m[1] for m in members], np.int64),
            member_start_s=sides[:, 0], member_end_s=sides[:, 1],
            hiding_record=np.empty(0, np.int64), hiding_start_s=np.empty(0), hiding_end_s=np.empty(0),
            hiding_offset=np.zeros(1, np.int64), hiding_other=np.empty(0, np.int64),
        )  # fmt: skip

    def find_broken(self, *, counts_days: bool = False) -> dict[str, int]:
        found = overlapping_records.decide_clauses(self.make_evidence(), counts_days=counts_days)
        assert all(clause.passed == (clause.violations == 0) for clause in found)
        return {clause.name: clause.violations for clause in found if not clause.passed}


def judge_plainly(run: Run, *, counts_days: bool = False) -> tuple[set[object], bool]:
    """Who is in two groups at some time, and whether rows of one time stand for too many, second by second."""
    who = {path: (person, run.day[path]) if counts_days and run.day else person for path, person in run.person.items()}
    twice: set[object] = set()
    too_many = False
    for now in range(LAST):
        groups: dict[frozenset[object], int] = {}
        for record, rows in run.rows.items():
            if rows and min(r[0] for r in rows) <= now < max(r[1] for r in rows):
                there = frozenset(
                    who[path]
                    for path, start, end in run.members.get(record, [])
                    if path in who and (start is None or end is None or start <= now < end)
                )
                said = sum(subjects for start, end, subjects in rows if start <= now < end)
                groups[there] = groups.get(there, 0) + said
        for person in set(who.values()):
            if sum(person in group for group in groups) > 1:
                twice.add(person)
        too_many |= any(said > len(group) for group, said in groups.items())
    return twice, too_many


def draw_run(rng: random.Random) -> Run:
    """A few people, records that are alike or not, rows that follow one another or overlap, members for a stretch."""
    paths = rng.sample(range(1, 30), rng.randint(1, 6))
    run = Run({path: rng.randrange(4) for path in paths}, {}, {}, {path: rng.randrange(2) for path in paths})
    if rng.random() < 0.7:
        run.day.clear()
    groups = [rng.sample(paths, rng.randint(1, len(paths))) for _ in range(rng.randint(1, 3))]
    for record in rng.sample(range(1, 99), rng.randint(1, 5)):
        cuts = sorted(rng.sample(range(LAST + 1), rng.choice([2, 3, 4])))
        rows = [(a, b, rng.choice([1, 1, 1, 2])) for a, b in pairwise(cuts)]
        if rng.random() < 0.2:
            rows.append((min(cuts), max(cuts), 1))
        run.rows[record] = rng.sample(rows, rng.randint(min(1, rng.randint(0, 9)), len(rows)))
        run.members[record] = [(path, *stretch(rng)) for path in rng.choice(groups)]
        if rng.random() < 0.1:
            run.members[record].append((77, None, None))  # of no trajectory
    return run


def stretch(rng: random.Random) -> tuple[int | None, int | None]:
    start, end = sorted(rng.sample(range(-1, LAST + 2), 2))
    return (start, end) if rng.random() < 0.15 else (None, None)


def test_the_clauses_agree_with_sets_and_loops(cases) -> None:
    seen: set[tuple[bool, bool]] = set()
    for case in cases(1200):
        run = draw_run(random.Random(case))
        for counts_days in (False, True):
            twice, too_many = judge_plainly(run, counts_days=counts_days)
            broken = run.find_broken(counts_days=counts_days)
            assert broken.get("one-group", 0) == len(twice), case
            assert ("subjects-sum" in broken) == too_many, case
            seen.add((bool(twice), too_many))
    assert len(seen) == 4


# Four people in two bundles of two, then in two others.

PERSON = {101: 0, 102: 1, 103: 2, 104: 3, 105: 3}


def make_bundles(**changed: object) -> Run:
    rows = {1: [(0, 4, 2)], 2: [(0, 2, 2), (2, 4, 2)], 3: [(4, 8, 2)], 4: [(4, 8, 2)]}
    members = {1: [101, 102], 2: [103, 104], 3: [101, 103], 4: [102, 104]}
    whole = {record: [(path, None, None) for path in paths] for record, paths in members.items()}
    return Run(**{"person": PERSON, "rows": rows, "members": whole, **changed})  # type: ignore[arg-type]


def test_groups_that_do_not_overlap_are_right() -> None:
    assert make_bundles().find_broken() == {}


@pytest.mark.parametrize(
    ("record", "member", "broken"),
    [
        (2, (105, None, None), {}),  # the same person's other trajectory
        (2, (104, None, None), {}),  # the same one again
        (2, (102, 4, 8), {}),  # when the record has no rows
        (1, (103, None, None), {"one-group": 1}),
        (1, (103, 3, 4), {"one-group": 1}),
        (1, (105, 0, 1), {"one-group": 1}),
        (4, (101, None, None), {"one-group": 1}),
    ],
)
def test_a_member_more_is_refused_where_the_person_is_in_another_record(record, member, broken) -> None:
    run = make_bundles()
    run.members[record].append(member)
    assert run.find_broken() == broken


def test_a_member_fewer_than_subjects_is_refused() -> None:
    run = make_bundles()
    del run.members[3][0]
    assert run.find_broken() == {"subjects-sum": 1}


@pytest.mark.parametrize(("rows", "broken"), [
    ([(0, 2, 2), (2, 4, 3)], {"subjects-sum": 1}),
    ([(0, 3, 2), (2, 4, 2)], {"subjects-sum": 1}),
    ([(0, 3, 1), (2, 4, 1)], {}),
    ([(2, 4, 2), (0, 2, 2)], {}),
], ids=["one more", "two rows at a time", "each of some", "not in order of time"])  # fmt: skip
def test_rows_must_not_stand_for_more_than_the_members(rows, broken) -> None:
    run = make_bundles()
    run.rows[2] = rows
    assert run.find_broken() == broken


def test_as_many_equal_records_as_people_are_one_group() -> None:
    run = make_bundles(rows={1: [(0, 8, 1)], 2: [(0, 4, 1), (4, 8, 1)]})
    run.members = {record: [(101, None, None), (102, None, None)] for record in (1, 2)}
    assert run.find_broken() == {}
    run.rows[3], run.members[3] = [(7, 8, 1)], run.members[1]
    assert run.find_broken() == {"subjects-sum": 1}


def test_days_of_a_person_count_one_by_one_where_the_family_takes_them_apart() -> None:
    run = make_bundles(day=dict.fromkeys(PERSON, 1) | {105: 2})
    run.members[1].append((105, None, None))
    assert run.find_broken(counts_days=True) == {}
    assert run.find_broken(counts_days=False) == {"one-group": 1}


@pytest.mark.parametrize("changed", [{"person": {}}, {"rows": {}}, {"rows": {1: [], 2: []}}, {"members": {}}], ids=str)
def test_what_is_not_there_is_no_error(changed) -> None:
    assert "one-group" not in make_bundles(**changed).find_broken()


def test_sets_of_one_sum_are_told_apart(monkeypatch) -> None:
    class Alike:
        def integers(self, _: int, *, size: int) -> np.ndarray:
            return np.ones(size, np.int64)

    monkeypatch.setattr(np.random, "default_rng", lambda _: Alike())
    assert make_bundles().find_broken() == {}
    run = make_bundles()
    run.members[1][0] = (103, None, None)
    assert run.find_broken() == {"one-group": 1}
