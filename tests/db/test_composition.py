"""Releases together: what intersecting their groups leaves, held against a plain count, and what publish makes of it."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

START = datetime(2008, 6, 4, 8, tzinfo=UTC)
Verify = Callable[..., None]


class Group(NamedTuple):
    """People hidden in each other, or each published as they are, from one minute to another."""

    first: int
    last: int
    people: frozenset[int]
    alone: bool = False


class Release(NamedTuple):
    """Some groups, the k that was promised, and whether it was withdrawn."""

    k: int
    groups: tuple[Group, ...]
    withdrawn: bool = False


class Measured(NamedTuple):
    """What dbanon.measure_overlap returns."""

    relation: str
    smallest_crowd: int | None
    k: int | None
    below: int
    people: int
    releases: list[str]


NOTHING = Measured("disjoint", None, None, 0, 0, [])


@pytest.fixture
def connection(scratch: psycopg.Connection) -> psycopg.Connection:
    """Nothing here commits."""
    return scratch


def value(connection: psycopg.Connection, query: str, *params: object) -> object:
    row = connection.execute(query, params).fetchone()
    assert row is not None
    return row[0]


# --- writing runs and releases ----------------------------------------------------------------------------------------


def period(group: Group) -> tuple[datetime, datetime]:
    return START + timedelta(minutes=group.first), START + timedelta(minutes=group.last)


def a_run(connection: psycopg.Connection, release: Release) -> int:
    """Write a computed run of tp-aware, or of sensitive-sites where anybody is alone; returns its id."""
    sites = any(g.alone for g in release.groups)
    run = value(
        connection,
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, params, status)"
        " VALUES (1, %s, %s, jsonb_build_object('k', %s::int), 'verified') RETURNING run_id",
        *(("sensitive-sites", "bk") if sites else ("tp-aware", "traj-anon")),
        release.k,
    )
    rows = [row for place, group in enumerate(release.groups) for row in records(place, group, sites)]
    for record, (place, group, people) in enumerate(rows, start=1):
        connection.execute(
            "INSERT INTO dbanon.cloak SELECT %s, %s, s, tstzrange(%s + (s - 1) * width, %s + s * width),"
            " ST_Reverse(ST_MakeEnvelope(%s, 0, %s, 90, 32610)), %s, %s, %s"
            " FROM generate_series(1, %s) s, LATERAL (SELECT (%s - %s) / %s AS width) w",
            [
                *(run, record, period(group)[0], period(group)[0], 100 * place, 100 * place + 90),
                *(1 if group.alone else max(len(group.people), 2), 1, None),
                *((steps := 1 if sites else group.last - group.first), *reversed(period(group)), steps),
            ],
        )
        connection.execute(
            "INSERT INTO dbanon.membership SELECT %s, %s, 100 + unnest(%s::int[]), NULL", [run, record, sorted(people)]
        )
    return run  # type: ignore[return-value]


def records(place: int, group: Group, each: bool) -> list[tuple[int, Group, frozenset[int]]]:
    """Records of a group: one of all, or one of each with the same region."""
    return [(place, group, frozenset({p})) for p in group.people] if each else [(place, group, group.people)]


def a_release(connection: psycopg.Connection, name: str, release: Release) -> None:
    """Enter what is left of a release: its promise and its groups."""
    run = value(
        connection,
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, params)"
        " VALUES (1, 'tp-aware', 'traj-anon', jsonb_build_object('k', %s::int)) RETURNING run_id",
        release.k,
    )
    number = value(
        connection,
        "INSERT INTO dbanon.release (name, run_id, digest, rows, withdrawn_at, withdrawn_by)"
        " VALUES (%s, %s, '', 0, CASE WHEN %s THEN now() END, CASE WHEN %s THEN 'x' END) RETURNING release_id",
        *(name, run, release.withdrawn, release.withdrawn),
    )
    for group in release.groups:
        connection.execute(
            "INSERT INTO dbanon.grouping VALUES (%s, tstzrange(%s, %s), %s, %s)",
            [number, *period(group), group.alone, [f"p{p}" for p in group.people]],
        )


def measured(connection: psycopg.Connection, run: int) -> Measured:
    row = connection.execute("SELECT * FROM dbanon.measure_overlap(%s)", [run]).fetchone()
    assert row is not None
    return Measured(*row)


# --- the plain count --------------------------------------------------------------------------------------------------


def counted(new: Release, earlier: list[Release]) -> Measured:
    """Count person by person what intersecting leaves; as docs/decisions.md says it."""
    cuts = sorted({t for r in (new, *earlier) for g in r.groups for t in (g.first, g.last)})
    parted: list[tuple[int, int, int, frozenset[int]]] = []
    shared: set[int] = set()
    met = same = coarser = True
    met = False
    promise = 0
    for at in cuts[:-1]:
        holding = [n for n, r in enumerate(earlier) if any(g.first <= at < g.last for g in r.groups)]
        if not holding or not any(g.first <= at < g.last for g in new.groups):
            continue
        shared.update(holding)
        k = max(new.k, *(earlier[n].k for n in holding))
        promise = max(promise, k)
        before = {p: tuple(label(earlier[n], at, p) for n in holding) for p in everybody(new, earlier, at)}
        now = {p: label(new, at, p) for p in before}
        for crowd in {whom(before, now, p) for p in before}:
            person = min(crowd)
            in_class = {p for p in before if before[p] == before[person]}
            in_group = {p for p in now if now[p] == now[person]}
            known = any(before[person])
            met |= known and bool(now[person])
            same &= in_class == in_group and known and bool(now[person])
            if crowd != (in_class if known else in_group):
                coarser = False
                parted.append((len(crowd), k, at, crowd))
    if not met:
        return NOTHING
    below = [p for p in parted if p[0] < p[1]]
    worst = min(parted, key=lambda p: (p[0] >= p[1], p[0], -p[1], p[2])) if parted else (None, promise, None, None)
    who = shared if not parted else {n for n in shared if any(g.first <= worst[2] < g.last for g in earlier[n].groups)}
    names = [f"r{n}" + (" (withdrawn)" if earlier[n].withdrawn else "") for n in sorted(who)]
    people = frozenset[int]().union(*(p[3] for p in below))
    relation = "crossing" if not coarser else "same" if same else "coarser"
    return Measured(relation, worst[0], worst[1], len(below), len(people), names)


def everybody(new: Release, earlier: list[Release], at: int) -> set[int]:
    return {p for r in (new, *earlier) for g in r.groups if g.first <= at < g.last for p in g.people}


def label(release: Release, at: int, person: int) -> frozenset[object]:
    """Name the groups a person is in; one alone has a name of their own; nobody's is empty."""
    inside = [(n, g) for n, g in enumerate(release.groups) if g.first <= at < g.last and person in g.people]
    return frozenset((n, person if g.alone else None) for n, g in inside)


