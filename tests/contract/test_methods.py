"""Every algorithm of every family against the same demands; a new family is tested by being registered.

Each is run with the example of its registry entry, of which `k` is `K`, on the worlds of `tests.contract.evidence`.
"""

import dataclasses

import numpy as np
import pytest

from dbanon.attacks import import_attacker, overlapping_records
from dbanon.base.cloaks import Atoms, Cloaks, Hiding
from dbanon.base.errors import DataError, DbanonError, InfeasibleError
from dbanon.methods import METHODS
from tests.contract.evidence import GRID_M, attack_cloaks, make_inputs, make_people, run, store_cloaks, verify_cloaks

K = 4

ALGORITHMS = [
    pytest.param(family, algorithm.name, id=f"{family.name}-{algorithm.name}")
    for family in METHODS.values()
    for algorithm in family.algorithms
]
every_algorithm = pytest.mark.parametrize(("family", "algorithm"), ALGORITHMS)
every_algorithm_that_joins = pytest.mark.parametrize(
    ("family", "algorithm"), [one for one in ALGORITHMS if one.values[0].joins]
)

FIGURES = {"subjects", "published", "records", "rows", "smallest_crowd"}
ROWS = ("record_id", "seq", "start", "end", "bounds", "crowd", "subjects", "extra", "extras")
OTHERS = (
    "member_record",
    "member_trajectory",
    "member_start",
    "member_end",
    "hiding",
    "atoms",
    "suppressed",
    "metrics",
)


def is_same(a, b, but=()):
    fields = {f.name for f in dataclasses.fields(Cloaks)}
    assert fields == {"offset", "region", "period", "regions", "periods", *OTHERS}  # the first five make the rows
    names = [
        name for name in (*ROWS, *OTHERS) if name not in but and (name != "bounds" or a.regions.bounds is not None)
    ]
    regions = [(cloaks.regions.cell, cloaks.regions.cell_offset, cloaks.region) for cloaks in (a, b)]
    alike = a.regions.cell is None or all(map(np.array_equal, *regions))
    return alike and all(is_equal(getattr(a, name), getattr(b, name)) for name in names)


def is_equal(one, other):
    if isinstance(one, Atoms | Hiding) and type(other) is type(one):
        return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    return np.array_equal(one, other)


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
    # Records that are alike follow one another: an evaluation draws them together.
    alike = cloaks.member_trajectory[np.searchsorted(cloaks.member_record, records)], cloaks.start[first]
    assert np.diff(alike).any(axis=0).sum() + 1 == np.unique(alike, axis=1).shape[1]
    assert cloaks.regions.bounds is None or (cloaks.bounds[:, 2:] > cloaks.bounds[:, :2]).all()
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


@pytest.mark.parametrize("family", METHODS.values(), ids=METHODS)
def test_the_entry_of_a_family_says_what_core_functions_ask(family):
    assert family.example["k"] == K
    assert family.hides in ("sender", "place")
    assert family.holds in ("instant", "some time")
    assert family.hidden_by in ("record", "region")
    assert {*family.reads, *family.joins} <= {"requests", "sites", "quasi_identifiers", "cells"}
    # As `dbanon_internal.list_contents` has it: who met a request is told by whole records, of guests by their time.
    assert "requests" not in family.joins or (family.hidden_by == "record" and family.has_guests)
    assert not (family.has_days and family.window)
    named = (family.instant, family.oldest, family.every, family.window, *(one.window for one in family.algorithms))
    asked = {*family.begins, *filter(None, named), "k", "since", "until"}
    assert asked <= {item.name for item in dataclasses.fields(family.parameters)}
    counted = {name: told for name, told in family.notices.items() if name != "left_out"}
    assert all(told.count("%s") == 1 and told.count("%") == 1 for told in counted.values())


@every_algorithm
def test_k_holds_in_distinct_subjects(family, algorithm):
    data = make_people(60)
    demand_k(data, run(family, algorithm, data))


