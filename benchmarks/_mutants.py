"""Whether the tests notice a mistake: ``./dev mutate [--number N] [--seed S] [--at-once J] [part of a path ...]``.

Draws places in methods, attacks, metrics and the SQL of composition, changes one at a time in a copy of the repository
(a comparison, a sign, a whole number, and with or, least with greatest), and runs the tests of that file, its family's
own first. What lives is printed with its line: it is equivalent, or a test is missing. Not a check of `./dev check`:
200 mutants take an hour.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PLACES = ("dbanon/methods/**/*.py", "dbanon/attacks/**/*.py", "dbanon/metrics/*.py")
COMPOSITION = ("sql/60_releases/1*.sql", "sql/20_load/45_copies.sql")
TESTS_OF_COMPOSITION = "composition groups copies known history nights atoms composition_at_random"
TIMEOUT_S = 900
_BYTES = "latin-1"  # a character a byte, as columns of `ast` count
_SWAPS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+"},
    **{"and": "or", "or": "and", "min": "max", "max": "min", "True": "False", "False": "True"},
}
_SQL_SWAPS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "<>", "<>": "=", "+": "-", "-": "+", "AND": "OR", "OR": "AND"},
    **{"min": "max", "max": "min", "bool_or": "bool_and", "bool_and": "bool_or", "NOT": "", "DISTINCT": ""},
}


class Mutant(NamedTuple):
    """One mistake: a file, where in its text, and what stands there instead."""

    file: str
    start: int
    end: int
    after: str

    def describe(self, text: str) -> str:
        """Say where it is, and what changes."""
        number, column = text.count("\n", 0, self.start) + 1, self.start - text.rfind("\n", 0, self.start)
        line = text.splitlines()[number - 1].strip()
        return f"{self.file}:{number}:{column}: {text[self.start : self.end]!r} -> {self.after!r} in `{line}`"


def _list_gaps(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Pairs of expressions with an operator between them."""
    match node:
        case ast.Compare():
            return list(zip([node.left, *node.comparators], node.comparators, strict=False))
        case ast.BoolOp():
            return list(zip(node.values, node.values[1:], strict=False))
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return [(node.left, node.right)]
    return []


def _list_said(tree: ast.AST) -> set[int]:
    """Nodes of sentences, annotations and decorators, in which a change says something else and does the same."""
    nodes = list(ast.walk(tree))
    said: list[ast.AST] = [node for node in nodes if isinstance(node, ast.JoinedStr | ast.Raise)]
    said += [node.annotation for node in nodes if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation]
    said += [one for node in nodes for one in getattr(node, "decorator_list", ())]
    return {id(part) for node in said for part in ast.walk(node)}


def _iter_python(file: str, text: str) -> Iterator[Mutant]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text.encode(_BYTES))
    said = _list_said(tree)
    for node in (one for one in ast.walk(tree) if id(one) not in said):
        for left, right in _list_gaps(node):
            begin, stop = starts[(left.end_lineno or 0) - 1] + (left.end_col_offset or 0), starts[right.lineno - 1]
            for match in re.finditer(r"<=|>=|==|!=|[<>+-]|\band\b|\bor\b", text[begin : stop + right.col_offset]):
                yield Mutant(file, begin + match.start(), begin + match.end(), _SWAPS[match.group()])
        if isinstance(node, ast.Constant | ast.Name):
            word, begin = ast.unparse(node), starts[node.lineno - 1] + node.col_offset
            whole = isinstance(node, ast.Constant) and type(node.value) is int
            if whole or word in ("True", "False", "min", "max"):
                after = str(node.value + 1) if whole else _SWAPS[word]  # type: ignore[operator, union-attr]
                yield Mutant(file, begin, starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0), after)


