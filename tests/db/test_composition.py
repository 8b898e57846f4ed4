"""Releases together: what intersecting their groups leaves, held against a plain count, and what publish says to it."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.facts import names

START = datetime(2008, 6, 4, 8, tzinfo=UTC)
Verify = Callable[..., None]


class Group(NamedTuple):
    """People hidden in each other, or each published as they are, from one minute to another."""

    first: int
    last: int
    people: frozenset[int]
    alone: bool = False


class Release(NamedTuple):
    """Some groups, the k that was promised, whether it was withdrawn, and whether an overlap was allowed for it."""

    k: int
    groups: tuple[Group, ...]
    withdrawn: bool = False
    overridden: bool = False

    @property
    def method(self) -> tuple[str, str]:
        return ("sensitive-sites", "bk") if any(g.alone for g in self.groups) else ("tp-aware", "traj-anon")


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
    run = value(
        connection,
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, params, status)"
        " VALUES (1, %s, %s, jsonb_build_object('k', %s::int), 'verified') RETURNING run_id",
        *release.method,
        release.k,
    )
    sites = release.method[0] == "sensitive-sites"
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


def a_release(connection: psycopg.Connection, name: str, release: Release, dataset: object = 1) -> None:
    """Enter what is left of a release: its promise and its groups."""
    run = value(
        connection,
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, params)"
        " VALUES (%s, %s, %s, jsonb_build_object('k', %s::int)) RETURNING run_id",
        *(dataset, *release.method, release.k),
    )
    number = value(
        connection,
        "INSERT INTO dbanon.release (name, run_id, digest, rows, withdrawn_at, withdrawn_by, overlap_reason)"
        " VALUES (%s, %s, '', 0, CASE WHEN %s THEN now() END, CASE WHEN %s THEN 'x' END, CASE WHEN %s THEN 'x' END)"
        " RETURNING release_id",
        *(name, run, release.withdrawn, release.withdrawn, release.overridden),
    )
    for group in release.groups:
        connection.execute(
            "INSERT INTO dbanon.grouping VALUES (%s, tstzrange(%s, %s), %s, %s)",
            [number, *period(group), group.alone, sorted(f"p{p}" for p in group.people)],
        )


def measured(connection: psycopg.Connection, run: int) -> Measured:
    row = connection.execute("SELECT * FROM dbanon.measure_overlap(%s)", [run]).fetchone()
    assert row is not None
    return Measured(*row)


# --- the plain count --------------------------------------------------------------------------------------------------


def audiences(new: Release, earlier: list[Release]) -> set[tuple[int, ...]]:
    """Which releases somebody may have read; as docs/decisions.md says it."""
    first, last = min(g.first for g in new.groups), max(g.last for g in new.groups)
    near = (any(g.first < last and first < g.last for g in r.groups) for r in earlier)
    everything = [n for n, shares in enumerate(near) if shares]
    plain = [n for n in everything if not earlier[n].overridden]
    found = [everything, plain]
    found += [[n, *(m for m in plain if m > n)] for n in everything if earlier[n].overridden]
    alike = [[n for n in read if earlier[n].method == new.method] for read in found]
    return {tuple(read) for read in [*found, *alike, *([n] for n in everything)] if read}


def counted(new: Release, earlier: list[Release]) -> Measured:
    """Count what intersecting leaves to the audience that is left with the least."""

    def harm(item: tuple[tuple[int, ...], Measured]) -> tuple[object, ...]:
        read, m = item
        crossing = m.relation != "crossing", m.smallest_crowd or 0
        return m.below == 0, *crossing, -m.people, -m.below, m.relation == "same", -len(read), read

    shown = {g[:2]: [n for n, r in enumerate(earlier) if of(r, g[:2]) == of(new, g[:2])] for g in new.groups}
    rest = new._replace(groups=tuple(g for g in new.groups if not shown[g[:2]]))
    repeated = sorted({n for numbers in shown.values() for n in numbers})
    found = [(read, intersected(rest, earlier, read)) for read in audiences(new, earlier)]
    same = (
        Measured("same", None, max(new.k, *(earlier[n].k for n in repeated)), 0, 0, named(earlier, repeated))
        if repeated
        else NOTHING
    )
    return min(((read, m) for read, m in found if m != NOTHING), key=harm, default=((), same))[1]


def of(release: Release, window: tuple[int, int]) -> Counter[Group]:
    return Counter(g for g in release.groups if g[:2] == window)


def named(earlier: list[Release], numbers: Iterable[int]) -> list[str]:
    return [f"r{n}" + (" (withdrawn)" if earlier[n].withdrawn else "") for n in numbers]


def intersected(new: Release, earlier: list[Release], read: tuple[int, ...]) -> Measured:
    """Count person by person what intersecting with these leaves; as docs/decisions.md says it."""
    cuts = sorted({t for r in (new, *(earlier[n] for n in read)) for g in r.groups for t in (g.first, g.last)})
    parted: list[tuple[int, int, int, frozenset[int]]] = []
    shared: set[int] = set()
    met = same = coarser = True
    met = False
    promise = 0
    for at in cuts[:-1]:
        holding = [n for n in read if any(g.first <= at < g.last for g in earlier[n].groups)]
        if not holding or not any(g.first <= at < g.last for g in new.groups):
            continue
        shared.update(holding)
        k = max(new.k, *(earlier[n].k for n in holding))
        promise = max(promise, k)
        before = {
            p: tuple(label(earlier[n], at, p) for n in holding) for p in everybody(new, [earlier[n] for n in read], at)
        }
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
    people = frozenset[int]().union(*(p[3] for p in below))
    relation = "crossing" if not coarser else "same" if same else "coarser"
    return Measured(relation, worst[0], worst[1], len(below), len(people), named(earlier, sorted(who)))


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
    return st.builds(Release, st.integers(2, 4), windows(alone), st.booleans(), st.booleans())


TEN = frozenset(range(10))
FIVES = (Group(0, 2, frozenset(range(5))), Group(0, 2, frozenset(range(5, 10))))
HALVES = (Group(0, 2, frozenset({0, 2, 4, 6, 8})), Group(0, 2, frozenset({1, 3, 5, 7, 9})))

# Two of five are enough for the releases at first; later three of six are not.
TWO_AND_THREE = Release(
    2,
    (
        *(Group(0, 2, frozenset({0, 1, 5, 6})), Group(0, 2, frozenset({2, 3, 4, 7, 8, 9}))),
        *(Group(3, 5, frozenset({0, 1, 2})), Group(3, 5, frozenset({3, 4, 5}))),
    ),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    new=st.one_of(releases(False), releases(True)),
    earlier=st.lists(st.one_of(releases(False), releases(True)), max_size=4),
)
@example(new=Release(2, HALVES), earlier=[Release(2, FIVES), Release(2, (Group(0, 2, TEN - {0}),))])
@example(new=Release(2, (Group(0, 4, TEN),)), earlier=[Release(3, FIVES), Release(2, HALVES, True)])
@example(new=Release(2, (Group(0, 2, TEN - {0}),)), earlier=[Release(2, FIVES)])
@example(new=Release(2, FIVES[:1]), earlier=[Release(2, FIVES[1:])])
@example(new=Release(2, HALVES), earlier=[Release(2, FIVES), Release(2, (Group(0, 2, TEN, True),))])
@example(new=TWO_AND_THREE, earlier=[Release(2, FIVES), Release(4, (Group(3, 5, frozenset(range(6))),))])
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
    rows = connection.execute(
        "SELECT lower(period), upper(period), alone, subjects FROM dbanon_internal.run_grouping(%s)", [run]
    )
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


# --- what publish makes of it -----------------------------------------------------------------------------------------


def verified(connection: psycopg.Connection, release: Release, **params: int) -> int:
    run = a_run(connection, release)
    connection.execute("UPDATE dbanon.run SET params = params || %s WHERE run_id = %s", [Jsonb(params), run])
    connection.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " SELECT run_id, method, true, dbanon_internal.run_digest(run_id) FROM dbanon.run WHERE run_id = %s",
        [run],
    )
    return run


def publish(connection: psycopg.Connection, run: int, name: str, options: str = "") -> list[str]:
    """Publish a run; returns the notices."""
    notices: list[str] = []

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(notice.message_primary or "")

    connection.add_notice_handler(keep)
    try:
        connection.execute(f"SELECT dbanon.publish(%s, %s{options})", [run, name])  # type: ignore[arg-type]
    finally:
        connection.remove_notice_handler(keep)
    return notices


def refused(connection: psycopg.Connection, run: int, name: str, options: str = "") -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        publish(connection, run, name, options)
    assert caught.value.diag.message_detail
    assert caught.value.diag.message_hint
    return caught.value


def recorded(connection: psycopg.Connection, name: str) -> tuple[object, object]:
    row = connection.execute("SELECT overlap, overlap_reason FROM dbanon.release WHERE name = %s", [name]).fetchone()
    assert row is not None
    return row  # type: ignore[return-value]


def test_the_first_release_writes_its_grouping_and_overlaps_nothing(connection: psycopg.Connection) -> None:
    assert publish(connection, 1, "first") == []
    assert recorded(connection, "first") == (None, None)
    rows = connection.execute("SELECT lower(period), upper(period), alone, subjects FROM dbanon.grouping ORDER BY 4")
    window = (datetime(2008, 6, 4, 8, tzinfo=UTC), datetime(2008, 6, 4, 8, 2, tzinfo=UTC))
    assert rows.fetchall() == [(*window, False, [f"p{i}" for i in range(n, n + 5)]) for n in (0, 5)]


def test_the_same_grouping_again_is_fine_and_says_so(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    (notice,) = publish(own, verified(own, Release(5, FIVES)), "again")
    names(notice, "same", "first")
    found, reason = recorded(own, "again")
    assert reason is None
    assert found == {
        **{"relation": "same", "smallest_crowd": None, "k": 5, "below": 0, "people": 0},
        "releases": ["first"],
    }


def test_a_coarser_grouping_is_fine_and_a_finer_one_refused(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    coarse = verified(own, Release(10, (Group(0, 2, TEN),)))
    (notice,) = publish(own, coarse, "coarse")
    names(notice, "coarser", "first")
    finer = verified(own, Release(2, tuple(Group(0, 2, frozenset({n, n + 5})) for n in range(5))))
    error = refused(own, finer, "finer")
    assert error.sqlstate == "DA010"
    names(str(error.diag.message_primary), "at least 10 people", f"run {finer}", "first, coarse", 1)
    names(str(error.diag.message_detail), "10 is the largest k", "10 intersections", "10 people in all")


def test_a_withdrawn_release_counts_and_is_named_so(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    own.execute("SELECT dbanon.unpublish('first')")
    error = refused(own, verified(own, Release(5, HALVES)), "halves")
    assert str(error.diag.message_primary).endswith("with first (withdrawn) leaves 2.")


def test_an_override_is_recorded_with_its_reason_and_said(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    run = verified(own, Release(5, HALVES))
    error = refused(own, run, "halves")
    names(str(error.diag.message_primary), "at least 5 people", f"run {run}", "first", 2)
    names(str(error.diag.message_detail), "5 is the largest k", "4 intersections", "10 people in all")
    options = ", allow_overlap => true, reason => 'one team reads both'"
    (notice,) = publish(own, run, "halves", options)
    names(notice, "overridden", "first", 2, 5, "4 intersections", "10 people")
    found, reason = recorded(own, "halves")
    assert reason == "one team reads both"
    assert found == {
        **{"relation": "crossing", "smallest_crowd": 2, "k": 5, "below": 4, "people": 10},
        "releases": ["first"],
    }


def test_what_needs_no_override_records_no_reason(connection: psycopg.Connection) -> None:
    (notice,) = publish(connection, 1, "first", ", allow_overlap => true, reason => 'nothing was before'")
    names(notice, "reason", "not recorded")
    told = publish(connection, 1, "again", ", allow_overlap => true, reason => 'one team reads both'")
    names(told[0], "reason", "not recorded")
    assert recorded(connection, "first") == (None, None)
    assert recorded(connection, "again")[1] is None


def test_other_times_and_other_datasets_overlap_nothing(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    assert publish(own, verified(own, Release(5, (Group(2, 4, TEN - {0}),))), "later") == []
    assert recorded(own, "later") == (None, None)
    other = value(
        own,
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('other', 32610, 1, 60) RETURNING dataset_id",
    )
    a_release(own, "elsewhere", Release(5, HALVES), dataset=other)
    found = measured(own, a_run(own, Release(5, FIVES)))
    assert (found.relation, found.releases) == ("same", ["first"])


def test_crowds_that_stay_large_enough_are_told(own: psycopg.Connection) -> None:
    first = verified(own, Release(2, FIVES))
    publish(own, first, "first")
    (notice,) = publish(own, verified(own, Release(2, HALVES)), "halves")
    names(notice, "first", "at least 2 people", "2 are enough")


def test_releases_are_intersected_jointly(connection: psycopg.Connection) -> None:
    """Each pair leaves two; all three leave one."""
    quarters = [frozenset(p) for p in ({0, 1, 5, 6}, {2, 3, 7, 8})]
    third = Release(2, tuple(Group(0, 2, people) for people in quarters))
    only = [Release(2, tuple(Group(0, 2, g.people - {4, 9}) for g in groups)) for groups in (FIVES, HALVES)]
    for pair in ([only[0]], [only[1]]):
        assert counted(third, pair).smallest_crowd == 2
    for number, release in enumerate(only):
        a_release(connection, f"r{number}", release)
    run = a_run(connection, third)
    assert measured(connection, run)[:4] == ("crossing", 1, 2, 8)


def test_who_is_left_out_on_one_side_only_is_known(own: psycopg.Connection) -> None:
    publish(own, 1, "first")
    without = Release(4, (Group(0, 2, FIVES[0].people), Group(0, 2, FIVES[1].people - {9})))
    assert measured(own, a_run(own, without))[:5] == ("crossing", 1, 5, 2, 5)
    a_release(own, "without", Release(4, tuple(g._replace(first=5, last=7) for g in without.groups)))
    whole = Release(4, tuple(g._replace(first=5, last=7) for g in FIVES))
    run = verified(own, whole)
    assert measured(own, run)[:4] == ("crossing", 1, 4, 1)
    assert refused(own, run, "whole").sqlstate == "DA010"


def test_exact_places_and_hidden_ones_are_intersected_whichever_came_first(own: psycopg.Connection) -> None:
    exact = Release(5, (FIVES[0], FIVES[1]._replace(alone=True)))
    assert measured(own, a_run(own, exact)) == NOTHING
    sites = verified(own, exact)
    publish(own, sites, "sites")
    publish(own, verified(own, exact), "same")
    assert recorded(own, "same")[0]["relation"] == "same"  # type: ignore[index]
    # Whose place was shown has none left to hide in any group; whoever was hidden and is exact now has lost it all.
    assert measured(own, a_run(own, Release(5, (Group(0, 2, TEN),))))[0] == "coarser"
    swapped = Release(5, (FIVES[1], FIVES[0]._replace(alone=True)))
    error = refused(own, verified(own, swapped), "swapped")
    names(str(error.diag.message_primary), "at least 5 people", "sites, same", 1)
    names(str(error.diag.message_detail), "5 is the largest k", "5 intersections", "5 people in all")


def test_exact_places_hide_no_overlap_of_hidden_senders(own: psycopg.Connection) -> None:
    """Whoever's place was shown may still be the unknown sender of a request."""
    publish(own, verified(own, Release(5, (Group(0, 2, TEN, True),))), "places")
    (notice,) = publish(own, verified(own, Release(5, FIVES)), "fives")
    names(notice, "coarser", "places")
    error = refused(own, verified(own, Release(5, HALVES)), "halves")
    assert str(error.diag.message_primary).endswith("with fives leaves 2.")


