"""What kind of file a file is, by the bytes that it begins with, and what to do with one that is not read."""

import re
import shlex
from pathlib import Path

from dbanon.base.errors import DataError

HEAD_BYTES = 4096
PARQUET, GZIP, SQLITE, SHAPE = b"PAR1", b"\x1f\x8b", b"SQLite format 3\0", b"\0\0\x27\x0a"

_PACKAGE_IDS = (b"GPKG", b"GP10", b"GP11")  # at byte 68 of a database
_JSON = re.compile(rb"[\s\x1e]*\[?\s*\{")
_GPX = re.compile(rb"\s*<[\s\S]*?(?<=<)(?:\w+:)?gpx[\s>]")
_PLT = re.compile(rb"(?i)geolife trajectory|oziexplorer track")
_CONVERT = "Convert it: `gpsbabel -i {0} -f {{file}} -o gpx -F {{stem}}.gpx`"
_CONVERT_PLACES = "Convert it: `ogr2ogr -f GeoJSON {stem}.geojson {file}`"
_SAVE = "Save its sheet as CSV"
_UNPACK = "Unpack it, and name the files in it"
_EXPORT = "Write its rows as CSV or Parquet"
_OTHERS = (
    (rb"\s*<[\s\S]*?<kml[\s>]", "KML", _CONVERT.format("kml")),
    (rb"\s*<[\s\S]*?<(?:\w+:)?TrainingCenterDatabase[\s>]", "TCX", _CONVERT.format("gtrnctr")),
    (rb"[\x0c\x0e][\s\S]{7}\.FIT", "FIT", _CONVERT.format("garmin_fit")),
    (rb"A[A-Z]{3}[^\r\n]*[\r\n]+H[FO]DTE", "IGC", _CONVERT.format("igc")),
    (rb"\$[A-Z]{2}[A-Z]{3},", "NMEA sentences", _CONVERT.format("nmea")),
    (rb"(?:\\[^\r\n]*\\)?[!$](?:AI|AB|BS)VD[MO],", "AIS messages", "Decode them to rows of CSV, for example by pyais"),
    (
        rb"\d{4}-\d\d-\d\dT[\d:]+Z\t\S+ *\t\{",
        "a record of OwnTracks",
        "Write it as CSV or GPX by OwnTracks' `ocat --format`",
    ),
    (
        rb'\s*[\[{][\s\S]*?(?:latitudeE7|"(?:semanticSegments|timelineObjects|timelinePath|rawSignals)")',
        "a location history of Google",
        "Write each of its positions as a row of CSV, with a name, the time, and the degrees (longitudeE7 / 1e7)",
    ),
    (rb"(?i)\s*<(?:!doctype html|html)", "a page of HTML, perhaps of a login", "Download the file again"),
    (rb"\s*<\?xml|\s*<!--|\s*<\w+:?\w*[\s>]", "XML of another kind", "Convert it to GPX or CSV"),
    (rb"SQLite format 3\0", "an SQLite database that is no GeoPackage", _EXPORT),
    (rb"PK[\3\5][\4\6][\s\S]*?(?:\[Content_Types\]|_rels/|docProps/|opendocument)", "a workbook", _SAVE),
    (rb"\xd0\xcf\x11\xe0", "a workbook of an old kind", _SAVE),
    (rb"PK[\3\5][\4\6]", "a ZIP archive", _UNPACK),
    (rb"BZh\d|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf|Rar!|[\s\S]{257}ustar", "a packed file", _UNPACK),
    (rb"%PDF", "a PDF", "Ask for its rows as CSV"),
    (rb"PGDMP|--\r?\n-- PostgreSQL database", "a dump of PostgreSQL", "Restore it, and load its table"),
    (
        rb'ARROW1|Obj\x01|ORC[^\w,;|\t "]|fgb\x03|\x89HDF|CDF[\1\2\5]|RD[XA][23]|PGCOPY|\x80[\2-\5]',
        "a binary table of another kind",
        _EXPORT,
    ),
    (rb"\s*\[?\s*\{", "JSON of another kind", _EXPORT),
)  # fmt: skip
"""How other files begin, what they are, and what to do. The first that fits counts."""


def read_head(path: Path) -> bytes:
    """Read what a file begins with; nothing where it cannot be read."""
    try:
        # Files of the system that wait for what comes call themselves empty; reading from them might never end.
        if not path.is_file() or not path.stat().st_size:
            return b""
        with path.open("rb") as file:
            return file.read(HEAD_BYTES).removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return b""


def is_json(head: bytes) -> bool:
    """Whether a file begins as a JSON object or an array of them does."""
    return _JSON.match(head) is not None


def is_gis(head: bytes) -> bool:
    """Whether a file begins as GeoJSON, GeoPackage or Shapefile do."""
    package = head.startswith(SQLITE) and (head[68:72] in _PACKAGE_IDS or b"gpkg_contents" in head)
    return package or head.startswith(SHAPE) or head.lstrip(b" \t\r\n\x1e")[:1] == b"{"


def is_gpx(head: bytes) -> bool:
    """Whether a file that begins so is GPX."""
    return _GPX.match(head) is not None


def is_plt(head: bytes) -> bool:
    """Whether a file that begins so is PLT of GeoLife."""
    return _PLT.match(head) is not None


def demand_known(path: Path, head: bytes, *, zipped: bool = False, fixes: bool = False) -> None:
    """Refuse a file that is of a kind that is not read, by what it holds when unpacked.

    `fixes`: it is to hold trajectories, for which GPX will do; places are told of GeoJSON.
    """
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "ignore").encode()
    track = is_gpx(head) or is_plt(head)
    kind, remedy = next(((kind, do) for begins, kind, do in _OTHERS if re.match(begins, head)), (None, ""))
    if zipped and (kind or track or is_gis(head) or head.startswith(PARQUET)):
        raise DataError(
            f"{path.name} must be a CSV file if it is packed. Got a file of another kind in gzip. Unpack it: `gunzip "
            f"--keep {shlex.quote(path.name)}`."
        )
    if track and not fixes:
        raise DataError(f"{path.name} must be a table. Got a track. Load it by `dbanon load trajectories`.")
    if kind and not track:
        hint = _CONVERT_PLACES if "gpsbabel" in remedy and not fixes else remedy
        hint = hint.format(file=shlex.quote(path.name), stem=shlex.quote(path.stem))
        raise DataError(f"{path.name} must be of a kind that is read. Got {kind}. {hint}.")
