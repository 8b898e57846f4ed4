"""Measures how useful the rows of a run are: asks them what analysts would ask, and compares with the private data.

The answers are those of the functions of schema published, asked of a temporary table of the run's rows in the form of
a release. Nothing is published. Coverage is a gate: where bounds do not hold the truth of what a run publishes, dbanon
is wrong, and no figure is given.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import shapely
from psycopg.rows import dict_row

from dbanon import methods
from dbanon.base.dataset import DatasetRow
from dbanon.base.errors import ParameterError, StoreError, VerificationFailed, counted
from dbanon.base.figures import Answers, Evaluation, Figure, Movements, Questions, Rectangles
from dbanon.base.progress import Progress
from dbanon.base.trajectory import Float, Int
from dbanon.methods.parsing import quoted
from dbanon.metrics.counts import count_figures, within
from dbanon.metrics.questions import draw_questions, sides_note, true_counts
from dbanon.options.evaluating import ENOUGH_QUERIES, Evaluating
from dbanon.postgres import arrow
from dbanon.postgres.connection import Connection, connect, errors_translated, one
from dbanon.runs import _field, kept, queue, reading, stored
from dbanon.runs._foreign import Foreign
from dbanon.runs._told import SPAN_S, Box, Span, Table
from dbanon.runs._truth import Members, Rows, Truth, window

_MAX_ASKED = 100_000  # rows in that table, which 4,000 questions then ask for half a minute
_LEAST_RECORDS = 1_000  # of a sample of them
_HALVED = 200  # questions by which a sample is judged
_MAX_ROWS = 2_000_000  # in the temporary table: about 20 s to copy and index
_WINDOW_PLACES = 1_000_000  # positions that make the window
_MAX_CENTRES = 300_000  # rows of whole records


@dataclass(frozen=True, kw_only=True)
class _About:
    """What a run says of itself, as a release would; `said` is all of it, as the server reads it."""

    said: str
    rows: int
    since: float
    until: float
    holds: str
    step_s: int | None
    window_s: int | None

    @property
    def instants(self) -> Float | None:
        """All instants of the run's rows; None where rows hold at some time."""
        if self.holds != "instant":
            return None
        return np.arange(self.since, self.until, self.step_s) if self.step_s else np.array([self.since])