def snapshot(connection: psycopg.Connection, minute: int, hidden: frozenset[int], max_gap_s: int) -> int:
    """Write a verified run that hides some at an instant and shows the others."""
    groups = [Group(minute, minute + 1, hidden)] if hidden else []
    groups.append(Group(minute, minute + 1, TEN - hidden, True))
    at = int((START + timedelta(minutes=minute)).timestamp())
    return verified(connection, Release(5, tuple(groups)), at=at, max_gap_s=max_gap_s)


def test_snapshots_that_may_show_the_same_fix_are_intersected(own: psycopg.Connection) -> None:
    low, high = FIVES[0].people, FIVES[1].people
    publish(own, snapshot(own, 10, low, 300), "at_ten")
    for minute, max_gap_s in ((6, 0), (14, 300), (20, 600)):
        error = refused(own, snapshot(own, minute, high, max_gap_s), "moments_away")
        assert str(error.diag.message_primary).endswith("with at_ten leaves 1.")
        assert measured(own, snapshot(own, minute, low, max_gap_s)).relation == "same"
    # The one no longer shows what the other does.
    for minute, max_gap_s in ((4, 300), (12, 60), (16, 300)):
        assert measured(own, snapshot(own, minute, high, max_gap_s)) == NOTHING
    # Bundles of a time of which it shows fixes tell where its hidden people are.
    apart = tuple(Group(6, 8, frozenset({n, n + 5})) for n in range(5))
    assert measured(own, a_run(own, Release(2, apart)))[:3] == ("crossing", 1, 5)


