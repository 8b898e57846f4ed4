"""Tasks shared among processes come to the same as in one, whatever becomes of the processes that help."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from dbanon.base.cloaks import Cloaks
from dbanon.methods import HERE, METHODS, Tasks
from dbanon.methods.kernels import cores
from dbanon.worker._pool import Pool
from tests.contract.evidence import people
from tests.contract.test_methods import same
from tests.unit import shared_tasks
from tests.unit.shared_tasks import started, wait_until


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def marks(tmp_path: Path) -> str:
    (tmp_path / "marks").mkdir()
    return str(tmp_path / "marks")


def cloaks(tasks: Tasks, instants: int = 4) -> Cloaks:
    family = METHODS["tp-aware"]
    params = family.parse({"k": 4, "instants": instants})
    return family.anonymise(people(200, instants=40), "traj-anon", params, np.random.default_rng(0), tasks=tasks)


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_cloaks_do_not_depend_on_how_many_processes_share_the_windows(directory: Path, helpers: int) -> None:
    with started(shared_tasks.help_for_ever, str(directory), helpers + 1, count=helpers):
        shared = cloaks(Pool(directory, helpers + 1))
    alone = cloaks(HERE)
    assert alone.metrics["windows_published"] == 9
    assert same(alone, shared)


def test_idle_processes_do_tasks_at_the_same_time_and_results_are_in_order(directory: Path, marks: str) -> None:
    with started(shared_tasks.help_for_ever, str(directory), 3, count=2):
        pool = Pool(directory, 3)
        assert len(set(pool.map(shared_tasks.meet, [(marks, 3)] * 3))) == 3
        assert pool.map(shared_tasks.square, ((n,) for n in range(1000))) == [n * n for n in range(1000)]
    assert list(directory.iterdir()) == []


def test_a_task_whose_process_is_killed_is_done_again(directory: Path, marks: str) -> None:
    tasks = [(marks, os.getpid(), number) for number in range(6)]
    with started(shared_tasks.help_for_ever, str(directory), 3, count=2) as helpers:
        assert Pool(directory, 3).map(shared_tasks.end_elsewhere, tasks) == list(range(6))
        wait_until(lambda: any(not helper.is_alive() for helper in helpers))


@pytest.mark.parametrize("helpers", [0, 2])
def test_the_error_is_that_of_the_first_task_that_fails(directory: Path, helpers: int) -> None:
    with started(shared_tasks.help_for_ever, str(directory), 3, count=helpers):
        for least in range(12):
            with pytest.raises(ArithmeticError) as caught:
                Pool(directory, 3).map(shared_tasks.fail_from, ((least, number) for number in range(40)))
            assert caught.value.args == (least,)


def test_what_fails_to_be_drawn_ends_the_tasks(directory: Path) -> None:
    def arguments() -> Iterator[tuple[int]]:
        yield from ((n,) for n in range(5))
        raise LookupError

    with pytest.raises(LookupError):
        Pool(directory, 2).map(shared_tasks.square, arguments())


def test_a_process_ends_its_task_when_the_one_that_has_the_run_is_killed(directory: Path, marks: str) -> None:
    with ExitStack() as stack:
        (helper,) = stack.enter_context(started(shared_tasks.help_for_ever, str(directory), 2))
        (holder,) = stack.enter_context(started(shared_tasks.hold, str(directory), marks))
        wait_until(lambda: len(list(Path(marks).iterdir())) == 2)
        holder.kill()
        helper.join(30)
        assert helper.exitcode == shared_tasks.FORSAKEN


def test_a_socket_that_a_killed_process_left_behind_is_passed_over(directory: Path, marks: str) -> None:
    with started(shared_tasks.hold, str(directory), marks) as (holder,):
        wait_until(lambda: list(Path(marks).iterdir()))
        holder.kill()
        holder.join()
        (left,) = directory.iterdir()
    assert not Pool(directory, 2).help(lambda: None)
    left.rename(directory / str(os.getpid()))
    assert Pool(directory, 2).map(shared_tasks.square, [(2,), (3,)]) == [4, 9]


def test_without_its_directory_a_process_works_alone(tmp_path: Path) -> None:
    pool = Pool(tmp_path / "gone", 2)
    assert pool.map(shared_tasks.square, [(number,) for number in range(4)]) == [0, 1, 4, 9]
    assert not pool.help(lambda: None)


def test_processes_divide_the_cores(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 8)
    pool = Pool(directory, 3)
    assert pool.map(shared_tasks.threads, [(0,), (1,)]) == [2, 2]
    assert pool.map(shared_tasks.threads, [(0,)]) == [8]
    with cores.at_most(0):
        assert cores.count() == 1
    assert cores.count() == 8


def test_a_share_of_the_cores_holds_in_the_threads_of_a_call_too() -> None:
    counts: list[int] = []
    with cores.at_most(1):
        cores.together([lambda: counts.append(cores.count())] * 2, 1, 1)
        cores.share(np.ones(4, np.int64), lambda a, b: counts.append(cores.count()), 1)
    assert set(counts) == {1}


def test_no_thread_is_left(directory: Path) -> None:
    before = threading.active_count()
    for _ in range(3):
        Pool(directory, 2).map(shared_tasks.square, [(2,), (3,)])
    wait_until(lambda: threading.active_count() <= before)


def test_no_tasks_have_no_results(directory: Path) -> None:
    assert Pool(directory, 2).map(shared_tasks.square, []) == HERE.map(shared_tasks.square, []) == []