@every_algorithm
def test_people_have_a_record_each_day_only_where_the_family_says_so(family, algorithm):
    data = make_people(60)
    cut = dataclasses.replace(data, day=(np.diff(data.subject, prepend=-1) == 0).astype(np.int64))
    assert is_same(run(family, algorithm, data), run(family, algorithm, cut)) != family.has_days


@every_algorithm
def test_the_same_data_parameters_and_seed_give_the_same_cloaks(family, algorithm):
    assert is_same(run(family, algorithm, make_people(60)), run(family, algorithm, make_people(60)))


@every_algorithm
def test_input_and_output_are_read_only(family, algorithm):
    data = make_people(30)
    before = {f.name: np.copy(getattr(data, f.name)) for f in dataclasses.fields(data)}
    cloaks = run(family, algorithm, data)
    assert all(np.array_equal(getattr(data, name), value) for name, value in before.items())
    for item in (data, cloaks):
        arrays = [v for f in dataclasses.fields(item) if isinstance(v := getattr(item, f.name), np.ndarray)]
        assert not any(a.flags.writeable for a in arrays)


@every_algorithm
def test_global_random_state_is_neither_read_nor_changed(family, algorithm):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the legacy state is what must not be touched
    run(family, algorithm, make_people(30))
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@every_algorithm
@pytest.mark.parametrize("n", [0, 1, K - 1])
def test_fewer_than_k_subjects_are_infeasible_or_left_exact(family, algorithm, n):
    data = make_people(n)
    try:
        cloaks = run(family, algorithm, data)
    except (InfeasibleError, DataError):  # where nobody is, no site is either
        return
    demand_k(data, cloaks)
    assert (cloaks.crowd == 1).all()


@every_algorithm
def test_exactly_k_subjects_are_enough(family, algorithm):
    data = make_people(K)
    cloaks = run(family, algorithm, data)
    demand_k(data, cloaks)
    assert (cloaks.crowd[cloaks.crowd > 1] == K).all()


@every_algorithm
def test_everyone_at_one_point_is_one_cell(family, algorithm):
    data = make_people(23)
    data = dataclasses.replace(data, x=np.full(data.fixes, 12.0), y=np.full(data.fixes, -3.0))
    cloaks = run(family, algorithm, data)
    demand_k(data, cloaks)
    if cloaks.regions.bounds is None:
        regions = np.split(cloaks.regions.cell, cloaks.regions.cell_offset[1:-1])
        assert {tuple(region.tolist()) for region in regions} == {(1, 2)}  # a bank and a shop
    else:
        assert np.unique(cloaks.bounds, axis=0).tolist() == [[10, -5, 15, 0]]


@every_algorithm
def test_ties_are_broken_the_same_way_every_time(family, algorithm):
    data = make_people(40)
    corner = np.repeat(data.subject % 4, np.diff(data.offset))
    data = dataclasses.replace(data, x=corner % 2 * 100.0, y=corner // 2 * 100.0)
    cloaks = run(family, algorithm, data)
    demand_k(data, cloaks)
    assert is_same(cloaks, run(family, algorithm, data))


@pytest.mark.many
@every_algorithm
@pytest.mark.parametrize(("right", "up"), [(1, 0), (-3, 7), (1000, -1000)])
def test_moving_everything_by_whole_cells_moves_the_cloaks_and_changes_nothing_else(family, algorithm, right, up):
    # Binary fractions, so that the shift itself does not round.
    data = make_people(60)
    data = dataclasses.replace(data, x=np.round(data.x * 8) / 8, y=np.round(data.y * 8) / 8)
    moved = dataclasses.replace(data, x=data.x + right * GRID_M, y=data.y + up * GRID_M)
    a, b = run(family, algorithm, data), run(family, algorithm, moved)
    assert is_same(a, b, but=("bounds",))
    if a.regions.bounds is not None:
        assert np.array_equal(a.bounds + np.tile([right, up], 2) * GRID_M, b.bounds)


@every_algorithm
def test_duplicate_times_across_trajectories_of_a_subject_count_as_one_person(family, algorithm):
    once = make_people(40)
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
    cloaks = run(family, algorithm, make_people(60))
    counts = {reason: n for kind in family.totals for reason, n in cloaks.suppressed.get(kind, {}).items()}
    assert all(isinstance(n, int) and n >= 0 for n in counts.values())
    assert counts.keys() <= family.reasons.keys()
    tenths = [cloaks.metrics[f"longer_side_{tenth}0_m"] for tenth in range(1, 10)]
    assert tenths[4] > 0
    assert tenths == sorted(tenths)


@every_algorithm
def test_errors_are_the_programs_own_even_for_absurd_but_valid_parameters(family, algorithm):
    with pytest.raises(DbanonError):
        run(family, algorithm, make_people(30), k=10**9)


@every_algorithm_that_joins
def test_joining_inputs_changes_neither_records_nor_members(family, algorithm):
    data = make_people(30)
    params = family.parse(family.example, algorithm)
    cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(3), **make_inputs(family.reads, data))
    joined = family.attach(cloaks, data, params, **make_inputs(family.joins, data))
    assert np.array_equal(cloaks.member_trajectory, joined.member_trajectory)
    assert np.array_equal(np.unique(cloaks.record_id), np.unique(joined.record_id))
    assert cloaks.metrics.items() <= joined.metrics.items()


