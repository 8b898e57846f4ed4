"""Columns of Parquet files in slices of bounded size, whatever the file makes of few bytes.

A page says in its header how large it is unpacked. All headers are read first: they bound the memory that reading
takes, and a file that would take too much is refused before a page is unpacked. A text that many rows have in common is
kept once.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dbanon.base.errors import DataError
from dbanon.load.formats import arrow

MAX_UNPACKED_BYTES = 10**9
MAX_EXPANSION_RATIO = 1000

_HEADER_BYTES = (1024, 16 * 1024**2)  # most headers are short; Arrow reads none that is longer
_UNSHARED_ENCODINGS = {
    0,
    2,
    8,
}  # encodings of values: one by one, or of a dictionary; others share the beginnings of texts
_TEXT_COPIES, _DICTIONARY_COPIES = 4, 6  # how often what is unpacked is in memory at once, measured


@dataclass
class _Column:
    """What the headers of the pages of a column say: sizes in bytes; encodings of values."""

    name: str
    is_text: bool
    width: float
    page: int = 0
    dictionary: int = 0
    encodings: set[int] = field(default_factory=set)

    def note_page(self, header: dict[int, Any]) -> int:
        """Take note of a page; returns how many values it has."""
        # PageHeader of parquet.thrift: 1 kind (2: dictionary), 2, 3 bytes unpacked, packed, 5 and 8 data page (v2).
        size = header[2]
        if header[1] == 2:
            self.dictionary = max(self.dictionary, size)
            return 0
        # Those of the second version name their encoding after the counts of nulls and rows.
        counts, encoding = (header[8], 4) if 8 in header else (header[5], 2)
        self.encodings.add(counts[encoding])
        self.page = max(self.page, size)
        self.width = max(self.width, size / max(counts[1], 1))
        return int(counts[1])

    @property
    def is_shared(self) -> bool:
        """Whether Arrow can keep each text once."""
        return self.is_text and self.encodings <= _UNSHARED_ENCODINGS

    @property
    def row_bytes(self) -> float:
        """Bytes of a row, unless some are much longer than others."""
        if self.is_text and not self.is_shared:  # a text may be in the file once and have many rows
            return max(self.page, self.dictionary) / 3
        return self.width

    @property
    def needed(self) -> int:
        """Bytes that reading takes at most."""
        return self.page * (_TEXT_COPIES if self.is_text else 1) + self.dictionary * _DICTIONARY_COPIES


def survey_columns(
    path: Path, file: pq.ParquetFile, names: Sequence[str], geometry: str | None
) -> Iterator[tuple[list[pa.Array], int]]:
    """Read the named columns: texts, each once where Arrow can (as dictionaries), numbers, times and a geometry.

    Yields rows as `arrow.select_columns` cuts them, and the number of the last.
    """
    columns = _survey_file(path, file, names, geometry)
    needed = sum(column.needed for column in columns)
    if needed > MAX_UNPACKED_BYTES:
        raise DataError(
            f"Reading a file must take at most {MAX_UNPACKED_BYTES // 10**6:,} MB of memory. {path.name} would take "
            f"some {needed // 10**6:,} MB, since its pages are large when unpacked. Write it with smaller ones."
        )
    # The headers bound a page, but do not say how often a shared text is repeated: that is counted below.
    rows = int(arrow.SLICE_BYTES / max(sum(column.row_bytes for column in columns), 1))
    shared = [column.name for column in columns if column.is_shared and column.name != geometry]
    packed, unpacked, done = path.stat().st_size, 0, 0

    def count(size: int) -> None:
        nonlocal unpacked
        unpacked += size
        if unpacked > max(MAX_UNPACKED_BYTES, MAX_EXPANSION_RATIO * packed):
            raise DataError(
                f"A file must unpack to at most {MAX_EXPANSION_RATIO:,} times its size. The texts of {path.name} are "
                f"larger. Check its content."
            )

    with pq.ParquetFile(path, metadata=file.metadata, read_dictionary=shared) as reader:
        batches = reader.iter_batches(min(max(rows, 1), arrow.ROWS_PER_SLICE), columns=list(names))
        for read in arrow.select_columns(path.name, batches, names, geometry=geometry, check=count):
            done += len(read[0])
            yield read, done


def _survey_file(path: Path, file: pq.ParquetFile, names: Sequence[str], geometry: str | None) -> list[_Column]:
    """Survey what each column is stored as: itself, or for a geometry perhaps a column for each axis."""
    leaves: list[int] = []
    for name in names:
        if name != geometry:
            arrow.demand_flat(path.name, name, file.schema_arrow.field(name).type)
        paths = [file.schema.column(i).path for i in range(len(file.schema))]
        axes = [i for i, at in enumerate(paths) if name == geometry and at.startswith(f"{name}.")]
        leaves += axes or [paths.index(name)]
    with path.open("rb") as raw:
        groups = _read_row_groups(raw)
        return [_survey(file.schema.column(leaf), leaf, raw, groups) for leaf in leaves]


def _survey(leaf: Any, number: int, raw: io.BufferedReader, groups: Sequence[dict[int, Any]]) -> _Column:
    column = _Column(leaf.path, leaf.physical_type == "BYTE_ARRAY", max(leaf.length, 8))
    with _translate_errors():
        for group in groups:
            # RowGroup 1: chunks; ColumnChunk 3: meta data, of which 5 counts values, 9 and 11 say where pages begin.
            chunk = group[1][number][3]
            at, values = chunk[9], 0
            if 0 < chunk.get(11, 0) < at:
                at = chunk[11]
            # From page to page by what each header says of its packed size, until all values are accounted for.
            while values < chunk[5]:
                header, length = _read_header(raw, at)
                values += column.note_page(header)
                at += length + header[3]
    return column


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn what is no Thrift, or lacks a field, into Arrow's error of a broken file."""
    try:
        yield
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise pa.ArrowInvalid("the file has no such headers") from error


