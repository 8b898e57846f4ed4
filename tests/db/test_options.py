"""Records of options: what the server is asked for is what Python and SQL may ask for, under the same names."""

import inspect
import json
import types
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args, get_origin

import psycopg
import pytest

from dbanon.load.datasets import LOADING_RECORD
from dbanon.options import Field, list_fields, loading, publishing, scheduling
from dbanon.options.loading import ImportingTrajectories, LoadingTrajectories
from dbanon.options.reading import Reading
from dbanon.postgres.connection import make_jsonb
from tests.facts import expect_refusal

TYPES = {
    str: "text", int: "integer", float: "double precision", bool: "boolean", tuple: "double precision[]",
    datetime: "timestamp with time zone", Sequence: "text[]",
}  # fmt: skip
# A public function names the columns of its table by default; the command line and Python have no such table in mind.
NAMED_BY_SQL = {"subject": "subject", "time": "time", "geom": "geom"}
OTHERS = {  # what a public function takes, and which options are of files alone
    "import_requests": (loading.LoadingRequests, set()),
    "import_quasi_identifiers": (loading.LoadingQuasiIdentifiers, set()),
    "import_sites": (loading.LoadingSites, {"x", "y", "layer"}),
    "import_pois": (loading.LoadingPois, {"x", "y", "layer"}),
    "import_cells": (loading.LoadingCells, {"layer"}),
    "import_stations": (loading.LoadingStations, {"x", "y", "layer"}),
}


def name_sql_type(option: Field) -> str:
    """The server's type for a field's; of texts and choices that is text."""
    kinds = get_args(option.type) if isinstance(option.type, types.UnionType) else (option.type,)
    [kind] = [kind for kind in kinds if kind is not type(None)]
    return TYPES.get(get_origin(kind) or kind, "text")


RUNS = {  # what a public function takes, and what it takes before the options
    "publish": (publishing.Publishing, ["run_id", "name"]),
    "submit_run": (publishing.Submitting, ["method"]),
    "plan_run": (publishing.Planning, ["method"]),
    "anonymize": (publishing.Running, ["method"]),
}


def list_taken(connection: psycopg.Connection[Any], function: str) -> dict[str, tuple[str, str | None]]:
    """Types and defaults of a public function's arguments; results are no arguments."""
    rows = connection.execute(
        "SELECT replace(p.parameter_name, 'time_column', 'time'), CASE WHEN p.data_type <> 'ARRAY' THEN p.data_type "
        "WHEN p.udt_name = '_text' THEN 'text[]' ELSE 'double precision[]' END, "
        "p.parameter_default FROM information_schema.parameters p "
        "JOIN information_schema.routines r USING (specific_schema, specific_name) "
        "WHERE r.routine_schema = 'dbanon' AND r.routine_name = %s AND p.parameter_mode = 'IN' "
        "ORDER BY p.ordinal_position",
        [function],
    ).fetchall()
    return {name: (kind, default) for name, kind, default in rows if name != "source"}


def compute_value(connection: psycopg.Connection[Any], expression: str | None) -> Any:
    return None if expression is None else connection.execute(f"SELECT {expression}").fetchone()[0]


def test_the_server_takes_what_an_import_can_be_asked_for(connection: psycopg.Connection[Any]) -> None:
    attributes = connection.execute(
        "SELECT replace(a.attname, 'time_column', 'time'), format_type(a.atttypid, NULL) FROM pg_attribute a "
        "WHERE a.attrelid = 'dbanon_internal.loading'::regclass ORDER BY a.attnum"
    ).fetchall()
    options, arguments = list_fields(ImportingTrajectories), list_taken(connection, "import_trajectories")
    types = {one.name: name_sql_type(one) for one in options}
    assert {name: kind for name, (kind, _) in arguments.items()} == types
    # For a sentence on more than an integer holds.
    assert dict(attributes) == {name: "numeric" if kind == "integer" else kind for name, kind in types.items()}
    for one in options:
        default = compute_value(connection, arguments[one.name][1])
        if one.default is inspect.Parameter.empty:
            assert default == NAMED_BY_SQL.get(one.name), one.name
        else:
            assert default == one.default, one.name


def test_a_load_of_files_is_asked_for_what_an_import_is() -> None:
    of_files, of_tables = (
        {one.name: one for one in list_fields(r)} for r in (LoadingTrajectories, ImportingTrajectories)
    )
    assert (set(of_tables) - set(of_files), set(of_files) - set(of_tables)) == ({"filter"}, {"layer"})
    for name in set(of_files) - {"subject", "time", "geom", "crs", "x", "y", "layer"}:
        assert of_files[name] == of_tables[name]


@pytest.mark.parametrize("function", OTHERS)
def test_an_import_of_anything_else_has_the_options_of_its_load(
    connection: psycopg.Connection[Any], function: str
) -> None:
    record, of_files = OTHERS[function]
    options, arguments = {one.name: one for one in list_fields(record)}, list_taken(connection, function)
    assert set(options) == set(arguments) - {"filter"} | of_files
    for name, (_, expression) in arguments.items() - {("filter", arguments.get("filter"))}:
        given = options[name].default
        default = compute_value(connection, expression)
        assert default in (None if given is inspect.Parameter.empty else given, NAMED_BY_SQL.get(name)), name


