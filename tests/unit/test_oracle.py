"""The oracle of composition: cases counted by hand, another way to say the rule, and mutants that histories detect."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest

from tests import pages
from tests.db.histories import LOST, Forgotten, History, draw_history
from tests.db.oracle import Group, Person, Promise, Record, Release, Row, Rule, Verdict
from tests.db.ten_people import (
    FIVES,
    HALVES,
    SETTLE_MIN,
    TEN,
    make_bundles,
    make_merged,
    make_snapshot,
    make_ten_people,
)

HISTORY_COUNT = 2000
NOTHING = Verdict(False, None, 0)


@cache
def judge_histories() -> list[Verdict]:
    return [Rule().judge(drawn.new, drawn.earlier) for drawn in draw_histories()]


drawn_of = cache(draw_history)


def draw_histories(count: int = HISTORY_COUNT) -> list[History]:
    return [drawn_of(seed) for seed in range(count)]


def judge(new: Release, *earlier: Release) -> Verdict:
    return Rule().judge(new, earlier)


def make_alone(owners: Iterable[int], first: int = 0, last: int = 2, region: int = 7, exact: bool = False) -> Release:
    people = frozenset(owners)
    records = tuple(Record(frozenset({o}), (Row(first, last, region, exact),), people - {o}) for o in people)
    return Release(2, "place", "hiding", records, stands_alone=True, settle=SETTLE_MIN)


# --- each clause, alone -----------------------------------------------------------------------------------------------


def test_the_first_release_and_other_people_and_other_times_are_compared_with_nothing() -> None:
    first = make_bundles(5, *FIVES)
    assert judge(first) == NOTHING
    assert judge(make_bundles(5, *HALVES, first=2, last=4), first) == NOTHING
    assert judge(replace(make_bundles(5, *HALVES), population=1), first) == NOTHING
    assert judge(replace(make_bundles(5, *HALVES), dataset=1), first).refused


def test_intersected_groups_must_keep_what_either_promised() -> None:
    assert judge(make_bundles(2, *HALVES), make_bundles(2, *FIVES)) == (False, 2, 0)
    assert judge(make_bundles(2, *HALVES), make_bundles(5, *FIVES)) == (True, 2, 10)
    assert judge(make_bundles(5, *HALVES), make_bundles(2, *FIVES)) == (True, 2, 10)
    assert judge(make_bundles(10, TEN), make_bundles(5, *FIVES)) == (True, 5, 10)
    assert judge(make_bundles(5, TEN), make_bundles(5, *FIVES)) == (False, 5, 0)


def test_releases_are_intersected_jointly() -> None:
    two = (
        make_bundles(2, [0, 1, 2, 3], [5, 6, 7, 8], secret="place"),
        make_bundles(2, [0, 2, 6, 8], [1, 3, 5, 7], secret="place"),
    )
    third = make_bundles(2, [0, 1, 5, 6], [2, 3, 7, 8], secret="place")
    assert judge(two[1], two[0]) == (False, 2, 0)
    assert judge(third, two[0]) == (False, 2, 0)
    assert judge(third, *two) == (True, 1, 8)


def test_a_withdrawn_release_counts() -> None:
    assert judge(make_bundles(5, *HALVES), replace(make_bundles(5, *FIVES), withdrawn=True)) == (True, 2, 10)


def test_the_very_same_groups_tell_nothing_and_repeat_what_was_allowed() -> None:
    assert judge(make_bundles(5, *FIVES), make_bundles(5, *FIVES)) == (False, 5, 0)
    fives, halves = make_bundles(5, *FIVES), replace(make_bundles(5, *HALVES), overridden=True)
    assert judge(make_bundles(5, *FIVES), fives, halves) == (False, 2, 0)
    # Those who have not read what was allowed learn of it now: it needs its reason again.
    assert judge(make_bundles(5, *HALVES), fives, halves) == (True, 2, 10)


def test_the_very_same_groups_promise_no_more_and_no_other_secret_than_before() -> None:
    """Two of two are left of the first; then the same groups under a larger k, or for a place that none was to hide."""
    fives, halves = make_merged(2, *FIVES), make_merged(2, *HALVES)
    assert judge(make_merged(3, *FIVES), fives, halves) == (True, 2, 4)
    senders, crossing = make_bundles(5, *FIVES), replace(make_merged(5, *HALVES), overridden=True)
    assert judge(make_merged(5, *FIVES), senders, crossing) == (True, 2, 10)


def test_who_is_left_out_of_requests_is_one_of_those_left_out() -> None:
    assert judge(make_bundles(4, FIVES[0], [5, 6, 7, 8]), make_bundles(5, *FIVES)) == (True, 1, 5)
    assert judge(make_bundles(5, *FIVES), make_bundles(4, FIVES[0], [5, 6, 7, 8])) == (True, 1, 5)
    assert judge(make_bundles(5, FIVES[0]), make_bundles(5, *FIVES)) == (False, 5, 0)
    # Outside its span a release says nothing of any person; in a gap of its rows it does.
    assert judge(make_bundles(4, FIVES[0], [5, 6, 7, 8], first=2, last=4), make_bundles(5, *FIVES)) == NOTHING
    gap = Release(4, "sender", "record", (Record(frozenset([5, 6, 7, 8]), (Row(0, 1, 1), Row(4, 5, 1))),))
    assert judge(make_bundles(5, FIVES[1], first=2, last=3), gap) == (True, 1, 5)


def test_whom_a_release_leaves_out_of_a_crowd_that_it_puts_elsewhere_is_known_to_be_where_the_crowd_was() -> None:
    assert judge(make_merged(4, FIVES[0], [5, 6, 7, 8]), make_merged(4, *FIVES)) == (True, 1, 1)
    assert judge(make_bundles(4, FIVES[0], [5, 6, 7, 8]), make_merged(4, *FIVES)) == (True, 1, 1)
    assert judge(make_merged(4, *FIVES), make_merged(4, FIVES[0], [5, 6, 7, 8])) == (True, 1, 1)
    # A release that speaks of none of a crowd says nothing of it.
    assert judge(make_merged(4, FIVES[0]), make_merged(4, *FIVES)) == (False, 5, 0)
    # Period by period: it is silent of 3 and 4 in the one, of 0 and 1 in the other.
    stays = [Record(frozenset(p), (Row(at, at + 1, 9),)) for at, p in ((0, [0, 1, 2]), (1, [2, 3, 4]))]
    assert judge(Release(2, "place", "record", tuple(stays), snapshot=True, settle=SETTLE_MIN),
        make_snapshot(2, FIVES[0])) == (
        True, 1, 1,
    )  # fmt: skip


def test_senders_are_hurt_by_requests_alone_and_places_by_everything() -> None:
    exact = make_snapshot(5, shown=TEN)
    assert judge(make_bundles(5, *FIVES), exact) == NOTHING
    assert judge(make_merged(5, *FIVES), exact) == (True, 1, 10)
    assert judge(make_merged(5, *HALVES), make_bundles(5, *FIVES)) == (True, 2, 10)
    assert judge(make_bundles(5, *HALVES), make_merged(5, *FIVES)) == (True, 2, 10)
    assert judge(make_bundles(2, *HALVES), make_merged(2, *FIVES)) == (False, 2, 0)


def test_snapshots_are_compared_within_their_reach_measured_once() -> None:
    low = make_snapshot(5, FIVES[0])
    for at, refused in ((SETTLE_MIN, True), (SETTLE_MIN + 1, False), (2 * SETTLE_MIN - 1, False)):
        assert judge(make_snapshot(5, FIVES[1], at=at), low).refused == refused, at
        assert judge(low, make_snapshot(5, FIVES[1], at=at)).refused == refused, at
    assert judge(make_merged(2, *HALVES, first=SETTLE_MIN, last=SETTLE_MIN + 2), low) == (True, 1, 10)
    assert judge(make_merged(2, *HALVES, first=SETTLE_MIN + 1, last=SETTLE_MIN + 3), low) == NOTHING
    longer = replace(low, max_gap=2 * SETTLE_MIN)
    assert judge(make_merged(2, *HALVES, first=SETTLE_MIN + 1, last=SETTLE_MIN + 3), longer).refused


def test_at_a_snapshot_all_rows_within_reach_are_intersected_at_once() -> None:
    """Either window leaves three of the crowd of five together; one of the one is not of the other."""
    crowd = make_snapshot(2, FIVES[0], shown=())
    windows = [make_bundles(2, *groups, first=first, last=first + 1) for first, groups in (
        (2, ([0, 1, 2, 5], [3, 4, 6])), (4, ([2, 3, 4, 5], [0, 1, 6])))]  # fmt: skip
    assert judge(windows[0], crowd) == (False, 2, 0)
    assert judge(windows[1], crowd) == (False, 2, 0)
    assert judge(windows[1], crowd, windows[0]) == (True, 1, 1)


def test_a_release_with_a_reach_is_the_same_only_in_the_same_period() -> None:
    overridden = replace(make_snapshot(5, FIVES[1], at=1), overridden=True)
    assert not judge(make_snapshot(5, FIVES[0]), make_snapshot(5, FIVES[0]), overridden).refused
    assert judge(make_snapshot(5, FIVES[0], at=2), make_snapshot(5, FIVES[0]), overridden).refused


def test_what_was_allowed_spares_no_other() -> None:
    """Rows, columns and diagonals of a square: any two leave one person."""
    square = [(3 * a + b, (a, b, (a + b) % 3)) for a in range(3) for b in range(3)]
    rows, columns, diagonals = (
        make_bundles(3, *([person for person, line in square if line[n] == m] for m in range(3))) for n in range(3)
    )
    assert judge(diagonals, rows, replace(columns, overridden=True)) == (True, 1, 9)


def test_what_stands_alone_allows_no_word_about_its_people_in_the_time_of_their_records() -> None:
    sets = make_alone([0, 1, 2])
    assert judge(make_merged(2, [2, 3, 4]), sets) == (True, 0, 1)
    assert judge(sets, make_merged(2, [2, 3, 4])) == (True, 0, 1)
    assert judge(make_merged(2, [3, 4, 5]), sets) == NOTHING
    assert judge(make_merged(2, [2, 3, 4], first=2, last=4), sets) == NOTHING
    assert judge(make_bundles(3, [0, 1, 2]), sets) == (True, 0, 3)
    assert judge(make_alone([1, 2, 3]), sets) == (True, 0, 2)


def test_what_stands_alone_reaches_further_where_rows_are_exact() -> None:
    assert judge(make_alone([1, 2, 3], first=10, last=12), make_alone([0, 1, 2])) == NOTHING
    assert judge(make_alone([1, 2, 3], first=10, last=12), make_alone([0, 1, 2], exact=True)) == (True, 0, 2)
    assert judge(make_alone([1, 2, 3], first=2 + SETTLE_MIN, last=20), make_alone([0, 1, 2], exact=True)) == NOTHING


def test_the_very_same_sets_and_regions_again_tell_nothing() -> None:
    sets, other = make_alone([0, 1, 2]), replace(make_merged(2, [2, 3, 4]), overridden=True)
    assert judge(make_alone([0, 1, 2]), sets) == NOTHING
    assert judge(make_alone([0, 1, 2], region=8), sets) == (True, 0, 3)
    assert judge(make_alone([0, 1, 2]), sets, other) == NOTHING
    assert judge(make_merged(2, [2, 3, 4]), sets, other) == (True, 0, 1)  # to those who have not read it


# --- the attacks that led to the rule ---------------------------------------------------------------------------------


def test_a_second_site_after_an_exact_snapshot_is_refused() -> None:
    first = make_snapshot(5, FIVES[0])
    for earlier in (first, replace(first, withdrawn=True)):
        assert judge(make_snapshot(5, FIVES[0], FIVES[1]), earlier) == (True, 1, 5)
    assert judge(make_snapshot(10, TEN), first) == (True, 1, 10)


def test_all_sites_in_one_run_are_one_release() -> None:
    assert judge(make_snapshot(5, FIVES[0], FIVES[1])) == NOTHING
    assert judge(make_snapshot(5, FIVES[0], FIVES[1]), make_snapshot(5, FIVES[0], FIVES[1])) == (False, 5, 0)


def test_bundles_around_a_snapshot_are_refused_where_they_take_its_crowd_apart() -> None:
    first = make_snapshot(5, FIVES[0])
    assert judge(make_bundles(5, *FIVES), first) == (False, 5, 0)
    assert judge(make_bundles(2, *HALVES), first) == (True, 2, 5)
    assert judge(first, make_bundles(5, *FIVES)) == (False, 5, 0)
    assert judge(first, make_bundles(5, *HALVES)) == (True, 2, 5)


# --- the ten people of docs/understand/ten-people.md, as docs/understand/releases-together.md shows them


def find_answer(first: Release, then: Release) -> str:
    verdict = judge(replace(then), first)
    if not verdict.refused:
        return "yes" if verdict.smallest is None else f"yes: {verdict.smallest}"
    return "alone" if first.stands_alone or then.stands_alone else f"no: {verdict.smallest}"


def test_the_page_shows_how_the_ten_people_are_judged_in_both_orders() -> None:
    families = make_ten_people()
    rows = [
        "| " + " | ".join([f"**{name}**", *(find_answer(first, then) for then in families.values())]) + " |\n"
        for name, first in families.items()
    ]
    assert "".join(rows) in (pages.ROOT / "docs/understand/releases-together.md").read_text()


# --- another way to say it --------------------------------------------------------------------------------------------


def may_be_meant(other: Person, promise: Promise, releases: Iterable[Release]) -> bool:
    """Whether nothing in these releases distinguishes another member of the group from the person."""
    mine, person, group, moment = promise
    for theirs in releases:
        if theirs.stands_alone or (mine.secret, theirs.secret) == ("sender", "place"):
            continue
        reach = max(mine.reach, theirs.reach)
        first, last = (group.first, group.last) if moment is None else (moment, moment + 1)
        times = {*range(first - reach, last + reach)}
        said = [g for g in theirs.groups if times.intersection(range(g.first, g.last))]
        # Of a guest it is said that it, or somebody who is no guest, is meant.
        if any(other not in g.hides(person) if person in g.everybody else other in g.everybody for g in said):
            return False
    return True


@pytest.mark.stress
def test_candidates_are_those_whom_nothing_tells_apart() -> None:
    for drawn in draw_histories(600):
        for promise in Rule().promises(drawn.new):
            among = promise.group.hides(promise.person)
            expected = {p for p in among if may_be_meant(p, promise, drawn.earlier)}
            assert Rule().candidates(promise, drawn.earlier) == expected


# --- what the histories are, and what they detect ---------------------------------------------------------------------


def find_common_time(drawn: History) -> bool:
    new = drawn.new
    return any(
        old.first < new.last and new.first < old.last for old in drawn.earlier if old.population == new.population
    )


def test_it_matters_that_a_forgotten_person_keeps_a_place_and_returns_as_another() -> None:
    drawn = [(d, d.forgotten) for d in draw_histories(600) if d.forgotten is not None]
    emptied = [
        replace(
            d,
            earlier=[replace(release, records=kept) for release in d.published if (kept := _leave_rest(release, gone))],
        )
        for d, gone in drawn
    ]
    named = [replace(d, earlier=d.published) for d, gone in drawn if gone.remembered]
    for others in (emptied, named):
        before = {id(d.new): d.earlier for d, _ in drawn}
        assert any(Rule().judge(o.new, o.earlier) != Rule().judge(o.new, before[id(o.new)]) for o in others)


@pytest.mark.stress
def test_a_lost_release_speaks_of_everybody_also_of_who_was_forgotten_and_is_remembered() -> None:
    """The definition, word for word: whom the new release shows within reach of the time of the lost one."""
    returned = 0
    for drawn in draw_histories():
        new, gone = drawn.new, drawn.forgotten
        for lost in (r for r in drawn.earlier if r.method == LOST and r.population == new.population):
            reach = max(lost.reach, new.reach)
            shown = {
                person
                for record in new.records
                for person in record.members
                if any(s.first < lost.last + reach and lost.first < s.last + reach for s in new.spoken(person))
            }
            assert Rule().clash(new, lost) == shown
            returned += gone is not None and gone.remembered and gone.dataset == new.dataset and gone.person in shown
    assert returned > 5


def _leave_rest(release: Release, gone: Forgotten) -> tuple[Record, ...]:
    if release.dataset != gone.dataset:
        return release.records
    return tuple(
        replace(record, members=record.members - {gone.person})
        for record in release.records
        if record.members != {gone.person}
    )


@pytest.mark.stress
def test_a_fifth_of_the_histories_each_is_refused_let_through_with_common_time_and_has_what_stands_alone() -> None:
    passed = [
        v
        for v, drawn in zip(judge_histories(), draw_histories(), strict=True)
        if not v.refused and find_common_time(drawn)
    ]
    stands_alone = [d for d in draw_histories() if any(release.stands_alone for release in (d.new, *d.earlier))]
    for share in (sum(v.refused for v in judge_histories()), len(passed), len(stands_alone)):
        assert share >= HISTORY_COUNT / 5
    assert sum(v.smallest is not None for v in judge_histories() if not v.refused) >= HISTORY_COUNT / 5


class IgnoresWithdrawn(Rule):
    def audiences(self, history: list[Release]) -> list[list[Release]]:
        return super().audiences([release for release in history if not release.withdrawn])


class KnowsReadersOfEverythingAlone(Rule):
    def audiences(self, history: list[Release]) -> list[list[Release]]:
        return super().audiences(history)[:1]


class ForgetsReadersOfEverything(Rule):
    def audiences(self, history: list[Release]) -> list[list[Release]]:
        return super().audiences(history)[1:]


class ForgetsReadersWithoutWhatWasAllowed(Rule):
    def audiences(self, history: list[Release]) -> list[list[Release]]:
        return [a for n, a in enumerate(super().audiences(history)) if n != 1]


class ForgetsReadersOfOneAllowed(Rule):
    def audiences(self, history: list[Release]) -> list[list[Release]]:
        return super().audiences(history)[:2]


class ComparesPopulations(Rule):
    def may_be_the_same_people(self, new: Release, old: Release) -> bool:
        return True


class ComparesOneDatasetAlone(Rule):
    def may_be_the_same_people(self, new: Release, old: Release) -> bool:
        return super().may_be_the_same_people(new, old) and new.dataset == old.dataset


class DemandsTheLargestK(Rule):
    def promised(self, release: Release, new: Release) -> int:
        return max(release.k, new.k)


class DemandsTheNewK(Rule):
    def promised(self, release: Release, new: Release) -> int:
        return new.k


class BlamesTheNewForTheOld(Rule):
    def hurts(self, before: int, after: int) -> bool:
        return True


class LetsEverythingTellOfSenders(Rule):
    def speaks_on(self, release: Release, secret: str) -> bool:
        return True


class LetsRequestsTellNothingOfPlaces(Rule):
    def speaks_on(self, release: Release, secret: str) -> bool:
        return release.secret == secret


class CountsExactRowsAsNothing(Rule):
    def rows(self, release: Release) -> list[Group]:
        return [group for group in super().rows(release) if len(group.people) > 1]


class ReadsTheFirstRowOfEachAlone(Rule):
    def rows(self, release: Release) -> list[Group]:
        ordered = sorted(release.groups, key=lambda g: (g.first, g.last, sorted(g.people)))
        return [g for n, g in enumerate(ordered) if not any(g.people & e.people for e in ordered[:n])]


class IgnoresWhoIsLeftOut(Rule):
    def left_out(self, promise: Promise, near: list[Group]) -> list[frozenset[Person]]:
        return []


class IgnoresWhoIsLeftOutOfPlaces(Rule):
    def left_out(self, promise: Promise, near: list[Group]) -> list[frozenset[Person]]:
        return [] if promise.release.secret == "place" else super().left_out(promise, near)


class LeavesOutByReleaseAlone(Rule):
    def left_out(self, promise: Promise, near: list[Group]) -> list[frozenset[Person]]:
        spoken = frozenset[Person]().union(*(group.people for group in near))
        return [promise.group.people - spoken] if spoken and promise.person not in spoken else []


class ComparesSnapshotsAtEqualMoments(Rule):
    def reach(self, one: Release, other: Release) -> int:
        return 0

    def is_near(self, promise: Promise, other: Release, group: Group) -> bool:
        return self.near(promise.group, group, 0) if promise.moment is None else super().is_near(promise, other, group)


class TakesTheLesserReach(Rule):
    def reach(self, one: Release, other: Release) -> int:
        return min(one.reach, other.reach)

    def is_near(self, promise: Promise, other: Release, group: Group) -> bool:
        reach = self.reach(promise.release, other)
        return (
            self.near(promise.group, group, reach) if promise.moment is None else super().is_near(promise, other, group)
        )


class AddsBothReaches(Rule):
    def reach(self, one: Release, other: Release) -> int:
        return one.reach + other.reach


class PadsBothSides(Rule):
    def near(self, one: Group | Record, other: Group | Record, reach: int) -> bool:
        return super().near(one, other, 2 * reach)


class LetsPeriodsTouch(Rule):
    def near(self, one: Group | Record, other: Group | Record, reach: int) -> bool:
        return super().near(one, other, reach + 1 if reach else 0)


class ReadsWholePeriods(Rule):
    """Rows of a period count for all of a group's, not for their moments."""

    def is_near(self, promise: Promise, other: Release, group: Group) -> bool:
        return self.near(promise.group, group, self.reach(promise.release, other))


