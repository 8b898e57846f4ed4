"""Writes random histories into the private tables, as publications would: each in populations of its own."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb
from psycopg.types.range import TimestamptzRange

from tests.db.histories import KINDS, LOST, WINDOW, History
from tests.db.methods import change_methods
from tests.db.oracle import Release, Row, Verdict

START = datetime(2008, 6, 4, 8, tzinfo=UTC)
FIRST_KEY = 1_000_000  # of all keys: what is written is rolled back
PATH = "SRID=32610;POINT M(0 0 1212566400)"
METHOD = """
INSERT INTO dbanon.method (name, summary, guarantee, region_type, attack, algorithms, columns, traits)
VALUES (%s, 's', 'At least k.', 'Polygon', 'attack', %s, '[]', %s)
"""
COLUMNS = {
    "population": "population_id, name",
    "dataset": "dataset_id, name, srid, grid_m, grid_s, population_id, settle_s, own_subjects",
    "trajectory": "trajectory_id, dataset_id, subject, path",
    "run": "run_id, dataset_id, dataset_revision, method, algorithm, params, status",
    "region": "run_id, region_no, region, crowd, subjects",
    "period": "run_id, period_no, period",
    "record": "run_id, record_id, periods, regions",
    "membership": "run_id, record_id, trajectory_id, period",
    "hiding": "run_id, record_id, others",
}
# What is kept of a release, as dbanon.publish writes it.
RELEASES = """
WITH series AS (
    INSERT INTO dbanon.series (series_id, name, method, algorithm, srid, grid_m, grid_s, columns)
    OVERRIDING SYSTEM VALUE
    SELECT DISTINCT rel.series_id, 's' || rel.series_id, 'm', 'a', 32610, 1, 60, '{}'::text[]
    FROM jsonb_to_recordset(%(releases)s) rel (series_id bigint) WHERE rel.series_id IS NOT NULL
)
INSERT INTO dbanon.release (release_id, series_id, bounds, prefix, name, run_id, digest, rows, withdrawn_at,
    withdrawn_by, overlap_reason, span, reach, content, groups_sum)
OVERRIDING SYSTEM VALUE
SELECT rel.id, rel.series_id, CASE WHEN rel.series_id IS NOT NULL THEN dbanon_internal.find_run_span(rel.run_id) END,
    CASE WHEN rel.series_id IS NOT NULL THEN rel.id %% 1000000 + 1 END, coalesce('s' || rel.series_id, 'r' || rel.id),
    rel.run_id, '', 0, CASE WHEN rel.withdrawn THEN now() END, CASE WHEN rel.withdrawn THEN 'x' END,
    CASE WHEN rel.overridden THEN 'for this one reason' END, dbanon_internal.find_run_span(rel.run_id),
    dbanon_internal.compute_run_reach(rel.run_id),
    CASE WHEN rel.alone THEN dbanon_internal.compute_content_digest(rel.run_id) END,
    dbanon_internal.compute_groups_sum(rel.id, run.dataset_id)
FROM jsonb_to_recordset(%(releases)s) rel (
    id bigint, run_id bigint, series_id bigint, withdrawn boolean, overridden boolean, alone boolean)
JOIN dbanon.run run ON run.run_id = rel.run_id
"""
STORED = """
SELECT dbanon_internal.store_groups(r.run_id, r.id) FROM jsonb_to_recordset(%s) r (id bigint, run_id bigint)
"""
# As dbanon.confirm_history enters what was published by a database that was lost.
LOSSES = """
INSERT INTO dbanon.release (name, population_id, digest, rows, withdrawn_at, withdrawn_by, span, reach)
VALUES ('lost', %s, '', 0, now(), 'x', %s, %s)
"""
CODES = """
INSERT INTO dbanon.fix_code (dataset_id, person, code)
SELECT c.dataset_id, dbanon_internal.hash_person(k.key, 'p' || c.name), hashint8extended(n, c.fixes)
FROM jsonb_to_recordset(%s) c (dataset_id bigint, name text, fixes bigint)
JOIN (SELECT dataset_id, dbanon_internal.find_dataset_key(dataset_id) AS key FROM dbanon.dataset OFFSET 0) k
    USING (dataset_id)
