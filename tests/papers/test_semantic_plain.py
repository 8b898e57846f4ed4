"""The plain statement of `semantic`: the paper's numbers, brute force on small graphs, what holds of each result."""

# ruff: noqa: E741 - the names of the paper

import random
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import inf, log

import pytest

from tests.papers import plain_semantic as plain
from tests.papers.plain_semantic import (
    Graph,
    Point,
    compute_cost,
    compute_kl,
    compute_theta,
    connect,
    draw_case,
    grow,
    merge_regions,
    reshape_points,
)
from tests.unit.semantic_cases import Loss, draw_city, make_grid

SEEDS = range(120)
SHANGHAI = [275366, 8417, 5735, 255352, 10880, 268305]  # table II: entertainment, education, scenery, business, ...
EIGHT_HOURS = Loss(span_slots=480, area_mm2=25e12, weight_time=0.5)  # slots of a minute
KM2 = 10**12


def make_graph(edges, area, pois=None, l=0, t=inf):
    neighbours = {cell: set() for cell in range(len(area))}
    for i, j in edges:
        neighbours[i].add(j)
        neighbours[j].add(i)
    return Graph(neighbours, area, pois or [[] for _ in area], l, t)


def make_line(count, **kwargs):
    return make_graph(pairwise(range(count)), [1] * count, **kwargs)


def make_cells(*some):
    return frozenset(some)


def make_point(start, end, *some):
    return Point(start, end, make_cells(*some))


def is_connected(graph, region):
    found, last = set(), {min(region)}
    while last:
        found |= last
        last = plain.list_around(graph, last) & region - found
    return found == region


@cache
def merge_case(seed):
    case = draw_case(seed)
    return case, plain.merge_greedily(case.graph, case.loss, case.trajectories, case.subjects, case.slots, case.k)


# ---- what is in a region


def test_a_place_of_business_alone_diverges_by_the_logarithm_of_its_share():
    """Figure 2(a) with the counts of table II: ln(824,055 / 255,352) nats."""
    graph = make_line(2, pois=[[0, 0, 0, 7, 0, 0], [*SHANGHAI[:3], SHANGHAI[3] - 7, *SHANGHAI[4:]]])
    assert compute_kl(graph, make_cells(0)) == pytest.approx(log(824055 / 255352)) == pytest.approx(1.17159, abs=1e-5)
    assert plain.count_categories(graph, make_cells(0)) == 1


def test_the_whole_city_and_a_fair_sample_of_it_diverge_by_nothing():
    graph = make_line(2, pois=[[1, 2, 0], [3, 6, 0]])
    assert compute_kl(graph, make_cells(0, 1)) == compute_kl(graph, make_cells(0)) == 0
    assert plain.count_categories(graph, make_cells(0, 1)) == 2


def test_nothing_of_interest_diverges_without_end():
    graph = make_line(2, pois=[[0, 0], [3, 6]])
    assert compute_kl(graph, make_cells(0)) == inf


# ---- merging two points


@pytest.mark.parametrize("end", [5, 7, 11, 20])
def test_a_period_holds_both_whether_they_lie_apart_overlap_or_contain_each_other(end):
    """Figure 4."""
    assert plain.merge_points(make_line(1), make_point(0, end, 0), make_point(7, 11, 0)) == make_point(
        0, max(end, 11), 0
    )
    assert plain.merge_points(make_line(1), make_point(7, 11, 0), make_point(0, end, 0)) == make_point(
        0, max(end, 11), 0
    )


A, B, C, D, E, F = range(6)
TWO_WAYS = [(A, C), (C, D), (D, B), (A, E), (E, F), (F, B)]


def test_the_smaller_of_two_ways_connects():
    """Figure 5: A and B are connected by C and D, or by E and F."""
    assert connect(make_graph(TWO_WAYS, [9, 9, 1, 4, 2, 2]), make_cells(A), make_cells(B)) == {A, B, E, F}
    assert connect(make_graph(TWO_WAYS, [9, 9, 1, 2, 2, 2]), make_cells(A), make_cells(B)) == {A, B, C, D}


def test_the_same_and_neighbours_need_nothing_between():
    graph = make_graph(TWO_WAYS, [1] * 6)
    assert connect(graph, make_cells(A), make_cells(A)) == {A}
    assert connect(graph, make_cells(A), make_cells(C)) == {A, C}
    assert connect(graph, make_cells(A, C), make_cells(C, D)) == {A, C, D}


