"""Pages of releases and runs as users ask for them: what each audience sees, what none shows, and what is refused."""

import hashlib
import importlib
import re
import resource
import signal
import stat
from datetime import UTC
from html import unescape
from pathlib import Path

import psycopg
import pytest

from dbanon.base.errors import DataError, DbanonError, ParameterError
from dbanon.cli import sweeping
from dbanon.database import Database, open_database
from dbanon.reports import reporting
from dbanon.results.figures import Evaluation
from dbanon.testing import logins
from tests.acceptance.commands import call, demand_done, read_json
from tests.clones import clone_of
from tests.facts import expect_refusal
from tests.sweeps import GRID, make_sweep

pytestmark = pytest.mark.db


own_city = clone_of("releases_template")
"""URL of a copy of the database with two releases, to be changed."""


def read_words(html: str) -> str:
    """The text of a page without its style, marks and descriptions of pictures."""
    body = re.sub(r"<(desc|title)[^>]*>.*?</\1>", " ", html.partition("</head>")[2])
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", body).split()))


def test_a_page_for_the_file_says_promise_tests_intruder_and_who_reads(city: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    demand_done(call(city, "report", "city_k5", "-o", str(file)))
    html = file.read_text()
    text = read_words(html)
    for said in (
        *("At least five people", "Singling out", "Linkability", "Inference", "Motivated intruder", "Not tried:"),
        *(
            "Readers and withdrawal",
            "unpublish('city_k5')",
            "Left out",
            "Together with other releases",
            "min_contents",
            "assessed by",
        ),
    ):
        assert said in text, said
    assert "PRIVATE" not in html
    assert len(html) < 300_000
    with open_database(city) as database:
        card = database.card("city_k5")
    assert f"{len(card['attack']['clauses'])} of {len(card['attack']['clauses'])}" in text
    assert card["attack"]["digest"] in text
    assert all(clause["name"] in text for clause in card["attack"]["clauses"])


def test_a_page_for_analysts_is_the_same_with_their_own_login(city: str, anna: str, tmp_path: Path) -> None:
    pages = [tmp_path / "administrator.html", tmp_path / "anna.html"]
    for url, page in zip((city, anna), pages, strict=True):
        demand_done(call(url, "report", "city_k5", "--for", "analysts", "-o", str(page)))
    assert pages[0].read_bytes() == pages[1].read_bytes()
    text = read_words(pages[0].read_text())
    assert "published.left_out" in text
    assert "Motivated intruder" not in text
    assert "dataset city" not in text


def test_truth_does_not_flow_into_pages_surfaces_and_intervals_for_others(own_city: str) -> None:
    """Names, positions, requests, groups and seeds into none; figures of the attack into that for analysts neither."""

    def made() -> list[str]:
        with open_database(own_city) as database:
            pages = [database.report(name, audience="analysts") for name in ("city_k5", "city_sites")]
            pages += [database.report(name) for name in ("city_k5", "city_sites")]
            shown = [
                database.connection.execute(f"SELECT * FROM published.{listed} ORDER BY name").fetchall()  # type: ignore[arg-type]
                for listed in ("surfaces", "releases")
            ]
            return [*map(str, (*pages, *shown)), str(database.compare("city_k5", "city_sites"))]

    before = made()
    with psycopg.connect(own_city, autocommit=True) as owner:
        for table in (
            "trajectory",
            "run",
            "verification",
            "request",
            "membership",
            "region",
            "period",
            "record",
            "site",
        ):
            owner.execute(f"ALTER TABLE dbanon.{table} DISABLE TRIGGER USER")
        owner.execute(
            "UPDATE dbanon.trajectory SET subject = 'x' || trajectory_id, path = ST_Translate(path, 900, 700)"
        )
        owner.execute("UPDATE dbanon.run SET metrics = '{}', seed = 1")
        owner.execute(  # a later evaluation
            "INSERT INTO dbanon.evaluation (run_id, dataset_id, dataset_revision, method, algorithm, params, against,"
            " queries, seed, figures) SELECT run_id, dataset_id, 1, method, algorithm, params, 'published', 1, 1,"
            ' \'[{"name": "interval_factor", "value": 6}]\' FROM dbanon.run'
        )
        owner.execute("DELETE FROM dbanon.request; DELETE FROM dbanon.membership; DELETE FROM dbanon.region")
        owner.execute("DELETE FROM dbanon.period; DELETE FROM dbanon.record; DELETE FROM dbanon.site")
        assert made() == before
        owner.execute("UPDATE dbanon.run SET suppressed = '{}'")
        owner.execute("UPDATE dbanon.verification SET figures = '{}', clauses = '[]'")
    with open_database(own_city) as database:
        assert [database.report(name, audience="analysts") for name in ("city_k5", "city_sites")] == before[:2]


def test_exact_rows_are_on_no_page_for_others(city: str) -> None:
    """Of sensitive-sites: no region of fewer than k people, and no tint of cells with fewer than k."""
    with psycopg.connect(city) as owner:
        [hiding] = owner.execute("SELECT count(*) FROM published.city_sites WHERE crowd >= 4").fetchone()
    with open_database(city) as database:
        for html, figure in (
            (str(database.report("city_sites")), "published-map"),
            (str(database.report("city_sites", audience="analysts")), "published-map"),
            (str(database.compare("city_sites", "city_k5")), "map-a"),
        ):
            assert re.search("exact rows", read_words(html), re.IGNORECASE)
            assert "fewer than 4 people" not in html
            assert 'class="class-0"' not in html
            assert 'class="dots' not in html
            regions = re.findall(r'class="region"', html.partition(f'id="{figure}-title"')[2].partition("</svg>")[0])
            assert 0 < len(regions) <= hiding


def test_a_page_with_truth_is_private_in_every_way(
    verified_city: tuple[Database, int], measured: Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "_measure_run", lambda database, run_id: measured)
    database, run_id = verified_city
    database.publish(run_id, "city_k5")
    url = database.target.url
    told = demand_done(call(url, "--json", "report", "city_k5", "--with-truth", "-o", str(tmp_path / "page.html")))
    file = Path(str(read_json(told)["file"]))
    assert file == tmp_path / "page-PRIVATE.html"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    html = file.read_text()
    assert "<title>[PRIVATE] published.city_k5" in html
    assert 'class="dots private"' in html
    assert html.count(">PRIVATE</text>") >= 1
    assert html.count('class="region marked"') == 1
    [ring, *_] = re.findall(r'd="([^"]*)" class="dots marked"', html)
    assert ring.count("M") >= 5
    assert "usable resolution" in html
    assert "1.23 km [1.1 km to 1.4 km]" in read_words(html)
    lines = database.connection.execute(
        "SELECT action, dataset, release, detail FROM dbanon.audit WHERE action = 'page'"
    ).fetchall()
    assert lines == [("page", "city", "city_k5", {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()})]
    assert len(database.card("city_k5")["pages"]) == 1
    database.connection.execute("SELECT dbanon_internal.note_page(%s, 'what one likes', %s)", [run_id, 64 * "0"])
    last = database.connection.execute("SELECT release FROM dbanon.audit ORDER BY audit_id DESC LIMIT 1").fetchone()
    assert last == (None,)
    with expect_refusal("DA001", "There is no run 99"):
        database.connection.execute("SELECT dbanon_internal.note_page(99, 'city_k5', %s)", [64 * "0"])


def test_streets_are_under_each_map_and_the_surface_is_beside_the_regions(own_city: str) -> None:
    with open_database(own_city) as database:
        database.connection.execute(
            "CREATE TABLE public.lanes AS SELECT public.ST_Transform("
            "public.ST_BoundingDiagonal(public.ST_Collect(region)), 4326) AS lane FROM published.city_k5"
        )
        ways = {"file": 2, "analysts": 2, "operators": 4}
        for audience, maps in ways.items():
            more = {"with_truth": True} if audience == "operators" else {"audience": audience}
            html = str(database.report("city_k5", streets="public.lanes", **more))  # type: ignore[arg-type]
            pictures = {name: re.search(rf'id="{name}-map-title".*?</svg>', html, re.DOTALL) for name in SIDE_BY_SIDE}
            drawn = {name: picture[0] for name, picture in pictures.items() if picture}
            assert len(drawn) == maps, audience
            assert all('class="streets"' in picture for picture in drawn.values())
            squares = re.findall(r'd="([^"]*)" class="class-(\d)"', drawn["surface"])
            assert len(squares) > 1
            assert "evenly" not in drawn or squares != re.findall(r'd="([^"]*)" class="class-(\d)"', drawn["evenly"])


SIDE_BY_SIDE = "private", "published", "surface", "evenly"


def test_a_page_with_truth_says_why_nothing_was_measured(own_city: str) -> None:
    """A person of the run is gone: the data of its time are not as they were."""
    with open_database(own_city) as database:
        database.connection.execute(
            "DELETE FROM dbanon.trajectory WHERE subject = (SELECT min(subject) FROM dbanon.trajectory)"
        )
        text = read_words(str(database.report("city_k5", with_truth=True)))
    assert "Not measured" in text
    assert "changed since" in text


def test_figures_of_a_page_are_those_of_the_server(city: str) -> None:
    with open_database(city) as database:
        text = read_words(str(database.report("city_k5", audience="analysts")))
    with psycopg.connect(city) as owner:
        share = owner.execute("SELECT percent_left_out FROM published.parts WHERE name = 'city_k5'").fetchone()[0]
        half = owner.execute(
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY greatest(ST_XMax(region) - ST_XMin(region),"
            " ST_YMax(region) - ST_YMin(region))) FROM published.city_k5 c,"
            " generate_series(1, c.subjects)"
        ).fetchone()[0]
        rows = owner.execute("SELECT count(*) FROM published.city_k5").fetchone()[0]
        times = owner.execute("SELECT valid_from FROM published.city_k5 GROUP BY 1 ORDER BY count(*), 1").fetchall()
    assert f"{rows:,} rows" in text
    # Neither the busiest time nor the quietest: it would be one that a few people make.
    assert f"hold at {times[(len(times) - 1) // 2][0].astimezone(UTC):%H:%M} and hide people" in text
    assert (f"{100 - share} %" if share is not None else "fewer than 5") in text
    said = re.search(r"half under ([\d.,]+) (k?m)", text) or re.search(r"half are under ([\d.,]+) (k?m)", text)
    assert said is not None
    told = float(said[1].replace(",", "")) * (1000 if said[2] == "km" else 1)
    assert told == pytest.approx(half, rel=0.15)


def test_a_run_that_is_not_published_has_a_page_too(verified_city: tuple[Database, int]) -> None:
    database, run_id = verified_city
    html = str(database.report(run_id))
    assert f"run {run_id}" in html
    assert "It is not published" in html
    assert 'id="published-map-title"' in html
    assert database.connection.execute("SELECT count(*) FROM dbanon.release").fetchone() == (0,)


def test_a_run_without_requests_is_not_said_to_keep_what_is_promised_of_requests(own_city: str) -> None:
    with open_database(own_city) as database:
        database.connection.execute("DELETE FROM dbanon.request")
        run = database.run("tp-aware", dataset="city", params={"k": 4, "instants": 5})
        idle = {clause.name for clause in run.verdict.clauses if not clause.tested}
        assert idle == {"requests-sent", "requests-set", "requests-few", "requests-complete"}
        text = read_words(str(database.report(run.run_id)))
    number = len(run.verdict.clauses) - len(idle)
    assert f"{number} of {number}" in text
    assert "Found: nothing" not in text
    assert "4 clauses with nothing to test" in text
    assert {"longer_side_50_m", "longer_side_90_m"} <= run.metrics.keys()


def test_two_releases_of_different_promises_are_side_by_side_and_not_ranked(city: str, tmp_path: Path) -> None:
    demand_done(call(city, "compare", "city_k5", "city_sites", "-o", str(tmp_path / "two.html")))
    text = read_words((tmp_path / "two.html").read_text())
    assert "neither is better" in text
    assert "published.city_k5" in text
    assert "published.city_sites" in text


def test_what_no_page_can_be_made_of_is_refused_in_a_sentence(own_city: str, anna: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    where = ("-o", str(file))
    with open_database(own_city) as database:
        database.unpublish("city_sites")
        database.connection.execute(
            'CREATE TABLE public."no srid" AS SELECT public.ST_MakeLine('
            "public.ST_MakePoint(0, 0), public.ST_MakePoint(1, 1)) AS line"
        )
    for url, arguments, code, named in (
        (own_city, ("nothing",), 2, "nothing"),
        (own_city, ("city_sites",), 2, "city_sites"),
        (own_city, ("99",), 2, "99"),
        (own_city, ("1", "--for", "analysts"), 2, "run 1"),
        (own_city, ("city_k5", "--for", "analysts", "--with-truth"), 2, "--with-truth"),
        (own_city, ("city_k5", "--tz", "Mars/Base"), 2, "Mars/Base"),
        (own_city, ("city_k5", "--streets", "public.lanes"), 2, "public.lanes, with 0"),
        (own_city, ("city_k5", "--streets", "public.no srid"), 2, "public.no srid"),
        (own_city, ("city_k5", "--streets", 'public."no srid"'), 2, "with an SRID"),
        (anna, ("city_k5",), 1, "rights"),
        (anna, ("city_k5", "--with-truth"), 1, "rights"),
    ):
        told = call(url, "report", *arguments, *where)
        assert told.code == code, (arguments, told.stderr)
        assert named in told.sentence, (arguments, told.sentence)
        assert list(tmp_path.iterdir()) == []


def test_no_half_page_is_left_where_the_disk_is_full(city: str, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    html, found = "x" * 100_000, make_sweep(*GRID)
    importlib.import_module("dbanon.pages.sweep")  # not below, where Python could not keep what it compiles
    file = tmp_path / "page.html"
    file.write_text("old")
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(DataError, match="room"):
            reporting.write(file, html, private=False)
        with pytest.raises(DataError, match="room"):
            sweeping._write(file, found)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_login_that_may_not_read_a_release_gets_no_page(city: str) -> None:
    with logins(city) as make, open_database(make("pg_monitor")) as database, pytest.raises(ParameterError, match="k5"):
        database.report("city_k5", audience="analysts")


def test_an_operator_makes_the_page_for_the_file_and_the_private_one(own_city: str) -> None:
    with logins(own_city) as make, open_database(make("operator")) as database:
        assert "assessed by" in str(database.report("city_k5"))
        html = str(database.report("city_k5", with_truth=True))
        assert 'class="dots private"' in html
        assert "Not measured" in read_words(html)


def test_a_run_that_is_refused_or_was_changed_since_has_no_page_to_sign(verified_city: tuple[Database, int]) -> None:
    database, run_id = verified_city
    database.connection.execute("ALTER TABLE dbanon.region DISABLE TRIGGER USER")
    database.connection.execute(
        "UPDATE dbanon.region SET crowd = crowd + 1 WHERE ctid = (SELECT min(ctid)"
        " FROM dbanon.region WHERE run_id = %s)",
        [run_id],
    )
    database.connection.execute("UPDATE dbanon.verification SET outdated = true WHERE run_id = %s", [run_id])
    with pytest.raises(ParameterError, match="attacked by an earlier version"):
        database.report(run_id)
    database.connection.execute("UPDATE dbanon.verification SET outdated = false WHERE run_id = %s", [run_id])
    for said in ("changed since its attack", "keeps [0-9]+ of"):
        for page in (lambda: database.report(run_id), lambda: database.compare(run_id, run_id)):
            with pytest.raises(ParameterError, match=said):
                page()
        assert not database.verify(run_id).verdict.passed


def test_a_surface_that_was_changed_since_is_neither_published_nor_signed(verified_city: tuple[Database, int]) -> None:
    database, run_id = verified_city
    for change in ("speed_mps = 99", "sums[3] = 7"):
        assert database.verify(run_id).verdict.passed
        database.connection.execute(
            f"UPDATE dbanon.verification SET surface.{change} WHERE run_id = %s",  # type: ignore[arg-type]
            [run_id],
        )
        with pytest.raises(DbanonError, match="changed since"):
            database.publish(run_id, "city_k5")
        with pytest.raises(ParameterError, match="changed since"):
            database.report(run_id)


def test_exact_rows_neither_move_the_map_nor_make_its_squares_larger(own_city: str) -> None:
    def drawn() -> str:
        with open_database(own_city) as database:
            html = str(database.report("city_sites"))
        return html.partition('id="published-map-title"')[2].partition("</svg>")[0]

    before = drawn()
    with psycopg.connect(own_city, autocommit=True) as owner:
        [table] = owner.execute(
            "SELECT 'dbanon.release_' || release_id FROM dbanon.release WHERE name = 'city_sites'"
        ).fetchone()
        owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        moved = owner.execute(f"UPDATE {table} SET region = ST_Translate(region, 300000, 0) WHERE crowd < 4")
        owner.execute("ALTER TABLE dbanon.release DISABLE TRIGGER USER")
        owner.execute("UPDATE dbanon.release SET extent[3] = extent[3] + 300000 WHERE name = 'city_sites'")
    assert moved.rowcount > 0
    assert drawn() == before
