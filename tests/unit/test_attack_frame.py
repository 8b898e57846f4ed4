"""The frame of attacks: what it refuses, and the verdict it makes of counts."""

from types import SimpleNamespace

import pytest

from dbanon.attacks import Clause, Verdict
from dbanon.attacks.shared.clauses import DECIDABLE, LEFT_OUT, Attack, Condition
from dbanon.attacks.shared.run_statements import UndecidableError
from dbanon.base.errors import DataError

SIZE = Condition(
    name="size", must="Baskets need k = {k} walkers", broken_by="baskets", plain="", test="singling out",
    algorithms=("grouped",), over="baskets",
)  # fmt: skip


def judge_counts(counts, algorithm="grouped", baskets=3):
    """The verdict where each clause is broken as often as `counts` says, by name."""

    def count(evidence):
        if counts is None:
            raise UndecidableError("The toy is broken.")
        return counts, {"rows": 3, "baskets": baskets}

    attack = Attack(
        name="toy", clauses=(DECIDABLE, SIZE, LEFT_OUT), count=count, left_open={}, algorithms=("grouped", "alone")
    )
    return attack(SimpleNamespace(algorithm=algorithm, params={"k": 3}))


def test_a_verdict_holds_each_clause_against_what_was_counted():
    verdict = judge_counts({"left-out": 0, "size": 1})
    assert (verdict.attack, verdict.passed, verdict.figures) == ("toy", False, {"rows": 3, "baskets": 3})
    assert [(c.name, c.passed, c.violations) for c in verdict.clauses] == [
        ("decidable", True, 0),
        ("size", False, 1),
        ("left-out", True, 0),
    ]
    assert verdict.clauses[1].sentence == "Baskets need k = 3 walkers; broken by 1 basket."
    assert judge_counts({"left-out": 0, "size": 0}).passed


@pytest.mark.parametrize(("baskets", "broken", "tested"), [(3, 0, True), (0, 0, False), (0, 1, True)])
def test_a_clause_is_tested_where_something_could_break_it_or_does(baskets, broken, tested):
    _, size, left_out = judge_counts({"left-out": 0, "size": broken}, baskets=baskets).clauses
    assert (size.passed, size.tested, left_out.tested) == (not broken, tested, True)


def test_a_clause_is_asked_of_its_algorithms_alone():
    assert [c.name for c in judge_counts({"left-out": 0}, "alone").clauses] == ["decidable", "left-out"]


@pytest.mark.parametrize("counts", [{}, {"left-out": 0}, {"left-out": 0, "size": 0, "other": 0}], ids=str)
def test_a_clause_that_is_not_counted_or_a_count_of_no_clause_is_a_defect(counts):
    with pytest.raises(DataError, match="defect"):
        judge_counts(counts)


def test_what_cannot_be_decided_is_refused():
    why = "The toy is broken."
    clause = Clause(name="decidable", passed=False, violations=1, sentence=why)
    assert judge_counts(None) == Verdict(attack="toy", passed=False, figures={}, clauses=(clause,))


def test_a_run_of_an_algorithm_that_the_attack_does_not_know_is_refused():
    verdict = judge_counts({"left-out": 0, "size": 0}, "copied")
    assert (verdict.passed, [c.name for c in verdict.clauses]) == (False, ["decidable"])
    assert "grouped, alone" in verdict.clauses[0].sentence


def test_a_clause_says_among_how_many_it_is_broken_and_what_to_do():
    hats = Condition(
        name="hats", must="All walkers must wear hats", broken_by="people", plain="", test="linkability",
        remedy="Buy hats.",
    )  # fmt: skip
    clause = hats.make_clause(1, {}, among=36)
    assert clause.sentence == ("All walkers must wear hats; broken by 1 of 36 people. Buy hats.")