@every_algorithm_that_joins
def test_joining_that_moves_a_member_is_refused(family, algorithm, monkeypatch):
    data = make_people(30)
    cloaks = run(family, algorithm, data)
    other = np.roll(cloaks.member_trajectory, 1)
    moved = dataclasses.replace(cloaks, member_trajectory=other)
    monkeypatch.setattr(f"{family.module}.attach", lambda *_, **__: moved)
    with pytest.raises(DataError, match="groups of people"):
        family.attach(cloaks, data, family.parse(family.example))


def join_rows(cloaks):
    """Join the first two rows of the first record, as `min_contents` may."""
    bounds, last = cloaks.bounds.copy(), cloaks.end.copy()
    bounds[0] = [*bounds[:2, :2].min(axis=0), *bounds[:2, 2:].max(axis=0)]
    last[0] = last[1]
    kept = np.arange(cloaks.rows) != 1
    columns = {name: getattr(cloaks, name)[kept] for name in ("record_id", "start", "crowd", "subjects")}
    others = {n: getattr(cloaks, n) for n in ("member_record", "member_trajectory", "suppressed", "metrics")}
    return Cloaks.from_rows(**columns, end=last[kept], bounds=bounds[kept], **others)


def enlarge_row(cloaks):
    bounds = cloaks.bounds.copy()
    bounds[1] += [-1, -1, 1, 1]
    columns = {n: getattr(cloaks, n) for n in ("record_id", "start", "end", "crowd", "subjects", "member_record")}
    others = {n: getattr(cloaks, n) for n in ("member_trajectory", "suppressed", "metrics")}
    return Cloaks.from_rows(**columns, bounds=bounds, **others)


@every_algorithm_that_joins
@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        (lambda c: c, True),
        (join_rows, True),
        (enlarge_row, False),
        (lambda c: enlarge_row(join_rows(c)), False),
        (lambda c: dataclasses.replace(c, periods=c.periods + 60), False),
        (lambda c: dataclasses.replace(c, region=np.roll(c.region, 1)), False),
    ],
    ids=["none", "joined", "larger", "joined and larger", "later", "another's place"],
)
def test_joining_inputs_may_join_rows_and_change_no_other(family, algorithm, monkeypatch, change, allowed):
    data = make_people(30)
    cloaks = run(family, algorithm, data)
    monkeypatch.setattr(f"{family.module}.attach", lambda *_, **__: change(cloaks))
    if allowed:
        assert family.attach(cloaks, data, family.parse(family.example)).rows == change(cloaks).rows
    else:
        with pytest.raises(DataError, match="rows"):
            family.attach(cloaks, data, family.parse(family.example))


# ---- their attacks ---------------------------------------------------------------------------------------------------


