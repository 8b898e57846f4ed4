"""What the generator can be asked for; its words are those of the command line."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, get_args

from dbanon.base.errors import ParameterError
from dbanon.options import Option, list_fields
from dbanon.options.loading import PopulationOptions

Links = Literal["random", "disjoint"]
"""How the quasi-identifiers of generated people are linked: each with any other; none, instants dealt out in turn."""
MAX_INSTANTS = 1_000_000
MIN_LIMIT_KMH = 1.0
"""Lower limits are taken for mistakes: nothing would ever arrive."""

_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799  # years 1 to 9999


def _parse_limits_kmh(text: str) -> dict[int, float]:
    """Read speed limits by class of edge: ``0=110,1=80``."""
    try:
        pairs = [pair.split("=") for pair in text.split(",")]
        limits = {int(name): float(value) for name, value in pairs}
    except ValueError:
        limits = {}
    if not limits or not all(math.isfinite(kmh) and kmh >= MIN_LIMIT_KMH for kmh in limits.values()):
        raise ParameterError(f"Limits must be km/h (1 or more) by class, such as 0=110,1=80. Got {text!r} instead.")
    return limits


def _make_file_option(words: str) -> Option:
    return Option(words, metavar="FILE", typed=Path | None)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is generated, into a dataset or into files."""

    objects: Annotated[int, Option("How many people and vehicles. Each has a path.", minimum=1, maximum=2**31)] = 1000
    instants: Annotated[int, Option("How many positions of each are recorded.", minimum=1, maximum=MAX_INSTANTS)] = 30
    step_s: Annotated[int, Option("Seconds from one position to the next.", minimum=1, maximum=10**9)] = 60
    start: Annotated[str | int, Option("First position: ISO 8601 or unix seconds.", typed=str)] = "2026-01-05T08:00:00Z"
    seed: Annotated[int, Option("The same options and seed give the same rows.", minimum=0, maximum=2**63 - 1)] = 1
    whole_share: Annotated[
        float,
        Option(
            "Least share that is there all the time. Most of the others come late or leave early.", minimum=0, maximum=1
        ),
    ] = 0.8
    requests_per_subject: Annotated[float, Option("Mean number of requests. 0 for none.", minimum=0, maximum=1000)] = (
        2.0
    )
    calls_per_day: Annotated[
        float | None,
        Option(
            "Phone records instead of all positions: so many calls and messages a day on average, at towers.",
            minimum=0,
            maximum=10_000,
        ),
    ] = None
    quasi_identifiers: Annotated[
        Links | None,
        Option(
            "Generate quasi-identifiers: times at which an adversary may know where a person is. The kind is how "
            "people are linked by shared times: random or disjoint.",
            metavar="KIND",
            typed=str | None,
            choices=get_args(Links),
        ),
    ] = None
    quasi_identifier_size: Annotated[
        int, Option("The most quasi-identifiers of one person or vehicle.", minimum=1, maximum=10_000)
    ] = 10
    quasi_identifier_overlap: Annotated[int, Option("How many times two linked people share.")] = 1
    pois: Annotated[
        int,
        Option(
            "Number of points of interest, with different categories in different districts. 0 for none.",
            minimum=0,
            maximum=1_000_000,
        ),
    ] = 0
    stations: Annotated[
        int,
        Option(
            "Number of base stations, denser where people are. A dataset gets their cells. 0 for none.",
            minimum=0,
            maximum=100_000,
        ),
    ] = 0
    destinations: Annotated[int, Option("Number of places that journeys lead to.", minimum=1, maximum=100_000)] = 1000
    blocks: Annotated[int, Option("Blocks (120 m) along each side of the built-in city.")] = 16
    nodes: Annotated[
        Path | None,
        _make_file_option(
            "Another network's nodes: CSV (also .gz) with the columns id and lon,lat (degrees) or x,y (metres). Or "
            "lines 'id x y' without a header."
        ),
    ] = None
    edges: Annotated[
        Path | None,
        _make_file_option(
            "Its edges: CSV with the columns from,to and, if all edges have it, length (metres), limit_kmh, class (0 "
            "fastest, 6 slowest) or classcode (as in San Francisco). Or lines 'id from to length' or 'id from to "
            "class *' without a header."
        ),
    ] = None
    limits_kmh: Annotated[
        Mapping[int, float] | None,
        Option(
            "Speed limits in km/h by class of edge, such as 110 for class 0 and 80 for class 1.",
            name="--limits",
            metavar="CLASS=KMH,...",
            typed=str | None,
            parse=_parse_limits_kmh,
        ),
    ] = None
    srid: Annotated[
        int | None, Option("Metric SRID of x,y. Default: the UTM zone for lon,lat, otherwise that of the data.")
    ] = None
    lon: Annotated[float | None, Option("Longitude of the middle of a network without a place.")] = None
    lat: Annotated[float | None, Option("Latitude of the middle of a network without a place.")] = None
    like: Annotated[
        str | None,
        Option("Draw people from the rows of this release, or its .parquet file. Not for analysis.", metavar="RELEASE"),
    ] = None

    def __post_init__(self) -> None:
        for option in list_fields(Plan):
            option.demand_valid(getattr(self, option.name))
        others = {one.name for one in list_fields(Plan) if getattr(self, one.name) != one.default} - {"like", "seed"}
        if self.like is not None and others:
            got = min(others).replace("_", "-")
            raise ParameterError(f"People must be drawn from a release and a seed alone. Got --{got}. Leave it out.")
        most = max(1, self.quasi_identifier_size // 2)
        if not 0 <= self.quasi_identifier_overlap <= most:
            raise ParameterError(
                f"--quasi-identifier-overlap must be a whole number from 0 to {most:,}. Got "
                f"{self.quasi_identifier_overlap} instead."
            )
        if self.quasi_identifiers is not None and self.calls_per_day is not None:
            raise ParameterError(
                "Quasi-identifiers must be of people with all positions recorded. Got --quasi-identifiers with "
                "--calls-per-day. Leave one out."
            )
        if not _FIRST_S <= self.start_s <= self.start_s + self.instants * self.step_s <= _LAST_S:
            raise ParameterError(
                "All instants must lie in the years 1 to 9999. Got others. Change --start or --step-s."
            )
        if (self.nodes is None) != (self.edges is None):
            raise ParameterError("A network must be given as two files. Got one. Give both --nodes and --edges.")
        if self.nodes is None and (self.srid is not None or self.limits_kmh is not None):
            raise ParameterError(
                "Only a network from files may have --srid or --limits. Got one for the built-in city. Leave it out, "
                "and place the city with --lon and --lat."
            )

    @property
    def start_s(self) -> int:
        """The first position's unix seconds.

        Raises `ParameterError` if `start` is neither unix seconds nor ISO 8601 with a zone.
        """
        text = str(self.start)
        try:
            return int(text)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ParameterError(
                f"The start must be unix seconds or a time such as 2026-01-05T08:00:00Z. Got {text!r} instead."
            ) from None
        if moment.tzinfo is None:
            raise ParameterError(f"The start must name its zone. Got {text!r}. Write a Z behind it for UTC.")
        return math.floor(moment.timestamp())


@dataclass(frozen=True, kw_only=True)
class _Grid:
    grid_m: Annotated[float, Option("Side of a space cell of the dataset in metres.")] = 1.0
    grid_s: Annotated[int, Option("Length of a time slot of the dataset in seconds.")] = 1


@dataclass(frozen=True, kw_only=True)
class OfDataset(PopulationOptions, _Grid):
    """What a dataset is made with, and files are not."""


@dataclass(frozen=True, kw_only=True)
class _Mode:
    mode: Annotated[
        Literal["create", "append", "replace"],
        Option(
            flags={"append": "Add more people to an existing dataset.", "replace": "Replace all that is there already."}
        ),
    ] = "create"


@dataclass(frozen=True, kw_only=True)
class Generating(_Mode, OfDataset, Plan):
    """What is generated into a dataset, and what becomes of one that is there."""
