"""Every parameter of every family: good values are taken, bad ones get the one sentence."""

import dataclasses
import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.base.errors import ParameterError
from dbanon.methods import METHODS, method, requirement
from tests.facts import names, refusal

FIELDS = [
    pytest.param(family, field, id=f"{family.name}-{field.name}")
    for family in METHODS.values()
    for field in dataclasses.fields(family.parameters)
]
OPTIONAL_LIMITED = [p for p in FIELDS if p.values[1].metadata["minimum"] is not None]
TP_AWARE = METHODS["tp-aware"]


def used_by(family, field):
    """Name an algorithm that the parameter may be given with."""
    return (field.metadata["algorithms"] or [None])[0]


def refused(family, name, value):
    with pytest.raises(ParameterError) as caught:
        family.parse({name: value})
    return str(caught.value)


def facts(family, field):
    return f"'{field.name}'", family.name, requirement(field.metadata)


@pytest.mark.parametrize("family", METHODS.values(), ids=lambda f: f.name)
def test_defaults_are_taken_and_survive_being_stored(family):
    defaults = family.parse({})
    assert family.parse(dataclasses.asdict(defaults)) == defaults
    assert family.parse({n: str(v) for n, v in dataclasses.asdict(defaults).items() if v is not None}) == defaults


@pytest.mark.parametrize(("family", "field"), FIELDS)
def test_every_parameter_has_a_help_a_type_and_a_default_within_its_own_limits(family, field):
    about = field.metadata
    assert about["help"].endswith(".")
    assert about["type"] in {"integer", "number", "choice", "switch", "instant", "name"}
    assert set(about["algorithms"]) <= {algorithm.name for algorithm in family.algorithms}
    assert bool(about["choices"]) == (about["type"] == "choice")
    assert family.parse({field.name: field.default}) == family.parse({})


def alike(family, field, value):
    """Give a parameter a value, and those that must be multiples of one another with it the same."""
    fields = {f.name: f for f in dataclasses.fields(family.parameters)}
    linked = {f.name for f in fields.values() if f.metadata["multiple_of"]}
    linked |= {fields[name].metadata["multiple_of"] for name in linked}
    if field.name not in linked:
        return {field.name: value}
    return {name: min(value, fields[name].metadata["maximum"]) for name in linked}


@pytest.mark.parametrize(("family", "field"), OPTIONAL_LIMITED)
def test_limits_are_inclusive_and_what_lies_beyond_them_is_refused(family, field):
    for limit, step in ((field.metadata["minimum"], -1), (field.metadata["maximum"], 1)):
        if limit is None:
            continue
        fitting = alike(family, field, limit)
        assert getattr(family.parse(fitting, used_by(family, field)), field.name) == limit
        names(refused(family, field.name, limit + step), *facts(family, field), limit + step)


@pytest.mark.many
@pytest.mark.parametrize(("family", "field"), FIELDS)
@given(value=st.one_of(st.text(), st.booleans(), st.floats(), st.integers(), st.just(10**400), st.lists(st.integers())))
def test_any_value_is_taken_or_refused_with_the_sentence(family, field, value):
    try:
        taken = getattr(family.parse({field.name: value}, used_by(family, field)), field.name)
    except ParameterError as error:
        names(str(error), *((field.name,) if "multiple of" in str(error) else facts(family, field)))
    else:
        kinds = {"integer": int, "number": float, "choice": str, "switch": bool, "instant": int, "name": str}
        assert type(taken) is kinds[field.metadata["type"]]


def test_a_refusal_names_the_parameter_what_it_must_be_and_what_was_given():
    for value, shown in ((1, "1"), ("2.5", "2.5"), ("two", "'two'")):
        names(refused(TP_AWARE, "k", value), "'k'", "tp-aware", "integer >= 2", shown)
    names(refused(TP_AWARE, "align", "first"), "'align'", "tp-aware", "last, exact, linear", "'first'")


@pytest.mark.parametrize(
    ("value", "meant"), [("on", True), ("OFF", False), (True, True), ("false", False), ("yes", True)]
)
def test_a_switch_is_on_or_off(value, meant):
    assert METHODS["sensitive-sites"].parse({"improve": value}).improve is meant


def test_a_parameter_goes_with_its_algorithms_only_unless_it_is_the_default():
    family = METHODS["sensitive-sites"]
    with refusal(ParameterError, "'guard_m'", "sensitive-sites", "bk or mk or knn", "local"):
        family.parse({"guard_m": 5}, "local")
    assert family.parse({"guard_m": 5}).guard_m == family.parse({"guard_m": 5}, "knn").guard_m == 5
    assert family.parse(dataclasses.asdict(family.parse({})), "local") == family.parse({})


