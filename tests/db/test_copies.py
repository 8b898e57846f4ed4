"""Copies under other names: what loads recognise, what they do not take for one, and what becomes of the codes."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psycopg
import pytest

from dbanon import load
from dbanon.database import open_database
from dbanon.options.loading import LoadingTrajectories, Mode
from dbanon.runs.stored import RunResult
from tests import here
from tests.acceptance.commands import call
from tests.db.test_concurrency import start_statement
from tests.facts import demand_named, demand_refused, expect_refusal
from tests.importing import record_release
from tests.reading import read_value
from tests.walkers import Walk, copy_walks, draw_walk, list_rows

STEP_S = 30
START_S = 1_212_566_400


@dataclass(frozen=True)
class Crowd:
    """People on random ways: positions in metres by person and instant, and when they are there, in seconds."""

    x: np.ndarray
    y: np.ndarray
    t: np.ndarray
    name: str = "a"

    def rows(self) -> list[str]:
        people, instants = self.x.shape
        return [
            f"{self.name}{i},{self.t[i, j]},{self.x[i, j]:.3f},{self.y[i, j]:.3f}"
            for i in range(people)
            for j in range(instants)
        ]

    def on_grid(self, grid_m: float) -> "Crowd":
        return replace(self, x=np.floor(self.x / grid_m) * grid_m, y=np.floor(self.y / grid_m) * grid_m)


def draw_crowd(seed: int, people: int = 60, instants: int = 100, start: int = START_S) -> Crowd:
    rng = np.random.default_rng(seed)
    steps = rng.normal(0, 20, (2, people, instants)).cumsum(axis=2) + rng.uniform(0, 3000, (2, people, 1))
    t = start + np.arange(instants) * STEP_S + np.zeros((people, 1), int)
    return Crowd(5e5 + steps[0], 4e6 + steps[1], t)


Write = Callable[..., Path]
COPIES = """
SELECT array_agg(d.name ORDER BY d.dataset_id) FROM dbanon.load l CROSS JOIN unnest(l.copies) c (id)
JOIN dbanon.dataset d ON d.dataset_id = c.id WHERE l.load_id = (SELECT max(load_id) FROM dbanon.load)
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(*rows: list[str], name: str = "fixes.csv") -> Path:
        path = tmp_path / name
        path.write_text("subject,time,x,y\n" + "".join(f"{row}\n" for part in rows for row in part))
        return path

    return make


def _load(
    connection: psycopg.Connection,
    path: Path,
    dataset: str,
    *,
    mode: Mode = "create",
    subject: str = "subject",
    population: str | None = None,
    split_gap_s: float | None = None,
) -> list[str]:
    """Load a file, and return the datasets that the notice of copies names; '' for the same one."""
    options = LoadingTrajectories(
        dataset=dataset,
        mode=mode,
        crs="EPSG:32610",
        srid=32610,
        population=population,
        split_gap_s=split_gap_s,
        subject=subject,
    )
    told = load.load_trajectories(connection, [path], options).notices
    own = [""] * sum("under several names" in notice for notice in told)
    others = [notice for notice in told if "under other names" in notice]
    assert len(others) < 2
    return own + [name for notice in others for name in re.findall("'(.*?)'", notice)]


def _find_copied(connection: psycopg.Connection, dataset: str) -> list[tuple[str, int]]:
    """Which datasets with releases this one copies, and how many people of it."""
    return connection.execute(
        "SELECT c.name, c.people FROM dbanon.dataset d, dbanon_internal.find_published_copies(d.dataset_id) c"
        " WHERE d.name = %s",
        [dataset],
    ).fetchall()


def _read_codes(connection: psycopg.Connection, dataset: str) -> set[tuple[int, int]]:
    query = "SELECT f.person, f.code FROM dbanon.fix_code f JOIN dbanon.dataset d USING (dataset_id) WHERE d.name = %s"
    return set(connection.execute(query, [dataset]).fetchall())


# ---- what is recognised ----------------------------------------------------------------------------------------------


