"""Settings of a sweep: which are on the front, which is chosen, what is said of them, the table and the page."""

import csv
import io
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dbanon import methods
from dbanon.base.errors import ParameterError
from dbanon.evaluation import settings as judging
from dbanon.options.sweeping import Sweeping, parse_wants
from dbanon.pages.sweep import make_page
from dbanon.results.figures import Answers, Evaluation, Questions
from dbanon.results.sweep import Minute, Setting, Want
from tests.sweeps import GRID, IMPOSSIBLE, draw_replicates, make_setting, make_sweep


def list_names(found: list[Setting]) -> list[str]:
    return [one.name for one in found]


def test_the_front_is_of_one_promise_and_never_beaten_by_a_weaker_one() -> None:
    front = [one for one in make_sweep(*GRID).settings if one.is_on_front]
    assert list_names(front) == ["k 2, instants 10", "k 5, instants 10"]
    both = make_sweep(make_setting(5, 10, 0.88, 0.30), make_setting(5, 30, 0.72, 0.20))
    assert all(one.is_on_front for one in both.settings)


def test_the_chosen_setting_has_the_strongest_promise_of_those_that_meet_what_is_wanted() -> None:
    def chosen(*wants: str) -> str | None:
        found = make_sweep(*GRID, wants=parse_wants(wants)).chosen
        return found.name if found else None

    assert chosen() == "k 5, instants 10"
    assert chosen("count_error<=0.15") == "k 2, instants 10"
    assert chosen("count_error_4000_moment<=0.07") == "k 2, instants 10"
    assert chosen("published_share<=0.8") == "k 5, instants 30"
    assert chosen("windows>=3", "published_share >= 0.85") == "k 5, instants 10"
    assert chosen("published_share>=0.95") is None


@pytest.mark.parametrize(
    ("method", "weaker", "stronger"),
    [
        ("kte", {"tau_s": 1800}, {"tau_s": 3600}),
        ("kte", {"leak_s": 1800}, {"leak_s": 600}),
        ("semantic", {"t": math.inf}, {"t": 0.1}),
        ("semantic", {"atom_t": 5.0}, {"atom_t": None}),
        ("mob", {"qid_only": False}, {"qid_only": True}),
        ("sensitive-sites", {"guard_m": 0.0}, {"guard_m": 50.0}),
        ("tp-aware", {"min_contents": 1}, {"min_contents": 2}),
    ],
)
def test_a_stronger_promise_of_the_same_k_is_chosen_although_it_errs_more(
    method: str, weaker: dict[str, Any], stronger: dict[str, Any]
) -> None:
    described = methods.describe(methods.METHODS[method])
    usual = {one["name"]: one["default"] for one in described if one["promises"]}

    def promising(made: Setting, values: dict[str, Any]) -> Setting:
        promise = {**usual, **values}
        return replace(made, promise=promise, strength=judging.compute_strength(promise, described))

    found = make_sweep(
        promising(make_setting(2, 10, 0.9, 0.1), weaker), promising(make_setting(2, 30, 0.8, 0.3), stronger)
    )
    assert found.chosen is not None
    assert found.chosen.promise == {**usual, **stronger}
    assert all(one.is_on_front for one in found.settings)


def test_what_earlier_releases_forbid_is_never_chosen() -> None:
    taken = {"below": 3, "smallest_crowd": 1, "k": 5, "relation": "overlapping", "releases": ["cabs_k5"]}
    found = make_sweep(make_setting(5, 10, 0.88, 0.18, overlap=taken), make_setting(2, 10, 0.88, 0.12))
    assert found.chosen is found.settings[1]
    assert [one.publishable for one in found.settings] == [False, True]
    assert "cabs_k5" in make_page(found)


def test_sentences_say_what_each_parameter_buys_and_whether_it_is_so_everywhere() -> None:
    k, k_everywhere, window, window_everywhere = make_sweep(*GRID).sentences
    assert "k = 2 to 5 (with instants = 10)" in k
    assert "12 % [7 to 17] off to 18 %" in k
    assert "the same 88 % are published" in k
    assert "counts get worse" in k_everywhere
    assert "instead of 88 % there are 72 % published" in window
    assert "instants = 10 publishes more and errs less" in window_everywhere
    assert "wherever settings can be compared" in window_everywhere
    *_, window_everywhere = make_sweep(*(one for one in GRID if one is not IMPOSSIBLE)).sentences
    assert "at every value of k" in window_everywhere


def test_a_difference_within_what_questions_leave_open_is_none() -> None:
    noisy = [make_setting(5, i, 0.9, error) for i, error in ((10, 0.2), (30, 0.21))]
    noisy = [
        replace(one, run={**one.run, "replicates": draw_replicates(e, noise=0.1)})
        for one, e in zip(noisy, (0.2, 0.21), strict=True)
    ]
    said = make_sweep(*noisy).sentences
    assert "no difference that 400 questions can show" in said[0]
    assert not any("errs less" in sentence for sentence in said)


def test_differences_are_of_the_same_questions() -> None:
    one, other = make_setting(2, 10, 0.9, 0.20), make_setting(5, 10, 0.9, 0.22)
    low, high = judging.measure_difference(one, other) or (0, 0)
    assert 0 < low < 0.02 < high
    apart = replace(other, run={**other.run, "replicates": draw_replicates(0.22, questions="others")})
    wide = judging.measure_difference(one, apart) or (0, 0)
    assert wide[0] < 0 < wide[1]