def test_what_was_allowed_hides_no_overlap_with_either(own: psycopg.Connection) -> None:
    """Rows, columns and diagonals of a square: all three leave one, and so does any pair."""

    def lines(number: Callable[[int, int], int]) -> Release:
        people = [frozenset(3 * a + b for a in range(3) for b in range(3) if number(a, b) % 3 == n) for n in range(3)]
        return Release(3, tuple(Group(0, 2, p) for p in people))

    publish(own, verified(own, lines(lambda a, b: a)), "rows")
    options = ", allow_overlap => true, reason => 'never in the same hands'"
    publish(own, verified(own, lines(lambda a, b: b)), "files", options)
    diagonal = verified(own, lines(lambda a, b: a + b))
    assert measured(own, diagonal)[:5] == ("crossing", 1, 3, 9, 9)
    assert refused(own, diagonal, "diagonals").sqlstate == "DA010"


def test_what_one_release_shows_spares_no_other(own: psycopg.Connection) -> None:
    """A coarser grouping is fine, and so is the same again; not one that parts what a coarser one has promised."""
    fours = [frozenset(range(n, n + 2)) for n in (0, 2, 4, 6)]

    def of_two(*pairs: tuple[int, int]) -> Release:
        return Release(4, tuple(Group(0, 2, fours[a] | fours[b]) for a, b in pairs))

    publish(own, twos := verified(own, Release(2, tuple(Group(0, 2, p) for p in fours))), "twos")
    (notice,) = publish(own, verified(own, of_two((0, 1), (2, 3))), "four")
    names(notice, "coarser", "twos")
    error = refused(own, verified(own, of_two((0, 2), (1, 3))), "other")
    names(str(error.diag.message_primary), "four", 2)
    (notice,) = publish(own, twos, "again")
    names(notice, "same", "twos")


