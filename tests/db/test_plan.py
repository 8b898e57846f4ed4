"""What a plan foretells is what the run then reports: counts, what is left out and why, the sentence of a failure."""

import json
import random
import re

import numpy as np
import psycopg
import pytest
from psycopg import errors, sql

from dbanon import runs, writing
from dbanon.errors import DbanonError, InfeasibleError
from dbanon.methods import METHODS, sensitive_sites, tp_aware
from dbanon.methods._parsing import LATEST_S
from dbanon.methods.sensitive_sites import _snapshot
from dbanon.trajectory import Places, Requests, Trajectories
from tests.facts import named, names, refusal

CONTENTS = ('{"poi": "bank"}', '{"poi": "rest"}', '{"q": "x"}')
ALIGNS = ("last", "exact", "linear")


def town(rng, subjects=None, every=(20, 60, 97, 250)):
    """A few people in one or several trajectories each, with twin times, gaps, and times off the grid."""
    grid_s, subjects = rng.choice([1, 5, 60]), subjects or rng.randint(3, 25)
    several = rng.random() < 0.6
    whose = list(range(subjects)) + [rng.randrange(subjects) for _ in range(subjects * several)]
    # Most hold out from the first to the last: else nobody would be at all instants of a window.
    steps = [range(-500, 3000, rng.choice(every)) for _ in whose]
    times = [[t for t in s if rng.random() < 0.97] or [0] for s in steps]
    xy = [[(rng.uniform(-300, 300), rng.uniform(-300, 300)) for _ in own] for own in times]
    return Trajectories(
        trajectory_id=np.sort(np.array(rng.sample(range(10_000), len(whose)))),
        subject=np.array(whose), offset=np.cumsum([0, *(len(own) for own in times)]),
        t=np.concatenate(times) / 2, x=np.array([x for own in xy for x, _ in own]),
        y=np.array([y for own in xy for _, y in own]), srid=32610, grid_m=1.0, grid_s=grid_s,
    )  # fmt: skip


def questions(rng, data, count=60):
    """Requests at times within and beyond the data; some senders have no trajectory."""
    return Requests(
        subject=np.array([rng.randint(-1, int(data.subject.max())) for _ in range(count)], np.int64),
        t=np.array([rng.randint(-1200, 4000) / 2 for _ in range(count)]),
        content=np.array([rng.randrange(3) for _ in range(count)], np.int64),
        contents=CONTENTS,
    )


def single(points, t=None):
    """Subjects of one fix each."""
    n, xy = len(points), np.array(points, np.float64).reshape(-1, 2)
    return Trajectories(
        trajectory_id=np.arange(n) + 1, subject=np.arange(n), offset=np.arange(n + 1),
        t=np.zeros(n) if t is None else np.array(t, float), x=xy[:, 0].copy(), y=xy[:, 1].copy(),
        srid=32610, grid_m=1.0, grid_s=60,
    )  # fmt: skip


def spots(points):
    bounds = np.array([(*p, *p) for p in points], np.float64).reshape(-1, 4)
    none = np.empty(0, np.int64)
    return Places(
        site_id=np.arange(len(bounds)) + 1, site_bounds=bounds, shape_trajectory=none, shape_bounds=np.empty((0, 4))
    )


