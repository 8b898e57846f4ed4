"""Shared by all commands: the program they belong to, the options of every command, how results are shown.

Modules that are slow to import are imported by the commands that need them, so that ``--help`` is quick.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from dbanon.base.errors import ParameterError

if TYPE_CHECKING:
    from dbanon.database import Database

GLOBAL_EPILOG = "Everywhere: --dsn DSN, --json, --debug (see 'dbanon --help')."

_SECTIONS = {  # of the help, in the order of the work
    "Data": ("load", "import", "synth", "datasets", "drop-load", "forget", "remember", "forget-before", "drop-dataset"),
    "Runs": ("methods", "plan", "sweep", "run", "submit", "worker", "runs", "cancel", "verify", "evaluate", "drop"),
    "Releases": ("publish", "unpublish", "releases", "card", "report", "compare", "export"),
    "Every night": ("job", "check"),
    "Server": ("db", "demo"),
}


class _InSections(TyperGroup):
    """Lists its commands under the titles of `_SECTIONS`."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections, and those in none of them last."""
        width = max(map(len, self.commands))
        named = [name for names in _SECTIONS.values() for name in names]
        shown = [name for name, command in self.commands.items() if not command.hidden]
        sections = {**_SECTIONS, "Others": [name for name in shown if name not in named]}
        for title, names in sections.items():
            helps = {name: self.commands[name].get_short_help_str(formatter.width - 6 - width) for name in names}
            if helps:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), line) for name, line in helps.items()])


def _group(help_text: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None, add_completion=False, cls=cls)


app = _group(
    "Publish trajectories from PostGIS as cloaked views that are attacked before an analyst may read them.", _InSections
)
db_app = _group("The embedded server, and the schema on any server.")
load_app = _group("Load data files into a dataset.")
job_app = _group("Work of every night: load new rows, publish them as a part of a release, forget old rows.")
app.add_typer(db_app, name="db", epilog=GLOBAL_EPILOG)
app.add_typer(load_app, name="load", epilog=GLOBAL_EPILOG)
app.add_typer(job_app, name="job", epilog=GLOBAL_EPILOG)


@dataclass
class _Everywhere:
    dsn: str | None = None
    json: bool = False
    debug: bool = False


everywhere = _Everywhere()
"""What was given of the options that every command has."""


def _print_version(value: bool) -> None:
    if value:
        from dbanon import __version__

        print(f"dbanon {__version__}")
        raise typer.Exit


@app.callback()
def _set_globals(
    dsn: Annotated[
        str | None,
        typer.Option(
            help="Database: URI, key=value, service=NAME or SQLAlchemy URL. Without it: DBANON_DSN, the PG* "
            "variables, or the embedded server, in this order."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version)] = False,
) -> None:
    everywhere.dsn, everywhere.json, everywhere.debug = dsn, as_json, debug


def open_database() -> "Database":
    from dbanon import database
    from dbanon.base.console import replace_stderr_line
    from dbanon.base.progress import Display

    opened = database.open_database(everywhere.dsn, announce=replace_stderr_line)
    opened.progress = Display(writes_lines=True)
    return opened


DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done. It takes as long, and is undone.")]


@contextmanager
def open_to_try(dry_run: bool, end_readers: bool = False) -> Iterator["Database"]:
    """Open the database; in a dry run all that the block does there is undone at its end."""
    if dry_run and end_readers:
        raise ParameterError("A dry run must not end sessions, which stay ended. Got --end-readers. Leave it out.")
    with open_database() as opened, opened.connection.transaction(force_rollback=True) if dry_run else nullcontext():
        yield opened


def show(text: Callable[[], str], value: Callable[[], Any], dry_run: bool = False) -> None:
    from dbanon.base import console
    from dbanon.cli import report

    if everywhere.json:
        print(report.format_json({**value(), "dry_run": True} if dry_run else value()))
    else:
        console.print_out(text() + "\nThis was a dry run. Nothing was changed." * dry_run)


def say(notices: tuple[str, ...]) -> None:
    from dbanon.base.console import replace_stderr_line

    for notice in notices:
        replace_stderr_line(notice)


Dataset = Annotated[str, typer.Option("--dataset", help="Name of the dataset.")]