def test_after_an_override_both_may_be_published_again(own: psycopg.Connection) -> None:
    publish(own, 1, "fives")
    halves = verified(own, Release(5, HALVES))
    publish(own, halves, "halves", ", allow_overlap => true, reason => 'never in the same hands'")
    for run, name in ((1, "fives"), (halves, "halves")):
        (notice,) = publish(own, run, name, ", replace => true")
        names(notice, "same", name)


def test_snapshots_before_spare_no_snapshot(own: psycopg.Connection) -> None:
    low, high, nobody = FIVES[0].people, FIVES[1].people, frozenset[int]()
    for minute, hidden in ((0, nobody), (8, nobody), (4, low)):
        publish(own, snapshot(own, minute, hidden, 300), f"at_{minute}")
    error = refused(own, snapshot(own, 5, high, 300), "at_5")
    assert str(error.diag.message_primary).endswith("with at_4 leaves 1.")


def test_the_grouping_outlives_the_trajectories(connection: psycopg.Connection) -> None:
    publish(connection, 1, "first")
    connection.execute("CREATE TEMP TABLE kept AS SELECT subject, path FROM dbanon.trajectory WHERE dataset_id = 1")
    connection.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = 1")
    connection.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)"
        " SELECT 200 + substr(subject, 2)::int, 1, subject, path FROM kept"
    )
    run = a_run(connection, Release(5, HALVES))
    connection.execute("UPDATE dbanon.membership SET trajectory_id = trajectory_id + 100 WHERE run_id = %s", [run])
    assert measured(connection, run)[:4] == ("crossing", 2, 5, 4)


