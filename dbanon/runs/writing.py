"""Writes what a run made by binary COPY, and refuses a run that would be too large before it writes."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, cast

import numpy as np
import psycopg
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from dbanon.base import cores
from dbanon.base.cloaks import Cloaks, Hiding, Regions
from dbanon.base.dataset import DatasetRow
from dbanon.base.errors import StoreError, format_count
from dbanon.base.progress import Progress, report_nothing
from dbanon.base.trajectory import Float, Int
from dbanon.postgres import binary_copy
from dbanon.postgres.connection import Connection, translate_errors

LARGEST_RUN_BYTES = 50 * 1024**3
"""A run that would write more than this is refused before it writes."""

_REGION_BYTES = 220  # a row of dbanon.region that is a rectangle without extra, and its place in the primary key
_CELL_BYTES = 120  # what a cell adds to a region: its id, and some corners
_PERIOD_BYTES = 90
_RECORD_BYTES = 130  # a row of dbanon.record without its numbers
_ROW_BYTES = 8  # the numbers of one row
_MEMBER_BYTES = 90
_HIDING_BYTES = 100  # without the others
_ATOM_BYTES = 80
_CELLS_PER_STATEMENT = 20_000  # united in one statement
_NEAR_M = 0.001  # what cells that meet exactly may be apart, as for those that look for neighbours


def write_cloaks(
    connection: Connection, run_id: int, dataset: DatasetRow, cloaks: Cloaks, progress: Progress = report_nothing
) -> None:
    """Write what a run made, in the caller's transaction: regions, periods, records, members, hiding sets and atoms.

    Raises `StoreError` if they would take more than `LARGEST_RUN_BYTES`; nothing is written then.
    """
    _demand_size(cloaks)
    with translate_errors():
        if cloaks.regions.bounds is None:
            _write_unions(connection, run_id, dataset.srid, cloaks.regions, progress)
        else:
            _write_rectangles(connection, run_id, dataset.srid, cloaks.regions, progress)
        _write_periods(connection, run_id, cloaks.periods)
        _write_records(connection, run_id, cloaks, progress)
        _write_members(connection, run_id, cloaks)
        if cloaks.hiding is not None:
            _write_hiding(connection, run_id, cloaks.hiding)
        if cloaks.atoms is not None:
            cell, atom = cloaks.atoms.cell.astype(np.int64), cloaks.atoms.atom.astype(np.int32)
            with binary_copy.open_copy(connection, "dbanon.atom (run_id, cell_id, atom)") as copy:
                for part in binary_copy.split_into_batches(len(cell)):
                    _write(copy, run_id, [cell[part], atom[part]])


def _write_rectangles(connection: Connection, run_id: int, srid: int, regions: Regions, progress: Progress) -> None:
    bounds = cast("Float", regions.bounds)
    extras, extra = _encode_extras(regions)
    with binary_copy.open_copy(connection, "dbanon.region (run_id, region_no, region, crowd, subjects, extra)") as copy:
        for part in binary_copy.split_into_batches(len(regions)):
            columns = [
                np.arange(part.start + 1, part.stop + 1, dtype=np.int32),
                binary_copy.encode_rectangles(bounds[part], srid),
                regions.crowd[part].astype(np.int32),
                regions.subjects[part].astype(np.int32),
                binary_copy.encode_jsonb(extras.take(pa.array(extra[part]))),
            ]
            _write(copy, run_id, columns)
            progress("writing regions", part.stop, len(regions))


def _write_unions(connection: Connection, run_id: int, srid: int, regions: Regions, progress: Progress) -> None:
    """Unite the cells of each region.

    Where cells meet exactly, a union is what is left of their outlines when those are taken out that two cells share:
    fifteen times as quick as PostGIS, which unites cells that do not, some thousand at a time.
    """
    cells = _read_cells(connection, run_id, cast("Int", regions.cell))
    are_exact = shapely.coverage_is_valid(list(cells.values()), gap_width=_NEAR_M)
    for part in binary_copy.split_at_offsets(cast("Int", regions.cell_offset), _CELLS_PER_STATEMENT):
        if are_exact:
            _write_united(connection, run_id, srid, regions, part, cells=cells)
        else:
            _unite_in_postgis(connection, run_id, regions, part)
        progress("writing regions", part.stop, len(regions))


def _read_cells(connection: Connection, run_id: int, cell: Int) -> dict[int, Any]:
    """Read the polygons of cells of the run's dataset, by id."""
    query = "SELECT cell_id, shape FROM dbanon_internal.read_cells(%s, %s::bigint[])"
    rows = connection.execute(query, [run_id, np.unique(cell).tolist()]).fetchall()
    return dict(zip((row[0] for row in rows), shapely.from_wkb([row[1] for row in rows]), strict=True))


def _write_united(
    connection: Connection, run_id: int, srid: int, regions: Regions, part: slice, *, cells: Mapping[int, Any]
) -> None:
    offset, cell = cast("Int", regions.cell_offset), cast("Int", regions.cell)
    extras, extra = _encode_extras(regions)
    at = offset[part.start : part.stop + 1]
    apart = ([cells[one] for one in cell[low:high].tolist()] for low, high in pairwise(at))
    polygons = list(cores.map_each(shapely.coverage_union_all, apart))
    parts, of = shapely.get_parts(polygons, return_index=True)
    multi = shapely.set_srid(shapely.multipolygons(parts, indices=of), srid)
    columns = [
        np.arange(part.start + 1, part.stop + 1, dtype=np.int32),
        pa.array(shapely.to_wkb(multi, include_srid=True, byte_order=1), pa.binary()),
        binary_copy.encode_arrays(cell[at[0] : at[-1]], at - at[0]),
        regions.crowd[part].astype(np.int32),
        regions.subjects[part].astype(np.int32),
        binary_copy.encode_jsonb(extras.take(pa.array(extra[part]))),
    ]
    with binary_copy.open_copy(
        connection, "dbanon.region (run_id, region_no, region, cells, crowd, subjects, extra)"
    ) as copy:
        _write(copy, run_id, columns)


