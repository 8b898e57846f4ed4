"""The command line: parse, call, print, exit code. No logic.

Exit codes: 0 done; 2 bad usage or parameter; 3 bad data; 4 infeasible; 5 refused by the attack; 128 + n stopped by
signal n (130 is Ctrl-C, 143 SIGTERM); 1 anything else.
Modules that are slow to import are imported by the commands that need them, so that ``--help`` is quick.
"""

import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dbanon._stopping import Stopping
from dbanon.errors import DbanonError, ParameterError

if TYPE_CHECKING:
    from dbanon.load import LoadReport
    from dbanon.loading._datasets import Mode
    from dbanon.pipeline import Database

GLOBAL = "Everywhere: --dsn DSN, --json, --debug (see 'dbanon --help')."


def _group(help_text: str) -> typer.Typer:
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


app = _group("Publish trajectories from PostGIS as cloaked views that are attacked before anyone may read them.")
db_app = _group("The embedded server, and the schema on any server.")
load_app = _group("Load data files into a dataset.")
app.add_typer(db_app, name="db", epilog=GLOBAL)
app.add_typer(load_app, name="load", epilog=GLOBAL)


@dataclass
class _Options:
    dsn: str | None = None
    json: bool = False
    debug: bool = False


_options = _Options()


def _version(asked: bool) -> None:
    if asked:
        from dbanon import __version__

        print(f"dbanon {__version__}")
        raise typer.Exit


@app.callback()
def _everywhere(
    dsn: Annotated[
        str | None,
        typer.Option(
            help="Database: URI, key=value, service=NAME or SQLAlchemy URL. Else DBANON_DSN, else the PG* variables, "
            "else the embedded server."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version)] = False,
) -> None:
    _options.dsn, _options.json, _options.debug = dsn, as_json, debug


def _open() -> "Database":
    from dbanon.pipeline import open_database
    from dbanon.report import stderr_line

    return open_database(_options.dsn, announce=stderr_line)


def _print(text: Callable[[], str], value: Callable[[], Any]) -> None:
    from dbanon.report import as_json

    print(as_json(value()) if _options.json else text())


# ---- db ------------------------------------------------------------------------------------------------------------


@db_app.command("up", epilog=GLOBAL)
def db_up() -> None:
    """Start the embedded server and migrate it."""
    from dbanon import schema, server

    target = server.EmbeddedServer().start()
    revision = schema.upgrade(target.url)
    _print(lambda: f"{target.label} is up at revision {revision}", lambda: {"url": target.url, "revision": revision})


@db_app.command("down", epilog=GLOBAL)
def db_down() -> None:
    """Stop the embedded server."""
    from dbanon import server

    stopped = server.EmbeddedServer().stop()
    _print(lambda: "The embedded server is down." if stopped else "It was not running.", lambda: {"stopped": stopped})


@db_app.command("status", epilog=GLOBAL)
def db_status() -> None:
    """Say whether the embedded server runs, where, and with which version."""
    from dbanon import report, server

    status = vars(server.EmbeddedServer().status())
    _print(lambda: report.table(["embedded server", ""], list(status.items())), lambda: status)


@db_app.command("url", epilog=GLOBAL)
def db_url(
    user: Annotated[str | None, typer.Option(help="Log in as this role, such as an analyst's.")] = None,
) -> None:
    """Print a URL that psql, QGIS and pandas can connect with."""
    from dbanon import server

    url = server.resolve(_options.dsn).url
    if user is not None:
        url = server.uri({**server.parse(url), "user": user})
    _print(lambda: url, lambda: {"url": url})


@db_app.command("upgrade", epilog=GLOBAL)
def db_upgrade() -> None:
    """Create or upgrade dbanon's schema on the chosen server."""
    from dbanon import schema, server, store
    from dbanon.report import stderr_line

    target = server.resolve(_options.dsn)
    stderr_line(target.label)
    with store.errors_translated():
        revision = schema.upgrade(target.url)
        if schema.statistics_are_open(target.url):
            stderr_line(
                "The server's counters and PostGIS's estimates of the private tables stay readable for every login: "
                "this one may not take them from PUBLIC. Upgrade once as a superuser, or see docs/limitations.md."
            )
    _print(lambda: f"The schema is at revision {revision}.", lambda: {"revision": revision})


