"""Data for benchmarks that read from a database: objects that were generated on the streets of San Francisco.

On the built-in city where those streets do not lie beside the repository.
"""

from pathlib import Path

from dbanon.database import Database

ROOT = Path(__file__).parents[1]
STREETS = ROOT.parent / "shared" / "data" / "sf_streets"
NETWORK = {"nodes": STREETS / "nodes.csv.gz", "edges": STREETS / "edges.csv.gz"} if STREETS.is_dir() else {}
CITY = "San Francisco" if NETWORK else "the built-in city"


def fill(database: Database, objects: int) -> str:
    """Make a dataset of so many objects, all there at 30 instants, unless an earlier one was kept; its name."""
    name = f"benchmark {objects}"
    if database.connection.execute("SELECT 1 FROM dbanon.dataset WHERE name = %s", [name]).fetchone() is None:
        database.synth(name, objects=objects, instants=30, whole_share=1.0, seed=1, **NETWORK)
    return name


def drop(database: Database, names: list[str]) -> None:
    """Delete datasets without a live release, their runs too, and give their room back."""
    for name in names:
        database.drop_dataset(name)
    tables = "trajectory, dbanon.request, dbanon.region, dbanon.record, dbanon.membership"
    database.connection.execute(f"VACUUM dbanon.{tables}")
