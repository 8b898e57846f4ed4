"""A small verified run, made by hand with SQL, for the tests of what the database does with runs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from dbanon.testing import cloned_database, shared_database
from tests.importing import settle

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

# Ten people in two bundles over two instants, as in docs/understand/ten-people.md; p0 and p3 ask for a pharmacy.
RUN = """
INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('ten', 32610, 1, 60);
INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)
SELECT 100 + i, d.dataset_id, 'p' || i, ST_SetSRID(ST_MakeLine(ST_MakePointM(x, x, 1212566400),
                                                               ST_MakePointM(x + 10, x, 1212566460)), 32610)
FROM dbanon.dataset d, generate_series(0, 9) i, LATERAL (SELECT i / 5 * 70 + i AS x) p WHERE d.name = 'ten';
INSERT INTO dbanon.request (dataset_id, subject, sent_at, content)
SELECT d.dataset_id, s, '2008-06-04 08:00:30+00', '{"poi": "pharmacy"}'
FROM dbanon.dataset d, unnest(ARRAY['p0', 'p3']) s WHERE d.name = 'ten';
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics)
SELECT dataset_id, revision, 'tp-aware', 'traj-anon', '{"k": 5, "step_s": 60, "instants": 2}', 424242, 'verified',
    '{"requests_of_few_subjects": 0}' FROM dbanon.dataset WHERE name = 'ten';
INSERT INTO dbanon.cloak (run_id, record_id, seq, period, region, crowd, subjects, extra)
SELECT 1, r, s, tstzrange(t, t + interval '1 min'),
    ST_Reverse(ST_MakeEnvelope(70 * r - 70, 0, 70 * r - 30, 90, 32610)), 5, 5,
    CASE WHEN (r, s) = (1, 1) THEN '{"requests": [{"poi": "pharmacy"}]}'::jsonb END
FROM generate_series(1, 2) r, generate_series(1, 2) s,
    LATERAL (SELECT timestamptz '2008-06-04 07:59:00+00' + s * interval '1 min' AS t) p;
INSERT INTO dbanon.membership (run_id, record_id, trajectory_id)
SELECT 1, 1 + i / 5, 100 + i FROM generate_series(0, 9) i;
"""


VERIFY = """
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
SELECT 1, 'tp-aware', %s, dbanon_internal.compute_run_digest(1)
"""


@pytest.fixture
def verify() -> Callable[..., None]:
    """Write a verification of run 1 as it is now."""

    def make(connection: psycopg.Connection, passed: bool = True) -> None:
        connection.execute(VERIFY, [passed])

    return make


@pytest.fixture(scope="session")
def ten_template(dbanon_server: "Target", dbanon_template: str) -> Iterator[str]:
    """Name of a database with the verified run, to be cloned: half the time of writing the run into a fresh one."""

    def fill(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(RUN)
            connection.execute(VERIFY, [True])

    with shared_database(dbanon_server, "ten", fill, template=dbanon_template) as name:
        yield name


@pytest.fixture
def database(request: pytest.FixtureRequest, dbanon_server: "Target", dbanon_template: str) -> Iterator[str]:
    """URL of a fresh migrated database, which holds the verified run where the test asks for `run`."""
    template = request.getfixturevalue("ten_template") if "run" in request.fixturenames else dbanon_template
    with cloned_database(dbanon_server, template) as url:
        yield url


@pytest.fixture
def run(database: str) -> int:
    """Key of a verified run of ten people in two bundles, in `database`."""
    return 1


@pytest.fixture(scope="session")
def verified(dbanon_server: "Target", ten_template: str) -> Iterator[str]:
    """URL of one database of the session that holds the verified run."""
    with cloned_database(dbanon_server, ten_template) as url:
        yield url


@pytest.fixture
def scratch(verified: str) -> Iterator[psycopg.Connection]:
    """Connection to the verified run in a transaction that is rolled back: ten times as fast as a database a test."""
    with psycopg.connect(verified) as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def operator(run: int, login: Callable[[str], str]) -> Iterator[psycopg.Connection]:
    """Connection of a new login that is an operator and nothing else, to a database with the verified run."""
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        yield opened


@pytest.fixture
def own(dbanon_server: "Target", ten_template: str) -> Iterator[psycopg.Connection]:
    """Connection to a copy of the verified run: publishing refuses what the same transaction has changed."""
    with (
        cloned_database(dbanon_server, ten_template) as url,
        psycopg.connect(url, autocommit=True) as opened,
    ):
        yield opened


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """``write(text, name)`` writes a file and gives its path."""

    def make(text: str, name: str = "fixes.csv") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


@pytest.fixture
def town(scratch: psycopg.Connection) -> psycopg.Connection:
    """A dataset in SRID 32632 of 400 people within 5 km of (8.2, 53.1); nothing that a test does with it commits."""
    return settle(scratch)