def test_a_copy_under_other_names_and_in_another_order_is_recognised(database, connection, write):
    walk = draw_crowd(1)
    _load(connection, write(walk.rows()), "first")
    record_release(connection, "first")
    shuffled = list(np.random.default_rng(2).permutation(replace(walk, name="b").rows()))
    metres = ("--crs", "EPSG:32610", "--srid", "32610")
    done = call(database, "load", "trajectories", str(write(shuffled, name="b.csv")), "--dataset", "second", *metres)
    assert done.code == 0
    demand_named(done.stderr, "'first'", "other names", "reason")
    ((dataset, people),) = _find_copied(connection, "second")
    assert (dataset, people > 30) == ("first", True)


def test_a_copy_that_is_cut_elsewhere_is_recognised(connection, write):
    walk = draw_crowd(1)
    _load(connection, write(walk.rows()), "first")
    # Each tenth fix is missing, and a line is cut there.
    rows = [row for i, row in enumerate(replace(walk, name="b").rows()) if i % 10]
    assert _load(connection, write(rows), "second", split_gap_s=STEP_S + 1) == ["first"]


def test_half_of_a_file_added_to_other_people_is_recognised(connection, write):
    walk = draw_crowd(1)
    half = [row for row in replace(walk, name="b").rows() if int(row.split(",")[0][1:]) % 2]
    _load(connection, write(walk.rows()), "first")
    assert _load(connection, write(draw_crowd(2).rows()), "second") == []
    assert _load(connection, write(half), "second", mode="append") == ["first"]


@pytest.mark.parametrize("part", [1, 2])
def test_a_file_added_to_itself_under_other_names_is_recognised(connection, write, part):
    walk = draw_crowd(1, people=120)  # the shares of a hundred codes would vary too much
    _load(connection, write(walk.rows()), "first")
    again = [row for row in replace(walk, name="b").rows() if int(row.split(",")[0][1:]) % part == 0]
    assert _load(connection, write(again), "first", mode="append") == [""]
    # A release of it needs a reason, the first one as well.
    ((dataset, people),) = _find_copied(connection, "first")
    assert (dataset, people > 15) == ("first", True)


def _load_names(walk: Crowd, shares: Sequence[float], first: str = "b") -> list[list[str]]:
    """Rows of a crowd under one set of names after another, each of only the first people of it."""
    people = len(walk.x)
    return [
        [row for row in replace(walk, name=chr(ord(first) + n)).rows() if int(row.split(",")[0][1:]) < share * people]
        for n, share in enumerate(shares)
    ]


def test_a_copy_under_several_sets_of_names_is_recognised(connection, write):
    walk = draw_crowd(1, people=120)  # the shares of a hundred codes would vary too much
    _load(connection, write(walk.rows()), "first")
    record_release(connection, "first")
    # Twice, three and four times; half of them twice; twice or three times; once to three times; a part alone.
    for shares in ((1, 1), (1, 1, 1), (1, 1, 1, 1), (1, 0.5), (1, 1, 0.5), (1, 0.7, 0.4), (0.3, 0.3)):
        dataset = f"copy {shares}"
        assert _load(connection, write(*_load_names(walk, shares)), dataset)[:2] == ["", "first"]
        assert [copied for copied, _ in _find_copied(connection, dataset)] == ["first", dataset]


def test_unequal_numbers_of_names_hide_that_a_dataset_is_doubled_but_not_a_copy(connection, write):
    walk = draw_crowd(1)
    _load(connection, write(walk.rows()), "first")
    # docs/administrators/security.md says so: half of the people have one name, a quarter two, an eighth three ...
    assert _load(connection, write(*_load_names(walk, (1, 0.5, 0.25, 0.12, 0.06, 0.03))), "copy") == ["first"]


@pytest.mark.parametrize("population", [None, "other"])
def test_of_what_is_under_several_names_a_plain_copy_is_recognised(connection, write, population):
    walk = draw_crowd(1)
    assert _load(connection, write(*_load_names(walk, (1, 1, 1))), "first") == [""]
    record_release(connection, "first")
    assert _load(connection, write(walk.rows()), "second", population=population) == ["first"]
    assert [dataset for dataset, _ in _find_copied(connection, "second")] == ["first"]
    # The original comes after the copy, under names of which the copy has some.
    assert _load(connection, write(*_load_names(walk, (1,))), "third", population=population) == ["first", "second"]


