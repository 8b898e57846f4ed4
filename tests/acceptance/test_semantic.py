"""Visits to cells, the whole way as typed: merged, attacked, published, read by an analyst; and what is refused."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database
from tests.acceptance.commands import Done, call, demand_done, read_json
from tests.clones import clone_of
from tests.facts import demand_refused
from tests.hints import tries

pytestmark = [pytest.mark.db, pytest.mark.usefixtures("short_search")]

TOWN = ("--objects", "40", "--instants", "40", "--requests-per-subject", "0", "--pois", "3000", "--stations", "80")
STRICT = ("-p", "l=6", "-p", "t=0.05")
START_S = 1_767_600_000


def run(url: str, *options: str, dataset: str = "town") -> Done:
    return call(url, "run", "semantic", "--dataset", dataset, "--seed", "7", *options)


@pytest.fixture(scope="module")
def town_template(dbanon_server: Target, dbanon_template: str) -> Iterator[str]:
    """Name of a database with a generated town, and verified runs: with l and t, and k alone."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        demand_done(call(url, "synth", "--dataset", "town", *TOWN))
        demand_done(run(url, *STRICT))
        demand_done(run(url, "-p", "l=0", "-p", "t=inf"))
        yield parse(url)["dbname"]


database = clone_of("town_template")


# ---- its page --------------------------------------------------------------------------------------------------------


def test_a_page_has_a_map_of_the_atoms_which_are_public(database: str, tmp_path: Path) -> None:
    demand_done(call(database, "publish", "1", "town_hour"))
    for audience in ("analysts", "file"):
        demand_done(call(database, "report", "town_hour", "--for", audience, "-o", str(tmp_path / "page.html")))
        html = (tmp_path / "page.html").read_text()
        [path] = re.findall(r'<path d="([^"]*)" class="line-published"/>', html)
        assert path.count("M") >= 5
        assert len(html) < 300_000


# ---- published and read ----------------------------------------------------------------------------------------------


def test_visits_are_published_and_read_by_an_analyst(database: str, login: Callable[[str], str]) -> None:
    demand_done(call(database, "publish", "1", "town_hour"))
    with psycopg.connect(login("dbanon_analyst")) as analyst:
        rows = analyst.execute(
            "SELECT record_id, seq, tstzrange(valid_from, valid_to), ST_AsText(region), crowd, subjects, categories,"
            " ST_IsValid(region), GeometryType(region) FROM published.town_hour ORDER BY record_id, seq"
        ).fetchall()
    records: dict[int, list[tuple[object, ...]]] = {}
    for record, *row in rows:
        records.setdefault(record, []).append(tuple(row))
    alike = [json.dumps(rows, default=str) for rows in records.values()]
    assert len(records) == 40
    assert min(alike.count(one) for one in alike) >= 2
    assert {(subjects, valid, kind) for *_, subjects, _, valid, kind in rows} == {(1, True, "MULTIPOLYGON")}
    assert min(row[6] for row in rows) >= 6
    assert all(one[2].upper <= other[2].lower for one, other in pairwise(rows) if one[0] == other[0])


def test_regions_with_l_and_t_reveal_nothing_that_k_alone_reveals(database: str) -> None:
    with psycopg.connect(database) as owner:
        strict, alone = (
            owner.execute(
                "SELECT r.metrics || v.figures FROM dbanon.run r JOIN dbanon.verification v USING (run_id)"
                " WHERE run_id = %s",
                [n],
            ).fetchone()[0]
            for n in (1, 2)
        )
        city, rows = owner.execute("""
            WITH city AS (SELECT sum(p.pois) AS pois FROM dbanon_internal.count_cell_pois(1) p)
            SELECT city.pois, count(*) FROM city, dbanon.region r
            JOIN LATERAL (SELECT count(*) AS pois FROM dbanon.poi p WHERE ST_Covers(r.region, p.geom)) h ON h.pois > 0
            WHERE r.run_id = 1 GROUP BY 1""").fetchone()
    assert strict["raw_fixes_revealing_percent"] > 50 > strict["revealing_percent"] == 0
    assert strict["kl_median"] < alone["kl_median"]
    assert (strict["replayed_percent"], alone["replayed_percent"]) == (0, 100)
    assert rows > 20
    assert city > 2000


