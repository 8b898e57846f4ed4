"""Commands about methods, runs and releases: plan, compute, attack, publish, withdraw."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dbanon.base import extras
from dbanon.base.errors import ParameterError, format_count
from dbanon.cli._options import add_options
from dbanon.cli._shared import GLOBAL_EPILOG, Dataset, DryRun, app, everywhere, open_database, open_to_try, say, show
from dbanon.options import evaluating, make_record, publishing
from dbanon.options.reading import Reading
from dbanon.results.described import Described

if TYPE_CHECKING:
    pass


def _parse_run_id(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**63:
        raise typer.BadParameter("it must be the number of a run, which `dbanon runs` lists")
    return int(text)


RunId = Annotated[
    int, typer.Argument(metavar="RUN", parser=_parse_run_id, help="The run's number, from 'dbanon runs'.")
]
EndReaders = Annotated[
    bool, typer.Option("--end-readers", help="End the sessions that read the release, instead of giving up.")
]


@app.command(epilog=GLOBAL_EPILOG)
def check() -> None:
    """List problems and remedies. Exit code 0: fine, 1: late or odd, 2: held up, 3: not known."""
    from dbanon.base.errors import DbanonError
    from dbanon.cli import report

    try:
        with open_database() as database:
            findings = database.check()
    except DbanonError as error:
        findings = [{"level": 3, "about": "server", "what": str(error), "since": None, "remedy": None}]
    level = max((row["level"] for row in findings), default=0)
    show(lambda: report.format_health(findings), lambda: {"level": level, "findings": findings})
    raise typer.Exit(level)


@app.command("methods", epilog=GLOBAL_EPILOG)
def list_methods(
    name: Annotated[
        str | None,
        typer.Argument(help="The method to show, with its algorithms, and its parameters with unit and limits."),
    ] = None,
) -> None:
    """List the methods, or show all of one."""
    from dbanon import methods
    from dbanon.cli import report

    families = methods.METHODS.values() if name is None else [methods.find_method(name)]
    described = [(family, methods.describe(family)) for family in families]
    show(
        lambda: report.format_methods(described) if name is None else report.format_method(*described[0]),
        lambda: report.make_methods_json(described),
    )


Method = Annotated[str, typer.Argument(help="The method. See 'dbanon methods'.")]


def _end(result: Any) -> None:
    from dbanon.cli import report

    show(lambda: report.format_run(result), lambda: report.make_run_json(result))
    say(result.notices)
    result.require_verified()


@app.command(epilog=GLOBAL_EPILOG)
@add_options(publishing.Running)
def run(method: Method, **options: Any) -> None:
    """Compute cloaks, write them, attack them, and publish them if asked to."""
    with open_database() as database:
        _end(database.run(method, **options))


@app.command(epilog=GLOBAL_EPILOG)
@add_options(publishing.Submitting)
def submit(method: Method, **options: Any) -> None:
    """Queue a run for the next worker that is free, and return at once."""
    with open_database() as database:
        run_id = database.submit(method, **options)
    show(lambda: f"Run {run_id} is queued. Watch it with: dbanon runs", lambda: {"run_id": run_id})


@app.command(epilog=GLOBAL_EPILOG)
def cancel(run_id: RunId) -> None:
    """Cancel a run that waits or is being computed. Nothing that it wrote stays."""
    with open_database() as database:
        status = database.cancel(run_id)
    show(lambda: f"Run {run_id} is {status}.", lambda: {"run_id": run_id, "status": status})


@app.command(epilog=GLOBAL_EPILOG)
@add_options(Reading)
def worker(
    jobs: Annotated[
        int, typer.Option(min=1, max=64, metavar="<int>", help="Runs computed at the same time. They divide the cores.")
    ] = 1,
    grace_s: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="<float>",
            help="Seconds a run may go on after the worker is asked to stop. Then it is queued again.",
        ),
    ] = 5.0,
    lock_dsn: Annotated[
        str | None, typer.Option(help="Direct connection to the server, for holding locks, where --dsn is a pooler.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask scheduler to which runs hand their tasks, with true positions."),
    ] = None,
    log: Annotated[
        Literal["text", "json"],
        typer.Option(help="How events are written to standard error: for people, or as JSON objects."),
    ] = "text",
    heartbeat: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File that is touched every few seconds while the worker is connected."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Answer /healthz, /readyz and /metrics over HTTP at this address, such as 127.0.0.1:9464, to every "
            "client.",
        ),
    ] = None,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Take the steps of this login's jobs, too, when they are due.")
    ] = False,
    **options: Any,
) -> None:
    """Take runs from the queue and finish them, until stopped by Ctrl-C or SIGTERM.

    On SIGHUP each process finishes its run and connects again: it reads service, password and certificate files and the
    settings of Dask again. Options of the command line stay.
    """
    from dbanon.worker import serve

    if lock_dsn is not None:
        os.environ["DBANON_LOCK_DSN"] = lock_dsn
    serve(
        everywhere.dsn, jobs=jobs, grace_s=grace_s, scheduler=scheduler, log=log, heartbeat=heartbeat, listen=listen,
        schedule=schedule, reading=make_record(Reading, options),
    )  # fmt: skip


@app.command("_compile", hidden=True)
def compile_ahead(families: Annotated[list[str] | None, typer.Argument(metavar="METHOD...")] = None) -> None:
    """Compile for this machine the code of these families. Default: all, at low priority."""
    extras.demand("compute")
    from dbanon.runs import compiling

    compiling.compile_ahead(families or ())


@app.command(epilog=GLOBAL_EPILOG)
@add_options(publishing.Planning)
def plan(
    method: Annotated[str | None, typer.Argument(help="The method. See 'dbanon methods'.")] = None,
    choose: Annotated[
        bool, typer.Option("--choose", help="List the methods that fit the dataset, and what each costs on a sample.")
    ] = False,
    **options: Any,
) -> None:
    """Predict how a run would end, how much it would write and about how long it would take. It publishes nothing."""
    from dbanon.cli import report

    if choose == (method is not None):
        raise ParameterError("A plan must be of a method, or with --choose of none. Name a method, or add --choose.")
    with open_database() as database:
        if method is None:
            choices = database.choose(options["dataset"])
            show(
                lambda: report.format_choices(options["dataset"], choices),
                lambda: {"choices": [vars(one) for one in choices]},
            )
            return
        items = database.plan(method, **options)
    show(lambda: report.format_plan(items), lambda: report.make_plan_json(items))


@app.command(epilog=GLOBAL_EPILOG)
@add_options(Reading)
def verify(run_id: RunId, **options: Any) -> None:
    """Attack the stored rows of a run again."""
    with open_database() as database:
        _end(database.verify(run_id, **options))


@app.command(epilog=GLOBAL_EPILOG)
@add_options(evaluating.Evaluating)
def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN|NAME", help="The run's number, or the name of a live release.")],
    **options: Any,
) -> None:
    """Measure how useful the rows of a run are, against the private data. It publishes nothing."""
    from dbanon.cli import report

    with open_database() as database:
        measured = database.evaluate(_parse_run_id(run) if run.isdecimal() else run, **options)
    show(lambda: report.format_evaluation(measured), lambda: report.make_evaluation_json(measured))


@app.command(epilog=GLOBAL_EPILOG)
@add_options(publishing.Publishing)
def publish(
    run_id: RunId,
    name: Annotated[str, typer.Argument(help="Name of the view in the schema published.")],
    dry_run: DryRun = False,
    **options: Any,
) -> None:
    """Make a verified run a view in the schema published."""
    from dbanon.cli import report

    with open_to_try(dry_run, options["end_readers"]) as database:
        rows, notices = database.publish(run_id, name, **options)
    value = {"run_id": run_id, "release": name, "rows_published": rows, "notices": list(notices)}
    show(lambda: report.format_publication(name, rows), lambda: value, dry_run)
    say(notices)


@app.command(epilog=GLOBAL_EPILOG)
def unpublish(
    name: Annotated[str, typer.Argument(help="Name of the view in the schema published.")],
    end_readers: EndReaders = False,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Withdraw only the part of the release that holds this time."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Withdraw a release, or a part of one."""
    with open_to_try(dry_run, end_readers) as database:
        notices = database.unpublish(name, end_readers=end_readers, at=at)
    value = {"release": name, "withdrawn": True, "at": at, "notices": list(notices)}
    show(lambda: f"Withdrew published.{name}" + (f" at {at}." if at else "."), lambda: value, dry_run)
    say(notices)


