"""Which record of `kte` is whose: every placement of a few people on a line, weighed by a reader who replays the run.

The reader knows where everybody was in one epoch (tau), the algorithm and what is published, but not the order of the
run. Promised are k = 2 candidates; of groups, whose records are alike, to a reader of whole trajectories too.
"""

import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dbanon.methods import METHODS
from dbanon.methods.kte import _rows
from tests.unit import small_worlds

FAMILY = METHODS["kte"]
PAGE = Path(__file__).parents[2] / "docs" / "methods" / "kte.md"
HALF = Fraction(1, 2)
EPOCH_S = 1800
PLAIN = {"improve": False}
WAYS = {"kte-hide": ("kte-hide", {}), "k-merge": ("k-merge", {}), "k-merge without improve": ("k-merge", PLAIN)}


@pytest.fixture(autouse=True)
def by_id(monkeypatch):
    """The order of the run is that of ids."""
    monkeypatch.setattr(_rows, "rank_subjects", lambda data, _: np.arange(len(data.subject)))


def publish_all(places, algorithm, options, people=4):
    """All placements and orders: the tracks of all, and their records."""
    times = {"tau_s": EPOCH_S, "leak_s": EPOCH_S} if algorithm == "kte-hide" else {}
    params = FAMILY.parse({"k": 2, "grid_m": 1.0, **times, **options})

    @cache
    def publish(tracks):
        data = small_worlds.make_trajectories(tracks, EPOCH_S)
        return small_worlds.list_records(
            FAMILY.anonymise(data, algorithm, params, np.random.default_rng(0)), len(tracks)
        )

    for tracks in small_worlds.list_placements(people, places):
        for told in small_worlds.publish_in_every_order(publish, tracks):
            yield tracks, told


def find_greatest_posterior(releases, epochs):
    """The greatest posterior to a reader who knows everybody's places in some epochs, and how often it is above 1/2."""
    known = ((tuple(track[epoch] for track in tracks for epoch in epochs), told) for tracks, told in releases)
    return small_worlds.find_greatest(small_worlds.describe_world(*world) for world in known)


@pytest.mark.many
@pytest.mark.parametrize("way", WAYS)
def test_no_record_is_anybodys_above_one_half_whichever_epoch_is_known(way):
    releases = list(publish_all((2, 2), *WAYS[way]))
    assert [find_greatest_posterior(releases, [epoch]) for epoch in (0, 1)] == [(HALF, 0)] * 2
    if way != "kte-hide":
        assert find_greatest_posterior(releases, [0, 1]) == (HALF, 0)


@pytest.mark.stress
@pytest.mark.many
@pytest.mark.parametrize("places", [(2, 1, 2), (2, 2, 1)])
@pytest.mark.parametrize("way", WAYS)
def test_nor_over_three_epochs(way, places):
    releases = list(publish_all(places, *WAYS[way]))
    assert max(find_greatest_posterior(releases, [epoch]) for epoch in range(3)) <= (HALF, 0)


@pytest.mark.stress
@pytest.mark.parametrize(
    ("words", "people", "places", "options"),
    [
        ("three people on three places", 3, (3, 3), {}),
        ("three people on three places, `improve=off`", 3, (3, 3), PLAIN),
        ("four people on two places", 4, (2, 2), {}),
        ("four people on two places, `improve=off`", 4, (2, 2), PLAIN),
    ],
)
def test_the_page_tells_what_a_replay_of_kte_hide_reveals(words, people, places, options):
    most, above = find_greatest_posterior(publish_all(places, "kte-hide", options, people), [0])
    told = re.search(rf"^\| {re.escape(words)} \| ([\d.]+) \| ([\d.]+) % \|$", PAGE.read_text(), re.MULTILINE)
    assert told.groups() == (f"{float(most):.2f}", f"{100 * float(above):.0f}")
