"""The steps of one evaluation: draws questions, asks a run's rows, finds the truth, and compares."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from psycopg.rows import dict_row

from dbanon import methods
from dbanon.base.cloaks import find_longer_sides
from dbanon.base.errors import VerificationFailed, format_count
from dbanon.base.progress import Progress
from dbanon.base.trajectory import Float, Int
from dbanon.evaluation.truth import Members, Rows, Truth, find_last, find_window, number_groups
from dbanon.metrics.counts import is_within, measure_counts, measure_intervals, measure_noise, measure_regions
from dbanon.metrics.questions import count_true_answers, draw_questions, note_sides
from dbanon.options.evaluating import ENOUGH_QUERIES, Evaluating
from dbanon.postgres import arrow
from dbanon.postgres.connection import Connection, fetch_value
from dbanon.results.figures import Answers, Evaluation, Figure, Questions
from dbanon.runs import _blocks, own_data, stored

_MAX_SPAN_ROWS = 20_000  # rows of ten minutes: 4,000 questions then take half a minute
_MIN_SAMPLED_GROUPS = 600  # of a sample of them
_QUESTIONS_PER_JUDGE = 4  # of so many questions one judges a sample
_MAX_ROWS = 2_000_000  # in the temporary table: about 20 s to copy and index
_MAX_WINDOW_PLACES = 1_000_000  # positions that make the window
_QUESTIONS_PER_STATEMENT = 100  # so that progress is shown and Ctrl-C is heard

Box = tuple[float, float, float, float]
SPAN_S = 600.0
"""How long the spans last that are asked about."""
ASKED_ROWS = "'pg_temp.asked_rows'"


@dataclass(frozen=True, kw_only=True)
class _About:
    """What a run says of itself, as a release would; `literal` is all of it, as the server reads it."""

    literal: str
    rows: int
    since: float
    until: float
    holds: str
    step_s: int | None
    window_s: int | None
    near_s: float  # where rows hold at some time, a person is at a moment where the last row of so many seconds says

    @property
    def instants(self) -> Float:
        """All moments that can be asked about: instants of the run's rows, or each minute."""
        if self.holds != "instant":
            return np.arange(self.since, self.until, 60.0)
        return np.arange(self.since, self.until, self.step_s) if self.step_s else np.array([self.since])


