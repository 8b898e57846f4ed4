"""Bad input of every kind: one sentence, its exit code, and nothing left behind."""

import datetime
import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbanon.commands import loading
from dbanon.database import open_database
from dbanon.report import visible
from dbanon.server import Target
from dbanon.testing import cloned_database
from tests import wholeness
from tests.acceptance.commands import call, json_of
from tests.acceptance.samples import GOOD, HEAD, SECRETS, START, fixes, parquet

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
    "values.csv": fixes(4).encode(),
    "useless.csv": (HEAD + "ysolde,0,999,53.1415\n,0,8.2173,53.1415\ntristan,never,8.2173,53.1415\n").encode(),
    "nan.csv": (HEAD + "ysolde,0,nan,53.1415\ntristan,0,8.2173,NaN\n").encode(),
    "cut.csv.gz": gzip.compress(GOOD.encode() * 300)[:-30],
    "garbled.csv.gz": gzip.compress(GOOD.encode() * 300)[:60] + b"\xff" * 200,
    "cut.parquet": parquet()[:-20],
    "bare.parquet": b"PAR1",
    "short.csv": (GOOD + "ysolde,1,8.2173\n").encode(),
    "long.csv": (GOOD + "ysolde,1,8.2173,53.1415,1\n").encode(),
    "nul.csv": GOOD.replace("ysolde1", "ysolde\0001").encode(),
    "latin.csv": GOOD.replace("ysolde1", "ysoldé").encode("latin-1"),
    "wide.csv": GOOD.encode("utf-16"),
    "twice.csv": f"subject,time,x,y,x\nysolde,{START},8.2173,53.1415,1\n".encode(),
    "twice.parquet": b"",  # made below: pyarrow's dictionary of columns cannot name one twice
    "none.parquet": parquet(subject=pa.array([], pa.string()), time=[], x=[], y=[]),
    "naive.csv": (HEAD + "ysolde,2008-06-04 08:00:00,8.2173,53.1415\n").encode(),
    "dates.parquet": parquet(time=pa.array([datetime.date(2008, 6, 4)] * 3)),
    "truths.parquet": parquet(x=pa.array([True, False, True])),
    "endless.csv": (HEAD + "".join(f"{i:x}" for i in range(9000)) + ",0,8.2173,53.1415\n").encode(),
    "good.csv": GOOD.encode(),
    "alone.csv": (HEAD + fixes(1)).encode(),
    "clocks.csv": (GOOD + "ysolde1,0,8.2173,53.1415\nysolde1,4102444800,8.2173,53.1415\n").encode(),
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
        placed = call(made, "load", "sites", str(folder / "sites.csv"), "--dataset", "good", "--name", "name")
        assert placed.code == 0, placed.stderr
        ran = call(made, "run", "tp-aware", "--dataset", "good", "-p", "k=2", "-p", "instants=3", "--publish", "taken")
        assert ran.code == 0, ran.stderr
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


def state(url: str) -> list[Any]:
    """Everything a command could leave, runs that failed aside."""
    counts = [f"(SELECT count(*) FROM dbanon.{name})" for name in TABLES]
    relations = "pg_class WHERE relnamespace IN ('dbanon'::regnamespace, 'published'::regnamespace)"
    counts += ["(SELECT count(*) FROM dbanon.run WHERE status <> 'failed')", f"(SELECT count(*) FROM {relations})"]
    with psycopg.connect(url) as connection:
        return [wholeness.broken(connection), *connection.execute(f"SELECT {', '.join(counts)}").fetchone()]


def load(file: str, *options: str) -> tuple[str, ...]:
    return ("load", "trajectories", "{folder}/" + file, "--dataset", "new", *options)


def sites(file: str, *options: str, dataset: str = "good") -> tuple[str, ...]:
    return ("load", "sites", "{folder}/" + file, "--dataset", dataset, *options)


def run(*options: str, dataset: str = "good") -> tuple[str, ...]:
    return ("run", "tp-aware", "--dataset", dataset, *options)


