"""SQL in what the server says, as the command line writes it; and what both say in the same words."""

import ast
import re
from pathlib import Path

import pytest

from dbanon._sqlstate import for_command_line


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Cancel it first: SELECT dbanon.cancel_run(7).", "Cancel it first: `dbanon cancel 7`."),
        ("List the runs: SELECT * FROM dbanon.runs.", "List the runs: `dbanon runs`."),
        ("See it: SELECT * FROM dbanon.runs WHERE run_id = 7.", "See it: `dbanon runs`."),
        ("Withdraw it: SELECT dbanon.unpublish('cabs').", "Withdraw it: `dbanon unpublish cabs`."),
        ("Start another run: CALL dbanon.anonymize(...).", "Start another run: `dbanon run`."),
        (
            "Load it again: SELECT * FROM dbanon.import_trajectories(..., mode => 'replace').",
            "Load it again: `dbanon load trajectories --replace`.",
        ),
        ("Name them: columns => ARRAY['poi', 'radius'].", "Name them: --columns poi,radius."),
        ("Or allow_overlap => true with reason => '...'.", "Or --allow-overlap with --reason."),
        (r"Add reason => E'in c:\\data, it''s ours'.", r"""Add --reason 'in c:\data, it'"'"'s ours'."""),
        (
            "End them: SELECT dbanon.unpublish('cabs', end_readers => true).",
            "End them: `dbanon unpublish cabs --end-readers`.",
        ),
        (
            "SELECT dbanon.publish(7, 'cabs', replace => true, allow_overlap => true, "
            "reason => 'read by Ann''s group (two), no others', end_readers => true).",
            "`dbanon publish 7 cabs --replace --allow-overlap "
            """--reason 'read by Ann'"'"'s group (two), no others' --end-readers`.""",
        ),
        ("Read it: SELECT * FROM dbanon.audit.", "Read it: SELECT * FROM dbanon.audit."),
    ],
)
def test_sql_is_written_as_the_command_line_does(said: str, written: str) -> None:
    assert for_command_line(said) == written


ROOT = Path(__file__).parents[2]
FOR_THE_COMMAND_LINE = re.compile(r"`dbanon |(?<![\w-])--[a-z]|(?<![\w-])-p ")


def sentences(file: Path) -> list[str]:
    """All texts of a program that are not its documentation."""
    tree = ast.parse(file.read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    return [text for text in texts if text not in docs]


# What a run ends with is stored once, for psql and the command line: docs/decisions.md, "Hints are written in SQL".
@pytest.mark.parametrize("package", ["methods", "attacks", "trajectory.py", "running.py"])
def test_what_a_run_ends_with_is_right_in_psql_and_on_the_command_line(package: str) -> None:
    found = ROOT / "dbanon" / package
    files = sorted(found.glob("*.py")) if found.is_dir() else [found]
    assert files
    assert [text for file in files for text in sentences(file) if FOR_THE_COMMAND_LINE.search(text)] == []


@pytest.mark.parametrize("file", sorted((ROOT / "sql").glob("*.sql")), ids=lambda file: file.name)
def test_the_database_never_speaks_in_options_of_the_command_line(file: Path) -> None:
    code = re.sub(r"^COMMENT ON .*?';$|--\s.*?$|--$", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert FOR_THE_COMMAND_LINE.findall(code) == []