@pytest.mark.parametrize("function", RUNS)
def test_a_run_and_a_publication_have_the_options_of_their_functions(
    connection: psycopg.Connection[Any], function: str
) -> None:
    record, before = RUNS[function]
    # Where data are read from is said to the process that computes, which is none of SQL.
    options = {one.name: one for one in list_fields(record) if one not in list_fields(Reading)}
    arguments = list_taken(connection, function)
    if "publish_as" in arguments:  # in SQL `publish` is the function
        arguments["publish"] = arguments.pop("publish_as")
    assert {*options, *before} == set(arguments)
    for name, option in options.items():
        default, given = compute_value(connection, arguments[name][1]), option.default
        if name != "params":  # NULL and no parameters are the same
            assert default == (None if given is inspect.Parameter.empty else given), name


EACH = ImportingTrajectories(
    dataset="d", subject="s", time="t", geom="g", trip="ride", crs="EPSG:4326", srid=32610, grid_m=0.1, grid_s=60,
    split_gap_s=1 / 3, tz="UTC", bbox=(1.5, -2.5, 3, 0.1), drop_outliers=True, max_speed_kmh=0.3, subject_per_day=True,
    population="p", settle_s=0, mode="append", x="lon", y="lat", filter="s <> 'q'", time_format="%d/%m/%Y",
    time_unit="days", nulls=["nobody"], allow_future=True,
    since=datetime(2026, 1, 5, 8, tzinfo=UTC), until=datetime(2026, 1, 6, 8, tzinfo=UTC),
)  # fmt: skip


def test_each_option_reaches_the_server_as_it_was_given(connection: psycopg.Connection[Any]) -> None:
    assert all(getattr(EACH, one.name) != one.default for one in list_fields(ImportingTrajectories))
    connection.execute("SET TimeZone = 'UTC'")
    [told] = connection.execute(
        f"SELECT to_jsonb({LOADING_RECORD})", {"asked": make_jsonb(loading.name_as_sql(vars(EACH)))}
    ).fetchone()
    assert told == json.loads(json.dumps(loading.name_as_sql(vars(EACH)), default=datetime.isoformat))


def test_each_argument_of_the_public_function_becomes_part_of_the_record(connection: psycopg.Connection[Any]) -> None:
    arguments = ", ".join(f"{name} => %({name})s" for name in loading.name_as_sql(vars(EACH)))
    with connection.transaction(force_rollback=True):  # what it calls only notes what it is given
        connection.execute("SET TimeZone = 'UTC'; CREATE SCHEMA seen; CREATE TABLE seen.asked (what jsonb)")
        [made] = connection.execute(
            "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'import_fixes'"
        ).fetchone()
        head, _, _ = made.partition("AS $")
        connection.execute(f"{head} AS $$ BEGIN INSERT INTO seen.asked VALUES (to_jsonb(asked)); END $$")
        given = loading.name_as_sql(vars(EACH)) | {"bbox": [float(side) for side in EACH.bbox or ()]}
        connection.execute(f"SELECT FROM dbanon.import_trajectories('dbanon.load', {arguments})", given)
        [told] = connection.execute("SELECT what FROM seen.asked").fetchone()
    assert told == json.loads(json.dumps(loading.name_as_sql(vars(EACH)), default=datetime.isoformat))


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"grid_m": float("nan")}, ("space grid", "NaN")),
        ({"grid_m": float("inf")}, ("space grid", "Infinity")),
        ({"split_gap_s": float("nan")}, ("gap", "NaN")),
        ({"split_gap_s": -(10**12)}, ("gap", "-1000000000000")),
        ({"bbox": (0, 0, float("nan"), 1)}, ("box", "another")),
        ({"bbox": (0, 0, float("-inf"), 1)}, ("box", "another")),
        ({"grid_s": 10**30}, ("time grid", f"1{'0' * 30}")),
        ({"settle_s": -(10**30)}, ("settle", f"-1{'0' * 30}")),
        ({"srid": 10**12}, ("spatial_ref_sys", "EPSG:1000000000000")),
    ],
    ids=str,
)
def test_a_number_that_json_or_an_integer_cannot_hold_gets_the_sentence_of_its_option(
    connection: psycopg.Connection[Any], given: dict[str, Any], what: tuple[str, str]
) -> None:
    asked = {"dataset": "d", "mode": "create", "subject": "s", "crs": "EPSG:4326", "grid_m": 1, "grid_s": 1} | given
    with expect_refusal("DA011") as caught:
        connection.execute(f"SELECT dbanon_internal.begin_load({LOADING_RECORD})", {"asked": make_jsonb(asked)})
    assert all(word in str(caught.value) for word in what)


def test_the_server_takes_what_a_job_can_be_asked_for(connection: psycopg.Connection[Any]) -> None:
    options = {one.name: one for one in list_fields(scheduling.AddingJob) if one.name not in scheduling.LOAD_FIELDS}
    [arguments, defaults] = connection.execute(
        "SELECT p.proargnames, pronargdefaults FROM pg_proc p WHERE p.oid = 'dbanon.add_job'::regproc"
    ).fetchone()
    assert sorted(arguments) == sorted(["name", "load", *options])
    assert defaults == len(arguments) - 1
    kept = connection.execute(
        "SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = 'dbanon.job'::regclass AND attnum > 0"
    ).fetchone()[0]
    assert set(arguments) - set(kept) == {"replace"}
    # So that what a job has stays where nothing is said.
    assert {one.name for one in list_fields(scheduling.AddingJob) if one.default is not None} == {"replace"}
