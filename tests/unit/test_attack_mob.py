import dataclasses
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.unit.mob_evidence import (
    GRID_M,
    START_S,
    STEP_S,
    Release,
    Row,
    attack,
    count_surviving,
    draw_extreme,
    draw_symmetric,
    draw_tracks,
    find_broken,
    find_fitting,
    publish,
)

TRACKS = {
    0: {0: (0, 0), 1: (1, 1), 2: (2, 0), 3: (3, 3)},
    1: {0: (1, 0), 1: (2, 2), 2: (8, 8), 3: (9, 9)},
    2: {0: (2, 2), 1: (5, 1), 2: (7, 7), 3: (20, 20)},
    3: {0: (30, 30), 1: (31, 31), 2: (9, 7)},
    4: {0: (40, 0), 1: (41, 1), 2: (42, 2), 3: (43, 3)},
    5: {0: (50, 0), 1: (51, 1), 2: (52, 2), 3: (53, 3)},
}
OWN = {0: {0}, 1: {0}, 2: {0, 2}, 3: {2}, 4: set(), 5: set()}
HIDDEN = {0: {1, 2}, 1: {0, 2}, 2: {0, 1, 3}, 3: {2}}


def make_honest(**params: object) -> Release:
    """Two kinds of people: four who hide one another, and two of whom nothing is known."""
    return publish(TRACKS, OWN, HIDDEN, sorted(TRACKS), random.Random(3), **params)


def find_record(release: Release, subject: int) -> int:
    of = {path: who for path, (who, _) in release.trips.items()}
    return next(r for r, path, _ in release.members if of[path] == subject)


def find_row(release: Release, subject: int, t: int) -> Row:
    return release.at(find_record(release, subject), t)


def draw_instance(
    seed: int, algorithm: str = "symmetric", *careless: str
) -> tuple[Release, dict[int, int], int] | None:
    """Publish a random instance: the run, how many records all matchings leave each, and k; None if nobody is left."""
    rng = random.Random(seed)
    k, presence = rng.choice([2, 3]), rng.choice([1.0, 0.8])
    tracks, own = draw_tracks(rng, subjects=rng.randint(3, 7), instants=rng.randint(1, 5), presence=presence)
    if algorithm == "symmetric":
        hidden, kept = draw_symmetric(tracks, own, k, rng, *careless)
    else:
        hidden, kept = draw_extreme(tracks, own, k, rng)
    if len(kept) < k or not any(hidden.values()):
        return None
    union = algorithm != "symmetric" and "own_alone" not in careless
    release = publish(tracks, own, hidden, kept, rng, k=k, is_union=union)
    release.algorithm = algorithm
    return release, count_surviving(find_fitting(release, tracks, own, kept)), k


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("algorithm", ["symmetric", "extreme-union"])
def test_an_honest_run_passes_and_all_matchings_leave_as_many_or_more(seed: int, algorithm: str) -> None:
    made = draw_instance(seed, algorithm)
    if made:
        release, number, k = made
        verdict = attack(release.make_evidence())
        assert [clause.sentence for clause in verdict.clauses if not clause.passed] == []
        # Of the edges those of the hiding sets are enough to pass.
        assert k <= verdict.figures["least_surviving"] <= min(number.values())


@pytest.mark.stress
@pytest.mark.many
@pytest.mark.parametrize("careless", ["one_way", "not_closed", "not_served", "own_alone"])
def test_a_careless_run_is_refused_exactly_if_all_matchings_leave_too_few(careless: str) -> None:
    refused = passed = 0
    for seed in range(200):
        made = draw_instance(seed, "extreme-union" if careless == "own_alone" else "symmetric", careless)
        if made:
            release, number, k = made
            verdict = attack(release.make_evidence())
            found = {clause.name: clause.violations for clause in verdict.clauses}
            short = sum(left < k for left in number.values())
            assert (found["hidden"] + found["elimination"] == 0) == (short == 0)
            if short:
                assert found["hidden"] + found["elimination"] == short
                assert verdict.figures["least_surviving"] == min(number.values())
            refused, passed = refused + (short > 0), passed + (short == 0)
    assert refused > 2
    assert passed > 5


