"""Columns that hold positions: which of a schema do, and points of them; no Python object is made for a row of bytes.

GeoArrow says by the name of an extension that a column is one of geometries, GeoParquet in the file's metadata. Either
may name the reference system. Texts are WKT, EWKT, GeoJSON, or WKB or EWKB in hexadecimal digits. Here a geometry is
WKB, whatever the column had.
"""

import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from dbanon.base.errors import DataError, ParameterError
from dbanon.load import _crs

_NAME, _ABOUT = b"ARROW:extension:name", b"ARROW:extension:metadata"
_POINT_BYTES = 21  # of WKB: order of bytes, kind, x and y
_POINT, _SRID = 1, 0x20000000
_MAX_KIND = 17  # a triangle
_FLAG_BITS = 0xE0000000  # of EWKB: z, m and SRID; ISO says z and m by thousands
_HEX = r"^(?:\\x|0x)?((?:[0-9A-Fa-f]{2}){5,})$"
_WORDS = r"(?is)^(?:SRID=(?P<srid>[0-9]{1,6});)?\s*(?P<shape>.*)$"
_JSON_SYSTEM = r'"crs"\s*:.*?"name"\s*:\s*"(?:urn:(?:x-)?ogc:def:crs:)?EPSG::?(?P<srid>[0-9]{1,6})"'
# Shapely reads a curve only to fail on it later, inside a collection, or at once; thousands of collections, one in the
# other, end the process.
_UNREAD = "(?is)curve|circularstring|surface|geometrycollection.*geometrycollection"


@dataclass(frozen=True)
class Geometry:
    """A column of geometries, and the reference system as the source has it: a name, PROJJSON, or None."""

    name: str
    described: str | Mapping[str, Any] | None = None
    is_text: bool = False

    def choose_system(self, label: str, crs: str | None) -> str:
        """Choose the reference system as `_crs.choose_system`; refuse one without a number where it is needed."""
        own = None if self.described is None else _crs.find_epsg(label, self.described)
        if self.is_text and own is None and crs is None:  # as x and y of a table
            return _crs.DEGREES_CRS
        return _crs.choose_system(label, own, crs)


@dataclass(frozen=True)
class Geometries:
    """Columns that may be geometries, since they hold bytes, and which of them are said to be, the first one first."""

    columns: Mapping[str, Geometry]
    declared: Sequence[str] = ()
    primary: str | None = None

    def choose_column(self, label: str, name: str | None) -> Geometry | None:
        """Find the column of this name, or without a name the only or the primary one; None if there is none.

        Raises `ParameterError` if there are several and none is named.
        """
        if name is not None:
            return self.columns.get(name)
        if self.primary in self.declared:
            return self.columns[str(self.primary)]
        if len(self.declared) > 1:
            raise ParameterError(
                f"One column of {label} must be the position. It has several of geometries: "
                f"{', '.join(self.declared)}. Name one with --geom."
            )
        return self.columns[self.declared[0]] if self.declared else None


def find_geometries(schema: pa.Schema, primary: str | None = None) -> Geometries:
    """Find the columns of geometries of a frame or a file."""
    columns = {field.name: Geometry(field.name) for field in schema if _is_binary(field.type)}
    declared = {}
    for field in schema:
        about = _read_extension(field)
        if about is not None:
            declared[field.name] = Geometry(field.name, _find_crs(about))
    geo = _read_json((schema.metadata or {}).get(b"geo"))
    for name, about in geo.get("columns", {}).items():
        if name in schema.names and isinstance(about, dict):
            # GeoParquet: without the member WGS 84, null for none that is known.
            declared[name] = Geometry(name, about.get("crs", "OGC:CRS84"))
    return Geometries(columns | declared, tuple(declared), primary or geo.get("primary_column"))


def _read_extension(field: pa.Field) -> dict[str, Any] | None:
    """What GeoArrow says of a column of geometries; None for another column."""
    if isinstance(field.type, pa.ExtensionType):
        name, about = field.type.extension_name, field.type.__arrow_ext_serialize__()
    else:
        metadata = field.metadata or {}
        name, about = metadata.get(_NAME, b"").decode(), metadata.get(_ABOUT)
    return _read_json(about) if name.startswith(("geoarrow.", "ogc.wkb")) else None


