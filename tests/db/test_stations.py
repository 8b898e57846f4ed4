"""Base stations become cells: they tile an area, each holds its station; cells as given are measured for faults."""

import numpy as np
import pytest

from dbanon.base.errors import DataError, ParameterError
from tests.importing import catch_refusal, list_left_out, list_quarantined, make_table, settle

STATIONS = "SELECT * FROM dbanon.import_stations('public.towers', dataset => 'town', crs => 'EPSG:32632'"
CELLS = "SELECT * FROM dbanon.import_cells('public.areas', dataset => 'town', crs => 'EPSG:32632'"
AREA = "area => ST_MakeEnvelope(441000, 5879000, 451000, 5889000, 32632)"
HOLED = (
    "area => ST_Difference(ST_MakeEnvelope(441000, 5879000, 451000, 5889000, 32632), "
    "ST_Buffer(ST_SetSRID(ST_MakePoint(446000, 5884000), 32632), 2000))"
)


@pytest.fixture
def town(connection):
    return settle(connection)


@pytest.fixture
def notices(connection):
    heard: list[str] = []
    connection.add_notice_handler(lambda said: heard.append(f"{said.sqlstate} {said.message_primary}"))
    return heard


def make_towers(connection, places):
    rows = [(f"t{i}", f"POINT({float(x)!r} {float(y)!r})") for i, (x, y) in enumerate(places)]
    make_table(connection, "towers", "name text, geom geometry", rows)


def import_towers(connection, more=""):
    """Import the towers, and return rows read, rows kept, and what was left out."""
    found = connection.execute(f"{STATIONS}, name => 'name'{more})").fetchall()
    assert len(found) == 1
    return found[0][1:]


def check_cells(connection):
    """Hold cells against what they must be, and return their number and area."""
    (n, area, united, faulty, apart, overlaps) = connection.execute(
        "SELECT count(*), sum(ST_Area(c.geom)), ST_Area(ST_Union(c.geom)), "
        "       count(*) FILTER (WHERE NOT ST_IsValid(c.geom) OR ST_Area(c.geom) < 1e-7 OR ST_SRID(c.geom) <> 32632), "
        "       count(*) FILTER (WHERE ST_Distance(c.geom, ST_SetSRID(t.geom, 32632)) > 0.001), "
        "       (SELECT count(*) FROM dbanon.cell a JOIN dbanon.cell b ON a.cell_id < b.cell_id AND a.geom && b.geom "
        "        WHERE ST_Area(ST_Intersection(a.geom, b.geom)) > 1e-6) "
        "FROM dbanon.cell c JOIN public.towers t USING (name)"
    ).fetchone()
    assert (faulty, overlaps) == (0, 0)
    assert area == pytest.approx(united, rel=1e-12)
    return n, area, apart


LAYOUTS = {
    "one": [(446000, 5884000)],
    "two": [(446000, 5884000), (446500, 5884100)],
    "in a row": [(441500 + 700 * i, 5879500 + 700 * i) for i in range(13)],
    "in a row of the map": [(441500 + 700 * i, 5884000) for i in range(13)],
    "on a grid": [(441500 + 1000 * i, 5879500 + 1000 * j) for i in range(9) for j in range(9)],
    "in a circle": [(446000 + 3000 * np.cos(a), 5884000 + 3000 * np.sin(a)) for a in np.arange(0, 6.28, 0.1)],
    "close together": [(446000 + i * 0.002, 5884000 + i % 3 * 0.002) for i in range(30)],
}


@pytest.mark.many
@pytest.mark.parametrize("layout", [*LAYOUTS, "anywhere"])
@pytest.mark.parametrize("area", ["", AREA, HOLED])
def test_cells_tile_the_area_and_hold_their_stations(town, rng, layout, area):
    places = LAYOUTS.get(layout) or rng.uniform((441000, 5879000), (451000, 5889000), (300, 2))
    make_towers(town, places)
    read, kept, left = import_towers(town, f", {area}" if area else "")
    assert read == len(places)
    assert read == kept + sum(left.values())
    n, covered, apart = check_cells(town)
    assert n == kept
    if area != HOLED:  # a station in the hole serves what lies around it
        assert (left, apart) == ({}, 0)
    if area:
        (wanted,) = town.execute(f"SELECT ST_Area({area.removeprefix('area => ')})").fetchone()
        assert covered == pytest.approx(wanted, rel=1e-8)  # borders are drawn on a grid of a tenth of a millimetre


