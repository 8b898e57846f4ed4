"""Measures how large the package is, and in how many places a thing stands: ``./dev measure [REVISION ...]``.

Each revision of git is measured in a column of its own, then the working tree. A body is a function's lines without its
docstring, comments and blanks; a kernel is a module of `methods` or `attacks` that compiles with Numba; a place of an
option of `load` is a line that has its name.
"""

import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, quantiles

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = ("split_gap_s", "settle_s", "own_subjects", "day_zone", "grid_s", "bbox")
Function = ast.FunctionDef | ast.AsyncFunctionDef
_CLAUSES = """import importlib, sys
for package in sys.argv[1:]:
    attack = importlib.import_module(package)
    made = getattr(attack.attack, "clauses", None)
    print(*([clause.name for clause in made] if made else attack._SENTENCES))"""


@dataclass
class Module:
    """A module, and which of its lines are what."""

    path: Path
    text: str
    tree: ast.Module = field(init=False)
    comments: set[int] = field(init=False)
    docstrings: set[int] = field(init=False)
    code: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text)
        nodes, lines = list(ast.walk(self.tree)), self.text.splitlines()
        texts = [node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr)]
        within = {row for text in texts for row in range(text.lineno + 1, (text.end_lineno or 0) + 1)}
        self.comments = {row for row, line in enumerate(lines, 1) if line.lstrip().startswith("#")} - within
        self.docstrings = {row for node in nodes for row in _find_docstring(node)}
        filled = {number for number, line in enumerate(lines, 1) if line.strip()}
        self.code = filled - self.comments - self.docstrings

    def iter_functions(self) -> Iterator[tuple[Function, bool]]:
        """Every function, and whether it is public: neither it nor what it stands in begins with an underscore."""
        waiting: list[tuple[ast.AST, bool]] = [(self.tree, True)]
        while waiting:
            node, public = waiting.pop()
            for child in ast.iter_child_nodes(node):
                if isinstance(child, Function):
                    yield child, public and not child.name.startswith("_")
                elif isinstance(child, ast.ClassDef):
                    waiting.append((child, public and not child.name.startswith("_")))
                else:
                    waiting.append((child, public))


