"""A worker: takes runs from the queue and finishes them, several at once, until a signal stops it.

The supervisor holds no connection for itself (`dbanon.worker.watched` and `dbanon.worker.schedule` have one each). It
starts one process for each run that may go at once, and another where one has ended: a process ends with a computation
that was interrupted in it, because a signal can leave Python's import lock held, and a compiled kernel does not stop at
all. Each process holds the locks of its runs on a separate connection, so the server decides what becomes of a run,
whichever process is killed. It shares the tasks of its run among processes of its own (`dbanon.base.tasks`), or a Dask
cluster does them (`dbanon.worker.cluster`).
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from psycopg import sql

from dbanon import schema
from dbanon.base import extras
from dbanon.base.errors import DbanonError, SchemaMismatch, StoreError
from dbanon.base.tasks import Processes, Tasks
from dbanon.database import Database, RunResult, open_database
from dbanon.options.reading import Reading
from dbanon.postgres import sqlstate
from dbanon.postgres.connection import Connection, connect_to_hold, translate_errors
from dbanon.runs import compiling, queue, replica
from dbanon.worker.cluster import Cluster
from dbanon.worker.events import Form, Log
from dbanon.worker.schedule import Schedule, demand_operator
from dbanon.worker.watched import Watched

_IDLE_S = 1.0  # between two looks at the queue, unless woken
_RECONNECT_S = (0.2, 5.0)  # wait before connecting again, at first and at most
_RESTART_S = 1.0  # wait before another try, where no process could be started
_INTERRUPTED, _READ_ONLY, _USELESS = 75, 77, 78  # exit codes: begin afresh; no process can work here


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a worker's processes."""

    dsn: str | None  # see `dbanon.connect`
    grace_s: float  # how long a run may go on when the worker is asked to stop; then it goes back to the queue
    parent: int  # process id of the supervisor; when it is gone, a process stops as on a signal
    jobs: int = 1  # processes of the worker
    scheduler: str | None = None  # address of the Dask scheduler to which tasks go instead
    log: Form = "text"  # ``text`` or ``json``
    reading: Reading = field(default_factory=Reading)  # which server datasets are read from


def serve(
    dsn: str | None,
    *,
    jobs: int,
    grace_s: float,
    scheduler: str | None = None,
    log: Form = "text",
    heartbeat: Path | None = None,
    listen: str | None = None,
    schedule: bool = False,
    reading: Reading | None = None,
) -> None:
    """Take runs and finish them until a signal comes; call it in the main thread.

    SIGHUP lets each process finish its run and begin afresh, so that it reads service, password and certificate files
    and the settings of Dask again; of a terminal that is closed it stops the worker.

    Parameters
    ----------
    dsn : str or None
        See `dbanon.connect`.
    jobs : int
        Runs that go at once; each shares its tasks among as many processes as there are cores for it.
    grace_s : float
    scheduler : str, optional
        Address of a Dask scheduler, to which the tasks of runs go.
    log : str
        How events are written to stderr: ``text`` or ``json``.
    heartbeat, listen : optional
        See `dbanon.worker.watched.Watched`.
    schedule : bool
        Whether to take the steps of its login's jobs, too.
    reading : Reading, optional
        Which server datasets are read from.

    Raises `ParameterError` if the connection that shall hold locks goes through a pooler, the server to read from is no
    replica, or `heartbeat` or `listen` cannot be used; `DbanonError` if the part ``dbanon[compute]`` is missing, or
    ``dbanon[dask]`` for a scheduler; `StoreError` if the login may not compute, the server accepts no writing, or the
    scheduler or the replica does not answer; `SchemaMismatch` if the schema is of another revision.
    """
    extras.demand("compute")
    events, reading = Log(log), reading or Reading()

    def announce(line: str) -> None:
        events.write_event("server", line)

    if scheduler is not None:
        Cluster(scheduler).announce_processes(announce)
    with open_database(dsn, announce=announce) as database, connect_to_hold(database.lock_url):
        if schedule:
            demand_operator(database.connection)
        if not queue.may_compute(database.connection):
            raise StoreError(
                "The login of a worker must have the role dbanon_worker (or that of this database's own prefix). "
                "This one does not. Grant it that role."
            )
        replica.demand_replica(database.connection, reading)
    settings = Settings(
        dsn=dsn, grace_s=grace_s, parent=os.getpid(), jobs=jobs, scheduler=scheduler, log=log, reading=reading
    )
    with (
        Schedule(dsn, events, grace_s=grace_s) if schedule else nullcontext() as scheduled,
        Watched(dsn, events, heartbeat=heartbeat, listen=listen) as watched,
    ):
        useless = _supervise(settings, events, watched, scheduled)
    if useless == _READ_ONLY:
        raise sqlstate.make_error(sqlstate.READ_ONLY)
    if useless:
        raise SchemaMismatch(
            "The schema is no longer at the revision that this worker needs. The worker ended. Start it again."
        )


