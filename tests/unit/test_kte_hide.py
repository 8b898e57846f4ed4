"""kte-hide against its rules by plain loops, and against an adversary that looks through all windows."""

# ruff: noqa: C901, PLR0917 - the rules stand together, as plain loops

import random
from itertools import combinations, pairwise, product
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from dbanon.methods.kte._hide import _clusters, _cycles, hide
from dbanon.methods.kte._samples import Samples

SEED = 20170501
GRID_S, PER = 60, 3  # slots of an epoch
OPTIONS = [("never", False), ("never", True), ("apart", False), ("apart", True)]


def make_samples(rows):
    """Samples of a list of sets of (slot, x, y) a subject; the empty ones are left out."""
    codes = [code for code, some in enumerate(rows) if some]
    flat = np.array([row for code in codes for row in sorted(rows[code])], np.int64).reshape(-1, 3)
    offset = np.concatenate([[0], np.cumsum([len(rows[code]) for code in codes])]).astype(np.int64)
    slot, x, y = flat[:, 0].copy(), flat[:, 1].astype(np.int32), flat[:, 2].astype(np.int32)
    return Samples(subject=np.array(codes, np.int64), offset=offset, slot=slot, x=x, y=y, grid_s=GRID_S, grid_m=100.0)


def draw_instance(rng, people=(6, 14), epochs=(4, 8)):
    """People who are about in most epochs, some in few; by default 6 to 14 of them in 4 to 8 epochs."""
    epochs, presence = rng.randint(*epochs), rng.choice([0.7, 0.9, 1.0])
    rows = []
    for _ in range(rng.randint(*people)):
        some = set()
        for epoch in range(epochs):
            if rng.random() < presence:
                for _ in range(rng.randint(1, 4)):
                    some.add((epoch * PER + rng.randrange(PER) + 300, rng.randrange(6), rng.randrange(6)))
        rows.append(some)
    return make_samples(rows)


def run(samples, k, leaks=1, reuse="never", improve=False, people=_clusters.MEAN_CLUSTER_PEOPLE):
    """Hide them, with clusters of so many people."""
    leak = GRID_S * PER
    params = SimpleNamespace(k=k, tau_s=leaks * leak, leak_s=leak, reuse=reuse, improve=improve)
    rank = np.random.default_rng(3).permutation(int(samples.subject.max(initial=-1)) + 1)
    with patch.object(_clusters, "MEAN_CLUSTER_PEOPLE", people):
        return hide(samples, params, rank, np.random.default_rng(4))


