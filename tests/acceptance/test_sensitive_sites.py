"""User locations near sensitive sites, the whole way as typed; what an analyst reads, and what is never published."""

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database
from tests.acceptance.commands import Done, call, demand_done, read_json
from tests.clones import clone_of
from tests.facts import demand_refused

pytestmark = pytest.mark.db

LON_LAT = ("--x", "lon", "--y", "lat")
INSTANT = "2026-01-05T08:10:00Z"
K = 5


@pytest.fixture(scope="module")
def town_files(city_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where everybody of the city is at one instant, and nine sites: two at one place, one outside of the city."""
    made = tmp_path_factory.mktemp("town")
    with city_files[0].open() as file:
        there = [(row["time"], row["lon"], row["lat"]) for row in csv.DictReader(file) if row["time"] == INSTANT]
    people, sites = made / "people.csv", made / "sites.csv"
    people.write_text("time,lon,lat\n" + "".join(",".join(row) + "\n" for row in there))
    rows = [f"s{i},{there[i][1]},{there[i][2]}\n" for i in (3, 40, 60, 90, 140, 200, 230)]
    rows.append("another s40" + rows[1].removeprefix("s40"))
    rows.append(f"outside,{max(float(lon) for _, lon, _ in there) + 0.002},{there[0][2]}\n")
    sites.write_text("name,lon,lat\n" + "".join(rows))
    return people, sites


def load_subjects(url: str, file: Path, dataset: str, *options: str) -> None:
    demand_done(call(url, "load", "trajectories", str(file), "--dataset", dataset, *LON_LAT, *options))


def load_sites(url: str, file: Path, dataset: str) -> None:
    demand_done(call(url, "load", "sites", str(file), "--dataset", dataset, *LON_LAT, "--name", "name"))


def run(url: str, dataset: str, *options: str, k: int = K) -> Done:
    return call(url, "run", "sensitive-sites", "--dataset", dataset, "-p", f"k={k}", "--seed", "7", *options)


@pytest.fixture(scope="module")
def town_template(
    dbanon_server: Target, dbanon_template: str, city_files: tuple[Path, Path], town_files: tuple[Path, Path]
) -> Iterator[str]:
    """Name of a database with people (a row each) and walks (of several fixes), both with sites, and a verified run."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        load_subjects(url, town_files[0], "people", "--subject", "-")
        load_subjects(url, city_files[0], "walks")
        for dataset in ("people", "walks"):
            load_sites(url, town_files[1], dataset)
        demand_done(run(url, "people"))
        yield parse(url)["dbname"]


database = clone_of("town_template")


# ---- the whole way ---------------------------------------------------------------------------------------------------

SOUND = """
SELECT count(*), sum(subjects), count(*) FILTER (WHERE cloaked), min(crowd) FILTER (WHERE cloaked),
    count(*) FILTER (WHERE NOT cloaked AND (crowd <> 1 OR subjects <> 1)),
    count(DISTINCT (valid_from, valid_to)), count(DISTINCT record_id),
    (SELECT count(*) FROM (SELECT region FROM published.v WHERE cloaked GROUP BY region
                           HAVING count(*) <> min(crowd) OR min(crowd) <> max(crowd)) wrong)
FROM published.v
"""


def demand_sound(analyst: psycopg.Connection, people: int, k: int = K) -> None:
    """What an analyst can see for itself: everybody once, crowds of k or more that are as large as they say."""
    rows, subjects, cloaked, smallest, odd, periods, records, wrong = analyst.execute(SOUND).fetchone()
    assert (rows, subjects, records, periods) == (people, people, people, 1)
    assert (odd, wrong) == (0, 0)
    assert k <= smallest <= cloaked < people


RUNS: dict[str, tuple[str, ...]] = {
    "bk": (),
    "bk as in the paper": ("-p", "improve=off"),
    "mk": ("--algorithm", "mk"),
    "bk with guards": ("-p", "guard_m=60", "-p", "guard_inside=on"),
    "mk with guards": ("--algorithm", "mk", "-p", "guard_m=60", "-p", "guard_inside=on"),
}


@pytest.mark.many
@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_people_near_sites_are_verified_published_and_read_by_an_analyst(
    database: str, login: Callable[[str], str], options: tuple[str, ...]
) -> None:
    told = read_json(demand_done(run(database, "people", *options, "--publish", "v", "--json")))
    metrics = told["metrics"]
    assert told["status"] == "verified"
    assert metrics["sites"] == 9
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        demand_sound(analyst, 259)
        cloaked, exact = (
            analyst.execute("SELECT count(*) FROM published.v WHERE cloaked = %s", [c]).fetchone()[0]
            for c in (True, False)
        )
    assert (cloaked, exact) == (metrics["subjects_cloaked"], metrics["subjects_left_exact"])
    assert cloaked >= 9 * K


def test_walks_are_published_as_they_are_at_an_instant(database: str, login: Callable[[str], str]) -> None:
    told = read_json(demand_done(run(database, "walks", "-p", f"at={INSTANT}", "--publish", "v", "--json")))
    absent = told["suppressed"]["subjects"]["absent_at_instant"]
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        demand_sound(analyst, 300 - absent)
        period = analyst.execute("SELECT DISTINCT valid_from, valid_to - valid_from FROM published.v").fetchone()
    assert 0 < absent < 41
    assert (period[0].isoformat(), period[1].total_seconds()) == ("2026-01-05T08:10:00+00:00", 1)


def test_walks_need_an_instant(database: str) -> None:
    demand_refused(run(database, "walks"), 2, "one fix", "'at'")


def test_guards_leave_nobody_exact_near_a_site_or_inside_a_rectangle(database: str) -> None:
    guards = ("-p", "guard_m=60", "-p", "guard_inside=on")
    told = read_json(demand_done(run(database, "people", *guards, "--publish", "v", "--json")))
    assert told["metrics"]["added_by_guards"] > 0
    with psycopg.connect(database) as owner:
        near, inside = owner.execute("""
            SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM dbanon.site s
                       WHERE s.dataset_id = 1 AND ST_Distance(s.geom, ST_Centroid(v.region)) < 58)),
                   count(*) FILTER (WHERE EXISTS (SELECT FROM published.v c
                       WHERE c.cloaked AND ST_Intersects(c.region, ST_Centroid(v.region))))
            FROM published.v WHERE NOT cloaked""").fetchone()
    assert (near, inside) == (0, 0)


def test_subjects_that_are_areas_are_imported_and_left_as_their_bounding_rectangles(
    database: str, town_files: tuple[Path, Path], login: Callable[[str], str]
) -> None:
    with psycopg.connect(database) as owner:
        owner.execute("""
            CREATE TABLE public.areas AS
            SELECT trajectory_id AS who, to_timestamp(ST_M(path)) AS t,
                CASE trajectory_id % 3 WHEN 0 THEN ST_Force2D(path)
                    ELSE ST_Buffer(ST_Force2D(path), 10 * (trajectory_id % 4), 8) END AS area
            FROM dbanon.trajectory WHERE dataset_id = 1 AND trajectory_id % 4 > 0""")
    options = ("--subject", "who", "--time", "t", "--geom", "area")
    demand_done(call(database, "import", "public.areas", "--dataset", "areas", *options))
    load_sites(database, town_files[1], "areas")
    told = read_json(demand_done(run(database, "areas", "--publish", "v", "--json")))
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        demand_sound(analyst, told["metrics"]["subjects"])
        sides = {
            round(side)
            for (side,) in analyst.execute(
                "SELECT ST_XMax(Box3D(region)) - ST_XMin(Box3D(region)) FROM published.v WHERE NOT cloaked"
            )
        }
    # A point is one cell; a circle of 10, 20 or 30 m, by where it lies in the cells of its sides, this many.
    assert 1 in sides
    assert {1, 21, 41, 61} >= {side - side % 2 + 1 for side in sides}
    assert len(sides) > 2


def test_the_order_of_a_release_tells_nothing_and_is_drawn_anew_for_each(database: str) -> None:
    for name in ("once", "twice"):
        demand_done(call(database, "publish", "1", name))
    with psycopg.connect(database) as owner:
        orders = [
            np.array(
                owner.execute(f"""
                    SELECT v.record_id, c.record_id FROM published.{name} v
                    JOIN dbanon.cloak c ON c.run_id = 1 AND c.region = v.region
                    WHERE NOT v.cloaked AND (SELECT count(*) FROM published.{name} o WHERE o.region = v.region) = 1
                    """).fetchall()
            )
            for name in ("once", "twice")
        ]
    for told in orders:
        assert len(told) > 100
        assert abs(np.corrcoef(told.T)[0, 1]) < 0.6
    assert len({tuple(told[np.argsort(told[:, 1]), 0]) for told in orders}) == 2


# The cells of a member, as they would be published; somebody in the smallest rectangle; the rectangles that would miss
# their site if they were drawn around their subjects alone.
CELLS = """(SELECT ST_Reverse(ST_MakeEnvelope(floor(f.x), floor(f.y), floor(f.x) + 1, floor(f.y) + 1, d.srid))
    FROM dbanon.membership m JOIN dbanon.trajectory t USING (trajectory_id) JOIN dbanon.dataset d USING (dataset_id)
    CROSS JOIN LATERAL (SELECT ST_X(t.path) AS x, ST_Y(t.path) AS y) f
    WHERE m.run_id = 1 AND m.record_id = {record})"""
SMALLEST = "(SELECT region FROM dbanon.cloak WHERE run_id = 1 AND crowd > 1 ORDER BY crowd, region LIMIT 1)"
LARGEST = "(SELECT region FROM dbanon.cloak WHERE run_id = 1 ORDER BY crowd DESC, region DESC LIMIT 1)"
FIRST = "(SELECT min(record_id) FROM dbanon.cloak WHERE run_id = 1 AND region = {region})"
ONE_OF_K, ONE_OF_MORE = FIRST.format(region=SMALLEST), FIRST.format(region=LARGEST)
EXACT = "(SELECT min(record_id) FROM dbanon.cloak WHERE run_id = 1 AND crowd = 1)"
CELLS_OF_C = CELLS.format(record="c.record_id")
AROUND_SUBJECTS = f"""(SELECT c.region, ST_Envelope(ST_Collect({CELLS_OF_C})) AS tight
    FROM dbanon.cloak c WHERE c.run_id = 1 AND c.crowd > 1 GROUP BY c.region)"""

# (the change, the clause that names it)
TAMPERINGS: dict[str, tuple[str, str]] = {
    "a site with k - 1 subjects": (
        f"""WITH left_out AS (SELECT {ONE_OF_K} AS record_id, {SMALLEST} AS region)
            UPDATE dbanon.cloak c SET crowd = CASE WHEN c.record_id = o.record_id THEN 1 ELSE c.crowd - 1 END,
                extra = CASE WHEN c.record_id = o.record_id THEN NULL ELSE c.extra END,
                region = CASE WHEN c.record_id = o.record_id THEN {CELLS_OF_C} ELSE c.region END
            FROM left_out o WHERE c.run_id = 1 AND c.region = o.region""",
        "size",
    ),
    "a shared subject": (
        f"""WITH shared AS (
                SELECT clo.record_id, clo.region, clo.period, clo.crowd, clo.extra, mem.trajectory_id,
                    (SELECT max(record_id) + 1 FROM dbanon.cloak WHERE run_id = 1) AS new
                FROM dbanon.cloak clo, dbanon.membership mem
                WHERE clo.run_id = 1 AND clo.record_id = {ONE_OF_K} AND mem.run_id = 1
                    AND mem.record_id = {ONE_OF_MORE}),
            member AS (INSERT INTO dbanon.membership (run_id, record_id, trajectory_id)
                SELECT 1, new, trajectory_id FROM shared),
            instead AS (UPDATE dbanon.cloak clo SET region = {CELLS.format(record="clo.record_id")},
                    crowd = 1, extra = NULL
                FROM shared WHERE clo.run_id = 1 AND clo.record_id = shared.record_id)
            INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects, extra)
            SELECT 1, new, 1, period, region, crowd, 1, extra FROM shared""",
        "members",
    ),
    "a rectangle that misses its site": (
        f"""UPDATE dbanon.cloak c SET region = r.tight FROM {AROUND_SUBJECTS} r
            WHERE c.run_id = 1 AND c.region = r.region AND EXISTS (
                SELECT FROM dbanon.site s WHERE s.name = 'outside' AND ST_Intersects(s.geom, r.region))""",
        "own-rectangle",
    ),
    "a member's exact location beside its cloak": (
        f"""WITH shown AS (INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects)
                SELECT 1, (SELECT max(record_id) + 1 FROM dbanon.cloak WHERE run_id = 1), 1, c.period,
                    {CELLS_OF_C}, 1, 1
                FROM dbanon.cloak c WHERE c.run_id = 1 AND c.record_id = {ONE_OF_K} RETURNING record_id)
            INSERT INTO dbanon.membership (run_id, record_id, trajectory_id)
            SELECT 1, shown.record_id, m.trajectory_id
            FROM shown, dbanon.membership m WHERE m.run_id = 1 AND m.record_id = {ONE_OF_K}""",
        "members",
    ),
    "a member's exact location beside its cloak, of nobody": (
        f"""INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects)
            SELECT 1, (SELECT max(record_id) + 1 FROM dbanon.cloak WHERE run_id = 1), 1, c.period, {CELLS_OF_C}, 1, 1
            FROM dbanon.cloak c WHERE c.run_id = 1 AND c.record_id = {ONE_OF_K}""",
        "members",
    ),
    "a subject on a site left exact": (
        f"""UPDATE dbanon.cloak c SET region = {CELLS_OF_C}, crowd = 1, extra = NULL
            FROM dbanon.membership m JOIN dbanon.trajectory t USING (trajectory_id), dbanon.site s
            WHERE c.run_id = 1 AND m.run_id = 1 AND m.record_id = c.record_id AND s.dataset_id = t.dataset_id
                AND s.name = 's90' AND ST_Distance(s.geom, t.path) < 0.01""",
        "nearest",
    ),
    "a rectangle with a member a cell outside": (
        f"""UPDATE dbanon.cloak SET region = ST_Reverse(ST_MakeEnvelope(
                ST_XMin(region) + 1, ST_YMin(region), ST_XMax(region), ST_YMax(region), ST_SRID(region)))
            WHERE run_id = 1 AND region = {SMALLEST}""",
        "covers",
    ),
    "one of k in a region a cell larger": (
        f"""UPDATE dbanon.cloak SET region = ST_Reverse(ST_Envelope(ST_Expand(region, 1)))
            WHERE run_id = 1 AND record_id = {ONE_OF_K}""",
        "size",
    ),
    "one of k at another time": (
        f"""UPDATE dbanon.cloak SET period = tstzrange(lower(period), upper(period) + interval '1 second')
            WHERE run_id = 1 AND record_id = {ONE_OF_K}""",
        "period",
    ),
    "an exact place moved by a cell": (
        f"UPDATE dbanon.cloak SET region = ST_Translate(region, 1, 0) WHERE run_id = 1 AND record_id = {EXACT}",
        "exact",
    ),
    "an exact place said to be cloaked": (
        f"""UPDATE dbanon.cloak SET extra = '{{"cloaked": true}}' WHERE run_id = 1 AND record_id = {EXACT}""",
        "size",
    ),
    "a crowd overstated": (
        f"UPDATE dbanon.cloak SET crowd = crowd + 1 WHERE run_id = 1 AND region = {SMALLEST}",
        "crowd",
    ),
    "a row that stands for two": (
        f"UPDATE dbanon.cloak SET subjects = 2 WHERE run_id = 1 AND record_id = {ONE_OF_K}",
        "crowd",
    ),
    "a subject removed": (
        f"""WITH gone AS (DELETE FROM dbanon.cloak WHERE run_id = 1 AND record_id = {EXACT})
            DELETE FROM dbanon.membership WHERE run_id = 1 AND record_id = {EXACT}""",
        "complete",
    ),
    "a column of somebody's own": (
        f"""UPDATE dbanon.cloak SET extra = '{{"clinic": true}}' WHERE run_id = 1 AND record_id = {EXACT}""",
        "columns",
    ),
    "a region that is no rectangle": (
        f"UPDATE dbanon.cloak SET region = ST_Buffer(region, 1) WHERE run_id = 1 AND record_id = {EXACT}",
        "region",
    ),
    "a guard promised after the run": (
        """UPDATE dbanon.run SET params = params || '{"guard_m": 300}' WHERE run_id = 1""",
        "guards",
    ),
    "k raised above what was computed": (
        """UPDATE dbanon.run SET params = params || '{"k": 6}' WHERE run_id = 1""",
        "size",
    ),
    "somebody counted as absent": (
        """UPDATE dbanon.run SET suppressed = '{"subjects": {"absent_at_instant": 1}}' WHERE run_id = 1""",
        "left-out",
    ),
    "a subject who moved after the run": (
        f"""UPDATE dbanon.trajectory SET path = ST_Translate(path, 5000, 0) WHERE trajectory_id =
            (SELECT trajectory_id FROM dbanon.membership WHERE run_id = 1 AND record_id = {ONE_OF_K})""",
        "covers",
    ),
    "one of k marked by the order of corners": (
        f"UPDATE dbanon.cloak SET region = ST_Reverse(region) WHERE run_id = 1 AND record_id = {ONE_OF_K}",
        "region",
    ),
    "somebody exact marked by the order of corners": (
        f"UPDATE dbanon.cloak SET region = ST_Reverse(region) WHERE run_id = 1 AND record_id = {EXACT}",
        "region",
    ),
    "one of k marked by the last bits of a side": (
        f"""UPDATE dbanon.cloak SET region = ST_Reverse(ST_MakeEnvelope(ST_XMin(region) - 1e-7, ST_YMin(region),
                ST_XMax(region), ST_YMax(region), ST_SRID(region))) WHERE run_id = 1 AND record_id = {ONE_OF_K}""",
        "region",
    ),
    "a site that moved after the run": (
        "UPDATE dbanon.site SET geom = ST_Translate(geom, 5000, 0) WHERE dataset_id = 1 AND name = 'outside'",
        "own-rectangle",
    ),
}


@pytest.mark.many
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_refused_by_publish_and_named_by_verify(database: str, tampering: str) -> None:
    statement, clause = TAMPERINGS[tampering]
    with psycopg.connect(database) as owner:
        assert owner.execute(statement).rowcount > 0

    demand_refused(call(database, "publish", "1", "tampered"), 5, "run 1", "changed")
    verified = call(database, "verify", "1")
    assert verified.code == 5
    assert clause in re.findall(r"\[([a-z-]+)\]", verified.sentence)
    assert call(database, "publish", "1", "tampered").code == 5
    with psycopg.connect(database) as owner:
        assert owner.execute("SELECT count(*) FROM dbanon.release").fetchone() == (0,)


def test_a_site_added_after_the_verification_makes_publish_refuse(
    database: str, town_files: tuple[Path, Path], tmp_path: Path
) -> None:
    more = tmp_path / "more.csv"
    with town_files[0].open() as file:
        there = list(csv.DictReader(file))[120]
    more.write_text(f"name,lon,lat\nlate,{there['lon']},{there['lat']}\n")
    load_sites(database, more, "people")

    demand_refused(call(database, "publish", "1", "v"), 5, "run 1", "changed")
    demand_refused(call(database, "verify", "1"), 5, "[own-rectangle]", "dataset has changed")
    demand_done(run(database, "people", "--publish", "v"))


# ---- bad input -------------------------------------------------------------------------------------------------------

INFEASIBLE = {
    "bk": ("bk", 29, ("bk", "k = 29", "9 sites", 261, 259)),
    "mk": ("mk", 27, ("mk", "k = 27", "9 sites", "8 of 259 people")),
}


@pytest.mark.many
@pytest.mark.parametrize("case", INFEASIBLE)
def test_too_few_subjects_are_one_sentence_and_exit_code_4(database: str, case: str) -> None:
    algorithm, k, facts = INFEASIBLE[case]
    ended = run(database, "people", "--algorithm", algorithm, k=k)
    demand_refused(ended, 4, *facts)
    with psycopg.connect(database) as owner:
        assert owner.execute("SELECT status, error FROM dbanon.run WHERE run_id = 2").fetchone() == (
            "failed",
            ended.sentence,
        )


def test_as_many_subjects_as_needed_are_enough_and_mk_does_with_fewer_than_2k_minus_1_a_site(database: str) -> None:
    for algorithm, k in (("bk", 28), ("mk", 20)):
        told = read_json(demand_done(run(database, "people", "--algorithm", algorithm, "--json", k=k)))
        assert told["status"] == "verified"
        assert told["metrics"]["subjects"] < 9 * (2 * k - 1)


def test_no_site_is_bad_data(database: str, town_files: tuple[Path, Path]) -> None:
    load_subjects(database, town_files[0], "siteless", "--subject", "-")
    demand_refused(run(database, "siteless"), 3, "sensitive sites", "no sites")


BAD = {
    "k of one": (("-p", "k=1"), ("'k'", ">= 2", 1)),
    "a guard below nothing": (
        ("-p", "guard_m=-1"),
        ("'guard_m'", ">= 0", -1),
    ),
    "half a switch": (("-p", "guard_inside=perhaps"), ("'guard_inside'", "on or off", "'perhaps'")),
    "an instant in words": (("-p", "at=noon"), ("'at'", "ISO 8601", "'noon'")),
    "another algorithm": (
        ("--algorithm", "kk"),
        ("'kk'", "'bk', 'mk'"),
    ),
}


@pytest.mark.many
@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_one_sentence_and_exit_code_2(database: str, case: str) -> None:
    options, facts = BAD[case]
    demand_refused(call(database, "run", "sensitive-sites", "--dataset", "people", *options), 2, *facts)


# Subjects and sites in metres; what looks bad and is none.
ODD: dict[str, tuple[list[tuple[float, float]], list[tuple[float, float]]]] = {
    "all on a line": ([(10.0 * i, 0) for i in range(60)], [(55, 0), (300, 0), (301, 0)]),
    "all on a line across": ([(0, 10.0 * i) for i in range(60)], [(0, 55), (0, 300), (7, 301)]),
    "all at one point": ([(3, 4)] * 60, [(3, 4), (30, 40)]),
    "sites at one point": ([(10.0 * (i % 8), 10.0 * (i // 8)) for i in range(60)], [(20, 20)] * 3 + [(50, 50)]),
    "subjects and sites at one point": ([(3, 4)] * 60, [(3, 4)] * 4),
    "a far site": ([(10.0 * (i % 8), 10.0 * (i // 8)) for i in range(60)], [(20, 20), (90_000, 90_000)]),
}


@pytest.mark.many
@pytest.mark.parametrize("algorithm", ["bk", "mk"])
@pytest.mark.parametrize("case", ODD)
def test_odd_places_are_published_and_safe(
    database: str, tmp_path: Path, login: Callable[[str], str], case: str, algorithm: str
) -> None:
    subjects, sites = ODD[case]
    people, clinics = tmp_path / "people.csv", tmp_path / "clinics.csv"
    people.write_text("x,y,time\n" + "".join(f"{500_000 + x},{5_000_000 + y},1212566400\n" for x, y in subjects))
    rows = "".join(f"{500_000 + x},{5_000_000 + y},{i}\n" for i, (x, y) in enumerate(sites))
    clinics.write_text("x,y,name\n" + rows)
    metres = ("--dataset", "odd", "--crs", "EPSG:32632")
    demand_done(call(database, "load", "trajectories", str(people), *metres, "--subject", "-", "--srid", "32632"))
    demand_done(call(database, "load", "sites", str(clinics), *metres, "--name", "name"))
    demand_done(run(database, "odd", "--algorithm", algorithm, "--publish", "v"))
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        rows, cloaked, smallest = analyst.execute(
            "SELECT count(*), count(*) FILTER (WHERE cloaked), min(crowd) FILTER (WHERE cloaked) FROM published.v"
        ).fetchone()
    assert rows == 60
    assert cloaked >= K * len(sites)
    assert smallest >= K


def test_a_site_loaded_twice_is_one_site(database: str, town_files: tuple[Path, Path]) -> None:
    with psycopg.connect(database) as owner:
        before = owner.execute("SELECT count(*) FROM dbanon.site").fetchone()
    again = call(database, "load", "sites", str(town_files[1]), "--dataset", "people", *LON_LAT, "--name", "name")
    demand_refused(again, 3, "9 duplicate-site")
    with psycopg.connect(database) as owner:
        assert owner.execute("SELECT count(*) FROM dbanon.site").fetchone() == before
