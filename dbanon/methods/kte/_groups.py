"""Groups of at least k subjects whose whole trajectories are cheap to merge: plain k-anonymity by k-merge.

Subjects are numbered here in the run's order, so that every tie (the lesser number) is decided by it. Many are cut into
blocks, each of which is a task: costs of pairs, groups, and exchanges; then a second time, along other borders, with
the groups that were found. Costs of pairs come from `_pairs`, candidates from all pairs where those are tabulated, else
from `_near`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from dbanon.base import cores
from dbanon.base.kernels import compile_kernel
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Int, freeze_arrays
from dbanon.methods.kte import _blocks, _exchange, _k_merge, _matching, _near, _pairs
from dbanon.methods.kte._pairs import Pairs, is_among, sum_costs
from dbanon.methods.kte._samples import Merged, Samples, Stretches, select_stretches

_CANDIDATES_BEYOND_K = 32  # and as many again as the group has
_MAX_EXHAUSTIVE_SUBJECTS = 256  # subjects left among whom all are candidates
_EXCHANGE_CANDIDATES = 8  # groups of candidates that an exchange is tried with


class _Window(NamedTuple):
    """The subjects of a window, and the blocks that they are formed in."""

    begin: int  # of the subjects of all windows, the first
    samples: Samples
    order: Int  # [n]: its subjects in the run's order
    blocks: list[Int]  # places in `order`
    rngs: list[np.random.Generator]  # of each block


def group(
    samples: Samples, k: int, rank: Int, rng: np.random.Generator, *, improve: bool = True, tasks: Tasks = SERIAL_TASKS
) -> Int:
    """Partition the subjects of each window into groups of at least k at small total cost of merging each.

    Parameters
    ----------
    rank : int64[codes]
        Place of each subject, by its code, in the run's order: it decides between equals. Windows have orders of their
        own, which are drawn.
    improve : bool
        Exchange subjects between groups after they are formed greedily.
    tasks : Tasks
        Does the blocks of all windows, many small ones at once.

    Returns
    -------
    int64[s]
        Number of the group of each subject, by window and the least place in the order of its members; -1 for all of a
        window where there are fewer than k.

    Notes
    -----
    Greedy: of the pairs that are left, the cheapest, joined by those who add least in pairs, until it has k. The last
    subjects, fewer than k, join the groups they cost least. Exchanges: for k = 2, alternating chains of pairs; else,
    and for groups of more than k, subjects of two groups, where the merges of both become cheaper. O(s) time and memory
    beyond `_blocks.MAX_BLOCK_SUBJECTS` subjects. Groups of a window depend on nothing of the others.
    """
    windows = list(_list_windows(samples, k, rank, rng))
    numbered = _form_all(samples, windows, k, improve, tasks)
    if improve:
        _exchange_all(windows, numbered, k, tasks)
    groups, count = np.full(len(samples.subject), -1, np.int64), 0
    for window, group in zip(windows, numbered, strict=True):
        own = np.unique(_find_first_places(group), return_inverse=True)[1]
        groups[window.begin + window.order] = own + count
        count += own.max() + 1
    return groups


def _list_windows(samples: Samples, k: int, rank: Int, rng: np.random.Generator) -> Iterator[_Window]:
    """Cut windows of at least k subjects into blocks."""
    key = 0 if samples.window is None else int(rng.integers(1 << 62))
    for begin, end in pairwise(samples.window_ends.tolist()):
        if end - begin < max(k, 1):
            continue
        order, own, drawn = np.argsort(rank[samples.subject[begin:end]], kind="stable"), samples, rng
        if samples.window is not None:
            # By its number, so that a window has the same groups whichever others there are.
            drawn = np.random.default_rng([key, int(samples.window[begin]) % (1 << 64)])
            own, order = _select_window(samples, begin, end), draw_order(order, drawn)
        if end - begin <= _blocks.MAX_BLOCK_SUBJECTS:
            yield _Window(begin, own, order, [np.arange(len(order))], [drawn])
            continue
        blocks = _blocks.cut(_blocks.locate_subjects(own, order), _blocks.MAX_BLOCK_SUBJECTS, k)
        seeds = drawn.integers(1 << 62, size=len(blocks))
        yield _Window(begin, own, order, blocks, [np.random.default_rng(int(seed)) for seed in seeds])


def _select_window(samples: Samples, begin: int, end: int) -> Samples:
    offset = samples.offset[begin : end + 1]
    there = slice(offset[0], offset[-1])
    return replace(
        samples, subject=samples.subject[begin:end], offset=offset - offset[0], window=None, window_s=None,
        slot=samples.slot[there], x=samples.x[there], y=samples.y[there],
    )  # fmt: skip


def draw_order(order: Int, rng: np.random.Generator) -> Int:
    """Draw the order of the subjects of a window, who come in that of the run: int64[n]."""
    # In one order for all windows, a reader of several learns from ties who is early in it.
    return order[rng.permutation(len(order))]


def _form_all(samples: Samples, windows: list[_Window], k: int, improve: bool, tasks: Tasks) -> list[Int]:
    """Number the groups of each window, which are formed in each block by itself."""
    batches: list[list[tuple[Int, np.random.Generator]]] = []
    room = 0
    for window in windows:
        for some, rng in zip(window.blocks, window.rngs, strict=True):
            if room < len(some):
                batches.append([])
                room = _blocks.MAX_BLOCK_SUBJECTS
            batches[-1].append((window.begin + window.order[some], rng))
            room -= len(some)
    work = (
        (
            _select_samples(samples, np.concatenate([who for who, _ in batch])),
            np.array([len(who) for who, _ in batch]),
            k,
            improve,
            [rng for _, rng in batch],
        )
        for batch in batches
    )
    # A single one has all threads.
    made = _map_blocks(tasks, _form_blocks, work) if len(batches) > 1 else tasks.map(_form_blocks, work)
    labels = chain.from_iterable(made)
    return [_join_labels(window.blocks, labels) for window in windows]


def _exchange_all(windows: list[_Window], numbered: list[Int], k: int, tasks: Tasks) -> None:
    """Exchange subjects of windows that were cut, in other blocks."""
    many = [(at, _cut_again(window, numbered[at], k)) for at, window in enumerate(windows) if len(window.blocks) > 1]

    def iter_work() -> Iterator[tuple[Any, ...]]:
        for at, blocks in many:
            window, home = windows[at], np.empty(len(windows[at].order), np.int64)
            for number, some in enumerate(window.blocks):
                home[some] = number
            for some in blocks:
                own = np.unique(numbered[at][some], return_inverse=True)[1]
                yield _select_samples(window.samples, window.order[some]), k, own, home[some]

    labels = iter(_map_blocks(tasks, _exchange_block, iter_work()))
    for at, blocks in many:
        numbered[at] = _join_labels(blocks, labels)


def _cut_again(window: _Window, group: Int, k: int) -> list[Int]:
    """Cut across the borders of the first blocks; a group goes as a whole to where most of it is."""
    place, size = _blocks.locate_subjects(window.samples, window.order), np.bincount(group)
    middle = np.column_stack([np.bincount(group, column) / size for column in _blocks.turn_places(place).T])
    by_group = np.argsort(group, kind="stable")
    ends = np.concatenate([[0], np.cumsum(size)])
    return [
        np.sort(np.concatenate([by_group[ends[g] : ends[g + 1]] for g in some]))
        for some in _blocks.cut(middle, max(1, _blocks.MAX_BLOCK_SUBJECTS // k), 1)
    ]


def _join_labels(blocks: list[Int], labels: Iterator[Int]) -> Int:
    """Number the groups of a window, given those of each of its blocks."""
    group, count = np.empty(sum(map(len, blocks)), np.int64), 0
    for some in blocks:
        label = next(labels)
        group[some] = label + count
        count += label.max() + 1
    return group


def merge_groups(samples: Samples, group: Int, tasks: Tasks = SERIAL_TASKS) -> Merged:
    """Merge the samples of each group, by its number; of -1 nobody."""
    order = np.argsort(group, kind="stable")
    order = order[group[order] >= 0]
    offset = np.searchsorted(group[order], np.arange(group.max(initial=-1) + 2))
    return _k_merge.merge(samples, offset, samples.offset[:-1][order], samples.offset[1:][order], tasks)


def _select_samples(samples: Samples, who: Int) -> Stretches:
    return select_stretches(samples, samples.offset[:-1][who], samples.offset[1:][who])


def _map_blocks(tasks: Tasks, function: Callable[..., Any], work: Iterable[tuple[Any, ...]]) -> Iterable[Any]:
    """Do blocks, in this process as many at once as it has threads."""
    if tasks is not SERIAL_TASKS:
        return tasks.map(function, work)

    def call_alone(arguments: tuple[Any, ...]) -> Any:
        with cores.limit_threads(1):
            return function(*arguments)

    return cores.map_each(call_alone, work)


def prepare(samples: Samples, k: int) -> None:
    """Compile what only very many subjects need: costs that are remembered, and the index."""
    some = freeze_arrays(_select_samples(samples, np.arange(len(samples.subject))))
    _near.find_nearest(_near.compute_signatures(some), k)
    for improve in (False, True):
        _partition(_Work(some, k, 0), np.random.default_rng(0), improve=improve)


def _form_blocks(samples: Stretches, people: Int, k: int, improve: bool, rngs: list[np.random.Generator]) -> list[Int]:
    """Form groups of each of some blocks, of so many subjects: a task."""
    formed = []
    for (low, high), rng in zip(pairwise([0, *np.cumsum(people).tolist()]), rngs, strict=True):
        offset = samples.offset[low : high + 1]
        there = slice(offset[0], offset[-1])
        own = Stretches(offset - offset[0], samples.slot[there], samples.x[there], samples.y[there])
        formed.append(_partition(_Work(own, k, _pairs.MAX_TABULATED_SUBJECTS), rng, improve=improve))
    return formed


def _exchange_block(samples: Stretches, k: int, group: Int, home: Int) -> Int:
    """Exchange subjects of groups that were formed in different blocks, their homes: a task."""
    work = _Work(samples, k, _pairs.MAX_TABULATED_SUBJECTS)
    if k == 2:
        foreign = (home[work.near] != home[:, None]).any(axis=1)
        _pair_up(work, group, foreign, None)
    members, size = _tabulate_members(group)
    _swap(work, group, home[members[:, 0]] if k > 2 else np.where(size > k, np.arange(len(size)), -1))
    return group


class _Work:
    """Subjects of a block in the run's order, with the costs of pairs and, cheapest first, whom each is near."""

    def __init__(self, samples: Stretches, k: int, most: int) -> None:
        self.samples, self.k, self.n = freeze_arrays(samples), k, len(samples.offset) - 1
        self.table: Pairs = _pairs.build_pairs(samples, most)
        self.wanted = min(_CANDIDATES_BEYOND_K + k, self.n - 1)
        self.signature = None if self.table.is_complete else _near.compute_signatures(samples)
        self.all_near = self.find_candidates(np.arange(self.n))
        self.near = np.ascontiguousarray(self.all_near[:, : self.wanted])

    def find_candidates(self, left: Int) -> Int:
        """Whom to merge each of some subjects with, among them, cheapest first: int64[len(left), c]."""
        number = len(left)
        if number <= _MAX_EXHAUSTIVE_SUBJECTS or self.signature is None:
            near = np.broadcast_to(np.arange(number), (number, number))
            near = near[~np.eye(number, dtype=bool)].reshape(number, number - 1)
        else:
            near = _near.find_nearest(self.signature[left], self.wanted).astype(np.int64)
        one = np.repeat(left, near.shape[1])
        costs = _pairs.look_up(self.table, one, left[near.ravel()]).reshape(near.shape)
        return np.asarray(left[np.take_along_axis(near, np.argsort(costs, axis=1, kind="stable"), axis=1)], np.int64)

    def compute_costs(self, members: Int, size: Int) -> Int:
        """Cost of merging groups: members int64[g, c], of which the first size[g] count."""
        inside = np.arange(members.shape[1]) < size[:, None]
        who = members[inside]
        offset = np.concatenate([[0], np.cumsum(size)])
        return _k_merge.compute_costs(self.samples, offset, self.table.begin[who], self.table.end[who])


