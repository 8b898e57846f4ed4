"""What readers learn over the windows of `k-merge`, beside `tp-aware`: a day of San Francisco's taxis.

``./dev bench benchmarks/windows.py [--k K ...] [--minutes M ...] [--windows N]``. Three tables:

- **following**: a reader knew all positions of a cab in one window, and looks for its group in the next three. The
  reader knows how taxis move (displacements of the same day, turned by where the cab was heading), that of k members
  about one touches each side of a row, and that each group has so many places. The column `plain` is a reader who
  weighs areas alone; `streets` one who also knows where cabs drive.
- **border**: a reader knows which groups are one person's on both sides of a border.
- **instants**: a reader knew a cab at some instants of some windows.

Groups are read from rows and members alone, so that any method whose records end with windows can be followed.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.k_merge import read_cabs
from dbanon.base import memory
from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS

SEED, DRAWS, CELL_M, STREET_M = 2017, 300, 100.0, 200.0
LAGS_S = np.array([60, 120, 180, 300, 600])
"""Displacements are learned for these times; between a last and a first row the nearest one counts."""


class Groups(NamedTuple):
    """The groups of one window: rows by group, members by group."""

    rows: list[np.ndarray]  # [n, 6] of each: start, end, xmin, ymin, xmax, ymax, in order of time
    members: list[np.ndarray]
    of: np.ndarray  # [people]: the group of each person, -1 for those without one


class Setting(NamedTuple):
    """A way to publish the day, and what came of it."""

    method: str
    k: int
    minutes: int
    groups: dict[int, Groups]

    @property
    def title(self) -> str:
        """Its row's first cell."""
        return f"{self.method}, k = {self.k}, {self.minutes} min"


class Motion(NamedTuple):
    """How cabs move: displacements after so long, in the frame of how they moved a minute before."""

    before_m: list[np.ndarray]  # by lag: [n] metres moved in the minute before
    along: list[np.ndarray]  # by lag: [n, 2] metres ahead and to the left; of cabs that stood, in any direction


