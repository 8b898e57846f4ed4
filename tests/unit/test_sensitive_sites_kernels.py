"""The kernels of `sensitive-sites` against the plain statements of the paper, tie by tie."""

import random

import numpy as np
import pytest

from dbanon.base import cores
from dbanon.methods.kernels import hilbert
from dbanon.methods.sensitive_sites import _bichromatic, _monochromatic
from dbanon.methods.sensitive_sites._boxes import Boxes
from tests.unit import oracles_sensitive_sites as oracle
from tests.unit.sensitive_sites_instances import draw_instance

SEED = 20080611


def find_starts(subjects, sites, k):
    found = _bichromatic.find_best_starts(Boxes.from_array(subjects), Boxes.from_array(sites), k)
    assert found.dtype == np.int64
    return found.tolist()


@pytest.mark.many
@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_bk_finds_the_same_starts_as_the_matrices(k, shapes):
    rng = random.Random(SEED + k)
    for _ in range(60):
        subjects, sites, _ = draw_instance(rng, subjects=(k, 40), sites=(1, 8), k=k, shapes=shapes)
        assert find_starts(subjects, sites, k) == oracle.group_by_bk(subjects, sites, k)[0], (subjects, sites, k)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_bk_with_no_subject_to_spare_has_one_solution(k):
    rng = random.Random(SEED + k)
    for m in (1, 2, 7):
        subjects, sites, _ = draw_instance(rng, subjects=(k * m, k * m), sites=(m, m), k=k)
        assert find_starts(subjects, sites, k) == [k * j for j in range(m)]


def test_bk_with_one_site_takes_the_first_of_the_best_groups():
    rng = random.Random(SEED)
    for _ in range(60):
        subjects, sites, k = draw_instance(rng, subjects=(1, 30), sites=(1, 1))
        areas = [oracle.measure_area([*subjects[i : i + k], *sites]) for i in range(len(subjects) - k + 1)]
        assert find_starts(subjects, sites, k) == [areas.index(min(areas))]


@pytest.mark.many
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("decision_bytes", [1, 40, 2**29])
def test_bk_is_the_same_however_its_columns_are_cut(monkeypatch, threads, decision_bytes):
    """On any number of threads, in many blocks, and with decisions forgotten and tabulated again."""
    monkeypatch.setattr(cores, "count_threads", lambda: threads)
    monkeypatch.setattr(_bichromatic, "_STARTS_PER_BLOCK", 8)
    monkeypatch.setattr(_bichromatic, "MAX_DECISION_BYTES", decision_bytes)
    rng = random.Random(SEED)
    for _ in range(12):
        subjects, sites, k = draw_instance(rng, subjects=(20, 80), sites=(3, 9), shapes=True)
        assert find_starts(subjects, sites, k) == oracle.group_by_bk(subjects, sites, k)[0], (subjects, sites, k)


def test_bk_over_several_blocks_finds_the_same_starts_as_the_matrices(monkeypatch):
    monkeypatch.setattr(_bichromatic, "_STARTS_PER_BLOCK", 256)
    subjects, sites, k = draw_instance(random.Random(SEED), subjects=(900, 900), sites=(12, 12), k=7)
    assert find_starts(subjects, sites, k) == oracle.group_by_bk(subjects, sites, k)[0]


def test_bk_over_blocks_as_they_are_finds_the_same_starts_as_whole_columns():
    """Equation (6) in NumPy, each column at once; the best groups are in the second block and the third."""
    n, m, k, rng = 20_000, 3, 2, np.random.default_rng(SEED)
    assert _bichromatic._STARTS_PER_BLOCK % 8 == 0  # or blocks would share a byte
    x, y = np.arange(n), rng.integers(0, 50, n)
    subjects = Boxes.from_array(np.column_stack([x, y, x, y]))
    sites = Boxes.from_array([(9_000, 20, 9_000, 20), (16_500, 20, 16_500, 20), (19_000, 9, 19_000, 9)])
    width, wins, cost, best = n + 1 - k * m, subjects.bound_windows(k), np.zeros(n + 1 - k * m, np.int64), []
    for j in range(m):
        here = np.arange(j * k, j * k + width)
        cost = cost + wins.take(here).join(sites.take(np.full(width, j))).count_cells()
        best.append(cost)
        cost = np.minimum.accumulate(cost)
    at, expected = width - 1, []
    for j in range(m - 1, -1, -1):
        at = int(best[j][: at + 1].argmin())  # the lowest of the best
        expected.insert(0, at + j * k)
    assert _bichromatic._STARTS_PER_BLOCK < expected[0] < 2 * _bichromatic._STARTS_PER_BLOCK < expected[1]
    assert _bichromatic.find_best_starts(subjects, sites, k).tolist() == expected


def test_bk_adds_large_areas_exactly():
    """Sums past 2^53 that differ by one cell; float64 would take them for equal, and the first of them."""
    subjects, last = [(5, 0, 5, 0), (6, 0, 6, 0), (6, 0, 6, 0)], 2**27 - 1
    sites = [(9, 0, 9, 0), (0, 0, last, last)]
    assert float(2**54 + 5) == float(2**54 + 4)
    assert find_starts(subjects, sites, 1) == oracle.group_by_bk(subjects, sites, 1)[0] == [1, 2]


