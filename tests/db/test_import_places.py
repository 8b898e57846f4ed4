"""Points of interest and cells out of tables, by SQL alone."""

import psycopg
import pytest

from dbanon.base.errors import DataError, ParameterError
from tests.facts import demand_named
from tests.importing import (
    CELLS,
    POIS,
    REASONS,
    SIGHTINGS,
    SQUARE,
    call,
    catch_refusal,
    fetch_everything,
    list_left_out,
    make_areas,
    make_seen,
    make_shops,
    make_table,
)

# ---- places ----------------------------------------------------------------------------------------------------------


def test_pois_are_stored_where_postgis_puts_them_and_recorded(town):
    revision = "SELECT revision FROM dbanon.dataset WHERE name = 'town'"
    before = fetch_everything(town, revision)[0][0]
    make_shops(
        town, ("  cafe\t", "POINT(8.2 53.1)"), ("bar", "POINT Z (8.21 53.1 4)"), ("park", SQUARE), (None, "POINT(8 53)")
    )
    assert call(town, POIS) == (4, 3, {"missing-category": 1})
    stored = fetch_everything(
        town,
        "SELECT category, ST_Equals(p.geom, ST_Force2D(ST_Transform(s.geom, 32632))), "
        "ST_NDims(p.geom), ST_SRID(p.geom) "
        "FROM dbanon.poi p JOIN public.shops s ON btrim(s.kind, E' \\t') = category ORDER BY poi_id",
    )
    assert stored == [("cafe", True, 2, 32632), ("bar", True, 2, 32632), ("park", True, 2, 32632)]
    record = fetch_everything(
        town, "SELECT kind, source, rows_read, rows_kept, quarantined, loaded_by FROM dbanon.load"
    )
    assert record == [("pois", "table public.shops", 4, 3, {"missing-category": 1}, town.info.user)]
    assert fetch_everything(town, "SELECT line, reason, content FROM dbanon.quarantine") == [
        (4, "missing-category", {"geom": "POINT(8 53)"})
    ]
    assert fetch_everything(town, revision)[0][0] == before + 1


@pytest.mark.many
@pytest.mark.parametrize(
    ("kind", "geom", "reason"),
    [
        (None, "SRID=4326;POINT(8.2 53.1)", "missing-category"),
        ("\u3000 \t", "SRID=4326;POINT(8.2 53.1)", "missing-category"),
        ("ca\x1bfe", "SRID=4326;POINT(8.2 53.1)", "control-characters"),
        ("ca\u009bfe", "SRID=25832;POINT(8.2 53.1)", "control-characters"),
        ("cafe", "SRID=25832;POINT(8.2 53.1)", "other-reference-system"),
        ("cafe", None, "missing-position"),
        ("cafe", "SRID=4326;POINT EMPTY", "missing-position"),
        ("cafe", "SRID=4326;POLYGON EMPTY", "missing-position"),
        ("cafe", "SRID=4326;CIRCULARSTRING(8.2 53.1, 8.3 53.1, 8.2 53.2)", "unparsable-position"),
        ("cafe", "SRID=4326;GEOMETRYCOLLECTION(POINT(8.2 53.1))", "unparsable-position"),
        ("cafe", "SRID=4326;POINT(8.2 NaN)", "non-finite-position"),
        ("cafe", "SRID=4326;POINT(-1e999 53.1)", "non-finite-position"),
        ("cafe", "SRID=4326;LINESTRING(8.2 53.1, 8.21 NaN, 8.22 53.1)", "non-finite-position"),
        ("cafe", "SRID=4326;MULTIPOINT(8.2 53.1, 1e999 53.1)", "non-finite-position"),
        ("cafe", "SRID=4326;POINT(53.1 98.2)", "swapped-axes"),
        ("cafe", "SRID=4326;POINT(53.1 8.2)", "swapped-axes"),
        ("cafe", "SRID=4326;POINT(188.2 53.1)", "position-out-of-range"),
        ("cafe", "SRID=4326;POINT(188.2 -98)", "position-out-of-range"),
        ("cafe", "SRID=4326;LINESTRING(8.2 53.1, 8.2 120)", "position-out-of-range"),
        ("caf\u00e9", "SRID=4326;POINT(8.25 53.15)", "duplicate-poi"),
        ("cafe\u0301 ", "SRID=4326;POINT(8.250000001 53.15)", "duplicate-poi"),
    ],
)
def test_every_poi_that_cannot_be_used_is_kept_aside_with_a_reason(town, kind, geom, reason):
    assert reason in REASONS
    good = [("caf\u00e9", "SRID=4326;POINT(8.25 53.15)"), ("bar", "POINT(8.25 53.15)")]
    make_table(town, "shops", "kind text, geom geometry", [*good, (kind, geom)])
    assert call(town, POIS) == (3, 2, {reason: 1})
    assert list_left_out(town) == [(3, reason)]
    assert fetch_everything(town, "SELECT category FROM dbanon.poi ORDER BY poi_id") == [("caf\u00e9",), ("bar",)]


