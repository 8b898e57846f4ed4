"""What jobs can be asked for: which source, in which periods, and what becomes of what is old or goes wrong."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from dbanon.base.errors import ParameterError
from dbanon.options import Option, fields
from dbanon.options.loading import People, _moment, _Table, _Target
from dbanon.options.publishing import _parameters


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ParameterError("--further must be JSON. Got something else; quote it for the shell.") from None


def _limits(texts: Sequence[str]) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in _parameters(texts).items()}
    except ValueError:
        raise ParameterError("A limit must be a number. Got something else; such as --limit requests=5.") from None


def _interval(words: str) -> Option:
    return Option(words, metavar="INTERVAL")


@dataclass(frozen=True, kw_only=True)
class OfSource(People, _Target, _Table):
    """How a job reads its source: what an import of a table can be asked for."""


@dataclass(frozen=True, kw_only=True)
class AddingJob(OfSource):
    """What a job does every night."""

    dataset: Annotated[str | None, Option("Name of the dataset; else the job's.")] = None  # type: ignore[assignment]
    algorithm: Annotated[str | None, Option("The algorithm; else the family's first.")] = None
    params: Annotated[
        Mapping[str, Any] | None,
        Option(
            "One or more parameters of the method, each by its name, but for since and until.",
            name="-p",
            metavar="NAME=VALUE",
            typed=list[str] | None,
            parse=_parameters,
        ),
    ] = None
    further: Annotated[
        Sequence[Mapping[str, Any]] | None,
        Option(
            "Other loads of each period, each with its kind (requests or quasi_identifiers) and source.",
            metavar="JSON",
            typed=str,
            parse=_json,
        ),
    ] = None
    every: Annotated[str, _interval("Length of a period: days and more by the clock of --tz.")] = "1 day"
    tz: Annotated[str, Option("Time zone of periods, and of times that name none.")] = "UTC"
    starts: Annotated[
        datetime | None, _moment("Where the first period begins; else where the release ends, or the source begins.")
    ] = None
    wait: Annotated[str, _interval("How long after its end a period is due.")] = "1 hour"
    lateness: Annotated[str, _interval("How long rows may come of a period that is not published.")] = "3 days"
    at_least: Annotated[
        float, Option("Share of the rows of other periods below which one waits.", minimum=0, maximum=1)
    ] = 0.5
    limits: Annotated[
        Mapping[str, float] | None,
        Option(
            "Greatest values of figures of a run, above which the period is held.",
            name="--limit",
            metavar="NAME=VALUE",
            typed=list[str] | None,
            parse=_limits,
        ),
    ] = None
    keep_data: Annotated[str | None, _interval("After that data are forgotten, but for what the next run needs.")] = (
        None
    )
    keep_parts: Annotated[
        str | None, _interval("After that parts are withdrawn, and what their runs wrote is deleted.")
    ] = None
    readers: Annotated[
        Sequence[str] | None,
        Option("One or more roles that may read it instead of all analysts.", metavar="ROLE", typed=list[str] | None),
    ] = None
    retry: Annotated[str, _interval("How long after a failure it tries again; doubled each time.")] = "5 minutes"
    max_tries: Annotated[int, Option("After how many tries a period is held.", minimum=1, maximum=1000)] = 10
    on_held: Annotated[Literal["go_on", "stop"], Option(flags={"stop": "Begin no later period while one is held."})] = (
        "go_on"
    )
    owner: Annotated[
        str | None, Option("Role whose sessions run it, which this login may become; else this login.")
    ] = None
    replace: Annotated[bool, Option("Change the job of that name; its periods stay.")] = False

    def load(self) -> dict[str, Any]:
        """Return the words of the load that are not left to the server's defaults."""
        return {
            one.name: getattr(self, one.name)
            for one in fields(OfSource)
            if one.name not in ("dataset", "tz") and getattr(self, one.name) != one.default
        }
