"""How fast trajectories come out of PostGIS as arrays, and what memory that takes.

Run with ``./dev bench benchmarks/reads.py``, or with other sizes as ``.venv/bin/python benchmarks/reads.py 300000``.
With ``--keep`` the data stay for the next time. Each read is a process of its own. Plain: the view ``dbanon.fix``
(ST_DumpPoints) row by row through psycopg, the same arrays from 20,000 trajectories.
"""

import json
import subprocess
import sys
import time

import numpy as np
from _data import drop, fill

from dbanon.base import memory
from dbanon.database import open_database
from dbanon.postgres import server
from dbanon.postgres.connection import connect
from dbanon.runs import reading, stored

INSTANTS = 30


def read_fast(url: str, dataset: int) -> list[np.ndarray]:
    with reading.open_reader(url) as reader:
        data = reader.read_trajectories(dataset)
    return [data.offset, data.x, data.y, data.t]


def read_plainly(url: str, dataset: int) -> list[np.ndarray]:
    offset, x, y, t = [0], [], [], []
    query = (
        "SELECT seq, public.ST_X(position), public.ST_Y(position), extract(epoch FROM t)::float8 FROM dbanon.fix "
        "WHERE dataset_id = %s ORDER BY trajectory_id, seq"
    )
    with connect(url) as connection, connection.transaction(), connection.cursor(name="fixes") as cursor:
        cursor.itersize = 100_000
        for seq, px, py, pt in cursor.execute(query, [dataset]):
            if seq == 1 and x:
                offset.append(len(x))
            x.append(px)
            y.append(py)
            t.append(pt)
    return [np.array(column) for column in ([*offset, len(x)], x, y, t)]


def measure_here(how: str, dataset: int) -> dict[str, float]:
    """Read in this process: seconds, peak MB, and a sum to compare by."""
    url = server.resolve(None).url
    began = time.perf_counter()
    columns = {"fast": read_fast, "plain": read_plainly}[how](url, dataset)
    seconds = time.perf_counter() - began
    peak = memory.measure_peak_mb()
    return {"seconds": seconds, "peak_mb": peak, "sum": float(sum(c.sum() for c in columns))}


def measure_elsewhere(how: str, dataset: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, how, str(dataset)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main(sizes: list[int], *, keep: bool) -> None:
    with open_database() as database:
        names = {n: fill(database, n) for n in (20_000, *sizes)}
        datasets = {n: stored.find_dataset(database.connection, name).dataset_id for n, name in names.items()}
    print(f"trajectories of {INSTANTS} fixes as NumPy arrays")
    print(f"{'n':>9}  {'how':<6} {'seconds':>8} {'million fixes/s':>16} {'peak MB':>8} {'of arrays, MB':>14}")
    results = {}
    for n, how in [(20_000, "plain"), (20_000, "fast"), *((n, "fast") for n in sizes)]:
        result = results[n, how] = measure_elsewhere(how, datasets[n])
        rate, arrays = n * INSTANTS / result["seconds"] / 1e6, n * (INSTANTS * 24 + 24) / 1e6
        print(f"{n:>9}  {how:<6} {result['seconds']:>8.2f} {rate:>16.1f} {result['peak_mb']:>8.0f} {arrays:>14.0f}")
    slow, quick = results[20_000, "plain"], results[20_000, "fast"]
    print(f"ratio at 20,000: {slow['seconds'] / quick['seconds']:.0f}, same values: {slow['sum'] == quick['sum']}")
    if not keep:
        with open_database() as database:
            drop(database, list(names.values()))


if __name__ == "__main__":
    if sys.argv[1:2] in (["fast"], ["plain"]):
        print(json.dumps(measure_here(sys.argv[1], int(sys.argv[2]))))
    else:
        main([int(n) for n in sys.argv[1:] if n != "--keep"] or [300_000, 2_000_000], keep="--keep" in sys.argv)
