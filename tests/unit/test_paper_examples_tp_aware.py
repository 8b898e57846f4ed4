"""The worked examples of the paper, with the numbers its text still has.

The figures are lost; R3 is the root [1..4]^2, R2 is [1..2]^2 and R4 may be taken as [1..2]^2.
"""

import json

import numpy as np
import pytest

from dbanon.base.trajectory import Requests, Trajectories
from dbanon.methods import METHODS
from tests.unit import oracles_tp_aware as oracle

R2 = R4 = ((1, 1), (2, 2))
R3 = ((1, 1), (4, 4))

# Table 1: the cloak of each of five users.
P1 = {1: "R2", 2: "R2", 3: "R2", 4: "R3", 5: "R3"}
P2 = {1: "R3", 2: "R4", 3: "R4", 4: "R3", 5: "R3"}

# Example 3: places and requests at two instants.
HISTORIES = {
    "a": ([(1, 2), (1, 3)], ["v1", "v2"]),
    "b": ([(1, 2), (2, 2)], ["v3", None]),
    "c": ([(2, 2), (2, 2)], [None, "v4"]),
    "s": ([(2, 1), (4, 4)], ["v5", None]),
    "t": ([(3, 3), (3, 3)], [None, "v6"]),
}
# Example 4.
BUNDLES = {
    1: ([R2, R3], [{"v1", "v3", "v5"}, {"v2", "v4"}]),
    2: ([R3, R3], [{"v1", "v3", "v5"}, {"v2", "v4", "v6"}]),
    3: ([R2, R4], [{"v3"}, {"v4"}]),
    4: ([R3, R4], [{"v3"}, {"v4"}]),
}
P3 = {"a": 1, "b": 3, "c": 3, "s": 1, "t": 2}
P4 = {"a": 2, "b": 3, "c": 3, "s": 2, "t": 2}


def find_suspects(policy, user):
    return {u for u, cloak in policy.items() if cloak == policy[user]}


def count_crowds(policy):
    return {b: sum(x == b for x in policy.values()) for b in policy.values()}