def test_replicates_are_the_error_drawn_again_and_keep_no_truth() -> None:
    rng = np.random.default_rng(3)
    n = 400
    sides = np.repeat([2000.0, 4000.0], n)
    x = rng.uniform(0, 9000, 2 * n) - sides / 2
    asked = Questions(side_m=sides, x=x, y=x, since=np.zeros(2 * n), until=np.zeros(2 * n))
    true = rng.integers(0, 9, 2 * n).astype(float)
    told = Answers(at_least=true, expected=true * 1.25, at_most=true * 2)
    found = Evaluation(
        run_id=1, source="", dataset="", against="published", queries=n, seed=5, figures=(), questions=asked, true=true,
        answers=told,
    )  # fmt: skip
    drawn = judging.draw_replicates(found)
    assert drawn["side_m"] == 2000.0
    assert np.allclose(drawn["values"], 0.25)
    assert set(drawn) == {"side_m", "questions", "values"}
    assert judging.draw_replicates(replace(found, answers=None)) == {}


@pytest.mark.parametrize("name", methods.METHODS)
def test_every_parameter_that_a_promise_names_is_one_on_which_it_depends(name: str) -> None:
    family = methods.METHODS[name]
    described = methods.describe(family)
    words = set(re.findall(r"[a-z][a-z0-9_]*", family.guarantee))
    named = {one["name"] for one in described if one["name"] in words and one["type"] != "instant"}
    assert {"k"} <= named <= {one["name"] for one in described if one["promises"]}


def test_a_table_has_a_row_a_setting_with_figures_intervals_and_reasons() -> None:
    found = make_sweep(*GRID)
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert len(rows) == 5
    assert rows[0]["count_error_2000_moment_low"] == "0.06999999999999999"
    assert (rows[4]["outcome"], rows[4]["published_share"]) == ("impossible", "")
    assert "600" in rows[4]["reason"]
    assert [row["chosen"] for row in rows].count("True") == 1
    assert found.frame()["published_share"].tolist()[:4] == [0.88, 0.72, 0.88, 0.72]


def test_the_command_of_a_setting_is_quoted_for_a_shell() -> None:
    found = make_sweep(*GRID, dataset="my cabs")
    assert found.write_command(found.settings[0], "x") == (
        "dbanon run tp-aware --dataset 'my cabs' --algorithm traj-anon -p k=2 -p instants=10 --publish x"
    )
    assert "-p k=2,5,600 -p instants=10,30" in found.write_sweep_command()


def test_a_page_is_private_has_all_settings_and_takes_names_for_texts() -> None:
    found = make_sweep(*GRID, dataset="<script>alert(1)</script>", notes=("a & b",))
    text = make_page(found)
    assert "<title>[PRIVATE]" in text
    assert "<script" not in text
    assert "a &amp; b" in text
    assert text.count('scope="row"') == 5
    assert "Too few people for k = 600." in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert len(text) < 100_000


@pytest.mark.parametrize("found", [[IMPOSSIBLE], [GRID[0]], [GRID[0], GRID[2]], GRID * 12])
def test_a_page_is_made_of_whatever_was_found(found: list[Setting]) -> None:
    assert make_page(make_sweep(*found)).endswith("</html>\n")


def test_values_are_listed_by_commas_or_as_lists() -> None:
    asked = Sweeping(dataset="d", params={"k": "2, 5, 2", "instants": [10, 30], "align": "last"})
    assert asked.values == {"k": ["2", "5"], "instants": [10, 30], "align": ["last"]}
    assert len(asked.list_combinations()) == 4
    for params in ({"k": "2,,5"}, {"k": ""}, {"k": []}):
        with pytest.raises(ParameterError, match="'k'"):
            Sweeping(dataset="d", params=params).list_combinations()
    with pytest.raises(ParameterError, match="200"):
        Sweeping(dataset="d", params={"k": list(range(2, 22)), "instants": list(range(1, 12))}).list_combinations()


@pytest.mark.parametrize("text", ["published_share", "published_share>0.9", "published_share>=much", ">=1", "a>=1>=2"])
def test_what_is_wanted_is_a_figure_a_sign_and_a_number(text: str) -> None:
    with pytest.raises(ParameterError, match=r"published_share>=0\.9"):
        parse_wants([text])


def test_a_figure_that_is_not_known_meets_nothing() -> None:
    want = Want(name="x", is_minimum=False, value=1)
    assert (want.is_met(None), want.is_met(math.nan), want.is_met(1.0)) == (False, False, True)


def test_the_same_minute_is_drawn_at_settings_that_differ_in_their_promise() -> None:
    minute = Minute(at=1_212_566_400.0, window=(0, 0, 9000, 6000), rows=7, paths=("M0 0L9 0 9 9Z",))
    text = make_page(make_sweep(*[replace(one, minute=minute if one is not IMPOSSIBLE else None) for one in GRID]))
    assert text.count("One minute at") == 2
    assert "7 rows (drawn: 1)" in text
    assert "2008-06-04 08:00 UTC" in text
    assert "No maps of one minute" in make_page(make_sweep(*GRID))
