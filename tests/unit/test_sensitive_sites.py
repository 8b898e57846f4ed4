"""What sensitive-sites makes of subjects, sites and parameters: rows, guards, smaller rectangles, and its errors."""

import itertools
import random

import numpy as np
import pytest

from dbanon.base.errors import DataError, InfeasibleError, ParameterError
from dbanon.methods.sensitive_sites import _bichromatic, _guards, _improve, _monochromatic, _rows, _snapshot
from dbanon.methods.sensitive_sites._boxes import Boxes
from tests.facts import expect_refusal
from tests.unit.sensitive_sites_instances import draw_instance
from tests.unit.sensitive_sites_runs import FAMILY, list_rows, make_sites, make_subjects, run

ALGORITHMS = [a.name for a in FAMILY.algorithms]


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


def draw_crowd(rng, n, m, *, side=60, shaped=False):
    """Subjects and sites at random, many at the same place; rectangles where `shaped`."""

    def boxes(count):
        low = np.array([[rng.randrange(side), rng.randrange(side)] for _ in range(count)]).reshape(-1, 2)
        extent = np.array([[rng.choice([0, 0, 0, 3]) * shaped for _ in range(2)] for _ in range(count)]).reshape(-1, 2)
        return np.hstack([low, low + extent])

    return Boxes.from_array(boxes(n)), Boxes.from_array(boxes(m))


# ---- rows ------------------------------------------------------------------------------------------------------------


def test_subjects_of_a_site_share_its_rectangle_and_the_others_are_as_they_are():
    data = make_subjects([(10, 10), (12, 11), (50, 50), (90, 90)], t=[5.0, 130.0, 61.0, 0.0])
    cloaks = run(data, make_sites([(11.5, 15)]))
    assert list_rows(cloaks) == {
        5: ([10, 10, 13, 16], 2, True),
        8: ([10, 10, 13, 16], 2, True),
        11: ([50, 50, 51, 51], 1, False),
        14: ([90, 90, 91, 91], 1, False),
    }
    assert set(cloaks.start.tolist()) == {0}
    assert set(cloaks.end.tolist()) == {180}  # one period, from the first slot to the end of the last
    assert cloaks.metrics["subjects_cloaked"] == 2
    assert cloaks.metrics["ggc_percent"] == pytest.approx(100 * 3 * 6 / 81**2)


def test_at_an_instant_everybody_is_where_the_last_fix_was_and_who_is_not_seen_is_counted():
    data = make_subjects([(0, 0), (5, 5), (9, 9), (1, 1)], t=[0.0, 60.0, 0.0, 1000.0], subject=[0, 0, 1, 2])
    cloaks = run(data, make_sites([(6, 6)]), at=120, max_gap_s=120)
    assert list_rows(cloaks) == {8: ([5, 5, 10, 10], 2, True), 11: ([5, 5, 10, 10], 2, True)}
    left_out = {"absent_at_instant": 1}
    by_hour = [{"hour": "1970-01-01T00:00Z", "seen": 3, "published": 2, "left_out": left_out}]
    assert cloaks.suppressed == {"subjects": left_out, "by_hour": by_hour}
    assert (cloaks.start[0], cloaks.end[0]) == (120, 180)


def test_subjects_and_sites_that_are_shapes_count_by_their_bounds():
    data = make_subjects([(12, 11), (3, 3), (90, 90)])
    cloaks = run(data, make_sites([(10, 10, 14.5, 12)], {5: (11, 10, 13, 12.2), 11: (88, 88, 92.5, 92)}))
    assert list_rows(cloaks) == {
        5: ([3, 3, 15, 13], 2, True),
        8: ([3, 3, 15, 13], 2, True),
        11: ([88, 88, 93, 93], 1, False),
    }


def test_sites_with_the_same_rectangle_hide_their_subjects_together():
    data = make_subjects([(5, 5)] * 7)
    cloaks = run(data, make_sites([(5, 5), (5, 5)]), k=3)
    assert set(map(str, list_rows(cloaks).values())) == {"([5.0, 5.0, 6.0, 6.0], 7, True)"}


