import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.attacks import shared
from dbanon.attacks.sensitive_sites import _count_served
from dbanon.attacks.shared.rectangles import count_meeting, find_cells, find_holding, find_region_cells, hold


@st.composite
def rectangles(draw, most: int = 40) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    low = rng.integers(-12, 12, (draw(st.integers(0, most)), 2))
    return np.concatenate((low, low + rng.integers(0, draw(st.integers(1, 9)), low.shape)), axis=1)


@settings(max_examples=80)
@given(rectangles(), rectangles())
def test_meeting_counts_what_shares_a_cell(those, others):
    found = count_meeting(those, others)
    plain = [
        sum(a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3] for b in others.tolist())
        for a in those.tolist()
    ]
    assert found.tolist() == plain


@settings(max_examples=80)
@given(rectangles(), rectangles(), st.sampled_from([1, 5, 1 << 20]))
def test_holding_finds_every_pair_whatever_is_looked_at_together(outer, inner, pairs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared.rectangles, "_PAIRS_PER_PART", pairs)
        a, b = find_holding(outer, inner)
    plain = [
        (i, j)
        for i, o in enumerate(outer.tolist())
        for j, n in enumerate(inner.tolist())
        if o[0] <= n[0] and o[1] <= n[1] and o[2] >= n[2] and o[3] >= n[3]
    ]
    assert sorted(zip(a.tolist(), b.tolist(), strict=True)) == plain
    assert hold(outer[a], inner[b]).all()


def test_cells_of_bounds_are_those_of_both_corners():
    assert find_cells(np.array([[-0.1, 0.0, 7.5, 7.4]]), 7.5).tolist() == [[-1, 0, 1, 0]]


def test_regions_that_are_none_are_nowhere_and_meet_nothing():
    bounds = np.array([
        [0.0, 0, 2, 4], [np.nan, 0, 2, 4], [0, 0, np.inf, 4], [2, 0, 0, 4], [0, 0, 0, 4], [1e300, 0, 2e300, 4],
        [0.001, 0, 2, 4], [1e-9, 0, 2, 4],
    ])  # fmt: skip
    cells, sound = find_region_cells(bounds, 2.0)
    assert sound.tolist() == [True, *[False] * 7]  # to the last bit
    assert count_meeting(cells, np.array([[-100, -100, 100, 100]])).tolist() == [1, 0, 0, 0, 0, 0, 1, 1]
    assert bounds[2, 2] == np.inf


def count_served(serves: dict[int, list[int]], room: list[int]) -> int:
    """Count how many sites can be served, by trying all ways."""
    if not serves:
        return 0
    site, *others = serves
    rest = {other: serves[other] for other in others}
    best = count_served(rest, room)
    for region in serves[site]:
        if room[region]:
            left = [r - (i == region) for i, r in enumerate(room)]
            best = max(best, 1 + count_served(rest, left))
    return best


@settings(max_examples=80)
@given(st.integers(0, 2**32))
def test_as_many_sites_are_served_as_can_be(seed):
    rng = np.random.default_rng(seed)
    places, regions = int(rng.integers(1, 5)), int(rng.integers(0, 4))
    region, place = np.nonzero(rng.random((regions, places)) < rng.random())
    number, room = rng.integers(1, 4, places), rng.integers(0, 4, regions)
    at = np.repeat(np.arange(places), number).tolist()
    serves = {site: region[place == at[site]].tolist() for site in range(len(at))}
    assert _count_served(region, place, room, number) == count_served(serves, room.tolist())
