"""What runs and publications can be asked for; their words are those of the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from dbanon.base.errors import ParameterError
from dbanon.options import Option
from dbanon.options.loading import Dataset
from dbanon.options.reading import Reading


def parse_parameters(texts: Sequence[str]) -> dict[str, str]:
    """Read ``k=5`` and its like, each name once."""
    params: dict[str, str] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not name:
            raise ParameterError(f"A parameter must be given as -p name=value. Got '{text}'. Write it like -p k=5.")
        if name in params:
            raise ParameterError(f"A parameter must be given once. Got '{name}' twice. Leave one out.")
        params[name] = value
    return params


def make_parameter_option(more: str = "", metavar: str = "NAME=VALUE", typed: Any = list[str] | None) -> Option:
    """Make the option ``-p``; `more` ends its sentence."""
    words = f"One or more parameters of the method, each by its name{more}."
    return Option(words, name="-p", metavar=metavar, typed=typed, parse=parse_parameters)


AllowNoRequests = Annotated[bool, Option("Hide senders although there is no request. Then no person is hidden.")]


@dataclass(frozen=True, kw_only=True)
class Planning:
    """What a run is computed from."""

    dataset: Dataset
    algorithm: Annotated[str | None, Option("The algorithm. Default: the method's first.")] = None
    params: Annotated[Mapping[str, Any] | None, make_parameter_option()] = None
    allow_no_requests: AllowNoRequests = False


@dataclass(frozen=True, kw_only=True)
class Submitting(Planning):
    """What a run is computed from, and the draws in it."""

    seed: Annotated[
        int | None,
        Option("The same data, parameters and seed give the same cloaks. Keep the seed private. Default: random."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Publishing:
    """How a run becomes a release."""

    replace: Annotated[bool, Option("Replace the live release of that name.")] = False
    allow_overlap: Annotated[
        bool, Option("Publish although fewer candidates than promised are left where it overlaps earlier releases.")
    ] = False
    reason: Annotated[str | None, Option("Why the overlap is allowed. The reason is recorded.", metavar="TEXT")] = None
    end_readers: Annotated[bool, Option("End the sessions that read the replaced release, instead of giving up.")] = (
        False
    )
    readers: Annotated[
        Sequence[str] | None,
        Option(
            "One or more roles that may read the release, instead of all analysts.",
            metavar="ROLE",
            typed=list[str] | None,
        ),
    ] = None
    grow: Annotated[bool, Option("Publish as a part of the release of that name. The first part begins it.")] = False


@dataclass(frozen=True, kw_only=True)
class _Named:
    publish: Annotated[str | None, Option("Publish under this name if the attack finds nothing.")] = None


@dataclass(frozen=True, kw_only=True)
class Running(Reading, Publishing, _Named, Submitting):
    """What a run is computed from, how it becomes a release if it is to be published, and where its data are read."""
