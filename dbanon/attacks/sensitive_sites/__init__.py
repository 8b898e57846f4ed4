"""The adversary that joins published places with sensitive sites.

It knows who each person is (the worst case of the paper), finds who is nearest to each site, and asks whether a person
can be tied to it among fewer than k. Besides, what is published must be true: exact places and rectangles that hold
their subjects, one row each, no subject missing. Invariant: a verdict passes only if every clause was decided and none
is broken.

References
----------
Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of Sensitive Sites,
2008, Definition 1.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks.sensitive_sites._clauses import CLAUSES, LEFT_OPEN
from dbanon.attacks.sensitive_sites._run_statements import (
    ABSENT,
    Rules,
    Snapshot,
    find_snapshot,
    read_rules,
    read_stated,
)
from dbanon.attacks.sensitive_sites.evidence import SiteEvidence, read
from dbanon.attacks.shared.clauses import Attack, Counts
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.rectangles import count_meeting, find_cells, find_holding, find_region_cells, hold
from dbanon.attacks.shared.run_statements import count_misstated_hours, select_in_run_time
from dbanon.base.trajectory import Bool, Int

__all__ = ["attack", "read"]

_NEARER_FACTOR = 1 - 1e-12  # three cells of 0.7 m are not nearer than 2.1 m, whatever float64 makes of it


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """The stored rows."""

    owner: Int  # [c]: index of the subject (into `Snapshot.subject`) whose row it is; -1 where it is not known whose
    published: Int  # [p]: the subjects with a position who have a row, distinct
    cells: Int  # [c, 4]: of the region; nowhere if it has none
    sound: Bool  # [c]: whether the region is one rectangle on the grid in the dataset's SRID
    cloaked: Bool  # [c]: whether the row says that it is no exact place
    faults: int  # rows and memberships that are not one row of one subject each


@dataclass(frozen=True, kw_only=True)
class _Regions:
    """The distinct (region, period) of cloaked rows."""

    of: Int  # [c]: the region of each row; -1 for rows that are not cloaked
    cells: Int  # [g, 4]
    crowd: Int  # [g]: distinct subjects published with it


@dataclass(frozen=True, kw_only=True)
class _Sites:
    """What the adversary finds at each site, and which rectangles hold it."""

    seen: Int  # [m]: rows at distance 0
    tied: int  # sites at which a row is exact, or no region is shared by k rows
    near: int  # exact rows nearer than the guard to a site, counted at each
    served: int  # sites that can be given a rectangle of their own
    idle: int  # cloaked rectangles that hold no site
    alone: int  # cloaked rectangles that are no larger than a site in them: all their subjects are at the site


def _count(evidence: SiteEvidence) -> Counts:
    """Count what breaks each clause.

    O((fixes + rows) log) time, and that of the largest flow from places of sites to the rectangles that hold them.
    """
    rules, (stated, hours) = read_rules(evidence), read_stated(evidence.suppressed)
    every, evidence = evidence, select_in_run_time(evidence)
    subjects = find_snapshot(every, evidence.trajectories, rules)
    rows = _build_rows(evidence, subjects)
    regions = _group_rows(evidence, rows)
    sites = _measure_sites(evidence, rules, regions)
    inside = int((count_meeting(rows.cells[~rows.cloaked], regions.cells) > 0).sum())
    absent = {ABSENT: int((~subjects.there).sum())}
    misstated = sum(absent.get(reason, 0) != stated.get(reason, 0) for reason in absent.keys() | stated.keys())
    counts = {
        "seen": len(subjects.subject),
        "published": int(subjects.there.sum()),
        f"left_out {ABSENT}": absent[ABSENT],
    }
    found = {name: np.array([number]) for name, number in counts.items()}
    misstated += count_misstated_hours(hours, np.array([subjects.start_s]), found)
    off_time = (evidence.cloak_start_s != subjects.start_s) | (evidence.cloak_end_s != subjects.end_s)
    broken = {
        "period": int(off_time.sum()),
        "region": int((~rows.sound).sum()),
        "columns": int(((evidence.cloak_other_keys != 0) | ~np.isin(evidence.cloak_cloaked, (0, 1))).sum()),
        "members": rows.faults,
        "crowd": _count_miscounted(evidence, rows, regions),
        "size": int((regions.crowd < rules.k).sum()),
        "covers": _count_unmasked(subjects, rows),
        "complete": int(subjects.there.sum()) - len(rows.published),
        "left-out": misstated,
        "exact": _count_inexact(evidence, subjects, rows),
        "nearest": sites.tied,
        "own-rectangle": len(sites.seen) - sites.served + sites.idle,
        "guards": sites.near + (inside if rules.guard_inside else 0),
    }
    return broken, _compute_figures(evidence, subjects, rows, regions, sites) | {
        "exact_inside_rectangles": inside,
        "exact_guarded": int((~rows.cloaked).sum()) if rules.guard_m or rules.guard_inside else 0,
    }


attack = Attack(name="sensitive-sites", clauses=CLAUSES, count=_count, left_open=LEFT_OPEN, algorithms=("bk", "mk"))
"""Decides whether any site can be tied to fewer than k subjects, and whether what is published is true."""


def _compute_figures(
    evidence: SiteEvidence, subjects: Snapshot, rows: _Rows, regions: _Regions, sites: _Sites
) -> dict[str, int | float]:
    at_sites = count_meeting(subjects.cells[subjects.there], _find_site_cells(evidence)) > 0
    return {
        "subjects": len(subjects.subject),
        "published": len(rows.published),
        "records": len(evidence.record_id),
        "rows": evidence.rows,
        "sites": len(sites.seen),
        "cloaked": int(rows.cloaked.sum()),
        "exact": int((~rows.cloaked).sum()),
        "absent": int((~subjects.there).sum()),
        "rectangles": len(regions.crowd),
        "smallest_crowd": int(regions.crowd.min()) if len(regions.crowd) else 0,
        "largest_crowd": int(regions.crowd.max(initial=0)),
        "subjects_at_sites": int(at_sites.sum()),
        "sites_with_own_rectangle": sites.served,
        "rectangles_of_their_site_alone": sites.alone,
        "least_seen_at_a_site": int(sites.seen.min()),
        "mean_seen_at_a_site": float(sites.seen.mean()),
    }


# The rows: whose they are, and whether they are true.


def _build_rows(evidence: SiteEvidence, subjects: Snapshot) -> _Rows:
    key = sort_distinct(evidence.cloak_record)
    record, subject, faults = _find_members(evidence, subjects, key)
    faults += len(evidence.cloak_record) - len(key) + int((evidence.cloak_seq != 1).sum())
    owner = np.full(len(key), -1)
    # A record of several subjects, or of none, is among the faults: the run is refused, whichever stands here.
    owner[record] = subject
    cells, on_grid = find_region_cells(evidence.cloak_bounds, evidence.trajectories.grid_m)
    return _Rows(
        owner=owner[find(key, evidence.cloak_record)],
        published=sort_distinct(subject[subjects.there[subject]]),
        cells=cells,
        sound=on_grid & evidence.cloak_rectangle & (evidence.cloak_srid == evidence.trajectories.srid),
        cloaked=evidence.cloak_cloaked == 1,
        faults=faults,
    )


def _find_members(evidence: SiteEvidence, subjects: Snapshot, key: Int) -> tuple[Int, Int, int]:
    """Give record and subject of the known memberships, and count what keeps records from being a subject each."""
    record = find(key, evidence.member_record)
    trajectory = find(evidence.trajectories.trajectory_id, evidence.member_trajectory)
    known = (record >= 0) & (trajectory >= 0)
    subject = np.searchsorted(subjects.subject, evidence.trajectories.subject[trajectory])
    right = known & evidence.member_whole & subjects.there[subject] & (subjects.supplier[subject] == trajectory)
    record, subject = record[known], subject[known]
    records, people = len(sort_distinct(record)), len(sort_distinct(subject))
    pairs = len(sort_distinct(record * len(subjects.subject) + subject))
    # All four are 0 only where every record has one membership, and no subject is in two records.
    faults = int((~right).sum()) + (len(key) - records) + (len(record) - records) + (pairs - people)
    return record, subject, faults


def _count_inexact(evidence: SiteEvidence, subjects: Snapshot, rows: _Rows) -> int:
    exact = np.flatnonzero(~rows.cloaked & (rows.owner >= 0))
    same = (rows.cells[exact] == subjects.cells[rows.owner[exact]]).all(axis=1)
    return int((~same | (evidence.cloak_crowd[exact] != 1)).sum())


def _count_unmasked(subjects: Snapshot, rows: _Rows) -> int:
    cloaked = np.flatnonzero(rows.cloaked & (rows.owner >= 0))
    return int((~hold(rows.cells[cloaked], subjects.cells[rows.owner[cloaked]])).sum())


def _count_miscounted(evidence: SiteEvidence, rows: _Rows, regions: _Regions) -> int:
    wrong = evidence.cloak_subjects != 1
    wrong[rows.cloaked] |= evidence.cloak_crowd[rows.cloaked] != regions.crowd[regions.of[rows.cloaked]]
    return int(wrong.sum())


def _group_rows(evidence: SiteEvidence, rows: _Rows) -> _Regions:
    """Group the cloaked rows by all that an analyst can distinguish: the last bit of a bound is enough."""
    cloaked = np.flatnonzero(rows.cloaked)
    columns = (*evidence.cloak_bounds[cloaked].T, evidence.cloak_start_s[cloaked], evidence.cloak_end_s[cloaked])
    order = np.lexsort(columns)
    new = np.zeros(len(cloaked), dtype=bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[order[1:]] != column[order[:-1]]
    of = np.full(len(rows.owner), -1)
    of[cloaked[order]] = np.cumsum(new) - 1
    owned = cloaked[rows.owner[cloaked] >= 0]
    width = int(rows.owner.max(initial=0)) + 1
    # A subject counts once for a region. Rows of nobody known count for none, so a crowd can only come out too small.
    people = sort_distinct(of[owned] * width + rows.owner[owned]) // width
    crowd = np.bincount(people, minlength=int(new.sum()))
    return _Regions(of=of, cells=rows.cells[cloaked[order[new]]], crowd=crowd)


# The sites: who is nearest, and whether each has its own rectangle.


def _find_site_cells(evidence: SiteEvidence) -> Int:
    return find_cells(evidence.sites.site_bounds, evidence.trajectories.grid_m)


def _measure_sites(evidence: SiteEvidence, rules: Rules, regions: _Regions) -> _Sites:
    # Sites in the same cells are one place to an adversary, and pairs are of the first; `number` counts them.
    place_cells, of, number = np.unique(_find_site_cells(evidence), axis=0, return_inverse=True, return_counts=True)
    of = of.ravel()  # the place of each site
    place = of[find(evidence.sites.site_id, evidence.pair_site)]
    # Definition 1, the rows nearest to a site: a rectangle that holds it is at distance 0. A site is tied to people
    # unless k rows share one (`hidden`), and no exact row, whose subject would certainly be there, is as near (`bare`).
    least, cloaked = evidence.pair_squared == 0, evidence.pair_cloaked
    seen, hidden, bare = (
        np.bincount(place[some], weights=evidence.pair_rows[some], minlength=len(number)).astype(np.int64)
        for some in (least, least & cloaked & (evidence.pair_rows >= rules.k), least & ~cloaked)
    )
    distance_m = np.sqrt(evidence.pair_squared) * evidence.trajectories.grid_m
    near = ~cloaked & (distance_m < rules.guard_m * _NEARER_FACTOR)
    region, held = find_holding(regions.cells, place_cells)
    return _Sites(
        seen=seen[of],
        tied=int(number[(hidden == 0) | (bare > 0)].sum()),
        near=int((evidence.pair_rows[near] * number[place[near]]).sum()),
        # Definition 3: sites share no subjects, so a region of c subjects serves c // k sites at most.
        served=_count_served(region, held, regions.crowd // rules.k, number),
        idle=len(regions.crowd) - len(sort_distinct(region)),
        alone=len(sort_distinct(region[(regions.cells[region] == place_cells[held]).all(axis=1)])),
    )


def _count_served(region: Int, place: Int, capacity: Int, number: Int) -> int:
    """Count the sites that can be given a region that holds them, each region to so many sites (a largest flow).

    `number` of sites are at each place; a pair of `region` and `place` says that the one holds the other.
    """
    from scipy.sparse import csr_array  # slow to import
    from scipy.sparse.csgraph import maximum_flow

    # A flow, not site by site, since a site may have to leave a region to another that has no second one. Limits are
    # whole (and cut to the number of sites, to fit int32), so some largest flow is: a unit gives one site one region.
    places, sink = len(number), 1 + len(number) + len(capacity)
    # From node 0 to each place as many as there are sites, on to any region that holds it, and from there to the last.
    tail = np.concatenate([np.zeros(places, np.int64), 1 + place, 1 + places + np.arange(len(capacity))])
    head = np.concatenate([1 + np.arange(places), 1 + places + region, np.full(len(capacity), sink)])
    most = np.concatenate([number, number[place], np.minimum(capacity, number.sum())]).astype(np.int32)
    graph = csr_array((most, (tail, head)), shape=(sink + 1, sink + 1))
    return int(maximum_flow(graph, 0, sink).flow_value)
