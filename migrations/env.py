"""Runs the revisions, then every file of ``sql/``, as role dbanon_admin and in one transaction.

Only ``sql/00_*.sql`` run before, as the login that upgrades: they concern what the server and PostGIS own.

The caller hands over an open connection in a transaction of its own (``config.attributes["connection"]``), the folder
of SQL files (``config.attributes["sql"]``) and the program's version (``config.attributes["version"]``). A broken
revision or file rolls everything back.
"""

from pathlib import Path

from alembic import context
from sqlalchemy import Connection

ROLES = {
    "dbanon_admin": "owns everything dbanon makes; members may upgrade",
    "dbanon_operator": "may load data, submit runs, publish, unpublish and read the releases",
    "dbanon_worker": "computes and verifies: alone writes cloaks, members and verdicts",
    "dbanon_analyst": "may read the views in schema published, nothing else",
}

# Roles belong to the whole cluster: another database may have made them, or be making them now.
CREATE_ROLE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '{name}') THEN
        CREATE ROLE {name} NOLOGIN;
        COMMENT ON ROLE {name} IS 'dbanon: {purpose}';
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$
"""

# Operators see what analysts see. A member of dbanon_admin may upgrade without the right to grant that: then it stays
# as it was, and `dbanon db upgrade` says so.
LET_OPERATORS_READ = """
DO $$ BEGIN
    IF NOT pg_has_role('dbanon_operator', 'dbanon_analyst', 'MEMBER') THEN
        GRANT dbanon_analyst TO dbanon_operator;
    END IF;
EXCEPTION WHEN insufficient_privilege OR unique_violation THEN NULL;
END $$
"""

# All objects belong to dbanon_admin, which is no superuser: so the SECURITY DEFINER functions do not run as one.
BECOME_ADMIN = """
DO $$ DECLARE
    role text;
    -- From version 16 on, who makes a role is a member that may not become it.
    right_to_become text := CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END;
BEGIN
    IF NOT pg_has_role('dbanon_admin', right_to_become) THEN
        EXECUTE format('GRANT dbanon_admin TO %I', current_user);
    END IF;
    FOREACH role IN ARRAY ARRAY['dbanon_admin', 'dbanon_operator', 'dbanon_worker', 'dbanon_analyst'] LOOP
        IF NOT has_schema_privilege(role, @postgis_text@, 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', @postgis_text@, role);
        END IF;
    END LOOP;
    FOREACH role IN ARRAY ARRAY['dbanon_admin', 'dbanon_operator', 'dbanon_worker'] LOOP
        IF NOT has_database_privilege(role, current_database(), 'TEMPORARY') THEN
            EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO %I', current_database(), role);
        END IF;
    END LOOP;
    -- CREATE SCHEMA IF NOT EXISTS asks for CREATE on the database even where there is nothing to create.
    FOREACH role IN ARRAY ARRAY['dbanon', 'published'] LOOP
        IF to_regnamespace(role) IS NULL THEN
            EXECUTE format('CREATE SCHEMA %I AUTHORIZATION dbanon_admin', role);
        END IF;
    END LOOP;
    SET LOCAL ROLE dbanon_admin;
END $$
"""


def script(connection: Connection, text: str) -> None:
    """Execute SQL text with the raw driver cursor (``text()`` would read ``:=`` as a bind)."""
    with connection.connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(n.nspname), quote_literal(n.nspname) FROM pg_catalog.pg_extension e"
            " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgis'"
        )
        found = cursor.fetchone()
        if found is None:
            raise RuntimeError("Extension postgis must be in the database before the revisions run.")
        version = context.config.attributes["version"]
        for mark, meant in {
            "@postgis@": found[0],
            "@postgis_text@": found[1],
            **{f"@{role}@": f"dbanon_{role}" for role in ("admin", "operator", "worker", "analyst")},
            "@version_text@": "'" + version.replace("'", "''") + "'",
        }.items():
            text = text.replace(mark, meant)
        cursor.execute(text)


def run() -> None:
    connection: Connection = context.config.attributes["connection"]
    for name, purpose in ROLES.items():
        script(connection, CREATE_ROLE.format(name=name, purpose=purpose))
    script(connection, LET_OPERATORS_READ)
    folder: Path = context.config.attributes["sql"]
    files = sorted(folder.glob("[0-9][0-9]_*.sql"))
    for file in files:
        if file.name.startswith("00_"):
            script(connection, file.read_text(encoding="utf-8"))
    script(connection, BECOME_ADMIN)
    # Revisions reach `script` the same way: they import nothing.
    context.config.attributes["script"] = lambda text: script(connection, text)
    context.configure(connection=connection, version_table_schema="dbanon", transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()
    for file in files:
        if not file.name.startswith("00_"):
            script(connection, file.read_text(encoding="utf-8"))


run()