@app.command("runs", epilog=GLOBAL_EPILOG)
def list_runs() -> None:
    """List all runs."""
    from dbanon.cli import report

    with open_database() as database:
        rows = database.runs()
    header = ["run_id", "dataset", "method", "algorithm", "status", "releases", "created_at", "error"]
    show(
        lambda: report.format_table(
            header, [[{**row, "error": row["error"] or row["publish_error"]}[h] for h in header] for row in rows]
        ),
        lambda: {"runs": rows},
    )


@app.command("releases", epilog=GLOBAL_EPILOG)
def list_releases() -> None:
    """List all releases, withdrawn ones too."""
    from dbanon.cli import report

    with open_database() as database:
        rows = database.releases()
    header = ["name", "live", "run_id", "dataset", "method", "k", "rows", "published_at", "withdrawn_at"]
    show(lambda: report.format_table(header, [[row[h] for h in header] for row in rows]), lambda: {"releases": rows})


@app.command(epilog=GLOBAL_EPILOG)
def card(
    name: Annotated[str, typer.Argument(help="Name of a release, live or withdrawn.")],
    json_ld: Annotated[bool, typer.Option("--json-ld", help="Print JSON-LD for catalogues: DCAT-AP 3.")] = False,
    publisher: Annotated[str | None, typer.Option(help="Who publishes it: mobilityDCAT-AP demands this.")] = None,
    url: Annotated[str | None, typer.Option(help="Where people ask for the data.")] = None,
) -> None:
    """Describe a release: promise, attack, shares left out, login and time of publication."""
    from dbanon.cli import report

    with open_database() as database:
        described = database.card(name)
    if json_ld or publisher or url:
        from dbanon.pages import dcat

        print(report.format_json(dcat.make_document(Described.from_card(described), publisher, url)))
    else:
        show(lambda: report.format_card(described), lambda: described)


