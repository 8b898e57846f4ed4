"""From a claimed run to its verdict: read, compute, write, attack; and how it ends if it does not get there.

The invariants kept here: cloaks and members become visible together with the status ``computed`` or not at all; a run
is ``verified`` only by an attack that read the stored rows; what an attack cannot decide is a refusal; whatever
happens, the run is left with a status that says so, or without a holder, which `queue.reap_runs` detects.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import psycopg

from dbanon import methods
from dbanon.attacks import Evidence, Verdict, import_attacker, overlapping_records, together
from dbanon.attacks.shared.clauses import make_refusal
from dbanon.base import (
    kernels,  # noqa: F401 - Numba, before there are threads: docs/developers/decisions/runs.md says why
    memory,
)
from dbanon.base.background import run_in_background
from dbanon.base.cloaks import Cloaks
from dbanon.base.dataset import DatasetRow
from dbanon.base.errors import DataError, DbanonError, StoreError
from dbanon.base.progress import Progress
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Trajectories
from dbanon.metrics import surface
from dbanon.options.reading import Reading
from dbanon.postgres import sqlstate
from dbanon.postgres.connection import Connection, translate_errors
from dbanon.runs import compiling, own_data, queue, reading, replica, room, stored, writing
from dbanon.runs.watch import Watch

T = TypeVar("T")

_SHORT_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '3s'"  # the user who pressed Ctrl-C is waiting
_RERUN_ADVICE = "Run it again, and report it if it is refused again."


def finish_run(
    connection: Connection,
    url: str,
    holder: Connection,
    claim: queue.Claim,
    watch: Watch,
    *,
    options: Reading,
    tasks: Tasks = SERIAL_TASKS,
    evaluate: Callable[[int, Progress], object],
) -> stored.RunResult:
    """Do what is to be done for a claimed run.

    Parameters
    ----------
    connection : psycopg.Connection
        Reads and writes; may go through a pooler.
    url : str
        For the bulk reads, which use another driver.
    holder : psycopg.Connection
        Holds the run's lock; releases it at the end.
    watch : Watch
        Not yet entered.
    options : Reading
        Which server datasets are read from.
    tasks : Tasks
        Does the method's tasks.
    evaluate : callable
        Measures the run of an id, whose part a job has published.

    Returns
    -------
    stored.RunResult
        Its `status` is ``verified`` or ``refused``.

    Raises
    ------
    DbanonError
        If the run failed; it is recorded.
    KeyboardInterrupt
        If it was interrupted; a stopping worker has given the run back to the queue.
    """
    try:
        with _mark_unfinished(connection, claim, watch), watch:
            run = _Run(
                connection, url, claim, stored.find_run(connection, claim.run_id), watch, options=options, tasks=tasks
            )
            if claim.todo == "evaluate":
                return run.evaluate(evaluate)
            return run.compute() if claim.todo == "compute" else run.verify()
    finally:
        queue.unlock(holder, claim)


class _Run:
    """The steps of one claimed run, in their order."""

    def __init__(
        self,
        connection: Connection,
        url: str,
        claim: queue.Claim,
        row: stored.RunRow,
        watch: Watch,
        *,
        options: Reading,
        tasks: Tasks,
    ) -> None:
        self.connection, self.url, self.claim, self.row, self.watch = connection, url, claim, row, watch
        self.progress = watch.note_progress
        self.options, self.tasks = options, tasks
        self.open_snapshot = partial(replica.open_snapshot, connection, options, claim, self.progress)
        self.family = methods.find_method(row.method)
        self.stopwatch = _Stopwatch()
        self.compiled = False

    def compute(self) -> stored.RunResult:
        began = time.perf_counter()
        memory.forget_peak()
        params = self.family.parse(self.row.params, self.row.algorithm)
        room.demand_room(self.connection, self.claim.run_id)
        self.progress("reading trajectories", 0, None)
        dataset, read = self._read(params)
        memory.free_memory()
        self.ready = run_in_background(self._prepare_attack)
        self.progress("computing cloaks", 0, None)
        with self.stopwatch("compute_s"), compiling.notify(self._report_compiling):
            rng = np.random.default_rng(self.row.seed)
            params, settled = self.family.settle_guests(
                read.trajectories, params, stored.find_kept_guests(self.connection, self.claim.run_id), **read.joined
            )
            cloaks = self.family.anonymise(
                read.trajectories, self.row.algorithm, params, rng, tasks=self.tasks, **read.inputs
            )
            if read.joined:
                cloaks = self.family.attach(cloaks, read.trajectories, params, **read.joined)
            cloaks = replace(cloaks, suppressed={**cloaks.suppressed, **settled})
        own = None
        if cloaks.rows and len(read.trajectories.x):
            own = own_data.digest_own(read.trajectories, cloaks.periods, self.row.params)
        del read
        memory.free_memory()
        metrics, suppressed = cloaks.metrics, cloaks.suppressed
        with self._read_early(dataset) as early:
            self.progress("writing cloaks", 0, cloaks.rows)
            with self.stopwatch("write_s"):
                self._write(dataset, cloaks, own, early)
            del cloaks
        found, self.stopwatch.seconds["verify_s"] = self._attack(early)
        self.stopwatch.seconds["total_s"] = time.perf_counter() - began
        refusal = self._record(found, timings=self.stopwatch.seconds, peak_rss_mb=memory.measure_peak_mb())
        return self._make_result(found.verdict, refusal, metrics=metrics, suppressed=suppressed)

    def verify(self) -> stored.RunResult:
        """Attack the stored rows of a run that was computed before."""
        self.ready = run_in_background(self._prepare_attack)
        found, self.stopwatch.seconds["verify_s"] = self._attack()
        refusal = self._record(found)
        return self._make_result(found.verdict, refusal, metrics=self.row.metrics, suppressed=self.row.suppressed)

    def evaluate(self, evaluate: Callable[[int, Progress], object]) -> stored.RunResult:
        """Measure a run whose part a job has published."""
        with self.stopwatch("total_s"):
            evaluate(self.claim.run_id, self.progress)
        queue.set_status(self.connection, self.claim, None)
        self.watch.settle()
        verdict = stored.find_latest_verdict(self.connection, self.claim.run_id)
        return self._make_result(verdict, None, metrics=self.row.metrics, suppressed=self.row.suppressed)

    def _make_result(self, verdict: Verdict, refusal: str | None, **known: Any) -> stored.RunResult:
        return stored.RunResult(
            run_id=self.claim.run_id,
            method=self.row.method,
            algorithm=self.row.algorithm,
            status="refused" if refusal else "verified",
            verdict=verdict,
            timings=self.stopwatch.seconds,
            peak_rss_mb=memory.measure_peak_mb(),
            notices=() if refusal else stored.list_notices(self.connection, self.claim.run_id),
            refusal=refusal,
            k=self.row.params.get("k"),
            **known,
        )

    def _read(self, params: Any) -> tuple[DatasetRow, "_Read"]:
        """Read all a run needs from one snapshot, which is closed again; the method gets ready in the meantime."""
        ready = run_in_background(self._prepare, params)
        with self.stopwatch("load_s"), reading.open_reader(self.url, self.open_snapshot) as reader:
            dataset = reader.read_dataset(self.row.dataset_id)
            queue.set_status(self.connection, self.claim, "running", dataset_revision=dataset.revision)
            number, values = dataset.dataset_id, asdict(params)
            is_spare = not replica.is_asked(self.connection, self.options, self.claim)
            reader.begin(number, (*self.family.reads, *self.family.joins))
            read = _Read(
                trajectories=reader.read_trajectories(number, is_spare=is_spare),
                inputs=reader.read_inputs(number, self.family.reads, values),
                joined=reader.read_inputs(number, self.family.joins, values),
            )
        with self.stopwatch("compile_s"):
            ready.result()
        return dataset, read

    def _report_compiling(self) -> None:
        """Report once that kernels are compiled: the first run on a machine waits for that."""
        if not self.compiled:
            self.compiled = True
            self.progress(compiling.STAGE, 0, None)

    def _prepare(self, params: Any) -> None:
        """Let the method get ready, which reads nothing."""
        with compiling.notify(self._report_compiling):
            self.family.prepare(self.row.algorithm, params)

    def _prepare_attack(self) -> None:
        """Let the attack get ready, where it has something to do before it reads."""
        with compiling.notify(self._report_compiling):
            getattr(import_attacker(self.family.attack), "prepare", lambda: None)()
            together.prepare()
            surface.prepare()

    def _write(self, dataset: DatasetRow, cloaks: Cloaks, own: bytes | None, early: reading.Early | None) -> None:
        with self.connection.transaction():
            stored.demand_unchanged(self.connection, dataset)
            writing.write_cloaks(self.connection, self.claim.run_id, dataset, cloaks, self.progress)
            if own is None and cloaks.rows:
                own = own_data.digest_own(self._read_again(dataset, early), cloaks.periods, self.row.params)
            queue.set_status(
                self.connection,
                self.claim,
                "computed",
                metrics=cloaks.metrics,
                suppressed=cloaks.suppressed,
                rows=cloaks.rows,
                data_digest=own,
            )

    def _read_again(self, dataset: DatasetRow, early: reading.Early | None) -> Trajectories:
        """Give the data that the run was computed from, whose positions were given back: those of the early reading."""
        if early is not None:
            wait(early.coming)
            if early.is_of(asdict(dataset)):
                return early.data.result()[0]
        with reading.open_reader(self.url) as reader:
            data = reader.read_trajectories(dataset.dataset_id)
        stored.demand_unchanged(self.connection, dataset)
        return data

    @contextmanager
    def _read_early(self, dataset: DatasetRow) -> Iterator[reading.Early | None]:
        """Read the dataset again for the attack while the block writes cloaks, and wait at the end for the reading.

        Gives None where a replica is to give it, or where the server gives no further connection.
        """
        if replica.is_asked(self.connection, self.options, self.claim):
            yield None
            return
        early, stack = None, ExitStack()
        try:
            # The write and the attack find out what is wrong beyond this reading.
            with suppress(DbanonError, psycopg.Error):
                reader = stack.enter_context(reading.open_reader(self.url))
                early = reader.read_early(
                    dataset.dataset_id, reading.list_attack_inputs(import_attacker(self.family.attack))
                )
            yield early
            if early is not None:
                wait(early.coming)
        finally:
            with suppress(DbanonError):
                stack.close()

    def _attack(self, early: reading.Early | None = None) -> tuple[stored.Found, float]:
        """Attack the stored rows; the digest is of the state they are read in: later changes invalidate the verdict."""
        began = time.perf_counter()
        memory.free_memory()
        self.progress("attacking the stored rows", 0, None)
        found = self._judge(early)
        return found, time.perf_counter() - began

    def _judge(self, early: reading.Early | None = None) -> stored.Found:
        """Run the attack, and make the surface of what it passes; the digest is of what both have read."""
        run_id = self.claim.run_id
        with reading.open_reader(self.url, self.open_snapshot) as reader:
            read = _try_step(self.family, lambda: reader.read_evidence(run_id, early))
            if isinstance(read, Verdict):
                return stored.Found(read, reader.call_beside(stored.compute_digest, run_id).result())
            evidence, digest = read
        del read
        memory.free_memory()
        verdict = _try_step(self.family, lambda: self._decide(evidence))
        tight = self.family.find_algorithm(self.row.algorithm).tight
        is_tight = verdict.passed and tight is not None and tight.items() <= self.row.params.items()
        return stored.Found(verdict, digest, _make_surface(evidence) if is_tight else None)

    def _decide(self, evidence: Evidence) -> Verdict:
        self.ready.result()
        with compiling.notify(self._report_compiling):
            verdict = _demand_sound(import_attacker(self.family.attack).attack(evidence), self.family)
        family = self.family
        verdict = overlapping_records.add_clauses(
            verdict, evidence, counts_days=family.has_days, has_guests=family.has_guests
        )
        return together.add_figures(verdict, evidence)

    def _record(self, found: stored.Found, **columns: Any) -> str | None:
        """Store verdict and status together; returns why the run is refused, if it is."""
        verdict = found.verdict
        status = "verified" if verdict.passed else "refused"
        with self.connection.transaction():
            queue.lock_run(self.connection, self.claim)  # no publication between the sentence and the status
            refusal = None if verdict.passed else self._describe_refusal(verdict)
            stored.add_verification(self.connection, self.claim.run_id, found)
            queue.set_status(self.connection, self.claim, status, error=refusal, error_kind=None, **columns)
        self.watch.settle()
        return refusal

    def _describe_refusal(self, verdict: Verdict) -> str:
        broken = " ".join(f"[{c.name}] {c.sentence}" for c in verdict.clauses if not c.passed)
        live = stored.list_live_releases(self.connection, self.claim.run_id)
        return (
            f"Run {self.row.run_id} must withstand the {verdict.attack} attack to be published. It did not: {broken} "
            + (f"Its releases stay live: {', '.join(live)}. " if live else "Nothing was published. ")
            + self._choose_remedy(live)
        )

    def _choose_remedy(self, live: list[str]) -> str:
        """Say what to do if the run is refused: data that changed since are reason enough."""
        if live:
            return "Replace or withdraw them, unless the data only changed afterwards."
        read = stored.find_run(self.connection, self.claim.run_id).dataset_revision
        changed = read != stored.find_dataset(self.connection, self.row.dataset).revision
        return "The dataset has changed since that run: start another." if changed else _RERUN_ADVICE


def _make_surface(evidence: Evidence) -> surface.Surface | None:
    crowd, subjects = (people.astype(np.int64) for people in (evidence.region_crowd, evidence.region_subjects))
    times = evidence.cloak_start_s, evidence.cloak_end_s
    rows = surface.Rows(evidence.region_bounds, crowd, subjects, evidence.offset, evidence.region, *times)
    return surface.make_surface(rows)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What a run computes on: what its family reads, and what it joins to finished cloaks."""

    trajectories: Trajectories
    inputs: dict[str, Any]
    joined: dict[str, Any]


