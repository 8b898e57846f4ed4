"""MF-JSON, the JSON of moving features (OGC 19-045r3): each feature of a ``MovingPoint`` is fixes of one subject.

A file is one Feature or FeatureCollection, one a line, an array of features, or one MovingPoint. The columns are
``time``, ``x``, ``y`` and the properties of the features; ``id`` is a feature's own, or the property where it has none.
Arrow reads the text; no Python object is made for a fix.
"""

import itertools
import json
import mmap
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson
from numpy.typing import NDArray

from dbanon.base.errors import DataError
from dbanon.load import _crs
from dbanon.load.formats import arrow, tabular

MAX_FILE_BYTES = 512 * 1024**2
_FIX_COLUMNS = ("time", "x", "y")
_NUMBER = pa.decimal128(38, 9)


def has_motion(path: Path) -> bool:
    """Whether a file names what moves; False too where it cannot be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return max(text.find(b'"temporalGeometry"'), text.find(b'"MovingPoint"')) >= 0
    except (OSError, ValueError):
        return False


def read_batches(path: Path, names: Sequence[str], option_names: str) -> Iterator[tabular.Batch]:
    """Read the fixes of all features; `option_names` are those that name columns.

    Raises `DataError` if the file is broken, holds no MovingPoint or no such property, or names a reference system that
    is not known.
    """
    with tabular.translate_read_errors(path, "MF-JSON file"):
        features, systems = _read_features(path, [name for name in names if name not in _FIX_COLUMNS])
    moving = features["temporalGeometry"]
    points = pc.fill_null(pc.equal(pc.struct_field(moving, "type"), "MovingPoint"), False)
    if not pc.any(points).as_py():
        raise DataError(
            f"{path.name} must hold features with a MovingPoint as temporalGeometry (MF-JSON). It holds none. Write "
            f"each as a feature, with the person's name as a property."
        )
    features = features.filter(points)
    for name in names:
        if name not in _FIX_COLUMNS and features[name].null_count == len(features):
            own = "" if name == "id" else ", or 'id' for their own"
            raise DataError(
                f"Features of {path.name} must have a property '{name}'. None has it. Name the right one "
                f"({option_names}){own}."
            )
    read = _list_fixes(path, features, names)
    parts = (read.slice(start, arrow.ROWS_PER_SLICE) for start in range(0, len(read), arrow.ROWS_PER_SLICE))
    cut = ({name: part.column(name) for name in names} for part in parts)
    yield from tabular.number_rows(path.name, ((part, path.stat().st_size) for part in cut), "fixes", systems=systems)


def _read_features(path: Path, properties: Sequence[str]) -> tuple[pa.RecordBatch, frozenset[str]]:
    """Read the features of a file with these properties, those that have no moving point too, and their systems."""
    tabular.demand_file(path)
    if path.stat().st_size > MAX_FILE_BYTES:
        raise DataError(f"{path.name} must have at most {MAX_FILE_BYTES // 1024**2} MB. Got more. Split it.")
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    if b'"temporalGeometry"' not in text and b'"MovingPoint"' in text:
        text = _make_feature(path, text, properties)
    elif text.lstrip().startswith(b"["):
        text = b'{"features": ' + text + b"}"
    # An instant has its one time and place bare.
    text = re.sub(rb'"datetimes"\s*:\s*("[^"]*"|[0-9.eE+]+)', rb'"datetimes":[\1]', text)
    text = re.sub(rb'"coordinates"\s*:\s*(\[\s*[-+0-9][^\[\]]*\])', rb'"coordinates":[\1]', text)
    # A name or a time may be a number as well, and Arrow has to be told which: it stops at the first that is not.
    own = [name for name in properties if name == "id"]
    members = ["datetimes", *own, *(f"properties.{name}" for name in properties)]
    attempts = itertools.product((False, True), repeat=len(members))
    while True:
        numbers = {member for member, number in zip(members, next(attempts), strict=True) if number}
        try:
            return _flatten(path, _parse_json(text, properties, numbers), properties)
        except pa.ArrowInvalid:
            if len(numbers) == len(members):
                raise


def _make_feature(path: Path, text: bytes, properties: Sequence[str]) -> bytes:
    """Make a feature of a MovingPoint that stands alone, as asMFJSON writes it: its person is the file, as of GPX."""
    if text.count(b'"MovingPoint"') > 1 or text.lstrip()[:1] == b"[":
        raise DataError(
            f"{path.name} must say who each MovingPoint is. It has some that stand alone. Make each the "
            f"temporalGeometry of a feature with the person's name as a property, or write it to its own file."
        )
    other = next((name for name in properties if name != "subject"), None)
    if other is not None:
        raise DataError(
            f"{path.name} must have features for a column '{other}'. It is a MovingPoint alone, whose person is the "
            f"file's name. Leave out --subject and --trip."
        )
    return b'{"properties": %s, "temporalGeometry": %s}' % (json.dumps({"subject": path.stem}).encode(), text)


def _parse_json(text: bytes, properties: Sequence[str], numbers: set[str]) -> pa.RecordBatch:
    def choose_type(member: str) -> pa.DataType:
        return _NUMBER if member in numbers else pa.string()

    times = pa.list_(pa.float64() if "datetimes" in numbers else pa.string())
    crs = pa.struct({"properties": pa.struct({"name": pa.string()})})
    moving = {"type": pa.string(), "crs": crs}
    sequence = {"datetimes": times, "coordinates": pa.list_(pa.list_(pa.float64()))}
    moving |= {**sequence, "sequences": pa.list_(pa.struct(sequence))}
    feature = {"type": pa.string(), "crs": crs, "temporalGeometry": pa.struct(moving)}
    feature |= {name: choose_type(name) for name in properties if name == "id"}
    feature["properties"] = pa.struct({name: choose_type(f"properties.{name}") for name in properties})
    schema = pa.schema({**feature, "features": pa.list_(pa.struct(feature))})
    table = pajson.read_json(
        pa.BufferReader(text),
        pajson.ReadOptions(use_threads=False, block_size=len(text) + 1),
        pajson.ParseOptions(explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore"),
    )
    return table.combine_chunks().to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], schema)


def _flatten(path: Path, read: pa.RecordBatch, properties: Sequence[str]) -> tuple[pa.RecordBatch, frozenset[str]]:
    """Put the features of collections after those that stand alone, their properties beside them."""
    members = [name for name in ("id", "crs", "temporalGeometry", "properties") if name in read.schema.names]
    inner = pc.list_flatten(read["features"])
    alone = pa.StructArray.from_arrays([read[name] for name in members], members)
    grouped = pa.StructArray.from_arrays([pc.struct_field(inner, name) for name in members], members)
    whole = pa.concat_arrays([alone.filter(pc.is_valid(read["temporalGeometry"])), grouped])
    moving = pc.struct_field(whole, "temporalGeometry")
    systems = (read["crs"], pc.struct_field(whole, "crs"), pc.struct_field(moving, "crs"))
    named = {name for crs in systems for name in pc.unique(pc.struct_field(crs, [0, 0])).to_pylist() if name}
    meant = {name: _crs.find_in_name(name) for name in named}
    for name, crs in meant.items():
        _crs.demand_system(path.name, [name], crs or "")
    held = {name: _convert_to_text(pc.struct_field(whole, ["properties", name])) for name in properties}
    if "id" in held:
        held["id"] = pc.coalesce(_convert_to_text(pc.struct_field(whole, "id")), held["id"])
    flat = pa.RecordBatch.from_pydict({"temporalGeometry": moving, **held})
    return flat, frozenset(crs for crs in meant.values() if crs) or frozenset([_crs.DEGREES_CRS])


def _list_fixes(path: Path, features: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Take features apart into fixes."""
    moving = features["temporalGeometry"]
    pieces = pc.struct_field(moving, "sequences")  # which a set of them has instead of its own
    held = np.concatenate([np.arange(len(features)), np.asarray(pc.list_parent_indices(pieces))])
    times, places = (
        pa.concat_arrays([pc.struct_field(moving, name), pc.struct_field(pc.list_flatten(pieces), name)])
        for name in ("datetimes", "coordinates")
    )
    many, also = (pc.fill_null(pc.list_value_length(each), 0) for each in (times, places))
    uneven = pc.index(pc.not_equal(many, also), True).as_py()
    if uneven >= 0:
        raise DataError(
            f"Each MovingPoint of {path.name} must have as many datetimes as coordinates. Number {held[uneven] + 1} "
            f"does not. Correct it."
        )
    row = pa.array(np.repeat(held, np.asarray(many)))
    x, y = _split_axes(pc.list_flatten(places))
    columns: dict[str, Any] = {"time": pc.list_flatten(times), "x": x, "y": y}
    for name in names:
        if name not in _FIX_COLUMNS:
            columns[name] = features[name].take(row)
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=list(names))


def _convert_to_text(column: pa.Array) -> pa.Array:
    """Write numbers without zeros after the point, as the file has them."""
    if pa.types.is_string(column.type):
        return column
    return pc.replace_substring_regex(column.cast(pa.string()), r"\.?0+$", "")


def _split_axes(places: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Take x and y out of lists of coordinates; null where there are fewer than two."""
    length = np.asarray(pc.fill_null(pc.list_value_length(places), 0))
    value: NDArray[np.float64] = np.asarray(pc.list_flatten(places).to_numpy(zero_copy_only=False), np.float64)
    start = np.concatenate([[0], np.cumsum(length)[:-1]]).astype(np.int64) if len(length) else length
    there = length >= 2
    axes = []
    for axis in (0, 1):
        coordinate = np.full(len(length), np.nan)
        coordinate[there] = value[start[there] + axis]
        axes.append(pa.array(coordinate, mask=~there))
    return axes[0], axes[1]
