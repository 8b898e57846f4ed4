"""A change to a verified run's rows, made in SQL, makes `publish` refuse and a renewed `verify` name the clause."""

from collections.abc import Callable

import psycopg
import pytest

from dbanon.base.errors import VerificationFailed
from dbanon.database import Database
from dbanon.postgres.connection import connect

pytestmark = pytest.mark.db

# (what the adversary profits from, the change, clauses that must be named)
BUNDLE = "SELECT record_id FROM dbanon.cloak WHERE run_id = %(run)s AND crowd = {k} ORDER BY record_id LIMIT 1"
SMALLEST = BUNDLE.format(k="(SELECT min(crowd) FROM dbanon.cloak WHERE run_id = %(run)s)")
TAMPERINGS = {
    "a cloak moved by a cell past a member": (
        f"""UPDATE dbanon.cloak SET region = public.ST_Translate(region, 1, 0)
            WHERE run_id = %(run)s AND seq = 3 AND record_id = ({SMALLEST})""",
        "covers",
    ),
    "a member dropped": (
        f"""DELETE FROM dbanon.membership m WHERE run_id = %(run)s AND record_id = ({SMALLEST})
            AND trajectory_id = (SELECT min(trajectory_id) FROM dbanon.membership o
                                 WHERE o.run_id = m.run_id AND o.record_id = m.record_id)""",
        "size",
    ),
    "a member given to a second bundle": (
        """INSERT INTO dbanon.membership (run_id, record_id, trajectory_id)
           SELECT run_id, (SELECT max(record_id) FROM dbanon.membership WHERE run_id = %(run)s), trajectory_id
           FROM dbanon.membership WHERE run_id = %(run)s AND record_id = 1 LIMIT 1""",
        "once one-group",
    ),
    "a row that stands for one more": (
        """UPDATE dbanon.cloak SET subjects = subjects + 1, crowd = crowd + 1
           WHERE run_id = %(run)s AND record_id = 1 AND seq = 1""",
        "crowd subjects-sum",
    ),
    "two requests swapped": (
        """WITH pair AS (SELECT a.record_id AS one, b.record_id AS other, a.seq AS one_seq, b.seq AS other_seq,
                                a.extra AS one_extra, b.extra AS other_extra
                         FROM dbanon.cloak a JOIN dbanon.cloak b ON b.run_id = a.run_id AND b.extra <> a.extra
                         WHERE a.run_id = %(run)s AND a.record_id = 1 AND b.record_id <= 2 ORDER BY 1, 3, 2, 4 LIMIT 1)
           UPDATE dbanon.cloak c
           SET extra = CASE WHEN c.record_id = pair.one THEN pair.other_extra ELSE pair.one_extra END
           FROM pair WHERE c.run_id = %(run)s
             AND (c.record_id, c.seq) IN ((pair.one, pair.one_seq), (pair.other, pair.other_seq))""",
        "requests-sent",
    ),
    "a request invented": (
        """UPDATE dbanon.cloak SET extra = '{"requests": [{"poi": "invented"}]}'
           WHERE run_id = %(run)s AND record_id = 1 AND seq = 1""",
        "requests-sent",
    ),
    "a request removed": (
        """UPDATE dbanon.cloak SET extra = NULL WHERE run_id = %(run)s AND extra IS NOT NULL""",
        "requests-complete",
    ),
    "a period shortened": (
        """UPDATE dbanon.cloak SET period = tstzrange(lower(period), upper(period) - interval '1 second')
           WHERE run_id = %(run)s AND record_id = 1 AND seq = 1""",
        "period",
    ),
    "a row removed": (
        "DELETE FROM dbanon.cloak WHERE run_id = %(run)s AND record_id = 1 AND seq = 2",
        "period",
    ),
    "a whole bundle removed": (
        """WITH gone AS (DELETE FROM dbanon.cloak WHERE run_id = %(run)s AND record_id = 1)
           DELETE FROM dbanon.membership WHERE run_id = %(run)s AND record_id = 1""",
        "complete",
    ),
    "a crowd overstated": (
        "UPDATE dbanon.cloak SET crowd = crowd + 1 WHERE run_id = %(run)s AND record_id = 1 AND seq = 1",
        "crowd",
    ),
    "a column of somebody's own": (
        """UPDATE dbanon.cloak SET extra = coalesce(extra, '{}') || '{"subject": "p1"}'
           WHERE run_id = %(run)s AND record_id = 1 AND seq = 1""",
        "columns",
    ),
    "a trajectory changed after the run": (
        """UPDATE dbanon.trajectory SET path = public.ST_Translate(path, 5000, 0)
           WHERE trajectory_id = (SELECT min(trajectory_id) FROM dbanon.membership WHERE run_id = %(run)s)""",
        "covers",
    ),
    "k raised above what was computed": (
        """UPDATE dbanon.run SET params = params || '{"k": 50}' WHERE run_id = %(run)s""",
        "size",
    ),
}