@app.command(epilog=GLOBAL_EPILOG)
def drop(run_id: RunId) -> None:
    """Delete a run that was never published and is not being worked on."""
    with open_database() as database:
        rows = database.drop(run_id)
    value = {"run_id": run_id, "rows_dropped": rows}
    show(lambda: f"Dropped run {run_id} and its {format_count(rows, 'row')}.", lambda: value)


Subject = Annotated[str, typer.Option("--subject", help="The person or vehicle, as the data name it.")]


@app.command(epilog=GLOBAL_EPILOG)
def forget(
    dataset: Dataset,
    subject: Subject,
    again: Annotated[bool, typer.Option("--again", help="Let later loads bring the name again.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Erase a person from a dataset, and delete unpublished runs with the person. Later loads leave the person out."""
    from dbanon.cli import report

    with open_to_try(dry_run) as database:
        erased, notices = database.forget(dataset, subject, again=again)
    value = {"dataset": dataset, "erased": erased, "notices": list(notices)}
    table = [f"erased from dataset {dataset}", "count"], list(erased.items())
    show(lambda: report.format_table(*table), lambda: value, dry_run)
    say(notices)


@app.command(epilog=GLOBAL_EPILOG)
def remember(
    population: Annotated[str, typer.Option("--population", help="The population, as `dbanon datasets` names it.")],
    subject: Subject,
) -> None:
    """Let later loads bring a forgotten person again. Erased data do not come back."""
    with open_database() as database:
        lifted = database.remember(population, subject)
    sentence = "Later loads bring the person again." if lifted else "The person had not been forgotten."
    show(lambda: sentence, lambda: {"population": population, "lifted": lifted})


@app.command(epilog=GLOBAL_EPILOG)
def demo(
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Write demo_k5-PRIVATE.html here: the release next to the truth.")
    ] = True,
) -> None:
    """Generate a small city, anonymise, attack and publish it, show rows of the published view, and make a page."""
    extras.demand("files", "compute")
    from dbanon.cli import demo as whole_way

    with open_database() as database:
        shown = whole_way.play(database, Path(f"{whole_way.RELEASE}.html") if page else None)
    show(lambda: whole_way.format_demo(shown), lambda: whole_way.make_demo_json(shown))
    say(shown.result.notices)
