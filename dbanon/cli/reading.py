"""Commands for those who read releases: written to files, and drawn by QGIS. An analyst's login is enough."""

from pathlib import Path
from typing import Annotated

import typer

from dbanon.base.errors import counted
from dbanon.cli._shared import GLOBAL, app, open_database, show

Release = Annotated[str, typer.Argument(help="Name of a live release.")]


@app.command(epilog=GLOBAL)
def export(
    name: Release,
    file: Annotated[Path, typer.Argument(help="Ends in .parquet, .gpkg, .fgb or .csv; replaced if there.")],
    where: Annotated[str | None, typer.Option(help="Only rows that meet this SQL condition on the columns.")] = None,
) -> None:
    """Write a release to a file: GeoParquet, GeoPackage, FlatGeobuf or CSV, with its promise in the metadata."""
    with open_database() as database:
        rows = database.export(name, file, where=where)
    value = {"release": name, "file": str(file), "rows": rows}
    show(lambda: f"Wrote {counted(rows, 'row')} of published.{name} to {file}.", lambda: value)


@app.command(epilog=GLOBAL)
def style(
    name: Release,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file, usually .qml; replaced if there.")],
) -> None:
    """Write a style for QGIS: regions by crowd in colours, exact rows apart, and the columns of the time."""
    with open_database() as database:
        database.style(name, output)
    value = {"release": name, "file": str(output)}
    show(lambda: f"Wrote a style for published.{name} to {output}.", lambda: value)
