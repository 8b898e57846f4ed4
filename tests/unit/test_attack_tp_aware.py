import copy
import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.attacks import Evidence, shared
from dbanon.attacks.shared.replay import Timetable, replay, select_slots
from dbanon.attacks.tp_aware import _contents, _requests, attack
from dbanon.base import cores
from dbanon.base.errors import DataError
from tests.unit.attack_evidence import PARAMS, World, add, make_trajectories, put, take
from tests.unit.test_attack_tp_aware_guests import ALONE as GUESTS_ALONE

# Seven instants make windows of three, three and one. Trajectory ids are neither in the order of subjects nor of time.
A, B, C, D = 900_017, 900_005, 900_011, 900_003
GROUPS = {0: [(A, [0, 1, 2, 3]), (B, [4, 5, 6])], 2: [(C, [0, 1, 2]), (D, [3, 4, 5, 6, 7])]}
REQUESTS = [
    (0, 3.0, 1),
    (2, 59.9, 1),
    (1, 10.0, 2),
    (4, 60.0, 0),
    (0, 200.0, 1),  # in the suppressed window
    (5, 365.0, 2),
    (-1, 3.0, 0),  # sent by someone without a trajectory
    (3, -1.0, 0),  # before the first instant
    (3, 420.0, 0),  # after the last one
    (3, math.inf, 0),
]


def make_scene(align: str = "last", **params: object) -> World:
    rng = np.random.default_rng(7)
    when = {s: [0, 1, 2, 6] for s in range(7)} | {0: range(7), 7: [1, 6]}
    if align != "exact":
        when[3] = [0, 2, 6]  # bridged by the fix before, or by both
    at = {s: [(60.0 * i + 4.9 * rng.random(), *rng.uniform(-90, 40, 2)) for i in ticks] for s, ticks in when.items()}
    trips = {700_000 + 10 * (7 - s): (s, fixes) for s, fixes in at.items() if s not in (0, 5)}
    trips[700_091] = (0, at[0][:2])
    trips[700_001] = (0, at[0][2:])
    noise = [(t + 0.05, x + 31, y - 17) for t, x, y in at[5][::2]]
    trips[700_022], trips[700_023] = (5, at[5]), (5, noise)  # in the same slots, and the later fix counts
    gap = 120 if align == "linear" else 60
    return World(trips, PARAMS | {"align": align, "max_gap_s": gap, "start": 0} | params)


def make_honest(align: str = "last", **params: object) -> Evidence:
    return make_scene(align, **params).make_evidence(GROUPS, REQUESTS)


def find_broken(evidence: Evidence) -> set[str]:
    verdict = attack(evidence)
    assert verdict.passed == all(clause.passed for clause in verdict.clauses)
    assert all(clause.passed == (clause.violations == 0) for clause in verdict.clauses)
    json.dumps(dict(verdict.figures), allow_nan=False)
    for clause in verdict.clauses:
        assert clause.sentence.endswith(".")
        assert "900" not in clause.sentence
        assert "700" not in clause.sentence
    return {clause.name for clause in verdict.clauses if not clause.passed}


def find_row(evidence: Evidence, record: int, seq: int) -> int:
    return int(np.flatnonzero((evidence.cloak_record == record) & (evidence.cloak_seq == seq))[0])


def find_rows(evidence: Evidence, record: int) -> np.ndarray:
    return np.flatnonzero(evidence.cloak_record == record)


def list_trips(evidence: Evidence, subject: int) -> list[int]:
    return evidence.trajectories.trajectory_id[evidence.trajectories.subject == subject].tolist()


def find_member(evidence: Evidence, record: int, subject: int) -> np.ndarray:
    return (evidence.member_record == record) & np.isin(evidence.member_trajectory, list_trips(evidence, subject))


def raise_crowd(evidence: Evidence, record: int, people: int) -> Evidence:
    where = find_rows(evidence, record)
    return put(put(evidence, "cloak_crowd", where, people), "cloak_subjects", where, people)


def change_suppressed(evidence: Evidence, *path: object, add: float = 0) -> Evidence:
    suppressed = copy.deepcopy(evidence.suppressed)
    inner = suppressed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] += add
    return dataclasses.replace(evidence, suppressed=suppressed)


def change_params(evidence: Evidence, **params: object) -> Evidence:
    return dataclasses.replace(evidence, params=evidence.params | params)


def move_side(evidence: Evidence, side: int, by: float, record: int = A, seq: int = 2) -> Evidence:
    return put(
        evidence, "cloak_bounds", (find_row(evidence, record, seq), side), by + read_bound(evidence, side, record, seq)
    )


def read_bound(evidence: Evidence, side: int, record: int = A, seq: int = 2) -> float:
    return float(evidence.cloak_bounds[find_row(evidence, record, seq), side])


def widen_record(evidence: Evidence, record: int) -> Evidence:
    where = find_rows(evidence, record)
    return put(evidence, "cloak_bounds", where, [-500.0, -500.0, 500.0, 500.0])


def drop_member(evidence: Evidence, record: int, subject: int, people: int) -> Evidence:
    """Drop a member and make all numbers fit."""
    fewer = take(evidence, "member", ~find_member(evidence, record, subject))
    return raise_published(raise_crowd(fewer, record, people), -1)