def test_every_place_belongs_to_the_nearest_station(town, rng):
    make_towers(town, rng.uniform((441000, 5879000), (451000, 5889000), (200, 2)))
    import_towers(town, f", {AREA}")
    wrong = town.execute(
        "SELECT count(*) FROM generate_series(1, 2000) i "
        "CROSS JOIN LATERAL ST_SetSRID(ST_MakePoint(441000 + i * 37.1 % 10000, 5879000 + i * 91.7 % 10000), 32632) p "
        "JOIN dbanon.cell c ON ST_Intersects(c.geom, p) JOIN public.towers t USING (name) "
        "WHERE ST_Distance(p, ST_SetSRID(t.geom, 32632)) "
        "      > (SELECT min(ST_Distance(p, ST_SetSRID(o.geom, 32632))) FROM public.towers o) + 0.01"
    ).fetchone()
    assert wrong == (0,)


def test_stations_on_one_mast_share_a_cell_and_are_counted(town, notices):
    make_towers(town, [(446000, 5884000), (446000.0002, 5884000), (447000, 5884000), (446000, 5884000)])
    assert import_towers(town) == (4, 2, {"duplicate-station": 2})
    assert list_left_out(town) == [(2, "duplicate-station"), (4, "duplicate-station")]
    assert any("share its cell: 2" in said for said in notices)


def test_stations_too_far_from_the_area_have_no_cell(town, notices):
    make_towers(town, [(446000, 5884000), (447000, 5884000), (546000, 5884000)])
    assert import_towers(town, f", {AREA}") == (3, 2, {"outside-area": 1})
    assert any(said.startswith("DA018") and "have no cell: 1" in said for said in notices)


WILD = [(446000, 5884000), (447000, 5884000), (446000, -5884000), (900000, 1100000)]


def test_stations_far_from_the_trajectories_are_counted_or_left_out_as_sites_are(town, notices):
    make_towers(town, WILD)
    assert import_towers(town) == (4, 4, {})
    (said,) = (said for said in notices if "far outside" in said)
    assert said.startswith("DA018 2 stations lie")
    assert "drop_outliers" in said
    notices.clear()
    assert import_towers(town, ", replace => true, drop_outliers => true") == (4, 2, {"far-position": 2})
    assert not any("far outside" in said for said in notices)
    (reach,) = town.execute("SELECT sqrt(ST_Area(ST_Envelope(ST_Collect(geom)))) FROM dbanon.cell").fetchone()
    assert reach < 5000


def test_cells_and_points_of_interest_far_from_the_trajectories_are_counted_or_left_out(town, notices):
    make_table(
        town,
        "areas",
        "name text, geom geometry",
        [("far", _format_square(900000, 1100000, 1000)), ("near", _format_square(446000, 5884000, 1000))],
    )
    pois = CELLS.replace("import_cells(", "import_pois(").replace("crs =>", "category => 'name', crs =>")
    for statement, kind in ((CELLS, "1 cell lies"), (pois, "1 point of interest lies")):
        town.execute(f"{statement})")
        assert sum(kind in said and "far outside" in said for said in notices) == 1
        rows = town.execute(f"{statement}, replace => true, drop_outliers => true)").fetchall()
        assert rows[0][1:] == (2, 1, {"far-position": 1})


def test_fixes_outside_the_cells_are_counted(town, notices):
    make_towers(town, [(441000 + i * 37 % 10000, 5879000 + i * 91 % 10000) for i in (1, 2, 3)])
    import_towers(town)
    (outside,) = town.execute(
        "SELECT count(*) FROM dbanon.fix f "
        "WHERE NOT EXISTS (SELECT FROM dbanon.cell c WHERE ST_Intersects(c.geom, f.position))"
    ).fetchone()
    assert outside > 300
    assert any(f"in no cell: {outside}" in said for said in notices)


