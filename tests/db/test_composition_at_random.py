"""The measurement in SQL against the oracle, on the random histories on which the oracle itself is tested."""

import psycopg
import pytest

from tests.db.histories import history
from tests.db.oracle import Rule
from tests.db.writing_histories import Writer, measured, methods

HISTORIES, SHARES = 2000, 20


@pytest.mark.parametrize("share", range(SHARES))
def test_sql_agrees_with_the_oracle_on_verdict_smallest_crowd_and_people(
    scratch: psycopg.Connection, share: int
) -> None:
    drawn = {seed: history(seed) for seed in range(share, HISTORIES, SHARES)}
    writer = Writer()
    runs = [writer.add(one) for one in drawn.values()]
    methods(scratch)
    writer.copy(scratch)
    found = dict(zip(drawn, measured(scratch, runs), strict=True))
    expected = {seed: tuple(Rule().judge(one.new, one.earlier)) for seed, one in drawn.items()}
    assert found == expected