def raise_published(evidence: Evidence, more: int) -> Evidence:
    """Say that more were published in the first window, and in its hour."""
    return change_suppressed(
        change_suppressed(evidence, "windows", 0, "published", add=more), "by_hour", 0, "published", add=more
    )


def add_guest(evidence: Evidence, record: int, subject: int, people: int) -> Evidence:
    grown = widen_record(raise_crowd(evidence, record, people), record)
    for trip in list_trips(evidence, subject):
        grown = add(grown, "member", record, trip, True)
    return grown


def drop_window(evidence: Evidence) -> Evidence:
    windows = evidence.suppressed["windows"][:-1]
    return dataclasses.replace(evidence, suppressed=evidence.suppressed | {"windows": windows})


def find_requests(evidence: Evidence, record: int, seq: int) -> np.ndarray:
    where = (evidence.published_request_record == record) & (evidence.published_request_seq == seq)
    return np.flatnonzero(where)


def reorder_requests(evidence: Evidence) -> Evidence:
    order = np.arange(len(evidence.published_request_seq))
    where = find_requests(evidence, A, 1)
    order[where] = where[::-1]
    return take(evidence, "published_request", order)


# Each mutant and the clause that it breaks alone.
ALONE = {
    "a shortened period": ("period", lambda e: put(e, "cloak_end_s", find_row(e, A, 2), 115.0)),
    "a period that begins earlier": ("period", lambda e: put(e, "cloak_start_s", find_row(e, A, 2), 55.0)),
    "a shifted first period": (
        "period",
        lambda e: put(put(e, "cloak_start_s", find_row(e, A, 1), 5.0), "cloak_end_s", find_row(e, A, 1), 65.0),
    ),
    "an infinite period": ("period", lambda e: put(e, "cloak_end_s", find_row(e, A, 3), math.inf)),
    "a NaN period": ("period", lambda e: put(e, "cloak_start_s", find_row(e, A, 3), math.nan)),
    "a missing row": ("period", lambda e: take(e, "cloak", np.arange(len(e.cloak_seq)) != find_row(e, A, 3))),
    "a row twice": ("period", lambda e: take(e, "cloak", np.append(np.arange(len(e.cloak_seq)), find_row(e, A, 2)))),
    "a wrong seq": ("period", lambda e: put(e, "cloak_seq", find_row(e, A, 3), 4)),
    "no rectangle": ("region", lambda e: put(e, "cloak_rectangle", 4, False)),
    "another srid": ("region", lambda e: put(e, "cloak_srid", 4, 4326)),
    "a side off the grid": ("region", lambda e: move_side(e, 0, -5.0)),
    "a side off the grid by a millimetre": ("region", lambda e: move_side(e, 3, 0.001)),
    "an infinite side": ("region", lambda e: put(e, "cloak_bounds", (2, 2), math.inf)),
    "k above a group": ("size", lambda e: change_params(e, k=4)),
    "crowd + 1": ("crowd", lambda e: put(e, "cloak_crowd", 3, e.cloak_crowd[3] + 1)),
    "crowd - 1": ("crowd", lambda e: put(e, "cloak_crowd", 3, e.cloak_crowd[3] - 1)),
    "subjects + 1": ("crowd", lambda e: put(e, "cloak_subjects", 3, e.cloak_subjects[3] + 1)),
    "trajectories counted as people": ("crowd", lambda e: raise_crowd(e, B, 4)),
    "a member of two bundles": ("once", lambda e: add_guest(e, A, 6, 5)),
    "a partial membership": ("members", lambda e: put(e, "member_whole", 2, False)),
    "a membership twice": ("members", lambda e: add(e, "member", A, e.member_trajectory[0], True)),
    "an unknown trajectory": ("members", lambda e: add(e, "member", A, 700_555, True)),
    "a member of no record": ("members", lambda e: add(e, "member", 900_099, e.member_trajectory[0], True)),
    "a trajectory not listed": (
        "members",
        lambda e: take(e, "member", ~((e.member_record == A) & (e.member_trajectory == 700_001))),
    ),
    "a cloak one cell past a member": (
        "covers",
        lambda e: move_side(move_side(e, 0, 10.0), 2, 10.0),
    ),
    "a cloak one cell short of a member in the east": ("covers", lambda e: move_side(e, 2, -10.0)),
    "a cloak one cell short of a member in y": ("covers", lambda e: move_side(e, 3, -10.0)),
    "a cloak one cell short of a member in the last row": ("covers", lambda e: move_side(e, 1, 10.0, record=D, seq=1)),
    "a member absent at an instant": (
        "presence",
        lambda e: raise_published(add_guest(e, B, 7, 4), 1),
    ),
    "someone left out": ("complete", lambda e: drop_member(e, A, 3, 3)),
    "one more seen by hour": ("left-out", lambda e: change_suppressed(e, "by_hour", 0, "seen", add=1)),
    "a reason by hour": ("left-out", lambda e: change_suppressed(e, "by_hour", 0, "left_out", "window_below_k", add=1)),
    "one more seen": ("left-out", lambda e: change_suppressed(e, "windows", 1, "seen", add=1)),
    "one fewer present": ("left-out", lambda e: change_suppressed(e, "windows", 1, "present", add=-1)),
    "one more published": ("left-out", lambda e: change_suppressed(e, "windows", 2, "published", add=1)),
    "fewer instants": ("left-out", lambda e: change_suppressed(e, "windows", 2, "instants", add=1)),
    "one fewer absent": ("left-out", lambda e: change_suppressed(e, "subjects", "absent_at_some_instant", add=-1)),
    "one more below k": ("left-out", lambda e: change_suppressed(e, "subjects", "window_below_k", add=1)),
    "one fewer request left out": (
        "left-out",
        lambda e: change_suppressed(e, "requests", "sender_not_published", add=-1),
    ),
    "a window unsaid": ("left-out", drop_window),
    "an invented request": ("requests-sent", lambda e: add(e, "published_request", A, 1, 5)),
    "a request of another bundle": ("requests-sent", lambda e: add(e, "published_request", B, 1, 1)),
    "a request of no row": ("requests-sent", lambda e: add(e, "published_request", 900_099, 1, 1)),
    "a request twice": ("requests-set", lambda e: add(e, "published_request", A, 1, 2)),
    "requests in another order": ("requests-set", reorder_requests),
    "a request missing": (
        "requests-complete",
        lambda e: take(e, "published_request", np.arange(1, len(e.published_request_seq))),
    ),
    "another column": ("columns", lambda e: put(e, "cloak_other_keys", 1, 1)),
    "k of one": ("decidable", lambda e: change_params(e, k=1)),
}

