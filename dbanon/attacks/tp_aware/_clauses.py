"""What the attack on tp-aware demands of a run, in words, and what it leaves open."""

from dbanon.attacks.shared.clauses import DECIDABLE, LEFT_OUT, Condition, make_columns_clause, make_region_clause

CLAUSES = (
    DECIDABLE,
    Condition(
        name="period",
        must="The rows of every record must follow one another without gap or overlap from the first to the last "
        "instant of one window, one for each instant unless min_contents joins them",
        broken_by="records",
        plain="The rows of a group fill one window of time, so no group is distinguished by when it begins or ends.",
    ),
    make_region_clause("one rectangle of whole cells of the run's grid"),
    make_columns_clause(),
    Condition(
        name="members",
        must="Every record must have members, each once, for its whole time or as a guest, and with a trajectory of "
        "the dataset, and among them all trajectories that supply a position",
        broken_by="memberships or records",
        plain="The stored members of each group are exactly the possible senders of its requests.",
    ),
    Condition(
        name="crowd",
        must="The columns crowd and `subjects` of every row must be the numbers of its distinct people without guests, "
        "and with them",
        plain="Every row states truly how many people may have sent its requests.",
    ),
    Condition(
        name="size",
        must="Every record must hide at least k = {k} distinct people that are no guests",
        broken_by="records",
        plain="Every group has at least k people.",
    ),
    Condition(
        name="covers",
        must="Every cloak must hold the cell of every member at each of its instants",
        broken_by="positions",
        plain="Each person of a group was in its region at each instant, so knowing all positions excludes none.",
    ),
    Condition(
        name="tight",
        must="Where people present at some instants only may be guests, every cloak must be the least rectangle around "
        "its members at its instants",
        plain="A guest widens a region only at the instants at which it was there.",
    ),
    Condition(
        name="guests",
        must="The guests of a record must together widen it by the cap an instant of presence or less, and join only "
        "where presence does not follow requests",
        broken_by="records",
        plain="Guests hardly widen a group, and are seen as often when they ask nothing.",
    ),
    Condition(
        name="complete",
        must="Every person present at all instants of a window must be published unless fewer than k = {k} are "
        "present, and where guests may join, each other person whom a group can take at the cap or below",
        broken_by="people in a window",
        plain="No person that a group could hold is missing, so none is identified by absence.",
    ),
    LEFT_OUT,
    Condition(
        name="once",
        must="Every person must be in one record of a window at most",
        broken_by="further memberships",
        plain="No person is in two groups at a time, which a reader could compare.",
        test="linkability",
    ),
    Condition(
        name="presence",
        must="Every member must be present at all instants of its window, and a guest at those stored, not all",
        broken_by="members",
        plain="Each person of a group has a position at every instant of it, so a reader excludes none as absent.",
    ),
    Condition(
        name="requests-sent",
        must="Every published request must have been sent by a member in the period of its row",
        broken_by="requests",
        plain="Every request was sent by a person of its group, so no group is blamed for the requests of others.",
        test="inference",
        over="request_contents_published",
    ),
    Condition(
        name="requests-set",
        must="The requests of a row must be a set sorted by content, so that order reveals nothing",
        broken_by="requests",
        plain="Neither the order nor the number of equal requests reveals their senders.",
        over="request_contents_published",
    ),
    Condition(
        name="requests-few",
        must="The requests of a row must have at least min_contents distinct contents, or none",
        plain="For a person that is known to have sent a request, a reader finds at least min_contents different "
        "ones, or none.",
        test="inference",
        over="request_contents_published",
    ),
    Condition(
        name="requests-complete",
        must="Every request a member sent must be in its row, except where a record's members sent fewer contents in "
        "all than min_contents",
        broken_by="requests",
        plain="All requests of a group are published, or none where they have fewer than min_contents contents.",
        test="inference",
        over="requests_of_members",
    ),
)

LEFT_OPEN = {
    "singling out": "If some people of a group are known not to have asked, fewer than k are left. A content that "
    "names a property such as age points to its sender.",
    "linkability": "A content that returns in later windows may come from one sender: one of the few people that are "
    "most often in groups that sent it.",
    "inference": "If the time of a person's request is known, a reader finds the contents of that row, often a single "
    "one without min_contents. Places of people are not protected.",
}