def _find_first_places(numbers: Int) -> Int:
    """The first place at which each number stands: equal for those of one group, ascending by least place."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return np.asarray(first[inverse], np.int64)


def _partition(work: _Work, rng: np.random.Generator, *, improve: bool) -> Int:
    """Number of the group of each, in any order."""
    group = np.full(work.n, -1, np.int64)
    left, number, near = np.arange(work.n), 0, work.all_near
    if work.k == 1:
        return left
    members = np.empty(work.k, np.int64)
    # The paper merges groups drawn at random (Section IV-B); forming them is ours. Each pass forms one at least, since
    # its first pair has k - 1 near subjects who are all free: so this ends.
    while len(left) >= work.k:
        a, b = np.repeat(left, near.shape[1]), near.ravel()
        costs = _pairs.look_up(work.table, a, b)
        # Each pair once, where either knows the other, the cheapest first.
        low, high = np.minimum(a, b), np.maximum(a, b)
        by_cost = np.lexsort((high, low, costs))
        wide = np.full((work.n, near.shape[1]), -1)
        wide[left] = near
        number = _grow(work.table, wide, low[by_cost], high[by_cost], members, number, group)
        left = np.flatnonzero(group < 0)
        near = work.find_candidates(left) if len(left) >= work.k else near
    if improve and work.k == 2:
        _pair_up(work, group, np.ones(work.n, bool), rng)
    # Fewer than k are left, who cannot hide one another.
    _join(work, left, group)
    if improve:
        size = np.bincount(group)
        own = np.arange(len(size))
        _swap(work, group, own if work.k > 2 else np.where(size > work.k, own, -1))
    return group


def _pair_up(work: _Work, group: Int, active: Any, rng: np.random.Generator | None) -> None:
    """Exchange the partners of pairs, from the active ones on."""
    mate = _find_mates(group)
    _matching.improve(work.table, work.near, mate, active & (mate >= 0), rng)
    least = np.where(mate >= 0, np.minimum(np.arange(work.n), mate), _find_first_places(group))
    inside = group >= 0
    group[inside] = np.unique(least[inside], return_inverse=True)[1]


def _swap(work: _Work, group: Int, home: Int) -> None:
    """Exchange subjects of groups of different homes, or of those that changed."""
    members, size = _tabulate_members(group)
    # Room for all who are too many.
    room = np.full((len(size), int(size.max() + (size - work.k).sum() + 1)), -1)
    room[:, : members.shape[1]] = members
    # Also where there are no more than that: the kernel is compiled for one layout.
    near = np.ascontiguousarray(work.near[:, :_EXCHANGE_CANDIDATES])
    _exchange.improve(work.table, near, work.k, room, size, home)
    inside = np.arange(room.shape[1]) < size[:, None]
    group[room[inside]] = np.nonzero(inside)[0]


def _find_mates(group: Int) -> Int:
    """The other of each one's pair; -1 for those in none."""
    mate = np.full(len(group), -1, np.int64)
    order = np.argsort(group, kind="stable")
    order = order[group[order] >= 0]
    order = order[np.bincount(group[order])[group[order]] == 2]
    mate[order[::2]], mate[order[1::2]] = order[1::2], order[::2]
    return mate