def test_a_far_site_costs_area_and_harms_nobody_else():
    near = [(x, y) for x in range(5) for y in range(5)]
    cloaks = run(make_subjects(near), make_sites([(2, 2), (10**6, 10**6)]))
    assert cloaks.metrics["subjects_cloaked"] == 4
    assert cloaks.metrics["gc_largest_m2"] > 0.99e12


# ---- guards ----------------------------------------------------------------------------------------------------------


def find_claims(subjects, sites, rank, site, *, reach, inside):
    """Say who must be added to which site, plainly: the nearest of those that claim, then the lowest by rank."""
    box = _guards.bound_sites(subjects, sites, site)
    found = {}
    for u in np.flatnonzero(site < 0).tolist():
        a = [int(c[u]) for c in subjects]
        for s in range(len(sites.x0)):
            b, c = [int(v[s]) for v in sites], [int(v[s]) for v in box]
            away = max(0, a[0] - b[2], b[0] - a[2]) ** 2 + max(0, a[1] - b[3], b[1] - a[3]) ** 2
            meets = a[0] <= c[2] and a[2] >= c[0] and a[1] <= c[3] and a[3] >= c[1]
            if away == 0 or away < reach**2 or (inside and meets):
                found[u] = min(found.get(u, (away, rank[s], s)), (away, rank[s], s))
    return {u: s for u, (*_, s) in found.items()}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("reach", [0.0, 4.5])
def test_guards_add_round_by_round_whoever_is_claimed_to_the_nearest_site(reach, inside):
    rng, rounds = random.Random(f"{reach} {inside}"), 0
    for _ in range(60):
        some, places = draw_crowd(rng, 40, 3, side=30, shaped=rng.random() < 0.5)
        site = np.full(40, -1, np.int32)
        site[rng.sample(range(40), 6)] = [0, 0, 1, 1, 2, 2]
        rank = rng.sample(range(3), 3)
        wanted, new = site.copy(), find_claims(some, places, rank, site, reach=reach, inside=inside)
        while new:
            wanted[list(new)] = list(new.values())
            new = find_claims(some, places, rank, wanted, reach=reach, inside=inside)
            rounds += 1
        found = _guards.add(some, places, np.array(rank), site, guard_m=reach, cell_m=1.0, guard_inside=inside)
        assert found.tolist() == wanted.tolist()
    assert rounds > 60 or not inside


def test_whoever_stands_on_a_site_is_hidden_with_it(algorithm):
    rng = random.Random(algorithm)
    for _ in range(20):
        points = [(rng.randrange(12), rng.randrange(12)) for _ in range(60)]
        places = [(rng.randrange(12), rng.randrange(12)) for _ in range(4)]
        told = list_rows(run(make_subjects(points), make_sites(places), algorithm, k=3))
        exact = {tuple(box[:2]) for box, _, cloaked in told.values() if not cloaked}
        assert not exact & set(places)


def test_guard_m_is_a_distance_between_cells_and_strictly_less():
    data = make_subjects([(0.05, 0), (0.35, 0), (1.15, 0), (1.25, 0)], grid_m=0.1)
    near = run(data, make_sites([(0, 0)]), guard_m=1.1)
    assert [cloaked for _, _, cloaked in list_rows(near).values()] == [True, True, False, False]
    nearer = run(data, make_sites([(0, 0)]), guard_m=1.15)
    assert [cloaked for _, _, cloaked in list_rows(nearer).values()] == [True, True, True, False]
    assert nearer.metrics["added_by_guards"] == 1
    assert nearer.metrics["ggc_percent"] > nearer.metrics["ggc_before_guards_percent"]


