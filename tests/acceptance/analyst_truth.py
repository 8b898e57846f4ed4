"""What is true of the people of a release, from the data alone: what the answers to analysts are held against.

Positions are computed here by code of its own, from fixes that PostGIS hands out one by one; of a run it reads who its
people are, its parameters and its rows' periods and, where rows hold at some time, which fixes they cover.
"""

import json
from bisect import bisect, bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import psycopg
import shapely

Fix = tuple[float, int, float, float]  # time, trajectory, x, y
Place = tuple[float, float]
Row = tuple[float, float, Any, list[Any]]  # since, until, region, requests


@dataclass(frozen=True)
class Track:
    """What a release says of one person in one record: where at which times, in order."""

    person: str
    record: int
    t: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def during(self, since: float, until: float) -> "Track":
        kept = (self.t >= since) & (self.t < until)
        return Track(self.person, self.record, self.t[kept], self.x[kept], self.y[kept])

    def inside(self, area: shapely.Geometry) -> np.ndarray:
        return shapely.intersects_xy(area, self.x, self.y)


@dataclass(frozen=True)
class Request:
    person: str
    t: float
    content: str
    x: float
    y: float


@dataclass(frozen=True)
class Truth:
    """The tracks of a release, the time of its rows, and how far its instants are apart (0: no instants, or one)."""

    tracks: tuple[Track, ...]
    requests: tuple[Request, ...]
    since: float
    until: float
    step_s: int

    def slots(self, since: float, until: float) -> tuple[float, float]:
        """A span in whole slots: an instant counts if its slot meets it."""
        if not self.step_s:
            return since, until
        low = self.since + (since - self.since) // self.step_s * self.step_s
        return low, self.since - (self.since - until) // self.step_s * self.step_s

    def during(self, since: float, until: float) -> Iterator[Track]:
        low, high = self.slots(max(since, self.since), min(until, self.until))
        yield from (found for track in self.tracks if len((found := track.during(low, high)).t))


