"""Files that are nearly tables, and options that fit badly: what is wrong is named, and nobody's data are quoted."""

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from tests.acceptance.commands import Done, call, finished, start
from tests.acceptance.samples import GOOD, HEAD, SECRETS, fixes, parquet

pytestmark = pytest.mark.db

IS_A_TABLE = " must be a CSV or Parquet file. Got "
IS_WHOLE = " must be a whole CSV or Parquet file. "
NOT_TEXT = IS_WHOLE + "Got text that is not UTF-8; convert it, for example with iconv."
PLAIN = "Column '{1}' of {0} must hold one value a row. It holds {2}; "

FILES: dict[str, tuple[str, bytes, str]] = {
    "a header without a line end": (
        "header.csv",
        HEAD.strip().encode(),
        "header.csv must hold rows below its header. Got none;",
    ),
    "a blank header": ("blank.csv", b"   \n \n", "blank.csv" + IS_A_TABLE + "an empty file."),
    "bytes that are no text for a header": (
        "noise.csv",
        bytes(byte for byte in range(1, 256) if byte not in (10, 13, 34)) * 20,
        "noise.csv" + IS_A_TABLE + "a binary file of another kind.",
    ),
    "a header in Latin 1": ("latin.csv", GOOD.replace("x,y", "größe,y").encode("latin-1"), "latin.csv" + NOT_TEXT),
    "UTF-16 with its mark": ("wide.csv", GOOD.encode("utf-16"), "wide.csv" + NOT_TEXT),
    "UTF-16 without": ("wider.csv", GOOD.encode("utf-16-le"), "wider.csv" + NOT_TEXT),
    "semicolons and no header": ("values.csv", fixes(4).replace(",", ";").encode(), ""),
    "tabs and no header": ("values.tsv", fixes(4).replace(",", "\t").encode(), ""),
    "vertical bars and no header": ("values.txt", fixes(4).replace(",", "|").encode(), ""),
    "an opened quote": (
        "quote.csv",
        (GOOD + '"ysolde,1,8.2173,53.1415\n').encode(),
        "quote.csv" + IS_WHOLE,
    ),
    "a list a row for a position": (
        "list.parquet",
        parquet(x=pa.array([[8.2173], [1.0, 2.0], []])),
        PLAIN.format("list.parquet", "x", "lists"),
    ),
    "a list a row for a subject": (
        "people.parquet",
        parquet(subject=pa.array([["ysolde"], ["tristan"], []])),
        PLAIN.format("people.parquet", "subject", "lists"),
    ),
    "a structure a row": (
        "struct.parquet",
        parquet(x=pa.array([{"lon": 8.2173}] * 3)),
        PLAIN.format("struct.parquet", "x", "structures"),
    ),
    "bytes for a subject": (
        "bytes.parquet",
        parquet(subject=pa.array([b"\xff", b"ysolde", b"b"])),
        "bytes.parquet" + NOT_TEXT,
    ),
}


@pytest.fixture
def load(database: str, tmp_path: Path) -> Callable[..., Done]:
    def make(name: str, content: bytes, *options: str) -> Done:
        (tmp_path / name).write_bytes(content)
        return call(database, "load", "trajectories", str(tmp_path / name), "--dataset", "new", *options)

    return make


def nothing_there(database: str) -> bool:
    with psycopg.connect(database) as connection:
        return connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)


@pytest.mark.parametrize("case", FILES)
def test_what_is_wrong_with_a_file_is_named_and_nothing_of_it_quoted(
    database: str, load: Callable[..., Done], case: str
) -> None:
    name, content, sentence = FILES[case]
    done = load(name, content)
    assert done.code == 3, done.stderr
    assert done.sentence.startswith(sentence), done.sentence
    assert done.sentence.isprintable()
    assert [secret for secret in SECRETS if secret in done.stderr] == []
    assert nothing_there(database)


def test_a_header_of_endless_names_is_cut(load: Callable[..., Done]) -> None:
    done = load("endless.csv", ("z" * 9000 + ",time,x,y\n" + fixes(1)).encode())
    assert done.code == 3
    assert "time, x, y" in done.sentence
    assert len(done.sentence) < 400


def test_a_pipe_is_no_file(database: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    done = finished(start(database, "load", "trajectories", str(pipe), "--dataset", "new"), seconds=60)
    assert done.code == 3
    assert done.sentence.startswith(f"The file to load must be a file. {pipe} is a pipe; write it to a file first.")


def test_a_subject_that_is_no_number_among_numbers_is_missing(database: str, load: Callable[..., Done]) -> None:
    """Pandas makes floats of whole numbers where one is missing; NaN is nobody."""
    done = load("floats.parquet", parquet(subject=pa.array([1.0, float("nan"), 1.0])))
    assert done.code == 0, done.stderr
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT DISTINCT subject FROM dbanon.trajectory").fetchall() == [("1",)]
        assert connection.execute("SELECT reason FROM dbanon.quarantine").fetchall() == [("missing-subject",)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--grid-s", "99999999999"), "The time grid must be a whole number of seconds"),
        (("--grid-m", "1e300"), "The space grid must be a number of metres"),
        (("--srid", "99999999999"), "The reference system must be one of PostGIS's spatial_ref_sys."),
        (("--srid", "-1"), "The reference system must be one of PostGIS's spatial_ref_sys."),
        (("--crs", "EPSG:0"), "The reference system must be one of PostGIS's spatial_ref_sys."),
        (("--x", "y"), "The columns of subject, time, x and y must differ. Got 'y' twice;"),
        (("--time", "x"), "The columns of subject, time, x and y must differ. Got 'x' twice;"),
        (("--subject", "time"), "The columns of subject, time, x and y must differ. Got 'time' twice;"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    database: str, load: Callable[..., Done], options: tuple[str, ...], sentence: str
) -> None:
    done = load("good.csv", GOOD.encode(), *options)
    assert done.code == 2, done.stderr
    assert done.sentence.startswith(sentence), done.sentence
    assert nothing_there(database)


@pytest.mark.parametrize("column", ["subject", "time"])
def test_the_sender_and_the_time_are_no_content_of_a_request(
    database: str, load: Callable[..., Done], tmp_path: Path, column: str
) -> None:
    assert load("good.csv", GOOD.encode()).code == 0
    file = str(tmp_path / "good.csv")
    done = call(database, "load", "requests", file, "--dataset", "new", "--columns", f"x,{column}")
    assert done.code == 2, done.stderr
    assert done.sentence.startswith(
        f"The content of a request must not name who sent it or when. Got column '{column}'"
    )
