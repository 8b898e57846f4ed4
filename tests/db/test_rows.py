"""Reading and writing: what went in comes out, and what the server refuses becomes one sentence."""

import dataclasses
import json
import signal
import threading
import time
from threading import Timer

import numpy as np
import psycopg
import pytest

from dbanon import releases
from dbanon.attacks import Clause, Verdict
from dbanon.base.cloaks import Cloaks
from dbanon.base.errors import DataError, ParameterError, SchemaMismatch, StoreError, VerificationFailed
from dbanon.options.publishing import Publishing, Submitting
from dbanon.postgres import arrow, sqlstate
from dbanon.postgres.connection import connect, translate_errors
from dbanon.runs import _requests, queue, reading, stored, writing
from tests.facts import demand_named, expect_refusal
from tests.reading import read_value


def _make_cloaks(count, *, extras=(), extra=None):
    number = np.arange(count)
    low = number.astype(float) * 10 - 500
    return Cloaks.from_rows(
        record_id=number // 3 + 1,
        start=1_212_562_800 + number * 60,
        end=1_212_562_860 + number * 60,
        bounds=np.column_stack([low, low + 1, low + 5, low + 8]),
        crowd=np.full(count, 5, np.int32),
        subjects=np.full(count, 4, np.int32),
        member_record=number // 3 + 1,
        member_trajectory=number + 100,
        suppressed={"subjects": {}},
        metrics={},
        extra=extra,
        extras=extras,
    )


@pytest.fixture
def dataset(connection):
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('d', 32610, 2.5, 30)")
    return stored.find_dataset(connection, "d")


@pytest.fixture
def new_run(connection, dataset):
    return queue.submit_run(
        connection, "tp-aware", Submitting(dataset=dataset.name, algorithm="traj-anon", params={"k": 5}, seed=7)
    )


@pytest.fixture
def claim(connection, new_run):
    return queue.claim_run(connection, "here", new_run)


def _read(url, dataset_id):
    with reading.open_reader(url) as reader:
        return reader.read_trajectories(dataset_id)


def _read_evidence(url, run_id):
    with reading.open_reader(url) as reader:
        return reader.read_evidence(run_id)[0]


def _add(connection, dataset, subject, wkt):
    query = "INSERT INTO dbanon.trajectory (dataset_id, subject, path) VALUES (%s, %s, ST_GeomFromText(%s, 32610))"
    connection.execute(query, [dataset.dataset_id, subject, wkt])


def test_trajectories_come_back_with_every_fix_in_order(database, connection, dataset):
    _add(connection, dataset, "b", "LINESTRING M (1 2 10, 3 4 20.25, 5 6 30)")
    _add(connection, dataset, "ä", "POINT M (7.5 8.5 11)")
    _add(connection, dataset, "a", "LINESTRING M (9 10 12, 11 12 13)")
    _add(connection, dataset, "b", "POINT M (13 14 15)")
    data = _read(database, dataset.dataset_id)
    assert data.offset.tolist() == [0, 3, 4, 6, 7]
    assert data.x.tolist() == [1, 3, 5, 7.5, 9, 11, 13]
    assert data.y.tolist() == [2, 4, 6, 8.5, 10, 12, 14]
    assert data.t.tolist() == [10, 20.25, 30, 11, 12, 13, 15]
    assert data.subject.tolist() == [1, 2, 0, 1]
    assert (data.srid, data.grid_m, data.grid_s) == (32610, 2.5, 30)
    assert not data.x.flags.writeable


def test_subject_codes_follow_the_texts_not_the_order_of_rows(database, connection, dataset):
    names = ["10", "9", "Z", "a", "é", "𝒳"]
    for name in reversed(names):
        _add(connection, dataset, name, "POINT M (0 0 0)")
    assert _read(database, dataset.dataset_id).subject.tolist() == [5, 4, 3, 2, 1, 0]


def test_many_trajectories_read_alike_in_arrow_and_in_sql(database, connection, dataset):
    connection.execute(
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path) "
        "SELECT %s, 's' || i %% 997, ST_SetSRID(ST_MakeLine(array_agg(ST_MakePointM(i + j, -i, j) ORDER BY j)), 32610) "
        "FROM generate_series(1, 20000) i, generate_series(0, 11) j GROUP BY i",
        [dataset.dataset_id],
    )
    data = _read(database, dataset.dataset_id)
    assert (len(data.trajectory_id), data.fixes, data.subjects) == (20_000, 240_000, 997)
    expected = connection.execute(
        "SELECT sum(ST_X(position)), sum(ST_Y(position)), sum(extract(epoch FROM t))::float8 FROM dbanon.fix"
    ).fetchone()
    assert (data.x.sum(), data.y.sum(), data.t.sum()) == expected


