"""The worked examples of the paper, with the numbers its text still has; t1 is instant 0, O1 row 0."""

import numpy as np
import pytest

from dbanon.methods.mob import _classes, _sets
from tests.unit import oracles_mob as oracle
from tests.unit.mob_instances import locate_on_curve, make_positions

# Figure 1(a); of O3 the text does not say where it is at t1: somewhere far from the others.
WHERE = [{0: (1, 2), 1: (5, 3)}, {0: (2, 3), 1: (2, 7)}, {0: (6, 6), 1: (3, 6)}]
OWN = [{0}, {1}, {1}]
# Figure 5, and places that give each object the nearest one that the text names.
OWN_5 = [{0, 1}, {2}, {1, 3}, {3}, {0, 2, 3}]
PLACE_5 = [[10, 10, 60, 61], [11, 11, 20, 21], [50, 40, 90, 23], [60, 41, 21, 20], [9, 90, 61, 60]]
UNION_5 = [{0, 1, 2}, {2, 3}, {1, 3}, {2, 3}, {0, 1, 2, 3}]
# Figure 6.
CLASSES_6A = [{(0, 1, 4)}, {(0, 1, 4), (2, 3)}, {(0, 1, 3, 4)}, {(0, 4), (1, 2, 3)}]
CLASSES_6B = [{(0, 1, 4)}, {(0, 1, 4), (2, 3)}, {(0, 1, 4)}, {(0, 4), (2, 3)}]


def make_figure_1():
    positions = make_positions(WHERE, OWN, range(3), 2)
    return positions, locate_on_curve(positions)[0]


def make_figure_5():
    # On a diagonal, so that only classes of the same objects have the same rectangle.
    where = [{t: (10 * i + t, i) for t in range(4)} for i in range(5)]
    return make_positions(where, OWN_5, range(5), 4), np.array(PLACE_5, np.int64)


def make_sets(positions, others, when=None):
    """Hiding sets as they are given."""
    return _sets.Sets(
        offset=np.cumsum([0, *map(len, others)]),
        other=np.concatenate([list(one) for one in others]).astype(np.int32),
        when=positions.own if when is None else when,
        kept=np.ones(len(others), bool),
    )


def list_sets(sets):
    return [sets.other[a:b].tolist() for a, b in zip(sets.offset, sets.offset[1:], strict=False)]


def list_instants(words):
    return [{t for t in range(64) if int(row[0]) >> t & 1} for row in words]


def list_members(found):
    """Classes of each instant."""
    return [
        {tuple(np.flatnonzero(column == number).tolist()) for number in set(column.tolist()) - {-1}}
        for column in found.of.T
    ]


def find_box(found, i, t):
    return found.box[found.of[i, t]].tolist()


def test_example_1_generalises_to_the_regions_of_figure_1():
    positions, _ = make_figure_1()
    found = _classes.build_classes(positions, make_sets(positions, [[1], [2], [1]]))
    assert list_members(found) == [{(0, 1)}, {(1, 2)}]
    assert find_box(found, 0, 0) == find_box(found, 1, 0) == [1, 2, 2, 3]
    assert find_box(found, 1, 1) == find_box(found, 2, 1) == [2, 6, 3, 7]


def test_example_2_loses_three_of_six_pairs():
    positions, _ = make_figure_1()
    sets = make_sets(positions, [[1], [2], [1]])
    found = _classes.build_classes(positions, sets)
    assert _classes.compute_information_loss(found, 6) == pytest.approx(3 / 6)


def test_the_graph_of_figure_2a_gives_the_first_object_away():
    found = oracle.find_classes(WHERE, {0: {1}, 1: {2}, 2: {1}}, dict(enumerate(OWN)))
    graph = oracle.build_attack_graph(WHERE, OWN, {0, 1, 2}, found)
    assert graph == {0: {0, 1}, 1: {1, 2}, 2: {1, 2}}
    assert oracle.prune_graph(graph) == {0: {0}, 1: {1, 2}, 2: {1, 2}}


def test_the_graph_of_figure_2b_gives_the_fifth_object_away():
    graph = {1: {1, 2}, 2: {1, 2, 5}, 3: {3, 4}, 4: {3, 4}, 5: {4, 5}}
    assert oracle.prune_graph(graph) == {1: {1, 2}, 2: {1, 2}, 3: {3, 4}, 4: {3, 4}, 5: {5}}


def test_symmetric_hides_all_three_of_the_running_example():
    positions, place = make_figure_1()
    sets = _sets.draw_symmetric(positions, place, 2)
    found = _classes.build_classes(positions, sets)
    assert list_sets(sets) == [[1], [0, 2], [1]]
    assert list_members(found) == [{(0, 1)}, {(0, 1, 2)}]
    plain = oracle.find_classes(WHERE, {0: {1}, 1: {0, 2}, 2: {1}}, dict(enumerate(OWN)))
    graph = oracle.build_attack_graph(WHERE, OWN, {0, 1, 2}, plain)
    assert oracle.prune_graph(graph) == graph == {0: {0, 1}, 1: {0, 1, 2}, 2: {0, 1, 2}}


def test_extreme_union_comes_to_the_same_in_the_running_example():
    positions, place = make_figure_1()
    sets = _sets.draw_extreme_union(positions, place, 2)
    assert list_sets(sets) == [[1], [2], [1]]
    assert list_instants(sets.when) == [{0, 1}, {1}, {1}]
    assert list_members(_classes.build_classes(positions, sets)) == [{(0, 1)}, {(0, 1, 2)}]


def test_example_3_has_one_region_for_all_three_at_the_time_they_share():
    where = [{t: (10 * i, t) for t in range(3)} for i in range(3)]
    positions = make_positions(where, [{0, 1}, {1, 2}, {1, 2}], range(3), 3)
    found = _classes.build_classes(positions, make_sets(positions, [[1], [2], [1]]))
    assert list_members(found) == [{(0, 1)}, {(0, 1, 2)}, {(1, 2)}]
    assert find_box(found, 0, 1) == [0, 1, 20, 1]


def test_example_4_draws_the_groups_of_figure_5a():
    sets = _sets.draw_extreme_union(*make_figure_5(), 2)
    assert list_sets(sets) == [[1], [3], [3], [1], [0]]
    assert list_instants(sets.when) == UNION_5


def test_example_4_draws_the_hiding_sets_of_figure_5b():
    positions, place = make_figure_5()
    sets = _sets.draw_symmetric(positions, place, 2)
    assert list_sets(sets) == [[1, 4], [0], [3], [2], [0]]
    assert list_instants(sets.when) == OWN_5


def test_example_5_has_the_classes_of_figure_6a():
    positions, place = make_figure_5()
    assert list_members(_classes.build_classes(positions, _sets.draw_extreme_union(positions, place, 2))) == CLASSES_6A


def test_example_5_has_the_classes_of_figure_6b():
    positions, place = make_figure_5()
    assert list_members(_classes.build_classes(positions, _sets.draw_symmetric(positions, place, 2))) == CLASSES_6B
