"""The registry in SQL says what the registry in Python says of names and typed values, and reads texts besides."""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dbanon import schema
from dbanon.base.errors import ParameterError, choose_one
from dbanon.methods import METHODS, describe, find_method, parsing
from dbanon.postgres import sqlstate
from dbanon.schema import _text
from tests.db.methods import change_methods
from tests.facts import demand_named, expect_refusal

# What the answers must not depend on.
SETTINGS = """
SET extra_float_digits = 0; SET TimeZone = 'Asia/Kolkata'; SET DateStyle = 'German, DMY';
SET IntervalStyle = 'sql_standard'
"""


@pytest.fixture(scope="module")
def reader(verified: str) -> Iterator[psycopg.Connection]:
    """Connection for tests that change nothing."""
    with psycopg.connect(verified, autocommit=True) as connection:
        connection.execute(SETTINGS)
        yield connection


def parse_in_python(name: str, algorithm: str | None, params: dict[str, Any]) -> dict[str, Any] | str:
    try:
        parsed = dataclasses.asdict(find_method(name).parse(params, algorithm))
    except ParameterError as error:
        return str(error)
    return {name: "inf" if value == math.inf else value for name, value in parsed.items()}


def parse_in_sql(
    reader: psycopg.Connection, name: str | None, algorithm: str | None, params: Any
) -> dict[str, Any] | str:
    try:
        row = reader.execute(
            "SELECT dbanon_internal.complete_params(%s, %s, %s)", [name, algorithm, json.dumps(params)]
        ).fetchone()
    except psycopg.Error as error:
        told = sqlstate.translate(error)
        return str(told) if isinstance(told, ParameterError) else repr(told)
    assert row is not None
    return dict(row[0])


