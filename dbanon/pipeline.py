"""From run to release: load, compute, write, verify, publish. The only place that knows the order.

The invariants kept here: a run's row is committed before its computation starts, and its holder keeps an advisory lock
on it; cloaks and members become visible together with the status ``computed`` or not at all; a run is ``verified`` only
by an attack that read the stored rows; what an attack cannot decide is a refusal.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import psycopg

from dbanon import _memory, load, methods, schema, server, store
from dbanon._background import in_background
from dbanon._progress import Progress, silent
from dbanon.attacks import ATTACKS, Clause, Verdict
from dbanon.errors import DbanonError, ParameterError, StoreError, VerificationFailed
from dbanon.trajectory import Cloaks, Places, Requests, Trajectories

if TYPE_CHECKING:
    from dbanon.loading._datasets import Mode
    from dbanon.synth import SynthReport

_CANCELLED = "57014"  # the driver of the bulk reads makes this of Ctrl-C


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What ``dbanon run`` and ``dbanon verify`` report."""

    run_id: int
    method: str
    algorithm: str
    status: str
    metrics: Mapping[str, Any]
    verdict: Verdict
    timings: Mapping[str, float] = field(default_factory=dict)
    suppressed: Mapping[str, Any] = field(default_factory=dict)
    peak_rss_mb: float = 0.0
    release: str | None = None
    rows_published: int | None = None
    notices: tuple[str, ...] = ()
    remedy: str = "run it again, and report it if it is refused again."

    def require_verified(self) -> None:
        """Raise `VerificationFailed` with the clauses that broke, unless the attack found nothing."""
        if not self.verdict.passed:
            comparison = methods.method(self.method).algorithm(self.algorithm).comparison_only
            broken = " ".join(f"[{c.name}] {c.sentence}" for c in self.verdict.clauses if not c.passed)
            raise VerificationFailed(
                f"Run {self.run_id} must withstand the {self.verdict.attack} attack to be published. It did not: "
                f"{broken} Nothing was published; "
                + ("use an algorithm that is not for comparison only." if comparison else self.remedy)
            )


