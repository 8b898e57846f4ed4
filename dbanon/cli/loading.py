"""Commands that bring data into a dataset: from files, from tables, or generated."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbanon.base.errors import ParameterError
from dbanon.cli._options import taking
from dbanon.cli._shared import GLOBAL, app, load_app, open_database, say, show
from dbanon.options import loading

if TYPE_CHECKING:
    from dbanon.database import Database
    from dbanon.load import LoadReport


@load_app.command("trajectories", epilog=GLOBAL)
@taking(loading.LoadingTrajectories)
def load_trajectories(
    files: Annotated[  # whether it can be read is for the loader to say: there it is bad data, not bad usage
        list[Path], typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one fix a row.")
    ],
    **options: Any,
) -> None:
    """Load trajectories; creates the dataset."""
    _load(lambda database: database.load_trajectories(files, **options))


@app.command("import", epilog=GLOBAL)
@taking(loading.ImportingTrajectories)
def import_table(
    table: Annotated[str, typer.Argument(help="Table or view of the same database, one fix a row.")], **options: Any
) -> None:
    """Load trajectories from a table that is in the database already, without leaving it."""
    _load(lambda database: database.import_trajectories(table, **options))


@load_app.command("requests", epilog=GLOBAL)
@taking(loading.LoadingRequests)
def load_requests(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one request a row.")
    ],
    **options: Any,
) -> None:
    """Load the requests subjects sent to a location-based service."""
    _load(lambda database: database.load_requests(file, **options))


PlaceFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        readable=False,
        help="CSV (also .gz) or Parquet, one place a row; or GeoJSON, GeoPackage or a Shapefile.",
    ),
]


@load_app.command("sites", epilog=GLOBAL)
@taking(loading.LoadingSites)
def load_sites(file: PlaceFile, **options: Any) -> None:
    """Load sensitive sites, places no person may be linked to, into an existing dataset, beside those it has."""
    _load(lambda database: database.load_sites(file, **options))


@load_app.command("pois", epilog=GLOBAL)
@taking(loading.LoadingPois)
def load_pois(file: PlaceFile, **options: Any) -> None:
    """Load points of interest into an existing dataset, beside those it has."""
    _load(lambda database: database.load_pois(file, **options))


@load_app.command("cells", epilog=GLOBAL)
@taking(loading.LoadingCells)
def load_cells(file: PlaceFile, **options: Any) -> None:
    """Load the areas that base stations cover, as they are, into an existing dataset, beside those it has."""
    _load(lambda database: database.load_cells(file, **options))


@load_app.command("stations", epilog=GLOBAL)
@taking(loading.LoadingStations)
def load_stations(file: PlaceFile, **options: Any) -> None:
    """Load base stations into an existing dataset: each becomes the cell of what is nearest to it."""
    _load(lambda database: database.load_stations(file, **options))


@load_app.command("quasi-identifiers", epilog=GLOBAL)
@taking(loading.LoadingQuasiIdentifiers)
def load_quasi_identifiers(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one subject and time a row."),
    ],
    **options: Any,
) -> None:
    """Load times at which an adversary may know where a subject was, into an existing dataset."""
    _load(lambda database: database.load_quasi_identifiers(file, **options))


def _load(work: Callable[["Database"], "LoadReport"]) -> None:
    from dbanon.cli import report

    with open_database() as database, report.Progress() as database.progress:
        loaded = work(database)
    show(lambda: report.load_text(loaded), lambda: report.load_json(loaded))
    say(loaded.notices)


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


def _mode(append: bool, replace: bool) -> loading.Mode:
    if append and replace:
        raise ParameterError("Only one of --append and --replace may be given. Got both; choose one.")
    return "append" if append else "replace" if replace else "create"


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
