"""The sentences of the program keep to the English of the house style: nouns, named actors, events said as events."""

import re
from functools import cache

import pytest

from dbanon.attacks import import_attacker
from dbanon.methods import METHODS
from tests.golden.sentences import list_sentences

# What must not be said, and what to say instead.
RULES = {
    r"\bwho(?:m|se)?ever\b": "name the actor: the adversary, the caller, the worker, the reader",
    r"\b(?:some|every|any)(?:body|one)(?:'s)?\b": "name the actor, or say each subject, all subjects",
    r"\bnobody(?:'s)?\b": "no login, no session, no subject",
    r"\bwho did it\b": "name the actor",
    r"\b(?:told|tells?|telling)\b": "detected, reported, identified, named, distinguished",
    r"\bmust be left to end\b": "an event: what happened, what state things are in, what to do",
    r"\bmust be left alone\b": "an event: what happened, what state things are in, what to do",
    r"\bmust (?:stay up|come to (?:an|its) end|run through|answer)\b": "an event: what happened, the state, what to do",
    r"\bmust (?:still )?(?:be ready|be free|have room|have enough memory|accept)\b": "say it as an event",
    r"\bwhat (?:is|was|it had) not (?:finished|done) is undone\b": "unfinished work was undone",
    r"\bin the place of\b|\btake its place\b": "replace",
    r"\bof its own\b": "its own",
    r"\bfor ever\b": "permanently",
    r"\b(?:by now|at it)\b": "leave it out",
    r"\bmend\b": "correct, repair",
    r"\bat hand\b": "available",
    r"\bhas (?:it )?not\.": "does not have it",
    r"\b(?:please|sorry)\b": "leave it out",
    r"!(?:\s|$)": "a full stop",
}


@cache
def list_everything() -> list[tuple[str, str]]:
    """Give all sentences with their files; read when a test asks, and not whenever tests are collected."""
    return [(path, line) for path, lines in list_sentences().items() for line in lines]


@pytest.mark.parametrize("rule", RULES)
def test_no_sentence_says_what_the_house_style_does_not(rule: str) -> None:
    offending = [f"{path}: {line}" for path, line in list_everything() if re.search(rule, line, re.IGNORECASE)]
    assert offending == [], f"instead: {RULES[rule]}"


# A placeholder and a plural, which is wrong after a 1: `counted` in Python and in SQL write both.
PLURAL = re.compile(r"(?:%s|(?<!%)%(?=[ ])|\{\w*\}) (?:([a-z]+) )?([a-z-]+s|people)\b(?! at most)")
BOUNDS = ("at most ", "k = ", "l = ", "c / ", "2^")  # never 1
OTHERS = {"as", "begins", "does", "finds", "has", "holds", "is", "its", "leaves", "repeats", "replaces"}
OTHERS |= {"hides", "publishes", "says", "shows", "speaks", "stands", "stays", "this", "uses", "was"}


def find_plurals(line: str) -> list[str]:
    """Return the counts of a sentence whose noun would be a plural after a 1, too."""
    found = (match for match in PLURAL.finditer(line) if not {*match.groups()} & OTHERS)
    return [match[0] for match in found if not line[: match.start()].endswith(BOUNDS)]


def test_a_count_and_its_noun_come_from_one_function() -> None:
    assert [f"{path}: {line}" for path, line in list_everything() if find_plurals(line)] == []


def test_a_plural_after_a_placeholder_is_found() -> None:
    assert find_plurals(
        "Of % rows, {n} other things are left; %s people, {} lies there, at least k = {k} subjects."
    ) == [
        *("% rows", "{n} other things", "%s people", "{} lies"),
    ]


@pytest.mark.parametrize("family", METHODS)
def test_a_clause_that_is_broken_once_is_broken_by_one(family: str) -> None:
    clauses = [clause.make_clause(1, {"k": 5}) for clause in import_attacker(METHODS[family].attack).attack.clauses]
    broken = [clause.sentence.partition("; broken by ")[2] for clause in clauses]
    assert [said for said in broken if not re.fullmatch(r"1 (?:(?:\w*[^s\W]|is),? ?)+\.", said)] == []


def test_what_begins_as_a_sentence_of_an_error_ends_as_one() -> None:
    """What must hold, what was got, what to do; the last may be in a HINT or filled in."""
    errors = [(path, line) for path, line in list_everything() if re.match(r"[A-Z{%].* must ", line) and ". " in line]
    assert [f"{path}: {line}" for path, line in errors if not re.search(r"(?:[.?:}%\])]|%s)$", line)] == []


def test_an_offence_is_found() -> None:
    said = "Whoever knows it must be left to end; it was told to somebody."
    assert {rule for rule in RULES if re.search(rule, said, re.IGNORECASE)} == {
        r"\bwho(?:m|se)?ever\b",
        r"\b(?:some|every|any)(?:body|one)(?:'s)?\b",
        r"\b(?:told|tells?|telling)\b",
        r"\bmust be left to end\b",
    }