@pytest.mark.many
@every_algorithm
@pytest.mark.parametrize("changed", [{}, {"since": 60}, {"until": 360}, {"since": 60, "until": 301}], ids=str)
def test_the_attack_finds_nothing_to_object_to(family, algorithm, changed):
    data = make_people(60)
    cloaks = run(family, algorithm, data, **changed)
    verdict = verify_cloaks(family, algorithm, family.parse({**family.example, **changed}), data, cloaks)
    assert verdict.passed, [c.sentence for c in verdict.clauses if not c.passed]
    assert verdict.attack == family.name
    assert (
        set(family.totals.values()) | set(family.notices) - {"left_out", "requests_of_few_over_parts"}
        <= verdict.figures.keys()
    )
    assert verdict.figures.keys() >= FIGURES
    clauses = import_attacker(family.attack).attack.clauses
    of_algorithm = [one for one in clauses if not one.algorithms or algorithm in one.algorithms]
    assert verdict.figures.keys() >= {one.over for one in of_algorithm if one.over}
    if "since" in changed:
        assert cloaks.start.min() >= changed["since"]
    if "until" in changed:
        assert cloaks.end.max() <= changed["until"]


@every_algorithm
@pytest.mark.parametrize("claimed", [{"since": 121}, {"until": 120}], ids=str)
def test_rows_outside_since_and_until_are_refused(family, algorithm, claimed):
    data = make_people(60)
    params = family.parse({**family.example, **claimed})
    assert not attack_cloaks(family, algorithm, params, data, run(family, algorithm, data)).passed


def find_hidden_row(cloaks):
    """The first row that hides somebody, and the first member of its record."""
    row = int(np.flatnonzero(cloaks.crowd > 1)[0])
    return row, int(np.flatnonzero(cloaks.member_record == cloaks.record_id[row])[0])


def drop_member(cloaks):
    kept = np.arange(len(cloaks.member_record)) != find_hidden_row(cloaks)[1]
    return dataclasses.replace(
        cloaks, member_record=cloaks.member_record[kept], member_trajectory=cloaks.member_trajectory[kept]
    )


def remake_cloaks(cloaks, rows=slice(None), **changed):
    """Make cloaks of some of the rows, or of other values in them."""
    columns = {name: getattr(cloaks, name)[rows] for name in ROWS if name not in ("seq", "extra", "extras")}
    extra = None if cloaks.extra is None else cloaks.extra[rows]
    others = {name: getattr(cloaks, name) for name in OTHERS}
    return Cloaks.from_rows(**{**columns, **changed}, extra=extra, extras=cloaks.extras, **others)


def shrink_row(cloaks):
    row = find_hidden_row(cloaks)[0]
    if cloaks.regions.bounds is None:
        return replace_region(
            cloaks, row, cells=cloaks.regions.cell[cloaks.regions.cell_offset[cloaks.region[row]] :][:1]
        )
    bounds = cloaks.bounds.copy()
    bounds[row, 0] += GRID_M
    return remake_cloaks(cloaks, bounds=bounds)


def raise_crowd(cloaks):
    if cloaks.regions.bounds is None:
        row, regions = find_hidden_row(cloaks)[0], cloaks.regions
        first, end = regions.cell_offset[cloaks.region[row]], regions.cell_offset[cloaks.region[row] + 1]
        return replace_region(cloaks, row, cells=regions.cell[first:end], crowd=cloaks.crowd[row] + 1)
    crowd = cloaks.crowd.copy()
    crowd[find_hidden_row(cloaks)[0]] += 1
    return remake_cloaks(cloaks, crowd=crowd)


def replace_region(cloaks, row, *, cells, crowd=None):
    """Give a row a region of its own, of some cells."""
    regions, at = cloaks.regions, cloaks.region[row]
    own = {name: np.append(getattr(regions, name), getattr(regions, name)[at]) for name in ("subjects", "extra")}
    made = dataclasses.replace(
        regions,
        crowd=np.append(regions.crowd, regions.crowd[at] if crowd is None else crowd).astype(np.int32),
        cell=np.append(regions.cell, cells),
        cell_offset=np.append(regions.cell_offset, regions.cell_offset[-1] + len(cells)),
        **own,
    )
    region = cloaks.region.copy()
    region[row] = len(regions)
    return dataclasses.replace(cloaks, regions=made, region=region)


