"""Reads query results as NumPy and Arrow arrays, by binary COPY, without a Python object per fix.

All queries of one snapshot see one state of the database. They use psycopg, as all other modules do: its connections
are pinned, and it waits in Python, where Ctrl-C interrupts it.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg import sql

from dbanon.base.errors import DataError, StoreError
from dbanon.postgres import sqlstate
from dbanon.postgres.binary_copy import HEADER, POSTGRES_EPOCH_S, TRAILER
from dbanon.postgres.connection import find_postgis_schema, make_sql

_FIX_BYTES = 24  # bytes of one point of WKB with M: x, y, m
_WKB_HEADER_BYTES = 5, 9  # bytes before the points: of a point, of a line
_BATCH_BYTES = 1 << 22  # they stay in the cache, and in memory used before
_LONG_BYTES = 64  # from here on values are better copied one by one
_BLOCK_BITS = 8  # bits of an id that do not tell which block of trajectories it is in, which the server puts together
_MAX_BLOCK_BYTES = 1 << 24  # bytes of their paths; of a heavier block each trajectory comes alone
_MAX_GROWTH_NUMBERS = 1 << 23  # numbers by which a column grows at most: what is not used in the end is given back
_NUMBER_TYPES = {16: "?", 20: ">i8", 21: ">i2", 23: ">i4", 700: ">f4", 701: ">f8"}  # by the OID of their type
_BYTES_TYPES = {17: pa.binary(), 25: pa.string()}
_TIMESTAMPTZ = 1184  # microseconds since 2000-01-01 UTC
_POSTGRES_EPOCH_US = POSTGRES_EPOCH_S * 1_000_000


@dataclass(frozen=True)
class Snapshot:
    """A read-only transaction that sees one state of the database; `postgis` is the schema PostGIS lives in, quoted."""

    connection: psycopg.Connection[Any]
    postgis: str


@contextmanager
def open_snapshot(connection: psycopg.Connection[Any], name: str | None = None) -> Iterator[Snapshot]:
    """Have a transaction whose queries all see one state of the database, and can change nothing.

    Parameters
    ----------
    name : str, optional
        Of the state that another session exported with `export_snapshot`.

    Raises `StoreError` if that session is over, which is worth another try.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        if name is not None:
            try:
                connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(name)))
            except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject):  # the latter since 17
                raise StoreError(
                    "All sessions must read in the snapshot of the run. That is over. Run it again.", sqlstate.CHANGED
                ) from None
        yield Snapshot(connection, sql.Identifier(find_postgis_schema(connection)).as_string(connection))


