"""An installation without extras: what it does, and the one sentence of what it does not."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.main import get_command

from dbanon.base.extras import PACKAGES
from dbanon.cli.main import app
from tests.acceptance.commands import Done
from tests.without_parts import list_absent, run

ROOT = Path(__file__).parents[2]
RELEASE = "plain"


def run_all(url: str, *commands: tuple[str, ...], parts: tuple[str, ...] = (), cwd: Path | None = None) -> list[Done]:
    """Run commands, each of which must succeed."""
    done = run([("--dsn", url, *command) for command in commands], *parts, cwd=cwd)  # type: ignore[arg-type]
    for command, one in zip(commands, done, strict=True):
        assert one.code == 0, (command, one.stderr)
    return done


def test_the_help_needs_no_part():
    for done in run([("--help",), ("run", "--help"), ("worker", "--help"), ("load", "sites", "--help")]):
        assert (done.code, "Usage" in done.stdout) == (0, True), done.stderr


def test_what_is_slow_to_import_is_not_imported_by_the_help_or_by_a_list(city_url: str) -> None:
    slow = {"alembic", "numpy", "pandas", "sqlalchemy", *chain(*PACKAGES.values())}
    for command, also in ((("--help",), {"psycopg"}), (("--dsn", city_url, "releases"), set())):
        program = [sys.executable, "-X", "importtime", "-m", "dbanon", *command]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "dbanon.cli.main" in imported
        assert not imported & (slow | also)


GIVEN = ("tp-aware", "--dataset", "city", "-p", "k=5")
WORKING = (
    ("db", "upgrade", "--share-roles"),
    ("publish", "{run}", RELEASE),
    ("methods",),
    ("methods", "kte"),
    ("datasets",),
    ("plan", *GIVEN),
    ("submit", *GIVEN),
    ("cancel", "{next}"),
    ("runs",),
    ("releases",),
    ("card", RELEASE),
    ("card", RELEASE, "--json-ld"),
    ("check",),
    ("import", "public.gps", "--dataset", "other", "--subject", "subject", "--time", "t", "--geom", "position"),
    ("job", "list"),
    ("report", RELEASE),
    ("report", "{run}", "-o", "run.html"),
    ("compare", RELEASE, "{run}"),
    ("export", RELEASE, "it.csv"),
    ("export", RELEASE, "it.geojson"),
    ("drop-dataset", "other", "--yes"),
    ("unpublish", RELEASE),
)


@pytest.mark.stress
def test_an_operator_works_without_parts_where_a_worker_computes(
    city_url: str, city_template: tuple[str, int], tmp_path: Path
) -> None:
    run_id = city_template[1]
    commands = [tuple(word.format(run=run_id, next=run_id + 1) for word in words) for words in WORKING]
    done = run_all(city_url, *commands, cwd=tmp_path)
    assert str(run_id) in done[WORKING.index(("runs",))].stdout
    assert {one.name for one in tmp_path.iterdir()} >= {f"{RELEASE}.html", "run.html", "it.csv", "it.geojson"}


LACKING: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "load": (("load", "trajectories", "it.csv", "--dataset", "city"), ("files",)),
    "load sites": (("load", "sites", "it.csv", "--dataset", "city"), ("files",)),
    "run": (("run", "tp-aware", "--dataset", "city"), ("compute",)),
    "verify": (("verify", "{run}"), ("compute",)),
    "worker": (("worker",), ("compute",)),
    "compiling": (("_compile",), ("compute",)),
    "evaluate": (("evaluate", "{run}"), ("compute",)),
    "sweep": (("sweep", "tp-aware", "--dataset", "city", "-p", "k=5,6"), ("compute",)),
    "report with truth": (("report", "{run}", "--with-truth"), ("compute",)),
    "synth": (("synth", "--dataset", "it"), ("files", "compute")),
    "synth to files": (("synth", "--csv", "it"), ("files", "compute")),
    "demo": (("demo",), ("files", "compute")),
    "export": (("export", "city_k5", "it.gpkg"), ("files",)),
}


def test_what_needs_a_part_says_which_in_one_sentence_and_does_nothing(
    city: str, city_template: tuple[str, int], tmp_path: Path
) -> None:
    commands = [[word.format(run=city_template[1]) for word in words] for words, _ in LACKING.values()]
    with psycopg.connect(city) as connection:
        before = connection.execute("SELECT count(*), max(run_id) FROM dbanon.run").fetchone()
        told = run([("--dsn", city, *command) for command in commands], cwd=tmp_path)
        for (_, parts), done in zip(LACKING.values(), told, strict=True):
            assert done.code == 1, done.stderr
            assert f"pip install 'dbanon[{','.join(parts)}]'" in done.sentence
            assert all(name in done.sentence for part in parts for name in PACKAGES[part])  # type: ignore[index]
        assert connection.execute("SELECT count(*), max(run_id) FROM dbanon.run").fetchone() == before
    assert list(tmp_path.iterdir()) == []


OTHERS = (
    *(("load", what, "it.csv", "--dataset", "city") for what in ("cells", "stations", "quasi-identifiers")),
    ("load", "pois", "it.csv", "--dataset", "city", "--category", "kind"),
    ("load", "requests", "it.csv", "--dataset", "city", "--columns", "poi"),
    ("forget", "--dataset", "city", "--subject", "nobody"),
    ("remember", "--population", "default", "--subject", "nobody"),
    ("forget-before", "city", "2000-01-01T00:00:00Z"),
    ("job", "add", "nights", "--dataset", "nights", "--source", "public.gps", "--method", "tp-aware", "-p", "k=5"),
    *(("job", what, "nights") for what in ("plan", "pause", "resume", "retry", "skip", "remove")),
    ("job", "run"),
    ("job", "apply", "it.toml"),
    *(("db", what) for what in ("status", "url", "script", "psql")),
    ("drop", "1"),
    ("drop-load", "1"),
    ("db", "uninstall", "--yes"),
)


@pytest.mark.stress
def test_every_other_command_works_or_says_one_sentence(city_url: str, tmp_path: Path) -> None:
    for words, done in zip(OTHERS, run([("--dsn", city_url, *words) for words in OTHERS], cwd=tmp_path), strict=True):
        assert done.code == 0 or "dbanon failed" not in done.sentence, (words, done.stderr)


def test_every_command_is_tried_here() -> None:
    every = [*WORKING, *(words for words, _ in LACKING.values()), *OTHERS]
    of_the_user = {("db", "up"), ("db", "down")}
    assert set(_list_named(get_command(app))) - of_the_user <= {words[:n] for words in every for n in (1, 2)}


def _list_named(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, one in group.commands.items():
        yield from _list_named(one, (*before, name)) if hasattr(one, "commands") else [(*before, name)]


DOORS = {
    "import dbanon.synth": "files,compute",
    "from dbanon.methods import METHODS; METHODS['mob'].prepare('gen-ag', None)": "compute",
    "from dbanon.methods import METHODS; METHODS['mob'].anonymise(None, 'gen-ag', None, None)": "compute",
}


@pytest.mark.parametrize("program", DOORS)
def test_what_python_programs_import_says_the_sentence_too(program: str) -> None:
    code = f"import sys, tests.without_parts as w; sys.meta_path.insert(0, w.Blocked({list_absent()})); {program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert f"pip install 'dbanon[{DOORS[program]}]'" in done.stderr.splitlines()[-1]


def test_files_are_loaded_without_what_computes(city_url: str, city_files: tuple[Path, Path], tmp_path: Path) -> None:
    load = ("load", "trajectories", str(city_files[0]), "--dataset", "other", "--x", "lon", "--y", "lat")
    run_all(city_url, load, ("publish", "1", RELEASE), ("export", RELEASE, "it.parquet"),
        ("export", RELEASE, "it.gpkg"),
         parts=("files",), cwd=tmp_path)  # fmt: skip


@pytest.mark.stress
def test_a_run_is_computed_without_what_reads_files(city_url: str) -> None:
    given = ("run", "sensitive-sites", "--dataset", "city", "-p", "k=5")
    [done] = run([("--dsn", city_url, *given)], "compute")
    assert done.code == 3, done.stderr  # there are no sites
    run_all(city_url, ("verify", "1"), ("evaluate", "1"), ("run", "tp-aware", "--dataset", "city", "-p", "k=6"),
         parts=("compute",))  # fmt: skip


def test_geojson_has_the_rows_in_degrees_and_the_promise(city: str, anna: str, tmp_path: Path) -> None:
    run_all(anna, ("export", "city_k5", "it.geojson", "--where", "seq = 1"), cwd=tmp_path)
    text = (tmp_path / "it.geojson").read_text()
    told = json.loads(text)
    with psycopg.connect(city) as connection:
        query = """SELECT cloak_id, crowd, requests, valid_from, ST_XMin(b), ST_YMin(b), ST_XMax(b), ST_YMax(b)
            FROM (SELECT *, ST_Transform(region, 4326) AS b FROM published.city_k5) v WHERE seq = 1 ORDER BY cloak_id"""
        rows = connection.execute(query).fetchall()
        promise = connection.execute("SELECT obj_description('published.city_k5'::regclass)").fetchone()
    assert (told["type"], told["name"], [told["description"]]) == ("FeatureCollection", "city_k5", list(promise or ()))
    assert len(told["features"]) == len(rows) > 1
    for feature, (cloak, crowd, requests, since, *box) in zip(told["features"], rows, strict=True):
        has = feature["properties"]
        assert (feature["type"], has["cloak_id"], has["crowd"], has["requests"]) == ("Feature", cloak, crowd, requests)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", has["valid_from"])
        assert has["valid_from"][:10] == since.date().isoformat()
        x, y = zip(*feature["geometry"]["coordinates"][0], strict=True)
        assert [min(x), min(y), max(x), max(y)] == pytest.approx(box, abs=1e-7)
        area = sum(a * d - b * c for a, b, c, d in zip(x, y, x[1:], y[1:], strict=False))
        assert area > 0  # counterclockwise
    assert text.count("\n") == len(rows) + 2
