# ruff: noqa: E501
"""Public functions are called by the names of their arguments, and no name needs quotes."""

import psycopg
import pytest
from psycopg.rows import dict_row

ARGUMENTS = """
SELECT p.prokind, n.nspname || '.' || p.proname AS function, coalesce(a.name, '') AS name, format_type(a.type, NULL) AS type
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
CROSS JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY i (type, place)
CROSS JOIN LATERAL (SELECT i.type, p.proargnames[i.place] AS name) a
WHERE n.nspname IN ('dbanon', 'published') AND p.prorettype <> 'trigger'::regtype
ORDER BY function, i.place"""


def list_arguments(connection: psycopg.Connection) -> dict[tuple[str, str], dict[str, str]]:
    """The types of the arguments of each public function or procedure, by name."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(ARGUMENTS):
            found.setdefault((row["prokind"], row["function"]), {})[row["name"]] = row["type"]
    return found


def test_each_public_function_is_called_by_names_without_quotes(connection: psycopg.Connection) -> None:
    refused = []
    functions = list_arguments(connection)
    for (kind, function), types in functions.items():
        given = ", ".join(f"{name} => NULL::{kind_of}" for name, kind_of in types.items())
        try:
            call = f"EXPLAIN SELECT FROM {function}({given})"
            if kind == "p":
                call = f"DO $$ BEGIN IF false THEN CALL {function}({given}); END IF; END $$"
            connection.execute(call)  # type: ignore[arg-type]
        except psycopg.Error as error:  # the planner may execute what is simple, which may refuse NULL
            if error.sqlstate in ("42601", "42883", "42704"):
                refused.append(f"{function}: {error}")
    assert refused == []
    assert {"dbanon.import_trajectories", "dbanon.publish", "dbanon.anonymize"} <= {name for _, name in functions}


@pytest.mark.parametrize("function", ["import_trajectories", "import_requests", "import_quasi_identifiers"])
@pytest.mark.parametrize(("word", "state"), [("time", "42601"), ('"time"', "42883")])
def test_the_old_word_for_the_column_of_times_loads_nothing(
    connection: psycopg.Connection, function: str, word: str, state: str
) -> None:
    connection.execute("CREATE TABLE public.gps AS SELECT 'a' AS cab, now() AS ts, 8.2 AS lon, 53.1 AS lat")
    with pytest.raises(psycopg.ProgrammingError) as caught:
        connection.execute(f"SELECT dbanon.{function}('public.gps', dataset => 'd', subject => 'cab', {word} => 'ts')")  # type: ignore[arg-type]
    assert caught.value.sqlstate == state
    assert connection.execute("SELECT count(*) FROM dbanon.load").fetchone() == (0,)
