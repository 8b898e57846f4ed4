"""The figures of a run of very many rows: some of its records are asked."""

import pytest

from dbanon.database import Database
from dbanon.runs import _measurement
from tests.facts import names

pytestmark = pytest.mark.db


def test_of_very_many_rows_a_sample_of_records_is_asked_and_says_how_far_off_that_is(
    verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, run_id = verified_city
    whole = database.evaluate(run_id, queries=100)
    monkeypatch.setattr(_measurement, "_MAX_MET", 50)
    monkeypatch.setattr(_measurement, "_LEAST_RECORDS", 10)
    some = database.evaluate(run_id, queries=100)
    [note] = [note for note in some.notes if "one in" in note]
    names(note, "one in 4")
    assert whole.true is not None
    assert some.answers is not None
    assert whole.answers is not None
    assert some.true is not None
    assert (some.true % 4 == 0).all()  # of the same records as the answers, so that their error is of no others
    for sampled, of_all in ((some.true, whole.true), (some.answers.expected, whole.answers.expected)):
        assert not (sampled == of_all).all()
        assert abs(sampled.sum() / of_all.sum() - 1) < 0.15
    assert {one.value for one in some.figures if one.name == "coverage"} == {1.0}
