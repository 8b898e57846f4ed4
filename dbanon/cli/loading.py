"""Commands that bring data into a dataset: from files, from tables, or generated."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbanon.base.errors import ParameterError
from dbanon.cli._shared import GLOBAL, Dataset, app, load_app, open_database, say, show

if TYPE_CHECKING:
    from dbanon.database import Database
    from dbanon.load import LoadReport
    from dbanon.load.datasets import Mode


Subject = Annotated[str, typer.Option("--subject", help="Column of the person or vehicle; '-' makes each row its own.")]
Time = Annotated[str, typer.Option("--time", help="Column of the time: unix seconds or milliseconds, or ISO 8601.")]
Trip = Annotated[str | None, typer.Option("--trip", help="Column that separates a subject's trips.")]
Zone = Annotated[str | None, typer.Option("--tz", help="Time zone of times that name none, such as Europe/Berlin.")]
Srid = Annotated[int | None, typer.Option("--srid", help="Metric SRID of the dataset; else the UTM zone of the data.")]
GridM = Annotated[float, typer.Option("--grid-m", help="Side of a space cell in metres.")]
GridS = Annotated[int, typer.Option("--grid-s", help="Length of a time slot in seconds.")]
SplitGap = Annotated[
    int | None, typer.Option("--split-gap-s", help="Cut a trajectory where no fix came for longer (s).")
]
Box = Annotated[
    str | None,
    typer.Option(
        "--bbox",
        metavar="XMIN,YMIN,XMAX,YMAX",
        help="Leave out what lies outside, in units of the source; XMIN above XMAX crosses the antimeridian.",
    ),
]
DropOutliers = Annotated[
    bool, typer.Option("--drop-outliers", help="Leave out what lies far outside the rest, not only count it.")
]
DropFarPlaces = Annotated[
    bool,
    typer.Option(
        "--drop-outliers", help="Leave out what lies far outside where the trajectories are, not only count it."
    ),
]
PerDay = Annotated[
    bool,
    typer.Option(
        "--subject-per-day", help="Make each day of a subject, from midnight to midnight in --tz (else UTC), its own."
    ),
]
Population = Annotated[
    str | None,
    typer.Option(
        "--population",
        help="Within it a subject's name means one person in all datasets; made when first named. Else 'default'.",
    ),
]
Settle = Annotated[
    int | None,
    typer.Option(
        "--settle-s",
        help="How many seconds a person may stay where a snapshot shows them. Else 900. A population's longest counts.",
    ),
]
Append = Annotated[bool, typer.Option("--append", help="Add to an existing dataset.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace an existing dataset's trajectories; requests and sites stay.")
]


def _mode(append: bool, replace: bool) -> "Mode":
    if append and replace:
        raise ParameterError("Only one of --append and --replace may be given. Got both; choose one.")
    return "append" if append else "replace" if replace else "create"


def _box(text: str | None) -> tuple[float, float, float, float] | None:
    if text is None:
        return None
    try:
        west, south, east, north = (float(number) for number in text.split(","))
    except ValueError:
        raise ParameterError(
            "A box must be four numbers XMIN,YMIN,XMAX,YMAX. Got something else; change --bbox."
        ) from None
    return west, south, east, north


@load_app.command("trajectories", epilog=GLOBAL)
def load_trajectories(
    files: Annotated[  # whether it can be read is for the loader to say: there it is bad data, not bad usage
        list[Path], typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one fix a row.")
    ],
    dataset: Dataset,
    subject: Subject = "subject",
    time: Time = "time",
    x: Annotated[str, typer.Option(help="Column of the longitude or easting.")] = "x",
    y: Annotated[str, typer.Option(help="Column of the latitude or northing.")] = "y",
    trip: Trip = None,
    crs: Annotated[str, typer.Option(help="Coordinate system of the file.")] = "EPSG:4326",
    srid: Srid = None,
    grid_m: GridM = 1.0,
    grid_s: GridS = 1,
    split_gap_s: SplitGap = None,
    tz: Zone = None,
    bbox: Box = None,
    drop_outliers: DropOutliers = False,
    subject_per_day: PerDay = False,
    population: Population = None,
    settle_s: Settle = None,
    append: Append = False,
    replace: Replace = False,
) -> None:
    """Load trajectories; creates the dataset."""
    from dbanon.load import Columns

    columns = Columns(subject=subject, time=time, x=x, y=y, trip=trip)
    mode, box = _mode(append, replace), _box(bbox)
    _load(
        lambda database, progress: database.load_trajectories(
            files, dataset=dataset, columns=columns, crs=crs, srid=srid, grid_m=grid_m, grid_s=grid_s, mode=mode, tz=tz,
            split_gap_s=split_gap_s, bbox=box, drop_outliers=drop_outliers, subject_per_day=subject_per_day,
            population=population, settle_s=settle_s, progress=progress,
        )
    )  # fmt: skip


@app.command("import", epilog=GLOBAL)
def import_table(
    table: Annotated[str, typer.Argument(help="Table or view of the same database, one fix a row.")],
    dataset: Dataset,
    subject: Annotated[str, typer.Option(help="Column of the person or vehicle; '-' makes each row its own.")],
    time: Annotated[str, typer.Option(help="Column of the time: a timestamp, or unix seconds or milliseconds.")],
    geom: Annotated[
        str, typer.Option(help="Column of the position: a point, or a shape, whose bounding rectangle counts.")
    ],
    trip: Trip = None,
    crs: Annotated[str | None, typer.Option(help="Coordinate system of the points; else their own.")] = None,
    srid: Srid = None,
    grid_m: GridM = 1.0,
    grid_s: GridS = 1,
    split_gap_s: SplitGap = None,
    tz: Zone = None,
    bbox: Box = None,
    drop_outliers: DropOutliers = False,
    subject_per_day: PerDay = False,
    population: Population = None,
    settle_s: Settle = None,
    append: Append = False,
    replace: Replace = False,
) -> None:
    """Load trajectories from a table that is in the database already, without leaving it."""
    from dbanon.load import TableColumns

    columns = TableColumns(subject=subject, time=time, geom=geom, trip=trip)
    mode, box = _mode(append, replace), _box(bbox)
    _load(
        lambda database, progress: database.import_trajectories(
            table, dataset=dataset, columns=columns, crs=crs, srid=srid, grid_m=grid_m, grid_s=grid_s, mode=mode, tz=tz,
            split_gap_s=split_gap_s, bbox=box, drop_outliers=drop_outliers, subject_per_day=subject_per_day,
            population=population, settle_s=settle_s, progress=progress,
        )
    )  # fmt: skip


@load_app.command("requests", epilog=GLOBAL)
def load_requests(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one request a row.")
    ],
    dataset: Dataset,
    columns: Annotated[str, typer.Option(help="Columns that become the request's name-value pairs: a,b,c.")],
    subject: Annotated[str, typer.Option(help="Column of the sender, as the trajectories name them.")] = "subject",
    time: Time = "time",
    tz: Zone = None,
) -> None:
    """Load the requests subjects sent to a location-based service."""
    names = [name.strip() for name in columns.split(",") if name.strip()]
    _load(
        lambda database, progress: database.load_requests(
            file, dataset=dataset, columns=names, subject=subject, time=time, tz=tz, progress=progress
        )
    )


PlaceFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        readable=False,
        help="CSV (also .gz) or Parquet, one place a row; or GeoJSON, GeoPackage or a Shapefile.",
    ),
]
X = Annotated[str | None, typer.Option(help="Column of the longitude or easting; else 'x'.")]
Y = Annotated[str | None, typer.Option(help="Column of the latitude or northing; else 'y'.")]
Geom = Annotated[str | None, typer.Option(help="Column of the shape as WKT without curves, instead of x and y.")]
Crs = Annotated[
    str | None, typer.Option(help="Coordinate system of the file; else EPSG:4326, or what a geographic file names.")
]
Layer = Annotated[str | None, typer.Option(help="Layer of a geographic file that has several.")]


@load_app.command("sites", epilog=GLOBAL)
def load_sites(
    file: PlaceFile,
    dataset: Dataset,
    x: X = None,
    y: Y = None,
    name: Annotated[str | None, typer.Option(help="Column of the site's name.")] = None,
    geom: Geom = None,
    crs: Crs = None,
    layer: Layer = None,
    bbox: Annotated[
        str | None,
        typer.Option(
            "--bbox",
            metavar="XMIN,YMIN,XMAX,YMAX",
            help="Leave out sites whose middle lies outside, in units of the file; XMIN above XMAX crosses the "
            "antimeridian.",
        ),
    ] = None,
    drop_outliers: DropFarPlaces = False,
    replace: Annotated[bool, typer.Option("--replace", help="Delete the dataset's sites first.")] = False,
) -> None:
    """Load sensitive sites, places no person may be linked to, into an existing dataset, beside those it has."""
    options = _places(
        x=x, y=y, name=name, geom=geom, crs=crs, layer=layer, drop_outliers=drop_outliers, replace=replace
    )
    options["bbox"] = _box(bbox)
    _load(lambda database, progress: database.load_sites(file, dataset=dataset, progress=progress, **options))


@load_app.command("pois", epilog=GLOBAL)
def load_pois(
    file: PlaceFile,
    dataset: Dataset,
    category: Annotated[str, typer.Option(help="Column that says what kind of place it is.")],
    x: X = None,
    y: Y = None,
    geom: Geom = None,
    crs: Crs = None,
    layer: Layer = None,
    drop_outliers: DropFarPlaces = False,
    replace: Annotated[bool, typer.Option("--replace", help="Delete the dataset's points of interest first.")] = False,
) -> None:
    """Load points of interest into an existing dataset, beside those it has."""
    options = _places(
        x=x, y=y, name=category, geom=geom, crs=crs, layer=layer, drop_outliers=drop_outliers, replace=replace
    )
    _load(lambda database, progress: database.load_pois(file, dataset=dataset, progress=progress, **options))


@load_app.command("cells", epilog=GLOBAL)
def load_cells(
    file: PlaceFile,
    dataset: Dataset,
    name: Annotated[str | None, typer.Option(help="Column of the station's name.")] = None,
    geom: Annotated[
        str | None, typer.Option(help="Column of the polygon as WKT, of CSV or Parquet; else 'geom'.")
    ] = None,
    crs: Crs = None,
    layer: Layer = None,
    drop_outliers: DropFarPlaces = False,
    replace: Annotated[bool, typer.Option("--replace", help="Delete the dataset's cells first.")] = False,
) -> None:
    """Load the areas that base stations cover, as they are, into an existing dataset, beside those it has."""
    options = _places(name=name, geom=geom, crs=crs, layer=layer, drop_outliers=drop_outliers, replace=replace)
    _load(lambda database, progress: database.load_cells(file, dataset=dataset, progress=progress, **options))


@load_app.command("stations", epilog=GLOBAL)
def load_stations(
    file: PlaceFile,
    dataset: Dataset,
    x: X = None,
    y: Y = None,
    name: Annotated[str | None, typer.Option(help="Column of the station's name.")] = None,
    geom: Geom = None,
    crs: Crs = None,
    layer: Layer = None,
    area: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            readable=False,
            help="GeoJSON, GeoPackage or Shapefile of the area that the cells divide among themselves; else the hull "
            "of the stations with a margin.",
        ),
    ] = None,
    drop_outliers: DropFarPlaces = False,
    replace: Annotated[bool, typer.Option("--replace", help="Delete the dataset's cells first.")] = False,
) -> None:
    """Load base stations into an existing dataset: each becomes the cell of what is nearest to it."""
    options = _places(
        x=x, y=y, name=name, geom=geom, crs=crs, layer=layer, drop_outliers=drop_outliers, replace=replace
    )
    _load(
        lambda database, progress: database.load_stations(
            file, dataset=dataset, area=area, progress=progress, **options
        )
    )


def _places(
    *, x: str | None = None, y: str | None = None, name: str | None, geom: str | None, **options: Any
) -> dict[str, Any]:
    """Make of what was typed the options of `dbanon.load.load_places`."""
    from dbanon.load import PlaceColumns

    return {**options, "columns": PlaceColumns(x=x, y=y, name=name, geom=geom)}


@load_app.command("quasi-identifiers", epilog=GLOBAL)
def load_quasi_identifiers(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one subject and time a row."),
    ],
    dataset: Dataset,
    set_name: Annotated[str, typer.Option("--set", help="Which of the dataset's sets they belong to.")] = "default",
    subject: Annotated[str, typer.Option(help="Column of the subject, as the trajectories name them.")] = "subject",
    time: Time = "time",
    tz: Zone = None,
    replace: Annotated[bool, typer.Option("--replace", help="Delete those of the set first.")] = False,
) -> None:
    """Load times at which an adversary may know where a subject was, into an existing dataset."""
    _load(
        lambda database, progress: database.load_quasi_identifiers(
            file,
            dataset=dataset,
            set_name=set_name,
            subject=subject,
            time=time,
            tz=tz,
            replace=replace,
            progress=progress,
        )
    )


def _load(work: Callable[["Database", Any], "LoadReport"]) -> None:
    from dbanon.cli import report

    with open_database() as database, report.Progress() as progress:
        loaded = work(database, progress)
    show(lambda: report.load_text(loaded), lambda: report.load_json(loaded))
    say(loaded.notices)


@app.command("synth", epilog=GLOBAL)
def generate(
    dataset: Annotated[str | None, typer.Option(help="Name of the dataset to generate into.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="DIR", help="Write CSV files here, without a database.")] = None,
    objects: Annotated[int, typer.Option(help="How many people and vehicles; each is a subject with a path.")] = 1000,
    instants: Annotated[int, typer.Option(help="How many positions of each are recorded.")] = 30,
    step_s: Annotated[int, typer.Option(help="Seconds from one position to the next.")] = 60,
    start: Annotated[str, typer.Option(help="First position: ISO 8601 or unix seconds.")] = "2026-01-05T08:00:00Z",
    seed: Annotated[int, typer.Option(help="Same options and seed: same rows.")] = 1,
    whole_share: Annotated[
        float,
        typer.Option(help="Least share that is there all the time; of the others, most come late or leave early."),
    ] = 0.8,
    requests_per_subject: Annotated[float, typer.Option(help="Mean number of requests; 0 for none.")] = 2.0,
    calls_per_day: Annotated[
        float | None,
        typer.Option(
            help="Phone records instead of all positions: so many calls and messages a day on average, at towers."
        ),
    ] = None,
    quasi_identifiers: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Quasi-identifiers, at which an adversary may know each; how they are linked: random, disjoint, chain "
            "or forest.",
        ),
    ] = None,
    quasi_identifier_size: Annotated[int, typer.Option(help="Most such instants of one person or vehicle.")] = 10,
    quasi_identifier_overlap: Annotated[int, typer.Option(help="How many of them linked ones share.")] = 1,
    pois: Annotated[
        int, typer.Option(help="Number of points of interest, whose categories differ by district; 0 for none.")
    ] = 0,
    stations: Annotated[
        int,
        typer.Option(help="Number of base stations, denser where people are, whose cells a dataset gets; 0 for none."),
    ] = 0,
    destinations: Annotated[int, typer.Option(help="Number of places that journeys lead to.")] = 1000,
    blocks: Annotated[int, typer.Option(help="Blocks (120 m) along each side of the built-in city.")] = 16,
    nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Another network's nodes: CSV (also .gz) with the columns id and lon,lat (degrees) or x,y (metres); "
            "or lines 'id x y' without a header.",
        ),
    ] = None,
    edges: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Its edges: CSV with the columns from,to and, if all edges have it, length (metres), limit_kmh, class "
            "(0 fastest, 6 slowest) or classcode (as in San Francisco); or lines 'id from to length' or "
            "'id from to class *' without a header.",
        ),
    ] = None,
    limits: Annotated[str | None, typer.Option(help="Speed limits in km/h by class of edge: 0=110,1=80,...")] = None,
    srid: Annotated[
        int | None, typer.Option(help="Metric SRID that x,y are in; or the UTM zone for lon,lat, else the data's.")
    ] = None,
    lon: Annotated[float | None, typer.Option(help="Longitude of the middle of a network without a place.")] = None,
    lat: Annotated[float | None, typer.Option(help="Latitude of the middle of a network without a place.")] = None,
    grid_m: Annotated[float, typer.Option(help="Side of a space cell of the dataset in metres.")] = 1.0,
    grid_s: Annotated[int, typer.Option(help="Length of a time slot of the dataset in seconds.")] = 1,
    population: Population = None,
    settle_s: Settle = None,
    append: Annotated[bool, typer.Option("--append", help="Add more subjects to an existing dataset.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace all that is in an existing dataset, or the CSV files.")
    ] = False,
) -> None:
    """Generate people and vehicles that move along streets, and requests they send.

    They go from place to place by the quickest way, each at its own speed, but never above what its kind (car,
    bus, bicycle, pedestrian) or the street allows. The streets are those of a small built-in city, or of any network
    given as two files. No person in the data is real.
    """
    from dbanon import synth
    from dbanon.cli import report

    if (dataset is None) == (csv is None):
        raise ParameterError("Either --dataset NAME or --csv DIR must be given. Got both or neither; choose one.")
    plan: dict[str, Any] = {
        "objects": objects, "instants": instants, "step_s": step_s, "seed": seed, "whole_share": whole_share,
        "requests_per_subject": requests_per_subject, "calls_per_day": calls_per_day,
        "quasi_identifiers": quasi_identifiers, "quasi_identifier_size": quasi_identifier_size,
        "quasi_identifier_overlap": quasi_identifier_overlap, "pois": pois, "stations": stations,
        "destinations": destinations, "blocks": blocks, "nodes": nodes, "edges": edges, "srid": srid,
        "lon": lon, "lat": lat, "limits_kmh": None if limits is None else synth.limits_kmh(limits),
    }  # fmt: skip
    if csv is not None:
        if append or grid_m != 1.0 or grid_s != 1 or (population, settle_s) != (None, None):
            raise ParameterError(
                "--append, --grid-m, --grid-s, --population and --settle-s are for datasets. Got one with --csv; leave "
                "it out, and give it when you load the files."
            )
        with report.Progress() as progress:
            wanted = synth.Plan(start_s=synth.start_seconds(start), **plan)
            made = synth.into_files(csv, wanted, replace=replace, progress=progress)
    else:
        mode = _mode(append, replace)
        with open_database() as database, report.Progress() as progress:
            made = database.synth(
                str(dataset), start=start, grid_m=grid_m, grid_s=grid_s, mode=mode, population=population,
                settle_s=settle_s, progress=progress, **plan,
            )  # fmt: skip
    show(lambda: report.synth_text(made), lambda: report.synth_json(made))
