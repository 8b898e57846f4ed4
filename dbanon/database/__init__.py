"""From run to release: load, run, verify, publish; in this process, or by asking a worker. What users call.

SQL, arrays and text for people live below and above. Runs are done in `pipeline`; the queue decides which process does
which run.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg

from dbanon import releases, schema
from dbanon.base import extras
from dbanon.base.errors import DbanonError, ParameterError, StoreError
from dbanon.base.extras import needs
from dbanon.base.progress import Display, Progress, finish_progress
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.database.datasets import Datasets
from dbanon.options import accept_options, evaluating, list_fields, publishing, reporting, scheduling, sweeping
from dbanon.options.reading import Reading
from dbanon.postgres import server
from dbanon.postgres.connection import Connection, connect, connect_to_hold, translate_errors
from dbanon.releases import export
from dbanon.releases.published import Params
from dbanon.results.figures import Evaluation
from dbanon.results.sweep import Sweep
from dbanon.runs import jobs, queue, stored
from dbanon.runs.stored import RunResult
from dbanon.runs.watch import Watch

if TYPE_CHECKING:
    import geopandas

    from dbanon.reports import reporting as pages

__all__ = ["Database", "RunResult", "open_database"]

_POLL_S = 0.2


class Database(Datasets):
    """The verbs of the command line on one database.

    Attributes
    ----------
    lock_url : str
        Where connections that hold locks go: ``DBANON_LOCK_DSN`` where `target` is a pooler, which may give every
        transaction another session.
    tasks : dbanon.base.tasks.Tasks
        Does the tasks of the runs that are computed here. By default this process does them;
        ``dbanon.base.tasks.Processes()`` shares them among processes of this machine.
    progress : Progress
        Called with a stage, what is done and the total or None. By default a bar on a terminal or in a notebook;
        `dbanon.base.progress.report_nothing` shows nothing.

    Notes
    -----
    Made by `dbanon.connect`. Not safe for use from several threads at once; open one for each.
    """

    def __init__(self, target: server.Target) -> None:
        self.target = target
        direct = os.environ.get("DBANON_LOCK_DSN")
        self.lock_url = server.make_target(direct).url if direct else target.url
        self.tasks: Tasks = SERIAL_TASKS
        self.progress: Progress = Display()
        self.connection: psycopg.Connection[Any] = connect(target.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and remove a progress bar. An embedded server stays up."""
        if isinstance(self.progress, Display):
            self.progress.finish()
        self.connection.close()

    @finish_progress
    @accept_options(publishing.Running)
    def run(self, method: str, options: publishing.Running) -> RunResult:
        """Compute, write and verify a run. If you give a name and the attack finds nothing, publish it, too.

        A reader who has the seed can replay how ties went: keep it private. Without one the run has a secret one, which
        the same run has again.

        Parameters
        ----------
        method : str
            See ``dbanon methods``.

        Returns
        -------
        RunResult
            Its `status` is ``verified`` or ``refused``; a refused run is never published.
        """
        from dbanon import methods

        family = methods.find_method(method)
        chosen = replace(options, algorithm=family.find_algorithm(options.algorithm).name)
        asks = any(getattr(options, option.name) != option.default for option in list_fields(publishing.Publishing))
        if options.publish is None and asks:
            raise ParameterError(
                "A run must be published to replace or extend a release, allow an overlap or name readers. Got no "
                "name for it. Add --publish."
            )
        with translate_errors():
            if options.publish is not None:
                releases.demand_publishable(self.connection, options.publish, options)
            if self._may_compute():
                result = self._run_here(lambda holder: queue.submit_run(holder, method, chosen), chosen)
            else:
                self._demand_worker()
                result = self.wait(queue.submit_run(self.connection, method, chosen))
            if options.publish is None or not result.verdict.passed:
                return result
            self.progress("publishing", 0, None)
            # A run that could not be published is verified all the same.
            with _note_what_remains(result.run_id), translate_errors():
                rows, notices = releases.publish(self.connection, result.run_id, options.publish, options)
            return replace(result, release=options.publish, rows_published=rows, notices=notices)

    @accept_options(publishing.Submitting)
    def submit(self, method: str, options: publishing.Submitting) -> int:
        """Queue a run for the next worker that is free, with the options of `run`. Returns its id at once."""
        with translate_errors():
            return queue.submit_run(self.connection, method, options)

    @finish_progress
    @accept_options(publishing.Planning)
    def plan(self, method: str, options: publishing.Planning) -> tuple[stored.PlanItem, ...]:
        """Predict what `run` would meet, and take: that is measured on some people, if not known and not refused."""
        with translate_errors():
            *_, ending = items = stored.plan_run(self.connection, method, options)
            if ending.value in (0, 5) and self._may_compute() and stored.lacks_needs(self.connection, method, options):
                from dbanon.database.sweeping import measure_needs  # with Numba

                measure_needs(self, method, options)
                items = stored.plan_run(self.connection, method, options)
            return items

    @finish_progress
    def choose(self, dataset: str, *, sample: int = 500) -> tuple[stored.Choice, ...]:
        """List the methods that fit a dataset, with what each costs on `sample` people, if this login may compute."""
        with translate_errors():
            choices = stored.choose_method(self.connection, dataset)
            if not self._may_compute():
                return choices
            from dbanon.database.sweeping import measure_cost  # with Numba

            return tuple(measure_cost(self, dataset, one, sample) for one in choices)

    @needs("compute")
    @finish_progress
    @accept_options(sweeping.Sweeping)
    def sweep(self, method: str, options: sweeping.Sweeping) -> Sweep:
        """Compute, attack and measure every combination of some values of parameters. It publishes nothing.

        Interrupted, the same call goes on where it was: what was measured of this state of the dataset is found again.

        Parameters
        ----------
        method : str
            See ``dbanon methods``.

        Returns
        -------
        dbanon.results.sweep.Sweep
            Its `settings` are one a combination, also of those that cannot be, which say why; `frame` makes a table.

        Raises
        ------
        ParameterError
            For names and values that no run takes, more than 200 combinations, and a figure that is not measured.
        StoreError
            If the login may not compute.
        """
        from dbanon.database.sweeping import sweep_settings  # with Numba

        with translate_errors():
            return sweep_settings(self, method, options)

    @finish_progress
    @accept_options(Reading)
    def verify(self, run_id: int, options: Reading) -> RunResult:
        """Attack the stored rows of a run again and record the verdict."""
        with translate_errors():
            if self._may_compute():

                def ask(holder: Connection) -> int:
                    queue.ask_verification(holder, run_id)
                    return run_id

                return self._run_here(ask, options)
            self._demand_worker()
            before = stored.find_last_verification(self.connection, run_id)
            queue.ask_verification(self.connection, run_id)
            return self.wait(run_id, after=before)

    @finish_progress
    def wait(self, run_id: int, *, after: int = 0) -> RunResult:
        """Wait until a worker has finished a run. If you interrupt it, it cancels the run.

        Parameters
        ----------
        after : int
            Id of the last verification that does not count.
        """
        with translate_errors():
            try:
                while (state := queue.read_state(self.connection, run_id)).todo is not None:
                    self.progress(state.progress or "waiting", state.done, state.total)
                    queue.reap_runs(self.connection)
                    time.sleep(_POLL_S)
                return stored.read_result(self.connection, run_id, after=after)
            except KeyboardInterrupt:
                # On a separate connection: the interrupted one may still be in the middle of a statement.
                with suppress(DbanonError, psycopg.Error), connect(self.target.url) as fresh:
                    queue.cancel_run(fresh, run_id)
                raise
            except psycopg.OperationalError as error:
                if not self.connection.closed:
                    raise
                raise StoreError(
                    f"The connection to the server was lost while run {run_id} was computed. The run goes on without "
                    f"it. See `dbanon runs`."
                ) from error

    def cancel(self, run_id: int) -> str:
        """Cancel a run, or its verification. Returns the status of the run, or ``being cancelled``."""
        with translate_errors():
            return queue.cancel_run(self.connection, run_id)

    @needs("compute")
    @finish_progress
    def run_next(
        self,
        holder: Connection,
        worker: str,
        *,
        options: Reading | None = None,
        stopping: threading.Event | None = None,
        give_up: Callable[[], None] | None = None,
        taken: Callable[[queue.Claim], None] = lambda claim: None,
    ) -> RunResult | None:
        """Take the oldest run that waits and do it, as a worker does.

        Parameters
        ----------
        holder : psycopg.Connection
            Will hold the run's lock; goes straight to the server.
        worker : str
            Who takes it.
        options : Reading, optional
            Which server datasets are read from.
        stopping, give_up
            As for `dbanon.runs.watch.Watch`.
        taken : callable
            Called with what was taken, before it is done.

        Returns
        -------
        RunResult or None
            None if nothing waits.
        """
        with translate_errors():
            claim = queue.claim_run(holder, worker)
            if claim is None:
                return None
            taken(claim)
            watch = Watch(holder, claim, self.progress, stopping=stopping, give_up=give_up)
            return self._finish_run(holder, claim, watch, options or Reading())

    def _may_compute(self) -> bool:
        """Whether runs are computed in this process: the part for it is installed, and the login may."""
        return not extras.list_missing("compute") and queue.may_compute(self.connection)

    def _demand_worker(self) -> None:
        """Raise an error where this process does not compute and no worker is up."""
        if queue.has_worker(self.connection):
            return
        if queue.may_compute(self.connection):
            extras.demand("compute", what="To compute a run while no worker is up, this machine")
        raise queue.make_no_worker_error()

    def _run_here(self, ask: Callable[[Connection], int], options: Reading) -> RunResult:
        """Submit what `ask` submits, take it, and do it in this process.

        Row, lock and status are committed together: killed at any moment, no run is left waiting in vain, and no
        session finds it running without a holder.
        """
        with connect_to_hold(self.lock_url) as holder:
            queue.reap_runs(holder)
            with holder.transaction():
                run_id = ask(holder)
                claim = queue.claim_run(holder, queue.name_process(), run_id)
            if claim is None:
                raise queue.make_lost_error(run_id)
            return self._finish_run(holder, claim, Watch(holder, claim, self.progress), options)

    def _finish_run(self, holder: Connection, claim: queue.Claim, watch: Watch, options: Reading) -> RunResult:
        from dbanon.runs import pipeline  # with Arrow

        url, measure = self.target.url, self._measure_run
        return pipeline.finish_run(
            self.connection, url, holder, claim, watch, options=options, tasks=self.tasks, evaluate=measure
        )

    @accept_options(publishing.Publishing)
    def publish(self, run_id: int, name: str, options: publishing.Publishing) -> tuple[int, tuple[str, ...]]:
        """Publish a verified run as ``published.<name>``. Returns the number of rows and the server's notices.

        By default all analysts may read it, or the readers of what it replaces. Sessions that read what it replaces
        have 5 seconds to end, unless `end_readers`. A reason has three words or more.

        Raises
        ------
        DbanonError
            If it is refused, which `runs` and ``dbanon.audit`` say too.
        """
        with translate_errors():
            return releases.publish(self.connection, run_id, name, options)

    def unpublish(self, name: str, *, end_readers: bool = False, at: str | datetime | None = None) -> tuple[str, ...]:
        """Withdraw a release. Its view and rows go, and the record of what readers learnt from it stays.

        With `end_readers` the sessions that read it are ended, instead of giving up after 5 seconds; then only those of
        superusers keep a part of it for a while. `at` withdraws only the part of that time from a release that grows,
        while readers go on reading the others. Returns the server's notices.
        """
        with translate_errors():
            return releases.unpublish(self.connection, name, end_readers=end_readers, at=at)

    def runs(self) -> list[dict[str, Any]]:
        """List all runs, newest last."""
        with translate_errors():
            queue.reap_runs(self.connection)
            return stored.list_runs(self.connection)

    def check(self) -> list[dict[str, Any]]:
        """List problems: level (1 late or odd, 2 held up, 3 not known), about, what, since, remedy."""
        with translate_errors():
            return stored.list_health(self.connection)

    @accept_options(scheduling.AddingJob)
    def add_job(self, name: str, options: scheduling.AddingJob) -> tuple[int, tuple[str, ...]]:
        """Add a job that dbanon does every night, or change one. Returns its number and the server's notices.

        What is new in `source` is loaded, the period that has ended is computed and published as a part of the release
        `name`. Nothing is done before a session of its owner runs it: ``dbanon worker --schedule``, or `run_jobs`.
        """
        with translate_errors():
            return jobs.add_job(self.connection, name, options)

    def apply_jobs(self, file: str | os.PathLike[str]) -> tuple[dict[str, str], list[str], tuple[str, ...]]:
        """Add or change the jobs of a file, as ``dbanon job apply``; returns what it did, the other jobs, notices."""
        with translate_errors():
            return jobs.apply_jobs(self.connection, Path(file))

    def jobs(self, name: str | None = None) -> list[dict[str, Any]]:
        """List the jobs and how they fare, or the past periods of one, as ``dbanon.job_runs`` has them."""
        with translate_errors():
            return jobs.list_jobs(self.connection, name)

    def plan_job(self, name: str, periods: int = 7) -> list[dict[str, Any]]:
        """Predict the next periods of a job. It writes nothing."""
        with translate_errors():
            return jobs.plan_job(self.connection, name, periods)

    def run_jobs(
        self, name: str | None = None, *, wait: bool = True, strict: bool = False
    ) -> tuple[int, int, tuple[str, ...]]:
        """Take all steps of this login's jobs, or of one, that are due.

        Returns their number, how many periods are held, and the server's notices; with `strict`, periods that are held
        are an error. Workers compute the runs; `wait` waits for them.
        """
        with translate_errors():
            return jobs.run_jobs(self.connection, name, wait=wait, strict=strict)

    def steer_job(
        self, name: str, action: str, *, since: datetime | str | None = None, reason: str | None = None
    ) -> int:
        """Pause, resume or remove a job, or retry or skip its periods. Returns how many it changed.

        Parameters
        ----------
        action : {"pause", "resume", "retry", "skip", "remove"}
        since : datetime or str, optional
            The beginning of the period to retry or skip; by default all that are held.
        reason : str, optional
            Why one is skipped, in three words or more; recorded.
        """
        with translate_errors():
            return jobs.steer_job(self.connection, name, action, since, reason)

    @needs("compute")
    @finish_progress
    @accept_options(evaluating.Evaluating)
    def evaluate(self, run: int | str, options: evaluating.Evaluating) -> Evaluation:
        """Measure how useful the rows of a run are, against the private data. The figures are for operators alone.

        Nothing is published, and the figures are kept in ``dbanon.evaluations``.

        Parameters
        ----------
        run : int or str
            Its number, or the name of a live release.

        Returns
        -------
        dbanon.results.figures.Evaluation
            A release that grows gives the evaluation of its newest part whose data are as they were. `others` has those
            of the other live parts, and `notes` name the parts whose data are gone.

        Raises
        ------
        VerificationFailed
            If a true count lies outside the bounds that are told, which is a defect of dbanon.
        """
        from dbanon.evaluation import evaluating as evaluation  # with Numba

        return evaluation.evaluate(self.connection, self.target.url, run, options, self.progress)

    def card(self, name: str) -> releases.Card:
        """Describe a release, live or withdrawn: promise, attack, shares left out, login and time of publication."""
        return releases.read_card(self.connection, name)

    def releases(self) -> list[dict[str, Any]]:
        """List all releases, withdrawn ones too, newest last."""
        return releases.list_releases(self.connection)

    def drop(self, run_id: int) -> int:
        """Delete a run that was never published and is not being worked on. Returns how many cloaks it deleted."""
        return stored.drop_run(self.connection, run_id)

    def release_rows(self, name: str, limit: int = 10) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Read rows of a published view with the analyst's rights."""
        with translate_errors():
            return releases.read_first_rows(self.connection, name, limit)

    @needs("files")
    def read(self, release: str, *, where: str | None = None, params: Params | None = None) -> "geopandas.GeoDataFrame":
        """Read a release as a frame, with an analyst's rights. It needs ``dbanon[files]``.

        Parameters
        ----------
        where : str, optional
            A condition in SQL on the columns: ``"crowd > 5"``. It is part of a query that runs with your own rights
            and is not checked, so put no text of others into it; give their values as `params`. Functions of PostGIS
            and of the schema ``published`` need no schema's name in it.
        params : sequence or mapping, optional
            Values for ``%s`` or ``%(name)s`` in `where`: ``where="crowd > %s", params=[5]``. With values, a ``%`` of
            the condition's own is written ``%%``.

        Returns
        -------
        geopandas.GeoDataFrame
            The columns of the view, without the range `period` that older ones have, in the order of `cloak_id`;
            `region` is the geometry; JSON is text. `attrs` has ``release`` and ``promise``.

        Raises
        ------
        ParameterError
            If there is no such release that this login may read, or the server refuses the condition.
        """
        from dbanon.releases import frames  # with GeoPandas

        return frames.build_frame(self.connection, release, where=where, params=params)

    @finish_progress
    def export(
        self, release: str, file: str | os.PathLike[str], *, where: str | None = None, params: Params | None = None
    ) -> int:
        """Write the rows of a release to a file, with an analyst's rights. Returns how many rows it wrote.

        Parameters
        ----------
        file : path
            Its suffix names the format: ``.csv``, ``.geojson``, or with ``dbanon[files]`` ``.parquet`` (GeoParquet),
            ``.gpkg`` and ``.fgb``. Replaced when all is written; else nothing is left, and what was there stays. The
            promise is in its metadata; that of a CSV file in a text file beside it.
        where, params
            As for `read`.

        Raises
        ------
        ParameterError
            As for `read`, or if the suffix is another.
        DataError
            If the file cannot be written.
        """
        return export.write(self.connection, release, Path(file), where=where, params=params, progress=self.progress)

    @finish_progress
    @accept_options(reporting.Reporting)
    def report(self, what: str | int, options: reporting.Reporting) -> str | Path:
        """Make the page of a release or a run: promise, attack, maps, shares left out.

        The page is one HTML file without scripts, which loads nothing. The pages for an officer's file and for analysts
        show no true position; the latter is made with an analyst's rights alone. With `with_truth` the page is private:
        its file has PRIVATE in its name and is its owner's alone, and ``dbanon.audit`` gets its digest.

        Parameters
        ----------
        what : str or int
            The name of a live release, or the number of a run.

        Returns
        -------
        str or pathlib.Path
            The page; or, with `output`, the file that it was written to.

        Raises
        ------
        ParameterError
            If there is no such release that this login may read, no such run, or it has no rows.
        DataError
            If the file cannot be written: then nothing is left of it.
        """
        from dbanon.reports import reporting as pages  # with NumPy

        self.progress("reading rows", 0, None)
        private = self._open_private() if options.with_truth else None
        html = pages.report(self.connection, what, options, private)
        if options.output is None:
            return html
        return pages.write(options.output, html, private=options.with_truth)

    def _open_private(self) -> "pages.Private":
        extras.demand("compute", what="--with-truth")
        from dbanon.evaluation import evaluating as evaluation  # with Numba
        from dbanon.reports import reporting as pages

        return pages.Private(
            choose_part=partial(evaluation.choose_part, self.connection),
            find_positions=partial(evaluation.find_positions, self.connection),
            evaluate=self._measure_run,
        )

    def _measure_run(self, run_id: int, progress: Progress | None = None) -> Evaluation:
        from dbanon.evaluation import evaluating as evaluation  # with SciPy

        options = evaluating.Evaluating()
        return evaluation.evaluate(self.connection, self.target.url, run_id, options, progress or self.progress)

    @finish_progress
    @accept_options(reporting.Writing)
    def compare(self, one: str | int, other: str | int, options: reporting.Writing) -> str | Path:
        """Make a page of two releases or runs side by side, as `report` does. It shows no true position.

        Those of different methods are not ranked. Returns the page; or, with `output`, the file that it is written to.
        """
        from dbanon.reports import reporting as pages

        self.progress("reading rows", 0, None)
        html = pages.compare(self.connection, one, other, options)
        return html if options.output is None else pages.write(options.output, html, private=False)


