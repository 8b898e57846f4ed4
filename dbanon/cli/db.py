"""Commands about the embedded server, and the schema on any server."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dbanon.cli._shared import GLOBAL_EPILOG, db_app, everywhere, show

if TYPE_CHECKING:
    from dbanon.postgres.server import Target


def _warn_of_dumps(url: str) -> None:
    from dbanon.base.console import replace_stderr_line
    from dbanon.postgres import server
    from dbanon.postgres.connection import translate_errors

    with translate_errors():
        if server.lacks_postgis_in_dumps(url):
            replace_stderr_line(
                "A dump of this database lacks the extension postgis, since its OID is below 16384, and does not "
                "restore by itself. Move the database once as docs/administrators/dump-upgrade-remove.md says (Dump "
                "and restore), or run `CREATE EXTENSION postgis` in the new database before pg_restore."
            )


def _resolve_target() -> "Target":
    """Pick the database; an embedded server that was never upgraded is, so that its schema and roles are there."""
    from dbanon import schema
    from dbanon.postgres import server
    from dbanon.postgres.connection import translate_errors

    target = server.resolve(everywhere.dsn)
    if target.embedded:
        with translate_errors():
            schema.upgrade_new(target.url)
    return target


def _compile_beside() -> None:
    """Let a process of its own compile what runs need; it goes on when this one ends."""
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
    quiet = [nothing, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    # Not subprocess.Popen, which warns of a process that nobody waits for.
    command = [sys.executable, "-P", "-m", "dbanon", "_compile"]  # not the dbanon of the current directory
    os.posix_spawn(sys.executable, command, os.environ, file_actions=quiet, setsid=True)


@db_app.command("up", epilog=GLOBAL_EPILOG)
def start_server() -> None:
    """Start the embedded server and migrate it."""
    from dbanon import schema
    from dbanon.postgres import server

    embedded = server.EmbeddedServer()
    is_first = not embedded.data.exists()
    target = embedded.start()
    revision = schema.upgrade(target.url, restrict_public=True)
    if is_first:  # and so the first runs of all methods will come
        _compile_beside()
    _warn_of_dumps(target.url)
    show(lambda: f"{target.label} is up at revision {revision}", lambda: {"url": target.url, "revision": revision})


@db_app.command("down", epilog=GLOBAL_EPILOG)
def stop_server() -> None:
    """Stop the embedded server."""
    from dbanon.postgres import server

    stopped = server.EmbeddedServer().stop()
    show(lambda: "The embedded server is down." if stopped else "It was not running.", lambda: {"stopped": stopped})


@db_app.command("status", epilog=GLOBAL_EPILOG)
def show_status() -> None:
    """Report whether the embedded server runs, where, and with which version."""
    from dbanon.cli import report
    from dbanon.postgres import server

    embedded = server.EmbeddedServer()
    status = vars(embedded.status())
    if status["running"]:
        _warn_of_dumps(embedded.url)
    show(lambda: report.format_table(["embedded server", ""], list(status.items())), lambda: status)


@db_app.command("url", epilog=GLOBAL_EPILOG)
def print_url(
    user: Annotated[str | None, typer.Option(help="The role to log in as, such as that of an analyst.")] = None,
) -> None:
    """Print a URL that psql, QGIS and pandas can connect with."""
    from dbanon.postgres import server

    url = _resolve_target().url
    if user is not None:
        url = server.format_uri({**server.parse(url), "user": user})
    show(lambda: url, lambda: {"url": url})


RolePrefix = Annotated[
    str | None,
    typer.Option(
        help="The roles are called PREFIX_admin, PREFIX_operator, PREFIX_worker and PREFIX_analyst. Chosen once for "
        "each database. Default: dbanon."
    ),
]
ShareRoles = Annotated[
    bool,
    typer.Option("--share-roles", help="Accept the members that roles of these names have on this server already."),
]
RestrictPublic = Annotated[
    bool | None,
    typer.Option(
        "--restrict-public/--no-restrict-public",
        help="Take from PUBLIC in this database the server's locks and counters and PostGIS's estimates, which show "
        "something about private tables, and large objects, which fill the disk. Or give them back. Other "
        "programs there may need them. Later upgrades keep the choice.",
        show_default=False,
    ),
]


@db_app.command("upgrade", epilog=GLOBAL_EPILOG)
def upgrade_schema(
    role_prefix: RolePrefix = None,
    share_roles: ShareRoles = False,
    restrict_public: RestrictPublic = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Name each view and function that is taken from PUBLIC.")
    ] = False,
) -> None:
    """Create or upgrade dbanon's schema on the chosen server."""
    from dbanon import schema
    from dbanon.base.console import replace_stderr_line
    from dbanon.postgres import server
    from dbanon.postgres.connection import translate_errors

    target = server.resolve(everywhere.dsn)
    replace_stderr_line(target.label)
    with translate_errors():
        revision = schema.upgrade(
            target.url,
            role_prefix=role_prefix,
            share_roles=share_roles,
            restrict_public=True if target.embedded else restrict_public,
            say=replace_stderr_line,
            verbose=verbose,
        )
    _warn_of_dumps(target.url)
    show(lambda: f"The schema is at revision {revision}.", lambda: {"revision": revision})


