"""Measures how useful the rows of a run are: asks them what analysts would ask, and compares with the private data.

The answers are those of the functions of schema published, asked of a temporary table of the run's rows in the form of
a release. Nothing is published. Coverage is a gate: where bounds do not hold the truth of what a run publishes, dbanon
is wrong, and no figure is given.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import psycopg

from dbanon.base.errors import ParameterError, StoreError, format_count
from dbanon.base.progress import Progress
from dbanon.evaluation import evaluation_store
from dbanon.evaluation.measurement import Measurement
from dbanon.evaluation.truth import Truth
from dbanon.methods.parsing import quote_text
from dbanon.options.evaluating import Evaluating
from dbanon.postgres import arrow
from dbanon.postgres.connection import Connection, connect, find_postgis_schema, translate_errors
from dbanon.results.figures import Evaluation
from dbanon.runs import own_data, queue, reading, stored


def _demand_fit(connection: Connection, run_id: int) -> stored.RunRow:
    """Look a run up that can be evaluated: verified, with rows.

    Raises `ParameterError` if there is no such run, or it is none of these; `StoreError` if the login may not read what
    runs wrote.
    """
    row = stored.find_run(connection, run_id)
    if not queue.may_compute(connection):
        raise StoreError(
            "An evaluation must be made by a login that may read the rows of runs. This one may not. Have "
            "dbanon_worker granted, or read dbanon.evaluations."
        )
    if row.status != "verified":
        raise ParameterError(
            f"A run must be verified to be evaluated. Run {run_id} is {row.status}. List the runs: `dbanon runs`."
        )
    if not stored.has_rows(connection, run_id):
        raise ParameterError(f"A run must have rows to be evaluated. Run {run_id} has none.")
    return row


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A live release, or a live part of one that grows: its run, its time, and whether its data may be as they were."""

    run_id: int
    period: tuple[datetime, datetime] | None
    is_there: bool  # with rows; `own_data` finds out whether its data are as they were


def _list_parts(connection: Connection, name: str) -> list[_Part]:
    """List the live parts of a release, the newest first; raises `ParameterError` if there are none."""
    query = (
        "SELECT l.run_id, l.withdrawn_at IS NULL, lower(l.bounds), upper(l.bounds), "
        "(r.data_digest IS NOT NULL OR r.dataset_revision = d.revision) AND l.rows > 0 FROM dbanon.release l "
        "JOIN dbanon.run r USING (run_id) JOIN dbanon.dataset d USING (dataset_id) WHERE l.name = %s "
        "ORDER BY upper(l.bounds) DESC NULLS LAST, l.release_id DESC"
    )
    rows = connection.execute(query, [name]).fetchall()
    live = [
        _Part(run_id=run_id, period=(since, until) if since else None, is_there=is_there)
        for run_id, shown, since, until, is_there in rows
        if shown
    ]
    if not live:
        fault = "was withdrawn" if rows else "is not there"
        raise ParameterError(
            f"A release must be live to be measured by its name. {quote_text(name)} {fault}. "
            "List the releases: `dbanon releases`."
        )
    return live


def _find_first(connection: Connection, parts: list[_Part]) -> _Part:
    """Choose the newest part whose data are as they were; the newest of all where there is none."""
    for part in parts:
        if part.is_there:
            with suppress(own_data.ChangedError), connection.transaction():
                snapshot = arrow.Snapshot(connection, find_postgis_schema(connection))
                own_data.read_own(snapshot, stored.find_run(connection, part.run_id))
                return part
    return parts[0]


def _note_parts(name: str, parts: list[_Part], first: _Part, changed: Collection[int] = ()) -> tuple[str, ...]:
    """Say which part is shown in full, and which cannot be measured; nothing where it is the only one."""
    if len(parts) == 1:
        return ()
    notes = [f"Release {name} has {format_count(len(parts), 'part')}. This is that of run {first.run_id}."]
    if gone := [str(part.run_id) for part in parts if not part.is_there or part.run_id in changed]:
        notes.append(
            f"These runs have no rows, or their data changed since or were forgotten: {', '.join(gone)}. They were not "
            "measured again."
        )
    return tuple(notes)


def choose_part(connection: Connection, name: str) -> tuple[int, tuple[str, ...], dict[int, Evaluation]]:
    """Choose the newest part of a live release whose dataset is as it was, or the newest of all; and name the others.

    Returns
    -------
    int
        Its run.
    tuple of str
        Sentences; none where it is the only part.
    dict
        What was measured of the parts before, by run.

    Raises `ParameterError` if there is no live release of that name.
    """
    parts = _list_parts(connection, name)
    with translate_errors():
        first = _find_first(connection, parts)
    notes = _note_parts(name, parts, first)
    if notes:
        notes = (*notes, f"Figures of the other parts are the last ones that `dbanon evaluate {name}` kept.")
    return first.run_id, notes, evaluation_store.find_latest(connection, [part.run_id for part in parts], "published")


