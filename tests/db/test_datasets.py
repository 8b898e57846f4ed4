"""Datasets: listed, a load taken back, what is old deleted, and dropped; what releases promise stays measured."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psycopg
import pytest

from dbanon import load
from dbanon.load import retention
from dbanon.options.loading import LoadingTrajectories, Mode
from dbanon.runs import stored
from tests import importing
from tests.db.test_forget import _ELSEWHERE, NAME, find_holding, write_everywhere
from tests.facts import demand_named, expect_refusal
from tests.reading import collect_notices, read_value

Login = Callable[[str], str]
HALF_PAST = "2008-06-04 08:00:30+00"  # between the two fixes of each of the run of ten people
TABLES = ("trajectory", "request", "site", "poi", "cell", "quasi_identifier")


@pytest.fixture
def filled(own: psycopg.Connection) -> psycopg.Connection:
    """Ten people, of whom one is called NAME, with a live release, a withdrawn one, and runs never published."""
    write_everywhere(own)
    own.execute("UPDATE dbanon.trajectory SET load_id = 901; UPDATE dbanon.request SET load_id = 902")
    return own


@pytest.fixture
def withdrawn(filled: psycopg.Connection) -> psycopg.Connection:
    filled.execute("SELECT dbanon.unpublish('ten')")
    return filled


def erase_rows(connection: psycopg.Connection, call: str, *given: object) -> dict[str, int]:
    return dict(connection.execute(f"SELECT what, rows FROM dbanon.{call}", given).fetchall())  # type: ignore[arg-type]


def forget(connection: psycopg.Connection, before: object, dataset: str = "ten") -> dict[str, int]:
    return erase_rows(connection, "forget_before(%s, %s)", dataset, before)


def drop(connection: psycopg.Connection, dataset: str | None = "ten") -> dict[str, int]:
    return erase_rows(connection, "drop_dataset(%s)", dataset)


def select_some(counts: dict[str, int]) -> dict[str, int]:
    return {what: rows for what, rows in counts.items() if rows}


def count_tables(connection: psycopg.Connection, *tables: str) -> list[int]:
    return [int(str(read_value(connection, f"SELECT count(*) FROM dbanon.{table}"))) for table in tables]


def write(path: Path, *fixes: tuple[str, int], x: float = 8.2) -> Path:
    rows = "".join(f"{subject},{1212566400 + t},{x},{53.1 + t / 1e6}\n" for subject, t in fixes)
    path.write_text(f"subject,time,x,y\n{rows}")
    return path


def write_work(connection: psycopg.Connection) -> None:
    connection.execute(
        "UPDATE dbanon.run SET todo = 'verify', worker = 'host 1', held_by = dbanon_internal.hold_lock()"
        " WHERE run_id = 1"
    )


# ---- the list --------------------------------------------------------------------------------------------------------


def test_a_dataset_is_listed_with_what_is_in_it(filled: psycopg.Connection) -> None:
    filled.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('empty', 32632, 2, 60)")
    empty, ten = retention.list_datasets(filled)
    assert ten == {
        "name": "ten",
        "population": "default",
        "subjects": 10,
        "trajectories": 10,
        "fixes": 20,
        "since": datetime(2008, 6, 4, 8, 0, tzinfo=UTC),
        "until": datetime(2008, 6, 4, 8, 1, tzinfo=UTC),
        "srid": 32610,
        "grid_m": 1.0,
        "grid_s": 60,
        "settle_s": 900,
        "bytes": 10 * (150 + int(str(read_value(filled, "SELECT max(pg_column_size(path)) FROM dbanon.trajectory")))),
        "last_load": 902,
        "last_loaded_at": read_value(filled, "SELECT max(loaded_at) FROM dbanon.load"),
        "last_loaded_by": read_value(filled, "SELECT session_user"),
        "live_releases": 1,
        "releases": 2,
    }
    nothing = ("subjects", "trajectories", "fixes", "bytes", "live_releases", "releases")
    assert [empty[name] for name in nothing] == [0] * 6
    assert [empty[name] for name in ("since", "until", "last_load", "last_loaded_at")] == [None] * 4
    assert retention.list_datasets(filled, "ten") == [ten]
    assert retention.list_datasets(filled, "eleven") == []


# ---- loads -----------------------------------------------------------------------------------------------------------


def test_every_row_has_the_number_of_the_load_it_came_with(town: psycopg.Connection) -> None:
    importing.make_shops(town, ("cafe", "POINT(8.2 53.1)"))
    importing.make_areas(town, ("a", importing.SQUARE))
    importing.make_calls(town, ("s", 1212566400.0, "x", "1"))
    importing.make_seen(town, ("s", 1212566400.0))
    importing.make_table(
        town, "gps", "subject text, time float8, geom geometry", [("n", 1212566400, "SRID=4326;POINT(8.2 53.1)")]
    )
    importing.make_table(
        town, "yards", "subject text, time float8, geom geometry", [("y", 1212566400, f"SRID=4326;{importing.SQUARE}")]
    )
    more = "SELECT * FROM dbanon.import_trajectories('public.{}', dataset => 'town', mode => 'append'"
    made = [
        ("poi", importing.POIS),
        ("cell", importing.CELLS),
        ("request", importing.CALLS),
        ("quasi_identifier", importing.SIGHTINGS),
        ("site", "SELECT * FROM dbanon.import_sites('public.shops', dataset => 'town'"),
        ("trajectory", more.format("gps")),
        ("trajectory", more.format("yards")),
    ]
    for table, statement in made:
        number = town.execute(f"{statement})").fetchone()[0]  # type: ignore[arg-type, index]
        assert read_value(town, f"SELECT count(*) FROM dbanon.{table} WHERE load_id = {number}") == 1
        assert read_value(town, f"SELECT kind IS NOT NULL FROM dbanon.load WHERE load_id = {number}") is True
        assert erase_rows(town, "drop_load(%s)", number)["quarantined rows"] == 0
        assert read_value(town, f"SELECT count(*) FROM dbanon.{table} WHERE load_id IS NOT NULL") == 0
    assert count_tables(town, "trajectory") == [410]  # which came with no load


def test_files_that_were_loaded_together_are_taken_back_together(
    connection: psycopg.Connection, tmp_path: Path
) -> None:
    early, late = (("a", 0), ("b", 0), ("b", -(10**12))), (("a", 60),)
    paths = [write(tmp_path / "early.csv", *early), write(tmp_path / "late.csv", *late)]
    report = load.load_trajectories(connection, paths, LoadingTrajectories(time_unit="s", dataset="d"))
    other = load.load_trajectories(
        connection,
        [write(tmp_path / "c.csv", ("c", 0))],
        LoadingTrajectories(time_unit="s", dataset="d", mode="append"),
    )
    first, second, third = connection.execute("SELECT load_id, part_of FROM dbanon.load ORDER BY load_id").fetchall()
    assert first == (report.load_id, None)
    assert second[1] == report.load_id
    assert third == (other.load_id, None)
    taken, heard = retention.drop_load(connection, second[0])
    assert select_some(taken) == {"trajectories": 2, "quarantined rows": 1}
    assert heard == ()
    assert read_value(connection, "SELECT string_agg(subject, ',') FROM dbanon.trajectory") == "c"
    assert read_value(connection, "SELECT array_agg(dropped_at IS NULL ORDER BY load_id) FROM dbanon.load") == [
        False,
        False,
        True,
    ]
    assert retention.list_datasets(connection)[0]["last_load"] == other.load_id
    for number in (first[0], second[0], 99, None):
        with expect_refusal("DA001", f"load {number or 'NULL'}"):
            erase_rows(connection, "drop_load(%s)", number)
    audit = "SELECT dataset, (detail ->> 'load_id')::bigint FROM dbanon.audit WHERE action = 'drop_load'"
    assert connection.execute(audit).fetchall() == [("d", report.load_id)]


def test_rows_that_are_their_own_subjects_are_never_numbered_like_those_of_a_load_that_was_taken_back(
    connection: psycopg.Connection, tmp_path: Path
) -> None:
    def numbers(mode: Mode, x: float) -> tuple[int, str]:
        path = write(tmp_path / f"{x}.csv", ("", 0), ("", 60), x=x)
        report = load.load_trajectories(
            connection, [path], LoadingTrajectories(time_unit="s", dataset="d", mode=mode, subject="-")
        )
        query = (
            f"SELECT string_agg(subject, ',' ORDER BY subject) FROM dbanon.trajectory WHERE load_id = {report.load_id}"
        )
        return report.load_id, str(read_value(connection, query))

    first, _ = numbers("create", 8.2)
    _, kept = numbers("append", 8.21)
    retention.drop_load(connection, first)
    assert kept == "000000000003,000000000004"
    assert numbers("append", 8.22)[1] == "000000000005,000000000006"


_LOADED = """
INSERT INTO dbanon.load (load_id, dataset_id, kind, source, rows_read, rows_kept) VALUES (70, 1, 'places', 'f', 1, 1);
UPDATE dbanon.trajectory SET load_id = 70 WHERE trajectory_id = 100;
"""


def test_runs_that_may_have_read_a_load_go_with_it_unless_they_were_published(own: psycopg.Connection) -> None:
    before = (
        "INSERT INTO dbanon.run (dataset_id, method, algorithm, status) VALUES (1, 'tp-aware', 'traj-anon', 'failed')"
    )
    own.execute(before)
    own.execute("UPDATE dbanon.run SET finished_at = now() WHERE run_id <> 1")
    own.execute(_LOADED)
    own.execute(before.replace("status)", "status, todo)").replace("'failed')", "'queued', 'compute')"))
    own.execute("UPDATE dbanon.run SET started_at = '2008-06-05', finished_at = now() WHERE run_id = 1")
    assert select_some(erase_rows(own, "drop_load(70)")) == {"trajectories": 1, "runs dropped": 1}
    assert own.execute("SELECT status FROM dbanon.run ORDER BY run_id").fetchall() == [("failed",), ("queued",)]
    assert count_tables(own, "trajectory", "membership", "region", "period", "record") == [9, 0, 0, 0, 0]


def test_a_load_stays_while_a_release_from_after_it_is_live(
    own: psycopg.Connection, verify: Callable[[psycopg.Connection], None]
) -> None:
    own.execute(_LOADED)
    verify(own)
    own.execute("UPDATE dbanon.run SET finished_at = now()")
    own.execute("SELECT dbanon.publish(1, 'ten')")
    own.execute(_LOADED.splitlines()[1].replace("70", "71"))
    with expect_refusal("DA007", "load 70", "ten", "SELECT dbanon.unpublish('ten')"):
        erase_rows(own, "drop_load(70)")
    assert count_tables(own, "trajectory") == [10]
    assert select_some(erase_rows(own, "drop_load(71)")) == {}  # from after the release
    own.execute("SELECT dbanon.unpublish('ten')")
    assert select_some(erase_rows(own, "drop_load(70)")) == {"trajectories": 1}
    assert count_tables(own, "run", "grouping") == [1, 2]


# ---- retention -------------------------------------------------------------------------------------------------------


def test_what_is_older_goes_and_names_go_with_the_last_of_their_data(filled: psycopg.Connection) -> None:
    filled.execute(_ELSEWHERE.replace(NAME, "kept"))  # type: ignore[arg-type]
    filled.execute("ANALYZE")
    assert len(find_holding(filled)) > 5
    counted = forget(filled, datetime.now(UTC))
    assert counted == {
        "trajectories": 10,
        "trajectories cut": 0,
        "fixes": 20,
        "requests": 2,
        "quasi-identifiers": 2,
        "runs dropped": 2,
        "quarantined rows": 8,
        "names of sources": 2,
    }
    assert [where for where in find_holding(filled) if "grouping" not in where] == []
    assert filled.execute("SELECT run_id FROM dbanon.run ORDER BY run_id").fetchall() == [(1,), (202,)]
    assert count_tables(filled, "release", "grouping", "cloak") == [3, 5, 4]
    assert read_value(filled, "SELECT count(*) FROM dbanon.fix_code WHERE code IN (64, 128)") == 4
    assert count_tables(filled, "trajectory", "request", "quasi_identifier", "quarantine") == [1, 1, 1, 1]
    [line] = filled.execute("SELECT dataset, detail FROM dbanon.audit WHERE action = 'forget_before'").fetchall()
    assert line[0] == "ten"
    assert {what: line[1][what] for what in counted} == counted


def test_a_trajectory_is_cut_and_becomes_a_point_where_one_fix_is_left(filled: psycopg.Connection) -> None:
    filled.execute(
        "UPDATE dbanon.trajectory SET path = ST_GeomFromText("
        "'LINESTRING M (1 2 1212566400.25, 3 4 1212566430, 5 6 1212566460.5)', 32610) WHERE trajectory_id = 105"
    )
    assert select_some(forget(filled, HALF_PAST)) == {"trajectories cut": 10, "fixes": 10, "runs dropped": 2}
    shapes = "SELECT ST_AsText(path), ST_SRID(path) FROM dbanon.trajectory WHERE trajectory_id IN (101, 105) ORDER BY 1"
    assert filled.execute(shapes).fetchall() == [
        ("LINESTRING M (3 4 1212566430,5 6 1212566460.5)", 32610),
        ("POINT M (11 1 1212566460)", 32610),
    ]
    assert count_tables(filled, "request", "quasi_identifier") == [2, 2]


def test_exactly_the_fixes_from_the_time_on_are_left(own: psycopg.Connection, rng: np.random.Generator) -> None:
    own.execute("DELETE FROM dbanon.trajectory")
    for number in range(60):
        times = np.sort(rng.choice(200, rng.integers(1, 9), replace=False)) + rng.choice([0, 0.25])
        points = [
            f"{x} {y} {1212566400 + t}" for t, (x, y) in zip(times, rng.integers(0, 9, (len(times), 2)), strict=True)
        ]
        path = f"LINESTRING M ({','.join(points)})" if len(points) > 1 else f"POINT M ({points[0]})"
        insert = "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (1, %s, ST_GeomFromText(%s, 32610))"
        own.execute(insert, [f"s{number}", path])
    fixes = "SELECT trajectory_id, t, ST_AsText(position) FROM dbanon.fix WHERE t >= %s ORDER BY 1, 2"
    before = datetime.fromtimestamp(1212566400 + int(rng.integers(20, 200)), UTC)
    kept, every = own.execute(fixes, [before]).fetchall(), own.execute(fixes, ["-infinity"]).fetchall()
    assert forget(own, before)["fixes"] == len(every) - len(kept) > 0
    assert own.execute(fixes, ["-infinity"]).fetchall() == kept
    assert select_some(forget(own, before)) == {}


def test_a_run_is_dropped_for_its_rows_or_for_its_members(own: psycopg.Connection) -> None:
    own.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)"
        " VALUES (200, 1, 'late', 'SRID=32610;POINT M (1 1 1212566460)');"
        "INSERT INTO dbanon.run (run_id, dataset_id, method, algorithm) OVERRIDING SYSTEM VALUE"
        " SELECT i, 1, 'tp-aware', 'traj-anon' FROM generate_series(2, 4) i;"
        "INSERT INTO dbanon.membership VALUES (2, 1, 100), (3, 1, 200), (4, 1, 200);"
        "INSERT INTO dbanon.period VALUES (4, 1, '[2008-06-04 08:00+00,2008-06-04 08:01+00)'),"
        " (3, 1, '[2008-06-04 08:01+00,2008-06-04 08:02+00)')"
    )
    assert forget(own, HALF_PAST)["runs dropped"] == 3
    assert own.execute("SELECT run_id FROM dbanon.run").fetchall() == [(3,)]


def test_live_releases_from_before_the_time_are_named_and_stay(filled: psycopg.Connection) -> None:
    heard = collect_notices(filled)
    shown = "SELECT count(*) FROM published.ten"
    assert select_some(forget(filled, "2008-06-04 08:00+00")) == {}
    assert heard == []
    forget(filled, HALF_PAST)
    assert len(heard) == 1
    demand_named(heard[0], "ten", "SELECT dbanon.unpublish('ten')")
    assert read_value(filled, shown) == 4
    filled.execute("SELECT dbanon.unpublish('ten')")
    heard.clear()
    forget(filled, HALF_PAST)
    assert heard == []


def test_rejected_rows_and_sources_go_with_the_last_row_of_their_load(
    connection: psycopg.Connection, tmp_path: Path
) -> None:
    bad = ("z", -(10**12))
    early = write(tmp_path / "early.csv", ("a", 0), ("a", 10), bad)
    late = write(tmp_path / "late.csv", ("a", 20), ("b", 50), bad)
    load.load_trajectories(connection, [early], LoadingTrajectories(time_unit="s", dataset="d"))
    load.load_trajectories(connection, [late], LoadingTrajectories(time_unit="s", dataset="d", mode="append"))
    connection.execute("UPDATE dbanon.load SET loaded_at = '2009-01-01'")
    sources = (
        "SELECT source, (SELECT count(*) FROM dbanon.quarantine q WHERE q.load_id = l.load_id) FROM dbanon.load l"
        " ORDER BY load_id"
    )
    assert forget(connection, "2008-06-04 08:00:05+00", "d")["quarantined rows"] == 0
    assert forget(connection, "2008-06-04 08:00:15+00", "d")["quarantined rows"] == 1
    assert connection.execute(sources).fetchall() == [("forgotten", 0), (str(late), 1)]
    connection.execute("UPDATE dbanon.load SET loaded_at = '2008-06-04 08:00:10+00'")
    assert forget(connection, "2008-06-04 08:00:15+00", "d")["names of sources"] == 1
    assert connection.execute(sources).fetchall() == [("forgotten", 0), ("forgotten", 0)]
    assert read_value(connection, "SELECT string_agg(subject, ',' ORDER BY subject) FROM dbanon.trajectory") == "a,b"


@pytest.mark.many
@pytest.mark.parametrize("before", [None, "infinity", "-infinity", "2999-01-01 00:00+00"])
def test_a_time_that_is_not_in_the_past_is_refused(filled: psycopg.Connection, before: str | None) -> None:
    with expect_refusal("DA011", "infinity" if before and "inf" in before else (before or "NULL")[:10]):
        forget(filled, before)
    assert count_tables(filled, "trajectory") == [10]


def test_a_name_that_returns_after_its_data_went_is_the_person_it_was(filled: psycopg.Connection) -> None:
    known = (
        "SELECT count(*) FROM dbanon.grouping"
        f" WHERE dbanon_internal.hash_person(dbanon_internal.find_dataset_key(1), '{NAME}') = ANY (people)"
    )
    forget(filled, datetime.now(UTC))
    assert read_value(filled, known) == 2
    assert select_some(erase_rows(filled, "forget_subject('ten', %s)", NAME))["places in groups of releases"] == 2
    assert read_value(filled, known) == 0


# ---- the whole of it -------------------------------------------------------------------------------------------------


def test_a_dataset_that_was_never_published_leaves_nothing_but_the_audit(own: psycopg.Connection) -> None:
    own.execute("INSERT INTO dbanon.fix_code VALUES (1, 1, 64)")
    own.execute(_LOADED)
    assert select_some(drop(own)) == {"trajectories": 10, "requests": 2, "runs dropped": 1}
    assert (
        count_tables(own, *TABLES, "dataset", "load", "run", "cloak", "membership", "verification", "fix_code")
        == [0] * 13
    )
    lines = own.execute(
        "SELECT action, detail FROM dbanon.audit WHERE dataset = 'ten' ORDER BY audit_id DESC"
    ).fetchall()
    assert [action for action, _ in lines[:2]] == ["delete", "drop"]
    assert lines[1][1]["trajectories"] == 10
    with expect_refusal("DA001", "ten"):
        drop(own)


def test_of_a_published_dataset_stays_what_later_releases_are_measured_against(withdrawn: psycopg.Connection) -> None:
    card = read_value(withdrawn, "SELECT dbanon.release_card('ten')")
    kept = ("run", "release", "grouping", "exposure", "fix_code", "verification")
    before = count_tables(withdrawn, *kept)
    dropped = drop(withdrawn)
    assert select_some(dropped) == {
        "trajectories": 10,
        "requests": 2,
        "quasi-identifiers": 2,
        "quarantined rows": 8,
        "runs dropped": 2,
    }
    assert count_tables(withdrawn, *kept) == [1, *before[1:]]
    gone = (*TABLES, "load", "quarantine", "region", "period", "record", "membership", "hiding", "atom")
    assert count_tables(withdrawn, *gone) == [0] * len(gone)
    assert isinstance(card, dict)
    assert read_value(withdrawn, "SELECT dbanon.release_card('ten')") == {**card, "dataset": "ten (dropped 1)"}
    assert read_value(withdrawn, "SELECT count(DISTINCT dataset) FROM dbanon.releases") == 1
    assert [where for where in find_holding(withdrawn) if "grouping" not in where] == []


def test_its_name_is_free_and_nothing_finds_it(withdrawn: psycopg.Connection) -> None:
    drop(withdrawn)
    assert retention.list_datasets(withdrawn) == []
    for name in ("ten", "ten (dropped 1)"):
        for call in (
            "submit_run({}, 'tp-aware', '{{\"k\": 5}}')",
            "plan_run({}, 'tp-aware')",
            "forget_subject({}, 'p1')",
            "forget_before({}, '2009-01-01')",
            "drop_dataset({})",
        ):
            with expect_refusal("DA001", name):
                withdrawn.execute("SELECT dbanon." + call.format(f"'{name}'"))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="must exist"):
            stored.find_dataset(withdrawn, name)
    for call in ("verify_run(1)", "publish(1, 'again')"):
        with pytest.raises(psycopg.Error) as caught:
            withdrawn.execute(f"SELECT dbanon.{call}")  # type: ignore[arg-type]
        assert str(caught.value.sqlstate) in ("DA011", "DA005")
    assert read_value(withdrawn, "SELECT status FROM dbanon.run") == "verified"


def test_another_dataset_of_its_name_may_be_made_and_dropped_as_well(withdrawn: psycopg.Connection) -> None:
    drop(withdrawn)
    withdrawn.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('ten', 32632, 1, 60)")
    assert [row["srid"] for row in retention.list_datasets(withdrawn)] == [32632]
    assert select_some(drop(withdrawn)) == {}
    assert withdrawn.execute("SELECT name FROM dbanon.dataset").fetchall() == [("ten (dropped 1)",)]


def test_a_dataset_with_a_live_release_stays(filled: psycopg.Connection) -> None:
    with expect_refusal("DA007", "ten", "SELECT dbanon.unpublish('ten')") as caught:
        drop(filled)
    assert "other" not in str(caught.value)  # which was withdrawn
    assert count_tables(filled, "trajectory", "run") == [10, 3]


def test_a_failure_on_the_way_undoes_all_of_it(withdrawn: psycopg.Connection) -> None:
    withdrawn.execute(
        "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$;"
        "CREATE TRIGGER fail BEFORE DELETE ON dbanon.hiding FOR EACH STATEMENT EXECUTE FUNCTION public.fail();"
        "INSERT INTO dbanon.hiding SELECT 102, 1, NULL, '{1}'; "
    )
    tables = (*TABLES, "dataset", "run", "load", "quarantine", "cloak", "membership", "audit")
    before = count_tables(withdrawn, *tables)
    for call in ("drop_dataset('ten')", "forget_before('ten', now())"):
        with pytest.raises(psycopg.errors.DiskFull):
            erase_rows(withdrawn, call)
        assert count_tables(withdrawn, *tables) == before


# ---- who and when ----------------------------------------------------------------------------------------------------

CALLS = ("drop_load(70)", "forget_before('ten', now())", "drop_dataset('ten')")


def test_nothing_goes_while_a_run_of_the_dataset_is_worked_on(own: psycopg.Connection) -> None:
    own.execute(_LOADED)
    write_work(own)
    for call in CALLS:
        with expect_refusal("DA013", "run 1", "SELECT dbanon.cancel_run(1)"):
            erase_rows(own, call)


def test_an_operator_lists_empties_and_drops(connection: psycopg.Connection, operator: psycopg.Connection) -> None:
    connection.execute(_LOADED)
    assert len(retention.list_datasets(operator)) == 1
    for call in CALLS:
        erase_rows(operator, call)
    assert count_tables(connection, "dataset") == [0]
    who = read_value(operator, "SELECT session_user")
    audit = "SELECT login FROM dbanon.audit WHERE action = ANY (%s) AND run_id IS NULL"
    assert connection.execute(audit, [["drop_load", "forget_before", "drop"]]).fetchall() == [(who,)] * 3


@pytest.mark.parametrize("role", ["dbanon_worker", "dbanon_analyst"])
def test_only_operators_take_data_away(connection: psycopg.Connection, run: int, login: Login, role: str) -> None:
    connection.execute(_LOADED)
    with psycopg.connect(login(role), autocommit=True) as other:
        for call in CALLS:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                erase_rows(other, call)


@pytest.mark.parametrize("role", ["dbanon_operator", "dbanon_worker", "dbanon_analyst"])
def test_no_role_hashes_a_name(run: int, login: Login, role: str) -> None:
    with (
        psycopg.connect(login(role), autocommit=True) as other,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        other.execute("SELECT dbanon_internal.find_dataset_key(1)")
