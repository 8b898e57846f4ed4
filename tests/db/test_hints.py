# ruff: noqa: E501
"""Each statement and argument that a hint, an error or a notice proposes is tried on the input that made it say so.

`tries` names the sentences of tests/golden/sentences.txt whose proposals a test takes out of the message and executes.
The last tests look for proposals that no test tries.
"""

import re
from dataclasses import dataclass, field

import psycopg
import pytest

from tests import here
from tests.db import nights
from tests.golden.sentences import list_sentences
from tests.hints import (
    find_arguments,
    find_statements,
    hear,
    list_marks,
    list_untried,
    read_words,
    refuse,
    tries,
)

CANNOT: dict[str, str] = {
    "Give the right one, for example crs": "only who made the table knows it",
}
"""Pieces of sentences whose proposals cannot be executed, and why."""

TABLE = """
CREATE TABLE public.gps AS SELECT 's' || i % 8 AS subject, timestamptz '2026-01-05 08:00Z' + i / 8 * interval '1 min' AS at,
    8.2 + i % 8 * 1e-3 + i * 1e-5 AS lon, 53.1 + i % 8 * 1e-3 AS lat FROM generate_series(0, 79) i;
CREATE VIEW public.points AS SELECT subject, at, ST_SetSRID(ST_MakePoint(lon, lat), 4326) AS geom FROM public.gps;
CREATE VIEW public.squares AS SELECT subject AS name, ST_Expand(geom, 0.001) AS geom FROM public.points WHERE subject = 's1'
    ORDER BY at LIMIT 1;
"""


# ---- how a proposal is taken out of a message ------------------------------------------------------------------------


@dataclass
class Load:
    """A call of an import, whose arguments are SQL."""

    function: str = "import_trajectories"
    source: str = "public.gps"
    given: dict[str, str] = field(
        default_factory=lambda: {"subject": "'subject'", "time_column": "'at'", "x": "'lon'", "y": "'lat'"}
    )

    def but(self, **given: str | None) -> "Load":
        """The same call with other arguments; None leaves one out."""
        known = self.given | {name: value for name, value in given.items() if value is not None}
        left = {name: value for name, value in known.items() if given.get(name, "") is not None}
        return Load(self.function, self.source, left)

    def of(self, source: str, function: str | None = None) -> "Load":
        return Load(function or self.function, source, self.given)

    def run(self, connection: psycopg.Connection) -> int:
        """Import, and return how many rows were kept."""
        given = "".join(f", {name} => {value}" for name, value in ({"dataset": "'d'"} | self.given).items())
        statement = f"SELECT rows_kept FROM dbanon.{self.function}('{self.source}'{given})"
        row = connection.execute(statement).fetchone()  # type: ignore[arg-type]
        assert row
        return int(row[0])

    def fail(self, connection: psycopg.Connection) -> str:
        """Import, and return what the error says."""
        with pytest.raises(psycopg.Error) as caught:
            self.run(connection)
        assert (caught.value.sqlstate or "").startswith("DA")
        return read_words(caught.value.diag)


POINTS = Load(source="public.points", given={"subject": "'subject'", "time_column": "'at'", "geom": "'geom'"})
SITES = Load("import_sites", "public.squares", {})


@pytest.fixture
def said(connection: psycopg.Connection) -> list[str]:
    """What the server tells the session."""
    return hear(connection)


@pytest.fixture
def gps(connection: psycopg.Connection) -> psycopg.Connection:
    """Autocommit connection to a database with tables of 80 rows."""
    connection.execute(TABLE)
    return connection


# ---- loading: the argument that is proposed is given, and the call succeeds -------------------------------------------


@tries(
    "for example tz => 'UTC'", "Leave it out for grid_m", "Leave it out for grid_s", "Leave it out for settle_s",
    "such as srid => 32610", "bbox => '{8,53,9,54}'", "such as split_gap_s", "such as max_speed_kmh",
    "Name it, for example crs => 'EPSG:4326'", "Name the columns of coordinates",
    ", and their reference system, for example crs",
)  # fmt: skip
@pytest.mark.parametrize(
    "call",
    [
        Load().but(tz="'Mars'"),
        Load().but(grid_m="0"),
        Load().but(grid_s="0"),
        Load().but(settle_s="-1"),
        Load().but(srid="4326"),
        Load().but(bbox="'{1,2}'"),
        Load().but(split_gap_s="0"),
        Load().but(max_speed_kmh="0"),
        POINTS.of("public.bare"),
        Load().but(x=None, y=None),
        Load().but(x=None, y=None).of("public.metres"),
        Load().of("public.naive"),
    ],
)  # fmt: skip
def test_the_argument_that_is_proposed_lets_the_call_succeed(gps: psycopg.Connection, call: Load) -> None:
    gps.execute(
        "CREATE VIEW public.bare AS SELECT subject, at, ST_SetSRID(geom, 0) AS geom FROM public.points;"
        "CREATE VIEW public.metres AS SELECT subject, at, 5e5 + lon AS x, 5e6 + lat AS y FROM public.gps;"
        "CREATE VIEW public.naive AS SELECT subject, at AT TIME ZONE 'UTC' AS at, lon, lat FROM public.gps"
    )
    words = call.fail(gps)
    proposed = find_arguments(words)
    assert proposed, words
    assert call.but(**proposed).run(gps) == 80


