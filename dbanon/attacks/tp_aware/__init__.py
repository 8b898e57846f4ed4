"""The trajectory- and policy-aware adversary against stored bundles.

It knows every trajectory and the parameters, lays out the windows anew, finds who is where at every instant, and asks
of each stored bundle whether at least k distinct subjects could each have sent every request in it (Definition 2).
Invariant: a verdict passes only if every clause was decided and none is broken.

References
----------
Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012, section 3.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dbanon.attacks.shared.clauses import Attack, Counts
from dbanon.attacks.shared.keys import find, sort_distinct
from dbanon.attacks.shared.replay import Sighting, map_sightings
from dbanon.attacks.shared.run_statements import count_misstated_hours, select_in_run_time
from dbanon.attacks.tp_aware import _requests, _stored
from dbanon.attacks.tp_aware._clauses import CLAUSES, LEFT_OPEN
from dbanon.attacks.tp_aware._run_statements import Rules, Stated, read_rules, read_stated
from dbanon.attacks.tp_aware._stored import Members, Records
from dbanon.attacks.tp_aware.evidence import RequestEvidence, read
from dbanon.base.trajectory import Int, Trajectories

__all__ = ["READS", "attack", "prepare", "read"]

READS = ("requests",)


@dataclass(frozen=True, kw_only=True)
class _Watch:
    """What a replay of the data finds: numbers of people, counts by window (`seen`, `present`), and violations."""

    subjects: int
    seen: Int
    present: Int
    missed: Int
    presences: int
    unmasked: int
    unlisted: int


def prepare() -> None:
    """Attack two made-up people, each alone, and one left out: what is compiled is what an attack needs."""
    two, three, four, none = np.arange(2), np.arange(3), np.arange(4), np.empty(0, np.int64)
    times, ends, bounds, places = np.arange(2.0), np.arange(0, 5, 2), np.arange(4.0), np.arange(5.0)
    params = {"k": 2, "step_s": 1, "instants": 2, "start": 0, "max_gap_s": 0, "min_contents": 1, "guests": True}
    evidence = RequestEvidence(
        method="",
        algorithm="",
        params={**params, "cloak": "mbr", "min_cloak_m": None, "since": None, "until": None},
        suppressed={"subjects": {}, "windows": [], "guests": "on"},
        trajectories=Trajectories(
            trajectory_id=three, subject=three, offset=np.append(ends, 5), t=np.append(np.tile(times, 2), 0.0),
            x=places, y=places, srid=0, grid_m=1.0, grid_s=1,
        ),
        record_id=two, offset=ends, region=four, period=four % 2, place=None,
        region_no=four, region_bounds=np.add.outer(bounds, [0.0, 0.0, 1.0, 1.0]), region_rectangle=four >= 0,
        region_srid=four, region_crowd=four, region_subjects=four, region_other_keys=four,
        period_start_s=times, period_end_s=times + 1,
        member_record=two, member_trajectory=two, member_start_s=np.full(2, np.nan), member_end_s=np.full(2, np.nan),
        hiding_record=none, hiding_start_s=np.empty(0), hiding_end_s=np.empty(0), hiding_offset=np.zeros(1, np.int64),
        hiding_other=none,
        published_request_record=two, published_request_seq=two + 1, published_request_content=two,
        request_subject=two, request_t=times, request_content=two,
    )  # fmt: skip
    for align in ("last", "linear"):
        _count(replace(evidence, params={**evidence.params, "align": align}))


def _count(evidence: RequestEvidence) -> Counts:
    """Count what breaks each clause.

    O((fixes + subjects x instants) log) time; memory beyond the evidence is that of the rows and members.
    """
    # Instants begin at `since`, at positions that may be older.
    evidence = select_in_run_time(evidence, cuts_at_since=False)
    evidence = _requests.select_own_requests(evidence)
    rules = read_rules(evidence)
    stated = read_stated(evidence.suppressed, rules.timetable)
    records = _stored.build_records(evidence, rules)
    members = _stored.find_members(evidence, records, rules)
    watch = _watch_people(evidence, rules, records, members)
    published = _stored.count_published(members, rules.timetable)
    shown = _stored.find_shown_requests(evidence, records)
    requests = _requests.compare_requests(evidence, rules, records, members, shown)
    feasible = watch.present >= rules.k
    uninvited, unwanted, loose = 0, 0, 0
    if rules.guests and watch.seen.sum() > watch.present.sum():
        from dbanon.attacks.tp_aware import _guests  # Numba is slow to import

        uninvited, unwanted, loose = _guests.count_misplaced(evidence, rules, records, members, feasible)
    broken = {
        "period": int((~records.sound).sum()),
        "region": _count_misshapen(evidence, rules),
        "columns": int((evidence.cloak_other_keys != 0).sum()),
        "members": members.faults + watch.unlisted,
        "crowd": _count_miscounted(evidence, records, members),
        "size": int((members.crowd < rules.k).sum()),
        "covers": watch.unmasked,
        "tight": loose,
        "guests": unwanted,
        "complete": int(watch.missed[feasible].sum()) + uninvited,
        "left-out": _count_misstated(
            stated, watch, _stored.count_guests(members, rules.timetable), published, requests.left_out, rules
        ),
        "once": int((np.diff(members.key) == 0).sum()),
        "presence": len(members.key) - watch.presences,
        "requests-sent": requests.unsent,
        "requests-set": _requests.count_unordered_requests(shown),
        "requests-few": _requests.count_poor_rows(shown, rules.min_contents),
        "requests-complete": requests.missing,
    }
    figures = _compute_figures(evidence, members, watch, published)
    of_others = sum(requests.left_out[why] for why in ("outside_windows", "sender_not_published", "sender_absent"))
    refused = evidence.params["guests"] and evidence.suppressed["guests"] != "on"
    figures["guests_refused"] = int((watch.seen - watch.present)[feasible].sum()) if refused else 0
    figures["requests_of_members"] = len(evidence.request_t) - of_others
    return broken, figures | _requests.count_rare_contents(evidence, records, members, shown, rules.k)


attack = Attack(name="tp-aware", clauses=CLAUSES, count=_count, left_open=LEFT_OPEN)
"""Decides whether the stored bundles keep their promise."""


def _compute_figures(
    evidence: RequestEvidence, members: Members, watch: _Watch, published: Int
) -> dict[str, int | float]:
    return {
        "subjects": watch.subjects,
        "published": len(sort_distinct(members.subject)),
        "records": len(members.crowd),
        "rows": evidence.rows,
        "members": int(members.subjects.sum()),
        "guests": int((members.guest >= 0).sum()),
        "smallest_crowd": int(members.crowd.min()),
        "windows": len(published),
        "windows_published": int((published > 0).sum()),
        "seen": int(watch.seen.sum()),
        "present": int(watch.present.sum()),
        "suppressed": int(watch.seen.sum() - published.sum()),
        "requests": len(evidence.request_t),
        "request_contents_published": len(evidence.published_request_seq),
    }


def _count_miscounted(evidence: RequestEvidence, records: Records, members: Members) -> int:
    crowd, subjects = np.empty((2, evidence.rows), dtype=np.int64)
    for column, people in ((crowd, members.crowd), (subjects, members.subjects)):
        column[records.order] = np.repeat(people, _stored.count_rows(records))
    return int(((evidence.cloak_crowd != crowd) | (evidence.cloak_subjects != subjects)).sum())


def _count_misshapen(evidence: RequestEvidence, rules: Rules) -> int:
    sides = evidence.region_bounds / rules.cell_m
    with np.errstate(invalid="ignore"):
        on_grid = (np.abs(sides - np.rint(sides)) <= _stored.TOLERANCE_CELLS).all(axis=1)
        positive = (np.rint(sides[:, 2:]) > np.rint(sides[:, :2])).all(axis=1)
    right = evidence.region_rectangle & (evidence.region_srid == evidence.trajectories.srid) & on_grid & positive
    return int((~right[evidence.region]).sum())


# The replay: who is present, who is missed, which cloaks do not hold their members.


def _watch_people(evidence: RequestEvidence, rules: Rules, records: Records, members: Members) -> _Watch:
    """Follow all people from instant to instant."""
    from dbanon.attacks.tp_aware import _passes  # Numba is slow to import

    windows, data = rules.timetable.windows, evidence.trajectories
    held = _stored.find_held_cells(evidence.cloak_bounds[records.order], rules.cell_m)
    shared = np.bincount(data.subject) > 1
    people = np.zeros(int(data.subject.max()) + 1, dtype=bool)

    def look(sighting: Sighting) -> tuple[Int, Int]:
        """Count by window whose pairs are seen, present and missed; and presences, positions unmasked and unlisted."""
        pair, member = members.find_entries(sighting.subject * windows + sighting.window)
        whole, published = sighting.present, np.zeros(len(sighting.window), dtype=bool)
        published[pair] = True
        people[sighting.subject[sighting.seen]] = True
        kinds = (sighting.seen, whole, whole & ~published)
        counts = np.stack([np.bincount(sighting.window[kind], minlength=windows) for kind in kinds])
        record = members.record[member]
        unmasked = _passes.count_unmasked(pair, record, sighting, records, held, rules.cell_m)
        several = shared[sighting.subject[pair]]  # a subject with one trajectory is a member by that one
        unlisted = _count_unlisted(sighting, pair[several], record[several], members.listed, len(data.trajectory_id))
        return counts, np.array([_count_right(sighting, pair, members, member), unmasked, unlisted])

    counts, totals = np.zeros((3, windows), dtype=np.int64), np.zeros(3, dtype=np.int64)
    for by_window, total in map_sightings(data, rules.timetable, rules.align, rules.max_gap_s, look):
        counts += by_window
        totals += total
    seen, present, missed = counts
    presences, unmasked, unlisted = totals.tolist()
    return _Watch(
        subjects=int(people.sum()), seen=seen, present=present, missed=missed, presences=presences, unmasked=unmasked,
        unlisted=unlisted,
    )  # fmt: skip


def _count_right(sighting: Sighting, pair: Int, members: Members, member: Int) -> int:
    """Count members present at all instants, and guests present at the instants that are stored, which are not all."""
    guest, right = members.guest[member], sighting.present[pair]
    some = guest >= 0
    there = sighting.there[pair[some]] & sighting.inside[pair[some]]
    right[some] = ~right[some] & (there == members.said[guest[some], : there.shape[1]]).all(axis=1)
    return int(right.sum())


def _count_unlisted(sighting: Sighting, pair: Int, record: Int, listed: Int, trajectories: int) -> int:
    """Count trajectories that supply a member's position and are not listed with its record."""
    if not len(pair):
        return 0
    supplies = []
    for side in (sighting.before[pair], sighting.after[pair]):
        there = sighting.there[pair]
        there[:, 1:] &= (side[:, 1:] != side[:, :-1]) | ~there[:, :-1]  # who supplies two instants on end counts once
        owner = np.broadcast_to(record[:, None], there.shape)[there]
        supplies.append(owner * trajectories + side[there])
    return int((find(listed, sort_distinct(np.concatenate(supplies))) < 0).sum())