def copy_row(cloaks):
    row = find_hidden_row(cloaks)[0]
    last = int(np.flatnonzero(cloaks.record_id == cloaks.record_id[row])[-1])
    if cloaks.regions.bounds is None:
        return dataclasses.replace(
            cloaks,
            offset=cloaks.offset + (np.arange(len(cloaks.offset)) >= cloaks.record_id[row]),
            region=np.insert(cloaks.region, last + 1, cloaks.region[row]),
            period=np.insert(cloaks.period, last + 1, cloaks.period[row]),
        )
    return remake_cloaks(cloaks, np.insert(np.arange(cloaks.rows), last + 1, row))


@pytest.mark.many
@every_algorithm
@pytest.mark.parametrize("mutant", [drop_member, shrink_row, raise_crowd, copy_row], ids=lambda m: m.__name__)
def test_a_small_harmful_change_is_refused(family, algorithm, mutant):
    data = make_people(60)
    mutated = mutant(run(family, algorithm, data))
    assert not attack_cloaks(family, algorithm, family.parse(family.example), data, mutated).passed


# ---- each person once -----------------------------------------------------------------------------------------------


def find_broken_clauses(family, algorithm, data, cloaks):
    """Name the clauses of core that cloaks break."""
    evidence = store_cloaks(family, algorithm, family.parse(family.example), data, cloaks)
    return {
        clause.name
        for clause in overlapping_records.decide_clauses(evidence, counts_days=family.has_days)
        if not clause.passed
    }


@every_algorithm
def test_each_person_is_in_one_group_at_a_time_and_subjects_may_be_summed(family, algorithm):
    """Rows of an instant, added up, stand for no more than the people who are members of their records."""
    data = make_people(60)
    cloaks = run(family, algorithm, data)
    assert find_broken_clauses(family, algorithm, data, cloaks) == set()
    subject = data.subject[np.searchsorted(data.trajectory_id, cloaks.member_trajectory)]
    for start in np.unique(cloaks.start):
        rows = (cloaks.start <= start) & (start < cloaks.end)
        members = np.isin(cloaks.member_record, cloaks.record_id[rows])
        assert cloaks.subjects[rows].sum() <= len(np.unique(subject[members]))


def move_member(cloaks):
    """Make the first member of a record that hides people one of a record at the same time with other members too."""
    row, member = find_hidden_row(cloaks)
    path, first = cloaks.member_trajectory[member], cloaks.record_id[row]
    at_the_time = (cloaks.start < cloaks.end[row]) & (cloaks.end > cloaks.start[row])
    own = cloaks.member_trajectory[cloaks.member_record == first]
    strange = cloaks.member_record[~np.isin(cloaks.member_trajectory, own)]
    record = np.intersect1d(strange, cloaks.record_id[at_the_time])[-1]
    pairs = np.append(cloaks.member_record, record), np.append(cloaks.member_trajectory, path)
    order = np.lexsort(pairs[::-1])
    return dataclasses.replace(cloaks, member_record=pairs[0][order], member_trajectory=pairs[1][order])


def raise_subjects(cloaks):
    subjects = cloaks.regions.subjects.copy()
    subjects[cloaks.region[find_hidden_row(cloaks)[0]]] += 1
    return dataclasses.replace(cloaks, regions=dataclasses.replace(cloaks.regions, subjects=subjects))


@pytest.mark.many
@every_algorithm
@pytest.mark.parametrize(
    ("mutant", "clause"),
    [(move_member, "one-group"), (raise_subjects, "subjects-sum")],
    ids=["member", "subjects"],
)
def test_a_person_counted_twice_is_refused_by_the_attack_and_by_core(family, algorithm, mutant, clause):
    data = make_people(60)
    mutated = mutant(run(family, algorithm, data))
    assert not attack_cloaks(family, algorithm, family.parse(family.example), data, mutated).passed
    assert clause in find_broken_clauses(family, algorithm, data, mutated)
