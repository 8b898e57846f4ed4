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
    draw_world,
    find_broken,
    make_rows,
    make_trajectories,
    merge_samples,
    publish_groups,
)
from tests.unit.oracle_attack_kte import find_broken_by_oracle

# Right releases.


@functools.cache
def _make_honest(k: int) -> Release:
    for seed in range(200):
        rng = random.Random(seed)
        world = draw_world(rng, subjects=7 * k, epochs=5, leak=5, quiet=0.12, most=4)
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


def make_honest(k: int = 2) -> Release:
    """Give a release in which there is all: rows at both ends, suppressed epochs and people, silences."""
    return _make_honest(k).copy()


def publish_at_one_place(people: int = 12, epochs: int = 3) -> Release:
    """Publish people who are always together: every record fits everybody."""
    own = {(5000 + 5 * epoch + more, 1, 1) for epoch in range(epochs) for more in (0, 3)}
    params = {"k": 3, "tau_s": 300, "leak_s": 300}
    return Publisher(dict.fromkeys(range(people), own), params, random.Random(1)).publish()


def publish_pairs(k: int = 3) -> Release:
    rng = random.Random(3)
    world = draw_world(rng, subjects=7, epochs=5, leak=5)
    return publish_groups(world, [(0, 1, 2), (3, 4, 5, 6)], rng, k=k)


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
        world = draw_world(rng, subjects=count, epochs=rng.randint(1, 7 if k == 2 else 4), leak=leak, quiet=quiet)
        release = Publisher(world, times | params, rng).publish()
        if release is not None:
            assert find_broken(release) == set()
            assert find_broken_by_oracle(release, beyond=True) == set()
            passed += 1
    assert passed >= len(cases(25)) // 2


def test_right_groups_pass():
    for seed in range(20):
        rng = random.Random(seed)
        world = draw_world(rng, subjects=9, epochs=4, leak=5)
        people = rng.sample(range(9), 9)
        release = publish_groups(world, [people[:2], people[2:5], people[5:]], rng)
        assert find_broken(release) == set()


def test_releases_with_nothing_left_out_pass():
    release = publish_at_one_place()
    assert release.suppressed["samples"] == {}
    assert find_broken(release) == set()


@pytest.mark.parametrize("epochs", [3, 4])
def test_people_who_stay_together_are_reported_and_for_how_long(epochs):
    figures = attack(publish_at_one_place(epochs=epochs).make_evidence()).figures
    assert figures["followed_by_chance"] > 0
    # The first window begins an epoch before the data; in all others of these everybody still fits.
    assert figures["followed_by_chance_s"] == (epochs - 1) * 300
    assert figures["windows"] * 2 == figures["others_needed"] == (epochs + 1) * 2


def test_nobody_is_followed_beyond_an_epoch_in_which_records_part():
    release = publish_at_one_place(epochs=4)
    for row in release.rows:
        if row.first // 5 == 1001:  # in the second epoch nothing fits, so one after it or before it is not reached
            row.bounds = [side + 1e6 for side in row.bounds]
    assert attack(release.make_evidence()).figures["followed_by_chance_s"] == 600


def test_figures_count_what_is_there():
    release = make_honest()
    figures = attack(release.make_evidence()).figures
    assert figures["fixes"] == release.data.fixes
    assert figures["samples"] == sum(len(own) for own in release.samples().values())
    assert figures["samples"] - figures["samples_covered"] == sum(release.suppressed["samples"].values())
    assert figures["subjects"] - figures["published"] == sum(release.suppressed["subjects"].values())
    assert figures["rows"] == len(release.rows)
    assert figures["picks"] == sum(len(entry[3]) for entry in release.hiding) == figures["picks_fitting"]
    assert figures["greatest_posterior"] == pytest.approx(1 / 2)


