"""Counts what breaks each clause of the attack, and its figures."""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks import Evidence
from dbanon.attacks.kte._groups import count_group_clauses
from dbanon.attacks.kte._rows import Cover, Members, Rows, Samples, build_rows, find_cover, find_members, find_samples
from dbanon.attacks.kte._run_statements import Rules, Stated, read_rules, read_stated
from dbanon.attacks.kte._sets import examine_picks, read_picks
from dbanon.attacks.kte._windows import build_scene, build_timetable, find_exposed, find_speaking
from dbanon.attacks.shared.clauses import Counts
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.run_statements import count_misstated_hours, select_in_run_time
from dbanon.base.trajectory import Int


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """What the attack looks at: the samples, the rows, whose they are, and which samples they hold."""

    known: Samples
    stored: Rows
    who: Members
    covered: Cover


def count_clauses(evidence: Evidence) -> Counts:
    """Count what breaks each clause.

    O((fixes + rows) log) time. Hiding sets cost the samples of each subject and window, once for each pick. Where picks
    do not decide, each subject and window costs the rows of an epoch; where windows do not, each stretch does.
    """
    evidence = select_in_run_time(evidence)
    rules, stated = read_rules(evidence), read_stated(evidence.suppressed)
    known, stored = find_samples(evidence, rules), build_rows(evidence, rules)
    stored, who = find_members(evidence, stored, known, rules)
    seen = _Seen(known=known, stored=stored, who=who, covered=find_cover(known, stored, who))
    own, figures = (
        _count_hiding_clauses(evidence, seen, rules) if rules.hides else count_group_clauses(evidence, who, rules)
    )
    broken = {
        "period": stored.off_time,
        "region": stored.off_grid,
        "columns": int((evidence.cloak_other_keys != 0).sum()),
        "members": who.faults,
        "left-out": _count_misstated(seen, rules, stated),
        "truth": int(seen.covered.fictitious.sum()),
        "alike": who.unlike,
        "order": stored.unordered,
        **own,
    }
    one_window_s = rules.apart * rules.grid_s if len(sort_distinct(known.window)) == 1 else 0
    return broken, _compute_figures(seen) | figures | {"one_window_s": one_window_s}


def _count_hiding_clauses(
    evidence: Evidence, seen: _Seen, rules: Rules
) -> tuple[dict[str, int], dict[str, int | float]]:
    """Count what the adversary finds of records of one subject each: violations by clause, and figures."""
    known = seen.known
    times, view = build_timetable(known, rules), build_scene(known, seen.stored, seen.who, seen.covered)
    speaks = find_speaking(view, times)
    chosen = read_picks(evidence, view, speaks, times, rules)
    picked = examine_picks(view, speaks, chosen, times, rules)
    outcome = find_exposed(view, speaks, picked.fitting, times, rules.k)
    wrong = (evidence.cloak_crowd != rules.k) | (evidence.cloak_subjects != 1)
    few = picked.number < rules.k - 1
    broken = {
        "crowd": int(wrong.sum()),
        "sets": chosen.faults,
        "k-pick": int(few.sum()),
        "carried": int(((picked.fitting < rules.k - 1) & ~few & ~outcome.exposed).sum()),
        "reuse": picked.reused,
        "leak": picked.followed,
        "hidden": int(outcome.exposed.sum()),
        "silence": outcome.silent,
    }
    are_all_hidden = not outcome.exposed.any() and not outcome.silent
    least = min(1 + int(picked.fitting.min(initial=len(known.subject))), outcome.fewest_silent or len(known.subject))
    smallest = max(least, rules.k if are_all_hidden else 1)
    figures: dict[str, int | float] = {
        "smallest_crowd": smallest,
        "greatest_posterior": 1 / smallest,
        "windows": times.count,
        "subject_windows": len(speaks.key),
        "picks": len(chosen.at),
        "picks_fitting": int(picked.fitting.sum()),
        "least_picked": int(picked.number.min()) if len(picked.number) else 0,
        "least_silent": outcome.fewest_silent,
        "searched": outcome.searched,
        "searched_by_stretches": outcome.slid,
        "followed_by_chance": picked.chance,
        "followed_by_chance_s": picked.chance_epochs * rules.leak * rules.grid_s,
        "others_needed": times.count * (rules.k - 1),
    }
    return broken, figures


def _compute_figures(seen: _Seen) -> dict[str, int | float]:
    covered, fixes = seen.covered.covered, seen.known.fixes
    return {
        "subjects": len(seen.known.subject),
        "published": len(sort_distinct(seen.who.subject)),
        "records": len(seen.stored.record_id),
        "rows": len(seen.stored.record),
        "samples": len(covered),
        "samples_covered": int(covered.sum()),
        "fixes": int(fixes.sum()),
        "fixes_covered": int(fixes[covered].sum()),
        "rows_without_a_sample": int(seen.covered.fictitious.sum()),
    }


def _count_misstated(seen: _Seen, rules: Rules, stated: Stated) -> int:
    """Count what the run says it left out and is not what is missing."""
    covered, people = seen.covered.covered, len(seen.known.subject)
    wrong = int(sum(stated.samples.values()) != int((~covered).sum()))
    wrong += int(sum(stated.subjects.values()) != people - len(sort_distinct(seen.who.subject)))
    if rules.hides:
        epoch, owner = seen.known.slot // rules.leak, seen.known.owner
        first = int(epoch.min())
        there, shown = _count_subjects(epoch - first, owner), _count_subjects((epoch - first)[covered], owner[covered])
        start_s = (first + np.arange(len(there))) * rules.leak * rules.grid_s
        shown = np.append(shown, np.zeros(len(there) - len(shown), np.int64))
    else:
        # Once for each window, or for the whole time.
        windows, of = np.unique(seen.known.window, return_inverse=True)
        there, shown = np.bincount(of), np.bincount(of[sort_distinct(seen.who.subject)], minlength=len(windows))
        start_s = (
            windows * rules.apart * rules.grid_s if rules.apart else seen.known.slot.min(keepdims=True) * rules.grid_s
        )
        # Groups of k take in everybody where there are as many.
        wrong += int((there - shown)[there >= rules.k].sum())
    counts = {"seen": there, "published": shown, "left_out": there - shown}
    return wrong + count_misstated_hours(stated.hours, start_s, counts)


def _count_subjects(epoch: Int, owner: Int) -> Int:
    """Count the subjects of each epoch from 0 on."""
    size = int(owner.max(initial=0)) + 1
    return np.bincount(sort_distinct(epoch * size + owner) // size)
