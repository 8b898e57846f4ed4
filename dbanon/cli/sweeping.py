"""The command that sweeps over settings."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dbanon.cli._options import add_options
from dbanon.cli._shared import GLOBAL_EPILOG, app, open_database, show
from dbanon.cli.runs import Method
from dbanon.options.sweeping import Sweeping


@app.command(epilog=GLOBAL_EPILOG)
@add_options(Sweeping)
def sweep(
    method: Method,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a page (.html) or a table (.csv).")
    ] = None,
    **asked: Any,
) -> None:
    """Compute, attack and measure every combination of some values of parameters. Nothing is published.

    Interrupted, the same command goes on where it was.
    """
    from dbanon.base.tasks import Processes
    from dbanon.cli import report, sweep_file

    if output is not None:
        sweep_file.demand_known(output)
    with open_database() as database:
        database.tasks = Processes()
        found = database.sweep(method, **asked)
    if output is not None:
        sweep_file.write(output, found)
    show(lambda: report.format_sweep(found, output), lambda: report.make_sweep_json(found, output))
