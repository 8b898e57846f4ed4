"""What a run is measured against: the data of its own time, whatever comes or goes outside it."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.base.errors import ParameterError
from dbanon.base.progress import report_nothing
from dbanon.postgres.connection import connect_to_hold
from dbanon.postgres.server import Target
from dbanon.testing import shared_database
from tests.clones import clone_of
from tests.facts import expect_refusal

pytestmark = pytest.mark.db

ROWS = """
INSERT INTO public.gps SELECT 'c' || i, '2026-01-05 08:00Z'::timestamptz + n * interval '1 minute',
    8.2 + 0.001 * i + 0.0001 * (n %% 7), 53.1 + 0.0002 * (n %% 5)
FROM generate_series(%s::integer, %s::integer) i, generate_series(%s::integer, %s::integer) n
"""
LOAD = """
SELECT * FROM dbanon.import_trajectories('public.gps', dataset => 'gps', subject => 'cab', time_column => 'ts',
    x => 'lon', y => 'lat', mode => '{}')
"""
PLACES = """
INSERT INTO dbanon.site (dataset_id, geom) SELECT dat.dataset_id, ST_StartPoint(tra.path)
    FROM dbanon.dataset dat JOIN dbanon.trajectory tra USING (dataset_id) WHERE tra.subject = 'c3';
INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at) SELECT dataset_id, 'c' || i, '2026-01-05 08:10Z'
    FROM dbanon.dataset, generate_series(1, 4) i;
"""
RUNS: dict[str, dict[str, Any]] = {
    "tp-aware": {"k": 3, "instants": 10, "start": "2026-01-05T08:05:00Z", "until": "2026-01-05T08:30:00Z"},
    "mob": {"k": 2, "qid_only": False, "align": "linear", "until": "2026-01-05T08:31:00Z"},
    "kte": {"k": 2},
    "sensitive-sites": {"k": 2, "at": "2026-01-05T08:20:00Z"},
}
"""What runs are of the half hour that the data have; `semantic` asks the data what `kte` does."""


def load(url: str, mode: str, *spans: tuple[int, int, int, int]) -> None:
    """Load rows of the first to the last cab, from the first to the last minute, of each span."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.gps (cab text, ts timestamptz, lon float8, lat float8)")
        connection.execute("TRUNCATE public.gps")
        for span in spans:
            connection.execute(ROWS, span)
        connection.execute(LOAD.format(mode))  # type: ignore[call-overload]


def measure(url: str, run_id: int) -> Any:
    with dbanon.connect(url) as one:
        one.progress = report_nothing
        return one.evaluate(run_id, queries=100).figures


def list_runs(url: str) -> dict[str, int]:
    with dbanon.connect(url) as one:
        return {run["method"]: run["run_id"] for run in one.runs()}


@pytest.fixture(scope="module")
def template(dbanon_server: Target, dbanon_template: str) -> Iterator[str]:
    """Name of a database with verified runs."""

    def fill(url: str) -> None:
        load(url, "create", (1, 9, 0, 31))
        with psycopg.connect(url) as connection:
            connection.execute(PLACES)
        with dbanon.connect(url) as one:
            one.progress = report_nothing
            for method, params in RUNS.items():
                assert one.run(method, dataset="gps", params=params).status == "verified"

    with shared_database(dbanon_server, "own_data", fill, template=dbanon_template) as name:
        yield name


own = clone_of("template")


def test_figures_are_the_same_after_the_next_loads_and_after_others_are_forgotten(own: str) -> None:
    runs = list_runs(own)
    before = {method: measure(own, run_id) for method, run_id in runs.items()}
    load(own, "new", (1, 9, 32, 90))
    load(own, "new", (1, 9, -90, -20), (1, 9, 91, 120), (20, 29, 45, 90))  # one path each, before and after the run
    with dbanon.connect(own) as one:
        one.forget("gps", "c25")
        one.forget_before("gps", "2026-01-05 07:20Z")
    for method, run_id in runs.items():
        assert measure(own, run_id) == before[method], method


