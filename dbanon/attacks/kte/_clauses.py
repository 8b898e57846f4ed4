"""What the attack on kte demands of a run, in words, and what it leaves open."""

from dataclasses import replace

from dbanon.attacks.kte._run_statements import HIDE, MERGE
from dbanon.attacks.shared.clauses import DECIDABLE, LEFT_OUT, Condition, make_columns_clause, make_region_clause

CLAUSES = (
    DECIDABLE,
    Condition(
        name="period",
        must="Every period must be whole slots of the run's grid, and lie within one epoch or, "
        "in its record's, window where the run has any",
        plain="Every row lasts whole slots of time, so no odd second distinguishes one person's row.",
    ),
    make_region_clause("one rectangle of whole cells of the run's grid"),
    make_columns_clause(),
    Condition(
        name="members",
        must="Every record must hold all trajectories of its people with samples in its window, each whole, and no "
        "person may be in two records of one window",
        broken_by="records or memberships",
        plain="All that is published of a person, in a window where there are windows, is in one record, and no second "
        "one can be compared with it.",
        test="linkability",
    ),
    Condition(
        name="crowd",
        must="The columns that count people must be true",
        plain="Every row states truly among how many people it hides a person, and for how many it stands.",
    ),
    Condition(
        name="size",
        must="Every record must have at least k = {k} people",
        broken_by="records",
        plain="Every group has at least k people.",
        algorithms=(MERGE,),
    ),
    replace(
        LEFT_OUT,
        must="Every sample must lie in a row of its person's record or be counted as left out, the counts must be "
        "true, and groups must leave no person out where k people are",
    ),
    Condition(
        name="truth",
        must="Every row must hold a real sample of each of its record's people",
        plain="Each person of a row was in its region in its period: no row is made up.",
    ),
    Condition(
        name="sets",
        must="Each person must have a hiding set of k - 1 other published records in each window of tau and the leak "
        "with rows of the person, and records of groups must have none",
        broken_by="sets or others in them",
        plain="Each person has k - 1 others to hide among whenever something of the person is published.",
    ),
    Condition(
        name="hidden",
        must="All knowledge of a person in a stretch of tau must fit the records of at least k = {k} people",
        broken_by="people and windows",
        plain="After following a person for tau_s, a reader finds at least k records that fit.",
        algorithms=(HIDE,),
        over="subject_windows",
    ),
    Condition(
        name="silence",
        must="Where nothing of a person is published in a stretch of tau, the records of at least k = {k} people must "
        "say nothing",
        broken_by="people and windows",
        plain="A person without rows for tau_s is one of at least k people without rows then.",
        algorithms=(HIDE,),
        over="least_silent",
    ),
    Condition(
        name="k-pick",
        must="Each published person must be in the hiding sets of at least k - 1 others in each window, k = {k}",
        broken_by="people and windows",
        plain="At each time at least k - 1 others have records that were made to hide the person.",
        algorithms=(HIDE,),
        over="subject_windows",
    ),
    Condition(
        name="carried",
        must="At least k - 1 of the records that hide a person must have been made to do so, and fit the person in "
        "the whole window",
        broken_by="people and windows",
        plain="Each person is hidden by the records that were made to do so, and not by chance.",
        algorithms=(HIDE,),
        over="subject_windows",
    ),
    Condition(
        name="alike",
        must="Each member of a group must have one of its records, these must be alike in rows and members, and every "
        "other record must be of one person",
        broken_by="records",
        plain="The records of a group are the same in every row, so nothing distinguishes its people.",
    ),
    Condition(
        name="order",
        must="The rows of a record must come one after the other in time",
        plain="A record is in one place at a time, so no two of its rows can be compared.",
        test="linkability",
    ),
    Condition(
        name="reuse",
        must="No partner may come again sooner than the run's parameters allow",
        broken_by="picks",
        plain="The records that hide a person change from window to window, so no record fits for long.",
        test="linkability",
        algorithms=(HIDE,),
        over="picks",
    ),
    Condition(
        name="leak",
        must="No person may be hidden in one record for longer than tau and the leak, nor, in an epoch outside a "
        "window, again in all the records that hide it in the window",
        broken_by="picks or windows",
        plain="After following a person for tau_s, a reader can follow records for leak_s more, and longer only by "
        "chance.",
        test="linkability",
        algorithms=(HIDE,),
        over="picks",
    ),
)

LEFT_OPEN = {
    "singling out": "Knowledge with breaks beyond tau_s, or of the algorithm and other people's places, may make one "
    "of the k records likelier than the others.",
    "linkability": (
        "Movements can be followed for leak_s beyond the known ones, longer where people stay together, and from "
        "window to window. With k-merge a group recognised shows all its rows."
    ),
    "inference": (
        "A known silence may reveal up to tau_s + leak_s of the movements then. At k = 2 one person sees from a row "
        "where the other was."
    ),
}