@db_app.command(
    "psql",
    epilog=GLOBAL,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def db_psql(context: typer.Context) -> None:
    """Open psql on the chosen server; arguments are passed on."""
    from dbanon import server
    from dbanon.report import stderr_line

    target = server.resolve(_options.dsn)
    stderr_line(target.label)
    raise typer.Exit(server.psql(target.url, context.args))


# ---- load ----------------------------------------------------------------------------------------------------------

Dataset = Annotated[str, typer.Option("--dataset", help="Name of the dataset.")]
Subject = Annotated[str, typer.Option("--subject", help="Column of the person or vehicle; '-' makes each row its own.")]
Time = Annotated[str, typer.Option("--time", help="Column of the time: unix seconds or milliseconds, or ISO 8601.")]
Trip = Annotated[str | None, typer.Option("--trip", help="Column that tells a subject's trips apart.")]
Zone = Annotated[str | None, typer.Option("--tz", help="Time zone of times that name none, such as Europe/Berlin.")]
Srid = Annotated[int | None, typer.Option("--srid", help="Metric SRID of the dataset; else the UTM zone of the data.")]
GridM = Annotated[float, typer.Option("--grid-m", help="Side of a space cell in metres.")]
GridS = Annotated[int, typer.Option("--grid-s", help="Length of a time slot in seconds.")]
SplitGap = Annotated[
    int | None, typer.Option("--split-gap-s", help="Cut a trajectory where no fix came for longer (s).")
]
Box = Annotated[
    str | None,
    typer.Option(
        "--bbox",
        metavar="XMIN,YMIN,XMAX,YMAX",
        help="Leave out what lies outside, in units of the source; XMIN above XMAX crosses the antimeridian.",
    ),
]
DropOutliers = Annotated[
    bool, typer.Option("--drop-outliers", help="Leave out what lies far outside the rest, not only count it.")
]
Append = Annotated[bool, typer.Option("--append", help="Add to an existing dataset.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace an existing dataset's trajectories; requests and sites stay.")
]


def _mode(append: bool, replace: bool) -> "Mode":
    if append and replace:
        raise ParameterError("Only one of --append and --replace may be given. Got both; choose one.")
    return "append" if append else "replace" if replace else "create"


def _box(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        west, south, east, north = (float(number) for number in text.split(","))
    except ValueError:
        raise ParameterError(
            "A box must be four numbers XMIN,YMIN,XMAX,YMAX. Got something else; change --bbox."
        ) from None
    return west, south, east, north


def _load_options(append: bool, replace: bool, *, bbox: str | None, **options: Any) -> dict[str, Any]:
    """Make of what was typed the options of `dbanon.load.Options`."""
    return {**options, "mode": _mode(append, replace), "bbox": _box(bbox)}


@load_app.command("trajectories", epilog=GLOBAL)
def load_trajectories(
    files: Annotated[  # whether it can be read is for the loader to say: there it is bad data, not bad usage
        list[Path], typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one fix a row.")
    ],
    dataset: Dataset,
    subject: Subject = "subject",
    time: Time = "time",
    x: Annotated[str, typer.Option(help="Column of the longitude or easting.")] = "x",
    y: Annotated[str, typer.Option(help="Column of the latitude or northing.")] = "y",
    trip: Trip = None,
    crs: Annotated[str, typer.Option(help="Coordinate system of the file.")] = "EPSG:4326",
    srid: Srid = None,
    grid_m: GridM = 1.0,
    grid_s: GridS = 1,
    split_gap_s: SplitGap = None,
    tz: Zone = None,
    bbox: Box = None,
    drop_outliers: DropOutliers = False,
    append: Append = False,
    replace: Replace = False,
) -> None:
    """Load trajectories; creates the dataset."""
    from dbanon.load import Columns

    columns = Columns(subject=subject, time=time, x=x, y=y, trip=trip)
    options = _load_options(
        append, replace, crs=crs, srid=srid, grid_m=grid_m, grid_s=grid_s, tz=tz, split_gap_s=split_gap_s, bbox=bbox,
        drop_outliers=drop_outliers,
    )  # fmt: skip
    _load(
        lambda database, progress: database.load_trajectories(
            files, dataset=dataset, columns=columns, progress=progress, **options
        )
    )


@app.command("import", epilog=GLOBAL)
def import_table(
    table: Annotated[str, typer.Argument(help="Table or view of the same database, one fix a row.")],
    dataset: Dataset,
    subject: Annotated[str, typer.Option(help="Column of the person or vehicle; '-' makes each row its own.")],
    time: Annotated[str, typer.Option(help="Column of the time: a timestamp, or unix seconds or milliseconds.")],
    geom: Annotated[
        str, typer.Option(help="Column of the position: a point, or a shape, whose bounding rectangle counts.")
    ],
    trip: Trip = None,
    crs: Annotated[str | None, typer.Option(help="Coordinate system of the points; else their own.")] = None,
    srid: Srid = None,
    grid_m: GridM = 1.0,
    grid_s: GridS = 1,
    split_gap_s: SplitGap = None,
    tz: Zone = None,
    bbox: Box = None,
    drop_outliers: DropOutliers = False,
    append: Append = False,
    replace: Replace = False,
) -> None:
    """Load trajectories from a table that is in the database already, without leaving it."""
    from dbanon.load import TableColumns

    columns = TableColumns(subject=subject, time=time, geom=geom, trip=trip)
    options = _load_options(
        append, replace, crs=crs, srid=srid, grid_m=grid_m, grid_s=grid_s, tz=tz, split_gap_s=split_gap_s, bbox=bbox,
        drop_outliers=drop_outliers,
    )  # fmt: skip
    _load(
        lambda database, progress: database.import_trajectories(
            table, dataset=dataset, columns=columns, progress=progress, **options
        )
    )


@load_app.command("requests", epilog=GLOBAL)
def load_requests(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one request a row.")
    ],
    dataset: Dataset,
    columns: Annotated[str, typer.Option(help="Columns that become the request's name-value pairs: a,b,c.")],
    subject: Annotated[str, typer.Option(help="Column of the sender, as the trajectories name them.")] = "subject",
    time: Time = "time",
    tz: Zone = None,
) -> None:
    """Load the requests subjects sent to a location-based service."""
    names = [name.strip() for name in columns.split(",") if name.strip()]
    _load(
        lambda database, progress: database.load_requests(
            file, dataset=dataset, columns=names, subject=subject, time=time, tz=tz, progress=progress
        )
    )


@load_app.command("sites", epilog=GLOBAL)
def load_sites(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="CSV (also .gz) or Parquet, one site a row.")
    ],
    dataset: Dataset,
    x: Annotated[str | None, typer.Option(help="Column of the longitude or easting; else 'x'.")] = None,
    y: Annotated[str | None, typer.Option(help="Column of the latitude or northing; else 'y'.")] = None,
    name: Annotated[str | None, typer.Option(help="Column of the site's name.")] = None,
    geom: Annotated[
        str | None, typer.Option(help="Column of the site's shape as WKT without curves, instead of x and y.")
    ] = None,
    crs: Annotated[str, typer.Option(help="Coordinate system of the file.")] = "EPSG:4326",
    bbox: Annotated[
        str | None,
        typer.Option(
            "--bbox",
            metavar="XMIN,YMIN,XMAX,YMAX",
            help="Leave out sites whose middle lies outside, in units of the file; XMIN above XMAX crosses the "
            "antimeridian.",
        ),
    ] = None,
    drop_outliers: Annotated[
        bool,
        typer.Option(
            "--drop-outliers", help="Leave out sites far outside where the trajectories are, not only count them."
        ),
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Delete the dataset's sites first.")] = False,
) -> None:
    """Load sensitive sites, places nobody may be tied to, into an existing dataset, beside those it has."""
    from dbanon.load import SiteColumns

    columns = SiteColumns(x=x, y=y, name=name, geom=geom)
    box = _box(bbox)
    _load(
        lambda database, progress: database.load_sites(
            file, dataset=dataset, columns=columns, crs=crs, bbox=box, drop_outliers=drop_outliers, replace=replace,
            progress=progress,
        )
    )  # fmt: skip


