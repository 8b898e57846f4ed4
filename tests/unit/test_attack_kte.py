import dataclasses
import functools
import itertools
import math
import random

import numpy as np
import pytest

from dbanon.attacks.kte import attack
from tests.unit.kte_evidence import (
    GRID_S,
    PARAMS,
    Publisher,
    Release,
    broken,
    grouped,
    merged,
    random_world,
    stored,
    trajectories,
)
from tests.unit.oracle_attack_kte import found

# Right releases.


@functools.cache
def _honest(k: int) -> Release:
    for seed in range(200):
        rng = random.Random(seed)
        world = random_world(rng, subjects=7 * k, epochs=5, leak=5, quiet=0.12, most=4)
        publisher = Publisher(world, {"k": k, "tau_s": 300, "leak_s": 300}, rng)
        release = publisher.publish()
        if release is None:
            continue
        silent = any(
            not publisher.present[u] & publisher.span(m) and publisher.present[u]
            for u, m in itertools.product(world, publisher.windows)
        )
        some = any(e in publisher.present[u] for u in world for e in publisher.epochs if publisher.present[u] != {e})
        filled = any(publisher.present[u] and (u, e) in publisher.why for u, e in publisher.why)
        ends = all(any(e in publisher.present[u] for u in world) for e in (publisher.epochs[0], publisher.epochs[-1]))
        if silent and some and filled and ends and len(release.records()) >= 3 * k - 1:
            return release
    raise AssertionError


def honest(k: int = 2) -> Release:
    """Give a release in which there is all: rows at both ends, suppressed epochs and people, silences."""
    return _honest(k).copy()


def at_one_place(people: int = 12, epochs: int = 3) -> Release:
    """Publish people who are always together: every record fits everybody."""
    own = {(5000 + 5 * epoch + more, 1, 1) for epoch in range(epochs) for more in (0, 3)}
    params = {"k": 3, "tau_s": 300, "leak_s": 300}
    return Publisher(dict.fromkeys(range(people), own), params, random.Random(1)).publish()


def groups(k: int = 3) -> Release:
    rng = random.Random(3)
    world = random_world(rng, subjects=8, epochs=5, leak=5)
    return grouped(world, [(0, 1, 2), (3, 4, 5, 6)], rng, k=k)


@pytest.mark.many
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "params",
    [{}, {"reuse": "apart"}, {"improve": False}],
    ids=["default", "apart", "not improved"],
)
def test_right_releases_pass(cases, k, params):
    if k == 2 and "reuse" in params:
        return
    passed = 0
    for seed in cases(25):
        rng = random.Random(f"{seed} {k}")
        leak, ratio = rng.randint(1, 5), rng.randint(1, 3)
        times = {"k": k, "leak_s": leak * GRID_S, "tau_s": leak * ratio * GRID_S}
        quiet, count = rng.choice([0, 0, 0.1, 0.3]), rng.randint(2 * k, 11 if k == 2 else 24)
        world = random_world(rng, subjects=count, epochs=rng.randint(1, 7 if k == 2 else 4), leak=leak, quiet=quiet)
        release = Publisher(world, times | params, rng).publish()
        if release is not None:
            assert broken(release) == set()
            assert found(release, beyond=True) == set()
            passed += 1
    assert passed >= len(cases(25)) // 2


def test_right_groups_pass():
    for seed in range(20):
        rng = random.Random(seed)
        world = random_world(rng, subjects=9, epochs=4, leak=5)
        people = rng.sample(range(9), 9)
        release = grouped(world, [people[:2], people[2:5], people[5 : 7 + seed % 3]], rng)
        assert broken(release) == set()


def test_releases_with_nothing_left_out_pass():
    release = at_one_place()
    assert release.suppressed["samples"] == {}
    assert broken(release) == set()


@pytest.mark.parametrize("epochs", [3, 4])
def test_people_who_stay_together_are_reported_and_for_how_long(epochs):
    figures = attack(at_one_place(epochs=epochs).evidence()).figures
    assert figures["followed_by_chance"] > 0
    # The first window begins an epoch before the data; in all others of these everybody still fits.
    assert figures["followed_by_chance_s"] == (epochs - 1) * 300
    assert figures["windows"] * 2 == figures["others_needed"] == (epochs + 1) * 2