class _Stopwatch:
    """Seconds spent in named phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[phase] = time.perf_counter() - began


def _try_step(family: methods.Method, step: Callable[[], T]) -> T | Verdict:
    """Do a step of an attack; whatever keeps it from deciding is a refusal that says why."""
    try:
        with translate_errors():
            return step()
    except StoreError:  # the connection was lost: nothing was decided, and nothing is recorded
        raise
    except DbanonError as error:  # its sentence names no subject and no place
        why = str(error)
    except Exception as error:
        why = f"The attack stopped with {type(error).__name__}, which is a defect. Report it."
    return make_refusal(family.name, why)


def _demand_sound(verdict: Verdict, family: methods.Method) -> Verdict:
    """Raise `DataError` unless a verdict is the family's, follows from its clauses and can be stored."""
    clauses, figures = verdict.clauses, np.array([*verdict.figures.values()], float)
    follows = verdict.passed == all(clause.passed for clause in clauses)
    counted = all(clause.passed == (clause.violations == 0) for clause in clauses)
    if verdict.attack != family.name or not (clauses and follows and counted and np.isfinite(figures).all()):
        raise DataError("A verdict must follow from its clauses, at least one. This is a defect of the attack.")
    return verdict


# ---- ending a run early ----------------------------------------------------------------------------------------------


