"""Every algorithm of every family against the same demands; a new family is tested by being registered.

`PARAMETERS` makes each family small enough for the data below; `k` of them is `K`.
"""

import dataclasses

import numpy as np
import pytest

from dbanon.cloaks import Cloaks
from dbanon.errors import DataError, DbanonError, InfeasibleError
from dbanon.methods import METHODS
from dbanon.trajectory import Places, Requests, Trajectories

K = 4
GRID_M = 5.0
PARAMETERS = {"tp-aware": {"k": K, "instants": 4}, "sensitive-sites": {"k": K, "at": "120"}}

ALGORITHMS = [
    pytest.param(family, algorithm.name, id=f"{family.name}-{algorithm.name}")
    for family in METHODS.values()
    for algorithm in family.algorithms
    if not algorithm.comparison_only
]
every_algorithm = pytest.mark.parametrize(("family", "algorithm"), ALGORITHMS)
every_algorithm_with_requests = pytest.mark.parametrize(
    ("family", "algorithm"), [one for one in ALGORITHMS if one.values[0].reads_requests]
)


def people(n, *, seed=5, instants=8, step_s=60, side=400.0):
    """Walk n subjects; every fifth has its path in two trajectories, so rows, trajectories and people differ."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, side, (n, 1, 2)) + rng.normal(0, 10, (n, instants, 2)).cumsum(axis=1)
    parts = [(i, p) for i in range(n) for p in (np.array_split(np.arange(instants), 2 if i % 5 == 0 else 1))]
    return Trajectories(
        trajectory_id=np.arange(len(parts)) * 2 + 1, subject=np.array([i for i, _ in parts], np.int64),
        offset=np.cumsum([0, *(len(p) for _, p in parts)]),
        t=np.concatenate([p * float(step_s) for _, p in parts] or [np.empty(0)]),
        x=np.concatenate([xy[i, p, 0] for i, p in parts] or [np.empty(0)]),
        y=np.concatenate([xy[i, p, 1] for i, p in parts] or [np.empty(0)]),
        srid=32610, grid_m=GRID_M, grid_s=1,
    )  # fmt: skip


def sites(data):
    """Put sites where some of the people are: one for few of them, five for many."""
    at = np.arange(min(5, max(1, data.subjects // (2 * K)))) * 7 if data.fixes else np.empty(0, np.int64)
    return Places(
        site_id=at * 3 + 1, site_bounds=np.column_stack([data.x[at], data.y[at]] * 2),
        shape_trajectory=np.empty(0, np.int64), shape_bounds=np.empty((0, 4)),
    )  # fmt: skip


def run(family, algorithm, data, seed=3):
    params = family.parse(PARAMETERS[family.name])
    return family.anonymise(data, algorithm, params, np.random.default_rng(seed), sites(data))


ROWS = ("record_id", "seq", "start", "end", "bounds", "crowd", "subjects", "extra", "extras")
OTHERS = ("member_record", "member_trajectory", "member_start", "member_end", "hiding", "suppressed", "metrics")


def same(a, b, but=()):
    fields = {f.name for f in dataclasses.fields(Cloaks)}
    assert fields == {"offset", "region", "period", "regions", "periods", *OTHERS}  # the first five make the rows
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in (*ROWS, *OTHERS) if name not in but)


def demand_k(data, cloaks, k=K):
    """Rows are as `Cloaks` says, and rows that hide anyone hide k distinct subjects or more."""
    position = np.stack([cloaks.record_id, cloaks.seq])
    assert (np.lexsort(position[::-1]) == np.arange(position.shape[1])).all()
    records = np.unique(cloaks.record_id)
    assert records.tolist() == list(range(1, len(records) + 1))
    assert np.unique(cloaks.member_record).tolist() == records.tolist()
    first = np.flatnonzero(np.diff(cloaks.record_id, prepend=0))
    length = np.diff(np.append(first, len(cloaks.record_id)))
    assert cloaks.seq.tolist() == [s for n in length for s in range(1, n + 1)]
    assert (cloaks.end > cloaks.start).all()
    assert (cloaks.bounds[:, 2:] > cloaks.bounds[:, :2]).all()
    assert (cloaks.subjects >= 1).all()
    assert (cloaks.subjects <= cloaks.crowd).all()
    pairs = np.stack([cloaks.member_record, cloaks.member_trajectory])
    assert np.array_equal(np.unique(pairs, axis=1), pairs)
    subject = data.subject[np.searchsorted(data.trajectory_id, cloaks.member_trajectory)]
    people_of = np.bincount(np.unique(np.stack([cloaks.member_record, subject]), axis=1)[0])
    hidden = cloaks.crowd > 1
    assert (cloaks.crowd[hidden] >= k).all()
    assert (people_of[cloaks.record_id] >= cloaks.subjects).all()
    whole = cloaks.subjects > 1
    assert (people_of[cloaks.record_id[whole]] == cloaks.crowd[whole]).all()


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_family_listed_here_is_registered(name):
    assert name in METHODS


@every_algorithm
def test_k_holds_in_distinct_subjects(family, algorithm):
    data = people(60)
    demand_k(data, run(family, algorithm, data))


@every_algorithm
def test_the_same_data_parameters_and_seed_give_the_same_cloaks(family, algorithm):
    assert same(run(family, algorithm, people(60)), run(family, algorithm, people(60)))


@every_algorithm
def test_input_and_output_are_read_only(family, algorithm):
    data = people(30)
    before = {f.name: np.copy(getattr(data, f.name)) for f in dataclasses.fields(data)}
    cloaks = run(family, algorithm, data)
    assert all(np.array_equal(getattr(data, name), value) for name, value in before.items())
    for item in (data, cloaks):
        arrays = [v for f in dataclasses.fields(item) if isinstance(v := getattr(item, f.name), np.ndarray)]
        assert not any(a.flags.writeable for a in arrays)


@every_algorithm
def test_global_random_state_is_neither_read_nor_changed(family, algorithm):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the legacy state is what must not be touched
    run(family, algorithm, people(30))
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@every_algorithm
@pytest.mark.parametrize("n", [0, 1, K - 1])
def test_fewer_than_k_subjects_are_infeasible_or_left_exact(family, algorithm, n):
    data = people(n)
    try:
        cloaks = run(family, algorithm, data)
    except (InfeasibleError, DataError):  # where nobody is, no site is either
        return
    demand_k(data, cloaks)
    assert (cloaks.crowd == 1).all()


@every_algorithm
def test_exactly_k_subjects_are_enough(family, algorithm):
    data = people(K)
    cloaks = run(family, algorithm, data)
    demand_k(data, cloaks)
    assert (cloaks.crowd[cloaks.crowd > 1] == K).all()


@every_algorithm
def test_everyone_at_one_point_is_one_cell(family, algorithm):
    data = people(23)
    data = dataclasses.replace(data, x=np.full(data.fixes, 12.0), y=np.full(data.fixes, -3.0))
    cloaks = run(family, algorithm, data)
    demand_k(data, cloaks)
    assert np.unique(cloaks.bounds, axis=0).tolist() == [[10, -5, 15, 0]]


@every_algorithm
def test_ties_are_broken_the_same_way_every_time(family, algorithm):
    data = people(40)
    corner = np.repeat(data.subject % 4, np.diff(data.offset))
    data = dataclasses.replace(data, x=corner % 2 * 100.0, y=corner // 2 * 100.0)
    cloaks = run(family, algorithm, data)
    demand_k(data, cloaks)
    assert same(cloaks, run(family, algorithm, data))


@every_algorithm
@pytest.mark.parametrize(("right", "up"), [(1, 0), (-3, 7), (1000, -1000)])
def test_moving_everything_by_whole_cells_moves_the_cloaks_and_changes_nothing_else(family, algorithm, right, up):
    # Binary fractions, so that the shift itself does not round.
    data = people(60)
    data = dataclasses.replace(data, x=np.round(data.x * 8) / 8, y=np.round(data.y * 8) / 8)
    moved = dataclasses.replace(data, x=data.x + right * GRID_M, y=data.y + up * GRID_M)
    a, b = run(family, algorithm, data), run(family, algorithm, moved)
    assert same(a, b, but=("bounds",))
    assert np.array_equal(a.bounds + np.tile([right, up], 2) * GRID_M, b.bounds)


@every_algorithm
def test_duplicate_times_across_trajectories_of_a_subject_count_as_one_person(family, algorithm):
    once = people(40)
    n, m = len(once.trajectory_id), once.fixes
    twice = dataclasses.replace(
        once,
        trajectory_id=np.arange(2 * n),
        subject=np.tile(once.subject, 2),
        offset=np.concatenate([once.offset, once.offset[1:] + m]),
        **{name: np.tile(getattr(once, name), 2) for name in ("t", "x", "y")},
    )
    cloaks = run(family, algorithm, twice)
    demand_k(twice, cloaks)
    assert cloaks.crowd.sum() == run(family, algorithm, once).crowd.sum()


@every_algorithm
def test_what_is_left_out_is_counted_by_reason(family, algorithm):
    cloaks = run(family, algorithm, people(60))
    counts = cloaks.suppressed["subjects"]
    assert all(isinstance(n, int) and n >= 0 for n in counts.values())


@every_algorithm
def test_errors_are_the_programs_own_even_for_absurd_but_valid_parameters(family, algorithm):
    params = family.parse({**PARAMETERS[family.name], "k": 10**9})
    with pytest.raises(DbanonError):
        family.anonymise(people(30), algorithm, params, np.random.default_rng(0), sites(people(30)))


@every_algorithm_with_requests
def test_joining_requests_changes_nothing_but_what_is_said_about_them(family, algorithm):
    data = people(30)
    cloaks = run(family, algorithm, data)
    rng = np.random.default_rng(1)
    requests = Requests(
        subject=rng.integers(-1, 30, 50), t=rng.uniform(-60, 600, 50), content=rng.integers(0, 2, 50),
        contents=('{"a": 1}', '{"b": 2}'),
    )  # fmt: skip
    joined = family.attach(cloaks, data, requests)
    assert same(cloaks, joined, but=("extra", "extras", "suppressed", "metrics"))
    assert cloaks.metrics.items() <= joined.metrics.items()
