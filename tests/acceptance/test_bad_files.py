"""Files that are nearly tables, and options that fit badly: what is wrong is named, and nobody's data are quoted."""

import io
import os
import socket
import unicodedata
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbanon.base.errors import ParameterError
from dbanon.database import open_database
from tests.acceptance.commands import Done, call, demand_done, read_json, start, wait_for_end
from tests.acceptance.samples import GOOD, HEAD, SECRETS, START_S, format_fixes, make_parquet
from tests.facts import demand_refused, expect_refusal

pytestmark = pytest.mark.db

# What it is: (name, content, facts that are named beside the name).
FILES: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "a header without a line end": ("header.csv", HEAD.strip().encode(), ("rows", "none")),
    "a blank header": ("blank.csv", b"   \n \n", ("empty",)),
    "bytes that are no text for a header": (
        "noise.csv",
        bytes(byte for byte in range(1, 256) if byte not in (10, 13, 34)) * 20,
        ("binary",),
    ),
    "a header in Latin 1": ("latin.csv", GOOD.replace("x,y", "größe,y").encode("latin-1"), ("UTF-8",)),
    "UTF-16 with its mark": ("wide.csv", GOOD.encode("utf-16"), ("UTF-8",)),
    "UTF-16 without": ("wider.csv", GOOD.encode("utf-16-le"), ("UTF-8",)),
    "semicolons and no header": ("values.csv", format_fixes(4).replace(",", ";").encode(), ("first line",)),
    "tabs and no header": ("values.tsv", format_fixes(4).replace(",", "\t").encode(), ("first line",)),
    "vertical bars and no header": ("values.txt", format_fixes(4).replace(",", "|").encode(), ("first line",)),
    "an opened quote": ("quote.csv", (GOOD + '"ysolde,1,8.2173,53.1415\n').encode(), ("whole",)),
    "a list a row for a position": (
        "list.parquet",
        make_parquet(x=pa.array([[8.2173], [1.0, 2.0], []])),
        ("'x'", "lists"),
    ),
    "a list a row for a subject": (
        "people.parquet",
        make_parquet(subject=pa.array([["ysolde"], ["tristan"], []])),
        ("'subject'", "lists"),
    ),
    "a structure a row": ("struct.parquet", make_parquet(x=pa.array([{"lon": 8.2173}] * 3)), ("'x'", "structures")),
    "a page of a login": ("login.csv", b"<!DOCTYPE html><p>ysolde", ("login", "Download")),
    "KML": ("a.kml", b"<?xml version='1.0'?><kml>ysolde 8.2173", ("gpsbabel -i kml -f a.kml -o gpx -F a.gpx",)),
    "lines of comments": ("a.csv", b"# by ysolde\n" + GOOD.encode(), ("Line 1", "#")),
    "GeoJSON of a line": (
        "line.geojson",
        b'{"type": "Feature", "properties": {"subject": "ysolde", "time": 1212566400}, "geometry": '
        b'{"type": "LineString", "coordinates": [[8.2173, 53.1415], [1, 2]]}}',
        ("'geometry'", "points"),
    ),
    "bytes for a subject": ("bytes.parquet", make_parquet(subject=pa.array([b"\xff", b"ysolde", b"b"])), ("UTF-8",)),
}


@pytest.fixture
def load(database: str, tmp_path: Path) -> Callable[..., Done]:
    def make(name: str, content: bytes, *options: str) -> Done:
        (tmp_path / name).write_bytes(content)
        return call(database, "load", "trajectories", str(tmp_path / name), "--dataset", "new", *options)

    return make


def is_empty(database: str) -> bool:
    with psycopg.connect(database) as connection:
        return connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)


@pytest.mark.many
@pytest.mark.parametrize("case", FILES)
def test_what_is_wrong_with_a_file_is_named_and_nothing_of_it_quoted(
    database: str, load: Callable[..., Done], case: str
) -> None:
    name, content, facts = FILES[case]
    done = load(name, content)
    demand_refused(done, 3, name, *facts)
    assert done.sentence.isprintable()
    assert [secret for secret in SECRETS if secret in done.stderr] == []
    assert is_empty(database)


def test_a_header_of_endless_names_is_cut(load: Callable[..., Done]) -> None:
    done = load("endless.csv", ("z" * 9000 + ",time,x,y\n" + format_fixes(1)).encode())
    demand_refused(done, 3, "time, x, y")
    assert len(done.sentence) < 400


