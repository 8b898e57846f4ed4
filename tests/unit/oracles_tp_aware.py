"""Plain Python statements of the paper: slow, small, and sharing nothing with `dbanon.methods`.

Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012.
A trajectory is a list of (x, y) cells; a tree node a dict of `members`, `area` (summed over instants) and `children`.
"""

from math import floor, inf


def list_u_steps(instants, height):
    """The U-tree: a level halves both axes of every instant (total 1-step generalisation)."""
    return [[(j, a, q) for j in range(instants) for a in (0, 1)] for q in reversed(range(height))]


def list_us_steps(instants, height):
    """The US-tree: a level splits the quadrant of one instant (ordered 1-step generalisation)."""
    return [[(j, 0, q), (j, 1, q)] for q in reversed(range(height)) for j in range(instants)]


def list_binary_steps(instants, height):
    """The binary US-tree: x of every instant, then y of every instant, quad level by quad level."""
    return [[(j, a, q)] for q in reversed(range(height)) for a in (0, 1) for j in range(instants)]


def grow_tree(trajectories, steps, height):
    """Materialise a G-tree: every node that holds a trajectory, down to the last step."""
    sides = [[2**height, 2**height] for _ in trajectories[0]]
    return _grow(trajectories, list(range(len(trajectories))), steps, sides)


def _grow(trajectories, members, steps, sides):
    area = sum(w * h for w, h in sides)
    if not steps:
        return {"members": members, "area": area, "children": []}
    below = [list(pair) for pair in sides]
    for j, axis, _ in steps[0]:
        below[j][axis] //= 2
    parts = {}
    for m in members:
        bits = tuple(trajectories[m][j][axis] >> q & 1 for j, axis, q in steps[0])
        parts.setdefault(bits, []).append(m)
    children = [_grow(trajectories, parts[bits], steps[1:], below) for bits in sorted(parts)]
    return {"members": members, "area": area, "children": children}


def compute_traj_anon(node, k, most=lambda d, ancestors: inf, ancestors=0):
    """Algorithm 1 with Definition 5 (k-summing) enforced: least cost by number passed up.

    `most` limits the number passed up unless it is all of them.
    """
    d = len(node["members"])
    sums = {0: 0} if node["children"] else {d: 0}
    for child in node["children"]:
        row = compute_traj_anon(child, k, most, ancestors + 1)
        new = {}
        for s, c in sums.items():
            for u, cu in row.items():
                new[s + u] = min(new.get(s + u, inf), c + cu)
        sums = new
    out = {}
    for s, c in sums.items():
        for u in [s, *range(s - k + 1)]:
            if u == d or u <= most(d, ancestors):
                out[u] = min(out.get(u, inf), c + node["area"] * (s - u))
    return out


def find_optimum(node, k, most=lambda d, ancestors: inf):
    """Cost of the best complete configuration; infinite where there is none."""
    return compute_traj_anon(node, k, most).get(0, inf)


def prune_tree(node, k):
    """Runtime pruning: where all children hold fewer than k there is nothing below."""
    children = [prune_tree(c, k) for c in node["children"]]
    if all(len(c["members"]) < k for c in children):
        children = []
    return {**node, "children": children}


def compress_chain(node):
    """Replace a chain of nodes with one child by the deepest of them."""
    while len(node["children"]) == 1:
        node = node["children"][0]
    return {**node, "children": [compress_chain(c) for c in node["children"]]}


def iter_nodes(node):
    """All nodes of a tree, parents first."""
    return [node] + [n for c in node["children"] for n in iter_nodes(c)]


def iter_partitions(members, k):
    """All ways to put members into groups of k or more."""
    yield from (p for p in _iter_partitions(list(members)) if all(len(group) >= k for group in p))


def _iter_partitions(members):
    if not members:
        yield []
        return
    for rest in _iter_partitions(members[1:]):
        yield [[members[0]], *rest]
        for i, group in enumerate(rest):
            yield [*rest[:i], [members[0], *group], *rest[i + 1 :]]


def find_best_partition(n, k, area_of):
    """Brute force over policies: a policy is a partition, each group in its cheapest cloaks."""
    return min(sum(len(g) * area_of(g) for g in p) for p in iter_partitions(range(n), k))


def make_node_area(tree):
    """Area of the deepest node of a tree that holds a whole group."""
    every = [(set(n["members"]), n["area"]) for n in iter_nodes(tree)]
    return lambda group: min(area for members, area in every if members.issuperset(group))


def make_quad_cloak_area(trajectories, height):
    """Area of the cheapest quad-cloak sequence of a group: at each instant the smallest quadrant, of any size."""

    def smallest(cells):
        q = 0
        while len({(x >> q, y >> q) for x, y in cells}) > 1:
            q += 1
        assert q <= height
        return 4**q

    return lambda group: sum(smallest([trajectories[m][j] for m in group]) for j in range(len(trajectories[0])))


def locate(fixes, t, *, align, max_gap_s, grid_s):
    """Position and suppliers of a subject at an instant, from its (time, trajectory id, x, y), or None."""
    ordered = sorted(fixes)
    slots = [floor(f[0] / grid_s) * grid_s for f in ordered]
    before = [i for i, s in enumerate(slots) if s <= t]
    after = [i for i, s in enumerate(slots) if s > t]
    if not before:
        return None
    a, sa = ordered[before[-1]], slots[before[-1]]
    exact = a[2:], {a[1]}
    if align == "exact":
        return exact if sa == t else None
    if align == "last":
        return exact if t - sa <= max_gap_s else None
    if sa == t:
        return exact
    if not after or slots[after[0]] - sa > max_gap_s:
        return None
    b, sb = ordered[after[0]], slots[after[0]]
    w = (t - sa) / (sb - sa)
    return (a[2] + (b[2] - a[2]) * w, a[3] + (b[3] - a[3]) * w), {a[1], b[1]}


def is_masking(cloaks, sets, places, sent):
    """Definition 1: each place in its cloak ((x0, y0), (x1, y1) included), each request (or None) in its set."""
    inside = all(lo[0] <= x <= hi[0] and lo[1] <= y <= hi[1] for (lo, hi), (x, y) in zip(cloaks, places, strict=True))
    return inside and all(v is None or v in s for v, s in zip(sent, sets, strict=True))


def join_rows(sets, least):
    """Rows as (first, last) instants, of the set of contents sent at each instant of a bundle; None: too few in all."""
    instants = range(len(sets))
    if 0 < len(set().union(*sets)) < least:
        return None
    rows, i = [], 0
    while i < len(sets):
        first = last = i
        if sets[i]:
            enough = [j for j in instants[i:] if len(set().union(*sets[i : j + 1])) >= least]
            last = enough[0] if enough else max(j for j in instants if sets[j])
            while len(set().union(*sets[first : last + 1])) < least:
                first = rows.pop()[0]
        rows.append((first, last))
        i = last + 1
    return rows