@pytest.mark.stress
def test_what_the_hiding_sets_do_not_show_is_searched_for() -> None:
    searched = 0
    for seed in range(100):
        made = draw_instance(seed)
        if made:
            release, number, _ = made
            release.hiding = []
            verdict = attack(release.make_evidence())
            assert {c.name for c in verdict.clauses if not c.passed} == {"sets"}
            searched += verdict.figures["searched"] > 0
            assert verdict.figures["least_surviving"] <= min(number.values())
    assert searched > 50


def make_strawman(sets: dict[int, set[int]]) -> Release:
    """Hide each person at one instant in its set, far from all others."""
    tracks = {i: {t: (i, 0) if i in {t, *sets[t]} else (50 + 10 * i, 7) for t in sets} for i in sets}
    release = publish(tracks, {i: {i} for i in sets}, sets, sorted(sets), random.Random(1))
    release.algorithm = "extreme-union"  # which need not be mutual
    return release


def test_the_straw_man_of_figure_1_is_refused() -> None:
    tracks = {1: {1: (1, 2), 2: (5, 3)}, 2: {1: (2, 3), 2: (2, 7)}, 3: {1: (9, 9), 2: (3, 6)}}
    release = publish(tracks, {1: {1}, 2: {2}, 3: {2}}, {1: {2}, 2: {3}, 3: {2}}, [1, 2, 3], random.Random(1))
    release.algorithm = "extreme-union"
    assert find_row(release, 1, 1).box == find_row(release, 2, 1).box == (1, 2, 2, 3)
    assert find_row(release, 2, 2).box == find_row(release, 3, 2).box == (2, 6, 3, 7)
    verdict = attack(release.make_evidence())
    assert {c.name: c.violations for c in verdict.clauses if not c.passed} == {"hidden": 1}
    assert verdict.figures["greatest_posterior"] == 1


def test_the_straw_man_of_figure_2_is_refused() -> None:
    verdict = attack(make_strawman({1: {2}, 2: {1, 5}, 3: {4}, 4: {3}, 5: {4}}).make_evidence())
    assert {c.name: c.violations for c in verdict.clauses if not c.passed} == {"hidden": 1}


# A change for each clause that it alone catches.


def _say(release: Release, what: str, name: str, more: int) -> None:
    release.suppressed[what][name] += more


def _move(release: Release, subject: int, t: int, x: float) -> None:
    """Move a fix in the data."""
    for path, (who, fixes) in release.trips.items():
        moved = [(at, x if who == subject and (at - START_S) // STEP_S == t else old, y) for at, old, y in fixes]
        release.trips[path] = (who, moved)


MUTANTS: list[tuple[str, Callable[[Release], object]]] = [
    ("decidable", lambda run: run.params.update(k=None)),
    ("decidable", lambda run: run.params.pop("qid_only")),
    ("decidable", lambda run: run.params.update(speed_m_s="fast")),
    ("decidable", lambda run: run.suppressed.pop("quasi_identifiers")),
    ("decidable", lambda run: _move(run, 4, 0, 1e12)),
    ("decidable", lambda run: setattr(run, "algorithm", "straw-man")),
    ("period", lambda run: setattr(find_row(run, 4, 1), "seq", 7)),
    ("members", lambda run: run.members.append(run.members[0])),
    ("members", lambda run: run.members.__setitem__(0, (*run.members[0][:2], False))),
    ("members", lambda run: run.members.pop(0)),
    ("members", lambda run: run.members.append((run.members[0][0], 1, True))),
    ("region", lambda run: setattr(find_row(run, 4, 0), "rectangle", False)),
    ("region", lambda run: setattr(find_row(run, 4, 0), "srid", 4326)),
    ("region", lambda run: setattr(find_row(run, 4, 0), "shift_m", 1e-9)),
    ("complete", lambda run: run.rows.remove(find_row(run, 4, 1))),
    ("exact", lambda run: setattr(find_row(run, 4, 0), "crowd", 2)),
    ("exact", lambda run: setattr(find_row(run, 4, 0), "box", (40, 0, 41, 0))),
    ("covers", lambda run: _move(run, 1, 2, 900.0)),
    ("crowd", lambda run: setattr(find_row(run, 1, 0), "crowd", 5)),
    ("crowd", lambda run: setattr(find_row(run, 4, 0), "subjects", 2)),
    ("size", lambda run: setattr(find_row(run, 4, 0), "cloaked", 1)),
    ("sets", lambda run: run.hiding.append(run.hiding[0])),
    ("sets", lambda run: run.hiding.pop()),
    ("sets", lambda run: run.hiding.__setitem__(0, (*run.hiding[0][:2], False))),
    ("sets", lambda run: run.hiding.append((find_record(run, 4), [find_record(run, 5)], True))),
    ("sets", lambda run: run.hiding[0][1].append(run.hiding[0][0])),
    ("sets", lambda run: run.hiding[0][1].append(run.hiding[0][1][0])),
    ("sets", lambda run: run.hiding[0][1].append(17)),
    ("sets", lambda run: run.hiding[3][1].append(find_record(run, 0))),
    ("left-out", lambda run: _say(run, "subjects", "few_partners", 1)),
    ("left-out", lambda run: _say(run, "subjects", "never_seen", 1)),
    ("left-out", lambda run: _say(run, "quasi_identifiers", "absent", 1)),
    ("left-out", lambda run: run.suppressed["by_hour"][0].update(seen=5)),
    ("left-out", lambda run: run.params.update(since=START_S - STEP_S) or run.known.append((5, START_S - 1.0))),
    ("left-out", lambda run: run.known.append((3, START_S + 3.0 * STEP_S))),
    ("left-out", lambda run: run.known.append((17, START_S + 1.0))),
    ("columns", lambda run: setattr(find_row(run, 4, 0), "other_keys", 1)),
    ("columns", lambda run: setattr(find_row(run, 4, 0), "cloaked", -1)),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "change"), MUTANTS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(MUTANTS)])
