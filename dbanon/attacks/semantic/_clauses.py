"""What the attack on semantic demands of a run, in words, and what it leaves open."""

from dbanon.attacks.shared.clauses import DECIDABLE, LEFT_OUT, Condition, make_columns_clause, make_region_clause

CLAUSES = (
    DECIDABLE,
    Condition(
        name="period",
        must="The rows of a record must follow one another in whole slots, in the time of the run, and none may be "
        "longer than the run allows",
        plain="Every row lasts whole slots of time, so no odd second distinguishes one person's row.",
    ),
    make_region_clause("a valid MultiPolygon of whole cells, no larger than the run allows"),
    make_columns_clause("`categories` the number of categories in the region"),
    Condition(
        name="members",
        must="Each group must have as many equal records as members, with all trajectories of the members, each "
        "whole, in no other group and not counted as left out",
        broken_by="records, memberships or members",
        plain="Each member of a group has one record, and it has the same rows as those of the others.",
    ),
    Condition(
        name="crowd",
        must="Every row must stand for one person, and its crowd must be the number of its record's distinct people",
        plain="Every row states truly how many people its group has.",
    ),
    Condition(
        name="size",
        must="Every group must have at least k = {k} distinct people",
        broken_by="groups",
        plain="Every group has at least k people.",
    ),
    Condition(
        name="covers",
        must="Every row must hold its members' fixes of its period in its region",
        broken_by="fixes",
        plain="Each person of a group was in its regions when seen, so knowing all positions excludes none.",
    ),
    Condition(
        name="complete",
        must="Every fix in a cell must be in a row unless the run's parameters leave it out",
        broken_by="fixes",
        plain="No position is missing except those that the release counts as left out.",
    ),
    LEFT_OUT,
    Condition(
        name="truth",
        must="Every row must hold a fix of each member of its record",
        broken_by="rows and members",
        plain="Each person of a row was in its region in its period: no row is made up.",
    ),
    Condition(
        name="diversity",
        must="Every region must hold points of interest of as many categories as promised",
        plain="Every region has places of at least l kinds, so it does not reveal people's activities.",
        test="inference",
    ),
    Condition(
        name="closeness",
        must="Every region's points of interest must be as close to the city's as promised",
        plain="The kinds of places in a region are mixed as in the city, so no kind stands out.",
        test="inference",
    ),
    Condition(
        name="classes",
        must="Cells that no region separates must together have points of interest of as many categories, and as "
        "close to the city's, as atoms promise",
        broken_by="sets of such cells",
        plain="A reader can play the run again, and learns sets of cells, each with many kinds of places, mixed as in "
        "the city.",
        test="inference",
    ),
    Condition(
        name="tight",
        must="Every region must consist of the atoms of its members' fixes in its period or, if atoms promise less "
        "than regions, be grown from these by whole atoms, always alike",
        plain="A region depends on where people were only by its sets of cells, so it shows no place within one.",
        test="inference",
    ),
)

LEFT_OPEN = {
    "singling out": "Members of a group, and readers who know some of its people, are left with fewer than k. At k = 2 "
    "each person sees the atoms of the other.",
    "linkability": "A record shows its atoms one after the other. Knowledge of a top speed rules out cells on the way "
    "from atom to atom.",
    "inference": "Readers know in which atoms a person was. Within one, popular cells are likelier, also by the hour, "
    "and places that were not loaded do not count.",
}
