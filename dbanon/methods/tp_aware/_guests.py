"""Guests: people present at only some instants of a window, who join the bundle whose area grows least for them.

Bundles are formed before, of people present at all instants. Those who were present most often are asked first. Who
would make no bundle grow by `cap` cells an instant of presence or less stays out, and is asked again once others have
joined. Invariant: boxes grow at instants at which the guest is present, and follow from positions alone; at the end,
nobody who stays out would make a box grow by `cap` or less.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int, Int32
from dbanon.methods.kernels import hilbert

ABSENT = -(2**31)
MAX_DISTANCE = 2**29
"""Cells from the root's corner, beyond which nobody is a guest: sides must fit into 32 bits."""
_FANOUT = 8


class _Tree(NamedTuple):
    """Boxes around boxes: `_FANOUT` leaves have a node, as many nodes have one, and so on to the root.

    A box of a node holds those below it; the least width and height of these bound how much any of them grows.
    """

    box: Int32  # [r, l, 4]: of the bundles, half-open
    leaf: Int  # [r]: the bundles along a curve
    place: Int  # [r]: of each bundle on it
    node: Int32  # [n, l, 6]: xmin, ymin, xmax, ymax, least width and height; from the lowest level to the root
    begin: Int  # [levels + 1]: where the nodes of each level begin


class _Guest(NamedTuple):
    """Where a guest is: ``[0, count)`` of each array."""

    at: Int  # instants
    x: Int
    y: Int
    count: int  # type: ignore[assignment]  # the method of tuples, which nobody calls


def join(box: Int32, x: Int32, y: Int32, cap: float) -> Int:
    """Find the bundle that each guest joins, and let boxes grow.

    Parameters
    ----------
    box : int32[r, l, 4]
        Half-open cells of the bundles; those that are joined grow.
    x, y : int32[g, l]
        Cells; `ABSENT` where there is no position. Ties go by their order.
    cap : float
        Cells.

    Returns
    -------
    int64[g]
        -1 for those who stay out.

    Notes
    -----
    O(l log r) for each guest where few boxes are near; beyond `box`, nodes take a fifth of its memory.
    """
    home = np.full(len(x), -1)
    turn = np.argsort(-(x != ABSENT).sum(axis=1), kind="stable")
    tree = _build_tree(box)
    scratch = np.empty((3, x.shape[1]), np.int64)
    stack, bound = np.empty(_FANOUT * (len(tree.begin) + 1), np.int64), np.empty(_FANOUT * (len(tree.begin) + 1))
    _join_all(tree, x, y, turn, cap, home, scratch, stack, bound)
    return home