def test_it_stands_alone(database: str) -> None:
    demand_done(call(database, "publish", "1", "town_hour"))
    demand_refused(call(database, "publish", "2", "town_alone"), 5, "stands alone", "run 2", "town_hour")


# ---- tampering -------------------------------------------------------------------------------------------------------

# What a reader would profit from, and the clause it breaks.
TAMPERINGS = {
    "a region short of categories": (
        """UPDATE dbanon.region r SET region = ST_Multi(c.geom), cells = ARRAY[c.cell_id],
               extra = jsonb_build_object('categories', c.categories)
           FROM (SELECT r.region_no, c.cell_id, c.geom, count(DISTINCT p.category) AS categories
                 FROM dbanon.region r JOIN dbanon.cell c ON c.cell_id = ANY (r.cells)
                 LEFT JOIN dbanon.poi p ON ST_Covers(c.geom, p.geom)
                 WHERE r.run_id = 1 GROUP BY 1, 2, 3 ORDER BY categories, 1, 2 LIMIT 1) c
           WHERE r.run_id = 1 AND r.region_no = c.region_no""",
        "diversity",
    ),
    "a cell less": (
        """UPDATE dbanon.region r SET region = ST_Multi(ST_Difference(r.region, c.geom))
           FROM dbanon.cell c WHERE r.run_id = 1 AND r.region_no = 1 AND c.cell_id = r.cells[1]""",
        "classes",
    ),
    "a group of one": (
        "DELETE FROM dbanon.membership WHERE run_id = 1 AND record_id = 1 AND trajectory_id IN ("
        "SELECT min(trajectory_id) FROM dbanon.membership WHERE run_id = 1 AND record_id = 1)",
        "members",
    ),
    "groups of one fewer than k": (
        "UPDATE dbanon.run SET params = jsonb_set(params, '{k}', to_jsonb("
        "(SELECT min(crowd) + 1 FROM dbanon.region WHERE run_id = 1)))",
        "size",
    ),
    "a crowd too large": ("UPDATE dbanon.region SET crowd = crowd + 1 WHERE run_id = 1 AND region_no = 1", "crowd"),
    "a fix outside": (
        """UPDATE dbanon.trajectory t SET path = ST_Translate(t.path, 300, 0)
           FROM dbanon.membership m WHERE m.run_id = 1 AND m.record_id = 1 AND m.trajectory_id = t.trajectory_id""",
        "covers",
    ),
    "points of interest gone": (
        "DELETE FROM dbanon.poi p USING dbanon.region r WHERE r.run_id = 1 AND r.region_no = 1"
        " AND ST_Covers(r.region, p.geom) AND p.category <> 'bank'",
        "diversity",
    ),
    "points of interest of one kind": (
        "UPDATE dbanon.poi SET category = 'bank' WHERE poi_id % 2 = 0 AND category <> 'clinic' AND ST_X(geom) > ("
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ST_X(geom)) FROM dbanon.poi)",
        "closeness",
    ),
    "a reason": (
        """UPDATE dbanon.run SET suppressed = jsonb_set(suppressed, '{fixes,coarse}', '3') WHERE run_id = 1""",
        "left-out",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "clause"), TAMPERINGS.values(), ids=TAMPERINGS)
def test_a_tampered_run_is_refused(database: str, change: str, clause: str) -> None:
    with psycopg.connect(database, autocommit=True) as administrator:
        administrator.execute("SET search_path = pg_catalog, public")
        assert administrator.execute(change).rowcount > 0
    demand_refused(call(database, "publish", "1", "town_hour"), 5, "changed")
    told = call(database, "verify", "1")
    assert told.code == 5
    assert re.search(rf"^{clause} +BROKEN", told.stdout, re.MULTILINE), told.stdout


