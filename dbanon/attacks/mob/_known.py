"""What is known and what is said: own instants, stored hiding sets, and the counts of what was left out."""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks.mob._rows import ABSENT, Own, Positions, Shown
from dbanon.attacks.mob._run_statements import EXACT, FEW_PARTNERS, UNSEEN, Rules, Stated
from dbanon.attacks.mob._search import Scene
from dbanon.attacks.mob.evidence import ObjectEvidence
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import Timetable
from dbanon.attacks.shared.run_statements import count_misstated_hours
from dbanon.base.trajectory import Bool, Int, QuasiIdentifiers


@dataclass(frozen=True, kw_only=True, eq=False)
class Sets:
    """The stored hiding sets as pairs of subjects."""

    owner: Int  # [p]; owner, other: who is hidden by whom, each pair once: rows of `Positions`
    other: Int  # [p]
    faults: int  # sets, and others in them, that are not as they should be


def find_own_instants(known: QuasiIdentifiers, at: Positions, times: Timetable) -> tuple[Own, dict[str, int]]:
    """Find the instants whose slots hold the times of quasi-identifiers; count the times that are not used, by reason.

    A time of a subject that is never seen is counted as such, wherever it lies.
    """
    who, instant, width = find(at.subject, known.subject), times.find_instant(known.t), at.x.shape[1]
    # Only where a person was counts as known: times at which it has no position are counted by reason instead.
    unseen = (who < 0) | ~at.seen[who]
    outside = ~unseen & (instant < 0)
    absent = ~unseen & ~outside & (at.x[who, instant] == ABSENT)
    used = ~(unseen | outside | absent)
    key = sort_distinct(who[used] * width + instant[used])
    offset = np.searchsorted(key, np.arange(len(at.subject) + 1) * width)
    left_out = {"absent": absent, "outside": outside, "without_subject": unseen}
    return Own(offset=offset, instant=(key % width).astype(np.int32)), {
        reason: int(some.sum()) for reason, some in left_out.items()
    }


def read_sets(evidence: ObjectEvidence, shown: Shown, own: Own, rules: Rules) -> Sets:
    """Read whom the run says each subject is hidden among: one set, for the whole record, where it has own instants."""
    n, size = len(shown.published), np.diff(evidence.hiding_offset)
    owner, other = _find_owners(shown, evidence.hiding_record), _find_owners(shown, evidence.hiding_other)
    right = np.isnan(evidence.hiding_start_s) & np.isnan(evidence.hiding_end_s) & (owner >= 0) & own.has_instants[owner]
    owners = sort_distinct(owner[right])
    faults = int((~right).sum()) + int(right.sum()) - len(owners)
    faults += int((shown.published & own.has_instants).sum()) - len(owners)
    of = np.repeat(np.arange(len(size)), size)
    sound = right[of] & (other >= 0) & (other != owner[of])
    pair = sort_distinct(owner[of][sound] * n + other[sound])
    # Others in sets that do not count, of nobody known, the owner itself or named twice.
    faults += len(of) - len(pair)
    owner, other = pair // n, pair % n
    faults += int((np.bincount(owner, minlength=n)[owners] < rules.k - 1).sum())
    # Algorithm 3, lines 8 to 10: one who hides a person is hidden by it. Without own instants it has no set to show it.
    if rules.is_symmetric:
        back = sort_distinct(other * n + owner)
        faults += int((own.has_instants[other] & ~np.isin(pair, back, assume_unique=True)).sum())
    return Sets(owner=owner, other=other, faults=faults)


def _find_owners(shown: Shown, record_id: Int) -> Int:
    """Find whose records these are; -1 where it is not known."""
    record = find(shown.key, record_id)
    return np.where(record >= 0, shown.owner[record], -1)


def count_misstated(stated: Stated, scene: Scene, unused: dict[str, int], rules: Rules) -> int:
    """Count what the run says it left out and the data and rows do not.

    Rows do not show why a subject without own instants is in none of a run of generalised instants: left out because
    there was nobody to serve, or because nothing of it is generalised.
    """
    names = unused.keys() | stated.quasi_identifiers.keys()
    wrong = sum(unused.get(name, 0) != stated.quasi_identifiers.get(name, 0) for name in names)
    at, missing = scene.at, scene.at.seen & ~scene.shown.published
    exact = stated.subjects.get(EXACT, 0)
    wrong += int(exact > (int((missing & ~scene.own.has_instants).sum()) if rules.qid_only else 0))
    wrong += len(stated.subjects.keys() - {UNSEEN, FEW_PARTNERS, EXACT})
    wrong += int(stated.subjects.get(UNSEEN, 0) != int((~at.seen).sum()))
    wrong += int(stated.subjects.get(FEW_PARTNERS, 0) + exact != int(missing.sum()))
    return wrong + _count_misstated_hours(stated, at, missing, rules.timetable)


def _count_misstated_hours(stated: Stated, at: Positions, missing: Bool, times: Timetable) -> int:
    hour = times.start_s(np.arange(times.count)) // 3600
    hours, first = np.unique(hour, return_index=True)
    seen = np.stack([
        (at.x[:, low:high] != ABSENT).any(axis=1)
        for low, high in zip(first, [*first[1:], times.count], strict=True)
    ])  # fmt: skip
    return count_misstated_hours(stated.hours, hours * 3600, {
        "seen": seen.sum(axis=1),
        "published": (seen & ~missing).sum(axis=1),
        "left_out": (seen & missing).sum(axis=1),
    })  # fmt: skip
