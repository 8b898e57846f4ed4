"""The least-cost policy over the binary US-tree of one window (Traj-anon, optimised).

Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012, Algorithms 1
and 2 with sections 4.2.2 (binary), 4.2.3 (Lemma 7), 4.2.4 (two stages) and 4.3 (runtime pruning), and k-summing
(Definition 5) enforced, which the printed algorithms forget.

A trajectory of l instants in a square of 2^H cells a side is a string of 2 l H bits: for each quad level from the
coarsest, the x-bit of every instant, then the y-bit of every instant. The binary US-tree is the trie of these strings:
a node at depth d is a sequence of (semi-)quadrants, and at each multiple of 2 l all of them are quadrants of one size.
Only nodes that hold k or more trajectories are built, and a chain of nodes with one child is one node, the deepest,
because it holds the same trajectories in the smallest area.

Areas are in cells, costs in float64: exact while the total stays below 2^53, and beyond that rounded in the last place
where int64 would overflow (30 instants of 2^26 cells a side and 2 million trajectories reach 2^78).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int, Int32

# In every kernel x, y are int32[n, l], cells relative to the root's corner. A child of fewer than k is -1. Kernels
# allocate nothing, call nothing of NumPy's and take few types: each of these costs a first run time to compile.

_LEFT, _RIGHT = 3, 4  # columns of `node`


class _Strings(NamedTuple):
    """Trajectories while they are put in order, and 64 bits of the string of each."""

    x: Int32  # [n, l]
    y: Int32
    order: Int32  # [n]
    word: NDArray[np.uint64]  # [n], in that order
    spare_order: Int32  # [n]; scratch, as the next
    spare_word: NDArray[np.uint64]


class _Place(NamedTuple):
    """A bit of a string. The word it is in holds the bits of one half-level and up to 64 instants."""

    half: int  # half-level: the x-bits of a quad level, then its y-bits
    chunk: int  # of 64 instants
    bit: int  # from 63 down; -1 where the word is not read yet


class _Waiting(NamedTuple):
    """A stack of nodes to be made: `_Place`s from which the strings of a range may differ."""

    lo: Int  # [n // k + 2], as all of them
    hi: Int
    half: Int
    chunk: Int
    bit: Int
    parent: Int  # -1 for the root's
    side: Int  # `_LEFT` or `_RIGHT` of the parent


class _Table(NamedTuple):
    """The rows of nodes: what each loses at least with u passed up, for every u that is worth while."""

    node: Int32  # [N, 6]
    k: int
    length: Int  # [N]: of the row; u is less
    most: Int  # [N]: what the children pass at most
    row: Float  # all rows
    row_at: Int  # [N]: where each begins there
    choice_at: Int  # [N]: where those of a node that is no leaf begin among the choices


class _Pool(NamedTuple):
    """Trajectories that wait to be kept by a node above, and scratch."""

    who: Int32  # [n]
    distance: Int  # [n]
    column: Int  # [n]


@compile_kernel
def _count_differing_bits(strings: _Strings, lo: int, hi: int) -> int:
    """The number of low bits in which the cells of a range differ at some instant."""
    x, y, order = strings.x, strings.y, strings.order
    first = order[lo]
    differ = np.int32(0)
    for p in range(lo + 1, hi):
        i = order[p]
        for j in range(x.shape[1]):
            differ |= (x[i, j] ^ x[first, j]) | (y[i, j] ^ y[first, j])
    levels = 0
    # The highest bit that differs anywhere: above it all cells are in one quadrant at every instant.
    while differ >> levels:
        levels += 1
    return levels


@compile_kernel
def _read_words(strings: _Strings, height: int, place: _Place, lo: int, hi: int) -> None:
    """Write 64 bits of the strings of a range, those of one half-level and up to 64 instants, left-aligned."""
    order, word = strings.order, strings.word
    v, shift = strings.y if place.half & 1 else strings.x, height - 1 - place.half // 2
    begin, end = 64 * place.chunk, min(v.shape[1], 64 * place.chunk + 64)
    for p in range(lo, hi):
        i = order[p]
        bits = np.uint64(0)
        for j in range(begin, end):
            bits = (bits << np.uint64(1)) | np.uint64((v[i, j] >> shift) & 1)
        word[p] = bits << np.uint64(64 - (end - begin))


@compile_kernel
def _partition(strings: _Strings, lo: int, hi: int, bit: int) -> int:
    """Split a range stably by one bit of its words; the start of the ones."""
    _, _, order, word, spare_order, spare_word = strings
    mask = np.uint64(1) << np.uint64(bit)
    zeros, ones = lo, 0
    for p in range(lo, hi):
        if word[p] & mask:
            spare_order[ones], spare_word[ones] = order[p], word[p]
            ones += 1
        else:
            order[zeros], word[zeros] = order[p], word[p]
            zeros += 1
    for p in range(ones):
        order[zeros + p], word[zeros + p] = spare_order[p], spare_word[p]
    return zeros


def build(x: Int32, y: Int32, height: int, k: int) -> tuple[Int32, Int32]:
    """Build the compressed, pruned binary US-tree by splitting top-down, without recursion.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells relative to the root's corner, in [0, 2^height); n >= k >= 2.
    height : int
        H: the root's side is 2^H cells, H <= 30.

    Returns
    -------
    order : int32[n]
        Trajectories so that each node's are a range; equal ones in input order.
    node : int32[N, 6]
        In preorder: lo, hi, depth, left, right, number of ancestors. A node without children is a leaf.
    """
    n = len(x)
    order = np.arange(n, dtype=np.int32)
    strings = _Strings(
        x, y, order, np.empty(n, np.uint64), spare_order=np.empty(n, np.int32), spare_word=np.empty(n, np.uint64)
    )
    # A node with one child leaves somebody out; those with two are fewer than the leaves, of k each: never more than n.
    node = np.empty((n, 6), np.int32)
    # Nodes that wait are disjoint and have k members or more.
    waiting = _Waiting(*np.zeros((7, n // k + 2), np.int64))
    waiting.hi[0], waiting.bit[0], waiting.parent[0] = n, -1, -1
    made = _build(strings, height, k, waiting, node)
    return order, node[:made].copy()


@compile_kernel
def _build(strings: _Strings, height: int, k: int, waiting: _Waiting, node: Int32) -> int:
    """Write the nodes in preorder; their number. The root waits already."""
    instants, made, count = strings.x.shape[1], 0, 1
    # Kept true: the ranges that wait are disjoint, hold k trajectories or more each, and agree in all bits before
    # their place; their words are as they were read, since ranges below others do not reach into them. Nodes are
    # numbered as they are popped, the left child first, so `node` is in preorder.
    while count:
        count -= 1
        lo, hi, parent = waiting.lo[count], waiting.hi[count], waiting.parent[count]
        place = _descend(strings, height, lo, hi, _Place(waiting.half[count], waiting.chunk[count], waiting.bit[count]))
        is_full = place.half == 2 * height  # all in the same cells: nothing is left to divide
        node[made, 0], node[made, 1], node[made, _LEFT], node[made, _RIGHT] = lo, hi, -1, -1
        node[made, 2] = place.half * instants + (0 if is_full else 64 * place.chunk + 63 - place.bit)
        node[made, 5] = 0 if parent < 0 else node[parent, 5] + 1
        if parent >= 0:
            node[parent, waiting.side[count]] = made
        if not is_full:
            cut = _partition(strings, lo, hi, place.bit)
            after = _Place(place.half, place.chunk, place.bit - 1)
            if 64 - place.bit >= min(64, instants - 64 * place.chunk):
                after = _find_next_word(instants, place)
            # Section 4.3: a child of fewer than k is not built, because nothing can be anonymised at or below it. The
            # right child waits below the left one.
            if hi - cut >= k:
                _push(waiting, count, cut, hi, after, made, _RIGHT)
                count += 1
            if cut - lo >= k:
                _push(waiting, count, lo, cut, after, made, _LEFT)
                count += 1
        made += 1
    return made


@compile_kernel
def _push(waiting: _Waiting, at: int, lo: int, hi: int, place: _Place, parent: int, side: int) -> None:
    waiting.lo[at], waiting.hi[at], waiting.parent[at], waiting.side[at] = lo, hi, parent, side
    waiting.half[at], waiting.chunk[at], waiting.bit[at] = place


@compile_kernel
def _descend(strings: _Strings, height: int, lo: int, hi: int, place: _Place) -> _Place:
    """Find the first bit in which the strings of a range differ: the deepest node that holds it.

    Where there is none, all are in the same cells, a leaf of full depth: the half-level is 2 H.
    """
    word, instants = strings.word, strings.x.shape[1]
    while place.half < 2 * height:
        bit = place.bit
        if bit < 0:
            _read_words(strings, height, place, lo, hi)
            bit = 63
        differ = np.uint64(0)
        for p in range(lo + 1, hi):
            differ |= word[p] ^ word[lo]
        if differ:  # in no bit before the place, where they agree
            while not (differ >> np.uint64(bit)) & np.uint64(1):
                bit -= 1
            return _Place(place.half, place.chunk, bit)
        place = _find_next_word(instants, place)
        if place.chunk == 0 and place.half % 2 == 0:  # jump over levels at which all are in one quadrant
            level = height - _count_differing_bits(strings, lo, hi)
            place = _Place(max(place.half, 2 * level), place.chunk, place.bit)
    return place


@compile_kernel
def _find_next_word(instants: int, place: _Place) -> _Place:
    last = 64 * (place.chunk + 1) >= instants
    return _Place(place.half + 1 if last else place.half, 0 if last else place.chunk + 1, -1)


def compute_areas(depth: Int32, instants: int, height: int) -> Float:
    """Sum over the instants of the areas, in cells, of a node at each depth: float64, exact below 2^53."""
    full, rest = np.divmod(np.asarray(depth, np.int64), 2 * instants)
    halved_x, halved_y = np.minimum(rest, instants), np.maximum(rest - instants, 0)
    # halved_y of the instants have a quarter of the square, the other halved_x - halved_y a half, the rest all of it.
    quarters = halved_y + 2 * (halved_x - halved_y) + 4 * (instants - halved_x)
    areas: Float = np.ldexp(quarters.astype(np.float64), (2 * (height - full) - 2).astype(np.int32))
    return areas


def compute_quadrants(x: Int32, y: Int32, depth: Int32, height: int) -> Int:
    """Boxes of nodes at `depth` that hold trajectories x, y ``[r, l]``: half-open int64[r, l, 4] in cells."""
    instants = x.shape[1]
    full, rest = (part[:, None] for part in np.divmod(np.asarray(depth, np.int64), 2 * instants))
    j = np.arange(instants)
    box = np.empty((*x.shape, 4), np.int64)
    for axis, (v, halved) in enumerate(((x, j < rest), (y, j < rest - instants))):
        bits = height - full - halved
        box[..., axis] = (v.astype(np.int64) >> bits) << bits
        box[..., axis + 2] = box[..., axis] + (np.int64(1) << bits)
    return box


def find_best_configuration(node: Int32, area: Float, k: int) -> tuple[Int32, Int32, float]:
    """Find the cheapest complete k-summing configuration.

    For a node with d trajectories and h ancestors, row[u] is the least cost of anonymising d - u of them at it or below
    and passing u up. u is 0..d-k, or d at no cost ("pass all"). No optimal configuration passes more than
    (k - 1)(h + 1): of those that one ancestor takes at most k - 1 are not free to leave it, so k could be moved down
    here (Lemma 7, tightened). Stage one: temp[s], the least cost with s passed by the children; a child of fewer than k
    passes them all. Stage two: row[u] = min(temp[u], min over s >= u + k of temp[s] + area (s - u)). Equal cost: the
    smaller s, then the smaller share of the left child.

    Parameters
    ----------
    node : int32[N, 6]
        From `build`, preorder.
    area : float64[N]
        From `compute_areas`.

    Returns
    -------
    passed, kept : int32[N]
        How many trajectories each node passes up, and how many it anonymises.
    cost : float
        Sum over trajectories of the area of their node, in cells.
    """
    total = len(node)
    size = (node[:, 1] - node[:, 0]).astype(np.int64)
    # F'(m) of section 4.2.3: u = 0..length - 1, by k-summing at most d - k and by Lemma 7 at most `limit`; and maybe d.
    limit = (k - 1) * (node[:, 5].astype(np.int64) + 1)
    length = np.minimum(size - k, np.minimum(size, limit)) + 1
    most = np.where(size <= limit, size, length - 1)  # passed by a node; below, by its children
    child = node[:, 3:5]
    there = child >= 0
    most = (np.where(there, most[child], 0)).sum(axis=1) + size - np.where(there, size[child], 0).sum(axis=1)
    leaf, one = ~there.any(axis=1), there.sum(axis=1) == 1
    most[leaf] = 0
    # The row of an only child is written over by its parent's; rows of two children stay, for backtracking.
    grown = length - np.where(one, length[child.max(axis=1)], 0)
    table = _Table(
        node, k, length, most, row=np.empty(int(np.maximum(grown, 0).sum())), row_at=np.empty(total, np.int64),
        choice_at=np.cumsum(np.where(leaf, 0, length)) - np.where(leaf, 0, length),
    )  # fmt: skip
    # The choices of long chains are by far the most of all this.
    choice: NDArray[Any] = np.empty(int(length[~leaf].sum()), np.uint16 if most.max() < 1 << 16 else np.int32)
    temp, best = np.empty(int(most.max()) + 1), np.empty(int(most.max()) + 1)
    _fill_rows(table, area, choice, temp, best, np.empty(len(best), np.int32))
    passed, kept = np.zeros(total, np.int32), np.zeros(total, np.int32)
    _backtrack(table, choice, passed, kept)
    return passed, kept, table.row[table.row_at[0]]


@compile_kernel
def _fill_rows(table: _Table, area: Float, choice: NDArray[Any], temp: Float, best: Float, best_s: Int32) -> None:
    """Write every node's row, children first (reversed preorder; the left child last), and s for each u of it."""
    node, k, length, most, rows, row_at, choice_at = table
    top = 0
    # Kept true (Lemma 3): the row of a node behind m whose parent is still to come holds the least cost of each u.
    for m in range(len(node) - 1, -1, -1):
        d, left, right = node[m, 1] - node[m, 0], node[m, 3], node[m, 4]
        if left < 0 and right < 0:
            # Lines 9 to 13: a leaf anonymises all but u, at least k. Lines 8 and 10, u = d at no cost, need no entry.
            row_at[m] = top
            for u in range(length[m]):
                rows[top + u] = area[m] * (d - u)
            top += length[m]
            continue
        # Stage one of section 4.2.4 (lines 17 and 18 without u): temp[s], the least cost with s passed by the children.
        if left >= 0 and right >= 0:
            _combine_two(table, m, temp)
        else:
            top = row_at[max(left, right)]
            _combine_one(table, d, max(left, right), temp)
        # Suffix minima; on equal cost the smaller s, hence <=.
        low, low_s = np.inf, most[m]
        # best[s] = min of temp[s'] + area s' over s' >= s: what makes stage two linear.
        for s in range(most[m], k - 1, -1):
            c = temp[s] + area[m] * s
            if c <= low:
                low, low_s = c, s
            best[s], best_s[s] = low, low_s
        row_at[m] = top
        # Lines 16 to 20, k-summing (Definition 5): of the s that come up, s - u stay here, none or at least k.
        for u in range(length[m]):
            c = temp[u] if u <= most[m] else np.inf
            s = u
            if u + k <= most[m] and best[u + k] - area[m] * u < c:
                c = best[u + k] - area[m] * u
                s = best_s[u + k]
            rows[top + u] = c
            choice[choice_at[m] + u] = s
        top += length[m]