@tries(
    "Leave it out for grid_m", "Leave it out for grid_s", "Leave it out for the UTM zone", "Leave it out for settle_s"
)
@pytest.mark.parametrize("name", ["grid_m", "grid_s", "srid", "settle_s", "split_gap_s", "max_speed_kmh"])
def test_what_is_to_be_left_out_can_be(gps: psycopg.Connection, name: str) -> None:
    call = Load().but(**{name: "4326" if name == "srid" else "-1"})
    assert re.search(r"[Ll]eave it out", call.fail(gps))
    assert call.but(**{name: None}).run(gps) == 80


@tries("Add to it with mode => 'append' or replace", "To make it, leave out mode")
def test_a_mode_that_is_proposed_fits(gps: psycopg.Connection) -> None:
    for mode in ("append", "replace"):
        words = Load().but(mode=f"'{mode}'").fail(gps)
        assert re.findall(r"leave out mode => '(\w+)'", words) == [mode]
    assert Load().run(gps) == 80
    words = Load().fail(gps)
    appended, replaced = re.findall(r"mode => ('\w+')", words)
    gps.execute("CREATE VIEW public.more AS SELECT subject, at + interval '1 day' AS at, lon, lat FROM public.gps")
    assert Load().of("public.more").but(mode=appended).run(gps) == 80
    assert Load().but(mode=replaced).run(gps) == 80


@tries("Leave out subject_per_day => true: added", "Name the column of people, or leave out subject_per_day")
def test_days_that_do_not_fit_are_left_out(gps: psycopg.Connection) -> None:
    alone = Load().but(subject="'-'", subject_per_day="true")
    assert "leave out subject_per_day => true" in alone.fail(gps)
    assert alone.but(subject_per_day=None).run(gps) == 80
    gps.execute("SELECT dbanon.drop_dataset('d')")
    assert Load().run(gps) == 80
    gps.execute("CREATE VIEW public.more AS SELECT subject, at + interval '1 day' AS at, lon, lat FROM public.gps")
    more = Load().of("public.more").but(mode="'append'", subject_per_day="true")
    assert "Leave out subject_per_day => true" in more.fail(gps)
    assert more.but(subject_per_day=None).run(gps) == 80


@tries("Add to it with mode => 'append'. The same")
def test_a_dataset_with_sites_or_releases_is_replaced_or_added_to_as_proposed(gps: psycopg.Connection) -> None:
    assert Load().run(gps) == 80
    assert SITES.run(gps) == 1
    other = Load().but(mode="'replace'", srid="32633")
    words = other.fail(gps)
    assert other.but(**find_arguments(words)).run(gps) == 80
    gps.execute(
        "WITH run AS (INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'traj-anon') RETURNING run_id) "
        "INSERT INTO dbanon.release (name, run_id, digest, rows) SELECT 'r' || run_id, run_id, '', 0 FROM run"
    )
    gps.execute("CREATE VIEW public.more AS SELECT subject, at + interval '1 day' AS at, lon, lat FROM public.gps")
    replaced = Load().of("public.more").but(mode="'replace'")
    words = replaced.fail(gps)
    assert replaced.but(mode=find_arguments(words)["mode"]).run(gps) == 80


@tries("or load with mode => 'append' and since")
def test_new_rows_without_names_are_appended_since_a_time(gps: psycopg.Connection) -> None:
    assert Load().but(subject="'-'").run(gps) == 80
    gps.execute("CREATE VIEW public.more AS SELECT subject, at + interval '1 day' AS at, lon, lat FROM public.gps "
                "UNION ALL SELECT subject, at, lon, lat FROM public.gps")  # fmt: skip
    new = Load().of("public.more").but(subject="'-'", mode="'new'")
    words = new.fail(gps)
    assert "since => ..." in words
    assert new.but(**find_arguments(words), since="'2026-01-06 00:00Z'").run(gps) == 80


# ---- loading: the view that is proposed is made, and it is imported ---------------------------------------------------


@tries("Cast it in a view, and import that with %s instead")
@pytest.mark.parametrize("name", ["texts", "t" * 63])
def test_texts_of_coordinates_are_cast_in_the_view_that_is_proposed(gps: psycopg.Connection, name: str) -> None:
    gps.execute(f"CREATE TABLE public.{name} AS SELECT subject, at, lon::text, lat::text FROM public.gps")
    words = Load().of(f"public.{name}").fail(gps)
    [made] = find_statements(words, "CREATE VIEW")
    x, y = re.findall(r"('\w+_read')", words)
    gps.execute(made)  # type: ignore[arg-type]
    assert Load().of(made.split()[2]).but(x=x, y=y).run(gps) == 80


@tries("Make points in a view, with ST_SetSRID")
def test_points_are_made_as_proposed_where_a_column_is_no_geometry(gps: psycopg.Connection) -> None:
    words = Load(given={"subject": "'subject'", "time_column": "'at'", "geom": "'lon'"}).fail(gps)
    [expression] = re.findall(r"ST_SetSRID\(.*?\), \d+\)", words)
    gps.execute(f"CREATE VIEW public.made AS SELECT subject, at, {expression} AS geom FROM public.gps")
    assert POINTS.of("public.made").run(gps) == 80


