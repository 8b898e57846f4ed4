"""Requests and quasi-identifiers out of tables, by SQL alone."""

import psycopg
import pytest

from dbanon import load
from dbanon.options.loading import LoadingRequests
from tests.facts import demand_named
from tests.importing import (
    CALLS,
    SIGHTINGS,
    call,
    catch_refusal,
    fetch_everything,
    list_left_out,
    make_calls,
    make_seen,
    settle,
)

# ---- requests and quasi-identifiers ----------------------------------------------------------------------------------

EVENTS = [
    ("a", "1212562800", "pharmacy", "5"),
    ("a", "1212562800", "pharmacy", "5"),
    ("  a\u00a0", "1212562801.5", " pharmacy ", None),
    ("caf\u00e9", "1212562802", "x", " "),
    ("cafe\u0301", "1212562803", "e\u0301", "1"),
    (None, "1212562800", "x", "1"),
    (" \t", "1212562800", "x", "1"),
    ("x" * 1001, "1212562800", "x", "1"),
    ("\u00e4" * 501, "1212562800", "x", "1"),
    ("a\tb", "1212562800", "x", "1"),
    ("a\x1b[2J", None, "x", "1"),
    ("a\u0085b", "NaN", "x", "1"),
    ("a", None, "x", "1"),
    ("a", "NaN", "x", "1"),
    ("a", "-Infinity", "x", "1"),
    ("a", "1e12", "x", "1"),
    ("a", "-1e12", "x", "1"),
    ("a", "1212562800", None, " "),
    ("\u00e4" * 500, "1212562800", "x", "1"),
]


def test_requests_of_a_table_are_those_of_a_file_of_the_same_rows(database, tmp_path):
    with psycopg.connect(database, autocommit=True) as own:
        settle(own)
        make_calls(own, *EVENTS)
        path = tmp_path / "calls.csv"
        path.write_text("subject,time,poi,radius\n" + "".join(",".join(c or "" for c in row) + "\n" for row in EVENTS))
        query = "SELECT subject, sent_at, content FROM dbanon.request ORDER BY request_id"
        read, kept, reasons = call(own, CALLS)
        stored = fetch_everything(own, query)
        own.execute("DELETE FROM dbanon.request")
        report = load.load_requests(own, path, LoadingRequests(dataset="town", columns=("poi", "radius")))
        assert (report.read, report.kept, report.quarantined) == (read, kept, reasons)
        assert fetch_everything(own, query) == stored
        lines = list_left_out(own)
        half = len(lines) // 2
        assert [(line + 1, reason) for line, reason in lines[:half]] == lines[half:]
        assert len(reasons) == 7
        assert stored[2][0] == "a"
        assert stored[2][2] == {"poi": "pharmacy"}


def test_requests_that_are_there_already_add_nothing(town):
    make_calls(town, *EVENTS[:2])
    assert call(town, CALLS) == (2, 2, {})
    town.execute(
        "INSERT INTO public.calls VALUES ('a', 1212562800, 'pharmacy', '6'), ('b', 1212562800, 'pharmacy', '5')"
    )
    assert call(town, CALLS) == (4, 2, {"duplicate-request": 2})
    demand_named(str(catch_refusal(town, CALLS)), "4 rows", "duplicate-request")
    content = "SELECT content FROM dbanon.quarantine WHERE reason = 'duplicate-request' LIMIT 1"
    told = fetch_everything(town, content)[0][0]
    assert told == {"subject": "a", "time": "1212562800", "poi": "pharmacy", "radius": "5"}


@pytest.mark.parametrize(("statement", "name"), [(CALLS, "request"), (SIGHTINGS, "quasi_identifier")])
def test_what_another_dataset_has_is_no_duplicate(town, statement, name):
    make_calls(town, EVENTS[0])
    make_seen(town, ("a", 1212562800))
    call(town, statement)
    town.execute(f"UPDATE dbanon.{name} SET dataset_id = (SELECT dataset_id FROM dbanon.dataset WHERE name = 'ten')")
    assert call(town, statement) == (1, 1, {})


