"""Stands in for `dbanon db script` until there is one: the same text with its marks, less the checks and notices.

What the real one must keep to be run by dbanon_setup.install as it is: no command of psql, no BEGIN or COMMIT, no COPY
FROM STDIN; every change of role or search_path is SET LOCAL; the marks are filled in last.
"""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

from psycopg import sql

from dbanon import schema
from dbanon.methods import METHODS
from dbanon.schema import _roles

ADMIN = f"dbanon: {_roles.PURPOSES['admin']}"
ROOT = Path(__file__).resolve().parents[1]


def text(revisions: dict[str, str], body: str) -> str:
    """Put all of it in order."""
    return "\n".join([head(), start(max(revisions)), *map(guarded, revisions.items()), body, tail()])


def guarded(revision: tuple[str, str]) -> str:
    """Write a revision so that a database that has it skips it."""
    name, statements = revision
    return f"""
DO $do$
BEGIN
    IF EXISTS (SELECT FROM dbanon.alembic_version v WHERE v.version_num >= '{name}') THEN
        RETURN;
    END IF;
    EXECUTE $revision${statements}$revision$;
    DELETE FROM dbanon.alembic_version;
    INSERT INTO dbanon.alembic_version (version_num) VALUES ('{name}');
END
$do$;
"""


def head() -> str:
    """Roles and schemas; from here on as the admin role."""
    roles = "\n".join(
        f"""DO $$
BEGIN
    IF to_regrole('@{role}@') IS NULL THEN
        CREATE ROLE @{role}@ NOLOGIN;
        COMMENT ON ROLE @{role}@ IS {literal(f"dbanon: {purpose}")};
    END IF;
END
$$;
GRANT USAGE ON SCHEMA @postgis@ TO @{role}@;"""
        for role, purpose in _roles.PURPOSES.items()
    )
    return f"""
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$ BEGIN PERFORM pg_advisory_xact_lock({schema._UPGRADE_LOCK}); END $$;
{roles}
DO $$
BEGIN
    IF NOT pg_has_role('@admin@', CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER'
                                  ELSE 'SET' END) THEN
        EXECUTE format('GRANT @admin@ TO %I', current_user);
    END IF;
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO @admin@, @operator@, @worker@', current_database());
    BEGIN
        GRANT @analyst@ TO @operator@;
        GRANT pg_signal_backend TO @admin@;
    EXCEPTION WHEN insufficient_privilege THEN NULL;
    END;
END
$$;
CREATE SCHEMA IF NOT EXISTS dbanon AUTHORIZATION @admin@;
CREATE SCHEMA IF NOT EXISTS dbanon_internal AUTHORIZATION @admin@;
CREATE SCHEMA IF NOT EXISTS published AUTHORIZATION @admin@;
SET LOCAL ROLE @admin@;
"""


def revisions() -> dict[str, str]:
    """Text of each revision, oldest first."""
    made: dict[str, str] = {}
    context = SimpleNamespace(config=SimpleNamespace(attributes={}))
    before = sys.modules.get("alembic")
    for file in sorted((ROOT / "migrations" / "versions").glob("*.py")):
        spec = importlib.util.spec_from_file_location(file.stem, file)
        if spec is None or spec.loader is None:
            raise ImportError(file.name)
        module = importlib.util.module_from_spec(spec)
        sys.modules["alembic"] = SimpleNamespace(context=context)  # type: ignore[assignment]
        spec.loader.exec_module(module)
        texts: list[str] = []
        context.config.attributes["script"] = texts.append
        module.upgrade()
        made[module.revision] = "\n".join(texts)
    sys.modules.pop("alembic", None)
    if before is not None:
        sys.modules["alembic"] = before
    return made


def start(last: str) -> str:
    """The table of the revision."""
    return f"""
CREATE TABLE IF NOT EXISTS dbanon.alembic_version (
    version_num varchar(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
DO $$
DECLARE
    found text;
BEGIN
    SELECT version_num INTO found FROM dbanon.alembic_version;
    IF found > '{last}' THEN
        RAISE EXCEPTION 'Schema dbanon is at revision %, and this text knows those up to {last}.', found
            USING ERRCODE = 'DA004', DETAIL = 'Nothing was changed.', HINT = 'Install a newer dbanon.';
    END IF;
END
$$;
"""


def body() -> str:
    """All of sql/."""
    files = sorted((ROOT / "sql").rglob("*.sql"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return text.replace("@version_text@", literal(schema._version()))


def tail() -> str:
    """Rows that an upgrade writes: names, methods, releases' words, stamp."""
    rows = []
    for method in METHODS.values():
        row = schema._row(method)
        values = ", ".join(literal(value) for value in row.values())
        sets = ", ".join(f"{name} = excluded.{name}" for name in row)
        rows.append(
            f"INSERT INTO dbanon.method ({', '.join(row)}) VALUES ({values}) ON CONFLICT (name) DO UPDATE SET {sets};"
        )
    stamp = schema._stamp()
    return f"""
INSERT INTO dbanon.installation (role_prefix, database_oid, server_identifier)
SELECT '@prefix@', d.oid, s.system_identifier FROM pg_database d, pg_control_system() s
WHERE d.datname = current_database()
ON CONFLICT (one) DO UPDATE SET role_prefix = excluded.role_prefix, database_oid = excluded.database_oid,
    server_identifier = excluded.server_identifier;
{chr(10).join(rows)}
DO $$
BEGIN
    PERFORM dbanon_internal.describe_release(max(l.release_id)) FROM dbanon.release l
    WHERE l.withdrawn_at IS NULL AND to_regclass(format('published.%I', l.name)) IS NOT NULL GROUP BY l.name;
END
$$;
COMMENT ON TABLE dbanon.alembic_version IS {literal(stamp)};
"""


def literal(text: str) -> str:
    """Quote a text."""
    return sql.Literal(text).as_string(None).strip()