@contextmanager
def _note_what_remains(run_id: int) -> Iterator[None]:
    """Add to the error of a publication what remains: the verified run."""
    try:
        yield
    except DbanonError as error:
        remains = f"Run {run_id} is verified: `dbanon publish {run_id} NAME` needs no other run."
        error.args = (f"{error} {remains}", *error.args[1:])
        raise


def open_database(dsn: str | None = None, announce: Callable[[str], None] | None = None) -> Database:
    """Resolve a DSN, migrate the embedded server if that is what is used, check the schema of any other.

    Parameters
    ----------
    dsn : str, optional
        See `dbanon.connect`.
    announce : callable, optional
        Called with the name of the server in use, before anything is done there.

    Raises
    ------
    SchemaMismatch
        If the schema is missing or of another revision. A login that may not look at it, as an analyst's, is not asked
        for it: it can read releases, and is refused all else by the server.
    """
    target = server.resolve(dsn)
    if announce is not None:
        announce(target.label)
    with translate_errors():
        database = Database(target)
        try:
            _prepare_schema(database)
        except BaseException:
            database.close()
            raise
    return database


def _prepare_schema(database: Database) -> None:
    """Migrate the embedded server, and no other, unasked; demand the revision that this program needs."""
    if database.target.embedded:
        schema.upgrade_embedded(database.target.url)
    if schema.is_open(database.connection):
        schema.demand_revision(database.connection)
