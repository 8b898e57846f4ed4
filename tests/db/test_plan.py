"""What a plan says is what is there, what parameters say, and what earlier runs came to; it computes nothing."""

import json

import psycopg
import pytest
from psycopg import errors

from dbanon.methods import METHODS
from dbanon.options.publishing import Planning
from dbanon.runs import stored
from tests.db.written import CONTRACTS, write
from tests.facts import expect_refusal

BEGIN_S = 1212566400  # 2008-06-04 08:00 UTC: where the ten people of `tests.db.conftest.RUN` begin


def plan_run(connection, method, params=None, algorithm=None, dataset="ten"):
    items = stored.plan_run(connection, method, Planning(dataset=dataset, algorithm=algorithm, params=params))
    return {item.item: item for item in items}


def store_verified_run(connection, dataset="ten", *, k=5, rows=40, total_s=24.5, **columns):
    """Store a run that came out somehow; returns its number."""
    told = {"status": "verified", "algorithm": "traj-anon", **columns}
    return connection.execute(
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, params, status, rows, metrics, timings, peak_rss_mb) "
        "SELECT dataset_id, 'tp-aware', %s, %s, %s, %s, %s, %s, 985 FROM dbanon.dataset WHERE name = %s "
        "RETURNING run_id",
        [told["algorithm"], json.dumps({"k": k}), told["status"], rows, json.dumps({"longer_side_50_m": 12.34}),
         json.dumps({"compile_s": 4, "total_s": total_s}), dataset],
    ).fetchone()[0]  # fmt: skip


def make_half(connection):
    """A dataset of half as many fixes."""
    connection.execute(
        "WITH d AS (INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('half', 32610, 1, 60) "
        "RETURNING dataset_id) INSERT INTO dbanon.trajectory (dataset_id, subject, path) "
        "SELECT d.dataset_id, t.subject, t.path FROM d, dbanon.trajectory t WHERE t.trajectory_id < 105"
    )


def test_what_is_there_is_counted(scratch):
    plan = plan_run(scratch, "tp-aware", {"k": 2})
    counted = {"subjects": 10, "trajectories": 10, "fixes": 20, "span_s": 120, "requests": 2}
    assert {name: plan[name].value for name in counted} == counted
    assert all(plan[name].exact for name in counted)
    assert "2008-06-04 08:00:00+00 to 2008-06-04 08:02:00+00" in plan["span_s"].note
    assert list(plan)[-1] == "exit_code"


@pytest.mark.parametrize("family", METHODS.values(), ids=METHODS)
def test_a_plan_counts_what_each_family_reads_and_joins(scratch, family):
    plan = plan_run(scratch, family.name, family.example)
    assert {*family.reads, *family.joins} <= plan.keys()
    missing = [name for name in family.reads if not plan[name].value]
    assert plan["exit_code"].value == (3 if missing else 0)
    assert all(name.replace("_", "-") in plan["exit_code"].note for name in missing[:1])


@pytest.mark.many
@pytest.mark.parametrize(
    ("method", "params", "seconds"),
    [
        ("tp-aware", {"start": BEGIN_S + 60}, 60),
        ("tp-aware", {"since": BEGIN_S + 60}, 60),
        ("tp-aware", {"start": BEGIN_S + 60, "since": BEGIN_S, "until": BEGIN_S + 90}, 30),
        ("tp-aware", {"until": BEGIN_S}, 0),
        ("sensitive-sites", {"at": BEGIN_S}, 60),
        ("sensitive-sites", {"since": BEGIN_S, "until": BEGIN_S + 60}, 60),
    ],
)
def test_the_time_a_run_may_cover_follows_from_its_parameters(scratch, method, params, seconds):
    assert plan_run(scratch, method, {"k": 2, **params})["span_s"].value == seconds


