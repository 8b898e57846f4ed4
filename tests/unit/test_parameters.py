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
from dbanon.methods import METHODS, describe_requirement, find_method
from tests.facts import demand_named, expect_refusal

FIELDS = [
    pytest.param(family, field, id=f"{family.name}-{field.name}")
    for family in METHODS.values()
    for field in dataclasses.fields(family.parameters)
]
OPTIONAL_LIMITED = [p for p in FIELDS if p.values[1].metadata["minimum"] is not None]
TP_AWARE = METHODS["tp-aware"]


def find_user(family, field):
    """Name an algorithm that the parameter may be given with."""
    return (field.metadata["algorithms"] or [None])[0]


def catch_refusal(family, name, value):
    with pytest.raises(ParameterError) as caught:
        family.parse({name: value})
    return str(caught.value)


def list_facts(family, field):
    return f"'{field.name}'", family.name, describe_requirement(field.metadata)


@pytest.mark.parametrize("family", METHODS.values(), ids=lambda f: f.name)
def test_defaults_are_taken_and_survive_being_stored(family):
    defaults = family.parse({})
    assert family.parse(dataclasses.asdict(defaults)) == defaults


@pytest.mark.parametrize(("family", "field"), FIELDS)
def test_every_parameter_has_a_help_a_type_and_a_default_within_its_own_limits(family, field):
    about = field.metadata
    assert about["help"].endswith(".")
    assert about["type"] in {"integer", "number", "choice", "switch", "instant", "name"}
    assert set(about["algorithms"]) <= {algorithm.name for algorithm in family.algorithms}
    assert bool(about["choices"]) == (about["type"] == "choice")
    assert family.parse({field.name: field.default}) == family.parse({})


def set_alike(family, field, value):
    """Give a parameter a value, and those that must be multiples of one another with it the same."""
    fields = {f.name: f for f in dataclasses.fields(family.parameters)}
    user = find_user(family, field) or family.algorithms[0].name
    linked = {
        f.name
        for f in fields.values()
        if f.metadata["multiple_of"]
        and f.metadata["type"] == "integer"
        and user in (f.metadata["algorithms"] or [user])
    }
    linked |= {fields[name].metadata["multiple_of"] for name in linked}
    if field.name not in linked:
        return {field.name: value}
    return {name: min(value, fields[name].metadata["maximum"]) for name in linked}


@pytest.mark.parametrize(("family", "field"), OPTIONAL_LIMITED)
def test_limits_are_inclusive_and_what_lies_beyond_them_is_refused(family, field):
    for limit, step in ((field.metadata["minimum"], -1), (field.metadata["maximum"], 1)):
        if limit is None:
            continue
        fitting = set_alike(family, field, limit)
        assert getattr(family.parse(fitting, find_user(family, field)), field.name) == limit
        demand_named(catch_refusal(family, field.name, limit + step), *list_facts(family, field), limit + step)


@pytest.mark.many
@pytest.mark.parametrize(("family", "field"), FIELDS)
@given(value=st.one_of(st.text(), st.booleans(), st.floats(), st.integers(), st.just(10**400), st.lists(st.integers())))
def test_any_value_is_taken_or_refused_with_the_sentence(family, field, value):
    try:
        taken = getattr(family.parse({field.name: value}, find_user(family, field)), field.name)
    except ParameterError as error:
        demand_named(str(error), *((field.name,) if "multiple of" in str(error) else list_facts(family, field)))
    else:
        kinds = {"integer": int, "number": float, "choice": str, "switch": bool, "instant": int, "name": str}
        assert type(taken) is kinds[field.metadata["type"]]


def test_a_refusal_names_the_parameter_what_it_must_be_and_what_was_given():
    for value, shown in ((1, "1"), (2.5, "2.5"), ("two", "'two'")):
        demand_named(catch_refusal(TP_AWARE, "k", value), "'k'", "tp-aware", "integer >= 2", shown)
    demand_named(catch_refusal(TP_AWARE, "align", "first"), "'align'", "tp-aware", "last, exact, linear", "'first'")


