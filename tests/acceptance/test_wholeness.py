"""The rules of `tests.wholeness` find what they name: each is broken once, in a transaction that is undone."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database
from tests import wholeness
from tests.acceptance.commands import call, write_sites

pytestmark = pytest.mark.db

# Triggers are off, so that nothing but the rule itself notices: those that replicas have on, too.
_NO_TRIGGERS = """
SET LOCAL session_replication_role = replica;
DO $$ DECLARE t record; BEGIN
    FOR t IN SELECT g.tgrelid::regclass AS name FROM pg_trigger g WHERE g.tgenabled = 'A' LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', t.name);
    END LOOP;
END $$;
"""
DAMAGES = {
    "datasets that nothing was loaded into": "DELETE FROM dbanon.load",
    "datasets with other fixes than their loads kept": "DELETE FROM dbanon.trajectory WHERE trajectory_id = 1",
    "datasets with other requests than their loads kept": "DELETE FROM dbanon.request WHERE request_id = 1",
    "datasets with other sites than their loads kept": "DELETE FROM dbanon.site WHERE site_id = 1",
    "loads with rows neither kept nor in quarantine nor left out": "UPDATE dbanon.load SET rows_read = rows_read + 1",
    "loads that count their quarantine otherwise": """UPDATE dbanon.load SET quarantined = '{"unparsable-time": 1}'""",
    "trajectories of no dataset": "UPDATE dbanon.trajectory SET dataset_id = 9",
    "requests of no dataset": "UPDATE dbanon.request SET dataset_id = 9",
    "sites of no dataset": "UPDATE dbanon.site SET dataset_id = 9",
    "runs that nobody computes": "UPDATE dbanon.run SET status = 'running'",
    "runs that failed without a reason": "UPDATE dbanon.run SET status = 'failed'",
    "rows in region of runs that did not end": "UPDATE dbanon.run SET status = 'cancelled'",
    "rows in period of runs that did not end": "UPDATE dbanon.run SET status = 'cancelled'",
    "rows in record of runs that did not end": "UPDATE dbanon.run SET status = 'cancelled'",
    "rows in membership of runs that did not end": "UPDATE dbanon.run SET status = 'queued'",
    "rows in hiding of runs that did not end": "INSERT INTO dbanon.hiding VALUES (999, 1, NULL, '{2}')",
    "rows in atom of runs that did not end": "INSERT INTO dbanon.atom VALUES (999, 1, 0)",
    "runs that ended without cloaks or members": "DELETE FROM dbanon.membership",
    "verified runs without a passed verification": "UPDATE dbanon.verification SET passed = false",
    "releases of runs that are not verified": "UPDATE dbanon.run SET status = 'refused'",
    "live releases without their table or view": "DROP VIEW published.city_k5",
    "tables of no live release": "CREATE TABLE dbanon.release_77 (a int)",
    "views of no live release": "CREATE VIEW published.other AS SELECT 1",
    "temporary tables": "CREATE TEMP TABLE dbanon_staged (a int)",
    "indexes that are not valid": "UPDATE pg_index SET indisvalid = false WHERE indrelid = 'dbanon.record'::regclass",
    "advisory locks": "SELECT pg_advisory_lock(1)",
    "1 release with [": "DELETE FROM dbanon.release_1 WHERE cloak_id = 1",
}


@pytest.fixture(scope="module")
def released(dbanon_server: Target, city_template: tuple[str, int], city_files: tuple[Path, Path]) -> Iterator[str]:
    with cloned_database(dbanon_server, city_template[0]) as url:
        where = ("--dataset", "city", "--x", "lon", "--y", "lat", "--name", "name")
        assert call(url, "load", "sites", str(write_sites(city_files[0])), *where).code == 0
        assert call(url, "verify", "1").code == 0
        assert call(url, "publish", "1", "city_k5").code == 0
        yield url


@pytest.mark.many
@pytest.mark.parametrize("rule", DAMAGES)
def test_a_rule_that_is_broken_is_named(released: str, rule: str) -> None:
    with psycopg.connect(released) as connection:
        assert wholeness.find_broken(connection) == []
        connection.execute(_NO_TRIGGERS)
        connection.execute(DAMAGES[rule])
        assert [told for told in wholeness.find_broken(connection) if rule in told]
        connection.rollback()


def test_every_rule_is_tried() -> None:
    # A prepared transaction needs a server that is set up for them; none here is.
    assert set(wholeness.RULES) - set(DAMAGES) == {"prepared transactions"}