@pytest.mark.parametrize(("cell_m", "reach"), [(0.3, 0.9), (0.7, 2.1)])
def test_three_cells_are_not_nearer_than_three_cells_whatever_float64_makes_of_it(cell_m, reach):
    assert 3 * cell_m < reach
    data = make_subjects([(0, 0), (0, 0), (3.5 * cell_m, 0)], grid_m=cell_m)
    for guard_m, hidden in ((reach, 2), (reach + 1e-6, 3)):
        assert run(data, make_sites([(0, 0)]), guard_m=guard_m).metrics["subjects_cloaked"] == hidden


def test_of_sites_equally_near_the_lowest_by_rank_takes_a_subject():
    some, places = (Boxes.from_array([(x, y, x, y) for x, y in at]) for at in ([(2, 0)], [(0, 0), (4, 0), (2, 2)]))
    for rank in itertools.permutations(range(3)):
        found = _guards.add(
            some, places, np.array(rank), np.full(1, -1, np.int32), guard_m=3.0, cell_m=1.0, guard_inside=False
        )
        assert found.tolist() == [rank.index(0)]


def test_guard_inside_leaves_nobody_exact_in_a_rectangle():
    rng = random.Random(3)
    data = make_subjects([(rng.randrange(100), rng.randrange(100)) for _ in range(400)])
    places = make_sites([(rng.randrange(100), rng.randrange(100)) for _ in range(6)])
    told = list_rows(run(data, places, k=5, guard_inside=True)).values()
    for box, _, cloaked in told:
        if not cloaked:
            assert not any(c and b[0] <= box[0] < b[2] and b[1] <= box[1] < b[3] for b, _, c in told)


# ---- smaller rectangles ----------------------------------------------------------------------------------------------


def measure_rectangle(some, places, who, s):
    """Width and height of a site's rectangle, plainly."""
    boxes = [tuple(int(c[u]) for c in some) for u in who] + [tuple(int(c[s]) for c in places)]
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return max(x1) - min(x0) + 1, max(y1) - min(y0) + 1


@pytest.mark.stress
@pytest.mark.parametrize("shaped", [False, True])
def test_improving_keeps_k_subjects_for_each_site_and_makes_no_rectangle_longer_thinner_or_larger(shaped):
    rng, better = random.Random(shaped), 0
    for _ in range(300):
        k, m = rng.randint(1, 5), rng.randint(1, 8)
        some, places = draw_crowd(rng, k * m + rng.choice([0, 3, 60]), m, side=rng.choice([15, 60]), shaped=shaped)
        members = _bichromatic.find_best_starts(some, places, k)[:, None] + np.arange(k)
        found = _improve.improve(some, places, members)
        assert found.shape == members.shape
        assert len(np.unique(found)) == found.size
        for s in range(m):
            (w0, h0), (w1, h1) = (measure_rectangle(some, places, who[s], s) for who in (members, found))
            assert w1 * h1 <= w0 * h0 or len(places) > 1
            assert w1 + h1 <= w0 + h0
            assert max(w1, h1) <= max(_improve.MAX_ASPECT, max(w0, h0) / min(w0, h0)) * min(w1, h1) * (1 + 1e-12)
        before, after = (
            sum(np.prod(measure_rectangle(some, places, who[s], s)) for s in range(m)) for who in (members, found)
        )
        assert after <= before
        better += after < before
    assert better > 100


def test_shapes_of_which_the_best_span_is_not_tried_make_nothing_larger():
    some = Boxes.from_array(np.array([(9, 7, 9, 7), (1, 7, 1, 7), (8, 6, 13, 6), (8, 4, 12, 9)]))
    places = Boxes.from_array(np.array([(6, 0, 8, 2)]))
    members = _bichromatic.find_best_starts(some, places, 2)[:, None] + np.arange(2)
    found = _improve.improve(some, places, members)
    assert np.prod(measure_rectangle(some, places, found[0], 0)) <= np.prod(
        measure_rectangle(some, places, members[0], 0)
    )


