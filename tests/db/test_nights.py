"""What many nights tell together, and what a night lacks that the one before had: counted, and said in a sentence."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.db.parts import VERDICT, find_day, publish_part, run_of
from tests.facts import expect_refusal
from tests.reading import collect_notices, read_value

FEW = "SELECT (overlap ->> 'requests_of_few_over_parts')::int FROM dbanon.release ORDER BY release_id DESC LIMIT 1"


@pytest.fixture
def own(connection: psycopg.Connection, run: int) -> psycopg.Connection:
    return connection


@pytest.fixture
def said(own: psycopg.Connection) -> list[str]:
    return collect_notices(own)


PEOPLE = """
INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)
SELECT 1000 + i, d.dataset_id, 'q' || i, ST_SetSRID(ST_MakeLine(ST_MakePointM(i, i, 1212566400),
                                                                ST_MakePointM(i + 10, i, 1212566460)), 32610)
FROM dbanon.dataset d, generate_series(0, %s - 1) i WHERE d.name = 'ten'
"""
GROUPS = """
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects, extra)
SELECT %(run)s, r, s, tstzrange(t, t + interval '1 min'), ST_Reverse(ST_MakeEnvelope(0, r, 900, r + 900, 32610)), 5, 5,
    CASE WHEN s = 1 AND r = ANY (%(asking)s) THEN '{"requests": [{"poi": "falconry"}]}'::jsonb END
FROM generate_series(1, %(groups)s) r, generate_series(1, 2) s,
    LATERAL (SELECT %(begin)s + ((r - 1) / (%(groups)s / 2) * 2 + s - 1) * interval '1 min' AS t) p
"""
BELONG = """
INSERT INTO dbanon.membership (run_id, record_id, trajectory_id)
SELECT %(run)s, r.nth, 1000 + p.who FROM jsonb_array_elements(%(members)s) WITH ORDINALITY r (people, nth),
    LATERAL (SELECT ele::int AS who FROM jsonb_array_elements_text(r.people) ele) p