def make_groups(cloaks: Cloaks, window_s: int, people: int) -> dict[int, Groups]:
    """Find the groups of each window: records with the same members."""
    start, end, bounds, record = cloaks.start, cloaks.end, cloaks.bounds, cloaks.record_id
    order = np.argsort(cloaks.member_record, kind="stable")
    cuts = np.searchsorted(cloaks.member_record[order], np.arange(1, len(cloaks.offset) + 1))
    first = np.searchsorted(record, np.arange(1, len(cloaks.offset) + 1))
    found: dict[int, dict[tuple[int, ...], int]] = {}
    for number in range(len(cloaks.offset) - 1):
        who = tuple(sorted(set(cloaks.member_trajectory[order[cuts[number] : cuts[number + 1]]].tolist())))
        found.setdefault(int(start[first[number]] // window_s), {}).setdefault(who, number)
    made = {}
    for window, groups in sorted(found.items()):
        rows = [
            np.column_stack([start[part], end[part], bounds[part]])
            for part in (slice(first[n], first[n + 1]) for n in groups.values())
        ]
        of = np.full(people, -1)
        for number, who in enumerate(groups):
            of[list(who)] = number
        made[window] = Groups(rows, [np.array(who) for who in groups], of)
    return made


def place(data: Trajectories, person: int, times: np.ndarray) -> np.ndarray:
    """Positions of a person at times, between the nearest fixes: [n, 2]."""
    part = slice(data.offset[person], data.offset[person + 1])
    return np.column_stack([np.interp(times, data.t[part], data.x[part]), np.interp(times, data.t[part], data.y[part])])


def learn_motion(data: Trajectories, rng: np.random.Generator) -> Motion:
    """Look how cabs move on, at random times of the day."""
    before_m, along = [], []
    for lag in LAGS_S:
        size, moved = [], []
        for person in range(data.subjects):
            own = data.t[data.offset[person] : data.offset[person + 1]]
            times = rng.choice(own, min(40, len(own)))
            was, now, then = (place(data, person, times + shift) for shift in (-60, 0, lag))
            u, w = now - was, then - now
            length = np.hypot(*u.T)
            turn = np.where(length > 20, np.arctan2(u[:, 1], u[:, 0]), rng.uniform(0, 2 * np.pi, len(u)))
            size.append(length)
            moved.append(rotate(w, -turn))
        before_m.append(np.concatenate(size))
        along.append(np.concatenate(moved))
    return Motion(before_m, along)


def rotate(vectors: np.ndarray, by: Any) -> np.ndarray:
    c, s = np.cos(by), np.sin(by)
    return np.stack([c * vectors[..., 0] - s * vectors[..., 1], s * vectors[..., 0] + c * vectors[..., 1]], -1)


def draw_next(motion: Motion, u: np.ndarray, lag_s: float, rng: np.random.Generator) -> np.ndarray:
    """Draw displacements after a cab moved by `u` in a minute: [DRAWS, 2]."""
    lag = int(np.abs(LAGS_S - lag_s).argmin())
    length = float(np.hypot(*u))
    near = np.argsort(np.abs(motion.before_m[lag] - length), kind="stable")[: 8 * DRAWS]
    drawn = motion.along[lag][rng.choice(near, DRAWS)]
    turn = np.arctan2(u[1], u[0]) if length > 20 else rng.uniform(0, 2 * np.pi, DRAWS)
    return rotate(drawn, turn)


def weigh(points: np.ndarray, boxes: np.ndarray, crowd: np.ndarray, reader: str, cell_m: float) -> np.ndarray:
    """Density of a member's place in each box, at each point: [points, groups].

    Sides are cells wide: of k members about one touches each, and the others are anywhere within.
    """
    x, y = points[:, 0, None], points[:, 1, None]
    x0, y0, x1, y1 = boxes.T
    inside = (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
    wide, high = np.maximum(x1 - x0, cell_m), np.maximum(y1 - y0, cell_m)
    uniform = inside / (wide * high)
    if reader == "plain":
        return uniform
    edges = [(x < x0 + cell_m) / high, (x > x1 - cell_m) / high, (y < y0 + cell_m) / wide, (y > y1 - cell_m) / wide]
    touched = inside * sum(edges) / cell_m
    return np.asarray(np.minimum(1 / crowd, 0.25) * touched + np.maximum(1 - 4 / crowd, 0.05) * uniform)


def balance(weights: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Scale weights so that rows and columns have their sums (Sinkhorn)."""
    scaled = weights + 1e-12 * weights.max() + 1e-300
    for _ in range(50):
        scaled *= (rows / scaled.sum(axis=1))[:, None]
        scaled *= columns * (rows.sum() / columns.sum()) / scaled.sum(axis=0)
    return scaled / scaled.sum(axis=1, keepdims=True)


class Follower:
    """A reader with a knowledge of motion, who follows people from window to window."""

    def __init__(self, data: Trajectories, setting: Setting, reader: str) -> None:
        self.data, self.groups, self.window_s, self.reader = data, setting.groups, setting.minutes * 60, reader
        # Rows of tp-aware hold at instants, the first at the border: there she is at her last fix, to the metre.
        self.at_border = setting.method == "tp-aware"
        self.cell_m = 1.0 if self.at_border else CELL_M
        self.rng = np.random.default_rng(SEED)
        self.motion = learn_motion(data, self.rng)
        cells = np.column_stack([data.x, data.y]) // STREET_M
        known, count = np.unique(cells[:, 0] * 1e6 + cells[:, 1], return_counts=True)
        share = count / count.mean()

        def streets(points: np.ndarray) -> np.ndarray:
            code = (points[:, 0] // STREET_M) * 1e6 + points[:, 1] // STREET_M
            at = np.minimum(np.searchsorted(known, code), len(known) - 1)
            return np.where(known[at] == code, share[at], 0.01)

        self.streets = streets

    def crowds(self, window: int) -> np.ndarray:
        """People of each group."""
        return np.array([len(who) for who in self.groups[window].members], float)

    def first_rows(self, window: int) -> np.ndarray:
        """The first row of each group: [groups, 6]."""
        return np.array([rows[0] for rows in self.groups[window].rows])

    def weigh_groups(self, window: int) -> np.ndarray:
        """Weigh each group of the next window for each group of this one, from rows alone: [groups, groups]."""
        into = self.first_rows(window + 1)
        weights = []
        for rows in self.groups[window].rows:
            box = rows[-1, 2:]
            points = self.rng.uniform(box[:2], box[2:], (DRAWS, 2))
            lag = max(float(np.median(into[:, 0])) - float(rows[-1, 0]), 60)
            at = int(np.abs(LAGS_S - lag).argmin())
            drawn = self.motion.along[at][self.rng.choice(len(self.motion.along[at]), DRAWS)]
            points = points + rotate(drawn, self.rng.uniform(0, 2 * np.pi, DRAWS))
            weights.append(self.weigh(points, window + 1))
        return np.array(weights)

    def look(self, person: int, window: int) -> np.ndarray:
        """Weigh each group of the next window for a person whose positions up to the border are known: [groups]."""
        part = slice(self.data.offset[person], self.data.offset[person + 1])
        t = self.data.t[part]
        own = t[(t >= window * self.window_s) & (t < (window + 1) * self.window_s)]
        if not len(own):
            return np.ones(len(self.groups[window + 1].rows))
        was, now = place(self.data, person, np.array([max(own[-1] - 60, own[0]), own[-1]]))
        if self.at_border:
            return self.weigh(now[None], window + 1)
        lag = max(float(np.median(self.first_rows(window + 1)[:, 0])) + 30 - own[-1], 30)
        points = now + draw_next(self.motion, now - was, lag, self.rng)
        return self.weigh(points, window + 1)

    def weigh(self, points: np.ndarray, window: int) -> np.ndarray:
        """Weigh each group by its first row, for a person at one of the points: [groups]."""
        density = weigh(points, self.first_rows(window)[:, 2:], self.crowds(window), self.reader, self.cell_m)
        shares = self.streets(points)[:, None] if self.reader == "streets" else 1
        return np.asarray((density * shares).mean(axis=0))

    def follow(self, window: int) -> tuple[list[np.ndarray], float, np.ndarray]:
        """Follow all who are in four windows in a row: whether the best guess is right in the next three, [3][people].

        With it the share right if everybody was known to the border, and how many people hold nine tenths in the
        next one and the one after, [2].
        """
        groups = [self.groups[window + n] for n in range(4)]
        who = np.flatnonzero(np.all([g.of >= 0 for g in groups[:2]], axis=0))
        weights = np.array([self.look(person, window) for person in who])
        crowds = [self.crowds(window + n) for n in range(4)]
        raw = [self.weigh_groups(window + n) for n in range(3)]
        steps = [balance(each, crowds[n], crowds[n + 1]) for n, each in enumerate(raw)]
        # Rows alone say how many may come into each group: where many may, one of them is less likely hers.
        belief = weights * crowds[1] / (crowds[0] @ raw[0] + 1e-12)
        belief /= np.maximum(belief.sum(axis=1, keepdims=True), 1e-300)
        right, held = [], []
        for n in range(3):
            if n:
                belief = belief @ steps[n]
            known = groups[n + 1].of[who]
            guess = belief.argmax(axis=1)
            right.append((guess == known)[known >= 0])
            if n < 2:
                held.append(count_holding(belief, crowds[n + 1]))
        together = balance(weights, np.ones(len(who)), crowds[1])
        return right, float((together.argmax(axis=1) == groups[1].of[who]).mean()), np.array(held)


def count_holding(belief: np.ndarray, crowd: np.ndarray) -> float:
    """How many people are in the groups that hold nine tenths of a belief: the median."""
    order = np.argsort(-belief, axis=1)
    total = np.cumsum(np.take_along_axis(belief, order, 1), axis=1)
    many = np.cumsum(crowd[order], axis=1)
    at = (total < 0.9 * total[:, -1:]).sum(axis=1)
    return float(np.median(many[np.arange(len(belief)), np.minimum(at, len(crowd) - 1)]))


def compute(data: Trajectories, name: str, k: int, minutes: int) -> tuple[dict[int, Groups], Cloaks, float]:
    """Publish the day in windows; the groups of each, the cloaks, and seconds."""
    family = METHODS["tp-aware" if name == "tp-aware" else "kte"]
    algorithm = "traj-anon" if name == "tp-aware" else "k-merge"
    given: dict[str, Any] = {"window_s": minutes * 60}
    if name == "tp-aware":
        start = int(-(-(data.t.min() + 300) // (minutes * 60)) * minutes * 60)
        given = {"instants": minutes, "start": start, "guests": False}
    if name == "the day":
        given = {}
    params = family.parse({"k": k, **given}, algorithm)
    family.prepare(algorithm, params)
    began = time.perf_counter()
    cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(SEED))
    seconds = time.perf_counter() - began
    window_s = 86_400 * 400 if name == "the day" else minutes * 60
    return make_groups(cloaks, window_s, data.subjects), cloaks, seconds


def count_person_windows(data: Trajectories, window_s: int) -> int:
    who = np.repeat(np.arange(data.subjects), np.diff(data.offset))
    return len(np.unique(np.column_stack([who, data.t // window_s]), axis=0))


def print_cost(data: Trajectories, name: str, k: int, minutes: int) -> Setting:
    groups, cloaks, seconds = compute(data, name, k, minutes)
    wide, high = (cloaks.bounds[:, 2:] - cloaks.bounds[:, :2]).T
    longer = np.quantile(np.maximum(wide, high), [0.5, 0.9]) / 1000
    made = Setting(name, k, minutes, groups)
    held = sum(len(who) for one in groups.values() for who in one.members)
    of = data.subjects if name == "the day" else count_person_windows(data, minutes * 60)
    row_s = float((cloaks.end - cloaks.start).mean())
    print(
        f"| {made.title} | {held:,} of {of:,} | {longer[0]:.1f} ({longer[1]:.1f}) | {row_s:.0f} "
        f"| {seconds:.1f} | {memory.measure_peak_mb():,.0f} |",
        flush=True,
    )
    return made


def print_following(data: Trajectories, setting: Setting, most: int) -> None:
    groups = setting.groups
    starts = [w for w in groups if all(w + n in groups for n in range(4))]
    starts = starts[:: max(len(starts) // most, 1)][:most]
    cells = []
    for reader in ("plain", "sides", "streets"):
        follower = Follower(data, setting, reader)
        told = [follower.follow(window) for window in starts]
        right = [100 * np.concatenate([one[0][n] for one in told]).mean() for n in range(3)]
        if reader == "sides":
            cells.append(", ".join(f"{share:.1f}" for share in right))
            known, held = 100 * np.mean([one[1] for one in told]), np.mean([one[2] for one in told], axis=0)
        else:
            cells.append(f"{right[0]:.1f}")
    sizes = [np.mean([len(w) / np.sum(groups[s + 1].of >= 0) for w in groups[s + 1].members]) for s in starts]
    print(
        f"| {setting.title} | {cells[0]} | {cells[1]} | {cells[2]} | {100 * np.mean(sizes):.1f} "
        f"| {known:.1f} | {held[0]:.0f}, {held[1]:.0f} |",
        flush=True,
    )


def print_border(data: Trajectories, setting: Setting) -> None:
    """Where somebody is at a border, by the last region, by the first one, and by both."""
    one, both, few, looked, groups = [], [], 0, 0, setting.groups
    for window, ours in groups.items():
        if window + 1 not in groups:
            continue
        edge = (window + 1) * setting.minutes * 60.0
        there = np.array([place(data, person, np.array([edge]))[0] for person in range(data.subjects)])
        theirs = groups[window + 1]
        for person in np.flatnonzero((ours.of >= 0) & (theirs.of >= 0)):
            a, b = ours.rows[ours.of[person]][-1, 2:], theirs.rows[theirs.of[person]][0, 2:]
            low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
            one.append(max(a[2] - a[0], a[3] - a[1]))
            both.append(max(float((high - low).max()), 0.0))
            few += np.sum(np.all((there >= low - 50) & (there <= high + 50), axis=1)) < setting.k
            looked += 1
    print(
        f"| {setting.title} | {np.median(one):,.0f} | {np.median(both):,.0f} | {100 * few / looked:.0f} |",
        flush=True,
    )


def find_fitting(groups: Groups, places: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Which groups a person may be in who was at these places: [groups]."""
    fits = np.ones(len(groups.rows), bool)
    for number, rows in enumerate(groups.rows):
        at = np.searchsorted(rows[:, 0], times, "right") - 1
        row = rows[np.maximum(at, 0)]
        during = (at >= 0) & (times < row[:, 1])
        covered = np.all((places >= row[:, 2:4]) & (places <= row[:, 4:6]), axis=1)
        fits[number] = np.all(covered | ~during)
    return fits


def guess_place(groups: Groups, fits: np.ndarray, known: np.ndarray, nearest: np.ndarray, other: float) -> np.ndarray:
    """Guess where a person was at another time: near the place known, within rows of the groups that fit.

    A group weighs less the larger its row at the known time is, and the further she would have had to go.
    """
    places, weights = [], []
    for rows in (groups.rows[number] for number in np.flatnonzero(fits)):
        then, at = (rows[max(np.searchsorted(rows[:, 0], time, "right") - 1, 0), 2:] for time in (known[0], other))
        places.append(np.clip(nearest, at[:2], at[2:]))
        far = np.hypot(*(places[-1] - nearest)) / (2 * abs(other - known[0]) + 100)
        weights.append(np.exp(-far) / np.prod(np.maximum(then[2:] - then[:2], CELL_M)))
    return np.average(places, axis=0, weights=weights)


def print_instants(data: Trajectories, setting: Setting, instants: int, windows: int) -> None:
    groups, length_s = setting.groups, setting.minutes * 60
    rng = np.random.default_rng(SEED)
    starts = [w for w in groups if all(w + n in groups for n in range(windows))]
    fitting, people, alone, without, released = [], [], [], [], []
    for _ in range(300):
        start = int(rng.choice(starts))
        chain = [groups[start + n] for n in range(windows)]
        who = np.flatnonzero(np.all([one.of >= 0 for one in chain], axis=0))
        if not len(who):
            continue
        person, fits = int(rng.choice(who)), np.ones(data.subjects, bool)
        part = slice(data.offset[person], data.offset[person + 1])
        for n, one in enumerate(chain):
            begin, end = (start + n) * length_s, (start + n + 1) * length_s
            own = data.t[part][(data.t[part] >= begin) & (data.t[part] < end)]
            known = np.sort(rng.choice(own, min(instants, len(own)), replace=False))
            candidates = find_fitting(one, place(data, person, known), known)
            candidates[one.of[person]] = True
            fitting.append(candidates.sum())
            fits &= (one.of >= 0) & candidates[np.maximum(one.of, 0)]
            other = rng.choice(own)
            seen = place(data, person, known)
            nearest = np.array([np.interp(other, known, seen[:, axis]) for axis in (0, 1)])
            known = known[[np.abs(known - other).argmin()]]
            true = place(data, person, np.array([other]))[0]
            guess = guess_place(one, candidates, known, nearest, other)
            without.append(np.hypot(*(nearest - true)))
            released.append(np.hypot(*(guess - true)))
        people.append(fits.sum())
        alone.append(fits.sum() == 1)
    print(
        f"| {setting.title} | {instants} x {windows} | {np.median(fitting):.1f} | {np.median(people):.0f} "
        f"({100 * np.mean(alone):.0f} %) | {np.median(without):,.0f}, {np.median(released):,.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, nargs="+", default=[2, 5, 10])
    parser.add_argument("--minutes", type=int, nargs="+", default=[15, 30, 60, 120])
    parser.add_argument("--windows", type=int, default=12, help="how many windows are begun with")
    asked = parser.parse_args()
    data = read_cabs()
    settings = [("k-merge", 5, minutes) for minutes in asked.minutes]
    settings += [("k-merge", k, 30) for k in asked.k if k != 5] + [("tp-aware", 5, 30)]
    print("| | in it | longer side, median (90 %), km | row, s | compute, s | peak MB |\n|---|---|---|---|---|---|")
    for k in asked.k:
        print_cost(data, "the day", k, 1440)
    made = [print_cost(data, *setting) for setting in settings]
    print("\n| | plain | right in the next three, % | streets | chance | everybody known | hold 90 % |")
    print("|---|---|---|---|---|---|---|")
    for setting in made:
        print_following(data, setting, asked.windows)
    print("\n| | one region, m | both, m | under k cabs there, % |\n|---|---|---|---|")
    for setting in made:
        print_border(data, setting)
    print("\n| | instants x windows | fitting groups | people fitting all (alone) | error without, with, m |")
    print("|---|---|---|---|---|")
    for setting in made:
        if setting.minutes == 30:
            for instants, windows in ((1, 1), (1, 4), (3, 1), (3, 4)):
                print_instants(data, setting, instants, windows)


if __name__ == "__main__":
    main()