@tries("Read its texts in a view, and import that with geom")
@pytest.mark.parametrize("written", ["ST_AsText(geom)", "ST_AsEWKT(geom)", "geom::text", "ST_AsGeoJSON(geom)"])
def test_texts_of_geometries_are_read_in_the_view_that_is_proposed(gps: psycopg.Connection, written: str) -> None:
    gps.execute(f"CREATE VIEW public.texts AS SELECT subject, at, {written} AS geom FROM public.points")  # type: ignore[arg-type]
    call = POINTS.of("public.texts")
    words = call.fail(gps)
    [view] = find_statements(words, "CREATE VIEW")
    gps.execute(view)  # type: ignore[arg-type]
    named = find_arguments(words)["geom"]
    crs = None if written != "ST_AsText(geom)" else "'EPSG:4326'"
    assert call.of("public.texts_read").but(geom=named, **{} if crs is None else {"crs": crs}).run(gps) == 80


@tries("have y first. Swap them in a view, with")
def test_swapped_geometries_are_flipped_as_proposed(gps: psycopg.Connection) -> None:
    gps.execute("CREATE VIEW public.swapped AS SELECT subject, at, ST_FlipCoordinates(geom) AS geom FROM public.points")
    call = POINTS.of("public.swapped").but(srid="32632")
    words = call.fail(gps)
    [function] = re.findall(r"ST_\w+", words)
    gps.execute(f"CREATE VIEW public.flipped AS SELECT subject, at, {function}(geom) AS geom FROM public.swapped")  # type: ignore[arg-type]
    assert call.of("public.flipped").run(gps) == 80
    gps.execute("CREATE VIEW public.swapped_sites AS SELECT name, ST_FlipCoordinates(geom) AS geom FROM public.squares")
    words = SITES.of("public.swapped_sites").fail(gps)
    [function] = re.findall(r"ST_\w+", words)
    gps.execute(f"CREATE VIEW public.sites AS SELECT name, {function}(geom) AS geom FROM public.swapped_sites")  # type: ignore[arg-type]
    assert SITES.of("public.sites").run(gps) == 1


@tries("Take lines of positions apart with ST_DumpPoints", "or take lines apart with ST_DumpPoints")
def test_lines_are_taken_apart_as_proposed(gps: psycopg.Connection, said: list[str]) -> None:
    gps.execute(
        "CREATE VIEW public.tracks AS SELECT subject, min(at) AS at, ST_MakeLine(geom ORDER BY at) AS geom FROM public.points GROUP BY subject"
    )
    call = POINTS.of("public.tracks")
    words = call.but(split_gap_s="60").fail(gps)
    assert call.run(gps) == 8
    [notice] = [text for text in said if "ST_" in text]
    for told in (words, notice):
        [function] = re.findall(r"ST_\w+", told)
        gps.execute(
            "CREATE OR REPLACE VIEW public.taken AS SELECT subject, at + (path[1] - 1) * interval '1 min' AS at, d.geom "
            f"FROM public.tracks t, {function}(t.geom) d (path, geom)"  # type: ignore[arg-type]
        )
        assert call.of("public.taken").but(mode="'replace'").run(gps) == 80


# ---- loading: notices -------------------------------------------------------------------------------------------------


@tries("%s kept: load with drop_outliers", "more than %s km/h from the fix before", ", or keep to an area")
def test_what_is_far_or_fast_is_left_out_as_proposed(gps: psycopg.Connection, said: list[str]) -> None:
    gps.execute("INSERT INTO public.gps VALUES ('s1', '2026-01-05 08:00:30Z', 28.2, 53.1)")
    assert Load().run(gps) == 81
    assert Load().but(mode="'replace'", **find_arguments(said[0])).run(gps) == 80
    gps.execute("UPDATE public.gps SET lon = 8.24 WHERE lon > 20")
    said.clear()
    fast = Load().but(mode="'replace'", max_speed_kmh="200")
    assert fast.run(gps) == 81
    assert fast.but(**find_arguments(said[0])).run(gps) == 80
    gps.execute("INSERT INTO public.gps VALUES ('s2', '2026-01-05 08:00:40Z', 28.2, 53.1)")
    said.clear()
    assert Load().but(mode="'replace'").run(gps) == 82
    assert any("bbox => ..." in text for text in said)
    assert Load().but(mode="'replace'", bbox="'{8,53,9,54}'").run(gps) == 81


@tries("%s kept%s: load with drop_outliers")
def test_far_sites_are_left_out_as_proposed(gps: psycopg.Connection, said: list[str]) -> None:
    assert Load().run(gps) == 80
    gps.execute("CREATE VIEW public.far AS SELECT name, ST_Translate(geom, 5, 0) AS geom FROM public.squares UNION ALL "
                "SELECT name, geom FROM public.squares")  # fmt: skip
    assert SITES.of("public.far").run(gps) == 2
    [notice] = said
    assert SITES.of("public.far").but(replace="true", **find_arguments(notice)).run(gps) == 1
    assert "bbox => ..." in notice
    assert SITES.of("public.far").but(replace="true", bbox="'{8,53,9,54}'").run(gps) == 1


