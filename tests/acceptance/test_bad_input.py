"""Bad input of every kind: one sentence, its exit code, and nothing left behind."""

import datetime
import gzip
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbanon.base.console import make_visible
from dbanon.cli import loading
from dbanon.database import open_database
from dbanon.postgres.server import Target
from dbanon.testing import cloned_database
from tests import wholeness
from tests.acceptance.commands import call, demand_done, read_json
from tests.acceptance.samples import GOOD, HEAD, SECRETS, START_S, format_fixes, make_parquet
from tests.facts import demand_refused

pytestmark = pytest.mark.db

LINES = GOOD.count("\n")

FILES: dict[str, bytes | None] = {
    "missing.csv": None,
    "empty.csv": b"",
    "empty.csv.gz": gzip.compress(b""),
    "lines.csv": b"\n\n\n",
    "binary.csv": bytes(range(256)) * 64,
    "picture.csv": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
    "archive.csv": b"PK\x03\x04\x14\x00\x00\x00" + bytes(range(256)) * 8,
    "header.csv": HEAD.encode(),
    "header.csv.gz": gzip.compress(HEAD.encode()),
    "nobody.csv": GOOD.replace("subject", "cab", 1).encode(),
    "values.csv": format_fixes(4).encode(),
    "useless.csv": (
        HEAD + f"ysolde,{START_S},999,53.1\n,{START_S},8.2173,53.1415\ntristan,never,8.2173,53.1415\n"
    ).encode(),
    "nan.csv": (HEAD + f"ysolde,{START_S},nan,53.1415\ntristan,{START_S},8.2173,NaN\n").encode(),
    "cut.csv.gz": gzip.compress(GOOD.encode() * 300)[:-30],
    "garbled.csv.gz": gzip.compress(GOOD.encode() * 300)[:60] + b"\xff" * 200,
    "cut.parquet": make_parquet()[:-20],
    "bare.parquet": b"PAR1",
    "short.csv": (GOOD + "ysolde,1,8.2173\n").encode(),
    "long.csv": (GOOD + "ysolde,1,8.2173,53.1415,1\n").encode(),
    "nul.csv": GOOD.replace("ysolde1", "ysolde\0001").encode(),
    "latin.csv": GOOD.replace("ysolde1", "ysoldé").encode("latin-1"),
    "wide.csv": GOOD.encode("utf-16"),
    "twice.csv": f"subject,time,x,y,x\nysolde,{START_S},8.2173,53.1415,1\n".encode(),
    "twice.parquet": b"",  # made below: pyarrow's dictionary of columns cannot name one twice
    "none.parquet": make_parquet(subject=pa.array([], pa.string()), time=[], x=[], y=[]),
    "naive.csv": (HEAD + "ysolde,2008-06-04 08:00:00,8.2173,53.1415\n").encode(),
    "dates.parquet": make_parquet(time=pa.array([datetime.date(2008, 6, 4)] * 3)),
    "truths.parquet": make_parquet(x=pa.array([True, False, True])),
    "endless.csv": (HEAD + "".join(f"{i:x}" for i in range(9000)) + f",{START_S},8.2173,53.1415\n").encode(),
    "good.csv": GOOD.encode(),
    "alone.csv": (HEAD + format_fixes(1)).encode(),
    "clocks.csv": (
        GOOD + "ysolde1,1900-01-01T00:00:00Z,8.2173,53.1415\nysolde1,1950-01-01T00:00:00Z,8.2173,53.1415\n"
    ).encode(),
    "sites.csv": b"x,y,name\n8.2173,53.1415,tristan's clinic\n8.2173,53.1415,\n",
    "headless.csv": b"8.2173,53.1415,clinic\n" * 2,
    "nan_sites.csv": b"x,y\nnan,53.1415\n8.2173,NaN\ninf,53.1415\n8.2173,-Infinity\n",
    "swapped_sites.csv": b"x,y\n53.1415,8.2173\n53.1416,8.2174\n",
    "shapes.csv": b'area\n"POLYGON ((8.2173 53.1415, 8.3"\ntristan\nPOINT EMPTY\n\xc3\x89\n',
    "curves.csv": b'area\n"CURVEPOLYGON((8.2173 53.1415, 8.3 53.2, 8.3 53.1, 8.2173 53.1415))"\n',
    "huge_shapes.csv": b"area\nPOINT(1e400 53.1415)\nPOINT(8.2173 -1e400)\n",
    "swapped_shapes.csv": b'area\n"LINESTRING (53.1415 8.2173, 53.1416 8.2174)"\n',
    "lat_lon.csv": b"lat,lon\n8.2173,53.1415\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every file of `FILES`, and a directory."""
    made = tmp_path_factory.mktemp("bad")
    for name, content in FILES.items():
        if content is not None:
            (made / name).write_bytes(content)
    twice = pa.Table.from_arrays([pa.array(["ysolde"]), *[pa.array([1.0])] * 4], ["subject", "time", "x", "x", "y"])
    pq.write_table(twice, made / "twice.parquet")
    (made / "folder.csv").mkdir()
    return made


@pytest.fixture(scope="module")
def url(dbanon_server: Target, dbanon_template: str, folder: Path) -> Iterator[str]:
    """URL of a database with four people and two sites (good), one (alone), wild clocks, and a release named taken."""
    with cloned_database(dbanon_server, dbanon_template) as made:
        for dataset in ("good", "alone", "clocks"):
            assert call(made, "load", "trajectories", str(folder / f"{dataset}.csv"), "--dataset", dataset).code == 0
        demand_done(call(made, "load", "sites", str(folder / "sites.csv"), "--dataset", "good", "--name", "name"))
        demand_done(
            call(made, "run", "tp-aware", "--dataset", "good", "-p", "k=2", "-p", "instants=3", "--publish", "taken")
        )
        yield made


TABLES = (
    "dataset",
    "trajectory",
    "load",
    "quarantine",
    "request",
    "site",
    "cloak",
    "membership",
    "verification",
    "release",
)


def read_state(url: str) -> list[Any]:
    """Everything a command could leave, runs that failed aside."""
    counts = [f"(SELECT count(*) FROM dbanon.{name})" for name in TABLES]
    relations = "pg_class WHERE relnamespace IN ('dbanon'::regnamespace, 'published'::regnamespace)"
    counts += ["(SELECT count(*) FROM dbanon.run WHERE status <> 'failed')", f"(SELECT count(*) FROM {relations})"]
    with psycopg.connect(url) as connection:
        return [wholeness.find_broken(connection), *connection.execute(f"SELECT {', '.join(counts)}").fetchone()]


def load(file: str, *options: str) -> tuple[str, ...]:
    return ("load", "trajectories", "{folder}/" + file, "--dataset", "new", *options)


def name_sites_command(file: str, *options: str, dataset: str = "good") -> tuple[str, ...]:
    return ("load", "sites", "{folder}/" + file, "--dataset", dataset, *options)


def run(*options: str, dataset: str = "good") -> tuple[str, ...]:
    return ("run", "tp-aware", "--dataset", dataset, *options)


def name_parameter_command(text: str) -> tuple[str, ...]:
    return run("-p", text)


def name(text: str) -> tuple[str, ...]:
    return run("-p", "k=2", "-p", "instants=3", "--publish", text)


RELEASE_NAME = ("release", "lower-case letters", 50)

# What it is: (arguments, exit code, facts).
CASES: dict[str, tuple[tuple[str, ...], int, tuple[object, ...]]] = {
    # ---- files
    "no such file": (load("missing.csv"), 3, ("{folder}/missing.csv", "exist")),
    "a directory": (load("folder.csv"), 3, ("{folder}/folder.csv", ".gpx or .plt")),
    "empty": (load("empty.csv"), 3, ("empty.csv", "empty")),
    "empty and gzipped": (load("empty.csv.gz"), 3, ("empty.csv.gz", "empty")),
    "line ends only": (load("lines.csv"), 3, ("lines.csv", "empty")),
    "binary": (load("binary.csv"), 3, ("binary.csv", "binary")),
    "a picture": (load("picture.csv"), 3, ("picture.csv", "binary")),
    "an archive": (load("archive.csv"), 3, ("archive.csv", "a ZIP archive")),
    "header only": (load("header.csv"), 3, ("header.csv", "rows", "none")),
    "gzipped header": (load("header.csv.gz"), 3, ("header.csv.gz", "rows", "none")),
    "no rows in Parquet": (load("none.parquet"), 3, ("none.parquet", "rows", "none")),
    "missing column": (load("nobody.csv"), 3, ("nobody.csv", "'subject'", "cab, time, x, y")),
    "no header": (load("values.csv"), 3, ("values.csv", "first line", "header")),
    "nothing usable": (
        load("useless.csv"),
        3,
        (3, "1 missing-subject", "1 position-out-of-range", "1 unparsable-time"),
    ),
    "only NaN": (load("nan.csv"), 3, (2, "2 non-finite-position")),
    "a cut off .gz": (load("cut.csv.gz"), 3, ("cut.csv.gz", "gzip")),
    "a garbled .gz": (load("garbled.csv.gz"), 3, ("garbled.csv.gz", "gzip")),
    "a cut off Parquet": (load("cut.parquet"), 3, ("cut.parquet", "breaks off")),
    "four bytes of Parquet": (load("bare.parquet"), 3, ("bare.parquet", "breaks off")),
    "a cell too few": (load("short.csv"), 3, ("short.csv", LINES + 1, 3, 4)),
    "a cell too many": (load("long.csv"), 3, ("long.csv", LINES + 1, 5, 4)),
    "NUL bytes": (load("nul.csv"), 3, ("nul.csv", "binary")),
    "not UTF-8": (load("latin.csv"), 3, ("latin.csv", "UTF-8")),
    "UTF-16": (load("wide.csv"), 3, ("wide.csv", "UTF-8")),
    "a column twice": (load("twice.csv"), 3, ("twice.csv", "'x'", "several")),
    "a column twice in Parquet": (load("twice.parquet"), 3, ("twice.parquet", "'x'", "several")),
    "no zone": (load("naive.csv"), 2, ("zone", "--tz")),
    "dates": (load("dates.parquet"), 2, ("zone", "--tz")),
    "truth values for positions": (load("truths.parquet"), 3, (3, "3 unparsable-position")),
    "an endless subject": (load("endless.csv"), 3, (1,)),
    "two files, one missing": (
        ("load", "trajectories", "{folder}/good.csv", "{folder}/missing.csv", "--dataset", "new"),
        3,
        ("{folder}/missing.csv", "exist"),
    ),
    "requests without their column": (
        ("load", "requests", "{folder}/good.csv", "--dataset", "good", "--columns", "poi"),
        3,
        ("good.csv", "'poi'", "subject, time, x, y"),
    ),
    "requests without columns": (
        ("load", "requests", "{folder}/good.csv", "--dataset", "good", "--columns", " , "),
        2,
        ("none", "--columns"),
    ),
    "requests for no dataset": (
        ("load", "requests", "{folder}/good.csv", "--dataset", "goood", "--columns", "x"),
        2,
        ("'goood'", "'good'"),
    ),
    # ---- sites
    "sites in no file": (name_sites_command("missing.csv"), 3, ("{folder}/missing.csv", "exist")),
    "sites in an empty file": (name_sites_command("empty.csv"), 3, ("empty.csv", "empty")),
    "sites below no header": (name_sites_command("headless.csv"), 3, ("headless.csv", "first line")),
    "sites without rows": (name_sites_command("header.csv"), 3, ("header.csv", "rows", "none")),
    "sites without x": (name_sites_command("lat_lon.csv"), 3, ("lat_lon.csv", "'x'", "lat, lon", "--x, --y, --name")),
    "sites without their name": (name_sites_command("sites.csv", "--name", "nme"), 3, ("sites.csv", "'nme'")),
    "sites at NaN": (name_sites_command("nan_sites.csv"), 3, (4, "4 non-finite-position")),
    "sites in words": (
        name_sites_command("sites.csv", "--x", "name"),
        3,
        (2, "1 missing-position", "1 unparsable-position"),
    ),
    "sites with swapped axes": (
        name_sites_command("swapped_sites.csv", "--replace"),
        2,
        ("'x'", "'y'", "longitude", "latitude"),
    ),
    "sites with swapped names": (
        name_sites_command("lat_lon.csv", "--x", "lat", "--y", "lon"),
        2,
        ("'lat'", "'lon'", "longitude", "latitude"),
    ),
    "shapes with swapped axes": (
        name_sites_command("swapped_shapes.csv", "--geom", "area"),
        2,
        ("'area'", "longitude", "latitude"),
    ),
    "shapes that are none": (
        name_sites_command("shapes.csv", "--geom", "area", "--replace"),
        3,
        (4, "3 unparsable-position", "--geom"),
    ),
    "shapes with curves": (
        name_sites_command("curves.csv", "--geom", "area"),
        3,
        (1, "1 unparsable-position", "--geom"),
    ),
    "shapes beyond all numbers": (
        name_sites_command("huge_shapes.csv", "--geom", "area"),
        3,
        (2, "2 non-finite-position", "--geom"),
    ),
    "a shape and x": (
        name_sites_command("shapes.csv", "--geom", "area", "--x", "x"),
        2,
        ("both", "--geom", "--x", "--y"),
    ),
    "a column for two things": (name_sites_command("sites.csv", "--name", "x"), 2, ("position and name", "'x'")),
    "a column of requests twice": (
        ("load", "requests", "{folder}/good.csv", "--dataset", "good", "--columns", "x,x"),
        2,
        ("content", "'x'"),
    ),
    "sites for no dataset": (name_sites_command("sites.csv", dataset="goood"), 2, ("'goood'", "'good'")),
    "sites twice": (name_sites_command("sites.csv", "--name", "name"), 3, (2, "2 duplicate-site", "nothing to add")),
    "sites outside the box": (
        name_sites_command("sites.csv", "--bbox", "179,50,-179,60", "--replace"),
        3,
        (2, "2 outside-bbox"),
    ),
    "sites in a box in metres across the antimeridian": (
        name_sites_command("sites.csv", "--crs", "EPSG:32632", "--bbox", "9,0,1,1"),
        2,
        ("metres", "XMIN", "XMAX"),
    ),
    "sites in a box upside down": (name_sites_command("sites.csv", "--bbox", "0,9,1,1"), 2, ("YMIN", "YMAX")),
    "sites in no box": (name_sites_command("sites.csv", "--bbox", "0,1,1"), 2, ("four", "XMIN,YMIN,XMAX,YMAX")),
    "sites on Mars": (name_sites_command("sites.csv", "--crs", "Mars"), 2, ("spatial_ref_sys", "Mars")),
    "far sites only": (
        name_sites_command("sites.csv", "--crs", "EPSG:32632", "--drop-outliers"),
        3,
        (2, "2 far-position", "--x", "--y"),
    ),
    # ---- options of a load
    "a file named twice": (
        ("load", "trajectories", "{folder}/good.csv", "{folder}/./good.csv", "--dataset", "new"),
        2,
        ("good.csv", "once"),
    ),
    "rows of their own beside subjects with names": (
        ("load", "trajectories", "{folder}/good.csv", "--dataset", "good", "--append", "--subject", "-"),
        2,
        ("good",),
    ),
    "no file": (("load", "trajectories", "--dataset", "new"), 2, ("'FILE'", "'dbanon load trajectories --help'")),
    "no dataset": (
        ("load", "trajectories", "{folder}/good.csv"),
        2,
        ("'--dataset'", "'dbanon load trajectories --help'"),
    ),
    "an empty dataset name": (("load", "trajectories", "{folder}/good.csv", "--dataset", ""), 2, (1, 200)),
    "a blank dataset name": (("load", "trajectories", "{folder}/good.csv", "--dataset", " \t"), 2, (1, 200)),
    "a long dataset name": (("load", "trajectories", "{folder}/good.csv", "--dataset", "d" * 201), 2, (1, 200)),
    "a dataset that exists": (
        ("load", "trajectories", "{folder}/good.csv", "--dataset", "good"),
        2,
        ("'good'", "--append"),
    ),
    "appending to no dataset": (
        ("load", "trajectories", "{folder}/good.csv", "--dataset", "godo", "--append"),
        2,
        ("'godo'", "'good'"),
    ),
    "replacing what is released": (
        ("load", "trajectories", "{folder}/good.csv", "--dataset", "good", "--replace"),
        2,
        ("'good'", "releases"),
    ),
    "appending and replacing": (load("good.csv", "--append", "--replace"), 2, ("--append", "--replace", "At most one")),
    "degrees for metres": (load("good.csv", "--srid", "4326"), 2, (4326, "projected")),
    "no such system": (load("good.csv", "--crs", "Mars"), 2, ("spatial_ref_sys", "Mars")),
    "no such zone": (load("good.csv", "--tz", "Mars"), 2, ("time zone", "'Mars'")),
    "a grid of nothing": (load("good.csv", "--grid-m", "0"), 2, ("space grid", 0)),
    "a grid that is none": (load("good.csv", "--grid-m", "nan"), 2, ("space grid", "NaN")),
    "no length of a slot": (load("good.csv", "--grid-s", "0"), 2, ("time grid", 0)),
    "no gap": (load("good.csv", "--split-gap-s", "0"), 2, ("gap", "seconds", 0)),
    "a word for a number": (load("good.csv", "--grid-m", "wide"), 2, ("'--grid-m'", "number")),
    # ---- runs
    "k of 1": (name_parameter_command("k=1"), 2, ("'k'", ">= 2", 1)),
    "k of 0": (name_parameter_command("k=0"), 2, ("'k'", ">= 2", 0)),
    "k below 0": (name_parameter_command("k=-7"), 2, ("'k'", ">= 2", -7)),
    "k no number": (name_parameter_command("k=many"), 2, ("'k'", ">= 2", "'many'")),
    "k no whole number": (name_parameter_command("k=2.5"), 2, ("'k'", ">= 2", "2.5")),
    "k nothing": (name_parameter_command("k="), 2, ("'k'", ">= 2", "''")),
    **{
        f"min_contents {what}": (
            name_parameter_command(f"min_contents={value}"),
            2,
            ("'min_contents'", ">= 1", "<= 1000", shown),
        )
        for what, value, shown in (
            ("of 0", "0", 0),
            ("below 0", "-2", -2),
            ("far above", "1001", 1001),
            ("no number", "two", "'two'"),
            ("no whole number", "1.5", "1.5"),
        )
    },
    "k above the subjects": (run("-p", "k=5", "-p", "instants=3"), 4, ("k = 5", 4)),
    "k far above the subjects": (run("-p", "k=99999999999999999999"), 4, ("k = 99999999999999999999", 4)),
    "one subject": (run("-p", "k=2", dataset="alone"), 4, ("k = 2", 1)),
    "nobody in any window": (name_parameter_command("start=2100-01-01T00:00:00Z"), 4, ("k = 5", "start")),
    "clocks that jump by decades": (run("-p", "k=2", dataset="clocks"), 3, ("100000", "30 instants")),
    "unknown method": (("run", "tp-awre", "--dataset", "good"), 2, ("method", "'tp-awre'", "'tp-aware'")),
    "unknown method, none near": (
        ("run", "xyzzy", "--dataset", "good"),
        2,
        ("method", "'xyzzy'", "'sensitive-sites', 'tp-aware'"),
    ),
    "unknown algorithm": (run("--algorithm", "traj-anom"), 2, ("algorithm of tp-aware", "'traj-anom'", "'traj-anon'")),
    "unknown parameter": (name_parameter_command("kk=5"), 2, ("parameter of tp-aware", "'kk'", "'k'")),
    "unknown parameter, none near": (
        name_parameter_command("xyzzy=5"),
        2,
        ("parameter of tp-aware", "'xyzzy'", "'align', 'cloak', 'guests', 'improve', 'instants', 'k', 'max_gap_s'"),
    ),
    "unknown dataset": (run(dataset="goo"), 2, ("'goo'", "'good'")),
    "unknown dataset, none near": (run(dataset="xyzzy"), 2, ("'xyzzy'", "'good'")),
    "an injecting dataset": (run(dataset="x'; DROP TABLE dbanon.run; --"), 2, ("'x'; DROP TABLE dbanon.run; --'",)),
    "an endless dataset name": (run(dataset="x" * 9000), 2, (f"'{'x' * 57}...'",)),
    "no =": (name_parameter_command("k"), 2, ("name=value", "'k'")),
    "no parameter name": (name_parameter_command("=5"), 2, ("name=value", "'=5'")),
    "a parameter twice": (run("-p", "k=5", "-p", "k=6"), 2, ("'k'", "once")),
    "seed below 0": (run("--seed", "-1"), 2, ("seed", ">= 0", "2^63", -1)),
    "seed too large": (run("--seed", str(2**63)), 2, ("seed", ">= 0", "2^63", 2**63)),
    "seed no number": (run("--seed", "dice"), 2, ("'--seed'", "integer")),
    "no such run": (("verify", "999"), 2, ("run 999", "dbanon runs")),
    "run 0": (("verify", "0"), 2, ("'RUN'", "`dbanon runs`")),
    "a run of words": (("publish", "last", "x"), 2, ("'RUN'", "`dbanon runs`")),
    # ---- releases
    "no such run to publish": (("publish", "999", "x"), 2, ("run 999",)),
    "a name that exists": (name("taken"), 2, ("'taken'", "dbanon unpublish", "--replace")),
    "publishing under a name that exists": (("publish", "1", "taken"), 2, ("'taken'",)),
    "a name that needs quotes": (name("Cabs June"), 2, (*RELEASE_NAME, "'Cabs June'")),
    "a name that is a keyword": (name("select"), 2, (*RELEASE_NAME, "'select'")),
    "a name that injects": (
        name("x; DROP SCHEMA dbanon CASCADE"),
        2,
        (*RELEASE_NAME, "'x; DROP SCHEMA dbanon CASCADE'"),
    ),
    "a name with quotes": (("publish", "1", 'x"y'), 2, (*RELEASE_NAME, "'x\"y'")),
    "a name of two lines": (("publish", "1", "x\ny"), 2, (*RELEASE_NAME, "'x?y'")),
    "a name that paints the terminal": (("publish", "1", "\x1b[31mx"), 2, (*RELEASE_NAME, "'?[31mx'")),
    "no name": (("publish", "1", ""), 2, (*RELEASE_NAME, "''")),
    "a name of 51 letters": (("publish", "1", "x" * 51), 2, (*RELEASE_NAME, "'" + "x" * 51 + "'")),
    "a name of other letters": (("publish", "1", "été"), 2, (*RELEASE_NAME, "'été'")),
    "no such release": (("unpublish", "nothing"), 2, ("nothing", "live")),
    "withdrawing what injects": (("unpublish", "x; --"), 2, (*RELEASE_NAME, "'x; --'")),
    # ---- usage
    "unknown command": (("publsh",), 2, ("'publsh'", "'publish'")),
    "unknown command, none near": (("frobnicate",), 2, ("'frobnicate'",)),
    "unknown option": (run("--datset", "x"), 2, ("--datset",)),
    "an argument too many": (("runs", "please"), 2, ("please", "'dbanon runs --help'")),
    "an argument that is no text": (run(dataset="\udcff"), 2, ("Arguments", "UTF-8")),
    "no database": (("--dsn", "somewhere", "runs"), 2, ("URI",)),
}


@pytest.mark.many
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_with_its_exit_code_and_leaves_nothing(url: str, folder: Path, case: str) -> None:
    arguments, code, facts = CASES[case]
    words = [word.replace("{folder}", str(folder)) for word in arguments]
    before = read_state(url)

    done = call(url, *words)
    demand_refused(done, code, *(str(fact).replace("{folder}", str(folder)) for fact in facts))
    assert done.stdout == ""

    told = call(url, "--json", *words)
    said = read_json(told)
    assert (make_visible(str(said.pop("error"))), said) == (told.sentence, {"exit_code": code})
    assert told.sentence == done.sentence

    assert read_state(url) == before
    shown = done.stderr + told.stderr + told.stdout
    assert [secret for secret in SECRETS if secret in shown] == []
    assert "Warning" not in shown


def test_a_run_without_enough_subjects_is_kept_as_failed_with_its_sentence(url: str) -> None:
    done = call(url, *run("-p", "k=5", "-p", "instants=3"))
    listed = read_json(call(url, "runs", "--json"))["runs"]
    assert isinstance(listed, list)
    assert (listed[-1]["status"], listed[-1]["error"]) == ("failed", done.sentence)


def test_a_file_that_may_not_be_read_is_named(
    url: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked.csv"
    locked.write_text(GOOD)
    locked.chmod(0)

    def open_then_step_down() -> object:
        database = open_database(url)
        if os.geteuid() == 0:  # whom no mode of a file keeps out
            os.seteuid(65534)
        return database

    monkeypatch.setattr(loading, "open_database", open_then_step_down)
    user = os.geteuid()
    try:
        done = call(url, "load", "trajectories", str(locked), "--dataset", "new")
    finally:
        os.seteuid(user)
    demand_refused(done, 3, locked, "permissions")


# ---- what only looks bad --------------------------------------------------------------------------------------------


def shift_longitude(degrees: float) -> str:
    return f"{(degrees + 180) % 360 - 180:.5f}"


ODD = {
    "CSV text named .parquet": ("text.parquet", GOOD.encode()),
    "text that is not gzipped named .gz": ("plain.csv.gz", GOOD.encode()),
    "gzipped text of any name": ("zipped", gzip.compress(GOOD.encode())),
    "a header with a byte order mark": ("bom.csv", b"\xef\xbb\xbf" + GOOD.encode()),
    "line ends of Windows": ("crlf.csv", GOOD.replace("\n", "\r\n").encode()),
    "line ends of old Macs": ("cr.csv", GOOD.replace("\n", "\r").encode()),
    "unsorted and repeated times": (
        "mixed.csv",
        (HEAD + "".join(sorted(GOOD[len(HEAD) :].splitlines(True) * 2))).encode(),
    ),
    "a last line without end": ("open.csv", GOOD.rstrip("\n").encode()),
    "whole numbers as subjects": (
        "numbers.parquet",
        make_parquet(subject=pa.array([1, 2, 1]), time=[START_S, START_S, START_S + 60]),
    ),
    "subjects as a dictionary": ("dict.parquet", make_parquet(subject=pa.array(["a", "b", "a"]).dictionary_encode())),
    "people on both sides of the date line": (
        "line.csv",
        (
            HEAD
            + "".join(
                f"p{s},{START_S + 60 * t},{shift_longitude(179.9995 + s / 3000)},-17\n"
                for s, t in itertools.product(range(4), range(3))
            )
        ).encode(),
    ),
    "people at both poles": (
        "poles.csv",
        (HEAD + "".join(f"p{s},{START_S},{10 * s},{90 if s < 2 else -90}\n" for s in range(4))).encode(),
    ),
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def make(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return make


@pytest.mark.many
@pytest.mark.parametrize("case", ODD)
def test_odd_input_is_loaded_run_and_published(database: str, write: Callable[[str, bytes], Path], case: str) -> None:
    loaded = demand_done(call(database, "load", "trajectories", str(write(*ODD[case])), "--dataset", "odd", "--json"))
    assert read_json(loaded)["subjects"] == (2 if "parquet" in ODD[case][0] and case[0] in "ws" else 4)
    demand_done(
        call(database, "run", "tp-aware", "--dataset", "odd", "-p", "k=2", "-p", "instants=1", "--publish", "odd")
    )
    with psycopg.connect(database) as connection:
        assert wholeness.find_broken(connection) == []
        assert connection.execute("SELECT min(crowd) >= 2 FROM published.odd").fetchone() == (True,)


def test_everybody_at_one_point_is_one_cloak_of_one_cell(url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT max(ST_Area(region)), min(crowd) FROM published.taken").fetchone()
    assert row == (1.0, 4)


@pytest.mark.many
@pytest.mark.parametrize("named", ['O\'Brien "x"; --', "  blanks  ", "%s {} $1 \\", "été 東京", "d" * 200])
def test_a_dataset_may_have_any_name(database: str, folder: Path, named: str) -> None:
    assert call(database, "load", "trajectories", str(folder / "good.csv"), "--dataset", named).code == 0
    demand_done(call(database, "run", "tp-aware", "--dataset", named, "-p", "k=2", "-p", "instants=3"))
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT name FROM dbanon.dataset").fetchall() == [(named,)]
