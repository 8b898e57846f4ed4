"""Adding and changing a job: what is given is checked as each night would check it, and what is not given stays."""

import json
from typing import Any

import psycopg
import pytest

from tests.db.nights import add, compute_period, find_day, make_source, run_night
from tests.facts import demand_named, expect_refusal
from tests.hints import find_arguments, refuse, tries
from tests.reading import collect_notices, read_value

LOAD = '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}'
ROW = "SELECT to_jsonb(j) - '{looked_at,held_by}'::text[] FROM dbanon.job j"
REQUESTS = '{"kind": "requests", "source": "public.gps", "columns": ["lon"], "subject": "cab", "time_column": "ts"}'


@pytest.fixture
def own(connection: psycopg.Connection) -> psycopg.Connection:
    """Connection to a database with a source of three days and the day before them."""
    make_source(connection)
    return connection


def change(connection: psycopg.Connection[Any], rest: str) -> dict[str, Any]:
    """Change the job; which columns have become what."""
    before = read_value(connection, ROW)
    connection.execute(f"SELECT dbanon.add_job('taxi', {rest}, replace => true)")  # type: ignore[arg-type]
    return {name: now for name, now in read_value(connection, ROW).items() if now != before[name]}


# ---- changing


def test_a_change_of_one_argument_keeps_all_others(own):
    own.execute("CREATE ROLE kept_owner IN ROLE dbanon_operator")
    add(
        own,
        f", owner => 'kept_owner', keep_data => '30 days', keep_parts => '1 year', limits => '{{\"seen\": 99}}', "
        f"further => '[{REQUESTS}]', lateness => '2 days', at_least => 0.25, retry => '1 minute', max_tries => 3, "
        "on_held => 'stop', every => '12 hours', tz => 'Europe/Berlin'",
    )
    own.execute("SELECT dbanon.steer_job('taxi', 'pause')")
    assert change(own, "wait => '2 hours'") == {"wait": "02:00:00"}
    own.execute("DROP ROLE kept_owner")


def test_words_of_load_and_params_are_changed_alone_and_null_takes_them_back(own):
    add(own)
    assert change(own, """load => '{"filter": "true"}', params => '{"k": 4}'""") == {
        "load": {"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat", "filter": "true"},
        "params": {"k": 4, "step_s": 3600},
    }
    assert change(own, """load => '{"filter": null}', params => '{"step_s": null}'""") == {
        "load": {"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"},
        "params": {"k": 4},
    }


def test_neutral_values_take_back_what_was_asked_for(own):
    own.execute("CREATE ROLE neutral_reader")
    add(own, f", limits => '{{\"seen\": 99}}', further => '[{REQUESTS}]', readers => '{{neutral_reader}}'")
    assert change(own, "limits => '{}', further => '[]', readers => '{}'") == {
        "limits": {},
        "further": [],
        "readers": None,
    }
    own.execute("DROP ROLE neutral_reader")


def test_another_method_begins_with_its_own_parameters_and_algorithm(own):
    add(own)
    changed = change(own, """method => 'kte', params => '{"k": 3}'""")
    assert (changed["method"], changed["params"]) == ("kte", {"k": 3})
    assert changed["algorithm"] != "traj-anon"


@pytest.mark.parametrize(
    ("call", "lacking"),
    [
        ("wait => '2 hours', replace => true", ["source", "load", "method"]),
        (f"'public.gps', load => '{LOAD}'", ["method"]),
        ("'public.gps', method => 'tp-aware'", ["load"]),
    ],
)
def test_a_new_job_must_have_source_load_and_method(own, call, lacking):
    with expect_refusal("DA011", "taxi", *lacking):
        own.execute(f"SELECT dbanon.add_job('taxi', {call})")


def test_the_notice_names_the_period_that_comes_next(own):
    said = collect_notices(own)
    add(own)
    assert "2008-06-01 00:00:00+00 to 2008-06-02" in said[-1]
    assert run_night(own) == "done"
    own.execute("SELECT dbanon.add_job('taxi', every => '6 hours', replace => true)")
    assert "2008-06-02 00:00:00+00 to 2008-06-02 06:00:00" in said[-1]
    assert read_value(own, "SELECT lower(dbanon_internal.find_next_period(j)) FROM dbanon.job j") == find_day(1)


def test_periods_of_a_job_that_is_changed_keep_their_raster(own):
    add(own, ", every => '12 hours'")
    assert run_night(own) == "done"
    assert change(own, "wait => '2 hours'").keys() == {"wait"}
    assert read_value(own, "SELECT dbanon_internal.find_next_period(j)::text FROM dbanon.job j").startswith(
        '["2008-06-01 12:00:00+00"'
    )


