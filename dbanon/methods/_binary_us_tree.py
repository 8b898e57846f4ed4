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

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numba
import numpy as np

# In every kernel x, y are int32[n, l], cells relative to the root's corner. A child of fewer than k is -1.


@numba.njit(cache=True)
def _top_level(x: Any, y: Any, members: Any) -> Any:
    """The number of low bits in which the members' cells differ at some instant."""
    differ = np.int32(0)
    first = members[0]
    for i in members:
        for j in range(x.shape[1]):
            differ |= (x[i, j] ^ x[first, j]) | (y[i, j] ^ y[first, j])
    levels = 0
    while differ >> levels:
        levels += 1
    return levels


@numba.njit(cache=True)
def _read_words(x: Any, y: Any, members: Any, word: Any, half: Any, chunk: Any, height: Any) -> None:
    """Write 64 bits of each member's string, those of one half-level and up to 64 instants, left-aligned."""
    v = y if half & 1 else x
    level = height - 1 - half // 2
    begin, end = 64 * chunk, min(v.shape[1], 64 * chunk + 64)
    for p in range(len(members)):
        i = members[p]
        bits = np.uint64(0)
        for j in range(begin, end):
            bits = (bits << np.uint64(1)) | np.uint64((v[i, j] >> level) & 1)
        word[p] = bits << np.uint64(64 - (end - begin))


@numba.njit(cache=True)
def _partition(order: Any, word: Any, lo: Any, hi: Any, bit: Any, spare_order: Any, spare_word: Any) -> Any:
    """Split a range stably by one bit of its words; the start of the ones."""
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


@numba.njit(cache=True)
def build(x: Any, y: Any, height: int, k: int) -> Any:  # noqa: C901, PLR0912, PLR0915 - one descent, with its own stack
    """Build the compressed, pruned binary US-tree by splitting top-down, without recursion.

    Parameters
    ----------
    x, y : int32[n, l]
        Cells relative to the root's corner, in [0, 2^height); n >= k >= 2.
    height : int
        H: the root's side is 2^H cells, H <= 30.
    k : int

    Returns
    -------
    order : int32[n]
        Trajectories so that each node's are a range; equal ones in input order.
    node : int32[N, 6]
        In preorder: lo, hi, depth, left, right, number of ancestors. A node without children is a leaf.
    """
    n, instants = x.shape
    order = np.arange(n).astype(np.int32)
    word = np.empty(n, np.uint64)
    spare_order, spare_word = np.empty(n, np.int32), np.empty(n, np.uint64)
    chunks = (instants + 63) // 64
    # Each peeled-off trajectory and each big leaf accounts for a node: never more than n.
    node = np.empty((n, 6), np.int32)
    made = 0
    # lo, hi, half-level, chunk, next bit of the word (-1: the word is not read yet), parent, side
    stack = [(0, n, 0, 0, -1, -1, 0)]
    while stack:
        lo, hi, half, chunk, bit, parent, side = stack.pop()
        left = right = 0
        depth = 2 * height * instants
        cut = lo
        while half < 2 * height:
            if bit < 0:
                _read_words(x, y, order[lo:hi], word[lo:hi], half, chunk, height)
                bit = 63
            differ = np.uint64(0)
            for p in range(lo + 1, hi):
                differ |= word[p] ^ word[lo]
            if bit < 63:
                differ &= (np.uint64(1) << np.uint64(bit + 1)) - np.uint64(1)
            if differ:
                while not (differ >> np.uint64(bit)) & np.uint64(1):
                    bit -= 1
                depth = half * instants + 64 * chunk + 63 - bit
                cut = _partition(order, word, lo, hi, bit, spare_order, spare_word)
                left, right = cut - lo, hi - cut
                break
            bit = -1
            chunk += 1
            if chunk == chunks:
                chunk = 0
                half += 1
                if half % 2 == 0:  # jump over levels at which all are in one quadrant
                    half = max(half, 2 * (height - _top_level(x, y, order[lo:hi])))
        me = made
        made += 1
        node[me, 0], node[me, 1], node[me, 2], node[me, 3], node[me, 4] = lo, hi, depth, -1, -1
        node[me, 5] = 0 if parent < 0 else node[parent, 5] + 1
        if parent >= 0:
            node[parent, side] = me
        bit -= 1
        if 63 - bit >= min(64, instants - 64 * chunk):  # the word's last bit: children begin with the next word
            bit = -1
            chunk += 1
            if chunk == chunks:
                chunk = 0
                half += 1
        if right >= k:
            stack.append((cut, hi, half, chunk, bit, me, 4))
        if left >= k:
            stack.append((lo, cut, half, chunk, bit, me, 3))
    return order, node[:made].copy()


