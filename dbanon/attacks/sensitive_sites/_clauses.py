"""What the attack at sensitive sites demands of a run, in words, and what it leaves open."""

from dbanon.attacks.shared.clauses import DECIDABLE, LEFT_OUT, Condition, make_columns_clause, make_region_clause

CLAUSES = (
    DECIDABLE,
    Condition(
        name="period",
        must="Every row must have the snapshot's period",
        plain="All rows have one period, so time distinguishes no person.",
    ),
    make_region_clause("one rectangle of whole cells of the dataset's grid"),
    make_columns_clause("`cloaked` true or false in each"),
    Condition(
        name="members",
        must="Every record must be one row of one person, with one whole membership of the trajectory that supplies "
        "the position, and no person may have two records",
        broken_by="rows or memberships",
        plain="Each person has one row, and no second one can be compared with it.",
        test="linkability",
    ),
    Condition(
        name="crowd",
        must="Every row must stand for one person, and the crowd of a cloaked row must be the number of people with "
        "its region",
        plain="Every row that hides people states truly how many have its region.",
    ),
    Condition(
        name="size",
        must="Every cloaked region must be shared by at least k = {k} people",
        broken_by="regions",
        plain="Every region that hides people hides at least k.",
        over="rectangles",
    ),
    Condition(
        name="covers",
        must="Every cloaked row must hold the cells of its person",
        plain="Each person hidden in a region was in it, so knowing all positions excludes none.",
        over="cloaked",
    ),
    Condition(
        name="complete",
        must="Every person with a position must be published",
        broken_by="subjects",
        plain="No person with a position is missing, so none is identified by absence.",
    ),
    LEFT_OUT,
    Condition(
        name="exact",
        must="Every row that is not cloaked must be exactly the cells of its person, with crowd 1",
        plain="A row that hides no person is exactly where its person was, and states crowd 1.",
        over="exact",
    ),
    Condition(
        name="nearest",
        must="All rows nearest to a site must be cloaked, and at least k = {k} of them must have one region",
        broken_by="sites",
        plain="A reader looking for the people at a site finds at least k, and no exact row as near as theirs.",
        test="inference",
    ),
    Condition(
        name="own-rectangle",
        must="Every site must have a rectangle that holds it, a rectangle of c people must serve at most c / {k} "
        "sites, and every cloaked region must hold a site",
        broken_by="sites or regions",
        plain="Each site has its own k people: no person counts for two sites.",
        test="inference",
    ),
    Condition(
        name="guards",
        must="No exact row may be where the run's guards allow none",
        broken_by="rows, counted at each site",
        plain="No exact row lies where the run promised to hide all people.",
        test="inference",
        over="exact_guarded",
    ),
)

LEFT_OPEN = {
    "singling out": "People away from sites are published exactly. A reader with knowledge of the people that live or "
    "work in a rectangle is left with fewer than k.",
    "linkability": "A reader can compare releases of several instants: perhaps only one person was near the site "
    "each time.",
    "inference": "All people of a rectangle may have been at the site. If the rectangle is no larger than the site, "
    "they were. Places that were not loaded are not protected.",
}