def assert_partition(subjects, k):
    offset = _monochromatic.partition(
        Boxes.from_array(subjects) if subjects else Boxes.from_array([(0, 0, 0, 0)]).take([]), k
    )
    assert offset.dtype == np.int64
    assert offset.tolist() == oracle.group_by_one_d_anon(subjects, k)[0], (subjects, k)


@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_mk_cuts_subjects_as_1danon_does(k, shapes):
    rng = random.Random(SEED + k)
    for _ in range(60):
        subjects, _, _ = draw_instance(rng, subjects=(1, 40), sites=(1, 1), k=k, shapes=shapes)
        assert_partition(subjects, k)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_mk_cuts_few_subjects_as_1danon_does(k):
    subjects, _, _ = draw_instance(random.Random(SEED), subjects=(4 * k, 4 * k), sites=(1, 1), k=k)
    for number in range(4 * k + 1):
        assert_partition(subjects[:number], k)


@pytest.mark.stress
@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_mk_gives_groups_to_sites_as_the_stages_do(monkeypatch, threads, shapes):
    monkeypatch.setattr(cores, "count_threads", lambda: threads)
    rng = random.Random(SEED)
    scarce = 0
    for _ in range(200):
        subjects, sites, k = draw_instance(rng, subjects=(6, 40), sites=(1, 12), k=rng.randint(1, 4), shapes=shapes)
        offset, _ = oracle.group_by_one_d_anon(subjects, k)
        sites = sites[: len(offset) - 1]
        scarce += len(sites) == len(offset) - 1
        priority = rng.sample(range(len(sites)), len(sites))
        group = _monochromatic.assign(
            Boxes.from_array(subjects),
            Boxes.from_array(sites),
            np.array(offset, np.int64),
            np.array(priority, np.int64),
        )
        assert group.tolist() == oracle.group_by_mk(subjects, sites, offset, priority), (
            subjects,
            sites,
            offset,
            priority,
        )
    assert scarce > 5


def test_windows_of_mk_are_the_least_each_of_a_group_of_its_own():
    rng, none, all_taken, moved = random.Random(SEED), 0, 0, 0
    for _ in range(200):
        subjects, sites, k = draw_instance(rng, subjects=(6, 40), sites=(1, 12), k=rng.randint(1, 4))
        found = _monochromatic.choose_windows(Boxes.from_array(subjects), Boxes.from_array(sites), k)
        offset, _ = oracle.group_by_one_d_anon(subjects, k)
        if len(offset) - 1 < len(sites):
            assert found is None
            none += 1
            continue
        group = oracle.group_by_mk(subjects, sites, offset, range(len(sites)))
        all_taken += len(offset) - 1 == len(sites)
        for site, g, start in zip(sites, group, found.tolist(), strict=True):
            every = range(offset[g], offset[g + 1] - k + 1)
            assert start == min(every, key=lambda i, site=site: (oracle.measure_area([*subjects[i : i + k], site]), i))
            moved += start > offset[g]
    assert min(none, all_taken, moved) > 5


def test_windows_of_mk_are_none_where_one_group_is_missing():
    five, corners = [(x, 0, x, 0) for x in range(5)], [(0, 0, 0, 0), (9, 0, 9, 0), (9, 9, 9, 9)]
    assert _monochromatic.choose_windows(Boxes.from_array(five), Boxes.from_array(corners[:2]), 2).tolist() == [0, 3]
    assert _monochromatic.choose_windows(Boxes.from_array(five), Boxes.from_array(corners), 2) is None


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_every_cell_has_the_place_on_the_curve_that_the_recursion_gives_it(order):
    x, y = (axis.ravel() for axis in np.indices((2**order, 2**order)))
    expected = [oracle.locate_on_curve(*cell, order) for cell in zip(x.tolist(), y.tolist(), strict=True)]
    assert hilbert.number_cells(x, y, order).tolist() == expected


@pytest.mark.parametrize("order", [13, 16, 24, 31])
def test_cells_of_large_curves_have_the_place_that_the_recursion_gives_them(order):
    rng = random.Random(SEED + order)
    last = 2**order - 1
    cells = [
        (0, 0),
        (last, 0),
        (0, last),
        (last, last),
        *((rng.randint(0, last), rng.randint(0, last)) for _ in range(100)),
    ]
    x, y = np.array(cells, np.int64).T
    x.setflags(write=False)
    assert hilbert.number_cells(x, y, order).tolist() == [oracle.locate_on_curve(*cell, order) for cell in cells]
    narrow = x.astype(np.int32), y.astype(np.int32)
    for axis in narrow:
        axis.setflags(write=False)  # as runs have it
    assert hilbert.number_cells(*narrow, order).tolist() == hilbert.number_cells(x, y, order).tolist()