def stored(connection, data, requests=None, places=None, name="d"):
    """Write data that are arrays into the tables."""
    number = connection.execute(
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES (%s, 32610, %s, %s) RETURNING dataset_id",
        [name, data.grid_m, data.grid_s],
    ).fetchone()[0]
    part = np.repeat(np.arange(len(data.trajectory_id)), np.diff(data.offset))
    connection.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) "
        "SELECT 1000000 * %s + min(id), %s, min(s), ST_SetSRID(CASE count(*) WHEN 1 THEN (array_agg(p))[1] "
        "ELSE ST_MakeLine(p ORDER BY ord) END, 32610) FROM (SELECT part, id, s, ord, ST_MakePointM(x, y, t) AS p FROM "
        "unnest(%s::bigint[], %s::bigint[], %s::text[], %s::float8[], %s::float8[], %s::float8[]) "
        "WITH ORDINALITY u (part, id, s, x, y, t, ord)) q GROUP BY part",
        [number, number, part.tolist(), data.trajectory_id[part].tolist(), [f"s{s}" for s in data.subject[part]],
         data.x.tolist(), data.y.tolist(), data.t.tolist()],
    )  # fmt: skip
    if requests is not None:
        connection.execute(
            "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) "
            "SELECT %s, s, to_timestamp(t), c::jsonb FROM unnest(%s::text[], %s::float8[], %s::text[]) u (s, t, c)",
            [number, [f"s{s}" for s in requests.subject], requests.t.tolist(),
             [CONTENTS[c] for c in requests.content]],
        )  # fmt: skip
    if places is not None:
        connection.execute(
            "INSERT INTO dbanon.site (dataset_id, geom) SELECT %s, ST_SetSRID(ST_MakePoint(x, y), 32610) "
            "FROM unnest(%s::float8[], %s::float8[]) u (x, y)",
            [number, places.site_bounds[:, 0].tolist(), places.site_bounds[:, 1].tolist()],
        )
    return number


def planned(connection, method, params=None, algorithm=None, dataset="d"):
    items = runs.plan_run(connection, dataset, method, algorithm, params or {})
    return {i.item: i for i in items}


def values(plan, *names):
    return {name: plan[name].value for name in names}


def most(item):
    return int(re.search(r"at most (\d+)", item.note)[1])


def demand_foretold(plan, family, cloaks):
    """Hold a plan that looked at everybody against what came out."""
    assert {n: plan[n].exact for n in ("rows", "bytes")} == {"rows": family == "sensitive-sites", "bytes": False}
    assert plan["members"].value == len(cloaks.member_record)
    assert len(cloaks.record_id) <= (most(plan["rows"]) if family == "tp-aware" else plan["rows"].value)
    letters = sum(len(cloaks.extras[e]) for e in cloaks.extra.tolist() if e >= 0)
    size = len(cloaks.record_id) * writing._CLOAK_BYTES + len(cloaks.member_record) * writing._MEMBER_BYTES + letters
    assert size <= most(plan["bytes"])
    assert (plan["exit_code"].value, plan["exit_code"].exact) == (0, True)


def attempt(family, data, algorithm, params, places=None):
    """Run a method: its cloaks, or None and the sentence of why there can be none."""
    try:
        return family.anonymise(data, algorithm, family.parse(params), np.random.default_rng(0), places), ""
    except InfeasibleError as error:
        return None, str(error)


@pytest.mark.parametrize("align", ALIGNS)
def test_a_plan_of_tp_aware_counts_what_the_run_reports(scratch, align):
    family, rng, runs = METHODS["tp-aware"], random.Random(align), 0
    for number in range(14):
        data = town(rng)
        requests = questions(rng, data)
        stored(scratch, data, requests, name=f"d{number}")
        given = {
            "k": rng.randint(2, 4), "step_s": rng.choice([60, 120, 300]), "instants": rng.randint(1, 4), "align": align,
            "max_gap_s": rng.choice([0, 60, 300]), "start": rng.choice([None, 0, -120, 600]),
        }  # fmt: skip
        plan = planned(scratch, "tp-aware", given, dataset=f"d{number}")
        cloaks, refusal = attempt(family, data, "traj-anon", given)
        if cloaks is None:
            assert (plan["exit_code"].value, plan["exit_code"].note) == (4, refusal)
            assert "rows" not in plan
            continue
        runs += 1
        cloaks = family.attach(cloaks, data, requests)
        told, left = cloaks.metrics, cloaks.suppressed
        counted = {name: told[name] for name in (
            "windows", "windows_published", "subject_windows_seen", "subject_windows_published", "requests_published",
        )}  # fmt: skip
        counted |= left["subjects"] | left["requests"]
        counted |= {"subjects": data.subjects, "trajectories": len(data.trajectory_id), "fixes": data.fixes}
        counted |= {"requests": len(requests.t), "subjects_looked_at": data.subjects}
        assert values(plan, *counted) == counted
        assert all(plan[name].exact for name in counted)
        demand_foretold(plan, "tp-aware", cloaks)
    assert runs >= 4


