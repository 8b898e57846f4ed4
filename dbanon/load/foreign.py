"""Reads the output of another program from CSV or Parquet, to compare it with runs: points or rectangles with times.

None of it is stored. A file with one row that cannot be used is refused, since measuring the other rows would flatter
it. Errors give counts, and never a cell.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyproj

from dbanon.base.errors import DataError, format_count
from dbanon.base.figures import Movements, Rectangles
from dbanon.base.trajectory import Bool, Float, Int
from dbanon.load import _files, _names, _parse, _staging

Box = tuple[float, float, float, float]

_KNOWN_NAMES = {
    "id": "id,track,track_id,trajectory,trajectory_id,traj_id,user,user_id,uid,person,subject,record,record_id,tid",
    "time": "time,t,timestamp,datetime,at,ts,unix",
    "x": "x,easting",
    "y": "y,northing",
    "lon": "lon,lng,long,longitude",
    "lat": "lat,latitude",
    "since": "since,from,start,begin,valid_from",
    "until": "until,to,end,valid_to",
    "xmin": "xmin,x_min,minx,min_x",
    "ymin": "ymin,y_min,miny,min_y",
    "xmax": "xmax,x_max,maxx,max_x",
    "ymax": "ymax,y_max,maxy,max_y",
    "subjects": "people,subjects,count",
}
"""Meanings of columns, and the names by which they are found, in upper or lower case."""

_CORNER_COLUMNS = ("xmin", "ymin", "xmax", "ymax")
_COLUMN_OPTION = "--column {0}=NAME"


def read(
    path: Path, *, srid: int, extent: Box, columns: Mapping[str, str] | None = None, tz: str | None = None
) -> Movements | Rectangles:
    """Read rectangles of a file that has columns of corners, and points of any other.

    Parameters
    ----------
    srid : int
        The system of the dataset: x and y are in it, and lon and lat are projected to it.
    extent : tuple of float
        The least rectangle that holds the data. A file with no row inside it is of another place, or its axes are
        swapped.
    columns : mapping, optional
        Names of columns by their meaning (id, time, x, y, lon, lat; since, until, xmin, ymin, xmax, ymax, subjects), if
        they are not named so.
    tz : str, optional
        Zone of times that name none.

    Raises
    ------
    DataError
        If the file cannot be read, has no times, or has a row that cannot be used.
    ParameterError
        If times need a zone.
    """
    _parse.demand_zone(tz)
    found = _find_columns(path, columns or {})
    if any(corner in found for corner in _CORNER_COLUMNS):
        return _read_rectangles(path, found, extent, tz)
    return _read_points(path, found, srid, extent, tz)


def _read_points(path: Path, found: dict[str, str], srid: int, extent: Box, tz: str | None) -> Movements:
    axes = ("lon", "lat") if "x" not in found and ("lon" in found or "lat" in found) else ("x", "y")
    track, cells = _read_cells(path, found, ("id", "time", *axes), tz)
    x, y = (cells[axis] for axis in axes)
    if axes == ("lon", "lat"):
        _demand(path, (np.abs(x) <= 180) & (np.abs(y) <= 90), "lon within 180 and lat within 90", "They may be swapped")
        x, y = pyproj.Transformer.from_crs(4326, srid, always_xy=True).transform(x, y)
        _demand(
            path, np.isfinite(x) & np.isfinite(y), "a place that the dataset's system can hold", "check lon and lat"
        )
    _demand_overlap(path, np.column_stack([x, y, x, y]), extent, axes)
    order = np.lexsort((cells["time"], track))
    track = track[order]
    return Movements(
        person=track, track=track, t=cells["time"][order], x=x[order], y=y[order], weight=np.ones(len(track))
    )


def _read_rectangles(path: Path, found: dict[str, str], extent: Box, tz: str | None) -> Rectangles:
    wanted = ("id", "since", "until", *_CORNER_COLUMNS) + ("subjects",) * ("subjects" in found)
    record, cells = _read_cells(path, found, wanted, tz)
    since, until, bounds = (
        cells["since"],
        cells["until"],
        np.column_stack([cells[corner] for corner in _CORNER_COLUMNS]),
    )
    subjects = cells.get("subjects", np.ones(len(record)))
    _demand(path, until >= since, "until at or after since", "Check which is which")
    ordered = (bounds[:, 0] <= bounds[:, 2]) & (bounds[:, 1] <= bounds[:, 3])
    _demand(path, ordered, "xmin <= xmax and ymin <= ymax", "Check which is which")
    _demand(path, (subjects >= 1) & (subjects % 1 == 0), "a whole number of 'subjects', at least 1", "Correct it")
    _demand_overlap(path, bounds, extent, ("x", "y"))
    order = np.lexsort((since, record))
    return Rectangles(
        record=record[order], since=since[order], until=until[order], bounds=bounds[order],
        subjects=subjects[order].astype(np.int64),
    )  # fmt: skip


def _find_columns(path: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Find the column of each meaning: the given one, or one with a known name."""
    unknown = sorted(given.keys() - _KNOWN_NAMES.keys())
    if unknown:
        raise DataError(
            f"A column must be named as one of {', '.join(_KNOWN_NAMES)}. Got '{unknown[0]}'. Correct --column."
        )
    names = _files.read_header(path)
    _names.demand_columns(path.name, names, list(given.values()), "--column")
    lower = {name.strip().lower(): name for name in reversed(names)}
    known = {mean: next((lower[a] for a in also.split(",") if a in lower), None) for mean, also in _KNOWN_NAMES.items()}
    return {mean: name for mean, name in known.items() if name is not None} | dict(given)


