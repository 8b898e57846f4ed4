"""The adversary who knows where each person was at its own instants, and which published record may be whom.

It lays out the instants anew, finds who fits which stored record at all instants that are known of them, keeps of these
pairs those that are in some assignment of all records to all people, and asks of each person whether at least k records
remain. Besides, what is published must be true: regions that hold their people, exact rows exact, nobody missing.
Invariant: a verdict passes only if every clause was decided and none is broken.

References
----------
Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009, section 4.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks import Verdict
from dbanon.attacks.mob._claims import Rules, Stated, considered, read_rules, read_stated
from dbanon.attacks.mob._graph import Remaining, below_at_speed, remaining
from dbanon.attacks.mob._known import misstated, own_instants, read_sets
from dbanon.attacks.mob._queries import distortion
from dbanon.attacks.mob._rows import Bool, Classes, Truth, classes, positions, shown, truth
from dbanon.attacks.mob._search import Scene
from dbanon.attacks.mob.evidence import ObjectEvidence, read
from dbanon.attacks.shared.claims import UndecidableError, decided, undecided
from dbanon.base.trajectory import Trajectories

__all__ = ["attack", "read"]

NAME = "mob"
PROMISING = ("symmetric", "extreme-union")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Found:
    """What the attack found."""

    scene: Scene
    rows: Truth
    shared: Classes
    left: Remaining


def attack(evidence: ObjectEvidence) -> Verdict:
    """Decide whether any person fits fewer than k of the records, and whether these are true.

    Parameters
    ----------
    evidence : ObjectEvidence
        The stored rows and hiding sets, the data and the quasi-identifiers.

    Returns
    -------
    Verdict
        With the clause `decidable` alone if the evidence makes no sense.

    Notes
    -----
    O((fixes + rows) log) time and twelve bytes a subject and instant, if the stored hiding sets hold. Else all records
    are looked for that those may be who keep fewer than k, then those whose records these fit, and so on: of all
    at worst. Of a person 1,024 records at most are found, among 262,144 candidates: what is not found can only make the
    attack refuse.
    """
    try:
        every = evidence.trajectories
        evidence = considered(evidence)
        rules, stated = read_rules(evidence), read_stated(evidence.suppressed)
        return _decide(evidence, every, rules, stated)
    except UndecidableError as doubt:
        return undecided(NAME, doubt)


def _decide(evidence: ObjectEvidence, every: Trajectories, rules: Rules, stated: Stated) -> Verdict:
    at = positions(evidence.trajectories, rules)
    found = shown(evidence, every, at, rules.timetable)
    own, unused = own_instants(evidence.quasi_identifiers, at, rules.timetable)
    scene = Scene(at=at, found=found, own=own)
    sets = read_sets(evidence, found, own, rules)
    rows = truth(at, found, own, rules.qid_only)
    shared, left = classes(evidence, found), remaining(scene, sets.owner, sets.other, rules.k)
    few = found.published & (left.number < rules.k)
    other = (evidence.region_other_keys != 0) | ~np.isin(evidence.region_cloaked, (0, 1))
    broken = {
        "decidable": 0,
        "promise": int(evidence.algorithm not in PROMISING),
        "one-record": found.faults,
        "period": found.off_time,
        "rectangle": _rows_of(evidence, ~found.sound),
        "complete": rows.incomplete,
        "exact": rows.inexact,
        "masking": rows.unmasked,
        "crowd-count": rows.uncounted + shared.miscounted,
        "crowd-size": int((shared.size < rules.k).sum()),
        "sets": sets.faults,
        "hidden": int((few & own.some).sum()),
        "elimination": int((few & ~own.some).sum()),
        "suppressed": misstated(stated, scene, unused, rules),
        "no-other-columns": _rows_of(evidence, other),
    }
    figures = _figures(evidence, _Found(scene=scene, rows=rows, shared=shared, left=left), rules)
    return decided(NAME, _SENTENCES, broken, figures, rules.k)


def _rows_of(evidence: ObjectEvidence, some: Bool) -> int:
    """Count the rows of some regions."""
    return int(np.count_nonzero(some[evidence.region])) if some.any() else 0


# What must hold, and what is counted that breaks it.
_SENTENCES = {
    "decidable": ("Parameters, data, quasi-identifiers and stored rows must make sense together", "contradictions"),
    "promise": ("The run's algorithm must be one that hides each person it publishes among k", "algorithms"),
    "one-record": (
        "Every record must be one subject's, with all its trajectories, whole, and no subject have two",
        "records or memberships",
    ),
    "period": ("Every row must have the slot of one instant as its period, after that of the row before", "rows"),
    "rectangle": ("Every region must be one rectangle on the dataset's grid in its SRID", "rows"),
    "complete": (
        "Every published subject must have one row at each instant at which it is present, or only its cloaked ones "
        "where the run publishes no others, those at its own instants among them",
        "rows, there or missing",
    ),
    "exact": ("Every row that is not cloaked must be exactly the cell of its subject, with crowd 1", "rows"),
    "masking": ("Every cloaked row must hold the cell of its subject", "rows"),
    "crowd-count": (
        "Every row must stand for one subject, and the crowd of a cloaked one be the subjects with its region then",
        "rows",
    ),
    "crowd-size": ("Every cloaked region must be shared by at least k = {k} subjects at the instant", "regions"),
    "sets": (
        "The hiding sets must be those of the run: one for the whole record of each subject with own instants, of "
        "k - 1 published others or more, k = {k}, mutual where the algorithm says so",
        "sets or others in them",
    ),
    "hidden": (
        "Of the records that a person with own instants fits, those of at least k = {k} subjects must remain when "
        "each record is a person's",
        "people",
    ),
    "elimination": (
        "Of people without own instants, the records of at least k = {k} subjects must remain when each record is "
        "a person's",
        "people",
    ),
    "suppressed": ("What the run says it left out must be what the data and rows say was left out", "counts"),
    "no-other-columns": ("Rows must hold no columns but the method's, and these be what they should be", "rows"),
}


def _figures(evidence: ObjectEvidence, result: _Found, rules: Rules) -> dict[str, int | float]:
    scene, left, size = result.scene, result.left, result.shared.size
    published = scene.found.published
    least = int(left.number[published].min()) if published.any() else 0
    reach_cells = rules.reach_m / evidence.trajectories.grid_m
    return {
        "subjects": len(scene.at.subject),
        "published": int(published.sum()),
        "records": len(evidence.record_id),
        "rows": evidence.rows,
        "exact_rows": result.rows.exact,
        "quasi_identifiers": len(evidence.quasi_identifiers.t),
        "greatest_posterior": 1 / max(least, 1),
        "least_surviving": least,
        "edges": left.edges,
        "searched": left.searched,
        "below_k_at_speed": below_at_speed(scene, left, rules.k, reach_cells),
        "information_loss": result.rows.loss / max(result.rows.rows, 1),
        "classes": len(size),
        "median_class_size": float(np.median(size)) if len(size) else 0.0,
        "coverage_percent": 100 * float(np.mean((size >= rules.k) & (size < 2 * rules.k))) if len(size) else 100.0,
        **distortion(evidence, scene.at, rules.timetable),
    }
