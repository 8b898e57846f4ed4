"""The figures that papers report of what a program writes, and those of counts that `dbanon evaluate` has of a run.

`benchmarks/peers.py` compares programs by them. Nobody chooses a setting by those of papers: they look best where
squares are small and counts are worst, or measure attacks outside of any promise.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.figures import answers, sequences, tallies
from benchmarks.figures.answers import Counted, Points, Span, Table, Told
from benchmarks.figures.files import Rectangles, Tracks, read
from benchmarks.figures.tallies import Tally
from dbanon.base.trajectory import Float, Trajectories
from dbanon.evaluation.measurement import SPAN_S, Box
from dbanon.evaluation.truth import Truth, find_window
from dbanon.metrics.counts import measure_counts
from dbanon.metrics.questions import count_true_answers, draw_questions
from dbanon.postgres import arrow
from dbanon.postgres.connection import connect, find_postgis_schema
from dbanon.results.figures import Answers, Figure, Questions
from dbanon.runs import reading, stored

CELL_M, ZONE_M = 1000.0, 3000.0
TRIP_SPANS, TRIP_S = 6, 1800.0
"""Number of spans whose trips are compared, and their length."""
SANITY_SHARE = 0.01
"""The query error divides by this share of all people at least."""
FIGURES = (
    *("count_error", "bias", "bounds_width", "coverage", "usable_resolution_m", "query_error"),
    *("density_jsd", "location_tau_b", "trip_jsd", "flow_error", "length_jsd", "diameter_jsd"),
    *("pattern_f1", "pattern_support"),
)
"""All that `evaluate_file` measures."""


def evaluate_file(url: str, dataset: str, file: Path, *, queries: int, seed: int = 1) -> list[Figure]:
    """Measure a file of a dataset: it is asked over ten minutes, since its times differ, and the truth is all fixes.

    Everything that the program left out is an error, too.
    """
    with connect(url) as session, session.transaction():
        snapshot, row = arrow.Snapshot(session, find_postgis_schema(session)), stored.find_dataset(session, dataset)
        data, _ = reading.read_trajectories(snapshot, row.dataset_id)
        told, rng, truth = read(file, row.srid), np.random.default_rng(seed), Truth(data, {})
        spans = _draw_spans(told, data, rng)
        box = find_window(truth.find_seen(spans[:24]))
        questions = draw_questions(rng, box=box, moments=np.empty(0), spans=spans, queries=queries)
        source: Told = Points(tracks=told) if isinstance(told, Tracks) else Table.write(snapshot, row.srid, told)
        seen = Tracks.from_truth(truth.find_seen(np.column_stack([questions.since, questions.until])))
        true, said = count_true_answers(seen, questions), source.answer_counts(questions)
        hours = [(since, since + SPAN_S) for since in questions.since[:24].tolist()]
        trips = [(since, since + TRIP_S) for since in spans[:TRIP_SPANS, 0].tolist()]
        raw = Tracks.from_truth(truth.find_seen(np.array([[data.t.min(), data.t.max() + 1]])))
        return [
            *measure_counts(questions, true, said, rng=rng),
            *measure_query_errors(questions, true, said, data.subjects),
            *compare_maps(source, seen, hours),
            *compare_flows(source, Tracks.from_truth(truth.find_seen(np.array(trips))), box, trips),
            *compare_ways(told if isinstance(told, Tracks) else told.centres, raw),
        ]


def _draw_spans(told: Tracks | Rectangles, data: Trajectories, rng: np.random.Generator) -> Float:
    """Draw spans within the time that a file and the data have in common."""
    since, until = (told.t, told.t) if isinstance(told, Tracks) else (told.since, told.until)
    low, high = max(float(data.t.min()), float(since.min())), min(float(data.t.max()), float(until.max()))
    starts = rng.uniform(low, max(high - SPAN_S, low), 10_000)
    return np.column_stack([starts, starts + SPAN_S])


def measure_query_errors(questions: Questions, true: Float, said: Answers, people: int) -> Iterator[Figure]:
    """Measure the error that papers report, mean (|e - a| / max(a, 0.01 n)), by the side of squares.

    Source: Gursoy et al., CCS 2018 (n points there), and LDPTrace, PVLDB 16(8), 2023.
    """
    off = np.abs(said.expected - true) / np.maximum(true, SANITY_SHARE * people)
    for side in np.unique(questions.side_m).tolist():
        yield Figure(name="query_error", value=float(off[questions.side_m == side].mean()), side_m=side, asked="span")


def compare_maps(told: Told, true: Tracks, spans: list[Span]) -> Iterator[Figure]:
    """Compare maps of people, cell by cell, at some times."""
    both = [(answers.count_density(true, CELL_M, span), told.answer_density(CELL_M, span)) for span in spans]
    stacked = [_stack_counts([pair[side] for pair in both]) for side in (0, 1)]
    yield Figure(name="density_jsd", value=tallies.measure_density_jsd(*stacked))
    yield Figure(name="location_tau_b", value=tallies.measure_location_tau_b(*map(_drop_times, stacked)))


def compare_flows(told: Told, true: Tracks, box: Box, spans: list[Span]) -> Iterator[Figure]:
    """Compare the numbers of people by origin and destination."""
    side = answers.compute_zone_side(box, ZONE_M)
    both = [(answers.count_trips(true, side, box, span), told.answer_trips(side, box, span)) for span in spans]
    stacked = [_stack_counts([pair[side] for pair in both]) for side in (0, 1)]
    yield Figure(name="trip_jsd", value=tallies.measure_trip_jsd(*map(_drop_times, stacked)))
    yield Figure(name="flow_error", value=tallies.measure_tally_error(*stacked))


def compare_ways(told: Tracks, true: Tracks) -> Iterator[Figure]:
    """Compare lengths, diameters and patterns of tracks, by the centres of regions."""
    yield Figure(name="length_jsd", value=sequences.measure_length_jsd(true, told))
    yield Figure(name="diameter_jsd", value=sequences.measure_diameter_jsd(true, told))
    patterns = sequences.compare_patterns(true, told, CELL_M)
    yield Figure(name="pattern_f1", value=patterns.f1)
    yield Figure(name="pattern_support", value=patterns.support)


def _stack_counts(counted: list[Counted]) -> Tally:
    """Put counts of several times into one tally, whose keys begin with the number of the time."""
    keys = [np.column_stack([np.full(len(some), i), some]) for i, (some, _) in enumerate(counted)]
    empty = np.empty((0, 3), np.int64)
    return Tally(
        keys=np.concatenate([empty, *keys]), values=np.concatenate([np.empty(0), *(people for _, people in counted)])
    )


def _drop_times(tally: Tally) -> Tally:
    """Drop the time from keys, so that all times count as one."""
    return Tally(keys=tally.keys[:, 1:], values=tally.values)