@contextmanager
def _mark_unfinished(connection: Connection, claim: queue.Claim, watch: Watch) -> Iterator[None]:
    """Leave a run ``failed``, ``cancelled`` or ``queued`` if the body does not finish."""
    try:
        yield
    except BaseException as error:
        if watch.why == "lost":
            raise (sqlstate.translate(watch.error) if watch.error else queue.make_lost_error(claim.run_id)) from None
        if watch.why == "stop":
            with suppress(psycopg.Error), connection.transaction():
                connection.execute(_SHORT_LOCK_TIMEOUT)
                queue.requeue_run(connection, claim)
            raise KeyboardInterrupt from None
        if watch.why == "cancel" or isinstance(error, queue.CancelledError):
            options = queue.make_cancellation(connection, claim) or queue.make_lost_error(claim.run_id)
            _give_up(connection, claim, "cancelled", str(options))
            raise options from None
        if isinstance(error, KeyboardInterrupt):
            _give_up(connection, claim, "cancelled", "The run was interrupted.")
        else:
            _fail(connection, claim, error, watch)
        raise


def _fail(connection: Connection, claim: queue.Claim, error: BaseException, watch: Watch) -> None:
    failure = error if isinstance(error, DbanonError) else None
    if isinstance(error, psycopg.Error):
        failure = sqlstate.translate(error)
    # The bulk reads make this of Ctrl-C.
    cancelled = isinstance(failure, StoreError) and failure.sqlstate == sqlstate.CANCELLED
    if isinstance(failure, StoreError) and (sqlstate.is_passing(failure) or (cancelled and watch.for_worker)):
        with suppress(psycopg.Error):
            queue.note_error(connection, claim, str(failure))
        watch.pause(claim.attempt)  # before the next attempt: what was missing may be there again
        return  # a connection or a statement of it was ended from outside: for `queue.reap_runs`, which begins it again
    sentence = (
        str(failure) if failure is not None else f"The run failed with {type(error).__name__}. See the worker's log."
    )
    name = next((name for family, name in stored.ERROR_KINDS.items() if isinstance(failure, family)), "other")
    _give_up(connection, claim, "cancelled" if cancelled else "failed", sentence, None if cancelled else name)


def _give_up(connection: Connection, claim: queue.Claim, status: str, error: str, kind: str | None = None) -> None:
    """Record how a run ended and delete its rows; if interrupted in that, begin once more."""
    try:
        _undo(connection, claim, status, error, kind)
    except KeyboardInterrupt:  # the driver of the bulk reads had swallowed the first Ctrl-C
        _undo(connection, claim, "cancelled", "The run was interrupted.", None)
        raise


def _undo(connection: Connection, claim: queue.Claim, status: str, error: str, kind: str | None) -> None:
    """Record how a run ended and delete its rows; if the connection is gone, `queue.reap_runs` does so later.

    A run that was only to be verified or measured keeps its rows and its status. Its job notes why it was not measured.
    """
    with suppress(psycopg.Error, StoreError), connection.transaction():
        connection.execute(_SHORT_LOCK_TIMEOUT)
        if claim.todo == "compute":
            stored.delete_rows(connection, claim.run_id)
            queue.set_status(connection, claim, status, error=error, error_kind=kind)
        else:
            queue.set_status(connection, claim, None, **({"error": error} if claim.todo == "evaluate" else {}))