def test_a_change_is_caught_by_one_clause(clause: str, change: Callable[[Release], object]) -> None:
    release = make_honest()
    assert release.find_broken() == set()
    change(release)
    assert release.find_broken() == {clause}


def test_set_too_small_is_caught_by_its_clause_alone() -> None:
    release = publish(
        TRACKS, {0: {0}, 1: set(), 2: set(), 3: set(), 4: set(), 5: set()}, {0: {1, 2}}, range(6), random.Random(1)
    )
    assert release.find_broken() == set()
    release.params["k"] = 3
    assert release.find_broken() == set()
    release.hiding[0][1].pop()
    assert release.find_broken() == {"sets"}


CARELESS = {"hidden": ("extreme-union", "own_alone"), "elimination": ("symmetric", "not_served")}
CAUGHT_ALONE = {clause for clause, _ in MUTANTS} | CARELESS.keys()


@pytest.mark.stress
@pytest.mark.parametrize("clause", CARELESS)
def test_too_few_records_left_are_caught_by_one_clause(clause: str) -> None:
    runs = [made[0] for seed in range(300) if (made := draw_instance(seed, *CARELESS[clause]))]
    assert {clause} in [run.find_broken() for run in runs]


def test_rows_that_do_not_follow_one_another_are_caught_by_one_clause() -> None:
    release = make_honest()
    evidence = release.make_evidence()
    place = np.concatenate([np.arange(1, size + 1) for size in np.diff(evidence.offset)]).astype(np.int32)
    assert find_broken(dataclasses.replace(evidence, place=place)) == set()
    place[[0, 1]] = [2, 1]
    assert find_broken(dataclasses.replace(evidence, place=place)) == {"period"}
    find_row(release, 4, 1).shift_s = 1.0
    assert release.find_broken() == {"period"} | {"complete"}


def test_a_region_may_not_be_told_from_its_like_by_the_last_bit() -> None:
    release = make_honest()
    find_row(release, 0, 0).shift_m = 1e-9
    assert release.find_broken() == {"region", "crowd", "size"}


# What is known and left out.