@tries("from the meridian of SRID")
def test_positions_far_from_the_meridian_get_another_system_as_proposed(
    gps: psycopg.Connection, said: list[str]
) -> None:
    assert Load().but(srid="32635").run(gps) == 80
    assert ["srid => ..." in text for text in said] == [True]
    said.clear()
    assert Load().but(mode="'replace'", srid="32632").run(gps) == 80
    assert said == []


@tries("has no index on %I, so all of it was read")
def test_the_index_that_is_proposed_ends_the_notice(gps: psycopg.Connection, said: list[str]) -> None:
    gps.execute("CREATE TABLE public.parts (LIKE public.gps) PARTITION BY RANGE (at)")
    gps.execute("CREATE TABLE public.part PARTITION OF public.parts DEFAULT")
    gps.execute("INSERT INTO public.parts SELECT * FROM public.gps")
    call = Load().of("public.parts").but(since="'2026-01-01Z'")
    assert call.run(gps) == 80
    [made] = [statement for text in said for statement in find_statements(text, "CREATE INDEX")]
    gps.execute(made)  # type: ignore[arg-type]
    said.clear()
    assert call.but(mode="'replace'").run(gps) == 80
    assert said == []


# ---- loading: the rest ------------------------------------------------------------------------------------------------


@tries("Try it in psql: SELECT")
def test_the_query_for_a_filter_shows_what_is_wrong_with_it(gps: psycopg.Connection) -> None:
    words = Load().but(filter="'lon > nothing'").fail(gps)
    [query] = re.findall(r"SELECT \* FROM .* LIMIT 1", words)
    with pytest.raises(psycopg.errors.UndefinedColumn, match="nothing"):
        gps.execute(query.replace("...", "lon > nothing"))
    assert gps.execute(query.replace("...", "lon > 8")).fetchone()


@tries("or lift it first: SELECT dbanon.remember_subject")
def test_rows_of_a_forgotten_person_are_written_after_the_statement(gps: psycopg.Connection) -> None:
    assert Load().run(gps) == 80
    gps.execute("SELECT dbanon.forget_subject('d', 's1')")
    insert = (
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (1, 's1', now(), '{\"a\": \"b\"}')"
    )
    with pytest.raises(psycopg.Error) as caught:
        gps.execute(insert)
    [statement] = find_statements(read_words(caught.value.diag), "SELECT dbanon")
    gps.execute(statement.replace("population", "'default'").replace(", subject", ", 's1'"))  # type: ignore[arg-type]
    gps.execute(insert)


@tries("Load one with SELECT * FROM dbanon.import_trajectories", "List the datasets: SELECT * FROM dbanon.datasets")
def test_a_dataset_that_is_missing_is_loaded_or_listed_as_proposed(gps: psycopg.Connection) -> None:
    words = SITES.fail(gps)
    assert re.findall(r"SELECT \* FROM dbanon\.(\w+)", words) == [Load().function]
    assert Load().run(gps) == 80
    assert SITES.run(gps) == 1
    with pytest.raises(psycopg.Error) as caught:
        gps.execute("SELECT dbanon_internal.begin_record(99, 'trajectories', '{x}')")
    [query] = find_statements(read_words(caught.value.diag), "SELECT")
    assert len(gps.execute(query).fetchall()) == 1  # type: ignore[arg-type]


@tries("Name them, for example columns => ARRAY")
def test_the_columns_of_requests_are_named_as_proposed(gps: psycopg.Connection) -> None:
    assert Load().run(gps) == 80
    gps.execute("CREATE VIEW public.asked AS SELECT subject, at, 'cafe' AS poi, 5 AS radius FROM public.gps")
    call = Load("import_requests", "public.asked", {"subject": "'subject'", "time_column": "'at'", "columns": "'{}'"})
    assert call.but(**find_arguments(call.fail(gps))).run(gps) == 80


@tries("Give replace => true to delete the cells", "Correct it, for example with ST_MakeValid")
def test_stations_replace_cells_and_an_area_is_made_valid_as_proposed(gps: psycopg.Connection) -> None:
    assert Load().run(gps) == 80
    gps.execute(
        "CREATE VIEW public.masts AS SELECT DISTINCT ON (subject) subject AS name, geom FROM public.points ORDER BY subject, at"
    )
    call = Load("import_stations", "public.masts", {})
    assert call.run(gps) == 8
    call = call.but(**find_arguments(call.fail(gps)))
    assert call.run(gps) == 8
    bow = "'SRID=4326;POLYGON((8.1 53, 8.4 53.2, 8.4 53, 8.1 53.2, 8.1 53))'"
    [function] = re.findall(r"ST_\w+", call.but(area=bow).fail(gps))
    assert call.but(area=f"{function}({bow}::geometry)").run(gps) > 0


def test_one_place_of_a_row_is_named_as_proposed(gps: psycopg.Connection) -> None:
    gps.execute("CREATE VIEW public.both AS SELECT *, ST_SetSRID(ST_MakePoint(lon, lat), 4326) AS geom FROM public.gps")
    both = Load().of("public.both").but(geom="'geom'")
    for call, mended in (
        (both, both.but(geom=None)),
        (both, both.but(x=None, y=None, mode="'replace'")),
        (Load().but(y=None), Load().but(mode="'replace'")),
    ):
        assert set(re.findall(r"(\w+) => \.\.\.", call.fail(gps))) == {"x", "y", "geom"}
        assert mended.run(gps) == 80