def test_of_equally_large_ways_that_of_fewest_cells_connects():
    ways = [*TWO_WAYS, (A, 6), (6, B)]
    assert connect(make_graph(ways, [9, 9, 2, 2, 2, 2, 4]), make_cells(A), make_cells(B)) == {A, B, 6}


def test_of_equal_ways_the_last_step_has_the_lowest_cell_so_the_order_of_two_regions_may_matter():
    """A - C - F - B and A - D - E - B: from A, E is the lower end; from B, C is."""
    graph = make_graph([(A, C), (C, F), (F, B), (A, D), (D, E), (E, B)], [1] * 6)
    assert connect(graph, make_cells(A), make_cells(B)) == {A, B, D, E}
    assert connect(graph, make_cells(B), make_cells(A)) == {A, B, C, F}


def draw_region(rng, graph, most):
    """A connected one."""
    region = {rng.choice(sorted(graph.neighbours))}
    for _ in range(rng.randrange(most)):
        region |= (
            set(rng.sample(sorted(plain.list_around(graph, region)), 1)) if plain.list_around(graph, region) else set()
        )
    return frozenset(region)


def list_ways(graph, path, goal):
    """All ways on from the end of a path, not through a cell twice, to cells beside the goal."""
    if graph.neighbours[path[-1]] & goal:
        yield path
    for near in graph.neighbours[path[-1]] - set(path) - goal:
        yield from list_ways(graph, [*path, near], goal)


@pytest.mark.parametrize("seed", range(80))
def test_no_way_is_smaller_or_comes_before_it(seed):
    rng = random.Random(seed)
    neighbours, area, pois = draw_city(rng, 12)
    graph = Graph(neighbours, area, pois, 0, inf)
    a, b = draw_region(rng, graph, 3), draw_region(rng, graph, 3)
    made = connect(graph, a, b)
    if a & b or plain.list_around(graph, a) & b:
        assert made == a | b
        return
    every = [way for start in plain.list_around(graph, a) for way in list_ways(graph, [start], b)]
    # Of the last cells the least, of those before them the least, and so on.
    best = min(every, key=lambda way: (plain.measure_area(graph, way), len(way), way[::-1]))
    assert made == a | b | set(best)


def test_a_region_takes_what_adds_most_categories_then_the_smaller_then_the_first():
    star = [(0, 1), (0, 2), (0, 3), (0, 4)]
    pois = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert grow(make_graph(star, [1, 5, 5, 5, 1], pois, l=2), make_cells(0)) == {0, 1}
    assert grow(make_graph(star, [1, 5, 5, 4, 1], pois, l=2), make_cells(0)) == {0, 3}
    pois[2] = [0, 1, 1]
    assert grow(make_graph(star, [1, 5, 5, 4, 1], pois, l=2), make_cells(0)) == {0, 2}
    assert grow(make_graph(star, [1, 5, 5, 4, 1], pois, l=1), make_cells(0)) == {0}


def test_a_region_takes_a_cell_that_adds_nothing_where_all_do():
    assert grow(make_line(4, pois=[[1, 0], [0, 0], [0, 0], [0, 1]], l=2), make_cells(0)) == {0, 1, 2, 3}


def test_a_region_takes_what_brings_it_nearest_to_the_city_then_the_smaller_then_the_first():
    star, pois = [(0, 1), (0, 2), (0, 3)], [[2, 0], [0, 2], [0, 2], [2, 0]]
    assert grow(make_graph(star, [1, 5, 5, 1], pois, t=0.01), make_cells(0)) == {0, 1}
    assert grow(make_graph(star, [1, 5, 4, 1], pois, t=0.01), make_cells(0)) == {0, 2}
    assert grow(make_graph(star, [1, 5, 4, 1], pois, t=0.7), make_cells(0)) == {0}  # ln 2 = 0.693
    assert grow(make_graph(star, [1, 5, 4, 1], [[0, 0], [9, 1], [9, 2], [0, 0]], t=1.0), make_cells(0)) == {0, 2}


