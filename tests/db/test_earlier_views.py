"""Views of an earlier version, with the range of both times as `period`: they are read, grow and are replaced."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from dbanon.database import open_database
from tests.db.parts import find_day, publish_part, run_of
from tests.reading import collect_notices, read_column, read_value

COPY = "SELECT pg_get_functiondef('dbanon_internal.copy_release'::regproc)"
COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = 'published.{}'::regclass AND attnum > 0 ORDER BY attnum"
ALIKE = "SELECT count(*) FROM published.{} WHERE period = tstzrange(valid_from, valid_to)"
DAY = f"tstzrange('{find_day(0)}', '{find_day(1)}')"
AREA = "ST_MakeEnvelope(0, 0, 60, 60, 32610)"
QUESTIONS = {
    "count_inside": f"'published.{{}}', {AREA}, during => {DAY}",
    "density": f"'published.{{}}', 20, {DAY}, true",
    "flows": f"'published.{{}}', 'zones', 'zone', {DAY}",
    "crossings": f"'published.{{}}', ST_Boundary({AREA}), {DAY}",
    "dwell": f"'published.{{}}', {AREA}",
    "requests_inside": f"'published.{{}}', {AREA}, {DAY}",
    "tile": "16, 10483, 25344, '{}', '2008-06-04 08:00Z'",
}


@contextmanager
def publish_as_before(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Give new releases the columns that those of an earlier version had."""
    copy = str(read_value(connection, COPY))
    before = copy.replace("AND att.attname = 'period')", "UNION ALL SELECT 'period' LIMIT 1)")
    assert before != copy
    connection.execute(before.encode())
    yield
    connection.execute(copy.encode())


@pytest.fixture
def both(own: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """A database with the same rows as the releases `earlier` and `later`."""
    with publish_as_before(own):
        own.execute("SELECT dbanon.publish(1, 'earlier')")
    own.execute("SELECT dbanon.publish(1, 'later')")
    return own


def test_both_kinds_are_answered_and_read_alike(both: psycopg.Connection[Any]) -> None:
    assert read_value(both, ALIKE.format("earlier")) == 4
    assert [one for one in read_column(both, COLUMNS.format("earlier")) if one != "period"] == read_column(
        both, COLUMNS.format("later")
    )
    both.execute(f"CREATE TEMPORARY TABLE zones AS SELECT 1 AS zone, {AREA} AS shape")
    for function, asked in QUESTIONS.items():
        answers = [
            both.execute(f"SELECT t::text FROM published.{function}({asked.format(name)}) t ORDER BY 1".encode())
            for name in ("earlier", "later")
        ]
        earlier, later = ([row[0].replace("earlier", "later") for row in found] for found in answers)
        assert len(earlier) == len(later), function
        if function not in ("dwell", "tile"):  # they name records, which are numbered at random
            assert earlier == later != []
    with open_database(both.info.dsn) as database:
        earlier, later = database.read("earlier"), database.read("later")
    assert list(earlier.columns) == list(later.columns)
    assert len(earlier) == len(later) == 4


def test_a_view_keeps_its_columns_when_it_is_replaced(both: psycopg.Connection[Any]) -> None:
    both.execute("CREATE VIEW public.built AS SELECT period FROM published.earlier")
    said = collect_notices(both)
    columns = read_column(both, COLUMNS.format("earlier"))
    both.execute("SELECT dbanon.publish(1, 'earlier', replace => true)")
    assert read_column(both, COLUMNS.format("earlier")) == columns
    assert not any("columns of earlier" in notice for notice in said)
    assert read_value(both, ALIKE.format("earlier")) == read_value(both, "SELECT count(*) FROM public.built") == 4
    both.execute("SELECT dbanon.unpublish('earlier'); SELECT dbanon.publish(1, 'earlier')")
    assert "period" not in read_column(both, COLUMNS.format("earlier"))


def test_a_view_keeps_its_columns_when_it_grows(own: psycopg.Connection[Any]) -> None:
    with publish_as_before(own):
        publish_part(own, run_of(own, 0))
    publish_part(own, run_of(own, 1))
    assert read_value(own, ALIKE.format("ten")) == 8
    assert read_value(own, f"SELECT dbanon.fold_release('ten', '{find_day(40)}')") == 2
    publish_part(own, run_of(own, 2))
    assert read_value(own, ALIKE.format("ten")) == 12
    assert (
        read_value(
            own,
            "SELECT at_most FROM published.count_inside('published.ten', %s, during => %s)",
            *[
                "SRID=32610;POLYGON((-1000 -1000,1000 -1000,1000 1000,-1000 1000,-1000 -1000))",
                f"[{find_day(2)},{find_day(3)})",
            ],
        )
        == 10
    )