def test_a_few_people_copied_among_many_others_are_recognised(connection, write):
    walk = draw_crowd(1, people=200)
    _load(connection, write(walk.rows()), "first")
    for sets in (1, 2, 3):
        few = _load_names(walk, (0.1,) * sets, first="bcd"[sets - 1])
        assert "first" in _load(connection, write(draw_crowd(2 + sets, people=180).rows(), *few), f"second {sets}")
        # The other way round, what was doubled is published first.
        record_release(connection, f"second {sets}")
        assert f"second {sets}" in dict(_find_copied(connection, "first"))


@pytest.mark.parametrize("of_the_day", [False, True])
def test_a_copy_in_three_steps_is_recognised_at_each_and_said_once(connection, write, of_the_day):
    walk = draw_crowd(1)
    _load(connection, write(walk.rows()), "first")
    _load(connection, write(draw_crowd(2).rows()), "second")
    rows = replace(walk, name="b").rows()
    for step in range(3):
        part = [row for i, row in enumerate(rows) if (i % 100 * 3 // 100 if of_the_day else i // 2000) == step]
        told = _load(connection, write(part), "second", mode="append")
        assert told == (["first"] if step == 0 else [])
        assert read_value(connection, COPIES) == ["first"]


def test_datasets_that_look_alike_are_one_notice_and_those_that_were_noticed_none(connection, write):
    walk = draw_crowd(1)
    for number in range(3):
        rows = replace(walk, name=f"n{number}").rows()
        _load(connection, write(rows), f"same {number}", population=f"p{number}")
    again = replace(walk, name="b")
    assert _load(connection, write(again.rows()), "copy") == ["same 0", "same 1", "same 2"]
    # The next evening, of which the others have a copy, too.
    evening = draw_crowd(3, start=START_S + 86_400)
    for number in range(3):
        rows = replace(evening, name=f"n{number}").rows()
        _load(connection, write(rows), f"same {number}", mode="append")
    later = write(replace(evening, name="b").rows(), name="later.csv")
    assert _load(connection, later, "copy", mode="append") == []
    # One that is new is said alone.
    _load(
        connection, write(replace(draw_crowd(4, start=START_S + 172_800), name="n").rows()), "fourth", population="p4"
    )
    third = write(replace(draw_crowd(4, start=START_S + 172_800), name="b").rows())
    assert _load(connection, third, "copy", mode="append") == ["fourth"]
    # Replaced data are others, of which nothing was said.
    assert _load(connection, later, "copy", mode="replace") == ["same 0", "same 1", "same 2"]


def test_one_notice_names_all_datasets_of_which_one_is_a_copy(connection, write):
    walk = draw_crowd(1)
    for number in range(5):
        _load(connection, write(walk.rows()), f"same {number}")
    path = write(replace(walk, name="b").rows())
    told = load.load_trajectories(
        connection, [path], LoadingTrajectories(dataset="copy", crs="EPSG:32610", srid=32610)
    ).notices
    (notice,) = [notice for notice in told if "under other names" in notice]
    demand_named(notice, "'same 0'", "'same 1'", "'same 2'", "2 more")


# ---- equal names in another population -------------------------------------------------------------------------------


def _load_known(connection: psycopg.Connection, path: Path, dataset: str, **options) -> list[tuple[str, ...]]:
    """Load a file; return how many names a notice says are in other populations, and in which."""
    told = load.load_trajectories(
        connection, [path], LoadingTrajectories(dataset=dataset, crs="EPSG:32610", srid=32610, **options)
    ).notices
    notices = [notice for notice in told if "names of people" in notice]
    return [(*re.findall(r"\d+", notice)[:1], *re.findall("'(.*?)'", notice)) for notice in notices]


def test_names_that_are_all_in_another_population_are_said_once(connection, write):
    _load(connection, write(draw_crowd(1).rows()), "first")
    later = [draw_crowd(seed, people=20, start=START_S + 86_400 * seed) for seed in range(2, 8)]
    paths = [write(walk.rows(), name=f"{n}.csv") for n, walk in enumerate(later)]
    assert _load_known(connection, paths[4], "same") == []
    assert _load_known(connection, paths[0], "second", population="b") == [("20", "default")]
    # The next evening brings no name that is new to the population, nor does another dataset of it.
    assert _load_known(connection, paths[1], "second", mode="append") == []
    assert _load_known(connection, paths[2], "third", population="b") == []
    assert _load_known(connection, paths[3], "fourth", population="c") == [("20", "default", "b")]
    fifth = LoadingTrajectories(dataset="fifth", crs="EPSG:32610", srid=32610, population="d")
    (notice,) = load.load_trajectories(connection, [paths[5]], fifth).notices
    demand_named(notice, "other populations: 'default', 'b', 'c'")
    # A name that is new is one of the other population, too, or not.
    assert _load_known(connection, write(["a30,1212600000,5e5,4e6"]), "second", mode="append") == [("21", "default")]
    assert _load_known(connection, write(["x,1212600000,5e5,4e6"]), "second", mode="append") == []
    assert _load_known(connection, write(["a31,1212600000,5e5,4e6"]), "second", mode="append") == []


def test_names_of_a_dataset_that_was_published_and_dropped_are_known(own):
    own.execute("SELECT dbanon.publish(1, 'one')")
    own.execute("SELECT dbanon.unpublish('one')")
    own.execute("SELECT dbanon.drop_dataset('ten')")
    own.execute(
        "WITH other AS (INSERT INTO dbanon.population (name) VALUES ('b') RETURNING population_id) INSERT INTO "
        "dbanon.dataset (name, srid, grid_m, grid_s, population_id) SELECT 'b', 32610, 1, 1, population_id FROM other"
    )
    # At other places: fixes that both names share could give another notice, if the secret sample holds them.
    for subjects, x, told in (("'p' || n", "n", True), ("'q' || n", "n + 1000", False)):
        own.execute(
            f"INSERT INTO dbanon.trajectory (dataset_id, subject, path) SELECT dataset_id, {subjects}, "
            f"ST_SetSRID(ST_MakePointM({x}, n, 0), 32610) FROM dbanon.dataset d, generate_series(0, 9) n "
            "WHERE name = 'b'"
        )
        notices = own.execute(
            "SELECT n FROM dbanon.dataset d, dbanon_internal.note_copies(d.dataset_id, 0) n WHERE d.name = 'b'"
        ).fetchall()
        assert ["'default'" in notice for (notice,) in notices] == [True] * told


def test_numbers_of_rows_and_names_of_copies_are_not_said_to_be_in_another_population(connection, write):
    rows = write(draw_crowd(1, people=100, instants=1).rows())
    for population in ("a", "b"):
        _load(connection, rows, population, subject="-", population=population)
    named = write([f"{n:012d},{START_S + n},5e5,{4e6 + n}" for n in range(1, 101)], name="named.csv")
    assert _load_known(connection, named, "numbers") == []
    path = write(draw_crowd(2).rows())
    _load(connection, path, "first")
    assert _load_known(connection, path, "copy", population="c") == []


def test_the_same_names_are_other_people_in_another_population_alone(connection, write):
    path = write(draw_crowd(1).rows())
    _load(connection, path, "first")
    assert _load(connection, path, "same") == []
    assert _load(connection, path, "other", population="b") == ["first", "same"]
    for dataset in ("first", "same"):
        record_release(connection, dataset)
    assert _find_copied(connection, "same") == []
    assert [dataset for dataset, _ in _find_copied(connection, "other")] == ["first", "same"]


def test_rows_of_their_own_are_recognised_by_single_fixes(connection, write):
    people = write(draw_crowd(1, people=600, instants=1).rows())
    for dataset, copied in (("first", []), ("second", ["first"])):
        assert _load(connection, people, dataset, subject="-") == copied


def test_rows_of_their_own_are_not_loaded_twice_into_one_dataset(database, connection, write):
    path = str(write(draw_crowd(1, people=600, instants=1).rows()))
    crs = ("--crs", "EPSG:32610", "--srid", "32610")
    words = ("load", "trajectories", path, "--dataset", "first", "--subject", "-", *crs)
    assert call(database, *words).code == 0
    demand_refused(call(database, *words), 2, "'first'", "--append", "--replace")
    demand_refused(call(database, *words, "--append"), 3, "600 of the 600 rows", "one more person")
    assert connection.execute("SELECT count(*) FROM dbanon.trajectory").fetchone() == (600,)


def test_what_is_written_by_hand_is_recognised_too(connection, write):
    _load(connection, write(draw_crowd(1).rows()), "first")
    record_release(connection, "first")
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('second', 32610, 1, 1)")
    connection.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) "
        "SELECT d.dataset_id, 'x' || t.subject, t.path FROM dbanon.trajectory t, dbanon.dataset d "
        "WHERE d.name = 'second'"
    )
    assert [dataset for dataset, _ in _find_copied(connection, "second")] == ["first"]


