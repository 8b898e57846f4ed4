"""Commands about datasets: listed, emptied of what is too old or was loaded wrongly, dropped."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbanon.base.errors import ParameterError, format_count
from dbanon.cli._shared import GLOBAL_EPILOG, app, open_database, say, show

if TYPE_CHECKING:
    from dbanon.database import Database
    from dbanon.load.retention import Erased

Name = Annotated[str, typer.Argument(help="Name of the dataset.")]


@app.command("datasets", epilog=GLOBAL_EPILOG)
def list_datasets() -> None:
    """List the datasets, and how much is in each."""
    from dbanon.cli import report

    with open_database() as database:
        rows = database.datasets()
    header = [
        "name",
        "population",
        "subjects",
        "trajectories",
        "fixes",
        "since",
        "until",
        "srid",
        "mb",
        "last_load",
        "live_releases",
    ]
    shown = [{**row, "srid": str(row["srid"]), "mb": row["bytes"] / 1e6} for row in rows]
    show(lambda: report.format_table(header, [[row[h] for h in header] for row in shown]), lambda: {"datasets": rows})


@app.command("drop-dataset", epilog=GLOBAL_EPILOG)
def drop_dataset(name: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete a dataset without a live release, its loads and runs. Published releases stay on record."""
    with open_database() as database:
        if not (yes or _confirm_drop(database, name)):
            show(lambda: "Nothing was dropped.", lambda: {"dataset": name, "dropped": False})
            return
        erased = database.drop_dataset(name)
    _show_erased(f"deleted with dataset {name}", {"dataset": name, "dropped": True}, erased)


def _confirm_drop(database: "Database", name: str) -> bool:
    from dbanon.base.console import replace_stderr_line

    rows = database.datasets(name)
    if not rows:  # which is refused
        return True
    held = format_count(rows[0]["trajectories"], "trajectory", "trajectories")
    people = format_count(rows[0]["subjects"], "person", "people")
    replace_stderr_line(f"This deletes dataset {name} with {held} of {people}, its loads and its runs.")
    if not sys.stdin.isatty():
        raise ParameterError("Dropping a dataset must be confirmed. There is no terminal to ask on. Add --yes.")
    return typer.confirm("Delete all of it?", err=True)


@app.command("forget-before", epilog=GLOBAL_EPILOG)
def forget_before(
    dataset: Name,
    time: Annotated[str, typer.Argument(help="A time in the past: ISO 8601 with a zone, or unix seconds.")],
) -> None:
    """Delete data of a dataset from before a time, and unpublished runs that used them. Releases stay."""
    with open_database() as database:
        erased = database.forget_before(dataset, time)
    _show_erased(f"deleted from dataset {dataset}", {"dataset": dataset, "before": time}, erased)


@app.command("drop-load", epilog=GLOBAL_EPILOG)
def drop_load(load_id: Annotated[int, typer.Argument(help="The number of the load, which the load printed.")]) -> None:
    """Take a load back: its rows, and unpublished runs that may have read them. Rows it replaced stay gone."""
    with open_database() as database:
        erased = database.drop_load(load_id)
    _show_erased(f"deleted with load {load_id}", {"load_id": load_id}, erased)


def _show_erased(heading: str, value: dict[str, Any], erased: "Erased") -> None:
    from dbanon.cli import report

    rows, notices = erased
    show(
        lambda: report.format_table([heading, "count"], list(rows.items())),
        lambda: {**value, "erased": rows, "notices": list(notices)},
    )
    say(notices)
