"""What 60 million rows cost in memory: cloaks and evidence of objects that share regions, beside plain columns.

Run with ``./dev bench benchmarks/compact.py`` for 150,000 objects at 400 instants on 300,000 regions, or with other
numbers as ``.venv/bin/python benchmarks/compact.py 15000 400 30000``. With ``--write`` the rows go through a database
of the embedded server as well, so evidence is what was read back. Memory is that of the process (RSS).
"""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon.attacks import Evidence
from dbanon.base.cloaks import Cloaks, Hiding, Regions
from dbanon.base.dataset import DatasetRow
from dbanon.base.trajectory import Trajectories
from dbanon.database import open_database
from dbanon.postgres import arrow
from dbanon.runs import _rows, writing

T = TypeVar("T")
STEP_S = 60
PLAIN_ROW_BYTES = (
    8 + 4 + 8 + 8 + 32 + 4 + 4
)  # bytes of a row in columns of record, seq, start, end, bounds, crowd and subjects


def measure_rss_mb() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def report_making(what: str, make: Callable[[], T]) -> T:
    """Make something, and print how long it took and what is resident then."""
    began = time.perf_counter()
    made = make()
    print(f"{what:<34}{time.perf_counter() - began:>8.1f} s {measure_rss_mb():>8.0f} MB", flush=True)
    return made


def make_cloaks(records: int, instants: int, regions: int) -> Cloaks:
    """Make rows of moving objects: at each instant an object is in one of that instant's regions."""
    rng = np.random.default_rng(2008)
    apart = regions // instants
    low = rng.integers(0, 40_000, (regions, 2)).astype(float)
    region = rng.integers(0, apart, (records, instants), np.int32)
    region += np.arange(instants, dtype=np.int32) * np.int32(apart)
    period = np.tile(np.arange(instants, dtype=np.uint16), records)
    sets = np.arange(1, records + 1)
    return Cloaks(
        offset=np.arange(records + 1) * instants,
        region=region.reshape(-1),
        period=period,
        regions=Regions(
            crowd=np.full(regions, 16, np.int32),
            subjects=np.ones(regions, np.int32),
            bounds=np.hstack([low, low + 100]),
            extra=np.zeros(regions, np.int32),
            extras=('{"cloaked": true}',),
        ),
        periods=(np.arange(instants)[:, None] + np.array([0, 1])) * STEP_S,
        member_record=sets,
        member_trajectory=sets,
        hiding=Hiding(record=sets, offset=np.arange(records + 1) * 15, other=_list_others(records)),
        suppressed={},
        metrics={},
    )


def _list_others(records: int) -> np.ndarray:
    """Give each record the 15 that follow it."""
    return ((np.arange(records)[:, None] + np.arange(1, 16)) % records + 1).reshape(-1)


def make_evidence(made: Cloaks) -> Evidence:
    """Say of cloaks what the database says of them, in arrays of its own."""
    regions, nothing = made.regions, np.full(len(made.member_record), np.nan)
    hiding = made.hiding
    assert hiding is not None
    assert regions.bounds is not None
    fields = {
        "record_id": np.arange(1, len(made.offset)),
        "offset": made.offset.copy(),
        "region": made.region.copy(),
        "period": made.period.astype(np.int16),
        "place": None,
        "region_no": np.arange(1, len(regions) + 1),
        "region_bounds": regions.bounds.copy(),
        "region_rectangle": np.ones(len(regions), bool),
        "region_srid": np.full(len(regions), 32610, np.int32),
        "region_crowd": regions.crowd.copy(),
        "region_subjects": regions.subjects.copy(),
        "region_other_keys": np.zeros(len(regions), np.int32),
        "period_start_s": made.periods[:, 0].astype(float),
        "period_end_s": made.periods[:, 1].astype(float),
        "member_record": made.member_record.copy(),
        "member_trajectory": made.member_trajectory.copy(),
        "member_start_s": nothing,
        "member_end_s": nothing,
        "hiding_record": hiding.record.copy(),
        "hiding_start_s": nothing,
        "hiding_end_s": nothing,
        "hiding_offset": hiding.offset.copy(),
        "hiding_other": hiding.other.copy(),
    }
    return _make_evidence_of(fields)


def _make_evidence_of(fields: dict[str, object]) -> Evidence:
    one = np.zeros(1, np.int64)
    data = Trajectories(
        trajectory_id=one, subject=one, offset=np.arange(2), t=np.zeros(1), x=np.zeros(1), y=np.zeros(1),
        srid=32610, grid_m=1.0, grid_s=60,
    )  # fmt: skip
    return Evidence(method="", algorithm="", params={}, suppressed={}, trajectories=data, **fields)  # type: ignore[arg-type]


def write_and_read(made: Cloaks) -> Evidence:
    """Write cloaks as a run of its own, read them back, and drop it."""
    with open_database() as database:
        connection = database.connection
        connection.execute("DELETE FROM dbanon.dataset WHERE name = 'compact'")
        insert = "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('compact', 32610, 1, 60) RETURNING *"
        (dataset_id, *_), *_ = connection.execute(insert).fetchall()
        insert = (
            "INSERT INTO dbanon.run (dataset_id, method, algorithm, status)"
            " VALUES (%s, 'tp-aware', 'traj-anon', 'failed') RETURNING run_id"
        )
        ((run,),) = connection.execute(insert, [dataset_id]).fetchall()
        dataset = DatasetRow(
            dataset_id=dataset_id, name="compact", srid=32610, grid_m=1, grid_s=60, revision=0
        )  # fmt: skip

        def write() -> None:
            with connection.transaction():
                writing.write_cloaks(connection, run, dataset, made)

        def read() -> Evidence:
            with arrow.open_snapshot(connection) as snapshot:
                return _make_evidence_of(_rows.read(snapshot, run).fields)

        try:
            report_making("written", write)
            report_making("digest", lambda: connection.execute("SELECT dbanon_internal.compute_run_digest(%s)", [run]))
            size = (
                "SELECT sum(pg_total_relation_size(format('dbanon.%%I', t)::regclass)) / 2^20 FROM unnest(%s::text[]) t"
            )
            tables = ["region", "period", "record", "membership", "hiding"]
            ((megabytes,),) = connection.execute(size, [tables]).fetchall()
            print(f"{'its tables':<34}{megabytes:>19.0f} MB")
            return report_making("evidence, read back", read)
        finally:
            report_making("dropped", lambda: connection.execute("SELECT dbanon.drop_run(%s)", [run]))
            connection.execute("DELETE FROM dbanon.dataset WHERE dataset_id = %s", [dataset_id])


def main(records: int, instants: int, regions: int, *, write: bool) -> None:
    rows = records * instants
    print(f"{records} records x {instants} instants = {rows} rows on {regions} regions")
    print(f"{'before':<34}{measure_rss_mb():>19.0f} MB")
    made = report_making("cloaks", lambda: make_cloaks(records, instants, regions))
    found = write_and_read(made) if write else report_making("cloaks and evidence", lambda: make_evidence(made))
    assert found.rows == made.rows
    assert np.array_equal(found.region[-instants:], made.region[-instants:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak':<34}{peak:>19.0f} MB; plain columns of one of them: {rows * PLAIN_ROW_BYTES / 2**20:.0f} MB")


if __name__ == "__main__":
    numbers = [int(n) for n in sys.argv[1:] if n != "--write"] or [150_000, 400, 300_000]
    main(numbers[0], numbers[1], numbers[2], write="--write" in sys.argv)