def _find_docstring(node: ast.AST) -> range:
    """Lines of a docstring, or of the string below a constant that says what it is."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return range(node.lineno, (node.end_lineno or node.lineno) + 1) if is_text else range(0)  # type: ignore[attr-defined]


def _count_parameters(function: Function) -> int:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _spread(values: list[int]) -> str:
    return f"{median(values):.0f} / {quantiles(values, n=10)[-1]:.0f} / {max(values)}"


def _format_share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _name_package(path: Path) -> str:
    return path.parts[1] + "/" if len(path.parts) > 2 else "(loose modules)"


def _measure_sizes(modules: list[Module]) -> Iterator[tuple[str, str]]:
    total = sum(len(module.text.splitlines()) for module in modules)
    comments = sum(len(module.comments) for module in modules)
    yield "dbanon/: lines", f"{total:,}"
    yield "of them code", f"{sum(len(module.code) for module in modules):,}"
    yield "of them comments", f"{comments:,}"
    yield "of them docstrings", f"{sum(len(module.docstrings) for module in modules):,}"
    yield "modules, p50 / p90 / max", f"{len(modules)}, {_spread([len(m.text.splitlines()) for m in modules])}"
    kernels = [m for m in modules if _name_package(m.path) in ("methods/", "attacks/") and "numba" in m.text]
    lines = sum(len(module.text.splitlines()) for module in kernels)
    yield "kernels: share of comment lines", _format_share(sum(len(m.comments) for m in kernels), lines)


def _measure_functions(modules: list[Module]) -> Iterator[tuple[str, str]]:
    bodies, parameters, names = [], [], 0
    for module in modules:
        names += sum(
            isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_") for node in module.tree.body
        )
        for function, public in module.iter_functions():
            bodies.append(len(module.code & set(range(function.body[0].lineno, (function.end_lineno or 0) + 1))))
            parameters += [_count_parameters(function)] * public
    yield "public functions and classes of modules", f"{names:,}"
    yield "body of a function, p50 / p90 / max", _spread(bodies)
    yield "bodies over 30 lines", _format_share(sum(lines > 30 for lines in bodies), len(bodies))
    yield "parameters a public function", f"{mean(parameters):.2f}"
    yield "public functions with more than 8", _format_share(sum(number > 8 for number in parameters), len(parameters))


def _count_places(root: Path) -> Iterator[tuple[str, str]]:
    for folders, pattern in ((("dbanon",), "*.py"), (("sql", "migrations"), "*.[sp][qy]*")):
        texts = [
            file.read_text()
            for folder in folders
            for file in sorted((root / folder).rglob(pattern))
            if file.suffix != ".pyc"
        ]
        counts = [[len(re.findall(rf"^.*\b{option}\b", text, re.MULTILINE)) for text in texts] for option in OPTIONS]
        lines, files = median(sum(c) for c in counts), median(sum(n > 0 for n in c) for c in counts)
        yield f"an option of `load` in {' and '.join(folders)}, lines (files)", f"{lines:.0f} ({files:.0f})"


def _count_clauses(root: Path) -> Iterator[tuple[str, str]]:
    packages = sorted(f"dbanon.attacks.{p.parent.name}" for p in (root / "dbanon" / "attacks").glob("*/evidence.py"))
    packages += ["dbanon.attacks.kte"]  # which needs no evidence of its own
    command = [sys.executable, "-c", _CLAUSES, *packages]
    said = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    counts = Counter(name for line in said for name in line.split())
    yield "clauses of the five attacks, names", f"{sum(counts.values())}, {len(counts)}"
    yield "names that four or more attacks have", f"{sum(number >= 4 for number in counts.values())}"


def _measure_others(root: Path) -> Iterator[tuple[str, str]]:
    sql = [file.read_text() for file in sorted((root / "sql").rglob("*.sql"))]
    lines = [line for text in sql for line in text.splitlines()]
    functions = sum(line.startswith(("CREATE OR REPLACE FUNCTION", "CREATE OR REPLACE PROCEDURE")) for line in lines)
    yield "sql/: lines, functions", f"{len(lines):,}, {functions}"
    yield (
        "sql/: share of comment lines",
        _format_share(sum(line.lstrip().startswith("--") for line in lines), len(lines)),
    )
    for folder in ("tests", "benchmarks"):
        text = "".join(file.read_text() for file in sorted((root / folder).rglob("*.py")))
        yield f"{folder}/: lines of Python", f"{text.count(chr(10)):,}"


def measure_tree(root: Path) -> dict[str, str]:
    """Measure the tree under a folder; returns figures as text by what they are of."""
    modules = [Module(f.relative_to(root), f.read_text()) for f in sorted((root / "dbanon").rglob("*.py"))]
    top = sorted(name for name in {module.path.parts[1] for module in modules} if not name.startswith("__"))
    layers = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    found = {"names in dbanon/": f"{len(top)}", "of them modules": f"{sum(name.endswith('.py') for name in top)}"}
    found["layers"] = f"{len(layers)}"
    for figures in (
        _measure_sizes(modules),
        _measure_functions(modules),
        _count_places(root),
        _count_clauses(root),
        _measure_others(root),
    ):
        found.update(figures)
    by_package = Counter[str]()
    for module in modules:
        by_package[_name_package(module.path)] += len(module.text.splitlines())
    return found | {f"lines of {name}": f"{number:,}" for name, number in sorted(by_package.items())}


def _export_revision(revision: str, folder: Path) -> Path:
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def main() -> None:
    """Print a table in Markdown, a column each."""
    columns = {}
    for revision in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            columns[revision] = measure_tree(_export_revision(revision, Path(folder)))
    columns["working tree"] = measure_tree(ROOT)
    rows = list(dict.fromkeys(name for column in columns.values() for name in column))
    print(f"| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name in rows:
        print(f"| {name} | {' | '.join(column.get(name, '-') for column in columns.values())} |")


if __name__ == "__main__":
    main()
