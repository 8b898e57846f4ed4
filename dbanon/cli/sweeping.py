"""The command that sweeps over settings."""

import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbanon.base.errors import ParameterError
from dbanon.cli._options import add_options
from dbanon.cli._shared import GLOBAL_EPILOG, app, open_database, show
from dbanon.cli.runs import Method
from dbanon.options.sweeping import Sweeping

if TYPE_CHECKING:
    from dbanon.results.sweep import Sweep


@app.command(epilog=GLOBAL_EPILOG)
@add_options(Sweeping)
def sweep(
    method: Method,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a page (.html) or a table (.csv).")
    ] = None,
    **options: Any,
) -> None:
    """Compute, attack and measure every combination of some values of parameters. Nothing is published.

    Interrupted, the same command goes on where it was.
    """
    from dbanon.base.tasks import Processes
    from dbanon.cli import report

    if output is not None:
        _demand_known(output)
    with open_database() as database:
        database.tasks = Processes()
        result = database.sweep(method, **options)
    if output is not None:
        _write(output, result)
    show(lambda: report.format_sweep(result, output), lambda: report.make_sweep_json(result, output))


def _demand_known(file: Path) -> None:
    """Raise `ParameterError`, before hours are spent, for a file of another kind or in a folder that does not exist."""
    if not file.parent.is_dir():
        raise ParameterError("The folder of the file must exist. Got one that does not. Make it first.")
    if file.suffix not in (".html", ".csv"):
        raise ParameterError(f"A sweep must be written as .html or .csv. Got '{file.name[:60]}'. Change its suffix.")


def _write(file: Path, result: "Sweep") -> None:
    """Write the page or the table."""
    from dbanon.pages.sweep import make_page
    from dbanon.releases import export

    text = make_page(result, version=importlib.metadata.version("dbanon")) if file.suffix == ".html" else result.csv()
    export.write_text(file, text, private=True)
