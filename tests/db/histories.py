"""Random histories of publications, small enough for `tests.db.oracle`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.db.oracle import Record, Release, Row, Rule

WINDOW = 2  # moments, from the first on
STAND_IN = 100_000  # what takes the place of a person who was forgotten has so much more than its number
OWN = 100  # where a dataset's names are its own, its people have numbers from so many times the dataset's on
AS_THEY_ARE, DOUBLED, PARTIAL = (0, 1, 3), 5, 6
LOST = "lost"  # the method of a release of which its time is known, and nothing else
People = frozenset[int]
# The secret, what hides people, whether the method stands alone, and whether a release of it is of one instant.
KINDS: dict[str, tuple[Any, Any, bool, bool]] = {
    "bundles": ("sender", "record", False, False),
    "merged": ("place", "record", False, False),
    "windows": ("place", "record", False, False),
    "sites": ("place", "region", False, True),
    "stays": ("place", "region", False, False),
    "sets": ("place", "hiding", True, False),
    "objects": ("place", "hiding", True, False),
    "cells": ("place", "record", True, False),
}


@dataclass(frozen=True)
class Dataset:
    """What matters of a dataset: its population, how long people settle, whether its subjects are its own; its fixes.

    They are those of some people on an evening, whom it has under one name or more. Equal evenings are equal fixes.
    """

    population: int
    settle: int
    own: bool
    evening: int
    named: dict[int, People]


@dataclass(frozen=True)
class World:
    """What a history is drawn from: few moments, people, whom they are with as a rule, and seven datasets.

    Two have the people as they are, one as rows of their own, and one in another population. Then one has other names;
    one has two or three names for each of half of the people; one has other names for half of them, and new people.
    """

    moments: int
    people: list[int]
    usual: list[People]
    datasets: list[Dataset]

    def name(self, person: int, number: int) -> int:
        """Return the name of a person in the groups of a dataset."""
        kept = number in AS_THEY_ARE or (number == DOUBLED and person < len(self.people) // 2)
        return person if kept else OWN * number + person


@dataclass(frozen=True)
class Forgotten:
    """A person who was forgotten in a dataset after the releases, and may have been remembered and loaded again."""

    dataset: int
    person: int
    remembered: bool


@dataclass(frozen=True)
class History:
    """Releases, the oldest first, as they are known now; and the one that is to follow.

    `published` are the same before somebody was forgotten.
    """

    earlier: list[Release]
    new: Release
    datasets: list[Dataset]
    published: list[Release]
    forgotten: Forgotten | None = None


def draw_history(seed: int) -> History:
    """Draw a history in which each release was let through by the rule, or for a reason; some are lost in a restore."""
    draw, losing = Random(seed), Random(f"lost {seed}")
    world = _draw_world(draw)
    earlier: list[Release] = []
    lost: list[Release] = []
    length = draw.randint(1, 4)
    while True:
        if losing.random() < 0.1:
            lost.append(_draw_lost(losing, world))
        again = earlier and draw.random() < 0.2
        new = _repeat_release(draw, world, draw.choice(earlier)) if again else _draw_release(draw, world)
        if len(earlier) == length:
            _make_parts([*earlier, new])
            known = [*earlier, *lost]
            whole = History(known, new, world.datasets, known)
            return _forget(draw, whole) if draw.random() < 0.3 else whole
        refused = Rule().judge(new, [*earlier, *lost]).refused
        if not refused or draw.random() < 0.7:
            new.overridden, new.withdrawn = refused, draw.random() < 0.25
            earlier.append(new)


def _make_parts(releases: list[Release]) -> None:
    """Make releases of one method and dataset parts of one release that grows, where their times leave that."""
    found: dict[tuple[str, int], tuple[int, list[Release]]] = {}
    for release in releases:
        number, parts = found.setdefault((release.method, release.dataset), (len(found), []))
        free = all(part.withdrawn or release.first >= part.last or part.first >= release.last for part in parts)
        release.series = number if free else None
        parts += [release] if free else []


def _draw_world(draw: Random) -> World:
    people = list(range(draw.randint(6, 12)))
    kinds = [(0, False), (0, False), (0, True), (1, False), (0, False), (0, False), (0, False)]
    settled = [draw.randint(0, 3) for _ in kinds]
    world = World(draw.choice([3, 8, 8]), people, _split_people(draw, people, draw.randint(2, 4)), [])
    for number, ((population, own), settle) in enumerate(zip(kinds, settled, strict=True)):
        named: dict[int, People] = {}
        for person in people:
            real = person
            if number == DOUBLED:
                real = person % (len(people) // 2)
            elif number == PARTIAL and person % 2:
                real = OWN * number + person
            named[real] = named.get(real, frozenset()) | {world.name(person, number)}
        world.datasets.append(Dataset(population, settle, own, draw.randrange(3), named))
    return world


def _forget(draw: Random, whole: History) -> History:
    """Let a person be forgotten in a dataset with releases; without data, or remembered, before the next release.

    A code that nobody has takes the person's place in all releases of the population, unless another dataset of it has
    the name. Of a lost release no names are known: it goes on speaking of everybody, whoever is remembered.
    """
    number = draw.choice([release for release in whole.earlier if release.method != LOST]).dataset
    person = draw.choice(sorted(_list_people(whole.earlier, number)))
    new, remembered = whole.new, draw.random() < 0.5
    if new.dataset == number and not remembered:
        left = _leave_out(new.records, person)
        if not left or any(person in record.members and 1 < len(record.members) <= new.k for record in new.records):
            return whole  # no attack lets a run pass that hides people among fewer than k
        new = replace(new, records=left)
    dataset = whole.datasets[number]
    kin = [n for n, d in enumerate(whole.datasets) if d.population == dataset.population and n != number and not d.own]
    earlier = whole.earlier
    if dataset.own or not any(person in _list_people([new, *earlier], n) for n in kin):
        earlier = [
            replace(release, records=tuple(_rename_member(record, person) for record in release.records))
            if release.population == dataset.population and release.method != LOST
            else release
            for release in earlier
        ]
    datasets = list(whole.datasets)
    named = {real: names - {person} for real, names in dataset.named.items() if names - {person}}
    datasets[number] = replace(dataset, named=named)
    return History(earlier, new, datasets, whole.earlier, Forgotten(number, person, remembered))


def _list_people(releases: Iterable[Release], number: int) -> People:
    of_dataset = (release for release in releases if release.dataset == number)
    return frozenset(p for release in of_dataset for record in release.records for p in record.members)


def _leave_out(records: Iterable[Record], person: int) -> tuple[Record, ...]:
    """Leave a person out of records; none where one would hide its owner among nobody."""
    gone = frozenset({person})
    left = tuple(
        replace(
            record, members=record.members - gone, hidden_among=record.hidden_among - gone, guests=record.guests - gone
        )
        for record in records
        if record.members - record.guests - gone
    )
    return () if any(bool(old.hidden_among) and not old.hidden_among - gone for old in records) else left


def _rename_member(record: Record, person: int) -> Record:
    def of(people: People) -> People:
        return people - {person} | {STAND_IN + person} if person in people else people

    return replace(record, members=of(record.members), hidden_among=of(record.hidden_among), guests=of(record.guests))


def find_copied(history: History) -> People:
    """Return for which datasets the release that is to follow needs a reason.

    They are those with releases that have its fixes under other names, and its own if a person has several names in it.
    """
    new = history.new.dataset
    released = {release.dataset for release in history.earlier if release.method != LOST} - {new}
    mine = _find_carriers(history, new)
    doubled = {new} if any(len(names) > 1 for names in mine.values()) else set()
    return frozenset(
        doubled
        | {
            n
            for n in released
            if any(mine.get(fixes, names) != names for fixes, names in _find_carriers(history, n).items())
        }
    )


def _find_carriers(history: History, number: int) -> dict[tuple[int, int], frozenset[tuple[object, int]]]:
    """Return under which names a dataset has the fixes of each evening and person: names of its population."""
    dataset = history.datasets[number]
    space = number if dataset.own else (dataset.population,)
    return {
        (dataset.evening, real): frozenset((space, name) for name in names) for real, names in dataset.named.items()
    }


def _settle(datasets: list[Dataset], number: int) -> int:
    """How long the people of a dataset settle: the greatest of their population."""
    return max(d.settle for d in datasets if d.population == datasets[number].population)


def _split_people(draw: Random, people: Iterable[int], size: int) -> list[People]:
    """Split people into groups of at least so many."""
    left = list(people)
    draw.shuffle(left)
    parts: list[People] = []
    while len(left) >= 2 * size:
        number = draw.randint(size, len(left) - size) if draw.random() < 0.3 else size
        parts, left = [*parts, frozenset(left[:number])], left[number:]
    return [*parts, frozenset(left)]


def _draw_groups(draw: Random, world: World, k: int) -> list[People]:
    """Draw the groups of a window: the usual ones, some of them joined, or others; some people may be left out."""
    groups = list(world.usual)
    how = draw.random()
    if how > 0.7:
        groups = _split_people(draw, world.people, k)
    elif how > 0.5 and len(groups) > 1:
        groups = [groups[0] | groups[1], *groups[2:]]
    if draw.random() < 0.3:
        out = set(draw.sample(world.people, draw.randint(1, 2)))
        groups = [group - out if len(group - out) >= k else group for group in groups]
    if draw.random() < 0.2:
        groups = groups[1:] or groups
    return [group for group in groups if len(group) >= k] or [frozenset(world.people)]


def _draw_release(draw: Random, world: World) -> Release:
    method = draw.choices(list(KINDS), [4, 2, 2, 5, 2, 1, 1, 1])[0]
    number = draw.choices(range(7), [5, 2, 1, 1, 1, 1, 1])[0]
    k = draw.randint(2, 4)
    secret, hidden_by, stands_alone, snapshot = KINDS[method]
    records = _DRAWN[method](draw, world, k)
    dataset = world.datasets[number]
    records = [
        replace(
            r,
            **{
                key: frozenset(world.name(p, number) for p in getattr(r, key))
                for key in ("members", "hidden_among", "guests")
            },
        )
        for r in records
    ]
    return Release(
        k, secret, hidden_by, tuple(records), method, stands_alone, snapshot, max_gap=draw.randint(0, 2),
        settle=_settle(world.datasets, number), dataset=number, population=dataset.population,
    )  # fmt: skip


def _draw_lost(draw: Random, world: World) -> Release:
    """Draw a release that may speak of everybody of its population, from its first moment to its last."""
    everybody = frozenset(
        world.name(person, number) for person in world.people for number in range(len(world.datasets))
    )
    record = Record(everybody, (Row(*_draw_times(draw, world), region=0),))
    return Release(
        2, "place", "hiding", (record,), LOST, stands_alone=True, snapshot=True, max_gap=draw.randint(0, 2),
        dataset=-1, population=draw.choice([0, 0, 0, 1]),
    )  # fmt: skip


def _draw_times(draw: Random, world: World) -> tuple[int, int]:
    first = draw.randrange(world.moments - 1)
    return first, draw.randint(first + 1, min(first + 3, world.moments))


def _draw_rows(draw: Random, first: int, last: int) -> tuple[Row, ...]:
    """Draw a region a moment; a record may say nothing between its first and its last row."""
    moments = [m for m in range(first, last) if m in (first, last - 1) or draw.random() < 0.8]
    return tuple(Row(moment, moment + 1, draw.randint(1, 9)) for moment in moments)


def _draw_bundles(draw: Random, world: World, k: int) -> list[Record]:
    """One record a group, in one window or two."""
    first, last = _draw_times(draw, world)
    windows = [(first, last)]
    if draw.random() < 0.4 and last < world.moments:
        windows.append((draw.randrange(last, world.moments), world.moments))
    return [Record(group, _draw_rows(draw, *window)) for window in windows for group in _draw_groups(draw, world, k)]


def _draw_with_guests(draw: Random, world: World, k: int) -> list[Record]:
    """Bundles, of which some have people as guests who are in no other bundle of the window."""
    records = _draw_bundles(draw, world, k)
    inviting = Random(f"guests {records}")  # other draws stay as they are
    for place, record in enumerate(records):
        near = [other for other in records if other.first < record.last and record.first < other.last]
        out = sorted(set(world.people).difference(*(other.members for other in near)))
        guests = frozenset(person for person in out if inviting.random() < 0.5)
        records[place] = replace(record, members=record.members | guests, guests=guests)
    return records


def _draw_merged(draw: Random, world: World, k: int) -> list[Record]:
    """One record a member, each with the rows and the members of all."""
    return [record for record in _draw_bundles(draw, world, k) for _ in record.members]


def _draw_windows(draw: Random, world: World, k: int) -> list[Record]:
    """The same of each window by itself; the first and the last may have rows in a part of it alone."""
    first, last = _draw_times(draw, world)
    windows = range(first // WINDOW, -(-last // WINDOW))
    spans = [(max(first, WINDOW * w), min(last, WINDOW * (w + 1))) for w in windows]
    return [
        Record(group, rows)
        for span in spans
        for group in _draw_groups(draw, world, k)
        for rows in [_draw_rows(draw, *span)]
        for _ in group
    ]


def _draw_sites(draw: Random, world: World, k: int) -> list[Record]:
    first = draw.randrange(world.moments)
    return _draw_around_sites(draw, world, k, first, first + 1)


def _draw_stays(draw: Random, world: World, k: int) -> list[Record]:
    """Snapshots of several moments in one release; each person has one record."""
    found: dict[People, tuple[Row, ...]] = {}
    for first in sorted(draw.sample(range(world.moments), draw.randint(1, 2))):
        for record in _draw_around_sites(draw, world, k, first, first + 1):
            found[record.members] = found.get(record.members, ()) + record.rows
    return [Record(members, rows) for members, rows in found.items()]


def _draw_around_sites(draw: Random, world: World, k: int, first: int, last: int) -> list[Record]:
    """One or two groups in a region each; of the others most are exact, and the rest left out."""
    hidden = draw.sample(groups := _draw_groups(draw, world, k), min(len(groups), draw.randint(1, 2)))
    regions = draw.sample(range(10, 13), 2) if draw.random() < 0.9 else [10, 10]
    found = [
        Record(frozenset({person}), (Row(first, last, region),))
        for group, region in zip(hidden, regions, strict=False)
        for person in group
    ]
    others = set(world.people).difference(*hidden)
    shown = [person for person in sorted(others) if draw.random() < 0.8]
    return found + [Record(frozenset({p}), (Row(first, last, draw.randint(1, 9), exact=True),)) for p in shown]


def _draw_sets(draw: Random, world: World, k: int) -> list[Record]:
    """Records of one owner each, hidden among some of the others for the whole of it."""
    owners = draw.sample(world.people, draw.randint(k, len(world.people)))
    return [
        Record(
            frozenset({owner}),
            _draw_rows(draw, *_draw_times(draw, world)),
            frozenset(draw.sample([*{*owners} - {owner}], k - 1)),
        )
        for owner in owners
    ]


def _draw_objects(draw: Random, world: World, k: int) -> list[Record]:
    """The same, but for some rows that are exact."""
    return [
        replace(record, rows=tuple(replace(row, exact=draw.random() < 0.5) for row in record.rows))
        for record in _draw_sets(draw, world, k)
    ]


_DRAWN = {
    "bundles": _draw_with_guests, "merged": _draw_merged, "windows": _draw_windows, "sites": _draw_sites,
        "stays": _draw_stays, "sets": _draw_sets,
        "objects": _draw_objects,
    "cells": _draw_merged,
}  # fmt: skip


def _repeat_release(draw: Random, world: World, old: Release) -> Release:
    """Repeat a release, perhaps of another dataset of the same names, with a lower k, or with one region changed."""
    new = replace(old, overridden=False, withdrawn=False)
    copies = AS_THEY_ARE if old.dataset in AS_THEY_ARE else [old.dataset]
    if draw.random() < 0.3:
        new = replace(new, dataset=(number := draw.choice(copies)), settle=_settle(world.datasets, number),
                      population=world.datasets[number].population)  # fmt: skip
    if draw.random() < 0.2:
        new = replace(new, k=draw.randint(2, old.k))
    if draw.random() < 0.3:
        new = replace(new, records=_join_person(draw, world, new))
    if draw.random() < 0.2 and new.hidden_by != "region":
        record, *others = new.records
        row, *rows = record.rows
        changed = replace(record, rows=(replace(row, region=row.region % 9 + 1), *rows))
        new = replace(new, records=(changed, *others))
    return new


def _join_person(draw: Random, world: World, release: Release) -> tuple[Record, ...]:
    """Let a person whose rows came late join those of one record: the groups of a time that was published change."""
    there = _list_people([release], release.dataset)
    others = sorted({world.name(person, release.dataset) for person in world.people} - there)
    if not others:
        return release.records
    late, chosen = frozenset({draw.choice(others)}), draw.choice(release.records)
    if len(chosen.members) == 1:
        return (*release.records, replace(chosen, members=late))
    return tuple(
        replace(record, members=record.members | late) if record.members == chosen.members else record
        for record in release.records
    )
