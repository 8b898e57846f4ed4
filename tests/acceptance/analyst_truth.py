"""What is true of the people of a release, from the data alone: what the answers to analysts are held against.

Positions are computed here by code of its own, from fixes that PostGIS hands out one by one; of a run it reads who its
people are, its parameters and its rows' periods and, where rows hold at some time, which fixes they cover.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import psycopg
import shapely

Span = tuple[float, float]
Row = tuple[float, float, bytes, list[Any]]  # since, until, region, requests
DIRECTIONS = ("left to right", "right to left")


@dataclass(frozen=True)
class Track:
    """What a release says of one person in one record: where at which times, in order."""

    person: str
    record: int
    t: np.ndarray
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Positions:
    """The positions of tracks, one after the other: numbers of the person and of the track, and where they are when."""

    person: np.ndarray
    track: np.ndarray
    t: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def __getitem__(self, kept: np.ndarray) -> "Positions":
        return Positions(*(values[kept] for values in (self.person, self.track, self.t, self.x, self.y)))

    def inside(self, area: shapely.Geometry) -> "Positions":
        return self[shapely.intersects_xy(area, self.x, self.y)]

    def people(self) -> int:
        return len(np.unique(self.person))


@dataclass(frozen=True)
class Request:
    person: str
    t: float
    content: str
    x: float
    y: float


@dataclass(frozen=True)
class Fixes:
    """The fixes of a person, in order of their slots, then of time."""

    path: np.ndarray  # the number of the trajectory
    slot: np.ndarray
    t: np.ndarray
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is true of a release: where its people are, the time of its rows, and how far its instants are apart.

    `step_s` is 0 where there is one instant, or none: where rows hold at `some_time`. `parts`: the times it speaks of.
    """

    tracks: list[Track]
    requests: list[Request]
    since: float
    until: float
    step_s: int = 0
    some_time: bool = False
    parts: tuple[Span, ...] = ()

    @property
    def spoken(self) -> tuple[Span, ...]:
        return self.parts or ((self.since, self.until),)

    @cached_property
    def positions(self) -> Positions:
        number = {person: i for i, person in enumerate({track.person for track in self.tracks})}
        return Positions(
            np.concatenate([np.full(len(track.t), number[track.person]) for track in self.tracks]),
            np.concatenate([np.full(len(track.t), i) for i, track in enumerate(self.tracks)]),
            *(np.concatenate([getattr(track, axis) for track in self.tracks]) for axis in ("t", "x", "y")),
        )

    def slots(self, span: Span) -> Span:
        """Cut a span to the release, in whole slots: an instant counts if its slot meets it."""
        since, until = max(span[0], self.since), min(span[1], self.until)
        if not self.step_s:
            return since, until
        low = self.since + (since - self.since) // self.step_s * self.step_s
        return low, self.since - (self.since - until) // self.step_s * self.step_s

    def during(self, span: Span) -> Positions:
        low, high = self.slots(span)
        if not (self.step_s or self.some_time):  # a part is one slot
            low, high = min(s for s, u in self._met(low, high)), max(u for s, u in self._met(low, high))
        return self.positions[(self.positions.t >= low) & (self.positions.t < high)]

    def _met(self, low: float, high: float) -> list[Span]:
        return [(since, until) for since, until in self.spoken if low < until and since < high]

    def at(self, t: float) -> Positions:
        """Give the positions of an instant; where rows hold at some time, the last of five minutes of each person."""
        if not self.some_time:
            return self.during((t, t + 1e-6))
        found = self.positions[(self.positions.t > t - 300) & (self.positions.t <= t)]
        found = found[np.lexsort((found.t, found.person))]
        return found[np.append(np.diff(found.person) != 0, True)[: len(found.person)]]

    def cells(self, side: float, span: Span) -> dict[tuple[int, int], float]:
        """Count people in each cell: those of an instant on average or, where rows hold at some time, those seen."""
        found = self.during(span)
        where = np.stack([found.x // side, found.y // side], axis=1).astype(int)
        if self.some_time:
            where = np.unique(np.column_stack([where, found.person]), axis=0)
        low, high = self.slots(span)
        instants = 1 if self.some_time else len(self._met(low, high))
        if self.step_s:
            instants = sum(min(high, until) - max(low, since) for since, until in self._met(low, high)) / self.step_s
        return {cell: count / instants for cell, count in Counter(map(tuple, where[:, :2].tolist())).items()}

    def flows(self, zones: Mapping[str, shapely.Geometry], span: Span) -> Counter[tuple[str, str]]:
        """Count people by the zones of the first and the last position of a track."""
        found = self.during(span)
        first, last = (found[np.diff(found.track, **{side: -1}) != 0] for side in ("prepend", "append"))
        begun, ended = (
            {name: shapely.intersects_xy(area, one.x, one.y) for name, area in zones.items()} for one in (first, last)
        )
        pairs = itertools.product(zones, repeat=2)
        people = {(a, b): first[begun[a] & ended[b]].people() for a, b in pairs if begun[a].any() and ended[b].any()}
        return Counter({pair: number for pair, number in people.items() if number})

    def crossings(self, line: np.ndarray, span: Span) -> dict[str, int]:
        """Count people by the directions in which straight ways between their successive positions cross a line."""
        found = self.during(span)
        goes_on = np.flatnonzero(np.diff(found.track) == 0)
        a, b = found[goes_on], found[goes_on + 1]
        crossed = {direction: np.zeros(len(a.t), bool) for direction in DIRECTIONS}
        for (px, py), (qx, qy) in itertools.pairwise(line):
            a_left = (qx - px) * (a.y - py) - (qy - py) * (a.x - px) > 0
            b_left = (qx - px) * (b.y - py) - (qy - py) * (b.x - px) > 0
            p_left = (b.x - a.x) * (py - a.y) - (b.y - a.y) * (px - a.x) > 0
            q_left = (b.x - a.x) * (qy - a.y) - (b.y - a.y) * (qx - a.x) > 0
            meets = (a_left != b_left) & (p_left != q_left)
            crossed["left to right"] |= meets & a_left
            crossed["right to left"] |= meets & b_left
        return {direction: a[where].people() for direction, where in crossed.items()}

    def dwell(self, area: shapely.Geometry, span: Span) -> Iterator[tuple[int, int, int]]:
        """Give of each track in a span its record, its instants, and at how many of them it was inside."""
        found = self.during(span)
        instants, inside = (
            np.bincount(one.track, minlength=len(self.tracks)).tolist() for one in (found, found.inside(area))
        )
        yield from ((track.record, n, m) for track, n, m in zip(self.tracks, instants, inside, strict=True) if n)

    def requests_inside(self, area: shapely.Geometry, span: Span) -> dict[str, int]:
        """Count people by what they asked for."""
        low, high = self.slots(span)
        asked = {
            (sent.content, sent.person)
            for sent in self.requests
            if low <= sent.t < high and shapely.intersects_xy(area, sent.x, sent.y)
        }
        return Counter(content for content, _ in asked)


def read(url: str, runs: list[int]) -> Truth:
    """Read runs, which are parts of one release or one that is all of it, and their data as their owner.

    Each part has records of its own: their numbers are made different.
    """
    parts = [_read(url, run_id) for run_id in runs]
    return Truth(
        tracks=[
            replace(t, record=number_part_record(n, t.record)) for n, part in enumerate(parts) for t in part.tracks
        ],
        requests=[request for part in parts for request in part.requests],
        since=min(part.since for part in parts),
        until=max(part.until for part in parts),
        step_s=parts[0].step_s,
        some_time=parts[0].some_time,
        parts=tuple((part.since, part.until) for part in parts),
    )


def number_part_record(part: int, record: int) -> int:
    """Number a record of one of several parts."""
    return 1_000_000 * part + record


def _read(url: str, run_id: int) -> Truth:
    with psycopg.connect(url) as owner:
        params, holds, grid_s = owner.execute(
            "SELECT r.params, m.traits ->> 'holds', d.grid_s FROM dbanon.run r"
            " JOIN dbanon.method m ON m.name = r.method"
            " JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id WHERE r.run_id = %s",
            [run_id],
        ).fetchone()  # type: ignore[misc]
        found: dict[str, list[tuple[float, ...]]] = {}
        for person, *fix in owner.execute(
            "SELECT f.subject, f.trajectory_id, extract(epoch FROM f.t)::float8, public.ST_X(f.position),"
            " public.ST_Y(f.position) FROM dbanon.fix f JOIN dbanon.run r USING (dataset_id) WHERE r.run_id = %s",
            [run_id],
        ):
            found.setdefault(person, []).append(tuple(fix))
        rows: dict[int, list[Row]] = {}
        for record, start, end, region, extra in owner.execute(
            "SELECT record_id, extract(epoch FROM lower(period))::float8, extract(epoch FROM upper(period))::float8,"
            " public.ST_AsBinary(region), extra -> 'requests' FROM dbanon.cloak WHERE run_id = %s"
            " ORDER BY record_id, period",
            [run_id],
        ):
            rows.setdefault(record, []).append((start, end, region, extra or []))
        window_s = params.get("window_s") or math.inf
        # Of a record, its people, and from when until when each is there: a guest at some instants.
        people: dict[int, dict[str, list[Span]]] = {}
        # Of a person, or a day or window of one: a record, trajectories.
        paths: dict[tuple[str, Any, float], tuple[int, set[int]]] = {}
        for record, person, day, path, *stretch in owner.execute(
            "SELECT m.record_id, t.subject, d.day, trajectory_id,"
            " coalesce(extract(epoch FROM lower(m.period)), '-Infinity')::float8,"
            " coalesce(extract(epoch FROM upper(m.period)), 'Infinity')::float8 FROM dbanon.membership m"
            " JOIN dbanon.trajectory t USING (trajectory_id) LEFT JOIN dbanon.subject_day d USING (trajectory_id)"
            " WHERE m.run_id = %s",
            [run_id],
        ):
            people.setdefault(record, {}).setdefault(person, []).append((stretch[0], stretch[1]))
            paths.setdefault((person, day, rows[record][0][0] // window_s), (record, set()))[1].add(path)
        sent: dict[str, list[tuple[float, Any]]] = {}
        for person, t, content in owner.execute(
            "SELECT q.subject, extract(epoch FROM q.sent_at)::float8, q.content FROM dbanon.request q"
            " JOIN dbanon.run r USING (dataset_id) WHERE r.run_id = %s ORDER BY q.sent_at",
            [run_id],
        ):
            sent.setdefault(person, []).append((t, content))
    fixes = {person: _sort_fixes(np.array(own), grid_s) for person, own in found.items()}
    since = min(start for own in rows.values() for start, *_ in own)
    until = max(end for own in rows.values() for _, end, *_ in own)
    step_s = int(params.get("step_s") or 0)
    # A snapshot of people who were seen once each, without an instant, is of no moment.
    if holds == "some time" or not (step_s or params.get("at")):
        tracks = list(_list_covered(fixes, paths, rows))
        return Truth(tracks=tracks, requests=[], since=since, until=until, some_time=True)
    align, gap = params.get("align", "last"), params.get("max_gap_s", 300)
    tracks = [
        Track(person, record, instants, *align_fixes(fixes[person], instants, align, gap))
        for record, whole in people.items()
        for all_instants in [np.concatenate([np.arange(a, b, step_s or b - a) for a, b, *_ in rows[record]])]
        for person, stretches in whole.items()
        for instants in [all_instants[np.any([(a <= all_instants) & (all_instants < b) for a, b in stretches], axis=0)]]
    ]  # fmt: skip
    requests = [
        request
        for track in tracks
        for there in [
            [one for one in sent.get(track.person, []) if _is_there(people[track.record][track.person], one[0])]
        ]
        for request in _list_answered(track, rows[track.record], there)
    ]
    return Truth(tracks=tracks, requests=requests, since=since, until=until, step_s=step_s)


def list_untrue(url: str, run_id: int, holds: str, step_s: int | None) -> list[tuple[int, str, float]]:
    """List the rows of a run, with their people, that are not true at the times that a release declares.

    That is at each instant of a row's period, `step_s` or a slot apart, by the last known position; or at some time.
    """
    with psycopg.connect(url) as owner:
        params, grid_s = owner.execute(
            "SELECT r.params, d.grid_s FROM dbanon.run r JOIN dbanon.dataset d USING (dataset_id) WHERE r.run_id = %s",
            [run_id],
        ).fetchone()  # type: ignore[misc]
        found: dict[str, list[tuple[float, ...]]] = {}
        for person, *fix in owner.execute(
            "SELECT f.subject, f.trajectory_id, extract(epoch FROM f.t)::float8, public.ST_X(f.position),"
            " public.ST_Y(f.position) FROM dbanon.fix f JOIN dbanon.run r USING (dataset_id) WHERE r.run_id = %s",
            [run_id],
        ):
            found.setdefault(person, []).append(tuple(fix))
        rows = owner.execute(
            "SELECT DISTINCT c.record_id, t.subject,"
            " extract(epoch FROM lower(c.period * coalesce(m.period, c.period)))::float8,"
            " extract(epoch FROM upper(c.period * coalesce(m.period, c.period)))::float8,"
            " public.ST_AsBinary(c.region) FROM dbanon.cloak c"
            " JOIN dbanon.membership m USING (run_id, record_id) JOIN dbanon.trajectory t USING (trajectory_id)"
            " WHERE c.run_id = %s AND (m.period IS NULL OR m.period && c.period)",
            [run_id],
        ).fetchall()
    fixes = {person: _sort_fixes(np.array(own), grid_s) for person, own in found.items()}
    untrue = []
    for record, person, start, end, region in rows:
        own = fixes[person]
        x, y = (axis[(own.t >= start) & (own.t < end)] for axis in (own.x, own.y))
        if holds == "instant":
            instants = np.arange(start, end, step_s or grid_s)
            try:
                x, y = align_fixes(own, instants, params.get("align", "last"), params.get("max_gap_s", 300))
            except AssertionError:  # no position
                x = y = np.array([np.inf])
        inside = shapely.intersects_xy(shapely.from_wkb(region), x, y)
        if not (inside.all() if holds == "instant" else inside.any()):
            untrue.append((record, person, start))
    return untrue


def _sort_fixes(found: np.ndarray, grid_s: int) -> Fixes:
    number, t, x, y = found.T
    slot = t // grid_s * grid_s
    order = np.lexsort((y, x, number, t, slot))
    return Fixes(number[order], slot[order], t[order], x[order], y[order])


def align_fixes(fixes: Fixes, instants: np.ndarray, align: str, max_gap_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Where a person is at instants, as docs/methods/tp-aware-inside.md has it under Alignment."""
    before = np.searchsorted(fixes.slot, instants, "right") - 1
    assert (before >= 0).all(), "a person who is published has a position"
    age, x, y = instants - fixes.slot[before], fixes.x[before], fixes.y[before]
    if align == "exact":
        assert (age == 0).all()
    if align == "last":
        assert (age <= max_gap_s).all()
    if align == "linear":
        after = np.minimum(before + 1, len(fixes.t) - 1)
        gap = fixes.slot[after] - fixes.slot[before]
        assert ((age == 0) | (gap > 0) & (gap <= max_gap_s)).all()
        part = age / np.maximum(gap, 1)
        x, y = x + (fixes.x[after] - x) * part, y + (fixes.y[after] - y) * part
    return x, y


def _is_there(stretches: list[Span], t: float) -> bool:
    return any(since <= t < until for since, until in stretches)


def _list_answered(track: Track, rows: list[Row], sent: list[tuple[float, Any]]) -> Iterator[Request]:
    """Give those of a person's requests that are in the rows of a record, where the person was then."""
    sent = [(t, content) for t, content in sent if rows[0][0] <= t < rows[-1][1]]
    for start, end, _, shown in rows:
        for t, content in sent if shown else ():
            if start <= t < end and content in shown:
                i = np.searchsorted(track.t, t, "right") - 1
                yield Request(track.person, t, json.dumps(content), track.x[i], track.y[i])


def _list_covered(
    fixes: dict[str, Fixes], paths: dict[tuple[str, Any, float], tuple[int, set[int]]], rows: dict[int, list[Row]]
) -> Iterator[Track]:
    """Give a person, or a day or window of one, a track: the fixes that a record covers; those of a group are alike."""
    for (person, *_), (record, of) in paths.items():
        own = fixes[person]
        kept = np.zeros(len(own.t), bool)
        for start, end, region, _ in rows[record]:
            then = np.flatnonzero((own.t >= start) & (own.t < end) & np.isin(own.path, list(of)))
            kept[then] |= shapely.intersects_xy(shapely.from_wkb(region), own.x[then], own.y[then])
        order = np.flatnonzero(kept)
        order = order[np.lexsort((own.y[order], own.x[order], own.t[order]))]
        yield Track(person, record, own.t[order], own.x[order], own.y[order])
