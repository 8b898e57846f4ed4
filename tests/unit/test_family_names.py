"""Nothing names a family, comments included, but the family, the registry and the docs: core asks its entry instead."""

import re
import subprocess
import sys
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


@pytest.mark.many
@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_core_names_no_family(path: Path) -> None:
    assert NAMES.findall(path.read_text()) == []


def test_the_search_finds_what_it_looks_for() -> None:
    assert len(CORE) > 80
    assert {*METHODS} <= {*NAMES.findall(REGISTRY.read_text())}
    for name in OWN:
        assert NAMES.search((ROOT / "dbanon" / "methods" / name / "__init__.py").read_text())


def test_listing_methods_does_not_import_what_compiles_them() -> None:
    program = (
        "import sys; from dbanon.methods import METHODS, describe; [describe(f) for f in METHODS.values()]; "
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