@pytest.mark.parametrize("most", [0, 16_000, 1 << 24])  # a whole block has some more than 16,000 bytes
def test_trajectories_stored_in_any_order_are_read_by_id_however_many_come_together(
    database, connection, dataset, monkeypatch, most
):
    monkeypatch.setattr(arrow, "_MAX_BLOCK_BYTES", most)
    query = (
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) "
        "SELECT i, %s, 's' || i %% 7, ST_SetSRID(ST_MakeLine(ST_MakePointM(i, 0, 1), ST_MakePointM(-i, 1, 2)), 32610) "
        "FROM generate_series(5000, 1, -1) i"
    )
    connection.execute(query, [dataset.dataset_id])
    data = _read(database, dataset.dataset_id)
    number = np.arange(1, 5001)
    assert data.trajectory_id.tolist() == number.tolist()
    assert data.subject.tolist() == (number % 7).tolist()
    assert data.x.tolist() == np.column_stack([number, -number]).ravel().tolist()
    assert data.t.tolist() == [1, 2] * 5000


def test_short_trajectories_come_together_beside_a_long_one(database, connection, dataset, monkeypatch):
    for people, fixes in ((2000, 3), (1, 100_000)):
        connection.execute(
            "INSERT INTO dbanon.trajectory (dataset_id, subject, path) SELECT %s, 's' || i, ST_SetSRID(ST_MakeLine("
            "array_agg(ST_MakePointM(j * 1.37, sin(j), j) ORDER BY j)), 32610)"
            " FROM generate_series(1, %s) i, generate_series(1, %s) j GROUP BY i",
            [dataset.dataset_id, people, fixes],
        )
    fetched, pieces = arrow._read_pieces, []

    def counted(*arguments):
        for piece in fetched(*arguments):
            pieces.append(piece)
            yield piece

    monkeypatch.setattr(arrow, "_read_pieces", counted)
    with connect(database) as session, arrow.open_snapshot(session) as snapshot:
        paths = arrow.read_paths(snapshot, dataset.dataset_id)
    assert np.diff(paths.offset).tolist() == [3] * 2000 + [100_000]
    assert paths.t.tolist() == [1, 2, 3] * 2000 + list(range(1, 100_001))
    assert len(pieces) < 20


def test_paths_that_the_server_holds_compressed_are_read_whole(database, connection, dataset):
    connection.execute(
        "ALTER TABLE dbanon.trajectory ALTER path SET STORAGE MAIN;"
        "INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT dataset_id, 's' || i, path FROM dbanon.dataset, generate_series(1, 20) i, (SELECT ST_SetSRID("
        "ST_MakeLine(array_agg(ST_MakePointM(0, 0, j) ORDER BY j)), 32610) AS path FROM generate_series(1, 5000) j) p"
    )
    assert connection.execute("SELECT sum(pg_column_size(path)) FROM dbanon.trajectory").fetchone()[0] < 24 * 50_000
    data = _read(database, dataset.dataset_id)
    assert data.offset.tolist() == list(range(0, 100_001, 5000))
    assert data.t.tolist() == list(range(1, 5001)) * 20


