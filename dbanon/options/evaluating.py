"""What an evaluation can be asked for; its words are those of the command line."""

from dataclasses import dataclass
from typing import Annotated

from dbanon.options import Option
from dbanon.results.figures import Against

MIN_QUERIES, ENOUGH_QUERIES = 100, 400


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
    """What is asked, and what the answers are held against."""

    against: Annotated[
        Against,
        Option(
            "The people and times that the truth counts: the published ones, or all in the data.",
            choices=("published", "all"),
        ),
    ] = "published"
