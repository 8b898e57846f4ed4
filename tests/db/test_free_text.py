"""No function writes what its caller words into the audit or the periods of jobs, but names and reasons."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon.methods import METHODS
from tests.db.nights import add, make_source, take_step
from tests.facts import demand_named, expect_refusal
from tests.reading import read_value

Login = Callable[[str], str]
WORDS = "Anna Miller of 3 Elm Street was at the clinic"
# In no text of dbanon: without blanks, of digits and single letters, and of columns that the caller has named.
TEXTS = (WORDS, WORDS.replace(" ", "_"), "A n n a 1 3 . 4 5 2 . 5 ", "cab lat latitude lon ts")
KEPT = """
SELECT string_agg(kept, '|')
FROM (SELECT a::text FROM dbanon.audit a UNION ALL SELECT p::text FROM dbanon.job_period p) k (kept)
"""
# Functions with the rights of their owner that somebody may call, which write one of these tables or change one whose
# triggers do: by their own statements, or by what they call. Those with the rights of the caller write through them.
REACHING = r"""
WITH RECURSIVE own AS (
    SELECT pro.* FROM pg_proc pro WHERE pro.pronamespace IN ('dbanon'::regnamespace, 'dbanon_internal'::regnamespace)
), reaching AS (
    SELECT own.oid, own.proname FROM own
    WHERE own.prosrc ~ ('(INTO|UPDATE|FROM)( ONLY)? '
        '(dbanon[.](audit|job_period|dataset|load|run|verification|release|job|population)|%I)\M')
    UNION
    SELECT own.oid, own.proname
    FROM reaching JOIN own ON own.prosrc ~ ('dbanon(_internal)?[.]' || reaching.proname || '[(]')
)
SELECT own.oid::regprocedure::text FROM reaching JOIN own ON own.oid = reaching.oid
WHERE own.prosecdef AND own.provolatile = 'v' AND own.prorettype <> 'trigger'::regtype
    AND EXISTS (SELECT FROM unnest(ARRAY['dbanon_operator', 'dbanon_worker', 'dbanon_analyst']) rol (name)
                WHERE has_function_privilege(rol.name, own.oid, 'EXECUTE'))
    AND own.proargtypes::oid[] && ARRAY[
        'text'::regtype::oid, 'text[]'::regtype, 'json'::regtype, 'jsonb'::regtype, 'dbanon.job'::regtype]
