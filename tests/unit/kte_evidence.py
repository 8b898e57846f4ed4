"""Tiny runs of kte, published and tampered with in plain Python: sets and loops, so that they are plainly right."""

import copy
import dataclasses
import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dbanon.attacks import Evidence
from dbanon.attacks.kte import attack, read
from dbanon.base.trajectory import Trajectories
from tests.unit.attack_evidence import count_by_hour, gather_tables

Sample = tuple[int, int, int]
Piece = tuple[int, int, tuple[int, int, int, int]]

GRID_S, GRID_M = 60, 100.0
PARAMS = {
    "k": 2, "tau_s": 600, "leak_s": 300, "grid_s": GRID_S, "grid_m": GRID_M, "reuse": "never",
    "improve": True, "window_s": None, "since": None, "until": None,
}  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class Row:
    """A stored row, as plain as can be."""

    record: int
    seq: int
    start: float
    end: float
    bounds: list[float]
    crowd: int
    subjects: int
    rectangle: bool = True
    srid: int = 32610
    other_keys: int = 0

    @property
    def first(self) -> int:
        return int(self.start) // GRID_S

    @property
    def last(self) -> int:
        return int(self.end) // GRID_S - 1

    @property
    def box(self) -> tuple[int, ...]:
        return tuple(round(side / GRID_M) - (i >= 2) for i, side in enumerate(self.bounds))

    def place(self, first: int, last: int, box: Sequence[int]) -> None:
        """Move the row to other slots and cells."""
        self.start, self.end = float(first * GRID_S), float((last + 1) * GRID_S)
        self.bounds = [box[0] * GRID_M, box[1] * GRID_M, (box[2] + 1) * GRID_M, (box[3] + 1) * GRID_M]

    def holds(self, sample: Sample) -> bool:
        slot, x, y = sample
        x0, y0, x1, y1 = self.box
        return self.first <= slot <= self.last and x0 <= x <= x1 and y0 <= y <= y1


@dataclasses.dataclass(kw_only=True)
class Release:
    """What a run has stored: lists that a test may change before it asks for the evidence."""

    algorithm: str
    params: dict[str, Any]
    suppressed: Any
    data: Trajectories
    rows: list[Row]
    members: list[tuple[int, int, bool]]
    hiding: list[tuple[int, float, float, list[int]]]

    def copy(self) -> "Release":
        return dataclasses.replace(
            self, **{name: copy.deepcopy(getattr(self, name)) for name in ("params", "suppressed", "rows", "hiding")},
            members=list(self.members),
        )  # fmt: skip

    def of(self, record: int) -> list[Row]:
        return [row for row in self.rows if row.record == record]

    def records(self) -> list[int]:
        return sorted({row.record for row in self.rows})

    def subject(self, record: int) -> int:
        trajectory = next(path for owner, path, _ in self.members if owner == record)
        return int(self.data.subject[self.data.trajectory_id == trajectory][0])

    def record(self, subject: int) -> int:
        return next(record for record in self.records() if self.subject(record) == subject)

    def samples(self) -> dict[int, set[Sample]]:
        """What the data say of each subject."""
        found: dict[int, set[Sample]] = {}
        data = self.data
        for i, subject in enumerate(data.subject.tolist()):
            for at in range(data.offset[i], data.offset[i + 1]):
                place = (math.floor(v / side) for v, side in ((data.x[at], GRID_M), (data.y[at], GRID_M)))
                found.setdefault(subject, set()).add((math.floor(data.t[at] / GRID_S), *place))
        return found

    def make_evidence(self) -> Evidence:
        return Evidence(
            method="kte", algorithm=self.algorithm, params=self.params, suppressed=self.suppressed,
            trajectories=self.data, **gather_tables(self.rows, self.members, self.hiding),
            region_bounds=np.array([row.bounds for row in self.rows], np.float64).reshape(-1, 4),
            period_start_s=np.array([row.start for row in self.rows]),
            period_end_s=np.array([row.end for row in self.rows]),
        )  # fmt: skip