def _build_tree(box: Int32) -> _Tree:
    middle = box[:, box.shape[1] // 2, :2].astype(np.int64)
    middle -= middle.min(axis=0)
    order = hilbert.choose_order(int(middle.max()) + 1)
    leaf = np.argsort(hilbert.number_cells(middle[:, 0], middle[:, 1], order), kind="stable")
    sizes = [-(-len(box) // _FANOUT)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // _FANOUT))
    begin = np.concatenate([[0], np.cumsum(sizes)])
    node = np.empty((begin[-1], box.shape[1], 6), np.int32)
    node[..., [0, 1, 4, 5]], node[..., 2:4] = 2**31 - 1, ABSENT
    place = np.empty(len(leaf), np.int64)
    place[leaf] = np.arange(len(leaf))
    tree = _Tree(box, leaf, place, node, begin)
    _fill_nodes(tree)
    return tree


@compile_kernel
def _fill_nodes(tree: _Tree) -> None:
    box, leaf, _, node, begin = tree
    for p in range(len(leaf)):
        own = box[leaf[p]]
        for j in range(box.shape[1]):
            _widen(node[p // _FANOUT, j], own[j], own[j, 2] - own[j, 0], own[j, 3] - own[j, 1])
    for level in range(1, len(begin) - 1):
        for p in range(begin[level] - begin[level - 1]):
            own = node[begin[level - 1] + p]
            for j in range(box.shape[1]):
                _widen(node[begin[level] + p // _FANOUT, j], own[j], own[j, 4], own[j, 5])


@compile_kernel
def _widen(around: Int32, own: Int32, wide: int, high: int) -> None:
    for axis in range(2):
        around[axis] = min(around[axis], own[axis])
        around[2 + axis] = max(around[2 + axis], own[2 + axis])
    around[4], around[5] = min(around[4], wide), min(around[5], high)


@compile_kernel
def _join_all(
    tree: _Tree, x: Int32, y: Int32, turn: Int, cap: float, home: Int, scratch: Int, stack: Int, bound: Float
) -> None:
    at, east, north = scratch[0], scratch[1], scratch[2]
    joined = True
    while joined:
        joined = False
        for g in turn:
            if home[g] >= 0:
                continue
            count = 0
            for j in range(x.shape[1]):
                if x[g, j] != ABSENT:
                    at[count], east[count], north[count] = j, x[g, j], y[g, j]
                    count += 1
            guest = _Guest(at, east, north, count)
            if count:
                home[g] = _find_home(tree, guest, cap * count, stack, bound)
            if home[g] >= 0:
                joined = True
                _grow(tree, home[g], guest)


@compile_kernel
def _find_home(tree: _Tree, guest: _Guest, most: float, stack: Int, bound: Float) -> Any:
    """Find the bundle that grows least and by `most` cells at most, ties by number; -1 if there is none."""
    box, leaf, _, node, begin = tree
    best = np.int64(-1)
    stack[0], bound[0], size = begin[-1] - 1, 0.0, 1
    # Kept true: whoever grows by less than `most` is below a node of the stack, or is `best`.
    while size:
        size -= 1
        if bound[size] > most:
            continue
        level, low = 0, size
        while stack[low] >= begin[level + 1]:
            level += 1
        first = (stack[low] - begin[level]) * _FANOUT
        if level == 0:
            for p in range(first, min(first + _FANOUT, len(leaf))):
                growth = _measure(box[leaf[p]], guest, most)
                if growth < most or (growth == most and (best < 0 or leaf[p] < best)):
                    best, most = leaf[p], growth
            continue
        for p in range(begin[level - 1] + first, min(begin[level - 1] + first + _FANOUT, begin[level])):
            stack[size], bound[size] = p, _measure(node[p], guest, most)
            if bound[size] <= most:
                # The nearest comes last, and is looked at first.
                if size > low and bound[size] > bound[size - 1]:
                    stack[size], stack[size - 1] = stack[size - 1], stack[size]
                    bound[size], bound[size - 1] = bound[size - 1], bound[size]
                size += 1
    return best


@compile_kernel
def _measure(box: Int32, guest: _Guest, most: float) -> float:
    """Count the cells by which a box grows; of a node, by which any box below grows at least. Above `most`, fewer."""
    total, least = 0.0, box.shape[1] == 6
    for c in range(guest.count):
        j, x, y = guest.at[c], guest.x[c], guest.y[c]
        wide = np.float64(box[j, 4] if least else box[j, 2] - box[j, 0])
        high = np.float64(box[j, 5] if least else box[j, 3] - box[j, 1])
        wider = np.float64(max(box[j, 0] - x, x + 1 - box[j, 2], 0))
        higher = np.float64(max(box[j, 1] - y, y + 1 - box[j, 3], 0))
        total += wide * higher + high * wider + wider * higher
        if total > most:
            break
    return total


@compile_kernel
def _grow(tree: _Tree, bundle: int, guest: _Guest) -> None:
    box, place, node, begin = tree.box, tree.place, tree.node, tree.begin
    p = place[bundle]
    for level in range(-1, len(begin) - 1):
        own = box[bundle]
        if level >= 0:
            p //= _FANOUT
            own = node[begin[level] + p]
        for c in range(guest.count):
            around, x, y = own[guest.at[c]], np.int32(guest.x[c]), np.int32(guest.y[c])
            around[0], around[1] = min(around[0], x), min(around[1], y)
            around[2], around[3] = max(around[2], x + 1), max(around[3], y + 1)


def list_stretches(present: NDArray[np.bool_]) -> tuple[Int, Int, Int]:
    """List from which instant to before which each is present without a break: row, begin and end, by row."""
    edge = np.diff(np.pad(present, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, begin = np.nonzero(edge > 0)
    return row, begin, np.nonzero(edge < 0)[1]
