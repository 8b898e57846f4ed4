"""Evaluations of the run of ten people: what is kept, who may, what is refused, and the gate of the bounds."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

import dbanon
from benchmarks.figures import FIGURES, evaluate_file
from dbanon.base.errors import ParameterError, StoreError, VerificationFailed
from dbanon.base.progress import report_nothing
from dbanon.cli import report
from dbanon.database import Database
from dbanon.evaluation import evaluating, evaluation_store
from dbanon.metrics import METRICS
from dbanon.postgres.connection import connect
from dbanon.results.figures import Evaluation
from dbanon.runs import stored
from dbanon.testing import logins
from tests.clones import clone_of

pytestmark = pytest.mark.db


ten = clone_of("ten_template", scope="module")
"""URL of a database with the verified run for all tests here; what one of them changes it changes back."""


@pytest.fixture(scope="module")
def opened(ten: str) -> Iterator[Database]:
    with dbanon.connect(ten) as one:
        one.progress = report_nothing
        yield one


@pytest.fixture(scope="module")
def measured(opened: Database) -> Evaluation:
    return opened.evaluate(1, queries=100, seed=3)


def change(database: str, statement: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(statement)  # type: ignore[call-overload]


def test_figures_are_kept_and_questions_are_not(opened: Database, measured: Evaluation) -> None:
    query = "SELECT name, value, low, high, side_m, asked FROM dbanon.evaluations WHERE evaluation_id = 1"
    rows = opened.connection.execute(query).fetchall()
    assert rows == [(f.name, f.value, f.low, f.high, f.side_m, f.asked) for f in measured.figures]
    about = opened.connection.execute(
        "SELECT run_id, dataset, current, method, algorithm, params ->> 'k', sample, against, queries, seed"
        " FROM dbanon.evaluations WHERE evaluation_id = 1 LIMIT 1"
    ).fetchone()
    assert about == (1, "ten", True, "tp-aware", "traj-anon", "5", None, "published", 100, 3)
    columns = opened.connection.execute("SELECT * FROM dbanon.evaluation LIMIT 0").description or []
    assert not {"questions", "true", "answers"} & {column.name for column in columns}


def test_every_bound_holds_and_all_people_are_counted(measured: Evaluation) -> None:
    assert measured.answers is not None
    assert measured.true is not None
    assert (measured.answers.at_least <= measured.true).all()
    assert (measured.true <= measured.answers.at_most).all()
    assert measured.true.max() == 5  # squares of 62.5 m hold one of two groups
    assert {figure.value for figure in measured.figures if figure.name == "coverage"} == {1.0}


def test_few_questions_are_refused_and_not_many_are_noted(opened: Database, measured: Evaluation) -> None:
    with pytest.raises(ParameterError, match="from 100 to"):
        opened.evaluate(1, queries=99)
    assert any("wide intervals" in note for note in measured.notes)


def test_the_report_has_both_figures_on_top_and_no_truth(measured: Evaluation) -> None:
    text = report.format_evaluation(measured)
    assert text.index("Published") < text.index("Usable resolution") < text.index("How far counts are off")
    value = json.loads(report.format_json(report.make_evaluation_json(measured)))
    assert value["run_id"] == 1
    assert not {"questions", "true", "answers"} & set(value)
    assert [one["name"] for one in value["figures"]] == [one.name for one in measured.figures]


BAD: dict[str, tuple[str, int | str, str, str]] = {
    "unknown number": ("SELECT", 7, "no run 7", "SELECT"),
    "unknown name": ("SELECT", "nothing", "'nothing' is not there", "SELECT"),
    "refused": (
        *("UPDATE dbanon.run SET status = 'refused'", 1, "Run 1 is refused"),
        "UPDATE dbanon.run SET status = 'verified'",
    ),
    "changed data": (
        *("UPDATE dbanon.dataset SET revision = revision + 1", 1, "changed since"),
        "UPDATE dbanon.dataset SET revision = revision - 1",
    ),
    "no rows": (
        "INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, seed, status)"
        " SELECT dataset_id, dataset_revision, method, algorithm, params, seed, status FROM dbanon.run",
        *(2, "Run 2 has none", "DELETE FROM dbanon.run WHERE run_id = 2"),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_run_that_cannot_be_measured_is_refused_in_a_sentence(opened: Database, ten: str, case: str) -> None:
    statement, asked, said, undo = BAD[case]
    change(ten, f"SET session_replication_role = replica; {statement}")
    with pytest.raises(ParameterError, match=said) as error:
        opened.evaluate(asked, queries=100)
    assert error.value.exit_code == 2
    change(ten, f"SET session_replication_role = replica; {undo}")


def test_other_logins_are_refused_and_operators_read_what_a_worker_measured(ten: str, measured: Evaluation) -> None:
    with logins(ten) as login:
        for role, sentence in (("dbanon_operator", "This one may not"), ("dbanon_analyst", "rights")):
            with dbanon.connect(login(role)) as one, pytest.raises(StoreError, match=sentence):
                one.evaluate(1, queries=100)
        with dbanon.connect(login("dbanon_worker")) as one:
            one.progress = report_nothing
            other = one.evaluate(1, queries=100, against="all")
            assert other.questions is not None
            assert measured.questions is not None
            assert other.questions.x[0] != measured.questions.x[0]  # another seed
        with psycopg.connect(login("dbanon_operator")) as operator:
            found = operator.execute("SELECT count(*) > 0 FROM dbanon.evaluations WHERE against = 'all'").fetchone()
            assert found == (True,)


def test_one_moved_row_is_called_a_defect(opened: Database, ten: str) -> None:
    moved = "UPDATE dbanon.region SET region = ST_Translate(region, {}, 0) WHERE region_no = 1"
    before = opened.connection.execute("SELECT count(*) FROM dbanon.evaluation").fetchone()
    change(ten, moved.format(100000))
    with pytest.raises(VerificationFailed, match=r" of 400 ") as error:
        opened.evaluate(1, queries=100)
    assert error.value.exit_code == 5
    assert opened.connection.execute("SELECT count(*) FROM dbanon.evaluation").fetchone() == before
    change(ten, moved.format(-100000))


def test_a_release_has_its_name_while_it_is_live_and_a_seed_asks_the_same(
    opened: Database, measured: Evaluation
) -> None:
    opened.publish(1, "ten")
    assert opened.evaluate("ten", queries=100, seed=3).figures == measured.figures
    listed = opened.connection.execute("SELECT percent_left_out, longer_side_m, count_error FROM dbanon.releases")
    figures = [f for f in measured.figures if f.name == "count_error" and f.value is not None]
    nearest = min(figures, key=lambda f: (abs((f.side_m or 0) - 2000), f.asked))
    assert listed.fetchone() == (None, None, Decimal(f"{nearest.value:.2f}"))
    opened.unpublish("ten")
    with pytest.raises(ParameterError, match="'ten' was withdrawn"):
        opened.evaluate("ten", queries=100)


def test_what_was_measured_outlives_the_run_and_not_the_dataset(database: str, run: int, measured: Evaluation) -> None:
    with dbanon.connect(database) as own:
        own.progress = report_nothing
        evaluation_store.keep(
            own.connection, evaluation_store.make_key(stored.find_run(own.connection, 1), measured), measured
        )
        own.drop(1)
        found = own.connection.execute("SELECT run_id, params ->> 'k' FROM dbanon.evaluation").fetchall()
        assert found == [(None, "5")]
        change(database, "DELETE FROM dbanon.dataset")
        assert own.connection.execute("SELECT count(*) FROM dbanon.evaluation").fetchone() == (0,)


def test_a_session_of_a_pooler_may_have_used_temporary_tables(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(url: str) -> psycopg.Connection:
        session = connect(url)
        session.execute("CREATE TEMPORARY TABLE of_before AS SELECT 1 AS one")
        return session

    monkeypatch.setattr(evaluating, "connect", used)
    assert opened.evaluate(1, queries=100).figures


def test_a_benchmark_measures_the_rectangles_of_a_file_which_may_be_wrong(ten: str, tmp_path: Path) -> None:
    at = [(f"p{i}", 1212566400 + 60 * j, i // 5 * 70 + i + 10 * j, i // 5 * 70 + i) for i in range(10) for j in (0, 1)]
    for off in (0, 3000):
        rows = [(name, t, t + 60, x + off, y, x + off, y + 1, 1) for name, t, x, y in at]
        lines = ["id,since,until,xmin,ymin,xmax,ymax,subjects", *(",".join(map(str, row)) for row in rows)]
        (tmp_path / "other.csv").write_text("\n".join(lines))
        figures = evaluate_file(ten, "ten", tmp_path / "other.csv", queries=100)
        assert {one.name for one in figures} == set(FIGURES)
        assert all(one.value == 1 for one in figures if one.name == "coverage") == (not off)


def test_all_figures_of_a_run_are_in_the_registry_and_regions_are_measured(measured: Evaluation) -> None:
    names = {one.name for one in measured.figures}
    assert names <= set(METRICS)
    assert set(METRICS) - names == {"requests_published"}  # the hand-made run has no verdict that counts them
    value = {one.name: one.value for one in measured.figures}
    assert value["region_time_s_50"] == 60
    assert value["region_side_m_50"] == 90  # 40 m by 90 m
