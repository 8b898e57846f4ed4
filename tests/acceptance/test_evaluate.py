"""The figures of a run of very many rows: some of its groups of records are asked."""

import pytest

from dbanon.database import Database
from dbanon.evaluation import measurement
from dbanon.results.figures import Evaluation, Figure
from tests.facts import demand_named

pytestmark = [pytest.mark.db, pytest.mark.stress]

UNBIASED = ("count_error", "bias", "usable_resolution_m")


def select_figures(measured: Evaluation, asked: str) -> dict[tuple[str, float | None], Figure]:
    return {(one.name, one.side_m): one for one in measured.figures if one.asked == asked and one.name in UNBIASED}


@pytest.mark.parametrize(("asked", "groups"), [("moment", 20), ("span", 30)])
def test_of_very_many_rows_a_sample_of_groups_is_asked_and_its_figures_are_those_of_all(
    asked: str, groups: int, verified_city: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, run_id = verified_city
    if asked == "span":
        params = {"k": 5, "window_s": 1800}
        run_id = database.run("kte", dataset="city", algorithm="k-merge", params=params, seed=7).run_id
    whole = database.evaluate(run_id)
    everybody = database.evaluate(run_id, queries=100, against="all")
    monkeypatch.setattr(measurement, "_MAX_SPAN_ROWS", 75)
    monkeypatch.setattr(measurement, "_MIN_SAMPLED_GROUPS", groups)
    some = database.evaluate(run_id)
    [note] = [note for note in some.notes if "One in" in note]
    demand_named(note, "One in 2")
    demand_named(" ".join(some.notes), "within one window")
    assert some.true is not None
    assert (some.true % 2 == 0).all()  # of the same people as the answers, so that their error is of no others
    assert {one.value for one in some.figures if one.name == "coverage"} == {1.0}
    # What a sample is off by chance is taken off the errors.
    of_all = select_figures(whole, asked)
    for key, sampled in select_figures(some, asked).items():
        assert sampled.low is not None
        assert sampled.high is not None
        low, high = of_all[key].low, of_all[key].high
        assert low is not None
        assert high is not None
        assert sampled.low <= high, key
        assert low <= sampled.high, key
    again = database.evaluate(run_id, queries=100, against="all")  # never of a sample
    assert [one.value for one in again.figures] == pytest.approx([one.value for one in everybody.figures])