class Database:
    """The verbs of the command line on one database.

    Parameters
    ----------
    target : server.Target
        Where it is.

    Notes
    -----
    Made by `dbanon.connect`. Not safe for use from several threads at once; open one for each.
    """

    def __init__(self, target: server.Target) -> None:
        self.target = target
        self.connection: psycopg.Connection[Any] = store.connect(target.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; an embedded server stays up."""
        self.connection.close()

    def load_trajectories(
        self, files: Sequence[str | Path], *, dataset: str, progress: Progress = silent, **options: Any
    ) -> load.LoadReport:
        """Load one fix a row; options as for `dbanon.load.Options`."""
        paths = [Path(f) for f in files]
        with store.errors_translated():
            return load.load_trajectories(self.connection, paths, dataset=dataset, progress=progress, **options)

    def import_trajectories(
        self, table: str, *, dataset: str, columns: load.TableColumns, progress: Progress = silent, **options: Any
    ) -> load.LoadReport:
        """Load one fix a row from a table of the same database; options as for `dbanon.load.Options`."""
        with store.errors_translated():
            return load.import_trajectories(
                self.connection, table, dataset=dataset, columns=columns, progress=progress, **options
            )

    def load_requests(
        self, file: str | Path, *, dataset: str, columns: Sequence[str], progress: Progress = silent, **options: Any
    ) -> load.LoadReport:
        """Load LBS requests; the named columns become the name-value pairs."""
        with store.errors_translated():
            return load.load_requests(
                self.connection, Path(file), dataset=dataset, columns=tuple(columns), progress=progress, **options
            )

    def load_sites(
        self, file: str | Path, *, dataset: str, progress: Progress = silent, **options: Any
    ) -> load.LoadReport:
        """Load sensitive sites; options as for `dbanon.load.load_sites`, of which `columns` names the columns."""
        with store.errors_translated():
            return load.load_sites(self.connection, Path(file), dataset=dataset, progress=progress, **options)

    def synth(
        self,
        dataset: str,
        *,
        grid_m: float = 1.0,
        grid_s: int = 1,
        mode: "Mode" = "create",
        progress: Progress = silent,
        **plan: Any,
    ) -> "SynthReport":
        """Generate moving objects and their requests into a dataset; `plan` as for `dbanon.synth.Plan.of`."""
        from dbanon import synth  # slow to import, and seldom needed

        chosen = synth.Plan.of(**plan)
        with store.errors_translated():
            return synth.into_database(
                self.connection, chosen, dataset=dataset, grid_m=grid_m, grid_s=grid_s, mode=mode, progress=progress
            )

    def run(
        self,
        method: str,
        *,
        dataset: str,
        algorithm: str | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        publish: str | None = None,
        progress: Progress = silent,
    ) -> RunResult:
        """Compute, write and verify a run; publish it under a name if one is given and the attack found nothing.

        Parameters
        ----------
        method, algorithm : str
            See ``dbanon methods``; the algorithm defaults to the family's first.
        dataset : str
        params : mapping, optional
            Parameter names and values.
        seed : int, optional
            Same data, parameters and seed: same cloaks. Drawn at random when not given.
        publish : str, optional
            Name of the release.
        progress : callable, optional
            Called with a stage, what is done and the total or None.

        Returns
        -------
        RunResult
            Its `status` is ``verified`` or ``refused``; a refused run is never published.
        """
        family = methods.method(method)
        chosen = family.algorithm(algorithm)
        parsed = family.parse(params or {}, chosen.name)
        seed = secrets.randbelow(2**53) if seed is None else _checked_seed(seed)
        if publish is not None and chosen.comparison_only:
            raise ParameterError(
                f"A run to publish must use an algorithm that gives the guarantee. {chosen.name} is for comparison; "
                "choose another, or leave out --publish."
            )
        with store.errors_translated():
            store.demand_worker(self.connection)
            store.reap_runs(self.connection)
            data = store.dataset_row(self.connection, dataset)
            if publish is not None:
                store.check_release_name(self.connection, publish)
            with self._starting(data, family.name, chosen.name, asdict(parsed), seed=seed) as run_id:
                result = self._execute(_Job(run_id, family, chosen, parsed, seed, data), progress)
            # Outside: a run that could not be published is verified all the same.
            return self._publish_result(result, publish, progress)

    def plan(
        self,
        method: str,
        *,
        dataset: str,
        algorithm: str | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[store.PlanItem, ...]:
        """Say what `run` would meet with the same arguments, without writing anything."""
        with store.errors_translated():
            store.dataset_row(self.connection, dataset)  # names the nearest where there is none
            return store.plan_run(self.connection, dataset, method, algorithm, params or {})

    def verify(self, run_id: int, *, progress: Progress = silent) -> RunResult:
        """Attack the stored rows of a run again and record the verdict."""
        with store.errors_translated():
            row = store.run_row(self.connection, run_id)
            if row.status not in ("computed", "verified", "refused"):
                raise ParameterError(
                    f"A run must have been computed to be verified. Run {run_id} is {row.status}; start another run."
                )
            with store.lock_run(self.connection, run_id):
                verdict, seconds = self._attack(run_id, row.method, progress)
                status = self._record(run_id, verdict)
            return RunResult(
                run_id=run_id,
                method=row.method,
                algorithm=row.algorithm,
                status=status,
                metrics=row.metrics,
                verdict=verdict,
                timings={"verify_s": seconds},
                suppressed=row.suppressed,
                peak_rss_mb=_memory.peak_mb(),
                remedy=self._remedy(row),
            )

    def _remedy(self, row: store.RunRow) -> str:
        """Say what to do if the run is refused: data that changed since are reason enough."""
        changed = row.dataset_revision != store.dataset_row(self.connection, row.dataset).revision
        return "the dataset has changed since that run: start another." if changed else RunResult.remedy

    def publish(self, run_id: int, name: str) -> tuple[int, tuple[str, ...]]:
        """Publish a verified run as ``published.<name>``; returns the number of rows and the server's notices."""
        with store.errors_translated():
            return store.publish(self.connection, run_id, name)

    def unpublish(self, name: str) -> None:
        """Withdraw a release: its view and rows go, what the adversary learnt from it stays on record."""
        with store.errors_translated():
            store.unpublish(self.connection, name)

    def runs(self) -> list[dict[str, Any]]:
        """List all runs, newest last."""
        with store.errors_translated():
            store.reap_runs(self.connection)
            return store.list_runs(self.connection)

    def release_rows(self, name: str, limit: int = 10) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Read rows of a published view with the analyst's rights."""
        with store.errors_translated():
            return store.release_rows(self.connection, name, limit)

    @contextmanager
    def _starting(
        self, data: store.DatasetRow, method: str, algorithm: str, params: Mapping[str, Any], *, seed: int
    ) -> Iterator[int]:
        """Create a run and hold its lock for the body.

        Row, lock and status are committed together: killed at any moment, no run is left waiting for nobody, and no
        session finds it running without a holder.
        """
        with ExitStack() as held:
            with self.connection.transaction():
                run_id = store.create_run(self.connection, data.dataset_id, method, algorithm, params, seed=seed)
                held.enter_context(store.lock_run(self.connection, run_id))
                store.set_status(self.connection, run_id, "running")
            held.enter_context(self._ending(run_id))
            yield run_id

    @contextmanager
    def _ending(self, run_id: int) -> Iterator[None]:
        """Leave a run ``failed`` or ``cancelled`` if the body does not come to an end."""
        try:
            yield
        except KeyboardInterrupt:
            self._give_up(run_id, "cancelled", "The run was interrupted.")
            raise
        except BaseException as error:
            told = str(error) if isinstance(error, DbanonError) else "The run failed; see its error with --debug."
            if isinstance(error, psycopg.Error):
                told = str(store.translate(error))
            cancelled = getattr(error, "sqlstate", None) == _CANCELLED
            self._give_up(run_id, "cancelled" if cancelled else "failed", told)
            raise

    def _give_up(self, run_id: int, status: str, error: str) -> None:
        """Record how a run ended and delete its rows; if interrupted in that, begin once more."""
        try:
            self._undo(run_id, status, error)
        except KeyboardInterrupt:  # the driver of the bulk reads had swallowed the first Ctrl-C
            self._undo(run_id, "cancelled", "The run was interrupted.")
            raise

    def _undo(self, run_id: int, status: str, error: str) -> None:
        """Record how a run ended and delete its rows; if the connection is gone, `reap_runs` does so later."""
        with suppress(psycopg.Error), self.connection.transaction():
            self.connection.execute("SET LOCAL lock_timeout = '3s'")  # whoever pressed Ctrl-C is waiting
            store.delete_rows(self.connection, run_id)
            store.set_status(self.connection, run_id, status, error=error)

    def _execute(self, job: "_Job", progress: Progress) -> RunResult:
        began = time.perf_counter()
        watch = _Stopwatch()
        progress("reading trajectories", 0, None)
        job, read = self._read(job, watch)
        progress("computing cloaks", 0, None)
        with watch("compute_s"):
            rng = np.random.default_rng(job.seed)
            cloaks = job.family.anonymise(read.trajectories, job.algorithm.name, job.params, rng, read.places)
            if read.requests is not None:
                cloaks = job.family.attach(cloaks, read.trajectories, read.requests)
        del read
        progress("writing cloaks", 0, len(cloaks.record_id))
        with watch("write_s"):
            self._write(job, cloaks)
        verdict, watch.seconds["verify_s"] = self._attack(job.run_id, job.family.name, progress)
        watch.seconds["total_s"] = time.perf_counter() - began
        status = self._record(job.run_id, verdict, timings=watch.seconds, peak_rss_mb=_memory.peak_mb())
        return RunResult(
            run_id=job.run_id,
            method=job.family.name,
            algorithm=job.algorithm.name,
            status=status,
            metrics=cloaks.metrics,
            verdict=verdict,
            timings=watch.seconds,
            suppressed=cloaks.suppressed,
            peak_rss_mb=_memory.peak_mb(),
        )

    def _read(self, job: "_Job", watch: "_Stopwatch") -> tuple["_Job", "_Read"]:
        """Read all a run needs from one snapshot, which is closed again; the method gets ready in the meantime."""
        ready = in_background(job.family.prepare, job.algorithm.name, job.params)
        with watch("load_s"), store.reading(self.target.url) as reader:
            job = replace(job, dataset=reader.dataset(job.dataset.dataset_id))
            revision = job.dataset.revision
            store.set_status(self.connection, job.run_id, "running", dataset_revision=revision)
            read = _Read(
                trajectories=reader.trajectories(job.dataset.dataset_id),
                requests=reader.requests(job.dataset.dataset_id) if job.family.reads_requests else None,
                places=reader.places(job.dataset.dataset_id) if job.family.reads_places else None,
            )
        with watch("compile_s"):
            ready.result()
        return job, read

    def _write(self, job: "_Job", cloaks: Cloaks) -> None:
        with self.connection.transaction():
            store.demand_unchanged(self.connection, job.dataset)
            store.write_cloaks(self.connection, job.run_id, job.dataset, cloaks)
            store.set_status(
                self.connection, job.run_id, "computed", metrics=cloaks.metrics, suppressed=cloaks.suppressed
            )

    def _publish_result(self, result: RunResult, name: str | None, progress: Progress) -> RunResult:
        if name is None or not result.verdict.passed:
            return result
        progress("publishing", 0, None)
        try:
            rows, notices = self.publish(result.run_id, name)
        except DbanonError as error:
            remains = f"Run {result.run_id} is verified: `dbanon publish {result.run_id} NAME` needs no other run."
            error.args = (f"{error} {remains}", *error.args[1:])
            raise
        return replace(result, release=name, rows_published=rows, notices=notices)

    def _attack(self, run_id: int, method: str, progress: Progress) -> tuple[Verdict, float]:
        """Attack the stored rows; the digest is taken first, so that a later change can only invalidate the verdict."""
        began = time.perf_counter()
        progress("attacking the stored rows", 0, None)
        name = methods.method(method).attack
        digest = store.run_digest(self.connection, run_id)
        verdict = _judge(name, self.target.url, run_id)
        store.add_verification(self.connection, run_id, verdict, digest)
        return verdict, time.perf_counter() - began

    def _record(self, run_id: int, verdict: Verdict, **columns: Any) -> str:
        status = "verified" if verdict.passed else "refused"
        store.set_status(self.connection, run_id, status, **columns)
        return status


@dataclass(frozen=True)
class _Job:
    run_id: int
    family: methods.Method
    algorithm: methods.Algorithm
    params: Any
    seed: int
    dataset: store.DatasetRow


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What a run computes on; None is what its family does not read."""

    trajectories: Trajectories
    requests: Requests | None
    places: Places | None


class _Stopwatch:
    """Seconds spent in named phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[phase] = time.perf_counter() - began


def _judge(name: str, url: str, run_id: int) -> Verdict:
    """Run an attack; whatever keeps it from deciding is a refusal."""
    try:
        with store.reading(url) as reader:
            evidence = reader.evidence(run_id)
        return ATTACKS[name](evidence)
    except StoreError:  # the server went away: nothing was decided, and nothing is recorded
        raise
    except Exception as error:
        told = f"The attack must come to an end. It stopped with {type(error).__name__}; report this."
        clause = Clause(name="decidable", passed=False, violations=1, sentence=told)
        return Verdict(attack=name, passed=False, figures={}, clauses=(clause,))


def _checked_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise ParameterError(f"The seed must be an integer >= 0 and < 2^63. Got {seed} instead; choose a smaller one.")
    return seed


def open_database(dsn: str | None = None, announce: Callable[[str], None] | None = None) -> Database:
    """Resolve a DSN, migrate the embedded server if that is what is used, check the schema of any other.

    Parameters
    ----------
    dsn : str, optional
        See `dbanon.connect`.
    announce : callable, optional
        Told which server is used, before anything is done there.

    Raises
    ------
    SchemaMismatch
        If the schema is missing or of another revision.
    """
    target = server.resolve(dsn)
    if announce is not None:
        announce(target.label)
    with store.errors_translated():
        database = Database(target)
        try:
            _check_or_migrate(database)
        except BaseException:
            database.close()
            raise
    return database


def synth_files(
    directory: str | Path, *, replace: bool = False, progress: Progress = silent, **plan: Any
) -> "SynthReport":
    """Generate moving objects and their requests into CSV files; no database is used."""
    from dbanon import synth

    return synth.into_files(Path(directory), synth.Plan.of(**plan), replace=replace, progress=progress)


def _check_or_migrate(database: Database) -> None:
    """Check the schema; only the embedded server is migrated unasked."""
    if database.target.embedded and not schema.is_current(database.target.url):
        schema.upgrade(database.target.url)
    schema.check(database.connection)