@pytest.mark.many
@pytest.mark.parametrize(
    ("method", "params", "compared"),
    [
        ("tp-aware", {}, 1),
        ("tp-aware", {"since": BEGIN_S + 120}, 0),
        ("sensitive-sites", {"at": BEGIN_S + 120 + 900, "max_gap_s": 60}, 0),  # settle_s after the release's end
        ("sensitive-sites", {"at": BEGIN_S + 60 + 900, "max_gap_s": 60}, 1),
        ("sensitive-sites", {"at": BEGIN_S + 120 + 900, "max_gap_s": 960}, 1),
    ],
)
def test_a_plan_names_the_releases_a_run_would_be_compared_with(own, method, params, compared):
    own.execute("SELECT dbanon.publish(1, 'first')")
    own.execute("SELECT dbanon.unpublish('first')")
    near = plan_run(own, method, {"k": 2, **params})["releases_compared"]
    assert (near.value, near.note) == (compared, "first (withdrawn)" * compared)


@pytest.mark.parametrize(
    ("published", "method", "algorithm", "params", "people"),
    [
        ("bundles", "kte", "kte-hide", {}, 10),
        ("bundles", "kte", "k-merge", {}, None),  # measured, as bundles are
        ("bundles", "kte", "kte-hide", {"since": BEGIN_S + 1800}, None),
        ("kte-hide", "tp-aware", None, {}, 3),
        ("kte-hide", "sensitive-sites", None, {"at": BEGIN_S}, 3),
        ("kte-hide", "sensitive-sites", None, {"at": BEGIN_S + 7200}, None),
    ],
)
def test_a_plan_foretells_that_a_release_stands_alone(own, published, *, method, algorithm, params, people):
    spot = "ST_SetSRID(ST_MakePoint(0, 0), 32610)"
    own.execute(f"INSERT INTO dbanon.site (dataset_id, geom) SELECT dataset_id, {spot} FROM dbanon.dataset")
    own.execute("DELETE FROM dbanon.run")
    own.execute("SELECT dbanon.publish(%s, 'first')", [write(own, CONTRACTS[published])])
    plan = plan_run(own, method, {"k": 2, **params}, algorithm)
    ending = plan["exit_code"]
    if people is None:
        assert "people_published" not in plan
        assert ending.value == (3 if plan["span_s"].value == 0 or params else 0)  # at that time nobody is there
    else:
        assert (plan["people_published"].value, plan["people_published"].note) == (people, "first")
        assert (ending.value, ending.exact) == (5, False)
        assert f"{people} people" in ending.note
        assert "first" in ending.note


def test_a_plan_of_the_same_run_again_foretells_no_refusal(own):
    own.execute("DELETE FROM dbanon.run")
    first = write(own, CONTRACTS["kte-hide"])
    own.execute(
        "UPDATE dbanon.run SET method = 'kte', algorithm = 'kte-hide', params = dbanon_internal.complete_params('kte', "
        "'kte-hide', '{\"k\": 2}') WHERE run_id = %s", [first],
    )  # fmt: skip
    own.execute("INSERT INTO dbanon.verification (run_id, attack, passed, digest)"
                " SELECT %s, 'kte', true, dbanon_internal.compute_run_digest(%s)", [first, first])  # fmt: skip
    own.execute("SELECT dbanon.publish(%s, 'first')", [first])
    assert plan_run(own, "kte", {"k": 2})["exit_code"].value == 0
    assert plan_run(own, "kte", {"k": 3})["people_published"].value == 3
    own.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT dataset_id, 'late', path FROM dbanon.trajectory LIMIT 1"
    )
    late = plan_run(own, "kte", {"k": 2})  # other data, so other groups
    assert (late["people_published"].value, late["exit_code"].value) == (3, 5)


def test_there_must_be_k_subjects(scratch):
    ending = plan_run(scratch, "tp-aware", {"k": 11})["exit_code"]
    assert (ending.value, ending.exact) == (4, True)
    assert "k = 11" in ending.note
    assert "10" in ending.note
    assert plan_run(scratch, "tp-aware", {"k": 10})["exit_code"].value == 0


def test_a_missing_input_is_named(scratch):
    ending = plan_run(scratch, "sensitive-sites", {"k": 11})["exit_code"]
    assert (ending.value, ending.exact) == (3, True)
    assert "sites" in ending.note