@pytest.fixture
def data():
    places = np.array([places for places, _ in HISTORIES.values()], float)
    return Trajectories(
        trajectory_id=np.arange(5), subject=np.arange(5), offset=np.arange(0, 11, 2), t=np.tile([0.0, 60.0], 5),
        x=places[..., 0].ravel(), y=places[..., 1].ravel(), srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def run(data, **params):
    family = METHODS["tp-aware"]
    chosen = family.parse({"k": 2, "instants": 2, **params})
    return family.anonymise(data, "traj-anon", chosen, np.random.default_rng(0))


def list_groups(cloaks):
    return {frozenset(cloaks.member_trajectory[cloaks.member_record == r].tolist()) for r in cloaks.record_id}


def test_example_1_each_snapshot_alone_hides_every_sender_among_two_or_more():
    for policy in (P1, P2):
        assert all(len(find_suspects(policy, user)) >= 2 for user in policy)


def test_example_2_linking_two_snapshots_breaks_what_each_alone_keeps():
    assert find_suspects(P1, 1) == {1, 2, 3}
    assert find_suspects(P2, 1) == {1, 4, 5}
    assert find_suspects(P1, 1) & find_suspects(P2, 1) == {1}


def test_example_2_a_record_of_traj_anon_has_the_same_members_at_every_instant(data):
    cloaks = run(data)
    # A membership is of a record, and a record has one row an instant: there is nothing to intersect.
    assert all(np.array_equal(cloaks.seq[cloaks.record_id == r], [1, 2]) for r in np.unique(cloaks.record_id))
    assert all(len(g) >= 2 for g in list_groups(cloaks))


def test_example_5_who_is_masked_by_which_bundle():
    masked = {b: {u for u, h in HISTORIES.items() if oracle.is_masking(*bundle, *h)} for b, bundle in BUNDLES.items()}
    assert masked[1] == {"a", "b", "c", "s"}
    assert masked[2] == {"a", "b", "c", "s", "t"}
    assert masked[3] == {"b", "c"}
    assert masked[4] == {"b", "c"}


@pytest.mark.parametrize("policy", [P3, P4])
def test_examples_6_and_8_are_policies_because_every_bundle_masks_its_users(policy):
    assert all(oracle.is_masking(*BUNDLES[b], *HISTORIES[u]) for u, b in policy.items())


def test_example_7_one_bundle_with_one_candidate_breaks_2_anonymity():
    assert count_crowds(P3) == {1: 2, 3: 2, 2: 1}


def test_example_8_two_candidates_for_every_bundle_keep_2_anonymity():
    assert count_crowds(P4) == {2: 3, 3: 2}


def test_example_8_traj_anon_finds_a_policy_no_dearer_than_the_papers(data):
    papers = 3 * (16 + 16) + 2 * (4 + 4)
    for cloak in ("quadrant", "mbr"):
        cloaks = run(data, cloak=cloak)
        assert cloaks.metrics["mbr_cost_m2"] <= cloaks.metrics["quadrant_cost_m2"] <= papers
        assert list_groups(cloaks) == {frozenset({0, 1, 2}), frozenset({3, 4})}


def test_example_8_the_root_is_r3_and_members_lie_in_their_cloaks(data):
    cloaks = run(data, cloak="quadrant")
    root = cloaks.bounds[np.isin(cloaks.record_id, cloaks.member_record[cloaks.member_trajectory == 4])]
    assert root.tolist() == [[1, 1, 5, 5]] * 2  # cells [1..4]^2, half-open


def test_examples_3_to_5_requests_go_to_the_bundles_of_their_senders(data):
    contents = tuple(f'{{"poi": "v{i}"}}' for i in range(1, 7))
    sent = [(i, 60.0 * j, int(v[1]) - 1) for i, (_, r) in enumerate(HISTORIES.values()) for j, v in enumerate(r) if v]
    subject, t, content = (np.array(column) for column in zip(*sent, strict=True))
    requests = Requests(subject=subject, t=t, content=content, contents=contents)
    cloaks = METHODS["tp-aware"].attach(run(data), data, METHODS["tp-aware"].parse({}), requests=requests)
    assert [json.loads(cloaks.extras[e])["requests"] for e in cloaks.extra] == [
        [{"poi": "v1"}, {"poi": "v3"}],  # Alice, Bob and Carrol
        [{"poi": "v2"}, {"poi": "v4"}],
        [{"poi": "v5"}],  # Sam and Tom
        [{"poi": "v6"}],
    ]


def test_example_9_the_cost_depends_on_how_many_a_node_anonymises_not_on_whom():
    # Six in one cell and one beside it: whoever keeps that one company, three pay for the root's cloaks.
    cost = {run(make_beside(odd), k=3, cloak="quadrant").metrics["quadrant_cost_m2"] for odd in range(7)}
    assert cost == {4 * (1 + 1) + 3 * (4 + 4)}


def make_beside(odd):
    x = np.zeros((7, 2))
    x[odd] = 1
    return Trajectories(
        trajectory_id=np.arange(7), subject=np.arange(7), offset=np.arange(0, 15, 2), t=np.tile([0.0, 60.0], 7),
        x=x.ravel(), y=np.zeros(14), srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def test_example_10_a_node_of_the_u_tree_has_four_to_the_l_children_and_of_the_others_four_and_two():
    quarter = [(0, 0), (0, 1), (1, 0), (1, 1)]
    every = [[p, q] for p in quarter for q in quarter]
    u, us, binary = (
        oracle.grow_tree(every, s(2, 1), 1)
        for s in (oracle.list_u_steps, oracle.list_us_steps, oracle.list_binary_steps)
    )
    assert [len(u["children"]), len(us["children"]), len(binary["children"])] == [4**2, 4, 2]
    assert [len(oracle.iter_nodes(t)) for t in (u, us, binary)] == [1 + 16, 1 + 4 + 16, 1 + 2 + 4 + 8 + 16]
    leaves = [sorted(n["members"][0] for n in oracle.iter_nodes(t) if not n["children"]) for t in (u, us, binary)]
    assert leaves == [list(range(16))] * 3