def _unite_in_postgis(connection: Connection, run_id: int, regions: Regions, part: slice) -> None:
    offset, cell = cast("Int", regions.cell_offset), cast("Int", regions.cell)
    extras, extra = _encode_extras(regions)
    connection.execute(
        "SELECT dbanon_internal.add_cell_regions(%s, %s::integer[], %s::integer[], %s::bigint[], %s::integer[], "
        "%s::integer[], %s::jsonb[])",
        [
            run_id,
            list(range(part.start + 1, part.stop + 1)),
            np.diff(offset[part.start : part.stop + 1]).tolist(),
            cell[offset[part.start] : offset[part.stop]].tolist(),
            regions.crowd[part].tolist(),
            regions.subjects[part].tolist(),
            extras.take(pa.array(extra[part])).to_pylist(),
        ],
    )


def _encode_extras(regions: Regions) -> tuple[pa.Array, NDArray[np.integer[Any]]]:
    """Give the distinct objects with a null at the end, and the index into them of each region."""
    none = len(regions.extras)
    extra = np.full(len(regions), none) if regions.extra is None else regions.extra
    return pa.array([*regions.extras, None], pa.string()), np.where(extra < 0, none, extra)


def _write_periods(connection: Connection, run_id: int, periods: Int) -> None:
    with binary_copy.open_copy(connection, "dbanon.period (run_id, period_no, period)") as copy:
        for part in binary_copy.split_into_batches(len(periods)):
            number = np.arange(part.start + 1, part.stop + 1, dtype=np.int32)
            _write(copy, run_id, [number, binary_copy.encode_periods(periods[part, 0], periods[part, 1])])


def _write_records(connection: Connection, run_id: int, cloaks: Cloaks, progress: Progress) -> None:
    records = len(cloaks.offset) - 1
    with binary_copy.open_copy(connection, "dbanon.record (run_id, record_id, periods, regions)") as copy:
        for part in binary_copy.split_at_offsets(cloaks.offset):
            at = cloaks.offset[part.start : part.stop + 1]
            rows, offset = slice(int(at[0]), int(at[-1])), at - at[0]
            columns = [
                np.arange(part.start + 1, part.stop + 1),
                binary_copy.encode_arrays(cloaks.period[rows].astype(np.int32) + 1, offset),
                binary_copy.encode_arrays(cloaks.region[rows] + np.int32(1), offset),
            ]
            _write(copy, run_id, columns)
            progress("writing cloaks", part.stop, records)


def _write_members(connection: Connection, run_id: int, cloaks: Cloaks) -> None:
    with binary_copy.open_copy(connection, "dbanon.membership (run_id, record_id, trajectory_id, period)") as copy:
        for part in binary_copy.split_into_batches(len(cloaks.member_record)):
            period = binary_copy.encode_stretches(cloaks.member_start, cloaks.member_end, part)
            _write(copy, run_id, [cloaks.member_record[part], cloaks.member_trajectory[part], period])


def _write_hiding(connection: Connection, run_id: int, hiding: Hiding) -> None:
    with binary_copy.open_copy(connection, "dbanon.hiding (run_id, record_id, period, others)") as copy:
        for part in binary_copy.split_at_offsets(hiding.offset):
            at = hiding.offset[part.start : part.stop + 1]
            others = binary_copy.encode_arrays(hiding.other[at[0] : at[-1]].astype(np.int64), at - at[0])
            period = binary_copy.encode_stretches(hiding.start, hiding.end, part)
            _write(copy, run_id, [hiding.record[part].astype(np.int64), period, others])


def _write(copy: psycopg.Copy, run_id: int, columns: list[binary_copy.Column]) -> None:
    """Write rows of a run's table, whose first column is the run."""
    copy.write(memoryview(binary_copy.encode_rows([np.full(len(columns[0]), run_id, np.int64), *columns])))


def _demand_size(cloaks: Cloaks) -> None:
    regions, records = cloaks.regions, len(cloaks.offset) - 1
    size = len(regions) * _REGION_BYTES + len(cloaks.periods) * _PERIOD_BYTES + records * _RECORD_BYTES
    size += cloaks.rows * _ROW_BYTES + len(cloaks.member_record) * _MEMBER_BYTES
    if regions.cell is not None:
        size += len(regions.cell) * _CELL_BYTES
    if cloaks.hiding is not None:
        size += len(cloaks.hiding.record) * _HIDING_BYTES + len(cloaks.hiding.other) * 8
    if cloaks.atoms is not None:
        size += len(cloaks.atoms.cell) * _ATOM_BYTES
    if regions.extra is not None:
        length = np.array([*(len(text) for text in regions.extras), 0], np.int64)
        size += int(length[regions.extra].sum())
    if size > LARGEST_RUN_BYTES:
        raise StoreError(
            f"A run may write at most {LARGEST_RUN_BYTES / 1024**3:.0f} GB. This one would write "
            f"{size / 1024**3:.0f} GB in {format_count(cloaks.rows, 'cloak')}. Use fewer instants or a shorter time."
        )
