"""Phone records, the whole way as typed: hidden, attacked, published, read by an analyst; and what is refused."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psycopg
import pytest

from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database
from tests.acceptance.commands import Done, call, demand_done
from tests.clones import clone_of
from tests.facts import demand_named, demand_refused
from tests.pages import ROOT

pytestmark = pytest.mark.db

K = 3
DAY_OPTIONS = ("--instants", "720", "--start", "2026-01-05T08:00:00Z")


def run(url: str, *options: str) -> Done:
    return call(url, "run", "kte", "--dataset", "phones", "-p", f"k={K}", "--seed", "7", *options)


@pytest.fixture(scope="module")
def phones_template(dbanon_server: Target, dbanon_template: str) -> Iterator[str]:
    """Name of a database with half a day of calls, and verified runs: everyone hidden, groups, hidden for longer."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        demand_done(
            call(url, "synth", "--dataset", "phones", "--objects", "200", *DAY_OPTIONS, "--calls-per-day", "60")
        )
        demand_done(run(url))
        demand_done(run(url, "--algorithm", "k-merge"))
        demand_done(run(url, "-p", "tau_s=7200"))  # leaves some out
        yield parse(url)["dbname"]


database = clone_of("phones_template")


@pytest.mark.parametrize(
    ("number", "crowds", "alike"), [(1, {K}, False), (2, {3, 4, 5}, True)], ids=["hidden", "groups"]
)
def test_phone_records_are_published_and_read_by_an_analyst(
    database: str, login: Callable[[str], str], number: int, crowds: set[int], alike: bool
) -> None:
    demand_done(call(database, "publish", str(number), "phones_day"))
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        rows = analyst.execute(
            "SELECT record_id, array_agg((valid_from, valid_to, ST_AsText(region))::text ORDER BY seq),"
            " min(crowd), max(subjects), bool_and(extract(epoch FROM valid_to - valid_from) % 60 = 0)"
            " FROM published.phones_day GROUP BY record_id"
        ).fetchall()
    assert len(rows) == 200
    assert {crowd for _, _, crowd, _, _ in rows} <= crowds
    assert {(subjects, whole) for *_, subjects, whole in rows} == {(1, True)}
    shown = [tuple(row[1]) for row in rows]
    assert all(shown.count(one) == row[2] for one, row in zip(shown, rows, strict=True)) == alike


def test_what_everyone_is_hidden_in_stands_alone_and_groups_are_measured(database: str) -> None:
    demand_done(call(database, "publish", "1", "hidden"))
    demand_refused(call(database, "publish", "2", "groups"), 5, "stands alone", "200 people")


def test_windows_are_published_counted_and_compared(database: str, login: Callable[[str], str]) -> None:
    windows = ("run", "kte", "--dataset", "phones", "--algorithm", "k-merge", "-p", f"k={K}", "-p", "window_s=1800")
    two_hours = ("-p", "since=2026-01-05T10:00:00Z", "-p", "until=2026-01-05T12:00:00Z")
    demand_done(call(database, *windows, "--seed", "7", "--publish", "halves"))
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        [(since, until, window_s, promise)] = analyst.execute(
            "SELECT extract(epoch FROM since)::int, extract(epoch FROM until)::int, window_s, promise"
            " FROM published.releases WHERE name = 'halves'"
        ).fetchall()
        assert (since % 1800, until % 1800, window_s) == (0, 0, 1800)
        assert "window" in promise
        [(records, over)] = analyst.execute(
            "SELECT count(DISTINCT record_id), count(*) FILTER (WHERE floor(extract(epoch FROM valid_from) / 1800)"
            " <> floor((extract(epoch FROM valid_to) - 1) / 1800)) FROM published.halves"
        ).fetchall()
        assert records > 200
        assert over == 0
        [(at_least, _, at_most, *_)] = analyst.execute(
            "SELECT (published.count_inside('published.halves',"
            " ST_MakeEnvelope(extent[1] - 1, extent[2] - 1, extent[3] + 1, extent[4] + 1, srid),"
            " during => tstzrange(since, until))).* FROM published.releases WHERE name = 'halves'"
        ).fetchall()
        assert at_least <= 200 <= at_most <= records
    # Of the same seed a window has the same groups, whichever others there are.
    demand_done(call(database, *windows, *two_hours, "--seed", "7", "--publish", "same"))
    demand_done(call(database, *windows, *two_hours, "--seed", "8"))
    demand_refused(call(database, "publish", "6", "other"), 5, "1 of 3", "halves", "same")
    demand_refused(call(database, *windows, "-p", "since=2026-01-05T10:15:00Z"), 2, "since", "window_s", 1800)


def test_a_run_of_one_window_says_so(database: str) -> None:
    given = ("--algorithm", "k-merge", "-p", "window_s=86400", "--json")
    told = json.loads(demand_done(run(database, *given)).stdout)
    demand_named(" ".join(told["notices"]), 86_400)