def areas(depth: Any, instants: int, height: int) -> Any:
    """Sum over the instants of the areas, in cells, of a node at each depth: float64, exact below 2^53."""
    full, rest = np.divmod(np.asarray(depth, np.int64), 2 * instants)
    halved_x, halved_y = np.minimum(rest, instants), np.maximum(rest - instants, 0)
    # halved_y of the instants have a quarter of the square, the other halved_x - halved_y a half, the rest all of it.
    quarters = halved_y + 2 * (halved_x - halved_y) + 4 * (instants - halved_x)
    return np.ldexp(quarters.astype(np.float64), (2 * (height - full) - 2).astype(np.int32))


def quadrants(x: Any, y: Any, depth: Any, height: int) -> Any:
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


@numba.njit(cache=True)
def _grown(buffer: Any, need: Any) -> Any:
    if need <= len(buffer):
        return buffer
    bigger = np.empty(max(need, 2 * len(buffer)), buffer.dtype)
    for i in range(len(buffer)):
        bigger[i] = buffer[i]
    return bigger


@numba.njit(cache=True)
def best_configuration(node: Any, area: Any, k: int) -> Any:  # noqa: C901, PLR0912, PLR0915 - the recurrence in one piece
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
        From `areas`.
    k : int

    Returns
    -------
    passed, kept : int32[N]
        How many trajectories each node passes up, and how many it anonymises.
    cost : float
        Sum over trajectories of the area of their node, in cells.
    """
    total = len(node)
    # Rows wait for their parent on a stack: children come before parents, the left child last, in reversed preorder.
    rows = np.empty(1024, np.float64)
    top = 0
    row_at, row_len = np.zeros(total, np.int64), np.zeros(total, np.int32)
    # What backtracking needs: s for each u, and the left child's share for each s where both children choose.
    choice = np.empty(1024, np.int32)
    used = 0
    choice_at, share_at = np.zeros(total, np.int64), np.full(total, -1, np.int64)
    temp, best, best_s, share = np.empty(1024), np.empty(1024), np.empty(1024, np.int32), np.empty(1024, np.int32)
    for m in range(total - 1, -1, -1):
        d = node[m, 1] - node[m, 0]
        left, right = node[m, 3], node[m, 4]
        limit = min(d, (k - 1) * (node[m, 5] + 1))
        length = min(d - k, limit) + 1
        if left < 0 and right < 0:
            rows = _grown(rows, top + length)
            for u in range(length):
                rows[top + u] = area[m] * (d - u)
            row_at[m], row_len[m] = top, length
            top += length
            continue
        one = left if left >= 0 else right
        both = left >= 0 and right >= 0
        d1 = node[one, 1] - node[one, 0]
        d2 = d - d1
        n1, r1 = row_len[one], row_at[one]
        all1 = d1 <= (k - 1) * (node[one, 5] + 1)
        n2 = row_len[right] if both else 0
        r2 = row_at[right] if both else 0
        all2 = d2 <= (k - 1) * (node[one, 5] + 1)
        most = (d1 if all1 else n1 - 1) + (d2 if all2 else n2 - 1)
        if most >= len(temp):
            temp, best = np.empty(2 * most), np.empty(2 * most)
            best_s, share = np.empty(2 * most, np.int32), np.empty(2 * most, np.int32)
        for s in range(most + 1):
            temp[s] = np.inf
        for i in range(n1):
            c1 = rows[r1 + i]
            for j in range(n2):
                c = c1 + rows[r2 + j]
                if c < temp[i + j]:
                    temp[i + j] = c
                    share[i + j] = i
            if all2 and c1 < temp[i + d2]:
                temp[i + d2] = c1
                share[i + d2] = i
        if all1:
            for j in range(n2):
                if rows[r2 + j] < temp[d1 + j]:
                    temp[d1 + j] = rows[r2 + j]
                    share[d1 + j] = d1
            if all2:
                temp[d] = 0.0
                share[d] = d1
        # Suffix minima; on equal cost the smaller s, hence <=.
        low, low_s = np.inf, most
        for s in range(most, k - 1, -1):
            c = temp[s] + area[m] * s
            if c <= low:
                low, low_s = c, s
            best[s], best_s[s] = low, low_s
        top = row_at[right] if both else row_at[one]
        rows = _grown(rows, top + length)
        choice = _grown(choice, used + length + most + 1)
        choice_at[m] = used
        for u in range(length):
            c = temp[u] if u <= most else np.inf
            s = u
            if u + k <= most and best[u + k] - area[m] * u < c:
                c = best[u + k] - area[m] * u
                s = best_s[u + k]
            rows[top + u] = c
            choice[used + u] = s
        used += length
        if both:
            share_at[m] = used
            for s in range(most + 1):
                choice[used + s] = share[s]
            used += most + 1
        row_at[m], row_len[m] = top, length
        top += length
    passed, kept = np.zeros(total, np.int32), np.zeros(total, np.int32)
    cost = rows[row_at[0]]
    for m in range(total):
        d, u = node[m, 1] - node[m, 0], passed[m]
        left, right = node[m, 3], node[m, 4]
        if left < 0 and right < 0:
            kept[m] = d - u
            continue
        s = d if u == d else choice[choice_at[m] + u]
        kept[m] = s - u
        if share_at[m] >= 0:
            passed[left] = node[left, 1] - node[left, 0] if u == d else choice[share_at[m] + s]
            passed[right] = s - passed[left]
        else:
            one = left if left >= 0 else right
            passed[one] = s - (d - (node[one, 1] - node[one, 0]))
    return passed, kept, cost


@numba.njit(cache=True)
def _farthest_last(x: Any, y: Any, pool: Any) -> Any:
    """Order a pool by its members' L1 distance, over all instants, to its coordinatewise median; ties by index."""
    # One kind of sort of one type: each costs a second to compile.
    column = pool.astype(np.int64)
    pool = pool[np.argsort(column, kind="mergesort")]
    distance = np.zeros(len(pool), np.int64)
    for v in (x, y):
        for j in range(v.shape[1]):
            for p in range(len(pool)):
                column[p] = v[pool[p], j]
            middle = column[np.argsort(column, kind="mergesort")[(len(pool) - 1) // 2]]
            for p in range(len(pool)):
                distance[p] += abs(column[p] - middle)
    return pool[np.argsort(distance, kind="mergesort")]


@numba.njit(cache=True)
def assign(x: Any, y: Any, order: Any, node: Any, passed: Any, kept: Any) -> Any:
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
    members, pool = np.empty(n, np.int32), np.empty(n, np.int32)
    offset, depth = [np.int64(0)], [np.int32(0)]
    done = waiting = 0
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
            pool[waiting] = order[p]
            waiting += 1
        if kept[m] == 0:
            continue
        base = waiting - kept[m] - passed[m]
        chosen = pool[base:waiting].copy()
        if passed[m] > 0:
            chosen = _farthest_last(x, y, chosen)
        for p in range(kept[m]):
            members[done + p] = chosen[p]
        for p in range(passed[m]):
            pool[base + p] = chosen[kept[m] + p]
        waiting = base + passed[m]
        done += kept[m]
        offset.append(np.int64(done))
        depth.append(node[m, 2])
    return members, np.array(offset), np.array(depth)[1:]


@numba.njit(cache=True)
def boxes(x: Any, y: Any, members: Any, offset: Any) -> Any:
    """Minimum bounding rectangles of bundles at every instant: half-open int32[R, l, 4] in cells."""
    box = np.empty((len(offset) - 1, x.shape[1], 4), np.int32)
    for r in range(len(offset) - 1):
        for p in range(offset[r], offset[r + 1]):
            i = members[p]
            for j in range(x.shape[1]):
                if p == offset[r]:
                    box[r, j, 0], box[r, j, 1], box[r, j, 2], box[r, j, 3] = x[i, j], y[i, j], x[i, j] + 1, y[i, j] + 1
                else:
                    box[r, j, 0] = min(box[r, j, 0], x[i, j])
                    box[r, j, 1] = min(box[r, j, 1], y[i, j])
                    box[r, j, 2] = max(box[r, j, 2], x[i, j] + 1)
                    box[r, j, 3] = max(box[r, j, 3], y[i, j] + 1)
    return box
