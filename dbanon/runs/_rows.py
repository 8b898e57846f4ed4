"""Reads the stored rows of a run in the form they are stored in: each distinct region and period once.

A number in a record that names no region or period of the run, as 0 does, is no row: neither here nor in
``dbanon.cloak``, of which a release is a copy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.base.trajectory import Bool, Float, Int
from dbanon.postgres import arrow
from dbanon.runs import _blocks

_SIDE_COLUMNS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a run wrote: fields of `dbanon.attacks.Evidence` by name, and what only some attacks look at.

    `extra`: of each region the index of its object in `extras`, -1 where there is none; the texts of values by key.
    `digests`: of the regions and of the members.
    """

    fields: dict[str, Any]
    extra: Int
    extras: list[dict[str, str]]
    digests: bytes


def read(snapshot: arrow.Snapshot, run_id: int) -> Written:
    regions, members = _blocks.read_regions(snapshot, run_id), _blocks.read_members(snapshot, run_id)
    bounds, rectangle, srid = _read_shapes(snapshot, run_id, regions)
    extra, extras = _blocks.split_keys(regions.extra)
    periods = _read_table(snapshot, "gather_period_evidence", run_id)
    by_period, period_no = _sort_numbers(periods["period_no"])
    rows = _read_records(snapshot, run_id, regions.no, period_no)
    used, rows["region"] = _find_used(rows["region"], len(regions.no))
    used_period, rows["period"] = _find_used(rows["period"], len(period_no))
    by_period = by_period[used_period]
    names = arrow.read_table(snapshot, _COLUMNS_QUERY.format(int(run_id)))["name"].to_pylist()
    other = np.array([len(one.keys() - names) for one in extras] + [0])  # the last where there is no object
    fields = {
        **rows,
        **_convert_hiding(_read_table(snapshot, "gather_hiding_evidence", run_id)),
        "region_no": regions.no[used],
        "region_bounds": bounds[used],
        "region_rectangle": rectangle[used],
        "region_srid": srid[used],
        "region_crowd": regions.crowd[used],
        "region_subjects": regions.subjects[used],
        "region_other_keys": other[extra][used],
        "period_start_s": arrow.convert_to_numbers(periods["lower_s"])[by_period],
        "period_end_s": arrow.convert_to_numbers(periods["upper_s"])[by_period],
        "member_record": members.record,
        "member_trajectory": members.trajectory,
        "member_start_s": members.start_s,
        "member_end_s": members.end_s,
    }
    return Written(fields=fields, extra=extra[used], extras=extras, digests=regions.digest + members.digest)


_COLUMNS_QUERY = """SELECT k.value ->> 'name' AS name
    FROM ONLY dbanon.run r JOIN ONLY dbanon.method m ON m.name = r.method
    CROSS JOIN LATERAL jsonb_array_elements(m.columns) k WHERE r.run_id = {}"""


def _read_shapes(
    snapshot: arrow.Snapshot, run_id: int, regions: _blocks.Regions
) -> tuple[Float, Bool, NDArray[np.int32]]:
    """Find bounds, whether it is a rectangle, and SRID of each region: of other shapes PostGIS knows it."""
    if regions.rectangles is not None:
        return regions.rectangles[0], np.ones(len(regions.no), bool), regions.rectangles[1]
    shapes = _read_table(snapshot, "gather_region_evidence", run_id)
    order, _ = _sort_numbers(shapes["region_no"])
    bounds = np.column_stack([arrow.convert_to_numbers(shapes[side])[order] for side in _SIDE_COLUMNS])
    return bounds, arrow.convert_to_numbers(shapes["rectangle"])[order], arrow.convert_to_numbers(shapes["srid"])[order]