@compile_kernel
def _combine_one(table: _Table, d: int, child: int, temp: Float) -> None:
    """Stage one where one child is a node: the other passes all it has."""
    node, at = table.node, table.row_at[child]
    d1, n1 = node[child, 1] - node[child, 0], table.length[child]
    # Fewer than k are outside the child; they all come up (line 8), so no s is less than their number.
    for s in range(d - d1):
        temp[s] = np.inf
    for i in range(n1):
        temp[d - d1 + i] = table.row[at + i]
    # The child may pass all it has as well; between its last u and that there is nothing (k-summing, Lemma 7).
    if d1 <= (table.k - 1) * (node[child, 5] + 1):
        for s in range(d - d1 + n1, d):
            temp[s] = np.inf
        temp[d] = 0.0


@compile_kernel
def _combine_two(table: _Table, m: int, temp: Float) -> None:
    """Stage one where both children are nodes: what they pass is added up in every way."""
    node, rows, left, right = table.node, table.row, table.node[m, _LEFT], table.node[m, _RIGHT]
    d1, d2 = node[left, 1] - node[left, 0], node[right, 1] - node[right, 0]
    limit = (table.k - 1) * (node[left, 5] + 1)
    n1, n2, r1, r2 = table.length[left], table.length[right], table.row_at[left], table.row_at[right]
    for s in range(table.most[m] + 1):
        temp[s] = np.inf
    second = rows[r2 : r2 + n2]
    for i in range(n1):
        c1, least = rows[r1 + i], temp[i : i + n2]
        for j in range(n2):  # stored in any case: so the processor does several at once
            c = c1 + second[j]
            least[j] = c if c < least[j] else least[j]
    # One passes all, at no cost, or both do.
    if d2 <= limit:
        for i in range(n1):
            temp[d2 + i] = min(temp[d2 + i], rows[r1 + i])
    if d1 <= limit:
        for j in range(n2):
            temp[d1 + j] = min(temp[d1 + j], rows[r2 + j])
    if d1 <= limit and d2 <= limit:
        temp[d1 + d2] = 0.0