def test_an_unknown_name_is_answered_with_those_there_are():
    names(refused(TP_AWARE, "instant", 3), "parameter of tp-aware", "'instant'", "'instants'", "'k'", "'step_s'")
    with refusal(ParameterError, "method", "'tp-awake'", "'sensitive-sites'", "'tp-aware'"):
        method("tp-awake")
    with refusal(ParameterError, "algorithm of tp-aware", "'magic'"):
        TP_AWARE.algorithm("magic")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"), (True, "true"), (False, "false"), (1, "1"), (-10, "-10"), (-0.0, "0"), (1e-7, "0.0000001"),
        (1e20, "1" + "0" * 20), (10**70, "1" + "0" * 56 + "..."), (1.50, "1.5"), (math.nan, "NaN"),
        (-math.inf, "-Infinity"), (np.int64(1), "1"), (np.True_, "true"), (" 1.50 ", "1.50"), ("+1e0", "+1e0"),
        ("1e999", "1e999"), ("1e1000", "'1e1000'"), (".", "'.'"), ("", "''"), (" ", "' '"), ("1_0", "'1_0'"),
        ("١٢", "'١٢'"), ("it's", "'it's'"), ("a\nb\x1b", "'a?b?'"), ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 57}...'"), ("0" * 61, f"'{'0' * 57}...'"), ([], "a list"), ((1, 2), "a list"),
        ({"k": 1}, "an object"),
    ],
)  # fmt: skip
def test_an_error_shows_what_was_given(value, shown):
    names(refused(TP_AWARE, "align", value), "'align'", shown)


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ("2", 2), (" 2 ", 2), ("+2.0", 2), ("20e-1", 2), ("2.", 2), (2.0, 2), (np.int32(2), 2), (Decimal(2), 2),
        (2**60 + 1, 2**60 + 1), (str(2**60 + 1), 2**60 + 1), ("1e300", 10**300),
    ],
)  # fmt: skip
def test_an_integer_is_taken_whole(value, taken):
    assert TP_AWARE.parse({"k": value}).k == taken


@pytest.mark.parametrize(
    "value", ["1e301", "2e-1", "1_0", "\xa02", "٢", "2,0", "0x2", "1e0000", 10**301, "", True, "2" * 61]
)
def test_any_other_is_no_integer(value):
    names(refused(TP_AWARE, "k", value), "'k'", "tp-aware", "integer >= 2")


def test_of_several_faults_the_same_is_told_in_whatever_order_they_are_given():
    faults = {"min_cloak_m": -1, "k": 1, "zzz": 1, "aaa": 1}
    while faults:
        told = {str(caught_by(dict(items))) for items in itertools.permutations(faults.items())}
        assert len(told) == 1
        first = next(name for name in ("aaa", "zzz", "k", "min_cloak_m") if name in faults)
        assert f"'{first}'" in told.pop()
        del faults[first]


def caught_by(given):
    with pytest.raises(ParameterError) as caught:
        TP_AWARE.parse(given)
    return caught.value


EIGHT = 1767600000


@pytest.mark.parametrize(
    ("start", "seconds"),
    [
        ("0", 0), (EIGHT, EIGHT), ("1767600000", EIGHT), ("1.7676e9", EIGHT), (1.7676e9, EIGHT), (-60, -60),
        (10**11, 10**11), ("2026-01-05T08:00:00Z", EIGHT), ("2026-01-05 09:00+01:00", EIGHT),
        ("2026-01-05T07:30:00.000-0030", EIGHT), ("2026-01-05T03:00-05", EIGHT), (" 2026-01-05T08:00Z\n", EIGHT),
        ("0001-01-01T00:00+23:59", -62135683140), ("2024-02-29T00:00Z", 1709164800),
    ],
)  # fmt: skip
def test_an_instant_is_unix_seconds_or_iso_8601_with_a_zone(start, seconds):
    assert TP_AWARE.parse({"start": start}).start == seconds


@pytest.mark.parametrize(
    "start",
    [
        "", "soon", "2026-01-05T08:00:00", "2026-01-05", "nan", "inf", "1e300", "0.5", "2026-01-05T08:00:00.5Z",
        "2026-02-29T08:00Z", "2026-13-05T08:00Z", "0000-01-05T08:00Z", "2026-01-00T08:00Z", "2026-01-05T24:00Z",
        "2026-01-05T08:60Z", "2026-01-05T08:00:60Z", "2026-01-05T08:00+24", "2026-01-05T08:00+01:60", "2026-01-05T08Z",
        "20260105T080000Z", "2026-W02-1T08:00Z", "2026-01-05_08:00Z", "9999-01-05T08:00Z", "100000000001",
        "2026-01-05T08:00z", "٢٠٢٦-01-05T08:00Z", "2026-01-05T08:00:00.0000000Z",
    ],
)  # fmt: skip
def test_any_other_start_is_refused(start):
    shown = start if start in {"1e300", "0.5", "100000000001"} else f"'{start}'"
    names(refused(TP_AWARE, "start", start), "'start'", "tp-aware", "ISO 8601", shown)
