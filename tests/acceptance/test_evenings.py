"""An evening published out of a dataset that holds others says the same; and a first run says that it compiles."""

import json
import re
from typing import Any

import numba
import pytest

from dbanon.database import Database
from dbanon.runs import compiling

pytestmark = pytest.mark.db

DAY_BEFORE = (
    "CREATE VIEW public.day_before AS SELECT subject, t - interval '1 day' AS t, public.ST_Translate(position, 5000, 0)"
    " AS position FROM public.gps",
    "SELECT dbanon.import_trajectories('public.day_before', dataset => 'city', subject => 'subject',"
    " time_column => 't', geom => 'position', mode => 'append')",
    "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) SELECT dataset_id, subject,"
    " sent_at - interval '1 day', content FROM dbanon.request",
)


def run_and_publish(database: Database, params: dict[str, Any], name: str) -> dict[str, Any]:
    """Run and publish; all that is said of it, but for its numbers and times."""
    result = database.run("tp-aware", dataset="city", params=params, seed=7, publish=name)
    row = database.connection.execute(f"SELECT obj_description('published.{name}'::regclass)").fetchone()
    card = database.card(name)
    return {
        "metrics": dict(result.metrics),
        "suppressed": dict(result.suppressed),
        "figures": dict(result.verdict.figures),
        "comment": row and row[0],
        "left out": card["left_out"],
        "attack": card["attack"]["figures"],
        "rows": card["rows"],
    }


def test_an_evening_says_the_same_of_itself_whatever_evenings_were_loaded_before(
    verified_city: tuple[Database, int],
) -> None:
    database, _ = verified_city
    row = database.connection.execute(
        "SELECT to_char(min(t) + interval '3 min', 'YYYY-MM-DD\"T\"HH24:MI:00TZH:TZM') FROM public.gps"
    ).fetchone()
    assert row is not None
    params = {"k": 5, "instants": 5, "start": row[0], "guests": False}
    alone = run_and_publish(database, params, "evening")
    assert "%" in alone["comment"].split("requests: ")[1]
    for statement in DAY_BEFORE:
        database.connection.execute(statement)
    database.unpublish("evening")
    # But how many names its verification could compare, which looks at all data of people where a run is short.
    told = [json.dumps(card) for card in (run_and_publish(database, params, "evening"), alone)]
    first, second = (re.sub(r'"names_compared": \d+', "", one) for one in told)
    assert first == second


def test_a_first_run_says_that_it_compiles_and_later_ones_do_not(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _ = verified_city
    stages: list[str] = []

    def run() -> int:
        stages.clear()
        database.progress = lambda stage, *_: stages.append(stage)
        database.run("tp-aware", dataset="city", params={"k": 5})
        return stages.count(compiling.STAGE)

    assert run() == 0
    with monkeypatch.context() as patch:
        new = [numba.njit(lambda x, n=n: x + n) for n in range(2)]
        patch.setattr("dbanon.methods.tp_aware.prepare", lambda params, algorithm: [kernel(1) for kernel in new])
        assert run() == 1
    assert run() == 0
