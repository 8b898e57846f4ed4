"""Counts what breaks each clause of the attack, and its figures."""

from dataclasses import dataclass, replace

import numpy as np

from dbanon.attacks.mob._graph import Remaining, count_below_k_at_speed, find_remaining
from dbanon.attacks.mob._known import count_misstated, find_own_instants, read_sets
from dbanon.attacks.mob._rows import Classes, Truth, compare_rows, find_positions, lay_out_rows, measure_classes
from dbanon.attacks.mob._run_statements import Rules, read_rules, read_stated, select_in_run_time
from dbanon.attacks.mob._search import Scene
from dbanon.attacks.mob.evidence import ObjectEvidence
from dbanon.attacks.shared.clauses import Counts
from dbanon.base.trajectory import Bool, QuasiIdentifiers, Trajectories


@dataclass(frozen=True, kw_only=True, eq=False)
class _Found:
    """What the clauses and figures are counted from: the stored rows, and whom the adversary is left with."""

    scene: Scene
    rows: Truth
    shared: Classes
    left: Remaining


def prepare() -> None:
    """Count what breaks on two people with two rows each: what is compiled is what an attack needs."""
    two, four, ends = np.arange(2), np.arange(4), np.arange(0, 5, 2)
    times, ones = np.arange(2.0), np.ones(4, np.int32)
    params = {"k": 2, "step_s": 1, "max_gap_s": 0, "qid_only": False, "speed_m_s": 1.0, "start": None}
    evidence = ObjectEvidence(
        method="", algorithm="symmetric", params={**params, "since": None, "until": None},
        suppressed={"subjects": {}, "quasi_identifiers": {}, "by_hour": []},
        trajectories=Trajectories(
            trajectory_id=two, subject=two, offset=ends, t=np.tile(times, 2), x=np.zeros(4), y=np.zeros(4), srid=0,
            grid_m=1.0, grid_s=1,
        ),
        quasi_identifiers=QuasiIdentifiers(subject=two, t=times),
        record_id=two, offset=ends, region=four.astype(np.int32), period=(four % 2).astype(np.int8), place=None,
        region_no=four, region_bounds=np.tile([0.0, 0.0, 1.0, 1.0], (4, 1)), region_rectangle=ones > 0,
        region_srid=0 * ones, region_crowd=2 * ones, region_subjects=ones, region_other_keys=0 * ones,
        region_cloaked=ones.astype(np.int8),
        period_start_s=times, period_end_s=times + 1,
        member_record=two, member_trajectory=two, member_start_s=np.full(2, np.nan), member_end_s=np.full(2, np.nan),
        hiding_record=two, hiding_start_s=np.full(2, np.nan), hiding_end_s=np.full(2, np.nan),
        hiding_offset=np.arange(3), hiding_other=1 - two,
    )  # fmt: skip
    for align in ("last", "linear"):
        count_clauses(replace(evidence, params={**evidence.params, "align": align}))


def count_clauses(evidence: ObjectEvidence) -> Counts:
    """Count what breaks each clause.

    O((fixes + rows) log) time and twelve bytes a subject and instant, if the stored hiding sets hold. Else all records
    are looked for that those may be who keep fewer than k, then those whose records these fit, and so on: of all
    at worst. Of a person 1,024 records at most are found, among 262,144 candidates: what is not found can only make the
    attack refuse.
    """
    every = evidence.trajectories
    evidence = select_in_run_time(evidence)
    rules, stated = read_rules(evidence), read_stated(evidence.suppressed)
    at = find_positions(evidence, rules)
    # A record may list trajectories of its subject from outside the run's own time; these are known among all.
    found = lay_out_rows(evidence, every, at, rules.timetable)
    own, unused = find_own_instants(evidence.quasi_identifiers, at, rules.timetable)
    scene = Scene(at=at, found=found, own=own)
    sets = read_sets(evidence, found, own, rules)
    rows = compare_rows(at, found, own, rules.qid_only)
    shared, left = measure_classes(evidence, found), find_remaining(scene, sets.owner, sets.other, rules.k)
    # Definition 3 asks for k records of each person. One without own instants fits all of them, and is still known by
    # elimination where few others are like that, which the paper does not see: hence a clause of its own.
    few = found.published & (left.number < rules.k)
    other = (evidence.region_other_keys != 0) | ~np.isin(evidence.region_cloaked, (0, 1))
    broken = {
        "period": found.off_time,
        "region": _count_rows(evidence, ~found.sound),
        "columns": _count_rows(evidence, other),
        "members": found.faults,
        "crowd": rows.uncounted + shared.miscounted,
        "size": int((shared.size < rules.k).sum()),
        "covers": rows.unmasked,
        "complete": rows.incomplete,
        "left-out": count_misstated(stated, scene, unused, rules),
        "exact": rows.inexact,
        "sets": sets.faults,
        "hidden": int((few & own.has_instants).sum()),
        "elimination": int((few & ~own.has_instants).sum()),
    }
    return broken, _compute_figures(evidence, _Found(scene=scene, rows=rows, shared=shared, left=left), rules)


def _count_rows(evidence: ObjectEvidence, some: Bool) -> int:
    """Count the rows of some regions."""
    return int(np.count_nonzero(some[evidence.region])) if some.any() else 0


def _compute_figures(evidence: ObjectEvidence, result: _Found, rules: Rules) -> dict[str, int | float]:
    scene, left, size = result.scene, result.left, result.shared.size
    published = scene.found.published
    least = int(left.number[published].min()) if published.any() else 0
    # No clause but a figure: the paper's adversary knows own instants alone. One who knows top speeds as well excludes
    # records whose exact rows, an instant before or after, were out of reach.
    reach_cells = rules.reach_m / evidence.trajectories.grid_m
    return {
        "subjects": len(scene.at.subject),
        "published": int(published.sum()),
        "published_with_instants": int((published & scene.own.has_instants).sum()),
        "published_without_instants": int((published & ~scene.own.has_instants).sum()),
        "records": len(evidence.record_id),
        "rows": evidence.rows,
        "smallest_crowd": int(size.min()) if len(size) else 0,
        "exact_rows": result.rows.exact,
        "quasi_identifiers": len(evidence.quasi_identifiers.t),
        "greatest_posterior": 1 / max(least, 1),
        "least_surviving": least,
        "edges": left.edges,
        "searched": left.searched,
        "below_k_at_speed": count_below_k_at_speed(scene, left, rules.k, reach_cells),
        "information_loss": result.rows.loss / max(result.rows.rows, 1),
        "classes": len(size),
        "median_class_size": float(np.median(size)) if len(size) else 0.0,
        "coverage_percent": 100 * float(np.mean((size >= rules.k) & (size < 2 * rules.k))) if len(size) else 100.0,
    }
