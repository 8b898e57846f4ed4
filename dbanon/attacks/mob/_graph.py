"""The attack graph: which published record each person may be, and which of these remain when each is a person's.

A person fits a record if at each own instant the record has a row that holds the person's cell. The truth is a
perfect matching, so another pair is in some perfect matching exactly if the person and the record's owner are in one
strongly connected component of the graph in which each person points to the owners of the records it fits. Who has no
own instants fits every record: a hub stands for these edges. Invariant: edges that are not looked for can only make
fewer remain, never more.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dbanon.attacks.mob._rows import map_parts
from dbanon.attacks.mob._search import PAIRS_PER_PART, Scene, mark_fits, search
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Bool, Int

_TARGETED_ROUNDS = 6  # in which those who may decide it are searched for, before all are


@dataclass(frozen=True, kw_only=True, eq=False)
class Remaining:
    """What is left of the attack graph."""

    person: Int  # [e]; person, owner: the edges that remain, of persons with own instants, themselves included
    owner: Int  # [e]
    number: Int  # [n]: how many remain of each published person
    edges: int  # how many were found
    searched: int  # of how many persons all edges were looked for, up to a cap


def find_remaining(scene: Scene, person: Int, owner: Int, k: int) -> Remaining:
    """Find edges until all persons keep k of them, or all have been looked for.

    `person`, `owner` (int64[p]): pairs that may be edges, and the same the other way round: those of the stored hiding
    sets.

    The sets of a run that keeps its promise are decided by these alone: each who hides a person fits its record too,
    even where the set of the one who hides it (`extreme-union`) is another.
    """
    n = len(scene.at.subject)
    known = np.flatnonzero(scene.shown.published & scene.own.has_instants)
    edge = _keep_edges(scene, np.concatenate([person, owner, known]), np.concatenate([owner, person, known]))
    searched = np.zeros(n, bool)
    # Kept true: `edge` are edges of the attack graph. More of them leave no fewer, so a person with k keeps them.
    for turn in range(_TARGETED_ROUNDS + 2):
        number, kept = _prune_edges(scene, edge)
        wanted = _choose_wanted(scene, edge, number < k, searched, turn == _TARGETED_ROUNDS)
        if not len(wanted):
            break
        searched[wanted] = True
        edge = sort_distinct(np.concatenate([edge, search(scene, wanted)]))
    return Remaining(
        person=edge[kept] // n, owner=edge[kept] % n, number=number, edges=len(edge), searched=int(searched.sum())
    )


def _keep_edges(scene: Scene, person: Int, owner: Int) -> Int:
    """Keep the pairs that are edges, each once: ``person * n + owner``."""
    published, n = scene.shown.published, len(scene.at.subject)
    pair = sort_distinct((person * n + owner)[published[person] & published[owner] & scene.own.has_instants[person]])
    # Definition 1: an edge where the record's rows hold the person at all its own instants.
    return pair[mark_fits(scene, pair // n, pair % n)]


def _prune_edges(scene: Scene, edge: Int) -> tuple[Int, Bool]:
    """Count the edges of each person that are in a perfect matching, and say which these are."""
    published, n = scene.shown.published, len(scene.at.subject)
    person, owner = edge // n, edge % n
    free = np.flatnonzero(published & ~scene.own.has_instants)  # they fit every record
    all_records = np.flatnonzero(published) if len(free) else free
    hub = np.full(len(free) + len(all_records), n)
    tail = np.concatenate([person, free, hub[: len(all_records)]])
    head = np.concatenate([owner, hub[: len(free)], all_records])
    # Definition 2, all pruning at once: an edge is in a perfect matching if and only if both its ends are in one
    # component.
    graph = csr_array((np.ones(len(tail), np.int8), (tail, head)), shape=(n + 1, n + 1))
    label = connected_components(graph, directed=True, connection="strong")[1]
    kept = label[person] == label[owner]
    number = np.bincount(person[kept], minlength=n)
    number[free] = np.count_nonzero(published & (label[:n] == label[n]))
    return number, np.asarray(kept)


def _choose_wanted(scene: Scene, edge: Int, short: Bool, searched: Bool, all_open: bool) -> Int:
    """Say whose edges to look for: of those who keep too few, then of those whose records these fit."""
    n, open_ = len(searched), scene.shown.published & scene.own.has_instants & ~searched
    short = short & scene.shown.published
    if not short.any():
        return np.empty(0, np.int64)
    if all_open or (short & ~scene.own.has_instants).any():
        return np.flatnonzero(open_)
    if (short & open_).any():
        return np.flatnonzero(short & open_)
    # Only who can be reached from the short ones can lie on a way back to them.
    return sort_distinct((edge % n)[searched[edge // n] & open_[edge % n]])


def count_below_k_at_speed(scene: Scene, left: Remaining, k: int, reach_cells: float) -> int:
    """Count persons who keep fewer than k once exact rows an instant away must have been within reach."""

    def look(low: int, high: int) -> Bool:
        return _mark_reached(scene, left.person[low:high], left.owner[low:high], reach_cells)

    within = np.concatenate([np.empty(0, bool), *map_parts(len(left.person), PAIRS_PER_PART, look)])
    number = np.bincount(left.person[within], minlength=len(scene.at.subject))
    return int(((number < k) & scene.shown.published & scene.own.has_instants).sum())


@compile_kernel
def _mark_reached(scene: Scene, person: Int, owner: Int, reach: float) -> Bool:
    """Say of pairs whether the owner's exact rows, an instant before or after the person's own, are within reach."""
    _, x, y, _ = scene.at
    region, box, _, cloaked = scene.shown[:4]
    offset, instant = scene.own
    within = np.ones(len(person), np.bool_)
    for pair in range(len(person)):
        i, j = person[pair], owner[pair]
        for q in range(offset[i], offset[i + 1]):
            t = instant[q]
            for s in (t - 1, t + 1):
                # A row that is missing or cloaked excludes nobody.
                if s < 0 or s >= region.shape[1] or region[j, s] < 0 or cloaked[region[j, s]] == 1:
                    continue
                # From the nearest point of the person's cell to that of the exact one.
                r = region[j, s]
                dx = float(max(box[r, 0] - x[i, t], x[i, t] - box[r, 2], 1) - 1)
                dy = float(max(box[r, 1] - y[i, t], y[i, t] - box[r, 3], 1) - 1)
                if dx * dx + dy * dy > reach * reach:
                    within[pair] = False
                    break
            if not within[pair]:
                break
    return within
