"""Who is nearest whom at own instants: a search against an exhaustive one, tie by tie."""

import random

import numpy as np
import pytest

from dbanon.base import cores
from dbanon.methods.kernels import align
from dbanon.methods.mob import _gen_ag, _positions
from tests.unit import oracles_mob_gen_ag as oracle

SEED = 2009


@pytest.fixture
def search():
    return _gen_ag.find_nearest


def make_positions(place, own, rank):
    """Positions with nothing in them but who is present when, and whose instants are whose."""
    there = np.array([[p is not None for p in row] for row in place])
    known = np.array([[t in instants for t in range(there.shape[1])] for instants in own])
    owner, instant = np.nonzero(known)
    nowhere = np.zeros(there.shape, np.int32)
    return _positions.Positions(
        subject=np.arange(len(place)), rank=np.array(rank, np.int64), x=nowhere, y=nowhere,
        there=_positions._pack_words(there), own=_positions._pack_words(known),
        offset=np.searchsorted(owner, np.arange(len(place) + 1)), instant=instant.astype(np.int32),
        instants=align.Instants(start=0, step_s=60, count=there.shape[1], mode=align.LAST, max_gap_s=60), origin=(0, 0),
    )  # fmt: skip


def draw_instance(rng, most=24, instants=(1, 70), furthest=(1, 6, 1000, 2**30)):
    """Places (None: absent), own instants and ranks; those who ask and those who may be taken."""
    n, count = rng.randint(1, most), rng.randint(*instants)
    far, gaps, share = rng.choice(furthest), rng.choice([0, 0.03, 0.3]), rng.choice([1.5 / count, 0.1, 0.6])
    place = [[None if rng.random() < gaps else rng.randint(0, far) for _ in range(count)] for _ in range(n)]
    own = [{t for t in range(count) if row[t] is not None and rng.random() < share} for row in place]
    asking = [i for i in range(n) if own[i]]
    rng.shuffle(asking)
    among = [i for i in range(n) if rng.random() < rng.choice([0.5, 1.1])]
    return place, own, rng.sample(range(n), n), asking, among


def search_case(search, case):
    place, own, rank, asking, number, among = case
    places = np.array([[7 if p is None else p for p in row] for row in place], np.int64)
    allowed = np.isin(np.arange(len(place)), among)
    rows = search(make_positions(place, own, rank), places, np.array(asking, np.int64), number, allowed)
    assert rows.dtype == np.int32
    assert rows.shape == (len(asking), number)
    return rows.tolist()


def expect_case(case):
    place, own, rank, asking, number, among = case
    lists = [oracle.find_nearest((place, own, rank), subject, number, among) for subject in asking]
    return [one + [-1] * (number - len(one)) for one in lists]


@pytest.mark.many
@pytest.mark.parametrize("part", range(4))
def test_the_nearest_are_those_of_an_exhaustive_search(search, cases, part):
    rng = random.Random(SEED + part)
    tied = padded = barred = 0
    for _ in cases(150):
        place, own, rank, asking, among = draw_instance(rng)
        number = rng.randint(1, len(place) + 1)
        case = (place, own, rank, asking, number, among)
        lists = expect_case(case)
        assert search_case(search, case) == lists, case
        for subject, one in zip(asking, lists, strict=True):
            away = [oracle.compute_deviation(place, own, subject, other) for other in one if other >= 0]
            tied += len(set(away)) < len(away)
            padded += one[-1] == -1
            barred += any(not oracle.is_present_both_ways(place, own, subject, other) for other in among)
    assert min(tied, padded, barred) > 2 * len(cases(150)) // 3


