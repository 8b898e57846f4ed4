import dataclasses
import math

import numpy as np
import pytest

from dbanon.attacks.sensitive_sites.evidence import SiteEvidence
from dbanon.base.errors import DataError
from dbanon.base.trajectory import Sites
from tests.unit.attack_evidence import add, make_trajectories, put, take
from tests.unit.site_evidence import SITE_PARAMS, SiteWorld, attack, find_broken, join_evidence, move_side

# Cells of two metres. One subject stands on the first site, one is inside its rectangle, one five cells away from it.
S1, S2, S3 = 800_001, 800_005, 800_003
CELLS = {
    0: (9, 9), 1: (11, 10), 2: (12, 12), 3: (10, 10), 4: (29, 8), 5: (31, 11), 6: (33, 10), 7: (49, 9), 8: (53, 12),
    9: (51, 13), 10: (20, 20), 11: (12, 9), 12: (15, 10), 13: (20, 30), 14: (70, 70), 15: (71, 72), 16: (72, 70),
}  # fmt: skip
SITES = {S1: (20.5, 21.9, 20.5, 21.9), S2: (60.0, 20.0, 60.0, 20.0), S3: (100.0, 20.1, 105.9, 23.0)}
GROUPS = {S1: [0, 1, 2, 3], S2: [4, 5, 6], S3: [7, 8, 9]}
SHAPES = {700_013: (40.0, 60.0, 45.9, 63.0), 700_008: (104.0, 24.0, 107.0, 25.0)}


def find_middle(subject: int) -> tuple[float, float]:
    x, y = CELLS[subject]
    return 2.0 * x + 0.5, 2.0 * y + 1.9


def make_scene(at: str | None = None, **params: object) -> SiteWorld:
    """Everybody has one fix; with `at`, most have others before and after it, and two have none that counts."""
    rng = np.random.default_rng(5)
    trips = {700_000 + s: (s, [(20.0 * rng.random(), *find_middle(s))]) for s in CELLS}
    if at is not None:
        for s in CELLS:
            fixes = [(20.0, 1.0, 1.0), (101.0 - 10 * (s % 3), *find_middle(s)), (106.0, 3.0, 3.0)]
            trips[700_000 + s] = (s, fixes if 700_000 + s not in SHAPES else fixes[1:2])
        trips[700_100] = (0, [(90.0, 50.0, 50.0), (110.0, 1.0, 1.0)])
        trips[700_101] = (17, [(30.0, 20.5, 20.5)])
        trips[700_102] = (18, [(105.0, 20.5, 20.5)])
    return SiteWorld(trips, SITES, SITE_PARAMS | {"at": at} | params, SHAPES)


def make_honest(at: str | None = None, **params: object) -> SiteEvidence:
    return make_scene(at, **params).make_evidence(GROUPS)


# Rows by their subject, and changes to them.


def find_row(evidence: SiteEvidence, subject: int) -> int:
    data = evidence.trajectories
    mine = data.trajectory_id[data.subject == subject]
    record = evidence.member_record[np.isin(evidence.member_trajectory, mine)][0]
    return int(np.flatnonzero(evidence.cloak_record == record)[0])


def find_rows(evidence: SiteEvidence, site: int) -> np.ndarray:
    bounds = evidence.cloak_bounds[find_row(evidence, GROUPS[site][0])]
    return np.flatnonzero((evidence.cloak_bounds == bounds).all(axis=1))


def change_params(evidence: SiteEvidence, **params: object) -> SiteEvidence:
    return dataclasses.replace(evidence, params=evidence.params | params)


def change_suppressed(evidence: SiteEvidence, **reasons: object) -> SiteEvidence:
    subjects = evidence.suppressed["subjects"] | reasons
    return dataclasses.replace(evidence, suppressed=evidence.suppressed | {"subjects": subjects})


def publish_again(evidence: SiteEvidence, subject: int, record: int = 900_099, **columns: object) -> SiteEvidence:
    """Publish somebody once more, with some columns changed."""
    where = find_row(evidence, subject)
    evidence = take(evidence, "cloak", np.append(np.arange(len(evidence.cloak_seq)), where))
    of = evidence.member_record == evidence.cloak_record[where]
    evidence = add(evidence, "member", record, evidence.member_trajectory[of][0], True)
    for column, value in {"record": record, **columns}.items():
        evidence = put(evidence, f"cloak_{column}", -1, value)
    return evidence