def _iter_sql(file: str, text: str) -> Iterator[Mutant]:
    # Comments, sentences and heads of functions decide nothing.
    bare = re.sub(
        r"--[^\n]*|'(?:[^']|'')*'|COMMENT ON .*?;\n|RAISE .*?;|CREATE OR REPLACE .*?\nAS |^SET [^\n]*",
        lambda match: " " * len(match.group()),
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
    words = r"\b(?:AND|OR|NOT|DISTINCT|min|max|bool_or|bool_and)\b"
    for match in re.finditer(rf"(?<= )(?:<=|>=|<>|[<>=+-])(?= )|{words}|\b\d+\b", bare):
        after = _SQL_SWAPS[match.group()] if not match.group().isdigit() else str(int(match.group()) + 1)
        yield Mutant(file, match.start(), match.end(), after)


def list_mutants(root: Path, parts: list[str]) -> list[Mutant]:
    """List every mistake that may be made in files of whose path one of these is a part (of none: in all)."""
    mutants: list[Mutant] = []
    for patterns, iterate in ((PLACES, _iter_python), (COMPOSITION, _iter_sql)):
        for file in sorted({path for pattern in patterns for path in root.glob(pattern)}):
            name = str(file.relative_to(root))
            if not parts or any(part in name for part in parts):
                mutants += iterate(name, file.read_text(encoding=_BYTES))
    return mutants


def list_tests(root: Path, file: str) -> list[str]:
    """Name the tests of a file: those of its family or module, then what all families must pass."""
    if file.endswith(".sql"):
        return [f"tests/db/test_{name}.py" for name in TESTS_OF_COMPOSITION.split()]
    parts = Path(file).with_suffix("").parts[2:]
    words = [parts[0]] if len(parts) > 1 and parts[0] not in ("shared", "kernels") else [parts[-1], parts[0]]
    imports = {
        str(test.relative_to(root)): " ".join(re.findall(r"^(?:from|import) .*$", test.read_text(), re.MULTILINE))
        for test in sorted((root / "tests" / "unit").glob("test_*.py"))
    }
    if len(parts) == 1:  # tests may know it by what imports it alone
        beside = (root / file).parent.rglob("*.py")
        words += [one.stem for one in beside if re.search(rf"^ *from .*\b{parts[0]}\b", one.read_text(), re.MULTILINE)]
    own = [test for word in words for test, text in imports.items() if re.search(rf"(?:\b|_){word}(?:\b|_)", text)]
    return [*dict.fromkeys(own), "tests/contract"]


def _run_tests(copy: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    options = ["-q", "-x", "-p", "no:cacheprovider", "--all", "-m", "not stress and not papers", "-n", "0"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    # A statement that a mistake keeps from ending does not outlive its test for long.
    limited = {**os.environ, "PGOPTIONS": f"-c statement_timeout={TIMEOUT_S}s"}
    return subprocess.run(
        command, cwd=copy, env=limited, capture_output=True, check=False, timeout=TIMEOUT_S, text=True
    )


def is_caught(mutant: Mutant, copy: Path) -> bool:
    """Whether a test fails, or does not end, in a copy of the repository with the mistake, and passes without it."""
    file = copy / mutant.file
    text = file.read_text(encoding=_BYTES)
    file.write_text(text[: mutant.start] + mutant.after + text[mutant.end :], encoding=_BYTES)
    try:
        said = _run_tests(copy, list_tests(copy, mutant.file))
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(text, encoding=_BYTES)
    failed = re.search(r"^(?:FAILED|ERROR) (tests/[^[\s]+)", said.stdout, re.MULTILINE)
    if failed and _run_tests(copy, [failed[1]]).returncode:
        raise SystemExit(f"The tests must pass before a mistake is made. {failed[1]} does not.")
    if said.returncode not in (0, 1, 2) and said.returncode > 0:
        raise SystemExit(
            f"pytest must run in a copy of the repository. Got status {said.returncode}:\n{said.stdout[-2000:]}"
        )
    return said.returncode != 0  # below zero: a kernel ended the process


def main() -> None:
    """Draw mutants, try them, and print each that lives."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--number", type=int, default=200)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--at-once", type=int, default=2)
    asked.add_argument("parts", nargs="*")
    options = asked.parse_args()
    every = list_mutants(ROOT, options.parts)
    if not every:
        asked.error(f"The parts must be of paths with places to change. Got {' '.join(options.parts)}.")
    drawn = random.Random(options.seed).sample(every, min(options.number, len(every)))
    print(f"{len(drawn)} of {len(every):,} mutants, seed {options.seed}", flush=True)
    lived: list[str] = []
    copies: SimpleQueue[Path] = SimpleQueue()

    def attempt(mutant: Mutant) -> None:
        copy, began = copies.get(), time.monotonic()
        dead = is_caught(mutant, copy)
        copies.put(copy)
        said = mutant.describe((ROOT / mutant.file).read_text(encoding=_BYTES))
        lived.extend([] if dead else [said])
        print(f"{'dies ' if dead else 'LIVES'} {time.monotonic() - began:4.0f} s  {said}", flush=True)

    with tempfile.TemporaryDirectory(prefix="dbanon-mutants-") as place, ThreadPoolExecutor(options.at_once) as pool:
        for number in range(options.at_once):
            copy = Path(place) / str(number)
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "build"))
            copies.put(copy)
        list(pool.map(attempt, drawn))
    print(f"{len(lived)} of {len(drawn)} live")


if __name__ == "__main__":
    main()
