"""Tasks of an attack read their parts in the snapshot of the process with the run, or there is no verdict."""

import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from dbanon.attacks import Evidence, Verdict, import_attacker, together
from dbanon.attacks.shared.apart import is_without_fixes
from dbanon.attacks.shared.claims import UndecidableError
from dbanon.base.errors import DataError, StoreError
from dbanon.postgres import arrow, server, sqlstate
from dbanon.runs import parts, reading

ANOTHER = "UPDATE dbanon.trajectory SET path = public.ST_Translate(path, 900, 0) WHERE trajectory_id = 100"


class Elsewhere:
    """`Tasks` of another machine: nothing but bytes come and go."""

    def __init__(self, spoil: Callable[[list[Any]], list[Any]] = list, before: Callable[[], object] = int) -> None:
        self.spoil, self.before, self.sent = spoil, before, list[bytes]()

    def count_readers(self, threads: int = 1) -> int:
        return 2

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *, threads: int = 1) -> list[Any]:
        """Do tasks, after something else was done; the results are what `spoil` makes of them."""
        self.sent = [pickle.dumps((function, each)) for each in arguments]
        self.before()
        done = []
        for sent in self.sent:
            task, each = pickle.loads(sent)
            done.append(pickle.loads(pickle.dumps(task(*each))))
        return self.spoil(done)


@pytest.fixture
def here(database: str, run: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with a run of ten people, which the environment names; parts are as small as can be."""
    monkeypatch.setenv("DBANON_DSN", database)
    monkeypatch.setattr(parts, "_MIN_PART_FIXES", 2)
    return database


def judge_run(url: str, run: int, tasks: Elsewhere | None) -> tuple[Verdict, bytes]:
    with reading.open_reader(url) as reader:
        evidence, digest = reader.read_evidence(run) if tasks is None else reader.read_evidence(run, None, tasks)
        assert is_without_fixes(evidence) == (tasks is not None)
        verdict = import_attacker("dbanon.attacks.tp_aware").attack(evidence)
        return replace(
            verdict, figures={**verdict.figures, **(count_names(evidence) if verdict.figures else {})}
        ), digest


def count_names(evidence: Evidence) -> dict[str, int]:
    """Count the names that travel together, as if all people were hidden together."""
    people = np.unique(evidence.trajectories.subject)
    return together.count_names(evidence, np.array([0, len(people)]), people)


def complete(url: str) -> None:
    """Give the run the parameters that its attack reads."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            'UPDATE dbanon.run SET params = params || \'{"start": null, "align": "last", "max_gap_s": 60, '
            '"min_contents": 1, "cloak": "mbr", "min_cloak_m": null, "since": null, "until": null}\', '
            'suppressed = \'{"subjects": {}, "windows": []}\''
        )