def test_a_request_may_have_more_columns_than_a_function_arguments(town):
    names = [f"c{i}" for i in range(120)]
    columns = ", ".join(f"{i} AS {name}" for i, name in enumerate(names))
    town.execute(f"CREATE TABLE public.wide AS SELECT 'a' AS subject, 1212562800 AS time, {columns}")
    town.execute("SELECT dbanon.import_requests('public.wide', 'town', %s)", [names])
    content = fetch_everything(town, "SELECT content FROM dbanon.request WHERE subject = 'a'")[0][0]
    assert content == {name: str(i) for i, name in enumerate(names)}


def test_quasi_identifiers_are_stored_and_recorded(town):
    make_seen(town, ("a", 1212562800), ("a", 1212562860), (" a", 1212562800), ("b", 1212562800), (None, 0), ("b", None))
    assert call(town, SIGHTINGS) == (
        6,
        3,
        {"missing-subject": 1, "unparsable-time": 1, "duplicate-quasi-identifier": 1},
    )
    stored = fetch_everything(
        town, "SELECT subject, extract(epoch FROM at)::float8 FROM dbanon.quasi_identifier ORDER BY 1, 2"
    )
    assert stored == [("a", 1212562800.0), ("a", 1212562860.0), ("b", 1212562800.0)]
    assert fetch_everything(town, "SELECT kind, source FROM dbanon.load") == [
        ("quasi-identifiers", "table public.seen")
    ]
    content = "SELECT content FROM dbanon.quarantine WHERE reason = 'duplicate-quasi-identifier'"
    assert fetch_everything(town, content) == [({"subject": " a", "time": "1212562800"},)]


def test_quasi_identifiers_are_added_once_or_replaced(town):
    make_seen(town, ("a", 1212562800), ("b", 1212562800))
    call(town, SIGHTINGS)
    demand_named(str(catch_refusal(town, SIGHTINGS)), "nothing to add", "duplicate-quasi-identifier")
    town.execute("INSERT INTO public.seen VALUES ('c', 1212562800)")
    assert call(town, SIGHTINGS) == (3, 1, {"duplicate-quasi-identifier": 2})
    assert call(town, SIGHTINGS, ", replace => true") == (3, 3, {})
    assert fetch_everything(town, "SELECT count(*) FROM dbanon.quasi_identifier") == [(3,)]


# ---- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.many
@pytest.mark.parametrize(
    ("kind", "given", "tz", "seconds"),
    [
        ("timestamptz", "2008-06-04 07:00:00.25+00", None, 1212562800.25),
        ("timestamp", "2008-06-04 09:00:00", "Europe/Berlin", 1212562800.0),
        ("date", "2008-06-04", "UTC", 1212537600.0),
        ("timestamp", "2008-10-26 02:30:00", "Europe/Berlin", 1224981000.0),
        ("bigint", "1212562800000", None, 1212562800.0),
        ("bigint", "1212562800000000000", None, 1212562800.0),
        ("numeric", "1212562800.125", None, 1212562800.125),
        ("real", "1024", None, 1024.0),  # in a unit that is said
        ("smallint", "-5", None, -5.0),
    ],
)
def test_times_are_read_as_from_other_sources(town, kind, given, tz, seconds):
    town.execute("SET LOCAL TimeZone = 'Asia/Kathmandu'")
    make_seen(town, ("a", given), kind=kind)
    call(town, SIGHTINGS, (f", tz => '{tz}'" if tz else "") + (", time_unit => 's'" if seconds < 1e9 else ""))
    assert fetch_everything(town, "SELECT extract(epoch FROM at)::float8 FROM dbanon.quasi_identifier") == [(seconds,)]


@pytest.mark.many
@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        ("timestamp", "2008-03-30 02:30:00", "unparsable-time"),
        ("timestamp", "infinity", "non-finite-time"),
        ("timestamptz", "-infinity", "non-finite-time"),
        ("date", "infinity", "non-finite-time"),
        ("timestamp", "9999-01-01", "time-out-of-range"),
        ("timestamptz", "0005-01-01 BC", "time-out-of-range"),
        ("numeric", "1e400", "time-out-of-range"),
        ("numeric", "NaN", "non-finite-time"),
    ],
)
def test_times_that_are_none_are_kept_aside(town, kind, given, reason):
    make_seen(town, ("a", "2008-06-04" if kind != "numeric" else "1212562800"), ("a", given), kind=kind)
    assert call(town, SIGHTINGS, ", tz => 'Europe/Berlin'") == (2, 1, {reason: 1})