def leave_out(evidence: SiteEvidence, *subjects: int) -> SiteEvidence:
    for subject in subjects:
        record = evidence.cloak_record[find_row(evidence, subject)]
        evidence = take(evidence, "cloak", evidence.cloak_record != record)
        evidence = take(evidence, "member", evidence.member_record != record)
    return evidence


def publish_exactly(evidence: SiteEvidence, subject: int, people: int) -> SiteEvidence:
    """Publish a cloaked subject's own cell, and say that one fewer has the region."""
    where, x, y = find_row(evidence, subject), *CELLS[subject]
    region = (evidence.cloak_bounds == evidence.cloak_bounds[where]).all(axis=1)
    evidence = put(evidence, "cloak_crowd", region, people)
    evidence = put(put(evidence, "cloak_crowd", where, 1), "cloak_cloaked", where, 0)
    return put(evidence, "cloak_bounds", where, [2.0 * x, 2.0 * y, 2.0 * x + 2, 2.0 * y + 2])


def split(evidence: SiteEvidence) -> SiteEvidence:
    """Give one of four a region of its own."""
    where = find_rows(evidence, S1)
    evidence = move_side(put(evidence, "cloak_crowd", where, 3), where[0], 3, 2.0)
    return put(evidence, "cloak_crowd", where[0], 1)


def cloak_for_nothing(evidence: SiteEvidence) -> SiteEvidence:
    where = [find_row(evidence, subject) for subject in (14, 15, 16)]
    evidence = put(put(evidence, "cloak_cloaked", where, 1), "cloak_crowd", where, 3)
    return put(evidence, "cloak_bounds", where, [140.0, 140.0, 146.0, 146.0])


def swap_rows(evidence: SiteEvidence, a: int, b: int) -> SiteEvidence:
    """Exchange two subjects' rows."""
    a, b = (np.flatnonzero(evidence.member_record == evidence.cloak_record[find_row(evidence, s)])[0] for s in (a, b))
    return put(evidence, "member_record", [a, b], evidence.member_record[[b, a]])


def add_site(evidence: SiteEvidence, *cell: float) -> SiteEvidence:
    places = evidence.sites
    x, y = 2 * cell[0] + 1, 2 * cell[1] + 1
    more = Sites(
        site_id=np.append(places.site_id, 800_099),
        site_bounds=np.vstack((places.site_bounds, [x, y, x, y])),
        shape_trajectory=places.shape_trajectory,
        shape_bounds=places.shape_bounds,
    )
    return dataclasses.replace(evidence, sites=more)