def test_nobody_is_followed_beyond_an_epoch_in_which_records_part():
    release = at_one_place(epochs=4)
    for row in release.rows:
        if row.first // 5 == 1001:  # in the second epoch nothing fits, so one after it or before it is not reached
            row.bounds = [side + 1e6 for side in row.bounds]
    assert attack(release.evidence()).figures["followed_by_chance_s"] == 600


def test_figures_count_what_is_there():
    release = honest()
    figures = attack(release.evidence()).figures
    assert figures["fixes"] == release.data.fixes
    assert figures["samples"] == sum(len(own) for own in release.samples().values())
    assert figures["samples"] - figures["samples_covered"] == sum(release.suppressed["samples"].values())
    assert figures["subjects"] - figures["published"] == sum(release.suppressed["subjects"].values())
    assert figures["rows"] == len(release.rows)
    assert figures["picks"] == sum(len(entry[3]) for entry in release.hiding) == figures["picks_fitting"]
    assert figures["greatest_posterior"] == pytest.approx(1 / 2)


def test_the_order_in_which_the_database_gives_things_does_not_matter():
    release, rng = honest(3), random.Random(0)
    records = {record: release.of(record) for record in release.records()}
    release.rows = [row for record in rng.sample(list(records), len(records)) for row in records[record][::-1]]
    rng.shuffle(release.members)
    rng.shuffle(release.hiding)
    for entry in release.hiding:
        rng.shuffle(entry[3])
    assert broken(release) == set()


def test_data_outside_since_and_until_are_not_looked_at():
    release = honest()
    slots = [s[0] for own in release.samples().values() for s in own]
    release.params["since"], release.params["until"] = str(min(slots) * GRID_S), (max(slots) + 1) * GRID_S
    early = trajectories({99: {(min(slots) - 7, 1, 1)}, 0: {(max(slots) + 9, 1, 1)}}, random.Random(0))
    parts = (release.data, early)
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("t", "x", "y", "subject")}
    offset = np.concatenate([release.data.offset, release.data.offset[-1] + early.offset[1:]])
    ids = np.concatenate([release.data.trajectory_id, 800_000 + early.trajectory_id])
    release.data = dataclasses.replace(release.data, offset=offset, trajectory_id=ids, **joined)
    assert broken(release) == set()
    release.params["until"] = None
    assert broken(release)


# Tampered ones.


def variants(release: Release, change):
    """Give copies of the release with each row, in turn, changed; not where `change` says False."""
    for at in range(len(release.rows)):
        other = release.copy()
        if change(other, other.rows[at]) is not False:
            yield other


def following(release: Release, row):
    """The next row of the same record, or None."""
    return next((r for r in release.of(row.record) if r.seq == row.seq + 1), None)


def alone(releases, clause: str) -> bool:
    return any(broken(release) == {clause} for release in releases)


def any_alone(clause, change):
    return lambda: alone(variants(honest(), change), clause)