def test_two_copies_loaded_at_once_are_recognised_at_publication(database, connection, write):
    walk = draw_crowd(1)
    paths = {name: write(replace(walk, name=name).rows(), name=f"{name}.csv") for name in ("a", "b")}
    with (
        psycopg.connect(database) as first,
        psycopg.connect(database) as second,
        first.transaction(),
        second.transaction(),
    ):
        # Neither sees what the other has not committed.
        assert _load(first, paths["a"], "first") == []
        assert _load(second, paths["b"], "second") == []
    record_release(connection, "first")
    assert [dataset for dataset, _ in _find_copied(connection, "second")] == ["first"]
    assert _find_copied(connection, "first") == []


@pytest.mark.parametrize("allowed", [False, True])
def test_a_copy_in_another_population_is_recognised_though_both_are_published_at_once(
    database, connection, write, allowed
):
    walk = draw_crowd(1)
    _load(connection, write(walk.rows()), "first")
    _load(connection, write(replace(walk, name="b").rows(), name="b.csv"), "second", population="other")
    with open_database(database) as operator:
        params = {"k": 5, "step_s": 60, "instants": 5}
        one, two = (operator.run("tp-aware", dataset=d, params=params).run_id for d in ("first", "second"))
    reason = ", allow_overlap => true, reason => 'read by one team alone'" if allowed else ""
    with psycopg.connect(database) as first:
        first.execute("SELECT dbanon.publish(%s, 'one')", [one])
        thread, found = start_statement(database, f"SELECT dbanon.publish({two}, 'two'{reason})")
        waiting = f"SELECT 1 FROM pg_locks WHERE NOT granted AND {here.LOCKS}"
        while not connection.execute(waiting).fetchone() and thread.is_alive():
            connection.rollback()
        first.commit()
    thread.join(30)
    assert (found == ["DA010"]) is not allowed
    recorded = connection.execute("SELECT overlap -> 'copies' FROM dbanon.release WHERE name = 'two'").fetchall()
    assert recorded == ([(["first"],)] if allowed else [])