@pytest.mark.many
@pytest.mark.parametrize(
    ("geom", "reason"),
    [
        ("SRID=25832;" + SQUARE, "other-reference-system"),
        (None, "missing-position"),
        ("SRID=4326;MULTIPOLYGON EMPTY", "missing-position"),
        ("SRID=4326;POINT(8.2 53.1)", "not-a-polygon"),
        ("SRID=4326;LINESTRING(8.2 53.1, 8.3 53.2)", "not-a-polygon"),
        ("SRID=4326;GEOMETRYCOLLECTION(" + SQUARE + ")", "not-a-polygon"),
        ("SRID=4326;CURVEPOLYGON(CIRCULARSTRING(8.2 53.1, 8.3 53.2, 8.2 53.1))", "not-a-polygon"),
        ("SRID=4326;POLYGON((8.2 53.1, 8.21 53.1, 8.205 NaN, 8.21 53.11, 8.2 53.1))", "non-finite-position"),
        ("SRID=4326;POLYGON((53.1 8.2, 53.1 8.21, 53.11 8.21, 53.1 8.2))", "swapped-axes"),
        ("SRID=4326;POLYGON((8.2 53.1, 8.21 53.1, 8.21 95, 8.2 53.1))", "position-out-of-range"),
        ("SRID=4326;POLYGON((8.2 53.1, 8.21 53.11, 8.21 53.1, 8.2 53.11, 8.2 53.1))", "invalid-polygon"),
        ("SRID=4326;POLYGON((8.2 53.1, 8.21 53.1, 8.2 53.1, 8.2 53.1))", "invalid-polygon"),
        ("SRID=4326;MULTIPOLYGON(((8 53, 9 53, 9 54, 8 53)), ((8 53, 9 53, 8 54, 8 53)))",
         "invalid-polygon"),
        ("SRID=4326;POLYGON((8.21 53.1, 8.21 53.11, 8.2 53.11, 8.2 53.1, 8.21 53.1))", "duplicate-cell"),
    ],
)  # fmt: skip
def test_every_cell_that_cannot_be_used_is_kept_aside_with_a_reason(town, geom, reason):
    assert reason in REASONS
    heard: list[str | None] = []
    town.add_notice_handler(lambda said: heard.append(said.sqlstate))
    make_table(town, "areas", "geom geometry", [("SRID=4326;" + SQUARE,), (geom,)])
    assert call(town, CELLS) == (2, 1, {reason: 1})
    assert list_left_out(town) == [(2, reason)]
    assert fetch_everything(town, "SELECT name, GeometryType(geom), ST_SRID(geom) FROM dbanon.cell") == [
        (None, "POLYGON", 32632)
    ]
    # PostGIS would say where a polygon crosses itself.
    assert set(heard) <= {"DA018"}


