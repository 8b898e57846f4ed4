"""Tiny evidence for attacks, built in plain Python: one loop a subject and instant, so that it is plainly right."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dbanon.attacks import Evidence
from dbanon.attacks.tp_aware.evidence import RequestEvidence
from dbanon.base.trajectory import Trajectories
from tests.unit.oracles_tp_aware import join_rows

Trips = Mapping[int, tuple[int, Sequence[tuple[float, float, float]]]]

PARAMS = {
    "k": 3,
    "step_s": 60,
    "instants": 3,
    "start": None,
    "align": "last",
    "max_gap_s": 60,
    "cloak": "mbr",
    "min_cloak_m": 9,
    "min_contents": 1,
    "guests": False,
    "since": None,
    "until": None,
}


def make_trajectories(trips: Trips, *, grid_m: float = 2.0, grid_s: int = 5, srid: int = 32610) -> Trajectories:
    """Make trajectories of ``{trajectory id: (subject, [(t, x, y), ...])}``."""
    ids = sorted(trips)
    fixes = np.array([fix for i in ids for fix in trips[i][1]], dtype=np.float64).reshape(-1, 3)
    return Trajectories(
        trajectory_id=np.array(ids, dtype=np.int64),
        subject=np.array([trips[i][0] for i in ids], dtype=np.int64),
        offset=np.cumsum([0, *(len(trips[i][1]) for i in ids)]),
        t=fixes[:, 0].copy(),
        x=fixes[:, 1].copy(),
        y=fixes[:, 2].copy(),
        srid=srid,
        grid_m=grid_m,
        grid_s=grid_s,
    )


class World:
    """The data as a plain adversary sees them: who is where at every instant, by whose trajectories."""

    def __init__(self, trips: Trips, params: Mapping[str, object], grid_m: float = 2.0, grid_s: int = 5) -> None:
        self.params, self.grid_m, self.grid_s = dict(params), grid_m, grid_s
        self.data = make_trajectories(trips, grid_m=grid_m, grid_s=grid_s)
        self.fixes = {}
        for i in sorted(trips):
            subject, fixes = trips[i]
            self.fixes.setdefault(subject, []).extend((t, i, x, y) for t, x, y in fixes)
        for fixes in self.fixes.values():
            fixes.sort(key=lambda fix: fix[:2])
        until = math.inf if params["until"] is None else params["until"]
        self.fixes = {s: [fix for fix in fixes if self.slot(fix[0]) < until] for s, fixes in self.fixes.items()}
        self.times = [fix[0] for fixes in self.fixes.values() for fix in fixes] or [0.0]
        self.until = until
        step = params["step_s"]
        starts = (params["start"], params["since"], self.find_default_start(step))
        self.start = next(int(start) for start in starts if start is not None)
        self.instants = self.list_instants(self.start)
        length = params["instants"]
        self.windows = [self.instants[i : i + length] for i in range(0, len(self.instants), length)]
        wanted = params["min_cloak_m"]
        self.cell = grid_m if wanted is None else math.ceil(wanted / grid_m) * grid_m

    def find_default_start(self, step: int) -> int:
        """Give the multiple of the step `max_gap_s` after the first slot, else the one before the first fix."""
        if self.params["align"] == "last":
            late = math.ceil((self.slot(min(self.times)) + self.params["max_gap_s"]) / step) * step
            if self.list_instants(late):
                return late
        return math.floor(min(self.times) / step) * step

    def list_instants(self, start: int) -> list[int]:
        step = self.params["step_s"]
        return [t for t in range(start, self.slot(max(self.times)) + 1, step) if t + step <= self.until]

    def slot(self, t: float) -> int:
        return math.floor(t / self.grid_s) * self.grid_s

    def find_position(self, subject: int, t: int) -> tuple[float, float, set[int]] | None:
        """Give the position at an instant and the trajectories that supply it."""
        align, gap = self.params["align"], self.params["max_gap_s"]
        past = [f for f in self.fixes[subject] if self.slot(f[0]) <= t]
        future = [f for f in self.fixes[subject] if self.slot(f[0]) > t]
        if not past:
            return None
        (_, ia, xa, ya), sa = past[-1], self.slot(past[-1][0])
        if sa == t or (align == "last" and t - sa <= gap):
            return xa, ya, {ia}
        if align != "linear" or not future:
            return None
        (_, ib, xb, yb), sb = future[0], self.slot(future[0][0])
        if sb - sa > gap:
            return None
        return xa + (xb - xa) * ((t - sa) / (sb - sa)), ya + (yb - ya) * ((t - sa) / (sb - sa)), {ia, ib}

    def seen(self, window: Sequence[int]) -> list[int]:
        return [s for s in sorted(self.fixes) if any(self.find_position(s, t) for t in window)]

    def present(self, window: Sequence[int]) -> list[int]:
        return [s for s in sorted(self.fixes) if all(self.find_position(s, t) for t in window)]

    def list_suppliers(self, subject: int, window: Sequence[int]) -> set[int]:
        return set().union(*(at[2] for t in window if (at := self.find_position(subject, t))))

    def box(self, subjects: Sequence[int], t: int) -> tuple[float, float, float, float]:
        """Give the least rectangle of cells that holds everybody who is there."""
        cells = [
            (math.floor(at[0] / self.cell), math.floor(at[1] / self.cell))
            for s in subjects
            if (at := self.find_position(s, t))
        ]
        low, high = (
            [min(axis) for axis in zip(*cells, strict=True)],
            [max(axis) + 1 for axis in zip(*cells, strict=True)],
        )
        return tuple(edge * self.cell for edge in (*low, *high))

    def make_evidence(
        self,
        groups: Mapping[int, Sequence[tuple[int, Sequence[int]]]],
        requests: Sequence[tuple[int, float, int]] = (),
    ) -> RequestEvidence:
        """Publish ``{window: [(record id, subjects), ...]}`` honestly, with requests ``(sender, time, content)``."""
        rows, members, shown, used, few = [], [], [], set(), set()
        step, least = self.params["step_s"], self.params["min_contents"]
        for number, records in groups.items():
            window = self.windows[number]
            for record, subjects in records:
                members += [(record, i) for s in subjects for i in sorted(self.list_suppliers(s, window))]
                sent = [{r for r in requests if r[0] in subjects and t <= r[1] < t + step} for t in window]
                periods = join_rows([{content for _, _, content in own} for own in sent], least)
                (few if periods is None else used).update(*sent)
                for seq, (first, last) in enumerate(periods or [(i, i) for i in range(len(window))], 1):
                    box = _find_bounds([self.box(subjects, t) for t in window[first : last + 1]])
                    rows.append((record, seq, window[first], window[last] + step, *box, len(subjects)))
                    own = set().union(*sent[first : last + 1]) if periods else set()
                    shown += [(record, seq, content) for content in sorted({r[2] for r in own})]
        suppressed = self.suppressed(groups)
        own = [request for request in requests if self.is_own(request[1])]
        outside = sum(not self.instants[0] <= r[1] < self.instants[-1] + step for r in own)
        unsent = {
            "outside_windows": outside,
            "sender_absent": 0,
            "bundle_below_min_contents": sum(r in few for r in own),
        }
        unsent["sender_not_published"] = sum(r not in used for r in own) - sum(unsent.values())
        suppressed["requests"] = unsent
        return _make_evidence(self, suppressed, (rows, members, shown, requests))

    def is_own(self, t: float) -> bool:
        """Say whether a time is one of the run's own, not one of another evening."""
        begins = (self.params["since"], self.params["start"], self.slot(min(self.times)))
        end = self.slot(max(self.times)) + self.params["step_s"] if self.until == math.inf else self.until
        return next(int(begin) for begin in begins if begin is not None) <= t < end

    def suppressed(self, groups: Mapping[int, Sequence[tuple[int, Sequence[int]]]]) -> dict[str, object]:
        """Count what is left out if these groups are published."""
        windows, absent, below = [], 0, 0
        for number, window in enumerate(self.windows):
            seen, present = len(self.seen(window)), len(self.present(window))
            published = len({s for _, subjects in groups.get(number, ()) for s in subjects})
            absent += seen - present
            below += present if present < self.params["k"] else 0
            counts = {"seen": seen, "present": present, "published": published}
            windows.append({"start": window[0], "instants": len(window), **counts})
        by_hour = count_by_hour([
            (w["start"], w["seen"], w["published"], {
                "absent_at_some_instant": w["seen"] - w["present"],
                "window_below_k": w["present"] if w["present"] < self.params["k"] else 0,
            })
            for w in windows
        ])  # fmt: skip
        subjects = {"absent_at_some_instant": absent, "window_below_k": below}
        guests = "on" if self.params.get("guests") else "off"
        return {"subjects": subjects, "windows": windows, "by_hour": by_hour, "guests": guests}


