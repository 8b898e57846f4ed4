"""``dbanon import`` as it is typed: a table of the database becomes a dataset that can be run and published."""

import psycopg
import pytest

from tests import wholeness
from tests.acceptance.commands import call, json_of

pytestmark = pytest.mark.db
GPS = ("import", "public.gps", "--subject", "subject", "--time", "t", "--geom", "position")


def test_a_table_is_imported_run_and_published(city_url: str) -> None:
    done = call(city_url, *GPS, "--dataset", "moved", "--json")
    assert done.code == 0, done.stderr
    told = json_of(done)
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
    assert again.code == 3
    assert again.sentence.startswith("What is added must be new.")
    assert call(city_url, *GPS, "--dataset", "moved", "--replace", "--split-gap-s", "60").code == 0
    with psycopg.connect(city_url) as connection:
        assert wholeness.broken(connection) == []


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ("import", "gsp", *GPS[2:], "--dataset", "x"),
            3,
            "The table to import must exist. There is no 'gsp'. Did you mean",
        ),
        (
            (*GPS[:-1], "place", "--dataset", "x"),
            3,
            "public.gps must have a column 'place'. It has: subject, t, position.",
        ),
        ((*GPS, "--dataset", "x", "--append", "--replace"), 2, "Only one of --append and --replace may be given."),
        ((*GPS, "--dataset", "city"), 2, "A new dataset must have a new name. There is a 'city' already."),
        ((*GPS, "--dataset", "x", "--bbox", "1,2,3"), 2, "A box must be four numbers XMIN,YMIN,XMAX,YMAX."),
        ((*GPS, "--dataset", "x", "--bbox", "0,0,1,1"), 3, "At least one row must be usable. Got "),
        ((*GPS, "--dataset", "x", "--tz", "Mars"), 2, "The time zone must be a name such as Europe/Berlin or UTC."),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_sentence(
    city_url: str, words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = call(city_url, *words)
    assert done.code == code, done.stderr
    assert done.sentence.startswith(sentence), done.sentence
    with psycopg.connect(city_url) as connection:
        assert connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (1,)