def _find_used(index: NDArray[Any], count: int) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Find which things any row has, and number these anew in the rows: a change may have left others behind."""
    used = np.zeros(count, bool)
    used[index] = True
    return used, index if used.all() else (np.cumsum(used) - 1).astype(index.dtype)[index]


def _read_table(snapshot: arrow.Snapshot, function: str, run_id: int) -> pa.Table:
    return arrow.read_table(snapshot, f"SELECT * FROM dbanon_internal.{function}({int(run_id)})")


def _sort_numbers(column: pa.ChunkedArray) -> tuple[Int, Int]:
    numbers = arrow.convert_to_numbers(column).astype(np.int64)
    order = np.argsort(numbers)
    return order, numbers[order]


def _read_records(snapshot: arrow.Snapshot, run_id: int, region_no: Int, period_no: Int) -> dict[str, Any]:
    """Read the records: of each row the indices of its region and period, -1 where there is none."""
    count = "SELECT coalesce(sum(length), 0)::bigint AS rows FROM dbanon_internal.gather_record_evidence"
    rows = int(arrow.convert_to_numbers(arrow.read_table(snapshot, f"{count}({int(run_id)})")["rows"])[0])
    region = np.empty(rows, np.int32)
    period = np.empty(rows, np.min_scalar_type(-max(len(period_no), 1)))
    ids, lengths, done = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    query = f"SELECT * FROM dbanon_internal.gather_record_evidence({int(run_id)})"
    for batch in arrow.read_batches(snapshot, query):
        record, length, periods, regions = batch.columns
        part = slice(done, done + int(length.to_numpy().sum()))
        region[part] = _find_indices(region_no, _read_last_bytes(regions, ">i4", 8))
        period[part] = _find_indices(period_no, _read_last_bytes(periods, ">i4", 8))
        ids.append(record.to_numpy())
        lengths.append(length.to_numpy())
        done = part.stop
    return _drop_empty_rows(np.concatenate(ids), np.concatenate(lengths).astype(np.int64), region, period)


def _drop_empty_rows(record: Int, length: Int, region: NDArray[np.int32], period: NDArray[Any]) -> dict[str, Any]:
    """Leave out what is no row; then rows are not numbered 1, 2, ... everywhere, so their places are given."""
    offset, place = np.concatenate([[0], np.cumsum(length)]), None
    if len(region) and (region.min() < 0 or period.min() < 0):
        there = (region >= 0) & (period >= 0)
        place = (np.arange(1, len(region) + 1) - np.repeat(offset[:-1], length)).astype(np.int32)[there]
        owner = np.repeat(np.arange(len(record)), length)[there]
        region, period = region[there], period[there]
        offset = np.searchsorted(owner, np.arange(len(record) + 1))
    return {"record_id": record, "offset": offset, "region": region, "period": period, "place": place}


def _find_indices(numbers: Int, sought: NDArray[Any]) -> Int:
    """Find each number among ascending ones; -1 where it is not there."""
    if len(numbers) and numbers[0] == 1 and numbers[-1] == len(numbers):  # as a run writes them
        return np.where((sought >= 1) & (sought <= len(numbers)), sought.astype(np.int64) - 1, -1)
    at = np.minimum(np.searchsorted(numbers, sought), max(len(numbers) - 1, 0))
    return np.where(numbers[at] == sought, at, -1) if len(numbers) else np.full(len(sought), -1)


def _read_last_bytes(column: pa.Array, kind: str, width: int) -> NDArray[Any]:
    """Read the elements of arrays as the server sends them: `width` bytes each, which the number ends."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    raw = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].reshape(-1, width)
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(raw[:, width - size :]).view(kind)[:, 0]


def _convert_hiding(table: pa.Table) -> dict[str, Any]:
    others = [_read_last_bytes(chunk, ">i8", 12) for chunk in table["others"].chunks]
    length = arrow.convert_to_numbers(table["length"]).astype(np.int64)
    return {
        "hiding_record": arrow.convert_to_numbers(table["record_id"]),
        "hiding_start_s": arrow.convert_to_numbers(table["lower_s"]),
        "hiding_end_s": arrow.convert_to_numbers(table["upper_s"]),
        "hiding_offset": np.concatenate([[0], np.cumsum(length)]),
        "hiding_other": np.concatenate([np.empty(0, np.int64), *others]).astype(np.int64),
    }
