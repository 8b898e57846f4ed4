"""What jobs can be asked for: which source, in which periods, and what becomes of what is old or goes wrong."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from dbanon.base.errors import ParameterError
from dbanon.options import Option, list_fields
from dbanon.options.loading import PopulationOptions, _make_moment_option, _Table, _Target
from dbanon.options.publishing import make_parameter_option, parse_parameters


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ParameterError("--further must be JSON. Got something else. Quote it for the shell.") from None


def _parse_limits(texts: Sequence[str]) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in parse_parameters(texts).items()}
    except ValueError:
        raise ParameterError(
            "The value of a limit must be a number. Got something else. Write it like --limit requests=5."
        ) from None


def _make_interval_option(words: str) -> Option:
    return Option(words, metavar="INTERVAL")


@dataclass(frozen=True, kw_only=True)
class OfSource(PopulationOptions, _Target, _Table):
    """How a job reads its source: what an import of a table can be asked for."""


LOAD_FIELDS = (*(one.name for one in list_fields(OfSource) if one.name not in ("dataset", "tz")), "read_dsn")
"""The words of a job's load."""


def _make_optional(name: str, default: str) -> Option:
    """Make an option of the import one that can be left out, since what a job has stays as it is."""
    [option] = [one.option for one in list_fields(OfSource) if one.name == name]
    return replace(option, help=f"{option.help} Default: {default}.")


@dataclass(frozen=True, kw_only=True)
class AddingJob(OfSource):
    """What a job does every night. None keeps the value that the job has; a new job takes the server's default."""

    source: Annotated[str | None, Option("Table or view of the same database, one fix a row. A new job needs it.")] = (
        None
    )
    method: Annotated[str | None, Option("The method. See 'dbanon methods'. A new job needs it.")] = None
    subject: Annotated[str | None, _make_optional("subject", "'subject'")] = None  # type: ignore[assignment]
    time: Annotated[str | None, _make_optional("time", "'time'")] = None  # type: ignore[assignment]
    grid_m: Annotated[float | None, _make_optional("grid_m", "1")] = None  # type: ignore[assignment]
    grid_s: Annotated[int | None, _make_optional("grid_s", "1")] = None  # type: ignore[assignment]
    drop_outliers: Annotated[bool | None, _make_optional("drop_outliers", "no")] = None  # type: ignore[assignment]
    allow_future: Annotated[bool | None, _make_optional("allow_future", "no")] = None  # type: ignore[assignment]
    subject_per_day: Annotated[bool | None, _make_optional("subject_per_day", "no")] = None  # type: ignore[assignment]
    dataset: Annotated[str | None, Option("Name of the dataset. Default: the job's.")] = None  # type: ignore[assignment]
    algorithm: Annotated[str | None, Option("The algorithm. Default: the method's first.")] = None
    params: Annotated[Mapping[str, Any] | None, make_parameter_option(", except since and until")] = None
    further: Annotated[
        Sequence[Mapping[str, Any]] | None,
        Option(
            "Other loads of each period: kind (requests or quasi_identifiers), source, and the arguments of its "
            "import. [] takes them back.",
            metavar="JSON",
            typed=str,
            parse=_parse_json,
        ),
    ] = None
    every: Annotated[
        str | None, _make_interval_option("Length of a period: days and more by the clock of --tz. Default: 1 day.")
    ] = None
    tz: Annotated[str | None, Option("Time zone of periods, and of times that name none. Default: UTC.")] = None
    starts: Annotated[
        datetime | None,
        _make_moment_option(
            "Where the first period begins. Default: where the release ends, or at the first midnight of the source's "
            "rows."
        ),
    ] = None
    wait: Annotated[str | None, _make_interval_option("How long after its end a period is due. Default: 1 hour.")] = (
        None
    )
    lateness: Annotated[
        str | None, _make_interval_option("How long rows may come of a period that is not published. Default: 3 days.")
    ] = None
    at_least: Annotated[
        float | None,
        Option(
            "A period waits if it has fewer rows than this share of the median of seven periods. Default: 0.5.",
            minimum=0,
            maximum=1,
        ),
    ] = None
    limits: Annotated[
        Mapping[str, float] | None,
        Option(
            "Greatest values of figures of a run, above which the period is held.",
            name="--limit",
            metavar="NAME=VALUE",
            typed=list[str] | None,
            parse=_parse_limits,
        ),
    ] = None
    keep_data: Annotated[
        str | None,
        _make_interval_option(
            "The age at which data are forgotten, except data that the next run needs. Default: never. '100 years' "
            "means never, too."
        ),
    ] = None
    keep_parts: Annotated[
        str | None,
        _make_interval_option(
            "The age at which parts are withdrawn, and the rows of their runs deleted. Default: never. '100 years' "
            "means never, too."
        ),
    ] = None
    readers: Annotated[
        Sequence[str] | None,
        Option(
            "One or more roles that may read the release, instead of all analysts.",
            metavar="ROLE",
            typed=list[str] | None,
        ),
    ] = None
    retry: Annotated[
        str | None,
        _make_interval_option(
            "How long after a failure the job tries again, doubled each time, up to a quarter of --every. Default: 5 "
            "minutes."
        ),
    ] = None
    max_tries: Annotated[
        int | None, Option("After how many tries a period is held. Default: 10.", minimum=1, maximum=1000)
    ] = None
    on_held: Annotated[
        Literal["go_on", "stop"] | None,
        Option(
            "Whether later periods go_on or stop while one is held. Default: go_on. While one waits for a signature or "
            "a measurement that the policy asks for, the job does nothing else.",
            typed=str | None,
            choices=("go_on", "stop"),
        ),
    ] = None
    evaluate: Annotated[
        bool | None,
        Option(
            "Measure each part before it is published, as 'dbanon evaluate' does. A worker does it, and "
            "dbanon.evaluations has the figures. Default: no."
        ),
    ] = None
    owner: Annotated[
        str | None, Option("Role that runs the job. This login must be allowed to become it. Default: this login.")
    ] = None
    allow_no_requests: Annotated[bool | None, Option("Hide senders although no request comes. Default: no.")] = None
    read_dsn: Annotated[
        str | None,
        Option(
            "Streaming replica that a worker reads the data of its runs from: as service=NAME, which the worker's "
            "machine explains, since passwords are not kept. Default: the worker's own."
        ),
    ] = None
    replace: Annotated[bool, Option("Change the job of that name. Options that are not given stay as they are.")] = (
        False
    )