# ---- near copies -----------------------------------------------------------------------------------------------------


def _run_walks(database: str, path: Path, walks: list[Walk], method: str = "tp-aware", **params: object) -> RunResult:
    """Load people, whom the load takes for no copies, and run a method on them."""
    path.write_text("\n".join(["subject,time,x,y", *list_rows(walks)]) + "\n")
    with psycopg.connect(database, autocommit=True) as connection:
        assert _load(connection, path, "walks") == []
    with open_database(database) as operator:
        return operator.run(method, dataset="walks", params={"k": 2} | params)


WINDOWS = {"instants": 10}


@pytest.mark.parametrize(
    ("method", "params"),
    [("tp-aware", WINDOWS), ("kte", {"grid_s": 60, "grid_m": 50})],
    ids=lambda value: str(value)[:8],
)
def test_people_under_two_names_with_noise_are_published_for_a_reason_alone(
    database, connection, tmp_path, method, params
):
    rng = np.random.default_rng(1)
    walks = copy_walks(rng, [draw_walk(rng, 60) for _ in range(20)], "noise of 3 m")
    done = _run_walks(database, tmp_path / "walks.csv", walks, method, **params)
    assert done.verdict.figures["names_compared"] == done.verdict.figures["names_together"] == 40
    assert [notice for notice in done.notices if "40 of the 40" in notice and "reason" in notice]
    with expect_refusal("DA010", done.run_id, "walks"):
        connection.execute(f"SELECT dbanon.publish({done.run_id}, 'walks')")
    connection.execute(
        f"SELECT dbanon.publish({done.run_id}, 'walks', allow_overlap => true, reason => 'two phones each')"
    )
    found = connection.execute("SELECT overlap -> 'copies', overlap_reason FROM dbanon.release").fetchall()
    assert found == [(["walks"], "two phones each")]


