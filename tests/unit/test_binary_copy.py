import struct

import numpy as np
import pyarrow as pa
from shapely import wkb

from dbanon.postgres import binary_copy


def _parse_fields(stream, count):
    """Parse binary COPY rows one by one, the slow and plain way."""
    stream, position, parsed = bytes(stream), 0, []
    while position < len(stream):
        (columns,) = struct.unpack_from(">h", stream, position)
        assert columns == count
        position += 2
        row = []
        for _ in range(columns):
            (length,) = struct.unpack_from(">i", stream, position)
            position += 4
            row.append(None if length < 0 else stream[position : position + length])
            position += max(length, 0)
        parsed.append(row)
    return parsed


def test_fixed_columns_are_big_endian_with_their_width():
    stream = binary_copy.encode_rows([np.array([1, -2], np.int64), np.array([3, 4], np.int32), np.array([0.5, 1.5])])
    assert _parse_fields(stream, 3) == [
        [struct.pack(">q", 1), struct.pack(">i", 3), struct.pack(">d", 0.5)],
        [struct.pack(">q", -2), struct.pack(">i", 4), struct.pack(">d", 1.5)],
    ]


def test_texts_of_any_length_and_nulls_sit_between_fixed_columns():
    texts = pa.array(["a", None, "", "größer"])
    stream = binary_copy.encode_rows([np.arange(4, dtype=np.int16), texts, np.ones(4, bool), texts.slice(0)])
    rows = _parse_fields(stream, 4)
    assert [r[1] for r in rows] == [b"a", None, b"", "größer".encode()]
    assert [r[3] for r in rows] == [b"a", None, b"", "größer".encode()]
    assert {r[2] for r in rows} == {b"\x01"}


def test_a_slice_of_an_arrow_array_is_encoded_as_itself():
    stream = binary_copy.encode_rows([pa.array(["x", "yy", None, "zzz"]).slice(1, 3)])
    assert _parse_fields(stream, 1) == [[b"yy"], [None], [b"zzz"]]


def test_no_rows_are_an_empty_stream():
    assert bytes(binary_copy.encode_rows([np.empty(0, np.int64)])) == b""
    assert bytes(binary_copy.encode_rows([np.empty(0, np.int64), pa.array([], pa.string())])) == b""


def test_rectangles_are_closed_counter_clockwise_ewkb_polygons():
    (value,) = binary_copy.encode_rectangles(np.array([[1.0, 2.0, 3.0, 5.0]]), 32610)
    polygon = wkb.loads(value.tobytes())
    assert polygon.equals_exact(wkb.loads(wkb.dumps(polygon.envelope)), 0) or polygon.equals(polygon.envelope)
    assert polygon.bounds == (1.0, 2.0, 3.0, 5.0)
    assert polygon.exterior.is_ccw
    assert struct.unpack_from("<I", value.tobytes(), 5) == (32610,)


def test_periods_are_half_open_microseconds_since_2000():
    (value,) = binary_copy.encode_periods(np.array([946_684_800]), np.array([946_684_860]))
    assert struct.unpack(">Biqiq", value.tobytes()) == (0x02, 8, 0, 8, 60_000_000)


def test_jsonb_gets_its_version_byte_and_nulls_stay_null():
    assert binary_copy.encode_jsonb(pa.array(['{"a": 1}', None])).to_pylist() == [b'\x01{"a": 1}', None]


def test_decimal_seconds_keep_their_microseconds():
    assert binary_copy.encode_timestamps(np.array([1_212_562_884.123456])).tolist() == [
        (1_212_562_884 - 946_684_800) * 10**6 + 123456
    ]


def test_batches_cover_all_rows_once():
    assert [(s.start, s.stop) for s in binary_copy.split_into_batches(5, 2)] == [(0, 2), (2, 4), (4, 5)]
    assert list(binary_copy.split_into_batches(0)) == []
