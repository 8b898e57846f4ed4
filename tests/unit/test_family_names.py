"""Nothing names a family but the family itself, the registry and the docs: core asks its entry instead."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from dbanon.methods import METHODS

ROOT = Path(__file__).parents[2]
OWN = {name.replace("-", "_") for name in METHODS}
NAMES = re.compile(rf"\b({'|'.join(sorted({*METHODS, *OWN, 'kte', 'mob', 'semantic'}))})\b")
REGISTRY = ROOT / "dbanon" / "methods" / "__init__.py"
CORE = [
    path
    for folder, kind in (("dbanon", "*.py"), ("sql", "*.sql"), ("migrations", "*.py"))
    for path in sorted((ROOT / folder).rglob(kind))
    if path != REGISTRY and not OWN & {*path.relative_to(ROOT).parts, path.stem}
]


def code(path: Path) -> str:
    """A file without what documents it: strings that stand alone in Python, COMMENT ON in SQL."""
    text = path.read_text()
    if path.suffix == ".sql":
        return re.sub(r"^COMMENT ON .*?';$", "", text, flags=re.MULTILINE | re.DOTALL)
    alone = {
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(t.string for t in tokens if not (t.type == tokenize.STRING and t.start[0] in alone))


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_core_names_no_family(path: Path) -> None:
    assert NAMES.findall(code(path)) == []


def test_the_search_finds_what_it_looks_for() -> None:
    assert len(CORE) > 80
    assert {*METHODS} <= {*NAMES.findall(code(REGISTRY))}
    for name in OWN:
        assert NAMES.search(code(ROOT / "dbanon" / "methods" / name / "__init__.py"))


def test_listing_methods_does_not_import_what_compiles_them() -> None:
    program = (
        "import sys; from dbanon.methods import METHODS, describe; [describe(f) for f in METHODS.values()]; "
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