"""


class Nights:
    """Nights of two windows, in each of which people are in groups of five that are drawn anew."""

    def __init__(self, connection: psycopg.Connection[Any], people: int = 60, seed: int = 1) -> None:
        self.connection, self.people, self.rng = connection, people, np.random.default_rng(seed)
        connection.execute(PEOPLE, [people])
        self.met: list[list[int]] = []  # by window with the phrase: who was in a group that has it

    def write(self, night: int, *senders: tuple[int, int], beside: Sequence[int] = ()) -> int:
        """Write the run of a night in which these people send a phrase, each in a window; five people are together."""
        run = run_of(self.connection, night)
        for table in ("membership", "cloak"):
            self.connection.execute(f"DELETE FROM dbanon.{table} WHERE run_id = %s", [run])  # type: ignore[arg-type]
        groups = np.concatenate([self.rng.permutation(self.people).reshape(-1, 5) for _ in range(2)])
        half = len(groups) // 2
        if beside:
            groups[:half] = np.array([*beside, *np.setdiff1d(range(self.people), beside)]).reshape(-1, 5)
        asking = sorted({w * half + int(np.argwhere(groups[w * half : (w + 1) * half] == p)[0, 0]) for p, w in senders})
        for window in range(2):
            if shown := [at for at in asking if at // half == window]:
                self.met.append(groups[shown].ravel().tolist())
        about = {"run": run, "asking": [at + 1 for at in asking], "groups": len(groups)}
        self.connection.execute(GROUPS, about | {"begin": find_day(night) + timedelta(hours=8)})
        self.connection.execute(BELONG, about | {"members": Jsonb(groups.tolist())})
        self.connection.execute(VERDICT, {"run": run, "figures": Jsonb({"seen": self.people})})
        return run

    def publish(self, night: int, *senders: tuple[int, int], name: str = "ten", beside: Sequence[int] = ()) -> int:
        """Publish such a night as a part; returns how many phrases count."""
        publish_part(self.connection, self.write(night, *senders, beside=beside), name)
        return int(read_value(self.connection, FEW))

    def publish_whole(self, night: int, *senders: tuple[int, int], rest: str) -> int:
        """Publish such a night as a release of its own."""
        self.connection.execute(f"SELECT dbanon.publish(%s, {rest})", [self.write(night, *senders)])  # type: ignore[arg-type]
        return read_value(self.connection, FEW) or 0

    def find_front(self) -> dict[str, int]:
        """What a reader finds who counts for each person the windows with the phrase."""
        often = np.bincount(np.concatenate(self.met))
        greatest = int(often.max())
        return {"windows": len(self.met), "greatest": greatest, "people": int((often == greatest).sum())}


def read_front(connection: psycopg.Connection[Any]) -> dict[str, int]:
    found = read_value(connection, "SELECT overlap FROM dbanon.release ORDER BY release_id DESC LIMIT 1")
    return {name: found[f"few_over_parts_{name}"] for name in ("windows", "greatest", "people")}


def draw_others(nights: Nights, number: int) -> list[tuple[int, int]]:
    """Draw other people than the first, who send in the other window."""
    return [(int(person), 1) for person in nights.rng.integers(1, nights.people, number)]


@pytest.mark.parametrize(
    ("people", "without", "others"),
    [
        (60, None, [0, 0, 0, 0, 0]),
        (60, 2, [0, 0, 1, 0, 0]),
        (60, None, [0] * 8),
        (60, None, [0, 0, 0, 1, 0, 0, 0, 0]),
        (60, None, [1] * 8),
        (200, None, [5] * 8),
    ],
    ids=["alone", "another once instead", "alone, 8 nights", "another once", "another each night", "five each night"],
)
def test_a_person_that_sends_a_phrase_each_night_is_counted_whoever_else_sends_it(
    own: psycopg.Connection, said: list[str], people: int, without: int | None, others: Sequence[int]
) -> None:
    world = Nights(own, people)
    for night, number in enumerate(others):
        said.clear()
        few = world.publish(night, *([] if night == without else [(0, 0)]), *draw_others(world, number))
    assert few == 1
    assert read_front(own) == world.find_front()
    assert sum("over the last" in sentence for sentence in said) == 1


def test_a_phrase_of_other_people_each_time_and_one_of_everybody_have_nobody_in_front(own: psycopg.Connection) -> None:
    world = Nights(own)
    for night in range(8):
        assert world.publish(night, *draw_others(world, 1)) == 0
    for night in range(8, 12):
        assert world.publish(night, *((person, window) for person in range(60) for window in range(2))) == 0
    assert read_front(own) == {"windows": 0, "greatest": 0, "people": 0}


def test_neighbours_that_are_mostly_with_the_sender_do_not_hide_it(own: psycopg.Connection) -> None:
    world = Nights(own)
    for night in range(5):
        few = world.publish(night, (0, 0), beside=[0, *(person for person in range(1, 6) if person != night + 1)])
    assert few == 1
    assert read_front(own) == world.find_front() == {"windows": 5, "greatest": 5, "people": 1}


@pytest.mark.parametrize("rest", ["'night_{}'", "'night', replace => {}"], ids=["new names", "replaced"])
def test_releases_of_successive_nights_count_as_parts_do(own: psycopg.Connection, said: list[str], rest: str) -> None:
    world = Nights(own)
    for night in range(6):
        given = rest.format(night if "_" in rest else str(night > 0).lower())
        few = world.publish_whole(night, *([(0, 0)] if night != 2 else []), *draw_others(world, night % 2), rest=given)
        assert few or read_value(own, "SELECT overlap FROM dbanon.release ORDER BY release_id DESC LIMIT 1") is None
    assert few == 1
    assert read_front(own) == world.find_front()
    assert sum("over the last" in sentence for sentence in said) > 0
    world.publish(6, (0, 0))
    assert read_front(own) == world.find_front()


def test_of_releases_that_share_time_only_the_latest_counts(own: psycopg.Connection) -> None:
    """Four nights, each released twice: an earlier one of a night, and a release of all four days, count no window."""
    allowed = ", allow_overlap => true, reason => 'in no hands but one'"
    world = Nights(own)
    for night in range(4):
        world.publish_whole(night, (0, 0), rest=f"'night_{night}'")
        before = len(world.met)
        few = world.publish_whole(night, (0, 0), rest=f"'again_{night}'{allowed}")
        del world.met[before - 1]
        assert few == 0 or read_front(own) == world.find_front()
    assert few == 1
    assert read_front(own)["windows"] == 4


def test_of_releases_of_the_last_three_nights_every_third_counts(own: psycopg.Connection) -> None:
    world = Nights(own)
    for night in range(10):
        run, begin = world.write(night, (0, 0)), find_day(night - 2) + timedelta(hours=8)
        own.execute(
            "INSERT INTO dbanon.period VALUES (%s, 99, tstzrange(%s, %s))", [run, begin, begin + timedelta(days=2)]
        )
        own.execute(VERDICT, {"run": run, "figures": Jsonb({"seen": 60})})
        own.execute("SELECT dbanon.publish(%s, %s)", [run, f"night_{night}"])
    world.met = world.met[0::3]
    assert read_front(own) == world.find_front()


@pytest.mark.parametrize("asks", [False, True], ids=["without requests", "with them at another time"])
def test_a_release_that_only_spans_nights_takes_none_of_them_out(own: psycopg.Connection, asks: bool) -> None:
    world = Nights(own)
    for night in range(6):
        own.execute("SELECT dbanon.publish(%s, %s)", [world.write(night, (0, 0)), f"night_{night}"])
    run, end = world.write(7, *([(30, 1)] if asks else [])), find_day(8)
    for number, begin in ((98, find_day(0)), (99, end)):
        own.execute(
            "INSERT INTO dbanon.period VALUES (%s, %s, tstzrange(%s, %s))",
            [run, number, begin, begin + timedelta(minutes=1)],
        )
    own.execute(VERDICT, {"run": run, "figures": Jsonb({"seen": 60})})
    own.execute("SELECT dbanon.publish(%s, 'wide')", [run])
    own.execute("SELECT dbanon.publish(%s, 'night_8')", [world.write(9, (0, 0))])
    assert read_front(own) == world.find_front()
    assert world.find_front()["greatest"] == 7


def test_a_part_without_a_content_neither_narrows_nor_counts(own: psycopg.Connection) -> None:
    world = Nights(own)
    for night in range(3):
        world.publish(night, (0, 0))
    assert world.publish(3) == 0
    assert world.publish(4, (0, 0)) == 1


def test_parts_and_releases_that_were_withdrawn_and_those_of_another_name_are_still_known(
    own: psycopg.Connection,
) -> None:
    world = Nights(own)
    world.publish(0, (0, 0))
    own.execute("SELECT dbanon.unpublish_part('ten', %s)", [find_day(0)])
    world.publish(1, (0, 0))
    own.execute("SELECT dbanon.unpublish('ten')")
    world.publish(2, (0, 0), name="other")
    assert world.publish(3, (0, 0)) == 1
    assert read_front(own) == world.find_front() == {"windows": 4, "greatest": 4, "people": 1}


def test_parts_of_another_release_in_which_others_sent_it_hide_nothing(own: psycopg.Connection) -> None:
    world = Nights(own)
    for night in range(0, 4):
        world.publish(night, *draw_others(world, 40), name="other")
    for night in range(4, 8):
        few = world.publish(night, (0, 0))
    assert few == 1
    assert read_front(own)["windows"] == 4


def test_only_thirty_parts_count(own: psycopg.Connection) -> None:
    world = Nights(own)
    for night in range(4):
        few = world.publish(night, (0, 0))
    assert few == 1
    for night in range(4, 34):
        world.publish(night, *draw_others(world, 1))
    assert world.publish(34, (0, 0)) == 0


def test_chance_is_the_tail_of_a_binomial_distribution(own: psycopg.Connection) -> None:
    for windows, share, most in [(5, 0.1, 4), (16, 0.1, 8), (3, 1.0, 3), (1440, 0.9, 1400), (1440, 0.001, 1440)]:
        people = 60
        q = min(share, 1 - 1e-9)
        # Windows one after the other: how likely a person was in so many groups. No logarithm, no binomial coefficient.
        often = np.zeros(windows + 1)
        often[0] = 1
        for _ in range(windows):
            often[1:] = often[1:] * (1 - q) + often[:-1] * q
            often[0] *= 1 - q
        query = "SELECT dbanon_internal.compute_chance(%s, %s::numeric, %s::numeric, %s)"
        found = read_value(own, query, windows, people * windows, share * people * windows, most)
        assert found == pytest.approx(people * often[most:].sum(), rel=1e-6, abs=1e-200)


def test_no_table_is_read_once_a_record_though_nobody_has_analysed_a_night(own: psycopg.Connection) -> None:
    """The planner takes a run that was just written for one row, and joined its regions by a loop."""
    scans = "SELECT relname, seq_scan + coalesce(idx_scan, 0) FROM pg_stat_xact_user_tables WHERE schemaname = 'dbanon'"
    world = Nights(own, 1000)
    for night in range(2):
        run = world.write(night, (0, 0))
        with own.transaction():
            before = dict(own.execute(scans).fetchall())  # of statements whose counts were not handed on yet
            publish_part(own, run, "ten")
            assert max(scanned - before.get(name, 0) for name, scanned in own.execute(scans)) < 100


def test_who_is_forgotten_is_forgotten_there_too_and_nothing_else_changes_it(own: psycopg.Connection) -> None:
    run = run_of(own, 0)
    own.execute(
        "UPDATE dbanon.membership mem SET period = per.period FROM dbanon.period per, dbanon.trajectory tra"
        " WHERE per.run_id = mem.run_id AND tra.trajectory_id = mem.trajectory_id AND tra.subject = 'p0'"
    )  # a guest
    own.execute(VERDICT, {"run": run, "figures": Jsonb({"seen": 10})})
    publish_part(own, run)
    guests = "SELECT people FROM dbanon.asked WHERE met > 0"
    [before] = read_value(own, guests)
    for change in (
        "UPDATE dbanon.asked SET people = '{1}'",
        "UPDATE dbanon.grouping SET contents = '{1}'",
        "UPDATE dbanon.asked SET met = met + 1",
        "DELETE FROM dbanon.asked",
        "TRUNCATE dbanon.asked",
        "INSERT INTO dbanon.asked SELECT * FROM dbanon.asked",
    ):
        with expect_refusal("DA006"):
            own.execute(change)  # type: ignore[arg-type]
    own.execute("SELECT dbanon.forget_subject('ten', 'p0')")
    [after] = read_value(own, guests)
    assert after != before
    assert (
        read_value(own, "SELECT groups_sum = dbanon_internal.compute_groups_sum(release_id, 1) FROM dbanon.release")
        is True
    )


def test_a_first_window_without_history_is_foretold_and_said(own: psycopg.Connection) -> None:
    """The data begin at 8:00, and positions count for five minutes: at 8:05 nobody lacks an earlier one."""
    planned = "SELECT value, note FROM dbanon.plan_run('ten', 'tp-aware', %s) WHERE item = 'history_s'"
    eight = find_day(0) + timedelta(hours=8)
    for begin in (-120, 0, 60, 240):
        params = {"k": 5, "step_s": 60, "since": (eight + timedelta(seconds=begin)).timestamp()}
        [found] = own.execute(planned, [Jsonb(params)]).fetchall() or [(None, "")]
        assert found[0] == max(begin, 0)
        assert "start = 2008-06-04T08:05:00Z" in found[1]
    for since in (None, (eight + timedelta(minutes=5)).timestamp()):
        params = {"k": 5, "step_s": 60, **({"since": since} if since else {})}
        assert own.execute(planned, [Jsonb(params)]).fetchall() == []
    late = {"align": "last", "max_gap_s": 300}
    notices = "SELECT n FROM dbanon_internal.list_run_notices(%s) n WHERE n LIKE '%%publishes no person%%'"
    run = run_of(own, 0, since=(eight - timedelta(minutes=2)).timestamp(), **late)
    [(sentence,)] = own.execute(notices, [run]).fetchall()
    assert "start = 2008-06-04T08:05:00Z" in sentence
    assert f"Run {run}" in sentence
    assert own.execute(notices, [run_of(own, 0, since=eight.timestamp(), **late)]).fetchall() == []
    gone_before = run_of(own, 1, since=(find_day(1) + timedelta(hours=7)).timestamp(), **late)
    assert own.execute(notices, [gone_before]).fetchall() == []
