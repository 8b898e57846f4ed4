"""The measurement in SQL against the oracle, on the random histories on which the oracle itself is tested."""

import psycopg
import pytest

from tests.db.histories import draw_history, find_copied
from tests.db.oracle import Rule, Verdict
from tests.db.writing_histories import COLUMNS, write_and_measure

HISTORIES, SHARE, AT_ONCE = 1300, 100, 20
TABLES = (*COLUMNS, "series", "release", "grouping", "exposure", "audit", "fix_code")


@pytest.mark.parametrize(
    "share",
    [pytest.param(n, marks=(pytest.mark.stress, pytest.mark.many) if n else ()) for n in range(0, HISTORIES, SHARE)],
)
def test_sql_agrees_with_the_oracle_on_verdict_smallest_crowd_people_and_copies(
    scratch: psycopg.Connection, share: int
) -> None:
    found: dict[int, tuple[Verdict, frozenset[int]]] = {}
    for first in range(share, share + SHARE, AT_ONCE):
        drawn = {seed: draw_history(seed) for seed in range(first, first + AT_ONCE)}
        with scratch.transaction(force_rollback=True):
            found |= dict(zip(drawn, write_and_measure(scratch, list(drawn.values())), strict=True))
        sweep_tables(scratch)
    drawn = {seed: draw_history(seed) for seed in found}
    assert found == {seed: (Rule().judge(h.new, h.earlier), find_copied(h)) for seed, h in drawn.items()}


def sweep_tables(connection: psycopg.Connection) -> None:
    """Clear away dead rows of what was rolled back, which have the keys of what comes next."""
    connection.autocommit = True
    connection.execute(f"VACUUM {', '.join(f'dbanon.{table}' for table in TABLES)}")  # type: ignore[arg-type]
    connection.autocommit = False
