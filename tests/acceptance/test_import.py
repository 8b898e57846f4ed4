"""``dbanon import`` as it is typed: a table of the database becomes a dataset that can be run and published."""

import psycopg
import pytest

from tests import wholeness
from tests.acceptance.commands import call, demand_done, read_json
from tests.facts import demand_refused

pytestmark = pytest.mark.db
GPS = ("import", "public.gps", "--subject", "subject", "--time", "t", "--geom", "position")


def test_a_table_is_imported_run_and_published(city_url: str) -> None:
    done = demand_done(call(city_url, *GPS, "--dataset", "moved", "--json"))
    told = read_json(done)
    assert (told["kind"], told["source"], told["subjects"]) == ("trajectories", ["table public.gps"], 300)
    assert told["read"] == told["kept"]
    assert call(city_url, "run", "tp-aware", "--dataset", "moved", "-p", "k=5", "--publish", "moved_k5").code == 0
    with psycopg.connect(city_url) as connection:
        compared = connection.execute(
            "SELECT sum(ST_NPoints(path)) FILTER (WHERE name = 'moved') "
            "     = sum(ST_NPoints(path)) FILTER (WHERE name = 'city'), "
            "count(DISTINCT ST_AsEWKB(path)) FROM dbanon.trajectory JOIN dbanon.dataset USING (dataset_id)"
        ).fetchone()
    assert compared == (True, 300)  # the same paths, to the last bit


def test_importing_twice_adds_nothing_and_replacing_starts_again(city_url: str) -> None:
    assert call(city_url, *GPS, "--dataset", "moved").code == 0
    again = call(city_url, *GPS, "--dataset", "moved", "--append")
    demand_refused(again, 3, "nothing to add")
    assert call(city_url, *GPS, "--dataset", "moved", "--replace", "--split-gap-s", "60").code == 0
    with psycopg.connect(city_url) as connection:
        assert wholeness.find_broken(connection) == []


def test_a_table_is_imported_for_what_is_new_without_who_was_forgotten(city_url: str) -> None:
    with psycopg.connect(city_url) as connection:
        connection.execute(
            "CREATE TABLE public.grown AS SELECT subject AS cab, t AS ts, ST_X(p) AS lon, ST_Y(p) AS lat "
            "FROM (SELECT subject, t, ST_Transform(position::geometry, 4326) AS p FROM public.gps) g"
        )
        [[somebody]] = connection.execute("SELECT min(cab) FROM public.grown").fetchall()
    grown = ("import", "public.grown", "--subject", "cab", "--time", "ts", "--x", "lon", "--y", "lat", "--new")
    first = read_json(call(city_url, *grown, "--dataset", "grown", "--filter", f"cab <> '{somebody}'", "--json"))
    assert (first["subjects"], first["left_out"]) == (299, {})
    second = read_json(call(city_url, *grown, "--dataset", "grown", "--json"))
    assert (second["subjects"], second["left_out"]["known"]) == (1, first["kept"])
    with psycopg.connect(city_url) as connection:
        assert wholeness.find_broken(connection) == []
    assert call(city_url, "forget", "--dataset", "grown", "--subject", somebody).code == 0
    third = call(city_url, *grown, "--dataset", "grown", "--json")
    assert (third.code, read_json(third)["left_out"]["forgotten"]) == (0, second["kept"])
    assert call(city_url, "remember", "--population", "default", "--subject", somebody).code == 0
    assert read_json(call(city_url, *grown, "--dataset", "grown", "--json"))["kept"] == second["kept"]


@pytest.mark.many
@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (
            ("import", "gsp", *GPS[2:], "--dataset", "x"),
            3,
            ("'gsp'", "gps"),
        ),
        (
            (*GPS[:-1], "place", "--dataset", "x"),
            3,
            ("public.gps", "'place'", "subject, t, position"),
        ),
        ((*GPS, "--dataset", "x", "--append", "--replace"), 2, ("--append", "--replace", "Choose one")),
        ((*GPS, "--dataset", "city"), 2, ("'city'", "already")),
        ((*GPS, "--dataset", "x", "--bbox", "1,2,3"), 2, ("four", "XMIN,YMIN,XMAX,YMAX")),
        ((*GPS, "--dataset", "x", "--bbox", "0,0,1,1"), 3, ("usable", "outside-bbox")),
        ((*GPS, "--dataset", "x", "--tz", "Mars"), 2, ("time zone", "'Mars'")),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_sentence(
    city_url: str, words: tuple[str, ...], code: int, facts: tuple[str, ...]
) -> None:
    done = call(city_url, *words)
    demand_refused(done, code, *facts)
    with psycopg.connect(city_url) as connection:
        assert connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (1,)
