"""`./dev mutate` makes the mistakes that it says, each in one place, and knows the tests of what it changes."""

from pathlib import Path

from benchmarks import _mutants

CODE = """def count(left: int, right: int = 3) -> int:
    # 1 < 2
    if left < right and left != 0:
        raise ValueError(f"é {left + 1}")
    return max(left, right) - 1
"""
SQL = """CREATE OR REPLACE FUNCTION one(a integer DEFAULT 1) LANGUAGE sql
AS $$
    SELECT min(a) FROM fact WHERE a <= 2 AND b = 'a + b' -- 1 < 2
$$;
"""


def list_changed(file: str, text: str, tmp_path: Path) -> set[str]:
    """Texts of the lines that a mistake changes."""
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text, encoding="utf-8")
    mutants = _mutants.list_mutants(tmp_path, [])
    coded = text.encode()
    whole = [(coded[: one.start] + one.after.encode() + coded[one.end :]).decode() for one in mutants]
    return {line.strip() for changed in whole for line in set(changed.splitlines()) - set(text.splitlines())}


def test_mistakes_are_made_in_code_alone(tmp_path: Path) -> None:
    assert list_changed("dbanon/methods/family/_rows.py", CODE, tmp_path) == {
        "def count(left: int, right: int = 4) -> int:",
        "if left <= right and left != 0:",
        "if left < right or left != 0:",
        "if left < right and left == 0:",
        "if left < right and left != 1:",
        "return min(left, right) - 1",
        "return max(left, right) + 1",
        "return max(left, right) - 2",
    }


def test_mistakes_are_made_in_bodies_of_sql_alone(tmp_path: Path) -> None:
    assert list_changed("sql/60_releases/12_composition.sql", SQL, tmp_path) == {
        "SELECT max(a) FROM fact WHERE a <= 2 AND b = 'a + b' -- 1 < 2",
        "SELECT min(a) FROM fact WHERE a < 2 AND b = 'a + b' -- 1 < 2",
        "SELECT min(a) FROM fact WHERE a <= 3 AND b = 'a + b' -- 1 < 2",
        "SELECT min(a) FROM fact WHERE a <= 2 OR b = 'a + b' -- 1 < 2",
        "SELECT min(a) FROM fact WHERE a <= 2 AND b <> 'a + b' -- 1 < 2",
    }


def test_every_file_has_tests_of_its_own() -> None:
    patterns = (*_mutants.PLACES, *_mutants.COMPOSITION)
    files = {str(file.relative_to(_mutants.ROOT)) for pattern in patterns for file in _mutants.ROOT.glob(pattern)}
    tests = {file: _mutants.list_tests(_mutants.ROOT, file) for file in files}
    assert all((_mutants.ROOT / test).exists() for found in tests.values() for test in found)