# ---- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        (("-p", "l=40"), 4, ("l = 40", "9")),
        (("-p", "k=41"), 4, ("k = 41", "40")),
        (("-p", "t=-1"), 2, ("t", ">= 0", "inf", "-1")),
        (("-p", "min_cells=500"), 4, ("k = 2", "500", "min_cells")),
        (("-p", "suppress_span_s=1", "-p", "suppress_area_km2=0"), 4, ("suppress_span_s", "suppress_area_km2")),
        (("-p", "weight_time=2"), 2, ("weight_time", "<= 1")),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_cannot_be_is_one_sentence(
    database: str, options: tuple[str, ...], code: int, facts: tuple[str, ...]
) -> None:
    demand_refused(run(database, *options), code, *facts)


SQUARE = "POLYGON(({0} {1}, {2} {1}, {2} {3}, {0} {3}, {0} {1}))"


def format_square(x: float, y: float, side: float = 100) -> str:
    return SQUARE.format(x, y, x + side, y + side)


@pytest.mark.parametrize(
    ("cells", "code", "facts"),
    [
        ([], 3, ("cells", "load")),
        ([format_square(0, 0), format_square(300, 0)], 4, ("2 separate parts",)),
        ([format_square(0, 0), format_square(50, 0)], 3, ("overlap", "5000 m2")),
    ],
    ids=["none", "in pieces", "overlapping"],
)
def test_cells_that_cannot_be_used_are_one_sentence(
    dbanon_database: str, tmp_path: Path, cells: list[str], code: int, facts: tuple[str, ...]
) -> None:
    file = tmp_path / "few.csv"
    file.write_text("subject,time,x,y\n" + "".join(f"p{i % 4},{START_S + 60 * i},{10 + i},10\n" for i in range(12)))
    metric = ("--crs", "EPSG:32632", "--srid", "32632")
    demand_done(call(dbanon_database, "load", "trajectories", str(file), "--dataset", "few", *metric))
    with psycopg.connect(dbanon_database, autocommit=True) as owner:
        for cell in cells:
            owner.execute(
                "INSERT INTO dbanon.cell (dataset_id, geom) SELECT dataset_id, ST_GeomFromText(%s, 32632)"
                " FROM dbanon.dataset WHERE name = 'few'", [cell],
            )  # fmt: skip
        owner.execute(
            "INSERT INTO dbanon.poi (dataset_id, category, geom) SELECT dataset_id, 'shop', ST_Point(n, 50, 32632)"
            " FROM dbanon.dataset, unnest(ARRAY[20, 70, 120]) n WHERE name = 'few'"
        )
    demand_refused(run(dbanon_database, "-p", "l=1", "-p", "t=inf", dataset="few"), code, *facts)


@pytest.fixture
def street(dbanon_database: str, tmp_path: Path) -> str:
    """A database with the dataset street: two days of four people in three cells, and at last outside them."""
    lines = [
        f"p{person},{START_S + 86_400 * day + 600 * step},{50 + 100 * (step % 3) + 900 * (step == 5)},50"
        for person in range(4) for day in range(2) for step in range(6)
    ]  # fmt: skip
    (tmp_path / "days.csv").write_text("subject,time,x,y\n" + "\n".join(lines) + "\n")
    (tmp_path / "cells.csv").write_text("geom\n" + "".join(f'"{format_square(x, 0)}"\n' for x in (0, 100, 200)))
    metric = ("--dataset", "street", "--crs", "EPSG:32632")
    days = ("--srid", "32632", "--subject-per-day", "--tz", "UTC")
    demand_done(call(dbanon_database, "load", "trajectories", str(tmp_path / "days.csv"), *metric, *days))
    demand_done(call(dbanon_database, "load", "cells", str(tmp_path / "cells.csv"), *metric, "--geom", "geom"))
    return dbanon_database


def load_pois(url: str, file: Path, pois: dict[int, str]) -> None:
    file.write_text("x,y,category\n" + "".join(f"{x},50,{category}\n" for x, category in pois.items()))
    options = ("--dataset", "street", "--crs", "EPSG:32632", "--category", "category", "--replace")
    demand_done(call(url, "load", "pois", str(file), *options))


