"""What loads can be asked for: a record for each, whose words are those of the command line.

``dbanon_internal.loading`` has what the SQL functions read of `LoadingTrajectories` and `ImportingTrajectories`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from dbanon.base.errors import ParameterError
from dbanon.options import Option

Box = tuple[float, float, float, float]
"""Least x, least y, greatest x and greatest y, in units of the source."""
Mode = Literal["create", "append", "replace", "new"]


def _parse_box(text: str) -> Box:
    try:
        west, south, east, north = (float(number) for number in text.split(","))
    except ValueError:
        raise ParameterError(
            "A box must be four numbers XMIN,YMIN,XMAX,YMAX. Got something else. Change --bbox."
        ) from None
    return west, south, east, north


def _parse_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parse_instant(text: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        instant = datetime.min
    if instant.tzinfo is None:
        raise ParameterError(
            f"--since and --until must be ISO 8601 with a zone, or unix seconds. Got '{text[:60]}'. Write it like "
            f"2026-01-05T00:00:00Z."
        )
    return instant


def _make_moment_option(words: str) -> Option:
    return Option(words, metavar="TIME", typed=str, parse=_parse_instant)


def _make_bounds_option(words: str) -> Option:
    text = f"{words}. If its first x is greater, it crosses the antimeridian."
    return Option(text, metavar="XMIN,YMIN,XMAX,YMAX", typed=str, parse=_parse_box)


Dataset = Annotated[str, Option("Name of the dataset.")]
Subject = Annotated[str, Option("Column of the person or vehicle. '-' makes each row a separate person.")]
Sender = Annotated[str, Option("Column of the sender, as the trajectories name them.")]
Time = Annotated[str, Option("Column of the time: ISO 8601, or unix s, ms, µs or ns.")]
Trip = Annotated[str | None, Option("Column that separates a person's trips.")]
X = Annotated[str | None, Option("Column of the longitude or easting. Default: 'x'.")]
Y = Annotated[str | None, Option("Column of the latitude or northing. Default: 'y'.")]
Layer = Annotated[str | None, Option("Layer of a geographic file that has several.")]
Zone = Annotated[str | None, Option("Time zone of times that name none, such as Europe/Berlin.")]


# ---- trajectories ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PopulationOptions:
    """Whose people are in a dataset."""

    population: Annotated[
        str | None,
        Option(
            "The population, in whose datasets a name means the same person. It is made when first named. "
            "Default: 'default'."
        ),
    ] = None
    settle_s: Annotated[
        int | None,
        Option(
            "Seconds that a person may stay where a snapshot shows them. The greatest in a population counts. "
            "Default: 900."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """How cells of people and times are read."""

    tz: Zone = None
    time_format: Annotated[
        str | None, Option("How other times are written, in strptime's letters: '%d/%m/%Y %H:%M:%S'.")
    ] = None
    time_unit: Annotated[
        str | None,
        Option(
            "Unit of times that are numbers: s, ms, us or ns since 1970, days since 1899-12-30. Default: by size.",
            choices=("s", "ms", "us", "ns", "days"),
        ),
    ] = None
    nulls: Annotated[
        Sequence[str] | None,
        Option(
            "Texts that name no person, like the empty one. Default: NA, N/A, NULL, nan, None, \\N.",
            name="--null", metavar="TEXT,...", typed=str, parse=_parse_names,
        ),
    ] = None  # fmt: skip
    allow_future: Annotated[bool, Option("Load rows of the future.")] = False


@dataclass(frozen=True, kw_only=True)
class _Target(_Reading):
    """How trajectories are made, wherever they come from."""

    srid: Annotated[int | None, Option("Metric SRID of the dataset. Default: the UTM zone of the data.")] = None
    grid_m: Annotated[float, Option("Side of a space cell in metres.")] = 1.0
    grid_s: Annotated[int, Option("Length of a time slot in seconds.")] = 1
    split_gap_s: Annotated[float | None, Option("Cut a trajectory where no fix came for longer (s).")] = None
    bbox: Annotated[Box | None, _make_bounds_option("Leave out rows outside, in units of the source")] = None
    drop_outliers: Annotated[
        bool, Option("Leave out fixes far outside the rest, or too fast, instead of only counting them.")
    ] = False
    subject_per_day: Annotated[
        bool, Option("Make each day of a person separate, from midnight in --tz, or in UTC.")
    ] = False
    max_speed_kmh: Annotated[
        float | None,
        Option("Count fixes reached faster from the fix before, with --append or --new also from the last stored fix."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _Span:
    """Which time of a source is loaded."""

    since: Annotated[
        datetime | None,
        _make_moment_option(
            "Load rows from this time on. Default: all rows. With --new from a table: from a day before the last."
        ),
    ] = None
    until: Annotated[datetime | None, _make_moment_option("Load rows before this time.")] = None


@dataclass(frozen=True, kw_only=True)
class _Mode(_Span):
    """What is done to a dataset that is there, and with which time."""

    mode: Annotated[
        Mode,
        Option(
            flags={
                "append": "Add to an existing dataset.",
                "replace": "Replace an existing dataset's trajectories. Requests and sites stay.",
                "new": (
                    "Add the rows that the dataset does not have, of times that no release covers, or make the dataset."
                ),
            }
        ),
    ] = "create"


@dataclass(frozen=True, kw_only=True)
class _Events(_Span, _Reading):
    """What is done with events that are there, and with which time."""

    mode: Annotated[
        Literal["append", "new"],
        Option(flags={"new": "Only count rows that are there already, and rows of times that a release covers."}),
    ] = "append"


@dataclass(frozen=True, kw_only=True)
class _File:
    dataset: Dataset
    subject: Subject = "subject"
    time: Time = "time"
    x: X = None
    y: Y = None
    geom: Annotated[
        str | None,
        Option("Column of geometries, or of their texts, instead of x and y. Default: the only one of geometries."),
    ] = None
    trip: Trip = None
    crs: Annotated[str | None, Option("Coordinate system. Default: that of the source, or EPSG:4326.")] = None


@dataclass(frozen=True, kw_only=True)
class _Table:
    dataset: Dataset
    subject: Subject
    time: Annotated[str, Option("Column of the time: timestamps, ISO 8601, or unix s, ms, µs or ns.")] = "time"
    geom: Annotated[
        str | None,
        Option(
            "Column of the position: a point, a shape (its bounding rectangle counts) or a tgeompoint with its "
            "times. Default: 'geom'."
        ),
    ] = None
    x: Annotated[str | None, Option("Column of the longitude or easting, with --y instead of --geom.")] = None
    y: Annotated[str | None, Option("Column of the latitude or northing.")] = None
    trip: Trip = None
    crs: Annotated[
        str | None,
        Option("Coordinate system of the positions. Default: that of the geometries, or degrees for --x and --y."),
    ] = None
    filter: Annotated[
        str | None,
        Option("Load the rows that meet this condition in SQL. Functions not of the server need their schema."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LoadingTrajectories(_Mode, PopulationOptions, _Target, _File):
    """How trajectories are loaded from files and from tables in memory."""

    layer: Layer = None


@dataclass(frozen=True, kw_only=True)
class ImportingTrajectories(_Mode, PopulationOptions, _Target, _Table):
    """How trajectories are loaded from a table of the same database."""


# ---- what belongs to trajectories ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LoadingRequests(_Events):
    """How requests to a location-based service are loaded."""

    dataset: Dataset
    columns: Annotated[
        Sequence[str],
        Option(
            "One or more columns of what was asked for, which become the request's name-value pairs.",
            metavar="COLUMN,...",
            typed=str,
            parse=_parse_names,
        ),
    ]
    subject: Sender = "subject"
    time: Time = "time"


@dataclass(frozen=True, kw_only=True)
class LoadingQuasiIdentifiers(_Events):
    """How times at which an adversary may know where subjects were are loaded."""

    dataset: Dataset
    set_name: Annotated[str, Option("Name of the set that they belong to.", name="--set")] = "default"
    subject: Annotated[str, Option("Column of the person, as the trajectories name them.")] = "subject"
    time: Time = "time"
    replace: Annotated[bool, Option("Delete the times of the set first.")] = False


# ---- places ----------------------------------------------------------------------------------------------------------

Shape = Annotated[
    str | None, Option("Column of the shape as geometry or its text, without curves, instead of x and y.")
]
Station = Annotated[str | None, Option("Column of the station's name.")]
System = Annotated[
    str | None, Option("Coordinate system of the file. Default: that of a geographic file, or EPSG:4326.")
]
DropFar = Annotated[bool, Option("Leave out places far outside the trajectories, instead of only counting them.")]
ReplaceCells = Annotated[bool, Option("Delete the dataset's cells first.")]


@dataclass(frozen=True, kw_only=True)
class LoadingSites:
    """How sensitive sites are loaded."""

    kind = "sites"
    area = None

    dataset: Dataset
    x: X = None
    y: Y = None
    name: Annotated[str | None, Option("Column of the site's name.")] = None
    geom: Shape = None
    crs: System = None
    layer: Layer = None
    bbox: Annotated[
        Box | None, _make_bounds_option("Leave out sites with their middle outside, in units of the file")
    ] = None
    drop_outliers: DropFar = False
    replace: Annotated[bool, Option("Delete the dataset's sites first.")] = False


@dataclass(frozen=True, kw_only=True)
class LoadingPois:
    """How points of interest are loaded."""

    kind = "pois"
    area = bbox = None

    dataset: Dataset
    category: Annotated[str, Option("Column of the kind of place.")]
    x: X = None
    y: Y = None
    geom: Shape = None
    crs: System = None
    layer: Layer = None
    drop_outliers: DropFar = False
    replace: Annotated[bool, Option("Delete the dataset's points of interest first.")] = False

    @property
    def name(self) -> str:
        """The column of what is stored beside the place, as of other kinds."""
        return self.category


@dataclass(frozen=True, kw_only=True)
class LoadingCells:
    """How areas that base stations cover are loaded."""

    kind = "cells"
    x = y = area = bbox = None

    dataset: Dataset
    name: Station = None
    geom: Annotated[str | None, Option("Column of the polygon, for CSV or Parquet. Default: 'geom'.")] = None
    crs: System = None
    layer: Layer = None
    drop_outliers: DropFar = False
    replace: ReplaceCells = False


@dataclass(frozen=True, kw_only=True)
class LoadingStations:
    """How base stations are loaded, whose cells are made."""

    kind = "stations"
    bbox = None

    dataset: Dataset
    x: X = None
    y: Y = None
    name: Station = None
    geom: Shape = None
    crs: System = None
    layer: Layer = None
    area: Annotated[
        str | Path | None,
        Option(
            "GeoJSON, GeoPackage or Shapefile of the area that the cells divide among themselves. Default: the hull "
            "of the stations with a margin.", metavar="FILE", typed=str, parse=Path,
        ),
    ] = None  # fmt: skip
    drop_outliers: DropFar = False
    replace: ReplaceCells = False


LoadingPlaces = LoadingSites | LoadingPois | LoadingCells | LoadingStations


def name_as_sql(options: Mapping[str, Any]) -> dict[str, Any]:
    """Call options of a load as the SQL functions do, where a word of SQL cannot be an argument without quotes."""
    return {"time_column" if name == "time" else name: value for name, value in options.items()}
