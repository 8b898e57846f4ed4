"""A method promises nothing where there is nothing that it hides: plans, runs, sweeps and jobs refuse that."""

import json
import re
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon.base.errors import DataError
from dbanon.methods import METHODS
from dbanon.options.publishing import Planning, Submitting
from dbanon.postgres.connection import make_jsonb, translate_errors
from dbanon.runs import queue, stored
from tests.db import nights
from tests.db.conftest import VERIFY
from tests.db.methods import require_requests
from tests.hints import find_arguments, refuse, tries
from tests.reading import read_value

BEGIN_S = 1212566400  # 2008-06-04 08:00 UTC, where the ten people begin
WORDS = {
    "tp-aware": "requests", "sensitive-sites": "sites", "mob": "quasi-identifiers", "kte": "two people",
    "semantic": "points of interest",
}  # fmt: skip
REMOVE = {
    "tp-aware": "DELETE FROM dbanon.request",
    "kte": "DELETE FROM dbanon.trajectory WHERE subject <> 'p0'",
    "semantic": """INSERT INTO dbanon.cell (dataset_id, geom)
        SELECT dataset_id, ST_MakeEnvelope(-50, -50, 500, 500, 32610) FROM dbanon.dataset""",
}
LOAD = {
    "tp-aware": """INSERT INTO dbanon.request (dataset_id, subject, sent_at, content)
        SELECT dataset_id, 'p0', '2008-06-04 08:00:30Z', '{"poi": "bar"}' FROM dbanon.dataset""",
    "sensitive-sites": """INSERT INTO dbanon.site (dataset_id, geom)
        SELECT dataset_id, ST_SetSRID(ST_MakePoint(9000, 0), 32610) FROM dbanon.dataset""",
    "mob": """INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at, set_name)
        SELECT dataset_id, 'p0', '2008-06-04 08:00:30Z', 'default' FROM dbanon.dataset""",
    "kte": """INSERT INTO dbanon.trajectory (dataset_id, subject, path)
        SELECT dataset_id, 'p1', path FROM dbanon.trajectory WHERE subject = 'p0'""",
    "semantic": """INSERT INTO dbanon.poi (dataset_id, category, geom)
        SELECT dataset_id, 'bar', ST_SetSRID(ST_MakePoint(5, 5), 32610) FROM dbanon.dataset""",
}
JOB = """
SELECT dbanon.add_job('nights', 'public.gps', load => '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}',
    method => '%s', starts => '2008-06-01 00:00Z'%s)
"""


@pytest.fixture
def ten(own: psycopg.Connection) -> psycopg.Connection:
    """Ten people with two requests and nothing else, where tp-aware requires requests."""
    require_requests(own)
    return own


def submit(connection: psycopg.Connection, method: str, algorithm: str | None = None, **asked: Any) -> int:
    with translate_errors():
        return queue.submit_run(connection, method, Submitting(dataset="ten", algorithm=algorithm, **asked))


def plan(connection: psycopg.Connection, method: str, **asked: Any) -> stored.PlanItem:
    return stored.plan_run(connection, method, Planning(dataset="ten", **asked))[-1]


def fail(connection: psycopg.Connection, method: str, **asked: Any) -> str:
    """Plan and submit what is refused, in the same words; returns them."""
    with pytest.raises(DataError) as caught:
        submit(connection, method, **asked)
    foretold = plan(connection, method, **asked)
    assert (foretold.value, foretold.exact) == (3, True)
    assert str(caught.value).split(". ")[0] == foretold.note.split(". ")[0]
    return str(caught.value)


@tries("Load some")
@pytest.mark.parametrize("method", WORDS)
def test_a_method_is_refused_where_there_is_nothing_that_it_hides(ten: psycopg.Connection, method: str) -> None:
    asked = {"at": BEGIN_S} if method == "sensitive-sites" else {}
    ten.execute(REMOVE.get(method, "SELECT"))
    said = fail(ten, method, params=asked)
    assert method in said
    assert "'ten'" in said
    assert WORDS[method] in said
    assert ("kte" in said.split("Load some", 1)[1]) is (method != "kte")
    [proposed] = re.findall(r"`dbanon (load [a-z-]+)`", said)
    assert proposed.split()[1] == {"kte": "trajectories", "semantic": "pois"}.get(method, WORDS[method])
    ten.execute(LOAD[method])
    assert submit(ten, method, params=asked)
    assert plan(ten, method, params={"k": 2, **asked}).value == 0


@tries("Or choose another time", "Or take %s", "allow_no_requests => true")
def test_each_remedy_is_taken(ten: psycopg.Connection) -> None:
    later = {"k": 5, "since": BEGIN_S + 60}  # the requests were sent before
    said = fail(ten, "tp-aware", params=later)
    [(algorithm, method)] = re.findall(r"take ([\w-]+) of ([\w-]+),", said)
    assert submit(ten, method, algorithm, params={"since": later["since"]})
    assert submit(ten, "tp-aware", params={"k": 5, "since": BEGIN_S})
    assert "--allow-no-requests" in said
    words = refuse(ten, f"SELECT dbanon.submit_run('ten', 'tp-aware', '{{\"since\": {BEGIN_S + 60}}}')", "DA024")
    assert find_arguments(words) == {"allow_no_requests": "true"}
    assert submit(ten, "tp-aware", params=later, allow_no_requests=True)
    assert plan(ten, "tp-aware", params=later, allow_no_requests=True).value == 0


