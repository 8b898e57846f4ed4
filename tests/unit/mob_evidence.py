"""Tiny runs of mob, published, tampered with and attacked in plain Python: sets and loops."""

import copy
import dataclasses
import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dbanon.attacks.mob import attack
from dbanon.attacks.mob.evidence import ObjectEvidence
from dbanon.base.trajectory import QuasiIdentifiers
from tests.unit.attack_evidence import count_by_hour, gather_tables, make_trajectories

Cell = tuple[int, int]
Box = tuple[int, int, int, int]
Tracks = Mapping[int, Mapping[int, Cell]]
"""Where each subject is at the instants at which it is present."""

START_S, STEP_S, GRID_M = 36_000, 60, 10.0
PARAMS = {
    "k": 2, "qid_set": "default", "qid_only": False, "step_s": STEP_S, "start": START_S, "align": "exact",
    "max_gap_s": 0, "speed_m_s": 50.0, "improve": False, "since": None, "until": None,
}  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class Row:
    """A stored row, as plain as can be."""

    record: int
    t: int
    box: Box
    crowd: int = 1
    cloaked: int = 0
    subjects: int = 1
    rectangle: bool = True
    srid: int = 32610
    other_keys: int = 0
    seq: int = 0
    shift_s: float = 0.0
    shift_m: float = 0.0

    def holds(self, cell: Cell) -> bool:
        return self.box[0] <= cell[0] <= self.box[2] and self.box[1] <= cell[1] <= self.box[3]


@dataclasses.dataclass(kw_only=True)
class Release:
    """What a run has stored: lists that a test may change before it asks for the evidence."""

    algorithm: str
    params: dict[str, Any]
    suppressed: Any
    trips: dict[int, tuple[int, list[tuple[float, float, float]]]]
    known: list[tuple[int, float]]
    rows: list[Row]
    members: list[tuple[int, int, bool]]
    hiding: list[tuple[int, list[int], bool]]

    def copy(self) -> "Release":
        return copy.deepcopy(self)

    def of(self, record: int) -> list[Row]:
        return [row for row in self.rows if row.record == record]

    def at(self, record: int, t: int) -> Row:
        return next(row for row in self.of(record) if row.t == t)

    def make_evidence(self) -> ObjectEvidence:
        start = np.array([START_S + row.t * STEP_S + row.shift_s for row in self.rows], np.float64)
        sides = [[row.box[0], row.box[1], row.box[2] + 1, row.box[3] + 1] for row in self.rows]
        bounds = np.array(sides, np.float64).reshape(-1, 4) * GRID_M
        bounds[:, 2] += [row.shift_m for row in self.rows]
        known = sorted(self.known)
        hiding = [(r, *((math.nan, math.nan) if whole else (0.0, 1.0)), others) for r, others, whole in self.hiding]
        return ObjectEvidence(
            method="mob", algorithm=self.algorithm, params=self.params, suppressed=self.suppressed,
            trajectories=make_trajectories(self.trips, grid_m=GRID_M, grid_s=STEP_S),
            **gather_tables(self.rows, self.members, hiding), region_bounds=bounds,
            region_cloaked=np.array([row.cloaked for row in self.rows], np.int8),
            period_start_s=start, period_end_s=start + STEP_S,
            quasi_identifiers=QuasiIdentifiers(
                subject=np.array([s for s, _ in known], np.int64), t=np.array([t for _, t in known], np.float64)
            ),
        )  # fmt: skip

    def find_broken(self) -> set[str]:
        return find_broken(self.make_evidence())


def find_broken(evidence: ObjectEvidence) -> set[str]:
    """Name the clauses that the attack says are broken."""
    return {clause.name for clause in attack(evidence).clauses if not clause.passed}


# The plain method: hiding sets in dictionaries.


def can_hide(tracks: Tracks, own: Mapping[int, set[int]], i: int, j: int, *, both: bool = True) -> bool:
    """Whether j is present at all that is known of i, and i at all that is known of j."""
    return own[i] <= set(tracks[j]) and (not both or own[j] <= set(tracks[i]))


def measure_distance(tracks: Tracks, own: Mapping[int, set[int]], i: int, j: int) -> int:
    return sum(
        abs(tracks[i][t][0] - tracks[j][t][0]) + abs(tracks[i][t][1] - tracks[j][t][1]) for t in own[i] & set(tracks[j])
    )


Sets = dict[int, set[int]]


