"""Columns of Arrow batches as loads read them, in slices of bounded size: of a Parquet file, or of a frame in memory.

A column comes out as numbers, times, or texts (as a dictionary where it was one), a geometry as WKB. Whoever made the
batches chose their types and sizes; neither matters after this module.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dbanon.base.errors import DataError
from dbanon.load import _geometry, _parse

ROWS_PER_SLICE = 65_536
SLICE_BYTES = 32 * 1024**2


def select_columns(
    called: str,
    batches: Iterator[pa.RecordBatch],
    names: Sequence[str],
    *,
    geometry: str | None,
    check: Callable[[int], None] = lambda _: None,
) -> Iterator[list[pa.Array]]:
    """Read the named columns in slices of at most `SLICE_BYTES` or one row.

    That of `geometry` becomes WKB; `check` hears the bytes of the texts of each slice. Raises `DataError`, with
    what the source is `called`, for a column of anything but one number, text or time a row.
    """
    for batch in _gather(_simplify_batches(called, batches, names, geometry)):
        size = _measure_rows(batch.columns)
        check(int(size.sum()))
        for cut in _cut_slices(size):
            yield [column[cut.start : cut.stop] for column in batch.columns]


def demand_flat(called: str, name: str, kind: pa.DataType) -> None:
    """Refuse a column of lists or structures."""
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if pa.types.is_nested(kind) and not pa.types.is_run_end_encoded(kind):
        what = "structures" if pa.types.is_struct(kind) else "lists"
        raise DataError(f"Column '{name}' of {called} must hold one value a row. It holds {what}. Take them apart.")


def _simplify_batches(
    called: str, batches: Iterator[pa.RecordBatch], names: Sequence[str], geometry: str | None
) -> Iterator[pa.RecordBatch]:
    for whole in batches:
        for start in range(0, len(whole), ROWS_PER_SLICE):
            batch = whole.slice(start, ROWS_PER_SLICE)
            places = [batch.schema.get_field_index(name) for name in names]
            columns = [batch.column(at) for at in places]
            read = [
                _geometry.convert_to_wkb(called, name, column) if name == geometry else _simplify(called, name, column)
                for name, column in zip(names, columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(read, names=list(names))


def _simplify(called: str, name: str, column: pa.Array) -> pa.Array:
    """Make text of all that is neither a number nor a time."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    demand_flat(called, name, column.type)
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if _parse.is_number(column.type) or pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return column
    kind = column.type
    try:
        if pa.types.is_duration(kind):  # as a text it would be a number
            column = column.cast(pa.date32())
        shared = pa.types.is_dictionary(kind)
        column = column.cast(pa.dictionary(pa.int32(), pa.string()) if shared else pa.string())
        column.validate(full=True)  # Arrow takes what a file calls text for UTF-8
    except pa.ArrowNotImplementedError:
        raise DataError(
            f"Column '{name}' of {called} must hold numbers, texts or times. It is {kind}. Convert it."
        ) from None
    except pa.ArrowInvalid:
        raise DataError(
            f"Column '{name}' of {called} must hold UTF-8. Some of it is not. Convert it, for example with iconv."
        ) from None
    return column


def _gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small batches together: had they been read as one, they might not have been small."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if held and batch.schema != held[0].schema:  # a column may be a dictionary in one and plain in the next
            yield from _join_batches(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= ROWS_PER_SLICE or size >= SLICE_BYTES / 2:
            yield from _join_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield from _join_batches(held)


def _join_batches(held: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return held if len(held) == 1 else list(pa.Table.from_batches(held).combine_chunks().to_batches())


def _measure_rows(read: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Bytes of the texts of each row; none where there are few in all."""
    lengths = [(pc.binary_length(_take_values(column)), column) for column in read if _is_text(column)]
    most = sum(pc.max(length).as_py() or 0 for length, _ in lengths)
    size = np.zeros(len(read[0]), np.int64)
    if most * len(size) > SLICE_BYTES:
        for length, column in lengths:
            rows = length.take(column.indices) if pa.types.is_dictionary(column.type) else length
            size += pc.fill_null(rows, 0).to_numpy(zero_copy_only=False)
    return size


def _is_text(column: pa.Array) -> bool:
    kind = column.type
    return bool(pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _take_values(column: pa.Array) -> pa.Array:
    return column.dictionary if pa.types.is_dictionary(column.type) else column


def _cut_slices(size: NDArray[np.int64]) -> Iterator[slice]:
    """Cut rows of these sizes so that each part has few bytes, or one row."""
    # Cut wherever the running total passes a multiple: a part is its first row and less than `SLICE_BYTES` more.
    part = np.cumsum(size) // SLICE_BYTES
    cuts = [0, *(int(cut) + 1 for cut in np.flatnonzero(np.diff(part))), len(size)]
    for start, stop in itertools.pairwise(cuts):
        yield slice(start, stop)