# Each mutant and the clause that it breaks alone.
ALONE = {
    "a wrong seq": ("members", lambda e: put(e, "cloak_seq", 3, 2)),
    "a record of two rows": (
        "members",
        lambda e: put(take(e, "cloak", np.append(np.arange(len(e.cloak_seq)), find_row(e, 10))), "cloak_seq", -1, 2),
    ),
    "a row twice": ("members", lambda e: take(e, "cloak", np.append(np.arange(len(e.cloak_seq)), find_row(e, 10)))),
    "a partial membership": ("members", lambda e: put(e, "member_whole", 2, False)),
    "a membership twice": ("members", lambda e: take(e, "member", np.append(np.arange(len(e.member_whole)), 4))),
    "an unknown trajectory": ("members", lambda e: add(e, "member", e.cloak_record[0], 700_555, True)),
    "a member of no record": ("members", lambda e: add(e, "member", 900_555, e.member_trajectory[0], True)),
    "a subject twice in one region": ("members", lambda e: publish_again(e, 1)),
    "an exact subject twice": ("members", lambda e: publish_again(e, 10)),
    "a member's exact place beside its cloak": (
        "members",
        lambda e: publish_again(e, 2, cloaked=0, crowd=1, bounds=[24.0, 24.0, 26.0, 26.0]),
    ),
    "a later end": ("period", lambda e: put(e, "cloak_end_s", find_row(e, 10), e.cloak_end_s[0] + 5)),
    "an earlier start": ("period", lambda e: put(e, "cloak_start_s", find_row(e, 10), e.cloak_start_s[0] - 5)),
    "another period for all": (
        "period",
        lambda e: put(put(e, "cloak_end_s", ..., e.cloak_end_s + 5), "cloak_start_s", ..., e.cloak_start_s + 5),
    ),
    "a NaN start": ("period", lambda e: put(e, "cloak_start_s", find_row(e, 10), math.nan)),
    "an infinite end": ("period", lambda e: put(e, "cloak_end_s", find_row(e, 10), math.inf)),
    "no rectangle": ("region", lambda e: put(e, "cloak_rectangle", 4, False)),
    "another srid": ("region", lambda e: put(e, "cloak_srid", 4, 4326)),
    "a side off the grid by a millimetre": ("region", lambda e: move_side(e, find_row(e, 10), 0, -0.001)),
    "a region off the grid by a millimetre": ("region", lambda e: move_side(e, find_rows(e, S1), 3, 0.001)),
    "an exact subject left out": ("complete", lambda e: leave_out(e, 10)),
    "one more absent": (
        "left-out",
        lambda e: change_suppressed(e, absent_at_instant=e.suppressed["subjects"]["absent_at_instant"] + 1),
    ),
    "another reason": ("left-out", lambda e: change_suppressed(e, tiresome=1)),
    "an exact place next to the subject's": (
        "exact",
        lambda e: move_side(move_side(e, find_row(e, 10), 0, 2.0), find_row(e, 10), 2, 2.0),
    ),
    "an exact place grown by a cell": ("exact", lambda e: move_side(e, find_row(e, 10), 3, 2.0)),
    "a shape shrunk by a cell": ("exact", lambda e: move_side(e, find_row(e, 13), 0, 2.0)),
    "a crowd of two at an exact place": ("exact", lambda e: put(e, "cloak_crowd", find_row(e, 10), 2)),
    "two subjects' rows exchanged": ("covers", lambda e: swap_rows(e, 0, 4)),
    "a region one cell short of a member": ("covers", lambda e: move_side(e, find_rows(e, S1), 2, -2.0)),
    "a region one cell short of a member's shape": ("covers", lambda e: move_side(e, find_rows(e, S3), 2, -2.0)),
    "crowd + 1": ("crowd", lambda e: put(e, "cloak_crowd", find_row(e, 5), 4)),
    "crowd - 1": ("crowd", lambda e: put(e, "cloak_crowd", find_row(e, 1), 3)),
    "a row that stands for two": ("crowd", lambda e: put(e, "cloak_subjects", find_row(e, 5), 2)),
    "an exact row that stands for two": ("crowd", lambda e: put(e, "cloak_subjects", find_row(e, 10), 2)),
    "a region of one beside that of the others": ("size", split),
    "an exact subject on a site": ("nearest", lambda e: publish_exactly(e, 3, 3)),
    "two sites in one region of k": ("own-rectangle", lambda e: add_site(e, 31, 9)),
    "two sites at one place with 2k - 1 subjects": ("own-rectangle", lambda e: add_site(e, 10, 10)),
    "a region that holds no site": ("own-rectangle", cloak_for_nothing),
    "an exact subject nearer than the guard": ("guards", lambda e: change_params(e, guard_m=10.5)),
    "an exact subject inside a rectangle": ("guards", lambda e: change_params(e, guard_inside=True)),
    "another column": ("columns", lambda e: put(e, "cloak_other_keys", 1, 1)),
    "a text for cloaked": ("columns", lambda e: put(e, "cloak_cloaked", find_row(e, 10), -1)),
    "k of one": ("decidable", lambda e: change_params(e, k=1)),
    "an algorithm that the attack does not know": ("decidable", lambda e: dataclasses.replace(e, algorithm="local")),
}


CAUGHT_ALONE = {clause for clause, _ in ALONE.values()}


def shrink_to_two(evidence: SiteEvidence) -> SiteEvidence:
    evidence = publish_exactly(evidence, 6, 2)
    where = [find_row(evidence, 4), find_row(evidence, 5)]
    return put(evidence, "cloak_bounds", where, [58.0, 16.0, 64.0, 24.0])


def share_subject(evidence: SiteEvidence) -> SiteEvidence:
    """Let subject 3 serve the second site too, in a rectangle of both, instead of subject 6."""
    evidence = publish_exactly(evidence, 6, 3)
    where = [find_row(evidence, 4), find_row(evidence, 5)]
    evidence = put(evidence, "cloak_bounds", where, [20.0, 16.0, 64.0, 24.0])
    return publish_again(evidence, 3, bounds=[20.0, 16.0, 64.0, 24.0], crowd=3)


