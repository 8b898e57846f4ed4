"""An adversary that enumerates worlds, against histories that the rule of composition lets through.

It shares nothing with the rule. The person at a sensitive site is one of the crowd that a snapshot hides there. A row
of another release says that all of its people were in one region, which holds the site or does not: each such geometry
leaves some people of the crowd possible. A request was sent by one of all people: possible are those whose request
would stand in the same rows, or in none.
"""

from collections.abc import Callable, Iterator
from itertools import product

import pytest

from tests.db.histories import draw_history
from tests.db.oracle import Group, Person, Release, Rule
from tests.unit.test_oracle import IgnoresWhoIsLeftOutOfPlaces, LetsRequestsTellNothingOfPlaces

HISTORY_COUNT = 1200


def count_left_at_site(holder: Release, crowd: Group, read: list[Release]) -> int:
    """Count who may have been at the site of a crowd, in the worst geometry."""
    rows: list[frozenset[Person]] = []
    for other in read:
        reach = max(holder.reach, other.reach)
        near = (g for g in other.groups if g.first < crowd.last + reach and crowd.first < g.last + reach)
        rows += sorted({g.everybody & crowd.people for g in near if other is not holder} - {frozenset()}, key=sorted)
    possible = []
    for geometry in product([False, True], repeat=len(rows)):
        off = frozenset[Person]().union(*(people for people, holds in zip(rows, geometry, strict=True) if not holds))
        possible.append(len(crowd.people - off))
    return min(filter(None, possible))


def count_left_as_sender(promised: Group, moment: int, read: list[Release]) -> int:
    """Count who may have sent a request that one of a group sent at a moment, in the worst case."""

    def rows(sender: Person) -> list[Group]:
        heard = (g for r in read if r.secret == "sender" for g in r.groups if g.first <= moment < g.last)
        return [group for group in heard if sender in group.everybody]

    def may_be(other: Person, person: Person) -> bool:
        """Nobody is hidden by a guest, who may have been absent."""
        return rows(other) == rows(person) and (other == person or all(other in g.people for g in rows(other)))

    everyone = {person for release in read for group in release.groups for person in group.people}
    return min(sum(may_be(other, person) for other in everyone | {person}) for person in promised.everybody)


def find_beaten(rule: Rule, histories: range) -> Iterator[bool]:
    """Say of each history let through without any reason whether it leaves a person too few."""
    for drawn in map(draw_history, histories):
        earlier = [release for release in drawn.earlier if release.population == drawn.new.population]
        if any(
            r.stands_alone or r.overridden or r.method in ("merged", "windows", "stays") for r in [*earlier, drawn.new]
        ):
            continue
        if not earlier or rule.judge(drawn.new, drawn.earlier).refused:
            continue
        yield any(
            count_left_at_site(release, group, [*earlier, drawn.new]) < release.k
            if release.secret == "place"
            else any(
                count_left_as_sender(group, moment, [*earlier, drawn.new]) < release.k
                for moment in range(group.first, group.last)
            )
            for release in [*earlier, drawn.new]
            for group in release.groups
            if len(group.people) > 1
        )


def test_no_world_leaves_fewer_than_promised_after_what_the_rule_lets_through(cases: Callable[[int], range]) -> None:
    histories = cases(HISTORY_COUNT)
    worse = list(find_beaten(Rule(), histories))
    assert len(worse) > len(histories) / 15
    assert not any(worse)


@pytest.mark.parametrize("careless", [IgnoresWhoIsLeftOutOfPlaces, LetsRequestsTellNothingOfPlaces])
def test_a_careless_rule_is_beaten(careless: type[Rule]) -> None:
    assert any(find_beaten(careless(), range(HISTORY_COUNT)))