def into_the_next_epoch(release, row):
    after, leak = following(release, row), release.params["leak_s"] // GRID_S
    end = (row.last // leak + 1) * leak
    if after is None or after.first <= end or row.last // leak + 1 == after.first // leak:
        return False
    row.end = float((end + 1) * GRID_S)
    return True


def narrowed(side):
    def change(release, row):
        row.bounds[side] += 100.0 if side < 2 else -100.0
        return row.bounds[side - 2] < row.bounds[side] if side >= 2 else row.bounds[side] < row.bounds[side + 2]

    return change


def out_of_order(release, row):
    after = following(release, row)
    if after is None:
        return False
    row.seq, after.seq = after.seq, row.seq
    return True


def overlapping(release, row):
    after = following(release, row)
    if after is None or after.first // 5 != row.last // 5:
        return False
    row.end = float((after.first + 1) * GRID_S)
    return True


def set_swaps(release):
    """Give copies in which two hiding sets of a window have exchanged one of their others."""
    for a, b in itertools.combinations(range(len(release.hiding)), 2):
        if release.hiding[a][1] != release.hiding[b][1]:
            continue
        for x, y in itertools.product(release.hiding[a][3], release.hiding[b][3]):
            if x in release.hiding[b][3] or y in release.hiding[a][3]:
                continue
            if x == release.hiding[b][0] or y == release.hiding[a][0]:
                continue
            other = release.copy()
            other.hiding[a][3].remove(x)
            other.hiding[b][3].remove(y)
            other.hiding[a][3].append(y)
            other.hiding[b][3].append(x)
            yield other


def with_set_of_the_silent(release):
    """Give a hiding set to a record in a window in which it says nothing."""
    for record, entry in itertools.product(release.records(), list(release.hiding)):
        if not any(e[0] == record and e[1] == entry[1] for e in release.hiding) and record not in entry[3]:
            other = release.copy()
            other.hiding.append((record, entry[1], entry[2], list(entry[3])))
            yield other


def picked_less(release, step=1):
    """Give copies in which one of a hiding set is another; of those that can be, each `step`-th."""
    choices = itertools.product(range(len(release.hiding)), release.records())
    for at, record in itertools.islice(choices, 0, None, step):
        owner, _, _, others = release.hiding[at]
        if record not in (owner, *others):
            other = release.copy()
            other.hiding[at][3][0] = record
            yield other


def fictitious_in_groups():
    release = groups()
    people = {record: {path for r, path, _ in release.members if r == record} for record, _, _ in release.members}
    first = release.rows[0].record
    for record in [record for record in people if people[record] == people[first]]:
        own = release.of(record)
        more = stored(record, [(4000, 4001, (0, 0, 1, 1))], own[0].crowd, own[0].subjects)
        for row in own:
            row.seq += 1
        release.rows = more + release.rows
    return [release]


def one_record_less():
    release = groups()
    gone = release.rows[-1].record
    release.rows = [row for row in release.rows if row.record != gone]
    release.members = [member for member in release.members if member[0] != gone]
    return [release]


def one_record_otherwise():
    return variants(groups(), lambda r, row: row.bounds.__setitem__(2, row.bounds[2] + 100.0))


def renamed(algorithm):
    release = groups()
    release.algorithm = algorithm
    return release


def changed(make, **columns):
    def edit():
        for at in range(3):
            release = make()
            for name, value in columns.items():
                setattr(release.rows[at], name, value)
            yield release

    return edit


def counted(what, reason, by):
    def edit():
        release = honest()
        release.suppressed[what][reason] = release.suppressed[what].get(reason, 0) + by
        yield release

    return edit


def hourly(**by):
    def edit():
        release = honest()
        entry = release.suppressed["by_hour"][0]
        for name, number in by.items():
            if name in entry:
                entry[name] += number
            else:
                entry["left_out"][name] = entry["left_out"].get(name, 0) + number
        yield release

    return edit


def members(change):
    def edit():
        release = honest()
        release.members = change(release.members)
        yield release

    return edit


def careless(*how, count=40, subjects=9, epochs=6, **params):
    """Give what a careless publisher makes of worlds that come and go."""
    for seed in range(count):
        rng = random.Random(seed)
        options = {"k": 2, "tau_s": 240, "leak_s": 240, **params}
        world = random_world(rng, subjects=subjects, epochs=epochs, leak=4, quiet=rng.choice([0.2, 0.4]))
        release = Publisher(world, options, rng, *how).publish()
        if release is not None:
            yield release


# Each clause and what it alone catches.
ALONE = {
    "a membership twice": ("members", members(lambda m: [*m, m[0]])),
    "a partial membership": ("members", members(lambda m: [(m[0][0], m[0][1], False), *m[1:]])),
    "an unknown trajectory": ("members", members(lambda m: [*m, (m[0][0], 712_345, True)])),
    "a member of no record": ("members", members(lambda m: [*m, (912_345, 700_001, True)])),
    "a row into the next epoch": ("period", lambda: variants(honest(), into_the_next_epoch)),
    "a row that ends a second late": (
        "period",
        lambda: variants(honest(), lambda r, row: setattr(row, "end", row.end + 1)),
    ),
    "another srid": ("region", changed(honest, srid=4326)),
    "no rectangle": ("region", changed(honest, rectangle=False)),
    "a side off the grid by a millimetre": (
        "region",
        lambda: variants(honest(), lambda r, row: row.bounds.__setitem__(0, row.bounds[0] - 0.001)),
    ),
    "rows out of order": ("order", lambda: variants(honest(), out_of_order)),
    "a number left out": ("order", lambda: variants(honest(), lambda r, row: setattr(row, "seq", row.seq + 50))),
    "a fictitious sample": ("truth", fictitious_in_groups),
    "one sample more left out": ("left-out", counted("samples", "few_alike", 1)),
    "one subject more left out": ("left-out", counted("subjects", "silence", 1)),
    "one more seen in an hour": ("left-out", hourly(seen=1)),
    "one more left out of an hour": ("left-out", hourly(seen=1, few_alike=1)),
    "one published for one left out": ("left-out", hourly(published=1, few_alike=-1)),
    "another column": ("columns", changed(honest, other_keys=1)),
    "a larger crowd": ("crowd", changed(honest, crowd=3)),
    "a row that stands for two": ("crowd", changed(honest, subjects=2)),
    "a crowd below that of a group": ("crowd", changed(groups, crowd=2)),
    "groups below k": ("size", lambda: [groups(4)]),
    "a member of a group without a record": ("alike", one_record_less),
    "a record unlike those of its group": ("alike", one_record_otherwise),
    "a hiding set of a group": (
        "sets",
        lambda: [
            dataclasses.replace(r, hiding=[(r.rows[0].record, 0.0, 1.0, [r.rows[-1].record])]) for r in [groups()]
        ],
    ),
    "a hiding set of who says nothing": ("sets", lambda: with_set_of_the_silent(honest())),
    "a subject picked k - 2 times": ("k-pick", lambda: picked_less(at_one_place())),
    "two who exchanged others": ("carried", lambda: set_swaps(honest())),
    "a partner again": ("reuse", lambda: set_swaps(at_one_place(16, 6))),
    "all partners again": ("leak", lambda: careless("reckless", reuse="apart")),
    "a side narrowed": ("hidden", lambda: itertools.chain(*(variants(honest(), narrowed(side)) for side in range(4)))),
    "fewer than k silent": ("silence", lambda: careless("no_silence")),
    "k of one": ("decidable", lambda: [dataclasses.replace(r, params=r.params | {"k": 1}) for r in [honest()]]),
}


CAUGHT_ALONE = {clause for clause, _ in ALONE.values()}


@pytest.mark.parametrize("name", ALONE)
def test_each_clause_catches_what_no_other_does(name):
    clause, releases = ALONE[name]
    assert alone(releases(), clause)


def test_a_hiding_set_reused_is_refused():
    release, met = honest(3), 0
    for a, b in itertools.permutations(range(len(release.hiding)), 2):
        if release.hiding[a][0] == release.hiding[b][0] and (a + b) % 3 == 0:
            other = release.copy()
            other.hiding[b] = (*release.hiding[b][:3], list(release.hiding[a][3]))
            clauses = broken(other)
            assert clauses & {"reuse", "sets"}
            met += "reuse" in clauses
    assert met > 5


def at_the_ends(release):
    """Places of the hiding sets of windows that reach beyond the epochs of the data, before or behind these."""
    times = release.data.t // release.params["leak_s"] * release.params["leak_s"]
    low, high = float(times.min()), float(times.max()) + release.params["leak_s"]
    before = [at for at, entry in enumerate(release.hiding) if entry[1] < low]
    behind = [at for at, entry in enumerate(release.hiding) if entry[2] > high]
    assert before
    assert behind
    return before, behind


@pytest.mark.parametrize("k", [2, 3])
def test_windows_beyond_an_end_without_hiding_sets_are_refused(k):
    """Else who knows a moment in the first or last epoch finds k records that agree for the whole window."""
    for places in at_the_ends(honest(k)):
        release = honest(k)
        for at in reversed(places):
            del release.hiding[at]
        assert {"sets", "k-pick"} <= broken(release)
        for at in places:
            release = honest(k)
            del release.hiding[at]
            assert {"sets", "k-pick"} <= broken(release)


@pytest.mark.parametrize("k", [2, 3])
def test_the_others_of_a_window_within_reused_beyond_an_end_are_refused(k):
    """All of them: so each is still picked often enough, and carried there."""
    step, reused = honest(k).params["leak_s"], 0
    for places, by in zip(at_the_ends(honest(k)), (step, -step), strict=True):
        release = honest(k)
        beside = {entry[:2]: entry[3] for entry in release.hiding}
        for at in places:
            owner, start, end, _ = release.hiding[at]
            if (owner, start + by) in beside:
                release.hiding[at] = (owner, start, end, list(beside[owner, start + by]))
                reused += 1
        assert "reuse" in broken(release)
    assert reused


def columns_of(release):
    return (release.data.t, GRID_S), (release.data.x, 100.0), (release.data.y, 100.0)


def test_a_sample_moved_out_of_its_region_is_refused():
    release, moved = honest(), 0
    owner = np.repeat(release.data.subject, np.diff(release.data.offset)).tolist()
    samples = [tuple(math.floor(v[i] / side) for v, side in columns_of(release)) for i in range(release.data.fixes)]
    for at in range(0, release.data.fixes, 3):
        twin = any((owner[i], samples[i]) == (owner[at], samples[at]) for i in range(len(owner)) if i != at)
        if twin or owner[at] not in [release.subject(record) for record in release.records()]:
            continue
        x = release.data.x.copy()
        x[at] += 5000.0
        other = dataclasses.replace(release, data=dataclasses.replace(release.data, x=x))
        if any(row.holds(samples[at]) for row in release.of(release.record(owner[at]))):
            assert "left-out" in broken(other)
            moved += 1
    assert moved > 5


@pytest.mark.parametrize("k", [2, 3])
def test_a_subject_picked_less_is_refused(k):
    for release in picked_less(honest(k), step=3 if k == 2 else 17):
        assert "k-pick" in broken(release) or "sets" in broken(release)
    fewer = honest(k)
    fewer.hiding[0][3].pop()
    assert {"sets", "k-pick"} <= broken(fewer)
    fewer.hiding.pop(0)
    assert {"sets", "k-pick"} <= broken(fewer)


def test_a_suppressed_window_filled_again_is_refused():
    release, filled = honest(), 0
    leak = release.params["leak_s"] // GRID_S
    for record in release.records():
        own = release.samples()[release.subject(record)]
        for epoch in {s[0] // leak for s in own}:
            mine = {s for s in own if s[0] // leak == epoch}
            if any(row.holds(s) for row in release.of(record) for s in mine):
                continue
            other = release.copy()
            rows = other.of(record)
            rows += stored(record, merged([mine]), 2, 1)
            rows.sort(key=lambda row: row.start)
            for seq, row in enumerate(rows, 1):
                row.seq = seq
            other.rows = [row for row in other.rows if row.record != record] + rows
            reason = next(iter(other.suppressed["samples"]))
            other.suppressed["samples"][reason] -= len(mine)
            assert {"sets", "k-pick"} <= broken(other)
            filled += 1
    assert filled


def test_records_exchanged_are_refused():
    release = honest()
    for a, b in itertools.combinations(release.records(), 2):
        other = release.copy()
        turn = {a: b, b: a}
        other.members = [(turn.get(record, record), path, whole) for record, path, whole in other.members]
        mine = [release.samples()[release.subject(record)] for record in (a, b)]
        rows = [[(row.start, row.end, row.bounds) for row in release.of(record)] for record in (a, b)]
        if mine[0] != mine[1] and rows[0] != rows[1]:
            assert broken(other)


@pytest.mark.parametrize("k", [3, 4])
def test_another_k_than_the_rows_were_made_for_is_refused(k):
    release = honest(3)
    release.params["k"] = 2 if k == 3 else 4
    assert {"crowd", "sets"} <= broken(release)


@pytest.mark.parametrize(
    ("name", "value"),
    [("tau_s", 600), ("tau_s", 1500), ("leak_s", 60), ("grid_m", 150), ("grid_m", 50), ("grid_s", 30)],
)
def test_other_parameters_than_the_rows_were_made_with_are_refused(name, value):
    release = honest()
    release.params[name] = value
    assert broken(release)


def removed(release, rng, row, own):
    if len(own) > 1:
        release.rows.remove(row)


def resized(release, rng, row, own):
    side = rng.randrange(4)
    row.bounds[side] += rng.choice([-100.0, 100.0])
    if row.bounds[side % 2] >= row.bounds[side % 2 + 2]:
        row.bounds[side] += 100.0 if side >= 2 else -100.0


def begun_elsewhere(release, rng, row, own):
    before = max((r.last for r in own if r.last < row.first), default=row.first - 3)
    row.start = float(rng.randint(max(before + 1, row.first - 5), row.last) * GRID_S)


def ended_elsewhere(release, rng, row, own):
    after = min((r.first for r in own if r.first > row.last), default=row.last + 3)
    row.end = float((rng.randint(row.first, min(after - 1, row.last + 5)) + 1) * GRID_S)


def silenced(release, rng, row, own):
    leak = release.params["leak_s"] // GRID_S
    left = [r for r in own if r.first // leak != row.first // leak]
    if left:
        release.rows = [r for r in release.rows if r.record != row.record or r in left]


def filled_again(release, rng, row, own):
    known = sorted(release.samples()[release.subject(row.record)])
    free = [s for s in known if not any(r.first <= s[0] <= r.last for r in own)]
    release.rows += stored(row.record, [(slot, slot, (x, y, x, y)) for slot, x, y in free[:1]], row.crowd, 1)


def tamper(release: Release, rng: random.Random) -> None:
    """Change some row in a way that a plain adversary understands: rows stay in order, and have periods."""
    row = rng.choice(release.rows)
    change = rng.choice([removed, resized, begun_elsewhere, ended_elsewhere, silenced, filled_again])
    change(release, rng, row, release.of(row.record))
    release.rows.sort(key=lambda row: (row.record, row.start))
    for _, own in itertools.groupby(release.rows, lambda row: row.record):
        for seq, one in enumerate(own, 1):
            one.seq = seq


@pytest.mark.parametrize("share", [pytest.param(n, marks=pytest.mark.stress if n else ()) for n in range(4)])
def test_the_plain_adversary_agrees(share):
    """At every slot, for every subject: whoever fits fewer than k subjects' records, speaking or silent."""
    right = wrong = 0
    for seed in range(share, 560, 4):
        rng = random.Random(seed)
        leak, ratio, k = rng.randint(1, 5), rng.randint(1, 3), rng.choice([2, 2, 3])
        how = rng.choice([(), (), (), ("any_present",), ("not_closed",), ("no_silence",), ("united",)])
        params = {"k": k, "leak_s": leak * GRID_S, "tau_s": leak * ratio * GRID_S}
        if rng.random() < 0.2 and k > 2:
            params["reuse"] = "apart"
        quiet, epochs = rng.choice([0, 0.1, 0.3]), rng.randint(1, 6 if k == 2 else 3)
        world = random_world(rng, subjects=rng.randint(2 * k, 4 * k), epochs=epochs, leak=leak, cells=3, quiet=quiet)
        release = Publisher(world, params, rng, *how).publish()
        if release is None:
            continue
        for _ in range(rng.choice([0, 0, 1, 1, 3])):
            tamper(release, rng)
        verdict = broken(release)
        assert verdict & {"hidden", "silence"} == found(release), seed
        guilty = found(release, beyond=True)
        # Where all is one window, a row moved beyond it is wholly in no stretch within.
        assert bool(verdict & {"hidden", "silence"}) == bool(guilty) or (guilty and "period" in verdict), seed
        right, wrong = right + (not guilty), wrong + bool(guilty)
    assert right + wrong >= 90
    assert min(right, wrong) >= 25


# The careless versions.

MORE = {"subjects": 14, "epochs": 4}  # so that many are published at k = 3


@pytest.mark.stress
@pytest.mark.parametrize(
    ("how", "clause", "params"),
    [
        ("any_present", "hidden", {}),
        ("any_present", "hidden", {"k": 3} | MORE),
        ("not_closed", "hidden", {}),
        ("no_silence", "silence", {}),
        ("no_ends", "sets", {}),
        ("reckless", "leak", {"reuse": "apart"}),
        ("united", "hidden", {"k": 3} | MORE),
        ("united", "k-pick", {"k": 3} | MORE),
    ],
)
def test_careless_versions_are_broken(how, clause, params):
    refused = [clause in broken(release) for release in careless(how, **params)]
    assert sum(refused) >= 3
    assert not any(broken(release) for release in careless(**params | {"reuse": "never"}))


def test_sets_without_windows_are_refused():
    """An owner's sets of all windows as one: everybody is in k - 1 of them, though not in every window."""
    release = honest()
    united = {}
    for owner, _, _, others in release.hiding:
        united.setdefault(owner, set()).update(others)
    release.hiding = [(owner, math.nan, math.nan, sorted(others)) for owner, others in united.items()]
    assert {"sets", "k-pick"} <= broken(release)


def test_made_up_samples_are_found_by_what_they_are():
    """Records of one subject each with a row moved beside the subject's samples, whatever the algorithm is called."""
    for algorithm in ("kte-hide", "k-merge"):
        release = honest()
        release.algorithm = algorithm
        for row in release.of(release.records()[0])[:1]:
            row.bounds = [side + 9000.0 for side in row.bounds]
        assert "truth" in broken(release)


# What cannot be decided.


@pytest.mark.parametrize("name", PARAMS)
def test_a_parameter_that_is_missing_is_refused(name):
    release = honest()
    del release.params[name]
    assert broken(release) == {"decidable"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("k", 1), ("k", 2.5), ("k", True), ("k", "2"), ("k", None), ("k", 10**15), ("tau_s", 0), ("tau_s", 301),
        ("tau_s", None), ("tau_s", math.nan), ("leak_s", 0), ("leak_s", 90), ("leak_s", -300), ("leak_s", 600),
        ("leak_s", 60 << 21), ("grid_s", 0), ("grid_s", 45), ("grid_s", 60.5), ("grid_m", 0), ("grid_m", None),
        ("grid_m", 75), ("grid_m", -100), ("grid_m", math.nan), ("grid_m", math.inf),
        ("reuse", "often"), ("reuse", None), ("improve", 1),
        ("improve", None), ("since", "soon"), ("until", 45), ("until", "1970-01-01"), ("since", "2100-01-01"),
    ],
)  # fmt: skip
def test_an_absurd_parameter_is_refused(name, value):
    release = honest()
    release.params[name] = value
    if name == "leak_s" and value == 60 << 21:
        release.params["tau_s"] = value
    assert broken(release) == {"decidable"}


def test_a_stretch_longer_than_the_data_is_one_window():
    rng = random.Random(4)
    world = random_world(rng, subjects=8, epochs=3, leak=5, quiet=0)
    release = Publisher(world, {"tau_s": 86_400, "leak_s": 300}, rng).publish()
    assert broken(release) == set()
    assert attack(release.evidence()).figures["windows"] == 1
    release.hiding = [(owner, start, start + 900, others) for owner, start, _, others in release.hiding]
    assert broken(release) == set()
    release.hiding = [(owner, start, start + 600, others) for owner, start, _, others in release.hiding]
    assert "sets" in broken(release)


@pytest.mark.parametrize(
    "suppressed",
    [
        None, [], {}, {"samples": {}, "subjects": {}}, {"samples": {}, "subjects": None, "by_hour": []},
        {"samples": {"few_alike": -1}, "subjects": {}, "by_hour": []},
        {"samples": {"few_alike": "1"}, "subjects": {}, "by_hour": []},
        {"samples": {"few_alike": math.nan}, "subjects": {}, "by_hour": []},
        {"samples": {"Anna": 1}, "subjects": {}, "by_hour": []},
        {"samples": {}, "subjects": {"subject 7": 1}, "by_hour": []},
        {"samples": {}, "subjects": {}, "by_hour": [0]},
        {"samples": {}, "subjects": {}, "by_hour": [], "more": 1},
    ],
)  # fmt: skip
def test_malformed_counts_are_refused(suppressed):
    assert broken(dataclasses.replace(honest(), suppressed=suppressed)) == {"decidable"}


def test_an_unknown_algorithm_is_refused():
    for algorithm in ("hide-a-mob", "glove", "w4m"):
        assert broken(renamed(algorithm)) == {"decidable"}


def far(release, **columns):
    return dataclasses.replace(release, data=dataclasses.replace(release.data, **columns))


def empty(data):
    nothing = np.empty(0)
    none = nothing.astype(np.int64)
    return dataclasses.replace(
        data, trajectory_id=none, subject=none, offset=np.zeros(1, np.int64), t=nothing, x=nothing, y=nothing
    )


def spread(release):
    t = release.data.t.copy()
    t[release.data.offset[1] - 1] += 6e9
    release.params |= {"leak_s": 60, "tau_s": 60}
    return far(release, t=t)


NONSENSE = {
    "no rows": lambda r: dataclasses.replace(r, rows=[]),
    "no data": lambda r: dataclasses.replace(r, data=empty(r.data)),
    "times that are none": lambda r: far(r, t=r.data.t + 1e13),
    "a place beyond all cells": lambda r: far(r, x=r.data.x + 1e17),
    "years of seconds between two fixes": spread,
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_makes_no_sense_is_refused(name):
    assert broken(NONSENSE[name](honest())) == {"decidable"}


BAD = [math.nan, math.inf, -math.inf, 1e300, -1e300]


@pytest.mark.parametrize("value", BAD)
def test_rows_and_sets_of_no_time_or_place_are_refused(value):
    for at in range(4):
        release = honest()
        release.rows[0].bounds[at] = value
        assert "region" in broken(release)
    for name in ("start", "end"):
        release = honest()
        setattr(release.rows[0], name, value)
        assert "period" in broken(release)
    release = honest()
    for at, column in itertools.product(range(3), (1, 2)):
        entry = list(release.hiding[at])
        entry[column] = value
        release.hiding[at] = tuple(entry)
    assert "sets" in broken(release)


def test_records_and_sets_of_nobody_are_refused():
    nobody = honest()
    nobody.members = []
    assert {"members", "truth", "left-out"} <= broken(nobody)
    lost = honest()
    record = lost.records()[0]
    lost.members = [member for member in lost.members if member[0] != record]
    assert {"members", "truth", "left-out", "sets"} <= broken(lost)
    unhidden = honest()
    unhidden.hiding = []
    assert {"sets", "k-pick"} <= broken(unhidden)
    strange = honest()
    strange.hiding[0] = (912_345, *strange.hiding[0][1:])
    assert "sets" in broken(strange)
    own = honest()
    own.hiding[0][3][0] = own.hiding[0][0]
    assert "sets" in broken(own)
    twice = honest(3)
    twice.hiding[0][3][0] = twice.hiding[0][3][1]
    assert "sets" in broken(twice)


def test_a_record_without_one_of_its_trajectories_is_refused():
    release = honest()
    counts = {}
    for record, _, _ in release.members:
        counts[record] = counts.get(record, 0) + 1
    record = next(record for record, number in counts.items() if number > 1)
    release.members.remove(next(member for member in release.members if member[0] == record))
    assert broken(release) == {"members"}


def test_one_person_in_two_records_and_two_in_one_are_refused():
    twice = honest()
    rows = [dataclasses.replace(row, record=912_345) for row in twice.of(twice.records()[0])]
    twice.rows += rows
    twice.members += [(912_345, path, whole) for record, path, whole in twice.members if record == twice.records()[0]]
    assert "members" in broken(twice)
    both = at_one_place()
    a, b = both.records()[:2]
    both.members = [(a if record == b else record, path, whole) for record, path, whole in both.members]
    assert "members" in broken(both)
