"""pg_cron takes the steps of jobs as the pages say; collected where the extension is installed."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dbanon import schema, testing
from dbanon.postgres.server import DATABASE, EmbeddedServer
from tests import pages
from tests.acceptance import workers
from tests.db import nights

pytestmark = pytest.mark.stress
[(_, CONFIGURED)] = pages.list_blocks("docs/administrators/operate.md", "ini pg_cron")
[(_, SCHEDULED)] = pages.list_blocks("docs/administrators/every-night.md", "sql cron")
CALLS = "SELECT status FROM cron.job_run_details WHERE status IN ('succeeded', 'failed') ORDER BY runid"


@pytest.fixture
def dba() -> Iterator[psycopg.Connection]:
    """A superuser's connection to a server that is configured as the page says, and has the extension."""
    directory = Path(tempfile.mkdtemp(prefix="dbanon-cron-", dir=testing._find_memory_directory()))
    directory.chmod(0o711)
    settings = dict(re.findall(r"^([\w.]+) = '?(\w+)'?$", CONFIGURED.replace("geo", DATABASE), re.MULTILINE))
    server = EmbeddedServer(directory / "home", settings=settings)
    try:
        schema.upgrade(server.start().url)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE nina LOGIN IN ROLE dbanon_operator PASSWORD 'choose-another'")
            connection.execute("CREATE EXTENSION pg_cron")
            connection.execute("GRANT USAGE ON SCHEMA cron TO nina")
            yield connection
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def test_pg_cron_calls_each_minute_and_shows_a_held_period_as_a_failure(dba: psycopg.Connection) -> None:
    nights.make_source(dba, days=1.1)
    at = {"host": dba.info.host, "port": dba.info.port, "dbname": dba.info.dbname}
    with psycopg.connect(**at, user="nina", password="choose-another", autocommit=True) as nina:  # type: ignore[arg-type]
        nights.add(nina)
        nina.execute(SCHEDULED)  # type: ignore[call-overload]
    workers.wait_until(lambda: dba.execute(CALLS).fetchall() == [("succeeded",)], 150)
    assert nights.list_periods(dba, "state") == ["compute"]
    nights.compute(dba, "refused")
    workers.wait_until(lambda: dba.execute(CALLS).fetchall() == [("succeeded",), ("failed",)], 150)
    assert nights.list_periods(dba, "state") == ["held", "load"]
    said = nights.read_value(dba, "SELECT return_message FROM cron.job_run_details WHERE status = 'failed'")
    assert "1 period is held" in said