@pytest.mark.parametrize("seed", range(80))
def test_growth_ends_in_a_connected_region_that_holds_what_it_must_and_needs_no_more(seed):
    case = draw_case(seed)
    graph, rng = case.graph, random.Random(seed)
    for _ in range(5):
        a, b = draw_region(rng, graph, 4), draw_region(rng, graph, 4)
        made = merge_regions(graph, a, b)
        assert made >= connect(graph, a, b) >= a | b
        assert is_connected(graph, made)
        assert plain.count_categories(graph, made) >= graph.l
        assert compute_kl(graph, made) <= graph.t + 1e-9
        assert grow(graph, made) == merge_regions(graph, made, made) == made


# ---- what a merge costs


def test_an_hour_and_48_minutes_at_one_place_cost_0056():
    """Periods of 60 and 48 minutes grow to 108: by 54 of 480 on average, of which time weighs a half."""
    assert (
        compute_theta(make_line(1), EIGHT_HOURS, make_point(0, 60, 0), make_point(60, 108, 0), 1, 1) == 0.5 * 54 / 480
    )


def test_areas_are_weighted_by_the_people_of_each_group():
    """Of 8 km2 two people had 2 and one had 5: (6 x 2 + 3) / 3 = 5 km2 of 25."""
    graph = make_graph([(0, 1), (1, 2)], [2 * KM2, KM2, 5 * KM2])
    assert compute_theta(graph, EIGHT_HOURS, make_point(0, 1, 0), make_point(0, 1, 2), 2, 1) == 0.5 * 5 / 25


def test_time_and_space_cost_their_weight_at_most():
    graph = make_graph([(0, 1), (1, 2)], [KM2, 30 * KM2, KM2])
    assert compute_theta(graph, EIGHT_HOURS, make_point(0, 1, 0), make_point(10**6, 10**6 + 1, 0), 1, 1) == 0.5
    assert compute_theta(graph, EIGHT_HOURS, make_point(0, 1, 0), make_point(10**6, 10**6 + 1, 2), 1, 1) == 1
    assert (
        compute_theta(graph, EIGHT_HOURS._replace(weight_time=0.2), make_point(0, 1, 0), make_point(0, 1, 2), 1, 1)
        == 0.8
    )


def test_what_a_region_must_hold_is_in_the_cost():
    """Two points in one cell cost the cell that is added."""
    graph = make_graph([(0, 1)], [KM2, 5 * KM2], [[1, 0], [0, 1]], l=2)
    assert compute_theta(graph, EIGHT_HOURS, make_point(0, 1, 0), make_point(0, 1, 0), 1, 1) == 0.5 * 5 / 25


def test_at_equal_length_the_mean_is_over_the_second():
    """Points at 0 and 1 and at 0 and 10 of a line: 4.5 one way and 0.5 the other."""
    graph, loss = make_line(11), Loss(span_slots=1, area_mm2=100, weight_time=0)
    first, second = [make_point(0, 1, 0), make_point(0, 1, 1)], [make_point(0, 1, 0), make_point(0, 1, 10)]
    assert compute_cost(graph, loss, first, second, 1, 1) == pytest.approx(4.5 / 100)
    assert compute_cost(graph, loss, second, first, 1, 1) == pytest.approx(0.5 / 100)


def test_else_the_mean_is_over_the_longer_whichever_is_first():
    graph, loss = make_line(11), Loss(span_slots=1, area_mm2=100, weight_time=0)
    longer, shorter = (
        [make_point(0, 1, 0), make_point(0, 1, 1), make_point(0, 1, 4)],
        [make_point(0, 1, 0), make_point(0, 1, 10)],
    )
    assert compute_cost(graph, loss, longer, shorter, 1, 1) == compute_cost(graph, loss, shorter, longer, 1, 1)
    assert compute_cost(graph, loss, longer, shorter, 1, 1) == pytest.approx((0 + 1 + 4) / 3 / 100)


@pytest.mark.parametrize("seed", range(40))
def test_costs_are_symmetric_where_their_definition_is(seed):
    """Of two points whose regions merge into one whatever their order, and of trajectories of different lengths."""
    case = draw_case(seed)
    graph, loss, (a, b, *_) = case.graph, case.loss, case.trajectories
    for p, q in [(p, q) for p in a for q in b]:
        assert compute_theta(graph, loss, p, q, 1, 3) <= 1
        if merge_regions(graph, p.region, q.region) == merge_regions(graph, q.region, p.region):
            assert compute_theta(graph, loss, p, q, 1, 3) == compute_theta(graph, loss, q, p, 3, 1)
    if len(a) != len(b):
        assert compute_cost(graph, loss, a, b, 1, 3) == compute_cost(graph, loss, b, a, 3, 1)