def test_the_order_in_which_the_database_gives_things_does_not_matter():
    release, rng = make_honest(3), random.Random(0)
    records = {record: release.of(record) for record in release.records()}
    release.rows = [row for record in rng.sample(list(records), len(records)) for row in records[record][::-1]]
    rng.shuffle(release.members)
    rng.shuffle(release.hiding)
    for entry in release.hiding:
        rng.shuffle(entry[3])
    assert find_broken(release) == set()


def test_data_outside_since_and_until_are_not_looked_at():
    release = make_honest()
    slots = [s[0] for own in release.samples().values() for s in own]
    release.params["since"], release.params["until"] = str(min(slots) * GRID_S), (max(slots) + 1) * GRID_S
    early = make_trajectories({99: {(min(slots) - 7, 1, 1)}, 0: {(max(slots) + 9, 1, 1)}}, random.Random(0))
    parts = (release.data, early)
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("t", "x", "y", "subject")}
    offset = np.concatenate([release.data.offset, release.data.offset[-1] + early.offset[1:]])
    ids = np.concatenate([release.data.trajectory_id, 800_000 + early.trajectory_id])
    release.data = dataclasses.replace(release.data, offset=offset, trajectory_id=ids, **joined)
    assert find_broken(release) == set()
    release.params["until"] = None
    assert find_broken(release)


@pytest.mark.parametrize(
    ("start", "end", "is_time"),
    [(-1e12, 60.0, True), (-1e12 - 1, 60.0, False), (0.0, 1e12, True), (0.0, 1e12 + 1, False)],
)
def test_rows_of_times_that_are_no_unix_seconds_are_refused_and_not_looked_at(start, end, is_time):
    release = publish_pairs()
    rows = attack(release.make_evidence()).figures["rows"]
    row = release.of(release.records()[0])[0]
    row.start, row.end = start, end
    assert "period" in find_broken(release)
    assert attack(release.make_evidence()).figures["rows"] == rows - (not is_time)


# Tampered ones.


def iter_variants(release: Release, change):
    """Give copies of the release with each row, in turn, changed; not where `change` says False."""
    for at in range(len(release.rows)):
        other = release.copy()
        if change(other, other.rows[at]) is not False:
            yield other


def find_following(release: Release, row):
    """The next row of the same record, or None."""
    return next((r for r in release.of(row.record) if r.seq == row.seq + 1), None)


def is_alone(releases, clause: str) -> bool:
    return any(find_broken(release) == {clause} for release in releases)


def make_alone_check(clause, change):
    return lambda: is_alone(iter_variants(make_honest(), change), clause)