@pytest.mark.parametrize(
    ("method", "params", "place"),
    [
        ("sensitive-sites", {"at": BEGIN_S}, "ST_MakePoint(11000, 0)"),
        ("sensitive-sites", {"at": BEGIN_S - 60}, "ST_MakePoint(0, 0)"),
        ("sensitive-sites", {"at": BEGIN_S + 420, "max_gap_s": 300}, "ST_MakePoint(0, 0)"),
    ],
)
def test_sites_out_of_reach_of_people_at_that_time_hide_nobody(
    ten: psycopg.Connection, method: str, params: dict[str, int], place: str
) -> None:
    ten.execute(LOAD[method].replace("ST_MakePoint(9000, 0)", place))
    assert "10 km" in fail(ten, method, params=params)


def test_a_quasi_identifier_of_nobody_who_is_seen_then_hides_nobody(ten: psycopg.Connection) -> None:
    ten.execute(LOAD["mob"].replace("08:00:30Z", "09:00:00Z"))
    assert "quasi-identifiers" in fail(ten, "mob")
    ten.execute(LOAD["mob"].replace("'default'", "'home'"))
    assert "quasi-identifiers" in fail(ten, "mob")
    assert submit(ten, "mob", params={"qid_set": "home"})


def test_glove_needs_no_points_of_interest_but_cells(ten: psycopg.Connection) -> None:
    glove = {"l": 0, "t": "inf"}
    assert "cells" in fail(ten, "semantic", params=glove)
    ten.execute(REMOVE["semantic"])
    assert submit(ten, "semantic", params=glove)


@pytest.mark.parametrize("method", ["tp-aware", "sensitive-sites", "mob", "semantic"])
def test_a_job_is_refused_when_it_is_added(ten: psycopg.Connection, method: str) -> None:
    nights.make_source(ten)
    if method == "tp-aware":
        said = refuse(ten, JOB % (method, ""), "DA024")
        assert "'nights'" in said
        assert re.findall(r"[\w-]+ of [\w-]+(?=, which)", said) == ["k-merge of kte"]
    ten.execute(JOB.replace("'nights'", "'first'") % ("kte", ", algorithm => 'k-merge', dataset => 'cabs'"))
    assert nights.take_step(ten, "first") == "run"
    said = refuse(ten, JOB % (method, ", dataset => 'cabs'"), "DA024")
    assert method in said
    assert "'cabs'" in said


FURTHER = f", further => '{json.dumps([{'kind': 'requests', 'source': 'public.asked', 'columns': ['poi']}])}'"


@tries("allow_no_requests => true")
def test_a_job_says_whether_it_may_do_without_requests(ten: psycopg.Connection) -> None:
    nights.make_source(ten)
    ten.execute("CREATE TABLE public.asked (subject text, time timestamptz, poi text)")
    for given in ("false", "NULL"):
        said = refuse(ten, JOB % ("tp-aware", f", allow_no_requests => {given}"), "DA024")
    with ten.transaction(force_rollback=True):
        ten.execute(JOB % ("tp-aware", FURTHER))
    ten.execute(JOB % ("tp-aware", f", allow_no_requests => {find_arguments(said)['allow_no_requests']}"))
    ten.execute("SELECT dbanon.add_job('nights', wait => '2 hours', replace => true)")
    refuse(ten, "SELECT dbanon.add_job('nights', allow_no_requests => false, replace => true)", "DA024")


def test_a_night_without_requests_is_computed(ten: psycopg.Connection) -> None:
    nights.make_source(ten)
    ten.execute("CREATE TABLE public.asked (subject text, time timestamptz, poi text)")
    ten.execute(JOB % ("tp-aware", FURTHER + """, params => '{"k": 3, "step_s": 3600}'"""))
    assert nights.take_step(ten, "nights") == "run"
    assert nights.take_step(ten, "nights") == "compute"


@pytest.mark.parametrize(("left_out", "is_said"), [(0, False), (2, True)])
def test_a_release_without_requests_says_what_it_does_not_promise(
    ten: psycopg.Connection, left_out: int, is_said: bool
) -> None:
    without = METHODS["tp-aware"].requires.without
    ten.execute(f'UPDATE dbanon.run SET suppressed = \'{{"requests": {{"outside_windows": {left_out}}}}}\'')
    ten.execute(VERIFY.replace("digest)", "digest, figures)").replace("(1)", "(1), '{\"requests\": 2}'"), [True])
    ten.execute("SELECT dbanon.publish(1, 'first')")
    told = [
        *read_value(ten, "SELECT ARRAY(SELECT dbanon_internal.list_run_notices(1))"),
        *read_value(ten, "SELECT dbanon.release_card('first') -> 'attack' -> 'notices'"),
        read_value(ten, "SELECT obj_description('published.first'::regclass)"),
    ]
    assert sum(without in text for text in told) == 3 * is_said


@pytest.mark.parametrize(
    ("grid_s", "fitted"),
    [(60, [60, 1800]), (7, [63, 1827]), (120, [120, 1800]), (700, [700, 2100]), (900, [900, 1800])],
)
def test_proposed_lengths_are_the_least_multiples_that_are_no_smaller(
    ten: psycopg.Connection, grid_s: int, fitted: list[int]
) -> None:
    traits = {"proposed": {"algorithm": "a", "params": {"window_s": 1800}}}
    items = [
        {"name": "grid_s", "default": 60, "algorithms": []},
        {"name": "window_s", "default": None, "algorithms": ["a"], "multiple_of": "grid_s"},
        {"name": "leak_s", "default": 1800, "algorithms": ["b"], "multiple_of": "grid_s"},
    ]
    query = """SELECT dbanon_internal.suggest_params(jsonb_populate_record(NULL::dbanon.dataset, %s), %s, %s, NULL)"""
    given = (make_jsonb({"grid_s": grid_s}), make_jsonb(traits), Jsonb(items))
    assert {"grid_s": 60, **read_value(ten, query, *given)} == dict(zip(["grid_s", "window_s"], fitted, strict=True))
