"""How fast an analyst's login is answered on a release of a million rows, and what its indexes cost at publication.

People of the streets of San Francisco for a day, hidden by tp-aware (k = 10): a row a minute and bundle. Run with
``./dev bench benchmarks/analyst.py``, or for fewer rows as ``.venv/bin/python benchmarks/analyst.py 200000``.
Each question is asked in a session of its own, once unseen and then twice: the better time, and the mean of the CPU
seconds of the session.

``./dev bench benchmarks/analyst.py questions`` asks a day of taxis, if the files lie beside the repository, the twenty
questions of the page on dashboards, and prints the seconds of the second time, the answers and the truth.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import psycopg

from benchmarks import _dashboards as asking
from benchmarks._data import CITY, NETWORK, drop
from dbanon import testing
from dbanon.database import open_database
from dbanon.postgres import server
from dbanon.testing import logins
from tests.acceptance import analyst_truth

K, INSTANT_COUNT, NAME = 10, 1440, "benchmark_analyst"
HOUR = "'[2026-01-05 17:00Z,2026-01-05 18:00Z)'"
DAY = "'[2026-01-05 00:00Z,2026-01-07 00:00Z)'"
QUESTIONS = {
    "a tile of the city (z 12)": (0.050, "length(published.tile(12, {x}, {y}, '{name}', '2026-01-05 17:30Z'))"),
    "a count at an instant": (0.050, "published.count_inside('published.{name}', {area}, '2026-01-05 17:30Z')"),
    "a count over an hour": (None, "published.count_inside('published.{name}', {area}, during => {hour})"),
    "requests over an hour": (None, "count(*) FROM published.requests_inside('published.{name}', {area}, {hour})"),
    "an hour's density, 250 m": (3.0, "count(*) FROM published.density('published.{name}', 250, {hour})"),
    "a day's flows, 20 zones": (5.0, "count(*) FROM published.flows('published.{name}', 'zones', 'zone', {day})"),
    "an hour's flows, 20 zones": (None, "count(*) FROM published.flows('published.{name}', 'zones', 'zone', {hour})"),
    "an hour's crossings": (None, "count(*) FROM published.crossings('published.{name}', {line}, {hour})"),
    "dwelling, all day": (None, "count(*) FROM published.dwell('published.{name}', {area})"),
}
MIDDLE = "SELECT extent[1] + extent[3], extent[2] + extent[4], extent[3] - extent[1], srid FROM published.releases"
TILE = """SELECT floor((ST_X(p) + 180) / 360 * 4096)::int,
    floor((1 - asinh(tan(radians(ST_Y(p)))) / pi()) / 2 * 4096)::int
    FROM ST_Transform(ST_SetSRID(ST_MakePoint(%s, %s), %s), 4326) p"""


def time_query(connection: psycopg.Connection, query: str) -> float:
    began = time.perf_counter()
    connection.execute(query)  # type: ignore[call-overload]
    return time.perf_counter() - began


def read_cpu_s(connection: psycopg.Connection) -> float:
    """CPU seconds of the session's process so far, if the server is on this machine: other work delays them less."""
    times = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def publish(rows: int) -> None:
    """Generate so many people that about so many rows are published, and publish them."""
    with open_database() as database:
        database.synth(
            NAME, objects=rows * K // INSTANT_COUNT, instants=INSTANT_COUNT, whole_share=1.0, seed=1, **NETWORK
        )
        database.run("tp-aware", dataset=NAME, params={"k": K}, publish=NAME)


def make_indexes(url: str) -> None:
    """Make each index of the release once more, as publication has made it."""
    with psycopg.connect(url, autocommit=True) as owner:
        made = owner.execute(
            "SELECT indexname, substring(indexdef FROM ' ON .*'), substring(indexdef FROM 'USING (.*)') FROM pg_indexes"
            " WHERE schemaname || '.' || tablename = (SELECT 'dbanon.release_' || release_id FROM dbanon.releases"
            " WHERE name = %s AND live) ORDER BY indexname",
            [NAME],
        ).fetchall()
        for index, definition, what in made:
            took = time_query(owner, f"CREATE INDEX again {definition}")
            owner.execute("DROP INDEX dbanon.again")
            [size] = owner.execute("SELECT pg_relation_size(format('dbanon.%%I', %s::text)) / 1e6", [index]).fetchone()  # type: ignore[misc]
            print(f"index {what:<40} {took:>8.2f} s {size:>8.0f} MB")


