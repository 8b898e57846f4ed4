"""The clauses of every family: in words for readers, for one of three tests, and each broken by a change of its own."""

import importlib
import re

import pytest

from dbanon.attacks import import_attacker, overlapping_records
from dbanon.attacks.shared.clauses import DECIDABLE, TESTS
from dbanon.methods import METHODS

MAX_WORDS = 30
SHARED = {"period", "region", "columns", "members", "crowd", "size", "covers", "complete", "left-out"}
every_family = pytest.mark.parametrize("family", [pytest.param(METHODS[name], id=name) for name in METHODS])


def demand_sentences(text):
    assert re.fullmatch(r"[A-Z][^.!?]*\.(?: [A-Z][^.!?]*\.)*", text.replace("suppress_*", "")), text
    assert len(text.split()) <= MAX_WORDS, text
    assert text.count(";") + text.count(": ") <= 1, text


@every_family
def test_the_clauses_say_what_they_mean_and_which_test_they_serve(family):
    attack = import_attacker(family.attack).attack
    assert (attack.name, attack.clauses[0]) == (family.name, DECIDABLE)
    clauses = (*attack.clauses, *overlapping_records.CLAUSES)
    assert len({clause.name for clause in clauses}) == len(clauses)
    for clause in clauses:
        demand_sentences(clause.plain)
        assert clause.test in {*TESTS, "attack"}, clause.name
        assert not clause.must.endswith("."), clause.name


@every_family
def test_the_attack_says_what_is_left_open_in_each_test(family):
    left_open = import_attacker(family.attack).attack.left_open
    assert tuple(left_open) == TESTS
    for sentence in left_open.values():
        demand_sentences(sentence)


@every_family
def test_each_clause_is_broken_alone_by_a_change_in_a_test(family):
    attack = import_attacker(family.attack).attack
    tests = importlib.import_module(f"tests.unit.test_attack_{family.attack.rpartition('.')[2]}")
    assert {clause.name for clause in attack.clauses} == tests.CAUGHT_ALONE


@every_family
def test_the_attack_knows_the_registered_algorithms_and_no_others(family):
    attack = import_attacker(family.attack).attack
    registered = {algorithm.name for algorithm in family.algorithms}
    assert set(attack.algorithms) in (registered, set())
    assert {name for clause in attack.clauses for name in clause.algorithms} <= registered


def test_what_every_attack_asks_has_one_name():
    names = [{clause.name for clause in import_attacker(family.attack).attack.clauses} for family in METHODS.values()]
    assert set.intersection(*names) == (SHARED | {"decidable"}) - {"covers", "complete"}
    assert all(sum(name in of for of in names) >= 4 for name in SHARED)