@pytest.mark.parametrize("algorithm", ["bk", "mk", "knn"])
def test_a_plan_of_sensitive_sites_counts_what_the_run_reports(scratch, algorithm):
    family, rng, runs = METHODS["sensitive-sites"], random.Random(algorithm), 0
    for number in range(10):
        data = town(rng)
        places = spots([(rng.uniform(-300, 300), rng.uniform(-300, 300)) for _ in range(rng.randint(1, 3))])
        stored(scratch, data, places=places, name=f"d{number}")
        given = {"k": rng.randint(2, 4), "at": rng.choice([0, 600, 1500, 1800]), "max_gap_s": rng.choice([10, 60, 300])}
        plan = planned(scratch, "sensitive-sites", given, algorithm, dataset=f"d{number}")
        cloaks, refusal = attempt(family, data, algorithm, given, places)
        if cloaks is None:
            ending = plan["exit_code"]
            if algorithm == "mk":  # how many groups it makes depends on where the users are
                assert (ending.value, ending.exact) == (4, True) or all(named(ending.note, fact) for fact in (4, "mk"))
            else:
                assert (ending.value, ending.note) == (4, refusal)
            continue
        runs += 1
        absent = cloaks.suppressed["subjects"].get("absent_at_instant", 0)
        counted = {"users": cloaks.metrics["users"], "absent_at_instant": absent, "rows": len(cloaks.record_id)}
        assert values(plan, *counted) == counted
        assert all(plan[name].exact for name in counted)
        assert plan["users_cloaked"].value <= cloaks.metrics["users_cloaked"]
        if plan["exit_code"].exact:
            demand_foretold(plan, "sensitive-sites", cloaks)
    assert runs >= 3


def failure(family, data, algorithm, params, places=None):
    """Run a method and give exit code and sentence of its failure."""
    with pytest.raises(DbanonError) as caught:
        family.anonymise(data, algorithm, family.parse(params), np.random.default_rng(0), places)
    return caught.value.exit_code, str(caught.value)


WALK = single([(i, i) for i in range(6)], t=[60 * i for i in range(6)])


@pytest.mark.parametrize(
    ("data", "params"),
    [
        (WALK, {"k": 2, "step_s": 90}),
        (WALK, {"k": 2, "step_s": 60, "start": 90}),
        (WALK, {"k": 7, "instants": 2}),
        (WALK, {"k": 2, "instants": 6, "max_gap_s": 0}),
        (WALK, {"k": 2, "start": 6000}),
        (single([]), {"k": 2}),
        (single([(0, 0)] * 3, t=[0, 60, LATEST_S + 1000]), {"k": 2}),
        (single([(0, 0)] * 3, t=[0, 60, 10**9]), {"k": 2, "instants": 1}),
    ],
    ids=["step_s", "start", "below k", "nobody", "after the end", "no data", "wild time", "too many windows"],
)
def test_where_tp_aware_would_fail_the_plan_says_so_in_its_words(scratch, data, params):
    stored(scratch, data)
    ending = planned(scratch, "tp-aware", params)["exit_code"]
    assert (ending.value, ending.note) == failure(METHODS["tp-aware"], data, "traj-anon", params)
    assert ending.exact


FEW = single([(i, i) for i in range(6)])