def whom(before: dict[int, object], now: dict[int, object], person: int) -> frozenset[int]:
    return frozenset(p for p in before if before[p] == before[person] and now[p] == now[person])


# --- the same at random -----------------------------------------------------------------------------------------------


def windows(alone: bool) -> st.SearchStrategy[tuple[Group, ...]]:
    """Some windows, each with people split among few groups, perhaps some alone; the last part is left out."""

    def split(drawn: tuple[int, int, list[int]]) -> list[Group]:
        first, length, places = drawn
        parts = [frozenset(p for p, place in enumerate(places) if place == n) for n in range(4 if alone else 3)]
        return [Group(first, first + length, part, n == 3) for n, part in enumerate(parts) if part]

    one = st.tuples(st.integers(0, 5), st.integers(1, 4), st.lists(st.integers(0, 4), min_size=10, max_size=10))
    return st.lists(one.map(split), min_size=1, max_size=2).map(lambda w: tuple(g for part in w for g in part))


def releases(alone: bool) -> st.SearchStrategy[Release]:
    return st.builds(Release, st.integers(2, 4), windows(alone), st.booleans())


TEN = frozenset(range(10))
FIVES = (Group(0, 2, frozenset(range(5))), Group(0, 2, frozenset(range(5, 10))))
HALVES = (Group(0, 2, frozenset({0, 2, 4, 6, 8})), Group(0, 2, frozenset({1, 3, 5, 7, 9})))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(new=st.one_of(releases(False), releases(True)), earlier=st.lists(releases(True), max_size=3))
@example(new=Release(2, HALVES), earlier=[Release(2, FIVES), Release(2, (Group(0, 2, TEN - {0}),))])
@example(new=Release(2, (Group(0, 4, TEN),)), earlier=[Release(3, FIVES), Release(2, HALVES, True)])
@example(new=Release(2, (Group(0, 2, TEN - {0}),)), earlier=[Release(2, FIVES)])
def test_sql_measures_what_a_plain_count_does(
    connection: psycopg.Connection, new: Release, earlier: list[Release]
) -> None:
    with connection.transaction(force_rollback=True):
        for number, release in enumerate(earlier):
            a_release(connection, f"r{number}", release)
        run = a_run(connection, new)
        assert Counter(groups_of(connection, run)) == Counter(merged(new))
        assert measured(connection, run) == counted(Release(new.k, tuple(merged(new))), earlier)


def groups_of(connection: psycopg.Connection, run: int) -> Iterable[Group]:
    rows = connection.execute("SELECT lower(period), upper(period), alone, subjects FROM dbanon.run_grouping(%s)", [run])
    for low, high, alone, subjects in rows.fetchall():
        assert len(subjects) == len(set(subjects))
        first, last = ((t - START) // timedelta(minutes=1) for t in (low, high))
        yield Group(first, last, frozenset(int(s[1:]) for s in subjects), alone)


def merged(release: Release) -> list[Group]:
    """All who are alone for one period are one row."""
    lone: dict[tuple[int, int], frozenset[int]] = {}
    for g in release.groups:
        if g.alone:
            lone[g[:2]] = lone.get(g[:2], frozenset()) | g.people
    return [g for g in release.groups if not g.alone] + [Group(*w, people, True) for w, people in lone.items()]
