"""What an evaluation can be asked for; its words are those of the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from dbanon.base.errors import ParameterError
from dbanon.base.figures import Against
from dbanon.options import Option

MIN_QUERIES, ENOUGH_QUERIES = 100, 400


def _parse_columns(texts: Sequence[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for text in texts:
        meaning, sign, name = (part.strip() for part in text.partition("="))
        if not sign or not name:
            raise ParameterError(f"A column must be given as --column MEANING=NAME, such as time=t. Got '{text[:60]}'.")
        columns[meaning] = name
    return columns


@dataclass(frozen=True, kw_only=True)
class Questioning:
    """What is asked of a run."""

    queries: Annotated[
        int,
        Option(
            "Questions of each size. With fewer than 400 the intervals are wide.", minimum=MIN_QUERIES, maximum=100_000
        ),
    ] = ENOUGH_QUERIES
    seed: Annotated[
        int,
        Option(
            "The seed of the questions: the same rows and seed give the same questions. It is not the run's seed, "
            "and may be known."
        ),
    ] = 1


@dataclass(frozen=True, kw_only=True)
class Evaluating(Questioning):
    """What is asked, and what the answers are held against; the last three are for the output of another program."""

    against: Annotated[
        Against,
        Option(
            "The people and times that the truth counts: the published ones, or all in the data.",
            choices=("published", "all"),
        ),
    ] = "published"
    dataset: Annotated[str | None, Option("For another program's output: the dataset that it was made from.")] = None
    columns: Annotated[
        Mapping[str, str] | None,
        Option(
            "For another program's output: the meaning of one or more columns with other names.",
            name="--column",
            metavar="MEANING=NAME",
            typed=list[str] | None,
            parse=_parse_columns,
        ),
    ] = None
    tz: Annotated[str | None, Option("For another program's output: the time zone of times without one.")] = None
