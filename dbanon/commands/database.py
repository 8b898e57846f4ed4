"""Commands about the embedded server, and the schema on any server."""

from typing import Annotated

import typer

from dbanon.commands._shared import GLOBAL, db_app, options, show


def _warn_of_dumps(url: str) -> None:
    from dbanon import server, store
    from dbanon.report import stderr_line

    with store.errors_translated():
        if server.dumps_lack_postgis(url):
            stderr_line(
                "A dump of this database lacks the extension postgis, whose OID is below 16384, and does not restore "
                "by itself; move the database once as docs/howto/administrator.md says (Dump and restore), or run "
                "`CREATE EXTENSION postgis` in the new database before pg_restore."
            )


@db_app.command("up", epilog=GLOBAL)
def db_up() -> None:
    """Start the embedded server and migrate it."""
    from dbanon import schema, server

    target = server.EmbeddedServer().start()
    revision = schema.upgrade(target.url)
    _warn_of_dumps(target.url)
    show(lambda: f"{target.label} is up at revision {revision}", lambda: {"url": target.url, "revision": revision})


@db_app.command("down", epilog=GLOBAL)
def db_down() -> None:
    """Stop the embedded server."""
    from dbanon import server

    stopped = server.EmbeddedServer().stop()
    show(lambda: "The embedded server is down." if stopped else "It was not running.", lambda: {"stopped": stopped})


@db_app.command("status", epilog=GLOBAL)
def db_status() -> None:
    """Say whether the embedded server runs, where, and with which version."""
    from dbanon import report, server

    embedded = server.EmbeddedServer()
    status = vars(embedded.status())
    if status["running"]:
        _warn_of_dumps(embedded.url)
    show(lambda: report.table(["embedded server", ""], list(status.items())), lambda: status)


@db_app.command("url", epilog=GLOBAL)
def db_url(
    user: Annotated[str | None, typer.Option(help="Log in as this role, such as an analyst's.")] = None,
) -> None:
    """Print a URL that psql, QGIS and pandas can connect with."""
    from dbanon import server

    url = server.resolve(options.dsn).url
    if user is not None:
        url = server.uri({**server.parse(url), "user": user})
    show(lambda: url, lambda: {"url": url})


@db_app.command("upgrade", epilog=GLOBAL)
def db_upgrade() -> None:
    """Create or upgrade dbanon's schema on the chosen server."""
    from dbanon import schema, server, store
    from dbanon.report import stderr_line

    target = server.resolve(options.dsn)
    stderr_line(target.label)
    with store.errors_translated():
        revision = schema.upgrade(target.url)
        if schema.statistics_are_open(target.url):
            stderr_line(
                "The server's locks and counters and PostGIS's estimates of private tables stay open to every login: "
                "this one may not take them from PUBLIC. Upgrade once as a superuser, or see docs/limitations.md."
            )
        if not schema.operators_read_releases(target.url):
            stderr_line(
                "Operators may not read the releases: this login may not grant that. Run "
                "`GRANT dbanon_analyst TO dbanon_operator` as a superuser."
            )
    _warn_of_dumps(target.url)
    show(lambda: f"The schema is at revision {revision}.", lambda: {"revision": revision})


@db_app.command(
    "psql",
    epilog=GLOBAL,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def db_psql(context: typer.Context) -> None:
    """Open psql on the chosen server; arguments are passed on."""
    from dbanon import server
    from dbanon.report import stderr_line

    target = server.resolve(options.dsn)
    stderr_line(target.label)
    raise typer.Exit(server.psql(target.url, context.args))