def test_a_family_among_strangers_is_noticed_and_published_without_a_reason(database, connection, tmp_path):
    rng = np.random.default_rng(1)
    walks = [draw_walk(rng, 60) for _ in range(40)]
    walks[1:4] = [walks[0].move(x=rng.normal(0, 5, 60), y=rng.normal(0, 5, 60)) for _ in range(3)]
    done = _run_walks(database, tmp_path / "walks.csv", walks, **WINDOWS)
    assert done.verdict.figures["names_together"] == 4
    assert [notice for notice in done.notices if "4 of the 40" in notice and "reason" not in notice]
    connection.execute(f"SELECT dbanon.publish({done.run_id}, 'walks')")
    assert connection.execute("SELECT overlap, overlap_reason FROM dbanon.release").fetchall() == [(None, None)]


def test_strangers_are_not_noticed(database, tmp_path):
    rng = np.random.default_rng(1)
    done = _run_walks(database, tmp_path / "walks.csv", [draw_walk(rng, 60) for _ in range(40)], **WINDOWS)
    assert done.verdict.figures["names_compared"] == 40
    assert not done.verdict.figures["names_together"]
    assert not [notice for notice in done.notices if "names" in notice]


# ---- what is no copy -------------------------------------------------------------------------------------------------


def test_the_same_people_on_another_evening_are_no_copy(connection, write):
    walk = draw_crowd(1)
    _load(connection, write(walk.rows()), "first")
    later = replace(walk, name="b", t=walk.t + 86_400)
    assert _load(connection, write(later.rows()), "second") == []


@pytest.mark.many
@pytest.mark.parametrize("grid_m", [50, 1000, *(pytest.param(m, marks=pytest.mark.stress) for m in (1, 200, 500))])
@pytest.mark.parametrize("instants", [1, 50])
def test_other_people_on_a_coarse_grid_at_the_same_times_are_no_copy(connection, write, grid_m, instants):
    for seed, dataset in ((1, "first"), (2, "second")):
        other = replace(draw_crowd(seed, people=1500, instants=instants).on_grid(grid_m), name=dataset)
        assert _load(connection, write(other.rows()), dataset) == []


def test_a_few_fixes_in_common_are_no_copy(connection, write):
    walk = draw_crowd(1, people=60)
    few = [row for row in replace(walk, name="b").rows() if row.startswith("b7,")][:20]
    _load(connection, write(walk.rows()), "first")
    assert _load(connection, write(draw_crowd(2).rows(), few), "second") == []


# ---- the codes -------------------------------------------------------------------------------------------------------