def _read_json(text: bytes | None) -> dict[str, Any]:
    try:
        read = json.loads(text or b"{}")
    except ValueError:
        read = {}
    return read if isinstance(read, dict) else {}


def _find_crs(about: Mapping[str, Any]) -> str | Mapping[str, Any] | None:
    crs = about.get("crs")
    return f"EPSG:{crs}" if about.get("crs_type") == "srid" else crs


def convert_to_wkb(label: str, name: str, column: pa.Array) -> pa.Array:
    """Make WKB of geometries as GeoArrow may have them: WKB, or points whose axes are columns.

    Raises `DataError` for lines and areas whose axes are columns, and for texts.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if _is_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_struct(kind) and {"x", "y"} <= {kind.field(i).name for i in range(kind.num_fields)}:
        x, y = (pc.struct_field(column, axis) for axis in "xy")
    elif pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type):
        x, y = (pc.list_element(column, axis) for axis in (0, 1))
    else:
        raise DataError(
            f"Column '{name}' of {label} must hold points or WKB. It holds geometries of another encoding. Convert it."
        )
    missing = np.asarray(pc.or_(x.is_null(), y.is_null()).to_numpy(zero_copy_only=False))
    value = np.empty(len(column), [("order", "u1"), ("kind", "<u4"), ("x", "<f8"), ("y", "<f8")])
    value["order"], value["kind"] = 1, _POINT
    value["x"], value["y"] = (np.asarray(axis.to_numpy(zero_copy_only=False), np.float64) for axis in (x, y))
    offsets = np.arange(len(value) + 1, dtype=np.int32) * _POINT_BYTES
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(value)]
    whole = pa.Array.from_buffers(pa.binary(), len(value), buffers)
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.binary()), whole)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def read_shapes(column: pa.Array) -> tuple[pa.Array, frozenset[str]]:
    """Read a column of texts or WKB as WKB, null for what is none; and which systems its rows name, as EPSG:n."""
    wkb = column if _is_binary(column.type) else _read_texts(pc.utf8_trim_whitespace(column.cast(pa.string())))
    return wkb, frozenset(f"EPSG:{srid}" for srid in _list_srids(wkb) if srid)


def _read_texts(texts: pa.Array) -> pa.Array:
    wkb = pa.nulls(len(texts), pa.binary())
    packed = pc.fill_null(pc.match_substring_regex(texts, _HEX), False)
    wkb = pc.replace_with_mask(wkb, packed, _decode_hex(pc.replace_substring_regex(texts.filter(packed), _HEX, r"\1")))
    words = pc.and_(pc.invert(packed), pc.fill_null(pc.not_equal(texts, ""), False))
    words = pc.and_(words, pc.fill_null(pc.invert(pc.match_substring_regex(texts, _UNREAD)), False))
    json_text = pc.and_(words, pc.fill_null(pc.starts_with(texts, "{"), False))
    for which, system, read in (
        (json_text, _JSON_SYSTEM, shapely.from_geojson),
        (pc.and_not(words, json_text), _WORDS, shapely.from_wkt),
    ):
        chosen = texts.filter(which)
        matches = pc.extract_regex(chosen, system)
        srid = np.asarray(pc.fill_null(pc.struct_field(matches, "srid"), "").to_numpy(zero_copy_only=False), object)
        if read is shapely.from_wkt:
            chosen = pc.struct_field(matches, "shape")
        with np.errstate(all="ignore"):  # numbers beyond those of a double
            shapes = read(np.asarray(chosen.to_numpy(zero_copy_only=False), object), on_invalid="ignore")
        shapes = shapely.set_srid(shapes, np.where(srid == "", "0", srid).astype(np.int32))
        wkb = pc.replace_with_mask(wkb, which, encode_wkb(shapes, include_srid=True))
    return wkb


def encode_wkb(shapes: NDArray[np.object_], *, include_srid: bool = False) -> pa.Array:
    """Shapes as WKB in the plane; what is no number is made infinite, since NaN means empty."""
    srid, shapes = shapely.get_srid(shapes), shapely.force_2d(shapes)  # which forgets the system of an area
    if np.isnan(shapely.get_coordinates(shapes)).any():
        shapes = shapely.transform(shapes, lambda places: np.where(np.isnan(places), np.inf, places))
    return pa.array(shapely.to_wkb(shapely.set_srid(shapes, srid), include_srid=include_srid), pa.binary())


def read_points(wkb: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Read x and y of points in WKB or EWKB; null where there is no geometry, an empty one, or one that is no point."""
    head = _read_heads(wkb)
    at = head.at + 5 + np.where(head.kind & _SRID, 4, 0)
    known = (head.shape == _POINT) & (at + 16 <= head.end)
    row, at, little = head.row[known], at[known], head.little[known]
    axes = np.full((2, len(wkb)), np.nan)
    for axis, value in enumerate(axes):
        value[row] = _read_numbers(head.data, at + 8 * axis, "f8", little)
    there = np.zeros(len(wkb), np.bool_)
    there[row] = True
    there &= ~np.isnan(axes).all(axis=0)  # so an empty point is written
    return pa.array(axes[0], mask=~there), pa.array(axes[1], mask=~there)