@pytest.mark.stress
@pytest.mark.parametrize("end", ["pg_terminate_backend", "pg_cancel_backend"])
def test_reading_that_is_ended_from_outside_is_an_error_of_the_store(database, connection, dataset, monkeypatch, end):
    """In the middle of it: most of the rows are still to come when the first batch is here."""
    connection.execute(
        "ALTER TABLE dbanon.trajectory ALTER path SET STORAGE EXTERNAL;"
        "WITH p AS MATERIALIZED (SELECT ST_SetSRID(ST_MakeLine(array_agg(ST_MakePointM(j, j, j) ORDER BY j)), 32610)"
        " AS path FROM generate_series(1, 150) j) INSERT INTO dbanon.trajectory (dataset_id, subject, path)"
        " SELECT dataset_id, 's' || i, path FROM dbanon.dataset, generate_series(1, 5000) i, p"
    )
    append = arrow._Columns.append
    ended = []

    def first_piece(self, rows):
        if not ended:
            query = (
                "SELECT pid, query FROM pg_stat_activity"
                " WHERE state = 'active' AND query ~ '^COPY ' AND datname = current_database()"
            )
            ((pid, _),) = connection.execute(query).fetchall()
            connection.execute(f"SELECT {end}(%s)", [pid])
            ended.append(pid)
        append(self, rows)

    monkeypatch.setattr(arrow._Columns, "append", first_piece)
    with pytest.raises(StoreError) as caught:
        _read(database, dataset.dataset_id)
    assert ended
    cancelled = caught.value.sqlstate == "57014"
    assert (cancelled, sqlstate.is_passing(caught.value)) == (end == "pg_cancel_backend", not cancelled)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_read_as_it_ends_everything(database):
    Timer(0.5, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), connect(database) as opened, arrow.open_snapshot(opened) as snapshot:
        arrow.read_table(snapshot, "SELECT pg_catalog.generate_series(1, 2000000000) AS i")
    assert time.monotonic() - began < 10


def test_an_empty_dataset_is_read_as_empty_arrays(database, dataset):
    with reading.open_reader(database) as reader:
        data = reader.read_trajectories(dataset.dataset_id)
        assert len(reader.read_inputs(dataset.dataset_id, ["requests"])["requests"].t) == 0
    assert (len(data.trajectory_id), data.fixes, data.offset.tolist()) == (0, 0, [0])


def test_reading_a_dataset_that_is_not_there_is_refused(database):
    with pytest.raises(ParameterError, match="dataset"):
        _read(database, 12345)


def test_requests_carry_the_codes_of_the_trajectories_and_sorted_contents(database, connection, dataset):
    for name in ("b", "c", "a"):
        _add(connection, dataset, name, "POINT M (0 0 0)")
    for sender, t, content in [("c", 5.5, '{"z": "1"}'), ("zz", 6, '{"b":"2"}'), ("a", 1, '{ "z" : "1" }')]:
        query = (
            "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (%s, %s, to_timestamp(%s), %s)"
        )
        connection.execute(query, [dataset.dataset_id, sender, t, content])
    with reading.open_reader(database) as reader:
        reader.read_trajectories(dataset.dataset_id)
        requests = reader.read_inputs(dataset.dataset_id, ["requests"])["requests"]
    assert requests.contents == ('{"b": "2"}', '{"z": "1"}')
    rows = sorted(zip(requests.t.tolist(), requests.subject.tolist(), requests.content.tolist(), strict=True))
    assert rows == [(1, 0, 1), (5.5, 2, 1), (6, -1, 0)]
    with reading.open_reader(database) as reader:
        alone = reader.read_inputs(dataset.dataset_id, ["requests"])["requests"]
    assert (alone.subject.tolist(), alone.content.tolist()) == (requests.subject.tolist(), requests.content.tolist())


def test_a_load_that_commits_between_two_reads_is_seen_neither_half_nor_whole(database, connection, dataset):
    def load(name):
        with connection.transaction():
            _add(connection, dataset, name, "POINT M (0 0 0)")
            connection.execute(
                "INSERT INTO dbanon.request (dataset_id, subject, sent_at, content) VALUES (%s, %s, now(), '{}')",
                [dataset.dataset_id, name],
            )

    load("b")
    with reading.open_reader(database) as reader:
        before = reader.read_dataset(dataset.dataset_id)
        load("a")
        data = reader.read_trajectories(dataset.dataset_id)
        load("c")
        requests = reader.read_inputs(dataset.dataset_id, ["requests"])["requests"]
        assert reader.read_dataset(dataset.dataset_id) == before
    assert (data.subject.tolist(), requests.subject.tolist()) == ([0], [0])
    with expect_refusal(StoreError, "dataset", "run it again"):
        stored.demand_unchanged(connection, before)
    with reading.open_reader(database) as reader:
        now = reader.read_dataset(dataset.dataset_id)
        assert len(reader.read_trajectories(dataset.dataset_id).t) == 3
        assert reader.read_inputs(dataset.dataset_id, ["requests"])["requests"].subject.tolist() == [1, 0, 2]
    stored.demand_unchanged(connection, now)


