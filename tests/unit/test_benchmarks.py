"""Programs in benchmarks/, which no test runs, import from one another and from dbanon only what is there."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "benchmarks").rglob("*.py"))


def list_names(file: Path) -> set[str]:
    """All names that a module defines or imports, at any depth."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return names | {(one.asname or one.name).partition(".")[0] for node in imports for one in node.names}


@pytest.mark.parametrize("program", PROGRAMS, ids=[str(program.relative_to(ROOT)) for program in PROGRAMS])
def test_a_benchmark_imports_what_is_there(program: Path) -> None:
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        place = Path(node.module.replace(".", "/"))
        for folder in (ROOT, ROOT / "benchmarks"):
            package = folder / place
            files = [file for file in (package.with_suffix(".py"), package / "__init__.py") if file.exists()]
            submodules = {file.stem for file in package.glob("*") if file.suffix == ".py" or file.is_dir()}
            lacking = {one.name for one in node.names} - submodules
            assert not files or lacking <= list_names(files[0]), f"{program.name}, line {node.lineno}: {node.module}"