def _load(work: Callable[["Database", Any], "LoadReport"]) -> None:
    from dbanon import report

    with _open() as database, report.Progress() as progress:
        loaded = work(database, progress)
    _print(lambda: report.load_text(loaded), lambda: report.load_json(loaded))
    _say(loaded.notices)


RunId = Annotated[int, typer.Argument(metavar="RUN", min=1, max=2**63 - 1, help="The run's number.")]
TakePlace = Annotated[bool, typer.Option("--replace", help="Take the place of the live release of that name.")]
AllowOverlap = Annotated[
    bool,
    typer.Option("--allow-overlap", help="Publish though too few are left where it overlaps earlier releases."),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why that is allowed; recorded.")]


# ---- runs ----------------------------------------------------------------------------------------------------------


@app.command("methods", epilog=GLOBAL)
def list_methods() -> None:
    """List every method, algorithm and parameter with its unit, default and limits."""
    from dbanon import methods, report

    described = [(family, methods.describe(family)) for family in methods.METHODS.values()]
    _print(lambda: report.methods_text(described), lambda: report.methods_json(described))


Method = Annotated[str, typer.Argument(help="The method family; see 'dbanon methods'.")]
AlgorithmName = Annotated[str | None, typer.Option("--algorithm", help="The algorithm; else the family's first.")]
Parameters = Annotated[list[str] | None, typer.Option("-p", metavar="NAME=VALUE", help="A parameter; may be repeated.")]
Seed = Annotated[int | None, typer.Option(help="Same data, parameters and seed: same cloaks.")]


@app.command(epilog=GLOBAL)
def run(
    method: Method,
    dataset: Dataset,
    algorithm: AlgorithmName = None,
    parameter: Parameters = None,
    seed: Seed = None,
    publish: Annotated[str | None, typer.Option(help="Publish under this name if the attack finds nothing.")] = None,
    replace: TakePlace = False,
    allow_overlap: AllowOverlap = False,
    reason: Reason = None,
) -> None:
    """Compute cloaks, write them, attack them, and publish them if asked to."""
    from dbanon import report

    params = _params(parameter or [])
    with _open() as database, report.Progress() as progress:
        result = database.run(
            method,
            dataset=dataset,
            algorithm=algorithm,
            params=params,
            seed=seed,
            publish=publish,
            replace=replace,
            allow_overlap=allow_overlap,
            reason=reason,
            progress=progress,
        )
    _print(lambda: report.run_text(result), lambda: report.run_json(result))
    _say(result.notices)
    result.require_verified()


@app.command(epilog=GLOBAL)
def submit(
    method: Method,
    dataset: Dataset,
    algorithm: AlgorithmName = None,
    parameter: Parameters = None,
    seed: Seed = None,
) -> None:
    """Queue a run for the next worker that is free, and return at once."""
    params = _params(parameter or [])
    with _open() as database:
        run_id = database.submit(method, dataset=dataset, algorithm=algorithm, params=params, seed=seed)
    _print(lambda: f"Run {run_id} is queued; watch it with: dbanon runs", lambda: {"run_id": run_id})


@app.command(epilog=GLOBAL)
def cancel(run_id: RunId) -> None:
    """End a run that waits or is being computed; nothing it wrote stays."""
    with _open() as database:
        status = database.cancel(run_id)
    _print(lambda: f"Run {run_id} is {status}.", lambda: {"run_id": run_id, "status": status})


@app.command(epilog=GLOBAL)
def worker(
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Runs that go at once.")] = 1,
    grace_s: Annotated[
        float,
        typer.Option(min=0, help="How long a run may go on when the worker is told to stop; then it goes back (s)."),
    ] = 5.0,
    lock_dsn: Annotated[
        str | None,
        typer.Option(help="Straight way to the server for connections that hold locks, where --dsn is a pooler."),
    ] = None,
) -> None:
    """Take runs from the queue and finish them, until stopped by Ctrl-C or SIGTERM."""
    from dbanon.report import stderr_line
    from dbanon.worker import serve

    if lock_dsn is not None:
        os.environ["DBANON_LOCK_DSN"] = lock_dsn
    serve(_options.dsn, jobs=jobs, grace_s=grace_s, say=stderr_line)


@app.command(epilog=GLOBAL)
def plan(method: Method, dataset: Dataset, algorithm: AlgorithmName = None, parameter: Parameters = None) -> None:
    """Say what a run would meet, how much it would write and about how long it would take; writes nothing."""
    from dbanon import report

    params = _params(parameter or [])
    with _open() as database:
        items = database.plan(method, dataset=dataset, algorithm=algorithm, params=params)
    _print(lambda: report.plan_text(items), lambda: report.plan_json(items))


@app.command(epilog=GLOBAL)
def verify(run_id: RunId) -> None:
    """Attack the stored rows of a run again."""
    from dbanon import report

    with _open() as database, report.Progress() as progress:
        result = database.verify(run_id, progress=progress)
    _print(lambda: report.run_text(result), lambda: report.run_json(result))
    result.require_verified()


@app.command(epilog=GLOBAL)
def publish(
    run_id: RunId,
    name: Annotated[str, typer.Argument(help="Name of the view in the schema published.")],
    replace: TakePlace = False,
    allow_overlap: AllowOverlap = False,
    reason: Reason = None,
) -> None:
    """Make a verified run a view in the schema published."""
    from dbanon import report

    with _open() as database:
        rows, notices = database.publish(run_id, name, replace=replace, allow_overlap=allow_overlap, reason=reason)
    value = {"run_id": run_id, "release": name, "rows_published": rows, "notices": list(notices)}
    _print(lambda: report.published_text(name, rows), lambda: value)
    _say(notices)


@app.command(epilog=GLOBAL)
def unpublish(name: Annotated[str, typer.Argument(help="Name of the view in the schema published.")]) -> None:
    """Withdraw a release."""
    with _open() as database:
        database.unpublish(name)
    _print(lambda: f"Withdrew published.{name}.", lambda: {"release": name, "withdrawn": True})


@app.command("runs", epilog=GLOBAL)
def list_runs() -> None:
    """List all runs."""
    from dbanon import report

    with _open() as database:
        rows = database.runs()
    header = ["run_id", "dataset", "method", "algorithm", "status", "releases", "created_at", "error"]
    _print(lambda: report.table(header, [[row[h] for h in header] for row in rows]), lambda: {"runs": rows})


@app.command("releases", epilog=GLOBAL)
def list_releases() -> None:
    """List all releases, withdrawn ones too."""
    from dbanon import report

    with _open() as database:
        rows = database.releases()
    header = ["name", "live", "run_id", "dataset", "method", "k", "rows", "published_at", "withdrawn_at"]
    _print(lambda: report.table(header, [[row[h] for h in header] for row in rows]), lambda: {"releases": rows})


@app.command(epilog=GLOBAL)
def card(name: Annotated[str, typer.Argument(help="Name of a release, live or withdrawn.")]) -> None:
    """Describe a release: what it promises, what was attacked and left out, who published it and when."""
    from dbanon import report

    with _open() as database:
        described = database.card(name)
    _print(lambda: report.card_text(described), lambda: described)


@app.command(epilog=GLOBAL)
def drop(run_id: RunId) -> None:
    """Delete a run that was never published and that nobody works on."""
    with _open() as database:
        rows = database.drop(run_id)
    _print(lambda: f"Dropped run {run_id} and its {rows:,} rows.", lambda: {"run_id": run_id, "rows_dropped": rows})


@app.command(epilog=GLOBAL)
def forget(
    dataset: Dataset,
    subject: Annotated[str, typer.Option("--subject", help="The person or vehicle, as the data name it.")],
) -> None:
    """Erase a subject from a dataset, and drop the runs with it that were never published."""
    from dbanon import report

    with _open() as database:
        erased, notices = database.forget(dataset, subject)
    value = {"dataset": dataset, "erased": erased, "notices": list(notices)}
    _print(lambda: report.table([f"erased from dataset {dataset}", "count"], list(erased.items())), lambda: value)
    _say(notices)


# ---- synth ---------------------------------------------------------------------------------------------------------


@app.command(epilog=GLOBAL)
def synth(
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
    append: Annotated[bool, typer.Option("--append", help="Add more subjects to an existing dataset.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace all that is in an existing dataset, or the CSV files.")
    ] = False,
) -> None:
    """Generate people and vehicles that move along streets, and requests they send.

    They go from place to place by the quickest way, each at a speed of its own, but never above what its kind (car,
    bus, bicycle, pedestrian) or the street allows. The streets are those of a small built-in city, or of any network
    given as two files. Nobody in the data is real.
    """
    from dbanon import report
    from dbanon.pipeline import synth_files

    if (dataset is None) == (csv is None):
        raise ParameterError("Either --dataset NAME or --csv DIR must be given. Got both or neither; choose one.")
    plan: dict[str, Any] = {
        "objects": objects, "instants": instants, "step_s": step_s, "start": start, "seed": seed,
        "whole_share": whole_share, "requests_per_subject": requests_per_subject, "destinations": destinations,
        "blocks": blocks, "nodes": nodes, "edges": edges, "limits": limits, "srid": srid, "lon": lon, "lat": lat,
    }  # fmt: skip
    if csv is not None:
        if append or grid_m != 1.0 or grid_s != 1:
            raise ParameterError(
                "--append, --grid-m and --grid-s are for datasets. Got one with --csv; leave it out, and give the grid "
                "when you load the files."
            )
        with report.Progress() as progress:
            made = synth_files(csv, replace=replace, progress=progress, **plan)
    else:
        mode = _mode(append, replace)
        with _open() as database, report.Progress() as progress:
            made = database.synth(str(dataset), grid_m=grid_m, grid_s=grid_s, mode=mode, progress=progress, **plan)
    _print(lambda: report.synth_text(made), lambda: report.synth_json(made))


@app.command(epilog=GLOBAL)
def demo() -> None:
    """Go the whole way on a small generated city, and show rows of the published view."""
    from dbanon import demo as whole_way
    from dbanon import report

    with _open() as database, report.Progress() as progress:
        shown = whole_way.play(database, progress)
    _print(lambda: whole_way.text(shown), lambda: whole_way.as_dict(shown))
    _say(shown.result.notices)


# ---- plumbing ------------------------------------------------------------------------------------------------------


def _params(texts: list[str]) -> dict[str, str]:
    params: dict[str, str] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not name:
            raise ParameterError(f"A parameter must be given as -p name=value. Got '{text}'; for example -p k=5.")
        if name in params:
            raise ParameterError(f"A parameter must be given once. Got '{name}' twice; leave one out.")
        params[name] = value
    return params


def _say(notices: tuple[str, ...]) -> None:
    from dbanon.report import stderr_line

    for notice in notices:
        stderr_line(notice)


def _hoist(arguments: list[str]) -> list[str]:
    """Move the options that are meant everywhere to the front, where Click looks for them; psql's own stay its own."""
    front: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--" or (argument == "psql" and rest[-1:] == ["db"]):
            rest += [argument, *waiting]
        elif argument in ("--json", "--debug") or argument.startswith("--dsn="):
            front.append(argument)
        elif argument == "--dsn":
            front += [argument, *(value for value in [next(waiting, None)] if value is not None)]
        else:
            rest.append(argument)
    return front + rest


def _demand_text(arguments: list[str]) -> None:
    """Refuse bytes that are no text: the system hands them on as lone surrogates, which no server or terminal takes."""
    if any(0xD800 <= ord(letter) <= 0xDFFF for argument in arguments for letter in argument):
        raise ParameterError(
            "Arguments must be UTF-8 text. Got one that is not; rename the file or set a UTF-8 locale."
        )


def _fail_stopped(number: int | None) -> NoReturn:
    _fail(
        "The command must be left to end. It was interrupted, and what it had not finished is undone; run it again.",
        128 + (number or signal.SIGINT),
    )


def _usage(error: typer.TyperException) -> str:
    """What the command line's parser says, with a pointer to the help of the command it was about."""
    told = " ".join((error.format_message() if hasattr(error, "format_message") else str(error)).split())
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dbanon"
    return f"{told}{'' if told.endswith(('.', '?')) else '.'} See '{command} --help'."


def _fail(sentence: str, code: int) -> NoReturn:
    if _options.debug:
        traceback.print_exc()
    # A name that was given wrongly is quoted, and may hold anything: line ends, and what terminals obey.
    sentence = "".join(letter if letter.isprintable() else " " for letter in sentence)
    with suppress(OSError):  # who has closed the terminal hears nothing
        if _options.json:
            print(json.dumps({"error": sentence, "exit_code": code}))
        print(f"dbanon: {sentence}", file=sys.stderr)
    sys.exit(code)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Parameters
    ----------
    arguments : list of str, optional
        Without the program's name; ``sys.argv`` by default.
    """
    given = _hoist(sys.argv[1:] if arguments is None else arguments)
    _options.json, _options.debug = "--json" in given, "--debug" in given
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it logs what is reported as an error anyway
    stopping = Stopping()
    try:
        with stopping:
            _demand_text(given)
            code = app(given, prog_name="dbanon", standalone_mode=False)
            print(end="", flush=True)  # here a pipe that nobody reads can still be told from success
    except typer.TyperException as error:
        told = _usage(error)
        if told.startswith("Usage:"):  # called without a command: its help, not an error sentence
            print(error.format_message(), file=sys.stderr)
            sys.exit(2)
        _fail(told, 2)
    except (typer.Abort, KeyboardInterrupt):
        _fail_stopped(stopping.number)
    except DbanonError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        _fail(
            f"Something went wrong that should not ({type(error).__name__}). Run again with --debug and report it.", 1
        )
    if stopping.number is not None:  # Typer makes an exit code of it
        _fail_stopped(stopping.number)
    sys.exit(code if isinstance(code, int) else 0)
