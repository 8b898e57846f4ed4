"""Names that travel together: copies are counted, strangers are not; and the figure against the same rule in loops."""

import random
from bisect import bisect_right
from dataclasses import replace
from math import hypot

import numpy as np
import pytest

from dbanon.attacks import together
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS, Method
from dbanon.methods.semantic import _partition
from tests.contract.evidence import run, store_cloaks
from tests.unit.test_once import Run
from tests.walkers import COPIES, START_S, STEP_S, UNSEEN, Walk, copy_walks, draw_walk, make_trajectories

FIFTH = 0.2
"""From this share of the names on a publication needs a reason."""


def count(data: Trajectories, groups: list[list[int]], **params: object) -> tuple[int, int]:
    evidence = replace(Run({0: 0}, {}, {}).make_evidence(), trajectories=data, params=params)
    offset, member = np.cumsum([0, *map(len, groups)]), np.concatenate([[], *groups]).astype(np.int64)
    found = together.count_names(evidence, offset, member)
    return found["names_compared"], found["names_together"]


def deal(rng: np.random.Generator, people: int, size: int = 5) -> list[list[int]]:
    """Deal people out to groups, four times; the second names of the first half of them go with their first ones."""
    half = people // 2
    dealt = [np.array_split(rng.permutation(half), half // size) for _ in range(4)]
    return [[*group.tolist(), *(group + half).tolist()] for turn in dealt for group in turn]


@pytest.mark.parametrize("kind", COPIES)
def test_second_names_are_counted_whatever_was_done_to_their_fixes(kind: str) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        walks = copy_walks(rng, [draw_walk(rng) for _ in range(60)], kind)
        compared, found = count(make_trajectories(walks), deal(rng, 120))
        assert compared == 120
        assert found == 0 if kind in UNSEEN else found > 110


def test_few_doubled_people_among_many_are_counted() -> None:
    rng = np.random.default_rng(1)
    walks = [draw_walk(rng) for _ in range(120)]
    for at in range(8):
        walks[60 + at] = COPIES["noise of 3 m"](rng, walks[at])
    assert count(make_trajectories(walks), deal(rng, 120)) == (120, 16)


def test_a_person_with_five_names_is_counted_with_each_of_them() -> None:
    rng = np.random.default_rng(1)
    walks = [draw_walk(rng) for _ in range(20)]
    walks += [COPIES["noise of 3 m"](rng, walks[0]) for _ in range(4)]
    assert count(make_trajectories(walks), [list(range(24))]) == (24, 5)


def test_strangers_who_walk_are_not_counted(cases) -> None:
    for seed in cases(50):
        rng = np.random.default_rng(seed)
        assert count(make_trajectories([draw_walk(rng) for _ in range(60)]), [list(range(60))]) == (60, 0)


def test_strangers_at_the_same_towers_are_not_counted(cases) -> None:
    """Phones: each position is one of twelve, all at the same times, and people stay at one for a while."""
    for seed in cases(20):
        rng = np.random.default_rng(seed)
        towers = rng.uniform(0, 4000, (12, 2))
        stays = np.repeat(rng.integers(12, size=(80, 30)), 4, axis=1)
        walks = [Walk(START_S + 600 * np.arange(120.0), *towers[own].T) for own in stays]
        compared, found = count(make_trajectories(walks), [list(range(80))])
        assert compared > 70
        assert found == 0


def test_people_who_stand_still_or_are_seen_rarely_are_not_compared() -> None:
    rng = np.random.default_rng(0)
    still = Walk(START_S + STEP_S * np.arange(100.0), np.full(100, 5.0), np.full(100, 5.0))
    rare = draw_walk(rng, together.MOVES)
    nobody = Walk(np.array([0.0]), np.array([0.0]), np.array([0.0]))
    assert count(make_trajectories([still, still, rare, rare, nobody]), [[0, 1, 2, 3, 4]]) == (0, 0)
    assert count(make_trajectories([still, still]), []) == (0, 0)


def test_a_family_is_counted_and_far_from_needing_a_reason() -> None:
    rng = np.random.default_rng(3)
    walks = [draw_walk(rng) for _ in range(60)]
    for child in (1, 2, 3):
        walks[child] = walks[0].move(x=rng.normal(0, 5, 120), y=rng.normal(0, 5, 120))
    compared, found = count(make_trajectories(walks), [list(range(60))])
    assert (compared, found) == (60, 4)
    assert found < FIFTH * compared


def test_taxis_that_wait_in_one_rank_and_then_part_are_not_counted() -> None:
    """All day in one rank but for two hours: what is compared are moves, not hours."""
    rng = np.random.default_rng(4)
    walks = []
    for _ in range(40):
        walk, wait = draw_walk(rng), STEP_S * np.arange(1.0, 400)
        jitter = rng.normal(0, 5, (2, len(wait)))
        walks.append(
            Walk(
                np.append(START_S - 400 * STEP_S + wait, walk.t),
                np.append(5.5e5 + jitter[0], walk.x),
                np.append(4.18e6 + jitter[1], walk.y),
            )
        )
    assert count(make_trajectories(walks), [list(range(40))]) == (40, 0)


def test_only_what_the_run_considers_is_looked_at() -> None:
    rng = np.random.default_rng(5)
    first, later = ([draw_walk(rng) for _ in range(people)] for people in (20, 40))
    walks = [
        Walk(*map(np.append, before, after.move(t=120 * STEP_S)))
        for before, after in zip(copy_walks(rng, first, "noise of 3 m"), later, strict=True)
    ]
    middle = START_S + 120 * STEP_S
    data, groups = make_trajectories(walks), [list(range(40))]
    assert count(data, groups, until=middle) == (40, 40)
    assert count(data, groups, since=middle, until=None) == (40, 0)


@pytest.mark.parametrize("copies", [True, False])
def test_in_a_run_too_short_for_twenty_moves_all_that_is_known_of_people_counts(copies: bool) -> None:
    rng = np.random.default_rng(5)
    walks = [draw_walk(rng) for _ in range(20)]
    walks = copy_walks(rng, walks, "noise of 3 m") if copies else [*walks, *(draw_walk(rng) for _ in range(20))]
    short = {"since": START_S, "until": START_S + 10 * STEP_S}
    assert count(make_trajectories(walks), [list(range(40))], **short) == (40, 40 * copies)


@pytest.mark.parametrize(("family", "algorithm"), [(f, a.name) for f in METHODS.values() for a in f.algorithms])
def test_second_names_are_counted_in_the_groups_of_every_family(monkeypatch, family: Method, algorithm: str) -> None:
    monkeypatch.setattr(_partition, "_MOVES_PER_CELL", 50)  # any atoms will do
    rng = np.random.default_rng(7)
    data = make_trajectories(copy_walks(rng, [draw_walk(rng, 40) for _ in range(12)], "noise of 0.3 m"), grid_m=1.0)
    given = {"k": 2} | ({"at": int(START_S)} if family.instant else {})
    cloaks = run(family, algorithm, data, **given)
    evidence = store_cloaks(family, algorithm, family.parse({**family.example, **given}, algorithm), data, cloaks)
    found = together.count_names(evidence, *together.list_groups(evidence))
    assert found["names_together"] >= 12
    assert found["names_together"] >= 0.8 * found["names_compared"]


def test_of_very_many_people_some_are_drawn(monkeypatch) -> None:
    monkeypatch.setattr(together, "_MAX_PEOPLE", 50)
    rng = np.random.default_rng(6)
    walks = copy_walks(rng, [draw_walk(rng, 60) for _ in range(200)], "noise of 3 m")
    compared, found = count(make_trajectories(walks), [[one, one + 200] for one in range(200)])
    assert 40 <= found == compared <= 52
    monkeypatch.setattr(together, "_MAX_MEMBERS", 100)
    compared, found = count(make_trajectories(walks), [list(range(400))])
    assert 60 < compared < 140
    assert 5 < found < compared * 0.45  # a quarter of the second names are drawn with the first


# ---- the same rule in loops ------------------------------------------------------------------------------------------


def judge_plainly(fixes: dict[int, list[tuple[float, float, float]]], groups: list[list[int]]) -> tuple[int, int]:
    """Count who made 16 moves, and who of them made them with somebody of a group."""
    stops = {who: find_stops(sorted(own)) for who, own in fixes.items()}
    pairs = {(a, b) for group in groups for a in group for b in group if a != b}
    met = {who for a, b in pairs if stops[a] and follows(*stops[a], sorted(fixes[b])) for who in (a, b)}
    compared = {who for group in groups if len(group) > 1 for who in group if stops[who]}
    return len(compared), len(met & compared)


def find_stops(own: list[tuple[float, float, float]]) -> tuple[float, list[tuple[float, float, float]]] | None:
    def walk(far: float) -> list[tuple[float, float, float]]:
        at, ends = own[0], []
        for fix in own[1:]:
            if hypot(fix[1] - at[1], fix[2] - at[2]) >= far > 0:
                at = fix
                ends.append(fix)
        return ends[: together.MOVES]

    far, step, found = 0.0, 2.1 * max(abs(f[1] - own[0][1]) + abs(f[2] - own[0][2]) for f in own), None
    for _ in range(24):
        step /= 2
        if len(ends := walk(far + step)) == together.MOVES:
            far, found = far + step, ends
    return (far, found) if found else None


def follows(far: float, stops: list[tuple[float, float, float]], other: list[tuple[float, float, float]]) -> bool:
    known = near = 0
    for t, x, y in stops:
        if not other[0][0] <= t <= other[-1][0]:
            continue
        after = min(bisect_right([fix[0] for fix in other], t), len(other) - 1)
        (s, a, b), (u, c, d) = other[max(after - 1, 0)], other[after]
        share = (t - s) / (u - s) if u > s else 0.0
        known += 1
        near += hypot(a + share * (c - a) - x, b + share * (d - b) - y) <= far / 3
    return known >= 15 and known - near <= 0.1 * known


def test_the_figure_agrees_with_loops(cases) -> None:
    seen = set()
    for case in cases(150):
        rng, dice = np.random.default_rng(case), random.Random(case)
        walks = [draw_walk(rng, dice.randint(18, 44)) for _ in range(4)]
        names = [name for name in COPIES if "degrees" not in name]
        for walk in list(walks):
            copy = COPIES[dice.choice(names)](rng, dice.choice([walk, draw_walk(rng, 40)]))
            walks.append(copy.move(x=rng.normal(0, dice.choice([1, 60, 200]), len(copy.t))))
        whole = make_trajectories([walk for walk in walks if len(walk.t)])
        people = dice.choice([dice.randint(2, len(whole.trajectory_id)), len(whole.trajectory_id)])
        subject = np.arange(len(whole.trajectory_id)) % people  # some have two trajectories, at the same times
        data = replace(
            whole,
            subject=subject,
            t=whole.t + np.repeat(subject * 1e-3 + np.arange(len(subject)) * 1e-6, np.diff(whole.offset)),
        )
        fixes = {who: [] for who in range(people)}
        for at, who in enumerate(subject.tolist()):
            rows = slice(*data.offset[at : at + 2])
            fixes[who] += list(zip(data.t[rows].tolist(), data.x[rows].tolist(), data.y[rows].tolist(), strict=True))
        groups = [dice.sample(range(people), dice.randint(1, people)) for _ in range(dice.randint(1, 3))]
        groups = dice.choice([groups, [[0, 4]] if people > 4 else groups])  # a person and the copy, if it is one
        found = count(data, groups)
        assert found == judge_plainly(fixes, groups), case
        seen.add((found[0] > 0, found[1] > 0, found[0] > found[1]))
    assert seen >= {(True, True, True), (True, True, False), (True, False, True)}