def find_positions(
    connection: Connection, run_id: int, at: float, group: Collection[int]
) -> list[tuple[float, float, bool]]:
    """Find where the people of a run's dataset were at a time, as the run found it.

    Parameters
    ----------
    group : collection of int
        Trajectories.

    Returns
    -------
    list of (x, y, bool)
        Of each person with a position, and whether one of the trajectories is the person's.
    """
    row = stored.find_run(connection, run_id)
    with translate_errors(), connection.transaction():
        data, _ = reading.read_trajectories(arrow.Snapshot(connection, find_postgis_schema(connection)), row.dataset_id)
    movements = Truth(data, row.params).find_everybody(np.array([at // data.grid_s * data.grid_s]))
    inside = np.isin(movements.person, data.subject[np.isin(data.trajectory_id, list(group))])
    return list(zip(movements.x.tolist(), movements.y.tolist(), inside.tolist(), strict=True))


def evaluate(connection: Connection, url: str, run: int | str, options: Evaluating, progress: Progress) -> Evaluation:
    """Measure a run, or each part of a release, and keep the figures in ``dbanon.evaluation``.

    Parameters
    ----------
    connection : psycopg.Connection
        Looks the run up, and keeps the figures.
    url : str
        For a session of its own, in which rows and data are read in one state.
    run : int or str
        Its number, or the name of a live release. A release that grows gives the evaluation of the newest part whose
        data are as they were, which has the others.

    Raises
    ------
    VerificationFailed
        If a true count lies outside its bounds. The figures of newer parts of a release that grows stay kept.
    ParameterError, StoreError
        If it cannot be evaluated: `_demand_fit` says when.
    """
    with translate_errors():
        if isinstance(run, str):
            return _evaluate_parts(connection, url, run, options, progress)
        return _evaluate_and_keep(connection, url, run, options, progress)


def _evaluate_parts(connection: Connection, url: str, name: str, options: Evaluating, progress: Progress) -> Evaluation:
    """Measure the newest live part of a release whose data are as they were, and others that nobody measured so.

    Of the rest, give what was kept before.
    """
    parts = _list_parts(connection, name)
    first, changed = _find_first(connection, parts), set[int]()
    latest = evaluation_store.find_latest(connection, [part.run_id for part in parts], options.against)
    same = {run for run, one in latest.items() if (one.queries, one.seed) == (options.queries, options.seed)}
    for number, (run_id, is_there) in enumerate(((part.run_id, part.is_there) for part in parts), 1):
        if run_id == first.run_id or (is_there and run_id not in same):
            about = f"part {number} of {len(parts)} (run {run_id}): " if len(parts) > 1 else ""
            try:
                latest[run_id] = _evaluate_and_keep(connection, url, run_id, options, _prefix_progress(progress, about))
            except own_data.ChangedError:
                if run_id == first.run_id:
                    raise
                changed.add(run_id)
    newest, notes = latest[first.run_id], _note_parts(name, parts, first, changed)
    others = [replace(latest[p.run_id], period=p.period) for p in parts if p is not first and p.run_id in latest]
    return replace(newest, period=first.period, others=tuple(others), notes=(*notes, *newest.notes))


def _prefix_progress(progress: Progress, about: str) -> Progress:
    return lambda stage, done, total: progress(f"{about}{stage}", done, total)


def _evaluate_and_keep(
    connection: Connection, url: str, run_id: int, options: Evaluating, progress: Progress
) -> Evaluation:
    measured = measure(url, run_id, options, progress)
    evaluation_store.keep(
        connection, evaluation_store.make_key(stored.find_run(connection, run_id), measured), measured
    )
    return measured


def measure(url: str, run_id: int, options: Evaluating, progress: Progress) -> Evaluation:
    """Measure a run as `evaluate` does, in one state of the database, and keep nothing."""
    with translate_errors(), connect(url) as session:
        # For the temporary table and its indexes. A pooler may give a session that has used temporary tables: it keeps
        # its size.
        with suppress(psycopg.errors.InvalidParameterValue):
            session.execute("SET temp_buffers = '256MB'")
        with session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            row = _demand_fit(session, run_id)
            return Measurement(arrow.Snapshot(session, find_postgis_schema(session)), row, options, progress).evaluate()
