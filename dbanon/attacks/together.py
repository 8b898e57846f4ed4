"""Counts the names in a run that travel together: people who are in the data under two names hide among themselves.

Two members of a group travel together where one of them made 20 moves and the other was within a third of a move at
the end of nearly all. The moves are the longest of which a person made so many, so that no length and no speed is
given: how far apart two people are is compared with how far each came. Where a run is too short for that, all data of
the person count; who stands still, or has fewer than 21 fixes there, is not compared. Stored rows say who is in a
group; of very many people some are drawn, always the same ones, so that a verification repeats.
"""

from dataclasses import replace

import numpy as np

from dbanon.attacks import Evidence, Verdict
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import join_ranges
from dbanon.base.trajectory import Bool, Float, Int

MOVES = 20
"""With so many, no two taxis, generated people or phones travelled together: benchmarks/copies.py."""
_MAX_MEMBERS, _MAX_PAIRS, _MAX_PEOPLE, _MAX_FIXES = 1 << 10, 1 << 19, 1 << 14, 1 << 23


def prepare() -> None:
    """Compile."""
    both, t = np.arange(2), np.tile(np.arange(MOVES + 1.0), 2)
    _mark(2 * both, both, (np.arange(3) * (MOVES + 1), t, t, t))


def add_figures(verdict: Verdict, evidence: Evidence) -> Verdict:
    """Add what `count_names` finds to the figures of a verdict that passed."""
    figures = count_names(evidence, *list_groups(evidence)) if verdict.passed else {}
    return replace(verdict, figures={**verdict.figures, **figures})


def list_groups(evidence: Evidence) -> tuple[Int, Int]:
    """List who is hidden together: the subjects of group i are ``member[offset[i]:offset[i + 1]]``, each once."""
    data, people = evidence.trajectories, int(evidence.trajectories.subject.max(initial=0)) + 1
    path = find(data.trajectory_id, evidence.member_trajectory)
    key = sort_distinct((evidence.member_record * people + data.subject[path])[path >= 0])
    record = key // people
    if len(key) and not (np.diff(record) == 0).any():
        # A record is one person's, hidden among the others of its hiding sets, or those whose rows begin in its region.
        if len(evidence.hiding_record):
            sets = np.arange(len(evidence.hiding_record))
            sets = np.append(sets, np.repeat(sets, np.diff(evidence.hiding_offset)))
            at = find(record, np.append(evidence.hiding_record, evidence.hiding_other))
        else:
            some = np.diff(evidence.offset) > 0
            sets = evidence.region[evidence.offset[:-1][some]].astype(np.int64)
            at = find(record, evidence.record_id[some])
        key = sort_distinct((sets * people + key[at] % people)[at >= 0])
    return np.append(np.flatnonzero(np.diff(key // people, prepend=-1)), len(key)), key % people


def count_names(evidence: Evidence, offset: Int, member: Int) -> dict[str, int]:
    """Count the names that were compared, and those of them that travel together with another one of their group.

    O(fixes + pairs log) time, for the fixes and pairs of some thousand people at most.
    """
    offset, member = _draw_groups(evidence, offset, member)
    people = sort_distinct(member)
    first, t, x, y = _copy_fixes(evidence, people)
    able, marked = np.zeros((2, len(people)), np.bool_)
    for kept in (_is_considered(evidence, t), np.ones(len(t), np.bool_)):
        some = (np.append(0, np.cumsum(kept))[first], t[kept], x[kept], y[kept])
        more, together = _mark(offset, np.searchsorted(people, member), some)
        able, marked = able | more, np.where(able, marked, together & more)
        if able.all() or kept.all():
            break
    return {"names_compared": int(able.sum()), "names_together": int(marked.sum())}


def _draw_groups(evidence: Evidence, offset: Int, member: Int) -> tuple[Int, Int]:
    """Draw groups of several people: all where they are few, and of a very large one some members."""
    data, rng = evidence.trajectories, np.random.default_rng(0)
    people = int(data.subject.max(initial=0)) + 1
    most = min(_MAX_PEOPLE, _MAX_FIXES * people // max(data.fixes, 1))
    size = np.diff(offset)
    chosen = rng.permutation(np.flatnonzero(size > 1))
    taken = np.minimum(size[chosen], _MAX_MEMBERS)
    enough = (np.cumsum(taken * (taken - 1) // 2) > _MAX_PAIRS) | ((np.cumsum(taken) > most) & (people > most))
    chosen = chosen[: 1 + int(np.argmax(enough))] if enough.any() else chosen
    number = size[chosen]
    kept = rng.random(int(number.sum())) * np.repeat(number, number) < _MAX_MEMBERS
    ends = np.append(0, np.cumsum(kept))[np.append(0, np.cumsum(number))]
    return ends, member[join_ranges(offset[chosen], number)[kept]]


def _is_considered(evidence: Evidence, t: Float) -> Bool:
    """Whether each time is within the run's `start` or `since`, and `until`."""
    start, since, until = (evidence.params.get(name) for name in ("start", "since", "until"))
    since = since if start is None else start
    return (t >= (-np.inf if since is None else since)) & (t < (np.inf if until is None else until))


def _copy_fixes(evidence: Evidence, people: Int) -> tuple[Int, Float, Float, Float]:
    """Copy the fixes of some people, by person and time: where those of each begin, times and positions."""
    data = evidence.trajectories
    at = np.flatnonzero(np.isin(data.subject, people))
    number = np.diff(data.offset)[at]
    fix, who = join_ranges(data.offset[at], number), np.repeat(data.subject[at], number)
    t = data.times[fix % len(data.times)]
    order = np.lexsort((t, who))
    first, fix = np.append(np.searchsorted(who[order], people), len(order)), fix[order]
    return first, t[order], data.x[fix], data.y[fix]


def _mark(offset: Int, member: Int, paths: tuple[Int, Float, Float, Float]) -> tuple[Bool, Bool]:
    """Find who made enough moves, and who made them together."""
    from dbanon.attacks import _moves  # Numba is slow to import

    arrays = _moves.Paths(*paths)
    moves = _moves.find_moves(arrays, MOVES)
    return moves.distance > 0, _moves.mark_together(offset, member, arrays, moves)
