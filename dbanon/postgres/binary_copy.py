"""Encodes rows for PostgreSQL's binary COPY, column by column: no Python object per row.

A column is a NumPy array where every value has the same width, or an Arrow array of text or bytes where it may differ
or be NULL. Bytes are joined by Arrow's element-wise kernels, whose result *is* the stream.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dbanon.postgres.connection import Connection, make_sql

# Signature; 32 bits of flags, none; 32 bits for the length of an extension, none. The trailer is a count of -1.
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

Bytes = NDArray[np.uint8]
Column = NDArray[Any] | Any  # an Arrow array, for which there are no types

POSTGRES_EPOCH_S = 946_684_800  # 2000-01-01 UTC, where timestamptz counts from
_BOUNDED, _LOWER_INCLUSIVE = 0x00, 0x02  # flags of a range
_POLYGON_WITH_SRID = 0x20000003
_POINT_M_WITH_SRID, _LINE_M_WITH_SRID = 0x60000001, 0x60000002
_INTEGER_OIDS = {4: 23, 8: 20}  # OIDs of integer and bigint by their width


@contextmanager
def open_copy(connection: Connection, target: str) -> Iterator[psycopg.Copy]:
    """Open a binary COPY into a table and columns named by the program; header and trailer are written here."""
    statement = make_sql(f"COPY {target} FROM STDIN (FORMAT binary)")
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(HEADER)
        yield copy
        copy.write(TRAILER)


def encode_rows(columns: Sequence[Column]) -> pa.Buffer | memoryview:
    """Encode rows for ``COPY ... FROM STDIN (FORMAT binary)``, without header and trailer.

    Parameters
    ----------
    columns : sequence of arrays of one length
        NumPy integers, floats and booleans become the PostgreSQL type of that width; ``uint8[n, w]`` holds values that
        are encoded already. Arrow text and binary arrays are written as they are, nulls as NULL.

    Returns
    -------
    buffer
        For 100,000 rows or so at a time: offsets are 32 bits wide.
    """
    # A row: number of values in 16 bits; each after its length in 32, -1 for NULL. Columns of one width are laid
    # side by side in `fixed` and become one piece; texts and bytes are pieces between them.
    pieces: list[pa.Array] = []
    fixed: list[Bytes] = [_to_big_endian(np.full(len(columns[0]), len(columns), np.int16))]
    for column in columns:
        if isinstance(column, np.ndarray):
            fixed += _add_length(column)
            continue
        length = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
        fixed.append(_to_big_endian(length.astype(np.int32)))
        pieces += [_pack_fields(fixed), pc.fill_null(column.cast(pa.binary()), b"")]
        fixed = []
    if not pieces:
        return np.ascontiguousarray(np.hstack(fixed)).data
    if fixed:
        pieces.append(_pack_fields(fixed))
    joined = pc.binary_join_element_wise(*pieces, b"")
    return joined.buffers()[2] if len(joined) else pa.py_buffer(b"")


def split_into_batches(count: int, size: int = 65_536) -> Iterator[slice]:
    """Cut 0..count into slices of bounded size."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def split_at_offsets(offset: NDArray[np.int64], size: int = 65_536) -> Iterator[slice]:
    """Cut the parts of a ragged array into slices of about so many values and at most so many parts, one at least."""
    first, parts = 0, len(offset) - 1
    while first < parts:
        last = int(np.searchsorted(offset, offset[first] + size, side="right")) - 1
        last = min(max(last, first + 1), first + size, parts)
        yield slice(first, last)
        first = last


