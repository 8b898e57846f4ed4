"""What cloaks of cells tell of the places in them, and what they lose: from arrays alone, whatever made them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.papers.semantic import growth
from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Bool, Cells, Float, Int, Trajectories
from dbanon.methods.semantic import Parameters, _graph

DIVERGENCE_TOLERANCE = 1e-9  # by which a divergence may exceed t
MIN_RETURNS = 4  # rows of somebody in a cell that make a place to which they return
REPLAYED_ROWS = 500
MAX_CELLS = 14  # of a region from all pairs of whose cells it is grown again


def compute_divergences(count: Int, total: Int) -> Float:
    """Divergence of the city's shares from those of regions, nats; `count` int64[r, q], `total` int64[q]."""
    number = count.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = count / number[:, None]
        terms = np.where(count > 0, share * np.log(share / (total / total.sum())), 0.0)
    return np.where(number > 0, terms.sum(axis=1), np.inf)


@dataclass(frozen=True, eq=False)
class Release:
    """The rows of a release, those of a group once, and the fixes in cells."""

    cells: Cells
    region: list[Int]  # distinct regions: the indices of their cells
    row_region: Int  # [c]: index into `region`
    span_s: Int  # [c]
    copies: Int  # [c]: records that have the row
    fix_row: Int  # [m]: the row of each fix, -1 where it is not published
    fix_cell: Int  # [m]
    subject: Int  # [m]
    fix_stay: Int  # [m]: the stay that the fix is of
    stay_cell: Int  # [p]
    stay_s: Int  # [p]

    @classmethod
    def from_cloaks(cls, cloaks: Cloaks, data: Trajectories, cells: Cells, params: Parameters) -> "Release":
        """Find the row of each fix of the data in a cell."""
        first = np.flatnonzero(np.diff(cloaks.member_record, prepend=0))
        # All records of a group have the same members, and rows: the first record of each stands for it.
        _, record, copies = np.unique(cloaks.member_trajectory[first], return_index=True, return_counts=True)
        group_of = np.full(len(data.trajectory_id), -1)
        number = np.full(len(first), -1)
        number[record] = np.arange(len(record))
        member = number[cloaks.member_record - 1]
        at = np.searchsorted(data.trajectory_id, cloaks.member_trajectory[member >= 0])
        group_of[at] = member[member >= 0]
        rows = np.concatenate([np.arange(cloaks.offset[one], cloaks.offset[one + 1]) for one in record])
        owner = np.repeat(np.arange(len(record)), np.diff(cloaks.offset)[record])
        start, end = cloaks.start[rows], cloaks.end[rows]
        path = np.repeat(np.arange(len(data.offset) - 1), np.diff(data.offset))
        inside = cells.fix_cell >= 0
        path, cell = path[inside], cells.fix_cell[inside]
        time = np.floor(data.t[inside] / data.grid_s).astype(np.int64) * data.grid_s
        low, wide = start.min(), max(end.max(), time.max() + 1) - start.min() + 1
        key = group_of[path] * wide + time - low
        row = np.searchsorted(owner * wide + start - low, key, side="right") - 1
        there = (group_of[path] >= 0) & (row >= 0)
        there[there] &= (owner[row[there]] == group_of[path[there]]) & (time[there] < end[row[there]])
        known = np.searchsorted(cells.cell_id, cloaks.regions.cell)
        sets = np.split(known, cloaks.regions.cell_offset[1:-1])
        distinct = {own.tobytes(): own for own in sets}
        place = {name: at for at, name in enumerate(distinct)}
        same = np.array([place[own.tobytes()] for own in sets])
        return cls(
            cells, list(distinct.values()), same[cloaks.region[rows]], end - start, copies[owner],
            np.where(there, row, -1), cell, data.subject[path], *_find_stays(data, path, time, cell, params.gap_s),
        )  # fmt: skip

    @cached_property
    def counts(self) -> Int:
        """Points of interest of each region: int64[r, q]."""
        return np.stack([self.cells.pois[own].sum(axis=0) for own in self.region])

    @cached_property
    def area(self) -> Float:
        """Area of each region, m2."""
        return np.array([self.cells.area_m2[own].sum() for own in self.region])

    def is_good(self, count: Int, l: int, t: float) -> Bool:  # noqa: E741 - the paper's name
        """Whether sets with these points of interest have l categories, and a divergence of t at most."""
        diverse = (count > 0).sum(axis=1) >= l
        return diverse & (
            (compute_divergences(count, self.cells.pois.sum(axis=0)) <= t + DIVERGENCE_TOLERANCE) | np.isinf(t)
        )


