"""People who were forgotten stay away: every load leaves them out, and no other way of writing brings them back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from dbanon import load, releases
from dbanon.options.loading import LoadingQuasiIdentifiers, LoadingRequests, LoadingTrajectories
from tests.facts import demand_named, expect_refusal
from tests.reading import collect_notices

Login = Callable[[str], str]
WHO = "Zoë-7"
SOURCE = """
CREATE TABLE public.gps AS SELECT CASE c WHEN 0 THEN 'Zoë-7' ELSE 'c' || c END AS cab,
    timestamptz '2026-01-05 00:00+00' + f * interval '1 min' AS ts,
    ST_SetSRID(ST_MakePoint(8.2 + c * 1e-3, 53.1 + f * 1e-3), 4326) AS at, 'bank' AS poi
FROM generate_series(0, 9) c, generate_series(1, 5) f;
GRANT SELECT ON public.gps TO PUBLIC
"""
TABLE = "SELECT * FROM dbanon.import_trajectories('public.gps', 'd', 'cab', 'ts', 'at', mode => %s)"


@pytest.fixture
def gps(connection: psycopg.Connection) -> psycopg.Connection:
    """Dataset d, from a table of nine cabs and one person, who was forgotten since."""
    connection.execute(SOURCE)
    connection.execute(TABLE, ["create"])
    forget(connection)
    return connection


@pytest.fixture
def operator(gps: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        yield opened


def forget(connection: psycopg.Connection, *more: Any) -> None:
    marks = ", ".join(["%s"] * (2 + len(more)))
    connection.execute(f"SELECT dbanon.forget_subject({marks})", ["d", WHO, *more])  # type: ignore[arg-type]


def fetch_row(connection: psycopg.Connection, query: str, *given: Any) -> dict[str, Any]:
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(query, given).fetchone()  # type: ignore[arg-type]
    assert found is not None
    return found


def count_traces(connection: psycopg.Connection) -> int:
    """Count the rows that name the person, wherever a load could leave some."""
    tables = ("trajectory", "request", "quasi_identifier", "quarantine", "audit", "load")
    query = " UNION ALL ".join(f"SELECT t::text AS line FROM dbanon.{table} t" for table in tables)
    return int(fetch_row(connection, f"SELECT count(*) AS n FROM ({query}) x WHERE line LIKE '%%Zoë%%'")["n"])


def test_a_table_comes_without_the_person_who_was_forgotten(operator: psycopg.Connection) -> None:
    heard = collect_notices(operator)
    found = fetch_row(operator, TABLE, "new")
    assert (found["known"], found["forgotten"], found["rows_kept"]) == (45, 5, 0)
    [notice] = [one for one in heard if "forgotten" in one and "left out" in one]
    demand_named(notice, 5)
    found = fetch_row(operator, TABLE, "replace")
    assert (found["rows_kept"], found["forgotten"]) == (45, 5)
    assert count_traces(operator) == 0


def test_rows_that_could_not_be_used_leave_no_copy_of_the_person_either(gps: psycopg.Connection) -> None:
    gps.execute("INSERT INTO gps SELECT cab, ts, NULL, poi FROM gps")
    found = fetch_row(gps, TABLE, "replace")
    assert (found["quarantined"], found["forgotten"]) == ({"missing-position": 45}, 10)
    assert count_traces(gps) == 0


def test_other_spellings_of_the_name_are_left_out_too(gps: psycopg.Connection) -> None:
    gps.execute("UPDATE gps SET cab = E' ' || normalize(cab, NFD) || E'\\t' WHERE cab LIKE 'Z%'")
    assert fetch_row(gps, TABLE, "replace")["forgotten"] == 5
    assert count_traces(gps) == 0


def test_files_come_without_the_person(gps: psycopg.Connection, tmp_path: Path) -> None:
    (file := tmp_path / "f.csv").write_text(
        f"subject,time,x,y,poi\n{WHO},1767571200,8.2,53.1,bank\n{WHO},1767571201,8.2,soon,bank\nc1,1767574800,8.2,53.1,bank\n"
    )
    report = load.load_trajectories(gps, [file], LoadingTrajectories(dataset="d", mode="append"))
    assert (report.kept, report.forgotten, report.quarantined) == (1, 2, {})
    report = load.load_requests(gps, file, LoadingRequests(dataset="d", columns=["poi"]))
    assert (report.kept, report.forgotten) == (1, 2)
    report = load.load_quasi_identifiers(gps, file, LoadingQuasiIdentifiers(dataset="d"))
    assert (report.kept, report.forgotten) == (1, 2)
    assert count_traces(gps) == 0


@pytest.mark.parametrize("call", ["import_requests('public.gps', 'd', ARRAY['poi'], 'cab', 'ts')",
                                  "import_quasi_identifiers('public.gps', 'd', 'cab', 'ts')"])  # fmt: skip
def test_requests_and_quasi_identifiers_come_without_the_person(operator: psycopg.Connection, call: str) -> None:
    found = fetch_row(operator, f"SELECT * FROM dbanon.{call}")
    assert (found["rows_kept"], found["forgotten"]) == (45, 5)
    assert count_traces(operator) == 0


def test_another_dataset_of_the_population_leaves_the_person_out_and_another_population_does_not(
    gps: psycopg.Connection,
) -> None:
    assert fetch_row(gps, TABLE.replace("'d'", "'e'"), "create")["forgotten"] == 5
    assert (
        fetch_row(gps, TABLE.replace("'d'", "'f'").replace("%s", "%s, population => 'fleet'"), "create")["forgotten"]
        == 0
    )


WRITES = {
    "trajectory": "INSERT INTO dbanon.trajectory (dataset_id, subject, path) "
    "SELECT dataset_id, 'Zoë-7', path FROM dbanon.trajectory",
    "request": "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) SELECT 1, 'Zoë-7', now(), '{}'",
    "quasi_identifier": "INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at) SELECT 1, 'Zoë-7', now()",
    "a new name": "UPDATE dbanon.trajectory SET subject = 'Zoë-7' WHERE subject = 'c1'",
    "replica": "SET session_replication_role = replica; "
    "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) SELECT 1, 'Zoë-7', now(), '{}'",
}


@pytest.mark.parametrize("way", WRITES)
def test_no_other_way_of_writing_brings_the_person_back(gps: psycopg.Connection, way: str) -> None:
    with expect_refusal("DA012") as caught:
        gps.execute(WRITES[way])  # type: ignore[arg-type]
    assert caught.value.diag.message_hint
    assert WHO not in str(caught.value)
    assert count_traces(gps) == 0


def test_rows_of_a_dataset_in_which_the_person_was_not_forgotten_can_still_be_changed(
    connection: psycopg.Connection,
) -> None:
    connection.execute(SOURCE)
    for dataset in ("'d'", "'e'"):
        connection.execute(TABLE.replace("'d'", dataset), ["create"])
    forget(connection)
    connection.execute("SELECT dbanon.forget_before('e', '2026-01-05 00:03:30+00')")  # cuts the person's path as others
    assert fetch_row(connection, "SELECT count(*) AS n FROM dbanon.fix WHERE subject = 'Zoë-7'")["n"] == 2


def test_a_person_may_be_forgotten_so_that_the_name_can_come_again(gps: psycopg.Connection) -> None:
    assert releases.remember_subject(gps, "default", WHO)
    assert fetch_row(gps, TABLE, "new")["rows_kept"] == 5
    forget(gps, True)
    assert fetch_row(gps, TABLE, "new")["rows_kept"] == 5
    assert fetch_row(gps, "SELECT count(*) AS n FROM dbanon.forgotten")["n"] == 0
    assert fetch_row(
        gps, "SELECT detail -> 'again' AS it FROM dbanon.audit WHERE action = 'forget' ORDER BY audit_id DESC LIMIT 1"
    )["it"]


def test_a_forgotten_person_who_is_remembered_comes_with_the_next_load_and_the_audit_names_nobody(
    operator: psycopg.Connection,
) -> None:
    assert releases.remember_subject(operator, "default", f" {WHO} ")
    assert not releases.remember_subject(operator, "default", WHO)
    found = fetch_row(
        operator, "SELECT array_agg(detail ORDER BY audit_id) AS all FROM dbanon.audit WHERE action = 'remember'"
    )
    assert found["all"] == [{"population": "default", "lifted": True}, {"population": "default", "lifted": False}]
    assert count_traces(operator) == 0
    assert fetch_row(operator, TABLE, "new")["rows_kept"] == 5
    with expect_refusal("DA001") as caught:
        operator.execute("SELECT dbanon.remember_subject('fleet', 'x')")
    demand_named(str(caught.value), "'fleet'")
    for nobody in (None, " "):
        with expect_refusal("DA011") as caught:
            operator.execute("SELECT dbanon.remember_subject('default', %s)", [nobody])


@pytest.mark.parametrize("role", ["operator", "worker", "analyst"])
def test_no_role_reads_who_was_forgotten(gps: psycopg.Connection, login: Login, role: str) -> None:
    with psycopg.connect(login(f"dbanon_{role}"), autocommit=True) as opened, expect_refusal("42501"):
        opened.execute("SELECT count(*) FROM dbanon.forgotten")


def test_rows_that_are_their_own_subjects_are_nobody_to_be_forgotten(connection: psycopg.Connection) -> None:
    connection.execute(
        "CREATE TABLE public.trips AS SELECT now() - i * interval '1 min' AS ts, "
        "ST_SetSRID(ST_MakePoint(8.2 + i * 1e-3, 53.1), 4326) AS at FROM generate_series(1, 20) i"
    )
    connection.execute("SELECT dbanon.import_trajectories('public.trips', 'd', '-', 'ts', 'at')")
    connection.execute("SELECT dbanon.forget_subject('d', '000000000001')")
    assert fetch_row(connection, "SELECT count(*) AS n FROM dbanon.forgotten")["n"] == 0
    assert fetch_row(connection, "SELECT count(*) AS n FROM dbanon.trajectory")["n"] == 19
