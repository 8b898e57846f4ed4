"""Subjects cut into days: each day is a record of its own, people are counted once."""

import psycopg
import pytest

from dbanon import load
from dbanon.base.errors import InfeasibleError, ParameterError
from dbanon.database import Database, open_database
from dbanon.options.loading import LoadingQuasiIdentifiers, LoadingRequests, LoadingTrajectories
from tests.importing import catch_refusal

DAY_S = 86_400
ZONE = "America/Los_Angeles"  # midnight is at 07:00 UTC in June
JUNE_S = 1_212_562_800  # 2008-06-04 07:00 UTC


@pytest.fixture
def write(tmp_path):
    def make(rows, name="fixes.csv"):
        path = tmp_path / name
        path.write_text("subject,time,x,y\n" + "".join(f"{row}\n" for row in rows))
        return path

    return make


def _format_fixes(subject, *times, x=8.2):
    return [f"{subject},{t},{x + t % 7 / 1000:.4f},53.1" for t in times]


def _load_per_day(connection, path, **options):
    return _load(connection, path, subject_per_day=True, **options)


def _load(connection, path, dataset="town", **options):
    return load.load_trajectories(connection, [path], LoadingTrajectories(time_unit="s", dataset=dataset, **options))


def _read_days(connection):
    return connection.execute(
        "SELECT subject, day::text, count(*) FROM dbanon.subject_day GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()


TIMES = [JUNE_S - 60, JUNE_S, JUNE_S + 60, JUNE_S + DAY_S - 1, JUNE_S + DAY_S, JUNE_S + 2 * DAY_S]


@pytest.mark.parametrize("gap", [None, 40])
def test_a_subject_is_cut_at_each_midnight_of_the_zone(connection, write, gap):
    path = write(_format_fixes("anna", *TIMES) + _format_fixes("bert", JUNE_S))
    report = _load_per_day(connection, path, tz=ZONE, split_gap_s=gap)
    assert (report.subjects, report.days, report.kept) == (2, 5, 7)
    assert [(subject, day) for subject, day, _ in _read_days(connection)] == [
        ("anna", "2008-06-03"),
        ("anna", "2008-06-04"),
        ("anna", "2008-06-05"),
        ("anna", "2008-06-06"),
        ("bert", "2008-06-04"),
    ]
    assert any(ZONE in notice for notice in report.notices)
    crossing = connection.execute(
        "SELECT count(*) FROM dbanon.fix f JOIN dbanon.subject_day d USING (trajectory_id) "
        "WHERE (f.t AT TIME ZONE %s)::date <> d.day",
        [ZONE],
    ).fetchone()
    assert crossing == (0,)


def test_that_days_are_cut_is_said_when_the_dataset_is_made_alone(connection, write):
    first = _load_per_day(connection, write(_format_fixes("anna", *TIMES)), mode="new", tz=ZONE)
    again = _load_per_day(connection, write(_format_fixes("anna", JUNE_S + 5 * DAY_S)), mode="new", tz=ZONE)
    assert [any("separate, from midnight" in notice for notice in report.notices) for report in (first, again)] == [
        True,
        False,
    ]
    assert again.days == 1


def test_without_a_zone_midnight_is_that_of_utc(connection, write):
    _load_per_day(connection, write(_format_fixes("anna", DAY_S - 1, DAY_S)))
    assert _read_days(connection) == [("anna", "1970-01-01", 1), ("anna", "1970-01-02", 1)]
    assert connection.execute("SELECT day_zone FROM dbanon.dataset").fetchone() == ("UTC",)


def test_a_table_is_cut_as_a_file_is(connection, write):
    _load_per_day(connection, write(_format_fixes("anna", *TIMES)), tz=ZONE)
    connection.execute("CREATE TABLE public.gps AS SELECT subject, t AS time, position AS geom FROM dbanon.fix")
    days = connection.execute(
        "SELECT days, subjects FROM dbanon.import_trajectories("
        "'public.gps', dataset => 'copy', subject_per_day => true, tz => %s)",
        [ZONE],
    ).fetchone()
    assert days == (4, 1)
    both = connection.execute(
        "SELECT dataset_id, array_agg(day ORDER BY day) FROM dbanon.subject_day GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert both[0][1] == both[1][1]


def test_what_is_added_is_cut_as_what_is_there(connection, write):
    _load_per_day(connection, write(_format_fixes("anna", JUNE_S)), tz=ZONE)
    more = write(_format_fixes("anna", JUNE_S + 2 * DAY_S, JUNE_S + 3 * DAY_S), "more.csv")
    report = _load(connection, more, dataset="town", mode="append")
    assert (report.trajectories, report.days) == (2, 2)
    with pytest.raises(ParameterError, match="UTC"):
        _load_per_day(connection, write(_format_fixes("anna", 0)), mode="append")
    whole = write(_format_fixes("carl", JUNE_S, JUNE_S + DAY_S), "whole.csv")
    _load(connection, whole, dataset="whole")
    with pytest.raises(ParameterError, match=ZONE):
        _load(connection, more, dataset="whole", mode="append", subject_per_day=True, tz=ZONE)
    _load(connection, whole, dataset="town", mode="replace")
    assert connection.execute("SELECT count(*) FROM dbanon.subject_day").fetchone() == (0,)


def test_rows_of_their_own_have_no_days(connection, write):
    with pytest.raises(ParameterError, match="'-'"):
        _load_per_day(connection, write(_format_fixes("anna", JUNE_S)), subject="-")
    assert connection.execute("SELECT count(*) FROM dbanon.dataset").fetchone() == (0,)
    connection.execute("CREATE TABLE public.gps AS SELECT 0 AS time, ST_SetSRID(ST_MakePoint(8, 53), 4326) AS geom")
    statement = "SELECT * FROM dbanon.import_trajectories('public.gps', 'd', subject => '-', subject_per_day => true"
    assert "'-'" in str(catch_refusal(connection, statement))


def test_forgetting_a_person_erases_all_days_with_what_was_sent_and_seen(connection, write, tmp_path):
    _load_per_day(connection, write(_format_fixes("anna", *TIMES) + _format_fixes("bert", *TIMES)), tz=ZONE)
    sent = tmp_path / "sent.csv"
    sent.write_text("subject,time,poi\n" + "".join(f"anna,{t},bar\n" for t in TIMES))
    load.load_requests(connection, sent, LoadingRequests(dataset="town", columns=("poi",)))
    load.load_quasi_identifiers(connection, sent, LoadingQuasiIdentifiers(dataset="town", set_name="cameras"))
    # What was sent and seen belongs to the person, and so to the day that its time lies in.
    joined = connection.execute(
        "SELECT count(DISTINCT (q.at AT TIME ZONE d.day_zone)::date) FROM dbanon.quasi_identifier q "
        "JOIN dbanon.dataset d USING (dataset_id) JOIN dbanon.subject_day s ON s.dataset_id = q.dataset_id "
        "AND s.subject = q.subject AND s.day = (q.at AT TIME ZONE d.day_zone)::date"
    ).fetchone()
    assert joined == (4,)
    connection.execute("SELECT dbanon.forget_subject('town', 'anna')")
    left = [
        connection.execute(f"SELECT count(*) FROM dbanon.{name} WHERE subject = 'anna'").fetchone()[0]
        for name in ("trajectory", "request", "quasi_identifier", "subject_day")
    ]
    assert left == [0, 0, 0, 0]
    assert {subject for subject, _, _ in _read_days(connection)} == {"bert"}


def test_days_of_one_person_never_hide_each_other(database: str, connection: psycopg.Connection, write) -> None:
    """Four people, eight days: k = 5 is not to be had, in bundles or at an instant, in any family."""
    rows = [
        row for i in range(4) for row in _format_fixes(f"s{i}", *range(DAY_S - 300, DAY_S + 300, 60), x=8.2 + i / 1000)
    ]
    _load_per_day(connection, write(rows))
    assert connection.execute("SELECT count(*) FROM dbanon.trajectory").fetchone() == (8,)
    site = write(["a,0,8.2,53.1"], "site.csv")
    with open_database(database) as opened:
        opened.load_sites(site, dataset="town")
        for method, params in (
            ("tp-aware", {"k": 5, "instants": 1}),
            ("sensitive-sites", {"k": 5, "at": "1970-01-02T00:00:00Z"}),
        ):
            with pytest.raises(InfeasibleError):
                _run(opened, method, params)
            _run(opened, method, {**params, "k": 4})
    worst = connection.execute("SELECT max(crowd) FROM dbanon.cloak").fetchone()
    assert worst == (4,)


def _run(opened: Database, method: str, params: dict[str, object]) -> None:
    opened.run(method, dataset="town", params=params, seed=1).require_verified()