@tries("Bring them into one in a view, with lower(x)::text")
def test_names_and_numbers_are_mended_in_a_view_as_proposed(gps: psycopg.Connection) -> None:
    gps.execute(
        "CREATE COLLATION public.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
        "CREATE TABLE public.blurred AS SELECT subject COLLATE public.blind AS subject, at, lon, lat FROM public.gps;"
        "CREATE VIEW public.digits AS SELECT subject, to_char(at, 'YYYYMMDDHH24MISS')::bigint AS at, lon, lat FROM public.gps"
    )
    [expression] = re.findall(r'lower\(x\)::text COLLATE "C"', Load().of("public.blurred").fail(gps))
    gps.execute(
        f"CREATE VIEW public.one AS SELECT {expression.replace('(x)', '(subject)')} AS subject, at, lon, lat FROM public.blurred"
    )  # type: ignore[arg-type]
    assert Load().of("public.one").run(gps) == 80
    gps.execute("CREATE VIEW public.clocks AS SELECT subject, at::time AS at, lon, lat FROM public.gps")
    assert "timestamps" in Load().of("public.clocks").but(mode="'replace'").fail(gps)
    [pattern] = re.findall(r"Y+M+D+h+m+s+", Load().of("public.digits").but(mode="'replace'").fail(gps))
    assert pattern == "YYYYMMDDhhmmss"
    gps.execute(
        "CREATE VIEW public.moments AS SELECT subject, to_timestamp(at::text, 'YYYYMMDDHH24MISS') AS at, lon, lat FROM public.digits"
    )
    assert Load().of("public.moments").but(mode="'replace'").run(gps) == 80


@tries("Load rows of the future", "Rows of the future were put")
def test_rows_of_the_future_are_loaded_as_proposed(gps: psycopg.Connection, said: list[str]) -> None:
    gps.execute("UPDATE public.gps SET at = at + interval '9 years'")
    assert Load().but(**find_arguments(Load().fail(gps))).run(gps) == 80
    gps.execute("UPDATE public.gps SET at = at - interval '9 years' WHERE subject < 's7'")
    said.clear()
    assert Load().but(mode="'replace'").run(gps) == 70
    assert Load().but(mode="'replace'", **find_arguments(" ".join(said))).run(gps) == 80


@tries("To see some: SELECT line", "Reproject its geometries", "polygons cross themselves. Repair them")
@pytest.mark.parametrize(
    ("call", "geometry", "more"),
    [
        (POINTS, "CASE subject WHEN 's1' THEN ST_Transform(geom, 32632) ELSE geom END", ", 4326"),
        (Load("import_cells", given={}), "ST_GeomFromText(CASE WHEN subject = 's1' THEN bow ELSE square END, 4326)", ""),
    ],
)  # fmt: skip
def test_what_is_lost_is_shown_and_mended_as_proposed(
    gps: psycopg.Connection, said: list[str], call: Load, geometry: str, more: str
) -> None:
    gps.execute(
        f"CREATE VIEW public.some AS SELECT subject, at, {geometry} AS geom FROM public.points CROSS JOIN LATERAL (SELECT "  # type: ignore[arg-type]
        "format('POLYGON((%1$s 53, %2$s 53.1, %2$s 53, %1$s 53.1, %1$s 53))', n, n + 0.1) AS bow, "
        "format('POLYGON((%1$s 53, %2$s 53, %2$s 53.1, %1$s 53.1, %1$s 53))', n, n + 0.1) AS square "
        "FROM (SELECT 8 + extract(epoch FROM at - '2026-01-05Z')::numeric / 6000 + right(subject, 1)::numeric AS n) one) made"
    )
    assert Load().but(dataset="'d'").run(gps) == 80
    if call is POINTS:
        call = call.but(mode="'replace'")
    assert call.of("public.some").run(gps) == 70
    [notice] = [text for text in said if "To see some" in text]
    [query] = find_statements(notice, "SELECT")
    assert len(gps.execute(query).fetchall()) == 10  # type: ignore[arg-type]
    [function] = re.findall(r"ST_\w+", notice)
    gps.execute(f"CREATE VIEW public.mended AS SELECT subject, at, {function}(geom{more}) AS geom FROM public.some")  # type: ignore[arg-type]
    assert (
        call.of("public.mended")
        .but(**{"mode": "'replace'"} if call.function != "import_cells" else {"replace": "true"})
        .run(gps)
        == 80
    )


@tries("Write it like time_format", "Give one of time_unit =>")
def test_the_way_times_are_written_is_said_as_proposed(gps: psycopg.Connection) -> None:
    gps.execute(
        "CREATE VIEW public.german AS SELECT subject, to_char(at, 'DD/MM/YYYY HH24:MI:SS') AS at, lon, lat FROM public.gps"
    )
    call = Load().of("public.german").but(tz="'UTC'", time_format="'%d/%m'")
    call = call.but(**find_arguments(call.fail(gps)))
    words = call.but(time_unit="'s'").fail(gps)
    assert re.findall(r"(\w+) => \.\.\.", words) == ["time_unit", "time_format"]
    assert call.but(time_unit=None).run(gps) == 80
    gps.execute("CREATE VIEW public.seconds AS SELECT subject, extract(epoch FROM at) AS at, lon, lat FROM public.gps")
    seconds = Load().of("public.seconds").but(mode="'replace'", time_unit="'s'")
    seconds.but(time_format="'%Y'").fail(gps)
    assert seconds.run(gps) == 80