def find_broken(release: Release) -> set[str]:
    """Attack, see that the verdict is whole and names nobody, and give the clauses that broke."""
    verdict = attack(read(release.make_evidence(), None))
    assert verdict.attack == "kte"
    assert verdict.passed == all(clause.passed for clause in verdict.clauses)
    assert all(clause.passed == (clause.violations == 0) for clause in verdict.clauses)
    json.dumps(dict(verdict.figures), allow_nan=False)
    for clause in verdict.clauses:
        assert clause.sentence.endswith(".")
        assert not any(number in clause.sentence for number in ("700", "900"))
    return {clause.name for clause in verdict.clauses if not clause.passed}


def make_trajectories(world: Mapping[int, Iterable[Sample]], rng: random.Random) -> Trajectories:
    """Put fixes anywhere in their slots and cells, some twice, each subject's in one to three trajectories."""
    paths = []
    for subject, own in world.items():
        parts = [[] for _ in range(rng.randint(1, 3))]
        for slot, x, y in own:
            for part in rng.sample(parts, rng.randint(1, len(parts))):
                t = slot * GRID_S + rng.randrange(GRID_S) + rng.random() / 2
                part.append((t, (x + rng.random()) * GRID_M, (y + rng.random()) * GRID_M))
        paths += [(subject, sorted(part)) for part in parts if part]
    rng.shuffle(paths)
    flat = np.array([fix for _, path in paths for fix in path])
    return Trajectories(
        trajectory_id=np.sort(np.array(rng.sample(range(700_000, 701_000), len(paths)))),
        subject=np.array([subject for subject, _ in paths], np.int64),
        offset=np.cumsum([0, *(len(path) for _, path in paths)]),
        t=flat[:, 0].copy(), x=flat[:, 1].copy(), y=flat[:, 2].copy(), srid=32610, grid_m=50.0, grid_s=30,
    )  # fmt: skip


def merge_samples(inputs: Sequence[Iterable[Sample]]) -> list[Piece]:
    """Merge samples of several subjects: a piece ends where it has some of each, and so has what is left."""
    inputs = [set(own) for own in inputs]
    pieces, begin = [], None
    for slot in sorted({sample[0] for own in inputs for sample in own}):
        begin = slot if begin is None else begin
        now = [[s for s in own if begin <= s[0] <= slot] for own in inputs]
        rest = [[s for s in own if s[0] > slot] for own in inputs]
        if all(now) and (all(rest) or not any(rest)):
            xs, ys = ([s[axis] for own in now for s in own] for axis in (1, 2))
            pieces.append((begin, slot, (min(xs), min(ys), max(xs), max(ys))))
            begin = None
    assert begin is None
    return pieces


class DrawError(Exception):
    """No hiding sets could be drawn; whom to leave out."""