# ---- merging two trajectories


def test_each_point_of_the_longer_goes_to_its_cheapest_and_the_rest_follow():
    """Points at 0, 1, 9 and 9 of a line go to those at 0 and 9; that at 6, chosen by none, goes where it costs less."""
    loss = Loss(span_slots=100, area_mm2=100, weight_time=0.5)
    longer = [make_point(0, 1, 0), make_point(10, 11, 1), make_point(20, 21, 9), make_point(30, 31, 9)]
    shorter = [make_point(1, 2, 0), make_point(17, 18, 6), make_point(20, 22, 9)]
    fixes = [[0, 10, 20, 30], [1, 17, 20, 21]]
    made = plain.merge_trajectories(make_line(10), loss, longer, shorter, 1, 1, fixes)
    assert made == [make_point(0, 11, 0, 1), make_point(17, 31, 6, 7, 8, 9)]
    assert made == plain.merge_trajectories(make_line(10), loss, shorter, longer, 1, 1, fixes)


def test_a_merged_point_replaces_its_partner_at_once():
    """The point at 5 would go to 9 rather than to 0: 4 cells against 5. It goes to 0 to 4: (5 + 1) / 2 = 3."""
    loss = Loss(span_slots=100, area_mm2=100, weight_time=0)
    longer, shorter = (
        [make_point(0, 1, 4), make_point(1, 2, 5), make_point(3, 4, 9)],
        [make_point(0, 1, 0), make_point(3, 4, 9)],
    )
    made = plain.merge_trajectories(make_line(10), loss, longer, shorter, 1, 1, [])
    assert made == [make_point(0, 2, 0, 1, 2, 3, 4, 5), make_point(3, 4, 9)]


def test_two_that_overlap_become_before_both_and_after():
    graph = make_line(4)
    assert reshape_points(graph, [make_point(5, 9, 2), make_point(0, 7, 0)], []) == [
        make_point(0, 5, 0),
        make_point(5, 7, 0, 1, 2),
        make_point(7, 9, 2),
    ]
    assert reshape_points(graph, [make_point(2, 4, 1), make_point(0, 7, 0)], []) == [
        make_point(0, 2, 0),
        make_point(2, 4, 0, 1),
        make_point(4, 7, 0),
    ]
    assert reshape_points(graph, [make_point(0, 4, 1), make_point(0, 7, 0)], []) == [
        make_point(0, 4, 0, 1),
        make_point(4, 7, 0),
    ]


def test_two_of_one_region_that_overlap_become_one():
    assert reshape_points(make_line(2), [make_point(0, 7, 0), make_point(5, 9, 0), make_point(9, 10, 0)], []) == [
        make_point(0, 9, 0),
        make_point(9, 10, 0),
    ]


def test_a_piece_without_a_fix_of_each_goes_to_the_neighbour_it_enlarges_least():
    pieces = [make_point(0, 2, 0), make_point(4, 5, 1), make_point(6, 8, 2)]
    assert reshape_points(make_line(3), pieces, [[0, 4, 6], [0, 7]]) == [make_point(0, 2, 0), make_point(4, 8, 1, 2)]
    pieces = [make_point(0, 2, 0), make_point(3, 5, 1), make_point(6, 8, 2)]
    assert reshape_points(make_line(3), pieces, [[0, 4, 6], [1, 7]]) == [
        make_point(0, 5, 0, 1),
        make_point(6, 8, 2),
    ]  # 10 - 4 either way
    assert reshape_points(make_line(3), pieces, [[3], [4]]) == [make_point(0, 8, 0, 1, 2)]


@pytest.mark.parametrize("seed", range(80))
def test_points_at_random_are_parted_slot_by_slot(seed):
    """The same slots are covered, each once, by at least the regions that were there, which one alone had to itself."""
    rng = random.Random(seed)
    case = draw_case(seed)
    graph, given = case.graph, []
    for _ in range(rng.randint(1, 8)):
        start, region = rng.randrange(12), draw_region(rng, graph, 3)
        given.append(Point(start, start + rng.randint(1, 8), merge_regions(graph, region, region)))
    pieces = reshape_points(graph, given, [])
    for slot in range(25):
        there = [p.region for p in given if p.start <= slot < p.end]
        now = [p.region for p in pieces if p.start <= slot < p.end]
        assert len(now) == bool(there)
        assert not now or now[0] >= frozenset().union(*there)
        assert len(there) != 1 or now == there
    covered = [slot for p in given for slot in range(p.start, p.end)]
    fixes = [rng.choices(covered, k=rng.randint(1, 9)) for _ in range(3)]
    whole = reshape_points(graph, given, fixes)
    assert all(any(p.start <= slot < p.end for slot in slots) for p in whole for slots in fixes)
    assert all(any(p.start <= q.start and q.end <= p.end and p.region >= q.region for p in whole) for q in pieces)


