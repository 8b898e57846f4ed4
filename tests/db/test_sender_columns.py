"""Columns of requests that are properties of their senders: named by their load, and by runs that publish them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from dbanon import load
from dbanon.options.loading import LoadingRequests
from tests.reading import collect_notices

PEOPLE = 60
AGES = ("under 35", "35-49", "50+")
MADE = """
CREATE TABLE public.events AS
SELECT * FROM unnest(%s::text[], %s::timestamptz[], %s::text[], %s::text[]) e (vehicle, ts, event, age)
"""
IMPORT = (
    "SELECT rows_kept FROM dbanon.import_requests('public.events', 'ten', %s, subject => 'vehicle',"
    " time_column => 'ts')"
)
NOTICES = "SELECT said FROM dbanon_internal.list_run_notices(1) said WHERE said LIKE '%%hardly change%%'"


def make_events(second: Callable[[int, np.random.Generator], str], times: int = 3) -> list[tuple[str, str, str, str]]:
    """Three events of each of 60 vehicles; the last column is made from the number of the vehicle."""
    rng = np.random.default_rng(7)
    kinds = ("pickup", "stop", "fuel", "wash")
    return [
        (f"v{i}", f"2008-06-04 08:{n:02}:{i % 60:02}Z", kinds[rng.integers(4)], second(i, rng))
        for i in range(PEOPLE)
        for n in range(times)
    ]


PROPERTIES: dict[str, Callable[[int, np.random.Generator], str]] = {
    "age group": lambda i, rng: AGES[i % 3],
    "device": lambda i, rng: f"device {i}",
    "age group of which one in 60 had a birthday": lambda i, rng: AGES[i % 3] if i else AGES[rng.integers(3)],
    "what every fifth person has": lambda i, rng: "yes" if i % 5 == 0 else "no",
}
OTHERS: dict[str, Callable[[int, np.random.Generator], str]] = {
    "drawn anew": lambda i, rng: AGES[rng.integers(3)],
    "the same for all": lambda i, rng: "taxi",
    "nearly always the same": lambda i, rng: "taxi" if rng.random() < 0.97 else "van",
    "a habit of half of the people": lambda i, rng: AGES[i % 3] if i % 2 else AGES[rng.integers(3)],
    "another one each time": lambda i, rng: rng.bytes(4).hex(),
}


@pytest.fixture
def said(connection: psycopg.Connection[Any], run: int) -> list[str]:
    return collect_notices(connection)


def bring(connection: psycopg.Connection[Any], rows: list[tuple[str, str, str, str]]) -> None:
    connection.execute(MADE, [list(column) for column in zip(*rows, strict=True)])
    row = connection.execute(IMPORT, [["event", "age"]]).fetchone()
    assert row == (len(rows),)


@pytest.mark.parametrize("kind", PROPERTIES)
def test_a_column_that_says_something_of_its_sender_is_named_at_the_load_and_by_a_run(
    connection: psycopg.Connection[Any], said: list[str], kind: str
) -> None:
    bring(connection, make_events(PROPERTIES[kind]))
    [sentence] = [heard for heard in said if "hardly change" in heard]
    assert ": age." in sentence  # and no other column
    assert not [value for value in (*AGES, "device", "yes", "v1", "event", "pickup") if value in sentence]
    assert connection.execute(NOTICES).fetchall() == [(sentence,)]


@pytest.mark.parametrize("kind", OTHERS)
def test_columns_that_say_nothing_of_their_senders_are_not_named(
    connection: psycopg.Connection[Any], said: list[str], kind: str
) -> None:
    bring(connection, make_events(OTHERS[kind]))
    assert [heard for heard in said if "hardly change" in heard] == []
    assert connection.execute(NOTICES).fetchall() == []


def test_who_sent_once_tells_nothing(connection: psycopg.Connection[Any], said: list[str]) -> None:
    bring(connection, make_events(PROPERTIES["age group"], times=1))
    assert [heard for heard in said if "hardly change" in heard] == []


RUN_OF = "UPDATE dbanon.run SET params = params || jsonb_build_object('since', %s::float8, 'until', %s::float8)"


def test_nights_in_which_each_person_sends_once_are_seen_together(
    connection: psycopg.Connection[Any], said: list[str]
) -> None:
    rows = make_events(PROPERTIES["age group"], times=4)
    told = []
    for day in range(4, 8):
        said.clear()
        connection.execute("DROP TABLE IF EXISTS public.events")
        night = rows[day - 4 :: 4]
        bring(connection, [(who, at.replace("06-04", f"06-{day:02}"), what, age) for who, at, what, age in night])
        told.append([sentence for sentence in said if ": age." in sentence])
    assert [len(sentences) for sentences in told] == [0, 1, 1, 1]
    first, end = datetime(2008, 6, 4, tzinfo=UTC), datetime(2008, 6, 4, 9, tzinfo=UTC)
    connection.execute(RUN_OF, [first.timestamp(), end.timestamp()])
    assert connection.execute(NOTICES).fetchall() == []  # the nights after it are not read
    connection.execute("UPDATE dbanon.period SET period = tstzrange(lower(period) + '1 day', upper(period) + '1 day')")
    connection.execute(RUN_OF, [(first + timedelta(days=1)).timestamp(), (end + timedelta(days=1)).timestamp()])
    assert connection.execute(NOTICES).fetchall() == [(told[1][0],)]
    connection.execute("UPDATE dbanon.request SET sent_at = sent_at - interval '30 days' WHERE sent_at < '2008-06-05'")
    assert connection.execute(NOTICES).fetchall() == []


def test_a_file_is_told_the_same_and_later_loads_and_runs_of_other_times_are_not(
    connection: psycopg.Connection[Any], said: list[str], tmp_path: Path
) -> None:
    rows = make_events(PROPERTIES["age group"])
    path = tmp_path / "events.csv"
    path.write_text("vehicle,ts,event,age\n" + "".join(",".join(row) + "\n" for row in rows))
    asked = LoadingRequests(dataset="ten", columns=("event", "age"), subject="vehicle", time="ts")
    report = load.load_requests(connection, path, asked)
    [sentence] = [notice for notice in report.notices if "hardly change" in notice]
    assert ": age." in sentence
    said.clear()
    bring(connection, [(who, at.replace("06-04", "06-05"), what, "x") for who, at, what, _ in rows])
    assert said == []
    connection.execute('UPDATE dbanon.run SET params = params || \'{"since": 1212624000, "until": 1212710400}\'')
    assert connection.execute(NOTICES).fetchall() == []


def test_the_names_are_of_the_people_drawn_among_very_many_requests(
    connection: psycopg.Connection[Any], said: list[str]
) -> None:
    bring(connection, make_events(PROPERTIES["age group"]))
    connection.execute(
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) SELECT d.dataset_id, 'w' || i / 2, "
        "'2008-06-04 08:30Z', jsonb_build_object('event', hashint4(i) % 4, 'age', i / 2 % 3) "
        "FROM dbanon.dataset d, generate_series(1, 100000) i WHERE d.name = 'ten'"
    )
    [(sentence,)] = connection.execute(NOTICES).fetchall()
    assert ": age." in sentence