# ---- what each night would refuse


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ('"grid_m": -5', "DA011"),
        ('"grid_s": 0', "DA011"),
        ('"srid": 1', "DA011"),
        ('"srid": 4326', "DA011"),
        ('"crs": "EPSG:99"', "DA011"),
        ('"bbox": [1, 2]', "DA011"),
        ('"max_speed_kmh": -1', "DA011"),
        ('"split_gap_s": 0', "DA011"),
        ('"settle_s": -1', "DA011"),
        ('"population": " "', "DA011"),
        ('"grid_m": "wide"', "DA011"),
        ('"width": 5', "DA011"),
        ('"read_dsn": "postgresql://wanda:secret@replica/city"', "DA011"),
        ('"read_dsn": "service=replica password=secret"', "DA011"),
        ('"read_dsn": 5', "DA011"),
        ('"trip": "gone"', "DA012"),
    ],
)
def test_a_word_of_the_load_that_each_night_would_refuse_is_refused(own, word, state):
    with expect_refusal(state):
        own.execute(
            f"SELECT dbanon.add_job('taxi', 'public.gps', '{LOAD[:-1]}, {word}}}', 'tp-aware')"  # type: ignore[arg-type]
        )
    assert read_value(own, "SELECT count(*) FROM dbanon.job") == 0


@pytest.mark.parametrize(
    ("further", "state", "facts"),
    [
        ("{}", "DA011", ["kind"]),
        ("3", "DA011", ["kind"]),
        ('{"kind": "requests", "source": "public.gps"}', "DA011", ["columns"]),
        ('{"kind": "requests", "columns": ["lon"]}', "DA011", ["source"]),
        ('{"kind": "requests", "source": "public.gps", "columns": "lon"}', "DA011", ["columns"]),
        (REQUESTS.replace('"columns"', '"width": 3, "columns"'), "DA011", ["width"]),
        (REQUESTS.replace("lon", "gone"), "DA012", ["gone"]),
        (REQUESTS.replace("lon", "cab"), "DA011", ["cab"]),
        (REQUESTS.replace("public.gps", "public.none"), "DA012", ["public.none"]),
        (REQUESTS.replace('"columns"', '"filter": "lon >", "columns"'), "DA011", ["filter"]),
        (REQUESTS.replace('"columns"', '"tz": "Mars/Olympus", "columns"'), "DA011", ["zone"]),
        ('{"kind": "quasi_identifiers", "source": "public.gps", "subject": "gone"}', "DA012", ["gone"]),
        (
            '{"kind": "quasi_identifiers", "source": "public.gps", "subject": "cab", "time_column": "ts",'
            ' "set_name": " "}',
            "DA011",
            ["set"],
        ),
    ],
)
def test_a_further_load_that_its_import_would_refuse_is_refused(own, further, state, facts):
    with expect_refusal(state, *facts):
        add(own, f", further => '[{further}]'")
    assert read_value(own, "SELECT count(*) FROM dbanon.job") == 0


WINDOWS = """
SELECT dbanon.add_job('taxi', 'public.gps', '{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}', 'kte',
    params => '{"k": 3, "window_s": %s}', algorithm => 'k-merge', starts => %s, tz => %s, every => %s, replace => true)
"""


@tries("which divides the days of every time zone")
@pytest.mark.parametrize(
    ("window_s", "starts", "zone", "every", "bad"),
    [
        (1800, "2008-05-31 18:15Z", "Asia/Kathmandu", "1 day", "2008-05-31T18:15:00Z"),
        (7200, "2008-05-31 22:00Z", "Europe/Berlin", "1 day", "2008-10-26T23:00:00Z"),
        (7200, "2008-12-01 00:00Z", "Europe/Berlin", "1 month", "2009-03-31T23:00:00Z"),
        (1800, "2008-06-01 00:00Z", "UTC", "45 minutes", "2008-06-01T00:45:00Z"),
        (1800, "2008-06-01 00:10Z", "UTC", "1 day", "2008-06-01T00:10:00Z"),
    ],
)
def test_a_job_whose_periods_cut_a_window_is_refused(own, *, window_s, starts, zone, every, bad):
    words = refuse(own, WINDOWS % (window_s, f"'{starts}'", f"'{zone}'", f"'{every}'"), "DA011")
    demand_named(words, "window_s", window_s, zone, bad)
    own.execute(WINDOWS % (window_s, "'2008-06-01 00:00Z'", "'UTC'", "'1 day'"))
    if "00:10" not in starts:  # which is no quarter of an hour
        window_s = json.loads(find_arguments(words)["params"].strip("'"))["window_s"]
        own.execute(WINDOWS % (window_s, f"'{starts}'", f"'{zone}'", f"'{every}'"))


@tries("Give a grid_s and a window_s that divide 900")
def test_windows_of_an_odd_grid_divide_no_day(own):
    when = ("'2008-06-01 00:00Z'", "'UTC'", "'1 day'")
    words = refuse(own, WINDOWS % ('1827, "grid_s": 63', *when), "DA011")
    demand_named(words, "grid_s", "window_s", 900)
    own.execute(WINDOWS % ('450, "grid_s": 90', *when))