def convert_to_unix_s(sent: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give timestamps that were sent (microseconds since 2000) in unix seconds, as the server's ``date_part`` does."""
    # From the year 294247 on, microseconds since 1970 do not fit into an int64.
    latest = np.iinfo(np.int64).max - _POSTGRES_EPOCH_US
    whole = np.minimum(sent, latest) + _POSTGRES_EPOCH_US
    return np.asarray(np.where(sent > latest, sent.astype(float) + _POSTGRES_EPOCH_US, whole) / 1e6)


def export_snapshot(snapshot: Snapshot) -> str:
    """Let other sessions see what this one does, as long as it lasts: the name of its state."""
    row = snapshot.connection.execute("SELECT pg_export_snapshot()").fetchone()
    return str(row[0]) if row else ""


def read_table(snapshot: Snapshot, query: str) -> pa.Table:
    """Run a query without parameters and fetch all of it."""
    return pa.Table.from_batches(read_batches(snapshot, query))


def read_batches(snapshot: Snapshot, query: str) -> Generator[pa.RecordBatch]:
    """Run a query without parameters and fetch its columns some megabytes at a time; the last batch may be empty."""
    columns = snapshot.connection.execute(make_sql(f"SELECT * FROM ({query}) q LIMIT 0")).description or []
    names, kinds = [column.name for column in columns], [column.type_code for column in columns]
    statement = make_sql(f"COPY ({query}) TO STDOUT (FORMAT binary)")
    with snapshot.connection.cursor() as cursor, cursor.copy(statement) as copy:
        for rows, lengths in _read_pieces(copy):
            yield pa.record_batch(_decode_columns(rows, lengths, kinds), names)


def _read_pieces(copy: psycopg.Copy, least: int = _BATCH_BYTES) -> Iterator[tuple[bytearray, list[int]]]:
    """Fetch the rows of a binary COPY so many bytes at a time, with the length of each; the last piece may be empty.

    What libpq has received is fetched from it without asking psycopg, which takes a microsecond for each row; psycopg
    is asked where nothing is there, so that Ctrl-C interrupts the wait.
    """
    fetch, data, lengths = copy.connection.pgconn.get_copy_data, bytearray(), list[int]()
    row = copy.read()[len(HEADER) :]  # it comes before the first row
    while len(row) != len(TRAILER):  # a row has the number of its values at least, and some value
        data += row
        lengths.append(len(row))
        if len(data) >= least:
            yield data, lengths
            data, lengths = bytearray(), []
        length, row = fetch(1)
        if length < 0:  # not after the trailer: the server ended it with an error
            raise _make_error(copy.connection.pgconn)
        if length == 0:  # nothing is there yet
            row = copy.read()
    copy.read()  # the end
    yield data, lengths


def _make_error(connection: psycopg.pq.abc.PGconn) -> psycopg.Error:
    """Make the error of what ended a COPY, and fetch what comes after it, as psycopg would."""
    last = result = connection.get_result()
    while last is not None:
        last = connection.get_result()
    if result is None or result.status != psycopg.pq.ExecStatus.FATAL_ERROR:
        return psycopg.OperationalError("COPY ended without its trailer")
    return psycopg.errors.error_from_result(result)


def _decode_columns(rows: bytearray, lengths: list[int], kinds: list[int]) -> list[pa.Array]:
    """Take rows of a binary COPY apart: each is the number of its values, then each one after its length (NULL: -1)."""
    data, length = np.frombuffer(rows, np.uint8), np.array(lengths, np.int64)
    # `at` is where each row goes on: behind the 16-bit count of its values, then behind each value read.
    at = np.cumsum(length) - length + 2
    columns = []
    for kind in kinds:
        # A value: 32-bit length, -1 for NULL, then so many bytes. A NULL is read from place 0, and masked.
        size = _decode_numbers(rows, at, ">i4").astype(np.int64)
        null = size < 0
        missing = null if null.any() else None
        at = at + 4
        if missing is not None:
            size[null] = 0
        place = at if missing is None else np.where(null, 0, at)
        if kind == _TIMESTAMPTZ:
            since_1970 = _decode_numbers(rows, place, ">i8") + _POSTGRES_EPOCH_US
            columns.append(pa.array(since_1970, pa.timestamp("us", "UTC"), mask=missing))
        elif kind in _NUMBER_TYPES:
            columns.append(pa.array(_decode_numbers(rows, place, _NUMBER_TYPES[kind]), mask=missing))
        else:
            columns.append(_decode_ragged(data, at, size, _BYTES_TYPES[kind], missing))
        at += size
    return columns


def _decode_numbers(rows: bytearray, at: NDArray[np.int64], kind: str) -> NDArray[Any]:
    """Read the number that begins at each place."""
    dtype = np.dtype(kind)
    # A number for every place of a byte, which overlap: those asked for are gathered whole.
    every = np.ndarray((max(len(rows) - dtype.itemsize + 1, 0),), dtype, rows, strides=(1,))
    return np.asarray(every[at], dtype.newbyteorder("="))


def _decode_ragged(
    data: NDArray[np.uint8],
    at: NDArray[np.int64],
    size: NDArray[np.int64],
    kind: Any,
    missing: NDArray[np.bool_] | None,
) -> pa.Array:
    """Read the bytes that begin at each place, as many as `size` says."""
    offset = np.concatenate([[0], np.cumsum(size)])
    # Short values are gathered by index, eight bytes of index for each byte; long ones are cheaper to slice.
    if offset[-1] < _LONG_BYTES * len(size):
        values = data[np.repeat(at - offset[:-1], size) + np.arange(offset[-1])]
    else:
        view = data.data
        values = b"".join([view[begin:end] for begin, end in zip(at.tolist(), (at + size).tolist(), strict=True)])
    valid = None if missing is None else pa.array(~missing).buffers()[1]
    return pa.Array.from_buffers(kind, len(size), [valid, pa.py_buffer(offset.astype(np.int32)), pa.py_buffer(values)])


def convert_to_numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers or booleans without nulls as an array of the same type."""
    return np.asarray(column.to_numpy())


@dataclass(frozen=True)
class TextCodes:
    """The distinct texts of a column in the order of their UTF-8 bytes; a text's code is its place there.

    So codes depend on the texts alone, whichever query they came from.
    """

    texts: pa.Array

    @classmethod
    def from_column(cls, column: pa.ChunkedArray) -> "TextCodes":
        """Number the distinct texts of a column."""
        distinct = column.chunk(0).dictionary if pa.types.is_dictionary(column.type) else pc.unique(column)
        return cls(distinct.take(pc.sort_indices(distinct)))

    @classmethod
    def encode_new(cls, column: pa.ChunkedArray) -> tuple["TextCodes", NDArray[np.int64]]:
        """Number the distinct texts of a column without nulls, and encode it, in one go."""
        if pc.all(pc.less(column[:-1], column[1:])).as_py():  # as they are often loaded
            return cls(column.combine_chunks()), np.arange(len(column))
        code = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64) - 1
        first = np.empty(code.max(initial=-1) + 1, np.int64)
        first[code] = np.arange(len(code))
        return cls(column.take(pa.array(first)).combine_chunks()), code

    def encode(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        """Codes of a column's texts; -1 for null and for texts that are not among them."""
        if pa.types.is_dictionary(column.type):
            codes = np.append(self.encode(column.chunk(0).dictionary), -1)
            return np.concatenate([codes[pc.fill_null(chunk.indices, -1).to_numpy()] for chunk in column.chunks])
        codes = pc.fill_null(pc.index_in(column, value_set=self.texts, skip_nulls=True), -1)
        return np.asarray(codes.to_numpy()).astype(np.int64)


@dataclass(frozen=True)
class Paths:
    """Trajectories as they come from the database: fixes of path i are ``[offset[i], offset[i + 1])``."""

    trajectory_id: NDArray[np.int64]
    subject: pa.ChunkedArray
    offset: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    t: NDArray[np.float64]  # or those of one path, if all have the same


def read_days(snapshot: Snapshot, dataset_id: int) -> NDArray[np.int64] | None:
    """Read the day of each trajectory of a dataset, by id, in days since 1970; None where it has none."""
    query = f"""SELECT day - date '1970-01-01' AS day FROM dbanon.subject_day
        WHERE dataset_id = {int(dataset_id)}
        AND (SELECT d.day_zone IS NOT NULL FROM ONLY dbanon.dataset d WHERE d.dataset_id = {int(dataset_id)})
        ORDER BY trajectory_id"""
    days = read_table(snapshot, query)["day"]
    return convert_to_numbers(days).astype(np.int64) if len(days) else None


def read_paths(snapshot: Snapshot, dataset_id: int) -> Paths:
    """Read the trajectories of a dataset, sorted by id.

    The server puts the bytes of hundreds of trajectories together, so that neither side does anything for each alone.
    WKB with M is a header of 5 (point) or 9 (line) bytes and 24 bytes a fix: without headers, all are one array.
    """
    # A table just loaded has no statistics, and the planner would sort gigabytes that the index has in order. What is
    # near in the index is near in the table, which the planner does not know: it would read all datasets.
    snapshot.connection.execute("SET LOCAL enable_sort = off; SET LOCAL random_page_cost = 1")
    own = f"FROM ONLY dbanon.trajectory WHERE dataset_id = {int(dataset_id)}"
    first, last = _read_stretches(snapshot, own)
    query = f"""SELECT piece.*
        FROM unnest({format_array(first)}, {format_array(last)}) AS cut (first, last)
        CROSS JOIN LATERAL (
            SELECT string_agg(int8send(trajectory_id), ''), string_agg(int4send(octet_length(subject)), ''),
                string_agg(subject, ''), string_agg(int4send(length(wkb)), ''),
                string_agg(substr(wkb, 1 + length(wkb) % {_FIX_BYTES}), '')
            FROM (SELECT trajectory_id, subject, {snapshot.postgis}.ST_AsBinary(path, 'NDR') AS wkb
                  {own} AND trajectory_id BETWEEN cut.first AND cut.last
                  ORDER BY trajectory_id OFFSET 0) s) piece"""
    ids, subjects, counts = [np.empty(0, np.int64)], [], [np.zeros(1, np.int64)]
    places, times = _Columns(2), _Times(1)
    for trajectory_id, letters, names, length, wkb in read_rows_of_bytes(snapshot, query):
        size = length.view(">i4").astype(np.int64)
        if not np.isin(size % _FIX_BYTES, _WKB_HEADER_BYTES).all():
            raise DataError("Every path must be a LINESTRING M or POINT M. Got another. Load the dataset again.")
        fixes = wkb.view("<f8").reshape(-1, 3)
        places.append(fixes[:, :2])
        counts.append(size // _FIX_BYTES)
        times.append_paths(fixes[:, 2:], counts[-1])
        ids.append(trajectory_id.view(">i8").astype(np.int64))
        subjects.append(decode_texts(letters.view(">i4"), names))
    snapshot.connection.execute("SET LOCAL enable_sort = DEFAULT; SET LOCAL random_page_cost = DEFAULT")
    x, y = places.finish()
    return Paths(
        trajectory_id=np.concatenate(ids),
        subject=pa.chunked_array(subjects, pa.string()),
        offset=np.cumsum(np.concatenate(counts)),
        x=x,
        y=y,
        t=times.finish()[0],
    )


def _read_stretches(snapshot: Snapshot, own: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut the ids of trajectories into stretches, ascending, whose paths the server can put together."""
    weights = f"SELECT trajectory_id >> {_BLOCK_BITS} AS no, sum(pg_column_size(path)) AS weight {own} GROUP BY 1"
    table = read_table(snapshot, weights)
    no, heavy = convert_to_numbers(table["no"]), convert_to_numbers(table["weight"]) > _MAX_BLOCK_BYTES
    alone = f"SELECT trajectory_id AS id {own} AND trajectory_id >> {_BLOCK_BITS} = ANY({format_array(no[heavy])})"
    single = convert_to_numbers(read_table(snapshot, alone)["id"]) if heavy.any() else no[:0]
    blocks = no[~heavy] << _BLOCK_BITS
    first, last = np.append(blocks, single), np.append(blocks + (1 << _BLOCK_BITS) - 1, single)
    order = np.argsort(first)
    return first[order], last[order]


def format_array(values: NDArray[np.int64]) -> str:
    """Write whole numbers as an array of SQL's."""
    return f"'{{{','.join(map(str, values.tolist()))}}}'::bigint[]"


def read_rows_of_bytes(snapshot: Snapshot, query: str) -> Iterator[list[NDArray[np.uint8]]]:
    """Fetch rows of long values, bytes or texts without NULL, one at a time; nothing of a row is copied."""
    statement = make_sql(f"COPY ({query}) TO STDOUT (FORMAT binary)")
    with snapshot.connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row, _ in _read_pieces(copy, 1):
            values, at = [], 2
            while at < len(row):
                size = int.from_bytes(row[at : at + 4])
                values.append(np.frombuffer(row, np.uint8, size, at + 4))
                at += 4 + size
            if values:
                yield values


def decode_texts(size: NDArray[np.signedinteger[Any]], data: NDArray[np.uint8]) -> pa.StringArray:
    """Make texts of their sizes, -1 for null, and their bytes, one behind the other."""
    null = size < 0
    offset = np.append(0, np.cumsum(np.where(null, 0, size))).astype(np.int32)
    valid = pa.array(~null).buffers()[1]
    return pa.Array.from_buffers(pa.string(), len(size), [valid, pa.py_buffer(offset), pa.py_buffer(data.tobytes())])


class _Columns:
    """The columns of an array ``(n, width)`` that comes in pieces."""

    def __init__(self, width: int) -> None:
        self._columns = [np.empty(0) for _ in range(width)]
        self._used = 0

    def append(self, rows: NDArray[np.float64]) -> None:
        """Split rows into the columns."""
        begin, self._used = self._used, self._used + len(rows)
        if self._used > len(self._columns[0]):
            self._resize(max(self._used, begin + min(begin, _MAX_GROWTH_NUMBERS)))
        for i, column in enumerate(self._columns):
            column[begin : self._used] = rows[:, i]

    def finish(self) -> list[NDArray[np.float64]]:
        """What was written."""
        self._resize(self._used)
        return self._columns

    def _resize(self, length: int) -> None:
        """Make the columns longer or shorter where they are: nothing else refers to them."""
        for column in self._columns:
            column.resize(length, refcheck=False)


class _Times(_Columns):
    """The times of paths: those of one, as long as all have the same."""

    _paths = 0  # that have the same; -1 once one has others

    def append_paths(self, t: NDArray[np.float64], length: NDArray[np.int64]) -> None:
        """Add the times of some paths, one path after the other; `length`: how many there are of each."""
        if self._paths == 0:
            self.append(t[: length[0]])
        if self._paths >= 0:
            own = self._columns[0][: self._used]
            if (length == len(own)).all() and (t.reshape(-1, len(own)) == own).all():
                self._paths += len(length)
                return
            own, self._used, self._paths = own.copy(), len(own) * self._paths, -1
            self._resize(self._used)
            self._columns[0].reshape(-1, len(own))[:] = own
        self.append(t)