# With min_contents 2, of the instants {1}, {2, 0}, {} of A two are one row; B has no requests, D too few in all.
JOINED = [(0, 3.0, 1), (1, 70.0, 2), (2, 71.0, 0), (5, 365.0, 2), (-1, 3.0, 0), (3, -1.0, 0)]


def make_joined(align: str = "last") -> Evidence:
    return make_scene(align, min_contents=2).make_evidence(GROUPS, JOINED)


def cut(evidence: Evidence) -> Evidence:
    """Store the joined row of A as the two it is made of, each with the requests sent in it."""
    at = find_row(evidence, A, 1)
    twice = take(evidence, "cloak", np.insert(np.arange(len(evidence.cloak_seq)), at, at))
    for column, value in (("cloak_end_s", [60.0, 120.0]), ("cloak_start_s", [0.0, 60.0]), ("cloak_seq", [1, 2])):
        twice = put(twice, column, slice(at, at + 2), value)
    twice = put(twice, "cloak_seq", at + 2, 3)
    return put(twice, "published_request_seq", find_requests(evidence, A, 1)[[0, 2]], 2)


def merge_rows(evidence: Evidence) -> Evidence:
    """Store the first two rows of B as one."""
    first, second = find_row(evidence, B, 1), find_row(evidence, B, 2)
    one = put(put(widen_record(evidence, B), "cloak_end_s", first, 120.0), "cloak_seq", find_row(evidence, B, 3), 2)
    return take(one, "cloak", np.arange(len(evidence.cloak_seq)) != second)


def drop_row(evidence: Evidence, seq: int) -> Evidence:
    """Drop a row of B and number the others anew."""
    fewer = take(evidence, "cloak", np.arange(len(evidence.cloak_seq)) != find_row(evidence, B, seq))
    return put(fewer, "cloak_seq", find_rows(fewer, B), [1, 2])


def count_as_another(evidence: Evidence) -> Evidence:
    fewer = change_suppressed(evidence, "requests", "bundle_below_min_contents", add=-1)
    return change_suppressed(fewer, "requests", "sender_not_published", add=1)


ALONE_JOINED = {
    "a gap": ("period", lambda e: drop_row(e, 2)),
    "no first instant": ("period", lambda e: drop_row(e, 1)),
    "no last instant": ("period", lambda e: drop_row(e, 3)),
    "an overlap": ("period", lambda e: put(e, "cloak_end_s", find_row(e, B, 1), 120.0)),
    "a row past the window": ("period", lambda e: put(e, "cloak_end_s", find_row(e, B, 3), 240.0)),
    "a row of half an instant": (
        "period",
        lambda e: put(put(e, "cloak_end_s", find_row(e, B, 1), 90.0), "cloak_start_s", find_row(e, B, 2), 90.0),
    ),
    "rows of no and two instants": (
        "period",
        lambda e: put(put(e, "cloak_end_s", find_row(e, B, 1), 0.0), "cloak_start_s", find_row(e, B, 2), 0.0),
    ),
    "a cloak of the first instant alone": ("covers", lambda e: mask_row(e, 0)),
    "a cloak of the last instant alone": ("covers", lambda e: mask_row(e, 60)),
    "a joined row taken apart": ("requests-few", cut),
    "the one request of a bundle with too few": ("requests-few", lambda e: add(e, "published_request", D, 1, 2)),
    "a request of a joined row missing": (
        "requests-complete",
        lambda e: take(e, "published_request", np.arange(1, len(e.published_request_seq))),
    ),
    "all requests of a bundle with enough missing": (
        "requests-complete",
        lambda e: take(e, "published_request", slice(0)),
    ),
    "requests of another row": (
        "requests-sent",
        lambda e: add(add(e, "published_request", A, 2, 0), "published_request", A, 2, 1),
    ),
    "one fewer lost by a bundle with too few": (
        "left-out",
        lambda e: change_suppressed(e, "requests", "bundle_below_min_contents", add=-1),
    ),
    "those of a bundle with too few counted as another": ("left-out", count_as_another),
}