def test_where_no_point_of_interest_is_near_regions_reach_for_one(street: str, tmp_path: Path) -> None:
    load_pois(street, tmp_path / "pois.csv", {230: "shop", 260: "shop", 950: "farm"})
    demand_done(run(street, "-p", "l=1", "-p", "t=0", dataset="street"))
    with psycopg.connect(street) as owner:
        reached = owner.execute(
            "SELECT DISTINCT ST_Covers(region, ST_Point(230, 50, 32632)) FROM dbanon.region"
        ).fetchall()
    assert reached == [(True,)]


def test_a_category_that_is_in_no_cell_does_not_count(street: str, tmp_path: Path) -> None:
    load_pois(street, tmp_path / "pois.csv", {50: "shop", 950: "farm"})
    demand_refused(run(street, "-p", "l=2", "-p", "t=inf", dataset="street"), 4, "l = 2", "1")
    load_pois(street, tmp_path / "pois.csv", {950: "farm"})
    demand_refused(
        run(street, "-p", "l=1", "-p", "t=inf", dataset="street"), 3, "points of interest", "dbanon load pois"
    )


@tries("A run of semantic must have cells", "must have points of interest in its cells")
def test_cells_and_points_of_interest_are_loaded_as_proposed(street: str, tmp_path: Path) -> None:
    with psycopg.connect(street, autocommit=True) as owner:
        owner.execute("DELETE FROM dbanon.cell")
    asked = ("-p", "l=1", "-p", "t=inf")
    metric = ("--dataset", "street", "--crs", "EPSG:32632")
    (tmp_path / "stations.csv").write_text("x,y\n50,50\n150,50\n250,50\n")
    (tmp_path / "pois.csv").write_text("x,y,category\n50,50,shop\n150,50,shop\n250,50,shop\n")
    [cells] = re.findall(r"`dbanon ([^`]*)`", run(street, *asked, dataset="street").sentence)
    demand_done(call(street, "load", "stations", str(tmp_path / "stations.csv"), *metric))
    demand_done(call(street, *cells.split(), str(tmp_path / "cells.csv"), *metric, "--geom", "geom", "--replace"))
    [pois] = re.findall(r"`dbanon ([^`]*)`", run(street, *asked, dataset="street").sentence)
    demand_done(call(street, *pois.split(), str(tmp_path / "pois.csv"), *metric, "--category", "category"))
    demand_done(run(street, *asked, dataset="street"))


def test_records_of_few_cells_are_counted(street: str, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(f"subject,time,x,y\np8,{START_S},50,50\np9,{START_S},50,50\n")
    load_pois(street, tmp_path / "pois.csv", {50: "shop", 150: "shop", 250: "shop"})
    metric = ("--dataset", "street", "--crs", "EPSG:32632", "--append", "--subject-per-day", "--tz", "UTC")
    demand_done(call(street, "load", "trajectories", str(tmp_path / "more.csv"), *metric))
    told = read_json(
        demand_done(run(street, "-p", "l=1", "-p", "t=inf", "-p", "min_cells=3", "--json", dataset="street"))
    )
    assert told["suppressed"]["fixes"] == {"outside": 8, "few_cells": 2, "coarse": 0}
    assert told["suppressed"]["subjects"] == {"outside": 0, "few_cells": 2, "coarse": 0}


def test_fixes_outside_every_cell_are_counted_and_days_are_records_of_their_own(street: str, tmp_path: Path) -> None:
    load_pois(street, tmp_path / "pois.csv", {50: "shop", 150: "shop", 250: "shop"})
    told = read_json(demand_done(run(street, "-p", "l=1", "-p", "t=inf", "--json", dataset="street")))
    figures = told["verification"]["attacks"][0]["figures"]
    assert (figures["subjects"], figures["records"], figures["groups"]) == (4, 8, 4)
    assert told["suppressed"]["fixes"] == {"outside": 8, "few_cells": 0, "coarse": 0}
    assert told["suppressed"]["subjects"] == {"outside": 0, "few_cells": 0, "coarse": 0}