def test_a_single_site_gets_the_least_rectangle_there_is_among_a_few_subjects(cases):
    wrong = 0
    for seed in cases(100):
        rng = random.Random(seed)
        some, places = draw_crowd(rng, 14, 1, side=25)
        members = _bichromatic.find_best_starts(some, places, 4)[:, None] + np.arange(4)
        w0, h0 = measure_rectangle(some, places, members[0], 0)
        aspect = max(_improve.MAX_ASPECT, max(w0, h0) / min(w0, h0))
        found = np.prod(measure_rectangle(some, places, _improve.improve(some, places, members)[0], 0))
        least = min(
            w * h
            for who in itertools.combinations(range(14), 4)
            for w, h in [measure_rectangle(some, places, who, 0)]
            if w + h <= w0 + h0 and max(w, h) <= aspect * min(w, h)
        )
        wrong += found > least
    assert 20 * wrong <= len(cases(100))  # what is thinner than it may be is not looked into further


def test_of_many_subjects_no_nearer_pair_of_sides_goes_with_the_other_pair():
    for seed in range(20):
        some, places = draw_crowd(random.Random(seed), 1000, 1, side=4000)
        members = _bichromatic.find_best_starts(some, places, 40)[:, None] + np.arange(40)
        w0, h0 = measure_rectangle(some, places, members[0], 0)
        who = _improve.improve(some, places, members)[0]
        sides = measure_rectangle(some, places, who, 0)
        lows = [min(low[who].min(), at[0]) for low, at in ((some.x0, places.x0), (some.y0, places.y0))]
        for own, site, other, low, span, kept in (
            (some.x0, places.x0[0], some.y0, lows[1], sides[0], sides[1]),
            (some.y0, places.y0[0], some.x0, lows[0], sides[1], sides[0]),
        ):
            row = np.sort(own[(other >= low) & (other < low + kept)])
            least = min(max(b, site) - min(a, site) + 1 for a, b in zip(row, row[39:], strict=False))
            thin = max(least, kept) > _improve.MAX_ASPECT * min(least, kept)
            assert least >= span or thin or least + kept > w0 + h0, seed


def improve_mapping(some, places, members):
    """Improve a mapping of subjects and sites given as points: the subjects of each site, sorted."""
    boxes = (Boxes.from_array([(x, y, x, y) for x, y in at]) for at in (some, places))
    return np.sort(_improve.improve(*boxes, np.array(members))).tolist()


def test_the_site_of_the_largest_rectangle_chooses_first_and_gives_its_subjects_back_for_others():
    # Both want subject 0. The second has 21 x 21 cells and is first; then the first may have what the second had.
    assert improve_mapping([(12, 12), (24, 24), (30, 30)], [(14, 14), (10, 10)], [[1], [2]]) == [[1], [0]]
    assert improve_mapping([(10, 10), (13, 13), (16, 16)], [(14, 14), (10, 10)], [[2], [1]]) == [[1], [0]]


def test_there_are_passes_until_the_gain_is_small():
    # Subject 1 is given back when the first site has had its turn.
    assert improve_mapping([(6, 6), (15, 15), (24, 24)], [(17, 17), (10, 10)], [[2], [1]]) == [[1], [0]]
    rng = random.Random(4)
    some, places = draw_crowd(rng, 400, 40, side=100)
    once = _improve.improve(some, places, _bichromatic.find_best_starts(some, places, 5)[:, None] + np.arange(5))
    before, after = (measure_total(some, places, who) for who in (once, _improve.improve(some, places, once)))
    assert before - after <= 2 * _improve.MIN_GAIN_SHARE * before


def test_no_rectangle_becomes_longer_or_thinner_though_it_would_be_smaller():
    # 10 x 10 cells; 5 x 19 would be longer, 1 x 10 too thin.
    assert improve_mapping([(9, 9), (9, 9), (4, 9), (0, -9)], [(0, 0)], [[0, 1]]) == [[0, 1]]
    assert improve_mapping([(9, 9), (9, 9), (0, 9), (0, 8)], [(0, 0)], [[0, 1]]) == [[0, 1]]
    # What is as thin already may stay so: 1 x 10 becomes 1 x 6.
    assert improve_mapping([(0, 9), (0, 9), (0, 5), (0, 4)], [(0, 0)], [[0, 1]]) == [[2, 3]]