def test_stations_are_refused_where_there_are_cells_unless_these_are_replaced(town):
    make_towers(town, [(446000, 5884000), (447000, 5884000)])
    import_towers(town)
    error = catch_refusal(town, STATIONS)
    assert isinstance(error, ParameterError)
    assert "2 cells" in str(error)
    assert import_towers(town, ", replace => true") == (2, 2, {})
    assert town.execute("SELECT count(*) FROM dbanon.cell").fetchone() == (2,)


@pytest.mark.many
@pytest.mark.parametrize(
    "area",
    [
        "ST_GeomFromText('POLYGON((0 0, 1 1, 1 0, 0 1, 0 0))', 32632)",
        "ST_GeomFromText('POLYGON EMPTY', 32632)",
        "ST_GeomFromText('POINT(446000 5884000)', 32632)",
        "ST_GeomFromText('LINESTRING(446000 5884000, 446001 5884000)', 32632)",
        "ST_GeomFromText('POLYGON((446000 5884000, 447000 5884000, 446000 NaN, 446000 5884000))', 32632)",
        "ST_MakeEnvelope(0, 0, 1, 1, 32632)",
    ],
)
def test_areas_that_cannot_be_divided_are_refused(town, area):
    make_towers(town, [(446000, 5884000)])
    assert isinstance(catch_refusal(town, STATIONS, f", area => {area}"), DataError)
    assert town.execute("SELECT count(*) FROM dbanon.cell").fetchone() == (0,)


def test_an_area_without_a_reference_system_is_in_that_of_the_stations(town):
    make_towers(town, [(446000, 5884000)])
    assert import_towers(town, ", area => ST_MakeEnvelope(445000, 5883000, 447000, 5885000)")[1] == 1
    assert town.execute("SELECT ST_Area(geom) FROM dbanon.cell").fetchone()[0] == pytest.approx(4e6)


def test_a_station_is_a_point(town):
    make_table(
        town,
        "towers",
        "name text, geom geometry",
        [
            ("a", "POINT(446000 5884000)"),
            ("b", "LINESTRING(446000 5884000, 446001 5884001)"),
            ("c", "MULTIPOINT((1 1))"),
        ],
    )
    assert import_towers(town) == (3, 1, {"unparsable-position": 2})
    assert set(list_quarantined(town)) == {"unparsable-position"}


# ---- cells as given --------------------------------------------------------------------------------------------------


def make_squares(connection, *corners, side=1000):
    rows = [(f"c{i}", f"SRID=32632;{_format_square(x, y, side)}") for i, (x, y) in enumerate(corners)]
    make_table(connection, "areas", "name text, geom geometry", rows)


def _format_square(x, y, side):
    return f"POLYGON(({x} {y}, {x + side} {y}, {x + side} {y + side}, {x} {y + side}, {x} {y}))"


def select_cell_notices(connection, notices):
    connection.execute(f"{CELLS})")
    return [said for said in notices if "in no cell" not in said]


def test_cells_that_divide_an_area_get_no_notice(town, notices):
    make_squares(town, (446000, 5884000), (447000, 5884000), (446000, 5885000))
    assert select_cell_notices(town, notices) == []


def test_cells_that_overlap_are_measured(town, notices):
    make_squares(town, (446000, 5884000), (446500, 5884000))
    (said,) = select_cell_notices(town, notices)
    assert "500,000 m²" in said


def test_gaps_between_cells_are_counted_and_measured(town, notices):
    ring = [(446000 + 1000 * i, 5884000 + 1000 * j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    make_squares(town, *ring)
    (said,) = select_cell_notices(town, notices)
    assert "1 of together 1,000,000 m²" in said


def test_cells_that_do_not_touch_are_counted(town, notices):
    make_squares(town, (446000, 5884000), (448000, 5884000))
    (said,) = select_cell_notices(town, notices)
    assert "2 areas" in said


def test_cells_that_meet_only_to_the_millimetre_are_one_area(town, notices):
    make_squares(town, (446000, 5884000), (447000.0002, 5884000))
    assert select_cell_notices(town, notices) == []
