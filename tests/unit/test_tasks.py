"""Tasks shared among processes come to the same as in one, whatever becomes of the processes that help."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dbanon.base import cores, tasks
from dbanon.base.background import run_in_background
from dbanon.base.cloaks import Cloaks
from dbanon.base.tasks import SERIAL_TASKS, Processes, Tasks
from dbanon.methods import METHODS
from tests.contract.evidence import make_people
from tests.contract.test_methods import is_same
from tests.unit import shared_tasks
from tests.unit.shared_tasks import start_processes, wait_until


@pytest.fixture(autouse=True, scope="module")
def quick() -> None:
    """Have helpers forked from a process that has imported what is slow to import."""
    multiprocessing.set_forkserver_preload(["numba", "pytest"])


@pytest.fixture
def marks(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Processes:
    """Share tasks among this process and two helpers, almost from the first one on."""
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 3)
    monkeypatch.setattr(tasks, "_WORTH_S", 0)
    return Processes()


def list_marked(marks: str) -> list[str]:
    return [path.name for path in Path(marks).iterdir() if path.name != str(os.getpid())]


def compute_cloaks(does: Tasks) -> Cloaks:
    family = METHODS["tp-aware"]
    params = family.parse({"k": 4, "instants": 4})
    return family.anonymise(make_people(200, instants=40), "traj-anon", params, np.random.default_rng(0), tasks=does)


def test_cloaks_are_the_same_in_one_process_and_in_three(three: Processes) -> None:
    alone = compute_cloaks(SERIAL_TASKS)
    assert alone.metrics["windows_published"] == 9
    assert is_same(alone, compute_cloaks(three))


def test_this_process_and_helpers_work_at_the_same_time_and_results_are_in_order(three: Processes, marks: str) -> None:
    found = three.map(shared_tasks.wait_for_others, [(marks, 3)] * 3)
    assert len(set(found)) == 3
    assert os.getpid() in found
    assert three.map(shared_tasks.compute_square, ((n,) for n in range(1000))) == [n * n for n in range(1000)]
    assert multiprocessing.active_children() == []


def test_tasks_that_are_done_at_once_are_all_done_here() -> None:
    assert set(Processes().map(shared_tasks.find_pid, [()] * 100)) == {os.getpid()}


def test_arguments_are_drawn_as_tasks_are_done(three: Processes) -> None:
    drawn: list[int] = []

    def arguments() -> Iterator[tuple[str, int]]:
        for number in range(50):
            drawn.append(number)
            yield shared_tasks.__name__, number

    with pytest.raises(ArithmeticError):
        three.map(shared_tasks.fail, arguments())
    assert len(drawn) <= 5  # one that is done here, two that helpers have, one that waits for them, one that follows


# ---- what is lost ----------------------------------------------------------------------------------------------------


def test_a_task_whose_process_is_killed_is_done_here_and_ends_no_other(three: Processes, marks: str) -> None:
    given = [(marks, os.getpid(), number) for number in range(9)]
    assert three.map(shared_tasks.end_elsewhere, given) == list(range(9))
    assert 1 <= len(list_marked(marks)) <= 2


def test_a_result_of_which_a_part_came_is_computed_here(three: Processes) -> None:
    sent = three.map(shared_tasks.end_while_sending, [(os.getpid(), number) for number in range(5)])
    assert [len(one) for one in sent] == list(range(5))


def test_what_cannot_be_sent_is_computed_here_and_no_log_says_why(
    three: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [one() for one in three.map(shared_tasks.give, [(1,), (2,), (3,)])] == [1, 2, 3]
    assert three.map(shared_tasks.call, [(lambda: 5,), (lambda: 6,)]) == [5, 6]
    assert capfd.readouterr() == ("", "")


def test_many_small_tasks_are_sent_together(three: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    hand_out = tasks._Work._hand_out
    monkeypatch.setattr(tasks, "_WORTH_S", 0.2)
    monkeypatch.setattr(
        tasks._Work, "_hand_out", lambda self, batch: sent.append(len(batch.tasks)) or hand_out(self, batch)
    )
    assert three.map(shared_tasks.pause, ((n,) for n in range(400))) == list(range(400))
    assert max(sent) > 1


def test_tasks_are_done_here_where_the_system_gives_no_process(
    three: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", start)
    assert set(three.map(shared_tasks.find_pid, [()] * 9)) == {os.getpid()}


# ---- what fails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worth_s", [0, 60])
def test_the_error_is_that_of_the_first_task_that_fails(
    three: Processes, worth_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_WORTH_S", worth_s)
    for least in (0, 7):
        with pytest.raises(ArithmeticError) as caught:
            three.map(shared_tasks.fail_from, ((least, number) for number in range(40)))
        assert caught.value.args == (least,)


def test_an_error_says_where_a_helper_raised_it(three: Processes, marks: str) -> None:
    with pytest.raises(ArithmeticError) as caught:
        three.map(shared_tasks.fail_elsewhere, [(marks, os.getpid())] * 3)
    assert "in fail_elsewhere" in caught.value.__notes__[0]


@pytest.mark.parametrize("worth_s", [0, 60])
def test_what_fails_to_be_drawn_ends_the_tasks_unless_an_earlier_one_fails(
    three: Processes, worth_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arguments(fails: int) -> Iterator[tuple[int, int]]:
        yield from ((fails, n) for n in range(5))
        raise LookupError

    monkeypatch.setattr(tasks, "_WORTH_S", worth_s)
    for fails, error in ((9, LookupError), (4, ArithmeticError)):
        with pytest.raises(error):
            three.map(shared_tasks.fail_from, arguments(fails))


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_ends_the_helpers_at_once(three: Processes, marks: str) -> None:
    def interrupt() -> None:
        wait_until(lambda: len(list_marked(marks)) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = run_in_background(interrupt)
    with pytest.raises(KeyboardInterrupt):
        three.map(shared_tasks.begin_and_stay, [(marks, number) for number in range(9)])
    interrupting.result()
    assert not any(Path(f"/proc/{pid}").exists() for pid in list_marked(marks))


def test_helpers_end_when_the_process_that_has_the_run_is_killed(marks: str) -> None:
    with start_processes(shared_tasks.hold_run, marks) as (holder,):
        wait_until(lambda: len(list_marked(marks)) == 2)
        holder.kill()
        holder.join()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in list_marked(marks)))


# ---- cores -----------------------------------------------------------------------------------------------------------


def test_runs_and_their_helpers_divide_the_cores(
    three: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 8)
    here = os.getpid()
    for runs, threads, expected in ((1, 1, 1), (3, 1, 4), (4, 1, 4), (2, 2, 4)):
        (marks := tmp_path / f"{runs} {threads}").mkdir()
        found = Processes(runs).map(shared_tasks.count_task_threads, [(str(marks), here, 8)] * 3, threads=threads)
        assert expected in found
        assert set(found) <= {expected, 8}  # 8 here
    for runs, threads in ((5, 1), (2, 4)):
        assert Processes(runs).map(shared_tasks.find_pid, [()] * 2, threads=threads) == [here] * 2
    with cores.limit_threads(0):
        assert cores.count_threads() == 1
    assert cores.count_threads() == 8


def test_a_share_of_the_cores_holds_in_the_threads_of_a_call_too(
    three: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    monkeypatch.setattr(tasks, "_WORTH_S", 60)
    with cores.limit_threads(2):
        cores.run_together([lambda: counts.append(cores.count_threads())] * 2, 1, 1)
        cores.share_work(np.ones(4, np.int64), lambda a, b: counts.append(cores.count_threads()), 1)
        three.map(lambda: counts.append(cores.count_threads()), [()] * 2)
    assert set(counts) == {2}


def test_no_part_is_begun_in_a_thread_once_one_has_failed() -> None:
    begun: list[int] = []

    def fail(number: int) -> None:
        begun.append(number)
        time.sleep(0.001 if number else 0)  # so that who waits for the first has a second to notice
        raise LookupError

    with cores.limit_threads(1), pytest.raises(LookupError):
        list(cores.map_each(fail, range(1000)))
    assert len(begun) < 1000


def test_no_thread_is_left(three: Processes) -> None:
    before = threading.active_count()
    for _ in range(2):
        three.map(shared_tasks.compute_square, [(2,), (3,)])
    wait_until(lambda: threading.active_count() <= before)


def test_no_tasks_have_no_results(three: Processes) -> None:
    assert three.map(shared_tasks.compute_square, []) == SERIAL_TASKS.map(shared_tasks.compute_square, []) == []