def _read_row_groups(raw: io.BufferedReader) -> list[dict[int, Any]]:
    """Read what the file's footer says of its row groups; asked for a column of one, Arrow may abort the process."""
    with _translate_errors():
        # The file ends with the footer, its length in 32 bits, and PAR1; field 4 of the footer lists row groups.
        raw.seek(-8, io.SEEK_END)
        length = int.from_bytes(raw.read(4), "little")
        raw.seek(-8 - length, io.SEEK_END)
        return list(_read_fields(raw.read(length), 0)[0][4])


def _read_header(raw: io.BufferedReader, at: int) -> tuple[dict[int, Any], int]:
    """Read the header of a page: its fields by number, and its length."""
    for most in _HEADER_BYTES:
        raw.seek(at)
        with suppress(IndexError):
            header, length = _read_fields(raw.read(most), 0)
            if header[2] < 0 or header[3] < 0:
                raise ValueError
            return header, length
    raise ValueError


def _read_fields(data: bytes, at: int, depth: int = 10) -> tuple[dict[int, Any], int]:
    """Read a structure of Thrift's compact protocol: fields by number, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    # A field begins with a byte: step of its number (0: the number follows) and kind; the byte 0 ends the structure.
    # Reading beyond the data raises IndexError, which says that more is needed, or that the file is broken.
    while data[at]:
        step, kind = divmod(data[at], 16)
        at += 1
        if step:
            number += step
        else:
            number, at = _read_integer(data, at)
        fields[number], at = (None, at) if kind in (1, 2) else _read_value(data, at, kind, depth)
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Read an integer, a structure or a list; texts, fractions and truth values are None."""
    if not depth:
        raise ValueError
    if kind in (1, 2, 3):
        return None, at + 1
    if kind in (4, 5, 6):
        return _read_integer(data, at)
    if kind == 7:
        return None, at + 8
    if kind == 8:
        length, at = _read_varint(data, at)
        return None, at + length
    if kind == 9:
        count, each = divmod(data[at], 16)
        count, at = _read_varint(data, at + 1) if count == 15 else (count, at + 1)
        items = []
        for _ in range(count):
            item, at = _read_value(data, at, each, depth - 1)
            data[at - 1]  # what ends beyond the data would make a list without end
            items.append(item)
        return items, at
    if kind == 12:
        return _read_fields(data, at, depth - 1)
    raise ValueError


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        # Seven bits a byte, the lowest first; the top bit says that another follows.
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if shift > 63:
            raise ValueError
    return value | data[at] << shift, at + 1


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    # Zigzag: 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
    return value >> 1 ^ -(value & 1), at
