"""k-merge in windows: each has groups and records of its own, as if there were no other."""

import dataclasses
import random
from collections import defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dbanon.attacks.kte import attack
from dbanon.base.errors import DbanonError, InfeasibleError, ParameterError
from dbanon.methods import METHODS
from dbanon.methods.kte import _blocks, _groups, _k_merge, _rows
from tests.contract.test_methods import is_same
from tests.contract.test_tasks_of_methods import Elsewhere
from tests.facts import demand_named
from tests.unit import small_worlds
from tests.unit.kte_evidence import (
    GRID_M,
    GRID_S,
    draw_world,
    find_broken,
    make_trajectories,
    publish_groups,
    publish_windows,
)

FAMILY = METHODS["kte"]
WINDOW_S = 300


def draw_people(seed, people=14, windows=4, quiet=0.3):
    rng = random.Random(seed)
    world = draw_world(rng, subjects=people, epochs=windows, leak=WINDOW_S // GRID_S, quiet=quiet)
    return world, make_trajectories(world, rng)


def publish(data, seed=1, tasks=None, **params):
    given = {"k": 3, "grid_s": GRID_S, "grid_m": GRID_M, "window_s": WINDOW_S, **params}
    more = {} if tasks is None else {"tasks": tasks}
    return FAMILY.anonymise(data, "k-merge", FAMILY.parse(given, "k-merge"), np.random.default_rng(seed), **more)


def list_records(cloaks, data):
    """Of each record: its rows, and the trajectories and people in it."""
    rows, members = defaultdict(list), defaultdict(set)
    for record, *row in zip(
        cloaks.record_id.tolist(), cloaks.start.tolist(), cloaks.end.tolist(), map(tuple, cloaks.bounds.tolist()),
        cloaks.crowd.tolist(), strict=True,
    ):  # fmt: skip
        rows[record].append(tuple(row))
    for record, path in zip(cloaks.member_record.tolist(), cloaks.member_trajectory.tolist(), strict=True):
        members[record].add(path)
    whose = dict(zip(data.trajectory_id.tolist(), data.subject.tolist(), strict=True))
    return [(tuple(rows[r]), frozenset(members[r]), frozenset(whose[path] for path in members[r])) for r in rows]


@pytest.mark.parametrize("most", [4, 4096], ids=["blocks", "whole"])
@pytest.mark.parametrize("seed", range(4))
def test_a_window_is_published_as_if_there_were_no_other(monkeypatch, seed, most):
    monkeypatch.setattr(_blocks, "MAX_BLOCK_SUBJECTS", most)
    _, data = draw_people(seed)
    together, alone = sorted(map(str, list_records(publish(data), data))), []
    windows = sorted(set((data.t // WINDOW_S).astype(int).tolist()))
    for window in windows:
        cloaks = publish(data, since=window * WINDOW_S, until=(window + 1) * WINDOW_S)
        alone += list_records(cloaks, data)
    assert len(windows) == 4
    assert together == sorted(map(str, alone))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("k", [2, 3, 5])
def test_in_each_window_k_people_have_the_record_that_fits_a_person(seed, k):
    """By brute force: who knows all of a person's samples in a window."""
    world, data = draw_people(seed, people=9, quiet=0.35)
    try:
        cloaks = publish(data, k=k)
    except InfeasibleError:
        assert k == 5
        return
    records, due = list_records(cloaks, data), defaultdict(dict)
    for person, own in world.items():
        for slot, *place in own:
            due[slot * GRID_S // WINDOW_S].setdefault(person, []).append((slot, *place))
    lost = 0
    for window, people in due.items():
        own = [one for one in records if one[0][0][0] // WINDOW_S == window]
        assert all(
            start >= window * WINDOW_S and end <= (window + 1) * WINDOW_S for one in own for start, end, *_ in one[0]
        )
        if len(people) < k:
            lost += len(people)
            assert not own
            continue
        assert len(own) == len(people)  # nobody is left out
        for person, samples in people.items():
            fitting = [one for one in own if all(any(holds(row, sample) for row in one[0]) for sample in samples)]
            mine = [one for one in fitting if person in one[2]]
            assert len(mine) == len(mine[0][2]) >= k
            assert len(set(mine)) == 1
            assert all(any(holds(row, sample) for sample in samples) for row in mine[0][0])
        assert all(len(one[2]) == one[0][0][3] for one in own)
    assert cloaks.suppressed["subjects"] == {"window_below_k": lost}
    assert sum(hour["left_out"]["window_below_k"] for hour in cloaks.suppressed["by_hour"]) == lost
    assert sum(hour["seen"] for hour in cloaks.suppressed["by_hour"]) == sum(map(len, due.values()))


def holds(row, sample):
    (start, end, (x0, y0, x1, y1), _), (slot, x, y) = row, sample
    return start <= slot * GRID_S < end and x0 <= x * GRID_M < x1 and y0 <= y * GRID_M < y1


def test_members_are_the_trajectories_with_samples_in_the_window():
    _, data = draw_people(3)
    for rows, paths, _ in list_records(publish(data), data):
        window = rows[0][0] // WINDOW_S
        for path in paths:
            at = int(np.flatnonzero(data.trajectory_id == path)[0])
            assert window in data.t[data.offset[at] : data.offset[at + 1]] // WINDOW_S


@pytest.mark.parametrize("most", [4, 20, 4096])
def test_windows_are_the_same_whoever_does_the_tasks(monkeypatch, most):
    monkeypatch.setattr(_blocks, "MAX_BLOCK_SUBJECTS", most)
    monkeypatch.setattr(_k_merge, "_SAMPLE_INPUTS_PER_TASK", 100)
    _, data = draw_people(5)
    elsewhere = Elsewhere()
    assert is_same(publish(data), publish(data, tasks=elsewhere))
    assert elsewhere.done > 2


def test_people_come_in_another_order_in_each_window(monkeypatch):
    drawn = []
    kept = _groups.draw_order
    monkeypatch.setattr(_groups, "draw_order", lambda order, rng: drawn.append(kept(order, rng)) or drawn[-1])
    _, data = draw_people(6, windows=6, quiet=0)
    publish(data)
    assert len({tuple(order.tolist()) for order in drawn}) == len(drawn) == 6


# What is asked wrongly.


def test_a_window_longer_than_the_data_is_one_group_of_records():
    _, data = draw_people(7)
    one, whole = publish(data, window_s=86_400), publish(data, window_s=None)
    assert len(one.offset) == len(whole.offset)
    assert len(one.suppressed["by_hour"]) == 1


def test_people_of_one_window_and_windows_of_few_people():
    world = {person: {(5000, person, 0)} for person in range(4)} | {9: {(5010, 1, 1)}}
    world[0] = world[0] | {(5005, 3, 3)}
    data = make_trajectories(world, random.Random(1))
    cloaks = publish(data, k=4)
    assert len(list_records(cloaks, data)) == 4
    assert cloaks.suppressed["subjects"] == {"window_below_k": 2}
    assert cloaks.suppressed["samples"] == {"window_below_k": 2}
    with pytest.raises(InfeasibleError):
        publish(data, k=5)


@pytest.mark.parametrize(
    ("params", "facts"),
    [
        ({"window_s": 30}, ("window_s", "grid_s", "60", "30")),
        ({"window_s": 90}, ("window_s", "grid_s", "60", "90")),
        ({"since": 360}, ("since", "window_s", "300", "360")),
        ({"until": 660}, ("until", "window_s", "300", "660")),
    ],
)
def test_windows_and_bounds_that_do_not_fit_are_refused(params, facts):
    _, data = draw_people(8)
    with pytest.raises(ParameterError) as refused:
        publish(data, **params)
    demand_named(str(refused.value), *facts)


def test_kte_hide_has_no_windows():
    with pytest.raises(DbanonError) as refused:
        FAMILY.parse({"window_s": 1800}, "kte-hide")
    demand_named(str(refused.value), "window_s", "k-merge", "kte-hide")


# What a reader concludes.


@cache
def publish_places(places):
    """What is published of people at one instant, in the run's order."""
    data = small_worlds.make_trajectories([(place,) for place in places])
    params = FAMILY.parse({"k": 2, "grid_m": 1.0, "window_s": 1800}, "k-merge")
    return small_worlds.list_records(FAMILY.anonymise(data, "k-merge", params, np.random.default_rng(0)), len(places))


def test_a_reader_of_one_window_is_at_chance_in_it_and_in_the_next(monkeypatch):
    """All placements of four people in two windows, and all orders of both: the reader knows the first window."""
    monkeypatch.setattr(_rows, "rank_subjects", lambda data, _: np.arange(len(data.subject)))
    monkeypatch.setattr(_groups, "draw_order", lambda order, _: order)
    windows = [
        (places, told)
        for (places,) in ((tuple(p for (p,) in tracks),) for tracks in small_worlds.list_placements(4, [2]))
        for told in small_worlds.publish_in_every_order(publish_places, places)
    ]
    own = [small_worlds.describe_world(places, told) for places, told in windows]
    assert small_worlds.find_greatest(own) == (Fraction(1, 2), 0)
    both = [(first, small_worlds.describe_world(None, then)) for first, _ in own for _, then in windows]
    beyond = (((first, seen), conclusions) for first, (seen, conclusions) in both)
    assert small_worlds.find_greatest(beyond)[0] == Fraction(1, 4)


# What the attack finds.


def publish_plainly(seed=1, k=3, quiet=0.3):
    """Windows of half an hour in which everybody is seen, most in several trajectories."""
    rng = random.Random(seed)
    world = draw_world(rng, subjects=11, epochs=4, leak=30, quiet=quiet, most=6)
    return publish_windows(world, rng, k=k, window_s=1800)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_right_windows_pass(seed, k):
    release = publish_plainly(seed, k, quiet=0.4)
    assert find_broken(release) == set()
    figures = attack(release.make_evidence()).figures
    assert figures["subjects"] - figures["published"] == release.suppressed["subjects"]["left_over"]


@pytest.mark.parametrize(
    ("window_s", "clause"),
    [(900, "period"), (1860, "period"), (3600, "members"), (None, "members")],
)
def test_other_windows_than_the_rows_were_made_for_are_refused(window_s, clause):
    release = publish_plainly()
    assert find_broken(release) == set()
    release.params["window_s"] = window_s
    assert clause in find_broken(release)


@pytest.mark.parametrize("name", ["since", "until"])
def test_a_run_that_begins_or_ends_inside_a_window_is_refused(name):
    release = publish_plainly()
    release.params[name] = (int(release.data.t.min()) // 1800 + (name == "until") * 9) * 1800 + 900
    assert "decidable" in find_broken(release)


def test_a_window_that_is_no_whole_slots_cannot_be_decided():
    release = publish_plainly()
    release.params["window_s"] = 1830
    assert find_broken(release) == {"decidable"}


def test_a_member_that_is_missing_or_twice_or_not_there_is_refused():
    release = publish_plainly()
    for at in range(0, len(release.members), 7):
        fewer, twice = release.copy(), release.copy()
        del fewer.members[at]
        assert find_broken(fewer) & {"members", "alike"}
        twice.members.append(twice.members[at])
        assert find_broken(twice) & {"members", "alike"}
    mine = {path for record, path, _ in release.members if record == release.rows[0].record}
    for path in set(release.data.trajectory_id.tolist()) - mine:
        group = [r for r in release.records() if list_paths(release, r) == mine]
        other = release.copy()
        other.members += [(record, path, True) for record in group]  # of all records of the group, so they are alike
        assert "members" in find_broken(other)


def list_paths(release, record):
    return {path for owner, path, _ in release.members if owner == record}


def test_twin_records_in_a_window_are_refused():
    release = publish_plainly()
    one = release.rows[0].record
    release.rows += [dataclasses.replace(row, record=912_345) for row in release.of(one)]
    release.members += [(912_345, path, True) for path in list_paths(release, one)]
    assert find_broken(release) == {"alike"}


def test_a_person_of_two_groups_of_a_window_is_refused():
    release = publish_plainly()
    one = release.rows[0]
    mine, edge = list_paths(release, one.record), one.start // 1800
    beside = next(
        row.record for row in release.rows if row.start // 1800 == edge and not list_paths(release, row.record) & mine
    )
    for record in [r for r in release.records() if list_paths(release, r) == list_paths(release, beside)]:
        release.members += [(record, path, True) for path in mine]
    assert "members" in find_broken(release)


def test_a_row_over_a_border_is_refused():
    release = publish_plainly()
    caught = 0
    for at, row in enumerate(release.rows):
        other = release.copy()
        edge = (row.start // 1800 + 1) * 1800
        other.rows[at].end = edge + GRID_S
        found = find_broken(other)
        assert "period" in found
        caught += found == {"period", "alike"}
    assert caught


def test_somebody_left_out_of_a_window_with_k_people_is_refused():
    """Truly counted, and with the right records of all others."""
    rng = random.Random(2)
    world = draw_world(rng, subjects=9, epochs=1, leak=30, quiet=0)
    groups = [(0, 1, 2), (3, 4, 5, 6, 7)]
    for window_s in (1800, None):
        assert find_broken(publish_groups(world, groups, rng, k=3, window_s=window_s)) == {"left-out"}
        assert not find_broken(publish_groups(world, [groups[0], (*groups[1], 8)], rng, k=3, window_s=window_s))