@pytest.mark.parametrize("value", [True, False, np.True_])
def test_a_switch_is_true_or_false(value):
    assert METHODS["sensitive-sites"].parse({"improve": value}).improve is bool(value)
    demand_named(catch_refusal(METHODS["sensitive-sites"], "improve", int(value)), "'improve'", "on or off", int(value))


def test_a_parameter_goes_with_its_algorithms_only_unless_it_is_the_default():
    family = METHODS["sensitive-sites"]
    with expect_refusal(ParameterError, "'improve'", "sensitive-sites", "bk", "mk"):
        family.parse({"improve": False}, "mk")
    assert family.parse({"improve": False}).improve is family.parse({"improve": False}, "bk").improve is False
    assert family.parse(dataclasses.asdict(family.parse({})), "mk") == family.parse({})


def test_an_unknown_name_is_answered_with_those_there_are():
    demand_named(
        catch_refusal(TP_AWARE, "instant", 3), "parameter of tp-aware", "'instant'", "'instants'", "'k'", "'step_s'"
    )
    with expect_refusal(ParameterError, "method", "'tp-awake'", "'sensitive-sites'", "'tp-aware'"):
        find_method("tp-awake")
    with expect_refusal(ParameterError, "algorithm of tp-aware", "'magic'"):
        TP_AWARE.find_algorithm("magic")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"), (True, "True"), (1, "1"), (-10, "-10"), (1e-7, "1e-07"), (10**70, "1" + "0" * 56 + "..."),
        (math.nan, "nan"), (-math.inf, "-inf"), (np.int64(1), "1"), (" 1.50 ", "' 1.50 '"), ("", "''"),
        ("it's", "'it's'"), ("a\nb\x1b", "'a?b?'"), ("x" * 60, f"'{'x' * 60}'"), ("x" * 61, f"'{'x' * 57}...'"),
        ([], "[]"), ((1, 2), "(1, 2)"), ({"k": 1}, "{'k': 1}"),
    ],
)  # fmt: skip
def test_an_error_shows_what_was_given(value, shown):
    demand_named(catch_refusal(TP_AWARE, "align", value), "'align'", shown)


@pytest.mark.parametrize("value", [2, 2.0, np.int32(2), np.float64(2), 2**60 + 1])
def test_an_integer_is_taken_whole(value):
    taken = TP_AWARE.parse({"k": value}).k
    assert (taken, type(taken)) == (value, int)


@pytest.mark.parametrize("value", ["2", 2.5, math.nan, math.inf, "inf", 10**301, "", True, None, [2], Decimal(2)])
def test_any_other_is_no_integer(value):
    demand_named(catch_refusal(TP_AWARE, "k", value), "'k'", "tp-aware", "integer >= 2")


def test_of_several_faults_the_same_is_told_in_whatever_order_they_are_given():
    faults = {"min_cloak_m": -1, "k": 1, "zzz": 1, "aaa": 1}
    while faults:
        told = {str(catch_error(dict(items))) for items in itertools.permutations(faults.items())}
        assert len(told) == 1
        first = next(name for name in ("aaa", "zzz", "k", "min_cloak_m") if name in faults)
        assert f"'{first}'" in told.pop()
        del faults[first]


def catch_error(given):
    with pytest.raises(ParameterError) as caught:
        TP_AWARE.parse(given)
    return caught.value


@pytest.mark.parametrize("start", [0, -60, 1767600000, 1.7676e9, 10**11, -(10**11)])
def test_an_instant_is_unix_seconds(start):
    assert TP_AWARE.parse({"start": start}).start == start


@pytest.mark.parametrize("start", [0.5, 10**11 + 1, math.inf, "0", "2026-01-05T08:00:00Z", True])
def test_any_other_start_is_refused(start):
    demand_named(catch_refusal(TP_AWARE, "start", start), "'start'", "tp-aware", "ISO 8601")