def _supervise(settings: Settings, log: Log, watched: Watched, scheduled: Schedule | None) -> int | None:
    """Keep the processes up until a signal comes; returns the exit code of one that says that none can work here."""
    context = multiprocessing.get_context("spawn")
    signals, reloads = _catch_signals()
    processes = [_start_process(context, settings) for _ in range(settings.jobs)]
    log.write_event("up", f"up, {settings.jobs} at once")
    useless = None
    while not (signals or useless):
        watched.beat([process.pid for process in processes])
        multiprocessing.connection.wait([p.sentinel for p in processes], timeout=0.5)
        useless = next((p.exitcode for p in processes if p.exitcode in (_READ_ONLY, _USELESS)), None)
        if reloads and not signals:
            reloads.clear()
            log.write_event("reload", "starts again, each process when its run is done")
            watched.reload()
            if scheduled is not None:
                scheduled.reload()
            for process in processes:
                _send_signal(process, signal.SIGHUP)
        if not (signals or useless):
            processes = [p if p.is_alive() else _restart_process(context, settings, p, log) for p in processes]
    watched.note_stop()
    _stop(processes, signals)
    log.write_event("down", "down")
    return useless


def _catch_signals() -> tuple[list[int], list[int]]:
    """Let signals stop the worker, or have it begin afresh; returns lists of those that came, for either."""
    signals: list[int] = []
    reloads: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    # A terminal that is closed sends it, too.
    hung_up = signals if sys.stdin is not None and sys.stdin.isatty() else reloads
    signal.signal(signal.SIGHUP, lambda number, _: hung_up.append(number))
    return signals, reloads


def _send_signal(process: multiprocessing.context.SpawnProcess, number: int) -> None:
    if process.pid is not None and process.is_alive():  # it is not waited for yet, so no other process has its number
        os.kill(process.pid, number)


def _start_process(
    context: multiprocessing.context.SpawnContext, settings: Settings
) -> multiprocessing.context.SpawnProcess:
    process = context.Process(target=_run_process, args=(settings,))
    process.start()
    return process


def _restart_process(
    context: multiprocessing.context.SpawnContext,
    settings: Settings,
    old: multiprocessing.context.SpawnProcess,
    log: Log,
) -> multiprocessing.context.SpawnProcess:
    if old.exitcode != _INTERRUPTED:  # whatever ended it may do so again
        time.sleep(_RECONNECT_S[0])
    try:
        new = _start_process(context, settings)
    except OSError as error:  # neither files nor processes nor memory are endless, and others may use them up
        log.write_event("start", f"no process could be started ({error.strerror}), trying again", level="error")
        time.sleep(_RESTART_S)
        return old
    old.close()
    return new


def _stop(processes: list[multiprocessing.context.SpawnProcess], signals: list[int]) -> None:
    """Let all processes end; every further signal is passed on, and hurries them."""
    passed_on = -1
    while alive := [p for p in processes if p.is_alive()]:
        if passed_on < len(signals):
            passed_on = len(signals)
            for process in alive:
                process.terminate()
        multiprocessing.connection.wait([p.sentinel for p in alive], timeout=0.2)


# ---- in each process -------------------------------------------------------------------------------------------------


def _run_process(settings: Settings) -> None:
    """Take one run after the other until a signal comes or the supervisor is gone."""
    os.setsid()  # Ctrl-C is for the supervisor
    process = _Process(settings)
    signal.signal(signal.SIGINT, process.interrupt)
    signal.signal(signal.SIGTERM, process.stop)
    signal.signal(signal.SIGHUP, process.begin_afresh)
    multiprocessing.set_forkserver_preload(["numba"])  # which every helper needs, and which starts no thread
    try:
        code = process.take_runs()
    except Exception:
        if settings.log == "text":
            raise
        process.log.write_event("crashed", "", level="error", **process.describe_claim())  # a traceback may quote data
        code = 1
    sys.exit(code)