def ask(url: str) -> None:
    with psycopg.connect(url) as owner:
        x2, y2, width, srid = owner.execute(MIDDLE).fetchone()  # type: ignore[misc]
        tile = owner.execute(TILE, [x2 / 2, y2 / 2, srid]).fetchone()
    x, y, r = x2 / 2, y2 / 2, width / 6
    places = {
        "area": f"ST_Buffer(ST_SetSRID(ST_MakePoint({x}, {y}), {srid}), {r})",
        "line": f"ST_SetSRID(ST_MakeLine(ST_MakePoint({x - 2 * r}, {y}), ST_MakePoint({x + 2 * r}, {y + r})), {srid})",
        **{"x": tile[0], "y": tile[1], "hour": HOUR, "day": DAY, "name": NAME},  # type: ignore[index]
    }
    zones = f"""CREATE TEMPORARY TABLE zones AS SELECT i || ',' || j AS zone, ST_MakeEnvelope({x} + (i - 2) * {r},
        {y} + (j - 2) * {r}, {x} + (i - 1) * {r}, {y} + (j - 1) * {r}, {srid}) AS shape
        FROM generate_series(0, 4) i, generate_series(0, 3) j"""
    with logins(url) as login:
        analyst = login("dbanon_analyst")
        for question, (aim, query) in QUESTIONS.items():
            with psycopg.connect(analyst, autocommit=True) as connection:
                connection.execute(zones)  # type: ignore[call-overload]
                first = time_query(connection, "SELECT " + query.format(**places))
                cpu_s = -read_cpu_s(connection)
                others = [time_query(connection, "SELECT " + query.format(**places)) for _ in range(2)]
                cpu_s += read_cpu_s(connection)
            best = f"{question:<28} {min(others):>8.3f} s  first {first:>7.3f} s  CPU {cpu_s / 2:>7.3f} s"
            print(f"{best}  aim {aim or '-'}", flush=True)


def ask_page() -> None:
    """Ask the questions of the page, each in a session of its own."""
    print("| question | lines | s | CPU s | answer | true |\n|---|---|---|---|---|---|")
    with (
        testing.running_server() as target,
        testing.template_database(target) as template,
        tempfile.TemporaryDirectory() as folder,
        asking.published(target, template, Path(folder)) as publish,
    ):
        for question in asking.read_questions():
            ask_question(publish(question.release), 1, question)


def ask_question(url: str, run_id: int, question: asking.Question) -> None:
    """Ask in a session of its own, once unseen and once again; print the seconds, the answer and the truth."""
    with logins(url) as login, psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
        asking.ask(analyst, question.statement)
        began, cpu_s = time.perf_counter(), read_cpu_s(analyst)
        rows = asking.ask(analyst, question.statement)
        took, cpu_s = time.perf_counter() - began, read_cpu_s(analyst) - cpu_s
    find = asking.TRUE.get(question.number)
    true = find(analyst_truth.read(url, [run_id]), rows) if find else ()
    told = [", ".join(f"{one:,.0f}" for one in figures) for figures in (asking.list_figures(rows), true)]
    seconds = f"{question.statement.count(chr(10)) + 1} | {took:.2f} | {cpu_s:.2f}"
    print(f"| {question.number}. {question.asked} | {seconds} | {' | '.join(told)} |", flush=True)


def main(rows: int) -> None:
    publish(rows)
    url = server.resolve(None).url
    with psycopg.connect(url) as owner:
        [count] = owner.execute("SELECT rows FROM published.releases WHERE name = %s", [NAME]).fetchone()  # type: ignore[misc]
    print(f"{count:,} rows of {CITY}")
    make_indexes(url)
    ask(url)
    with open_database() as database:
        database.unpublish(NAME)
        drop(database, [])


if __name__ == "__main__":
    ask_page() if sys.argv[1:] == ["questions"] else main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