class Publisher:
    """Publishes a world by kte-hide, in plain sets; `careless` names what it leaves undone.

    any_present
        Hides subjects among all who have samples in a window, in the same epochs or not.
    not_closed
        Suppresses and draws window by window, as the paper's Algorithm 2 does, and does not form them anew.
    no_silence
        Lets fewer than k say nothing.
    no_ends
        Hides nobody in windows that reach beyond the data: in the first and last epoch in one window alone.
    united
        Draws one set less a window than k - 1, and counts those of the next or previous window as well.
    reckless
        With `apart`, does not look at the leak.
    """

    def __init__(
        self, world: Mapping[int, Iterable[Sample]], params: Mapping[str, Any], rng: random.Random, *careless: str
    ) -> None:
        self.world = {subject: set(own) for subject, own in world.items()}
        self.params, self.rng, self.careless = {**PARAMS, **params}, rng, careless
        self.k, self.leak = self.params["k"], self.params["leak_s"] // GRID_S
        self.width = self.params["tau_s"] // self.params["leak_s"] + 1
        self.present = {u: {self.epoch(s) for s in own} for u, own in self.world.items()}
        epochs = set().union(*self.present.values())
        self.epochs = range(min(epochs), max(epochs) + 1)
        # Beyond both ends, so that each epoch is in as many windows; one where it holds all.
        beyond = self.width - 1 if max(epochs) - min(epochs) >= self.width and "no_ends" not in careless else 0
        self.windows = range(min(epochs) - beyond, max(min(epochs), max(epochs) - self.width + 1 + beyond) + 1)
        self.seen = {u: set(own) for u, own in self.present.items()}
        self.why: dict[tuple[int, int], str] = {}

    def epoch(self, sample: Sample) -> int:
        return sample[0] // self.leak

    def span(self, window: int) -> set[int]:
        return set(range(window, window + self.width))

    def suppress(self, subject: int, window: int, reason: str) -> None:
        for epoch in self.present[subject] & self.span(window):
            self.why[subject, epoch] = reason
        self.present[subject] -= self.span(window)

    def classes(self, window: int) -> list[list[int]]:
        """Group who is published in the window by the epochs in which."""
        groups: dict[frozenset[int], list[int]] = {}
        for subject, epochs in sorted(self.present.items()):
            there = frozenset(epochs & self.span(window))
            if there:
                groups.setdefault(frozenset() if "any_present" in self.careless else there, []).append(subject)
        return list(groups.values())

    def once(self) -> dict[tuple[int, int], set[int]]:
        """Suppress and draw in each window, as if nothing suppressed later mattered."""
        sets: dict[tuple[int, int], set[int]] = {}
        for window in self.windows:
            for group in self.classes(window):
                drawn = copy.deepcopy(sets)
                try:
                    for _ in range(self.k - 1):
                        self.match(group, window, drawn)
                    sets = drawn
                except DrawError:
                    for subject in group:
                        self.suppress(subject, window, "few_alike")
        return {key: others for key, others in sets.items() if self.present[key[0]] & self.span(key[1])}

    def close(self) -> None:
        """Suppress until everybody is among k in every window, speaking or silent."""
        changed = True
        while changed:
            changed = False
            for window in self.windows:
                for group in self.classes(window):
                    if len(group) < self.k:
                        changed = True
                        for subject in group:
                            self.suppress(subject, window, "few_alike")
                published = [u for u in self.present if self.present[u]]
                speaking = [u for u in published if self.present[u] & self.span(window)]
                if "no_silence" not in self.careless and 0 < len(published) - len(speaking) < self.k and speaking:
                    changed = True
                    self.suppress(self.rng.choice(speaking), window, "silence")

    def draw(self) -> dict[tuple[int, int], set[int]]:
        """Draw the others of each (owner, window)."""
        sets: dict[tuple[int, int], set[int]] = {}
        for window in self.windows:
            for group in self.classes(window):
                for _ in range(self.k - 1 - ("united" in self.careless)):
                    self.match(group, window, sets)
        if self.params["reuse"] == "apart" and "reckless" not in self.careless and has_leak(sets, self.width):
            raise DrawError(self.rng.choice(list(sets)))
        return sets

    def match(self, group: list[int], window: int, sets: dict[tuple[int, int], set[int]]) -> None:
        """Give everybody in the group one more other, each other once (augmenting paths)."""

        def allowed(owner: int, other: int) -> bool:
            if owner == other or other in sets.get((owner, window), ()):
                return False
            before = [m for m in self.windows if m != window and other in sets.get((owner, m), ())]
            return not before or (self.params["reuse"] == "apart" and max(before) + self.width < window)

        taken: dict[int, int] = {}

        def place(owner: int, tried: set[int]) -> bool:
            for other in self.rng.sample(group, len(group)):
                if allowed(owner, other) and other not in tried:
                    tried.add(other)
                    if other not in taken or place(taken[other], tried):
                        taken[other] = owner
                        return True
            return False

        for owner in self.rng.sample(group, len(group)):
            if not place(owner, set()):
                raise DrawError((self.rng.choice(group), window))
        for other, owner in taken.items():
            sets.setdefault((owner, window), set()).add(other)

    def sets(self) -> dict[tuple[int, int], set[int]]:
        if "not_closed" in self.careless:
            return self.once()
        for _ in range(300):
            self.close()
            try:
                for attempt in range(8):
                    try:
                        return self.draw()
                    except DrawError:
                        if attempt == 7:
                            raise
            except DrawError as failed:
                self.suppress(*failed.args[0], "reuse")
        raise AssertionError

    def publish(self) -> Release | None:
        """Publish, or give None where nobody is left."""
        sets = self.sets()
        if not any(self.present.values()):
            return None
        published = sorted(u for u in self.present if self.present[u])
        data = make_trajectories(self.world, self.rng)
        record = dict(zip(published, self.rng.sample(range(900_000, 901_000), len(published)), strict=True))
        rows = []
        for subject in self.rng.sample(published, len(published)):
            pieces = [piece for epoch in sorted(self.present[subject]) for piece in self.merge(subject, epoch, sets)]
            rows += make_rows(record[subject], pieces, self.k, 1)
        stated = self.stated(sets)
        return Release(
            algorithm="kte-hide", params=dict(self.params), suppressed=self.suppressed(), data=data, rows=rows,
            members=[
                (record[s], t, True)
                for t, s in zip(data.trajectory_id.tolist(), data.subject.tolist(), strict=True)
                if s in record
            ],
            hiding=[self.entry(owner, window, others, record) for (owner, window), others in stated.items()],
        )  # fmt: skip

    def merge(self, subject: int, epoch: int, sets: Mapping[tuple[int, int], set[int]]) -> list[Piece]:
        who = {subject}
        for window in range(epoch - self.width + 1, epoch + 1):
            who |= sets.get((subject, window), set())
        return merge_samples([self.published(u, epoch) for u in who if epoch in self.present[u]])

    def published(self, subject: int, epoch: int) -> set[Sample]:
        return {s for s in self.world[subject] if self.epoch(s) == epoch}

    def stated(self, sets: dict[tuple[int, int], set[int]]) -> dict[tuple[int, int], set[int]]:
        if "united" not in self.careless:
            return sets
        full = {}
        for (owner, window), others in sets.items():
            beside = [sets.get((owner, m), set()) - others for m in (window + 1, window - 1)]
            full[owner, window] = others | set(sorted(beside[0] or beside[1])[:1])
        return full

    def entry(
        self, owner: int, window: int, others: set[int], record: Mapping[int, int]
    ) -> tuple[int, float, float, list[int]]:
        start = float(window * self.params["leak_s"])
        end = start + self.params["tau_s"] + self.params["leak_s"]
        return record[owner], start, end, sorted(record[other] for other in others if other in record)

    def suppressed(self) -> dict[str, Any]:
        samples: dict[str, int] = {}
        subjects: dict[str, int] = {}
        for (subject, epoch), reason in self.why.items():
            samples[reason] = samples.get(reason, 0) + len(self.published(subject, epoch))
        for subject in self.world:
            if not self.present[subject]:
                reason = self.why[subject, max(self.seen[subject])]
                subjects[reason] = subjects.get(reason, 0) + 1
        windows = []
        for epoch in self.epochs:
            reasons = [self.why[u, epoch] for u in self.world if (u, epoch) in self.why]
            windows.append((
                epoch * self.params["leak_s"],
                sum(epoch in epochs for epochs in self.seen.values()),
                sum(epoch in epochs for epochs in self.present.values()),
                {reason: reasons.count(reason) for reason in reasons},
            ))  # fmt: skip
        return {"samples": samples, "subjects": subjects, "by_hour": count_by_hour(windows)}