def move_to_next_epoch(release, row):
    after, leak = find_following(release, row), release.params["leak_s"] // GRID_S
    end = (row.last // leak + 1) * leak
    if after is None or after.first <= end or row.last // leak + 1 == after.first // leak:
        return False
    row.end = float((end + 1) * GRID_S)
    return True


def make_narrowing(side):
    def change(release, row):
        row.bounds[side] += 100.0 if side < 2 else -100.0
        return row.bounds[side - 2] < row.bounds[side] if side >= 2 else row.bounds[side] < row.bounds[side + 2]

    return change


def disorder_rows(release, row):
    after = find_following(release, row)
    if after is None:
        return False
    row.seq, after.seq = after.seq, row.seq
    return True


def overlap_rows(release, row):
    after = find_following(release, row)
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


def add_silent_set(release):
    """Give a hiding set to a record in a window in which it says nothing."""
    for record, entry in itertools.product(release.records(), list(release.hiding)):
        if not any(e[0] == record and e[1] == entry[1] for e in release.hiding) and record not in entry[3]:
            other = release.copy()
            other.hiding.append((record, entry[1], entry[2], list(entry[3])))
            yield other


def pick_less(release, step=1):
    """Give copies in which one of a hiding set is another; of those that can be, each `step`-th."""
    choices = itertools.product(range(len(release.hiding)), release.records())
    for at, record in itertools.islice(choices, 0, None, step):
        owner, _, _, others = release.hiding[at]
        if record not in (owner, *others):
            other = release.copy()
            other.hiding[at][3][0] = record
            yield other


def add_fictitious():
    release = publish_pairs()
    people = {record: {path for r, path, _ in release.members if r == record} for record, _, _ in release.members}
    first = release.rows[0].record
    for record in [record for record in people if people[record] == people[first]]:
        own = release.of(record)
        more = make_rows(record, [(4000, 4001, (0, 0, 1, 1))], own[0].crowd, own[0].subjects)
        for row in own:
            row.seq += 1
        release.rows = more + release.rows
    return [release]


def drop_record():
    release = publish_pairs()
    gone = release.rows[-1].record
    release.rows = [row for row in release.rows if row.record != gone]
    release.members = [member for member in release.members if member[0] != gone]
    return [release]


def change_record():
    return iter_variants(publish_pairs(), lambda r, row: row.bounds.__setitem__(2, row.bounds[2] + 100.0))


def rename_algorithm(algorithm):
    release = publish_pairs()
    release.algorithm = algorithm
    return release


def make_change(make, **columns):
    def edit():
        for at in range(3):
            release = make()
            for name, value in columns.items():
                setattr(release.rows[at], name, value)
            yield release

    return edit


def make_count_change(what, reason, by):
    def edit():
        release = make_honest()
        release.suppressed[what][reason] = release.suppressed[what].get(reason, 0) + by
        yield release

    return edit


def make_hourly_change(**by):
    def edit():
        release = make_honest()
        entry = release.suppressed["by_hour"][0]
        for name, number in by.items():
            if name in entry:
                entry[name] += number
            else:
                entry["left_out"][name] = entry["left_out"].get(name, 0) + number
        yield release

    return edit


def make_member_change(change):
    def edit():
        release = make_honest()
        release.members = change(release.members)
        yield release

    return edit


def publish_carelessly(*how, count=40, subjects=9, epochs=6, **params):
    """Give what a careless publisher makes of worlds that come and go."""
    for seed in range(count):
        rng = random.Random(seed)
        options = {"k": 2, "tau_s": 240, "leak_s": 240, **params}
        world = draw_world(rng, subjects=subjects, epochs=epochs, leak=4, quiet=rng.choice([0.2, 0.4]))
        release = Publisher(world, options, rng, *how).publish()
        if release is not None:
            yield release


# Each clause and what it alone catches.
ALONE = {
    "a membership twice": ("members", make_member_change(lambda m: [*m, m[0]])),
    "a partial membership": ("members", make_member_change(lambda m: [(m[0][0], m[0][1], False), *m[1:]])),
    "an unknown trajectory": ("members", make_member_change(lambda m: [*m, (m[0][0], 712_345, True)])),
    "a member of no record": ("members", make_member_change(lambda m: [*m, (912_345, 700_001, True)])),
    "a row into the next epoch": ("period", lambda: iter_variants(make_honest(), move_to_next_epoch)),
    "a row that ends a second late": (
        "period",
        lambda: iter_variants(make_honest(), lambda r, row: setattr(row, "end", row.end + 1)),
    ),
    "another srid": ("region", make_change(make_honest, srid=4326)),
    "no rectangle": ("region", make_change(make_honest, rectangle=False)),
    "a side off the grid by a millimetre": (
        "region",
        lambda: iter_variants(make_honest(), lambda r, row: row.bounds.__setitem__(0, row.bounds[0] - 0.001)),
    ),
    "rows out of order": ("order", lambda: iter_variants(make_honest(), disorder_rows)),
    "a number left out": (
        "order",
        lambda: iter_variants(make_honest(), lambda r, row: setattr(row, "seq", row.seq + 50)),
    ),
    "a fictitious sample": ("truth", add_fictitious),
    "one sample more left out": ("left-out", make_count_change("samples", "few_alike", 1)),
    "one subject more left out": ("left-out", make_count_change("subjects", "silence", 1)),
    "one more seen in an hour": ("left-out", make_hourly_change(seen=1)),
    "one more left out of an hour": ("left-out", make_hourly_change(seen=1, few_alike=1)),
    "one published for one left out": ("left-out", make_hourly_change(published=1, few_alike=-1)),
    "another column": ("columns", make_change(make_honest, other_keys=1)),
    "a larger crowd": ("crowd", make_change(make_honest, crowd=3)),
    "a row that stands for two": ("crowd", make_change(make_honest, subjects=2)),
    "a crowd below that of a group": ("crowd", make_change(publish_pairs, crowd=2)),
    "groups below k": ("size", lambda: [publish_pairs(4)]),
    "a member of a group without a record": ("alike", drop_record),
    "a record unlike those of its group": ("alike", change_record),
    "a hiding set of a group": (
        "sets",
        lambda: [
            dataclasses.replace(r, hiding=[(r.rows[0].record, 0.0, 1.0, [r.rows[-1].record])])
            for r in [publish_pairs()]
        ],
    ),
    "a hiding set of who says nothing": ("sets", lambda: add_silent_set(make_honest())),
    "a subject picked k - 2 times": ("k-pick", lambda: pick_less(publish_at_one_place())),
    "two who exchanged others": ("carried", lambda: set_swaps(make_honest())),
    "a partner again": ("reuse", lambda: set_swaps(publish_at_one_place(16, 6))),
    "all partners again": ("leak", lambda: publish_carelessly("reckless", reuse="apart")),
    "a side narrowed": (
        "hidden",
        lambda: itertools.chain(*(iter_variants(make_honest(), make_narrowing(side)) for side in range(4))),
    ),
    "fewer than k silent": ("silence", lambda: publish_carelessly("no_silence")),
    "k of one": ("decidable", lambda: [dataclasses.replace(r, params=r.params | {"k": 1}) for r in [make_honest()]]),
}


CAUGHT_ALONE = {clause for clause, _ in ALONE.values()}


@pytest.mark.parametrize("name", ALONE)
def test_each_clause_catches_what_no_other_does(name):
    clause, releases = ALONE[name]
    assert is_alone(releases(), clause)


def test_a_hiding_set_reused_is_refused():
    release, met = make_honest(3), 0
    for a, b in itertools.permutations(range(len(release.hiding)), 2):
        if release.hiding[a][0] == release.hiding[b][0] and (a + b) % 3 == 0:
            other = release.copy()
            other.hiding[b] = (*release.hiding[b][:3], list(release.hiding[a][3]))
            clauses = find_broken(other)
            assert clauses & {"reuse", "sets"}
            met += "reuse" in clauses
    assert met > 5


def list_ends(release):
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
    for places in list_ends(make_honest(k)):
        release = make_honest(k)
        for at in reversed(places):
            del release.hiding[at]
        assert {"sets", "k-pick"} <= find_broken(release)
        for at in places:
            release = make_honest(k)
            del release.hiding[at]
            assert {"sets", "k-pick"} <= find_broken(release)


@pytest.mark.parametrize("k", [2, 3])
def test_the_others_of_a_window_within_reused_beyond_an_end_are_refused(k):
    """All of them: so each is still picked often enough, and carried there."""
    step, reused = make_honest(k).params["leak_s"], 0
    for places, by in zip(list_ends(make_honest(k)), (step, -step), strict=True):
        release = make_honest(k)
        beside = {entry[:2]: entry[3] for entry in release.hiding}
        for at in places:
            owner, start, end, _ = release.hiding[at]
            if (owner, start + by) in beside:
                release.hiding[at] = (owner, start, end, list(beside[owner, start + by]))
                reused += 1
        assert "reuse" in find_broken(release)
    assert reused


def list_columns(release):
    return (release.data.t, GRID_S), (release.data.x, 100.0), (release.data.y, 100.0)


def test_a_sample_moved_out_of_its_region_is_refused():
    release, moved = make_honest(), 0
    owner = np.repeat(release.data.subject, np.diff(release.data.offset)).tolist()
    samples = [tuple(math.floor(v[i] / side) for v, side in list_columns(release)) for i in range(release.data.fixes)]
    for at in range(0, release.data.fixes, 3):
        twin = any((owner[i], samples[i]) == (owner[at], samples[at]) for i in range(len(owner)) if i != at)
        if twin or owner[at] not in [release.subject(record) for record in release.records()]:
            continue
        x = release.data.x.copy()
        x[at] += 5000.0
        other = dataclasses.replace(release, data=dataclasses.replace(release.data, x=x))
        if any(row.holds(samples[at]) for row in release.of(release.record(owner[at]))):
            assert "left-out" in find_broken(other)
            moved += 1
    assert moved > 5


@pytest.mark.parametrize("k", [2, 3])
def test_a_subject_picked_less_is_refused(k):
    for release in pick_less(make_honest(k), step=3 if k == 2 else 17):
        assert "k-pick" in find_broken(release) or "sets" in find_broken(release)
    fewer = make_honest(k)
    fewer.hiding[0][3].pop()
    assert {"sets", "k-pick"} <= find_broken(fewer)
    fewer.hiding.pop(0)
    assert {"sets", "k-pick"} <= find_broken(fewer)


def test_a_suppressed_window_filled_again_is_refused():
    release, filled = make_honest(), 0
    leak = release.params["leak_s"] // GRID_S
    for record in release.records():
        own = release.samples()[release.subject(record)]
        for epoch in {s[0] // leak for s in own}:
            mine = {s for s in own if s[0] // leak == epoch}
            if any(row.holds(s) for row in release.of(record) for s in mine):
                continue
            other = release.copy()
            rows = other.of(record)
            rows += make_rows(record, merge_samples([mine]), 2, 1)
            rows.sort(key=lambda row: row.start)
            for seq, row in enumerate(rows, 1):
                row.seq = seq
            other.rows = [row for row in other.rows if row.record != record] + rows
            reason = next(iter(other.suppressed["samples"]))
            other.suppressed["samples"][reason] -= len(mine)
            assert {"sets", "k-pick"} <= find_broken(other)
            filled += 1
    assert filled


def test_records_exchanged_are_refused():
    release = make_honest()
    for a, b in itertools.combinations(release.records(), 2):
        other = release.copy()
        turn = {a: b, b: a}
        other.members = [(turn.get(record, record), path, whole) for record, path, whole in other.members]
        mine = [release.samples()[release.subject(record)] for record in (a, b)]
        rows = [[(row.start, row.end, row.bounds) for row in release.of(record)] for record in (a, b)]
        if mine[0] != mine[1] and rows[0] != rows[1]:
            assert find_broken(other)


@pytest.mark.parametrize("k", [3, 4])
def test_another_k_than_the_rows_were_made_for_is_refused(k):
    release = make_honest(3)
    release.params["k"] = 2 if k == 3 else 4
    assert {"crowd", "sets"} <= find_broken(release)


@pytest.mark.parametrize(
    ("name", "value"),
    [("tau_s", 600), ("tau_s", 1500), ("leak_s", 60), ("grid_m", 150), ("grid_m", 50), ("grid_s", 30)],
)
def test_other_parameters_than_the_rows_were_made_with_are_refused(name, value):
    release = make_honest()
    release.params[name] = value
    assert find_broken(release)


def remove_row(release, rng, row, own):
    if len(own) > 1:
        release.rows.remove(row)


def resize_row(release, rng, row, own):
    side = rng.randrange(4)
    row.bounds[side] += rng.choice([-100.0, 100.0])
    if row.bounds[side % 2] >= row.bounds[side % 2 + 2]:
        row.bounds[side] += 100.0 if side >= 2 else -100.0


def move_begin(release, rng, row, own):
    before = max((r.last for r in own if r.last < row.first), default=row.first - 3)
    row.start = float(rng.randint(max(before + 1, row.first - 5), row.last) * GRID_S)


def move_end(release, rng, row, own):
    after = min((r.first for r in own if r.first > row.last), default=row.last + 3)
    row.end = float((rng.randint(row.first, min(after - 1, row.last + 5)) + 1) * GRID_S)


def silence_record(release, rng, row, own):
    leak = release.params["leak_s"] // GRID_S
    left = [r for r in own if r.first // leak != row.first // leak]
    if left:
        release.rows = [r for r in release.rows if r.record != row.record or r in left]


def fill_again(release, rng, row, own):
    known = sorted(release.samples()[release.subject(row.record)])
    free = [s for s in known if not any(r.first <= s[0] <= r.last for r in own)]
    release.rows += make_rows(row.record, [(slot, slot, (x, y, x, y)) for slot, x, y in free[:1]], row.crowd, 1)


def tamper(release: Release, rng: random.Random) -> None:
    """Change some row in a way that a plain adversary understands: rows stay in order, and have periods."""
    row = rng.choice(release.rows)
    change = rng.choice([remove_row, resize_row, move_begin, move_end, silence_record, fill_again])
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
        world = draw_world(rng, subjects=rng.randint(2 * k, 4 * k), epochs=epochs, leak=leak, cells=3, quiet=quiet)
        release = Publisher(world, params, rng, *how).publish()
        if release is None:
            continue
        for _ in range(rng.choice([0, 0, 1, 1, 3])):
            tamper(release, rng)
        verdict = find_broken(release)
        assert verdict & {"hidden", "silence"} == find_broken_by_oracle(release), seed
        guilty = find_broken_by_oracle(release, beyond=True)
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
    refused = [clause in find_broken(release) for release in publish_carelessly(how, **params)]
    assert sum(refused) >= 3
    assert not any(find_broken(release) for release in publish_carelessly(**params | {"reuse": "never"}))


def test_sets_without_windows_are_refused():
    """An owner's sets of all windows as one: everybody is in k - 1 of them, though not in every window."""
    release = make_honest()
    united = {}
    for owner, _, _, others in release.hiding:
        united.setdefault(owner, set()).update(others)
    release.hiding = [(owner, math.nan, math.nan, sorted(others)) for owner, others in united.items()]
    assert {"sets", "k-pick"} <= find_broken(release)


def test_made_up_samples_are_found_by_what_they_are():
    """Records of one subject each with a row moved beside the subject's samples, whatever the algorithm is called."""
    for algorithm in ("kte-hide", "k-merge"):
        release = make_honest()
        release.algorithm = algorithm
        for row in release.of(release.records()[0])[:1]:
            row.bounds = [side + 9000.0 for side in row.bounds]
        assert "truth" in find_broken(release)


# What cannot be decided.


@pytest.mark.parametrize("name", PARAMS)
def test_a_parameter_that_is_missing_is_refused(name):
    release = make_honest()
    del release.params[name]
    assert find_broken(release) == {"decidable"}


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
    release = make_honest()
    release.params[name] = value
    if name == "leak_s" and value == 60 << 21:
        release.params["tau_s"] = value
    assert find_broken(release) == {"decidable"}


def test_a_stretch_longer_than_the_data_is_one_window():
    rng = random.Random(4)
    world = draw_world(rng, subjects=8, epochs=3, leak=5, quiet=0)
    release = Publisher(world, {"tau_s": 86_400, "leak_s": 300}, rng).publish()
    assert find_broken(release) == set()
    assert attack(release.make_evidence()).figures["windows"] == 1
    release.hiding = [(owner, start, start + 900, others) for owner, start, _, others in release.hiding]
    assert find_broken(release) == set()
    release.hiding = [(owner, start, start + 600, others) for owner, start, _, others in release.hiding]
    assert "sets" in find_broken(release)


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
    assert find_broken(dataclasses.replace(make_honest(), suppressed=suppressed)) == {"decidable"}


def test_an_unknown_algorithm_is_refused():
    for algorithm in ("hide-a-mob", "glove", "w4m"):
        assert find_broken(rename_algorithm(algorithm)) == {"decidable"}


def move_far(release, **columns):
    return dataclasses.replace(release, data=dataclasses.replace(release.data, **columns))


def publish_nothing(data):
    nothing = np.empty(0)
    none = nothing.astype(np.int64)
    return dataclasses.replace(
        data, trajectory_id=none, subject=none, offset=np.zeros(1, np.int64), t=nothing, x=nothing, y=nothing
    )


def spread(release):
    t = release.data.t.copy()
    t[release.data.offset[1] - 1] += 6e9
    release.params |= {"leak_s": 60, "tau_s": 60}
    return move_far(release, t=t)


NONSENSE = {
    "no rows": lambda r: dataclasses.replace(r, rows=[]),
    "no data": lambda r: dataclasses.replace(r, data=publish_nothing(r.data)),
    "times that are none": lambda r: move_far(r, t=r.data.t + 1e13),
    "a place beyond all cells": lambda r: move_far(r, x=r.data.x + 1e17),
    "years of seconds between two fixes": spread,
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_makes_no_sense_is_refused(name):
    assert find_broken(NONSENSE[name](make_honest())) == {"decidable"}


BAD = [math.nan, math.inf, -math.inf, 1e300, -1e300]


@pytest.mark.parametrize("value", BAD)
def test_rows_and_sets_of_no_time_or_place_are_refused(value):
    for at in range(4):
        release = make_honest()
        release.rows[0].bounds[at] = value
        assert "region" in find_broken(release)
    for name in ("start", "end"):
        release = make_honest()
        setattr(release.rows[0], name, value)
        assert "period" in find_broken(release)
    release = make_honest()
    for at, column in itertools.product(range(3), (1, 2)):
        entry = list(release.hiding[at])
        entry[column] = value
        release.hiding[at] = tuple(entry)
    assert "sets" in find_broken(release)


def test_records_and_sets_of_nobody_are_refused():
    nobody = make_honest()
    nobody.members = []
    assert {"members", "truth", "left-out"} <= find_broken(nobody)
    lost = make_honest()
    record = lost.records()[0]
    lost.members = [member for member in lost.members if member[0] != record]
    assert {"members", "truth", "left-out", "sets"} <= find_broken(lost)
    unhidden = make_honest()
    unhidden.hiding = []
    assert {"sets", "k-pick"} <= find_broken(unhidden)
    strange = make_honest()
    strange.hiding[0] = (912_345, *strange.hiding[0][1:])
    assert "sets" in find_broken(strange)
    own = make_honest()
    own.hiding[0][3][0] = own.hiding[0][0]
    assert "sets" in find_broken(own)
    twice = make_honest(3)
    twice.hiding[0][3][0] = twice.hiding[0][3][1]
    assert "sets" in find_broken(twice)


def test_a_record_without_one_of_its_trajectories_is_refused():
    release = make_honest()
    counts = {}
    for record, _, _ in release.members:
        counts[record] = counts.get(record, 0) + 1
    record = next(record for record, number in counts.items() if number > 1)
    release.members.remove(next(member for member in release.members if member[0] == record))
    assert find_broken(release) == {"members"}


def test_one_person_in_two_records_and_two_in_one_are_refused():
    twice = make_honest()
    rows = [dataclasses.replace(row, record=912_345) for row in twice.of(twice.records()[0])]
    twice.rows += rows
    twice.members += [(912_345, path, whole) for record, path, whole in twice.members if record == twice.records()[0]]
    assert "members" in find_broken(twice)
    both = publish_at_one_place()
    a, b = both.records()[:2]
    both.members = [(a if record == b else record, path, whole) for record, path, whole in both.members]
    assert "members" in find_broken(both)
