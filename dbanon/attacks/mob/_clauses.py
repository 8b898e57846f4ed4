"""What the attack on mob demands of a run, in words, and what it leaves open."""

from dbanon.attacks.shared.clauses import DECIDABLE, LEFT_OUT, Condition, make_columns_clause, make_region_clause

CLAUSES = (
    DECIDABLE,
    Condition(
        name="period",
        must="Every row must have the slot of one instant as its period, after that of the row before",
        plain="Every row lasts the slot of one instant, so no odd second distinguishes one person's row.",
    ),
    make_region_clause("one rectangle of whole cells of the dataset's grid"),
    make_columns_clause("`cloaked` true or false in each"),
    Condition(
        name="members",
        must="Every record must hold all trajectories of one person, each whole, and no person may have two records",
        broken_by="records or memberships",
        plain="All that is published of a person is in one record, and no second one can be compared with it.",
        test="linkability",
    ),
    Condition(
        name="crowd",
        must="Every row must stand for one person, and the crowd of a cloaked row must be the number of people with "
        "its region then",
        plain="Every row that hides people states truly how many have its region at the instant.",
    ),
    Condition(
        name="size",
        must="Every cloaked region must be shared by at least k = {k} people at the instant",
        broken_by="regions",
        plain="Every region that hides people hides at least k.",
        over="classes",
    ),
    Condition(
        name="covers",
        must="Every cloaked row must hold the cell of its person",
        plain="Each person hidden in a region was in it, so knowing all positions excludes none.",
        over="classes",
    ),
    Condition(
        name="complete",
        must="Every published person must have one row at each instant with a position or, where the run publishes "
        "only cloaked rows, all of these, also at the person's own instants",
        broken_by="rows, there or missing",
        plain="A row of a published person is missing only where the person was absent, or where the run publishes no "
        "exact rows.",
    ),
    LEFT_OUT,
    Condition(
        name="exact",
        must="Every row that is not cloaked must be exactly the cell of its person, with crowd 1",
        plain="A row that hides no person is exactly where its person was, and states crowd 1.",
        over="exact_rows",
    ),
    Condition(
        name="sets",
        must="Each person with own instants must have one hiding set for the whole record, of k - 1 published others "
        "or more, k = {k}, mutual where the algorithm says so",
        broken_by="sets or others in them",
        plain="Each person with quasi-identifiers has at least k - 1 published others to hide among.",
        over="published_with_instants",
    ),
    Condition(
        name="hidden",
        must="A person with own instants must fit the records of at least k = {k} people, also when each record is "
        "matched with one person",
        broken_by="people",
        plain="With the places of all people at the instants of their quasi-identifiers, a reader finds at least k "
        "records for each.",
        over="published_with_instants",
    ),
    Condition(
        name="elimination",
        must="A person without own instants must fit the records of at least k = {k} people, also when each record is "
        "matched with one person",
        broken_by="people",
        plain="People without quasi-identifiers are not identified by assigning all other records to their owners.",
        over="published_without_instants",
    ),
)

LEFT_OPEN = {
    "singling out": "Exact rows give a person away at any instant outside the quasi-identifier. Top speeds and "
    "knowledge of the algorithm make some of the k records likelier or impossible.",
    "linkability": "All rows with one record_id are of the same person, so recognising the person at one instant "
    "reveals all of them.",
    "inference": "Each side of a region is where one of its people was, and exact rows show where a person was at all "
    "other instants.",
}