EXPECTED = """
WITH seed AS (SELECT ('x' || encode(substring(key, 1, 8), 'hex'))::bit(64)::bigint AS seed FROM dbanon.installation),
fix AS (
    SELECT fix.subject, fix.trajectory_id, fix.seq, count(*) OVER (PARTITION BY fix.trajectory_id) AS fixes,
        hashfloat8extended(round(ST_Y(fix.position)), hashfloat8extended(round(ST_X(fix.position)),
            hashfloat8extended(round(extract(epoch FROM fix.t))::float8, seed))) AS h
    FROM dbanon.fix fix, seed),
beside AS (
    SELECT *, lag(h) OVER w AS before, lead(h) OVER w AS after FROM fix
    WINDOW w AS (PARTITION BY trajectory_id ORDER BY seq))
SELECT dbanon_internal.hash_person((SELECT key FROM dbanon.population), subject),
    CASE WHEN fixes < 3 THEN h ELSE hashint8extended(h, hashint8extended(before, after)) END
FROM beside
WHERE CASE WHEN fixes < 3 THEN h % 8 = 0 ELSE h % 64 = 0 AND before IS NOT NULL AND after IS NOT NULL END
"""


def test_codes_are_those_of_three_successive_fixes_or_of_the_one_or_two_there_are(connection, write):
    walk, pairs, single = (
        draw_crowd(1),
        replace(draw_crowd(2, 90, 2), name="p"),
        replace(draw_crowd(3, 90, 1), name="s"),
    )
    _load(connection, write(walk.rows(), pairs.rows(), single.rows()), "first")
    expected = set(connection.execute(EXPECTED).fetchall())
    assert len(expected) > 60
    assert _read_codes(connection, "first") == expected


def test_codes_go_with_data_that_were_never_published(connection, write):
    path = write(draw_crowd(1).rows())
    _load(connection, path, "first")
    kept = _read_codes(connection, "first")
    connection.execute("UPDATE dbanon.trajectory SET path = path")
    assert _read_codes(connection, "first") == kept
    connection.execute("UPDATE dbanon.trajectory SET subject = 'x' || subject")
    renamed = _read_codes(connection, "first")
    assert not renamed & kept
    assert {code for _, code in renamed} == {code for _, code in kept}
    _load(connection, path, "first", mode="replace")
    assert _read_codes(connection, "first") == kept
    connection.execute("DELETE FROM dbanon.trajectory WHERE subject LIKE 'a1%'")
    assert _read_codes(connection, "first") < kept
    connection.execute("TRUNCATE dbanon.trajectory")
    assert _read_codes(connection, "first") == set()
    _load(connection, path, "first", mode="append")
    connection.execute("DELETE FROM dbanon.dataset")
    assert connection.execute("SELECT count(*) FROM dbanon.fix_code").fetchone() == (0,)


def test_codes_of_what_was_published_stay(connection, write):
    _load(connection, write(draw_crowd(1).rows()), "first")
    kept = _read_codes(connection, "first")
    record_release(connection, "first")
    connection.execute("DELETE FROM dbanon.trajectory")
    connection.execute("TRUNCATE dbanon.trajectory")
    assert _read_codes(connection, "first") == kept
    assert _load(connection, write(replace(draw_crowd(1), name="b").rows()), "second") == ["first"]


def test_codes_follow_a_dataset_into_another_population(connection, write):
    walk = draw_crowd(1)
    _load(connection, write(walk.rows()), "first")
    _load(connection, write(walk.rows()), "second", population="b")
    first = _read_codes(connection, "first")
    assert not first & _read_codes(connection, "second")
    more = replace(draw_crowd(2), name="x").rows()
    assert _load(connection, write(more), "second", mode="append", population="default") == []
    assert first < _read_codes(connection, "second")


@pytest.mark.stress
def test_of_very_many_codes_a_sample_is_compared(connection, write):
    for seed, dataset in enumerate(("first", "second", "third")):
        # Each has fixes of its own, so that only the codes below are shared.
        _load(connection, write(draw_crowd(seed, people=2, instants=3).rows()), dataset, population=dataset)
        record_release(connection, dataset)
    codes = "SELECT d, d * 100 + i % 10, hashint8extended(i, s) FROM generate_series(1, 450000) i"
    connection.execute(f"INSERT INTO dbanon.fix_code {codes}, (VALUES (1, 1), (2, 1), (3, 2)) v (d, s)")
    assert _find_copied(connection, "second") == [("first", 10)]
    assert _find_copied(connection, "third") == []