def _read_cells(
    path: Path, found: dict[str, str], wanted: tuple[str, ...], tz: str | None
) -> tuple[Int, dict[str, Float]]:
    """Read the codes of ids, and the other wanted columns as finite numbers."""
    for mean in wanted:
        if mean not in found:
            _names.demand_columns(path.name, _files.read_header(path), [mean], _COLUMN_OPTION.format(mean))
    times = {mean: _parse.Times(tz, bounded=False) for mean in ("time", "since", "until")}
    parts: dict[str, list[pa.Array]] = {mean: [] for mean in wanted}
    for batch in _files.read_batches(path, [found[mean] for mean in wanted], options="--column"):
        for mean in wanted:
            cell = batch.columns[found[mean]]
            read = (
                _parse.parse_texts
                if mean == "id"
                else times[mean].convert_to_unix_s
                if mean in times
                else _parse.parse_numbers
            )
            parts[mean].append(read(cell))
    whole = {mean: pa.chunked_array(own).combine_chunks() for mean, own in parts.items()}
    ids = whole.pop("id")
    _demand(path, ~_staging.is_null(ids), "an id", "Fill it in")
    numbers = {mean: _staging.convert_to_floats(column) for mean, column in whole.items()}
    for mean, values in numbers.items():
        _demand(path, np.isfinite(values), f"a finite number or time as its {mean}", "Correct or remove it")
    codes = pc.dictionary_encode(ids).indices.to_numpy().astype(np.int64)
    return cast("Int", codes), numbers


def _demand(path: Path, good: Bool, held: str, remedy: str) -> None:
    bad = int((~good).sum())
    if bad:
        raise DataError(f"Every row of {path.name} must have {held}. Got {format_count(bad, 'row')} without. {remedy}.")


def _demand_overlap(path: Path, bounds: Float, extent: Box, axes: tuple[str, str]) -> None:
    """Refuse a file with no row in the area of the data; the error says if its axes are swapped."""

    def meets(places: Float) -> bool:
        low, high = places[:, :2] <= extent[2:], places[:, 2:] >= extent[:2]
        return bool((low & high).all(axis=1).any())

    if not meets(bounds):
        swapped = axes == ("x", "y") and meets(bounds[:, [1, 0, 3, 2]])
        remedy = "Name x and y the other way round, since they are swapped" if swapped else "Check its reference system"
        raise DataError(f"{path.name} must have rows where the dataset has data. Got none there. {remedy}.")