class NothingIsOld(Rule):
    def is_old(self, promise: Promise, audience: list[Release]) -> bool:
        return False


class AnythingIsOldThatIsTheSame(Rule):
    """Whatever secret was kept then, and however few were promised."""

    def is_old(self, promise: Promise, audience: list[Release]) -> bool:
        groups = (group for old in audience for group in old.groups)
        return any(self.is_same(promise, group) for group in groups)


class IsSameAtAnyTime(Rule):
    def is_same(self, promise: Promise, group: Group) -> bool:
        return promise.group.people == group.people


class NothingStandsAlone(Rule):
    def clash(self, one: Release, other: Release) -> set[Person]:
        return set()


class OnlyTheOldStandsAlone(Rule):
    def clash(self, one: Release, other: Release) -> set[Person]:
        return set() if self.is_repeated(one, other) else self.disturbed(other, one)


class StandsAloneWithoutReach(Rule):
    def disturbed(self, one: Release, other: Release) -> set[Person]:
        return super().disturbed(*(replace(r, settle=0, max_gap=0) for r in (one, other)))


class StandsAloneForAll(Rule):
    """All those of whom the other speaks."""

    def disturbed(self, one: Release, other: Release) -> set[Person]:
        met = super().disturbed(one, other)
        return {p for record in one.records for p in record.members} if met else met


class RepeatsNothing(Rule):
    def is_repeated(self, new: Release, old: Release) -> bool:
        return False


class RepeatsWithoutRegions(Rule):
    def is_repeated(self, new: Release, old: Release) -> bool:
        return {(r.members, r.hidden_among, r.first) for r in new.records} == {
            (r.members, r.hidden_among, r.first) for r in old.records
        }


class ForgetsWhatIsRepeated(Rule):
    def clashing(self, new: Release, audience: list[Release]) -> set[Person]:
        return set().union(*(self.clash(new, other) for other in audience))


class LetsPartsTellNothingOfOneAnother(Rule):
    def judge(self, new: Release, history: Iterable[Release]) -> Verdict:
        return super().judge(new, [old for old in history if old.series is None or old.series != new.series])


def list_mutants() -> list[type[Rule]]:
    return Rule.__subclasses__()


@pytest.mark.stress
@pytest.mark.many
@pytest.mark.parametrize("mutant", list_mutants(), ids=lambda mutant: mutant.__name__)
def test_a_mutant_of_a_clause_judges_one_of_the_histories_otherwise(mutant: type[Rule]) -> None:
    assert any(mutant().judge(d.new, d.earlier) != v for d, v in zip(draw_histories(), judge_histories(), strict=True))
