"""What every attack is made of: its clauses in words, one function that counts what breaks them, and the verdict.

Nothing here finds members, positions or counts: two attacks with one counter would share its fault.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal

from dbanon.attacks import Clause, Kind, Verdict
from dbanon.attacks.shared.run_statements import UndecidableError, demand
from dbanon.base.errors import DataError, format_count

TESTS = ("singling out", "linkability", "inference")
"""The three tests of the Article 29 Working Party: Opinion 05/2014 on Anonymisation Techniques (WP216)."""

Counts = tuple[Mapping[str, int], Mapping[str, int | float]]
"""What an attack counted: how often each clause is broken, except `decidable`; and the figures."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A clause before anything is counted: what must hold, what it means, and what it is for."""

    name: str  # docs/developers/add-a-family.md lists the names that mean the same in every family
    must: str  # what must hold, without a full stop. A parameter of the run stands in braces: ``{k}``.
    plain: str  # one sentence for a reader of the release who has not read the paper
    broken_by: str = "rows"  # what is counted that breaks it, in the plural
    # the test of WP216 that it serves; "attack" where it says that the attack could see and decide everything
    test: Literal["singling out", "linkability", "inference", "attack"] = "singling out"
    algorithms: tuple[str, ...] = ()  # the algorithms whose runs it is asked of; empty where it is asked of all
    remedy: str = ""  # what to do where it is broken, in one sentence; empty where that depends
    # the figure that counts what could break it, where that may be nothing: then it must not be said to hold
    over: str = ""

    def make_clause(
        self, violations: int, params: Mapping[str, Any], *, among: int | None = None, tested: bool = True
    ) -> Clause:
        """Make the clause of a verdict; `among` says how many could break it, and `tested` whether anything could."""
        one = "person" if self.broken_by == "people" else re.sub(r"s\b", "", self.broken_by)  # "record or membership"
        number = format_count(violations if among is None else among, one, self.broken_by)
        by = number if among is None else f"{violations} of {number}"
        sentence = f"{self.must.format_map(params)}; broken by {by}. {self.remedy}".rstrip()
        tested = tested or violations > 0
        return Clause(name=self.name, passed=violations == 0, violations=violations, sentence=sentence, tested=tested)


DECIDABLE = Condition(
    name="decidable",
    must="Parameters, data, inputs and stored rows must make sense together",
    broken_by="contradictions",
    plain="The attack could decide every other clause, or it would refuse the release.",
    test="attack",
)
LEFT_OUT = Condition(
    name="left-out",
    must="The run's counts of rows left out must agree with the data and the rows",
    broken_by="counts",
    plain="The release states truly how many people, and how much of their data, it leaves out.",
    test="attack",
)


def make_region_clause(shape: str) -> Condition:
    """Make the clause on regions, which must be of one shape: "one rectangle of whole cells"."""
    return Condition(
        name="region",
        must=f"Every region must be {shape}, in the dataset's SRID",
        plain="Every region is made of whole cells, so no odd corner distinguishes one person's row.",
    )


def make_columns_clause(true: str = "") -> Condition:
    """Make the clause on columns beside those of every release; `true` says what must hold of the method's own."""
    return Condition(
        name="columns",
        must="Rows must hold no columns except the method's" + (true and f", and {true}"),
        plain="A row has no column that could carry anything else about its people.",
        test="inference",
    )


def make_refusal(attack: str, why: str) -> Verdict:
    """Make the verdict on what could not be decided: refused."""
    clause = Clause(name=DECIDABLE.name, passed=False, violations=1, sentence=why)
    return Verdict(attack=attack, passed=False, figures={}, clauses=(clause,))


@dataclass(frozen=True, kw_only=True)
class Attack(Generic[Kind]):
    """The attack on a family: called with the evidence on a run, it gives the verdict."""

    name: str  # of the family
    clauses: tuple[Condition, ...]  # `DECIDABLE`, and what `count` counts, in the order of the verdict
    count: Callable[[Kind], Counts]  # reads the evidence. It raises `UndecidableError` where that makes no sense.
    # by each of `TESTS`, in one sentence: what a release that keeps every clause does not rule out
    left_open: Mapping[str, str]
    # those whose rules the attack knows: it refuses runs of others. Empty where no clause depends on the algorithm.
    algorithms: tuple[str, ...] = ()

    @property
    def of_all(self) -> tuple[Condition, ...]:
        """The clauses that are asked of every run, whatever its algorithm."""
        return tuple(clause for clause in self.clauses if not clause.algorithms)

    def __call__(self, evidence: Kind) -> Verdict:
        """Decide; pure.

        Raises `DataError` if a clause was not counted, or something that is no clause: a defect of the attack.
        """
        try:
            broken, figures = self._count_broken(evidence)
        except UndecidableError as doubt:
            return make_refusal(self.name, str(doubt))
        applicable = [c for c in self.clauses if not c.algorithms or evidence.algorithm in c.algorithms]
        broken = {DECIDABLE.name: 0, **broken}
        if broken.keys() != {c.name for c in applicable}:
            raise DataError("Every clause must be counted, and nothing else. This is a defect of the attack.")
        clauses = tuple(
            c.make_clause(broken[c.name], evidence.params, tested=not c.over or figures[c.over] > 0) for c in applicable
        )
        passed = all(clause.passed for clause in clauses)
        return Verdict(attack=self.name, passed=passed, figures=figures, clauses=clauses)

    def _count_broken(self, evidence: Kind) -> Counts:
        known = not self.algorithms or evidence.algorithm in self.algorithms
        demand(known, f"The algorithm must be one of {', '.join(self.algorithms)}. It is not.")
        return self.count(evidence)
