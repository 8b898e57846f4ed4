"""The four roles of a database: what they are called, what they are for, and which owner of a table may be relied on.

Roles belong to the server, not to the database, so their names are chosen at a database's first upgrade, and recorded
in it with its OID and its server's identifier. ``sql/00_before`` makes the roles.

A database may hold what a hostile login has put there under dbanon's names. So nothing in dbanon's schemas is read
before the catalogs have shown who owns it: a superuser, the caller, or an admin role of dbanon's (`TRUSTED`).
"""

import re

from dbanon.base.errors import ParameterError
from dbanon.postgres.connection import Connection, fetch_value

DEFAULT_PREFIX = "dbanon"
PURPOSES = {
    "admin": "owns everything dbanon makes; members may upgrade",
    "operator": "may load data, submit runs, publish, unpublish and read the releases",
    "worker": "computes and verifies: alone writes cloaks, members and verdicts",
    "analyst": "may read the views in schema published and call its functions, nothing else",
}
SCHEMAS = ["dbanon", "dbanon_internal", "published", "published_inner"]

# Whether role `rol` may own what a superuser reads or runs. Only superusers and makers of roles write a role's comment.
TRUSTED = f"""(rol.rolsuper OR rol.rolname = current_user AND current_user = session_user OR NOT rol.rolcanlogin
    AND shobj_description(rol.oid, 'pg_authid') = 'dbanon: {PURPOSES["admin"]}')"""


def list_names(prefix: str) -> list[str]:
    """Name the roles of a prefix."""
    return [f"{prefix}_{role}" for role in PURPOSES]


def demand_prefix(prefix: str) -> None:
    """Raise `ParameterError` if names of roles cannot begin with a prefix."""
    if not re.fullmatch(r"(?!pg_)[a-z][a-z0-9_]{0,39}", prefix):
        raise ParameterError(
            f"A role prefix must be lower-case letters, digits and underscores, start with a letter, not with pg_, and "
            f"have at most 40 characters. Got {prefix[:60]!r}. Choose another with --role-prefix."
        )


def is_there(connection: Connection, table: str) -> bool:
    """Whether dbanon's schema has a table of that name that may be read: what is planted there is not dbanon's."""
    query = f"""
        SELECT EXISTS (
            SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            JOIN pg_roles rol ON rol.oid = c.relowner
            WHERE n.nspname = 'dbanon' AND c.relname = %s AND c.relkind = 'r' AND {TRUSTED})
    """
    return bool(fetch_value(connection, query, [table]))


def read_recorded(connection: Connection) -> str | None:
    """Return the prefix that is recorded in this database: a copy has that of its original.

    Raises `ParameterError` if names of roles cannot begin with it.
    """
    if not is_there(connection, "installation"):
        return None
    prefix: str | None = fetch_value(connection, "SELECT role_prefix FROM dbanon.installation")
    if prefix is not None:
        demand_prefix(prefix)
    return prefix
