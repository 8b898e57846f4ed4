"""What a run says when it is done, and again when it is published: that most is left out, and what would help."""

import re
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon.methods import METHODS
from dbanon.results.described import Described
from dbanon.results.figures import round_percent
from tests.db.methods import change_methods
from tests.facts import demand_named
from tests.reading import collect_notices

HELP = "{windows} windows of {k}, {others_needed} needed."
TRAITS = {
    "totals": {"subjects": "seen", "samples": "samples"},
    "reasons": {"few_alike": "Too few were alike."},
    "notices": {"left_out": HELP, "followed": "%s are followed."},
}


def write_notices(
    connection: psycopg.Connection, left_out: dict[str, Any], figures: dict[str, int], traits: dict[str, Any] = TRAITS
) -> list[str]:
    """Say what run 1 says where it leaves this out and its attack counts that."""
    change_methods(
        connection, "UPDATE dbanon.method SET traits = traits || %s WHERE name = 'tp-aware'", [Jsonb(traits)]
    )
    connection.execute("UPDATE dbanon.run SET suppressed = %s", [Jsonb(left_out)])
    connection.execute("UPDATE dbanon.verification SET figures = %s", [Jsonb(figures)])
    return [said for (said,) in connection.execute("SELECT dbanon_internal.list_run_notices(1)")]


def test_more_than_half_of_anything_is_a_notice_that_says_why_and_what_would_help(scratch: psycopg.Connection) -> None:
    left_out = {"samples": {"few_alike": 910, "silence": 2}, "subjects": {"few_alike": 5}}
    known = {"seen": 10, "samples": 1000, "windows": 98, "others_needed": 392}
    said, helpful = write_notices(scratch, left_out, known)
    demand_named(said, "Run 1", "91 % of the samples", "few_alike", "Too few were alike.")
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
    assert write_notices(scratch, left_out, figures) == []


def test_help_that_names_a_figure_the_attack_has_not_is_not_said(scratch: psycopg.Connection) -> None:
    left_out = {"subjects": {"other": 8}}
    (said,) = write_notices(scratch, left_out, {"seen": 10, "windows": 3})
    demand_named(said, "80 % of the people seen", "other")


def test_publishing_says_it_again(own: psycopg.Connection) -> None:
    figures = {"seen": 10, "windows": 3, "others_needed": 12, "followed": 2}
    before = write_notices(own, {"subjects": {"few_alike": 8}}, figures)
    assert len(before) == 3
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.compute_run_digest(1)")
    heard = collect_notices(own)
    own.execute("SELECT dbanon.publish(1, 'ten')")
    assert heard == before