@pytest.mark.parametrize(
    ("data", "places", "algorithm", "params"),
    [
        (FEW, spots([(0, 0)]), "bk", {"k": 2, "at": 90}),
        (town(random.Random(1)), spots([(0, 0)]), "bk", {"k": 2}),
        (FEW, spots([]), "bk", {"k": 2}),
        (FEW, spots([(0, 0), (5, 5)]), "bk", {"k": 4}),
        (FEW, spots([(0, 0), (5, 5)]), "knn", {"k": 4}),
        (single([(0, 0)] * 6, t=[0, 0, 0, 900, 900, 900]), spots([(0, 0)]), "bk", {"k": 4, "at": 0}),
        (FEW, spots([(0, 0), (3e9, 0)]), "bk", {"k": 2}),
        (FEW, spots([(0, 0), (1e9, 1e9), (9e8, 1e9), (9e8, 0), (0, 1e9)]), "bk", {"k": 1 + 1}),
        (FEW, spots([(0, 0)] * 501), "local", {"k": 2}),
    ],
    ids=["at", "no at", "no sites", "few", "few for knn", "absent", "wide", "domain", "local"],
)
def test_where_sensitive_sites_would_fail_the_plan_says_so_in_its_words(scratch, data, places, algorithm, params):
    stored(scratch, data, places=places)
    ending = planned(scratch, "sensitive-sites", params, algorithm)["exit_code"]
    assert (ending.value, ending.note) == failure(METHODS["sensitive-sites"], data, algorithm, params, places)
    assert ending.exact


def test_what_the_attack_refuses_in_any_case_is_foretold(scratch):
    stored(scratch, FEW, places=spots([(0, 0)]))
    ending = planned(scratch, "sensitive-sites", {"k": 2}, "local")["exit_code"]
    assert ending.value == 5
    names(ending.note, "local", "comparison")


def test_wide_positions_of_perhaps_nobody_present_are_a_warning(scratch):
    data = single([(0, 0), (1, 1), (3e9, 0)], t=[0, 0, 7200])
    stored(scratch, data)
    ending = planned(scratch, "tp-aware", {"k": 2, "instants": 1})["exit_code"]
    assert (ending.value, ending.exact) == (0, False)
    names(ending.note, 3, "2^30 cells")


def set_rates(connection, *changes):
    """Let plans be made by other rates in this transaction."""
    rates = connection.execute("SELECT dbanon_internal.plan_rates()").fetchone()[0]
    for (group, name), value in changes:
        rates[group][name] = value
    connection.execute(
        sql.SQL(
            "CREATE OR REPLACE FUNCTION dbanon_internal.plan_rates() RETURNS jsonb LANGUAGE sql IMMUTABLE AS {}"
        ).format(sql.Literal(f"SELECT '{json.dumps(rates)}'::jsonb"))
    )
    connection.execute("DISCARD PLANS")  # they hold the rates as constants