class _Process:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stopping = threading.Event()  # to stop: take nothing more
        self.hurry = threading.Event()  # to stop what is being done: the watch of the run interrupts it
        self.interrupted = False
        self.outdated = False
        self.log = Log(settings.log)
        self.claim: queue.Claim | None = None
        scheduler = settings.scheduler
        self.tasks: Tasks = Processes(settings.jobs) if scheduler is None else Cluster(scheduler)
        threading.Thread(target=self._look_after_parent, daemon=True).start()

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._stop(hurries=self.stopping.is_set())

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def begin_afresh(self, number: int, frame: FrameType | None) -> None:
        self.outdated = True

    def _is_over(self) -> bool:
        return self.interrupted or self.outdated or self.stopping.is_set()

    def _stop(self, *, hurries: bool) -> None:
        self.stopping.set()
        if hurries:
            self.hurry.set()
        else:
            timer = threading.Timer(self.settings.grace_s, self.hurry.set)
            timer.daemon = True
            timer.start()

    def _look_after_parent(self) -> None:
        while os.getppid() == self.settings.parent:
            time.sleep(0.5)
        self._stop(hurries=False)

    def take_runs(self) -> int:
        wait_s = _RECONNECT_S[0]
        while not self._is_over():
            try:
                with (
                    open_database(self.settings.dsn) as database,
                    connect_to_hold(database.lock_url) as holder,
                    translate_errors(),
                ):
                    database.tasks, database.progress = self.tasks, self._tell
                    channel = queue.register_worker(holder, queue.name_process())
                    wait_s = _RECONNECT_S[0]
                    self._serve(database, holder, channel)
            except SchemaMismatch:
                return _USELESS
            except StoreError as error:
                if error.sqlstate == sqlstate.READ_ONLY:
                    return _READ_ONLY
                again = f"{error} Connecting again in {wait_s:.1f} s."
                self.log.write_failure("connect", again, error, seconds=round(wait_s, 1))
                self.stopping.wait(wait_s)
                wait_s = min(2 * wait_s, _RECONNECT_S[1])
            except KeyboardInterrupt:  # a signal that came a moment too late for the run it was meant for
                break
        return 0 if self.stopping.is_set() else _INTERRUPTED

    def _serve(self, database: Database, holder: Connection, channel: str) -> None:
        holder.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        while not self._is_over():
            queue.reap_runs(holder)
            while not self._is_over() and self._take(database, holder):
                pass
            self._wait_idle(holder)

    def _wait_idle(self, holder: Connection) -> None:
        """Wait for a wake-up, or for a while; in short pieces, so that it notices a stop soon."""
        until = time.monotonic() + _IDLE_S
        while not self._is_over() and time.monotonic() < until:
            if any(True for _ in holder.notifies(timeout=0.2, stop_after=1)):
                return

    def _take(self, database: Database, holder: Connection) -> bool:
        """Do the next run; whether there was one. What is wrong with a run is recorded with the run."""
        began = time.perf_counter()
        self.claim = None
        schema.demand_revision(database.connection)  # an upgrade does not wait for workers that are idle
        try:
            result = database.run_next(
                holder,
                queue.name_process(),
                options=self.settings.reading,
                stopping=self.hurry,
                give_up=lambda: os._exit(_INTERRUPTED),
                taken=self._note_taken,
            )
        except KeyboardInterrupt:
            self.log.write_event("interrupted", "a run was interrupted", level="warning", **self.describe_claim())
            return True
        except DbanonError as error:
            if isinstance(error, StoreError) and error.sqlstate == sqlstate.READ_ONLY:
                raise
            self.log.write_failure(
                "failed", str(error), error, seconds=_measure_seconds(began), **self.describe_claim()
            )
            _demand_alive(database.connection, holder)
            return True
        if result is not None:
            seconds = _measure_seconds(began)
            self.log.write_event(
                "done", _format_line(result, seconds), state=result.status, seconds=seconds, **self.describe_claim()
            )
            for line in result.notices if self.settings.log == "text" else ():  # they have figures of people
                self.log.write_event("notice", line)
        return result is not None

    def _note_taken(self, claim: queue.Claim) -> None:
        self.claim = claim
        if self.settings.log == "json":
            self.log.write_event("taken", "", **self.describe_claim())

    def describe_claim(self) -> dict[str, Any]:
        """What a line of the log says of the run that was taken."""
        claim = self.claim
        return {} if claim is None else {"run_id": claim.run_id, "step": claim.todo, "tries": claim.attempt}

    def _tell(self, stage: str, _done: int, _total: int | None) -> None:
        """Note in the log what a first run waits for; ``dbanon.runs`` says how far the others are."""
        if stage == compiling.STAGE:
            self.log.write_event("compiling", stage, **self.describe_claim())


def _demand_alive(*connections: Connection) -> None:
    """Raise `StoreError` if a connection is gone: then all begin anew."""
    with translate_errors():
        for connection in connections:
            connection.execute("SELECT 1")


def _format_line(result: RunResult, seconds: float) -> str:
    return f"run {result.run_id} ({result.method}, {result.algorithm}): {result.status} in {seconds:.1f} s"


def _measure_seconds(began: float) -> float:
    return round(time.perf_counter() - began, 3)
