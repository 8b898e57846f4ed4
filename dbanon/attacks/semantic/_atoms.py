"""What an adversary learns who plays the run again: which cells regions tell apart, and what a region depends on.

Cells that no region tells apart form a class: nobody who reads the regions can say in which of them somebody was, by
whatever rule the regions were made. Invariant: each cell is in one class, and each region is a union of classes.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dbanon.attacks.semantic._fixes import Fixes
from dbanon.attacks.semantic._groups import Groups
from dbanon.attacks.semantic._regions import Regions, count_pois, is_far, mark_revealing, measure_divergence
from dbanon.attacks.semantic._run_statements import Rules
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Cells, Int, Int32

_MAX_LISTED_ATOMS = 50  # of how many atoms a city is said to allow no more


@dataclass(frozen=True, kw_only=True, eq=False)
class CellSets:
    """Sets of cells, each cell in one: classes, or the atoms that the run stored."""

    set_of_cell: Int  # [c]: from 0 on
    size: Int  # [p]: cells of each
    held: Bool  # [p]: whether a region holds a cell of it
    weak: Bool  # [p]: whether one that is held breaks the promise to who plays the run again


def measure_sets(set_of_cell: Int, regions: Regions, cells: Cells, rules: Rules) -> CellSets:
    """Look at sets of cells; those that no region holds tell nothing, and may be as they like.

    `set_of_cell` (int64[c]): the set of each cell, from 0 on, none empty.
    """
    number = int(set_of_cell.max()) + 1
    pois = count_pois(set_of_cell, np.arange(len(set_of_cell)), cells, number)
    held = np.bincount(set_of_cell[regions.cell], minlength=number) > 0
    kl = measure_divergence(pois, cells.pois.sum(axis=0))
    weak = held & mark_revealing((pois > 0).sum(axis=1), kl, rules.atom_l, rules.atom_t)
    return CellSets(set_of_cell=set_of_cell, size=np.bincount(set_of_cell), held=held, weak=weak)


def number_classes(regions: Regions) -> Int:
    """Number the classes of cells that no region tells apart: int64[c], in O(cells of regions) time."""
    label = np.zeros(regions.width, np.int64)
    _tell_apart(regions.low, regions.cell, label)
    return label


def prepare() -> None:
    """Compile for the types of `number_classes`."""
    _tell_apart(np.zeros(1, np.int64), np.empty(0, np.int32), np.zeros(1, np.int64))


@compile_kernel
def _tell_apart(low: Int, cell: Int32, label: Int) -> None:
    """Give cells the same label if the same regions hold them; all have label 0 at first."""
    # Kept true: the labels are 0 to number - 1, none without a cell, and tell apart what the regions before r do.
    width, number = len(label), 1
    size, met = np.zeros(width, np.int64), np.zeros(width, np.int64)
    apart, parent = np.full(width, -1), np.empty(width, np.int64)
    size[0] = width
    for r in range(len(low) - 1):
        for c in cell[low[r] : low[r + 1]]:
            met[label[c]] += 1
        # The cells of this region leave each class of which it does not hold all.
        first = number
        for c in cell[low[r] : low[r + 1]]:
            k = label[c]
            if met[k] < size[k]:
                if apart[k] < 0:
                    apart[k], parent[number], size[number] = number, k, met[k]
                    number += 1
                label[c] = apart[k]
        for n in range(first, number):
            size[parent[n]] -= size[n]
            apart[parent[n]], met[parent[n]] = -1, 0
        for c in cell[low[r] : low[r + 1]]:
            met[label[c]] = 0


def mark_loose(classes: CellSets, region: Int, regions: Regions, fate: Fixes) -> Bool:
    """Say which rows show a class in which no fix of theirs lies: bool[c]; `region` is that of each row."""
    number, head = len(classes.size), np.zeros(len(classes.set_of_cell), bool)
    head[np.unique(classes.set_of_cell, return_index=True)[1]] = True
    # A region is a union of classes, so it shows those of which it holds the first cell.
    shown = _count(head, regions)[region]
    key = sort_distinct(fate.row[fate.covered] * number + classes.set_of_cell[fate.cell[fate.covered]])
    return np.asarray(np.bincount(key // number, minlength=len(region)) < shown)


def mark_torn(atoms: CellSets, classes: CellSets, region: Int, regions: Regions) -> Bool:
    """Say which rows hold a part of an atom, or one that breaks its promise: bool[c]."""
    number = len(atoms.size)
    of_classes = sort_distinct(atoms.set_of_cell * len(classes.size) + classes.set_of_cell) // len(classes.size)
    apart = np.bincount(of_classes, minlength=number) > 1
    # Only of atoms in more than one class a region may hold a part.
    at = np.flatnonzero(apart[atoms.set_of_cell][regions.cell])
    owner = np.searchsorted(regions.low, at, side="right") - 1
    key, many = np.unique(owner * number + atoms.set_of_cell[regions.cell[at]], return_counts=True)
    bad = _count(atoms.weak[atoms.set_of_cell], regions) > 0
    bad[key[many < atoms.size[key % number]] // number] = True
    return np.asarray(bad[region])


def mark_unlike(atoms: CellSets, region: Int, regions: Regions, fate: Fixes) -> Bool:
    """Say which rows hold other cells than the first one with fixes in the same atoms: bool[c]."""
    number, other = len(atoms.size), np.zeros(len(region), bool)
    key = sort_distinct(fate.row * number + atoms.set_of_cell[fate.cell])
    row, atom = key // number, key % number
    low = np.searchsorted(row, np.arange(len(region) + 1))
    # Regions may differ in crowd alone.
    met: dict[bytes, int] = {}
    cells = np.array([met.setdefault(regions.cell[i:j].tobytes(), len(met)) for i, j in pairwise(regions.low)])[region]
    first: dict[bytes, int] = {}
    for at in np.flatnonzero(np.diff(low)):
        other[at] = first.setdefault(atom[low[at] : low[at + 1]].tobytes(), cells[at]) != cells[at]
    return other


def _count(flag: Bool, regions: Regions) -> Int:
    """Count the cells with a flag that each region holds: int64[r]."""
    return np.diff(np.searchsorted(np.flatnonzero(flag[regions.cell]), regions.low))


def measure_atoms(atoms: CellSets, grouped: Groups, fate: Fixes, cells: Cells, rules: Rules) -> dict[str, int | float]:
    """Measure what the clauses do not: where atoms are so small, so large or so lopsided that they hide little."""
    part = atoms.set_of_cell[fate.cell]
    # A row tells the very cells if each of its fixes is in a part of one cell.
    replayed = np.bincount(fate.row, minlength=len(grouped.row)) > 0
    replayed[fate.row[atoms.size[part] > 1]] = False
    records = np.bincount(grouped.unit_group, minlength=len(grouped.first))[grouped.row_group]
    # The mix that an adversary expects who knows how often each cell is visited.
    visits = np.bincount(fate.cell, minlength=len(atoms.set_of_cell))
    share = cells.pois / np.maximum(cells.pois.sum(axis=1, keepdims=True), 1)
    mix = (
        np.stack([np.bincount(atoms.set_of_cell, visits * s) for s in share.T], axis=1)
        if share.size
        else np.zeros((len(atoms.size), 0))
    )
    popular = is_far(measure_divergence(mix, cells.pois.sum(axis=0)), rules.atom_t)[part]
    kinds = int((cells.pois.sum(axis=0) > 0).sum())
    # n points drawn from the city's mix of q kinds diverge from it by (q - 1) / 2n on average: fewer make no atom.
    room = 2 * rules.atom_t * int(cells.pois.sum()) / (kinds - 1) if kinds > 1 else math.inf
    return {
        "atoms": int(atoms.held.sum()),
        "largest_atom_percent": _compute_percent(part == np.argmax(np.where(atoms.held, atoms.size, 0))),
        "replayed_percent": 100 * float(records[replayed].sum() / max(records.sum(), 1)),
        "popular_percent": _compute_percent(popular),
        "few_atoms": max(int(room), 1) if room < _MAX_LISTED_ATOMS else 0,
    }


def _compute_percent(flag: Bool) -> float:
    return 100 * float(flag.mean()) if len(flag) else 0.0