def test_times_that_are_not_used_are_counted_by_reason() -> None:
    release = make_honest()
    release.known += [
        (3, START_S + 3 * STEP_S + 5.0),
        (3, START_S + 3 * STEP_S + 6.0),
        (4, START_S - 1.0),
        (17, START_S + 1.0),
    ]
    release.known += [
        (0, START_S + 4 * STEP_S + 0.0),  # of a slot that is known anyway
        (0, START_S + 9.0),
        (17, 0.0),
    ]
    release.suppressed["quasi_identifiers"] = {"absent": 2, "outside": 0, "without_subject": 1}
    assert release.find_broken() == set()  # what is known of other evenings is not left out of this one
    release.params.update(since=START_S - STEP_S, until=START_S + 5 * STEP_S)
    release.suppressed["quasi_identifiers"]["outside"] = 2
    assert release.find_broken() == set()


def test_people_left_out_and_never_seen_are_counted() -> None:
    rng = random.Random(1)
    release = publish(TRACKS, OWN, HIDDEN, [0, 1, 2, 3, 4, 5], rng)
    tracks = {**TRACKS, 6: {0: (5, 5), 3: (6, 6)}}
    left = publish(tracks, {**OWN, 6: {0}}, HIDDEN, range(6), rng)
    assert left.suppressed["subjects"]["few_partners"] == 1
    assert left.find_broken() == set()
    release.params.update(since=START_S - STEP_S)
    release.trips[800_000] = (6, [(START_S - 30.0, 1.0, 1.0)])
    release.suppressed["subjects"]["never_seen"] = 1
    release.known.append((6, START_S + 1.0))
    release.suppressed["quasi_identifiers"]["without_subject"] = 1
    assert release.find_broken() == set()


def test_without_exact_rows_only_cloaked_ones_may_be_there() -> None:
    full, release = make_honest(), make_honest(qid_only=True)
    assert [attack(r.make_evidence()).figures["exact_rows"] for r in (full, release)] == [
        sum(not r.cloaked for r in full.rows), 0,
    ]  # fmt: skip
    assert {(r.record, r.t) for r in release.rows} == {(r.record, r.t) for r in full.rows if r.cloaked}
    leave_out(release, never_generalised=2)
    assert release.find_broken() == set()
    at = next(i for i, r in enumerate(release.rows) if r.record == find_record(release, 0))
    shown = find_row(full, 0, 3)
    release.rows.insert(
        at + len(release.of(find_record(release, 0))), dataclasses.replace(shown, record=find_record(release, 0))
    )
    assert release.find_broken() == {"complete"}


@pytest.mark.parametrize(
    ("reasons", "broken"),
    [
        ({"never_generalised": 2}, False),
        ({"never_generalised": 1, "few_partners": 1}, False),  # there is no telling from the rows
        ({"few_partners": 2}, False),
        ({"few_partners": 1}, True),
        ({"never_generalised": 2, "few_partners": 1}, True),
        ({"never_generalised": 2, "other": 0}, True),
    ],
)
def test_people_of_whom_no_row_is_published_are_counted_under_either_reason(reasons: dict, broken: bool) -> None:
    release = make_honest(qid_only=True)
    leave_out(release, **reasons)
    assert release.find_broken() == ({"left-out"} if broken else set())


def leave_out(release, **reasons: int) -> None:
    """Drop the records without rows, and count their people by reason."""
    served = {r.record for r in release.rows}
    release.members = [m for m in release.members if m[0] in served]
    release.suppressed["subjects"].update(reasons)
    for hour in release.suppressed["by_hour"]:
        hour.update(published=4, left_out={name: number for name, number in reasons.items() if number})


@pytest.mark.parametrize("begin", [{"since": START_S, "start": None}, {"since": None, "start": START_S}])
def test_who_is_only_seen_long_before_a_run_begins_is_not_counted(begin: dict) -> None:
    release = make_honest(**begin)
    release.trips[700_900] = (7, [(START_S - 600.0, 55.0, 55.0)])
    assert release.find_broken() == set()


# What does no harm.


def _shuffle_release(release: Release) -> None:
    rng = random.Random(5)
    records = sorted({r.record for r in release.rows})
    rng.shuffle(records)
    release.rows = [r for number in records for r in release.of(number)]
    for part in (release.members, release.hiding):
        rng.shuffle(part)
    for _, others, _ in release.hiding:
        rng.shuffle(others)


