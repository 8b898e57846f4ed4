"""Ten people in releases of the oracle: cases counted by hand, and those of docs/understand/ten-people.md."""

from collections.abc import Iterable

from tests.db.oracle import Record, Release, Row

CONFIRM = "SELECT dbanon.confirm_history('[]', 'a copy of a test')"  # before a copy of what published publishes
TEN = range(10)
FIVES = ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
HALVES = ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
SETTLE_MIN = 15  # settle_s, in minutes
PAIR = frozenset({0, 1})


def make_bundles(k: int, *groups: Iterable[int], first: int = 0, last: int = 2, secret: str = "sender") -> Release:
    records = tuple(Record(frozenset(group), (Row(first, last, n),)) for n, group in enumerate(groups))
    return Release(k, secret, "record", records)  # type: ignore[arg-type]


def make_merged(k: int, *groups: Iterable[int], first: int = 0, last: int = 2) -> Release:
    return make_bundles(k, *groups, first=first, last=last, secret="place")


def make_snapshot(k: int, *crowds: Iterable[int], at: int = 0, shown: Iterable[int] | None = None) -> Release:
    """Hide each crowd around a site of its own and show the others, or some of them, exactly."""
    hidden = [(person, Row(at, at + 1, 100 + site)) for site, crowd in enumerate(crowds) for person in crowd]
    others = {*TEN} - {person for person, _ in hidden} if shown is None else shown
    rows = [*hidden, *((person, Row(at, at + 1, person, exact=True)) for person in others)]
    records = tuple(Record(frozenset({person}), (row,)) for person, row in rows)
    return Release(k, "place", "region", records, snapshot=True, max_gap=5, settle=SETTLE_MIN)


def make_release(k: int, secret: str, hidden_by: str, records: Iterable[Record], **with_others: bool) -> Release:
    return Release(k, secret, hidden_by, tuple(records), max_gap=5, settle=SETTLE_MIN, **with_others)  # type: ignore[arg-type]


def make_two_rows(middle: int, last: int) -> tuple[Row, Row]:
    return Row(0, middle, 1), Row(middle, last, 2)


def make_mob() -> Iterable[Record]:
    for person in TEN:
        hidden = PAIR - {person} if person in PAIR else frozenset[int]()
        second = Row(1, 2, 50) if hidden else Row(1, 2, person, exact=True)
        yield Record(frozenset({person}), (Row(0, 1, person, exact=True), second), hidden)


def make_ten_people() -> dict[str, Release]:
    """What docs/understand/ten-people.md has, in minutes after 8:00."""
    merged_pair = [Record(PAIR, make_two_rows(4, 5))] * 2
    owners = [Record(frozenset({person}), make_two_rows(4, 5), PAIR - {person}) for person in PAIR]
    return {
        "tp-aware": make_bundles(5, *FIVES),
        "sensitive-sites": make_snapshot(5, FIVES[0]),
        "k-merge": make_release(2, "place", "record", merged_pair),
        "kte-hide": make_release(2, "place", "hiding", owners, stands_alone=True),
        "mob": make_release(2, "place", "hiding", make_mob(), stands_alone=True),
        "semantic": make_release(2, "place", "record", [Record(PAIR, make_two_rows(20, 60))] * 2, stands_alone=True),
    }
