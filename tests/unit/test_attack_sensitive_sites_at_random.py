import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.attacks.sensitive_sites.evidence import SiteEvidence
from tests.unit.attack_evidence import add, put, take
from tests.unit.site_evidence import SITE_PARAMS, SiteWorld, find_broken, join_evidence, move_side

# A plain publisher, on random data.


@st.composite
def publications(draw) -> tuple[SiteWorld, dict[int, list[int]], np.random.Generator]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, sites, k = draw(st.integers(8, 24)), draw(st.integers(1, 3)), draw(st.integers(2, 3))
    size, at = draw(st.integers(3, 20)), draw(st.sampled_from([None, "0", "-10"]))
    trips, shapes = {}, {}
    for subject in range(count):
        number = 1 if at is None else int(rng.integers(1, 4))
        times = np.sort(rng.choice(np.arange(-30.0, 30.0, 2.5), number, replace=False))
        split = int(rng.integers(0, number))
        fixes = [(float(t), *rng.uniform(-size, size, 2)) for t in times]
        ids = rng.permutation(2) * 1000 + 700_000 + subject
        trips |= {int(i): (subject, part) for i, part in zip(ids, (fixes[:split], fixes[split:]), strict=True) if part}
        if number == 1 and rng.random() < 0.2:
            low = rng.uniform(-size, size, 2)
            shapes[next(int(i) for i in ids if int(i) in trips)] = (*low, *(low + rng.uniform(0, 5, 2)))
    low = rng.uniform(-size, size, (sites, 2))
    places = {800_000 + i: (*low[i], *(low[i] + rng.integers(0, 2) * rng.uniform(0, 4, 2))) for i in range(sites)}
    guards = {"guard_m": draw(st.sampled_from([None, 2.5, 4.5])), "guard_inside": draw(st.booleans())}
    world = SiteWorld(trips, places, SITE_PARAMS | guards | {"k": k, "at": at, "max_gap_s": 20}, shapes, grid_m=1.5)
    order = rng.permutation(world.there).tolist()
    groups = {site: [order.pop() for _ in range(k) if order] for site in places}
    return world, groups, rng


def list_changes(evidence: SiteEvidence, where: int, rng: np.random.Generator) -> dict[str, SiteEvidence]:
    """All the ways in which one row may be tampered with."""
    record = evidence.cloak_record[where]
    side, grid_m = int(rng.integers(4)), evidence.trajectories.grid_m
    others = np.flatnonzero((evidence.cloak_bounds != evidence.cloak_bounds[where]).any(axis=1))
    other = evidence.cloak_bounds[rng.choice(others)] if len(others) else evidence.cloak_bounds[where] + 900
    return {
        "left out": take(evidence, "cloak", evidence.cloak_record != record),
        "without its member": take(evidence, "member", evidence.member_record != record),
        "wholly left out": take(
            take(evidence, "cloak", evidence.cloak_record != record), "member", evidence.member_record != record
        ),
        "another's region": put(evidence, "cloak_bounds", where, other),
        "a side moved": move_side(evidence, where, side, grid_m * rng.choice([-1, 1])),
        "the other kind": put(evidence, "cloak_cloaked", where, 1 - evidence.cloak_cloaked[where]),
        "no kind": put(evidence, "cloak_cloaked", where, -1),
        "a larger crowd": put(evidence, "cloak_crowd", where, evidence.cloak_crowd[where] + 1),
        "a smaller crowd": put(evidence, "cloak_crowd", where, evidence.cloak_crowd[where] - 1),
        "two people": put(evidence, "cloak_subjects", where, 2),
        "another time": put(evidence, "cloak_start_s", where, evidence.cloak_start_s[where] - 5),
        "twice": add(
            put(
                take(evidence, "cloak", np.append(np.arange(len(evidence.cloak_seq)), where)),
                "cloak_record",
                -1,
                910_000,
            ),
            "member",
            910_000,
            evidence.member_trajectory[evidence.member_record == record][0],
            True,
        ),
    }


@pytest.mark.stress
@settings(max_examples=80)
@given(publications())
def test_plain_publications_pass_and_each_change_of_a_row_is_refused(drawn):
    world, groups, rng = drawn
    k = world.params["k"]
    if any(len(group) < k for group in groups.values()):
        return
    evidence = world.make_evidence(world.guard(groups))
    assert find_broken(evidence) == set()
    where = int(rng.integers(len(evidence.cloak_seq)))
    for name, tampered in list_changes(evidence, where, rng).items():
        assert find_broken(join_evidence(tampered)), name


@settings(max_examples=80)
@given(publications())
def test_publications_of_groups_below_k_or_without_their_guards_are_refused(drawn):
    world, groups, _ = drawn
    k = world.params["k"]
    guarded = world.guard(groups)
    if any(len(group) < k for group in groups.values()):
        assert find_broken(world.make_evidence(groups))
    elif guarded != groups:
        assert find_broken(world.make_evidence(groups)) & {"nearest", "guards"}