def test_a_run_that_is_not_there_or_not_computed_is_not_measured(connection: psycopg.Connection) -> None:
    for statement, code in (
        ("SELECT dbanon.measure_overlap(99)", "DA001"),
        ("SELECT dbanon.measure_overlap(NULL)", "DA001"),
    ):
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            connection.execute(statement)
        assert caught.value.sqlstate == code
    connection.execute("UPDATE dbanon.run SET status = 'running'")
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute("SELECT dbanon.measure_overlap(1)")
    assert caught.value.sqlstate == "DA004"


def test_what_cannot_be_decided_is_refused(own: psycopg.Connection) -> None:
    a_release(own, "first", Release(5, FIVES))
    run = verified(own, Release(5, FIVES))
    own.execute("""UPDATE dbanon.run SET params = '{"k": "5"}' WHERE run_id = %s""", [run])
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.run_digest(run_id)")
    assert refused(own, run, "again").sqlstate == "DA010"
    own.execute(
        "INSERT INTO dbanon.method SELECT 'newer', summary, guarantee, region_type, attack, algorithms, columns, paper,"
        " adversary, row_meaning, left_out, parameters FROM dbanon.method WHERE name = 'tp-aware'"
    )
    own.execute("""UPDATE dbanon.run SET method = 'newer', params = '{"k": 5}' WHERE run_id = %s""", [run])
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.run_digest(run_id)")
    assert refused(own, run, "again").sqlstate == "DA004"


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (", allow_overlap => true", ("reason", "three words", "0 words")),
        (", allow_overlap => true, reason => 'because - !'", ("reason", "three words", "1 words")),
        (
            ", allow_overlap => true, reason => repeat('so it is ', 120)",
            ("reason", "1,000", "360 words", "1080 characters"),
        ),
        (", reason => 'one team reads both'", ("reason", "allow_overlap")),
        (", allow_overlap => NULL, reason => 'one team reads both'", ("reason", "allow_overlap")),
    ],
)
def test_an_override_needs_a_reason_and_a_reason_an_override(
    connection: psycopg.Connection, options: str, facts: tuple[str, ...]
) -> None:
    error = refused(connection, 1, "first", options)
    assert error.sqlstate == "DA002"
    names(f"{error.diag.message_primary} {error.diag.message_detail}", *facts)
    assert "team" not in str(error)