PARAMETERS = {p["name"]: p for family in METHODS.values() for p in describe(family)}
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def change_texts(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts, and the same with some characters cut out, doubled or replaced."""

    def changed(text: str, place: int, size: int, added: str) -> str:
        place %= len(text) + 1
        return text[:place] + added + text[place + size :]

    return texts | st.builds(changed, texts, st.integers(0, 80), st.integers(0, 2), st.sampled_from(" .-+:eT0Zé"))


def draw_words(known: Any) -> st.SearchStrategy[str]:
    return change_texts(st.sampled_from(sorted(known))) | TEXT


LIMITS = {limit for p in PARAMETERS.values() for limit in (p["minimum"], p["maximum"]) if limit is not None}
NUMBERS = (
    st.sampled_from(sorted(LIMITS)).flatmap(lambda n: st.sampled_from([n, n - 1, n + 1, n + 0.5, n - 1e-9]))
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [10**300, 10**300 + 1, 10**400, 1e300, 1.1e300, 1e-300, 9e-301, 5e-324, -0.0, 10**11, -(10**11) - 1, 2**63]
    )
)
NUMBER_LIKE = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "", " ", "\t", "\xa0"]),
    st.sampled_from(["", "", "+", "-", "−"]),
    st.sampled_from(
        ["5", "60", "05", "1.5", "2.0", ".5", "5.", ".", "1_0", "٢", "nan", "inf", "1" * 60, "0." + "0" * 50 + "1"]
    ),
    st.sampled_from(["", "", "", "e1", "E+2", "e-3", "e301", "e-999", "e1000", "e"]),
    st.sampled_from(["", "", " ", "\n", "\x0b"]),
)
INSTANTS = st.builds(
    "{}-{}-{}{}{}:{}{}{}".format,
    st.sampled_from(["2026", "2024", "1900", "0001", "0000", "5138", "9999", "26"]),
    st.sampled_from(["01", "02", "12", "00", "13"]),
    st.sampled_from(["01", "28", "29", "30", "31", "32", "00"]),
    st.sampled_from(["T", "T", " ", "t", ""]),
    st.sampled_from(["00", "09", "23", "24"]),
    st.sampled_from(["00", "59", "60"]),
    st.sampled_from(["", "", ":00", ":59", ":60", ":07.0", ":07.000000", ":07.0000000", ":07.5"]),
    st.sampled_from(["Z", "Z", "+00:00", "-00:30", "+0130", "-05", "+23:59", "-23:59", "+24:00", "+01:60", "", "z"]),
)
TEXTS = st.one_of(
    NUMBERS.map(str),
    NUMBER_LIKE,
    INSTANTS,
    change_texts(INSTANTS),
    change_texts(
        st.sampled_from(["on", "OFF", "True", "no", "yes", *(c for p in PARAMETERS.values() for c in p["choices"])])
    ),
    TEXT,
)
OTHERS = [None, [], [1], {}, {"k": 1}]


# What both must take or refuse: values in the types that they are stored in, and what is none.
BOTH = [
    *(limit + step for limit in sorted(LIMITS) for step in (-1, 0, 1)),
    *(0.5, 10**300, 1.1e300, 10**301, 0.1 + 0.2, 10**11, 10**11 + 1, -(10**11), -(10**11) - 1, 2**60 + 1, 2**63),
    *("exact", " exact", "Exact", "x" * 60, "x" * 61, "a\x7fb\x1fc", "", " "),
    *(True, False, *OTHERS),
]


@pytest.mark.parametrize("name", METHODS)
def test_sql_and_python_take_and_refuse_the_same_values(reader: psycopg.Connection, name: str) -> None:
    for item in describe(METHODS[name]):
        algorithm = (item["algorithms"] or [None])[-1]
        for value in [*BOTH, *item["choices"], *(["inf"] if item["infinite"] else [])]:
            params = {item["name"]: value}
            told, meant = (ask(name, algorithm, params) for ask in (partial(parse_in_sql, reader), parse_in_python))
            if isinstance(told, str):
                assert isinstance(meant, str), value
                for sentence in (told, meant):
                    demand_named(
                        sentence, item["name"], "multiple of" if "multiple of" in told else item["requirement"]
                    )
            else:
                assert told == meant, value


def test_a_parameter_that_is_no_multiple_of_another_is_refused_before_anything_is_read(
    reader: psycopg.Connection,
) -> None:
    for params, told in (({"tau_s": 2000}, ("tau_s", "leak_s", "1800", "2000")), ({"grid_s": 7}, ("leak_s", "grid_s"))):
        refusal = parse_in_sql(reader, "kte", "kte-hide", params)
        assert refusal == parse_in_python("kte", "kte-hide", params)
        demand_named(refusal, *told)
        assert isinstance(parse_in_sql(reader, "kte", "k-merge", params), dict) == ("grid_s" in params)
    for edge in ("since", "until"):
        params = {"window_s": 1800, edge: 1767600900}
        refusal = parse_in_sql(reader, "kte", "k-merge", params)
        assert refusal == parse_in_python("kte", "k-merge", params)
        demand_named(refusal, edge, "window_s", 1800, 1767600900)
        assert isinstance(parse_in_sql(reader, "kte", "k-merge", {**params, "window_s": 900}), dict)


@settings(max_examples=50)
@given(known=st.sets(st.text("aAb-é,", min_size=1, max_size=3), max_size=30))
def test_a_refusal_lists_the_names_that_python_lists(reader: psycopg.Connection, known: set[str]) -> None:
    with pytest.raises(psycopg.Error) as caught:
        reader.execute("SELECT dbanon_internal.refuse_name('name', 'x', %s)", [list(known)])
    assert (caught.value.diag.message_hint or "") == choose_one(known)


@settings(max_examples=200)
@given(
    name=st.sampled_from(sorted(METHODS)),
    algorithm=st.none() | draw_words(a.name for family in METHODS.values() for a in family.algorithms),
    params=st.dictionaries(draw_words(PARAMETERS), st.integers(-5, 5), max_size=2),
)
def test_sql_and_python_say_the_same_of_names(
    reader: psycopg.Connection, name: str, algorithm: str | None, params: dict[str, Any]
) -> None:
    assert parse_in_sql(reader, name, algorithm, params) == parse_in_python(name, algorithm, params)


@settings(max_examples=100)
@given(name=draw_words(METHODS))
@example(name="tp-awar")
def test_sql_and_python_say_the_same_of_methods(reader: psycopg.Connection, name: str) -> None:
    assert parse_in_sql(reader, name, None, {}) == parse_in_python(name, None, {})


@pytest.mark.many
@pytest.mark.parametrize(
    ("family", "algorithm"), [pytest.param(f, a.name, id=a.name) for f in METHODS.values() for a in f.algorithms]
)
@given(data=st.data())
def test_python_takes_what_sql_makes_of_any_value(
    reader: psycopg.Connection, family: Any, algorithm: str, data: st.DataObject
) -> None:
    known = st.sampled_from([p["name"] for p in describe(family)])
    values = TEXTS | NUMBERS | st.sampled_from(OTHERS) | st.booleans()
    params = data.draw(st.dictionaries(known, values, min_size=1, max_size=3))
    told = parse_in_sql(reader, family.name, algorithm, params)
    if isinstance(told, str):
        # Of another parameter where that must be a multiple of one that was given.
        assert any(f"'{item['name']}'" in told for item in describe(family))
    else:  # the types are those of Python too, but that JSON tells no float from an integer
        assert (
            parse_in_sql(reader, family.name, algorithm, told) == told == parse_in_python(family.name, algorithm, told)
        )
        kinds = {"integer": int, "instant": int, "number": (int, float), "choice": str, "switch": bool, "name": str}
        for item in describe(family):
            assert told[item["name"]] is None or isinstance(told[item["name"]], kinds[item["type"]])


SEEN = ["default", "a b", "Ä", "x" * 60, "5", "'"]
HIDDEN = "\x1b\x1f\x7f\x85\x9b\xa0\xad\u061c\u1680\u2000\u200f\u2028\u202e\u202f\u205f\u2069\u3000\ufeff"
NAMES = [*SEEN, "x" * 61, "", " ", " a", "a ", "a\n", *(f"a{character}b" for character in HIDDEN)]


@pytest.mark.many
@pytest.mark.parametrize("value", [*NAMES, 5, True, None, [], {}])
def test_sql_and_python_say_the_same_of_names_of_sets(reader: psycopg.Connection, value: Any) -> None:
    about = {"type": "name", "choices": (), "minimum": None, "maximum": None}
    row = reader.execute(
        "SELECT dbanon_internal.parse_parameter(%s, %s)", [json.dumps(about), json.dumps(value)]
    ).fetchone()
    told = parsing.convert_value(about, value)
    assert row == (told,)
    assert (told is not None) == (value in SEEN)


@pytest.mark.many
@pytest.mark.parametrize("name", ["a b", "Ä", *(f"a{character}b" for character in HIDDEN)])
def test_names_of_datasets_and_sets_may_have_the_same_characters(connection: psycopg.Connection, name: str) -> None:
    def accepted(statement: str) -> bool:
        try:
            with connection.transaction():
                connection.execute(statement, [name])
        except psycopg.Error:
            return False
        return True

    dataset = accepted(
        "SELECT dbanon_internal.demand_dataset_options(jsonb_populate_record(NULL::dbanon_internal.loading, "
        "jsonb_build_object('dataset', %s::text, 'mode', 'create', 'grid_m', 1, 'grid_s', 1)))"
    )
    assert accepted("SELECT dbanon_internal.demand_set_name(%s)") == dataset
    assert accepted("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, 32632, 1, 1)") == dataset
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('made', 32632, 1, 1)")
    stored = (
        "INSERT INTO dbanon.quasi_identifier (dataset_id, set_name, subject, at) SELECT dataset_id, %s, 's', now() "
    )
    assert accepted(f"{stored} FROM dbanon.dataset WHERE name = 'made'") == dataset
    assert (parsing.convert_value({"type": "name"}, name) is not None) == dataset


@settings(max_examples=200)
@given(value=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
def test_sql_and_python_hide_the_same_characters(reader: psycopg.Connection, value: str) -> None:
    row = reader.execute("SELECT %s ~ dbanon_internal.build_hidden_pattern()", [value]).fetchone()
    assert row == (parsing.quote_text(value) == "'?'" and value != "?",)


@settings(max_examples=200)
@given(value=TEXT)
def test_sql_and_python_say_the_same_of_any_text_as_a_name(reader: psycopg.Connection, value: str) -> None:
    row = reader.execute(
        'SELECT dbanon_internal.parse_parameter(\'{"type": "name"}\', %s)', [json.dumps(value)]
    ).fetchone()
    assert row == (parsing.convert_value({"type": "name"}, value),)


ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.0{1,6})?)?"
    r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
)


def read_seconds(text: str) -> int | None:
    """Read ISO 8601 with a zone, in whole seconds and not before 1970 by more than 10^11 seconds nor after, plainly."""
    text = text.strip(" \t\r\n")
    try:
        told = int(datetime.fromisoformat(text).timestamp()) if ISO.fullmatch(text) else None
    except ValueError:  # the 30th of February
        return None
    return told if told is not None and abs(told) <= 10**11 else None


@settings(max_examples=300)
@given(value=INSTANTS | change_texts(INSTANTS))
@example("2026-01-05T07:30:00.000-0030")
@example("2026-01-05 09:00+01")
@example("2024-02-29T00:00Z")
@example("2023-02-29T00:00Z")
@example("0000-02-01T00:00Z")
@example("2026-12-31T23:59:59-23:59")
@example("2026-13-01T00:00Z")
@example("2026-01-00T00:00Z")
@example("2026-01-05T08:00")
@example("5138-11-16T09:46:40Z")
@example("5138-11-16T09:46:41Z")
@example("0001-01-01T00:00+23:59")
def test_an_instant_may_be_iso_8601_with_a_zone(reader: psycopg.Connection, value: str) -> None:
    told = parse_in_sql(reader, "tp-aware", None, {"start": value})
    if (start := read_seconds(value)) is None and not value.strip().isdecimal():
        demand_named(told, "'start'", "tp-aware", "ISO 8601")
    elif start is not None:
        assert isinstance(told, dict)
        assert told["start"] == start


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ("2", 2), (" 2 ", 2), ("\r5 ", 5), ("\t60\n", 60), ("+2.0", 2), ("20e-1", 2), ("2.", 2), ("+.5e1", 5), (2.0, 2),
        (str(2**60 + 1), 2**60 + 1), ("1e300", 10**300),
    ],
)  # fmt: skip
def test_an_integer_may_be_a_text(reader: psycopg.Connection, value: Any, taken: int) -> None:
    told = parse_in_sql(reader, "tp-aware", None, {"k": value})
    assert isinstance(told, dict)
    assert told["k"] == taken


@pytest.mark.parametrize(
    "value",
    [
        "1e301", "2e-1", "1_0", "\xa02", "\x0b5", "٢", "2,0", "0x2", "1e0000", "e5", "", "2" * 61, "0" * 60 + "5",
        "nan", "inf",
    ],
)  # fmt: skip
def test_any_other_text_is_no_integer(reader: psycopg.Connection, value: str) -> None:
    demand_named(parse_in_sql(reader, "tp-aware", None, {"k": value}), "'k'", "tp-aware", "integer >= 2")


@pytest.mark.parametrize(
    ("value", "meant"), [("on", True), ("OFF", False), ("oN ", True), ("on\r", True), ("false", False), ("yes", True)]
)
def test_a_switch_may_be_a_word(reader: psycopg.Connection, value: str, meant: bool) -> None:
    told = parse_in_sql(reader, "sensitive-sites", None, {"improve": value})
    assert isinstance(told, dict)
    assert told["improve"] is meant


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"), (True, "true"), (False, "false"), (1, "1"), (-10, "-10"), (-0.0, "0"), (1e-7, "0.0000001"),
        (1e20, "1" + "0" * 20), (10**70, "1" + "0" * 56 + "..."), (1.50, "1.5"), (" 1.50 ", "1.50"), ("+1e0", "+1e0"),
        ("1e999", "1e999"), ("1e1000", "'1e1000'"), (".", "'.'"), ("", "''"), (" ", "' '"), ("1_0", "'1_0'"),
        ("١٢", "'١٢'"), ("it's", "'it's'"), ("a\nb\x1b", "'a?b?'"), ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 57}...'"), ("0" * 61, f"'{'0' * 57}...'"), ([], "a list"), ({"k": 1}, "an object"),
    ],
)  # fmt: skip
def test_an_error_shows_what_was_given(reader: psycopg.Connection, value: Any, shown: str) -> None:
    demand_named(parse_in_sql(reader, "tp-aware", None, {"align": value}), "'align'", shown)


def test_an_endless_name_is_cut(reader: psycopg.Connection) -> None:
    told = parse_in_sql(reader, "tp-aware" * 100_000, None, {})
    demand_named(told, "method", f"'{('tp-aware' * 8)[:57]}...'", *(f"'{name}'" for name in METHODS))


def test_the_sentences_are_those_of_the_command_line(reader: psycopg.Connection) -> None:
    wrong: list[tuple[str, str | None, dict[str, Any], tuple[object, ...]]] = [
        ("tp-awar", None, {}, ("method", "'tp-awar'", "'tp-aware'")),
        ("tp-aware", "magic", {}, ("algorithm of tp-aware", "'magic'", "traj-anon")),
        ("tp-aware", None, {"instant": 3}, ("parameter of tp-aware", "'instant'", "'instants'")),
        ("tp-aware", None, {"k": 1}, ("'k'", "tp-aware", "integer >= 2", 1)),
        ("tp-aware", None, {"k": "1"}, ("'k'", "tp-aware", "integer >= 2", 1)),
        ("sensitive-sites", "mk", {"improve": False}, ("'improve'", "sensitive-sites", "bk", "mk")),
    ]
    for named, algorithm, params, facts in wrong:
        told = parse_in_sql(reader, named, algorithm, params)
        demand_named(told, *facts)
        if "1" not in params.values():  # texts that are numbers are SQL's
            assert told == parse_in_python(named, algorithm, params)


def test_every_parameter_comes_back_in_its_own_type(reader: psycopg.Connection) -> None:
    params = {"k": "1e1", "start": "2026-01-05 09:00+01:00", "min_cloak_m": "0.30000000000000004", "align": "exact"}
    assert parse_in_sql(reader, "tp-aware", None, params) == {
        **{p["name"]: p["default"] for p in describe(METHODS["tp-aware"])},
        **{"k": 10, "start": 1767600000, "min_cloak_m": 0.1 + 0.2, "align": "exact"},
    }


@pytest.mark.many
@pytest.mark.parametrize(
    ("params", "shown"),
    [(None, "null"), ([], "a list"), (5, "5"), ("k=5", "'k=5'"), (True, "true")],
    ids=["null", "list", "number", "text", "boolean"],
)
def test_parameters_must_be_an_object(reader: psycopg.Connection, params: Any, shown: str) -> None:
    demand_named(parse_in_sql(reader, "tp-aware", None, params), "parameters", "object", shown, "'{\"k\": 20}'")


def test_what_is_left_out_in_sql_is_null(reader: psycopg.Connection) -> None:
    row = reader.execute("SELECT dbanon_internal.complete_params('tp-aware', NULL, NULL)").fetchone()
    assert row == (parse_in_python("tp-aware", None, {}),)
    demand_named(parse_in_sql(reader, None, None, {}), "method", "NULL", *(f"'{name}'" for name in METHODS))


@pytest.mark.parametrize("name", METHODS)
def test_the_algorithm_is_the_first_unless_one_is_named(reader: psycopg.Connection, name: str) -> None:
    known = [algorithm.name for algorithm in METHODS[name].algorithms]
    for asked, found in [(None, known[0]), *zip(known, known, strict=True)]:
        assert reader.execute("SELECT dbanon_internal.demand_algorithm(%s, %s)", [name, asked]).fetchone() == (found,)


def test_the_view_of_methods_is_the_registry(reader: psycopg.Connection) -> None:
    rows = reader.execute("SELECT * FROM dbanon.methods").fetchall()
    assert rows == [
        (
            *(family.name, algorithm.name, algorithm is family.algorithms[0]),
            *(family.summary, algorithm.summary, algorithm.guarantee or family.guarantee),
            *(family.name, family.paper),
        )
        for family in sorted(METHODS.values(), key=lambda f: f.name)
        for algorithm in family.algorithms
    ]


def test_the_view_of_parameters_is_the_registry(reader: psycopg.Connection) -> None:
    rows = reader.execute("SELECT * FROM dbanon.method_parameters").fetchall()
    assert rows == [
        (
            *(family.name, p["name"], place, p["type"], p["unit"] or None, p["default_text"]),
            *(None if limit is None else Decimal(limit) for limit in (p["minimum"], p["maximum"])),
            *(p["choices"] or None, p["requirement"], p["algorithms"] or None, p["help"]),
        )
        for family in sorted(METHODS.values(), key=lambda f: f.name)
        for place, p in enumerate(describe(family), 1)
    ]


@pytest.mark.parametrize(("role", "may"), [("operator", True), ("worker", True), ("analyst", False)])
def test_who_submits_and_who_computes_may_ask_the_registry(login: Callable[[str], str], role: str, may: bool) -> None:
    asked = [
        "SELECT dbanon_internal.complete_params('sensitive-sites', 'mk',"
        ' \'{"k": "5", "at": "2026-01-05T08:00Z"}\')',
        "SELECT count(*) FROM dbanon.methods",
        "SELECT count(*) FROM dbanon.method_parameters",
        "SELECT dbanon.version()",
    ]
    with psycopg.connect(login(f"dbanon_{role}"), autocommit=True) as connection:
        for statement in asked:
            if may:
                assert connection.execute(statement).fetchone()
            else:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
        if may:
            with expect_refusal("DA011", "method", "'tp-awar'"):
                connection.execute("SELECT dbanon_internal.complete_params('tp-awar', NULL, NULL)")
            with expect_refusal("DA011", "'k'", "'x'"):
                connection.execute("SELECT dbanon_internal.complete_params('tp-aware', NULL, '{\"k\": \"x\"}')")


def test_the_version_names_all_that_is_installed(
    database: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_text, "read_version", lambda: "9.8.7'rc")
    assert not schema.is_current(database)
    schema.upgrade(database, share_roles=True)
    assert schema.is_current(database)
    row = connection.execute("SELECT dbanon.version(), postgis_lib_version()").fetchone()
    assert row is not None
    server = connection.info.parameter_status("server_version")
    assert server is not None
    assert row[0] == (
        f"dbanon 9.8.7'rc, schema {schema.EXPECTED_REVISION}, PostgreSQL {server.split()[0]}, PostGIS {row[1]}"
    )
    assert re.fullmatch(r"\d+(\.\d+)+", row[1])


def test_another_registry_is_written_by_the_next_upgrade(
    database: str, connection: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_methods(connection, "UPDATE dbanon.method SET parameters = '[]', paper = ''")
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "another.py").write_text("k = 2")
    monkeypatch.setattr(_text, "_INSTALLED", tmp_path)
    assert not schema.is_current(database)
    schema.upgrade(database, share_roles=True)
    assert schema.is_current(database)
    rows = connection.execute("SELECT name, parameters, paper FROM dbanon.method").fetchall()
    assert {row[0]: row[1:] for row in rows} == {
        name: (describe(family), family.paper) for name, family in METHODS.items()
    }