@db_app.command("script", epilog=GLOBAL_EPILOG)
def write_script(
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="REVISION",
            help="Leave out the tables of revisions up to this one, which the database has. Otherwise the script finds "
            "by itself which are missing.",
        ),
    ] = None,
    role_prefix: RolePrefix = None,
    share_roles: ShareRoles = False,
    restrict_public: RestrictPublic = None,
    postgis_schema: Annotated[
        str, typer.Option(help="The schema that PostGIS lives in. The script refuses a database that has it elsewhere.")
    ] = "public",
) -> None:
    """Write an upgrade as SQL, to read or to run with psql. Asks no server."""
    import sys

    from dbanon import schema

    sys.stdout.write(
        schema.write_script(
            role_prefix=role_prefix,
            share_roles=share_roles,
            restrict_public=restrict_public,
            postgis_schema=postgis_schema,
            since=since,
        )
    )


@db_app.command("uninstall", epilog=GLOBAL_EPILOG)
def uninstall_schema(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Remove everything dbanon made in the chosen database, and all objects built on it."""
    import sys

    from dbanon import schema
    from dbanon.base.console import replace_stderr_line
    from dbanon.base.errors import ParameterError, format_count
    from dbanon.postgres import server

    target = server.resolve(everywhere.dsn)
    replace_stderr_line(target.label)

    def confirm(inventory: schema.Inventory) -> bool:
        replace_stderr_line(
            f"This deletes {format_count(inventory.datasets, 'dataset')} with "
            f"{format_count(inventory.trajectories, 'trajectory', 'trajectories')}, "
            f"{format_count(inventory.runs, 'run')} and the "
            f"releases that are live: {', '.join(inventory.releases) or 'none'}."
        )
        for line in inventory.built_on_it:
            replace_stderr_line(f"Built on it, and deleted too: {line}")
        if not yes and not sys.stdin.isatty():
            raise ParameterError("An uninstall must be confirmed. There is no terminal to ask on. Add --yes.")
        return yes or typer.confirm("Delete all of it?", err=True)

    stay = schema.uninstall(target.url, confirm)
    for role, reason in (stay or {}).items():
        replace_stderr_line(f"Role {role} stays: {reason}.")
    if schema.has_installer(target.url):
        replace_stderr_line(
            "Extension dbanon stays, which holds the installer alone. Run `DROP EXTENSION dbanon` as its owner."
        )
    show(
        lambda: "Nothing was removed." if stay is None else "dbanon and all that it made are gone from this database.",
        lambda: {"removed": stay is not None, "roles_left": sorted(stay or ())},
    )


@db_app.command(
    "psql",
    epilog=GLOBAL_EPILOG,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def open_psql(context: typer.Context) -> None:
    """Open psql on the chosen server. Arguments are passed on."""
    from dbanon.base.console import replace_stderr_line
    from dbanon.postgres import server

    target = _resolve_target()
    replace_stderr_line(target.label)
    raise typer.Exit(server.run_psql(target.url, context.args))
