"""Every parameter of every family: good values are taken, bad ones get the one sentence."""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.errors import ParameterError
from dbanon.methods import METHODS, method, requirement

FIELDS = [
    pytest.param(family, field, id=f"{family.name}-{field.name}")
    for family in METHODS.values()
    for field in dataclasses.fields(family.parameters)
]
OPTIONAL_LIMITED = [p for p in FIELDS if p.values[1].metadata["minimum"] is not None]
SENTENCE = re.compile(r"The '(\w+)' parameter of ([\w-]+) must be .+\. Got .+ instead\.", re.DOTALL)
TP_AWARE = METHODS["tp-aware"]


def refusal(family, name, value):
    with pytest.raises(ParameterError) as caught:
        family.parse({name: value})
    return str(caught.value)


def sentence(family, field, value):
    return (
        f"The '{field.name}' parameter of {family.name} must be {requirement(field.metadata)}. Got {value!r} instead."
    )


@pytest.mark.parametrize("family", METHODS.values(), ids=lambda f: f.name)
def test_defaults_are_taken_and_survive_being_stored(family):
    defaults = family.parse({})
    assert family.parse(dataclasses.asdict(defaults)) == defaults
    assert family.parse({n: str(v) for n, v in dataclasses.asdict(defaults).items() if v is not None}) == defaults


@pytest.mark.parametrize(("family", "field"), FIELDS)
def test_every_parameter_has_a_help_a_type_and_a_default_within_its_own_limits(family, field):
    about = field.metadata
    assert about["help"].endswith(".")
    assert about["type"] in {"integer", "number", "text", "choice", "switch"}
    assert bool(about["choices"]) == (about["type"] == "choice")
    assert family.parse({field.name: field.default}) == family.parse({})


@pytest.mark.parametrize(("family", "field"), OPTIONAL_LIMITED)
def test_limits_are_inclusive_and_what_lies_beyond_them_is_refused(family, field):
    for limit, step in ((field.metadata["minimum"], -1), (field.metadata["maximum"], 1)):
        if limit is None:
            continue
        assert getattr(family.parse({field.name: limit}), field.name) == limit
        assert refusal(family, field.name, limit + step) == sentence(family, field, limit + step)


@pytest.mark.parametrize(("family", "field"), FIELDS)
@given(value=st.one_of(st.text(), st.booleans(), st.floats(), st.integers(), st.just(10**400), st.lists(st.integers())))
def test_any_value_is_taken_or_refused_with_the_sentence(family, field, value):
    try:
        taken = getattr(family.parse({field.name: value}), field.name)
    except ParameterError as error:
        named = SENTENCE.fullmatch(str(error))
        assert named is not None
        assert named.groups() == (field.name, family.name)
    else:
        kinds = {"integer": int, "number": float, "text": str, "choice": str, "switch": bool}
        assert type(taken) is kinds[field.metadata["type"]]


def test_the_sentence_is_the_house_form():
    assert refusal(TP_AWARE, "k", 1) == "The 'k' parameter of tp-aware must be an integer >= 2. Got 1 instead."
    assert refusal(TP_AWARE, "k", "2.5") == "The 'k' parameter of tp-aware must be an integer >= 2. Got '2.5' instead."
    assert refusal(TP_AWARE, "align", "first") == (
        "The 'align' parameter of tp-aware must be one of last, exact, linear. Got 'first' instead."
    )


@pytest.mark.parametrize(
    ("value", "meant"), [("on", True), ("OFF", False), (True, True), ("false", False), ("yes", True)]
)
def test_a_switch_is_on_or_off(value, meant):
    assert METHODS["sensitive-sites"].parse({"improve": value}).improve is meant


def test_an_unknown_name_is_answered_with_the_nearest():
    assert refusal(TP_AWARE, "instant", 3) == (
        "There is no parameter of tp-aware named 'instant'. Did you mean 'instants'?"
    )
    with pytest.raises(ParameterError, match=r"There is no method named 'tp-awake'\. Did you mean 'tp-aware'\?"):
        method("tp-awake")
    with pytest.raises(ParameterError, match="There is no algorithm of tp-aware named 'magic'"):
        TP_AWARE.algorithm("magic")


@pytest.mark.parametrize("start", ["0", "1767600000", "1.7676e9", "2026-01-05T08:00:00Z", "2026-01-05 09:00+01:00"])
def test_start_is_unix_seconds_or_iso_8601_with_a_zone(start):
    assert TP_AWARE.parse({"start": start}).start == start


@pytest.mark.parametrize(
    "start", ["", "soon", "2026-01-05T08:00:00", "2026-01-05", "nan", "inf", "1e300", "0.5", "2026-01-05T08:00:00.5Z"]
)
def test_any_other_start_is_refused(start):
    assert refusal(TP_AWARE, "start", start) == (
        "The 'start' parameter of tp-aware must be ISO 8601 with a zone, or unix seconds, in whole seconds. "
        f"Got {start!r} instead."
    )
