"""The rule of docs/understand/releases-together.md in sets and loops: what the measurement in SQL is held against.

A moment is a whole number, a period the moments from `first` to before `last`, a region its number. Nothing is quick.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Person = int


@dataclass(frozen=True)
class Row:
    """One published row: a region for a period; exact if it shows where its one person was."""

    first: int
    last: int
    region: int
    exact: bool = False


@dataclass(frozen=True)
class Record:
    """What is published of some people, with the hiding sets it has where people are hidden by such sets.

    Some of the members may be guests, who hide nobody.
    """

    members: frozenset[Person]
    rows: tuple[Row, ...]
    hidden_among: frozenset[Person] = frozenset()
    guests: frozenset[Person] = frozenset()

    @property
    def first(self) -> int:
        return min(row.first for row in self.rows)

    @property
    def last(self) -> int:
        return max(row.last for row in self.rows)


@dataclass(frozen=True)
class Group:
    """People hidden in each other for a period, or one person who is shown exactly; and guests, hidden among them."""

    first: int
    last: int
    people: frozenset[Person]
    guests: frozenset[Person] = frozenset()

    @property
    def everybody(self) -> frozenset[Person]:
        return self.people | self.guests

    def hides(self, person: Person) -> frozenset[Person]:
        """Among whom: the others and itself."""
        return self.people | {person}


@dataclass(eq=False)
class Release:
    """What was published once; two with the same content are two all the same."""

    k: int
    secret: Literal["sender", "place"]
    hidden_by: Literal["record", "region", "hiding"]
    records: tuple[Record, ...]
    method: str = ""
    stands_alone: bool = False
    snapshot: bool = False
    max_gap: int = 0
    settle: int = 0
    dataset: int = 0
    population: int = 0
    withdrawn: bool = False
    overridden: bool = False
    series: int | None = None  # the release that grows of which it is a part: the rule never asks
    first: int = field(init=False)
    last: int = field(init=False)
    reach: int = field(init=False)
    groups: frozenset[Group] = field(init=False)

    def __post_init__(self) -> None:
        rows = [row for record in self.records for row in record.rows]
        self.first, self.last = min(row.first for row in rows), max(row.last for row in rows)
        shows = self.snapshot or any(row.exact for row in rows)
        self.reach = max(self.max_gap, self.settle) if shows else 0
        self.groups = frozenset() if self.stands_alone else frozenset(self._groups())

    def _groups(self) -> Iterator[Group]:
        for record in self.records:
            if self.hidden_by == "record":
                yield Group(record.first, record.last, record.members - record.guests, record.guests)
            else:
                for row in record.rows:
                    yield Group(row.first, row.last, record.members if row.exact else self._in(row))

    def _in(self, row: Row) -> frozenset[Person]:
        return frozenset[Person]().union(*(record.members for record in self.records if row in record.rows))

    @property
    def content(self) -> tuple[int, Counter[Record]]:
        """Its people, sets, periods and regions, of one dataset."""
        return self.dataset, Counter(self.records)

    def spoken(self, person: Person) -> list[Group | Record]:
        """When it speaks of a person: in which groups, or in which records where it stands alone."""
        if self.stands_alone:
            return [record for record in self.records if person in record.members]
        return [group for group in self.groups if person in group.everybody]


class Promise(NamedTuple):
    """That nothing distinguishes a person from the others of a group: at a moment; or ever, if there is a reach."""

    release: Release
    person: Person
    group: Group
    moment: int | None


class Verdict(NamedTuple):
    """What publishing a release comes to."""

    refused: bool
    smallest: int | None
    people: int


class Rule:
    """The rule, a method a clause, so that a mutant is a subclass."""

    def judge(self, new: Release, history: Iterable[Release]) -> Verdict:
        """Decide whether a release may follow these, the oldest first."""
        broken: list[tuple[int, Person]] = []
        touched: list[int] = []
        for audience in self.audiences([r for r in history if self.may_be_the_same_people(new, r)]):
            broken += [(0, person) for person in self.clashing(new, audience)]
            for promise in self.promises(new):
                left = len(self.candidates(promise, audience))
                if any(self.says(promise, other) for other in audience):
                    touched.append(left)
                if left < self.promised(new, new) and not self.is_old(promise, audience):
                    broken.append((left, promise.person))
            for old in audience:
                others = [release for release in audience if release is not old]
                for promise in self.promises(old):
                    if self.says(promise, new):
                        before, left = (len(self.candidates(promise, rs)) for rs in (others, [*others, new]))
                        touched.append(left)
                        if left < self.promised(old, new) and self.hurts(before, left):
                            broken.append((left, promise.person))
        smallest = min((left for left, _ in broken), default=min(touched, default=None))
        return Verdict(bool(broken), smallest, len({person for _, person in broken}))

    def may_be_the_same_people(self, new: Release, old: Release) -> bool:
        return new.population == old.population

    def audiences(self, history: list[Release]) -> list[list[Release]]:
        """Who has read everything; everything but what was let through for a reason; that and one such release."""
        plain = [release for release in history if not release.overridden]
        each = [[r for r in history if r is one or not r.overridden] for one in history if one.overridden]
        return [history, plain, *each]

    def promised(self, release: Release, new: Release) -> int:
        return release.k

    def hurts(self, before: int, after: int) -> bool:
        return after < before

    def speaks_on(self, release: Release, secret: str) -> bool:
        """An adversary that knows where all people were learns of senders only from releases with requests."""
        return secret == "place" or release.secret == "sender"

    # Measured.

    def promises(self, release: Release) -> Iterator[Promise]:
        for group in release.groups:
            if len(group.people) > 1:
                for person in group.everybody:
                    for moment in range(group.first, group.last) if release.reach == 0 else [None]:
                        yield Promise(release, person, group, moment)

    def candidates(self, promise: Promise, others: Iterable[Release]) -> frozenset[Person]:
        """Who may be meant, for a reader of all these releases."""
        left = promise.group.hides(promise.person)
        for other in others:
            for people in self.says(promise, other):
                left &= people
        return left

    def says(self, promise: Promise, other: Release) -> list[frozenset[Person]]:
        """Among whom another release says the person is."""
        if other.stands_alone or not self.speaks_on(other, promise.release.secret):
            return []
        near = [group for group in self.rows(other) if self.is_near(promise, other, group)]
        among = [g.hides(promise.person) for g in near if promise.person in g.everybody]
        return among + self.left_out(promise, near)

    def rows(self, release: Release) -> Iterable[Group]:
        """Its groups; a person may be alone in one: shown exactly."""
        return release.groups

    def is_near(self, promise: Promise, other: Release, group: Group) -> bool:
        at = promise.group
        if promise.moment is not None:
            at = Group(promise.moment, promise.moment + 1, at.people)
        return self.near(at, group, self.reach(promise.release, other))

    def left_out(self, promise: Promise, near: list[Group]) -> list[frozenset[Person]]:
        """The others of the group of whom nothing is said either in a period in which something is said of people."""
        spoken: dict[tuple[int, int], frozenset[Person]] = {}
        for group in near:
            period = group.first, group.last
            spoken[period] = spoken.get(period, frozenset()) | group.everybody
        return [
            promise.group.hides(promise.person) - people for people in spoken.values() if promise.person not in people
        ]

    def reach(self, one: Release, other: Release) -> int:
        return max(one.reach, other.reach)

    def near(self, one: Group | Record, other: Group | Record, reach: int) -> bool:
        """Whether two periods overlap or are less than the reach apart."""
        return one.first < other.last + reach and other.first < one.last + reach

    def is_old(self, promise: Promise, audience: list[Release]) -> bool:
        """Whether an earlier release promised no less of the very same group: then it is that promise."""
        return any(
            old.secret == promise.release.secret
            and old.k >= promise.release.k
            and (old.reach > 0) == (promise.release.reach > 0)
            and any(self.is_same(promise, group) for group in old.groups)
            for old in audience
        )

    def is_same(self, promise: Promise, group: Group) -> bool:
        if promise.moment is None:
            return group == promise.group
        same = (group.people, group.guests) == (promise.group.people, promise.group.guests)
        return same and group.first <= promise.moment < group.last

    # What stands alone.

    def clashing(self, new: Release, audience: list[Release]) -> set[Person]:
        """People of whom a release that stands alone and another one speak."""
        found = set[Person]()
        for other in audience:
            known = [old for old in audience if old is not other and self.is_repeated(new, old)]
            found |= self.clash(new, other) - set().union(*(self.clash(old, other) for old in known))
        return found

    def is_repeated(self, new: Release, old: Release) -> bool:
        return new.stands_alone and old.stands_alone and old.content == new.content

    def clash(self, one: Release, other: Release) -> set[Person]:
        if self.is_repeated(one, other):
            return set()
        return self.disturbed(one, other) | self.disturbed(other, one)

    def disturbed(self, one: Release, other: Release) -> set[Person]:
        """People of the one, if it stands alone, of whom the other speaks in the time of their record."""
        if not one.stands_alone or not self.speaks_on(other, one.secret):
            return set()
        reach = self.reach(one, other)
        return {
            person
            for record in one.records
            for person in record.members
            if any(self.near(record, said, reach) for said in other.spoken(person))
        }
