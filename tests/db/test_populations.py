"""Whose people may be the same: populations, settle times, and datasets whose rows are each a subject."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from dbanon import load
from dbanon.base.errors import ParameterError
from dbanon.database import open_database
from dbanon.options.loading import LoadingTrajectories, Mode
from tests.acceptance.commands import call
from tests.facts import demand_named, demand_refused, expect_refusal
from tests.importing import record_release

PEOPLE = (
    "SELECT p.name, d.settle_s, d.own_subjects FROM dbanon.dataset d JOIN dbanon.population p USING (population_id) "
    "WHERE d.name = %s"
)
OWN, NAMED = "-", "subject"
GPS = (
    "CREATE TABLE public.gps AS SELECT format('s%s', i) AS subject, 1212566400 AS time, "
    "ST_SetSRID(ST_MakePoint(8.2 + i * 1e-3, 53.1), 4326) AS geom FROM generate_series(0, 9) i"
)


@pytest.fixture
def fixes(tmp_path: Path) -> Callable[[int], Path]:
    def write(first: int) -> Path:
        path = tmp_path / f"from{first}.csv"
        rows = (f"s{i},{1_212_566_400 + i},{8.2 + i / 1000},53.1\n" for i in range(first, first + 10))
        path.write_text("subject,time,x,y\n" + "".join(rows))
        return path

    return write


def _load(
    connection: psycopg.Connection,
    path: Path,
    *,
    dataset: str = "d",
    mode: Mode = "create",
    subject: str = "subject",
    population: str | None = None,
    settle_s: int | None = None,
) -> load.LoadReport:
    options = LoadingTrajectories(dataset=dataset, mode=mode, population=population, settle_s=settle_s, subject=subject)
    return load.load_trajectories(connection, [path], options)


def _count_people(connection: psycopg.Connection, dataset: str = "d") -> tuple[object, ...] | None:
    return connection.execute(PEOPLE, [dataset]).fetchone()


def test_a_dataset_is_of_the_default_population_unless_another_is_named(connection, fixes):
    _load(connection, fixes(0))
    assert _count_people(connection) == ("default", 900, False)
    for dataset in ("e", "f"):
        _load(connection, fixes(0), dataset=dataset, population="fleet b", settle_s=0)
        assert _count_people(connection, dataset) == ("fleet b", 0, False)
    assert connection.execute("SELECT count(*) FROM dbanon.population").fetchone() == (2,)


def test_all_ways_of_making_a_dataset_name_its_population(database, connection, fixes):
    connection.execute(GPS)
    connection.execute(
        "SELECT dbanon.import_trajectories('public.gps', 'sql', population => 'fleet-b', settle_s => 60)"
    )
    with open_database(database) as opened:
        columns = {"subject": "subject", "time": "time", "geom": "geom"}
        opened.import_trajectories("gps", dataset="table", **columns, population="fleet-b", settle_s=60)
        opened.load_trajectories([fixes(0)], dataset="file", population="fleet-b", settle_s=60)
        opened.synth("made", objects=20, instants=2, population="fleet-b", settle_s=60)
    named = ("--population", "fleet-b", "--settle-s", "60")
    for arguments in (
        ("load", "trajectories", str(fixes(0)), "--dataset", "by load", *named),
        ("import", "gps", "--dataset", "by import", "--subject", "subject", "--time", "time", "--geom", "geom", *named),
        ("synth", "--dataset", "by synth", "--objects", "20", "--instants", "2", *named),
    ):
        assert call(database, *arguments).code == 0
    for dataset in ("sql", "table", "file", "made", "by load", "by import", "by synth"):
        assert _count_people(connection, dataset) == ("fleet-b", 60, False)


@pytest.mark.many
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"population": " "}, ("population", "1 to 200")),
        ({"population": "x" * 201}, ("population", "1 to 200")),
        ({"population": "a\u200bb"}, ("population", "visible")),
        ({"settle_s": -1}, ("settle", "604,800", "-1")),
        ({"settle_s": 604_801}, ("settle", "604,800", 604801)),
        ({"settle_s": 10**12}, ("settle", "604,800")),
    ],
)
def test_what_is_no_population_or_settle_time_is_refused(connection, fixes, options, facts):
    with expect_refusal(ParameterError, *facts):
        _load(connection, fixes(0), **options)
    assert connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)


def test_generated_files_have_no_population(database, tmp_path):
    for option in (("--population", "a"), ("--settle-s", "1")):
        demand_refused(call(database, "synth", "--csv", str(tmp_path), *option), 2, option[0], "--csv")


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_dataset_without_releases_may_change_its_population_and_settle_time(connection, fixes, mode):
    _load(connection, fixes(0), settle_s=60)
    _load(connection, fixes(10), mode=mode)
    assert _count_people(connection) == ("default", 60, False)
    _load(connection, fixes(20), mode=mode, population="b", settle_s=30)
    assert _count_people(connection) == ("b", 30, False)
    told = connection.execute("SELECT detail FROM dbanon.audit WHERE action = 'settle'").fetchall()
    was = {"population": "default", "settle_s": 60}
    assert told == [({"population": "b", "settle_s": 30, "was": was},)]


def test_a_dataset_with_a_release_stays_in_its_population(database, connection, fixes):
    _load(connection, fixes(0), population="a")
    record_release(connection, "d")
    more = ("load", "trajectories", str(fixes(10)), "--dataset", "d", "--append")
    for option in (("--population", "b"), ("--settle-s", "899")):
        demand_refused(call(database, *more, *option), 2, "population 'a'", "900 seconds", "--population", "--settle-s")
    assert _count_people(connection) == ("a", 900, False)
    assert connection.execute("SELECT count(*) FROM dbanon.trajectory").fetchone() == (10,)
    assert call(database, *more, "--population", "a", "--settle-s", "901").code == 0
    assert _count_people(connection) == ("a", 901, False)


def test_an_operator_moves_no_dataset_with_a_release_by_hand(connection, login, fixes):
    _load(connection, fixes(0))
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as operator:
        operator.execute("SELECT dbanon_internal.find_or_add_population('b')")
        operator.execute("UPDATE dbanon.dataset SET population_id = 2, settle_s = 100, own_subjects = true")
        record_release(connection, "d")
        for change in ("population_id = 1", "settle_s = 99", "own_subjects = false"):
            with expect_refusal("DA011", "'b'", "100 seconds"):
                operator.execute(f"UPDATE dbanon.dataset SET {change}")
        operator.execute("UPDATE dbanon.dataset SET settle_s = 101")
    assert _count_people(connection) == ("b", 101, True)


@pytest.mark.parametrize("role", ["dbanon_operator", "dbanon_worker", "dbanon_analyst"])
def test_no_role_reads_the_key_of_a_population(login, role):
    with psycopg.connect(login(role), autocommit=True) as caller:
        for statement in (
            "SELECT key FROM dbanon.population",
            "INSERT INTO dbanon.population (name, key) VALUES ('b', '\\x00') RETURNING key",
            "UPDATE dbanon.population SET key = '\\x00'",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                caller.execute(statement)


# ---- rows of their own -----------------------------------------------------------------------------------------------


def test_rows_of_their_own_match_no_subject_of_another_dataset(connection, fixes):
    for dataset in ("d", "e"):
        _load(connection, fixes(0), dataset=dataset, subject=OWN)
        assert _count_people(connection, dataset) == ("default", 900, True)
    people = (
        "SELECT count(*), count(DISTINCT t.subject), "
        "count(DISTINCT dbanon_internal.hash_person(dbanon_internal.find_dataset_key(t.dataset_id), t.subject)) "
        "FROM dbanon.trajectory t"
    )
    assert connection.execute(people).fetchone() == (20, 10, 20)


def test_rows_of_their_own_are_added_under_further_numbers(connection, fixes):
    _load(connection, fixes(0), subject=OWN)
    _load(connection, fixes(100), subject=OWN, mode="append")
    numbers = connection.execute("SELECT subject FROM dbanon.trajectory ORDER BY subject").fetchall()
    assert [int(number) for (number,) in numbers] == list(range(1, 21))


@pytest.mark.parametrize(("first", "second"), [(OWN, NAMED), (NAMED, OWN)])
def test_subjects_with_and_without_names_are_not_mixed(connection, fixes, first, second):
    _load(connection, fixes(0), subject=first)
    with expect_refusal(ParameterError, "'d'", "names", "separate"):
        _load(connection, fixes(100), subject=second, mode="append")
    _load(connection, fixes(100), subject=second, mode="replace")
    assert _count_people(connection) == ("default", 900, second is OWN)


def test_a_table_without_names_is_not_added_to_one_with_names(connection):
    connection.execute(GPS)
    connection.execute("SELECT dbanon.import_trajectories('public.gps', 'd')")
    statement = "SELECT dbanon.import_trajectories('public.gps', 'd', subject => '-', mode => 'append')"
    with expect_refusal("DA011", "'d'", "names") as caught:
        connection.execute(statement)
    demand_named(str(caught.value.diag.message_hint), "separate dataset")