def draw_symmetric(
    tracks: Tracks, own: Mapping[int, set[int]], k: int, rng: random.Random, *careless: str
) -> tuple[Sets, list[int]]:
    """Draw symmetric hiding sets, closed: anew without whom nobody can hide; `careless` names what is left undone.

    one_way
        Looks at presence one way.
    not_closed
        Leaves those out that find too few, and does not draw anew.
    not_served
        Does not care whether those without own instants are known by elimination.
    """
    kept = sorted(tracks)
    while True:
        hidden, few = _draw_sets(tracks, own, kept, k, rng, both="one_way" not in careless)
        if "not_closed" in careless:
            kept = [i for i in kept if i not in few]
            return {i: others & set(kept) for i, others in hidden.items() if i in kept}, kept
        free = [i for i in kept if not own[i]]
        if not few and 0 < len(free) < k and "not_served" not in careless:
            for i in free:
                if not any(i in others for others in hidden.values()):
                    hosts = [j for j in kept if own[j] and can_hide(tracks, own, j, i)]
                    if hosts:
                        hidden[min(hosts, key=lambda j: measure_distance(tracks, own, j, i))].add(i)
                    else:
                        few.append(i)
        if not few:
            return hidden, kept
        kept = [i for i in kept if i not in few]


def _draw_sets(
    tracks: Tracks, own: Mapping[int, set[int]], kept: Sequence[int], k: int, rng: random.Random, *, both: bool
) -> tuple[Sets, list[int]]:
    hidden: Sets = {i: set() for i in kept if own[i]}
    few = []
    for i in rng.sample(sorted(hidden), len(hidden)):
        others = [j for j in kept if j != i and j not in hidden[i] and can_hide(tracks, own, i, j, both=both)]
        rng.shuffle(others)
        others.sort(key=lambda j: measure_distance(tracks, own, i, j))
        chosen = others[: max(k - 1 - len(hidden[i]), 0)]
        for j in chosen:
            hidden[i].add(j)
            if own[j]:
                hidden[j].add(i)
        if len(hidden[i]) < k - 1:
            few.append(i)
    return hidden, few


def draw_extreme(tracks: Tracks, own: Mapping[int, set[int]], k: int, rng: random.Random) -> tuple[Sets, list[int]]:
    """Draw the nearest whom all already taken can be present with, closed."""
    kept = sorted(tracks)
    while True:
        hidden: Sets = {}
        few = []
        for i in [i for i in kept if own[i]]:
            taken = [i]
            others = rng.sample([j for j in kept if j != i], len(kept) - 1)
            for j in sorted(others, key=lambda j: measure_distance(tracks, own, i, j)):
                union = set().union(*(own[m] for m in (*taken, j)))
                if len(taken) < k and all(union <= set(tracks[m]) for m in (*taken, j)):
                    taken.append(j)
            hidden[i] = set(taken[1:])
            if len(taken) < k:
                few.append(i)
        free = [i for i in kept if not own[i]]
        if not few and 0 < len(free) < k:
            few = [i for i in free if not any(i in others for others in hidden.values())]
        if not few:
            return hidden, kept
        kept = [i for i in kept if i not in few]


def find_classes(tracks: Tracks, when: Mapping[int, set[int]], hidden: Sets, t: int) -> list[set[int]]:
    """Join the hiding sets that are generalised at an instant wherever they overlap; same boxes are one class."""
    found: list[set[int]] = []
    for i, others in hidden.items():
        if t in when[i]:
            group = {j for j in (i, *others) if t in tracks[j]}
            for other in [g for g in found if g & group]:
                group |= other
                found.remove(other)
            found.append(group)
    by_box: dict[Box, set[int]] = {}
    for group in found:
        by_box.setdefault(find_bounds([tracks[i][t] for i in group]), set()).update(group)
    return list(by_box.values())