def _find_stays(data: Trajectories, path: Int, time: Int, cell: Int, gap_s: int) -> tuple[Int, Int, Int]:
    """Find the stays in one cell: that of each fix, and the cells and the seconds of all."""
    day = data.day if data.day is not None else np.zeros(len(data.subject), np.int64)
    _, unit = np.unique(np.stack([data.subject, day]), axis=1, return_inverse=True)
    own = unit.reshape(-1)[path]
    order = np.lexsort((time, own))
    own, at, here = own[order], time[order], cell[order]
    new = np.ones(len(order), bool)
    new[1:] = (own[1:] != own[:-1]) | (here[1:] != here[:-1]) | (at[1:] - at[:-1] > gap_s)
    first = np.flatnonzero(new)
    last = np.append(first, len(order))[1:] - 1
    stay = np.empty(len(order), np.int64)
    stay[order] = np.cumsum(new) - 1
    return stay, here[first], at[last] + data.grid_s - at[first]


# ---- what rows lose --------------------------------------------------------------------------------------------------


def measure_losses(release: Release, params: Parameters) -> dict[str, float]:
    """Measure rows, weighted by the fixes in them; theta is what the stay of a fix loses in its row."""
    there = release.fix_row >= 0
    row, cell = release.fix_row[there], release.fix_cell[there]
    area, span = release.area[release.row_region[row]], release.span_s[row]
    in_time = np.clip((span - release.stay_s[release.fix_stay[there]]) / params.full_loss_span_s, 0, 1)
    in_space = np.clip((area - release.cells.area_m2[cell]) / (params.full_loss_area_km2 * 1e6), 0, 1)
    return {
        "rows": int(release.copies.sum()),
        "side_m_median": float(np.median(np.sqrt(area))),
        "side_m_mean": float(np.sqrt(area).mean()),
        "span_s_median": float(np.median(span)),
        "theta": float((params.weight_time * in_time + (1 - params.weight_time) * in_space).mean()),
        "suppressed_percent": 100 * float(1 - there.mean()),
    }


def collect_distributions(release: Release) -> dict[str, Float]:
    """Give divergence, side and length of all rows, and of the stays that they are made of ("raw")."""
    total = release.cells.pois.sum(axis=0)
    row, own = np.repeat(np.arange(len(release.copies)), release.copies), release.stay_cell
    region = release.row_region[row]
    return {
        "kl": compute_divergences(release.counts, total)[region],
        "space_m": np.sqrt(release.area)[region],
        "time_s": release.span_s[row].astype(float),
        "raw_kl": compute_divergences(release.cells.pois, total)[own],
        "raw_space_m": np.sqrt(release.cells.area_m2)[own],
        "raw_time_s": release.stay_s.astype(float),
    }


def count_revealing(release: Release, l: int, t: float) -> dict[str, float]:  # noqa: E741 - the paper's name
    """Count the rows, and the fixes by their cells ("raw"), that have fewer categories than l or diverge by over t."""
    good = np.repeat(release.is_good(release.counts, l, t)[release.row_region], release.copies)
    raw = release.is_good(release.cells.pois, l, t)[release.fix_cell]
    return {"reveals_percent": 100 * float((~good).mean()), "raw_reveals_percent": 100 * float((~raw).mean())}


# ---- what regions tell together --------------------------------------------------------------------------------------


def count_classes(release: Release, params: Parameters) -> dict[str, float]:
    """Count the classes of cells that no region tells apart, and those that have not l and t."""
    regions = np.repeat(np.arange(len(release.region)), [len(own) for own in release.region])
    cell = np.concatenate(release.region)
    order = np.lexsort((regions, cell))
    begins = np.flatnonzero(np.diff(cell[order], prepend=-1))
    named: dict[bytes, int] = {}
    number = [named.setdefault(own.tobytes(), len(named)) for own in np.split(regions[order], begins[1:])]
    count = np.zeros((len(named), release.cells.pois.shape[1]), np.int64)
    np.add.at(count, np.array(number), release.cells.pois[cell[order][begins]])
    fails = ~release.is_good(count, *_choose_promise(params))
    return {"classes": len(named), "classes_fail": int(fails.sum())}


def _choose_promise(params: Parameters) -> tuple[int, float]:
    """Give l and t that hold against who replays a run."""
    l, t = (getattr(params, f"atom_{name}", None) for name in ("l", "t"))  # noqa: E741 - the paper's name
    return params.l if l is None else l, params.t if t is None else t


