"""The spatial join of published rows and sensitive sites, held against loops over all pairs."""

import dataclasses

import numpy as np
import pytest

from dbanon.attacks.sensitive_sites._join import join
from dbanon.attacks.sensitive_sites.evidence import SiteEvidence
from dbanon.base.trajectory import Sites
from tests.unit.attack_evidence import make_evidence, make_trajectories
from tests.unit.site_evidence import join_evidence


def draw_scattered(rng: np.random.Generator, grid_m: float, sites: int = 40, regions: int = 60) -> SiteEvidence:
    """Make sites, some at one place and some on borders of cells, and rows: cells and larger rectangles, exact and
    cloaked, several with the same one, at two periods, a few off the grid."""
    corners = []
    for _ in range(sites):
        at = (rng.integers(-8, 8, 2) + rng.integers(0, 2) * rng.random(2)) * grid_m
        corners.append([*at, *(at + rng.choice([0, 1]) * rng.uniform(0, 4, 2) * grid_m)])
    corners += corners[:2]
    rows = []
    for _ in range(regions):
        low = rng.integers(-9, 9, 2)
        high = low + (rng.integers(1, 6, 2) if rng.random() < 0.4 else 1)
        bounds = np.array([*low, *high]) * grid_m + (rng.random(4) * 0.6 if rng.random() < 0.1 else 0)
        rows += [(*bounds, 60 * rng.integers(2), rng.integers(-1, 2))] * int(rng.integers(1, 4))
    *bounds, start_s, cloaked = np.array(rows, float).reshape(-1, 6).T
    return make_site_evidence(np.column_stack(bounds), cloaked, corners, grid_m=grid_m, start_s=start_s)


def make_site_evidence(bounds, cloaked, sites, *, grid_m=1.0, start_s=0.0, guard_m=None) -> SiteEvidence:
    count = len(bounds)
    start_s = np.full(count, start_s, float)
    return make_evidence(
        SiteEvidence, method="sensitive-sites", algorithm="bk", params={"guard_m": guard_m}, suppressed={},
        trajectories=make_trajectories({1: (1, [(0.0, 0.0, 0.0)])}, grid_m=grid_m, grid_s=5),
        sites=Sites(
            site_id=np.arange(len(sites)) + 801, site_bounds=np.array(sites, float).reshape(-1, 4),
            shape_trajectory=np.empty(0, np.int64), shape_bounds=np.empty((0, 4)),
        ),
        cloak_record=np.arange(count), cloak_seq=np.ones(count, np.int32), cloak_start_s=start_s,
        cloak_end_s=start_s + 60, cloak_bounds=np.array(bounds, float).reshape(-1, 4),
        cloak_rectangle=np.ones(count, bool), cloak_srid=np.full(count, 32610, np.int32),
        cloak_crowd=np.ones(count, np.int32), cloak_subjects=np.ones(count, np.int32),
        cloak_other_keys=np.zeros(count, np.int32), cloak_cloaked=np.array(cloaked, np.int8),
        member_record=np.empty(0, np.int64), member_trajectory=np.empty(0, np.int64), member_whole=np.empty(0, bool),
        pair_site=np.empty(0, np.int64), pair_cloaked=np.empty(0, bool), pair_rows=np.empty(0, np.int64),
        pair_squared=np.empty(0),
    )  # fmt: skip


def list_pairs(found: SiteEvidence) -> list[tuple]:
    columns = join(found, found.region_cloaked == 1, found.sites)
    return sorted(zip(*(column.tolist() for column in columns.values()), strict=True))


def join_plainly(found: SiteEvidence) -> list[tuple]:
    wanted = join_evidence(found)
    columns = (wanted.pair_site, wanted.pair_cloaked, wanted.pair_rows, wanted.pair_squared)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("guard_m", [None, 0, 2.5, 3, 1000])
@pytest.mark.parametrize("grid_m", [0.1, 1.0, 7.5])
def test_the_join_is_that_of_loops(rng: np.random.Generator, grid_m: float, guard_m: float | None) -> None:
    small = dataclasses.replace(
        draw_scattered(rng, grid_m), params={"guard_m": None if guard_m is None else guard_m * grid_m}
    )
    assert list_pairs(small) == join_plainly(small) != []


@pytest.mark.parametrize("guard", ["9", -1, True, [9], {"m": 9}])
def test_a_guard_that_is_no_length_reaches_nowhere(guard: object) -> None:
    small = make_site_evidence([(2, 1, 3, 2), (1, 1, 2, 2)], [0, 0], [(1.5, 1.5, 1.5, 1.5)], guard_m=guard)
    assert list_pairs(small) == [(801, False, 1, 0.0)]


def test_no_rows_or_no_sites_have_no_pairs() -> None:
    assert list_pairs(make_site_evidence([], [], [(1.5, 1.5, 1.5, 1.5)], guard_m=9)) == []
    assert list_pairs(make_site_evidence([(1, 1, 2, 2)], [0], [], guard_m=9)) == []


def test_sites_in_the_same_cells_are_joined_once() -> None:
    sites = [(9.2, 9.7) * 2] * 50 + [(9.9, 9.1) * 2] * 50 + [(10, 9.7) * 2]
    rows = [(i, i, 11, 11) for i in range(9) for _ in range(3)]
    found = list_pairs(make_site_evidence(rows, [1] * len(rows), sites))
    assert found == sorted((site, True, 3, 0.0) for site in (801, 901) for _ in range(9))


def test_a_region_without_bounds_is_near_nothing_and_an_endless_one_holds_all() -> None:
    odd = [(np.nan,) * 4, (1, np.nan, 2, 2), (-np.inf, 0, np.inf, 9)]
    assert list_pairs(make_site_evidence(odd, [1, 0, 0], [(1.5, 1.5, 1.5, 1.5)], guard_m=9)) == [(801, False, 1, 0.0)]


def test_regions_that_are_not_their_own_envelopes_hide_nobody_else() -> None:
    small = make_site_evidence([(0, 0, 3, 3)] * 4, [1] * 4, [(1.5, 1.5, 1.5, 1.5)])
    odd = dataclasses.replace(small, region_rectangle=np.array([True, True, False, False]))
    other = dataclasses.replace(small, region_srid=np.array([32610, 32610, 32610, 4326]))
    assert [rows for _, _, rows, _ in list_pairs(small)] == [4]
    assert [rows for _, _, rows, _ in list_pairs(odd)] == [1, 1, 2]
    assert [rows for _, _, rows, _ in list_pairs(other)] == [1, 3]