# What breaks several clauses, and one of them. The first four are the attacks the method was made against.
REFUSED = {
    "a site with k - 1 subjects": ("nearest", shrink_to_two),
    "a shared subject": ("members", share_subject),
    "a rectangle that misses its site": (
        "own-rectangle",
        lambda e: put(e, "cloak_bounds", find_rows(e, S2), [60.0, 22.0, 68.0, 26.0]),
    ),
    "the exact place of a member on a site beside its cloak": (
        "nearest",
        lambda e: publish_again(e, 3, cloaked=0, crowd=1, bounds=[20.0, 20.0, 22.0, 22.0]),
    ),
    "k above a group": ("size", lambda e: change_params(e, k=4)),
    "a region off by a rounding": ("size", lambda e: move_side(e, find_row(e, 5), 0, 1e-9)),
    "a member of another time": ("size", lambda e: put(e, "cloak_end_s", find_row(e, 5), e.cloak_end_s[0] + 5)),
    "no region there": ("nearest", lambda e: leave_out(e, *GROUPS[S2])),
    "nobody cloaked": ("nearest", lambda e: put(e, "cloak_cloaked", ..., 0)),
    "one not cloaked": ("exact", lambda e: put(e, "cloak_cloaked", find_row(e, 5), 0)),
    "one cloaked alone": ("size", lambda e: put(e, "cloak_cloaked", find_row(e, 10), 1)),
    "a text for cloaked in a region": ("crowd", lambda e: put(e, "cloak_cloaked", find_row(e, 5), -1)),
    "no members": ("complete", lambda e: take(e, "member", slice(0))),
    "a row without its member": ("members", lambda e: take(e, "member", e.member_record != e.cloak_record[2])),
    "a NaN bound": ("region", lambda e: put(e, "cloak_bounds", (3, 0), math.nan)),
    "a NaN bound holds nobody": ("covers", lambda e: put(e, "cloak_bounds", (find_rows(e, S1), 0), math.nan)),
    "an infinite bound": ("region", lambda e: put(e, "cloak_bounds", (find_row(e, 10), 2), math.inf)),
    "no area": ("region", lambda e: move_side(e, find_row(e, 10), 2, -2.0)),
    "a site nobody hides": ("nearest", lambda e: add_site(e, 90, 90)),
    "exact subjects of a region in the guard": (
        "nearest",
        lambda e: change_params(publish_exactly(e, 3, 3), guard_m=1),
    ),
}


@pytest.mark.parametrize("at", [None, "100", 100])
def test_honest_regions_withstand_the_attack(at):
    verdict = attack(make_honest(at))
    assert verdict.passed, [c.sentence for c in verdict.clauses if not c.passed]
    assert verdict.figures == {
        "subjects": 17 + 2 * (at is not None),
        "published": 17,
        "records": 17,
        "rows": 17,
        "sites": 3,
        "cloaked": 10,
        "exact": 7,
        "absent": 2 * (at is not None),
        "rectangles": 3,
        "smallest_crowd": 3,
        "largest_crowd": 4,
        "exact_inside_rectangles": 1,
        "exact_guarded": 0,
        "subjects_at_sites": 1,
        "sites_with_own_rectangle": 3,
        "rectangles_of_their_site_alone": 0,
        "least_seen_at_a_site": 3,
        "mean_seen_at_a_site": pytest.approx(10 / 3),
    }


@pytest.mark.parametrize("more", [0, 1, 5])
def test_sites_in_the_same_cells_count_each_though_they_are_joined_once(more):
    """A person who is exact there breaks the promise at all of them, and one crowd of k serves one of them."""
    evidence = change_params(publish_exactly(make_honest(), 3, 3), guard_m=10.5)
    places, (x, y) = evidence.sites, evidence.sites.site_bounds[0, :2]
    apart = [[x, y + i / 100, x, y + i / 100] for i in range(more)]  # within a cell
    evidence = join_evidence(dataclasses.replace(evidence, sites=dataclasses.replace(
        places, site_id=np.append(places.site_id, 800_100 + np.arange(more)),
        site_bounds=np.vstack((places.site_bounds, np.array(apart).reshape(-1, 4))),
    )))  # fmt: skip
    verdict = attack(evidence)
    violations = {clause.name: clause.violations for clause in verdict.clauses if not clause.passed}
    assert violations.pop("own-rectangle", 0) == more
    assert violations == {"nearest": 1 + more, "guards": 3 + 3 * more}
    assert (verdict.figures["sites"], verdict.figures["sites_with_own_rectangle"]) == (3 + more, 3)
    assert verdict.figures["mean_seen_at_a_site"] == pytest.approx((10 + 4 * more) / (3 + more))


