"""What no function or switch of dbanon begins with; one word says that an error is raised unless something holds."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PREPOSITIONS = {
    "about", "after", "at", "before", "between", "by", "for", "in", "into", "of", "under", "with", "within", "without",
}  # fmt: skip
SWITCHES_AVOID = {*PREPOSITIONS, "are", "from"}
OTHER_WORDS_FOR_DEMAND = {"assert", "check", "ensure", "must", "refuse", "require", "validate"}
PUBLIC = {"Database.check", "RunResult.require_verified"}  # users have these; the first lists problems
NOUNS = {"contextmanager", "property", "cached_property"}  # decorators of what is used as a noun


def find_fault(name: str) -> str:
    """Say what is wrong with a function's name; nothing if nothing is."""
    first = name.rpartition(".")[2].strip("_").partition("_")[0]
    if first in OTHER_WORDS_FOR_DEMAND and name not in PUBLIC:
        return "say demand where an error is raised, find or list where faults are returned"
    if first in PREPOSITIONS or first.endswith(("ed", "ing")):
        return "begin with a verb"
    return ""


def iter_names(node: ast.AST, owner: str = "") -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(one).split(".")[-1] for one in child.decorator_list}
            if not decorators & NOUNS and not any("command(" in one for one in decorators):
                yield owner + child.name
            yield from iter_names(child)
        else:
            yield from iter_names(child, f"{child.name}." if isinstance(child, ast.ClassDef) else owner)


@cache
def parse_files() -> dict[str, ast.Module]:
    files = sorted((ROOT / "dbanon").rglob("*.py"))
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def test_no_function_begins_with_a_preposition_a_participle_or_another_word_for_demand() -> None:
    names = [(file, name) for file, tree in parse_files().items() for name in iter_names(tree)]
    found = [(file, name, fault) for file, name in names if (fault := find_fault(name))]
    assert found == []
    assert names


def iter_switches(node: ast.AST) -> Iterator[str]:
    """Give the arguments of functions that are true or false."""
    for child in ast.walk(node):
        if isinstance(child, ast.arg) and child.annotation is not None and ast.unparse(child.annotation) == "bool":
            yield child.arg


def test_a_switch_reads_as_a_condition() -> None:
    switches = [(file, name) for file, tree in parse_files().items() for name in iter_switches(tree)]
    found = [(file, name) for file, name in switches if name.split("_")[0] in SWITCHES_AVOID]
    assert found == []
    assert switches


@pytest.mark.parametrize("name", ["check_zone", "_must", "Truth._between", "into_files", "called", "naming"])
def test_other_names_would_be_found(name: str) -> None:
    assert find_fault(name)
    assert not find_fault("demand_zone")