def test_without_an_earlier_run_nothing_is_made_up(scratch):
    store_verified_run(scratch, status="refused")
    store_verified_run(scratch, algorithm="another")
    plan = plan_run(scratch, "tp-aware", {"k": 5})
    assert not {"rows", "seconds", "memory_mb", "longer_side_50_m"} & plan.keys()
    assert (plan["earlier_runs"].value, plan["earlier_runs"].exact) == (0, True)


def test_rows_seconds_memory_and_cloaks_are_those_of_an_earlier_run(scratch):
    number = store_verified_run(scratch)
    store_verified_run(scratch, k=2, rows=70)  # of another k
    plan = plan_run(scratch, "tp-aware", {"k": 5})
    told = {"rows": 40, "seconds": 20.5, "memory_mb": 985, "longer_side_50_m": 12.3}
    assert {name: plan[name].value for name in told} == told
    assert not any(plan[name].exact for name in told)
    assert all(f"run {number} with k = 5" in plan[name].note for name in told)


def test_what_was_measured_on_some_people_grows_with_fixes(scratch):
    """Twenty fixes: what ten took, and for each of ten more what it adds."""
    needs = {"fixes": 10, "rows": 11, "seconds": 2, "seconds_each": 0.25, "memory_mb": 300, "mb_each": 4, "disk_mb": 1}
    scratch.execute(
        "INSERT INTO dbanon.evaluation (dataset_id, dataset_revision, method, algorithm, params, sample, against,"
        " queries, seed, figures, run_figures) SELECT dataset_id, revision, 'tp-aware', 'traj-anon', %s, 5,"
        " 'published', 1, 0, '[]', %s FROM dbanon.dataset WHERE name = 'ten'",
        [json.dumps({"k": 5}), json.dumps({"needs": needs})],
    )
    plan = plan_run(scratch, "tp-aware", {"k": 5})
    told = {"rows": 22, "seconds": 4.5, "memory_mb": 340, "disk_mb": 2}
    assert {name: plan[name].value for name in told} == told
    assert all(plan[name].note.startswith("by 5 people on 20") for name in told)
    number = store_verified_run(scratch)
    assert f"run {number} " in plan_run(scratch, "tp-aware", {"k": 5})["seconds"].note
    assert plan_run(scratch, "tp-aware", {"k": 3}, dataset="ten")["seconds"].value == 20.5
    make_half(scratch)
    assert "seconds" not in plan_run(scratch, "tp-aware", {"k": 5}, dataset="half")


def test_a_plan_is_made_by_an_operator_and_writes_nothing(connection, run, login):
    with psycopg.connect(login("dbanon_operator")) as operator:
        operator.execute("SET TRANSACTION READ ONLY")
        assert plan_run(operator, "tp-aware", {"k": 2})["exit_code"].value == 0
        assert plan_run(operator, "sensitive-sites", {"k": 2, "at": 0})["exit_code"].value == 3
    with psycopg.connect(login("dbanon_analyst")) as analyst, pytest.raises(errors.InsufficientPrivilege):
        analyst.execute("SELECT * FROM dbanon.plan_run('ten', 'tp-aware')")


@pytest.mark.many
@pytest.mark.parametrize(
    ("arguments", "state", "word"),
    [
        (("e", "tp-aware", "{}"), "DA001", "e"),
        (("ten", "tp-aware", '{"k": 1}'), "DA011", "k"),
        (("ten", "tp-awar", "{}"), "DA011", "tp-awar"),
        (("ten", "tp-aware", '{"until": "soon"}'), "DA011", "until"),
    ],
)
def test_what_no_run_would_take_is_refused(scratch, arguments, state, word):
    with expect_refusal(state) as caught:
        scratch.execute("SELECT * FROM dbanon.plan_run(%s, %s, %s)", arguments)
    assert f"'{word}'" in str(caught.value.diag.message_primary)


def test_a_dataset_of_nothing_has_no_time_and_nobody(scratch):
    scratch.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('none', 32610, 1, 60)")
    plan = plan_run(scratch, "tp-aware", {"k": 2}, dataset="none")
    assert {name: plan[name].value for name in ("subjects", "fixes", "span_s", "exit_code")} == {
        "subjects": 0, "fixes": 0, "span_s": 0, "exit_code": 4,
    }  # fmt: skip
