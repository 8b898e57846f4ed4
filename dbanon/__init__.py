"""Publish trajectories from PostGIS as cloaked views that are attacked before an analyst may read them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dbanon.database import Database

__version__ = "0.1.0"


def connect(dsn: str | None = None) -> "Database":
    """Open the database dbanon works on.

    Parameters
    ----------
    dsn : str, optional
        URI, key=value, ``service=`` or SQLAlchemy URL; else ``DBANON_DSN``, else the PG* variables, else the embedded
        server, which is started and migrated on first use.

    Returns
    -------
    Database
        The verbs of the command line as methods; also a context manager.

    Examples
    --------
    >>> import dbanon
    >>> with dbanon.connect() as database:  # doctest: +SKIP
    ...     database.load_trajectories(["cabs.csv"], dataset="taxi")
    ...     run = database.run(METHOD, dataset="taxi", params={"k": 5})  # a name of `dbanon methods`
    ...     database.publish(run.run_id, "taxi_k5")
    """
    from dbanon.database import open_database  # keeps `import dbanon` and `dbanon --help` fast

    return open_database(dsn)
