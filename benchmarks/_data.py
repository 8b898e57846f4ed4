"""Data for benchmarks that read from a database: people on a lattice of streets, seeded, written by binary COPY."""

import numpy as np
import pyarrow as pa

from dbanon import binary_copy, store

SEED = 20120905
SRID = 32610
SIDE_M, BLOCK_M = 20_000, 100
START_S = 1_212_562_800
_POINTS = 0x60000002  # EWKB: LINESTRING with M and SRID


def walks(rng: np.random.Generator, n: int, instants: int) -> np.ndarray:
    """Positions of n people at consecutive minutes, each on a street of a square town: float64[n, instants, 2]."""
    axis = rng.integers(0, 2, (n, 1))
    turns = rng.random((n, instants)) < 0.2
    along = (axis + turns.cumsum(axis=1)) % 2  # the axis each moves along in each minute
    speed = rng.uniform(20, 600, (n, 1)) * rng.choice([-1, 1], (n, 1))
    step = speed * rng.uniform(0.5, 1.0, (n, instants))
    start = rng.normal(SIDE_M / 2, SIDE_M / 5, (n, 1, 2))
    moved = start + np.stack([step * (along == 0), step * (along == 1)], axis=2).cumsum(axis=1)
    moved = np.abs((moved + SIDE_M) % (2 * SIDE_M) - SIDE_M)  # whoever leaves is reflected
    across = np.stack([along == 1, along == 0], axis=2)
    return 550_000 + np.where(across, np.rint(moved / BLOCK_M) * BLOCK_M, moved)


def fill(connection: store.Connection, n: int, instants: int = 30, batch: int = 50_000) -> tuple[str, int]:
    """Make a dataset of n people with one trajectory each, unless an earlier one was kept; its name and its id."""
    name = f"walks_{n}_{instants}"
    found = connection.execute("SELECT dataset_id FROM dbanon.dataset WHERE name = %s", [name]).fetchone()
    if found:
        return name, int(found[0])
    with connection.transaction():
        dataset = connection.execute(
            "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, %s, 1, 1) RETURNING dataset_id",
            [name, SRID],
        ).fetchone()[0]
        rng = np.random.default_rng(SEED)
        with store.copying(connection, "dbanon.trajectory (dataset_id, subject, path)") as copy:
            for part in binary_copy.batches(n, batch):
                copy.write(memoryview(_rows(dataset, part, walks(rng, part.stop - part.start, instants))))
    return name, int(dataset)


def drop(connection: store.Connection, datasets: list[int]) -> None:
    """Delete datasets and their runs, and give their room back."""
    connection.execute("DELETE FROM dbanon.run WHERE dataset_id = ANY (%s)", [datasets])
    connection.execute("DELETE FROM dbanon.dataset WHERE dataset_id = ANY (%s)", [datasets])
    connection.execute("VACUUM dbanon.trajectory, dbanon.cloak, dbanon.membership")


def _rows(dataset: int, part: slice, position: np.ndarray) -> pa.Buffer | memoryview:
    n, instants, _ = position.shape
    path = np.empty(
        n, [("order", "u1"), ("type", "<u4"), ("srid", "<u4"), ("points", "<u4"), ("fixes", "<f8", (instants, 3))]
    )
    path["order"], path["type"], path["srid"], path["points"] = 1, _POINTS, SRID, instants
    path["fixes"][..., :2] = position
    path["fixes"][..., 2] = START_S + 60 * np.arange(instants)
    subject = pa.array([f"person {i}" for i in range(part.start, part.stop)], pa.string())
    blob = path.view(np.uint8).reshape(n, path.dtype.itemsize)
    return binary_copy.rows([np.full(n, dataset, np.int64), subject, blob])