@pytest.mark.stress
def test_a_pipe_is_no_file(database: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    done = wait_for_end(start(database, "load", "trajectories", str(pipe), "--dataset", "new"), seconds=60)
    demand_refused(done, 3, pipe, "a pipe")


@pytest.mark.stress
def test_what_waits_for_bytes_is_no_file(database: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        (tmp_path / "link").symlink_to("/proc/kmsg")
        named = {"/dev/zero": "a device", str(tmp_path / "socket"): "a socket", str(tmp_path): ".gpx or .plt"}
        for path, kind in {**named, str(tmp_path / "link"): "empty"}.items():
            done = wait_for_end(start(database, "load", "sites", path, "--dataset", "new"), seconds=60)
            assert done.code == 2  # there is no dataset yet
            done = wait_for_end(start(database, "load", "trajectories", path, "--dataset", "new"), seconds=60)
            demand_refused(done, 3, Path(path).name, kind)


def test_a_link_to_a_file_is_that_file(database: str, load: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "good").write_text(GOOD)
    (tmp_path / "link.csv").symlink_to(tmp_path / "good")
    assert call(database, "load", "trajectories", str(tmp_path / "link.csv"), "--dataset", "new").code == 0


@pytest.mark.many
@pytest.mark.parametrize("column", ["subject", "time"])
@pytest.mark.parametrize("shared", [True, False])
def test_strings_of_parquet_that_are_no_text_are_told_of_the_file(
    load: Callable[..., Done], column: str, shared: bool
) -> None:
    cells = pa.array([b"\xff\xfe", b"\xc3(", b"b"]).view(pa.string())
    file = io.BytesIO()
    whole = {"subject": ["a"] * 3, "time": [str(START_S)] * 3, "x": [8.2] * 3, "y": [53.1] * 3}
    pq.write_table(pa.table({**whole, column: cells}), file, use_dictionary=shared)
    done = load("flipped.parquet", file.getvalue())
    demand_refused(done, 3, "flipped.parquet", "UTF-8")


@pytest.mark.many
@pytest.mark.parametrize("zone", ["right/UTC", "posix/UTC", "Factory", "+02:00"])
def test_a_zone_that_one_of_the_readers_does_not_know_is_refused(
    database: str, load: Callable[..., Done], zone: str
) -> None:
    """Whether or not the file needs it; the standard library knows the first three, Arrow the last."""
    done = load("good.csv", GOOD.encode(), "--tz", zone)
    demand_refused(done, 2, "time zone", f"'{zone}'")
    with open_database(database) as opened, expect_refusal(ParameterError, "time zone", f"'{zone}'"):
        opened.load_requests(Path("x.csv"), dataset="new", columns=["poi"], tz=zone)


def test_a_name_that_a_terminal_would_obey_is_in_quarantine(database: str, load: Callable[..., Done]) -> None:
    names = enumerate(["a\x1b[2J", "b\0", "c\x9b", "d\x7f"])
    rows = "".join(f"{name},{START_S + 60 * i},8.2173,53.1415\n" for i, name in names)
    done = demand_done(load("names.csv", (HEAD + f"good,{START_S},8.2173,53.1415\n" * 4000 + rows).encode()))
    assert "quarantined: control-characters      4" in done.stdout


@pytest.mark.stress
def test_no_name_reaches_a_terminal_as_it_is(city_url: str, city_template: tuple[str, int], tmp_path: Path) -> None:
    wild, run = "\x1b]0;pwned\x07\x1b[2J\u202e\x9b2J\nrun", str(city_template[1])
    with psycopg.connect(city_url, autocommit=True) as superuser:
        superuser.execute("ALTER TABLE dbanon.dataset DROP CONSTRAINT dataset_name_check")
        superuser.execute("UPDATE dbanon.dataset SET name = %s", [wild])
    file = tmp_path / f"{wild}.csv".replace("\n", "")
    file.write_text(GOOD + GOOD[len(HEAD) :].replace("ysolde0", f"ysolde{wild[:4]}"))
    commands = [
        ("verify", run), ("publish", run, "city_k5"), ("runs",), ("releases",), ("card", "city_k5"),
        ("plan", "tp-aware", "--dataset", wild), ("run", "tp-aware", "--dataset", wild, "-p", "k=" + wild),
        ("run", "tp-aware", "--dataset", wild + "?"), ("publish", run, wild), ("unpublish", wild), ("card", wild),
        ("forget", "--dataset", wild, "--subject", wild), ("submit", wild, "--dataset", wild), ("runs", wild),
        ("load", "trajectories", str(file), "--dataset", wild, "--append"),
        ("load", "trajectories", str(file), "--dataset", "second"),
        ("load", "trajectories", str(file), "--dataset", wild), ("load", "sites", str(file), "--dataset", wild),
        ("load", "requests", str(file), "--dataset", wild, "--columns", wild),
        ("import", wild, "--dataset", wild, "--subject", wild, "--time", wild, "--geom", wild), ("--debug", wild),
        ("synth", "--dataset", wild), ("synth", "--csv", str(tmp_path / wild), "--objects", "4", "--instants", "2"),
    ]  # fmt: skip
    ended = [call(city_url, *command) for command in commands]
    for command, done in zip(commands, ended, strict=True):
        shown = (done.stdout + done.stderr).replace("\n", "")
        assert shown.isprintable(), (command, done)
        assert read_json(call(city_url, "--json", *command)) or command[0] == "unpublish", command
    listed = dict(zip(commands, ended, strict=True))
    assert [listed[command].code for command in [("verify", run), ("publish", run, "city_k5"), ("runs",)]] == [0, 0, 0]
    for command in (("runs",), ("releases",), ("card", "city_k5")):
        assert r"\x1b]0;pwned\x07\x1b[2J\u202e\x9b2J\nrun" in listed[command].stdout
    loaded = listed["load", "trajectories", str(file), "--dataset", "second"]
    assert loaded.code == 0
    assert r"reading \x1b]0;pwned" in loaded.stderr


def test_a_dataset_must_have_a_name_that_can_be_seen(database: str, load: Callable[..., Done]) -> None:
    """The table refuses the characters that loads refuse: all that have no shape, and no others."""
    for name in ("\x1b]0;pwned\x07", "a\nb", "a\u202eb", "a\u009bb"):
        done = call(database, "load", "trajectories", "x.csv", "--dataset", name)
        demand_refused(done, 2, 1, 200)
    odd = {n for n in range(1, 0x110000) if unicodedata.category(chr(n)) in ("Cc", "Cf", "Zl", "Zp")}
    points = sorted(odd | {n + step for n in odd for step in (-1, 1)} - {0})
    with psycopg.connect(database, autocommit=True) as superuser:
        superuser.execute(
            """
            CREATE TEMP TABLE point AS SELECT unnest(%s::integer[]) AS code;
            DO $$ DECLARE refused boolean; n integer; BEGIN
                FOR n IN SELECT code FROM point LOOP
                    refused := false;
                    BEGIN
                        PERFORM dbanon_internal.demand_dataset_options(asked)
                            FROM jsonb_populate_record(NULL::dbanon_internal.loading, jsonb_build_object(
                                'dataset', 'a' || chr(n), 'mode', 'create', 'grid_m', 1, 'grid_s', 1)) asked;
                    EXCEPTION WHEN SQLSTATE 'DA011' THEN
                        refused := true;
                    END;
                    BEGIN
                        INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('a' || chr(n), 32610, 1, 1);
                        RAISE EXCEPTION USING ERRCODE = 'P0002';
                    EXCEPTION WHEN check_violation THEN
                        ASSERT refused, n;
                    WHEN no_data_found THEN
                        ASSERT NOT refused, n;
                    END;
                END LOOP;
            END $$""".replace("%s", f"'{{{','.join(map(str, points))}}}'")
        )


def test_a_subject_that_is_no_number_among_numbers_is_missing(database: str, load: Callable[..., Done]) -> None:
    """Pandas makes floats of whole numbers where one is missing; NaN is nobody."""
    demand_done(load("floats.parquet", make_parquet(subject=pa.array([1.0, float("nan"), 1.0]))))
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT DISTINCT subject FROM dbanon.trajectory").fetchall() == [("1",)]
        assert connection.execute("SELECT reason FROM dbanon.quarantine").fetchall() == [("missing-subject",)]


@pytest.mark.many
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (("--grid-s", "99999999999"), ("time grid", 99999999999)),
        (("--grid-m", "1e300"), ("space grid", "1e+300")),
        (("--srid", "99999999999"), ("spatial_ref_sys", "EPSG:99999999999")),
        (("--srid", "-1"), ("spatial_ref_sys", -1)),
        (("--crs", "EPSG:0"), ("spatial_ref_sys", "EPSG:0")),
        (("--x", "y"), ("person, time, x and y", "'y'")),
        (("--time", "x"), ("person, time, x and y", "'x'")),
        (("--subject", "time"), ("person, time, x and y", "'time'")),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    database: str, load: Callable[..., Done], options: tuple[str, ...], facts: tuple[object, ...]
) -> None:
    done = load("good.csv", GOOD.encode(), *options)
    demand_refused(done, 2, *facts)
    assert is_empty(database)


@pytest.mark.parametrize("column", ["subject", "time"])
def test_the_sender_and_the_time_are_no_content_of_a_request(
    database: str, load: Callable[..., Done], tmp_path: Path, column: str
) -> None:
    assert load("good.csv", GOOD.encode()).code == 0
    file = str(tmp_path / "good.csv")
    done = call(database, "load", "requests", file, "--dataset", "new", "--columns", f"x,{column}")
    demand_refused(done, 2, "content", f"'{column}'")