class Measurement:
    """The steps of one evaluation, in their order."""

    def __init__(self, snapshot: arrow.Snapshot, row: stored.RunRow, options: Evaluating, progress: Progress) -> None:
        self.snapshot, self.session, self.row, self.options = snapshot, snapshot.connection, row, options
        self.progress = progress
        self.rng = np.random.default_rng(options.seed)
        self.notes: list[str] = []
        self.about = self._read_about()

    def evaluate(self) -> Evaluation:
        """Take all steps, in their order."""
        self.progress("reading trajectories", 0, None)
        self.data = own_data.read_own(self.snapshot, self.row)
        self.truth = Truth(self.data, self.row.params, self._read_members())
        self.one_in = self._choose_sample()
        instants, spans = self._choose_times()
        box = self._find_window(instants, spans)
        questions = draw_questions(
            self.rng,
            box=box,
            moments=instants,
            spans=spans,
            queries=self.options.queries,
        )
        self.notes += note_sides(questions)
        self.progress("copying rows", 0, None)
        self.rows = self._copy_rows(questions)
        self.progress("finding the truth", 0, None)
        true = self._count_truth(questions)
        answers = ask_rows(self.session, self.about.literal, ASKED_ROWS, questions, self.progress)
        if self.options.against == "published":
            self._demand_coverage(true, answers)
        covered, noise = is_within(true, answers), np.zeros(len(true))
        intervals = measure_intervals(questions, true, answers)
        if self.one_in > 1:
            true, answers, noise = self._scale_up(questions, true, answers)
        self.progress("measuring", 0, None)
        figures = [
            *self._measure_rows(),
            *intervals,
            *measure_counts(questions, true, answers, rng=self.rng, covered=covered, noise=noise),
        ]
        return self._report(tuple(figures), questions, true, answers)

    def _report(self, figures: tuple[Figure, ...], questions: Questions, true: Float, answers: Answers) -> Evaluation:
        return Evaluation(
            run_id=self.row.run_id,
            source=f"run {self.row.run_id} ({self.row.method}, {self.row.algorithm})",
            dataset=self.row.dataset,
            against=self.options.against,
            queries=self.options.queries,
            seed=self.options.seed,
            figures=figures,
            questions=questions,
            true=true,
            answers=answers,
            notes=tuple(self.notes),
            run=self._describe_run(),
        )

    # ---- what is asked ---------------------------------------------------------------------------------------------

    def _read_about(self) -> _About:
        query = (
            "SELECT a::text AS literal, a.rows, extract(epoch FROM a.since)::float8 AS since, "
            "extract(epoch FROM a.until)::float8 AS until, a.holds, a.step_s, a.window_s, "
            "published_inner.near_s()::float8 AS near_s "
            "FROM dbanon_internal.describe_as_release(%s) a"
        )
        with self.session.cursor(row_factory=dict_row) as cursor:
            about = cursor.execute(query, [self.row.run_id]).fetchone()
        return _About(**(about or {}))

    def _read_members(self) -> Members:
        members = _blocks.read_members(self.snapshot, self.row.run_id)
        # Each of some records alike stands for one of their people, not said which: they are asked together or not.
        self.record, self.group = number_groups(members.record, members.trajectory)
        own = np.isin(members.trajectory, self.data.trajectory_id)  # not those with fixes at other times alone
        at = np.searchsorted(self.data.trajectory_id, members.trajectory[own])
        return Members.from_pairs(members.record[own], at)

    def _choose_times(self) -> tuple[Float, Float]:
        """Give the moments that can be asked about, and spans of ten minutes.

        Of a run with very many rows, only some: then its rows can be copied.
        """
        about, instants = self.about, self.about.instants
        step = float(about.step_s or self.data.grid_s)
        last = max(about.until - SPAN_S, about.since)
        starts = np.arange(about.since, last + 1e-6, step)
        if self.one_in > 1 and about.window_s:
            starts = starts[(starts - about.since) % about.window_s + SPAN_S <= about.window_s]
        slots = max((about.until - about.since) / step, 1)
        if self.options.queries < ENOUGH_QUERIES:
            options = format_count(self.options.queries, "question")
            self.notes.append(f"Each size was asked {options}, which makes wide intervals.")
        if (share := _MAX_ROWS / max(about.rows, 1)) < 1:
            moments = max(int(slots * share / 2), 1)
            windows = max(int((slots * share - moments) * step / SPAN_S), 1)
            starts = np.sort(self.rng.choice(starts, min(windows, len(starts)), replace=False))
            instants = np.sort(self.rng.choice(instants, min(moments, len(instants)), replace=False))
            self.notes.append(
                f"The run has {format_count(about.rows, 'row')}. The rows at {format_count(moments, 'moment')} and of "
                f"{format_count(len(starts), 'span')} of ten minutes were asked, chosen at random: intervals do not "
                "say how much other times differ."
            )
        return instants, np.column_stack([starts, starts + SPAN_S])

    def _find_window(self, instants: Float, spans: Float) -> Box:
        """Find where questions are asked: a box with 95 % of all people's positions."""
        if self.about.holds != "instant":
            chosen = self.rng.choice(len(spans), min(len(spans), 24), replace=False)
            return find_window(self.truth.find_seen(spans[chosen]))
        number = max(min(len(instants), 100, _MAX_WINDOW_PLACES // max(self.data.subjects, 1)), 1)
        return find_window(self.truth.find_everybody(self.rng.choice(instants, number, replace=False)))

    def _copy_rows(self, questions: Questions) -> Rows:
        """Copy the rows that questions are about into a temporary table, and read when they hold."""
        self.session.execute("SELECT dbanon_internal.begin_asking(%s)", [self.row.run_id])
        drawn = self.record[self.group % self.one_in == 0].tolist() if self.one_in > 1 else None
        params = [self.row.run_id, self._write_times(questions), drawn]
        self.session.execute("SELECT dbanon_internal.copy_run_rows(%s, %s::tstzmultirange, %s)", params)
        self.session.execute("SELECT dbanon_internal.finish_asked()")
        return self._read_rows()

    def _write_times(self, questions: Questions) -> str:
        """Write the times of all questions as the server reads them; all there are, where all rows can be copied."""
        times = np.unique(np.column_stack([questions.since, questions.until]), axis=0)
        if self.about.holds != "instant":
            times[times[:, 0] == times[:, 1], 0] -= self.about.near_s
        if self.about.rows <= _MAX_ROWS:
            times = np.array([[self.about.since, self.about.until]])
        some = [f"[{low},{high}{']' if low == high else ')'}" for low, high in _format_times(times)]
        return f"{{{','.join(some)}}}"

    def _choose_sample(self) -> int:
        """Choose one in how many groups is asked: all, unless questions meet so many rows that they take minutes."""
        about, number = self.about, int(self.row.run_id)
        # Among all people a sample says nothing. And whom it draws in one window, it does not draw in the next: its
        # questions lie within one, where a person has one record.
        if self.options.against == "all" or (about.window_s or SPAN_S) < SPAN_S:
            return 1
        query = (
            "SELECT coalesce(avg(extract(epoch FROM upper(c.period) - lower(c.period))), 0)::float8 "
            f"FROM dbanon.cloak c WHERE c.run_id = {number} AND c.record_id = ANY (ARRAY(SELECT r.record_id "
            f"FROM ONLY dbanon.record r WHERE r.run_id = {number} ORDER BY r.record_id LIMIT 1000))"
        )
        met = about.rows * min((SPAN_S + fetch_value(self.session, query)) / max(about.until - about.since, 1), 1)
        if met <= _MAX_SPAN_ROWS:
            return 1
        groups = int(self.group[-1]) * min(about.rows, _MAX_ROWS) // about.rows
        return int(max(min(3 * met // _MAX_SPAN_ROWS, groups // _MIN_SAMPLED_GROUPS), 1))

    def _scale_up(self, questions: Questions, true: Float, answers: Answers) -> tuple[Float, Answers, Float]:
        """Make the truth and the answers of all records of those of a sample, and find how far off that puts each.

        An answer and its truth are of the same groups. The error of half of these, doubled, differs from that of the
        sample by as much as this differs from that of all, but for the part of all that the sample is. One question in
        four is asked so, for itself and the next three.
        """
        chosen = slice(None, None, _QUESTIONS_PER_JUDGE)
        part = Questions(**{name: value[chosen] for name, value in vars(questions).items()})
        odd = self.record[self.group % (2 * self.one_in) == self.one_in]
        with self.session.transaction(force_rollback=True):
            self.session.execute("DELETE FROM pg_temp.asked_rows WHERE record_id = ANY (%s)", [odd.tolist()])
            estimate = ask_rows(self.session, self.about.literal, ASKED_ROWS, part, self.progress)
        half = estimate.expected - self._count_truth(part, self.rows.select(~np.isin(self.rows.record, odd)))
        noise = np.zeros(len(true))
        noise[chosen] = (
            _QUESTIONS_PER_JUDGE
            * self.one_in
            * (2 * half - (answers.expected - true)[chosen])
            * np.sqrt(1 - 1 / self.one_in)
        )
        true, answers = self.one_in * true, Answers(**{name: self.one_in * v for name, v in vars(answers).items()})
        low, high = measure_noise(questions, true, noise)
        self.notes.append(
            f"One in {self.one_in} of the run's groups of records was asked, and its answers multiplied. That puts "
            f"counts off by {low:.1%} to {high:.1%}, which was taken off their errors. Other samples differ as much. "
            "Bounds are those of these records and their people."
        )
        if self.about.window_s:
            self.notes.append(
                "The spans of ten minutes lie within one window each. Counts over spans that cross two are farther off."
            )
        return true, answers, noise

    def _count_truth(self, questions: Questions, rows: Rows | None = None) -> Float:
        """Count who truly was where questions ask: of some rows, by default those asked."""
        rows = self.rows if rows is None else rows
        if self.about.holds == "instant":
            instants = self.about.instants[_find_instants(self.about.instants, questions.since, questions.until)]
            everybody = self.options.against == "all"
            return count_true_answers(
                self.truth.find_everybody(instants) if everybody else self.truth.find_people(rows, instants), questions
            )
        true, is_moment = np.empty(len(questions.x)), questions.since == questions.until
        spans = np.unique(np.column_stack([questions.since - is_moment * self.about.near_s, questions.until]), axis=0)
        seen = self.truth.find_seen(spans) if self.options.against == "all" else self.truth.find_covered(rows)
        for chosen in (is_moment, ~is_moment):
            part = Questions(**{name: value[chosen] for name, value in vars(questions).items()})
            last = find_last(seen, np.unique(part.since), self.about.near_s) if chosen is is_moment else seen
            true[chosen] = count_true_answers(last, part)
        return true

    def _read_rows(self) -> Rows:
        region = f"{self.snapshot.postgis}.ST_AsBinary(region)" if self.about.holds != "instant" else "NULL::bytea"
        table = arrow.read_table(
            self.snapshot,
            "SELECT record_id, date_part('epoch', valid_from) AS since, date_part('epoch', valid_to) AS until, "
            f"{region} AS region FROM pg_temp.asked_rows",
        )
        wkb = table["region"].combine_chunks().dictionary_encode()
        shapes = shapely.from_wkb(wkb.dictionary.to_numpy(zero_copy_only=False))
        shapely.prepare(shapes)
        return Rows(
            record=arrow.convert_to_numbers(table["record_id"]),
            since=arrow.convert_to_numbers(table["since"]),
            until=arrow.convert_to_numbers(table["until"]),
            shapes=shapes,
            shape=wkb.indices.to_numpy(zero_copy_only=False),
        )

    def _demand_coverage(self, true: Float, answers: Answers) -> None:
        outside = int((~is_within(true, answers)).sum())
        if outside:
            raise VerificationFailed(
                f"Every true count must lie within its bounds. For run {self.row.run_id} {outside:,} of "
                f"{len(true):,} do not, which is a defect of dbanon or a change of its rows. Do not publish it, and "
                f"report it."
            )

    # ---- figures ---------------------------------------------------------------------------------------------------

    def _measure_rows(self) -> Iterator[Figure]:
        yield Figure(name="published_share", value=_divide_published(self.row.suppressed))
        total = methods.find_method(self.row.method).totals.get("requests")
        options = stored.find_latest_verdict(self.session, self.row.run_id).figures.get(total) if total else None
        if options:
            left_out = sum((self.row.suppressed.get("requests") or {}).values())
            yield Figure(name="requests_published", value=1 - left_out / options)
        wide, high = (f"{{0}}.ST_{axis}Max(region) - {{0}}.ST_{axis}Min(region)" for axis in "XY")
        query = (
            f"SELECT {wide} AS wide, {high} AS high, date_part('epoch', valid_to - valid_from) AS length, "
            "subjects::float8 AS people FROM pg_temp.asked_rows"
        ).format(self.snapshot.postgis)
        table = arrow.read_table(self.snapshot, query)
        wide_m, high_m, time_s, people = (arrow.convert_to_numbers(column) for column in table.columns)
        yield from measure_regions(find_longer_sides(wide_m, high_m), time_s, people)

    def _describe_run(self) -> dict[str, Any]:
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


def ask_rows(session: Connection, literal: str, relation: str, questions: Questions, progress: Progress) -> Answers:
    """Ask ``published.count_inside`` one question after the other.

    Parameters
    ----------
    literal : str
        What published.releases would say of the rows, as the server reads it.
    relation : str
        Of the rows, as a literal of SQL.
    """
    query = f"SELECT q.* FROM dbanon_internal.ask_rows(%s::published.releases, {relation}, %s, %s, %s, %s, %s) q"
    arrays = (questions.x, questions.y, questions.side_m, questions.since, questions.until)
    rows: list[Any] = []
    for first in range(0, len(questions.x), _QUESTIONS_PER_STATEMENT):
        progress("asking questions", first, len(questions.x))
        some = [array[first : first + _QUESTIONS_PER_STATEMENT].tolist() for array in arrays]
        rows += session.execute(query, [literal, *some]).fetchall()
    at_least, expected, at_most, deviation = np.array(rows).T
    return Answers(at_least=at_least, expected=expected, at_most=at_most, deviation=deviation)


def _divide_published(suppressed: Any) -> float | None:
    """Divide the people x hours that a run publishes by those that it saw; None where it does not say."""
    hours = suppressed.get("by_hour") or []
    seen, published = (sum(int(hour.get(name, 0)) for hour in hours) for name in ("seen", "published"))
    return published / seen if seen else None


def _format_times(times: Float) -> list[list[str]]:
    """Write unix seconds as the server reads them."""
    text = np.datetime_as_string(np.round(times * 1e6).astype("datetime64[us]"), timezone="UTC")
    return [list(pair) for pair in text.tolist()]


def _find_instants(instants: Float, since: Float, until: Float) -> Int:
    """Find the instants at or within some times."""
    low = np.searchsorted(instants, since, "left")
    high = np.maximum(np.searchsorted(instants, until, "left"), low + (since == until))
    change = np.bincount(low, minlength=len(instants) + 1) - np.bincount(high, minlength=len(instants) + 1)
    return np.flatnonzero(np.cumsum(change)[:-1] > 0)
