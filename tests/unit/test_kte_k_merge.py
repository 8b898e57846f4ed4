"""k-merge against brute force over all partitions, and the conditions of the paper as properties."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.base import cores
from dbanon.methods.kte import _k_merge
from dbanon.methods.kte._samples import MAX_CELL, MAX_SLOT
from tests.unit import oracles_kte as oracle
from tests.unit.kte_instances import draw_inputs, draw_inputs_in_runs, make_samples

SEED = 2017


def merge_one(inputs):
    """Rows (first, last, x0, y0, x1, y1) of one task."""
    samples = make_samples(inputs)
    offset, begin, end = np.array([0, len(inputs)]), samples.offset[:-1].copy(), samples.offset[1:].copy()
    merged = _k_merge.merge(samples, offset, begin, end)
    assert merged.offset.tolist() == [0, len(merged.first)]
    rows = np.column_stack([merged.first, merged.last, merged.box]).tolist()
    cost = _k_merge.compute_costs(samples, offset, begin, end)
    assert cost.tolist() == [compute_cost(rows)]
    return [tuple(row) for row in rows]


def compute_cost(rows):
    return sum((t1 - t0 + 1) * ((x1 - x0 + 1) + (y1 - y0 + 1)) for t0, t1, x0, y0, x1, y1 in rows)


def test_two_trajectories_in_one_dimension_by_hand():
    """As in figure 2: three generalised samples, the sum of three areas (rows of cells add 1 to each side)."""
    first = [(0, 2, 0), (4, 5, 0), (9, 5, 0)]
    second = [(1, 3, 0), (5, 4, 0), (8, 6, 0)]
    rows = [(0, 1, 2, 0, 3, 0), (4, 5, 4, 0, 5, 0), (8, 9, 5, 0, 6, 0)]
    assert merge_one([first, second]) == rows
    assert compute_cost(rows) == 3 * 2 * (2 + 1)


def test_a_sample_joins_the_side_where_it_costs_less():
    first, second = [(0, 0, 0), (10, 9, 0)], [(1, 0, 0), (4, 1, 0), (11, 9, 0)]
    assert merge_one([first, second]) == [(0, 4, 0, 0, 1, 0), (10, 11, 9, 0, 9, 0)]
    second = [(1, 0, 0), (8, 8, 0), (11, 9, 0)]
    assert merge_one([first, second]) == [(0, 1, 0, 0, 0, 0), (8, 11, 8, 0, 9, 0)]


def test_samples_of_one_slot_are_not_parted():
    assert merge_one([[(3, 0, 0), (3, 9, 0)], [(3, 1, 1), (3, 8, 4)]]) == [(3, 3, 0, 0, 9, 4)]
    # Parting slot 1 would cost 2 + 1 less than the whole.
    assert merge_one([[(0, 0, 0), (1, 9, 0)], [(1, 0, 0), (1, 9, 1)]]) == [(0, 1, 0, 0, 9, 1)]


def test_one_input_gives_its_samples_slot_by_slot():
    assert merge_one([[(5, 1, 1), (7, 2, 2), (7, 4, 3)]]) == [(5, 5, 1, 1, 1, 1), (7, 7, 2, 2, 4, 3)]


@pytest.mark.many
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("slots", [5, 10])
def test_the_cost_is_the_least_of_all_partitions(k, slots):
    rng = random.Random(SEED + k)
    for _ in range(150):
        inputs = draw_inputs(rng, k, slots, 6, rng.choice([2, 30]))
        assert compute_cost(merge_one(inputs)) == oracle.find_least_cost(inputs), inputs


@pytest.mark.parametrize("k", [2, 3])
def test_the_cost_is_the_least_where_one_input_has_many_samples_in_a_row(k):
    rng = random.Random(SEED + k)
    for _ in range(60):
        inputs = draw_inputs_in_runs(rng, k, 9, 4, 0.7)
        while sum(len(one) for one in inputs) > 14:
            inputs[max(range(k), key=lambda i: len(inputs[i]))].pop()
        assert (
            compute_cost(merge_one(inputs)) == oracle.find_least_cost(inputs) == oracle.find_least_cost_of_many(inputs)
        ), inputs


@pytest.mark.many
@pytest.mark.parametrize("moving", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_cost_is_the_least_over_long_runs_of_one_input(k, moving):
    """Longer than a block of starts, of those who rest, those who move, and both."""
    rng = random.Random(SEED + k)
    for _ in range(4):
        inputs = draw_inputs_in_runs(rng, k, 500, 5 * _k_merge._STARTS_PER_BLOCK, moving)
        assert compute_cost(merge_one(inputs)) == oracle.find_least_cost_of_many(inputs), inputs


def test_of_equally_cheap_merges_the_rows_are_those_of_the_printed_algorithm():
    rng = random.Random(SEED)
    for _ in range(200):
        inputs = draw_inputs(rng, rng.randint(1, 4), 10, 6, 3)
        cost, rows = oracle.merge_as_printed(inputs)
        assert merge_one(inputs) == rows
        assert merge_one(inputs[::-1]) == rows
        assert cost == compute_cost(rows)


SAMPLE = st.tuples(st.integers(-4, 4), st.integers(-3, 3), st.integers(-3, 3))
INPUTS = st.lists(st.lists(SAMPLE, min_size=1, max_size=7), min_size=1, max_size=4)


@given(INPUTS)
def test_rows_part_all_samples_and_each_holds_one_of_every_input(inputs):
    rows = merge_one(inputs)
    assert all(before[1] < after[0] for before, after in pairwise(rows))  # time coherence
    held = [[] for _ in rows]
    for number, samples in enumerate(inputs):
        for t, x, y in samples:
            inside = [i for i, row in enumerate(rows) if row[0] <= t <= row[1]]
            assert len(inside) == 1  # condition i)
            x0, y0, x1, y1 = rows[inside[0]][2:]
            assert x0 <= x <= x1
            assert y0 <= y <= y1
            held[inside[0]].append((number, t, x, y))
    for row, part in zip(rows, held, strict=True):
        number, t, x, y = zip(*part, strict=True)
        assert set(number) == set(range(len(inputs)))  # condition ii)
        assert row == (min(t), max(t), min(x), min(y), max(x), max(y))  # no larger than its samples
    assert compute_cost(rows) == oracle.find_least_cost_of_many(inputs)  # condition iii)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_tasks_of_any_number_of_inputs_are_merged_each_by_itself(monkeypatch, threads):
    monkeypatch.setattr(cores, "count_threads", lambda: threads)
    monkeypatch.setattr(_k_merge, "_MIN_SAMPLES_PER_THREAD", 4)
    rng = random.Random(SEED)
    subjects = draw_inputs(rng, 12, 20, 12, 20)
    samples = make_samples(subjects)
    tasks = [rng.sample(range(12), rng.randint(1, 5)) for _ in range(40)]
    who = np.concatenate(tasks)
    offset = np.cumsum([0, *map(len, tasks)])
    begin, end = samples.offset[who], samples.offset[who + 1]
    merged, costs = _k_merge.merge(samples, offset, begin, end), _k_merge.compute_costs(samples, offset, begin, end)
    for number, task in enumerate(tasks):
        part = slice(merged.offset[number], merged.offset[number + 1])
        rows = np.column_stack([merged.first[part], merged.last[part], merged.box[part]])
        assert [tuple(row) for row in rows.tolist()] == merge_one([subjects[i] for i in task])
        assert costs[number] == compute_cost(rows.tolist())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_pair_costs_are_those_of_merges(monkeypatch, threads):
    monkeypatch.setattr(cores, "count_threads", lambda: threads)
    monkeypatch.setattr(_k_merge, "_MIN_SAMPLES_PER_THREAD", 4)
    rng = random.Random(SEED)
    subjects = draw_inputs(rng, 10, 20, 12, 20)
    samples = make_samples(subjects)
    a, b = np.nonzero(~np.eye(10, dtype=bool))
    costs = _k_merge.compute_pair_costs(
        samples, samples.offset[a], samples.offset[a + 1], samples.offset[b], samples.offset[b + 1]
    )
    assert costs.tolist() == [
        oracle.find_least_cost_of_many([subjects[i], subjects[j]]) for i, j in zip(a, b, strict=True)
    ]


def test_parts_of_a_subject_are_merged_as_subjects_are():
    """Ranges of samples need not be whole subjects: epochs are merged by themselves."""
    samples = make_samples([[(0, 0, 0), (1, 1, 0), (5, 9, 9)], [(1, 0, 0), (4, 9, 9), (5, 9, 9)]])
    ends = [np.array([value]) for value in (0, 2, 3, 4)]
    assert _k_merge.compute_pair_costs(samples, *ends).tolist() == [2 * (2 + 1)]


def test_nothing_to_merge_gives_nothing():
    samples, none = make_samples([[(0, 0, 0)]]), np.empty(0, np.int64)
    merged = _k_merge.merge(samples, np.array([0]), none, none)
    assert merged.offset.tolist() == [0]
    assert merged.box.shape == (0, 4)
    assert _k_merge.compute_pair_costs(samples, none, none, none, none).tolist() == []
    assert _k_merge.compute_costs(samples, np.array([0]), none, none).tolist() == []


def test_costs_beyond_what_a_float_counts_are_exact():
    far = 2**29
    rows = merge_one([[(0, -far, -far), (far, far, far)], [(far, far, far - 1)]])
    assert compute_cost(rows) == oracle.find_least_cost([[(0, -far, -far), (far, far, far)], [(far, far, far - 1)]])


def test_costs_at_the_furthest_slots_and_cells_are_exact():
    """From one end of all slots and cells to the other, in long runs too: nothing overflows."""
    t, c = MAX_SLOT - 1, MAX_CELL - 1
    ends = [(-t, -c, -c), (t, c, c)]
    for own in ([], [(i, c, -c) for i in range(200)]):
        assert merge_one([[ends[0], *own], [ends[1]]]) == [(-t, t, -c, -c, c, c)]
    many = [(-t + i, -c, -c) for i in range(500)]
    both = merge_one([[*many, ends[1]], [(s + 1, c, c) for s, _, _ in many] + [(t - 1, c, c)]])
    assert both[-1] == (t - 1, t, c, c, c, c)