@compile_kernel
def _find_share(table: _Table, m: int, s: int) -> Any:
    """Find how many of the s passed by two children the left one passes: the least number of the least cost."""
    node, rows, left, right = table.node, table.row, table.node[m, _LEFT], table.node[m, _RIGHT]
    d1, d2 = node[left, 1] - node[left, 0], node[right, 1] - node[right, 0]
    limit = (table.k - 1) * (node[left, 5] + 1)
    n1, n2, r1, r2 = table.length[left], table.length[right], table.row_at[left], table.row_at[right]
    # The cases of `_combine_two` for one s, by growing share of the left child and with strict <, so that the least
    # share wins: it is the least where the right child passes all it has.
    least, share = np.inf, d1
    if d2 <= limit and d2 <= s < d2 + n1:
        least, share = rows[r1 + s - d2], s - d2
    for i in range(max(0, s - n2 + 1), min(n1 - 1, s) + 1):
        c = rows[r1 + i] + rows[r2 + s - i]
        if c < least:
            least, share = c, i
    if d1 <= limit and d1 <= s and (s == d1 + d2 or (s < d1 + n2 and rows[r2 + s - d1] < least)):
        share = d1
    return share


@compile_kernel
def _backtrack(table: _Table, choice: NDArray[Any], passed: Int32, kept: Int32) -> None:
    """Say of every node, from the root down, how many it passes and keeps."""
    node = table.node
    # Preorder: passed[m] was set by m's parent; the root passes none (C(r) = 0, a complete configuration).
    for m in range(len(node)):
        d, u = node[m, 1] - node[m, 0], passed[m]
        left, right = node[m, 3], node[m, 4]
        if left < 0 and right < 0:
            kept[m] = d - u
            continue
        # To pass all is to keep nothing here or below, so all that is in the children comes up.
        s = d if u == d else choice[table.choice_at[m] + u]
        kept[m] = s - u
        if left >= 0 and right >= 0:
            passed[left] = _find_share(table, m, s)
            passed[right] = s - passed[left]
        else:
            one = max(left, right)
            passed[one] = s - (d - (node[one, 1] - node[one, 0]))


