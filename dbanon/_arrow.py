"""Query results as NumPy arrays: Arrow over COPY (ADBC), without a Python object per row.

Whatever is read through one cursor comes from one snapshot of the database.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from adbc_driver_manager import AdbcStatusCode, OperationalError
from adbc_driver_postgresql import dbapi
from numpy.typing import NDArray

from dbanon._background import in_background
from dbanon.errors import DataError

POSTGIS_PATH = """SELECT pg_catalog.set_config('search_path',
    'pg_catalog, ' || (SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e
     JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgis') || ', pg_temp', true)"""
"""Makes PostGIS's functions visible wherever it lives, and nobody else's, until the transaction ends."""

_FIX = 24  # bytes of one point of WKB with M: x, y, m
_SMALL_BATCHES = {"adbc.postgresql.batch_size_hint_bytes": 1 << 22}  # stay in the cache and in memory used before
_ROOM = 1 << 22  # fixes to begin with
_PATIENCE_S = 3.0  # with a server that was told to cancel


class Cursor:
    """A cursor of the driver that is used in other threads only; `idle` tells whether none uses it.

    Waiting in the main thread, the driver takes SIGINT for itself: Ctrl-C becomes an error, or is lost, or worse.
    """

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self._doing: Future[Any] | None = None

    def execute(self, query: str) -> None:
        """Run a query."""
        self._wait(self._cursor.execute, query)

    def fetch_arrow_table(self) -> pa.Table:
        """Fetch all of the result."""
        return self._wait(self._cursor.fetch_arrow_table)

    def fetch_record_batch(self) -> Any:
        """Open a reader of the result; waiting for its batches is up to the caller."""
        return self._wait(self._cursor.fetch_record_batch)

    def adbc_cancel(self) -> None:
        """End what is being done."""
        with suppress(Exception):  # the server may be gone
            self._cursor.adbc_cancel()

    @property
    def idle(self) -> bool:
        return self._doing is None or self._doing.done()

    def _wait(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._doing = in_background(call, *arguments)
        try:
            return self._doing.result()
        finally:
            if not self.idle:  # interrupted
                self.adbc_cancel()
                wait([self._doing], timeout=_PATIENCE_S)


@contextmanager
def snapshot(url: str) -> Iterator[Cursor]:
    """Open a cursor whose queries all see one state of the database, and can change nothing."""
    connection = in_background(dbapi.connect, url).result()
    own = connection.cursor(adbc_stmt_kwargs=_SMALL_BATCHES)
    cursor = Cursor(own)
    try:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL application_name = 'dbanon'")
        for patience in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SET LOCAL {patience} = 0")
        table(cursor, POSTGIS_PATH)
        yield cursor
    finally:
        if cursor.idle:  # else it is closed with the process: not under a thread that waits in it
            own.close()
            connection.close()


def table(cursor: Cursor, query: str) -> pa.Table:
    """Run a query without parameters (bound ones would keep ADBC from using COPY) and fetch all of it."""
    cursor.execute(query)
    return cursor.fetch_arrow_table()


def numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers or booleans without nulls as an array of its own type."""
    return np.asarray(column.to_numpy())


@dataclass(frozen=True)
class TextCodes:
    """The distinct texts of a column in the order of their UTF-8 bytes; a text's code is its place there.

    So codes depend on the texts alone, whichever query they came from.
    """

    texts: pa.Array

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> "TextCodes":
        """Number the distinct texts of a column."""
        distinct = pc.unique(column)
        return cls(distinct.take(pc.sort_indices(distinct)))

    @classmethod
    def encoding(cls, column: pa.ChunkedArray) -> tuple["TextCodes", NDArray[np.int64]]:
        """Number the distinct texts of a column without nulls, and encode it, in one go."""
        code = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64) - 1
        first = np.empty(code.max(initial=-1) + 1, np.int64)
        first[code] = np.arange(len(code))
        return cls(pa.array(column.take(pa.array(first)), column.type)), code

    def encode(self, column: pa.ChunkedArray) -> NDArray[np.int64]:
        """Codes of a column's texts; -1 for null and for texts that are not among them."""
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
    t: NDArray[np.float64]


def paths(cursor: Cursor, dataset_id: int) -> Paths:
    """Read all trajectories of a dataset, sorted by id; fetching the next batch overlaps with splitting the last.

    WKB with M is a header of 5 (point) or 9 (line) bytes and 24 bytes a fix, so the server cuts off what 24 leaves over
    and the bytes of a whole batch are one array of doubles.
    """
    # A table just loaded has no statistics, and the planner would sort gigabytes that the index has in order.
    cursor.execute("SET LOCAL enable_sort = off")
    cursor.execute(
        f"""SELECT trajectory_id, subject, substr(wkb, 1 + length(wkb) % {_FIX}) AS fixes
        FROM (SELECT trajectory_id, subject, ST_AsBinary(path, 'NDR') AS wkb FROM ONLY dbanon.trajectory
              WHERE dataset_id = {int(dataset_id)} ORDER BY trajectory_id OFFSET 0) s"""
    )
    ids, subjects, counts = [np.empty(0, np.int64)], [], [np.zeros(1, np.int64)]
    fixes = _Columns()
    with closing(_ahead(cursor.fetch_record_batch(), cursor.adbc_cancel)) as batches:
        for batch in batches:
            count, packed = _fixes(batch.column("fixes"))
            fixes.append(packed)
            counts.append(count)
            # Copies: what came through Arrow's C interface is freed only when no column of the batch is held any more.
            ids.append(batch.column("trajectory_id").to_numpy().copy())
            subjects.append(batch.column("subject").take(pa.array(np.arange(len(batch)))))
    cursor.execute("SET LOCAL enable_sort = DEFAULT")
    x, y, t = fixes.whole()
    return Paths(
        trajectory_id=np.concatenate(ids),
        subject=pa.chunked_array(subjects, pa.string()),
        offset=np.cumsum(np.concatenate(counts)),
        x=x,
        y=y,
        t=t,
    )


def _ahead(reader: Any, cancel: Callable[[], None]) -> Generator[pa.RecordBatch]:
    """Give a reader's batches; while the caller works on one, a thread waits for the next.

    Closed early, it cancels the query and lets the thread see that: a connection must not be closed under a reader.
    """
    reading, over = threading.Lock(), threading.Event()

    def read() -> pa.RecordBatch | None:
        with reading, _ends_translated():
            return None if over.is_set() else next(reader, None)

    try:
        coming = in_background(read)
        while (batch := coming.result()) is not None:
            coming = in_background(read)
            yield batch
    finally:
        over.set()
        if reading.locked():
            cancel()
        if reading.acquire(timeout=_PATIENCE_S):
            reading.release()


@contextmanager
def _ends_translated() -> Iterator[None]:
    """Let what ends a stream of batches leave as the driver's error: Arrow makes an `OSError` without state."""
    try:
        yield
    except OSError as error:
        state = "57014" if "canceling statement" in str(error) else "08006"
        raise OperationalError(str(error), status_code=AdbcStatusCode.IO, sqlstate=state) from error


def _fixes(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cut a batch of paths into the number of fixes of each and all their (x, y, m)."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    size = np.diff(ends)
    if column.null_count or (size % _FIX).any() or (size == 0).any():
        raise DataError("Every path must be a LINESTRING M or POINT M. Got another; load the dataset again.")
    doubles = np.frombuffer(data or b"", "<f8", int(size.sum()) // 8, int(ends[0]))
    return size // _FIX, doubles.reshape(-1, 3)


class _Columns:
    """The columns of an ``(n, 3)`` array that comes in pieces.

    Room is taken ahead, by a factor of four: it costs memory only where something is written, and what is there is
    moved column by column, so that no more than a third of the data is ever held twice.
    """

    def __init__(self) -> None:
        self._columns = [np.empty(_ROOM) for _ in range(3)]
        self._used = 0

    def append(self, rows: NDArray[np.float64]) -> None:
        """Split rows into the columns."""
        begin, self._used = self._used, self._used + len(rows)
        if self._used > len(self._columns[0]):
            room = max(4 * len(self._columns[0]), self._used)
            for i in range(3):
                self._columns[i] = _moved(self._columns[i][:begin], room)
        for i, column in enumerate(self._columns):
            column[begin : self._used] = rows[:, i]

    def whole(self) -> list[NDArray[np.float64]]:
        """What was written."""
        return [column[: self._used] for column in self._columns]


def _moved(column: NDArray[np.float64], room: int) -> NDArray[np.float64]:
    larger = np.empty(room)
    larger[: len(column)] = column
    return larger
