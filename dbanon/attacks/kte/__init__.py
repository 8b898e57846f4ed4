"""The adversary who knows all that a subject did for some time, and looks for its record.

Of groups that share a record it only counts who is in them. Of records of one subject each it knows, for every subject
and every stretch of tau, the subject's samples and which of them were suppressed, finds the records that fit, and asks
whether these are k subjects', in noise and in silence, and whether they part ways again. Besides, what is published
must be true: every generalised sample holds a real one, and all that is missing is counted. Invariant: a verdict passes
only if every clause was decided and none is broken.

References
----------
Gramaglia, Fiore, Tarable, Banchs: k^(tau,epsilon)-anonymity: Towards Privacy-Preserving Publishing of Spatiotemporal
Trajectory Data, 2017, sections II-B and II-C.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks import Evidence, Source, Verdict
from dbanon.attacks.kte._claims import PROMISING, Rules, Stated, read_rules, read_stated
from dbanon.attacks.kte._groups import groups
from dbanon.attacks.kte._rows import Cover, Members, Rows, Samples, cover, members, rows, samples
from dbanon.attacks.kte._sets import picked, picks
from dbanon.attacks.kte._windows import hidden, scene, speaking, timetable
from dbanon.attacks.shared.claims import UndecidableError, considered, decided, hours_misstated, undecided
from dbanon.attacks.shared.keys import distinct
from dbanon.base.trajectory import Int

__all__ = ["attack", "read"]

NAME = "kte"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """What the attack looks at: the samples, the rows, whose they are, and which samples they hold."""

    known: Samples
    stored: Rows
    who: Members
    covered: Cover


def read(evidence: Evidence, source: Source) -> Evidence:
    """Read nothing beside the rows and the data."""
    del source
    return evidence


def attack(evidence: Evidence) -> Verdict:
    """Decide whether a stretch of any subject's movements fits fewer than k records, and whether the rows are true.

    Parameters
    ----------
    evidence : Evidence
        The stored rows and hiding sets, and the data.

    Returns
    -------
    Verdict
        With the clause `decidable` alone if the evidence makes no sense.

    Notes
    -----
    O((fixes + rows) log) time, and of hiding sets the samples of each subject in each window, once a pick. What
    these do not decide costs the rows of an epoch a subject and window, or, if a window does not either, a stretch.
    """
    try:
        evidence = considered(evidence)
        rules, stated = read_rules(evidence), read_stated(evidence.suppressed)
        return _decide(evidence, rules, stated)
    except UndecidableError as doubt:
        return undecided(NAME, doubt)


def _decide(evidence: Evidence, rules: Rules, stated: Stated) -> Verdict:
    known, stored = samples(evidence.trajectories, rules), rows(evidence, rules)
    stored, who = members(evidence, stored, known, rules)
    seen = _Seen(known=known, stored=stored, who=who, covered=cover(known, stored, who))
    own, figures = _hidden(evidence, seen, rules) if rules.hides else groups(evidence, who, rules)
    broken = {
        "decidable": 0,
        "promise": int(evidence.algorithm not in PROMISING),
        "one-record": who.faults,
        "alike": who.unlike,
        "period": stored.off_time,
        "rectangle": stored.off_grid,
        "order": stored.unordered,
        "truth": int(seen.covered.fictitious.sum()),
        "suppressed": _misstated(seen, rules, stated),
        "no-other-columns": int((evidence.cloak_other_keys != 0).sum()),
        **own,
    }
    sentences = {name: _SENTENCES[name] for name in _SENTENCES if name in broken}
    return decided(NAME, sentences, broken, _figures(seen) | figures, rules.k)


# What must hold, and what is counted that breaks it.
_SENTENCES = {
    "decidable": ("Parameters, data and stored rows must make sense together", "contradictions"),
    "promise": ("The run's algorithm must be one that hides all subjects it publishes", "algorithms"),
    "one-record": (
        "Every record must be whole trajectories of its subjects, all of them, and no subject be in two records",
        "records or memberships",
    ),
    "alike": (
        "Each member of a group must have one of its records, and these be alike in rows and members; other records be "
        "of one subject",
        "records",
    ),
    "period": ("Every period must be whole slots of the run's grid, and lie within one epoch where it has any", "rows"),
    "rectangle": ("Every region must be one rectangle of cells of the run's grid, in the dataset's SRID", "rows"),
    "order": ("The rows of a record must come one after the other in time", "rows"),
    "truth": ("Every row must hold a real sample of each of its record's subjects", "rows"),
    "suppressed": (
        "Every sample must lie in a row of its subject's record or be counted as left out, and the counts be true",
        "counts",
    ),
    "no-other-columns": ("Rows must hold no columns but the method's", "rows"),
    "crowd-count": ("The columns that count people must be true", "rows"),
    "crowd-size": ("Every record must be that of at least k = {k} subjects", "records"),
    "sets": (
        "The hiding sets must be those of the run: where each subject has a record, one of k - 1 others that are "
        "published there, of each subject and window of tau and the leak in which it is published; where groups have, "
        "none",
        "sets or others in them",
    ),
    "k-pick": (
        "Each published subject must be in the hiding sets of at least k - 1 others in each window, k = {k}",
        "subjects and windows",
    ),
    "carried": (
        "Each subject must be hidden by the records that picked it, which fit it in the whole window, and not by "
        "others alone",
        "subjects and windows",
    ),
    "reuse": ("No partner may come again sooner than the run's parameters allow", "picks"),
    "leak": (
        "No subject may be hidden in one record for longer than tau and the leak, nor, in an epoch outside a window, "
        "again in all the records that hide it in the window",
        "picks or windows",
    ),
    "hidden": (
        "Whatever is known of a subject in a stretch of tau must fit the records of at least k = {k} subjects",
        "subjects and windows",
    ),
    "silence": (
        "Where nothing of a subject is published in a stretch of tau, the records of at least k = {k} subjects must "
        "say nothing",
        "subjects and windows",
    ),
}


def _hidden(evidence: Evidence, seen: _Seen, rules: Rules) -> tuple[dict[str, int], dict[str, int | float]]:
    """Count what the adversary finds of records of one subject each: violations by clause, and figures."""
    known = seen.known
    times, view = timetable(known, rules), scene(known, seen.stored, seen.who, seen.covered)
    speaks = speaking(view, times)
    chosen = picks(evidence, view, speaks, times, rules)
    found = picked(view, speaks, chosen, times, rules)
    outcome = hidden(view, speaks, found.fitting, times, rules.k)
    wrong = (evidence.cloak_crowd != rules.k) | (evidence.cloak_subjects != 1)
    few = found.number < rules.k - 1
    broken = {
        "crowd-count": int(wrong.sum()),
        "sets": chosen.faults,
        "k-pick": int(few.sum()),
        "carried": int(((found.fitting < rules.k - 1) & ~few & ~outcome.exposed).sum()),
        "reuse": found.reused,
        "leak": found.followed,
        "hidden": int(outcome.exposed.sum()),
        "silence": outcome.silent,
    }
    everywhere = not outcome.exposed.any() and not outcome.silent
    least = min(1 + int(found.fitting.min(initial=len(known.subject))), outcome.fewest_silent or len(known.subject))
    figures: dict[str, int | float] = {
        "greatest_posterior": 1 / max(least, rules.k if everywhere else 1),
        "windows": times.count,
        "subject_windows": len(speaks.key),
        "picks": len(chosen.at),
        "picks_fitting": int(found.fitting.sum()),
        "least_picked": int(found.number.min()) if len(found.number) else 0,
        "least_silent": outcome.fewest_silent,
        "searched": outcome.searched,
        "searched_by_stretches": outcome.slid,
        "followed_by_chance": found.chance,
        "followed_by_chance_s": found.chance_epochs * rules.leak * rules.grid_s,
        "others_needed": times.count * (rules.k - 1),
    }
    return broken, figures


def _figures(seen: _Seen) -> dict[str, int | float]:
    covered, fixes = seen.covered.covered, seen.known.fixes
    return {
        "subjects": len(seen.known.subject),
        "published": len(distinct(seen.who.subject)),
        "records": len(seen.stored.record_id),
        "rows": len(seen.stored.record),
        "samples": len(covered),
        "samples_covered": int(covered.sum()),
        "fixes": int(fixes.sum()),
        "fixes_covered": int(fixes[covered].sum()),
        "rows_without_a_sample": int(seen.covered.fictitious.sum()),
    }


def _misstated(seen: _Seen, rules: Rules, stated: Stated) -> int:
    """Count what the run says it left out and is not what is missing."""
    covered, people = seen.covered.covered, len(seen.known.subject)
    wrong = int(sum(stated.samples.values()) != int((~covered).sum()))
    wrong += int(sum(stated.subjects.values()) != people - len(distinct(seen.who.subject)))
    if rules.hides:
        epoch, owner = seen.known.slot // rules.leak, seen.known.owner
        first = int(epoch.min())
        there, shown = _counted(epoch - first, owner), _counted((epoch - first)[covered], owner[covered])
        start_s = (first + np.arange(len(there))) * rules.leak * rules.grid_s
        shown = np.append(shown, np.zeros(len(there) - len(shown), np.int64))
    else:
        # Once for the whole time.
        there, shown = np.array([people]), np.array([len(distinct(seen.who.subject))])
        start_s = np.array([int(seen.known.slot.min()) * rules.grid_s])
    found = {"seen": there, "published": shown, "left_out": there - shown}
    return wrong + hours_misstated(stated.hours, start_s, found)


def _counted(epoch: Int, owner: Int) -> Int:
    """Count the subjects of each epoch from 0 on."""
    size = int(owner.max(initial=0)) + 1
    return np.bincount(distinct(epoch * size + owner) // size)