HARMLESS: Sequence[Callable[[Release], object]] = [
    _shuffle_release,
    lambda run: run.known.append((0, START_S + 30.0)),
    lambda run: run.suppressed["subjects"].pop("never_seen"),
    lambda run: run.params.update(speed_m_s=0),
    lambda run: [r.__setattr__("record", 2_000_000 - r.record) for r in run.rows]
    and setattr(run, "members", [(2_000_000 - r, *rest) for r, *rest in run.members]) is None
    and setattr(run, "hiding", [(2_000_000 - r, [2_000_000 - o for o in others], w) for r, others, w in run.hiding]),
]  # fmt: skip


@pytest.mark.parametrize("change", HARMLESS)
def test_harmless_changes_pass(change: Callable[[Release], object]) -> None:
    release = make_honest()
    change(release)
    assert release.find_broken() == set()


def test_harmless_an_edge_more_for_somebody_else_passes() -> None:
    release = make_honest()
    _move(release, 4, 0, 5.0)  # as if 4 stood where 0 does; its exact row is moved along
    find_row(release, 4, 0).box = (0, 0, 0, 0)
    assert release.find_broken() == set()


# Figures.


@pytest.mark.parametrize("seed", range(20))
def test_figures_are_those_of_loops(seed: int) -> None:
    made = draw_instance(seed)
    if not made:
        return
    release, _, k = made
    figures = attack(release.make_evidence()).figures
    areas = [(r.box[2] - r.box[0] + 1) * (r.box[3] - r.box[1] + 1) for r in release.rows]
    assert figures["information_loss"] == pytest.approx(statistics.fmean(1 - 1 / area for area in areas))
    size = Counter((r.t, r.box) for r in release.rows if r.cloaked).values()
    assert figures["classes"] == len(size)
    assert figures["median_class_size"] == (statistics.median(size) if size else 0)
    covered = 100 * statistics.fmean(k <= s < 2 * k for s in size) if size else 0
    assert figures["coverage_percent"] == pytest.approx(covered)
    assert figures["rows"] == len(release.rows)
    assert figures["quasi_identifiers"] == len(release.known)


def count_below_at_speed(release: Release, speed_m_s: float) -> int:
    """Count who keeps fewer than k of its hiding set's records, itself included, by loops over rows."""
    of = {path: who for path, (who, _) in release.trips.items()}
    number = {r: of[path] for r, path, _ in release.members}
    where = {}
    for who, fixes in release.trips.values():
        where |= {(who, int((at - START_S) // STEP_S)): (x, y) for at, x, y in fixes}
    known = {who: {int((at - START_S) // STEP_S) for w, at in release.known if w == who} for who in number.values()}
    rows = {(number[r.record], r.t): r for r in release.rows}

    def reached(i: int, j: int) -> bool:
        for t in known[i]:
            for s in (t - 1, t + 1):
                if (j, s) in rows and not rows[j, s].cloaked:
                    gaps = [
                        max(abs(a // GRID_M - cell) - 1, 0)
                        for a, cell in zip(where[i, t], rows[j, s].box, strict=False)
                    ]
                    if math.hypot(*gaps) * GRID_M > speed_m_s * STEP_S:
                        return False
        return True

    sets = {number[r]: [number[r], *(number[o] for o in others)] for r, others, _ in release.hiding}
    return sum(sum(reached(i, j) for j in group) < release.params["k"] for i, group in sets.items())


@pytest.mark.parametrize("speed_m_s", [0.0, 0.2, 0.5, 1.0, 50.0])
def test_those_told_apart_by_speed_are_those_of_loops(speed_m_s: float) -> None:
    release = make_honest(speed_m_s=speed_m_s)
    figure = attack(release.make_evidence()).figures["below_k_at_speed"]
    assert figure == count_below_at_speed(release, speed_m_s)
    assert (figure > 0) == (speed_m_s <= 1.0)


@pytest.mark.parametrize("seed", range(40))
def test_sets_that_are_not_mutual_are_decided_without_a_search(seed: int) -> None:
    """Who hides a person fits its record: of many people a search that is capped would not find that."""
    made = draw_instance(seed, "extreme-union")
    if made:
        release, _, k = made
        verdict = attack(release.make_evidence())
        assert verdict.passed
        assert verdict.figures["least_surviving"] >= k
        assert verdict.figures["searched"] == 0