AGAIN = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics, suppressed)
SELECT dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics, suppressed
FROM dbanon.run WHERE run_id = 1 RETURNING run_id
"""
VERDICT = """
INSERT INTO dbanon.verification (run_id, attack, passed, figures, digest)
SELECT %s, attack, passed, figures || %s, dbanon_internal.compute_run_digest(%s)
FROM dbanon.verification WHERE run_id = 1
"""


def run_again(connection: psycopg.Connection, figures: dict[str, int]) -> int:
    """Run the same a second time, with these figures besides."""
    row = connection.execute(AGAIN).fetchone()
    assert row is not None
    connection.execute(VERDICT, [row[0], Jsonb(figures), row[0]])
    return int(row[0])


def test_of_two_identical_runs_the_second_says_only_what_is_new(own: psycopg.Connection) -> None:
    first = write_notices(
        own, {"subjects": {"few_alike": 8}}, {"seen": 10, "windows": 3, "others_needed": 12, "followed": 2}
    )
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.compute_run_digest(1)")
    said = "SELECT array(SELECT dbanon_internal.list_run_notices(%s))"
    same, other = run_again(own, {}), run_again(own, {"followed": 3})
    assert own.execute(said, [same]).fetchone() == ([],)
    assert own.execute(said, [other]).fetchone() == (["3 are followed."],)
    # All of it is there for who asks.
    everything = own.execute(
        "SELECT array(SELECT dbanon_internal.list_run_warnings(%s, %s, NULL, NULL))", [same, same]
    ).fetchone()
    assert everything == ([first[0].replace("Run 1", f"Run {same}"), *first[1:]],)
    own.execute("UPDATE dbanon.run SET params = params || '{\"min_contents\": 2}' WHERE run_id = %s", [same])
    assert own.execute(said, [same]).fetchone() == everything


def test_a_publication_says_what_no_publication_has_said(own: psycopg.Connection) -> None:
    before = write_notices(
        own, {"subjects": {"few_alike": 8}}, {"seen": 10, "windows": 3, "others_needed": 12, "followed": 2}
    )
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.compute_run_digest(1)")
    heard = collect_notices(own)
    runs = [run_again(own, {}) for _ in range(2)]
    for run in runs:
        own.execute("SELECT dbanon.publish(%s, %s)", [run, f"r{run}"])
    assert [said for said in heard if said and "leaves out" in said] == [before[0].replace("Run 1", f"Run {runs[0]}")]


# Of a run whose first window begins too early for its data.
EARLY = """
UPDATE dbanon.run SET method = %s, suppressed = %s, params = params || %s;
UPDATE dbanon.verification SET figures = %s
"""


@pytest.mark.parametrize("role", ["dbanon_operator", "dbanon_worker"])
@pytest.mark.parametrize("method", METHODS)
def test_a_plain_operator_and_a_plain_worker_are_told_every_notice(
    scratch: psycopg.Connection, method: str, role: str
) -> None:
    traits = scratch.execute("SELECT traits FROM dbanon.method WHERE name = %s", [method]).fetchone()
    assert traits is not None
    named = re.findall(r"\{(\w+)\}", " ".join(traits[0].get("notices", {}).values()))
    figures = dict.fromkeys([*traits[0].get("notices", {}), *traits[0].get("totals", {}).values(), *named], 10)
    left_out = {kind: {"few_alike": 9} for kind in traits[0].get("totals", {})}
    params = {
        "since": 1212566340,
        "start": 1212566340,
        "align": "last",
        "max_gap_s": 300,
        traits[0].get("every") or "": 60,
    }
    with psycopg.ClientCursor(scratch) as cursor:
        cursor.execute(EARLY, [method, Jsonb(left_out), Jsonb(params), Jsonb(figures)])
    scratch.execute(f"SET ROLE {role}")  # type: ignore[arg-type]
    said = [line for (line,) in scratch.execute("SELECT dbanon_internal.list_run_warnings(1, 1, NULL, NULL)")]
    assert len(said) >= sum(key != "left_out" for key in traits[0].get("notices", {}))
    assert sum("start = 2008" in line for line in said) == (traits[0].get("every") is not None)


def test_a_card_has_every_notice_of_its_run_and_no_count_below_k(scratch: psycopg.Connection) -> None:
    """Whatever its name: a method's sentence and a figure make one, also a figure found beside other releases."""
    traits = {
        **TRAITS,
        "notices": {
            "followed": "%s are followed.",
            "met": "%s are met by {others}.",
            "none": "%s are none.",
            "seen": "{unknown}, %s.",
        },
    }
    write_notices(scratch, {}, {"seen": 10, "followed": 2, "met": 7, "others": 1, "none": 0}, traits)
    [(card,)] = scratch.execute("SELECT dbanon.run_card(1)")
    assert sorted(card["attack"]["notices"]) == ["7 are met by fewer than 5.", "fewer than 5 are followed."]
    assert sorted(Described.from_card(card).notices) == sorted(card["attack"]["notices"])


def test_what_a_publication_found_beside_others_is_a_notice_of_its_card(own: psycopg.Connection) -> None:
    write_notices(own, {}, {"seen": 10}, {**TRAITS, "notices": {"few_over": "%s are few."}})
    own.execute("UPDATE dbanon.verification SET digest = dbanon_internal.compute_run_digest(1)")
    own.execute("SELECT dbanon.publish(1, 'ten')")
    own.execute("ALTER TABLE dbanon.release DISABLE TRIGGER USER")
    for found, said in ((3, ["fewer than 5 are few."]), (8, ["8 are few."]), (0, [])):
        own.execute("UPDATE dbanon.release SET overlap = %s", [Jsonb({"few_over": found})])
        [(card,)] = own.execute("SELECT dbanon.release_card('ten')")
        assert card["attack"]["notices"] == said


def test_the_server_and_the_program_round_shares_alike(scratch: psycopg.Connection) -> None:
    totals = (7, 200, 320, 1000, 18_368)
    query = """SELECT total, part, dbanon_internal.compute_percent_left_out(total, part) FROM unnest(%s::int[]) total,
        generate_series(0, total, greatest(total / 320, 1)) part"""
    found = scratch.execute(query, [list(totals)]).fetchall()
    assert {total for total, *_ in found} == set(totals)
    for total, part, percent in found:
        assert percent == round_percent(part / total)
        assert 100 - percent == round_percent((total - part) / total)
        assert (percent in {0, 100}) == (part in {0, total})
    [(share,)] = scratch.execute("SELECT 100 - dbanon_internal.compute_percent_left_out(18368, 18368 - 13214)")
    assert share == 72
