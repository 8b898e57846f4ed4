"""What is known and what is said: own instants, stored hiding sets, and the counts of what was left out."""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks.mob._claims import FEW, UNSEEN, Rules, Stated
from dbanon.attacks.mob._rows import ABSENT, Bool, Own, Positions, Shown
from dbanon.attacks.mob._search import Scene
from dbanon.attacks.mob.evidence import ObjectEvidence
from dbanon.attacks.shared.claims import hours_misstated
from dbanon.attacks.shared.keys import distinct, find
from dbanon.attacks.shared.replay import Timetable
from dbanon.trajectory import Int, QuasiIdentifiers


@dataclass(frozen=True, kw_only=True, eq=False)
class Sets:
    """The stored hiding sets as pairs of subjects, and how many sets and others in them are not as they should be."""

    owner: Int
    other: Int
    faults: int


def own_instants(known: QuasiIdentifiers, at: Positions, times: Timetable) -> tuple[Own, dict[str, int]]:
    """Find the instants whose slots hold the times of quasi-identifiers; count the times that are not used, by reason.

    A time of a subject that is never seen is counted as such, wherever it lies.
    """
    who, instant, width = find(at.subject, known.subject), times.instant(known.t), at.x.shape[1]
    unseen = (who < 0) | ~at.seen[who]
    outside = ~unseen & (instant < 0)
    absent = ~unseen & ~outside & (at.x[who, instant] == ABSENT)
    used = ~(unseen | outside | absent)
    key = distinct(who[used] * width + instant[used])
    offset = np.searchsorted(key, np.arange(len(at.subject) + 1) * width)
    left_out = {"absent": absent, "outside": outside, "without_subject": unseen}
    return Own(offset=offset, instant=(key % width).astype(np.int32)), {
        reason: int(some.sum()) for reason, some in left_out.items()
    }


def read_sets(evidence: ObjectEvidence, found: Shown, own: Own, rules: Rules) -> Sets:
    """Read whom the run says each subject is hidden among: one set, for the whole record, where it has own instants."""
    n, size = len(found.published), np.diff(evidence.hiding_offset)
    owner, other = _subjects(found, evidence.hiding_record), _subjects(found, evidence.hiding_other)
    right = np.isnan(evidence.hiding_start_s) & np.isnan(evidence.hiding_end_s) & (owner >= 0) & own.some[owner]
    owners = distinct(owner[right])
    faults = int((~right).sum()) + int(right.sum()) - len(owners)
    faults += int((found.published & own.some).sum()) - len(owners)
    of = np.repeat(np.arange(len(size)), size)
    sound = right[of] & (other >= 0) & (other != owner[of])
    pair = distinct(owner[of][sound] * n + other[sound])
    faults += len(of) - len(pair)
    owner, other = pair // n, pair % n
    faults += int((np.bincount(owner, minlength=n)[owners] < rules.k - 1).sum())
    if rules.symmetric:
        back = distinct(other * n + owner)
        faults += int((own.some[other] & ~np.isin(pair, back, assume_unique=True)).sum())
    return Sets(owner=owner, other=other, faults=faults)


def _subjects(found: Shown, record_id: Int) -> Int:
    """Find whose records these are; -1 where it is not known."""
    record = find(found.key, record_id)
    return np.where(record >= 0, found.owner[record], -1)


def misstated(stated: Stated, scene: Scene, unused: dict[str, int], rules: Rules) -> int:
    """Count what the run says it left out and the data and rows do not."""
    names = unused.keys() | stated.quasi_identifiers.keys()
    wrong = sum(unused.get(name, 0) != stated.quasi_identifiers.get(name, 0) for name in names)
    ways = [scene.found.published]
    if rules.qid_only:
        # Who has no own instants and serves nobody is kept, and has no row to show.
        ways.append(scene.found.published | ~scene.own.some)
    return wrong + min(_people_misstated(stated, scene.at, scene.at.seen & kept, rules.timetable) for kept in ways)


def _people_misstated(stated: Stated, at: Positions, kept: Bool, times: Timetable) -> int:
    left_out = {UNSEEN: int((~at.seen).sum()), FEW: int((at.seen & ~kept).sum())}
    names = left_out.keys() | stated.subjects.keys()
    wrong = sum(left_out.get(name, 0) != stated.subjects.get(name, 0) for name in names)
    hour = times.start_s(np.arange(times.count)) // 3600
    hours, first = np.unique(hour, return_index=True)
    seen = np.stack([
        (at.x[:, low:high] != ABSENT).any(axis=1)
        for low, high in zip(first, [*first[1:], times.count], strict=True)
    ])  # fmt: skip
    return wrong + hours_misstated(stated.hours, hours * 3600, {
        "seen": seen.sum(axis=1),
        "published": (seen & kept).sum(axis=1),
        f"left_out {FEW}": (seen & ~kept).sum(axis=1),
    })  # fmt: skip