def test_cells_are_stored_with_their_names_in_whole(town):
    ring, hole = "(8.2 53.1,8.3 53.1,8.3 53.2,8.2 53.1)", "(8.22 53.11,8.28 53.11,8.28 53.15,8.22 53.11)"
    pieces = f"MULTIPOLYGON(({ring},{hole}),((9 53,9.1 53,9 53.1,9 53)))"
    make_areas(town, ("north ", SQUARE), ("", pieces), ("north", SQUARE.replace("8.2 ", "8.19 ")))
    assert call(town, CELLS, ", name => 'station'") == (3, 3, {})
    stored = fetch_everything(
        town,
        "SELECT c.name, ST_OrderingEquals(c.geom, ST_Transform(a.geom, 32632)) FROM dbanon.cell c "
        "JOIN public.areas a ON ST_Equals(c.geom, ST_Transform(a.geom, 32632)) ORDER BY cell_id",
    )
    assert stored == [("north", True), (None, True), ("north", True)]


def test_a_cell_too_small_to_have_an_area_is_kept_aside(town):
    corners = "0 0, 1e-170 0, 1e-170 1e-170, 0 1e-170, 0 0"
    make_table(
        town,
        "areas",
        "geom geometry",
        [("SRID=32632;POLYGON((0 0, 1 0, 0 1, 0 0))",), (f"SRID=32632;POLYGON(({corners}))",)],
    )
    assert call(town, CELLS) == (2, 1, {"invalid-polygon": 1})


def test_two_cells_in_one_rectangle_are_two(town):
    half = "SRID=32632;POLYGON((442000 5880000, 442100 5880000, 442100 5880100, 442000 5880000))"
    other = "SRID=32632;POLYGON((442000 5880000, 442100 5880100, 442000 5880100, 442000 5880000))"
    rows = [("a", half), ("a", other), ("b", half), ("a", other.replace("442000 5880100", "442000.0002 5880100"))]
    make_table(town, "areas", "station text, geom geometry", rows)
    assert call(town, CELLS, ", name => 'station'") == (4, 3, {"duplicate-cell": 1})
    assert list_left_out(town) == [(4, "duplicate-cell")]


def test_what_is_there_already_adds_nothing_and_what_is_new_is_added(town):
    make_shops(town, ("cafe", "POINT(8.2 53.1)"), ("bar", "POINT(8.2 53.1)"))
    call(town, POIS)
    again = catch_refusal(town, POIS)
    assert isinstance(again, DataError)
    demand_named(str(again), "nothing to add", "2 rows", "2 duplicate-poi")
    assert fetch_everything(town, "SELECT count(*) FROM dbanon.load") == [(1,)]
    town.execute("INSERT INTO public.shops VALUES ('cafe', 'SRID=4326;POINT(8.2001 53.1)')")
    assert call(town, POIS) == (3, 1, {"duplicate-poi": 2})
    assert fetch_everything(town, "SELECT category, count(*) FROM dbanon.poi GROUP BY 1 ORDER BY 1") == [
        ("bar", 1),
        ("cafe", 2),
    ]


def test_what_another_dataset_has_is_no_duplicate(town):
    make_shops(town, ("cafe", "POINT(8.2 53.1)"))
    call(town, POIS)
    town.execute(
        "UPDATE dbanon.poi SET geom = ST_SetSRID(geom, 32610), dataset_id = (SELECT dataset_id FROM dbanon.dataset "
        "WHERE name = 'ten')"
    )
    assert call(town, POIS) == (1, 1, {})


