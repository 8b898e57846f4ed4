"""Measures how large the project is: ``./dev measure [--limit | --lower | --features] [REVISION ...]``.

Each revision of git is measured in a column of its own, then the working tree. ``--limit`` compares the tree with the
greatest sizes of benchmarks/sizes.toml and fails above one of them; ``--lower`` writes the smaller sizes of this tree
there; ``--features`` counts lines and words by the features that the same file lists.

A body is a function's lines without its docstring, comments and blanks. A kernel is a module of `methods` or `attacks`
that compiles with Numba. Words by hand are those of README and its like and of docs/ without what programs make.
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
from pathlib import Path
from statistics import mean, median, quantiles

ROOT = Path(__file__).resolve().parents[1]
SIZES = Path(__file__).with_name("sizes.toml")
Function = ast.FunctionDef | ast.AsyncFunctionDef
_MADE = "<!-- Made by "  # the rest of a page below this is written by a program


class Module:
    """A module, and which of its lines are what."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.length, self.compiles = path, text.count("\n"), "compile_kernel" in text
        self.tree = ast.parse(text)
        nodes, lines = list(ast.walk(self.tree)), text.splitlines()
        texts = [node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr)]
        within = {row for node in texts for row in range(node.lineno + 1, (node.end_lineno or 0) + 1)}
        self.comments = {row for row, line in enumerate(lines, 1) if line.lstrip().startswith("#")} - within
        self.docstrings = {row for node in nodes for row in _find_docstring(node)}
        filled = {row for row, line in enumerate(lines, 1) if line.strip()}
        self.code = filled - self.comments - self.docstrings

    def iter_functions(self) -> Iterator[tuple[Function, bool]]:
        """Every function, and whether it is public: neither it nor what it stands in begins with an underscore."""
        waiting: list[tuple[ast.AST, bool]] = [(self.tree, True)]
        while waiting:
            node, public = waiting.pop()
            for child in ast.iter_child_nodes(node):
                named = isinstance(child, Function | ast.ClassDef)
                inside = public and not (named and child.name.startswith("_"))
                if isinstance(child, Function):
                    yield child, inside
                else:
                    waiting.append((child, inside))

    def measure_body(self, function: Function) -> int:
        """Lines of code of a function's body."""
        return len(self.code & set(range(function.body[0].lineno, (function.end_lineno or 0) + 1)))