def parameter(text: str) -> tuple[str, ...]:
    return run("-p", text)


def name(text: str) -> tuple[str, ...]:
    return run("-p", "k=2", "-p", "instants=3", "--publish", text)


IS_A_TABLE = " must be a CSV or Parquet file. Got "
IS_WHOLE = " must be a whole CSV or Parquet file. "
NAMES_COLUMNS = "; name the right one"
ZONE = "Times must name their zone, be unix seconds, or come with one for all of them. Got a time without a zone; "
RELEASE_NAME = (
    "The name of a release must be lower-case letters, digits and underscores, start with a letter, have at most 50 "
    "characters and be no SQL keyword. Got {} instead. Choose a name such as cabs_june."
)
K = "The 'k' parameter of tp-aware must be an integer >= 2. Got {} instead."
WINDOW = "At least one window must hold k = {} subjects at all its instants. Got at most {}. Lower k, shorten instants"
DATASET_NAME = "A dataset must have a name of 1 to 200 characters that can be seen. Got another. Choose one such as ca"

# What it is: (arguments, exit code, how the sentence begins).
CASES: dict[str, tuple[tuple[str, ...], int, str]] = {
    # ---- files
    "no such file": (load("missing.csv"), 3, "The file to load must exist. There is no {folder}/missing.csv; check"),
    "a directory": (load("folder.csv"), 3, "The file to load must be a file. {folder}/folder.csv is a directory; name"),
    "empty": (load("empty.csv"), 3, "empty.csv" + IS_A_TABLE + "an empty file."),
    "empty and gzipped": (load("empty.csv.gz"), 3, "empty.csv.gz" + IS_A_TABLE + "an empty file."),
    "line ends only": (load("lines.csv"), 3, "lines.csv" + IS_A_TABLE + "an empty file."),
    "binary": (load("binary.csv"), 3, "binary.csv" + IS_A_TABLE + "a binary file of another kind."),
    "a picture": (load("picture.csv"), 3, "picture.csv" + IS_A_TABLE + "a binary file of another kind."),
    "an archive": (load("archive.csv"), 3, "archive.csv" + IS_A_TABLE + "a binary file of another kind."),
    "header only": (load("header.csv"), 3, "header.csv must hold rows below its header. Got none;"),
    "gzipped header": (load("header.csv.gz"), 3, "header.csv.gz must hold rows below its header. Got none;"),
    "no rows in Parquet": (load("none.parquet"), 3, "none.parquet must hold rows below its header. Got none;"),
    "missing column": (
        load("nobody.csv"),
        3,
        "nobody.csv must have a column 'subject'. It has: cab, time, x, y" + NAMES_COLUMNS,
    ),
    "no header": (
        load("values.csv"),
        3,
        "The first line of values.csv must name its columns. It holds values instead;",
    ),
    "nothing usable": (load("useless.csv"), 3, "At least one row must be usable. Got 3 rows, none usable ("),
    "only NaN": (load("nan.csv"), 3, "At least one row must be usable. Got 2 rows, none usable ("),
    "a cut off .gz": (load("cut.csv.gz"), 3, "cut.csv.gz" + IS_WHOLE + "Got a damaged or cut off gzip file;"),
    "a garbled .gz": (load("garbled.csv.gz"), 3, "garbled.csv.gz" + IS_WHOLE + "Got a damaged or cut off gzip file;"),
    "a cut off Parquet": (load("cut.parquet"), 3, "cut.parquet" + IS_WHOLE + "Got a file that breaks off"),
    "four bytes of Parquet": (load("bare.parquet"), 3, "bare.parquet" + IS_WHOLE + "Got a file that breaks off"),
    "a cell too few": (
        load("short.csv"),
        3,
        f"short.csv{IS_WHOLE}Line {LINES + 1} has 3 cells where the header has 4;",
    ),
    "a cell too many": (load("long.csv"), 3, f"long.csv{IS_WHOLE}Line {LINES + 1} has 5 cells where the header has 4;"),
    "NUL bytes": (load("nul.csv"), 3, "nul.csv" + IS_A_TABLE + "a binary file of another kind."),
    "not UTF-8": (load("latin.csv"), 3, "latin.csv" + IS_WHOLE + "Got text that is not UTF-8; convert it"),
    "UTF-16": (load("wide.csv"), 3, "wide.csv"),
    "a column twice": (load("twice.csv"), 3, "twice.csv must have one column 'x'. It has several; rename the others."),
    "a column twice in Parquet": (load("twice.parquet"), 3, "twice.parquet must have one column 'x'. It has several;"),
    "no zone": (load("naive.csv"), 2, ZONE + "give the zone"),
    "dates": (load("dates.parquet"), 2, ZONE + "give the zone"),
    "truth values for positions": (
        load("truths.parquet"),
        3,
        "At least one row must be usable. Got 3 rows, none usable (",
    ),
    "an endless subject": (load("endless.csv"), 3, ""),
    "two files, one missing": (
        ("load", "trajectories", "{folder}/good.csv", "{folder}/missing.csv", "--dataset", "new"),
        3,
        "The file to load must exist. There is no {folder}/missing.csv;",
    ),
    "requests without their column": (
        ("load", "requests", "{folder}/good.csv", "--dataset", "good", "--columns", "poi"),
        3,
        "good.csv must have a column 'poi'. It has: subject, time, x, y" + NAMES_COLUMNS,
    ),
    "requests without columns": (
        ("load", "requests", "{folder}/good.csv", "--dataset", "good", "--columns", " , "),
        2,
        "A request must have at least one column. Got none; name them with --columns a,b.",
    ),
    "requests for no dataset": (
        ("load", "requests", "{folder}/good.csv", "--dataset", "goood", "--columns", "x"),
        2,
        "The dataset must exist. There is none named 'goood'. Did you mean 'good'?",
    ),
    # ---- sites
    "sites in no file": (sites("missing.csv"), 3, "The file to load must exist. There is no {folder}/missing.csv;"),
    "sites in an empty file": (sites("empty.csv"), 3, "empty.csv" + IS_A_TABLE + "an empty file."),
    "sites below no header": (sites("headless.csv"), 3, "The first line of headless.csv must name its columns."),
    "sites without rows": (sites("header.csv"), 3, "header.csv must hold rows below its header. Got none;"),
    "sites without x": (
        sites("lat_lon.csv"),
        3,
        "lat_lon.csv must have a column 'x'. It has: lat, lon; name the right one (--x, --y, --name or --geom).",
    ),
    "sites without their name": (sites("sites.csv", "--name", "nme"), 3, "sites.csv must have a column 'nme'. It has:"),
    "sites at NaN": (
        sites("nan_sites.csv"),
        3,
        "At least one row must be usable. Got 4 rows, none usable (4 non-finite-position). Check",
    ),
    "sites in words": (
        sites("sites.csv", "--x", "name"),
        3,
        "At least one row must be usable. Got 2 rows, none usable (2 unparsable-position). Check",
    ),
    "sites with swapped axes": (
        sites("swapped_sites.csv", "--replace"),
        2,
        "x must be the longitude or easting and y the latitude or northing. Columns 'x' and 'y' are the other way ",
    ),
    "sites with swapped names": (
        sites("lat_lon.csv", "--x", "lat", "--y", "lon"),
        2,
        "x must be the longitude or easting and y the latitude or northing. Columns 'lat' and 'lon' are the other way ",
    ),
    "shapes with swapped axes": (
        sites("swapped_shapes.csv", "--geom", "area"),
        2,
        "x must be the longitude or easting and y the latitude or northing. The shapes of column 'area' have them the ",
    ),
    "shapes that are none": (
        sites("shapes.csv", "--geom", "area", "--replace"),
        3,
        "At least one row must be usable. Got 4 rows, none usable (4 unparsable-position). Check which column --geom "
        "names, --crs and --bbox.",
    ),
    "shapes with curves": (
        sites("curves.csv", "--geom", "area"),
        3,
        "At least one row must be usable. Got 1 row, none usable (1 unparsable-position). Check which column --geom ",
    ),
    "shapes beyond all numbers": (
        sites("huge_shapes.csv", "--geom", "area"),
        3,
        "At least one row must be usable. Got 2 rows, none usable (2 non-finite-position). Check which column --geom ",
    ),
    "a shape and x": (
        sites("shapes.csv", "--geom", "area", "--x", "x"),
        2,
        "A site must have either a shape or x and y. Got columns of both; give --geom, or --x and --y.",
    ),
    "a column for two things": (
        sites("sites.csv", "--name", "x"),
        2,
        "The columns of position and name must differ. Got 'x' twice; name each as it is called.",
    ),
    "a column of requests twice": (
        ("load", "requests", "{folder}/good.csv", "--dataset", "good", "--columns", "x,x"),
        2,
        "The columns of the content must differ. Got 'x' twice; name each as it is called.",
    ),
    "sites for no dataset": (
        sites("sites.csv", dataset="goood"),
        2,
        "The dataset must exist. There is none named 'goood'. Did you mean 'good'?",
    ),
    "sites twice": (
        sites("sites.csv", "--name", "name"),
        3,
        "What is added must be new. The dataset has something for each of the 2 rows (2 duplicate-site). It was ",
    ),
    "sites outside the box": (
        sites("sites.csv", "--bbox", "179,50,-179,60", "--replace"),
        3,
        "At least one row must be usable. Got 2 rows, none usable (2 outside-bbox). Check",
    ),
    "sites in a box in metres across the antimeridian": (
        sites("sites.csv", "--crs", "EPSG:32632", "--bbox", "9,0,1,1"),
        2,
        "A box in metres must have XMIN below XMAX; only one in degrees can cross the antimeridian.",
    ),
    "sites in a box upside down": (sites("sites.csv", "--bbox", "0,9,1,1"), 2, "A box must be XMIN,YMIN,XMAX,YMAX wi"),
    "sites in no box": (sites("sites.csv", "--bbox", "0,1,1"), 2, "A box must be four numbers XMIN,YMIN,XMAX,YMAX."),
    "sites on Mars": (sites("sites.csv", "--crs", "Mars"), 2, "The reference system must be one of PostGIS's"),
    "far sites only": (
        sites("sites.csv", "--crs", "EPSG:32632", "--drop-outliers"),
        3,
        "At least one row must be usable. Got 2 rows, none usable (2 far-position). Check which columns --x and "
        "--y name, --crs and --bbox.",
    ),
    # ---- options of a load
    "a file named twice": (
        ("load", "trajectories", "{folder}/good.csv", "{folder}/./good.csv", "--dataset", "new"),
        2,
        "Each file must be named once. Got good.csv more than once; leave out the others.",
    ),
    "rows of their own that are there already": (
        ("load", "trajectories", "{folder}/good.csv", "--dataset", "good", "--append", "--subject", "-"),
        3,
        "What is added must be new. The dataset has the time and place of ",
    ),
    "no file": (("load", "trajectories", "--dataset", "new"), 2, "Missing argument 'FILE'. See 'dbanon load "),
    "no dataset": (("load", "trajectories", "{folder}/good.csv"), 2, "Missing option '--dataset'. See 'dbanon load "),
    "an empty dataset name": (("load", "trajectories", "{folder}/good.csv", "--dataset", ""), 2, DATASET_NAME),
    "a blank dataset name": (("load", "trajectories", "{folder}/good.csv", "--dataset", " \t"), 2, DATASET_NAME),
    "a long dataset name": (("load", "trajectories", "{folder}/good.csv", "--dataset", "d" * 201), 2, DATASET_NAME),
    "a dataset that exists": (
        ("load", "trajectories", "{folder}/good.csv", "--dataset", "good"),
        2,
        "A new dataset must have a new name. There is a 'good' already. Add to it with --append or replace ",
    ),
    "appending to no dataset": (
        ("load", "trajectories", "{folder}/good.csv", "--dataset", "godo", "--append"),
        2,
        "The dataset must exist. There is none named 'godo'. Did you mean 'good'?",
    ),
    "replacing what is released": (
        ("load", "trajectories", "{folder}/good.csv", "--dataset", "good", "--replace"),
        2,
        "A dataset to replace must have no releases",
    ),
    "appending and replacing": (load("good.csv", "--append", "--replace"), 2, "Only one of --append and --replace may"),
    "degrees for metres": (load("good.csv", "--srid", "4326"), 2, "A dataset must be in a projected reference system"),
    "no such system": (load("good.csv", "--crs", "Mars"), 2, "The reference system must be one of PostGIS's"),
    "no such zone": (load("good.csv", "--tz", "Mars"), 2, "The time zone must be a name such as Europe/Berlin or UTC."),
    "a grid of nothing": (load("good.csv", "--grid-m", "0"), 2, "The space grid must be a number of metres above 0,"),
    "a grid that is none": (
        load("good.csv", "--grid-m", "nan"),
        2,
        "The space grid must be a number of metres above 0,",
    ),
    "no length of a slot": (load("good.csv", "--grid-s", "0"), 2, "The time grid must be a whole number of seconds"),
    "no gap": (load("good.csv", "--split-gap-s", "0"), 2, "The gap that splits must be seconds above 0."),
    "a word for a number": (
        load("good.csv", "--grid-m", "wide"),
        2,
        "Invalid value for '--grid-m': Input should be a valid number, unable to parse string as a number. See 'db",
    ),
    # ---- runs
    "k of 1": (parameter("k=1"), 2, K.format(1)),
    "k of 0": (parameter("k=0"), 2, K.format(0)),
    "k below 0": (parameter("k=-7"), 2, K.format(-7)),
    "k no number": (parameter("k=many"), 2, K.format("'many'")),
    "k no whole number": (parameter("k=2.5"), 2, K.format("2.5")),
    "k nothing": (parameter("k="), 2, K.format("''")),
    "k above the subjects": (run("-p", "k=5", "-p", "instants=3"), 4, WINDOW.format(5, 4)),
    "k far above the subjects": (run("-p", "k=99999999999999999999"), 4, WINDOW.format("99999999999999999999", 4)),
    "one subject": (run("-p", "k=2", dataset="alone"), 4, WINDOW.format(2, 1)),
    "nobody in any window": (
        parameter("start=2100-01-01T00:00:00Z"),
        4,
        "At least one window must hold k = 5 subjects at all its instants. Nobody is at all instants of any. Shorten ",
    ),
    "clocks that jump by decades": (
        run("-p", "k=2", dataset="clocks"),
        3,
        "The data must span at most 100000 windows of 30 instants. Got ",
    ),
    "unknown method": (
        ("run", "tp-awre", "--dataset", "good"),
        2,
        "There is no method named 'tp-awre'. Did you mean 'tp-aware'?",
    ),
    "unknown method, none near": (
        ("run", "xyzzy", "--dataset", "good"),
        2,
        "There is no method named 'xyzzy'. Choose one of: sensitive-sites, tp-aware",
    ),
    "unknown algorithm": (
        run("--algorithm", "traj-anom"),
        2,
        "There is no algorithm of tp-aware named 'traj-anom'. Did you mean 'traj-anon'?",
    ),
    "unknown parameter": (parameter("kk=5"), 2, "There is no parameter of tp-aware named 'kk'. Did you mean 'k'?"),
    "unknown parameter, none near": (
        parameter("xyzzy=5"),
        2,
        "There is no parameter of tp-aware named 'xyzzy'. Choose one of: align, cloak, instants, k, max_gap_s, ",
    ),
    "unknown dataset": (
        run(dataset="goo"),
        2,
        "The dataset must exist. There is none named 'goo'. Did you mean 'good'?",
    ),
    "unknown dataset, none near": (
        run(dataset="xyzzy"),
        2,
        "The dataset must exist. There is none named 'xyzzy'. Load one with `dbanon load trajectories`.",
    ),
    "an injecting dataset": (
        run(dataset="x'; DROP TABLE dbanon.run; --"),
        2,
        "The dataset must exist. There is none named 'x''; DROP TABLE dbanon.run; --'. Load one",
    ),
    "an endless dataset name": (
        run(dataset="x" * 9000),
        2,
        f"The dataset must exist. There is none named '{'x' * 60}'.",
    ),
    "no =": (parameter("k"), 2, "A parameter must be given as -p name=value. Got 'k'; for example -p k=5."),
    "no parameter name": (parameter("=5"), 2, "A parameter must be given as -p name=value. Got '=5'; for example"),
    "a parameter twice": (run("-p", "k=5", "-p", "k=6"), 2, "A parameter must be given once. Got 'k' twice; leave one"),
    "seed below 0": (run("--seed", "-1"), 2, "The seed must be an integer >= 0 and < 2^63. Got -1 instead; choose"),
    "seed too large": (run("--seed", str(2**63)), 2, "The seed must be an integer >= 0 and < 2^63. Got 92233"),
    "seed no number": (run("--seed", "dice"), 2, "Invalid value for '--seed': Input should be a valid integer"),
    "no such run": (("verify", "999"), 2, "The run must exist. There is no run 999. List the runs: `dbanon runs`."),
    "run 0": (("verify", "0"), 2, "Invalid value for 'RUN': Input should be greater than or equal to 1. See 'dbanon "),
    "a run of words": (("publish", "last", "x"), 2, "Invalid value for 'RUN': Input should be a valid integer"),
    # ---- releases
    "no such run to publish": (("publish", "999", "x"), 2, "The run must exist. There is no run 999."),
    "a name that exists": (
        name("taken"),
        2,
        "The name of a release must be free. There is a 'taken' already. Choose another, withdraw that one with "
        "`dbanon unpublish`, or take its place with --replace.",
    ),
    "publishing under a name that exists": (
        ("publish", "1", "taken"),
        2,
        "The name of a release must be free. There is a 'taken' already.",
    ),
    "a name that needs quotes": (name("Cabs June"), 2, RELEASE_NAME.format("'Cabs June'")),
    "a name that is a keyword": (name("select"), 2, RELEASE_NAME.format("'select'")),
    "a name that injects": (
        name("x; DROP SCHEMA dbanon CASCADE"),
        2,
        RELEASE_NAME.format("'x; DROP SCHEMA dbanon CASCADE'"),
    ),
    "a name with quotes": (("publish", "1", 'x"y'), 2, RELEASE_NAME.format("'x\"y'")),
    "a name of two lines": (("publish", "1", "x\ny"), 2, RELEASE_NAME.format(r"'x\ny'")),
    "a name that paints the terminal": (("publish", "1", "\x1b[31mx"), 2, RELEASE_NAME.format(r"'\x1b[31mx'")),
    "no name": (("publish", "1", ""), 2, RELEASE_NAME.format("''")),
    "a name of 51 letters": (("publish", "1", "x" * 51), 2, RELEASE_NAME.format("'" + "x" * 51 + "'")),
    "a name of other letters": (("publish", "1", "été"), 2, RELEASE_NAME.format("'été'")),
    "no such release": (
        ("unpublish", "nothing"),
        2,
        "The release to withdraw must be live. There is none named nothing.",
    ),
    "withdrawing what injects": (("unpublish", "x; --"), 2, RELEASE_NAME.format("'x; --'")),
    # ---- usage
    "unknown command": (("publsh",), 2, "No such command 'publsh'. Did you mean"),
    "unknown option": (run("--datset", "x"), 2, "No such option: --datset"),
    "an argument too many": (
        ("runs", "please"),
        2,
        "Got unexpected extra argument(s) (please). See 'dbanon runs --help'.",
    ),
    "an argument that is no text": (run(dataset="\udcff"), 2, "Arguments must be UTF-8 text. Got one that is not;"),
    "no database": (("--dsn", "somewhere", "runs"), 2, "A database must be given as a URI"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_with_its_exit_code_and_leaves_nothing(url: str, folder: Path, case: str) -> None:
    arguments, code, sentence = CASES[case]
    words = [word.replace("{folder}", str(folder)) for word in arguments]
    before = state(url)

    done = call(url, *words)
    assert done.code == code, done.stderr
    assert done.sentence.startswith(sentence.replace("{folder}", str(folder))), done.sentence
    assert done.stdout == ""

    told = call(url, "--json", *words)
    said = json_of(told)
    assert (visible(str(said.pop("error"))), said) == (told.sentence, {"exit_code": code})
    assert told.sentence == done.sentence

    assert state(url) == before
    shown = done.stderr + told.stderr + told.stdout
    assert [secret for secret in SECRETS if secret in shown] == []
    assert "Warning" not in shown


def test_a_run_without_enough_subjects_is_kept_as_failed_with_its_sentence(url: str) -> None:
    done = call(url, *run("-p", "k=5", "-p", "instants=3"))
    listed = json_of(call(url, "runs", "--json"))["runs"]
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
    assert done.code == 3, done.stderr
    assert done.sentence == f"The file to load must be readable. {locked} is not; check its permissions."


# ---- what only looks bad --------------------------------------------------------------------------------------------


def shifted(degrees: float) -> str:
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
    "whole numbers as subjects": ("numbers.parquet", parquet(subject=pa.array([1, 2, 1]), time=[0, 0, 60])),
    "subjects as a dictionary": ("dict.parquet", parquet(subject=pa.array(["a", "b", "a"]).dictionary_encode())),
    "people on both sides of the date line": (
        "line.csv",
        (
            HEAD + "".join(f"p{s},{60 * t},{shifted(179.9995 + s / 3000)},-17\n" for s in range(4) for t in range(3))
        ).encode(),
    ),
    "people at both poles": ("poles.csv", (HEAD + "p0,0,0,90\np1,0,10,90\np2,0,20,-90\np3,0,30,-90\n").encode()),
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def make(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return make


@pytest.mark.parametrize("case", ODD)
def test_odd_input_is_loaded_run_and_published(database: str, write: Callable[[str, bytes], Path], case: str) -> None:
    loaded = call(database, "load", "trajectories", str(write(*ODD[case])), "--dataset", "odd", "--json")
    assert loaded.code == 0, loaded.stderr
    assert json_of(loaded)["subjects"] == (2 if "parquet" in ODD[case][0] and case[0] in "ws" else 4)
    ran = call(database, "run", "tp-aware", "--dataset", "odd", "-p", "k=2", "-p", "instants=1", "--publish", "odd")
    assert ran.code == 0, ran.stderr
    with psycopg.connect(database) as connection:
        assert wholeness.broken(connection) == []
        assert connection.execute("SELECT min(crowd) >= 2 FROM published.odd").fetchone() == (True,)


def test_everybody_at_one_point_is_one_cloak_of_one_cell(url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT max(ST_Area(region)), min(crowd) FROM published.taken").fetchone()
    assert row == (1.0, 4)


@pytest.mark.parametrize("named", ['O\'Brien "x"; --', "  blanks  ", "%s {} $1 \\", "été 東京", "d" * 200])
def test_a_dataset_may_have_any_name(database: str, folder: Path, named: str) -> None:
    assert call(database, "load", "trajectories", str(folder / "good.csv"), "--dataset", named).code == 0
    ran = call(database, "run", "tp-aware", "--dataset", named, "-p", "k=2", "-p", "instants=3")
    assert ran.code == 0, ran.stderr
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT name FROM dbanon.dataset").fetchall() == [(named,)]