def has_leak(sets: Mapping[tuple[int, int], set[int]], width: int) -> bool:
    """Whether all who picked a subject in a window carry it again in an epoch outside, in plain loops."""
    carried: dict[tuple[int, int], set[int]] = {}
    for (owner, window), others in sets.items():
        for other in others:
            carried.setdefault((owner, other), set()).update(range(window, window + width))
    for other, window in {(other, window) for (_, window), others in sets.items() for other in others}:
        owners = [o for (o, m), others in sets.items() if m == window and other in others]
        if set.intersection(*(carried[owner, other] for owner in owners)) - set(range(window, window + width)):
            return True
    return False


def make_rows(record: int, pieces: Sequence[Piece], crowd: int, subjects: int) -> list[Row]:
    """Write pieces as the rows of a record."""
    rows = []
    for seq, (first, last, box) in enumerate(pieces, 1):
        row = Row(record=record, seq=seq, start=0, end=1, bounds=[0, 0, 1, 1], crowd=crowd, subjects=subjects)
        row.place(first, last, box)
        rows.append(row)
    return rows


def publish_groups(
    world: Mapping[int, Iterable[Sample]], groups: Sequence[Sequence[int]], rng: random.Random, **params: Any
) -> Release:
    """Publish groups whose members have records that are all alike; all others are left over."""
    begin = min(s[0] for own in world.values() for s in own) * GRID_S
    return _publish(world, [(begin, world, groups)], rng, params)