def encode_timestamps(seconds: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Unix seconds as the microseconds since 2000 that timestamptz holds."""
    if seconds.dtype.kind == "i":
        return np.asarray((seconds.astype(np.int64) - POSTGRES_EPOCH_S) * 1_000_000)
    return np.rint((seconds - POSTGRES_EPOCH_S) * 1e6).astype(np.int64)


def encode_stretches(start: NDArray[np.int64] | None, end: NDArray[np.int64] | None, part: slice) -> pa.Array:
    """Half-open tstzrange values of a part of unix seconds; null where a start is its end, or where there are none."""
    if start is None or end is None:
        return pa.nulls(part.stop - part.start, pa.binary())
    values = _pack_fields([encode_periods(start[part], end[part])])
    return pc.if_else(pa.array(start[part] == end[part]), pa.scalar(None, pa.binary()), values)


def encode_periods(start: NDArray[np.int64], end: NDArray[np.int64]) -> Bytes:
    """Half-open tstzrange values from unix seconds, as ``uint8[n, 25]``."""
    value = np.empty(len(start), [("flags", "u1"), ("n0", ">i4"), ("lower", ">i8"), ("n1", ">i4"), ("upper", ">i8")])
    # range_send: flags, then each bound after its length; a timestamptz has 8 bytes.
    value["flags"], value["n0"], value["n1"] = _BOUNDED | _LOWER_INCLUSIVE, 8, 8
    value["lower"], value["upper"] = encode_timestamps(start), encode_timestamps(end)
    return _view_bytes(value)


def encode_rectangles(bounds: NDArray[np.float64], srid: int) -> Bytes:
    """EWKB polygons from ``float64[n, 4]`` (xmin, ymin, xmax, ymax), as ``uint8[n, 97]``; counter-clockwise rings."""
    value = np.empty(
        len(bounds),
        [("order", "u1"), ("type", "<u4"), ("srid", "<u4"), ("rings", "<u4"), ("points", "<u4"), ("xy", "<f8", 10)],
    )
    value["order"], value["type"], value["srid"], value["rings"], value["points"] = 1, _POLYGON_WITH_SRID, srid, 1, 5
    # Byte order 1 is little-endian. The ring: from the lower left corner to the right, up, left and down again.
    value["xy"] = bounds[:, [0, 1, 2, 1, 2, 3, 0, 3, 0, 1]]
    return _view_bytes(value)


def encode_arrays(values: NDArray[np.int32] | NDArray[np.int64], offset: NDArray[np.int64]) -> pa.Array:
    """One-dimensional integer[] or bigint[] values, cut at offsets.

    Parameters
    ----------
    values : int32[m] or int64[m]
    offset : int64[n + 1]
        From 0; array i is ``values[offset[i]:offset[i + 1]]``, at least one; below 2^31 / 12.

    Returns
    -------
    Arrow binary array of n values
    """
    count = np.diff(offset)
    header = np.empty(len(count), [(name, ">i4") for name in ("dimensions", "nulls", "type", "length", "lower")])
    header["dimensions"], header["nulls"], header["lower"], header["length"] = 1, 0, 1, count
    header["type"] = _INTEGER_OIDS[values.dtype.itemsize]
    element = np.empty(len(values), [("length", ">i4"), ("value", f">i{values.dtype.itemsize}")])
    element["length"], element["value"] = values.dtype.itemsize, values
    return pc.binary_join_element_wise(
        _pack_fields([_view_bytes(header)]), _make_ragged(element, offset * element.dtype.itemsize), pa.scalar(b"")
    )


def encode_paths(xym: NDArray[np.float64], offset: NDArray[np.int64], srid: int) -> pa.Array:
    """EWKB of trajectories, each a line with M, or a point with M where there is one fix.

    Parameters
    ----------
    xym : float64[m, 3]
        Fixes; those of trajectory i are offset[i]..offset[i + 1], at least one.
    offset : int64[n + 1]
        From 0; below 2^31 / 24.

    Returns
    -------
    Arrow binary array of n values
    """
    count = np.diff(offset)
    header = np.empty(len(count), [("order", "u1"), ("type", "<u4"), ("srid", "<u4"), ("points", "<u4")])
    header["order"], header["srid"], header["points"] = 1, srid, count
    header["type"] = np.where(count == 1, _POINT_M_WITH_SRID, _LINE_M_WITH_SRID)
    # A point says nothing of its number of points: the last four bytes of its header go.
    length = np.where(count == 1, 9, 13)
    shown = _view_bytes(header)[np.arange(13) < length[:, None]]
    points = np.ascontiguousarray(xym, "<f8")
    return pc.binary_join_element_wise(
        _make_ragged(shown, np.concatenate([[0], np.cumsum(length)])), _make_ragged(points, offset * 24), pa.scalar(b"")
    )


def mark_nulls(values: NDArray[np.generic], missing: NDArray[np.bool_]) -> pa.Array:
    """Values of one width of which some are NULL, as an Arrow binary array."""
    encoded = _to_big_endian(values)
    whole = _make_ragged(encoded, np.arange(len(values) + 1) * encoded.shape[1])
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.binary()), whole)


def encode_jsonb(texts: pa.Array) -> pa.Array:
    """JSON texts as jsonb's binary form (a version byte, then the text); nulls stay null."""
    return pc.binary_join_element_wise(pa.scalar(b"\x01", pa.binary()), texts.cast(pa.binary()), pa.scalar(b""))


def _add_length(column: NDArray[np.generic]) -> list[Bytes]:
    encoded = column if column.ndim == 2 else _to_big_endian(column)
    return [_to_big_endian(np.full(len(column), encoded.shape[1], np.int32)), encoded.view(np.uint8)]


def _to_big_endian(column: NDArray[np.generic]) -> Bytes:
    return _view_bytes(column.astype(column.dtype.newbyteorder(">")))


def _view_bytes(values: NDArray[np.generic]) -> Bytes:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)


def _pack_fields(fixed: Sequence[Bytes]) -> pa.Array:
    """Equal-width bytes side by side, as an Arrow binary array of one value a row."""
    matrix = np.hstack(fixed)
    offsets = np.arange(len(matrix) + 1, dtype=np.int32) * np.int32(matrix.shape[1])
    return pa.Array.from_buffers(
        pa.binary(), len(matrix), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    )


def _make_ragged(data: NDArray[Any], offset: NDArray[np.int64]) -> pa.Array:
    """Bytes cut at offsets, as an Arrow binary array."""
    buffers = [None, pa.py_buffer(offset.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offset) - 1, buffers)