# --- in the place of another ------------------------------------------------------------------------------------------


def test_a_release_takes_the_place_of_another(own: psycopg.Connection) -> None:
    publish(own, 1, "ten")
    own.execute("CREATE VIEW public.mine AS SELECT sum(subjects) AS people FROM published.ten")
    own.execute("GRANT SELECT ON published.ten TO dbanon_worker")
    run = verified(own, Release(5, (Group(10, 13, TEN),)))
    assert publish(own, run, "ten", ", replace => true") == []
    assert value(own, "SELECT people FROM public.mine") == 3
    assert value(own, "SELECT has_table_privilege('dbanon_worker', 'published.ten', 'SELECT')") is True
    assert value(own, "SELECT has_table_privilege('dbanon_analyst', 'published.ten', 'SELECT')") is True
    rows = own.execute(
        "SELECT run_id, withdrawn_at IS NULL, withdrawn_by,"
        " to_regclass(format('dbanon.release_%s', release_id)) IS NULL FROM dbanon.release ORDER BY release_id"
    ).fetchall()
    assert rows == [(1, False, value(own, "SELECT session_user"), True), (run, True, None, False)]
    comment = value(own, "SELECT obj_description('published.ten'::regclass, 'pg_class')")
    assert "k is 5" in str(comment)


def test_a_replaced_release_counts_and_is_measured_against(own: psycopg.Connection) -> None:
    publish(own, 1, "ten")
    error = refused(own, verified(own, Release(5, HALVES)), "ten", ", replace => true")
    assert error.sqlstate == "DA010"
    assert value(own, "SELECT count(*) FROM published.ten") == 4


def test_where_columns_differ_views_on_it_go_and_a_notice_says_so(own: psycopg.Connection) -> None:
    publish(own, 1, "ten")
    own.execute("CREATE VIEW public.mine AS SELECT * FROM published.ten")
    sites = verified(own, Release(5, (Group(10, 12, FIVES[0].people), Group(10, 12, FIVES[1].people, True))))
    notices = publish(own, sites, "ten", ", replace => true")
    assert "drop cascades to view public.mine" in notices
    assert any("columns of ten" in n for n in notices)
    assert value(own, "SELECT count(*) FILTER (WHERE cloaked IS NOT NULL) FROM published.ten") == 10


def test_without_a_live_release_of_the_name_replace_just_publishes(connection: psycopg.Connection) -> None:
    assert publish(connection, 1, "ten", ", replace => true") == []
    connection.execute("SELECT dbanon.unpublish('ten')")
    publish(connection, 1, "ten", ", replace => true")
    assert value(connection, "SELECT count(*) FROM dbanon.release WHERE withdrawn_at IS NULL") == 1


def test_replace_takes_no_name_of_something_else(connection: psycopg.Connection) -> None:
    connection.execute("CREATE VIEW published.ten AS SELECT 1 AS a")
    assert refused(connection, 1, "ten", ", replace => true").sqlstate == "DA003"
    connection.execute("DROP VIEW published.ten")
    publish(connection, 1, "ten")
    connection.execute("DROP VIEW published.ten")  # by hand: the release is live all the same
    publish(connection, 1, "ten", ", replace => true")
    assert value(connection, "SELECT count(*) FROM published.ten") == 4
