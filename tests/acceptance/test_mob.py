"""Moving objects, the whole way as typed: hidden, attacked, published, read by an analyst; and what is refused."""

import csv
import gzip
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import VerificationFailed
from dbanon.database import open_database
from dbanon.postgres.connection import connect_to_hold
from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database
from tests.acceptance.commands import Done, call, demand_done, read_json
from tests.acceptance.conftest import REAL_DATA
from tests.clones import clone_of
from tests.facts import demand_refused, expect_refusal

pytestmark = pytest.mark.db

K = 3
TOWN = ("--objects", "200", "--instants", "60", "--requests-per-subject", "0")
KNOWN = ("--quasi-identifiers", "random", "--quasi-identifier-size", "6")
ALL_ROWS = ("-p", "qid_only=off")
EARLY = ("-p", "until=2026-01-05T08:20:00Z")
FIRST_NIGHT = datetime(2008, 6, 1, tzinfo=UTC)


def run(url: str, *options: str, dataset: str = "fleet", k: int = K) -> Done:
    return call(url, "run", "mob", "--dataset", dataset, "-p", f"k={k}", "--seed", "7", *options)


@pytest.fixture(scope="module")
def fleet_template(dbanon_server: Target, dbanon_template: str) -> Iterator[str]:
    """Name of a database with a generated fleet, and verified runs: all rows, generalised ones alone, extreme-union."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        demand_done(call(url, "synth", "--dataset", "fleet", *TOWN, *KNOWN))
        demand_done(run(url, *ALL_ROWS))
        demand_done(run(url))
        demand_done(run(url, "--algorithm", "extreme-union", *ALL_ROWS))
        yield parse(url)["dbname"]


database = clone_of("fleet_template")


# ---- published and read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 3], ids=["symmetric", "qid_only", "extreme-union"])
def test_moving_objects_are_published_and_read_by_an_analyst(
    database: str, login: Callable[[str], str], number: int
) -> None:
    published = demand_done(call(database, "publish", str(number), "fleet_hour"))
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        rows = analyst.execute(
            "SELECT record_id, extract(epoch FROM valid_from)::bigint, ST_AsText(region), crowd, subjects, cloaked,"
            " extract(epoch FROM valid_to - valid_from)::int, ST_Area(region) FROM published.fleet_hour"
        ).fetchall()
    shared: dict[tuple[int, str], set[int]] = {}
    for record, start, region, _, _, cloaked, _, _ in rows:
        if cloaked:
            shared.setdefault((start, region), set()).add(record)
    assert len(shared) > 100
    assert min(map(len, shared.values())) >= K
    assert all(len(shared[start, region]) == crowd for _, start, region, crowd, _, cloaked, *_ in rows if cloaked)
    assert {(crowd, area) for *_, crowd, _, cloaked, _, area in rows if not cloaked} == (
        set() if number == 2 else {(1, 1)}
    )
    exact = sum(not cloaked for *_, cloaked, _, _ in rows)
    assert re.findall(r"Rows published exactly: (\d+)", published.stderr) == ([] if number == 2 else [str(exact)])
    assert {(subjects, length) for *_, subjects, _, length, _ in rows} == {(1, 60)}
    assert len({(record, start) for record, start, *_ in rows}) == len(rows)


def test_each_person_shares_a_region_at_each_of_its_own_instants(database: str) -> None:
    with psycopg.connect(database) as owner:
        known, cloaked, apart = owner.execute("""
            SELECT count(*), count(*) FILTER (WHERE (c.extra ->> 'cloaked')::boolean),
                count(*) FILTER (WHERE c.period IS NULL)
            FROM dbanon.quasi_identifier q
            JOIN dbanon.trajectory t ON t.dataset_id = q.dataset_id AND t.subject = q.subject
            JOIN dbanon.membership m ON m.run_id = 1 AND m.trajectory_id = t.trajectory_id
            LEFT JOIN dbanon.cloak c ON c.run_id = 1 AND c.record_id = m.record_id AND c.period @> q.at
            """).fetchone()
        outside = owner.execute(
            "SELECT (suppressed -> 'quasi_identifiers' ->> 'outside')::int FROM dbanon.run WHERE run_id = 1"
        ).fetchone()[0]
    assert known > 500
    assert cloaked + apart == known
    assert apart <= outside  # some of them are of people who are left out


def test_people_who_have_no_generalised_row_are_left_out_where_no_others_are_published(database: str) -> None:
    with psycopg.connect(database) as owner:
        every, alone = (
            owner.execute("SELECT suppressed -> 'subjects', metrics -> 'rows' FROM dbanon.run WHERE run_id = %s", [n])
            .fetchone() for n in (1, 2)
        )  # fmt: skip
    assert every[0]["never_generalised"] == 0 < alone[0]["never_generalised"]
    assert alone[1] * 4 < every[1]


# ---- other releases --------------------------------------------------------------------------------------------------


@pytest.mark.stress
def test_it_stands_alone_and_the_very_same_sets_reveal_nothing_more(database: str) -> None:
    demand_done(call(database, "publish", "1", "fleet_hour"))
    demand_refused(
        call(database, "publish", "2", "hidden_alone"), 5, "stands alone", "run 2", "fleet_hour", "190 people"
    )
    demand_refused(run(database, "--publish", "larger", k=4), 5, "stands alone", "fleet_hour")
    demand_done(call(database, "publish", "1", "fleet_once_more"))
    demand_done(run(database, *ALL_ROWS, "--publish", "drawn_again"))  # by the same seed: the same sets


@pytest.mark.stress
@pytest.mark.parametrize(
    ("since", "options", "code"),
    [
        ("08:20:00", (), 5),
        ("08:34:00", (), 5),  # settle_s is 900
        ("08:35:00", (), 0),
        ("08:35:00", ("-p", "max_gap_s=960"), 5),
        ("08:36:00", ("-p", "max_gap_s=960"), 0),
    ],
)
def test_a_release_of_another_time_must_be_out_of_reach(
    database: str, since: str, options: tuple[str, ...], code: int
) -> None:
    demand_done(run(database, *ALL_ROWS, *EARLY, "--publish", "early"))
    later = run(database, *ALL_ROWS, "-p", f"since=2026-01-05T{since}Z", *options, "--publish", "later")
    if code:
        demand_refused(later, code, "stands alone", "early", "max_gap_s", "settle_s")
    else:
        demand_done(later)


NIGHTS = """
CREATE TABLE public.gps AS
SELECT 'c' || i AS cab, t AS ts, 8.2 + 0.001 * i AS lon, 53.1 + 0.0001 * extract(hour FROM t) AS lat
FROM generate_series(1, 6) i, generate_series(timestamptz '2008-05-31 23:00Z', '2008-06-04 01:00Z', '15 minutes') t;
CREATE TABLE public.known AS SELECT cab AS subject, ts AS time FROM public.gps
WHERE cab <= 'c3' AND to_char(ts AT TIME ZONE 'UTC', 'HH24:MI') = '12:00';
SELECT dbanon.add_job('fleet', 'public.gps', starts => '2008-06-01Z',
    load => '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat", "grid_s": 60}',
    method => 'mob', params => '{"k": 2, "qid_only": false, "step_s": 900}',
    further => '[{"kind": "quasi_identifiers", "source": "public.known"}]')
