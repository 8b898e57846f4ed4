"""Commands about jobs: what is done every night."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dbanon.base.errors import format_count
from dbanon.cli._options import add_options
from dbanon.cli._shared import GLOBAL_EPILOG, DryRun, job_app, open_database, open_to_try, say, show
from dbanon.options import scheduling

Name = Annotated[str, typer.Argument(help="Name of the job, and of its release.")]
Since = Annotated[
    str | None, typer.Argument(metavar="SINCE", help="Beginning of the period, as 'dbanon job list NAME' has it.")
]


@job_app.command("add", epilog=GLOBAL_EPILOG)
@add_options(scheduling.AddingJob)
def add_job(name: Name, **options: Any) -> None:
    """Set up work for every night. It starts with 'dbanon worker --schedule' or 'dbanon job run'."""
    with open_database() as database:
        job_id, notices = database.add_job(name, **options)
    value = {"job_id": job_id, "name": name, "notices": list(notices)}
    show(lambda: f"Job {name} is set up. Predict its next periods: dbanon job plan {name}", lambda: value)
    say(notices)


@job_app.command("apply", epilog=GLOBAL_EPILOG)
def apply_jobs(
    file: Annotated[Path, typer.Argument(help="TOML or JSON: a table for each job, with options of 'dbanon job add'.")],
    dry_run: DryRun = False,
) -> None:
    """Add or change the jobs of a file, all or none. Other jobs stay, and are named."""
    with open_to_try(dry_run) as database:
        done, others, notices = database.apply_jobs(file)
    rest = [f"Not in the file: {', '.join(others)}. To end one: dbanon job remove NAME"] if others else []
    lines = [*(f"{name}: {became}" for name, became in done.items()), *rest]
    show(lambda: "\n".join(lines), lambda: {"jobs": done, "others": others, "notices": list(notices)}, dry_run)
    say(notices)


@job_app.command("list", epilog=GLOBAL_EPILOG)
def list_jobs(
    name: Annotated[str | None, typer.Argument(help="Show the periods of this job that have come.")] = None,
) -> None:
    """List the jobs and how they fare, or the periods of one."""
    from dbanon.cli import report

    with open_database() as database:
        rows = database.jobs(name)
    header = ["name", "owner", "state", "published_until", "next_at", "tries", "held", "late", "gone", "last_error"]
    if name is not None:
        header = ["since", "until", "state", "skipped_as", "tries", "at_source", "rows_new", "late", "gone", "run_id"]
        header.append("error")
    key = "jobs" if name is None else "periods"
    show(lambda: report.format_table(header, [[row[h] for h in header] for row in rows]), lambda: {key: rows})


@job_app.command("plan", epilog=GLOBAL_EPILOG)
def plan_job(
    name: Name, periods: Annotated[int, typer.Option(min=1, max=1000, metavar="<int>", help="How many periods.")] = 7
) -> None:
    """Predict the next periods of a job. It writes nothing."""
    from dbanon.cli import report

    with open_database() as database:
        rows = database.plan_job(name, periods)
    header = ["since", "until", "at_source", "due_at", "note"]
    show(lambda: report.format_table(header, [[row[h] for h in header] for row in rows]), lambda: {"periods": rows})


@job_app.command("run", epilog=GLOBAL_EPILOG)
def run_jobs(
    name: Annotated[str | None, typer.Argument(help="Only this job, instead of all jobs of this login.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Whether to wait for workers to compute runs.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the end if a period is held.")] = False,
) -> None:
    """Take the steps that are due, once. A timer calls it again."""
    with open_database() as database:
        advanced, held, notices = database.run_jobs(name, wait=wait, strict=strict)
    value = {"advanced": advanced, "held": held, "notices": list(notices)}
    steps, periods = format_count(advanced, "step was", "steps were"), format_count(held, "period is", "periods are")
    text = f"{steps} taken. {periods} held."
    show(lambda: text, lambda: value)
    say(notices)


def _steer(name: str, action: str, since: str | None = None, reason: str | None = None) -> None:
    with open_database() as database:
        changed = database.steer_job(name, action, since=since, reason=reason)
    value = {"name": name, "action": action, "changed": changed}
    done = {"pause": "is paused", "resume": "is resumed", "remove": "is removed"}
    sentence = (
        f"Job {name} {done[action]}."
        if action in done
        else f"{format_count(changed, 'period was', 'periods were')} changed."
    )
    show(lambda: sentence, lambda: value)


@job_app.command("pause", epilog=GLOBAL_EPILOG)
def pause_job(name: Name) -> None:
    """Begin no new step of a job."""
    _steer(name, "pause")


@job_app.command("resume", epilog=GLOBAL_EPILOG)
def resume_job(name: Name) -> None:
    """Go on with a job that was paused."""
    _steer(name, "resume")


@job_app.command("retry", epilog=GLOBAL_EPILOG)
def retry_period(name: Name, since: Since = None) -> None:
    """Load and compute a period again, however few rows the source has. Without SINCE: all that are held."""
    _steer(name, "retry", since)


@job_app.command("skip", epilog=GLOBAL_EPILOG)
def skip_period(
    name: Name,
    since: Since = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason, which is recorded.")] = None,
) -> None:
    """Leave a period unpublished. Without SINCE: all that are held."""
    _steer(name, "skip", since, reason)


@job_app.command("remove", epilog=GLOBAL_EPILOG)
def remove_job(name: Name) -> None:
    """End a job. Its data and its release stay."""
    _steer(name, "remove")
