"""Commands that bring data into a dataset: from files, from tables, or generated."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbanon.base import extras
from dbanon.base.errors import ParameterError
from dbanon.base.progress import Display
from dbanon.cli._options import add_options
from dbanon.cli._shared import GLOBAL_EPILOG, app, load_app, open_database, say, show
from dbanon.options import generating, list_fields, loading

if TYPE_CHECKING:
    from dbanon.database import Database
    from dbanon.load import LoadReport


@load_app.command("trajectories", epilog=GLOBAL_EPILOG)
@add_options(loading.LoadingTrajectories)
def load_trajectories(
    files: Annotated[  # whether it can be read is for the loader to say: there it is bad data, not bad usage
        list[Path],
        typer.Argument(
            metavar="FILE",
            readable=False,
            help="CSV (also .gz) or Parquet, one fix a row. Or GPX, PLT, MF-JSON, or a folder of GPX and PLT.",
        ),
    ],
    **options: Any,
) -> None:
    """Load trajectories, and create the dataset."""
    _load(lambda database: database.load_trajectories(files, **options))


@app.command("import", epilog=GLOBAL_EPILOG)
@add_options(loading.ImportingTrajectories)
def import_table(
    table: Annotated[str, typer.Argument(help="Table or view of the same database, one fix a row.")], **options: Any
) -> None:
    """Load trajectories from a table that is in the database already, without leaving it."""
    _load(lambda database: database.import_trajectories(table, **options))


@load_app.command("requests", epilog=GLOBAL_EPILOG)
@add_options(loading.LoadingRequests)
def load_requests(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one request a row.")
    ],
    **options: Any,
) -> None:
    """Load requests that people sent to a location-based service."""
    _load(lambda database: database.load_requests(file, **options))


PlaceFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        readable=False,
        help="CSV (also .gz) or Parquet, one place a row. Or GeoJSON, GeoPackage or a Shapefile.",
    ),
]


@load_app.command("sites", epilog=GLOBAL_EPILOG)
@add_options(loading.LoadingSites)
def load_sites(file: PlaceFile, **options: Any) -> None:
    """Load sensitive sites, to which no person may be linked, into an existing dataset, in addition to those it has."""
    _load(lambda database: database.load_sites(file, **options))


@load_app.command("pois", epilog=GLOBAL_EPILOG)
@add_options(loading.LoadingPois)
def load_pois(file: PlaceFile, **options: Any) -> None:
    """Load points of interest into an existing dataset, in addition to those it has."""
    _load(lambda database: database.load_pois(file, **options))


@load_app.command("cells", epilog=GLOBAL_EPILOG)
@add_options(loading.LoadingCells)
def load_cells(file: PlaceFile, **options: Any) -> None:
    """Load the areas that base stations cover, as they are, into an existing dataset, in addition to those it has."""
    _load(lambda database: database.load_cells(file, **options))


@load_app.command("stations", epilog=GLOBAL_EPILOG)
@add_options(loading.LoadingStations)
def load_stations(file: PlaceFile, **options: Any) -> None:
    """Load base stations into an existing dataset: each gets the cell of places nearest to it."""
    _load(lambda database: database.load_stations(file, **options))


@load_app.command("quasi-identifiers", epilog=GLOBAL_EPILOG)
@add_options(loading.LoadingQuasiIdentifiers)
def load_quasi_identifiers(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one person and time a row."),
    ],
    **options: Any,
) -> None:
    """Load times at which an adversary may know where a person was, into an existing dataset."""
    _load(lambda database: database.load_quasi_identifiers(file, **options))


def _load(work: Callable[["Database"], "LoadReport"]) -> None:
    from dbanon.cli import report

    with open_database() as database:
        loaded = work(database)
    show(lambda: report.format_load(loaded), lambda: vars(loaded))
    say(loaded.notices)


@app.command("synth", epilog=GLOBAL_EPILOG)
@add_options(generating.Generating)
def generate(
    dataset: Annotated[str | None, typer.Option(help="Name of the dataset to generate into.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="DIR", help="Write CSV files here instead.")] = None,
    **options: Any,
) -> None:
    """Generate people and vehicles that move along streets, and requests they send.

    They go from place to place by the quickest way, each at its own speed, but never above what its kind (car,
    bus, bicycle, pedestrian) or the street allows. The streets are those of a small built-in city, or of any network
    given as two files. No person in the data is real.
    """
    extras.demand("files", "compute")
    from dbanon import synth
    from dbanon.cli import report

    if (dataset is None) == (csv is None):
        raise ParameterError("Either --dataset NAME or --csv DIR must be given. Got both or neither. Choose one.")
    if csv is not None:
        plan = generating.Generating(**options)
        is_for_dataset = any(getattr(plan, one.name) != one.default for one in list_fields(generating.OfDataset))
        if plan.mode == "append" or is_for_dataset:
            raise ParameterError(
                "--append, --grid-m, --grid-s, --population and --settle-s are for datasets. Got one with --csv. "
                "Leave it out, and give it when you load the files."
            )
        with ExitStack() as stack:
            reads = plan.like is not None and not Path(plan.like).suffix
            source = stack.enter_context(open_database()).connection if reads else None
            progress = stack.enter_context(Display(writes_lines=True))
            made = synth.write_files(csv, plan, source, replace=plan.mode == "replace", progress=progress)
    else:
        with open_database() as database:
            made = database.synth(str(dataset), **options)
    show(lambda: report.format_synth(made), lambda: vars(made))