CROSS JOIN generate_series(1, 20) n
"""
MEASURED = """
SELECT m.below > 0, m.smallest_crowd, m.people,
    ARRAY(SELECT c.of_dataset_id FROM dbanon_internal.find_published_copies(o.dataset_id) c)
FROM unnest(%s::bigint[]) WITH ORDINALITY r (run_id, n) JOIN dbanon.run o USING (run_id)
CROSS JOIN LATERAL dbanon.measure_overlap(r.run_id) m
ORDER BY r.n
"""


@dataclass
class Writer:
    """Collects the rows of histories by table, then copies them at once."""

    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {table: [] for table in COLUMNS})
    releases: list[dict[str, Any]] = field(default_factory=list)
    losses: list[tuple[Any, ...]] = field(default_factory=list)
    codes: list[dict[str, Any]] = field(default_factory=list)
    forgotten: list[tuple[str, str, str | None, int, int]] = field(default_factory=list)

    def add(self, history: History) -> int:
        """Add a history; returns the run that is to follow."""
        populations = [self._next("population") + n for n in range(2)]
        self._rows("population", ((p, f"population {p}") for p in populations))
        first = self._next("dataset")
        for number, dataset in enumerate(history.datasets):
            name, population = f"dataset {first + number}", populations[dataset.population]
            settings = (32610, 1, 60, population, 60 * dataset.settle, dataset.own)
            self._rows("dataset", [(first + number, name, *settings)])
        kept = [release for release in history.published if release.method != LOST]
        self.losses += [
            (populations[r.population], _make_time(r.first, r.last), timedelta(minutes=r.reach))
            for r in history.published
            if r.method == LOST
        ]
        people = {(r.dataset, p) for r in (history.new, *kept) for record in r.records for p in record.members}
        for number in {release.dataset for release in (history.new, *kept)}:
            evening = 10_000 * first + 1000 * history.datasets[number].evening
            self.codes += [
                {"dataset_id": first + number, "name": str(name), "fixes": evening + real}
                for real, names in history.datasets[number].named.items()
                for name in names
            ]
        paths = {key: self._next("trajectory") + n for n, key in enumerate(sorted(people))}
        self._rows("trajectory", ((path, first + d, f"p{p}", PATH) for (d, p), path in paths.items()))
        for release in kept:
            self._release(release, self._run(release, first, paths), first)
        gone = history.forgotten
        if gone is not None:
            # What is loaded of the person again comes after the forgetting, with the number that the new run has of it.
            again = len(self.forgotten) + 1
            paths = paths | {(gone.dataset, gone.person): again}
            number, population = first + gone.dataset, populations[history.datasets[gone.dataset].population]
            lifted = f"population {population}" if gone.remembered else None
            self.forgotten.append((f"dataset {number}", f"p{gone.person}", lifted, again, number))
        return self._run(history.new, first, paths)

    def _next(self, table: str) -> int:
        rows = self.tables[table]
        return rows[-1][0] + 1 if rows else FIRST_KEY

    def _rows(self, table: str, rows: Any) -> None:
        self.tables[table].extend(rows)

    def _release(self, release: Release, run: int, first: int) -> None:
        marks: dict[str, Any] = {
            "withdrawn": release.withdrawn,
            "overridden": release.overridden,
            "alone": release.stands_alone,
        }
        if release.series is not None:
            marks["series_id"] = 100 * first + release.series
        self.releases.append({"id": FIRST_KEY + len(self.releases), "run_id": run, **marks})

    def _run(self, release: Release, first: int, paths: dict[tuple[int, int], int]) -> int:
        run = self._next("run")
        params = {"k": release.k, "max_gap_s": 60 * release.max_gap, "window_s": 60 * WINDOW}
        if release.snapshot:
            params["at"] = int((START + timedelta(minutes=release.first)).timestamp())
        self._rows("run", [(run, first + release.dataset, 0, release.method, "a", Jsonb(params), "verified")])
        rows = sorted({row for record in release.records for row in record.rows}, key=repr)
        regions = {key: n for n, key in enumerate(sorted({_make_region(release, row) for row in rows}), start=1)}
        periods = {key: n for n, key in enumerate(sorted({(row.first, row.last) for row in rows}), start=1)}
        self._rows("region", ((run, n, _format_square(place), crowd, 1) for (place, crowd), n in regions.items()))
        self._rows("period", ((run, n, _make_time(*period)) for period, n in periods.items()))
        for number, record in enumerate(release.records, start=1):
            ours = [
                [periods[row.first, row.last] for row in record.rows],
                [regions[_make_region(release, row)] for row in record.rows],
            ]
            self._rows("record", [(run, number, *ours)])
            here = _make_time(record.first, record.last)
            self._rows(
                "membership",
                (
                    (run, number, paths[release.dataset, p], here if p in record.guests else None)
                    for p in record.members
                ),
            )
            if record.hidden_among:
                others = [n for n, o in enumerate(release.records, start=1) if o.members <= record.hidden_among]
                self._rows("hiding", [(run, number, others)])
        return run

    def copy(self, connection: psycopg.Connection) -> None:
        """Write all that was added, in the order of keys."""
        for table, columns in COLUMNS.items():
            statement = sql.SQL(f"COPY dbanon.{table} ({columns}) FROM STDIN")
            with connection.cursor().copy(statement) as copy:
                for row in self.tables[table]:
                    copy.write_row(row)
        connection.execute(STORED, [Jsonb(self.releases)])
        connection.execute(RELEASES, {"releases": Jsonb(self.releases)})
        connection.cursor().executemany(LOSSES, self.losses)
        connection.execute(CODES, [Jsonb(self.codes)])
        for dataset, person, population, path, number in self.forgotten:
            connection.execute("SELECT dbanon.forget_subject(%s, %s)", [dataset, person])
            if population is not None:
                connection.execute("SELECT dbanon.remember_subject(%s, %s)", [population, person])
                connection.execute(
                    "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) VALUES (%s, %s, %s, %s)",
                    [path, number, person, PATH],
                )


def _make_region(release: Release, row: Row) -> tuple[int, int]:
    """Where a row is, and its crowd."""
    if row.exact:
        return row.region, 1
    people = [len(record.members | record.hidden_among) for record in release.records if row in record.rows]
    return row.region, sum(people) if release.hidden_by == "region" else max(people)


def _format_square(place: int) -> str:
    west, east = 100 * place, 100 * place + 90
    return f"SRID=32610;POLYGON(({west} 0, {east} 0, {east} 90, {west} 90, {west} 0))"


def _make_time(first: int, last: int) -> TimestamptzRange:
    return TimestamptzRange(START + timedelta(minutes=first), START + timedelta(minutes=last))


def write_methods(connection: psycopg.Connection) -> None:
    """Enter the methods of the histories."""
    for name, (secret, hidden_by, stands_alone, snapshot) in KINDS.items():
        window = "window_s" if name == "windows" else None
        algorithm = {"name": "a", "summary": "s", "stands_alone": stands_alone, "window": window}
        traits = {
            "guests": name == "bundles",
            "hides": secret,
            "hidden_by": hidden_by,
            "instant": "at" if snapshot else None,
            "oldest": "max_gap_s",
        }
        others = {"notices": {}, "totals": {}, "reasons": {}}
        change_methods(connection, METHOD, [name, Jsonb([algorithm]), Jsonb(traits | others)])


def write_and_measure(connection: psycopg.Connection, histories: list[History]) -> list[tuple[Verdict, frozenset[int]]]:
    """Write histories; measure the run that is to follow in each, and which datasets its own has copies of.

    Few at once: each measurement leaves dead rows under the same number, through which the next ones must read.
    """
    writer = Writer()
    runs = [writer.add(history) for history in histories]
    write_methods(connection)
    writer.copy(connection)
    firsts = [FIRST_KEY + sum(len(history.datasets) for history in histories[:n]) for n in range(len(histories))]
    return [
        (Verdict(*measured), frozenset(dataset - first for dataset in copies))
        for first, (*measured, copies) in zip(firsts, connection.execute(MEASURED, [runs]).fetchall(), strict=True)
    ]