def are_other_shapes(wkb: pa.Array) -> bool:
    """Whether there are geometries and all of them are lines, areas or collections."""
    head = _read_heads(wkb)
    other = (head.data[head.at] <= 1) & (head.shape > _POINT) & (head.shape <= _MAX_KIND)
    return bool(len(other)) and bool(other.all())


def _list_srids(wkb: pa.Array) -> set[int]:
    """List the numbers of reference systems that EWKB names."""
    head = _read_heads(wkb)
    named = (head.kind & _SRID > 0) & (head.at + 9 <= head.end)
    return set(np.unique(_read_numbers(head.data, head.at[named] + 5, "u4", head.little[named])).tolist())


def _decode_hex(text: pa.Array) -> pa.Array:
    """Read bytes that are written as hexadecimal digits, two a byte, in texts without a null."""
    _, offsets, values = text.buffers()
    at = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    read = binascii.unhexlify(memoryview(values or b"")[at[0] : at[-1]])
    return pa.Array.from_buffers(pa.binary(), len(text), [None, pa.py_buffer((at - at[0]) // 2), pa.py_buffer(read)])


class _Heads(NamedTuple):
    """The rows of a column of WKB that hold at least the head of a geometry, and what that says.

    `data` has the bytes of all; a row begins at `at` and stops before `end`. `kind` has the flags of EWKB, and `shape`
    neither these nor the thousands of ISO.
    """

    data: NDArray[np.uint8]
    row: NDArray[np.int64]
    at: NDArray[np.int64]
    end: NDArray[np.int64]
    little: NDArray[np.bool_]
    kind: NDArray[np.uint32]
    shape: NDArray[np.uint32]


def _read_heads(wkb: pa.Array) -> _Heads:
    _, offsets, values = wkb.buffers()
    data, at = np.frombuffer(values or b"", np.uint8), np.frombuffer(offsets, np.int32).astype(np.int64)
    at = at[wkb.offset : wkb.offset + len(wkb) + 1]
    row = np.flatnonzero((np.diff(at) >= 5) & np.asarray(wkb.is_valid().to_numpy(zero_copy_only=False)))
    little = data[at[row]] == 1
    kind = _read_numbers(data, at[row] + 1, "u4", little)
    return _Heads(data, row, at[row], at[row + 1], little, kind, (kind & ~np.uint32(_FLAG_BITS)) % 1000)


def _read_numbers(data: NDArray[np.uint8], at: NDArray[np.int64], kind: str, little: NDArray[np.bool_]) -> NDArray[Any]:
    """Read numbers that begin at these places, the last byte first where `little` is false."""
    numbers = (
        np.ascontiguousarray(data[at[:, None] + np.arange(np.dtype(kind).itemsize)]).view(f"<{kind}").reshape(len(at))
    )
    return np.where(little, numbers, numbers.byteswap())