@pytest.mark.stress
@pytest.mark.parametrize("threads", [1, 3])
def test_the_nearest_are_the_same_however_the_work_is_cut(monkeypatch, search, threads):
    """On any number of threads, in blocks of 64, the last of them not full."""
    monkeypatch.setattr(cores, "count_threads", lambda: threads)
    monkeypatch.setattr(_gen_ag, "MIN_ADDITIONS_PER_THREAD", 64)
    monkeypatch.setattr(_gen_ag, "_VALUES_PER_BLOCK", 1)
    rng = random.Random(SEED)
    for furthest, gaps in ((3, 0), (40, 0.02), (2**20, 0.02)):
        place = [[None if rng.random() < gaps else rng.randint(0, furthest) for _ in range(9)] for _ in range(333)]
        own = [{t for t in rng.sample(range(9), 4) if row[t] is not None} for row in place]
        rank, asking = rng.sample(range(333), 333), [i for i in range(333) if own[i]]
        case = (place, own, rank, asking, 5, range(0, 333))
        assert search_case(search, case) == expect_case(case)


def test_equal_sums_are_taken_in_the_order_of_the_run(search):
    n = 200
    rank = random.Random(SEED).sample(range(n), n)
    in_order = sorted(range(n), key=rank.__getitem__)
    lists = search_case(search, ([[4, 4, 4]] * n, [{0, 2}] * n, rank, range(n), 7, range(n)))
    assert lists == [[other for other in in_order if other != subject][:7] for subject in range(n)]


def test_whose_places_all_round_away_from_the_subjects_is_found(search, monkeypatch):
    """The last candidate is the nearest: one cell from the subject, and when quantised one off at each instant."""
    monkeypatch.setattr(_gen_ag, "_VALUES_PER_BLOCK", 1)
    edge, instants = 2**29, 60
    place = [[edge + off] * instants for off in (-1, edge, *[-3] * 200, 0)]
    own = [set(range(instants))] + [set()] * (len(place) - 1)
    case = (place, own, range(len(place)), [0], 1, range(len(place)))
    assert search_case(search, case) == expect_case(case) == [[len(place) - 1]]


def test_sums_that_differ_by_one_are_told_apart_however_large(search):
    """Quantised they are equal, and past 2^53 they would be as float64."""
    far = 2**46
    rng = random.Random(SEED)
    place = [[0] * 200] + [[far + (t == 3) * step for t in range(200)] for step in rng.sample(range(50), 50)]
    own, rank = [set(range(200))] + [set()] * 50, range(51)
    assert float(200 * far + 1) == float(200 * far)
    case = (place, own, rank, [0], 20, range(51))
    assert search_case(search, case) == expect_case(case)


@pytest.mark.parametrize("instants", [254, 255, 256, 257, 700])
def test_sums_of_many_instants_may_stop_at_the_most_that_is_counted(instants):
    """As far from one another as can be at so many instants, beside others who are near or absent once."""
    rng = random.Random(SEED + instants)
    high, near = 2**30 - 1, [rng.randint(0, 9) for _ in range(instants)]
    place = [[0] * instants, [high] * instants, near, [high - p for p in near], [*[high] * (instants - 1), None]]
    place += [[rng.choice([0, high]) for _ in range(instants)] for _ in range(90)]
    own = [set(range(instants)), set(range(instants)), {1}, {2}, {3}, *[set()] * 90]
    case = (place, own, rng.sample(range(95), 95), range(5), 94, range(95))
    assert search_case(_gen_ag.find_nearest, case) == expect_case(case)


def test_presence_is_asked_of_both(search):
    place, own = [[1, 1], [1, None], [None, 1], [9, 9]], [{0}, {0}, {1}, {1}]
    assert search_case(search, (place, own, range(4), range(4), 2, range(4))) == [[1, 3], [0, -1], [3, -1], [0, 2]]


def test_nobody_is_found_among_nobody_and_for_nobody(search):
    place, own = [[1], [2]], [{0}, set()]
    assert search_case(search, (place, own, range(2), [0], 3, [])) == [[-1, -1, -1]]
    assert search_case(search, (place, own, range(2), [0], 1, [0])) == [[-1]]
    assert search_case(search, (place, own, range(2), [], 2, [0, 1])) == []