@compile_kernel
def _find_median(column: Int, n: int) -> Any:
    """The lower median of the first n values, which it moves about (Hoare's selection)."""
    lo, hi, middle = 0, n - 1, (n - 1) // 2
    # Kept true: column[:lo] <= column[lo..hi] <= column[hi + 1:], and lo <= middle <= hi.
    while lo < hi:
        pivot, i, j = column[(lo + hi) // 2], lo, hi
        while i <= j:
            while column[i] < pivot:
                i += 1
            while column[j] > pivot:
                j -= 1
            if i <= j:
                column[i], column[j] = column[j], column[i]
                i += 1
                j -= 1
        if middle <= j:
            hi = j
        elif middle >= i:
            lo = i
        else:
            break
    return column[middle]


@compile_kernel
def _sort_farthest_last(x: Int32, y: Int32, pool: _Pool, lo: int, n: int) -> None:
    """Order ``who[lo:lo + n]`` by L1 distance, over all instants, to the coordinatewise median; ties by index."""
    who, distance, column = pool
    for p in range(n):
        distance[p] = 0
    for j in range(2 * x.shape[1]):
        v = x if j < x.shape[1] else y
        at = j % x.shape[1]
        for p in range(n):
            column[p] = v[who[lo + p], at]
        middle = _find_median(column, n)
        for p in range(n):
            distance[p] += abs(v[who[lo + p], at] - middle)
    # The farthest is on top of the heap: `heaped` >= 0 builds it from below, < 0 puts its top behind the rest.
    for heaped in range(n // 2 - 1, -n, -1):  # a heap sort
        root, size = heaped, n
        if heaped < 0:
            root, size = 0, n + heaped
            distance[0], distance[size] = distance[size], distance[0]
            who[lo], who[lo + size] = who[lo + size], who[lo]
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and _is_nearer(pool, lo, child, child + 1):
                child += 1
            if not _is_nearer(pool, lo, root, child):
                break
            distance[root], distance[child] = distance[child], distance[root]
            who[lo + root], who[lo + child] = who[lo + child], who[lo + root]
            root = child


@compile_kernel
def _is_nearer(pool: _Pool, lo: int, a: int, b: int) -> bool:
    one, other = pool.distance[a], pool.distance[b]
    return bool(one < other or (one == other and pool.who[lo + a] < pool.who[lo + b]))


def assign(x: Int32, y: Int32, order: Int32, node: Int32, passed: Int32, kept: Int32) -> tuple[Int32, Int, Int32]:
    """Choose a policy of the configuration: which trajectories each node keeps.

    Who is passed up is a free choice (Property 1): those farthest from the median of what the node was left with. No
    bundle has 2k or more members unless they share every cell: the k that one child passed could have stayed in it.

    Returns
    -------
    members : int32[n]
        Trajectories, bundle by bundle.
    offset : int64[R + 1]
    depth : int32[R]
        The depth of each bundle's node.
    """
    n = len(order)
    members = np.empty(n, np.int32)
    pool = _Pool(np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64))
    _assign(x, y, order, node, passed, kept, pool, members)
    bundle = np.flatnonzero(kept)[::-1]  # children before their parents
    return members, np.concatenate([[0], np.cumsum(kept[bundle], dtype=np.int64)]), node[bundle, 2]


@compile_kernel
def _assign(
    x: Int32, y: Int32, order: Int32, node: Int32, passed: Int32, kept: Int32, pool: _Pool, members: Int32
) -> None:
    who, done, waiting = pool.who, 0, 0
    # Kept true: who[:waiting] are those passed up by nodes whose parent is still to come, the latest node's on top.
    for m in range(len(node) - 1, -1, -1):
        lo, hi, left, right = node[m, 0], node[m, 1], node[m, 3], node[m, 4]
        # Members who have no node below this one join the pool here; those of the children wait on top of it already.
        begin, end = lo, hi
        if left >= 0 and right >= 0:
            begin = hi
        elif left >= 0:
            begin = node[left, 1]
        elif right >= 0:
            end = node[right, 0]
        for p in range(begin, end):
            who[waiting] = order[p]
            waiting += 1
        if kept[m] == 0:
            continue
        # m's trajectories are the top of the pool; those nearest to their median stay, the rest go up.
        base = waiting - kept[m] - passed[m]
        if passed[m] > 0:
            _sort_farthest_last(x, y, pool, base, waiting - base)
        for p in range(kept[m]):
            members[done + p] = who[base + p]
        for p in range(passed[m]):
            who[base + p] = who[base + kept[m] + p]
        waiting = base + passed[m]
        done += kept[m]


def bound_bundles(x: Int32, y: Int32, members: Int32, offset: Int) -> Int32:
    """Minimum bounding rectangles of bundles at every instant: half-open int32[R, l, 4] in cells."""
    box = np.empty((len(offset) - 1, x.shape[1], 4), np.int32)
    _bound_bundles(x, y, members, offset, box)
    return box


@compile_kernel
def _bound_bundles(x: Int32, y: Int32, members: Int32, offset: Int, box: Int32) -> None:
    for r in range(len(offset) - 1):
        for p in range(offset[r], offset[r + 1]):
            i = members[p]
            for j in range(x.shape[1]):
                if p == offset[r]:
                    box[r, j, 0] = box[r, j, 2] = x[i, j]
                    box[r, j, 1] = box[r, j, 3] = y[i, j]
                box[r, j, 0] = min(box[r, j, 0], x[i, j])
                box[r, j, 1] = min(box[r, j, 1], y[i, j])
                box[r, j, 2] = max(box[r, j, 2], x[i, j] + 1)
                box[r, j, 3] = max(box[r, j, 3], y[i, j] + 1)