@tries("Make timestamps of it in a view")
def test_timestamps_are_made_in_a_view_as_proposed(gps: psycopg.Connection) -> None:
    gps.execute(
        "CREATE VIEW public.clocks AS SELECT subject, (at AT TIME ZONE 'UTC')::time AS at, lon, lat FROM public.gps"
    )
    assert "in a view" in Load().of("public.clocks").but(tz="'UTC'").fail(gps)
    gps.execute("CREATE VIEW public.days AS SELECT subject, date '2026-01-05' + at AS at, lon, lat FROM public.clocks")
    assert Load().of("public.days").but(tz="'UTC'").run(gps) == 80


@tries("one of the words that name no person")
def test_people_whose_names_are_words_for_nobody_are_loaded_as_proposed(
    gps: psycopg.Connection, said: list[str]
) -> None:
    gps.execute("UPDATE public.gps SET subject = 'NA' WHERE subject = 's1'")
    assert Load().run(gps) == 70
    [notice] = [text for text in said if "nulls" in text]
    assert Load().but(mode="'replace'", **find_arguments(notice)).run(gps) == 80


@tries("Load it again: SELECT * FROM dbanon.import_trajectories")
def test_a_dataset_gets_another_reference_system_as_proposed(gps: psycopg.Connection) -> None:
    assert Load().run(gps) == 80
    words = refuse(gps, "UPDATE dbanon.dataset SET srid = 32633")
    assert re.findall(r"dbanon\.(\w+)\(\.\.\., ", words) == [Load().function]
    assert Load().but(srid="32633", **find_arguments(words)).run(gps) == 80
    assert gps.execute("SELECT srid FROM dbanon.dataset").fetchone() == (32633,)


# ---- runs, releases, jobs: the statement that is proposed is executed ---------------------------------------------------


@tries(
    "List the runs: SELECT", "List the datasets: SELECT", "List the loads: SELECT", "List the releases: SELECT",
    "List the parts: SELECT name, bounds", "List the jobs: SELECT", "or name a job that is there: SELECT",
    "List those you may read: SELECT",
)  # fmt: skip
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT dbanon.cancel_run(99)", "SELECT dbanon.drop_dataset('none')", "SELECT dbanon.drop_load(99)",
        "SELECT dbanon.unpublish('absent')", "SELECT * FROM dbanon.release_card('none')",
        "SELECT dbanon.unpublish_part('absent', now())", "SELECT dbanon.steer_job('none', 'pause')",
        "SELECT dbanon.add_job('none', 'dbanon.load', replace => true)",
        "SELECT at_least, expected, at_most FROM published.count_inside('published.bare', 'SRID=4326;POLYGON((0 0,1 0,1 1,0 0))', at => now())",
        'SELECT published.tile(0, 0, 0, \'{"release": "none"}\')',
    ],
)  # fmt: skip
def test_the_list_that_is_proposed_can_be_read(scratch: psycopg.Connection, statement: str) -> None:
    if "bare" in statement:
        scratch.execute("CREATE VIEW published.bare AS SELECT 1 AS one")
    with scratch.transaction(force_rollback=True):
        words = refuse(scratch, statement)
    [query] = find_statements(words, "SELECT")
    assert query in words
    scratch.execute(query).fetchall()  # type: ignore[arg-type]


@tries("SELECT dbanon.drop_run(%s) deletes it")
def test_a_run_that_has_ended_is_deleted_as_proposed(own: psycopg.Connection) -> None:
    [drop] = re.findall(r"SELECT dbanon\.drop_run\(\d+\)", refuse(own, "SELECT dbanon.cancel_run(1)"))
    own.execute(drop)
    assert own.execute("SELECT count(*) FROM dbanon.run").fetchone() == (0,)


@tries("or end it: SELECT dbanon.cancel_run", "Cancel it first: SELECT dbanon.cancel_run")
def test_a_run_that_waits_is_cancelled_as_proposed(own: psycopg.Connection) -> None:
    for refused in ("SELECT dbanon.verify_run({})", "SELECT dbanon.drop_run({})"):
        run = own.execute("SELECT dbanon.submit_run('ten', 'tp-aware', params => '{\"k\": 5}')").fetchone()
        assert run
        words = refuse(own, refused.format(*run))
        own.execute(re.findall(r"SELECT dbanon\.cancel_run\(\d+\)", words)[0])
        own.execute(f"SELECT dbanon.drop_run({run[0]})")


@tries("Verify it again: SELECT dbanon.verify_run", "Start another run: CALL dbanon.anonymize")
def test_a_run_that_was_changed_or_is_outdated_is_verified_again_as_proposed(own: psycopg.Connection) -> None:
    own.execute("UPDATE dbanon.run SET status = 'computed'")
    words = refuse(own, "SELECT dbanon.publish(1, 'x')")
    [verify] = re.findall(r"SELECT dbanon\.verify_run\(\d+\)", words)
    own.execute(verify)
    assert own.execute("SELECT todo FROM dbanon.run").fetchone() == ("verify",)
    own.execute("SELECT dbanon.cancel_run(1)")
    own.execute("UPDATE dbanon.run SET status = 'failed'")
    [call] = re.findall(r"CALL dbanon\.(\w+)\(", refuse(own, "SELECT dbanon.publish(1, 'x')"))
    assert call == "anonymize"