def _find_bounds(boxes: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    xmin, ymin, xmax, ymax = zip(*boxes, strict=True)
    return min(xmin), min(ymin), max(xmax), max(ymax)


def _make_evidence(world: World, suppressed: dict, tables: tuple[Sequence, ...]) -> RequestEvidence:
    rows, members, shown, requests = tables
    row = np.array(rows, dtype=np.float64).reshape(-1, 9)
    member = np.array(members, dtype=np.int64).reshape(-1, 2)
    published = np.array(shown, dtype=np.int64).reshape(-1, 3)
    sent = np.array(requests, dtype=np.float64).reshape(-1, 3)
    return make_evidence(
        RequestEvidence,
        method="tp-aware",
        algorithm="traj-anon",
        params=world.params,
        suppressed=suppressed,
        trajectories=world.data,
        cloak_record=row[:, 0].astype(np.int64),
        cloak_seq=row[:, 1].astype(np.int32),
        cloak_start_s=row[:, 2],
        cloak_end_s=row[:, 3],
        cloak_bounds=row[:, 4:8],
        cloak_rectangle=np.ones(len(row), dtype=bool),
        cloak_srid=np.full(len(row), world.data.srid, dtype=np.int32),
        cloak_crowd=row[:, 8].astype(np.int32),
        cloak_subjects=row[:, 8].astype(np.int32),
        cloak_other_keys=np.zeros(len(row), dtype=np.int32),
        member_record=member[:, 0],
        member_trajectory=member[:, 1],
        member_whole=np.ones(len(member), dtype=bool),
        published_request_record=published[:, 0],
        published_request_seq=published[:, 1].astype(np.int32),
        published_request_content=published[:, 2],
        request_subject=sent[:, 0].astype(np.int64),
        request_t=sent[:, 1],
        request_content=sent[:, 2].astype(np.int64),
    )


ROW = ("record", "seq", "start_s", "end_s", "bounds", "rectangle", "srid", "crowd", "subjects", "other_keys")
"""Columns of ``dbanon.cloak`` as attacks see them."""


def make_evidence(kind: type[Evidence], **columns: Any) -> Evidence:
    """Make evidence of a value a row (``cloak_*``) and a membership (``member_whole``): each row has its own region."""
    rows = len(columns["cloak_record"])
    record = np.asarray(columns.pop("cloak_record"))
    first = np.flatnonzero(np.append(True, record[1:] != record[:-1])) if rows else np.empty(0, np.int64)
    whole = np.asarray(columns.pop("member_whole"))
    start_s, end_s, seq = (columns.pop(f"cloak_{name}") for name in ("start_s", "end_s", "seq"))
    nothing = np.empty(0)
    fields = {f"region_{name[6:]}" if name.startswith("cloak_") else name: value for name, value in columns.items()}
    return kind(
        record_id=record[first],
        offset=np.append(first, rows),
        region=np.arange(rows, dtype=np.int32),
        region_no=np.arange(1, rows + 1),
        period=np.arange(rows, dtype=np.int32),
        place=np.asarray(seq, np.int32),
        period_start_s=start_s,
        period_end_s=end_s,
        member_start_s=np.where(whole, math.nan, 0.0),
        member_end_s=np.where(whole, math.nan, 1.0),
        hiding_record=nothing.astype(np.int64),
        hiding_start_s=nothing,
        hiding_end_s=nothing,
        hiding_offset=np.zeros(1, np.int64),
        hiding_other=nothing.astype(np.int64),
        **fields,
    )


def gather_tables(
    rows: Sequence[Any], members: Sequence[tuple[int, int, bool]], hiding: Sequence[tuple[int, float, float, list[int]]]
) -> dict[str, Any]:
    """Make the tables of evidence, but for bounds and periods, of rows that have a region and a period each.

    A row has the attributes of `ROW`, its `seq` 0 where it is its place in the record; a membership and a hiding set
    are of a record, and NaN is the start of one for all of it.
    """
    records = [(record, len(list(own))) for record, own in itertools.groupby(rows, lambda row: row.record)]
    places = [row.seq or place for row, place in zip(rows, (i + 1 for _, n in records for i in range(n)), strict=True)]
    whole = np.array([m[2] for m in members], bool)
    values = {"rectangle": bool, "srid": np.int32, "crowd": np.int32, "subjects": np.int32, "other_keys": np.int32}
    return {
        "record_id": np.array([record for record, _ in records], np.int64),
        "offset": np.cumsum([0, *(number for _, number in records)]),
        "region": np.arange(len(rows), dtype=np.int32), "period": np.arange(len(rows), dtype=np.int32),
        "place": np.array(places, np.int32) if any(row.seq for row in rows) else None,
        "region_no": np.arange(1, len(rows) + 1),
        **{f"region_{name}": np.array([getattr(row, name) for row in rows], kind) for name, kind in values.items()},
        "member_record": np.array([m[0] for m in members], np.int64),
        "member_trajectory": np.array([m[1] for m in members], np.int64),
        "member_start_s": np.where(whole, math.nan, 0.0), "member_end_s": np.where(whole, math.nan, 1.0),
        "hiding_record": np.array([h[0] for h in hiding], np.int64),
        "hiding_start_s": np.array([h[1] for h in hiding], np.float64),
        "hiding_end_s": np.array([h[2] for h in hiding], np.float64),
        "hiding_offset": np.cumsum([0, *(len(h[3]) for h in hiding)]),
        "hiding_other": np.array([other for h in hiding for other in h[3]], np.int64),
    }  # fmt: skip


def replace_columns(evidence: Evidence, **columns: Any) -> Evidence:
    """Make evidence with other columns, named like the arguments of `make_evidence`."""
    given = {
        name: getattr(evidence, name)
        for name in (*_list_columns(evidence, "cloak"), *_list_columns(evidence, "member"))
    }
    stored = {"record_id", "offset", "region", "period", "place", "member_start_s", "member_end_s"}
    own = {f.name for f in dataclasses.fields(evidence)}
    kept = {n for n in own - stored if not n.startswith(("region_", "period_", "hiding_"))}
    return make_evidence(type(evidence), **{n: getattr(evidence, n) for n in kept} | given | columns)


def put(evidence: Evidence, column: str, where: object, value: object) -> Evidence:
    """Change some values of a column."""
    changed = getattr(evidence, column).copy()
    changed[where] = value
    return replace_columns(evidence, **{column: changed})


def _list_columns(evidence: Evidence, table: str) -> list[str]:
    if table == "member":
        return ["member_record", "member_trajectory", "member_whole"]
    if table == "cloak":
        return [f"cloak_{name}" for name in dict.fromkeys((*ROW, *evidence.tables["region"])) if name != "no"]
    return [f"{table}_{column}" for column in evidence.tables[table]]


def take(evidence: Evidence, table: str, rows: object) -> Evidence:
    """Keep some rows of a table (``cloak``, ``member`` or another of `Evidence.tables`), in this order."""
    return replace_columns(evidence, **{name: getattr(evidence, name)[rows] for name in _list_columns(evidence, table)})


def add(evidence: Evidence, table: str, *values: object) -> Evidence:
    """Append one row to a table, its values in the order of the columns."""
    columns = {}
    for name, value in zip(_list_columns(evidence, table), values, strict=True):
        old = getattr(evidence, name)
        columns[name] = np.append(old, np.array([value], dtype=old.dtype))
    return replace_columns(evidence, **columns)


def count_by_hour(windows: Sequence[tuple[int, int, int, Mapping[str, int]]]) -> list[dict[str, Any]]:
    """Count ``(start, seen, published, left out by reason)`` of windows by hour, as runs say it."""
    found: dict[str, dict[str, Any]] = {}
    for start, seen, published, left_out in windows:
        hour = f"{datetime.fromtimestamp(start, UTC):%Y-%m-%dT%H:00Z}"
        entry = found.setdefault(hour, {"hour": hour, "seen": 0, "published": 0, "left_out": {}})
        entry["seen"] += seen
        entry["published"] += published
        for reason, number in left_out.items():
            entry["left_out"][reason] = entry["left_out"].get(reason, 0) + number
    return list(found.values())