def _find_docstring(node: ast.AST) -> range:
    """Lines of a docstring, or of the string below a constant that says what it is."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return range(node.lineno, (node.end_lineno or node.lineno) + 1) if is_text else range(0)  # type: ignore[attr-defined]


def _count_parameters(function: Function) -> int:
    given = function.args
    return len([one for one in (*given.posonlyargs, *given.args, *given.kwonlyargs) if one.arg not in ("self", "cls")])


def _count_lines(files: list[Path]) -> int:
    return sum(file.read_text(encoding="utf-8").count("\n") for file in files)


def _count_words(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").split(_MADE)[0].split())


def _list_pages(root: Path) -> list[Path]:
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def measure_limits(root: Path, modules: list[Module]) -> dict[str, int]:
    """Sizes that have a limit, by their name in benchmarks/sizes.toml."""
    pages = {page: _count_words(page) for page in _list_pages(root)}
    return {
        "python_lines": sum(module.length for module in modules),
        "sql_lines": _count_lines(sorted((root / "sql").rglob("*.sql"))),
        "test_lines": _count_lines(sorted((root / "tests").rglob("*.py"))),
        "words_by_hand": sum(pages.values()),
        "words_of_results": sum(map(_count_words, (root / "benchmarks").rglob("*.md"))),
        "longest_module_lines": max(module.length for module in modules),
        "longest_function_lines": max(m.measure_body(f) for m in modules for f, _ in m.iter_functions()),
        "longest_page_words": max(pages.values()),
    }


def _format_spread(values: list[int]) -> str:
    return f"{median(values):.0f} / {quantiles(values, n=10)[-1]:.0f} / {max(values)}"


def _measure_python(modules: list[Module]) -> Iterator[tuple[str, str]]:
    for kind in ("code", "comments", "docstrings"):
        yield f"Python: {kind}", f"{sum(len(getattr(module, kind)) for module in modules):,}"
    yield "modules, p50 / p90 / max", f"{len(modules)}, {_format_spread([module.length for module in modules])}"
    kernels = [m for m in modules if m.path.parts[1] in ("methods", "attacks") and m.compiles]
    share = sum(len(module.comments) for module in kernels) / sum(module.length for module in kernels)
    yield "kernels: share of comment lines", f"{100 * share:.1f} %"
    functions = [(module, *pair) for module in modules for pair in module.iter_functions()]
    bodies = [module.measure_body(function) for module, function, _ in functions]
    public = [_count_parameters(function) for _, function, is_public in functions if is_public]
    yield "body of a function, p50 / p90 / max", _format_spread(bodies)
    yield "bodies over 30 lines", f"{sum(lines > 30 for lines in bodies)} of {len(bodies):,}"
    yield "parameters a public function, mean; with more than 8", f"{mean(public):.2f}; {sum(n > 8 for n in public)}"


def _measure_sql(root: Path) -> Iterator[tuple[str, str]]:
    text = "".join(file.read_text(encoding="utf-8") for file in sorted((root / "sql").rglob("*.sql")))
    functions = len(re.findall(r"^CREATE OR REPLACE (?:FUNCTION|PROCEDURE)", text, re.MULTILINE))
    share = len(re.findall(r"^\s*--", text, re.MULTILINE)) / text.count("\n")
    yield "SQL: functions; share of comment lines", f"{functions}; {100 * share:.1f} %"


def read_modules(root: Path) -> list[Module]:
    """All modules of the package under a folder."""
    files = sorted((root / "dbanon").rglob("*.py"))
    return [Module(file.relative_to(root), file.read_text(encoding="utf-8")) for file in files]


def measure_tree(root: Path) -> dict[str, str]:
    """Measure the tree under a folder; returns figures as text by what they are of."""
    modules = read_modules(root)
    figures = {name.replace("_", " "): f"{size:,}" for name, size in measure_limits(root, modules).items()}
    figures.update(_measure_python(modules))
    figures.update(_measure_sql(root))
    by_package = Counter[str]()
    for module in modules:
        by_package["/".join(module.path.parts[1:-1][: 2 if module.path.parts[1] == "methods" else 1]) or "-"] += (
            module.length
        )
    return figures | {f"lines of {name}": f"{number:,}" for name, number in sorted(by_package.items())}


def measure_features(root: Path) -> dict[str, str]:
    """Count lines and words of each feature: a file belongs to the first that has a pattern of it."""
    kinds = {"dbanon": "*.py", "sql": "*.sql", "tests": "*.py", "docs": "*.md"}
    left = [file for folder, pattern in kinds.items() for file in sorted((root / folder).rglob(pattern))]
    features = {}
    for feature, patterns in (read_sizes()["features"] | {"the rest": [""]}).items():
        mine = [file for file in left if any(re.search(one, str(file.relative_to(root))) for one in patterns)]
        left = [file for file in left if file not in mine]
        of = {folder: [file for file in mine if root / folder in file.parents] for folder in kinds}
        counts = [
            *(_count_lines(of[folder]) for folder in ("dbanon", "sql", "tests")),
            sum(map(_count_words, of["docs"])),
        ]
        features[feature] = " + ".join(f"{number:,}" for number in counts)
    return features


def read_sizes() -> dict[str, dict]:
    """Limits, and patterns of features."""
    return tomllib.loads(SIZES.read_text(encoding="utf-8"))


def demand_limits(sizes: dict[str, int], limits: dict[str, int]) -> None:
    """Refuse a tree that is larger than a limit."""
    above = [f"{name}: {sizes[name]:,} of {limit:,}" for name, limit in limits.items() if sizes[name] > limit]
    if above:
        raise SystemExit(
            "measure: sizes must be within the limits of benchmarks/sizes.toml. Got " + ", ".join(above) + "; take out "
            "what nobody would miss, or raise the limit and write a line with the reason in CHANGELOG.md."
        )
    smaller = sum(sizes[name] < limit for name, limit in limits.items())
    print(
        f"measure: {len(limits)} sizes are within their limits" + ", lower them: ./dev measure --lower" * (smaller > 0)
    )


def lower_limits() -> None:
    """Write the sizes of this tree where they are smaller than the limits."""
    text, sizes = SIZES.read_text(encoding="utf-8"), measure_limits(ROOT, read_modules(ROOT))
    for name, limit in read_sizes()["limits"].items():
        text = re.sub(rf"^{name} = \d+", f"{name} = {min(limit, sizes[name])}", text, flags=re.MULTILINE)
    SIZES.write_text(text, encoding="utf-8")


def _export_revision(revision: str, folder: Path) -> Path:
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def main() -> None:
    """Print a table in Markdown, a column each."""
    words = sys.argv[1:]
    if words == ["--limit"]:
        return demand_limits(measure_limits(ROOT, read_modules(ROOT)), read_sizes()["limits"])
    if words == ["--lower"]:
        return lower_limits()
    measured = measure_features if "--features" in words else measure_tree
    columns = {}
    for revision in (word for word in words if word != "--features"):
        with tempfile.TemporaryDirectory() as folder:
            columns[revision] = measured(_export_revision(revision, Path(folder)))
    columns["working tree"] = measured(ROOT)
    rows = list(dict.fromkeys(name for column in columns.values() for name in column))
    print(f"| {'Python + SQL + tests + words' * (measured is measure_features)} | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    for name in rows:
        print(f"| {name} | {' | '.join(column.get(name, '-') for column in columns.values())} |")
    return None


if __name__ == "__main__":
    main()