def test_parts_come_to_the_verdict_and_digest_of_the_whole_and_carry_no_name_and_no_login(
    here: str, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete(here)
    for name, value in (("MOVES", 1), ("_LEAST_KNOWN", 0), ("_NEAR", 1e9)):
        monkeypatch.setattr(together, name, value)
    tasks = Elsewhere()
    whole, divided = judge_run(here, run, None), judge_run(here, run, tasks)
    assert divided == whole
    assert {clause.name: clause.violations for clause in whole[0].clauses}["covers"] == 0
    assert whole[0].figures["names_compared"] == whole[0].figures["names_together"] > 0
    assert len(tasks.sent) > 1
    for secret in (b"p3", here.encode(), b"DBANON", b"password"):
        assert not any(secret in sent for sent in tasks.sent)


def test_a_change_after_the_snapshot_is_in_no_part(here: str, run: int) -> None:
    complete(here)

    def change() -> None:
        with psycopg.connect(here, autocommit=True) as connection:
            connection.execute(ANOTHER)

    whole = judge_run(here, run, None)
    assert judge_run(here, run, Elsewhere(before=change)) == whole
    assert judge_run(here, run, None) != whole


@pytest.mark.parametrize(
    "spoil",
    [
        lambda done: done[1:],
        lambda done: [*done[1:], done[0]],
        lambda done: [done[0], *done[:-1]],
        lambda done: [replace(done[0], ids=done[1].ids), *done[1:]],
        lambda done: [replace(done[0], rows=b"other rows"), *done[1:]],
        lambda done: [*done, done[0]],
    ],
    ids=["lost", "swapped", "one for another", "of other people", "of other rows", "one too many"],
)
def test_answers_that_are_not_all_about_their_parts_are_no_verdict(
    here: str, run: int, spoil: Callable[[list[Any]], list[Any]]
) -> None:
    complete(here)
    with pytest.raises(StoreError) as caught:
        judge_run(here, run, Elsewhere(spoil))
    assert caught.value.sqlstate == sqlstate.CHANGED


@pytest.mark.parametrize("fault", [OSError("gone"), MemoryError(), AttributeError("of an older program")])
def test_the_fault_of_a_machine_is_no_verdict(here: str, run: int, fault: Exception) -> None:
    complete(here)

    def fail() -> None:
        raise fault

    with pytest.raises(StoreError) as caught:
        judge_run(here, run, Elsewhere(before=fail))
    assert caught.value.sqlstate == sqlstate.CHANGED


@pytest.mark.parametrize("doubt", [UndecidableError("No slots."), DataError("A path is torn.")])
def test_what_is_undecidable_in_a_part_is_a_refusal_as_it_is_in_one_process(
    here: str, run: int, monkeypatch: pytest.MonkeyPatch, doubt: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise doubt

    complete(here)
    monkeypatch.setattr(parts, "_read", fail)
    verdict, _ = judge_run(here, run, Elsewhere())
    assert [(clause.name, clause.passed, clause.sentence) for clause in verdict.clauses] == [
        ("decidable", False, str(doubt))
    ]


def test_rows_of_an_earlier_attack_serve_no_later_one(here: str, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where a server that was started again gives a snapshot the name of the earlier one."""
    complete(here)
    kept: list[parts.Place] = []
    get_ready = parts._make_ready

    def note(snapshot: arrow.Snapshot, place: parts.Place, question: Any) -> Any:
        kept.append(place)
        return get_ready(snapshot, place, question)

    monkeypatch.setattr(parts, "_make_ready", note)
    first, again = (judge_run(here, run, Elsewhere()) for _ in range(2))
    places = {replace(place, snapshot="the same") for place in kept}
    assert len(places) == 2
    with psycopg.connect(here, autocommit=True) as connection:
        connection.execute("UPDATE dbanon.region SET region = public.ST_Translate(region, 5000, 0)")
    moved = judge_run(here, run, Elsewhere())
    assert moved == judge_run(here, run, None)
    assert first == again != moved


def test_a_part_that_was_left_out_is_no_verdict(here: str, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(here)
    cut = parts._cut_people
    monkeypatch.setattr(parts, "_cut_people", lambda *arguments: cut(*arguments)[1:])
    with pytest.raises(StoreError) as caught:
        judge_run(here, run, Elsewhere())
    assert caught.value.sqlstate == sqlstate.CHANGED


def test_another_state_than_that_of_the_run_is_no_verdict(here: str, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that forgets the snapshot reads what is there now: another revision, and other rows."""
    complete(here)
    import_snapshot = arrow.open_snapshot
    monkeypatch.setattr(arrow, "open_snapshot", lambda connection, name=None: import_snapshot(connection))

    def change(what: str) -> Callable[[], None]:
        def make() -> None:
            with psycopg.connect(here, autocommit=True) as connection:
                connection.execute(what)

        return make

    for what in (ANOTHER, "UPDATE dbanon.region SET crowd = crowd + 1"):
        with pytest.raises(StoreError) as caught:
            judge_run(here, run, Elsewhere(before=change(what)))
        assert caught.value.sqlstate == sqlstate.CHANGED


def test_a_snapshot_that_is_over_is_no_verdict(here: str, run: int) -> None:
    complete(here)
    tasks = Elsewhere()
    judge_run(here, run, tasks)
    task, each = pickle.loads(tasks.sent[0])
    with pytest.raises(StoreError) as caught:
        task(*each)
    assert caught.value.sqlstate == sqlstate.CHANGED


def do_alone(run: int) -> str:
    """Have a process do a task of some other server; the sentence in which it refuses."""
    place = parts.Place(server=(1, 1), snapshot="00000003-00000001-1", attack="a", run_id=run, dataset_id=1, revision=0)
    part = parts._Part(ids=np.array([100]), subject=np.array([0]), ranges=[(99, 100)])
    question = parts._Question(look=len, arguments=(), bounds=(None, None), prepare=None, given=None)
    with pytest.raises(StoreError) as caught:
        parts._answer_question(place, part, question)
    return str(caught.value)


def test_a_process_needs_the_database_of_the_run(here: str, run: int) -> None:
    assert "the database of the run" in do_alone(run)


def test_a_process_needs_the_role_of_a_worker(
    here: str, run: int, login: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBANON_DSN", login("dbanon_operator"))
    assert "role" in do_alone(run)


def test_a_process_needs_a_database_in_its_environment(
    here: str, run: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes no server of its own."""
    monkeypatch.setenv("DBANON_HOME", str(tmp_path / "home"))
    for name in ("DBANON_DSN", *server.SERVER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    assert "DBANON_DSN" in do_alone(run)
    assert not (tmp_path / "home").exists()
