"""What sensitive-sites reads and writes, by hand: subjects and sites along the curve, and metrics."""

import json
import re

import numpy as np
import pytest

from dbanon.base.trajectory import Trajectories
from dbanon.methods.sensitive_sites import _snapshot
from tests.unit.sensitive_sites_runs import make_sites, make_subjects, run


def list_rows(cloaks):
    """Give (trajectory, bounds, crowd, cloaked) row by row, sorted: there may be several of a trajectory."""
    cloaked = [e >= 0 and json.loads(cloaks.extras[e])["cloaked"] for e in cloaks.extra.tolist()]
    columns = cloaks.member_trajectory.tolist(), cloaks.bounds.tolist(), cloaks.crowd.tolist(), cloaked
    return sorted(zip(*columns, strict=True))


# ---- along the curve -------------------------------------------------------------------------------------------------


def arrange_scene(data: Trajectories, places, rank=None):
    rank = np.arange(len(data.subject)) if rank is None else np.array(rank)
    return _snapshot.arrange(data, places, _snapshot.find_subjects(data, places, None, 0), rank)


def test_subjects_come_along_the_curve_and_those_on_one_cell_by_rank():
    """The curve visits (1, 1), (3, 0), (1, 2) and (0, 3) in this order."""
    data = make_subjects([(3, 0), (1, 2), (1, 1), (1, 1), (0, 3)], subject=[4, 3, 2, 1, 0])
    scene = arrange_scene(data, make_sites([(7, 7)]), rank=[2, 4, 0, 3, 1])
    assert scene.trajectory.tolist() == [2, 3, 0, 1, 4]
    assert scene.by_rank.tolist() == [0, 2, 4, 3, 1]
    assert arrange_scene(data, make_sites([(7, 7)]), rank=[2, 0, 4, 3, 1]).trajectory.tolist() == [3, 2, 0, 1, 4]
    assert scene.subjects.x0.tolist() == [1, 1, 3, 1, 0]
    assert scene.subjects.y0.tolist() == [1, 1, 0, 2, 3]


def test_sites_come_along_the_curve_and_those_on_one_cell_by_id():
    scene = arrange_scene(make_subjects([(7, 7)]), make_sites([(3, 0), (1, 2), (1, 1), (1, 1), (0, 3)]))
    assert scene.site_rank.tolist() == [2, 3, 0, 1, 4]
    assert scene.sites.x0.tolist() == [1, 1, 3, 1, 0]


def test_shapes_are_on_the_curve_where_their_middle_is():
    """One a quadrant. The curve visits them in this order: bottom left, top left, top right, bottom right."""
    shapes = {5: (2, 0, 7.5, 0), 8: (0, 2, 0, 7), 11: (0, 0, 1, 1)}
    data = make_subjects([(4, 0), (0, 4), (0, 0), (7, 7)])
    assert arrange_scene(data, make_sites([(0, 0)], shapes)).trajectory.tolist() == [2, 1, 3, 0]
    scene = arrange_scene(data, make_sites([*shapes.values(), (7, 7)]))
    assert scene.site_rank.tolist() == [2, 1, 3, 0]
    assert scene.sites.x1.tolist() == [1, 0, 7, 7]


def test_the_rank_of_a_site_is_its_place_by_id_and_decides_who_takes_a_subject_between_two():
    places = make_sites([(7, 7), (1, 7)])
    assert arrange_scene(make_subjects([(0, 0)]), places).site_rank.tolist() == [1, 0]
    cloaks = run(make_subjects([(1, 7), (1, 8), (7, 7), (7, 8), (4, 7), (0, 0)]), places, guard_m=3.5, improve=False)
    assert list_rows(cloaks)[4] == (17, [4, 7, 8, 9], 3, True)


# ---- rows and metrics ------------------------------------------------------------------------------------------------


@pytest.fixture
def algorithm():
    return "bk"


def test_metrics_are_in_square_metres_and_percent_of_the_whole(algorithm):
    """Cells of 2 m; rectangles of 1 x 3, 4 x 2 and 10 x 5 cells, in a whole of 401 x 10."""
    cells = [(0, 1), (0, 2), (103, 0), (100, 1), (209, 4), (200, 1), (400, 9)]
    data = make_subjects([(2 * x + 1, 2 * y + 1) for x, y in cells], grid_m=2.0)
    chosen = {"improve": False} if algorithm == "bk" else {}
    cloaks = run(data, make_sites([(0, 0), (200, 0), (400, 0)]), algorithm, **chosen)
    assert {
        name: told for name, told in cloaks.metrics.items() if not re.search("percent|longer_side_[1-46-8]0", name)
    } == {
        "subjects": 7,
        "sites": 3,
        "subjects_cloaked": 6,
        "subjects_left_exact": 1,
        "longer_side_50_m": 2 * 4,
        "longer_side_90_m": pytest.approx(2 * (4 + 0.8 * 6)),
        "gc_median_m2": 4 * 8,
        "gc_mean_m2": pytest.approx(4 * (3 + 8 + 50) / 3),
        "gc_largest_m2": 4 * 50,
        "narrowest_side_m": 2 * 1,
        "domain_m2": 4 * 4010,
        "added_by_guards": 0,
    }
    assert cloaks.metrics["ggc_percent"] == pytest.approx(100 * 61 / 4010)
    assert cloaks.metrics["ggc_before_guards_percent"] == cloaks.metrics["ggc_percent"]