# ---- merging all


def make_points(case, u):
    return plain.make_points(case.slots[u], case.cells[u], case.gap_slots)


def test_runs_of_a_cell_are_points_and_end_where_a_gap_is_longer():
    assert plain.make_points([0, 3, 4, 10, 10], [7, 7, 8, 8, 7], 5) == [
        make_point(0, 4, 7),
        make_point(4, 5, 8),
        make_point(10, 11, 8),
        make_point(10, 11, 7),
    ]
    assert plain.make_points([0, 3, 4, 10, 10], [7, 7, 8, 8, 7], 6) == [
        make_point(0, 4, 7),
        make_point(4, 11, 8),
        make_point(10, 11, 7),
    ]
    assert plain.make_points([], [], 0) == []


def test_pairs_that_go_together_are_groups_and_one_left_joins_the_cheaper():
    graph, loss = make_line(10), Loss(span_slots=100, area_mm2=10, weight_time=0.5)
    slots, where = [[0], [0], [1], [0], [1]], [0, 9, 1, 8, 7]
    tracks = [plain.make_points(one, [cell], 0) for one, cell in zip(slots, where, strict=True)]
    made = plain.merge_greedily(graph, loss, tracks, [5, 4, 3, 2, 1], slots, 2)
    assert made == [([0, 2], [make_point(0, 2, 0, 1)]), ([1, 3, 4], [make_point(0, 2, 7, 8, 9)])]


def test_two_units_of_one_subject_never_hide_each_other():
    """0 and 1 go together and are one subject: each goes to the other's."""
    graph, loss = make_line(10), Loss(span_slots=100, area_mm2=10, weight_time=0.5)
    tracks, slots = [[make_point(0, 1, cell)] for cell in (0, 0, 9, 9)], [[0]] * 4
    made = plain.merge_greedily(graph, loss, tracks, [1, 1, 2, 2], slots, 2)
    assert [units for units, _ in made] == [[0, 2], [1, 3]]
    # 2 and 3 are a group. 0 is left and joins 1, which it costs least; both are one subject, and join the group.
    made = plain.merge_greedily(graph, loss, tracks, [1, 1, 1, 2], slots, 2)
    assert [units for units, _ in made] == [[0, 1, 2, 3]]


def test_with_k_1_each_point_is_grown_alone():
    graph = make_line(4, pois=[[1, 0], [0, 1], [1, 0], [0, 1]], l=2)
    tracks, slots = (
        [[make_point(0, 1, 0), make_point(3, 4, 3)], [make_point(0, 2, 2), make_point(1, 3, 2)]],
        [[0, 3], [0, 1, 2]],
    )
    made = plain.merge_greedily(graph, EIGHT_HOURS, tracks, [1, 2], slots, 1)
    assert made == [([0], [make_point(0, 1, 0, 1), make_point(3, 4, 2, 3)]), ([1], [make_point(0, 3, 1, 2)])]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_group_hides_k_people_and_each_row_keeps_the_rules(seed):
    case, made = merge_case(seed)
    assert sorted(u for units, _ in made for u in units) == list(range(len(case.subjects)))
    assert [units[0] for units, _ in made] == sorted(min(units) for units, _ in made)
    for units, rows in made:
        assert len({case.subjects[u] for u in units}) >= case.k
        assert all(p.start < p.end <= q.start for p, q in pairwise([*rows, make_point(10**9, 10**9)]))
        for p in rows:
            assert is_connected(case.graph, p.region)
            assert plain.count_categories(case.graph, p.region) >= case.l
            assert compute_kl(case.graph, p.region) <= case.t + 1e-9
            assert all(any(p.start <= slot < p.end for slot in case.slots[u]) for u in units)
        for u in units:
            for slot, cell in zip(case.slots[u], case.cells[u], strict=True):
                assert [cell in p.region for p in rows if p.start <= slot < p.end] == [True]


