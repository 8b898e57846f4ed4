"""What a sweep can be asked for; its words are those of the command line."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from dbanon.base.errors import ParameterError
from dbanon.options import Option
from dbanon.options.evaluating import Questioning
from dbanon.options.loading import Dataset
from dbanon.options.publishing import AllowNoRequests, make_parameter_option
from dbanon.options.reading import Reading
from dbanon.results.sweep import Want

MAX_SETTINGS = 200

_WANT = re.compile(r"^\s*([a-z][a-z0-9_]*)\s*(>=|<=)\s*([-+.0-9eE]+)\s*$")


def parse_wants(texts: Sequence[str]) -> tuple[Want, ...]:
    """Read ``published_share>=0.9`` and its like."""
    wants = []
    for text in texts:
        match = _WANT.match(text)
        try:
            wants.append(Want(name=match[1], is_minimum=match[2] == ">=", value=float(match[3])))  # type: ignore[index]
        except (TypeError, ValueError):
            raise ParameterError(
                f"A want must be a figure, >= or <=, and a number. Got '{text[:60]}'. Write it like "
                "published_share>=0.9."
            ) from None
    return tuple(wants)


@dataclass(frozen=True, kw_only=True)
class Sweeping(Reading, Questioning):
    """What is measured, and what is wanted of it."""

    dataset: Dataset
    params: Annotated[Mapping[str, Any], make_parameter_option(", with the values to try", "NAME=VALUE,...", list[str])]
    algorithm: Annotated[str | None, Option("The algorithm. Default: the method's first.")] = None
    sample: Annotated[
        int | None,
        Option(
            "Compute on so many people, drawn at random, instead of all.", metavar="PEOPLE", minimum=2, maximum=10**9
        ),
    ] = None
    want: Annotated[
        Sequence[str] | None,
        Option(
            "One or more figures that a setting must have, such as 'published_share>=0.9'. The chosen setting has "
            "all of them.",
            metavar="FIGURE>=VALUE",
            typed=list[str] | None,
        ),
    ] = None
    allow_no_requests: AllowNoRequests = False
    keep: Annotated[bool, Option("Keep the runs. Without it, each is dropped once it is measured.")] = False

    @property
    def wants(self) -> tuple[Want, ...]:
        """What is wanted, read."""
        return parse_wants(self.want or ())

    @property
    def values(self) -> dict[str, list[Any]]:
        """Each parameter with the values to try: those of a list, or of a text with commas."""
        by_name = {}
        for name, given in self.params.items():
            values = given.split(",") if isinstance(given, str) else [given]
            if isinstance(given, Sequence) and not isinstance(given, str):
                values = list(given)
            values = [value.strip() if isinstance(value, str) else value for value in values]
            if not values or any(value == "" for value in values):
                raise ParameterError(
                    f"The values of '{name[:60]}' must be separated by single commas. Got an empty one. Write it "
                    f"like k=2,5,10."
                )
            by_name[name] = list(dict.fromkeys(values))
        return by_name

    def list_combinations(self) -> list[dict[str, Any]]:
        """List all combinations of the values, the first parameter changing last."""
        values = self.values
        number = 1
        for several in values.values():
            number *= len(several)
        if number > MAX_SETTINGS:
            raise ParameterError(
                f"A sweep must have at most {MAX_SETTINGS} settings. Got {number:,}. Take fewer values, or sweep twice."
            )
        return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]