@tries(
    "Choose another, withdraw that one with SELECT dbanon.unpublish", "withdraw all of it with SELECT dbanon.unpublish"
)
def test_a_name_that_is_taken_is_freed_as_proposed(own: psycopg.Connection) -> None:
    own.execute("SELECT dbanon.publish(1, 'ten')")
    words = refuse(own, "SELECT dbanon.publish(1, 'ten')")
    own.execute(f"SELECT dbanon.publish(1, 'ten', replace => {find_arguments(words)['replace']})")
    [withdraw] = re.findall(
        r"SELECT dbanon\.unpublish\('ten'\)", refuse(own, "SELECT dbanon.unpublish_part('ten', now())")
    )
    assert "dbanon.unpublish(...)" in words
    own.execute(withdraw)
    own.execute("SELECT dbanon.publish(1, 'ten')")


@tries(
    "Say why: reason =>", "Add allow_overlap => true", "Add replace => true, or leave", "Got both replace => true and grow",
    "To publish the time of a part again", "to end its readers. Got end_readers => true",
)  # fmt: skip
def test_options_of_a_publication_are_given_or_left_out_as_proposed(own: psycopg.Connection) -> None:
    words = refuse(own, "SELECT dbanon.publish(1, 'ten', allow_overlap => true)")
    assert "reason => '...'" in words
    own.execute("SELECT dbanon.publish(1, 'a', allow_overlap => true, reason => 'three words here')")
    words = refuse(own, "SELECT dbanon.publish(1, 'b', reason => 'three words here')")
    own.execute(
        f"SELECT dbanon.publish(1, 'b', reason => 'three words here', allow_overlap => {find_arguments(words)['allow_overlap']})"
    )
    words = refuse(own, "SELECT dbanon.publish(1, 'b', end_readers => true)")
    own.execute(f"SELECT dbanon.publish(1, 'b', end_readers => true, replace => {find_arguments(words)['replace']})")
    assert {"replace", "grow"} <= set(
        find_arguments(refuse(own, "SELECT dbanon.publish(1, 'b', replace => true, grow => true)"))
    )
    own.execute("SELECT dbanon.publish(1, 'b', replace => true)")


@tries("End the transaction with COMMIT, verify the run")
def test_a_transaction_that_changed_data_is_ended_as_proposed(own: psycopg.Connection) -> None:
    own.autocommit = False
    own.execute("UPDATE dbanon.trajectory SET subject = subject WHERE false")
    with pytest.raises(psycopg.Error) as caught, own.transaction():
        own.execute("SELECT dbanon.publish(1, 'ten')")
    assert re.findall("COMMIT", read_words(caught.value.diag))
    own.execute("COMMIT")
    own.execute("SELECT dbanon.publish(1, 'ten')")


@tries("Make a role, CREATE ROLE auditors")
def test_readers_are_made_as_proposed(own: psycopg.Connection) -> None:
    words = refuse(own, "SELECT dbanon.publish(1, 'ten', readers => ARRAY['nobody at all'])")
    role = f"{here.ROLES}auditors"
    [make] = re.findall(r"CREATE ROLE \w+", words)
    readers = find_arguments(words)["readers"]
    own.execute(make.replace("auditors", role))
    try:
        own.execute(f"SELECT dbanon.publish(1, 'ten', readers => {readers.replace('auditors', role)})")
        own.execute("SELECT dbanon.unpublish('ten')")
    finally:
        own.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@tries("Name the person as the source does: SELECT dbanon.remember_subject")
def test_a_person_is_remembered_as_proposed(own: psycopg.Connection) -> None:
    own.execute("SELECT dbanon.forget_subject('ten', 'p7')")
    [statement] = find_statements(refuse(own, "SELECT dbanon.remember_subject('default', ' ')"), "SELECT")
    assert own.execute(statement).fetchone()  # type: ignore[arg-type]
    assert own.execute("SELECT count(*) FROM dbanon.forgotten").fetchone() == (0,)


@tries("Transform it with ST_Transform, or set its SRID")
def test_a_geometry_is_brought_into_the_system_of_the_dataset_as_proposed(own: psycopg.Connection) -> None:
    insert = "INSERT INTO dbanon.site (dataset_id, geom) SELECT 1, {}"
    words = refuse(own, insert.format("'SRID=4326;POINT(-121.5 37)'::geometry"))
    transform, set_srid = re.findall(r"ST_\w+", words)
    own.execute(insert.format(f"{transform}('SRID=4326;POINT(-121.5 37)'::geometry, 32610)"))
    own.execute(insert.format(f"{set_srid}('POINT(1 1)'::geometry, 32610)"))


