"""Tracks of one person a file: GPX, and PLT as GeoLife has it; or a folder of these, whatever else lies in it.

The columns are ``subject``, ``trip`` (a file, of GPX a segment of one), ``time``, ``x`` and ``y``. Names say who the
subject is: of a file in a folder ``Trajectory`` the folder around that, as in GeoLife; of another the first folder
below the one to load; of one that lies in no folder below it, the file.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dbanon.base.errors import DataError, format_count
from dbanon.load import _columns, _crs, _geometry
from dbanon.load.formats import arrow, gis, kinds, tabular

COLUMN_NAMES = ("subject", "trip", "time", "x", "y")
GPX_AT_ONCE, GPX_BYTES = 20, 64 * 1024**2
"""Files that GDAL reads in one process, which takes a second to start: so many, or until they have so many bytes."""

_PLT_HEADER_LINES = 6  # before the points
_PLT_COLUMNS = ("y", "x", "flag", "altitude", "days", "date", "clock")
_SUFFIXES = (".gpx", ".plt")
_GEOLIFE_FOLDER = "trajectory"


def are_tracks(path: Path) -> bool:
    """Whether a path is a folder, or a file that begins or is named as a track is."""
    try:
        head = kinds.read_head(path)
        return kinds.is_gpx(head) or kinds.is_plt(head) or path.suffix.lower() in _SUFFIXES or path.is_dir()
    except OSError:  # in a folder that may not be read
        return False


def read_batches(path: Path, names: Sequence[str], option_names: str) -> Iterator[tabular.Batch]:
    """Read the points of all files; `option_names` are those that name columns.

    Raises `DataError` for a file that is broken or has no times, a folder without one, and a column there is not.
    """
    _columns.demand_columns(path.name, COLUMN_NAMES, names, option_names)
    files = _find_files(path) if path.is_dir() else [path]
    parts = _choose_columns(_gather(_read(path, files)), names)
    yield from tabular.number_rows(path.name, parts, "points of tracks", systems=frozenset([_crs.DEGREES_CRS]))


def _choose_columns(
    parts: Iterator[tuple[pa.RecordBatch, int]], names: Sequence[str]
) -> Iterator[tuple[dict[str, pa.Array], int]]:
    done = 0
    for batch, size in parts:
        done += size
        yield {name: batch.column(name) for name in names}, done


def _gather(parts: Iterator[tuple[pa.Table, int]]) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Put the points of small files together, and cut large ones."""
    held: list[pa.Table] = []
    size = 0
    for part, read in parts:
        if held and part.schema != held[0].schema:  # PLT among GPX
            yield from _cut(held, size)
            held, size = [], 0
        held.append(part)
        size += read
        if sum(len(one) for one in held) >= arrow.ROWS_PER_SLICE:
            yield from _cut(held, size)
            held, size = [], 0
    if held:
        yield from _cut(held, size)


def _cut(held: list[pa.Table], size: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    for batch in pa.concat_tables(held).combine_chunks().to_batches(arrow.ROWS_PER_SLICE):
        yield batch, size
        size = 0


def _find_files(folder: Path) -> list[Path]:
    """List the files of tracks in a folder and the folders in it, in the order of their names."""
    files, others = [], 0
    with tabular.translate_read_errors(folder, "folder"):
        for place, folders, names in os.walk(folder, onerror=_raise):
            folders.sort()
            for name in sorted(names):
                path = Path(place, name)
                # The one system's notes on each file of the other are called like it, with a dot before.
                if path.suffix.lower() in _SUFFIXES and not name.startswith(".") and path.is_file():
                    files.append(path)
                else:
                    others += 1
    if not files:
        raise DataError(
            f"A folder to load must hold .gpx or .plt files. {folder} holds none of them and "
            f"{format_count(others, 'other file')}. Name the folder that does, or files."
        )
    return files


def _raise(error: OSError) -> None:
    raise error


def _read(top: Path, files: Sequence[Path]) -> Iterator[tuple[pa.Table, int]]:
    waiting: list[Path] = []
    for path in files:
        with tabular.translate_read_errors(path, "file of a track"):
            tabular.demand_file(path, "GPX or PLT file")
            size = path.stat().st_size
            head = kinds.read_head(path)
            kinds.demand_known(path, head, fixes=True)
            if kinds.is_plt(head) or (path.suffix.lower() == ".plt" and not kinds.is_gpx(head)):
                yield _read_plt(top, path), size
                continue
        waiting.append(path)
        if len(waiting) == GPX_AT_ONCE or sum(one.stat().st_size for one in waiting) > GPX_BYTES:
            yield from _read_gpx(top, waiting)
            waiting = []
    if waiting:
        yield from _read_gpx(top, waiting)


def _read_gpx(top: Path, paths: Sequence[Path]) -> Iterator[tuple[pa.Table, int]]:
    for part in gis.read_track_points(paths):
        x, y = _geometry.read_points(part["wkb"])
        number = part["file"]
        subject, trip = (
            pa.array([name(top, path) for path in paths]).take(number) for name in (_name_subject, _name_trip)
        )
        segments = [pc.cast(part[name], pa.string()) for name in ("track", "segment")]
        trip = pc.binary_join_element_wise(trip, *segments, "/")
        yield pa.table([subject, trip, part["time"], x, y], names=list(COLUMN_NAMES)), part.nbytes


def _read_plt(top: Path, path: Path) -> pa.Table:
    with path.open("rb") as file:
        head = [file.readline(1000) for _ in range(_PLT_HEADER_LINES)]
    if not head[0].lower().startswith((b"geolife", b"oziexplorer")) or not head[1].strip().startswith(b"WGS 84"):
        raise DataError(
            f"{path.name} must begin with the six lines of a PLT file, of which the second is 'WGS 84'. It begins "
            f"otherwise. Copy it again."
        )
    if path.stat().st_size <= sum(map(len, head)):
        return pa.table(
            {name: pa.array([], pa.string()) for name in COLUMN_NAMES[:3]} | dict.fromkeys("xy", pa.array([], "f8"))
        )
    read = pacsv.read_csv(
        path,
        pacsv.ReadOptions(column_names=_PLT_COLUMNS, skip_rows=_PLT_HEADER_LINES, use_threads=False),
        convert_options=pacsv.ConvertOptions(column_types=dict.fromkeys(_PLT_COLUMNS, pa.string())),
    ).combine_chunks()
    # Times of PLT are UTC.
    time = pc.binary_join_element_wise(read["date"], pc.binary_join_element_wise(read["clock"], "Z", ""), " ")
    named = [pa.array(np.full(len(read), name(top, path), object), pa.string()) for name in (_name_subject, _name_trip)]
    return pa.table([*named, time, read["x"], read["y"]], names=list(COLUMN_NAMES))


def _name_subject(top: Path, path: Path) -> str:
    """Name the person whose track a file is; see the top of this module."""
    place = path.resolve()
    if place.parent.name.lower() == _GEOLIFE_FOLDER:
        return _replace_bytes(place.parent.parent.name)
    within = path.relative_to(top).parts[:-1] if path != top else ()
    return _replace_bytes(within[0] if within else path.stem)


def _name_trip(top: Path, path: Path) -> str:
    return _replace_bytes(str(path.relative_to(top)) if path != top else path.name)


def _replace_bytes(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