def test_trying_the_loads_leaves_nothing_behind(own, login):
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as nina:
        add(nina, f", further => '[{REQUESTS}]'")
    for table in ("dataset", "load", "request", "trajectory", "quarantine"):
        assert read_value(own, f"SELECT count(*) FROM dbanon.{table}") == 0
    assert read_value(own, "SELECT array_agg(action) FROM dbanon.audit") == ["add_job"]


def test_a_job_is_not_added_while_its_dataset_is_being_loaded(own, database):
    own.execute("ALTER FUNCTION dbanon_internal.try_loads(dbanon.job) SET lock_timeout = '10ms'")
    with psycopg.connect(database) as other:
        other.execute("SELECT dbanon_internal.lock_dataset('taxi')")
        with expect_refusal("DA013", "taxi"):
            add(own)
    add(own)


def test_a_limit_on_a_figure_that_no_run_of_the_method_has_is_refused(own):
    with expect_refusal("DA011", "nofig"):
        add(own, """, limits => '{"nofig": 1}'""")
    # Figures of a run that was verified here count, too.
    add(own, """, limits => '{"requests_of_few_over_parts": 0, "requests_of_few_over_windows": 0}'""")
    run = compute_period(own)
    own.execute("""UPDATE dbanon.verification SET figures = '{"seen": 6, "odd": 1}' WHERE run_id = %s""", [run])
    assert change(own, """limits => '{"odd": 2}'""") == {"limits": {"odd": 2}}


@pytest.mark.parametrize(
    "starts", ["infinity", "-infinity", "0001-01-01Z", "1969-12-31Z", "2099-01-01Z", "294276-01-01Z"]
)
def test_an_endless_or_far_start_is_refused(own, starts):
    with expect_refusal("DA011", "starts"):
        add(own, f", starts => '{starts}'")


def test_a_job_whose_name_has_a_live_release_that_does_not_grow_is_refused(own):
    add(own)
    assert run_night(own) == "done"
    own.execute("SELECT dbanon.publish(run_id, 'other') FROM dbanon.run")
    with expect_refusal("DA003", "other"):
        add(own, name="other")
    own.execute("SELECT dbanon.unpublish('other')")
    add(own, name="other")


@pytest.mark.parametrize(
    ("rest", "argument"),
    [("method => 'kte'", "method"), ("dataset => 'other'", "dataset"), ("readers => '{a_reader}'", "readers")],
)
def test_what_all_parts_have_alike_stays_while_the_release_is_live(own, rest, argument):
    own.execute("CREATE ROLE a_reader")
    add(own)
    assert run_night(own) == "done"
    with expect_refusal("DA011", argument):
        change(own, rest)
    own.execute("DROP ROLE a_reader")


@pytest.mark.parametrize(
    ("rest", "argument"),
    [
        (", every => '1 second'", "every"),
        (", wait => '31 days'", "wait"),
        (", lateness => '-1 day'", "lateness"),
        (", keep_data => '1 hour'", "keep_data"),
        (", keep_parts => '200 years'", "keep_parts"),
        (", retry => '0'", "retry"),
        (", at_least => 'NaN'", "at_least"),
        (", max_tries => 1001", "max_tries"),
        (", on_held => 'shrug'", "on_held"),
        (", limits => '[]'", "limits"),
        (", further => '{}'", "further"),
    ],
)
def test_a_refusal_names_the_one_argument_that_is_wrong(own, rest, argument):
    with expect_refusal("DA011") as refused:
        add(own, rest)
    said = refused.value.diag.message_primary
    names = {"every", "wait", "lateness", "keep_data", "keep_parts", "retry", "at_least", "max_tries", "on_held"}
    assert {name for name in names | {"limits", "further"} if f" {name} " in said} == {argument}


# ---- who writes jobs


@pytest.mark.parametrize(
    "broken",
    [
        '{"every": "0"}',
        '{"tz": "x"}',
        '{"name": "Evil Name"}',
        '{"load": []}',
        '{"limits": {"nofig": 1}}',
        '{"at_least": 2}',
    ],
)
def test_no_operator_writes_a_job_that_cannot_be_one(own, login, broken):
    with psycopg.connect(login("dbanon_operator"), autocommit=True) as nina:
        add(nina)
        with expect_refusal("DA002" if "name" in broken else "DA011"):
            nina.execute("SELECT dbanon_internal.write_job(jsonb_populate_record(j, %s)) FROM dbanon.job j", [broken])
        nina.execute("SELECT * FROM dbanon.jobs")
        nina.execute("SELECT * FROM dbanon.health")


@pytest.mark.parametrize(
    "column",
    [
        "every = '0'",
        "name = 'Evil Name'",
        "at_least = 'NaN'",
        "max_tries = 0",
        "retry = '0'",
        "wait = '-1 s'",
        "lateness = '-1 s'",
        "keep_data = '0'",
        "keep_parts = '0'",
        "starts = 'infinity'",
    ],
)
def test_the_table_of_jobs_holds_no_job_that_breaks_its_views(own, column):
    add(own)
    with expect_refusal("23514"):
        own.execute(f"UPDATE dbanon.job SET {column}")