@tries("Leave out population => ..., and settle_s")
def test_the_people_of_a_published_dataset_stay_as_proposed(own: psycopg.Connection) -> None:
    own.execute("SELECT dbanon.publish(1, 'ten')")
    own.execute("INSERT INTO dbanon.population (name) VALUES ('other')")
    words = refuse(
        own,
        "UPDATE dbanon.dataset SET population_id = (SELECT population_id FROM dbanon.population WHERE name = 'other')",
    )
    assert re.findall(r"(\w+) => \.\.\.", words) == ["population", "settle_s"]
    own.execute("UPDATE dbanon.dataset SET settle_s = settle_s + 1")


# ---- jobs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def job(connection: psycopg.Connection) -> psycopg.Connection:
    """Connection to a database with a source of three days and a job for it."""
    nights.make_source(connection)
    nights.add(connection)
    return connection


@tries("or change that job with replace => true")
def test_a_job_is_changed_as_proposed(job: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        nights.add(job)
    nights.add(job, f", replace => {find_arguments(read_words(caught.value.diag))['replace']}")


@tries('{"read_dsn": "service=replica"}', '{"grid_m": 10', "Write it like further")
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("load", '{"read_dsn": "host=x"}'), ("load", '{"grid_m": "x"}'), ("further", '[{"kind": "x"}]'),
        ("further", '[{"columns": "poi", "kind": "requests", "source": "public.asked"}]'),
    ],
)  # fmt: skip
def test_the_words_of_a_job_are_written_as_proposed(job: psycopg.Connection, name: str, wrong: str) -> None:
    job.execute("CREATE VIEW public.asked AS SELECT cab AS subject, ts AS time, 'x' AS poi FROM public.gps")
    change = f"SELECT dbanon.add_job('taxi', 'public.gps', {name} => %s, replace => true)"
    with pytest.raises(psycopg.Error) as caught:
        job.execute(change, [wrong])  # type: ignore[arg-type]
    proposed = find_arguments(read_words(caught.value.diag))[name].strip("'")
    job.execute(change, [proposed])  # type: ignore[arg-type]


@tries("Give another %s => ..., or leave it out")
def test_an_argument_of_a_job_is_left_out_as_proposed(job: psycopg.Connection) -> None:
    words = refuse(job, "SELECT dbanon.add_job('taxi', 'public.gps', wait => '-1 day', replace => true)")
    assert re.findall(r"(\w+) => \.\.\.", words) == ["wait"]
    job.execute("SELECT dbanon.add_job('taxi', 'public.gps', replace => true)")


@tries("The source of a job must exist", "Make it again, or name another: SELECT dbanon.add_job")
def test_a_source_that_is_gone_is_named_anew_as_proposed(job: psycopg.Connection) -> None:
    job.execute("ALTER TABLE public.gps RENAME TO trips")
    words = refuse(job, "SELECT * FROM dbanon.plan_job('taxi')")
    assert re.findall(r"SELECT dbanon\.add_job\(\.\.\., replace => true\)", words)
    job.execute("SELECT dbanon.add_job('taxi', 'public.trips', replace => true)")
    assert job.execute("SELECT * FROM dbanon.plan_job('taxi')").fetchall()


@tries("Choose another name, or withdraw that release first")
def test_a_release_that_is_in_the_way_of_a_job_is_withdrawn_as_proposed(own: psycopg.Connection) -> None:
    nights.make_source(own)
    own.execute("SELECT dbanon.publish(1, 'taxi')")
    with pytest.raises(psycopg.Error) as caught:
        nights.add(own)
    [withdraw] = find_statements(read_words(caught.value.diag), "SELECT")
    own.execute(withdraw)  # type: ignore[arg-type]
    nights.add(own)


@tries(
    "Check the source, or take it as it is: SELECT",
    "See why, then retry or skip: SELECT",
    "See why: SELECT * FROM dbanon.job_runs",
)
@pytest.mark.parametrize("by_health", [False, True])
def test_a_thin_period_is_taken_as_proposed(connection: psycopg.Connection, by_health: bool) -> None:
    nights.make_source(connection)
    connection.execute(
        "DELETE FROM public.gps WHERE ts >= %s AND ts < %s AND cab <> 'c1'", [nights.find_day(1), nights.find_day(2)]
    )
    nights.add(connection, ", max_tries => 1")
    assert nights.run_night(connection) == "done"
    assert nights.take_step(connection) == "held"
    if by_health:
        rows = connection.execute("SELECT remedy FROM dbanon.health WHERE about = 'job taxi'").fetchall()
    else:
        rows = connection.execute("SELECT error FROM dbanon.job_runs WHERE state = 'held'").fetchall()
    [retry] = re.findall(r"SELECT dbanon\.steer_job\((?:'[^']*'|[^')])*\)", " ".join(row[0] for row in rows))
    assert connection.execute(retry).fetchone() == (1,)  # type: ignore[arg-type]
    assert nights.run_night(connection) == "done"


# ---- what no test tries -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["sql/", "dbanon/"])
def test_every_proposal_is_tried_or_says_why_it_cannot_be(folder: str) -> None:
    assert list_untried(folder) == []


def test_what_tests_try_is_said_and_little_cannot_be() -> None:
    said = [text for lines in list_sentences().values() for text in lines]
    tried, cannot = list_marks("tried"), list_marks("cannot")
    assert [piece for piece in [*tried, *cannot] if not any(piece in text for text in said)] == []
    assert len(cannot) <= len(tried) / 10
