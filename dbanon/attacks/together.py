"""Counts the names in a run that travel together: people who are in the data under two names hide among themselves.

Two members of a group travel together where one of them made 20 moves and the other was within a third of a move at
the end of nearly all. The moves are the longest of which a person made so many, so that no length and no speed is
given: how far apart two people are is compared with how far each came. Who stands still, or is seen fewer than 21
times, is not compared.

Invariant: what is counted follows from the stored rows and the data alone; of very many people some are drawn.
"""

from dataclasses import replace

import numpy as np

from dbanon.attacks import Evidence
from dbanon.attacks.once import Hidden
from dbanon.attacks.shared.apart import WithoutFixes, is_without_fixes
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.replay import join_ranges
from dbanon.base.trajectory import Bool, Float, Int

MOVES = 20
"""Two taxis of a night made 15 of 16 such moves together, and never 18 of 20: benchmarks/copies.py."""
_LEAST_KNOWN, _NEAR, _MISSED = 15, 1 / 3, 0.1
_MAX_MEMBERS, _MAX_PAIRS, _MAX_PEOPLE, _MAX_FIXES = 1 << 10, 1 << 19, 1 << 14, 1 << 23


def prepare() -> None:
    """Compile."""
    both, t = np.arange(2), np.tile(np.arange(MOVES + 1.0), 2)
    _mark(Hidden(offset=2 * both, member=both), np.arange(3) * (MOVES + 1), t, t, t)


def count_names(evidence: Evidence, hidden: Hidden) -> dict[str, int]:
    """Count the names that were compared, and those of them that travel together with another one of their group.

    O(fixes + pairs log) time, for the fixes and pairs of some thousand people at most.
    """
    hidden = _draw_groups(evidence, hidden)
    people = sort_distinct(hidden.member)
    member = np.searchsorted(people, hidden.member)
    able, marked = _mark(replace(hidden, member=member), *_copy_fixes(evidence, people))
    return {"names_compared": int(able.sum()), "names_together": int((able & marked).sum())}


def _draw_groups(evidence: Evidence, hidden: Hidden) -> Hidden:
    """Draw groups of several people: all where they are few, and of a very large one some members."""
    data, rng = evidence.trajectories, np.random.default_rng(0)
    people, most = int(data.subject.max(initial=0)) + 1, _MAX_PEOPLE
    if not is_without_fixes(evidence):
        most = min(most, _MAX_FIXES * people // max(int(_is_considered(evidence, data.t).sum()), 1))
    size = np.diff(hidden.offset)
    chosen = rng.permutation(np.flatnonzero(size > 1))
    taken = np.minimum(size[chosen], _MAX_MEMBERS)
    enough = np.cumsum(taken * (taken - 1) // 2) > _MAX_PAIRS
    if people > most:
        enough |= np.cumsum(taken) > most
    chosen = chosen[: 1 + int(np.argmax(enough))] if enough.any() else chosen
    number = size[chosen]
    kept = rng.random(int(number.sum())) * np.repeat(number, number) < _MAX_MEMBERS
    return Hidden(
        offset=np.append(0, np.cumsum(kept))[np.append(0, np.cumsum(number))],
        member=hidden.member[join_ranges(hidden.offset[chosen], number)[kept]],
    )


def _is_considered(evidence: Evidence, t: Float) -> Bool:
    """Whether each time is within the run's `since` and `until`."""
    since, until = (evidence.params.get(name) for name in ("since", "until"))
    return (t >= (-np.inf if since is None else since)) & (t < (np.inf if until is None else until))


def _copy_fixes(evidence: Evidence, people: Int) -> tuple[Int, Float, Float, Float]:
    """Copy the fixes of some people, by person and time: where those of each begin, times and positions."""
    data: object = evidence.trajectories
    at = np.flatnonzero(np.isin(evidence.trajectories.subject, people))
    read = data.read(at) if isinstance(data, WithoutFixes) else evidence.trajectories
    at = at if read is data else np.arange(len(at))
    number = np.diff(read.offset)[at]
    fix, who = join_ranges(read.offset[at], number), np.repeat(read.subject[at], number)
    kept = np.flatnonzero(_is_considered(evidence, read.t[fix]))
    order = kept[np.lexsort((read.t[fix[kept]], who[kept]))]
    first, fix = np.append(np.searchsorted(who[order], people), len(order)), fix[order]
    return first, read.t[fix], read.x[fix], read.y[fix]


def _mark(hidden: Hidden, first: Int, t: Float, x: Float, y: Float) -> tuple[Bool, Bool]:
    """Find who made enough moves, and who made them together."""
    from dbanon.attacks import _moves  # Numba is slow to import

    distance, stop = _moves.find_moves(first, x, y, MOVES)
    marked = _moves.mark_together(
        hidden.offset, hidden.member, first, t, x, y, distance, stop, _NEAR, _LEAST_KNOWN, _MISSED
    )
    return distance > 0, marked
