"""What an uninstall takes away, what it gives back, what it names."""

import re
import secrets
from collections.abc import Callable

import psycopg
import pytest

from dbanon import schema
from dbanon.testing import database_url
from tests import here
from tests.acceptance.commands import call
from tests.facts import demand_named
from tests.hints import tries

Empty = Callable[..., str]

_RIGHTS = """
SELECT o.name, x.grantor::regrole, x.grantee::regrole, x.privilege_type, x.is_grantable
FROM (
    SELECT c.oid::regclass::text AS name, coalesce(c.relacl, acldefault('r', c.relowner)) AS acl
    FROM pg_class c WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f')
    UNION ALL SELECT p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner)) FROM pg_proc p
    UNION ALL SELECT n.nspname, coalesce(n.nspacl, acldefault('n', n.nspowner)) FROM pg_namespace n
              WHERE n.nspname !~ '^pg_'
    UNION ALL SELECT 'the database', coalesce(d.datacl, acldefault('d', d.datdba)) FROM pg_database d
              WHERE d.datname = current_database()
) o CROSS JOIN aclexplode(o.acl) x
"""
_OBJECTS = f"""
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_depend d
WHERE d.refclassid = 'pg_namespace'::regclass
UNION SELECT rolname FROM pg_roles WHERE rolname ~ '^({here.ROLES}|dbanon_(admin|operator|worker|analyst)$)'
UNION SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'
"""


def read_state(url: str) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return set(connection.execute(_RIGHTS).fetchall()), set(connection.execute(_OBJECTS.encode()).fetchall())


@pytest.mark.stress
def test_rights_and_objects_are_as_they_were_before(empty: Empty) -> None:
    url = empty()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis; CREATE TABLE gps (x int); GRANT SELECT ON gps TO pg_monitor")
        connection.execute("GRANT SELECT ON pg_catalog.pg_locks TO pg_monitor")
    before = read_state(url)
    prefix = here.ROLES + secrets.token_hex(4)
    schema.upgrade(url, role_prefix=prefix, restrict_public=True)
    schema.upgrade(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT SELECT ON gps TO {prefix}_operator; GRANT UPDATE (x) ON gps TO {prefix}_operator")
    taken = before[0] - read_state(url)[0]
    assert len(taken) > 90
    large = "lo_creat(integer)", "lo_create(oid)", "lo_from_bytea(oid,bytea)", "lo_put(oid,bigint,bytea)"
    assert {*large, "lowrite(integer,bytea)", "pg_locks"} <= {name for name, *_ in taken}
    done = call(url, "db", "uninstall", "--yes")
    assert done.code == 0
    assert "stays" not in done.stderr
    assert read_state(url) == before


@tries("An uninstall must be confirmed")
def test_what_is_built_on_releases_is_listed_before_anything_goes(
    connection: psycopg.Connection, run: int, database: str
) -> None:
    connection.execute("SELECT dbanon.publish(1, 'ten')")
    connection.execute(
        "CREATE VIEW public.busy AS SELECT * FROM published.ten WHERE crowd > 5;"
        "CREATE MATERIALIZED VIEW public.counted AS SELECT count(*) FROM public.busy;"
        "CREATE TABLE public.kept (a int, b published.ten);"
        "ALTER TABLE public.kept ADD c text DEFAULT dbanon.version(), ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY few ON public.kept USING (a IN (SELECT crowd FROM published.ten));"
        "CREATE RULE also AS ON INSERT TO public.kept DO ALSO SELECT 1 FROM published.ten"
    )
    done = call(database, "db", "uninstall")  # no terminal to ask on
    assert done.code == 2
    [option] = re.findall(r"--[a-z]+", done.sentence)
    assert connection.execute("SELECT count(*) FROM published.ten").fetchone() == (4,)
    for fact in (
        "1 dataset with 10 trajectories",
        "1 run",
        "ten",
        "view public.busy",
        "materialized view public.counted",
        "column b of table public.kept",
        "policy few",
        "rule also",
        "default value",
    ):
        assert fact in done.stderr
    listed = [line for line in done.stderr.splitlines() if line.startswith("Built on it")]
    assert len(listed) == 6, listed
    done = call(database, "db", "uninstall", option)
    assert done.code == 0
    assert [line for line in done.stderr.splitlines() if "dbanon_operator" in line and "used by database" in line]
    rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ '^(dbanon|published)'").fetchall()
    assert rows == []
    assert connection.execute("SELECT to_regclass('public.busy'), to_regclass('public.kept')::text").fetchone() == (
        None,
        "kept",
    )
    assert call(database, "db", "uninstall", "--yes").stdout.startswith("Nothing")


@tries("In a database of dbanon's own, take these rights away: --restrict-public")
@pytest.mark.stress
def test_rights_taken_from_everybody_are_given_back_when_asked(empty: Empty) -> None:
    url = empty()
    everybody = "SELECT has_table_privilege('public', 'pg_locks', 'SELECT')"
    with psycopg.connect(url, autocommit=True) as connection:
        open_at_first = call(url, "db", "upgrade", "--share-roles")
        assert connection.execute(everybody).fetchone() == (True,)
        [option] = re.findall("--restrict-public", open_at_first.stderr)
        restricted = call(url, "db", "upgrade", option)
        assert connection.execute(everybody).fetchone() == (False,)
        demand_named(restricted.stderr, "views", "functions", "--verbose")
        assert "pg_locks" not in restricted.stderr
        kept = call(url, "db", "upgrade")
        assert connection.execute(everybody).fetchone() == (False,)
        assert "PUBLIC" not in kept.stderr
        call(url, "db", "upgrade", "--no-restrict-public")
        assert connection.execute(everybody).fetchone() == (True,)
        assert "pg_locks, " in call(url, "db", "upgrade", "--restrict-public", "--verbose").stderr


@pytest.mark.stress
def test_a_login_that_may_not_take_them_is_told_what_stays_open(empty: Empty, user: str) -> None:
    url = empty(owner=user)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION postgis")
        everybody = "SELECT has_table_privilege('public', 'pg_locks', 'SELECT')"
        done = call(database_url(url, user=user, password=user), "db", "upgrade", "--share-roles", "--restrict-public")
        assert (done.code, connection.execute(everybody).fetchone()) == (0, (True,))
        demand_named(done.stderr, "stay open", "PUBLIC")
        done = call(url, "db", "upgrade")  # by a superuser: what was chosen is done
        assert (done.code, connection.execute(everybody).fetchone()) == (0, (False,))
        assert "stay open" not in done.stderr