@pytest.mark.parametrize("side", [-1, 1])
def test_of_many_subjects_near_a_site_those_are_looked_at_that_take_the_least_area(side):
    """Each of 1,400 would do alone, on a hyperbola; no two of them would, nor one with those whom the site has."""
    half = [(1 - wide, 1 - 300 * 3334 // wide) for wide in range(300, 1000)]
    far = half + [(y, x) for x, y in half]
    assert len(far) > _improve.CANDIDATES_PER_SITE
    some = [(side * x, side * y) for x, y in [(299, 3333), (299, 3333), *far, (2, 1), (1, 2)]]
    assert improve_mapping(some[:-2], [(0, 0)], [[0, 1]]) == [[0, 1]]
    assert improve_mapping(some, [(0, 0)], [[0, 1]]) == [[len(some) - 2, len(some) - 1]]


@pytest.mark.parametrize("side", [-1, 1])
def test_sides_far_out_are_tried_and_then_the_best_between_those_that_were(side):
    # Whoever is nearer in x is too far in y; each of the 60 is a side that may be tried, and the best one is not. By
    # the rectangle of the second site the gain is small: there is one pass.
    some = [(90, 90), (90, 90), *((x, 150) for x in range(1, 41)), *((46 + x, 30) for x in range(20))]
    assert len(some) - 2 > 2 * _improve.MAX_TRIED_SIDES
    mirrored = [(side * x, y) for x, y in [*some, (9000, 5000), (9000, 5000)]]
    assert improve_mapping(mirrored, [(0, 0), (side * 4000, 0)], [[0, 1], [62, 63]]) == [[42, 43], [62, 63]]


def measure_total(some, places, who):
    return int(sum(np.prod(measure_rectangle(some, places, who[s], s)) for s in range(len(places.x0))))


def test_the_search_begins_with_the_smaller_of_bk_and_the_windows_of_mk():
    rng, smaller = random.Random(2), 0
    for _ in range(60):
        some, places, k = draw_instance(rng, subjects=(30, 60), sites=(3, 6), k=rng.randint(2, 4))
        some, places = Boxes.from_array(some), Boxes.from_array(places)
        scene = _snapshot.Scene(
            subjects=some, sites=places, trajectory=np.arange(len(some.x0)), by_rank=np.arange(len(some.x0)),
            site_rank=np.arange(len(places.x0)), root=np.zeros(2), cell_m=1.0, domain=1, absent=0,
        )  # fmt: skip
        found = _rows.ALGORITHMS["bk"](scene, FAMILY.parse({"k": k}), np.random.default_rng(0))
        areas = found.metrics["gc_mean_m2"] * len(places.x0)
        bk, mk = _bichromatic.find_best_starts(some, places, k), _monochromatic.choose_windows(some, places, k)
        costs = [measure_total(some, places, start[:, None] + np.arange(k)) for start in (bk, mk) if start is not None]
        assert areas <= min(costs)
        smaller += costs[-1] < costs[0]
    assert smaller > 5


@pytest.mark.stress
@pytest.mark.parametrize("guards", [{}, {"guard_m": 6.0}, {"guard_inside": True}], ids=["none", "guard_m", "inside"])
def test_with_guards_too_improve_is_never_above_bk(guards):
    """Shapes, since a point inside a rectangle does not make it grow."""
    rng = random.Random(17)
    for _ in range(60):
        n, m, side = rng.randint(12, 60), rng.randint(2, 4), rng.choice([12, 30])
        points = [(rng.randrange(side), rng.randrange(side)) for _ in range(n)]
        data, longest = make_subjects(points), rng.choice([1, 8])
        corners = [(x, y, x + rng.randrange(longest), y + rng.randrange(longest)) for x, y in points]
        shapes = dict(zip(data.trajectory_id.tolist(), corners, strict=True))
        places = make_sites([(rng.randrange(side), rng.randrange(side)) for _ in range(m)], shapes)
        off, on = (run(data, places, improve=improve, k=3, **guards).metrics for improve in (False, True))
        assert on["ggc_percent"] <= off["ggc_percent"] == on["bk_ggc_percent"]


def test_improve_reports_what_bk_had_and_can_be_left_out():
    rng = random.Random(5)
    data = make_subjects([(rng.randrange(500), rng.randrange(500)) for _ in range(300)])
    places = make_sites([(rng.randrange(500), rng.randrange(500)) for _ in range(9)])
    plain, improved = run(data, places, improve=False, k=4), run(data, places, k=4)
    assert improved.metrics["bk_ggc_percent"] == plain.metrics["ggc_before_guards_percent"]
    assert improved.metrics["ggc_percent"] < plain.metrics["ggc_percent"]
    assert "bk_ggc_percent" not in plain.metrics


# ---- what is drawn ---------------------------------------------------------------------------------------------------


def test_mk_only_breaks_ties():
    both = make_sites([(3, 0), (4, 0)])
    assert (
        len({str(list_rows(run(make_subjects([(x, 0) for x in range(8)]), both, "mk", seed=s))) for s in range(20)})
        == 1
    )
    # The groups end up at one place, and both sites want the first.
    tied = make_subjects([(0, 0)] * 2 + [(50, 0)] * 2)
    assert len({str(list_rows(run(tied, make_sites([(0, 3), (0, 4)]), "mk", seed=s))) for s in range(20)}) == 1
    assert len({str(list_rows(run(tied, make_sites([(0, 3), (3, 0)]), "mk", seed=s))) for s in range(20)}) == 2


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "facts"),
    [
        ("bk", ("bk", "k = 2", "2 sites", "4 in all", 3)),
        ("mk", ("mk", "k = 2", "2 sites", "1 of 3 people")),
    ],
)
def test_too_few_subjects_are_infeasible(algorithm, facts):
    with expect_refusal(InfeasibleError, *facts):
        run(make_subjects([(0, 0), (1, 1), (2, 2)]), make_sites([(0, 0), (1, 1)]), algorithm)


