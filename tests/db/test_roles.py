"""What real logins of roles dbanon_operator and dbanon_worker can and cannot do."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import errors

from tests.facts import expect_refusal

Login = Callable[[str], str]


@pytest.fixture
def worker(run: int, login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_worker"), autocommit=True) as opened:
        yield opened


def grant_all(connection: psycopg.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement)


def refuse(connection: psycopg.Connection, *statements: str) -> None:
    for statement in statements:
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement)


def test_an_operator_loads_submits_and_reads(operator: psycopg.Connection) -> None:
    grant_all(
        operator,
        "CREATE TEMP TABLE staging (a integer)",
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('mine', 32610, 1, 1)",
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (2, 's', 'SRID=32610;POINT M (1 1 1)')",
        "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (2, 's', now(), '{}')",
        "SELECT dbanon_internal.begin_record(2, 'trajectories', ARRAY['f'])",
        "INSERT INTO dbanon.quarantine (load_id, line, reason, content) VALUES (1, 2, 'bad time', '{}')",
        "DELETE FROM dbanon.trajectory WHERE dataset_id = 2",
        "SELECT dbanon.submit_run('mine', 'tp-aware', '{\"k\": 2}')",
        "SELECT dbanon.cancel_run(max(run_id)) FROM dbanon.run",
        "UPDATE dbanon.dataset SET grid_m = 2 WHERE dataset_id = 2",
        "SELECT dbanon.drop_run(max(run_id)) FROM dbanon.run",
        "SELECT * FROM dbanon.run",
        "SELECT * FROM dbanon.verification",
        "SELECT * FROM dbanon.release",
        "SELECT * FROM dbanon.fix",
        "SELECT dbanon_internal.reap_runs()",
    )
    assert operator.execute(
        "SELECT revision, created_by = session_user FROM dbanon.dataset WHERE dataset_id = 2"
    ).fetchone() == (
        4,
        True,
    )


def test_an_operator_publishes_and_withdraws(operator: psycopg.Connection) -> None:
    assert operator.execute("SELECT dbanon.publish(1, 'ten')").fetchone() == (4,)
    row = operator.execute("SELECT published_by = session_user FROM dbanon.release").fetchone()
    assert row == (True,)
    grant_all(operator, "SELECT * FROM dbanon.measure_overlap(1)", "SELECT dbanon.unpublish('ten')")


def test_an_operator_forges_nothing(operator: psycopg.Connection) -> None:
    refuse(
        operator,
        "UPDATE dbanon.dataset SET revision = 0",
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s, revision) VALUES ('m', 32610, 1, 1, 9)",
        "INSERT INTO dbanon.load (dataset_id, kind, source, rows_read, rows_kept) VALUES (1, 'pois', 'f', 2, 1)",
        "UPDATE dbanon.load SET rows_kept = rows_read, quarantined = '{}'",
        "UPDATE dbanon.load SET loaded_by = 'x'",
        "DELETE FROM dbanon.load",
        "UPDATE dbanon.quarantine SET reason = 'x'",
        "DELETE FROM dbanon.quarantine",
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, status)"
        " VALUES (1, 'tp-aware', 'traj-anon', 'verified')",
        "UPDATE dbanon.run SET status = 'verified'",
        "DELETE FROM dbanon.run",
        "INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'traj-anon')",
        "SELECT dbanon_internal.claim_run('mine')",
        "INSERT INTO dbanon.worker (name) VALUES ('mine')",
        "INSERT INTO dbanon.cloak SELECT * FROM dbanon.cloak",
        "UPDATE dbanon.cloak SET crowd = 9",
        "DELETE FROM dbanon.cloak",
        "SELECT * FROM dbanon.region",
        "UPDATE dbanon.region SET crowd = 9",
        "UPDATE dbanon.record SET regions = periods",
        "DELETE FROM dbanon.period",
        "DELETE FROM dbanon.hiding",
        "SELECT * FROM dbanon.atom",
        "DELETE FROM dbanon.published_cell",
        "SELECT dbanon_internal.store_cells(1, 1)",
        "INSERT INTO dbanon.membership VALUES (1, 1, 1, NULL)",
        "UPDATE dbanon.membership SET record_id = 2",
        "DELETE FROM dbanon.membership",
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest) VALUES (1, 'tp-aware', true, '')",
        "UPDATE dbanon.verification SET passed = true",
        "DELETE FROM dbanon.verification",
        "INSERT INTO dbanon.release (name, run_id, digest, rows) VALUES ('x', 1, '', 0)",
        "UPDATE dbanon.release SET withdrawn_at = now()",
        "UPDATE dbanon.method SET algorithms = '[]'",
        "TRUNCATE dbanon.trajectory",
        "ALTER TABLE dbanon.trajectory DISABLE TRIGGER ALL",
        "SELECT dbanon_internal.copy_release(1, 9, 'ten', NULL, NULL)",
        "SELECT dbanon_internal.execute_exclusively('DROP TABLE dbanon.release', 1, true)",
        "SELECT dbanon_internal.store_groups(1, 1)",
        "SELECT * FROM dbanon_internal.find_smallest_set(1, 1, NULL)",
        "SELECT * FROM dbanon.grouping",
        "SELECT * FROM dbanon.exposure",
        "SELECT key FROM dbanon.population",
        "DELETE FROM dbanon.grouping",
        "UPDATE dbanon.release SET overlap = NULL",
        "CREATE TABLE dbanon.mine (a integer)",
        "CREATE VIEW published.mine AS SELECT 1",
        "SET ROLE dbanon_worker",
    )


def test_an_operator_reads_releases_also_with_the_analysts_rights(operator: psycopg.Connection) -> None:
    grant_all(
        operator,
        "SELECT dbanon.publish(1, 'ten')",
        "SELECT * FROM published.ten",
        "SET ROLE dbanon_analyst",
        "SELECT * FROM published.ten",
    )
    refuse(operator, "SELECT * FROM dbanon.run", "UPDATE published.ten SET crowd = 9")


def test_a_worker_reads_no_release(operator: psycopg.Connection, worker: psycopg.Connection) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    refuse(worker, "SELECT * FROM published.ten", "SET ROLE dbanon_analyst")


def test_a_worker_computes_and_verifies(worker: psycopg.Connection) -> None:
    grant_all(
        worker,
        "SELECT dbanon.submit_run('ten', 'tp-aware', '{\"k\": 2}')",
        "SELECT dbanon_internal.register_worker('mine')",
        "SELECT dbanon_internal.claim_run('mine')",
        "INSERT INTO dbanon.cloak SELECT 2, record_id, seq, period, region, crowd, subjects, extra FROM dbanon.cloak",
        "INSERT INTO dbanon.membership SELECT 2, record_id, trajectory_id, period FROM dbanon.membership",
        "UPDATE dbanon.run SET status = 'computed', metrics = '{}' WHERE run_id = 2",
        "INSERT INTO dbanon.hiding VALUES (2, 1, NULL, '{2}')",
        "INSERT INTO dbanon.atom VALUES (2, 1, 0)",
        "SELECT * FROM dbanon_internal.gather_atom_evidence(2)",
        "SELECT * FROM dbanon_internal.find_stored_atoms(1, 0, 1)",
        "SELECT * FROM dbanon_internal.gather_region_evidence(2)",
        "SELECT * FROM dbanon_internal.gather_cloaked_evidence(2)",
        "SELECT * FROM dbanon_internal.gather_period_evidence(2)",
        "SELECT * FROM dbanon_internal.gather_record_evidence(2)",
        "SELECT * FROM dbanon_internal.gather_hiding_evidence(2)",
        "SELECT * FROM dbanon_internal.read_region_blocks(2)",
        "SELECT * FROM dbanon_internal.read_membership_blocks(2)",
        "SELECT * FROM dbanon_internal.read_name_blocks(2)",
        "SELECT * FROM dbanon.trajectory",
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
        " SELECT 2, 'tp-aware', true, dbanon_internal.compute_run_digest(2)",
        "UPDATE dbanon.run SET status = 'verified' WHERE run_id = 2",
        "DELETE FROM dbanon.cloak WHERE run_id = 2",
        "SELECT dbanon_internal.delete_rows(2)",
        "SELECT dbanon_internal.reap_runs()",
    )


def test_a_worker_loads_and_publishes_nothing(worker: psycopg.Connection) -> None:
    refuse(
        worker,
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (1, 's', 'SRID=32610;POINT M (1 1 1)')",
        "DELETE FROM dbanon.trajectory",
        "UPDATE dbanon.dataset SET revision = 0",
        "DELETE FROM dbanon.request",
        "UPDATE dbanon.verification SET passed = true",
        "DELETE FROM dbanon.verification",
        "SELECT dbanon.publish(1, 'ten')",
        "SELECT dbanon.unpublish('ten')",
        "SELECT dbanon.unpublish('ten', end_readers => true)",
        "SELECT dbanon_internal.execute_exclusively('DROP TABLE dbanon.release', 1, true)",
        "SELECT * FROM dbanon.measure_overlap(1)",
        "INSERT INTO dbanon.release (name, run_id, digest, rows) VALUES ('x', 1, '', 0)",
        "DELETE FROM dbanon.run",
        "INSERT INTO dbanon.run (dataset_id, method, algorithm) VALUES (1, 'tp-aware', 'traj-anon')",
        "CREATE VIEW published.mine AS SELECT 1",
        "SET ROLE dbanon_admin",
    )


def test_a_worker_cannot_change_a_released_run(operator: psycopg.Connection, worker: psycopg.Connection) -> None:
    operator.execute("SELECT dbanon.publish(1, 'ten')")
    refused = {"DELETE FROM dbanon.cloak": "DA007", "UPDATE dbanon.run SET params = '{}'": "42501"}
    for statement, state in refused.items():
        with expect_refusal(state):
            worker.execute(statement)  # type: ignore[arg-type]


@pytest.mark.parametrize("column", ["run_id", "dataset_id", "method", "algorithm", "params", "seed", "created_by"])
def test_a_worker_changes_nothing_that_a_run_was_asked_for(worker: psycopg.Connection, column: str) -> None:
    """The audit has it, and whoever published a run relies on it."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute(f"UPDATE dbanon.run SET {column} = DEFAULT")  # type: ignore[arg-type]


def test_both_roles_may_check_the_schema(operator: psycopg.Connection, worker: psycopg.Connection) -> None:
    from dbanon import schema

    schema.demand_revision(operator)
    schema.demand_revision(worker)


def test_nothing_is_granted_to_everyone(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT p.oid::regprocedure::text"
        " FROM pg_proc p CROSS JOIN aclexplode(coalesce(proacl, acldefault('f', proowner))) a"
        " WHERE p.pronamespace::regnamespace::text ~ '^(dbanon|published)' AND a.grantee = 0"
        " UNION ALL SELECT c.oid::regclass::text FROM pg_class c CROSS JOIN aclexplode(c.relacl) a"
        " WHERE c.relnamespace IN ('dbanon'::regnamespace, 'published'::regnamespace) AND a.grantee = 0"
        " UNION ALL SELECT n.nspname FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) a"
        " WHERE n.nspname ~ '^(dbanon|published)' AND a.grantee = 0"
    ).fetchall()
    assert rows == []