def intersect_returns(release: Release, params: Parameters) -> dict[str, float]:
    """Intersect the regions of the rows in which somebody was in the same cell, where these are four or more."""
    there = release.fix_row >= 0
    visits = np.stack([release.subject[there], release.fix_cell[there], release.fix_row[there]])
    visits = np.unique(visits, axis=1)
    begins = np.flatnonzero(np.diff(visits[:2], axis=1, prepend=-1).any(axis=0))
    left, count = [], []
    for rows in np.split(visits[2], begins[1:]):
        if len(rows) < MIN_RETURNS:
            continue
        regions = np.unique(release.row_region[rows])
        held = np.bincount(np.concatenate([release.region[one] for one in regions]))
        common = np.flatnonzero(held == len(regions))
        left.append(len(common))
        count.append(release.cells.pois[common].sum(axis=0))
    if not left:
        return {"places": 0}
    return {
        "places": len(left),
        "places_one_cell_percent": 100 * float((np.array(left) == 1).mean()),
        "places_fail_percent": 100 * float((~release.is_good(np.array(count), *_choose_promise(params))).mean()),
    }


# ---- replay ----------------------------------------------------------------------------------------------------------


def replay(release: Release, params: Parameters) -> dict[str, float]:
    """Grow the regions of rows again from one or two cells of theirs, by Algorithm 1.

    Where some such cells make exactly the region, the best guess is the cell in most of them: "right" where it holds a
    fix of the row, "chance" the share of the region's cells that hold one.
    """
    graph = _graph.build_graph(release.cells, params)
    work = growth.make_work(graph)
    rng = np.random.default_rng(1)
    rows = np.sort(rng.permutation(len(release.row_region))[:REPLAYED_ROWS])
    order = np.argsort(release.fix_row, kind="stable")
    first, end = (np.searchsorted(release.fix_row[order], rows, side=side) for side in ("left", "right"))
    right, chance = [], []
    for row, low, high in zip(rows, first, end, strict=True):
        own = release.region[release.row_region[row]]
        votes = np.zeros(len(own), np.int64)
        for seed in _find_seeds(graph, work, own):
            votes[seed] += 1
        if votes.any():
            visited = np.isin(own, release.fix_cell[order[low:high]])
            right.append(visited[np.argmax(votes)])
            chance.append(visited.mean())
    figures = {"replayed_percent": 100 * len(right) / len(rows)}
    if right:
        figures |= {"right_percent": 100 * float(np.mean(right)), "chance_percent": 100 * float(np.mean(chance))}
    return figures


def _find_seeds(graph: _graph.Graph, work: growth.Work, region: Int) -> Iterator[list[int]]:
    """Give the one or two cells, by their place in a region, from which it is made."""
    cells = region.astype(np.int32)
    most = int(graph.area[region].sum())
    pairs = combinations(range(len(cells)), 2) if len(cells) <= MAX_CELLS else ()
    for seed in [*((one,) for one in range(len(cells))), *pairs]:
        for a, b in {(seed[0], seed[-1]), (seed[-1], seed[0])}:
            size = growth.grow(graph, work, growth.connect(graph, work, cells[[a]], cells[[b]]), most)
            if size == len(cells) and np.array_equal(np.sort(work.cells[:size]), cells):
                yield list(set(seed))
                break


def count_atoms(cloaks: Any, release: Release) -> dict[str, float]:
    """Count the atoms of a run that has some, and the fixes in those of one cell and in the largest."""
    made = getattr(cloaks, "atoms", None)
    if made is None:
        return {}
    atom = np.empty(len(release.cells.cell_id), np.int64)
    atom[np.searchsorted(release.cells.cell_id, made.cell)] = made.atom
    own = atom[release.fix_cell[release.fix_row >= 0]]
    return {
        "atoms": int(atom.max()) + 1,
        "one_cell_percent": 100 * float((np.bincount(atom)[own] == 1).mean()),
        "largest_percent": 100 * float(np.bincount(own).max() / len(own)),
    }


def measure_all(cloaks: Cloaks, data: Trajectories, cells: Cells, params: Parameters) -> dict[str, float]:
    release = Release.from_cloaks(cloaks, data, cells, params)
    figures = measure_losses(release, params) | count_classes(release, params) | intersect_returns(release, params)
    return figures | replay(release, params) | count_atoms(cloaks, release)