def test_exactly_k_subjects_a_site_leave_one_solution_for_bk_and_mk_may_do_with_fewer_than_2k_minus_1(algorithm):
    data = make_subjects([(x, 0) for x in range(6)])
    both = make_sites([(0, 0), (5, 0)])
    assert run(data, both, algorithm, k=3).metrics["subjects_cloaked"] == 6


def test_no_site_is_bad_data(algorithm):
    with expect_refusal(DataError, "sensitive sites", "none"):
        run(make_subjects([(0, 0)] * 5), make_sites([]), algorithm)


def test_several_fixes_need_an_instant_and_an_instant_is_a_slot():
    data = make_subjects([(0, 0), (1, 1), (5, 5)], t=[0.0, 60.0, 0.0], subject=[0, 0, 1])
    with expect_refusal(ParameterError, "one fix", "'at'", "3 fixes", "2 people"):
        run(data, make_sites([(0, 0)]))
    with expect_refusal(ParameterError, "'at'", "sensitive-sites", "grid_s"):
        run(data, make_sites([(0, 0)]), at=30)
    with expect_refusal(ParameterError, "'at'", "sensitive-sites", "ISO 8601", "'noon'"):
        run(data, make_sites([(0, 0)]), at="noon")


@pytest.mark.parametrize(
    ("name", "value", "must"),
    [
        ("k", 1, "an integer >= 2"),
        ("guard_m", -1, "a number >= 0 and <= 100000 (m)"),
        ("guard_inside", "maybe", "on or off"),
    ],
)
def test_parameters_say_what_they_must_be(name, value, must):
    with expect_refusal(ParameterError, f"'{name}'", "sensitive-sites", must):
        FAMILY.parse({name: value})