def demand_fit(connection: Connection, run_id: int) -> stored.RunRow:
    """Look a run up that can be evaluated: verified, with rows, of a dataset that is as it was.

    Raises
    ------
    ParameterError
        If there is no such run, or it is none of these.
    StoreError
        If the login may not read what runs wrote.
    """
    row = stored.run_row(connection, run_id)
    if not queue.may_compute(connection):
        raise StoreError(
            "An evaluation must be made by a login that may read what runs wrote. This one may not; "
            "have dbanon_worker granted, or read dbanon.evaluations."
        )
    if row.status != "verified":
        raise ParameterError(
            f"A run must be verified to be evaluated. Run {run_id} is {row.status}. List the runs: `dbanon runs`."
        )
    revision = one(connection, "SELECT revision FROM dbanon.dataset WHERE dataset_id = %s", [row.dataset_id])
    if row.dataset_revision != revision:
        raise ParameterError(
            f"A run must be evaluated against the data that it was computed from. Those of run {run_id} changed since, "
            "or some of them were forgotten; run it again."
        )
    if not one(connection, "SELECT EXISTS (SELECT FROM dbanon.record WHERE run_id = %s)", [run_id]):
        raise ParameterError(f"A run must have rows to be evaluated. Run {run_id} has none.")
    return row


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A live release, or a live part of one that grows: its run, its time, and whether its data are as they were."""

    run_id: int
    period: tuple[datetime, datetime] | None
    fit: bool


def _parts(connection: Connection, name: str) -> list[_Part]:
    """List the live parts of a release, the newest first; raises `ParameterError` if there are none."""
    query = (
        "SELECT l.run_id, l.withdrawn_at IS NULL, lower(l.bounds), upper(l.bounds), "
        "r.dataset_revision = d.revision AND l.rows > 0 FROM dbanon.release l "
        "JOIN dbanon.run r USING (run_id) JOIN dbanon.dataset d USING (dataset_id) WHERE l.name = %s "
        "ORDER BY upper(l.bounds) DESC NULLS LAST, l.release_id DESC"
    )
    found = connection.execute(query, [name]).fetchall()
    live = [
        _Part(run_id=run_id, period=(since, until) if since else None, fit=fit)
        for run_id, shown, since, until, fit in found
        if shown
    ]
    if not live:
        fault = "was withdrawn" if found else "is not there"
        raise ParameterError(
            f"A release must be live to be measured by its name. {quoted(name)} {fault}; list them: `dbanon releases`."
        )
    return live


def _first(parts: list[_Part]) -> _Part:
    """Choose the newest part whose data are as they were; the newest of all where there is none."""
    return next((part for part in parts if part.fit), parts[0])


def _said(name: str, parts: list[_Part]) -> tuple[str, ...]:
    """Say which part is shown in full, and which cannot be measured; nothing where it is the only one."""
    if len(parts) == 1:
        return ()
    said = [f"Release {name} has {counted(len(parts), 'part')}; this is that of run {_first(parts).run_id}."]
    if gone := [str(part.run_id) for part in parts if not part.fit]:
        said.append(
            f"These runs have no rows, or their data changed since or were forgotten: {', '.join(gone)}. They were not "
            "measured again."
        )
    return tuple(said)


def chosen_part(connection: Connection, name: str) -> tuple[int, tuple[str, ...], dict[int, Evaluation]]:
    """Choose the newest part of a live release whose dataset is as it was, or the newest of all; and name the others.

    Returns
    -------
    int
        Its run.
    tuple of str
        Sentences; none where it is the only part.
    dict
        What was measured of the parts before, by run.

    Raises
    ------
    ParameterError
        If there is no live release of that name.
    """
    parts = _parts(connection, name)
    said = _said(name, parts)
    if said:
        said = (*said, f"Figures of the other parts are the last ones that `dbanon evaluate {name}` kept.")
    return _first(parts).run_id, said, kept.latest(connection, [part.run_id for part in parts], "published")


def positions(
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
    row = stored.run_row(connection, run_id)
    with errors_translated(), connection.transaction():
        data, _ = reading.trajectories(arrow.Snapshot(connection, arrow.postgis(connection)), row.dataset_id)
    none = np.empty(0, np.int64)
    truth = Truth(data, Members(record=none, trajectory=none), row.params)
    found = truth.everybody(np.array([at // data.grid_s * data.grid_s]))
    inside = np.isin(found.person, data.subject[np.isin(data.trajectory_id, list(group))])
    return list(zip(found.x.tolist(), found.y.tolist(), inside.tolist(), strict=True))


def evaluate(
    connection: Connection,
    url: str,
    run: int | str,
    asked: Evaluating,
    progress: Progress,
) -> Evaluation:
    """Measure a run, or each part of a release, and keep the figures in ``dbanon.evaluation``.

    Parameters
    ----------
    connection : psycopg.Connection
        Looks the run up, and keeps the figures.
    url : str
        For a session of its own, in which rows and data are read in one state.
    run : int or str
        Its number, or the name of a live release. Of one that grows, the evaluation is that of the newest part whose
        data are as they were, and has the others.

    Raises
    ------
    VerificationFailed
        If a true count lies outside its bounds. Of a release that grows, newer parts than that one were kept.
    ParameterError, StoreError
        As for `demand_fit`.
    """
    with errors_translated():
        if isinstance(run, str):
            return _of_parts(connection, url, run, asked, progress)
        return _keeping(connection, url, run, asked, progress)


def _of_parts(connection: Connection, url: str, name: str, asked: Evaluating, progress: Progress) -> Evaluation:
    """Measure the live parts of a release whose data are as they were; of the others, give what was kept before."""
    parts = _parts(connection, name)
    first = _first(parts)
    chosen = [part.run_id for part in parts if part.fit or part is first]
    found = kept.latest(connection, [part.run_id for part in parts if not part.fit], asked.against)
    for number, run_id in enumerate(chosen, 1):
        about = f"part {number} of {len(chosen)} (run {run_id}): " if len(chosen) > 1 else ""
        found[run_id] = _keeping(connection, url, run_id, asked, _prefixed(progress, about))
    others = [replace(found[p.run_id], period=p.period) for p in parts if p is not first and p.run_id in found]
    newest = found[first.run_id]
    return replace(newest, period=first.period, others=tuple(others), notes=(*_said(name, parts), *newest.notes))


def _prefixed(progress: Progress, about: str) -> Progress:
    return lambda stage, done, total: progress(f"{about}{stage}", done, total)


def _keeping(connection: Connection, url: str, run_id: int, asked: Evaluating, progress: Progress) -> Evaluation:
    row = demand_fit(connection, run_id)
    measured = _measured(url, row, asked, progress)
    kept.keep(connection, kept.of_run(row, measured), measured)
    return measured


def measure(connection: Connection, url: str, run_id: int, asked: Evaluating, progress: Progress) -> Evaluation:
    """Measure a run as `evaluate` does, and keep nothing."""
    row = demand_fit(connection, run_id)
    with errors_translated():
        return _measured(url, row, asked, progress)


def _measured(url: str, row: stored.RunRow, asked: Evaluating, progress: Progress) -> Evaluation:
    with _session(url) as snapshot:
        demand_fit(snapshot.connection, row.run_id)  # again: data may have come or gone before this state was taken
        return _Measurement(snapshot, row, asked, progress).evaluation()


@contextmanager
def _session(url: str) -> Iterator[arrow.Snapshot]:
    """Have a transaction that sees one state of the database, and may make temporary tables."""
    with connect(url) as session, session.transaction():
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield arrow.Snapshot(session, arrow.postgis(session))


def evaluate_file(
    url: str,
    dataset: DatasetRow,
    read: Callable[[Box], Movements | Rectangles],
    asked: Evaluating,
    progress: Progress,
    *,
    name: str,
) -> Evaluation:
    """Measure the output of another program against a dataset; nothing is kept.

    Parameters
    ----------
    read : callable
        Reads it, given the box of the data.
    name : str
        Of the file.

    Raises
    ------
    DataError
        If it cannot be used, or says nothing of the dataset's time.
    """
    with errors_translated(), _session(url) as snapshot:
        return Foreign(snapshot, dataset, asked, progress).evaluation(name, read)


class _Measurement:
    """The steps of one evaluation, in their order."""

    def __init__(self, snapshot: arrow.Snapshot, row: stored.RunRow, asked: Evaluating, progress: Progress) -> None:
        self.snapshot, self.session, self.row, self.asked = snapshot, snapshot.connection, row, asked
        self.progress = progress
        self.rng = np.random.default_rng(asked.seed)
        self.notes: list[str] = []
        self.about = self._about()

    def evaluation(self) -> Evaluation:
        self.progress("reading trajectories", 0, None)
        self.data, _ = reading.trajectories(self.snapshot, self.row.dataset_id)
        self.truth = Truth(self.data, self._members(), self.row.params)
        instants, spans = self._times()
        box = self._window(instants, spans)
        questions = draw_questions(
            self.rng,
            window=box,
            moments=np.empty(0) if instants is None else instants,
            spans=spans,
            queries=self.asked.queries,
            about_moments=instants is not None,
        )
        self.notes += sides_note(questions)
        self.progress("copying rows", 0, None)
        self.one_in = self._sampling()
        self.rows = self._copy(questions)
        self.progress("finding the truth", 0, None)
        true = true_counts(self._positions(questions.since, questions.until), questions)
        table = Table(session=self.session, said=self.about.said, postgis=self.snapshot.postgis)
        answers = table.counts(questions, self.progress)
        if self.asked.against == "published":
            self._demand_coverage(true, answers)
        covered = within(true, answers)
        if self.one_in > 1:
            true, answers = self._of_all(table, questions, true, answers)
        self.progress("measuring", 0, None)
        figures = [
            *self._of_run(),
            *count_figures(questions, true, answers, people=self.data.subjects, rng=self.rng, covered=covered),
            *self._of_field(table, box, questions),
            *self._of_sample(),
        ]
        return self._measured(tuple(figures), questions, true, answers)

    def _measured(self, figures: tuple[Figure, ...], questions: Questions, true: Float, answers: Answers) -> Evaluation:
        return Evaluation(
            run_id=self.row.run_id,
            source=f"run {self.row.run_id} ({self.row.method}, {self.row.algorithm})",
            dataset=self.row.dataset,
            against=self.asked.against,
            queries=self.asked.queries,
            seed=self.asked.seed,
            figures=figures,
            questions=questions,
            true=true,
            answers=answers,
            notes=tuple(self.notes),
            run=self._kept(),
        )

    # ---- what is asked ---------------------------------------------------------------------------------------------

    def _about(self) -> _About:
        query = (
            "SELECT a::text AS said, a.rows, extract(epoch FROM a.since)::float8 AS since, "
            "extract(epoch FROM a.until)::float8 AS until, a.holds, a.step_s, a.window_s "
            "FROM dbanon_internal.run_about(%s) a"
        )
        with self.session.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(query, [self.row.run_id]).fetchone()
        return _About(**(found or {}))

    def _members(self) -> Members:
        query = f"SELECT record_id, trajectory_id FROM dbanon_internal.membership_evidence({int(self.row.run_id)})"
        table = arrow.table(self.snapshot, query)
        record, trajectory = (arrow.numbers(table[name]).astype(np.int64) for name in table.column_names)
        at = np.searchsorted(self.data.trajectory_id, trajectory)
        pairs = np.unique(np.column_stack([record, at]), axis=0)
        return Members(record=pairs[:, 0].copy(), trajectory=pairs[:, 1].copy())

    def _times(self) -> tuple[Float | None, Float]:
        """Give the instants that can be asked about, None if none can, and spans of ten minutes.

        Of a run with very many rows, only some: then its rows can be copied.
        """
        about, instants = self.about, self.about.instants
        step = float(about.step_s or self.data.grid_s)
        last = max(about.until - SPAN_S, about.since)
        starts = np.arange(about.since, last + 1e-6, step)
        slots = max((about.until - about.since) / step, 1)
        if self.asked.queries < ENOUGH_QUERIES:
            asked = counted(self.asked.queries, "question")
            self.notes.append(f"Each size was asked {asked}, which makes wide intervals.")
        if (share := _MAX_ROWS / max(about.rows, 1)) < 1:
            moments = max(int(slots * share / 2), 1) if instants is not None else 0
            windows = max(int((slots * share - moments) * step / SPAN_S), 1)
            starts = np.sort(self.rng.choice(starts, min(windows, len(starts)), replace=False))
            if instants is not None:
                instants = np.sort(self.rng.choice(instants, min(moments, len(instants)), replace=False))
            self.notes.append(
                f"The run has {counted(about.rows, 'row')}; those at {counted(moments, 'moment')} and of "
                f"{counted(len(starts), 'span')} of ten minutes were asked, chosen at random: intervals do not say how "
                "much other times differ."
            )
        return instants, np.column_stack([starts, starts + SPAN_S])

    def _window(self, instants: Float | None, spans: Float) -> Box:
        """Find where questions are asked: a box with 95 % of all people's positions."""
        if instants is None:
            chosen = self.rng.choice(len(spans), min(len(spans), 24), replace=False)
            return window(self.truth.seen(spans[chosen]))
        number = max(min(len(instants), 100, _WINDOW_PLACES // max(self.data.subjects, 1)), 1)
        return window(self.truth.everybody(self.rng.choice(instants, number, replace=False)))

    def _copy(self, questions: Questions) -> Rows:
        """Copy the rows that questions are about into a temporary table, and read when they hold."""
        self.session.execute("SELECT dbanon_internal.begin_asking()")
        given = [self.row.run_id, self._asked_times(questions), self.one_in]
        self.session.execute("SELECT dbanon_internal.copy_run_rows(%s, %s::tstzmultirange, %s)", given)
        self.session.execute("SELECT dbanon_internal.finish_asked()")
        return self._rows("pg_temp.asked_rows")

    def _asked_times(self, questions: Questions) -> str:
        """Write the times of all questions as the server reads them; all there are, where all rows can be copied."""
        times = np.unique(np.column_stack([questions.since, questions.until]), axis=0)
        if self.about.rows <= _MAX_ROWS:
            times = np.array([[self.about.since, self.about.until]])
        some = [f"[{low},{high}{']' if low == high else ')'}" for low, high in _as_times(times)]
        return f"{{{','.join(some)}}}"

    def _sampling(self) -> int:
        """Choose one in how many records is asked: all, unless they have so many rows that questions take minutes."""
        rows = min(self.about.rows, _MAX_ROWS)
        if rows <= _MAX_ASKED:
            return 1
        records = one(self.session, "SELECT count(*) FROM dbanon.record WHERE run_id = %s", [self.row.run_id])
        records = records * rows // self.about.rows
        return int(max(min(rows // (_MAX_ASKED // 2), records // _LEAST_RECORDS), 1))

    def _of_all(self, table: Table, questions: Questions, true: Float, answers: Answers) -> tuple[Float, Answers]:
        """Make the truth and the answers of all records of those of a sample, and say how far off the sample is.

        The answers of half of the records, doubled, differ from those of all in the sample as far as these do from
        those of all records.
        """
        part = Questions(**{name: value[:: len(value) // _HALVED + 1] for name, value in vars(questions).items()})
        half = table.counts_of_half(part, self.one_in, self.progress)
        apart = 2 * half.expected - answers.expected[:: len(answers.expected) // _HALVED + 1]
        if self.asked.against == "published":
            times = self._asked_times(questions)
            everything = self._rows(
                f"dbanon.cloak WHERE run_id = {self.row.run_id} AND period && '{times}'::tstzmultirange"
            )
            true = true_counts(self._positions(questions.since, questions.until, everything), questions)
        off = self.one_in * np.sqrt((apart**2).mean()) / max(true.mean(), 1.0)
        self.notes.append(
            f"Of the run's records, one in {self.one_in} was asked, and its answers multiplied. That alone puts counts "
            f"off by about {off:.1%}, which is part of their error. Bounds are those of these records and their people."
        )
        return true, Answers(**{name: self.one_in * value for name, value in vars(answers).items()})

    def _rows(self, source: str) -> Rows:
        region = f"{self.snapshot.postgis}.ST_AsBinary(region)" if self.about.holds != "instant" else "NULL::bytea"
        table = arrow.table(
            self.snapshot,
            "SELECT record_id, date_part('epoch', lower(period)) AS since, date_part('epoch', upper(period)) AS until, "
            f"{region} AS region FROM {source}",
        )
        wkb = table["region"].combine_chunks().dictionary_encode()
        shapes = shapely.from_wkb(wkb.dictionary.to_numpy(zero_copy_only=False))
        shapely.prepare(shapes)
        return Rows(
            record=arrow.numbers(table["record_id"]),
            since=arrow.numbers(table["since"]),
            until=arrow.numbers(table["until"]),
            shapes=shapes,
            shape=wkb.indices.to_numpy(zero_copy_only=False),
        )

    def _positions(self, since: Float, until: Float, rows: Rows | None = None) -> Movements:
        """Find the true positions at some times, each a moment or a span: of some rows, by default those asked."""
        rows = self.rows if rows is None else rows
        instants, everybody = self.about.instants, self.asked.against == "all"
        if instants is None:
            spans = np.unique(np.column_stack([since, until]), axis=0)
            return self.truth.seen(spans) if everybody else self.truth.covered(rows)
        instants = instants[_met(instants, since, until)]
        return self.truth.everybody(instants) if everybody else self.truth.of_rows(rows, instants)

    def _demand_coverage(self, true: Float, answers: Answers) -> None:
        outside = int((~within(true, answers)).sum())
        if outside:
            raise VerificationFailed(
                f"Every true count must lie within its bounds. For run {self.row.run_id} "
                f"{outside:,} of {len(true):,} do not, which is a defect of dbanon or a change of its rows; do not "
                "publish it, and report it."
            )

    # ---- figures ---------------------------------------------------------------------------------------------------

    def _of_run(self) -> Iterator[Figure]:
        yield Figure(name="published_share", value=published_share(self.row.suppressed))
        total = methods.method(self.row.method).totals.get("requests")
        asked = stored.latest_verdict(self.session, self.row.run_id).figures.get(total) if total else None
        if asked:
            left_out = sum((self.row.suppressed.get("requests") or {}).values())
            yield Figure(name="requests_published", value=1 - left_out / asked)
        own = f"{self.snapshot.postgis}.ST_Area(region)"
        query = (
            f"SELECT sqrt({own}) AS side, date_part('epoch', valid_to - valid_from) AS length, "
            "subjects::float8 AS people FROM pg_temp.asked_rows"
        )
        table = arrow.table(self.snapshot, query)
        yield from _field.regions(*(arrow.numbers(table[name]) for name in ("side", "length", "people")))

    def _of_field(self, table: Table, box: Box, questions: Questions) -> Iterator[Figure]:
        """Compare maps, flows and stays at some of the times that were asked about."""
        about = self.about
        hours = self._some(questions, moment=about.instants is not None, most=24)
        true = self._positions(*_ends(hours))
        yield from _field.maps(table, true, hours)
        if about.holds == "instant" and not about.step_s:
            return  # nobody moves
        spans = self._trips(questions)
        true = self._positions(*_ends(spans))
        yield from _field.flows(table, true, box, spans)
        if about.step_s:
            instants = (spans[0][1] - spans[0][0]) / about.step_s
            yield _field.dwelling(table, true, box, spans, instants=instants, rng=self.rng)

    def _some(self, questions: Questions, *, moment: bool, most: int) -> list[Span]:
        """Choose one of the times asked about in each hour, and some of the hours; a moment as long as its slot."""
        chosen = questions.moment == moment
        times = np.unique(np.column_stack([questions.since, questions.until])[chosen], axis=0)
        times = times[np.unique(times[:, 0] // 3600, return_index=True)[1]]
        times = times[np.sort(self.rng.choice(len(times), min(most, len(times)), replace=False))]
        length = float(self.about.step_s or self.data.grid_s) if moment else 0.0
        return [(since, until + length) for since, until in times.tolist()]

    def _trips(self, questions: Questions) -> list[Span]:
        """Choose spans for trips: whole windows where records end with one, otherwise half an hour."""
        about = self.about
        if about.rows > _MAX_ROWS:
            return self._some(questions, moment=False, most=_field.TRIPS)
        length = float(about.window_s or _field.TRIP_S)
        starts = np.arange(about.since, max(about.until - length, about.since) + 1e-6, length)
        chosen = np.sort(self.rng.choice(starts, min(_field.TRIPS, len(starts)), replace=False))
        return [(since, min(since + length, about.until)) for since in chosen.tolist()]

    def _of_sample(self) -> Iterator[Figure]:
        """Compare whole records of a sample with the ways of their people, and attack outside of any promise."""
        told, rows = self._tracks()
        instants = self.about.instants
        if instants is None:
            true = self.truth.covered(rows)
        else:
            true = self.truth.of_rows(rows, instants[_met(instants, rows.since, rows.until)])
        if instants is None or len(instants) > 1:
            yield from _field.ways(told, true)
        people = _field.some_people(self.data, self.rng)
        if len(people) < self.data.subjects:
            self.notes.append(
                f"Unicity is among {counted(len(people), 'person', 'people')}; among all, fewer are unique."
            )
        yield from _field.unicity(self.truth.raw(people), self.rng)
        yield _field.linking(true, told, self.truth.members(told.track), rounded=instants is None, rng=self.rng)

    def _tracks(self) -> tuple[Movements, Rows]:
        """Read whole records, of many some: as the centres of their regions, and as rows."""
        number = int(self.row.run_id)
        record = arrow.numbers(
            arrow.table(self.snapshot, f"SELECT record_id FROM ONLY dbanon.record WHERE run_id = {number}")["record_id"]
        ).astype(np.int64)
        most = max(int(_MAX_CENTRES / max(self.about.rows / max(len(record), 1), 1)), 1)
        if len(record) > most:
            self.notes.append(
                f"Lengths, diameters, patterns and linking are of {counted(most, 'record')}, chosen at random: among "
                "more, fewer are linked."
            )
            record = self.rng.choice(record, most, replace=False)
        source = (
            f"(SELECT * FROM dbanon.cloak WHERE run_id = {number} "
            f"AND record_id = ANY ('{{{','.join(map(str, record))}}}')) c"
        )
        own = self.snapshot.postgis
        table = arrow.table(
            self.snapshot,
            f"SELECT record_id, date_part('epoch', lower(period)) AS t, {own}.ST_X({own}.ST_Centroid(region)) AS x, "
            f"{own}.ST_Y({own}.ST_Centroid(region)) AS y, subjects::float8 AS people FROM {source}",
        )
        record, t, x, y, people = (arrow.numbers(table[name]) for name in table.column_names)
        order = np.lexsort((t, record))
        record = record[order]
        told = Movements(person=record, track=record, t=t[order], x=x[order], y=y[order], weight=people[order])
        return told, self._rows(source)

    def _kept(self) -> dict[str, Any]:
        """Give what is kept of the run when it is dropped."""
        row = self.row
        return {
            "status": row.status,
            "metrics": dict(row.metrics),
            "suppressed": dict(row.suppressed),
            "timings": dict(row.timings),
            "peak_rss_mb": row.peak_rss_mb,
            "rows": self.about.rows,
        }


def published_share(suppressed: Any) -> float | None:
    """Divide the people x hours that a run publishes by those that it saw; None where it does not say."""
    hours = suppressed.get("by_hour") or []
    seen, published = (sum(int(hour.get(name, 0)) for hour in hours) for name in ("seen", "published"))
    return published / seen if seen else None


def _as_times(times: Float) -> list[list[str]]:
    """Write unix seconds as the server reads them."""
    text = np.datetime_as_string(np.round(times * 1e6).astype("datetime64[us]"), timezone="UTC")
    return [list(pair) for pair in text.tolist()]


def _ends(spans: list[Span]) -> tuple[Float, Float]:
    since, until = np.array(spans).reshape(-1, 2).T
    return since, until


def _met(instants: Float, since: Float, until: Float) -> Int:
    """Find the instants at or within some times."""
    low = np.searchsorted(instants, since, "left")
    high = np.maximum(np.searchsorted(instants, until, "left"), low + (since == until))
    change = np.bincount(low, minlength=len(instants) + 1) - np.bincount(high, minlength=len(instants) + 1)
    return np.flatnonzero(np.cumsum(change)[:-1] > 0)