def find_bounds(cells: Iterable[Cell]) -> Box:
    xs, ys = zip(*cells, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def publish(
    tracks: Tracks,
    own: Mapping[int, set[int]],
    hidden: Sets,
    kept: Sequence[int],
    rng: random.Random,
    *,
    is_union: bool = False,
    **params: Any,
) -> Release:
    """Publish tracks by hiding sets; with `is_union`, generalised at the instants of all their members."""
    when = {i: set().union(*(own[j] for j in (i, *others))) if is_union else own[i] for i, others in hidden.items()}
    record = dict(zip(kept, rng.sample(range(900_000, 901_000), len(kept)), strict=True))
    params = PARAMS | params
    shown: dict[tuple[int, int], Row] = {
        (i, t): Row(record=record[i], t=t, box=(*cell, *cell)) for i in kept for t, cell in tracks[i].items()
    }
    if params["qid_only"]:
        shown = {}
    for t in sorted(set().union(*tracks.values())):
        for group in find_classes(tracks, when, hidden, t):
            box = find_bounds([tracks[i][t] for i in group])
            for i in group:
                shown[i, t] = Row(record=record[i], t=t, box=box, crowd=len(group), cloaked=1)
    trips, members = {}, []
    for i, own_track in tracks.items():
        fixes = [
            (START_S + t * STEP_S + 1.0, (x + 0.5) * GRID_M, (y + 0.5) * GRID_M) for t, (x, y) in own_track.items()
        ]
        half = len(fixes) // 2
        for part in (sorted(fixes)[:half], sorted(fixes)[half:]):
            if part:
                trips[700_000 + len(trips)] = (i, part)
                members += [(record[i], max(trips), True)] if i in record else []
    return Release(
        algorithm="extreme-union" if is_union else "symmetric",
        params=params,
        suppressed=count_left_out(tracks, kept),
        trips=trips,
        known=[(i, START_S + t * STEP_S + 7.0) for i in tracks for t in own[i]],
        rows=[shown[i, t] for i in rng.sample(list(kept), len(kept)) for t in sorted(tracks[i]) if (i, t) in shown],
        members=members,
        hiding=[(record[i], sorted(record[j] for j in others), True) for i, others in hidden.items()],
    )


def count_left_out(tracks: Tracks, kept: Iterable[int]) -> dict[str, Any]:
    by_hour: dict[int, list[set[int]]] = {}
    for i, track in tracks.items():
        for t in track:
            counts = by_hour.setdefault((START_S + t * STEP_S) // 3600, [set(), set()])
            counts[0].add(i)
            counts[1].update({i} & set(kept))
    windows = [
        (hour * 3600, len(seen), len(shown), {"few_partners": len(seen) - len(shown)})
        for hour, (seen, shown) in sorted(by_hour.items())
    ]
    return {
        "subjects": {"never_seen": 0, "few_partners": len(tracks) - len(list(kept))},
        "quasi_identifiers": {"absent": 0, "outside": 0, "without_subject": 0},
        "by_hour": count_by_hour(windows),
    }


# The plain adversary: all assignments of records to people, one after the other.


def find_fitting(
    release: Release, tracks: Tracks, own: Mapping[int, set[int]], kept: Sequence[int]
) -> dict[int, set[int]]:
    """Say whose records each person fits."""
    data = {path: subject for path, (subject, _) in release.trips.items()}
    record = {data[path]: record for record, path, _ in release.members}
    rows = {(row.record, row.t): row for row in release.rows}

    def fits(i: int, j: int) -> bool:
        shown = [rows.get((record[j], t)) for t in own[i]]
        return all(row and row.holds(tracks[i][t]) for row, t in zip(shown, own[i], strict=True))

    return {i: {j for j in kept if fits(i, j)} for i in kept}


def count_surviving(edges: Mapping[int, set[int]]) -> dict[int, int]:
    """Count the records of each person that come up in any perfect matching, by trying all."""
    people = sorted(edges)
    found: dict[int, set[int]] = {i: set() for i in people}
    for owners in itertools.permutations(people):
        if all(j in edges[i] for i, j in zip(people, owners, strict=True)):
            for i, j in zip(people, owners, strict=True):
                found[i].add(j)
    return {i: len(records) for i, records in found.items()}


def draw_tracks(
    rng: random.Random, *, subjects: int, instants: int, cells: int = 4, presence: float = 1.0, most_own: int = 2
) -> tuple[dict[int, dict[int, Cell]], dict[int, set[int]]]:
    """Make tracks near few places, with gaps, and own instants at some of those at which a subject is present."""
    tracks: dict[int, dict[int, Cell]] = {}
    for i in range(subjects):
        there = [t for t in range(instants) if rng.random() < presence] or [0]
        tracks[i] = {t: (rng.randrange(cells), rng.randrange(cells)) for t in there}
    own = {i: set(rng.sample(sorted(t), min(rng.randint(0, most_own), len(t)))) for i, t in tracks.items()}
    return tracks, own
