"""The helpers with which tests assert facts: they find what is said, and nothing else."""

from types import SimpleNamespace

import pytest

from dbanon.base.errors import DataError, ParameterError
from tests.facts import demand_named, demand_refused, expect_refusal, is_named

SAID = "Run 12 of 'cabs_k5' needs k >= 2, 1,000 m and -7 of 2.5 (3 late-fixes); see `dbanon runs`."


@pytest.mark.parametrize(
    "fact",
    [
        12,
        "run 12",
        "Run 12",
        "'cabs_k5'",
        "cabs_k5",
        "k >= 2",
        "1,000 m",
        -7,
        2.5,
        "3 late-fixes",
        "`dbanon runs`",
        ")",
    ],
)
def test_a_fact_is_found(fact: object) -> None:
    assert is_named(SAID, fact)


@pytest.mark.parametrize(
    "fact", [1, 2.51, 5, 7, "000", "un 12", "cabs", "k5", "late-fix", "RUN 12", "see  ", "dbanon run"]
)
def test_part_of_a_word_or_number_is_no_fact(fact: object) -> None:
    assert not is_named(SAID, fact)


def test_what_is_lacking_is_named() -> None:
    with pytest.raises(AssertionError, match=r"\[13, 'bus'\] must be named"):
        demand_named(SAID, 12, 13, "bus")


def test_a_refusal_has_its_code_and_its_facts() -> None:
    done = SimpleNamespace(code=3, sentence=SAID)
    demand_refused(done, 3, 12)
    for code, fact in ((2, 12), (3, 13)):
        with pytest.raises(AssertionError):
            demand_refused(done, code, fact)


def test_an_error_has_its_class_and_its_facts() -> None:
    with expect_refusal(ParameterError, 12) as caught:
        raise ParameterError(SAID)
    assert str(caught.value) == SAID
    with pytest.raises(AssertionError, match="13"), expect_refusal(ParameterError, 13):
        raise ParameterError(SAID)
    with pytest.raises(DataError), expect_refusal(ParameterError, 12):
        raise DataError(SAID)
    with pytest.raises(pytest.fail.Exception), expect_refusal(ParameterError, 12):
        pass
