"""Measures the output of another program with the code that measures runs. None of it is kept."""

from collections.abc import Callable, Iterator

import numpy as np

from dbanon.base.cloaks import find_longer_sides
from dbanon.base.dataset import DatasetRow
from dbanon.base.errors import DataError
from dbanon.base.figures import Evaluation, Figure, Movements, Questions, Rectangles
from dbanon.base.progress import Progress
from dbanon.base.trajectory import Float
from dbanon.metrics.counts import measure_counts
from dbanon.metrics.questions import count_true_answers, draw_questions, note_sides
from dbanon.options.evaluating import Evaluating
from dbanon.postgres import arrow
from dbanon.postgres.connection import fetch_value
from dbanon.runs import _field, reading
from dbanon.runs._told import SPAN_S, Box, Points, Table
from dbanon.runs._truth import Members, Truth, find_window

_MIN_SIDE_M = 0.001  # least side of a rectangle, because shares are divided by its area
_TRUTH_SENTENCE = (
    "The truth is all fixes of all people in ten minutes. Everything that the program left out is an error, too."
)


class Foreign:
    """The steps of an evaluation of another program's output, asked over ten minutes, since its times differ."""

    def __init__(self, snapshot: arrow.Snapshot, dataset: DatasetRow, asked: Evaluating, progress: Progress) -> None:
        self.snapshot, self.session, self.dataset, self.asked = snapshot, snapshot.connection, dataset, asked
        self.progress = progress
        self.rng = np.random.default_rng(asked.seed)

    def evaluate(self, name: str, read: Callable[[Box], Movements | Rectangles]) -> Evaluation:
        """Ask it, and compare; `read` and `name` as for `dbanon.runs.evaluating.evaluate_file`."""
        self.progress("reading trajectories", 0, None)
        self.data, _ = reading.read_trajectories(self.snapshot, self.dataset.dataset_id)
        data, none = self.data, np.empty(0, np.int64)
        self.truth = Truth(data, Members(record=none, trajectory=none), {})
        output = read((float(data.x.min()), float(data.y.min()), float(data.x.max()), float(data.y.max())))
        spans = self._draw_spans(output, float(data.t.min()), float(data.t.max()))
        box = find_window(self.truth.find_seen(spans[:24]))
        questions = draw_questions(
            self.rng, box=box, moments=np.empty(0), spans=spans, queries=self.asked.queries, asks_moments=False
        )
        told: Table | Points = Points(movements=output) if isinstance(output, Movements) else self._write_table(output)
        seen = self.truth.find_seen(np.column_stack([questions.since, questions.until]))
        true, answers = count_true_answers(seen, questions), told.answer_counts(questions, self.progress)
        self.progress("measuring", 0, None)
        figures = [
            *measure_counts(questions, true, answers, people=data.subjects, rng=self.rng),
            *self._measure_maps(told, seen, box, spans, questions),
            *self._measure_tracks(output),
        ]
        return Evaluation(
            run_id=None,
            source=name,
            dataset=self.dataset.name,
            against="all",
            queries=self.asked.queries,
            seed=self.asked.seed,
            figures=tuple(figures),
            questions=questions,
            true=true,
            answers=answers,
            notes=(_TRUTH_SENTENCE, *note_sides(questions)),
        )

    def _measure_maps(
        self, told: Table | Points, seen: Movements, box: Box, spans: Float, questions: Questions
    ) -> Iterator[Figure]:
        trips = [(since, since + _field.TRIP_S) for since in spans[: _field.TRIP_SPANS, 0].tolist()]
        hours = [(since, since + SPAN_S) for since in questions.since[:24].tolist()]
        yield from _field.compare_maps(told, seen, hours)
        yield from _field.compare_flows(told, self.truth.find_seen(np.array(trips)), box, trips)

    def _measure_tracks(self, output: Movements | Rectangles) -> Iterator[Figure]:
        raw = self.truth.find_fixes(_field.draw_people(self.data, self.rng))
        yield from _field.compare_ways(output if isinstance(output, Movements) else output.centres, raw)
        yield from _field.measure_unicity(raw, self.rng)
        if not isinstance(output, Movements):
            lasts = output.until - output.since
            sides_m = find_longer_sides(*(output.bounds[:, 2:] - output.bounds[:, :2]).T)
            yield from _field.measure_regions(sides_m, lasts, output.subjects.astype(np.float64))

    def _draw_spans(self, output: Movements | Rectangles, first: float, last: float) -> Float:
        """Draw spans within the time that the output and the data have in common."""
        since, until = (output.t, output.t) if isinstance(output, Movements) else (output.since, output.until)
        low, high = max(first, float(since.min())), min(last, float(until.max()))
        if low > high:
            raise DataError(
                "The output must be of a time that the dataset has. Got another time. "
                "Choose the dataset that it was made from."
            )
        starts = self.rng.uniform(low, max(high - SPAN_S, low), 10_000)
        return np.column_stack([starts, starts + SPAN_S])

    def _write_table(self, output: Rectangles) -> Table:
        """Put rectangles into the temporary table, as rows that hold at some time."""
        self.session.execute("SELECT dbanon_internal.begin_asking()")
        low, high = output.bounds[:, :2], np.maximum(output.bounds[:, 2:], output.bounds[:, :2] + _MIN_SIDE_M)
        until = np.maximum(output.until, output.since + 1)
        envelope = f"{self.snapshot.postgis}.ST_MakeEnvelope(r.xmin, r.ymin, r.xmax, r.ymax, %s)"
        arrays = (output.record, output.since, until, *low.T, *high.T, output.subjects)
        self.session.execute(
            "INSERT INTO pg_temp.asked_rows "
            "SELECT r.record, row_number() OVER (PARTITION BY r.record ORDER BY r.since), "
            f"tstzrange(to_timestamp(r.since), to_timestamp(r.until)), {envelope}, r.subjects, r.subjects, "
            "to_timestamp(r.since), to_timestamp(r.until) FROM unnest(%s::bigint[], %s::float8[], %s::float8[], "
            "%s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::integer[]) "
            "r (record, since, until, xmin, ymin, xmax, ymax, subjects)",
            [self.dataset.srid, *(array.tolist() for array in arrays)],
        )
        self.session.execute("SELECT dbanon_internal.finish_asked()")
        box = [*low.min(axis=0).tolist(), *high.max(axis=0).tolist()]
        said = fetch_value(
            self.session,
            "SELECT (ROW('the file', NULL, NULL, NULL, t.since, t.until, %s, %s, 'some time', NULL, NULL, NULL, "
            "%s::float8[], 1, ARRAY[t.since], ARRAY[t.until], NULL)::published.releases)::text "
            "FROM (SELECT to_timestamp(%s) AS since, to_timestamp(%s) AS until) t",
            [self.dataset.srid, len(until), box, float(output.since.min()), float(until.max())],
        )
        return Table(session=self.session, said=str(said), postgis=self.snapshot.postgis)