def _count_misstated(
    stated: Stated, watch: _Watch, guests: Int, published: Int, left_out: Mapping[str, int], rules: Rules
) -> int:
    """Count windows, hours, reasons and requests of which the run says something else than the data do."""
    windows = len(published)
    instants = rules.timetable.count_instants(np.arange(windows))
    actual = np.stack((instants, watch.seen, watch.present, published), axis=1)
    claims = np.zeros((windows, 4), dtype=np.int64)
    claims[:, 0] = instants  # a window without any seen subject need not be listed
    for window, counts in stated.windows.items():
        claims[window] = np.minimum(counts, np.iinfo(np.int64).max)
    absent = watch.seen - watch.present - guests
    below = int(watch.present[watch.present < rules.k].sum())
    reasons = {"absent_at_some_instant": int(absent.sum()), "window_below_k": below}
    names = reasons.keys() | stated.subjects.keys()
    wrong = sum(reasons.get(name, 0) != stated.subjects.get(name) for name in names)
    wrong += count_misstated_hours(stated.hours, rules.timetable.start_s(np.arange(windows) * rules.timetable.length), {
        "seen": watch.seen,
        "published": published,
        "left_out absent_at_some_instant": absent,
        "left_out window_below_k": np.where(watch.present < rules.k, watch.present, 0),
    })  # fmt: skip
    wrong += sum(left_out.get(name, 0) != stated.requests.get(name, 0) for name in left_out.keys() | stated.requests)
    return wrong + int((actual != claims).any(axis=1).sum())