CHANGES = {
    "a late row of another person": "late",
    "a person is forgotten": "SELECT * FROM dbanon.forget_subject('gps', 'c9')",
    "a path is deleted": "DELETE FROM dbanon.trajectory WHERE subject = 'c2'",
    "a fix is moved": "UPDATE dbanon.trajectory SET path = ST_Translate(path, 0.001, 0) WHERE subject = 'c2'",
    "a person has another name": "UPDATE dbanon.trajectory SET subject = 'd2' WHERE subject = 'c2'",
    "paths are replaced by equal ones": """
        WITH old AS (DELETE FROM dbanon.trajectory RETURNING dataset_id, load_id, subject, path)
        INSERT INTO dbanon.trajectory (dataset_id, load_id, subject, path) SELECT * FROM old""",
    "what is older is forgotten": "SELECT * FROM dbanon.forget_before('gps', '2026-01-05 08:21Z')",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_is_refused_where_data_of_its_own_time_changed(own: str, change: str) -> None:
    runs = list_runs(own)
    if CHANGES[change].startswith("SELECT"):  # which takes the runs away that were not published
        with dbanon.connect(own) as one:
            one.publish(runs["tp-aware"], "gps_k3")
    if CHANGES[change] == "late":
        load(own, "append", (20, 20, 10, 22))
    else:
        with psycopg.connect(own, autocommit=True) as connection:
            connection.execute(CHANGES[change])  # type: ignore[call-overload]
    load(own, "new", (1, 8, 32, 90))
    left = list_runs(own)
    assert "tp-aware" in left
    for method, run_id in runs.items():
        with expect_refusal(ParameterError, run_id if method in left else "no run"):
            measure(own, run_id)


def test_positions_before_the_first_row_that_it_is_made_of_are_of_its_own_time(own: str) -> None:
    runs = list_runs(own)
    with psycopg.connect(own, autocommit=True) as connection:
        connection.execute("UPDATE dbanon.trajectory SET path = ST_FilterByM(path, 1767600120, 'Infinity', true)")
    for method in ("tp-aware", "mob"):
        with expect_refusal(ParameterError, runs[method]):
            measure(own, runs[method])
    measure(own, runs["sensitive-sites"])


NIGHTS = """
CREATE TABLE public.gps AS
SELECT 'c' || i AS cab, t AS ts, 8.2 + 0.0005 * i + 0.001 * sin(extract(epoch FROM t) / 3000 + i) AS lon, 53.1 AS lat
FROM generate_series(1, 6) i, generate_series(timestamptz '2008-05-31 12:00Z', '2008-06-03 06:00Z', '20 minutes') t;
SELECT dbanon.add_job('taxi', 'public.gps', load => '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}',
    method => 'tp-aware', params => '{"k": 3, "step_s": 1200, "max_gap_s": 1800}', starts => '2008-06-01Z'
"""
MEASURED = """
SELECT eva.evaluated_at < par.published_at
FROM dbanon.release par LEFT JOIN dbanon.evaluation eva USING (run_id) ORDER BY par.span
"""
ENDED = "SELECT state, sqlstate, error FROM dbanon.job_runs WHERE since < '2008-06-03Z' ORDER BY since"


def work(database: str, until: str = "idle") -> None:
    """Take steps of jobs, and do the runs that wait, until there is nothing to do or a period is in this state."""
    with (
        dbanon.connect(database) as one,
        psycopg.connect(database, autocommit=True) as owner,
        connect_to_hold(database) as holder,
    ):
        one.progress = report_nothing
        query = "SELECT dbanon_internal.advance_job(job_id) ->> 'state' FROM dbanon.job"
        while (state := owner.execute(query).fetchone()) not in (None, (until,), ("idle",)):
            if state == ("waiting",):
                with suppress(ParameterError):
                    one.run_next(holder, "here")


@pytest.mark.stress  # four whole evaluations: 20 s of CPU
def test_a_job_measures_each_part_before_it_is_published_and_later_it_can_be_again(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(NIGHTS + ", evaluate => true)")
        work(database)
        assert owner.execute(ENDED).fetchall() == [("done", None, None)] * 2
        assert owner.execute(MEASURED).fetchall() == [(True,), (True,)]
        kept = owner.execute("SELECT run_id, figures FROM dbanon.evaluation ORDER BY run_id").fetchall()
        assert len(kept) == 2
        owner.execute("DELETE FROM dbanon.evaluation")
        with dbanon.connect(database) as one:
            one.progress = report_nothing
            measured = one.evaluate("taxi")
        assert len(measured.others) == 1
        assert owner.execute("SELECT run_id, figures FROM dbanon.evaluation ORDER BY run_id").fetchall() == kept


def test_a_job_that_is_not_asked_measures_nothing(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(NIGHTS + ")")
        work(database)
        assert owner.execute("SELECT count(*) FROM dbanon.evaluation").fetchone() == (0,)
        assert owner.execute(ENDED).fetchall() == [("done", None, None)] * 2


def test_a_part_that_cannot_be_measured_is_noted_and_the_next_night_goes_on(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(NIGHTS + ", evaluate => true)")
        work(database, "evaluate")
        owner.execute("SELECT dbanon.cancel_run(run_id) FROM dbanon.job_period WHERE run_id IS NOT NULL")
        work(database)
        first, second = owner.execute(ENDED).fetchall()
        assert first[:2] == ("done", "DA016")
        assert second == ("done", None, None)
        assert owner.execute("SELECT DISTINCT status, todo FROM dbanon.run").fetchall() == [("verified", None)]
        assert owner.execute("SELECT count(*) FROM dbanon.evaluation").fetchone() == (1,)