def test_an_instant_in_iso_8601_is_understood():
    for at in ("1970-01-01T00:01:40Z", "1970-01-01T02:01:40+02:00"):
        assert find_broken(change_params(make_honest("100"), at=at)) == set()


@pytest.mark.many
@pytest.mark.parametrize("at", [None, "100"])
@pytest.mark.parametrize("name", ALONE)
def test_a_mutant_breaks_its_clause_and_no_other(name, at):
    clause, mutate = ALONE[name]
    assert find_broken(join_evidence(mutate(make_honest(at)))) == {clause}


@pytest.mark.many
@pytest.mark.parametrize("at", [None, "100"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_mutant_of_several_clauses_is_refused(name, at):
    clause, mutate = REFUSED[name]
    assert clause in find_broken(join_evidence(mutate(make_honest(at))))


def test_every_clause_has_a_mutant_of_its_own():
    assert {clause for clause, _ in ALONE.values()} == {clause.name for clause in attack(make_honest()).clauses}


def test_the_trajectory_that_supplies_the_position_is_the_member():
    evidence = make_honest("100")
    where = evidence.member_trajectory == 700_000
    assert where.sum() == 1
    assert find_broken(put(evidence, "member_trajectory", where, 700_100)) == {"members"}


def test_somebody_absent_is_not_published_and_makes_up_for_nobody():
    trips = {700_000: (0, [(0.0, 1.0, 1.0)])} | {700_000 + s: (s, [(95.0, 1.0, 1.0)]) for s in (1, 2, 3, 4)}
    world = SiteWorld(trips, {S1: (1.0, 1.0, 1.0, 1.0)}, SITE_PARAMS | {"at": "100"})
    evidence = world.make_evidence({S1: [1, 2, 3, 4]})
    assert find_broken(evidence) == set()
    guest = put(evidence, "member_trajectory", evidence.member_trajectory == 700_004, 700_000)
    assert {"members", "complete"} <= find_broken(guest)
    assert "members" in find_broken(join_evidence(add(publish_again(evidence, 4), "member", 900_099, 700_000, True)))


def test_rows_of_nobody_are_held_against_nobody_else():
    for subject, clauses in ((10, set()), (1, {"crowd"})):
        evidence = make_honest()
        member = evidence.member_record != evidence.cloak_record[find_row(evidence, subject)]
        assert find_broken(take(evidence, "member", member)) == {"members", "complete"} | clauses


def shuffle_rows(evidence: SiteEvidence) -> SiteEvidence:
    rng = np.random.default_rng(3)
    for table, column in (("cloak", "seq"), ("member", "record"), ("pair", "site")):
        evidence = take(evidence, table, rng.permutation(len(getattr(evidence, f"{table}_{column}"))))
    return evidence


def renumber_records(evidence: SiteEvidence) -> SiteEvidence:
    for column in ("cloak_record", "member_record"):
        evidence = put(evidence, column, ..., 2_000_000 - getattr(evidence, column))
    return evidence


HARMLESS = {
    "rows in another order": shuffle_rows,
    "records renumbered": renumber_records,
    "a region grown by a cell": lambda e: move_side(e, find_rows(e, S1), 2, 2.0),
    "a guard that nobody is nearer than": lambda e: change_params(e, guard_m=4),
    "a guard of zero": lambda e: change_params(e, guard_m=0),
    "counts as JSON floats": lambda e: change_suppressed(
        e, absent_at_instant=float(e.suppressed["subjects"]["absent_at_instant"])
    ),
    "a reason with nobody": lambda e: change_suppressed(e, tiresome=0),
}


@pytest.mark.parametrize("at", [None, "100"])
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change_passes(name, at):
    assert find_broken(join_evidence(HARMLESS[name](make_honest(at)))) == set()


@pytest.mark.parametrize("suppressed", [{}, {"subjects": {}}, {"subjects": {"absent_at_instant": 0}}])
def test_without_an_instant_nobody_need_be_counted(suppressed):
    by_hour = make_honest().suppressed["by_hour"]
    assert find_broken(dataclasses.replace(make_honest(), suppressed={**suppressed, "by_hour": by_hour})) == set()


def make_people(cells: dict[int, tuple[int, int]], sites: dict[int, tuple[int, int]], **params: object) -> SiteWorld:
    trips = {700_000 + s: (s, [(0.0, 2.0 * x + 1, 2.0 * y + 1)]) for s, (x, y) in cells.items()}
    bounds = {800_000 + i: (2.0 * x + 1, 2.0 * y + 1) * 2 for i, (x, y) in sites.items()}
    return SiteWorld(trips, bounds, SITE_PARAMS | params)


def test_sites_at_one_place_with_k_subjects_each_and_one_rectangle_pass():
    world = make_people({s: (s % 3, s // 3) for s in range(6)}, {1: (1, 1), 2: (1, 1)})
    evidence = world.make_evidence({800_001: [0, 1, 5], 800_002: [2, 3, 4]})
    assert find_broken(evidence) == set()
    assert attack(evidence).figures["largest_crowd"] == 6
    five = make_people({s: (s % 3, s // 3) for s in (0, 1, 2, 3, 5)}, {1: (1, 1), 2: (1, 1)})
    assert find_broken(five.make_evidence({800_001: [0, 1, 5], 800_002: [2, 3]})) == {"own-rectangle"}


def test_a_subject_of_one_site_may_stand_on_another():
    world = make_people({0: (0, 0), 1: (1, 2), 2: (5, 5), 3: (5, 4), 4: (6, 5), 5: (4, 6)}, {1: (1, 1), 2: (5, 5)})
    assert find_broken(world.make_evidence({800_001: [0, 1, 2], 800_002: [3, 4, 5]})) == set()


def test_a_guard_is_strict_and_counted_in_cells():
    world = make_people({0: (0, 0), 1: (1, 2), 2: (2, 0), 3: (4, 5)}, {1: (1, 1)})
    evidence = world.make_evidence({800_001: [0, 1, 2]})
    assert find_broken(join_evidence(change_params(evidence, guard_m=10.0))) == set()  # five cells of two metres
    assert find_broken(join_evidence(change_params(evidence, guard_m=10.0001))) == {"guards"}


def test_the_shared_subjects_of_local_are_refused_in_its_secure_format():
    world = make_people({0: (0, 0), 1: (2, 2), 2: (4, 4), 3: (5, 5), 4: (9, 9)}, {1: (1, 1), 2: (5, 5)})
    evidence = world.make_evidence({800_001: [0, 1, 2]})
    for subject in (2, 3, 1):
        evidence = publish_again(
            evidence, subject, 900_050 + subject, crowd=3, cloaked=1, bounds=[4.0, 4.0, 12.0, 12.0]
        )
    evidence = take(evidence, "cloak", np.arange(len(evidence.cloak_seq)) != find_row(evidence, 3))
    evidence = take(evidence, "member", np.isin(evidence.member_record, evidence.cloak_record))
    assert find_broken(join_evidence(evidence)) == {"members"}


def test_the_rectangles_of_local_in_its_2_by_2_format_are_refused():
    world = make_people({0: (0, 0), 1: (2, 2), 2: (4, 4), 3: (9, 9)}, {1: (1, 1)})
    evidence = world.make_evidence({800_001: [0, 1, 2]})
    for subject, bounds in {0: [0, 0, 4, 4], 1: [2, 2, 6, 6], 2: [2, 2, 10, 10]}.items():
        evidence = put(evidence, "cloak_bounds", find_row(evidence, subject), bounds)
        evidence = put(evidence, "cloak_crowd", find_row(evidence, subject), 1)
    assert find_broken(join_evidence(evidence)) == {"size", "nearest", "own-rectangle"}


# What makes no sense.

ABSURD_PARAMS = [
    *({"k": k} for k in (1, 0, -3, True, "3", 3.5, None, math.nan, [3])),
    *({"at": at} for at in ("yesterday", 3, "nan", math.inf, "1e300", 10**400, [0], True, 0.5)),
    *({"max_gap_s": gap} for gap in (-1, None, math.nan, "60")),
    *({"guard_m": guard} for guard in (-1, math.nan, math.inf, "9", True)),
    *({"guard_inside": inside} for inside in (None, 0, 1, "true")),
]


@pytest.mark.parametrize("params", ABSURD_PARAMS)
def test_absurd_parameters_are_refused_as_undecidable(params):
    assert find_broken(change_params(make_honest(), **params)) == {"decidable"}


@pytest.mark.parametrize("time", [{"until": 100}, {"until": 95}, {"since": 105}, {"since": 105, "until": 100}])
def test_an_instant_outside_the_time_considered_is_refused(time):
    assert find_broken(change_params(make_honest("100"), **time)) == {"decidable"}
    assert "decidable" not in find_broken(change_params(make_honest("100"), since=20, until=105))


@pytest.mark.parametrize("name", ["k", "at", "max_gap_s", "guard_m", "guard_inside"])
def test_a_parameter_not_stored_is_refused(name):
    evidence = make_honest()
    params = {n: v for n, v in evidence.params.items() if n != name}
    assert find_broken(dataclasses.replace(evidence, params=params)) == {"decidable"}


@pytest.mark.parametrize("params", [None, [], "k"])
def test_parameters_that_are_no_object_are_refused(params):
    assert find_broken(dataclasses.replace(make_honest(), params=params)) == {"decidable"}


@pytest.mark.parametrize(
    "suppressed",
    [
        None,
        [],
        {"subjects": None},
        {"subjects": []},
        {"subjects": {"absent_at_instant": -1}},
        {"subjects": {"absent_at_instant": "0"}},
        {"subjects": {"absent_at_instant": math.nan}},
        {"subjects": {"absent_at_instant": True}},
        {"subjects": {}, "windows": []},
        {"subjects": {}, "by_hour": [0]},
    ],
)
def test_malformed_counts_of_what_was_left_out_are_refused(suppressed):
    assert find_broken(dataclasses.replace(make_honest(), suppressed=suppressed)) == {"decidable"}


def test_several_fixes_without_an_instant_are_refused():
    assert find_broken(change_params(make_honest("100"), at=None)) == {"decidable"}
    twice = {700_001: (0, [(0.0, 1.0, 1.0)]), 700_002: (0, [(0.0, 1.0, 1.0)])}
    assert find_broken(dataclasses.replace(make_honest(), trajectories=make_trajectories(twice))) == {"decidable"}


def change_places(evidence: SiteEvidence, **changed: object) -> SiteEvidence:
    return dataclasses.replace(evidence, sites=dataclasses.replace(evidence.sites, **changed))


NONSENSE = {
    "no rows": lambda e: take(e, "cloak", slice(0)),
    "no data": lambda e: dataclasses.replace(e, trajectories=make_trajectories({})),
    "no sites": lambda e: change_places(e, site_id=np.empty(0, np.int64), site_bounds=np.empty((0, 4))),
    "times that are none": lambda e: dataclasses.replace(
        e, trajectories=make_trajectories({1: (0, [(1e300, 0.0, 0.0)])})
    ),
    "a subject beyond all cells": lambda e: dataclasses.replace(
        e, trajectories=dataclasses.replace(e.trajectories, x=e.trajectories.x + 1e17)
    ),
    "a site beyond all cells": lambda e: change_places(e, site_bounds=e.sites.site_bounds - 1e17),
    "a shape of nobody": lambda e: change_places(e, shape_trajectory=e.sites.shape_trajectory + 500),
    "a pair of another site": lambda e: put(e, "pair_site", 0, 800_555),
    "a pair without rows": lambda e: put(e, "pair_rows", 0, 0),
    "a pair without a distance": lambda e: put(e, "pair_squared", 0, math.nan),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_makes_no_sense_is_refused(name):
    assert find_broken(NONSENSE[name](make_honest())) == {"decidable"}


def test_a_shape_of_a_longer_trajectory_is_refused():
    evidence = make_honest("100")
    assert find_broken(change_places(evidence, shape_trajectory=np.array([700_001, 700_013]))) == {"decidable"}


def test_evidence_of_one_table_has_one_length():
    with pytest.raises(DataError, match="one length"):
        dataclasses.replace(make_honest(), region_cloaked=np.zeros(1, np.int8))
    with pytest.raises(DataError, match="one length"):
        dataclasses.replace(make_honest(), pair_rows=np.zeros(99, np.int64))
