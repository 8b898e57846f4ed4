"""The tables of schema dbanon for programs that use SQLAlchemy, read from the database's own catalogue.

The revisions in ``migrations/`` make the tables. Nothing in dbanon imports this, because psycopg and Arrow are faster
and starting is too.
"""

import geoalchemy2  # noqa: F401 - by its import SQLAlchemy knows geometry
from sqlalchemy import Engine, MetaData, Text
from sqlalchemy.dialects.postgresql.base import ischema_names


def reflect(engine: Engine) -> MetaData:
    """Read the tables and views of schema dbanon, as ``.tables["dbanon.run"]`` and so on.

    The composite type ``dbanon.session`` comes as text.
    """
    for name in ("dbanon.session", "session"):  # the second where the search path leads to schema dbanon
        ischema_names.setdefault(name, Text)
    found = MetaData(schema="dbanon")
    found.reflect(engine, views=True)
    return found
