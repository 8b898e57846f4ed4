"""The demo, played once: the gate it shows, its last rows, and the picture of the README, which is of its city."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import psycopg
import pytest

from dbanon.postgres.server import Target, parse
from dbanon.testing import cloned_database
from docs import figures
from tests.acceptance.commands import Done, call, read_json, run_typed
from tests.db.ten_people import CONFIRM
from tests.hints import tries
from tests.pages import ROOT

pytestmark = pytest.mark.db
GATES = ("verify", "publish")


@dataclass(frozen=True)
class Played:
    """A database in which the demo was played, in a folder of its own."""

    url: str
    folder: Path
    done: Done


@pytest.fixture(scope="module")
def played(dbanon_server: Target, dbanon_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder, before = tmp_path_factory.mktemp("demo"), Path.cwd()
    with cloned_database(dbanon_server, dbanon_template) as url:
        os.chdir(folder)
        try:
            yield Played(url, folder, call(url, "demo"))
        finally:
            os.chdir(before)


def test_the_demo_shows_what_the_gate_refuses_and_ends_with_rows_of_the_view(played: Played) -> None:
    assert played.done.code == 0, played.done.stderr
    said = played.done.stdout
    lines = said[said.index("Tried before") :].splitlines()
    assert "1,000 m" in lines[0]
    assert "covers" in lines[0]
    verify, publish = (lines.index(next(one for one in lines if one.startswith(f"  {verb}:"))) for verb in GATES)
    assert "[covers]" in " ".join(lines[verify:publish])
    assert "refused" in " ".join(lines[publish : publish + 2])
    assert "POLYGON" in "".join(lines[publish:])
    assert "█" not in said


def test_the_demo_ends_with_a_page_that_its_owner_alone_may_read(played: Played) -> None:
    [page] = played.folder.iterdir()
    assert page.name == "demo_k5-PRIVATE.html"
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.as_uri() in played.done.stdout
    assert "PRIVATE" in page.read_text()
    assert page.stat().st_size < 300_000


def test_the_gate_leaves_nothing_half(played: Played) -> None:
    with psycopg.connect(played.url) as connection:
        passed = connection.execute("SELECT passed FROM dbanon.verification ORDER BY verification_id").fetchall()
        assert passed == [(True,), (False,), (True,)]
        assert connection.execute("SELECT status FROM dbanon.run").fetchall() == [("verified",)]
        apart = connection.execute(
            "SELECT count(*) FROM dbanon.cloak c FULL JOIN published.demo_k5 p ON p.region = c.region "
            "AND tstzrange(p.valid_from, p.valid_to) = c.period WHERE c.run_id IS NULL OR p.cloak_id IS NULL"
        ).fetchone()
        assert apart == (0,)


def test_the_picture_of_the_readme_is_what_the_script_draws_of_the_demo(played: Played) -> None:
    with psycopg.connect(played.url) as connection:
        row = connection.execute(
            "SELECT jsonb_array_length(clauses) FROM dbanon.verification ORDER BY verification_id DESC LIMIT 1"
        ).fetchone()
    assert row is not None
    file = ROOT / "docs" / "readme.svg"
    assert figures.draw_readme(played.url, row[0]) == file.read_text(), (
        "write it again: python docs/figures.py --readme"
    )
    assert file.stat().st_size < 60_000
    assert "](docs/readme.svg)" in (ROOT / "README.md").read_text()
    marked = [one for one in ElementTree.parse(file).iter() if one.get("style") == figures.RING]
    assert len(marked) == 5


@tries("Next, with data of your own", "With how far off answers are: dbanon report")
def test_the_next_steps_that_it_ends_with_can_be_taken(
    played: Played, dbanon_server: Target, city_files: tuple[Path, Path], tmp_path: Path
) -> None:
    placeholders = {
        "FILE.csv": str(city_files[0]), "REQUESTS.csv": str(city_files[1]), "subject COL": "subject subject",
        "time COL": "time time", "LON": "lon", "LAT": "lat", "a,b": "poi",
    }  # fmt: skip
    said = played.done.stdout
    with cloned_database(dbanon_server, parse(played.url)["dbname"]) as url:
        with psycopg.connect(url) as owner:
            owner.execute(CONFIRM)
        commands = re.findall(r"^  (dbanon .*)$", said[said.index("Next,") :], re.MULTILINE)
        assert len(commands) == 4
        for command in [*re.findall(r"dbanon report .*", said), *commands]:
            done = run_typed(
                url, tmp_path, re.sub("|".join(placeholders), lambda found: placeholders[found[0]], command)
            )
            assert done.code == 0, command + done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["demo_k5-PRIVATE.html"]


def test_the_demo_may_be_played_again_and_tells_all_in_json(played: Played) -> None:
    told = read_json(call(played.url, "--json", "demo", "--no-page"))
    assert told["gate"]["clauses"] == ["covers"]
    assert (told["loads"], len(told["rows"])) == ([], 8)
    assert (told["run"]["release"], told["page"]) == ("demo_k5", None)
