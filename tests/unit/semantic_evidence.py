"""Tiny runs of semantic, published, tampered with and attacked in plain Python: sets and loops."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dbanon.attacks.semantic import attack
from dbanon.attacks.semantic.evidence import RegionEvidence
from dbanon.base.trajectory import Cells, Trajectories
from tests.unit.attack_evidence import gather_tables

START_S, GRID_S = 36_000, 60
PARAMS: dict[str, Any] = {
    "k": 2, "l": 2, "t": 0.2, "full_loss_span_s": 28_800, "full_loss_area_km2": 25.0, "weight_time": 0.5,
    "gap_s": 1800, "min_cells": 1, "suppress_span_s": None, "suppress_area_km2": None, "atom_l": None,
    "atom_t": None, "new_atoms": False, "since": None, "until": None,
}  # fmt: skip
Unit = tuple[int, int]
"""A subject and a day; 0 where days are not apart."""


@dataclasses.dataclass(kw_only=True)
class Row:
    """A stored row, as plain as can be."""

    record: int
    start: float
    end: float
    cells: frozenset[int]
    crowd: int
    categories: int
    subjects: int = 1
    rectangle: bool = False
    srid: int = 32610
    other_keys: int = 0
    several: bool = True
    valid: bool = True
    more_m2: float = 0.0
    parts: int = 1
    least_m2: float = 10_000.0
    split: bool = False
    seq: int = 0


@dataclasses.dataclass(kw_only=True)
class Release:
    """What a run has stored, and its data: lists that a test may change before it asks for the evidence.

    Cells are squares of 100 m, numbered from 0 along the rows of a grid `wide` of them wide; `pois` are their points
    of interest by category, and `atoms` the atom that is stored for each. Fixes are ``(seconds, cell)``, the cell None
    outside all.
    """

    wide: int
    pois: list[list[int]]
    atoms: list[int]
    trips: dict[int, tuple[int, int, list[tuple[float, int | None]]]]
    params: dict[str, Any]
    has_days: bool = False
    rows: list[Row] = dataclasses.field(default_factory=list)
    members: list[tuple[int, int, bool]] = dataclasses.field(default_factory=list)
    suppressed: Any = None
    hiding: int = 0
    area_m2: float = 10_000.0
    overlap_m2: float = 0.0

    # What is plain of the data.

    def neighbours(self) -> list[tuple[int, int]]:
        count, wide = len(self.pois), self.wide
        right = [(i, i + 1) for i in range(count - 1) if i % wide < wide - 1]
        return sorted(right + [(i, i + wide) for i in range(count - wide)])

    def slot(self, t: float) -> int:
        return math.floor(t / GRID_S)

    def considered(self) -> dict[int, list[tuple[float, int | None]]]:
        since, until = self.params["since"], self.params["until"]
        kept = {
            path: [
                (t, cell)
                for t, cell in fixes
                if (since is None or t >= since) and (until is None or self.slot(t) * GRID_S < until)
            ]
            for path, (_, _, fixes) in self.trips.items()
        }
        return {path: fixes for path, fixes in kept.items() if fixes}

    def unit(self, path: int) -> Unit:
        subject, day, _ = self.trips[path]
        return subject, day if self.has_days else 0

    def paths(self, unit: Unit) -> list[int]:
        return [path for path in sorted(self.considered()) if self.unit(path) == unit]

    def fixes(self, unit: Unit) -> list[tuple[float, int, int | None]]:
        seen = self.considered()
        return sorted(((t, path, cell) for path in self.paths(unit) for t, cell in seen[path]), key=lambda f: f[:2])

    def units(self) -> list[Unit]:
        return sorted({self.unit(path) for path in self.considered()})

    def few(self, unit: Unit) -> bool:
        there = {cell for _, _, cell in self.fixes(unit)} - {None}
        return len(self.asked(there)) < self.params["min_cells"]

    def asked(self, cells: Iterable[int]) -> frozenset[int]:
        """Give the atoms of cells, whose ids need not be numbers from 0 on."""
        return frozenset(self.atoms[cell] for cell in cells)

    def promise(self, *, of_atoms: bool) -> tuple[int, float]:
        """Give l and t of regions or of atoms."""
        l, t = self.params["l"], self.params["t"]  # noqa: E741 - the paper's name
        if of_atoms and self.params["atom_l"] is not None:
            l = self.params["atom_l"]  # noqa: E741
        if of_atoms and self.params["atom_t"] is not None:
            t = self.params["atom_t"]
        return l, math.inf if t == "inf" else t

    def reveal(self, cells: Iterable[int], *, of_atoms: bool) -> bool:
        """Say whether cells have too few categories, or are too far from the city."""
        (least, t), counts = self.promise(of_atoms=of_atoms), self.counted(cells)
        return sum(n > 0 for n in counts) < least or self.kl(counts) > t + 1e-9

    def grown(self) -> bool:
        return self.promise(of_atoms=True) != self.promise(of_atoms=False)

    def counted(self, cells: Iterable[int]) -> list[int]:
        held = sorted(cells)
        return [sum(self.pois[c][q] for c in held) for q in range(len(self.pois[0]))]

    def kl(self, counts: Sequence[int]) -> float:
        city, total = self.counted(range(len(self.pois))), sum(counts)
        if not total:
            return math.inf
        return sum(n / total * math.log(n / total / (y / sum(city))) for n, y in zip(counts, city, strict=True) if n)

    # Publishing.

    def there(self, units: Iterable[Unit], start: float, end: float) -> set[int]:
        """Give the cells in which units have fixes in a time."""
        fixes = [fix for unit in units for fix in self.fixes(unit)]
        return {cell for t, _, cell in fixes if start <= self.slot(t) * GRID_S < end} - {None}

    def region(self, units: Iterable[Unit], start: float, end: float) -> frozenset[int]:
        """Give the atoms in which units have fixes in a time, grown by the first others where regions promise more."""
        own = set(self.asked(self.there(units, start, end)))
        cells = {cell for cell, atom in enumerate(self.atoms) if atom in own}
        while self.grown() and self.reveal(cells, of_atoms=False) and set(self.atoms) - own:
            own.add(min(set(self.atoms) - own))
            cells = {cell for cell, atom in enumerate(self.atoms) if atom in own}
        return frozenset(cells)

    def publish(self, groups: Sequence[tuple[Sequence[Unit], Sequence[tuple[int, int]]]]) -> "Release":
        """Publish groups of units and their rows, ``(slot, slot)`` from START_S on, in regions of atoms."""
        record = 900
        for units, rows in groups:
            crowd = len({subject for subject, _ in units})
            for _ in units:
                record -= 7
                for start, end in [(START_S + first * GRID_S, START_S + last * GRID_S) for first, last in rows]:
                    cells = self.region(units, start, end)
                    categories = sum(n > 0 for n in self.counted(cells))
                    row = Row(record=record, start=start, end=end, cells=cells, crowd=crowd, categories=categories)
                    self.rows.append(row)
                self.members += [(record, path, True) for unit in units for path in self.paths(unit)]
        self.suppressed = self.missing()
        return self

    def states(self) -> list[tuple[int, float, int, str]]:
        """Give subject, time, trajectory and state of each considered fix."""
        of_unit: dict[Unit, set[int]] = {}
        for record, path, _ in self.members:
            if path in self.considered():
                of_unit.setdefault(self.unit(path), set()).add(record)
        found = []
        for unit in self.units():
            for t, path, cell in self.fixes(unit):
                at = [
                    r
                    for r in self.rows
                    if r.record in of_unit.get(unit, ()) and r.start <= self.slot(t) * GRID_S < r.end
                ]
                few = "few_cells" if self.few(unit) else "published" if at else "coarse"
                found.append((unit[0], t, path, "outside" if cell is None else few))
        return sorted(found)

    def missing(self) -> dict[str, Any]:
        """Count what the rows do not show."""
        states, hours = self.states(), dict[str, list[tuple[int, float, int, str]]]()
        for fix in states:
            at = datetime.fromtimestamp(self.slot(fix[1]) * GRID_S, UTC)
            hours.setdefault(f"{at:%Y-%m-%dT%H:00Z}", []).append(fix)

        def fate(fixes: Iterable[tuple[int, float, int, str]]) -> Counter[str]:
            of: dict[int, str] = {}
            for subject, _, _, state in sorted(fixes):
                if state == "published" or subject not in of:
                    of[subject] = state
            return Counter(of.values())

        def lost(counts: Counter[str]) -> dict[str, int]:
            return {reason: counts[reason] for reason in ("outside", "few_cells", "coarse")}

        by_hour = [
            {"hour": hour, "seen": fate(own).total(), "published": fate(own)["published"], "left_out": lost(fate(own))}
            for hour, own in sorted(hours.items())
        ]
        counts = Counter(state for *_, state in states)
        return {"fixes": lost(counts), "subjects": lost(fate(states)), "by_hour": by_hour}

    # What an attack is given.

    def make_evidence(self) -> RegionEvidence:
        ids = sorted(self.trips)
        fixes = [fix for path in ids for fix in self.trips[path][2]]
        wide, count = self.wide, len(self.pois)
        names = sorted({self.trips[path][0] for path in ids})
        where = [(c % wide + 0.5, c // wide + 0.5) if c is not None else (-50.0, -50.0) for _, c in fixes]
        data = Trajectories(
            trajectory_id=np.array(ids, np.int64),
            subject=np.array([names.index(self.trips[path][0]) for path in ids], np.int64),
            offset=np.cumsum([0, *(len(self.trips[path][2]) for path in ids)]),
            t=np.array([t for t, _ in fixes], np.float64),
            x=np.array([x * 100 for x, _ in where]), y=np.array([y * 100 for _, y in where]),
            srid=32610, grid_m=1.0, grid_s=GRID_S,
            day=np.array([self.trips[path][1] for path in ids], np.int64) if self.has_days else None,
        )  # fmt: skip
        cells = Cells(
            cell_id=np.arange(count) * 3 + 5, area_m2=np.full(count, self.area_m2),
            categories=tuple("abcdef"[: len(self.pois[0])]), pois=np.array(self.pois, np.int64),
            neighbours=np.array(self.neighbours(), np.int64).reshape(-1, 2),
            fix_cell=np.array([-1 if c is None else c for _, c in fixes], np.int64), overlap_m2=self.overlap_m2,
        )  # fmt: skip
        keys = list(dict.fromkeys(self._region(row) for row in self.rows))
        of = [keys.index(self._region(row)) for row in self.rows]
        regions = [self.rows[of.index(i)] for i in range(len(keys))]
        held = [(i, c) for i, row in enumerate(regions) for c in sorted(row.cells)]
        own = {"several": bool, "valid": bool, "parts": int, "least_m2": float, "categories": int, "split": bool}
        hiding = [(self.rows[0].record if self.rows else 1, math.nan, math.nan, [1])] * self.hiding
        tables = gather_tables(self.rows, self.members, hiding) | {
            name: values for name, values in gather_tables(regions, (), ()).items() if name.startswith("region_")
        }
        return RegionEvidence(
            method="semantic", algorithm="atoms", params=self.params, suppressed=self.suppressed, trajectories=data,
            **tables | {"region": np.array(of, np.int32)}, region_bounds=np.zeros((len(regions), 4)),
            **{f"region_{name}": np.array([getattr(row, name) for row in regions], kind) for name, kind in own.items()},
            region_area_m2=np.array([len(row.cells) * self.area_m2 + row.more_m2 for row in regions]),
            region_holes=np.zeros(len(regions), np.int32),
            period_start_s=np.array([row.start for row in self.rows], np.float64),
            period_end_s=np.array([row.end for row in self.rows], np.float64), cells=cells,
            atom=np.array(self.atoms, np.int64), held_region=np.array([i for i, _ in held], np.int64),
            held_cell=np.array([c for _, c in held], np.int64),
        )  # fmt: skip

    def _region(self, row: Row) -> tuple[Any, ...]:
        """What makes a stored region one of its own: all but whose row it is and when."""
        return dataclasses.astuple(dataclasses.replace(row, record=0, start=0, end=0, seq=0))

    def find_broken(self) -> set[str]:
        verdict = attack(self.make_evidence())
        assert verdict.passed == all(clause.passed for clause in verdict.clauses)
        return {clause.name for clause in verdict.clauses if not clause.passed}


# The adversary once more, in sets and loops.


def find_broken_plainly(run: Release) -> set[str]:  # noqa: C901 - one loop over all that is published
    """Name the clauses that a plain adversary says are broken: of regions only what their cells decide."""
    p, seen = run.params, run.considered()
    least, t = run.promise(of_atoms=False)
    asked = run.grown() or p["min_cells"] > 1
    span, area = p["suppress_span_s"] or math.inf, (p["suppress_area_km2"] or math.inf) * 1e6
    found, records = set(), {}
    for row in run.rows:
        records.setdefault(row.record, []).append(row)
    shown = {cell: {row.cells for row in run.rows if cell in row.cells} for cell in range(len(run.pois))}
    alike_cells = {frozenset(c for c in shown if shown[c] == shown[cell]) for cell in shown if shown[cell]}
    if any(run.reveal(cells, of_atoms=True) for cells in alike_cells):
        found.add("classes")
    atoms = {frozenset(c for c, other in enumerate(run.atoms) if other == atom) for atom in run.atoms}
    weak = {atom for atom in atoms if run.reveal(atom, of_atoms=True)}
    regions: dict[frozenset[int], frozenset[int]] = {}
    for rows in records.values():
        last = -math.inf
        for row in rows:
            counts = run.counted(row.cells)
            fair = row.start % GRID_S == row.end % GRID_S == 0 and last <= row.start < row.end
            fair &= row.end - row.start <= span
            fair &= p["since"] is None or row.start >= p["since"]
            fair &= p["until"] is None or row.end <= p["until"]
            if not fair:
                found.add("period")
            if len(row.cells) * run.area_m2 > area:
                found.add("region")
            if row.categories != sum(n > 0 for n in counts):
                found.add("columns")
            if sum(n > 0 for n in counts) < least:
                found.add("diversity")
            if run.kl(counts) > t + 1e-9:
                found.add("closeness")
            last = row.end
    members = {r: sorted(path for record, path, _ in run.members if record == r) for r in records}
    alike: dict[str, list[int]] = {}
    for r, rows in records.items():
        alike.setdefault(f"{[(x.start, x.end, run._region(x)) for x in rows]} {members[r]}", []).append(r)
    in_groups: Counter[Unit] = Counter()
    for group in alike.values():
        paths = members[group[0]]
        units = {run.unit(path) for path in paths if path in seen}
        in_groups.update(units)
        crowd = len({subject for subject, _ in units})
        fair = paths == sorted(path for unit in units for path in run.paths(unit)) and len(group) == len(units)
        if not fair or any(run.few(unit) for unit in units):
            found.add("members")
        if any(row.crowd != crowd for row in records[group[0]]):
            found.add("crowd")
        if crowd < p["k"]:
            found.add("size")
        for row in records[group[0]]:
            there = run.there([unit for unit in units if not run.few(unit)], row.start, row.end)
            if not run.grown() and any(cells <= row.cells and not cells & there for cells in alike_cells):
                found.add("tight")
            if run.grown() and there and regions.setdefault(run.asked(there), row.cells) != row.cells:
                found.add("tight")
            if asked and any(atom & row.cells and (atom in weak or atom - row.cells) for atom in atoms):
                found.add("tight")
            for unit in units:
                own = [c for at, _, c in run.fixes(unit) if row.start <= run.slot(at) * GRID_S < row.end]
                if not run.few(unit) and not set(own) - {None}:
                    found.add("truth")
                if not run.few(unit) and set(own) - {None} - row.cells:
                    found.add("covers")
    if max(in_groups.values(), default=0) > 1 or {r for r, _, _ in run.members} - set(records):
        found.add("members")
    if math.isinf(span) and math.isinf(area) and any(state == "coarse" for *_, state in run.states()):
        found.add("complete")
    if run.suppressed != run.missing():
        found.add("left-out")
    return found