def test_replacing_deletes_those_of_this_dataset_alone(town):
    town.execute(
        "INSERT INTO dbanon.poi (dataset_id, category, geom) SELECT dataset_id, 'old', "
        "ST_SetSRID(ST_MakePoint(1, 1), srid) "
        "FROM dbanon.dataset"
    )
    town.execute(
        "INSERT INTO dbanon.cell (dataset_id, name, geom) SELECT dataset_id, 'old', ST_MakeEnvelope(0, 0, 1, 1, srid) "
        "FROM dbanon.dataset"
    )
    make_shops(town, ("cafe", "POINT(8.2 53.1)"))
    make_areas(town, ("new", SQUARE))
    call(town, POIS, ", replace => true")
    call(town, POIS, ", replace => true")
    call(town, CELLS, ", name => 'station', replace => true")
    assert fetch_everything(
        town, "SELECT name, category FROM dbanon.poi JOIN dbanon.dataset USING (dataset_id) ORDER BY 1"
    ) == [("ten", "old"), ("town", "cafe")]
    assert fetch_everything(
        town, "SELECT d.name, c.name FROM dbanon.cell c JOIN dbanon.dataset d USING (dataset_id) ORDER BY 1"
    ) == [("ten", "old"), ("town", "new")]


def test_a_replacement_of_which_nothing_is_usable_leaves_what_is_there(town):
    make_shops(town, ("cafe", "POINT(8.2 53.1)"))
    call(town, POIS)
    town.execute("UPDATE public.shops SET kind = NULL")
    demand_named(str(catch_refusal(town, POIS, ", replace => true")), "usable", "1 row", "1 missing-category", "crs")
    assert fetch_everything(town, "SELECT category FROM dbanon.poi") == [("cafe",)]


def test_an_empty_table_is_nothing_usable(town):
    make_shops(town)
    demand_named(str(catch_refusal(town, POIS)), "usable", "0 rows", "crs")


@pytest.mark.parametrize("given", ["POINT(53.1 8.2)", "POINT(53.1 98.2)"])
def test_axes_that_are_swapped_in_most_rows_are_refused(town, given):
    make_shops(town, ("cafe", given), ("bar", given), ("cafe", "POINT(8.2 53.1)"))
    error = catch_refusal(town, POIS)
    assert isinstance(error, ParameterError)
    demand_named(str(error), "longitude", "latitude", "'geom'", "ST_FlipCoordinates")


def test_places_far_from_the_trajectories_are_kept(town):
    make_shops(town, ("cafe", "POINT(11 48)"))
    assert call(town, POIS) == (1, 1, {})


def test_without_trajectories_only_the_projection_decides(town):
    town.execute("DELETE FROM dbanon.trajectory")
    make_shops(town, ("cafe", "POINT(53.1 8.2)"), ("cafe", "POINT(8.2 89.99)"), ("bar", "LINESTRING(8 53, 8 120)"))
    assert call(town, POIS) == (3, 2, {"swapped-axes": 1})


def test_the_reference_system_may_be_given_where_geometries_name_none(town):
    make_table(town, "shops", "kind text, geom geometry", [("cafe", "POINT(446436.316 5883693.844)")])
    error = catch_refusal(town, POIS)
    assert isinstance(error, DataError)
    demand_named(str(error), "'geom'", "reference system", 0, "--crs EPSG:4326")
    assert call(town, POIS, ", crs => 'EPSG:25832'") == (1, 1, {})
    assert fetch_everything(town, "SELECT ST_X(ST_Transform(geom, 4326))::numeric(9, 6)::float8 FROM dbanon.poi") == [
        (8.2,)
    ]


def test_a_geography_is_a_geometry(town):
    town.execute("CREATE TABLE public.shops AS SELECT 1 AS kind, 'POINT(8.2 53.1)'::geography AS geom")
    assert call(town, POIS) == (1, 1, {})
    assert fetch_everything(town, "SELECT category, ST_SRID(geom) FROM dbanon.poi") == [("1", 32632)]