"""
# A call of each by a plain operator, who owns job 1, with a period that has failed, and a verified run 1. Each text in
# it is tried.
DAY = "[2008-06-01Z,2008-06-02Z)"
CHANGES: dict[str, Any] = {"state": "held", "sqlstate": "DA012", "error": "There is no row.", "run_id": None}
CALLS: dict[str, list[Any]] = {
    "dbanon.drop_dataset": ["taxi"],
    "dbanon.fold_release": ["taxi", "2008-06-01Z"],
    "dbanon.forget_before": ["ten", "2008-06-01Z"],
    "dbanon.forget_subject": ["ten", "p9", False],
    "dbanon.publish": [1, "ten", False, True, WORDS, False, ["dbanon_analyst"], False],
    "dbanon.remember_subject": ["ten", "p9"],
    "dbanon.steer_job": ["taxi", "skip", "2008-06-01Z", WORDS],
    "dbanon.unpublish": ["ten", False],
    "dbanon.unpublish_part": ["taxi", "2008-06-01Z"],
    "dbanon_internal.begin_record": [1, "requests", ["a.csv"], 0.0],
    "dbanon_internal.count_record": [1, [0], {"late": 0}, [1], "2008-06-01Z"],
    "dbanon_internal.find_or_add_population": ["all"],
    "dbanon_internal.insert_run": ["ten", "tp-aware", {"k": 5}, "traj-anon", 1],
    "dbanon_internal.note_page": [1, "ten", "0" * 64],
    "dbanon_internal.sample_people": ["ten", 2, 1],
    "dbanon_internal.set_period": [1, DAY, CHANGES],
    "dbanon_internal.try_publish": [1, "ten", False, True, WORDS, False, ["dbanon_analyst"], False],
    "dbanon_internal.write_job": ["JOB"],
}
# Where people are asked for reasons. Names that people give to datasets and populations are names, whatever they are.
REASONS = {("dbanon.publish", 4), ("dbanon_internal.try_publish", 4), ("dbanon.steer_job", 3)}
NAMES = {("dbanon_internal.find_or_add_population", 0), ("dbanon_internal.write_job", "dataset")}


@pytest.fixture
def operator(connection: psycopg.Connection, run: int, login: Login) -> Iterator[psycopg.Connection]:
    make_source(connection)
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as opened:
        add(opened)
        connection.execute("ALTER TABLE public.gps RENAME COLUMN lat TO latitude")
        take_step(opened)
        yield opened


def vary(value: Any, text: str) -> Iterator[tuple[str | None, Any]]:
    """Put the text in the place of each text in an argument, one after the other."""
    if isinstance(value, str):
        yield None, text
    elif isinstance(value, list) and value and isinstance(value[0], str):
        yield None, [text]
    elif isinstance(value, dict):
        for key, old in value.items():
            yield from ((key, {**value, key: new}) for _, new in vary(old if old is not None else "", text))
            if not isinstance(old, str):
                yield key, {**value, key: text}
        yield "more", {**value, text: text}


def test_every_function_that_reaches_the_tables_is_tried(connection: psycopg.Connection) -> None:
    connection.execute("SET search_path = pg_catalog, pg_temp")  # so that names come with their schema
    found = {call.split("(")[0] for (call,) in connection.execute(REACHING)}
    assert found - {"dbanon_internal.requeue_run"} == set(CALLS)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("called", CALLS)
def test_no_words_of_a_caller_are_kept_but_names_and_reasons(
    connection: psycopg.Connection, operator: psycopg.Connection, called: str, text: str
) -> None:
    arguments = list(CALLS[called])
    if arguments == ["JOB"]:
        arguments = [read_value(connection, "SELECT to_jsonb(j) FROM dbanon.job j")]
    for place, value in enumerate(arguments):
        for key, new in vary(value, text):
            given = [*arguments[:place], new, *arguments[place + 1 :]]
            given = [
                None if old == WORDS and (called, at) in REASONS and at != place else old
                for at, old in enumerate(given)
            ]
            if not ({(called, place), (called, key)} & (REASONS | NAMES)):
                try_words(connection, operator, called, given)


def try_words(connection: psycopg.Connection, operator: psycopg.Connection, called: str, given: list[Any]) -> None:
    marks = ", ".join(["%s"] * len(given))
    call = f"SELECT {called}({marks})"
    if called.endswith("write_job"):
        call = f"SELECT {called}(jsonb_populate_record(NULL::dbanon.job, %s))"
    with contextlib.suppress(psycopg.Error):
        values = [Jsonb(value) if isinstance(value, dict) else value for value in given]
        operator.execute(call, values)  # type: ignore[arg-type]
    kept = read_value(connection, KEPT)
    for word in (*TEXTS, "Elm Street"):
        assert word not in kept, given
    assert "AnnaMiller" not in kept.replace("_", ""), given


@pytest.mark.parametrize("method", METHODS)
def test_no_parameter_of_a_run_holds_words(
    connection: psycopg.Connection, operator: psycopg.Connection, method: str
) -> None:
    names = read_value(
        connection,
        "SELECT array(SELECT p ->> 'name' FROM jsonb_array_elements(parameters) p) FROM dbanon.method WHERE name = %s",
        method,
    )
    for name in names:
        for value in (WORDS, [WORDS], {WORDS: WORDS}, WORDS.replace(" ", "_"), WORDS[:11].replace(" ", "")):
            try_words(connection, operator, "dbanon.submit_run", ["ten", method, {"k": 5, name: value}, None, None])


def test_a_period_that_a_job_has_not_is_not_written(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    lines = read_value(connection, "SELECT count(*) FROM dbanon.audit")
    for period, changes in (("[2020-01-01Z,2030-01-01Z)", CHANGES), (DAY, {**CHANGES, "run_id": 1})):
        with expect_refusal("DA013"):
            operator.execute("SELECT dbanon_internal.set_period(1, %s, %s)", [period, Jsonb(changes)])
    assert read_value(connection, "SELECT count(*) FROM dbanon.audit") == lines


def test_of_a_sentence_of_dbanon_the_text_is_kept_and_no_words_of_its_caller(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        operator.execute("SELECT dbanon_internal.demand_zone('')")
    own = caught.value.diag.message_primary or ""
    for text in TEXTS:
        error = [own.replace("none", text), text, f"{text}. {own}"]
        operator.execute("SELECT dbanon_internal.set_period(1, %s, %s)", [DAY, Jsonb({**CHANGES, "error": error})])
        assert read_value(connection, "SELECT error FROM dbanon.job_runs") == own.replace("none", "...")


def test_the_column_that_is_missing_stays_named(connection: psycopg.Connection, operator: psycopg.Connection) -> None:
    said = read_value(connection, "SELECT error FROM dbanon.job_runs")
    demand_named(said, "public.gps", "'lat'")
    # Those that the table has are named as its owner likes.
    assert "latitude" not in said
