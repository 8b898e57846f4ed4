"""Commands for readers of releases: write files and pages. An analyst's login is enough."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dbanon.base.errors import format_count
from dbanon.cli._options import add_options
from dbanon.cli._shared import GLOBAL_EPILOG, app, open_database, show
from dbanon.options import reporting

Release = Annotated[str, typer.Argument(help="Name of a live release.")]


@app.command(epilog=GLOBAL_EPILOG)
def export(
    name: Release,
    file: Annotated[
        Path,
        typer.Argument(
            help="The file to write: .csv, .geojson, .parquet, .gpkg or .fgb. An existing file is replaced."
        ),
    ],
    where: Annotated[str | None, typer.Option(help="Only rows that meet this SQL condition on the columns.")] = None,
) -> None:
    """Write a release to a file: CSV, GeoJSON, GeoParquet, GeoPackage or FlatGeobuf. Its metadata hold the promise."""
    with open_database() as database:
        rows = database.export(name, file, where=where)
    value = {"release": name, "file": str(file), "rows": rows}
    show(lambda: f"Wrote {format_count(rows, 'row')} of published.{name} to {file}.", lambda: value)


@app.command(epilog=GLOBAL_EPILOG)
@add_options(reporting.Reporting)
def report(
    what: Annotated[str, typer.Argument(metavar="NAME|RUN", help="A live release, or the number of a run.")],
    **options: Any,
) -> None:
    """Write a page about a release or run: promise, attack, maps, shares left out. One HTML file without scripts."""
    options["output"] = options["output"] or Path(f"{what}.html")
    with open_database() as database:
        file = database.report(_parse_target(what), **options)
    show(lambda: f"Wrote {file}", lambda: {"what": what, "file": str(file), "private": options["with_truth"]})


@app.command(epilog=GLOBAL_EPILOG)
@add_options(reporting.Writing)
def compare(
    one: Annotated[str, typer.Argument(metavar="A", help="A live release, or the number of a run.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another live release, or the number of a run.")],
    **options: Any,
) -> None:
    """Write a page of two releases or runs side by side. Different methods are not ranked."""
    options["output"] = options["output"] or Path(f"{one}-{other}.html")
    with open_database() as database:
        file = database.compare(_parse_target(one), _parse_target(other), **options)
    show(lambda: f"Wrote {file}", lambda: {"one": one, "other": other, "file": str(file)})


def _parse_target(text: str) -> str | int:
    """Read the number of a run, or the name of a release, which begins with a letter."""
    return int(text) if text.isdecimal() and len(text) < 19 else text
