"""Tiny evidence about sensitive sites, in plain Python: one loop a subject and site, so that it is plainly right."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dbanon.attacks.sensitive_sites import attack
from dbanon.attacks.sensitive_sites.evidence import SiteEvidence
from dbanon.base.trajectory import Sites
from tests.unit.attack_evidence import Trips, count_by_hour, make_evidence, make_trajectories, put

Box = tuple[float, float, float, float]

SITE_PARAMS = {
    "k": 3,
    "guard_m": None,
    "guard_inside": False,
    "at": None,
    "max_gap_s": 60,
    "improve": True,
    "since": None,
    "until": None,
}


def unite_boxes(boxes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Give the least rectangle of cells that holds all of these."""
    sides = list(zip(*boxes, strict=True))
    return min(sides[0]), min(sides[1]), max(sides[2]), max(sides[3])


def compute_squared_distance(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Give the squared distance of two rectangles in cells."""
    dx = max(0, b[0] - a[2], a[0] - b[2])
    dy = max(0, b[1] - a[3], a[1] - b[3])
    return dx * dx + dy * dy


class SiteWorld:
    """Subjects and sites as a plain adversary sees them."""

    def __init__(
        self,
        trips: Trips,
        sites: Mapping[int, Box],
        params: Mapping[str, object],
        shapes: Mapping[int, Box] | None = None,
        *,
        grid_m: float = 2.0,
        grid_s: int = 5,
    ) -> None:
        self.trips, self.sites, self.params, self.shapes = trips, dict(sites), dict(params), dict(shapes or {})
        self.grid_m, self.grid_s = grid_m, grid_s
        self.data = make_trajectories(trips, grid_m=grid_m, grid_s=grid_s)
        times = [fix[0] for _, fixes in trips.values() for fix in fixes]
        at = self.params["at"]
        first, last = (self.slot(min(times)), self.slot(max(times))) if at is None else (int(at), int(at))
        self.period = (float(first), float(last + grid_s))
        # At an instant, those count who are seen in its hour (UTC) or have a position at it.
        hour = int(self.period[0]) // 3600 * 3600
        seen = (
            (-math.inf, math.inf) if at is None else (min(hour, self.period[0] - self.params["max_gap_s"]), hour + 3600)
        )
        self.subjects = sorted(
            {subject for subject, fixes in trips.values() if any(seen[0] <= self.slot(t) < seen[1] for t, *_ in fixes)}
        )
        self.where = {subject: self.find_position(subject) for subject in self.subjects}
        self.there = [subject for subject in self.subjects if self.where[subject]]

    def slot(self, t: float) -> int:
        return math.floor(t / self.grid_s) * self.grid_s

    def cells(self, box: Sequence[float]) -> tuple[int, ...]:
        return tuple(math.floor(side / self.grid_m) for side in box)

    def find_position(self, subject: int) -> tuple[tuple[int, ...], int] | None:
        """Give the cells of a subject and the trajectory that supplies them."""
        fixes = sorted((t, i, x, y) for i, (s, path) in self.trips.items() for t, x, y in path if s == subject)
        at = self.params["at"]
        if at is not None:
            fixes = [fix for fix in fixes if self.slot(fix[0]) <= int(at)]
            if not fixes or int(at) - self.slot(fixes[-1][0]) > self.params["max_gap_s"]:
                return None
        _, i, x, y = fixes[-1]
        return self.cells(self.shapes.get(i, (x, y, x, y))), i

    def rectangle(self, site: int, subjects: Sequence[int]) -> tuple[int, ...]:
        return unite_boxes([self.cells(self.sites[site]), *(self.where[s][0] for s in subjects)])

    def guard(self, groups: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
        """Add whom the guards claim to the groups, until nobody is added."""
        groups = {site: list(subjects) for site, subjects in groups.items()}
        while True:
            free = set(self.there) - {s for subjects in groups.values() for s in subjects}
            boxes = {site: self.rectangle(site, subjects) for site, subjects in groups.items()}
            added = {}
            for subject in free:
                claims = []
                for site, box in boxes.items():
                    far = compute_squared_distance(self.where[subject][0], self.cells(self.sites[site]))
                    near = math.sqrt(far) * self.grid_m < (self.params["guard_m"] or 0)
                    inside = self.params["guard_inside"] and compute_squared_distance(self.where[subject][0], box) == 0
                    if far == 0 or near or inside:
                        claims.append((far, site))
                if claims:
                    added[subject] = min(claims)[1]
            if not added:
                return groups
            for subject, site in added.items():
                groups[site].append(subject)

    def make_evidence(self, groups: Mapping[int, Sequence[int]], first_record: int = 900_001) -> SiteEvidence:
        """Publish ``{site: subjects}`` honestly; record ids go down from the subjects' last to their first."""
        region = {s: self.rectangle(site, subjects) for site, subjects in groups.items() for s in subjects}
        crowd = {s: sum(other == box for other in region.values()) for s, box in region.items()}
        rows = []
        for subject in self.there:
            box = region.get(subject, self.where[subject][0])
            rows.append(
                (first_record + len(self.there) - len(rows), subject, box, crowd.get(subject, 1), subject in region)
            )
        bounds = [[box[0], box[1], box[2] + 1, box[3] + 1] for _, _, box, _, _ in rows]
        absent = len(self.subjects) - len(self.there)
        by_hour = count_by_hour(
            [(int(self.period[0]), len(self.subjects), len(self.there), {"absent_at_instant": absent})]
        )
        return join_evidence(make_evidence(
            SiteEvidence, method="sensitive-sites", algorithm="bk", params=self.params,
            suppressed={"subjects": {"absent_at_instant": absent}, "by_hour": by_hour},
            trajectories=self.data, sites=self.places(),
            cloak_record=np.array([row[0] for row in rows]), cloak_seq=np.ones(len(rows), np.int32),
            cloak_start_s=np.full(len(rows), self.period[0]), cloak_end_s=np.full(len(rows), self.period[1]),
            cloak_bounds=np.array(bounds) * self.grid_m, cloak_rectangle=np.ones(len(rows), bool),
            cloak_srid=np.full(len(rows), self.data.srid, np.int32),
            cloak_crowd=np.array([row[3] for row in rows], np.int32), cloak_subjects=np.ones(len(rows), np.int32),
            cloak_other_keys=np.zeros(len(rows), np.int32),
            cloak_cloaked=np.array([row[4] for row in rows], np.int8),
            member_record=np.array([row[0] for row in rows]),
            member_trajectory=np.array([self.where[row[1]][1] for row in rows]),
            member_whole=np.ones(len(rows), bool),
            pair_site=np.empty(0, np.int64), pair_cloaked=np.empty(0, bool),
            pair_rows=np.empty(0, np.int64), pair_squared=np.empty(0),
        ))  # fmt: skip

    def places(self) -> Sites:
        sites, shapes = sorted(self.sites), sorted(self.shapes)
        return Sites(
            site_id=np.array(sites, np.int64),
            site_bounds=np.array([self.sites[i] for i in sites], np.float64).reshape(-1, 4),
            shape_trajectory=np.array(shapes, np.int64),
            shape_bounds=np.array([self.shapes[i] for i in shapes], np.float64).reshape(-1, 4),
        )


def join_evidence(evidence: SiteEvidence) -> SiteEvidence:
    """Make the spatial join of the rows and sites anew, as the database would."""
    grid_m, places = evidence.trajectories.grid_m, evidence.sites
    published: dict[tuple, int] = {}
    for row, bounds in enumerate(evidence.cloak_bounds.tolist()):
        period = (float(evidence.cloak_start_s[row]), float(evidence.cloak_end_s[row]))
        key = (tuple(bounds), period, bool(evidence.cloak_cloaked[row] == 1))
        published[key] = published.get(key, 0) + 1
    guard_m, pairs, first = evidence.params["guard_m"] or 0, [], {}
    for site, bounds in zip(places.site_id.tolist(), places.site_bounds.tolist(), strict=True):
        first.setdefault(tuple(math.floor(side / grid_m) for side in bounds), site)
    for cells, site in first.items():
        for (region, _, cloaked), rows in published.items():
            if not all(map(math.isfinite, region)):
                continue
            box = tuple(round(side / grid_m) - (i >= 2) for i, side in enumerate(region))
            far = compute_squared_distance(box, cells)
            if far == 0 or (not cloaked and math.sqrt(far) * grid_m < guard_m):
                pairs.append((site, cloaked, rows, far))
    site, cloaked, rows, far = np.array(pairs, np.float64).reshape(-1, 4).T
    return dataclasses.replace(
        evidence,
        pair_site=site.astype(np.int64),
        pair_cloaked=cloaked.astype(bool),
        pair_rows=rows.astype(np.int64),
        pair_squared=far.copy(),
    )


def find_broken(evidence: SiteEvidence) -> set[str]:
    """Attack, see that the verdict is whole and names nobody, and give the clauses that broke."""
    verdict = attack(evidence)
    assert verdict.attack == "sensitive-sites"
    assert verdict.passed == all(clause.passed for clause in verdict.clauses)
    assert all(clause.passed == (clause.violations == 0) for clause in verdict.clauses)
    json.dumps(dict(verdict.figures), allow_nan=False)
    for clause in verdict.clauses:
        assert clause.sentence.endswith(".")
        assert not any(number in clause.sentence for number in ("700", "800", "900"))
    return {clause.name for clause in verdict.clauses if not clause.passed}


def move_side(evidence: SiteEvidence, where: object, side: int, by: float) -> SiteEvidence:
    """Move a side of some regions."""
    return put(evidence, "cloak_bounds", (where, side), evidence.cloak_bounds[where, side] + by)
