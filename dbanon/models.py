"""What another program's models of the same database must leave out."""

from collections.abc import Mapping

_SCHEMAS = frozenset({"dbanon", "dbanon_internal", "dbanon_setup", "published", "published_inner"})


def include_name(name: str | None, kind: str, parents: Mapping[str, str | None]) -> bool:
    """Say for Alembic's ``include_name`` whether a schema or table may be yours: it is neither dbanon's nor PostGIS's.

    Parameters
    ----------
    name : str or None
        None is the default schema.
    kind : str
        ``schema``, ``table`` and so on.
    parents : mapping of str to str
        As Alembic gives it; it is not read.
    """
    return not ((kind == "schema" and name in _SCHEMAS) or (kind == "table" and name == "spatial_ref_sys"))