CAUGHT_ALONE = {clause for clause, _ in (*ALONE.values(), *ALONE_JOINED.values(), *GUESTS_ALONE.values())} | {"guests"}


def mask_row(evidence: Evidence, t: int) -> Evidence:
    box = make_scene(evidence.params["align"]).box([0, 1, 2, 3], t)
    return put(evidence, "cloak_bounds", find_row(evidence, A, 1), box)


@pytest.mark.many
@pytest.mark.parametrize("align", ["last", "exact", "linear"])
@pytest.mark.parametrize("name", ALONE_JOINED)
def test_a_mutant_of_joined_rows_breaks_its_clause_and_no_other(name, align):
    clause, mutate = ALONE_JOINED[name]
    assert find_broken(make_joined(align)) == set()
    assert find_broken(mutate(make_joined(align))) == {clause}


def test_rows_may_be_joined_only_with_min_contents():
    assert find_broken(merge_rows(make_joined())) == set()
    assert find_broken(merge_rows(make_honest())) >= {"period"}
    unasked = make_scene().make_evidence(GROUPS, [])
    assert find_broken(merge_rows(unasked)) == {"period"}
    assert find_broken(change_params(merge_rows(unasked), min_contents=2)) == set()


def test_joined_rows_without_any_request_left_out_must_say_so():
    requests = {"sender_not_published": 2, "outside_windows": 0}
    told = dataclasses.replace(make_joined(), suppressed=make_joined().suppressed | {"requests": requests})
    assert find_broken(told) == {"left-out"}


def test_contents_that_few_subjects_sent_are_counted():
    people, groups = range(9), {0: [(1, [0, 1, 2]), (2, [3, 4, 5]), (3, [6, 7, 8])]}
    groups |= {1: [(4, [0, 1, 3]), (5, [2, 4, 6]), (6, [5, 7, 8])]}
    world = World({i: (i, [(0.0, i, 0.0), (60.0, i, 0.0)]) for i in people}, PARAMS | {"instants": 1, "start": 0})
    one, two, three, wide, elsewhere, unpublished = range(6)
    sent = [(0, 0.0, one), (0, 60.0, one), (0, 0.0, two), (1, 60.0, two), (3, 0.0, three), (4, 0.0, three)]
    sent += [(5, 0.0, three), *((i, t, wide) for i in people for t in (0.0, 60.0))]
    sent += [(0, 0.0, elsewhere), (5, 60.0, elsewhere), (-1, 0.0, unpublished)]
    figures = attack(world.make_evidence(groups, sent)).figures
    assert figures["requests_of_one_subject"] == 1
    assert figures["requests_of_few_subjects"] == 3  # one, two, elsewhere
    assert figures["requests_of_few_over_windows"] == 0  # two windows are no series