def slotted(fixes: list[Fix], grid_s: int) -> list[Fix]:
    """The fixes of a person in order, each at the start of its slot."""
    return [(slot, n, x, y) for slot, _, n, x, y in sorted((t // grid_s * grid_s, t, n, x, y) for t, n, x, y in fixes)]


def position(fixes: list[Fix], t: float, align: str, max_gap_s: int) -> Place | None:
    """Where a person of these slotted fixes is at an instant, as docs/methods/tp-aware.md has it under Alignment."""
    place = bisect(fixes, t, key=lambda fix: fix[0])
    if not place:
        return None
    slot, _, x, y = fixes[place - 1]
    if align == "exact":
        return (x, y) if slot == t else None
    if align == "last":
        return (x, y) if t - slot <= max_gap_s else None
    if slot == t:
        return x, y
    if place == len(fixes) or fixes[place][0] - slot > max_gap_s:
        return None
    later, _, next_x, next_y = fixes[place]
    part = (t - slot) / (later - slot)
    return x + (next_x - x) * part, y + (next_y - y) * part


def read(url: str, run_id: int) -> Truth:
    """Read a run and its data as their owner."""
    with psycopg.connect(url) as owner:
        params, holds, grid_s = owner.execute(
            "SELECT r.params, m.traits ->> 'holds', d.grid_s FROM dbanon.run r"
            " JOIN dbanon.method m ON m.name = r.method"
            " JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id WHERE r.run_id = %s",
            [run_id],
        ).fetchone()  # type: ignore[misc]
        fixes: dict[str, list[Fix]] = {}
        for person, *fix in owner.execute(
            "SELECT f.subject, extract(epoch FROM f.t)::float8, f.trajectory_id, public.ST_X(f.position),"
            " public.ST_Y(f.position) FROM dbanon.fix f JOIN dbanon.run r USING (dataset_id) WHERE r.run_id = %s",
            [run_id],
        ):
            fixes.setdefault(person, []).append(tuple(fix))  # type: ignore[arg-type]
        people: dict[int, set[str]] = {}
        paths: dict[tuple[str, Any], tuple[int, set[int]]] = {}  # of a person, or a day of one: a record, trajectories
        for record, person, day, path in owner.execute(
            "SELECT m.record_id, t.subject, d.day, trajectory_id FROM dbanon.membership m"
            " JOIN dbanon.trajectory t USING (trajectory_id) LEFT JOIN dbanon.subject_day d USING (trajectory_id)"
            " WHERE m.run_id = %s",
            [run_id],
        ):
            people.setdefault(record, set()).add(person)
            paths.setdefault((person, day), (record, set()))[1].add(path)
        rows: dict[int, list[Row]] = {}
        for record, start, end, region, extra in owner.execute(
            "SELECT record_id, extract(epoch FROM lower(period))::float8, extract(epoch FROM upper(period))::float8,"
            " public.ST_AsBinary(region), extra -> 'requests' FROM dbanon.cloak WHERE run_id = %s"
            " ORDER BY record_id, period",
            [run_id],
        ):
            rows.setdefault(record, []).append((start, end, shapely.from_wkb(region), extra or []))
        sent: dict[str, list[tuple[float, Any]]] = {}
        for person, t, content in owner.execute(
            "SELECT q.subject, extract(epoch FROM q.sent_at)::float8, q.content FROM dbanon.request q"
            " JOIN dbanon.run r USING (dataset_id) WHERE r.run_id = %s ORDER BY q.sent_at",
            [run_id],
        ):
            sent.setdefault(person, []).append((t, content))
    since = min(start for found in rows.values() for start, *_ in found)
    until = max(end for found in rows.values() for _, end, *_ in found)
    if holds == "some time":
        return Truth(tuple(_covered(fixes, paths, rows)), (), since, until, 0)
    step_s = int(params.get("step_s") or 0)
    align, gap = params.get("align", "last"), params.get("max_gap_s", 300)
    known = {person: slotted(own, grid_s) for person, own in fixes.items()}

    def at(person: str, t: float) -> Place:
        found = position(known[person], t, align, gap)
        assert found is not None, "a person who is published has a position"
        return found

    tracks = [
        Track(person, record, *_aligned(at, person, instants))
        for record, whole in people.items()
        for instants in [[t for start, end, *_ in rows[record] for t in np.arange(start, end, step_s or end - start)]]
        for person in whole
    ]  # fmt: skip
    requests = [
        Request(track.person, t, json.dumps(content), track.x[i], track.y[i])
        for track in tracks
        for own in [sent.get(track.person, [])]
        for t, content in own[
            bisect_left(own, track.t[0], key=_time) : bisect_left(own, track.t[-1] + step_s, key=_time)
        ]
        for i in np.flatnonzero((track.t <= t) & (t < track.t + step_s))
        if any(start <= t < end and content in shown for start, end, _, shown in rows[track.record])
    ]
    return Truth(tuple(tracks), tuple(requests), since, until, step_s)


def _time(sent: tuple[float, Any]) -> float:
    return sent[0]


def _aligned(at: Callable[[str, float], Place], person: str, instants: list[float]) -> Iterable[np.ndarray]:
    places = np.array([at(person, t) for t in instants])
    return np.array(instants), places[:, 0], places[:, 1]


def _covered(
    fixes: dict[str, list[Fix]], paths: dict[tuple[str, Any], tuple[int, set[int]]], rows: dict[int, list[Row]]
) -> Iterator[Track]:
    """Give each person, or day of one, a track: the fixes that a record covers; those of a group are alike."""
    for (person, _), (record, own) in paths.items():
        found = sorted(
            (t, x, y)
            for t, path, x, y in fixes[person]
            if path in own
            and any(
                start <= t < end and region.intersects(shapely.Point(x, y)) for start, end, region, _ in rows[record]
            )
        )
        t, x, y = np.array(found).T
        yield Track(person, record, t, x, y)


def directions(track: Track, line: np.ndarray) -> set[str]:
    """The directions in which straight ways between successive positions cross a line."""
    found = set()
    for (ax, ay), (bx, by) in pairwise(zip(track.x, track.y, strict=True)):
        for (px, py), (qx, qy) in pairwise(line):
            a = (qx - px) * (ay - py) - (qy - py) * (ax - px) > 0
            b = (qx - px) * (by - py) - (qy - py) * (bx - px) > 0
            p = (bx - ax) * (py - ay) - (by - ay) * (px - ax) > 0
            q = (bx - ax) * (qy - ay) - (by - ay) * (qx - ax) > 0
            if a != b and p != q:
                found.add("left to right" if a else "right to left")
    return found