def publish_windows(
    world: Mapping[int, Iterable[Sample]], rng: random.Random, *, k: int, window_s: int, **params: Any
) -> Release:
    """Publish groups of each window by itself, drawn at random; where fewer than k people are, nobody."""
    windows = []
    for window in sorted({s[0] * GRID_S // window_s for own in world.values() for s in own}):
        here = {u: {s for s in own if s[0] * GRID_S // window_s == window} for u, own in world.items()}
        here = {u: own for u, own in here.items() if own}
        people, count = rng.sample(list(here), len(here)), len(here) // k
        windows.append((window * window_s, here, [people[at::count] for at in range(count)]))
    return _publish(world, windows, rng, params | {"k": k, "window_s": window_s})


def _publish(
    world: Mapping[int, Iterable[Sample]],
    windows: Sequence[tuple[int, Mapping[int, Iterable[Sample]], Sequence[Sequence[int]]]],
    rng: random.Random,
    params: Mapping[str, Any],
) -> Release:
    """Publish groups of windows: of each its begin, the samples in it, and its groups."""
    data = make_trajectories(world, rng)
    of = dict(zip(data.trajectory_id.tolist(), data.subject.tolist(), strict=True))
    slots = {
        path: set((data.t[data.offset[at] : data.offset[at + 1]] // GRID_S).astype(int).tolist())
        for at, path in enumerate(data.trajectory_id.tolist())
    }
    copies = [(here, group) for _, here, groups in windows for group in groups for _ in group]
    rows, members, lost, hours = [], [], 0, []
    for record, (here, group) in zip(rng.sample(range(900_000, 901_000), len(copies)), copies, strict=True):
        rows += make_rows(record, merge_samples([here[u] for u in group]), len(group), 1)
        paths = [t for t, u in of.items() if u in group and slots[t] & {s[0] for s in here[u]}]
        members += [(record, path, True) for path in paths]
    for begin, here, groups in windows:
        left = [u for u in here if not any(u in group for group in groups)]
        lost += sum(len(set(here[u])) for u in left)
        hours.append((begin, len(here), len(here) - len(left), {"left_over": len(left)}))
    return Release(
        algorithm="k-merge", params=PARAMS | params, data=data, rows=rows, members=members, hiding=[],
        suppressed={
            "samples": {"left_over": lost},
            "subjects": {"left_over": sum(left["left_over"] for *_, left in hours)},
            "by_hour": count_by_hour(hours),
        },
    )  # fmt: skip


def draw_world(
    rng: random.Random, *, subjects: int, epochs: int, leak: int, cells: int = 4, quiet: float = 0.25, most: int = 3
) -> dict[int, set[Sample]]:
    """Make samples: each subject speaks in most epochs, a few times, near a few places."""
    world: dict[int, set[Sample]] = {}
    while len(world) < subjects:
        own = set()
        for epoch in range(epochs):
            if rng.random() >= quiet:
                for _ in range(rng.randint(1, most)):
                    own.add((epoch * leak + rng.randrange(leak), rng.randrange(cells), rng.randrange(cells) - 2))
        if own:
            world[len(world)] = {(slot + 1000 * leak, x, y) for slot, x, y in own}
    return world
