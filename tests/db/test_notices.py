"""What a run says when it is done, and again when it is published: that most is left out, and what would help."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.facts import names

HELP = "{windows} windows of {k}, {others_needed} needed."
TRAITS = {
    "totals": {"subjects": "seen", "samples": "samples"},
    "reasons": {"few_alike": "Too few were alike."},
    "notices": {"left_out": HELP, "followed": "%s are followed."},
}


def notices(
    connection: psycopg.Connection, left_out: dict[str, Any], figures: dict[str, int], traits: dict[str, Any] = TRAITS
) -> list[str]:
    """Say what run 1 says where it leaves this out and its attack counts that."""
    connection.execute("UPDATE dbanon.method SET traits = traits || %s WHERE name = 'tp-aware'", [Jsonb(traits)])
    connection.execute("UPDATE dbanon.run SET suppressed = %s", [Jsonb(left_out)])
    connection.execute("UPDATE dbanon.verification SET figures = %s", [Jsonb(figures)])
    return [said for (said,) in connection.execute("SELECT dbanon_internal.run_notices(1)")]


def test_more_than_half_of_anything_is_a_notice_that_says_why_and_what_would_help(scratch: psycopg.Connection) -> None:
    left_out = {"samples": {"few_alike": 910, "silence": 2}, "subjects": {"few_alike": 5}}
    known = {"seen": 10, "samples": 1000, "windows": 98, "others_needed": 392}
    said, helpful = notices(scratch, left_out, known)
    names(said, "Run 1", "92 % of the samples", "few_alike", "Too few were alike.")
    assert "people" not in said  # of whom half are left out, and not more
    assert helpful == "98 windows of 5, 392 needed."


@pytest.mark.parametrize(
    ("left_out", "figures"),
    [
        ({"samples": {"few_alike": 500}}, {"samples": 1000}),
        ({"samples": {"few_alike": 910}}, {}),
        ({"samples": {}}, {"samples": 0}),
        ({}, {"seen": 10, "samples": 10}),
    ],
)
def test_half_is_no_notice_and_neither_is_what_is_not_known(
    scratch: psycopg.Connection, left_out: dict[str, Any], figures: dict[str, int]
) -> None:
    assert notices(scratch, left_out, figures) == []


def test_help_that_names_a_figure_the_attack_has_not_is_not_said(scratch: psycopg.Connection) -> None:
    left_out = {"subjects": {"other": 8}}
    (said,) = notices(scratch, left_out, {"seen": 10, "windows": 3})
    names(said, "80 % of the people seen", "other")


def test_publishing_says_it_again(own: psycopg.Connection) -> None:
    figures = {"seen": 10, "windows": 3, "others_needed": 12, "followed": 2}
    before = notices(own, {"subjects": {"few_alike": 8}}, figures)
    assert len(before) == 3
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.run_digest(1)")
    heard: list[str | None] = []
    own.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary))
    own.execute("SELECT dbanon.publish(1, 'ten')")
    assert heard == before