def test_columns_and_tables_may_be_called_anything(town):
    point = "ST_GeomFromText('POINT(8.2 53.1)', 4326)"
    town.execute(f"""CREATE TABLE public."Öde %s 'x"" y" AS SELECT 'a'::text AS "kind ""%s'", {point} AS "% L" """)
    # A literal of regclass is quoted as in SQL, names of columns are not.
    names = ["""public."Öde %s 'x"" y" """, "kind \"%s'", "% L"]
    statement = "SELECT rows_kept FROM dbanon.import_pois(%s, 'town', category => %s, geom => %s)"
    assert town.execute(statement, names).fetchall() == [(1,)]
    assert fetch_everything(town, "SELECT source FROM dbanon.load") == [("""table public."Öde %s 'x"" y\"""",)]


def test_shapes_across_the_antimeridian_have_their_middle_the_short_way_round(connection):
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('town', 32601, 1, 1)")
    connection.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) SELECT 1000, "
        "dataset_id, 's', ST_Force3DM(ST_Transform("
        "ST_SetSRID(ST_MakePoint(-179.9, -17), 4326), 32601), 0) FROM dbanon.dataset WHERE name = 'town'"
    )
    make_shops(connection, ("reef", "LINESTRING(179.99 -17, -179.97 -17)"), ("reef", "POINT(-179.95 -17)"))
    assert call(connection, POIS) == (2, 2, {})


# ---- what keeps the tables true --------------------------------------------------------------------------------------


def test_several_imports_may_be_of_one_transaction(town):
    make_shops(town, ("cafe", "POINT(8.2 53.1)"), (None, "POINT(8.2 53.1)"))
    make_seen(town, ("a", 1212562800), (None, 1212562800))
    for _ in range(2):
        call(town, POIS, ", replace => true")
        call(town, SIGHTINGS, ", replace => true")
    # A person's row that is rejected again leaves the quarantine of the load before.
    assert list_left_out(town) == [*[(2, "missing-category")] * 2, (2, "missing-subject")]


def test_temporary_tables_and_views_may_be_imported(town):
    town.execute(
        "CREATE TEMP VIEW mine AS SELECT 'cafe'::text AS kind, ST_GeomFromText('POINT(8.2 53.1)', 4326) AS geom"
    )
    assert call(town, POIS.replace("public.shops", "mine")) == (1, 1, {})


@pytest.mark.parametrize(
    "values",
    [
        "poi (dataset_id, category, geom) SELECT {}, 'cafe', ST_SetSRID(ST_MakePoint(1, 1), {})",
        "cell (dataset_id, geom) SELECT {}, ST_MakeEnvelope(0, 0, 1, 1, {})",
        "quasi_identifier (dataset_id, subject, at) SELECT {}, 'a', to_timestamp({})",
    ],
)
def test_the_tables_are_guarded_as_those_of_sites_are(town, values):
    ((dataset, revision),) = fetch_everything(
        town, "SELECT dataset_id, revision FROM dbanon.dataset WHERE name = 'town'"
    )
    name = values.split()[0]
    town.execute("DELETE FROM dbanon.trajectory WHERE dataset_id = %s", [dataset])
    town.execute("INSERT INTO dbanon." + values.format(dataset, 32632))
    town.execute(f"UPDATE dbanon.{name} SET dataset_id = dataset_id")
    query = "SELECT revision FROM dbanon.dataset WHERE name = 'town'"
    assert fetch_everything(town, query) == [(revision + 3,)]
    with pytest.raises(psycopg.Error) as caught, town.transaction():
        town.execute("INSERT INTO dbanon." + values.format(-1, 32632))
    assert caught.value.sqlstate == "DA009"
    if name != "quasi_identifier":
        for statement in (
            "INSERT INTO dbanon." + values.format(dataset, 25832),
            f"UPDATE dbanon.dataset SET srid = 25832 WHERE dataset_id = {dataset}",
        ):
            with pytest.raises(psycopg.Error) as caught, town.transaction():
                town.execute(statement)
            assert caught.value.sqlstate == "DA008"
    town.execute("DELETE FROM dbanon.dataset WHERE dataset_id = %s", [dataset])
    assert fetch_everything(town, f"SELECT count(*) FROM dbanon.{name}") == [(0,)]