@pytest.mark.many
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_refused_by_publish_and_named_by_verify(
    tampering: str, verified_city: tuple[Database, int]
) -> None:
    database, run_id = verified_city
    statement, clauses = TAMPERINGS[tampering]
    changed = database.connection.execute(statement, {"run": run_id}).rowcount
    assert changed > 0

    with pytest.raises(VerificationFailed, match="changed"):
        database.publish(run_id, "tampered")
    verdict = database.verify(run_id).verdict

    assert not verdict.passed
    assert set(clauses.split()) <= {c.name for c in verdict.clauses if not c.passed}
    with pytest.raises(VerificationFailed):
        database.publish(run_id, "tampered")
    assert database.connection.execute("SELECT count(*) FROM dbanon.release").fetchone() == (0,)


def test_a_joined_row_left_with_one_content_is_refused_and_named(verified_city: tuple[Database, int]) -> None:
    database, _ = verified_city
    run_id = database.run("tp-aware", dataset="city", params={"k": 5, "min_contents": 2}).run_id
    changed = database.connection.execute(
        "UPDATE dbanon.cloak SET extra = jsonb_build_object('requests', jsonb_build_array(extra #> '{requests,0}')) "
        "WHERE run_id = %s AND extra IS NOT NULL AND upper(period) - lower(period) > '1 minute'",
        [run_id],
    ).rowcount
    assert changed > 0
    with pytest.raises(VerificationFailed, match="changed"):
        database.publish(run_id, "tampered")
    broken = {c.name for c in database.verify(run_id).verdict.clauses if not c.passed}
    assert broken == {"requests-few", "requests-complete"}


def test_a_harmless_growth_is_refused_by_publish_until_it_is_verified_again(
    verified_city: tuple[Database, int],
) -> None:
    database, run_id = verified_city
    database.connection.execute(
        "UPDATE dbanon.cloak SET region = public.ST_Reverse(public.ST_Envelope(public.ST_Expand(region, 1))) "
        "WHERE run_id = %s AND record_id = 1",
        [run_id],
    )
    with pytest.raises(VerificationFailed, match="changed"):
        database.publish(run_id, "grown")
    assert database.verify(run_id).verdict.passed
    rows, _ = database.publish(run_id, "grown")
    assert rows > 0


def test_nobody_but_a_worker_can_forge_a_verdict(
    verified_city: tuple[Database, int], login: Callable[[str], str]
) -> None:
    _, run_id = verified_city
    url = login("dbanon_operator")
    columns = "(run_id, attack, passed, figures, digest)"
    forgery = f"INSERT INTO dbanon.verification {columns} VALUES (%s, 'tp-aware', true, '{{}}', '')"
    with connect(url) as operator, pytest.raises(psycopg.errors.InsufficientPrivilege):
        operator.execute(forgery, [run_id])