@pytest.mark.parametrize("limit", ["subjects", "fixes"])
def test_a_sample_of_many_subjects_is_within_statistical_reason(scratch, limit):
    rng = random.Random(limit)
    people = 800
    data = town(rng, subjects=people, every=(250,))
    requests = questions(rng, data, count=1600)
    stored(scratch, data, requests)
    given = {"k": 2, "step_s": 60, "instants": 10, "max_gap_s": 130}
    exact = planned(scratch, "tp-aware", given)
    set_rates(scratch, (("looked_at", limit), {"subjects": 200, "fixes": data.fixes // 4}[limit]))
    about = planned(scratch, "tp-aware", given)
    looked = about["subjects_looked_at"].value
    assert abs(looked - 200) < 5 * np.sqrt(200)
    for name in ("subjects", "trajectories", "fixes", "requests", "windows", "outside_windows"):
        assert (about[name].value, about[name].exact) == (exact[name].value, True)
    windows = exact["windows"].value
    for name in ("subject_windows_seen", "subject_windows_published", "absent_at_some_instant"):
        # Each subject counts between 0 and `windows` times.
        error = 5 * windows / 2 * people / np.sqrt(looked)
        assert abs(about[name].value - exact[name].value) < error
        assert not about[name].exact
        assert exact[name].value > 100
    # Requests come in by sender; a sender has two of them, a few at most.
    error = 5 * people * np.sqrt(np.bincount(requests.subject + 1)[1:].var() + 4) / np.sqrt(looked)
    for name in ("requests_published", "sender_not_published"):
        assert abs(about[name].value - exact[name].value) < error
    assert about["seconds"].value == pytest.approx(exact["seconds"].value, rel=0.2)
    assert (about["exit_code"].value, about["exit_code"].exact) == (0, False)


def test_users_of_one_fix_each_are_counted_however_many_there_are(scratch):
    stored(scratch, single([(i, i) for i in range(40)]), places=spots([(0, 0)]))
    set_rates(scratch, (("looked_at", "subjects"), 10))
    plan = planned(scratch, "sensitive-sites", {"k": 2})
    assert values(plan, "users", "subjects_looked_at", "rows") == {"users": 40, "subjects_looked_at": 40, "rows": 40}
    assert (plan["rows"].exact, plan["exit_code"].exact) == (True, True)


def test_that_there_is_no_site_is_sure_whoever_was_looked_at(scratch):
    stored(scratch, FEW)
    set_rates(scratch, (("looked_at", "subjects"), 3))
    plan = planned(scratch, "sensitive-sites", {"k": 2, "at": 0})
    assert (plan["exit_code"].value, plan["exit_code"].exact, plan["users"].exact) == (3, True, False)


def test_whether_mk_finds_groups_for_all_sites_may_depend_on_places(scratch):
    stored(scratch, FEW, places=spots([(0, 0), (5, 5)]))
    perhaps = planned(scratch, "sensitive-sites", {"k": 3}, "mk")["exit_code"]
    assert (perhaps.value, perhaps.exact) == (0, False)
    names(perhaps.note, 4, "mk", "k = 3", "2 sites")
    surely = planned(scratch, "sensitive-sites", {"k": 2}, "mk")["exit_code"]
    assert (surely.value, surely.exact) == (0, True)


def test_one_subject_with_very_many_fixes_is_looked_at_all_the_same(scratch):
    stored(scratch, single([(0, 0)]))
    set_rates(scratch, (("looked_at", "fixes"), 0))
    assert planned(scratch, "tp-aware", {"k": 2, "instants": 1})["subjects_looked_at"].value == 1


def test_a_run_that_would_write_too_much_is_refused_beforehand(scratch):
    stored(scratch, single([(i, i) for i in range(40)]))
    set_rates(scratch, (("limits", "bytes"), 3000))
    ending = planned(scratch, "tp-aware", {"k": 2, "instants": 1})
    assert ending["exit_code"].value == 1
    names(ending["exit_code"].note, "at most 0 GB", "cloaks", "instants")
    assert ending["bytes"].value > 3000


def test_what_might_be_too_much_is_said(scratch):
    stored(scratch, single([(i, i) for i in range(40)]))
    whole = planned(scratch, "tp-aware", {"k": 2, "instants": 1})["bytes"]
    set_rates(scratch, (("limits", "bytes"), whole.value))
    after = planned(scratch, "tp-aware", {"k": 2, "instants": 1})
    assert after["exit_code"].value == 0
    assert after["bytes"].note.startswith(whole.note)
    names(after["bytes"].note.removeprefix(whole.note), whole.value)


def test_limits_and_sizes_are_those_of_the_program(scratch):
    rates = scratch.execute("SELECT dbanon_internal.plan_rates()").fetchone()[0]
    assert rates["limits"] == {
        "time_s": LATEST_S, "windows": tp_aware.MOST_WINDOWS, "cells": 2**tp_aware.MOST_LEVELS,
        "domain": sensitive_sites._LARGEST_COST, "local_users": sensitive_sites.MOST_USERS_LOCAL,
        "local_sites": sensitive_sites.MOST_SITES_LOCAL, "bytes": writing.LARGEST_RUN_BYTES,
    }  # fmt: skip
    assert rates["limits"]["cells"] == _snapshot.LARGEST_SIDE
    assert rates["stored"] == {
        "row": writing._CLOAK_BYTES, "member": writing._MEMBER_BYTES, "requests": len('{"requests": []}') - len(", "),
        "cloaked": len(sensitive_sites._CLOAKED),
    }  # fmt: skip


def verified_run(connection, dataset_id, plan, params, **columns):
    """A run that came out as a plan said, and took its time."""
    metrics = {"bundles": 10, "requests_total": plan["requests"].value,
               "subject_windows_published": plan["subject_windows_published"].value}  # fmt: skip
    windows = [{"instants": 1, "seen": plan["subject_windows_seen"].value,
                "published": plan["subject_windows_published"].value}]  # fmt: skip
    connection.execute(
        "INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status, metrics, "
        "suppressed, timings, peak_rss_mb) VALUES (%s, 1, 'tp-aware', 'traj-anon', %s, 1, %s, %s, %s, %s, 985)",
        [dataset_id, json.dumps(params), columns.get("status", "verified"), json.dumps(metrics),
         json.dumps({"windows": windows}), json.dumps({"compile_s": 4, "total_s": columns.get("total_s", 24.5)})],
    )  # fmt: skip


def test_seconds_and_memory_are_scaled_from_an_earlier_run(scratch):
    params = {"k": 2, "instants": 1}
    number = stored(scratch, single([(i, i) for i in range(40)]))
    alone = planned(scratch, "tp-aware", params)
    names(alone["seconds"].note, "no run", "rates")
    verified_run(scratch, number, alone, {"k": 2}, status="refused")
    assert planned(scratch, "tp-aware", params)["seconds"] == alone["seconds"]
    verified_run(scratch, number, alone, {"k": 2})
    verified_run(scratch, stored(scratch, FEW, name="other"), alone, {"k": 2}, total_s=12)
    again = planned(scratch, "tp-aware", params)
    assert again["rows"].value == 10  # bundles of twice k, as then
    assert (again["seconds"].value, again["memory_mb"].value) == (20.5, 985)
    assert re.match(r"by run \d+, which took 20\.5; some more", again["seconds"].note)
    # A machine that takes 41 times what the rates say does so for what any run takes, too.
    stored(scratch, single([(i, i) for i in range(80)]), name="twice")
    set_rates(scratch, (("tp-aware", "fix_us"), 50_000), (("tp-aware", "fix_b"), 10**7))
    double = planned(scratch, "tp-aware", params, dataset="twice")
    assert double["seconds"].value == pytest.approx(20.5 * (0.5 + 4) / (0.5 + 2), abs=0.1)
    assert double["memory_mb"].value == pytest.approx(985 * (285 + 800) / (285 + 400), abs=1)


def test_a_plan_is_made_by_an_operator_and_writes_nothing(connection, login):
    stored(connection, WALK)
    with psycopg.connect(login("dbanon_operator")) as operator:
        operator.execute("SET TRANSACTION READ ONLY")
        assert planned(operator, "tp-aware", {"k": 2, "instants": 1})["exit_code"].value == 0
        assert planned(operator, "sensitive-sites", {"k": 2, "at": 0})["exit_code"].value == 3
    with psycopg.connect(login("dbanon_analyst")) as analyst, pytest.raises(errors.InsufficientPrivilege):
        analyst.execute("SELECT * FROM dbanon.plan_run('d', 'tp-aware')")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("e", "tp-aware", "{}"), ("dataset", "'e'")),
        (("d", "tp-aware", '{"k": 1}'), ("'k'", ">= 2", 1)),
        (("d", "tp-awar", "{}"), ("method", "'tp-awar'")),
    ],
)
def test_what_no_run_would_take_is_refused(scratch, arguments, facts):
    stored(scratch, WALK)
    with refusal(psycopg.Error, *facts) as caught:
        scratch.execute("SELECT * FROM dbanon.plan_run(%s, %s, %s)", arguments)
    assert caught.value.sqlstate.startswith("DA")
