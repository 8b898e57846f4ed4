"""tp-aware: windows, who is published, what is suppressed, cloaks, figures, and joining requests."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.base.errors import DataError, InfeasibleError, ParameterError
from dbanon.base.trajectory import Requests, Trajectories
from dbanon.methods import METHODS
from tests.facts import expect_refusal
from tests.unit import oracles_tp_aware as oracle

FAMILY = METHODS["tp-aware"]
RNG = np.random.default_rng(0)


def make_dataset(paths, *, grid_m=1.0, grid_s=1):
    """From (subject, [(t, x, y), ...]) of each trajectory; ids 100, 101, ..."""
    t, x, y = np.array([fix for _, path in paths for fix in path], float).reshape(-1, 3).T.copy()
    return Trajectories(
        trajectory_id=np.arange(len(paths)) + 100, subject=np.array([s for s, _ in paths], np.int64),
        offset=np.cumsum([0, *(len(p) for _, p in paths)]),
        t=t, x=x, y=y, srid=32610, grid_m=grid_m, grid_s=grid_s,
    )  # fmt: skip


def draw_walkers(n, instants, *, seed=0, step_s=60, side=200.0, grid_m=1.0):
    rng = np.random.default_rng(seed)
    walk = rng.uniform(0, side, (n, 1, 2)) + rng.normal(0, 5, (n, instants, 2)).cumsum(axis=1)
    return make_dataset([(i, [(j * step_s, *walk[i, j]) for j in range(instants)]) for i in range(n)], grid_m=grid_m)


def run(data, **params):
    return FAMILY.anonymise(data, "traj-anon", FAMILY.parse(params), RNG)


def make_requests(data, sent, contents=('{"poi": "bank"}', '{"poi": "rest"}', '{"q": "x"}')):
    columns = list(zip(*sent, strict=True)) or [(), (), ()]
    subject, t, content = (np.array(c, kind) for c, kind in zip(columns, (np.int64, float, np.int64), strict=True))
    return Requests(subject=subject, t=t, content=content, contents=contents)


def make_still(subject, x, y, times=(0, 60, 120, 180)):
    return subject, [(t, x, y) for t in times]


def test_a_window_of_two_groups_becomes_two_records_of_tight_cloaks():
    data = make_dataset([make_still(0, 0, 0), make_still(1, 1, 2), make_still(2, 90, 90), make_still(3, 91, 90)])
    cloaks = run(data, k=2, instants=2)
    assert cloaks.record_id.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert cloaks.seq.tolist() == [1, 2] * 4
    assert cloaks.start.tolist() == [0, 60, 0, 60, 120, 180, 120, 180]
    assert (cloaks.end - cloaks.start).tolist() == [60] * 8
    assert cloaks.bounds[:4].tolist() == [[0, 0, 2, 3]] * 2 + [[90, 90, 92, 91]] * 2
    assert cloaks.crowd.tolist() == cloaks.subjects.tolist() == [2] * 8
    assert cloaks.member_record.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert cloaks.member_trajectory.tolist() == [100, 101, 102, 103] * 2
    assert cloaks.extra is None


def test_the_last_window_may_be_shorter():
    cloaks = run(draw_walkers(6, 7), k=3, instants=3, start=0)
    assert [w["instants"] for w in cloaks.suppressed["windows"]] == [3, 3, 1]
    assert cloaks.metrics["windows"] == 3
    assert cloaks.seq.max() == 3
    assert cloaks.end.max() == 7 * 60


def test_the_absent_and_the_few_are_suppressed_and_counted_by_reason_and_window():
    late = (4, [(60, 5, 5)])
    data = make_dataset(
        [*(make_still(i, i, 0, (0, 60)) for i in range(4)), late, *(make_still(i + 5, i, 0, (600,)) for i in range(2))]
    )
    cloaks = run(data, k=3, instants=2, max_gap_s=0)
    assert cloaks.suppressed == {
        "subjects": {"absent_at_some_instant": 1, "window_below_k": 2},
        "windows": [
            {"start": 0, "instants": 2, "seen": 5, "present": 4, "published": 4},
            *({"start": 120 * w, "instants": 2, "seen": 0, "present": 0, "published": 0} for w in range(1, 5)),
            {"start": 600, "instants": 1, "seen": 2, "present": 2, "published": 0},
        ],
        "by_hour": [
            {
                "hour": "1970-01-01T00:00Z",
                "seen": 7,
                "published": 4,
                "left_out": {"absent_at_some_instant": 1, "window_below_k": 2},
            }
        ],
        "guests": "on",
    }
    figures = {"windows": 6, "windows_published": 1, "bundles": 1, "subjects_published": 4, "subject_windows_seen": 7}
    assert figures.items() <= cloaks.metrics.items()
    assert cloaks.metrics["subject_windows_present"] == 6
    assert cloaks.metrics["subject_windows_published"] == 4
    assert cloaks.metrics["published_share"] == 4 / 7


def test_trajectories_of_one_subject_never_hide_each_other():
    twice = [make_still(i // 2, i, 0, (i % 2 * 60,)) for i in range(6)]
    cloaks = run(make_dataset(twice), k=3, instants=2)
    assert cloaks.crowd.tolist() == [3, 3]
    # The first trajectory of each supplies the first instant, the second the second.
    assert cloaks.member_trajectory.tolist() == list(range(100, 106))
    with expect_refusal(InfeasibleError, "k = 4", "at most 3"):
        run(make_dataset(twice), k=4, instants=2)


def test_a_trajectory_that_supplies_no_position_is_no_member():
    data = make_dataset([*(make_still(i, i, 0, (0, 60)) for i in range(3)), make_still(0, 9, 9, (30,))])
    assert run(data, k=3, instants=2).member_trajectory.tolist() == [100, 101, 102]


def test_nothing_published_at_all_is_infeasible():
    with expect_refusal(InfeasibleError, "k = 20", "at most 12", "max_gap_s"):
        run(draw_walkers(12, 4), k=20)


@pytest.mark.parametrize("params", [{"step_s": 90}, {"step_s": 60, "start": 30}])
def test_step_and_start_must_fit_the_time_grid(params):
    data = make_dataset([make_still(i, i, 0) for i in range(5)], grid_s=60)
    with expect_refusal(
        ParameterError, "'start'" if "start" in params else "'step_s'", "grid_s, 60 s", 30 if "start" in params else 90
    ):
        run(data, **params)


def test_start_moves_the_windows():
    data = draw_walkers(8, 6)
    late = run(data, k=3, instants=2, start=60)
    assert late.start.min() == 60


@pytest.mark.parametrize(
    ("params", "start"),
    [
        ({"max_gap_s": 50}, 180),  # 130 and 50 s
        ({"max_gap_s": 51}, 240),  # rounded up to the step
        ({"max_gap_s": 170}, 300),
        ({"max_gap_s": 171}, 120),  # no instant would be left
        ({"max_gap_s": 51, "until": 300}, 240),
        ({"max_gap_s": 51, "until": 299}, 120),
        ({"max_gap_s": 50, "align": "exact"}, 120),
        ({"max_gap_s": 50, "align": "linear"}, 120),
        ({"max_gap_s": 50, "start": 130}, 130),
        ({"max_gap_s": 50, "since": 131}, 131),
    ],
)
def test_windows_begin_by_default_max_gap_s_after_the_first_slot_rounded_up_to_the_step(params, start):
    data = make_dataset([make_still(i, i, 0, (130.9, 180, 240, 300)) for i in range(5)])
    assert run(data, instants=1, **params).suppressed["windows"][0]["start"] == start


def test_who_sends_a_position_every_max_gap_s_is_in_the_first_window():
    data = make_dataset([make_still(i, i, 0, range(50 * i, 900, 250)) for i in range(5)])
    assert run(data, k=5, instants=3).suppressed["windows"][0] == {
        "start": 300, "instants": 3, "seen": 5, "present": 5, "published": 5
    }  # fmt: skip
    with pytest.raises(InfeasibleError):
        run(data, k=5, instants=30, start=0)


def test_a_fix_of_a_wild_time_is_refused_or_costs_nothing():
    calm = [make_still(i, i, 0, range(0, 86400, 3600)) for i in range(5)]
    cloaks = run(
        make_dataset([*calm, make_still(9, 0, 0, (60.0 * 86400 * 365,))]), step_s=3600, instants=24, max_gap_s=3600
    )
    assert cloaks.metrics["windows_published"] == 1
    with expect_refusal(DataError, "100000 windows", "2 instants", "step_s"):
        run(make_dataset([*calm, make_still(9, 0, 0, (1e10,))]), instants=2)


def test_a_time_that_is_no_unix_time_is_refused():
    with expect_refusal(DataError, "unix seconds", 5138, 1):
        run(make_dataset([*(make_still(i, i, 0) for i in range(5)), make_still(9, 0, 0, (1e300,))]))


def test_a_wild_position_is_refused_with_a_sentence_without_coordinates():
    calm = [make_still(i, i, 0) for i in range(6)]
    with expect_refusal(DataError, "2^30 cells", "1e+12"):
        run(make_dataset([*calm, make_still(9, 1e12, 0)]))


def test_a_wild_fix_of_someone_unpublished_does_not_move_the_root():
    calm = [make_still(i, 10 + i, 10) for i in range(5)]
    wild = make_dataset([*calm, make_still(9, -1e9, 7e8, (0,))])
    kept = run(wild, instants=4, max_gap_s=0, cloak="quadrant")
    assert kept.bounds.tolist() == run(make_dataset(calm), instants=4, max_gap_s=0, cloak="quadrant").bounds.tolist()


@pytest.mark.parametrize(("asked", "side"), [(None, 10.0), (0, 10.0), (3, 10.0), (10, 10.0), (10.5, 20.0), (45, 50.0)])
def test_cells_are_min_cloak_m_rounded_up_to_the_grid(asked, side):
    data = make_dataset([make_still(i, 5, 5) for i in range(5)], grid_m=10.0)
    assert run(data, min_cloak_m=asked).bounds[0].tolist() == [0, 0, side, side]


def test_min_cloak_m_is_not_rounded_up_for_a_rounding_error():
    data = make_dataset([make_still(i, 0, 0) for i in range(5)], grid_m=0.1)
    assert run(data, min_cloak_m=1.1).bounds[0].tolist() == pytest.approx([0, 0, 1.1, 1.1])


@pytest.mark.parametrize("cloak", ["mbr", "quadrant"])
def test_cloaks_lie_on_the_cell_grid_and_hold_every_member(cloak):
    data = draw_walkers(60, 5, grid_m=4.0)
    cloaks = run(data, k=4, instants=5, cloak=cloak)
    assert (cloaks.bounds % 4 == 0).all()
    x, y = data.x.reshape(60, 5), data.y.reshape(60, 5)
    for record in np.unique(cloaks.record_id):
        who = cloaks.member_trajectory[cloaks.member_record == record] - 100
        box = cloaks.bounds[cloaks.record_id == record]
        for j, (xmin, ymin, xmax, ymax) in enumerate(box.tolist()):
            assert xmin <= x[who, j].min() <= x[who, j].max() < xmax
            assert ymin <= y[who, j].min() <= y[who, j].max() < ymax
        assert len(who) == cloaks.crowd[cloaks.record_id == record][0] >= 4


@pytest.mark.parametrize("cloak", ["mbr", "quadrant"])
def test_the_costs_are_the_areas_of_the_cloaks_summed_over_subjects(cloak):
    cloaks = run(draw_walkers(80, 6, grid_m=5.0), k=4, instants=3, cloak=cloak)
    side = cloaks.bounds[:, 2:] - cloaks.bounds[:, :2]
    cost = (side.prod(axis=1) * cloaks.crowd).sum()
    assert cost == cloaks.metrics[f"{cloak}_cost_m2"]
    assert cloaks.metrics["mbr_cost_m2"] < cloaks.metrics["quadrant_cost_m2"]
    assert cloaks.metrics["longer_side_50_m"] == np.median(side.max(axis=1))
    assert cloaks.metrics["smallest_crowd"] == cloaks.crowd.min() >= 4


def test_both_kinds_of_cloak_have_the_same_groups_and_costs():
    tight, wide = (run(draw_walkers(50, 4), k=3, instants=4, cloak=c, improve=False) for c in ("mbr", "quadrant"))
    assert tight.member_record.tolist() == wide.member_record.tolist()
    assert {k: v for k, v in tight.metrics.items() if "longer_side" not in k} == {
        k: v for k, v in wide.metrics.items() if "longer_side" not in k
    }


def test_all_windows_share_one_root():
    # Alone, the second window's root would begin at its own least cell.
    first, second = [(0, 0, 0), (60, 0, 0)], [(120, 37, 37), (180, 40, 40)]
    cloaks = run(make_dataset([(i, [*first, *second]) for i in range(3)]), k=3, instants=2, cloak="quadrant")
    assert cloaks.bounds.tolist() == [[0, 0, 1, 1]] * 2 + [[37, 37, 38, 38], [40, 40, 41, 41]]


def test_figures_and_counts_are_plain_numbers():
    cloaks = FAMILY.attach(
        run(data := draw_walkers(9, 4), k=3), data, FAMILY.parse({}), requests=make_requests(data, [(0, 0.0, 0)])
    )
    assert json.loads(json.dumps({**cloaks.metrics, **cloaks.suppressed})) == {**cloaks.metrics, **cloaks.suppressed}


def test_requests_are_joined_to_the_instant_whose_slot_holds_them():
    data = make_dataset([make_still(i, i, 0) for i in range(3)])
    cloaks = run(data, k=3, instants=2)
    sent = [(0, 0.0, 1), (1, 59.99, 0), (2, 60.0, 2), (2, 239.9, 2)]
    joined = FAMILY.attach(cloaks, data, FAMILY.parse({}), requests=make_requests(data, sent))
    texts = [None if e < 0 else joined.extras[e] for e in joined.extra.tolist()]
    both = '{"requests": [{"poi": "bank"}, {"poi": "rest"}]}'
    assert texts == [both, '{"requests": [{"q": "x"}]}', None, '{"requests": [{"q": "x"}]}']
    assert joined.metrics["requests_total"] == joined.metrics["requests_published"] == 4


def test_equal_requests_of_an_instant_are_one():
    data = make_dataset([make_still(i, i, 0) for i in range(3)])
    sent = [(0, 5.0, 1), (1, 6.0, 1), (1, 7.0, 1)]
    joined = FAMILY.attach(run(data, k=3), data, FAMILY.parse({}), requests=make_requests(data, sent))
    assert joined.extras == ('{"requests": [{"poi": "rest"}]}',)
    assert joined.metrics["requests_published"] == 3


def test_requests_nobody_carries_are_counted_by_reason():
    data = make_dataset([*(make_still(i, i, 0) for i in range(3)), make_still(3, 0, 0, (0,))])
    given = {"k": 3, "instants": 2, "max_gap_s": 0, "start": 0, "since": -60, "until": 300}
    cloaks = run(data, **given)
    # A guest at 0 and absent at 60; unknown sender; before the first window; after the last instant's slot; one
    # carried; other evenings.
    sent = [(3, 0.0, 0), (3, 60.0, 0), (-1, 0.0, 0), (0, -0.1, 0), (0, 240.0, 0), (0, 0.0, 1)]
    sent += [(1, 1e300, 0), (1, -60.1, 0)]
    joined = FAMILY.attach(cloaks, data, FAMILY.parse(given), requests=make_requests(data, sent))
    assert joined.suppressed["requests"] == {"sender_not_published": 1, "sender_absent": 1, "outside_windows": 2}
    assert joined.metrics["requests_total"] == 6
    assert joined.suppressed["windows"] == cloaks.suppressed["windows"]
    assert joined.metrics["requests_published"] == 2


def test_published_contents_of_one_subject_alone_are_counted():
    data = make_dataset([make_still(i, i, 0) for i in range(3)])
    # 0: two subjects; 1: one subject twice; 2: one publishes it, an unknown sender has it too.
    sent = [(0, 0.0, 0), (1, 60.0, 0), (0, 0.0, 1), (0, 60.0, 1), (1, 0.0, 2), (-1, 0.0, 2)]
    joined = FAMILY.attach(run(data, k=3), data, FAMILY.parse({}), requests=make_requests(data, sent))
    assert joined.metrics["requests_of_one_subject"] == 1
    assert joined.metrics["requests_of_few_subjects"] == 3  # k is 5
    few = FAMILY.attach(run(data, k=3), data, FAMILY.parse({"k": 2}), requests=make_requests(data, sent))
    assert few.metrics["requests_of_few_subjects"] == 1


def test_no_requests_leave_every_extra_null():
    data = make_dataset([make_still(i, i, 0) for i in range(3)])
    joined = FAMILY.attach(run(data, k=3), data, FAMILY.parse({}), requests=make_requests(data, []))
    assert set(joined.extra.tolist()) == {-1}
    assert joined.suppressed["requests"] == {"sender_not_published": 0, "outside_windows": 0}


SENT = st.lists(st.tuples(st.integers(-1, 29), st.floats(-100, 700, allow_nan=False), st.integers(0, 2)), max_size=40)


@given(sent=SENT)
def test_example_11_requests_never_change_who_is_with_whom(sent):
    data = draw_walkers(30, 10)
    cloaks = run(data, k=4, instants=4)
    joined = FAMILY.attach(cloaks, data, FAMILY.parse({}), requests=make_requests(data, sent))
    for name in (
        "record_id",
        "seq",
        "start",
        "end",
        "bounds",
        "crowd",
        "subjects",
        "member_record",
        "member_trajectory",
    ):
        assert np.array_equal(getattr(joined, name), getattr(cloaks, name))
    expected = {}
    for subject, t, content in sent:
        rows = np.flatnonzero((cloaks.start <= t) & (t < cloaks.end))
        own = cloaks.member_record[cloaks.member_trajectory == subject + 100]
        expected.update({(r, content): 1 for r in rows if cloaks.record_id[r] in own})
    made = {
        (row, content)
        for row, e in enumerate(joined.extra.tolist())
        if e >= 0
        for content in json.loads(joined.extras[e])["requests"]
        for content in [["bank", "rest", "x"].index(next(iter(content.values())))]
    }
    assert made == set(expected)


# ---- min_contents ----------------------------------------------------------------------------------------------------


def attach_requests(data, cloaks, sent, **params):
    return FAMILY.attach(cloaks, data, FAMILY.parse(params), requests=make_requests(data, sent))


def list_contents(cloaks, row):
    """The published requests of a row, as indices of the contents of `make_requests`."""
    known = ['{"poi": "bank"}', '{"poi": "rest"}', '{"q": "x"}']
    own = [] if cloaks.extra[row] < 0 else json.loads(cloaks.extras[cloaks.extra[row]])["requests"]
    return [known.index(json.dumps(content)) for content in own]


def test_rows_are_joined_from_the_first_request_on_until_they_have_min_contents():
    data = make_dataset([(i, [(60.0 * t, i + 10.0 * t, 0.0) for t in range(7)]) for i in range(3)])
    cloaks = run(data, k=3, instants=7, start=0)
    # Nothing; 0 and again 0 and 1: one row; nothing; 2 and 1 at once; 2: too few, with those before.
    sent = [(0, 60.0, 0), (1, 120.0, 0), (2, 130.0, 1), (0, 240.0, 2), (0, 240.0, 1), (1, 300.0, 2)]
    joined = attach_requests(data, cloaks, sent, min_contents=2)
    assert list(zip(joined.start.tolist(), joined.end.tolist(), strict=True)) == [
        (0, 60), (60, 180), (180, 240), (240, 360), (360, 420)
    ]  # fmt: skip
    assert [list_contents(joined, row) for row in range(5)] == [[], [0, 1], [], [1, 2], []]
    assert joined.bounds[:, [0, 2]].tolist() == [[0, 3], [10, 23], [30, 33], [40, 53], [60, 63]]
    assert joined.metrics["longer_side_50_m"] == 3
    assert joined.suppressed["requests"]["bundle_below_min_contents"] == 0
    assert joined.metrics["requests_published"] == 6


def test_a_bundle_with_fewer_contents_in_all_loses_them_and_no_other_bundle_does():
    data = make_dataset([*(make_still(i, i, 0) for i in range(3)), *(make_still(i, i + 500, 0) for i in range(3, 6))])
    cloaks = run(data, k=3, instants=4, start=0)
    sent = [(0, 0.0, 0), (1, 60.0, 0), (3, 0.0, 0), (4, 60.0, 1), (5, 180.0, 1), (-1, 0.0, 2)]
    joined = attach_requests(data, cloaks, sent, k=3, min_contents=2)
    assert joined.record_id.tolist() == [1, 1, 1, 1, 2]
    assert [list_contents(joined, row) for row in range(5)] == [[], [], [], [], [0, 1]]
    assert joined.suppressed["requests"] == {
        "sender_not_published": 1, "outside_windows": 0, "bundle_below_min_contents": 2
    }  # fmt: skip
    assert joined.metrics["requests_published"] == 3
    assert joined.metrics["requests_of_few_subjects"] == 1  # of what is published: 1, which two subjects sent


@pytest.mark.stress
@pytest.mark.parametrize("cloak", ["mbr", "quadrant"])
@settings(max_examples=60)
@given(sent=SENT, least=st.integers(1, 4))
def test_joined_rows_are_those_of_the_plain_rule(cloak, sent, least):
    data = draw_walkers(30, 10)
    cloaks = run(data, k=4, instants=4, start=0, cloak=cloak)
    joined = attach_requests(data, cloaks, sent, min_contents=least)
    row = 0
    for record in range(1, len(cloaks.offset)):
        own = np.arange(*cloaks.offset[record - 1 : record + 1])
        members = set((cloaks.member_trajectory[cloaks.member_record == record] - 100).tolist())
        sets = [{c for s, t, c in sent if s in members and cloaks.start[r] <= t < cloaks.end[r]} for r in own]
        expected = oracle.join_rows(sets, least)
        for first, last in expected or [(i, i) for i in range(len(own))]:
            box = cloaks.bounds[own[first : last + 1]]
            assert joined.record_id[row] == record
            assert (joined.start[row], joined.end[row]) == (cloaks.start[own[first]], cloaks.end[own[last]])
            assert joined.bounds[row].tolist() == [*box[:, :2].min(axis=0), *box[:, 2:].max(axis=0)]
            assert joined.crowd[row] == joined.subjects[row] == len(members)
            union = set().union(*sets[first : last + 1]) if expected else set()
            assert list_contents(joined, row) == sorted(union)
            row += 1
    assert row == joined.rows


@settings(max_examples=40)
@given(sent=SENT, least=st.integers(2, 4), shuffle=st.randoms(use_true_random=False))
def test_joining_does_not_depend_on_which_member_of_a_bundle_sent_what(sent, least, shuffle):
    data = draw_walkers(30, 10)
    cloaks = run(data, k=4, instants=10, start=0)
    bundles = [
        (cloaks.member_trajectory[cloaks.member_record == r] - 100).tolist() for r in np.unique(cloaks.record_id)
    ]
    other = {s: mates for mates in bundles for s in mates}
    swapped = [(shuffle.choice(other[s]) if s in other else s, t, c) for s, t, c in sent]
    one, two = (attach_requests(data, cloaks, each, min_contents=least) for each in (sent, swapped))
    for name in ("record_id", "start", "end", "bounds", "extra"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert one.extras == two.extras


# ---- since and until -------------------------------------------------------------------------------------------------


def test_windows_begin_at_since_with_positions_up_to_max_gap_s_older():
    data = make_dataset([(i, [(0, i, 0), (300, i, 0)]) for i in range(3)])
    cloaks = run(data, k=3, instants=1, since=60, max_gap_s=60)
    assert cloaks.start.tolist() == [60, 300]  # at 60 by the fixes of time 0
    assert cloaks.suppressed["windows"][0] == {"start": 60, "instants": 1, "seen": 3, "present": 3, "published": 3}
    assert run(data, k=3, instants=1, since=60, max_gap_s=59).start.tolist() == [300]


def test_every_row_ends_before_until_and_later_fixes_give_no_position():
    data = make_dataset([make_still(i, i, 0, (0, 60, 120, 180)) for i in range(3)])
    assert run(data, k=3, instants=1, until=150).end.max() == 120
    assert run(data, k=3, instants=1, until=120).end.max() == 120
    # Between 60 and 180 only with the later fix.
    gap = make_dataset([make_still(i, i, 0, (0, 60, 180)) for i in range(3)])
    linear = {"k": 3, "instants": 1, "align": "linear", "max_gap_s": 300}
    assert run(gap, **linear).start.tolist()[:3] == [0, 60, 120]
    assert run(gap, **linear, until=180).start.tolist() == [0, 60]


def test_a_run_of_part_of_the_data_is_that_of_a_dataset_of_that_part():
    data = draw_walkers(40, 10)
    part = run(data, k=4, instants=3, since=120, until=420, max_gap_s=0)
    early = np.repeat(np.arange(len(data.trajectory_id)), np.diff(data.offset))
    kept = (data.t >= 120) & (data.t < 420)
    size = np.bincount(early[kept], minlength=len(data.trajectory_id))
    cut = dataclasses.replace(
        data, trajectory_id=data.trajectory_id[size > 0], subject=data.subject[size > 0],
        offset=np.append(0, np.cumsum(size[size > 0])), t=data.t[kept], x=data.x[kept], y=data.y[kept],
    )  # fmt: skip
    whole = run(cut, k=4, instants=3, max_gap_s=0)
    for name in ("record_id", "start", "end", "bounds", "crowd", "member_record", "member_trajectory"):
        assert np.array_equal(getattr(part, name), getattr(whole, name)), name
    assert part.suppressed == whole.suppressed


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"since": 7}, "since"),
        ({"until": 61}, "until"),
        ({"since": 60, "until": 60}, "until"),
        ({"start": 0, "since": 60}, "start"),
    ],
)
def test_since_and_until_are_slots_in_their_order(params, name):
    data = dataclasses.replace(make_dataset([make_still(i, i, 0) for i in range(3)]), grid_s=60)
    with pytest.raises(ParameterError, match=f"'{name}'"):
        run(data, k=3, **params)