def unpack(samples, hidden):
    """Kept samples and rows of each subject by epoch, and hiding sets by owner and first epoch."""
    kept, rows, sets, all_kept = {}, {}, {}, set()
    for i, e, b, d, published, why in zip(
        hidden.run_subject, hidden.run_epoch, hidden.run_begin, hidden.run_end, hidden.kept, hidden.reason, strict=True
    ):
        assert published == (why < 0)
        if published:
            kept[int(i), int(e)] = [(int(samples.slot[s]), int(samples.x[s]), int(samples.y[s])) for s in range(b, d)]
            all_kept.add(int(i))
    for i in range(len(samples.subject)):
        before = -1
        for c in range(hidden.merged.offset[i], hidden.merged.offset[i + 1]):
            first, last = int(hidden.merged.first[c]), int(hidden.merged.last[c])
            assert before < first <= last
            assert first // PER == last // PER
            before = last
            rows.setdefault((i, first // PER), []).append((first, last, *map(int, hidden.merged.box[c])))
    for h in range(len(hidden.owner)):
        others = hidden.other[hidden.other_offset[h] : hidden.other_offset[h + 1]]
        sets[int(hidden.owner[h]), int(hidden.start_s[h]) // (GRID_S * PER)] = [int(o) for o in others]
    return kept, rows, sets, all_kept


def is_inside(sample, row):
    t, x, y = sample
    return row[0] <= t <= row[1] and row[2] <= x <= row[4] and row[3] <= y <= row[5]


def check(samples, hidden, k, leaks, reuse):
    kept, rows, sets, publishing = unpack(samples, hidden)
    people = range(len(samples.subject))
    every = sorted({int(e) for e in hidden.run_epoch})
    if not every:
        return
    length = min(leaks + 1, every[-1] - every[0] + 1)
    beyond = leaks if length <= every[-1] - every[0] else 0
    starts = range(every[0] - beyond, every[-1] - length + 2 + beyond)
    assert set(rows) == set(kept)  # nothing suppressed appears, and nothing kept is missing
    for m in starts:
        epochs = range(m, m + length)
        pattern = {i: tuple((i, e) in kept for e in epochs) for i in people}
        active = [i for i in people if any(pattern[i])]
        assert sorted(i for i, start in sets if start == m) == active
        silent = sum(i in publishing for i in people if not any(pattern[i]))
        assert not active or silent == 0 or silent >= k
        picked = {i: [] for i in active}
        for i in active:
            others = sets[i, m]
            assert len(others) == len(set(others))
            assert i not in others
            assert len(others) == k - 1
            assert all(pattern[o] == pattern[i] for o in others)
            for o in others:
                picked[o].append(i)
        for i in active:
            assert len(set(picked[i])) == len(picked[i]) >= k - 1
            # No epoch outside the window in which all who picked it carry it again.
            for e in set(every) - set(epochs):
                carrying = [
                    o for o in picked[i] if any(i in sets.get((o, n), ()) for n in range(e - length + 1, e + 1))
                ]
                assert len(carrying) < len(picked[i])
    uses = {}
    for (i, m), others in sets.items():
        for o in others:
            uses.setdefault((i, o), []).append(m)
    for starting in uses.values():
        starting.sort()
        assert len(starting) == 1 or (reuse == "apart" and k > 2)
        assert all(b - a >= length + 1 for a, b in pairwise(starting))
    for (i, e), own in kept.items():
        merged = {i} | {o for m in range(e - length + 1, e + 1) for o in sets.get((i, m), ())}
        for o in merged:
            assert all(any(is_inside(s, row) for row in rows[i, e]) for s in kept[o, e])
            assert all(any(is_inside(s, row) for s in kept[o, e]) for row in rows[i, e])
        assert own
    demand_hidden(kept, rows, publishing, starts, length, k)


def demand_hidden(kept, rows, records, starts, length, k):
    """Who knows what somebody publishes in a window finds k records that fit, the right one among them."""
    for m in starts:
        for i in records:
            known = [s for e in range(m, m + length) for s in kept.get((i, e), ())]
            if not known:
                continue
            fitting = []
            for r in records:
                published = [row for e in range(m, m + length) for row in rows.get((r, e), ())]
                if all(any(is_inside(s, row) for row in published) for s in known) and all(
                    any(is_inside(s, row) for s in known) for row in published
                ):
                    fitting.append(r)
            assert i in fitting
            assert len(fitting) >= k


@pytest.mark.many
@pytest.mark.parametrize(("reuse", "improve"), OPTIONS)
@pytest.mark.parametrize("leaks", [1, 2])
@pytest.mark.parametrize("k", [2, 3])
def test_what_is_published_keeps_every_rule_and_withstands_the_adversary(cases, k, leaks, reuse, improve):
    rng, published = random.Random(SEED + k * 10 + leaks), 0
    for _ in cases(25):
        samples = draw_instance(rng)
        hidden = run(samples, k, leaks, reuse, improve, rng.choice([50, 5, 3]))
        check(samples, hidden, k, leaks, reuse)
        published += int(hidden.kept.sum())
    assert published


@pytest.mark.parametrize(("reuse", "improve"), OPTIONS)
@pytest.mark.parametrize("leaks", [1, 2])
def test_who_knows_a_moment_learns_no_more_than_its_epoch_at_the_ends_too(cases, leaks, reuse, improve):
    """The records that hide a person in any window that holds an epoch all carry the person in that epoch alone."""
    rng, ends = random.Random(SEED + leaks), 0
    for _ in cases(25):
        samples = draw_instance(rng, (12, 20), (leaks + 2, 4))
        hidden = run(samples, 2 if reuse == "never" else 3, leaks, reuse, improve)
        kept, _, sets, _ = unpack(samples, hidden)
        every = sorted({int(e) for e in hidden.run_epoch})
        if every[-1] - every[0] <= leaks:
            continue
        records, carried = {}, {}
        for (owner, start), others in sets.items():
            for other in others:
                records.setdefault((other, start), set()).add(owner)
                carried.setdefault((owner, other), set()).update(range(start, start + leaks + 1))
        for person, epoch in kept:
            starts = range(epoch - leaks, epoch + 1)
            assert all((person, start) in sets for start in starts)
            hiding = set().union(*(records[person, start] for start in starts))
            assert set.intersection(*(carried[record, person] for record in hiding)) == {epoch}
            ends += epoch in (every[0], every[-1])
    assert ends


def compute_cost(hidden):
    box = hidden.merged.box
    return int(((hidden.merged.last - hidden.merged.first + 1) * (box[:, 2:] - box[:, :2] + 1).sum(axis=1)).sum())


@pytest.mark.parametrize(("k", "reuse"), [(2, "never"), (3, "never"), (3, "apart")])
def test_improving_leaves_out_no_more_and_costs_no_more_a_sample(cases, k, reuse):
    rng, gained = random.Random(SEED), 0
    for _ in cases(40):
        samples = draw_instance(rng)
        people = rng.choice([50, 5, 3])
        plain, better = (run(samples, k, reuse=reuse, improve=improve, people=people) for improve in (False, True))
        numbers = [int((h.run_end - h.run_begin)[h.kept].sum()) for h in (plain, better)]
        assert numbers[1] >= numbers[0]
        assert compute_cost(better) * numbers[0] <= compute_cost(plain) * numbers[1]
        gained += compute_cost(better) * numbers[0] < compute_cost(plain) * numbers[1]
    assert gained


def test_the_same_seed_gives_the_same_and_codes_of_subjects_change_nothing():
    samples = draw_instance(random.Random(SEED))
    one, two = run(samples, 2, improve=True), run(samples, 2, improve=True)
    assert (one.other == two.other).all()
    assert (one.merged.box == two.merged.box).all()


def make_everyone(n, slots, place=lambda i: (0, 0)):
    return [{(slot, *place(i)) for slot in slots} for i in range(n)]


ODD = {
    "nobody": [],
    "one subject": make_everyone(1, range(300, 312)),
    "fewer than k": make_everyone(2, range(300, 312)),
    "a burst": [
        some | {(300, x, y) for x in range(20) for y in range(20)} for some in make_everyone(6, range(300, 306))
    ],
    "one in one epoch only": [*make_everyone(8, range(300, 306)), {(300, 1, 1)}],
    "nothing in between": make_everyone(8, [300, 301, 304, 90_000, 90_004]),
    "all at one point": make_everyone(9, range(300, 309)),
    "tau longer than the data": make_everyone(5, [300]),
    "far apart": make_everyone(8, range(300, 306), lambda i: (i * 1_000_000, -i)),
}


@pytest.mark.many
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", ODD)
def test_odd_input_is_hidden_or_suppressed(name, k):
    samples = make_samples(ODD[name])
    for leaks in (1, 2) if name != "tau longer than the data" else (9,):
        hidden = run(samples, k, leaks, improve=True)
        check(samples, hidden, k, leaks, "never")


def test_k_people_at_one_point_are_all_published():
    assert run(make_samples(make_everyone(9, range(300, 309))), 2).kept.all()


@pytest.mark.parametrize("improve", [False, True])
def test_people_of_clusters_smaller_than_k_are_hidden_by_those_of_others(improve):
    samples = make_samples(make_everyone(30, range(300, 312), lambda i: (2 * i, 0)))
    hidden = run(samples, 4, improve=improve, people=2)
    assert hidden.kept.all()
    check(samples, hidden, 4, 1, "never")


@pytest.mark.parametrize("d", [1, 2, 3])
def test_covers_are_found_if_and_only_if_there_are_any_and_cost_little_more_than_the_cheapest(d):
    """Against all choices of d others for everyone."""
    rng, found, best = np.random.default_rng(SEED + d), 0.0, 0.0
    for _ in range(60):
        n = 5
        allowed = (rng.random((n, n)) < rng.choice([0.6, 0.9])) & ~np.eye(n, dtype=bool)
        ways = product(*(list(combinations(np.flatnonzero(row).tolist(), d)) for row in allowed))
        ways = [way for way in ways if sorted(sum(way, ())) == sorted(list(range(n)) * d)]
        weights = rng.random((n, n)).astype(np.float32)
        chosen, blocked = _cycles.find_covers(weights, allowed, allowed, d + 1)
        assert (chosen is not None) == bool(ways) == (not blocked.any())
        if chosen is not None:
            assert all(sorted(chosen[:, c]) == list(range(n)) for c in range(d))
            assert all(len(set(row)) == d and allowed[i, row].all() for i, row in enumerate(chosen.tolist()))
            costs = [sum(weights[i, list(others)].sum() for i, others in enumerate(way)) for way in ways]
            found, best = found + np.take_along_axis(weights, chosen.astype(int), axis=1).sum(), best + min(costs)
    assert 0 < best <= found + 1e-3
    assert found <= 1.15 * best


def test_windows_begin_where_they_do_before_1970_too():
    """Times are whole numbers of either sign: none of them stands for an epoch without samples."""
    own = {(slot, x, 0) for x, slot in enumerate((-9, -8, -1, 2, 40))}
    for early in (0, -3000):
        hidden = run(make_samples([{(slot + early, x, y) for slot, x, y in own} for _ in range(8)]), 2)
        first = early // PER - 3
        starts = {int(s) // (GRID_S * PER) - first for s in hidden.start_s}
        assert starts == {-1, 0, 1, 2, 3, 15, 16}