def merge_with_new_costs(case):
    """Groups, whose costs are made for each merge: who is in them, and what Algorithm 2 has at the end of its loop."""
    graph, loss = case.graph, case.loss
    groups = [([u], make_points(case, u)) for u in range(len(case.subjects))]

    def people(group):
        return {case.subjects[u] for u in group[0]}

    def price(a, b):
        return compute_cost(graph, loss, a[1], b[1], len(people(a)), len(people(b)))

    def open_pairs():
        return [
            (price(a, b), i, j)
            for i, a in enumerate(groups)
            for j, b in enumerate(groups)
            if i < j and max(len(people(a)), len(people(b))) < case.k and not people(a) & people(b)
        ]

    while pairs := open_pairs():
        _, i, j = min(pairs)
        a, b = groups[i], groups.pop(j)
        units = sorted(a[0] + b[0])
        slots = [case.slots[u] for u in units]
        numbers = len(people(a)), len(people(b))
        groups[i] = units, plain.merge_trajectories(graph, loss, a[1], b[1], *numbers, slots)
    return groups


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_groups_are_those_of_costs_made_anew_for_each_merge(seed):
    case, made = merge_case(seed)
    expected = merge_with_new_costs(case)
    if case.k > 1 and all(len({case.subjects[u] for u in units}) >= case.k for units, _ in expected):
        assert made == expected
    else:  # what was left has joined
        assert all(any(set(units) <= set(joined) for joined, _ in made) for units, _ in expected)


def rename_case(case):
    """The case with other names for cells and subjects, in the same order of cells, and at another time."""
    name, count = [3 * cell + 2 for cell in range(len(case.area))], 3 * len(case.area)
    area, pois = [0] * count, [[0] * len(case.pois[0]) for _ in range(count)]
    for cell, new in enumerate(name):
        area[new], pois[new] = case.area[cell], case.pois[cell]
    return name, replace(
        case,
        neighbours={name[cell]: {name[near] for near in some} for cell, some in case.neighbours.items()},
        area=area,
        pois=pois,
        subjects=[1000 - subject for subject in case.subjects],
        slots=[[slot + 77 for slot in some] for some in case.slots],
        cells=[[name[cell] for cell in some] for some in case.cells],
    )


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_names_and_the_hour_do_not_matter(seed):
    case, made = merge_case(seed)
    name, other = rename_case(case)
    again = plain.merge_greedily(other.graph, other.loss, other.trajectories, other.subjects, other.slots, other.k)
    assert again == [
        (units, [Point(p.start + 77, p.end + 77, frozenset(name[cell] for cell in p.region)) for p in rows])
        for units, rows in made
    ]


# ---- the cases


@pytest.mark.parametrize("seed", SEEDS[::5])
def test_cities_at_random_are_planar_connected_and_of_positive_area(seed):
    case = draw_case(seed)
    assert is_connected(case.graph, frozenset(case.neighbours))
    assert sorted(case.neighbours) == list(range(len(case.area))) == list(range(len(case.pois)))
    assert min(case.area) > 0
    assert all(i in case.neighbours[j] for i in case.neighbours for j in case.neighbours[i])
    assert len(case.edges) <= max(1, 3 * len(case.area) - 6)
    assert 4 <= len(case.area) <= 25


def test_a_grid_has_neighbours_beside_each_other():
    assert make_grid(3, 2)[0] == {0: {1, 3}, 1: {0, 2, 4}, 2: {1, 5}, 3: {0, 4}, 4: {1, 3, 5}, 5: {2, 4}}


def test_cases_at_random_have_all_that_may_matter():
    cases = [draw_case(seed) for seed in range(300)]
    assert {case.k for case in cases} == {1, 2, 3, 4}
    assert {case.t for case in cases} == {0.0, 0.02, 0.1, 0.2, 0.5, inf}
    assert any(len(set(case.subjects)) < len(case.subjects) for case in cases)
    assert any(not any(column) for case in cases for column in zip(*case.pois, strict=True))
    assert any(len(set(slots)) < len(slots) for case in cases for slots in case.slots)
    assert any(max(map(len, case.trajectories)) == 8 for case in cases)
    assert any(len(rows) > 4 for seed in SEEDS for _, rows in merge_case(seed)[1])