def test_a_run_whose_phrase_one_person_sends_in_four_of_five_windows_says_so():
    rng, people, count = np.random.default_rng(3), range(60), itertools.count(1)
    world = World(
        {i: (i, [(60.0 * w, i, 0.0) for w in range(5)]) for i in people}, PARAMS | {"instants": 1, "start": 0}
    )
    drawn = [rng.permutation(60).reshape(-1, 5).tolist() for _ in range(5)]
    groups = {w: [(next(count), sorted(group)) for group in drawn[w]] for w in range(5)}
    sent = [(0, 60.0 * w, 0) for w in (0, 1, 3, 4)] + [(41, 120.0, 0)]
    figures = attack(world.make_evidence(groups, sent)).figures
    assert figures["requests_of_few_over_windows"] == 1
    assert figures["few_over_windows_windows"] == 5
    met = [sum(any(person in group and sender in group for group in drawn[int(t) // 60]) for sender, t, _ in sent)
           for person in people]  # fmt: skip
    assert figures["few_over_windows_greatest"] == max(met) >= 4
    assert figures["few_over_windows_people"] == met.count(max(met))


class Drawn:
    """Groups of five of 60 people, or 200, drawn anew in each of some windows, and who sends a phrase when."""

    def __init__(self, people: int, windows: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.groups = rng, [rng.permutation(people).reshape(-1, 5) for _ in range(windows)]
        self.window = np.repeat(np.arange(windows), people // 5)

    def find_front(self, senders: list[tuple[int, int]]) -> list[_contents.Front]:
        record = [w * len(self.groups[0]) + int(np.argwhere(self.groups[w] == p)[0, 0]) for w, p in senders]
        members = np.concatenate(self.groups)
        return _contents.find_fronts(
            np.zeros(len(record), np.int64), np.array(record), self.window,
            np.repeat(np.arange(len(members)), 5), members.ravel(), k=5,
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("people", "windows", "own", "others"),
    [
        (60, 5, [0, 1, 2, 3, 4], []),
        (60, 5, [0, 1, 3, 4], [2]),
        (60, 16, [*range(0, 16, 2)], []),
        (60, 16, [*range(0, 16, 2)], [5]),
        (60, 16, [*range(0, 16, 2)], [*range(1, 16, 2)]),
        (200, 16, [*range(0, 16, 2)], 4 * [*range(1, 16, 2)] + [*range(0, 16, 2)]),
    ],
    ids=["alone", "another once instead", "alone, 8 nights", "another once", "another each night", "five each night"],
)
def test_a_person_that_sends_a_phrase_again_and_again_is_in_front_whoever_else_does(people, windows, own, others, seed):
    drawn = Drawn(people, windows, seed)
    [front] = drawn.find_front([(w, 0) for w in own] + [(w, int(drawn.rng.integers(1, people))) for w in others])
    assert front.greatest >= len(own)
    assert front.people < 5


def test_nobody_is_in_front_of_a_phrase_that_other_people_send_each_time():
    """Of 300 series of senders at random, in 5 to 30 groups of 60 people, one in 100 at most may count."""
    few = 0
    for seed in range(300):
        drawn = Drawn(60, 12, seed)
        few += len(drawn.find_front([tuple(drawn.rng.integers((12, 60)).tolist()) for _ in range(5 + seed % 26)]))
    assert few <= 3


def test_neighbours_that_are_mostly_with_the_sender_do_not_hide_it():
    """Five neighbours miss one of five windows each: six people reach the greatest number, less one."""
    drawn = Drawn(60, 5, 1)
    for w, groups in enumerate(drawn.groups):
        beside = [0, *(person for person in range(1, 6) if person != w + 1)]
        drawn.groups[w] = np.array([*beside, *np.setdiff1d(groups, beside)]).reshape(-1, 5)
    [front] = drawn.find_front([(w, 0) for w in range(5)])
    assert (front.greatest, front.people) == (5, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 20, 1 << 22]))
def test_people_in_front_are_those_of_plain_sets_and_chance_is_no_less_than_drawing_finds(seed, elements):
    rng = np.random.default_rng(seed)
    window, k = np.repeat(np.arange(4), 4), 3
    groups = []
    for _ in range(4):
        parts = rng.integers(0, 4, 12)  # whom each of 12 people is with in this window
        groups += [set(np.flatnonzero(parts == part).tolist()) for part in range(4)]
    shown = {(int(c), int(r)) for c, r in zip(rng.integers(0, 5, 14), rng.integers(0, len(window), 14), strict=True)}
    expected = []
    for content in sorted({c for c, _ in shown}):
        asking = {
            w: set().union(*(groups[r] for c, r in shown if c == content and window[r] == w))
            for w in {int(window[r]) for c, r in shown if c == content}
        }
        met = [sum(person in people for people in asking.values()) for person in range(12)]
        ahead = met.count(max(met))
        if len(asking) >= 3 and max(met) > 0 and ahead < k:
            expected.append((len(asking), max(met), ahead, [len(people) for people in asking.values()]))
    members = np.array([(r, s) for r, group in enumerate(groups) for s in sorted(group)])
    members = members[rng.permutation(len(members))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_contents, "_MEMBERS_PER_PART", elements)
        patch.setattr(_contents, "_MAX_CHANCE", math.inf)
        content, record = np.array(sorted(shown)).T
        fronts = _contents.find_fronts(content, record, window, *members.T, k=k)
    assert [front[1:] for front in fronts] == [one[:3] for one in expected]
    for front, (windows, greatest, _, sizes) in zip(fronts, expected, strict=True):
        if greatest > sum(sizes) / 12 + 1:  # below that the bound is not asked for
            drawn = (rng.random((400, windows, 12)).argsort(axis=2) < np.array(sizes)[:, None]).sum(axis=1)
            assert (drawn >= greatest).any(axis=1).mean() < front.chance + 4 * math.sqrt(front.chance / 400) + 0.01


# Mutants that break several clauses, and one of them.
REFUSED = {
    "a member gone": ("crowd", lambda e: take(e, "member", ~find_member(e, A, 3))),
    "no members": ("members", lambda e: take(e, "member", e.member_record != A)),
    "two people by three trajectories": ("size", lambda e: drop_member(e, B, 6, 2)),
    "a record gone": (
        "complete",
        lambda e: take(take(e, "cloak", e.cloak_record != A), "member", e.member_record != A),
    ),
    "a NaN bound": ("region", lambda e: put(e, "cloak_bounds", (3, 0), math.nan)),
    "a NaN bound holds nobody": ("covers", lambda e: put(e, "cloak_bounds", (3, 0), math.nan)),
    "no area": ("region", lambda e: move_side(e, 2, read_bound(e, 0) - read_bound(e, 2))),
    "swapped corners": ("region", lambda e: put(e, "cloak_bounds", 2, e.cloak_bounds[2][[2, 3, 0, 1]])),
    "requests of two records swapped": (
        "requests-sent",
        lambda e: put(e, "published_request_record", slice(None), np.where(e.published_request_record == A, B, A)),
    ),
    "a request one instant later": ("requests-complete", lambda e: put(e, "published_request_seq", 0, 2)),
    "a record in the suppressed window": (
        "presence",
        lambda e: put(
            put(e, "cloak_start_s", find_rows(e, B), e.cloak_start_s[find_rows(e, B)] + 180),
            "cloak_end_s",
            find_rows(e, B),
            e.cloak_end_s[find_rows(e, B)] + 180,
        ),
    ),
    "a record after the data": ("period", lambda e: put(e, "cloak_start_s", find_rows(e, B), 6000.0)),
    "no requests left out said": (
        "left-out",
        lambda e: dataclasses.replace(e, suppressed={n: v for n, v in e.suppressed.items() if n != "requests"}),
    ),
    "another reason": (
        "left-out",
        lambda e: dataclasses.replace(
            e, suppressed=e.suppressed | {"subjects": e.suppressed["subjects"] | {"tiresome": 1}}
        ),
    ),
    "another alignment": ("left-out", lambda e: change_params(e, align="exact")),
    "another cell": ("region", lambda e: change_params(e, min_cloak_m=11)),
}


@pytest.mark.parametrize("align", ["last", "exact", "linear"])
def test_honest_bundles_withstand_the_attack(align):
    verdict = attack(make_honest(align))
    assert verdict.passed, [c.sentence for c in verdict.clauses if not c.passed]
    assert verdict.attack == "tp-aware"
    assert verdict.figures["windows"] == 3
    assert verdict.figures["windows_published"] == 2
    assert verdict.figures["smallest_crowd"] == 3
    assert verdict.figures["members"] == 15  # people, once for each window
    assert (verdict.figures["subjects"], verdict.figures["published"]) == (8, 8)
    assert verdict.figures["request_contents_published"] == 4


@pytest.mark.parametrize("params", [{"start": "0"}, {"start": 0}, {"min_cloak_m": None}, {"min_cloak_m": 2.5}])
def test_honest_bundles_with_other_parameters_withstand_the_attack(params):
    assert attack(make_honest(**params)).passed


def test_a_start_in_iso_8601_is_understood():
    for start in ("1970-01-01", "1970-01-01T00:00:00Z", "1970-01-01T02:00:00+02:00"):
        assert attack(change_params(make_honest(), start=start)).passed


def test_fixes_before_the_start_serve_as_earlier_fixes():
    world = World({i: (i, [(0.0, 10.0 * i, 0.0), (100.0, 5.0, 5.0)]) for i in range(3)}, PARAMS | {"start": 60})
    assert world.windows == [[60]]
    assert attack(world.make_evidence({0: [(1, [0, 1, 2])]})).passed


def test_by_default_instants_begin_max_gap_s_late_or_where_the_data_end_first_with_them():
    for params, first in (({}, 120), ({"max_gap_s": 101}, 120), ({"max_gap_s": 900}, 0), ({"align": "linear"}, 0)):
        trips = {i: (i, [(7.0, 1.0 * i, 1.0), (67.0, 1.0, 1.0), (127.0, 5.0, 5.0)]) for i in range(3)}
        world = World(trips, PARAMS | {"instants": 1, "max_gap_s": 70} | params)
        present = {at: [(at + 1, [0, 1, 2])] for at, window in enumerate(world.windows) if world.present(window)}
        assert world.start == first
        assert find_broken(world.make_evidence(present)) == set()
        assert find_broken(change_params(world.make_evidence(present), start=first)) == set()


@pytest.mark.parametrize("name", ALONE)
def test_a_mutant_breaks_its_clause_and_no_other(name, seed, pytestconfig):
    """Each with an alignment that the seed chooses; with --all, each with all."""
    clause, mutate = ALONE[name]
    aligns = ["last", "exact", "linear"]
    for align in aligns if pytestconfig.getoption("--all") else [aligns[(seed + len(name)) % 3]]:
        assert find_broken(mutate(make_honest(align))) == {clause}, align


@pytest.mark.parametrize("name", REFUSED)
def test_a_mutant_of_several_clauses_is_refused(name):
    clause, mutate = REFUSED[name]
    assert clause in find_broken(mutate(make_honest()))


def test_every_clause_has_a_mutant_of_its_own():
    assert {clause.name for clause in attack(make_honest()).clauses} == CAUGHT_ALONE


def renumber_records(evidence: Evidence) -> Evidence:
    for column in ("cloak_record", "member_record", "published_request_record"):
        evidence = put(evidence, column, slice(None), 1_000_000 - getattr(evidence, column))
    return evidence


def shuffle_requests(evidence: Evidence) -> Evidence:
    rng = np.random.default_rng(3)
    for table, column in (("cloak", "seq"), ("member", "whole"), ("request", "t")):
        evidence = take(evidence, table, rng.permutation(len(getattr(evidence, f"{table}_{column}"))))
    return take(evidence, "published_request", np.argsort(evidence.published_request_record, kind="stable")[::1])


HARMLESS = {
    "a cloak grown by a cell": lambda e: move_side(e, 2, 10.0),
    "a cloak grown by a cell on the other side": lambda e: move_side(e, 1, -10.0),
    "records renumbered": renumber_records,
    "rows in another order": shuffle_requests,
    "a bound off by rounding": lambda e: move_side(e, 0, 1e-9),
    "a further trajectory of a member": lambda e: add(e, "member", C, 700_091, True),
    "counts as JSON floats": lambda e: change_suppressed(e, "windows", 0, "seen", add=0.0),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change_passes(name):
    assert find_broken(HARMLESS[name](make_honest())) == set()


def test_a_window_without_anybody_may_be_listed_or_not():
    world = World(
        {i: (i, [(0.0, 1.0, 1.0), (600.0, 5.0, 5.0)]) for i in range(3)}, PARAMS | {"instants": 1, "start": 0}
    )
    evidence = world.make_evidence({0: [(1, [0, 1, 2])], 1: [(2, [0, 1, 2])], 10: [(3, [2, 1, 0])]})
    assert len(evidence.suppressed["windows"]) == 11
    assert attack(evidence).passed
    told = [window for window in evidence.suppressed["windows"] if window["seen"]]
    assert attack(dataclasses.replace(evidence, suppressed=evidence.suppressed | {"windows": told})).passed


ABSURD_PARAMS = [
    *({"k": k} for k in (1, 0, -3, True, "3", 3.5, None, math.nan, [3])),
    *({"step_s": step} for step in (0, 7, -60, "60", math.inf)),
    *({"instants": n} for n in (0, None, 1.5)),
    *({"align": align} for align in ("best", None, ["last"])),
    *({"max_gap_s": gap} for gap in (-1, None, math.nan)),
    *({"cloak": cloak} for cloak in ("circle", None)),
    *({"min_contents": least} for least in (0, -1, None, 1.5, True, "2")),
    *({"min_cloak_m": side} for side in (math.nan, -1, "9", math.inf, True)),
    *(
        {"start": start}
        for start in ("yesterday", 3, "nan", math.inf, "1e300", 10**400, 10**9, -(10**11), [0], True, 0.5)
    ),
]


@pytest.mark.parametrize("params", ABSURD_PARAMS)
def test_absurd_parameters_are_refused_as_undecidable(params):
    assert find_broken(
        change_params(make_honest(), **params) if params != {"start": -(10**11)} else begin_absurdly_early()
    ) == {"decidable"}


def begin_absurdly_early() -> Evidence:
    return change_params(make_honest(), start=-(10**11), instants=1)


@pytest.mark.parametrize("name", PARAMS)
def test_a_parameter_not_stored_is_refused(name):
    evidence = make_honest()
    params = {n: v for n, v in evidence.params.items() if n != name}
    assert find_broken(dataclasses.replace(evidence, params=params)) == {"decidable"}


@pytest.mark.parametrize(
    "suppressed",
    [
        {},
        None,
        [],
        {"subjects": {}},
        {"subjects": [], "windows": []},
        {"subjects": {}, "windows": {}},
        {"subjects": {"window_below_k": -1}, "windows": []},
        {"subjects": {"window_below_k": "1"}, "windows": []},
        {"subjects": {}, "windows": [5]},
        {"subjects": {}, "windows": [{}]},
        {"subjects": {}, "windows": [{"start": 5, "instants": 3, "seen": 1, "present": 1, "published": 1}]},
        {"subjects": {}, "windows": [{"start": 0, "instants": 3, "seen": math.nan, "present": 1, "published": 1}]},
        {"subjects": {}, "windows": 2 * [{"start": 0, "instants": 3, "seen": 1, "present": 1, "published": 1}]},
        {"subjects": {}, "windows": [], "requests": 3},
        {"subjects": {}, "windows": [], "by_hour": {}},
        {"subjects": {}, "windows": [], "by_hour": [{"hour": 0, "seen": 0, "published": 0, "left_out": {}}]},
        {"subjects": {}, "windows": [], "by_hour": [{"hour": "1970-01-01T00:00Z", "seen": 0, "published": 0}]},
        {"subjects": {}, "windows": [], "by_hour": 2 * [{"hour": "x", "seen": 0, "published": 0, "left_out": {}}]},
    ],
)
def test_malformed_counts_of_what_was_left_out_are_refused(suppressed):
    assert find_broken(dataclasses.replace(make_honest(), suppressed=suppressed)) == {"decidable"}


def test_nothing_to_attack_is_refused():
    assert find_broken(take(make_honest(), "cloak", slice(0))) == {"decidable"}
    assert find_broken(dataclasses.replace(make_honest(), trajectories=make_trajectories({}))) == {"decidable"}


def test_a_record_without_rows_is_refused():
    evidence = make_honest()
    more = {"record_id": np.append(evidence.record_id, 999), "offset": np.append(evidence.offset, evidence.offset[-1])}
    assert find_broken(dataclasses.replace(evidence, **more)) == {"decidable"}


def test_times_that_cannot_be_unix_seconds_are_refused():
    data = make_trajectories({1: (0, [(1e300, 0.0, 0.0)])})
    assert find_broken(dataclasses.replace(make_honest(), trajectories=data)) == {"decidable"}


def test_evidence_is_read_only_and_of_one_length():
    evidence = make_honest()
    with pytest.raises(ValueError, match="read-only"):
        evidence.region_crowd[0] = 1
    with pytest.raises(DataError, match="one length"):
        dataclasses.replace(evidence, region_srid=evidence.region_srid[:-1])
    for field in ("period", "place", "offset"):
        with pytest.raises(DataError, match="defect of the read"):
            dataclasses.replace(evidence, **{field: getattr(evidence, field)[:-1]})


# Against the plain adversary of attack_evidence, on random data.


@st.composite
def worlds(draw) -> tuple[World, dict]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    people, ticks = draw(st.integers(3, 8)), draw(st.integers(1, 9))
    trips = {}
    for subject in range(people):
        trip = rng.permutation(3)
        for part in range(rng.integers(1, 4)):
            t = np.unique(rng.choice(np.arange(-20.0, 30.0 * ticks, 2.5), rng.integers(1, 3 * ticks + 2)))
            fixes = [(float(at), *rng.uniform(-20, 20, 2)) for at in t]
            trips[100 * int(trip[part]) + 7 * (people - subject)] = (subject, fixes)
    params = {"k": 2, "step_s": 30, "instants": draw(st.integers(1, 4)), "cloak": "mbr", "guests": False}
    params |= {"align": draw(st.sampled_from(["last", "exact", "linear"])), "max_gap_s": draw(st.integers(0, 70))}
    params |= {"start": draw(st.sampled_from([None, 0, -60])), "min_cloak_m": draw(st.sampled_from([None, 3.0]))}
    params |= {"since": None if params["start"] == -60 else draw(st.sampled_from([None, None, -5, 0]))}
    params |= {
        "until": draw(st.sampled_from([None, None, 60, 95])),
        "min_contents": draw(st.sampled_from([1, 1, 2, 3])),
    }
    return World(trips, params), rng


def draw_bundles(world: World, rng: np.random.Generator) -> dict:
    groups, record = {}, 1
    for number, window in enumerate(world.windows):
        present = rng.permutation(world.present(window)).tolist()
        while len(present) >= 2:
            size = int(rng.integers(2, 4)) if len(present) >= 5 else len(present)
            groups.setdefault(number, []).append((record, present[:size]))
            present, record = present[size:], record + 1
    return groups


@settings(max_examples=60)
@given(worlds())
def test_random_bundles_pass_and_a_group_of_k_without_a_member_is_refused(drawn):
    world, rng = drawn
    groups = draw_bundles(world, rng) if world.windows else {}
    if not groups:
        return
    senders = [int(s) for s in rng.integers(-1, len(world.fixes), 6)]
    requests = [(s, float(rng.uniform(-40, 280)), int(rng.integers(3))) for s in senders]
    assert find_broken(world.make_evidence(groups, requests)) == set()
    for number, records in groups.items():
        for place, (record, subjects) in enumerate(records):
            for gone in subjects if len(subjects) == 2 else ():
                fewer = copy.deepcopy(groups)
                fewer[number][place] = (record, [s for s in subjects if s != gone])
                assert {"size", "complete"} <= find_broken(world.make_evidence(fewer, requests))


@settings(max_examples=60)
@given(worlds(), st.sampled_from([1, 7, 1 << 17]))
def test_a_replay_agrees_with_the_plain_one_whatever_the_batches(drawn, elements):
    world, _ = drawn
    if not world.windows:
        return
    step, length = world.params["step_s"] // 5, min(world.params["instants"], len(world.instants))
    timetable = Timetable(grid_s=5, first=world.start // 5, step=step, count=len(world.instants), length=length)
    until, found = world.params["until"], {}
    data = select_slots(world.data, None, None if until is None else until // 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared.replay, "FIXES_PER_BATCH", elements)
        for sighting in replay(data, timetable, world.params["align"], world.params["max_gap_s"]):
            for pair, column in zip(*np.nonzero(sighting.there), strict=True):
                key = (int(sighting.subject[pair]), int(sighting.window[pair] * length + column))
                assert key not in found
                ends = (sighting.before[pair, column], sighting.after[pair, column])
                ids = {int(data.trajectory_id[end]) for end in ends}
                found[key] = (float(sighting.x[pair, column]), float(sighting.y[pair, column]), ids)
    plain = {(s, i): world.find_position(s, t) for s in world.fixes for i, t in enumerate(world.instants)}
    assert found == {key: at for key, at in plain.items() if at}


@pytest.mark.parametrize("elements", [1, 7, 1 << 17])
def test_one_thread_and_three_find_the_same(elements, monkeypatch):
    found = []
    monkeypatch.setattr(shared.replay, "FIXES_PER_BATCH", elements)
    monkeypatch.setattr(_requests, "_REQUESTS_PER_PART", min(elements, 3))
    for threads in (1, 3):
        monkeypatch.setattr(cores, "count_threads", lambda threads=threads: threads)
        honest_ones = [make_honest(align) for align in ("last", "exact", "linear")]
        tampered = [put(evidence, "cloak_bounds", slice(2), 7.0) for evidence in honest_ones]
        fewer = [take(evidence, "member", slice(1, None)) for evidence in honest_ones]
        found.append([attack(evidence) for evidence in (*honest_ones, *tampered, *fewer)])
    assert found[0] == found[1]
    assert [verdict.passed for verdict in found[0]] == [True] * 3 + [False] * 6


def test_numbers_too_large_to_be_one_key_are_compared_all_the_same():
    sent = tuple(np.array(column) for column in ([0, 0, 1], [1, 2, 1], [5, 5, 6]))
    shown = tuple(np.array(column) for column in ([0, 1, 1], [2, 1, 1], [5, 5, 6]))
    huge = (shown[0], shown[1] + np.array([0, 0, 1 << 61]), shown[2])
    for table, same in ((shown, [(1, 0), (2, 2)]), (huge, [(1, 0)]), ((shown[0], shown[1] - 9, shown[2]), [])):
        first, second = _requests._number_keys(sent, table)
        assert list(zip(*np.nonzero(first[:, None] == second), strict=True)) == same