"""


def test_nights_with_exact_rows_begin_beyond_the_reach_of_those_before_as_a_refusal_of_whole_ones_says(
    dbanon_database: str,
) -> None:
    with open_database(dbanon_database) as nights, connect_to_hold(nights.lock_url) as holder:
        nights.connection.execute(NIGHTS)
        for _ in range(3):  # publishes the night before, and queues the next
            nights.run_jobs(wait=False)
            assert nights.run_next(holder, "worker") is not None
        whole = {"k": 2, "qid_only": False, "step_s": 900, "since": "2008-06-03T00:00Z", "until": "2008-06-04T00:00Z"}
        with expect_refusal(VerificationFailed, "since = 2008-06-03T00:15:00Z"):
            nights.publish(nights.run("mob", dataset="fleet", params=whole).run_id, "fleet", grow=True)
        nights.run_jobs(wait=False)
        parts = nights.connection.execute("SELECT since, until FROM published.parts ORDER BY since").fetchall()
    minutes = [[(time - FIRST_NIGHT).total_seconds() / 60 for time in part] for part in parts]
    assert minutes == [[0, 1440], [1455, 2880], [2895, 4320]]


# ---- tampering -------------------------------------------------------------------------------------------------------

CLOAKED = "run_id = 1 AND (extra ->> 'cloaked')::boolean"
REGION = f"(SELECT region FROM dbanon.cloak WHERE {CLOAKED} ORDER BY crowd, period, region LIMIT 1)"
TIME = f"(SELECT period FROM dbanon.cloak WHERE {CLOAKED} ORDER BY crowd, period, region LIMIT 1)"
ONE = f"(SELECT min(record_id) FROM dbanon.cloak WHERE {CLOAKED} AND region = {REGION} AND period = {TIME})"
FIRST = "run_id = 1 AND record_id = 1"
EXACT = f"{FIRST} AND seq = (SELECT min(seq) FROM dbanon.cloak WHERE {FIRST} AND crowd = 1)"
SHRUNK = """ST_Reverse(ST_MakeEnvelope(
    ST_XMin(region) + 1, ST_YMin(region), ST_XMax(region), ST_YMax(region), ST_SRID(region)))"""

# (the change, the clause that names it)
TAMPERINGS = {
    "a region a cell smaller": (
        f"UPDATE dbanon.cloak SET region = {SHRUNK} WHERE {CLOAKED} AND region = {REGION}",
        "covers",
    ),
    "one of k in a region of its own": (
        f"""UPDATE dbanon.cloak SET region = ST_Reverse(ST_Envelope(ST_Expand(region, 1)))
            WHERE run_id = 1 AND record_id = {ONE} AND period = {TIME}""",
        "crowd",
    ),
    "a region that k - 1 share": (
        f"""UPDATE dbanon.cloak c SET crowd = CASE WHEN c.record_id = o.one THEN 1 ELSE c.crowd - 1 END,
                extra = CASE WHEN c.record_id = o.one THEN NULL ELSE c.extra END,
                region = CASE WHEN c.record_id = o.one THEN o.cell ELSE c.region END
            FROM (SELECT {ONE} AS one, {REGION} AS region, {TIME} AS period,
                    (SELECT ST_Reverse(ST_MakeEnvelope(
                        floor(ST_X(f.position)), floor(ST_Y(f.position)), floor(ST_X(f.position)) + 1,
                        floor(ST_Y(f.position)) + 1, ST_SRID(f.position)))
                     FROM dbanon.fix f JOIN dbanon.membership m USING (trajectory_id)
                     WHERE m.run_id = 1 AND m.record_id = {ONE} AND f.t <@ {TIME}) AS cell) o
            WHERE c.run_id = 1 AND c.region = o.region AND c.period = o.period""",
        "size",
    ),
    "an exact row moved": (f"UPDATE dbanon.cloak SET region = ST_Translate(region, 1, 0) WHERE {EXACT}", "exact"),
    "a row removed": (f"DELETE FROM dbanon.cloak WHERE {EXACT}", "complete"),
    "a row a second longer": (
        f"""UPDATE dbanon.cloak SET period = tstzrange(lower(period), upper(period) + interval '1 second')
            WHERE {EXACT}""",
        "period",
    ),
    "two people exchanged": (
        """UPDATE dbanon.membership m SET trajectory_id = o.trajectory_id FROM dbanon.membership o
           WHERE m.run_id = 1 AND o.run_id = 1 AND m.record_id IN (1, 2) AND o.record_id = 3 - m.record_id""",
        "exact",
    ),
    "a hiding set that lacks one": (
        """UPDATE dbanon.hiding SET others = others[2:] WHERE run_id = 1
           AND record_id = (SELECT min(record_id) FROM dbanon.hiding WHERE run_id = 1)""",
        "sets",
    ),
    "a person left out but not counted": (
        """UPDATE dbanon.run SET suppressed = jsonb_set(suppressed, '{subjects,few_partners}', '0') WHERE run_id = 1""",
        "left-out",
    ),
    "another column": (
        f"""UPDATE dbanon.cloak SET extra = '{{"cloaked": false, "name": "s0000001"}}' WHERE {EXACT}""",
        "columns",
    ),
    "more known than was": (
        """INSERT INTO dbanon.quasi_identifier (dataset_id, load_id, set_name, subject, at)
           SELECT t.dataset_id, q.load_id, 'default', t.subject, lower(c.period)
           FROM dbanon.cloak c JOIN dbanon.membership m USING (run_id, record_id) JOIN dbanon.trajectory t
               USING (trajectory_id), (SELECT min(load_id) AS load_id FROM dbanon.quasi_identifier) q
           WHERE c.run_id = 1 AND c.record_id = 1 AND c.crowd = 1""",
        "hidden",
    ),
}  # fmt: skip


@pytest.mark.many
@pytest.mark.parametrize(("change", "clause"), TAMPERINGS.values(), ids=TAMPERINGS)
def test_a_tampered_run_is_refused(database: str, change: str, clause: str) -> None:
    with psycopg.connect(database, autocommit=True) as administrator:
        administrator.execute("SET search_path = pg_catalog, public")
        assert administrator.execute(change).rowcount > 0
    demand_refused(call(database, "publish", "1", "fleet_hour"), 5, "changed")
    told = call(database, "verify", "1")
    assert told.code == 5
    assert re.search(rf"^{clause} +BROKEN", told.stdout, re.MULTILINE), told.stdout


# ---- files -----------------------------------------------------------------------------------------------------------


def test_generated_files_give_the_quasi_identifiers_of_a_generated_dataset(database: str, tmp_path: Path) -> None:
    made = read_json(demand_done(call(database, "synth", "--csv", str(tmp_path / "fleet"), *TOWN, *KNOWN, "--json")))
    known = tmp_path / "fleet" / "quasi-identifiers.csv"
    assert str(known) in made["files"]
    trajectories = str(tmp_path / "fleet" / "trajectories.csv")
    demand_done(call(database, "load", "trajectories", trajectories, "--dataset", "files", "--x", "lon", "--y", "lat"))
    loaded = read_json(
        demand_done(call(database, "load", "quasi-identifiers", str(known), "--dataset", "files", "--json"))
    )
    assert loaded["kept"] == made["quasi_identifiers"] == len(known.read_text().splitlines()) - 1
    with psycopg.connect(database) as owner:
        of = "SELECT subject, at, set_name FROM dbanon.quasi_identifier JOIN dbanon.dataset d USING (dataset_id)"
        fleet, files = (
            owner.execute(f"{of} WHERE d.name = %s ORDER BY 1, 2", [n]).fetchall() for n in ("fleet", "files")
        )
    assert fleet == files


# ---- odd input -------------------------------------------------------------------------------------------------------

MIDNIGHT_S = 1_767_571_200
INSTANT_COUNT = 10
Row = tuple[str, float]


def format_fixes(person: str, minutes: Iterable[int] = range(INSTANT_COUNT), place: int = 0) -> str:
    return "".join(
        f"{person},{MIDNIGHT_S + 60 * m},{500_000 + 20 * place + 5 * m},{5_000_000 + 7 * m}\n" for m in minutes
    )


PEOPLE = [f"p{i}" for i in range(6)]
SIX = "".join(format_fixes(person, place=i) for i, person in enumerate(PEOPLE))
FIVE = "".join(format_fixes(person, place=i) for i, person in enumerate(PEOPLE[1:]))
GAP = FIVE + format_fixes("p0", [0, 1, 2, 8, 9])
EACH = [(person, i) for i, person in enumerate(PEOPLE)]


def load_fixes(url: str, place: Path, rows: str, known: Sequence[Row]) -> Done:
    """Load fixes in metres, and quasi-identifiers by minute; give what loading the latter ended with."""
    people, times = place / "people.csv", place / "known.csv"
    people.write_text("subject,time,x,y\n" + rows)
    times.write_text("subject,time\n" + "".join(f"{who},{MIDNIGHT_S + 60 * minute:.0f}\n" for who, minute in known))
    metres = ("--crs", "EPSG:32632", "--srid", "32632")
    demand_done(call(url, "load", "trajectories", str(people), "--dataset", "odd", *metres))
    return call(url, "load", "quasi-identifiers", str(times), "--dataset", "odd")


def run_odd(url: str, *options: str) -> Done:
    return run(url, *ALL_ROWS, "-p", f"start={MIDNIGHT_S}", *options, dataset="odd")


@dataclass(frozen=True, kw_only=True)
class Odd:
    """Fixes, quasi-identifiers (by minute), options; the minutes of cloaked rows, and what is not used, by reason."""

    known: list[Row]
    rows: str = SIX
    options: tuple[str, ...] = ()
    minutes: set[int]
    unused: Mapping[str, int] = field(default_factory=dict)


SIX_MINUTES, GAPS = {*range(6)}, [*EACH[1:], ("p0", 5)]
ODD = {
    "a time at which its subject is absent": Odd(
        rows=GAP, known=GAPS, options=("-p", "align=exact"), minutes={1, 2, 3, 4, 5}, unused={"absent": 1}
    ),
    "gaps, the last fix counts": Odd(rows=GAP, known=GAPS, minutes={1, 2, 3, 4, 5}),
    "gaps, too long": Odd(
        rows=GAP, known=GAPS, options=("-p", "max_gap_s=60"), minutes={1, 2, 3, 4, 5}, unused={"absent": 1}
    ),
    "gaps, interpolated": Odd(
        rows=GAP, known=GAPS, options=("-p", "align=linear", "-p", "max_gap_s=360"), minutes={1, 2, 3, 4, 5}
    ),
    "a subject with none": Odd(known=EACH[1:], minutes={1, 2, 3, 4, 5}),
    "all but one with none": Odd(known=EACH[3:4], minutes={3}),
    "all with one shared time": Odd(known=[(person, 4) for person in PEOPLE], minutes={4}),
    "all with all times": Odd(
        known=[(p, m) for p in PEOPLE for m in range(INSTANT_COUNT)], minutes={*range(INSTANT_COUNT)}
    ),
    "subjects identical at all times": Odd(rows="".join(map(format_fixes, PEOPLE)), known=EACH, minutes=SIX_MINUTES),
    "off the grid of instants": Odd(known=[(person, 3.99) for person in PEOPLE], minutes={3}),
    "two in one slot": Odd(known=[(p, m) for p in PEOPLE for m in (3, 3.5)], minutes={3}),
    "before the first instant and after the last": Odd(
        known=[*EACH, ("p0", -0.5), ("p1", 10), ("p2", 9.5)],
        options=("-p", f"since={MIDNIGHT_S - 60}", "-p", f"until={MIDNIGHT_S + 660}"),
        minutes={*SIX_MINUTES, 9},
        unused={"outside": 2},
    ),
    "of another evening": Odd(known=[*EACH, ("p0", -0.5), ("p1", 10)], minutes=SIX_MINUTES),
    "of a subject whom nothing is considered of": Odd(
        rows=SIX + format_fixes("late", range(30, 40)),
        known=[*EACH, ("late", 30), ("nobody", 3)],
        options=("-p", f"until={MIDNIGHT_S + 600}"),
        minutes=SIX_MINUTES,
        unused={"without_subject": 1},
    ),
}


@pytest.mark.many
@pytest.mark.parametrize("algorithm", ["symmetric", "extreme-union"])
@pytest.mark.parametrize("case", ODD)
def test_odd_quasi_identifiers_are_hidden_or_counted(
    dbanon_database: str, tmp_path: Path, algorithm: str, case: str
) -> None:
    given = ODD[case]
    demand_done(load_fixes(dbanon_database, tmp_path, given.rows, given.known))
    told = read_json(
        demand_done(run_odd(dbanon_database, "--algorithm", algorithm, *given.options, "--publish", "odd", "--json"))
    )
    assert told["status"] == "verified"
    assert {reason: n for reason, n in told["suppressed"]["quasi_identifiers"].items() if n} == given.unused
    assert sum(told["suppressed"]["subjects"].values()) == 0
    with psycopg.connect(dbanon_database) as owner:
        cloaked, least = owner.execute(
            "SELECT array_agg(DISTINCT (extract(epoch FROM valid_from)::int - %s) / 60), min(crowd)"
            " FROM published.odd WHERE cloaked",
            [MIDNIGHT_S],
        ).fetchone()
    assert least >= K
    assert set(cloaked) == given.minutes


# Two at a time, none of them with any other.
PAIRS = "".join(format_fixes(person, range(100 * (i // 2), 100 * (i // 2) + 3), i) for i, person in enumerate(PEOPLE))
AT_PAIRS = [(person, 100 * (i // 2)) for i, person in enumerate(PEOPLE)]
# (quasi-identifiers, options, exit code, facts)
REFUSED: dict[str, tuple[list[Row], tuple[str, ...], int, tuple[object, ...]]] = {
    "fewer than k subjects": (EACH, ("k=7",), 4, ("k = 7", 6)),
    "none at an instant": ([("p0", 11), ("p1", -1)], (), 3, ("quasi-identifier", "qid_set")),
    "none of a known subject": ([("nobody", 3)], (), 3, ("quasi-identifiers", "`dbanon load quasi-identifiers`")),
    "another set": (EACH, ("qid_set=other",), 3, ("quasi-identifiers",)),
    "no instant": (EACH, (f"start={MIDNIGHT_S + 6000}",), 3, ("quasi-identifiers", "another time")),
    "k of one": (EACH, ("k=1",), 2, ("'k'", ">= 2", 1)),
    "a set without a name": (EACH, ("qid_set=",), 2, ("'qid_set'",)),
    "a speed below nothing": (EACH, ("speed_m_s=-1",), 2, ("'speed_m_s'", -1)),
    "half a switch": (EACH, ("qid_only=perhaps",), 2, ("'qid_only'", "on or off", "'perhaps'")),
    "another alignment": (EACH, ("align=first",), 2, ("'align'", "'first'")),
    "no step": (EACH, ("step_s=0",), 2, ("'step_s'", 0)),
}


@pytest.mark.many
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_one_sentence(dbanon_database: str, tmp_path: Path, case: str) -> None:
    known, params, code, facts = REFUSED[case]
    demand_done(load_fixes(dbanon_database, tmp_path, SIX, known))
    given = {"k": str(K), "start": str(MIDNIGHT_S), **dict(param.split("=") for param in params)}
    options = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    demand_refused(call(dbanon_database, "run", "mob", "--dataset", "odd", *options), code, *facts)


def test_nobody_left_is_one_sentence(dbanon_database: str, tmp_path: Path) -> None:
    demand_done(load_fixes(dbanon_database, tmp_path, PAIRS, AT_PAIRS))
    demand_refused(run_odd(dbanon_database, "-p", "max_gap_s=60"), 4, "k = 3", 6)


def test_improve_is_of_symmetric_alone(database: str) -> None:
    demand_refused(run(database, "--algorithm", "extreme-union", "-p", "improve=off"), 2, "improve", "symmetric")


# ---- a day of taxis --------------------------------------------------------------------------------------------------

CABS = REAL_DATA / "cabspotting" / "cabs_20080604.csv.gz"


@pytest.mark.stress
@pytest.mark.skipif(not CABS.is_file(), reason="the taxi data do not lie beside the repository")
def test_a_day_of_taxis_is_verified_at_k_5_published_and_read_by_an_analyst(
    database: str, tmp_path: Path, login: Callable[[str], str]
) -> None:
    known, rng = tmp_path / "known.csv", random.Random(2009)
    times: dict[str, list[str]] = {}
    with gzip.open(CABS, "rt") as file:
        for row in csv.DictReader(file):
            times.setdefault(row["cab_id"], []).append(row["t"])
    picked = [(cab, t) for cab, seen in times.items() for t in rng.sample(seen, rng.randint(1, min(10, len(seen))))]
    known.write_text("subject,time\n" + "".join(f"{cab},{t}\n" for cab, t in picked))
    columns = ("--subject", "cab_id", "--time", "t", "--x", "lon", "--y", "lat", "--drop-outliers")
    demand_done(call(database, "load", "trajectories", str(CABS), "--dataset", "taxi", *columns))
    demand_done(call(database, "load", "quasi-identifiers", str(known), "--dataset", "taxi"))
    told = read_json(demand_done(run(database, *ALL_ROWS, "--publish", "taxis", "--json", dataset="taxi", k=5)))
    assert told["status"] == "verified"
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        rows, records, least, few = analyst.execute(
            "SELECT count(*), count(DISTINCT record_id), min(crowd) FILTER (WHERE cloaked),"
            " count(*) FILTER (WHERE NOT cloaked AND crowd <> 1) FROM published.taxis"
        ).fetchone()
    left_out = told["suppressed"]["subjects"]["few_partners"]
    assert (rows, records) == (told["rows_published"], told["metrics"]["subjects"] - left_out)
    assert rows > 400_000
    assert (least, few) == (5, 0)