def test_a_run_that_leaves_out_most_says_so_and_what_would_help_and_so_does_its_publication(database: str) -> None:
    given = ("-p", "k=6", "-p", "tau_s=600", "-p", "leak_s=600", "--seed", "7", "--json")
    told = demand_done(call(database, "run", "kte", "--dataset", "phones", *given))
    result = json.loads(told.stdout)
    figures = result["verification"]["attacks"][0]["figures"]
    assert figures["others_needed"] == figures["windows"] * 5
    general, helpful = result["notices"]
    demand_named(general, f"Run {result['run_id']}", "% of the samples", "few_alike")
    demand_named(helpful, figures["others_needed"], figures["windows"], 200, "leak_s")
    assert told.stderr.splitlines()[-2:] == result["notices"]
    published = demand_done(call(database, "publish", str(result["run_id"]), "few", "--json"))
    assert json.loads(published.stdout)["notices"] == result["notices"]


TAMPERINGS = {
    "a hiding set used again": (
        """UPDATE dbanon.hiding h SET others = o.others FROM dbanon.hiding o
           WHERE h.run_id = 1 AND o.run_id = 1 AND o.record_id = h.record_id AND o.period << h.period
             AND h.record_id = (SELECT min(record_id) FROM dbanon.hiding WHERE run_id = 1)""",
        1, "reuse",
    ),
    "a sample moved out of its region": (
        """UPDATE dbanon.trajectory SET path = public.ST_Translate(path, 5000, 0)
           WHERE trajectory_id = (SELECT min(trajectory_id) FROM dbanon.membership WHERE run_id = 1)""",
        1, "truth",
    ),
    "a subject picked k - 2 times": (
        """UPDATE dbanon.hiding SET others = others[:1] WHERE run_id = 1
           AND record_id = (SELECT min(record_id) FROM dbanon.hiding WHERE run_id = 1)""",
        1, "k-pick",
    ),
    "a made-up row": (
        """UPDATE dbanon.cloak SET region = public.ST_Translate(region, 50000, 0)
           WHERE run_id = 1 AND record_id = 1 AND seq = 1""",
        1, "truth",
    ),
    "a suppressed window filled again": (
        """INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects)
           SELECT 3, record_id,
               (SELECT max(seq) FROM dbanon.cloak WHERE run_id = 3) + row_number() OVER (ORDER BY slot),
               tstzrange(to_timestamp(60 * slot), to_timestamp(60 * slot + 60)),
               public.ST_MakeEnvelope(min(x), min(y), max(x) + 100, max(y) + 100, srid), 3, 1
           FROM (SELECT mem.record_id, floor(extract(epoch FROM fix.t) / 60) AS slot,
                     public.ST_SRID(fix.position) AS srid, 100 * floor(public.ST_X(fix.position) / 100) AS x,
                     100 * floor(public.ST_Y(fix.position) / 100) AS y, min(mem.record_id) OVER () AS least
                 FROM dbanon.fix fix
                 JOIN dbanon.membership mem ON mem.run_id = 3 AND mem.trajectory_id = fix.trajectory_id
                 WHERE NOT EXISTS (SELECT FROM dbanon.cloak clo
                                   WHERE clo.run_id = 3 AND clo.record_id = mem.record_id AND clo.period @> fix.t)) cell
           WHERE record_id = least GROUP BY record_id, slot, srid;
           UPDATE dbanon.record d SET (periods, regions) =
               (SELECT array_agg(period_no ORDER BY p.period), array_agg(e.region_no ORDER BY p.period)
                FROM unnest(d.periods, d.regions) e (period_no, region_no) JOIN dbanon.period p USING (period_no)
                WHERE p.run_id = d.run_id)
           WHERE d.run_id = 3""",
        3, "k-pick",
    ),
    "a record of a group dropped": (
        """WITH gone AS (DELETE FROM dbanon.cloak WHERE run_id = 2 AND record_id = 1)
           DELETE FROM dbanon.membership WHERE run_id = 2 AND record_id = 1""",
        2, "alike",
    ),
}  # fmt: skip


@pytest.mark.many
@pytest.mark.parametrize(("change", "number", "clause"), TAMPERINGS.values(), ids=TAMPERINGS)
def test_a_tampered_run_is_refused(database: str, change: str, number: int, clause: str) -> None:
    with psycopg.connect(database, autocommit=True) as administrator:
        assert administrator.execute(change).rowcount > 0
    demand_refused(call(database, "publish", str(number), "phones_day"), 5, "changed")
    told = call(database, "verify", str(number))
    assert told.code == 5
    assert re.search(rf"^{clause} +BROKEN", told.stdout, re.MULTILINE)