def test_cloaks_and_members_are_stored_as_they_are(connection, dataset, new_run):
    extras = ('{"requests": [{"a": "ü"}]}', '{"requests": []}')
    extra = np.array([-1, 0, 1, 0, -1, -1, 1])
    cloaks = _make_cloaks(7, extras=extras, extra=extra)
    with connection.transaction():
        writing.write_cloaks(connection, new_run, dataset, cloaks)
    rows = connection.execute(
        "SELECT record_id, seq, extract(epoch FROM lower(period))::bigint, extract(epoch FROM upper(period))::bigint, "
        "lower_inc(period), upper_inc(period), ST_XMin(region), ST_YMin(region), ST_XMax(region), ST_YMax(region), "
        "crowd, subjects, extra::text, ST_SRID(region), ST_OrderingEquals(ST_Normalize(region), "
        "ST_Normalize(ST_MakeEnvelope(ST_XMin(region), ST_YMin(region), ST_XMax(region), ST_YMax(region), 32610))) "
        "FROM dbanon.cloak WHERE run_id = %s ORDER BY period",
        [new_run],
    ).fetchall()
    for i, row in enumerate(rows):
        bounds = cloaks.bounds[i].tolist()
        text = extras[extra[i]] if extra[i] >= 0 else None
        assert row == (
            *(int(cloaks.record_id[i]), int(cloaks.seq[i]), int(cloaks.start[i]), int(cloaks.end[i])),
            *(True, False, *bounds, 5, 4, text, 32610, True),
        )
    assert len(rows) == 7
    members = connection.execute(
        "SELECT record_id, trajectory_id, period FROM dbanon.membership WHERE run_id = %s ORDER BY 2", [new_run]
    ).fetchall()
    assert members == [(i // 3 + 1, i + 100, None) for i in range(7)]


def test_cloaks_without_extra_and_none_at_all_are_written(connection, dataset, new_run):
    writing.write_cloaks(connection, new_run, dataset, _make_cloaks(4))
    assert read_value(connection, "SELECT count(*) FROM dbanon.cloak WHERE extra IS NULL") == 4
    writing.write_cloaks(connection, new_run, dataset, _make_cloaks(0))


def test_a_run_that_would_write_too_much_is_refused_before_it_writes(connection, dataset, new_run, monkeypatch):
    monkeypatch.setattr(writing, "LARGEST_RUN_BYTES", 1000)
    with expect_refusal(StoreError, "at most", "GB", "cloaks"):
        writing.write_cloaks(connection, new_run, dataset, _make_cloaks(9))
    assert read_value(connection, "SELECT count(*) FROM dbanon.cloak") == 0


def test_evidence_is_what_the_tables_hold(database, connection, run):
    evidence = _read_evidence(database, run)
    assert (evidence.method, evidence.algorithm, evidence.params["k"]) == ("tp-aware", "traj-anon", 5)
    order = np.lexsort((evidence.cloak_seq, evidence.cloak_record))
    assert evidence.cloak_record[order].tolist() == [1, 1, 2, 2]
    assert evidence.cloak_bounds[order][0].tolist() == [0, 0, 40, 90]
    assert (evidence.cloak_end_s - evidence.cloak_start_s == 60).all()
    assert evidence.cloak_rectangle.all()
    assert evidence.member_whole.all()
    assert sorted(evidence.member_trajectory.tolist()) == list(range(100, 110))
    assert evidence.published_request_record.tolist() == [1]
    assert sorted(evidence.request_subject.tolist()) == [0, 3]
    assert evidence.request_content.tolist() == [0, 0] == evidence.published_request_content.tolist() * 2
    assert evidence.trajectories.subjects == 10


def test_evidence_of_a_run_without_rows_is_empty_and_of_no_run_refused(database, new_run):
    assert len(_read_evidence(database, new_run).cloak_record) == 0
    with expect_refusal(ParameterError, "run 999"):
        _read_evidence(database, 999)


def test_a_run_moves_on_with_what_is_known_about_it(connection, dataset, new_run, claim):
    queue.set_status(connection, claim, "running", dataset_revision=dataset.revision)
    metrics = {"bundles": np.int64(3), "share": np.float64(0.5)}
    queue.set_status(connection, claim, "verified", metrics=metrics, timings={"total_s": 1.5}, peak_rss_mb=12.0)
    row = stored.find_run(connection, new_run)
    assert (row.status, row.dataset, row.params, row.seed) == ("verified", "d", {**row.params, "k": 5}, 7)
    assert row.metrics == {"bundles": 3, "share": 0.5}
    (listed,) = stored.list_runs(connection)
    assert listed["started_at"] <= listed["finished_at"]
    assert listed["releases"] is None
    query = (
        "SELECT dataset_revision = revision AND program_version <> '' "
        "FROM dbanon.run JOIN dbanon.dataset USING (dataset_id)"
    )
    assert read_value(connection, query)
    with pytest.raises(StoreError, match="lost"):  # it has ended
        queue.set_status(connection, claim, "failed", error="gone")
    with pytest.raises(ValueError, match="no columns"):
        queue.set_status(connection, claim, "failed", colour="red")


def test_a_verdict_is_stored_with_the_digest_it_is_about(connection, new_run):
    clause = Clause(name="crowd", passed=False, violations=2, sentence="Two are too few.")
    verdict = Verdict(attack="tp-aware", passed=False, figures={"records": 3}, clauses=(clause,))
    digest = stored.compute_digest(connection, new_run)
    stored.add_verification(connection, new_run, stored.Found(verdict, digest))
    row = connection.execute("SELECT run_id, attack, passed, digest FROM dbanon.verification").fetchone()
    assert row == (new_run, "tp-aware", False, digest)
    assert len(digest) == 32
    found = stored.find_latest_verdict(connection, new_run)
    assert (found.passed, found.figures) == (False, {"records": 3})
    assert [(c.name, c.passed, c.violations) for c in found.clauses] == [("crowd", False, 2)]


def check(connection, name):
    with translate_errors():
        releases.demand_publishable(connection, name, Publishing(replace=False))


def test_a_release_is_published_read_as_an_analyst_and_withdrawn(connection, run):
    check(connection, "ten_people")
    rows, notices = releases.publish(connection, run, "ten_people", Publishing())
    assert (rows, notices) == (4, ())
    names, shown = releases.read_first_rows(connection, "ten_people", 3)
    assert names[:4] == ["cloak_id", "record_id", "seq", "region"]
    assert len(shown) == 3
    assert shown[0][3].startswith("POLYGON")
    assert read_value(connection, "SELECT current_user") != "dbanon_analyst"
    assert stored.list_runs(connection)[0]["releases"] == "ten_people"
    with expect_refusal(ParameterError, "free", "already"):
        check(connection, "ten_people")
    releases.unpublish(connection, "ten_people")
    check(connection, "ten_people")


def test_what_a_superuser_made_of_a_releases_own_table_keeps_that_alone(connection, run):
    releases.publish(connection, run, "ten_people", Publishing())
    connection.execute("CREATE VIEW public.mine AS SELECT * FROM dbanon.release_1")
    (notice,) = releases.unpublish(connection, "ten_people")
    assert "number 1" in notice
    assert connection.execute("SELECT to_regclass('published.ten_people')").fetchone() == (None,)
    assert connection.execute("SELECT count(*) FROM public.mine").fetchone() == (4,)
    connection.execute("DROP VIEW public.mine")
    releases.publish(connection, run, "ten_people", Publishing())
    assert connection.execute("SELECT to_regclass('dbanon.release_1')").fetchone() == (None,)


def test_who_changes_a_releases_own_table_is_told_how_to_withdraw_it(connection, run):
    releases.publish(connection, run, "ten_people", Publishing())
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("DELETE FROM dbanon.release_1")
    demand_named(caught.value.diag.message_hint, "SELECT dbanon.unpublish('ten_people')")


def test_what_the_server_notes_about_a_release_is_handed_on(connection, run, verify):
    verify(connection)
    connection.execute("""UPDATE dbanon.verification SET figures = '{"requests_of_few_subjects": 2}'""")
    _, notices = releases.publish(connection, run, "ten_people", Publishing())
    assert len(notices) == 1
    assert ": 2. " in notices[0]


@pytest.mark.many
@pytest.mark.parametrize("name", ["", "Ten", "1st", "a-b", "select", 'a"b', "ü", "a" * 51, "a; drop table x"])
def test_names_that_would_need_quotes_are_refused_before_a_run_is_made(connection, name):
    with pytest.raises(ParameterError, match="letters"):
        check(connection, name)


def test_a_refused_publication_says_why_in_the_servers_sentence(connection, new_run):
    with pytest.raises(VerificationFailed, match="dbanon"), translate_errors():
        releases.publish(connection, new_run, "ten_people", Publishing())
    with pytest.raises(ParameterError), translate_errors():
        releases.publish(connection, 999, "ten_people", Publishing())
    with pytest.raises(ParameterError), translate_errors():
        releases.unpublish(connection, "nothing_there")


def test_an_unknown_dataset_or_run_is_named(connection, dataset):
    with expect_refusal(ParameterError, "'dd'", "'d'"):
        stored.find_dataset(connection, "dd")
    with expect_refusal(ParameterError, "run 77"):
        stored.find_run(connection, 77)


@pytest.mark.many
@pytest.mark.parametrize(
    ("state", "kind", "word"),
    [
        ("53100", StoreError, "disk"),
        ("57P01", StoreError, "lost"),
        ("08006", StoreError, "lost"),
        ("42501", StoreError, "rights"),
        ("3F000", SchemaMismatch, "db upgrade"),
        ("42P01", SchemaMismatch, "db upgrade"),
        ("22021", DataError, "NUL"),
        ("DA005", VerificationFailed, "secret"),
        ("DA002", ParameterError, "secret"),
        ("DA007", StoreError, "secret"),
        ("23514", StoreError, "SQLSTATE 23514"),
    ],
)
def test_a_sqlstate_becomes_a_sentence_and_only_our_own_words_are_quoted(connection, state, kind, word):
    statement = f"DO $$ BEGIN RAISE EXCEPTION 'secret' USING ERRCODE = '{state}', HINT = 'Do this.'; END $$"
    with pytest.raises(kind, match=word) as caught, translate_errors():
        connection.execute(statement)
    assert isinstance(caught.value.__cause__, psycopg.Error)
    assert ("secret" in str(caught.value)) == state.startswith("DA")


def test_a_row_that_breaks_a_check_is_not_quoted(connection, dataset, new_run):
    cloaks = _make_cloaks(1)
    broken = dataclasses.replace(cloaks, regions=dataclasses.replace(cloaks.regions, crowd=np.array([0], np.int32)))
    with pytest.raises(StoreError, match="region_crowd_check") as caught:
        writing.write_cloaks(connection, new_run, dataset, broken)
    assert "500" not in str(caught.value)


def test_a_server_that_does_not_answer_and_a_database_that_is_not_there(tmp_path, database):
    with expect_refusal(StoreError, "server", "--dsn"):
        connect(f"postgresql://nobody@/none?host={tmp_path}")
    with expect_refusal(StoreError, "server", "--dsn"):
        _read(f"postgresql://nobody@/none?host={tmp_path}", 1)
    with psycopg.connect(database) as known, pytest.raises(StoreError):
        connect(psycopg.conninfo.make_conninfo(database, dbname=known.info.dbname + "_not_there"))


def test_requests_far_apart_and_among_those_of_another_dataset_are_all_read(database, connection, dataset):
    query = "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('e', 32610, 1, 1) RETURNING dataset_id"
    other = read_value(connection, query)
    contents = [{"a": "line\nand\\n"}, {"a": 'é "😀"'}, {}, {"a": [1, {"b": None}]}]
    rows = [
        (n << 11, dataset.dataset_id if n % 3 else other, f"s\n{n % 7}", n / 1000 - 1e9, json.dumps(contents[n % 4]))
        for n in range(-40, 400)
    ]
    rows.append((2**60, dataset.dataset_id, "far", 253402300799.999999, "{}"))
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO dbanon.request (request_id, dataset_id, subject, sent_at, content) "
            "VALUES (%s, %s, %s, to_timestamp(%s), %s)",
            rows,
        )
    with arrow.open_snapshot(connection) as snapshot:
        found = _requests.read(snapshot, dataset.dataset_id)
    expected = connection.execute(
        "SELECT date_part('epoch', sent_at), subject, content::text FROM dbanon.request WHERE dataset_id = %s",
        [dataset.dataset_id],
    ).fetchall()
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(expected)
    assert len(expected) > 200


def test_trajectories_and_requests_are_read_whatever_their_ids(connection, dataset):
    for number in (-(2**60), -3, 0, 5, 2**60):
        connection.execute(
            "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path)"
            " VALUES (%s, %s, %s, ST_GeomFromText('POINT M (0 0 0)', 32610))",
            [number, dataset.dataset_id, f"s{number}"],
        )
    with arrow.open_snapshot(connection) as snapshot:
        paths = arrow.read_paths(snapshot, dataset.dataset_id)
    assert paths.trajectory_id.tolist() == [-(2**60), -3, 0, 5, 2**60]
