"""The table of symptoms in the page on errors: each statement that it proposes is one that the server knows."""

import re

import psycopg
import pytest

from tests.pages import ROOT

pytestmark = pytest.mark.db
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text()
SYMPTOMS = PAGE.partition("## Symptom and cause")[2].partition("<!--")[0]
STATEMENTS = re.findall(r"`((?:SELECT|SET|CALL) [^`]+)`", SYMPTOMS)


def test_there_are_a_dozen_symptoms_each_with_a_remedy() -> None:
    rows = [row.strip("| ").split(" | ") for row in SYMPTOMS.splitlines() if row.startswith("| ")][1:]
    assert len(rows) >= 12
    assert all(len(cells) == 3 and all(cells) for cells in rows)
    assert len(STATEMENTS) >= 8


def test_each_statement_against_a_symptom_is_executed(own: psycopg.Connection) -> None:
    own.execute("SELECT dbanon.publish(1, 'taxi_k5')")
    own.execute("CREATE SCHEMA postgis")
    for statement in STATEMENTS:
        own.execute(statement)  # type: ignore[arg-type]