@pytest.mark.many
@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        (("-p", "tau_s=2000"), 2, ("tau_s", "leak_s", 1800, 2000)),
        (("-p", "grid_s=7"), 2, ("leak_s", "grid_s")),
        (("-p", "k=201"), 4, (201, 200)),
        (("--algorithm", "k-merge", "-p", "tau_s=600"), 2, ("tau_s", "kte-hide")),
        (("-p", "until=2026-01-05T08:00:30Z"), 2, ("until", "grid_s")),
        (("-p", "since=2026-01-06T08:00:00Z"), 3, ("no two people", "another time")),
        (("-p", "window_s=1800"), 2, ("window_s", "k-merge", "kte-hide")),
        (("--algorithm", "k-merge", "-p", "window_s=90"), 2, ("window_s", "grid_s", 60, 90)),
        (("--algorithm", "k-merge", "-p", "window_s=60", "-p", "k=150"), 4, (150, 200)),
        (("--algorithm", "glove"), 2, ("glove", "kte-hide", "k-merge")),
    ],
    ids=lambda value: (
        " ".join(value) if isinstance(value, tuple) and value and value[0] in ("-p", "--algorithm") else ""
    ),
)
def test_what_cannot_be_is_one_sentence(database: str, options: tuple[str, ...], code: int, facts: tuple) -> None:
    demand_refused(call(database, "run", "kte", "--dataset", "phones", *options), code, *facts)


HEAD = "subject,time,x,y\n"
MIDNIGHT_S = 1_767_571_200
ALIKE, OFTEN = [f"alike{i}" for i in range(30)], range(0, 2 * 3600, 600)


def format_rows(subject: str, times: Iterable[int], place: float = 0.0) -> str:
    return "".join(f"{subject},{MIDNIGHT_S + at},{-122.4 + place:.4f},37.75\n" for at in times)


CROWD = "".join(format_rows(subject, OFTEN, 2e-4 * i) for i, subject in enumerate(ALIKE))
BURST = "".join(format_rows("burst", OFTEN[:1], 1e-4 * i) + format_rows("burst", [60 + i // 7]) for i in range(300))
ODD = {
    "a subject with one sample": (CROWD + format_rows("odd", [600]), (), 30),
    "all with one sample": ("".join(format_rows(subject, [600]) for subject in ALIKE), (), 30),
    "a subject with samples in one epoch alone": (CROWD + format_rows("odd", range(0, 1800, 60)), (), 30),
    "a burst in a slot": (CROWD + BURST + format_rows("burst", OFTEN[1:]), (), 31),
    "a day with no data": (
        CROWD + "".join(format_rows(one, (at + 2 * 86_400 for at in OFTEN)) for one in ALIKE), (), 30,
    ),
    "tau longer than the data": (CROWD, ("-p", "tau_s=172800", "-p", "leak_s=86400"), 30),
}  # fmt: skip


@pytest.mark.many
@pytest.mark.parametrize(("rows", "options", "published"), ODD.values(), ids=ODD)
def test_odd_people_are_hidden_or_left_out_and_counted(
    dbanon_database: str, tmp_path: Path, rows: str, options: tuple[str, ...], published: int
) -> None:
    (tmp_path / "odd.csv").write_text(HEAD + rows)
    demand_done(call(dbanon_database, "load", "trajectories", str(tmp_path / "odd.csv"), "--dataset", "phones"))
    ended = demand_done(run(dbanon_database, *options, "--publish", "odd", "--json"))
    told = json.loads(ended.stdout.splitlines()[0])
    subjects = len({row.split(",")[0] for row in rows.splitlines()})
    assert told["status"] == "verified"
    assert told["metrics"]["records"] == published == subjects - sum(told["suppressed"]["subjects"].values())
    assert (told["metrics"]["suppressed_percent"] > 0) == (subjects > published)


@pytest.mark.stress
def test_the_table_of_what_helps_on_the_page_is_that_of_its_runs(database: str) -> None:
    """The commands are those of benchmarks/results/kte_cabs.md."""
    day = ("--instants", "1440", "--start", "2026-01-05T00:00:00Z", "--calls-per-day", "16", "--seed", "1")
    demand_done(call(database, "synth", "--dataset", "calls", "--objects", "150", *day))
    page = (ROOT / "docs" / "methods" / "kte.md").read_text()
    rows = re.findall(r"^\| (\d) \| (\d+)(?:, with `(.+)`)? \| (\d+) \| ([\d.]+) % \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for k, seconds, other, needed, left_out in rows:
        given = (f"k={k}", "grid_m=500", f"tau_s={seconds}", f"leak_s={seconds}", *filter(None, [other]))
        asked = [word for one in given for word in ("-p", one)]
        told = demand_done(call(database, "run", "kte", "--dataset", "calls", "--seed", "7", "--json", *asked))
        result = json.loads(told.stdout)
        assert result["verification"]["attacks"][0]["figures"]["others_needed"] == float(needed)
        assert abs(result["metrics"]["suppressed_percent"] - float(left_out)) <= 0.05 + 1e-9
