"""Which record of `mob` is whose: every placement of four people on a line, weighed by a reader who replays the run.

The reader knows where each person was at that person's own instants, at which instants that is, and the algorithm, but
not the order of the run. Promised are k = 2 candidates; with own instants in common they are equally likely at worst.
"""

import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dbanon.base.trajectory import QuasiIdentifiers
from dbanon.methods import METHODS
from dbanon.methods.mob import _rows
from tests.unit import small_worlds

FAMILY = METHODS["mob"]
PAGE = Path(__file__).parents[2] / "docs" / "methods" / "mob.md"
HALF = Fraction(1, 2)
PLACES = (2, 2)  # at each of two instants
WAYS = {
    "improve": ("symmetric", {}),
    "symmetric": ("symmetric", {"improve": False}),
    "extreme-union": ("extreme-union", {}),
}
EXACT, HIDDEN = "exact rows too", "generalised alone"
# At which instants each of the four is known.
FIRST, SECOND, BOTH, NEVER = (0,), (1,), (0, 1), ()
TOGETHER = {
    "all at the first": (FIRST,) * 4,
    "all at both": (BOTH,) * 4,
    "three at the second, one never": (SECOND, SECOND, SECOND, NEVER),
    "two at the first, two never": (FIRST, FIRST, NEVER, NEVER),
}
APART = {
    "three at the first, one at the second": (FIRST, FIRST, FIRST, SECOND),
    "two at the first, two at the second": (FIRST, FIRST, SECOND, SECOND),
    "two at the first, one at the second, one never": (FIRST, FIRST, SECOND, NEVER),
}


@pytest.fixture(autouse=True)
def by_id(monkeypatch):
    """The order of the run is that of ids."""
    monkeypatch.setattr(_rows, "rank_subjects", lambda data, _: np.arange(len(data.subject)))


def list_worlds(own, way, rows):
    """All placements and orders; people are (track, own instants)."""
    algorithm, options = WAYS[way]
    params = FAMILY.parse({"k": 2, "align": "exact", "qid_only": rows == HIDDEN, **options}, algorithm)

    @cache
    def publish(people):
        known = [(i, 60.0 * t) for i, (_, instants) in enumerate(people) for t in instants]
        subject, t = map(np.array, zip(*known, strict=True))
        data = small_worlds.make_trajectories([track for track, _ in people])
        rng, identifiers = np.random.default_rng(0), QuasiIdentifiers(subject=subject, t=t)
        return small_worlds.list_records(
            FAMILY.anonymise(data, algorithm, params, rng, quasi_identifiers=identifiers), 4
        )

    for tracks in small_worlds.list_placements(4, PLACES):
        known = tuple(tuple(track[t] for t in instants) for track, instants in zip(tracks, own, strict=True))
        for told in small_worlds.publish_in_every_order(publish, tuple(zip(tracks, own, strict=True))):
            yield small_worlds.describe_world(known, told)


def test_exact_rows_do_not_reveal_whose_record_is_whose_where_all_are_known_at_one_instant():
    assert small_worlds.find_greatest(list_worlds(TOGETHER["all at the first"], "improve", EXACT)) == (HALF, 0)


@pytest.mark.stress
@pytest.mark.many
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [EXACT, HIDDEN])
@pytest.mark.parametrize("own", TOGETHER)
def test_no_record_is_anybodys_above_one_half_where_people_are_known_at_the_same_instants(own, rows, way):
    assert small_worlds.find_greatest(list_worlds(TOGETHER[own], way, rows)) == (HALF, 0)


def read_page():
    """The table of Known limits: {(who is known when, rows): {way: text}}."""
    lines = re.findall(r"^\| ([^|]*\b(?:first|second)[^|]*) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    cells = {(own, *rest.split(" | ")[:1]): rest.split(" | ")[1:] for own, rest in lines}
    return {key: dict(zip(WAYS, texts, strict=True)) for key, texts in cells.items()}


@pytest.mark.stress
@pytest.mark.many
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [EXACT, HIDDEN])
@pytest.mark.parametrize("own", APART)
def test_the_page_tells_what_a_replay_reveals_where_people_are_known_at_other_instants(own, rows, way):
    most, above = small_worlds.find_greatest(list_worlds(APART[own], way, rows))
    text = f"{float(most):.2f}" + (f" ({float(above):.0%})".replace("%", " %") if above else "")
    assert read_page()[own, rows][way] == text