def _tabulate_members(group: Int) -> tuple[Int, Int]:
    """Members of each group, in a row with room for others, and how many they are."""
    size = np.bincount(group)
    members = np.full((len(size), size.max()), -1, np.int64)
    order = np.argsort(group, kind="stable")
    members[np.arange(size.max()) < size[:, None]] = order
    return members, size


def _join(work: _Work, left: Int, group: Int) -> None:
    """Let those who are left, fewer than k, join the groups of their candidates that grow least by them."""
    # One after the other, in the run's order: each sees the groups as the earlier ones left them.
    for one in left:
        members, size = _tabulate_members(np.where(group < 0, group.max() + 1, group))
        members, size = members[:-1], size[:-1]  # the last row is of those in no group
        near = np.unique(group[work.near[one]])
        near = near[near >= 0] if (group[work.near[one]] >= 0).any() else np.arange(len(size))
        before = work.compute_costs(members[near], size[near])
        wider = np.full((len(near), members.shape[1] + 1), -1)
        wider[:, :-1] = members[near]
        wider[np.arange(len(near)), size[near]] = one
        added = work.compute_costs(wider, size[near] + 1) - before
        least = members[near, 0]  # of groups that grow as much, that of the first member
        group[one] = near[np.lexsort((least, added))[0]]


@compile_kernel
def _grow(table: Pairs, near: Int, low: Int, high: Int, members: Int, number: int, group: Int) -> int:
    """Number groups of k, from the cheapest pairs on; the number of the next."""
    k = len(members)
    for pair in range(len(low)):
        if group[low[pair]] >= 0 or group[high[pair]] >= 0:
            continue
        members[0], members[1], size = low[pair], high[pair], 2
        while size < k:
            # Who is near a member and adds the least sum of pairs.
            best, by = np.inf, np.int64(-1)
            for m in range(size):
                for one in near[members[m]]:
                    if one < 0 or group[one] >= 0 or is_among(members, size, one):
                        continue
                    added = sum_costs(table, members, size, one, -1)
                    if added < best or (added == best and one < by):
                        best, by = added, one
            if by < 0:
                break
            members[size] = by
            size += 1
        if size == k:
            group[members] = number
            number += 1
    return number