def test_positions_too_far_apart_are_bad_data():
    with expect_refusal(DataError, "2^30 cells", "2e+09"):
        run(make_subjects([(0, 0), (2e9, 0)]), make_sites([(0, 0)]))
    with expect_refusal(DataError, "2^62 cells"):
        run(make_subjects([(0, 0), (1e9, 1e9)] * 8), make_sites([(0, 0)] * 8))


def test_what_an_algorithm_would_not_do_cannot_be_asked_of_it():
    data, places = make_subjects([(0, 0)] * 5), make_sites([(0, 0)])
    facts = "'improve'", "sensitive-sites", "bk", "mk"
    with expect_refusal(ParameterError, *facts):
        run(data, places, "mk", improve=False)
    parsed_for_another = FAMILY.parse({"improve": False}, "bk")
    with expect_refusal(ParameterError, *facts):
        FAMILY.anonymise(data, "mk", parsed_for_another, np.random.default_rng(0), sites=places)


@pytest.mark.parametrize(
    "points",
    [[(7, 7)] * 12, [(x, 4) for x in range(12)], [(4, y) for y in range(12)], [(x, x) for x in range(12)]],
    ids=["at one point", "along x", "along y", "on a diagonal"],
)
def test_degenerate_places_are_no_trouble(algorithm, points):
    cloaks = run(make_subjects(points), make_sites([points[0], points[5], points[5]]), algorithm)
    told = list_rows(cloaks).values()
    assert all(crowd >= 2 for _, crowd, cloaked in told if cloaked)
    assert sum(cloaked for _, _, cloaked in told) >= 6


# ---- since and until -------------------------------------------------------------------------------------------------


def test_only_fixes_from_since_to_until_are_considered():
    two = [(0, 0), (1, 0), (2, 0), (40, 0), (41, 0), (42, 0)]
    data = make_subjects(two, t=[0, 0, 0, 600, 600, 600], grid_s=60)
    late = run(data, make_sites([(40, 0)]), k=2, since=600)
    assert (len(late.record_id), late.start.min(), late.end.max()) == (3, 600, 660)
    early = run(data, make_sites([(0, 0)]), k=2, until=600)
    assert (len(early.record_id), early.start.min(), early.end.max()) == (3, 0, 60)
    with pytest.raises(InfeasibleError):
        run(data, make_sites([(0, 0)]), k=4, since=600)


def test_who_has_several_fixes_may_have_one_in_the_time_considered():
    data = make_subjects([(0, 0), (9, 9), (1, 0), (9, 8)], t=[0, 600, 0, 600], subject=[0, 0, 1, 1], grid_s=60)
    cloaks = run(data, make_sites([(0, 0)]), k=2, until=600)
    assert np.unique(cloaks.bounds, axis=0).tolist() == [[0, 0, 2, 1]]
    with pytest.raises(ParameterError, match="'at'"):
        run(data, make_sites([(0, 0)]), k=2)


@pytest.mark.parametrize("time", [{"until": 120}, {"until": 60}, {"since": 180}], ids=str)
def test_an_instant_outside_the_time_considered_is_refused(time):
    data = make_subjects([(0, 0), (1, 0), (2, 0)], t=[30, 30, 30], grid_s=60)
    assert run(data, make_sites([(0, 0)]), k=2, at=120, until=180).end.max() == 180
    with expect_refusal(ParameterError, "'at'", "'until'", "120"):
        run(data, make_sites([(0, 0)]), k=2, at=120, **time)


def test_a_shape_outside_the_time_considered_is_nobodys():
    data = make_subjects([(0, 0), (5, 5), (6, 5)], t=[0, 600, 600], grid_s=60)
    cloaks = run(data, make_sites([(5, 5)], shapes={5: (0, 0, 50, 50)}), k=2, since=600)
    assert np.unique(cloaks.bounds, axis=0).tolist() == [[5, 5, 7, 6]]
