"""Measures the figures that papers report for a release, and attacks that no promise covers."""

from collections.abc import Iterator

import numpy as np

from dbanon.base.figures import Figure, Movements
from dbanon.base.trajectory import Float, Int, Trajectories
from dbanon.metrics import distributions, outside, sequences
from dbanon.metrics.distributions import Tally
from dbanon.runs import _told
from dbanon.runs._told import Box, Counted, Span, Table, Told

CELL_M, ZONE_M = 1000.0, 3000.0
TRIP_SPANS, TRIP_S = 6, 1800.0
"""Number of spans whose trips are compared, and their length unless the rows have another."""
_MAX_PLACES = 5_000_000  # fixes of the people among whom others are unique
_SQUARE_M, _SQUARE_COUNT, _CLASS_COUNT = 2000.0, 20, 4
_LINK_S = 600.0
_SLOT_S = 3600.0  # of the points by which people are unique: an hour, as in the paper


def compare_maps(told: Told, true: Movements, spans: list[Span]) -> Iterator[Figure]:
    """Compare maps of people, cell by cell, at some times."""
    both = [(_told.count_density(true, CELL_M, span), told.answer_density(CELL_M, span)) for span in spans]
    tallies = [_stack_counts([pair[side] for pair in both]) for side in (0, 1)]
    yield Figure(name="density_jsd", value=distributions.measure_density_jsd(*tallies))
    yield Figure(
        name="location_tau_b", value=distributions.measure_location_tau_b(*(_drop_times(one) for one in tallies))
    )


def compare_flows(told: Told, true: Movements, box: Box, spans: list[Span]) -> Iterator[Figure]:
    """Compare the numbers of people by origin and destination."""
    side = _told.compute_zone_side(box, ZONE_M)
    both = [(_told.count_trips(true, side, box, span), told.answer_trips(side, box, span)) for span in spans]
    tallies = [_stack_counts([pair[side] for pair in both]) for side in (0, 1)]
    yield Figure(name="trip_jsd", value=distributions.measure_trip_jsd(*(_drop_times(one) for one in tallies)))
    yield Figure(name="flow_error", value=distributions.measure_tally_error(*tallies))


def compare_dwelling(
    table: Table, true: Movements, box: Box, spans: list[Span], *, instants: float, rng: np.random.Generator
) -> Figure:
    """Compare the times of stays in squares: up to a quarter of a span, a half, three quarters, or all of it.

    A span has `instants` instants. Squares and spans are drawn with `rng`.
    """
    low, high = np.array(box[:2]), np.array(box[2:])
    told, true_ = [], []
    for _ in range(_SQUARE_COUNT):
        x, y = (low + (high - low) * rng.random(2) - _SQUARE_M / 2).tolist()
        span, square = spans[rng.integers(len(spans))], (x, y, x + _SQUARE_M, y + _SQUARE_M)
        people, stay = table.answer_dwell(square, span)
        told.append(_sum_by_stay(stay, people, instants))
        stay = _told.measure_stays(true, square, span)
        true_.append(_sum_by_stay(stay, np.ones(len(stay)), instants))
    return Figure(
        name="dwell_error", value=distributions.measure_tally_error(_stack_counts(true_), _stack_counts(told))
    )


def _sum_by_stay(stay: Float, people: Float, instants: float) -> Counted:
    """Sum people by the time that they stay; people expected for less than half an instant do not count."""
    length = np.ceil(np.round(stay) / instants * _CLASS_COUNT - 1e-9)
    found = np.arange(1, _CLASS_COUNT + 1)
    return np.column_stack([found, found]), np.array([people[length == one].sum() for one in found])


def compare_ways(told: Movements, true: Movements) -> Iterator[Figure]:
    """Compare lengths, diameters and patterns of tracks, by the centres of regions."""
    yield Figure(name="length_jsd", value=sequences.measure_length_jsd(true, told))
    yield Figure(name="diameter_jsd", value=sequences.measure_diameter_jsd(true, told))
    patterns = sequences.compare_patterns(true, told, CELL_M)
    yield Figure(name="pattern_f1", value=patterns.f1)
    yield Figure(name="pattern_support", value=patterns.support)


def draw_people(data: Trajectories, rng: np.random.Generator) -> Int:
    """Choose the people among whom others are unique, ascending: all, or a sample if there are very many fixes."""
    people = np.arange(data.subjects)
    if data.fixes <= _MAX_PLACES:
        return people
    return np.sort(rng.choice(people, int(len(people) * _MAX_PLACES / data.fixes), replace=False))


def measure_unicity(raw: Movements, rng: np.random.Generator) -> tuple[Figure, ...]:
    """Measure the share of people whom a few places and hours of the raw data single out."""
    return outside.measure_unicity(raw, rng, cell_m=CELL_M, slot_s=_SLOT_S)


def measure_linking(
    true: Movements, told: Movements, member_of: tuple[Int, Int], *, is_rounded: bool, rng: np.random.Generator
) -> Figure:
    """Take for each person the published record that is nearest to the person's true way.

    Parameters
    ----------
    is_rounded : bool
        Whether positions are compared in slots of ten minutes, because rows that hold at some time share no instants
        with fixes.
    """
    if is_rounded:
        true, told = _round_times(true), _round_times(told)
    return outside.link_nearest(true, told, member_of, rng)


def _round_times(moved: Movements) -> Movements:
    slot = np.floor(moved.t / _LINK_S) * _LINK_S
    first = np.unique(np.column_stack([moved.track, slot]), axis=0, return_index=True)[1]
    return Movements(
        person=moved.person[first],
        track=moved.track[first],
        t=slot[first],
        x=moved.x[first],
        y=moved.y[first],
        weight=moved.weight[first],
    )


def measure_regions(side_m: Float, time_s: Float, people: Float) -> Iterator[Figure]:
    """Give the 10, 50 and 90 % quantiles of the longer sides and the times of rows, weighted by people and time.

    All are float64[c]: metres, seconds, and the people that each row stands for.
    """
    for name, values in (("region_side_m", side_m), ("region_time_s", time_s)):
        found = distributions.find_weighted_quantiles(values, people * time_s)
        for share, value in zip((10, 50, 90), found, strict=True):
            yield Figure(name=f"{name}_{share}", value=value)


def _stack_counts(counted: list[Counted]) -> Tally:
    """Put counts of several times into one tally, whose keys begin with the number of the time."""
    keys = [np.column_stack([np.full(len(some), i), some]) for i, (some, _) in enumerate(counted)]
    empty: Int = np.empty((0, 3), np.int64)
    return Tally(
        keys=np.concatenate([empty, *keys]), values=np.concatenate([np.empty(0), *(people for _, people in counted)])
    )


def _drop_times(tally: Tally) -> Tally:
    """Drop the time from keys, so that all times count as one."""
    return Tally(keys=tally.keys[:, 1:], values=tally.values)
